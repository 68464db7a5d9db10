"""A consistent state of the ledger for a read, now or at a moment, and the ways from its rows to the log's texts."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from ledger.core.log_reading import SALT_BYTES, damaged_blob, find_row, read_event, read_known, read_stream
from ledger.domain import ids
from ledger.domain.errors import AmbiguousIdError, RejectedError
from ledger.domain.text import check_text
from ledger.events import AnyEvent, Blob
from ledger.interactions.rules import InteractionState
from ledger.memories.rules import MemoryState
from projections.core.projector import FAMILIES
from projections.core.rows import Connection, Values
from projections.search import memory_hits, observation_hits, passages
from projections.search.memory_hits import MemoryScope
from projections.views import memories, projects, sessions
from projections.views.duplicates import content_fingerprint
from projections.views.memories import MemoryFilter

NOWHERE = "nowhere"  # stands for a name that nothing has
LIST_LIMIT, LIST_CAP = 50, 500
MEMORY_CAP = 1_000_000
ENOUGH = 100  # hits to rank at least, because some of the best may be of another user, project or time
THEN = "texts, statuses and confidences are those of position {}; the scores take the rarity of a word from today's text index"
PAGE_CAP = 1_001  # the longest page, and one item more, which shows if there is another page


class Snapshot:
    """The state that a query reads, now or at a moment; the query cannot tell the difference.

    ``valid`` is a time of the world: reads answer with what was true at that time. ``now`` returns the present, or for a
    past moment the latest time recorded by then.
    """

    __slots__ = ("connection", "now", "schema", "secret", "valid")

    def __init__(
        self, connection: Connection, secret: bytes, valid: str | None, now: Callable[[], str], schema: str = "main"
    ) -> None:
        self.connection, self.secret, self.valid, self.now = connection, secret, valid, now
        # the schema of the text indexes: "main" for the file, "temp" if this process folded its own
        self.schema = schema

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return warnings for a caller who searches."""
        return ()

    @property
    def forgets(self) -> bool:
        """Return True if some texts may be missing both in the indexes and among the texts that wait for them."""
        return False

    def active_duplicates(self, states: Sequence[MemoryState]) -> dict[str, str]:
        """Return for each memory whose statement an active memory already makes the id of that active memory."""
        raise NotImplementedError

    def memory_hits(
        self, expression: str, wanted: memory_hits.MemoryScope, limit: int
    ) -> Iterator[tuple[MemoryState, float]]:
        least = min(limit, ENOUGH)
        return memory_hits.matching(self.connection, expression, wanted, limit=limit, schema=self.schema, enough=least)

    def passage_hits(
        self, expression: str, wanted: passages.PassageScope, limit: int
    ) -> Iterator[tuple[passages.PassageRow, float]]:
        least = min(limit, ENOUGH)
        return passages.matching(self.connection, expression, wanted, limit=limit, schema=self.schema, enough=least)

    def has_memory(self, expression: str, wanted: MemoryScope) -> bool:
        return memory_hits.any_matches(self.connection, expression, wanted, schema=self.schema)

    def has_passage(self, expression: str, wanted: passages.PassageScope) -> bool:
        return passages.any_matches(self.connection, expression, wanted, schema=self.schema)

    def read_by_model(self, rows: Collection[int]) -> set[int]:
        """Return those of some messages and captured turns, by their rows, that a model has read."""
        return sessions.read_by_model(self.connection, rows)

    def observation_hits(
        self, expression: str, wanted: observation_hits.ObservationScope, limit: int
    ) -> observation_hits.Hits:
        return observation_hits.matching(self.connection, expression, wanted, limit=limit, schema=self.schema)

    def passages_gone(self, condition: str, values: Sequence[object]) -> list[Values]:
        """Return the matching passages that the index and the texts that wait for it no longer have."""
        return []


