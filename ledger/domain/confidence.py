"""Reinforcement, decay, proof and trend in integer arithmetic: numbers are millionths, rounded half to even.

The rules are named and versioned where they are recorded (``linear/1``, ``set/1``); a released rule never changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from ledger.domain.errors import RejectedError
from ledger.domain.times import days_between

ONE = 1_000_000

REINFORCEMENT_DELTA = 20_000  # + 0.02 an interaction, as in ATOCore
MATCHES_A_TURN = 20
CANDIDATE_CONFIDENCE = 500_000  # our choice: an idea that nobody has confirmed
DECAY_IDLE_DAYS = 30  # as in ATOCore: idle for more than 30 days ...
DECAY_NUMERATOR, DECAY_DENOMINATOR = 97, 100  # ... then × 0.97 a day
CLAIM_CONFIDENCE = 400_000  # our choice: the most confidence of an assistant's own claim without review
EXPIRY_CONFIDENCE = 300_000  # under a policy with ``expire`` the job "expiry" supersedes a memory below 0.30
OBSERVATION_CONFIDENCE, LEAST_OBSERVATION, BY_HAND = 700_000, 500_000, 900_000  # astrocyte: default, minimum, curated
PROOF_STEP, MOST_BY_PROOF = 50_000, 950_000  # our choice: each source beyond the first adds 0.05, up to 0.95
PROOF_BOOST, BOOSTED_PROOFS = 25_000, 4  # astrocyte: 0.025 for each proof beyond the first, at most four
RECENT_DAYS, OLD_DAYS = 30, 90


def rounded(numerator: int, denominator: int) -> int:
    """Return ``numerator / denominator`` rounded to the nearest integer, a tie to the even one: the ledger's only rounding."""
    quotient, remainder = divmod(numerator, denominator)
    twice = 2 * remainder
    return quotient + (twice > denominator or (twice == denominator and quotient & 1))


def millionths(name: str, value: object, *, low: int = 0, high: int = ONE) -> int:
    """Return a caller's decimal (0.7) as millionths (700000).

    Raises:
        RejectedError: The value is not a number within the bounds.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise RejectedError(f"{name} must be a number from {low / ONE:g} to {high / ONE:g}, not {type(value).__name__}")
    if not abs(value) <= 1e9 or not low <= value * ONE <= high:  # no infinity, no NaN, no int beyond a float
        raise RejectedError(f"{name} must be a number from {low / ONE:g} to {high / ONE:g}, not {value!r:.40}")
    return rounded(*_scaled(value))


def _scaled(value: float) -> tuple[int, int]:
    numerator, denominator = value.as_integer_ratio()
    return numerator * ONE, denominator


def shown(value: int) -> float:
    """Return millionths as the decimal that people read."""
    return value / ONE


def reinforced(rule: str, confidence: int, delta: int) -> int:
    """Return the confidence after one reinforcement under a named rule. ``linear/1`` adds, and stops at 1."""
    if rule == "linear/1":
        return min(ONE, confidence + delta)
    raise RejectedError(f"there is no reinforcement rule {rule!r}; known: 'linear/1'")


DECAY_RULES = ("decay/1",)


def effective(confidence: int, *, rule: str | None, reference_count: int, active_at: str, as_of: str) -> int:
    """Return the confidence at ``as_of`` of a memory that decays by a named rule, or does not (None).

    ``decay/1`` takes 3 % a day after 30 idle days, from a memory without a reference. ``active_at`` is the time when
    somebody last made, confirmed, changed or restored the memory. The loss of all whole days beyond the thirtieth is one exact
    division, so that the number does not depend on how often it is read.
    """
    if rule is None or reference_count:
        return confidence
    if rule != "decay/1":
        raise RejectedError(f"there is no rule of decay {rule!r}; known: {', '.join(map(repr, DECAY_RULES))}")
    days = days_between(active_at, as_of) - DECAY_IDLE_DAYS
    if days <= 0:
        return confidence
    days = min(days, 1_000)  # 0.97 ** 1000 of one is far below half a millionth
    return rounded(confidence * DECAY_NUMERATOR**days, DECAY_DENOMINATOR**days)


# --- observations ----------------------------------------------------------------------------------------------------


PROOF_RULES = ("proof/1", "given/1")


def proven(rule: str, given: int, proof: int) -> int:
    """Return the confidence of an observation that ``proof`` live sources support; 0 without a source.

    ``proof/1`` gives 0.7 for the first source and 0.05 for each other, up to 0.95. ``given/1`` keeps the confidence that was
    ``given``.
    """
    if proof <= 0:
        return 0
    if rule == "proof/1":
        return min(MOST_BY_PROOF, OBSERVATION_CONFIDENCE + PROOF_STEP * (proof - 1))
    if rule == "given/1":
        return given
    raise RejectedError(f"there is no rule of proof {rule!r}; known: {', '.join(map(repr, PROOF_RULES))}")


def within_bounds(confidence: int) -> int:
    """Return a model's confidence, brought into [0.5, 1]."""
    return max(LEAST_OBSERVATION, min(ONE, confidence))


def proof_boost(proof: int) -> int:
    """Return the part of an observation's score for its proof: 0.025 for each source beyond the first, at most 0.1."""
    return PROOF_BOOST * max(0, min(BOOSTED_PROOFS, proof - 1))


def trend(times: Iterable[str | datetime], *, as_of: str | datetime) -> str:
    """Return the trend of evidence, as in astrocyte: "new", "stable", "strengthening", "weakening" or "dormant".

    ``times`` are the stored times of the sources' statements. A time is recent after ``as_of`` less 30 days, the future
    included, and old before ``as_of`` less 90 days; other times lie between. Without a recent time the trend is dormant, with
    only recent times new. Otherwise (recent / 30) / ((old + between) / 60) above 1.5 is strengthening, below 0.5 weakening.
    """
    now = _moment(as_of)
    recent_after = now - timedelta(days=RECENT_DAYS)
    moments: Sequence[datetime] = [_moment(time) for time in times]
    recent = sum(time > recent_after for time in moments)
    earlier = len(moments) - recent
    if not recent:
        return "dormant"
    if not earlier:
        return "new"
    rate, before = recent * (OLD_DAYS - RECENT_DAYS), earlier * RECENT_DAYS  # the ratio, without a division
    if 2 * rate > 3 * before:
        return "strengthening"
    return "weakening" if 2 * rate < before else "stable"


def _moment(time: str | datetime) -> datetime:
    return datetime.fromisoformat(time) if isinstance(time, str) else time
