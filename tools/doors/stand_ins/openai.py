"""The session of the OpenAI Agents SDK that its tests make, with ``LedgerSession`` over a ledger of its own inside."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ledger import Ledger
from ledger.doors.openai import LedgerSession

os.environ.setdefault("OPENAI_API_KEY", "test")  # as in the conftest.py of the tests
os.environ.setdefault("OPENAI_AGENTS_DISABLE_TRACING", "1")  # nothing is sent anywhere


class SQLiteSession(LedgerSession):
    """A session with the arguments of the SDK's own session in SQLite, and with its ``close``."""

    def __init__(self, session_id: str, db_path: str | Path = ":memory:", session_settings: Any = None) -> None:
        self._own = Ledger.temporary() if str(db_path) == ":memory:" else Ledger.open(db_path)
        try:
            super().__init__(self._own, session_id, session_settings=session_settings)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._own.close()
