"""The ledger as a store of agent-memory-integrity, whose ``agmi-check`` edits a store's records and asks if anybody notices.

A record is a row of the log with a memory; a user is a context. The edits switch the file's triggers off first and change the
rows as they lie. They do not compute the chain anew, which only a checkpoint kept elsewhere reveals (``ledger/docs/proof.md``).
Each class is one way to read: its detection point is the read, not an audit afterwards.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Literal

from agmi.adapters.base import MemoryAdapter, Record  # type: ignore[import-not-found]

from ledger import Ledger, LedgerError
from ledger.log.sqlite_files import SCHEMA

COLUMNS = ("position", "stream", "version", "type", "state", "digest", "head", "key", "erased_by")
CONTENT = COLUMNS[3:8]  # what moves with a record; its place in the log and in its stream stays
VICTIM, OTHER = "ada", "bob"


class ReadAdapter(MemoryAdapter):  # type: ignore[misc]
    """A ledger that is opened as by default, and shows every memory with its history."""

    name = "ledger: open, recall and history"
    detection_point = "read"
    supports_replay = supports_metadata = supports_snapshot = True
    verification: Literal["tail", "full"] | None = None
    keeps_checkpoint = False

    def setup(self) -> None:
        self._folder = Path(tempfile.mkdtemp())
        self._path = self._folder / "store" / "memory.db"
        self._path.parent.mkdir()
        self._kept: str | None = None
        self._streams: dict[str, list[str]] = {VICTIM: [], OTHER: []}

    def teardown(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    # --- the ledger's own writing ------------------------------------------------------------------------------------

    def seed(self, n: int) -> None:
        self._remember(VICTIM, n)

    def seed_other(self, n: int) -> None:
        self._remember(OTHER, n)

    def append_genuine(self) -> None:
        self._remember(VICTIM, 1)

    def _remember(self, user: str, count: int) -> None:
        with Ledger.open(self._path, user=user) as ledger:
            for _ in range(count):
                number = len(self._streams[user])
                text = f"The limit of {user.title()}'s account number {number} is {40 + number} euros."
                self._streams[user].append(ledger.remember(text).id)
            if self.keeps_checkpoint:
                self._kept = ledger.proof.checkpoint().text

    # --- reading -----------------------------------------------------------------------------------------------------

    def reload(self) -> None:
        pass  # each read opens the ledger

    def verify(self) -> bool:
        try:
            with Ledger.open(self._path, user=VICTIM, verify=self.verification, against=self._kept) as ledger:
                ledger.recall("What is the limit of the account?")
                for memory in ledger.memories.list().all():
                    ledger.why(memory.id)
                    list(ledger.history.events(memory.id).all())
        except LedgerError as error:
            self.verify_detail = f"{type(error).__name__}: {error}"[:200]
            return False
        return True

    # --- the edits, behind the ledger's back -------------------------------------------------------------------------

    def read_all_raw(self) -> list[Record]:
        return self._records(VICTIM)

    def read_other_raw(self) -> list[Record]:
        return self._records(OTHER)

    def write_raw(self, record: Record) -> None:
        values, place = [record.fields[column] for column in CONTENT], self._position(record.seq)
        with self._raw() as connection:
            if place is not None:
                assignments = ", ".join(f"{column} = ?" for column in CONTENT)
                connection.execute(f"UPDATE events SET {assignments} WHERE position = ?", (*values, place))
            else:
                last = connection.execute("SELECT max(position) FROM events").fetchone()[0]
                row = (last + 1, record.fields["stream"], record.fields["version"], *values, None)
                connection.execute(f"INSERT INTO events VALUES ({', '.join('?' * len(COLUMNS))})", row)
                self._streams[VICTIM].append(record.fields["stream"])

    def delete_raw(self, seq: int) -> None:
        place = self._position(seq)
        with self._raw() as connection:
            connection.execute("DELETE FROM events WHERE position = ?", (place,))

    def replay_onto(self, victim_seq: int, donor: Record) -> None:
        self.write_raw(Record(victim_seq, dict(donor.fields)))

    def mutate_payload(self, record: Record) -> Record:
        return _changed(record, lambda envelope: envelope["data"].update(content="The limit is a million euros."))

    def forge_record(self, template: Record) -> Record:
        forged = self.mutate_payload(Record(template.seq + 1, dict(template.fields)))
        forged.fields["stream"] = "m_" + "0" * (len(template.fields["stream"]) - 2)
        return forged

    def read_meta(self, seq: int) -> dict[str, object]:
        return {"recorded_at": json.loads(self._records(VICTIM)[seq].fields["state"])["recorded_at"]}

    def write_meta(self, seq: int, meta: dict[str, object]) -> None:
        moment = "2030-01-01T00:00:00.000000Z" if meta.get("agmi_meta_tampered") else meta["recorded_at"]
        record = self._records(VICTIM)[seq]
        self.write_raw(_changed(record, lambda envelope: envelope.update(recorded_at=moment)))

    def snapshot_store(self) -> object:
        copy = self._folder / "older"
        shutil.copytree(self._path.parent, copy)
        return copy

    def restore_store(self, token: object) -> None:
        shutil.rmtree(self._path.parent)
        shutil.copytree(str(token), self._path.parent)
        self._streams[VICTIM].pop()

    def identity_of(self, record: Record) -> str:
        return str(record.fields["stream"])

    def payload_of(self, record: Record) -> str:
        return str(json.loads(record.fields["state"])["data"]["content"])

    def owner_of(self, record: Record) -> str | None:
        return next((user for user, streams in self._streams.items() if record.fields["stream"] in streams), None)

    def _records(self, user: str) -> list[Record]:
        marks = ", ".join("?" * len(self._streams[user]))
        sql = f"SELECT {', '.join(COLUMNS)} FROM events WHERE version = 1 AND stream IN ({marks}) ORDER BY position"
        with self._raw() as connection:
            rows = connection.execute(sql, self._streams[user]).fetchall()
        return [Record(seq, dict(zip(COLUMNS, row, strict=True))) for seq, row in enumerate(rows)]

    def _position(self, seq: int) -> int | None:
        records = self._records(VICTIM)
        return records[seq].fields["position"] if seq < len(records) else None

    @contextmanager
    def _raw(self) -> Iterator[sqlite3.Connection]:
        """Yield the file without its triggers, and put them back."""
        triggers = [part for part in SCHEMA.replace("END;", "END;\0").split("\0") if "CREATE TRIGGER" in part]
        created = [part[part.index("CREATE TRIGGER") :].strip() for part in triggers]
        with closing(sqlite3.connect(self._path)) as connection:
            for sql in created:
                connection.execute(f"DROP TRIGGER IF EXISTS {sql.split()[2]}")
            yield connection
            for sql in created:
                connection.execute(sql)
            connection.commit()


def _changed(record: Record, change: Callable[[dict[str, Any]], None]) -> Record:
    """Return the record with a change of its event; its digest and head stay as they were."""
    envelope = json.loads(record.fields["state"])
    change(envelope)
    record.fields["state"] = json.dumps(envelope, separators=(",", ":"))
    return record


class TailAdapter(ReadAdapter):
    """A ledger that checks the chain of its log when it is opened."""

    name = 'ledger: open(verify="tail")'
    verification = "tail"


class FullAdapter(ReadAdapter):
    """A ledger that checks everything when it is opened."""

    name = 'ledger: open(verify="full")'
    verification = "full"


class AgainstAdapter(ReadAdapter):
    """A ledger that is opened against a checkpoint kept elsewhere."""

    name = "ledger: open(against=checkpoint)"
    keeps_checkpoint = True
