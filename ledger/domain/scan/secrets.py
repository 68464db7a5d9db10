"""The scanner "secrets/1": keys, passwords and card numbers in a text, each with its place, so that they can be redacted.

Keys are recognised by the beginnings that their issuers give them (such as "ghp_"), passwords by the words before them, in twelve
languages. A placeholder of an example ("<your password>", "changeme", "${TOKEN}") is not a secret. No rule searches for
random-looking text, because that would match every digest and id in a working note.

Most texts have no secret. So each pattern names texts that a match must contain, and a pattern is only tried on a text with one
of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache, partial
from itertools import chain

from msgspec import Struct

from ledger.domain.late import late
from ledger.domain.scan import spoken
from ledger.domain.scan.letters import Sieve, as_bytes, has_digits, words
from ledger.domain.scan.patterns import MARK_BEGINS, ScannerPattern, part, read
from ledger.domain.scan.spoken import is_example

NAME = "secrets/1"


class Secret(Struct, frozen=True):
    """A secret of a ``kind`` at characters ``start`` to ``end`` of a text."""

    kind: str
    start: int
    end: int


def mark(kind: str) -> str:
    """Return the mark that stands in a text for a secret of this kind."""
    return f"{MARK_BEGINS}{kind}]"


MARK = late(r"\[redacted:([a-z0-9_]+)\]")

_INNER = late(r"[a-z][A-Z]|[A-Za-z]\d|\d[A-Za-z]|[A-Za-z\d](?:[!?](?!$)|[@#$%^&*+=~])")
_WORD, _SIGN = late("[a-z]+"), "://"  # of the texts that patterns need, only this ASCII text has no word
_ESCAPED, _VALUE = late(r"(?<!\\)\\++[nrt\"']"), late(r"[^\s\"'`«»“”,;]{4,200}")
_BLANK = {"n": "\n", "r": "\r", "t": "\t"}  # the meanings of escaped letters
AGAIN, AGAIN_CHARS = 8, 4  # the most secrets that are looked for elsewhere in a text, and their least length
_NAME_CHARS = 300  # the last characters of a name that may tell of a secret
_MORE = 200  # the most characters of a list, object or clause in which further secrets are looked for
# Letters that a case-insensitive expression takes for an ASCII letter.
_LOWER = str.maketrans("\u0130\u0131\u017f\u212a", "iisk")


def scan(text: str, known: set[bytes] | None = None) -> list[Secret]:
    """Return the secrets of a text in their order; no secret lies within another.

    ``known`` are the words of an ASCII text, if the caller has them.
    """
    if not (tried := _patterns_to_try(text, known)) and not _may_have_cards(text):
        return []
    hits = sorted(chain(*(_found(reading, tried) for reading in _readings(text))), key=lambda hit: hit.start)
    kept = _apart(hits)
    if kept and (again := list(_again(text, kept))):
        kept = _apart(sorted((*kept, *again), key=lambda hit: (hit.start, -hit.end)))
    return kept


def _apart(hits: list[Secret]) -> list[Secret]:
    kept: list[Secret] = []
    for hit in hits:
        if not kept or hit.start >= kept[-1].end:
            kept.append(hit)
    return kept


def _again(text: str, secrets_found: list[Secret]) -> Iterator[Secret]:
    """Yield the other places at which the first secrets of a text stand again."""
    values = {
        text[secret.start : secret.end]: secret.kind
        for secret in secrets_found
        if secret.end - secret.start >= AGAIN_CHARS
    }
    repeated = list(values)[:AGAIN]
    if not repeated:
        return
    for hit in re.finditer(rf"(?<!\w)(?:{'|'.join(map(re.escape, repeated))})(?!\w)", text):
        yield Secret(values[hit[0]], *hit.span())


def may_have(text: str) -> bool:
    """Return True if a text contains the words or signs that some pattern needs."""
    return bool(_patterns_to_try(text)) or _may_have_cards(text)


def under(name: str, encoded: str) -> tuple[str, int]:
    """Return the text to scan for a secret in a value, given as JSON, that its name may tell of, and the place of the value.

    The name tells of a secret as in {"password": …}.
    """
    text = f'"{name[-_NAME_CHARS:]}": {encoded[:_MORE]}'
    return text, len(text) - len(encoded[:_MORE])


def patterns() -> tuple[ScannerPattern, ...]:
    return read()["secrets"].patterns


_part = partial(part, "secrets")


def lowered(text: str) -> str:
    return text.lower() if text.isascii() else text.translate(_LOWER).lower()


class _NeededTexts(Struct, frozen=True):
    """The texts that patterns need, each with the pattern that needs it, grouped for a quick search.

    ``wordless`` are texts without a Latin word. ``by_word`` has the other texts under their longest word. A blank before or
    after that word means that it must begin or end a word of the searched text. ``beginnings`` are the first three letters of
    these words.
    """

    wordless: tuple[tuple[str, ScannerPattern], ...]
    by_word: tuple[tuple[bytes, tuple[tuple[str, ScannerPattern], ...]], ...]
    beginnings: frozenset[tuple[int, ...]]


@cache
def _needed_texts() -> _NeededTexts:
    wordless, by_word = list[tuple[str, ScannerPattern]](), dict[bytes, list[tuple[str, ScannerPattern]]]()
    for pattern in patterns():
        for text in (text for texts in pattern.has for text in texts):
            word = text if text.isascii() and text.isalpha() else max(_WORD.findall(text), key=len, default="")
            if not word:
                wordless.append((text, pattern))
                continue
            if word is not text:
                word = f"{'' if text.startswith(word) else ' '}{word}{'' if text.endswith(word) else ' '}"
            by_word.setdefault(word.encode(), []).append((text, pattern))
    beginnings = frozenset(tuple(word[:3]) for word in by_word)
    return _NeededTexts(tuple(wordless), tuple((word, tuple(texts)) for word, texts in by_word.items()), beginnings)


def _judge(words: set[bytes]) -> dict[bytes, tuple[tuple[str, ScannerPattern], ...]]:
    """Return for each word the texts that patterns need and that may contain the word; words without such a text are left out."""
    joined = b" %b " % b" ".join(words)
    if _needed_texts().beginnings.isdisjoint(zip(joined, joined[1:], joined[2:], strict=False)):
        return {}
    candidates = [(word, texts) for word, texts in _needed_texts().by_word if word in joined]
    if not candidates:
        return {}
    texts_of_words = (
        (token, tuple(chain(*(texts for word, texts in candidates if word in b" %b " % token)))) for token in words
    )
    return {token: texts for token, texts in texts_of_words if texts}


_sieve = Sieve(_judge)


def _patterns_to_try(text: str, known: set[bytes] | None = None) -> list[ScannerPattern]:
    """Return the patterns that may match a text; ``known`` are the words of the text, if the caller has them."""
    called = _sieve(known if known is not None else words(as_bytes(lowered(text))))
    if not called and _SIGN not in text and text.isascii():
        return []
    seen = lowered(text)
    needed = {pattern for part_of_text, pattern in chain(_needed_texts().wordless, *called) if part_of_text in seen}
    return sorted(needed, key=patterns().index)


def _readings(text: str) -> Iterator[str]:
    """Yield a text with its escapes resolved, then the text itself.

    Each resolved escape is padded with blanks, so that the places of all other characters stay the same.
    """
    if "\\" in text:
        yield _ESCAPED.sub(lambda hit: _BLANK.get(hit[0][-1], hit[0][-1]).rjust(len(hit[0])), text)
    yield text


def _found(text: str, tried: list[ScannerPattern]) -> list[Secret]:
    hits = list(_cards(text)) if _may_have_cards(text) else []
    for pattern in tried:
        if pattern.label == "password":
            hits += _named(text, pattern.compiled)
            continue
        if pattern.label == "spoken":
            hits += (Secret(*spoken_secret) for spoken_secret in spoken.found(text, lowered(text), pattern.compiled))
            continue
        for hit in pattern.compiled.finditer(text):
            start, end = hit.span(1 if hit.re.groups else 0)
            if not (hit.re.groups and is_example(text[start:end])):
                hits.append(Secret(pattern.label, start, end))
    return sorted(hits, key=lambda hit: (hit.start, -hit.end))


def _named(text: str, named: re.Pattern[str]) -> Iterator[Secret]:
    """Yield the secrets after a name such as "password": after ``=`` or ``:`` any value, in prose only a value unlike a word."""
    at = 0
    while (hit := named.search(text, at)) is not None:
        at = hit.end("name") + 1
        kind = "password" if _is_password(hit["name"]) else "secret"
        for start, end in _listed(hit) if hit["open"] else _behind(hit):
            yield Secret(kind, start, end)
            at = max(at, end)


def _listed(hit: re.Match[str]) -> Iterator[tuple[int, int]]:
    """Yield the places of the secrets in a list or object whose name says that it holds secrets."""
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
    """Yield the place of the secret after a name; after a plural name also the places of further secrets."""
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
    """Return True if a value is a secret, judged by its link to the name: a sign, a verb, a blank or the end of a line."""
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
    """Return True if a value is code and no secret, such as the name of a variable, a call or a type."""
    return _part("code").fullmatch(value) is not None or (not known and value.replace("_", "").isalpha())


def _is_none(value: str) -> bool:
    return len(value) < 4 or is_example(value) or MARK.search(value) is not None


def _stands_out(value: str, name: str) -> bool:
    """Return True if a value is unlike a word, or is a word that ends with digits and is called a password."""
    odd = _is_mixed(value) or (_is_password(name) and _part("numbered").fullmatch(value) is not None)
    return odd and not _is_none(value)


def _is_word(value: str) -> bool:
    """Return True if a value reads as a word or a name: letters, at most one capital in front, or words in a path."""
    return _part("word").fullmatch(value) is not None


def _is_mixed(value: str) -> bool:
    """Return True if a value has digits or signs among letters, or capitals in the middle, or is a long number."""
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
    """Return True if the check digit of a card number is right (ISO/IEC 7812)."""
    doubled = [int(digit) * (1 + at % 2) for at, digit in enumerate(reversed(digits))]
    return sum(digit - 9 * (digit > 9) for digit in doubled) % 10 == 0


def redacted(text: str, secrets: list[Secret]) -> str:
    """Return a text with a mark in the place of each secret."""
    pieces, at = list[str](), 0
    for secret in secrets:
        pieces += (text[at : secret.start], mark(secret.kind))
        at = secret.end
    return "".join((*pieces, text[at:]))
