"""What several sources have in common, in one text."""
