"""Recall shows observations beside what it finds: in a list of their own, and only what live sources bear out."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import probe
import pytest
from absence import absent
from conftest import Clock
from hostile import HOSTILE
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from observed import LONG_AGO, formed, happened

from ledger import Ledger, RejectedError
from ledger.domain import confidence as confidence_rules
from ledger.domain.errors import ReadOnlyError
from ledger.events import (
    EvidenceWithdrawn,
    ObservationMarkedStale,
    ObservationRefreshed,
    ObservationRetracted,
    ObservationRevised,
)
from ledger.recall.observing import OBSERVATIONS_PERCENT
from ledger.recall.packs import Item, Pack, sizes
from ledger.recall.request import PACKINGS, UNITS
from ledger.types import Corpus
from projections.views import observations

COFFEE = "Dark roast coffee is what the user drinks."
SAID = "1 Jan 2025"  # when the newest of its sources was


def ids(pack: Pack) -> list[str]:
    return [item.id for item in pack.observations]


def shown(ledger: Ledger, query: str = "coffee", **asked: Any) -> list[str]:
    return ids(ledger.recall(query, **asked))


def alone(pack: Pack) -> Pack:
    """The pack as it is without observations."""
    cut = tuple(item for item in pack.cut if item.observation is None)
    items = replace(pack, observations=(), cut=cut)
    return replace(items, used=UNITS[pack.unit](items.as_text()))


def said(ledger: Ledger, *texts: str, **by: Any) -> list[str]:
    return [ledger.remember(text, **by).id for text in texts]


@pytest.fixture
def drinker(ledger: Ledger) -> tuple[Ledger, list[str], str]:
    """A ledger, three memories in it, and the observation that they bear out."""
    sources = said(ledger, "The user had a dark roast on Monday.", "She bought dark beans.", "A French roast, again.")
    return ledger, sources, formed(ledger, COFFEE, sources)


# --- beside the items ------------------------------------------------------------------------------------------------


def test_observations_are_a_list_of_their_own(drinker: tuple[Ledger, list[str], str]) -> None:
    ledger, sources, id = drinker
    pack = ledger.recall("what coffee does the user drink? dark roast", unit="chars")
    assert ids(pack) == [id] and [item.rank for item in pack.observations] == [1]
    assert {item.id for item in pack.items} == set(sources), "none of them stands among the items"
    told = pack.observations[0].observation
    assert told is not None and (told.content, told.proof_count) == (COFFEE, 3)
    assert pack.used == len(pack.as_text())


def test_nothing_is_counted_twice(drinker: tuple[Ledger, list[str], str]) -> None:
    ledger, _, _ = drinker
    for query in ("dark roast", "coffee", "what does the user drink?"):
        on, off = ledger.recall(query, explain=True), ledger.recall(query, explain=True, observations=0)
        assert alone(on) == off, "a source of an observation keeps its place and its score"


def test_what_only_repeats_an_item_is_left_out(ledger: Ledger) -> None:
    source = ledger.remember("Dark roast  coffee is what the user drinks.")
    id = formed(ledger, COFFEE.upper(), [source.id])
    other = formed(ledger, "Coffee, mostly in the morning.", [source.id])
    pack = ledger.recall("coffee", observations=1)
    assert ids(pack) == [other], "and another one takes its place"
    assert [(item.id, item.cut) for item in pack.cut] == [(id, "repeated")]
    assert shown(ledger, "coffee", limit=0) == [other, id], "where the item is not in the pack it repeats nothing"


def test_of_two_that_say_the_same_one_is_shown(ledger: Ledger) -> None:
    (source,) = said(ledger, "A cup of something.")
    first, second = formed(ledger, COFFEE, [source]), formed(ledger, COFFEE, [source])
    pack = ledger.recall("coffee")
    assert ids(pack) == [second] and [(item.id, item.cut) for item in pack.cut] == [(first, "repeated")]


def test_min_match_applies_to_observations(ledger: Ledger) -> None:
    sources = said(ledger, "Something else.")
    near, far = formed(ledger, COFFEE, sources), formed(ledger, "The coffee is in the left cupboard.", sources)
    question = "dark roast coffee"
    assert {item.id: item.match for item in ledger.recall(question).observations}[near] == 1
    assert shown(ledger, question) == [near, far] == shown(ledger, question, min_match=0)
    assert shown(ledger, question, min_match=0.5) == [near]
    assert shown(ledger, f"{question} zebra", min_match=1) == []


def test_at_most_so_many_as_asked_for(ledger: Ledger) -> None:
    (source,) = said(ledger, "Something else.")
    made = [formed(ledger, f"Coffee number {number}.", [source]) for number in range(60)]
    assert len(shown(ledger)) == 3
    assert shown(ledger, observations=0) == [] and len(shown(ledger, observations=7)) == 7
    assert len(shown(ledger, observations=50)) == 50
    explained = ledger.recall("coffee", explain=True)
    assert [item.cut for item in explained.cut] == ["rank"] * 57
    assert {item.id for item in (*explained.observations, *explained.cut)} == set(made)
    assert all(set(item.signals) == {"text", "confidence"} for item in explained.cut)


@pytest.mark.parametrize("number", [1.5, "3", None, True])
def test_how_many_is_a_whole_number(ledger: Ledger, number: Any) -> None:
    with pytest.raises(RejectedError, match="observations must be a whole number"):
        ledger.recall("coffee", observations=number)


@pytest.mark.parametrize(
    "asked", [{"kinds": ["preference"]}, {"statuses": ["superseded"]}, {"statuses": ["retracted", "invalid"]}]
)
def test_who_asks_for_some_kinds_or_for_what_is_hidden_gets_none(
    drinker: tuple[Ledger, list[str], str], asked: dict[str, Any]
) -> None:
    ledger, _, id = drinker
    assert ledger.recall("coffee", **asked).observations == ()
    assert shown(ledger, statuses=()) == [id], "all has the active, too"


@pytest.mark.parametrize("among", [("memories",), ("chunks",), ("turns",), ("memories", "chunks", "turns")], ids=str)
def test_they_stand_beside_whatever_is_searched(
    drinker: tuple[Ledger, list[str], str], among: tuple[Corpus, ...]
) -> None:
    ledger, _, id = drinker
    assert shown(ledger, among=among) == [id]


# --- the score -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("count", "boost"), [(1, None), (2, 0.025), (3, 0.05), (5, 0.1), (6, 0.1), (40, 0.1)])
def test_each_source_beyond_the_first_adds_a_fortieth_up_to_a_tenth(
    ledger: Ledger, count: int, boost: float | None
) -> None:
    sources = said(ledger, *(f"Something {number}." for number in range(count)))
    formed(ledger, COFFEE, sources, rule="given/1", confidence=0.6)
    (item,) = ledger.recall("coffee").observations
    assert item.signals.get("proof") == boost
    assert item.signals | {"proof": 0} == {"text": 1.0, "confidence": 0.6, "proof": 0}
    assert item.score == pytest.approx(0.6 + (boost or 0.0))


def test_a_withdrawn_source_adds_nothing(drinker: tuple[Ledger, list[str], str]) -> None:
    ledger, sources, id = drinker
    happened(ledger, id, EvidenceWithdrawn((sources[2],), "asked"))
    (item,) = ledger.recall("coffee").observations
    assert item.observation is not None and item.observation.proof_count == 2 and item.signals["proof"] == 0.025


def test_the_words_of_the_question_come_before_proof_and_confidence(ledger: Ledger) -> None:
    many = said(ledger, *(f"Something {number}." for number in range(9)))
    about = formed(ledger, "Ann's cello lessons are on Tuesday.", many[:1])
    formed(ledger, "On Tuesday the market is open.", many)
    assert shown(ledger, "cello lessons on tuesday")[0] == about
    assert ledger.recall("cello lessons on tuesday").observations[1].signals["text"] < 0.5


def test_of_equal_words_more_proof_comes_first_and_then_the_newer(ledger: Ledger) -> None:
    sources = said(ledger, *(f"Something {number}." for number in range(3)))
    one = [formed(ledger, f"Coffee in the {room}.", sources[:1]) for room in ("kitchen", "garden")]
    three = formed(ledger, "Coffee in the cellar.", sources)
    assert shown(ledger, "coffee") == [three, *reversed(one)]


def test_the_trend_is_told_and_ranks_nothing(ledger: Ledger, clock: Clock) -> None:
    sources = said(ledger, "Something.", "Something else.")
    recent = (clock.time - timedelta(days=3)).isoformat()
    stale = formed(ledger, "Coffee in the kitchen.", sources[:1], times=[LONG_AGO])
    new = formed(ledger, "Coffee in the garden.", sources[:1], times=[recent])
    pack = ledger.recall("coffee")
    assert [(item.id, trend(item)) for item in pack.observations] == [(new, "new"), (stale, "dormant")]
    assert pack.observations[0].score == pack.observations[1].score


def trend(item: Item) -> str:
    assert item.observation is not None
    return item.observation.trend


def test_the_best_is_found_beneath_hundreds_that_nothing_bears_out(ledger: Ledger) -> None:
    gone, stays = said(ledger, "Something that is retracted.", "Something that stays.")
    with ledger.batch():
        for number in range(450):
            formed(ledger, f"Coffee! Coffee, coffee {number}.", [gone])
        id = formed(ledger, "In a long sentence about a lot of other things, coffee comes up at the very end.", [stays])
    ledger.retract(gone)
    assert shown(ledger) == [id]


# --- what is never recalled ------------------------------------------------------------------------------------------


def revised(*written_from: str) -> ObservationRevised:
    return ObservationRevised("Coffee, worded anew.", "redundant", "by_test/1", 700_000, "proof/1", written_from)


NEVER: dict[str, Callable[[Ledger, list[str], str], Any]] = {
    "marked stale": lambda ledger, sources, id: happened(ledger, id, ObservationMarkedStale("withdrawn")),
    "retracted": lambda ledger, sources, id: happened(ledger, id, ObservationRetracted("curated")),
    "worded from what is retracted": lambda ledger, sources, id: ledger.retract(sources[0]),
    "worded from what is invalid": lambda ledger, sources, id: ledger.invalidate(sources[0]),
    "worded from what is quarantined": lambda ledger, sources, id: ledger.guards.quarantine(sources[0]),
    "worded from what was superseded": lambda ledger, sources, id: ledger.supersede(sources[0], "She had tea."),
    "worded from what is erased": lambda ledger, sources, id: ledger.erase(sources[0], reason="asked", derived="keep"),
    "erased with its source": lambda ledger, sources, id: ledger.erase(sources[0], reason="asked", derived="erase"),
    "erased itself": lambda ledger, sources, id: ledger.erase(id, reason="asked", sources="keep"),
    "worded from what holds no more": lambda ledger, sources, id: ledger.memories.set_validity(
        sources[0], valid_from=LONG_AGO, valid_to="2025-06-01T00:00:00Z"
    ),
    "without any live source": lambda ledger, sources, id: [ledger.retract(each) for each in sources],
}


@pytest.mark.parametrize("why", NEVER)
def test_it_is_never_recalled(drinker: tuple[Ledger, list[str], str], why: str) -> None:
    ledger, sources, id = drinker
    assert shown(ledger) == [id]
    before = ledger.position
    NEVER[why](ledger, sources, id)
    pack = ledger.recall("coffee", explain=True)
    assert pack.observations == () and [item for item in pack.cut if item.source == "observation"] == []
    assert shown(ledger.at(before)) == ([] if "erased" in why else [id]), "what is erased is so at every moment"
    assert shown(ledger.at(ledger.position)) == []


BACK: dict[str, Callable[[Ledger, list[str], str], Any]] = {
    "retracted and restored": lambda ledger, sources, id: [ledger.retract(sources[0]), ledger.restore(sources[0])],
    "quarantined and released": lambda ledger, sources, id: [
        ledger.guards.quarantine(sources[0]),
        ledger.guards.release(sources[0]),
    ],
    "superseded, which was undone": lambda ledger, sources, id: undone(ledger, ledger.supersede(sources[0], "Tea.").id),
    "stale and refreshed": lambda ledger, sources, id: happened(
        ledger, id, ObservationMarkedStale("withdrawn"), ObservationRefreshed("confirmed", "by_test/1")
    ),
    "worded anew from what stays": lambda ledger, sources, id: [
        ledger.retract(sources[0]),
        happened(ledger, id, revised(sources[1])),
    ],
}


def undone(ledger: Ledger, id: str) -> None:
    """Undoes what made a subject."""
    ledger.undo(ledger.history.audit(subject=id)[-1].command_id, cascade=True)


@pytest.mark.parametrize("what", BACK)
def test_it_is_recalled_again(drinker: tuple[Ledger, list[str], str], what: str) -> None:
    ledger, sources, id = drinker
    BACK[what](ledger, sources, id)
    assert shown(ledger) == [id]


def test_a_source_that_it_was_not_worded_from_goes_and_it_stays_with_less_proof(
    drinker: tuple[Ledger, list[str], str],
) -> None:
    ledger, sources, id = drinker
    ledger.guards.quarantine(sources[1])
    (item,) = ledger.recall("coffee").observations
    assert item.id == id and item.observation is not None and item.observation.proof_count == 2
    assert item.observation.confidence == confidence_rules.shown(confidence_rules.proven("proof/1", 0, 2))


def test_an_interaction_supports_an_observation_until_it_is_undone(ledger: Ledger) -> None:
    turn = ledger.capture("Which coffee?", "A dark one.", reinforce=False)
    id = formed(ledger, COFFEE, [turn.id])
    assert shown(ledger) == [id]
    undone(ledger, turn.id)
    assert shown(ledger) == []


def test_a_chunk_supports_an_observation_only_while_its_document_is_in_use(ledger: Ledger) -> None:
    notes = ledger.documents.add("# Notes\n\nThe user writes of dark things.\n")
    id = formed(ledger, COFFEE, [notes.chunks[0].id])
    assert shown(ledger) == [id]
    ledger.documents.remove(notes.id)
    assert shown(ledger) == []
    ledger.documents.restore(notes.id)
    assert shown(ledger) == [id]


def test_distrust_takes_what_it_was_worded_from_and_names_the_recalls_that_showed_it(ledger: Ledger) -> None:
    source = ledger.bind(actor="crawler").remember("Something dark.")
    id = formed(ledger, COFFEE, [source.id])
    pack = ledger.recall("coffee", limit=0, receipt=True)
    assert ids(pack) == [id] and pack.items == ()
    report = ledger.history.distrust("crawler", kind="actor")
    assert pack.receipt in report.receipts
    assert shown(ledger) == []
    ledger.history.trust("crawler", kind="actor")
    assert shown(ledger) == [id]


# --- whose, where and when -------------------------------------------------------------------------------------------


def test_another_users_are_never_recalled(ledger: Ledger) -> None:
    ours, theirs = said(ledger, "Ours."), said(ledger.bind(user="ben"), "Theirs.")
    our = formed(ledger, "We like coffee.", ours)
    their = formed(ledger, "They like coffee.", theirs, user="ben")
    assert shown(ledger) == [our] and shown(ledger.bind(user="ben")) == [their] and shown(ledger.bind(user="eve")) == []
    explained = ledger.recall("coffee", explain=True, observations=50)
    assert their not in {item.id for item in (*explained.observations, *explained.cut)}
    receipt = ledger.bind(user="ben").recall("coffee", receipt=True).receipt
    assert receipt is not None and absent(ledger.reopen, receipt)


@pytest.mark.slow
def test_one_is_found_beneath_a_thousand_of_somebody_else(ledger: Ledger) -> None:
    ours, theirs = said(ledger, "Ours."), said(ledger.bind(user="ben"), "Theirs.")
    with ledger.batch():
        for number in range(1_000):
            formed(ledger, f"Coffee, coffee {number}!", theirs, user="ben")
        id = formed(ledger, "A sentence in which coffee is one of many words that are said.", ours)
    assert shown(ledger) == [id]


def test_a_project_has_its_own_and_those_of_none(ledger: Ledger) -> None:
    (source,) = said(ledger, "Something.")
    places = ("Home", "Work", None)
    here, there, none = (formed(ledger, f"Coffee {place}.", [source], project=place) for place in places)
    assert set(shown(ledger, project="Home")) == {here, none}
    assert set(shown(ledger)) == {here, there, none} and shown(ledger, project="Nowhere") == [none]
    (told,) = (item.observation for item in ledger.recall("coffee", project="Home").observations if item.id == here)
    assert told is not None and told.project == "Home"


def test_a_moment_has_the_wordings_and_proof_of_then(drinker: tuple[Ledger, list[str], str]) -> None:
    ledger, sources, id = drinker
    first = ledger.position
    happened(ledger, id, revised(sources[0]))
    ledger.retract(sources[2])
    ledger.recall("coffee")  # takes the texts into the index
    (then,) = ledger.at(first).recall("coffee").observations
    assert then.content == COFFEE and then.observation is not None and then.observation.proof_count == 3
    (now,) = ledger.recall("coffee").observations
    assert now.content == "Coffee, worded anew." and now.observation is not None and now.observation.proof_count == 2
    assert shown(ledger.at(first), "anew") == [] and shown(ledger, "anew") == [id]
    assert shown(ledger.at(first), "dark roast") == [id] and shown(ledger, "dark roast") == []


def test_recall_at_a_moment_before_an_observation_does_not_show_it(drinker: tuple[Ledger, list[str], str]) -> None:
    ledger, _, _ = drinker
    assert shown(ledger.at(ledger.position - 1)) == []


def test_a_moment_of_now_answers_as_now(drinker: tuple[Ledger, list[str], str]) -> None:
    ledger, sources, _ = drinker
    formed(ledger, "Coffee, and tea.", sources[1:])
    now, then = ledger.recall("coffee", explain=True), ledger.at(ledger.position).recall("coffee", explain=True)
    assert [(item.id, item.score, item.signals) for item in then.observations] == [
        (item.id, item.score, item.signals) for item in now.observations
    ]


def test_asked_of_a_time_of_the_world_its_wording_is_of_what_held_then(ledger: Ledger) -> None:
    source = ledger.remember("Something.", valid_from="2025-03-01T00:00:00Z", valid_to="2025-06-01T00:00:00Z")
    id = formed(ledger, COFFEE, [source.id])
    assert shown(ledger) == []
    here = ledger.position
    assert shown(ledger.at(here, valid_at="2025-04-01T00:00:00Z")) == [id]
    assert shown(ledger.at(here, valid_at="2025-02-01T00:00:00Z")) == []


# --- the budget ------------------------------------------------------------------------------------------------------


@pytest.fixture
def full(ledger: Ledger) -> Ledger:
    sources = said(ledger, *(f"The user drank coffee on day {number} of the journey." for number in range(12)))
    for number in range(6):
        formed(ledger, f"Coffee is what day {number} began with.", sources[number:])
    return ledger


@pytest.mark.parametrize("packing", PACKINGS)
@pytest.mark.parametrize("unit", ["chars", "tokens"])
def test_no_item_goes_for_an_observation_and_they_take_a_fifth_at_most(full: Ledger, packing: str, unit: str) -> None:
    measure, seen = UNITS[unit], 0
    for budget in (0, 1, 10, 50, 130, 170, 200, 400, 430, 470, 700, 1_000, 5_000):
        asked = {"budget": budget, "unit": unit, "packing": packing, "observations": 6}
        on, off = full.recall("coffee", **asked), full.recall("coffee", **(asked | {"observations": 0}))
        assert alone(on) == off
        taken = sum(sizes(on.observations, unit))
        assert taken <= budget * OBSERVATIONS_PERCENT // 100 and on.used == measure(on.as_text()) <= budget
        assert all(item.cut == "budget" for item in on.cut if item.observation is not None)
        seen += len(on.observations)
    assert seen, "in some of them there was room"


def test_without_a_budget_there_is_no_bound(full: Ledger) -> None:
    assert len(full.recall("coffee", observations=6).observations) == 6


def test_one_that_does_not_fit_is_told(full: Ledger) -> None:
    pack = full.recall("coffee", budget=100, unit="chars")
    assert pack.observations == () and [item.cut for item in pack.cut if item.observation is not None] == ["budget"] * 3


# --- how it is shown -------------------------------------------------------------------------------------------------


def test_as_text_has_a_block_of_them_with_proof_and_trend(drinker: tuple[Ledger, list[str], str]) -> None:
    ledger, sources, _ = drinker
    items, told = ledger.recall("dark").as_text().split("```observations\n")
    assert told == f"- {SAID}: {COFFEE} (3 sources, dormant)\n```"
    assert items.startswith("```memory\n- ") and items.count("\n- ") == 2
    for each in sources[1:]:
        ledger.retract(each)
    assert ledger.recall("coffee").as_text() == f"```observations\n- {SAID}: {COFFEE} (1 source, dormant)\n```"


@given(st.text(min_size=1, max_size=60))
def test_whatever_it_says_it_is_one_harmless_line(text: str) -> None:
    item = Item(rank=1, score=1.0, source="observation", id="o_1", content=text)
    first, line, last = Pack(items=(), observations=(item,)).as_text().split("\n")
    assert line.startswith("- ") and first.removesuffix("observations") == last == "`" * len(last)
    assert "`" * len(last) not in line


def test_json_has_them(drinker: tuple[Ledger, list[str], str]) -> None:
    ledger, _, id = drinker
    told = json.loads(json.dumps(ledger.recall("coffee").to_dict()))
    assert [each["id"] for each in told["observations"]] == [id]
    assert told["observations"][0]["observation"]["proof_count"] == 3
    assert told["observations"][0]["observation"]["trend"] == "dormant"


# --- receipts --------------------------------------------------------------------------------------------------------


def as_given(ledger: Ledger, pack: Pack) -> bool:
    assert pack.receipt is not None
    again = ledger.reopen(pack.receipt)
    return replace(again, changed=()) == pack


@pytest.mark.parametrize(
    "asked",
    [{}, {"explain": True}, {"budget": 200, "unit": "chars"}, {"budget": 60, "unit": "chars", "explain": True},
     {"packing": "shares", "budget": 900, "unit": "chars"},
     {"observations": 0}, {"observations": 50}, {"among": ["memories", "chunks", "turns"], "unit": "tokens"}, {"limit": 0}],
)  # fmt: skip
def test_a_receipt_opens_again_as_it_was_given(full: Ledger, clock: Clock, asked: dict[str, Any]) -> None:
    pack = full.recall("coffee on day 3", receipt=True, **asked)
    assert as_given(full, pack)
    first = full.memories.list()[0]
    full.retract(first.id)
    clock.advance(days=100)
    for item in pack.observations:
        happened(full, item.id, revised(first.id), EvidenceWithdrawn((full.memories.list()[0].id,), "asked"))
    probe.rebuild(full)
    assert as_given(full, pack), "with the trend of then, too"


def test_changed_says_what_became_of_an_observation(drinker: tuple[Ledger, list[str], str]) -> None:
    ledger, sources, id = drinker
    receipt = ledger.recall("coffee", receipt=True).receipt
    assert receipt is not None

    def changed() -> list[str]:
        pack = ledger.reopen(receipt)
        return [each.removeprefix(f"{id}: ") for each in pack.changed if each.startswith(id)]

    assert changed() == []
    ledger.retract(sources[2])
    assert changed() == ["sources 3 → 2"]
    ledger.retract(sources[0])
    assert changed() == ["stale, sources 3 → 1"]
    happened(ledger, id, revised(sources[1]))
    assert changed() == ["says something else, sources 3 → 1"]
    happened(ledger, id, ObservationRetracted("curated"))
    assert changed() == ["retracted, says something else, sources 3 → 1"]
    undone(ledger, id)
    assert changed() == ["gone, what made it was undone"]


def test_in_a_batch_a_receipt_is_of_what_the_batch_sees(ledger: Ledger) -> None:
    with ledger.batch():
        (source,) = said(ledger, "Something.")
        id = formed(ledger, COFFEE, [source])
        pack = ledger.recall("coffee", receipt=True)
        assert ids(pack) == [id] and as_given(ledger, pack)
    assert as_given(ledger, pack)


# --- in a session's window -------------------------------------------------------------------------------------------


def test_they_are_woven_into_a_window_and_counted(drinker: tuple[Ledger, list[str], str]) -> None:
    ledger, _, id = drinker
    chat = ledger.session("s")
    chat.append("user", "Which coffee shall I order?")
    with_them = chat.window(2_000, question="coffee", receipt=True)
    assert with_them.pack is not None and ids(with_them.pack) == [id]
    assert with_them.memories[-1] == f"{SAID}: {COFFEE} (3 sources, dormant)"
    assert COFFEE in json.dumps(with_them.render().messages)
    assert with_them.pack.used > 0 and with_them.used >= with_them.pack.used + with_them.overhead
    assert with_them.receipt is not None and chat.reopen(with_them.receipt) == with_them


# --- when something is in the way ------------------------------------------------------------------------------------


def suspended(ledger: Ledger, name: str) -> None:
    with probe.store(ledger).transact() as transaction:
        sql = "UPDATE projections SET suspended_at = 1, error = 'ValueError' WHERE name = ?"
        transaction.connection.execute(sql, (name,))


@pytest.mark.parametrize("name", ["observations", "interactions", "documents"])
def test_where_they_cannot_be_read_recall_goes_on_without_and_says_so(
    drinker: tuple[Ledger, list[str], str], name: str
) -> None:
    ledger, _, id = drinker
    on = ledger.recall("dark", among=("memories",))
    suspended(ledger, name)
    try:
        pack = ledger.recall("dark", among=("memories",), receipt=True)
        assert [item.id for item in pack.items] == [item.id for item in on.items] and pack.observations == ()
        assert pack.warnings == (
            f"observations are left out: the projection {name!r} is suspended; maintenance.rebuild() makes it again",
        )
        assert as_given(ledger, pack) and ledger.recall("dark", among=("memories",), observations=0).warnings == ()
    finally:
        probe.rebuild(ledger)
    assert shown(ledger) == [id] and ledger.recall("coffee").warnings == ()


def test_a_fold_that_fails_parks_them_and_recall_goes_on(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    (source,) = said(ledger, "Dark roast.")

    def failing(*_: Any) -> None:
        raise ValueError("a poisoned event")

    with monkeypatch.context() as patched:
        patched.setattr(observations.ObservationsProjection, "fold", failing)
        id = formed(ledger, COFFEE, [source])
    pack = ledger.recall("roast")
    assert [item.id for item in pack.items] == [source] and pack.observations == () and "suspended" in pack.warnings[0]
    probe.rebuild(ledger)
    assert shown(ledger, "coffee") == [id]


@pytest.mark.parametrize("query", HOSTILE)
def test_no_question_is_an_error_for_them(drinker: tuple[Ledger, list[str], str], query: str) -> None:
    ledger, _, id = drinker
    before = ledger.position
    for asked in ({}, {"explain": True}, {"ranking": "rubino/1"}, {"packing": "shares", "budget": 500}):
        assert set(shown(ledger, query, **asked)) <= {id}
        assert set(shown(ledger.at(before), query, **asked)) <= {id}
    assert ledger.position == before


@pytest.mark.parametrize(
    ("text", "query"),
    [("彼女は毎朝、濃い珈琲を飲む。", "珈琲"), ("Она любит чёрный кофе.", "кофе"), ("Go and C are what she writes.", "go"),
     ("Café au lait, tous les jours.", "cafe"), ("She bought beans.", "who buys beans?"), ("커피를 마신다", "커피")],
)  # fmt: skip
def test_any_script_and_form_is_found_as_in_memories(ledger: Ledger, text: str, query: str) -> None:
    (source,) = said(ledger, "x y z")
    id = formed(ledger, text, [source])
    assert shown(ledger, query) == [id] and shown(ledger.at(ledger.position), query) == [id]


def test_a_reader_of_the_file_finds_what_waits_for_the_index(tmp_path: Path, clock: Clock) -> None:
    path = tmp_path / "memory.db"
    with Ledger.open(path, clock=clock) as ledger:
        (source,) = said(ledger, "Something.")
        id = formed(ledger, COFFEE, [source])
        with Ledger.open(path, readonly=True, clock=clock) as reader:
            waiting = reader.recall("dark coffee")
            assert ids(waiting) == [id]
            with pytest.raises((RejectedError, ReadOnlyError)):
                reader.recall("coffee", receipt=True)
        assert [(item.id, item.score) for item in ledger.recall("dark coffee").observations] == [
            (item.id, item.score) for item in waiting.observations
        ]


def test_where_there_are_none_nothing_is_said_to_be_left_out(ledger: Ledger) -> None:
    (source,) = said(ledger, "Dark roast.")
    suspended(ledger, "documents")
    try:
        pack = ledger.recall("dark", among=("memories",))
        assert [item.id for item in pack.items] == [source] and pack.warnings == ()
    finally:
        probe.rebuild(ledger)


# --- more than a word in common ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("dark", True),
        ("Does the user like coffee?", True),
        ("Which coffee beans are cheap?", True),  # a third
        ("Which train does the user take to work in Berlin on Fridays?", False),  # "user" alone
        ("Where did we put the coffee machine, the toaster and the kettle?", False),
        ("We moved: plates, knives, forks, spoons, lamps, chairs, tables, dark roast coffee, rugs, beds, books", True),
    ],
)
def test_one_word_of_many_is_not_enough(drinker: tuple[Ledger, list[str], str], query: str, found: bool) -> None:
    ledger, _, id = drinker
    assert shown(ledger, query) == shown(ledger.at(ledger.position), query) == ([id] if found else [])


def test_what_a_batch_has_taken_in_already_is_found_in_it(ledger: Ledger) -> None:
    """However many texts it wrote, and in every recall of the batch."""
    with ledger.batch():
        (source,) = said(ledger, "Something.")
        id = formed(ledger, COFFEE, [source])
        assert [ids(ledger.recall("coffee")) for _ in range(2)] == [[id], [id]]
        more = [formed(ledger, f"Coffee comes from country {number}.", [source]) for number in range(70)]
        assert set(ids(ledger.recall("coffee", observations=50))) <= {id, *more}
        assert len(ids(ledger.recall("coffee", observations=50))) == 50


# --- among the items -------------------------------------------------------------------------------------------------


def test_observations_rank_among_the_items_with_astrocytes_weight(drinker: tuple[Ledger, list[str], str]) -> None:
    ledger, sources, id = drinker
    question = "what coffee does the user drink? dark roast"
    beside, among = ledger.recall(question), ledger.recall(question, observations="items")
    assert ids(beside) == [id] and {item.id for item in beside.items} == set(sources), "the default stays"
    assert among.observations == () and {item.id for item in among.items} == {*sources, id}
    assert [item.rank for item in among.items] == [1, 2, 3, 4]
    scores = [item.score for item in among.items]
    assert scores == sorted(scores, reverse=True)
    (item,) = (item for item in among.items if item.id == id)
    assert item.source == "observation" and item.observation is not None and item.signals["observation"] == 1.5
    parts = item.signals["text"] * item.signals["confidence"] + item.signals["proof"]
    assert item.score == pytest.approx(1.5 * parts, abs=1e-5)
    assert f"- {SAID}: {COFFEE} (3 sources, " in among.as_text() and "```observations" not in among.as_text()
    memories_then = {item.id: item.score for item in beside.items}
    assert {item.id: item.score for item in among.items if item.id != id} == memories_then


def test_a_better_item_stays_before_an_observation(drinker: tuple[Ledger, list[str], str]) -> None:
    ledger, _, id = drinker
    best = ledger.remember("Monday is the day of the French beans and of the dark roast.")
    pack = ledger.recall("French beans on Monday, dark roast", observations="items")
    assert pack.items[0].id == best.id and id in [item.id for item in pack.items]


def test_with_reciprocal_ranks_an_observation_has_the_weight_too(drinker: tuple[Ledger, list[str], str]) -> None:
    ledger, _, id = drinker
    pack = ledger.recall("dark roast", observations="items", ranking="rubino/1")
    assert pack.items[0].id == id and pack.items[0].score == pytest.approx(1.5 * 3 / 61, abs=1e-6)


@pytest.mark.parametrize("ranking", ["score/3", "rubino/1"])
def test_the_weight_of_observations_among_the_items_can_be_set(
    drinker: tuple[Ledger, list[str], str], ranking: Any
) -> None:
    ledger, sources, id = drinker
    asked: dict[str, Any] = {"observations": "items", "ranking": ranking}
    (plain,) = (item for item in ledger.recall("dark roast", **asked, observation_weight=1).items if item.id == id)
    for weight in (0, 0.5, 4.0):
        pack = ledger.recall("dark roast", **asked, observation_weight=weight, receipt=True)
        (item,) = (item for item in pack.items if item.id == id)
        assert item.score == pytest.approx(plain.score * weight, abs=1e-5)
        assert item.signals["observation"] == weight and ledger.reopen(pack.receipt or "").items == pack.items
        assert weight or item.rank == len(pack.items) == len(sources) + 1
    for wrong in (-1, 10.1, float("nan"), True, "2"):
        with pytest.raises(RejectedError, match="observation_weight must be a number from 0 to 10"):
            ledger.recall("dark roast", **asked, observation_weight=wrong)  # type: ignore[arg-type]
    with pytest.raises(RejectedError, match='observation_weight counts among the items: add observations="items"'):
        ledger.recall("dark roast", observation_weight=2)


def test_among_the_items_the_limit_and_the_budget_count_observations(drinker: tuple[Ledger, list[str], str]) -> None:
    ledger, _, id = drinker
    pack = ledger.recall("dark roast coffee", observations="items", limit=1, explain=True)
    assert [item.id for item in pack.items] == [id] and {item.cut for item in pack.cut} == {"rank"}
    small = ledger.recall("dark roast coffee", observations="items", budget=40, unit="chars")
    assert id in [item.id for item in small.cut] and small.used <= 40
    assert ledger.recall("dark roast coffee", observations="items", limit=0).items == ()
    with pytest.raises(RejectedError, match='observations must be a whole number from 0 to 50 or "items"'):
        ledger.recall("dark roast", observations="item")  # type: ignore[arg-type]


@pytest.mark.parametrize("packing", PACKINGS)
def test_a_receipt_reopens_observations_among_the_items(drinker: tuple[Ledger, list[str], str], packing: Any) -> None:
    ledger, sources, id = drinker
    asked: dict[str, Any] = {"observations": "items", "budget": 900, "unit": "chars", "packing": packing}
    pack = ledger.recall("dark roast coffee", receipt=True, explain=True, **asked)
    assert id in [item.id for item in pack.items]
    assert ledger.reopen(pack.receipt or "") == replace(pack, searched=pack.searched)
    ledger.retract(sources[0])
    again = ledger.reopen(pack.receipt or "")
    assert again.items[0].content == pack.items[0].content
    assert f"{id}: stale, sources 3 → 2" in again.changed


def test_an_observation_that_repeats_an_item_is_not_among_the_items(ledger: Ledger) -> None:
    sources = said(ledger, "Dark roast on Monday.", "Dark beans.", "A dark roast, again.", COFFEE)
    id = formed(ledger, COFFEE, sources)
    assert id not in [item.id for item in ledger.recall("dark roast coffee", observations="items").items]
