"""``AsyncLedger``, ``AsyncPastLedger`` and their namespaces: the plain ledger, with calls that are awaited.

``tools/pages/async_classes.py`` writes this file; the plain classes have the whole help.
"""

# fmt: off

import os
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, Self, Unpack

from ledger.aio.area import AsyncArea, OpenedLedger, Opening
from ledger.aio.pages import AsyncHits, AsyncPage
from ledger.api import PastLedger
from ledger.care.answers import (
    BackupReport, DoctorReport, ExportReport, RebuildReport, RecoverReport, ReplayReport, Stats,
)
from ledger.core.settings import Settings
from ledger.documents.answers import Chunk, Document
from ledger.domain.scan.scanner import Scanner
from ledger.erasure.answers import ErasureReport, Hold
from ledger.extraction.answers import Added, ExtractionReport, Learned, ReadToday, Unread
from ledger.graph.answers import Graph
from ledger.guards.answers import Quarantined, Refusal, ScanReport
from ledger.history.answers import AuditEntry, Bisection, Blame, Diff, Explanation, LogEntry, Step, WhatIf, Why
from ledger.interactions.answers import ImportReport, Interaction, Reinforcement
from ledger.jobs.answers import JobReport
from ledger.log.paths import StrPath
from ledger.log.shared.port import SharedLog
from ledger.memories.answers import Candidate, ConfidencePoint, Memory
from ledger.models.models import ModelCall
from ledger.models.port import ModelAnswer
from ledger.observations.answers import ConsolidationReport, Observation, WithdrawalReport
from ledger.policy.answers import Policy
from ledger.projections.answers import OwnProjection
from ledger.projects.answers import FolderProject, ProjectInfo, StateEntry
from ledger.proof.answers import Checkpoint, Proof, ProofCheck, VerifyReport
from ledger.proof.kept import Given
from ledger.recall.packs import Pack
from ledger.review.answers import Conflict, ConflictReport, Merge, MergeReport
from ledger.sessions.answers import CompactionReport, HistoryChange, Message, SessionInfo, Summary
from ledger.sessions.assembled import Window
from ledger.sessions.diagram import SummaryGraph
from ledger.sessions.rules.window import WindowItem
from ledger.sessions.search_answers import Expansion, Unexpanded
from ledger.types import (
    EVERYTHING, Cancel, Channel, Choice, ConflictStatus, Corpus, DocumentSource, DocumentStatus, DocumentType,
    EmbedderLike, Extracting, Freshness, GroupOptions, Job, Json, MemoryStatus, MergeStatus, Messages, Metadata,
    Method, ModelLike, Moment, ObservationStatus, Order, OriginKind, Packing, PolicyChanges, ProjectStatus, Purpose,
    Role, SessionPatterns, Since, StateCategory, Subject, SummarizerLike, SummaryStatus, Time, Trend, Triple, Unit,
    ValueStatus, WriteOptions,
)
from ledger.undo.answers import DistrustReport, Distrusted, UndoReport
from ledger.values.answers import Value
from ledger.vectors.answers import VectorModel, VectorReport
from projections.core.own import R, Projection

class AsyncSessionRead(AsyncArea):
    """A conversation for reading, now or at a moment of the past. Requesting a conversation writes nothing."""

    async def id(self) -> str | None:
        """Return the session's id (``s_…``); None while the session has no messages."""

    @property
    def name(self) -> str:
        """Return the name, alias or id by which the session was requested."""

    @property
    def user(self) -> str:
        """Return the user to whom the session belongs."""

    async def info(self) -> SessionInfo:
        """Return the state of the session: its names, counts and the size of its window."""

    async def messages(
        self, *, metadata: Metadata | None = None, limit: int = 50, after: str | None = None,
        include_hidden: bool = False, oldest_first: bool = False,
    ) -> AsyncPage[Message]:
        """List messages in the order of time."""

    async def message(self, position: int | str) -> Message:
        """Return a message, hidden or not."""

    async def items(self) -> tuple[WindowItem, ...]:
        """Return the messages and summaries of the window, oldest first, without their texts."""

    async def abstract(self) -> str:
        """Return the summary of the whole session that a person wrote, or ""."""

    @property
    def summaries(self) -> AsyncSummariesRead:
        """Return the summaries of the session, to list them and to draw their graph."""

    async def window(
        self, budget: int, *, unit: Unit = "tokens", question: str | None = None, share: float | None = None,
        summary_share: float = 0.2, among: Iterable[Corpus] = ("memories", "chunks", "turns"), tail: int = 32,
        receipt: bool = False,
    ) -> Window:
        """Return the part of the session for a model: the newest messages that fit, and summaries of older messages."""

    async def grep(
        self, pattern: str, *, scope: Literal['both', 'message', 'summary'] = "both", role: Role | None = None,
        since: Since | None = None, until: Since | None = None, limit: int = 20, after: str | None = None,
        include_hidden: bool = False, order: Literal['newest', 'relevance'] = "newest", oldest_first: bool = False,
    ) -> AsyncHits:
        """List the messages and summaries of this session that a pattern matches, newest first."""

    async def expand(
        self, ids: str | int | Unexpanded | Iterable[str | int | Unexpanded], *, budget: int = 4000,
        unit: Unit = "tokens",
    ) -> Expansion:
        """Return the whole messages behind summaries or positions, oldest first, as many as a budget holds."""

