"""Translates a ledger written by commit ee43cfd into today's format, as a new file.

    python tools/convert.py OLD.db NEW.db

The old file is only read, and has to be closed (no -wal with commits in it). Its chain is checked first, so that a damaged
log never becomes one that verifies. Types, fields and stored words get today's names by the tables in
``tools/conversion_tables.py``. Positions, streams, ids, salts, times, keys and blobs stay; states, digests, heads and
Merkle roots are computed again. A full check of the new file follows. Exit code 0, 1 if that check finds a problem, 2 if
no file was made.

What cannot be kept exactly:

- **Erased rows.** The bytes before an erasure are gone, so their digest in today's format cannot be known. The row keeps
  the old digest, as ``digest`` and as ``before`` in the ContentErased: the new chain goes on committing to the bytes that
  were there, in the old format. Only the last ``after`` is computed again, from the state as it is now. A row that was
  erased twice keeps the digests between the two for the same reason.
- **Keys.** The digest of a keyed command's arguments covers the command and parameter names of its time, so that every
  repetition would look like another command. The digest is left out, as after an erasure: the same key with the same
  command returns the first answer, whatever the arguments, and appends nothing; with another command the key is refused
  as before.
- **Bulk acts.** An act above 10,000 events was announced (BulkStarted), done in parts and finished (BulkFinished). The parts
  get the id of the announcing command, so that they are one act. Each announcement and finish becomes a CommandAnswered
  without a key, which has no effect, so that no position changes. An unfinished act is refused: the old product finishes
  it when it opens the ledger.
- **Refusals** lose the digest of the refused text, by which a short text could be guessed.
- **Stored outcomes.** The status in MemoryRestored is left out, and today's code derives it. Validities that were clipped,
  and policies that were stored whole, stay as they were written: nobody knows what was asked for.
- **Copies kept elsewhere.** Checkpoints, proofs and erasure receipts of the old file do not fit the new one. Make new
  ones; apply an old receipt to an old backup before converting that backup.
"""

from __future__ import annotations

import argparse
import os
import sqlite3
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import MsgspecError, Raw, Struct
from msgspec.structs import FieldInfo

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from ledger import Ledger  # noqa: E402
from ledger.domain.errors import LedgerError, RejectedError  # noqa: E402
from ledger.domain.events import LEDGER_STREAM, TYPES, CheckpointSealed, CommandAnswered, Envelope  # noqa: E402
from ledger.maintenance.copying import CHUNK, check_log  # noqa: E402
from ledger.proof.merkle import Tree  # noqa: E402
from ledger.store import mapper  # noqa: E402
from ledger.store.alone import APPLICATION_ID  # noqa: E402
from ledger.store.event_store import EventStore, LogRow, Transaction  # noqa: E402
from ledger.store.integrity import GENESIS, leaf, link  # noqa: E402
from ledger.store.making import free_place, in_the_making  # noqa: E402
from ledger.store.writing import COLUMNS  # noqa: E402
from tools import conversion_tables as tables  # noqa: E402

_members = msgspec.json.Decoder(dict[str, Raw]).decode
_any = msgspec.json.decode


