"""The parts that every call has: its author, the clock and random bytes of the open ledger, and the form of its answer."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sized
from datetime import UTC, date, datetime
from functools import cache, cached_property, partial
from itertools import takewhile
from typing import Any, TypeVar

import msgspec
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


# --- the clock and random bytes, which a caller may replace ----------------------------------------------------------


Clock = Callable[[], datetime]
Random = Callable[[int], bytes]

now: Clock = partial(datetime.now, UTC)
system_random: Random = os.urandom
_encode = msgspec.json.Encoder().encode


def stored_time(moment: object) -> str:
    """Return a moment as an event stores it: UTC of fixed width.

    Raises:
        RejectedError: The moment of a caller's clock is no datetime.
    """
    if not isinstance(moment, datetime):
        raise RejectedError(f"a clock returns a datetime, and this clock returned {moment!r:.40}")
    utc = moment if moment.tzinfo is UTC else moment.astimezone(UTC)
    if utc.microsecond:  # msgspec leaves out a zero fraction
        return _encode(utc).decode()[1:-1]  # in a tenth of the time of isoformat
    return utc.isoformat(timespec="microseconds")[:26] + "Z"


class Pooled:
    """Random bytes drawn 4,096 at a time; each open ledger has its own pool, so a forked process never shares one."""

    def __init__(self, source: Random) -> None:
        self._source, self._bytes, self._used, self._lock = source, b"", 0, threading.Lock()

    def __call__(self, size: int, /) -> bytes:
        with self._lock:
            if self._used + size > len(self._bytes):
                self._bytes, self._used = self._source(max(4_096, size)), 0
            start, self._used = self._used, self._used + size
            return self._bytes[start : start + size]


# --- the answer ------------------------------------------------------------------------------------------------------


LINE_CHARS, TEXT_CHARS = 120, 36  # the most characters of a repr, and of each text in it


class Answer(Struct, frozen=True, kw_only=True):
    """The answer of a call, with the same names in Python and in ``--json``."""

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as dictionaries, lists, strings and numbers, ready for JSON."""
        plain: dict[str, object] = msgspec.json.decode(msgspec.json.encode(self))
        return plain

    def __repr__(self) -> str:
        """Return one short line: ids, states, numbers, the size of collections and the beginning of texts; nothing empty."""
        shown, left = list[str](), LINE_CHARS
        for name in self.__struct_fields__:
            if (value := getattr(self, name)) not in (None, "", (), [], {}):
                shown.append(f"{name}={_short(value)}")
                left -= len(shown[-1]) + 2
            if left < 0:
                shown[-1] = "…"
                break
        return f"{type(self).__name__}({', '.join(shown)})"


def _short(value: object) -> str:
    if isinstance(value, Struct):
        return f"{type(value).__name__}({getattr(value, 'id', '…')})"
    if isinstance(value, Sized) and not isinstance(value, str | bytes):
        return f"{len(value)} items" if len(value) != 1 else "1 item"
    return repr(value if not isinstance(value, str) or len(value) <= TEXT_CHARS else value[: TEXT_CHARS - 1] + "…")


A = TypeVar("A", bound=Answer)


def answer_of(kind: type[A], state: Struct, /, **different: object) -> A:
    """Return an answer with the state's fields of the same name and type, and with the ``different`` fields."""
    answer: A = _call(kind, type(state), tuple(different))(kind, state, different)
    return answer


@cache
def _call(kind: type[Answer], state: type[Struct], different: tuple[str, ...]) -> Callable[..., Any]:
    """Return a call with every field written out, by position where possible, because msgspec is slow with keywords."""
    types = state.__annotations__  # as text
    fields = {name: f"state.{name}" for name, type in kind.__annotations__.items() if types.get(name) == type}
    fields |= {name: f"different[{name!r}]" for name in different}
    by_place = takewhile(fields.__contains__, kind.__match_args__)
    values = [fields.pop(name) for name in by_place] + [f"{name}={value}" for name, value in fields.items()]
    call: Callable[..., object] = eval(f"lambda kind, state, different: kind({', '.join(values)})")
    return call
