"""Erasure: what must go for good, from the log, the projections and the files; and what keeps it."""
