"""Session patterns: which sessions a ledger takes nothing in of (ignored), and which it only reads (stateless)."""

from __future__ import annotations

import re
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import force_setattr

from ledger.domain.errors import RejectedError

MAX_PATTERNS = 1_000
"""Of both kinds together. Ours: a name is held against each of them."""

ALWAYS_IGNORED = "heartbeat"
"""The session of this name is ignored whatever the patterns say (SEEDS 3c)."""

_TOKEN = re.compile(r"\*+|[^*]", re.DOTALL)


class Patterns(Struct, frozen=True):
    """Globs over the names of sessions: ``**`` is any text, ``*`` any without a colon, all else itself, case and all.

    A pattern holds for the whole name. More than two stars in a row are any text, as ``**`` followed by ``*`` is. Raises
    RejectedError for what is not a list or tuple of texts, for a blank one, and for more than ``MAX_PATTERNS``.
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
        """What a session of this name is: "ignored", "stateless", or "" for neither. Ignored is the stronger."""
        if name == ALWAYS_IGNORED or any(fits(pattern, name) for pattern in self.ignored):
            return "ignored"
        return "stateless" if any(fits(pattern, name) for pattern in self.stateless) else ""


def _checked(kind: str, given: object) -> tuple[str, ...]:
    if not isinstance(given, list | tuple):
        raise RejectedError(f"{kind} session patterns are a list of texts, not {type(given).__name__}")
    for pattern in given:
        if not isinstance(pattern, str):
            raise RejectedError(f"a session pattern is text (a str), not {type(pattern).__name__}")
        if not pattern.strip():
            raise RejectedError(
                f"among the {kind} session patterns is a blank one; give at least one character, or none"
            )
    return tuple(given)


def fits(pattern: str, name: str) -> bool:
    """Whether a pattern holds for a name.

    All places in the name that the pattern can have come to are kept at once, as the bits of one number, so that it is
    gone through once and nothing is ever tried again: the time grows with the pattern, times the name by the word.
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
    """For each character of a name the places where it stands, as bits."""
    places: dict[str, bytearray] = {}
    for at, character in enumerate(name):
        bits = places.setdefault(character, bytearray(len(name) // 8 + 1))
        bits[at // 8] |= 1 << at % 8
    return {character: int.from_bytes(bits, "little") for character, bits in places.items()}
