"""The log folded into rows that answer questions."""
