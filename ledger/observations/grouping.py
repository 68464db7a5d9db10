"""The comparison of texts by rules: two texts support each other if they say nearly the same and do not contradict.

Texts are compared by their *telling words*: stems without stop words, with irregular and everyday forms made one (went and go;
likes and loves). Two texts are alike if their telling words overlap by 0.6, or by 0.4 if both have two names in common. Rules
cannot distinguish a paraphrase from another value, so any sign of another value keeps two texts apart: a negation, a past or an
intention in only one of them, different figures, names or opposites, and different words at the same place.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Generic, TypeVar

from msgspec import Struct

from ledger.english import entities, near
from ledger.english.dates import SURE_DATES
from ledger.english.meaning import AGAINST, SENTENCE, significant
from ledger.english.words import NEGATIONS, words
from ledger.observations.rules import WORDS

K = TypeVar("K")
Name = tuple[str, ...]  # the telling words of a name

GROUPING = "grouping/1"
"""The name and version of these rules. A change of the words, patterns or numbers below needs a new version."""

NEAR = 600_000
"""The least overlap of telling words of two alike texts (our choice, measured: see ledger/docs/consolidation.md)."""

CLOSE, SHARED_NAMES = 400_000, 2
"""The least overlap of two alike texts that have two names in common (our choice)."""

NEIGHBORS, PATIENCE = 32, 12
"""The most near texts that are compared, and the most comparisons without a match, before a text stays alone (our choice).
Without these limits the time for notes that share nearly all of their words would grow with the square of their number."""

READ_CHARS = 10_000
"""The most characters of a text that are compared (our choice)."""

WORDING_CHARS = 400
"""The most characters of a wording, for scripts without spaces between words (our choice)."""

SENTENCES, SENTENCE_WORDS, SIGNIFICANT = 64, 60, 4
"""The most sentences of a turn that are read, the most words of each, and its least telling words (our choice)."""

_TIMES = """
    spring summer autumn winter morning noon afternoon evening night midnight
    daily weekly monthly yearly today tomorrow yesterday first second third once twice half double
"""
_SIDES = "before after | on off | up down | above below | more less | over under | in out | most least"
_PAST = re.compile(
    r"\b(?:used to|no longer|any ?more|formerly|previously|former|ex|stopped|quit|gave up|until|was|were|had been|switched)\b",
    re.IGNORECASE,
)
_INTENDED = """
    want wants wanted plan plans planned planning hope hopes hoped hoping wish wishes may might could would should consider
    considers considering thinking intends intend going try tries trying tried maybe perhaps if whether unless almost
    nearly soon dream dreams dreaming
