"""The demo: ten weeks go in, four facts change, every projection is lost, and the log brings all of it back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import Result
from command_line import run as run_command
from old_names import Ledger

from ledger.demo import play


def run(*arguments: str) -> Result:
    return run_command("demo", *arguments)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Result]:
    path = str(tmp_path_factory.mktemp("demo") / "demo.db")
    return path, run("--db", path)


def test_it_shows_the_story_in_plain_text(kept: tuple[str, Result]) -> None:
    path, result = kept
    assert result.exit_code == 0, result.output
    assert "\x1b" not in result.stdout and all(len(line) <= 80 for line in result.stdout.splitlines())
    assert "→ The user drinks green tea before every run." in result.stdout
    assert "the same." in result.stdout
    assert "2026-04-01: 4 beliefs that are no longer held" in result.stdout
    assert "had never been" in result.stdout and "every projection: sound." in result.stdout
    assert path in result.stderr.replace("\n", "")


def test_the_ledger_it_keeps_holds_what_was_told(kept: tuple[str, Result]) -> None:
    with Ledger.open(kept[0], readonly=True) as ledger:
        changed = {each.content for each in ledger.memories(status="superseded")}
        assert len(changed) == 4 and "The user drinks black coffee before every run." in changed
        assert len(ledger.interactions(limit=500)) == 70
        first = ledger.interactions(limit=500)[-1]
        assert first.recorded_at[:16] == "2026-03-02T17:42"  # the clock follows the conversation
        assert [each.name for each in reversed(ledger.projects())] == ["bakery-app", "marathon", "home"]
        assert ledger.project("shop") == ledger.project("bakery-app")


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
