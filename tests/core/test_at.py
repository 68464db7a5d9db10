"""The ledger as it was known at a moment: equal to a ledger made of the log up to there, whatever was asked."""

from __future__ import annotations

import inspect
import json
import os
import random
import sqlite3
import tempfile
import threading
from contextlib import closing, suppress
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path

import msgspec
import probe
import pytest
from absence import absent, perhaps
from command_line import run
from commands import START, TEXTS, USERS, act
from conftest import LONG, Clock
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from places import QUICK
from prefixes import prefix, tables_of

from ledger import Ledger, LedgerError, NotFoundError, Page, PastLedger, RejectedError, SuspendedError
from projections.core import as_of
from projections.core.rows import Table
from projections.views import memories

SAMPLE = 200 if LONG else 4  # positions of one history that are compared

# --- any history -----------------------------------------------------------------------------------------------------

actions = st.lists(
    st.tuples(
        st.sampled_from(
            ("remember", "remember", "propose", "promote", "reject", "adjust", "reinforce", "supersede", "revise", "correct",
             "retag", "describe", "valid", "invalidate", "retract", "restore", "quarantine", "release", "state", "no_state",
             "archive", "alias", "rename", "link", "enter", "capture", "attach", "extract", "relate", "unrelate",
             "undo", "undo", "redo", "policy", "distrust", "trust", "refused", "clock", "batch", "recall",
             "ingest", "ingest", "ingest", "remove_document", "restore_document", "cite", "distrust_document",
             "put", "put", "put", "put_index", "move", "remove_value", "restore_value")
        ),
        st.sampled_from(TEXTS),
        st.integers(0, 10_000),
        st.sampled_from(USERS[:2]),
    ),
    min_size=4,
    max_size=40,
)  # fmt: skip


def answers_of(of, ids, users=USERS[:2]):
    """What every read answers, with or without filters; of subjects that are not there too. ``of(user)`` is who is asked."""
    found = {"position": of("").position}
    for user in users:
        asked = of(user)
        told = {
            "memories": asked.memories.list(statuses=()),
            "active": asked.memories.list(),
            "by time": asked.memories.list(statuses=(), order="occurred", since="2020-01-01"),
            "filtered": asked.memories.list(project="Home", tags=("x",), min_confidence=0.3, limit=3),
            "review": asked.review(),
            "interactions": asked.interactions.list(),
            "turns by time": asked.interactions.list(order="occurred", oldest_first=True),
            "in a session": asked.interactions.list(session="s", project="casa"),
            "projects": asked.projects.list(statuses=()),
            "state": [perhaps(asked.projects.state, name, history=True) for name in ("Home", "hut", "Work")],
            "project": [perhaps(asked.projects.get, name) for name in ("Home", "casa", "Work")],
            "folder": [asked.projects.of(folder) for folder in ("/usr", "/srv/home", "/srv/sea")],
            "documents": asked.documents.list(statuses=()),
            "filtered documents": asked.documents.list(tags=("x",), limit=2),
            "values": asked.values.list(statuses=()),
            "values found": asked.values.list(("home",), where={"n": {"$gt": 0}}),
            "namespaces": asked.values.namespaces(),
            "value": perhaps(asked.values.get, ("home",), "a"),
            "policy": asked.policy.get(),
            "graph": [asked.graph.neighbors(text) for text in ("Porto or tea, Ann?", "May")],
            "audit": asked.history.audit(limit=500),
            "audited": asked.history.audit(project="casa", actor="ann", type="MemoryCaptured"),
            "refusals": asked.guards.refusals(),
            "model calls": asked.history.model_calls(),
            "distrusted": asked.history.distrusted(),
            "stats": {**msgspec.structs.asdict(asked.maintenance.stats()), "size_bytes": 0, "wal_bytes": 0},
        }
        for id in ids:
            reads = (asked.memories.get, asked.why, asked.documents.get, asked.interactions.get, asked.history.events)
            told[id] = [perhaps(read, id) for read in (*reads, asked.memories.confidence)]
            told[id] += [perhaps(asked.memories.get, id[:9]), perhaps(asked.documents.get, id, text=True)]
            told[id] += [asked.history.audit(subject=id)]
        found[user] = told
    return found


