"""The entity graph: the names that each memory mentions, and the relations that it states between two names.

A row belongs to one memory and does not say if the memory is believed. So a change of status writes nothing here, and reads look
up which memories are believed. Superseded, undone and distrusted memories are in the graph as far as they are believed, now
or at any earlier moment.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from ledger.english.entities import RUN_WORDS, found, name_form
from ledger.events import AnyEvent
from ledger.memories.state import CO_OCCURS, MemoryState
from projections.core.rows import AsOf, Conditions, ProjectionRows, Scope, Table, Values, checked, reader, rows_among
from projections.core.subjects import SubjectChange, ended, replace_rows

MENTIONS = Table(
    "mentions",
    (
        *("memory INTEGER NOT NULL", "name_norm TEXT NOT NULL", "name TEXT NOT NULL"),
        *("supplied INTEGER NOT NULL", "user TEXT NOT NULL", "from_position INTEGER NOT NULL"),
    ),
    ("memory", "name_norm"),
    (("user, name_norm, memory", ""),),
    rowid=False,
    then=AsOf("from_position", closed="mentions_before"),
)
MENTIONS_BEFORE = replace(
    ended(MENTIONS, "mentions_before"), indexes=(("memory, name_norm", ""), ("user, name_norm, memory", ""))
)
EDGES = Table(
    "edges",
    (
        *("memory INTEGER NOT NULL", "source_norm TEXT NOT NULL", "relation TEXT NOT NULL"),
        *("target_norm TEXT NOT NULL", "source TEXT NOT NULL", "target TEXT NOT NULL", "user TEXT NOT NULL"),
        *("valid_from TEXT", "valid_to TEXT", "from_position INTEGER NOT NULL"),
    ),
    ("memory", "source_norm", "relation", "target_norm"),
    (("user, source_norm, target_norm", ""), ("user, target_norm", "")),
    rowid=False,
    then=AsOf("from_position", closed="edges_before"),
)
EDGES_BEFORE = replace(
    ended(EDGES, "edges_before"),
    indexes=(
        ("memory, source_norm, relation, target_norm", ""),
        ("user, source_norm, target_norm", ""),
        ("user, target_norm", ""),
    ),
)


class GraphProjection:
    """The projection of the graph, whose version follows ``ledger.english.entities``: "entities/1" is version 1."""

    name, version, follows, reads = "graph", 1, frozenset("m"), ()
    tables = (MENTIONS, MENTIONS_BEFORE, EDGES, EDGES_BEFORE)

    def fold(self, event: AnyEvent, changes: Sequence[SubjectChange], rows: ProjectionRows) -> None:
        for change in changes:
            if change.old is None or change.new is None or not _is_same(change.old, change.new):
                before, after = _mentions(change.old), _mentions(change.new)
                if before or after:
                    replace_rows(change, rows, (MENTIONS, MENTIONS_BEFORE), before, after)
                if _has_edges(change.old) or _has_edges(change.new):
                    replace_rows(change, rows, (EDGES, EDGES_BEFORE), _edges(change.old), _edges(change.new))


def _is_same(old: MemoryState, new: MemoryState) -> bool:
    texts = old.content == new.content and old.entities == new.entities
    return texts and old.edges == new.edges and old.user == new.user


def _has_edges(state: MemoryState | None) -> bool:
    return state is not None and bool(state.edges)


def _mentions(state: MemoryState | None) -> dict[Values, Values]:
    """Return the names of a memory, by normalised name.

    Supplied entities and the names of stated relations come before the names found in the text.
    """
    if state is None or state.content is None or state.user is None:
        return {}
    named = dict[Values, Values]()
    related = (name for edge in state.edges for name in (edge.source, edge.target)) if state.edges else ()
    for supplied, names in ((1, (*state.entities, *related)), (0, found(state.content))):
        for name in names:
            named.setdefault((state.row, name_form(name)), (name, supplied, state.user))
    named.pop((state.row, ""), None)
    return named


def _edges(state: MemoryState | None) -> dict[Values, Values]:
    if state is None or state.content is None or state.user is None:
        return {}
    stated = dict[Values, Values]()
    for edge in state.edges:
        form = edge.form
        if form[0] and form[2] and form[0] != form[2]:
            stated.setdefault(
                (state.row, *form), (edge.source, edge.target, state.user, edge.valid_from, edge.valid_to)
            )
    return stated


# --- for decisions ---------------------------------------------------------------------------------------------------


class Pair(Struct, frozen=True):
    """Two names of one user, normalised, and the relation between them."""

    user: str
    source: str
    target: str
    relation: str


def other_relations(
    connection: sqlite3.Connection, pair: Pair, since: str, until: str | None, *, limit: int
) -> list[tuple[int, tuple[str, str, str]]]:
    """Return (row, (source, relation, target)) of active memories with another relation of two names at that time."""
    sql = (
        "SELECT e.memory, e.source, e.relation, e.target FROM edges e CROSS JOIN memories m ON m.row = e.memory"
        " WHERE e.user = ? AND e.source_norm = ? AND e.target_norm = ? AND e.relation <> ? AND m.status = 'active'"
        " AND (? IS NULL OR max(m.valid_from, coalesce(e.valid_from, m.valid_from)) < ?)"
        " AND (m.valid_to IS NULL OR m.valid_to > ?) AND (e.valid_to IS NULL OR e.valid_to > ?)"
        " ORDER BY e.memory, e.relation LIMIT ?"
    )
    values = (pair.user, pair.source, pair.target, pair.relation, until, until, since, since, limit)
    return [(row, (source, relation, target)) for row, source, relation, target in connection.execute(sql, values)]


# --- reads -----------------------------------------------------------------------------------------------------------

SEEDS = 8  # most names of a query from which the search starts
QUERY_WORDS = 256  # words of a query in which names are searched; the beginning of a longer text tells its topic
NEWEST = 2_000  # newest memories of a seed that ``around`` reads
OLDEST = 64  # oldest memories of a seed that are searched for the first spelling of its name
SCAN = 6  # rows that ``neighborhood`` reads, as a multiple of the limit
NEIGHBORS = 16  # names beside the seeds to which ``neighborhood`` goes on

_PLAIN_WORD = re.compile(r"\w+(?:[-'’]\w+)*")
_OWNS = re.compile(r"['’]s$", re.IGNORECASE)


class GraphScope(Struct, frozen=True):
    """The user whose graph is read, and the memories that count.

    These are the memories with one of the ``statuses`` that hold at the time ``at``, in the ``projects`` (None for all).
    """

    user: str
    at: str
    statuses: Sequence[str] = ("active",)
    projects: Scope = None
    supplied_only: bool = False


class GraphEvidence(Struct, frozen=True):
    """A believed memory, and the time from and until which it holds."""

    row: int
    id: str
    valid_from: str
    valid_to: str | None


_evidence = reader(GraphEvidence, "memories")


class GraphSeed(Struct, frozen=True):
    """A seed: its normalised name, its first spelling, and the believed memories that mention it, newest first."""

    form: str
    name: str
    memories: tuple[GraphEvidence, ...]


class GraphNeighbor(Struct, frozen=True):
    """A neighbor of a seed, with the memories that join them, newest first."""

    seed: int
    name: str
    form: str
    relation: str
    direction: str
    memories: tuple[GraphEvidence, ...]


def seeds(connection: sqlite3.Connection, user: str, text: str) -> list[str]:
    """Return the user's names that occur in a text, normalised: at most 8, longest first, in memories of any status."""
    return list(islice(_known(connection, user, text, ""), SEEDS))


