"""``AsyncLedger`` and ``AsyncPastLedger``: the plain ledger, with calls that are awaited.

``tools/pages/async_classes.py`` writes this file; the plain classes have the whole help.
"""

# fmt: off

from __future__ import annotations

from typing import TYPE_CHECKING

from ledger.aio.area import AsyncArea, OpenedLedger
from ledger.aio.areas import (
    AsyncConflicts, AsyncConflictsRead, AsyncDocuments, AsyncDocumentsRead, AsyncErasures, AsyncGuards,
    AsyncGuardsRead, AsyncHistory, AsyncHistoryRead, AsyncHolds, AsyncInteractions, AsyncInteractionsRead, AsyncJobs,
    AsyncMaintenance, AsyncMaintenanceRead, AsyncMemories, AsyncMemoriesRead, AsyncMerges, AsyncMergesRead,
    AsyncObservations, AsyncObservationsRead, AsyncProjectionsRead, AsyncProjects, AsyncProjectsRead, AsyncProofs,
    AsyncProofsRead, AsyncRelations, AsyncRelationsRead, AsyncUserPolicy, AsyncUserPolicyRead, AsyncValues,
    AsyncValuesRead, AsyncVectors,
)
from ledger.aio.sessions import AsyncSession, AsyncSessionRead, AsyncSessions, AsyncSessionsRead
from ledger.domain.late import shown_as
from ledger.types import SessionPatterns

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import datetime
    from typing import Any, Literal, Self, Unpack

    from ledger.aio.area import Opening
    from ledger.aio.pages import AsyncPage
    from ledger.api import Ledger, LedgerRead, PastLedger
    from ledger.care.answers import DoctorReport, RecoverReport, ReplayReport
    from ledger.core.settings import Settings
    from ledger.erasure.answers import ErasureReport
    from ledger.extraction.answers import Added, ExtractionReport
    from ledger.guards.scanner import Scanner
    from ledger.history.answers import Why
    from ledger.interactions.answers import Interaction
    from ledger.log.paths import StrPath
    from ledger.log.shared.port import SharedLog
    from ledger.memories.answers import Candidate, Memory
    from ledger.observations.answers import ConsolidationReport, Observation
    from ledger.proof.kept import Given
    from ledger.recall.packs import Pack
    from ledger.types import (
        Cancel, Channel, Choice, Corpus, EmbedderLike, Extracting, Job, MemoryStatus, Messages, Metadata, Method,
        ModelLike, Moment, Packing, Subject, SummarizerLike, Time, Triple, Unit, WriteOptions,
    )
    from ledger.undo.answers import UndoReport
    from projections.core.own import Projection