def chunks_of(of, ids):
    return [perhaps(of(user).documents.get_chunk, id) for id in ids for user in USERS[:2]]


def recalled(asked):
    return [
        (sorted((hit.id, hit.memory) for hit in pack.items), pack.searched)
        for word in ("coffee porto", "tea", "truly", "more", "b")
        for pack in (asked.recall(word, limit=500), asked.recall(word, limit=500, project="Home"))
    ]


def past(ledger, position):
    """What is asked by whom of a moment of the past."""
    return lambda user: ledger.bind(user=user).at(position)


def now(ledger):
    return lambda user: ledger.bind(user=user)


def plain(found):
    return list(found) if isinstance(found, Page) else msgspec.to_builtins(found, enc_hook=plain)


def compare(ledger, position):
    moment = ledger.at(position)
    assert (moment.position, ledger.at(str(position)).position) == (position, position)
    ids = {row.stream for row in probe.store(ledger).rows(limit=10_000) if row.stream != "ledger"}
    with prefix(ledger, position, moment.as_of) as made:
        with probe.read(moment) as then, probe.read(made) as there:
            assert tables_of(then) == tables_of(there)
        assert answers_of(past(ledger, position), ids) == answers_of(now(made), ids)
        pieces = [
            json.loads(row.state)["data"]["chunk"]
            for row in probe.store(ledger).rows(limit=10_000)
            if row.type == "ChunkAdded"
        ]
        assert chunks_of(past(ledger, position), pieces) == chunks_of(now(made), pieces)
        for user in USERS[:2]:
            assert recalled(past(ledger, position)(user)) == recalled(made.bind(user=user))
        for valid in ("2026-02-01", moment.as_of, "2030-01-01"):
            assert (
                ledger.at(position, valid_at=valid).memories.list() == made.at(position, valid_at=valid).memories.list()
            )


@pytest.mark.slow
@settings(max_examples=150 if LONG else 6, deadline=None, suppress_health_check=list(HealthCheck))
@given(actions=actions, seed=st.integers(0, 2**30))
def test_every_read_at_every_position_is_that_of_the_log_up_to_there(actions, seed):
    clock = Clock()
    clock.time = START
    with tempfile.TemporaryDirectory(dir=QUICK) as folder, Ledger.open(f"{folder}/memory.db", clock=clock) as ledger:
        for action in actions:
            act(ledger, clock, *action)
        everywhere = range(1, ledger.position + 1)
        for position in sorted(random.Random(seed).sample(everywhere, min(SAMPLE, len(everywhere)))):
            compare(ledger, position)


@pytest.mark.slow
def test_a_story_with_everything_taken_back_and_put_back_at_every_position(ledger, clock):
    fact = ledger.bind(actor="ann").remember("The user drinks coffee.", project="Home", session="s", tags=("x",))
    turn = ledger.bind(actor="ann").capture("Coffee?", "Yes, the user drinks coffee.", project="Home", session="t")
    ledger.projects.add_alias("Home", "casa")
    alias = ledger.position
    ledger.policy.set(gain=0.5)
    policy = ledger.position
    ledger.projects.set_state("Home", "fact", "x", "1")
    state = ledger.position
    idea = ledger.propose("The user runs.", sources=(turn.id,)).position
    ledger.bind(actor="ann").reinforce(fact.id, source=turn.id)
    ledger.undo(ledger.position)
    ledger.recall("coffee")  # takes the texts into the index
    for target in (alias, policy, state, idea):
        ledger.undo(target)
        clock.advance(days=1)
    revised = ledger.revise(fact.id, "The user drinks tea.").position
    ledger.history.distrust("ann", kind="actor")
    for target in (alias, idea, policy):  # but not the state
        ledger.redo(target)
    ledger.history.trust("ann", kind="actor")
    tea = ledger.supersede(fact.id, "The user drinks water, casa says.", valid_from="2025-12-24")
    ledger.recall("water")
    ledger.undo(revised, cascade=True)
    ledger.undo(2, cascade=True)
    assert absent(ledger.memories.get, tea.id) and absent(ledger.memories.get, fact.id)
    for position in range(1, ledger.position + 1):
        compare(ledger, position)


