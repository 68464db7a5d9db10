"""How one command and one read run."""
