"""The text functions: normal forms, keyed digests, checks of arguments, and texts made harmless for display."""

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

MAX_JSON_DEPTH = 64
"""Free JSON nests at most this deep; a scalar has depth 0. The number is our choice, well inside every parser's own limit."""

MAX_JSON_VALUES = 1_000_000
"""Free JSON holds at most this many values (our choice). More could not fit in an event, and lists that share their
members could otherwise stand for more values than any machine can visit."""

REASON_BYTES = 16 * 1024
LIST_ITEMS = 2_000  # of one list in one event; a longer list is spread over several events of the same append
NAME_BYTES = 1_024
TAGS = 10  # as in ATOCore
COMMAND_PARTS, COMMAND_CHARS = 100, 4_096  # of a command as a model, the most parts and the longest part

_SURROGATE = re.compile("[\ud800-\udfff]")
_SHOWN_KEY_CHARS = 40
_SHOWN_STEPS = 8  # of a path in a message
_COINED = re.compile(r"[a-z][a-z0-9_-]{0,63}")

# --- normal forms and fingerprints ---


def _fold(text: str) -> str:
    # Folding case can take a composed letter apart, so the text is composed again: canonically equal texts stay equal.
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())


def lowered(text: str) -> str:
    """Return a text in lower case, but a text with a secret unchanged: the guards recognise a secret by its case."""
    lower = text.lower()
    return text if lower != text and secrecy.redacted(text) != text else lower


def normalise(text: str) -> str:
    """Return the form under which two texts count as the same: NFC, case folded, trimmed, each run of whitespace one space."""
    return " ".join((text.lower() if text.isascii() else _fold(text)).split())


def fingerprint(secret: bytes, *parts: str | None) -> int:
    """Return a keyed 64-bit digest of the parts, signed so that it fits an SQLite INTEGER.

    The digest is the first 8 bytes of HMAC-SHA256 over the parts, each behind its length in characters, so that ("ab", "c")
    differs from ("a", "bc") and None from "". A lone surrogate is digested too.
    """
    joined = "".join(["-" if part is None else f"{len(part)}:{part}" for part in parts])
    return int.from_bytes(_hmac(secret, joined.encode("utf-8", "surrogatepass"))[:8], "big", signed=True)


def _hmac(secret: bytes, data: bytes) -> bytes:
    """Return the HMAC-SHA256 (RFC 2104) of data. The padded key is hashed only once: a third of the time of ``hmac.digest``."""
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
    """Return the first 16 bytes of HMAC-SHA256. Without the secret the digest reveals nothing about the data."""
    return _hmac(secret, data)[:16]


def name_form(name: str) -> str:
    """Return a name without differences in case and white space; names with the same form mean the same project."""
    return " ".join(name.split()).casefold()


# --- words of messages ---


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, which is the plural unless the number is 1, as "1 memory" and "1,200 memories"."""
    if number == 1:
        return f"1 {noun}"
    plural = f"{noun[:-1]}ies" if noun.endswith("y") and noun[-2] not in "aeiou" else f"{noun}s"
    return f"{number:,} {plural}"


# --- checks of arguments ---


def check_plain(what: str, *given: object) -> None:
    """Refuse async functions, whose results nothing would await.

    Args:
        what: The name of the argument, for the message.
        *given: The functions or callable objects.

    Raises:
        RejectedError: One of them is async.
    """
    from inspect import isasyncgenfunction, iscoroutinefunction

    for function in given:
        calls = (function, getattr(type(function), "__call__", None))  # noqa: B004 - of an object, the method
        if any(iscoroutinefunction(call) or isasyncgenfunction(call) for call in calls):
            name = getattr(function, "__qualname__", None) or type(function).__name__
            short = name.rpartition(".")[2]
            raise RejectedError(
                f"{what} is a plain function, and {name} is async; wrap it: def plain(value): return asyncio.run({short}(value))",
                rule="async",
            )


def check_text(name: str, text: object, *, max_bytes: int = NAME_BYTES, blank_allowed: bool = False) -> str:
    """Return the text exactly as given, never normalised: NUL, bidirectional marks and emoji are kept.

    Raises:
        RejectedError: The text is not a str, holds a lone surrogate, is blank (unless allowed) or takes more than ``max_bytes``
            bytes of UTF-8 (rule "size").
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


def plural(name: str, values: object, allowed: Sequence[str] = ()) -> tuple[str, ...]:
    """Return several texts as a tuple.

    Raises:
        RejectedError: A bare string, a value that is not a text, or a text that is not among ``allowed``.
    """
    if isinstance(values, tuple) and not values:
        return ()
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise RejectedError(f"{name} takes several, as in {name}=[…], and {values!r:.40} is not a list or a tuple")
    items = tuple(values)
    for item in items:
        if not isinstance(item, str):
            raise RejectedError(f"{name} takes texts, and {item!r:.40} is not a text")
        one_of(name, item, allowed)
    return items


def texts(**arguments: object) -> None:
    """Refuse an argument that is neither a text nor None."""
    for name, value in arguments.items():
        if value is not None and not isinstance(value, str):
            raise RejectedError(f"{name} must be a text, but {value!r:.40} was given")


def flags(**arguments: object) -> None:
    """Refuse an argument that is neither True nor False."""
    for name, value in arguments.items():
        if not isinstance(value, bool):
            raise RejectedError(f"{name} must be true or false, not {value!r:.40}")


