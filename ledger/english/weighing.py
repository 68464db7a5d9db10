"""The weight of a sentence in a conversation: how much would be lost if the sentence were (excerpt/1).

Orders and prohibitions, limits, corrections and goals are known by words of closed lists, in the languages of the guards
(``weighing.txt``). The other signs need no list: who speaks, figures, words that are rare in the conversation, and a form that
asks or only agrees.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property, lru_cache
from heapq import nsmallest
from importlib.resources import files
from itertools import chain
from math import ceil, log
from types import MappingProxyType

from msgspec import Struct
from msgspec.structs import replace

from ledger.domain.late import late
from ledger.english.words import STOP_WORDS, words

RULE = "excerpt/1"
"""The name and version of the rule. Other words, weights or signs are another version."""

HEAD = 6
"""Of longer words so many first letters count, so that most inflected forms are one word."""

WEIGHTS: Mapping[str, float] = MappingProxyType(
    {
        "order": 1.0,
        "limit": 1.0,
        "correction": 1.0,
        "goal": 1.0,
        "every": 1.0,
        "denial": 1.0,
        "figure": 1.0,
        "rare": 3.0,
        "user": 3.0,
        "system": 3.0,
        "tool": -2.0,
        "asks": -2.5,
        "code": -2.0,
        "small": -4.0,
    }
)
"""The signs of a sentence with their weights (ours, of 110 combinations on six conversations; measured.md has what each wins)."""

LISTED = frozenset(("order", "limit", "correction", "goal", "every", "denial"))
"""The signs that are known by words of the lists. The first of a sentence counts whole, each further one half."""

READ_CHARS = 100_000
"""The most characters of a message that are weighed (our choice)."""

FEW_WORDS = 3
"""In a sentence of fewer words no word of the lists counts, because it says little by itself."""

SMALL_WORDS = 8
"""A longer sentence is no small talk."""

RAREST = 3
"""So many of the rarest words of a sentence say how rare it is."""

SAME = 0.8
"""A sentence that shares so much of its words with a weightier one repeats it."""

# A single set of characters comes first, so that the search jumps to them.
_ENDS = re.compile(r"(?:[。！？\n]|(?<![.!?…])[.!?…]++[\"'”’»)\]*_]*+(?=\s))\s*")  # a row of dots is read once
_GOES_ON = late(
    r"(?:^|[\s(])(?:\d{1,2}|[^\W\d_]|[Dd]r|Mr|Mrs|Ms|St|[Nn]o|[Nn]r|vs|bzw|ca|[Ee]\.g|i\.e|z\.B|approx|etc)\.\s*$"
)
_BEFORE = "([{\"'“„«*"
FIRST_PERSON = ("I", "I'm", "I'd", "I've", "I'll", "I’m", "I’d", "I’ve", "I’ll")
_MARKED = late(r"[/@_\d](?:(?<=\d)(?:[^\W\d_]|[-:/]\d)|(?<=[^\W\d_]\d)|(?<=[/@_])\w)")
PHRASE, SMALL = "phrase", "small"  # the mark of a word of a phrase; the sign of small talk
MOST_WORDS = 50_000  # the most words whose signs are remembered
_UNSPACED_LANGUAGES = ("zh", "ja")
_FENCE = "```"


class _Words(Struct, frozen=True):
    """The words of the lists: signs by the head of a word, phrases by their longest word, texts without spaces, small talk."""

    by_head: Mapping[str, frozenset[str]]
    phrases: Mapping[str, tuple[tuple[str, str], ...]]
    unspaced: tuple[tuple[str, str], ...]
    small: frozenset[str]

    def of_phrases(self, said: Sequence[str]) -> set[str]:
        spoken = f" {' '.join(said)} "
        return {kind for word in self.phrases.keys() & said for phrase, kind in self.phrases[word] if phrase in spoken}


@cache
def _words() -> _Words:
    by_head, phrases = dict[str, frozenset[str]](), dict[str, tuple[tuple[str, str], ...]]()
    without_spaces, small = list[tuple[str, str]](), set[str]()
    kind = language = ""
    for line in (files("ledger") / "english" / "weighing.txt").read_text(encoding="utf-8").splitlines():
        named, colon, listed = line.partition(": ")
        if line.startswith("#") or not line.strip():
            continue
        if not line.startswith(" "):
            kind = line.strip()
            continue
        language, listed = (named.strip(), listed) if colon else (language, line)
        for word in listed.split():
            folded = words(word.replace("_", " "))
            if language in _UNSPACED_LANGUAGES:
                without_spaces.append((word, kind))
            elif kind == SMALL:
                small.update(folded)
            elif len(folded) == 1:
                head = folded[0][:HEAD]
                by_head[head] = by_head.get(head, frozenset()) | {kind}
            else:  # the longest word is the rarest, and few sentences are looked through
                longest = max(folded, key=len)
                phrases[longest] = (*phrases.get(longest, ()), (f" {' '.join(folded)} ", kind))
    return _Words(by_head, phrases, tuple(without_spaces), frozenset(small) | STOP_WORDS)


class _Signs(dict[str, frozenset[str]]):
    """The signs of a word, found at its first use."""

    def __missing__(self, word: str) -> frozenset[str]:
        if len(self) > MOST_WORDS:
            self.clear()
        known = _words()
        signs = known.by_head.get(word[:HEAD], frozenset())
        signs |= {PHRASE} if word in known.phrases else set()
        self[word] = signs = signs | {"figure"} if any(map(str.isdigit, word)) else signs
        return signs


_signs = _Signs()


class MessageToWeigh(Struct, frozen=True):
    """A message to weigh: its position, its role, its text, its speaker's name and its time."""

    position: int
    role: str
    text: str
    speaker: str = ""
    time: str = ""

    @property
    def dated(self) -> str:
        """Return the text as a summarizer reads it: with who speaks, and the time."""
        return f"{self.role}{f' {self.speaker}' if self.speaker else ''} ({self.time[:16]}): {self.text}"

    @property
    def head(self) -> str:
        """Return the beginning of the line of an excerpt: the position and who speaks."""
        return f"#{self.position} {self.role}{f' {self.speaker}' if self.speaker else ''}: "


