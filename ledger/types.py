"""What signatures name: closed sets, the options of every write, pages, and what an erasure is about."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypedDict, TypeVar, overload

from ledger.domain.errors import RejectedError
from ledger.domain.late import names_of

if TYPE_CHECKING:
    from ledger.guards.guarding import Scanner as Scanner
    from ledger.models.port import Model as Model
    from ledger.models.port import ModelAnswer as ModelAnswer
    from ledger.models.port import ModelLike as ModelLike
    from ledger.models.port import ModelRequest as ModelRequest
    from ledger.models.port import Summarizer as Summarizer
    from ledger.models.port import SummarizerLike as SummarizerLike
    from ledger.models.port import SummaryRequest as SummaryRequest
    from ledger.vectors.embedders import Embedder as Embedder
    from ledger.vectors.embedders import EmbedderLike as EmbedderLike
    from projections.core.own import Change as Change
    from projections.core.own import Rows as Rows

T = TypeVar("T")

Time = str | datetime | date
"""A time with its offset, ISO 8601, or a date (its midnight in UTC)."""
Since = str | datetime | date
"""A time, or a duration back from now, at least 1 of its unit: "30m", "12h", "7d", "2w"."""
Moment = int | str | datetime | date
"""A position, the id of an event, or a time."""
Triple = tuple[str, str, str]
"""A relation: (subject, relation, object)."""
Metadata = Mapping[str, str | int | float | bool | None]
"""Keys of your own, each with a text, a number, True, False or None."""

Cancel = threading.Event | Callable[[], bool]
"""What calls off a long call: an event that somebody sets, or a function that says True."""

Channel = Literal["user", "tool", "web", "agent", "file"]
MemoryStatus = Literal["candidate", "active", "superseded", "invalid", "retracted", "erased"]
DocumentStatus = Literal["active", "removed", "erased"]
DocumentType = Literal["markdown", "text"]
ObservationStatus = Literal["active", "unsupported", "retracted", "erased"]
Freshness = Literal["fresh", "stale"]
Trend = Literal["new", "strengthening", "stable", "weakening", "dormant"]
ConflictStatus = Literal["open", "resolved", "lapsed"]
MergeStatus = Literal["proposed", "merged", "rejected", "obsolete"]
SummaryStatus = Literal["window", "under", "replaced", "invalid", "erased"]
Corpus = Literal["memories", "chunks", "turns"]
Unit = Literal["tokens", "chars"]
Packing = Literal["greedy", "prefix", "shares"]
Role = Literal["user", "assistant", "system", "developer", "tool"]
Method = Literal["model", "rules"]
Extracting = Literal["auto", "model", "rules", "off"]
Messages = str | Mapping[str, Any] | Iterable[object]
"""A text, one message, or several, as a provider's chat has them."""
Purpose = Literal["extraction", "consolidation", "summary"]
OriginKind = Literal["actor", "client", "agent", "session", "interaction", "document"]
StateCategory = Literal["status", "decision", "requirement", "contact", "milestone", "fact", "config"]
Job = Literal["reinforcement", "extraction", "expiry", "conflicts", "merges", "consolidation"]
Choice = Literal["erase", "cut", "keep"]


class Everything(Enum):
    """All that a user has; no text stands for it, so none is taken for it by mistake."""

    EVERYTHING = "everything"


EVERYTHING: Final = Everything.EVERYTHING
"""All that a user has, for ``erase`` and ``holds.add``."""


class Project(NamedTuple):
    """A project as a subject, by name, alias or id: ``erase(Project("atlas"))``."""

    name: str


class SessionName(NamedTuple):
    """A session as a subject, by name, alias or id: ``erase(SessionName("support-1"))``."""

    name: str


class DocumentPath(NamedTuple):
    """A document as a subject, by the path it was added from: ``erase(DocumentPath("notes/porto.md"))``."""

    path: str


class Event(NamedTuple):
    """One event as a subject: its texts, or of them some ``fields``, ``spans`` (field, start, end) in characters, and
    ``phrases`` wherever it says them, in capitals or not."""

    position: int
    fields: Sequence[str] = ()
    spans: Sequence[tuple[str, int, int]] = ()
    phrases: Sequence[str] = ()


Subject = str | Project | SessionName | DocumentPath | Event | Everything
"""What an erasure or a hold is about: an id, one of these, or ``EVERYTHING``."""


class SessionPatterns(NamedTuple):
    """Sessions by name; ``**`` stands for any text, ``*`` for any without a colon. "heartbeat" is always ignored.

    Of an ``ignore``d session nothing is recorded and nothing read; a ``read_only`` one is read, and nothing is recorded.
    """

    ignore: Sequence[str] = ()
    read_only: Sequence[str] = ()


class GroupOptions(TypedDict, total=False):
    """What ``history.undo_all`` takes besides its own arguments, one of which is a correlation id."""

    idempotency_key: str | None
    """The same key with the same command and arguments gives the first answer, marked ``replayed``, and records nothing."""
    occurred_at: Time | None
    """When it happened in the world, if not now."""
    causation_id: str | None
    """The event that it reacts to."""
    channel: Channel
    """What kind of input it is: "user", "tool", "web", "agent" or "file"."""
    client: str
    """Through which program it came."""
    agent: str
    """For which agent it is."""
    expected: int | None
    """A position: refused with ``ConflictError`` if what the command changes was changed after it, by an act like undo too.

    An undo, a redo, a distrust, a trust and an erasure change whatever the events that they name belong to."""


