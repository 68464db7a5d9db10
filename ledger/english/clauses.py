"""The clauses of a text for stems/6: the words of each, its subject and time, and whether it states or only supposes."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import takewhile

from ledger.domain.late import late, once
from ledger.english.dates import MONTHS, WEEKDAYS
from ledger.english.meaning import AGAINST, LITTLE, SENTENCE, significant
from ledger.english.question import FORMS
from ledger.english.words import NEGATIONS, STOP_WORDS, stem, words

_TOKEN = late(r"[^\W_]+(?:['’][^\W_]+)*|[,;:()\[\]–—|]")
# In a text without a blank at its end: without a match the text is a single sentence.
_ENDING = late(r"[.!?…。！？\r\n].", re.DOTALL)
_QUOTED = late(r'"[^"\n]*"|“[^“”\n]*”|„[^„“”\n]*[“”]|«[^«»\n]*»|‘[^‘’\n]*’|`[^`\n]*`|(?m:^[ \t]*+>[^\n]*$)')
_TITLE = late(r"\b(Dr|Mr|Mrs|Ms|Prof|St)\.(?= )")
_TITLES = frozenset(map(stem, ("dr", "mr", "mrs", "ms", "prof", "st")))
_FENCE = "```"
_POSSESSIVE = late(r"[^\W_]+['’]s")

SOMEBODY = "user"
"""The stem that stands for the user, whom a response addresses as "you"."""

YOU = frozenset(("user", "you", "youre", "youve", "youd", "youll"))
YOURS = frozenset(("users", "your", "yours"))
USER = YOU | YOURS
ME = frozenset(("i", "im", "ive", "id", "ill", "me", "my", "mine", "myself"))
"""The user in a memory. In a response these words mean the assistant, who speaks of itself."""

_OTHER = """
    he she they his her their we hes shes theyre theyve weve our ours us
"""
_OTHERS = frozenset(_OTHER.split())
_DENY = "hardly scarcely seldom rarely fail fails failed failing refuse refuses refused false untrue"
DENYING = NEGATIONS - {"without"} | {*_DENY.split()}
_FOREIGN = """
    nicht kein keine keinen nie mehr pas jamais ne ya nunca não mai più niet geen wenn ob si se als
"""
_ELSEWHERE = frozenset(_FOREIGN.split())
"""Words that deny or suppose in other languages. A clause with such a word is neither confirmed nor denied."""

_WAS = frozenset(["was", "were", "had", "did", "ago", "wasnt", "werent", "hadnt", "didnt"])


def _irregular() -> Iterator[str]:
    known = set[str]()
    for word, others in takewhile(lambda family: family[0] != "child", FORMS.items()):  # verbs come first
        if word in known and not word.endswith(("s", "ing")):
            yield word
        known.update((word, *others))


PASTS = frozenset(_irregular()) - {"am", "is", "are", "was", "were", "been", "got", "given"}
"""Irregular past forms of verbs; the first form of each family is the present."""

_SUPPOSED = """
    if whether unless suppose supposing assume assumed assuming imagine provided maybe perhaps probably possibly wonder wondering
    doubt unsure guess apparently supposedly allegedly reportedly presumably
"""
_SUPPOSING = frozenset(_SUPPOSED.split())
_MODAL = """
    would could might may must can cannot should shall will youd youll
    wouldnt couldnt mustnt cant shouldnt wont
"""
_MODALS = frozenset(_MODAL.split())
_NOTE = """
    memory memories note notes entry entries record records remark remarks profile
    delete deleted remove removed erase erased forget forgotten stored saved discard discarded unverified mistake mistaken wrong
"""
_NOTES = frozenset(_NOTE.split())
"""Words by which a sentence speaks of a note instead of the world."""

_JOINS = frozenset(("and", "or", ","))
_BREAKING = """
    but although though whereas while however yet except instead ; : ( ) [ ] – — |
