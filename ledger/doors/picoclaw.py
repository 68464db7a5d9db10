"""The ten operations of picoclaw's SessionStore over a ledger, for agents that are written against them.

Add, set and truncate return nothing there, and a failure is only logged; here it is logged, counted, and raised by the next
``save`` or ``close``, so that nothing is lost in silence.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

from ledger.domain.errors import LedgerError
from ledger.sessions.api import Session
from ledger.sessions.transcripts import as_chat, outside
from ledger.types import Role, WriteOptions

if TYPE_CHECKING:
    from ledger.api import Ledger

PAGE = 1_000
_log = logging.getLogger(__name__)


class SessionStore:
    """Sessions by their keys. ``failures`` counts the operations that failed, by name; ``last_failure`` is the latest.

    Whose they are says the ledger (``ledger.bind(user=…)``), which stays the caller's: ``close`` does not close it.
    """

    def __init__(self, ledger: Ledger, *, project: str | None = None) -> None:
        self._ledger, self._project = ledger, project
        self.failures: Counter[str] = Counter()
        self.last_failure: LedgerError | None = None
        self._unsaved: dict[str, list[LedgerError]] = {}

    def _session(self, key: str) -> Session:
        return self._ledger.session(key, project=self._project)

    def _quietly(self, name: str, key: str, act: Callable[[], object]) -> None:
        try:
            act()
        except LedgerError as error:
            self.failures[name] += 1
            self.last_failure = error
            self._unsaved.setdefault(key, []).append(error)
            _log.error("%s on a session failed: %s", name, type(error).__name__)  # the text may be in the message

    # --- what returns nothing ------------------------------------------------------------------------------------

    def add_message(self, key: str, role: str, content: str) -> None:
        """Appends a message of a text alone."""
        self._quietly("add_message", key, lambda: self._session(key).append(cast("Role", role), content))

    def add_full_message(self, key: str, message: Mapping[str, object]) -> None:
        """Appends a message with its tool calls, reasoning, media and time; one of reasoning alone is not stored."""
        self._quietly("add_full_message", key, lambda: self._append(key, message))

    def _append(self, key: str, message: Mapping[str, object]) -> None:
        session = self._session(key)
        for one in outside([message])[0]:
            reasoning = [{"type": "reasoning", "text": one.draft.reasoning}] if one.draft.reasoning else []
            when: WriteOptions = {"occurred_at": one.created_at} if one.created_at is not None else {}
            session.append(
                cast("Role", one.draft.role),
                one.draft.content,
                parts=[*one.draft.whole_parts, *reasoning],
                token_count=one.token_count,
                model=one.model,
                speaker=one.draft.speaker or "",
                extra=one.draft.extra.get("message"),
                **when,
            )

    def set_summary(self, key: str, summary: str) -> None:
        """Sets the summary of the session as a whole."""
        self._quietly("set_summary", key, lambda: self._session(key).set_abstract(summary))

    def set_history(self, key: str, history: Iterable[Mapping[str, object]]) -> None:
        """Makes these messages the whole history."""
        self._quietly("set_history", key, lambda: self._session(key).replace(history))

    def truncate_history(self, key: str, keep_last: int) -> None:
        """Keeps the last messages; none for 0 and less. A session that is not there stays so."""

        def truncate() -> None:
            session = self._session(key)
            if session.id is not None:
                session.truncate(0 if isinstance(keep_last, int) and keep_last < 0 else keep_last)

        self._quietly("truncate_history", key, truncate)

    # --- what answers --------------------------------------------------------------------------------------------

    def get_history(self, key: str) -> list[dict[str, Any]]:
        """The messages in the chat format, oldest first; none for a session that is not there."""
        newest_first, page = [], self._session(key).messages(limit=PAGE)
        newest_first.append(page)
        while page.next is not None:
            page = self._session(key).messages(limit=PAGE, after=page.next)
            newest_first.append(page)
        return [as_chat(each) for page in reversed(newest_first) for each in page]

    def get_summary(self, key: str) -> str:
        """The summary that was set; "" for none."""
        return self._session(key).abstract

    def list_sessions(self) -> list[str]:
        """The names of all sessions, the one opened last first."""
        return [each.name for each in self._ledger.sessions.list(limit=PAGE).all() if each.name is not None]

    def save(self, key: str) -> None:
        """Everything is in the log already; raises the first failure of this session since the last save."""
        if failed := self._unsaved.pop(key, None):
            raise failed[0]

    def close(self) -> None:
        """Raises the first failure that no save has told; a second call does nothing."""
        failed = [error for errors in self._unsaved.values() for error in errors]
        self._unsaved.clear()
        if failed:
            raise failed[0]
