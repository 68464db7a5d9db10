"""The events of a session: its messages, its summaries, and what was given of it."""

from typing import Annotated

import msgspec
from msgspec import Struct, UnsetType, field

from ledger.domain.events.base import (
    ESTIMATE,
    NO_PARTS,
    NOTHING,
    Body,
    Code,
    Dropped,
    Event,
    Id,
    Json,
    Ranges,
    Ref,
    Text,
    Time,
    Traits,
    Use,
)


class SessionOpened(Event, frozen=True):
    """A session begins, under its name."""

    traits = Traits("name", begins="session")

    name: Annotated[Text | None, Use("name")]


class SessionAliasAdded(Event, frozen=True):
    """Another name of the session; with ``to``, one that it gives up to that session, which has the history from here."""

    traits = Traits("reversible", governs="session")

    alias: Annotated[Text | None, Use("name")]
    to: Annotated[Id | None, Ref("about")] = None


class MessageAppended(Event, frozen=True):
    """A message of the conversation, known by the position of this event.

    ``parts`` is a list of what else it holds than ``content`` and ``reasoning`` (ledger.domain.message); ``content_of`` is
    the part whose text ``content`` is, or -1. The text of a captured turn lies with the ``interaction``, in its ``field``.
    ``speaker`` is who said it, where several share a role. ``tokens`` were counted by ``counter`` before the append.
    ``extra`` is what a provider's message has besides, for that provider alone, ``metadata`` what is for no model.
    """

    traits = Traits("reversible", quarantined_as="message")

    role: Code
    tokens: int
    counter: Code = ESTIMATE
    content: Annotated[Body | None, Use("material")] = ""
    reasoning: Annotated[Body | None, Use("material")] = ""
    parts: Annotated[Json, Use("material")] = NO_PARTS
    content_of: int = -1
    model: Text | None = ""
    interaction: Annotated[Id | None, Ref("cites")] = None
    field: Code = ""
    speaker: Annotated[Text | None, Use("material")] = ""
    extra: Json = NOTHING
    metadata: Annotated[Json, Use("material")] = NOTHING


class MessageRepaired(Event, frozen=True):
    """What the message at ``message`` was recorded without: each field that is not there stays as it is. An ``extra`` is
    that of the message and of all its parts, and ``metadata`` all of it."""

    traits = Traits("reversible")

    message: int
    reasoning: Text | UnsetType | None = msgspec.UNSET
    model: Text | UnsetType | None = msgspec.UNSET
    occurred_at: Time | UnsetType = msgspec.UNSET
    extra: Json = NOTHING
    metadata: Json = NOTHING


class MessagesHidden(Event, frozen=True):
    """The session's messages at these positions (inclusive ranges) are no longer part of it; they stay in the log.

    ``why`` is "truncate", "replace" or "clear"; ``messages`` and ``tokens`` are how many they are.
    """

    traits = Traits("reversible")

    why: Code
    ranges: Ranges
    messages: int
    tokens: int


class AbstractSet(Event, frozen=True):
    """What somebody wrote as the summary of the session as a whole; "" for none."""

    traits = Traits("reversible", quarantined_as="summary")

    content: Annotated[Body | None, Use("material")]


class SummaryCreated(Event, frozen=True):
    """A summary of ``ranges`` of the session's messages, written from these or from other ``summaries``, in their order.

    ``kind`` is "leaf" or "condensed", ``level`` how it came about: "normal", "aggressive", or "fallback" (the beginning of
    the text, cut). ``messages`` and ``source_tokens`` count what it stands for, ``descendants`` and ``descendant_tokens``
    the summaries it was written from. ``first`` is its place: the position of the oldest message. ``replaces`` was rewritten.
    """

    traits = Traits("reversible", quarantined_as="summary")

    summary: Annotated[Id, Ref("part")]
    kind: Code
    level: Code
    depth: int
    content: Annotated[Body | None, Use("material")]
    tokens: int
    counter: Code
    ranges: Ranges
    messages: int
    source_tokens: int
    first: int
    earliest: Time
    latest: Time
    summaries: Annotated[tuple[Id, ...], Ref("cites")] = ()
    descendants: int = 0
    descendant_tokens: int = 0
    model: Text | None = ""
    prompt: Code = ""
    replaces: Annotated[Id | None, Ref("replaces")] = None


class ContextReplaced(Event, frozen=True):
    """In the window the summary stands for its messages from here, and for these ``summaries``, which leave it."""

    traits = Traits("reversible")

    summary: Annotated[Id, Ref("part")]
    summaries: Annotated[tuple[Id, ...], Ref("part")] = ()


class SummaryInvalidated(Event, frozen=True):
    """These summaries no longer stand for anything; the ``returned`` ones that they were written from are in the window again.

    ``why`` is "asked", "hidden" (messages of theirs are) or "rewritten".
    """

    traits = Traits("reversible")

    summaries: Annotated[tuple[Id, ...], Ref("part")]
    why: Code
    returned: Annotated[tuple[Id, ...], Ref("part")] = ()
    reason: Text | None = ""


class SummaryRestored(Event, frozen=True):
    """An invalidated summary is in the window again, and those it was written from leave it; ``summaries`` come with it."""

    traits = Traits("reversible")

    summary: Annotated[Id, Ref("part")]
    summaries: Annotated[tuple[Id, ...], Ref("part")] = ()
    reason: Text | None = ""


class ExtractionCursorMoved(Event, frozen=True):
    """The session's messages after ``since`` up to ``to`` (positions) were looked at for what to remember.

    ``why`` is "extracted", "empty", "not_salient", "skipped" (they are another session's too) or "asked". ``kept`` and
    ``dropped`` are what it came to, where no model was asked.
    """

    traits = Traits("reversible")

    since: int
    to: int
    why: Code
    extractor: Code = ""
    kept: Annotated[tuple[Id, ...], Ref("about")] = ()
    dropped: tuple[Dropped, ...] = ()
    parent: Annotated[Id | None, Ref("about")] = None


class CompactionSkipped(Event, frozen=True):
    """A compaction that was begun and came to nothing: why, and the kind of error if there was one."""

    traits = Traits("inert")

    why: Code
    kind: Code
    messages: int = 0
    tokens: int = 0
    error: Code = ""


class LeftOut(Struct, frozen=True):
    """An item of a window, by the position that has its text, that was considered and not given, and why."""

    position: int
    why: Code


class Shortened(Struct, frozen=True):
    """A message of a window, by its position, of whose tool results only so many characters each were given, and the tokens
    that it took then."""

    position: int
    chars: int
    tokens: int


class WindowAssembled(Event, frozen=True):
    """What a session gave for a model's window at the log position ``seen``: which of its messages (ranges of positions)
    and summaries, and the recall (the id of its RecallDelivered) that was woven in. ``settings`` say how it was asked, and what
    was left out in numbers; ``tokens`` is all that it takes. Of the ``shortened`` messages it gave a part, by the rule that
    the settings name."""

    traits = Traits("inert")

    seen: int
    budget: int
    tokens: int
    messages: Ranges = ()
    summaries: Annotated[tuple[Id, ...], Ref("shown")] = ()
    left_out: tuple[LeftOut, ...] = ()
    recall: Annotated[Id | None, Ref("shown")] = None
    settings: dict[Code, int | Code | tuple[Code, ...] | None] = field(default_factory=dict)
    shortened: tuple[Shortened, ...] = ()