class LiveSnapshot(Snapshot):
    """The state of today, from the tables of the file, or from folded tables if the file cannot be written."""

    __slots__ = ()

    def active_duplicates(self, states: Sequence[MemoryState]) -> dict[str, str]:
        duplicates = {}
        for state in states:
            places = projects.together(self.connection, state.project)
            user, kind, content = state.user, state.kind, state.content
            numbers = [content_fingerprint(self.secret, user, kind, place, content) for place in places]
            sql = (
                "SELECT m.id FROM duplicates d CROSS JOIN memories m ON m.row = d.memory"
                f" WHERE d.fingerprint IN ({', '.join('?' * len(numbers))}) AND d.status = 'active' ORDER BY d.memory LIMIT 1"
            )
            if (row := self.connection.execute(sql, numbers).fetchone()) is not None:
                duplicates[state.id] = row[0]
        return duplicates


class FoldedSnapshot(Snapshot):
    """The state of a past moment, from tables that this process folded from the log up to that moment."""

    __slots__ = ()

    @property
    def forgets(self) -> bool:
        return True  # the index may have lost texts of that time

    def active_duplicates(self, states: Sequence[MemoryState]) -> dict[str, str]:
        """Compare with all active memories once, because the index of duplicates knows only today's."""
        texts: dict[tuple[object, ...], str] = {}
        for owner in {state.user for state in states if state.user is not None}:
            active = memories.listing(self.connection, MemoryFilter(user=owner, statuses=("active",)), limit=2**31)
            texts |= {(owner, *self._statement_of(memory)): memory.id for memory in active}  # the oldest stays
        duplicates = {state.id: texts.get((state.user, *self._statement_of(state))) for state in states}
        return {id: duplicate for id, duplicate in duplicates.items() if duplicate is not None}

    def _statement_of(self, state: MemoryState) -> tuple[str | None, ...]:
        kind, project, content = memories.statement_of(state)
        return kind, projects.main(self.connection, project), content


class AsOfSnapshot(FoldedSnapshot):
    """The state of a past moment, from today's tables seen as they were at ``position``."""

    __slots__ = ("position",)

    def __init__(
        self, connection: Connection, secret: bytes, valid: str | None, now: Callable[[], str], position: int
    ) -> None:
        super().__init__(connection, secret, valid, now)
        self.position = position

    @property
    def warnings(self) -> tuple[str, ...]:
        return (THEN.format(self.position),)

    def memory_hits(
        self, expression: str, wanted: memory_hits.MemoryScope, limit: int
    ) -> Iterator[tuple[MemoryState, float]]:
        return memory_hits.matching_then(self.connection, expression, wanted, self.position, limit=limit)

    def passage_hits(
        self, expression: str, wanted: passages.PassageScope, limit: int
    ) -> Iterator[tuple[passages.PassageRow, float]]:
        return passages.matching_then(self.connection, expression, wanted, self.position, limit=limit)

    def read_by_model(self, rows: Collection[int]) -> set[int]:
        """Return no rows: the marks of what a model has read keep no past."""
        return set()

    def has_memory(self, expression: str, wanted: MemoryScope) -> bool:
        return any(True for _ in self.memory_hits(expression, wanted, limit=1))

    def has_passage(self, expression: str, wanted: passages.PassageScope) -> bool:
        return any(True for _ in self.passage_hits(expression, wanted, limit=1))

    def observation_hits(
        self, expression: str, wanted: observation_hits.ObservationScope, limit: int
    ) -> observation_hits.Hits:
        return observation_hits.matching_then(self.connection, expression, wanted, self.position, limit=limit)

    def passages_gone(self, condition: str, values: Sequence[object]) -> list[Values]:
        return passages.gone(self.connection, self.position, condition, values)


# --- from rows to states and texts ------------------------------------------------------------------------------------


def load(connection: Connection, reference: str, kind: str, user: str) -> Any:
    """Return the state of a user's subject by id or unambiguous prefix."""
    row = find_row(connection, reference, kind, user)
    return FAMILIES[kind].get(connection, row) if row is not None else None


