"""Windows for the tests of compaction, assembly and rendering: items in few words, and any sequence of them."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st
from msgspec.structs import replace

from ledger.sessions.rules.window import CONDENSED, FALLBACK, LEAF, MESSAGE, NORMAL, SUMMARY, WindowItem


def message(
    role: str = "user", tokens: int = 100, *, calls: Sequence[str] = (), results: Sequence[str] = (), place: int = 0
) -> WindowItem:
    return WindowItem(
        MESSAGE, place, place, tokens, "2026-01-01T12:00:00Z", role, tuple(calls), tuple(results), source_tokens=tokens
    )


def user(tokens: int = 100) -> WindowItem:
    return message("user", tokens)


def said(tokens: int = 100) -> WindowItem:
    return message("assistant", tokens)


def call(*ids: str, tokens: int = 100) -> WindowItem:
    return message("assistant", tokens, calls=ids)


def result(*ids: str, tokens: int = 100) -> WindowItem:
    return message("tool", tokens, results=ids)


def summary(
    depth: int = 0, tokens: int = 1_000, *, level: str = NORMAL, messages: int = 10, source_tokens: int = 20_000
) -> WindowItem:
    return WindowItem(
        SUMMARY,
        0,
        0,
        tokens,
        "2026-01-01T12:00:00Z",
        summary_kind=CONDENSED if depth else LEAF,
        depth=depth,
        level=level,
        messages=messages,
        source_tokens=source_tokens,
    )


def cut(messages: int = 10, tokens: int = 500, source_tokens: int = 20_000) -> WindowItem:
    return summary(0, tokens, level=FALLBACK, messages=messages, source_tokens=source_tokens)


def window(*items: WindowItem) -> list[WindowItem]:
    """Place items in their order, each after the messages that the item before stands for."""
    placed, place = list[WindowItem](), 1
    for item in items:
        last = place + item.messages - 1
        if item.is_summary:
            item = replace(item, id=f"m_{place}", ranges=((place, last),))
        placed.append(replace(item, position=last if item.is_summary else place, place=place))
        place = last + 1
    return placed


TOKENS = st.integers(0, 300) | st.integers(0, 5_000) | st.integers(0, 50_000)
IDS = st.lists(st.sampled_from(["a", "b", "c", ""]), max_size=3)


@st.composite
def any_items(draw: st.DrawFn) -> WindowItem:
    """Draw any item that could stand in a window, sensible or not."""
    tokens = draw(TOKENS)
    if draw(st.integers(0, 3)) == 0:
        depth, level = draw(st.integers(0, 3)), draw(st.sampled_from([NORMAL, "aggressive", FALLBACK]))
        sources = draw(st.sampled_from([500, 9_000, 20_000, 60_000]))
        return summary(depth, tokens, level=level, messages=draw(st.integers(1, 50)), source_tokens=sources)
    role = draw(st.sampled_from(["user", "assistant", "tool", "assistant", "tool", "system", "critic"]))
    return message(role, tokens, calls=draw(IDS), results=draw(IDS))


ANY_WINDOWS = st.lists(any_items(), max_size=80).map(lambda items: window(*items))


@st.composite
def a_turn(draw: st.DrawFn) -> list[WindowItem]:
    """Draw a user's message, some calls with all their results, and an answer, as providers keep a turn."""
    turn = [user(draw(TOKENS))]
    for _ in range(draw(st.integers(0, 4))):
        ids = [f"call_{number}" for number in range(draw(st.integers(1, 3)))]
        turn += [call(*ids, tokens=draw(TOKENS)), *(result(name, tokens=draw(TOKENS)) for name in ids)]
    return [*turn, said(draw(TOKENS))]


@st.composite
def turns_of_two_steps(draw: st.DrawFn) -> list[WindowItem]:
    """Draw a user's message, up to two steps of short calls with results of any size, and an answer."""
    turn = [user(draw(TOKENS))]
    for _ in range(draw(st.integers(0, 2))):
        ids = [f"call_{number}" for number in range(draw(st.integers(1, 3)))]
        turn += [call(*ids, tokens=draw(st.integers(0, 50))), *(result(name, tokens=draw(TOKENS)) for name in ids)]
    return [*turn, said(draw(TOKENS))]


@st.composite
def conversations(draw: st.DrawFn) -> list[WindowItem]:
    """Draw a window of older summaries and whole turns."""
    old = draw(st.lists(st.builds(summary, st.integers(0, 3), st.integers(1, 3_000)), max_size=6))
    turns = draw(st.lists(a_turn(), min_size=1, max_size=12))
    return window(*old, *(item for turn in turns for item in turn))
