"""The namespaces of an ``AsyncLedger``, with calls that are awaited.

``tools/pages/async_classes.py`` writes this file; the plain classes have the whole help.
"""

# fmt: off

from __future__ import annotations

from typing import TYPE_CHECKING

from ledger.aio.area import AsyncArea
from ledger.types import EVERYTHING

if TYPE_CHECKING:
    import os
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping
    from typing import Any, Unpack

    from ledger.aio.pages import AsyncPage
    from ledger.api import PastLedger
    from ledger.care.answers import BackupReport, DoctorReport, ExportReport, RebuildReport, Stats
    from ledger.care.api import Maintenance, MaintenanceRead
    from ledger.documents.answers import Chunk, Document
    from ledger.documents.api import Documents, DocumentsRead
    from ledger.erasure.answers import ErasureReport, Hold
    from ledger.erasure.api import Erasures, Holds
    from ledger.graph.answers import Graph
    from ledger.graph.api import Relations, RelationsRead
    from ledger.guards.answers import Quarantined, Refusal, ScanReport
    from ledger.guards.api import Guards, GuardsRead
    from ledger.history.answers import AuditEntry, Bisection, Blame, Diff, Explanation, LogEntry, Step, WhatIf
    from ledger.history.api import History, HistoryRead
    from ledger.interactions.answers import ImportReport, Interaction, Reinforcement
    from ledger.interactions.api import Interactions, InteractionsRead
    from ledger.jobs.answers import JobReport
    from ledger.jobs.api import Jobs
    from ledger.log.paths import StrPath
    from ledger.memories.answers import ConfidencePoint, Memory
    from ledger.memories.api import Memories, MemoriesRead
    from ledger.models.models import ModelCall
    from ledger.observations.answers import Observation, WithdrawalReport
    from ledger.observations.api import Observations, ObservationsRead
    from ledger.policy.answers import Policy
    from ledger.policy.api import UserPolicy, UserPolicyRead
    from ledger.projections.answers import OwnProjection
    from ledger.projections.api import ProjectionsRead
    from ledger.projects.answers import ProjectInfo, StateEntry
    from ledger.projects.api import Projects, ProjectsRead
    from ledger.proof.answers import Checkpoint, Proof, ProofCheck, VerifyReport
    from ledger.proof.api import Proofs, ProofsRead
    from ledger.proof.kept import Given
    from ledger.recall.packs import Pack
    from ledger.review.answers import Conflict, ConflictReport, Merge, MergeReport
    from ledger.review.api import Conflicts, ConflictsRead, Merges, MergesRead
    from ledger.types import (
        Cancel, Channel, ConflictStatus, DocumentStatus, DocumentType, Freshness, GroupOptions, Job, Json,
        MemoryStatus, MergeStatus, Metadata, Moment, ObservationStatus, OriginKind, PolicyChanges, ProjectStatus,
        Purpose, Since, StateCategory, Subject, Time, Trend, Unit, ValueStatus, WriteOptions,
    )
    from ledger.undo.answers import DistrustReport, Distrusted, UndoReport
    from ledger.values.answers import Value
    from ledger.values.api import Values, ValuesRead
    from ledger.vectors.answers import VectorModel, VectorReport
    from ledger.vectors.api import Vectors
    from ledger.vectors.embedders import EmbedderLike
    from projections.core.own import R


class AsyncMemoriesRead(AsyncArea):
    """The memories of a user, now or as they were known at a moment."""

    __slots__ = ()

    _sync: MemoriesRead

    async def list(
        self, *, kinds: Iterable[str] = (), statuses: Iterable[MemoryStatus] = ("active",), project: str | None = None,
        tags: Iterable[str] = (), metadata: Metadata | None = None, min_confidence: float = 0.0, limit: int = 50,
        after: str | None = None, oldest_first: bool = False,
    ) -> AsyncPage[Memory]:
        """List memories, newest first."""
        return self._page(await self._read(lambda: self._sync.list(
            kinds=kinds, statuses=statuses, project=project, tags=tags, metadata=metadata,
            min_confidence=min_confidence, limit=limit, after=after, oldest_first=oldest_first,
        )))

    async def get(self, id: str) -> Memory:
        """Return a memory, whatever its status; its confidence is without decay: ``effective_confidence(day)`` subtracts it."""
        return await self._read(lambda: self._sync.get(id))

    async def confidence(self, id: str) -> tuple[ConfidencePoint, ...]:
        """Return every step of a memory's confidence, oldest first, each with its cause."""
        return await self._read(lambda: self._sync.confidence(id))


