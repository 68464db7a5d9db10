"""Who asks for a command, as one call says it, checked."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any, TypedDict

from ledger.domain import times
from ledger.domain.errors import RejectedError
from ledger.domain.text import check_text
from ledger.engine.work import Expected, Who

Time = str | datetime | date
NAME_BYTES = 1024


class Whose(TypedDict, total=False):
    """What every write takes besides its own arguments.

    ``user`` whose memory (default: the ledger's), ``actor`` who does it, ``client`` and ``channel`` through what ("user",
    "tool", "web", "agent", "file"), ``agent`` the agent concerned, ``occurred_at`` when it happened in the world,
    ``causation_id`` the event it reacts to, ``correlation_id`` the run or import it belongs to, ``expected`` the position
    after which nobody may have changed what it changes.
    """

    user: str
    actor: str
    client: str
    channel: str
    agent: str
    occurred_at: Time | None
    causation_id: str | None
    correlation_id: str | None
    expected: int | None


class By(Whose, total=False):
    """The same, and ``key``, which makes the command idempotent for this user."""

    key: str | None


CHANNELS = ("user", "tool", "web", "agent", "file")


def who(default: Who, by: By) -> Who:
    """Checks what a caller said about itself, and fills in the ledger's defaults."""
    if unknown := sorted(by.keys() - By.__optional_keys__):
        raise TypeError(
            f"unexpected keyword argument {unknown[0]!r}; writes take: {', '.join(sorted(By.__optional_keys__))}"
        )
    if all(value is getattr(default, name) for name, value in by.items()):
        return default  # which is checked: most calls say nothing else
    fields: dict[str, Any] = {name: getattr(default, name) for name in Who.__struct_fields__} | by
    for name in ("user", "actor", "client", "agent"):
        check_text(name, fields[name], max_bytes=NAME_BYTES, blank_allowed=True)
    check_channel(fields["channel"])
    for name in ("causation_id", "correlation_id"):
        if fields[name] is not None:
            check_text(name, fields[name], max_bytes=NAME_BYTES)
    if fields["occurred_at"] is not None:
        fields["occurred_at"] = times.with_offset("occurred_at", fields["occurred_at"])
    if fields["expected"] is not None:
        fields["expected"] = _expected(fields["expected"])
    return Who(**fields)


def check_channel(given: object) -> None:
    if given not in CHANNELS:
        raise RejectedError(f"no channel is called {given!r:.40}; there are: {', '.join(CHANNELS)}")


def _expected(given: object) -> Expected:
    if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given < 2**63:
        raise RejectedError(f"expected is a position of the log, and {given!r:.40} is none")
    return Expected(given)
