"""How candidates are ranked: what of the question their words match, what their neighbors and session add, how vectors and
confidence weigh in. Pure: scores in, scores out, each with the signals that it was made of.

``score/3``, for a text x of a session S, in the order of the steps:

    words(x)    (BM25, each word of the question and its other forms taken as one, + idf of each pair of words that stand
                together there as in the question) x (1/2 + 1/2 the share of the question's idf that x matches); of a turn
                without any of them a tenth of what the words of its date have: 2023 may 8 monday
    + context   0.3, 0.2, 0.1 x words(y) of the turns y one, two and three away, where x is short; half as much again from
                a turn before that asks
    + session   1/2 the mean of the three best of S
    fused       0.6 x that / the best of all + 0.4 x the cosine, min-max over all candidates; with words alone the first
    x boosts    each bounded: who is named, I and my, a date near, a time told, a bare question, a rule of the user's, confidence,
                kind

What context, session and factors add to turns is taken off all of them alike before they stand next to memories and chunks.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from operator import attrgetter

from msgspec import Struct

from ledger.domain.confidence import ONE
from ledger.domain.late import late
from ledger.domain.passages import ASSISTANTS, PEOPLE, speaker
from ledger.domain.question import Question, folded, indexed_words, nearness, split, unspaced
from ledger.domain.times import day_of

K1, B = 1.2, 0.75
DAY = 0.1  # of what its date says, for a turn that itself says nothing of the question
COVERAGE = 0.5
PHRASE = 1.0
NEIGHBORS = (0.3, 0.2, 0.1)  # of the turns one, two and three away, on both sides
SHORT_CHARS = 500  # a longer text speaks for itself and borrows nothing
ASKED = 0.5
SESSION = 0.5
SESSION_BEST = 3
NAMED = 0.5
FIRST_PERSON = 0.5
NEAR_DAY = 1.0
DAYS_BEFORE, DAYS_AFTER = 3, 7
TIME_NAMED = 0.1
BARE_QUESTION = 0.2
VECTOR = 0.4
CONFIDENCE = 0.2  # what is not believed at all counts this much less
KIND_WEIGHTS = {"identity": 1.1, "user_profile": 1.1, "preference": 1.05, "env": 1.05}

RULE = 0.5

SCORE, RUBINO = "score/3", "rubino/1"
RANKINGS = (SCORE, RUBINO)

_WORD = re.compile(r"[^\W_]+")
_TIME_WORD = re.compile(
    r"\b(yesterday|today|tonight|tomorrow|ago|last|next|recently|since|weekend|(?:day|week|month|year)s?"
    r"|this (?:morning|summer|past)|(?:mon|tues|wednes|thurs|fri|satur|sun)day"
    r"|january|february|march|april|june|july|august|september|october|november|december|\d{4})\b",
    re.IGNORECASE,
)

_WHAT_WAS = frozenset(["did", "was", "were", "had", "have", "has", "been", "ve", "happened"])
_MARKS = ("always", "never", "from now on", "going forward", "prefer", "rather")  # the pattern asks for one of these
_RULE = late(
    r"^\W*(?:(?:please|and|also|in (?:the )?future)\W+)*(?:always|never)\b|\b(?:from now on|going forward)\b"
    r"|\b(?:always|never)\b[^.?!\n]{0,120}\bwhen(?:ever)? i\b"
    r"|\bi(?:['’]d| would)?(?: really| always| usually| generally| much| also)? prefer\b"
    r"|\bi(?:['’]d| would) rather\b|\bmy (?:preference|preferred)\b"
)


class Candidate(Struct):
    """One text that may answer, as it is ranked: ``key`` tells it from the others of its corpus. Of equals the newer comes
    first: by ``time`` (since when a memory holds, when a turn was said), then by ``position``."""

    key: int
    corpus: str  # "memory", "turn" (a message is one, too) or "chunk"
    text: str
    position: int
    row: int
    bm25: float = 0.0
    cosine: float | None = None
    group: str | None = None  # its session, within which turns lend each other their scores
    role: str = ""  # "prompt" or "response" of a turn
    speaker: str = ""  # of a turn, folded, where it is known by a name
    whole: int = 0  # characters of the text that this is a passage of
    time: str = ""
    kind: str = ""
    confidence: int = ONE
    words: float = 0.0
    share: float = 0.0  # of the question's weight, that its words have
    score: float = 0.0
    signals: dict[str, float] = {}

    @property
    def match(self) -> float:
        """How much of the question it has, from 0 to 1 whatever else there is: by its words, or by its vector where that
        says more."""
        return min(1.0, max(self.share, self.cosine or 0.0))


class Terms(Struct, frozen=True):
    """A question as its stems: each concept's, their weights (idf), and the pairs of them that stand together in it."""

    concepts: tuple[frozenset[str], ...]
    weights: tuple[float, ...]
    pairs: tuple[tuple[int, int, float], ...]
    mean: float  # words of a text of the index
    runs: tuple[tuple[str, float], ...]  # words of scripts without spaces, found as they are
    total: float  # of all weights
    missing: float  # what nothing stored says weighs as the rarest
    met: Met  # the concepts that a word is of


