"""The items of a session's window: the messages and summaries that now stand for the conversation, oldest first."""

from __future__ import annotations

from msgspec import Struct

MESSAGE, SUMMARY = "message", "summary"
LEVELS = NORMAL, AGGRESSIVE, EXCERPT, FALLBACK = "normal", "aggressive", "excerpt", "fallback"
UNWRITTEN = frozenset((EXCERPT, FALLBACK))  # the levels without a model's words: such a summary is never condensed
SUMMARY_KINDS = LEAF, CONDENSED = "leaf", "condensed"

Ranges = tuple[tuple[int, int], ...]


class WindowItem(Struct, frozen=True):
    """An entry of a window, without its text.

    ``place`` gives the order: the position of a message, or the position of a summary's oldest message. ``position`` is the
    position of the event that has the text. ``messages`` and ``source_tokens`` are the number and the size of the messages that
    the entry stands for (1 and its own tokens for a message). ``calls`` are the ids of the tool calls that a message makes,
    ``results`` the ids of the calls that it answers.
    """

    kind: str
    position: int
    place: int
    tokens: int
    time: str
    role: str = ""
    calls: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    id: str = ""  # the id of a summary
    summary_kind: str = ""
    depth: int = -1
    level: str = ""
    messages: int = 1
    source_tokens: int = 0
    ranges: Ranges = ()  # the ranges of the messages that a summary stands for

    @property
    def is_summary(self) -> bool:
        return self.kind == SUMMARY
