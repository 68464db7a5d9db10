"""Sessions: conversations with their messages in order, summaries of older messages, and windows for a model."""