def _known(connection: sqlite3.Connection, user: str, text: str, condition: str) -> Iterator[str]:
    sql = f"SELECT 1 FROM mentions WHERE user = ? AND name_norm = ? {condition}LIMIT 1"
    for form in windows(text):
        if connection.execute(sql, (user, form)).fetchone() is not None:
            yield form


def windows(text: str) -> list[str]:
    """Return the normalised names that 1 to 6 adjacent words of a text could be, longest first, then in text order.

    Words are separated by white space ("AC/DC", "C++"), and also by everything but letters and digits. A possessive ending is
    removed.
    """
    places: dict[str, tuple[int, int]] = {}
    start = text[: 64 * QUERY_WORDS]
    for words in (start.split(), _PLAIN_WORD.findall(start)):
        bare = [_OWNS.sub("", word) for word in words[:QUERY_WORDS]]
        for first in range(len(bare)):
            for size in range(1, min(RUN_WORDS, len(bare) - first) + 1):
                form = name_form(" ".join(bare[first : first + size]))
                places.setdefault(form, (-form.count(" "), first))
    places.pop("", None)
    return sorted(places, key=lambda form: (*places[form], form))


def named(connection: sqlite3.Connection, text: str, query: GraphScope) -> tuple[list[GraphSeed], bool]:
    """Return the seeds of a text that believed memories mention, and True if all of these memories were read."""
    mentioned: list[GraphSeed] = []
    complete = True
    for form in _known(connection, query.user, text, _supplied(query)):
        rows = _mentioning(connection, form, query, NEWEST + 1)
        complete &= len(rows) <= NEWEST
        held = _believed(connection, [row for row, _ in rows[:NEWEST]], query)
        if held:
            newest = _newest_first(held.values())
            mentioned.append(
                GraphSeed(form, first_written(connection, form, query) or dict(rows)[newest[0].row], newest)
            )
        if len(mentioned) == SEEDS:
            break
    return mentioned, complete


