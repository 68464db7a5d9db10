"""Machines with a file each and one log in PostgreSQL, through the public API."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import needs
import probe
import pytest
from life import life
from servers import messages_sent, until
from soundness import contents

from tools.shared.double import assert_equal

pytest.importorskip("psycopg", reason="the driver psycopg is not installed")

from ledger import Ledger, shared
from ledger.domain.errors import ConflictError, LedgerError, UnreachableError
from ledger.log.shared.postgres import PostgresLog
from ledger.types import EVERYTHING
from tools.shared.server import Server

TEA, CELLO = "Ada likes green tea", "Ada plays the cello"
LONGEST_WAIT_SECONDS = 60
Open = Callable[..., Ledger]


@pytest.fixture
def opening(tmp_path: Path, shared_url: str, tenant: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Open]:
    """Open the ledger of a machine over the log of this test."""
    from ledger.shared import sharing

    monkeypatch.setattr(sharing, "REPORT_SECONDS", 0.0)
    ledgers: list[Ledger] = []

    def opened(machine: str, url: str = shared_url, **arguments: Any) -> Ledger:
        given = {"user": "ada", "actor": "ada", "tenant": tenant, "machine": machine, **arguments}
        ledgers.append(Ledger.open(tmp_path / f"{machine}.db", log=url, **given))
        return ledgers[-1]

    yield opened
    for ledger in ledgers:
        ledger.close()


def together(*ledgers: Ledger) -> None:
    """Wait until all have the end of the log."""
    end = max(ledger.position for ledger in ledgers)
    while True:
        for ledger in ledgers:
            ledger.wait(end)
        if (later := max(ledger.position for ledger in ledgers)) == end:
            return
        end = later


def test_a_machine_recalls_what_another_remembered(opening: Open) -> None:
    a, b = opening("a"), opening("b")
    b.wait(a.remember(TEA).position)
    assert [item.content for item in b.recall("what tea does Ada like?").items][:1] == [TEA]
    a.wait(b.remember(CELLO).position)
    assert contents(a) == contents(b) == {TEA, CELLO}
    assert_equal(a, b)


def test_a_command_sends_one_message_and_a_recall_sends_none(opening: Open, shared_url: str, tenant: str) -> None:
    a = opening("a")
    a.remember("Ada owns a boat")
    probe.inside(a).sharing.stop()  # so that no follower reads meanwhile
    before = messages_sent(shared_url)
    a.remember(TEA)
    assert messages_sent(shared_url) - before == 1
    a.recall("tea")
    assert messages_sent(shared_url) - before == 1


def test_a_follower_takes_in_what_others_wrote_without_being_asked(opening: Open) -> None:
    a, b = opening("a"), opening("b")
    a.remember(TEA)
    assert until(lambda: contents(b) == {TEA})


def test_a_life_on_one_machine_is_that_of_a_new_machine(opening: Open) -> None:
    a = opening("a")
    life(a)
    a.capture("Read this.", "word " * 80_000)
    b = opening("b")
    together(a, b)
    assert_equal(a, b)


def test_a_key_used_on_two_machines_at_once_gives_one_memory(opening: Open) -> None:
    a, b = opening("a"), opening("b")
    for number in range(10):
        with ThreadPoolExecutor(2) as threads:
            works = [
                threads.submit(ledger.remember, f"{TEA} {number}", idempotency_key=f"k{number}") for ledger in (a, b)
            ]
            answers = [work.result() for work in works]
        assert sorted(answer.replayed for answer in answers) == [False, True]
        assert len({answer.id for answer in answers}) == 1
    together(a, b)
    assert_equal(a, b)


def test_commands_of_three_machines_at_once_are_one_log(opening: Open) -> None:
    ledgers = [opening(name) for name in "abc"]
    ledgers[0].remember(TEA)

    def work(ledger: Ledger, name: str) -> None:
        for number in range(15):
            ledger.remember(f"Ada owns the book {name}{number}")

    with ThreadPoolExecutor(3) as threads:
        for future in [threads.submit(work, ledger, name) for ledger, name in zip(ledgers, "abc", strict=True)]:
            future.result()
    together(*ledgers)
    assert len(contents(ledgers[0])) == 46
    assert_equal(*ledgers)


def test_an_undo_of_what_another_machine_remembered_reaches_it(opening: Open) -> None:
    a, b = opening("a"), opening("b")
    memory = a.remember(TEA)
    b.undo(memory.position)
    together(a, b)
    assert contents(a) == contents(b) == set()
    assert_equal(a, b)


# --- erasure ---------------------------------------------------------------------------------------------------------


def holds(folder: Path, word: str) -> list[str]:
    return [path.name for path in folder.iterdir() if path.is_file() and word.encode() in path.read_bytes()]


def test_an_erased_text_leaves_every_machine_and_the_server(
    opening: Open, server: Server, tmp_path: Path, shared_url: str, tenant: str
) -> None:
    a, b = opening("a"), opening("b")
    memory = a.remember("Ada hides the Tulpenfeld")
    a.capture("Read this.", "Tulpenfeld " * 40_000)
    together(a, b)
    assert contents(b) == {"Ada hides the Tulpenfeld"}
    a.erase(memory.id, reason="she asked")
    a.erase(EVERYTHING, reason="she asked")
    together(a, b)
    assert until(lambda: all(each.erasures_pending == 0 for each in shared.replicas(shared_url, tenant)))
    assert until(lambda: all(each.state == "completed" for each in a.erasures.list()))
    together(a, b)
    assert until(lambda: not holds(tmp_path, "Tulpenfeld"))
    assert contents(a) == contents(b) == set()
    assert_equal(a, b)
    tail = PostgresLog(shared_url, tenant, "eve").tail(0, 10**6)
    assert not any("Tulpenfeld" in row.state for row in tail.rows)
    assert not any(b"Tulpenfeld" in (blob.data or b"") for blob in tail.blobs)

    def is_left() -> bool:
        server.sql("CHECKPOINT")
        return any(b"Tulpenfeld" in path.read_bytes() for path in server.data.glob("base/*/*") if path.is_file())

    assert until(lambda: not is_left())


def test_an_erasure_waits_for_a_machine_that_is_away_until_it_is_forgotten(
    opening: Open, shared_url: str, tenant: str
) -> None:
    a, b = opening("a"), opening("b")
    memory = a.remember(TEA)
    together(a, b)
    assert until(lambda: [each.machine for each in shared.replicas(shared_url, tenant)] == ["a", "b"])
    b.close()
    a.erase(memory.id, reason="she asked")
    pending = {each.machine: each.erasures_pending for each in shared.replicas(shared_url, tenant)}
    assert pending["b"] == 1
    assert [each.state for each in a.erasures.list()] == ["pending"]
    shared.forget(shared_url, tenant, "b", reason="its disk was shredded")
    assert until(lambda: all(each.state == "completed" for each in a.erasures.list()))


# --- failures --------------------------------------------------------------------------------------------------------

PROGRAM = """
import os, signal, sys
from ledger import Ledger
from ledger.log.shared.postgres import PostgresLog
from ledger.log.writing import Transaction
from tools.shared.server import Server

