"""The words of a text, in the one form in which the index, questions and rules compare them, and the words that say little.

``split`` is the only splitter. The rules read ``words``, in which "don't" is one word; the index counts ``indexed_words``.
"""

from __future__ import annotations

import unicodedata

from ledger.domain.late import late
from ledger.english.porter import stem

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
