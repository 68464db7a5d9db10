"""Kinds: any word, of which an unknown one is named, and rubino's own words for ours."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledger import RejectedError
from ledger.api import Ledger


@pytest.fixture
def ledger(tmp_path: Path):
    with Ledger.open(tmp_path / "memory.db", user="ada", actor="planner") as opened:
        yield opened


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("project_context", "project"), ("technical_decision", "fact"), ("task_state", "fact"), ("tool_result", "fact"),
        ("fact", "fact"), ("knowledge", "knowledge"),
    ],
)  # fmt: skip
def test_kinds_of_rubino_are_translated_to_kinds_of_the_ledger(ledger: Ledger, given: str, kept: str) -> None:
    made = ledger.remember("The build takes nine minutes.", kind=given)
    assert (made.kind, made.warnings) == (kept, ())
    assert ledger.remember("The build takes nine minutes.", kind=kept).id == made.id
    assert ledger.propose("The build takes ten minutes.", kind=given).kind == kept
    assert ledger.supersede(made.id, "The build takes two minutes.", kind=given).kind == kept
    assert [each.kind for each in ledger.memories.list(kinds=[given])] == [kept]
    assert {item.memory.kind for item in ledger.recall("build minutes", kinds=[given]).items if item.memory} == {kept}


def test_an_unknown_kind_is_kept_and_reported(ledger: Ledger) -> None:
    made = ledger.remember("The build takes nine minutes.", kind="prefrence", idempotency_key="once")
    assert made.kind == "prefrence" and len(made.warnings) == 1
    assert "'prefrence'" in made.warnings[0] and "preference" in made.warnings[0]
    assert ledger.remember("The build takes nine minutes.", kind="prefrence", idempotency_key="once").warnings
    assert ledger.propose("Tests take one.", kind="prefrence").warnings == made.warnings
    other = ledger.supersede(made.id, "The build takes two minutes.")
    assert (other.kind, other.warnings) == ("prefrence", made.warnings)
    assert [each.warnings for each in ledger.memories.list()] == [()], "a listing names nothing"
    assert ledger.revise(other.id, "The build takes three minutes.").warnings == ()
    with pytest.raises(RejectedError):
        ledger.remember("The build takes nine minutes.", kind="No word")


def test_a_successor_is_of_the_session_of_what_it_replaces(ledger: Ledger) -> None:
    fact = ledger.remember("The build takes nine minutes.", session="monday", project="atlas")
    other = ledger.supersede(fact.id, "The build takes two minutes.")
    third = ledger.supersede(other.id, "The build takes one minute.")
    found = {each.subject for each in ledger.history.audit(session="monday", type="MemoryCaptured")}
    assert found == {fact.id, other.id, third.id}
    loose = ledger.supersede(ledger.remember("Tea is green.").id, "Tea is white.")
    assert [each.session for each in ledger.history.audit(subject=loose.id)] == [None]


def test_the_context_of_a_project_has_what_is_of_no_project(ledger: Ledger) -> None:
    for text, kind, project in (
        ("Python is 3.11.", "env", None), ("Atlas draws maps.", "project", "atlas"), ("Other.", "env", "other"),
        ("A fact.", "fact", None), ("Atlas has a test machine.", "env", "atlas"),
    ):  # fmt: skip
        ledger.remember(text, kind=kind, project=project)
    ledger.bind(user="bob").remember("Bob's.", kind="env")
    items = ledger.projects.context("atlas").items
    assert [item.content for item in items] == ["Atlas has a test machine.", "Atlas draws maps.", "Python is 3.11."]