class AsyncMemories(AsyncMemoriesRead):
    """The memories of a user."""

    __slots__ = ()

    _sync: Memories

    async def tag(
        self, id: str, *, add: Iterable[str] = (), remove: Iterable[str] = (), **options: Unpack[WriteOptions],
    ) -> Memory:
        """Add tags to a memory, or remove tags."""
        return await self._decide(lambda: self._sync.tag(id, add=add, remove=remove, **options))

    async def correct(
        self, id: str, *, kind: str | None = None, project: str | None = None, entities: Iterable[str] | None = None,
        reason: str = "", **options: Unpack[WriteOptions],
    ) -> Memory:
        """Correct the kind, the project or the entities of a memory, which keeps its id; ``revise`` corrects the wording."""
        return await self._decide(lambda: self._sync.correct(
            id, kind=kind, project=project, entities=entities, reason=reason, **options,
        ))

    async def set_metadata(
        self, id: str, metadata: Metadata | None = None, *, unset: Iterable[str] = (), **options: Unpack[WriteOptions],
    ) -> Memory:
        """Set keys of a memory's metadata, or remove keys; other keys keep their values."""
        return await self._decide(lambda: self._sync.set_metadata(id, metadata, unset=unset, **options))

    async def set_validity(
        self, id: str, *, valid_from: Time | None = None, valid_to: Time | None = None, reason: str = "",
        **options: Unpack[WriteOptions],
    ) -> Memory:
        """Set when a memory was true in the world."""
        return await self._decide(lambda: self._sync.set_validity(
            id, valid_from=valid_from, valid_to=valid_to, reason=reason, **options,
        ))

    async def set_confidence(
        self, id: str, confidence: float, *, reason: str = "", **options: Unpack[WriteOptions],
    ) -> Memory:
        """Set the confidence of a memory by hand."""
        return await self._decide(lambda: self._sync.set_confidence(id, confidence, reason=reason, **options))


class AsyncInteractionsRead(AsyncArea):
    """The interactions of a user, now or as they were known at a moment."""

    __slots__ = ()

    _sync: InteractionsRead

    async def list(
        self, *, project: str | None = None, session: str | None = None, client: str | None = None,
        metadata: Metadata | None = None, since: Since | None = None, until: Since | None = None, text: bool = True,
        limit: int = 50, after: str | None = None, oldest_first: bool = False,
    ) -> AsyncPage[Interaction]:
        """List interactions, newest first."""
        return self._page(await self._read(lambda: self._sync.list(
            project=project, session=session, client=client, metadata=metadata, since=since, until=until, text=text,
            limit=limit, after=after, oldest_first=oldest_first,
        )))

    async def get(self, id: str) -> Interaction:
        """Return an interaction with its texts."""
        return await self._read(lambda: self._sync.get(id))


class AsyncInteractions(AsyncInteractionsRead):
    """The interactions of a user."""

    __slots__ = ()

    _sync: Interactions

    async def add_response(
        self, id: str, response: str, *, summary: str = "", memories_used: Iterable[str] = (),
        chunks_used: Iterable[str] = (), metadata: Metadata | None = None, **options: Unpack[WriteOptions],
    ) -> Interaction:
        """Add the response to an interaction that was captured without one; an interaction has one response, which stays."""
        return await self._work(lambda: self._sync.add_response(
            id, response, summary=summary, memories_used=memories_used, chunks_used=chunks_used, metadata=metadata,
            **options,
        ))

    async def reinforce(self, id: str, **options: Unpack[WriteOptions]) -> Reinforcement:
        """Search again for memories that a response restates, and reinforce those that it did not reinforce yet."""
        return await self._work(lambda: self._sync.reinforce(id, **options))

    async def import_file(
        self, path: str | os.PathLike[str], *, project: str | None = None, strict: bool = False,
        occurred_at: Time | None = None, dates: str | None = None, dry_run: bool = False, timeout: float | None = None,
        cancel: Cancel | None = None, progress: Callable[[int, int], None] | None = None,
    ) -> ImportReport:
        """Capture the interactions of a file; importing the same file again adds nothing."""
        return await self._work(lambda: self._sync.import_file(
            path, project=project, strict=strict, occurred_at=occurred_at, dates=dates, dry_run=dry_run,
            timeout=timeout, cancel=cancel, progress=progress,
        ))


class AsyncDocumentsRead(AsyncArea):
    """The documents of a user, now or as they were known at a moment."""

    __slots__ = ()

    _sync: DocumentsRead

    async def list(
        self, *, project: str | None = None, tags: Iterable[str] = (), metadata: Metadata | None = None,
        statuses: Iterable[DocumentStatus] = ("active",), limit: int = 50, after: str | None = None,
        oldest_first: bool = False,
    ) -> AsyncPage[Document]:
        """List documents without their chunks, newest first."""
        return self._page(await self._read(lambda: self._sync.list(
            project=project, tags=tags, metadata=metadata, statuses=statuses, limit=limit, after=after,
            oldest_first=oldest_first,
        )))

    async def get(self, id: str, *, text: bool = False) -> Document:
        """Return one document with its chunks in order, whatever its status."""
        return await self._read(lambda: self._sync.get(id, text=text))

    async def get_chunk(self, id: str) -> Chunk:
        """Return one chunk with its text; its status shows if the document no longer has the chunk."""
        return await self._read(lambda: self._sync.get_chunk(id))


class AsyncDocuments(AsyncDocumentsRead):
    """The documents of a user."""

    __slots__ = ()

    _sync: Documents

    async def add(
        self, source: str | os.PathLike[str], *, title: str = "", tags: Iterable[str] | None = None,
        metadata: Metadata | None = None, project: str | None = None, path: str | None = None,
        type: DocumentType | None = None, **options: Unpack[WriteOptions],
    ) -> Document:
        """Add a document, cut into chunks along its headings; its path identifies it, or without a path its text."""
        return await self._work(lambda: self._sync.add(
            source, title=title, tags=tags, metadata=metadata, project=project, path=path, type=type, **options,
        ))

    async def remove(self, id: str, *, reason: str = "", **options: Unpack[WriteOptions]) -> Document:
        """Take a document and its chunks out of use; memories that came from it stay."""
        return await self._work(lambda: self._sync.remove(id, reason=reason, **options))

    async def restore(self, id: str, *, reason: str = "", **options: Unpack[WriteOptions]) -> Document:
        """Bring a removed document back."""
        return await self._work(lambda: self._sync.restore(id, reason=reason, **options))


