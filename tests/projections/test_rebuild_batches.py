"""A rebuild writes batch after batch: what one of them cannot write or expand parks one projection, and the rest goes on."""

from __future__ import annotations

import probe
import pytest
from life import life
from soundness import assert_sound

from ledger import Ledger
from ledger.log import sqlite_files
from projections.core import rebuild
from projections.core.sqlite import SQLiteRows
from projections.search import memory_hits as search


@pytest.fixture
def ledger(tmp_path, monkeypatch):
    """A ledger that a rebuild folds in many batches."""
    monkeypatch.setattr(rebuild, "BATCH", 7)
    monkeypatch.setattr(rebuild, "TAIL", 3)
    with Ledger.open(tmp_path / "memory.db") as ledger:
        life(ledger)
        session = ledger.session("Long talk")
        for number in range(12):
            session.append("user", f"Message {number} about the half marathon and the tea.")
            ledger.remember(f"Fact {number} is about running.", tags=["running", str(number)])
            ledger.bind(actor=f"somebody {number}").remember(f"Fact {number % 5} is about running.")
        ledger.documents.add("# Tea\n\nGreen tea is brewed cool.\n\n# Coffee\n\nCoffee is brewed hot.", title="notes")
        ledger.undo(ledger.position)
        ledger.jobs.run()
        yield ledger


def suspended(ledger):
    return {each.name: each.suspended_at for each in ledger.maintenance.stats().projections if each.suspended_at}


@pytest.mark.slow
@pytest.mark.parametrize("batch", [1, 3, 10, 70])
def test_batches_of_every_size_give_the_rows_that_the_commands_gave(ledger, monkeypatch, batch):
    monkeypatch.setattr(rebuild, "BATCH", batch)
    digest = ledger.proof.digest()
    assert probe.rebuild(ledger).digest == digest
    assert ledger.remember("Fact 3 is about running.").absorbed
    assert_sound(ledger)


@pytest.mark.slow
def test_so_many_texts_that_the_index_takes_them_at_once(ledger, monkeypatch):
    monkeypatch.setattr(rebuild, "BATCH", 150)
    with ledger.batch():
        made = [ledger.remember(f"Fact number{number} of running.") for number in range(400)]
        for memory in made[100:200]:
            ledger.supersede(memory.id, f"Newer than {memory.content}")
    digest = ledger.proof.digest()
    assert probe.rebuild(ledger).digest == digest
    assert [hit.memory.id for hit in ledger.recall("number317").items] == [made[317].id]
    assert_sound(ledger)


@pytest.mark.slow
def test_rows_that_the_database_does_not_take_park_their_projection_alone(ledger, monkeypatch):
    """It stops before the first event of their batch."""
    flush, written = SQLiteRows.flush, []

    def refusing(self, **options):
        if self.prefix == rebuild.FRESH and self._appended:
            written.append(self)
            if len(written) == 4:
                audit = next(table for table in self._appended if table.name == "audit")
                self._appended[audit].append(("not", "as", "many", "values"))
        flush(self, **options)

    with monkeypatch.context() as patch:
        patch.setattr(SQLiteRows, "flush", refusing)
        assert probe.rebuild(ledger).suspended == ("audit",)
    assert suspended(ledger) == {"audit": 3 * rebuild.BATCH + 1}
    assert probe.rebuild(ledger).suspended == ()
    assert_sound(ledger)


@pytest.mark.slow
def test_a_text_that_cannot_be_expanded_parks_the_index_alone(ledger, monkeypatch):
    monkeypatch.setattr(rebuild, "BATCH", 150)
    with ledger.batch():
        for number in range(400):
            ledger.remember(f"Fact number{number} of running.")
    indexed = search.indexed

    def failing(content):
        if "number350" in content:
            raise ValueError("no")
        return indexed(content)

    with monkeypatch.context() as patch:
        patch.setattr(search, "indexed", failing)
        assert probe.rebuild(ledger).suspended == ("search",)
    assert probe.rebuild(ledger).suspended == ()
    assert ledger.recall("number350").items
    assert_sound(ledger)


@pytest.mark.slow
def test_the_wal_may_stay_as_long_as_ever_afterwards(ledger):
    """Between batches it may grow to more, and is written over from its start."""
    probe.rebuild(ledger)
    asked = "PRAGMA journal_size_limit"
    with probe.store(ledger).transact(durable=False) as transaction:
        assert transaction.connection.execute(asked).fetchone() == (sqlite_files.LATE_CHECKPOINT_BYTES,)
    ledger.remember("Said afterwards.")
    with probe.store(ledger).transact() as transaction:
        assert transaction.connection.execute(asked).fetchone() == (sqlite_files.CHECKPOINT_BYTES,)
