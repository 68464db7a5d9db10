"""The frame of all importers: it tells the kind of a source, and records what the importer of that kind reads.

**How to write an importer.** An importer is a module in this folder with three names, and a line in ``KINDS``:

- ``CLIENT``, the text before the keys of its records: the client by which the hooks record the same turns, or else the kind.
- ``recognizes(source)``, which returns True if the content of a ``Source`` is of this kind. ``KINDS`` is asked in its order.
  ``source.files(".jsonl")`` yields files (a ``Part`` each), ``source.head_objects(part)`` the objects on the first lines of one,
  and ``source.head(part)`` its first 64 KiB. None of these counts as reading.
- ``records(source)``, which yields ``MovedTurn``, ``MovedStatement``, ``MovedEnding`` and ``MovedValue``, oldest first, one at
  a time. It reads through ``source.objects``, ``source.lines``, ``source.elements``, ``source.json`` or ``source.text``, so
  that memory stays bounded and progress is told, and holds no list of a whole file. ``source.rows`` reads a table of SQLite.

An importer calls no method of a ledger. Only ``interactions``, whose call is older, has a function ``move`` that does. An
importer copies times as the source has them (text, number of seconds or milliseconds, None): the frame reads them, asks for a
zone if there is no offset, and compares them with ``since``. It says what it leaves out by ``source.skip(reason)``, and of
which kind a record is that it does not know by ``source.meet(name)``; neither raises. It raises ``RejectedError`` only if the
whole source cannot be read.

A ``key`` names a record for ever, whatever the file is called: an id of the source that no other product gives (a UUID), or else
such an id with the kind before it. The frame knows a turn by its key whichever client recorded it, and a statement by its key or
its text, so a second import adds nothing, and an import that was stopped continues. A key that comes twice counts once.

**Status travels.** A ``MovedStatement`` with a status other than "active" arrives in that status in one commit. A statement that
``supersedes`` another comes after that one; a ``MovedEnding`` ends an earlier statement at its own time. A text that this ledger
has rejected, retracted or invalidated, or that it replaced later, is skipped.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import blake2b
from importlib import import_module
from typing import Literal, NamedTuple, Protocol, cast
from zoneinfo import ZoneInfo

from msgspec import Struct, field

from ledger.api import Ledger
from ledger.core.planning import Stopping
from ledger.domain import times
from ledger.domain.errors import BusyError, ConflictError, KeyReusedError, NotFoundError, RejectedError
from ledger.domain.ids import uuid7
from ledger.domain.zones import in_zone, zone_named
from ledger.importers.answers import MoveReport
from ledger.importers.source import Source, clean
from ledger.interactions import dates
from ledger.log.paths import StrPath
from ledger.types import Channel, Json, Metadata, Since, Triple, WriteOptions

KINDS = {  # the module of each kind, in the order in which they are asked whether a source is theirs
    "claude-code": "claude_code",
    "codex": "codex",
    "claude": "claude",
    "chatgpt": "chatgpt",
    "mem0": "mem0",
    "mcp": "mcp",
    "mcp-memory-service": "mcp_memory_service",
    "langgraph": "langgraph",
    "memory-ledger": "memory_ledger",
    "interactions": "interactions",
    "summary": "summary",
    "markdown": "markdown",
}
CHUNK, CHUNK_CHARS = 500, 2_000_000
"""The most records, and about the most characters, of one commit (our choice)."""

GONE = "what was erased or undone in this ledger"
TURN, STATEMENT = "turn", "import"
"""The keys of metadata that name the turn, as in the hooks, and the statement of the source."""

OWN = "memory-ledger:"
"""The text before the id of a memory in the keys of an export of memories."""

Ended = Literal["superseded", "invalid", "retracted"]
Progress = Callable[[int, int], None]


# --- what an importer yields -----------------------------------------------------------------------------------------


class MovedTurn(Struct, frozen=True, kw_only=True):
    """A prompt with its response.

    Attributes:
        key: The turn's key.
        prompt: The person's words, without what other programs put into them.
        response: The agent's words; a later import adds a response that is missing.
        session: The name of the conversation; both texts become messages of it.
        at: The time as the source has it.
        folder: The folder in which the turn took place, which tells its project.
        project: The name of the project, if the source knows projects by name.
        channel: The channel: "user" for words that a person typed, "agent" for those of a program, "file" for pasted ones.
        extract: False if the source found memories in the turn, and they come along.
        metadata: Further metadata of the turn.
    """

    key: str
    prompt: str
    response: str = ""
    session: str | None = None
    at: object = None
    folder: str = ""
    project: str | None = None
    channel: Channel = "user"
    extract: bool = True
    metadata: Metadata = field(default_factory=dict)

    @property
    def size(self) -> int:
        return len(self.prompt) + len(self.response)


class MovedStatement(Struct, frozen=True, kw_only=True):
    """A statement that the source remembers.

    Attributes:
        key: The statement's key.
        content: The statement.
        kind: The kind of statement, as for ``Ledger.remember``.
        status: Its status there.
        at: The time when it was stated there, which is the beginning of its validity.
        ended_at: The time when it ended there, of a status that is an end.
        reason: The reason for the end.
        confidence: From 0 to 1; None for the ledger's default.
        supersedes: The key of the statement that it replaces.
        sources: The keys of earlier turns and statements from which it was found; unknown keys are left out.
        actor: Its author, if the source names one.
        channel: The channel: "user" for a statement that a person made or reviewed, else "agent" or "file".
        metadata: Further metadata of the memory.
    """

    key: str
    content: str
    kind: str = "knowledge"
    status: Literal["candidate", "active"] | Ended = "active"
    at: object = None
    ended_at: object = None
    reason: str = ""
    confidence: float | None = None
    supersedes: str | None = None
    valid_from: object = None
    valid_to: object = None
    project: str | None = None
    session: str | None = None
    tags: tuple[str, ...] = ()
    entities: tuple[str, ...] = ()
    relations: tuple[Triple, ...] = ()
    sources: tuple[str, ...] = ()
    reference_count: int = 0
    last_referenced_at: object = None
    actor: str | None = None
    channel: Channel = "user"
    metadata: Metadata = field(default_factory=dict)

    @property
    def size(self) -> int:
        return len(self.content)


class MovedEnding(Struct, frozen=True, kw_only=True):
    """The end of an earlier statement, at a time of its own."""

    key: str
    status: Ended
    at: object = None
    reason: str = ""
    size: int = 0


class MovedValue(Struct, frozen=True, kw_only=True):
    """A value under a namespace and a key, for ``values.put``."""

    namespace: tuple[str, ...]
    key: str
    value: Json
    at: object = None
    expires_at: object = None
    size: int = 1_000


Record = MovedTurn | MovedStatement | MovedEnding | MovedValue


class Importer(Protocol):
    """A module of this folder that reads one kind of source."""

    CLIENT: str

    def recognizes(self, source: Source) -> bool:
        """Return True if the content of a source is of this kind."""

    def records(self, source: Source) -> Iterator[Record]:
        """Yield the records of a source."""


# --- the import ------------------------------------------------------------------------------------------------------


class MoveRequest(Struct, frozen=True, kw_only=True):
    """The arguments of ``import_from``."""

    path: StrPath
    kind: str | None = None
    project: str | None = None
    since: Since | None = None
    limit: int | None = None
    zone: str | None = None
    channel: Channel | None = None
    dry_run: bool = False


def move(ledger: Ledger, request: MoveRequest, stopping: Stopping, progress: Progress | None) -> MoveReport:
    """Import a source; ``import_from`` documents the arguments."""
    if not isinstance(ledger, Ledger):
        raise TypeError(
            f"import_from takes a Ledger, as Ledger.open(path) returns it; a {type(ledger).__name__} is none"
        )
    started = time.monotonic()
    source = Source(request.path)
    kind, importer = importer_of(source, request.kind)
    if (moved := getattr(importer, "move", None)) is not None:
        return cast("MoveReport", moved(ledger, source, request, stopping, progress))
    run = _Move(ledger, source, _Names(kind, importer.CLIENT), request)
    chunks = _chunks(importer.records(source))
    while not run.stopped and (chunk := next(chunks, None)) is not None:
        run.take(chunk)
        run.stopped = run.stopped or stopping.why
        if progress is not None:
            progress(min(source.read_bytes, source.total_bytes), source.total_bytes)
    return run.report(time.monotonic() - started)


def importer_of(source: Source, kind: str | None) -> tuple[str, Importer]:
    """Return the kind of a source and its importer.

    Raises:
        RejectedError: There is no such kind, or no importer recognizes the source.
    """
    kinds = ", ".join(KINDS)
    if kind is not None:
        if kind not in KINDS:
            raise RejectedError(f"there is no kind {kind!r:.40}; the kinds are {kinds}", rule="kind")
        return kind, _importer(kind)
    for name in KINDS:
        if (importer := _importer(name)).recognizes(source):
            return name, importer
    raise RejectedError(f"the kind of {source.path} cannot be told by its content: name one of {kinds}", rule="kind")


def _importer(kind: str) -> Importer:
    return cast("Importer", import_module(f"ledger.importers.{KINDS[kind]}"))


def _chunks(records: Iterator[Record]) -> Iterator[list[Record]]:
    """Yield the records of one commit each; they are read before the commit begins, which keeps others waiting."""
    chunk, size = list[Record](), 0
    for record in records:
        chunk.append(record)
        size += record.size
        if len(chunk) >= CHUNK or size >= CHUNK_CHARS:
            yield chunk
            chunk, size = [], 0
    yield chunk


class _Names(NamedTuple):
    """The names of an import: its kind, and the text before its keys."""

    kind: str
    client: str

    @property
    def recorded(self) -> str:
        return f"import:{self.kind}"


class _Known(NamedTuple):
    """A memory that came from a statement of the source."""

    id: str
    status: str


class _Move:
    """An import that is running."""

    def __init__(self, ledger: Ledger, source: Source, names: _Names, request: MoveRequest) -> None:
        self._ledger, self._source, self._names, self._request = (
            ledger.bind(client=names.recorded),
            source,
            names,
            request,
        )
        self._zone = None if request.zone is None else zone_named(request.zone)
        now = times.fixed(datetime.now(UTC))
        self._since = None if request.since is None else times.since("since", request.since, now)
        self._run = uuid7(time.time_ns(), os.urandom(8))
        self._folders = dict[str, tuple[str | None, bool]]()
        self._turns, self._waiting = dict[int, str](), set[int]()
        self._statements, self._refuted = dict[int, _Known](), dict[int, str]()
        self._read_turns()
        self._read_statements()
        self.taken, self.known = Counter[str](), 0
        self.first = self.last = ""
        self.stopped = ""

    def report(self, seconds: float) -> MoveReport:
        source, dry_run = self._source, self._request.dry_run
        return MoveReport(
            path=source.path,
            kind=self._names.kind,
            taken=dict(self.taken),
            known=self.known,
            skipped=dict(source.skipped.most_common()),
            unknown=dict(source.unknown.most_common()),
            notes=tuple(source.notes),
            note_count=source.note_count,
            first=self.first or None,
            last=self.last or None,
            client=self._names.recorded,
            correlation_id=self._run if self.taken and not dry_run else None,
            dry_run=dry_run,
            stopped=self.stopped,
            seconds=seconds,
        )

    def take(self, chunk: list[Record]) -> None:
        """Record a chunk in one commit, or only count it."""
        with nullcontext() if self._request.dry_run else self._ledger.batch():
            for record in chunk:
                if self._request.limit is not None and self.taken.total() >= self._request.limit:
                    self.stopped = "limit"
                    return
                self._take(record)

    def _take(self, record: Record) -> None:
        try:
            match record:
                case MovedTurn():
                    self._take_turn(record)
                case MovedStatement():
                    self._take_statement(record)
                case MovedEnding():
                    self._take_ending(record)
                case MovedValue():
                    self._take_value(record)
        except (KeyReusedError, _AlreadyKnown):
            self.known += 1  # such as a turn that a resumed session repeats
        except BusyError:
            raise
        except ConflictError:
            self._source.skip(GONE)
        except _Left as error:
            self._source.skip(str(error))
        except (RejectedError, NotFoundError) as error:
            if isinstance(error, RejectedError) and error.rule == "zone":
                raise
            rule = error.rule if isinstance(error, RejectedError) else "not found"
            self._source.skip(f"refused by a rule of this ledger ({rule})")
            self._source.note(record.key, str(error))

    # --- turns ---------------------------------------------------------------------------------------------------

    def _take_turn(self, turn: MovedTurn) -> None:
        at, key = self._time(turn.at, turn.key), _digest(turn.key)
        if key in self._turns:
            self._complete(key, turn)
            return
        self._check_since(at)
        project, is_off = self._project(turn)
        if is_off:
            raise _Left("a turn of a project whose memory is off")
        if not turn.prompt.strip():
            raise _Left("a turn without words of a person")
        id = ""
        if not self._request.dry_run:
            interaction = self._ledger.capture(
                clean(turn.prompt),
                clean(turn.response),
                project=project,
                session=turn.session,
                append=bool(turn.session),
                reinforce=False,  # the response is as old as the prompt, and no evidence for what is believed now
                extract=turn.extract,
                metadata={**turn.metadata, TURN: turn.key},
                **self._options(turn.key, at, turn.channel),
            )
            if interaction.replayed:
                raise _AlreadyKnown if interaction.prompt is not None else _Left(GONE)
            id = interaction.id
        self._turns[key] = id
        if not turn.response:
            self._waiting.add(key)
        self._count("turns", at)

    def _complete(self, key: int, turn: MovedTurn) -> None:
        """Add the response to a turn that is known without one."""
        if key not in self._waiting or not turn.response.strip():
            raise _AlreadyKnown
        if not self._request.dry_run:
            self._ledger.interactions.add_response(self._turns[key], clean(turn.response), correlation_id=self._run)
        self._waiting.discard(key)
        self._count("responses", None)

    def _project(self, turn: MovedTurn) -> tuple[str | None, bool]:
        """Return the project of a turn, and whether the memory is off there."""
        name = self._request.project or turn.project
        if name is not None or not turn.folder:
            return name, False
        if turn.folder not in self._folders:
            projects = self._ledger.projects
            try:
                here = projects.of(turn.folder) if self._request.dry_run else projects.enter(turn.folder)
                self._folders[turn.folder] = here.project, bool(here.off)
            except RejectedError as error:  # such as a secret in the path
                self._source.note(turn.folder, str(error))
                self._folders[turn.folder] = None, False
        return self._folders[turn.folder]

    # --- statements ----------------------------------------------------------------------------------------------

    def _take_statement(self, statement: MovedStatement) -> None:
        at, key = self._time(statement.at, statement.key), _digest(statement.key)
        known = self._statements.get(key)
        if known is not None:
            if statement.status in ("active", "candidate") or known.status not in ("active", "candidate"):
                raise _AlreadyKnown
            self._end(key, known, statement)  # the source ended it since the last import
            return
        self._check_since(at)
        if statement.status in ("active", "candidate"):
            self._check_refuted(statement.content, at)
        if not statement.content.strip():
            raise _Left("a statement without words")
        memory = _Known("", statement.status)
        if not self._request.dry_run:
            memory = self._record(statement, at)
        self._statements[key] = memory
        self._count("statements", at)
        if memory.status in ("active", "candidate") and memory.status != statement.status != "active":
            self._end(key, memory, statement)

    def _record(self, statement: MovedStatement, at: str | None) -> _Known:
        """Record a statement as active, as a candidate, or as the successor of another."""
        ledger = self._ledger if statement.actor is None else self._ledger.bind(actor=statement.actor)
        where = statement.key
        fields: dict[str, object] = {
            "kind": statement.kind,
            "tags": statement.tags[:10],
            "entities": statement.entities,
            "relations": statement.relations,
            "sources": tuple(filter(None, map(self._id_of, statement.sources))),
            "valid_from": self._time(statement.valid_from, where),
            "valid_to": self._time(statement.valid_to, where),
            "metadata": {**statement.metadata, STATEMENT: statement.key},
            **self._options(statement.key, at, statement.channel),
        }
        if statement.confidence is not None:
            fields["confidence"] = min(1.0, max(0.0, statement.confidence))
        content = clean(statement.content)
        before = self._statements.get(_digest(statement.supersedes)) if statement.supersedes else None
        if before is not None and before.status == "active" and statement.status != "candidate":
            memory = ledger.supersede(before.id, content, **fields)  # type: ignore[arg-type]
            self._statements[_digest(statement.supersedes or "")] = _Known(before.id, "superseded")
            return _Known(memory.id, memory.status)
        fields |= {"project": self._request.project or statement.project, "session": statement.session}
        fields["reference_count"] = statement.reference_count
        fields["last_referenced_at"] = self._time(statement.last_referenced_at, where)
        put = ledger.propose if statement.status == "candidate" else ledger.remember
        memory = put(content, **fields)  # type: ignore[arg-type]
        return _Known(memory.id, memory.status)

    def _take_ending(self, ending: MovedEnding) -> None:
        key = _digest(ending.key)
        known = self._statements.get(key)
        if known is None:
            raise _Left("the end of a statement that did not come along")
        if known.status not in ("active", "candidate"):
            raise _AlreadyKnown
        self._end(key, known, ending)

    def _end(self, key: int, known: _Known, end: MovedStatement | MovedEnding) -> None:
        """Bring a memory into the status that its statement has in the source."""
        ended_at = end.ended_at if isinstance(end, MovedStatement) else end.at
        options = self._options(f"{end.status}:{end.key}", self._time(ended_at, end.key))
        if not self._request.dry_run:
            if known.status == "candidate":
                self._ledger.reject(known.id, reason=end.reason, **options)
            elif end.status == "superseded":
                self._ledger.memories.end(known.id, reason=end.reason, **options)
            elif end.status == "invalid":
                self._ledger.invalidate(known.id, reason=end.reason, **options)
            else:
                self._ledger.retract(known.id, reason=end.reason, **options)
        self._statements[key] = _Known(known.id, end.status)
        if isinstance(end, MovedEnding):
            self._count("changes", None)

    def _check_refuted(self, content: str, at: str | None) -> None:
        """Raise ``_Left`` for a text that this ledger has turned down, or has replaced after that time."""
        ended = self._refuted.get(_text_digest(content))
        if ended is not None and (not ended or at is None or times.moment("at", at) <= ended):
            raise _Left(
                "a statement that this ledger has refuted" if not ended else "a statement that this ledger replaced"
            )

    def _id_of(self, key: str) -> str | None:
        known = self._statements.get(_digest(key))
        return known.id if known is not None else self._turns.get(_digest(key))

    # --- values --------------------------------------------------------------------------------------------------

    def _take_value(self, stored: MovedValue) -> None:
        at = self._time(stored.at, stored.key)
        self._check_since(at)
        if not self._request.dry_run:
            name = "/".join((*stored.namespace, stored.key))
            version = _digest(
                json.dumps(stored.value, sort_keys=True, default=str)
            )  # a value that changed there is new
            value = self._ledger.values.put(
                stored.namespace,
                stored.key,
                stored.value,
                expires_at=self._time(stored.expires_at, stored.key),
                **self._options(f"{name}:{version:x}", at, "file"),
            )
            if value.replayed or value.absorbed:
                raise _AlreadyKnown
        self._count("values", at)

    # --- times, keys and what is known ---------------------------------------------------------------------------

    def _time(self, value: object, where: str) -> str | None:
        """Return a time of the source with its offset, or None for no time."""
        if value is None or value == "":
            return None
        try:
            time, doubt = _moment(value, self._zone)
        except (ValueError, TypeError):
            time, doubt = None, f"{value!r:.60} is no time, and is left out"
        if doubt:
            self._source.note(where, doubt)
        return time

    def _check_since(self, at: str | None) -> None:
        if self._since is not None and (at is None or times.moment("at", at) < self._since):
            raise _Left("without a time, and since was given" if at is None else "earlier than since")

    def _options(self, key: str, at: str | None, channel: Channel = "user") -> WriteOptions:
        """Return the options of a write."""
        options: WriteOptions = {
            "idempotency_key": f"{self._names.client}:{key}",
            "correlation_id": self._run,
            "channel": self._request.channel or channel,
        }
        if at is not None:
            options["occurred_at"] = at
        return options

    def _count(self, what: str, at: str | None) -> None:
        self.taken[what] += 1
        if at is not None:
            time = times.moment("at", at)
            self.first = min(self.first or time, time)
            self.last = max(self.last, time)

    def _read_turns(self) -> None:
        """Read which turns the ledger has, whoever recorded them."""
        columns = f"id, metadata ->> '$.{TURN}' AS key, response = '' AS waiting"
        for row in self._rows(columns, "interactions_text", f"metadata ->> '$.{TURN}' IS NOT NULL"):
            self._turns[key := _digest(str(row["key"]))] = str(row["id"])
            if row["waiting"]:
                self._waiting.add(key)

    def _read_statements(self) -> None:
        """Read which statements the ledger has, and which texts it has refuted."""
        stated = set[int]()
        columns = f"id, content, status, valid_to, metadata ->> '$.{STATEMENT}' AS key"
        for row in self._rows(columns, "beliefs", "content IS NOT NULL"):
            text, status = _text_digest(str(row["content"])), str(row["status"])
            if row["key"] is not None:
                self._statements[_digest(str(row["key"]))] = _Known(str(row["id"]), status)
            if self._names.kind == "memory-ledger":
                self._statements[_digest(f"{OWN}{row['id']}")] = _Known(str(row["id"]), status)
            if status == "active":
                stated.add(text)
            elif status in ("invalid", "retracted"):
                self._refuted[text] = ""
            elif status == "superseded":
                self._refuted.setdefault(text, str(row["valid_to"] or ""))
        for text in stated:
            self._refuted.pop(text, None)

    def _rows(self, columns: str, view: str, condition: str) -> Iterator[Mapping[str, object]]:
        position, rows = 0, 1_000
        while True:
            sql = (
                f"SELECT {columns}, first_position FROM {view} WHERE {condition} AND first_position > ?"
                f" ORDER BY first_position LIMIT {rows}"
            )
            found = self._ledger.query(sql, position, timeout=600.0)
            yield from found
            if len(found) < rows:
                return
            position = cast("int", found[-1]["first_position"])


class _AlreadyKnown(Exception):
    """The ledger has the record already."""


class _Left(Exception):
    """The record is left out, for the reason in the message."""


def _digest(key: str) -> int:
    return int.from_bytes(blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).digest())


def _text_digest(text: str) -> int:
    return _digest(" ".join(text.casefold().split()).rstrip(".!"))


@lru_cache(maxsize=1_000)
def _moment(value: object, zone: ZoneInfo | None) -> tuple[str | None, str]:
    """Return a time as ISO 8601 with an offset (None if it is none), with a sentence about what had to be guessed.

    Raises:
        RejectedError: The time has no offset, and there is no zone.
        ValueError: The text is no time.
    """
    if isinstance(value, int | float):
        time = dates.read(value, None)
        return time, "" if time is not None else f"{value!r:.60} is no time, and is left out"
    if not isinstance(value, datetime):
        if len(text := str(value).strip()) == 10:
            return times.parse("at", text).isoformat(), ""
        value = datetime.fromisoformat(text)
    if value.utcoffset() is not None:
        return value.isoformat(), ""
    if zone is None:
        raise RejectedError(
            f"the source has times without an offset, such as {value.isoformat(' ')}: name their zone, such as"
            " zone='Europe/Brussels' (--zone in a shell)",
            rule="zone",
        )
    moment, doubt = in_zone(value, zone)
    return moment.isoformat(), doubt
