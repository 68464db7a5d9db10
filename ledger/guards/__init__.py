"""Scanners of what is about to be recorded, each with a name and a version; their patterns are data files."""