"""
_BREAKS = frozenset(_BREAKING.split())
_LEADING = frozenset(["as", "because", "since", "so", "who", "which", "where"])
_NOMINATIVES = frozenset(("i", "we", "he", "she", "they"))
_RELATIVE = frozenset(["which", "who", "who's", "who’s", "where", "whom"])
_PERSONS = frozenset(("someone", "somebody", "anyone", "person", "people", "those", "folks"))
_WITH = frozenset(("with", "on"))  # "people with asthma", "people on night shifts"
_LEAST_MAIN = 4  # words after "living in Rome,": fewer are a remark such as "you know that"
_CONDITIONAL = frozenset(("would", "could", "might", "may", "can", "cannot", "youd", "wouldnt", "couldnt", "cant"))
"""Words that make a condition of what was said of "you" before: "living in Rome, you would"."""

_STARTING = frozenset(("he", "she", "it", "they", "we", "i", "hes", "shes", "theyre", "theyve", "weve", *ME, *USER)) - {
    "me",
    "users",
}
_REPORTING = frozenset(["that", "when", "whenever", "once", "until", "till", "before", "after", "than"])
"""Words before a subject after which nothing is stated: a report or a condition follows."""

_FACTIVES = """
    know knowing remember see seeing hear note given considering now said mentioned told since because
    good great glad nice lovely helps fact
"""
FACTIVE = frozenset(_FACTIVES.split())
"""Words after which "(that) you" is stated all the same."""

_FRONTING = frozenset(["in", "at", "on", "with", "for", "by", "during", "since", "from", "this", "as"])
_PREPOSITIONS = """
    to with for about of from by like at on between against
