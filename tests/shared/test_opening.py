"""The opening of a ledger over a shared log: its messages, and a file that lacks much."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from soundness import contents

from ledger import Ledger, RejectedError
from ledger.shared import sharing
from tools.shared.double import assert_equal


def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the list of the messages that this thread sends from here on."""
    from ledger.log.shared.connections import MessageConnection

    messages, ask, thread = list[str](), MessageConnection.ask, threading.current_thread()

    def noted(self: MessageConnection, statements: str, seconds: float) -> Any:
        if threading.current_thread() is thread:
            messages.append(statements)
        return ask(self, statements, seconds)

    monkeypatch.setattr(MessageConnection, "ask", noted)
    return messages


def test_a_new_tenant_is_opened_with_four_messages(
    tmp_path: Path, shared_url: str, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, Any] = {"log": shared_url, "tenant": tenant}
    with Ledger.open(tmp_path / "warm.db", log=shared_url, tenant=f"{tenant}, another"):
        messages = sent(monkeypatch)
        with Ledger.open(tmp_path / "a.db", machine="a", **given) as a:
            assert len(messages) == 4
            a.remember("Ada likes green tea")
        messages.clear()
        with Ledger.open(tmp_path / "b.db", machine="b", **given) as b:
            assert len(messages) == 3
            assert contents(b) == {"Ada likes green tea"}
        messages.clear()
        with Ledger.open(tmp_path / "a.db", machine="a", **given):
            assert len(messages) == 2


def test_two_machines_that_begin_a_log_at_once_have_one_first_event(machines):
    a = machines.log_of("a")
    append = type(a).append

    def late(self, publication):
        type(a).append = append
        machines.open("b")
        return append(self, publication)

    type(a).append = late
    try:
        first = machines.open("a")
    finally:
        type(a).append = append
    machines.news()
    assert machines.server.tip.position == 1
    assert_equal(first, *machines.open_ones)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "TAIL", 5)


def test_an_open_that_does_not_wait_reads_what_is_there_and_tells_what_it_lacks(machines, few):
    a, b = machines.open("a"), machines.open("b")
    b.close()
    for number in range(23):
        a.remember(f"Ada owns the book number {number}")
    b = machines.open("b", wait=False)
    assert (len(contents(b)), b.history.behind(), a.history.behind()) == (5, 18, 0)
    machines.news("b")
    assert (len(contents(b)), b.history.behind()) == (23, 0)
    assert_equal(a, b)


def test_a_new_machine_that_does_not_wait_folds_the_rest_of_the_log_later(machines, few):
    a = machines.open("a")
    for number in range(12):
        a.remember(f"Ada owns the book number {number}")
    gone = a.remember("Ada likes green tea")
    a.capture("Read this.", "word " * 80_000)
    a.erase(a.memories.list()[-1].id, **dict.fromkeys(("derived", "sources", "quotes"), "erase"))
    b = machines.open("b", wait=False)
    assert b.history.behind() > 0
    a.erase(gone.id, derived="erase", sources="erase", quotes="erase")
    machines.news()
    machines.news()
    assert b.history.behind() == 0
    assert [each.state for each in a.erasures.list()] == ["completed"] * 2
    assert_equal(a, b)
    assert b.at(b.position).memories.list() == a.at(a.position).memories.list()


def test_an_open_that_waits_shows_its_progress(machines, few):
    a, b = machines.open("a"), machines.open("b")
    b.close()
    for number in range(12):
        a.remember(f"Ada owns the book number {number}")
    steps = list[tuple[int, int]]()
    machines.open("b", progress=lambda done, total: steps.append((done, total)))
    assert steps == [(5, 12), (10, 12)]
    with pytest.raises(RejectedError, match="progress takes a function"):
        machines.open("c", progress=3)


def test_a_ledger_that_shares_no_log_lacks_nothing(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "a.db") as ledger:
        assert ledger.history.behind() == 0


def test_a_file_that_opens_without_its_log_does_not_know_what_it_lacks(machines):
    machines.open("a").close()
    machines.server.is_away = True
    assert machines.open("a").history.behind() is None
