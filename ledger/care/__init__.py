"""The care of a file: backup, recovery, rebuild, export, replay, the doctor, and the opening of a ledger."""
