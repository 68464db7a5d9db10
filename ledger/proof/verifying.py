"""The check of a whole ledger: file, schema, chain, erasures, blobs, streams, sealed checkpoints and projections.

The check takes nothing for granted: a part that cannot be read is one more problem. All parts are read in one snapshot.
"""

from __future__ import annotations

import os
import re
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from hashlib import sha256
from itertools import zip_longest

from msgspec.structs import replace

from ledger.core.reads import FoldReading, blobs_named, first_unknown, is_for_newer_writers
from ledger.domain.errors import LedgerError, RejectedError
from ledger.events import LEDGER_STREAM, Blob, LedgerCreated, ProjectionResumed, ProjectionSuspended
from ledger.log import registry
from ledger.log.envelope import GENESIS
from ledger.log.inspection import APPLICATION_ID
from ledger.log.integrity import ErasedContents, check_chain, wrong_keys
from ledger.log.shared.port import read_replica_row
from ledger.log.sqlite_files import FORMAT, typed
from ledger.proof import answers, branches, checkpoints, index_check, own_check
from ledger.proof.differing import difference
from ledger.proof.kept import CheckedCheckpoint
from ledger.proof.merkle import Tree
from ledger.proof.schema_check import differences
from ledger.proof.sealed import CheckedTip, Progress, Seal, counted, erasures, head_at, rows_after, seals
from projections.core import packed, shadow
from projections.core.own import Definition
from projections.core.projector import cut_off, missing, versions
from projections.core.rows import Packed, Table, TextIndex
from projections.core.sqlite import integrity_problems
from projections.core.subjects import BuiltinProjection

