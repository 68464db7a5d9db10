"""Names, and what memories say of them."""
