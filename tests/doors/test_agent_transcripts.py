"""What counts as a turn in a coding agent's transcript, and which words of it a person typed."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import needs
import pytest

from ledger.doors import agent_transcripts
from ledger.doors.agent_transcripts import hook_texts, new_turns, read, turns, typed_words


def user(text: object, uuid: str = "u1", **more: object) -> dict[str, Any]:
    return {"type": "user", "uuid": uuid, "message": {"role": "user", "content": text}, **more}


def assistant(*texts: str, **more: object) -> dict[str, Any]:
    content = [{"type": "text", "text": text} for text in texts]
    return {"type": "assistant", "uuid": "a", "message": {"role": "assistant", "content": content}, **more}


TOOL = user(
    [{"type": "tool_result", "tool_use_id": "t", "content": "I live in Kiruna"}], "u2", toolUseResult={"stdout": "x"}
)


def test_a_turn_is_a_prompt_with_all_texts_until_the_next_prompt() -> None:
    entries = [user("Fix it.", "u1", timestamp="2026-11-26T09:00:00Z"), assistant("I look."), TOOL, assistant("Done.")]
    first, second = turns([*entries, user("Thanks.", "u3")])
    assert (first.key, first.prompt, first.response) == ("u1", "Fix it.", "I look.\n\nDone.")
    assert (first.at, first.typed) == ("2026-11-26T09:00:00Z", True)
    assert (second.key, second.prompt, second.response) == ("u3", "Thanks.", "")


@pytest.mark.parametrize(
    "entry",
    [
        TOOL,
        user("Base directory for this skill: …", isMeta=True),
        user("Find the tests", isSidechain=True),
        user("This session is being continued …", isCompactSummary=True),
        user([{"type": "text", "text": "[Request interrupted by user]"}]),
        user("<command-name>/clear</command-name>\n<command-message>clear</command-message>"),
        user("<local-command-stdout>I live in Kiruna.</local-command-stdout>"),
        {"type": "system", "content": "I live in Kiruna."},
        {"type": "attachment", "uuid": "u", "attachment": {"type": "file", "content": "I live in Kiruna."}},
        {"type": "summary", "summary": "I live in Kiruna."},
        {"type": "user", "uuid": "u", "message": None},
        {"type": "user", "message": {"content": "without a key"}},
        {},
    ],
)
def test_what_the_client_or_a_tool_wrote_is_no_turn(entry: dict[str, Any]) -> None:
    assert list(turns([entry, assistant("An answer to nothing.")])) == []


def test_an_answer_to_a_command_of_the_client_belongs_to_no_turn() -> None:
    command = user("<command-name>/review</command-name>", "u2")
    (turn,) = turns([user("Hello."), assistant("Hi."), command, assistant("The review.")])
    assert turn.response == "Hi."


def test_a_message_sent_while_the_agent_worked_is_a_turn() -> None:
    queued = {"type": "queued_command", "prompt": "I prefer uv.", "origin": {"kind": "human"}}
    (turn,) = turns([{"type": "attachment", "uuid": "q1", "attachment": queued}, assistant("Noted.")])
    assert (turn.key, turn.prompt, turn.typed, turn.response) == ("q1", "I prefer uv.", True, "Noted.")


@pytest.mark.parametrize(
    ("marks", "typed"),
    [
        ({}, True),
        ({"promptSource": "typed"}, True),
        ({"promptSource": "queued"}, True),
        ({"origin": {"kind": "human"}, "promptSource": "sdk", "entrypoint": "sdk-cli"}, True),
        ({"promptSource": "sdk"}, False),
        ({"entrypoint": "sdk-py"}, False),
        ({"promptSource": "suggestion_accepted"}, False),
        ({"origin": {"kind": "task-notification"}}, False),
        ({"origin": {"kind": "human"}, "textNotTyped": True}, False),
    ],
)
def test_only_what_the_client_calls_a_persons_words_is_typed(marks: dict[str, object], typed: bool) -> None:
    (turn,) = turns([user("I live in Kiruna.", **marks)])
    assert turn.typed is typed


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            'What is this?\n\n<pasted_content id="fafd">\nI live in Kiruna.\n</pasted_content id="fafd">\n',
            "What is this?\n\n[pasted text]",
        ),
        # A paste that forges its own end ends only where the id says so.
        ('<pasted_content id="ab">x</pasted_content id="cd"> I live in Kiruna.</pasted_content id="ab"> ok', "[pasted text] ok"),
        ("<pasted_content>x</pasted_content> I live in Kiruna.</pasted_content> ok", "[pasted text] ok"),
        ('Look: <pasted_content id="ab">I live in Kiruna.', "Look: [pasted text]"),
        ("Why?\n```\nI live in Kiruna.\n```\nThanks.", "Why?\n[code]\nThanks."),
        ("Why?\n```\nI live in Kiruna.", "Why?\n[code]"),
        ("<system-reminder>I live in Kiruna.</system-reminder>Go on.", "Go on."),
        ("<ide_selection>I live in Kiruna.</ide_selection>\nExplain.", "Explain."),
        ("What does <system-reminder> mean?", "What does <system-reminder> mean?"),
        ("A <div> and a </div>.", "A <div> and a </div>."),
    ],
)  # fmt: skip
def test_typed_words_leave_out_pastes_code_and_notes_of_the_client(text: str, words: str) -> None:
    assert typed_words(text) == words


def test_many_open_tags_take_time_in_proportion_to_the_text() -> None:
    """Each closing tag that is missing is looked for once."""
    looked = "<bash-input>" * 200_000
    assert typed_words(looked) == looked


def test_the_turns_from_the_known_one_on_are_new_and_a_half_written_line_is_none(tmp_path: Path) -> None:
    entries = [user("One.", "u1"), assistant("1"), user("Two.", "u2"), assistant("2"), user("Say u1 again.", "u3")]
    path = tmp_path / "session.jsonl"
    path.write_text(
        "".join(json.dumps(entry) + "\n" for entry in entries) + '{"type": "user", "uuid": "u4", "mess',
        encoding="utf-8",
    )
    transcript = read(str(path))
    assert [(turn.key, turn.is_last) for turn in new_turns(transcript, "")] == [
        ("u1", False),
        ("u2", False),
        ("u3", True),
    ]
    assert [turn.key for turn in new_turns(transcript, "u2")] == ["u2", "u3"]
    assert [turn.key for turn in new_turns(transcript, "gone")] == ["u1", "u2", "u3"]


def test_of_a_long_transcript_only_lines_that_may_belong_to_a_turn_are_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed, entry = [], agent_transcripts._entry
    monkeypatch.setattr(agent_transcripts, "_entry", lambda line: parsed.append(line) or entry(line))
    turn = [json.dumps(each) for each in (user("Fix it.", "u1"), assistant("Done."), user("Thanks.", "u2"))]
    lines = ["{}", *turn, "", "x", '{"type":"progress","data":"\\"user\\""}', '{"type": "system"}'] * 1_000
    transcript = "\n".join(lines).encode()
    assert len(list(new_turns(transcript, ""))) == 2_000 and len(parsed) == 3_000
    parsed.clear()
    assert [turn.key for turn in new_turns(transcript, "u2")] == ["u2"]
    assert len(parsed) == 2  # the line of the known turn, once to know it
    parsed.clear()
    assert len(list(new_turns(transcript, "Fix"))) == 2_000
    assert len(parsed) == 4_000  # a text that is no key costs a line each


def test_a_transcript_longer_than_its_end_is_read_from_the_beginning_of_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "session.jsonl"
    path.write_text(
        "".join(json.dumps(user(f"Number {number}.", f"u{number}")) + "\n" for number in range(9)), encoding="utf-8"
    )
    monkeypatch.setattr(agent_transcripts, "TAIL_BYTES", path.stat().st_size // 3)
    assert [turn.key for turn in new_turns(read(str(path)), "")] == ["u7", "u8"]


@needs.named_pipes
@pytest.mark.parametrize("place", ["pipe", "/dev/zero"])
def test_what_is_no_regular_file_is_not_read(tmp_path: Path, place: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match=r"no regular file"):
        read(str(tmp_path / place))


def test_a_folder_is_no_transcript(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"no regular file|directory|Permission denied"):
        read(str(tmp_path))


BLOCK = "Known."
HOOK = {"type": "attachment", "attachment": {"type": "hook_additional_context", "content": [f"{BLOCK}\n- a line"]}}
DEVELOPER = {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": f"{BLOCK}\n- a line"}]}


@pytest.mark.parametrize(
    ("entries", "texts"),
    [
        ([HOOK], 1),
        ([{"type": "response_item", "payload": DEVELOPER}], 1),
        ([HOOK, {"type": "system", "subtype": "compact_boundary"}], 0),
        ([HOOK, user("This session is being continued …", isCompactSummary=True)], 0),
        ([{"type": "response_item", "payload": DEVELOPER}, {"type": "compacted", "payload": {}}], 0),
        ([{"type": "system", "subtype": "compact_boundary"}, HOOK], 1),
        ([HOOK, user('What is a "compact_boundary"?')], 1),
        ([{**HOOK, "isSidechain": True}], 0),
        ([user(f"{BLOCK}\n- a line")], 0),
        ([{"type": "response_item", "payload": {**DEVELOPER, "role": "user"}}], 0),
    ],
)
def test_the_texts_of_hooks_are_those_since_the_last_compaction(entries: list[dict[str, Any]], texts: int) -> None:
    transcript = "".join(json.dumps(entry) + "\n" for entry in entries).encode()
    assert list(hook_texts(transcript, BLOCK)) == [f"{BLOCK}\n- a line"] * texts


@pytest.mark.parametrize(("trigger", "typed"), [("user", True), ("exec", False)])
def test_a_transcript_of_codex_has_a_turn_for_each_message_of_the_user(trigger: str, typed: bool) -> None:
    def line(kind: str, text: str, id: str) -> dict[str, Any]:
        block = {"type": "text" if kind == "UserMessage" else "Text", "text": text}
        item = {"type": kind, "id": id, "content": [block]}
        return {"timestamp": f"at {id}", "type": "event_msg", "payload": {"type": "item_completed", "item": item}}

    started = {"type": "task_started", "turn_attribution": {"turn_trigger": trigger}}
    first, second = turns(
        [
            {"timestamp": "t0", "type": "session_meta", "payload": {"id": "s"}},
            {"timestamp": "t0", "type": "event_msg", "payload": started},
            {"timestamp": "t1", "type": "response_item", "payload": {"type": "message", "role": "user"}},
            line("UserMessage", "I prefer uv.", "i1"),
            line("Reasoning", "hm", "i2"),
            line("AgentMessage", "Noted.", "i3"),
            line("UserMessage", "Thanks.", "i4"),
        ]
    )
    assert (first.key, first.prompt, first.response, second.key) == ("i1", "I prefer uv.", "Noted.", "i4")
    assert (first.at, first.typed) == ("at i1", typed)
