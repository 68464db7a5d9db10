"""Who asks for a command: said once, by ``open`` or ``bind``, and part of every call that follows, with its own options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, datetime
from functools import cached_property, wraps
from typing import ParamSpec, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from ledger.domain import times
from ledger.domain.errors import RejectedError
from ledger.domain.text import check_text, one_of
from ledger.types import WriteOptions

P = ParamSpec("P")
T = TypeVar("T")
Time = str | datetime | date
CHANNELS = ("user", "tool", "web", "agent", "file")
_ENVELOPE = ("causation_id", "correlation_id", "actor", "client", "channel", "agent")
_TEXTS = {"client": True, "agent": True, "causation_id": False, "correlation_id": False}  # whether "" is one
_MAY_BE_NONE = ("idempotency_key", "occurred_at", "causation_id", "correlation_id", "expected")
_OPTIONS = tuple(sorted(WriteOptions.__optional_keys__))


class Expected(Struct):
    """A position behind which nobody else has changed what a call changes; ``own`` are the positions that the call wrote."""

    position: int
    own: set[int] = set()


class Who(Struct, frozen=True, kw_only=True, dict=True):
    """On whose memory a command acts (``user``), who does it, through which program and kind of input, for which agent, and
    what it reacts to."""

    user: str = ""
    actor: str = ""
    client: str = ""
    channel: str = "user"
    agent: str = ""
    key: str | None = None
    occurred_at: str | None = None
    causation_id: str | None = None
    correlation_id: str | None = None
    expected: Expected | None = None
    names_user: bool = False  # somebody said whose memory it is: open, bind or the settings, also ""

    @cached_property
    def envelope(self) -> dict[str, str]:
        """What of it stands in the envelope of each event: no defaults, for msgspec takes its time for each name."""
        given = ((name, getattr(self, name)) for name in _ENVELOPE)
        return {name: value for name, value in given if value}

    def bound(self, given: Mapping[str, str | None]) -> Who:
        """The same with what is given in its place; None leaves a word as it is."""
        changed = {name: value for name, value in given.items() if value is not None}
        for name, value in changed.items():
            check_text(name, value, blank_allowed=True)
        one_of("channel", changed.get("channel", self.channel), CHANNELS)
        return replace(self, **changed, names_user=self.names_user or "user" in changed)

    def asker(self, options: WriteOptions) -> Who:
        """The same with the options of one call, checked."""
        return replace(self, **_checked(options)) if options else self

    def searcher(self, options: WriteOptions) -> Who:
        """The same for a search, which is in several appends and records nothing twice: a key would mean nothing."""
        if options.get("idempotency_key") is not None:
            raise RejectedError("a search takes no idempotency_key: looking again records nothing twice")
        return self.asker(options)


def explaining(function: Callable[P, T]) -> Callable[P, T]:
    """Return a call that, where it gets an argument that it does not take, says what ours is called."""

    @wraps(function)
    def call(*places: P.args, **keywords: P.kwargs) -> T:
        try:
            return function(*places, **keywords)
        except TypeError:
            from ledger.engine import other_names

            text = other_names.unexpected_argument(function, keywords)
            if text is None:
                raise
        raise TypeError(text)

    return call


def _checked(options: Mapping[str, object]) -> dict[str, object]:
    if unknown := sorted(set(options) - set(_OPTIONS)):
        raise TypeError(
            f"unexpected keyword argument {unknown[0]!r}; besides its own every write takes: {', '.join(_OPTIONS)}"
        )
    given = {name: value for name, value in options.items() if value is not None or name not in _MAY_BE_NONE}
    for name, blank_allowed in _TEXTS.items():
        if name in given:
            check_text(name, given[name], blank_allowed=blank_allowed)
    if "channel" in given:
        one_of("channel", given["channel"], CHANNELS)
    if "occurred_at" in given:
        given["occurred_at"] = times.with_offset("occurred_at", given["occurred_at"])
    if "expected" in given:
        given["expected"] = _expected(given["expected"])
    if "idempotency_key" in given:
        given["key"] = given.pop("idempotency_key")
    return given


def _expected(given: object) -> Expected:
    if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given < 2**63:
        raise RejectedError(f"expected is a position of the log, and {given!r:.40} is none")
    return Expected(given)
