"""The admission table (by_source/1): it gives a memory that no person reviewed its status, by the source of the memory."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from ledger.domain.confidence import shown
from ledger.english.foreign import foreign, marked
from ledger.english.words import STOP_WORDS, words
from ledger.extraction.lines import ConversationLine

TABLE = "by_source/1"
"""The table's name and version. Events store the name of the line that admitted a memory, so a change of the table needs a new
version. So does a change of the rule ``foreign/1``, which divides a message into the user's own words and pasted text."""

ACTIVE, CANDIDATE = "active", "candidate"
AGENT_CONFIDENCE = 600_000
"""The greatest confidence of a memory that an agent records by itself, in millionths.

The number is this product's own choice, equal to the confidence of a rule on sentences (``SENTENCE_CONFIDENCE``)."""

_USER = "user"
_ADDED_WORDS = frozenset(("user",))  # a memory often begins with "The user", which the source text need not have


class AdmissionRow(Struct, frozen=True):
    """A line of the table: its case in words (``about``), the status, and the greatest confidence (None for no bound)."""

    name: str
    about: str
    status: str = CANDIDATE
    most: int | None = None

    @property
    def recorded(self) -> str:
        """Return the name of the line in events: the table's name with its version, and the line's name."""
        return f"{TABLE} {self.name}"


OWN_WORDS = AdmissionRow("own_words", "the user says it of himself, in a message of his own", ACTIVE)
CORRECTION = AdmissionRow("correction", "the user corrects an older memory, which a model names", ACTIVE)
QUOTED = AdmissionRow("quoted", "an agent handed it in with the user's own words", ACTIVE, AGENT_CONFIDENCE)
AGENT = AdmissionRow("agent", "an agent remembered it by itself", ACTIVE, AGENT_CONFIDENCE)
ORDER = AdmissionRow("standing_order", "a rule found a standing order in the user's words")
LABELLED = AdmissionRow("labelled", "a rule found it under a label, or in a sentence about no person")
PASTED = AdmissionRow("pasted", "it may be somebody else's text, pasted into the user's message")
ASSISTANT = AdmissionRow("assistant", "only the assistant states it")
OUTSIDE = AdmissionRow("outside", "it came in through another channel than the user's")
UNQUOTED = AdmissionRow("unquoted", "an agent handed it in without a quote of the user's own words")
DECIDED = AdmissionRow("decided", "an agent would change what a person wrote, promoted or revised")

ROWS = (OWN_WORDS, CORRECTION, QUOTED, AGENT, ORDER, LABELLED, PASTED, ASSISTANT, OUTSIDE, UNQUOTED, DECIDED)
_BY_RECORDED = {row.recorded: row for row in ROWS}


def explained(recorded: str) -> str:
    """Return a sentence about a line, by the line's name in events; "" for a memory without a line."""
    if not recorded:
        return ""
    row = _BY_RECORDED.get(recorded)
    if row is None:
        return f"admitted by {recorded}"
    effect = "active at once" if row.status == ACTIVE else "waits for review"
    bound = f", with a confidence of at most {shown(row.most):g}" if row.most is not None else ""
    return f"{effect}{bound}: {row.about} ({recorded})"


def about(recorded: str) -> str:
    """Return the case of a line in words, by the line's name in events; the name itself for a line of another version."""
    row = _BY_RECORDED.get(recorded)
    return row.about if row is not None else recorded


def of_channel(channel: str) -> AdmissionRow:
    """Return the line for a memory that a caller other than a person states in a call such as ``remember``.

    Such a memory comes from no message or turn, so the line follows from the channel alone.
    """
    return AGENT if channel == "agent" else OUTSIDE


def of_finding(line: ConversationLine, start: int, end: int, *, of_himself: bool, is_order: bool) -> AdmissionRow:
    """Return the line for a memory that a rule found in the characters ``start`` to ``end`` of a message."""
    if line.role != _USER:
        return ASSISTANT
    if line.channel != _USER:
        return OUTSIDE
    if any(first < end and start < last for first, last in foreign(line.text)):
        return PASTED
    return ORDER if is_order else OWN_WORDS if of_himself else LABELLED


def of_handed_in(
    content: str,
    cited: Iterable[ConversationLine],
    lines: Iterable[ConversationLine],
    *,
    quoted: tuple[ConversationLine, int, int] | None,
    claimed: bool,
    changes_decided: bool,
) -> AdmissionRow:
    """Return the line for a memory that an agent read in the conversation and handed in.

    The agent is no person, and nobody checked that its answer follows from what it read. So the user's own words must stand in
    a line of the user: ``quoted`` has that line, and the characters of the quote.
    """
    row = of_proposal(content, cited, lines, claimed=claimed, corrects=False, channels=(_USER, "agent"))
    if row.status != ACTIVE:
        return row
    if changes_decided:
        return DECIDED
    if quoted is None:
        return UNQUOTED
    line, start, end = quoted
    return PASTED if any(first < end and start < last for first, last in marked(line.text)) else QUOTED


def of_proposal(
    content: str,
    cited: Iterable[ConversationLine],
    lines: Iterable[ConversationLine],
    *,
    claimed: bool,
    corrects: bool,
    channels: tuple[str, ...] = (_USER,),
) -> AdmissionRow:
    """Return the line for a memory that a model found; the model cites some of the ``lines`` that it was shown.

    A model names messages and no characters. So the content may be pasted if one of its words is in a pasted part of the user's
    lines and not among the user's own words in the cited lines. A line of other ``channels`` than these comes from outside.
    """
    if claimed:
        return ASSISTANT
    by_user = [line for line in cited if line.role == _USER]
    if any(line.channel not in channels for line in cited):
        return OUTSIDE
    own, pasted, whole = set[str](), set[str](), True
    for line in lines:
        if line.role != _USER:
            continue
        own_words, pasted_words = _divided(line)
        pasted |= pasted_words
        if line in by_user:
            own |= own_words
            whole = whole and not pasted_words
    about = set(words(content)) - STOP_WORDS - _ADDED_WORDS
    if about & (pasted - own) or (not whole and not about & own):
        return PASTED
    return CORRECTION if corrects else OWN_WORDS


def _divided(line: ConversationLine) -> tuple[set[str], set[str]]:
    """Return the user's own words in a line, and the words of the parts that may be pasted."""
    own, pasted, at = list[str](), list[str](), 0
    for start, end in marked(line.text):
        own.append(line.text[at:start])
        pasted.append(line.text[start:end])
        at = end
    own.append(line.text[at:])
    return set(words("\n".join(own))), set(words("\n".join(pasted)))
