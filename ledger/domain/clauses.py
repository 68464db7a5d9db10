"""The clauses of a text, for stems/4: what each says, of whom and when, and what it denies, ends or only supposes."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from ledger.domain.late import late
from ledger.domain.meaning import AGAINST, SENTENCE, significant
from ledger.domain.near import NEGATIONS
from ledger.domain.text import STOP_WORDS, stem, stems, words

_TOKEN = late(r"[^\W_]+(?:['’][^\W_]+)*|[,;:()\[\]–—|]")
# In a text that ends with no blank: a sign that nothing follows ends the only sentence.
_ENDING = late(r"[.!?…。！？\r\n].", re.DOTALL)
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
"""What "you" counts as; it counts in the clauses of a sentence that follow, as its names do."""

USER = frozenset(("user", "users", "you", "your", "yours", "youre", "youve", "youd", "youll"))
_SUBJECT = "i you he she it we they im ive id ill youre youve youd youll hes shes weve theyre theyve theyd"
_SUBJECTS = frozenset(_SUBJECT.split())
DENYING = NEGATIONS - {"without"} | {"hardly", "scarcely", "seldom", "rarely"}
_NOT = r"\b(?:not|never|\w+n['’]?t)"
_HARMLESS = late(
    rf"{_NOT} (?:only|just|merely|simply|stopped|quit|given up)\b"
    r"|\b(?:not (?:to mention|alone)|no (?:doubt|wonder|problem|worries|matter|(?:more|less|fewer) than)|why not|or not"
    r"|(?:can['’]?t|cannot|could(?: not|n['’]?t)) (?:wait|help|believe|agree more|be (?:more|happier|prouder))"
    r"|nothing (?:like|better|but)|(?:never|not|won['’]?t|do not|don['’]?t) (?:forget|worry|hesitate))\b|\bno *[,.!]",
    re.IGNORECASE,
)
OVER = late(
    r"\b(?:(?<!\bis )(?<!\bare )(?<!\bbe )(?<!\bwas )(?<!\bwere )(?<!\bbeen )(?<!\bget )used to"
    r"|(?:no|not any) longer|formerly|previously|former|stopped|quit|g[ai]ven? up|switched (?:from|away from))\b",
    re.IGNORECASE,
)
_MARK = "ended"  # takes the place of what OVER finds
_UNCOUNTED = STOP_WORDS | {_MARK}
_TURNS = DENYING | {_MARK}
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
            else NONE
        )


def clauses(text: str) -> tuple[Clause, ...]:
    """The clauses of a text that have a stem, but for questions; a name counts in each clause of its sentence from there on."""
    return tuple(each for sentence in _sentences(text) for each in _of_sentence(sentence) if each.stems)


def pieces(text: str) -> int:
    """How many clauses a text has at the most; to count takes a seventh of the time that it takes to read them."""
    return sum(len(_cut(_TOKEN.findall(sentence))) for sentence in _sentences(text))


def _sentences(text: str) -> Iterator[str]:
    sentences = SENTENCE.split(text) if _ENDING.search(text.rstrip()) else (text.rstrip(),)
    return (each for each in sentences if not each.rstrip(_CLOSING).endswith(("?", "？")))


def _of_sentence(sentence: str) -> Iterator[Clause]:
    tokens = _TOKEN.findall(sentence)
    of_sentence = _first(sentence, _names(tokens))
    named: frozenset[str] = NONE
    for part in _cut(tokens):
        text, here = " ".join(part), named | _names(part)
        clause = _clause(text, here, _first(text, here) or of_sentence, "\\" not in sentence)
        named = here - clause.denied  # "Do Not Disturb" is no name of anybody
        yield clause


def _cut(tokens: Sequence[str]) -> list[list[str]]:
    parts, before = list[list[str]]([[]]), ""
    for at, token in enumerate(tokens):
        word = token.lower()
        supposing = word in _JOINS and bool(parts[-1]) and parts[-1][0].lower() in _SUPPOSING
        if (
            (word in _BREAKS and before not in DENYING)
            or (  # "nothing but" breaks nothing
                word in _JOINS and (supposing or _begins(tokens[at + 1 : at + 4]))
            )
        ):
            parts.append([])
        elif word in _SUPPOSING:
            parts.append([token])
        else:
            parts[-1].append(token)
        before = word
    return [each for each in parts if each]


def _names(tokens: Sequence[str]) -> frozenset[str]:
    """The stems of the words in capitals, but for verbs and dates, and the user, if that is one of them."""
    return frozenset().union(*map(_named, tokens))


@lru_cache(maxsize=16_384)
def _named(token: str) -> frozenset[str]:
    found = {each for each in stems(token) if not _is_verb(each)} if token[:1].isupper() else NONE
    return frozenset(found - _DATED | (NONE if USER.isdisjoint(words(token)) else {SOMEBODY}))


def _first(text: str, named: frozenset[str]) -> str:
    """The first telling word, if that is a name or the user; "" otherwise."""
    of_words = (SOMEBODY if word in USER else stem(word) for word in words(text) if word in USER or _tells(word))
    first = next(of_words, "")
    return first if first in named else ""


def _tells(word: str) -> bool:
    return word not in STOP_WORDS and word not in NEGATIONS


def _begins(following: Sequence[str]) -> bool:
    """Whether a clause of its own follows "and" or a comma: one with a subject, or that soon says yes or no to something."""
    spoken = words(" ".join(following))
    if spoken and spoken[0] in _LEADING:
        spoken = spoken[1:]
    return bool(spoken) and (spoken[0] in _SUBJECTS or any(each in DENYING or _is_verb(each) for each in spoken[:2]))


def _is_verb(word: str) -> bool:
    return significant(word) in _VERBS


def _clause(text: str, named: frozenset[str], who: str, prose: bool) -> Clause:
    own, turned = words(text), OVER.sub(f" {_MARK} ", plain(text)) if _may_turn(text) else text
    spoken = words(turned) if turned != text else own
    marks: dict[bool, set[str]] = {True: set(), False: set()}  # what is over, and what is denied
    ending, left = False, 0
    for word in () if _TURNS.isdisjoint(spoken) else spoken:
        if word in _TURNS:
            ending, left = word == _MARK, _REACH
        elif left and significant(word) and word not in _RAISING:
            marks[ending] |= {stem(word), significant(word)}
            left = 0
        else:
            left = max(left - 1, 0)
    was, now = not _WAS.isdisjoint(spoken), not _IS.isdisjoint(spoken)
    counted = own if spoken is own else own + spoken
    meanings = {stem(word): significant(word) for word in counted if word not in _UNCOUNTED} if prose else {}
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


def plain(text: str) -> str:
    """A text without the phrases that only look like a denial, and with one word for those that are one."""
    text = _HARMLESS.sub(" ", text)
    for pattern, word in _PHRASES:
        text = pattern.sub(word, text)
    return text


_VERB = """
    like hate dislike avoid allow forbid enable disable start stop buy sell accept reject agree disagree include exclude
    add remove win lose
"""
_VERBS = frozenset(map(significant, _VERB.split()))
_CLOSING = "\"'”’)]*_ \t\n"
NONE: frozenset[str] = frozenset()
