"""Checks of the doors with the real programs on their other side."""
