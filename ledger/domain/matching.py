"""Does a response restate a memory, or deny it? The versions of the rule, and the filter that finds the memories to ask."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from types import MappingProxyType

from ledger.domain.errors import RejectedError
from ledger.domain.late import late
from ledger.domain.meaning import AGAINST, FAMILY, OPPOSITES, SENTENCE, significant
from ledger.domain.near import NEGATIONS
from ledger.domain.question import unspaced
from ledger.domain.text import STOP_WORDS, stem, stems, words

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

    @cached_property
    def places(self) -> Mapping[str, Sequence[int]]:
        """Where its clauses have a stem, or a word that counts as this one: what a clause may share with them it shares there."""
        found: dict[str, list[int]] = {}
        for at, each in enumerate(self.clauses):
            for token in {*each.stems, *each.meanings.values(), *each.denied, *each.over}:
                found.setdefault(token, []).append(at)
        return found

    @cached_property
    def reaching(self) -> frozenset[str]:
        """Its stems, and those of words that say the opposite of one, or the same as one that it may deny: every memory that
        stems/4 finds restated or denied has enough of them."""
        plain = _plain(self.text)
        spoken = {*words(self.text), *words(plain)}
        meant = {significant(word) for word in spoken} - {""}
        roots = {root for each in meant for root in AGAINST.get(each, ())}
        if not _DENYING.isdisjoint(spoken) or _OVER.search(plain) is not None:
            roots |= meant & _ROOTS
        own = self.stems | {each for root in roots for each in _family(root)}
        return own if _USER.isdisjoint(words(self.text)) else own | {SOMEBODY}


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
    if not own or len(own & response.reaching) < needed or _is_short(content):
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
    plain = own - NEGATIONS
    least = min(needed_stems_3(len(plain)), needed_stems_3(len(own)) - len(own) + len(plain))
    if least < 1:
        return min(len(own), 1), own
    common = sorted(plain & COMMON.keys(), key=COMMON.__getitem__)[: max(least - LEAST_FOUND, 0)]
    return least - len(common), plain.difference(common)


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


# --- clauses (stems/4) -----------------------------------------------------------------------------------------------

LEAST_DENIED = 2
"""stems/4: a denial has at least this many of a memory's stems (ours)."""

DENIED_PERCENT = 80
"""stems/4: ... and at least this share of those of one clause (ours): with less it may be of another thing."""

UNSPACED_CHARS = 3
"""stems/4: a character of a script without spaces counts as so many of the least length (ours)."""

_TOKEN = late(r"[^\W_]+(?:['’][^\W_]+)*|[,;:()\[\]–—|]")
_JOINS = frozenset(("and", "or", ","))
_BREAKING = "but although though whereas while however yet except instead ; : ( ) [ ] – — |"
_BREAKS = frozenset(_BREAKING.split())
_SUPPOSING = frozenset(("if", "whether", "unless"))
_LEADING = frozenset(("as", "because", "since", "so", "who", "which"))
_DATES = """
    monday tuesday wednesday thursday friday saturday sunday january february march april may june july august september
    october november december
"""
_DATED = frozenset(map(stem, _DATES.split()))
SOMEBODY = "user"
"""stems/4: what "you" counts as; it counts in the clauses of a sentence that follow, as its names do."""

_USER = frozenset(("user", "users", "you", "your", "yours", "youre", "youve", "youd", "youll"))
_SUBJECT = "i you he she it we they im ive id ill youre youve youd youll hes shes weve theyre theyve theyd"
_SUBJECTS = frozenset(_SUBJECT.split())
_DENYING = NEGATIONS - {"without"} | {"hardly", "scarcely", "seldom", "rarely"}
_NOT = r"\b(?:not|never|\w+n['’]?t)"
_HARMLESS = late(
    rf"{_NOT} (?:only|just|merely|simply|stopped|quit|given up)\b"
    r"|\b(?:not (?:to mention|alone)|no (?:doubt|wonder|problem|worries|matter|(?:more|less|fewer) than)|why not|or not"
    r"|(?:can['’]?t|cannot|could(?: not|n['’]?t)) (?:wait|help|believe|agree more|be (?:more|happier|prouder))"
    r"|nothing (?:like|better|but)|(?:never|not|won['’]?t|do not|don['’]?t) (?:forget|worry|hesitate))\b|\bno *[,.!]",
    re.IGNORECASE,
)
_OVER = late(
    r"\b(?:(?<!\bis )(?<!\bare )(?<!\bbe )(?<!\bwas )(?<!\bwere )(?<!\bbeen )(?<!\bget )used to"
    r"|(?:no|not any) longer|formerly|previously|former|stopped|quit|g[ai]ven? up|switched (?:from|away from))\b",
    re.IGNORECASE,
)
_MARK = "ended"  # takes the place of what _OVER finds
_PHRASES = (  # what says in several words what one would
    (late(r"\b(?:can['’]?t|cannot|can not|could(?:n['’]?t| not)) (?:stand|bear)\b", re.IGNORECASE), "dislike"),
    (late(rf"{_NOT} (?:true|so|correct|the case) that\b|\bfalse that\b", re.IGNORECASE), "not"),
    (late(r"\b(?:fail|refuse)(?:s|d|ed|ing)? to\b", re.IGNORECASE), "not"),
    (late(rf"(?:{_NOT} (?:sure|certain)|(?<!no )\bdoubt) that\b", re.IGNORECASE), "whether"),
)
_TURNING = "no never n't nt false fail refuse doubt used former previously stopped quit gave give gaven switched"
_TURNINGS = tuple(_TURNING.split())  # one of which is in every text that one of these patterns finds something in
_RAISING = frozenset(("think", "believe"))  # who does not think that it is so says that it is not
_REACH = 6  # a word that denies is about the first telling word among so many
_WAS, _IS = (
    frozenset(("was", "were", "wasnt", "werent")),
    frozenset(("is", "are", "am", "isnt", "arent", "im", "youre")),
)


