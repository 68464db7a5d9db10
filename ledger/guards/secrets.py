"""The scanner "secrets/1": keys, passwords and card numbers in a text, each with its place, so that they can be taken out.

Keys are known by the marks that their makers gave them, passwords by the words before them, in twelve languages. What stands
for a secret in an example ("<your password>", "changeme", "${TOKEN}") is none. There is no entropy rule: it fires on every
digest and id of a working note.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from itertools import chain

from msgspec import Struct

from ledger.domain.late import late
from ledger.domain.secrecy import MARK_BEGINS
from ledger.guards.letters import Sieve, as_bytes, has_digits, words
from ledger.guards.patterns import Pattern, read

NAME = "secrets/1"


class Secret(Struct, frozen=True):
    """Characters ``start`` to ``end`` of a text are a secret of this ``kind``."""

    kind: str
    start: int
    end: int


def mark(kind: str) -> str:
    """What stands in a text for a secret that was taken out."""
    return f"{MARK_BEGINS}{kind}]"


MARK = late(r"\[redacted:([a-z0-9_]+)\]")

_KINDS = tuple(map(late, ("[a-z]", "[A-Z]", r"\d", r"[^\w\s]")))
_INNER = late(r"[a-z][A-Z]|[A-Za-z]\d|\d[A-Za-z]|[A-Za-z\d][!@#$%^&*?+=~]")
_WORD, _SIGN = late("[a-z]+"), "://"  # the one ASCII text without a word that a pattern asks for
_SPOKEN, _END = late(r"(?:is|was|:|：)(?: now)?:?"), late(r"[\"'`»”]?\s*(?:$|[.,;!?\n]|(?:and|but)\b)")
_LOWER = str.maketrans(
    "\u0130\u0131\u017f\u212a", "iisk"
)  # letters that expressions take for these where case is no matter


def scan(text: str, known: set[bytes] | None = None) -> list[Secret]:
    """The secrets of a text, in their order; none lies within another. ``known`` are the words of an ASCII text."""
    if not (tried := _tried(text, known)) and not _may_have_cards(text):
        return []
    found = sorted(_found(text, tried), key=lambda each: (each.start, -each.end))
    kept: list[Secret] = []
    for each in found:
        if not kept or each.start >= kept[-1].end:
            kept.append(each)
    return kept


def may_have(text: str) -> bool:
    """Whether a text has what one of the patterns asks for."""
    return bool(_tried(text)) or _may_have_cards(text)


def patterns() -> tuple[Pattern, ...]:
    return read()["secrets"].patterns


@cache
def _part(name: str) -> re.Pattern[str]:
    return re.compile(read()["secrets"].parts[name])


def lowered(text: str) -> str:
    return text.lower() if text.isascii() else text.translate(_LOWER).lower()


class _Asked(Struct, frozen=True):
    """What the patterns ask for: the texts without a word in Latin letters, and all others by the longest one in each, with
    blanks where it begins or ends, and the first three letters of each of these."""

    wordless: tuple[tuple[str, Pattern], ...]
    by_word: tuple[tuple[bytes, tuple[tuple[str, Pattern], ...]], ...]
    beginnings: frozenset[tuple[int, ...]]


@cache
def _asked() -> _Asked:
    wordless, by_word = list[tuple[str, Pattern]](), dict[bytes, list[tuple[str, Pattern]]]()
    for pattern in patterns():
        for each in (each for texts in pattern.has for each in texts):
            word = max(_WORD.finditer(each), key=lambda found: len(found.group()), default=None)
            if word is None:
                wordless.append((each, pattern))
            else:
                begins, ends = " " * (word.start() > 0), " " * (word.end() < len(each))
                by_word.setdefault(f"{begins}{word.group()}{ends}".encode(), []).append((each, pattern))
    beginnings = frozenset(tuple(word[:3]) for word in by_word)
    return _Asked(tuple(wordless), tuple((word, tuple(texts)) for word, texts in by_word.items()), beginnings)


def _judge(given: set[bytes]) -> dict[bytes, tuple[tuple[str, Pattern], ...]]:
    """The texts that patterns ask for and that some words may be part of."""
    joined = b" %b " % b" ".join(given)
    if _asked().beginnings.isdisjoint(zip(joined, joined[1:], joined[2:], strict=False)):
        return {}
    asked = [(word, texts) for word, texts in _asked().by_word if word in joined]
    if not asked:
        return {}
    found = ((each, tuple(chain(*(texts for word, texts in asked if word in b" %b " % each)))) for each in given)
    return {each: texts for each, texts in found if texts}


_sieve = Sieve(_judge)


def _tried(text: str, known: set[bytes] | None = None) -> list[Pattern]:
    """The patterns that may match a text; ``known`` are its words."""
    called = _sieve(known if known is not None else words(as_bytes(lowered(text))))
    if not called and _SIGN not in text and text.isascii():
        return []
    seen = lowered(text)
    found = {pattern for each, pattern in chain(_asked().wordless, *called) if each in seen}
    return sorted(found, key=patterns().index)


def _found(text: str, tried: list[Pattern]) -> Iterator[Secret]:
    for pattern in tried:
        if pattern.label == "password":
            yield from _named(text, pattern.compiled)
            continue
        for hit in pattern.compiled.finditer(text):
            start, end = hit.span(1 if hit.re.groups else 0)
            if not (hit.re.groups and _is_example(text[start:end])):
                yield Secret(pattern.label, start, end)
    if _may_have_cards(text):
        yield from _cards(text)


def _named(text: str, named: re.Pattern[str]) -> Iterator[Secret]:
    """What is called a password: by ``=`` or ``:`` whatever it is, in prose only what does not look like a word."""
    at = 0
    while (hit := named.search(text, at)) is not None:
        begin, close = hit.span("value")
        value = text[begin:close].rstrip(".,;:)]}>、。")
        secret = _is_secret(value, hit)
        at = max(hit.end("name") + 1, close if secret else 0)
        if secret:
            yield Secret("password" if _is_password(hit["name"]) else "secret", begin, begin + len(value))


def _is_password(name: str) -> bool:
    return not re.search(r"(?i)key|token|secret|cred|clave", name)


def _is_secret(value: str, hit: re.Match[str]) -> bool:
    if len(value) < 4 or _is_example(value) or MARK.search(value):
        return False
    if _is_mixed(value):
        return True
    link, known = hit["link"].strip(), _is_password(hit["name"])
    if known and _SPOKEN.fullmatch(link) and _is_spoken(value, hit):
        return True
    if hit["of"] or link not in ("=", ":=", "=>", ":", "："):
        return False
    if known and (link in ("=", ":=") or hit["quote"]):
        return len(value) >= 5
    return len(value) >= 6 and not _is_word(value)


def _is_spoken(value: str, hit: re.Match[str]) -> bool:
    """Whether plain words say a password: a word with figures behind it, or, of one that is mine, the last word of a clause."""
    if _part("numbered").fullmatch(value):
        return True
    ends = _END.match(hit.string, hit.end("value")) is not None
    before = hit.string[max(0, hit.start() - 60) : hit.start()]
    return ends and _part("owner").search(before) is not None and not _part("state").fullmatch(value)


def _is_word(value: str) -> bool:
    """Whether it reads as a word or a name: letters alone, at the most with a capital in front, or words in a path."""
    return _part("word").fullmatch(value) is not None


def _is_mixed(value: str) -> bool:
    """Whether it mixes what words do not mix: digits or signs among letters, or capitals in the middle; or is a long number."""
    if _part("usual").fullmatch(value):
        return value.isdigit() and len(value) >= 4
    kinds = sum(each.search(value) is not None for each in _KINDS)
    return kinds >= 2 and len(value) >= 5 and _INNER.search(value) is not None


def _is_example(value: str) -> bool:
    bare = value.strip("\"'`.,;:")
    return _part("example").match(bare) is not None or len(set(bare.lower())) < 3


def _may_have_cards(text: str) -> bool:
    return not text.isascii() or has_digits(as_bytes(text))


def _cards(text: str) -> Iterator[Secret]:
    for hit in _part("card").finditer(text):
        digits = re.sub("[ -]", "", hit.group())
        if 13 <= len(digits) <= 19 and _part("issuer").match(digits) and len(set(digits)) > 2 and luhn(digits):
            yield Secret("card_number", hit.start(), hit.end())


def luhn(digits: str) -> bool:
    """The check digit of ISO/IEC 7812."""
    doubled = [int(each) * (1 + at % 2) for at, each in enumerate(reversed(digits))]
    return sum(each - 9 * (each > 9) for each in doubled) % 10 == 0


def redacted(text: str, found: list[Secret]) -> str:
    """The text with a mark in the place of each secret."""
    for each in reversed(found):
        text = text[: each.start] + mark(each.kind) + text[each.end :]
    return text