@pytest.mark.slow
def test_what_was_erased_since_is_erased_at_every_moment(ledger):
    coffee = ledger.remember("The user drinks coffee.", project="Home", tags=("x",), entities=("Ann",))
    tea = ledger.remember("The user drinks tea.", project="Home")
    ledger.capture("What?", "The user drinks coffee.", project="Home", session="s")
    ledger.revise(coffee.id, "The user drinks coffee black.")
    ledger.undo(ledger.position)
    ledger.supersede(tea.id, "The user drinks coffee. And more.")
    ledger.recall("coffee")
    last = ledger.position
    ledger.erase(coffee.id, derived="erase", sources="erase", quotes="cut")
    assert ledger.position == last + 2, "ContentErased and ErasureCompleted"
    for position in (*range(1, last + 1), last + 2):  # opening a log that ends between the two completes it
        compare(ledger, position)
        told = json.dumps(answers_of(past(ledger, position), [coffee.id]), default=plain)
        assert "coffee" not in told and ledger.at(position).recall("coffee").items == ()


@settings(max_examples=100 if LONG else 15, deadline=None)
@given(hours=st.lists(st.integers(-50, 50), min_size=1, max_size=40), block=st.sampled_from((2, 3, 7, 4_096)))
def test_a_time_is_the_longest_prefix_in_which_nothing_is_of_later(hours, block, monkeypatch_module):
    """The plain definition, by looking at every position; blocks are small, so that there are many."""
    monkeypatch_module.setattr(as_of, "BLOCK", block)
    times = [START + timedelta(hours=each) for each in hours]
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE audit (position INTEGER PRIMARY KEY, recorded_at TEXT)")
        texts = [each.isoformat() for each in times]
        connection.executemany("INSERT INTO audit VALUES (?, ?)", list(enumerate(texts, 1)))
        known = as_of.Times()
        for head in (len(texts) // 2, len(texts)):  # the second time the log has grown
            for asked in (START + timedelta(hours=each) for each in range(-51, 52)):
                running = [max(texts[:position]) for position in range(1, head + 1)]
                expected = max((at for at, most in enumerate(running, 1) if most <= asked.isoformat()), default=0)
                assert known.last(connection, asked.isoformat(), head) == expected
            for position in range(1, head + 1):
                assert known.at(connection, position) == max(texts[:position])


def test_the_latest_times_are_read_in_steps_that_grow_with_the_log_and_not_its_square(monkeypatch, tmp_path):
    monkeypatch.setattr(as_of, "BLOCK", 4)
    taken = list[int]()
    with Ledger.open(tmp_path / "memory.db") as ledger:
        for _ in range(2):
            with ledger.batch():
                while ledger.position < 100 * 4 ** len(taken):
                    ledger.remember(f"Fact number {ledger.position}.")
            with probe.read(ledger.at(ledger.position)) as connection:
                steps = list[None]()
                connection.set_progress_handler(lambda steps=steps: steps.append(None), 1)
                as_of.Times().at(connection, ledger.position)
                connection.set_progress_handler(None, 0)
                taken.append(len(steps))
    assert taken[1] <= 5 * taken[0], taken


@pytest.fixture(scope="module")
def monkeypatch_module():
    with pytest.MonkeyPatch.context() as patch:
        yield patch


def test_every_table_says_how_it_is_read_as_of_earlier():
    undeclared = [table.name for table in as_of.tables() if isinstance(table, Table) and table.then is None]
    assert undeclared == [], "say in Table(then=…) how it is read under at(): AsOf(…), or CURRENT"


def test_every_table_of_closed_rows_has_the_columns_of_its_own_and_where_they_ended():
    named = {table.name: table for table in as_of.tables()}
    for table in named.values():
        if isinstance(table, Table) and table.then.closed:
            closed = named[table.then.closed]
            assert closed.names == (*table.names, "to_position") and closed.then.since == "to_position"


NOT_OF_THE_PAST = {
    "reopen",  # of a receipt, which says itself of which moment it is
    *("add", "capture", "remember", "propose", "promote", "reject", "reinforce", "revise", "supersede", "invalidate"),
    *("retract", "restore", "extract", "consolidate", "undo", "redo", "erase", "batch", "wait"),
    *("open", "temporary", "close", "bind", "at", "doctor", "import_log", "recover", "replay"),
}


def test_every_read_of_the_door_is_there_under_at():
    """A new verb is a read, which a moment answers too, or is named above."""
    verbs = {name for name, each in inspect.getmembers(Ledger, inspect.isroutine) if not name.startswith("_")}
    reads = {name for name in verbs if hasattr(PastLedger, name)}
    assert sorted(verbs - reads - NOT_OF_THE_PAST) == []


# --- which moment ----------------------------------------------------------------------------------------------------


@pytest.fixture
def told(ledger, clock):
    """Three facts, a day between them; positions 2, 3 and 4."""
    for text in ("one", "two", "three"):
        ledger.remember(text)
        clock.advance(days=1)
    return ledger


def texts(ledger):
    return [memory.content for memory in ledger.memories.list()][::-1]


def test_a_moment_is_a_position_a_time_or_an_event(told):
    entry = told.history.audit()[1]
    assert entry.position == 3
    noon = datetime(2026, 1, 2, 12, tzinfo=UTC)
    for moment in (3, "3", " 3 ", noon, noon.astimezone(timezone(timedelta(hours=5))), "2026-01-02T12:00:00Z",
                   "2026-01-02 14:00:00+02:00", "2026-01-02T13:00:00+0100", "2026-01-03", date(2026, 1, 3),
                   entry.event_id, entry.event_id.upper()):  # fmt: skip
        assert texts(told.at(moment)) == ["one", "two"], moment


@pytest.mark.parametrize(
    "given",
    ["20260102T1200Z", "2026-01-02t12:00:00z", "2026-002T12:00Z", "2026-003", "2026-01-02T24:00Z", "20260102T240000Z"],
)
def test_a_moment_may_be_in_any_iso_form(told, given):
    assert texts(told.at(given)) == ["one", "two"]
    assert told.at(3, valid_at=given).valid_at == told.at(3, valid_at=given.upper()).valid_at


def test_a_month_is_the_moment_at_which_it_begins(told, clock):
    clock.time = datetime(2026, 2, 1, tzinfo=UTC)
    told.remember("four")
    assert texts(told.at("2026-02")) == ["one", "two", "three", "four"]
    clock.time = datetime(2026, 3, 9, tzinfo=UTC)
    told.remember("five")
    assert texts(told.at("2026-03")) == ["one", "two", "three", "four"]
    for wrong, why in (("2026-01", "before the first event"), ("2026-04", "future"), ("2026-13", "names no moment")):
        with pytest.raises(RejectedError, match=why):
            told.at(wrong)


@pytest.mark.parametrize("digits", ["20260102", "2026002", "202601", "2026"])
def test_a_text_of_digits_is_a_position_even_where_it_could_be_a_date(told, digits):
    with pytest.raises(RejectedError, match=f"position {digits} is not in this ledger"):
        told.at(digits)


def test_a_time_includes_what_was_recorded_at_it_and_nothing_later(told):
    assert texts(told.at("2026-01-02T11:59:59.999999Z")) == ["one"]
    assert texts(told.at("2026-01-02T12:00:00.000000Z")) == ["one", "two"]
    assert told.at("2026-01-03T11:00:00Z").position == told.at("2026-01-02T12:00:00Z").position
    assert told.at("2026-01-03T11:00:00Z").as_of == "2026-01-03T11:00:00.000000Z"
    assert told.at(told.at("2026-01-03T11:00:00Z").position).as_of == "2026-01-02T12:00:00.000000Z"


def test_after_a_clock_has_jumped_back_a_time_is_the_prefix_before_anything_later_was_known(told, clock):
    clock.time = datetime(2026, 1, 1, 18, tzinfo=UTC)
    told.remember("four, by a clock that went wrong")
    assert texts(told.at("2026-01-01T19:00:00Z")) == ["one"]
    assert texts(told.at("2026-01-03T12:00:00Z")) == ["one", "two", "three", "four, by a clock that went wrong"]
    assert told.at(5).as_of == "2026-01-03T12:00:00.000000Z", "its present is the latest that was known"
    assert texts(told.at("2026-01-02T13:00:00Z")) == ["one", "two"], "later than the clock is now, and not the future"


@pytest.mark.parametrize("wrong", [0, -1, 5, "0", "-3", "99999999999999999999999", 2**70])
def test_a_position_that_is_not_in_the_log_is_refused(told, wrong):
    with pytest.raises(RejectedError, match="go from 1 to 4"):
        told.at(wrong)


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (datetime(2026, 1, 2, 12), "offset"),
        ("2026-01-02T12:00:00", "offset"),
        ("2026-01-02 12:00", "offset"),
        ("2026-01-01T11:59:59Z", "before the first event"),
        (date(2026, 1, 1), "before the first event"),
        ("2026-01-04T12:00:01Z", "future"),
        ("9999-12-31", "future"),
        ("0001-01-01T00:00:00+05:00", "outside the years"),
        ("yesterday", "names no moment"),
        ("", "names no moment"),
        ("2026-13-01", "names no moment"),
        ("20260102", "a date has dashes"),
        (True, "a position, a time or the id"),
        (None, "a position, a time or the id"),
        (3.0, "a position, a time or the id"),
        (b"3", "a position, a time or the id"),
    ],
)
def test_what_is_no_moment_is_refused(told, wrong, why):
    with pytest.raises(RejectedError, match=why):
        told.at(wrong)


