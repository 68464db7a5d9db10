"""The pattern of a grep: a small query language, what it asks of the text index, and whether a text has what it says.

    coffee machine          both words, in any order: AND is meant where nothing stands between
    tea OR coffee           one of them; AND binds tighter than OR, and NOT tighter than both
    coffee NOT decaf        also ``coffee -decaf``; there must be something that is not excluded
    (tea OR coffee) cup     parentheses group
    "exact words, in order" what stands in quotes is looked for as it is, whole words of it; "" in it is one "

Operators are in capitals; ``and`` is a word. A bare word of letters and digits is found as a whole word, and so are its
inflections, those that the index gives the same stem ("run" finds "running", not "overrun" or "ran"); in quotes it is found
without these. A bare term with other signs in it (``don't``, ``a_case``, ``v3.11``, ``->``, ``print()``) or of a script
without spaces is taken as if it stood in quotes; ``. , ; : ! ? ' ` 。 、`` at the ends of a term with letters or digits are
left out. Nothing else is special: no ``*``, ``%`` or ``_``. Case, accents, compatibility forms, the shape of quotation
marks, and which white space how often it is, make no difference anywhere.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import accumulate
from typing import NoReturn

from msgspec import Struct

from ledger.domain.errors import RejectedError
from ledger.domain.question import folded, indexed, quoted, split, unspaced
from ledger.domain.quotes import merged

MAX_PATTERN_CHARS = 4_000
"""A pattern has at most this many characters: as many as are read of a question."""

MAX_TERMS = 64
"""A pattern has at most this many words and quoted texts."""

MAX_DEPTH = 32
"""Parentheses nest at most so deep; FTS5's own parser gives up at about a hundred."""

MAX_NARROWING_WORDS = 32
"""Of a quoted text the index is asked for so many words at most; more would not tell more."""

Stem = Callable[[str], str]
"""The stem of a folded word as the index makes it: ``projections.search.stems.stem``."""

Span = tuple[int, int]


class Word(Struct, frozen=True):
    """A whole word or an inflection of it. Folded."""

    text: str


class Literal(Struct, frozen=True):
    """A text wherever it stands. Folded, trimmed, each run of white space one space."""

    text: str


class Not(Struct, frozen=True):
    """What must not occur."""

    of: Tree


class All(Struct, frozen=True):
    """Two or more that must all hold."""

    of: tuple[Tree, ...]


class Either(Struct, frozen=True):
    """Two or more of which one must hold."""

    of: tuple[Tree, ...]


Tree = Word | Literal | Not | All | Either

_WORD = re.compile(r"[^\W_]+")
_ASCII_WORD = re.compile(r"[a-z0-9]+")
_MARKS = str.maketrans("‘’‛“”„‟", '\'\'\'""""')  # one for one, so that places stay
_AT_ENDS = ".,;:!?'`。、"
_AND, _OR, _NOT = "AND", "OR", "NOT"


# --- reading a pattern -----------------------------------------------------------------------------------------------

_QUOTED = re.compile(r'"((?:[^"]|"")*)"')


class _Token(Struct, frozen=True):
    """An operator or parenthesis by its ``sign``, else a term."""

    sign: str = ""
    term: Word | Literal | None = None
    shown: str = ""


def parse(pattern: object) -> Tree:
    """What a pattern asks for. Raises RejectedError where it is not text, blank, too long, or not whole: a quotation mark or
    parenthesis without its other, an operator without what it needs, nothing but exclusions."""
    if not isinstance(pattern, str):
        raise RejectedError(f"a pattern is text (a str), not {type(pattern).__name__}")
    if not pattern.strip():
        raise RejectedError("the pattern is blank; give at least one word or sign to look for")
    if len(pattern) > MAX_PATTERN_CHARS:
        message = f"the pattern has {len(pattern):,} characters; at most {MAX_PATTERN_CHARS:,} are allowed"
        raise RejectedError(message, rule="size", limit=MAX_PATTERN_CHARS, requested=len(pattern))
    tokens = list(_tokens(pattern.translate(_MARKS)))
    if (terms := sum(token.term is not None for token in tokens)) > MAX_TERMS:
        message = f"the pattern has {terms} words and quoted texts; at most {MAX_TERMS} are allowed"
        raise RejectedError(message, rule="size", limit=MAX_TERMS, requested=terms)
    tree = _Parser(tokens).whole()
    if not any(True for _ in wanted(tree)):
        _refuse("says only what must not occur", "add a word that must")
    return tree


def _refuse(wrong: str, allowed: str) -> NoReturn:
    raise RejectedError(
        f"the pattern {wrong}; {allowed}, or put what is meant as it stands in double quotes", rule="pattern"
    )


