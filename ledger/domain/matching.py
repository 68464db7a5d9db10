"""Find what a response restates of a memory, or denies, and the memories to ask about."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import chain
from types import MappingProxyType

from ledger.domain import substring
from ledger.domain.clauses import (
    DENYING,
    ME,
    NONE,
    SOMEBODY,
    USER,
    YOU,
    YOURS,
    Clause,
    clauses,
    is_between,
    is_foreign,
    is_modal,
    is_stated,
    is_subject,
    is_verbal,
    others_in,
    pieces,
    supposes,
    tells,
    unquoted,
    was,
)
from ledger.domain.errors import RejectedError
from ledger.domain.meaning import AGAINST, FAMILY, OPPOSITES, kindred, significant
from ledger.domain.near import NEGATIONS
from ledger.domain.question import unspaced
from ledger.domain.text import STOP_WORDS, stem, stems, words

# A released version never changes: an event that names "stems/5" must mean the same for ever, so another rule is another
# version.

DEFAULT_MATCHER = "stems/5"

LEAST_CHARS = 12
"""A shorter memory never matches; it would occur by accident (ATOCore, SEEDS 1b)."""

UNSPACED_CHARS = 3
"""A character of a script without spaces counts as so many of the least length (ours)."""

ALL_STEMS = 3
"""A memory of at most this many stems needs all of them (ours)."""

SHARE_PERCENT = 60
"""The share of the stems of a short memory that one clause each must say (ours)."""

SHORT_STEMS = 15
"""A memory of at most this many stems is short (ATOCore, SEEDS 1b)."""

LONG_MIN_OVERLAP = 12
"""A long memory needs at least this many stems in common, and also LONG_SHARE_PERCENT of its own (ATOCore, SEEDS 1b)."""

LONG_SHARE_PERCENT = 35

OTHERS_STEMS = 5
"""What is said of somebody besides the user needs all stems of a clause, up to so many (ours): no grammar is read there."""

PLAIN_STEMS, PLAIN_PERCENT = 4, 70
"""A clause that says so many stems of one of a memory, and at least this share, in the same sense throughout, says the memory
whatever its grammar (ours)."""

LEAST_DENIED = 2
"""A denial has at least this many of a memory's stems (ours)."""

DENIED_PERCENT = 80
"""... and at least this share of those of one clause (ours): with less it may be of another thing."""

LEAST_FOUND = 2
"""So many of a memory's stems lead to it at least, where it has them (ours): fewer lead to too many memories, and with more
"user" would be among them, which is in nearly all."""

_COMMON = """
    user 1 2 3 time help make like work use need new good day want take feel look plan read keep know think people go year way
"""
COMMON = {each: rank for rank, each in enumerate(_COMMON.split())}
"""Stems that memories are not found by where others do, the commonest first (ours): the list decides on speed alone."""

QUALIFIED = frozenset(("almost", "nearly"))
BYGONE = frozenset(("old", "ex", "last", "previous", "former", "first"))
WOULD = frozenset(("youd", "youll"))

_HAVING = frozenset(map(significant, "owns drives rides uses works keeps rents".split()))
"""What the user does with a thing that a response may call "your" thing."""


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
        """The text that substring/1 searches."""
        return substring.lowered(self.text)

    @cached_property
    def said(self) -> str:
        """The text that stems/5 searches: without quotations."""
        return unquoted(self.text)

    @cached_property
    def clauses(self) -> tuple[Clause, ...]:
        return clauses(self.said)

    def most_of(self, stems: Collection[str]) -> Counter[int]:
        """Count the stems of a memory that each clause, by its place, can have or deny at the most."""
        return Counter(chain.from_iterable(map(self._places.__getitem__, stems)))

    @cached_property
    def _places(self) -> _Places:
        return _Places(self.clauses)

    @cached_property
    def reaching(self) -> frozenset[str]:
        """Its stems, and those of words of the same or the opposite meaning: every memory that stems/5 finds restated or
        denied has enough of them."""
        spoken = words(self.said)
        meant = {significant(word) for word in spoken} - {""}
        roots = {root for each in meant for root in AGAINST.get(each, ())} | meant & _ROOTS
        own = stems(self.said).union(*map(_family, roots))
        return own if USER.isdisjoint(spoken) else own | {SOMEBODY}


