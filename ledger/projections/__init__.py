"""Projections that users define, and reading their tables."""
