"""The ten operations of picoclaw's SessionStore over a ledger, for agents that are written for that interface.

In picoclaw, add, set and truncate return nothing and only log a failure. Here a failure is logged, counted, and raised by
the next ``save`` or ``close``, so that no loss goes unnoticed.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

from ledger import LedgerError, Message, Session
from ledger.sessions.transcripts import outside
from ledger.types import Role, WriteOptions

if TYPE_CHECKING:
    from ledger import Ledger

PAGE = 1_000
_log = logging.getLogger(__name__)


class SessionStore:
    """The sessions of a ledger's user by their keys.

    ``failures`` counts the failed operations by name, and ``last_failure`` is the latest error. The ledger names the user
    (``ledger.bind(user=…)``). The ledger stays the caller's: ``close`` does not close it.
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
            _log.error("%s on a session failed: %s", name, type(error).__name__)  # the message may hold a text

    # --- operations without a result -----------------------------------------------------------------------------

    def add_message(self, key: str, role: str, content: str) -> None:
        """Append a message that has only a text."""
        self._quietly("add_message", key, lambda: self._session(key).append(cast("Role", role), content))

    def add_full_message(self, key: str, message: Mapping[str, object]) -> None:
        """Append a message with its tool calls, reasoning, media and time; a message of reasoning alone is not stored."""
        self._quietly("add_full_message", key, lambda: self._append(key, message))

    def _append(self, key: str, message: Mapping[str, object]) -> None:
        session = self._session(key)
        for parsed in outside([message])[0]:
            reasoning = [{"type": "reasoning", "text": parsed.draft.reasoning}] if parsed.draft.reasoning else []
            when: WriteOptions = {"occurred_at": parsed.created_at} if parsed.created_at is not None else {}
            session.append(
                cast("Role", parsed.draft.role),
                parsed.draft.content,
                parts=[*parsed.draft.whole_parts, *reasoning],
                token_count=parsed.token_count,
                model=parsed.model,
                speaker=parsed.draft.speaker or "",
                extra=parsed.draft.extra.get("message"),
                metadata=parsed.metadata,
                **when,
            )

    def set_summary(self, key: str, summary: str) -> None:
        """Set the summary of the whole session."""
        self._quietly("set_summary", key, lambda: self._session(key).set_abstract(summary))

    def set_history(self, key: str, history: Iterable[Mapping[str, object]]) -> None:
        """Replace the history by these messages."""
        self._quietly("set_history", key, lambda: self._session(key).replace(history))

    def truncate_history(self, key: str, keep_last: int) -> None:
        """Keep the last messages; none for 0 and less. A session that does not exist is not made."""

        def truncate() -> None:
            session = self._session(key)
            if session.id is not None:
                session.truncate(0 if isinstance(keep_last, int) and keep_last < 0 else keep_last)

        self._quietly("truncate_history", key, truncate)

    # --- operations with a result --------------------------------------------------------------------------------

    def get_history(self, key: str) -> list[dict[str, Any]]:
        """Return the messages under picoclaw's names of their fields, oldest first; none for a session that does not exist."""
        newest_first, page = [], self._session(key).messages(limit=PAGE)
        newest_first.append(page)
        while page.next is not None:
            page = self._session(key).messages(limit=PAGE, after=page.next)
            newest_first.append(page)
        return [_as_stored(message) for page in reversed(newest_first) for message in page]

    def get_summary(self, key: str) -> str:
        """Return the summary that was set; "" if none was."""
        return self._session(key).abstract

    def list_sessions(self) -> list[str]:
        """Return the names of all sessions, the last opened first."""
        return [session.name for session in self._ledger.sessions.list(limit=PAGE).all() if session.name is not None]

    def save(self, key: str) -> None:
        """Raise the first failure of this session since the last save; every success is in the log already."""
        if failures := self._unsaved.pop(key, None):
            raise failures[0]

    def close(self) -> None:
        """Raise the first failure that no save has raised; a second call does nothing."""
        failures = [error for errors in self._unsaved.values() for error in errors]
        self._unsaved.clear()
        if failures:
            raise failures[0]


_NAMES = {"reasoning": "reasoning_content", "model": "model_name"}  # of our fields, as picoclaw calls them
FORM = "openai"  # the form that picoclaw's messages have


def _as_stored(message: Message) -> dict[str, Any]:
    """Return a message under picoclaw's names of its fields.

    Parts that picoclaw has no place for stay ``parts``. What the ledger keeps as the ``extra`` of this form, such as attachments
    and system parts, comes back under its names.
    """
    fields: dict[str, Any] = {_NAMES.get(name, name): value for name, value in message.as_chat().items()}
    extra: dict[str, Any] = dict(fields.get("extra", {}))
    own: dict[str, Any] = extra.pop(FORM, {})
    if fields.keys() & own.keys():  # an extra that was given as such
        return fields
    fields.pop("extra", None)
    return fields | own | ({"extra": extra} if extra else {})
