"""Other projects' protocols, spoken over a ledger."""
