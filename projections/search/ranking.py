"""The ranking of candidates by their words, their neighbors and session, their vectors and their confidence. Pure.

``score/3``, for a text x of a session S, in the order of the steps:

    words(x)    (BM25, each word of the question and its other forms taken as one, + idf of each pair of words that stand
                together there as in the question) x (1/2 + 1/2 the share of the question's idf that x matches); of a turn
                without any of them a tenth of the score of its date's words: 2023 may 8 monday
    + context   0.3, 0.2, 0.1 x words(y) of the turns y one, two and three away, if x is short; half as much again from
                a turn before that asks
    + session   1/2 the mean of the three best of S
    fused       0.6 x that / the best of all + 0.4 x the cosine, min-max over all candidates; without vectors the first alone;
                of a model of sentences 0.5 and 0.5
    x boosts    each bounded: a named speaker, I and my, a date near, a time word, a bare question, a rule of the user's,
                confidence, kind

Context, session and factors rank turns among each other. Before turns stand next to memories and chunks, all turns are
scaled down alike. Each score comes with the signals that it was made of.
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
from ledger.domain.times import day_of
from ledger.english.dates import SURE_DATES, nearness
from ledger.english.question import LITTLE, Question
from ledger.english.words import folded, indexed_words, split, unspaced

K1, B = 1.2, 0.75
DAY = 0.1  # the weight of a turn's date words if the turn itself has no word of the question
COVERAGE = 0.5
KIN = 0.5  # the weight of a word of the same family ("allergic" for "allergy"), as a part of the word's own weight
PHRASE = 1.0
NEIGHBORS = (0.3, 0.2, 0.1)  # weights of the turns one, two and three away, on both sides
SHORT_CHARS = 500  # a text of this length or longer borrows nothing from its neighbors
ASKED = 0.5
SESSION = 0.5
SESSION_BEST = 3
NAMED = 0.5
FIRST_PERSON = 0.5
NEAR_DAY = 1.0
DAYS_BEFORE, DAYS_AFTER = 3, 7
TIME_NAMED = 0.1
BARE_QUESTION = 0.2
VECTOR = 0.4  # of a model that does not say another weight
CONFIDENCE = 0.2  # the part of its score that a memory without any confidence loses
KIND_WEIGHTS = {"identity": 1.1, "user_profile": 1.1, "preference": 1.05, "rule": 1.05, "env": 1.05}

RULE = 0.5

SCORE, RUBINO = "score/3", "rubino/1"
RANKINGS = (SCORE, RUBINO)

_WORD = re.compile(r"[^\W_]+")
_TIME_WORD = re.compile(
    r"\b(yesterday|today|tonight|tomorrow|ago|last|next|recently|since|weekend|(?:day|week|month|year)s?"
    rf"|this (?:morning|summer|past)|{'|'.join(SURE_DATES)}|\d{{4}})\b",
    re.IGNORECASE,
)

_WHAT_WAS = frozenset(["did", "was", "were", "had", "have", "has", "been", "ve", "happened"])
_MARKS = ("always", "never", "from now on", "going forward", "prefer", "rather")  # _RULE needs one of these
_RULE = late(
    r"^\W*(?:(?:please|and|also|in (?:the )?future)\W+)*(?:always|never)\b|\b(?:from now on|going forward)\b"
    r"|\b(?:always|never)\b[^.?!\n]{0,120}\bwhen(?:ever)? i\b"
    r"|\bi(?:['’]d| would)?(?: really| always| usually| generally| much| also)? prefer\b"
    r"|\bi(?:['’]d| would) rather\b|\bmy (?:preference|preferred)\b"
)


class ScoredText(Struct):
    """A text that may answer a question, with its scores. ``key`` is unique within its corpus.

    Of equal candidates the newer comes first: by ``time`` (since when a memory holds, when a turn was said), then ``position``.
    """

    key: int
    corpus: str  # "memory", "turn" (also for a message) or "chunk"
    text: str
    position: int
    row: int
    bm25: float = 0.0
    cosine: float | None = None
    group: str | None = None  # the session, within which turns lend each other scores
    role: str = ""  # "prompt" or "response" of a turn
    speaker: str = ""  # folded name of a turn's speaker, if known
    whole: int = 0  # characters of the text that the passage belongs to
    time: str = ""
    kind: str = ""
    confidence: int = ONE
    words: float = 0.0
    share: float = 0.0  # the part of the question's weight that its words have
    score: float = 0.0
    signals: dict[str, float] = {}

    @property
    def match(self) -> float:
        """Return the absolute match with the question, from 0 to 1: by the words, or by the vector if that is more."""
        return min(1.0, max(self.share, self.cosine or 0.0))


class Terms(Struct, frozen=True):
    """The stems of a question: those of each concept, the weights (idf) of the concepts, and their pairs that stand together."""

    concepts: tuple[frozenset[str], ...]  # those of the families of words come last
    weights: tuple[float, ...]
    pairs: tuple[tuple[int, int, float], ...]
    mean: float  # the mean number of words of a text of the index
    runs: tuple[tuple[str, float], ...]  # words of scripts without spaces, searched for as they are
    total: float  # of all weights
    missing: float  # the weight of concepts that no stored text has: each counts as the rarest
    met: Met  # the concepts of a word


class Met:
    """The words that were met in texts, with the concepts of those that have any.

    ``heads`` are the first two characters of every stem, or one of the shortest stems; no stemmer changes them. A word that says
    little counts only if it is ``asked`` itself: the stem of "one" is that of "on", the stem of "use" that of "us".
    """

    def __init__(self, of_stem: dict[str, tuple[int, ...]], stem: Callable[[str], str], asked: frozenset[str]) -> None:
        self._of_stem, self._stem, self._unasked = of_stem, stem, LITTLE - asked
        self._heads = frozenset(stem_text[:2] for stem_text in of_stem if len(stem_text) > 2)
        self._short_heads = frozenset(stem_text[:1] for stem_text in of_stem if len(stem_text) <= 2)
        self._met = set[str]()
        self._of_word: dict[str, tuple[int, ...]] = {}

    def concepts_of(self, words: set[str]) -> list[tuple[str, tuple[int, ...]]]:
        """Return those of some words that have concepts, with the concepts."""
        if fresh := words - self._met:
            heads, short_heads = self._heads, self._short_heads
            near = [word for word in fresh if word[:2] in heads]
            if short_heads:
                near += [word for word in fresh if word[:1] in short_heads and word[:2] not in heads]
            for word in near:
                if word not in self._unasked and (concepts := self._of_stem.get(self._stem(word))):
                    self._of_word[word] = concepts
            self._met |= fresh
        return [(word, self._of_word[word]) for word in self._of_word.keys() & words]

    @property
    def concepts(self) -> set[int]:
        """Return the concepts that some text had."""
        return {concept for concepts in self._of_word.values() for concept in concepts}


def terms(question: Question, stem: Callable[[str], str], idf: Callable[[Iterable[str]], float], mean: float) -> Terms:
    concepts, weights, runs = list[frozenset[str]](), list[float](), list[tuple[str, float]]()
    families, lesser = list[frozenset[str]](), list[float]()
    by_word: dict[str, int] = {}
    for forms in question.concepts:
        if len(forms[0]) > 1 and unspaced(forms[0]):
            runs.append((forms[0], 1.0))
            continue
        by_word[forms[0]] = len(concepts)
        concepts.append(frozenset(stem(form) for form in forms if form not in question.kin))
        weights.append(idf(concepts[-1]))
        if not question.kin.isdisjoint(forms):
            families.append(frozenset(map(stem, forms)) - concepts[-1])
            weight = idf(families[-1])
            weights[-1] = weights[-1] or weight
            lesser.append(KIN * weight)
    pairs = [
        (by_word[left], by_word[right], min(weights[by_word[left]], weights[by_word[right]]))
        for left, right in dict.fromkeys(pairwise(question.words))
        if left != right and left in by_word and right in by_word
    ]
    total = sum(weights) + sum(weight for _, weight in runs)
    missing = weights.count(0.0) * max(weights, default=0.0)
    of_stem: dict[str, tuple[int, ...]] = {}
    for at, stems in enumerate([*concepts, *families]):
        for stem_text in stems:
            of_stem[stem_text] = (*of_stem.get(stem_text, ()), at)
    asked = frozenset(form for forms in question.concepts for form in forms)
    shared = ((*concepts, *families), (*weights, *lesser), tuple(pairs), max(mean, 1.0), tuple(runs))
    return Terms(*shared, total, missing, Met(of_stem, stem, asked))


def word_score(text: str, terms: Terms) -> tuple[float, float]:
    """Return the score of a text's words, and their share (0 to 1) of the question's weight by idf.

    The score is BM25, more for pairs of words that stand together, less for missing parts of the question. It depends only on
    the text's own words and the rarity of the question's, so a text scores alike in the index, before it, or at a past moment.
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
    matched = min(matched, terms.total)  # a text can have a word and one of its family
    covered = matched / terms.total if terms.total else 0.0
    return score * (1 - COVERAGE + COVERAGE * covered), matched / (terms.total + terms.missing) if matched else 0.0


