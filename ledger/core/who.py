"""The author of a command: stated once by ``open`` or ``bind``, and part of every later call with the call's own options."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from functools import cached_property

from msgspec import Struct
from msgspec.structs import replace

from ledger.domain import times
from ledger.domain.errors import RejectedError
from ledger.domain.text import check_text, one_of
from ledger.types import WriteOptions

Time = str | datetime | date
CHANNELS = ("user", "tool", "web", "agent", "file")
_ENVELOPE = ("causation_id", "correlation_id", "actor", "client", "channel", "agent")
_TEXTS = {"client": True, "agent": True, "causation_id": False, "correlation_id": False}  # True: may be blank
_MAY_BE_NONE = ("idempotency_key", "occurred_at", "causation_id", "correlation_id", "expected")
_OPTIONS = tuple(sorted(WriteOptions.__optional_keys__))


class Expected(Struct):
    """The position after which no other caller may have changed the command's subjects; ``own`` are this call's positions."""

    position: int
    own: set[int] = set()


class Who(Struct, frozen=True, kw_only=True, dict=True):
    """The author of a command.

    The fields name the owner of the memory (``user``), the actor, the program (``client``), the kind of input (``channel``),
    the agent, and the event that the command reacts to (``causation_id``).
    """

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
    names_user: bool = False  # open, bind or the settings named the user, even the user ""

    @cached_property
    def envelope(self) -> dict[str, str]:
        """Return the fields for the envelope of each event, without defaults, because msgspec takes time for each name."""
        fields = ((name, getattr(self, name)) for name in _ENVELOPE)
        return {name: value for name, value in fields if value}

    def bound(self, changes: Mapping[str, str | None]) -> Who:
        """Return this author with changed fields; None leaves a field unchanged."""
        changed = {name: value for name, value in changes.items() if value is not None}
        for name, value in changed.items():
            check_name(name, value)
        one_of("channel", changed.get("channel", self.channel), CHANNELS)
        return replace(self, **changed, names_user=self.names_user or "user" in changed)

    def asker(self, options: WriteOptions) -> Who:
        """Return this author with the checked options of one call."""
        return replace(self, **_checked(options)) if options else self

    def searcher(self, options: WriteOptions) -> Who:
        """Return this author with the options of a search; a search makes several appends, so a key is refused."""
        if options.get("idempotency_key") is not None:
            raise RejectedError("a search takes no idempotency_key, because a repeated search records nothing twice")
        return self.asker(options)


def check_name(name: str, text: object) -> None:
    """Refuse a name that is no text, or a blank user; "" is the user of a memory that is nobody's."""
    checked = check_text(name, text, blank_allowed=True)
    if name == "user" and checked.isspace():
        raise RejectedError(f'user is blank ({checked!r:.20}); give a name, and "" is allowed for nobody')


def _checked(options: Mapping[str, object]) -> dict[str, object]:
    if unknown := sorted(set(options) - set(_OPTIONS)):
        raise TypeError(
            f"unexpected keyword argument {unknown[0]!r}; besides its own every write takes: {', '.join(_OPTIONS)}"
        )
    checked = {name: value for name, value in options.items() if value is not None or name not in _MAY_BE_NONE}
    for name, blank_allowed in _TEXTS.items():
        if name in checked:
            check_text(name, checked[name], blank_allowed=blank_allowed)
    if "channel" in checked:
        one_of("channel", checked["channel"], CHANNELS)
    if "occurred_at" in checked:
        checked["occurred_at"] = times.with_offset("occurred_at", checked["occurred_at"])
    if "expected" in checked:
        checked["expected"] = _expected(checked["expected"])
    if "idempotency_key" in checked:
        checked["key"] = checked.pop("idempotency_key")
    return checked


def _expected(position: object) -> Expected:
    if isinstance(position, bool) or not isinstance(position, int) or not 0 <= position < 2**63:
        raise RejectedError(f"expected is a position of the log, a whole number from 0, and {position!r:.40} is not")
    return Expected(position)