class AsyncLedgerRead(AsyncArea):
    """The reads of a ledger, now and at a moment of the past."""

    __slots__ = ()

    _sync: LedgerRead

    @property
    def path(self) -> str:
        """Return the absolute path of the file."""
        return self._sync.path

    async def position(self) -> int:
        """Return the position of the last event, 1 or more."""
        return await self._read(lambda: self._sync.position)

    async def recall(
        self, query: str, *, project: str | None = None, kinds: Iterable[str] = (),
        statuses: Iterable[MemoryStatus] = ("active",), among: Iterable[Corpus] = ("memories", "chunks"),
        limit: int = 20, budget: int | None = None, unit: Unit = "tokens", packing: Packing = "greedy",
        ranking: Literal['score/3', 'rubino/1'] = "score/3", metadata: Metadata | None = None,
        min_match: float | None = None, observations: int | Literal['items'] = 3, explain: bool = False,
        receipt: bool = False,
    ) -> Pack:
        """Find the answers to a question, best first, and pack them for a prompt."""
        return await self._read(lambda: self._sync.recall(
            query, project=project, kinds=kinds, statuses=statuses, among=among, limit=limit, budget=budget, unit=unit,
            packing=packing, ranking=ranking, metadata=metadata, min_match=min_match, observations=observations,
            explain=explain, receipt=receipt,
        ))

    async def context(
        self, question: str, *, budget: int = 400, unit: Unit = "tokens", session: str | None = None,
        project: str | None = None, among: Iterable[Corpus] = ("memories", "chunks", "turns"), explain: bool = False,
        receipt: bool = False,
    ) -> Pack:
        """Fill the next prompt: the user's profile, the answers, turns about the question, and the user's latest statements."""
        return await self._read(lambda: self._sync.context(
            question, budget=budget, unit=unit, session=session, project=project, among=among, explain=explain,
            receipt=receipt,
        ))

    async def profile(self, *, budget: int = 1375, unit: Unit = "chars") -> Pack:
        """Return the active memories of the kinds user_profile, identity and preference, newest first."""
        return await self._read(lambda: self._sync.profile(budget=budget, unit=unit))

    async def why(self, id: str) -> Why:
        """Return why a memory or an observation is believed, or why a value is as it is: every event behind it, with sources."""
        return await self._read(lambda: self._sync.why(id))

    async def review(
        self, *, admitted: bool = False, project: str | None = None, limit: int = 50, after: str | None = None,
        oldest_first: bool = False,
    ) -> AsyncPage[Candidate]:
        """List the memories that wait for a decision, oldest first."""
        return self._page(await self._read(lambda: self._sync.review(
            admitted=admitted, project=project, limit=limit, after=after, oldest_first=oldest_first,
        )))

    async def query(
        self, sql: str, *parameters: object, every_user: bool = False, timeout: float = 10.0, limit: int = 10000,
    ) -> tuple[dict[str, str | int | float | bytes | None], ...]:
        """Run a SELECT over the documented views, with the rows of this user."""
        return await self._read(lambda: self._sync.query(
            sql, *parameters, every_user=every_user, timeout=timeout, limit=limit,
        ))

    def session(self, name: str, *, project: str | None = None) -> AsyncSessionRead:
        """Return a conversation by its name, an alias or its id. The call reads and writes nothing."""
        return AsyncSessionRead(self._sync.session(name, project=project), self._threads)

    @property
    def sessions(self) -> AsyncSessionsRead:
        """List and search conversations."""
        return AsyncSessionsRead(self._sync.sessions, self._threads)

    @property
    def history(self) -> AsyncHistoryRead:
        """List events and their actors."""
        return AsyncHistoryRead(self._sync.history, self._threads)

    @property
    def memories(self) -> AsyncMemoriesRead:
        """List and read memories, and change their tags, metadata, validity and confidence."""
        return AsyncMemoriesRead(self._sync.memories, self._threads)

    @property
    def observations(self) -> AsyncObservationsRead:
        """List and read observations, add an observation by hand, and withdraw sources."""
        return AsyncObservationsRead(self._sync.observations, self._threads)

    @property
    def conflicts(self) -> AsyncConflictsRead:
        """Find memories that cannot all be true, and decide."""
        return AsyncConflictsRead(self._sync.conflicts, self._threads)

    @property
    def merges(self) -> AsyncMergesRead:
        """Find memories that say nearly the same, and merge them."""
        return AsyncMergesRead(self._sync.merges, self._threads)

    @property
    def graph(self) -> AsyncRelationsRead:
        """Return the neighbors of a name, and the memories' statements about two names."""
        return AsyncRelationsRead(self._sync.graph, self._threads)

    @property
    def interactions(self) -> AsyncInteractionsRead:
        """List and read captured turns, add responses, and import files of turns."""
        return AsyncInteractionsRead(self._sync.interactions, self._threads)

    @property
    def values(self) -> AsyncValuesRead:
        """Put, read, list, move, remove and restore values under namespaces and keys."""
        return AsyncValuesRead(self._sync.values, self._threads)

    @property
    def documents(self) -> AsyncDocumentsRead:
        """Add files and texts, list and read them and their chunks, remove and restore them."""
        return AsyncDocumentsRead(self._sync.documents, self._threads)

    @property
    def projects(self) -> AsyncProjectsRead:
        """List, read and add projects, and set their trusted state."""
        return AsyncProjectsRead(self._sync.projects, self._threads)

    @property
    def guards(self) -> AsyncGuardsRead:
        """List the texts that are kept out of recall, and the commands that rules refused."""
        return AsyncGuardsRead(self._sync.guards, self._threads)

    @property
    def policy(self) -> AsyncUserPolicyRead:
        """Read the parameters of the user's memory."""
        return AsyncUserPolicyRead(self._sync.policy, self._threads)

    @property
    def proof(self) -> AsyncProofsRead:
        """Compute the digest of the beliefs."""
        return AsyncProofsRead(self._sync.proof, self._threads)

    @property
    def projections(self) -> AsyncProjectionsRead:
        """Read the tables of your own projections, and their positions."""
        return AsyncProjectionsRead(self._sync.projections, self._threads)

    @property
    def maintenance(self) -> AsyncMaintenanceRead:
        """Read numbers of the ledger."""
        return AsyncMaintenanceRead(self._sync.maintenance, self._threads)


