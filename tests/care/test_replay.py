"""A replay is the log up to a moment in a file of its own: the same for reading, or a branch that never passes for its parent."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import needs
import probe
import pytest
from command_line import run
from commands import TEXTS, USERS, act
from conftest import LONG, Clock
from hypothesis import given, settings
from hypothesis import strategies as st
from life import life
from places import QUICK
from tampering import raw

from ledger import ConflictError, Ledger, LedgerError, NotFoundError, RejectedError, StorageError
from ledger.care import replaying
from ledger.types import Event

KEEP = {"derived": "keep", "sources": "keep", "quotes": "keep"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory.db"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return tmp_path / "copy.db"


def rows(path, until=2**62):
    with raw(path) as connection:
        return connection.execute("SELECT * FROM events WHERE position <= ? ORDER BY 1", (until,)).fetchall()


def names(directory):
    return {each.name for each in directory.iterdir() if not each.name.endswith(".lock")}


def beliefs(ledger):
    found = (ledger.bind(user=user) for user in USERS)
    return [(list(each.memories.list(statuses=()).all()), each.proof.digest(beliefs=True)) for each in found]


def believed(ledger):
    return {each.id: (each.content, each.confidence) for each in ledger.memories.list().all()}


def would_be(now, shown):
    gone = {each.id for each in (*shown.lost, *shown.changed)}
    return {id: each for id, each in now.items() if id not in gone} | {
        each.id: (each.would_be.content, each.would_be.confidence)
        for each in (*shown.gained, *shown.changed)
        if each.would_be is not None and each.would_be.status == "active"
    }


# --- a copy for reading ----------------------------------------------------------------------------------------------


@needs.modes
def test_a_copy_is_the_same_log_up_to_there_and_takes_no_command(path, copy):
    with Ledger.open(path) as ledger:
        ledger.remember("The user lives in Rome.")
        ledger.capture("x" * 300_000, "a prompt that lies apart")
        until = ledger.position
        ledger.remember("The user moved to Porto.")
        report = ledger.replay(copy, until=until)
        assert (report.path, report.position, report.events, report.erased_later) == (str(copy), until, until, 0)
        assert (report.ledger_id, report.parent, report.stopped) == (ledger.id, None, "")
        assert "stays in it" in report.warning
        assert rows(copy) == rows(path, until)
        with Ledger.open(copy) as made:
            assert (made.id, made.position) == (ledger.id, until)
            assert made.maintenance.stats().head == report.head
            assert made.interactions.get(made.interactions.list()[0].id).prompt == "x" * 300_000
            found = made.proof.verify(full=True)
            assert found.ok and found.warnings == (
                f"this is a copy for reading of the ledger {ledger.id} up to position {until}",
            )
            health = made.maintenance.doctor()
            assert health.ok and any("a copy for reading" in each.found for each in health.findings)
            for command in (
                lambda: made.remember("no"),
                lambda: made.erase(made.memories.list()[0].id, **KEEP),
                lambda: made.jobs.run(),
                lambda: made.maintenance.rebuild(),
                lambda: made.batch().__enter__(),
            ):
                with pytest.raises(RejectedError, match=r"copy of a ledger .* branch=True"):
                    command()
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    with raw(copy) as connection, pytest.raises(Exception, match="takes no event"):
        connection.execute("INSERT INTO events SELECT position + 1, stream, version + 1, type, state, digest, head,"
                           " NULL, NULL FROM events WHERE position = (SELECT max(position) FROM events)")  # fmt: skip


def test_nothing_that_passes_for_the_ledger_is_made_of_a_copy_and_a_backup_of_one_is_a_copy(path, copy, tmp_path):
    with Ledger.open(path) as ledger:
        ledger.remember("The user lives in Rome.")
        ledger.replay(copy)
    with Ledger.open(copy) as made:
        with pytest.raises(RejectedError, match="pass for the ledger"):
            made.maintenance.export_log(tmp_path / "log.jsonl")
        made.maintenance.backup(tmp_path / "backup.db")
        made.replay(tmp_path / "again.db", until=1)
        made.replay(tmp_path / "branch.db", branch=True)
    with pytest.raises(RejectedError, match="pass for the ledger"):
        Ledger.recover(copy, tmp_path / "recovered.db")
    for name in ("backup", "again"):
        with Ledger.open(tmp_path / f"{name}.db") as made, pytest.raises(RejectedError, match="copy of a ledger"):
            made.remember("no")
    with Ledger.open(tmp_path / "branch.db") as made:
        made.remember("yes")
    assert names(tmp_path) == {"memory.db", "copy.db", "backup.db", "again.db", "branch.db"}


def test_a_moment_is_a_position_an_event_or_a_time_and_any_other_is_refused(path, tmp_path):
    clock = Clock()
    with Ledger.open(path, clock=clock) as ledger:
        first = ledger.remember("The user lives in Rome.")
        clock.advance(hours=1)
        ledger.remember("The user likes tea.")
        event = ledger.history.log()[first.position - 1]
        moments = (first.position, event.event_id, event.recorded_at)
        for number, moment in enumerate(moments):
            assert ledger.replay(tmp_path / f"{number}.db", until=moment).position == first.position
        for wrong in (0, 99, "tomorrow", "2020-01-01", True):
            with pytest.raises(LedgerError):
                ledger.replay(tmp_path / "wrong.db", until=wrong)
        with pytest.raises(RejectedError, match="never overwrites a file"):
            ledger.replay(tmp_path / "0.db")
        with ledger.batch(), pytest.raises(ConflictError, match="batch"):
            ledger.replay(tmp_path / "wrong.db")
    assert "wrong.db" not in names(tmp_path)


def test_a_ledger_that_is_only_read_is_replayed_too_and_one_beside_live_writers(path, tmp_path):
    with Ledger.open(path) as ledger:
        for number in range(50):
            ledger.remember(f"Fact number {number}.")
        stop = threading.Event()

        def write():
            number = 50
            while not stop.is_set():
                ledger.remember(f"Fact number {(number := number + 1)}.")

        writer = threading.Thread(target=write)
        writer.start()
        try:
            report = ledger.replay(tmp_path / "live.db")
            with Ledger.open(path, readonly=True) as reader:
                other = reader.replay(tmp_path / "read.db", branch=True, until=30)
        finally:
            stop.set()
            writer.join()
        assert rows(tmp_path / "live.db") == rows(path, report.position)
    with Ledger.open(tmp_path / "read.db") as made:
        assert (made.position, made.id) == (31, other.ledger_id) and made.proof.verify().ok


@pytest.mark.slow
@given(
    st.lists(st.tuples(
        st.sampled_from(("remember", "propose", "promote", "supersede", "revise", "correct", "retag", "invalidate",
            "retract", "restore", "quarantine", "capture", "extract", "undo", "redo", "distrust", "trust",
            "ingest", "remove_document", "cite", "batch", "clock", "erase", "erase")),
        st.sampled_from(TEXTS), st.integers(0, 10_000), st.sampled_from(USERS)), min_size=4, max_size=25),
    st.lists(st.integers(0, 10_000), min_size=2, max_size=3),
)  # fmt: skip
@settings(deadline=None, max_examples=60 if LONG else 8)
def test_a_replay_believes_what_was_believed_then(acts, places):
    clock = Clock()
    with tempfile.TemporaryDirectory(dir=QUICK) as folder, Ledger.open(f"{folder}/memory.db", clock=clock) as ledger:
        for action, text, number, user in acts:
            if action != "erase":
                act(ledger, clock, action, text, number, user)
            elif found := ledger.bind(user=user).memories.list(statuses=()):
                with suppress(LedgerError):
                    ledger.bind(user=user).erase(found[number % len(found)].id, **KEEP)
        for number, place in enumerate(places):
            position = 1 + place % ledger.position
            past = ledger.at(position)
            report = ledger.replay(f"{folder}/{number}.db", until=position)
            then = datetime.fromisoformat(past.as_of)
            with Ledger.open(f"{folder}/{number}.db", clock=lambda then=then: then) as made:
                assert made.proof.verify(full=True).ok
                assert (made.position, made.id, made.maintenance.stats().head) == (position, ledger.id, report.head)
                assert rows(f"{folder}/{number}.db") == rows(f"{folder}/memory.db", position)
                assert beliefs(made) == [
                    (list(each.memories.list(statuses=()).all()), each.proof.digest(beliefs=True))
                    for each in (ledger.bind(user=user).at(position) for user in USERS)
                ]
            try:
                ledger.replay(f"{folder}/{number}b.db", until=position, branch=True)
            except RejectedError as refused:
                assert "inside of a command" in str(refused)
                continue
            with Ledger.open(f"{folder}/{number}b.db", clock=clock) as branch:
                branch.remember("The branch goes on.")
                assert branch.proof.verify(full=True).ok and branch.id != ledger.id
                branch.maintenance.rebuild()
                assert branch.proof.verify().ok
        assert ledger.proof.verify().ok


# --- what was erased later -------------------------------------------------------------------------------------------


def test_what_was_erased_later_is_in_no_copy_and_a_branch_erases_it_again(path, copy, tmp_path):
    with Ledger.open(path) as ledger:
        secret = ledger.remember("The user's safe opens with Walpurgis.")
        other = ledger.remember("The user likes tea, and calls it nectar.")
        long = ledger.capture("A very long secret. " * 20_000, "ok")
        until = ledger.position
        ledger.remember("Later.")
        ledger.erase(secret.id, reason="asked", **KEEP)
        ledger.erase(Event(other.position, phrases=("nectar",)), **KEEP)
        ledger.erase(Event(other.position, phrases=("tea",)), **KEEP)
        ledger.erase(long.id, **KEEP)
        report = ledger.replay(copy, until=until)
        assert report.erased_later == 3
        branched = ledger.replay(tmp_path / "branch.db", until=until, branch=True)
        assert branched.erased_later == 3
    for name in ("copy.db", "branch.db"):
        data = (tmp_path / name).read_bytes()
        assert not any(each in data for each in (b"Walpurgis", b"nectar", b"A very long secret"))
    with Ledger.open(copy) as made:
        found = made.proof.verify(full=True)
        assert found.ok and any("after the end of this copy" in each for each in found.warnings)
        assert made.memories.get(secret.id).status == "erased"
    with Ledger.open(tmp_path / "branch.db") as made:
        assert made.proof.verify(full=True).ok and made.proof.verify(full=True).warnings == ()
        assert {each.state for each in made.erasures.list()} == {"completed"} and len(made.erasures.list()) == 4
        assert [each.type for each in made.history.log(after=until)][:2] == ["LedgerBranched", "ContentErased"]
        made.maintenance.rebuild()
        assert made.proof.verify().ok
        made.replay(tmp_path / "of a branch.db", until=until)
        made.replay(tmp_path / "of a branch, branched.db", until=until, branch=True)
    with Ledger.open(copy) as made:
        made.replay(tmp_path / "of a copy.db", until=until - 1)
        made.replay(tmp_path / "of a copy, branched.db", branch=True)
    for name in ("of a branch", "of a branch, branched", "of a copy", "of a copy, branched"):
        with Ledger.open(tmp_path / f"{name}.db") as made:
            assert made.proof.verify(full=True).ok, name


@pytest.mark.parametrize("branch", [False, True])
def test_what_is_erased_while_it_is_made_is_not_in_it(path, copy, branch):
    with Ledger.open(path) as ledger:
        secrets = [ledger.remember(f"The user's safe number {number} has the code 4711.") for number in range(2)]

        def erase(done, of):
            if done == of and secrets:
                ledger.erase(secrets.pop().id, **KEEP)

        assert ledger.replay(copy, branch=branch, progress=erase).erased_later == 2
    assert b"has the code" not in copy.read_bytes()
    with Ledger.open(copy) as made:
        assert made.proof.verify(full=True).ok and not made.memories.list()


def test_a_replay_beside_erasures_without_end_is_a_conflict(path, copy):
    with Ledger.open(path) as ledger:
        secrets = [ledger.remember(f"Secret number {number}.") for number in range(20)]
        with pytest.raises(ConflictError, match="erased during each"):
            ledger.replay(copy, progress=lambda done, of: done == of and ledger.erase(secrets.pop().id, **KEEP))
    assert not copy.exists()


def test_an_erasure_is_done_again_also_where_its_actor_was_distrusted_then(path, copy):
    with Ledger.open(path, actor="ann") as ledger:
        secret = ledger.remember("The user's safe opens with Walpurgis.")
        bot = ledger.bind(actor="bot")
        bot.remember("The user likes tea.")
        until = ledger.history.distrust("bot", kind="actor", reason="by mistake").position
        ledger.history.trust("bot", kind="actor", reason="it was right")
        bot.erase(secret.id, **KEEP)
        assert ledger.replay(copy, until=until, branch=True).erased_later == 1
    with Ledger.open(copy) as made:
        assert made.proof.verify(full=True).ok
        assert [each.actor for each in made.history.log(after=until)][:2] == ["ann", "ann"]


def test_what_is_changed_in_a_copy_is_found(path, copy, tmp_path):
    with Ledger.open(path) as ledger:
        first = ledger.remember("The user lives in Rome.")
        ledger.erase(first.id, **KEEP)
        ledger.replay(copy, until=first.position)
        ledger.replay(tmp_path / "branch.db", branch=True)
    with raw(copy) as connection:
        (sql,) = connection.execute(
            "SELECT sql FROM sqlite_master WHERE name = 'events_change_by_erasure_only'"
        ).fetchone()
        connection.execute("DROP TRIGGER events_change_by_erasure_only")
        connection.execute("UPDATE events SET state = replace(state, 'null', '\"x\"') WHERE erased_by IS NOT NULL")
        connection.execute(sql)
    with Ledger.open(copy) as made:
        assert any("is not what its erasure" in each for each in made.proof.verify().problems)


# --- a branch --------------------------------------------------------------------------------------------------------


def test_a_branch_goes_its_own_way_and_never_passes_for_its_parent(path, copy, tmp_path):
    with Ledger.open(path, actor="ann") as ledger:
        rome = ledger.remember("The user lives in Rome.", idempotency_key="k")
        before = ledger.proof.checkpoint(signing_key=None)
        until = ledger.position
        ledger.remember("The user moved to Porto.")
        after = ledger.proof.checkpoint()
        report = ledger.replay(copy, until=until, branch=True, reason="to try something")
        assert (report.parent, report.position, report.events) == (ledger.id, until, until + 1)
        assert report.ledger_id not in ("", ledger.id) and rows(copy, until) == rows(path, until)
        with Ledger.open(copy) as made:
            assert made.id == report.ledger_id == made.maintenance.stats().ledger_id
            (entry,) = made.history.log(after=until)
            data = entry.data
            assert (entry.type, entry.actor, data.reason) == ("LedgerBranched", "ann", "to try something")
            assert (data.ledger_id, data.parent, data.position, data.head) == (
                *(made.id, ledger.id, until, report.head),
            )
            assert made.remember("The user lives in Rome.", idempotency_key="k").replayed
            made.supersede(rome.id, "The user lives in Faro.")
            assert made.proof.verify(full=True).ok
            covered = made.proof.verify(against=before)
            assert covered.ok and "was branched at position" in covered.warnings[0]
            with pytest.raises(
                RejectedError, match=f"covers {after.size} events of the ledger {ledger.id}, from which"
            ):
                made.proof.verify(against=after)
            own = made.proof.checkpoint()
            assert own.ledger_id == made.id and made.proof.verify(against=own).ok
            with pytest.raises(RejectedError, match="the checkpoint is of the ledger"):
                ledger.proof.verify(against=own)
            assert made.proof.check(made.proof.prove(until + 1), own).ok
            made.maintenance.rebuild()
            made.maintenance.backup(tmp_path / "backup.db")
            made.maintenance.export_log(tmp_path / "log.jsonl")
            made.replay(tmp_path / "second.db", branch=True)
            again = made.replay(tmp_path / "first part.db", until=until)
            assert again.ledger_id == ledger.id, "up to there it is the parent's log"
    Ledger.recover(tmp_path / "backup.db", tmp_path / "recovered.db")
    Ledger.import_log(tmp_path / "log.jsonl", tmp_path / "imported.db")
    for name in ("copy", "recovered", "imported"):
        with Ledger.open(tmp_path / f"{name}.db") as made:
            assert made.id == report.ledger_id and made.proof.verify().ok, name
    with Ledger.open(tmp_path / "second.db") as made:
        assert made.proof.verify(against=before).ok and made.proof.verify(against=own).ok
        assert made.id not in (report.ledger_id, report.parent)


def test_a_branch_that_states_another_parent_is_found(path, copy):
    with Ledger.open(path) as ledger:
        ledger.replay(copy, branch=True)
        parent = ledger.id
    from ledger.events import LEDGER_STREAM, LedgerBranched

    with Ledger.open(copy) as made:
        event = LedgerBranched("f" * 32, parent, made.position, made.maintenance.stats().head)
        probe.writer(made).run(
            "replay", probe.default(made), lambda work: work.emit(LEDGER_STREAM, event) or LEDGER_STREAM
        )
        assert any("states another parent" in each for each in made.proof.verify().problems)


def test_a_branch_begins_behind_a_whole_command_and_a_copy_anywhere(path, copy):
    with Ledger.open(path) as ledger:
        first = ledger.remember("The user lives in Rome.")
        ledger.supersede(first.id, "The user lives in Porto.")
        inside = ledger.position - 1
        with pytest.raises(RejectedError, match=rf"behind a whole one, at {inside - 1} or {inside + 1}"):
            ledger.replay(copy, until=inside, branch=True)
        assert ledger.replay(copy, until=inside).events == inside


def test_a_hold_of_the_log_before_holds_in_the_branch(path, copy):
    with Ledger.open(path) as ledger:
        held = ledger.remember("The user lives in Rome.")
        ledger.holds.add(held.id, reason="case 12")
        ledger.replay(copy, branch=True)
    with Ledger.open(copy) as made, pytest.raises(RejectedError, match="hold"):
        made.erase(held.id, **KEEP)


# --- without ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["command", "actor", "interaction", "correlation"])
def test_without_something_is_what_the_what_if_shows(path, copy, what):
    with Ledger.open(path) as ledger:
        life(ledger)
        turn = ledger.bind(actor="eve").capture("Where?", "The user lives in Rome.", correlation_id="run")
        rome = ledger.bind(actor="eve").remember("The user lives in Rome.", sources=[turn.id], correlation_id="run")
        ledger.reinforce(rome.id)
        ledger.bind(actor="bob").supersede(rome.id, "The user lives in Porto.")
        origins = {"command": rome.position, "actor": {"actor": "eve"}, "interaction": turn.id, "correlation": "run"}
        without = origins[what]
        shown = ledger.history.what_if(without=without)
        now = believed(ledger)
        report = ledger.replay(copy, without=without, reason="as an experiment")
        assert report.parent == ledger.id and report.voided >= 1
        would = would_be(now, shown)
        with Ledger.open(copy) as made:
            assert believed(made) == would
            assert next(iter(made.history.log(after=report.position))).type == "LedgerBranched"
            assert made.proof.verify(full=True).ok
        assert believed(ledger) == now and report.events > report.position + 1


@pytest.mark.slow
@given(
    st.lists(st.tuples(
        st.sampled_from(("remember", "propose", "promote", "supersede", "revise", "invalidate", "retract", "restore",
            "quarantine", "capture", "extract", "undo", "ingest", "remove_document", "cite", "reinforce", "relate")),
        st.sampled_from(TEXTS), st.integers(0, 10_000), st.sampled_from(USERS[:1])), min_size=4, max_size=25),
    st.lists(st.one_of(st.integers(0, 10_000), st.sampled_from(("ann", "bot"))), min_size=2, max_size=3),
)  # fmt: skip
@settings(deadline=None)
def test_without_anything_a_branch_believes_what_the_what_if_says(acts, places):
    clock = Clock()
    with tempfile.TemporaryDirectory(dir=QUICK) as folder, Ledger.open(f"{folder}/memory.db", clock=clock) as ledger:
        for action, text, number, user in acts:
            act(ledger, clock, action, text, number, user)
        now = believed(ledger)
        for number, place in enumerate(places):
            without = {"actor": place} if isinstance(place, str) else 1 + place % ledger.position
            if isinstance(without, int) and ledger.history.log()[without - 1].type in (
                "CommandUndone",
                "LedgerCreated",
            ):
                continue
            shown = None
            with suppress(LedgerError):
                shown = ledger.history.what_if(without=without)
            try:
                ledger.replay(f"{folder}/{number}.db", without=without)
            except LedgerError as refused:
                assert shown is None or shown.events == 0, refused
                continue
            assert shown is not None
            with Ledger.open(f"{folder}/{number}.db", clock=clock) as made:
                assert believed(made) == would_be(now, shown)
                assert made.proof.verify(full=True).ok


def test_what_it_is_to_go_without_has_to_be_there_by_then(path, copy):
    with Ledger.open(path) as ledger:
        first = ledger.remember("The user lives in Rome.")
        then = ledger.position
        second = ledger.remember("The user likes tea.")
        for wrong in (second.position, 999, "nothing", {"actor": "a", "client": "b"}, {"actor": "crawller"}):
            with pytest.raises((NotFoundError, RejectedError)):
                ledger.replay(copy, until=then, without=wrong)
        assert names(copy.parent) == {"memory.db"} | {each for each in names(copy.parent) if "-" in each}
        report = ledger.replay(copy, until=then, without=first.position)
    with Ledger.open(copy) as made:
        assert not made.memories.list() and report.voided == 1
        made.redo(first.position)
        assert len(made.memories.list()) == 1


def test_from_the_shell_it_is_one_line_and_the_copy_is_another_db(path, copy, tmp_path):
    with Ledger.open(path) as ledger:
        ledger.bind(actor="crawler").remember("The user lives in Rome.")
        ledger.remember("The user likes tea.")
    made = run("replay", str(copy), "--until", "2", db=path)
    assert made.exit_code == 0 and "stays in it" in made.stdout
    assert "Rome" in run("memories", "list", db=copy).stdout and "tea" not in run("memories", "list", db=copy).stdout
    refused = run("remember", "no", db=copy)
    assert refused.exit_code == 4 and "`memory-ledger replay … --branch --db " in refused.stderr
    assert run("replay", str(copy), db=path).exit_code == 4
    branch = tmp_path / "branch.db"
    assert run("replay", str(branch), "--without", "actor=crawler", "--json", db=path).exit_code == 0
    assert run("remember", "yes", db=branch).exit_code == 0 and "Rome" not in run("memories", "list", db=branch).stdout


# --- what goes wrong -------------------------------------------------------------------------------------------------


def test_a_replay_that_has_to_end_leaves_nothing(path, copy):
    with Ledger.open(path) as ledger:
        for number in range(600):
            ledger.remember(f"Fact {number}.")
        told = []
        report = ledger.replay(copy, progress=lambda done, of: told.append((done, of)), cancel=lambda: len(told) > 0)
        assert report.stopped == "cancelled" and report.events == 0 and not copy.exists()
        with pytest.raises(KeyboardInterrupt):
            ledger.replay(copy, progress=_interrupt)
        assert not copy.exists() and ledger.replay(copy, branch=True, timeout=60).stopped == ""
        told.clear()
        ledger.replay(copy.with_name("more.db"), progress=lambda done, of: told.append((done, of)))
        assert told == sorted(told) and told[-1] == (2 * ledger.position, 2 * ledger.position)
        with pytest.raises(RejectedError):
            ledger.replay(copy.with_name("wrong.db"), timeout=-1)


def _interrupt(done, of):
    raise KeyboardInterrupt


def test_a_damaged_log_makes_nothing(path, copy):
    with Ledger.open(path) as ledger:
        for number in range(5):
            ledger.remember(f"Fact {number}.")
    with raw(path) as connection:
        (sql,) = connection.execute(
            "SELECT sql FROM sqlite_master WHERE name = 'events_change_by_erasure_only'"
        ).fetchone()
        connection.execute("DROP TRIGGER events_change_by_erasure_only")
        connection.execute("UPDATE events SET state = replace(state, 'Fact 3', 'Fact 9') WHERE position = 5")
        connection.execute(sql)
    with Ledger.open(path) as ledger:
        with pytest.raises(StorageError, match="position 5"):
            ledger.replay(copy)
        assert ledger.replay(copy, until=4).events == 4
    assert not list(copy.parent.glob("*.part*"))


PROGRAM = """
import os, signal, sys
from ledger import Ledger
seen = []
def step(done, of):
    seen.append(done)
    if len(seen) == int(sys.argv[3]):
        os.kill(os.getpid(), signal.SIGKILL)
