"""A file's log becomes the shared one, and a file goes back to the shared log after it diverged."""

from __future__ import annotations

import functools
import os
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from life import life
from soundness import contents
from tampering import tamper

from ledger import Ledger, RejectedError
from ledger.domain.errors import DamagedError, DivergedError
from ledger.shared import files as shared_files
from ledger.shared.files import rejoin_file, share_file
from tools.shared.double import Double, Server, assert_equal

TEA, CELLO = "Ada likes green tea", "Ada plays the cello"


@functools.cache
def made():
    """Return the bytes of a ledger's file with a life, a large text and erasures."""
    with TemporaryDirectory() as folder:
        with Ledger.open(Path(folder) / "a.db", user="ada", actor="ada") as ledger:
            life(ledger)
            kept = ledger.capture("Read this.", "word " * 54_000)
            gone = ledger.capture("Read that.", "water " * 50_000)
            ledger.erase(gone.id, reason="asked", derived="keep", sources="keep", quotes="keep")
            ledger.remember(TEA, sources=[kept.id])
        return (Path(folder) / "a.db").read_bytes()


def local(machines, name="a"):
    """Return the path of a ledger of its own."""
    Path(machines.path(name)).write_bytes(made())
    return machines.path(name)


@pytest.mark.parametrize("rows", [7, 1_000])
def test_a_ledgers_log_becomes_the_shared_one(machines, monkeypatch, rows):
    monkeypatch.setattr(shared_files, "CHUNK_ROWS", rows)
    path = local(machines)
    position = share_file(path, machines.log_of("a"))
    assert position == machines.server.tip.position
    a, b = machines.open("a"), machines.open("b")
    b.remember(CELLO)
    machines.news()
    assert contents(a) >= {TEA, CELLO}
    assert_equal(a, b)


def test_sharing_goes_on_where_it_was_ended(machines, monkeypatch):
    monkeypatch.setattr(shared_files, "CHUNK_ROWS", 7)
    path, log = local(machines), machines.log_of("a")
    publish, sent = log.publish, []

    def some(publication):
        if len(sent) == 2:
            raise KeyboardInterrupt
        sent.append(publication)
        publish(publication)

    monkeypatch.setattr(log, "publish", some)
    with pytest.raises(KeyboardInterrupt):
        share_file(path, log)
    log.release()
    with Ledger.open(path, user="ada") as ledger:
        ledger.remember(CELLO)  # it is a ledger of its own still
    share_file(path, machines.log_of("a"))
    assert_equal(machines.open("a"), machines.open("b"))


def test_a_machine_that_has_purged_its_file_before_reports_so(machines):
    path = local(machines)
    share_file(path, machines.log_of("a"))
    (own,) = machines.log_of("a").replicas()
    assert (own.machine, own.erased_through) == ("a", machines.server.tip.position)


def test_a_tenant_with_other_events_is_refused(machines):
    machines.open("b").remember(TEA)
    path = local(machines)
    with pytest.raises(RejectedError, match="other events"):
        share_file(path, machines.log_of("a"))
    with Ledger.open(path, user="ada") as ledger:
        ledger.remember(CELLO)


def test_a_shared_file_is_not_shared_again(machines):
    machines.open("a").close()
    with pytest.raises(RejectedError, match="already"):
        share_file(machines.path("a"), Double(Server("other"), "a"))


def test_a_machine_that_rejoins_keeps_its_old_file_and_names_the_lost_events(machines):
    a, b = machines.open("a"), machines.open("b")
    a.remember(TEA)
    machines.news("b")
    lost = a.remember(CELLO)
    machines.server.lose_end(1)
    b.remember("Ada owns a boat")
    with pytest.raises(DivergedError):
        a.remember("Ada owns a bicycle")
    a.close()
    report = rejoin_file(machines.path("a"), machines.log_of("a"))
    assert [(event.position, event.type, event.user) for event in report.lost] == [(3, "MemoryCaptured", "ada")]
    assert report.lost[0].subject == lost.id
    assert (report.common, report.position, report.kept) == (2, 3, f"{machines.path('a')}.lost")
    with Ledger.open(report.kept, user="ada") as kept:
        assert contents(kept) == {TEA, CELLO}
        with pytest.raises(RejectedError):
            kept.remember("Ada owns a bicycle")
    a = machines.open("a")
    assert contents(a) == {TEA, "Ada owns a boat"}
    assert_equal(a, b)


def test_a_second_rejoin_takes_another_name(machines):
    a, b = machines.open("a"), machines.open("b")
    for _ in range(2):
        a.remember(CELLO)
        machines.server.lose_end(1)
        b.remember(TEA)
        a.close()
        rejoin_file(machines.path("a"), machines.log_of("a"))
        a = machines.open("a")
    assert sorted(name for name in os.listdir(machines.folder) if ".lost" in name and name.endswith(("lost", "2"))) == [
        "a.db.lost",
        "a.db.lost.2",
    ]


def test_a_file_that_lacks_nothing_is_not_rejoined(machines):
    a = machines.open("a")
    a.remember(TEA)
    a.close()
    with pytest.raises(RejectedError, match="nothing to rejoin"):
        rejoin_file(machines.path("a"), machines.log_of("a"))
    assert contents(machines.open("a")) == {TEA}


def test_a_ledger_whose_whole_log_was_cut_off_joins_no_log(machines):
    with Ledger.open(machines.path("a"), user="ada") as ledger:
        ledger.remember(TEA)
    tamper(machines.path("a"), "DELETE FROM events")
    with pytest.raises(DamagedError, match="position 1 is missing"):
        machines.open("a")
    assert machines.server.tip.position == 0


def test_a_machine_whose_whole_log_was_cut_off_takes_it_from_the_shared_log_again(machines):
    machines.open("a").remember(TEA)
    machines.close()
    tamper(machines.path("a"), "DELETE FROM events")
    a = machines.open("a")
    a.remember(CELLO)
    assert_equal(a, machines.open("b"))
