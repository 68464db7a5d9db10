"""The failures of a network, a server and a machine, each with what must hold after it."""

from __future__ import annotations

import os
import shutil
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import probe
import pytest
from soundness import contents
from tampering import tamper

from ledger import ConflictError, Ledger, RejectedError
from ledger.domain.errors import (
    DamagedError,
    DivergedError,
    KeyReusedError,
    StorageError,
    UnknownOutcomeError,
    UnreachableError,
)
from tools.shared.double import LOST_AFTER, LOST_BEFORE, UNKNOWN, UNKNOWN_BEFORE, Double, Server, assert_equal

TEA, CELLO = "Ada likes green tea", "Ada plays the cello"


@pytest.mark.parametrize("failure", [LOST_BEFORE, LOST_AFTER])
def test_a_commit_whose_connection_is_lost_is_settled(machines, failure):
    a, b = machines.open("a"), machines.open("b")
    machines.logs["a"].failure = failure
    assert a.remember(TEA).position == machines.server.tip.position
    machines.news()
    assert contents(a) == contents(b) == {TEA}
    assert_equal(a, b)


def test_a_command_whose_outcome_is_unknown_replays_with_its_key(machines):
    a, b = machines.open("a"), machines.open("b")
    for failure in (UNKNOWN, UNKNOWN_BEFORE):
        machines.logs["a"].failure = failure
        with pytest.raises(UnknownOutcomeError):
            a.remember(f"{TEA} {failure}", idempotency_key=failure)
        again = a.remember(f"{TEA} {failure}", idempotency_key=failure)
        assert again.replayed is (failure == UNKNOWN)
    machines.news()
    assert len(contents(a)) == 2
    assert_equal(a, b)


def test_a_machine_killed_before_its_files_commit_has_the_command_when_it_opens(machines, monkeypatch):
    a, b = machines.open("a"), machines.open("b")

    def killed(*_):
        raise sqlite3.OperationalError("disk I/O error")

    with monkeypatch.context() as patch:
        patch.setattr("ledger.log.writing.Transaction.finish", killed)
        with pytest.raises(UnknownOutcomeError, match="the shared log has this command"):
            a.remember(TEA, idempotency_key="k")
    assert contents(a) == set()
    a.close()
    a = machines.open("a")
    assert contents(a) == {TEA}
    assert a.remember(TEA, idempotency_key="k").replayed
    machines.news()
    assert_equal(a, b)


