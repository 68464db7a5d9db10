"""Summaries that were written elsewhere: an import brings them with what they stand for, and no model is asked."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from ledger import Ledger, NotFoundError, RejectedError


def told(ledger: Ledger, count: int = 8) -> list[int]:
    """Append messages of two months, and return their positions."""
    chat = ledger.session("chat")
    return [
        chat.append(
            "user" if number % 2 == 0 else "assistant", f"Message {number}.", occurred_at=f"2024-0{1 + number // 4}-01"
        ).position
        for number in range(count)
    ]


def test_summaries_come_in_with_their_messages_and_parents(ledger: Ledger) -> None:
    at, chat = told(ledger, 9), ledger.session("chat")
    one = chat.summaries.add("January.", at[:4], model="gpt-4o", token_count=7)
    two = chat.summaries.add("February.", [chat.message(place).id for place in at[4:8]])
    both = chat.summaries.add("Two months.", [one.id, two.id])
    assert (one.kind, one.depth, one.messages, one.model, one.tokens, one.status) == (
        "leaf",
        0,
        4,
        "gpt-4o",
        7,
        "window",
    )
    assert (one.earliest[:10], two.earliest[:10], one.ranges) == ("2024-01-01", "2024-02-01", ((at[0], at[3]),))
    assert (both.kind, both.depth, both.messages, both.summaries) == ("condensed", 1, 8, (one.id, two.id))
    assert (both.descendants, both.descendant_tokens) == (2, one.tokens + two.tokens)
    assert [(item.kind, item.messages) for item in chat.items()] == [("summary", 8), ("message", 1)]
    assert {row.id: row.status for row in chat.summaries.list()} == {
        one.id: "under",
        two.id: "under",
        both.id: "window",
    }
    assert [message.position for message in chat.expand(both.id).messages] == at[:8]
    assert "Two months." in str(chat.window(4000).to_dict())


def test_an_added_summary_is_undone_and_kept_by_a_rebuild(ledger: Ledger) -> None:
    at, chat = told(ledger), ledger.session("chat")
    made = chat.summaries.add("January.", at[:4])
    ledger.maintenance.rebuild()
    assert list(chat.summaries.list()) == [made]
    ledger.undo(made.position)
    assert len(chat.items()) == 8
    ledger.redo(made.position)
    assert len(chat.items()) == 5


def test_an_added_summary_can_be_rewritten_invalidated_and_compacted(ledger: Ledger) -> None:
    at, chat = told(ledger), ledger.session("chat")
    made = chat.summaries.add("January.", at[:4])
    better = chat.summaries.rewrite(made.id, summarizer=lambda request: "Jan.")
    assert (better.content, better.replaces) == ("Jan.", made.id)
    chat.summaries.invalidate(better.id)
    assert len(chat.items()) == 8
    assert chat.summaries.add("January again.", at[:4]).status == "window"


def test_a_batch_brings_messages_and_their_summary_in_one_commit(ledger: Ledger) -> None:
    chat = ledger.session("chat")
    with ledger.batch():
        at = told(ledger)
        made = chat.summaries.add("January.", at[:4])
    assert (made.messages, made.content) == (4, "January.")


def test_the_same_key_gives_the_same_summary(ledger: Ledger) -> None:
    at, chat = told(ledger), ledger.session("chat")
    made = chat.summaries.add("January.", at[:4], idempotency_key="y1")
    chat.summaries.add("February.", at[4:])
    again = chat.summaries.add("January.", at[:4], idempotency_key="y1")
    assert (made.replayed, again.replayed, replace(again, replayed=False)) == (False, True, made)


def test_secrets_are_taken_out_of_an_added_summary(ledger: Ledger) -> None:
    at, chat = told(ledger), ledger.session("chat")
    made = chat.summaries.add("The key is AKIAIOSFODNN7EXAMPLE.", at[:4])
    assert "AKIA" not in (made.content or "")


def test_the_erasure_of_a_message_reaches_an_added_summary(ledger: Ledger) -> None:
    at, chat = told(ledger), ledger.session("chat")
    made = chat.summaries.add("January.", at[:4])
    ledger.erase(chat.message(at[0]).id, derived="erase", quotes="erase")
    (row,) = chat.summaries.list()
    assert (row.id, row.content, row.status) == (made.id, None, "erased")


NOT_A_STRETCH: dict[str, Any] = {
    "a gap": lambda chat, at, y: [at[4], at[6]],
    "under another summary": lambda chat, at, y: at[3:6],
    "a summary between": lambda chat, at, y: [at[0], at[7]],
    "both kinds": lambda chat, at, y: [y, at[4]],
    "nothing": lambda chat, at, y: [],
    "one text": lambda chat, at, y: "45",
    "true": lambda chat, at, y: [True],
}


@pytest.mark.parametrize("name", NOT_A_STRETCH)
def test_sources_that_are_no_stretch_of_the_window_are_refused(ledger: Ledger, name: str) -> None:
    at, chat = told(ledger), ledger.session("chat")
    made = chat.summaries.add("In the middle.", at[2:4])
    before = chat.items()
    with pytest.raises(RejectedError, match=r"stretch|sources"):
        chat.summaries.add("Wrong.", NOT_A_STRETCH[name](chat, at, made.id))
    assert chat.items() == before


def test_summaries_with_messages_between_them_are_no_stretch(ledger: Ledger) -> None:
    at, chat = told(ledger), ledger.session("chat")
    one, two = chat.summaries.add("A.", at[:2]), chat.summaries.add("B.", at[4:6])
    with pytest.raises(RejectedError, match="no stretch"):
        chat.summaries.add("Both.", [one.id, two.id])
    chat.summaries.invalidate(one.id)
    with pytest.raises(RejectedError, match="not in the window"):
        chat.summaries.add("Again.", [one.id])


def test_a_message_of_another_session_is_not_found(ledger: Ledger) -> None:
    at, chat = told(ledger), ledger.session("chat")
    other = ledger.session("other").append("user", "Elsewhere.")
    for source in (other.position, other.id, at[-1] + 99, "y_0000000000000000", "x"):
        with pytest.raises(NotFoundError):
            chat.summaries.add("Wrong.", [source])
    with pytest.raises(NotFoundError):
        ledger.session("none").summaries.add("Wrong.", [1])
