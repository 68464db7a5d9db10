"""Reading where nothing can be written: a file and a directory without write permission, and a mount that is read-only."""

from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
import subprocess
import tempfile
import threading
from pathlib import Path

import needs
import probe
import pytest
from conftest import folded_from_zero
from soundness import contents
from unwritable import as_nobody, filled, sealed

from ledger import ConflictError, Ledger, NotFoundError, RejectedError, StorageError
from projections.search import memory_hits as search
from projections.views import audit, memories


def check_reads(ledger, coffee, tea, turn):
    """Every read of the door answers, and rightly."""
    assert contents(ledger) == {"The user prefers tea."}
    assert ledger.memories.get(coffee).superseded_by == tea
    assert ledger.memories.get(coffee[:10]).id == coffee
    assert [hit.memory.id for hit in ledger.recall("tea").items] == [tea]
    assert [each.memory.content for each in ledger.review()] == ["The user trains for a marathon."]
    assert ledger.interactions.get(turn).response == "The user prefers dark roast coffee."
    assert [each.id for each in ledger.interactions.list(project="galley")] == [turn]
    why = ledger.why(coffee)
    assert [round(step.delta * 1_000_000) for step in why.steps] == [500_000, 20_000, 0]
    assert [step.in_effect for step in ledger.history.events(tea)] == [True, False, True]
    assert [point.delta for point in ledger.memories.confidence(tea)] == [1.0, -0.75, 0.75]
    assert len(ledger.history.audit(limit=500)) == ledger.position
    assert [project.name for project in ledger.projects.list()] == ["Kitchen"]
    assert ledger.projects.get("galley").aliases == ("galley",)
    assert ledger.maintenance.stats().interactions == 1
    assert (ledger.guards.refusals(), ledger.projects.state("galley"), ledger.policy.get().gain) == ([], (), 0.02)


WRITES = {
    "remember": lambda ledger, id: ledger.remember("x"),
    "propose": lambda ledger, id: ledger.propose("x"),
    "capture": lambda ledger, id: ledger.capture("x"),
    "promote": lambda ledger, id: ledger.promote(id),
    "reinforce": lambda ledger, id: ledger.reinforce(id),
    "adjust": lambda ledger, id: ledger.memories.set_confidence(id, 0.1),
    "supersede": lambda ledger, id: ledger.supersede(id, "x"),
    "retract": lambda ledger, id: ledger.retract(id),
    "set_state": lambda ledger, id: ledger.projects.set_state("p", "fact", "k", "v"),
    "register_project": lambda ledger, id: ledger.projects.add("p"),
    "adopt_policy": lambda ledger, id: ledger.policy.set(gain=0.5),
    "undo": lambda ledger, id: ledger.undo(2),
    "rebuild": lambda ledger, id: probe.rebuild(ledger),
    "batch": lambda ledger, id: ledger.batch().__enter__(),
}


def check_writes(ledger, id):
    for name, write in WRITES.items():
        with pytest.raises(RejectedError, match="readonly=True"):
            write(ledger, id)
            pytest.fail(f"{name} was taken")


def fingerprint(media):
    return {each.name: hashlib.sha256(each.read_bytes()).hexdigest() for each in media.iterdir()}


@needs.modes
def test_a_file_and_a_directory_without_write_permission_can_be_read(media):
    path, (coffee, tea, turn, digest) = sealed(media)
    before = fingerprint(media)

    def work():
        assert not os.access(media, os.W_OK) and not os.access(path, os.W_OK)
        with Ledger.open(path, readonly=True) as ledger:
            check_reads(ledger, coffee, tea, turn)
            check_writes(ledger, tea)
            assert ledger.proof.digest() == digest
        with pytest.raises(StorageError, match=r"cannot be locked: .*; a ledger opened"):
            Ledger.open(path)

    as_nobody(work)
    assert fingerprint(media) == before


