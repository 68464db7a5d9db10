"""The oracle by itself, and what it is for: an order of commands that a ledger once answered wrongly."""

from __future__ import annotations

import ast

import pytest
from absence import absent
from conftest import Clock
from msgspec.structs import replace
from oracle import Act, CommandPart, Oracle, Refused
from places import TESTS

from ledger import ConflictError, Ledger

SAID = {"kind": "fact", "project": None, "content": "Tea.", "status": "candidate", "confidence": 1, "valid_from": ""}


def test_the_oracle_shares_no_code_with_the_product() -> None:
    names = set[str | None]()
    for file in ("oracle.py", "oracle_projects.py"):
        tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
        names |= {each.module for each in ast.walk(tree) if isinstance(each, ast.ImportFrom)}
        names |= {name.name for each in ast.walk(tree) if isinstance(each, ast.Import) for name in each.names}
    assert names == {"__future__", "collections.abc", "copy", "dataclasses", "datetime", "typing", "oracle_projects"}


def promoted_and_brought_back() -> Oracle:
    """Proposed, promoted by Ann, retracted, and restored by Bob."""
    oracle = Oracle()
    oracle.done(2, "", "", "m_1", [CommandPart("say", None, SAID)], None)
    oracle.done(3, "", "ann", "m_1", oracle.ask("promote", "", "m_1", {}), None)
    oracle.done(4, "", "bob", "m_1", oracle.ask("retract", "", "m_1", {}), None)
    oracle.done(5, "", "bob", "m_1", oracle.ask("restore", "", "m_1", {}), None)
    assert oracle.memories("")["m_1"]["status"] == "active"
    return oracle


@pytest.mark.parametrize("how", ["undo", "distrust"])
def test_what_was_restored_is_a_candidate_again_without_its_promotion(ledger: Ledger, how: str) -> None:
    oracle = promoted_and_brought_back()
    idea = ledger.propose("Tea.")
    promotion = ledger.bind(actor="ann").promote(idea.id)
    ledger.bind(actor="bob").retract(idea.id)
    ledger.bind(actor="bob").restore(idea.id)
    if how == "undo":
        oracle.acts["undo"] = Act("", None, oracle.undo(3))
        ledger.undo(promotion.position)
    else:
        oracle.acts["distrust"] = Act("", "ann", oracle.distrust("", "ann"))
        ledger.history.distrust("ann", kind="actor")
    (found,) = ledger.memories.list(statuses=())
    assert found.status == oracle.memories("")["m_1"]["status"] == "candidate"


def test_what_another_act_holds_back_falls_too_when_its_memory_begins_only_later_now(ledger: Ledger) -> None:
    oracle = Oracle()
    oracle.done(2, "", "", "m_1", [CommandPart("say", None, SAID)], None)
    oracle.done(3, "", "eve", "m_1", oracle.ask("promote", "", "m_1", {}), None)
    oracle.done(4, "", "", "m_1", [CommandPart("say", None, SAID | {"status": "active", "again": ("said",)})], None)
    oracle.acts["distrust"] = Act("", "eve", oracle.distrust("", "eve"))
    oracle.acts["undo"] = Act("", None, oracle.undo(2))
    assert oracle.fits_again("distrust"), "the promotion comes back with the proposal, not with Eve"
    idea = ledger.propose("Tea.")
    ledger.bind(actor="eve").promote(idea.id)
    assert ledger.remember("Tea.", kind=idea.kind).id == idea.id
    ledger.history.distrust("eve", kind="actor")
    undone = ledger.undo(idea.position)
    ledger.history.trust("eve", kind="actor")
    assert not ledger.history.distrusted()
    del oracle.acts["distrust"]
    ledger.redo(undone.command_id or "")
    del oracle.acts["undo"]
    (found,) = ledger.memories.list(statuses=())
    assert found.status == oracle.memories("")["m_1"]["status"] == "active"


def test_an_undo_takes_whole_commands_along_and_a_distrust_parts_of_them() -> None:
    oracle = Oracle()
    oracle.done(2, "", "eve", "m_1", [CommandPart("say", None, SAID | {"status": "active"})], None)
    gone = oracle.ask("supersede", "", "m_1", {"by": None, "at": ""})
    oracle.done(3, "", "ann", "m_2", [CommandPart("say", None, SAID | {"content": "Coffee."}), *gone], None)
    assert {part.number for part in oracle.undo(2)} == {2, 3} and len(oracle.undo(2)) == 3
    assert [part.subject for part in oracle.distrust("", "eve") if part.number == 3] == ["m_1"]


