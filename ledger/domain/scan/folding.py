"""The readings of a text: look-alike and invisible characters, spacing and encodings are undone before patterns are matched.

An attacker can hide words from a pattern, for example by letters of another script or in base64. ``fold`` returns the plain
form of a text. ``views`` yields the folded text and the texts that are hidden in it. Sizes and depth are bounded, so that a
hostile text costs no more than a long text.
"""

from __future__ import annotations

import base64
import binascii
import re
import unicodedata
from collections.abc import Iterator

from ledger.domain.late import late
from ledger.domain.scan.letters import as_bytes, classed, has_hexes, has_long_run, leeted, may_be_spaced

DEPTH = 2  # so an encoded text within an encoded text is still read
PIECES = 16  # the most encoded pieces of a text that are decoded
PIECE_CHARS = 16_384  # the most characters of each decoded piece
# Letters of other scripts that look like Latin letters. NFKC has undone full width, circled and mathematical letters before.
_LOOK_ALIKES = {
    "a": "аɑαᴀ", "b": "ьʙ", "c": "сϲᴄ", "d": "ԁɗᴅ", "e": "еєҽᴇ", "f": "ғ", "g": "ɡԍɢ", "h": "һнʜ", "i": "іıιɪ",
    "j": "јϳᴊ", "k": "κкᴋ", "l": "ӏⅼʟ", "m": "мᴍ", "n": "ոпɴ", "o": "оοօσᴏ", "p": "рρᴘ", "q": "ԛ", "r": "гʀ",
    "s": "ѕꜱ", "t": "тτᴛ", "u": "υսᴜ", "v": "νѵᴠ", "w": "ԝωᴡ", "x": "хχ", "y": "уγүʏ", "z": "ᴢ",
}  # fmt: skip
_MERELY_SIMILAR = "внкптмгωστ"  # similar only as capitals or not quite, and frequent in their own languages
CONFUSABLES = {
    ord(letter): latin for latin, alike in _LOOK_ALIKES.items() for letter in alike if letter not in _MERELY_SIMILAR
}
_LETTERS = CONFUSABLES | str.maketrans({"ł": "l", "ø": "o", "đ": "d", "æ": "ae", "œ": "oe"})
_ACCENTS = dict.fromkeys(range(0x300, 0x370))
_LEET = str.maketrans("01345789@$", "oieastbgas")

_SHAPELESS = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff"
    "\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff"
)
INVISIBLE = late(f"[{_SHAPELESS}]")
_TAGS = late("[\U000e0020-\U000e007e]{3,}")
_SELECTORS = late("[\ufe00-\ufe0f\U000e0100-\U000e01ef]{3,}")
_LONG = late(r"[A-Za-z0-9+/_-]{20,}={0,2}")
_HEX = late(r"(?:0x)?((?:[0-9a-fA-F]{2}[ :]?){16,})")
_PERCENT_BYTE = late("%[0-9a-fA-F]{2}")
_PERCENT = late(r"(?:%[0-9a-fA-F]{2}|[\w.+-]){12,}")
_ESCAPES = late(r"(?:\\u[0-9a-fA-F]{4}|\\x[0-9a-fA-F]{2}){4,}")
_ENTITIES = late(r"(?:&#x?[0-9a-fA-F]+;){4,}")
_ESCAPE = late(r"\\[ux]([0-9a-fA-F]{2,4})")
_LEETED = late(r"[^\W\d_][01345789@$]+[^\W\d_]")
_LEETED_WORDS = 2  # the least number of words with digits for letters; a single such word is a name, like "b2b"
_SPACED = late(r"(?<!\w)(?:\w([ ._\-*|/])(?=\w(?!\w))){2,}\w(?!\w)")
_BACKWARDS = late(r"\bbackwards?\b|\breversed?:|\bread\w* (?:it )?(?:backward|in reverse)")


def fold(text: str) -> str:
    """Return a text in lower case and NFKC, without accents and invisible characters, look-alikes replaced by Latin letters."""
    if text.isascii() or is_typographic(text):
        return text.lower()
    visible = INVISIBLE.sub("", unicodedata.normalize("NFKC", text)).casefold()
    plain = unicodedata.normalize("NFKC", unicodedata.normalize("NFD", visible).translate(_ACCENTS))
    return plain.translate(_LETTERS)


