"""Observations: texts that state what several sources have in common."""
