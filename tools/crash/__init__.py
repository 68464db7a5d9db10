"""The crash harness: programs that damage a ledger on purpose, and check the remains."""
