"""The library's public surface: ``Ledger``, an open file for one user, and ``PastLedger``, the same file at a moment."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack, get_args

from ledger import answers
from ledger.core.area import LIMIT, Area, callback, found, page
from ledger.core.call import Answer
from ledger.domain import confidence as confidence_rules
from ledger.domain.errors import RejectedError
from ledger.domain.ids import message_place
from ledger.domain.late import shown_as
from ledger.domain.metadata import NO_PAIRS
from ledger.domain.text import check_text, flags, plural
from ledger.types import (
    Cancel,
    Channel,
    Choice,
    Corpus,
    Extracting,
    Job,
    MemoryStatus,
    Messages,
    Metadata,
    Method,
    Moment,
    Packing,
    Page,
    SessionPatterns,
    Subject,
    Time,
    Triple,
    Unit,
    WriteOptions,
)

if TYPE_CHECKING:
    from datetime import datetime

    from ledger.care.api import Maintenance, MaintenanceRead
    from ledger.core.engine import Engine, PastEngine
    from ledger.core.settings import Settings
    from ledger.documents.api import Documents, DocumentsRead
    from ledger.domain.scan.scanner import Scanner
    from ledger.erasure.api import Erasures, Holds
    from ledger.extraction.api import Learning
    from ledger.graph.api import Relations, RelationsRead
    from ledger.guards.api import Guards, GuardsRead
    from ledger.history.api import History, HistoryRead
    from ledger.interactions.api import Interactions, InteractionsRead
    from ledger.jobs.api import Jobs
    from ledger.log.paths import StrPath
    from ledger.log.shared.port import SharedLog
    from ledger.memories.api import Memories, MemoriesRead
    from ledger.observations.answers import ConsolidationReport, Observation
    from ledger.observations.api import Observations, ObservationsRead
    from ledger.policy.api import UserPolicy, UserPolicyRead
    from ledger.projections.api import ProjectionsRead
    from ledger.projects.api import Projects, ProjectsRead
    from ledger.proof.api import Proofs, ProofsRead
    from ledger.proof.kept import Given
    from ledger.recall.packs import Pack
    from ledger.review.api import Conflicts, ConflictsRead, Merges, MergesRead
    from ledger.sessions.api import Session, SessionRead, Sessions, SessionsRead
    from ledger.types import EmbedderLike, ModelLike, SummarizerLike
    from ledger.values.api import Values, ValuesRead
    from ledger.vectors.api import Vectors
    from projections.core.own import Projection

    Progress = Callable[[int, int], None]


class LedgerRead(Area):
    """The reads of a ledger, now and at a moment of the past."""

    @property
    def path(self) -> str:
        """Return the absolute path of the file."""
        return self._engine.path

    @property
    def position(self) -> int:
        """Return the position of the last event, 1 or more."""
        return self._engine.position

    def recall(
        self,
        question: str,
        *,
        project: str | None = None,
        kinds: Iterable[str] = (),
        statuses: Iterable[MemoryStatus] = ("active",),
        among: Iterable[Corpus] = ("memories", "chunks"),
        limit: int = 20,
        budget: int | None = None,
        unit: Unit = "tokens",
        packing: Packing = "greedy",
        ranking: Literal["score/3", "rubino/1"] = "score/3",
        metadata: Metadata | None = None,
        min_match: float | None = None,
        observations: int | Literal["items"] = 3,
        observation_weight: float = 1.5,
        explain: bool = False,
        receipt: bool = False,
    ) -> Pack:
        """Find the answers to a question, best first, and pack them for a prompt.

        Args:
            question: The question, or the topic of the next prompt.
            project: Search texts of this project and of no project; None or "" for all texts but those of archived projects.
            kinds: Search only memories of these kinds.
            statuses: Search memories with these statuses, () for all; candidates are never found.
            among: The texts to search: "memories", "chunks" of documents, "turns" (interactions and messages), "values".
            limit: The most items, up to 500; 0 for observations alone.
            budget: The largest size of the pack's ``as_text()``, fence included, counted in ``unit``; None for no bound.
            unit: "tokens" or "chars".
            packing: "greedy" passes over an item that does not fit; "prefix" stops at it; "shares" divides the budget
                between kinds.
            ranking: "score/3" adds words and vectors to one score; "rubino/1" is rubino's, by reciprocal ranks.
            metadata: Search only texts that have each of these keys with this value, a chunk by its document's; None is a value
                too.
            min_match: The least ``match`` of an item or observation, 0 to 1; None for half of the best item's with vectors.
            observations: The most observations beside the items, up to 50; 0 for none; "items" ranks them among the items.
            observation_weight: With "items" the factor of an observation's score, 0 to 10; 1 for that of a memory.
            explain: Also list the ranked candidates, with their signals.
            receipt: Record the delivered pack, so that ``reopen`` shows it again. Nothing else is written.
        """
        from ledger.recall import recalling
        from ledger.recall.request import RecallRequest

        flags(receipt=receipt)
        request = RecallRequest(
            question=question,
            user=self._scope.user,
            now=self._engine.now(),
            project=project,
            kinds=plural("kinds", kinds),
            statuses=plural("statuses", statuses),
            among=plural("among", among, get_args(Corpus)),
            limit=limit,
            budget=budget,
            unit=unit,
            packing=packing,
            ranking=ranking,
            observations=observations,
            observation_weight=observation_weight,
            metadata=NO_PAIRS if metadata is None else metadata,
            min_match=min_match,
            explain=explain,
        )
        return recalling.recall(self._engine, request, self._scope if receipt else None)

    def context(
        self,
        question: str,
        *,
        budget: int = 400,
        unit: Unit = "tokens",
        session: str | None = None,
        project: str | None = None,
        among: Iterable[Corpus] = ("memories", "chunks", "turns"),
        latest: bool = True,
        explain: bool = False,
        receipt: bool = False,
    ) -> Pack:
        """Fill the next prompt: the answers, turns about the question, the user's profile, and the user's latest statements.

        Args:
            question: The user's question; "" for pinned memories, the profile and the latest statements.
            budget: The largest size of the pack's ``as_text()``, fence included, counted in ``unit``.
            unit: "tokens" or "chars".
            session: Leave out the messages that the window of this session shows.
            project: Use texts of this project and of no project; None or "" for all texts but those of archived projects.
            among: The texts to use: "memories", "chunks" of documents, "turns" (interactions and messages), "values".
            latest: Fill the room that is left with the latest memories and statements.
            explain: Also list the items that were left out, each with the reason.
            receipt: Record the delivered pack, so that ``reopen`` shows it again. Nothing else is written.
        """
        from ledger.recall import context as filling
        from ledger.recall.request import QUERY_BYTES, RecallRequest

        flags(receipt=receipt, explain=explain)
        search = RecallRequest(
            question=check_text("question", question, max_bytes=QUERY_BYTES, blank_allowed=True),
            user=self._scope.user,
            now=self._engine.now(),
            project=project,
            among=plural("among", among, get_args(Corpus)),
            budget=budget,
            unit=unit,
            explain=explain,
        )
        request = filling.ContextRequest(search=search, session=session, latest=latest)
        return filling.context(self._engine, request, self._scope if receipt else None)

    def profile(
        self,
        *,
        kinds: Iterable[str] = ("user_profile", "identity", "preference", "rule"),
        budget: int = 1_375,
        unit: Unit = "chars",
    ) -> Pack:
        """Return the active memories about the user, newest first.

        A memory that alone exceeds the budget is cut to the room that is left, and ends with "…".

        Args:
            kinds: The kinds to take, by default user_profile, identity, preference and rule; empty for every kind.
            budget: The largest size of the pack's ``as_text()``, fence included, counted in ``unit``.
            unit: "chars" or "tokens".
        """
        from ledger.recall import unasked

        accepted = plural("kinds", kinds)
        return unasked.user_profile(self._engine, self._scope.user, kinds=accepted, budget=budget, unit=unit)

    def why(self, id: str) -> answers.Why:
        """Return why a memory or an observation is believed, or why a value is as it is: every event behind it, with sources.

        Args:
            id: The id of a memory, an observation or a value.
        """
        from ledger.history import audit

        kinds = "value" if isinstance(id, str) and id.startswith("v_") else "memory or observation"
        return found(kinds, id, audit.why(self._engine, self._scope.user, id))

    def review(
        self,
        *,
        admitted: bool = False,
        project: str | None = None,
        limit: int = LIMIT,
        after: str | None = None,
        oldest_first: bool = False,
    ) -> Page[answers.Candidate]:
        """List the memories that wait for a decision, oldest first.

        These are candidates, each with the place where it was found, and active memories that a later turn denies
        (``contradicted_by``). A memory of the second kind leaves the list with any decision: ``promote`` and ``reinforce``
        keep it, ``supersede``, ``retract`` and the like do not.

        Args:
            admitted: List instead the active memories that no person admitted, newest first, each with the line of the table that
                admitted it and with the call that takes it back.
            oldest_first: With ``admitted``, begin with the oldest; what waits for a decision is always listed so.
        """
        from ledger.memories import queries as memory_queries

        def fetch(count: int, start: str | None) -> list[answers.Candidate]:
            with self._engine.snapshot() as snapshot:
                about: dict[str, Any] = {"project": project, "limit": count, "after": start}
                if not admitted:
                    return memory_queries.review(snapshot, self._scope.user, **about)
                return memory_queries.admitted(snapshot, self._scope.user, **about, oldest_first=oldest_first)

        filters = {"user": self._scope.user, "project": project, **({"admitted": True} if admitted else {})}
        return page("review", filters, limit, after, fetch, lambda candidate: candidate.id, oldest_first=oldest_first)

    def query(
        self, sql: str, *parameters: object, every_user: bool = False, timeout: float = 10.0, limit: int = 10_000
    ) -> tuple[dict[str, str | int | float | bytes | None], ...]:
        """Run a SELECT over the documented views, with the rows of this user.

        Under ``at(moment)`` the same query answers as of then. A query cannot write.

        Args:
            sql: The SELECT, with a ? for each of the parameters, or :name.
            parameters: Texts, numbers, bytes or None, in order; or one mapping of names to them.
            every_user: Query the views and all tables of the file, of all users; only if neither ``open``, ``bind`` nor the
                settings name a user.
            timeout: The most seconds that the query may take, up to 3,600.
            limit: The most rows, up to 1,000,000; an answer with more is refused, not cut.

        Raises:
            RejectedError: The SQL is not a SELECT or is wrong, takes longer or gives more rows, reads another table than the
                views, or reads tables without a past; or ``every_user`` is used with a named user.
            SuspendedError: The query reads a suspended projection.
        """
        from ledger.core import questions

        flags(every_user=every_user)
        if every_user and self._scope.names_user:
            raise RejectedError(
                f"every_user=True asks about all users, and this ledger was opened or bound for the user {self._scope.user!r}:"
                " leave every_user out, or open the ledger without user",
                rule="every_user",
            )
        user = None if every_user else self._scope.user
        return questions.query(self._engine, user, sql, parameters, timeout, limit)

    def session(self, name: str, *, project: str | None = None) -> SessionRead:
        """Return a conversation by its name, an alias or its id. The call reads and writes nothing.

        Args:
            name: The name of the conversation; "main" and the like are ordinary names.
        """
        from ledger.sessions.api import SessionRead

        return SessionRead(self._engine, self._scope, name, project)

    @property
    def sessions(self) -> SessionsRead:
        """List and search conversations."""
        from ledger.sessions.api import SessionsRead

        return SessionsRead(self._engine, self._scope)

    @property
    def history(self) -> HistoryRead:
        """List events and their actors."""
        from ledger.history.api import HistoryRead

        return HistoryRead(self._engine, self._scope)

    @property
    def memories(self) -> MemoriesRead:
        """List and read memories, and change their tags, metadata, validity and confidence."""
        from ledger.memories.api import MemoriesRead

        return MemoriesRead(self._engine, self._scope)

    @property
    def observations(self) -> ObservationsRead:
        """List and read observations, add an observation by hand, and withdraw sources."""
        from ledger.observations.api import ObservationsRead

        return ObservationsRead(self._engine, self._scope)

    @property
    def conflicts(self) -> ConflictsRead:
        """Find memories that cannot all be true, and decide."""
        from ledger.review.api import ConflictsRead

        return ConflictsRead(self._engine, self._scope)

    @property
    def merges(self) -> MergesRead:
        """Find memories that say nearly the same, and merge them."""
        from ledger.review.api import MergesRead

        return MergesRead(self._engine, self._scope)

    @property
    def graph(self) -> RelationsRead:
        """Return the neighbors of a name, and the memories' statements about two names."""
        from ledger.graph.api import RelationsRead

        return RelationsRead(self._engine, self._scope)

    @property
    def interactions(self) -> InteractionsRead:
        """List and read captured turns, add responses, and import files of turns."""
        from ledger.interactions.api import InteractionsRead

        return InteractionsRead(self._engine, self._scope)

    @property
    def values(self) -> ValuesRead:
        """Put, read, list, move, remove and restore values under namespaces and keys."""
        from ledger.values.api import ValuesRead

        return ValuesRead(self._engine, self._scope)

    @property
    def documents(self) -> DocumentsRead:
        """Add files and texts, list and read them and their chunks, remove and restore them."""
        from ledger.documents.api import DocumentsRead

        return DocumentsRead(self._engine, self._scope)

    @property
    def projects(self) -> ProjectsRead:
        """List, read and add projects, and set their trusted state."""
        from ledger.projects.api import ProjectsRead

        return ProjectsRead(self._engine, self._scope)

    @property
    def guards(self) -> GuardsRead:
        """List the texts that are kept out of recall, and the commands that rules refused."""
        from ledger.guards.api import GuardsRead

        return GuardsRead(self._engine, self._scope)

    @property
    def policy(self) -> UserPolicyRead:
        """Read the parameters of the user's memory."""
        from ledger.policy.api import UserPolicyRead

        return UserPolicyRead(self._engine, self._scope)

    @property
    def proof(self) -> ProofsRead:
        """Compute the digest of the beliefs."""
        from ledger.proof.api import ProofsRead

        return ProofsRead(self._engine, self._scope)

    @property
    def projections(self) -> ProjectionsRead:
        """Read the tables of your own projections, and their positions."""
        from ledger.projections.api import ProjectionsRead

        return ProjectionsRead(self._engine, self._scope)

    @property
    def maintenance(self) -> MaintenanceRead:
        """Read numbers of the ledger."""
        from ledger.care.api import MaintenanceRead

        return MaintenanceRead(self._engine, self._scope)


