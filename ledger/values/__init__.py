"""Keyed values: events of the log so far; no command records them yet."""
