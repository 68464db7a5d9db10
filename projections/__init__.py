"""What it all means now: the log folded into rows that answer questions."""