@needs.modes
def test_a_read_only_mount_can_be_read(media):
    source, target = media / "source", media / "target"
    source.mkdir()
    target.mkdir()
    coffee, tea, turn, digest = filled(source / "memory.db")
    bound = subprocess.run(["mount", "--bind", source, target], capture_output=True, text=True, check=False)
    if bound.returncode:
        pytest.skip(f"no mount can be made here: {bound.stderr.strip()}")
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", target], check=True, capture_output=True)
        assert os.statvfs(target).f_flag & os.ST_RDONLY
        with Ledger.open(target / "memory.db", readonly=True) as ledger:
            check_reads(ledger, coffee, tea, turn)
            check_writes(ledger, tea)
            assert ledger.proof.digest() == digest
    finally:
        subprocess.run(["umount", target], check=True)


@needs.modes
def test_commits_in_a_wal_that_cannot_be_read_are_refused_and_not_missed(media):
    live = media / "live"
    live.mkdir()
    copy = media / "copy"
    copy.mkdir()
    with Ledger.open(live / "memory.db") as ledger:
        ledger.remember("in the -wal")
        for name in ("memory.db", "memory.db-wal"):
            shutil.copy(live / name, copy / name)
            (copy / name).chmod(0o444)
        assert (copy / "memory.db-wal").stat().st_size
    copy.chmod(0o555)

    def work():
        with pytest.raises(RejectedError, match="-wal"):
            Ledger.open(copy / "memory.db", readonly=True)

    as_nobody(work)
    copy.chmod(0o755)


@pytest.mark.parametrize("changed", [memories.MemoriesProjection, search.MemorySearchProjection, audit.Audit])
def test_projections_of_another_version_are_folded_privately(media, monkeypatch, changed):
    path, (coffee, tea, turn, _) = sealed(media)
    with sqlite3.connect(f"file:{path}?immutable=1", uri=True) as probe:
        assert probe.execute("SELECT count(*) FROM memories").fetchone() == (3,)
    probe.close()
    before = fingerprint(media)
    monkeypatch.setattr(changed, "version", 99)

    def work():
        with Ledger.open(path, readonly=True) as ledger:
            check_reads(ledger, coffee, tea, turn)
            check_writes(ledger, tea)
            copy = Path(tempfile.mkdtemp()) / "memory.db"
            shutil.copy(path, copy)
            copy.chmod(0o600)
            with Ledger.open(copy) as rebuilt:
                assert rebuilt.proof.digest() == ledger.proof.digest()
            shutil.rmtree(copy.parent)

    as_nobody(work)
    assert fingerprint(media) == before


def test_a_private_fold_really_hides_the_rows_of_the_file(media, monkeypatch):
    """A control: with forged rows in the file, what is shown comes from the log."""
    path = media / "memory.db"
    coffee, tea, turn, _ = filled(path)
    with sqlite3.connect(path) as forger:
        forger.execute("UPDATE memories SET content = 'forged'")
    forger.close()
    with Ledger.open(path, readonly=True) as ledger:
        assert contents(ledger) == {"forged"}
    monkeypatch.setattr(memories.MemoriesProjection, "version", 99)
    with Ledger.open(path, readonly=True) as ledger:
        check_reads(ledger, coffee, tea, turn)


@pytest.mark.slow
def test_threads_share_a_private_fold(media, monkeypatch):
    path = media / "memory.db"
    coffee, tea, turn, _ = filled(path)
    monkeypatch.setattr(memories.MemoriesProjection, "version", 99)
    errors = []
    with Ledger.open(path, readonly=True) as ledger:

        def read():
            try:
                for _ in range(20):
                    check_reads(ledger, coffee, tea, turn)
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=read) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert errors == []


