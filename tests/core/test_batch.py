"""A batch: many commands, one commit; all or nothing up to its bounds, and every read inside sees what was written."""

from __future__ import annotations

import threading

import probe
import pytest
from absence import absent
from soundness import assert_sound, contents, types

from ledger import ConflictError, Ledger, NotFoundError, RejectedError, StorageError
from ledger.core import batches as writing


@pytest.fixture
def path(tmp_path):
    return tmp_path / "memory.db"


@pytest.fixture
def ledger(path):
    with Ledger.open(path) as ledger:
        yield ledger


def test_others_see_nothing_of_a_batch_before_it_ends(ledger, path):
    with Ledger.open(path) as other:
        with ledger.batch():
            ledger.remember("Tea is served at four.")
            assert contents(other) == set()
        assert contents(other) == {"Tea is served at four."}
    assert_sound(ledger)


def test_a_batch_reads_what_it_wrote(ledger):
    with ledger.batch():
        fact = ledger.remember("The cat sleeps on the stove.", project="house", tags=["cat"])
        assert ledger.memories.get(fact.id) == fact
        assert ledger.memories.get(fact.id[:12]).id == fact.id
        assert contents(ledger, project="house") == {fact.content}
        assert [hit.memory.id for hit in ledger.recall("stove").items] == [fact.id]
        assert ledger.memories.set_confidence(fact.id, 0.5).confidence == 0.5
        assert [step.delta for step in ledger.why(fact.id).steps] == [1.0, -0.5]
        assert ledger.position == fact.position + 1
        assert ledger.remember("The cat sleeps on the stove.", project="house").id == fact.id
        inside = ledger.proof.digest()
    assert ledger.proof.digest() == inside
    assert_sound(ledger)


def test_a_batch_after_somebody_elses_commit_loses_no_rows(ledger, path):
    ledger.remember("zero")
    for number in range(3):
        with Ledger.open(path) as other:
            other.remember(f"of the other {number}")
        with ledger.batch():
            for each in range(4):
                ledger.remember(f"{number} {each}")
    assert len(contents(ledger)) == 1 + 3 + 12
    assert_sound(ledger)


def test_an_exception_that_leaves_the_batch_takes_back_everything(ledger):
    kept = ledger.remember("kept", project="p", confidence=0.5)
    position, digest = ledger.position, ledger.proof.digest()
    with pytest.raises(ZeroDivisionError), ledger.batch():
        ledger.memories.set_confidence(kept.id, 0.9)
        lost = ledger.remember("lost", project="new project", idempotency_key="k")
        raise ZeroDivisionError
    assert (ledger.position, ledger.proof.digest()) == (position, digest)
    assert absent(ledger.memories.get, lost.id)
    # Names, states and versions that were cached inside are forgotten too.
    assert ledger.memories.set_confidence(kept.id, 0.9).position == position + 1
    again = ledger.remember("lost", project="new project", idempotency_key="k")
    assert (again.replayed, again.absorbed, again.project) == (False, False, "new project")
    assert_sound(ledger)


def test_a_refusal_inside_is_recorded_and_the_rest_stays(ledger):
    with ledger.batch():
        before = ledger.remember("before")
        ledger.retract(before.id)
        with pytest.raises(RejectedError):
            ledger.reinforce(before.id)
        ledger.remember("after")
    assert types(ledger)[1:] == ["MemoryCaptured", "MemoryRetracted", "WriteRefused", "MemoryCaptured"]
    assert contents(ledger, statuses=()) == {"before", "after"}
    assert [refusal.rule for refusal in ledger.guards.refusals()] == ["transition"]
    assert_sound(ledger)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda ledger, id: ledger.promote("m_0000000000000000"), NotFoundError),
        (lambda ledger, id: ledger.remember("another", idempotency_key="used"), ConflictError),
        (lambda ledger, id: ledger.remember(" "), RejectedError),
        (lambda ledger, id: ledger.remember("no", nobody="knows"), TypeError),
        (lambda ledger, id: ledger.undo(2), ConflictError),
    ],
)
def test_a_command_that_fails_inside_leaves_the_others(ledger, call, error):
    with ledger.batch():
        first = ledger.remember("first", idempotency_key="used")
        assert first.position == 2
        built = ledger.supersede(first.id, "built on it")
        with pytest.raises(error):
            call(ledger, first.id)
        assert contents(ledger) == {"built on it"}
        ledger.remember("last")
    assert contents(ledger) == {built.content, "last"}
    assert_sound(ledger)