def matched(text: str, terms: Terms) -> int:
    """Return the number of the question's telling words that a text has in any form."""
    places, _, together = _places(text, terms)
    return len(places) + sum(run in together for run, _ in terms.runs)


def _places(text: str, terms: Terms) -> tuple[dict[int, list[int]], int, str]:
    """Return the places of the question's concepts in a text, the text's number of words, and the text as one run.

    Places are counted in words. The run is the text as a phrase of the index without signs; "" if the question has no runs.
    """
    words = indexed_words(text)
    places_of: dict[int, list[int]] = {}
    for word, concepts in terms.met.concepts_of(set(words)):
        places = [words.index(word)]
        for _ in range(words.count(word) - 1):
            places.append(words.index(word, places[-1] + 1))
        for concept in concepts:
            places_of[concept] = [*places_of[concept], *places] if concept in places_of else places
    return places_of, len(words), "".join(_WORD.findall(folded(text))) if terms.runs else ""


# --- neighbors and sessions ------------------------------------------------------------------------------------------


def with_context(candidates: Sequence[ScoredText], around: Mapping[str, Sequence[int]]) -> None:
    """Add to each short turn a part of its neighbors' scores. ``around`` has the keys of every session's turns in order."""
    own = {(turn.group, turn.key): turn for turn in candidates if turn.group is not None}
    gained: list[tuple[ScoredText, float]] = []
    for group, keys in around.items():
        for at, key in enumerate(keys):
            receiver = own.get((group, key))
            if receiver is None or receiver.whole >= SHORT_CHARS:
                continue
            gain = 0.0
            for distance, weight in enumerate(NEIGHBORS, 1):
                for near in (at - distance, at + distance):
                    giver = own.get((group, keys[near])) if 0 <= near < len(keys) else None
                    if giver is not None:
                        more = ASKED if near == at - 1 and "?" in giver.text else 0.0
                        gain += weight * (1 + more) * giver.words
            gained.append((receiver, gain))
    for receiver, gain in gained:  # only after the loop, so that nothing is passed on twice
        receiver.score += gain
        if gain:
            receiver.signals["context"] = gain


