"""Memories that say nearly the same."""