def test_a_private_fold_follows_what_others_commit_and_can_be_closed(media, monkeypatch):
    path = media / "memory.db"
    filled(path)
    with Ledger.open(path) as writer:
        with monkeypatch.context() as patch:
            patch.setattr(memories.MemoriesProjection, "version", 99)
            with Ledger.open(path, readonly=True) as ledger:
                assert probe.store(ledger).folded_privately
                for number in range(3):
                    patch.undo()
                    writer.remember(f"later {number}")
                    turn = writer.capture("What is served later?", f"Nothing, later {number}.")
                    writer.erase(turn.id)
                    if number:
                        writer.retract(writer.remember(f"the radiator rattles {number}").id)
                    patch.setattr(memories.MemoriesProjection, "version", 99)
                    assert (
                        f"later {number}" in contents(ledger) and ledger.position == ledger.maintenance.stats().position
                    )
                    assert ledger.recall("later", limit=50).items[-1].content
                    assert ledger.interactions.get(turn.id).prompt is None, (
                        "an erasure reaches what a process folded for itself"
                    )
                    with probe.store(ledger).snapshot() as connection, probe.store(ledger).snapshot() as again:
                        assert connection is again
                digest = ledger.proof.digest()
            with Ledger.open(path, readonly=True) as ledger:
                assert ledger.proof.digest() == digest == folded_from_zero(ledger)
        assert probe.rebuild(writer).suspended == ()
        assert "later 2" in contents(writer)


def test_a_private_fold_pins_no_moment_of_the_file_between_two_reads(media, monkeypatch):
    path = media / "memory.db"
    filled(path)
    with Ledger.open(path) as writer, monkeypatch.context() as patch:
        patch.setattr(memories.MemoriesProjection, "version", 99)
        with Ledger.open(path, readonly=True) as ledger:
            contents(ledger)
            patch.undo()
            writer.remember("later")
            with sqlite3.connect(path) as other:
                busy, pages, moved = other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            other.close()
            assert (busy, pages, moved) == (0, 0, 0)


def test_a_fold_that_fails_on_the_way_is_done_again_by_the_next_read(media, monkeypatch):
    path = media / "memory.db"
    filled(path)
    with Ledger.open(path) as writer, monkeypatch.context() as patch:
        patch.setattr(memories.MemoriesProjection, "version", 99)
        with Ledger.open(path, readonly=True) as ledger:
            patch.undo()
            writer.remember("later")
            patch.setattr(memories.MemoriesProjection, "version", 99)
            with monkeypatch.context() as broken:
                broken.setattr("projections.core.shadow.checkpoint", lambda *_: 1 / 0)
                with pytest.raises(ZeroDivisionError):
                    contents(ledger)
            assert "later" in contents(ledger)
            assert ledger.proof.digest() == folded_from_zero(ledger)


def test_a_reader_of_a_live_file_sees_what_others_commit(media):
    path = media / "memory.db"
    filled(path)
    with Ledger.open(path) as writer, Ledger.open(path, readonly=True) as reader:
        writer.remember("new")
        assert "new" in contents(reader)
        probe.rebuild(writer)
        assert "new" in contents(reader)
        assert reader.proof.digest() == writer.proof.digest()


def test_a_file_for_newer_writers_is_read_and_not_written(media, monkeypatch):
    path = media / "memory.db"
    with monkeypatch.context() as patch:
        probe.begin_with(patch, WRITER=2)
        coffee, tea, turn, _ = filled(path)
    with pytest.raises(ConflictError, match="open it with readonly=True"):
        Ledger.open(path)
    with Ledger.open(path, readonly=True) as ledger:
        check_reads(ledger, coffee, tea, turn)
        check_writes(ledger, tea)


def test_a_file_for_newer_readers_is_not_read(media, monkeypatch):
    path = media / "memory.db"
    with monkeypatch.context() as patch:
        probe.begin_with(patch, READER=2)
        filled(path)
    for readonly in (True, False):
        with pytest.raises(ConflictError, match="needs a reader of format 2"):
            Ledger.open(path, readonly=readonly)


def test_nothing_to_read_is_said_so_and_nothing_is_made(media):
    with pytest.raises(NotFoundError):
        Ledger.open(media / "memory.db", readonly=True)
    assert list(media.iterdir()) == []
