"""The transcripts of Claude Code: every turn once, whether the hooks recorded it or not, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from claude_transcripts import DAY_1, DAY_2, Write, entry, ledger_alone, turn, writer

from ledger import Ledger
from ledger.importers import import_from


@pytest.fixture
def write(tmp_path: Path) -> Write:
    return writer(tmp_path)


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ledger]:
    with ledger_alone(tmp_path, monkeypatch) as opened:
        yield opened


def test_every_turn_of_a_folder_is_found_again_by_its_own_words(ledger: Ledger, write: Write, tmp_path: Path) -> None:
    write(*turn("The harbour office closes at noon.", "u1", "I wrote the opening hours down."), name=DAY_1)
    second = turn(
        "Our lighthouse keeper is called Ines.", "u2", "Then I greet Ines.", sessionId=DAY_2, cwd="/srv/atlas"
    )
    write(*second, name=DAY_2)
    report = import_from(ledger, tmp_path / "claude")
    assert (report.kind, dict(report.taken), report.known) == ("claude-code", {"turns": 2}, 0)
    for words in ("harbour office closes", "wrote the opening hours", "lighthouse keeper", "greet Ines"):
        assert words.split()[0] in ledger.recall(words, among=["turns"], limit=1).items[0].content
    office, keeper = ledger.interactions.list(oldest_first=True)
    assert (office.session, office.project, office.occurred_at) == (DAY_1, "shop", "2026-01-05T10:00:00.000000Z")
    assert (keeper.session, keeper.project, keeper.metadata["turn"]) == (DAY_2, "atlas", "u2")
    assert office.client == report.client == "import:claude-code"


@pytest.mark.slow
def test_a_year_of_400_sessions_comes_in_the_order_in_which_they_began(ledger: Ledger, write: Write) -> None:
    days = [
        f"2025-{number % 12 + 1:02}-{number % 28 + 1:02}T{number % 24:02}:{number % 60:02}:00Z" for number in range(400)
    ]
    for number, day in enumerate(days):
        name = f"{number:08}-aaaa-4aaa-8aaa-111111111111"
        path = write(*turn(f"Session {number}.", f"u{number}", "Yes.", sessionId=name, timestamp=day), name=name)
    assert dict(import_from(ledger, path.parent).taken) == {"turns": 400}
    said = [turn.occurred_at for turn in ledger.interactions.list(oldest_first=True, limit=1_000)]
    assert said == sorted(said) and len(ledger.sessions.list(limit=1_000)) == 400
    assert import_from(ledger, path.parent).known == 400


def test_a_second_import_adds_nothing_and_a_longer_transcript_adds_the_rest(ledger: Ledger, write: Write) -> None:
    path = write(*turn("One.", "u1", "Yes, one."))
    import_from(ledger, path)
    position = ledger.position
    again = import_from(ledger, path)
    assert (ledger.position, dict(again.taken), again.known, again.correlation_id) == (position, {}, 1, None)
    write(*turn("One.", "u1", "Yes, one."), *turn("Two.", "u2", "Yes, two."))
    assert (dict((more := import_from(ledger, path)).taken), more.known) == ({"turns": 1}, 1)


def test_what_no_person_said_is_left_out_and_counted(ledger: Ledger, write: Write, tmp_path: Path) -> None:
    path = write(
        {"type": "file-history-snapshot", "messageId": "m", "snapshot": {}},
        entry("user", "Caveat: the user ran commands.", "x1", isMeta=True),
        entry("user", "Find the kiwi tests.", "x2", isSidechain=True),
        *turn("Show the pier.\n<system-reminder>Kiwis are green.</system-reminder>", "u1", "The pier is long."),
        entry(
            "user", [{"type": "tool_result", "content": "a kiwi"}], "x3", toolUseResult={"stdout": "kiwi " * 100_000}
        ),
        entry("user", "<command-name>/clear</command-name>", "x4"),
        {"type": "marmalade", "uuid": "x5", "sessionId": DAY_1},
        end='{"type":"user","uuid":"x6","message":{"role":"user","content":"kiwi, cut sho',
    )
    agent = path.parent / DAY_1 / "subagents" / "agent-a1.jsonl"
    agent.parent.mkdir(parents=True)
    agent.write_text(json.dumps(entry("user", "Look for a kiwi.", "x7", isSidechain=True)) + "\n", encoding="utf-8")
    report = import_from(ledger, tmp_path / "claude")
    assert dict(report.taken) == {"turns": 1}
    assert dict(report.skipped) == {
        "a transcript of a subagent": 1, "a note of the client": 1, "a text that the client wrote or hid": 1,
        "a line of a subagent": 1, "a tool's result": 1, "a line that is no JSON object": 1,
    }  # fmt: skip
    assert dict(report.unknown) == {"marmalade": 1}
    (kept,) = ledger.interactions.list()
    assert (kept.prompt, kept.response) == ("Show the pier.", "The pier is long.")


def test_a_transcript_is_known_though_its_first_line_is_long(ledger: Ledger, write: Write) -> None:
    path = write(
        entry("user", [{"type": "tool_result", "content": "x" * 200_000}], "x1", toolUseResult={}),
        *turn("After the picture.", "u1", "Yes."),
    )
    assert (import_from(ledger, path).kind, len(ledger.interactions.list())) == ("claude-code", 1)


def test_branches_two_roots_and_a_circle_of_parents_come_in_the_order_of_the_file(ledger: Ledger, write: Write) -> None:
    path = write(
        *turn("First root.", "u1", "One.", parentUuid="u1-reply"),
        *turn("A branch that was left.", "u2", "Two.", parentUuid="u1-reply"),
        *turn("The branch that went on.", "u3", "Three.", parentUuid="u1-reply"),
        *turn("Second root.", "u4", "Four.", parentUuid=None),
    )
    import_from(ledger, path)
    said = [(turn.prompt, turn.response) for turn in ledger.interactions.list(oldest_first=True)]
    assert said == [("First root.", "One."), ("A branch that was left.", "Two."),
                    ("The branch that went on.", "Three."), ("Second root.", "Four.")]  # fmt: skip


def test_a_resumed_session_repeats_no_turn_of_the_session_before_it(
    ledger: Ledger, write: Write, tmp_path: Path
) -> None:
    first = turn("Said on the first day.", "u1", "Yes.")
    write(*first)
    write(*first, *turn("Said on the second day.", "u2", "Yes.", sessionId=DAY_2), name=DAY_2)
    report = import_from(ledger, tmp_path / "claude")
    assert (dict(report.taken), report.known) == ({"turns": 2}, 1)


def test_half_characters_and_times_that_are_none_lose_no_turn(ledger: Ledger, write: Write) -> None:
    path = write(
        *turn("Half a \ud83d character.", "u1", "And \udc00 half."),
        *turn("Without a time.", "u2", "Yes.", timestamp=None),
        *turn("With a time that is none.", "u3", "Yes.", timestamp="yesterday"),
    )
    report = import_from(ledger, path)
    assert dict(report.taken) == {"turns": 3} and [where for where, _ in report.notes] == ["u3"]
    assert ledger.interactions.list(oldest_first=True)[0].prompt == "Half a \ufffd character."


def test_the_words_of_a_program_and_long_pastes_are_no_words_of_the_person(ledger: Ledger, write: Write) -> None:
    path = write(
        *turn("I prefer tea.", "u1", "Yes.", promptSource="typed"),
        *turn("I prefer rum.", "u2", "Yes.", promptSource="sdk"),
        *turn("I prefer gin.\n" * 200, "u3", "Yes."),
    )
    import_from(ledger, path)
    entries = ledger.history.audit(oldest_first=True).all()
    assert [each.channel for each in entries if each.type == "InteractionCaptured"] == ["user", "agent", "file"]
    ledger.jobs.run()
    assert [memory.content for memory in ledger.memories.list()] == ["The user prefers tea"]


def test_nothing_is_recorded_where_the_memory_is_off(ledger: Ledger, write: Write, tmp_path: Path) -> None:
    (tmp_path / "quiet").mkdir()
    (tmp_path / "quiet" / ".memory-ledger.toml").write_text("off = true\n", encoding="utf-8")
    path = write(*turn("A secret project.", "u1", "Yes.", cwd=str(tmp_path / "quiet")))
    report = import_from(ledger, path)
    assert dict(report.skipped) == {"a turn of a project whose memory is off": 1} and not report.taken
    assert dict(import_from(ledger, path, project="loud").taken) == {"turns": 1}
    assert ledger.interactions.list()[0].project == "loud"
