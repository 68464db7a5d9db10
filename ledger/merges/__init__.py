"""Merges of memories that say nearly the same, and the shared parts of merges and conflicts."""
