"""The search for decisions about an erased subject that are recorded outside the subject's own stream.

Such an event records that, and why, the subject was undone, distrusted, quarantined, merged, put on hold or found to be
in conflict. The decision stays in effect. The erasure takes only the words of the event that may repeat the erased
text, such as the reason.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import msgspec

from ledger.core.reads import read_event, read_stream
from ledger.events import (
    LEDGER_STREAM,
    AnyEvent,
    CommandRedone,
    CommandUndone,
    ConflictFound,
    ConflictResolved,
    ConsolidationCompleted,
    ConsolidationFailed,
    LegalHoldPlaced,
    LegalHoldReleased,
    MemoriesMerged,
    MemorySuperseded,
    MergeProposed,
    MergeRejected,
    OriginDistrusted,
    OriginTrusted,
    TextQuarantined,
    TextReleased,
)
from projections.core.rows import Connection
from projections.views import audit, conflicts, merges

REASON = ("data.reason",)
BY_ID = ("interaction", "session", "document")  # origins that are subjects; an actor's name is not a subject
CONSOLIDATED = (ConsolidationCompleted, ConsolidationFailed)
_LEDGER_DECISIONS: tuple[type[object], ...] = (
    *(TextQuarantined, TextReleased, CommandUndone, CommandRedone, OriginDistrusted, OriginTrusted),
    *(LegalHoldPlaced, LegalHoldReleased, *CONSOLIDATED),
)
_WORDS_OF: dict[type[object], tuple[str, ...]] = {  # the fields of conflicts and merges that repeat words
    ConflictFound: ("data.attribute", "data.values"),
    ConflictResolved: REASON,
    MergeProposed: ("data.content",),
    MemoriesMerged: REASON,
    MergeRejected: REASON,
}
NAMES = frozenset(kind.__name__ for kind in (*_LEDGER_DECISIONS, *_WORDS_OF))
_tags = msgspec.json.Decoder(tuple[str, ...])

Position = tuple[int, tuple[str, ...]]  # a position, and the fields of the event there


def about(connection: Connection, user: str, subjects: Collection[str], positions: Iterable[int]) -> Iterator[Position]:
    """Yield the ledger's own events about these subjects or about the events at these positions.

    A long act is several events of one command, each with the reason, but only some of them may name the subject. All
    events of such a command are yielded.
    """
    ordered, acts, commands = sorted(positions), set[str](), list[tuple[int, str]]()
    for event in _own_events(connection, user):
        data, command = event.data, event.envelope.command_id
        if isinstance(data, CONSOLIDATED):
            continue
        commands.append((event.position, command))
        if _names(data, subjects, ordered) or _ends(data) in acts:
            acts.add(command)
    yield from ((position, REASON) for position, command in commands if command in acts)


def _own_events(connection: Connection, user: str) -> Iterator[AnyEvent]:
    names = tuple(kind.__name__ for kind in _LEDGER_DECISIONS)
    sql = f"SELECT position FROM events WHERE stream = ? AND type IN ({', '.join('?' * len(names))}) ORDER BY version"
    for (position,) in connection.execute(sql, (LEDGER_STREAM, *names)).fetchall():
        event = read_event(connection, position)
        if event is not None and event.envelope.user == user and isinstance(event.data, _LEDGER_DECISIONS):
            yield event


def _names(data: object, subjects: Collection[str], positions: Sequence[int]) -> bool:
    match data:
        case TextQuarantined() | TextReleased():
            return _any_within(positions, (data.position, data.position))
        case CommandUndone() | CommandRedone():
            return any(_any_within(positions, span) for span in data.ranges)
        case OriginDistrusted():
            return data.kind in BY_ID and data.origin in subjects
        case LegalHoldPlaced():
            return data.subject in subjects
        case _:
            return False


def _ends(data: object) -> str | None:
    """Return the id of the act that this event ends; both acts are about the same subject."""
    if isinstance(data, OriginTrusted):
        return data.distrusted
    return data.hold if isinstance(data, LegalHoldReleased) else None


def _any_within(positions: Sequence[int], span: tuple[int, int]) -> bool:
    at = bisect_left(positions, span[0])
    return at < len(positions) and positions[at] <= span[1]


# --- conflicts, merges and consolidations ----------------------------------------------------------------------------


def joining(connection: Connection, memory: str, whole: bool) -> Iterator[Position]:
    """Yield the events of conflicts and merges that repeat the words of a memory.

    If the memory is erased as a ``whole``, yield also the reasons of the decisions about its merges and conflicts, and
    the reasons for which the same commands superseded other memories.
    """
    rows = {*merges.ever_about(connection, memory), *conflicts.ever_about(connection, memory)}
    rows |= {proposal.row for proposal in merges.naming(connection, [memory])}
    for row in sorted(rows):
        first = read_event(connection, row)
        for event in read_stream(connection, first.stream, 2**62) if first is not None else ():
            fields = _WORDS_OF.get(type(event.data))
            if fields is not None and (whole or isinstance(event.data, ConflictFound)):
                yield event.position, fields
            if whole and isinstance(event.data, MemoriesMerged | ConflictResolved):
                for entry in audit.command_at(connection, event.position):
                    if entry.type == MemorySuperseded.__name__:
                        yield entry.position, REASON


def scopes(
    connection: Connection, user: str, tags: Mapping[str, Collection[str]], gone: Collection[str]
) -> Iterator[Position]:
    """Yield the consolidations that were limited to tags which no memory or observation has any more after the erasure.

    Such tags would still tell something about the erased memories.

    Args:
        connection: The snapshot to read.
        user: The owner of the memories.
        tags: Memory -> the tags that the memory ever had.
        gone: The ids of the memories and observations that are erased.
    """
    staying: list[set[str]] | None = None
    for event in _own_events(connection, user) if any(tags.values()) else ():
        limits = set(event.data.tags or ()) if isinstance(event.data, CONSOLIDATED) else set[str]()
        if limits and any(limits <= set(had) for had in tags.values()):
            staying = _tags_except(connection, user, gone) if staying is None else staying
            if not any(limits <= remaining for remaining in staying):
                yield event.position, ("data.tags",)


def _tags_except(connection: Connection, user: str, gone: Collection[str]) -> list[set[str]]:
    """Return the tags of each memory and observation of a user, except those in ``gone``."""
    tag_sets = []
    for table in ("memories", "observations"):
        sql = f"SELECT id, tags FROM {table} WHERE user = ? AND tags IS NOT NULL"
        tag_sets += [set(_tags.decode(tags)) for id, tags in connection.execute(sql, (user,)) if id not in gone]
    return tag_sets
