"""The namespace ``ledger.history``: the audit trail, the past, undo and distrust."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Unpack, cast, get_args

from ledger.core.area import LIMIT, Area, checked_limit, found, page
from ledger.core.steps import Stopping
from ledger.domain import times
from ledger.domain.errors import RejectedError
from ledger.domain.text import one_of, texts
from ledger.events import TYPES
from ledger.history import answers, audit, bisecting, blaming, diff, explaining, log, supposing
from ledger.models import models
from ledger.models.models import ModelCall
from ledger.types import Cancel, Channel, GroupOptions, Moment, OriginKind, Page, Purpose, Since, WriteOptions
from ledger.undo import distrusting, undoing
from ledger.undo.answers import Distrusted, DistrustReport, UndoReport
from ledger.undo.targets import CommandGroup
from projections.core.rows import Start

if TYPE_CHECKING:
    from ledger.core.call import Who
    from ledger.core.engine import Engine

PastLedger = TypeVar("PastLedger")  # the class of that name in ledger/api.py, which imports this module


class HistoryRead(Area):
    """The history of a user's memory, up to now or up to a moment."""

    def audit(
        self,
        *,
        subject: str | None = None,
        actor: str | None = None,
        client: str | None = None,
        channel: Channel | None = None,
        agent: str | None = None,
        project: str | None = None,
        session: str | None = None,
        type: str | None = None,
        command: str | None = None,
        command_id: str | None = None,
        causation_id: str | None = None,
        correlation_id: str | None = None,
        text: str | None = None,
        since: int | Since | None = None,
        until: int | Since | None = None,
        limit: int = LIMIT,
        after: str | None = None,
        oldest_first: bool = False,
    ) -> Page[answers.AuditEntry]:
        """List events with their actor, client and command, newest first, by the time of recording.

        Args:
            subject: Only events of this id.
            actor: Only events that this actor recorded.
            client: Only events that came through this program.
            channel: Only events that came as this kind of input.
            agent: Only events recorded for this agent.
            type: Only events of this type, like "MemoryPromoted".
            command: Only events that this command recorded, like "promote".
            command_id: Only the events of one call.
            causation_id: Only the events that the event with this id caused.
            correlation_id: Only events of this run, request or import.
            text: Only events whose texts have all of these words; each event that passes the other filters is read for this.
            since: Only events recorded at this time or later, as in other listings, or from this position on.
            until: Only events recorded before this time, as in other listings, or before this position.

        Raises:
            RejectedError: There is no such type of events or no such channel.
        """
        columns = {"type": type, "actor": actor, "client": client, "channel": channel, "agent": agent}
        columns |= {"command": command, "command_id": command_id}
        columns |= {"causation_id": causation_id, "correlation_id": correlation_id}
        names = {"subject": subject, "project": project, "session": session, "text": text}
        texts(**names, **columns)
        if type is not None:
            one_of("type", type, sorted(TYPES))
        if channel is not None:
            one_of("channel", channel, get_args(Channel))
        audit_filter = audit.AuditFilter(
            user=self._scope.user,
            since=self._moment("since", since),
            until=self._moment("until", until),
            columns=columns,
            **names,
        )

        def fetch(count: int, place: int | None) -> Sequence[answers.AuditEntry]:
            return audit.audit_page(self._engine, audit_filter, start=Start(place, oldest_first), limit=count)

        filters = {**names, **columns, "since": since, "until": until, "user": self._scope.user}
        return page("audit", filters, limit, after, fetch, _position, oldest_first=oldest_first)

    def events(self, subject: str, *, limit: int = LIMIT, after: str | None = None) -> Page[answers.Step]:
        """List every event of a subject with its effect, oldest first, undone events included.

        Args:
            subject: The id of a memory, observation, interaction, document, project, session or summary.

        Raises:
            NotFoundError: This user has no such subject.
        """

        def fetch(count: int, start: int | None) -> Sequence[answers.Step]:
            steps = audit.history(self._engine, self._scope.user, subject, after=start or 0, limit=count)
            return found("subject", subject, steps)

        return page("events", {"user": self._scope.user, "subject": subject}, limit, after, fetch, _position)

    def explain(self, position: int) -> answers.Explanation:
        """Explain the command that recorded an event in sentences: its events, its reason and its consequences.

        Args:
            position: The position of any event of the command.

        Raises:
            NotFoundError: No event of this user is at the position.
        """
        return explaining.explain(self._engine, self._scope.user, _place(position))

    def blame(self, id: str) -> answers.Blame:
        """Return the events from which the words of a belief come, and the events that moved its confidence.

        Args:
            id: The id of a memory or an observation.

        Raises:
            NotFoundError: This user has no such memory or observation.
        """
        return found("memory or observation", id, blaming.blame(self._engine, self._scope.user, id))

    def distrusted(
        self, *, limit: int = LIMIT, after: str | None = None, oldest_first: bool = False
    ) -> Page[Distrusted]:
        """List the origins that are distrusted, newest first."""

        def fetch(count: int, place: int | None) -> Sequence[Distrusted]:
            start = Start(place, oldest_first)
            return distrusting.distrusted(self._engine, self._scope.user, start=start, limit=count)

        filters = {"user": self._scope.user}
        return page("distrusted", filters, limit, after, fetch, _position, oldest_first=oldest_first)

    def model_calls(
        self,
        *,
        purpose: Purpose | None = None,
        limit: int = LIMIT,
        after: str | None = None,
        oldest_first: bool = False,
    ) -> Page[ModelCall]:
        """List the calls of language models, newest first, failed and undone calls included.

        Args:
            purpose: "extraction", "consolidation" or "summary"; None for all.
        """
        if purpose is not None:
            one_of("purpose", purpose, get_args(Purpose))

        def fetch(count: int, place: int | None) -> Sequence[ModelCall]:
            start = Start(place, oldest_first)
            return models.model_calls(self._engine, self._scope.user, purpose=purpose, limit=count, start=start)

        filters = {"user": self._scope.user, "purpose": purpose}
        return page("model_calls", filters, limit, after, fetch, _position, oldest_first=oldest_first)

    def _moment(self, name: str, moment: int | Since | None) -> Any:
        """Return the stored form of a time or duration; a position is returned unchanged."""
        if moment is None or isinstance(moment, int):
            return moment
        return times.since(name, moment, self._engine.now())


