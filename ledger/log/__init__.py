"""The log in SQLite: event store, recorders, connections, files and their lock, chain, format checks."""