def around(connection: sqlite3.Connection, names: Sequence[GraphSeed], query: GraphScope) -> list[GraphNeighbor]:
    """Return the neighbors one step from each seed: stated relations, then names in the same memories, by weight."""
    links: dict[tuple[int, str, str, str], tuple[str, dict[int, GraphEvidence]]] = {}
    for at, seed in enumerate(names):
        for relation, direction, form, name, evidence in _stated_of(connection, seed, query):
            links.setdefault((at, form, relation, direction), (name, {}))[1][evidence.row] = evidence
        for form, name, evidence in _together(connection, seed, query):
            links.setdefault((at, form, CO_OCCURS, "both"), (name, {}))[1][evidence.row] = evidence
    joined = [
        GraphNeighbor(at, name, form, relation, direction, _newest_first(held.values()))
        for (at, form, relation, direction), (name, held) in links.items()
    ]
    return sorted(joined, key=_rank)


def first_written(connection: sqlite3.Connection, form: str, query: GraphScope) -> str | None:
    """Return a name as the oldest believed memory spells it, if that memory is among the oldest few with the name."""
    sql = "SELECT memory, name FROM mentions WHERE user = ? AND name_norm = ? ORDER BY memory LIMIT ?"
    oldest = connection.execute(sql, (query.user, form, OLDEST))
    rows: list[tuple[int, str]] = [(row, name) for row, name in checked(MENTIONS, ("memory", "name"), oldest)]
    held = _believed(connection, [row for row, _ in rows], query)
    return next((name for row, name in rows if row in held), None)


def _rank(neighbor: GraphNeighbor) -> tuple[object, ...]:
    newest = neighbor.memories[0].row
    return (
        neighbor.relation == CO_OCCURS,
        -len(neighbor.memories),
        -newest,
        neighbor.seed,
        neighbor.form,
        neighbor.relation,
        neighbor.direction,
    )


def _stated_of(
    connection: sqlite3.Connection, seed: GraphSeed, query: GraphScope
) -> Iterator[tuple[str, str, str, str, GraphEvidence]]:
    """Yield (relation, direction, form, name, memory) of the neighbors in a seed's stated relations, oldest first."""
    held = {memory.row: memory for memory in seed.memories}
    for near, far, direction in (("source", "target", "out"), ("target", "source", "in")):
        sql = (
            f"SELECT memory, relation, {far}_norm, {far}, valid_from, valid_to FROM edges"
            f" WHERE user = ? AND {near}_norm = ? ORDER BY memory DESC, relation, {far}_norm LIMIT ?"
        )
        rows = connection.execute(sql, (query.user, seed.form, NEWEST)).fetchall()
        shown = ("memory", "relation", f"{far}_norm", far, "valid_from", "valid_to")
        for row, relation, form, name, start, until in checked(EDGES, shown, reversed(rows)):
            memory = held.get(row)
            if memory is not None and (start or "") <= query.at and (until is None or until > query.at):
                evidence = GraphEvidence(
                    row, memory.id, max(start or "", memory.valid_from), _sooner(until, memory.valid_to)
                )
                yield relation, direction, form, name, evidence


