"""The ``ledger.memories`` namespace, which lists and reads memories and changes their tags, metadata, validity and confidence."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Unpack, get_args

from ledger.core.area import LIMIT, Area, found, page
from ledger.core.reads import place_in_time
from ledger.domain import confidence as confidence_rules
from ledger.domain import metadata as pairs_of
from ledger.domain.text import one_of, plural
from ledger.memories import answers, commands, queries
from ledger.types import MemoryStatus, Metadata, Order, Page, Since, Time, WriteOptions
from projections.views.memories import MemoryFilter

if TYPE_CHECKING:
    from ledger.core.engine import Engine


class MemoriesRead(Area):
    """The memories of a user, now or as they were known at a moment."""

    def list(
        self,
        *,
        kinds: Iterable[str] = (),
        statuses: Iterable[MemoryStatus] = ("active",),
        project: str | None = None,
        tags: Iterable[str] = (),
        metadata: Metadata | None = None,
        min_confidence: float = 0.0,
        since: Since | None = None,
        until: Since | None = None,
        order: Order = "recorded",
        limit: int = LIMIT,
        after: str | None = None,
        oldest_first: bool = False,
    ) -> Page[answers.Memory]:
        """List memories, newest first.

        Args:
            kinds: Only memories of these kinds; empty for every kind.
            statuses: Only memories of these statuses; empty for every status.
            project: Only memories of this project; "" for memories without a project.
            tags: Only memories that have all of these tags.
            metadata: Only memories that have all of these keys with exactly these values; None is a value too.
            min_confidence: Only memories with at least this confidence, without decay, from 0 to 1.
            since: Only memories that hold since then or later (``valid_from``); a time, a date, or a duration back from now.
            until: Only memories that hold since before then.
            order: "recorded", or "occurred" for the order in which they began to hold, as after an import of old ones.

        Raises:
            RejectedError: A limit, cursor, status, order, time or confidence is not valid.
        """
        one_of("order", order, get_args(Order))
        by_time = order == "occurred"
        accepted_statuses = plural("statuses", statuses, get_args(MemoryStatus))
        kinds, tags = plural("kinds", kinds), plural("tags", tags)
        pairs = pairs_of.checked(metadata)
        least = confidence_rules.millionths("min_confidence", min_confidence)
        filters: dict[str, object] = {"kinds": kinds, "statuses": accepted_statuses, "project": project, "tags": tags}
        filters |= {"metadata": pairs, "least": min_confidence}
        bounds = self._bounds(since, until)
        filter_of_rows = MemoryFilter(
            user=self._scope.user,
            statuses=accepted_statuses,
            kinds=kinds,
            tags=tags,
            metadata=pairs,
            min_confidence=least,
            since=bounds.get("since"),
            until=bounds.get("until"),
        )

        def fetch(count: int, start: str | None) -> list[answers.Memory]:
            with self._engine.snapshot() as snapshot:
                return queries.listing(
                    snapshot,
                    filter_of_rows,
                    project=project,
                    limit=count,
                    after=start,
                    oldest_first=oldest_first,
                    by_time=by_time,
                )

        def place(memory: answers.Memory) -> str:
            return place_in_time(memory.valid_from, memory.id) if by_time else memory.id

        filters |= {"user": self._scope.user, "since": since, "until": until, "order": order}
        return page("memories", filters, limit, after, fetch, place, oldest_first=oldest_first)

    def get(self, id: str) -> answers.Memory:
        """Return a memory of any status; ``effective_confidence(day)`` of the answer subtracts the decay of its confidence.

        Raises:
            NotFoundError: This user has no such memory.
            AmbiguousIdError: Several ids begin so.
        """
        with self._engine.snapshot() as snapshot:
            return found("memory", id, queries.get(snapshot, self._scope.user, id))

    def confidence(self, id: str) -> tuple[answers.ConfidencePoint, ...]:
        """Return every step of a memory's confidence, oldest first, each with its cause.

        Raises:
            NotFoundError: This user has no such memory.
            RejectedError: The id is that of an observation, whose confidence follows from its live sources.
        """
        steps = queries.confidence_history(self._engine, self._scope.user, id)
        if not steps:
            self.get(id)
        return tuple(steps)


class Memories(MemoriesRead):
    """The memories of a user."""

    _engine: Engine

    def tag(
        self, id: str, *, add: Iterable[str] = (), remove: Iterable[str] = (), **options: Unpack[WriteOptions]
    ) -> answers.Memory:
        """Add tags to a memory, or remove tags.

        Args:
            add: Tags to add; a memory has at most 10 tags.
            remove: Tags to remove.
        """
        add, remove = plural("add", add), plural("remove", remove)
        return commands.retag(self._engine.writer, self._scope.asker(options), id, add, remove)

    def correct(
        self,
        id: str,
        *,
        kind: str | None = None,
        project: str | None = None,
        entities: Iterable[str] | None = None,
        reason: str = "",
        **options: Unpack[WriteOptions],
    ) -> answers.Memory:
        """Correct the kind, the project or the entities of a memory, which keeps its id; ``revise`` corrects the wording.

        Args:
            kind: The right kind; None keeps the present kind.
            project: The right project by name, alias or id; a new name is added as a project; "" for no project; None keeps
                the present project. From then on the memory is listed, recalled, held and erased with the new project.
            entities: All names that the statement is about, in place of the present names; None keeps the present names.

        Raises:
            RejectedError: The memory is hidden, or another memory of that kind and project says the same.
        """
        return commands.correct(
            self._engine.writer,
            self._scope.asker(options),
            id,
            kind=kind,
            project=project,
            entities=entities,
            reason=reason,
        )

    def set_metadata(
        self,
        id: str,
        metadata: Metadata | None = None,
        *,
        unset: Iterable[str] = (),
        **options: Unpack[WriteOptions],
    ) -> answers.Memory:
        """Set keys of a memory's metadata, or remove keys; other keys keep their values.

        Args:
            metadata: Keys with their new values, as in {"ticket": 4711}.
            unset: Keys to remove.
        """
        pairs = {} if metadata is None else metadata
        return commands.set_metadata(self._engine.writer, self._scope.asker(options), id, pairs, unset)

    def set_validity(
        self,
        id: str,
        *,
        valid_from: Time | None = None,
        valid_to: Time | None = None,
        reason: str = "",
        **options: Unpack[WriteOptions],
    ) -> answers.Memory:
        """Set the time in which a memory is true in the world.

        Args:
            valid_from: The inclusive beginning; None keeps the present beginning.
            valid_to: The exclusive end; a date alone includes that day. None removes the end, so that the memory holds on.
        """
        return commands.set_validity(self._engine.writer, self._scope.asker(options), id, valid_from, valid_to, reason)

    def end(self, id: str, *, reason: str = "", **options: Unpack[WriteOptions]) -> answers.Memory:
        """End a memory that is true no longer, and has no successor: its status is superseded, and it holds until now.

        With ``occurred_at`` it holds until then. A candidate ends without having been active, and replaced what it names,
        though not through the channels "web", "tool" and "file". ``supersede`` gives a memory a successor, ``invalidate`` says
        that it never held, and ``restore`` brings it back. The same text stated later is a new memory.

        Raises:
            RejectedError: The memory is neither active nor a candidate, or another took the place that the candidate names.
        """
        return commands.end(self._engine.writer, self._scope.asker(options), id, reason)

    def set_confidence(
        self, id: str, confidence: float, *, reason: str = "", **options: Unpack[WriteOptions]
    ) -> answers.Memory:
        """Set the confidence of a memory by hand.

        Args:
            confidence: From 0 to 1, in steps of one millionth.
        """
        return commands.adjust(self._engine.writer, self._scope.asker(options), id, confidence, reason)
