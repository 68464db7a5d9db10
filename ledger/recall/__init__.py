"""Recall: what answers a question, found, ranked, packed within a budget, and recorded where that is asked for."""