def test_events_whose_rows_could_not_be_folded_are_not_committed(ledger, monkeypatch):
    """What fails half-way spoils its batch, even when the caller goes on as if nothing had happened."""
    position = ledger.position

    def broken(*_):
        raise MemoryError

    with pytest.raises(ConflictError, match="half-way"), ledger.batch():
        ledger.remember("whole")
        with monkeypatch.context() as patch:
            patch.setattr(probe.writer(ledger).projector, "fold", broken)
            with pytest.raises(MemoryError):
                ledger.remember("half")
    assert (ledger.position, contents(ledger)) == (position, set())
    ledger.remember("whole")
    assert_sound(ledger)


def test_a_batch_commits_at_its_bound_of_events_and_goes_on(ledger, path, monkeypatch):
    monkeypatch.setattr(writing, "BATCH_EVENTS", 10)
    with Ledger.open(path) as other:
        seen = []
        with pytest.raises(ZeroDivisionError), ledger.batch():
            for number in range(25):
                ledger.remember(f"fact {number}")
                seen.append(len(other.memories.list()))
            raise ZeroDivisionError
        assert seen == [0] * 10 + [10] * 10 + [20] * 5
        assert len(other.memories.list()) == len(ledger.memories.list()) == 20
    assert_sound(ledger)


def test_a_batch_commits_at_its_bound_of_time_and_goes_on(ledger, path, monkeypatch):
    monkeypatch.setattr(writing, "BATCH_SECONDS", 0.0)
    with Ledger.open(path) as other, ledger.batch():
        ledger.remember("one")
        ledger.remember("two")
        assert contents(other) == {"one"}
    assert_sound(ledger)


@pytest.mark.parametrize("bound", [{"BATCH_EVENTS": 3}, {"BATCH_SECONDS": 0.0}], ids=["events", "time"])
def test_a_whole_batch_is_one_commit_beyond_every_bound(ledger, path, monkeypatch, bound):
    for name, value in bound.items():
        monkeypatch.setattr(writing, name, value)
    with Ledger.open(path) as other:
        with pytest.raises(ZeroDivisionError), ledger.batch(whole=True):
            for number in range(8):
                ledger.remember(f"fact {number}")
            raise ZeroDivisionError
        assert contents(ledger) == set()
        with ledger.batch(whole=True):
            for number in range(8):
                ledger.remember(f"fact {number}")
            assert contents(other) == set()
        assert len(contents(other)) == 8
    assert_sound(ledger)


def test_a_whole_batch_inside_another_is_written_or_taken_back_whole(ledger, path, monkeypatch):
    monkeypatch.setattr(writing, "BATCH_EVENTS", 3)
    with Ledger.open(path) as other, ledger.batch():
        ledger.remember("before")
        with pytest.raises(ZeroDivisionError), ledger.batch(whole=True):
            for number in range(8):
                ledger.remember(f"lost {number}")
            raise ZeroDivisionError
        with ledger.batch(whole=True), ledger.batch():
            for number in range(4):
                ledger.remember(f"fact {number}")
            assert contents(other) == set()
        ledger.remember("after")
        assert contents(other) == {"before", *(f"fact {number}" for number in range(4))}
    assert_sound(ledger)


def test_a_batch_that_fails_after_its_bound_of_time_takes_back_only_the_rest(ledger):
    known = ledger.remember("known", confidence=0.5)
    with pytest.raises(ZeroDivisionError), ledger.batch():
        ledger.remember("early")
        ledger.reinforce(known.id)
        probe.batch(ledger).began -= writing.BATCH_SECONDS
        late = ledger.remember("late", idempotency_key="k")
        ledger.reinforce(known.id)
        raise ZeroDivisionError
    assert (contents(ledger), ledger.position) == ({"known", "early"}, late.position - 1)
    assert (ledger.memories.get(known.id).confidence, ledger.memories.get(known.id).reference_count) == (0.52, 1)
    assert not ledger.remember("late", idempotency_key="k").replayed
    assert_sound(ledger)


