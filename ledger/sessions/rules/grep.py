"""The pattern of a grep, which becomes an FTS5 expression with quoted terms, or a text that is searched for literally.

    coffee machine          both words, in any order, and their inflections ("machines")
    "coffee machine"        the words next to each other
    mach*                   words that begin so, and inflections of these
    tea OR coffee           FTS5's operators, in capitals: NOT binds tighter than AND, and AND tighter than OR
    (tea OR coffee) NOT cup
    %achin%                 a text of any characters, inside of words too; case makes no difference

Words are the words of the index: signs between words are no words, and each character of a script without spaces is a word.
Words and phrases that no text has are searched for inside of words: "request" finds handleRequest if no text has the word.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NoReturn

from msgspec import Struct

from ledger.domain.errors import RejectedError
from ledger.english.words import indexed_words

MAX_PATTERN_CHARS = 4_000
MAX_TERMS = 64
LOOSE_CHARS = 3  # the fewest characters of a word that is searched for inside of words

Stem = Callable[[str], str]  # ``projections.search.stems.stem``
Span = tuple[int, int]

_PIECE = re.compile(r'"((?:[^"]|"")*)"|([()])|([^\s"()]+)|(")')
_MARKS = str.maketrans("“”„‟", '""""')
_OPERATORS = ("AND", "OR", "NOT")
_ENDINGS = ("s", "es", "ed", "ing", "er", "e", "y", "ation", "ness")  # words with these endings may have a shorter stem
_ALLOWED = (
    'it may have words, "a phrase", a beginning*, AND, OR, NOT between them, and parentheses; or it is %any text%'
)


class Term(Struct, frozen=True):
    """A word, a phrase or the beginning of a word.

    ``asked`` is its FTS5 query. ``anywhere`` is a query that finds at least one row of a text of several rows.
    """

    asked: str
    anywhere: str
    words: str


class GrepPattern(Struct, frozen=True):
    """A pattern as an FTS5 expression with its terms, or as texts that must all be in a text, also inside of words.

    ``loose`` are the words and phrases as the caller wrote them, if they may be searched for inside of words.
    """

    expression: str = ""
    terms: tuple[Term, ...] = ()
    inside: tuple[str, ...] = ()
    loose: tuple[str, ...] = ()

    @property
    def loosened(self) -> GrepPattern | None:
        """Return the pattern that finds the words inside of words; None if there is no such pattern."""
        return GrepPattern(inside=self.loose) if self.loose else None

    @property
    def any_term(self) -> str:
        """Return an expression that matches any of the terms, to find their places."""
        return " OR ".join(dict.fromkeys(term.asked for term in self.terms))

    @property
    def any_row(self) -> str:
        """Return an expression that finds at least one row of every matching text, also of a text of several rows."""
        return " OR ".join(dict.fromkeys(term.anywhere for term in self.terms))

    @property
    def search(self) -> Callable[[str], bool]:
        """Return a function that returns True if a text contains all of ``inside``."""
        finds = [re.compile(re.escape(part), re.IGNORECASE).search for part in self.inside]
        return lambda text: all(find(text) is not None for find in finds)

    def places(self, text: str) -> list[Span]:
        """Return the places at which a text has one of ``inside``."""
        longest_first = sorted(self.inside, key=len, reverse=True)
        return [match.span() for match in re.finditer("|".join(map(re.escape, longest_first)), text, re.IGNORECASE)]


def parse(pattern: object, stem: Stem) -> GrepPattern:
    """Return a parsed pattern; the order of the operators is checked later, by FTS5.

    Raises:
        RejectedError: The pattern is not a text, blank, too long, or has a term without a word.
    """
    if not isinstance(pattern, str):
        raise RejectedError(f"a pattern is text (a str), not {type(pattern).__name__}")
    if not pattern.strip():
        refuse(pattern, "it is blank")
    if len(pattern) > MAX_PATTERN_CHARS:
        message = f"the pattern has {len(pattern):,} characters; at most {MAX_PATTERN_CHARS:,} are allowed"
        raise RejectedError(message, rule="size", limit=MAX_PATTERN_CHARS, requested=len(pattern))
    text = pattern.strip()
    if len(text) > 2 and text[0] == text[-1] == "%":
        return GrepPattern(inside=(text[1:-1],))
    tokens, terms, asked = list[str](), list[Term](), list[str]()
    for piece in _PIECE.finditer(text.translate(_MARKS)):
        phrase, bracket, bare, lone = piece.groups()
        if lone:
            refuse(pattern, "a double quotation mark is not closed")
        token = bracket or (bare if bare in _OPERATORS else "")
        if not token:
            asked.append(phrase if phrase is not None else bare)
            terms.append(_term(pattern, asked[-1], stem if phrase is None else None))
            token = terms[-1].asked
        if tokens and tokens[-1] not in (*_OPERATORS, "(") and token not in (*_OPERATORS, ")"):
            tokens.append("AND")
        if token == "NOT" and tokens[-1:] == ["AND"]:
            tokens.pop()
        tokens.append(token)
    if len(terms) > MAX_TERMS:
        message = f"the pattern has {len(terms)} words and phrases; at most {MAX_TERMS} are allowed"
        raise RejectedError(message, rule="size", limit=MAX_TERMS, requested=len(terms))
    may_be_inside = all(len(term) >= LOOSE_CHARS and not term.endswith("*") for term in asked)
    is_loose = may_be_inside and not {"OR", "NOT", "(", ")"}.intersection(tokens)
    return GrepPattern(" ".join(tokens), tuple(terms), loose=tuple(asked) if is_loose else ())


def refuse(pattern: str, why: str) -> NoReturn:
    """Raise the error for a pattern that cannot be read."""
    raise RejectedError(f"the pattern {pattern!r:.60} cannot be read: {why}; {_ALLOWED}", rule="pattern")


def _term(pattern: str, text: str, stem: Stem | None) -> Term:
    """Return a phrase, or with ``stem`` a word, which may be the beginning of a word."""
    words = indexed_words(text)
    if not words:
        refuse(pattern, f"there is no word in {text!r:.40}, which %{text:.40}% would find")
    word = " ".join(words)
    term = Term(f'"{word}"', f'"{max(words, key=len)}"', word)
    if stem is None or not text.endswith("*"):
        return term
    if len(words) > 1:
        return Term(f"{term.asked}*", term.anywhere, word)
    # The index has stems: "run" stands for "running", which the beginning "runn*" must find too.
    begins = f"{term.asked}*" if len(stem(word)) >= len(word) else term.asked
    inflections = (f'"{word}{ending}"' for ending in _ENDINGS if not stem(word + ending).startswith(word))
    expression = f"({' OR '.join((begins, *inflections))})"
    return Term(expression, expression, word)
