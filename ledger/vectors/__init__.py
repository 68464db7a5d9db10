"""The vectors of texts: models that make them, and the search by them."""
