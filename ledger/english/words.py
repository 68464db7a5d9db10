"""The words of a text in the form in which the index, questions and rules compare them; their stems, and words that are kin.

``split`` is the only splitter. The rules read ``words``, in which "don't" is one word; the index counts ``indexed_words``.

A stem is made by the algorithm of Porter (An algorithm for suffix stripping, 1980) exactly as SQLite's FTS5 has it. The text
index keeps a term for each word, and a question has to ask for the same term. FTS5 stems the bytes of UTF-8, so each byte beyond
ASCII is a consonant here too. FTS5 differs from the paper in two rules (``bli`` for ``abli``, and ``logi``), as Porter's own
program does, and leaves words of fewer than 3 and of more than 64 bytes alone. Snowball's "porter" and NLTK's "original" have
neither limit, and no library stems bytes.

A stored word stands for a word of a question if the two are nearly equal or of one family. Of two words that are nearly equal one
is the beginning of the other, or a slip of the hand lies between them. Words of one family (*allergic* and *allergy*, *pregnant*
and *pregnancy*) are made of one root by more endings than the stemmer takes off: the same root is left of both stems. The rule
knows no word, and takes some pairs that only begin alike for a family (*mother*, *moth*). So recall asks for a family where few
texts have the word itself. The endings were chosen on the words of two public sets of conversations, with the derivations of
MorphyNet as the truth (``ledger/docs/measured.md``).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from itertools import islice

from ledger.domain.late import late

_STOP_WORDS = """
    a about above after again all also am an and any are as at be because been before being below between both but by
    can could did do does doing down during each else few for from further get gets got had has have having he her here
    hers him his how i if in into is it its itself just let me mine more most my of off on once only or other our ours out
    over own per same shall she should so some such than that the their theirs them then there these they this those
    though through to too under until up upon us very was we were what when where whether which while who whom whose
    why will with within would you your yours im ive youre thats theres
