"""Extraction of memories from turns and sessions, by rules or by a model."""