class Sentence(Struct, frozen=True, dict=True):
    """A sentence of a message: the index of the message, its place in the text, its words, signs and weight."""

    message: int
    start: int
    text: str
    said: Sequence[str]
    signs: frozenset[str]
    weight: float

    @cached_property
    def heads(self) -> frozenset[str]:
        """Return the words, the longer ones by their first letters."""
        return frozenset([word[:HEAD] for word in self.said])


def sentences(text: str) -> Iterator[tuple[int, str]]:
    """Yield the sentences and lines of a text with their places; the full stop of a number or an abbreviation ends none."""
    start = 0
    for end in _ENDS.finditer(text):
        if (
            text[end.start()] == "."
            and "\n" not in end[0]
            and _GOES_ON.search(text, max(start, end.start() - 8), end.start() + 1)
        ):
            continue
        if sentence := text[start : end.end()].strip():
            yield start, sentence
        start = end.end()
    if sentence := text[start:].strip():
        yield start, sentence


def weighed(messages: Iterable[MessageToWeigh], most: int) -> Iterator[Sentence]:
    """Yield the weightiest sentences of messages, the weightiest first, of equal weight the newest.

    The time is in proportion to the texts. The signs that cost more are looked for in at most ``most`` sentences.

    Args:
        messages: The messages, oldest first.
        most: The most sentences.
    """
    found = list(chain.from_iterable(_of_message(at, message) for at, message in enumerate(messages)))
    chosen = found if len(found) <= most else nsmallest(most, found, key=_order)
    seen = Counter(chain.from_iterable(sentence.heads for sentence in chosen))
    return _without_repeats(sorted((_closely(sentence, seen, len(chosen)) for sentence in chosen), key=_order), seen)


