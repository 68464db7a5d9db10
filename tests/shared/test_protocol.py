"""The search of the protocol: it finds no state that is not sound, and finds one as soon as a rule is left out."""

from __future__ import annotations

import pytest
from places import ROOT

from tools.shared import protocol
from tools.shared.protocol import Machine, State, WrongError
from tools.shared.searching import search


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "EVENTS", 2)


def test_every_state_that_two_commands_of_three_machines_reach_is_sound() -> None:
    assert search() > 1_000


def test_a_log_that_does_not_compare_its_end_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    with_event = State.with_event
    monkeypatch.setattr(State, "with_event", lambda state, entry: with_event(state, entry)._replace(net=state.net))
    with pytest.raises(WrongError):
        search()


def test_a_file_that_reports_an_erasure_and_keeps_its_text_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    with_log = Machine.with_log

    def keeping(machine: Machine, log: protocol.Log, texts: protocol.Texts) -> Machine:
        return with_log(machine, log, texts)._replace(texts=tuple({*machine.texts, *texts}))

    monkeypatch.setattr(Machine, "with_log", keeping)
    with pytest.raises(WrongError, match="a file holds its text"):
        search()


def test_the_state_machine_stays_one_that_can_be_read_in_a_sitting() -> None:
    assert len((ROOT / "tools" / "shared" / "protocol.py").read_text(encoding="utf-8").splitlines()) <= 150
