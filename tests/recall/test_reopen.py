"""Receipts: a recall that was recorded comes back as it was given, however the ledger went on, and says what changed."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import probe
import pytest
from absence import absent
from conftest import Clock, fixed, folded_from_zero
from full import full
from msgspec.structs import replace

from ledger import Ledger, NotFoundError, RejectedError
from ledger.domain.errors import ModelError
from ledger.recall.packs import Item, Pack
from ledger.recall.request import AMONG, PACKINGS
from ledger.types import EVERYTHING, Event, Project, Unit
from projections.search.ranking import RANKINGS

RARE = "zanzibarquux"


@pytest.fixture(scope="module")
def stock(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The file of a ledger with a bit of everything, which is made once; its ids are none that a test's ledger gives."""
    path = tmp_path_factory.mktemp("stock") / "memory.db"
    with Ledger.open(path, clock=Clock(), random=fixed("stock")) as ledger:
        ledger.remember("The user drinks coffee.", kind="preference", tags=["drinks"], entities=["coffee"])
        ledger.remember("Coffee is sold in Porto.", project="Home", confidence=0.5)
        ledger.remember("The user is a coffee nerd. " * 20, kind="identity")
        ledger.remember("The garden is big.", project="Home")
        ledger.projects.set_state("Home", "status", "phase", "coffee is next", source="the board")
        ledger.capture("Which coffee?", "Dark coffee, friend. " * 100, project="Home", session="s", reinforce=False)
        ledger.capture("And where\0?", "Чай and 咖啡: coffee. " * 10_000, project="Home", session="s", reinforce=False)
    return path.read_bytes()


@pytest.fixture
def stocked(stock: bytes, tmp_path: Path, request: pytest.FixtureRequest) -> Ledger:
    (tmp_path / "memory.db").write_bytes(stock)
    ledger: Ledger = request.getfixturevalue("ledger")
    return ledger


def delivered(
    ledger: Ledger, query: str = "which coffee does the user drink?", unit: Unit = "chars", **asked: Any
) -> Pack:
    return ledger.recall(query, unit=unit, receipt=True, **asked)


def reopened(ledger: Ledger, pack: Pack, **asked: Any) -> Pack:
    assert pack.receipt is not None
    return ledger.reopen(pack.receipt, **asked)


def as_given(ledger: Ledger, pack: Pack) -> bool:
    return replace(reopened(ledger, pack), changed=()) == pack


# --- as it was -------------------------------------------------------------------------------------------------------

EVERY = [
    {"packing": packing, "ranking": ranking, "among": among, "explain": explain, "unit": unit, "project": project}
    for (packing, ranking, among), (explain, unit, project) in product(
        product(PACKINGS, RANKINGS, (*((each,) for each in AMONG), AMONG)),
        ((False, "chars", None), (True, "tokens", "Home")),
    )
]


@pytest.mark.slow
def test_a_receipt_reopens_to_the_pack_whatever_was_asked(stocked: Ledger) -> None:
    packs = [delivered(stocked, limit=4, budget=600, **asked) for asked in EVERY]
    packs += [delivered(stocked, limit=k) for k in (0, 1, 500)]
    packs += [
        delivered(stocked, "zebra", among=("memories", "chunks", "turns")),
        delivered(stocked, ""),
        delivered(stocked, "x" * 300_000),
    ]
    packs += [delivered(stocked, budget=budget) for budget in (0, 10**30)]
    packs += [delivered(stocked, statuses=(), kinds=["preference", "identity"], project="Nowhere")]
    assert len({pack.receipt for pack in packs}) == len(packs)
    assert sum(bool(pack.items) for pack in packs) >= 30 and any(pack.cut for pack in packs)
    for pack in packs:
        again = reopened(stocked, pack)
        assert again == pack and again.changed == ()
        assert again.as_text() == pack.as_text()


@pytest.mark.slow
def test_it_stays_so_when_the_ledger_goes_on(stocked: Ledger, clock: Clock) -> None:
    packs = [
        delivered(
            stocked, limit=9, budget=9_000, among=("memories", "chunks", "turns"), packing=packing, project="Home"
        )
        for packing in PACKINGS
    ]
    drinks, sold = (stocked.memories.list(kinds=(kind,))[-1] for kind in ("preference", "knowledge"))
    clock.advance(days=100)
    for act in (
        lambda: stocked.revise(sold.id, "Coffee is sold in Lisbon."),
        lambda: stocked.supersede(drinks.id, "The user drinks tea."),
        lambda: stocked.retract(sold.id),
        lambda: stocked.projects.set_state("Home", "status", "phase", "done"),
        lambda: stocked.undo(packs[0].seen or 0, cascade=True),
        lambda: stocked.memories.set_confidence(stocked.memories.list(kinds=("identity",))[0].id, 0.1),
        lambda: stocked.projects.add_alias("Home", "casa"),
        lambda: probe.rebuild(stocked),
    ):
        act()
        assert all(as_given(stocked, pack) for pack in packs)
    assert all(reopened(stocked, pack).changed for pack in packs)


