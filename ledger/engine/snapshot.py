"""What one read sees: a consistent state of the ledger, now or at a moment, and the ways from its rows to the log's texts."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ledger.domain import ids
from ledger.domain.errors import AmbiguousIdError, RejectedError
from ledger.domain.events import AnyEvent, Blob
from ledger.domain.interaction import Interaction
from ledger.domain.memory import Memory
from ledger.domain.text import check_text
from ledger.engine.log_reading import SALT_BYTES, damaged_blob, find_row, read_event, read_known, read_stream
from projections.core.projector import FAMILIES
from projections.core.rows import Connection, Values
from projections.search import memory_hits, observation_hits, passages
from projections.views import memories, projects
from projections.views.duplicates import content_fingerprint

NOWHERE = "nowhere"  # a name that stands for nothing
LIST_LIMIT, LIST_CAP = 50, 500
MEMORY_CAP = 1_000_000
ENOUGH = 100  # hits, where others of the best are not of this user, project or time
THEN = "texts, statuses and confidences are those of position {}; how rare a word is, the scores take from today's text index"
PAGE_CAP = 1_001  # the longest page, and one more, which shows whether there is another page


class Snapshot:
    """Queries take one and cannot tell of which moment it is. ``valid`` is a time of the world: what is believed of then.

    ``now`` gives the present, or of a moment of the past the latest time recorded by then.
    """

    __slots__ = ("connection", "now", "schema", "secret", "valid")

    def __init__(
        self, connection: Connection, secret: bytes, valid: str | None, now: Callable[[], str], schema: str = "main"
    ) -> None:
        self.connection, self.secret, self.valid, self.now = connection, secret, valid, now
        self.schema = (
            schema  # where the text indexes lie: in the file ("main"), or where this process folded its own ("temp")
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        """What whoever searches should know."""
        return ()

    @property
    def forgets(self) -> bool:
        """Whether there may be texts that neither an index nor what waits for it has."""
        return False

    def active_duplicates(self, states: Sequence[Memory]) -> dict[str, str]:
        """Of each memory that an active one says already: that one's id."""
        raise NotImplementedError

    def memory_hits(self, expression: str, wanted: memory_hits.Wanted, limit: int) -> Iterator[tuple[Memory, float]]:
        least = min(limit, ENOUGH)
        return memory_hits.matching(self.connection, expression, wanted, limit=limit, schema=self.schema, enough=least)

    def passage_hits(
        self, expression: str, wanted: passages.Wanted, limit: int
    ) -> Iterator[tuple[passages.Passage, float]]:
        least = min(limit, ENOUGH)
        return passages.matching(self.connection, expression, wanted, limit=limit, schema=self.schema, enough=least)

    def observation_hits(self, expression: str, wanted: observation_hits.Wanted, limit: int) -> observation_hits.Hits:
        return observation_hits.matching(self.connection, expression, wanted, limit=limit, schema=self.schema)

    def passages_gone(self, condition: str, values: Sequence[object]) -> list[Values]:
        """The passages wanted that neither the index nor what waits for it has any more."""
        return []


class LiveSnapshot(Snapshot):
    """Of today: the tables of the file, or those that this process folded where the file cannot be written."""

    __slots__ = ()

    def active_duplicates(self, states: Sequence[Memory]) -> dict[str, str]:
        found = {}
        for state in states:
            places = projects.together(self.connection, state.project)
            user, kind, content = state.user, state.kind, state.content
            numbers = [content_fingerprint(self.secret, user, kind, place, content) for place in places]
            sql = (
                "SELECT m.id FROM duplicates d CROSS JOIN memories m ON m.row = d.memory"
                f" WHERE d.fingerprint IN ({', '.join('?' * len(numbers))}) AND d.status = 'active' ORDER BY d.memory LIMIT 1"
            )
            if (row := self.connection.execute(sql, numbers).fetchone()) is not None:
                found[state.id] = row[0]
        return found


class FoldedSnapshot(Snapshot):
    """Of a moment of the past, from tables that this process folded of the log up to there."""

    __slots__ = ()

    @property
    def forgets(self) -> bool:
        return True  # what was said then may have gone from the index

    def active_duplicates(self, states: Sequence[Memory]) -> dict[str, str]:
        """The index of duplicates knows today's only, so all active memories are looked through once."""
        texts: dict[tuple[object, ...], str] = {}
        for owner in {state.user for state in states if state.user is not None}:
            active = memories.listing(self.connection, user=owner, statuses=("active",), limit=2**31)
            texts |= {(owner, *self._statement_of(each)): each.id for each in active}  # the oldest stays
        found = {state.id: texts.get((state.user, *self._statement_of(state))) for state in states}
        return {id: duplicate for id, duplicate in found.items() if duplicate is not None}

    def _statement_of(self, state: Memory) -> tuple[str | None, ...]:
        kind, project, content = memories.statement_of(state)
        return kind, projects.main(self.connection, project), content


