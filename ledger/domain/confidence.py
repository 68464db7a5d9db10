"""Reinforcement and decay as integer arithmetic: everything is counted in millionths and rounded half to even.

The rules are named and versioned where they are recorded (``linear/1``, ``set/1``); a released rule never changes.
"""

from __future__ import annotations

import math

from ledger.domain.errors import Rejected
from ledger.domain.times import days_between

ONE = 1_000_000

REINFORCEMENT_DELTA = 20_000  # + 0.02 an interaction (ATOCore)
MATCHES_A_TURN = 20
CANDIDATE_CONFIDENCE = 500_000  # ours: an idea nobody has confirmed
DECAY_IDLE_DAYS = 30  # ATOCore 7D: idle for more than 30 days ...
DECAY_NUMERATOR, DECAY_DENOMINATOR = 97, 100  # ... then × 0.97 a day
EXPIRY_CONFIDENCE = 300_000  # below 0.30 the sweep supersedes


def rounded(numerator: int, denominator: int) -> int:
    """``numerator / denominator`` to the nearest integer, a tie to the even one. The one rounding rule of the ledger."""
    quotient, remainder = divmod(numerator, denominator)
    twice = 2 * remainder
    return quotient + (twice > denominator or (twice == denominator and quotient & 1))


def millionths(name: str, value: object, *, low: int = 0, high: int = ONE) -> int:
    """A decimal that a caller gave (0.7) as millionths (700000); ``Rejected`` when it is no number within the bounds."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Rejected(f"{name} must be a number from {low / ONE:g} to {high / ONE:g}, not {type(value).__name__}")
    if not math.isfinite(value) or not low <= value * ONE <= high:
        raise Rejected(f"{name} must be a number from {low / ONE:g} to {high / ONE:g}, and {value!r:.40} is not")
    return rounded(*_scaled(value))


def _scaled(value: float) -> tuple[int, int]:
    numerator, denominator = value.as_integer_ratio()
    return numerator * ONE, denominator


def shown(value: int) -> float:
    """Millionths as the decimal that people read."""
    return value / ONE


def reinforced(rule: str, confidence: int, delta: int) -> int:
    """The confidence after one reinforcement under a named rule. ``linear/1``: add, and stop at 1."""
    if rule == "linear/1":
        return min(ONE, confidence + delta)
    raise Rejected(f"no reinforcement rule is called {rule!r}; known: 'linear/1'")


def effective(confidence: int, *, active: bool, reference_count: int, active_at: str, as_of: str) -> int:
    """The confidence at ``as_of``: an active memory, never referenced and idle for more than 30 days, loses 3 % a day.

    ``active_at`` is when somebody last made, confirmed, changed or restored it. One day's loss for each whole day
    beyond the thirtieth, in one exact division, so that the number does not depend on how often anybody looked.
    """
    if not active or reference_count:
        return confidence
    days = days_between(active_at, as_of) - DECAY_IDLE_DAYS
    if days <= 0:
        return confidence
    days = min(days, 1_000)  # 0.97 ** 1000 of one is far below half a millionth
    return rounded(confidence * DECAY_NUMERATOR**days, DECAY_DENOMINATOR**days)
