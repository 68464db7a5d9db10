"""The door to a language model: how it is asked, and what every answer of one leaves in the log."""
