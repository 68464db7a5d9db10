"""The window of a session: the messages and summaries that stand for the conversation now, in the order of time."""

from __future__ import annotations

from msgspec import Struct

MESSAGE, SUMMARY = "message", "summary"
LEVELS = NORMAL, AGGRESSIVE, FALLBACK = "normal", "aggressive", "fallback"
SUMMARY_KINDS = LEAF, CONDENSED = "leaf", "condensed"

Ranges = tuple[tuple[int, int], ...]


class WindowItem(Struct, frozen=True):
    """One entry of a window, without its text. Its place is the order: a message's position, a summary's oldest message.

    ``position`` is that of the event which has the text; ``messages`` and ``source_tokens`` are what it stands for (1 and
    its own tokens for a message). ``calls`` are the ids of the tool calls that a message makes, ``results`` of those that it
    answers.
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
