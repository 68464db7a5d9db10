"""Vectors at the public surface."""