class AsyncSession(AsyncSessionRead):
    """A conversation to which messages are appended, and which is kept within a model's window."""

    def bind(
        self, *, actor: str | None = None, client: str | None = None, channel: Channel | None = None,
        agent: str | None = None,
    ) -> AsyncSession:
        """Return the same session with another actor, client, channel or agent."""

    async def append(
        self, role: Role, content: str = "", *, parts: Iterable[Mapping[str, Any]] = (),
        tool_calls: Iterable[Mapping[str, Any]] = (), tool_call_id: str | None = None, token_count: int | None = None,
        model: str = "", speaker: str = "", extra: Mapping[str, Any] | None = None, metadata: Metadata | None = None,
        raw: Json = None, **options: Unpack[WriteOptions],
    ) -> Message:
        """Add a message and return it."""

    async def extend(
        self, messages: Iterable[Mapping[str, Any] | Message], **options: Unpack[WriteOptions],
    ) -> HistoryChange:
        """Add several messages in one append, which one undo takes back."""

    @property
    def summaries(self) -> AsyncSummaries:
        """Return the summaries of the session, to list, invalidate, restore and rewrite them."""

    async def reopen(self, receipt: str) -> Window:
        """Return the window that ``window(…, receipt=True)`` returned at that time; erased texts are None."""

    async def set_abstract(self, text: str, **options: Unpack[WriteOptions]) -> str:
        """Set the summary of the whole session, and return it."""

    async def set_metadata(
        self, metadata: Metadata | None = None, *, unset: Iterable[str] = (), **options: Unpack[WriteOptions],
    ) -> SessionInfo:
        """Set keys of the session's metadata, or remove keys; other keys keep their values."""

    async def compact(
        self, budget: int | None = None, *, until_under: bool = False, force: bool = False,
        summarizer: SummarizerLike | None = None, timeout: float = 120.0, extract: bool = False,
        **options: Unpack[WriteOptions],
    ) -> CompactionReport:
        """Put summaries in the place of older messages if there are enough; you may call this in every turn."""

    async def extract(
        self, *, method: Method | None = None, model: ModelLike | None = None, since: int | None = None,
        dry_run: bool = False, gate: bool = True, timeout: float | None = None, cancel: Cancel | None = None,
        **options: Unpack[WriteOptions],
    ) -> ExtractionReport:
        """Find candidates for memories in the messages since the last extraction."""

    async def skip_extraction(
        self, *, parent: str | None = None, until: int | None = None, **options: Unpack[WriteOptions],
    ) -> SessionInfo:
        """Leave the beginning of the session out of later extractions, for a session that branched off another session."""

    async def reconcile(
        self, transcript: Iterable[Mapping[str, Any] | Message], *, dry_run: bool = False,
        **options: Unpack[WriteOptions],
    ) -> HistoryChange:
        """Make the session equal to a transcript that is kept elsewhere."""

    async def replace(
        self, messages: Iterable[Mapping[str, Any] | Message], **options: Unpack[WriteOptions],
    ) -> HistoryChange:
        """Make these messages the whole history; messages in common at the beginning stay."""

    async def truncate(self, keep: int, **options: Unpack[WriteOptions]) -> HistoryChange:
        """Hide all but the newest messages; hidden messages stay in the log, and ``include_hidden`` shows them."""

    async def remove_last(self, count: int = 1, **options: Unpack[WriteOptions]) -> HistoryChange:
        """Hide the newest messages, as many as there are up to ``count``; an undo brings them back."""

    async def clear(self, **options: Unpack[WriteOptions]) -> HistoryChange:
        """Begin the session again: hide every message, invalidate every summary, remove the abstract."""

    async def add_alias(self, alias: str, **options: Unpack[WriteOptions]) -> SessionInfo:
        """Give the session another name."""

class AsyncSummariesRead(AsyncArea):
    """The summaries of one session."""

    async def list(
        self, *, statuses: Iterable[SummaryStatus] = (), limit: int = 50, after: str | None = None,
        oldest_first: bool = False,
    ) -> AsyncPage[Summary]:
        """List summaries, newest first."""

    async def graph(self, *, include_replaced: bool = False) -> SummaryGraph:
        """Return the window with the sources of each summary; ``as_mermaid()`` of the graph returns a flowchart."""

class AsyncSummaries(AsyncSummariesRead):
    """The summaries of one session, with the commands that change them."""

    async def add(
        self, content: str, sources: Iterable[str | int], *, token_count: int | None = None, model: str = "",
        **options: Unpack[WriteOptions],
    ) -> Summary:
        """Record a summary that was written elsewhere, in the place of a stretch of the window; no model is asked."""

    async def invalidate(
        self, id: str, *, subtree: bool = False, reason: str = "", **options: Unpack[WriteOptions],
    ) -> HistoryChange:
        """Take a summary out of use, and every summary that was written from it; their sources are in the window again."""

    async def restore(self, id: str, *, reason: str = "", **options: Unpack[WriteOptions]) -> Summary:
        """Bring an invalidated summary back into the window."""

    async def rewrite(
        self, id: str, *, summarizer: SummarizerLike | None = None, timeout: float = 120.0,
        **options: Unpack[WriteOptions],
    ) -> Summary:
        """Write a summary again from the same sources; the new summary takes the place of the old summary."""

class AsyncSessionsRead(AsyncArea):
    """The sessions of a user, now or as they were at a moment."""

    async def list(
        self, *, project: str | None = None, metadata: Metadata | None = None, limit: int = 50,
        after: str | None = None, oldest_first: bool = False,
    ) -> AsyncPage[SessionInfo]:
        """List sessions, newest first."""

    async def get(self, name: str) -> SessionInfo:
        """Return the state of a session."""

    async def grep(
        self, pattern: str, *, scope: Literal['both', 'message', 'summary'] = "both", role: Role | None = None,
        since: Since | None = None, until: Since | None = None, limit: int = 20, after: str | None = None,
        include_hidden: bool = False, order: Literal['newest', 'relevance'] = "newest", oldest_first: bool = False,
    ) -> AsyncHits:
        """List the messages and summaries of all sessions that a pattern matches, newest first."""

class AsyncSessions(AsyncSessionsRead):
    """The sessions of a user."""

class AsyncMemoriesRead(AsyncArea):
    """The memories of a user, now or as they were known at a moment."""

    async def list(
        self, *, kinds: Iterable[str] = (), statuses: Iterable[MemoryStatus] = ("active",), project: str | None = None,
        tags: Iterable[str] = (), metadata: Metadata | None = None, min_confidence: float = 0.0,
        since: Since | None = None, until: Since | None = None, order: Order = "recorded", limit: int = 50,
        after: str | None = None, oldest_first: bool = False,
    ) -> AsyncPage[Memory]:
        """List memories, newest first."""

    async def get(self, id: str) -> Memory:
        """Return a memory of any status; ``effective_confidence(day)`` of the answer subtracts the decay of its confidence."""

    async def confidence(self, id: str) -> tuple[ConfidencePoint, ...]:
        """Return every step of a memory's confidence, oldest first, each with its cause."""

class AsyncMemories(AsyncMemoriesRead):
    """The memories of a user."""

    async def tag(
        self, id: str, *, add: Iterable[str] = (), remove: Iterable[str] = (), **options: Unpack[WriteOptions],
    ) -> Memory:
        """Add tags to a memory, or remove tags."""

    async def correct(
        self, id: str, *, kind: str | None = None, project: str | None = None, entities: Iterable[str] | None = None,
        reason: str = "", **options: Unpack[WriteOptions],
    ) -> Memory:
        """Correct the kind, the project or the entities of a memory, which keeps its id; ``revise`` corrects the wording."""

    async def set_metadata(
        self, id: str, metadata: Metadata | None = None, *, unset: Iterable[str] = (), **options: Unpack[WriteOptions],
    ) -> Memory:
        """Set keys of a memory's metadata, or remove keys; other keys keep their values."""

    async def set_validity(
        self, id: str, *, valid_from: Time | None = None, valid_to: Time | None = None, reason: str = "",
        **options: Unpack[WriteOptions],
    ) -> Memory:
        """Set the time in which a memory is true in the world."""

    async def end(self, id: str, *, reason: str = "", **options: Unpack[WriteOptions]) -> Memory:
        """End a memory that is true no longer, and has no successor: its status is superseded, and it holds until now."""

    async def set_confidence(
        self, id: str, confidence: float, *, reason: str = "", **options: Unpack[WriteOptions],
    ) -> Memory:
        """Set the confidence of a memory by hand."""

class AsyncInteractionsRead(AsyncArea):
    """The interactions of a user, now or as they were known at a moment."""

    async def list(
        self, *, project: str | None = None, session: str | None = None, client: str | None = None,
        metadata: Metadata | None = None, since: Since | None = None, until: Since | None = None, text: bool = True,
        order: Order = "recorded", limit: int = 50, after: str | None = None, oldest_first: bool = False,
    ) -> AsyncPage[Interaction]:
        """List interactions, newest first."""

    async def get(self, id: str) -> Interaction:
        """Return an interaction with its texts."""