def _tokens(pattern: str) -> Iterator[_Token]:
    at = 0
    while at < len(pattern):
        sign = pattern[at]
        if sign.isspace():
            at += 1
        elif sign == '"':
            found = _QUOTED.match(pattern, at)
            if found is None:
                _refuse("has a double quotation mark without its other", "close it, or write it twice within quotes")
            yield _Token(term=_literal(found[1].replace('""', '"')), shown=found[0])
            at = found.end()
        elif sign in "()":
            yield _Token(sign, shown=sign)
            at += 1
        elif sign == "-" and _is_exclusion(pattern[at + 1 : at + 2]):
            yield _Token(_NOT, shown="-")
            at += 1
        else:
            end = _end_of_term(pattern, at)
            bare = pattern[at:end]
            yield _Token(bare, shown=bare) if bare in (_AND, _OR, _NOT) else _Token(term=_term(bare), shown=bare)
            at = end


def _is_exclusion(following: str) -> bool:
    return following.isalnum() or following in ('"', "(")


def _end_of_term(pattern: str, start: int) -> int:
    """Where a bare term ends: before white space, a quotation mark, or a parenthesis that is not its own, as in ``f(x)``."""
    opened, at = 0, start
    while at < len(pattern) and not pattern[at].isspace() and pattern[at] != '"':
        if pattern[at] == "(":
            if pattern[start:at] in (_AND, _OR, _NOT):
                break
            opened += 1
        elif pattern[at] == ")":
            if not opened:
                break
            opened -= 1
        at += 1
    return at


def _term(bare: str) -> Word | Literal:
    inner = bare.strip(_AT_ENDS) if _WORD.search(bare) else bare
    form = folded(inner)
    if split(inner) == [form] and not unspaced(form):
        return Word(form)
    return _literal(inner)


def _literal(text: str) -> Literal:
    form = " ".join(_plain(text).split())
    if not form:
        _refuse("has a term with nothing in it to look for", "leave it out")
    return Literal(form)


def _plain(text: str) -> str:
    """A text folded as the index folds it, with one form of quotation marks."""
    return folded(text) if text.isascii() else folded(text).translate(_MARKS)


