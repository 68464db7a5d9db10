"""Scanners of the texts that are about to be recorded. Each scanner has a name and a version; its patterns are data files."""
