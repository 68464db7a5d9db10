"""Sessions: what was said, in order; summaries that stand for it; and what of both fits a model's window."""
