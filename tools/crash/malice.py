"""A test of edits by an attacker who can write the file: verifying finds each, some only by a checkpoint kept elsewhere.

The attacker drops the triggers, edits through plain SQLite, and puts the triggers back. For the thorough attacks the attacker
also computes the chain again and lets the product itself rebuild its tables. The attacks that only an outside checkpoint finds
are the control: if such an attack were found without a checkpoint, either the attack would be too weak or the promise
*tamper-evident against a checkpoint* would be.
"""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from ledger import Ledger, LedgerError
from ledger.log.envelope import GENESIS, link
from ledger.types import Event
from tools import inside
from tools.crash.bits import QUICK, fill, later, outside_of, verified
from tools.crash.result import Result


@dataclass(frozen=True, slots=True)
class Site:
    """The place of an attack: the ledger, an older copy of it, and another ledger, all closed."""

    path: Path
    older: Path
    other: Path
    choose: random.Random


@dataclass(frozen=True, slots=True)
class Attack:
    name: str
    act: Callable[[Site], None]
    hidden: bool = False  # nothing in the file shows the attack: only a checkpoint kept elsewhere does
    limit: str = ""  # the reason why nothing can show the attack; then it is reported, and is not a failure


def run(short: bool, seed: int) -> Result:
    started, notes, failures = time.monotonic(), list[str](), list[str]()
    with tempfile.TemporaryDirectory(prefix="ledger-malice-", dir=QUICK) as folder:
        outside = prepare(Path(folder))
        for attack in (Attack("nothing at all", lambda site: None), *ATTACKS):
            alone, against = (first_problem(Path(folder), attack, checkpoint, seed) for checkpoint in (None, outside))
            notes.append(
                f"{attack.name}: alone {alone or 'not found'}; with an outside checkpoint {against or 'not found'}"
            )
            notes += [f"{attack.name}: a known limit: {attack.limit}"] if attack.limit and not against else []
            failures += judged(attack, alone, against)
    return Result("malice", len(ATTACKS), tuple(failures), time.monotonic() - started, notes=tuple(notes))


def judged(attack: Attack, alone: str, against: str) -> Iterator[str]:
    """Yield the failures in the results of an attack without and with an outside checkpoint."""
    if attack.name == "nothing at all":
        if alone or against:
            yield f"an untouched ledger does not verify: {alone or against}"
        return
    if not against and not attack.limit:
        yield f"{attack.name}: not found, not even against an outside checkpoint"
    if attack.hidden and alone:
        yield f"control: {attack.name}: found without an outside checkpoint ({alone}), so the attack was not thorough"
    if not attack.hidden and not alone:
        yield f"{attack.name}: found by an outside checkpoint only, but the file itself should show it"


def first_problem(folder: Path, attack: Attack, outside: str | None, seed: int) -> str:
    """Attack a fresh copy and return the first problem that opening or verifying reports, or an empty text."""
    path = folder / "attacked.db"
    for old in folder.glob("attacked.db*"):
        old.unlink()
    shutil.copyfile(folder / "memory.db", path)
    attack.act(Site(path, folder / "older.db", folder / "other.db", random.Random(seed)))
    try:
        with Ledger.open(path, readonly=True, create=False) as ledger:
            problems = verified(ledger, outside)
    except LedgerError as error:
        return f"{type(error).__name__}: {error}"[:200]
    return problems[0][:160] if problems else ""


def prepare(folder: Path) -> str:
    """Make the ledger, its older copy and another ledger, and return the outside checkpoint of the ledger."""
    with Ledger.open(folder / "memory.db") as ledger:
        fill(ledger)
    shutil.copyfile(folder / "memory.db", folder / "older.db")
    with Ledger.open(folder / "memory.db") as ledger:
        later(ledger)
    outside = outside_of(folder / "memory.db")
    with Ledger.open(folder / "other.db") as ledger:
        fill(ledger)
        later(ledger)
    return outside


# --- tools of the attacker -------------------------------------------------------------------------------------------


@contextmanager
def unguarded(path: Path) -> Iterator[sqlite3.Connection]:
    """Yield a connection to the file without its triggers, which are put back word for word."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        triggers = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        connection.execute("BEGIN IMMEDIATE")
        for name, _ in triggers:
            connection.execute(f"DROP TRIGGER {name}")
        yield connection
        for _, sql in triggers:
            connection.execute(sql)
        connection.execute("COMMIT")


def last(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT max(position) FROM events").fetchone()[0])


def a_memory(connection: sqlite3.Connection) -> tuple[int, dict[str, Any]]:
    """Return the position and the state of the first captured memory."""
    sql = "SELECT position, state FROM events WHERE type = 'MemoryCaptured' ORDER BY position"
    position, state = connection.execute(sql).fetchone()
    return position, json.loads(state)


def reworded(connection: sqlite3.Connection) -> int:
    """Write another text in the place of the first memory's text, and return its position."""
    position, state = a_memory(connection)
    state["data"]["content"] = "The user prefers decaf."
    text = json.dumps(state, ensure_ascii=False, separators=(",", ":"))
    connection.execute("UPDATE events SET state = ? WHERE position = ?", (text, position))
    return position