class AsyncInteractions(AsyncInteractionsRead):
    """The interactions of a user."""

    async def add_response(
        self, id: str, response: str, *, summary: str = "", memories_used: Iterable[str] = (),
        chunks_used: Iterable[str] = (), metadata: Metadata | None = None, **options: Unpack[WriteOptions],
    ) -> Interaction:
        """Add the response to an interaction that was captured without a response; the response cannot be replaced."""

    async def reinforce(self, id: str, **options: Unpack[WriteOptions]) -> Reinforcement:
        """Search again for memories that a response restates, and reinforce the memories that it has not reinforced yet."""

    async def import_file(
        self, path: str | os.PathLike[str], *, project: str | None = None, strict: bool = False,
        occurred_at: Time | None = None, dates: str | None = None, zone: str | None = None, dry_run: bool = False,
        timeout: float | None = None, cancel: Cancel | None = None, progress: Callable[[int, int], None] | None = None,
    ) -> ImportReport:
        """Capture the interactions of a file; importing the same file again adds nothing."""

class AsyncDocumentsRead(AsyncArea):
    """The documents of a user, now or as they were known at a moment."""

    async def list(
        self, *, project: str | None = None, tags: Iterable[str] = (), metadata: Metadata | None = None,
        statuses: Iterable[DocumentStatus] = ("active",), limit: int = 50, after: str | None = None,
        oldest_first: bool = False,
    ) -> AsyncPage[Document]:
        """List documents without their chunks, newest first."""

    async def get(self, id: str, *, text: bool = False) -> Document:
        """Return a document of any status with its chunks in order."""

    async def get_chunk(self, id: str) -> Chunk:
        """Return a chunk with its text; the chunk's status shows if the document no longer has it."""

class AsyncDocuments(AsyncDocumentsRead):
    """The documents of a user."""

    async def add(
        self, source: DocumentSource, *, title: str = "", tags: Iterable[str] | None = None,
        metadata: Metadata | None = None, project: str | None = None, path: str | None = None,
        type: DocumentType | None = None, **options: Unpack[WriteOptions],
    ) -> Document:
        """Add a document, cut into chunks along its headings; the path identifies a document, or without a path the text."""

    async def remove(self, id: str, *, reason: str = "", **options: Unpack[WriteOptions]) -> Document:
        """Take a document and its chunks out of use; memories that came from it stay."""

    async def restore(self, id: str, *, reason: str = "", **options: Unpack[WriteOptions]) -> Document:
        """Make a removed document active again."""

class AsyncValuesRead(AsyncArea):
    """The keyed values of a user, now or as they were at a moment."""

    async def get(self, namespace: Iterable[str], key: str) -> Value:
        """Return the value under a key."""

    async def list(
        self, prefix: Iterable[str] = (), *, where: Mapping[str, Json] | None = None, question: str | None = None,
        statuses: Iterable[ValueStatus] = ("active",), limit: int = 50, after: str | None = None,
    ) -> AsyncPage[Value]:
        """List the values of a namespace and of those below it, in the order of their keys."""

    async def namespaces(
        self, prefix: Iterable[str] = (), *, max_depth: int | None = None, limit: int = 50, after: str | None = None,
    ) -> AsyncPage[tuple[str, ...]]:
        """List the namespaces that have values now, in order."""

class AsyncValues(AsyncValuesRead):
    """The keyed values of a user."""

    async def put(
        self, namespace: Iterable[str], key: str, value: Json, *, index: bool = True,
        fields: Iterable[str] | None = None, expires_at: Time | None = None, **options: Unpack[WriteOptions],
    ) -> Value:
        """Put a value under a key, in place of any value before; ``get`` returns the value unchanged."""

    async def move(
        self, namespace: Iterable[str], key: str, to_namespace: Iterable[str], to_key: str, *, reason: str = "",
        **options: Unpack[WriteOptions],
    ) -> Value:
        """Give a value another key; its id and its history stay."""

    async def remove(
        self, namespace: Iterable[str], key: str, *, reason: str = "", **options: Unpack[WriteOptions],
    ) -> Value:
        """Take a value out of use; ``restore`` brings it back, and so does a put under its key."""

    async def restore(
        self, namespace: Iterable[str], key: str, *, reason: str = "", **options: Unpack[WriteOptions],
    ) -> Value:
        """Bring the value back that was removed from a key or expired there; an ``expires_at`` in the past is dropped."""

class AsyncProjectsRead(AsyncArea):
    """The projects of a user, now or as they were known at a moment."""

    async def list(
        self, *, statuses: Iterable[ProjectStatus] = ("active",), limit: int = 50, after: str | None = None,
        oldest_first: bool = False,
    ) -> AsyncPage[ProjectInfo]:
        """List projects with their trusted state, newest first."""

    async def get(self, name: str) -> ProjectInfo:
        """Return a project with its trusted state."""

    async def of(self, folder: StrPath | None = None, *, project: str | None = None) -> FolderProject:
        """Return the project of a folder, and whether the memory is off there; nothing is recorded."""

    async def context(self, project: str | None = None, *, budget: int | None = None, unit: Unit = "chars") -> Pack:
        """Return the context of a project for a prompt: its trusted state and its ten newest memories."""

    async def state(
        self, project: str, *, category: StateCategory | None = None, name: str | None = None, history: bool = False,
    ) -> tuple[StateEntry, ...]:
        """Return the trusted state of a project, in the order in which it was set."""

class AsyncProjects(AsyncProjectsRead):
    """The projects of a user."""

    async def add(self, name: str, *, description: str = "", **options: Unpack[WriteOptions]) -> ProjectInfo:
        """Add a project."""

    async def add_alias(self, project: str, alias: str, **options: Unpack[WriteOptions]) -> ProjectInfo:
        """Give a project another name, which from now on finds everything that is recorded for the project."""

    async def rename(self, project: str, name: str, **options: Unpack[WriteOptions]) -> ProjectInfo:
        """Give a project another name; the former name stays an alias, and ``undo`` takes the new name back."""

    async def link(self, project: str, folder: StrPath = ".", **options: Unpack[WriteOptions]) -> ProjectInfo:
        """Make a folder's root a root of a project: after the folder moved, or if two repositories share a memory."""

    async def enter(
        self, folder: StrPath | None = None, *, project: str | None = None, **options: Unpack[WriteOptions],
    ) -> FolderProject:
        """Return the project of a folder as ``of`` does, and at the first use of its root link the root with the project."""

    async def join(self, target: str, name: str, *, reason: str = "", **options: Unpack[WriteOptions]) -> ProjectInfo:
        """Join a project into another, so that the names of both find the records of both; ``undo`` separates them again."""

    async def archive(self, project: str, *, reason: str = "", **options: Unpack[WriteOptions]) -> ProjectInfo:
        """Leave a project out of ``list``, and of every recall, context and profile that names no project."""

    async def restore(self, project: str, *, reason: str = "", **options: Unpack[WriteOptions]) -> ProjectInfo:
        """Make an archived project active again."""

    async def set_state(
        self, project: str, category: StateCategory, name: str, value: str, *, source: str = "",
        **options: Unpack[WriteOptions],
    ) -> ProjectInfo:
        """Set a value of trusted state, which only a person may set; earlier values stay readable."""

    async def remove_state(
        self, project: str, category: StateCategory, name: str, *, reason: str = "", **options: Unpack[WriteOptions],
    ) -> ProjectInfo:
        """Take a value of trusted state out of use; the value stays readable with ``state(history=True)``."""