@dataclass(frozen=True, slots=True)
class Clause:
    """A part of a sentence: its stems without negations, and what its words count as; which words it denies, and of which it
    says that they are over, each as its stem and as what it counts as; whether it speaks of what was (True), of what is
    (False), or leaves that open (None); of whom it is: the name, or the user, that it begins with, or else its sentence;
    whether it only supposes what it says ("if", "I doubt that"); what the words that it has opposites of count as."""

    stems: frozenset[str]
    meanings: Mapping[str, str]  # of each stem
    denied: frozenset[str]
    over: frozenset[str]
    was: bool | None
    who: str
    supposed: bool
    opposable: frozenset[str]

    def among(self, marked: Collection[str]) -> frozenset[str]:
        """Its stems that are marked, or that are of words that count as one that is marked."""
        return (
            frozenset(own for own in self.stems if own in marked or self.meanings.get(own) in marked)
            if marked
            else _NONE
        )


def clauses(text: str) -> tuple[Clause, ...]:
    """The clauses of a text that have a stem, but for questions; a name counts in each clause of its sentence from there on."""
    sentences = (each for each in SENTENCE.split(text) if not each.rstrip(_CLOSING).endswith(("?", "？")))
    return tuple(each for sentence in sentences for each in _of_sentence(sentence) if each.stems)


_clauses_of_memory = lru_cache(maxsize=4_096)(clauses)


def _of_sentence(sentence: str) -> Iterator[Clause]:
    tokens = _TOKEN.findall(sentence)
    parts: list[list[str]] = [[]]
    for at, token in enumerate(tokens):
        word, before = token.lower(), tokens[at - 1].lower() if at else ""  # "nothing but" breaks nothing
        supposing = bool(parts[-1]) and parts[-1][0].lower() in _SUPPOSING
        if (word in _BREAKS and before not in _DENYING) or (
            word in _JOINS and (supposing or _begins(tokens[at + 1 : at + 4]))
        ):
            parts.append([])
        elif word in _SUPPOSING:
            parts.append([token])
        else:
            parts[-1].append(token)
    of_sentence = _first(sentence, _names(tokens))
    named: frozenset[str] = _NONE
    for part in filter(None, parts):
        text, here = " ".join(part), named | _names(part)
        clause = _clause(text, here, _first(text, here) or of_sentence, "\\" not in sentence)
        named = here - clause.denied  # "Do Not Disturb" is no name of anybody
        yield clause


def _names(tokens: Sequence[str]) -> frozenset[str]:
    """The stems of the words in capitals, but for verbs and dates, and the user, if that is one of them."""
    return frozenset().union(*map(_named, tokens))


@lru_cache(maxsize=16_384)
def _named(token: str) -> frozenset[str]:
    found = {each for each in stems(token) if not _is_verb(each)} if token[:1].isupper() else _NONE
    return frozenset(found - _DATED | (_NONE if _USER.isdisjoint(words(token)) else {SOMEBODY}))


def _first(text: str, named: frozenset[str]) -> str:
    """The first telling word, if that is a name or the user; "" otherwise."""
    of_words = (SOMEBODY if word in _USER else stem(word) for word in words(text) if word in _USER or _tells(word))
    first = next(of_words, "")
    return first if first in named else ""


def _counts(word: str) -> bool:
    return word not in STOP_WORDS and word != _MARK


