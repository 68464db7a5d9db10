"""Keyed values: JSON and texts under a namespace and a key, read back exactly as they were put."""
