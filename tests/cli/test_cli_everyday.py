"""What people do with the command line besides: files and pipes, a question before an erasure, TAB, the documentation."""

from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path

import pytest
from command_line import Result, answer, run
from places import ROOT, move_home

from ledger import Ledger
from ledger.cli import derive, manual, other_words, output


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def db(tmp_path: Path) -> str:
    return str(tmp_path / "memory.db")


# --- files and pipes -------------------------------------------------------------------------------------------------


def test_a_log_goes_through_a_pipe(db: str, tmp_path: Path) -> None:
    run("remember", "The sea is salty.", db=db)
    exported = run("export-log", "-", db=db)
    assert exported.exit_code == 0 and "secret" in exported.stderr
    assert json.loads(exported.stdout.splitlines()[0])["format"].startswith("memory-ledger/export/")
    log = tmp_path / "log.jsonl"
    log.write_text(exported.stdout, encoding="utf-8")
    copy = str(tmp_path / "copy.db")
    assert run("import-log", str(log), db=copy).exit_code == 0
    assert answer("proof", "digest", db=copy) == answer("proof", "digest", db=db)


def test_turns_come_from_standard_input(db: str) -> None:
    report = answer("interactions", "import-file", "-", db=db, stdin=b'\xef\xbb\xbf{"prompt": "Hello"}\n')
    assert (report["captured"], report["errors"]) == (1, [])


def test_a_byte_order_mark_loses_no_first_line_of_a_file(db: str, tmp_path: Path) -> None:
    file = tmp_path / "turns.jsonl"
    file.write_text('{"prompt": "Hello"}\n{"prompt": "Again"}\n', encoding="utf-8-sig")
    report = answer("interactions", "import-file", str(file), db=db)
    assert (report["captured"], report["errors"]) == (2, [])


def test_a_file_with_bad_lines_is_a_failure_that_keeps_the_good_ones(db: str, tmp_path: Path) -> None:
    lines = tmp_path / "turns.jsonl"
    lines.write_text('{"prompt": "hello"}\nnonsense\n', encoding="utf-8")
    result = run("interactions", "import-file", str(lines), db=db)
    assert result.exit_code == 1 and "1 captured" in result.stdout and "1 bad" in result.stdout
    assert len(answer("interactions", "list", db=db)) == 1


def test_a_byte_order_mark_is_no_part_of_a_text(db: str, tmp_path: Path) -> None:
    assert answer("remember", "-", db=db, stdin=b"\xef\xbb\xbfTea.\n")["content"] == "Tea."
    said = tmp_path / "said.json"
    said.write_bytes(b'\xef\xbb\xbf[{"role": "user", "content": "one"}]')
    assert answer("session", "reconcile", "talk", str(said), db=db)["appended"] == 1


def test_a_tilde_is_the_home_of_whoever_asks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    move_home(monkeypatch, tmp_path)
    assert run("remember", "Home.", "--db", "~/own.db").exit_code == 0
    assert (tmp_path / "own.db").exists()
    assert run("backup", "~/copy.db", "--db", "~/own.db").exit_code == 0
    assert (tmp_path / "copy.db").exists()
    (tmp_path / "notes.md").write_text("# Notes\n\nBread.\n", encoding="utf-8")
    assert answer("documents", "add", "~/notes.md", db=str(tmp_path / "own.db"))["errors"] == []


def test_certificates_are_printed_or_kept(db: str, tmp_path: Path) -> None:
    id = answer("remember", "Ada's number is 12.", db=db)["id"]
    backup = tmp_path / "backup.db"
    assert run("backup", str(backup), db=db).exit_code == 0
    assert run("erase", id, "--yes", db=db).exit_code == 0
    printed = run("erasures", "certificates", "-", db=db).stdout
    kept = tmp_path / "certificates.jsonl"
    assert answer("erasures", "certificates", str(kept), db=db)["certificates"] == 1
    assert kept.read_text(encoding="utf-8") == printed
    again = str(tmp_path / "again.db")
    assert answer("recover", str(backup), "--certificates", str(kept), db=again)["certificates"] == 1
    assert run("memories", "get", id, "--json", db=again).stdout.count("Ada's number") == 0


# --- an erasure asks -------------------------------------------------------------------------------------------------