def one_of(name: str, value: object, allowed: Sequence[str]) -> None:
    if allowed and value not in allowed:
        raise RejectedError(f"{name} cannot be {value!r:.40}; there are: {', '.join(allowed)}")


def check_reason(name: str, text: str) -> str:
    return check_text(name, text, max_bytes=REASON_BYTES, blank_allowed=True) if text else ""


def check_word(name: str, word: str, known: Sequence[str], synonyms: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return a known word, or the word that it is a synonym of, or a new word of lower-case letters, digits, _ and -."""
    if word in known:
        return word
    if not isinstance(word, str) or _COINED.fullmatch(word) is None:
        raise RejectedError(
            f"{name} must be a word of up to 64 lower-case letters, digits, _ and -, but {word!r:.40} was given; "
            f"known: {', '.join(known)}"
        )
    return synonyms.get(word, word)


def text_list(name: str, values: Iterable[str], *, items: int = LIST_ITEMS) -> tuple[str, ...]:
    """Return texts without repeats, in the order given. A bare text is a list of one."""
    if isinstance(values, str):
        values = (values,)
    if not isinstance(values, Iterable):
        raise RejectedError(f"{name} must be a text or a list of texts, not {type(values).__name__}")
    kept = tuple(dict.fromkeys(check_text(f"each of {name}", item) for item in values))
    if len(kept) > items:
        raise RejectedError(
            f"{name} may have at most {items} texts, but {len(kept)} were given", limit=items, requested=len(kept)
        )
    return kept


def tag_list(tags: Iterable[str]) -> tuple[str, ...]:
    """Return tags in lower case, at most 10."""
    labels = [
        lowered(tag.strip()) if isinstance(tag, str) else tag
        for tag in ((tags,) if isinstance(tags, str) or not isinstance(tags, Iterable) else tags)
    ]
    return text_list("tags", labels, items=TAGS)


def check_json(name: str, value: _T) -> _T:
    """Return the value unchanged if every reader reads it alike as JSON.

    Allowed are None, bool, str, float, int within signed 64 bits, and dicts and lists of these. The check never recurses.

    Raises:
        RejectedError: NaN and infinities, larger ints, lone surrogates, keys that are not text, any other type, nesting deeper
            than 64 levels (rule "depth") or more than a million values (rule "size"). The message names the path.
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
    rest: _Path | None = path
    while rest is not None:
        rest, step = rest
        name = rest is None  # the argument's own name, shown in full
        steps.append(f"[{step}]" if isinstance(step, int) else step if name else f".{step[:_SHOWN_KEY_CHARS]}")
    if len(steps) > _SHOWN_STEPS:
        steps[_SHOWN_STEPS // 2 : -_SHOWN_STEPS // 2] = ["…"]
    return "".join(reversed(steps)).encode("utf-8", "backslashreplace").decode()


def problem_of_command(command: object) -> str:
    """Return what is wrong with a command as a model, or ""."""
    if isinstance(command, str) or not isinstance(command, Sequence) or not 0 < len(command) <= COMMAND_PARTS:
        return 'it has to be a list of texts, the program and its arguments, such as ["ollama", "run", "qwen3"]'
    for part in command:
        if not isinstance(part, str) or "\0" in part or len(part) > COMMAND_CHARS:
            return f"a part of it is no text of at most {COMMAND_CHARS:,} characters, or has a NUL"
    program = command[0]
    if not program.strip() or ("/" in program and not program.startswith("/")):
        return f"the program is a name on the PATH or a whole path, and {program!r:.100} is neither"
    return ""


# --- texts that other programs show ----------------------------------------------------------------------------------


# Control characters (C0, DEL, C1), shapeless characters, bidirectional marks, line separators, tags, surrogates.
# The caller handles newline and tab; the joiners U+200C and U+200D stay, because scripts and emoji need them.
UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u2028-\u202f"
    "\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff\ud800-\udfff]"
)
FENCE = 3  # the least backticks of a fence
_BLANK = re.compile(r"[ \t\n]+")
_TICKS = re.compile("`+")
_NOT_PLAIN = re.compile(r"(?<=[^\W_])[-_.](?=[^\W_])|[^\W_]| |(.)", re.DOTALL)


def escape(unsafe: re.Match[str]) -> str:
    return unsafe.group().encode("unicode_escape").decode("ascii")


def one_line(text: str) -> str:
    """Return the text as one harmless line."""
    if text.isascii() and text.isprintable() and "  " not in text:
        return text.strip()
    return UNSAFE.sub(escape, _BLANK.sub(" ", text.replace("\r\n", "\n")).strip())


def fenced(lines: list[str], label: str) -> str:
    """Return lines as a Markdown code block that no line can end: its fence is longer than any run of backticks in the lines."""
    fence = "`" * fence_width(lines)
    return "\n".join([fence + label, *lines, fence])


def fence_width(lines: list[str]) -> int:
    """Return the number of backticks of a fence that none of the lines can end."""
    longest = max((len(run) for line in lines if "`" in line for run in _TICKS.findall(line)), default=0)
    return max(FENCE, longest + 1)


def mermaid_label(text: str) -> str:
    """Return a label for Mermaid: letters, digits, blanks and - _ . between letters stay, all else is a character code."""
    return _NOT_PLAIN.sub(lambda character: f"#{ord(character[1])};" if character[1] else character[0], one_line(text))