class Ledger(LedgerRead):
    """The memory of an agent in one file: every change is an event, and every answer can be explained.

    ``user`` bounds everything: the memory of a user is visible to no other user's call. Thread-safe; a forked process must open
    its own ledger.
    """

    _engine: Engine

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        user: str | None = None,
        actor: str = "",
        client: str = "",
        channel: Channel = "user",
        agent: str = "",
        readonly: bool = False,
        create: bool | Literal["if_used"] = True,
        model: ModelLike | None = None,
        embedder: EmbedderLike | None = None,
        summarizer: SummarizerLike | None = None,
        token_counter: Callable[[str], int] | None = None,
        scanners: Sequence[Scanner] = (),
        sessions: SessionPatterns = SessionPatterns(),  # noqa: B008 - a named tuple
        jobs_after_capture: Sequence[Job] = (),
        projections: Iterable[Projection | type[Projection]] = (),
        group_commit: bool = False,
        verify: Literal["tail", "full"] | None = None,
        against: Given | None = None,
        settings: Settings | None = None,
        log: SharedLog | str | None = None,
        tenant: str | None = None,
        machine: str | None = None,
        log_listen_url: str | None = None,
        lock_timeout: float = 30.0,
        wait: bool = True,
        progress: Callable[[int, int], None] | None = None,
        clock: Callable[[], datetime] | None = None,
        random: Callable[[int], bytes] | None = None,
    ) -> Self:
        """Open a ledger, or begin a ledger if there is no file.

        Args:
            path: The file; "~" is not expanded.
            user: The user whose memory is opened; "" is a user too. None means the user "" as well, and leaves the file open to
                ``query(every_user=True)``.
            actor: The name of the actor: a person, an agent, a program.
            client: The program through which commands come.
            channel: The kind of input.
            agent: The agent for which commands are.
            readonly: Write nothing; works on read-only media.
            create: Begin a ledger if there is no file; False raises ``NotFoundError`` instead. With "if_used" the new file is
                removed by ``close`` if nothing was recorded in it and no other process has it open.
            model: A language model, by name "openai:NAME" or "anthropic:NAME"; None never asks a model.
            embedder: A source of vectors, which recall searches besides words; by name "minilm", "wordllama" or "onnx:DIRECTORY".
            summarizer: The writer of sessions' summaries; None leaves them to the model.
            token_counter: A function that counts the tokens of a text; None estimates them.
            scanners: Your own scanners, besides those of the product: objects with a name and ``scan(text)``.
            sessions: The sessions that are ignored or read only, by name.
            jobs_after_capture: Jobs that follow each capture, besides reinforcement, which always does.
            projections: Your own projections, classes or objects; their tables are made and caught up before the call returns.
            group_commit: Commit the commands of many threads together, up to 64 at a time, in a thread of the ledger's own. A
                command still returns only after its commit; a commit that fails fails every command in it.
            verify: Check the ledger before the call returns, as ``proof.verify`` does: "full" checks everything, "tail" only the
                chain of the events after the last checkpoint. None leaves out both, and checks the end of the log.
            against: A checkpoint kept elsewhere that the ledger must agree with: its path, its text, or the answer of
                ``proof.checkpoint``. Every event is then checked, and with ``verify=None`` everything else too.
            settings: The values for arguments that are left out.
            log: The address of a log in PostgreSQL that several machines share ("postgresql://…"); the file is then this
                machine's copy. None keeps the log in the file.
            tenant: The owner of the shared log, such as a customer; each tenant has a log and a file of its own.
            machine: This machine's name among those that share the log; None is the name of the host. A second file of one
                tenant on a host needs a name of its own.
            log_listen_url: The address for the connection that listens for news, if ``log`` leads to a pooler.
            lock_timeout: The most seconds that a call waits for a lock that another thread or process holds, and then raises
                ``BusyError``.
            wait: Fold every event of the shared log that this file lacks before the call returns. False returns after the first
                thousand of them: questions are answered from what is there, ``history.behind()`` counts the others, and threads
                fold them meanwhile.
            progress: Called with (events folded, events that the file lacked) while the call waits.
            clock: A function that returns the time, for tests.
            random: A function that returns random bytes of a given number, for tests.

        Raises:
            RejectedError: The path cannot hold a ledger, or ends as a file of the product's own does (".part", ".lock", "-wal",
                "-shm", "-journal"); or a projection is wrong.
            NotFoundError: There is no file, and none may be created.
            ConflictError: The file needs a newer version of this product.
            StorageError: The file is not a ledger, is damaged, cannot be read, or fails its verification.
            UnreachableError: The file is new, and the shared log cannot be reached.
        """
        from ledger.care.opening import OpenRequest, open_engine
        from ledger.log.paths import check_finished

        flags(readonly=readonly, group_commit=group_commit, wait=wait)
        if not isinstance(create, bool) and create != "if_used":
            raise RejectedError(f"create must be true, false or 'if_used', not {create!r:.40}")
        if lock_timeout != 30.0:  # the default loads no module for its check
            from ledger.core.steps import check_seconds

            check_seconds(lock_timeout, "lock_timeout")
        if not readonly:
            check_finished(path)
        request = OpenRequest(
            user=user, actor=actor, client=client, channel=channel, agent=agent, readonly=readonly, create=create,
            model=model, embedder=embedder, summarizer=summarizer, token_counter=token_counter, scanners=scanners,
            sessions=sessions, jobs_after_capture=jobs_after_capture, projections=projections,
            group_commit=group_commit, settings=settings, log=log, tenant=tenant, machine=machine,
            log_listen_url=log_listen_url, lock_timeout=lock_timeout, wait=wait, progress=callback(progress), clock=clock,
            random=random,
        )  # fmt: skip
        engine = open_engine(path, request)
        if verify is not None or against is not None:
            from ledger.proof import proving

            try:
                proving.check_opened(engine, verify, against)
            except BaseException:
                engine.close()
                raise
        return cls(engine, engine.default)  # the default scope includes the settings

    @classmethod
    def temporary(
        cls,
        *,
        user: str = "",
        actor: str = "",
        model: ModelLike | None = None,
        embedder: EmbedderLike | None = None,
        projections: Iterable[Projection | type[Projection]] = (),
        group_commit: bool = False,
        settings: Settings | None = None,
        clock: Callable[[], datetime] | None = None,
        random: Callable[[int], bytes] | None = None,
    ) -> Self:
        """Begin a ledger in a private file that goes with the object, for tests and notebooks.

        The file lies in a folder of its own within the system's folder for temporary files, and only this user can read it. The
        folder is removed by ``close``, at the end of a ``with`` block, when nothing refers to the ledger any more, and when
        the process ends; a killed process leaves the folder behind. ``maintenance.backup`` keeps a copy.

        Args:
            user: The user whose memory is opened; "" is a user too.
            actor: The name of the actor: a person, an agent, a program.
            model: A language model, as for ``open``.
            embedder: A source of vectors, which recall searches besides words, as for ``open``.
            projections: Your own projections, classes or objects.
            group_commit: Commit the commands of many threads together, as for ``open``.
            settings: The values for arguments that are left out, besides those of a shared log.
            clock: A function that returns the time.
            random: A function that returns random bytes of a given number.
        """
        from ledger.care.opening import OpenRequest, open_engine
        from ledger.care.temporary import in_private_folder

        flags(group_commit=group_commit)
        request = OpenRequest(
            user=user,
            actor=actor,
            model=model,
            embedder=embedder,
            projections=projections,
            group_commit=group_commit,
            settings=settings.without_log() if settings is not None else None,
            clock=clock,
            random=random,
        )
        engine = in_private_folder(partial(open_engine, request=request))
        return cls(engine, engine.default)

    @classmethod
    def doctor(
        cls, path: StrPath, *, settings: Settings | None = None, progress: Progress | None = None
    ) -> answers.DoctorReport:
        """Check everything that may be wrong with a file, even one that does not open, and say what to do. Change nothing.

        Args:
            path: The ledger's file.
            settings: The settings of the ledger, for the bounds of a command as a model and the address of a shared log.
            progress: A function that is called with (steps done, steps).

        Raises:
            NotFoundError: There is no file.
        """
        from ledger.care import doctor
        from ledger.models.day import bounds_by_settings
        from ledger.shared.health import log_of

        bounds = bounds_by_settings(settings)
        log = log_of(settings.log_url if settings is not None else None)
        return doctor.examine(path, bounds=bounds, log_of=log, progress=callback(progress))

    @classmethod
    def import_log(cls, source: StrPath, path: StrPath, *, progress: Progress | None = None) -> None:
        """Make the ledger of an export: the same id, events, digests and head. All or nothing.

        Args:
            source: A file that ``maintenance.export_log`` wrote.
            path: A free path for the ledger.
            progress: A function that is called with (events read, events).

        Raises:
            RejectedError: The path is taken, or the source is not an export.
            StorageError: The export is damaged.
        """
        from ledger.care import opening

        opening.import_log(source, path, progress=callback(progress))

    @classmethod
    def recover(
        cls,
        backup: StrPath,
        path: StrPath,
        *,
        certificates: Iterable[str] = (),
        progress: Progress | None = None,
    ) -> answers.RecoverReport:
        """Make a ledger of a backup: the same id, events, digests and head, verified and with projections made again.

        Args:
            backup: A file that ``maintenance.backup`` wrote; it is only read.
            path: A free path for the ledger.
            certificates: Certificates of erasures after the backup, from ``erasures.certificates``; the erasures are done again.
            progress: A function that is called with (events copied, events in the backup).

        Raises:
            NotFoundError: There is no backup.
            RejectedError: The path is taken, or a certificate belongs to another ledger.
            StorageError: The backup is damaged; the message names the first wrong position.
        """
        from ledger.care import backing_up

        return backing_up.recover(
            backup, path, certificates=plural("certificates", certificates), progress=callback(progress)
        )

    def bind(
        self,
        *,
        user: str | None = None,
        actor: str | None = None,
        client: str | None = None,
        channel: Channel | None = None,
        agent: str | None = None,
    ) -> Ledger:
        """Return the same ledger for another user or actor: same file, same locks, other defaults. Closing it does nothing.

        Args:
            user: The user whose memory is meant; None keeps the present value, as for all arguments. A blank name is refused.
            actor: The name of the actor.
            client: The program through which commands come.
            channel: The kind of input: "user", "tool", "web", "agent" or "file".
            agent: The agent for which commands are.
        """
        changes = {"user": user, "actor": actor, "client": client, "channel": channel, "agent": agent}
        return BoundLedger(self._engine, self._scope.bound(changes))

    def at(self, moment: Moment, *, valid_at: Time | None = None) -> PastLedger:
        """Return the ledger as it was known at a moment, with reads only.

        Args:
            moment: A position, the id of an event, or a time: the longest prefix of the log in which nothing was recorded later.
            valid_at: A time in the world: memories, graph and recall then answer by the truth of that time, as known at the
                moment.

        Raises:
            RejectedError: The log has no such position; the time is in the future, before the first event, or without offset.
            NotFoundError: No event has this id.
        """
        from ledger.core.engine import at

        return PastLedger(at(self._engine, moment, valid_at), self._scope)

    def replay(
        self,
        path: StrPath,
        *,
        until: Moment | None = None,
        branch: bool = False,
        without: str | int | Mapping[str, str] | None = None,
        reason: str = "",
        timeout: float | None = None,
        cancel: Cancel | None = None,
        progress: Progress | None = None,
    ) -> answers.ReplayReport:
        """Make a ledger of the log up to a moment, verified: a copy for reading, or a branch that continues on its own.

        A copy has the same id, events and heads, and takes no command. A branch begins with an event of its own, which gives it a
        new id and names its parent.

        Args:
            path: A free path for the ledger.
            until: The last event of the new ledger: its position or id, or a time; None for now.
            branch: Make a ledger that can be written; ``until`` must then be the last event of a command.
            without: A command or an origin that is void in the new ledger, with all that depends on it, named as for
                ``history.what_if``. The new ledger is then a branch.
            timeout: Seconds after which the call ends without a new ledger; ``stopped`` of the report says so. Making ``without``
                void is one step, which is not interrupted.
            cancel: An event or a function that says when to end, as ``timeout`` does.
            progress: A function that is called with (steps done, steps).

        Raises:
            ConflictError: The call is inside a batch, or its texts were erased again and again during the call.
            RejectedError: The path is taken, the moment is not one of this ledger's, or lies inside a command.
            NotFoundError: ``without`` names nothing up to that moment.
            StorageError: The log is damaged, or the disk is full.
        """
        from ledger.care import replaying
        from ledger.core.steps import Stopping

        return replaying.replay(
            self._engine,
            self._scope,
            path,
            until=until,
            branch=branch,
            without=without,
            reason=reason,
            progress=callback(progress),
            stopping=Stopping(timeout, cancel),
        )

    def wait(self, position: int, timeout: float = 30.0, *, cancel: Cancel | None = None) -> None:
        """Wait until this file holds the log up to a position, such as the ``position`` of an answer on another machine.

        Args:
            position: The position; 0 is always there.
            timeout: The longest wait in seconds.
            cancel: An event or a function; set or true, it ends the wait.

        Raises:
            BusyError: The time is over, or the wait was cancelled.
            ConflictError: The call comes from inside a batch, which keeps other writers out.
            DivergedError: The file has events that the shared log does not have.
            UnreachableError: The time is over, and the shared log cannot be reached.
        """
        from ledger.core.steps import Stopping
        from ledger.shared import following

        following.wait(self._engine, position, Stopping(timeout, cancel))

    def close(self) -> None:
        """Close the file. A second call does nothing."""
        self._engine.close()

    @contextmanager
    def batch(self, *, whole: bool = False) -> Iterator[Self]:
        """Group many commands into one commit, or one each 5 seconds or 10,000 events.

        An exception that leaves the block takes back everything that was not committed; of a batch inside a batch, only the inner
        part. Reinforcement by captures inside the block is left to ``jobs.run``.

        A batch belongs to the thread and the asyncio task that open it, with all bound ledgers. Other threads wait with their
        writes; another task of the same thread must not write.

        Args:
            whole: True for one commit however long the block takes, so that all of it is written or nothing.

        Raises:
            BusyError: Another thread or process kept the ledger locked for longer than the timeout.
            ConflictError: Another task of this thread is inside a batch.
        """
        with self._engine.writer.batch(whole=whole):
            yield self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Ledger {os.path.basename(self.path)!r} user={self._scope.user!r}>"

    @property
    def id(self) -> str:
        """Return the ledger's own id; a copy of the file has the same id."""
        return self._engine.created.ledger_id

    # --- capture -------------------------------------------------------------------------------------------------

    def capture(
        self,
        prompt: str,
        response: str = "",
        *,
        summary: str = "",
        project: str | None = None,
        session: str | None = None,
        memories_used: Iterable[str] = (),
        chunks_used: Iterable[str] = (),
        context: Pack | Mapping[str, Any] | None = None,
        reinforce: bool = True,
        extract: bool = True,
        append: bool = False,
        metadata: Metadata | None = None,
        **options: Unpack[WriteOptions],
    ) -> answers.Interaction:
        """Record a turn. The memories that its response restates are then reinforced by a second command.

        The answer's ``position`` is that of the last command. The first of ``history.events(id)`` is the turn's: ``undo`` of
        it with ``cascade`` undoes both.

        Args:
            prompt: The user's text.
            response: The agent's text; ``interactions.add_response`` adds a later one.
            summary: A summary of the response.
            memories_used: Ids (or their beginnings) of memories that the model had been shown, so that repeating them counts
                as an echo. Ids of other things are kept, named in ``warnings`` and not counted.
            chunks_used: Ids of chunks that the model had been shown.
            context: The model's context: the ``Pack`` of a recall, or a dictionary.
            reinforce: False if the response is not evidence.
            extract: False if memories were found in the turn elsewhere, as in an import: the jobs and the extraction of its
                session pass over it, and only ``extract(id)`` looks.
            append: Also append prompt and response to the session as messages, in the same append.
            metadata: Keys of your own, as in {"source_app": "slack", "ticket": 4711}.
        """
        from ledger.interactions import commands
        from ledger.interactions.asked import CaptureRequest

        request = CaptureRequest(
            prompt=prompt,
            response=response,
            summary=summary,
            project=project,
            session=session,
            memories_used=memories_used,
            chunks_used=chunks_used,
            context=context.to_dict() if isinstance(context, Answer) else context,
            reinforce=reinforce,
            extract=extract,
            append=append,
            metadata=NO_PAIRS if metadata is None else metadata,
        )
        return commands.capture(self._engine, self._scope.asker(options), request)

    def remember(
        self,
        content: str,
        *,
        kind: str = "knowledge",
        project: str | None = None,
        session: str | None = None,
        confidence: float = 1.0,
        entities: Iterable[str] = (),
        tags: Iterable[str] = (),
        sources: Iterable[str] = (),
        relations: Iterable[Triple] = (),
        valid_from: Time | None = None,
        valid_to: Time | None = None,
        metadata: Metadata | None = None,
        reference_count: int = 0,
        last_referenced_at: Time | None = None,
        **options: Unpack[WriteOptions],
    ) -> answers.Memory:
        """Record an active memory, without review. The same text in the same project and kind is one memory.

        Through the channel "agent" the memory is active with a confidence of at most 0.6 and listed in ``review(admitted=True)``;
        through "web", "tool" or "file" it is a candidate, unless the policy says ``admit="review"``.

        Args:
            content: The statement, at most 256 KiB of UTF-8.
            kind: The kind of statement: "knowledge", "preference", "rule", "goal" or any word of yours, which is named in
                ``warnings``.
            confidence: The confidence of the memory, from 0 to 1.
            entities: Names that the statement is about.
            tags: At most 10 tags.
            sources: Ids of the evidence: interactions, memories, chunks, documents, sessions, observations.
            relations: Statements about two names, as (subject, relation, object).
            valid_from: The time from which the statement is true in the world; None for ``occurred_at``, or now.
            valid_to: The time until which it is true, exclusive; a date alone includes that day.
            metadata: Keys of your own, as in {"ticket": 4711, "vip": True}.
            reference_count: The references that the statement had where it comes from, as in an import: they count as this
                memory's and raise no confidence. A memory that is there already keeps its own.
            last_referenced_at: The time of the last of them; at the latest now.
        """
        from ledger.memories import admission
        from ledger.memories.asked import RememberRequest

        request = RememberRequest(
            content=content,
            kind=kind,
            confidence=confidence,
            project=project,
            session=session,
            entities=entities,
            tags=tags,
            sources=sources,
            relations=relations,
            valid_from=valid_from,
            valid_to=valid_to,
            metadata=NO_PAIRS if metadata is None else metadata,
            reference_count=reference_count,
            last_referenced_at=last_referenced_at,
        )
        return admission.remember(self._engine.writer, self._scope.asker(options), request)

    def add(
        self,
        messages: Messages,
        *,
        session: str | None = None,
        project: str | None = None,
        extract: Extracting | bool = "auto",
        metadata: Metadata | None = None,
        dry_run: bool = False,
        timeout: float | None = None,
        cancel: Cancel | None = None,
        progress: Callable[[int, int], None] | None = None,
        **options: Unpack[WriteOptions],
    ) -> answers.Added:
        """Add messages of a conversation: append them to a session, capture their turns, and learn from them.

        A call with the same messages, or with more of the conversation, adds only the new ones; so also after a crash.

        Args:
            messages: A text (one message), a message, or a list of messages as OpenAI or Anthropic has them: the whole
                conversation so far, its end, or its new part. Instructions (system, developer) are left out.
            session: The conversation's name; None for the ``idempotency_key`` as its name, or without one for a new session.
            extract: "auto" lets the model, or without a model the rules, look for memories, as the policy says; "model" and
                "rules" do so whatever the policy says; "off" or False looks for nothing.
            metadata: Keys of your own for the captured turns, as in {"source_app": "slack", "ticket": 4711}.
            dry_run: Only return what would become of the messages; a model is not asked.
            timeout: Seconds after which no further step begins; the same call continues.
            cancel: An event or a function that says when to stop, as ``timeout`` does.
            progress: A function that is called with (steps done, steps).

        Raises:
            RejectedError: A text is blank, a message has no known form, or the call is inside a batch; nothing was written.
            KeyReusedError: The ``idempotency_key`` was used for other messages.
        """
        from ledger.core.steps import Stopping
        from ledger.extraction import adding

        request = adding.AddRequest(
            messages=messages,
            session=session,
            project=project,
            extract=extract,
            metadata=NO_PAIRS if metadata is None else metadata,
            dry_run=dry_run,
        )
        stopping = Stopping(timeout, cancel)
        return adding.add(self._engine, self._scope.asker(options), request, stopping, callback(progress))

    def propose(
        self,
        content: str,
        *,
        kind: str = "knowledge",
        project: str | None = None,
        session: str | None = None,
        confidence: float = confidence_rules.CANDIDATE_CONFIDENCE / confidence_rules.ONE,
        entities: Iterable[str] = (),
        tags: Iterable[str] = (),
        sources: Iterable[str] = (),
        relations: Iterable[Triple] = (),
        valid_from: Time | None = None,
        valid_to: Time | None = None,
        metadata: Metadata | None = None,
        reference_count: int = 0,
        last_referenced_at: Time | None = None,
        **options: Unpack[WriteOptions],
    ) -> answers.Memory:
        """Record a candidate, which waits for review. The arguments are those of ``remember``.

        Args:
            content: The statement, at most 256 KiB of UTF-8.
            kind: The kind of statement.
            confidence: The confidence of the later memory, from 0 to 1.
            entities: Names that the statement is about.
            tags: At most 10 tags.
            sources: Ids of the evidence.
            relations: Statements about two names, as (subject, relation, object).
            valid_from: The time from which the statement is true in the world; None for ``occurred_at``, or now.
            valid_to: The time until which it is true, exclusive; a date alone includes that day.
            metadata: Keys of your own, as in {"ticket": 4711, "vip": True}.
            reference_count: The references that the statement had where it comes from, as in an import: they count as this
                memory's and raise no confidence. A memory that is there already keeps its own.
            last_referenced_at: The time of the last of them; at the latest now.
        """
        from ledger.memories import admission
        from ledger.memories.asked import RememberRequest

        request = RememberRequest(
            content=content,
            kind=kind,
            confidence=confidence,
            project=project,
            session=session,
            entities=entities,
            tags=tags,
            sources=sources,
            relations=relations,
            valid_from=valid_from,
            valid_to=valid_to,
            metadata=NO_PAIRS if metadata is None else metadata,
            reference_count=reference_count,
            last_referenced_at=last_referenced_at,
        )
        return admission.propose(self._engine.writer, self._scope.asker(options), request)

    # --- review --------------------------------------------------------------------------------------------------

    def promote(
        self, id: str, *, content: str | None = None, reason: str = "", **options: Unpack[WriteOptions]
    ) -> answers.Memory:
        """Make a candidate active; of an active memory nothing is recorded (``absorbed``), unless a turn denies it.

        The memory that the candidate would replace is superseded: an active one held until then, and a candidate at no time,
        because nobody said that it was true.

        Args:
            content: Another wording, given in the same append.

        Raises:
            RejectedError: Another memory took that place before; ``subject`` is its id, and the rule "superseded".
        """
        from ledger.memories import commands

        return commands.promote(
            self._engine.writer,
            self._scope.asker(options),
            id,
            reason,
            content=content,
        )

    def reject(self, id: str, *, reason: str = "", **options: Unpack[WriteOptions]) -> answers.Memory:
        """Turn a candidate down; extraction does not propose the same text again."""
        from ledger.memories import commands

        return commands.reject(
            self._engine.writer,
            self._scope.asker(options),
            id,
            reason,
        )

    # --- changes -------------------------------------------------------------------------------------------------

    def revise(
        self, id: str, content: str, *, reason: str = "", **options: Unpack[WriteOptions]
    ) -> answers.Memory | Observation:
        """Give a memory or an observation another wording; ``supersede`` is for another fact.

        The subject keeps its id, kind, tags and metadata; ``memories.tag`` and ``memories.set_metadata`` change those. A caller
        that could not have remembered the memory with its status and confidence is refused (rule ``admission``).

        Args:
            content: The new text.
        """
        from ledger.observations import commands as observation_commands

        return observation_commands.revise(self._engine, self._scope.asker(options), id, content, reason)

    def supersede(
        self,
        id: str,
        content: str,
        *,
        kind: str | None = None,
        confidence: float = 1.0,
        entities: Iterable[str] | None = None,
        tags: Iterable[str] | None = None,
        sources: Iterable[str] = (),
        relations: Iterable[Triple] = (),
        valid_from: Time | None = None,
        valid_to: Time | None = None,
        metadata: Metadata | None = None,
        propose: bool = False,
        reason: str = "",
        **options: Unpack[WriteOptions],
    ) -> answers.Memory:
        """Replace a memory by another fact, and return the new memory. The old memory stays readable.

        From the channel "agent" the new memory has a confidence of at most 0.6. From "web", "tool" and "file" the new memory
        waits for review, and the old memory stays active until ``promote``. A candidate can be replaced too: it was true until
        then, without having been active here, and replaced what it names. The channels "web", "tool" and "file" cannot say so.

        Args:
            content: The new statement.
            kind: The kind of the new memory; None for the old memory's.
            confidence: The confidence of the new memory, from 0 to 1.
            entities: Names that the statement is about; None for the old memory's.
            tags: The tags of the new memory; None for the old memory's.
            sources: Ids of the evidence.
            relations: Statements about two names, as (subject, relation, object).
            valid_from: The time from which the new memory is true, and the old is not; None for ``occurred_at``, or now.
            valid_to: The time until which it is true, exclusive; a date alone includes that day.
            metadata: Keys of the new memory; the old memory's stay with the old one.
            propose: True if the new memory is to wait for review. A candidate is replaced at once, an active memory by
                ``promote`` of the new one.
        """
        from ledger.memories import commands
        from ledger.memories.asked import SupersedeRequest

        request = SupersedeRequest(
            content=content,
            reason=reason,
            kind=kind,
            confidence=confidence,
            entities=entities,
            tags=tags,
            sources=sources,
            relations=relations,
            valid_from=valid_from,
            valid_to=valid_to,
            metadata=NO_PAIRS if metadata is None else metadata,
            propose=propose,
        )
        return commands.supersede(self._engine.writer, self._scope.asker(options), id, request)

    def invalidate(self, id: str, *, reason: str = "", **options: Unpack[WriteOptions]) -> answers.Memory:
        """Say that an active memory was wrong; ``restore`` brings it back."""
        from ledger.memories import commands

        return commands.invalidate(
            self._engine.writer,
            self._scope.asker(options),
            id,
            reason,
        )

    def retract(self, id: str, *, reason: str = "", **options: Unpack[WriteOptions]) -> answers.Memory | Observation:
        """Take a memory or an observation out of use; ``restore`` brings it back."""
        from ledger.observations import commands as observation_commands

        return observation_commands.retract(self._engine, self._scope.asker(options), id, reason)

    def restore(self, id: str, *, reason: str = "", **options: Unpack[WriteOptions]) -> Any:
        """Bring back a superseded, invalidated, retracted or rejected subject; for a withdrawn source, its evidence."""
        from ledger.observations import commands as observation_commands

        answer = observation_commands.restore(self._engine, self._scope.asker(options), id, reason)
        if answer is None and (place := message_place(id)) is not None:
            return self.session(place[0]).message(place[1])
        return answer

    def reinforce(
        self,
        id: str,
        *,
        amount: float | None = None,
        source: str | None = None,
        **options: Unpack[WriteOptions],
    ) -> answers.Memory:
        """Give an active memory one more reason to be believed.

        Args:
            amount: The rise of its confidence, from 0 to 1; None for the policy's (0.02).
            source: The id of what supports it; the same id counts once.
        """
        from ledger.memories import commands

        if isinstance(id, str) and id.startswith("i_"):
            raise RejectedError(
                "reinforce() takes a memory, and this is an interaction: interactions.reinforce(id) counts its response"
            )
        return commands.reinforce(self._engine.writer, self._scope.asker(options), id, amount, source=source)

    def reopen(self, receipt: str) -> Pack:
        """Return the pack that ``recall(…, receipt=True)`` gave, as it was delivered; ``changed`` lists the changes since.

        Args:
            receipt: ``Pack.receipt``.

        Raises:
            NotFoundError: This user has no such receipt.
        """
        from ledger.recall import reopening

        return found("receipt", receipt, reopening.reopen(self._engine, self._scope.user, receipt))

    # --- undo and erase ------------------------------------------------------------------------------------------

    def undo(
        self,
        target: str | int,
        *,
        cascade: bool = False,
        exclusive: bool = False,
        dry_run: bool = False,
        reason: str = "",
        **options: Unpack[WriteOptions],
    ) -> answers.UndoReport:
        """Void everything that one command recorded, as if it had never been given.

        Args:
            target: The command: its id, or the position or id of one of its events.
            cascade: Also void the later commands that depend on it.

        Raises:
            DependentsError: Later commands depend on it; ``cascade`` voids them too.
            ConflictError: A memory or a value would be back whose place another one took since.
        """
        from ledger.undo import undoing

        asker = self._scope.asker(options)
        return undoing.undo(self._engine, asker, target, reason, cascade=cascade, exclusive=exclusive, dry_run=dry_run)

    def redo(
        self,
        target: str | int,
        *,
        exclusive: bool = False,
        dry_run: bool = False,
        reason: str = "",
        **options: Unpack[WriteOptions],
    ) -> answers.UndoReport:
        """Put back what an undo made void.

        Args:
            target: The undone command, or the undo: its id, or the position or id of one of its events.
        """
        from ledger.undo import undoing

        return undoing.redo(
            self._engine, self._scope.asker(options), target, reason, exclusive=exclusive, dry_run=dry_run
        )

    def erase(
        self,
        subject: Subject,
        *,
        derived: Choice | None = None,
        sources: Choice | None = None,
        quotes: Choice | None = None,
        keep: Iterable[str | int] = (),
        exclusive: bool = False,
        dry_run: bool = False,
        reason: str = "",
        timeout: float | None = None,
        cancel: Cancel | None = None,
        **options: Unpack[WriteOptions],
    ) -> answers.ErasureReport:
        """Remove texts for good, from the log too; the chain still verifies. An erasure cannot be undone.

        Args:
            subject: An id, also of a message; ``Project(name)``, ``SessionName(name)``, ``DocumentPath(path)``,
                ``Event(position)``; or ``EVERYTHING`` of this user.
            derived: The choice for texts derived from the subject: "erase", "cut" (only the words that repeat it) or "keep".
                With None the call is refused if there are such texts, as for the next two arguments.
            sources: The choice for texts that the subject was derived from.
            quotes: The choice for other texts of this user that repeat it.
            keep: Ids and positions that stay, whatever else is chosen.
            exclusive: Allow more than 50,000 events, and keep others from writing during the call.
            timeout: Seconds after which the call stops before it begins, or, for a whole user, between two erasures of up to
                20,000 events; the report is "stopped" with the number of events ``left``, and the same call continues.
            cancel: An event or a function that says when to stop, as ``timeout`` does.

        Raises:
            RejectedError: The subject is on hold, was erased already, or a choice is missing: a dry run lists the choices.
            NotFoundError: This user has no such subject.
            AmbiguousIdError: Several ids begin so.
            ConflictError: The call is inside a batch, or others keep writing about the same subject.
        """
        from ledger.core.steps import Stopping
        from ledger.erasure import erasing
        from ledger.erasure.asked import ErasureChoices

        if isinstance(keep, str | bytes) or not isinstance(keep, Iterable):
            raise RejectedError(f"keep must be a list of ids and positions, as in keep=[…], but {keep!r:.40} was given")
        return erasing.erase(
            self._engine,
            self._scope.asker(options),
            subject,
            reason,
            ErasureChoices(derived=derived, sources=sources, quotes=quotes, keep=tuple(keep)),
            exclusive=exclusive,
            dry_run=dry_run,
            stopping=Stopping(timeout, cancel),
        )

    # --- consolidation -------------------------------------------------------------------------------------------

    def consolidate(
        self,
        over: Literal["memories", "interactions", "messages"] | Sequence[str] = "memories",
        *,
        project: str | None = None,
        tags: Iterable[str] = (),
        method: Literal["model", "grouping"] | None = None,
        limit: int | None = None,
        dry_run: bool = False,
        progress: Callable[[int, int], None] | None = None,
        **options: Unpack[WriteOptions],
    ) -> ConsolidationReport:
        """Make observations of what new sources have in common, and revise stale observations.

        The call appends 200 sources at a time, and nothing if nothing is new. A second call continues after the last source.

        Args:
            over: "memories", "interactions" or "messages" (of sessions; new since the last run), or the ids of sources.
            project: Only sources of this project; None for those of no project.
            tags: Only sources that have each of these tags.
            method: "grouping" (rules) or "model"; None for the model if there is one.
            limit: The most new sources, from 1; None for all.
            dry_run: Only return what would become of them. A model is asked all the same, and not even the call is recorded.
            progress: A function that is called with (sources done, sources).

        Raises:
            ModelError: The model failed, which is recorded; the sources stay new.
            RejectedError: An ``idempotency_key`` was given, or a model is used inside a batch.
        """
        from ledger.observations import consolidating

        return consolidating.consolidate(
            self._engine,
            self._scope.asker(options),
            over,
            project=project,
            tags=plural("tags", tags),
            method=method,
            limit=limit,
            dry_run=dry_run,
            progress=progress,
        )

    # --- model and jobs ------------------------------------------------------------------------------------------

    def extract(
        self,
        interaction: str,
        *,
        method: Method | None = None,
        model: ModelLike | None = None,
        dry_run: bool = False,
        gate: bool = True,
        timeout: float | None = None,
        cancel: Cancel | None = None,
        **options: Unpack[WriteOptions],
    ) -> answers.ExtractionReport:
        """Find candidates for memories in a turn, by the model or by rules.

        Args:
            interaction: The id of the turn.
            method: "model" or "rules"; None for the model if there is one.
            model: Another model than the ledger's, for this call.
            dry_run: Only show what the model proposes or the rules find, in ``dropped``; not even the call is recorded.
            gate: Ask no model about small talk; False asks also about a turn that was passed over as small talk.
            timeout: Seconds to wait for the model.
            cancel: An event or a function that says when to give up.
        """
        from ledger.extraction import commands as extraction_commands

        return extraction_commands.extract(
            self._engine,
            self._scope.asker(options),
            interaction,
            method=method,
            model=model,
            dry_run=dry_run,
            gate=gate,
            timeout=timeout,
            cancel=cancel,
        )

    def session(self, name: str, *, project: str | None = None) -> Session:
        """Return a conversation by its name, an alias or its id. It begins with its first message.

        Args:
            name: The name of the conversation.
            project: The project that it begins in.
        """
        from ledger.sessions.api import Session

        return Session(self._engine, self._scope, name, project)

    @property
    def sessions(self) -> Sessions:
        """List and search conversations."""
        from ledger.sessions.api import Sessions

        return Sessions(self._engine, self._scope)

    @property
    def history(self) -> History[PastLedger]:
        """List events and their actors, undo groups of commands, distrust and trust origins."""
        from ledger.history.api import History

        return History(self._engine, self._scope, self.at)

    @property
    def memories(self) -> Memories:
        """List and read memories, and change their tags, metadata, validity and confidence."""
        from ledger.memories.api import Memories

        return Memories(self._engine, self._scope)

    @property
    def observations(self) -> Observations:
        """List and read observations, add an observation by hand, and withdraw sources."""
        from ledger.observations.api import Observations

        return Observations(self._engine, self._scope)

    @property
    def conflicts(self) -> Conflicts:
        """Find memories that cannot all be true, and decide."""
        from ledger.review.api import Conflicts

        return Conflicts(self._engine, self._scope)

    @property
    def merges(self) -> Merges:
        """Find memories that say nearly the same, and merge them."""
        from ledger.review.api import Merges

        return Merges(self._engine, self._scope)

    @property
    def graph(self) -> Relations:
        """Return the neighbors of a name, and the memories' statements about two names."""
        from ledger.graph.api import Relations

        return Relations(self._engine, self._scope)

    @property
    def interactions(self) -> Interactions:
        """List and read captured turns, add responses, and import files of turns."""
        from ledger.interactions.api import Interactions

        return Interactions(self._engine, self._scope)

    @property
    def values(self) -> Values:
        """Put, read, list, move, remove and restore values under namespaces and keys."""
        from ledger.values.api import Values

        return Values(self._engine, self._scope)

    @property
    def documents(self) -> Documents:
        """Add files and texts, list and read them and their chunks, remove and restore them."""
        from ledger.documents.api import Documents

        return Documents(self._engine, self._scope)

    @property
    def projects(self) -> Projects:
        """List, read and add projects, and set their trusted state."""
        from ledger.projects.api import Projects

        return Projects(self._engine, self._scope)

    @property
    def erasures(self) -> Erasures:
        """List erasures and their certificates, and finish pending ones."""
        from ledger.erasure.api import Erasures

        return Erasures(self._engine, self._scope)

    @property
    def holds(self) -> Holds:
        """Keep subjects from being erased."""
        from ledger.erasure.api import Holds

        return Holds(self._engine, self._scope)

    @property
    def guards(self) -> Guards:
        """Keep texts out of recall, scan the stored texts, and list the commands that rules refused."""
        from ledger.guards.api import Guards

        return Guards(self._engine, self._scope)

    @property
    def policy(self) -> UserPolicy:
        """Read and change the parameters of the user's memory."""
        from ledger.policy.api import UserPolicy

        return UserPolicy(self._engine, self._scope)

    @property
    def learning(self) -> Learning:
        """Read the turns that no model has read, and hand in what an agent or another program found in them."""
        from ledger.extraction.api import Learning

        return Learning(self._engine, self._scope)

    @property
    def jobs(self) -> Jobs:
        """Run the background work of all users."""
        from ledger.jobs.api import Jobs

        return Jobs(self._engine, self._scope)

    @property
    def vectors(self) -> Vectors:
        """List, make and delete vectors."""
        from ledger.vectors.api import Vectors

        return Vectors(self._engine, self._scope)

    @property
    def proof(self) -> Proofs:
        """Verify the file, seal checkpoints, and prove single events."""
        from ledger.proof.api import Proofs

        return Proofs(self._engine, self._scope)

    @property
    def maintenance(self) -> Maintenance:
        """Maintain the file: numbers, rebuild, backup, export."""
        from ledger.care.api import Maintenance

        return Maintenance(self._engine, self._scope)


@shown_as(Ledger)
class BoundLedger(Ledger):
    """The same file for another user or actor. Closing it is left to the code that opened the file."""

    def close(self) -> None:
        """Do nothing: the code that opened the ledger closes it."""


class PastLedger(LedgerRead):
    """A ledger as it was known at a moment, with reads only. It holds nothing between two calls and needs no closing."""

    if TYPE_CHECKING:
        _engine: PastEngine

    @property
    def as_of(self) -> str:
        """Return the "now" of this moment in UTC: the time asked for, or for a position the latest time recorded by then."""
        return self._engine.as_of

    @property
    def valid_at(self) -> str | None:
        """Return the time in the world that is asked about, if any."""
        return self._engine.valid

    def __repr__(self) -> str:
        return f"<PastLedger {os.path.basename(self.path)!r} user={self._scope.user!r} position={self.position}>"
