"""Writes what is generated: pages of the documentation, what their examples print, and the patterns of the guards."""
