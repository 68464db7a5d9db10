"""An erasure reaches every machine: its text is in no file, and it is completed when all machines have reported."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from soundness import contents, events_of

from ledger import Ledger
from ledger.erasure import erasing, purging
from ledger.log.shared import joining
from ledger.shared import sharing
from ledger.types import EVERYTHING
from tools.shared.double import LOST_AFTER, assert_equal

SECRET = "Zanzibar4711"


def holds(folder: Path, machine: str) -> list[str]:
    """Return the names of a machine's files that hold the secret."""
    return [path.name for path in folder.glob(f"{machine}.db*") if SECRET.encode() in path.read_bytes()]


def test_an_erasure_takes_the_text_out_of_the_files_of_every_machine(machines):
    a, b = machines.open("a"), machines.open("b")
    memory = a.remember(f"Ada lives in {SECRET}")
    machines.news()
    assert contents(b) == {f"Ada lives in {SECRET}"}
    report = a.erase(memory.id, reason="asked")
    assert (report.state, "b" in report.why) == ("pending", True)
    assert all(SECRET not in row.state for row in machines.server.rows)
    machines.news("b")
    assert contents(b) == set()
    assert a.erasures.list()[0].state == "pending"
    machines.news("a")
    assert [holds(machines.folder, machine) for machine in "ab"] == [[], []]
    assert [ledger.erasures.list()[0].state for ledger in (a, b)] == ["completed", "completed"]
    assert [event["data"].get("replica", "") for event in events_of(a, "ErasureCompleted")] == ["a", "b", ""]
    assert_equal(a, b)


def test_an_erasure_on_the_only_machine_is_completed_at_once(machines):
    a = machines.open("a")
    memory = a.remember(f"Ada lives in {SECRET}")
    report = a.erase(memory.id, reason="asked")
    assert (report.state, report.why) == ("completed", "")
    assert [event["data"].get("replica", "") for event in events_of(a, "ErasureCompleted")] == ["a", ""]


