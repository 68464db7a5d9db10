"""Projections of a user's own, as they are read."""
