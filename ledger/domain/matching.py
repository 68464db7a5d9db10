"""Does a response restate a memory, or deny it? The versions of the rule, and the filter that finds the memories to ask."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain
from types import MappingProxyType

from ledger.domain.clauses import DENYING, NONE, OVER, SOMEBODY, USER, Clause, clauses, pieces, plain
from ledger.domain.errors import RejectedError
from ledger.domain.meaning import AGAINST, FAMILY, OPPOSITES, kindred, significant
from ledger.domain.near import NEGATIONS
from ledger.domain.question import unspaced
from ledger.domain.text import stem, stems, words

# Every number here is ATOCore's (SEEDS 1b). A released version never changes: an event that names "stems/3" must mean
# the same for ever, so another rule is another version.

DEFAULT_MATCHER = "stems/4"

MIN_CONTENT_CHARS = 12
"""substring/1, stems/4: a memory shorter than this never matches; it would occur by accident."""

WINDOW_CHARS = 80
"""substring/1: this many characters from the memory's beginning must occur in the response."""

SHARE_PERCENT = 70
"""stems/2, and stems/3 for a short memory: the share of the memory's stems that must occur."""

SHORT_STEMS = 15
"""stems/3: a memory of at most this many stems is short."""

LONG_MIN_OVERLAP = 12
"""stems/3: a long memory needs at least this many stems in common, and also LONG_SHARE_PERCENT of its own."""

LONG_SHARE_PERCENT = 35

LEAST_FOUND = 3
"""So many of a memory's stems lead to it at least, where it has them (ours, measured): fewer lead to too many memories."""

_COMMON = """
    user 1 2 3 time help make like work use need new good day want take feel look plan read keep know think people go year way
"""
COMMON = {each: rank for rank, each in enumerate(_COMMON.split())}
"""Stems that memories are not found by where others do, the commonest first (ours): the list decides on speed alone."""


@dataclass(frozen=True, slots=True)
class Match:
    """The evidence of a match: how much of the memory the response holds.

    ``overlap`` of ``total`` units (stems; characters of the window for substring/1); ``fraction`` is their quotient in
    millionths, rounded half even.
    """

    overlap: int
    total: int
    fraction: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a response says of a memory: a match, or why it denies it ("negation", "past" or "opposite"), or neither."""

    match: Match | None = None
    denial: str = ""


NEITHER = Verdict()


class Response:
    """A text in which memories are looked for, prepared once for any number of them."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def normalised(self) -> str:
        """Lower case, each run of whitespace one space: what substring/1 searches."""
        return _lowered(self.text)

    @cached_property
    def stems(self) -> frozenset[str]:
        """What stems/2 and stems/3 search."""
        return stems(self.text)

    @cached_property
    def clauses(self) -> tuple[Clause, ...]:
        """What stems/4 searches."""
        return clauses(self.text)

    def most_of(self, stems: Collection[str]) -> Counter[int]:
        """How many of these stems of a memory each clause, by its place, can have or deny at the most."""
        return Counter(chain.from_iterable(map(self._places.__getitem__, stems)))

    @cached_property
    def _places(self) -> _Places:
        return _Places(self.clauses)

    @cached_property
    def reaching(self) -> frozenset[str]:
        """Its stems, and those of words that say the opposite of one, or the same as one that it may deny: every memory that
        stems/4 finds restated or denied has enough of them."""
        simple = plain(self.text)
        spoken = {*words(self.text), *words(simple)}
        meant = {significant(word) for word in spoken} - {""}
        roots = {root for each in meant for root in AGAINST.get(each, ())}
        if not DENYING.isdisjoint(spoken) or OVER.search(simple) is not None:
            roots |= meant & _ROOTS
        own = self.stems | {each for root in roots for each in _family(root)}
        return own if USER.isdisjoint(words(self.text)) else own | {SOMEBODY}


class _Places(dict[str, Collection[int]]):
    """Where the clauses of a response are that can have or deny a stem of a memory."""

    def __init__(self, response: Sequence[Clause]) -> None:
        self._having: dict[str, list[int]] = {}
        for at, each in enumerate(response):
            for token in {*each.stems, *each.meanings.values(), *each.denied, *each.over}:
                self._having.setdefault(token, []).append(at)

    def __missing__(self, own: str) -> Collection[int]:
        self[own] = found = set[int]().union(*(self._having.get(each, ()) for each in kindred(own)))
        return found


