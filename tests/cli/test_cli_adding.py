"""Adding messages from a shell: JSON, JSON lines, or a chat as people paste it; what is none is named by its line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import answer, run

SAID = [
    {"role": "user", "content": "I prefer tea over coffee."},
    {"role": "assistant", "content": "Noted.\nAnything else?"},
]
CHAT = "user: I prefer tea over coffee.\nAI: Noted.\n  Anything else?\n\n"


@pytest.fixture
def db(tmp_path: Path) -> str:
    return str(tmp_path / "memory.db")


FORMS = {
    "list": json.dumps(SAID, indent=1),
    "object": json.dumps({"system": "Be brief.", "model": "m", "messages": SAID}),
    "lines": "\n".join(json.dumps(each) for each in SAID) + "\n\n",
    "chat": CHAT,
    "windows": "\ufeff" + CHAT.replace("\n", "\r\n"),
    "one": json.dumps(SAID[0], indent=2),
}


@pytest.mark.parametrize("form", FORMS)
def test_messages_are_read_in_every_form_from_a_file_and_from_standard_input(
    form: str, db: str, tmp_path: Path
) -> None:
    file = tmp_path / "chat"
    file.write_text(FORMS[form], encoding="utf-8")
    first = json.loads(run("add", str(file), "--session", "s", "--json", db=db).stdout)
    assert first["messages"] == (1 if form == "one" else 2) and len(first["learned"]) == 1
    assert first["proposed"] == [], "what the user says of himself is admitted at once"
    again = json.loads(run("add", "-", "--session", "s", "--json", db=db, stdin=FORMS[form].encode()).stdout)
    assert (again["messages"], again["known"]) == (0, first["messages"])
    shown = json.loads(run("session", "messages", "s", "--json", db=db).stdout)["items"]
    second = "Noted.\n  Anything else?" if form in ("chat", "windows") else SAID[1]["content"]
    assert [each["content"] for each in shown] == [SAID[0]["content"], second][: first["messages"]]


def test_what_is_indented_in_an_answer_stays_in_it_as_it_stands(db: str) -> None:
    code = '    class Job:\n        user: str\n        system: str = "x"\u2028'
    chat = f"  User: Write a class.\n  assistant:\n\n{code}\n  That is all.\n  user: Thanks\n"
    run("add", "-", "--session", "s", db=db, stdin=chat.encode())
    shown = json.loads(run("session", "messages", "s", "--json", db=db).stdout)["items"]
    assert [(each["role"], each["content"]) for each in shown] == [
        ("user", "Write a class."),
        ("assistant", f"{code}\n  That is all."),
        ("user", "Thanks"),
    ]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("name,text\nada,hi\n", "line 1 of standard input is neither JSON nor begins with a role"),
        ("\n\nhello\nuser: hi", "line 3 of standard input"),
        ('{"role": "user", "content": "x"}\n{"role": "user"\n', "line 2 of standard input is not JSON"),
        ('{"role": "user", "content": "x"}\n{"content": "x"}\n', "line 2 of standard input is not a message"),
        ('[{"role": "user", "content": "x"},\n 7]', "message 2 of standard input is not a message"),
        ('[\n{"role": "user"\n"content": "x"}]', "Expecting ',' delimiter at line 3"),
        ('{"prompt": "x", "response": "y"}', "memory-ledger interactions import-file"),
        ('{"messages": "x"}', "a list"),
        ('[{"role": "robot", "content": "x"}]', "robot"),
        ("", "blank"),
    ],
)
def test_an_invalid_conversation_is_refused_with_its_line_and_stores_nothing(text: str, why: str, db: str) -> None:
    result = run("add", "-", db=db, stdin=text.encode())
    assert result.exit_code == 4 and why in result.stderr and result.stderr.count("\n") == 1
    assert json.loads(run("sessions", "list", "--json", db=db).stdout or '{"items": []}')["items"] == []


def test_the_answer_reads_well_and_a_dry_run_changes_nothing(db: str) -> None:
    stdin = CHAT.encode()
    run("remember", "Ada has a dog.", db=db)
    tried = run("add", "-", "--dry-run", db=db, stdin=stdin).stdout
    assert "2 messages would be added to a new session\n" in tried and "Learned" in tried
    assert "Proposed" not in tried, "what the user says of himself waits for nobody"
    added = run("add", "-", "--session", "s", db=db, stdin=stdin).stdout
    assert added.startswith("2 messages added to a new session s, 1 captured as turns\n")
    assert "The user prefers tea over coffee" in added and "take it back: memory-ledger undo " in added
    again = run("add", "-", "--session", "s", db=db, stdin=stdin).stdout
    assert again == "0 messages added to the session s, 2 known\nthe session has 2 messages already: nothing is new\n"
    ids = run("add", "-", "--quiet", "--user", "bob", db=db, stdin=stdin).stdout.split()
    assert len(ids) == 1 and ids[0].startswith("m_")
    assert run("retract", ids[0], "--user", "bob", db=db).exit_code == 0


def test_what_is_learned_of_known_messages_may_be_undone_too(db: str) -> None:
    run("add", "-", "--session", "s", "--extract", "off", db=db, stdin=CHAT.encode())
    later = run("add", "-", "--session", "s", db=db, stdin=CHAT.encode()).stdout
    assert later.startswith("0 messages") and "Learned" in later
    assert len(json.loads(run("memories", "list", "--json", db=db).stdout)["items"]) == 1
    undo = later.splitlines()[-1].rpartition("memory-ledger ")[2].split()
    assert undo[0] == "undo" and run(*undo).exit_code == 0
    assert json.loads(run("memories", "list", "--json", db=db).stdout or '{"items": []}')["items"] == []


def test_the_policy_review_proposes_found_memories(db: str) -> None:
    assert run("policy", "set", "--admit", "review", db=db).exit_code == 0
    assert "Proposed, for review" in run("add", "-", "--dry-run", db=db, stdin=CHAT.encode()).stdout
    added = json.loads(run("add", "-", "--json", db=db, stdin=CHAT.encode()).stdout)
    assert (len(added["proposed"]), added["learned"]) == (1, [])
    assert run("promote", added["proposed"][0]["id"], db=db).exit_code == 0


def test_a_wrong_option_is_named(db: str) -> None:
    assert run("add", "-", "--extract", "yes", db=db, stdin=b"user: hi").exit_code == 2
    assert run("add", "nowhere.json", db=db).exit_code == 3
    assert "by a model needs a model" in run("add", "-", "--extract", "model", db=db, stdin=b"user: hi").stderr


def test_advice_about_learned_memories_is_in_the_words_of_a_shell(db: str, tmp_path: Path) -> None:
    (tmp_path / "chat").write_text("user: I prefer tea over coffee.\nassistant: Noted.\n", encoding="utf-8")
    added = " ".join(run("add", str(tmp_path / "chat"), "--session", "s", db=db).stdout.split())
    assert f"1 admitted without review: `memory-ledger retract ID --db {Path(db).as_posix()}` takes one back; " in added
    assert f"`memory-ledger review --admitted --db {Path(db).as_posix()}` lists them" in added
    listed = run("review", "--admitted", db=db).stdout
    memory = run("review", "--admitted", "--quiet", db=db).stdout.strip()
    assert listed.split()[:3] == ["id", "conf", "memory"]
    assert f"undo: `memory-ledger retract {memory}" in " ".join(listed.split())
    assert run("retract", memory, db=db).exit_code == 0
    assert memory not in run("review", "--admitted", "--quiet", db=db).stdout


def test_unread_turns_go_through_a_model_in_a_pipe(tmp_path: Path) -> None:
    db = tmp_path / "memory.db"
    run("add", "-", db=db, stdin="user: My sister Lea is allergic to peanuts.")
    token = run("learning", "unread", "--quiet", db=db).stdout.strip()
    shown = run("learning", "unread", db=db)
    assert "[1] user" in shown.stdout and '"supersede"' in shown.stdout
    assert f"learning learn {token} -" in shown.stderr
    held = run("learning", "unread", db=db, environment={"LEDGER_ACTOR": "somebody"})
    assert (held.exit_code, held.stdout) == (4, "") and "until" in held.stderr
    fact = {"content": "The user's sister Lea is allergic to peanuts.", "said_by": "user", "messages": [1]}
    learned = answer("learning", "learn", token, "-", db=db, stdin=json.dumps({"add": [fact]}))
    assert [each["content"] for each in learned["learned"]] == [fact["content"]]
    nothing = run("learning", "unread", db=db)
    assert (nothing.exit_code, nothing.stdout) == (3, "") and "nothing to read" in nothing.stderr
