"""Near duplicates and conflicts of memories, proposed to a person who decides."""