def with_sessions(candidates: Sequence[ScoredText]) -> None:
    """Add to each turn a part of the best scores of its session."""
    groups: dict[str, list[float]] = defaultdict(list)
    for candidate in candidates:
        if candidate.group is not None:
            groups[candidate.group].append(candidate.score)
    level = {group: SESSION * sum(sorted(scores)[-SESSION_BEST:]) / SESSION_BEST for group, scores in groups.items()}
    for candidate in candidates:
        if candidate.group is not None and level[candidate.group]:
            candidate.signals["session"] = level[candidate.group]
            candidate.score += level[candidate.group]


# --- the last steps --------------------------------------------------------------------------------------------------


def fuse(candidates: Sequence[ScoredText], weight: float = VECTOR) -> None:
    """Set one score from 0 to 1 of words and vectors, of which the vectors make the part ``weight``."""
    best = max((candidate.score for candidate in candidates), default=0.0) or 1.0
    cosines = [candidate.cosine for candidate in candidates if candidate.cosine is not None]
    low, high = min(cosines, default=0.0), max(cosines, default=0.0)
    share = weight if cosines else 0.0
    for candidate in candidates:
        parts = {name: (1 - share) * value / best for name, value in candidate.signals.items()}
        candidate.score = (1 - share) * candidate.score / best
        if candidate.cosine is not None:
            parts["vector"] = share * ((candidate.cosine - low) / (high - low) if high > low else 1.0)
            candidate.score += parts["vector"]
        candidate.signals = parts