class AsyncObservationsRead(AsyncArea):
    """The observations of a user, now or as they were known at a moment."""

    async def list(
        self, *, project: str | None = None, tags: Iterable[str] = (), trends: Iterable[Trend] = (),
        statuses: Iterable[ObservationStatus] = ("active",), freshness: Freshness | None = None, limit: int = 50,
        after: str | None = None, oldest_first: bool = False,
    ) -> AsyncPage[Observation]:
        """List observations with their sources, newest first."""

    async def get(self, id: str) -> Observation:
        """Return an observation of any status with its sources; ``why(id)`` also shows the content of the sources."""

class AsyncObservations(AsyncObservationsRead):
    """The observations of a user."""

    async def add(
        self, content: str, sources: Iterable[str], *, confidence: float = 0.9, project: str | None = None,
        tags: Iterable[str] = (), reason: str = "", **options: Unpack[WriteOptions],
    ) -> Observation:
        """Add an observation by hand: a text in your words that states what several sources have in common."""

    async def withdraw(
        self, sources: Iterable[str], *, exclusive: bool = False, dry_run: bool = False, reason: str = "",
        **options: Unpack[WriteOptions],
    ) -> WithdrawalReport:
        """Withdraw sources from every observation."""

class AsyncMergesRead(AsyncArea):
    """The merges of a user, now or as they were known at a moment."""

    async def list(
        self, *, statuses: Iterable[MergeStatus] = ("proposed",), project: str | None = None, limit: int = 50,
        after: str | None = None, oldest_first: bool = False,
    ) -> AsyncPage[Merge]:
        """List merges with their memories, newest first."""

    async def get(self, id: str) -> Merge:
        """Return a merge as it stands."""

class AsyncMerges(AsyncMergesRead):
    """The merges of a user."""

    async def find(
        self, *, project: str | None = None, threshold: float = 0.85, **options: Unpack[WriteOptions],
    ) -> MergeReport:
        """Propose merges of active memories of one kind and project; a second search proposes nothing twice."""

    async def apply(
        self, proposal: str, *, content: str | None = None, reason: str = "", **options: Unpack[WriteOptions],
    ) -> Memory:
        """Merge the memories of a proposal, and return the memory that supersedes them."""

    async def combine(
        self, memories: Iterable[str], *, content: str | None = None, reason: str = "",
        **options: Unpack[WriteOptions],
    ) -> Memory:
        """Merge 2 to 50 active memories of one kind and project, and return the memory that supersedes them."""

    async def reject(self, id: str, *, reason: str = "", **options: Unpack[WriteOptions]) -> Merge:
        """Reject a proposal; no two of its memories are proposed together again."""

class AsyncConflictsRead(AsyncArea):
    """The conflicts of a user, now or as they were known at a moment."""

    async def list(
        self, *, statuses: Iterable[ConflictStatus] = ("open",), project: str | None = None, limit: int = 50,
        after: str | None = None, oldest_first: bool = False,
    ) -> AsyncPage[Conflict]:
        """List conflicts with their memories, newest first."""

    async def get(self, id: str) -> Conflict:
        """Return a conflict as it stands."""

class AsyncConflicts(AsyncConflictsRead):
    """The conflicts of a user."""

    async def find(self, *, project: str | None = None, **options: Unpack[WriteOptions]) -> ConflictReport:
        """Search active memories for new conflicts and record them; a second search records nothing twice."""

    async def resolve(self, id: str, *, keep: str, reason: str = "", **options: Unpack[WriteOptions]) -> Conflict:
        """Keep one memory of a conflict; that memory supersedes the memories that exclude it."""

    async def accept(self, id: str, *, reason: str = "", **options: Unpack[WriteOptions]) -> Conflict:
        """Decide that all memories of a conflict can be true; the conflict is not raised again while they keep their values."""

class AsyncRelationsRead(AsyncArea):
    """Names and their relations, now or as they were known at a moment."""

    async def neighbors(
        self, text: str, *, project: str | None = None, relation: str | None = None, limit: int = 20,
        extracted: bool = True,
    ) -> Graph:
        """Return the names in a text that memories name, at most 8, with their neighbors one step away."""

class AsyncRelations(AsyncRelationsRead):
    """Names and their relations."""

    async def relate(
        self, memory: str, subject: str, relation: str, object: str, *, valid_from: Time | None = None,
        valid_to: Time | None = None, **options: Unpack[WriteOptions],
    ) -> Memory:
        """Record that a memory states a relation between two names."""

    async def unrelate(
        self, memory: str, subject: str, relation: str, object: str, *, reason: str = "",
        **options: Unpack[WriteOptions],
    ) -> Memory:
        """Remove a relation from a memory."""

class AsyncHistoryRead(AsyncArea):
    """The history of a user's memory, up to now or up to a moment."""

    async def audit(
        self, *, subject: str | None = None, actor: str | None = None, client: str | None = None,
        channel: Channel | None = None, agent: str | None = None, project: str | None = None,
        session: str | None = None, type: str | None = None, command: str | None = None, command_id: str | None = None,
        causation_id: str | None = None, correlation_id: str | None = None, text: str | None = None,
        since: int | Since | None = None, until: int | Since | None = None, limit: int = 50, after: str | None = None,
        oldest_first: bool = False,
    ) -> AsyncPage[AuditEntry]:
        """List events with their actor, client and command, newest first, by the time of recording."""

    async def events(self, subject: str, *, limit: int = 50, after: str | None = None) -> AsyncPage[Step]:
        """List every event of a subject with its effect, oldest first, undone events included."""

    async def explain(self, position: int) -> Explanation:
        """Explain the command that recorded an event in sentences: its events, its reason and its consequences."""

    async def blame(self, id: str) -> Blame:
        """Return the events from which the words of a belief come, and the events that moved its confidence."""

    async def distrusted(
        self, *, limit: int = 50, after: str | None = None, oldest_first: bool = False,
    ) -> AsyncPage[Distrusted]:
        """List the origins that are distrusted, newest first."""

    async def model_calls(
        self, *, purpose: Purpose | None = None, limit: int = 50, after: str | None = None, oldest_first: bool = False,
    ) -> AsyncPage[ModelCall]:
        """List the calls of language models, newest first, failed and undone calls included."""

