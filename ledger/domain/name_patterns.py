"""The patterns of session names: sessions that a ledger ignores, and sessions that a ledger only reads (stateless)."""

from __future__ import annotations

import re
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import force_setattr

from ledger.domain.errors import RejectedError

MAX_PATTERNS = 1_000
"""The most patterns of both kinds together. Our own number: a name is compared with each pattern."""

ALWAYS_IGNORED = "heartbeat"
"""The session of this name is always ignored, because a heartbeat is no conversation."""

_TOKEN = re.compile(r"\*+|[^*]", re.DOTALL)


class NamePatterns(Struct, frozen=True):
    """Globs over the names of sessions.

    ``**`` matches any text, ``*`` any text without a colon, and every other character itself, case included. A pattern has to
    match the whole name. More than two successive stars match any text.

    Raises:
        RejectedError: A value is not a list or tuple of texts, a pattern is blank, or there are more than ``MAX_PATTERNS``.
    """

    ignored: tuple[str, ...] = ()
    stateless: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for kind in ("ignored", "stateless"):
            force_setattr(self, kind, _checked(kind, getattr(self, kind)))
        if (count := len(self.ignored) + len(self.stateless)) > MAX_PATTERNS:
            message = f"{count:,} session patterns were given; at most {MAX_PATTERNS:,} are allowed"
            raise RejectedError(message, rule="size", limit=MAX_PATTERNS, requested=count)

    def kind(self, name: str) -> str:
        """Return "ignored", "stateless" or "" for a session with this name; "ignored" comes before "stateless"."""
        if name == ALWAYS_IGNORED or any(fits(pattern, name) for pattern in self.ignored):
            return "ignored"
        return "stateless" if any(fits(pattern, name) for pattern in self.stateless) else ""


def _checked(kind: str, patterns: object) -> tuple[str, ...]:
    if not isinstance(patterns, list | tuple):
        raise RejectedError(f"{kind} session patterns are a list of texts, not {type(patterns).__name__}")
    for pattern in patterns:
        if not isinstance(pattern, str):
            raise RejectedError(f"a session pattern is text (a str), not {type(pattern).__name__}")
        if not pattern.strip():
            raise RejectedError(f"one of the {kind} session patterns is blank; a pattern has at least one character")
    return tuple(patterns)


def fits(pattern: str, name: str) -> bool:
    """Return True if a pattern matches a name.

    The bits of one number are the places in the name that the pattern can have reached so far. So the pattern is read only once,
    without backtracking: the time grows with the length of the pattern times the length of the name divided by 64.
    """
    tokens = _tokens(pattern)
    if tokens and tokens[0][0] != "*" and tokens[0] != name[:1]:
        return False
    every = (1 << len(name) + 1) - 1
    where = _where(name)
    within = every >> 1 & ~where.get(":", 0)  # the characters that a single star may pass
    places = 1
    for token in tokens:
        if token == "*":
            places |= ((places & within) + within) ^ within
        elif token == "**":
            places = every & -(places & -places)
        else:
            places = (places & where.get(token, 0)) << 1
        if not places:
            return False
    return bool(places >> len(name))


@lru_cache(maxsize=2 * MAX_PATTERNS)
def _tokens(pattern: str) -> tuple[str, ...]:
    return tuple(token[:2] for token in _TOKEN.findall(pattern))


@lru_cache(maxsize=16)
def _where(name: str) -> dict[str, int]:
    """Return the places of each character of a name, as the bits of a number."""
    places: dict[str, bytearray] = {}
    for at, character in enumerate(name):
        bits = places.setdefault(character, bytearray(len(name) // 8 + 1))
        bits[at // 8] |= 1 << at % 8
    return {character: int.from_bytes(bits, "little") for character, bits in places.items()}