class _Places(dict[str, Collection[int]]):
    """Where the clauses of a response are that can have or deny a stem of a memory."""

    def __init__(self, response: Sequence[Clause]) -> None:
        self._having: dict[str, list[int]] = {}
        for at, clause in enumerate(response):
            for token in {*clause.stems, *clause.meanings.values(), *clause.denied, *clause.over}:
                self._having.setdefault(token, []).append(at)

    def __missing__(self, own: str) -> Collection[int]:
        self[own] = found = set[int]().union(*(self._having.get(each, ()) for each in kindred(own)))
        return found


def judge(version: str, response: Response, content: str) -> Verdict:
    """Return what the response says of a memory's content under that version of the rule; only stems/5 knows denials.

    Raises RejectedError for a version that does not exist.
    """
    if version not in MATCHERS:
        raise RejectedError(f"there is no matcher {version!r}; there are {', '.join(MATCHERS)}")
    return MATCHERS[version](response, content)


def match(version: str, response: Response, content: str) -> Match | None:
    """Return the match of a memory's content in the response under that version of the rule, or None."""
    return judge(version, response, content).match


def _substring_1(response: Response, content: str) -> Verdict:
    shared = substring.shared_chars(content, response.normalised)
    return Verdict(Match(shared, shared, 1_000_000)) if shared else NEITHER


def _stems_5(response: Response, content: str) -> Verdict:
    """Take each clause of a memory for itself: one clause of the response says all that it must, of the same subject and of
    the same time, and in the same sense. Where that is denied the memory is denied; in doubt nothing happens."""
    own = stems(content) - NEGATIONS
    needed = needed_stems(len(own))
    if not own or len(own & response.reaching) < needed or _is_short(content) or not _can_have(response, own, content):
        return NEITHER
    agreeing, found, denial, whole = set[str](), set[str](), "", True
    for part in _clauses_of_memory(content):
        most, against, why = _best(part, response)
        agreeing |= most
        found |= most if len(most) > len(against) else against
        whole = whole and bool(most)
        if len(against) >= max(len(most), LEAST_DENIED, _at_least(DENIED_PERCENT, len(part.stems))):
            denial = denial or why
    if denial:
        return Verdict(denial=denial) if len(found & own) >= needed else NEITHER
    overlap = len(agreeing & own)
    if overlap < needed or (len(own) <= SHORT_STEMS and not whole):
        return NEITHER
    return Verdict(Match(overlap, len(own), _millionths(overlap, len(own))))


MATCHERS: Mapping[str, Callable[[Response, str], Verdict]] = MappingProxyType(
    {substring.NAME: _substring_1, "stems/5": _stems_5}
)


def needed_stems(total: int) -> int:
    """Return how many of a memory's ``total`` stems a response must hold under stems/5."""
    if total <= SHORT_STEMS:
        return max(min(total, ALL_STEMS), _at_least(SHARE_PERCENT, total))
    return max(LONG_MIN_OVERLAP, _at_least(LONG_SHARE_PERCENT, total))


def found_by(content: str) -> tuple[int, frozenset[str]]:
    """Return (least, stems): every text that restates or denies a memory by its stems has at least so many of these among
    those that ``sought`` returns; substring/1 is not covered.

    An index from these stems to memories therefore misses none (the prefix filter of set-similarity joins): of a text that
    holds t of n stems at most d are among any d that the index leaves out. The commonest are left out, of which nearly every
    memory of a ledger may have one, as long as ``LEAST_FOUND`` others are needed.
    """
    own = stems(content) - NEGATIONS
    least = needed_stems(len(own))
    common = sorted(own & COMMON.keys(), key=COMMON.__getitem__)[: max(least - LEAST_FOUND, 0)]
    return least - len(common), own.difference(common)


def sought(response: Response) -> frozenset[str]:
    """Return the stems that lead from a response to the memories that it may restate or deny."""
    return response.reaching - NEGATIONS


