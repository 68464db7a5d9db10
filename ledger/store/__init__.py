"""The log in SQLite: event store, recorders, files and their lock, chain, format checks."""
