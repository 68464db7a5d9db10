"""The knowledge of English: clauses, denials, questions, names, and what a user says of himself."""
