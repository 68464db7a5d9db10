"""The commands, events and states of the ledger, as pure data and arithmetic."""