with Ledger.open(sys.argv[1]) as ledger:
    ledger.replay(sys.argv[2], branch=True, progress=step)
"""


@needs.signals
@pytest.mark.slow
def test_one_that_is_killed_leaves_no_file_of_that_name(path, copy, tmp_path):
    with Ledger.open(path) as ledger, ledger.batch():
        for number in range(1_200):
            ledger.remember(f"Fact {number}.")
    for step in (1, 2, 3, 4, 5):
        done = subprocess.run([sys.executable, "-c", PROGRAM, path, copy, str(step)], check=False)
        if done.returncode == 0:
            assert step > 2
            break
        assert done.returncode == -signal.SIGKILL and not copy.exists()
        with Ledger.open(path):
            assert not list(tmp_path.glob("copy*")), "the next open clears away what is left"
    assert Ledger.open(path).replay(tmp_path / "after.db").events == 1_201


@pytest.mark.slow
def test_a_full_disk_is_a_typed_error_and_leaves_nothing(path, tmp_path):
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m,mode=0700", "tmpfs", str(place)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted here")
    try:
        with Ledger.open(path) as ledger:
            for number in range(10):
                ledger.capture(f"{number} " * 60_000, "long")
            for branch in (False, True):
                with pytest.raises(StorageError, match="full"):
                    ledger.replay(place / "copy.db", branch=branch)
                assert not os.listdir(place)
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_replay_hears_that_it_is_called_off_while_it_verifies(path, copy, monkeypatch):
    with Ledger.open(path) as ledger:
        for number in range(20):
            ledger.remember(f"Fact {number}.")
        verifying = []
        look = replaying.verify
        monkeypatch.setattr(replaying, "verify", lambda *a, **k: verifying.append(1) or look(*a, **k))
        report = ledger.replay(copy, cancel=lambda: bool(verifying))
    assert report.stopped == "cancelled" and verifying and not copy.exists()