@pytest.mark.slow
def test_another_process_reopens_it(stocked: Ledger) -> None:
    pack = delivered(stocked, among=("memories", "chunks", "turns"), explain=True)
    with Ledger.open(stocked.path, readonly=True) as reader:
        assert reader.reopen(pack.receipt or "") == pack


@pytest.mark.slow
def test_an_export_keeps_receipts(stocked: Ledger, tmp_path: Path) -> None:
    packs = [
        delivered(stocked, among=("memories", "chunks", "turns"), project="Home"),
        delivered(stocked, packing="shares", budget=500, project="Home"),
    ]
    stocked.maintenance.export_log(tmp_path / "log.jsonl")
    Ledger.import_log(tmp_path / "log.jsonl", tmp_path / "copy.db")
    with Ledger.open(tmp_path / "copy.db") as copy:
        assert [copy.reopen(pack.receipt or "") for pack in packs] == packs
        assert copy.proof.digest() == folded_from_zero(copy)


@pytest.mark.slow
def test_a_text_that_waited_for_its_index_is_in_the_receipt_as_any_other(stocked: Ledger) -> None:
    stocked.remember("Coffee again.")
    assert as_given(stocked, delivered(stocked))


# --- what changed ----------------------------------------------------------------------------------------------------


def test_changed_says_what_became_of_a_memory(ledger: Ledger) -> None:
    some = [ledger.remember(f"tea of sort {name}") for name in "abcdefgh"]
    pack = delivered(ledger, "tea", limit=8)
    successor = ledger.supersede(some[0].id, "coffee")
    ledger.retract(some[1].id)
    ledger.revise(some[2].id, "tea of another sort")
    ledger.memories.set_confidence(some[3].id, 0.25)
    ledger.guards.quarantine(some[4].id)
    ledger.undo(some[5].position)
    ledger.erase(some[6].id)
    told = reopened(ledger, pack).changed
    assert {text.partition(": ")[0]: text.partition(": ")[2] for text in told} == {
        some[0].id: f"active → superseded by {successor.id}",
        some[1].id: "active → retracted",
        some[2].id: "says something else",
        some[3].id: "confidence 1 → 0.25",
        some[4].id: "quarantined",
        some[5].id: "gone, what made it was undone",
        some[6].id: "erased",
    }
    ledger.restore(some[1].id)
    ledger.guards.release(some[4].id)
    ledger.redo(some[5].position)
    assert not {some[1].id, some[4].id, some[5].id} & {
        text.partition(": ")[0] for text in reopened(ledger, pack).changed
    }


def test_changed_says_what_became_of_a_turn(ledger: Ledger) -> None:
    some = [ledger.capture(f"Is tea {name} here at Harbour Row?", session="s", reinforce=False) for name in "abcd"]
    pack = delivered(ledger, "tea", among=("turns",))
    assert len(pack.items) == 4
    ledger.undo(some[0].position)
    ledger.erase(some[1].id)
    ledger.erase(Event(some[2].position, spans=[("data.prompt", 17, 28)]), quotes="keep")
    assert set(reopened(ledger, pack).changed) == {
        f"{some[0].id}: void, or removed",
        f"{some[1].id}: erased",
        f"{some[2].id}: partly erased",
    }


def test_changed_says_that_trusted_state_was_set_again(ledger: Ledger) -> None:
    for key in ("a", "b", "c"):
        ledger.projects.set_state("Home", "status", key, "old")
    pack = delivered(ledger, "x", packing="shares", budget=900, project="Home")
    assert [item.source for item in pack.items] == ["state"] * 3
    ledger.projects.set_state("Home", "status", "a", "new")
    ledger.projects.remove_state("Home", "status", "b")
    home = pack.items[0].id
    assert set(reopened(ledger, pack).changed) == {
        f"{home}: status: a was set again",
        f"{home}: status: b holds no more",
    }


def test_changed_speaks_of_what_was_cut_too(ledger: Ledger) -> None:
    fact = ledger.remember("tea")
    pack = delivered(ledger, "tea", budget=0)
    assert pack.items == () and len(pack.cut) == 1
    ledger.retract(fact.id)
    assert reopened(ledger, pack).changed == (f"{fact.id}: active → retracted",)