@pytest.mark.parametrize("wrong", [datetime(2026, 1, 2), "2026-01-02T12:00:00", 3, "then", ""])
def test_what_is_no_time_of_the_world_is_refused(told, wrong):
    with pytest.raises(RejectedError):
        told.at(3, valid_at=wrong)


def test_an_event_that_is_not_there_is_not_found(told):
    with pytest.raises(NotFoundError):
        told.at("01900000-0000-7000-8000-000000000000")


def test_a_batch_under_way_is_not_there_yet(told):
    with told.batch():
        told.remember("not committed")
        with pytest.raises(RejectedError, match="go from 1 to 4"):
            told.at(5)
        assert texts(told.at(4)) == ["one", "two", "three"]
    assert texts(told.at(5))[-1] == "not committed"


# --- what was true in the world --------------------------------------------------------------------------------------


def test_what_was_true_then_is_asked_of_what_is_known_and_of_what_was_known(ledger, clock):
    """Two clocks: on 10 January it becomes known that the office moved on the 5th."""
    old = ledger.remember("The office is in Lisbon.", valid_from="2025-06-01")
    clock.time = datetime(2026, 1, 10, tzinfo=UTC)
    ledger.supersede(old.id, "The office is in Porto.", valid_from="2026-01-05")
    before, after = old.position, ledger.position

    def said(moment, valid):
        return texts(ledger.at(moment, valid_at=valid))

    assert said(after, "2026-01-04T23:59:59.999999Z") == ["The office is in Lisbon."]
    assert said(after, "2026-01-05") == ["The office is in Porto."], "half open: the end of the one begins the other"
    assert said(before, "2026-01-07") == ["The office is in Lisbon."], "as known then"
    assert said(after, "2025-01-01") == []
    assert said(after, "2030-01-01") == ["The office is in Porto."], "what is known of the future"


