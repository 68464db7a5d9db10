"""Commands and queries on memories."""
