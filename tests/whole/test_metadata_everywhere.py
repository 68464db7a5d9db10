"""Metadata on interactions, documents and messages: kept, listed by, found by recall, undone, exported, erased like any text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ledger import Ledger, RejectedError
from ledger.types import Event

SLACK: dict[str, Any] = {"source_app": "slack", "ticket": 4711, "vip": True, "note": None}


@pytest.fixture
def ledger(tmp_path: Path):
    with Ledger.open(tmp_path / "memory.db", user="ada") as opened:
        yield opened


def ids(page: Any) -> list[str]:
    return [each.id for each in page]


# --- interactions ----------------------------------------------------------------------------------------------------


def test_a_turn_has_its_own_and_what_its_response_adds(ledger: Ledger) -> None:
    turn = ledger.capture("Which tea?", metadata=SLACK)
    other = ledger.capture("Which coffee?", "Dark roast.", metadata={"source_app": "mail", "vip": 1})
    bare = ledger.capture("Which cake?", "None.")
    assert (turn.metadata, bare.metadata) == (SLACK, {})
    before = ledger.position
    answered = ledger.interactions.add_response(turn.id, "Green tea.", metadata={"model": "small", "ticket": 4712})
    assert answered.metadata == SLACK | {"model": "small", "ticket": 4712}
    assert ids(ledger.interactions.list(metadata={"vip": True})) == [turn.id]
    assert ids(ledger.interactions.list(metadata={"source_app": "mail"})) == [other.id]
    assert ids(ledger.at(before).interactions.list(metadata={"ticket": 4711})) == [turn.id]
    ledger.undo(before + 1, cascade=True)
    assert ledger.interactions.get(turn.id).metadata == SLACK
    assert ledger.proof.verify(full=True).ok
    with pytest.raises(RejectedError) as refused:
        ledger.interactions.add_response(turn.id, "Green.", metadata={f"k{n}": n for n in range(30)})
    assert (refused.value.limit, refused.value.current, refused.value.requested) == (32, 4, 34)


def test_a_capture_in_a_batch_returns_its_metadata(ledger: Ledger) -> None:
    with ledger.batch():
        turn = ledger.capture("Which tea?", "Green.", metadata=SLACK)
    assert turn.metadata == ledger.interactions.get(turn.id).metadata == SLACK


def test_a_key_of_a_capture_stands_for_its_metadata(ledger: Ledger) -> None:
    ledger.capture("Which tea?", metadata=SLACK, idempotency_key="k")
    assert ledger.capture("Which tea?", metadata=SLACK, idempotency_key="k").replayed
    with pytest.raises(Exception, match="other arguments"):
        ledger.capture("Which tea?", idempotency_key="k")


def test_import_file_keeps_the_metadata_of_turns(ledger: Ledger, tmp_path: Path) -> None:
    lines: list[dict[str, Any]] = [
        {"prompt": "Which tea?", "response": "Green.", "metadata": SLACK},
        {"prompt": "Which cake?", "metadata": {"nested": {}}},
        {"prompt": "Which coffee?"},
    ]
    path = tmp_path / "turns.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    report = ledger.interactions.import_file(path)
    assert len(report.errors) == 1 and "nested" in str(report.errors)
    assert [each.metadata for each in ledger.interactions.list()] == [{}, SLACK]
    ledger.interactions.import_file(path)
    assert len(ledger.interactions.list()) == 2, "the same file adds nothing"


# --- documents -------------------------------------------------------------------------------------------------------


def test_a_document_keeps_its_metadata_until_new_metadata_is_given(ledger: Ledger) -> None:
    notes = ledger.documents.add("# Tea\n\nGreen tea.", path="tea.md", metadata=SLACK)
    ledger.documents.add("# Coffee\n\nDark roast.", path="coffee.md")
    assert notes.metadata == SLACK and ids(ledger.documents.list(metadata={"note": None})) == [notes.id]
    assert ledger.documents.add("# Tea\n\nGreen tea.", path="tea.md").absorbed
    newer = ledger.documents.add("# Tea\n\nBlack tea.", path="tea.md")
    assert newer.metadata == SLACK
    before = ledger.position
    changed = ledger.documents.add("# Tea\n\nBlack tea.", path="tea.md", metadata={"ticket": 1})
    assert (
        not changed.absorbed and changed.metadata == {"ticket": 1} and not ledger.documents.list(metadata={"vip": True})
    )
    assert ids(ledger.at(before).documents.list(metadata={"vip": True})) == [notes.id]
    assert ledger.documents.add("# Tea\n\nBlack tea.", path="tea.md", metadata={}).metadata == {}
    ledger.undo(ledger.position)
    ledger.undo(changed.position)
    assert ledger.documents.get(notes.id).metadata == SLACK and ledger.proof.verify(full=True).ok


# --- erasure and export ----------------------------------------------------------------------------------------------


def recorded(ledger: Ledger, pairs: dict[str, Any]) -> list[str]:
    """One of each that can have metadata, by their ids."""
    turn = ledger.capture("Which tea?", metadata=pairs)
    ledger.interactions.add_response(turn.id, "Green.", metadata={"more": pairs["word"]})
    notes = ledger.documents.add("# Tea\n\nGreen tea.", path="tea.md", metadata=pairs)
    ledger.documents.add("# Tea\n\nBlack tea.", path="tea.md", metadata=pairs | {"more": 1})
    return [turn.id, notes.id, ledger.remember("The user likes tea.", metadata=pairs).id]


def test_an_erasure_leaves_no_byte_of_it(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "memory.db") as ledger:
        for id in recorded(ledger, {"word": "Zanzibarquux", "n": 20260417, "ключ Zanzibarquux": True}):
            ledger.erase(id, derived="keep", sources="keep", quotes="keep")
        for namespace in (ledger.interactions, ledger.documents, ledger.memories):
            assert not namespace.list(metadata={"n": 20260417})
        assert ledger.proof.verify(full=True).ok
    for file in tmp_path.iterdir():
        assert b"zanzibarquux" not in file.read_bytes().lower() and b"20260417" not in file.read_bytes(), file


def test_it_comes_through_an_export(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "memory.db") as ledger:
        recorded(ledger, {"word": "tea", "float": 1.0, "int": 1, "true": True})
        ledger.maintenance.export_log(tmp_path / "log.jsonl")
        digest, wanted = ledger.proof.digest(), {"float": 1.0, "true": True}
        before = [ids(each.list(metadata=wanted)) for each in (ledger.interactions, ledger.documents, ledger.memories)]
    Ledger.import_log(tmp_path / "log.jsonl", tmp_path / "copy.db")
    with Ledger.open(tmp_path / "copy.db") as copy:
        assert copy.proof.digest() == digest
        found = [ids(each.list(metadata=wanted)) for each in (copy.interactions, copy.documents, copy.memories)]
        assert found == before and all(found)


# --- recall ----------------------------------------------------------------------------------------------------------


def everything(ledger: Ledger, app: str, number: int) -> list[str]:
    """A memory, a turn and a document about tea, from one app."""
    said = {"source_app": app, "n": number}
    fact = ledger.remember(f"Tea from {app} is green, number {number}.", metadata=said)
    turn = ledger.capture(f"Which tea is from {app}, number {number}?", metadata=said)
    notes = ledger.documents.add(f"# Tea\n\nTea of {app}, number {number}.", metadata=said)
    return [fact.id, turn.id, notes.chunks[0].id]


@pytest.mark.parametrize("ranking", ["score/3", "rubino/1"])
def test_recall_fills_its_limit_with_what_has_it(ledger: Ledger, ranking: Any) -> None:
    for number in range(60):
        everything(ledger, "mail", number)
    wanted = [each for number in range(4) for each in everything(ledger, "slack", number)]
    before = ledger.position
    for number in range(60):
        everything(ledger, "mail", 100 + number)
    among: Any = ["memories", "chunks", "turns"]
    for view in (ledger, ledger.at(before)):
        pack = view.recall("tea number", among=among, metadata={"source_app": "slack"}, limit=12, ranking=ranking)
        assert sorted(ids(pack.items)) == sorted(wanted), "not what the best of all leave of it"
        assert pack.searched == 12 and not pack.observations
        one = view.recall("tea", among=among, metadata={"source_app": "slack", "n": 2}, limit=12, ranking=ranking)
        assert sorted(ids(one.items)) == sorted(wanted[6:9])
        assert not view.recall("tea", among=among, metadata={"n": 2.0}, ranking=ranking).items
        assert all(each.memory is None or each.memory.metadata["source_app"] == "slack" for each in pack.items)


def test_recall_by_it_follows_its_changes_and_a_receipt_opens_the_same(ledger: Ledger) -> None:
    fact, turn, chunk = everything(ledger, "slack", 1)
    among: Any = ["memories", "chunks", "turns"]
    first = ledger.recall("tea", among=among, metadata={"n": 1}, receipt=True)
    before = ledger.position
    ledger.memories.set_metadata(fact, {"n": 2})
    ledger.interactions.add_response(turn, "Green.", metadata={"n": 2})
    ledger.documents.add("# Tea\n\nTea of slack, number 1.", metadata={"n": 2})
    assert not ledger.recall("tea", among=among, metadata={"n": 1}).items
    assert set(ids(ledger.recall("tea", among=among, metadata={"n": 2}).items)) == {fact, turn, chunk}
    assert set(ids(ledger.at(before).recall("tea", among=among, metadata={"n": 1}).items)) == {fact, turn, chunk}
    assert first.receipt and ids(ledger.reopen(first.receipt).items) == ids(first.items)
    with pytest.raises(RejectedError):
        ledger.recall("tea", metadata={"n": [1]})


def test_a_pack_by_shares_has_nothing_else(ledger: Ledger) -> None:
    ledger.projects.add("atlas")
    ledger.projects.set_state("atlas", "status", "phase", "two")
    ledger.remember("The user is called Ada.", kind="identity")
    ledger.remember("The user is called Ann.", kind="identity", metadata={"n": 1})
    everything(ledger, "mail", 2)
    pack = ledger.recall("tea", project="atlas", metadata={"n": 1}, packing="shares", budget=1_000)
    assert [each.content for each in pack.items] == ["The user is called Ann."]


# --- messages --------------------------------------------------------------------------------------------------------


def test_a_message_keeps_its_metadata_and_no_model_sees_them(ledger: Ledger) -> None:
    session = ledger.session("support")
    first = session.append("user", "Which tea?", metadata=SLACK)
    session.append("assistant", "Green tea.")
    assert first.metadata == SLACK == session.message(first.position).metadata
    assert [each.metadata for each in session.messages()] == [SLACK, {}]
    assert ids(session.messages(metadata={"vip": True})) == [first.id] and not session.messages(metadata={"vip": 1})
    page = session.messages(metadata={"vip": True}, limit=1)
    assert len(page) == 1 and page.next is None
    assert "4711" not in str(session.window(1_000).render("openai").messages)
    assert session.append("user", "Which tea?", metadata=SLACK, idempotency_key="k").position
    with pytest.raises(Exception, match="other arguments"):
        session.append("user", "Which tea?", idempotency_key="k")
    pack = ledger.recall("tea", among=["turns"], metadata={"source_app": "slack"})
    assert {each.passage.position for each in pack.items if each.passage} <= {first.position, first.position + 2}
    assert pack.items and not ledger.recall("tea", among=["turns"], metadata={"source_app": "mail"}).items


def test_a_turn_whose_messages_have_it_is_found_by_it(ledger: Ledger) -> None:
    said: list[dict[str, Any]] = [{"role": "user", "content": "I like green tea.", "metadata": SLACK}]
    ledger.add([*said, {"role": "assistant", "content": "Good."}], session="support")
    ledger.add(
        [{"role": "user", "content": "Black tea too."}, {"role": "assistant", "content": "Fine."}], session="mail"
    )
    found = ledger.recall("tea", among=["turns"], metadata={"vip": True}).items
    assert {each.content for each in found} <= {"I like green tea.", "Good."} and found
    assert not ledger.recall("tea", among=["turns"], metadata={"vip": 1}).items


def test_a_transcript_keeps_the_metadata_of_its_messages(ledger: Ledger) -> None:
    session = ledger.session("support")
    plain: list[dict[str, Any]] = [{"role": "user", "content": "Tea?"}, {"role": "assistant", "content": "Green."}]
    session.reconcile(plain)
    told = [plain[0] | {"metadata": {"n": 1}}, plain[1] | {"metadata": {"nested": {"kept": "as an extra"}}}]
    change = session.reconcile([*told, {"role": "user", "content": "Thanks!", "metadata": SLACK}])
    assert (change.change, change.appended) == ("appended", 1) and change.repaired >= 1
    assert [each.metadata for each in session.messages()] == [{"n": 1}, {}, SLACK]
    assert session.reconcile([*told, {"role": "user", "content": "Thanks!", "metadata": SLACK}]).change == "none"
    assert session.reconcile([plain[0] | {"metadata": {"n": 2}}, *told[1:]], dry_run=True).repaired == 0, "ours stays"
    assert ids(session.messages(metadata={"n": 1})) and ledger.proof.verify(full=True).ok


def test_an_erased_message_does_not_get_it_back_from_its_transcript(ledger: Ledger) -> None:
    session = ledger.session("support")
    message = session.append("user", "Which tea?", metadata={"word": "Zanzibarquux"})
    ledger.erase(Event(message.position, ["data.metadata"]), derived="keep", sources="keep", quotes="keep")
    told = [{"role": "user", "content": "Which tea?", "metadata": {"word": "Zanzibarquux"}}]
    assert session.reconcile(told).change == "none" and session.messages()[0].metadata == {}
    assert session.messages()[0].content == "Which tea?"