class Conversion:
    """An old log, looked through once, and then row by row as it is written today; ``StorageError`` where it is damaged."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        check_log(connection)
        self.connection, self.counts = connection, Counter[str]()
        self._head, self._tree = GENESIS, Tree()
        self._heads: dict[int, tuple[bytes, bytes, tuple[bytes, ...]]] = {}  # size sealed: head, root, peaks
        self._erased: dict[int, tuple[str, str]] = {}  # position: the old type, the digest of the state as it is now
        self._marks = dict[str, set[str]]()  # by command id: what decides its name today
        self._acts = self._bulk_acts()
        self._sizes = {_any(state)["data"]["size"] for _, state in self._of_type("CheckpointSealed")}

    def rows(self) -> Iterator[LogRow]:
        for row in self.connection.execute(f"SELECT {COLUMNS} FROM events ORDER BY position"):
            yield self._row(LogRow(*row))

    def blobs(self) -> Iterator[tuple[str, bytes | None, int | None]]:
        yield from self.connection.execute("SELECT id, data, erased_by FROM blobs ORDER BY rowid")

    def _of_type(self, *types: str) -> Iterator[tuple[str, str]]:
        marks = ", ".join("?" * len(types))
        sql = f"SELECT type, state FROM events WHERE stream = ? AND type IN ({marks}) ORDER BY version"
        yield from self.connection.execute(sql, (LEDGER_STREAM, *types))

    def _bulk_acts(self) -> dict[str, str]:
        """The command of each part of a bulk act -> the command that announced it."""
        acts, running = dict[str, str](), set[str]()
        sql = "SELECT position, stream, version, type, state FROM events ORDER BY position"
        for position, stream, version, type_, state in self.connection.execute(sql):
            event = _any(state)
            if type_ not in tables.OLD_TYPES or event.get("schema") != 1 or "command_id" not in event:
                raise RejectedError(f"position {position}: {type_:.60} is no event of commit ee43cfd")
            command, run = event["command_id"], event.get("correlation_id")
            self._marks.setdefault(command, set()).update(tables.marks(stream, version, type_, event["data"]))
            if type_ == "BulkStarted":
                running.add(command)
            elif run in running:
                acts[command] = run
            if type_ == "BulkFinished":
                running.discard(event["data"]["started"])
        if running:
            raise RejectedError(
                f"the act {min(running)} was begun and not finished; open the ledger once with the old product, which "
                "finishes it, and convert it then"
            )
        return acts

    # --- one row -------------------------------------------------------------------------------------------------

    def _row(self, row: LogRow) -> LogRow:
        type_, state = self._converted(row)
        now = sha256(state.encode()).digest()
        if row.erased_by is not None:
            self._erased[row.position] = (row.type, now.hex())
            self.counts["rows whose text was erased: digest of the old bytes kept"] += 1
        digest = now if row.erased_by is None else row.digest
        place = (row.position, row.stream, row.version, type_, digest)
        self._tree.add(leaf(self._head, *place))
        self._head = link(self._head, *place)
        if row.position in self._sizes:
            self._heads[row.position] = (self._head, self._tree.root(), self._tree.peaks)
        self.counts["events"] += 1
        return LogRow(*place[:4], state, digest, self._head, row.key, row.erased_by)

    def _converted(self, row: LogRow) -> tuple[str, str]:
        envelope = _members(row.state)
        change = tables.TYPES.get(row.type, tables.SAME)
        type_ = change.type or row.type
        if type_ != row.type:
            self.counts[f"{row.type} → {type_}"] += 1
        data = self._data(row, change, _members(envelope["data"]))
        members = self._envelope(envelope, row.type) | {"data": _raw(data)}
        return type_, self._encoded(row.position, type_, members)

    def _data(self, row: LogRow, change: tables.Change, data: dict[str, Raw]) -> dict[str, Raw]:
        if change.type == CommandAnswered.__name__:
            return {"subject": _raw(LEDGER_STREAM), "seen": _raw(0)}
        if row.type == "ContentErased":
            data["targets"] = _raw([self._target(row.position, each) for each in _any(data["targets"])])
        elif row.type == "CheckpointSealed":
            data |= self._sealed(_any(data["size"]))
        for name, of in tables.COMMAND_IDS.items():
            if row.type == name and of in data:
                data[of] = _raw(_mapped(self._acts, _any(data[of])))
        found = {}
        for name, value in data.items():
            if name in change.gone:
                self.counts[f"{row.type}.{name} left out"] += 1
                continue
            if name in change.values and bytes(value) != b"null":
                value = _raw(change.values[name](_any(value)))
            new = change.fields.get(name, name)
            if new != name:
                self.counts[f"{row.type}.{name} → {new}"] += 1
            found[new] = value
        return found

    def _target(self, at: int, target: dict[str, Any]) -> dict[str, Any]:
        """What was erased of one row, by today's names; of the last erasure the digest of what is left is today's."""
        type_, now = self._erased[target["position"]]
        change = tables.TYPES.get(type_, tables.SAME)
        if "fields" in target:
            target["fields"] = [new for each in target["fields"] if (new := change.path(each)) is not None]
        if "spans" in target:
            spans = ((change.path(name), start, end) for name, start, end in target["spans"])
            target["spans"] = [each for each in spans if each[0] is not None]
        sql = "SELECT erased_by FROM events WHERE position = ?"
        if self.connection.execute(sql, (target["position"],)).fetchone()[0] == at:
            target["after"] = now
        return {name: value for name, value in target.items() if value != []}

    def _sealed(self, size: int) -> dict[str, Raw]:
        head, root, peaks = self._heads[size]
        self.counts["checkpoints sealed again"] += 1
        sealed = CheckpointSealed(size, root.hex(), head.hex(), tuple(each.hex() for each in peaks))
        return _members(msgspec.json.encode(sealed))

    def _envelope(self, envelope: dict[str, Raw], type_: str) -> dict[str, Raw]:
        found = dict(envelope)
        if found.pop("arguments", None) is not None:
            self.counts["arguments of keyed commands left out"] += 1
        command = _any(found["command"])
        if (new := tables.command(command, self._marks[_any(found["command_id"])])) != command:
            self.counts[f"command {command} → {new}"] += 1
            found["command"] = _raw(new)
        if (act := self._acts.get(_any(found["command_id"]))) is not None:
            found["command_id"] = _raw(act)
            del found["correlation_id"]
            self.counts["events of bulk acts under one command"] += 1
        if found["command_id"] == found["event_id"]:
            del found["command_id"]  # a command goes by the id of its first event
        if "redactions" in found:
            change = tables.TYPES.get(type_, tables.SAME)
            redactions = [each | {"field": change.inside(each["field"])} for each in _any(found["redactions"])]
            found["redactions"] = _raw(redactions)
        return found

    @staticmethod
    def _encoded(position: int, type_: str, members: dict[str, Raw]) -> str:
        """The state as the product writes it; a field that it would not keep is an error of the tables."""
        given = msgspec.json.encode(members)
        try:
            envelope = msgspec.json.decode(given, type=Envelope[TYPES[type_]])  # type: ignore[valid-type]
        except msgspec.DecodeError as error:
            raise RejectedError(f"position {position}: as {type_} it cannot be read: {error}") from None
        usual = {
            each.name: each.default for each in msgspec.structs.fields(envelope.data) if _is_usual(envelope.data, each)
        }
        envelope.data = msgspec.structs.replace(envelope.data, **usual)  # only these very objects are left out
        state = mapper.to_stored("", 1, envelope).state
        if lost := next(_lost("", _any(given), envelope), None):
            raise RejectedError(f"position {position}: {type_} has no field {lost}")
        return state.decode()


def _raw(value: Any) -> Raw:
    return Raw(msgspec.json.encode(value))


def _mapped(names: dict[str, str], value: Any) -> Any:
    return [names.get(each, each) for each in value] if isinstance(value, list) else names.get(value, value)


def _is_usual(data: Struct, field: FieldInfo) -> bool:
    value = getattr(data, field.name)
    return bytes(value) == bytes(field.default) if isinstance(field.default, Raw) else value == field.default


def _lost(path: str, given: Any, kept: Any) -> Iterator[str]:
    """The names in a JSON value that the struct made of it does not have."""
    if isinstance(kept, Struct):
        fields = {each.encode_name: each.name for each in msgspec.structs.fields(kept)}
        for name, value in given.items():
            if name not in fields:
                yield path + name
            else:
                yield from _lost(f"{path}{name}.", value, getattr(kept, fields[name]))
    elif isinstance(kept, tuple):
        for one, other in zip(given, kept, strict=True):
            yield from _lost(path, one, other)


# --- one file --------------------------------------------------------------------------------------------------------


def opened(path: str) -> sqlite3.Connection:
    """The old file, to read and nothing else; ``RejectedError`` where it is none, or is not closed."""
    name = os.path.abspath(path)
    if not os.path.isfile(name):
        raise RejectedError(f"there is no file {name}")
    if os.path.exists(f"{name}-wal") and os.stat(f"{name}-wal").st_size:
        raise RejectedError(f"{name}-wal holds commits: open the ledger with the old product, and close it")
    connection = sqlite3.connect(f"file:{quote(name)}?immutable=1", uri=True)
    try:
        if connection.execute("PRAGMA application_id").fetchone()[0] == APPLICATION_ID:
            return connection
    except sqlite3.DatabaseError:
        pass
    connection.close()
    raise RejectedError(f"{name} is no ledger")


def convert(old: str, new: str) -> Counter[str]:
    """Writes the ledger ``new``, all or nothing, and says what was changed, by how often."""
    place = free_place(new, "a conversion")
    with closing(opened(old)) as connection, in_the_making(place, "a conversion") as part:
        conversion = Conversion(connection)
        with closing(EventStore.open(part)) as store, store.transact() as transaction:
            _write(transaction, conversion)
    return conversion.counts


def _write(transaction: Transaction, conversion: Conversion) -> None:
    rows = conversion.rows()
    while lot := list(islice(rows, CHUNK)):
        transaction.append_rows(lot)
    for blob in conversion.blobs():
        transaction.connection.execute("INSERT INTO blobs VALUES (?, ?, ?)", blob)
        conversion.counts["blobs"] += 1
    check_log(transaction.connection)


def main() -> int:
    parser = argparse.ArgumentParser(description="Translates a ledger of commit ee43cfd into the format of today.")
    parser.add_argument("old", help="the ledger as it was, which stays")
    parser.add_argument("new", help="where the new one goes: a path where nothing is")
    options = parser.parse_args()
    try:
        counts = convert(options.old, options.new)
    except (LedgerError, MsgspecError) as error:
        print(error, file=sys.stderr)
        return 2
    for what, count in counts.items():
        print(f"{count:>8}  {what}")
    with Ledger.open(options.new, create=False) as ledger:
        report = ledger.proof.verify(full=True)
    print("\n".join(report.problems) or f"verified: {report.events} events, head {report.head}")
    return 0 if report.ok else 1


if __name__ == "__main__":
    raise SystemExit(main())
