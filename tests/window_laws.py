"""The laws of every window that a session gives, by plain rules on what was said and what the window shows.

How a window is best put together is for the product to say; what is here is what nobody may find broken in any of them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from providers import check_anthropic, check_openai

MARK = "\n[shortened: "
SHORTEST = 64  # tokens that are left of a shortened tool result, at the least
AROUND = 300  # tokens, more than the element around a summary takes, with the ids of the summaries that it is made of


@dataclass(frozen=True)
class Said:
    """A message as it was appended: ``content`` of a tool's message is the result's text."""

    role: str
    content: str | None
    tokens: int
    calls: tuple[str, ...] = ()
    results: tuple[str, ...] = ()

    @property
    def asks(self) -> bool:
        """Return True if a user's turn begins with this message."""
        return self.role == "user" and not self.results

    @property
    def least(self) -> int:
        """Return the tokens of the message when its tool results are cut as short as possible."""
        return min(self.tokens, SHORTEST * len(self.results)) if self.results else self.tokens


def check(window: Any, said: dict[int, Said], hidden: set[int], summaries: dict[str, Any], tail: int) -> None:
    """Check every law of one window.

    Args:
        window: The window to check.
        said: All messages of the session, by position.
        hidden: The positions of the messages that are hidden.
        summaries: The summaries that may stand in the window, by id.
        tail: The number of items up to which the last user turn loses none of its items.
    """
    shown = {at: each for at, each in said.items() if at not in hidden}
    direct = {each.item.position: each for each in window.entries if not each.item.is_summary}
    standing = [each.item for each in window.entries if each.item.is_summary]
    under = Counter(at for at in shown for item in standing for first, last in item.ranges if first <= at <= last)
    nothing_twice_and_nothing_unaccounted(window, shown, direct, standing, under, summaries)
    texts_are_as_they_were_said(shown, direct)
    the_request_is_there(window, shown, direct, summaries, tail)
    summaries_have_their_share(window, shown, direct, standing, summaries)
    assert window.over_budget == (window.used > window.budget)
    check_openai(window.render().messages)
    check_anthropic(window.render("anthropic").messages)


def nothing_twice_and_nothing_unaccounted(
    window: Any,
    shown: dict[int, Said],
    direct: dict[int, Any],
    standing: list[Any],
    under: Counter[int],
    summaries: dict[str, Any],
) -> None:
    """Check that each message is in the window, covered by a summary there, or counted as left out."""
    places = [each.item.place for each in window.entries]
    assert places == sorted(set(places)), "in the order of time"
    assert direct.keys() <= shown.keys(), "nothing that was hidden"
    assert all(count == 1 for count in under.values()) and not direct.keys() & under.keys(), "nothing twice"
    assert {item.id for item in standing} <= summaries.keys()
    assert window.evicted.messages == len(shown) - len(direct) - len(under)
    covered = {at for at in shown for each in summaries.values() for first, last in each.ranges if first <= at <= last}
    assert window.evicted.items == len(shown) - len(covered) + len(summaries) - len(window.entries)
    assert window.summaries_evicted == len(summaries) - len(standing)
    known = {each.position for each in summaries.values()}
    for at, _ in window.left_out:
        assert at not in direct and (at in shown or at in known)


def texts_are_as_they_were_said(shown: dict[int, Said], direct: dict[int, Any]) -> None:
    """Check that only marked texts differ from the messages.

    Shortened are results of the turn under way, the oldest first, and messages of the first step in the window.
    """
    for at, entry in direct.items():
        if entry.shortened is None:
            assert entry.content == shown[at].content
        else:
            text, mark, _ = entry.content.rpartition(MARK)
            assert mark and entry.item.tokens <= shown[at].tokens
            assert shown[at].content.startswith(text) or not shown[at].results
    short = [at for at, entry in direct.items() if entry.shortened is not None]
    older = [at for at in direct if short and at < max(short) and shown[at].results]
    asked = max((at for at, each in shown.items() if each.asks), default=0)
    first = sorted(direct)
    begun = next((number for number, at in enumerate(first[1:], 1) if not (shown[at].calls or shown[at].results)), 0)
    assert all(at > asked or at in first[: begun or len(first)] for at in short), "or of the first step in the window"
    assert all(at in short or shown[at].tokens <= shown[at].least for at in older if at > asked)


def the_request_is_there(
    window: Any, shown: dict[int, Said], direct: dict[int, Any], summaries: dict[str, Any], tail: int
) -> None:
    """Check that the window holds the whole newest user message and the last step of its turn.

    The window is over the budget only if these cannot take less.
    """
    if not shown:
        return
    asked = max((at for at, each in shown.items() if each.asks), default=None)
    covered = [span for each in summaries.values() for span in each.ranges]
    if asked is not None and any(first <= asked <= last for first, last in covered):
        return  # what came after it was hidden since; the summary stands for it
    if asked is not None:
        assert asked in direct and direct[asked].shortened is None, (asked, window.reasons, window.left_out)
    if asked is None:
        return
    turn = [at for at in shown if at > asked and not any(first <= at <= last for first, last in covered)]
    called = {name for at in turn for name in shown[at].calls if shown[at].role == "assistant"}
    step = next(
        (number for number, at in reversed(list(enumerate(turn))) if shown[at].role == "assistant"), len(turn) - 1
    )
    newest = turn[max(step, 0) :]
    assert all(at in direct for at in newest if called.issuperset(shown[at].results)), "its last step"
    if window.over_budget and window.unit == "tokens":
        request = shown[asked].tokens
        whole = request + sum(shown[at].tokens for at in newest)
        short = request + sum(shown[at].least for at in turn)
        assert whole > window.budget or (len(turn) < tail and short > window.budget), "more than it has to be"
        assert "turn_over_budget" in window.reasons


def summaries_have_their_share(
    window: Any, shown: dict[int, Said], direct: dict[int, Any], standing: list[Any], summaries: dict[str, Any]
) -> None:
    """Check that older messages never push out a summary that fits the share kept for summaries."""
    asked = max((at for at, each in shown.items() if each.asks), default=0)
    missing = [each.tokens for id, each in summaries.items() if id not in {item.id for item in standing}]
    older = [at for at in direct if at < asked]
    if missing and older and window.unit == "tokens":
        taken = sum(item.tokens + AROUND for item in standing)
        assert taken + min(missing) + AROUND > int(window.budget * 0.2), "there was room for it"