def test_under_valid_only_what_was_true_counts(ledger):
    active = ledger.remember("tea", valid_from="2026-01-01", valid_to="2026-02-01T00:00:00Z")
    for number, verb in enumerate(("retract", "invalidate", "quarantine")):
        getattr(ledger.guards if verb == "quarantine" else ledger, verb)(
            ledger.remember(f"tea {number}", valid_from="2026-01-01").id
        )
    ledger.propose("tea?")
    moment = ledger.at(ledger.position, valid_at="2026-01-15")
    assert (
        [each.id for each in moment.memories.list()]
        == [each.id for each in moment.memories.list(statuses=())]
        == [active.id]
    )
    assert [hit.id for hit in moment.recall("tea").items] == [active.id] and moment.recall("tea").searched == 1
    assert moment.memories.get(active.id).id == active.id
    assert len(moment.review()) == 1, "the queue is about the record"
    late = ledger.at(ledger.position, valid_at="2026-02-01")
    assert late.memories.list() == [] and absent(late.memories.get, active.id) and late.recall("tea").items == ()
    assert late.why(active.id).memory.id == active.id
    for status in ("candidate", "invalid", "retracted"):
        with pytest.raises(RejectedError, match="valid= asks for"):
            moment.memories.list(statuses=(status,))


# --- how it behaves --------------------------------------------------------------------------------------------------