def test_what_stands_on_nothing_falls_also_in_a_circle() -> None:
    oracle = Oracle()
    oracle.done(2, "", "", "m_1", [CommandPart("say", None, SAID)], None)
    oracle.done(3, "", "", "m_2", [CommandPart("say", None, SAID | {"content": "Coffee.", "sources": ("m_1",)})], None)
    oracle.done(4, "", "", "m_1", [CommandPart("say", "m_1", SAID | {"sources": ("m_2",)})], None)
    assert {part.number for part in oracle.undo(2)} == {2, 3, 4}


def test_a_key_is_free_while_its_command_is_undone() -> None:
    oracle = Oracle()
    oracle.done(2, "", "", "m_1", [CommandPart("say", None, SAID)], ("k", ("propose",)))
    assert oracle.known("", "k", ("propose",)) == "m_1"
    oracle.acts["undo"] = Act("", None, oracle.undo(2))
    assert oracle.known("", "k", ("propose",)) is None and oracle.fits_again("undo")
    oracle.done(4, "", "", "m_2", [CommandPart("say", None, SAID | {"content": "Coffee."})], ("k", ("propose",)))
    assert not oracle.fits_again("undo")


@pytest.mark.parametrize("changed", [True, False])
def test_a_key_stays_taken_when_its_answer_is_erased_but_not_by_what_was_asked(ledger: Ledger, changed: bool) -> None:
    """Also where the command had nothing to change: what it was asked is erased with the memory that was its answer."""
    fact = ledger.remember("Tea.", kind="fact")
    end = "2031-01-01T00:00:00.000000Z" if changed else None
    ledger.memories.set_validity(fact.id, valid_from=None, valid_to=end, idempotency_key="k")
    ledger.erase(fact.id)
    again = ledger.memories.set_validity(fact.id, valid_from=None, valid_to="2040-01-01", idempotency_key="k")
    oracle = Oracle()
    oracle.done(2, "", "", "m_1", [CommandPart("say", None, SAID)], None)
    asked = oracle.ask("set_validity", "", "m_1", {"start": None, "end": end})
    oracle.done(3, "", "", "m_1", asked, ("k", ("set_validity", end)))
    oracle.erase("m_1")
    assert oracle.known("", "k", ("set_validity", "2040-01-01")) == "m_1" and (again.replayed, again.id) == (
        True,
        fact.id,
    )
    with pytest.raises(ConflictError):
        ledger.memories.tag(fact.id, add=["a"], remove=(), idempotency_key="k")
    with pytest.raises(Refused):
        oracle.known("", "k", ("retag",))


def test_joins_are_taken_in_the_order_of_the_log_and_nothing_is_found_under_what_was_erased() -> None:
    oracle = Oracle()
    for number, id in enumerate(("p_1", "p_2", "p_3"), 2):
        oracle.done(number, "", "", id, [CommandPart("project", None, {"name": id})], None)
    oracle.done(5, "", "eve", "p_1", [CommandPart("join", "p_1", {"project": "p_2"})], None)
    oracle.done(6, "", "", "p_3", [CommandPart("join", "p_3", {"project": "p_1"})], None)
    assert oracle.places("").groups["p_2"] == ["p_3", "p_1", "p_2"]
    oracle.take("distrust", Act("", "eve", oracle.distrust("", "eve")))
    assert oracle.places("").named("p_2") == "p_2" and oracle.fits_again("distrust")
    oracle.done(8, "", "", "p_2", [CommandPart("join", "p_2", {"project": "p_3"})], None)
    assert not oracle.fits_again("distrust"), "it would be under both"
    oracle.erase("p_2")
    assert oracle.places("").shown().keys() == {"p_3"} and oracle.places("").named("p_1") == "p_3"


def test_a_candidate_waits_ninety_days_since_anything_happened_and_a_no_by_time_is_no_verdict() -> None:
    oracle = Oracle(now="2026-01-01T00:00:00Z")
    oracle.done(2, "", "", "m_1", [CommandPart("say", None, SAID)], None)
    oracle.now = "2026-03-01T00:00:00Z"
    oracle.done(3, "", "", "m_1", [CommandPart("retag", "m_1", {"add": ["a"], "remove": []})], None)
    oracle.now = "2026-05-29T00:00:00Z"
    assert oracle.expires("m_1", oracle.memories("")["m_1"]) == (False, False)
    oracle.now = "2026-05-30T00:00:00Z"
    assert oracle.expires("m_1", oracle.memories("")["m_1"]) == (True, True)
    oracle.done(4, "", "policy:expiry", "m_1", [CommandPart("reject", "m_1", {"idle": True})], None)
    oracle.take("undo", Act("", None, oracle.undo(2)))
    assert not oracle.memories("") and not oracle.turned_down("", SAID)


