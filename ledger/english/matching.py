"""The search for memories that a response restates or denies, and the stems that lead to them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain, repeat
from types import MappingProxyType

from ledger.domain.errors import RejectedError
from ledger.english.agreement import (
    ALL_STEMS,
    OTHERS_STEMS,
    can_differ,
    confirmed,
    differing,
    is_of_same,
    is_statement,
    least_stated,
)
from ledger.english.clauses import ME, NONE, SOMEBODY, USER, YOURS, Clause, clauses, pieces, unquoted
from ledger.english.meaning import AGAINST, FAMILY, OPPOSITES, kindred, significant
from ledger.english.words import NEGATIONS, STOP_WORDS, stem, unspaced, words

# A released version never changes: an event that names "stems/6" must always mean the same, so another rule is another
# version.

DEFAULT_MATCHER = "stems/6"

LEAST_CHARS = 12
"""A shorter memory never matches, because it would occur by accident (as in ATOCore)."""

SUBSTRING = "substring/1"
WINDOW_CHARS = 80
"""The number of characters from the beginning of a memory that must occur for substring/1 (as in ATOCore)."""

UNSPACED_CHARS = 3
"""A character of a script without spaces counts as this many of the least length (our choice)."""

SHARE_PERCENT = 60
"""The share of a short memory's stems that must be said by one clause for each of its clauses (our choice)."""

SHORT_STEMS = 15
"""A memory of at most this many stems is short (as in ATOCore)."""

LONG_MIN_OVERLAP = 12
"""A long memory needs at least this many common stems, and also LONG_SHARE_PERCENT of its own (as in ATOCore)."""

LONG_SHARE_PERCENT = 35

LEAST_DENIED = 2
"""A denial has at least this many of a memory's stems (our choice)."""

DENIED_PERCENT = 80
"""A denial also has at least this share of the stems of one clause (our choice): with less it may be about another thing."""

LEAST_FOUND = 2
"""At least this many of a memory's stems lead to it, if it has them (our choice). Fewer lead to too many memories, and with
more "user" would be among them, which nearly all memories have."""

_COMMON = """
    user 1 2 3 time help make like work use need new good day want take feel look plan read keep know think people go year way
"""
COMMON = {stem(word): rank for rank, word in enumerate(_COMMON.split())}
"""Stems that lead to a memory only if it has no others, the commonest first (our choice). The list affects only the speed."""


@dataclass(frozen=True, slots=True)
class Match:
    """The evidence of a match: the part of the memory that the response holds.

    ``overlap`` of ``total`` units (stems; characters of the window for substring/1); ``fraction`` is their quotient in
    millionths, rounded half even.
    """

    overlap: int
    total: int
    fraction: int


@dataclass(frozen=True, slots=True)
class Restatement:
    """A response's verdict on a memory: a match, or the way of its denial ("negation", "past" or "opposite"), or neither."""

    match: Match | None = None
    denial: str = ""


NEITHER = Restatement()


class Response:
    """A text in which memories are looked for, prepared once for any number of them."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def normalised(self) -> str:
        """Return the text that substring/1 searches."""
        return _lowered(self.text)

    @cached_property
    def unquoted_text(self) -> str:
        """Return the text without quotations, which stems/6 searches."""
        return unquoted(self.text)

    @cached_property
    def clauses(self) -> tuple[Clause, ...]:
        return clauses(self.unquoted_text)

    def most_of(self, stems: Collection[str]) -> Counter[int]:
        """Return, for each clause by its place, the most stems of a memory that it can have or deny."""
        return Counter(chain.from_iterable(map(self._places.__getitem__, stems)))

    @cached_property
    def _places(self) -> _Places:
        return _Places(self.clauses)

    @cached_property
    def reaching(self) -> frozenset[str]:
        """Return the response's stems, and those of words with the same or the opposite meaning.

        Every memory that stems/6 finds restated or denied has enough of these stems.
        """
        spoken = words(self.unquoted_text)
        meant = {significant(word) for word in spoken} - {""}
        roots = {root for meaning in meant for root in AGAINST.get(meaning, ())} | meant & _ROOTS
        own = frozenset(map(stem, set(spoken) - STOP_WORDS - NEGATIONS)).union(*map(_family, roots))
        return own if USER.isdisjoint(spoken) else own | {SOMEBODY}


class _Places(dict[str, Collection[int]]):
    """The places of the clauses of a response that can have or deny a stem of a memory."""

    def __init__(self, response: Sequence[Clause]) -> None:
        self._having: dict[str, list[int]] = {}
        for at, clause in enumerate(response):
            said = {*clause.stems, *clause.meanings.values(), *clause.denied, *clause.over, *map(stem, clause.words)}
            for token in said:
                self._having.setdefault(token, []).append(at)

    def __missing__(self, own: str) -> Collection[int]:
        places = [at for meaning in kindred(own) if (at := self._having.get(meaning))]
        self[own] = all_places = places[0] if len(places) == 1 else set[int]().union(*places)
        return all_places


def judge(version: str, response: Response, content: str) -> Restatement:
    """Return a response's verdict on a memory's content under a version of the rule. Only stems/6 knows denials.

    Raises:
        RejectedError: There is no such version.
    """
    if version not in MATCHERS:
        raise RejectedError(f"there is no matcher {version!r}; known: {', '.join(MATCHERS)}")
    return MATCHERS[version](response, content)


def match(version: str, response: Response, content: str) -> Match | None:
    """Return the match of a memory's content in the response under a version of the rule, or None."""
    return judge(version, response, content).match


