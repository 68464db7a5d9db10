"""The duplicate index: which memories say the same, by keyed fingerprint and status, and which attempts were absorbed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from ledger.domain.events import AnyEvent, DuplicateAbsorbed
from ledger.domain.memory import Memory
from ledger.domain.text import fingerprint, normalise
from projections.core.rows import CURRENT, Rows, Table
from projections.core.subjects import Change

DUPLICATES = Table(
    "duplicates",
    ("fingerprint INTEGER NOT NULL", "status TEXT NOT NULL", "memory INTEGER NOT NULL"),
    ("fingerprint", "status", "memory"),
    rowid=False,
    grouped=2,
    then=CURRENT,
)
ATTEMPTS = Table(
    "absorbed_attempts",
    ("memory INTEGER NOT NULL", "attempt INTEGER NOT NULL", "position INTEGER NOT NULL"),
    ("memory", "attempt"),
    rowid=False,
    then=CURRENT,
)


@lru_cache(maxsize=256)
def content_fingerprint(
    secret: bytes, user: str | None, kind: str, project: str | None, content: str | None
) -> int | None:
    """One number for "the same user, kind, project and normalised content"; erased content has none."""
    if user is None or content is None:
        return None
    return fingerprint(secret, user, kind, project, normalise(content))


def attempt_digest(secret: bytes, actor: str | None, session: str | None, sources: Sequence[str]) -> int:
    """One number for "the same actor, session and sources": an equal attempt is recorded once."""
    return fingerprint(secret, actor, session, *sources)


class Duplicates:
    name, version, follows = "duplicates", 1, frozenset("m")
    tables = (DUPLICATES, ATTEMPTS)

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def fold(self, event: AnyEvent, changes: Sequence[Change], rows: Rows) -> None:
        for change in changes:
            if change.old is None or change.new is None or _key_parts(change.old) != _key_parts(change.new):
                self._index(change, rows)
            if change.refold or isinstance(event.data, DuplicateAbsorbed):
                self._attempts(change, rows)

    def _index(self, change: Change, rows: Rows) -> None:
        before, after = self._key(change.old), self._key(change.new)
        if before == after:
            return
        if before is not None:
            rows.remove(DUPLICATES, (*before, change.first))
        if after is not None:
            rows.put(DUPLICATES, (*after, change.first), (*after, change.first))

    def _key(self, state: Memory | None) -> tuple[int, str] | None:
        if state is None:
            return None
        number = content_fingerprint(self._secret, state.user, state.kind, state.project, state.content)
        return None if number is None else (number, state.status)

    def _attempts(self, change: Change, rows: Rows) -> None:
        if change.refold:
            for row in rows.find(ATTEMPTS, ("memory",), (change.first,)):
                rows.remove(ATTEMPTS, row[:2])
        for event in change.in_effect if change.refold else (change.event,):
            if isinstance(event.data, DuplicateAbsorbed):
                envelope = event.envelope
                attempt = attempt_digest(self._secret, envelope.actor, envelope.session, event.data.sources)
                key = (change.first, attempt)
                rows.put(ATTEMPTS, key, (*key, event.position))


def _key_parts(state: Memory) -> tuple[str | None, ...]:
    """What the key is made of, and in less time than the key."""
    return state.user, state.kind, state.project, state.content, state.status


# --- reads -----------------------------------------------------------------------------------------------------------


def same(rows: Rows, number: int, status: str) -> list[int]:
    """Rows of the memories with this fingerprint in this status, oldest first."""
    return [row[2] for row in rows.find(DUPLICATES, ("fingerprint", "status"), (number, status))]


def attempted(rows: Rows, memory: int, attempt: int) -> bool:
    return rows.get(ATTEMPTS, (memory, attempt)) is not None