class AsyncValuesRead(AsyncArea):
    """The keyed values of a user, now or as they were at a moment."""

    __slots__ = ()

    _sync: ValuesRead

    async def get(self, namespace: Iterable[str], key: str) -> Value:
        """Return the value under a key."""
        return await self._read(lambda: self._sync.get(namespace, key))

    async def list(
        self, prefix: Iterable[str] = (), *, where: Mapping[str, Json] | None = None, query: str | None = None,
        statuses: Iterable[ValueStatus] = ("active",), limit: int = 50, after: str | None = None,
    ) -> AsyncPage[Value]:
        """List the values of a namespace and of those below it, in the order of their keys."""
        return self._page(await self._read(lambda: self._sync.list(
            prefix, where=where, query=query, statuses=statuses, limit=limit, after=after,
        )))

    async def namespaces(
        self, prefix: Iterable[str] = (), *, max_depth: int | None = None, limit: int = 50, after: str | None = None,
    ) -> AsyncPage[tuple[str, ...]]:
        """List the namespaces that have values now, in order."""
        return self._page(await self._read(lambda: self._sync.namespaces(
            prefix, max_depth=max_depth, limit=limit, after=after,
        )))


class AsyncValues(AsyncValuesRead):
    """The keyed values of a user."""

    __slots__ = ()

    _sync: Values

    async def put(
        self, namespace: Iterable[str], key: str, value: Json, *, index: bool = True,
        fields: Iterable[str] | None = None, expires_at: Time | None = None, **options: Unpack[WriteOptions],
    ) -> Value:
        """Put a value under a key, in place of any value before; ``get`` returns the value unchanged."""
        return await self._work(lambda: self._sync.put(
            namespace, key, value, index=index, fields=fields, expires_at=expires_at, **options,
        ))

    async def move(
        self, namespace: Iterable[str], key: str, to_namespace: Iterable[str], to_key: str, *, reason: str = "",
        **options: Unpack[WriteOptions],
    ) -> Value:
        """Give a value another key; its id and its history stay."""
        return await self._work(lambda: self._sync.move(namespace, key, to_namespace, to_key, reason=reason, **options))

    async def remove(
        self, namespace: Iterable[str], key: str, *, reason: str = "", **options: Unpack[WriteOptions],
    ) -> Value:
        """Take a value out of use; ``restore`` brings it back, and so does a put under its key."""
        return await self._work(lambda: self._sync.remove(namespace, key, reason=reason, **options))

    async def restore(
        self, namespace: Iterable[str], key: str, *, reason: str = "", **options: Unpack[WriteOptions],
    ) -> Value:
        """Bring the value back that was removed from a key or expired there; an ``expires_at`` in the past is dropped."""
        return await self._work(lambda: self._sync.restore(namespace, key, reason=reason, **options))


class AsyncProjectsRead(AsyncArea):
    """The projects of a user, now or as they were known at a moment."""

    __slots__ = ()

    _sync: ProjectsRead

    async def list(
        self, *, statuses: Iterable[ProjectStatus] = ("active",), limit: int = 50, after: str | None = None,
        oldest_first: bool = False,
    ) -> AsyncPage[ProjectInfo]:
        """List projects with their trusted state, newest first."""
        return self._page(await self._read(lambda: self._sync.list(
            statuses=statuses, limit=limit, after=after, oldest_first=oldest_first,
        )))

    async def get(self, name: str) -> ProjectInfo:
        """Return one project with its trusted state."""
        return await self._read(lambda: self._sync.get(name))

    async def context(self, project: str | None = None, *, budget: int | None = None, unit: Unit = "chars") -> Pack:
        """Return the context of a project for a prompt: its trusted state and its ten newest memories."""
        return await self._read(lambda: self._sync.context(project, budget=budget, unit=unit))

    async def state(
        self, project: str, *, category: StateCategory | None = None, name: str | None = None, history: bool = False,
    ) -> tuple[StateEntry, ...]:
        """Return the trusted state of a project, in the order in which it was set."""
        return await self._read(lambda: self._sync.state(project, category=category, name=name, history=history))