def _substring_1(response: Response, content: str) -> Restatement:
    """Return the verdict of substring/1: the beginning of a memory stands in the response unchanged."""
    memory_text = _lowered(content)
    window = memory_text[:WINDOW_CHARS]
    if len(memory_text) < LEAST_CHARS or window not in response.normalised:
        return NEITHER
    return Restatement(Match(len(window), len(window), 1_000_000))


def _lowered(text: str) -> str:
    """Return a text in lower case with each run of whitespace as one space."""
    return " ".join(text.lower().split())


def _stems_6(response: Response, content: str) -> Restatement:
    """Return the verdict of stems/6, which takes each clause of a memory by itself.

    One clause of the response must say enough of it, of the same subject, time and sense. If a clause is denied, the memory is
    denied. In doubt the verdict is neither.
    """
    own, needed = _counted(content)
    if (
        not own
        or len(own & response.reaching) < needed
        or not _can_have(response, own, needed, content)
        or _is_short(content)
    ):
        return NEITHER
    parts = _clauses_of_memory(content)
    bounds = [_bounds(part, response) for part in parts]
    if sum(map(_most, bounds)) < needed:
        return NEITHER
    if not any(map(_can_deny, parts, repeat(response), bounds)):
        bounds = [_stating(part, response, bound) for part, bound in zip(parts, bounds, strict=True)]
        if len(own) <= SHORT_STEMS and not all(bounds):
            return NEITHER
    best = list(map(_most, bounds))
    spare = sum(best) - needed
    if spare < 0:
        return NEITHER
    agreeing, touched, denial, whole = set[str](), set[str](), "", True
    for part, bound, most_of_part in zip(parts, bounds, best, strict=True):
        most, against, why = _best(part, response, bound, most_of_part - spare)
        agreeing |= most
        touched |= most if len(most) > len(against) else against
        whole = whole and bool(most)
        if len(against) >= max(len(most), _least_denied(part)):
            denial = denial or why
    if denial:
        return Restatement(denial=denial) if len(touched & own) >= needed else NEITHER
    overlap = len(agreeing & own)
    if overlap < needed or (len(own) <= SHORT_STEMS and not whole):
        return NEITHER
    return Restatement(Match(overlap, len(own), _millionths(overlap, len(own))))


MATCHERS: Mapping[str, Callable[[Response, str], Restatement]] = MappingProxyType(
    {SUBSTRING: _substring_1, "stems/6": _stems_6}
)


def needed_stems(total: int, *, of_user: bool = True) -> int:
    """Return the number of a memory's ``total`` stems that a response must hold under stems/6."""
    if total <= SHORT_STEMS:
        return max(min(total, ALL_STEMS if of_user else OTHERS_STEMS), _at_least(SHARE_PERCENT, total))
    return max(LONG_MIN_OVERLAP, _at_least(LONG_SHARE_PERCENT, total))


def _counted(content: str) -> tuple[frozenset[str], int]:
    """Return the stems of a memory that count, and the number of them that a response must hold."""
    spoken = set(words(content))
    own = frozenset(map(stem, spoken - STOP_WORDS - NEGATIONS))
    return own, needed_stems(len(own), of_user=not _OF_USER.isdisjoint(spoken))


def found_by(content: str) -> tuple[int, frozenset[str]]:
    """Return (least, stems): a text that restates or denies the memory by its stems has ``least`` of these in ``sought``.

    An index from these stems to memories therefore misses none (the prefix filter of set-similarity joins): of a text that
    holds t of n stems at most d are among any d that the index leaves out. The commonest are left out, because nearly every
    memory of a ledger may have one, as long as ``LEAST_FOUND`` others are needed. substring/1 is not covered.
    """
    own, least = _counted(content)
    common = sorted(own & COMMON.keys(), key=COMMON.__getitem__)[: max(least - LEAST_FOUND, 0)]
    return least - len(common), own.difference(common)