def chain_again(connection: sqlite3.Connection) -> None:
    """Compute digests and heads as if the log had always been like this."""
    head = GENESIS
    sql = "SELECT position, stream, version, type, state, digest, erased_by FROM events ORDER BY position"
    for position, stream, version, type_, state, digest, erased_by in connection.execute(sql).fetchall():
        if erased_by is None:  # an erased row keeps the digest of its original state
            digest = sha256(state.encode()).digest()
        head = link(head, position, stream, version, type_, digest)
        connection.execute("UPDATE events SET digest = ?, head = ? WHERE position = ?", (digest, head, position))


def renumber(connection: sqlite3.Connection) -> None:
    """Close the gaps that removed events left in positions and versions."""
    versions: dict[str, int] = {}
    rows = connection.execute("SELECT position, stream FROM events ORDER BY position").fetchall()
    for place, (position, stream) in enumerate(rows, 1):
        versions[stream] = versions.get(stream, 0) + 1
        values = (place, versions[stream], position)
        connection.execute("UPDATE events SET position = ?, version = ? WHERE position = ?", values)


def fold_again(path: Path) -> None:
    """Rebuild the tables by the product itself, so that they agree with the changed log.

    The checkpoint of the tables is set back first, because a ledger whose tables are ahead of its log does not open.
    """
    with unguarded(path) as connection:
        end = connection.execute("SELECT position, head FROM events ORDER BY position DESC LIMIT 1").fetchone()
        connection.execute("UPDATE checkpoint SET position = ?, head = ?", end)
        connection.execute("DELETE FROM audit WHERE position > ?", end[:1])
    with Ledger.open(path) as ledger:
        inside.rebuild(ledger)


# --- attacks that the file itself tells ------------------------------------------------------------------------------


def edit(*statements: str) -> Callable[[Site], None]:
    """Return an attack that runs plain statements without the triggers in the way."""

    def act(site: Site) -> None:
        with unguarded(site.path) as connection:
            for statement in statements:
                if not connection.execute(statement).rowcount:
                    raise RuntimeError(f"the attack changed no row: {statement}")

    return act


def swap(site: Site) -> None:
    with unguarded(site.path) as connection:
        first = site.choose.randrange(2, last(connection))
        for old, new in ((first, -1), (first + 1, first), (-1, first + 1)):
            connection.execute("UPDATE events SET position = ? WHERE position = ?", (new, old))


def duplicate(site: Site) -> None:
    with unguarded(site.path) as connection:
        position, _ = a_memory(connection)
        connection.execute(
            "INSERT INTO events SELECT (SELECT max(position) + 1 FROM events), stream,"
            " (SELECT max(version) + 1 FROM events i WHERE i.stream = e.stream), type, state, digest, head, NULL, NULL"
            " FROM events e WHERE position = ?",
            (position,),
        )


def reword(site: Site) -> None:
    with unguarded(site.path) as connection:
        reworded(connection)


def reword_with_digest(site: Site) -> None:
    with unguarded(site.path) as connection:
        position = reworded(connection)
        (state,) = connection.execute("SELECT state FROM events WHERE position = ?", (position,)).fetchone()
        digest = sha256(state.encode()).digest()
        connection.execute("UPDATE events SET digest = ? WHERE position = ?", (digest, position))


def forge_erasure(site: Site) -> None:
    """Change a text and mark its row as erased, which may differ from its digest, so that the claim itself must be checked."""
    with unguarded(site.path) as connection:
        position = reworded(connection)
        connection.execute("UPDATE events SET erased_by = ? WHERE position = ?", (last(connection), position))


def forge_whole_erasure(site: Site) -> None:
    """Erase one field truly, and under that cover change another text of the row and the event that vouches for it."""
    with unguarded(site.path) as connection:
        position, _ = a_memory(connection)
    with Ledger.open(site.path) as ledger:
        ledger.erase(Event(position, ["data.tags"]), derived="keep", sources="keep", quotes="keep")
    with unguarded(site.path) as connection:
        reworded(connection)
        (state,) = connection.execute("SELECT state FROM events WHERE position = ?", (position,)).fetchone()
        sql = "SELECT position, state FROM events WHERE type = 'ContentErased' ORDER BY position DESC"
        at, erasure_state = connection.execute(sql).fetchone()
        event = json.loads(erasure_state)
        event["data"]["targets"][0]["after"] = sha256(state.encode()).hexdigest()
        connection.execute("UPDATE events SET state = ? WHERE position = ?", (json.dumps(event), at))
        chain_again(connection)
    fold_again(site.path)


