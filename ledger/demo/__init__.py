"""The demo: ten weeks of an invented conversation, played into a ledger."""
