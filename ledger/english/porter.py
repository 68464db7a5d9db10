"""The stem of a word, by the algorithm of Porter (An algorithm for suffix stripping, 1980) exactly as SQLite's FTS5 has it.

The text index keeps a term for each word, and a question has to ask for the same term. FTS5 stems the bytes of UTF-8, so each
byte beyond ASCII is a consonant here too. FTS5 differs from the paper in two rules (``bli`` for ``abli``, and ``logi``), as
Porter's own program does, and leaves words of fewer than 3 and of more than 64 bytes alone. Snowball's "porter" and NLTK's
"original" have neither limit, and no library stems bytes.
"""

from __future__ import annotations

from functools import lru_cache

LEAST_BYTES, MOST_BYTES = 3, 64
"""The lengths of the words that FTS5 stems."""

_KINDS = bytes(ord("y" if letter == "y" else "v" if letter in "aeiou" else "c") for letter in map(chr, range(256)))

Endings = dict[bytes, list[tuple[bytes, bytes]]]


def _endings(pairs: str) -> Endings:
    """Return the endings of a step with their replacements, by the last letter but one, as FTS5 looks them up."""
    table: Endings = {}
    for ending, _, new in (pair.partition(">") for pair in pairs.split()):
        table.setdefault(ending[-2:-1].encode(), []).append((ending.encode(), new.encode()))
    return table


_DOUBLE = _endings(  # step 2
    "ational>ate tional>tion enci>ence anci>ance izer>ize logi>log bli>ble alli>al entli>ent eli>e ousli>ous"
    " ization>ize ation>ate ator>ate alism>al iveness>ive fulness>ful ousness>ous aliti>al iviti>ive biliti>ble"
)
_SINGLE = _endings("ical>ic ness> icate>ic iciti>ic ful> ative> alize>al")  # step 3
_LAST = _endings(  # step 4
    "al> ance> ence> er> ic> able> ible> ant> ement> ment> ent> ion> ou> ism> ate> iti> ous> ive> ize>"
)


@lru_cache(maxsize=65_536)
def stem(word: str) -> str:
    """Return the term under which the text index keeps a folded word. A text that is not one word is its own stem."""
    if not word.isalnum():
        return word
    letters = word.encode()
    if not LEAST_BYTES <= len(letters) <= MOST_BYTES:
        return word
    return _stem(letters).decode(errors="replace")  # a stem can end inside a character; the word is then in no question


def _stem(word: bytes) -> bytes:
    word = _without_inflection(_without_s(word))
    if word.endswith(b"y") and b"v" in _shape(word[:-1]):
        word = word[:-1] + b"i"
    word = _replaced(_replaced(word, _DOUBLE, 0), _SINGLE, 0)
    word = _replaced(word, _LAST, 1)
    return _without_e(word)


def _shape(word: bytes) -> bytes:
    """Return the letters as c (consonant) and v (vowel). A y is a vowel after a consonant."""
    shape = word.translate(_KINDS)
    while (at := shape.find(b"y")) >= 0:
        shape = shape[:at] + (b"v" if shape[max(at - 1, 0) : at] == b"c" else b"c") + shape[at + 1 :]
    return shape


def _measure(word: bytes) -> int:
    """Return Porter's m: the number of vowels, or runs of them, with a consonant behind."""
    return _shape(word).count(b"vc")


def _is_short(word: bytes) -> bool:
    """Return True for Porter's *o: consonant, vowel, consonant at the end, the last not w, x or y, as in "hop"."""
    return _shape(word).endswith(b"cvc") and not word.endswith((b"w", b"x", b"y"))


def _without_s(word: bytes) -> bytes:
    """Return a word without its plural (step 1a)."""
    if len(word) > 3 and word.endswith((b"ies", b"sses")) and word != b"sses":
        return word[:-2]
    return word[:-1] if word.endswith(b"s") and not word.endswith(b"ss") else word


def _without_inflection(word: bytes) -> bytes:
    """Return a word without ed and ing (step 1b), and with the e that they took ("hoping", "sized")."""
    if word.endswith(b"eed") and len(word) > 3:
        return word[:-1] if _measure(word[:-3]) > 0 else word
    for ending in (b"ed", b"ing"):
        start = word.removesuffix(ending)
        if start and start != word and b"v" in _shape(start):
            break
    else:
        return word
    if start.endswith((b"at", b"bl", b"iz")) and len(start) > 2:
        return start + b"e"
    if start[-1:] == start[-2:-1] and start[-1:] not in b"aeioulsz":
        return start[:-1]
    return start + b"e" if _measure(start) == 1 and _is_short(start) else start


def _replaced(word: bytes, endings: Endings, least: int) -> bytes:
    """Return a word with the first fitting ending replaced, if the measure of the rest is greater than ``least``."""
    for ending, new in endings.get(word[-2:-1], ()):
        start = word.removesuffix(ending)
        if start and start != word:
            fits = _measure(start) > least and (ending != b"ion" or start.endswith((b"s", b"t")))
            return start + new if fits else word
    return word


def _without_e(word: bytes) -> bytes:
    """Return a word without a silent e, and with one l for two (step 5)."""
    start = word[:-1]
    if word.endswith(b"e") and (_measure(start) > 1 or (_measure(start) == 1 and not _is_short(start))):
        word = start
    return word[:-1] if word.endswith(b"ll") and _measure(word[:-1]) > 1 else word
