"""Adapters that offer the interfaces of other projects over a ledger."""
