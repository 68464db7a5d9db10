"""What may happen and what did happen, as pure data and arithmetic."""
