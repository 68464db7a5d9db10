"""Excerpts: the weightiest sentences of messages, word for word, for a summary without a model and for the rest of a window.

A line of an excerpt is a message: ``#334 user: I never fly at night. … My seat is 14C.`` The number is the message's position,
by which ``expand`` reads all of it. Lines are in the order of time, and ``…`` stands for the sentences between.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby

from msgspec import Struct

from ledger.domain.late import late
from ledger.english import weighing
from ledger.english.weighing import MessageToWeigh, Sentence

RULE = weighing.RULE
CLOSE_PART, FEWEST_CLOSE = 4, 24
"""Looked at closely are four times as many sentences as an excerpt can hold, and at least 24 (our choice)."""

SENTENCE_TOKENS = 16
"""About the tokens of a sentence."""

MISSES, PASSES = 32, 3
"""After so many sentences that do not fit an excerpt is full; the times that what did not fit is tried."""

OWNERS = frozenset(("user", "system"))
MUST = frozenset(("order", "limit", "correction"))
"""The roles and the signs of sentences that a summary must not lose."""

GAP = " … "
_AROUND = ".,;:!?…()[]{}\"'“”„«»’*"
_LINE = late(r"^#(\d{1,19}) ", re.M)


def excerpt(
    messages: Sequence[MessageToWeigh],
    most: int,
    count: Callable[[str], int],
    whole: Callable[[str], int] | None = None,
) -> str:
    """Return the weightiest sentences of messages, as many as fit; "" if no sentence fits.

    Args:
        messages: The messages, oldest first.
        most: The most tokens.
        count: A function that counts the tokens of a text.
        whole: A function that returns the size of the whole excerpt, if that is more than its tokens.
    """
    whole = whole or count
    ranked: Iterable[Sentence] = weighing.weighed(messages, max(FEWEST_CLOSE, CLOSE_PART * most // SENTENCE_TOKENS))
    chosen, named, spent = list[Sentence](), set[int](), whole("")
    for _ in range(PASSES):  # the sum of the parts is more than the whole, so that some room is left for the next pass
        missed = list[Sentence]()
        for sentence in ranked:
            head = "" if sentence.message in named else f"\n{messages[sentence.message].head}"
            cost = count(head + sentence.text) + 1
            if spent + cost > most:
                missed.append(sentence)
                if len(missed) > MISSES:
                    break
                continue
            spent += cost
            named.add(sentence.message)
            chosen.append(sentence)
        ranked, spent = missed, whole(_text(messages, chosen))
    while chosen and whole(_text(messages, chosen)) > most:
        chosen.pop()
    return _text(messages, chosen)


def _text(messages: Sequence[MessageToWeigh], chosen: Iterable[Sentence]) -> str:
    lines = list[str]()
    ordered = sorted(chosen, key=lambda sentence: (sentence.message, sentence.start))
    for at, group in groupby(ordered, key=lambda sentence: sentence.message):
        text, parts, end = messages[at].text, list[str](), None
        for sentence in group:
            if end is not None:
                parts.append(GAP if text[end : sentence.start].strip() else " ")
            parts.append(" ".join(sentence.text.split()))
            end = sentence.start + len(sentence.text)
        lines.append(messages[at].head + "".join(parts))
    return "\n".join(lines)


class Kept(Struct, frozen=True):
    """A sentence that a summary must not lose, as the line of an excerpt, with the words by which it is recognised."""

    line: str
    marks: tuple[str, ...]

    def stands_in(self, text: str) -> bool:
        """Return True if a folded text has all marks of the sentence."""
        return all(mark in text for mark in self.marks)


def must_keep(messages: Sequence[MessageToWeigh], most: int, count: Callable[[str], int]) -> list[Kept]:
    """Return the weightiest orders, limits, corrections, and names with figures of the user and the system.

    Args:
        messages: The messages, oldest first; only those of users and the system are read.
        most: The most tokens of all lines.
        count: A function that counts the tokens of a text.
    """
    own = [message for message in messages if message.role in OWNERS]
    kept = list[Kept]()
    for sentence in weighing.weighed(own, max(FEWEST_CLOSE, CLOSE_PART * most // SENTENCE_TOKENS)):
        if most < SENTENCE_TOKENS:
            break
        if not sentence.signs & MUST and not ("figure" in sentence.signs and weighing.names_something(sentence.text)):
            continue
        line = f"{own[sentence.message].head}{' '.join(sentence.text.split())}"
        if (cost := count(line) + 1) <= most and (marks := _marks(sentence)):
            kept.append(Kept(line, marks))
            most -= cost
    return kept


def lost(keep: Iterable[Kept], text: str) -> list[Kept]:
    """Return the sentences that a summary lost."""
    folded = text.casefold()
    return [kept for kept in keep if not kept.stands_in(folded)]


def _marks(sentence: Sentence) -> tuple[str, ...]:
    """Return the figures and names of a sentence, else its two longest words, folded."""
    tokens = [token.strip(_AROUND) for token in sentence.text.split()]
    marks = [token for token in tokens if any(map(str.isdigit, token)) or (token[:1].isupper() and token != tokens[0])]
    marks = [token for token in marks if token not in weighing.FIRST_PERSON] or sorted(tokens, key=len)[-2:]
    return tuple(token.casefold() for token in marks if token)


def lines_of(text: str) -> list[MessageToWeigh]:
    """Return the lines of excerpts in a text, as messages."""
    return [MessageToWeigh(int(found[1]), found[2], found[4], found[3].strip()) for found in _PARTS.finditer(text)]


def positions(text: str) -> list[int]:
    """Return the positions of the messages that an excerpt names."""
    return [int(position) for position in _LINE.findall(text)]


def shorter(text: str, chars: int) -> str:
    """Return an excerpt's weightiest lines in order, as many as ``chars`` characters hold."""
    lines = text.split("\n")
    said = [_said(line) for line in lines]
    weights = dict[int, float]()
    for sentence in weighing.weighed(said, len(text)):
        weights[sentence.message] = max(weights.get(sentence.message, sentence.weight), sentence.weight)
    kept = set[int]()
    for at in sorted(weights, key=lambda at: (-weights[at], -at)):
        if len(lines[at]) + 1 <= chars:
            chars -= len(lines[at]) + 1
            kept.add(at)
    return "\n".join(line for at, line in enumerate(lines) if at in kept)


def part(text: str, chars: int) -> str:
    """Return the weightiest sentences of a text in order, as many as ``chars`` characters hold; else its beginning."""
    message = MessageToWeigh(0, "", text)
    chosen, left = list[Sentence](), chars
    for sentence in weighing.weighed([message], max(FEWEST_CLOSE, chars // SENTENCE_TOKENS)):
        if len(sentence.text) + len(GAP) <= left:
            chosen.append(sentence)
            left -= len(sentence.text) + len(GAP)
    whole = _text([message], chosen).removeprefix(message.head)
    return whole if len(whole) * 2 >= chars else text[:chars]


_PARTS = re.compile(r"^#(\d++) (\w++)([^:\n]*+): (.*)$", re.M)


def _said(line: str) -> MessageToWeigh:
    parts = _PARTS.fullmatch(line)
    return (
        MessageToWeigh(int(parts[1]), parts[2], parts[4], parts[3].strip())
        if parts is not None
        else MessageToWeigh(0, "", line)
    )
