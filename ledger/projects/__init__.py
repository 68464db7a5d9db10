"""Projects: a name with aliases, and a trusted state that people set."""
