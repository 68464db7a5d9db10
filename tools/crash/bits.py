"""A test of one flipped bit in any byte of a ledger and of its -wal: no event changes in silence.

Every image is opened for reading and verified. *Flagged*: opening or verifying reports a typed error, a problem or a warning.
*Harmless*: the image verifies, and every event, text and row is as before. *Cut*: the -wal ends earlier, which SQLite cannot
tell from a crash; the events left are a prefix, and the outside checkpoint shows it. Any other outcome is a failure.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from ledger import Ledger, LedgerError, NotFoundError
from ledger.core.reads import FoldReading
from ledger.log import sqlite_files
from ledger.log.integrity import check_chain
from projections.core import shadow
from projections.core.projector import Projector, text_indexes
from projections.core.rows import Packed, TextIndex
from projections.search.memory_hits import RESTATABLE
from tools import inside
from tools.crash import flipped_writes
from tools.crash.result import Result

ROOT = Path(__file__).resolve().parents[2]
QUICK = "/dev/shm" if os.path.isdir("/dev/shm") else None  # durability is not tested here
PAGE, WAL_HEADER, FRAME_HEADER = (
    512,
    32,
    24,
)  # bytes; with SQLite's own page of 4,096 nine tenths of the image would be empty
A_PAGE, A_FRAME = 1, 1  # bytes in use that a short run flips in each page and frame, beside the headers
CHUNK = 200
WRITE_CHUNK = 20
SHORT_WRITES, LONG_WRITES = 20, 10_000
KEPT_FOLDS = 50  # the folds of the image and of its prefixes where the -wal is cut
QUESTION = "coffee tea Porto marathon office"
CHECKED = "position, stream, version, type, state, digest, head, erased_by"  # the columns that check_chain takes


@dataclass(frozen=True, slots=True)
class Flip:
    """A bit of a file of the image: of the ledger itself ("") or of its "-wal"."""

    suffix: str
    byte: int
    bit: int


@dataclass(frozen=True, slots=True)
class Told:
    """The whole content of a ledger: its log and texts, and every row of every other table."""

    events: tuple[Any, ...]
    blobs: tuple[Any, ...]
    rest: str


@dataclass(slots=True)
class Seen:
    """The verdict on a flip, and the verdicts of two weaker checks."""

    verdict: str
    detail: str = ""
    chain_missed: bool = False  # the chain alone found nothing, although something is wrong
    read_otherwise: bool = False  # a reader who does not verify reads something else, without an error


def run(short: bool, seed: int, part: tuple[int, int] = (1, 1)) -> Result:
    """Try all flips, or one part of them: (2, 8) is the second of eight parts, which together are all flips."""
    started, found, failures = time.monotonic(), list[Seen](), list[str]()
    with tempfile.TemporaryDirectory(prefix="ledger-bits-", dir=QUICK) as folder:
        image = Path(folder, "memory.db")
        outside = make(image)
        sizes = {suffix: os.stat(f"{image}{suffix}").st_size for suffix in ("", "-wal")}
        flips = list(sampled(image, random.Random(seed)) if short else every(image, random.Random(seed)))
        flips = flips[part[0] - 1 :: part[1]]
        found, failures = in_processes(image, outside, flips)
        most = SHORT_WRITES if short else LONG_WRITES // part[1]
        written, wrong = opened_for_writing(image, random.Random(f"{seed} {part[0]}"), most)
        failures += wrong
    count = Counter(seen.verdict for seen in found)
    failures += [seen.detail for seen in found if seen.verdict == "silent"]
    failures += controls(found)
    notes = (
        f"{sizes['']:,} bytes of ledger and {sizes['-wal']:,} of -wal; flagged {count['flagged']:,}, harmless "
        f"{count['harmless']:,}, cut and found by the outside checkpoint {count['cut']:,}, silent {count['silent']:,}",
        f"controls: the chain alone missed {sum(seen.chain_missed for seen in found):,} of the flagged, a reader who "
        f"does not verify read something else {sum(seen.read_otherwise for seen in found):,} times",
        written,
    )
    return Result("bits", len(found), tuple(failures), time.monotonic() - started, notes=notes)


def opened_for_writing(image: Path, choose: random.Random, most: int) -> tuple[str, list[str]]:
    """Try some of the flips, each in a copy that is opened for writing, and return a note and the failures."""
    before = flipped_writes.sound(str(image))
    every_flip = list(sampled(image, choose))
    flips = [choose.choice(every_flip) for _ in range(most)]
    processes = os.cpu_count() or 1
    chunks = [flips[start : start + WRITE_CHUNK] for start in range(0, len(flips), WRITE_CHUNK)]
    outcomes, failures = list[flipped_writes.Outcome](), list[str]()
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        under_way = {
            pool.submit(flipped_writes.try_flips, str(image), chunk, toggle, before): chunk for chunk in chunks
        }
        for future in as_completed(under_way):
            try:
                outcomes += future.result()
            except BrokenProcessPool:
                failures.append(f"a process that wrote died or hung on one of {under_way[future]}")
    count, otherwise = Counter(outcome.verdict for outcome in outcomes), sum(outcome.otherwise for outcome in outcomes)
    note = (
        f"opened for writing {len(outcomes):,}: harmless {count['harmless']:,}, refused {count['refused']:,}, told "
        f"{count['told']:,}, cut {count['cut']:,}, silent {count['silent']:,}; {otherwise:,} had a read that answered "
        f"something else, which a full check found; {sum(outcome.rebuilt for outcome in outcomes):,} rebuilt"
    )
    failures += [outcome.detail for outcome in outcomes if outcome.verdict == "silent"]
    return note, failures + flipped_writes.control(str(image), before)


def controls(found: list[Seen]) -> list[str]:
    """Return a failure for each weaker check that did not fail, because then the stronger check has proved nothing."""
    missing = []
    if not any(seen.chain_missed for seen in found):
        missing.append("control: the chain alone missed nothing, so the other checks were not needed here")
    if not any(seen.read_otherwise for seen in found):
        missing.append("control: no flip changed what a reader sees, so nothing was there to be found")
    return missing


# --- the image -------------------------------------------------------------------------------------------------------


def make(path: Path) -> str:
    """Make a ledger with commits in its -wal, as a process leaves it that ends without closing; return its outside checkpoint."""
    code = "import sys; from tools.crash import bits; bits.build(sys.argv[1])"
    done = subprocess.run([sys.executable, "-c", code, str(path)], cwd=ROOT, capture_output=True, text=True, check=True)
    return str(json.loads(done.stdout))


def build(path: str) -> None:
    """Build the ledger in a process of its own and end without closing.

    The process that copies the files cannot do this, because closing a file would drop SQLite's locks.
    """
    sqlite_files.SCHEMA = f"PRAGMA page_size = {PAGE}; {sqlite_files.SCHEMA}"
    ledger = Ledger.open(path)
    fill(ledger)
    if not inside.store(ledger).checkpoint():
        raise RuntimeError("the ledger could not be checkpointed")
    later(ledger)
    print(json.dumps(outside_of(path)), flush=True)
    os._exit(0)


def fill(ledger: Ledger) -> None:
    """Write a little of everything, so that every table holds rows; one text lies in the blobs."""
    from ledger.core import work as writing

    kept, writing.INLINE_BYTES = writing.INLINE_BYTES, 64
    turn = ledger.capture(
        "Which coffee? " * 5, "The user prefers dark roast coffee. " * 3, session="s1", project="home"
    )
    writing.INLINE_BYTES = kept
    fact = ledger.remember(
        "The user prefers dark roast coffee.", kind="preference", idempotency_key="k1", tags=["drink"]
    )
    ledger.bind(actor="someone").remember("The user prefers dark roast coffee.", kind="preference")
    idea = ledger.propose("Ann trains for a marathon.", sources=[turn.id], project="home", entities=["Ann"])
    ledger.promote(idea.id)
    ledger.reject(ledger.propose("The moon is a cheese.").id, reason="it is not")
    tea = ledger.supersede(fact.id, "The user prefers green tea.", reason="said so on Monday")
    ledger.reinforce(tea.id, source=turn.id)
    ledger.revise(tea.id, "The user prefers green tea, cold.")
    ledger.memories.set_confidence(idea.id, 0.4)
    ann = ledger.bind(user="ann")
    ann.retract(ann.remember("A passing thought.").id)
    ledger.projects.set_state("home", "fact", "city", "Porto")
    ledger.projects.set_state("home", "fact", "city", "Lisbon")
    ledger.projects.add_alias("home", "casa")
    ledger.undo(ledger.remember("Taken back later.").position)
    ledger.policy.set(gain=0.03)
    ledger.erase(ledger.remember("A secret of the user.", tags=["secret"]).id, reason="on request")
    with suppress(LedgerError):
        ledger.reject(tea.id)  # the refusal leaves its own event
    ledger.documents.add("# Porto\n\nThe office is there.\n", title="Notes", project="home")
    ledger.graph.relate(tea.id, "Ann", "works at", "the office")
    ledger.recall(QUESTION, among=flipped_writes.EVERYTHING)  # the text indexes take in the waiting texts


def later(ledger: Ledger) -> None:
    """Write commits that stay in the -wal."""
    ledger.remember("The lamp is on.")
    ledger.remember("The office moved to Porto in May.", project="home", idempotency_key="k2")
    ledger.capture("Where is the office?", "The office moved to Porto.", session="s1", reinforce=False)
    ledger.guards.quarantine(ledger.memories.list(limit=1)[0].id)


# --- flips -----------------------------------------------------------------------------------------------------------


def every(image: Path, choose: random.Random) -> Iterator[Flip]:
    """Yield one bit of every byte of both files."""
    for suffix in ("", "-wal"):
        for byte in range(os.stat(f"{image}{suffix}").st_size):
            yield Flip(suffix, byte, choose.randrange(8))


def sampled(image: Path, choose: random.Random) -> Iterator[Flip]:
    """Yield flips in two bytes of every page and of every frame of the -wal, and in every second byte of both headers."""
    for suffix, size, head, a_part, whole in (
        ("", PAGE, 1, A_PAGE, 100),
        ("-wal", PAGE + FRAME_HEADER, 1, A_FRAME, 32),
    ):
        data = Path(f"{image}{suffix}").read_bytes()
        start = WAL_HEADER if suffix else 0
        chosen = set(range(0, whole, 2))
        for first in range(start, len(data), size):
            part = range(first, min(first + size, len(data)))
            chosen.update(choose.sample(part[: 8 * head], head))
            used = [byte for byte in part if data[byte]]  # the empty part of a page says nothing
            chosen.update(choose.sample(used, min(len(used), a_part)))
        yield from (Flip(suffix, byte, choose.randrange(8)) for byte in sorted(chosen))


def in_processes(image: Path, outside: str | None, flips: list[Flip]) -> tuple[list[Seen], list[str]]:
    """Try every flip in as many processes as there are processors; a process that dies or hangs is a failure."""
    results, failures = list[Seen](), list[str]()
    chunks = [flips[start : start + CHUNK] for start in range(0, len(flips), CHUNK)]
    with ProcessPoolExecutor(os.cpu_count() or 1, get_context("spawn"), initializer=fold_once) as pool:
        under_way = {pool.submit(try_chunk, str(image), outside, chunk): chunk for chunk in chunks}
        for future in as_completed(under_way):
            try:
                results += future.result()
            except BrokenProcessPool:
                first, last = under_way[future][0], under_way[future][-1]
                failures.append(f"a process died or hung between {first} and {last}")
    return results, failures


def try_chunk(image: str, outside: str | None, flips: list[Flip]) -> list[Seen]:
    """Try flips one after the other in one copy, whose bytes are put back each time; nothing else writes to the copy."""
    import faulthandler

    with tempfile.TemporaryDirectory(prefix="ledger-bits-", dir=QUICK) as folder:
        path = os.path.join(folder, "memory.db")
        for suffix in ("", "-wal"):
            shutil.copyfile(image + suffix, path + suffix)
        before, verdict = read(path), look(path, outside, None)
        if isinstance(before, str) or verdict.verdict != "harmless":
            raise RuntimeError(
                f"the image is not sound before any flip: {before if isinstance(before, str) else verdict}"
            )
        results = []
        for flip in flips:
            faulthandler.dump_traceback_later(flipped_writes.HANG_SECONDS, exit=True)
            results.append(flipped(path, flip, lambda: look(path, outside, before)))
            faulthandler.cancel_dump_traceback_later()
        if read(path) != before:
            raise RuntimeError("the image was written to, although it was opened for reading only")
    return results


def flipped(path: str, flip: Flip, looking: Callable[[], Seen]) -> Seen:
    toggle(path, flip)
    try:
        seen = looking()
    finally:
        toggle(path, flip)
    if seen.verdict == "silent":
        seen.detail = f"bit {flip.bit} of byte {flip.byte:,} of memory.db{flip.suffix}: {seen.detail}"
    return seen


def toggle(path: str, flip: Flip) -> None:
    """Flip a bit and remove the -shm, which is an index of the former -wal."""
    with open(path + flip.suffix, "r+b") as file:
        file.seek(flip.byte)
        value = file.read(1)[0]
        file.seek(flip.byte)
        file.write(bytes([value ^ 1 << flip.bit]))
    if os.path.exists(path + "-shm"):
        os.unlink(path + "-shm")


# --- what is seen ----------------------------------------------------------------------------------------------------


def look(path: str, outside: str | None, before: Told | None) -> Seen:
    """Open, read, walk the chain and verify.

    Args:
        path: the file with the flip.
        outside: the checkpoint kept elsewhere.
        before: the content of the sound image, or None to try the sound image itself.
    """
    seen = Seen("flagged")
    now, chain, unread = None, True, ""
    try:
        with Ledger.open(path, readonly=True, create=False) as ledger:
            try:
                now = content_of(ledger)
                seen.read_otherwise = before is not None and now != before
                chain = bool(list(check_chain(row[:8] for row in now.events)))
            except LedgerError as error:
                unread = str(error)  # reading reports the damage; verifying has to do so too
            problems = warned(ledger)
            if not problems:
                judge(seen, now, before, lambda: against(ledger, outside))
                seen.detail += f" ({unread})" if unread else ""
    except LedgerError:
        pass
    except Exception as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(frame.filename).name}:{frame.lineno} in {frame.name}"
        return Seen("silent", f"{type(error).__name__} reached the caller from {where}: {error}"[:300])
    seen.chain_missed = seen.verdict == "flagged" and not chain
    return seen


def judge(seen: Seen, now: Told | None, before: Told | None, outside: Callable[[], Iterable[str]]) -> None:
    """Judge an image that verifies by itself: its content must be as before, or a prefix that the outside checkpoint reveals."""
    if now is None:
        seen.verdict, seen.detail = "silent", "the image cannot be read, and it verifies"
    elif before is None or now == before:
        seen.verdict = "harmless"
    elif now.events != before.events[: len(now.events)] or not set(now.blobs) <= set(before.blobs):
        seen.verdict, seen.detail = "silent", "the log says something else, and it verifies"
    elif len(now.events) == len(before.events):
        seen.verdict, seen.detail = "silent", "the rows beside the log say something else, and it verifies"
    elif outside():
        seen.verdict = "cut"
    else:
        seen.verdict, seen.detail = "silent", "events are gone, and the outside checkpoint does not show it"


def read(path: str) -> Told | str:
    try:
        with Ledger.open(path, readonly=True, create=False) as ledger:
            return content_of(ledger)
    except LedgerError as error:
        return str(error)


def content_of(ledger: Ledger) -> Told:
    """Return every row and the answers of a few reads.

    A text index counts by its hits and their scores: a text may be in the index or wait for it, as after a private fold, and
    the pages of the index hold numbers without meaning, such as the number of writes.
    """
    indexes: list[TextIndex | Packed] = [*(index for _, index in text_indexes()), RESTATABLE]
    within = {f"{index.name}{part}" for index in indexes for part in ("", "_data", "_idx", "_docsize")}
    within |= {index.waiting.name for index in indexes}
    with inside.store(ledger).snapshot() as connection:
        events = tuple(connection.execute(f"SELECT {CHECKED}, key FROM events ORDER BY position"))
        blobs = tuple(connection.execute("SELECT id, data, erased_by FROM blobs ORDER BY id"))
        listed = connection.execute("SELECT CAST(name AS TEXT) FROM sqlite_master WHERE CAST(type AS TEXT) = 'table'")
        tables = [name for (name,) in listed]
        own = sorted(name for name in tables if name not in ("leases", "blobs") and name not in within)
        rows = [sorted(map(repr, connection.execute(f'SELECT * FROM "{name}"'))) for name in own]
    answers = [
        list(ledger.memories.list(statuses=(), limit=1_000)),
        list(ledger.bind(user="ann").memories.list(statuses=(), limit=1_000)),
        list(ledger.interactions.list()),
        list(ledger.history.audit(limit=1_000)),
        _state(ledger),
        [(item.id, item.score) for item in ledger.recall(QUESTION, among=flipped_writes.EVERYTHING).items],
    ]
    return Told(events, blobs, repr((own, rows, flipped_writes.whole(answers))))


def _state(ledger: Ledger) -> Any:
    """Return the state of the project; () if a damaged row has lost the project's name."""
    try:
        return ledger.projects.state("home", history=True)
    except NotFoundError:
        return ()