def erase(db: str, *words: str, said: str | None, monkeypatch: pytest.MonkeyPatch) -> Result:
    """As at a terminal where somebody says this."""
    monkeypatch.setattr("ledger.cli.asking.is_at_a_terminal", lambda: said is not None)
    return run("erase", *words, db=db, stdin=said)


def test_an_erasure_asks_first_and_takes_only_yes(db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    id = answer("remember", "Ada's number is 12.", db=db)["id"]
    refused = erase(db, id, said="\n", monkeypatch=monkeypatch)
    assert refused.exit_code == 1 and "Ada's number is 12." in refused.stdout and "nothing was erased" in refused.stderr
    assert answer("memories", "get", id, db=db)["content"] == "Ada's number is 12."
    assert erase(db, id, said="yes\n", monkeypatch=monkeypatch).exit_code == 0
    assert answer("memories", "get", id, db=db)["content"] is None


def test_without_a_terminal_an_erasure_needs_to_be_meant(db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    id = answer("remember", "Ada's number is 12.", db=db)["id"]
    refused = erase(db, id, said=None, monkeypatch=monkeypatch)
    assert refused.exit_code == 4 and "--yes" in refused.stderr
    assert erase(db, id, "--dry-run", said=None, monkeypatch=monkeypatch).exit_code == 0
    assert answer("memories", "get", id, db=db)["content"] is not None
    assert erase(db, id, "--yes", said=None, monkeypatch=monkeypatch).exit_code == 0


@pytest.mark.parametrize("option", ["", "--yes"])
def test_an_erasure_of_an_unknown_id_says_first_that_it_is_unknown(
    option: str, db: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("remember", "x", db=db)
    for words, advice in (
        (("m_0000000000000000",), "no memory of this user has the id 'm_0000000000000000'"),
        (("--project", "harbour"), "no project of this user is called 'harbour'"),
    ):
        refused = erase(db, *words, *filter(None, [option]), said=None, monkeypatch=monkeypatch)
        assert refused.exit_code == 3 and advice in refused.stderr and "--yes" not in refused.stderr


def test_an_erasure_says_first_what_it_takes_and_last_what_stays(db: str) -> None:
    run("projects", "add", "harbour", db=db)
    run(
        "capture", "Where does Ruth live?", "Ruth lives at 3 Hafen.", "--session", "chat", "--project", "harbour", db=db
    )
    run("capture", "Where is that?", "Ruth lives at 3 Hafen.", "--session", "chat", db=db)
    words = ("erase", "--project", "harbour", "--quotes", "keep")
    lines = run(*words, "--dry-run", db=db).stdout.splitlines()
    assert lines[0].startswith("dry run: erasing project p_") and any("--actor" in each for each in lines)
    assert "erased  2 events of 1 project, 1 interaction" in [each.rstrip() for each in lines]
    shown = "\n".join(lines)
    assert shown.index("2 events") < shown.index("Where does Ruth live? | Ruth lives") < shown.index("What stays (2")
    assert "[[Ruth lives at 3 Hafen.]]" in shown.partition("What stays")[2]
    done = run(*words, "--yes", "--actor", "paula", db=db).stdout
    assert "is erased by" in done.splitlines()[0] and "--actor" not in done
    assert "Where does Ruth live? |" not in done and "takes the name alone" in done


@pytest.mark.parametrize("words", [[], ["m_1", "--everything"], ["--project", "a", "--session", "b"]], ids=" ".join)
def test_an_erasure_and_a_hold_name_one_thing(words: list[str], db: str) -> None:
    run("remember", "x", db=db)
    assert run("erase", *words, "--yes", db=db).exit_code == 2
    assert run("holds", "add", *words, db=db).exit_code == 2


@pytest.mark.parametrize("words", [("erase", "everything", "--yes"), ("holds", "add", "everything")], ids=" ".join)
def test_a_whole_user_is_erased_or_held_only_with_everything(words: tuple[str, ...], db: str) -> None:
    run("remember", "x", db=db)
    refused = run(*words, db=db)
    assert refused.exit_code == 3 and "--everything" in refused.stderr
    assert len(answer("memories", "list", db=db)) == 1 and answer("holds", "list", db=db) == []


def test_spans_of_the_text_of_an_event_can_be_erased(db: str) -> None:
    turn = answer("capture", "My number is 12345, and I like tea.", db=db)
    words = (str(turn["position"]), "--spans", "data.prompt:13:18", "--yes")
    assert run("erase", *words, db=db).exit_code == 0
    assert "12345" not in answer("interactions", "get", turn["id"], db=db)["prompt"]
    assert run("erase", turn["id"], "--spans", "data.prompt:0:1", "--yes", db=db).exit_code == 4
    assert run("erase", str(turn["position"]), "--spans", "prompt", "--yes", db=db).exit_code == 4


# --- values ----------------------------------------------------------------------------------------------------------


def test_arguments_that_are_objects_in_python_have_a_form_in_the_shell(db: str) -> None:
    words = ("--relations", '["Ana", "works_at", "Acme"]', "--actor", "crawler")
    id = answer("remember", "Ana took a job.", *words, db=db)["id"]
    assert answer("memories", "get", id, db=db)["relations"][0]["object"] == "Acme"
    lost = answer("history", "what-if", "--without", "actor=crawler", db=db)["lost"]
    assert [each["id"] for each in lost] == [id]
    assert answer("history", "what-if", "--without", '{"actor": "crawler"}', db=db)["lost"] == lost
    assert answer("history", "what-if", "--policy", '{"gain": 0.5}', db=db)["changed"] == []
    assert run("history", "what-if", "--policy", "gain=1", db=db).exit_code == 2
    position = str(answer("memories", "get", id, db=db)["position"])
    assert answer("history", "what-if", "--without", position, db=db)["lost"] != []


def test_a_text_may_begin_like_an_option(db: str) -> None:
    for text in ("- a list item", "-5 degrees and falling", "--json is an option"):
        assert answer("remember", text, db=db)["content"] == text
    assert answer("capture", "- one", "- two", db=db)["response"] == "- two"
    assert run("remember", "--jsn", db=db).exit_code == 2


def test_a_proof_is_checked_without_a_ledger(db: str, tmp_path: Path) -> None:
    run("remember", "Tea.", db=db)
    checkpoint, proof = tmp_path / "checkpoint", tmp_path / "proof"
    checkpoint.write_text(run("proof", "checkpoint", db=db).stdout, encoding="utf-8")
    proof.write_text(run("proof", "prove", "2", "--against", str(checkpoint), db=db).stdout, encoding="utf-8")
    good = run("proof", "check", str(proof), str(checkpoint), db=str(tmp_path / "none.db"))
    assert good.exit_code == 0, good.output
    proof.write_text(proof.read_text(encoding="utf-8").replace('"position": 2', '"position": 1'), encoding="utf-8")
    assert run("proof", "check", str(proof), str(checkpoint)).exit_code in (1, 4)


def test_what_is_consolidated_is_named_or_not(db: str) -> None:
    id = answer("remember", "Tea.", db=db)["id"]
    for words in ((), ("interactions",), (id,)):
        assert run("consolidate", *words, "--dry-run", db=db).exit_code == 0, words


@pytest.mark.parametrize("words", [["memories"], ["session"], ["session", "summaries"], []], ids=" ".join)
def test_a_namespace_alone_shows_its_commands_and_is_no_command(words: list[str]) -> None:
    result = run(*words)
    assert result.exit_code == 2 and "Usage: memory-ledger" in result.stdout
    assert run(*words, "--help").exit_code == 0


def test_quiet_prints_ids_of_what_a_report_lists(db: str) -> None:
    turn = answer("capture", "I moved to Porto last week.", "Decision: the office is in Porto", db=db)["id"]
    found = run("extract", turn, "-q", db=db).stdout.split()
    assert found and all(each.startswith("m_") for each in found)
    id = answer("remember", "Ana works.", "--relations", '["Ana", "works_at", "Acme"]', db=db)["id"]
    assert run("graph", "neighbors", "Ana", "-q", db=db).stdout.split() == [id]
    assert run("consolidate", "-q", db=db).exit_code == 0


def test_every_status_is_asked_for_with_all(db: str) -> None:
    id = answer("remember", "Tea.", db=db)["id"]
    run("retract", id, db=db)
    assert answer("memories", "list", db=db) == []
    assert [each["id"] for each in answer("memories", "list", "--statuses", "all", db=db)] == [id]


def test_a_list_says_how_to_go_on(db: str) -> None:
    with Ledger.open(db) as ledger:
        for number in range(5):
            ledger.remember(f"Fact {number}.")
    first = run("memories", "list", "--limit", "2", "-q", db=db)
    assert first.stdout.count("\n") == 2 and first.stderr == ""
    told = run("memories", "list", "--limit", "2", db=db).stderr
    cursor = re.fullmatch(r"memory-ledger: there are more: --after (\S+), or --all\n", told)
    assert cursor is not None
    page = json.loads(run("memories", "list", "--limit", "2", "--json", db=db).stdout)
    assert page["next"] == cursor[1] and len(page["items"]) == 2
    assert len(answer("memories", "list", "--limit", "2", "--all", db=db)) == 5


# --- help in the shell -----------------------------------------------------------------------------------------------


def completed(*words: str, db: str) -> list[str]:
    """What a shell would offer for the last of these words."""
    lines = run("__complete", *words, environment={"LEDGER_PATH": db}).stdout.partition("\x1fbegin\n")[2]
    return [line.partition("\t")[0] for line in lines.splitlines()]


def test_a_tab_offers_ids_kinds_projects_and_sessions(db: str) -> None:
    id = answer("remember", "Tea.", "--kind", "preference", "--project", "shop", db=db)["id"]
    run("session", "append", "chat", "user", "Hello.", db=db)
    assert id in completed("memories", "get", "", db=db)
    assert completed("memories", "list", "--kinds", "", db=db) == ["preference"]
    assert completed("remember", "x", "--project", "", db=db) == ["shop"]
    assert completed("session", "messages", "", db=db) == ["chat"]


def test_a_tab_without_a_ledger_offers_nothing_and_makes_none(db: str) -> None:
    assert completed("memories", "get", "", db=db) == []
    assert not Path(db).exists()


@pytest.mark.slow
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_command_installs_a_script_that_knows_the_commands(
    shell: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    move_home(monkeypatch, tmp_path)
    refused = run("completion", shell)
    assert refused.exit_code == 4 and "needs --yes" in refused.stderr and list(tmp_path.iterdir()) == []
    result = run("completion", shell, "--yes")
    assert result.exit_code == 0, result.output
    scripts = [each for each in tmp_path.rglob("*") if each.is_file() and "memories" in each.read_text("utf-8")]
    assert scripts, "the script knows the commands"


def test_the_list_of_pages_begins_with_those_of_the_readme_and_says_what_each_is_about() -> None:
    listed = answer("docs", db="x")
    section = (ROOT / "README.md").read_text(encoding="utf-8").partition("## Documentation")[2].partition("\n## ")[0]
    named = list(dict.fromkeys(re.findall(r"\(ledger/docs/([\w-]+)\.md\)", section)))
    assert [each["page"] for each in listed[:10]] == named[:10]
    assert {each["page"]: each["about"] for each in listed}["undo"].startswith("Take back a command")
    assert [each for each in listed if re.match("After this|Look up|[a-z]", each["about"])] == []
    assert [each for each in listed if "](" in each["about"]] == [], "a link says nothing in a shell"


def test_the_documentation_is_at_hand() -> None:
    pages = {each["page"]: each["about"] for each in answer("docs", db="x")}
    assert {"tutorial", "recall", "sessions"} <= pages.keys() and all(pages.values())
    assert run("docs", "recall").stdout.startswith("# ")
    assert Path(run("docs", "recall", "--path").stdout.strip()).name == "recall.md"
    assert any(each["page"] == "recall" for each in answer("docs", "--words", "budget", db="x"))
    assert {each["page"] for each in answer("docs", "recall", "--words", "budget", db="x")} == {"recall"}
    missing = run("docs", "chatlop")
    assert missing.exit_code == 3 and "did you mean chat-loop" in missing.stderr


def test_a_part_of_a_page_that_is_asked_for_as_a_page_is_found() -> None:
    missing = run("docs", "replay")
    assert missing.exit_code == 3 and "the page testing has a part with this name" in missing.stderr


def test_what_people_try_first_is_answered_with_a_hint(db: str) -> None:
    for words, hint in (
        (["help"], "--help"),
        (["version"], "--version"),
        (["remember", "two", "words"], "quotes"),
        (["doctor", "chat.db"], "--db"),
        (["memories", "--limit", "3"], "memories COMMAND --limit"),
    ):
        result = run(*words, db=db)
        assert result.exit_code == 2 and hint in result.stderr, result.stderr


def test_a_completion_script_is_printed_without_installing(tmp_path: Path) -> None:
    result = run("completion", "bash", "--script", environment={"HOME": str(tmp_path)})
    assert result.exit_code == 0 and "memories" in result.stdout and list(tmp_path.iterdir()) == []


# --- what newcomers did not see --------------------------------------------------------------------------------------


def test_a_user_with_nothing_hears_whose_memories_this_file_has(db: str) -> None:
    for user in ("ana", "bo"):
        run("remember", "Tea is in the tin.", "--user", user, db=db)
    run("capture", "Hello?", "--user", "cy", db=db)
    for words in (("memories", "list"), ("interactions", "list"), ("recall", "tea"), ("memories", "list", "--json")):
        assert "nothing for user ''; this file has memories of: 'ana', 'bo' (--user)" in run(*words, db=db).stderr
    for words in (("recall", "zebra", "--user", "ana"), ("interactions", "list", "--user", "bo"), ("holds", "list")):
        assert ("this file has" in run(*words, db=db).stderr) == (words == ("holds", "list"))
    counted = run("maintenance", "stats", db=db).stderr
    assert "nothing for user ''; this file has memories or turns of: 'ana', 'bo', 'cy' (--user)" in counted
    assert "this file has" not in run("maintenance", "stats", "--user", "cy", db=db).stderr
    assert "this file has" not in run("erasures", "list", db=db).stderr
    assert "this file has" not in run("memories", "list", "--quiet", db=db).stderr


def test_an_import_says_whose_turns_it_did_not_count(db: str, tmp_path: Path) -> None:
    for word in ("one", "two", "three"):
        run("capture", word, "--user", "cy", db=db)
    log, copy = str(tmp_path / "log.jsonl"), str(tmp_path / "copy.db")
    run("export-log", log, db=db)
    assert "this file has memories or turns of: 'cy'" in run("import-log", log, db=copy).stderr
    other = run("import-log", log, "--user", "cy", db=tmp_path / "other.db")
    assert re.search(r"interactions +3\b", other.stdout) and other.stderr == ""


def test_why_says_the_reason_of_a_successor(db: str) -> None:
    first = answer("remember", "The vault is in Geneva.", db=db)["id"]
    second = answer("supersede", first, "The vault is in Zurich.", "--reason", "a letter", db=db)["id"]
    run("reinforce", second, db=db)
    shown = run("why", second, db=db).stdout
    assert shown.count("“a letter”") == 1
    assert "MemoryReinforced at the cap, no change" in shown
    assert "MemoryReinforced at the cap, no change" in run("memories", "confidence", second, db=db).stdout


def test_a_page_in_a_terminal_wraps_no_line_of_code(capsys: pytest.CaptureFixture[str]) -> None:
    code = "ledger.remember('a line of code that is longer than any terminal that somebody could have') " * 3
    manual.show(f"# Page\n\n```python\n{code}\n\nmore = 1\n```\n\n{'prose ' * 100}\n")
    lines = capsys.readouterr().out.splitlines()
    assert code.rstrip() in [each.rstrip() for each in lines]
    assert max(len(each) for each in lines if "prose" in each) <= 100


def test_review_shows_what_a_turn_contradicts(db: str) -> None:
    answer("remember", "The user prefers dark roast coffee.", "--kind", "preference", db=db)
    turn = answer("capture", "Coffee?", "Noted: you no longer prefer dark roast coffee.", db=db)
    assert f"contradicted by turn {turn['id']}" in " ".join(run("review", db=db).stdout.split())


def test_a_bar_for_long_work_is_drawn_with_its_first_step_and_not_while_somebody_is_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with output.progress_bar("erase", quiet=False) as step:
        assert step is not None and terminal.getvalue() == ""
        step(1, 2)
        assert terminal.getvalue() != ""


def test_the_audit_trail_shows_what_was_recorded_and_why(db: str) -> None:
    fact = answer("remember", "The user lives in Lisbon.", "--actor", "ann", "--client", "desk", db=db)
    run("retract", fact["id"], "--reason", "she moved", "--actor", "bob", db=db)
    shown = " ".join(run("history", "audit", db=db).stdout.split())
    assert "“The user lives in Lisbon.” · remember · by ann · via desk" in shown
    assert "retract · by bob · via cli · “she moved”" in shown


# --- words that people type first ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "command"),
    [
        ("audit", "the command is memory-ledger history audit"),
        ("what-if", "the command is memory-ledger history what-if"),
        ("diff", "the command is memory-ledger history diff"),
        ("stats", "the command is memory-ledger maintenance stats"),
        ("compact", "the command is memory-ledger session compact"),
        ("restate", 'Unknown command "restate"'),
        ("at", "--as-of behind a command"),
        ("search", "memory-ledger recall QUESTION"),
        ("list", "memory-ledger memories list"),
        ("get", "memory-ledger memories get ID"),
        ("update", "memory-ledger supersede"),
        ("delete", "memory-ledger retract takes a memory out of use, memory-ledger erase"),
        ("log", "memory-ledger history audit"),
        ("serach", "memory-ledger recall QUESTION"),
        ("delet", "memory-ledger retract takes a memory out of use"),
        ("remembr", 'Did you mean "remember"?'),
        ("sessoin", 'Did you mean "session"?'),
        ("summaries", "memory-ledger session summaries list NAME"),
        ("policy show", "the command is memory-ledger policy get"),
        ("session tuesday", "the command stands before the name, as in memory-ledger session messages tuesday"),
        ("session mesages", 'Did you mean "messages"?'),
        ("interactions import", "the command is memory-ledger import"),
        ("memories add", "memory-ledger remember CONTENT"),
        ("session search", "memory-ledger session grep NAME PATTERN"),
        ("sessions search", "memory-ledger sessions grep PATTERN"),
        ("documents foo", 'Unknown command "foo"'),
    ],
)
def test_an_unknown_command_is_answered_with_the_similar_command(db: str, word: str, command: str) -> None:
    result = run(*word.split(), "tea", db=db)
    assert (result.exit_code, result.stdout) == (2, "") and command in result.stderr


def test_every_command_that_a_hint_names_is_there() -> None:
    named = [
        words.split() for text in other_words.MEANT.values() for words in re.findall(r"memory-ledger ([a-z -]+)", text)
    ]
    assert len(named) > 10
    for words in named:
        name = words[:2] if words[0] in derive.AREAS else words[:1]
        assert run(*name, "--help").exit_code == 0, name


@pytest.mark.parametrize(
    "command", [("context", "What about tea?"), ("recall", "tea"), ("profile",), ("projects", "context")]
)
def test_prompt_prints_the_literal_text_that_python_gives(db: str, command: tuple[str, ...]) -> None:
    with Ledger.open(db) as ledger:
        ledger.remember("The user likes <b>tea</b> [red].", kind="preference")
        ledger.remember("The machine has tea in it.", kind="env")
        calls = {
            "context": lambda: ledger.context("What about tea?"),
            "recall": lambda: ledger.recall("tea"),
            "profile": ledger.profile,
            "projects": ledger.projects.context,
        }
        text = calls[command[0]]().as_text()
    assert "```memory" in text
    assert run(*command, "--prompt", db=db).stdout.rstrip("\n") == text
    assert answer(*command, "--prompt", db=db) == answer(*command, db=db)["text"] == text


def test_a_word_that_may_be_a_slip_for_a_kind_is_told_on_stderr(db: str) -> None:
    done = run("remember", "Answer in metric units.", "--kind", "rul", db=db)
    assert done.exit_code == 0 and "rul" in done.stdout
    assert "the kind 'rul' is kept as a word of your own; known: identity" in done.stderr
    assert run("remember", "Answer in Celsius.", "--kind", "rule", db=db).stderr == ""
    assert run("remember", "Answer in euros.", "--kind", "rul", "--quiet", db=db).stderr == ""
