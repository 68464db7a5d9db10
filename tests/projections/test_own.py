"""Projections of one's own: whatever happens, their tables are the fold of the events in effect."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from contextlib import closing, suppress

import commands
import pytest
from conftest import LONG, Clock
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from own import BOTH, Counts, Day, Seen, Turn, Turns, listed, rows_of
from places import QUICK

from ledger import ConflictError, Ledger, LedgerError, Projection, RejectedError, Row, SuspendedError
from ledger.core import own as engine_own

EFFECT = (
    "SELECT e.position, e.type, substr(json_extract(e.state, '$.recorded_at'), 1, 10) FROM events e"
    " WHERE e.position NOT IN (SELECT position FROM voided) AND e.type IN ({}) ORDER BY e.position"
)


def in_effect(path, *types):
    """By SQL alone: (position, type, day) of the events of some types that are in effect."""
    with closing(sqlite3.connect(path)) as connection:
        named = ", ".join(f"'{each}'" for each in types)
        return connection.execute(EFFECT.format(named)).fetchall()


def is_the_fold(ledger):
    """The tables are what SQL counts, what a fold of the moment gives, and what a verification folds."""
    found = listed(ledger)
    assert found == listed(ledger.at(ledger.position))
    turns = [(turn.position, turn.type) for turn in found[Turn]]
    assert turns == [row[:2] for row in in_effect(ledger.path, "InteractionCaptured", "PolicyAdopted")]
    reinforced = in_effect(ledger.path, "MemoryReinforced")
    assert sum(day.reinforced for day in found[Day]) == len(reinforced)
    report = ledger.proof.verify()
    assert report.ok, report.problems
    assert {"counts", "turns"} <= {*report.projections}, report.warnings
    return found


steps = st.lists(
    st.tuples(
        st.sampled_from(
            ("remember", "propose", "promote", "reject", "adjust", "reinforce", "supersede", "revise", "correct",
             "retag", "retract",
             "restore", "capture", "attach", "undo", "undo", "redo", "policy", "distrust", "trust", "batch", "erase",
             "join", "taken back", "clock")
        ),
        st.sampled_from(commands.TEXTS),
        st.integers(0, 10_000),
        st.sampled_from(commands.USERS),
        st.sampled_from(("with", "without", "with one")),
    ),
    min_size=5, max_size=40,
)  # fmt: skip


class Stop(Exception):
    """Somebody changes their mind inside a batch."""


def step(ledger, clock, action, text, number, user):
    public = ledger.bind(user=user)
    with suppress(LedgerError, Stop):
        if action == "erase":
            found = public.memories.list(statuses=()) or [None]
            id = getattr(found[number % len(found)], "id", "m_0000000000000000")
            public.erase(id, reason="asked for", derived="erase", sources="keep", quotes="keep")
        elif action == "join":
            public.projects.join("Work", "Home")
        elif action == "taken back":
            with public.batch():
                public.remember(text + " Once.")
                with suppress(Stop), public.batch():
                    public.remember(text + " Twice.")
                    public.undo(1 + number % public.position)
                    raise Stop
                public.remember(text + " Thrice.")
                if number % 2:
                    raise Stop
        else:
            commands.act(ledger, clock, action, text, number, user)


@pytest.mark.slow
@settings(max_examples=200 if LONG else 8, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    history=steps,
    tail=st.sampled_from((0, 3, 1_000)),
    batch=st.sampled_from((1, 7, 2_000)),
    states=st.sampled_from((0, 1, 4_096)),
)
def test_whatever_happened_the_tables_are_the_fold_of_what_is_in_effect(history, tail, batch, states):
    kept = engine_own.TAIL, engine_own.BATCH, engine_own.STATES
    engine_own.TAIL, engine_own.BATCH, engine_own.STATES = tail, batch, states
    clock, then = Clock(), {}
    try:
        with tempfile.TemporaryDirectory(dir=QUICK) as folder:
            path, options = f"{folder}/memory.db", {"clock": clock}
            with (
                Ledger.open(path, projections=BOTH, **options) as first,
                Ledger.open(path, **options) as second,
                Ledger.open(path, projections=[Counts()], **options) as third,
            ):
                ledgers = {"with": first, "without": second, "with one": third}
                for *what, who in history:
                    step(ledgers[who], clock, *what)
                    if what[0] == "erase":
                        then.clear()
                    if what[2] % 3 == 0:
                        then[first.position] = listed(first)
                live = is_the_fold(first)
                assert listed(first)[Day] == list(third.projections.rows(Day).all())
                for position, found in then.items():
                    assert listed(first.at(position)) == found
                first.maintenance.rebuild("counts")
                assert listed(first) == live
            with Ledger.open(path, projections=BOTH, readonly=True) as again:
                assert listed(again) == live
    finally:
        engine_own.TAIL, engine_own.BATCH, engine_own.STATES = kept


# --- by example ------------------------------------------------------------------------------------------------------


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "memory.db")


def test_a_command_is_in_the_tables_when_it_returns(path):
    with Ledger.open(path, projections=BOTH, user="ada") as ledger:
        tea = ledger.remember("The user likes tea.")
        ledger.reinforce(tea.id)
        (day,) = ledger.projections.rows(Day)
        assert (day.person, day.captured, day.reinforced) == ("ada", 1, 1)
        assert rows_of(path)["my_counts_day"] == [(day.day, "ada", 1, 1)]
        assert ledger.projections.rows(Day, person="bob") == []
        assert ledger.projections.rows(Seen, id=tea.id)[0].versions == [1, 2]


def test_in_a_batch_a_fold_reads_what_it_put_and_what_is_taken_back_is_gone(path):
    with Ledger.open(path, projections=BOTH) as ledger:
        with ledger.batch():
            ledger.remember("The user likes tea.")
            with suppress(Stop), ledger.batch():
                ledger.remember("The user likes rum.")
                raise Stop
            ledger.remember("The user likes milk.")
            assert ledger.projections.rows(Day)[0].captured == 2
        assert ledger.projections.rows(Day)[0].captured == 2
        with suppress(KeyboardInterrupt), ledger.batch():
            ledger.remember("The user likes gin.")
            raise KeyboardInterrupt
        assert ledger.projections.rows(Day)[0].captured == 2
        is_the_fold(ledger)


@pytest.mark.parametrize("kept", [0, 1, 4_096])
def test_what_a_subject_was_does_not_tell_when_an_undo_was(path, monkeypatch, kept):
    """Neither with the first fold nor with one from zero, however few subjects that one keeps in mind."""
    monkeypatch.setattr(engine_own, "STATES", kept)
    with Ledger.open(path, projections=BOTH) as ledger:
        tea = ledger.remember("The user likes tea.", confidence=0.5)
        rum = ledger.remember("The user likes rum.", confidence=0.5)
        ledger.reinforce(tea.id)
        ledger.reinforce(rum.id)
        ledger.undo(ledger.position - 1)
        ledger.revise(tea.id, "The user likes black tea.")
        ledger.revise(rum.id, "The user likes dark rum.")
        seen = is_the_fold(ledger)[Seen]
        assert [(row.versions, row.before, row.confidence) for row in seen if row.id == tea.id] == [
            ([1, 3], 2 + 500_000, 0.5)
        ]


def test_an_undo_in_a_batch_is_seen_in_it(path):
    with Ledger.open(path, projections=BOTH) as ledger, ledger.batch():
        ledger.remember("The user likes tea.")
        ledger.remember("The user likes rum.")
        ledger.undo(ledger.position)
        ledger.remember("The user likes milk.")
        assert ledger.projections.rows(Day)[0].captured == 2


def test_what_others_wrote_without_the_class_is_caught_up(path):
    with Ledger.open(path, projections=BOTH) as knows, Ledger.open(path) as knows_not:
        knows.remember("The user likes tea.")
        knows_not.remember("The user likes rum.")
        assert knows.projections.get("counts").behind == 1
        assert knows_not.projections.get("counts").is_open is False
        assert knows.projections.rows(Day)[0].captured == 2
        knows_not.undo(knows_not.position)
        knows.remember("The user likes milk.")
        assert knows.projections.rows(Day)[0].captured == 2
        with pytest.raises(RejectedError, match="no projection of this ledger has rows of the class"):
            knows_not.projections.rows(Day)


def test_pages_of_rows_reach_the_last(path):
    with Ledger.open(path, projections=BOTH) as ledger:
        for number in range(7):
            ledger.bind(user=f"user{number}").remember("I like tea.")
        page = ledger.projections.rows(Day, limit=3)
        assert len(page) == 3
        assert [row.person for row in page.all()] == [f"user{number}" for number in range(7)]
        with pytest.raises(RejectedError, match="other filters"):
            ledger.projections.rows(Day, person="x", after=page.next)


# --- a fold that raises ----------------------------------------------------------------------------------------------


class Heard(Row, key=("position",)):
    position: int


def raising(error, when, version=1):
    class Bad(Projection):
        name, follows, tables = "bad", ("memory",), (Heard,)

        def fold(self, event, change, rows):
            rows.put(Heard(event.position))
            if when(event):
                raise error

    Bad.version = version
    return Bad


@pytest.mark.parametrize("error", [ValueError("a text of somebody"), RecursionError(), sqlite3.OperationalError("x")])
def test_a_fold_that_raises_is_suspended_alone_and_the_write_goes_on(path, error, caplog):
    bad = raising(error, lambda event: "rum" in event.data.content)
    with Ledger.open(path, projections=[bad, *BOTH]) as ledger:
        ledger.remember("The user likes tea.")
        before = rows_of(path)["my_bad_heard"]
        ledger.remember("The user likes rum.")
        position = ledger.position
        with pytest.raises(SuspendedError, match=f"raised at position {position}") as raised:
            ledger.projections.rows(Heard)
        assert raised.value.projection == "bad"
        assert "somebody" not in caplog.text + str(raised.value)
        assert "bad is suspended" in caplog.text
        ledger.remember("The user likes milk.")
        assert rows_of(path)["my_bad_heard"] == before
        assert ledger.projections.rows(Day)[0].captured == 3
        assert "ProjectionSuspended" not in {entry.type for entry in ledger.history.audit().all()}
        report = ledger.proof.verify()
        assert report.ok
        assert any("bad" in warning and "suspended" in warning for warning in report.warnings)
        assert any("bad" in each.found for each in ledger.maintenance.doctor().findings if each.level == "problem")
    mended = raising(error, lambda event: False, version=2)
    with Ledger.open(path, projections=[mended]) as ledger:
        assert len(ledger.projections.rows(Heard)) == 3


def test_what_was_mended_goes_on_after_a_rebuild(path):
    broken = [True]
    with Ledger.open(path, projections=[raising(ValueError(), lambda event: broken[0])]) as ledger:
        ledger.remember("The user likes tea.")
        assert ledger.maintenance.rebuild("bad").suspended == ("bad",)
        with pytest.raises(SuspendedError, match=r"mend its fold and raise its version, or .*rebuild\('bad'\)"):
            ledger.query("SELECT * FROM my_bad_heard", every_user=True)
        with pytest.raises(RejectedError, match="no projection 'bat'; the projections are: audit, bad, confidence"):
            ledger.maintenance.rebuild("bat")
        broken.clear()
        broken.append(False)
        report = ledger.maintenance.rebuild("bad")
        assert (report.suspended, report.projections) == ((), ("bad",))
        assert len(ledger.projections.rows(Heard)) == 1


# --- versions --------------------------------------------------------------------------------------------------------


def test_another_version_is_folded_again_and_who_has_the_older_one_neither_folds_nor_reads(path):
    class Newer(Counts):
        version = 2

    class Longer(Row, key=("id",)):
        id: str
        kind: str

    class Changed(Projection):
        name, follows, tables = "counts", ("memory",), (Longer,)

        def fold(self, event, change, rows):
            rows.put(Longer(change.id, change.kind))

    with Ledger.open(path, projections=[Counts]) as old:
        old.remember("The user likes tea.")
        with Ledger.open(path, projections=[Newer]) as new:
            old.remember("The user likes rum.")
            assert new.projections.get("counts").behind == 1
            assert new.projections.rows(Day)[0].captured == 2
            with pytest.raises(ConflictError, match="another version of the class"):
                old.projections.rows(Day)
    with Ledger.open(path, projections=[Changed]) as ledger:
        assert [row.kind for row in ledger.projections.rows(Longer)] == ["memory", "memory"]
        assert [*rows_of(path)] == ["my_counts_longer"]


# --- erasure ---------------------------------------------------------------------------------------------------------

SECRET = "Zebulon the user prefers quokkas"


@pytest.mark.parametrize("classes", [(), BOTH])
def test_an_erasure_leaves_nothing_in_tables_of_ones_own_whoever_erases(path, classes):
    with Ledger.open(path, projections=BOTH) as ledger:
        secret = ledger.remember(SECRET)
        ledger.remember("The user likes tea.")
        assert any(SECRET in row for row in rows_of(path)["my_counts_seen"])
    with Ledger.open(path, projections=classes) as ledger:
        report = ledger.erase(secret.id, reason="asked for")
        assert report.state == "completed"
        assert report.projections == ("counts", "turns")
        if not classes:
            assert rows_of(path)["my_counts_seen"] == []
    for end in ("", "-wal"):
        if os.path.exists(path + end):
            with open(path + end, "rb") as file:
                assert b"quokkas" not in file.read()
    with Ledger.open(path, projections=BOTH) as ledger:
        assert {row.content for row in ledger.projections.rows(Seen)} == {None, "The user likes tea."}
        is_the_fold(ledger)


def test_a_fold_of_the_past_that_was_kept_is_not_answered_after_an_erasure(path):
    with Ledger.open(path, projections=BOTH) as ledger:
        secret = ledger.remember(SECRET)
        then = ledger.at(ledger.position)
        assert then.projections.rows(Seen)[0].content == SECRET
        ledger.erase(secret.id, reason="asked for")
        assert then.projections.rows(Seen)[0].content is None


# --- in SQL ----------------------------------------------------------------------------------------------------------


def test_a_question_in_sql_finds_the_tables_as_they_are_and_as_they_were(path):
    sql = "SELECT d.captured, (SELECT count(*) FROM beliefs) AS beliefs FROM my_counts_day d"
    with Ledger.open(path, projections=BOTH) as ledger, Ledger.open(path) as other:
        ledger.remember("The user likes tea.")
        other.remember("The user likes rum.")
        assert ledger.query(sql, every_user=True) == ({"captured": 2, "beliefs": 2},)
        assert ledger.at(2).query(sql, every_user=True) == ({"captured": 1, "beliefs": 1},)
        other.undo(other.position)
        assert ledger.query(sql, every_user=True) == ({"captured": 1, "beliefs": 1},)
        other.remember("The user likes milk.")
    with Ledger.open(path, projections=BOTH, readonly=True) as ledger:
        assert ledger.query(sql, every_user=True) == ({"captured": 2, "beliefs": 2},)


# --- care ------------------------------------------------------------------------------------------------------------


def test_a_row_that_was_changed_is_found_and_a_class_that_is_not_at_hand_is_named(path):
    with Ledger.open(path, projections=BOTH) as ledger:
        ledger.remember("The user likes tea.")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE my_counts_day SET captured = 7")
        connection.commit()
    with Ledger.open(path, projections=[Counts]) as ledger:
        report = ledger.proof.verify()
        (problem,) = report.problems
        assert 'my_counts_day differs from the log in "captured"' in problem
        assert any("turns" in each and "without its class" in each for each in report.warnings)
        ledger.maintenance.rebuild()
        assert ledger.proof.verify().ok
        assert ledger.projections.rows(Day)[0].captured == 1


def test_a_backup_and_a_file_that_was_recovered_say_the_same(path, tmp_path):
    with Ledger.open(path, projections=BOTH) as ledger:
        ledger.remember("The user likes tea.")
        found = listed(ledger)
        ledger.maintenance.backup(str(tmp_path / "copy.db"))
        ledger.maintenance.export_log(str(tmp_path / "log.jsonl"))
    Ledger.recover(str(tmp_path / "copy.db"), str(tmp_path / "recovered.db"))
    Ledger.import_log(str(tmp_path / "log.jsonl"), str(tmp_path / "imported.db"))
    for name in ("copy.db", "recovered.db", "imported.db"):
        with Ledger.open(str(tmp_path / name), projections=BOTH) as ledger:
            assert listed(ledger) == found
            assert ledger.proof.verify().ok


def test_only_a_file_that_can_be_written_is_caught_up(path):
    with Ledger.open(path) as ledger:
        ledger.remember("The user likes tea.")
    with Ledger.open(path, projections=BOTH, readonly=True) as ledger:
        assert ledger.projections.rows(Day)[0].captured == 1
        assert [each.behind for each in ledger.projections.list()] == [0, 0]
    assert rows_of(path) == {}


def test_nothing_of_ours_begins_as_what_is_a_users_own(path):
    Ledger.open(path).close()
    with closing(sqlite3.connect(path)) as connection:
        names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master")]
    assert [name for name in names if name.startswith("my_")] == []


# --- mistakes --------------------------------------------------------------------------------------------------------


def made(rows=(Turn,), **members):
    given = {"name": "mine", "follows": ("memory",), "tables": rows, "fold": lambda self, event, change, rows: None}
    return type("Mine", (Projection,), given | members)


class NoKey(Row):
    a: str


class WrongKey(Row, key=("b",)):
    a: str


class ListKey(Row, key=("a",)):
    a: list[int]


class Untold(Row, key=("a",)):
    a: str
    b: dict[str, float]
    c: sqlite3.Connection


MISTAKES = {
    "no name": (made(name=""), "the name of Mine is ''"),
    "bad name": (made(name="My-Counts"), "small letters, digits and _"),
    "a name of ours": (made(name="memories"), "the ledger has a projection 'memories' already"),
    "a fold of one": (made(fold=lambda self, event: None), "takes three arguments: fold"),
    "version": (made(version="1"), "the version of the projection 'mine' is a whole number"),
    "follows nothing": (made(follows=()), "follows nothing"),
    "follows a word": (made(follows="memory"), "is a tuple"),
    "follows what is none": (
        made(follows=("memories",)),
        "no kind of subject and no event .there is memory.; kinds: memory, interaction",
    ),
    "an event misspelt": (made(follows=("MemoryCapture",)), r"\(there is MemoryCaptured\)"),
    "no tables": (made(rows=()), "has no tables"),
    "no tuple of tables": (made(rows=Turn), r"a tuple, even for one table: tables = \(Turn,\), with the comma"),
    "an attribute misspelt": (
        type("Mine", (Projection,), {"name": "m", "folows": ("memory",), "tables": (Turn,), "fold": Counts.fold}),
        "has 'folows' and no 'follows'",
    ),
    "a version misspelt": (type("Mine", (Counts,), {"versoin": 2}), "has 'versoin' and no 'version'"),
    "no row": (made(rows=(dict,)), "a table is a class of rows"),
    "no key": (made(rows=(NoKey,)), "has no key"),
    "wrong key": (made(rows=(WrongKey,)), "has no column 'b'; it has a"),
    "a list as a key": (made(rows=(ListKey,)), "cannot be part of its key"),
    "a type": (made(rows=(Untold,)), "column c of the row Untold is of a type that cannot be stored"),
    "no fold": (type("Mine", (Projection,), {"name": "m", "follows": ("memory",), "tables": (Turn,)}), "has no fold"),
    "no class": (dict, "is no projection"),
    "arguments": (type("Mine", (Counts,), {"__init__": lambda self, a: None}), "give an object"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_what_is_wrong_with_a_class_is_said_before_the_file_is_made(path, mistake):
    wrong, why = MISTAKES[mistake]
    with pytest.raises(RejectedError, match=why):
        Ledger.open(path, projections=[wrong])
    assert not os.path.exists(path)


def test_a_row_takes_a_key_and_indexes_and_nothing_else():
    with pytest.raises(RejectedError, match="has the options keys; a row takes key= and indexes="):
        type(Row)("Wrong", (Row,), {"__annotations__": {"a": str}}, keys=("a",))


def test_two_of_one_name_and_tables_of_somebody_else_are_refused(path):
    with pytest.raises(RejectedError, match="two of the projections are called 'counts'"):
        Ledger.open(path, projections=[Counts, Counts])
    with pytest.raises(RejectedError, match="Turn is a row of 'turns' and of 'mine'"):
        Ledger.open(path, projections=[Turns, made()])
    with Ledger.open(path) as ledger:
        ledger.remember("The user likes tea.")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE my_turns_turn (a)")
    with pytest.raises(RejectedError, match="my_turns_turn, and there is one that was made by hand"):
        Ledger.open(path, projections=[Turns])
    with Ledger.open(path, projections=[Counts]) as ledger:
        assert ledger.projections.rows(Day)[0].captured == 1


async def waits(self, event, change, rows):
    rows.put(Turn(event.position, event.type))


OPEN = list[Ledger]()
FOLDS = {
    "another's row": (lambda self, e, c, rows: rows.put(Day("a", "b")), "Day is no row of the projection 'mine'"),
    "no row": (lambda self, e, c, rows: rows.put({"a": 1}), "dict is no row"),
    "a type": (lambda self, e, c, rows: rows.put(Turn("1", "a")), "position of Turn takes an int, and was given a str"),
    "too large": (lambda self, e, c, rows: rows.put(Turn(2**70, "a")), "64 bits"),
    "key": (lambda self, e, c, rows: rows.get(Turn), "the key of Turn is .position., and 0 values"),
    "column": (lambda self, e, c, rows: rows.put(Turn(1, "a"), typ="b"), "Turn has no column typ"),
    "condition": (lambda self, e, c, rows: rows.find(Turn, typ="b"), "Turn has no column typ"),
    "all": (lambda self, e, c, rows: rows.find(Turn), "at least one column"),
    "a ledger": (lambda self, e, c, rows: OPEN[0].recall("tea"), "fold called a ledger"),
    "a write": (lambda self, e, c, rows: OPEN[0].remember("The user likes coffee."), "fold called a ledger"),
    "async": (waits, "fold returned a coroutine"),
    "answer": (lambda self, e, c, rows: [1], "fold returned a list"),
}


@pytest.mark.parametrize("mistake", FOLDS)
def test_what_a_fold_asks_wrongly_suspends_it_and_says_why(path, mistake):
    fold, why = FOLDS[mistake]
    with Ledger.open(path, projections=[made(fold=fold), Counts]) as ledger:
        OPEN[:] = [ledger]
        ledger.remember("The user likes tea.")
        with pytest.raises(SuspendedError, match=why):
            ledger.projections.rows(Turn)
        assert len(ledger.memories.list()) == len(ledger.projections.rows(Seen)) == 1
        assert not ledger.guards.refusals() and ledger.proof.verify().ok


def test_a_table_that_somebody_altered_is_read_and_made_again(path):
    with Ledger.open(path, projections=[Turns], user="ada") as ledger:
        ledger.capture("Ahoy.")
        with closing(sqlite3.connect(path)) as other:
            other.execute("ALTER TABLE my_turns_turn ADD COLUMN mine")
        (turn,) = ledger.projections.rows(Turn)
        ledger.capture("Land!")
        ledger.maintenance.rebuild("turns")
        assert [each.type for each in ledger.projections.rows(Turn)] == [turn.type] * 2
        assert rows_of(path)["my_turns_turn"][0] == (turn.position, turn.type)
