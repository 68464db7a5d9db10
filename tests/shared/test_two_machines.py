"""Two machines, one memory: what one remembers the other recalls, and both have the same log."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import probe
import pytest
from life import life
from shared_log import queued
from soundness import contents

from ledger import ConflictError, Ledger, NotFoundError, RejectedError
from ledger.domain.errors import UnknownOutcomeError
from ledger.log.envelope import Stored
from ledger.log.shared import joining
from ledger.types import Project
from projections.views import graph
from tools.shared.double import UNKNOWN, assert_equal


def texts(ledger: Ledger) -> list[str]:
    return sorted(memory.content for memory in ledger.memories.list())


def test_a_machine_recalls_what_another_remembered(machines):
    a, b = machines.open("a"), machines.open("b")
    a.remember("Ada likes green tea")
    b.remember("Ada plays the cello")
    machines.news()
    assert texts(a) == texts(b) == ["Ada likes green tea", "Ada plays the cello"]
    assert [item.content for item in b.recall("what tea does Ada like?").items][:1] == ["Ada likes green tea"]


def test_a_root_outside_the_home_directory_is_one_of_its_machine(machines):
    a, b = machines.open("a"), machines.open("b")
    shop, notes = a.projects.enter("/srv/shop"), a.projects.enter("~/notes")
    machines.news()
    assert (b.projects.of("/srv/shop").linked, b.projects.of("~/notes")) == (False, notes)
    assert b.projects.enter("/srv/shop").name == "shop (srv)"
    b.projects.link(shop.project, "/usr")
    machines.news()
    drive = os.path.splitdrive(os.path.abspath("/"))[0]
    assert a.projects.get("shop").roots == (f"a:{drive}/srv/shop", f"b:{drive}/usr")
    assert not a.projects.of("/usr").linked
    assert_equal(a, b)
    assert a.erase(Project("shop"), derived="erase", sources="erase", quotes="erase").erased
    machines.news()
    assert not b.projects.of("/usr").linked
    assert not b.projects.of("/srv/shop").linked, "which quoted the erased path"


def test_a_command_sends_one_message_while_nobody_else_writes(machines):
    a = machines.open("a")
    machines.server.messages.clear()
    a.remember("Ada likes green tea")
    assert machines.server.messages == ["append"]


def test_a_command_is_decided_again_under_the_lock_after_another_machine_wrote(machines):
    a, b = machines.open("a"), machines.open("b")
    a.remember("Ada likes green tea")
    machines.server.messages.clear()
    b.remember("Ada plays the cello")
    assert machines.server.messages == ["append", "lock", "publish"]
    for text in ("a boat", "a bicycle", "a kite"):
        machines.server.messages.clear()
        b.remember(f"Ada owns {text}")
    assert machines.server.messages == ["append"], "for nobody else wrote before the second one"
    machines.news()
    assert_equal(a, b)


def test_a_command_with_nothing_to_write_asks_the_log(machines):
    a, b = machines.open("a"), machines.open("b")
    memory = a.remember("Ada likes green tea", idempotency_key="k")
    machines.server.messages.clear()
    again = b.remember("Ada likes green tea", idempotency_key="k")
    assert (again.replayed, again.id) == (True, memory.id)
    assert machines.server.messages == ["append", "lock"]
    machines.server.messages.clear()
    assert b.remember("Ada likes green tea", idempotency_key="k").replayed
    assert machines.server.messages == ["lock"]


def test_a_command_that_expects_a_position_takes_the_lock_first(machines):
    a, b = machines.open("a"), machines.open("b")
    memory = a.remember("Ada likes green tea")
    machines.news()
    machines.server.messages.clear()
    b.revise(memory.id, "Ada likes black tea", expected=b.position)
    assert machines.server.messages == ["lock", "publish"]


def test_a_new_machine_copies_the_log_and_folds_it(machines, tmp_path):
    a = machines.open("a")
    life(a)
    (tmp_path / "notes.md").write_text("# Notes\n" + "Ada plays the cello in the evening. " * 9_000, encoding="utf-8")
    a.documents.add(tmp_path / "notes.md")
    b = machines.open("b")
    assert contents(b) == contents(a)
    assert_equal(a, b)


def test_a_machine_that_lags_decides_at_the_end_of_the_log(machines):
    a, b = machines.open("a"), machines.open("b")
    b.remember("Bob likes tea")
    life(a)
    memory = b.remember("Ada plays the cello")  # takes the life of the other machine in first
    assert memory.position == machines.server.tip.position
    machines.news()
    assert_equal(a, b)


def test_a_large_text_comes_with_the_event_that_names_it(machines):
    a, b = machines.open("a"), machines.open("b")
    turn = a.capture("Read this.", "word " * 80_000)
    machines.news("b")
    assert b.interactions.get(turn.id).response == "word " * 80_000
    assert_equal(a, b)


def test_a_tail_above_the_limit_is_taken_in_without_the_lock(machines, monkeypatch):
    monkeypatch.setattr(joining, "TAIL", 5)
    a, b = machines.open("a"), machines.open("b")
    for number in range(23):
        a.remember(f"Ada owns the book number {number}")
    assert b.remember("Ada plays the cello").position == machines.server.tip.position
    machines.news()
    assert_equal(a, b)


def test_a_refusal_keeps_what_was_caught_up(machines):
    a, b = machines.open("a"), machines.open("b")
    a.remember("Ada likes green tea")
    with pytest.raises(NotFoundError):
        b.retract("m_0000000000000000")
    assert contents(b) == {"Ada likes green tea"}
    assert machines.server.holder is None
    assert_equal(a, b)


def test_the_event_of_a_refusal_is_shared(machines):
    a, b = machines.open("a"), machines.open("b")
    idea = a.propose("Ada trains for a marathon")
    a.reject(idea.id)
    with pytest.raises(RejectedError):
        b.promote(idea.id)
    machines.news()
    assert_equal(a, b)


def test_an_undo_reaches_what_lags_elsewhere(machines):
    a, b = machines.open("a"), machines.open("b")
    memory = a.remember("Ada likes green tea")
    a.supersede(memory.id, "Ada likes black tea")
    b.undo(memory.position, cascade=True)
    machines.news()
    assert contents(a) == contents(b) == set()
    assert_equal(a, b)


def test_a_batch_takes_in_the_events_of_others_when_it_commits_and_goes_on(machines):
    a, b = machines.open("a"), machines.open("b")
    with a.batch():
        a.remember("Ada likes green tea")
        probe.batch(a).began = -1e9  # the second is over
        machines.server.after_next = lambda: b.remember("Ada plays the cello")
        a.remember("Ada owns a boat")
        with pytest.raises(RejectedError):
            a.propose("")
        a.remember("Ada owns a bicycle")
    machines.news()
    assert len(contents(a)) == 4
    assert_equal(a, b)


def test_a_batch_inside_a_batch_that_fails_leaves_nothing_in_the_log(machines):
    a, b = machines.open("a"), machines.open("b")
    with a.batch():
        a.remember("Ada likes green tea")
        with pytest.raises(ZeroDivisionError), a.batch():
            a.remember("Ada owns a boat")
            a.capture("Read this.", "word " * 80_000)
            raise ZeroDivisionError
        a.remember("Ada owns a bicycle")
    machines.news()
    assert contents(b) == {"Ada likes green tea", "Ada owns a bicycle"}
    assert not machines.server.blobs
    assert_equal(a, b)


def test_a_batch_commits_each_second_while_the_log_is_shared(machines):
    a = machines.open("a")
    with a.batch():
        assert probe.batch(a)._seconds == 1.0


def test_a_command_inside_a_transaction_of_the_file_is_refused(machines):
    a = machines.open("a")
    with probe.store(a).transact(), pytest.raises(ConflictError, match="transaction of this file alone"):
        a.remember("Ada likes green tea")
    a.remember("Ada likes green tea")


def test_a_transaction_of_the_file_appends_nothing(machines):
    a = machines.open("a")
    before = machines.server.tip
    with probe.store(a).transact() as transaction, pytest.raises(ConflictError, match="appends nothing"):
        transaction.append([Stored("ledger", 2, "LegalHoldPlaced", b"{}")])
    assert machines.server.tip == before


def test_a_rebuild_of_one_machine_is_no_event(machines):
    a, b = machines.open("a"), machines.open("b")
    life(a)
    before = machines.server.tip
    a.maintenance.rebuild()
    assert machines.server.tip == before
    machines.news()
    assert_equal(a, b)


def test_a_suspension_is_of_one_machine_alone(machines, monkeypatch):
    a, b = machines.open("a"), machines.open("b")
    b.remember("Ada likes green tea")
    with monkeypatch.context() as patch:
        patch.setattr(graph.GraphProjection, "fold", broken)
        a.remember("Ada plays the cello")
    machines.news("b")
    assert [suspended(a), suspended(b)] == [["graph"], []]
    assert a.proof.verify(full=True).ok
    a.close()
    a = machines.open("a")  # its tables stand at the end of the log, so nothing is folded again
    assert suspended(a) == ["graph"]
    assert a.maintenance.rebuild().suspended == ()
    assert [row.type for row in machines.server.rows if row.type.startswith("Projection")] == []
    assert_equal(a, b)


def suspended(ledger):
    return [each.name for each in ledger.maintenance.stats().projections if each.suspended_at is not None]


def test_a_projection_that_cannot_fold_what_another_machine_wrote_is_suspended(machines, monkeypatch):
    a, b = machines.open("a"), machines.open("b")
    b.remember("Ada likes green tea")
    with monkeypatch.context() as patch:
        patch.setattr(graph.GraphProjection, "fold", broken)
        machines.news("a")
    assert suspended(a) == ["graph"]
    assert contents(a) == {"Ada likes green tea"}
    a.maintenance.rebuild()
    assert_equal(a, b)


def broken(*_: object) -> None:
    raise ValueError("no")


def test_a_group_whose_outcome_is_unknown_does_not_say_that_nothing_was_written(machines):
    a = machines.open("a", group_commit=True)
    a.remember("Ada likes green tea")
    machines.logs["a"].failure = UNKNOWN
    with ThreadPoolExecutor(3) as threads:
        works = [partial(a.remember, f"Ada owns the book {n}", idempotency_key=f"k{n}") for n in range(3)]
        with queued(a, threads, *works) as futures:
            pass
        for future in futures:
            with pytest.raises(UnknownOutcomeError, match="2 other commands were in the same commit") as failure:
                future.result()
            assert "nothing" not in str(failure.value)
    assert [work().replayed for work in works] == [True] * 3


def test_group_commit_takes_the_lock_once_for_a_group(machines):
    a, b = machines.open("a", group_commit=True), machines.open("b")
    b.remember("Ada likes green tea")
    machines.server.messages.clear()
    with ThreadPoolExecutor(9) as threads:
        works = [partial(a.remember, f"Ada owns the book number {number}") for number in range(8)]
        with queued(a, threads, *works, partial(a.retract, "m_0000000000000000")) as futures:
            pass
        *written, refused = futures
        assert [future.result().position for future in written]
        with pytest.raises(NotFoundError):
            refused.result()
    assert machines.server.messages == ["lock", "publish"]
    machines.news()
    assert len(contents(b)) == 9
    assert_equal(a, b)


def test_a_group_whose_outcome_is_unknown_is_not_said_to_be_unwritten(machines):
    a = machines.open("a", group_commit=True)
    a.remember("Ada likes green tea")
    machines.logs["a"].failure = UNKNOWN
    with ThreadPoolExecutor(2) as threads:
        works = [
            partial(a.remember, f"Ada owns the book number {number}", idempotency_key=f"{number}") for number in "12"
        ]
        with queued(a, threads, *works) as futures:
            pass
        errors = [future.exception() for future in futures]
    assert {type(error) for error in errors} == {UnknownOutcomeError}
    assert not any("nothing of it was written" in str(error) for error in errors)
    assert all(
        "1 other commands were in the same commit, and all of them have the same outcome" in str(e) for e in errors
    )
    assert [work().replayed for work in works] == [True, True]