class AsyncHistory(AsyncHistoryRead):
    """The history of a user's memory, with the commands that undo parts of it and put them back."""

    async def bisect(
        self, test: Callable[[PastLedger], object], *, good: Moment | None = None, bad: Moment | None = None,
    ) -> Bisection:
        """Find, by halving, the command after which a condition begins or ceases to hold."""

    async def diff(self, start: Moment, end: Moment | None = None, *, project: str | None = None) -> Diff:
        """Return the memories that came, went and changed between two moments."""

    async def what_if(
        self, *, without: str | int | Mapping[str, str] | None = None, since: int | Since | None = None,
        until: int | Since | None = None, policy: Mapping[str, Any] | None = None,
    ) -> WhatIf:
        """Return the beliefs without a command or an origin, or under another policy; write nothing."""

    async def log(
        self, *, after: int | str | None = None, until: int | Since | None = None, types: Iterable[str] = (),
        subject: str | None = None, limit: int = 50,
    ) -> AsyncPage[LogEntry]:
        """List every event of the file, of all users, oldest first, as it was recorded."""

    def follow(
        self, after: int | str | None = None, *, types: Iterable[str] = (), subject: str | None = None,
        timeout: float | None = None, cancel: Cancel | None = None,
    ) -> AsyncIterator[LogEntry]:
        """Iterate over the events of the file as ``log`` does, and then over each event that any process commits."""

    async def wait(self, position: int, *, timeout: float | None = None, cancel: Cancel | None = None) -> bool:
        """Wait until the log has a position, whichever process writes it; return False if the wait ended before."""

    async def behind(self) -> int | None:
        """Return the number of events of the shared log that this file lacks, as the log was last seen."""

    async def undo_all(
        self, *, session: str | None = None, command: str | None = None, correlation_id: str | None = None,
        by: str | None = None, since: Since | None = None, until: Since | None = None, cascade: bool = False,
        exclusive: bool = False, dry_run: bool = False, reason: str = "", **options: Unpack[GroupOptions],
    ) -> UndoReport:
        """Undo every command that passes all of the filters; at least one filter is needed."""

    async def distrust(
        self, origin: str, *, kind: OriginKind | None = None, since: int | Since | None = None,
        until: int | Since | None = None, exclusive: bool = False, dry_run: bool = False, reason: str = "",
        **options: Unpack[WriteOptions],
    ) -> DistrustReport:
        """Void everything that an origin wrote or caused, and refuse its future writes; the events of others stay."""

    async def trust(
        self, origin: str, *, kind: OriginKind | None = None, cascade: bool = False, exclusive: bool = False,
        dry_run: bool = False, reason: str = "", **options: Unpack[WriteOptions],
    ) -> DistrustReport:
        """Put back the events that a distrust made void, and accept the origin's writes again."""

class AsyncErasures(AsyncArea):
    """The erasures of this file, of every user; no report and no certificate holds a text that was erased."""

    async def list(
        self, *, limit: int = 50, after: str | None = None, oldest_first: bool = False,
    ) -> AsyncPage[ErasureReport]:
        """List every erasure, newest first, each with its certificate."""

    async def finish(self) -> tuple[ErasureReport, ...]:
        """Purge and search the files again for the pending erasures, and return the state of each."""

    async def certificates(self) -> tuple[str, ...]:
        """Return the certificates of all erasures, oldest first."""

class AsyncHolds(AsyncArea):
    """The legal holds of a user; a subject on hold cannot be erased."""

    async def list(self, *, limit: int = 50, after: str | None = None, oldest_first: bool = False) -> AsyncPage[Hold]:
        """List the holds on this user's subjects, newest first."""

    async def add(self, subject: Subject = EVERYTHING, *, reason: str = "", **options: Unpack[WriteOptions]) -> Hold:
        """Keep a subject from being erased; a hold that exists already stays as it is (``absorbed``)."""

    async def remove(self, hold: str, *, reason: str = "", **options: Unpack[WriteOptions]) -> Hold:
        """End a hold."""

class AsyncGuardsRead(AsyncArea):
    """The quarantine and the refusals of a user's memory, now or at a moment."""

    async def quarantined(
        self, *, limit: int = 50, after: str | None = None, oldest_first: bool = False,
    ) -> AsyncPage[Quarantined]:
        """List the memories and texts in quarantine, newest first, with label and scanner. No answer contains a text."""

    async def refusals(
        self, *, limit: int = 50, after: str | None = None, oldest_first: bool = False,
    ) -> AsyncPage[Refusal]:
        """List the commands that rules refused, newest first: labels and numbers, never a text."""

class AsyncGuards(AsyncGuardsRead):
    """The guards of a user's memory."""

    @property
    def redactions(self) -> Mapping[str, int]:
        """Return the number of secrets of each kind that this open ledger removed from texts, of every user."""

    async def quarantine(
        self, subject: str | int, *, reason: str = "", **options: Unpack[WriteOptions],
    ) -> Memory | Quarantined:
        """Keep a memory or a text out of recall, reinforcement and extraction until ``release``."""

    async def release(
        self, subject: str | int, *, reason: str = "", **options: Unpack[WriteOptions],
    ) -> Memory | Quarantined:
        """End the quarantine of a memory or text, whoever began it. A later scan does not begin it again."""

    async def scan(
        self, *, since: int | None = None, dry_run: bool = False, timeout: float | None = None,
        cancel: Cancel | None = None, progress: Callable[[int, int], None] | None = None,
    ) -> ScanReport:
        """Run today's scanners over everything stored, of every user, and quarantine or release by their findings."""

class AsyncUserPolicyRead(AsyncArea):
    """The policy of a user, now or at a moment."""

    async def get(self) -> Policy:
        """Return the parameters in effect for this user."""

class AsyncUserPolicy(AsyncUserPolicyRead):
    """The policy of a user."""

    async def set(self, *, reason: str = "", **changes: Unpack[PolicyChanges]) -> Policy:
        """Change parameters of this user's policy from here on, and return the whole policy."""

class AsyncJobs(AsyncArea):
    """The background work of this file, for every user."""

    async def run(
        self, *, jobs: Iterable[Job] = (), now: Time | None = None, dry_run: bool = False,
        timeout: float | None = None, cancel: Cancel | None = None, progress: Callable[[int, int], None] | None = None,
    ) -> JobReport:
        """Do the pending work of every user, and repeat work that failed fewer than three times."""

    def work(
        self, *, jobs: Iterable[Job] = (), follow: bool = False, timeout: float | None = None,
        cancel: Cancel | None = None, progress: Callable[[int, int], None] | None = None,
    ) -> AsyncIterator[JobReport]:
        """Do pending work beside other workers, each piece under a lease, and yield a report of each pass."""

