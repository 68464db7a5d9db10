"""Which texts bear each other out: they say nearly the same, and neither says otherwise what the other says.

Texts are compared by their *telling words*: stems without stop words, irregular and everyday forms made one (went, go; likes,
loves). Two are alike when these overlap by 0.6, or by 0.4 where both name the same two things. Rules cannot tell a
paraphrase from another value, so whatever may be one keeps two texts apart: a negation, a past or an intention on one side,
figures, names or opposites of either, and a word where the other has another one at the same place.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Generic, TypeVar

from msgspec import Struct

from ledger.domain import entities, near
from ledger.domain.meaning import AGAINST, SENTENCE, significant
from ledger.domain.observation import WORDS
from ledger.domain.text import words

K = TypeVar("K")
Name = tuple[str, ...]  # the telling words of a name

GROUPING = "grouping/1"
"""Name and version of these rules: other words, patterns or numbers are another version."""

NEAR = 600_000
"""From this overlap of telling words two texts are alike (ours, measured: see ledger/docs/consolidation.md)."""

CLOSE, SHARED_NAMES = 400_000, 2
"""... or from this one, where they share two names (ours)."""

NEIGHBORS, PATIENCE = 32, 12
"""So many near texts are looked at, and so many comparisons are made in vain, before a text stays alone (ours). Among notes
that share nearly all of their words nothing narrows the search, and without this it would take the square of their number."""

READ_CHARS = 10_000
"""So much of a text is compared (ours)."""

WORDING_CHARS = 400
"""A wording takes no more, also where the script has no spaces between words (ours)."""

SENTENCES, SENTENCE_WORDS, SIGNIFICANT = 64, 60, 4
"""Of a turn so many sentences are looked at, of at most so many words, and of at least so many telling ones (ours)."""

_TIMES = """
    monday tuesday wednesday thursday friday saturday sunday january february march april june july august september
    october november december spring summer autumn winter morning noon afternoon evening night midnight
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
_DIRECTING = frozenset(each for pair in _DIRECTIONS for each in pair)
_SIDED = frozenset(("over", "more", "less", "before", "after"))  # "prefers tea over coffee": of two, which is which
_MOMENTS = frozenset(map(significant, _TIMES.split()))


class Compared(Struct, frozen=True):
    """A text as it is compared: its telling words in ``order`` and as a set, what it names, with the words of names and others
    with a capital in order (``named``), its ``figures`` and times, those of digits in order (``numbers``), its
    ``directions`` (before, after), whether it ``denies``, speaks of what is ``past``, ``intended`` or
    has ``changed``, and who speaks."""

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


def read(text: str, given: Iterable[str] = (), speaker: str = "") -> Compared:
    """``given`` are names that it is known to have, besides those that it seems to have."""
    text = text[:READ_CHARS]
    all_words = words(text)
    order = (*filter(None, map(significant, all_words)), *map(str.lower, _ADDRESS.findall(text)))
    named = {tuple(filter(None, map(significant, words(name)))) for name in (*given, *entities.found(text))}
    of_names = {word for name in named for word in name}
    of_names.update(significant(each) for each in words(" ".join(_CAPITAL.findall(text))))
    own = frozenset(order)
    return Compared(
        words=own,
        order=order,
        names=frozenset(name for name in named if name),
        named=tuple(dict.fromkeys(each for each in order if each in of_names)),
        numbers=tuple(each for each in order if any(map(str.isdigit, each))),
        figures=frozenset(each for each in own if each in _MOMENTS or any(map(str.isdigit, each))),
        directions=_DIRECTING.intersection(all_words),
        denies=not near.NEGATIONS.isdisjoint(all_words),
        past=_PAST.search(text) is not None,
        intended=not _MAYBE.isdisjoint(all_words),
        changed=not _SINCE.isdisjoint(all_words),
        speaker=speaker,
    )


def likeness(one: Compared, other: Compared) -> int:
    """How much of their telling words two texts share, in millionths; 0 where they do not bear each other out."""
    how = near.similarity(one.words, other.words)
    if how < NEAR and (how < CLOSE or len(one.names & other.names) < SHARED_NAMES):
        return 0
    return 0 if opposed(one, other) else how


def opposed(one: Compared, other: Compared) -> bool:
    """Whether the one may say something else than the other: another value, or that it is not, was, or is to be so."""
    states = (one.denies, one.past, one.intended, one.speaker)
    if states != (other.denies, other.past, other.intended, other.speaker):
        return True
    if one.changed != other.changed and one.words != other.words:
        return True
    if one.directions != other.directions and _turned(one.directions, other.directions):
        return True
    if not _follows(one.numbers, other.numbers) and not _follows(other.numbers, one.numbers):
        return True
    if _common(one.named, other.named) != _common(other.named, one.named):
        return True  # who did it to whom
    if _SIDED & one.directions & other.directions and _common(one.order, other.order) != _common(
        other.order, one.order
    ):
        return True  # what comes before what
    ours, theirs = one.words - other.words, other.words - one.words
    if not ours or not theirs:
        return False  # the one says all that the other says
    if len(ours) == len(theirs) == 1:
        return True
    if one.figures & ours and other.figures & theirs:
        return True
    if _of_its_own(one, other) and _of_its_own(other, one):
        return True
    if any(not AGAINST.get(each, _NOTHING).isdisjoint(theirs) for each in ours):
        return True
    return not _places(one, other).isdisjoint(_places(other, one))