def _at_least(percent: int, total: int) -> int:
    return -(-percent * total // 100)


def _millionths(part: int, whole: int) -> int:
    quotient, rest = divmod(part * 1_000_000, whole)
    return quotient + (2 * rest > whole or (2 * rest == whole and quotient % 2))


# --- clause by clause ------------------------------------------------------------------------------------------------

_clauses_of_memory = lru_cache(maxsize=4_096)(clauses)


def _can_have(response: Response, own: Collection[str], content: str) -> bool:
    """Return False if the clauses of a memory cannot have enough of its stems from one clause each, whatever these say. Most
    memories that have enough in common with a long response cannot, and so few are cut."""
    needed, most = needed_stems(len(own)), sorted(response.most_of(own).values(), reverse=True)
    return sum(most[:1]) >= needed or sum(most[: pieces(content)]) >= needed


def _best(part: Clause, response: Response) -> tuple[frozenset[str], frozenset[str], str]:
    """Return the most stems of a clause of a memory that one clause says in the same sense, and the most in the opposite one,
    with how that differs."""
    most, against, why = NONE, NONE, ""
    for at in sorted(response.most_of(part.stems)):
        clause = response.clauses[at]
        if not _is_statement(part, clause):
            continue
        differs, shared = _differs(part, clause) if clause.supposed <= part.supposed else ("", NONE)
        if not differs and len(confirmed := _confirmed(part, clause)) > len(most):
            most = confirmed
        elif differs and len(shared) > len(against) and not part.supposed and _is_of_same(part, clause):
            against, why = shared, differs
    return most, against, why


def _is_statement(part: Clause, clause: Clause) -> bool:
    """Return True if a clause of a response says something of the world, as one of a memory does, and of nobody else's things."""
    return (
        clause.notes <= part.notes
        and is_foreign(clause) <= is_foreign(part)
        and all(owner in part.stems and thing in part.stems for owner, thing in clause.owned)
    )


def _is_of_same(part: Clause, clause: Clause) -> bool:
    """Return True if a clause of a response is of the subject of a clause of a memory, and of nobody else."""
    if not others_in(clause) <= others_in(part) - ME:
        return False
    if not _is_of_user(part):
        subject = part.who or next((stem(word) for word in part.words if tells(word)), "")
        return subject in clause.stems and USER.isdisjoint(clause.all)
    first = next((at for at, word in enumerate(clause.words) if word in USER), None)
    if first is None:
        return clause.who == SOMEBODY
    return clause.words[first] in YOU or _is_in(_telling(clause.words, first), part)


def _is_of_user(part: Clause) -> bool:
    return part.who == SOMEBODY or not (USER | ME).isdisjoint(part.all)


def _confirmed(part: Clause, clause: Clause) -> frozenset[str]:
    """Return the stems of a clause of a memory that one of a response states, if it states what it must."""
    shared = part.having(clause)
    if not part.over <= clause.over | clause.denied:
        return NONE
    if any(own in shared for word in clause.past - part.past for own in (stem(word), *_stems_of(word, part))):
        return NONE
    if _is_of_user(part):
        shared = _of_user(part, clause, shared)
    elif not _is_plain(part, clause) or len(shared) < min(len(part.stems), OTHERS_STEMS):
        return NONE
    if not part.figures <= shared or any(shared.isdisjoint(name) for name in part.names):
        return NONE
    return shared


def _is_plain(part: Clause, clause: Clause) -> bool:
    """Return True if a whole clause is in the sense of one of a memory: what it says without a word that decides where it says it."""
    same = (clause.negative == part.negative, clause.modal <= part.modal, clause.supposed <= part.supposed, clause.was <= part.was)
    return all(same) and _is_of_same(part, clause)


def _stems_of(word: str, part: Clause) -> Iterator[str]:
    meaning = significant(word)
    return (own for own, each in part.meanings.items() if each == meaning)


def _of_user(part: Clause, clause: Clause, shared: frozenset[str]) -> frozenset[str]:
    """Return what a response says that the user is, has or does: "you" and a telling word of the memory, or "your" with words
    of it and no others."""
    at = next((at for at, word in enumerate(part.words) if word in USER or word in ME), -1)
    if at < 0:
        return shared if len(shared) >= min(len(part.stems), OTHERS_STEMS) and _is_plain(part, clause) else NONE
    following = part.words[at + 1] if at < len(part.words) - 1 else ""
    thing = _telling(part.words, at) if part.words[at] in YOURS | {"my", "mine"} else ""
    verb = following if tells(following) and not is_between(following) and not thing else ""
    run = max(_runs(part, clause, verb, thing), key=len, default=NONE)
    if thing:
        return run if stem(thing) in run else NONE
    if any(_says(verb, start, place, part, clause) for start, place in _predicates(part, clause)):
        return shared
    possessed = following in ("has", "have") or significant(verb) in _HAVING or len(run) >= max(ALL_STEMS, len(part.stems) - 1)
    if len(shared) >= max(PLAIN_STEMS, _at_least(PLAIN_PERCENT, len(part.stems))) and _is_plain(part, clause) and not clause.past:
        return shared
    return run if possessed and not clause.past else NONE


def _says(verb: str, start: int, place: int, part: Clause, clause: Clause) -> bool:
    """Return True if the predicate at a place is the verb of a memory, or a word of it, soon followed by another one."""
    spoken = clause.words
    subject, word = (spoken[start] if start >= 0 else ""), spoken[place]
    if not verb:  # "You have a dog", "You have a small dog"
        return _is_in(word, part) or (place > start + 1 and _is_before(spoken, place, part))
    if subject in YOU - {SOMEBODY} and word == verb and word.endswith("s") and stem(word) != word:
        return False  # "the man next to you plays"
    if significant(word) != significant(verb):
        return False
    following = next((at for at in range(place + 1, len(spoken)) if tells(spoken[at])), None)
    return following is None or _is_in(spoken[following], part) or _is_before(spoken, following, part) or (
        start > 0 and _is_in(spoken[start - 1], part)  # "the milk you drink"
    )


def _is_before(spoken: Sequence[str], at: int, part: Clause) -> bool:
    """Return True for a word, such as an adjective, that stands right before a word of a memory."""
    qualifies = spoken[at] not in QUALIFIED and not spoken[at].endswith("ing")
    return qualifies and at + 1 < len(spoken) and _is_in(spoken[at + 1], part)


def _predicates(part: Clause, clause: Clause) -> Iterator[tuple[int, int]]:
    """Yield the places of "you", or "and" in a clause of the user, each with that of the telling word that follows with nothing
    but auxiliaries and adverbs between."""
    spoken, carried = clause.words, clause.who == SOMEBODY and _is_of_same(part, clause)
    starts = [at for at, word in enumerate(spoken) if word in YOU and is_subject(spoken, at, part.stems)]
    starts += [at for at, word in enumerate(spoken) if word in ("and", "or") and carried]
    for start in (*starts, -1) if carried and USER.isdisjoint(clause.all) else starts:
        if start >= 0 and spoken[start] in WOULD and not part.modal:
            continue
        at = start + 1
        while at < len(spoken) and (is_between(spoken[at]) or (part.modal and is_verbal(spoken[at]))):
            at += 1
        if at < len(spoken) and tells(spoken[at]) and _is_in_sense(part, clause, at):
            yield start, at


def _is_in_sense(part: Clause, clause: Clause, at: int) -> bool:
    """Return True if the words before a place suppose, deny or date what follows no more than a memory does: what makes a
    statement doubtful stands before it."""
    before = clause.words[:at]
    denies = clause.negative and not DENYING.isdisjoint(before)
    doubts = clause.carried or supposes(before) or supposes(clause.words[-1:])
    return denies == (not DENYING.isdisjoint(part.words)) and doubts <= part.supposed and was(before) <= part.was


def _runs(part: Clause, clause: Clause, verb: str, thing: str) -> Iterator[frozenset[str]]:
    """Yield the words of a memory that follow each "your", and the names before. Another word may stand between only before a
    name or two words of the memory."""
    spoken = clause.words
    for at, word in enumerate(spoken):
        if not _is_mine(part, clause, at, thing):
            continue
        run, before = {SOMEBODY}, spoken[:at]
        if not before or is_verbal(before[-1]) or before[-1] == "as" or not any(tells(each) and not _is_in(each, part) for each in before):
            run |= (clause.stems - set(map(stem, spoken))) & part.stems  # "Ana is your sister", "Ana, your sister"
            run |= part.figures.union(*part.names).intersection(map(stem, before))
        if verb and before and significant(before[-1]) == significant(verb):  # "Take your pills"
            run.add(stem(verb))
        skipped = False
        for place in range(at + 1, len(spoken)):
            following = spoken[place]
            if (is_modal(following) and not _is_in(following, part)) or was([following]) > part.was or (place > at + 1 and verb and significant(following) == significant(verb)):
                break
            if tells(following) and significant(following) and not _is_in(following, part):
                if skipped or following in BYGONE or not _is_thing(spoken[place + 1 : place + 3], part):
                    break
                skipped = True
            run |= {stem(following), *_stems_of(following, part)} & part.stems
        if len(run) > 1 and (word != "the" or run == part.stems):
            yield frozenset(run)


def _is_mine(part: Clause, clause: Clause, at: int, thing: str) -> bool:
    """Return True if a word, by its place, is "your" of a thing that there is, or "the" of the thing that a memory names."""
    spoken, before = clause.words, clause.words[max(at - 1, 0) : at]
    if spoken[at] == "the" and thing and spoken[at + 1 : at + 2] == (thing,):
        return USER.isdisjoint(clause.all) and _is_plain(part, replace(clause, who=SOMEBODY))
    return (
        spoken[at] in YOURS
        and (is_stated(spoken, at) or before[0] in ("until", "till", "before", "after", "than") or is_verbal(before[0]))
        and was(before) <= part.was
        and not clause.carried
        and not supposes(clause.words[:at])
        and DENYING.isdisjoint(clause.words[:at])
        and others_in(clause) - ME <= others_in(part)
    )


def _is_thing(following: Sequence[str], part: Clause) -> bool:
    """Return True if what follows is a name of a memory, or two words of it."""
    named = bool(following) and any(stem(following[0]) in name for name in part.names)
    return named or (len(following) == 2 and all(_is_in(word, part) for word in following))


def _telling(spoken: Sequence[str], at: int) -> str:
    return next((word for word in spoken[at + 1 :] if tells(word)), "")


def _is_in(word: str, part: Clause) -> bool:
    return bool(word) and (stem(word) in part.stems or any(_stems_of(word, part)))


def _differs(part: Clause, clause: Clause) -> tuple[str, frozenset[str]]:
    """Return how a clause of a response denies one of a memory, and in which stems: it denies or ends what that says, says what
    that denies, or says the opposite."""
    own = part.denied | part.over
    shared = part.stems & clause.stems
    if clause.modal > part.modal:
        return "", NONE
    if over := part.among(clause.over) - own:
        return "past", shared | over
    denied = part.among(clause.denied) - own
    if part.denied and (
        stated := part.denied & {*clause.stems, *clause.meanings.values()} - clause.denied - clause.over
    ):
        denied |= part.among(stated)
    if denied:
        return "negation", shared | denied
    if part.opposable and clause.opposable and (turned := _opposites(part, clause)):
        return "opposite", shared | turned
    return "", NONE


def _opposites(part: Clause, clause: Clause) -> frozenset[str]:
    """Return the stems of a clause of which the other clause says the opposite, and not the same."""
    meant = set(clause.meanings.values())
    stated = {meaning for own, meaning in clause.meanings.items() if own not in clause.denied | clause.over}
    return frozenset(
        own
        for own, each in part.meanings.items()
        if each not in meant and own not in clause.stems and not stated.isdisjoint(AGAINST.get(each, ()))
    )


_ROOTS = frozenset(map(significant, FAMILY))  # what words of several forms count as


@lru_cache(maxsize=1024)
def _family(root: str) -> frozenset[str]:
    """Return the stems of the words of one meaning."""
    return frozenset({root, *(stem(word) for word in (*FAMILY, *OPPOSITES) if significant(word) == root)})


def _is_short(content: str) -> bool:
    line = " ".join(content.split())
    return len(line) < LEAST_CHARS and sum(UNSPACED_CHARS if unspaced(each) else 1 for each in line) < LEAST_CHARS