def weights(texts: Sequence[str]) -> list[float]:
    """Return the weight of each text among the others: that of its weightiest sentence, said by nobody."""
    found = [0.0] * len(texts)
    for sentence in weighed([MessageToWeigh(0, "", text) for text in texts], sum(map(len, texts))):
        found[sentence.message] = max(found[sentence.message], sentence.weight)
    return found


def _order(sentence: Sentence) -> tuple[float, int, int]:
    return -sentence.weight, -sentence.message, sentence.start


def _of_message(at: int, message: MessageToWeigh) -> list[Sentence]:
    """Return the sentences of a message with the weight of the signs that cost little."""
    found, role, is_code = list[Sentence](), message.role if message.role in WEIGHTS else "", False
    for start, text in sentences(message.text[:READ_CHARS]):
        said = words(text)
        signs = _united(frozenset(map(_signs.__getitem__, said)), role)
        if is_code or len(said) <= SMALL_WORDS or PHRASE in signs or text[-1] in "?？" or not text.isascii():
            signs = _seen(text, said, signs, role)
            if text.startswith(_FENCE):
                is_code = not is_code
            if is_code:
                signs |= {"code"}
        found.append(Sentence(at, start, text, said, signs, _weight(signs)))
    return found


def _seen(text: str, said: Sequence[str], signs: frozenset[str], role: str) -> frozenset[str]:
    """Return the signs of a sentence whose words alone do not tell: of phrases, of small talk, of a question."""
    known = _words()
    if PHRASE in signs:
        signs |= known.of_phrases(said)
    if not text.isascii():
        signs |= {kind for word, kind in known.unspaced if word in text}
    if len(said) <= SMALL_WORDS and known.small.issuperset(said):
        signs = frozenset({SMALL})
    elif len(said) < FEW_WORDS and text.isascii():
        signs &= {role, "figure"}
    signs -= {PHRASE}
    return signs | {"asks"} if text[-1] in "?？" else signs


@lru_cache(MOST_WORDS)
def _united(of_words: frozenset[frozenset[str]], role: str) -> frozenset[str]:
    return frozenset({role} if role else ()).union(*of_words)


@cache
def _weight(signs: frozenset[str]) -> float:
    listed = sorted((WEIGHTS[sign] for sign in signs & LISTED), reverse=True)
    return sum(WEIGHTS[sign] for sign in signs - LISTED) + sum(listed[:1]) + sum(listed[1:]) / 2


def _closely(sentence: Sentence, seen: Counter[str], count: int) -> Sentence:
    """Return the sentence with the weight of its words that are rare among the sentences."""
    rare = sorted(log(count / seen[head]) for head in sentence.heads if head not in STOP_WORDS)[-RAREST:]
    more = WEIGHTS["rare"] * sum(rare) / (RAREST * log(count)) if rare and count > 1 else 0.0
    return replace(sentence, weight=sentence.weight + more)


def names_something(text: str) -> bool:
    """Return True if a sentence names something: by a capital within it, or by signs or digits among letters."""
    if text.lower() != text and any(
        token.lstrip(_BEFORE)[:1].isupper() and token not in FIRST_PERSON for token in text.split()[1:]
    ):
        return True
    return _MARKED.search(text) is not None


def _without_repeats(ranked: Iterable[Sentence], seen: Counter[str]) -> Iterator[Sentence]:
    """Yield sentences without those that repeat a weightier one, or one of equal weight that is newer.

    A sentence that shares four fifths of its words with another shares one of its rarest fifth with it.
    """
    by_head = dict[str, list[Sentence]]()
    for sentence in ranked:
        said = sentence.heads - STOP_WORDS
        if len(said) >= FEW_WORDS:
            rarest = sorted(said, key=seen.__getitem__)[: len(said) - ceil(SAME * len(said)) + 1]
            others = chain.from_iterable(by_head.get(head, ()) for head in rarest)
            if any(len(said & other.heads) >= SAME * len(said) for other in others):
                continue
            for head in said:
                by_head.setdefault(head, []).append(sentence)
        yield sentence
