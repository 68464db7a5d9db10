"""The duplicate index: memories with the same statement by fingerprint and status, and absorbed attempts.

The index also keeps a person's refusal of a statement whose memory is gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from ledger.domain.text import fingerprint, normalise
from ledger.events import AnyEvent, DuplicateAbsorbed
from ledger.memories.state import MemoryState
from ledger.memories.turned_down import NO, turned_down
from projections.core.rows import CURRENT, Connection, ProjectionRows, Table
from projections.core.subjects import SubjectChange
from projections.views import control

DUPLICATES = Table(
    "duplicates",
    ("fingerprint INTEGER NOT NULL", "status TEXT NOT NULL", "memory INTEGER NOT NULL"),
    ("fingerprint", "status", "memory"),
    rowid=False,
    grouped=("fingerprint", "status"),
    then=CURRENT,
)
ATTEMPTS = Table(
    "absorbed_attempts",
    ("memory INTEGER NOT NULL", "attempt INTEGER NOT NULL", "position INTEGER NOT NULL"),
    ("memory", "attempt"),
    rowid=False,
    grouped=("memory",),
    ahead=True,
    then=CURRENT,
)
# For each memory that is gone and that a person had turned down: its fingerprint, and the position and status of the refusal.
TURNED_DOWN = Table(
    "turned_down",
    ("memory INTEGER PRIMARY KEY", "fingerprint INTEGER NOT NULL", "position INTEGER NOT NULL", "status TEXT NOT NULL"),
    ("memory",),
    (("fingerprint", ""), ("position", "")),
    then=CURRENT,
)


@lru_cache(maxsize=256)
def content_fingerprint(
    secret: bytes, user: str | None, kind: str, project: str | None, content: str | None
) -> int | None:
    """Return a number for the user, kind, project and normalised content, or None for erased content."""
    if user is None or content is None:
        return None
    return fingerprint(secret, user, kind, project, normalise(content))


def attempt_digest(secret: bytes, actor: str | None, session: str | None, time: str, sources: Sequence[str]) -> int:
    """Return a number for the actor, session, hour and sources of an attempt; an equal attempt is recorded once."""
    return fingerprint(secret, actor, session, time[:13], *sources)


class Duplicates:
    name, version, follows, reads = "duplicates", 3, frozenset("m"), ("in_effect",)
    tables = (DUPLICATES, ATTEMPTS, TURNED_DOWN)

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def fold(self, event: AnyEvent, changes: Sequence[SubjectChange], rows: ProjectionRows) -> None:
        for change in changes:
            if change.old is None or change.new is None or _key_parts(change.old) != _key_parts(change.new):
                self._index(change, rows)
            if change.refold or isinstance(event.data, DuplicateAbsorbed):
                self._attempts(change, rows)
            if change.refold and any(isinstance(event.data, NO) for event, _ in change.stream):
                self._turn_down(change, rows)

    def _turn_down(self, change: SubjectChange, rows: ProjectionRows) -> None:
        """Record a person's refusal if the memory is gone; a memory that is there has the refusal in its status."""
        rows.remove(TURNED_DOWN, (change.first,))
        if change.new is not None:
            return
        acts = control.acts_on(rows, [event.position for event, _ in change.stream])
        refusal = turned_down(
            (event for event, _ in change.stream),
            lambda event: acts.get(event.position, ()),
            lambda event: control.is_of_distrusted(rows, event, acts.get(event.position, ())),
        )
        key = self._key(refusal[0]) if refusal is not None else None
        if refusal is not None and key is not None:
            rows.put(TURNED_DOWN, (change.first,), (change.first, key[0], refusal[1], key[1]))

    def _index(self, change: SubjectChange, rows: ProjectionRows) -> None:
        before, after = self._key(change.old), self._key(change.new)
        if before == after:
            return
        if before is not None:
            rows.remove(DUPLICATES, (*before, change.first))
        if after is not None:
            rows.put(DUPLICATES, (*after, change.first), (*after, change.first))

    def _key(self, state: MemoryState | None) -> tuple[int, str] | None:
        if state is None:
            return None
        number = content_fingerprint(self._secret, state.user, state.kind, state.project, state.content)
        return None if number is None else (number, state.status)

    def _attempts(self, change: SubjectChange, rows: ProjectionRows) -> None:
        if change.refold:
            for row in rows.find(ATTEMPTS, ("memory",), (change.first,)):
                rows.remove(ATTEMPTS, row[:2])
        for event in change.events:
            if isinstance(event.data, DuplicateAbsorbed):
                envelope = event.envelope
                attempt = attempt_digest(
                    self._secret, envelope.actor, envelope.session, envelope.recorded_at, event.data.sources
                )
                key = (change.first, attempt)
                rows.put(ATTEMPTS, key, (*key, event.position))


def _key_parts(state: MemoryState) -> tuple[str | None, ...]:
    """Return the parts of the key, which are compared in less time than keys are made."""
    return state.user, state.kind, state.project, state.content, state.status


# --- reads -----------------------------------------------------------------------------------------------------------


def same(rows: ProjectionRows, number: int, status: str) -> list[int]:
    """Return the rows of the memories with this fingerprint and status, oldest first."""
    return [row[2] for row in rows.find(DUPLICATES, ("fingerprint", "status"), (number, status))]


def stating(rows: ProjectionRows, number: int) -> list[int]:
    """Return the rows of the memories with this fingerprint, whatever their status."""
    return sorted(row[2] for row in rows.find(DUPLICATES, ("fingerprint",), (number,)))


def no_to(rows: ProjectionRows, number: int) -> tuple[int, int, str] | None:
    """Return the last refusal of a text whose memory is gone: the memory's row, the position, and the status it set."""
    refusals = sorted(rows.find(TURNED_DOWN, ("fingerprint",), (number,)), key=lambda row: row[2])
    return (refusals[-1][0], refusals[-1][2], refusals[-1][3]) if refusals else None


def outlives(connection: Connection, position: int) -> bool:
    """Return True if an event is a person's refusal that holds although its memory is gone."""
    return connection.execute("SELECT 1 FROM turned_down WHERE position = ?", (position,)).fetchone() is not None


def attempted(rows: ProjectionRows, memory: int, attempt: int) -> bool:
    return rows.get(ATTEMPTS, (memory, attempt)) is not None