class History(HistoryRead, Generic[PastLedger]):
    """The history of a user's memory, with the commands that undo parts of it and put them back."""

    _engine: Engine

    __slots__ = ("_at",)

    def __init__(self, engine: Engine, scope: Who, at: Callable[[int], PastLedger]) -> None:
        super().__init__(engine, scope)
        self._at = at

    def bisect(
        self, test: Callable[[PastLedger], object], *, good: Moment | None = None, bad: Moment | None = None
    ) -> answers.Bisection:
        """Find, by halving, the command after which a condition begins or ceases to hold.

        Args:
            test: A function that takes the ledger as of a moment and returns True if the condition holds at that moment. The
                moments lie between two commands. An exception of the function passes through.
            good: A moment before the change: a position, the id of an event, or a time; None for the beginning.
            bad: A moment after the change; None for now.

        Raises:
            RejectedError: The condition is the same at both moments, or a moment is not in this ledger.
        """
        if not callable(test):
            raise RejectedError(
                f"test is a function that takes the ledger as of a moment, and {test!r:.40} is not a function"
            )
        return bisecting.bisect(
            self._engine, self._scope.user, lambda position: bool(test(self._at(position))), good, bad
        )

    def diff(self, start: Moment, end: Moment | None = None, *, project: str | None = None) -> answers.Diff:
        """Return the memories that came, went and changed between two moments.

        Args:
            start: A position, the id of an event, or a time.
            end: A position, the id of an event, or a time; None for now.

        Raises:
            RejectedError: The end comes before the start, or a moment is not in this ledger.
        """
        return diff.diff(self._engine, self._scope.user, start, end, project=project)

    def what_if(
        self,
        *,
        without: str | int | Mapping[str, str] | None = None,
        since: int | Since | None = None,
        until: int | Since | None = None,
        policy: Mapping[str, Any] | None = None,
    ) -> answers.WhatIf:
        """Return the beliefs without a command or an origin, or under another policy; write nothing.

        Args:
            without: A command, event, position or correlation id as in ``undo``; the id of an interaction, document or
                session; or an origin by its kind, like {"actor": "crawler"}.
            since: Only events that the origin wrote from this position or time on.
            until: Only events that the origin wrote before this position or time.
            policy: Other values of gain, echo_gain or max_matches.
        """
        span = {"since": self._moment("since", since), "until": self._moment("until", until)}
        return supposing.what_if(self._engine, self._scope.user, without=without, **span, policy=policy)

    def log(
        self,
        *,
        after: int | str | None = None,
        until: int | Since | None = None,
        types: Iterable[str] = (),
        subject: str | None = None,
        limit: int = LIMIT,
    ) -> Page[answers.LogEntry]:
        """List every event of the file, of all users, oldest first, as it was recorded.

        Args:
            after: The position after which the listing begins; ``page.next`` is the last position of a page.
            until: Only events recorded before this time, as in other listings, or before this position.
            types: Only events of these types, like "MemoryPromoted"; empty for all types.
            subject: Only events of this id; "ledger" for events without a subject.

        Raises:
            NotFoundError: No subject has this id.
            RejectedError: There is no such type of events.
        """
        count, start = checked_limit(limit), _place(after)
        selection = log.checked_filter(self._engine, types, subject, self._moment("until", until))
        entries = log.entries(self._engine, selection, start, count + 1) if count else []
        cursor = str(entries[count - 1].position) if len(entries) > count else None
        more = {"until": until, "types": selection.types, "subject": subject, "limit": log.PART}
        return Page(entries[:count], cursor, lambda place: self.log(after=place, **more))  # type: ignore[arg-type]

    def follow(
        self,
        after: int | str | None = None,
        *,
        types: Iterable[str] = (),
        subject: str | None = None,
        timeout: float | None = None,
        cancel: Cancel | None = None,
    ) -> Iterator[answers.LogEntry]:
        """Iterate over the events of the file as ``log`` does, and then over each event that any process commits.

        The iteration ends when the ledger is closed.

        Args:
            after: The position after which the iteration begins; None for the last position, so that only new events come.
            types: Only events of these types, like "MemoryPromoted"; empty for all types.
            subject: Only events of this id; "ledger" for events without a subject.
            timeout: The most seconds that the iteration takes; None for no end.
            cancel: An event or a function that ends the iteration once the event is set or the function returns True.

        Raises:
            NotFoundError: No subject has this id.
            RejectedError: There is no such type of events, or the call is inside a batch.
        """
        log.check_no_batch(self._engine)
        selection = log.checked_filter(self._engine, types, subject, None)
        start = self._engine.position if after is None else _place(after)
        return log.follow(self._engine, selection, start, Stopping(timeout, cancel))

    def wait(self, position: int, *, timeout: float | None = None, cancel: Cancel | None = None) -> bool:
        """Wait until the log has a position, whichever process writes it; return False if the wait ended before.

        Args:
            position: The position of an event to come.
            timeout: The most seconds to wait; None for no end.
            cancel: An event or a function that ends the wait once the event is set or the function returns True.

        Raises:
            RejectedError: The call is inside a batch.
        """
        log.check_no_batch(self._engine)
        return log.wait(self._engine, _place(position), Stopping(timeout, cancel))

    def behind(self) -> int | None:
        """Return the number of events of the shared log that this file lacks, as the log was last seen.

        It is 0 for a ledger that shares no log, and None while the log was never reached.
        """
        sharing = self._engine.sharing
        return sharing.behind if sharing is not None else 0

    def undo_all(
        self,
        *,
        session: str | None = None,
        command: str | None = None,
        correlation_id: str | None = None,
        by: str | None = None,
        since: Since | None = None,
        until: Since | None = None,
        cascade: bool = False,
        exclusive: bool = False,
        dry_run: bool = False,
        reason: str = "",
        **options: Unpack[GroupOptions],
    ) -> UndoReport:
        """Undo every command that passes all of the filters; at least one filter is needed.

        Args:
            command: The name of the command, like "extract".
            by: The actor of the commands; None for the commands of every actor.
            correlation_id: The run, request or import to which the commands belong.
            cascade: True to undo also the later commands that were built on these commands.
            exclusive: True to allow more than 50,000 events, which keep other writers waiting until they are done.

        Raises:
            DependentsError: Later commands were built on these commands; ``cascade`` undoes them too.
        """
        now = self._engine.now()
        columns = {
            "correlation_id": correlation_id,
            "actor": by,
            "since": times.since("since", since, now) if since is not None else None,
            "until": times.since("until", until, now) if until is not None else None,
        }
        group = CommandGroup(
            session=session,
            command=command,
            columns={name: value for name, value in columns.items() if value is not None},
        )
        if session is None and command is None and not group.columns:
            raise RejectedError(
                "history.undo_all() needs at least one filter: session=, command=, correlation_id=, by=, since= or until="
            )
        texts(session=session, command=command, correlation_id=correlation_id, by=by)
        return undoing.undo(
            self._engine,
            self._scope.asker(cast("WriteOptions", options)),
            group,
            reason,
            cascade=cascade,
            exclusive=exclusive,
            dry_run=dry_run,
        )

    def distrust(
        self,
        origin: str,
        *,
        kind: OriginKind | None = None,
        since: int | Since | None = None,
        until: int | Since | None = None,
        exclusive: bool = False,
        dry_run: bool = False,
        reason: str = "",
        **options: Unpack[WriteOptions],
    ) -> DistrustReport:
        """Void everything that an origin wrote or caused, and refuse its future writes; the events of others stay.

        Args:
            origin: The id of an interaction, a document or a session; with ``kind``, a name.
            kind: "actor", "client", "agent" or "session", if ``origin`` is a name.
            since: Only events that the origin wrote from this position or time on.
            until: Only events that the origin wrote before this position or time; its future writes are then accepted. None for
                all events; its future writes are then refused.
            exclusive: True to allow more than 50,000 events, which keep other writers waiting until they are done.
        """
        span = {"since": self._moment("since", since), "until": self._moment("until", until)}
        more: dict[str, Any] = {"reason": reason, "exclusive": exclusive, "dry_run": dry_run}
        return distrusting.distrust(self._engine, self._scope.asker(options), origin, kind=kind, **span, **more)

    def trust(
        self,
        origin: str,
        *,
        kind: OriginKind | None = None,
        cascade: bool = False,
        exclusive: bool = False,
        dry_run: bool = False,
        reason: str = "",
        **options: Unpack[WriteOptions],
    ) -> DistrustReport:
        """Put back the events that a distrust made void, and accept the origin's writes again.

        Args:
            origin: The origin as in ``distrust``, or the id of the command that distrusted it.
            kind: "actor", "client", "agent" or "session", if ``origin`` is a name.
            cascade: True to undo also the later commands that were built on an undo by the origin, which now counts again.
            exclusive: True to allow more than 50,000 events, which keep other writers waiting until they are done.

        Raises:
            NotFoundError: This origin is not distrusted.
        """
        more: dict[str, Any] = {"reason": reason, "cascade": cascade, "exclusive": exclusive, "dry_run": dry_run}
        return distrusting.trust(self._engine, self._scope.asker(options), origin, kind=kind, **more)


def _place(position: object) -> int:
    """Return a checked position as a number; the cursor of a page is a position as a string."""
    if isinstance(position, str) and position.isascii() and position.isdigit() and len(position) < 20:
        position = int(position)
    if position is None:
        return 0
    if isinstance(position, bool) or not isinstance(position, int) or not 0 <= position < 2**63:
        raise RejectedError(f"a position is a whole number of at least 0, and {position!r:.40} is not")
    return position


def _position(answer: Any) -> int:
    return int(answer.position)
