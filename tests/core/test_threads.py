"""One ledger, many threads: commands take turns, reads are whole, and nobody sees another's state."""

from __future__ import annotations

import random
import sqlite3
import threading

import probe
import pytest
from soundness import assert_sound
from threads import together

from ledger import Ledger, LedgerError, RejectedError

THREADS, COMMANDS = 8, 50


def mixed(ledger, user, seed):
    """Fifty commands and as many reads of one user; every answer is checked on the spot."""
    asked = ledger.bind(user=user)
    choose, mine = random.Random(seed), {}
    for number in range(COMMANDS):
        action = choose.choice(("remember", "remember", "adjust", "capture", "state", "supersede", "refused", "batch"))
        if action == "remember" or not mine:
            fact = asked.remember(
                f"fact {number} of {seed}", project=f"p{number % 3}", idempotency_key=f"{seed}-{number}"
            )
            assert (fact.project, fact.user, fact.content) == (f"p{number % 3}", user, f"fact {number} of {seed}")
            mine[fact.id] = fact
        elif action == "adjust":
            id = choose.choice(list(mine))
            mine[id] = asked.memories.set_confidence(id, number / COMMANDS)
            assert mine[id].confidence == pytest.approx(number / COMMANDS)
        elif action == "capture":
            turn = asked.capture(f"question {number}", f"answer of {seed}", project="p1", session="s")
            assert (turn.project, turn.session, turn.response) == ("p1", "s", f"answer of {seed}")
        elif action == "state":
            project = asked.projects.set_state("p1", "fact", f"of {seed}", str(number))
            assert (f"of {seed}", str(number)) in {(entry.name, entry.value) for entry in project.state}
        elif action == "supersede":
            old = choose.choice(list(mine))
            successor = asked.supersede(old, f"instead {number} of {seed}")
            assert successor.supersedes == old
            del mine[old]
            mine[successor.id] = successor
        elif action == "refused":
            with pytest.raises(RejectedError):
                asked.reject(choose.choice(list(mine)))
        else:
            with ledger.batch():
                for each in range(3):
                    fact = asked.remember(f"batch {number} {each} of {seed}")
                    mine[fact.id] = fact
        for id, expected in mine.items():
            assert asked.memories.get(id).content == expected.content
            break
    return mine


@pytest.mark.slow
def test_threads_share_one_ledger(tmp_path):
    with Ledger.open(tmp_path / "memory.db") as ledger:
        found = {}

        def work(seed):
            user = f"user {seed % 4}"
            found[seed] = (user, mixed(ledger, user, seed))

        errors = together(*(lambda seed=seed: work(seed) for seed in range(THREADS)))
        assert errors == []
        for user, mine in found.values():
            active = {memory.id: memory.confidence for memory in ledger.bind(user=user).memories.list(limit=1_000)}
            assert {id: memory.confidence for id, memory in mine.items()} == {id: active[id] for id in mine}
        assert_sound(ledger)


def test_a_project_named_by_many_threads_at_once_is_one_project(tmp_path):
    with Ledger.open(tmp_path / "memory.db") as ledger:
        errors = together(*(lambda n=n: ledger.remember(f"fact {n}", project="Shared") for n in range(8)))
        assert errors == []
        assert [project.name for project in ledger.projects.list()] == ["Shared"]
        assert len(ledger.memories.list(project="shared")) == 8
        assert_sound(ledger)


def test_the_same_text_from_many_threads_is_one_memory(tmp_path):
    with Ledger.open(tmp_path / "memory.db") as ledger:
        answers = []
        errors = together(
            *(lambda n=n: answers.append(ledger.bind(actor=str(n)).remember("One fact.")) for n in range(8))
        )
        assert errors == []
        assert len({answer.id for answer in answers}) == 1
        assert sorted(answer.absorbed for answer in answers) == [False] + [True] * 7
        assert_sound(ledger)


def test_one_key_from_many_threads_is_one_command(tmp_path):
    with Ledger.open(tmp_path / "memory.db") as ledger:
        answers = []
        errors = together(
            *(lambda: answers.append(ledger.capture("What?", "That.", idempotency_key="k")) for _ in range(8))
        )
        assert errors == []
        assert len({answer.id for answer in answers}) == 1
        assert sorted(answer.replayed for answer in answers) == [False] + [True] * 7
        assert len(ledger.interactions.list()) == 1


@pytest.mark.slow
def test_reading_threads_see_whole_commands_during_writes_and_rebuilds(tmp_path):
    """A supersession is never seen half: whenever one is read, exactly one of the chain is active."""
    with Ledger.open(tmp_path / "memory.db") as ledger:
        first = ledger.remember("version 0")
        stop = threading.Event()

        def write():
            try:
                id = first.id
                for number in range(1, 80):
                    id = ledger.supersede(id, f"version {number}").id
            finally:
                stop.set()

        def read():
            while not stop.is_set():
                assert len(ledger.memories.list()) == 1
                why = ledger.why(first.id)
                assert why.memory.status == ("superseded" if why.superseded_by else "active")

        def rebuild():
            while not stop.is_set():
                probe.rebuild(ledger)

        assert together(write, read, read, rebuild) == []
        assert [memory.content for memory in ledger.memories.list()] == ["version 79"]
        assert_sound(ledger)


def test_closing_under_other_threads_gives_them_a_typed_error(tmp_path):
    ledger = Ledger.open(tmp_path / "memory.db")
    ends: list[BaseException] = []

    def work():
        try:
            for number in range(100_000):
                ledger.remember(f"fact {number} {threading.get_ident()}")
                ledger.memories.list(limit=3)
        except BaseException as error:
            ends.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    threading.Event().wait(0.2)
    ledger.close()
    for thread in threads:
        thread.join()
    assert len(ends) == 4
    assert [end for end in ends if not isinstance(end, LedgerError)] == []
    with Ledger.open(tmp_path / "memory.db") as again:
        assert_sound(again)


def test_recall_waits_for_no_writer_and_finds_what_is_newest(tmp_path):
    with Ledger.open(tmp_path / "memory.db") as ledger:
        tea = ledger.remember("Tea is in the tin.")
        other = sqlite3.connect(ledger.path, isolation_level=None)
        try:
            other.execute("BEGIN IMMEDIATE")
            assert [hit.id for hit in ledger.recall("tea tin").items] == [tea.id]
            other.execute("ROLLBACK")
        finally:
            other.close()
        assert [hit.id for hit in ledger.recall("tea tin").items] == [tea.id]
        assert ledger.remember("The tin is blue.").status == "active"
