"""Generators of documentation pages, of the output of their examples, and of the patterns of the guards."""
