"""A batch belongs to whoever opened it: a thread, a task and a context. A batch inside of it is a savepoint."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import probe
import pytest
from soundness import assert_sound

from ledger import BusyError, ConflictError, Ledger, RejectedError
from ledger.core import batches as bounds


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory.db"


@pytest.fixture
def ledger(path: Path) -> Iterator[Ledger]:
    with Ledger.open(path) as ledger:
        yield ledger


def contents(ledger: Ledger) -> set[str]:
    return {each.content for each in ledger.memories.list(limit=1_000)}


def of_two_tasks(first: Callable[[], Awaitable[Any]], second: Callable[[], Awaitable[Any]]) -> list[Any]:
    """What two tasks of one thread came to."""

    async def both() -> list[Any]:
        return list(await asyncio.gather(first(), second()))

    return asyncio.run(both())


# --- another task of the same thread ---------------------------------------------------------------------------------

WRITES: dict[str, Callable[[Ledger], object]] = {
    "remember": lambda ledger: ledger.remember("Of the other."),
    "batch": lambda ledger: ledger.batch().__enter__(),
    "of a bound ledger": lambda ledger: ledger.bind(user="zoe").remember("Of the other."),
    "rebuild": lambda ledger: ledger.maintenance.rebuild(),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_another_task_of_the_same_thread_is_refused_at_once(ledger: Ledger, write: Callable[[Ledger], object]) -> None:
    ledger.remember("Before.")
    inside, refused = asyncio.Event(), asyncio.Event()

    async def owner() -> None:
        with ledger.batch():
            ledger.remember("One.")
            inside.set()
            await refused.wait()
            ledger.remember("Two.")

    async def other() -> str:
        await inside.wait()
        with pytest.raises(ConflictError, match="batch") as found:
            write(ledger)
        refused.set()
        return str(found.value)

    assert of_two_tasks(owner, other)[0] is None
    assert contents(ledger) == {"Before.", "One.", "Two."}
    assert_sound(ledger)


def test_after_the_batch_the_other_task_writes(ledger: Ledger) -> None:
    async def owner() -> None:
        with ledger.batch():
            ledger.remember("One.")
            await asyncio.sleep(0.01)

    async def other() -> int:
        for turn in range(1_000):
            try:
                ledger.remember("Of the other.")
                return turn
            except ConflictError:
                await asyncio.sleep(0.001)
        raise AssertionError

    found = of_two_tasks(owner, other)
    assert found[0] is None and found[1] > 0
    assert contents(ledger) == {"One.", "Of the other."}


def test_another_task_reads_what_is_committed_and_nothing_of_the_batch(ledger: Ledger) -> None:
    kept = ledger.remember("The cup is blue.")
    inside, done = asyncio.Event(), asyncio.Event()

    async def owner() -> set[str]:
        with ledger.batch():
            ledger.revise(kept.id, "The cup is red.")
            ledger.remember("The cat sleeps.")
            inside.set()
            await done.wait()
            return contents(ledger)

    async def other() -> tuple[Any, ...]:
        await inside.wait()
        found = contents(ledger), ledger.position, [hit.memory.content for hit in ledger.recall("cup").items]
        done.set()
        return found

    seen, told = of_two_tasks(owner, other)
    assert seen == {"The cup is red.", "The cat sleeps."}
    assert told == ({"The cup is blue."}, 2, ["The cup is blue."])


def test_two_tasks_that_take_turns_each_with_a_batch_lose_nothing(ledger: Ledger) -> None:
    async def owner(name: str) -> None:
        for number in range(5):
            while True:
                try:
                    with ledger.batch():
                        ledger.remember(f"{name} {number} one.")
                        await asyncio.sleep(0)
                        ledger.remember(f"{name} {number} two.")
                    break
                except ConflictError:
                    await asyncio.sleep(0)

    assert of_two_tasks(lambda: owner("a"), lambda: owner("b")) == [None, None]
    assert len(contents(ledger)) == 20
    assert_sound(ledger)


# --- another thread --------------------------------------------------------------------------------------------------


def test_another_thread_waits_for_the_end_of_the_batch(ledger: Ledger) -> None:
    inside, written = threading.Event(), threading.Event()

    def other() -> None:
        inside.wait()
        ledger.remember("Of the other.")
        written.set()

    thread = threading.Thread(target=other)
    thread.start()
    with ledger.batch():
        ledger.remember("One.")
        inside.set()
        assert not written.wait(0.1)
    thread.join()
    assert contents(ledger) == {"One.", "Of the other."}


def test_another_thread_waits_no_longer_than_the_timeout(ledger: Ledger) -> None:
    probe.store(ledger)._file.busy_timeout_seconds = 0.05
    found: list[Exception] = []

    def other() -> None:
        try:
            ledger.remember("Of the other.")
        except BusyError as error:
            found.append(error)

    with ledger.batch():
        ledger.remember("One.")
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert [type(each) for each in found] == [BusyError]
    assert contents(ledger) == {"One."}


# --- a token that was inherited, or is over --------------------------------------------------------------------------


def test_a_child_task_does_not_join_the_batch_that_it_inherited(ledger: Ledger) -> None:
    async def owner() -> None:
        async def child() -> None:
            ledger.remember("Of the child.")

        with ledger.batch():
            ledger.remember("One.")
            with pytest.raises(ConflictError, match="batch"):
                await asyncio.create_task(child())
        await asyncio.create_task(child())

    asyncio.run(owner())
    assert contents(ledger) == {"One.", "Of the child."}


def test_a_thread_of_the_task_does_not_join_the_batch_that_it_inherited(ledger: Ledger) -> None:
    probe.store(ledger)._file.busy_timeout_seconds = 0.05

    async def owner() -> None:
        with ledger.batch():
            ledger.remember("One.")
            with pytest.raises(ConflictError):
                await asyncio.to_thread(ledger.remember, "Of the thread.")
            assert await asyncio.to_thread(contents, ledger) == set()

    asyncio.run(owner())
    assert contents(ledger) == {"One."}


def test_a_child_task_that_inherited_a_batch_which_is_over_writes_by_itself(ledger: Ledger) -> None:
    async def child(go: asyncio.Event) -> None:
        await go.wait()
        ledger.remember("Of the child.")
        with ledger.batch():
            ledger.remember("Of its batch.")
            await asyncio.sleep(0)

    async def owner() -> None:
        go = asyncio.Event()
        with pytest.raises(ZeroDivisionError), ledger.batch():
            task = asyncio.create_task(child(go))
            await asyncio.sleep(0)
            raise ZeroDivisionError
        go.set()
        await task
        with ledger.batch():
            ledger.remember("Later.")

    asyncio.run(owner())
    assert contents(ledger) == {"Of the child.", "Of its batch.", "Later."}


def test_a_child_that_inherited_a_finished_batch_does_not_join_the_next_one(ledger: Ledger) -> None:
    async def child(go: asyncio.Event) -> None:
        await go.wait()
        ledger.remember("Of the child.")

    async def owner() -> None:
        go = asyncio.Event()
        with ledger.batch():
            task = asyncio.create_task(child(go))
            await asyncio.sleep(0)
        with ledger.batch():
            ledger.remember("One.")
            go.set()
            with pytest.raises(ConflictError, match="batch"):
                await task

    asyncio.run(owner())
    assert contents(ledger) == {"One."}


def test_a_loop_that_is_run_inside_a_batch_does_not_join_it(ledger: Ledger) -> None:
    async def main() -> None:
        ledger.remember("Of the loop.")

    with ledger.batch():
        ledger.remember("One.")
        with pytest.raises(ConflictError, match="batch"):
            asyncio.run(main())
    assert contents(ledger) == {"One."}


def test_a_callback_of_the_loop_is_not_the_task_that_asked_for_it(ledger: Ledger) -> None:
    found: list[type] = []

    def callback() -> None:
        try:
            ledger.remember("Of the callback.")
        except ConflictError as error:
            found.append(type(error))

    async def owner() -> None:
        with ledger.batch():
            asyncio.get_running_loop().call_soon(callback)
            await asyncio.sleep(0.01)

    asyncio.run(owner())
    assert found == [ConflictError] and contents(ledger) == set()


def test_a_context_of_the_same_thread_that_knows_nothing_of_the_batch_is_refused(ledger: Ledger) -> None:
    empty = contextvars.Context()
    with ledger.batch():
        ledger.remember("One.")
        with pytest.raises(ConflictError, match="batch"):
            empty.run(ledger.remember, "Of elsewhere.")
        contextvars.copy_context().run(ledger.remember, "Two.")
    assert contents(ledger) == {"One.", "Two."}


# --- the owner -------------------------------------------------------------------------------------------------------


def test_bound_ledgers_join_the_batch_in_its_context(ledger: Ledger, path: Path) -> None:
    zoe = ledger.bind(user="zoe")
    with Ledger.open(path) as other:
        with pytest.raises(ZeroDivisionError), ledger.batch():
            zoe.remember("Zoe's.")
            with zoe.bind(actor="eve").batch():
                ledger.remember("Hers.")
            assert contents(zoe) == {"Zoe's."} and contents(other) == set()
            raise ZeroDivisionError
        with zoe.batch():
            ledger.remember("Hers.")
            zoe.remember("Zoe's.")
            assert other.position == 1
        assert (contents(other), contents(other.bind(user="zoe"))) == ({"Hers."}, {"Zoe's."})
    assert_sound(ledger)


def test_the_owner_awaits_inside_and_goes_on(ledger: Ledger) -> None:
    async def helped(text: str) -> None:
        await asyncio.sleep(0)
        ledger.remember(text)

    async def owner() -> None:
        with ledger.batch():
            await helped("One.")
            await asyncio.sleep(0.001)
            await helped("Two.")
            assert contents(ledger) == {"One.", "Two."}

    asyncio.run(owner())
    assert contents(ledger) == {"One.", "Two."}
    assert_sound(ledger)


def test_batches_of_two_files_are_two(path: Path, tmp_path: Path) -> None:
    with Ledger.open(path) as one, Ledger.open(tmp_path / "other.db") as two:
        with pytest.raises(ZeroDivisionError), one.batch():
            with two.batch():
                one.remember("Of one.")
                two.remember("Of two.")
            one.remember("Of one, too.")
            raise ZeroDivisionError
        assert (contents(one), contents(two)) == (set(), {"Of two."})
        first, second = one.batch(), two.batch()
        first.__enter__()
        second.__enter__()
        one.remember("Of one.")
        first.__exit__(None, None, None)
        two.remember("Of two, too.")
        second.__exit__(None, None, None)
        assert (contents(one), contents(two)) == ({"Of one."}, {"Of two.", "Of two, too."})
        one.remember("After.")


def test_a_cancelled_owner_takes_its_batch_back(ledger: Ledger) -> None:
    async def owner(inside: asyncio.Event) -> None:
        with ledger.batch():
            ledger.remember("One.")
            inside.set()
            await asyncio.sleep(60)

    async def main() -> None:
        inside = asyncio.Event()
        task = asyncio.create_task(owner(inside))
        await inside.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        ledger.remember("After.")

    asyncio.run(main())
    assert contents(ledger) == {"After."}
    assert_sound(ledger)


# --- a batch inside a batch ------------------------------------------------------------------------------------------


def test_an_exception_around_the_inner_block_takes_back_only_the_inner_blocks_commands(ledger: Ledger) -> None:
    known = ledger.remember("known", confidence=0.5)
    with ledger.batch():
        ledger.remember("before", project="the kitchen")
        ledger.memories.set_confidence(known.id, 0.6)
        before = ledger.position, ledger.proof.digest()
        with pytest.raises(ZeroDivisionError), ledger.batch():
            ledger.remember("lost", project="a new room", idempotency_key="k")
            ledger.memories.set_confidence(known.id, 0.9)
            with pytest.raises(RejectedError):
                ledger.reject(known.id)
            raise ZeroDivisionError
        assert (ledger.position, ledger.proof.digest()) == before
        # Names, keys, states and refusals that were known inside are forgotten.
        again = ledger.remember("lost", project="a new room", idempotency_key="k")
        assert (again.replayed, again.absorbed, again.project) == (False, False, "a new room")
        assert ledger.memories.get(known.id).confidence == 0.6
        with pytest.raises(RejectedError):
            ledger.reject(known.id)
    assert contents(ledger) == {"known", "before", "lost"}
    assert len(list(ledger.guards.refusals())) == 1
    assert_sound(ledger)


def test_an_inner_block_that_ends_well_is_part_of_the_outer_one(ledger: Ledger, path: Path) -> None:
    with Ledger.open(path) as other:
        with ledger.batch():
            with ledger.batch():
                ledger.remember("inner")
            assert contents(other) == set()
        assert contents(other) == {"inner"}
        with pytest.raises(ZeroDivisionError), ledger.batch():
            with ledger.batch():
                ledger.remember("inner, too")
            raise ZeroDivisionError
        assert contents(ledger) == {"inner"}
    assert_sound(ledger)


def test_blocks_inside_blocks_are_taken_back_each_by_itself(ledger: Ledger) -> None:
    with ledger.batch():
        ledger.remember("one")
        with pytest.raises(ValueError), ledger.batch():
            ledger.remember("lost, first")
            with ledger.batch():
                ledger.remember("lost with what is around it")
            with pytest.raises(ZeroDivisionError), ledger.batch():
                ledger.remember("lost by itself")
                raise ZeroDivisionError
            assert contents(ledger) == {"one", "lost, first", "lost with what is around it"}
            raise ValueError
        with ledger.batch():
            ledger.remember("two")
        ledger.remember("three")
    assert contents(ledger) == {"one", "two", "three"}
    assert_sound(ledger)


def test_acts_of_an_inner_block_are_taken_back_too(ledger: Ledger) -> None:
    fact = ledger.remember("fact", confidence=0.5)
    ledger.bind(actor="eve").remember("of eve")
    with ledger.batch():
        ledger.memories.set_confidence(fact.id, 0.7)
        with pytest.raises(ZeroDivisionError), ledger.batch():
            ledger.undo(ledger.position)
            ledger.history.distrust("eve", kind="actor")
            ledger.policy.set(gain=0.08)
            assert contents(ledger) == {"fact"}
            raise ZeroDivisionError
        assert ledger.memories.get(fact.id).confidence == 0.7
        ledger.bind(actor="eve").remember("more of eve")
        assert ledger.reinforce(fact.id).confidence == 0.72
    assert contents(ledger) == {"fact", "of eve", "more of eve"}
    assert_sound(ledger)


def test_a_projection_that_was_suspended_inside_is_not_after_the_block_is_taken_back(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    fold = next(each for each in probe.writer(ledger).projector.all if each.name == "confidence")

    def broken(*_: object) -> None:
        raise ValueError

    with ledger.batch():
        with pytest.raises(ZeroDivisionError), ledger.batch():
            with monkeypatch.context() as patch:
                patch.setattr(fold, "fold", broken)
                fact = ledger.remember("poison")
            assert ledger.maintenance.stats().projections
            raise ZeroDivisionError
        fact = ledger.remember("fact")
        assert ledger.memories.confidence(fact.id)
    assert_sound(ledger)


def test_an_inner_block_has_the_bounds_for_itself(ledger: Ledger, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A short block is taken back whole, however much the batch around it has grown."""
    monkeypatch.setattr(bounds, "BATCH_EVENTS", 10)
    with Ledger.open(path) as other, ledger.batch():
        for number in range(10):
            ledger.remember(f"outer {number}")
        with pytest.raises(ZeroDivisionError), ledger.batch():
            ledger.remember("lost")
            ledger.remember("lost, too")
            raise ZeroDivisionError
        assert contents(other) == set()
        ledger.remember("the eleventh")
        assert len(contents(other)) == 10
    assert len(contents(ledger)) == 11 and "lost" not in contents(ledger)
    assert_sound(ledger)


