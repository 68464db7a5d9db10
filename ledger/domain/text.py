"""What the ledger does to text: normal forms, keyed fingerprints, stems, checks on what is given."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from math import isfinite
from types import MappingProxyType
from typing import Any, NoReturn, TypeVar, cast

from ledger.domain import secrecy
from ledger.domain.errors import RejectedError

_T = TypeVar("_T")
_Path = tuple["_Path | None", str | int]

MIN_STEM_CHARS = 3
"""A stem keeps at least this many characters (SEEDS 1b: `red`, `bus`, `sing`, `being` stay unchanged)."""

MAX_JSON_DEPTH = 64
"""Free JSON nests at most this deep; a scalar has depth 0. The number is ours, well inside every parser's own limit."""

MAX_JSON_VALUES = 1_000_000
"""Free JSON holds at most this many values. Ours: more could not fit in an event, and lists that share their
members could otherwise stand for more values than any machine can visit."""

REASON_BYTES = 16 * 1024
LIST_ITEMS = 2_000  # of one list in one event; a longer one is spread over several events of the same append
NAME_BYTES = 1_024
TAGS = 10  # ATOCore

_STOP_WORDS = """
    a about above after again all also am an and any are as at be because been before being below between both but by
    can could did do does doing down during each else few for from further get gets got had has have having he her here
    hers him his how i if in into is it its just let me mine more most my of off on once only or other our ours out
    over own per same shall she should so some such than that the their theirs them then there these they this those
    though through to too under until up upon us very was we were what when where whether which while who whom whose
    why will with within would you your yours im ive youre thats theres
"""
STOP_WORDS = frozenset(_STOP_WORDS.split())
"""English words that say nothing about a topic. The list is ours (ATOCore's is not known). Negations (no, not, never,
don't) are not in it: they turn a statement into its opposite."""

_WORD = re.compile(r"[^\W_]+")
_LETTERS = bytes(ord(chr(at).lower()) if chr(at).isalnum() else 32 for at in range(128)) + bytes(128)
_APOSTROPHE = re.compile(r"(?<=[^\W_])['’](?=[^\W_])|ʼ")
_ASCII_APOSTROPHE = re.compile(
    r"'(?<=[^\W_]')(?=[^\W_])"
)  # the sign first: it is looked for, and what is around it then
_MARK = re.compile("[\u0300-\u036f]+")
_SURROGATE = re.compile("[\ud800-\udfff]")
_SHOWN_KEY_CHARS = 40
_COINED = re.compile(r"[a-z][a-z0-9_-]{0,63}")
_DOUBLED = ("bb", "dd", "gg", "mm", "nn", "pp", "rr", "tt")  # not ff, ll, ss, zz: those mostly end the word itself
_VOWEL = re.compile(r"[aeiouy]|[^\x00-\x7f]")


# --- normal forms and fingerprints ---


def _fold(text: str) -> str:
    # Folding case can take a composed letter apart, so it is composed again; canonically equal texts stay equal.
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())


def lowered(text: str) -> str:
    """In lower case, but for a text with a secret in it: a secret is known by its case, and the guards still look for it."""
    lower = text.lower()
    return text if lower != text and secrecy.redacted(text) != text else lower


def normalise(text: str) -> str:
    """The form under which two texts count as the same: NFC, case folded, trimmed, each run of whitespace one space."""
    return " ".join((text.lower() if text.isascii() else _fold(text)).split())


def fingerprint(secret: bytes, *parts: str | None) -> int:
    """A keyed 64-bit digest of the parts, signed so that it fits an SQLite INTEGER.

    The first 8 bytes of HMAC-SHA256 over the parts, each behind its length in characters, so that ("ab", "c") differs from
    ("a", "bc") and None from "". Total: a lone surrogate is digested too.
    """
    joined = "".join(["-" if part is None else f"{len(part)}:{part}" for part in parts])
    return int.from_bytes(_hmac(secret, joined.encode("utf-8", "surrogatepass"))[:8], "big", signed=True)


def _hmac(secret: bytes, data: bytes) -> bytes:
    """HMAC-SHA256 (RFC 2104) with the padded key hashed once: what ``hmac.digest`` gives, in a third of its time."""
    inner, outer = _primed(secret)
    inner, outer = inner.copy(), outer.copy()
    inner.update(data)
    outer.update(inner.digest())
    return bytes(outer.digest())


@lru_cache(maxsize=16)
def _primed(secret: bytes) -> tuple[Any, Any]:
    key = (secret if len(secret) <= 64 else sha256(secret).digest()).ljust(64, b"\0")
    return sha256(bytes(byte ^ 0x36 for byte in key)), sha256(bytes(byte ^ 0x5C for byte in key))


def keyed_digest(secret: bytes, data: bytes) -> bytes:
    """The first 16 bytes of HMAC-SHA256: a digest of user text that says nothing to whoever lacks the secret."""
    return _hmac(secret, data)[:16]


# --- words and stems ---


