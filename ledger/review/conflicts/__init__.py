"""Conflicts at the public surface."""
