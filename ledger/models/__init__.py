"""The connection to a language model: requests to it, its answers, and their record in the log."""