def _together(
    connection: sqlite3.Connection, seed: GraphSeed, query: GraphScope
) -> Iterator[tuple[str, str, GraphEvidence]]:
    """Yield (form, name, memory) of the other names in the memories of a seed, oldest first."""
    held = {memory.row: memory for memory in seed.memories}
    columns = ("memory", "name_norm", "name")
    sql = f"SELECT {', '.join(columns)} FROM mentions WHERE memory IN {{}} {_supplied(query)}ORDER BY memory, name_norm"
    for row, form, name in checked(MENTIONS, columns, rows_among(connection, sql, sorted(held))):
        if form != seed.form:
            yield form, name, held[row]


def neighborhood(
    connection: sqlite3.Connection,
    text: str,
    user: str,
    *,
    at: str,
    limit: int,
    projects: Scope = None,
) -> list[tuple[int, int]]:
    """Return (row, hops) of at most ``limit`` believed memories near the names in a text.

    Memories that mention a seed (0 hops) come before those that mention a name beside a seed (1 hop), newest first in both
    groups. At most 6 × ``limit`` rows are read.
    """
    query = GraphScope(user, at, projects=projects)
    known = seeds(connection, user, text) if limit > 0 else []
    if not known:
        return []
    near = _newest(connection, known, query, SCAN * limit // 2)[:limit]
    by_form: dict[str, int] = {}
    sql = "SELECT name_norm, count(*) FROM mentions WHERE memory IN {} GROUP BY name_norm"
    for form, count in rows_among(connection, sql, near):
        by_form[form] = by_form.get(form, 0) + count
    neighbors = sorted(by_form.keys() - set(known), key=lambda form: (-by_form[form], form))[:NEIGHBORS]
    far = _newest(connection, neighbors, query, SCAN * limit // 2) if len(near) < limit else []
    hops = dict.fromkeys(near, 0) | {row: 1 for row in far if row not in set(near)}
    return list(islice(hops.items(), limit))


def _newest(connection: sqlite3.Connection, forms: Sequence[str], query: GraphScope, scan: int) -> list[int]:
    """Return the rows of believed memories that mention one of these names, newest first.

    Each name has an equal share of the ``scan`` rows that are read.
    """
    share = max(1, scan // max(1, len(forms)))
    rows = {row for form in forms for row, _ in _mentioning(connection, form, query, share)}
    return sorted(_believed(connection, rows, query), reverse=True)


# --- for both searches -----------------------------------------------------------------------------------------------


def _mentioning(connection: sqlite3.Connection, form: str, query: GraphScope, limit: int) -> list[tuple[int, str]]:
    """Return (row, spelling of the name) of the user's memories with this name, newest first, believed or not."""
    sql = f"SELECT memory, name FROM mentions WHERE user = ? AND name_norm = ? {_supplied(query)}ORDER BY memory DESC LIMIT ?"
    rows = connection.execute(sql, (query.user, form, limit))
    return [(row, name) for row, name in checked(MENTIONS, ("memory", "name"), rows)]


def _believed(connection: sqlite3.Connection, rows: Iterable[int], query: GraphScope) -> dict[int, GraphEvidence]:
    """Return the memories in these rows that are believed and hold at the time, by row."""
    where = Conditions("user = ? AND quarantined = 0", query.user)
    where.among("status", query.statuses)
    where.add("valid_from <= ? AND (valid_to IS NULL OR valid_to > ?)", query.at, query.at)
    where.of_projects(query.projects)
    sql = f"SELECT row, id, valid_from, valid_to FROM memories WHERE row IN {{}} AND {where}"
    return {values[0]: _evidence(values) for values in rows_among(connection, sql, sorted(rows), *where.values)}


def _newest_first(memories: Iterable[GraphEvidence]) -> tuple[GraphEvidence, ...]:
    return tuple(sorted(memories, key=lambda memory: -memory.row))


def _sooner(first: str | None, second: str | None) -> str | None:
    return min((time for time in (first, second) if time is not None), default=None)


def _supplied(query: GraphScope) -> str:
    return "AND supplied = 1 " if query.supplied_only else ""