def test_recall_then_goes_by_the_texts_of_then_and_says_where_its_scores_are_from(ledger):
    first = ledger.remember("The user drinks coffee.")
    second = ledger.remember("The user drinks tea and coffee.")
    ledger.revise(first.id, "The user drinks water.")
    ledger.retract(second.id)
    assert ledger.recall("water").searched == 1, "which takes the texts of today into the index"
    then = ledger.at(second.position).recall("coffee")
    assert {hit.content for hit in then.items} == {"The user drinks coffee.", "The user drinks tea and coffee."}
    assert ledger.at(second.position).recall("water").items == ()
    (warning,) = then.warnings
    assert f"position {second.position}" in warning and "scores" in warning
    assert ledger.recall("water").warnings == ()


def test_recall_then_has_the_clock_of_then(ledger, clock):
    ledger.remember("The offer holds.", valid_to="2026-01-20T00:00:00Z")
    position = ledger.position
    clock.time = datetime(2026, 3, 1, tzinfo=UTC)
    assert ledger.recall("offer").items == ()
    assert [hit.content for hit in ledger.at(position).recall("offer").items] == ["The offer holds."]


def test_a_candidates_twin_is_found_among_the_active_memories_of_then(ledger):
    tea = ledger.remember("Tea.")
    idea = ledger.propose("tea.  ", kind=tea.kind)
    ledger.retract(tea.id)
    (then,), (now,) = ledger.at(idea.position).review(), ledger.review()
    assert (then.same_as_active, now.same_as_active) == (tea.id, None)


def test_a_moment_takes_no_command(told):
    moment = told.at(3)
    with pytest.raises(RejectedError):
        moment.proof.digest()
    assert "position=3" in repr(moment)
    position = told.position
    moment.recall("one")
    assert told.position == position


def test_what_keeps_no_past_cannot_be_read_by_mistake(told):
    with probe.read(told.at(3)) as connection:
        for name in ("keys", "duplicates", "absorbed_attempts", "search", "search_waiting", "restatable"):
            with pytest.raises(sqlite3.OperationalError, match="what_keeps_no_past"):
                connection.execute(f"SELECT * FROM {name}")


def test_a_moment_stays_as_it_was_while_others_write_and_rebuild(told):
    moment = past(told, 3)
    before = answers_of(moment, [told.memories.list()[-1].id])
    told.retract(told.memories.list()[-1].id)
    assert answers_of(moment, [told.memories.list(statuses=())[-1].id]) == before
    probe.rebuild(told)
    assert answers_of(moment, [told.memories.list(statuses=())[-1].id]) == before


def test_nothing_is_held_between_two_reads(tmp_path, monkeypatch):
    with Ledger.open(tmp_path / "memory.db") as ledger:
        ledger.remember("one")
        moment = ledger.at(ledger.position)
        assert texts(moment) == ["one"]
        ledger.remember("two")
        assert probe.store(ledger).checkpoint(), "a reader was in the way"
        assert os.stat(f"{tmp_path}/memory.db-wal").st_size == 0
        assert texts(moment) == ["one"]


def test_many_threads_travel_at_once(told):
    errors = []

    def travel(seed):
        draw = random.Random(seed)
        try:
            for _ in range(40):
                position = draw.randint(1, 4)
                assert texts(told.at(position)) == ["one", "two", "three"][: position - 1]
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=travel, args=(seed,)) for seed in range(12)]
    for thread in threads:
        thread.start()
    for number in range(10):
        told.remember(f"meanwhile {number}")
    for thread in threads:
        thread.join()
    assert errors == []


def test_a_closed_ledger_has_no_past_either(tmp_path):
    with Ledger.open(tmp_path / "memory.db") as ledger:
        ledger.remember("one")
        moment = ledger.at(2)
        assert texts(moment) == ["one"]
    with pytest.raises(RejectedError, match="closed"):
        moment.memories.list()
    with pytest.raises(RejectedError, match="closed"):
        ledger.at(2)
    assert not Path(f"{tmp_path}/memory.db-wal").exists(), "a travelling connection was left open"


