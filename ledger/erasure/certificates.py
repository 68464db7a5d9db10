"""A certificate's text: issue it, read and verify it, and compare its erasure with the state of this log."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from typing import Any

from msgspec import Struct

from ledger.domain.errors import DamagedError, LedgerError, RejectedError
from ledger.events import AnyEvent, ContentErased, ErasureCompleted
from ledger.log import registry
from projections.core.rows import Connection
from projections.views import audit, erasures

FORMAT = "memory-ledger/certificate/1"
_EVENTS = (ContentErased.__name__, ErasureCompleted.__name__)

Mac = Callable[[str, str, bytes], bytes]  # (purpose, user, data)


class Certificate(Struct, frozen=True):
    """An erasure read from a certificate: its command, and its ContentErased events in order."""

    erasure: str
    events: tuple[AnyEvent, ...]


def issue(connection: Connection, ledger_id: str, mac: Mac, act: str) -> str:
    """Return the certificate of an erasure.

    The certificate holds the rows that recorded the erasure, exactly as they are in the log, and no erased text.
    """
    rows = [_row(connection, position) for position in _positions(connection, act)]
    body = {"format": FORMAT, "ledger": ledger_id, "erasure": act, "events": rows}
    return _json(body | {"mac": mac("certificate", "", _json(body).encode()).hex()})


def _positions(connection: Connection, act: str) -> list[int]:
    positions = {entry.position for entry in audit.of_command(connection, act) if entry.type == ContentErased.__name__}
    erasure = erasures.of(connection, act)
    return sorted(positions | ({erasure.completed_at} if erasure is not None and erasure.completed_at else set()))


def _row(connection: Connection, position: int) -> dict[str, object]:
    sql = "SELECT stream, version, type, state, hex(digest), hex(head) FROM events WHERE position = ?"
    row = connection.execute(sql, (position,)).fetchone()
    if row is None or row[2] not in _EVENTS:
        raise DamagedError("erasures", position, "the log holds no such event")
    stream, version, type_, state, digest, head = row
    place = {"position": position, "stream": stream, "version": version, "type": type_}
    return place | {"state": state, "digest": digest.lower(), "head": head.lower()}


def read(text: str, ledger_id: str, mac: Mac) -> Certificate:
    """Return the certificate that a text holds.

    Raises:
        RejectedError: The text is no certificate, is of another ledger, or was changed.
    """
    try:
        decoded = json.loads(text)
        body = {name: decoded[name] for name in ("format", "ledger", "erasure", "events")}
        signed, events = decoded["mac"], tuple(_event(row) for row in body["events"])
        body_text = _json(body).encode()
    except (KeyError, TypeError, ValueError, RecursionError, LedgerError):
        raise RejectedError("this text is not a complete certificate of an erasure") from None
    if body["format"] != FORMAT or body["ledger"] != ledger_id:
        raise RejectedError(f"the certificate is of the ledger {body['ledger']!s:.40}, not of this ledger, {ledger_id}")
    if mac("certificate", "", body_text).hex() != signed:
        raise RejectedError("the certificate was changed after it was issued; nothing was erased")
    return Certificate(str(body["erasure"]), tuple(event for event in events if isinstance(event.data, ContentErased)))


def _event(row: Any) -> AnyEvent:
    if row["type"] not in _EVENTS:
        raise ValueError(row["type"])
    return registry.decode(row["position"], 1, row["stream"], row["version"], row["type"], row["state"])


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


# --- certificates applied to a log that continued from an older backup ---------------------------------------------------


def outstanding(connection: Connection, certificates: Sequence[Certificate]) -> list[tuple[AnyEvent, ContentErased]]:
    """Return the erasures of these certificates that this log still has to apply.

    The log may come from an older backup. Each erasure comes as its event and the data with only the rows that still
    hold the text. A row that is not in the log was recorded after the backup and needs no erasing.

    Raises:
        RejectedError: A row is neither as it was before the erasure nor as it was after it.
    """
    events = {event.position: event for certificate in certificates for event in certificate.events}
    results = _afters(event.data for event in events.values())
    states: dict[int, str] = {}
    outstanding_erasures = []
    for position in sorted(events):
        targets = []
        for target in events[position].data.targets:
            now = states.get(target.position) or _digest(connection, target.position)
            if now is None:
                continue
            if now == target.before:
                targets.append(target)
                states[target.position] = target.after
            elif now not in results.get(target.position, ()):
                raise RejectedError(
                    f"position {target.position} holds another event in this log than in the certificate; nothing was erased"
                )
        blobs = tuple(blob for blob in events[position].data.blobs if _has_blob(connection, blob))
        if targets or blobs:
            data = events[position].data
            again = ContentErased(data.kind, data.subject, tuple(targets), blobs, data.kept, data.reason)
            outstanding_erasures.append((events[position], again))
    return outstanding_erasures


def _afters(events: Iterable[ContentErased]) -> dict[int, set[str]]:
    afters: dict[int, set[str]] = {}
    for data in events:
        for target in data.targets:
            afters.setdefault(target.position, set()).add(target.after)
    return afters


def _digest(connection: Connection, position: int) -> str | None:
    row = connection.execute("SELECT state FROM events WHERE position = ?", (position,)).fetchone()
    return sha256(row[0].encode()).hexdigest() if row is not None else None


def _has_blob(connection: Connection, blob: str) -> bool:
    return connection.execute("SELECT 1 FROM blobs WHERE id = ? AND data IS NOT NULL", (blob,)).fetchone() is not None
