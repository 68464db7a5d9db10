"""A command that the product tells a person to run next acts on the same ledger and for the same user."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from command_line import answer, run

from ledger import Ledger
from ledger.cli import app

CHAT = "user: I prefer tea.\nassistant: Noted.\n"


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a ledger whose path needs quotes, away from the working directory, in which another ledger lies."""
    monkeypatch.chdir(tmp_path)
    run("remember", "The default ledger.")
    folder = tmp_path / "Ada's files"
    folder.mkdir()
    return folder / "memory.db"


def told(text: str) -> list[str]:
    """Return the words of the command that a text ends with, as a shell reads them."""
    return shlex.split(text.rstrip().rpartition("memory-ledger ")[2])


def copied(text: str) -> list[list[str]]:
    """Return the words of each command between backticks, as a shell reads them."""
    return [shlex.split(words) for words in re.findall(r"`memory-ledger ([^`]+)`", text)]


def test_the_way_back_of_what_was_added_is_a_command_for_the_same_ledger_and_user(there: Path) -> None:
    added = run("add", "-", "--user", "ada b", db=there, stdin=CHAT)
    words = told(added.stdout)
    assert words[:1] == ["undo"] and words[2:] == ["--db", there.as_posix(), "--user", "ada b"]
    assert run(*words).exit_code == 0
    assert answer("interactions", "list", "--user", "ada b", db=there) == []


def test_an_undo_and_a_redo_tell_the_way_back_for_the_same_ledger_and_user(there: Path) -> None:
    run("remember", "The sea is salty.", "--user", "ada", "--actor", "ann", db=there)
    undone = told(run("undo", "2", "--user", "ada", db=there).stdout)
    assert undone[0] == "redo"
    redone = run(*undone)
    assert redone.exit_code == 0 and told(redone.stdout)[0] == "undo"
    assert [each["content"] for each in answer("memories", "list", "--user", "ada", db=there)] == ["The sea is salty."]
    distrusted = told(run("history", "distrust", "ann", "--kind", "actor", "--user", "ada", db=there).stdout)
    assert distrusted[:2] == ["history", "trust"]
    assert run(*distrusted).exit_code == 0


def test_a_command_between_backticks_in_an_error_names_the_ledger_and_the_user(there: Path) -> None:
    run("remember", "The sea is salty.", "--user", "ada", db=there)
    refused = run("session", "info", "chat", "--user", "ada", db=there)
    assert copied(refused.stderr) == [["sessions", "list", "--db", there.as_posix(), "--user", "ada"]]


def test_a_way_back_names_nothing_that_the_present_command_did_not(there: Path) -> None:
    assert told(run("undo", "2").stdout)[2:] == []
    assert copied(run("session", "info", "chat").stderr) == [["sessions", "list"]]
    with_variable = run("session", "info", "chat", environment={"LEDGER_PATH": str(there.parent.parent / "memory.db")})
    assert copied(with_variable.stderr) == [["sessions", "list"]]


def test_the_token_of_unread_turns_is_told_with_the_command_that_takes_the_answer(there: Path) -> None:
    run("capture", "I live in Lisbon.", "A fine city.", "--user", "ada", db=there)
    unread = run("learning", "unread", "--user", "ada", db=there)
    words = told(unread.stderr)
    assert words[:2] == ["learning", "learn"] and words[-4:] == ["--db", there.as_posix(), "--user", "ada"]


def test_a_long_way_back_is_one_line(there: Path) -> None:
    added = run("add", "-", "--user", "ada", db=there, stdin=CHAT).stdout
    assert len(added.splitlines()[-1]) > 100 and str(there.parent.name) in added.splitlines()[-1].replace(
        "'\"'\"'", "'"
    )


def test_a_second_run_in_one_process_forgets_the_options_of_the_first(
    there: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run("remember", "The sea is salty.", db=there)
    app.run(["session", "info", "chat", "--nonsense"])
    assert "--db" not in capfd.readouterr().err


def test_the_list_of_what_no_person_admitted_tells_how_to_take_a_memory_back(there: Path) -> None:
    with Ledger.open(there, user="ada") as ledger:
        id = ledger.add([{"role": "user", "content": "I prefer tea."}], session="chat").learned[0].id
    shown = run("review", "--admitted", "--user", "ada", db=there, environment={"COLUMNS": "400"}).stdout
    assert copied(shown) == [["retract", id, "--db", there.as_posix(), "--user", "ada"]]