def test_the_log_has_nothing_of_a_command_that_fails_before_it_is_published(machines, monkeypatch):
    a = machines.open("a")
    before = machines.server.tip
    with monkeypatch.context() as patch:
        patch.setattr("ledger.log.writing.Transaction.complete", lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            a.remember(TEA)
    assert machines.server.tip == before
    assert machines.server.holder is None
    assert a.remember(TEA).position == before.position + 1


def test_a_holder_that_was_idle_for_too_long_gets_a_conflict_and_writes_nothing(machines):
    a, b = machines.open("a"), machines.open("b")
    with pytest.raises(ConflictError, match="another machine wrote"), a.batch():
        a.remember(TEA)
        machines.server.end_idle_session()
        b.remember(CELLO)
    machines.news()
    assert contents(a) == contents(b) == {CELLO}
    assert_equal(a, b)


def test_a_holder_that_was_idle_writes_if_nobody_else_did(machines):
    a, b = machines.open("a"), machines.open("b")
    with a.batch():
        a.remember(TEA)
        machines.server.end_idle_session()
    machines.news()
    assert contents(b) == {TEA}


def test_a_lock_that_another_machine_keeps_is_busy(machines):
    a, b = machines.open("a"), machines.open("b", busy_seconds=0.01)
    with a.batch():
        a.remember(TEA)
        with pytest.raises(ConflictError, match="kept the lock"):
            b.remember(CELLO)
    assert b.remember(CELLO).position == machines.server.tip.position


def test_without_the_log_commands_are_refused_and_reads_go_on_and_it_heals_by_itself(machines):
    a, b = machines.open("a"), machines.open("b")
    a.remember(TEA)
    machines.server.is_away = True
    with pytest.raises(UnreachableError):
        a.remember(CELLO)
    machines.news()
    assert contents(a) == {TEA}
    with pytest.raises(UnreachableError):
        b.wait(a.position, 0.01)
    machines.server.is_away = False
    a.remember(CELLO)
    b.wait(a.position, 0.01)
    assert_equal(a, b)


def test_a_known_file_opens_without_the_log(machines):
    a = machines.open("a")
    a.remember(TEA)
    a.close()
    machines.server.is_away = True
    a = machines.open("a")
    assert contents(a) == {TEA}
    with pytest.raises(UnreachableError):
        a.remember(CELLO)


def test_a_new_file_needs_the_log(machines):
    machines.server.is_away = True
    with pytest.raises(UnreachableError):
        machines.open("a")


def test_a_log_that_lost_its_end_diverges_in_commands_and_in_the_follower_and_reads_go_on(machines):
    a, b = machines.open("a"), machines.open("b")
    a.remember(TEA)
    machines.news()
    machines.server.lose_end(1)
    with pytest.raises(DivergedError, match="set back"):
        a.remember(CELLO)
    machines.news("b")
    with pytest.raises(DivergedError):
        b.wait(99, 0.1)
    assert contents(a) == contents(b) == {TEA}
    assert machines.server.holder is None


def test_a_wait_for_a_position_that_a_diverged_file_has_raises_although_nobody_noticed_yet(machines):
    a, b = machines.open("a"), machines.open("b")
    for number in range(5):
        a.remember(f"{TEA} {number}")
    machines.news()
    machines.server.lose_end(3)
    for ledger in (a, b):
        with pytest.raises(DivergedError):
            ledger.wait(a.position - 4)
    machines.server.is_away = True
    with pytest.raises(DivergedError):
        b.wait(b.position)


def test_a_wait_for_a_position_that_the_file_has_does_not_need_the_log(machines):
    a = machines.open("a")
    a.remember(TEA)
    machines.server.is_away = True
    a.wait(a.position)


def test_a_log_with_other_events_at_the_end_diverges(machines):
    a, b = machines.open("a"), machines.open("b")
    a.remember(TEA)
    machines.server.lose_end(1)
    b.remember(CELLO)
    b.remember("Ada owns a boat")
    with pytest.raises(DivergedError, match="another event there"):
        a.remember("Ada owns a bicycle")
    machines.news("a")
    assert contents(a) == {TEA}


def test_a_key_used_on_two_machines_at_once_gives_one_memory(machines):
    a, b = machines.open("a"), machines.open("b")
    with ThreadPoolExecutor(2) as threads:
        works = [threads.submit(ledger.remember, TEA, idempotency_key="k") for ledger in (a, b)]
        answers = [work.result() for work in works]
    assert sorted(answer.replayed for answer in answers) == [False, True]
    assert len({answer.id for answer in answers}) == 1
    machines.news()
    assert_equal(a, b)


def test_a_key_used_elsewhere_for_another_command_is_refused(machines):
    a, b = machines.open("a"), machines.open("b")
    a.remember(TEA, idempotency_key="k")
    with pytest.raises(KeyReusedError):
        b.remember(CELLO, idempotency_key="k")


def test_a_deleted_file_is_folded_again(machines):
    a = machines.open("a")
    a.remember(TEA)
    a.close()
    for name in os.listdir(machines.folder):
        os.unlink(machines.folder / name)
    a = machines.open("a")
    assert contents(a) == {TEA}
    assert a.remember(CELLO).position == machines.server.tip.position


def test_the_file_of_another_tenant_is_refused(machines):
    machines.open("a").close()
    with pytest.raises(RejectedError, match="give each tenant a file of its own"):
        Ledger.open(machines.path("a"), log=Double(Server("umbrella"), "a"))


def test_a_file_with_a_log_of_its_own_is_refused(machines):
    Ledger.open(machines.path("a")).close()
    with pytest.raises(RejectedError, match=r"shared\.share"):
        machines.open("a")


def test_a_machines_file_opened_without_the_log_is_only_read(machines):
    a = machines.open("a")
    a.remember(TEA)
    a.close()
    with Ledger.open(machines.path("a"), user="ada") as alone:
        assert contents(alone) == {TEA}
        with pytest.raises(RejectedError, match="name the log to give"):
            alone.remember(CELLO)
    assert contents(machines.open("a")) == {TEA}


def test_a_file_keeps_its_log_when_another_machine_takes_a_copy_of_it(machines):
    a = machines.open("a")
    a.remember(TEA)
    a.close()
    shutil.copy(machines.path("a"), machines.path("b"))
    b = machines.open("b")
    assert b.remember(CELLO).position == machines.server.tip.position
    a = machines.open("a")
    assert_equal(a, b)


@pytest.mark.parametrize("machines", ["memory"], indirect=True)  # the tables of a server refuse such a change
def test_a_damaged_tail_is_not_taken_in(machines):
    a, b = machines.open("a"), machines.open("b")
    a.remember(TEA)
    row = machines.server.rows[-1]
    machines.server.rows[-1] = type(row)(**{n: getattr(row, n) for n in row.__slots__} | {"state": row.state + " "})
    with pytest.raises(Exception, match="the shared log is damaged"):
        b.remember(CELLO)
    machines.news("b")
    assert contents(b) == set()
    assert probe.store(b).head()[0] == 1


MOVE = "the file is a machine's copy of a shared log: move it and its -wal away, and the next open copies the log again"


@pytest.mark.parametrize(
    "damage", ["DELETE FROM events WHERE position > 2", "UPDATE events SET state = 'x' WHERE position = 2"]
)
def test_the_damaged_copy_of_a_shared_log_is_moved_away_and_the_next_open_copies_the_log(machines, damage):
    a = machines.open("a")
    for text in (TEA, CELLO, "Ada owns a boat"):
        a.remember(text)
    machines.close()
    path = Path(machines.path("a"))
    tamper(path, damage)
    with pytest.raises(DamagedError) as refused:
        list(machines.open("a").history.log().all())
    assert refused.value.table == "events" and str(refused.value).endswith(f"all that is wrong; {MOVE}")
    machines.close()
    problems = [finding for finding in Ledger.doctor(path).findings if finding.level == "problem"]
    assert {finding.hint for finding in problems if finding.what == "log"} == {f"never write to it again: {MOVE}"}
    for suffix in ("", "-wal"):
        if os.path.exists(f"{path}{suffix}"):
            os.rename(f"{path}{suffix}", f"{path}.damaged{suffix}")
    assert contents(machines.open("a")) == {TEA, CELLO, "Ada owns a boat"}


def test_the_damaged_log_of_one_file_is_recovered_from_a_backup(tmp_path):
    path = tmp_path / "own.db"
    with Ledger.open(path) as ledger:
        ledger.remember(TEA)
    tamper(path, "DELETE FROM events WHERE position > 1")
    with pytest.raises(DamagedError, match=r"recover\(\) your last backup at a new place$"):
        Ledger.open(path)


def test_a_copy_that_was_cut_off_in_the_middle_is_not_only_sent_to_a_backup(machines):
    machines.open("a").remember(TEA)
    machines.close()
    os.truncate(machines.path("a"), 4096)
    with pytest.raises(StorageError, match="a machine's copy of a shared log is moved away instead"):
        machines.open("a")


def test_a_process_that_has_the_file_open_without_the_log_is_stopped(machines):
    with Ledger.open(machines.path("x")) as alone:
        with sqlite3.connect(machines.path("x")) as other:
            other.execute("CREATE TABLE replica (id INTEGER)")
        other.close()
        with pytest.raises(ConflictError, match="open it again, and name the log"):
            alone.remember(TEA)