def test_another_process_may_write_between_the_parts_of_a_batch(ledger, path, monkeypatch):
    monkeypatch.setattr(writing, "BATCH_EVENTS", 3)
    monkeypatch.setattr(type(probe.writing(ledger)), "renew", _renew_after(probe.writing(ledger), path))
    with ledger.batch():
        for number in range(10):
            ledger.remember(f"fact {number}", project="shared")
    assert len(contents(ledger)) == 10 + 3
    assert_sound(ledger)


def _renew_after(writing, path):
    """As ``renew`` is, but another writer is quicker to take the lock after the commit."""
    commit = writing.commit

    def renew(self, transaction):
        commit()
        with Ledger.open(path) as other:
            other.remember(f"from elsewhere {other.position}", project="shared")
        self.cursor.execute("BEGIN IMMEDIATE")
        self.look(self.cursor)
        transaction.position, transaction.head, transaction.changes = self.position, self.head, self.changes

    return renew


def test_a_batch_inside_a_batch_is_the_same_batch(ledger, path):
    with Ledger.open(path) as other, ledger.batch():
        with ledger.batch():
            ledger.remember("inner")
        assert contents(other) == set()
        ledger.remember("outer")
    assert contents(ledger) == {"inner", "outer"}
    assert_sound(ledger)


def test_keys_count_inside_a_batch(ledger):
    with ledger.batch():
        first = ledger.remember("once", idempotency_key="k")
        again = ledger.remember("once", idempotency_key="k")
        assert (again.id, again.replayed, again.position) == (first.id, True, first.position)
    assert ledger.remember("once", idempotency_key="k").replayed
    assert ledger.position == first.position


def test_undo_works_inside_a_batch(ledger):
    with ledger.batch():
        fact = ledger.remember("fact", confidence=0.5)
        ledger.memories.set_confidence(fact.id, 0.7)
        ledger.undo(ledger.position)
        assert ledger.memories.get(fact.id).confidence == 0.5
        ledger.redo(ledger.position)
        assert ledger.memories.get(fact.id).confidence == 0.7
    assert_sound(ledger)


def test_captures_in_a_batch_are_reinforced_by_run_policies(ledger):
    fact = ledger.remember("The user prefers dark roast coffee.", kind="preference", confidence=0.5)
    with ledger.batch():
        turn = ledger.capture("Which coffee?", "The user prefers dark roast coffee.")
    assert (turn.reinforcement, ledger.memories.get(fact.id).confidence) == ("pending", 0.5)
    assert ledger.jobs.run().reinforced_memories == 1
    assert ledger.memories.get(fact.id).confidence == 0.52
    assert_sound(ledger)


def test_no_rebuild_and_no_close_inside_a_batch(ledger):
    with ledger.batch():
        fact = ledger.remember("fact")
        with pytest.raises(ConflictError, match="batch"):
            probe.rebuild(ledger)
        with pytest.raises(RejectedError):
            ledger.close()
    assert ledger.memories.get(fact.id)


def test_another_thread_waits_for_the_batch_and_reads_only_what_is_committed(ledger):
    inside, done, seen = threading.Event(), threading.Event(), []

    def other():
        inside.wait()
        seen.append(contents(ledger))
        seen.append(ledger.remember("of the thread").position)
        done.set()

    thread = threading.Thread(target=other)
    thread.start()
    with ledger.batch():
        ledger.remember("one")
        inside.set()
        assert not done.wait(0.1)
        ledger.remember("two")
    thread.join()
    assert seen == [set(), 4]
    assert_sound(ledger)


@pytest.mark.slow
def test_a_full_disk_in_a_batch_is_a_typed_error_and_nothing_of_it_stays(ledger):
    ledger.remember("kept")
    pages = probe.writer(ledger).rows.connection.execute("PRAGMA page_count").fetchone()[0]
    probe.writer(ledger).rows.connection.execute(f"PRAGMA max_page_count = {pages + 5}")
    with pytest.raises(StorageError, match="full"), ledger.batch():
        for number in range(2_000):
            ledger.remember(f"{number} " + "x" * 1_000)
    probe.writer(ledger).rows.connection.execute("PRAGMA max_page_count = 1000000")
    assert contents(ledger) == {"kept"}
    ledger.remember("after")
    assert_sound(ledger)
