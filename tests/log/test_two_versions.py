"""Two versions of the product on one file, older and newer, one after the other and both at once: what each is told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import probe
import pytest
from conftest import folded_from_zero
from eventsourcing.persistence import StoredEvent
from places import ROOT
from soundness import problems
from tampering import raw

from ledger import ConflictError, Ledger, NewerFormatError, RejectedError
from ledger.core.call import Who
from ledger.events import LedgerUpgraded
from ledger.types import EVERYTHING
from projections.views import memories

REOPEN = "another version of the product changed the projections of this ledger: reopen the ledger"

# The other version, in a process of its own: it computes memories in another way, and keeps one table more for them.
OTHER = """
import json, sys
from msgspec.structs import replace
from projections.views import memories
kind, number = memories.MemoriesProjection, int(sys.argv[1])
kind.version += number
if number > 0:
    told = replace(memories.MEMORIES, name="memories_told", then=None)
    kind.tables, fold = (*kind.tables, told), kind.fold
    def both(self, event, changes, rows):
        fold(self, event, changes, rows)
        for change in changes:
            if change.kind == "m" and change.new is not None:
                rows.put(told, (change.first,), memories.FAMILY.to_row(change.new))
    kind.fold = both
from ledger import Ledger, LedgerError
known = {"Ledger": Ledger}
for line in sys.stdin:
    try:
        try:
            answer = eval(json.loads(line), known)
        except SyntaxError:
            answer = exec(json.loads(line), known)
    except LedgerError as error:
        answer = f"{type(error).__name__}: {error}"
    print(json.dumps(answer, default=str), flush=True)