class WriteOptions(GroupOptions, total=False):
    """What every write takes besides its own arguments."""

    correlation_id: str | None
    """The run, request or import that it belongs to."""


class PolicyChanges(WriteOptions, total=False):
    """Parameters of a user's policy, and what every write takes besides."""

    matcher: Literal["stems/5", "substring/1"]
    """Which rules find the memories that a response restates."""
    gain: float
    """How much a restated memory's confidence rises, from 0 to 1, in steps of one millionth."""
    echo_gain: float
    """The same where the model had just been shown the memory."""
    max_matches: int
    """The most memories that one interaction reinforces, from 0 to 1,000."""
    extract: bool
    """Whether candidates are found in what is captured."""
    decay: Literal["off", "episodic", "all"]
    """The kinds of memories that lose effective confidence with idle days; "off" (the default) is none."""
    expire: bool
    """Supersede memories that have decayed below a confidence of 0.30; False by default, and True needs a decay."""
    candidate_days: int
    """After how many idle days a candidate is rejected, up to 100,000; 0 for never."""
    user_chars: int
    """The most characters of active memories of the kind user_profile; 0 for no bound."""
    memory_chars: int
    """The same for all other kinds."""
    threats: Literal["refuse", "quarantine", "off"]
    """What happens to a memory in which a scanner finds an order to the model or the like."""
    secrets: Literal["redact", "refuse", "off"]
    """What happens to a password or key in any text."""
    admit: Literal["by_source", "review"]
    """Who decides on what nobody reviewed: "by_source" the table of admission (what the user says of himself is active at once),
    "review" a person (everything found is a candidate)."""
    claim_confidence: float
    """The most confidence of what only an assistant stated, from 0 to 1."""
    merge: bool
    """Whether near duplicates are proposed for merging."""
    conflicts: bool
    """Whether conflicts are looked for."""
    consolidate: bool | Literal["turns"]
    """Whether observations are made of new memories; "turns" for new turns and messages too."""


class Page(Sequence[T]):
    """Some of a listing, in order. ``next`` continues it (``after=page.next``), and is None at its end."""

    __slots__ = ("_follow", "_items", "_next")

    def __init__(
        self, items: Sequence[T] = (), next: str | None = None, follow: Callable[[str], Page[T]] | None = None
    ) -> None:
        self._items, self._next, self._follow = tuple(items), next, follow

    @property
    def next(self) -> str | None:
        """The cursor of the page after this one, None at the end."""
        return self._next

    def all(self) -> Iterator[T]:
        """Iterate over this and every further page, each read when it is reached."""
        page: Page[T] = self
        while True:
            yield from page._items
            if page._next is None:
                return
            if page._follow is None:
                raise RejectedError("this page was pickled or copied: list again to go on from its cursor")
            page = page._follow(page._next)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[T, ...]: ...
    def __getitem__(self, index: int | slice) -> T | tuple[T, ...]:
        return self._items[index]

    def __len__(self) -> int:
        return len(self._items)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Page):
            return (self._items, self._next) == (other._items, other._next)
        return self._items == tuple(other) if isinstance(other, list | tuple) else NotImplemented

    def __hash__(self) -> int:
        return hash((self._items, self._next))

    def __repr__(self) -> str:
        return f"<Page of {len(self._items)}" + (f", next={self._next!r}>" if self._next is not None else ">")

    def __reduce__(self) -> tuple[Any, ...]:  # what follows belongs to an open ledger, and is left behind
        return type(self), (self._items, self._next)


SHARED = {
    "id": "The id of what is meant, or a beginning of it that no other id has (at least `m_` and one more character).",
    "project": "A project by name, alias or id: a write puts what it records there, and registers a new name; a listing shows "
    'only what is of it, and nothing for a name that is unknown; `""` means of no project, None no filter.',
    "session": "A session by name, alias or id: a write records what belongs to it, a listing shows only that.",
    "limit": "The most items of a page, 0 to 1,000; more is refused, not cut.",
    "after": "Where the page begins: `page.next` of the page before, asked for with the same filters; None for the first page.",
    "since": "Only what happened then or later: a time with an offset, a date (midnight in UTC), or a duration back from now "
    '(`"30m"`, `"12h"`, `"7d"`, `"2w"`); None for no bound.',
    "until": "Only what happened before: a time, a date or a duration back from now, as `since`; None for no bound.",
    "reason": "Why, in your words; kept in the log and shown by `why` and the audit trail.",
    "dry_run": "Change nothing, and return what the call would do.",
    "exclusive": "Allow more than 50,000 events, and keep others from writing as long as the call takes.",
    "options": "The options of every write: `idempotency_key`, `occurred_at`, `correlation_id`, `causation_id`, `channel`, "
    "`client`, `agent`, `expected` (see `WriteOptions`).",
}
"""What parameters of these names mean in every call whose own help does not say otherwise."""

_HOMES = {
    "Change": "projections.core.own",
    "Embedder": "ledger.vectors.embedders",
    "EmbedderLike": "ledger.vectors.embedders",
    "Model": "ledger.models.port",
    "ModelAnswer": "ledger.models.port",
    "ModelLike": "ledger.models.port",
    "ModelRequest": "ledger.models.port",
    "Rows": "projections.core.own",
    "Scanner": "ledger.guards.guarding",
    "Summarizer": "ledger.models.port",
    "SummarizerLike": "ledger.models.port",
    "SummaryRequest": "ledger.models.port",
}


if not TYPE_CHECKING:  # to a type checker, a name that is not there is a mistake
    __getattr__ = names_of(__name__, _HOMES)  # what models, embedders and scanners of yours are given, or have to be