"""
STOP_WORDS = frozenset(_STOP_WORDS.split())
"""English words that say nothing about a topic. The list is our own (ATOCore's is not known). Negations are a list of their own:
they turn a statement into its opposite."""

_NEGATIONS = """
    no not never none nobody nothing nor neither without cannot cant dont doesnt didnt wont wouldnt shouldnt isnt arent
    wasnt werent hasnt havent hadnt couldnt mustnt
"""
NEGATIONS = frozenset(_NEGATIONS.split())

_WORD = late(r"[^\W_]+")
_BETWEEN = late(r"[\W_]+")
_LETTERS = bytes(ord(chr(at).lower()) if chr(at).isalnum() else 32 for at in range(128)) + bytes(128)
# The apostrophe comes first in the pattern, so that the search jumps to it and only then looks at its neighbors.
_APOSTROPHE = late(r"['’](?<=[^\W_]['’])(?=[^\W_])|ʼ")
_UNSPACED = (  # scripts written without spaces: each of their characters is a word for the index
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u2fdf\u3005-\u3007\u3040-\u30ff\u3100-\u318f\u31a0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
_UNSPACED_CHARACTER = late(f"([{_UNSPACED}])")
_UNSPACED_RUN = late(f"[{_UNSPACED}]+|[^{_UNSPACED}]+")
_VOICED = "\u3099\u309a"  # these marks make another kana, so they are not dropped like accents


def folded(text: str) -> str:
    """Return a text in lower case without accents and compatibility forms, as words are compared."""
    if text.isascii():
        return text.lower()
    apart = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    return unicodedata.normalize("NFC", apart.translate(_UNACCENTED))


class _Unaccented(dict[int, int | None]):
    """A table of characters by number, accents as None, made at first use."""

    def __missing__(self, number: int) -> int | None:
        accent = unicodedata.combining(chr(number)) != 0 and chr(number) not in _VOICED
        self[number] = kept = None if accent else number
        return kept


_UNACCENTED = _Unaccented()


def split(text: str) -> list[str]:
    """Return the runs of letters and digits of a text, folded, in order.

    Every other mark, and the underscore, separates. A run of characters of a script without spaces is one word.
    """
    return _ascii(text) if text.isascii() else _runs(folded(text))


def words(text: str) -> list[str]:
    """Return the words of ``split``, without the apostrophes inside words: "don't" is "dont", "user's" is "users".

    Rules need the denial in one word. The index and questions split at the apostrophe, because FTS5 does, and a person who asks
    for "Ben" means "Ben's" too.
    """
    if text.isascii():
        return _ascii(_APOSTROPHE.sub("", text) if "'" in text else text)
    return _runs(_APOSTROPHE.sub("", folded(text)))


def indexed_words(text: str) -> list[str]:
    """Return the words of ``split``, of a script without spaces each character: the index cannot tell where its words end."""
    return _ascii(text) if text.isascii() else _WORD.findall(spaced(folded(text)))


def _ascii(text: str) -> list[str]:
    """Return the words of an ASCII text, four times as fast as by a pattern."""
    return text.encode().translate(_LETTERS).decode().split()


def _runs(text: str) -> list[str]:
    return [part for word in _WORD.findall(text) for part in _UNSPACED_RUN.findall(word)]


def spaced(text: str, sign: str = " ") -> str:
    """Return a folded text with a sign on both sides of each character of a script without spaces."""
    return text if text.isascii() else _UNSPACED_CHARACTER.sub(rf"{sign}\1{sign}", text)


def indexed(text: str) -> str:
    """Return a text as the index takes it: our words and no others.

    FTS5 leaves accents on all but Latin letters, and takes characters newer than its Unicode version, most emoji, for letters.
    """
    return text if text.isascii() else spaced(_BETWEEN.sub(" ", folded(text)))


def unspaced(word: str) -> bool:
    """Return True if a word of ``split`` is of a script without spaces."""
    return _UNSPACED_CHARACTER.match(word) is not None


def stems(text: str) -> frozenset[str]:
    """Return the stems of the text's words without stop words."""
    return frozenset(map(stem, set(words(text)) - STOP_WORDS))


# --- the stem of a word ----------------------------------------------------------------------------------------------


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


# --- words that are nearly equal -------------------------------------------------------------------------------------


LEAST_CHARS = 5
"""A shorter word is the beginning of too many words, and one letter makes it another word."""

HEAD_CHARS = 3
"""Nearly equal words have these first letters in common, so that an index can be asked for them."""

MOST = 8
"""The most stored words that stand for a word of a question."""


def is_nearly(left: str, right: str) -> bool:
    """Return True if two words of at least five letters begin alike to the end of the shorter one, or are one edit apart."""
    if min(len(left), len(right)) < LEAST_CHARS or left[:HEAD_CHARS] != right[:HEAD_CHARS]:
        return False
    return left.startswith(right) or right.startswith(left) or is_one_edit(left, right)


def is_one_edit(word: str, other_word: str) -> bool:
    """Return True if one letter is missing, added or changed, or two neighboring letters are exchanged."""
    start = 0
    while start < min(len(word), len(other_word)) and word[start] == other_word[start]:
        start += 1
    end = 0
    while end < min(len(word), len(other_word)) - start and word[-1 - end] == other_word[-1 - end]:
        end += 1
    left, right = word[start : len(word) - end], other_word[start : len(other_word) - end]
    return max(len(left), len(right)) == 1 or (len(left) == 2 and left == right[::-1])


def nearest(word: str, stored: Iterable[str]) -> tuple[str, ...]:
    """Return the stored words that are nearly equal to a word: those of a similar length first, then by the alphabet."""
    near = {candidate for candidate in stored if candidate != word and is_nearly(word, candidate)}
    return tuple(sorted(near, key=lambda candidate: (abs(len(candidate) - len(word)), candidate))[:MOST])


# --- families --------------------------------------------------------------------------------------------------------

ROOT_CHARS = 4
"""The least letters of a root. All stems of a family have their first four letters in common."""

_SHORT = ["e", "er", "ist", "ship", "ment", "less", "hood", "dom", "li", "ful", "ism", "abl", "ou", "eti"]
"""Endings, of stems, that leave a root of at least four letters. Every other ending leaves one of at least five."""

_LONG = ["i", "a", "al", "ic", "an", "at", "ion", "or", "ari", "iv", "ag", "ur", "ifi"]
_ENDINGS = sorted([*_SHORT, *_LONG], key=lambda ending: (-len(ending), ending))
_SOUNDS = (("anc", "ant"), ("enc", "ent"), ("ac", "at"), ("ipt", "ib"), ("orpt", "orb"), ("f", "v"), ("s", "d"))
"""Ends of roots that are one sound: preg*nanc*y, subs*cript*ion, beli*ef*, deci*s*ion."""

_AGAIN = ("", "e", "s", "ed")  # endings that make a word of a stem again


def are_kin(left: str, right: str) -> bool:
    """Return True if two words, or their stems, are of one family."""
    return root(stem(left)) == root(stem(right))


def kin_of(word: str, stored: Iterable[str]) -> list[str]:
    """Return a word for each of the stored stems that is of the family of a word and has another stem.

    The index is asked for words, and a stem can have another stem (*increas*): then an ending is added.
    """
    own = stem(word)
    family = root(own)
    stems = sorted(stored_stem for stored_stem in stored if stored_stem != own and root(stored_stem) == family)
    forms = ((form for ending in _AGAIN if stem(form := kin + ending) == kin) for kin in stems)
    return [form for each in forms for form in islice(each, 1)]


@lru_cache(maxsize=16_384)
def root(stemmed: str) -> str:
    """Return the root of a stem. A stem of another script, of few letters or with digits is its own root."""
    left, before = stemmed, ""
    while left != before:
        before = left
        for ending in _ENDINGS:
            least = ROOT_CHARS if ending in _SHORT else ROOT_CHARS + 1
            if left.endswith(ending) and len(left) - len(ending) >= least:
                left = left[: -len(ending)]
                break
        if len(left) > ROOT_CHARS and left[-1] == left[-2] and left[-1] not in "sl":
            left = left[:-1]  # swim(m)er
    for end, same in _SOUNDS:
        if left.endswith(end) and len(left) > max(ROOT_CHARS, len(end) + 2):
            return left[: -len(end)] + same
    return left
