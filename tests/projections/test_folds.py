"""Folding after an undo gives the rows of a log without the void events, and the order of the projections is as declared."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager, suppress

import probe
import pytest
from commands import START, TEXTS, USERS, act
from conftest import LONG, Clock, empty_tables
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from places import QUICK

from ledger import Ledger, LedgerError
from ledger.core.reads import FoldReading
from ledger.events import WAYS_BACK
from projections.core.digests import digest
from projections.core.projector import ALL, Projector
from projections.core.rows import Table
from projections.core.sqlite import SQLiteRows

ACTIONS = (
    *("remember", "remember", "propose", "promote", "reject", "adjust", "reinforce", "supersede", "revise", "correct"),
    *("retag", "describe", "valid", "invalidate", "retract", "restore", "quarantine", "release", "state", "no_state"),
    *("archive", "alias", "rename", "link", "capture", "attach", "extract", "relate", "unrelate", "policy", "clock"),
    *("ingest", "ingest", "remove_document", "restore_document", "cite", "put", "put_index", "move", "remove_value"),
    *("observe", "withdraw", "say", "say", "shorten", "summarize", "undo", "undo", "undo", "redo", "redo"),
    *("distrust", "trust", "distrust_document", "again", "again", "keyed", "keyed"),
)
steps = st.tuples(
    st.sampled_from(ACTIONS), st.sampled_from(TEXTS), st.integers(0, 10_000), st.sampled_from((*USERS, ""))
)


BEGINNING = [(action, TEXTS[place % 4], place, "") for place, action in enumerate(
    ("remember", "keyed", "again", "observe", "capture", "ingest", "cite", "say", "say", "summarize")
)]  # fmt: skip
OF_EVENTS = {
    *("audit", "voided", "distrusted", "confidence_steps"),  # which also tell of the acts and of what they made void
    "turned_down",  # a person's rejection outlives its memory
}
OF_ACTS = ("reinforcement", "extraction")  # a turn tells that its evaluation was undone, so that it is not done again
ENDED = {"to_position", "undone_at", "released_at"}
READS = {projection.name: projection.reads for projection in ALL}


def give(ledger, clock, action, text, number, user):
    """Give one command; also those that make rows from several events of a subject."""
    asked = ledger.bind(user=user)
    by, session = asked.bind(actor=("", "ann", "bot")[number % 3]), asked.session("s")
    ids = [memory.id for memory in asked.memories.list(statuses=(), limit=100)] or ["m_0000000000000000"]
    some = [ids[(number + step) % len(ids)] for step in range(1 + number % 3)]
    calls = {
        "observe": lambda: by.observations.add(f"{text} {number % 2}", some),
        "withdraw": lambda: by.observations.withdraw(some[:1]),
        "again": lambda: by.remember(text, sources=some[:1]),
        "keyed": lambda: by.remember(text, idempotency_key=f"k{number % 3}"),
        "say": lambda: session.append("user", text),
        "shorten": lambda: session.truncate(number % 4),
        "summarize": lambda: session.summaries.add(text, [m.position for m in session.messages(limit=3).all()][::-1]),
        "undo": lambda: asked.undo(max(1, ledger.position - number % 20), cascade=True),
    }
    if action in calls:
        with suppress(LedgerError):
            calls[action]()
        clock.advance(seconds=number % 3)
    else:
        with suppress(IndexError):  # a document without a chunk has none to cite
            act(ledger, clock, action, text, number, user)


def live(commands):
    """Give commands to a new ledger; return its log, its blobs, the positions of its void events, and its secret."""
    clock = Clock()
    clock.time = START
    with tempfile.TemporaryDirectory(dir=QUICK) as folder, Ledger.open(f"{folder}/memory.db", clock=clock) as ledger:
        for command in (*BEGINNING, *commands):
            give(ledger, clock, *command)
        with probe.store(ledger).snapshot() as connection:
            log = connection.execute("SELECT * FROM events ORDER BY position").fetchall()
            blobs = connection.execute("SELECT * FROM blobs").fetchall()
            void = {position for (position,) in connection.execute("SELECT position FROM voided")}
        return log, blobs, void, probe.writer(ledger).secret


@contextmanager
def folded(life, *, order=(), without_void=False):
    """Yield the tables into which a log was folded, in an order of the projections, or without its void events."""
    log, blobs, void, secret = life
    with empty_tables() as tables:
        tables.executemany("INSERT INTO blobs VALUES (?, ?, ?)", blobs)
        tables.executemany(f"INSERT INTO events VALUES ({', '.join('?' * len(log[0]))})", log)
        reading, rows = FoldReading(lambda: tables), SQLiteRows(tables)
        projector = Projector(secret, reading)
        if order:
            projector.all = tuple(sorted(projector.all, key=lambda projection: order.index(projection.name)))
        for event in reading.events(1, len(log)):
            if not without_void or not (event.position in void or isinstance(event.data, WAYS_BACK)):
                projector.fold(event, rows)
        rows.flush()
        assert projector.poisoned == []
        yield tables


def current(connection):
    """Return the rows that hold now, by table, without the position since which they hold."""
    found = {}
    for table in (table for projection in ALL for table in projection.tables):
        if isinstance(table, Table) and not table.derived and not table.appended and table.name not in OF_EVENTS:
            ended = ENDED & {*table.names}
            names = [name for name in table.names if name not in {"from_position", "version", *ended, *OF_ACTS}]
            where = "".join(f" AND {name} IS NULL" for name in ended)
            rows = connection.execute(f"SELECT {', '.join(names)} FROM {table.name} WHERE 1{where}")
            found[table.name] = sorted(map(tuple, rows), key=repr)
    return found


def test_what_an_undo_and_a_distrust_make_void_is_void_since_the_first_of_them_that_holds(ledger):
    ledger.bind(actor="bot").remember("The user prefers tea.", idempotency_key="k")
    ledger.bind(actor="bot").policy.set(gain=0.1)
    remembered, adopted = ledger.position - 1, ledger.position
    tables = (
        f"SELECT undone_at FROM confidence_steps WHERE position = {remembered}",
        f"SELECT released_at FROM keys WHERE position = {remembered}",
        f"SELECT undone_at FROM policies WHERE from_position = {adopted}",
        f"SELECT min(from_position) FROM voided WHERE position = {remembered}",
    )

    def void_since():
        with probe.read(ledger) as connection:
            return {connection.execute(sql).fetchone()[0] for sql in tables}

    ledger.history.undo_all(by="bot")
    undo = ledger.position
    assert void_since() == {undo}
    ledger.history.distrust("bot", kind="actor")
    distrust = ledger.position
    assert void_since() == {undo}
    ledger.redo(undo)
    assert void_since() == {distrust}
    ledger.history.trust("bot", kind="actor")
    assert void_since() == {None}


def test_an_undo_leaves_the_rows_alone_that_say_the_same_after_it(ledger):
    tea, milk = ledger.remember("Ann drinks tea."), ledger.remember("Ann drinks milk.")
    ledger.observations.add("Ann drinks.", [tea.id])
    formed = ledger.position
    ledger.observations.add("Ann drinks.", [milk.id])
    added = ledger.position
    ledger.undo(added)
    with probe.read(ledger) as connection:
        rows = connection.execute("SELECT source, from_position FROM evidence").fetchall()
        ended = connection.execute("SELECT source, from_position, to_position FROM evidence_was").fetchall()
    assert rows == [(tea.id, formed)]
    assert ended == [(milk.id, added, ledger.position)]


@pytest.mark.slow
@settings(max_examples=400 if LONG else 20, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(steps, max_size=25))
def test_after_an_undo_the_rows_are_those_of_a_log_without_the_void_events(commands):
    life = live(commands)
    with folded(life) as tables:
        rows = current(tables)
    with folded(life, without_void=True) as tables:
        assert current(tables) == rows


@pytest.mark.slow
@settings(max_examples=100 if LONG else 10, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(steps, max_size=25), st.permutations([projection.name for projection in ALL]))
def test_projections_fold_in_any_order_in_which_each_comes_after_those_that_it_reads(commands, names):
    life, order = live(commands), list[str]()
    while names:
        order.append(next(name for name in names if {*READS[name]} <= {*order}))
        names.remove(order[-1])
    with folded(life) as tables:
        expected = digest(tables)
    with folded(life, order=order) as tables:
        assert digest(tables) == expected


def test_each_projection_stands_after_those_that_it_reads():
    for place, projection in enumerate(ALL):
        assert {*projection.reads} <= {other.name for other in ALL[:place]}, projection.name
