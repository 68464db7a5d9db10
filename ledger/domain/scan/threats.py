"""The scanner "threats/2": orders to a model, ways to send data out and hidden characters, found by patterns.

The scanner raises an alarm and is no protection: an attacker who knows the patterns can avoid them. The first five labels are
rubino's. The patterns match the folded text (``folding.py``), in English and ten other languages.

A line that begins with a role, such as "system:", is a threat in a belief. In material, as in a chat that somebody wrote down,
the label is a threat only before an order.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from string import ascii_lowercase, digits

from msgspec import Struct

from ledger.domain.late import late
from ledger.domain.scan.folding import INVISIBLE, is_typographic, views
from ledger.domain.scan.letters import HEAD, Sieve, as_bytes, has_long_run, is_odd, words
from ledger.domain.scan.patterns import ScannerPattern, read

NAME = "threats/2"
SPAN = 160  # the most characters of a match that a finding covers


class ThreatFinding(Struct, frozen=True):
    """A finding of the scanner: a label, and the characters ``start`` to ``end`` of the reading in which it was found.

    ``character`` is the code point of an invisible character, such as "U+FEFF". With ``beliefs_only`` the text is a threat as a
    memory or state, and none as a turn, message or document.
    """

    label: str
    start: int = 0
    end: int = 0
    character: str = ""
    beliefs_only: bool = False


_BLOB = late(r"[A-Za-z0-9+/]{200,}={0,2}|(?:[A-Za-z0-9+/]{60,76}\r?\n){3,}")
_ENCODED = 4  # a run of fewer different characters is drawn
_VARIED = 16  # a run of as many different characters is a blob, whichever they are; base64 of nearly any text has more
_DRAWN = tuple(map(frozenset, (ascii_lowercase, digits, "ACGTUN")))
_BLANKS = late(r"\s{9,}+")  # a longer run than the expressions allow for
_IMAGE = late(r"data:(?:image|font|audio|video)/[\w.+-]{1,40};base64,\s*$")
_FLAG = late("\U0001f3f4[\U000e0020-\U000e007e]{1,8}\U000e007f")
_TAG = late("[\U000e0000-\U000e007f]")
_OVERRIDE = late("[\u202d\u202e]")
_EMBEDDING = late("[\u202a\u202b\u202c\u2066-\u2069]")
_RIGHT_TO_LEFT = late("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")
_LATIN = r"[A-Za-z\u00c0-\u024f\u0370-\u04ff]"
_WITHIN = late(f"(?<={_LATIN})[\u200b-\u200d\u2060-\u2064\ufeff\u115f\u1160\u3164\uffa0\u034f\u180e](?={_LATIN})")
_AT_AN_END = late("\\A\\s*[\u200b\u2060-\u2064\ufeff\u180e]|[\u200b\u2060-\u2064\ufeff\u180e]\\s*\\Z")
_SELECTORS = late("[\ufe00-\ufe0f\U000e0100-\U000e01ef]{3,}")


def scan(text: str, known: set[bytes] | None = None) -> list[ThreatFinding]:
    """Return the findings in a text, in the order of the patterns.

    Each label stands once, with a finding that counts in every text before one that counts in beliefs alone. ``known`` are the
    words of an ASCII text, if the caller has them.
    """
    raw = as_bytes(text)
    if text.isascii() and not is_odd(text, raw, lowered := text.lower()):
        return _matches(lowered, known)
    first_of_label: dict[str, ThreatFinding] = {}
    for finding in (*_invisible(text), *(_blobs(text) if has_long_run(raw, 60) else ())):
        _keep(first_of_label, finding)
    for view in views(text):
        for finding in _matches(view):
            _keep(first_of_label, finding)
    return list(first_of_label.values())


def _keep(first_of_label: dict[str, ThreatFinding], finding: ThreatFinding) -> None:
    known = first_of_label.get(finding.label)
    if known is None or (known.beliefs_only and not finding.beliefs_only):
        first_of_label[finding.label] = finding


def patterns() -> tuple[ScannerPattern, ...]:
    return read()["threats"].patterns


@cache
def _patterns_by_beginning() -> tuple[dict[bytes, set[int]], dict[str, set[int]]]:
    """Return the numbers of the patterns to try, by the beginning of a word, and by a sign."""
    of_head, of_sign = dict[bytes, set[int]](), dict[str, set[int]]()
    for number, pattern in enumerate(patterns()):
        for head in pattern.heads:
            of_head.setdefault(head.encode(), set()).add(number)
        for sign in pattern.signs:
            of_sign.setdefault(sign, set()).add(number)
    return of_head, of_sign


def _judge(words: set[bytes]) -> dict[bytes, set[int]]:
    of_head = _patterns_by_beginning()[0]
    return {word: of_head[head] for word in words if (head := word[:HEAD]) in of_head}


_sieve = Sieve(_judge)


def _matches(view: str, known: set[bytes] | None = None) -> list[ThreatFinding]:
    """Return the findings of the patterns in a folded text."""
    called = _sieve(known if known is not None else words(as_bytes(view)))
    signed = not view.isascii() or "<" in view or "#" in view or "[" in view or "](" in view or "://" in view
    if not called and not signed:
        return []
    if _BLANKS.search(view) is not None:
        view = _BLANKS.sub(lambda run: "\n" if "\n" in run[0] else " ", view)
    numbers = set[int]().union(*called)
    if signed:  # every ASCII sign of a pattern contains one of the signs above
        numbers.update(*(concerned for sign, concerned in _patterns_by_beginning()[1].items() if sign in view))
    first_of_label: dict[str, ThreatFinding] = {}
    for number in sorted(numbers):
        pattern = patterns()[number]
        if pattern.label not in first_of_label and pattern.may_match(view) and (hit := pattern.compiled.search(view)):
            first_of_label[pattern.label] = ThreatFinding(
                pattern.label, hit.start(), min(hit.end(), hit.start() + SPAN), beliefs_only=pattern.beliefs_only
            )
    return list(first_of_label.values())


def _blobs(text: str) -> Iterator[ThreatFinding]:
    """Yield the first long run of base64 that is not an inlined picture."""
    for hit in _BLOB.finditer(text):
        if _is_drawn(hit.group()):
            continue
        if _IMAGE.search(text, max(0, hit.start() - 80), hit.start()) is None:
            yield ThreatFinding("exfiltration_base64_blob", hit.start(), hit.end())
            return


def _is_drawn(run: str) -> bool:
    """Return True if a run is a line, a drawn-out word, a long number or a sequence of nucleotides, and no base64.

    Base64 of few different bytes has few different characters too, but seldom fewer than four, and letters of both cases, or
    capitals. A run of A alone is base64 of zero bytes.
    """
    signs = set(run) - set("=\r\n")
    if len(signs) < _ENCODED:
        return signs != {"A"}
    return len(signs) < _VARIED and any(signs <= drawn for drawn in _DRAWN)


def _invisible(text: str) -> Iterator[ThreatFinding]:
    """Yield the first invisible character in a place where no script needs it.

    Joiners in emoji, Persian and Hindi, and the marks of Hebrew and Arabic, are needed and no finding.
    """
    if text.isascii() or is_typographic(text) or INVISIBLE.search(text) is None:
        return
    rest = _FLAG.sub("", text)
    patterns = [_TAG, _OVERRIDE, _WITHIN, _AT_AN_END, _SELECTORS]
    if _RIGHT_TO_LEFT.search(rest) is None:
        patterns.append(_EMBEDDING)
    for pattern in patterns:
        if (hit := pattern.search(rest)) is not None:
            character = INVISIBLE.search(hit[0])
            yield ThreatFinding("invisible_unicode", *hit.span(), code_point(character[0]) if character else "")
            return


def code_point(character: str) -> str:
    """Return the name of a character by its number, such as "U+200B"."""
    return f"U+{ord(character):04X}"
