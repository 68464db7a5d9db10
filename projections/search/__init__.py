"""Text indexes, ranking, context, vectors."""
