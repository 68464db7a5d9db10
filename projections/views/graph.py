"""The entity graph: which memory names what, and what it says of two names; everything else about it is found on reading.

A row belongs to one memory and says nothing of whether that is believed, so a status that changes writes nothing here, and
what was superseded, undone or distrusted is in the graph as far as it is believed, now or at any earlier moment.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from ledger.domain.entities import RUN_WORDS, found, name_form
from ledger.domain.events import AnyEvent
from ledger.domain.memory import CO_OCCURS, Memory
from projections.core.codec import reader
from projections.core.conditions import Conditions
from projections.core.rows import AsOf, Rows, Table, Values, checked, rows_among
from projections.core.subjects import Change, end, ended

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


class Graph:
    """Changes its version with the rules of ``ledger.domain.entities``: "entities/1" is version 1."""

    name, version, follows = "graph", 1, frozenset("m")
    tables = (MENTIONS, MENTIONS_BEFORE, EDGES, EDGES_BEFORE)

    def fold(self, event: AnyEvent, changes: Sequence[Change], rows: Rows) -> None:
        for change in changes:
            if change.old is None or change.new is None or not _is_same(change.old, change.new):
                before, after = _mentions(change.old), _mentions(change.new)
                if before or after:
                    _change(change, rows, MENTIONS, MENTIONS_BEFORE, before, after)
                if _has_edges(change.old) or _has_edges(change.new):
                    _change(change, rows, EDGES, EDGES_BEFORE, _edges(change.old), _edges(change.new))


def _is_same(old: Memory, new: Memory) -> bool:
    texts = old.content == new.content and old.entities == new.entities
    return texts and old.edges == new.edges and old.user == new.user


def _has_edges(state: Memory | None) -> bool:
    return state is not None and bool(state.edges)


_Rows = dict[tuple[str, ...], Values]


def _mentions(state: Memory | None) -> _Rows:
    """What a memory names, by normalised name: what somebody said it is about or relates, then what its text seems to name."""
    if state is None or state.content is None or state.user is None:
        return {}
    named: _Rows = {}
    joined = (name for edge in state.edges for name in (edge.source, edge.target)) if state.edges else ()
    for supplied, names in ((1, (*state.entities, *joined)), (0, found(state.content))):
        for name in names:
            named.setdefault((name_form(name),), (name, supplied, state.user))
    named.pop(("",), None)
    return named


def _edges(state: Memory | None) -> _Rows:
    if state is None or state.content is None or state.user is None:
        return {}
    stated: _Rows = {}
    for edge in state.edges:
        form = edge.form
        if form[0] and form[2] and form[0] != form[2]:
            stated.setdefault(form, (edge.source, edge.target, state.user, edge.valid_from, edge.valid_to))
    return stated


def _change(change: Change, rows: Rows, live: Table, closed: Table, before: _Rows, after: _Rows) -> None:
    """Ends the rows that are no more, or are others; those that stay keep the position they stand from."""
    now = change.event.position
    for key, values in before.items():
        if after.get(key) != values:
            row = rows.get(live, (change.first, *key))
            if row is not None:
                end(rows, live, closed, row, now)
    for key, values in after.items():
        if before.get(key) != values:
            place = (change.first, *key)
            rows.put(live, place, (*place, *values, now))


# --- for decisions ---------------------------------------------------------------------------------------------------


class Pair(Struct, frozen=True):
    """Two names of one user, normalised, and the relation that they stand in."""

    user: str
    source: str
    target: str
    relation: str


def other_relations(
    connection: sqlite3.Connection, pair: Pair, since: str, until: str | None, *, limit: int
) -> list[tuple[int, tuple[str, str, str]]]:
    """(row, (source, relation, target)) of active memories that say otherwise of two names, over a time in common."""
    sql = (
        "SELECT e.memory, e.source, e.relation, e.target FROM edges e CROSS JOIN memories m ON m.row = e.memory"
        " WHERE e.user = ? AND e.source_norm = ? AND e.target_norm = ? AND e.relation <> ? AND m.status = 'active'"
        " AND (? IS NULL OR max(m.valid_from, coalesce(e.valid_from, m.valid_from)) < ?)"
        " AND (m.valid_to IS NULL OR m.valid_to > ?) AND (e.valid_to IS NULL OR e.valid_to > ?)"
        " ORDER BY e.memory, e.relation LIMIT ?"
    )
    asked = (pair.user, pair.source, pair.target, pair.relation, until, until, since, since, limit)
    return [(row, (source, relation, target)) for row, source, relation, target in connection.execute(sql, asked)]


# --- reads -----------------------------------------------------------------------------------------------------------

SEEDS = 8  # names of a query that lead anywhere (SEEDS 2b)
QUERY_WORDS = 256  # of a query; a longer one is a text, and its beginning tells what it is about
NEWEST = 2_000  # memories of one seed that ``around`` looks at
OLDEST = 64  # ... and that are looked through for how it was first written
SCAN = 6  # times the limit: rows that ``neighborhood`` looks at (SEEDS 2b)
NEIGHBORS = 16  # names that it goes on to

_PLAIN_WORD = re.compile(r"\w+(?:[-'’]\w+)*")
_OWNS = re.compile(r"['’]s$", re.IGNORECASE)


class Asked(Struct, frozen=True):
    """Whose graph, and which memories count: those in ``statuses`` that hold ``at`` a time, in some projects (None: all)."""

    user: str
    at: str
    statuses: Sequence[str] = ("active",)
    projects: Sequence[str | None] | None = None
    supplied_only: bool = False


class Evidence(Struct, frozen=True):
    """A believed memory, and when it holds."""

    row: int
    id: str
    valid_from: str
    valid_to: str | None


_evidence = reader(Evidence, "memories")


class Named(Struct, frozen=True):
    """A seed: its normalised name, how it was first written, and the believed memories that name it, newest first."""

    form: str
    name: str
    memories: tuple[Evidence, ...]


class Joined(Struct, frozen=True):
    """One neighbor of a seed; ``memories`` newest first."""

    seed: int
    name: str
    form: str
    relation: str
    direction: str
    memories: tuple[Evidence, ...]


def seeds(connection: sqlite3.Connection, user: str, text: str) -> list[str]:
    """The names of a user, normalised, that stand in a text: at most 8, longest first; whoever names them."""
    return list(islice(_known(connection, user, text, ""), SEEDS))


def _known(connection: sqlite3.Connection, user: str, text: str, condition: str) -> Iterator[str]:
    sql = f"SELECT 1 FROM mentions WHERE user = ? AND name_norm = ? {condition}LIMIT 1"
    for form in windows(text):
        if connection.execute(sql, (user, form)).fetchone() is not None:
            yield form


def windows(text: str) -> list[str]:
    """The normalised names that 1 to 6 neighboring words of a text could be, the longest first, then as they stand there.

    Words are what white space divides ("AC/DC", "C++"), and also what everything but letters and digits does; the ending
    of who owns something goes.
    """
    found: dict[str, tuple[int, int]] = {}
    start = text[: 64 * QUERY_WORDS]
    for words in (start.split(), _PLAIN_WORD.findall(start)):
        bare = [_OWNS.sub("", word) for word in words[:QUERY_WORDS]]
        for first in range(len(bare)):
            for size in range(1, min(RUN_WORDS, len(bare) - first) + 1):
                form = name_form(" ".join(bare[first : first + size]))
                found.setdefault(form, (-form.count(" "), first))
    found.pop("", None)
    return sorted(found, key=lambda form: (*found[form], form))


def named(connection: sqlite3.Connection, text: str, asked: Asked) -> tuple[list[Named], bool]:
    """The seeds of a text that believed memories name, and whether all of these memories were looked at."""
    found: list[Named] = []
    complete = True
    for form in _known(connection, asked.user, text, _supplied(asked)):
        rows = _mentioning(connection, form, asked, NEWEST + 1)
        complete &= len(rows) <= NEWEST
        held = _believed(connection, [row for row, _ in rows[:NEWEST]], asked)
        if held:
            newest = _newest_first(held.values())
            found.append(Named(form, first_written(connection, form, asked) or dict(rows)[newest[0].row], newest))
        if len(found) == SEEDS:
            break
    return found, complete


def around(connection: sqlite3.Connection, names: Sequence[Named], asked: Asked) -> list[Joined]:
    """What one step from each seed leads to: said relations first, then names in the same memories, each by weight."""
    found: dict[tuple[int, str, str, str], tuple[str, dict[int, Evidence]]] = {}
    for at, seed in enumerate(names):
        for relation, direction, form, name, evidence in _stated_of(connection, seed, asked):
            found.setdefault((at, form, relation, direction), (name, {}))[1][evidence.row] = evidence
        for form, name, evidence in _together(connection, seed, asked):
            found.setdefault((at, form, CO_OCCURS, "both"), (name, {}))[1][evidence.row] = evidence
    joined = [
        Joined(at, name, form, relation, direction, _newest_first(held.values()))
        for (at, form, relation, direction), (name, held) in found.items()
    ]
    return sorted(joined, key=_rank)


def first_written(connection: sqlite3.Connection, form: str, asked: Asked) -> str | None:
    """A name as the oldest believed memory has it, if that is among the oldest few that have it at all."""
    sql = "SELECT memory, name FROM mentions WHERE user = ? AND name_norm = ? ORDER BY memory LIMIT ?"
    found = connection.execute(sql, (asked.user, form, OLDEST))
    rows: list[tuple[int, str]] = [(row, name) for row, name in checked(MENTIONS, ("memory", "name"), found)]
    held = _believed(connection, [row for row, _ in rows], asked)
    return next((name for row, name in rows if row in held), None)


def _rank(each: Joined) -> tuple[object, ...]:
    newest = each.memories[0].row
    return each.relation == CO_OCCURS, -len(each.memories), -newest, each.seed, each.form, each.relation, each.direction


def _stated_of(
    connection: sqlite3.Connection, seed: Named, asked: Asked
) -> Iterator[tuple[str, str, str, str, Evidence]]:
    """(relation, direction, other's form, other's name, memory) of what believed memories say of a name, oldest first."""
    held = {each.row: each for each in seed.memories}
    for near, far, direction in (("source", "target", "out"), ("target", "source", "in")):
        sql = (
            f"SELECT memory, relation, {far}_norm, {far}, valid_from, valid_to FROM edges"
            f" WHERE user = ? AND {near}_norm = ? ORDER BY memory DESC, relation, {far}_norm LIMIT ?"
        )
        rows = connection.execute(sql, (asked.user, seed.form, NEWEST)).fetchall()
        shown = ("memory", "relation", f"{far}_norm", far, "valid_from", "valid_to")
        for row, relation, form, name, start, until in checked(EDGES, shown, reversed(rows)):
            memory = held.get(row)
            if memory is not None and (start or "") <= asked.at and (until is None or until > asked.at):
                evidence = Evidence(
                    row, memory.id, max(start or "", memory.valid_from), _sooner(until, memory.valid_to)
                )
                yield relation, direction, form, name, evidence


def _together(connection: sqlite3.Connection, seed: Named, asked: Asked) -> Iterator[tuple[str, str, Evidence]]:
    """(form, name, memory) of the other names in the memories of a seed, oldest first."""
    held = {each.row: each for each in seed.memories}
    columns = ("memory", "name_norm", "name")
    sql = f"SELECT {', '.join(columns)} FROM mentions WHERE memory IN {{}} {_supplied(asked)}ORDER BY memory, name_norm"
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
    projects: Sequence[str | None] | None = None,
) -> list[tuple[int, int]]:
    """(row, hops) of believed memories near the names in a text, at most ``limit``: those that name a seed (0 hops) before
    those that name what stands beside one (1 hop), each newest first. At most 6 × ``limit`` rows are looked through."""
    asked = Asked(user, at, projects=projects)
    known = seeds(connection, user, text) if limit > 0 else []
    if not known:
        return []
    near = _newest(connection, known, asked, SCAN * limit // 2)[:limit]
    by_form: dict[str, int] = {}
    sql = "SELECT name_norm, count(*) FROM mentions WHERE memory IN {} GROUP BY name_norm"
    for form, count in rows_among(connection, sql, near):
        by_form[form] = by_form.get(form, 0) + count
    others = sorted(by_form.keys() - set(known), key=lambda form: (-by_form[form], form))[:NEIGHBORS]
    far = _newest(connection, others, asked, SCAN * limit // 2) if len(near) < limit else []
    found = dict.fromkeys(near, 0) | {row: 1 for row in far if row not in set(near)}
    return list(islice(found.items(), limit))


def _newest(connection: sqlite3.Connection, forms: Sequence[str], asked: Asked, scan: int) -> list[int]:
    """Rows of believed memories that mention one of these names, newest first; each name has an equal share of the scan."""
    share = max(1, scan // max(1, len(forms)))
    rows = {row for form in forms for row, _ in _mentioning(connection, form, asked, share)}
    return sorted(_believed(connection, rows, asked), reverse=True)


# --- what both ask ---------------------------------------------------------------------------------------------------


def _mentioning(connection: sqlite3.Connection, form: str, asked: Asked, limit: int) -> list[tuple[int, str]]:
    """(row, name as written there) of the memories of a user with this name, newest first, believed or not."""
    sql = f"SELECT memory, name FROM mentions WHERE user = ? AND name_norm = ? {_supplied(asked)}ORDER BY memory DESC LIMIT ?"
    found = connection.execute(sql, (asked.user, form, limit))
    return [(row, name) for row, name in checked(MENTIONS, ("memory", "name"), found)]


def _believed(connection: sqlite3.Connection, rows: Iterable[int], asked: Asked) -> dict[int, Evidence]:
    """Those of these memories that are believed, and say what was true at the time."""
    where = Conditions("user = ? AND quarantined = 0", asked.user)
    where.among("status", asked.statuses)
    where.add("valid_from <= ? AND (valid_to IS NULL OR valid_to > ?)", asked.at, asked.at)
    where.of_projects(asked.projects)
    sql = f"SELECT row, id, valid_from, valid_to FROM memories WHERE row IN {{}} AND {where}"
    return {each[0]: _evidence(each) for each in rows_among(connection, sql, sorted(rows), *where.values)}


def _newest_first(found: Iterable[Evidence]) -> tuple[Evidence, ...]:
    return tuple(sorted(found, key=lambda each: -each.row))


def _sooner(one: str | None, other: str | None) -> str | None:
    return min((each for each in (one, other) if each is not None), default=None)


def _supplied(asked: Asked) -> str:
    return "AND supplied = 1 " if asked.supplied_only else ""
