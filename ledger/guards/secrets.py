"""The scanner "secrets/1": keys, passwords and card numbers in a text, each with its place, so that they can be taken out.

Keys are known by the marks that their makers gave them, passwords by the words before them, in twelve languages. What stands
for a secret in an example ("<your password>", "changeme", "${TOKEN}") is none. There is no entropy rule: it fires on every
digest and id of a working note.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache, partial
from itertools import chain

from msgspec import Struct

from ledger.domain.late import late
from ledger.domain.secrecy import MARK_BEGINS
from ledger.guards import spoken
from ledger.guards.letters import Sieve, as_bytes, has_digits, words
from ledger.guards.patterns import Pattern, part, read
from ledger.guards.spoken import is_example

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

_INNER = late(r"[a-z][A-Z]|[A-Za-z]\d|\d[A-Za-z]|[A-Za-z\d](?:[!?](?!$)|[@#$%^&*+=~])")
_WORD, _SIGN = late("[a-z]+"), "://"  # the one ASCII text without a word that a pattern asks for
_ESCAPED, _VALUE = late(r"(?<!\\)\\++[nrt\"']"), late(r"[^\s\"'`«»“”,;]{4,200}")
_BLANK = {"n": "\n", "r": "\r", "t": "\t"}  # what a letter behind a backslash stands for
AGAIN, AGAIN_CHARS = 8, 4  # secrets of a text that are looked for in the rest of it, and the characters of one at least
_MORE = 200  # characters of a list, object or clause in which several secrets are looked for
_LOWER = str.maketrans(
    "\u0130\u0131\u017f\u212a", "iisk"
)  # letters that expressions take for these where case is no matter


def scan(text: str, known: set[bytes] | None = None) -> list[Secret]:
    """The secrets of a text, in their order; none lies within another. ``known`` are the words of an ASCII text."""
    if not (tried := _tried(text, known)) and not _may_have_cards(text):
        return []
    found = sorted(chain(*(_found(each, tried) for each in _readings(text))), key=lambda each: each.start)
    kept = _apart(found)
    if kept and (again := list(_again(text, kept))):
        kept = _apart(sorted((*kept, *again), key=lambda each: (each.start, -each.end)))
    return kept


def _apart(found: list[Secret]) -> list[Secret]:
    kept: list[Secret] = []
    for each in found:
        if not kept or each.start >= kept[-1].end:
            kept.append(each)
    return kept


def _again(text: str, found: list[Secret]) -> Iterator[Secret]:
    """Yield the other places of the first secrets of a text: what is a secret in one place is one in all."""
    values = {text[each.start : each.end]: each.kind for each in found if each.end - each.start >= AGAIN_CHARS}
    some = list(values)[:AGAIN]
    if not some:
        return
    for hit in re.finditer(rf"(?<!\w)(?:{'|'.join(map(re.escape, some))})(?!\w)", text):
        yield Secret(values[hit[0]], *hit.span())


def may_have(text: str) -> bool:
    """Whether a text has what one of the patterns asks for."""
    return bool(_tried(text)) or _may_have_cards(text)


def patterns() -> tuple[Pattern, ...]:
    return read()["secrets"].patterns


_part = partial(part, "secrets")


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
            word = each if each.isascii() and each.isalpha() else max(_WORD.findall(each), key=len, default="")
            if not word:
                wordless.append((each, pattern))
                continue
            if word is not each:
                word = f"{'' if each.startswith(word) else ' '}{word}{'' if each.endswith(word) else ' '}"
            by_word.setdefault(word.encode(), []).append((each, pattern))
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


def _readings(text: str) -> Iterator[str]:
    """A text as its escapes mean it, with blanks for what that has less, so that all stays in its place; and as it is."""
    if "\\" in text:
        yield _ESCAPED.sub(lambda hit: _BLANK.get(hit[0][-1], hit[0][-1]).rjust(len(hit[0])), text)
    yield text


def _found(text: str, tried: list[Pattern]) -> list[Secret]:
    found = list(_cards(text)) if _may_have_cards(text) else []
    for pattern in tried:
        if pattern.label == "password":
            found += _named(text, pattern.compiled)
            continue
        if pattern.label == "spoken":
            found += (Secret(*each) for each in spoken.found(text, lowered(text), pattern.compiled))
            continue
        for hit in pattern.compiled.finditer(text):
            start, end = hit.span(1 if hit.re.groups else 0)
            if not (hit.re.groups and is_example(text[start:end])):
                found.append(Secret(pattern.label, start, end))
    return sorted(found, key=lambda each: (each.start, -each.end))


def _named(text: str, named: re.Pattern[str]) -> Iterator[Secret]:
    """What is called a password: by ``=`` or ``:`` whatever it is, in prose only what does not look like a word."""
    at = 0
    while (hit := named.search(text, at)) is not None:
        at = hit.end("name") + 1
        kind = "password" if _is_password(hit["name"]) else "secret"
        for start, end in _listed(hit) if hit["open"] else _behind(hit):
            yield Secret(kind, start, end)
            at = max(at, end)


def _listed(hit: re.Match[str]) -> Iterator[tuple[int, int]]:
    """The secrets in a list or an object that has the name of one, by their places."""
    begin, close = hit.end("open"), "]" if hit["open"] == "[" else "}"
    for item in _part("item").finditer(hit.string, begin, begin + _MORE) if _is_signed(hit) else ():
        if item["close"] == close:
            return
        if (
            (value := item["value"])
            and _stands_out(value, hit["name"])
            and not _part("about").fullmatch(item["key"] or "")
        ):
            yield item.span("value")


def _behind(hit: re.Match[str]) -> Iterator[tuple[int, int]]:
    """The secret that a name has behind it, and of passwords those behind the first, by their places."""
    text, name, (begin, end) = hit.string, hit["name"].lower(), hit.span("value")
    torn = hit["quote"] and text[end : end + 1] == " "
    if torn and _is_password(name) and (phrase := _part("phrase").match(text, begin)):
        yield phrase.span()
        return
    value = _bare(hit["value"].partition("<")[0] if hit["link"] == ">" else hit["value"])
    if not _is_secret(value, hit):
        return
    yield begin, begin + len(value)
    if name[-2] != "s" == name[-1] and not hit["quote"]:
        close = text.find("\n\n" if "\n" in hit["link"] else "\n", end, end + _MORE)
        for more in _VALUE.finditer(text, end, close if close >= 0 else end + _MORE):
            if _stands_out(value := _bare(more[0]), name):
                yield more.start(), more.start() + len(value)


def _bare(value: str) -> str:
    return value.rstrip(".,;:)]}>、。")


def _is_password(name: str) -> bool:
    lower = name.lower()
    return not ("key" in lower or "token" in lower or "secret" in lower or "cred" in lower or "clave" in lower)


def _is_signed(hit: re.Match[str]) -> bool:
    return hit["link"].strip(" \t*") in ("=", ":=", "=>", ":", "：")


def _is_secret(value: str, hit: re.Match[str]) -> bool:
    """Whether a value is one, by how it is tied to its name: a sign, a verb, or no more than a blank or a line end."""
    link, name, signed = hit["link"].strip(), hit["name"], _is_signed(hit)
    known = _is_password(name)
    if not hit["quote"] and signed and not (name.isupper() and link == hit["link"]) and _is_code(value, known):
        return False
    end = hit.end("value")
    torn = hit["quote"] and hit.string[end : end + 1].isspace()
    if torn or not link or link in (">", "|", "->", "→") or "\n" in hit["link"]:
        named = known and not name.lower().endswith("pass") and not hit["value"].endswith((":", "="))
        return named and not value.isdigit() and _stands_out(value, name)
    if _stands_out(value, name):
        return True
    if _is_none(value):
        return False
    if hit["of"] or not signed:
        return False
    if known and (link in ("=", ":=") or hit["quote"]):
        return len(value) >= 5
    return len(value) >= 6 and not _is_word(value)


def _is_code(value: str, known: bool) -> bool:
    """Whether a program says where a secret comes from, or of what type it is."""
    return _part("code").fullmatch(value) is not None or (not known and value.replace("_", "").isalpha())


def _is_none(value: str) -> bool:
    return len(value) < 4 or is_example(value) or MARK.search(value) is not None


def _stands_out(value: str, name: str) -> bool:
    """Whether it is no word: it mixes what words do not mix, or is a word with figures behind it that is called a password."""
    odd = _is_mixed(value) or (_is_password(name) and _part("numbered").fullmatch(value) is not None)
    return odd and not _is_none(value)


def _is_word(value: str) -> bool:
    """Whether it reads as a word or a name: letters alone, at the most with a capital in front, or words in a path."""
    return _part("word").fullmatch(value) is not None


def _is_mixed(value: str) -> bool:
    """Whether it mixes what words do not mix: digits or signs among letters, or capitals in the middle; or is a long number."""
    if _part("usual").fullmatch(value):
        return value.isdigit() and len(value) >= 4
    return len(value) >= 5 and _INNER.search(value) is not None


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
