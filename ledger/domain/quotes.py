"""The search for texts inside other texts, whatever their case, white space and forms of accents, and their places there."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator

from ledger.domain.spans import Span, merged
from ledger.domain.text import normalise

EQUAL_CHARS = 4  # a shorter text is found only if it is the whole text
BOUNDED_CHARS = 12  # a shorter text is found only as whole words: "tea" is not in "team"

EXCERPT_CHARS = 80  # characters of the beginning of a text
# In an excerpt with spans: the characters beside a span, the characters of a span, and the number of spans.
AROUND_CHARS, MARKED_CHARS, MARKED = 30, 200, 5

_WORD = re.compile(r"[^\W_]+")


class Needles:
    """Texts to look for in many others. They are indexed by one word each, so that a thousand are found as fast as one."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.forms: set[str] = {form for text in texts if (form := normalise(text))}
        self._by_word: dict[str, list[str]] = {}
        self._anywhere: list[str] = []  # texts without a word that surely stands as a whole word
        for form in sorted(self.forms):
            word = _longest_word(form)
            if word is None:
                self._anywhere.append(form)
            else:
                self._by_word.setdefault(word, []).append(form)

    def __bool__(self) -> bool:
        return bool(self.forms)

    def found(self, text: str) -> list[str]:
        """Return the texts that occur in a text, in their normal form."""
        if not self.forms:
            return []
        return self._in(normalise(text))

    def _in(self, text: str) -> list[str]:
        candidates = list(self._anywhere)
        if self._by_word:
            for word in self._by_word.keys() & set(_WORD.findall(text)):
                candidates += self._by_word[word]
        return [form for form in candidates if next(_places(form, text), None) is not None]

    def spans(self, text: str) -> tuple[Span, ...] | None:
        """Return the places of the texts, in characters of the unchanged text; None if the places cannot be determined."""
        mapped, starts, ends = _mapped(text)
        if mapped != normalise(text):
            return None
        places = [(starts[first], ends[last - 1]) for form in self._in(mapped) for first, last in _places(form, mapped)]
        return merged(places)


def _longest_word(form: str) -> str | None:
    """Return the longest word of a text that stands as a whole word wherever the text occurs."""
    words = _WORD.findall(form)
    if len(form) >= BOUNDED_CHARS:
        words = words[1:-1]  # the first and the last may be part of a longer word
    return max(words, key=len, default=None)


def _places(form: str, text: str) -> Iterator[Span]:
    if len(form) < EQUAL_CHARS:
        if form == text:
            yield 0, len(text)
        return
    at = text.find(form)
    while at >= 0:
        end = at + len(form)
        if len(form) >= BOUNDED_CHARS or _is_whole(form, text, at, end):
            yield at, end
        at = text.find(form, at + 1)


def _is_whole(form: str, text: str, at: int, end: int) -> bool:
    before, after = text[at - 1 : at], text[end : end + 1]
    return not (form[0].isalnum() and before.isalnum()) and not (form[-1].isalnum() and after.isalnum())


def _mapped(text: str) -> tuple[str, list[int], list[int]]:
    """Return the normal form, and for each of its characters the start and end of the original characters."""
    forms: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    for first, last in _letters(text):
        form = " " if text[first].isspace() else normalise(text[first:last])
        if form == " " and (not forms or last == len(text)):
            continue
        forms.append(form)
        starts += [first] * len(form)
        ends += [last] * len(form)
    return "".join(forms), starts, ends


def _letters(text: str) -> Iterator[Span]:
    """Yield the span of each letter with its marks, and of each run of white space."""
    at = 0
    while at < len(text):
        end, space = at + 1, text[at].isspace()
        while end < len(text) and (text[end].isspace() if space else _belongs(text[end])):
            end += 1
        yield at, end
        at = end


def _belongs(character: str) -> bool:
    """Return True if a character joins the letter before it: a combining mark, a Hangul vowel or final consonant."""
    return character > "\u02ff" and (bool(unicodedata.combining(character)) or "\u1160" <= character <= "\u11ff")


def excerpt(text: str, spans: Iterable[Span] = ()) -> str:
    """Return the beginning of a text; or its spans, each between [[ and ]], with the words around them."""
    shown, at = "", 0
    for first, last in merged(spans)[:MARKED]:
        shown += _cut(text[at:first], AROUND_CHARS if at else 0, AROUND_CHARS)
        shown += f"[[{_cut(text[first:last], MARKED_CHARS // 2, MARKED_CHARS // 2)}]]"
        at = last
    return shown + _cut(text[at:], AROUND_CHARS if at else EXCERPT_CHARS, 0)


def _cut(text: str, head: int, tail: int) -> str:
    return text if len(text) <= head + tail else f"{text[:head]}…{text[len(text) - tail :]}"