"""
CONTENTS = "sorted(each.content for each in ledger.memories.list())"
THEN = "[each.content for each in ledger.at(7).memories.list(statuses=())]"  # where Later 1. was the last


@contextmanager
def version(number: int) -> Iterator[Callable[[str], Any]]:
    """A product that is so many versions newer (or older, below 0), which answers to lines of Python."""
    command = [sys.executable, "-c", OTHER, str(number)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment
    )
    assert process.stdin is not None and process.stdout is not None

    def ask(line: str) -> Any:
        print(json.dumps(line), file=process.stdin, flush=True)
        return json.loads(process.stdout.readline())  # type: ignore[union-attr]

    try:
        yield ask
    finally:
        process.stdin.close()
        process.wait()
        process.stdout.close()


def opens(ask: Callable[[str], Any], path: Path, *, readonly: bool = False) -> Any:
    return ask(f"ledger = Ledger.open({str(path)!r}, actor='other', readonly={readonly})")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "memory.db"
    with Ledger.open(path, actor="eve") as ledger:
        ledger.remember("The kettle is blue.")
        ledger.capture("Where is it?", "The kettle is blue, and in the kitchen.")
    return path


def contents(ledger: Ledger) -> list[str | None]:
    return sorted(each.content or "" for each in ledger.memories.list())


def sound(ledger: Ledger) -> None:
    assert ledger.proof.verify(full=True).problems == () and problems(ledger) == []
    assert ledger.proof.digest() == folded_from_zero(ledger)  # type: ignore[arg-type]


def tables(path: Path) -> set[str]:
    with raw(path) as connection:
        return {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


# --- one after the other ---------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("number", [1, -1])
def test_each_version_computes_the_tables_its_own_way_and_loses_nothing(path: Path, number: int) -> None:
    """An upgrade and a downgrade, several times: each reads and writes, and finds the file whole."""
    before = tables(path)
    with version(number) as other:
        for turn in range(2):
            assert opens(other, path) is None
            other(f"ledger.remember('Written by the other {turn}.')")
            assert other("ledger.proof.verify(full=True).problems") == []
            assert other("ledger.close()") is None
            assert ("memories_told" in tables(path)) == (number > 0)
            with Ledger.open(path, actor="eve") as ledger:
                assert f"Written by the other {turn}." in contents(ledger)
                ledger.remember(f"Written by this one {turn}.")
                assert len(contents(ledger)) == 3 + 2 * turn
                sound(ledger)
            assert tables(path) == before, "nothing of the other version is left, and no text in it"


@pytest.mark.slow
def test_what_is_erased_by_one_version_is_in_no_table_of_the_other(path: Path) -> None:
    with version(1) as other:
        opens(other, path)
        other("ledger.remember('Jonas moves to Bonn in May.')")
        other("ledger.close()")
        with Ledger.open(path, actor="eve") as ledger:
            report = ledger.erase(next(each.id for each in ledger.memories.list() if "Bonn" in (each.content or "")))
            assert (report.state, report.remaining) == ("completed", ())
        assert b"Bonn" not in path.read_bytes()
        opens(other, path)
        assert other("ledger.proof.verify(full=True).problems") == []


# --- both at once ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("number", [1, -1])
def test_who_had_the_file_open_before_the_other_is_refused_until_it_opens_it_again(path: Path, number: int) -> None:
    with Ledger.open(path, actor="eve") as ledger, version(number) as other:
        fact = ledger.remember("Before.")
        assert opens(other, path) is None
        other("ledger.remember('Meanwhile.')")
        position = other("ledger.position")
        for _ in range(2):
            for call in (
                lambda: ledger.remember("After."),
                lambda: ledger.retract(fact.id),
                lambda: ledger.erase(fact.id),
                lambda: ledger.jobs.run(),
                lambda: ledger.batch().__enter__(),
                lambda: ledger.memories.list(),
                lambda: ledger.recall("kettle"),
                lambda: ledger.history.audit(),
                lambda: ledger.session("chat").append("user", "After."),
                lambda: ledger.at(2).memories.list(),
            ):
                with pytest.raises(ConflictError, match=REOPEN):
                    call()
        assert other("ledger.position") == position and other("ledger.proof.verify(full=True).ok")
        with Ledger.open(path, actor="eve") as again:
            assert "Meanwhile." in contents(again)
            again.remember("After.")
            assert REOPEN in other("ledger.remember('And so on.')") and REOPEN in other(CONTENTS)
            sound(again)


@pytest.mark.slow
def test_versions_that_take_turns_in_writing_lose_nothing(path: Path) -> None:
    with version(1) as other:
        for turn in range(3):
            opens(other, path)
            with Ledger.open(path, actor="eve") as ledger:
                assert REOPEN in other(f"ledger.remember('Never {turn}.')")
                ledger.remember(f"This one {turn}.")
                assert other("ledger.close()") is None and opens(other, path) is None
                with pytest.raises(ConflictError, match=REOPEN):
                    ledger.remember(f"Never {turn}.")
                other(f"ledger.remember('The other {turn}.')")
                other("ledger.close()")
    with Ledger.open(path, actor="eve") as ledger:
        written = [f"{who} {turn}." for who in ("The other", "This one") for turn in range(3)]
        assert contents(ledger) == sorted([*written, "The kettle is blue."])
        sound(ledger)


@pytest.mark.slow
@pytest.mark.parametrize("number", [1, -1])
def test_a_reader_of_another_version_follows_who_writes(path: Path, number: int) -> None:
    """It keeps tables of its own, and changes nothing."""
    with Ledger.open(path, actor="eve") as ledger, version(number) as other:
        assert opens(other, path, readonly=True) is None
        for turn in range(3):
            ledger.remember(f"Later {turn}.")
            assert other(CONTENTS) == contents(ledger) and other("ledger.position") == ledger.position
            assert "readonly" in other("ledger.remember('Never.')")
        assert "Later 1." in other(THEN)
        ledger.erase(next(each.id for each in ledger.memories.list() if each.content == "Later 1."))
        assert other(CONTENTS) == contents(ledger) and "Later 1." not in other(THEN), (
            "an erasure reaches what it folded"
        )
        assert other("len(ledger.history.audit(limit=500))") == ledger.position
        sound(ledger)


def test_a_version_that_changes_the_tables_back_all_the_time_is_named(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ledger.care import rebuilding

    def changed_back(engine: Any, *given: Any, **more: Any) -> None:
        with engine.store.transact() as transaction:
            transaction.connection.execute("UPDATE projections SET version = 99 WHERE name = 'memories'")

    monkeypatch.setattr(rebuilding, "rebuild", changed_back)
    monkeypatch.setattr(memories.MemoriesProjection, "version", 98)
    with pytest.raises(ConflictError, match="another version of the product has this ledger open"):
        Ledger.open(path)
    monkeypatch.undo()
    with Ledger.open(path) as ledger:
        sound(ledger)


# --- a newer file ----------------------------------------------------------------------------------------------------


def append(ledger: Ledger, stream: str, type_: str, like: int, **more: Any) -> None:
    """An event as a newer product writes one: that at a position, with fields more."""
    with probe.store(ledger).transact() as transaction:
        sql = "SELECT state FROM events WHERE position = ?"
        state = json.loads(transaction.connection.execute(sql, (like,)).fetchone()[0])
        state["data"] |= more
        state |= {"event_id": "01999999-0000-7000-8000-000000000001"}
        encoded = json.dumps(state).encode()
        transaction.append([StoredEvent(stream, transaction.version(stream) + 1, type_, encoded)])


@pytest.fixture
def told_more(path: Path) -> Path:
    """A memory that a newer version captured, with a field that this one does not know."""
    with Ledger.open(path, actor="eve") as ledger:
        like = ledger.remember("The lamp is green.").position
        append(
            ledger, "m_0123456789abcdef", "MemoryCaptured", like, content="The sofa is red.", mood="said with a sigh"
        )
    return path


def test_a_field_that_a_newer_version_added_is_passed_over_and_kept_as_it_is(told_more: Path, tmp_path: Path) -> None:
    def row(path: Path) -> Any:
        with raw(path) as connection:
            return connection.execute("SELECT * FROM events WHERE stream = 'm_0123456789abcdef'").fetchone()

    kept = row(told_more)
    assert "said with a sigh" in kept[4]
    with Ledger.open(told_more, actor="eve") as ledger:
        assert "The sofa is red." in contents(ledger)
        ledger.revise("m_0123456789abcdef", "The sofa is dark red.")
        sound(ledger)
        ledger.maintenance.export_log(tmp_path / "log.jsonl")
        ledger.maintenance.backup(tmp_path / "backup.db")
    Ledger.import_log(tmp_path / "log.jsonl", tmp_path / "imported.db")
    assert Ledger.recover(tmp_path / "backup.db", tmp_path / "recovered.db").ok
    for name in ("memory", "backup", "imported", "recovered"):
        assert row(tmp_path / f"{name}.db") == kept, name


def test_what_a_field_of_a_newer_version_says_is_erased_by_that_version(told_more: Path) -> None:
    """Nobody but that version knows whether it is a text: half an erasure would be called a whole one."""
    with Ledger.open(told_more, actor="eve") as ledger:
        before = told_more.read_bytes()
        for subject in ("m_0123456789abcdef", EVERYTHING):
            for dry_run in (True, False):
                with pytest.raises(
                    NewerFormatError, match=r"has data\.mood, written by a newer version .* erase with that version"
                ):
                    ledger.erase(subject, dry_run=dry_run)
        assert "The sofa is red." in contents(ledger) and before.count(b"said with a sigh") == 1
        lamp = next(each.id for each in ledger.memories.list() if each.content == "The lamp is green.")
        assert ledger.erase(lamp).state == "completed", "what has no such field is erased"
        sound(ledger)


def upgrade(ledger: Ledger, **least: int) -> None:
    def body(work: Any) -> str:
        work.emit("ledger", LedgerUpgraded(**({"format": 2, "least_reader": 1, "least_writer": 1} | least)))
        return "ledger"

    probe.writer(ledger).run("open", Who(actor="ledger"), body)


@pytest.mark.slow
def test_a_process_of_another_version_notices_an_upgrade_before_it_writes(path: Path) -> None:
    with version(0) as older, Ledger.open(path) as newer:
        assert opens(older, path) is None
        upgrade(newer, least_writer=2)
        told = older("ledger.remember('Never.')")
        assert told.startswith("NewerFormatError: ") and "open it with readonly=True" in told
        assert older(CONTENTS) == ["The kettle is blue."], "it reads on"
        older("ledger.close()")
        assert "needs a writer of format 2" in opens(older, path)
        assert opens(older, path, readonly=True) is None
        assert older(CONTENTS) == ["The kettle is blue."]


def test_a_newer_file_format_is_refused_for_writing_and_read(path: Path) -> None:
    """Also of who had the file open before."""
    with Ledger.open(path, actor="eve") as ledger:
        position = ledger.remember("Before.").position
        ledger.retract(ledger.memories.list()[0].id)
        with raw(path) as connection:
            connection.execute("PRAGMA user_version = 2")
        for call in (lambda: ledger.remember("After."), lambda: ledger.batch().__enter__()):
            with pytest.raises(
                NewerFormatError, match="file format 2, and this product writes 1: open it with readonly=True"
            ):
                call()
        assert ledger.position == position + 1 and contents(ledger) == ["The kettle is blue."], "it reads on"
    with pytest.raises(RejectedError) as refused:
        Ledger.open(path)
    assert (refused.value.rule, refused.value.requested, refused.value.limit) == ("format", 2, 1)
    with Ledger.open(path, readonly=True) as ledger:
        assert contents(ledger) == ["The kettle is blue."]
