"""The policy in effect for a user: how much an interaction reinforces, by which matcher, and what runs by itself."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from ledger.domain import confidence as rules
from ledger.domain.errors import RejectedError
from ledger.domain.matching import DEFAULT_MATCHER, MATCHERS


class Policy(Struct, frozen=True):
    """Gains are millionths; ``max_matches`` is how many memories one interaction reinforces at the most.

    ``user_chars`` and ``memory_chars`` bound what may be stored: characters of active memories of the kind user_profile, and
    of all other kinds; 0 is no bound (rubino has 1,375 and none). ``threats`` is what happens to a memory in which a scanner
    finds an order to the model or the like, ``secrets`` what to a password or key in any text. ``extracted`` is the status
    of what a model extracts; what an assistant said itself is always a candidate, of at most ``claim_confidence``.
    """

    matcher: str = DEFAULT_MATCHER
    gain: int = rules.REINFORCEMENT_DELTA
    echo_gain: int = rules.REINFORCEMENT_DELTA
    max_matches: int = rules.MATCHES_A_TURN
    extract: bool = True
    expire: bool = True
    user_chars: int = 0
    memory_chars: int = 0
    threats: str = "refuse"
    secrets: str = "redact"
    extracted: str = "candidate"
    claim_confidence: int = rules.CLAIM_CONFIDENCE
    merge: bool = True
    conflicts: bool = True
    consolidate: bool = True


MILLIONTHS = ("gain", "echo_gain", "claim_confidence")
CHOICES = {
    "matcher": tuple(MATCHERS),
    "threats": ("refuse", "quarantine", "off"),
    "secrets": ("redact", "refuse", "off"),
    "extracted": ("candidate", "active"),
}


def checked(changes: dict[str, object]) -> dict[str, Any]:
    """Parameters as an event holds them; gains are given as decimals (0.02)."""
    known = Policy.__struct_fields__
    unknown = sorted(set(changes) - set(known))
    if unknown:
        raise RejectedError(f"no policy parameter is called {unknown[0]!r:.60}; there are: {', '.join(known)}")
    return {name: _checked(name, value) for name, value in changes.items()}


def _checked(name: str, value: object) -> object:
    if name in MILLIONTHS:
        return rules.millionths(name, value)
    if name in CHOICES:
        if not isinstance(value, str) or value not in CHOICES[name]:
            raise RejectedError(f"{name} cannot be {value!r:.60}; there are: {', '.join(CHOICES[name])}")
        return value
    if name == "max_matches":
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 1000:
            raise RejectedError(f"max_matches must be a whole number from 0 to 1000, and {value!r:.40} is not")
        return value
    if name in ("user_chars", "memory_chars"):
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**31:
            raise RejectedError(f"{name} must be a number of characters, 0 for no bound, and {value!r:.40} is not")
        return value
    if not isinstance(value, bool):
        raise RejectedError(f"{name} must be true or false, not {value!r:.40}")
    return value
