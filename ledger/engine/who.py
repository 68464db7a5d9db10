"""Who asks for a command, as one call says it, checked."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime

from msgspec.structs import replace

from ledger.domain import times
from ledger.domain.errors import RejectedError
from ledger.domain.text import check_text
from ledger.engine.work import Expected, Who
from ledger.types import WriteOptions

Time = str | datetime | date
NAME_BYTES = 1024


CHANNELS = ("user", "tool", "web", "agent", "file")
_TEXTS = {"client": True, "agent": True, "causation_id": False, "correlation_id": False}  # whether "" is one
_MAY_BE_NONE = ("idempotency_key", "occurred_at", "causation_id", "correlation_id", "expected")
_OPTIONS = tuple(sorted(WriteOptions.__optional_keys__))


def who(bound: Who, options: Mapping[str, object]) -> Who:
    """Who is bound, with the options of one call, checked."""
    if unknown := sorted(set(options) - set(_OPTIONS)):
        raise TypeError(f"unexpected keyword argument {unknown[0]!r}; every write takes: {', '.join(_OPTIONS)}")
    given = {name: value for name, value in options.items() if value is not None or name not in _MAY_BE_NONE}
    for name, blank_allowed in _TEXTS.items():
        if name in given:
            check_text(name, given[name], max_bytes=NAME_BYTES, blank_allowed=blank_allowed)
    if "channel" in given:
        check_channel(given["channel"])
    if "occurred_at" in given:
        given["occurred_at"] = times.with_offset("occurred_at", given["occurred_at"])
    if "expected" in given:
        given["expected"] = _expected(given["expected"])
    if "idempotency_key" in given:
        given["key"] = given.pop("idempotency_key")
    return replace(bound, **given)


def check_channel(given: object) -> None:
    if given not in CHANNELS:
        raise RejectedError(f"no channel is called {given!r:.40}; there are: {', '.join(CHANNELS)}")


def _expected(given: object) -> Expected:
    if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given < 2**63:
        raise RejectedError(f"expected is a position of the log, and {given!r:.40} is none")
    return Expected(given)