class AsyncProjects(AsyncProjectsRead):
    """The projects of a user."""

    __slots__ = ()

    _sync: Projects

    async def add(self, name: str, *, description: str = "", **options: Unpack[WriteOptions]) -> ProjectInfo:
        """Add a project."""
        return await self._work(lambda: self._sync.add(name, description=description, **options))

    async def add_alias(self, project: str, alias: str, **options: Unpack[WriteOptions]) -> ProjectInfo:
        """Give a project another name, under which everything recorded for the project is found from now on."""
        return await self._work(lambda: self._sync.add_alias(project, alias, **options))

    async def join(self, target: str, name: str, *, reason: str = "", **options: Unpack[WriteOptions]) -> ProjectInfo:
        """Make the records of one project found under another too; ``undo`` takes that back."""
        return await self._work(lambda: self._sync.join(target, name, reason=reason, **options))

    async def archive(self, project: str, *, reason: str = "", **options: Unpack[WriteOptions]) -> ProjectInfo:
        """Leave a project out of ``list`` and of every recall, context and profile for which no project is named."""
        return await self._work(lambda: self._sync.archive(project, reason=reason, **options))

    async def restore(self, project: str, *, reason: str = "", **options: Unpack[WriteOptions]) -> ProjectInfo:
        """Make an archived project active again."""
        return await self._work(lambda: self._sync.restore(project, reason=reason, **options))

    async def set_state(
        self, project: str, category: StateCategory, name: str, value: str, *, source: str = "",
        **options: Unpack[WriteOptions],
    ) -> ProjectInfo:
        """Set a value of trusted state: a person's statement, which no policy sets; earlier values stay readable."""
        return await self._work(lambda: self._sync.set_state(project, category, name, value, source=source, **options))

    async def remove_state(
        self, project: str, category: StateCategory, name: str, *, reason: str = "", **options: Unpack[WriteOptions],
    ) -> ProjectInfo:
        """Take a value of trusted state out of use; the value stays readable with ``state(history=True)``."""
        return await self._work(lambda: self._sync.remove_state(project, category, name, reason=reason, **options))


class AsyncObservationsRead(AsyncArea):
    """The observations of a user, now or as they were known at a moment."""

    __slots__ = ()

    _sync: ObservationsRead

    async def list(
        self, *, project: str | None = None, tags: Iterable[str] = (), trends: Iterable[Trend] = (),
        statuses: Iterable[ObservationStatus] = ("active",), freshness: Freshness | None = None, limit: int = 50,
        after: str | None = None, oldest_first: bool = False,
    ) -> AsyncPage[Observation]:
        """List observations with their sources, newest first."""
        return self._page(await self._read(lambda: self._sync.list(
            project=project, tags=tags, trends=trends, statuses=statuses, freshness=freshness, limit=limit,
            after=after, oldest_first=oldest_first,
        )))

    async def get(self, id: str) -> Observation:
        """Return an observation with its sources, whatever its status; ``why(id)`` also shows the content of the sources."""
        return await self._read(lambda: self._sync.get(id))


class AsyncObservations(AsyncObservationsRead):
    """The observations of a user."""

    __slots__ = ()

    _sync: Observations

    async def add(
        self, content: str, sources: Iterable[str], *, confidence: float = 0.9, project: str | None = None,
        tags: Iterable[str] = (), reason: str = "", **options: Unpack[WriteOptions],
    ) -> Observation:
        """Add an observation by hand: a text in your words that states what several sources have in common."""
        return await self._work(lambda: self._sync.add(
            content, sources, confidence=confidence, project=project, tags=tags, reason=reason, **options,
        ))

    async def withdraw(
        self, sources: Iterable[str], *, exclusive: bool = False, dry_run: bool = False, reason: str = "",
        **options: Unpack[WriteOptions],
    ) -> WithdrawalReport:
        """Withdraw sources from every observation."""
        return await self._work(lambda: self._sync.withdraw(
            sources, exclusive=exclusive, dry_run=dry_run, reason=reason, **options,
        ))


class AsyncMergesRead(AsyncArea):
    """The merges of a user, now or as they were known at a moment."""

    __slots__ = ()

    _sync: MergesRead

    async def list(
        self, *, statuses: Iterable[MergeStatus] = ("proposed",), project: str | None = None, limit: int = 50,
        after: str | None = None, oldest_first: bool = False,
    ) -> AsyncPage[Merge]:
        """List merges with their memories, newest first."""
        return self._page(await self._read(lambda: self._sync.list(
            statuses=statuses, project=project, limit=limit, after=after, oldest_first=oldest_first,
        )))

    async def get(self, id: str) -> Merge:
        """Return a merge as it stands."""
        return await self._read(lambda: self._sync.get(id))


class AsyncMerges(AsyncMergesRead):
    """The merges of a user."""

    __slots__ = ()

    _sync: Merges

    async def find(
        self, *, project: str | None = None, threshold: float = 0.85, **options: Unpack[WriteOptions],
    ) -> MergeReport:
        """Propose merges of active memories of one kind and project; a second search proposes nothing twice."""
        return await self._work(lambda: self._sync.find(project=project, threshold=threshold, **options))

    async def apply(
        self, proposal: str, *, content: str | None = None, reason: str = "", **options: Unpack[WriteOptions],
    ) -> Memory:
        """Merge the memories of a proposal, and return the memory that supersedes them."""
        return await self._work(lambda: self._sync.apply(proposal, content=content, reason=reason, **options))

    async def combine(
        self, memories: Iterable[str], *, content: str | None = None, reason: str = "",
        **options: Unpack[WriteOptions],
    ) -> Memory:
        """Merge 2 to 50 active memories of one kind and project, and return the memory that supersedes them."""
        return await self._work(lambda: self._sync.combine(memories, content=content, reason=reason, **options))

    async def reject(self, id: str, *, reason: str = "", **options: Unpack[WriteOptions]) -> Merge:
        """Reject a proposal; no two of its memories are proposed together again."""
        return await self._work(lambda: self._sync.reject(id, reason=reason, **options))