MOST = 100  # the most problems in the report, which counts the others
MOST_OF_TABLES = 50  # the most problems with tables, so that a file without tables never hides problems of the log
_PLACE = re.compile(r"position (\d+):")
# The errors of a row that cannot be read; ValueError includes UnicodeError.
_UNREADABLE = (LedgerError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


def verify(
    connection: sqlite3.Connection,
    path: str,
    *,
    kept: CheckedCheckpoint | None = None,
    full: bool = False,
    folded: bool = True,
    progress: Progress | None = None,
    own: Mapping[str, Definition] | None = None,
) -> answers.VerifyReport:
    """Check everything through one snapshot; with ``folded``, compare also the projections with a fold of the log.

    A projection that differs from the log is not proven wrong: the log may have been changed instead.

    Raises:
        RejectedError: The checkpoint ``kept`` is of another ledger.
    """
    started = time.monotonic()
    check = _Verification(connection, path, kept, folded, progress)
    check.own = own or {}
    with check.at("the file", "pages"):
        check.file()
    with check.at("the schema"):
        check.schema()
    check.log(full=full or kept is not None)
    with check.at("the streams"):
        check.streams()
    with check.at("the keys"):
        check.keys()
    with check.at("the texts outside the log"):
        check.blobs()
    with check.at("the projections", "projections"):
        check.projections()
    with check.at("the log"):
        check.skipped()
    return check.report(time.monotonic() - started)


_NAMED_FORMAT = (
    "SELECT coalesce(max(CASE json_valid(state) WHEN 1 THEN json_extract(state, '$.data.format') END), 1)"
    f" FROM main.events WHERE stream = '{LEDGER_STREAM}' AND type IN ('LedgerCreated', 'LedgerUpgraded')"
)


class _Marks:
    """A tree that grows leaf by leaf and keeps its root at the requested sizes."""

    def __init__(self, tree: Tree, sizes: Iterable[int]) -> None:
        self.roots: dict[int, bytes] = {}
        self._tree, self.sizes = tree, sorted({size for size in sizes if size > tree.size}, reverse=True)

    def __call__(self, leaf: bytes) -> None:
        sizes = self.sizes
        if sizes:
            self._tree.add(leaf)
            if self._tree.size == sizes[-1]:
                self.roots[sizes.pop()] = self._tree.root()


class _Verification:
    """A check of a ledger, with the problems found so far."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        path: str,
        kept: CheckedCheckpoint | None,
        folded: bool,
        progress: Progress | None,
    ) -> None:
        self._connection, self._path, self._kept = connection, path, kept
        self._folded, self._progress = folded, progress
        self.own: Mapping[str, Definition] = {}  # the projections that the user added and gave the classes of
        self._problems: dict[str, answers.Part] = {}
        self._part: answers.Part = "log"  # that is being checked
        self._more = self._tables = 0
        self._first_wrong: int | None = None
        self._warnings: list[str] = []
        self._compared: list[str] = []
        self._created: LedgerCreated | None = None
        self._last, self._head, self._since = 0, GENESIS, 0
        self._erasures = ErasedContents()

    @contextmanager
    def at(self, what: str, part: answers.Part | None = None) -> Iterator[None]:
        """Record a failure to read as a problem, so that what comes next is checked all the same."""
        before, self._part = self._part, part or self._part
        try:
            yield
        except RejectedError:
            raise
        except sqlite3.Error as error:
            self.problem(f"{what}: {typed(error)}")
        except _UNREADABLE as error:
            context = str(error) if isinstance(error, LedgerError) else f"it cannot be read: {type(error).__name__}"
            if _PLACE.match(context):
                self.problem(context, "log")
            else:
                self.problem(f"{what}: {context}")
        finally:
            self._part = before

    def problem(self, text: str, part: answers.Part | None = None) -> None:
        """Record a problem of the part that is being checked, or of another."""
        if text in self._problems:
            return
        part = part or self._part
        if place := _PLACE.match(text):
            position = int(place[1])
            self._first_wrong = position if self._first_wrong is None else min(position, self._first_wrong)
        if part == "projections":
            self._tables += 1
            if self._tables > MOST_OF_TABLES:
                return
        if len(self._problems) < MOST:
            self._problems[text] = part
        else:
            self._more += 1

    def report(self, seconds: float) -> answers.VerifyReport:
        problems = dict(self._problems)
        if (tables := self._tables - MOST_OF_TABLES) > 0:
            problems[f"the projections: and {tables:,} more problems"] = "projections"
        if self._more:
            problems[f"and {self._more:,} more problems"] = "log"
        return answers.VerifyReport(
            ok=not self._problems,
            events=self._last,
            problems=tuple(problems),
            parts=tuple(problems.values()),
            first_wrong=self._first_wrong,
            since=self._since,
            head=self._head.hex() if self._last else None,
            against=self._kept.stated.size if self._kept is not None else None,
            signed=self._kept.signed if self._kept is not None else None,
            projections=tuple(self._compared),
            warnings=tuple(self._warnings),
            seconds=seconds,
        )

    # --- the file and its schema ---------------------------------------------------------------------------------

    def file(self) -> None:
        """Check every page and index by SQLite's own check, and the numbers that identify the file."""
        for problem in integrity_problems(self._connection, MOST):
            self.problem(f"the file: {problem[:200]}")
        (application_id,) = self._connection.execute("PRAGMA main.application_id").fetchone()
        if application_id != APPLICATION_ID:
            self.problem(
                f"the file: its application id is {application_id:#x}, but that of a ledger is {APPLICATION_ID:#x}",
                "log",
            )
        (version,) = self._connection.execute("PRAGMA main.user_version").fetchone()
        if version < 1:
            self.problem(f"the file: its format is {version}, but the first format was 1", "log")
        elif version > (named := self._connection.execute(_NAMED_FORMAT).fetchone()[0]):
            self.problem(f"the file: its format is {version}, but the log names no format above {named}", "log")
        elif version > FORMAT:
            self._warnings.append(
                f"the file has format {version}, but this product knows only the formats up to {FORMAT}"
            )

    def schema(self) -> None:
        for of_log, text in differences(self._connection, with_projections=self._versions_fit()):
            self.problem(text, "log" if of_log else "projections")

    def _versions_fit(self) -> bool:
        """Return True if the projections have this product's versions, or if the versions cannot be read."""
        try:
            recorded = dict(self._connection.execute("SELECT name, version FROM main.projections").fetchall())
        except sqlite3.Error:
            return True
        return recorded == versions()

    # --- the log -------------------------------------------------------------------------------------------------

    def log(self, *, full: bool) -> None:
        """Check chain, states and erasures of the rows that no seal covers, and the seals themselves."""
        with self.at("the log"):
            self._check_ends()
        self._check_kept_checkpoint()
        with self.at("the erasures"):
            self._erasures = erasures(self._connection)
        tip, sealed = CheckedTip(0, GENESIS, Tree()), list[Seal]()
        with self.at("the sealed checkpoints"):
            tip, sealed = self._start(full)
        self._since = tip.size
        with self.at("the log"):
            self._check_unknown(tip.size)
        kept = self._kept.stated if self._kept is not None else None
        sizes = [seal.size for seal in sealed] + ([kept.size] if kept is not None else [])
        marks = _Marks(tip.tree, sizes)
        with self.at("the log"):
            self._walk(tip, marks)
        with self.at("the sealed checkpoints"):
            for seal in sealed:
                if marks.roots.get(seal.size) != seal.root or CheckedTip.of(seal, self._connection) is None:
                    self._report_seal(seal)
        with self.at("the erasures"):
            self._check_erased_rows()
        if kept is not None:
            with self.at("the checkpoint kept elsewhere"):
                self._compare_with(kept, marks.roots.get(kept.size))

    def skipped(self) -> None:
        """Check the rows that a sealed checkpoint covers too if any problem was found."""
        if self._problems and self._since:
            rows, self._since = rows_after(self._connection, 0, self._since), 0
            for problem in check_chain(rows, erasures=self._erasures):
                self.problem(problem)

    def _check_unknown(self, after: int) -> None:
        """Report events that no version wrote; a newer version first records itself in the log."""
        if not self._is_for_newer_writers and (unknown := first_unknown(self._connection, after)) is not None:
            self.problem(f"position {unknown[0]}: no version is known to have written a {registry.unknown(unknown[1])}")

    def _check_ends(self) -> None:
        """Check the last event, and the first event, which names the ledger."""
        if (cut := cut_off(self._connection)) is not None:
            self.problem(f"position {cut[0] + 1}: {missing(*cut)}")
        sql = "SELECT position, head FROM main.events ORDER BY position DESC LIMIT 1"
        row = self._connection.execute(sql).fetchone()
        if row is None:
            self.problem("position 1: the log holds no event, but a ledger begins with LedgerCreated")
            return
        self._last, self._head = row[0], row[1] if isinstance(row[1], bytes) else GENESIS
        sql = "SELECT stream, version, type, state FROM main.events WHERE position = 1"
        first = self._connection.execute(sql).fetchone()
        with self.at("the first event"):
            if first is not None and first[:3] == (LEDGER_STREAM, 1, "LedgerCreated"):
                data = registry.decode(1, 1, *first).data
                self._created = data if isinstance(data, LedgerCreated) else None
        if self._created is None:
            self.problem("position 1: is not the LedgerCreated that a ledger begins with")
            return
        with self.at("the branches"):
            id, problems, remarks = branches.branchings_checked(self._connection, self._created.ledger_id, self._last)
            self._created = replace(self._created, ledger_id=id)
            self._warnings += remarks
            for problem in problems:
                self.problem(problem)

    def _check_kept_checkpoint(self) -> None:
        kept = self._kept
        if kept is None:
            return
        if self._created is not None:
            self._warnings += branches.check_covered(self._connection, kept.stated, self._created.ledger_id)
        if kept.signed is False:
            self.problem("the checkpoint kept elsewhere: it has no good signature of this key")

    def _start(self, full: bool) -> tuple[CheckedTip, list[Seal]]:
        """Return the tip to start from, after the last seal that the log matches, and the seals to check."""
        unsound: list[Seal] = []
        for seal in seals(self._connection) if not full else ():
            if (tip := CheckedTip.of(seal, self._connection)) is not None:
                for skipped in unsound:
                    self._report_seal(skipped)
                return tip, []
            unsound.append(seal)
        return CheckedTip(0, GENESIS, Tree()), list(seals(self._connection))[::-1]

    def _report_seal(self, seal: Seal) -> None:
        self.problem(f"position {seal.position}: the checkpoint sealed here does not match the log before it")

    def _walk(self, tip: CheckedTip, marks: _Marks) -> None:
        steps = self._last - tip.size + self._last * self._folded
        rows = counted(rows_after(self._connection, tip.size, self._last), steps, self._progress)
        leaf_to = marks if marks.sizes else None
        for problem in check_chain(rows, position=tip.size, head=tip.head, erasures=self._erasures, leaf_to=leaf_to):
            self.problem(problem)

    def _check_erased_rows(self) -> None:
        """Check the erased rows that were skipped, and report erasures of rows that the log does not have.

        A skipped row is checked if an erasure names the row or the row says that it was erased.
        """
        claims = "SELECT position FROM main.events WHERE position <= ? AND erased_by IS NOT NULL"
        claimed = {place for (place,) in self._connection.execute(claims, (self._since,))}
        sql = "SELECT digest, state, erased_by FROM main.events WHERE position = ?"
        for place in sorted(claimed.union(self._erasures.rows)):
            if self._since < place <= self._last:
                continue
            row = self._connection.execute(sql, (place,)).fetchone() if place <= self._since else None
            if row is None:
                by = self._erasures.rows[place][-1][0]
                self.problem(f"position {by}: it erased text of position {place}, which is not in the log")
                continue
            for problem in self._erasures.problems(place, row[2], row[0], sha256(row[1].encode()).digest()):
                self.problem(problem)

    def _compare_with(self, kept: checkpoints.Stated, root: bytes | None) -> None:
        if kept.size > self._last:
            self.problem(
                f"position {self._last + 1}: is missing; the checkpoint kept elsewhere covers {kept.size:,} events and"
                f" the log ends at {self._last:,}: the log was cut, or an older copy took the place of the file"
            )
        elif root != kept.root or head_at(self._connection, kept.size) != kept.head:
            self.problem(
                f"the checkpoint kept elsewhere: the first {kept.size:,} events are not the events that it covers; at"
                " least one event was changed"
            )

    def streams(self) -> None:
        """Check that the versions in each stream are 1, 2, 3 …, in the order of the log."""
        sql = (
            "SELECT position, stream, version, before FROM (SELECT position, stream, version,"
            " lag(version, 1, 0) OVER w AS before, lag(position, 1, 0) OVER w AS place FROM main.events"
            " WINDOW w AS (PARTITION BY stream ORDER BY version)) WHERE version IS NOT before + 1 OR position <= place"
        )
        for position, stream, version, before in self._connection.execute(sql):
            self.problem(
                f"position {position}: version {version} of {str(stream)[:40]!r} does not follow its version {before}"
            )

    def keys(self) -> None:
        """Check that the key column, which is outside the chain, has the key that the state names, or none."""
        for problem in wrong_keys(self._connection):
            self.problem(problem)

    # --- blobs ---------------------------------------------------------------------------------------------------

    def blobs(self) -> None:
        """Check each text in the blobs: it is the text that an event names, or an erasure of the log removed it."""
        referred, sql = set(), "SELECT data, erased_by FROM main.blobs WHERE id = ?"
        for position, blob in self._references():
            referred.add(blob.blob)
            row = self._connection.execute(sql, (blob.blob,)).fetchone()
            if row is None:
                self.problem(f"position {position}: its text {blob.blob} is missing")
            elif row[0] is not None and sha256(row[0]).hexdigest() != blob.digest:
                self.problem(f"position {position}: its text {blob.blob} is not the text that was recorded")
        for name, empty, by in self._connection.execute("SELECT id, data IS NULL, erased_by FROM main.blobs"):
            act = self._erasures.blobs.get(name)
            if (empty, by) != (act is not None, act):
                stated = f"position {by} erased it" if by is not None else "nothing was erased of it"
                cause = f"position {act} did" if act is not None else "no erasure names it"
                self.problem(
                    f"the text {name[:40]}: it is {'' if empty else 'not '}empty and says that {stated}; {cause}"
                )
            elif not empty and not self._since and name not in referred:
                self.problem(f"the text {name[:40]}: it lies outside the log and belongs to no event of it")

    def _references(self) -> Iterator[tuple[int, Blob]]:
        sql = (
            "SELECT position, stream, version, type, state FROM main.events"
            " WHERE position > ? AND instr(state, '\"blob\":') ORDER BY position"
        )
        for position, *row in self._connection.execute(sql, (self._since,)):
            for blob in blobs_named(position, *row):
                yield position, blob

    # --- projections ---------------------------------------------------------------------------------------------

    def projections(self) -> None:
        """Compare the live tables with a fold of the log row by row, and the text index word by word."""
        if self._created is None:
            return
        checkpoint = self._connection.execute(
            "SELECT ledger, position, head FROM main.checkpoint WHERE id = 1"
        ).fetchall()
        if [tuple(row) for row in checkpoint] != [(self._created.ledger_id, self._last, self._head)]:
            self.problem("the projections: their checkpoint is not the last event of this log")
        if self._folded:
            self._compare_with_fold(bytes.fromhex(self._created.secret), self._created.ledger_id)
            self._compared += own_check.compare(
                self._connection, self._path, self.own, self._last, self.problem, self._warnings.append
            )

    def _compare_with_fold(self, secret: bytes, ledger_id: str) -> None:
        walked, report = self._last - self._since, self._progress
        progress = (lambda done, of: report(walked + done, walked + of)) if report is not None else None
        log, versions = FoldReading(lambda: self._connection), self._versions()

        def compare_with(copy: sqlite3.Connection) -> None:
            fold = shadow.fold_into(copy, log, secret, ledger_id, self._last, self._head, progress=progress)
            stuck = {name: at for name, at, _ in fold.poisoned}
            for projection in fold.all:
                version, suspended_at = versions.get(projection.name, (None, None))
                if version != projection.version:
                    self._of_another_version(projection, version)
                elif suspended_at is not None:
                    self._warnings.append(
                        f"{projection.name} is suspended at position {suspended_at}, so it was not compared"
                    )
                elif projection.name in stuck:
                    self.problem(
                        f"the projection {projection.name}: it cannot fold the log from position {stuck[projection.name]} on"
                    )
                else:
                    self._compared.append(projection.name)
                    self._compare(projection, copy)

        shadow.in_scratch(os.path.dirname(self._path), compare_with)

    def _of_another_version(self, projection: BuiltinProjection, version: int | None) -> None:
        """Report that a projection has another version; only warn if an older or newer product explains the version."""
        text = f"this product has {projection.version}: not compared"
        if version is None and not self._is_for_newer_writers and self._has_tables_of(projection):
            self.problem(
                f"the projection {projection.name}: its tables are there, but its version is not recorded; {text}"
            )
        elif version is not None and version > projection.version and not self._is_for_newer_writers:
            self.problem(
                f"the projection {projection.name}: its version is {version}, above the {projection.version} of this"
                " product, but the log names no newer writer: not compared"
            )
        else:
            is_there = f"is of version {version}" if version is not None else "is not there"
            self._warnings.append(f"{projection.name} {is_there}, and {text}")

    @cached_property
    def _is_for_newer_writers(self) -> bool:
        return is_for_newer_writers(self._connection)

    def _has_tables_of(self, projection: BuiltinProjection) -> bool:
        sql = "SELECT 1 FROM main.sqlite_master WHERE type = 'table' AND name = ?"
        return any(self._connection.execute(sql, (table.name,)).fetchone() for table in projection.tables)

    def _versions(self) -> dict[str, tuple[int, int | None]]:
        """Return each projection's version and suspension; a suspension that the log lacks is a problem."""
        rows = self._connection.execute("SELECT name, version, suspended_at FROM main.projections").fetchall()
        suspended = {name for name, _, at in rows if at is not None}
        if suspended and read_replica_row(self._connection) is not None:
            return {name: (version, at) for name, version, at in rows}  # a machine's own suspensions are no events
        for name in suspended - self._suspended_by_the_log() if suspended else ():
            self.problem(f"the projection {name}: its table says that it is suspended, and the log does not")
        return {name: (version, at) for name, version, at in rows}

    def _suspended_by_the_log(self) -> set[str]:
        names: set[str] = set()
        sql = (
            "SELECT position, stream, version, type, state FROM main.events WHERE stream = ?"
            " AND type IN ('ProjectionSuspended', 'ProjectionResumed') ORDER BY version"
        )
        for position, *row in self._connection.execute(sql, (LEDGER_STREAM,)):
            data = registry.decode(position, 1, *row).data
            if isinstance(data, ProjectionSuspended):
                names.add(data.projection)
            elif isinstance(data, ProjectionResumed):
                names.discard(data.projection)
        return names

    def _compare(self, projection: BuiltinProjection, copy: sqlite3.Connection) -> None:
        for table in projection.tables:
            with self.at(f"the projection {projection.name}"):
                differing = None
                if isinstance(table, TextIndex):
                    differing = index_check.difference(self._connection, copy, table)
                elif isinstance(table, Packed):
                    differing = packed.difference(self._connection, copy, table)
                elif not table.derived:
                    differing = self._compare_tables(table, copy)
                if differing:
                    self.problem(f"the projection {projection.name}: {differing}")

    def _compare_tables(self, table: Table, copy: sqlite3.Connection) -> str | None:
        live, fresh = shadow.tables(self._connection, table, "main."), shadow.tables(copy, table)
        pairs = zip_longest(live, fresh)
        return next((difference(table, row, expected) for row, expected in pairs if row != expected), None)