# --- erasure ---------------------------------------------------------------------------------------------------------


def texts_of(pack: Pack) -> dict[str, list[str | None]]:
    found: dict[str, list[str | None]] = {}
    for item in (*pack.items, *pack.cut):
        found.setdefault(item.source, []).append(item.content)
    return found


def test_what_was_erased_since_has_no_text_and_the_rest_is_as_it_was(ledger: Ledger) -> None:
    fact = ledger.remember(f"{RARE} drinks tea.")
    turn = ledger.capture(f"Does {RARE} like tea?", reinforce=False)
    kept = ledger.remember("Tea is green.")
    pack = delivered(ledger, "tea", among=("memories", "chunks", "turns"))
    ledger.erase(fact.id)
    ledger.erase(turn.id)
    again = reopened(ledger, pack)
    assert RARE not in full(again)

    def shape(item: Item) -> tuple[object, ...]:
        return item.rank, item.id, item.score, item.signals, item.cut

    assert list(map(shape, again.items)) == list(map(shape, pack.items))
    assert {item.id: item.content for item in again.items} == {fact.id: None, turn.id: None, kept.id: "Tea is green."}
    assert (again.used, again.searched, again.seen) == (pack.used, pack.searched, pack.seen)
    assert again.as_text().count("\n- ") == 3 and again.as_text().count(": (erased)\n") == 2


def test_a_question_is_erased_with_its_user(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "memory.db") as ledger:
        ledger.bind(user="ann").remember("Ann drinks tea.")
        pack = delivered(ledger.bind(user="ann"), f"tea with {RARE}?")
        long = delivered(ledger.bind(user="ann"), f"tea with {RARE}? " * 30_000)
        assert any(RARE.encode() in path.read_bytes() for path in tmp_path.iterdir())
        assert ledger.bind(user="ann").erase(EVERYTHING).state == "completed"
        assert absent(ledger.bind(user="ann").reopen, pack.receipt or "") and absent(
            ledger.bind(user="ann").reopen, long.receipt or ""
        )
        assert ledger.proof.digest() == folded_from_zero(ledger) and ledger.proof.verify().ok
    assert not any(RARE.encode() in path.read_bytes() for path in tmp_path.iterdir())


def test_a_question_that_quotes_what_is_erased_is_asked_about(ledger: Ledger) -> None:
    fact = ledger.remember(f"The secret word of the house is {RARE}.")
    delivered(ledger, f"Is it true? The secret word of the house is {RARE}.")
    plan = ledger.erase(fact.id, dry_run=True)
    assert plan.quotes
    with pytest.raises(RejectedError, match="quotes"):
        ledger.erase(fact.id)
    ledger.erase(fact.id, quotes="cut")
    assert not any(RARE in row.state for row in probe.store(ledger).rows(limit=100))


# --- whose, and when -------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_receipt_is_of_its_user_only(stocked: Ledger) -> None:
    stocked.bind(user="ann").remember("Ann drinks coffee.")
    mine, hers = delivered(stocked), delivered(stocked.bind(user="ann"))
    assert absent(stocked.reopen, hers.receipt or "") and absent(stocked.bind(user="ann").reopen, mine.receipt or "")
    assert reopened(stocked.bind(user="ann"), hers) == hers


@pytest.mark.slow
def test_what_is_no_receipt_opens_nothing_nor_does_the_id_of_another_event(stocked: Ledger) -> None:
    nothing: Any
    for nothing in ("", "nope", "\0", "m_0123456789abcdef", "%", "0", None, 7, b"x"):
        assert absent(stocked.reopen, nothing)
    for entry in stocked.history.audit(limit=50):
        assert absent(stocked.reopen, entry.event_id)


@pytest.mark.slow
def test_only_a_receipt_writes_and_it_writes_one_event(stocked: Ledger) -> None:
    position = stocked.position
    for asked in EVERY:
        stocked.recall("coffee", budget=500, **asked)
    assert stocked.position == position
    pack = delivered(stocked)
    assert stocked.position == position + 1 and pack.seen == position
    assert [entry.type for entry in stocked.history.audit(limit=1)] == ["RecallDelivered"]
    reopened(stocked, pack)
    assert stocked.position == position + 1


@pytest.mark.slow
def test_the_same_question_again_is_another_receipt(stocked: Ledger) -> None:
    first, second = delivered(stocked), delivered(stocked)
    assert first.receipt != second.receipt and reopened(stocked, first) == first
    assert replace(second, receipt=first.receipt, seen=first.seen) == first