class AsyncConflictsRead(AsyncArea):
    """The conflicts of a user, now or as they were known at a moment."""

    __slots__ = ()

    _sync: ConflictsRead

    async def list(
        self, *, statuses: Iterable[ConflictStatus] = ("open",), project: str | None = None, limit: int = 50,
        after: str | None = None, oldest_first: bool = False,
    ) -> AsyncPage[Conflict]:
        """List conflicts with their memories, newest first."""
        return self._page(await self._read(lambda: self._sync.list(
            statuses=statuses, project=project, limit=limit, after=after, oldest_first=oldest_first,
        )))

    async def get(self, id: str) -> Conflict:
        """Return a conflict as it stands."""
        return await self._read(lambda: self._sync.get(id))


class AsyncConflicts(AsyncConflictsRead):
    """The conflicts of a user."""

    __slots__ = ()

    _sync: Conflicts

    async def find(self, *, project: str | None = None, **options: Unpack[WriteOptions]) -> ConflictReport:
        """Search active memories for new conflicts and record them; a second search records nothing twice."""
        return await self._work(lambda: self._sync.find(project=project, **options))

    async def resolve(self, id: str, *, keep: str, reason: str = "", **options: Unpack[WriteOptions]) -> Conflict:
        """Keep one memory of a conflict; that memory supersedes the memories that exclude it."""
        return await self._work(lambda: self._sync.resolve(id, keep=keep, reason=reason, **options))

    async def accept(self, id: str, *, reason: str = "", **options: Unpack[WriteOptions]) -> Conflict:
        """Decide that all memories of a conflict can be true; the conflict is not raised again while they keep their values."""
        return await self._work(lambda: self._sync.accept(id, reason=reason, **options))


class AsyncRelationsRead(AsyncArea):
    """Names and their relations, now or as they were known at a moment."""

    __slots__ = ()

    _sync: RelationsRead

    async def neighbors(
        self, text: str, *, project: str | None = None, relation: str | None = None, limit: int = 20,
        extracted: bool = True,
    ) -> Graph:
        """Return the names in a text that memories name, at most 8, with their neighbors one step away."""
        return await self._read(lambda: self._sync.neighbors(
            text, project=project, relation=relation, limit=limit, extracted=extracted,
        ))


class AsyncRelations(AsyncRelationsRead):
    """Names and their relations."""

    __slots__ = ()

    _sync: Relations

    async def relate(
        self, memory: str, subject: str, relation: str, object: str, *, valid_from: Time | None = None,
        valid_to: Time | None = None, **options: Unpack[WriteOptions],
    ) -> Memory:
        """Record that a memory states a relation between two names."""
        return await self._work(lambda: self._sync.relate(
            memory, subject, relation, object, valid_from=valid_from, valid_to=valid_to, **options,
        ))

    async def unrelate(
        self, memory: str, subject: str, relation: str, object: str, *, reason: str = "",
        **options: Unpack[WriteOptions],
    ) -> Memory:
        """Remove a relation from a memory."""
        return await self._decide(lambda: self._sync.unrelate(
            memory, subject, relation, object, reason=reason, **options,
        ))


class AsyncHistoryRead(AsyncArea):
    """The history of a user's memory, now or up to a moment."""

    __slots__ = ()

    _sync: HistoryRead

    async def audit(
        self, *, subject: str | None = None, actor: str | None = None, client: str | None = None,
        channel: Channel | None = None, agent: str | None = None, project: str | None = None,
        session: str | None = None, type: str | None = None, command: str | None = None, command_id: str | None = None,
        causation_id: str | None = None, correlation_id: str | None = None, text: str | None = None,
        since: int | Since | None = None, until: int | Since | None = None, limit: int = 50, after: str | None = None,
        oldest_first: bool = False,
    ) -> AsyncPage[AuditEntry]:
        """List events with their actor, client and command, newest first, by the time of recording."""
        return self._page(await self._read(lambda: self._sync.audit(
            subject=subject, actor=actor, client=client, channel=channel, agent=agent, project=project,
            session=session, type=type, command=command, command_id=command_id, causation_id=causation_id,
            correlation_id=correlation_id, text=text, since=since, until=until, limit=limit, after=after,
            oldest_first=oldest_first,
        )))

    async def events(self, subject: str, *, limit: int = 50, after: str | None = None) -> AsyncPage[Step]:
        """List every event of a subject, in effect or not, oldest first, each with its effect."""
        return self._page(await self._read(lambda: self._sync.events(subject, limit=limit, after=after)))

    async def explain(self, position: int) -> Explanation:
        """Explain in sentences the command behind an event: what it did, why, and what it led to."""
        return await self._read(lambda: self._sync.explain(position))

    async def blame(self, id: str) -> Blame:
        """Return the event that each word of a belief came from, and the events that moved its confidence."""
        return await self._read(lambda: self._sync.blame(id))

    async def distrusted(
        self, *, limit: int = 50, after: str | None = None, oldest_first: bool = False,
    ) -> AsyncPage[Distrusted]:
        """List the origins that are distrusted, newest first."""
        return self._page(await self._read(lambda: self._sync.distrusted(
            limit=limit, after=after, oldest_first=oldest_first,
        )))

    async def model_calls(
        self, *, purpose: Purpose | None = None, limit: int = 50, after: str | None = None, oldest_first: bool = False,
    ) -> AsyncPage[ModelCall]:
        """List the calls of language models, newest first, failed and undone calls included."""
        return self._page(await self._read(lambda: self._sync.model_calls(
            purpose=purpose, limit=limit, after=after, oldest_first=oldest_first,
        )))


