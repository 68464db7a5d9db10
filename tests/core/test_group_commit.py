"""Group commit: commands of many threads in one commit, each taken back alone, all answered after it."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import needs
import probe
import pytest
from soundness import assert_sound, contents, types

from ledger import BusyError, ConflictError, Ledger, NotFoundError, RejectedError, StorageError
from ledger.core import batches
from ledger.core.work import Tables
from ledger.domain.errors import DamagedError

THREADS = 40


@pytest.fixture
def path(tmp_path):
    return tmp_path / "memory.db"


@pytest.fixture
def ledger(path):
    with Ledger.open(path, group_commit=True) as ledger:
        ledger.remember("The first memory.")
        yield ledger


@pytest.fixture
def threads():
    with ThreadPoolExecutor(THREADS) as threads:
        yield threads


@pytest.fixture
def commits(ledger, monkeypatch):
    """The positions after each commit of the ledger."""
    seen: list[int] = []
    writing = probe.writing(ledger)
    commit = writing.commit

    def counted():
        commit()
        seen.append(writing.position)

    monkeypatch.setattr(writing, "commit", counted)
    return seen


@contextmanager
def queued(ledger, threads, *works):
    """Let each work queue its command before the writer thread decides one; gives the futures of the works."""
    with probe.writer_held(ledger) as wait_for:
        futures = []
        for number, work in enumerate(works, 1):
            futures.append(threads.submit(work))
            wait_for(number)
    yield futures


def outcome(future):
    """The class of the error, or None."""
    error = future.exception(timeout=30)
    return type(error) if error is not None else None


def test_commands_that_wait_are_one_commit(ledger, threads, commits):
    works = [lambda n=n: ledger.remember(f"The memory {n}.") for n in range(THREADS)]
    with queued(ledger, threads, *works) as futures:
        answers = [future.result(timeout=30) for future in futures]
    assert len(commits) == 1
    assert [answer.position for answer in answers] == list(range(3, 3 + THREADS))
    assert_sound(ledger)


def test_a_commit_has_at_most_sixty_four_commands(ledger, threads, commits, monkeypatch):
    monkeypatch.setattr(batches, "GROUP", 16)
    works = [lambda n=n: ledger.remember(f"The memory {n}.") for n in range(THREADS)]
    with queued(ledger, threads, *works) as futures:
        assert [outcome(future) for future in futures] == [None] * THREADS
    assert commits == [18, 34, 42]


def test_a_command_is_answered_after_the_commit_of_its_group(ledger, threads, path):
    with Ledger.open(path, readonly=True) as other:

        def work(number):
            memory = ledger.remember(f"The memory {number}.")
            return other.memories.get(memory.id) == memory

        with queued(ledger, threads, *[lambda n=n: work(n) for n in range(10)]) as futures:
            assert all(future.result(timeout=30) for future in futures)


def test_a_refused_command_leaves_the_others_and_its_refusal_is_recorded(ledger, threads, commits):
    ledger.policy.set(memory_chars=60)
    commits.clear()
    with queued(
        ledger,
        threads,
        lambda: ledger.remember("The second memory."),
        lambda: ledger.invalidate("m_0000000000000000"),
        lambda: ledger.remember("The third memory."),
        lambda: ledger.remember("One memory too many."),
    ) as futures:
        assert [outcome(future) for future in futures] == [None, NotFoundError, None, RejectedError]
    assert len(commits) == 1
    assert contents(ledger) == {"The first memory.", "The second memory.", "The third memory."}
    assert types(ledger)[-1] == "WriteRefused"
    assert_sound(ledger)


def test_a_command_that_fails_half_way_is_taken_back_alone_and_forgotten(ledger, threads, commits, monkeypatch):
    learn = Tables.learn

    def fail(tables, events):
        learn(tables, events)
        if (
            events[-1].envelope.data.__class__.__name__ == "MemoryCaptured"
            and "poison" in events[-1].envelope.data.content
        ):
            raise DamagedError("memories", 7)

    monkeypatch.setattr(Tables, "learn", fail)
    with queued(
        ledger,
        threads,
        lambda: ledger.remember("Before it.", project="old"),
        lambda: ledger.remember("The poison.", project="new", idempotency_key="k"),
        lambda: ledger.remember("After it.", project="new"),
    ) as futures:
        assert [outcome(future) for future in futures] == [None, DamagedError, None]
    assert len(commits) == 1
    monkeypatch.undo()
    assert contents(ledger, project="new") == {"After it."}
    again = ledger.remember("The poison.", project="new", idempotency_key="k")
    assert (again.replayed, again.absorbed, again.project) == (False, False, "new")
    assert_sound(ledger)


def test_an_answer_that_cannot_be_read_takes_the_command_back(ledger, threads, monkeypatch):
    """What raised for its caller must not stand."""
    writer = probe.writer(ledger)
    monkeypatch.setattr(
        writer.tables, "names_of", lambda state: (_ for _ in ()).throw(DamagedError("projects")) if state.tags else {}
    )
    with queued(
        ledger, threads, lambda: ledger.remember("Plain."), lambda: ledger.remember("Tagged.", tags=["t"])
    ) as futures:
        assert [outcome(future) for future in futures] == [None, DamagedError]
    monkeypatch.undo()
    assert contents(ledger) == {"The first memory.", "Plain."}
    assert_sound(ledger)


def test_a_commit_that_fails_fails_its_whole_group(ledger, threads, monkeypatch):
    position, transaction = ledger.position, probe.writing(ledger).transaction.__class__
    finish, failures = transaction.finish, [StorageError("the disk is full")]

    def fail_once(self):
        if failures:
            raise failures.pop()
        finish(self)

    monkeypatch.setattr(transaction, "finish", fail_once)
    works = [lambda n=n: ledger.remember(f"The memory {n}.", project=f"p{n}") for n in range(5)]
    with queued(ledger, threads, *works) as futures:
        errors = [future.exception(timeout=30) for future in futures]
    assert {type(error) for error in errors} == {StorageError}
    assert {str(error) for error in errors} == {
        "the disk is full; 4 other commands were in the same commit, and nothing of it was written"
    }
    assert len({id(error) for error in errors}) == 5, "threads must not share an error with its traceback"
    assert ledger.position == position
    assert [work().absorbed for work in works] == [False] * 5
    assert_sound(ledger)


def test_a_refusal_that_was_rolled_back_with_its_group_is_recorded_again(ledger, threads, monkeypatch):
    ledger.policy.set(memory_chars=20)
    transaction = probe.writing(ledger).transaction.__class__
    finish, failures = transaction.finish, [StorageError("the disk is full")]
    monkeypatch.setattr(
        transaction, "finish", lambda self: (_ for _ in ()).throw(failures.pop()) if failures else finish(self)
    )
    for _ in range(2):
        with pytest.raises(RejectedError):
            ledger.remember("One memory too many.")
    assert failures == []
    assert types(ledger)[-1] == "WriteRefused"


def test_a_refusal_that_could_not_be_recorded_is_recorded_the_next_time(ledger, monkeypatch):
    ledger.policy.set(memory_chars=20)
    learn, failures = Tables.learn, [DamagedError("refusals")]

    def fail_once(tables, events):
        learn(tables, events)
        if failures and type(events[-1].envelope.data).__name__ == "WriteRefused":
            raise failures.pop()

    monkeypatch.setattr(Tables, "learn", fail_once)
    for error in (DamagedError, RejectedError):
        with pytest.raises(error):
            ledger.remember("One memory too many.")
    assert types(ledger)[-1] == "WriteRefused"
    assert_sound(ledger)


@pytest.mark.parametrize("wrong", [0, -1, True, "5", 86_401])
def test_a_lock_timeout_is_a_number_of_seconds(path, wrong):
    with pytest.raises(RejectedError, match="lock_timeout is a number of seconds"):
        Ledger.open(path, lock_timeout=wrong)
    assert not path.exists()


def test_a_ledger_that_was_opened_with_a_lock_timeout_waits_no_longer(path):
    with Ledger.open(path) as other, Ledger.open(path, lock_timeout=0.05) as hasty:
        with probe.store(other).transact(), pytest.raises(BusyError, match="longer than the timeout"):
            hasty.remember("The memory.")
        hasty.remember("Now it is free.")


def test_a_file_that_another_process_keeps_locked_fails_the_group_as_busy(path, threads):
    with Ledger.open(path, group_commit=True) as ledger, Ledger.open(path) as other:
        probe.store(ledger)._file.busy_timeout_seconds = 0.05
        probe.writing(ledger).open_cursor().connection.execute("PRAGMA busy_timeout = 50")
        with probe.store(other).transact():
            futures = [threads.submit(ledger.remember, f"The memory {number}.") for number in range(3)]
            assert {outcome(future) for future in futures} == {BusyError}
        ledger.remember("Now it is free.")
        assert_sound(ledger)


def test_of_twenty_racing_writers_with_one_expected_position_one_wins(ledger, threads):
    memory = ledger.memories.list()[0]
    works = [
        lambda n=n: ledger.memories.set_confidence(memory.id, n / 100, expected=memory.position) for n in range(1, 21)
    ]
    with queued(ledger, threads, *works) as futures:
        outcomes = [outcome(future) for future in futures]
    assert (outcomes.count(None), outcomes.count(ConflictError)) == (1, 19)
    assert_sound(ledger)


def test_of_twenty_commands_with_one_key_one_writes(ledger, threads):
    work = lambda: ledger.remember("Once.", idempotency_key="k")  # noqa: E731
    with queued(ledger, threads, *[work] * 20) as futures:
        answers = [future.result(timeout=30) for future in futures]
    assert sorted(answer.replayed for answer in answers) == [False] + [True] * 19
    assert len({answer.id for answer in answers}) == 1


def test_an_erasure_is_never_in_a_group(ledger, commits):
    """It goes past the queue."""
    memory = ledger.memories.list()[0]
    with probe.writer_held(ledger):
        assert ledger.erase(memory.id).state == "completed"
        ledger.maintenance.rebuild()
    assert_sound(ledger)


def test_a_batch_of_one_thread_goes_past_the_queue_and_is_one_commit(ledger, commits):
    with probe.writer_held(ledger), ledger.batch():
        for number in range(10):
            ledger.remember(f"The memory {number}.")
    assert len(commits) == 1
    assert_sound(ledger)


def test_another_task_of_a_batchs_thread_is_refused_at_once(ledger):
    """It would wait for a writer thread that waits for the batch."""

    async def two_tasks():
        async def batching():
            with ledger.batch():
                ledger.remember("In the batch.")
                await asyncio.sleep(0)

        async def writing():
            ledger.remember("Beside it.")

        return await asyncio.gather(batching(), writing(), return_exceptions=True)

    assert [type(each).__name__ for each in asyncio.run(two_tasks())] == ["NoneType", "ConflictError"]


def test_a_bound_ledger_uses_the_same_queue(ledger, threads, commits):
    works = [lambda n=n: ledger.bind(user=f"u{n}").remember("The same text.").user for n in range(5)]
    with queued(ledger, threads, *works) as futures:
        assert [future.result(timeout=30) for future in futures] == ["u0", "u1", "u2", "u3", "u4"]
    assert len(commits) == 1


def test_a_close_first_commits_what_waits(path, threads):
    ledger = Ledger.open(path, group_commit=True)
    with probe.writer_held(ledger) as wait_for:
        futures = [threads.submit(ledger.remember, f"The memory {number}.") for number in range(10)]
        wait_for(10)
        closing = threads.submit(ledger.close)
    assert [outcome(future) for future in [*futures, closing]] == [None] * 11
    with pytest.raises(RejectedError, match="closed"):
        ledger.remember("Too late.")
    ledger.close()
    with Ledger.open(path) as ledger:
        assert len(contents(ledger)) == 10
        assert_sound(ledger)


def test_a_close_while_threads_write_loses_no_answer(path, threads):
    ledger = Ledger.open(path, group_commit=True)
    answered: list[str] = []

    def write(thread):
        for number in range(1_000):
            try:
                answered.append(ledger.remember(f"The memory {thread} {number}.").content)
            except RejectedError as error:
                return error.rule
        return "never closed"

    futures = [threads.submit(write, thread) for thread in range(10)]
    while len(answered) < 50:
        assert not any(future.done() for future in futures)
    ledger.close()
    assert {future.result(timeout=30) for future in futures} == {"closed"}
    with Ledger.open(path) as ledger:
        assert contents(ledger) == set(answered)


def test_a_readonly_ledger_refuses_commands_as_ever(path):
    Ledger.open(path).close()
    with Ledger.open(path, readonly=True, group_commit=True) as ledger, pytest.raises(RejectedError, match="readonly"):
        ledger.remember("No.")


def test_group_commit_is_true_or_false(path):
    with pytest.raises(RejectedError, match="group_commit"):
        Ledger.open(path, group_commit="yes")


def test_a_fold_may_not_call_the_ledger_through_the_queue_either(ledger):
    from ledger.log.event_store import own_fold

    own_fold.is_on = True
    try:
        with pytest.raises(RejectedError, match="a fold called a ledger"):
            ledger.remember("From a fold.")
    finally:
        own_fold.is_on = False


def test_the_thread_ends_when_nothing_comes_so_a_forgotten_ledger_goes(tmp_path, monkeypatch):
    monkeypatch.setattr(batches, "IDLE_SECONDS", 0.01)
    ledger = Ledger.temporary(group_commit=True)
    ledger.remember("One.")
    while any(thread.name == "ledger-writer" for thread in threading.enumerate()):
        pass
    assert ledger.remember("Two.").position == 3
    while any(thread.name == "ledger-writer" for thread in threading.enumerate()):
        pass
    engine, folder = weakref.ref(probe.inside(ledger)), os.path.dirname(ledger.path)
    del ledger
    gc.collect()
    assert engine() is None and not os.path.exists(folder)


@needs.forks
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork")
def test_a_forked_child_is_refused_and_does_not_wait(ledger):
    child = os.fork()
    if not child:
        try:
            ledger.remember("From the child.")
        except ConflictError:
            ledger.close()
            os._exit(7)
        os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 7
    assert ledger.remember("From the parent.").position == 3


def test_captures_of_many_threads_are_reinforced_in_groups(ledger, threads, commits):
    roast = "User prefers dark roast coffee from Kenya."
    memory = ledger.remember(roast, kind="preference", confidence=0.5)
    commits.clear()
    said = "Since you prefer dark roast coffee from Kenya, the shop on the corner is for you."
    works = [lambda n=n: ledger.capture(f"Which shop, {n}?", said, session=f"s{n}") for n in range(20)]
    with queued(ledger, threads, *works) as futures:
        answers = [future.result(timeout=30) for future in futures]
    assert {answer.reinforcement for answer in answers} == {"done"}
    assert len(commits) < 30, "40 commands"
    assert ledger.memories.get(memory.id).reference_count == 20
    assert_sound(ledger)


def test_the_writer_thread_waits_for_no_command_of_its_own(ledger):
    queue = probe.writer(ledger).queue
    with pytest.raises(RejectedError, match="call `plain`"):
        queue.call(lambda: queue.call(lambda: None))
    assert queue.call(lambda: 1) == 1