def schema(*statements: str) -> Callable[[Site], None]:
    def act(site: Site) -> None:
        with closing(sqlite3.connect(site.path, isolation_level=None)) as connection:
            for statement in statements:
                connection.execute(statement)

    return act


def rekey_thoroughly(site: Site) -> None:
    """Change the keys of commands, which lie beside the state, and on which the answer to a repeated command depends."""
    edit("UPDATE events SET key = x'00' WHERE key IS NOT NULL")(site)
    fold_again(site.path)


def index_again(site: Site) -> None:
    """Make the text index find a memory by words that the memory does not hold."""
    with closing(sqlite3.connect(site.path, isolation_level=None)) as connection:
        (row,) = connection.execute("SELECT row FROM memories WHERE status = 'active' LIMIT 1").fetchone()
        connection.execute("INSERT INTO search (rowid, content, words) VALUES (?, 'decaf forever', '')", (row,))


# --- attacks that only a checkpoint kept elsewhere tells -------------------------------------------------------------


def truncate_thoroughly(site: Site) -> None:
    with unguarded(site.path) as connection:
        connection.execute("DELETE FROM events WHERE position > ?", (last(connection) - 3,))
    fold_again(site.path)


def recompute(site: Site) -> None:
    with unguarded(site.path) as connection:
        reworded(connection)
        chain_again(connection)
    fold_again(site.path)


def remove_a_memory(site: Site) -> None:
    """Remove a memory that nothing else names: it has no erasure and no other event."""
    with unguarded(site.path) as connection:
        (stream,) = connection.execute(
            "SELECT stream FROM events GROUP BY stream HAVING count(*) = 1 AND max(type) = 'MemoryCaptured'"
            " AND max(erased_by) IS NULL ORDER BY max(position) DESC"
        ).fetchone()
        connection.execute("DELETE FROM events WHERE stream = ?", (stream,))
        renumber(connection)
        chain_again(connection)
    fold_again(site.path)


def roll_back(site: Site) -> None:
    shutil.copyfile(site.older, site.path)


def replace(site: Site) -> None:
    shutil.copyfile(site.other, site.path)


COVER = "only the erasure binds the rest of an erased row; a checkpoint taken after a true erasure shows it, an older one not"
ATTACKS = (
    Attack("truncate the tail", edit("DELETE FROM events WHERE position > (SELECT max(position) - 3 FROM events)")),
    Attack("truncate the tail, rebuild", truncate_thoroughly, hidden=True),
    Attack("swap two rows", swap),
    Attack("duplicate a row", duplicate),
    Attack("change a text", reword),
    Attack("change a text and its digest", reword_with_digest),
    Attack("change a text, recompute the chain, rebuild", recompute, hidden=True),
    Attack("remove a memory, renumber, recompute, rebuild", remove_a_memory, hidden=True),
    Attack("roll the file back", roll_back, hidden=True),
    Attack("put another ledger's file in its place", replace, hidden=True),
    Attack("forge erased_by", forge_erasure),
    Attack(
        "change a text under cover of an erasure, recompute, rebuild", forge_whole_erasure, hidden=True, limit=COVER
    ),
    Attack("change a text in the blobs", edit("UPDATE blobs SET data = data || x'21'")),
    Attack("remove a text from the blobs", edit("DELETE FROM blobs")),
    Attack("empty a text in the blobs", edit("UPDATE blobs SET data = NULL, erased_by = 3")),
    Attack("edit a memory's row", edit("UPDATE memories SET content = 'decaf' WHERE status = 'active'")),
    Attack("edit the audit's rows", edit("UPDATE audit SET actor = 'somebody else'")),
    Attack("edit the checkpoint of the tables", edit("UPDATE checkpoint SET head = zeroblob(32)")),
    Attack("move a key to another event", edit("UPDATE events SET key = x'00' WHERE key IS NOT NULL")),
    Attack("change the keys, rebuild", rekey_thoroughly),
    Attack("teach the text index other words", index_again),
    Attack("drop a trigger", schema("DROP TRIGGER events_stay")),
    Attack(
        "replace a trigger by one that allows",
        schema("DROP TRIGGER events_stay", "CREATE TRIGGER events_stay BEFORE DELETE ON events BEGIN SELECT 1; END"),
    ),
    Attack(
        "add a trigger that acts",
        schema("CREATE TRIGGER evil AFTER INSERT ON audit BEGIN UPDATE memories SET confidence = 0; END"),
    ),
    Attack("add a view", schema("CREATE VIEW evil AS SELECT * FROM events")),
    Attack("drop an index", schema("DROP INDEX memories_1_1")),
    Attack("change the file's format number", schema("PRAGMA user_version = 0")),
)
