"""``Ledger.open`` can verify before it returns, and what reads an event compares the event with its digest."""

from __future__ import annotations

import json
import shutil

import pytest
from tampering import raw, recompute, tamper

from ledger import AsyncLedger, DamagedError, Ledger, RejectedError, StorageError


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "memory.db"
    with Ledger.open(path) as ledger:
        for number in range(5):
            ledger.remember(f"The limit of account {number} is {40 + number} euros.")
    return path


def changed(path, position, **content):
    """Change an event's content as it lies, without its digest."""
    with raw(path) as connection:
        (state,) = connection.execute("SELECT state FROM events WHERE position = ?", (position,)).fetchone()
    envelope = json.loads(state)
    envelope["data"].update(content)
    tamper(path, ("UPDATE events SET state = ? WHERE position = ?", (json.dumps(envelope), position)))


@pytest.mark.parametrize("verify", ["tail", "full"])
def test_a_sound_ledger_opens_verified(path, verify):
    with Ledger.open(path, verify=verify) as ledger:
        assert ledger.remember("More.").status == "active"


@pytest.mark.parametrize("verify", ["tail", "full"])
def test_a_verified_open_names_the_changed_event(path, verify):
    changed(path, 3, content="The limit of account 1 is a million euros.")
    with pytest.raises(DamagedError) as raised:
        Ledger.open(path, verify=verify)
    assert (raised.value.table, raised.value.row) == ("events", 3)


def test_only_a_full_verification_sees_a_changed_row_of_a_projection(path):
    tamper(path, "UPDATE memories SET content = 'The limit is a million euros.' WHERE row = 3")
    Ledger.open(path, verify="tail").close()
    with pytest.raises(StorageError, match="memories"):
        Ledger.open(path, verify="full")


def test_the_tail_begins_at_the_last_checkpoint(path):
    with Ledger.open(path) as ledger:
        ledger.proof.checkpoint()
        ledger.remember("After the checkpoint.")
    changed(path, 3, content="The limit of account 1 is a million euros.")
    Ledger.open(path, verify="tail").close()
    with pytest.raises(DamagedError):
        Ledger.open(path, verify="full")


def test_an_older_copy_opens_unless_a_checkpoint_is_given(path, tmp_path):
    shutil.copy(path, tmp_path / "older.db")
    with Ledger.open(path) as ledger:
        ledger.remember("The limit was cut.")
        kept = ledger.proof.checkpoint()
    Ledger.open(path, against=kept).close()
    Ledger.open(tmp_path / "older.db", verify="full").close()
    with pytest.raises(StorageError, match="older copy"):
        Ledger.open(tmp_path / "older.db", against=kept)


def test_a_log_that_was_computed_anew_opens_unless_a_checkpoint_is_given(path):
    with Ledger.open(path) as ledger:
        kept = ledger.proof.checkpoint().text
    changed(path, 3, content="The limit of account 1 is a million euros.")
    recompute(path)
    Ledger.open(path, verify="tail").close()
    with pytest.raises(StorageError):
        Ledger.open(path, verify="tail", against=kept)


def test_a_failed_verification_leaves_the_file_free(path):
    changed(path, 3, content="Changed.")
    for _ in range(3):
        with pytest.raises(DamagedError):
            Ledger.open(path, verify="full")
    path.unlink()


def test_another_word_is_refused_with_the_words_that_there_are(path):
    with pytest.raises(RejectedError, match="tail, full"):
        Ledger.open(path, verify="all")


def test_a_checkpoint_of_another_ledger_is_refused(path, tmp_path):
    with Ledger.open(tmp_path / "other.db") as other:
        kept = other.proof.checkpoint()
    with pytest.raises(RejectedError):
        Ledger.open(path, against=kept)


async def opened(path):
    async with await AsyncLedger.open(path, verify="full") as ledger:
        return (await ledger.status()).memories


def test_the_asynchronous_ledger_verifies_too(path):
    import asyncio

    changed(path, 3, content="Changed.")
    with pytest.raises(DamagedError):
        asyncio.run(opened(path))


READS = {
    "why": lambda ledger, id: ledger.why(id),
    "history": lambda ledger, id: list(ledger.history.events(id).all()),
    "audit": lambda ledger, id: list(ledger.history.audit().all()),
    "explain": lambda ledger, id: ledger.history.explain(3),
}


@pytest.mark.parametrize("read", READS)
def test_a_read_of_an_event_sees_that_the_event_was_changed(path, read):
    changed(path, 3, confidence=990_000)
    with Ledger.open(path, readonly=True) as ledger:
        id = next(memory.id for memory in ledger.memories.list() if "account 1" in memory.content)
        with pytest.raises(DamagedError, match="digest") as raised:
            READS[read](ledger, id)
        assert raised.value.row == 3


def test_an_erased_event_is_read_although_its_digest_is_of_the_state_before(path):
    with Ledger.open(path) as ledger:
        id = ledger.memories.list()[0].id
        ledger.erase(id)
        assert next(step.type for step in ledger.history.events(id)) == "MemoryCaptured"