path, url, tenant, step = sys.argv[1:]
ledger = Ledger.open(path, log=url, tenant=tenant, machine="a", user="ada", actor="ada")
ledger.remember("Ada owns a boat")


def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)


if step == "before the publication":
    PostgresLog._commit = die
else:
    Transaction.finish = die
ledger.remember("Ada likes green tea", idempotency_key="k")
"""


@needs.signals
@pytest.mark.parametrize(("step", "replayed"), [("before the publication", False), ("after the publication", True)])
def test_a_machine_that_was_killed_in_a_commit_opens_and_answers_the_key(
    opening: Open, tmp_path: Path, shared_url: str, tenant: str, step: str, replayed: bool
) -> None:
    words = [sys.executable, "-c", PROGRAM, str(tmp_path / "a.db"), shared_url, tenant, step]
    assert subprocess.run(words, stderr=subprocess.PIPE).returncode == -signal.SIGKILL
    a, b = opening("a"), opening("b")
    assert contents(b) == {"Ada owns a boat"} | ({TEA} if replayed else set())
    assert a.remember(TEA, idempotency_key="k").replayed is replayed
    together(a, b)
    assert contents(a) == contents(b) == {"Ada owns a boat", TEA}
    assert_equal(a, b)


def test_machines_live_through_crashes_of_the_server(opening: Open, mortal_server: Server, tenant: str) -> None:
    url = mortal_server.url(mortal_server.new_database())
    a, b = opening("a", url), opening("b", url)
    over, acknowledged, failed = threading.Event(), set[str](), []

    def work(ledger: Ledger, name: str) -> None:
        number = 0
        while not over.is_set():
            number += 1
            text, key = f"Ada owns the book {name}{number}", f"{name}{number}"
            while not over.is_set():
                try:
                    ledger.remember(text, idempotency_key=key)
                    acknowledged.add(text)
                    break
                except (UnreachableError, ConflictError):
                    over.wait(0.05)
                except LedgerError as error:
                    failed.append(error)
                    break

    threads = [threading.Thread(target=work, args=(ledger, name)) for ledger, name in ((a, "a"), (b, "b"))]
    for thread in threads:
        thread.start()
    for _ in range(3):
        over.wait(0.4)
        mortal_server.stop("immediate")
        with pytest.raises(UnreachableError):
            Ledger.open(Path(probe.store(a).path).with_name("new.db"), log=url, tenant=tenant, machine="new")
        assert len(contents(a)) >= 0  # reads go on
        mortal_server.start()
    over.wait(0.4)
    over.set()
    for thread in threads:
        thread.join()
    assert failed == []
    together(a, b)
    assert acknowledged <= contents(a) == contents(b)
    assert len(acknowledged) > 5
    assert_equal(a, b)