class AsyncHistory(AsyncHistoryRead):
    """The history of a user's memory, with the commands that take parts of it out and back."""

    __slots__ = ()

    _sync: History[PastLedger]

    async def bisect(
        self, test: Callable[[PastLedger], object], *, good: Moment | None = None, bad: Moment | None = None,
    ) -> Bisection:
        """Find, by halving, the command after which a condition begins or ceases to hold."""
        return await self._work(lambda: self._sync.bisect(test, good=good, bad=bad))

    async def diff(self, start: Moment, end: Moment | None = None, *, project: str | None = None) -> Diff:
        """Return the memories that came, went and changed between two moments."""
        return await self._work(lambda: self._sync.diff(start, end, project=project))

    async def what_if(
        self, *, without: str | int | Mapping[str, str] | None = None, since: int | Since | None = None,
        until: int | Since | None = None, policy: Mapping[str, Any] | None = None,
    ) -> WhatIf:
        """Return the beliefs without a command or an origin, or under another policy; write nothing."""
        return await self._work(lambda: self._sync.what_if(without=without, since=since, until=until, policy=policy))

    async def log(
        self, *, after: int | str | None = None, until: int | Since | None = None, types: Iterable[str] = (),
        subject: str | None = None, limit: int = 50,
    ) -> AsyncPage[LogEntry]:
        """List every event of the file, of all users, oldest first, as it was recorded."""
        return self._page(await self._work(lambda: self._sync.log(
            after=after, until=until, types=types, subject=subject, limit=limit,
        )))

    def follow(
        self, after: int | str | None = None, *, types: Iterable[str] = (), subject: str | None = None,
        timeout: float | None = None, cancel: Cancel | None = None,
    ) -> AsyncIterator[LogEntry]:
        """Iterate over the events of the file as ``log`` does, and then over each event that any process commits."""
        return self._iterate(lambda stop: self._sync.follow(
            after, types=types, subject=subject, timeout=timeout, cancel=stop,
        ), cancel)

    async def wait(self, position: int, *, timeout: float | None = None, cancel: Cancel | None = None) -> bool:
        """Wait until any process has written a position of the log; return False if the wait ended before."""
        return await self._wait(lambda stop: self._sync.wait(position, timeout=timeout, cancel=stop), cancel)

    async def undo_all(
        self, *, session: str | None = None, command: str | None = None, correlation_id: str | None = None,
        by: str | None = None, since: Since | None = None, until: Since | None = None, cascade: bool = False,
        exclusive: bool = False, dry_run: bool = False, reason: str = "", **options: Unpack[GroupOptions],
    ) -> UndoReport:
        """Void every command that fits all of the filters; at least one filter is needed."""
        return await self._work(lambda: self._sync.undo_all(
            session=session, command=command, correlation_id=correlation_id, by=by, since=since, until=until,
            cascade=cascade, exclusive=exclusive, dry_run=dry_run, reason=reason, **options,
        ))

    async def distrust(
        self, origin: str, *, kind: OriginKind | None = None, since: int | Since | None = None,
        until: int | Since | None = None, exclusive: bool = False, dry_run: bool = False, reason: str = "",
        **options: Unpack[WriteOptions],
    ) -> DistrustReport:
        """Void everything that an origin wrote or caused, and refuse its future writes; the events of others stay."""
        return await self._work(lambda: self._sync.distrust(
            origin, kind=kind, since=since, until=until, exclusive=exclusive, dry_run=dry_run, reason=reason,
            **options,
        ))

    async def trust(
        self, origin: str, *, kind: OriginKind | None = None, cascade: bool = False, exclusive: bool = False,
        dry_run: bool = False, reason: str = "", **options: Unpack[WriteOptions],
    ) -> DistrustReport:
        """Put back the events that a distrust made void, and accept the origin's writes again."""
        return await self._work(lambda: self._sync.trust(
            origin, kind=kind, cascade=cascade, exclusive=exclusive, dry_run=dry_run, reason=reason, **options,
        ))


class AsyncErasures(AsyncArea):
    """The erasures of this file, of every user; no report and no certificate holds a text that was erased."""

    __slots__ = ()

    _sync: Erasures

    async def list(
        self, *, limit: int = 50, after: str | None = None, oldest_first: bool = False,
    ) -> AsyncPage[ErasureReport]:
        """List every erasure, newest first, each with its certificate."""
        return self._page(await self._work(lambda: self._sync.list(
            limit=limit, after=after, oldest_first=oldest_first,
        )))

    async def finish(self) -> tuple[ErasureReport, ...]:
        """Purge and search the files again for the pending erasures, and return the state of each."""
        return await self._work(lambda: self._sync.finish())

    async def certificates(self) -> tuple[str, ...]:
        """Return the certificates of all erasures, oldest first."""
        return await self._work(lambda: self._sync.certificates())