class Met:
    """The words that were met in texts, and of those that have any the concepts. ``heads`` are how every stem begins, which
    no stemmer changes: two characters, or one of the shortest."""

    def __init__(self, of_stem: dict[str, tuple[int, ...]], stem: Callable[[str], str]) -> None:
        self._of_stem, self._stem = of_stem, stem
        self._heads = frozenset(each[:2] if len(each) > 2 else each[:1] for each in of_stem)
        self._met = set[str]()
        self._of_word: dict[str, tuple[int, ...]] = {}

    def concepts_of(self, words: set[str]) -> list[tuple[str, tuple[int, ...]]]:
        """Those of some words that have concepts, with these."""
        if fresh := words - self._met:
            heads = self._heads
            for word in fresh:
                if (word[:2] in heads or word[:1] in heads) and (of := self._of_stem.get(self._stem(word))):
                    self._of_word[word] = of
            self._met |= fresh
        return [(word, self._of_word[word]) for word in self._of_word.keys() & words]

    @property
    def concepts(self) -> set[int]:
        """The concepts that some text had."""
        return {concept for concepts in self._of_word.values() for concept in concepts}


def terms(question: Question, stem: Callable[[str], str], idf: Callable[[Iterable[str]], float], mean: float) -> Terms:
    found, weights, runs = list[frozenset[str]](), list[float](), list[tuple[str, float]]()
    by_word: dict[str, int] = {}
    for forms in question.concepts:
        if len(forms[0]) > 1 and unspaced(forms[0]):
            runs.append((forms[0], 1.0))
            continue
        by_word[forms[0]] = len(found)
        found.append(frozenset(map(stem, forms)))
        weights.append(idf(found[-1]))
    pairs = [
        (by_word[left], by_word[right], min(weights[by_word[left]], weights[by_word[right]]))
        for left, right in dict.fromkeys(pairwise(question.words))
        if left != right and left in by_word and right in by_word
    ]
    of_stem: dict[str, tuple[int, ...]] = {}
    for at, stems in enumerate(found):
        for each in stems:
            of_stem[each] = (*of_stem.get(each, ()), at)
    total = sum(weights) + sum(weight for _, weight in runs)
    missing = weights.count(0.0) * max(weights, default=0.0)
    shared = (tuple(found), tuple(weights), tuple(pairs), max(mean, 1.0), tuple(runs))
    return Terms(*shared, total, missing, Met(of_stem, stem))