class _Parser:
    """By recursive descent: either := all (OR all)*, all := one ((AND)? one)*, one := NOT* (term | "(" either ")")."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0

    def whole(self) -> Tree:
        tree = self._either()
        if self._at < len(self._tokens):
            _refuse("closes a parenthesis that is not open", "leave it out")
        return tree

    @property
    def _next(self) -> str | None:
        """The sign of the next token, "" for a term, None at the end."""
        return self._tokens[self._at].sign if self._at < len(self._tokens) else None

    def _either(self) -> Tree:
        found = [self._all()]
        while self._next == _OR:
            self._at += 1
            found.append(self._all())
        return found[0] if len(found) == 1 else Either(tuple(found))

    def _all(self) -> Tree:
        found = [self._one()]
        while self._next not in (None, _OR, ")"):
            self._at += self._next == _AND
            found.append(self._one())
        return found[0] if len(found) == 1 else All(tuple(found))

    def _one(self) -> Tree:
        negated = False
        while self._next == _NOT:
            negated = not negated
            self._at += 1
        tree = self._group() if self._next == "(" else self._leaf()
        return Not(tree) if negated else tree

    def _group(self) -> Tree:
        if (depth := self._depth + 1) > MAX_DEPTH:
            raise RejectedError(f"the pattern nests deeper than {MAX_DEPTH} parentheses", rule="depth", limit=MAX_DEPTH)
        self._at, self._depth = self._at + 1, depth
        tree = self._either()
        if self._next != ")":
            _refuse("opens a parenthesis that it does not close", "close it")
        self._at, self._depth = self._at + 1, depth - 1
        return tree

    def _leaf(self) -> Tree:
        before = self._tokens[self._at - 1].shown if self._at else ""
        if self._at == len(self._tokens):
            _refuse(f"ends with {before}", "something to look for has to follow")
        token = self._tokens[self._at]
        if token.term is None:
            after = f" after {before}" if before else " at its beginning"
            _refuse(f"has {token.shown}{after}, where a word is missing", "give one")
        self._at += 1
        return token.term


# --- what the index is asked -----------------------------------------------------------------------------------------


def expression(tree: Tree) -> str | None:
    """An FTS5 MATCH expression that finds every text that ``matches``, and maybe more; nothing in it is syntax that was
    typed. None where the index cannot tell, and every text has to be looked at.

    For an index of whole texts as ``indexed`` gives them: of a text that lies in several rows see ``in_any_row``.
    """
    match tree:
        case Word(text):
            return quoted(text) if _is_known(text) else None
        case Literal(text):
            return _narrowing(text)
        case Not():
            return None  # the index finds more than what is excluded
        case All(of):
            found = [each for each in map(expression, of) if each is not None]
            return _joined(found, _AND) if found else None
        case Either(of):
            some = [expression(each) for each in of]
            known = [each for each in some if each is not None]
            return _joined(known, _OR) if len(known) == len(some) else None


def in_any_row(tree: Tree) -> str | None:
    """The same for texts that lie in several rows: an expression that finds at least one row of every text that ``matches``,
    by one word that it must have, a long one. Equal to ``expression`` where that finds such texts too."""
    match tree:
        case Literal(text):
            words = [word for word in (_narrowing(text) or "").strip('"').split() if _is_known(word)]
            return f'"{max(words, key=len)}"' if words else None
        case All(of):
            found = [each for each in map(in_any_row, of) if each is not None]
            return max(found, key=lambda each: (-each.count(f" {_OR} "), len(each))) if found else None
        case Either(of):
            some = [in_any_row(each) for each in of]
            known = [each for each in some if each is not None]
            return _joined(known, _OR) if len(known) == len(some) else None
        case _:
            return expression(tree)


def is_exact(tree: Tree) -> bool:
    """Whether ``expression`` finds no text that does not match, so that the index alone can count: bare words of ASCII
    letters under AND and OR. (But for a word with letters younger than FTS5's Unicode next to them.)"""
    match tree:
        case Word(text):
            return text.isascii()
        case All(of) | Either(of):
            return all(map(is_exact, of))
        case _:
            return False


def _joined(found: list[str], operator: str) -> str:
    different = list(dict.fromkeys(found))
    return different[0] if len(different) == 1 else "(" + f" {operator} ".join(different) + ")"


def _narrowing(text: str) -> str | None:
    """A phrase of the words of a text."""
    words = indexed(text).split() if not text.isascii() else _WORD.findall(text)
    words = words[:MAX_NARROWING_WORDS]
    if not any(map(_is_known, words)):
        return None
    return '"' + " ".join(words) + '"'


def _may_go_on(character: str) -> bool:
    """Whether a word can go on beyond this character of it."""
    return character.isalnum() and not unspaced(character)


def _is_known(word: str) -> bool:
    """Whether FTS5, whose Unicode is 6.1, is sure to take every character of a word for one: where 3.2 did, it does."""
    return word.isascii() or all(unicodedata.ucd_3_2_0.category(each)[0] in "LN" for each in word)


# --- what a text has -------------------------------------------------------------------------------------------------


def wanted(tree: Tree) -> Iterator[Word | Literal]:
    """The terms that a text is to have, those excluded left out."""
    match tree:
        case Word() | Literal():
            yield tree
        case Not(Not(of)):
            yield from wanted(of)
        case Not(All(of)) | Not(Either(of)):
            for each in of:
                yield from wanted(Not(each))
        case All(of) | Either(of):
            for each in of:
                yield from wanted(each)


def matches(tree: Tree, text: str, stem: Stem) -> bool:
    """Whether a text has what the pattern asks for: the truth, where the index only narrows down."""
    return _holds(tree, _plain(text), stem)


def _holds(tree: Tree, text: str, stem: Stem) -> bool:
    match tree:
        case Not(of):
            return not _holds(of, text, stem)
        case All(of):
            return all(_holds(each, text, stem) for each in of)
        case Either(of):
            return any(_holds(each, text, stem) for each in of)
        case _:
            return next(_places(tree, text, stem), None) is not None


def spans(tree: Tree, text: str, stem: Stem) -> list[Span]:
    """Where the wanted terms stand in a text, in characters of it as it is, in order; those that touch are one."""
    prepared = _Folded(text)
    found = [place for term in wanted(tree) for place in _places(term, prepared.text, stem)]
    return list(merged(map(prepared.raw, found)))


def _places(term: Word | Literal, text: str, stem: Stem) -> Iterator[Span]:
    if isinstance(term, Word):
        return _places_of_word(term.text, text, stem)
    return _places_of_literal(term.text, text)


def _places_of_literal(text: str, within: str) -> Iterator[Span]:
    """Only where it begins and ends with whole words: so the index, which knows no others, finds all of them."""
    spelled, at = _spelled(text), 0
    while found := spelled.search(within, at):
        start, at = found.span()
        if _is_cut(within, start) or _is_cut(within, at):
            at = start + 1
        else:
            yield start, at


def _is_cut(text: str, at: int) -> bool:
    """Whether one word stands on both sides of a place."""
    return 0 < at < len(text) and _may_go_on(text[at - 1]) and _may_go_on(text[at])


@lru_cache(maxsize=256)
def _spelled(text: str) -> re.Pattern[str]:
    return re.compile(r"\s+".join(map(re.escape, text.split(" "))))


def _places_of_word(word: str, text: str, stem: Stem) -> Iterator[Span]:
    is_known = _is_known(word)
    root = stem(word) if is_known else word
    beginning = root[:-1]  # a stem differs from the beginning of its word in its last letter at the most
    for start, found in _words(text, beginning):
        if found == word or (is_known and _is_known(found) and stem(found) == root):
            yield start, start + len(found)


def _words(text: str, beginning: str) -> Iterator[tuple[int, str]]:
    """The words of a folded text that begin like this, as ``split`` has them, and where."""
    at = text.find(beginning)
    while 0 <= at < len(text):
        end = at
        if _may_go_on(text[at]) and not (at and _may_go_on(text[at - 1])):
            end = _end_of_word(text, at)
            yield at, text[at:end]
        at = text.find(beginning, max(end, at + 1))


def _end_of_word(text: str, start: int) -> int:
    found = _ASCII_WORD.match(text, start)
    end = found.end() if found else start
    while end < len(text) and _may_go_on(text[end]):
        end += 1
    return end


# --- places in the text as it is -------------------------------------------------------------------------------------

_STRETCH = re.compile(r"[\x00-\x7f]?[^\x00-\x7f]+|[\x00-\x7f]+(?![^\x00-\x7f])")
"""A text in pieces that fold each by itself: ASCII, which stays in place, and the rest with the character it may build on."""


class _Folded:
    """A text as it is looked through, that knows what its places are in the text as it is."""

    def __init__(self, text: str) -> None:
        self._raw = text
        self._pieces = [(0, len(text))] if text.isascii() else [found.span() for found in _STRETCH.finditer(text)]
        forms = [_plain(text[first:last]) for first, last in self._pieces]
        self._starts = list(accumulate(map(len, forms), initial=0))
        self._apart: dict[int, tuple[list[int], list[Span]]] = {}
        self.text = "".join(forms)

    def raw(self, span: Span) -> Span:
        return self._at(span[0])[0], self._at(span[1] - 1)[1]

    def _at(self, place: int) -> Span:
        """The characters behind one folded character."""
        number = bisect_right(self._starts, place) - 1
        first, last = self._pieces[number]
        within = place - self._starts[number]
        if self._raw[first:last].isascii():
            return first + within, first + within + 1
        if number not in self._apart:
            self._apart[number] = self._letters(first, last)
        ends, letters = self._apart[number]
        return letters[bisect_right(ends, within)]

    def _letters(self, first: int, last: int) -> tuple[list[int], list[Span]]:
        """The letters of a piece, each with its marks, and where they end in the folded piece; all of it as one letter where
        they do not fold one by one."""
        letters, at = list[Span](), first
        while at < last:
            end = at + 1
            while end < last and _belongs(self._raw[end]):
                end += 1
            letters.append((at, end))
            at = end
        forms = [_plain(self._raw[start:end]) for start, end in letters]
        whole = _plain(self._raw[first:last])
        if "".join(forms) != whole:
            return [len(whole)], [(first, last)]
        return list(accumulate(map(len, forms))), letters


def _belongs(character: str) -> bool:
    """Whether it makes one letter with what stands before it: a combining mark, a Hangul vowel or final consonant."""
    return unicodedata.combining(character) != 0 or "\u1160" <= character <= "\u11ff"


# --- what is shown of a text -----------------------------------------------------------------------------------------


def snippet(text: str, spans: list[Span], chars: int = 160) -> str:
    """At most ``chars`` characters of a text, on one line, where most of the places lie together, with … where it was cut.

    Cut at white space where there is some. Without places it is the beginning; a place that is longer is cut itself.
    """
    if len(text) <= chars:
        return " ".join(text.split())
    room = max(chars - 2, 0)  # two for the signs that it was cut
    first, last = _densest(spans, room)
    start = max(0, min(first - max(room - (last - first), 0) // 2, len(text) - room))
    end = min(start + room, len(text))
    if start and (found := _BLANK.search(text, start, first)):
        start = found.end()
    if end < len(text) and (gaps := list(_BLANK.finditer(text, min(max(last, start), end), end + 1))):
        end = gaps[-1].start()
    inner = " ".join(text[start:end].split())
    return ("…" * (start > 0) + inner + "…" * (end < len(text)))[: max(chars, 0)]


_BLANK = re.compile(r"\s+")


def _densest(spans: list[Span], room: int) -> Span:
    """From where to where the most of the places lie that go into so many characters; of equals the first."""
    best, found, behind = (0, 0), 0, 0
    for number, (start, end) in enumerate(spans):
        behind = max(behind, number + 1)
        while behind < len(spans) and spans[behind][1] - start <= room:
            behind += 1
        if behind - number > found:
            found, best = behind - number, (start, max(end, spans[behind - 1][1]))
    return best
