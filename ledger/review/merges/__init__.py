"""Near duplicates at the public surface."""