class AsyncHolds(AsyncArea):
    """The legal holds of a user; a subject on hold cannot be erased."""

    __slots__ = ()

    _sync: Holds

    async def list(self, *, limit: int = 50, after: str | None = None, oldest_first: bool = False) -> AsyncPage[Hold]:
        """List the holds on this user's subjects, newest first."""
        return self._page(await self._work(lambda: self._sync.list(
            limit=limit, after=after, oldest_first=oldest_first,
        )))

    async def add(self, subject: Subject = EVERYTHING, *, reason: str = "", **options: Unpack[WriteOptions]) -> Hold:
        """Keep a subject from being erased; a hold that exists already stays as it is (``absorbed``)."""
        return await self._work(lambda: self._sync.add(subject, reason=reason, **options))

    async def remove(self, hold: str, *, reason: str = "", **options: Unpack[WriteOptions]) -> Hold:
        """End a hold."""
        return await self._work(lambda: self._sync.remove(hold, reason=reason, **options))


class AsyncGuardsRead(AsyncArea):
    """The quarantine and the refusals of a user's memory, now or at a moment."""

    __slots__ = ()

    _sync: GuardsRead

    async def quarantined(
        self, *, limit: int = 50, after: str | None = None, oldest_first: bool = False,
    ) -> AsyncPage[Quarantined]:
        """List the memories and texts in quarantine, newest first, with label and scanner. No answer contains a text."""
        return self._page(await self._read(lambda: self._sync.quarantined(
            limit=limit, after=after, oldest_first=oldest_first,
        )))

    async def refusals(
        self, *, limit: int = 50, after: str | None = None, oldest_first: bool = False,
    ) -> AsyncPage[Refusal]:
        """List the commands that rules refused, newest first: labels and numbers, never a text."""
        return self._page(await self._read(lambda: self._sync.refusals(
            limit=limit, after=after, oldest_first=oldest_first,
        )))


class AsyncGuards(AsyncGuardsRead):
    """The guards of a user's memory."""

    __slots__ = ()

    _sync: Guards

    @property
    def redactions(self) -> Mapping[str, int]:
        """Return the number of secrets of each kind that this open ledger removed from texts, of every user."""
        return self._sync.redactions

    async def quarantine(
        self, subject: str | int, *, reason: str = "", **options: Unpack[WriteOptions],
    ) -> Memory | Quarantined:
        """Keep a memory or a text out of recall, reinforcement and extraction until ``release``."""
        return await self._work(lambda: self._sync.quarantine(subject, reason=reason, **options))

    async def release(
        self, subject: str | int, *, reason: str = "", **options: Unpack[WriteOptions],
    ) -> Memory | Quarantined:
        """End the quarantine of a memory or text, whoever began it. A later scan does not begin it again."""
        return await self._work(lambda: self._sync.release(subject, reason=reason, **options))

    async def scan(
        self, *, since: int | None = None, dry_run: bool = False, timeout: float | None = None,
        cancel: Cancel | None = None, progress: Callable[[int, int], None] | None = None,
    ) -> ScanReport:
        """Run today's scanners over everything stored, of every user, and quarantine or release by their findings."""
        return await self._work(lambda: self._sync.scan(
            since=since, dry_run=dry_run, timeout=timeout, cancel=cancel, progress=progress,
        ))


class AsyncUserPolicyRead(AsyncArea):
    """The policy of a user, now or at a moment."""

    __slots__ = ()

    _sync: UserPolicyRead

    async def get(self) -> Policy:
        """Return the parameters in effect for this user."""
        return await self._read(lambda: self._sync.get())


class AsyncUserPolicy(AsyncUserPolicyRead):
    """The policy of a user."""

    __slots__ = ()

    _sync: UserPolicy

    async def set(self, *, reason: str = "", **changes: Unpack[PolicyChanges]) -> Policy:
        """Change parameters of this user's policy from here on, and return the whole policy."""
        return await self._work(lambda: self._sync.set(reason=reason, **changes))


class AsyncJobs(AsyncArea):
    """The background work of this file, for every user."""

    __slots__ = ()

    _sync: Jobs

    async def run(
        self, *, jobs: Iterable[Job] = (), now: Time | None = None, dry_run: bool = False,
        timeout: float | None = None, cancel: Cancel | None = None, progress: Callable[[int, int], None] | None = None,
    ) -> JobReport:
        """Do the pending work of every user, and repeat work that failed fewer than three times."""
        return await self._work(lambda: self._sync.run(
            jobs=jobs, now=now, dry_run=dry_run, timeout=timeout, cancel=cancel, progress=progress,
        ))

    def work(
        self, *, jobs: Iterable[Job] = (), follow: bool = False, timeout: float | None = None,
        cancel: Cancel | None = None, progress: Callable[[int, int], None] | None = None,
    ) -> AsyncIterator[JobReport]:
        """Do pending work beside other workers, each piece under a lease, and yield a report of each pass."""
        return self._iterate(lambda stop: self._sync.work(
            jobs=jobs, follow=follow, timeout=timeout, cancel=stop, progress=progress,
        ), cancel)


