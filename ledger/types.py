"""The types that signatures name: closed sets, the options of every write, pages, and subjects of erasures."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypedDict, TypeVar, overload

from ledger.domain.errors import RejectedError
from ledger.domain.late import names_of

if TYPE_CHECKING:
    from ledger.domain.scan.scanner import Scanner as Scanner
    from ledger.models.command import CommandModel as CommandModel
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
"""A time, or a duration back from now, at least 1 of its unit: "30min", "12h", "7d", "2w", "3mo" (of 30 days each)."""
Moment = int | str | datetime | date
"""A position, the id of an event, or a time."""
Triple = tuple[str, str, str]
"""A relation: (subject, relation, object)."""
Metadata = Mapping[str, str | int | float | bool | None]
"""Keys of your own, each with a text, a number, True, False or None."""

Json = Any
"""A text, a number, True, False, None, or a dictionary or list of these."""

Cancel = threading.Event | Callable[[], bool]
"""A way to call off a long call: an event that somebody sets, or a function that returns True."""

Channel = Literal["user", "tool", "web", "agent", "file"]
CodingAgent = Literal["claude", "codex", "cursor", "vscode", "opencode"]
MemoryStatus = Literal["candidate", "active", "superseded", "invalid", "retracted", "erased"]
ProjectStatus = Literal["active", "archived"]
DocumentStatus = Literal["active", "removed", "erased"]
DocumentType = Literal["markdown", "text"]
ValueStatus = Literal["active", "expired", "removed"]
ObservationStatus = Literal["active", "unsupported", "retracted", "erased"]
Freshness = Literal["fresh", "stale"]
Trend = Literal["new", "strengthening", "stable", "weakening", "dormant"]
ConflictStatus = Literal["open", "resolved", "lapsed"]
MergeStatus = Literal["proposed", "merged", "rejected", "obsolete"]
SummaryStatus = Literal["window", "under", "replaced", "invalid", "erased"]
Corpus = Literal["memories", "chunks", "turns", "values"]
Unit = Literal["tokens", "chars"]
Packing = Literal["greedy", "prefix", "shares"]
Role = Literal["user", "assistant", "system", "developer", "tool"]
Method = Literal["model", "rules"]
Extracting = Literal["auto", "model", "rules", "off"]
Messages = str | Mapping[str, Any] | Iterable[object]
"""A text, one message, or several, as a provider's chat has them."""
DocumentSource = str | os.PathLike[str] | Iterable[str | Mapping[str, object]]
"""A text, a file, or the chunks of a document that was cut elsewhere."""
Purpose = Literal["extraction", "consolidation", "summary"]
OriginKind = Literal["actor", "client", "agent", "session", "interaction", "document"]
StateCategory = Literal["status", "decision", "requirement", "contact", "milestone", "fact", "config"]
Order = Literal["recorded", "occurred"]
Job = Literal["reinforcement", "extraction", "expiry", "conflicts", "merges", "consolidation", "vectors"]
Choice = Literal["erase", "cut", "keep"]


class Everything(Enum):
    """All texts of a user. No string stands for it, so that no string can mean it by mistake."""

    EVERYTHING = "everything"


EVERYTHING: Final = Everything.EVERYTHING
"""All texts of a user, for ``erase`` and ``holds.add``."""


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
    """An event as a subject: all its texts, or only some ``fields``, ``spans`` or ``phrases``.

    ``spans`` are (field, start, end) in characters. ``phrases`` are found wherever the event has them, in any case.
    """

    position: int
    fields: Sequence[str] = ()
    spans: Sequence[tuple[str, int, int]] = ()
    phrases: Sequence[str] = ()


Subject = str | Project | SessionName | DocumentPath | Event | Everything
"""The subject of an erasure or a hold: an id, an object of the classes above, or ``EVERYTHING``."""


class SessionPatterns(NamedTuple):
    """Patterns of session names. ``**`` stands for any text, ``*`` for any text without a colon.

    Of an ``ignore``d session nothing is recorded and nothing read; "heartbeat" is always ignored. A ``read_only`` session is
    read, and not recorded.
    """

    ignore: Sequence[str] = ()
    read_only: Sequence[str] = ()


class GroupOptions(TypedDict, total=False):
    """The options of ``history.undo_all`` besides its own arguments, which include a correlation id."""

    idempotency_key: str | None
    """The same key with the same command and arguments gives the first answer, marked ``replayed``, and records nothing."""
    occurred_at: Time | None
    """The time when it happened in the world, if not now."""
    causation_id: str | None
    """The event that the command reacts to."""
    channel: Channel
    """The kind of input: "user", "tool", "web", "agent" or "file"."""
    client: str
    """The program through which the command came."""
    agent: str
    """The agent for which the command is."""
    expected: int | None
    """A position: the command is refused with ``ConflictError`` if what it changes was changed after it, also by an undo.

    An undo, a redo, a distrust, a trust and an erasure change the subjects of the events that they name."""


class WriteOptions(GroupOptions, total=False):
    """The options of every write besides its own arguments."""

    correlation_id: str | None
    """The run, request or import that the command belongs to."""