@pytest.mark.parametrize(("step", "tail"), [("_parted", 1), ("_copy_first", 1000)], ids=["a long log", "a short log"])
def test_an_erasure_waits_for_a_machine_that_copies_the_log_meanwhile(machines, monkeypatch, step, tail):
    a, states = machines.open("a"), []
    memory = a.remember(f"Ada lives in {SECRET}")
    copy = getattr(sharing, step)

    def copy_late(*arguments):
        states.append(a.erase(memory.id, reason="asked").state)
        return copy(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(sharing, step, copy_late)
        patch.setattr(sharing, "TAIL", tail)
        b = machines.open("b")
    machines.news()
    machines.news()
    assert states == ["pending"]
    assert [holds(machines.folder, machine) for machine in "ab"] == [[], []]
    assert [ledger.erasures.list()[0].state for ledger in (a, b)] == ["completed", "completed"]
    assert_equal(a, b)


def test_a_machine_that_never_had_the_text_takes_the_erased_row_as_it_is(machines):
    a, b = machines.open("a"), machines.open("b")
    memory = a.remember(f"Ada lives in {SECRET}")
    a.remember("Ada plays the cello")
    a.erase(memory.id, reason="asked")
    machines.news()
    machines.news()
    assert holds(machines.folder, "b") == []
    assert a.erasures.list()[0].state == "completed"
    assert_equal(a, b)


def test_what_another_machine_wrote_after_an_erasure_is_folded_after_it(machines):
    a, b = machines.open("a"), machines.open("b")
    turn = a.capture(f"I live in {SECRET}", "Noted.", session="s", project="home")
    machines.news("b")
    a.capture("It is near the harbour.", "Noted.", session="s", project="home")
    a.erase(turn.id, quotes="keep", derived="keep", reason="asked")
    a.capture("I moved.", "Noted.", session="s", project="home")
    a.undo(a.position)
    machines.news()
    machines.news()
    assert_equal(a, b)


def test_a_double_erasure_is_carried_out_at_both_places(machines):
    a, b = machines.open("a"), machines.open("b")
    turn = a.capture(f"I live in {SECRET}", f"So you live in {SECRET}, near the harbour.")
    other = a.remember(f"Ada lives in {SECRET}", sources=[turn.id])
    machines.news("b")
    a.erase(other.id, sources="keep", quotes="keep", reason="first")
    a.erase(turn.id, derived="keep", quotes="keep", reason="second")
    machines.news()
    machines.news()
    assert [holds(machines.folder, machine) for machine in "ab"] == [[], []]
    assert_equal(a, b)


def test_a_text_in_the_blobs_is_erased_everywhere(machines):
    a, b = machines.open("a"), machines.open("b")
    turn = a.capture("Read this.", f"{SECRET} " + "word " * 80_000)
    machines.news("b")
    a.erase(turn.id, reason="asked")
    c = machines.open("c")
    machines.news()
    machines.news()
    assert [holds(machines.folder, machine) for machine in "abc"] == [[], [], []]
    assert_equal(a, b, c)


def test_a_machine_opened_after_an_erasure_does_not_keep_it_pending(machines):
    a = machines.open("a")
    memory = a.remember(f"Ada lives in {SECRET}")
    a.erase(memory.id, reason="asked")
    b = machines.open("b")
    assert b.erasures.list()[0].state == "completed"


def test_a_forgotten_machine_keeps_no_erasure_pending(machines):
    a, b = machines.open("a"), machines.open("b")
    memory = a.remember(f"Ada lives in {SECRET}")
    machines.news()
    b.close()
    assert a.erase(memory.id, reason="asked").state == "pending"
    machines.server.forget("b")
    machines.logs.pop("b")
    machines.news()
    assert a.erasures.list()[0].state == "completed"


def opened(machines, file: str, machine: str = "a") -> Ledger:
    """Open a file of a machine, whatever the name of the file."""
    log = machines.logs[file] = machines.log_of(machine)
    ledger = Ledger.open(machines.path(file), log=log, user="ada", actor="ada")
    machines.open_ones.append(ledger)
    return ledger


def test_an_erasure_waits_for_a_closed_file_of_the_same_machine(machines):
    first = opened(machines, "first")
    memory = first.remember(f"Ada lives in {SECRET}")
    first.close()
    second = opened(machines, "second")
    report = second.erase(memory.id, reason="asked")
    assert report.state == "pending" and "a (file " in report.why
    assert holds(machines.folder, "first") != []
    first = opened(machines, "first")
    machines.news()
    machines.news()
    assert [holds(machines.folder, file) for file in ("first", "second")] == [[], []]
    assert second.erasures.list()[0].state == "completed"
    assert_equal(first, second)


def test_a_copied_file_is_a_machine_of_its_own_at_its_first_contact(machines):
    first = opened(machines, "first")
    memory = first.remember(f"Ada lives in {SECRET}")
    first.close()
    shutil.copy(machines.path("first"), machines.path("copy"))
    copy = opened(machines, "copy")
    assert [replica.machine for replica in asker(machines).replicas()] == ["a", "a"]
    assert copy.erase(memory.id, reason="asked").state == "pending"
    copy.close()
    assert holds(machines.folder, "first") != []


def test_a_file_that_is_moved_or_opened_again_is_the_same_machine(machines):
    first = opened(machines, "first")
    memory = first.remember(f"Ada lives in {SECRET}")
    first.close()
    machines.path("first").rename(machines.path("moved"))
    moved = opened(machines, "moved")
    (only,) = asker(machines).replicas()
    assert (only.machine, len(only.file)) == ("a", 12)
    assert moved.erase(memory.id, reason="asked").state == "completed"


def test_a_file_of_an_earlier_version_gets_an_id_and_is_one_machine(machines):
    first = opened(machines, "first")
    memory = first.remember(f"Ada lives in {SECRET}")
    first.close()
    with closing(sqlite3.connect(machines.path("first"))) as connection, connection:
        connection.execute("UPDATE replica SET machine = 'a'")
    machines.server.forget("a")
    machines.log_of("a").report(1, 0)  # as a program of the earlier version did
    assert [(each.machine, each.file) for each in asker(machines).replicas()] == [("a", "")]
    again = opened(machines, "first")
    machines.news()
    assert [(each.machine, len(each.file)) for each in asker(machines).replicas()] == [("a", 12)]
    assert again.erase(memory.id, reason="asked").state == "completed"


def test_forgetting_a_machine_forgets_its_files_until_they_report_again(machines):
    first = opened(machines, "first")
    memory = first.remember(f"Ada lives in {SECRET}")
    first.close()
    machines.path("first").unlink()
    second = opened(machines, "first")
    assert second.erase(memory.id, reason="asked").state == "pending"
    machines.server.forget("a")
    machines.news()
    assert second.erasures.list()[0].state == "completed"
    assert len(asker(machines).replicas()) == 1


def asker(machines):
    return machines.log_of("somebody who asks")


def test_a_machine_that_restarts_before_its_purge_writes_its_file_again(machines, monkeypatch):
    a, b = machines.open("a"), machines.open("b")
    memory = a.remember(f"Ada lives in {SECRET}")
    machines.news()
    a.erase(memory.id, reason="asked")
    with monkeypatch.context() as patch:
        patch.setattr(purging.Purging, "_truncate", lambda _: False)
        patch.setattr(purging, "PATIENCE_SECONDS", 0.0)
        machines.news("b")  # carries the erasure out, and cannot empty the -wal
        assert a.erasures.list()[0].state == "pending"
        b.close()
    b = machines.open("b")
    machines.news()
    assert holds(machines.folder, "b") == []
    assert a.erasures.list()[0].state == "completed"
    assert_equal(a, b)


def test_an_erasure_whose_connection_is_lost_is_settled(machines):
    a, b = machines.open("a"), machines.open("b")
    memory = a.remember(f"Ada lives in {SECRET}")
    machines.news()
    machines.logs["a"].failure = LOST_AFTER
    a.erase(memory.id, reason="asked")
    machines.news()
    machines.news()
    assert [holds(machines.folder, machine) for machine in "ab"] == [[], []]
    assert_equal(a, b)


def test_without_the_log_nothing_is_erased(machines):
    a = machines.open("a")
    memory = a.remember(f"Ada lives in {SECRET}")
    machines.server.is_away = True
    with pytest.raises(Exception, match="cannot be reached"):
        a.erase(memory.id, reason="asked")
    assert contents(a) == {f"Ada lives in {SECRET}"}


def test_a_users_whole_memory_is_erased_everywhere(machines):
    a, b = machines.open("a"), machines.open("b")
    for number in range(5):
        a.remember(f"Ada lives in {SECRET} {number}")
    b.bind(user="bob").remember("Bob likes tea")
    machines.news()
    a.erase(EVERYTHING, reason="asked")
    machines.news()
    machines.news()
    assert_equal(a, b)


@pytest.mark.parametrize("tail", [1, 1_000])
def test_an_erasure_of_several_events_is_carried_out_event_by_event(machines, monkeypatch, tail):
    monkeypatch.setattr(erasing, "EVENT_BYTES", 300)
    a, b = machines.open("a"), machines.open("b")
    for number in range(6):
        a.capture(f"I live in {SECRET} {number}", f"So you live in {SECRET} {number}.", session="s")
    machines.news()
    monkeypatch.setattr(joining, "TAIL", tail)
    monkeypatch.setattr(sharing, "TAIL", tail)
    a.erase(EVERYTHING, reason="asked")
    assert len(events_of(a, "ContentErased")) > 2
    machines.news()
    machines.news()
    assert [holds(machines.folder, machine) for machine in "ab"] == [[], []]
    assert [ledger.erasures.list()[0].state for ledger in (a, b)] == ["completed", "completed"]
    assert_equal(a, b)