_KEPT = late(
    "[^\x00-\x7f\u2010\u2012-\u2015\u2018\u2019\u201c\u201d\u2022\u20ac\u2192\U0001f300-\U0001f3f3\U0001f400-\U0001f64f]"
)


def is_typographic(text: str) -> bool:
    """Return True if all characters of a text beyond ASCII are signs that folding keeps."""
    return _KEPT.search(text) is None


def views(text: str, depth: int = DEPTH) -> Iterator[str]:
    """Yield the folded text, then its other readings, then the texts that are encoded in it."""
    folded = fold(text)
    if "*" in folded or "`" in folded:
        folded = folded.replace("*", "").replace("`", "")  # Markdown in the middle of a word
    yield folded
    raw = classed(folded)
    if (len(_LEETED.findall(folded)) if raw is None else leeted(raw)) >= _LEETED_WORDS:
        yield folded.translate(_LEET)
    if (raw is None or may_be_spaced(raw)) and (joined := _joined(folded)) != folded:
        yield joined
    if "rot13" in folded or "rot-13" in folded or "caesar" in folded:
        yield folded.translate(_ROT13)
    if "\u202e" in text or (("backward" in folded or "reverse" in folded) and _BACKWARDS.search(folded)):
        yield folded[::-1]
        yield from (fold(reversed_text[::-1]) for reversed_text in re.findall("\u202e([^\u202c]*)", text[:PIECE_CHARS]))
    if depth:
        for piece in _decoded(text):
            yield from views(piece, depth - 1)


_ROT13 = str.maketrans("abcdefghijklmnopqrstuvwxyz", "nopqrstuvwxyzabcdefghijklm")


def _joined(folded: str) -> str:
    """Return a text in which words with a sign between all letters ("i g n o r e") are joined."""
    return _SPACED.sub(lambda word: word.group().replace(word[1], ""), folded)


def _decoded(text: str) -> Iterator[str]:
    """Yield the first texts that are encoded in a text, cut to a length."""
    remaining = PIECES
    for decoded in _encoded(text):
        if decoded and remaining:
            remaining -= 1
            yield decoded[:PIECE_CHARS]


def _encoded(text: str) -> Iterator[str | None]:
    if not text.isascii():
        for run in _TAGS.findall(text):
            yield "".join(chr(ord(tag) - 0xE0000) for tag in run)
        for run in _SELECTORS.findall(text):
            yield _readable(bytes(_byte_of(selector) for selector in run))
    if "%" in text and _PERCENT_BYTE.search(text) is not None:
        from urllib.parse import unquote_to_bytes  # slow to load, and few texts need it

        for run in _PERCENT.findall(text):
            if "%" in run:
                yield _readable(unquote_to_bytes(run[: 3 * PIECE_CHARS]))
    if "\\u" in text or "\\x" in text:
        for run in _ESCAPES.findall(text):
            yield _ESCAPE.sub(lambda escape: chr(int(escape[1], 16)), run[: 6 * PIECE_CHARS])
    if "&#" in text:
        import html  # loads a table of all names of characters, and few texts need it

        for run in _ENTITIES.findall(text):
            yield html.unescape(run[: 8 * PIECE_CHARS])
    raw = as_bytes(text)
    if has_hexes(raw):
        for run in _HEX.findall(text):
            yield _readable(bytes.fromhex(re.sub("[ :]", "", run)[: 2 * PIECE_CHARS]))
    if has_long_run(raw):
        for run in _LONG.findall(text):
            yield of_base64(run[: 2 * PIECE_CHARS])


def of_base64(run: str) -> str | None:
    body = run.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return _readable(base64.b64decode(body[: len(body) // 4 * 4 + len(body) % 4] + "=" * (-len(body) % 4)))
    except (ValueError, binascii.Error):
        return None


def _byte_of(selector: str) -> int:
    code = ord(selector)
    return code - 0xFE00 if code < 0xFE10 else (code - 0xE0100 + 16) & 0xFF


def _readable(raw: bytes) -> str | None:
    """Return bytes as text, or None if less than 95 % of it would be printable."""
    if len(raw) < 6:
        return None
    for coding in ("utf-8", "utf-16-le", "utf-16-be"):
        if coding != "utf-8" and raw.count(0) * 3 < len(raw):
            continue
        text = raw.decode(coding, "ignore")
        shown = sum(character.isprintable() or character in "\n\t\r" for character in text)
        if text and shown >= 0.95 * len(text) and 2 * len(text.encode(coding)) >= len(raw):
            return text
    return None
