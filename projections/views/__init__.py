"""One file a projection."""
