"""The demo: one page of a story with and without memory, the rest on demand, and a ledger that its log brings back."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from command_line import Result
from command_line import run as run_command

from ledger import Ledger
from ledger.demo import play


def run(*arguments: str) -> Result:
    return run_command("demo", *arguments)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Result]:
    path = str(tmp_path_factory.mktemp("demo") / "demo.db")
    return path, run("--db", path)


def section(text: str, title: str) -> str:
    """The lines under a heading of the page."""
    return text.partition(f"\n{title}")[2].partition("\n\n")[0]


@pytest.mark.parametrize("columns", [80, 100])
def test_the_story_is_one_page_of_plain_text(columns: int) -> None:
    result = run_command("demo", environment={"COLUMNS": str(columns)})
    lines = result.stdout.splitlines()
    assert result.exit_code == 0 and len(lines) <= 60 and all(len(line) <= columns for line in lines)
    assert "\x1b" not in result.stdout and "87 tables" not in result.stdout and result.stderr == ""
    assert re.search(r"computed again from \d+ events: the same\.", result.stdout)


def test_the_prompts_stand_side_by_side_and_only_one_knows_the_new_fact(kept: tuple[str, Result]) -> None:
    _, result = kept
    shown = section(result.stdout, "No model is asked here")
    first = result.stdout.partition("the prompt without memory")[2].partition("\n")[2].splitlines()[0]
    assert first.split() == ["Write", "the", "flour", "order:", "which", "```memory"]
    prompt = result.stdout.partition("the prompt without memory")[2].partition("A fact changed")[0]
    new, old = prompt.find("Dunmere"), prompt.find("Hollbeck")
    assert shown == "; this is what one would be given." and new > 0 and (old < 0 or new < old)
    assert "prefers grams" in prompt


def test_a_changed_fact_is_told_by_its_days_its_reason_and_the_words_behind_it(kept: tuple[str, Result]) -> None:
    _, result = kept
    changed, why = section(result.stdout, "A fact changed"), section(result.stdout, "Why it is believed")
    told = " ".join(changed.split())  # each with the day since which it held
    assert "asked on 2026-03-20 2 Mar 2026: Flour comes from the Hollbeck mill every Tuesday. asked on" in told
    assert "asked on 2026-05-10 24 Mar 2026: Flour comes from the Dunmere mill every Thursday. Nothing was" in told
    assert " ".join(why.split()).startswith(": every event, with the confidence after it 2026-03-02 0.70 Flour comes")
    assert "Hollbeck raised the price by 18 %" in why and "baked it this morning already" in why


def test_one_undo_brings_the_former_fact_back_and_a_redo_the_new_one(kept: tuple[str, Result]) -> None:
    path, result = kept
    told = " ".join(section(result.stdout, "One undo").split())
    undone, redone = told.partition("undo(")[2].split("redo(")
    assert undone.rstrip().endswith("2 Mar 2026: Flour comes from the Hollbeck mill every Tuesday.")
    assert "24 Mar 2026: Flour comes from the Dunmere mill every Thursday. An undo takes back" in redone
    with Ledger.open(path, readonly=True) as ledger:
        assert [entry.command for entry in ledger.history.audit(limit=2)] == ["redo", "undo"]
        assert ledger.recall("flour mill").items[0].content == "Flour comes from the Dunmere mill every Thursday."


def test_the_rest_is_shown_on_demand(tmp_path: Path) -> None:
    result = run("--all", "--db", str(tmp_path / "demo.db"))
    assert result.exit_code == 0, result.output
    assert "\x1b" not in result.stdout and all(len(line) <= 80 for line in result.stdout.splitlines())
    assert "→ The user drinks green tea before every run." in result.stdout
    assert "2026-04-01: 4 beliefs that are no longer held" in result.stdout
    assert "had never been" in result.stdout and "every projection: sound." in result.stdout
    assert "the same." in result.stdout and "tables were dropped" not in result.stdout
    for page in result.stdout.split("\n\n"):
        steps = [line for line in page.splitlines() if line[:3].strip().isdigit() and "-" in line]
        assert len(steps) == len({*steps}), page


def test_the_ledger_it_keeps_holds_what_was_told(kept: tuple[str, Result]) -> None:
    with Ledger.open(kept[0], readonly=True) as ledger:
        changed = {each.content for each in ledger.memories.list(statuses=("superseded",))}
        assert len(changed) == 4 and "The user drinks black coffee before every run." in changed
        assert len(ledger.interactions.list(limit=500)) == 70
        first = ledger.interactions.list(limit=500)[-1]
        assert first.recorded_at[:16] == "2026-03-02T17:42"  # the clock follows the conversation
        assert [each.name for each in reversed(ledger.projects.list())] == ["bakery-app", "marathon", "home"]
        assert ledger.projects.get("shop") == ledger.projects.get("bakery-app")


def test_it_says_where_a_ledger_that_stays_is(kept: tuple[str, Result]) -> None:
    assert kept[0] in kept[1].stderr.replace("\n", "")


def test_it_refuses_a_place_that_is_taken(kept: tuple[str, Result]) -> None:
    before = Path(kept[0]).read_bytes()
    result = run("--db", kept[0])
    assert (result.exit_code, result.stdout) == (4, "")
    assert Path(kept[0]).read_bytes() == before


@pytest.mark.slow
def test_its_numbers_hold_and_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    result = run("--json")
    numbers = json.loads(result.stdout)
    assert result.exit_code == 0 and result.stderr == ""
    assert numbers["digest"] == numbers["digest_after"] and numbers["events"] == numbers["events_after"]
    assert (numbers["interactions"], numbers["acts"], numbers["projects"]) == (70, 49, 3)
    assert numbers["superseded_pairs"] == 4 and numbers["reinforcements"] > 10
    assert numbers["dropped_tables"] > 10 and numbers["memories"]["superseded"] == 4
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_ledger_that_comes_back_different_fails_the_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    lose = play.lose_and_rebuild
    monkeypatch.setattr(play, "lose_and_rebuild", lambda path: lose(path) | {"digest_after": "other"})
    result = run()
    assert result.exit_code == 1 and "DIFFERENT" in result.stdout