def test_a_ledger_opened_for_reading_travels_too(tmp_path):
    with Ledger.open(tmp_path / "memory.db") as ledger:
        ledger.remember("one")
        ledger.remember("two")
    with Ledger.open(tmp_path / "memory.db", readonly=True) as reader:
        assert texts(reader.at(2)) == ["one"]
        assert [hit.content for hit in reader.at(2).recall("one two").items] == ["one"]


@pytest.mark.slow
def test_projections_of_another_version_are_folded_up_to_the_moment(tmp_path, monkeypatch):
    clock = Clock()
    with Ledger.open(tmp_path / "memory.db", clock=clock) as ledger:
        draw = random.Random(5)
        for name in ("remember", "capture", "supersede", "revise", "undo", "alias", "state", "remember", "retag"):
            act(ledger, clock, name, draw.choice(TEXTS), draw.randrange(10_000), "")
        ids = {row.stream for row in probe.store(ledger).rows() if row.stream != "ledger"}
        expected = [answers_of(past(ledger, position), ids) for position in range(1, ledger.position + 1)]
        changes = ledger.history.diff(2)
    monkeypatch.setattr(memories.MemoriesProjection, "version", 99)
    with Ledger.open(tmp_path / "memory.db", readonly=True, clock=clock) as reader:
        assert probe.store(reader).folded_privately
        for position, told in reversed(list(enumerate(expected, 1))):
            found = answers_of(past(reader, position), ids)
            for user in USERS[:2]:
                told[user].pop("stats"), found[user].pop("stats")
            assert found == told
        assert texts(reader.at(2)) == texts(reader.at("2"))
        assert reader.history.diff(2) == changes
        assert reader.at(3).recall("coffee").warnings == ()


def test_a_projection_that_was_parked_later_answers_for_the_time_before(ledger, monkeypatch):
    fact = ledger.remember("one")
    suspended = ledger.position + 1
    with monkeypatch.context() as patch:
        patch.setattr(memories.MemoriesProjection, "fold", lambda *_: 1 / 0)
        with suppress(LedgerError):
            ledger.remember("two")
    with pytest.raises(SuspendedError, match="suspended"):
        ledger.memories.list()
    assert texts(ledger.at(fact.position)) == ["one"]
    with pytest.raises(SuspendedError, match="suspended"):
        ledger.at(suspended).memories.list()
    probe.rebuild(ledger)


# --- the command line ------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_every_command_that_looks_takes_as_of(tmp_path):
    db = tmp_path / "memory.db"
    with Ledger.open(db) as ledger:
        fact = ledger.remember("The user drinks coffee.", project="shop")
        turn = ledger.capture("Coffee?", "Yes.", project="shop")
        ledger.propose("The user runs.", sources=(turn.id,))
        ledger.projects.set_state("shop", "decision", "db", "sqlite")
        then = ledger.position
        ledger.supersede(fact.id, "The user drinks tea.")
        ledger.projects.set_state("shop", "decision", "db", "postgres")
    calls = {
        "memories list": [], "memories get": [fact.id], "memories confidence": [fact.id], "review": [],
        "interactions list": [], "interactions get": [turn.id], "recall": ["coffee"], "why": [fact.id],
        "history events": [fact.id], "history audit": [], "history model-calls": [], "guards refusals": [],
        "projects list": [], "projects get": ["shop"], "projects state": ["shop"], "maintenance stats": [], "policy get": [],
    }  # fmt: skip
    for name, arguments in calls.items():
        result = run(*name.split(), *arguments, "--as-of", str(then), "--json", db=db)
        assert result.exit_code == 0, (name, result.output)
        assert "tea" not in result.stdout and "postgres" not in result.stdout, name
        refused = run(*name.split(), *arguments, "--as-of", "999", db=db)
        assert refused.exit_code == 4 and "go from 1 to" in refused.stderr, name
    shown = run("memories", "get", fact.id, "--as-of", str(then), db=db)
    assert "active" in shown.stdout
    assert "today's text index" in run("recall", "coffee", "--as-of", str(then), db=db).output
    told = json.loads(run("memories", "list", "--valid-at", "2020-01-01", "--json", db=db).stdout)
    assert told["items"] == []
    assert run("memories", "list", "--as-of", "2026-01-01T00:00", db=db).exit_code == 4