def words(text: str) -> list[str]:
    """The runs of letters and digits, case folded, in order.

    An apostrophe inside a word is dropped ("don't" is "dont", "user's" is "users"), as are combining accents that have
    no composed letter; every other mark, and the underscore, separates.
    """
    if text.isascii():
        return ascii_words(_ASCII_APOSTROPHE.sub("", text) if "'" in text else text)
    return _WORD.findall(_MARK.sub("", _APOSTROPHE.sub("", _fold(text))))


def ascii_words(text: str) -> list[str]:
    """The runs of letters and digits of a text of ASCII alone, in lower case; four times as fast as a pattern."""
    return text.encode().translate(_LETTERS).decode().split()


@lru_cache(maxsize=16_384)
def stem(word: str) -> str:
    """The word without a plural or third-person s, then without ing or ed (SEEDS 1b, the light stem of matcher v2).

    Unchanged where fewer than three characters or no vowel would remain (red, sing, being, string), and at -ss, -us,
    -is and -eed, where the ending belongs to the word (class, bus, basis, speed). A consonant that is only doubled
    before the ending goes too, so that "preferred" meets "prefers".
    """
    if word.endswith("s") and not word.endswith(("ss", "us", "is")) and len(word) > MIN_STEM_CHARS:
        word = word[:-1]
    if word.endswith("ing"):
        return _uninflected(word, word[:-3])
    if word.endswith("ed") and not word.endswith("eed"):
        return _uninflected(word, word[:-2])
    return word


def _uninflected(word: str, rest: str) -> str:
    if len(rest) < MIN_STEM_CHARS or not _VOWEL.search(rest):
        return word
    return rest[:-1] if len(rest) > MIN_STEM_CHARS and rest.endswith(_DOUBLED) else rest


def stems(text: str) -> frozenset[str]:
    """The stems of the text's words, stop words left out."""
    return frozenset(map(stem, set(words(text)) - STOP_WORDS))


# --- checks on what callers give ---


def check_plain(what: str, *given: object) -> None:
    """``RejectedError`` where one of these is async: nobody would wait for its answer."""
    from inspect import isasyncgenfunction, iscoroutinefunction

    for each in given:
        calls = (each, getattr(type(each), "__call__", None))  # noqa: B004 - of an object, the method
        if any(iscoroutinefunction(call) or isasyncgenfunction(call) for call in calls):
            name = getattr(each, "__qualname__", None) or type(each).__name__
            short = name.rpartition(".")[2]
            raise RejectedError(
                f"{what} is a plain function, and {name} is async; wrap it: def plain(given): return asyncio.run({short}(given))",
                rule="async",
            )


def check_text(name: str, text: object, *, max_bytes: int = NAME_BYTES, blank_allowed: bool = False) -> str:
    """The text exactly as given, never normalised: NUL, bidirectional marks and emoji are kept.

    Raises RejectedError where it is not a str, holds a lone surrogate, is blank (unless allowed) or takes more than
    ``max_bytes`` bytes of UTF-8 (rule "size").
    """
    if not isinstance(text, str):
        raise RejectedError(f"{name} must be text (a str), not {type(text).__name__}")
    size_bytes = len(text) if text.isascii() else _utf8_size(name, text)
    if not blank_allowed and not text.strip():
        raise RejectedError(f"{name} is blank; it needs at least one character that is not whitespace")
    if size_bytes > max_bytes:
        message = f"{name} takes {size_bytes:,} bytes of UTF-8; at most {max_bytes:,} are allowed"
        raise RejectedError(message, rule="size", limit=max_bytes, requested=size_bytes)
    return str.__str__(text)


def _utf8_size(name: str, text: str) -> int:
    try:
        return len(text.encode())
    except UnicodeEncodeError as error:
        code, at = ord(text[error.start]), error.start
    raise RejectedError(
        f"{name} holds a lone surrogate (U+{code:04X}) at character {at}, which is half of a character and has no "
        "UTF-8 form; give whole characters"
    )


def plural(name: str, given: object, allowed: Sequence[str] = ()) -> tuple[str, ...]:
    """Any number of texts; a bare string is refused, and what a closed set does not have."""
    if isinstance(given, tuple) and not given:
        return ()
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise RejectedError(f"{name} takes several, as in {name}=[…], and {given!r:.40} is not a list or a tuple")
    found = tuple(given)
    for each in found:
        if not isinstance(each, str):
            raise RejectedError(f"{name} takes texts, and {each!r:.40} is none")
        one_of(name, each, allowed)
    return found


def texts(**given: object) -> None:
    """Refuse what is no text where one is asked for; None is nothing asked for."""
    for name, each in given.items():
        if each is not None and not isinstance(each, str):
            raise RejectedError(f"{name} is a text, and {each!r:.40} is none")


def flags(**given: object) -> None:
    """Refuse what is neither true nor false where one of them is asked for."""
    for name, each in given.items():
        if not isinstance(each, bool):
            raise RejectedError(f"{name} must be true or false, not {each!r:.40}")


