"""Every event that can be recorded, for who reads the log or folds a projection of their own."""

from ledger.domain.events import *  # noqa: F403