"""
_SINCE = frozenset(("now", "nowadays", "currently", "instead", "meanwhile"))
_ADDRESS = re.compile(r"(?<![\w.+-])[\w.+-]++(?:@|://)[\w./-]*\w")
_CAPITAL = re.compile(r"\b[^\W\d_a-z][\w'’]*")
_END = re.compile(r"[.!?…。！？][\"'”’)\]]*(?=\s|$)")


_MAYBE = frozenset(_INTENDED.split())


_DIRECTIONS = [(pair[0], pair[1]) for pair in map(str.split, _SIDES.split("|"))]
_DIRECTING = frozenset(direction for pair in _DIRECTIONS for direction in pair)
_SIDED = frozenset(
    ("over", "more", "less", "before", "after")
)  # "prefers tea over coffee": the order of the two matters
_MOMENTS = frozenset(map(significant, (*SURE_DATES, *_TIMES.split())))


class Compared(Struct, frozen=True):
    """A text prepared for comparison.

    ``words`` are the telling words as a set, ``order`` the same in order. ``names`` are the names; ``named`` are the words of
    names and other capitalised words, in order. ``figures`` are the words with digits and the words for times; ``numbers`` are
    the words with digits, in order. ``directions`` are words such as before and after. The flags are True if the text ``denies``
    something, or speaks of the ``past``, of an intention (``intended``) or of a change (``changed``).
    """

    words: frozenset[str]
    order: tuple[str, ...]
    names: frozenset[Name]
    named: tuple[str, ...]
    figures: frozenset[str]
    numbers: tuple[str, ...]
    directions: frozenset[str]
    denies: bool
    past: bool
    intended: bool
    changed: bool
    speaker: str


def read(text: str, known_names: Iterable[str] = (), speaker: str = "") -> Compared:
    """Prepare a text for comparison; ``known_names`` are names besides those that the text itself shows."""
    text = text[:READ_CHARS]
    all_words = words(text)
    order = (*filter(None, map(significant, all_words)), *map(str.lower, _ADDRESS.findall(text)))
    named = {tuple(filter(None, map(significant, words(name)))) for name in (*known_names, *entities.found(text))}
    of_names = {word for name in named for word in name}
    of_names.update(significant(word) for word in words(" ".join(_CAPITAL.findall(text))))
    own = frozenset(order)
    return Compared(
        words=own,
        order=order,
        names=frozenset(name for name in named if name),
        named=tuple(dict.fromkeys(word for word in order if word in of_names)),
        numbers=tuple(word for word in order if any(map(str.isdigit, word))),
        figures=frozenset(word for word in own if word in _MOMENTS or any(map(str.isdigit, word))),
        directions=_DIRECTING.intersection(all_words),
        denies=not NEGATIONS.isdisjoint(all_words),
        past=_PAST.search(text) is not None,
        intended=not _MAYBE.isdisjoint(all_words),
        changed=not _SINCE.isdisjoint(all_words),
        speaker=speaker,
    )


def likeness(left: Compared, right: Compared) -> int:
    """Return the overlap of the telling words of two texts, in millionths; 0 if the texts do not support each other."""
    overlap = near.similarity(left.words, right.words)
    if overlap < NEAR and (overlap < CLOSE or len(left.names & right.names) < SHARED_NAMES):
        return 0
    return 0 if opposed(left, right) else overlap


def opposed(left: Compared, right: Compared) -> bool:
    """Return True if two texts may contradict each other: another value, or a negation, a past or an intention in one."""
    states = (left.denies, left.past, left.intended, left.speaker)
    if states != (right.denies, right.past, right.intended, right.speaker):
        return True
    if left.changed != right.changed and left.words != right.words:
        return True
    if left.directions != right.directions and _turned(left.directions, right.directions):
        return True
    if not _follows(left.numbers, right.numbers) and not _follows(right.numbers, left.numbers):
        return True
    if _common(left.named, right.named) != _common(right.named, left.named):
        return True  # the roles of the names differ
    if _SIDED & left.directions & right.directions and _common(left.order, right.order) != _common(
        right.order, left.order
    ):
        return True  # "tea over coffee" and "coffee over tea"
    only_left, only_right = left.words - right.words, right.words - left.words
    if not only_left or not only_right:
        return False  # a text has all telling words of the other
    if len(only_left) == len(only_right) == 1:
        return True
    if left.figures & only_left and right.figures & only_right:
        return True
    if _has_own_name(left, right) and _has_own_name(right, left):
        return True
    if any(not AGAINST.get(word, _NOTHING).isdisjoint(only_right) for word in only_left):
        return True
    return not _gaps(left, right).isdisjoint(_gaps(right, left))


_NOTHING: set[str] = set()


def _follows(few: Sequence[str], many: Sequence[str]) -> bool:
    """Return True if the words of ``few`` are all in ``many``, in the same order."""
    remaining = iter(many)
    return all(word in remaining for word in few)


def _common(left: Sequence[str], right: Sequence[str]) -> list[str]:
    return [word for word in left if word in right]


def _turned(ours: frozenset[str], theirs: frozenset[str]) -> bool:
    """Return True if the texts have opposite words of a pair, such as before in one and after in the other."""
    return any(
        (first in ours, second in ours) == (second in theirs, first in theirs) != (first in theirs, second in theirs)
        for first, second in _DIRECTIONS
    )


def _has_own_name(text: Compared, other_text: Compared) -> bool:
    """Return True if a text has a name whose words are not all in the other text."""
    return any(not other_text.words.issuperset(name) for name in text.names)


def _gaps(text: Compared, other_text: Compared) -> set[tuple[str, str]]:
    """Return the pairs of successive common words between which the text has words that the other text lacks."""
    gaps, last, inside = set[tuple[str, str]](), "", False
    for word in text.order:
        if word not in other_text.words:
            inside = True
            continue
        if inside:
            gaps.add((last, word))
        last, inside = word, False
    return gaps | {(last, "")} if inside else gaps


# --- groups ----------------------------------------------------------------------------------------------------------


class Groups(Generic[K]):
    """The groups of a scope, each represented by one text, and the search for the group of a further text.

    A text joins the group with the most similar text; of equally similar texts the one with the lowest ``rank`` counts. So the
    same texts form the same groups, however they are divided into pages. ``order`` are the words of the scope, rarest first.
    """

    def __init__(self, order: Iterable[str] = ()) -> None:
        self._index = near.NearIndex(NEAR, order)
        self._entries: list[tuple[K, Compared, int]] = []
        self._of_names: dict[tuple[Name, Name], list[int]] = {}

    def add(self, key: K, compared: Compared, rank: int) -> None:
        """Add a text around which a group can form."""
        if not compared.words:
            return
        number = self._index.add(compared.words)
        self._entries.append((key, compared, rank))
        for pair in _pairs(compared):
            self._of_names.setdefault(pair, []).append(number)

    def nearest(self, compared: Compared) -> K | None:
        if not compared.words:
            return None
        candidates = dict.fromkeys(
            number for number, _ in self._index.near(compared.words, most=NEIGHBORS, patience=PATIENCE)
        )
        for pair in _pairs(compared):
            candidates.update(dict.fromkeys(self._of_names.get(pair, ())[-NEIGHBORS:]))
        best: tuple[int, int] | None = None
        answer: K | None = None
        for number in candidates:
            key, candidate, rank = self._entries[number]
            overlap = likeness(compared, candidate)
            if overlap and (best is None or (-overlap, rank) < best):
                best, answer = (-overlap, rank), key
        return answer


def _pairs(compared: Compared) -> list[tuple[Name, Name]]:
    """Return all pairs of the first six names in alphabetical order; the index finds texts that share such a pair."""
    names = sorted(compared.names)[:6]
    return [(first, second) for at, first in enumerate(names) for second in names[at + 1 :]]


def central(texts: Sequence[Compared]) -> int:
    """Return the index of the most central text: alike with most texts, then with the largest overlaps, then the last."""
    ranked = []
    for at, text in enumerate(texts):
        alike = [
            overlap
            for other_at, other_text in enumerate(texts)
            if other_at != at and (overlap := likeness(text, other_text))
        ]
        ranked.append((len(alike), sum(alike), at))
    return max(ranked)[2]


# --- words -----------------------------------------------------------------------------------------------------------


def wording(text: str) -> str:
    """Return the text on one line with at most thirty words.

    A longer text is cut after a sentence if that keeps a third of the line; else between words, with an ellipsis.
    """
    parts = text.split()
    line = " ".join(parts[:WORDS])
    if len(parts) <= WORDS and len(line) <= WORDING_CHARS:
        return line
    line = line[:WORDING_CHARS]
    ends = [match.end() for match in _END.finditer(line)]
    if ends and ends[-1] >= len(line) // 3:
        return line[: ends[-1]]
    if len(line) == WORDING_CHARS and " " in line:
        line = line.rsplit(" ", 1)[0]
    return line.rstrip(" ,;:–—-") + "…"


def sentences(text: str) -> list[str]:
    """Return the sentences of a turn that state something.

    Questions, sentences of more than 60 words, and sentences with fewer than four telling words are left out.
    """
    telling_sentences: list[str] = []
    for part in SENTENCE.split(text[:READ_CHARS])[: 4 * SENTENCES]:
        sentence = part.strip()
        if sentence.startswith("["):  # a placeholder of shown content, not a statement
            continue
        if sentence.rstrip("\"'”’)]*_ ").endswith(("?", "？")) or len(sentence.split()) > SENTENCE_WORDS:
            continue
        if len(set(filter(None, map(significant, words(sentence))))) >= SIGNIFICANT:
            telling_sentences.append(sentence)
    return telling_sentences[:SENTENCES]