def owned_stream(connection: Connection, reference: str, kind: str, owner: str) -> str | None:
    """Return the stream of a user's subject by id or unambiguous prefix, even of a subject that was undone."""
    state = load(connection, reference, kind, owner)
    if state is not None:
        return str(state.id)
    if not isinstance(reference, str) or not ids.is_prefix(reference, kind) or len(reference) < 3:
        return None
    sql = "SELECT position FROM events WHERE stream >= ? AND stream < ? AND version = 1 LIMIT 100"
    firsts = connection.execute(sql, (reference, reference + "~")).fetchall()
    events = (read_event(connection, first) for (first,) in firsts)
    streams = [event.stream for event in events if event is not None and event.envelope.user == owner]
    return streams[0] if len(streams) == 1 else None


def stream_of(connection: Connection, stream: str) -> list[AnyEvent]:
    return read_stream(connection, stream, 2**62)


def event_data(connection: Connection, position: int) -> Any:
    return read_known(connection, position, position).data


def text_of(connection: Connection, body: str | Blob | None) -> str | None:
    """Return a text of an event from the event or the blobs table; None if the text was erased."""
    if not isinstance(body, Blob):
        return body
    row = connection.execute("SELECT data, erased_by FROM blobs WHERE id = ?", (body.blob,)).fetchone()
    if row is not None and row[0] is None and row[1] is not None:
        return None
    if row is None or not isinstance(row[0], bytes) or hashlib.sha256(row[0]).hexdigest() != body.digest:
        raise damaged_blob(connection, body.blob)
    return str(row[0][SALT_BYTES:], "utf-8")


def answer_texts(
    connection: Connection, state: InteractionState, names: Sequence[str] = ("response", "summary")
) -> dict[str, str | None]:
    """Return the response and the summary of an interaction, or one of them; blank before there are any."""
    data = event_data(connection, state.response_at) if state.response_at is not None else None
    return {name: text_of(connection, getattr(data, name)) if data is not None else "" for name in names}


def believed(valid: str | None, statuses: tuple[str, ...]) -> tuple[str, ...]:
    """Return the statuses to list: those of a filter, or for a time of the world those of memories true at that time."""
    if valid is None:
        return statuses
    if statuses in ((), ("active",)):
        return memories.BELIEVED
    if never := set(statuses) - set(memories.BELIEVED):
        raise RejectedError(
            f"valid= asks for memories that were true at a time, and a memory that is {min(never)} was not; "
            f"allowed are {', '.join(memories.BELIEVED)}, and all"
        )
    return statuses


def named(connection: Connection, owner: str, kind: str, name: str | None) -> str | None:
    """Return the id of a filter's project or session; None for the filters "" and None.

    A project that was joined to another is found under the other.
    """
    if name is None or not check_text("a name", name, blank_allowed=True).strip():
        return None
    place = projects.find(connection, owner, kind, name)
    try:
        row = find_row(connection, name, kind, owner) if place is None else None
    except AmbiguousIdError:
        return NOWHERE
    id = place[0] if place is not None else NOWHERE
    if row is not None:
        id = str(connection.execute(f"SELECT id FROM {FAMILIES[kind].live.name} WHERE row = ?", (row,)).fetchone()[0])
    return projects.main(connection, id) if kind == "p" else id


def scope_of(connection: Connection, owner: str, project: str | None) -> list[str | None] | None:
    """Return the projects of a filter: the named project with those that are joined to it.

    The list holds None for memories without a project (the filter ""), and ``NOWHERE`` for an unknown name. Without a filter
    the result is None.
    """
    if project is None:
        return None
    return list(projects.together(connection, named(connection, owner, "p", project)))


def listed(limit: int | None, cap: int = LIST_CAP) -> int:
    if limit is None:
        return cap
    if isinstance(limit, bool) or not isinstance(limit, int):
        raise RejectedError(f"limit is a whole number, and {limit!r:.40} is not")
    return max(0, min(limit, cap))
