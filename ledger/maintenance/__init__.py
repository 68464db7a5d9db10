"""The care of a file at the public surface."""
