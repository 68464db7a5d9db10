"""The way back: commands and sources out of force and in force again, and what would be without them."""