def _tells(word: str) -> bool:
    return word not in STOP_WORDS and word not in NEGATIONS


def _begins(following: Sequence[str]) -> bool:
    """Whether a clause of its own follows "and" or a comma: one with a subject, or that soon says yes or no to something."""
    spoken = words(" ".join(following))
    if spoken and spoken[0] in _LEADING:
        spoken = spoken[1:]
    return bool(spoken) and (spoken[0] in _SUBJECTS or any(each in _DENYING or _is_verb(each) for each in spoken[:2]))


def _is_verb(word: str) -> bool:
    return significant(word) in _VERBS


def _clause(text: str, named: frozenset[str], who: str, prose: bool) -> Clause:
    own, plain = words(text), _OVER.sub(f" {_MARK} ", _plain(text)) if _may_turn(text) else text
    spoken = words(plain) if plain != text else own
    marks: dict[bool, set[str]] = {True: set(), False: set()}  # what is over, and what is denied
    ending, left = False, 0
    for word in spoken:
        if word in _DENYING or word == _MARK:
            ending, left = word == _MARK, _REACH
        elif left and significant(word) and word not in _RAISING:
            marks[ending] |= {stem(word), significant(word)}
            left = 0
        else:
            left = max(left - 1, 0)
    was, now = not _WAS.isdisjoint(spoken), not _IS.isdisjoint(spoken)
    meanings = {stem(word): significant(word) for word in (*own, *spoken) if _counts(word)} if prose else {}
    return Clause(
        stems=named.union(map(stem, set(own) - STOP_WORDS)) - NEGATIONS,
        meanings=meanings,
        denied=frozenset(marks[False]),
        over=frozenset(marks[True]),
        was=was if was != now else None,
        who=who,
        supposed=not _SUPPOSING.isdisjoint(spoken),
        opposable=frozenset(AGAINST.keys() & meanings.values()),
    )


def _may_turn(text: str) -> bool:
    """Whether a text can have a phrase that denies, ends or supposes something, or looks like it; mostly it has none."""
    lower = text.lower()
    return not lower.isascii() or any(each in lower for each in _TURNINGS)


def _plain(text: str) -> str:
    """A text without the phrases that only look like a denial, and with one word for those that are one."""
    text = _HARMLESS.sub(" ", text)
    for pattern, word in _PHRASES:
        text = pattern.sub(word, text)
    return text


def _best(part: Clause, response: Response) -> tuple[frozenset[str], frozenset[str], str]:
    """The most stems of a clause that one clause says in the same sense, and in the opposite one, with how that differs."""
    most, against, why = _NONE, _NONE, ""
    for at in sorted(_near(part, response)):
        each = response.clauses[at]
        if each.supposed and not part.supposed:
            continue
        differs, shared = _differs(part, each) if part.denied or each.denied or each.over else ("", _NONE)
        shared |= part.stems & each.stems
        if not differs and part.opposable and (turned := _opposites(part, each)):
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


def _near(part: Clause, response: Response) -> set[int]:
    """Where the clauses are that can share a stem with this one, or say the opposite of a word of it."""
    places, turned = response.places, (AGAINST[each] for each in part.opposable)
    tokens = part.stems.union(part.meanings.values(), part.denied, *turned)
    return set[int]().union(*[places[each] for each in tokens if each in places])


def _differs(part: Clause, other: Clause) -> tuple[str, frozenset[str]]:
    """How a clause of a response denies one of a memory, and in which stems: it denies or ends what that says, or says what
    that denies."""
    own = part.denied | part.over
    if over := part.among(other.over) - own:
        return "past", over
    denied = part.among(other.denied) - own
    if part.denied and (stated := part.denied & {*other.stems, *other.meanings.values()} - other.denied - other.over):
        denied |= part.among(stated)
    return ("negation", denied) if denied else ("", _NONE)


def _opposites(part: Clause, other: Clause) -> frozenset[str]:
    """The stems of a clause of which the other one says the opposite, and not the same; what it denies it does not say."""
    meant = set(other.meanings.values())
    stated = {meaning for own, meaning in other.meanings.items() if own not in other.denied | other.over}
    return frozenset(
        own
        for own, each in part.meanings.items()
        if each not in meant and own not in other.stems and not stated.isdisjoint(AGAINST.get(each, ()))
    )


_VERB = """
    like hate dislike avoid allow forbid enable disable start stop buy sell accept reject agree disagree include exclude
    add remove win lose
"""
_VERBS = frozenset(map(significant, _VERB.split()))
_CLOSING = "\"'”’)]*_ \t\n"
_NONE: frozenset[str] = frozenset()


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
