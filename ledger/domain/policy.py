"""The policy in effect for a user: the parameters of reinforcement, admission, guards, and of the jobs that run by themselves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, get_type_hints

from msgspec import Struct, convert

from ledger.domain import confidence as confidence_rules
from ledger.domain.errors import RejectedError
from ledger.domain.text import check_text, plural
from ledger.english.matching import DEFAULT_MATCHER, MATCHERS

Value = int | bool | str | tuple[str, ...]  # a parameter's value as an event holds it
DECAYS = OFF, EPISODIC, ALL = "off", "episodic", "all"  # kinds of memories that lose confidence when idle
BY_SOURCE, REVIEW = "by_source", "review"  # values of ``admit``
TURNS = "turns"  # the value of ``consolidate`` that includes turns and sessions


class OneOf(Struct, frozen=True):
    """A check of a parameter that must be one of these words."""

    words: tuple[str, ...]

    def __call__(self, name: str, value: object) -> Value:
        if not isinstance(value, str) or value not in self.words:
            raise RejectedError(f"{name} cannot be {value!r:.60}; there are: {', '.join(self.words)}")
        return value


def count(name: str, value: object) -> Value:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 1000:
        raise RejectedError(f"{name} must be a whole number from 0 to 1000, and {value!r:.40} is not")
    return value


def days(name: str, value: object) -> Value:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 100_000:
        raise RejectedError(
            f"{name} must be a whole number of days up to 100,000, 0 for never, and {value!r:.40} is not"
        )
    return value


def characters(name: str, value: object) -> Value:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**31:
        raise RejectedError(f"{name} must be a number of characters, 0 for no bound, and {value!r:.40} is not")
    return value


def switch(name: str, value: object) -> Value:
    if not isinstance(value, bool):
        raise RejectedError(f"{name} must be true or false, not {value!r:.40}")
    return value


def projects(name: str, value: object) -> Value:
    return tuple(check_text(f"each of {name}", project) for project in plural(name, value))


class SwitchOr(Struct, frozen=True):
    """A check of a parameter that must be true, false or this word."""

    word: str

    def __call__(self, name: str, value: object) -> Value:
        if isinstance(value, bool) or (isinstance(value, str) and value == self.word):
            return value
        raise RejectedError(f"{name} must be true, false or {self.word!r}, not {value!r:.40}")


class PolicyState(Struct, frozen=True):
    """Every parameter with its default and its check, which returns the value as an event holds it.

    Shares are decimals here, and millionths in an event.

    - ``max_matches``: the largest number of memories that an interaction reinforces
    - ``decay``: the kinds of memories that lose effective confidence with idle days; ``expire`` supersedes memories that decayed
      below 0.30; both are off by default
    - ``decay_rule``: the version of the rule of decay, so that a past moment gives the same number under a later rule
    - ``candidate_days``: the days that a candidate waits, unchanged, until it is rejected; 0 for ever
    - ``user_chars``, ``memory_chars``: the bounds on characters of active memories of the kind user_profile, and of all other
      kinds; 0 is no bound (rubino has 1,375 and none)
    - ``threats``: the treatment of a memory in which a scanner finds an order to the model or the like
    - ``secrets``: the treatment of a password or key in any text
    - ``admit``: the decision on memories that nobody reviewed: by the table in ``memories/admission_rules.py`` ("by_source") or
      by a person ("review"); an assistant's own statement is always a candidate, of at most ``claim_confidence``
    - ``consolidate``: the consolidation of memories; with "turns" also of turns and sessions
    - ``off``: the projects where nothing is recorded and nothing is added to a prompt; an event has their ids
    """

    matcher: Annotated[str, OneOf(tuple(MATCHERS))] = DEFAULT_MATCHER
    gain: Annotated[float, confidence_rules.millionths] = confidence_rules.shown(confidence_rules.REINFORCEMENT_DELTA)
    echo_gain: Annotated[float, confidence_rules.millionths] = 0.0
    max_matches: Annotated[int, count] = confidence_rules.MATCHES_A_TURN
    extract: Annotated[bool, switch] = True
    decay: Annotated[str, OneOf(DECAYS)] = OFF
    decay_rule: Annotated[str, OneOf(confidence_rules.DECAY_RULES)] = "decay/1"
    expire: Annotated[bool, switch] = False
    candidate_days: Annotated[int, days] = 90
    user_chars: Annotated[int, characters] = 0
    memory_chars: Annotated[int, characters] = 0
    threats: Annotated[str, OneOf(("refuse", "quarantine", "off"))] = "refuse"
    secrets: Annotated[str, OneOf(("redact", "refuse", "off"))] = "redact"
    admit: Annotated[str, OneOf((BY_SOURCE, REVIEW))] = BY_SOURCE
    claim_confidence: Annotated[float, confidence_rules.millionths] = confidence_rules.shown(
        confidence_rules.CLAIM_CONFIDENCE
    )
    merge: Annotated[bool, switch] = True
    conflicts: Annotated[bool, switch] = True
    consolidate: Annotated[bool | str, SwitchOr(TURNS)] = True
    off: Annotated[tuple[str, ...], projects] = ()

    def decay_of(self, kind: str) -> str | None:
        """Return the rule by which active memories of this kind lose effective confidence with idle days, or None."""
        return self.decay_rule if self.decay == ALL or (self.decay == EPISODIC and kind == EPISODIC) else None


CHECKS: dict[str, Callable[[str, object], Value]] = {
    name: hint.__metadata__[0] for name, hint in get_type_hints(PolicyState, include_extras=True).items()
}


def checked(changes: Mapping[str, object]) -> dict[str, Value]:
    """Return parameters as an event holds them, after a check of each."""
    if unknown := sorted(set(changes) - CHECKS.keys()):
        raise RejectedError(f"no policy parameter is called {unknown[0]!r:.60}; there are: {', '.join(CHECKS)}")
    return {name: CHECKS[name](name, value) for name, value in changes.items()}


def of_today(parameters: Mapping[str, object]) -> dict[str, object]:
    """Return parameters as events hold them, without a matcher that was deleted: the default takes its place."""
    deleted = parameters.get("matcher", DEFAULT_MATCHER) not in MATCHERS
    return {name: value for name, value in parameters.items() if not (deleted and name == "matcher")}


def policy_of(parameters: Mapping[str, object]) -> PolicyState:
    """Return the policy from parameters as events hold them; missing parameters have their defaults."""
    parameters = of_today(parameters)
    shares = {name: value for name, value in parameters.items() if CHECKS.get(name) is confidence_rules.millionths}
    return convert(
        {**parameters, **{name: confidence_rules.shown(convert(value, int)) for name, value in shares.items()}},
        PolicyState,
    )
