"""What belongs together: a name with aliases, and the state that people vouch for."""
