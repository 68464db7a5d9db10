"""Interactions: captured prompts and their responses."""
