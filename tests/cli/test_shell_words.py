"""What the library says in Python is said in the words of a shell on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import answer, run
from own import Counts

from ledger import Ledger
from ledger.cli.shell_words import in_shell


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("maintenance.rebuild() makes it again", "`memory-ledger maintenance rebuild` makes it again"),
        ("history.audit(subject=…) has those", "`memory-ledger history audit --subject …` has those"),
        ("a promotion is by hand: see review()", "a promotion is by hand: see `memory-ledger review`"),
        ("recall(question) finds it, undo(m_4)", "`memory-ledger recall QUESTION` finds it, `memory-ledger undo m_4`"),
        ("a resolution is keep=MEMORY, or both=True", "a resolution is --keep MEMORY, or --both"),
        ("as in keep=[…], and dry_run lists", "as in --keep …, and --dry-run lists"),
        ("a project is named by Project(name)", "a project is named by --project NAME"),
        ("open the ledger with model=…", "set LEDGER_MODEL"),
        ("no command is named by 'history.audit(subject=3)'", "no command is named by 'history.audit(subject=3)'"),
        ("page.all() goes through every page", "--all goes through every page"),
        ("f(x) of somebody else, and what.ever()", "f(x) of somebody else, and what.ever()"),
    ],
)
def test_calls_and_keywords_become_commands_and_options(said: str, told: str) -> None:
    assert in_shell(said) == told


@pytest.mark.parametrize(
    ("words", "place", "option"),
    [
        (("session", "window", "chat", "--budget", "100"), "BUDGET", "--budget"),
        (("why", "--id=m_1"), "ID", "--id"),
    ],
)
def test_an_argument_given_as_an_option_is_told_so(words: tuple[str, ...], place: str, option: str) -> None:
    refused = run(*words)
    assert refused.exit_code == 2
    assert f"{place} is an argument: give its value in its place, without {option}" in refused.stderr


def test_a_refusal_names_no_python(tmp_path: Path) -> None:
    db = tmp_path / "memory.db"
    run("remember", "The sea is salty.", db=db)
    refused = run("erase", "foo", "--yes", db=db)
    assert refused.exit_code == 3 and "--project NAME" in refused.stderr and "Project(" not in refused.stderr


def test_the_option_at_is_answered_with_a_hint_to_as_of(tmp_path: Path) -> None:
    db = tmp_path / "memory.db"
    run("remember", "The sea is salty.", db=db)
    for words in (["--at", "2"], ["--at=2"]):
        assert "Unknown option: --at. Did you mean --as-of?" in run("recall", "sea", *words, db=db).stderr
    assert "--as-of" not in run("remember", "The sea is deep.", "--at", "2", db=db).stderr


def test_the_commands_of_a_group_are_named_by_what_was_called_and_where(tmp_path: Path) -> None:
    db = tmp_path / "memory.db"
    run("remember", "The sea is salty.", "--actor", "ann", db=db)
    run("propose", "The moon is round.", "--actor", "ann", db=db)
    shown = run("history", "undo-all", "--by", "ann", "--dry-run", db=db).stdout
    assert "remember at 2" in shown and "propose at 3" in shown


def test_quiet_prints_the_act_that_a_redo_names(tmp_path: Path) -> None:
    db = tmp_path / "memory.db"
    run("remember", "The sea is salty.", db=db)
    act = run("undo", "2", "--quiet", db=db).stdout.strip()
    assert run("redo", act, db=db).exit_code == 0
    assert [each["content"] for each in answer("memories", "list", db=db)] == ["The sea is salty."]


def test_an_undone_memory_is_found_by_the_beginning_of_its_id(tmp_path: Path) -> None:
    db = tmp_path / "memory.db"
    memory = answer("remember", "The sea is salty.", db=db)
    run("undo", "2", db=db)
    assert "not in effect" in run("why", memory["id"][:8], db=db).stdout
    assert run("why", memory["id"][:8], "--user", "somebody-else", db=db).exit_code == 3


def test_a_list_of_erasures_says_when_and_why(tmp_path: Path) -> None:
    db = tmp_path / "memory.db"
    run("remember", "Ruth Meier met Ruth Meier's sister.", db=db)
    erased = run("erase", "2", "--phrases", "Ruth Meier", "--reason", "request 17", "--yes", db=db)
    assert erased.exit_code == 0, erased.stderr
    assert [each["content"] for each in answer("memories", "list", db=db)] == ["██████████ met ██████████'s sister."]
    listed = answer("erasures", "list", db=db)[0]
    assert listed["reason"] == "request 17" and listed["recorded_at"]
    assert "request 17" in run("erasures", "list", db=db).stdout


def test_what_was_not_believed_anyway_is_no_belief_held_otherwise(tmp_path: Path) -> None:
    db = tmp_path / "memory.db"
    run("propose", "The moon is round.", "--actor", "ann", db=db)
    shown = run("history", "what-if", "--without", "actor=ann", db=db).stdout
    assert "Not held, and not there any more (1)" in shown and "Held otherwise" not in shown


def test_metadata_is_key_and_value_and_a_value_is_json_or_a_text(tmp_path: Path) -> None:
    db = tmp_path / "memory.db"
    given = [
        "n=4711",
        "f=1.0",
        "yes=true",
        "none=null",
        'text="4711"',
        "word=slack",
        "more=a=b",
        "empty=",
        "odd=NaN",
        "big=1e999",
    ]
    options = [option for each in given for option in ("--metadata", each)]
    tea = answer("remember", *options, "Tea.", db=db)
    wanted = {
        "n": 4711,
        "f": 1.0,
        "yes": True,
        "none": None,
        "text": "4711",
        "word": "slack",
        "more": "a=b",
        "empty": "",
    }
    assert tea["metadata"] == wanted | {"odd": "NaN", "big": "1e999"} and type(tea["metadata"]["f"]) is float
    assert (
        "metadata" not in answer("remember", "Coffee.", db=db) or not answer("remember", "Coffee.", db=db)["metadata"]
    )
    changed = answer("memories", "set-metadata", tea["id"], "n=1", '{"word": "mail"}', "--unset", "f", db=db)
    assert (changed["metadata"]["n"], changed["metadata"]["word"], "f" in changed["metadata"]) == (1, "mail", False)
    assert len(answer("memories", "list", "--metadata", "n=1", "--metadata", "yes=true", db=db)) == 1
    assert answer("memories", "list", "--metadata", 'n="1"', db=db) == []
    assert [each["id"] for each in answer("recall", "tea", "--metadata", "word=mail", db=db)["items"]] == [tea["id"]]
    for wrong in ("n", '{"a"', '{"a": []}'):
        result = run("memories", "list", "--metadata", wrong, db=db)
        assert result.exit_code in (2, 4) and "metadata" in result.output, result.output
    hostile = run("remember", "Cake.", "--metadata", "note=a\x1b[31mred", db=db).output
    assert "\x1b[31mred" not in hostile and "red" in hostile


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("projections", "rowz", "--quiet"), 'Unknown command "rowz"'),
        (("histroy", "log", "--quiet"), 'Unknown command "histroy". Did you mean "history"?'),
        (("projections", "--quiet", "list"), "stand behind the command: memory-ledger projections COMMAND --quiet"),
        (("--quiet", "recall", "x"), "stand behind the command: memory-ledger COMMAND --quiet"),
    ],
)
def test_a_word_that_is_no_command_is_named_before_the_place_of_an_option(words: tuple[str, ...], told: str) -> None:
    refused = run(*words)
    assert refused.exit_code == 2 and told in refused.stderr


def test_an_error_names_no_setting_that_the_shell_does_not_have(tmp_path: Path) -> None:
    db = str(tmp_path / "memory.db")
    with Ledger.open(db, projections=[Counts]):
        pass
    refused = run("maintenance", "rebuild", "counts", db=db)
    assert refused.exit_code == 4 and "LEDGER_" not in refused.stderr and "Ledger.open can" in refused.stderr