def test_a_moment_gives_no_receipt(stocked: Ledger) -> None:
    moment = stocked.at(stocked.position)
    with pytest.raises(RejectedError, match="past"):
        moment.recall("coffee", receipt=True)


@pytest.mark.slow
def test_a_reader_of_the_file_gives_no_receipt(stocked: Ledger) -> None:
    with Ledger.open(stocked.path, readonly=True) as reader, pytest.raises(RejectedError, match="readonly"):
        reader.recall("coffee", receipt=True)


@pytest.mark.slow
def test_an_undone_receipt_still_reopens_because_it_was_given(stocked: Ledger) -> None:
    pack = delivered(stocked)
    stocked.undo(stocked.position)
    assert reopened(stocked, pack) == pack


@pytest.mark.slow
def test_in_a_batch_a_receipt_is_of_what_the_batch_sees(stocked: Ledger) -> None:
    with stocked.batch():
        stocked.remember("Coffee of the batch.")
        pack = delivered(stocked, "batch")
    assert [item.content for item in pack.items] == ["Coffee of the batch."]
    assert reopened(stocked, pack) == pack
    with pytest.raises(NotFoundError):
        stocked.promote("m_0123456789abcdef")


# --- what a receipt must not keep ------------------------------------------------------------------------------------


def test_what_a_model_says_of_a_question_goes_with_it(tmp_path: Path) -> None:
    pytest.importorskip("numpy")

    class Echo:
        name = "echo"

        def embed(self, texts: list[str]) -> Any:
            raise ModelError(f"cannot embed {texts[0]!r}")

    with Ledger.open(tmp_path / "memory.db", embedder=Echo()) as ledger:
        ledger.bind(user="ada").remember("The user drinks coffee.")
        pack = delivered(ledger.bind(user="ada"), f"does {RARE} drink coffee?")
        assert RARE in pack.warnings[0] and reopened(ledger.bind(user="ada"), pack).warnings == pack.warnings
        ledger.bind(user="ada").erase(Event(ledger.bind(user="ada").history.audit(type="RecallDelivered")[0].position))
        assert reopened(ledger.bind(user="ada"), pack).warnings == ()
    assert RARE.encode() not in (tmp_path / "memory.db").read_bytes()


def test_a_kind_is_a_word_and_a_list_holds_each_name_once(ledger: Ledger) -> None:
    for kinds in (RARE.upper(), [f"k{number}" for number in range(2_001)], "a kind of coffee"):
        with pytest.raises(RejectedError):
            delivered(ledger, kinds=kinds)
    pack = delivered(ledger, kinds=["fact"] * 3_000, statuses=["active"] * 3_000)
    assert pack.receipt is not None
    told = ledger.history.audit(type="RecallDelivered")[0].data["settings"]
    assert told["kinds"] == ["fact"] and told["statuses"] == ["active"]


@pytest.mark.slow
def test_a_receipt_holds_no_more_than_an_event_may(ledger: Ledger) -> None:
    with ledger.batch():
        for number in range(600):
            ledger.projects.set_state("Home", "status", f"key {number}", "coffee")
    pack = delivered(ledger, project="Home", packing="shares", budget=1_000_000)
    assert len(pack.items) == 500 and "600" in pack.warnings[-1]
    assert reopened(ledger, pack).items == pack.items


def test_an_entry_is_shortened_as_it_was_then(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger.remember("The user drinks coffee. " * 50)
    pack = delivered(ledger, packing="shares", budget=10_000)
    for module in ("unasked", "reopening"):
        monkeypatch.setattr(f"ledger.recall.{module}.ENTRY_CHARS", 100)
    assert [item.content for item in reopened(ledger, pack).items] == [item.content for item in pack.items]


def test_the_questions_about_a_project_go_with_it(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "memory.db") as ledger:
        ledger.remember("The heating is old.", project="Home")
        ledger.remember("The user drinks coffee.", project="Work")
        pack = delivered(ledger, f"how does {RARE} heat?", project="Home")
        other = delivered(ledger, "who drinks coffee?", project="Work")
        ledger.erase(Project("Home"))
        assert ledger.reopen(pack.receipt or "")
        assert reopened(ledger, other).items == other.items
        told = {each.position: each.data["query"] for each in ledger.history.audit(type="RecallDelivered")}
        assert [told[each] for each in sorted(told)] == [None, "who drinks coffee?"]
        assert ledger.proof.digest() == folded_from_zero(ledger) and ledger.proof.verify().ok
    assert RARE.encode() not in (tmp_path / "memory.db").read_bytes()
