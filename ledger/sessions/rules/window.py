"""The window of a session: the messages and summaries that stand for the conversation now, in the order of time."""

from __future__ import annotations

from msgspec import Struct

MESSAGE, SUMMARY = "message", "summary"
LEVELS = NORMAL, AGGRESSIVE, FALLBACK = "normal", "aggressive", "fallback"
SUMMARY_KINDS = LEAF, CONDENSED = "leaf", "condensed"

Ranges = tuple[tuple[int, int], ...]


class WindowItem(Struct, frozen=True):
    """An entry of a window, without its text.

    ``place`` gives the order: the position of a message, or the position of a summary's oldest message. ``position`` is the
    position of the event that has the text. ``messages`` and ``source_tokens`` are the amount that the entry stands for (1 and
    its own tokens for a message). ``calls`` are the ids of the tool calls that a message makes, ``results`` those of the calls
    that a message answers.
    """

    kind: str
    position: int
    place: int
    tokens: int
    time: str
    role: str = ""
    calls: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    id: str = ""  # of a summary
    summary_kind: str = ""
    depth: int = -1
    level: str = ""
    messages: int = 1
    source_tokens: int = 0
    ranges: Ranges = ()  # of the messages that a summary stands for

    @property
    def is_summary(self) -> bool:
        return self.kind == SUMMARY