_NOTHING: set[str] = set()


def _follows(few: Sequence[str], many: Sequence[str]) -> bool:
    """Whether these are among those, in the same order."""
    left = iter(many)
    return all(each in left for each in few)


def _common(ours: Sequence[str], theirs: Sequence[str]) -> list[str]:
    return [each for each in ours if each in theirs]


def _turned(ours: frozenset[str], theirs: frozenset[str]) -> bool:
    """Whether the one goes one way of two, and the other the other."""
    return any(
        (one in ours, other in ours) == (other in theirs, one in theirs) != (one in theirs, other in theirs)
        for one, other in _DIRECTIONS
    )


def _of_its_own(one: Compared, other: Compared) -> bool:
    return any(not other.words.issuperset(name) for name in one.names)


def _places(one: Compared, other: Compared) -> set[tuple[str, str]]:
    """Between which words in common there are others of its own."""
    found, last, inside = set[tuple[str, str]](), "", False
    for each in one.order:
        if each not in other.words:
            inside = True
            continue
        if inside:
            found.add((last, each))
        last, inside = each, False
    return found | {(last, "")} if inside else found


# --- groups ----------------------------------------------------------------------------------------------------------


class Groups(Generic[K]):
    """Texts that each stand for a group, and to which of them a further one belongs.

    A text belongs where it is most like; of equally like ones, to the one with the lowest ``rank``. So texts that come one
    after the other form the same groups however many of them come at a time. ``order`` are words, the rarest first.
    """

    def __init__(self, order: Iterable[str] = ()) -> None:
        self._index = near.Index(NEAR, order)
        self._kept: list[tuple[K, Compared, int]] = []
        self._of_names: dict[tuple[Name, Name], list[int]] = {}

    def add(self, key: K, compared: Compared, rank: int) -> None:
        """One more that a group can form around."""
        if not compared.words:
            return
        number = self._index.add(compared.words)
        self._kept.append((key, compared, rank))
        for pair in _pairs(compared):
            self._of_names.setdefault(pair, []).append(number)

    def nearest(self, compared: Compared) -> K | None:
        if not compared.words:
            return None
        found = dict.fromkeys(
            number for number, _ in self._index.near(compared.words, most=NEIGHBORS, patience=PATIENCE)
        )
        for pair in _pairs(compared):
            found.update(dict.fromkeys(self._of_names.get(pair, ())[-NEIGHBORS:]))
        best: tuple[int, int] | None = None
        answer: K | None = None
        for number in found:
            key, other, rank = self._kept[number]
            how = likeness(compared, other)
            if how and (best is None or (-how, rank) < best):
                best, answer = (-how, rank), key
        return answer


def _pairs(compared: Compared) -> list[tuple[Name, Name]]:
    """Two names each of the first six by the alphabet: any text that shares two of them is found."""
    names = sorted(compared.names)[:6]
    return [(one, other) for at, one in enumerate(names) for other in names[at + 1 :]]


def central(texts: Sequence[Compared]) -> int:
    """Which of these is the most like the others: alike with most of them, then by how much, then the last."""
    ranked = []
    for at, one in enumerate(texts):
        alike = [how for other_at, other in enumerate(texts) if other_at != at and (how := likeness(one, other))]
        ranked.append((len(alike), sum(alike), at))
    return max(ranked)[2]


# --- words -----------------------------------------------------------------------------------------------------------


def wording(text: str) -> str:
    """The text on one line, of at most thirty words: cut after a sentence, else between words, and then with an ellipsis."""
    parts = text.split()
    line = " ".join(parts[:WORDS])
    if len(parts) <= WORDS and len(line) <= WORDING_CHARS:
        return line
    line = line[:WORDING_CHARS]
    ends = [found.end() for found in _END.finditer(line)]
    if ends and ends[-1] >= len(line) // 3:
        return line[: ends[-1]]
    if len(line) == WORDING_CHARS and " " in line:
        line = line.rsplit(" ", 1)[0]
    return line.rstrip(" ,;:–—-") + "…"


def sentences(text: str) -> list[str]:
    """The sentences of a turn that say something: no questions, none of only a few telling words, none without end."""
    found: list[str] = []
    for part in SENTENCE.split(text[:READ_CHARS])[: 4 * SENTENCES]:
        sentence = part.strip()
        if sentence.startswith("["):  # what is shown, and not said
            continue
        if sentence.rstrip("\"'”’)]*_ ").endswith(("?", "？")) or len(sentence.split()) > SENTENCE_WORDS:
            continue
        if len(set(filter(None, map(significant, words(sentence))))) >= SIGNIFICANT:
            found.append(sentence)
    return found[:SENTENCES]