def judge(version: str, response: Response, content: str) -> Verdict:
    """What the response says of a memory's content under that version of the rule; only stems/4 knows denials.

    Raises RejectedError for a version that does not exist.
    """
    if version not in MATCHERS:
        raise RejectedError(f"there is no matcher {version!r}; there are {', '.join(MATCHERS)}")
    return MATCHERS[version](response, content)


def match(version: str, response: Response, content: str) -> Match | None:
    """The match of a memory's content in the response under that version of the rule, or None."""
    return judge(version, response, content).match


def _substring_1(response: Response, content: str) -> Verdict:
    wanted = _lowered(content)
    window = wanted[:WINDOW_CHARS]
    if len(wanted) < MIN_CONTENT_CHARS or window not in response.normalised:
        return NEITHER
    return Verdict(Match(len(window), len(window), 1_000_000))


def _stems_2(response: Response, content: str) -> Verdict:
    return _overlap(response, stems(content), needed_stems_2)


def _stems_3(response: Response, content: str) -> Verdict:
    return _overlap(response, stems(content), needed_stems_3)


def _stems_4(response: Response, content: str) -> Verdict:
    """stems/3 clause by clause: a clause of the memory has its stems from one clause of the response, and that says it of the
    same time and in the same sense. Where it says the opposite the memory is denied."""
    own = stems(content) - NEGATIONS
    needed = needed_stems_3(len(own))
    if not own or len(own & response.reaching) < needed or _is_short(content) or not _can_have(response, own, content):
        return NEITHER
    agreeing, found, denial = set[str](), set[str](), ""
    for part in _clauses_of_memory(content):
        most, against, why = _best(part, response)
        agreeing |= most
        found |= most if len(most) > len(against) else against
        if len(against) >= max(len(most), LEAST_DENIED, _at_least(DENIED_PERCENT, len(part.stems))):
            denial = denial or why
    if denial:
        return Verdict(denial=denial) if len(found & own) >= needed else NEITHER
    overlap = len(agreeing & own)
    return Verdict(Match(overlap, len(own), _millionths(overlap, len(own)))) if overlap >= needed else NEITHER


MATCHERS: Mapping[str, Callable[[Response, str], Verdict]] = MappingProxyType(
    {"substring/1": _substring_1, "stems/2": _stems_2, "stems/3": _stems_3, "stems/4": _stems_4}
)


def needed_stems_2(total: int) -> int:
    """How many of a memory's ``total`` stems a response must hold under stems/2."""
    return _at_least(SHARE_PERCENT, total)


def needed_stems_3(total: int) -> int:
    """How many of a memory's ``total`` stems a response must hold under stems/3."""
    if total <= SHORT_STEMS:
        return _at_least(SHARE_PERCENT, total)
    return max(LONG_MIN_OVERLAP, _at_least(LONG_SHARE_PERCENT, total))


def found_by(content: str) -> tuple[int, frozenset[str]]:
    """(least, stems): every text that restates or denies a memory by its stems has at least so many of these among those that
    it is ``sought`` by; substring/1 is not covered.

    An index from these stems to memories therefore misses none (the prefix filter of set-similarity joins): of a text that
    holds t of n stems at most d are among any d that the index leaves out. The commonest are left out, of which nearly every
    memory of a ledger may have one, as long as ``LEAST_FOUND`` others are needed.
    """
    # stems/2 never needs fewer than stems/3: for n > 15, ceil(0.7 n) >= 12 and >= ceil(0.35 n). stems/4 counts no negations.
    own = stems(content)
    counted = own - NEGATIONS
    least = min(needed_stems_3(len(counted)), needed_stems_3(len(own)) - len(own) + len(counted))
    if least < 1:
        return min(len(own), 1), own
    common = sorted(counted & COMMON.keys(), key=COMMON.__getitem__)[: max(least - LEAST_FOUND, 0)]
    return least - len(common), counted.difference(common)


def sought(version: str, response: Response) -> frozenset[str]:
    """The stems that lead from a response to the memories that it may restate or deny."""
    return response.reaching - NEGATIONS if version == "stems/4" else response.stems


