"""``session …`` on the command line: every command answers people and programs, and refuses with one line and its code."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path
from typing import Any

import pytest
from command_line import answer, run
from hostile import EVIL, RAW
from old_names import Ledger
from places import ROOT

from ledger import Session
from ledger.cli import session_showing
from ledger.domain.compaction import SKIPS

COMMAND_OF = {
    "messages": "show", "message": "show", "info": "show", "window": "dag", "items": "dag", "add_alias": "alias",
    "replace": "reconcile", "set_abstract": "summary", "skip_extraction": "seed-extraction",
}  # fmt: skip
BY_OPTIONS = {"bind"}
PROPERTIES = {"id", "name", "user", "writer", "summarizer"}


@pytest.fixture
def db(tmp_path: Path) -> str:
    """A ledger with one session of fifty messages, ``chat``."""
    path = str(tmp_path / "memory.db")
    with Ledger.open(path) as ledger:
        session = ledger.session("chat")
        with ledger.batch():
            for number in range(25):
                at = f"2026-03-01T10:{number:02d}:00Z"
                session.append("user", f"Where is ship {number}? " + "Please say. " * 20, created_at=at)
                session.append("assistant", f"Ship {number} is in the harbour. " + "So it is. " * 20, created_at=at)
    return path


def session(*arguments: str, db: str, **more: Any) -> Any:
    return answer("session", *arguments, db=db, **more)


def shown(*arguments: str, db: str, **more: Any) -> str:
    result = run("session", *arguments, db=db, **more)
    assert result.exit_code == 0, result.output
    return result.stdout


# --- every command ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_every_verb_of_a_session_is_a_command() -> None:
    verbs = {
        name for name, _ in inspect.getmembers(Session, inspect.isroutine) if not name.startswith("_")
    } - BY_OPTIONS
    for verb in sorted(verbs):
        result = run("session", COMMAND_OF.get(verb, verb), "--help")
        assert result.exit_code == 0 and "--json" in result.stdout, verb


def test_every_view_of_a_session_command_exists() -> None:
    source = (ROOT / "ledger" / "cli" / "sessions.py").read_text(encoding="utf-8")
    named = set(re.findall(r'add\(\w+, "(\w+)"', source))
    assert len(named) > 8 and all(callable(getattr(session_showing, name)) for name in named)


def test_every_code_of_a_skip_is_told_in_words() -> None:
    from ledger.sessions.answers import CompactionSkip

    told = set(re.findall(r'"(\w+)"', CompactionSkip.__doc__ or ""))
    assert told and told | set(SKIPS) <= set(session_showing.SKIPPED)


def test_a_conversation_is_appended_shown_and_listed(tmp_path: Path) -> None:
    db = str(tmp_path / "new.db")
    told = ("--created-at", "2026-03-01T10:00:00Z", "--tokens", "7", "--model", "m-1", "--project", "shop")
    first = session("append", "talk", "user", "Which coffee?", *told, db=db)
    assert (first["role"], first["tokens"], first["counter"], first["model"]) == ("user", 7, "given", "m-1")
    assert first["occurred_at"].startswith("2026-03-01T10:00:00")
    call = json.dumps({"type": "tool_use", "id": "c1", "name": "look", "arguments": {"in": "shelf"}})
    assert session("append", "talk", "assistant", "--part", call, db=db)["parts"][0]["name"] == "look"
    result = json.dumps({"type": "tool_result", "id": "c1", "text": "dark"})
    session("append", "talk", "tool", "--part", result, db=db)
    session("append", "talk", "assistant", "-", db=db, stdin="The dark\none.\n")
    found = session("show", "talk", db=db)
    assert [each["role"] for each in found["messages"]] == ["user", "assistant", "tool", "assistant"]
    assert found["messages"][-1]["content"] == "The dark\none." and found["summaries"] is None
    assert session("list", db=db)[0]["project"] == "shop"
    people = shown("show", "talk", db=db)
    assert "[tool_use: look" in people and "[tool_result for c1: dark]" in people
    assert "The dark\none." in shown("show", "talk", "--text", db=db)


def test_a_key_makes_an_append_idempotent(db: str) -> None:
    first, again = (run("session", "append", "chat", "user", "Once.", "--key", "k", db=db) for _ in range(2))
    assert "key" in again.stderr and not first.stderr
    assert session("show", "chat", db=db)["session"]["messages"] == 51


def test_show_pages_back(db: str) -> None:
    last = session("show", "chat", "--limit", "2", db=db)["messages"]
    before = session("show", "chat", "-n", "2", "--before", str(last[0]["position"]), db=db)["messages"]
    assert before[-1]["position"] < last[0]["position"] and len(before) == 2
    assert "48 messages not shown: --limit, --before" in shown("show", "chat", "-n", "2", db=db)


def test_what_is_kept_out_is_said_to_be(tmp_path: Path) -> None:
    db = str(tmp_path / "new.db")
    assert "not stored: a pattern keeps this session out" in shown("append", "heartbeat", "user", "tick", db=db)
    thought = '{"type": "reasoning", "text": "hm"}'
    assert "reasoning, which is not stored" in shown("append", "talk", "assistant", "--part", thought, db=db)
    assert shown("append", "heartbeat", "user", "tick", "-q", db=db) == ""


# --- within a window -------------------------------------------------------------------------------------------------


def test_a_compaction_says_what_it_made_and_that_no_model_wrote_it(db: str) -> None:
    report = session("compact", "chat", "--budget", "2000", db=db)
    assert report["created"] and report["tokens_after"] < report["tokens_before"]
    assert {each["level"] for each in report["created"]} == {"fallback"}
    again = shown("compact", "chat", db=db)
    assert "nothing was compacted" in again and "no leaf summary" in again
    text = shown("compact", "chat", "--budget", "700", "--until-under", db=db)
    assert "FALLBACK, no summary: cut off" in text and "written without a model" in " ".join(text.split())
    assert "within 700" in text or "over 700" in text
    assert run("session", "compact", "chat", "--until-under", db=db).exit_code == 2


def test_a_window_is_assembled_recorded_and_reopened(db: str) -> None:
    session("compact", "chat", db=db)
    answer("remember", "The user likes ships.", db=db)
    window = session("assemble", "chat", "3000", "--query", "ships", "--share", "0.1", "--record", db=db)
    assert window["pack"]["items"] and window["used"] <= 3000
    assert session("reopen", "chat", window["receipt"], db=db)["entries"] == window["entries"]
    assert shown("assemble", "chat", "3000", "--record", "-q", db=db).count("\n") == 1, "a receipt"
    text = shown("assemble", "chat", "500", db=db)
    assert re.search(r"^assistant +\d+ 2026-03-01 10:24 Ship 24 is in the harbour\.", text, re.M)
    assert "of 500 tokens" in text and "left out:" in text and "tail_trimmed: the fresh tail" in text
    assert "; over budget" in shown("assemble", "chat", "10", db=db)
    assert all(len(line) <= 80 for line in text.splitlines())


def test_assembling_records_nothing_unless_asked_to(db: str) -> None:
    before = Path(db).read_bytes()
    shown("assemble", "chat", "500", db=db)
    assert Path(db).read_bytes() == before


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_a_window_for_a_provider_is_its_messages_as_json(provider: str, db: str) -> None:
    with Ledger.open(db) as ledger:
        ledger.session("chat").append("system", "Be brief.")
        wanted = ledger.session("chat").assemble(900).render(provider)
    found = json.loads(shown("assemble", "chat", "900", "--provider", provider, db=db))
    assert found["messages"] == wanted.messages and found.get("system", "") == wanted.system
    assert session("assemble", "chat", "900", "--provider", provider, db=db)["summaries"] == wanted.summaries
    assert run("session", "assemble", "chat", "900", "--provider", "odd", db=db).exit_code == 4


def test_a_summary_goes_and_comes_back(db: str) -> None:
    (made,) = session("compact", "chat", db=db)["created"]
    gone = session("invalidate", "chat", made["id"], "--subtree", "--reason", "wrong", db=db)
    assert gone["invalidated"] == [made["id"]]
    assert session("show", "chat", "--summaries", db=db)["summaries"][0]["status"] == "invalid"
    assert made["id"] not in shown("dag", "chat", db=db) and made["id"] in shown("dag", "chat", "--all", db=db)
    assert session("restore", "chat", made["id"], db=db)["status"] == "window"
    assert "out of use" in shown("invalidate", "chat", made["id"], db=db)
    assert made["id"] in shown("restore", "chat", made["id"], db=db)


def test_the_picture_in_three_forms(db: str) -> None:
    (made,) = session("compact", "chat", db=db)["created"]
    picture = session("dag", "chat", db=db)
    assert picture["window"][0]["id"] == made["id"] and picture["window"][1]["messages"] == 32
    assert "FALLBACK, no summary" in shown("dag", "chat", db=db) and "32 messages" in shown("dag", "chat", db=db)
    assert shown("dag", "chat", "--format", "mermaid", db=db).startswith("flowchart LR\n")
    assert shown("dag", "chat", "-f", "dot", db=db).startswith("digraph session {\n")
    assert run("session", "dag", "chat", "-f", "svg", db=db).exit_code == 4


# --- search ----------------------------------------------------------------------------------------------------------


def test_grep_and_expand(db: str) -> None:
    (made,) = session("compact", "chat", db=db)["created"]
    found = session("grep", "chat", '"ship 3" harbour', "--role", "assistant", db=db)
    assert [each["role"] for each in found["hits"]] == ["assistant"]
    position = str(found["hits"][0]["position"])
    text = shown("grep", "chat", '"ship 3" harbour', "--scope", "message", db=db)
    assert "Ship 3 is in the harbour" in text and "1 found" in text
    assert shown("grep", "chat", '"ship 3" harbour', "--scope", "message", "-q", db=db) == position + "\n"
    assert shown("grep", "chat", "zebra", db=db).startswith("nothing found, ")
    assert run("session", "grep", "chat", "zebra OR", db=db).exit_code == 4
    whole = session("expand", "chat", made["id"], db=db)
    assert len(whole["messages"]) == made["messages"] and whole["rest"] == []
    few = shown("expand", "chat", made["id"], "--max-tokens", "200", db=db)
    assert "left: #" in few and re.search(r"expand \d+-\d+", few)
    one = shown("expand", "chat", f"#{position}", "999999", db=db)
    assert "Ship 3 is in the harbour." in one and "not in this session: 999999" in one
    assert run("session", "expand", "chat", "y_none", db=db).exit_code == 3


def test_grep_looks_elsewhere_only_where_asked_to(db: str) -> None:
    session("append", "other", "user", "A zebra!", db=db)
    assert session("grep", "chat", "zebra", db=db)["total"] == 0
    assert "ask with --everywhere" in shown("grep", "chat", "zebra", db=db)
    run("session", "truncate", "other", "0", db=db)
    assert "--hidden" in shown("grep", "other", "zebra", db=db)
    assert session("grep", "chat", "zebra", "--everywhere", "--hidden", db=db)["hits"][0]["session"] == "other"


# --- say more, or less -----------------------------------------------------------------------------------------------


def test_a_transcript_is_appended_and_replaces_from_where_it_differs(tmp_path: Path) -> None:
    db, file = str(tmp_path / "new.db"), tmp_path / "said.json"
    said = [{"role": "user", "content": "one"}, {"role": "assistant", "content": "two"}]
    file.write_text(json.dumps(said), encoding="utf-8")
    assert session("reconcile", "talk", str(file), db=db)["appended"] == 2
    lines = "".join(json.dumps(each) + "\n" for each in [*said, {"role": "user", "content": "three\u2028"}])
    assert shown("reconcile", "talk", "-", db=db, stdin=lines) == "2 kept, 1 appended\n"
    assert shown("reconcile", "talk", "-", db=db, stdin=lines) == "nothing to do: 3 kept\n"
    change = session("reconcile", "talk", "-", "--replace", db=db, stdin=json.dumps(said[:1]))
    assert (change["kept"], change["hidden"]) == (1, 2)
    hidden = session("show", "talk", "--hidden", db=db)["messages"]
    assert [each["hidden"] for each in hidden] == ["", "replace", "replace"]
    assert "hidden by replace" in shown("show", "talk", "--hidden", db=db)


def test_truncate_and_clear_hide_and_undo_brings_back(db: str) -> None:
    change = session("truncate", "chat", "4", db=db)
    assert (change["change"], change["hidden"]) == ("truncated", 46)
    assert len(session("show", "chat", db=db)["messages"]) == 4
    assert shown("clear", "chat", db=db) == "cleared: 4 hidden\n"
    then = session("show", "chat", "--as-of", str(change["position"]), db=db)
    assert len(then["messages"]) == 4
    answer("undo", str(change["position"]), db=db)
    assert session("show", "chat", db=db)["session"]["messages"] == 46, "clear still hides its four"


def test_alias_and_summary(db: str) -> None:
    assert session("alias", "chat", "talk", db=db)["aliases"] == ["talk"]
    assert session("show", "talk", db=db)["session"]["name"] == "chat"
    assert shown("summary", "chat", db=db) == "none is set\n"
    assert shown("summary", "chat", "-", db=db, stdin="About\nships.\n") == "About\nships.\n"
    assert session("summary", "talk", db=db) == "About\nships."
    assert "Summary, as it was set" in shown("show", "chat", db=db)
    assert session("summary", "chat", "", db=db) == ""


# --- what is refused -------------------------------------------------------------------------------------------------

ON_A_SESSION = (
    ["show"], ["dag"], ["assemble", "100"], ["reopen", "r"], ["compact"], ["grep", "x"], ["expand", "y_1"],
    ["truncate", "1"], ["clear"], ["alias", "other"], ["summary"], ["summary", "text"], ["invalidate", "y_1"],
    ["restore", "y_1"],
)  # fmt: skip


@pytest.mark.parametrize("command", ON_A_SESSION, ids=" ".join)
def test_an_unknown_session_is_not_found_and_not_made(command: list[str], db: str) -> None:
    result = run("session", command[0], "nowhere", *command[1:], db=db)
    assert (result.exit_code, result.stdout) == (3, "")
    assert "no session of this user is called 'nowhere'" in result.stderr and result.stderr.count("\n") == 1
    assert [each["name"] for each in session("list", db=db)] == ["chat"]


@pytest.mark.parametrize("command", ON_A_SESSION, ids=" ".join)
def test_a_command_on_a_session_makes_no_ledger(command: list[str], tmp_path: Path) -> None:
    assert run("session", command[0], "chat", *command[1:], db=str(tmp_path / "none.db")).exit_code == 3
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["assemble", "chat", "0"], 4),
        (["assemble", "chat", "-5"], 2),
        (["assemble", "chat", "many"], 2),
        (["assemble", "chat", "9", "--share", "1"], 4),
        (["assemble", "chat", "9", "--tail", "0"], 4),
        (["compact", "chat", "--budget", "0"], 4),
        (["compact", "chat", "--until-under"], 2),
        (["append", "chat", "robot", "hello"], 4),
        (["append", "chat", "user", "  "], 4),
        (["append", " ", "user", "hello"], 4),
        (["append", "chat", "tool", "no call"], 4),
        (["append", "chat", "user", "--part", '{"type":'], 2),
        (["append", "chat", "user", "--part", "[]"], 4),
        (["append", "chat", "user", "--part", '{"type": "odd"}'], 4),
        (["append", "chat", "user", "x", "--tokens", "-1"], 4),
        (["append", "chat", "user", "x", "--created-at", "soon"], 4),
        (["truncate", "chat", "some"], 2),
        (["reopen", "chat", "nothing"], 3),
        (["invalidate", "chat", "y_none"], 3),
        (["restore", "chat", "y_none"], 3),
        (["expand", "chat", "y_none"], 3),
        (["grep", "chat", ""], 4),
        (["grep", "chat", "x", "--last", "soon"], 4),
        (["grep", "chat", "x", "--scope", "odd"], 4),
        (["reconcile", "chat", "nowhere.json"], 3),
        (["show", "chat", "--as-of", "99999999"], 4),
        (["summary", "chat", "text", "--as-of", "5"], 4),
    ],
)
def test_bad_input_gets_its_code_and_changes_nothing(arguments: list[str], code: int, db: str) -> None:
    before = len(answer("audit", "-n", "500", db=db))  # type: ignore[arg-type]
    result = run("session", *arguments, db=db)
    assert (result.exit_code, result.stdout) == (code, ""), result.output
    assert result.stderr.startswith("memory-ledger: ") == (code != 2)
    assert len(answer("audit", "-n", "500", db=db)) == before  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "is blank"),
        (b'[{"role": "user"', "is no JSON"),
        (b'{"role": "user", "content": "x"}\nnonsense\n', "line 2 of"),
        (b"[" * 100_000, "nested too deep"),
        (b"\xff\xfe", "no UTF-8"),
        (b'{"role": "robot", "content": "x"}', "robot"),
        (b"[1]", "message 1"),
        (b"7", "message 1"),
    ],
)
def test_a_file_that_is_no_transcript_is_refused(content: bytes, why: str, db: str, tmp_path: Path) -> None:
    file = tmp_path / "said.json"
    file.write_bytes(content)
    for source, stdin in ((str(file), None), ("-", content)):
        result = run("session", "reconcile", "chat", source, db=db, stdin=stdin)
        assert result.exit_code == 4 and why in result.stderr and result.stderr.count("\n") == 1, result.output
    assert run("session", "reconcile", "chat", str(tmp_path), db=db).exit_code == 4, "a directory"
    assert session("show", "chat", db=db)["session"]["messages"] == 50


def test_an_empty_transcript_is_one_only_where_it_says_so(db: str) -> None:
    assert session("reconcile", "chat", "-", "--replace", db=db, stdin="[]")["hidden"] == 50


# --- what reaches the terminal ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_nothing_of_a_session_reaches_the_terminal_raw(tmp_path: Path) -> None:
    db = str(tmp_path / "evil.db")
    part = json.dumps({"type": "tool_use", "id": EVIL, "name": EVIL, "arguments": {EVIL: EVIL}})
    result = json.dumps({"type": "tool_result", "id": EVIL, "text": EVIL})
    media = json.dumps({"type": "media", "uri": EVIL, "mime": EVIL})
    told = [
        run("session", "append", EVIL, "user", EVIL, "--model", EVIL, "--part", media, "--project", EVIL, db=db),
        run("session", "append", EVIL, "assistant", EVIL, "--part", part, db=db),
        run("session", "append", EVIL, "tool", "--part", result, db=db),
    ]
    with Ledger.open(db) as ledger, ledger.batch():
        for number in range(50):
            ledger.session(EVIL).append("user", f"{number} {EVIL * 20}")
    told.append(run("session", "compact", EVIL, db=db))
    (made,) = session("show", EVIL, "--summaries", db=db)["summaries"]
    receipt = session("assemble", EVIL, "2000", "--record", db=db)["receipt"]
    commands = (
        ["list"], ["show", EVIL, "--summaries"], ["show", EVIL, "--text", "-n", "500"], ["dag", EVIL],
        ["dag", EVIL, "-f", "mermaid"], ["dag", EVIL, "-f", "dot"], ["assemble", EVIL, "90000", "--query", EVIL],
        ["assemble", EVIL, "2000", "--provider", "openai"], ["reopen", EVIL, receipt], ["grep", EVIL, "red"],
        ["expand", EVIL, made["id"]], ["summary", EVIL, EVIL], ["alias", EVIL, EVIL + "2"],
        ["invalidate", EVIL, made["id"], "--reason", EVIL], ["restore", EVIL, made["id"]], ["truncate", EVIL, "3"],
        ["show", EVIL + "x"], ["append", EVIL, EVIL, "x"], ["append", EVIL, "user", "--part", EVIL],
        ["grep", EVIL, f'"{EVIL}'], ["expand", EVIL, EVIL], ["reconcile", EVIL, EVIL],
    )  # fmt: skip
    told += [run("session", *each, db=db) for each in commands]
    for each in told:
        assert RAW.search(each.output) is None, each.output
    assert "\\x1b[31mred" in told[0].stdout and "[bold red]b[/] :smile:" in told[0].stdout


def test_json_has_the_very_text(tmp_path: Path) -> None:
    db = str(tmp_path / "evil.db")
    result = run("session", "append", "chat", "user", EVIL, "--json", db=db)
    assert json.loads(result.stdout)["content"] == EVIL and RAW.search(result.stdout) is None
    again = json.loads(shown("assemble", "chat", "900", "--provider", "openai", db=db))
    assert again["messages"][0]["content"] == EVIL


def test_quiet_prints_what_others_can_use(db: str) -> None:
    assert re.fullmatch(r"\d+\n", shown("append", "chat", "user", "More.", "-q", db=db))
    assert re.fullmatch(r"s_\w+\n", shown("list", "-q", db=db))
    assert shown("show", "chat", "-n", "2", "-q", db=db).count("\n") == 2
    assert re.fullmatch(r"(y_\w+\n)+", shown("compact", "chat", "-q", db=db))
    assert shown("truncate", "chat", "2", "-q", db=db).startswith("y_")


def test_what_was_said_is_extracted_and_a_branch_is_seeded(tmp_path: Path) -> None:
    path = str(tmp_path / "memory.db")
    with Ledger.open(path) as ledger:
        for name in ("talk", "branch"):
            ledger.session(name).append("user", "I prefer green tea over coffee.")
        id = ledger.session("talk").id
        at = ledger.session("branch").messages()[0].position
    found = session("extract", "talk", db=path)
    assert [each["content"] for each in found["kept"]] == ["The user prefers green tea over coffee"]
    assert session("seed-extraction", "branch", "--parent", "talk", db=path)["cursor"] == at
    assert answer("extract", id, db=path)["messages"] == answer("extract", "branch", db=path)["messages"] == 0
    assert answer("extract", "talk", "--since", "0", "--using", "rules", db=path)["dropped"][0]["reason"] == "duplicate"
    told = run("extract", "talk", db=path)
    assert told.exit_code == 0 and "0 messages looked at" in told.stdout
    assert "I prefer green tea" in run("why", found["kept"][0]["id"], db=path).stdout
