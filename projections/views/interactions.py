"""The table of interactions: user, session, times, and the state of reinforcement and extraction; the texts stay in the log."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from msgspec import Struct

from ledger.domain.metadata import NO_PAIRS, Pairs
from ledger.events import AnyEvent
from ledger.interactions import rules as interaction
from ledger.interactions.rules import InteractionState
from projections.core.rows import NEWEST, Conditions, ProjectionRows, Start
from projections.core.subjects import SubjectChange, family, keep

FAMILY = family(
    "i",
    InteractionState,
    interaction.evolve,
    interaction.admits,
    ("interactions", "interaction_versions"),
    indexes=(
        ("user, project", ""),
        ("user, time", ""),  # for a page of a listing by time
        ("session", "session IS NOT NULL"),
        ("row", "reinforcement = 'pending'"),
        ("row", "extraction = 'pending'"),
        ("user", "denials <> '[]'"),
    ),
    among=(("reinforcement", interaction.WORK_STATUSES), ("extraction", interaction.WORK_STATUSES)),
    without=interaction.without,
)
INTERACTIONS, VERSIONS = FAMILY.live, FAMILY.closed
BY_RULES = (
    "rules/"  # how the names of the extractors begin that are rules; every other extractor is a model or its gate
)
from_row = FAMILY.from_row


class InteractionsProjection:
    name, version, follows, reads = "interactions", 8, frozenset("i"), ()
    tables = (INTERACTIONS, VERSIONS)

    def fold(self, event: AnyEvent, changes: Sequence[SubjectChange], rows: ProjectionRows) -> None:
        for change in changes:
            keep(change, rows, FAMILY)


# --- reads -----------------------------------------------------------------------------------------------------------


class InteractionFilter(Struct, frozen=True, kw_only=True):
    """A filter of the interactions of one user.

    Attributes:
        user: The user.
        projects: The projects, in which None means no project; None for all.
        session: The id of the session; None for all.
        client: The program that captured the interaction; None for all.
        metadata: Pairs of metadata that the interactions must have.
        since: The earliest time, inclusive.
        until: The latest time, exclusive.
    """

    user: str
    projects: Sequence[str | None] | None = None
    session: str | None = None
    client: str | None = None
    metadata: Pairs = NO_PAIRS
    since: str | None = None
    until: str | None = None


def listing(
    connection: sqlite3.Connection,
    filters: InteractionFilter,
    *,
    limit: int,
    start: Start = NEWEST,
    by_time: bool = False,
) -> list[InteractionState]:
    """Return at most ``limit`` interactions, from ``start`` on."""
    where = Conditions("user = ?", filters.user)
    where.given("session = ?", filters.session)
    where.given("client = ?", filters.client)
    where.given("time >= ?", filters.since)
    where.given("time < ?", filters.until)
    where.of_projects(filters.projects)
    where.has_pairs(filters.metadata)
    return FAMILY.listed(connection, where, limit, start, time="time" if by_time else "")


def pending(connection: sqlite3.Connection, work: str, *, after: int = 0, limit: int = 100) -> list[InteractionState]:
    """Return the interactions whose "reinforcement" or "extraction" is pending, oldest first."""
    sql = f"SELECT * FROM interactions WHERE {_COLUMNS[work]} = 'pending' AND row > ? ORDER BY row LIMIT ?"
    return [from_row(row) for row in connection.execute(sql, (after, limit))]


def unread_by_model(
    connection: sqlite3.Connection,
    user: str,
    *,
    projects: Sequence[str | None] | None,
    session: str | None,
    since: str,
) -> list[InteractionState]:
    """Return the turns since a time that are no messages of a session and that no model has read, in the order of time.

    A turn that waits for its answer is left out, and so is a turn whose extraction was undone.
    """
    where = Conditions("user = ? AND extraction IN ('pending', 'done', 'failed')", user)
    where.add(f"(extractor = '' OR extractor LIKE '{BY_RULES}%')")
    where.given("session = ?", session)
    where.add("time >= ?", since)
    where.of_projects(projects)
    where.add("NOT EXISTS (SELECT 1 FROM messages m WHERE m.interaction = interactions.id)")
    sql = f"SELECT * FROM interactions WHERE {where} ORDER BY time, row"
    return [from_row(row) for row in connection.execute(sql, where.values)]


def pending_in(connection: sqlite3.Connection, session: str) -> list[InteractionState]:
    """Return the interactions of a session whose reinforcement is pending, oldest first."""
    sql = "SELECT * FROM interactions WHERE reinforcement = 'pending' AND session = ? ORDER BY row"
    return [from_row(row) for row in connection.execute(sql, (session,))]


_COLUMNS = {"reinforcement": "reinforcement", "extraction": "extraction"}  # the only texts that may enter the SQL


def denying(connection: sqlite3.Connection, user: str, memory: str = "") -> list[InteractionState]:
    """Return the interactions of a user that deny a memory, oldest first; ``memory`` is its id, or "" for any memory."""
    sql = "SELECT * FROM interactions WHERE user = ? AND denials <> '[]' AND instr(denials, ?) ORDER BY row"
    return [from_row(row) for row in connection.execute(sql, (user, memory))]


def text_at(connection: sqlite3.Connection, id: str, field: str) -> int | None:
    """Return the position of the event with the prompt or the response of an interaction, or None."""
    sql = (
        "SELECT t.prompt_at, t.response_at FROM events e CROSS JOIN interactions t ON t.row = e.position"
        " WHERE e.stream = ? AND e.version = 1"
    )
    positions = connection.execute(sql, (id,)).fetchone()
    return positions[field != "prompt"] if positions is not None else None


def count(connection: sqlite3.Connection, user: str) -> int:
    (number,) = connection.execute("SELECT count(*) FROM interactions WHERE user = ?", (user,)).fetchone()
    return int(number)


def count_in(connection: sqlite3.Connection, session: str) -> int:
    """Return the number of interactions that were captured in a session."""
    (number,) = connection.execute("SELECT count(*) FROM interactions WHERE session = ?", (session,)).fetchone()
    return int(number)