class AsOfSnapshot(FoldedSnapshot):
    """Of a moment of the past, from the tables of today seen as they were at ``position``."""

    __slots__ = ("position",)

    def __init__(
        self, connection: Connection, secret: bytes, valid: str | None, now: Callable[[], str], position: int
    ) -> None:
        super().__init__(connection, secret, valid, now)
        self.position = position

    @property
    def warnings(self) -> tuple[str, ...]:
        return (THEN.format(self.position),)

    def memory_hits(self, expression: str, wanted: memory_hits.Wanted, limit: int) -> Iterator[tuple[Memory, float]]:
        return memory_hits.matching_then(self.connection, expression, wanted, self.position, limit=limit)

    def passage_hits(
        self, expression: str, wanted: passages.Wanted, limit: int
    ) -> Iterator[tuple[passages.Passage, float]]:
        return passages.matching_then(self.connection, expression, wanted, self.position, limit=limit)

    def observation_hits(self, expression: str, wanted: observation_hits.Wanted, limit: int) -> observation_hits.Hits:
        return observation_hits.matching_then(self.connection, expression, wanted, self.position, limit=limit)

    def passages_gone(self, condition: str, values: Sequence[object]) -> list[Values]:
        return passages.gone(self.connection, self.position, condition, values)


# --- from rows to states and texts ------------------------------------------------------------------------------------


def load(connection: Connection, given: str, kind: str, user: str) -> Any:
    """The state of one subject of this user, by id or unambiguous prefix."""
    row = find_row(connection, given, kind, user)
    return FAMILIES[kind].get(connection, row) if row is not None else None


def owned_stream(connection: Connection, id: str, kind: str, owner: str) -> str | None:
    """The stream of a subject of this user by id or unambiguous prefix, also of one that was undone and has no row."""
    state = load(connection, id, kind, owner)
    if state is not None:
        return str(state.id)
    if not isinstance(id, str) or not ids.is_prefix(id, kind) or len(id) < 3:
        return None
    sql = "SELECT position FROM events WHERE stream >= ? AND stream < ? AND version = 1 LIMIT 100"
    firsts = connection.execute(sql, (id, id + "~")).fetchall()
    events = (read_event(connection, first) for (first,) in firsts)
    found = [each.stream for each in events if each is not None and each.envelope.user == owner]
    return found[0] if len(found) == 1 else None


def stream_of(connection: Connection, stream: str) -> list[AnyEvent]:
    return read_stream(connection, stream, 2**62)


def event_data(connection: Connection, position: int) -> Any:
    return read_known(connection, position, position).data


def text_of(connection: Connection, body: str | Blob | None) -> str | None:
    """A text of an event, wherever it lies; None for one that was erased."""
    if not isinstance(body, Blob):
        return body
    row = connection.execute("SELECT data, erased_by FROM blobs WHERE id = ?", (body.blob,)).fetchone()
    if row is not None and row[0] is None and row[1] is not None:
        return None
    if row is None or not isinstance(row[0], bytes) or hashlib.sha256(row[0]).hexdigest() != body.digest:
        raise damaged_blob(connection, body.blob)
    return str(row[0][SALT_BYTES:], "utf-8")


def answer_texts(connection: Connection, state: Interaction) -> dict[str, str | None]:
    """Response and summary of an interaction; blank until there are any."""
    data = event_data(connection, state.response_at) if state.response_at is not None else None
    names = ("response", "summary")
    return {name: text_of(connection, getattr(data, name)) if data is not None else "" for name in names}


def believed(valid: str | None, statuses: tuple[str, ...]) -> tuple[str, ...]:
    """The statuses meant; of a time of the world what was true then, whether or not something else is by now."""
    if valid is None:
        return statuses
    if statuses in ((), ("active",)):
        return memories.BELIEVED
    if never := set(statuses) - set(memories.BELIEVED):
        raise RejectedError(
            f"under valid= a memory was true at a time, and what is {min(never)} was not; "
            f"there are: {', '.join(memories.BELIEVED)}, and all"
        )
    return statuses


def named(connection: Connection, owner: str, kind: str, name: str | None) -> str | None:
    """The id that a filter's project or session name stands for; "" and None are no filter. A project that was joined into
    another is found under that one."""
    if name is None or not check_text("a name", name, blank_allowed=True).strip():
        return None
    found = projects.find(connection, owner, kind, name)
    try:
        row = find_row(connection, name, kind, owner) if found is None else None
    except AmbiguousIdError:
        return NOWHERE
    id = found[0] if found is not None else NOWHERE
    if row is not None:
        id = str(connection.execute(f"SELECT id FROM {FAMILIES[kind].live.name} WHERE row = ?", (row,)).fetchone()[0])
    return projects.main(connection, id) if kind == "p" else id


def scope_of(connection: Connection, owner: str, project: str | None) -> list[str | None] | None:
    """The projects that a filter means: the one of that name and those that are joined to it, None for what is of none
    (""), ``NOWHERE`` for a name that stands for nothing; or None for no filter."""
    if project is None:
        return None
    return list(projects.together(connection, named(connection, owner, "p", project)))


def listed(limit: int | None, cap: int = LIST_CAP) -> int:
    if limit is None:
        return cap
    if isinstance(limit, bool) or not isinstance(limit, int):
        raise RejectedError(f"limit is a whole number, and {limit!r:.40} is not")
    return max(0, min(limit, cap))