def word_score(text: str, terms: Terms) -> tuple[float, float]:
    """The score of a text's words, and the share (0 to 1) of the question's weight, by idf, that it has.

    The score is BM25, more for pairs of words that stand together, less for what of the question is missing.

    A text's own words and the rarity of the question's are all that it takes, so that a text is scored alike wherever it
    is kept: in the index, before it, or as it was once.
    """
    places, length, together = _places(text, terms)
    norm = K1 * (1 - B + B * length / terms.mean)
    score = matched = 0.0
    for concept in sorted(places):
        times, weight = len(places[concept]), terms.weights[concept]
        score += weight * times * (K1 + 1) / (times + norm)
        matched += weight
    for run, weight in terms.runs:
        if times := together.count(run):
            score += weight * times * (K1 + 1) / (times + norm)
            matched += weight
    for left, right, weight in terms.pairs:
        if left in places and right in places:
            after = {at + 1 for at in places[left]}
            if not after.isdisjoint(places[right]):
                score += PHRASE * weight
    covered = matched / terms.total if terms.total else 0.0
    return score * (1 - COVERAGE + COVERAGE * covered), matched / (terms.total + terms.missing) if matched else 0.0


def matched(text: str, terms: Terms) -> int:
    """How many of the question's telling words a text has, in whatever form."""
    places, _, together = _places(text, terms)
    return len(places) + sum(run in together for run, _ in terms.runs)


def _places(text: str, terms: Terms) -> tuple[dict[int, list[int]], int, str]:
    """Where in a text the concepts of the question stand, counted in words, and how many words there are; and where the
    question has runs, the text as a phrase of the index, which knows no other signs."""
    words = indexed_words(text)
    found: dict[int, list[int]] = {}
    for word, concepts in terms.met.concepts_of(set(words)):
        places = [words.index(word)]
        for _ in range(words.count(word) - 1):
            places.append(words.index(word, places[-1] + 1))
        for concept in concepts:
            found[concept] = [*found[concept], *places] if concept in found else places
    return found, len(words), "".join(_WORD.findall(folded(text))) if terms.runs else ""


# --- the company a text keeps ----------------------------------------------------------------------------------------


def with_context(candidates: Sequence[Candidate], around: Mapping[str, Sequence[int]]) -> None:
    """Adds to each short turn what its neighbors have; ``around`` has the keys of every session's turns in their order."""
    own = {(each.group, each.key): each for each in candidates if each.group is not None}
    gained: list[tuple[Candidate, float]] = []
    for group, keys in around.items():
        for at, key in enumerate(keys):
            receiver = own.get((group, key))
            if receiver is None or receiver.whole >= SHORT_CHARS:
                continue
            gain = 0.0
            for distance, weight in enumerate(NEIGHBORS, 1):
                for there in (at - distance, at + distance):
                    giver = own.get((group, keys[there])) if 0 <= there < len(keys) else None
                    if giver is not None:
                        asked = ASKED if there == at - 1 and "?" in giver.text else 0.0
                        gain += weight * (1 + asked) * giver.words
            gained.append((receiver, gain))
    for receiver, gain in gained:  # only now, so that nothing is passed on twice
        receiver.score += gain
        if gain:
            receiver.signals["context"] = gain


def with_sessions(candidates: Sequence[Candidate]) -> None:
    """Adds to each turn what the best of its session have."""
    groups: dict[str, list[float]] = defaultdict(list)
    for each in candidates:
        if each.group is not None:
            groups[each.group].append(each.score)
    level = {group: SESSION * sum(sorted(scores)[-SESSION_BEST:]) / SESSION_BEST for group, scores in groups.items()}
    for each in candidates:
        if each.group is not None and level[each.group]:
            each.signals["session"] = level[each.group]
            each.score += level[each.group]


# --- the end of it ---------------------------------------------------------------------------------------------------


def fuse(candidates: Sequence[Candidate]) -> None:
    """Words and vectors as one score from 0 to 1."""
    best = max((each.score for each in candidates), default=0.0) or 1.0
    cosines = [each.cosine for each in candidates if each.cosine is not None]
    low, high = min(cosines, default=0.0), max(cosines, default=0.0)
    share = VECTOR if cosines else 0.0
    for each in candidates:
        parts = {name: (1 - share) * value / best for name, value in each.signals.items()}
        each.score = (1 - share) * each.score / best
        if each.cosine is not None:
            parts["vector"] = share * ((each.cosine - low) / (high - low) if high > low else 1.0)
            each.score += parts["vector"]
        each.signals = parts


