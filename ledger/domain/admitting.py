"""The table by which a memory is admitted that nobody reviewed: who said it decides (by_source/1)."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from ledger.domain import confidence as rules
from ledger.domain.foreign import foreign, marked
from ledger.domain.text import STOP_WORDS, words
from ledger.domain.turns import Line

TABLE = "by_source/1"
"""Name and version: another table, or another division of a message (``foreign/1``), is another version."""

ACTIVE, CANDIDATE = "active", "candidate"
AGENT_CONFIDENCE = 600_000
"""The most confidence of what an agent remembers by itself, in millionths (ours; as a sentence rule's)."""

_USER = "user"
_OF_NOBODY = frozenset(("user",))  # how every memory begins, which no text has to say


class Row(Struct, frozen=True):
    """One line of the table: what it is about, the status that it gives, and the most confidence, None for no bound."""

    name: str
    about: str
    status: str = CANDIDATE
    most: int | None = None

    @property
    def recorded(self) -> str:
        """The line as an event has it: its name, and the table's with its version."""
        return f"{TABLE} {self.name}"


OWN_WORDS = Row("own_words", "the user says it of himself, in a message of his own", ACTIVE)
CORRECTION = Row("correction", "the user corrects an older memory, which a model names", ACTIVE)
AGENT = Row("agent", "an agent remembered it by itself", ACTIVE, AGENT_CONFIDENCE)
ORDER = Row("standing_order", "a rule found a standing order in the user's words")
LABELLED = Row("labelled", "a rule found it under a label, or said of no person")
PASTED = Row("pasted", "it may be somebody else's text in the user's message")
ASSISTANT = Row("assistant", "only the assistant states it")
OUTSIDE = Row("outside", "it came in through another channel than the user's")

ROWS = (OWN_WORDS, CORRECTION, AGENT, ORDER, LABELLED, PASTED, ASSISTANT, OUTSIDE)
_BY_RECORDED = {row.recorded: row for row in ROWS}


def explained(recorded: str) -> str:
    """Return a sentence about a line of the table as an event has it; "" for a memory without one."""
    if not recorded:
        return ""
    row = _BY_RECORDED.get(recorded)
    if row is None:
        return f"admitted by {recorded}"
    effect = "active at once" if row.status == ACTIVE else "waits for review"
    bound = f", with a confidence of at most {rules.shown(row.most):g}" if row.most is not None else ""
    return f"{effect}{bound}: {row.about} ({recorded})"


def about(recorded: str) -> str:
    """Return what a line of the table is about, in words; the recorded name for one of another version."""
    row = _BY_RECORDED.get(recorded)
    return row.about if row is not None else recorded


def of_channel(channel: str) -> Row:
    """Return the line for a memory that is given as a whole, and not by a person."""
    return AGENT if channel == "agent" else OUTSIDE


def of_finding(line: Line, start: int, end: int, *, of_himself: bool, is_order: bool) -> Row:
    """Return the line for what a rule found in these characters of a line."""
    if line.role != _USER:
        return ASSISTANT
    if line.channel != _USER:
        return OUTSIDE
    if any(first < end and start < last for first, last in foreign(line.text)):
        return PASTED
    return ORDER if is_order else OWN_WORDS if of_himself else LABELLED


def of_proposal(content: str, cited: Iterable[Line], lines: Iterable[Line], *, claimed: bool, corrects: bool) -> Row:
    """Return the line for what a model found: it cites some of the ``lines`` that it was shown.

    A model names messages and no characters. So a word of the content that stands in a pasted part of any of the user's lines,
    and in his own words nowhere among the cited ones, puts the content in doubt.
    """
    if claimed:
        return ASSISTANT
    by_user = [line for line in cited if line.role == _USER]
    if any(line.channel != _USER for line in cited):
        return OUTSIDE
    own, pasted, whole = set[str](), set[str](), True
    for line in lines:
        if line.role != _USER:
            continue
        kept, taken = _divided(line)
        pasted |= taken
        if line in by_user:
            own |= kept
            whole = whole and not taken
    about = set(words(content)) - STOP_WORDS - _OF_NOBODY
    if about & (pasted - own) or (not whole and not about & own):
        return PASTED
    return CORRECTION if corrects else OWN_WORDS


def _divided(line: Line) -> tuple[set[str], set[str]]:
    """The words of a line that are the user's own, and those of its parts in doubt."""
    own, pasted, at = list[str](), list[str](), 0
    for start, end in marked(line.text):
        own.append(line.text[at:start])
        pasted.append(line.text[start:end])
        at = end
    own.append(line.text[at:])
    return set(words("\n".join(own))), set(words("\n".join(pasted)))