def sought(response: Response) -> frozenset[str]:
    """Return the stems that lead from a response to the memories that it may restate or deny."""
    return response.reaching


def _at_least(percent: int, total: int) -> int:
    return -(-percent * total // 100)


def _millionths(part: int, whole: int) -> int:
    quotient, rest = divmod(part * 1_000_000, whole)
    return quotient + (2 * rest > whole or (2 * rest == whole and quotient % 2))


# --- clause by clause ------------------------------------------------------------------------------------------------

_clauses_of_memory = lru_cache(maxsize=4_096)(clauses)


def _can_have(response: Response, own: Collection[str], needed: int, content: str) -> bool:
    """Return False if the clauses of a memory cannot get enough stems from one clause each, whatever these say.

    Most memories that have enough in common with a long response fail this test, so few have to be cut into clauses.
    """
    most = response.most_of(own)
    if max(most.values(), default=0) >= needed:
        return True
    if sum(most.values()) < needed or (count := pieces(content)) == 1:
        return False
    return sum(sorted(most.values(), reverse=True)[:count]) >= needed


def _bounds(part: Clause, response: Response) -> Mapping[int, int]:
    """Return, for each clause of a response by its place, the most stems of a memory's clause that it can say or deny."""
    bounds = response.most_of(part.stems | part.meanings.keys())  # negations have a meaning and are not among the stems
    if not _POSSESSED.isdisjoint(part.all):  # "your" stands for the user, and so does "the" of a thing of the user's
        return {at: bound + 1 for at, bound in bounds.items()}
    return bounds


def _most(bounds: Mapping[int, int]) -> int:
    return max(bounds.values(), default=0)


def _can_deny(part: Clause, response: Response, bounds: Mapping[int, int]) -> bool:
    """Return True if a clause of a response may deny a memory's clause."""
    least = _least_denied(part)
    return not part.supposed and any(
        bound >= least and can_differ(part, response.clauses[at]) for at, bound in bounds.items()
    )


def _least_denied(part: Clause) -> int:
    return max(LEAST_DENIED, _at_least(DENIED_PERCENT, len(part.stems)))


def _stating(part: Clause, response: Response, bounds: Mapping[int, int]) -> Mapping[int, int]:
    """Return the bounds of the clauses that can state a memory's clause: they have enough stems, all figures and all names."""
    least = least_stated(part)
    places = [at for at, bound in bounds.items() if bound >= least]
    names = (name for name in part.names if SOMEBODY not in name)  # "your" may stand for the user
    for any_of in chain(([figure] for figure in part.figures), names) if places else ():
        having = response.most_of(any_of)
        places = [at for at in places if at in having]
    return {at: bounds[at] for at in places}


def _best(
    part: Clause, response: Response, bounds: Mapping[int, int], least: int
) -> tuple[frozenset[str], frozenset[str], str]:
    """Return the most stems of a memory's clause that one clause says in the same sense, and in the opposite sense.

    The third value is the way in which the opposite clause differs. Of equal clauses the first one counts. Clauses that can have
    fewer than ``least`` stems are left out: with one of them the memory would have too few, whatever the others say.
    """
    most, against, why = NONE, NONE, ""
    most_at = against_at = len(response.clauses)
    for bound, at in sorted((-bound, at) for at, bound in bounds.items() if bound >= least):
        if -bound < len(most):  # this clause and all that follow can neither say nor deny as much
            break
        clause = response.clauses[at]
        if not is_statement(part, clause):
            continue
        differs, shared = differing(part, clause) if clause.supposed <= part.supposed else ("", NONE)
        if not differs:
            if (-bound, -at) > (len(most), -most_at):
                stated = confirmed(part, clause)
                if (len(stated), -at) > (len(most), -most_at) and stated:
                    most, most_at = stated, at
        elif (len(shared), -at) > (len(against), -against_at) and not part.supposed and is_of_same(part, clause):
            against, why, against_at = shared, differs, at
    return most, against, why


_OF_USER = USER | ME
_POSSESSED = YOURS | ME
_ROOTS = frozenset(map(significant, FAMILY))  # the meanings of words with several forms


@lru_cache(maxsize=1024)
def _family(root: str) -> frozenset[str]:
    """Return the stems of the words of one meaning."""
    return frozenset({root, *(stem(word) for word in (*FAMILY, *OPPOSITES) if significant(word) == root)})


def _is_short(content: str) -> bool:
    line = " ".join(content.split())
    return (
        len(line) < LEAST_CHARS
        and sum(UNSPACED_CHARS if unspaced(character) else 1 for character in line) < LEAST_CHARS
    )