def boost(candidate: ScoredText, question: Question) -> None:
    """Multiply the score by the factors besides a text's words. Every factor is a signal."""
    factors: dict[str, float] = {}
    if candidate.corpus == "turn":
        factors = _turn_factors(candidate, question)
    if candidate.corpus == "memory":
        factors["confidence"] = 1 - CONFIDENCE + CONFIDENCE * candidate.confidence / ONE
        factors["kind"] = KIND_WEIGHTS.get(candidate.kind, 1.0)
    if question.days and (day := day_of(candidate.time)) is not None:
        near = max(nearness(named, day, before=DAYS_BEFORE, after=DAYS_AFTER) for named in question.days)
        factors["date"] = 1 + NEAR_DAY * near
    for name, factor in factors.items():
        if factor != 1:
            candidate.signals[name] = factor
            candidate.score *= factor


def _turn_factors(turn: ScoredText, question: Question) -> dict[str, float]:
    name, person = who(turn)
    factors: dict[str, float] = {}
    if name and name not in (*PEOPLE, *ASSISTANTS) and not set(split(name)).isdisjoint(question.words):
        factors["named"] = 1 + NAMED
    if person and question.first_person:
        factors["first person"] = 1 + FIRST_PERSON
    if question.when and _TIME_WORD.search(turn.text):
        factors["time"] = 1 + TIME_NAMED
    if person and _WHAT_WAS.isdisjoint(question.words) and is_rule(turn.text):
        factors["rule"] = 1 + RULE
    if not person and turn.text.rstrip().endswith("?"):
        factors["question"] = 1 - BARE_QUESTION
    return factors


def who(turn: ScoredText) -> tuple[str, bool]:
    """Return the name of a turn's speaker, or "", and True if the speaker is the user."""
    name = turn.speaker or folded(speaker(turn.text)[0])
    return name, name in PEOPLE if name else turn.role == "prompt"


def is_rule(text: str) -> bool:
    """Return True if a user states a rule for the answers, or a preference."""
    plain = text.lower()
    return any(mark in plain for mark in _MARKS) and _RULE.search(speaker(plain)[1]) is not None


def by_score(
    candidates: list[ScoredText], question: Question, around: Mapping[str, Sequence[int]], weight: float = VECTOR
) -> list[ScoredText]:
    """Return the candidates by ``score/3``, best first. Their ``words`` are set before; their scores are set here.

    ``weight`` is the part of a score that the vectors make.
    """
    for candidate in candidates:
        candidate.score, candidate.signals = candidate.words, {"text": candidate.words} if candidate.words else {}
    turns = [candidate for candidate in candidates if candidate.corpus == "turn"]
    with_context(candidates, around)
    with_sessions(candidates)
    factor = _levelled(turns, max((candidate.words for candidate in turns), default=0.0))
    for candidate in turns:
        candidate.signals = {name: value * factor for name, value in candidate.signals.items()}
    fuse(candidates, weight)
    plain = max((candidate.score for candidate in turns), default=0.0)
    for candidate in candidates:
        boost(candidate, question)
    if (factor := _levelled(turns, plain)) != 1:
        for candidate in turns:
            candidate.signals["level"] = factor
    return best_first([candidate for candidate in candidates if candidate.score > 0], "score")


def _levelled(turns: Sequence[ScoredText], most: float) -> float:
    """Scale all turns so that the best has the score ``most``, and return the factor; 1 if no turn is above.

    Context and factors rank turns among each other. Memories and chunks have neither, so beside them a turn counts by its own
    words: a believed memory comes before a statement of the past.
    """
    top = max((turn.score for turn in turns), default=0.0)
    if not 0 < most < top:
        return 1.0
    for turn in turns:
        turn.score *= most / top
    return most / top


def best_first(candidates: Iterable[ScoredText], value: str) -> list[ScoredText]:
    """Return the candidates by a value, equal ones newest first. Candidates of one event stay in order."""
    in_order = sorted(candidates, key=attrgetter("key"))
    return sorted(in_order, key=attrgetter(value, "time", "position"), reverse=True)