# --- what the oracle found -------------------------------------------------------------------------------------------


def test_a_superseded_memory_ends_at_the_earliest_when_it_begins(ledger: Ledger, clock: Clock) -> None:
    fact = ledger.remember("The lamp is green.")
    earlier = ledger.memories.set_validity(fact.id, valid_from="2020-01-01", valid_to=None)
    clock.advance(hours=-1)
    ledger.supersede(fact.id, "The lamp is blue.")
    ledger.undo(earlier.position)
    found = ledger.memories.get(fact.id)
    assert found.valid_to == found.valid_from == fact.valid_from


def test_an_end_alone_leaves_the_beginning_to_the_events_in_effect(ledger: Ledger) -> None:
    fact = ledger.remember("The lamp is green.")
    begins = ledger.memories.set_validity(fact.id, valid_from="2020-01-01", valid_to=None)
    ledger.memories.set_validity(fact.id, valid_from=None, valid_to="2031-01-01")
    ledger.undo(begins.position)
    found = ledger.memories.get(fact.id)
    assert found.valid_from == fact.valid_from


def test_a_validity_that_would_end_before_it_begins_falls_with_its_beginning(ledger: Ledger) -> None:
    fact = ledger.remember("The lamp is green.")
    begins = ledger.memories.set_validity(fact.id, valid_from="2020-01-01", valid_to=None)
    ledger.memories.set_validity(fact.id, valid_from=None, valid_to="2021-01-01")
    with pytest.raises(ConflictError):
        ledger.undo(begins.position)
    ledger.undo(begins.position, cascade=True)
    assert ledger.memories.get(fact.id) == replace(fact, position=ledger.position)


def test_a_tag_that_was_taken_off_and_added_again_is_there_once(ledger: Ledger) -> None:
    fact = ledger.remember("The lamp is green.", tags=["a"])
    off = ledger.memories.tag(fact.id, add=(), remove=["a"])
    ledger.memories.tag(fact.id, add=["a"], remove=())
    ledger.undo(off.position)
    found = ledger.memories.get(fact.id)
    assert found.tags == ("a",)


@pytest.mark.parametrize("lifted", ["", "undo", "remember", "distrust"])
@pytest.mark.parametrize("how", ["undo", "distrust"])
def test_a_no_outlives_its_memory_until_it_is_taken_back(ledger: Ledger, how: str, lifted: str) -> None:
    text, oracle = "Keep the kettle on the upper shelf", Oracle()
    wanted = SAID | {"kind": "adaptation", "content": text}
    oracle.done(2, "", "ann", "i_1", [CommandPart("turn", None, {"response": text})], None)
    oracle.done(3, "", "policy:extraction", "m_1", [CommandPart("say", None, wanted | {"sources": ["i_1"]})], None)
    oracle.done(4, "", "bob", "m_1", oracle.ask("reject", "", "m_1", {}), None)
    turn = ledger.bind(actor="ann").capture("Where to?", f"Decision: {text}.")
    ledger.jobs.run(jobs=("extraction",))
    (idea,) = ledger.review()
    rejection = ledger.bind(actor="bob").reject(idea.id)
    assert not oracle.turned_down("", wanted), "the memory itself says so"
    if how == "undo":
        oracle.acts["undo"] = Act("", None, oracle.undo(2))
        first = ledger.history.audit(type="InteractionCaptured")[0].position
        ledger.undo(first, cascade=True)
    else:
        oracle.acts["distrust"] = Act("", "ann", oracle.distrust("", "ann"))
        ledger.history.distrust("ann", kind="actor")
    assert absent(ledger.interactions.get, turn.id) and oracle.turned_down("", wanted)
    if lifted == "undo":
        oracle.acts["lifted"] = Act("", None, {part for part in oracle.parts if part.number == 4})
        ledger.undo(rejection.position)
    elif lifted == "remember":
        oracle.done(9, "", "bob", "m_2", oracle.remember("", wanted | {"status": "active"}, ()), None)
        yes = ledger.bind(actor="bob").remember(text, kind="adaptation")
        oracle.done(10, "", "bob", "m_2", oracle.ask("supersede", "", "m_2", {"by": None, "at": ""}), None)
        ledger.bind(actor="bob").supersede(yes.id, "Put the kettle in the cellar")
    elif lifted == "distrust":
        oracle.acts["lifted"] = Act("", "bob", oracle.distrust("", "bob"))
        ledger.history.distrust("bob", kind="actor")
    ledger.bind(actor="cleo").capture("Where to?", f"Decision: {text}.")
    report = ledger.jobs.run(jobs=("extraction",))
    assert oracle.turned_down("", wanted) == (report.candidates == 0) == (lifted == "")
