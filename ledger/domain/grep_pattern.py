"""The pattern of a grep: a small query language, and the tree that a pattern is read as.

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
from collections.abc import Iterator
from typing import NoReturn

from msgspec import Struct

from ledger.domain.errors import RejectedError
from ledger.domain.question import folded, split, unspaced

MAX_PATTERN_CHARS = 4_000
"""A pattern has at most this many characters: as many as are read of a question."""

MAX_TERMS = 64
"""A pattern has at most this many words and quoted texts."""

MAX_DEPTH = 32
"""Parentheses nest at most so deep; FTS5's own parser gives up at about a hundred."""


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

WORD = re.compile(r"[^\W_]+")
_MARKS = str.maketrans("‘’‛“”„‟", '\'\'\'""""')  # one for one, so that places stay
_AT_ENDS = ".,;:!?'`。、"
AND, OR, NOT = "AND", "OR", "NOT"


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
            yield _Token(NOT, shown="-")
            at += 1
        else:
            end = _end_of_term(pattern, at)
            bare = pattern[at:end]
            yield _Token(bare, shown=bare) if bare in (AND, OR, NOT) else _Token(term=_term(bare), shown=bare)
            at = end


def _is_exclusion(following: str) -> bool:
    return following.isalnum() or following in ('"', "(")


def _end_of_term(pattern: str, start: int) -> int:
    """Where a bare term ends: before white space, a quotation mark, or a parenthesis that is not its own, as in ``f(x)``."""
    opened, at = 0, start
    while at < len(pattern) and not pattern[at].isspace() and pattern[at] != '"':
        if pattern[at] == "(":
            if pattern[start:at] in (AND, OR, NOT):
                break
            opened += 1
        elif pattern[at] == ")":
            if not opened:
                break
            opened -= 1
        at += 1
    return at


def _term(bare: str) -> Word | Literal:
    inner = bare.strip(_AT_ENDS) if WORD.search(bare) else bare
    form = folded(inner)
    if split(inner) == [form] and not unspaced(form):
        return Word(form)
    return _literal(inner)


def _literal(text: str) -> Literal:
    form = " ".join(plain(text).split())
    if not form:
        _refuse("has a term with nothing in it to look for", "leave it out")
    return Literal(form)


def plain(text: str) -> str:
    """A text folded as the index folds it, with one form of quotation marks."""
    return folded(text) if text.isascii() else folded(text).translate(_MARKS)


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
        while self._next == OR:
            self._at += 1
            found.append(self._all())
        return found[0] if len(found) == 1 else Either(tuple(found))

    def _all(self) -> Tree:
        found = [self._one()]
        while self._next not in (None, OR, ")"):
            self._at += self._next == AND
            found.append(self._one())
        return found[0] if len(found) == 1 else All(tuple(found))

    def _one(self) -> Tree:
        negated = False
        while self._next == NOT:
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
