"""What an erasure leaves in the hands of whoever asked for it: a certificate, by which an older backup loses the same texts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from typing import Any

from msgspec import Struct

from ledger.domain.errors import DamagedError, LedgerError, RejectedError
from ledger.domain.events import AnyEvent, ContentErased, ErasureCompleted
from ledger.store import mapper
from projections.core.rows import Connection
from projections.views import audit, erasures

FORMAT = "memory-ledger/certificate/1"
_EVENTS = (ContentErased.__name__, ErasureCompleted.__name__)

Mac = Callable[[str, str, bytes], bytes]  # (purpose, user, data)


class Certificate(Struct, frozen=True):
    """One erasure, as its certificate tells it: its command, and its ContentErased events in order."""

    erasure: str
    events: tuple[AnyEvent, ...]


def issue(connection: Connection, ledger_id: str, mac: Mac, act: str) -> str:
    """The certificate of an erasure: the rows that recorded it, as they lie in the log; no text that it took."""
    rows = [_row(connection, position) for position in _positions(connection, act)]
    body = {"format": FORMAT, "ledger": ledger_id, "erasure": act, "events": rows}
    return _json(body | {"mac": mac("certificate", "", _json(body).encode()).hex()})


def _positions(connection: Connection, act: str) -> list[int]:
    found = {each.position for each in audit.of_command(connection, act) if each.type == ContentErased.__name__}
    erasure = erasures.of(connection, act)
    return sorted(found | ({erasure.completed_at} if erasure is not None and erasure.completed_at else set()))


def _row(connection: Connection, position: int) -> dict[str, object]:
    sql = "SELECT stream, version, type, state, hex(digest), hex(head) FROM events WHERE position = ?"
    row = connection.execute(sql, (position,)).fetchone()
    if row is None or row[2] not in _EVENTS:
        raise DamagedError("erasures", position, "the log holds no such event")
    stream, version, type_, state, digest, head = row
    place = {"position": position, "stream": stream, "version": version, "type": type_}
    return place | {"state": state, "digest": digest.lower(), "head": head.lower()}


def read(given: str, ledger_id: str, mac: Mac) -> Certificate:
    """A certificate of this very ledger, unchanged; ``RejectedError`` otherwise."""
    try:
        decoded = json.loads(given)
        body = {name: decoded[name] for name in ("format", "ledger", "erasure", "events")}
        signed, events = decoded["mac"], tuple(_event(row) for row in body["events"])
        text = _json(body).encode()
    except (KeyError, TypeError, ValueError, RecursionError, LedgerError):
        raise RejectedError("this is no certificate of an erasure, or not the whole of one") from None
    if body["format"] != FORMAT or body["ledger"] != ledger_id:
        raise RejectedError(f"this certificate is of the ledger {body['ledger']!s:.40}, and this ledger is {ledger_id}")
    if mac("certificate", "", text).hex() != signed:
        raise RejectedError("this certificate was changed since it was issued, so nothing is erased by it")
    return Certificate(str(body["erasure"]), tuple(each for each in events if isinstance(each.data, ContentErased)))


def _event(row: Any) -> AnyEvent:
    if row["type"] not in _EVENTS:
        raise ValueError(row["type"])
    return mapper.decode(row["position"], 1, row["stream"], row["version"], row["type"], row["state"])


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


# --- applying them to a log that went another way from an older backup ---------------------------------------------------


def outstanding(connection: Connection, certificates: Sequence[Certificate]) -> list[tuple[AnyEvent, ContentErased]]:
    """The erasures of these certificates that this log has not had, each as it was and with the rows that it still concerns.

    What was recorded after the backup was made is not in the log, and needs no erasing. ``RejectedError`` when a row is neither
    as it was before the erasure nor as it was after it.
    """
    events = {event.position: event for each in certificates for event in each.events}
    left = _afters(event.data for event in events.values())
    states: dict[int, str] = {}
    found = []
    for at in sorted(events):
        targets = []
        for target in events[at].data.targets:
            now = states.get(target.position) or _digest(connection, target.position)
            if now is None:
                continue
            if now == target.before:
                targets.append(target)
                states[target.position] = target.after
            elif now not in left.get(target.position, ()):
                raise RejectedError(
                    f"position {target.position} holds another event here than the one that was erased; nothing was erased"
                )
        blobs = tuple(blob for blob in events[at].data.blobs if _has_blob(connection, blob))
        if targets or blobs:
            data = events[at].data
            again = ContentErased(data.kind, data.subject, tuple(targets), blobs, data.kept, data.reason)
            found.append((events[at], again))
    return found


def _afters(events: Iterable[ContentErased]) -> dict[int, set[str]]:
    found: dict[int, set[str]] = {}
    for data in events:
        for target in data.targets:
            found.setdefault(target.position, set()).add(target.after)
    return found


def _digest(connection: Connection, position: int) -> str | None:
    row = connection.execute("SELECT state FROM events WHERE position = ?", (position,)).fetchone()
    return sha256(row[0].encode()).hexdigest() if row is not None else None


def _has_blob(connection: Connection, blob: str) -> bool:
    return connection.execute("SELECT 1 FROM blobs WHERE id = ? AND data IS NOT NULL", (blob,)).fetchone() is not None
