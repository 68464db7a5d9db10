"""The crash harness: programs that hurt a ledger on purpose, and look at what is left."""