def boost(each: Candidate, question: Question) -> None:
    """Multiplies the score by what speaks for and against the text besides its words; every factor is a signal."""
    factors: dict[str, float] = {}
    if each.corpus == "turn":
        factors = _turn_factors(each, question)
    if each.corpus == "memory":
        factors["confidence"] = 1 - CONFIDENCE + CONFIDENCE * each.confidence / ONE
        factors["kind"] = KIND_WEIGHTS.get(each.kind, 1.0)
    if question.days and (day := day_of(each.time)) is not None:
        near = max(nearness(named, day, before=DAYS_BEFORE, after=DAYS_AFTER) for named in question.days)
        factors["date"] = 1 + NEAR_DAY * near
    for name, factor in factors.items():
        if factor != 1:
            each.signals[name] = factor
            each.score *= factor


def _turn_factors(each: Candidate, question: Question) -> dict[str, float]:
    name, person = who(each)
    factors: dict[str, float] = {}
    if name and name not in (*PEOPLE, *ASSISTANTS) and not set(split(name)).isdisjoint(question.words):
        factors["named"] = 1 + NAMED
    if person and question.first_person:
        factors["first person"] = 1 + FIRST_PERSON
    if question.when and _TIME_WORD.search(each.text):
        factors["time"] = 1 + TIME_NAMED
    if person and _WHAT_WAS.isdisjoint(question.words) and is_rule(each.text):
        factors["rule"] = 1 + RULE
    if not person and each.text.rstrip().endswith("?"):
        factors["question"] = 1 - BARE_QUESTION
    return factors


def who(each: Candidate) -> tuple[str, bool]:
    """Who speaks in a turn, "" for nobody by name, and whether it is the user."""
    name = each.speaker or folded(speaker(each.text)[0])
    return name, name in PEOPLE if name else each.role == "prompt"


def is_rule(text: str) -> bool:
    """Return True if a user says what holds from then on: a rule for the answers, or a preference."""
    plain = text.lower()
    return any(mark in plain for mark in _MARKS) and _RULE.search(speaker(plain)[1]) is not None


def by_score(candidates: list[Candidate], question: Question, around: Mapping[str, Sequence[int]]) -> list[Candidate]:
    """Return the candidates by ``score/3``, best first; ``words`` of each are set, and its score becomes the whole."""
    for each in candidates:
        each.score, each.signals = each.words, {"text": each.words} if each.words else {}
    turns = [each for each in candidates if each.corpus == "turn"]
    with_context(candidates, around)
    with_sessions(candidates)
    factor = _levelled(turns, max((each.words for each in turns), default=0.0))
    for each in turns:
        each.signals = {name: value * factor for name, value in each.signals.items()}
    fuse(candidates)
    plain = max((each.score for each in turns), default=0.0)
    for each in candidates:
        boost(each, question)
    if (factor := _levelled(turns, plain)) != 1:
        for each in turns:
            each.signals["level"] = factor
    return best_first([each for each in candidates if each.score > 0], "score")


def _levelled(turns: Sequence[Candidate], most: float) -> float:
    """Brings the best turn back to ``most``, and all others with it; by which factor, 1 where it is not above.

    What its company and the factors add ranks turns among each other. Beside memories and chunks, which have neither, a
    turn counts by what it says itself: what is believed comes before what was once said.
    """
    top = max((each.score for each in turns), default=0.0)
    if not 0 < most < top:
        return 1.0
    for each in turns:
        each.score *= most / top
    return most / top


def best_first(candidates: Iterable[Candidate], value: str) -> list[Candidate]:
    """Equals newest first; what one event holds stays in its order."""
    in_order = sorted(candidates, key=attrgetter("key"))
    return sorted(in_order, key=attrgetter(value, "time", "position"), reverse=True)
