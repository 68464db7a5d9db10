"""``ledger.history``, as somebody who embeds the library calls it."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import Clock, folded_from_zero

from ledger import DependentsError, NotFoundError, RejectedError
from ledger.api import Ledger
from ledger.history.api import History, HistoryRead
from ledger.types import ModelAnswer, ModelRequest


@pytest.fixture
def ledger(tmp_path: Path):
    with Ledger.open(tmp_path / "memory.db", user="ada", actor="planner") as opened:
        yield opened


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


def test_history_has_exactly_the_decided_methods() -> None:
    assert public(HistoryRead) == {"audit", "events", "explain", "blame", "distrusted", "model_calls"}
    assert public(History) - public(HistoryRead) == {
        "behind",
        "bisect",
        "diff",
        "log",
        "follow",
        "wait",
        "what_if",
        "undo_all",
        "distrust",
        "trust",
    }


def test_the_trail_is_paged_newest_first_and_filtered(ledger: Ledger) -> None:
    facts = [ledger.remember(f"Fact number {number}.", project="atlas", session="chat") for number in range(5)]
    ledger.bind(actor="editor").retract(facts[0].id, reason="old", correlation_id="run-1")
    page = ledger.history.audit(type="MemoryCaptured", limit=2)
    assert [each.subject for each in page] == [facts[4].id, facts[3].id] and page.next is not None
    assert [each.subject for each in page.all()] == [each.id for each in facts[::-1]]
    (last,) = ledger.history.audit(actor="editor")
    assert (last.command, last.correlation_id, last.in_effect, last.subject) == ("retract", "run-1", True, facts[0].id)
    assert {each.session for each in ledger.history.audit(session="chat")} == {"chat"}
    assert (
        len(ledger.history.audit(subject=facts[0].id)) == 2 and len(ledger.history.audit(correlation_id="run-1")) == 1
    )
    assert [*ledger.history.audit(project="nowhere")] == [*ledger.history.audit(until="1d")] == []
    assert len(ledger.history.audit(since="7d", type="MemoryCaptured")) == 5
    assert ledger.bind(user="bob").history.audit() == []
    for wrong in ({"since": "2026-01-01T10:00:00"}, {"until": "later"}, {"limit": 1_001}):
        with pytest.raises(RejectedError):
            ledger.history.audit(**wrong)  # type: ignore[arg-type]
    with pytest.raises(RejectedError, match="other filters"):
        ledger.history.audit(after=page.next)


def test_the_events_of_a_subject_are_oldest_first(ledger: Ledger) -> None:
    fact = ledger.remember("The lamp is on.")
    ledger.revise(fact.id, "The lamp is off.")
    ledger.retract(fact.id)
    ledger.undo(ledger.position)
    page = ledger.history.events(fact.id, limit=2)
    assert [each.type for each in page] == ["MemoryCaptured", "MemoryRevised"] and len([*page.all()]) > 2
    assert [each.in_effect for each in page.all()][:3] == [True, True, False]
    for nothing in ("m_0000000000000000", "nothing", 7):
        with pytest.raises(NotFoundError):
            ledger.history.events(nothing)  # type: ignore[arg-type]
    with pytest.raises(NotFoundError):
        ledger.bind(user="bob").history.events(fact.id)


def test_a_diff_and_the_beliefs_without_somebody(ledger: Ledger) -> None:
    kept = ledger.remember("The lamp is on.")
    before = ledger.position
    eve = ledger.bind(actor="eve")
    lie = eve.remember("The moon is made of cheese.")
    assert [each.id for each in ledger.history.diff(before).added] == [lie.id]
    would = ledger.history.what_if(without={"actor": "eve"})
    assert [(each.id, each.would_be) for each in would.lost] == [(lie.id, None)] and would.note
    assert ledger.memories.get(lie.id).status == "active"
    assert ledger.history.what_if(without={"actor": "eve"}, since=ledger.position + 1).lost == ()
    for wrong in ({}, {"without": {}}, {"policy": {"nonsense": 1}}, {"without": lie.id, "since": "1d"}):
        with pytest.raises(RejectedError):
            ledger.history.what_if(**wrong)  # type: ignore[arg-type]
    assert ledger.memories.get(kept.id).status == "active"


def test_an_origin_is_distrusted_listed_and_trusted_again(ledger: Ledger) -> None:
    eve = ledger.bind(actor="eve")
    lie = eve.remember("The moon is made of cheese.")
    would = ledger.history.distrust("eve", kind="actor", dry_run=True)
    assert would.dry_run and would.gone == (lie.id,) and ledger.history.distrusted() == []
    done = ledger.history.distrust("eve", kind="actor", reason="forged")
    assert (done.origin, done.kind, done.gone) == ("eve", "actor", (lie.id,))
    (listed,) = ledger.history.distrusted()
    assert (listed.origin, listed.reason, listed.command_id) == ("eve", "forged", done.command_id)
    with pytest.raises(NotFoundError):
        ledger.memories.get(lie.id)
    with pytest.raises(RejectedError):
        eve.remember("The sun too.")
    then = ledger.at(ledger.position)
    assert ledger.history.trust("eve", kind="actor").trusted and ledger.history.distrusted() == []
    assert [each.origin for each in then.history.distrusted()] == ["eve"] and not hasattr(then.history, "trust")
    assert ledger.memories.get(lie.id).status == "active"
    with pytest.raises(NotFoundError):
        ledger.history.trust("eve", kind="actor")
    with pytest.raises(RejectedError):
        ledger.history.distrust("eve", kind="enemy")  # type: ignore[arg-type]


def test_an_origin_is_distrusted_for_a_part_of_what_it_wrote_and_goes_on_writing(ledger: Ledger) -> None:
    eve = ledger.bind(actor="eve")
    facts = [eve.remember(f"The lamp number {number} is on.") for number in range(4)]
    span: dict[str, int] = {"since": facts[1].position, "until": facts[3].position}
    assert len(ledger.history.what_if(without={"actor": "eve"}, **span).lost) == 2
    would = ledger.history.distrust("eve", kind="actor", dry_run=True, **span)
    assert (would.since, would.until, would.gone) == (*span.values(), tuple(sorted(each.id for each in facts[1:3])))
    done = ledger.history.distrust("eve", kind="actor", reason="was drunk", **span)
    assert {each.id for each in ledger.memories.list()} == {facts[0].id, facts[3].id}
    (listed,) = ledger.history.distrusted()
    assert (listed.since, listed.until, listed.command_id) == (*span.values(), done.command_id)
    again = ledger.history.distrust("eve", kind="actor", since=facts[2].position, until=facts[3].position)
    assert (again.command_id, again.since, again.until) == (None, *span.values())  # it is meant already
    later = eve.remember("The lamp number 5 is on.", session="chat")  # which is not refused
    assert eve.session("chat").append("user", "Hello.").position and ledger.memories.get(later.id).status == "active"
    assert folded_from_zero(ledger) == ledger.proof.digest() and ledger.history.distrusted() == [listed]

    whole = ledger.history.distrust("eve", kind="actor")  # the part does not cover the rest
    assert (whole.since, whole.until) == (1, None) and ledger.memories.list() == []
    with pytest.raises(RejectedError, match="distrusted"):
        eve.remember("The lamp number 6 is on.")
    both = ledger.history.trust("eve", kind="actor")
    assert (both.since, both.until) == (1, None) and ledger.history.distrusted() == []
    assert len(ledger.memories.list()) == 5


def test_until_is_a_position_or_a_time_of_the_log_after_since(tmp_path: Path) -> None:
    time = Clock()
    with Ledger.open(tmp_path / "clock.db", clock=time, actor="eve") as ledger:
        early = ledger.remember("The lamp is on.")
        time.advance(days=2)
        late = ledger.remember("The heating is off.")
        history = ledger.bind(actor="ann").history
        for until in ("1d", time.time.isoformat(), late.position):
            assert history.distrust("eve", kind="actor", until=until, dry_run=True).gone == (early.id,)
        every = history.distrust("eve", kind="actor", until=ledger.position + 1, dry_run=True)
        assert set(every.gone) == {early.id, late.id}
        for wrong in (0, True, "soon", "2040-01-01", ledger.position + 2):
            with pytest.raises(RejectedError, match="until"):
                history.distrust("eve", kind="actor", until=wrong)
        for empty in ({"since": 3, "until": 3}, {"since": "1d", "until": "2d"}):
            with pytest.raises(RejectedError, match="nothing lies between"):
                history.distrust("eve", kind="actor", **empty)  # type: ignore[arg-type]
        with pytest.raises(RejectedError, match="limit an origin"):
            history.what_if(without=early.id, until="1d")
        key = {"idempotency_key": "k1"}
        first = history.distrust("eve", kind="actor", until=late.position, **key)  # type: ignore[arg-type]
        same = history.distrust("eve", kind="actor", until=late.position, **key)  # type: ignore[arg-type]
        assert same.replayed and (same.since, same.until, same.position) == (1, late.position, first.position)


def test_a_document_or_session_distrusted_for_its_past_is_used_again(ledger: Ledger) -> None:
    document = ledger.documents.add("The kiln fires at 1,200 degrees.", path="kiln.txt")
    ledger.session("chat").append("user", "The kiln is hot.")
    fact = ledger.remember("The kiln is hot.", sources=[ledger.session("chat").id], session="chat")
    end = ledger.position + 1
    ledger.history.distrust(document.id, until=end)
    ledger.history.distrust("chat", kind="session", until=end)
    with pytest.raises(NotFoundError):
        ledger.memories.get(fact.id)
    assert ledger.documents.add("The kiln fires at 1,200 degrees.", path="kiln.txt").id != document.id
    assert ledger.session("chat").append("user", "It has cooled.").content == "It has cooled."


def test_a_group_of_commands_is_undone_together(ledger: Ledger) -> None:
    facts = [ledger.remember(f"Fact number {number}.", correlation_id="run-1", session="chat") for number in range(3)]
    other = ledger.remember("Another fact.")
    ledger.retract(facts[0].id)
    ledger.memories.tag(facts[1].id, add=["run"])
    with pytest.raises(DependentsError):
        ledger.history.undo_all(correlation_id="run-1")
    would = ledger.history.undo_all(correlation_id="run-1", cascade=True, dry_run=True)
    assert would.dry_run and len(would.commands) == 5 and len(would.dependents) == 1
    done = ledger.history.undo_all(correlation_id="run-1", cascade=True, reason="wrong run")
    assert done.subjects == tuple(sorted(each.id for each in facts)) and ledger.memories.list() == [other]
    ledger.redo(done.command_id)
    assert len(ledger.memories.list()) == 3
    assert ledger.history.undo_all(since="1d", command="retract").subjects == (facts[0].id,)
    with pytest.raises(NotFoundError):
        ledger.history.undo_all(until="1d")
    with pytest.raises(NotFoundError):
        ledger.bind(user="bob").history.undo_all(correlation_id="run-1")
    with pytest.raises(RejectedError, match="at least one filter"):
        ledger.history.undo_all()


def test_model_calls_are_listed(tmp_path: Path) -> None:
    class Model:
        name = "small"

        def answer(self, request: ModelRequest) -> ModelAnswer:
            return ModelAnswer(text='{"actions": []}')

    with Ledger.open(tmp_path / "m.db", user="ada", model=Model()) as ledger:
        for number in range(3):
            turn = ledger.capture(f"I moved to Lisbon {number} weeks ago, and I like it.", "Good.")
            ledger.extract(turn.id)
        page = ledger.history.model_calls(limit=2)
        assert len(page) == 2 and len([*page.all()]) == 3 and page[0].position > page[1].position
        assert page[0].in_effect and len(ledger.history.model_calls(purpose="extraction")) == 3
        assert ledger.history.model_calls(purpose="summary") == []
        with pytest.raises(RejectedError):
            ledger.history.model_calls(purpose="nonsense")  # type: ignore[arg-type]
        assert len(ledger.at(ledger.position).history.model_calls()) == 3


def test_a_receipt_reopens_for_its_user_and_otherwise_is_not_found(ledger: Ledger) -> None:
    fact = ledger.remember("The lamp is on.")
    pack = ledger.recall("lamp", receipt=True)
    ledger.revise(fact.id, "The lamp is off.")
    again = ledger.reopen(pack.receipt)
    assert again.memory_ids == pack.memory_ids == (fact.id,) and again.changed
    with pytest.raises(NotFoundError):
        ledger.bind(user="bob").reopen(pack.receipt)
    with pytest.raises(NotFoundError):
        ledger.reopen("nothing")