def test_an_inner_block_that_grows_to_its_bounds_is_committed_with_all_around_it(
    ledger: Ledger, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "BATCH_EVENTS", 10)
    with Ledger.open(path) as other, ledger.batch():
        ledger.remember("outer")
        with pytest.raises(ZeroDivisionError), ledger.batch():
            ledger.remember("inner")
            with ledger.batch():
                for number in range(12):
                    ledger.remember(f"inmost {number}")
                assert len(contents(other)) == 12
            ledger.remember("lost")
            raise ZeroDivisionError
        assert contents(ledger) == contents(other)
        ledger.remember("after")
    assert contents(ledger) == {"outer", "inner", "after", *(f"inmost {number}" for number in range(10))}
    assert_sound(ledger)


def test_an_import_inside_a_batch_is_part_of_it(ledger: Ledger, tmp_path: Path) -> None:
    lines = tmp_path / "turns.jsonl"
    lines.write_text('{"prompt": "Which tea?", "response": "Green."}\n', encoding="utf-8")
    with pytest.raises(ZeroDivisionError), ledger.batch():
        assert ledger.interactions.import_file(lines).captured == 1
        raise ZeroDivisionError
    assert list(ledger.interactions.list()) == []
    with ledger.batch():
        assert ledger.interactions.import_file(lines).captured == 1
    assert len(list(ledger.interactions.list())) == 1
    assert_sound(ledger)
