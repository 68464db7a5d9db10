"""Memories that cannot all be true."""
