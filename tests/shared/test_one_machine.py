"""One machine: several processes on its file, own projections, an asynchronous ledger, and an older product."""

from __future__ import annotations

import asyncio
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import needs
import own
import probe
import pytest
from eventsourcing.application import Application
from soundness import contents

from ledger import AsyncLedger, Ledger
from ledger.care import rebuilding
from ledger.core.reads import READER, WRITER
from ledger.domain.errors import BusyError, ConflictError, NewerFormatError, RejectedError
from ledger.events import FORMAT, LEDGER_STREAM, LedgerUpgraded
from ledger.log.event_store import EventStore
from tools.shared.double import assert_equal

TEA, CELLO = "Ada likes green tea", "Ada plays the cello"


def test_two_processes_of_a_machine_share_its_file(machines):
    a, again = machines.open("a"), machines.open("a")
    a.remember(TEA)
    assert again.remember(CELLO).position == 3
    a.remember("Ada owns a boat")
    assert len(contents(again)) == 3
    assert_equal(a, machines.open("b"))


def test_a_close_waits_for_the_command_of_another_thread(machines, monkeypatch):
    a = machines.open("a")
    begun, closing, close = threading.Event(), threading.Event(), EventStore.close

    def closed(store):
        closing.set()
        close(store)

    def work():
        with a.batch():
            memory = a.remember(TEA)
            begun.set()
            assert closing.wait(30)
        return memory

    monkeypatch.setattr(EventStore, "close", closed)
    with ThreadPoolExecutor(1) as threads:
        future = threads.submit(work)
        assert begun.wait(30)
        a.close()
        assert future.result().position == machines.server.tip.position
    assert machines.logs["a"].is_closed


def in_a_child(work):
    """Run work in a forked child, and return the child's exit code, which is negative if the child hangs."""
    import signal

    child = os.fork()
    if not child:
        signal.alarm(20)
        try:
            work()
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@needs.forks
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork")
def test_a_close_in_a_forked_child_leaves_the_command_of_the_parent_alone(machines):
    a = machines.open("a")
    with a.batch():
        memory = a.remember(TEA)
        assert in_a_child(a.close) == 0
    assert memory.position == machines.server.tip.position
    assert contents(a) == {TEA}


@needs.forks
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork")
def test_a_close_in_a_forked_child_does_not_wait_for_the_follower_of_the_parent(machines, monkeypatch):
    from ledger.erasure import replicas

    a = machines.open("a")
    begun, go_on = threading.Event(), threading.Event()

    def settle(_):
        begun.set()
        go_on.wait(60)

    with monkeypatch.context() as patch, ThreadPoolExecutor(1) as threads:
        patch.setattr(replicas, "settle", settle)
        future = threads.submit(machines.news, "a")
        try:
            assert begun.wait(30)
            assert in_a_child(a.close) == 0
        finally:
            go_on.set()
        future.result()
    a.remember(TEA)


def test_an_asynchronous_ledger_shares_a_log(machines):
    b = machines.open("b")

    async def live():
        log = machines.log_of("a")
        async with AsyncLedger.open(machines.path("a"), user="ada", actor="ada", log=log) as a:
            await asyncio.gather(*(a.remember(f"Ada owns the book number {number}") for number in range(20)))
            memory = b.remember(TEA)
            await a.wait(memory.position, 5)
            return len(await a.memories.list(limit=100))

    assert asyncio.run(live()) == 21


def test_a_wait_ends_with_an_error_when_the_time_is_over(machines):
    a = machines.open("a")
    a.wait(a.position, 0.01)
    with pytest.raises(BusyError, match="when the time was over"):
        a.wait(99, 0.01)
    with pytest.raises(BusyError, match="was cancelled"):
        a.wait(99, 5, cancel=lambda: True)


def test_a_wait_inside_a_batch_is_refused(machines):
    a = machines.open("a")
    with a.batch(), pytest.raises(ConflictError, match="inside a batch"):
        a.wait(99, 0.01)