class PolicyChanges(WriteOptions, total=False):
    """The parameters of a user's policy, and the options of every write."""

    matcher: Literal["stems/6", "substring/1"]
    """The version of the rules that find the memories which a response restates."""
    gain: float
    """The rise of a restated memory's confidence, from 0 to 1, in steps of one millionth."""
    echo_gain: float
    """The rise if the model had just been shown the memory."""
    max_matches: int
    """The most memories that one interaction reinforces, from 0 to 1,000."""
    extract: bool
    """True to find candidates in captured turns."""
    decay: Literal["off", "episodic", "all"]
    """The kinds of memories that lose effective confidence with idle days; "off" (the default) means none."""
    decay_rule: Literal["decay/1"]
    """The version of the rule of decay: 3 % a day after 30 idle days."""
    expire: bool
    """Supersede memories that have decayed below a confidence of 0.30; False by default, and True needs a decay."""
    candidate_days: int
    """The idle days after which a candidate is rejected, up to 100,000; 0 for never."""
    user_chars: int
    """The most characters of active memories of the kind user_profile; 0 for no bound."""
    memory_chars: int
    """The most characters of active memories of all other kinds; 0 for no bound."""
    threats: Literal["refuse", "quarantine", "off"]
    """The treatment of a memory in which a scanner finds an order to the model or another threat."""
    secrets: Literal["redact", "refuse", "off"]
    """The treatment of a password or key in any text."""
    admit: Literal["by_source", "review"]
    """The judge of what nobody reviewed: "by_source" is the table of admission (a user's statement about himself is active at
    once), "review" a person (everything found is a candidate)."""
    claim_confidence: float
    """The most confidence of a statement that only an assistant made, from 0 to 1."""
    merge: bool
    """True to propose near duplicates for merging."""
    conflicts: bool
    """True to look for conflicts."""
    consolidate: bool | Literal["turns"]
    """True to make observations of new memories; "turns" to make them of new turns and messages too."""
    off: Iterable[str]
    """The projects, by name, alias or id, where nothing is recorded and no prompt gets anything; () for none."""


class Page(Sequence[T]):
    """A part of a listing, in order. ``next`` is the cursor of the next page (``after=page.next``), None at the end.

    ``follow`` reads the next page by its cursor. In a listing whose pages go backwards ``before`` yields the items of all further
    pages instead, which come before this page.
    """

    __slots__ = ("_before", "_follow", "_items", "_next")

    def __init__(
        self,
        items: Sequence[T] = (),
        next: str | None = None,
        follow: Callable[[str], Page[T]] | None = None,
        before: Callable[[], Iterator[T]] | None = None,
    ) -> None:
        self._items, self._next, self._follow, self._before = tuple(items), next, follow, before

    @property
    def next(self) -> str | None:
        """Return the cursor of the next page, or None at the end."""
        return self._next

    def all(self) -> Iterator[T]:
        """Yield the items of this and every further page, in the order of the items. Each page is read when it is reached."""
        page: Page[T] = self
        if self._before is not None:
            yield from self._before()
            yield from self._items
            return
        while True:
            yield from page._items
            if page._next is None:
                return
            if page._follow is None:
                raise RejectedError(
                    "this page was pickled or copied and cannot read the next page: list again with after=page.next"
                )
            page = page._follow(page._next)

    def to_dict(self) -> dict[str, Any]:
        """Return the items and ``next`` as dictionaries, lists, strings and numbers, ready for JSON."""
        from msgspec import json

        more = {name: getattr(self, name) for name in type(self).__slots__ if not name.startswith("_")}
        plain: dict[str, Any] = json.decode(json.encode({"items": self._items, "next": self._next, **more}))
        return plain

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

    def __reduce__(self) -> tuple[Any, ...]:  # ``_follow`` and ``_before`` belong to an open ledger, so it is left out
        return type(self), (self._items, self._next)


SHARED = {
    "id": "The id of the subject, or a beginning of it that no other id has (at least `m_` and one more character).",
    "project": "A project by name, alias or id: a write records there, and registers a new name; a listing shows only what "
    'belongs to it, and nothing for an unknown name; `""` means no project, None no filter.',
    "session": "A session by name, alias or id: a write records there, a listing shows only what belongs to it.",
    "limit": "The most items of a page, 0 to 1,000; more is refused, not cut.",
    "after": "The cursor at which the page begins: `page.next` of the page before, with the same filters; None for the first.",
    "oldest_first": "Begin with the oldest instead of the newest; a cursor belongs to one order.",
    "since": "Only what happened then or later: a time with an offset, a date (midnight in UTC), or a duration back from now "
    '(`"30min"`, `"12h"`, `"7d"`, `"2w"`, `"3mo"`); None for no bound.',
    "until": "Only what happened before: a time, a date or a duration back from now, as `since`; None for no bound.",
    "reason": "Why, in your words; kept in the log and shown by `why` and the audit trail.",
    "dry_run": "Change nothing, and return what the call would do.",
    "exclusive": "Allow more than 50,000 events, and keep others from writing during the call.",
    "options": "The options of every write: `idempotency_key`, `occurred_at`, `correlation_id`, `causation_id`, `channel`, "
    "`client`, `agent`, `expected` (see `WriteOptions`).",
}
"""The meaning of parameters with these names in every call whose own help says nothing else."""

_HOMES = {
    "Change": "projections.core.own",
    "CommandModel": "ledger.models.command",
    "Embedder": "ledger.vectors.embedders",
    "EmbedderLike": "ledger.vectors.embedders",
    "Model": "ledger.models.port",
    "ModelAnswer": "ledger.models.port",
    "ModelLike": "ledger.models.port",
    "ModelRequest": "ledger.models.port",
    "Rows": "projections.core.own",
    "Scanner": "ledger.domain.scan.scanner",
    "Summarizer": "ledger.models.port",
    "SummarizerLike": "ledger.models.port",
    "SummaryRequest": "ledger.models.port",
}


if not TYPE_CHECKING:  # hidden from type checkers, so that they report unknown names
    __getattr__ = names_of(__name__, _HOMES)  # types of models, embedders, scanners and projections
