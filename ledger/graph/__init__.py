"""The graph of names and of the relations that memories state between them."""
