"""The scan of a text for secrets and threats."""