def test_a_wait_without_a_shared_log_waits_for_another_process(tmp_path):
    with Ledger.open(tmp_path / "x.db") as ledger, Ledger.open(tmp_path / "x.db") as other:
        ledger.wait(other.remember(TEA).position, 0.01)
        with pytest.raises(BusyError):
            ledger.wait(99, 0.01)


def test_a_newer_product_ends_the_writing_of_an_older_one_and_reads_go_on(machines):
    a, b = machines.open("a"), machines.open("b")
    b.remember(TEA)
    machines.news()

    def upgrade(work):
        work.emit(LEDGER_STREAM, LedgerUpgraded(FORMAT + 1, READER, WRITER + 1))
        return LEDGER_STREAM

    probe.writer(a).run("upgrade", probe.who(user="ada"), upgrade)
    machines.news()
    with pytest.raises(NewerFormatError):
        b.remember(CELLO)
    assert contents(b) == {TEA}
    assert machines.server.holder is None


def test_own_projections_of_each_machine_follow_the_log(machines):
    a, b = machines.open("a", projections=own.BOTH), machines.open("b", projections=own.BOTH)
    a.remember(TEA)
    b.remember(CELLO)
    undone = a.remember("Ada owns a boat")
    a.capture("Tea?", "Yes.")
    b.undo(undone.position)
    machines.news()
    assert own.listed(a) == own.listed(b)
    assert len(own.listed(a)[own.Seen]) == 2


def test_without_a_shared_log_nothing_of_it_is_loaded(tmp_path):
    import subprocess
    import sys

    code = (
        "import sys, ledger\n"
        f"with ledger.Ledger.open({str(tmp_path / 'x.db')!r}) as opened: opened.remember('Ada likes tea')\n"
        "print([name for name in sys.modules if 'shared' in name or 'psycopg' in name])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_a_file_that_is_made_again_from_its_log_is_still_the_machines_copy(machines):
    a = machines.open("a")
    a.remember(TEA)
    rebuilding._replace(probe.inside(a))
    a.close()
    with (
        Ledger.open(machines.path("a"), user="ada") as alone,
        pytest.raises(RejectedError, match="name the log to give"),
    ):
        alone.remember(CELLO)
    with Ledger.open(machines.path("a"), user="ada", readonly=True) as reader, pytest.raises(RejectedError) as refused:
        reader.remember(CELLO)
    assert "readonly=True" in str(refused.value) and "log=" not in str(refused.value)
    assert machines.open("a").remember(CELLO).position == machines.server.tip.position


def test_a_backup_of_a_machines_file_catches_up(machines, tmp_path):
    a, b = machines.open("a"), machines.open("b")
    a.remember(TEA)
    a.maintenance.backup(tmp_path / "c.db")
    b.remember(CELLO)
    machines.news()
    assert_equal(a, machines.open("c"))


def test_a_branch_of_a_machines_file_is_a_ledger_of_its_own(machines, tmp_path):
    a = machines.open("a")
    a.remember(TEA)
    before = machines.server.tip
    a.replay(tmp_path / "branch.db", branch=True)
    with Ledger.open(tmp_path / "branch.db", user="ada") as branch:
        branch.remember(CELLO)
        assert contents(branch) == {TEA, CELLO}
    assert machines.server.tip == before


@pytest.mark.parametrize("more", [{}, {"IS_SNAPSHOTTING_ENABLED": "y"}])
def test_an_application_of_the_eventsourcing_library_is_refused_the_file(machines, more):
    machines.open("a").close()
    environment = {"PERSISTENCE_MODULE": "ledger.log.event_store", "SQLITE_DBNAME": str(machines.path("a")), **more}
    with pytest.raises(RejectedError, match="the file of a ledger") as told:
        Application(env=environment)
    assert told.value.rule == "foreign"
