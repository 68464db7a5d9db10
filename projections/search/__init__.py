"""Text indexes, ranking, neighbors of turns, and vectors."""
