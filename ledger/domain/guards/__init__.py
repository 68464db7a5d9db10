"""Scanners of what is about to be recorded: pure functions of a text, each with a name and a version."""
