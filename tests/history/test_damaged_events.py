"""A row of the log that cannot be is told to whoever reads it, by its position, and never as an error of a library."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from random import Random

import pytest
from reads import READS, opened, prepared, put
from tampering import tamper

from ledger import DamagedError, Ledger, LedgerError

EVERY = os.environ.get("HYPOTHESIS_PROFILE") == "long"
WAYS = {
    "broken JSON": "state = substr(state, 1, length(state) / 2)",
    "no state": "state = ''",
    "no text": "state = CAST(x'80ff' AS TEXT)",
    "a number": "state = 5",
    "no object": "state = '[]'",
    "no data": "state = json_remove(state, '$.data')",
    "data of another kind": "state = json_set(state, '$.data', 5)",
    "a schema that is none": "state = json_set(state, '$.schema', 'x')",
    "a user that is none": "state = json_set(state, '$.user', 7)",
    "a type that is no text": "type = x'80'",
}
MORE = {  # what a read may not notice, or not find
    "a time that is none": "state = json_set(state, '$.recorded_at', 'never')",
    "a type that nobody knows": "type = 'Nothing'",
    "another type": "type = 'MemoryPromoted'",
    "another stream": "stream = x'80'",
    "another version": "version = 'x'",
    "another key": "key = 'text'",
    "another head": "head = 'text'",
    "another digest": "digest = 7",
    "an erasure that was none": "erased_by = 'text'",
}


@pytest.fixture
def path(tmp_path):
    return put(tmp_path / "memory.db")


def rows(path):
    """(type, its last position, the stream) of every type of event in the prepared ledger, but for the first event's."""
    with closing(sqlite3.connect(path)) as connection:
        sql = "SELECT type, max(position), stream FROM events WHERE position > 1 GROUP BY type ORDER BY type"
        return connection.execute(sql).fetchall()


def damaged(path, change, position):
    for suffix in ("", "-wal", "-shm"):  # another file: what an error still holds may have the one before open
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    put(path)
    tamper(path, f"UPDATE events SET {change} WHERE position = {position}")


@pytest.mark.parametrize("way", WAYS)
def test_the_reads_of_history_name_the_position_of_an_event_that_cannot_be_read(path, way):
    some = rows(path)
    for _, position, stream in some if EVERY else Random(way).sample(some, 2):
        damaged(path, WAYS[way], position)
        with opened(path, readonly=True) as ledger:
            reads = [lambda: list(ledger.history.audit(limit=500))]
            if stream[0] in "moidps" and stream[1] == "_":
                reads.append(lambda stream=stream: list(ledger.history.events(stream, limit=500)))
            for read in reads:
                with pytest.raises(DamagedError, match=f"the log is damaged: position {position} ") as told:
                    read()
                assert (told.value.table, told.value.row) == ("events", position)
        assert not Ledger.doctor(path).ok


@pytest.mark.slow
@pytest.mark.parametrize("way", [*WAYS, *MORE])
def test_a_damaged_event_raises_only_errors_of_the_ledger(path, way):
    some = rows(path)
    for type_, position, _ in some if EVERY else Random(way).sample(some, 1):
        damaged(path, (WAYS | MORE)[way], position)
        with opened(path, readonly=True) as ledger:
            for name, read in READS.items():
                try:
                    read(ledger, prepared()[1])
                except LedgerError:
                    continue
                except Exception as error:
                    pytest.fail(f"{name} next to a {type_}: {error!r}")


TEXT = {
    "cut short": "data = substr(data, 1, 1000)",
    "another": "data = zeroblob(1000)",
    "no bytes": "data = 'text'",
    "empty without an erasure": "data = NULL, erased_by = NULL",
}


@pytest.mark.parametrize("how", [*TEXT, "not there"])
def test_a_damaged_text_outside_the_log_is_reported_with_the_event_that_names_it(tmp_path, how):
    path = tmp_path / "memory.db"
    with Ledger.open(path) as ledger:
        turn = ledger.capture("Tell me all of it.", "long " * 80_000)
    tamper(path, f"UPDATE blobs SET {TEXT[how]}" if how in TEXT else "DELETE FROM blobs")
    with Ledger.open(path) as ledger:
        captured = min(each.position for each in ledger.history.audit(subject=turn.id))
        for read in (ledger.interactions.get, lambda id: list(ledger.interactions.list())):
            with pytest.raises(DamagedError, match="was recorded") as told:
                read(turn.id)
            assert (told.value.table, told.value.row) == ("events", captured)


def test_an_erased_text_outside_the_log_is_no_damage(tmp_path):
    with Ledger.open(tmp_path / "memory.db") as ledger:
        turn = ledger.capture("Tell me all of it.", "long " * 80_000)
        ledger.erase(turn.id, derived="erase", sources="erase", quotes="erase")
        assert ledger.proof.verify().ok
        assert all(each.response is None for each in ledger.interactions.list())


def test_an_event_that_no_version_wrote_is_listed_as_unknown_and_not_read_as_another(path):
    turn = prepared()[1]["turn"]
    with closing(sqlite3.connect(path)) as connection:
        (position,) = connection.execute(
            "SELECT position FROM events WHERE stream = ? AND version = 1", (turn,)
        ).fetchone()
    damaged(path, "type = 'Nothing'", position)
    with opened(path, readonly=True) as ledger:
        listed = {each.position: each.data for each in ledger.history.audit(limit=500)}
        assert listed[position] == {"unknown": "Nothing", "schema": 1}
        with pytest.raises(DamagedError, match=f"position {position} holds a Nothing that no known version") as told:
            ledger.interactions.get(turn)
        assert told.value.row == position


@pytest.mark.parametrize("way", [*WAYS.values(), "state = json_remove(state, '$.data.ledger_id')"])
def test_a_first_event_that_cannot_be_is_told_by_whoever_opens_or_looks(path, way):
    tamper(path, f"UPDATE events SET {way} WHERE position = 1")
    for readonly in (False, True):
        with pytest.raises(LedgerError):
            Ledger.open(path, readonly=readonly)
    assert not Ledger.doctor(path).ok