def one_of(name: str, given: object, allowed: Sequence[str]) -> None:
    if allowed and given not in allowed:
        raise RejectedError(f"{name} cannot be {given!r:.40}; there are: {', '.join(allowed)}")


def check_reason(name: str, text: str) -> str:
    return check_text(name, text, max_bytes=REASON_BYTES, blank_allowed=True) if text else ""


def check_word(name: str, word: str, known: Sequence[str], synonyms: Mapping[str, str] = MappingProxyType({})) -> str:
    """A word that is known, by itself or by a synonym, or another of lower-case letters, digits, _ and -."""
    if word in known:
        return word
    if not isinstance(word, str) or _COINED.fullmatch(word) is None:
        raise RejectedError(
            f"{name} is a word of lower-case letters, digits, _ and -, up to 64, and {word!r:.40} is not; "
            f"known: {', '.join(known)}"
        )
    return synonyms.get(word, word)


def text_list(name: str, given: Iterable[str], *, items: int = LIST_ITEMS) -> tuple[str, ...]:
    """Texts without repeats, in the order given; a bare one is a list of one."""
    if isinstance(given, str):
        given = (given,)
    if not isinstance(given, Iterable):
        raise RejectedError(f"{name} must be a text or several, not {type(given).__name__}")
    found = tuple(dict.fromkeys(check_text(f"each of {name}", each) for each in given))
    if len(found) > items:
        raise RejectedError(
            f"{name} may be {items} at the most, and there are {len(found)}", limit=items, requested=len(found)
        )
    return found


def tag_list(given: Iterable[str]) -> tuple[str, ...]:
    """Tags in lower case, 10 at the most."""
    labels = [
        lowered(each.strip()) if isinstance(each, str) else each
        for each in ((given,) if isinstance(given, str) or not isinstance(given, Iterable) else given)
    ]
    return text_list("tags", labels, items=TAGS)


def check_json(name: str, value: _T) -> _T:
    """The value as given, once it is sure that it is JSON which every reader reads alike.

    Allowed are None, bool, str, float, int within signed 64 bits, and dicts and lists of these. Raises RejectedError naming
    the path for NaN and infinities, larger ints, lone surrogates, keys that are not text, any other type, nesting
    deeper than 64 levels (rule "depth") and more than a million values (rule "size"). Never recurses.
    """
    pending: list[tuple[_Path, int, object]] = [((None, name), 0, value)]
    count = 1
    while pending:
        path, depth, item = pending.pop()
        if not isinstance(item, dict | list):
            _check_scalar(path, item)
            continue
        count += len(item)
        if depth >= MAX_JSON_DEPTH:
            _refuse(path, "nests too deep", f"at most {MAX_JSON_DEPTH} levels", rule="depth", limit=MAX_JSON_DEPTH)
        if count > MAX_JSON_VALUES:
            _refuse((None, name), "holds too many values", "at most a million", rule="size", limit=MAX_JSON_VALUES)
        pending.extend(_members(path, depth + 1, item))
    return value


def _members(path: _Path, depth: int, item: dict[object, object] | list[object]) -> Iterator[tuple[_Path, int, object]]:
    if isinstance(item, list):
        for index, member in enumerate(item):
            yield (path, index), depth, member
        return
    for key, member in item.items():
        if type(key) is not str:
            _refuse(path, f"has a key of type {type(key).__name__}", "keys are text")
        if not _whole(key):
            _refuse(path, "has a key with a lone surrogate", "keys are whole characters")
        yield (path, key), depth, member


def _check_scalar(path: _Path, item: object) -> None:
    # Exact types, because the encoder takes no subclass of them.
    kind = type(item)
    if kind is str:
        if not _whole(str(item)):
            _refuse(path, "holds a lone surrogate, half of a character", "text of whole characters")
    elif kind is int:
        if not -(2**63) <= cast(int, item) < 2**63:
            _refuse(path, "is an int beyond 64 bits", "-2**63 to 2**63 - 1; give larger numbers as text")
    elif kind is float:
        if not isfinite(cast(float, item)):
            _refuse(path, f"is {item}", "finite numbers or null")
    elif item is not None and kind is not bool:
        _refuse(path, f"is of type {kind.__name__}", "dict, list, str, int, float, bool and None")


def _whole(text: str) -> bool:
    return text.isascii() or not _SURROGATE.search(text)


def _refuse(path: _Path, wrong: str, allowed: str, *, rule: str = "validation", limit: int | None = None) -> NoReturn:
    raise RejectedError(f"{_shown(path)} {wrong}; allowed: {allowed}", rule=rule, limit=limit)


def _shown(path: _Path) -> str:
    steps: list[str] = []
    here: _Path | None = path
    while here is not None:
        here, step = here
        name = here is None  # ours, and shown whole
        steps.append(f"[{step}]" if isinstance(step, int) else step if name else f".{step[:_SHOWN_KEY_CHARS]}")
    return "".join(reversed(steps)).encode("utf-8", "backslashreplace").decode()