def outside_of(path: str | Path) -> str:
    """Return a checkpoint of the whole log to keep elsewhere; a reader takes it, so that the log does not grow by it."""
    with Ledger.open(path, readonly=True) as ledger:
        return ledger.proof.checkpoint().text


def verified(ledger: Ledger, outside: str | None) -> tuple[str, ...]:
    """Return the problems that a full check finds, with an outside checkpoint or without."""
    return ledger.proof.verify(full=True, against=outside).problems


def warned(ledger: Ledger) -> tuple[str, ...]:
    """Return the problems and warnings of a full check; a table that claims another version is not compared, but warned about."""
    report = ledger.proof.verify(full=True)
    return (*report.problems, *report.warnings)


def against(ledger: Ledger, outside: str | None) -> tuple[str, ...]:
    """Return the problems of a log that verifies by itself, without a second look at its projections."""
    return ledger.proof.verify(full=True, against=outside, projections=False).problems


def fold_once() -> None:
    """Replace folding by a version that remembers its results, because a fold depends on nothing but the log.

    An index can differ from its table only where SQLite's own check finds the difference.
    """
    fold_into, known = shadow.fold_into, dict[tuple[Any, ...], tuple[sqlite3.Connection, Projector]]()

    def remembered(beside: sqlite3.Connection, log: FoldReading, *place: Any, **options: Any) -> Projector:
        live = log._connect()
        try:
            log_rows = tuple(
                tuple(live.execute(f"SELECT * FROM main.{table} ORDER BY 1")) for table in ("events", "blobs")
            )
        except (sqlite3.Error, UnicodeDecodeError):  # the name of a column may not decode
            return fold_into(beside, log, *place, **options)
        if (kept := known.get((log_rows, *place))) is not None:
            kept[0].backup(beside)
            return kept[1]
        fold = fold_into(beside, log, *place, **options)
        if len(known) < KEPT_FOLDS:
            copy = sqlite3.connect(":memory:")
            beside.backup(copy)
            known[log_rows, *place] = copy, fold
        return fold

    shadow.fold_into = remembered  # type: ignore[assignment]