def _overlap(response: Response, own: frozenset[str], needed: Callable[[int], int]) -> Verdict:
    overlap, total = len(own & response.stems), len(own)
    if not total or overlap < needed(total):
        return NEITHER
    return Verdict(Match(overlap, total, _millionths(overlap, total)))


def _at_least(percent: int, total: int) -> int:
    return -(-percent * total // 100)


def _millionths(part: int, whole: int) -> int:
    quotient, rest = divmod(part * 1_000_000, whole)
    return quotient + (2 * rest > whole or (2 * rest == whole and quotient % 2))


def _lowered(text: str) -> str:
    return " ".join(text.lower().split())


# --- clause by clause (stems/4) ---

LEAST_DENIED = 2
"""stems/4: a denial has at least this many of a memory's stems (ours)."""

DENIED_PERCENT = 80
"""stems/4: ... and at least this share of those of one clause (ours): with less it may be of another thing."""

UNSPACED_CHARS = 3
"""stems/4: a character of a script without spaces counts as so many of the least length (ours)."""


_clauses_of_memory = lru_cache(maxsize=4_096)(clauses)


def _can_have(response: Response, own: Collection[str], content: str) -> bool:
    """Whether the clauses of a memory can have enough of its stems from one clause each, whatever these say. Most memories
    that have enough in common with a long response cannot, and so few are cut."""
    needed, most = needed_stems_3(len(own)), sorted(response.most_of(own).values(), reverse=True)
    return sum(most[:1]) >= needed or sum(most[: pieces(content)]) >= needed


def _best(part: Clause, response: Response) -> tuple[frozenset[str], frozenset[str], str]:
    """The most stems of a clause that one clause says in the same sense, and in the opposite one, with how that differs."""
    most, against, why = NONE, NONE, ""
    for at, at_most in sorted(response.most_of(part.stems.union(part.meanings)).items()):
        each = response.clauses[at]
        if each.supposed and not part.supposed:
            continue
        turning, opposed = part.denied or each.denied or each.over, part.opposable and each.opposable
        if at_most <= len(most) and not turning and not opposed:
            continue
        differs, shared = _differs(part, each) if turning else ("", NONE)
        shared |= part.stems & each.stems
        if not differs and opposed and (turned := _opposites(part, each)):
            shared, differs = shared | turned, "opposite"
        if not differs:
            same_time = part.was is None or each.was is None or part.was == each.was
            if len(shared) > len(most) and same_time and (part.over & shared) <= (each.over | each.denied):
                most = shared
        elif part.supposed:
            continue
        elif len(shared) > len(against) and (part.denied.isdisjoint(shared) or part.who in shared):
            against, why = shared, differs
    return most, against, why


def _differs(part: Clause, other: Clause) -> tuple[str, frozenset[str]]:
    """How a clause of a response denies one of a memory, and in which stems: it denies or ends what that says, or says what
    that denies."""
    own = part.denied | part.over
    if over := part.among(other.over) - own:
        return "past", over
    denied = part.among(other.denied) - own
    if part.denied and (stated := part.denied & {*other.stems, *other.meanings.values()} - other.denied - other.over):
        denied |= part.among(stated)
    return ("negation", denied) if denied else ("", NONE)


def _opposites(part: Clause, other: Clause) -> frozenset[str]:
    """The stems of a clause of which the other one says the opposite, and not the same; what it denies it does not say."""
    meant = set(other.meanings.values())
    stated = {meaning for own, meaning in other.meanings.items() if own not in other.denied | other.over}
    return frozenset(
        own
        for own, each in part.meanings.items()
        if each not in meant and own not in other.stems and not stated.isdisjoint(AGAINST.get(each, ()))
    )


_ROOTS = frozenset(map(significant, FAMILY))  # what words of several forms count as


@lru_cache(maxsize=1024)
def _family(root: str) -> frozenset[str]:
    """The stems of the words that count as this one."""
    return frozenset({root, *(stem(word) for word in (*FAMILY, *OPPOSITES) if significant(word) == root)})


def _is_short(content: str) -> bool:
    line = " ".join(content.split())
    return (
        len(line) < MIN_CONTENT_CHARS
        and sum(UNSPACED_CHARS if unspaced(each) else 1 for each in line) < MIN_CONTENT_CHARS
    )
