"""Whatever the interleaving of tasks, the ledger ends as if the commands had been given one after another."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from soundness import agrees

from ledger import Ledger, LedgerError
from ledger.aio import AsyncLedger

BASE = ("The cat is black.", "The dog is brown.", "The user likes tea.")
numbers = st.integers(0, len(BASE) - 1)
operations = st.one_of(
    st.tuples(st.just("remember"), st.sampled_from((*BASE, "The user lives in Lisbon.", "The hall is red.", " "))),
    st.tuples(st.just("confidence"), numbers, st.sampled_from((10, 50, 90))),
    st.tuples(st.sampled_from(("retract", "restore", "undo")), numbers),
    st.tuples(st.just("supersede"), numbers, st.sampled_from(("The cat is grey.", "The user likes coffee."))),
    st.tuples(st.just("tag"), numbers, st.sampled_from(("animal", "drink"))),
    st.tuples(st.just("capture"), st.sampled_from(("The user likes tea.", "The cat is black."))),
    st.tuples(st.just("batch"), st.sampled_from(("Of a batch.", "The hall is red."))),
    st.tuples(st.just("expecting"), numbers),
    st.tuples(st.just("key"), st.sampled_from(("k", "l"))),
)
tasks = st.lists(st.lists(operations, min_size=1, max_size=4), min_size=2, max_size=6)


def call(ledger, base, number, operation):
    """Give one command, which carries its number; return what the plain ledger answers, or a coroutine."""
    verb, *rest = operation
    mark = {"correlation_id": f"op {number}"}
    if verb == "remember":
        return ledger.remember(rest[0], **mark)
    if verb == "capture":
        return ledger.capture("And?", rest[0], reinforce=False, **mark)
    if verb == "key":
        return ledger.remember(f"By the key {rest[0]}.", idempotency_key=rest[0], **mark)
    if verb == "batch":
        return in_batch(ledger, rest[0], mark)
    id, position = base[rest[0]]
    if verb == "confidence":
        return ledger.memories.set_confidence(id, rest[1] / 100, **mark)
    if verb == "expecting":
        return ledger.memories.set_confidence(id, 0.3, expected=position, **mark)
    if verb == "undo":
        return ledger.undo(position, cascade=True, **mark)
    if verb == "supersede":
        return ledger.supersede(id, rest[1], **mark)
    if verb == "tag":
        return ledger.memories.tag(id, add=[rest[1]], **mark)
    return getattr(ledger, verb)(id, **mark)


def in_batch(ledger, text, mark):
    """Two commands in one commit, which no other command may come between."""

    def both(plain):
        first = plain.remember(text, **mark)
        second = plain.remember(f"{text} Again.", **mark)
        assert second.position == first.position + 1, "another command came between"

    if isinstance(ledger, AsyncLedger):
        return ledger.in_batch(both)
    with ledger.batch():
        both(ledger)
    return None


async def concurrently(path, lists):
    """Run each list of commands in a task of its own."""
    async with await AsyncLedger.open(path) as ledger:
        memories = [await ledger.remember(text) for text in BASE]
        base = [(memory.id, memory.position) for memory in memories]
        numbered = []
        count = iter(range(1_000))
        for commands in lists:
            numbered.append([(next(count), operation) for operation in commands])

        async def task(commands):
            for number, operation in commands:
                with contextlib.suppress(LedgerError):
                    await call(ledger, base, number, operation)

        await asyncio.gather(*map(task, numbered))
        return dict(command for commands in numbered for command in commands)


def state(ledger):
    memories = ledger.memories.list(statuses=(), limit=1_000)
    return [
        *sorted(
            (memory.content, memory.status, memory.confidence, memory.tags, len(ledger.history.events(memory.id)))
            for memory in memories
        ),
        len(ledger.interactions.list()),
    ]


@given(tasks)
def test_the_end_is_that_of_some_serial_order(lists):
    with tempfile.TemporaryDirectory() as folder:
        commands = asyncio.run(concurrently(Path(folder) / "memory.db", lists))
        with Ledger.open(Path(folder) / "memory.db") as ledger:
            agrees(ledger)  # folded from zero, and verified
            entries = ledger.history.log(limit=1_000)
            order = dict.fromkeys(int(entry.correlation_id[3:]) for entry in entries if entry.correlation_id)
            ended = state(ledger)
        with Ledger.open(Path(folder) / "serial.db") as serial:
            base = [(memory.id, memory.position) for memory in map(serial.remember, BASE)]
            for number in order:  # a command without an event changed nothing, wherever it stood
                with contextlib.suppress(LedgerError):
                    call(serial, base, number, commands[number])
            assert state(serial) == ended
