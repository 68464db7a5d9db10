"""Memories in a window: the rules of the session in front, and what its own summaries left out, within a share."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest
from conversations import talk, words

from ledger import Ledger, RejectedError, Session
from tools.evaluate import evaluate_year

FORGETS = {"summarizer": lambda request: "They talked of this and that."}


def learned(session: Session, ledger: Ledger, *told: tuple[str, str, str]) -> None:
    """Say a message in a session, and remember what was learned from it: (message, memory, kind)."""
    for message, memory, kind in told:
        turn = ledger.capture(message, "Noted.", session=session.name, append=True)
        ledger.remember(memory, kind=kind, sources=[turn.id])


def of_the_session(window) -> list[str]:
    return [item.content for item in window.pack.items if item.section == "session"]


@pytest.fixture
def chat(ledger: Ledger) -> Session:
    return ledger.session("harbor")


def test_a_share_without_a_question_brings_memories_into_the_window(ledger: Ledger, chat: Session) -> None:
    ledger.remember("The user is called Ada.", kind="identity")
    talk(chat, 100)
    assert chat.window(2_000).pack is None
    window = chat.window(2_000, share=0.1)
    assert window.pack.used <= 200 and "The user is called Ada." in str(window.memories)
    assert "The user is called Ada." in window.render().messages[0]["content"]
    assert 2_000 * 0.97 <= window.used <= 2_000, "the conversation takes what the memories leave"
    assert chat.window(2_000, share=0).pack is None


def test_rules_goals_and_preferences_of_the_session_stand_in_front(ledger: Ledger, chat: Session) -> None:
    learned(
        chat,
        ledger,
        ("We only sail by day.", "No ship sails at night.", "rule"),
        ("I like short answers.", "The user likes short answers.", "preference"),
        ("The mast is of oak.", "The mast is of oak.", "knowledge"),
        ("We want a second pier.", "The goal is a second pier.", "goal"),
    )
    for number in range(30):
        ledger.remember(f"Gull number {number} nests on the pier.")
    ledger.session("elsewhere").append("user", "Hello.")
    learned(ledger.session("elsewhere"), ledger, ("Never whistle.", "Nobody whistles aboard.", "rule"))
    talk(chat, 60)
    chat.compact(1_500, until_under=True, **FORGETS)
    for question in (None, "Who nests on the pier?"):
        window = chat.window(1_500, share=0.3, question=question)
        first = [item.content for item in window.pack.items[:3]]
        assert set(first) == {"No ship sails at night.", "The user likes short answers.", "The goal is a second pier."}
        assert question or "The mast is of oak." in of_the_session(window), "what the summary left out"
        assert "Nobody whistles aboard." not in of_the_session(window)


def test_what_the_summaries_left_out_comes_before_what_they_say(ledger: Ledger, chat: Session) -> None:
    for number in range(40):
        learned(
            chat,
            ledger,
            (f"Crane {number} lifts {7 * number} tons.", f"Crane {number} lifts {7 * number} tons.", "knowledge"),
        )
    talk(chat, 60)
    said = "They talked of cranes. " + " ".join(f"Crane {number} lifts {7 * number} tons." for number in range(8, 40))
    chat.compact(3_000, until_under=True, summarizer=lambda request: said)
    window = chat.window(3_000, share=0.05)
    found = {item.content for item in window.pack.items}
    assert {f"Crane {number} lifts {7 * number} tons." for number in range(1, 8)} <= found, (
        "older, and not in the summary"
    )


def test_a_memory_of_a_message_that_the_window_shows_is_not_repeated(ledger: Ledger, chat: Session) -> None:
    learned(chat, ledger, ("The mast is of oak.", "The ship has an oaken mast.", "knowledge"))
    assert chat.window(1_000, share=0.3).memories == ()
    talk(chat, 60)
    chat.compact(1_000, until_under=True, **FORGETS)
    assert "The ship has an oaken mast." in str(chat.window(1_000, share=0.3).memories)


def test_what_the_memories_push_out_of_the_window_is_among_them(ledger: Ledger, chat: Session) -> None:
    """A message that fits without memories and not with them must not be in neither."""
    learned(chat, ledger, ("I was born in Porto. " + words(300), "The user was born in Porto.", "knowledge"))
    for number in range(50):
        ledger.remember(f"Gull number {number} nests on the pier.")
    chat.append("user", "Go on.")
    whole = chat.window(10**6).used
    for budget in range(whole - 100, whole + 200, 7):
        window = chat.window(budget, share=0.3)
        shown = [entry.content for entry in window.entries if entry.shortened is None]
        assert any("Porto" in text for text in (*shown, *window.memories)), budget


def test_without_a_question_no_turn_of_the_session_takes_the_room_of_its_summaries(
    ledger: Ledger, chat: Session
) -> None:
    ledger.session("elsewhere").append("user", "I was born in Porto on a Sunday.")
    for number in range(60):
        chat.append("user", f"I saw gull {number} on the pier, and I counted {number * 7} feathers.")
        chat.append("assistant", "I see.")
    chat.compact(1_000, until_under=True)
    window = chat.window(1_000, share=0.3)
    assert "Porto" in str(window.memories) and "gull" not in str(window.memories)


@pytest.mark.parametrize("bad", [-0.1, 1, 1.5, True, "half", float("nan")])
def test_a_share_out_of_range_is_refused(chat: Session, bad: object) -> None:
    chat.append("user", "Hello.")
    with pytest.raises(RejectedError, match="share is a part of the budget"):
        chat.window(1_000, share=bad)


def test_a_window_with_memories_is_reopened_unchanged(ledger: Ledger, chat: Session) -> None:
    learned(chat, ledger, ("We only sail by day.", "No ship sails at night.", "rule"))
    talk(chat, 60)
    chat.compact(1_000, until_under=True, **FORGETS)
    window = chat.window(1_000, share=0.3, receipt=True)
    again = chat.reopen(window.receipt)
    assert again.memories == window.memories and again.entries == window.entries and again.used == window.used


def test_a_rule_that_is_no_longer_true_stands_in_no_window(ledger: Ledger, chat: Session) -> None:
    turn = ledger.capture("We only sail by day.", "Noted.", session="harbor", append=True)
    rule = ledger.remember("No ship sails at night.", kind="rule", sources=[turn.id])
    talk(chat, 60)
    chat.compact(1_000, until_under=True, **FORGETS)
    assert "No ship sails at night." in str(chat.window(1_000, share=0.3).memories)
    ledger.retract(rule.id, reason="they do now")
    assert "No ship sails at night." not in str(chat.window(1_000, share=0.3).memories)


def test_a_rule_that_leaves_in_a_compaction_is_in_the_window_by_its_share(ledger: Ledger, chat: Session) -> None:
    chat.append("user", "Please never unload crane Ada before 7:15.")
    talk(chat, 60)

    report = chat.compact(1_000, until_under=True, extract=True, **FORGETS)
    for id in report.remembered:
        if ledger.memories.get(id).status == "candidate":
            ledger.promote(id)
    window = chat.window(1_000, share=0.3)
    assert "before 7:15" in str(window.memories)


def test_an_allergy_said_in_march_is_in_the_window_of_december(tmp_path: Path) -> None:
    """A year of an engineer in one session, with a model that learns from it and a summarizer that forgets all of it."""
    year = evaluate_year.load(evaluate_year.YEARS / "engineer.jsonl")
    now = datetime.fromisoformat(year.turns[0]["at"])
    with Ledger.open(
        tmp_path / "year.db", clock=lambda: now, model=evaluate_year.PerfectExtractor(year), **FORGETS
    ) as ledger:
        chat = ledger.session("year")
        for number, turn in enumerate(year.turns, 1):
            now = datetime.fromisoformat(turn["at"])
            chat.extend([{"role": role, "content": turn[role]} for role in ("user", "assistant")])
            if number % 20 == 0:
                chat.compact(4_000, extract=True)
        assert len(ledger.memories.list(limit=500)) > 50, "more than a share of the window holds"
        without, window = (chat.window(4_000, share=share) for share in (None, 0.2))
    assert "allergic to kiwi" in str(window.render().messages) and window.used <= 4_000
    assert "kiwi" not in str(without.render().messages)
