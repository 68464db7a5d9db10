"""Conflicts between memories that cannot all be true."""
