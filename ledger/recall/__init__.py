"""Recall: the texts that answer a question are searched, ranked, packed within a budget, and recorded if a receipt is wanted."""
