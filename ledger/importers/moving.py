"""The frame of all importers: it tells the kind of a source, and records what the importer of that kind reads.

**How to write an importer.** An importer is a module in this folder with three names, and a line in ``KINDS``:

- ``CLIENT``, the text before the keys of its records: the client by which the hooks record the same turns, or else the kind.
- ``recognizes(source)``, which returns True if the content of a ``Source`` is of this kind. ``KINDS`` is asked in its order.
  ``source.files(".jsonl")`` yields files (a ``Part`` each), ``source.head_objects(part)`` the objects on the first lines of one,
  and ``source.head(part)`` its first 64 KiB. None of these counts as reading.
- ``records(source)``, which yields the records of ``records.py``, such as ``MovedTurn`` and ``MovedStatement``, oldest first,
  one at a time. It reads through ``source.objects``, ``source.lines``, ``source.elements``, ``source.json`` or
  ``source.text``, so that memory stays bounded and progress is told, and holds no list of a whole file. ``source.rows`` reads
  a table of SQLite, ``source.select`` any query.

A source that gives the texts that its subjects have now, and not those that they had before, has a fourth name,
``subject(key)``, which returns the part of a key that names the subject: a new text of it then replaces the earlier one.

An importer calls no method of a ledger. Only ``interactions``, whose call is older, has a function ``move`` that does. An
importer copies times as the source has them (text, number of seconds or milliseconds, None): the frame reads them, asks for a
zone if there is no offset, and compares them with ``since``. It says what it leaves out by ``source.skip(reason)``, and of
which kind a record is that it does not know by ``source.meet(name)``; neither raises. It raises ``RejectedError`` only if the
whole source cannot be read.

A ``key`` names a record for ever, whatever the file is called: an id of the source that no other product gives (a UUID), or else
such an id with the kind before it. The frame knows a turn by its key whichever client recorded it, and a statement by its key or
its text, so a second import adds nothing, and an import that was stopped continues. A key that comes twice counts once.

**Status travels.** What is over in the source is active here at no moment that can be read: it arrives as a candidate, and ends
from there. A ``MovedStatement`` with the status of an end ends in its own commit. A statement whose successor or whose
``MovedEnding`` comes later is yielded as a candidate, and the statement that ``supersedes`` it comes after it. A text that this
ledger has rejected, retracted or invalidated, or that it replaced later, is skipped.

A dry run records each chunk as an import does, and takes it back before the commit, so that it tells what rules would refuse.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import blake2b
from importlib import import_module
from typing import NamedTuple, Protocol, cast
from zoneinfo import ZoneInfo

from msgspec import Struct
from msgspec.structs import replace

from ledger import Session
from ledger.api import Ledger
from ledger.core.steps import Stopping
from ledger.domain import times
from ledger.domain.errors import BusyError, ConflictError, KeyReusedError, NotFoundError, RejectedError
from ledger.domain.ids import uuid7
from ledger.domain.zones import in_zone, zone_named
from ledger.importers.answers import MoveReport
from ledger.importers.records import (
    MovedDocument,
    MovedEnding,
    MovedMessage,
    MovedObservation,
    MovedProject,
    MovedState,
    MovedStatement,
    MovedSummary,
    MovedTurn,
    MovedValue,
    Record,
)
from ledger.importers.source import Source, clean
from ledger.interactions import dates
from ledger.log.paths import StrPath
from ledger.types import Channel, Since, WriteOptions

KINDS = {  # the module of each kind, in the order in which they are asked whether a source is theirs
    "claude-code": "claude_code",
    "codex": "codex",
    "claude": "claude",
    "chatgpt": "chatgpt",
    "mem0": "mem0",
    "mcp": "mcp",
    "mcp-memory-service": "mcp_memory_service",
    "langgraph": "langgraph",
    "letta": "letta",
    "atocore": "atocore",
    "rubino": "rubino",
    "picoclaw": "picoclaw",
    "astrocyte": "astrocyte",
    "memory-ledger": "memory_ledger",
    "interactions": "interactions",
    "summary": "summary",
    "markdown": "markdown",
}
CHUNK, CHUNK_CHARS = 500, 2_000_000
"""The most records, and about the most characters, of one commit (our choice)."""

OPEN = ("active", "candidate")
GONE = "what was erased or undone in this ledger"
TURN, STATEMENT = "turn", "import"
"""The keys of metadata that name the turn, as in the hooks, and the statement of the source."""

OWN = "memory-ledger:"
"""The text before the id of a memory in the keys of an export of memories."""

Progress = Callable[[int, int], None]


class Importer(Protocol):
    """A module of this folder that reads one kind of source."""

    CLIENT: str

    def recognizes(self, source: Source) -> bool:
        """Return True if the content of a source is of this kind."""
        ...

    def records(self, source: Source) -> Iterator[Record]:
        """Yield the records of a source."""
        ...


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
        report = cast("MoveReport", moved(ledger, source, request, stopping, progress))
        _check_kind(source, kind, importer, found=bool(report.taken or report.known))
        return report
    run = _Move(ledger, source, _Names(kind, importer.CLIENT, getattr(importer, "subject", None)), request)
    found, chunks = False, _chunks(importer.records(source))
    while not run.stopped and (chunk := next(chunks, None)) is not None:
        found = found or bool(chunk)
        run.take(chunk)
        run.stopped = run.stopped or stopping.why
        if progress is not None:
            progress(min(source.read_bytes, source.total_bytes), source.total_bytes)
    _check_kind(source, kind, importer, found=found)
    return run.report(time.monotonic() - started)


def _check_kind(source: Source, kind: str, importer: Importer, *, found: bool) -> None:
    """Raise ``RejectedError`` for a source that is one file without a record, and that the importer does not recognize."""
    if found or source.is_several or importer.recognizes(source):
        return
    reasons = [f"{reason} ({count:,})" for reason, count in source.skipped.most_common(3)]
    reasons = reasons or [f"{where}: {note}" for where, note in source.notes[:1]]
    why = f": {', '.join(reasons)}" if reasons else ""
    raise RejectedError(f"{source.path} is no source of the kind {kind!r}{why}", rule="kind")


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
    raise RejectedError(
        f"the kind of {source.path} cannot be told by its content: name one of {kinds}; add(messages) takes a chat",
        rule="kind",
    )


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
    """The names of an import: its kind, the text before its keys, and the subject that a key names, if any."""

    kind: str
    client: str
    subject: Callable[[str], str] | None = None

    @property
    def recorded(self) -> str:
        return f"import:{self.kind}"


class _Known(NamedTuple):
    """A memory that came from a statement of the source, with the beginning of its validity."""

    id: str
    status: str
    since: str = ""


class _Move:
    """An import that is running."""

    def __init__(self, ledger: Ledger, source: Source, names: _Names, request: MoveRequest) -> None:
        self._ledger = ledger.bind(client=names.recorded)
        self._source, self._names, self._request = source, names, request
        self._check_trusted()
        self._zone = None if request.zone is None else zone_named(request.zone)
        now = times.fixed(datetime.now(UTC))
        self._since = None if request.since is None else times.since("since", request.since, now)
        self._run = uuid7(time.time_ns(), os.urandom(8))
        self._folders = dict[str, tuple[str | None, bool]]()
        self._turns, self._waiting = dict[int, str](), set[int]()
        self._statements, self._refuted = dict[int, _Known](), dict[int, str]()
        self._chunks, self._holding = dict[int, str](), dict[int, int]()  # of each subject the statement that is active
        self._session, self._said = "", dict[int, str]()  # the messages and summaries of one conversation
        self._tried = list[int]()  # the keys of a dry run's chunk
        self._read_turns()
        self._read_statements()
        self.taken, self.known = Counter[str](), 0
        self.first = self.last = ""
        self.stopped = ""

    def _check_trusted(self) -> None:
        """Raise ``RejectedError`` if this ledger distrusts what this importer records; every record would be refused."""
        client = self._names.recorded
        for origin in self._ledger.history.distrusted().all():
            if (origin.kind, origin.origin, origin.until) == ("client", client, None):
                raise RejectedError(
                    f"the client {client} is distrusted here, so nothing of it is taken;"
                    f" `memory-ledger history trust {client} --kind client` takes that back",
                    rule="trust",
                )

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
        """Record a chunk in one commit, or take it back before the commit."""
        if not self._request.dry_run:
            with self._ledger.batch():
                self._take_all(chunk)
            return
        with suppress(_Trial), self._ledger.batch(whole=True):
            self._take_all(chunk)
            raise _Trial
        for key in self._tried:  # a later chunk cannot name what is taken back
            if key in self._turns:
                self._turns[key] = ""
            elif key in self._statements:
                self._statements[key] = self._statements[key]._replace(id="")
            elif key in self._said:
                self._said[key] = ""
        self._tried.clear()
        self._chunks.clear()

    def _take_all(self, chunk: list[Record]) -> None:
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
                case MovedDocument():
                    self._take_document(record)
                case MovedProject():
                    self._take_project(record)
                case MovedState():
                    self._take_state(record)
                case MovedMessage():
                    self._take_message(record)
                case MovedSummary():
                    self._take_summary(record)
                case MovedObservation():
                    self._take_observation(record)
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
        interaction = self._ledger.capture(
            clean(turn.prompt),
            clean(turn.response),
            summary=clean(turn.summary),
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
        self._turns[key] = interaction.id
        self._tried.append(key)
        if not turn.response:
            self._waiting.add(key)
        self._count("turns", at)

    def _complete(self, key: int, turn: MovedTurn) -> None:
        """Add the response to a turn that is known without one."""
        if key not in self._waiting or not turn.response.strip():
            raise _AlreadyKnown
        if id := self._turns[key]:
            self._ledger.interactions.add_response(id, clean(turn.response), correlation_id=self._run)
        self._waiting.discard(key)
        self._count("responses", None)

    def _project(self, turn: MovedTurn) -> tuple[str | None, bool]:
        """Return the project of a turn, and whether the memory is off there."""
        name = self._request.project or turn.project
        if name is not None or not turn.folder:
            return name, False
        if turn.folder not in self._folders:
            try:
                here = self._ledger.projects.enter(turn.folder)
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
            if statement.status in OPEN or known.status not in OPEN:
                raise _AlreadyKnown
            self._end(key, known, statement)  # the source ended it since the last import
            self._count("changes", None)
            return
        self._check_since(at)
        self._check_refuted(statement, at)
        if not statement.content.strip():
            raise _Left("a statement without words")
        replaced = _digest(statement.supersedes) if statement.supersedes else 0
        if self._names.subject is not None and statement.status == "active":
            subject = _digest(self._names.subject(statement.key))
            holding = self._holding.get(subject, 0)
            replaced, held = replaced or holding, self._statements.get(holding)
            if at is not None and held is not None and times.moment("at", at) < held.since:  # of an older list
                statement, replaced = replace(statement, status="superseded", ended_at=held.since), 0
            else:
                self._holding[subject] = key
        self._statements[key] = memory = self._record(statement, at, replaced)
        self._tried.append(key)
        self._count("statements", at)
        if memory.status in OPEN and statement.status not in OPEN:
            self._end(key, memory, statement)

    def _record(self, statement: MovedStatement, at: str | None, replaced: int) -> _Known:
        """Record a statement as active or as a candidate, also in the place of another; what is over begins as a candidate."""
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
        before, is_active = self._statements.get(replaced), statement.status == "active"
        replaces = before if before is not None and before.status in OPEN else None
        if replaces is not None and replaces.status == "candidate" and self._waits(statement.channel):
            self._end(replaced, replaces, MovedEnding(key=where, status="superseded", at=at, channel=statement.channel))
            replaces = None
        if replaces is not None and replaces.id:  # of a dry run it may be gone
            memory = ledger.supersede(replaces.id, content, propose=not is_active, **fields)  # type: ignore[arg-type]
        else:
            fields |= {"project": self._request.project or statement.project, "session": statement.session}
            fields["reference_count"] = statement.reference_count
            fields["last_referenced_at"] = self._time(statement.last_referenced_at, where)
            put = ledger.remember if is_active else ledger.propose
            memory = put(content, **fields)  # type: ignore[arg-type]
        if replaces is not None and (is_active or replaces.status == "candidate"):
            self._statements[replaced] = replaces._replace(status="superseded")
        return _Known(memory.id, memory.status, memory.valid_from)

    def _take_ending(self, ending: MovedEnding) -> None:
        key = _digest(ending.key)
        known = self._statements.get(key)
        if known is None:
            raise _Left("the end of a statement that did not come along")
        if known.status not in OPEN:
            raise _AlreadyKnown
        self._end(key, known, ending)
        self._count("changes", None)

    def _end(self, key: int, known: _Known, end: MovedStatement | MovedEnding) -> None:
        """Bring a memory into the status that its statement has in the source."""
        ended_at = end.ended_at if isinstance(end, MovedStatement) else end.at
        options = self._options(f"{end.status}:{end.key}", self._time(ended_at, end.key), end.channel)
        if known.id:
            if end.status == "superseded" and known.status == "candidate" and self._waits(end.channel):
                self._ledger.retract(known.id, reason=end.reason or "over in the source, and not approved", **options)
            elif end.status == "superseded":
                self._ledger.memories.end(known.id, reason=end.reason, **options)
            elif end.status == "retracted":
                self._ledger.retract(known.id, reason=end.reason, **options)
            elif known.status == "candidate":
                self._ledger.reject(known.id, reason=end.reason, **options)
            else:
                self._ledger.invalidate(known.id, reason=end.reason, **options)
        self._statements[key] = _Known(known.id, end.status)

    def _check_refuted(self, statement: MovedStatement, at: str | None) -> None:
        """Raise ``_Left`` for a text that this ledger has turned down, or has replaced after that time.

        A text that was turned down was never true, so it does not come as what was true until its end either.
        """
        ended = self._refuted.get(_text_digest(statement.content))
        if ended == "" and statement.status in (*OPEN, "superseded"):
            raise _Left("a statement that this ledger has refuted")
        if ended and statement.status in OPEN and (at is None or times.moment("at", at) <= ended):
            raise _Left("a statement that this ledger replaced")

    def _id_of(self, key: str) -> str | None:
        digest = _digest(key)
        known = self._statements.get(digest)
        return known.id if known is not None else self._turns.get(digest, self._chunks.get(digest))

    # --- values --------------------------------------------------------------------------------------------------

    def _take_value(self, stored: MovedValue) -> None:
        at = self._time(stored.at, stored.key)
        self._check_since(at)
        name = "/".join((*stored.namespace, stored.key))
        version = _digest(json.dumps(stored.value, sort_keys=True, default=str))  # a value that changed there is new
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

    # --- documents, projects and observations --------------------------------------------------------------------

    def _take_document(self, document: MovedDocument) -> None:
        at = self._time(document.at, document.key)
        self._check_since(at)
        added = self._ledger.documents.add(
            [{**chunk, "content": clean(str(chunk["content"]))} for chunk in document.chunks],
            title=clean(document.title),
            tags=document.tags,
            metadata=document.metadata,
            project=self._request.project or document.project,
            path=clean(document.path),
            **self._options(document.key, at, "file"),
        )
        chunks = zip(document.chunk_keys, added.chunks, strict=False)  # fewer chunks if the document was changed here
        self._chunks |= {_digest(key): chunk.id for key, chunk in chunks}
        if added.replayed or added.absorbed:
            raise _AlreadyKnown
        self._count("documents", at)

    def _take_project(self, project: MovedProject) -> None:
        added = self._ledger.projects.add(
            clean(project.name), description=clean(project.description), **self._options(project.key, None)
        )
        if added.replayed or added.absorbed:
            raise _AlreadyKnown
        self._count("projects", None)

    def _take_state(self, state: MovedState) -> None:
        at, name = self._time(state.at, state.key), clean(state.name)
        self._check_since(at)
        project = self._request.project or clean(state.project)
        with suppress(NotFoundError):
            for entry in self._ledger.projects.state(project):
                if (entry.category, entry.name) == (state.category, name):
                    if entry.value == state.value:
                        raise _AlreadyKnown
                    raise _Left("a value of trusted state that was set here")
        options = self._options(state.key, at)
        self._ledger.projects.set_state(
            project, state.category, name, clean(state.value), source=clean(state.source), **options
        )
        self._count("values of trusted state", at)

    def _take_observation(self, observation: MovedObservation) -> None:
        at = self._time(observation.at, observation.key)
        self._check_since(at)
        statements = {key: self._statements.get(_digest(key)) for key in observation.sources}
        sources = [
            known.id if known is not None else self._id_of(key)
            for key, known in statements.items()
            if known is None or known.status == "active"
        ]
        if all(id is None for id in sources):
            raise _Left("an observation none of whose sources came along and is in use")
        fields: dict[str, object] = {"tags": observation.tags[:10], "project": observation.project}
        if observation.confidence is not None:
            fields["confidence"] = min(1.0, max(0.0, observation.confidence))
        if ids := tuple(filter(None, sources)):  # of a dry run they may be gone
            options = self._options(observation.key, at, observation.channel)
            added = self._ledger.observations.add(clean(observation.content), ids, **fields, **options)  # type: ignore[arg-type]
            if added.replayed or added.absorbed:
                raise _AlreadyKnown
        self._count("observations", at)

    # --- messages and summaries ----------------------------------------------------------------------------------

    def _conversation(self, name: str) -> Session:
        if name != self._session:
            self._session, self._said = name, {}
        return self._ledger.session(name, project=self._request.project)

    def _take_message(self, message: MovedMessage) -> None:
        at, session = self._time(message.at, message.key), self._conversation(message.session)
        self._check_since(at)
        added = session.append(
            message.role,
            clean(message.content),
            parts=message.parts,
            token_count=message.token_count,
            model=message.model,
            metadata=message.metadata,
            **self._options(message.key, at, "user" if message.role == "user" else "agent"),
        )
        if added.skipped:
            raise _Left(f"a message that is not stored here ({added.skipped})")
        self._said[_digest(message.key)] = added.id
        if added.replayed:
            raise _AlreadyKnown
        self._tried.append(_digest(message.key))
        self._count("messages", at)

    def _take_summary(self, summary: MovedSummary) -> None:
        at, session = self._time(summary.at, summary.key), self._conversation(summary.session)
        sources, key = [self._said.get(_digest(key)) for key in summary.sources], _digest(summary.key)
        if not sources or None in sources:
            raise _Left("a summary of which a source did not come along")
        if "" in sources:  # a dry run has taken that source back
            self._said[key] = ""
        else:
            added = session.summaries.add(
                clean(summary.content),
                tuple(filter(None, sources)),
                token_count=summary.token_count,
                model=summary.model,
                **self._options(summary.key, at, "agent"),
            )
            self._said[key] = added.id
            if added.replayed:
                raise _AlreadyKnown
            self._tried.append(key)
        self._count("summaries", at)

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

    def _waits(self, channel: Channel) -> bool:
        """Return True if what comes through a channel waits for review, so that its end says nothing about what was true."""
        return (self._request.channel or channel) not in ("user", "agent")

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
        columns = f"id, content, status, valid_from, valid_to, metadata ->> '$.{STATEMENT}' AS key"
        for row in self._rows(columns, "beliefs", "content IS NOT NULL"):
            text, status = _text_digest(str(row["content"])), str(row["status"])
            if row["key"] is not None:
                key = _digest(str(row["key"]))
                self._statements[key] = _Known(str(row["id"]), status)
                if self._names.subject is not None and status == "active":
                    self._statements[key] = _Known(str(row["id"]), status, str(row["valid_from"]))
                    self._holding[_digest(self._names.subject(str(row["key"])))] = key
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


class _Trial(Exception):
    """The end of a chunk of a dry run, which takes back what the chunk recorded."""


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
