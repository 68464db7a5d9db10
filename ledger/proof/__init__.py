"""The proofs that a ledger is unchanged: checkpoints, proofs of single events, and the check of the whole file."""
