"""``session …`` on the command line: every command answers people and programs, and refuses with one line and its code."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from command_line import answer, run
from hostile import EVIL, RAW

from ledger import Ledger
from ledger.cli.views.sessions import SKIPPED
from ledger.sessions.rules.compaction import SKIPS


@pytest.fixture
def db(tmp_path: Path) -> str:
    """A ledger with one session of fifty messages, ``chat``."""
    path = str(tmp_path / "memory.db")
    with Ledger.open(path) as ledger:
        session = ledger.session("chat")
        with ledger.batch():
            for number in range(25):
                at = f"2026-03-01T10:{number:02d}:00Z"
                session.append("user", f"Where is ship {number}? " + "Please say. " * 20, occurred_at=at)
                session.append("assistant", f"Ship {number} is in the harbour. " + "So it is. " * 20, occurred_at=at)
    return path


def session(*arguments: str, db: str, **more: Any) -> Any:
    return answer("session", *arguments, db=db, **more)


def messages(name: str, *arguments: str, db: str) -> Any:
    return session("messages", name, *arguments, db=db)


def shown(*arguments: str, db: str, **more: Any) -> str:
    result = run("session", *arguments, db=db, **more)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_every_code_of_a_skip_is_told_in_words() -> None:
    from ledger.sessions.answers import CompactionSkip

    told = set(re.findall(r'"(\w+)"', CompactionSkip.__doc__ or ""))
    assert told and told | set(SKIPS) <= set(SKIPPED)


def test_a_conversation_is_appended_shown_and_listed(tmp_path: Path) -> None:
    db = str(tmp_path / "new.db")
    told = ("--occurred-at", "2026-03-01T10:00:00Z", "--token-count", "7", "--model", "m-1", "--project", "shop")
    first = session("append", "talk", "user", "Which coffee?", *told, db=db)
    assert (first["role"], first["tokens"], first["counter"], first["model"]) == ("user", 7, "given", "m-1")
    assert first["occurred_at"].startswith("2026-03-01T10:00:00")
    call = json.dumps({"type": "tool_use", "id": "c1", "name": "look", "arguments": {"in": "shelf"}})
    assert session("append", "talk", "assistant", "--parts", call, db=db)["parts"][0]["name"] == "look"
    result = json.dumps({"type": "tool_result", "id": "c1", "text": "dark"})
    session("append", "talk", "tool", "--parts", result, db=db)
    session("append", "talk", "assistant", "-", db=db, stdin="The dark\none.\n")
    found = messages("talk", db=db)
    assert [each["role"] for each in found] == ["user", "assistant", "tool", "assistant"]
    assert found[-1]["content"] == "The dark\none."
    assert answer("sessions", "list", db=db)[0]["project"] == "shop"
    people = shown("messages", "talk", db=db)
    assert "[tool_use: look" in people and "[tool_result for c1: dark]" in people
    assert "The dark" in shown("message", "talk", str(found[-1]["position"]), db=db)


def test_a_key_makes_an_append_idempotent(db: str) -> None:
    first, again = (
        run("session", "append", "chat", "user", "Once.", "--idempotency-key", "k", db=db) for _ in range(2)
    )
    assert "key" in again.stderr and not first.stderr
    assert session("info", "chat", db=db)["messages"] == 51


def test_messages_page_back(db: str) -> None:
    first = run("session", "messages", "chat", "--limit", "2", db=db)
    cursor = re.search(r"--after (\S+), or --all", first.stderr)
    assert cursor is not None
    last, before = (
        messages("chat", "--limit", "2", db=db),
        messages("chat", "--limit", "2", "--after", cursor[1], db=db),
    )
    assert len(before) == len(last) == 2 and {each["position"] for each in before}.isdisjoint(
        each["position"] for each in last
    )
    assert len(session("messages", "chat", "--all", db=db)) == 50


def test_the_shell_reports_messages_that_are_not_stored(tmp_path: Path) -> None:
    db = str(tmp_path / "new.db")
    assert "not stored: a pattern keeps this session out" in shown("append", "heartbeat", "user", "tick", db=db)
    thought = '{"type": "reasoning", "text": "hm"}'
    assert "reasoning, which is not stored" in shown("append", "talk", "assistant", "--parts", thought, db=db)
    assert shown("append", "heartbeat", "user", "tick", "-q", db=db) == ""


# --- within a window -------------------------------------------------------------------------------------------------


def test_a_compaction_says_what_it_made_and_that_no_model_wrote_it(db: str) -> None:
    report = session("compact", "chat", "2000", db=db)
    assert report["created"] and report["tokens_after"] < report["tokens_before"]
    assert {each["level"] for each in report["created"]} == {"excerpt"}
    again = shown("compact", "chat", db=db)
    assert "nothing was compacted" in again and "no leaf summary" in again
    text = shown("compact", "chat", "700", "--until-under", db=db)
    assert "excerpt" in text and "written without a model" in " ".join(text.split())
    assert "within 700" in text or "over 700" in text
    assert run("session", "compact", "chat", "--until-under", db=db).exit_code == 4


def test_a_window_is_assembled_recorded_and_reopened(db: str) -> None:
    session("compact", "chat", db=db)
    answer("remember", "The user likes ships.", db=db)
    window = session("window", "chat", "3000", "--question", "ships", "--share", "0.1", "--receipt", db=db)
    assert window["pack"]["items"] and window["used"] <= 3000
    assert session("reopen", "chat", window["receipt"], db=db)["entries"] == window["entries"]
    assert shown("window", "chat", "3000", "--receipt", "-q", db=db).count("\n") == 1, "a receipt"
    text = shown("window", "chat", "500", db=db)
    assert re.search(r"^assistant +\d+ 2026-03-01 10:24 Ship 24 is in the harbour\.", text, re.M)
    assert "of 500 tokens" in text and "left out:" in text and "tail_trimmed: the fresh tail" in text
    assert "; over budget" in shown("window", "chat", "10", db=db)
    assert all(len(line) <= 80 for line in text.splitlines())


def test_assembling_records_nothing_unless_asked_to(db: str) -> None:
    before = Path(db).read_bytes()
    shown("window", "chat", "500", db=db)
    assert Path(db).read_bytes() == before


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_a_window_for_a_provider_is_its_messages_as_json(provider: str, db: str) -> None:
    with Ledger.open(db) as ledger:
        ledger.session("chat").append("system", "Be brief.")
        wanted = ledger.session("chat").window(900).render(provider)
    found = json.loads(shown("window", "chat", "900", "--provider", provider, db=db))
    assert found["messages"] == wanted.messages and found.get("system", "") == wanted.system
    assert session("window", "chat", "900", "--provider", provider, db=db)["summaries"] == wanted.summaries
    assert run("session", "window", "chat", "900", "--provider", "odd", db=db).exit_code == 2


def test_a_summary_goes_and_comes_back(db: str) -> None:
    (made,) = session("compact", "chat", db=db)["created"]
    gone = session("summaries", "invalidate", "chat", made["id"], "--subtree", "--reason", "wrong", db=db)
    assert gone["invalidated"] == [made["id"]]
    assert session("summaries", "list", "chat", db=db)[0]["status"] == "invalid"
    assert made["id"] not in shown("summaries", "graph", "chat", db=db)
    assert made["id"] in shown("summaries", "graph", "chat", "--include-replaced", db=db)
    assert session("summaries", "restore", "chat", made["id"], db=db)["status"] == "window"
    assert "out of use" in shown("summaries", "invalidate", "chat", made["id"], db=db)
    assert made["id"] in shown("summaries", "restore", "chat", made["id"], db=db)


def test_the_graph_is_a_tree_or_a_flowchart(db: str) -> None:
    (made,) = session("compact", "chat", db=db)["created"]
    picture = session("summaries", "graph", "chat", db=db)
    assert picture["window"][0]["id"] == made["id"] and picture["window"][1]["messages"] == 32
    assert "excerpt" in shown("summaries", "graph", "chat", db=db) and "32 messages" in shown(
        "summaries", "graph", "chat", db=db
    )
    assert shown("summaries", "graph", "chat", "--mermaid", db=db).startswith("flowchart LR\n")


# --- search ----------------------------------------------------------------------------------------------------------


def test_grep_and_expand(db: str) -> None:
    (made,) = session("compact", "chat", db=db)["created"]
    found = session("grep", "chat", '"ship 3" harbour', "--role", "assistant", db=db)
    assert [each["role"] for each in found["items"]] == ["assistant"]
    position = str(found["items"][0]["position"])
    text = shown("grep", "chat", '"ship 3" harbour', "--scope", "message", db=db)
    assert "Ship 3 is in the harbour" in text and "1 found" in text
    assert shown("grep", "chat", '"ship 3" harbour', "--scope", "message", "-q", db=db) == position + "\n"
    assert shown("grep", "chat", "zebra", db=db).startswith("nothing found, ")
    assert run("session", "grep", "chat", "zebra OR", db=db).exit_code == 4
    whole = session("expand", "chat", made["id"], db=db)
    assert len(whole["messages"]) == made["messages"] and whole["rest"] == []
    few = shown("expand", "chat", made["id"], "--budget", "200", db=db)
    assert "left: #" in few and re.search(r"expand \d+-\d+", few)
    one = shown("expand", "chat", position, "999999", db=db)
    assert "Ship 3 is in the harbour." in one and "not in this session: 999999" in one


def test_grep_looks_elsewhere_only_where_asked_to(db: str) -> None:
    session("append", "other", "user", "A zebra!", db=db)
    assert session("grep", "chat", "zebra", db=db)["total"] == 0
    assert "ask sessions.grep" in shown("grep", "chat", "zebra", db=db)
    run("session", "truncate", "other", "0", db=db)
    assert "--include-hidden" in shown("grep", "other", "zebra", db=db)
    assert answer("sessions", "grep", "zebra", "--include-hidden", db=db)["items"][0]["session"] == "other"


# --- say more, or less -----------------------------------------------------------------------------------------------


def test_a_transcript_is_appended_and_replaces_from_where_it_differs(tmp_path: Path) -> None:
    db, file = str(tmp_path / "new.db"), tmp_path / "said.json"
    said = [{"role": "user", "content": "one"}, {"role": "assistant", "content": "two"}]
    file.write_text(json.dumps(said), encoding="utf-8")
    assert session("reconcile", "talk", str(file), db=db)["appended"] == 2
    lines = "".join(json.dumps(each) + "\n" for each in [*said, {"role": "user", "content": "three\u2028"}])
    assert shown("reconcile", "talk", "-", db=db, stdin=lines) == "2 kept, 1 appended\n"
    assert shown("reconcile", "talk", "-", db=db, stdin=lines) == "nothing to do: 3 kept\n"
    change = session("replace", "talk", "-", db=db, stdin=json.dumps(said[:1]))
    assert (change["kept"], change["hidden"]) == (1, 2)
    hidden = messages("talk", "--include-hidden", db=db)
    assert [each["hidden"] for each in hidden] == ["", "replace", "replace"]
    assert "hidden by replace" in shown("messages", "talk", "--include-hidden", db=db)


def test_truncate_and_clear_hide_and_undo_brings_back(db: str) -> None:
    change = session("truncate", "chat", "4", db=db)
    assert (change["change"], change["hidden"]) == ("truncated", 46)
    assert len(messages("chat", db=db)) == 4
    assert shown("clear", "chat", db=db) == "cleared: 4 hidden\n"
    assert len(messages("chat", "--as-of", str(change["position"]), db=db)) == 4
    answer("undo", str(change["position"]), db=db)
    assert session("info", "chat", db=db)["messages"] == 46, "clear still hides its four"


def test_the_shell_sets_an_alias_and_the_session_summary(db: str) -> None:
    assert session("add-alias", "chat", "talk", db=db)["aliases"] == ["talk"]
    assert session("info", "talk", db=db)["name"] == "chat"
    assert session("abstract", "chat", db=db) == ""
    assert shown("set-abstract", "chat", "-", db=db, stdin="About\nships.\n") == "About\nships.\n"
    assert session("abstract", "talk", db=db) == "About\nships."
    assert session("set-abstract", "chat", "", db=db) == ""


# --- what is refused -------------------------------------------------------------------------------------------------

ON_A_SESSION = (
    ["info"], ["messages"], ["summaries", "graph"], ["window", "100"], ["reopen", "r"], ["compact"], ["grep", "x"],
    ["expand", "y_1"], ["truncate", "1"], ["clear"], ["add-alias", "other"], ["abstract"], ["set-abstract", "text"],
    ["summaries", "invalidate", "y_1"], ["summaries", "restore", "y_1"],
)  # fmt: skip


def named(command: list[str], name: str) -> list[str]:
    """The command on a session of this name."""
    verb = command[:2] if command[0] == "summaries" else command[:1]
    return [*verb, name, *command[len(verb) :]]


@pytest.mark.parametrize("command", ON_A_SESSION, ids=" ".join)
def test_an_unknown_session_is_not_found_and_not_made(command: list[str], db: str) -> None:
    result = run("session", *named(command, "nowhere"), db=db)
    assert (result.exit_code, result.stdout) == (3, "")
    assert "no session of this user is called 'nowhere'" in result.stderr and result.stderr.count("\n") == 1
    assert [each["name"] for each in answer("sessions", "list", db=db)] == ["chat"]


@pytest.mark.parametrize("command", ON_A_SESSION, ids=" ".join)
def test_a_command_on_a_session_makes_no_ledger(command: list[str], tmp_path: Path) -> None:
    assert run("session", *named(command, "chat"), db=str(tmp_path / "none.db")).exit_code == 3
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["window", "chat", "0"], 4),
        (["window", "chat", "-5"], 4),
        (["window", "chat", "many"], 2),
        (["window", "chat", "9", "--share", "1"], 4),
        (["window", "chat", "9", "--tail", "0"], 4),
        (["compact", "chat", "0"], 4),
        (["compact", "chat", "--until-under"], 4),
        (["append", "chat", "robot", "hello"], 2),
        (["append", "chat", "user", "  "], 4),
        (["append", " ", "user", "hello"], 4),
        (["append", "chat", "tool", "no call"], 4),
        (["append", "chat", "user", "--parts", '{"type":'], 2),
        (["append", "chat", "user", "--parts", "[]"], 4),
        (["append", "chat", "user", "--parts", '{"type": "odd"}'], 4),
        (["append", "chat", "user", "x", "--token-count", "-1"], 4),
        (["append", "chat", "user", "x", "--occurred-at", "soon"], 4),
        (["truncate", "chat", "some"], 2),
        (["reopen", "chat", "nothing"], 3),
        (["summaries", "invalidate", "chat", "y_none"], 3),
        (["summaries", "restore", "chat", "y_none"], 3),
        (["grep", "chat", ""], 4),
        (["grep", "chat", "x", "--since", "soon"], 4),
        (["grep", "chat", "x", "--scope", "odd"], 2),
        (["reconcile", "chat", "nowhere.json"], 3),
        (["messages", "chat", "--as-of", "99999999"], 4),
        (["set-abstract", "chat", "text", "--as-of", "5"], 2),
    ],
)
def test_bad_input_gets_its_code_and_changes_nothing(arguments: list[str], code: int, db: str) -> None:
    before = len(answer("history", "audit", "--limit", "500", db=db))  # type: ignore[arg-type]
    result = run("session", *arguments, db=db)
    assert (result.exit_code, result.stdout) == (code, ""), result.output
    assert result.stderr.startswith("memory-ledger: ") and result.stderr.count("\n") == 1
    assert len(answer("history", "audit", "--limit", "500", db=db)) == before  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "is blank"),
        (b'[{"role": "user"', "is not JSON"),
        (b'{"role": "user", "content": "x"}\nnonsense\n', "line 2 of"),
        (b"[" * 100_000, "nested too deep"),
        (b"\xff\xfe", "not UTF-8"),
        (b'{"role": "robot", "content": "x"}', "robot"),
        (b"[1]", "message 1"),
        (b"7", "line 1 of"),
    ],
)
def test_a_file_that_is_no_transcript_is_refused(content: bytes, why: str, db: str, tmp_path: Path) -> None:
    file = tmp_path / "said.json"
    file.write_bytes(content)
    for source, stdin in ((str(file), None), ("-", content)):
        result = run("session", "reconcile", "chat", source, db=db, stdin=stdin)
        assert result.exit_code == 4 and why in result.stderr and result.stderr.count("\n") == 1, result.output
    assert run("session", "reconcile", "chat", str(tmp_path), db=db).exit_code == 4, "a directory"
    assert session("info", "chat", db=db)["messages"] == 50


def test_an_empty_transcript_is_one_only_where_it_says_so(db: str) -> None:
    assert session("replace", "chat", "-", db=db, stdin="[]")["hidden"] == 50


# --- what reaches the terminal ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_control_characters_of_a_session_are_escaped_on_the_terminal(tmp_path: Path) -> None:
    db = str(tmp_path / "evil.db")
    part = json.dumps({"type": "tool_use", "id": EVIL, "name": EVIL, "arguments": {EVIL: EVIL}})
    result = json.dumps({"type": "tool_result", "id": EVIL, "text": EVIL})
    media = json.dumps({"type": "media", "uri": EVIL, "mime": EVIL})
    told = [
        run("session", "append", EVIL, "user", EVIL, "--model", EVIL, "--parts", media, "--project", EVIL, db=db),
        run("session", "append", EVIL, "assistant", EVIL, "--parts", part, db=db),
        run("session", "append", EVIL, "tool", "--parts", result, db=db),
    ]
    with Ledger.open(db) as ledger, ledger.batch():
        for number in range(50):
            ledger.session(EVIL).append("user", f"{number} {EVIL * 20}")
    told.append(run("session", "compact", EVIL, db=db))
    (made,) = session("summaries", "list", EVIL, db=db)
    receipt = session("window", EVIL, "2000", "--receipt", db=db)["receipt"]
    commands = (
        ["info", EVIL], ["summaries", "list", EVIL], ["messages", EVIL, "--limit", "500"], ["summaries", "graph", EVIL],
        ["summaries", "graph", EVIL, "--mermaid"],
        ["window", EVIL, "90000", "--question", EVIL], ["window", EVIL, "2000", "--provider", "openai"],
        ["reopen", EVIL, receipt], ["grep", EVIL, "red"], ["expand", EVIL, made["id"]], ["set-abstract", EVIL, EVIL],
        ["add-alias", EVIL, EVIL + "2"], ["summaries", "invalidate", EVIL, made["id"], "--reason", EVIL],
        ["summaries", "restore", EVIL, made["id"]], ["truncate", EVIL, "3"], ["info", EVIL + "x"],
        ["append", EVIL, EVIL, "x"], ["append", EVIL, "user", "--parts", EVIL], ["grep", EVIL, f'"{EVIL}'],
        ["expand", EVIL, EVIL], ["reconcile", EVIL, EVIL],
    )  # fmt: skip
    told += [run("session", *each, db=db) for each in commands]
    for each in told:
        assert RAW.search(each.output) is None, each.output
    assert "\\x1b[31mred" in told[0].stdout and "[bold red]b[/] :smile:" in told[0].stdout


def test_json_has_the_very_text(tmp_path: Path) -> None:
    db = str(tmp_path / "evil.db")
    result = run("session", "append", "chat", "user", EVIL, "--json", db=db)
    assert json.loads(result.stdout)["content"] == EVIL and RAW.search(result.stdout) is None
    again = json.loads(shown("window", "chat", "900", "--provider", "openai", db=db))
    assert again["messages"][0]["content"] == EVIL


def test_quiet_prints_what_others_can_use(db: str) -> None:
    assert re.fullmatch(r"\d+\n", shown("append", "chat", "user", "More.", "-q", db=db))
    assert re.fullmatch(r"s_\w+\n", run("sessions", "list", "-q", db=db).stdout)
    assert shown("messages", "chat", "--limit", "2", "-q", db=db).count("\n") == 2
    assert re.fullmatch(r"(y_\w+\n)+", shown("compact", "chat", "-q", db=db))
    assert shown("truncate", "chat", "2", "-q", db=db).startswith("y_")


def test_what_was_said_is_extracted_and_a_branch_is_seeded(tmp_path: Path) -> None:
    path = str(tmp_path / "memory.db")
    with Ledger.open(path) as ledger:
        for name in ("talk", "branch"):
            ledger.session(name).append("user", "I prefer green tea over coffee.")
        at = ledger.session("branch").messages()[0].position
    found = session("extract", "talk", db=path)
    assert [each["content"] for each in found["kept"]] == ["The user prefers green tea over coffee"]
    assert session("skip-extraction", "branch", "--parent", "talk", db=path)["cursor"] == at
    assert session("extract", "talk", db=path)["messages"] == session("extract", "branch", db=path)["messages"] == 0
    again = session("extract", "talk", "--since", "0", "--method", "rules", db=path)
    assert again["dropped"][0]["reason"] == "known", "it is active already, since the user says it of himself"
    told = run("session", "extract", "talk", db=path)
    assert told.exit_code == 0 and "0 messages looked at" in told.stdout
    assert "I prefer green tea" in run("why", found["kept"][0]["id"], db=path).stdout