"""
_BEFORE_OBJECTS = frozenset(_PREPOSITIONS.split())

_AS_LONG = frozenset(("long", "soon", "far", "much"))

_AUXILIARY = frozenset(
    ["am", "is", "are", "was", "were", "be", "been", "being", "have", "has", "had", "having", "do", "does", "did"]
)
_ADVERBS = "a an the also just too own both all already got always often sometimes only ever even usually"
_BETWEEN = _AUXILIARY | LITTLE | NEGATIONS | {*_ADVERBS.split()}
"""Words between a subject and its predicate."""

OVER = late(
    r"\b(?:(?<!\bis )(?<!\bare )(?<!\bbe )(?<!\bwas )(?<!\bwere )(?<!\bbeen )(?<!\bget )used to"
    r"|(?:no|not any) longer|formerly|previously|former|stopped|quit|g[ai]ven? up|switched (?:from|away from))\b",
    re.IGNORECASE,
)
_HARMLESS = late(
    r"\b(?:not|never|\w+n['’]?t) (?:only|just|merely|simply|stopped|quit)\b|\bno (?:doubt|wonder|more than)\b|\bno *[,.!]",
    re.IGNORECASE,
)
_MARK = "ended"  # replaces the matches of OVER
_TURNS = DENYING | {_MARK}
_REACH = 6  # a denying word concerns the first telling word among this many
_DATED = frozenset(map(stem, (*WEEKDAYS, *MONTHS)))
_DAYS = frozenset(("today", "tomorrow", "tonight", "week", "month", "year"))
_CLOSING = "\"'”’)]*_ \t\n"
_ONE = stem("one")  # mostly a pronoun
NONE: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Clause:
    """A part of a sentence.

    Attributes:
        tokens: The words and marks of the text.
        words: The words as the rules compare them.
        stems: The stems without negations; a name counts in the following clauses of its sentence too.
        meanings: The meaning of each stem.
        who: The name, or the user, that begins the clause, or else its sentence; "" if unknown.
        notes: The words of its sentence that speak of a note.
        supposed: The clause is a condition or a supposition.
        carried: The supposition comes from the clause before.
        first: The clause begins its sentence.
    """

    tokens: Sequence[str]
    words: tuple[str, ...]
    stems: frozenset[str]
    meanings: Mapping[str, str]
    who: str
    notes: frozenset[str]
    supposed: bool
    carried: bool
    first: bool

    @once
    def denied(self) -> frozenset[str]:
        """Return the words that a negation denies, each as its stem and its meaning."""
        return self._turned[0]

    @once
    def over(self) -> frozenset[str]:
        """Return the words that the clause says have ended."""
        return self._turned[1]

    @once
    def negative(self) -> bool:
        """Return True if the clause has a denying word, or says that something has ended."""
        return self._turned[2]

    @once
    def _turned(self) -> tuple[frozenset[str], frozenset[str], bool]:
        return _turned(self.tokens, self.words)

    @once
    def names(self) -> tuple[frozenset[str], ...]:
        """Return the stems of each run of capitalised words that does not begin the sentence, dates included."""
        return tuple(_runs(self.tokens[1:] if self.first else self.tokens))

    @once
    def owned(self) -> tuple[tuple[str, str], ...]:
        """Return each owner besides the user with the thing that it owns."""
        return tuple(_owned(self.tokens))

    @once
    def modal(self) -> bool:
        """Return True if the clause has a modal verb."""
        without_month = [token for token in self.tokens if token != "May"]
        return not _MODALS.isdisjoint(words(" ".join(without_month)) if "May" in self.tokens else self.words)

    @once
    def all(self) -> frozenset[str]:
        return frozenset(self.words)

    @once
    def opposable(self) -> frozenset[str]:
        return frozenset(AGAINST.keys() & self.meanings.values())

    @once
    def past(self) -> frozenset[str]:
        """Return the words, except auxiliaries, that speak of the past."""
        return frozenset(word for word in self.all if word in PASTS or _is_past(word))

    @once
    def was(self) -> bool:
        return not _WAS.isdisjoint(self.all)

    @once
    def figures(self) -> frozenset[str]:
        return frozenset(
            own for own, meaning in self.meanings.items() if own != _ONE and any(map(str.isdigit, meaning))
        )

    def having(self, other_clause: Clause) -> frozenset[str]:
        """Return the stems of this clause that another clause has too, or has as another word of the same meaning."""
        meant = {*other_clause.meanings.values()}
        return (self.stems & other_clause.stems) | {own for own, meaning in self.meanings.items() if meaning in meant}

    def among(self, marked: Collection[str]) -> frozenset[str]:
        """Return the stems of this clause that are marked, or whose meaning is marked."""
        return frozenset(own for own in self.stems if own in marked or self.meanings.get(own) in marked)


def clauses(text: str) -> tuple[Clause, ...]:
    """Return the clauses of a text that have a stem, without those of questions."""
    return tuple(clause for sentence in _cut_sentences(text) for clause in _of_sentence(*sentence) if clause.stems)


def unquoted(text: str) -> str:
    """Return a text without code and quotations."""
    if _FENCE in text:
        text = "\n".join(text.split(_FENCE)[::2])
    return _QUOTED.sub(" ", text)


def pieces(text: str) -> int:
    """Return the largest number of clauses that a text can have. Counting takes a seventh of the time of reading them."""
    return sum(len(parts) for _, _, parts in _cut_sentences(text))


def tells(word: str) -> bool:
    return word not in STOP_WORDS and word not in NEGATIONS and word not in ME and word not in _LEADING


def is_stated(own: Sequence[str], at: int) -> bool:
    """Return False if a subject's clause, by the subject's place, is a report or a condition: "that you", "as long as you"."""
    before, earlier = _two_before(own, at)
    if before in ("that", "me"):
        return earlier in FACTIVE
    return before not in _REPORTING and not is_verbal(before) and not (before == "as" and earlier in _AS_LONG)


def _two_before(own: Sequence[str], at: int) -> tuple[str, str]:
    return own[at - 1] if at > 0 else "", own[at - 2] if at > 1 else ""


def is_subject(own: Sequence[str], at: int, known: Collection[str]) -> bool:
    """Return True if the "you" at a place begins a statement.

    Right before it stands no preposition, and no telling word unless it is among the known ones.
    """
    if own[at] == SOMEBODY and at > 0 and own[at - 1] == "the":
        at -= 1
    before, earlier = _two_before(own, at)
    if before == "that" and stem(earlier) in known:  # "the car that you drive"
        return True
    if not is_stated(own, at) or before in _BEFORE_OBJECTS:
        return False
    fronted = own[0] in _FRONTING or before in _DAYS or stem(before) in _DATED  # "For the commute you use"
    return not before or not tells(before) or fronted or before in FACTIVE or before == "way" or stem(before) in known


def supposes(spoken: Sequence[str]) -> bool:
    return not _SUPPOSING.isdisjoint(spoken) or ("case" in spoken and "in case" in " ".join(spoken))


def was(spoken: Sequence[str]) -> bool:
    return not _WAS.isdisjoint(spoken)


def is_between(word: str) -> bool:
    """Return True for a word between a subject and its predicate: an auxiliary, an article, an adverb."""
    return word in _BETWEEN or (word.endswith("ly") and word != "nearly" and word not in _SUPPOSING)


def is_modal(word: str) -> bool:
    return word in _MODALS


def is_verbal(word: str) -> bool:
    """Return True for an auxiliary or modal word, which ends the words of a possession."""
    return word in _AUXILIARY or word in _MODALS


def others_in(clause: Clause) -> frozenset[str]:
    """Return the pronouns of a clause that mean somebody besides the user."""
    return clause.all & (_OTHERS | ME)


def is_foreign(clause: Clause) -> bool:
    return not _ELSEWHERE.isdisjoint(clause.all)


def _is_past(word: str) -> bool:
    return word.endswith("ed") and not word.endswith("eed") and stem(word) != word  # not "exceed"


def _sentences(text: str) -> Iterator[str]:
    text = _TITLE.sub(r"\1 ", text)
    sentences = SENTENCE.split(text) if _ENDING.search(text.rstrip()) else (text.rstrip(),)
    return (sentence for sentence in sentences if not sentence.rstrip(_CLOSING).endswith(("?", "？")))


@lru_cache(maxsize=1)  # the pieces of a text are counted right before its clauses are read
def _cut_sentences(text: str) -> tuple[tuple[str, list[str], list[list[str]]], ...]:
    """Return each sentence with its tokens, and these cut where a clause begins."""
    return tuple((sentence, (tokens := _TOKEN.findall(sentence)), _cut(tokens)) for sentence in _sentences(text))


def _of_sentence(sentence: str, tokens: Sequence[str], parts: Sequence[Sequence[str]]) -> Iterator[Clause]:
    spoken, named_in = words(" ".join(tokens)), _names(tokens)
    of_sentence = _first(spoken, named_in)
    named, notes, supposed, open_still, first = NONE, NONE, False, False, True
    is_of_you, is_plain = "you" in sentence, "\\" not in sentence
    for at, written in enumerate(parts):
        part, related = _with_subject(parts, at) if is_of_you else (written, False)
        whole = len(parts) == 1 and part is written
        own, names = (spoken, named_in) if whole else (words(" ".join(part)), _names(part))
        if not related:
            names |= named if names <= {SOMEBODY} else named & {of_sentence}  # "Tim is at Acme, and you are at Initech"
        notes |= _NOTES.intersection(own[1:] if first and own[:1] == ["note"] else own)
        carried = supposed and (own[:1] in (["and"], ["or"]) or open_still)
        supposed = carried or supposes(own)
        open_still = supposed and not any(map(tells, own))  # "If, as you say, you …"
        clause = _clause(
            part, own, names, _first(own, names) or of_sentence, notes, (supposed, carried), first, is_plain
        )
        named = names - clause.denied if names else NONE  # "Do Not Disturb" is not a person's name
        first = False
        yield clause


_EARLIER = 20  # the most clauses before one that are asked if they only suppose it


def _with_subject(parts: Sequence[Sequence[str]], at: int) -> tuple[Sequence[str], bool]:
    """Return the tokens of a clause with its subject, and True if "which" or "who" stood for the subject.

    "Atlas, which is your server" is read as "Atlas is your server". "Living in Rome, you", "as someone who lives in Rome, you"
    and "for people who live in Rome like you" are read as "you live in Rome".
    """
    part, after = parts[at], parts[at + 1] if at + 1 < len(parts) else ()
    first = part[0].lower()
    if first in _RELATIVE:
        antecedent = _antecedent(parts[at - 1]) if at and _is_of_yours(part) else []
        return ([*antecedent, *(["is"] if "s" in first else []), *part[1:]], True) if antecedent else (part, False)
    described: Sequence[str] = ()
    if (first == "as" or (first.endswith("ing") and stem(first) != first)) and after:
        described = _of_you(part, words(" ".join(after)))
    elif "like" in part or after[:1] == ["like"]:
        described = _like_you(part, after)
    if described and not any(supposes(words(" ".join(earlier))) for earlier in parts[max(0, at - _EARLIER) : at + 1]):
        return described, False
    return part, False


def _antecedent(before: Sequence[str]) -> list[str]:
    """Return the tokens at the end of a clause that "which" stands for: a name, or else its last words that tell."""
    last = [*before[:-1]] if before[-1] == "," else [*before]
    named = "".join(last[-1:])[:1].isupper()
    kept = takewhile(lambda token: _is_told(token) and token[:1].isupper() >= named, reversed(last))
    return [*kept][::-1]


def _is_told(token: str) -> bool:
    return token[0].isalnum() and tells(token.lower())


def _is_of_yours(part: Sequence[str]) -> bool:
    """Return True for "which you", "which is your" and "who's your"."""
    own = [*words(" ".join(part[:3])), "", ""]
    return own[1] in USER or (own[1] in ("is", "are") and own[2] in YOURS)


def _of_you(part: Sequence[str], after: Sequence[str]) -> Sequence[str]:
    """Return "you" with the words that describe it in the clause before, as in "living in Rome, you", or ()."""
    own = [token.lower() for token in part]
    if len(own) < 2 or len(after) < _LEAST_MAIN or after[0] not in YOU or not USER.isdisjoint(own):
        return ()
    main = [*takewhile(lambda word: is_between(word) or not tells(word) or is_modal(word), after[1:])]
    main += after[len(main) + 1 : len(main) + 2]  # the verb
    if was(main) or any(word in PASTS or _is_past(word) for word in main):
        return ()
    open_words = _CONDITIONAL if own[0] == "as" or own[0] in _AUXILIARY else _MODALS  # "moving to Rome, you will need"
    if not open_words.isdisjoint((after[0], *main)):
        return ()
    if own[0] != "as":
        return () if any(map(is_verbal, own[1:])) else [SOMEBODY, *part]
    if _is_past(own[-1]) or own[-1] in PASTS:  # "as a nurse told you"
        return ()
    if own[1] not in ("a", "an"):
        return _of_person(part[2:]) if own[1] in _PERSONS else ()
    tells_you = own[-1].endswith("s") and _BEFORE_OBJECTS.isdisjoint(own)  # "as a nurse tells you"
    return () if tells_you or any(map(is_verbal, own)) else [SOMEBODY, *part[1:]]


def _like_you(part: Sequence[str], after: Sequence[str]) -> Sequence[str]:
    """Return "you" with the words that describe persons, as in "people who live in Rome like you", or ()."""
    own = [token.lower() for token in (*part, *after[:2])]
    at = next((at for at in range(1, len(own) - 1) if own[at : at + 2] == ["like", "you"]), 0)
    person = next((place for place in range(at - 1, -1, -1) if own[place] in _PERSONS), -1)
    if person < 0 or not DENYING.isdisjoint(own[:person]):
        return ()
    if person == at - 1:  # "someone like you who lives in Rome"
        return _of_person(part[at + 3 :] if own[at + 2 : at + 3] == [","] else part[at + 2 :])
    following = part[at + 2 : at + 3]
    ends = not following or not following[0][0].isalnum() or is_verbal(following[0].lower())
    return _of_person(part[person + 1 : at]) if ends else ()


def _of_person(described: Sequence[str]) -> Sequence[str]:
    head = described[0].lower() if described else ""
    return [SOMEBODY if head == "who" else "your", *described[1:]] if head == "who" or head in _WITH else ()


_AS = frozenset(("a", "an")) | _PERSONS  # "as a nurse you", "as someone who lives in Rome you"
_YOU = frozenset(("you", "you'll", "you’ll", "you're", "you’re", "you've", "you’ve"))
_CUTTING = _BREAKS | _JOINS | _NOMINATIVES | _SUPPOSING | _LEADING | _RELATIVE | _YOU | {","}
"""The words before which a clause can begin."""


def _cut(tokens: Sequence[str]) -> list[list[str]]:
    parts, before = list[list[str]]([[]]), ""
    for at, token in enumerate(tokens):
        word = token.lower()
        if word not in _CUTTING:
            parts[-1].append(token)
        elif (word in _BREAKS and before not in DENYING) or (
            word == "," and parts[-1] and (parts[-1][0] == "as" or parts[-1][0] in _RELATIVE)
        ):  # in "nothing but" the "but" does not begin a clause
            parts.append([])
        elif word in _JOINS and _begins(tokens[at + 1 : at + 4]):
            parts.append([] if word == "," else [token])
        elif (
            (word in _NOMINATIVES and before not in _LEADING and not USER.isdisjoint(map(str.lower, parts[-1])))
            or word in _SUPPOSING
            or (word in _RELATIVE and _is_of_yours(tokens[at : at + 3]))
            or (word in _YOU and parts[-1][:1] in (["as"], ["As"]) and parts[-1][1:2] and parts[-1][1] in _AS)
            or (
                word in _LEADING
                and not (word == "who" and before in _PERSONS)
                and before not in _AS_LONG
                and _begins(tokens[at + 1 : at + 2])
                and not (word == "as" and tokens[at + 1].lower() in YOURS)
            )
        ):
            parts.append([token])
        else:
            parts[-1].append(token)
        before = word
    return [part for part in parts if part]


def _names(tokens: Sequence[str]) -> frozenset[str]:
    """Return the stems of the capitalised words except dates, and the user, if a word means the user."""
    return frozenset().union(*map(_named, tokens))


@lru_cache(maxsize=16_384)
def _named(token: str) -> frozenset[str]:
    stems_of_name = _capitalised(token) if token[:1].isupper() else NONE
    return stems_of_name - _DATED | (NONE if USER.isdisjoint(words(token)) else {SOMEBODY})


@lru_cache(maxsize=16_384)
def _capitalised(token: str) -> frozenset[str]:
    return frozenset(map(stem, filter(tells, words(token))))


def _first(own: Sequence[str], named: frozenset[str]) -> str:
    """Return the first telling word if it is a name or the user, else ""."""
    of_words = (SOMEBODY if word in USER else stem(word) for word in own if word in USER or tells(word))
    first = next(of_words, "")
    return first if first in named else ""


def _begins(following: Sequence[str]) -> bool:
    """Return True if "and" or a comma begins a clause of its own: with a subject, a condition or a negation."""
    spoken = words(" ".join(following))
    if spoken[:1] == ["so"]:
        return True
    if spoken and spoken[0] in _LEADING:
        spoken = spoken[1:]
    starts = bool(spoken) and spoken[0] in _STARTING
    if len(following) > 1 and following[0][:1].isupper() and following[1].islower() and following[1].endswith("s"):
        return True  # "and Bob likes"
    return starts or not DENYING.isdisjoint(spoken[:2]) or any(significant(word) in AGAINST for word in spoken[:1])


def _clause(
    part: Sequence[str],
    own: Sequence[str],
    named: frozenset[str],
    who: str,
    notes: frozenset[str],
    supposed: tuple[bool, bool],
    first: bool,
    prose: bool,
) -> Clause:
    return Clause(
        tokens=part,
        words=tuple(own),
        stems=named.union(stem(word) for word in own if word not in STOP_WORDS and word not in NEGATIONS),
        meanings={stem(word): significant(word) for word in own if word not in STOP_WORDS} if prose else {},
        who=who,
        notes=notes,
        supposed=supposed[0],
        carried=supposed[1],
        first=first,
    )


def _turned(tokens: Sequence[str], own: Sequence[str]) -> tuple[frozenset[str], frozenset[str], bool]:
    """Return the denied words of a clause, the words that have ended, and whether it has a word that denies or ends."""
    text = " ".join(tokens)
    turned = OVER.sub(f" {_MARK} ", _HARMLESS.sub(" ", text))
    spoken = words(turned) if turned != text else own
    if _TURNS.isdisjoint(spoken):
        return NONE, NONE, False
    marks: dict[bool, set[str]] = {True: set(), False: set()}  # words that have ended, and words that are denied
    ending, left = False, 0
    for word in spoken:
        if word in _TURNS:
            ending, left = word == _MARK, _REACH
        elif left and significant(word):
            marks[ending] |= {stem(word), significant(word)}
            left = 0
        else:
            left = max(left - 1, 0)
    return frozenset(marks[False]), frozenset(marks[True]), True


def _runs(tokens: Sequence[str]) -> Iterator[frozenset[str]]:
    run = NONE
    for token in (*tokens, ""):
        capitalised = _capitalised(token) if token[:1].isupper() else NONE
        if capitalised:
            run |= capitalised
        elif run:
            yield run - _TITLES or run
            run = NONE


def _owned(tokens: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield each owner with the owned thing, as in "Ben's mother", except the user's own."""
    for at, token in enumerate(tokens[:-1]):
        if _POSSESSIVE.fullmatch(token):
            owner = words(token[:-2])[0]
            if owner not in YOU and owner not in STOP_WORDS and owner not in _DAYS and stem(owner) not in _DATED:
                thing = next((word for word in words(" ".join(tokens[at + 1 : at + 6])) if tells(word)), "")
                yield stem(owner), stem(thing) if thing != owner else ""