class AsyncLedger(OpenedLedger, AsyncLedgerRead):
    """The memory of an agent in one file: every change is an event, and every answer can be explained."""

    __slots__ = ()

    _sync: Ledger

    @classmethod
    def open(
        cls, path: str | os.PathLike[str], *, user: str | None = None, actor: str = "", client: str = "",
        channel: Channel = "user", agent: str = "", readonly: bool = False, create: bool = True,
        model: ModelLike | None = None, embedder: EmbedderLike | None = None, summarizer: SummarizerLike | None = None,
        token_counter: Callable[[str], int] | None = None, scanners: Sequence[Scanner] = (),
        sessions: SessionPatterns = SessionPatterns(),  # noqa: B008 - a named tuple
        jobs_after_capture: Sequence[Job] = (), projections: Iterable[Projection | type[Projection]] = (),
        verify: Literal['tail', 'full'] | None = None, against: Given | None = None, settings: Settings | None = None,
        log: SharedLog | str | None = None, tenant: str | None = None, machine: str | None = None,
        clock: Callable[[], datetime] | None = None, random: Callable[[int], bytes] | None = None,
    ) -> Opening[Self]:
        """Open a ledger, or begin a ledger if there is no file."""
        return cls._opened("open", lambda plain: plain.open(
            path, user=user, actor=actor, client=client, channel=channel, agent=agent, readonly=readonly,
            create=create, model=model, embedder=embedder, summarizer=summarizer, token_counter=token_counter,
            scanners=scanners, sessions=sessions, jobs_after_capture=jobs_after_capture, projections=projections,
            verify=verify, against=against, settings=settings, log=log, tenant=tenant, machine=machine, clock=clock,
            random=random, group_commit=True,
        ))

    @classmethod
    def temporary(
        cls, *, user: str = "", actor: str = "", model: ModelLike | None = None, embedder: EmbedderLike | None = None,
        projections: Iterable[Projection | type[Projection]] = (), settings: Settings | None = None,
        clock: Callable[[], datetime] | None = None, random: Callable[[int], bytes] | None = None,
    ) -> Opening[Self]:
        """Begin a ledger in a private file that goes with the object, for tests and notebooks."""
        return cls._opened("temporary", lambda plain: plain.temporary(
            user=user, actor=actor, model=model, embedder=embedder, projections=projections, settings=settings,
            clock=clock, random=random, group_commit=True,
        ))

    @classmethod
    async def doctor(cls, path: StrPath, *, progress: Callable[[int, int], None] | None = None) -> DoctorReport:
        """Check everything that may be wrong with a file, even one that does not open, and say what to do. Change nothing."""
        return await cls._apart(lambda plain: plain.doctor(path, progress=progress))

    @classmethod
    async def import_log(
        cls, source: StrPath, path: StrPath, *, progress: Callable[[int, int], None] | None = None,
    ) -> None:
        """Make the ledger of an export: the same id, events, digests and head. All or nothing."""
        return await cls._apart(lambda plain: plain.import_log(source, path, progress=progress))

    @classmethod
    async def recover(
        cls, backup: StrPath, path: StrPath, *, certificates: Iterable[str] = (),
        progress: Callable[[int, int], None] | None = None,
    ) -> RecoverReport:
        """Make a ledger of a backup: the same id, events, digests and head, verified and with projections made again."""
        return await cls._apart(lambda plain: plain.recover(backup, path, certificates=certificates, progress=progress))

    def bind(
        self, *, user: str | None = None, actor: str | None = None, client: str | None = None,
        channel: Channel | None = None, agent: str | None = None,
    ) -> AsyncLedger:
        """Return the same ledger for another user or actor: same file, same locks, other defaults. Closing it does nothing."""
        return AsyncBoundLedger(self._sync.bind(
            user=user, actor=actor, client=client, channel=channel, agent=agent,
        ), self._threads)

    async def at(self, moment: Moment, *, valid_at: Time | None = None) -> AsyncPastLedger:
        """Return the ledger as it was known at a moment, with reads only."""
        return AsyncPastLedger(await self._read(lambda: self._sync.at(moment, valid_at=valid_at)), self._threads)

    async def replay(
        self, path: StrPath, *, until: Moment | None = None, branch: bool = False,
        without: str | int | Mapping[str, str] | None = None, reason: str = "", timeout: float | None = None,
        cancel: Cancel | None = None, progress: Callable[[int, int], None] | None = None,
    ) -> ReplayReport:
        """Make a ledger of the log up to a moment, verified: a copy for reading, or a branch that continues on its own."""
        return await self._work(lambda: self._sync.replay(
            path, until=until, branch=branch, without=without, reason=reason, timeout=timeout, cancel=cancel,
            progress=progress,
        ))

    async def wait(self, position: int, timeout: float = 30.0, *, cancel: Cancel | None = None) -> None:
        """Wait until this file holds the log up to a position, such as the ``position`` of an answer on another machine."""
        return await self._wait(lambda stop: self._sync.wait(position, timeout, cancel=stop), cancel)

    @property
    def id(self) -> str:
        """Return the ledger's own id; a copy of the file has the same id."""
        return self._sync.id

    async def capture(
        self, prompt: str, response: str = "", *, summary: str = "", project: str | None = None,
        session: str | None = None, memories_used: Iterable[str] = (), chunks_used: Iterable[str] = (),
        context: Pack | Mapping[str, Any] | None = None, reinforce: bool = True, extract: bool = True,
        append: bool = False, metadata: Metadata | None = None, **options: Unpack[WriteOptions],
    ) -> Interaction:
        """Record a turn. The memories that its response restates are then reinforced by a second command."""
        return await self._work(lambda: self._sync.capture(
            prompt, response, summary=summary, project=project, session=session, memories_used=memories_used,
            chunks_used=chunks_used, context=context, reinforce=reinforce, extract=extract, append=append,
            metadata=metadata, **options,
        ))

    async def remember(
        self, content: str, *, kind: str = "knowledge", project: str | None = None, session: str | None = None,
        confidence: float = 1.0, entities: Iterable[str] = (), tags: Iterable[str] = (), sources: Iterable[str] = (),
        relations: Iterable[Triple] = (), valid_from: Time | None = None, valid_to: Time | None = None,
        metadata: Metadata | None = None, reference_count: int = 0, last_referenced_at: Time | None = None,
        **options: Unpack[WriteOptions],
    ) -> Memory:
        """Record an active memory, without review. The same text in the same project and kind is one memory."""
        return await self._decide(lambda: self._sync.remember(
            content, kind=kind, project=project, session=session, confidence=confidence, entities=entities, tags=tags,
            sources=sources, relations=relations, valid_from=valid_from, valid_to=valid_to, metadata=metadata,
            reference_count=reference_count, last_referenced_at=last_referenced_at, **options,
        ))

    async def add(
        self, messages: Messages, *, session: str | None = None, project: str | None = None,
        extract: Extracting | bool = "auto", metadata: Metadata | None = None, dry_run: bool = False,
        timeout: float | None = None, cancel: Cancel | None = None, progress: Callable[[int, int], None] | None = None,
        **options: Unpack[WriteOptions],
    ) -> Added:
        """Add messages of a conversation: append them to a session, capture their turns, and learn from them."""
        return await self._work(lambda: self._sync.add(
            messages, session=session, project=project, extract=extract, metadata=metadata, dry_run=dry_run,
            timeout=timeout, cancel=cancel, progress=progress, **options,
        ))

    async def propose(
        self, content: str, *, kind: str = "knowledge", project: str | None = None, session: str | None = None,
        confidence: float = 0.5, entities: Iterable[str] = (), tags: Iterable[str] = (), sources: Iterable[str] = (),
        relations: Iterable[Triple] = (), valid_from: Time | None = None, valid_to: Time | None = None,
        metadata: Metadata | None = None, reference_count: int = 0, last_referenced_at: Time | None = None,
        **options: Unpack[WriteOptions],
    ) -> Memory:
        """Record a candidate, which waits for review. The arguments are those of ``remember``."""
        return await self._decide(lambda: self._sync.propose(
            content, kind=kind, project=project, session=session, confidence=confidence, entities=entities, tags=tags,
            sources=sources, relations=relations, valid_from=valid_from, valid_to=valid_to, metadata=metadata,
            reference_count=reference_count, last_referenced_at=last_referenced_at, **options,
        ))

    async def promote(
        self, id: str, *, content: str | None = None, reason: str = "", **options: Unpack[WriteOptions],
    ) -> Memory:
        """Make a candidate active; of an active memory nothing is recorded (``absorbed``), unless a turn denies it."""
        return await self._decide(lambda: self._sync.promote(id, content=content, reason=reason, **options))

    async def reject(self, id: str, *, reason: str = "", **options: Unpack[WriteOptions]) -> Memory:
        """Turn a candidate down; extraction does not propose the same text again."""
        return await self._decide(lambda: self._sync.reject(id, reason=reason, **options))

    async def revise(
        self, id: str, content: str, *, reason: str = "", **options: Unpack[WriteOptions],
    ) -> Memory | Observation:
        """Give a memory or an observation another wording; ``supersede`` is for another fact."""
        return await self._work(lambda: self._sync.revise(id, content, reason=reason, **options))

    async def supersede(
        self, id: str, content: str, *, kind: str | None = None, confidence: float = 1.0,
        entities: Iterable[str] | None = None, tags: Iterable[str] | None = None, sources: Iterable[str] = (),
        relations: Iterable[Triple] = (), valid_from: Time | None = None, valid_to: Time | None = None,
        metadata: Metadata | None = None, reason: str = "", **options: Unpack[WriteOptions],
    ) -> Memory:
        """Replace an active memory by another fact, and return the new memory. The old memory stays readable."""
        return await self._decide(lambda: self._sync.supersede(
            id, content, kind=kind, confidence=confidence, entities=entities, tags=tags, sources=sources,
            relations=relations, valid_from=valid_from, valid_to=valid_to, metadata=metadata, reason=reason, **options,
        ))

    async def invalidate(self, id: str, *, reason: str = "", **options: Unpack[WriteOptions]) -> Memory:
        """Say that an active memory was wrong; ``restore`` brings it back."""
        return await self._decide(lambda: self._sync.invalidate(id, reason=reason, **options))

    async def retract(self, id: str, *, reason: str = "", **options: Unpack[WriteOptions]) -> Memory | Observation:
        """Take a memory or an observation out of use; ``restore`` brings it back."""
        return await self._work(lambda: self._sync.retract(id, reason=reason, **options))

    async def restore(self, id: str, *, reason: str = "", **options: Unpack[WriteOptions]) -> Any:
        """Bring back a superseded, invalidated, retracted or rejected subject; for a withdrawn source, its evidence."""
        return await self._work(lambda: self._sync.restore(id, reason=reason, **options))

    async def reinforce(
        self, id: str, *, amount: float | None = None, source: str | None = None, **options: Unpack[WriteOptions],
    ) -> Memory:
        """Give an active memory one more reason to be believed."""
        return await self._decide(lambda: self._sync.reinforce(id, amount=amount, source=source, **options))

    async def reopen(self, receipt: str) -> Pack:
        """Return the pack that ``recall(…, receipt=True)`` gave, as it was delivered; ``changed`` lists the changes since."""
        return await self._work(lambda: self._sync.reopen(receipt))

    async def undo(
        self, target: str | int, *, cascade: bool = False, exclusive: bool = False, dry_run: bool = False,
        reason: str = "", **options: Unpack[WriteOptions],
    ) -> UndoReport:
        """Void everything that one command recorded, as if it had never been given."""
        return await self._work(lambda: self._sync.undo(
            target, cascade=cascade, exclusive=exclusive, dry_run=dry_run, reason=reason, **options,
        ))

    async def redo(
        self, target: str | int, *, exclusive: bool = False, dry_run: bool = False, reason: str = "",
        **options: Unpack[WriteOptions],
    ) -> UndoReport:
        """Put back what an undo made void."""
        return await self._work(lambda: self._sync.redo(
            target, exclusive=exclusive, dry_run=dry_run, reason=reason, **options,
        ))

    async def erase(
        self, subject: Subject, *, derived: Choice | None = None, sources: Choice | None = None,
        quotes: Choice | None = None, keep: Iterable[str | int] = (), exclusive: bool = False, dry_run: bool = False,
        reason: str = "", timeout: float | None = None, cancel: Cancel | None = None, **options: Unpack[WriteOptions],
    ) -> ErasureReport:
        """Remove texts for good, from the log too; the chain still verifies. An erasure cannot be undone."""
        return await self._work(lambda: self._sync.erase(
            subject, derived=derived, sources=sources, quotes=quotes, keep=keep, exclusive=exclusive, dry_run=dry_run,
            reason=reason, timeout=timeout, cancel=cancel, **options,
        ))

    async def consolidate(
        self, over: Literal['memories', 'interactions', 'messages'] | Sequence[str] = "memories", *,
        project: str | None = None, tags: Iterable[str] = (), method: Literal['model', 'grouping'] | None = None,
        limit: int | None = None, dry_run: bool = False, progress: Callable[[int, int], None] | None = None,
        **options: Unpack[WriteOptions],
    ) -> ConsolidationReport:
        """Make observations of what new sources have in common, and revise stale observations."""
        return await self._work(lambda: self._sync.consolidate(
            over, project=project, tags=tags, method=method, limit=limit, dry_run=dry_run, progress=progress,
            **options,
        ))

    async def extract(
        self, interaction: str, *, method: Method | None = None, model: ModelLike | None = None, dry_run: bool = False,
        gate: bool = True, timeout: float | None = None, cancel: Cancel | None = None, **options: Unpack[WriteOptions],
    ) -> ExtractionReport:
        """Find candidates for memories in a turn, by the model or by rules."""
        return await self._work(lambda: self._sync.extract(
            interaction, method=method, model=model, dry_run=dry_run, gate=gate, timeout=timeout, cancel=cancel,
            **options,
        ))

    def session(self, name: str, *, project: str | None = None) -> AsyncSession:
        """Return a conversation by its name, an alias or its id. It begins with its first message."""
        return AsyncSession(self._sync.session(name, project=project), self._threads)

    @property
    def sessions(self) -> AsyncSessions:
        """List and search conversations."""
        return AsyncSessions(self._sync.sessions, self._threads)

    @property
    def history(self) -> AsyncHistory:
        """List events and their actors, undo groups of commands, distrust and trust origins."""
        return AsyncHistory(self._sync.history, self._threads)

    @property
    def memories(self) -> AsyncMemories:
        """List and read memories, and change their tags, metadata, validity and confidence."""
        return AsyncMemories(self._sync.memories, self._threads)

    @property
    def observations(self) -> AsyncObservations:
        """List and read observations, add an observation by hand, and withdraw sources."""
        return AsyncObservations(self._sync.observations, self._threads)

    @property
    def conflicts(self) -> AsyncConflicts:
        """Find memories that cannot all be true, and decide."""
        return AsyncConflicts(self._sync.conflicts, self._threads)

    @property
    def merges(self) -> AsyncMerges:
        """Find memories that say nearly the same, and merge them."""
        return AsyncMerges(self._sync.merges, self._threads)

    @property
    def graph(self) -> AsyncRelations:
        """Return the neighbors of a name, and the memories' statements about two names."""
        return AsyncRelations(self._sync.graph, self._threads)

    @property
    def interactions(self) -> AsyncInteractions:
        """List and read captured turns, add responses, and import files of turns."""
        return AsyncInteractions(self._sync.interactions, self._threads)

    @property
    def values(self) -> AsyncValues:
        """Put, read, list, move, remove and restore values under namespaces and keys."""
        return AsyncValues(self._sync.values, self._threads)

    @property
    def documents(self) -> AsyncDocuments:
        """Add files and texts, list and read them and their chunks, remove and restore them."""
        return AsyncDocuments(self._sync.documents, self._threads)

    @property
    def projects(self) -> AsyncProjects:
        """List, read and add projects, and set their trusted state."""
        return AsyncProjects(self._sync.projects, self._threads)

    @property
    def erasures(self) -> AsyncErasures:
        """List erasures and their certificates, and finish pending ones."""
        return AsyncErasures(self._sync.erasures, self._threads)

    @property
    def holds(self) -> AsyncHolds:
        """Keep subjects from being erased."""
        return AsyncHolds(self._sync.holds, self._threads)

    @property
    def guards(self) -> AsyncGuards:
        """Keep texts out of recall, scan the stored texts, and list the commands that rules refused."""
        return AsyncGuards(self._sync.guards, self._threads)

    @property
    def policy(self) -> AsyncUserPolicy:
        """Read and change the parameters of the user's memory."""
        return AsyncUserPolicy(self._sync.policy, self._threads)

    @property
    def jobs(self) -> AsyncJobs:
        """Run the background work of all users."""
        return AsyncJobs(self._sync.jobs, self._threads)

    @property
    def vectors(self) -> AsyncVectors:
        """List, make and delete vectors."""
        return AsyncVectors(self._sync.vectors, self._threads)

    @property
    def proof(self) -> AsyncProofs:
        """Verify the file, seal checkpoints, and prove single events."""
        return AsyncProofs(self._sync.proof, self._threads)

    @property
    def maintenance(self) -> AsyncMaintenance:
        """Maintain the file: numbers, rebuild, backup, export."""
        return AsyncMaintenance(self._sync.maintenance, self._threads)


class AsyncPastLedger(AsyncLedgerRead):
    """A ledger as it was known at a moment, with reads only. It holds nothing between two calls and needs no closing."""

    __slots__ = ()

    _sync: PastLedger

    @property
    def as_of(self) -> str:
        """Return the "now" of this moment in UTC: the time asked for, or for a position the latest time recorded by then."""
        return self._sync.as_of

    @property
    def valid_at(self) -> str | None:
        """Return the time in the world that is asked about, if any."""
        return self._sync.valid_at


@shown_as(AsyncLedger)
class AsyncBoundLedger(AsyncLedger):
    """The same file for another user or actor. Closing it is left to the code that opened the file."""

    __slots__ = ()

    async def aclose(self) -> None:
        """Do nothing: the code that opened the ledger closes it."""