class AsyncLearning(AsyncArea):
    """The turns that no configured model reads, for a program that has a model of its own."""

    async def unread(
        self, *, budget: int = 6000, session: str | None = None, project: str | None = None,
        since: Since | None = None,
    ) -> Unread:
        """Return the oldest turns that no model has read, as a request to a model, and hold them for ten minutes."""

    async def count(self, *, session: str | None = None, project: str | None = None, since: Since | None = None) -> int:
        """Return the number of turns that no model has read."""

    async def read_today(self, reader: str = "") -> ReadToday:
        """Return the tokens that readers were given today, by the clock of the ledger in UTC, and handed an answer in for."""

    async def learn(
        self, token: str, answer: str | Mapping[str, object] | ModelAnswer, *, upto: int | None = None,
        dry_run: bool = False, **options: Unpack[WriteOptions],
    ) -> Learned:
        """Record what a model found in the turns of a token, and that the turns were read."""

    async def correct(
        self, id: str, content: str | None = None, *, ended: bool = False, reason: str = "", quote: str = "",
        session: str | None = None, **options: Unpack[WriteOptions],
    ) -> Learned:
        """Replace a memory by a successor, or end it, as the user's own words in a session say; else a person decides."""

class AsyncVectors(AsyncArea):
    """The vectors of this file, for every user: a cache for each model. The log records nothing about vectors."""

    async def list(self, *, limit: int = 50, after: str | None = None) -> AsyncPage[VectorModel]:
        """List the models that have vectors in this file, by name."""

    async def update(
        self, *, model: EmbedderLike | None = None, batch_size: int = 256, limit: int | None = None,
        dry_run: bool = False, timeout: float | None = None, cancel: Cancel | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> VectorReport:
        """Make the vectors that texts lack, newest first, and delete the vectors of texts that are gone."""

    async def remove(self, model: str) -> VectorReport:
        """Delete the vectors of a model."""

class AsyncProofsRead(AsyncArea):
    """The digests of a ledger, now or at a moment of the past."""

    async def digest(self, *, beliefs: bool = False) -> str:
        """Return a SHA-256 (hex) over all rows of all projections, equal after any rebuild."""

class AsyncProofs(AsyncProofsRead):
    """The proofs of a ledger, for its owner and for others."""

    async def verify(
        self, *, against: Given | None = None, public_key: Any = None, full: bool = False, projections: bool = True,
        progress: Callable[[int, int], None] | None = None,
    ) -> VerifyReport:
        """Check everything in the ledger and report the problems; a damaged ledger raises nothing."""

    async def checkpoint(
        self, *, signing_key: Any = None, progress: Callable[[int, int], None] | None = None,
    ) -> Checkpoint:
        """Seal the log's size, Merkle root and head, and return them as a small text to keep elsewhere."""

    async def prove(
        self, position: int, *, size: int | None = None, against: Given | None = None, include_state: bool = False,
    ) -> Proof:
        """Return a proof that an event is in the log, for a reader who has only a checkpoint."""

    async def check(self, proof: Proof | str, checkpoint: Checkpoint | StrPath) -> ProofCheck:
        """Check a proof against a checkpoint: true if it holds. No ledger is needed, and signatures are not checked."""

class AsyncProjectionsRead(AsyncArea):
    """The projections of your own, now or at a moment."""

    async def list(self, *, limit: int = 50, after: str | None = None) -> AsyncPage[OwnProjection]:
        """List every projection of your own in this file; in the past, those that the ledger was opened with."""

    async def get(self, name: str) -> OwnProjection:
        """Return the state of a projection of your own."""

    async def rows(self, table: type[R], *, limit: int = 50, after: str | None = None, **equal: object) -> AsyncPage[R]:
        """List rows of a table of your own, in the order of their keys; the projection is caught up first."""

class AsyncMaintenanceRead(AsyncArea):
    """The numbers of a ledger, now or at a moment of the past."""

    async def stats(self) -> Stats:
        """Return counts of this user, sizes of the file in bytes, and the position of each projection."""

class AsyncMaintenance(AsyncMaintenanceRead):
    """The care of a file, for its operator."""

    async def users(self, *, limit: int = 50, after: str | None = None) -> AsyncPage[str]:
        """List the users that have events in this file, by name."""

    async def doctor(self, *, progress: Callable[[int, int], None] | None = None) -> DoctorReport:
        """Examine this file and the place where it is, and report every problem with its remedy; nothing is changed."""

    async def rebuild(
        self, name: str | None = None, *, digest: bool = True, timeout: float | None = None,
        cancel: Cancel | None = None, progress: Callable[[int, int], None] | None = None,
    ) -> RebuildReport:
        """Compute every projection again from the log and switch to the result; others go on meanwhile."""

    async def backup(self, path: StrPath, *, progress: Callable[[int, int], None] | None = None) -> BackupReport:
        """Write a checked copy of the whole file while others go on reading and writing."""

    async def export_log(self, path: StrPath, *, progress: Callable[[int, int], None] | None = None) -> ExportReport:
        """Write every event as a line of JSON, for ``Ledger.import_log``."""

class AsyncLedgerRead(AsyncArea):
    """The reads of a ledger, now and at a moment of the past."""

    @property
    def path(self) -> str:
        """Return the absolute path of the file."""

    async def position(self) -> int:
        """Return the position of the last event, 1 or more."""

    async def recall(
        self, question: str, *, project: str | None = None, kinds: Iterable[str] = (),
        statuses: Iterable[MemoryStatus] = ("active",), among: Iterable[Corpus] = ("memories", "chunks"),
        limit: int = 20, budget: int | None = None, unit: Unit = "tokens", packing: Packing = "greedy",
        ranking: Literal['score/3', 'rubino/1'] = "score/3", metadata: Metadata | None = None,
        min_match: float | None = None, observations: int | Literal['items'] = 3, observation_weight: float = 1.5,
        explain: bool = False, receipt: bool = False,
    ) -> Pack:
        """Find the answers to a question, best first, and pack them for a prompt."""

    async def context(
        self, question: str, *, budget: int = 400, unit: Unit = "tokens", session: str | None = None,
        project: str | None = None, among: Iterable[Corpus] = ("memories", "chunks", "turns"), latest: bool = True,
        explain: bool = False, receipt: bool = False,
    ) -> Pack:
        """Fill the next prompt: the answers, turns about the question, the user's profile, and the user's latest statements."""

    async def profile(
        self, *, kinds: Iterable[str] = ("user_profile", "identity", "preference", "rule"), budget: int = 1375,
        unit: Unit = "chars",
    ) -> Pack:
        """Return the active memories about the user, newest first."""

    async def why(self, id: str) -> Why:
        """Return why a memory or an observation is believed, or why a value is as it is: every event behind it, with sources."""

    async def review(
        self, *, admitted: bool = False, project: str | None = None, limit: int = 50, after: str | None = None,
        oldest_first: bool = False,
    ) -> AsyncPage[Candidate]:
        """List the memories that wait for a decision, oldest first."""

    async def query(
        self, sql: str, *parameters: object, every_user: bool = False, timeout: float = 10.0, limit: int = 10000,
    ) -> tuple[dict[str, str | int | float | bytes | None], ...]:
        """Run a SELECT over the documented views, with the rows of this user."""

    def session(self, name: str, *, project: str | None = None) -> AsyncSessionRead:
        """Return a conversation by its name, an alias or its id. The call reads and writes nothing."""

    @property
    def sessions(self) -> AsyncSessionsRead:
        """List and search conversations."""

    @property
    def history(self) -> AsyncHistoryRead:
        """List events and their actors."""

    @property
    def memories(self) -> AsyncMemoriesRead:
        """List and read memories, and change their tags, metadata, validity and confidence."""

    @property
    def observations(self) -> AsyncObservationsRead:
        """List and read observations, add an observation by hand, and withdraw sources."""

    @property
    def conflicts(self) -> AsyncConflictsRead:
        """Find memories that cannot all be true, and decide."""

    @property
    def merges(self) -> AsyncMergesRead:
        """Find memories that say nearly the same, and merge them."""

    @property
    def graph(self) -> AsyncRelationsRead:
        """Return the neighbors of a name, and the memories' statements about two names."""

    @property
    def interactions(self) -> AsyncInteractionsRead:
        """List and read captured turns, add responses, and import files of turns."""

    @property
    def values(self) -> AsyncValuesRead:
        """Put, read, list, move, remove and restore values under namespaces and keys."""

    @property
    def documents(self) -> AsyncDocumentsRead:
        """Add files and texts, list and read them and their chunks, remove and restore them."""

    @property
    def projects(self) -> AsyncProjectsRead:
        """List, read and add projects, and set their trusted state."""

    @property
    def guards(self) -> AsyncGuardsRead:
        """List the texts that are kept out of recall, and the commands that rules refused."""

    @property
    def policy(self) -> AsyncUserPolicyRead:
        """Read the parameters of the user's memory."""

    @property
    def proof(self) -> AsyncProofsRead:
        """Compute the digest of the beliefs."""

    @property
    def projections(self) -> AsyncProjectionsRead:
        """Read the tables of your own projections, and their positions."""

    @property
    def maintenance(self) -> AsyncMaintenanceRead:
        """Read numbers of the ledger."""

class AsyncLedger(OpenedLedger, AsyncLedgerRead):
    """The memory of an agent in one file: every change is an event, and every answer can be explained."""

    @classmethod
    def open(
        cls, path: str | os.PathLike[str], *, user: str | None = None, actor: str = "", client: str = "",
        channel: Channel = "user", agent: str = "", readonly: bool = False, create: bool | Literal['if_used'] = True,
        model: ModelLike | None = None, embedder: EmbedderLike | None = None, summarizer: SummarizerLike | None = None,
        token_counter: Callable[[str], int] | None = None, scanners: Sequence[Scanner] = (),
        sessions: SessionPatterns = SessionPatterns(),  # noqa: B008 - a named tuple
        jobs_after_capture: Sequence[Job] = (), projections: Iterable[Projection | type[Projection]] = (),
        verify: Literal['tail', 'full'] | None = None, against: Given | None = None, settings: Settings | None = None,
        log: SharedLog | str | None = None, tenant: str | None = None, machine: str | None = None,
        log_listen_url: str | None = None, lock_timeout: float = 30.0, wait: bool = True,
        progress: Callable[[int, int], None] | None = None, clock: Callable[[], datetime] | None = None,
        random: Callable[[int], bytes] | None = None,
    ) -> Opening[Self]:
        """Open a ledger, or begin a ledger if there is no file."""

    @classmethod
    def temporary(
        cls, *, user: str = "", actor: str = "", model: ModelLike | None = None, embedder: EmbedderLike | None = None,
        projections: Iterable[Projection | type[Projection]] = (), settings: Settings | None = None,
        clock: Callable[[], datetime] | None = None, random: Callable[[int], bytes] | None = None,
    ) -> Opening[Self]:
        """Begin a ledger in a private file that goes with the object, for tests and notebooks."""

    @classmethod
    async def doctor(
        cls, path: StrPath, *, settings: Settings | None = None, progress: Callable[[int, int], None] | None = None,
    ) -> DoctorReport:
        """Check everything that may be wrong with a file, even one that does not open, and say what to do. Change nothing."""

    @classmethod
    async def import_log(
        cls, source: StrPath, path: StrPath, *, progress: Callable[[int, int], None] | None = None,
    ) -> None:
        """Make the ledger of an export: the same id, events, digests and head. All or nothing."""

    @classmethod
    async def recover(
        cls, backup: StrPath, path: StrPath, *, certificates: Iterable[str] = (),
        progress: Callable[[int, int], None] | None = None,
    ) -> RecoverReport:
        """Make a ledger of a backup: the same id, events, digests and head, verified and with projections made again."""

    def bind(
        self, *, user: str | None = None, actor: str | None = None, client: str | None = None,
        channel: Channel | None = None, agent: str | None = None,
    ) -> AsyncLedger:
        """Return the same ledger for another user or actor: same file, same locks, other defaults. Closing it does nothing."""

    async def at(self, moment: Moment, *, valid_at: Time | None = None) -> AsyncPastLedger:
        """Return the ledger as it was known at a moment, with reads only."""

    async def replay(
        self, path: StrPath, *, until: Moment | None = None, branch: bool = False,
        without: str | int | Mapping[str, str] | None = None, reason: str = "", timeout: float | None = None,
        cancel: Cancel | None = None, progress: Callable[[int, int], None] | None = None,
    ) -> ReplayReport:
        """Make a ledger of the log up to a moment, verified: a copy for reading, or a branch that continues on its own."""

    async def wait(self, position: int, timeout: float = 30.0, *, cancel: Cancel | None = None) -> None:
        """Wait until this file holds the log up to a position, such as the ``position`` of an answer on another machine."""

    @property
    def id(self) -> str:
        """Return the ledger's own id; a copy of the file has the same id."""

    async def capture(
        self, prompt: str, response: str = "", *, summary: str = "", project: str | None = None,
        session: str | None = None, memories_used: Iterable[str] = (), chunks_used: Iterable[str] = (),
        context: Pack | Mapping[str, Any] | None = None, reinforce: bool = True, extract: bool = True,
        append: bool = False, metadata: Metadata | None = None, **options: Unpack[WriteOptions],
    ) -> Interaction:
        """Record a turn. The memories that its response restates are then reinforced by a second command."""

    async def remember(
        self, content: str, *, kind: str = "knowledge", project: str | None = None, session: str | None = None,
        confidence: float = 1.0, entities: Iterable[str] = (), tags: Iterable[str] = (), sources: Iterable[str] = (),
        relations: Iterable[Triple] = (), valid_from: Time | None = None, valid_to: Time | None = None,
        metadata: Metadata | None = None, reference_count: int = 0, last_referenced_at: Time | None = None,
        **options: Unpack[WriteOptions],
    ) -> Memory:
        """Record an active memory, without review. The same text in the same project and kind is one memory."""

    async def add(
        self, messages: Messages, *, session: str | None = None, project: str | None = None,
        extract: Extracting | bool = "auto", metadata: Metadata | None = None, dry_run: bool = False,
        timeout: float | None = None, cancel: Cancel | None = None, progress: Callable[[int, int], None] | None = None,
        **options: Unpack[WriteOptions],
    ) -> Added:
        """Add messages of a conversation: append them to a session, capture their turns, and learn from them."""

    async def propose(
        self, content: str, *, kind: str = "knowledge", project: str | None = None, session: str | None = None,
        confidence: float = 0.5, entities: Iterable[str] = (), tags: Iterable[str] = (), sources: Iterable[str] = (),
        relations: Iterable[Triple] = (), valid_from: Time | None = None, valid_to: Time | None = None,
        metadata: Metadata | None = None, reference_count: int = 0, last_referenced_at: Time | None = None,
        **options: Unpack[WriteOptions],
    ) -> Memory:
        """Record a candidate, which waits for review. The arguments are those of ``remember``."""

    async def promote(
        self, id: str, *, content: str | None = None, reason: str = "", **options: Unpack[WriteOptions],
    ) -> Memory:
        """Make a candidate active; of an active memory nothing is recorded (``absorbed``), unless a turn denies it."""

    async def reject(self, id: str, *, reason: str = "", **options: Unpack[WriteOptions]) -> Memory:
        """Turn a candidate down; extraction does not propose the same text again."""

    async def revise(
        self, id: str, content: str, *, reason: str = "", **options: Unpack[WriteOptions],
    ) -> Memory | Observation:
        """Give a memory or an observation another wording; ``supersede`` is for another fact."""

    async def supersede(
        self, id: str, content: str, *, kind: str | None = None, confidence: float = 1.0,
        entities: Iterable[str] | None = None, tags: Iterable[str] | None = None, sources: Iterable[str] = (),
        relations: Iterable[Triple] = (), valid_from: Time | None = None, valid_to: Time | None = None,
        metadata: Metadata | None = None, propose: bool = False, reason: str = "", **options: Unpack[WriteOptions],
    ) -> Memory:
        """Replace a memory by another fact, and return the new memory. The old memory stays readable."""

    async def invalidate(self, id: str, *, reason: str = "", **options: Unpack[WriteOptions]) -> Memory:
        """Say that an active memory was wrong; ``restore`` brings it back."""

    async def retract(self, id: str, *, reason: str = "", **options: Unpack[WriteOptions]) -> Memory | Observation:
        """Take a memory or an observation out of use; ``restore`` brings it back."""

    async def restore(self, id: str, *, reason: str = "", **options: Unpack[WriteOptions]) -> Any:
        """Bring back a superseded, invalidated, retracted or rejected subject; for a withdrawn source, its evidence."""

    async def reinforce(
        self, id: str, *, amount: float | None = None, source: str | None = None, **options: Unpack[WriteOptions],
    ) -> Memory:
        """Give an active memory one more reason to be believed."""

    async def reopen(self, receipt: str) -> Pack:
        """Return the pack that ``recall(…, receipt=True)`` gave, as it was delivered; ``changed`` lists the changes since."""

    async def undo(
        self, target: str | int, *, cascade: bool = False, exclusive: bool = False, dry_run: bool = False,
        reason: str = "", **options: Unpack[WriteOptions],
    ) -> UndoReport:
        """Void everything that one command recorded, as if it had never been given."""

    async def redo(
        self, target: str | int, *, exclusive: bool = False, dry_run: bool = False, reason: str = "",
        **options: Unpack[WriteOptions],
    ) -> UndoReport:
        """Put back what an undo made void."""

    async def erase(
        self, subject: Subject, *, derived: Choice | None = None, sources: Choice | None = None,
        quotes: Choice | None = None, keep: Iterable[str | int] = (), exclusive: bool = False, dry_run: bool = False,
        reason: str = "", timeout: float | None = None, cancel: Cancel | None = None, **options: Unpack[WriteOptions],
    ) -> ErasureReport:
        """Remove texts for good, from the log too; the chain still verifies. An erasure cannot be undone."""

    async def consolidate(
        self, over: Literal['memories', 'interactions', 'messages'] | Sequence[str] = "memories", *,
        project: str | None = None, tags: Iterable[str] = (), method: Literal['model', 'grouping'] | None = None,
        limit: int | None = None, dry_run: bool = False, progress: Callable[[int, int], None] | None = None,
        **options: Unpack[WriteOptions],
    ) -> ConsolidationReport:
        """Make observations of what new sources have in common, and revise stale observations."""

    async def extract(
        self, interaction: str, *, method: Method | None = None, model: ModelLike | None = None, dry_run: bool = False,
        gate: bool = True, timeout: float | None = None, cancel: Cancel | None = None, **options: Unpack[WriteOptions],
    ) -> ExtractionReport:
        """Find candidates for memories in a turn, by the model or by rules."""

    def session(self, name: str, *, project: str | None = None) -> AsyncSession:
        """Return a conversation by its name, an alias or its id. It begins with its first message."""

    @property
    def sessions(self) -> AsyncSessions:
        """List and search conversations."""

    @property
    def history(self) -> AsyncHistory:
        """List events and their actors, undo groups of commands, distrust and trust origins."""

    @property
    def memories(self) -> AsyncMemories:
        """List and read memories, and change their tags, metadata, validity and confidence."""

    @property
    def observations(self) -> AsyncObservations:
        """List and read observations, add an observation by hand, and withdraw sources."""

    @property
    def conflicts(self) -> AsyncConflicts:
        """Find memories that cannot all be true, and decide."""

    @property
    def merges(self) -> AsyncMerges:
        """Find memories that say nearly the same, and merge them."""

    @property
    def graph(self) -> AsyncRelations:
        """Return the neighbors of a name, and the memories' statements about two names."""

    @property
    def interactions(self) -> AsyncInteractions:
        """List and read captured turns, add responses, and import files of turns."""

    @property
    def values(self) -> AsyncValues:
        """Put, read, list, move, remove and restore values under namespaces and keys."""

    @property
    def documents(self) -> AsyncDocuments:
        """Add files and texts, list and read them and their chunks, remove and restore them."""

    @property
    def projects(self) -> AsyncProjects:
        """List, read and add projects, and set their trusted state."""

    @property
    def erasures(self) -> AsyncErasures:
        """List erasures and their certificates, and finish pending ones."""

    @property
    def holds(self) -> AsyncHolds:
        """Keep subjects from being erased."""

    @property
    def guards(self) -> AsyncGuards:
        """Keep texts out of recall, scan the stored texts, and list the commands that rules refused."""

    @property
    def policy(self) -> AsyncUserPolicy:
        """Read and change the parameters of the user's memory."""

    @property
    def learning(self) -> AsyncLearning:
        """Read the turns that no model has read, and hand in what an agent or another program found in them."""

    @property
    def jobs(self) -> AsyncJobs:
        """Run the background work of all users."""

    @property
    def vectors(self) -> AsyncVectors:
        """List, make and delete vectors."""

    @property
    def proof(self) -> AsyncProofs:
        """Verify the file, seal checkpoints, and prove single events."""

    @property
    def maintenance(self) -> AsyncMaintenance:
        """Maintain the file: numbers, rebuild, backup, export."""

class AsyncPastLedger(AsyncLedgerRead):
    """A ledger as it was known at a moment, with reads only. It holds nothing between two calls and needs no closing."""

    @property
    def as_of(self) -> str:
        """Return the "now" of this moment in UTC: the time asked for, or for a position the latest time recorded by then."""

    @property
    def valid_at(self) -> str | None:
        """Return the time in the world that is asked about, if any."""