class AsyncVectors(AsyncArea):
    """The vectors of this file, for every user: a cache for each model. The log records nothing about vectors."""

    __slots__ = ()

    _sync: Vectors

    async def list(self, *, limit: int = 50, after: str | None = None) -> AsyncPage[VectorModel]:
        """List the models that have vectors in this file, by name."""
        return self._page(await self._work(lambda: self._sync.list(limit=limit, after=after)))

    async def update(
        self, *, model: EmbedderLike | None = None, batch_size: int = 256, limit: int | None = None,
        timeout: float | None = None, cancel: Cancel | None = None, progress: Callable[[int, int], None] | None = None,
    ) -> VectorReport:
        """Make the vectors that texts lack, newest first, and delete the vectors of texts that are gone."""
        return await self._work(lambda: self._sync.update(
            model=model, batch_size=batch_size, limit=limit, timeout=timeout, cancel=cancel, progress=progress,
        ))

    async def remove(self, model: str) -> VectorReport:
        """Delete the vectors of a model."""
        return await self._work(lambda: self._sync.remove(model))


class AsyncProofsRead(AsyncArea):
    """The digests of a ledger, now or at a moment of the past."""

    __slots__ = ()

    _sync: ProofsRead

    async def digest(self, *, beliefs: bool = False) -> str:
        """Return a SHA-256 (hex) over all rows of all projections, equal after any rebuild."""
        return await self._read(lambda: self._sync.digest(beliefs=beliefs))


class AsyncProofs(AsyncProofsRead):
    """The proofs of a ledger, for its owner and for others."""

    __slots__ = ()

    _sync: Proofs

    async def verify(
        self, *, against: Given | None = None, public_key: Any = None, full: bool = False, projections: bool = True,
        progress: Callable[[int, int], None] | None = None,
    ) -> VerifyReport:
        """Check everything in the ledger and report the problems; a damaged ledger raises nothing."""
        return await self._work(lambda: self._sync.verify(
            against=against, public_key=public_key, full=full, projections=projections, progress=progress,
        ))

    async def checkpoint(
        self, *, signing_key: Any = None, progress: Callable[[int, int], None] | None = None,
    ) -> Checkpoint:
        """Seal the log's size, Merkle root and head, and return them as a small text to keep elsewhere."""
        return await self._work(lambda: self._sync.checkpoint(signing_key=signing_key, progress=progress))

    async def prove(
        self, position: int, *, size: int | None = None, against: Given | None = None, include_state: bool = False,
    ) -> Proof:
        """Return a proof that an event is in the log, for a reader who has only a checkpoint."""
        return await self._work(lambda: self._sync.prove(
            position, size=size, against=against, include_state=include_state,
        ))

    async def check(self, proof: Proof | str, checkpoint: Checkpoint | StrPath) -> ProofCheck:
        """Check a proof against a checkpoint: true if it holds. No ledger is needed, and signatures are not checked."""
        return await self._work(lambda: self._sync.check(proof, checkpoint))


class AsyncProjectionsRead(AsyncArea):
    """The projections of your own, now or at a moment."""

    __slots__ = ()

    _sync: ProjectionsRead

    async def list(self, *, limit: int = 50, after: str | None = None) -> AsyncPage[OwnProjection]:
        """List every projection of your own in this file; in the past, those that the ledger was opened with."""
        return self._page(await self._read(lambda: self._sync.list(limit=limit, after=after)))

    async def get(self, name: str) -> OwnProjection:
        """Return the state of a projection of your own."""
        return await self._read(lambda: self._sync.get(name))

    async def rows(self, table: type[R], *, limit: int = 50, after: str | None = None, **equal: object) -> AsyncPage[R]:
        """List rows of a table of your own, in the order of their keys; the projection is caught up first."""
        return self._page(await self._read(lambda: self._sync.rows(table, limit=limit, after=after, **equal)))


class AsyncMaintenanceRead(AsyncArea):
    """The numbers of a ledger, now or at a moment of the past."""

    __slots__ = ()

    _sync: MaintenanceRead

    async def stats(self) -> Stats:
        """Return counts of this user, sizes of the file in bytes, and the position of each projection."""
        return await self._read(lambda: self._sync.stats())


class AsyncMaintenance(AsyncMaintenanceRead):
    """The care of a file, for its operator."""

    __slots__ = ()

    _sync: Maintenance

    async def users(self, *, limit: int = 50, after: str | None = None) -> AsyncPage[str]:
        """List the users that have events in this file, by name."""
        return self._page(await self._work(lambda: self._sync.users(limit=limit, after=after)))

    async def doctor(self, *, progress: Callable[[int, int], None] | None = None) -> DoctorReport:
        """Examine this file and the place where it is, and report every problem with its remedy; nothing is changed."""
        return await self._work(lambda: self._sync.doctor(progress=progress))

    async def rebuild(
        self, name: str | None = None, *, digest: bool = True, timeout: float | None = None,
        cancel: Cancel | None = None, progress: Callable[[int, int], None] | None = None,
    ) -> RebuildReport:
        """Compute every projection again from the log and switch to the result; others go on meanwhile."""
        return await self._work(lambda: self._sync.rebuild(
            name, digest=digest, timeout=timeout, cancel=cancel, progress=progress,
        ))

    async def backup(self, path: StrPath, *, progress: Callable[[int, int], None] | None = None) -> BackupReport:
        """Write a checked copy of the whole file while others go on reading and writing."""
        return await self._work(lambda: self._sync.backup(path, progress=progress))

    async def export_log(self, path: StrPath, *, progress: Callable[[int, int], None] | None = None) -> ExportReport:
        """Write every event as a line of JSON, for ``Ledger.import_log``."""
        return await self._work(lambda: self._sync.export_log(path, progress=progress))
