"""The events of a session: its messages, its summaries, and the windows that it gave to models."""

from typing import Annotated

import msgspec
from msgspec import Struct, UnsetType, field

from ledger.log.event_base import (
    ESTIMATE,
    NO_PARTS,
    NOTHING,
    Body,
    Code,
    Dropped,
    EventData,
    Id,
    Json,
    Ranges,
    Ref,
    Text,
    Time,
    Traits,
    Use,
)


class SessionOpened(EventData, frozen=True):
    """A session begins, under its name."""

    traits = Traits("name", begins="session")

    name: Annotated[Text | None, Use("name")]


class SessionAliasAdded(EventData, frozen=True):
    """Another name of the session.

    With ``to``, the session gives the name up to that session, whose history the name means from here.
    """

    traits = Traits("reversible", governs="session")

    alias: Annotated[Text | None, Use("name")]
    to: Annotated[Id | None, Ref("about")] = None


class SessionDescribed(EventData, frozen=True):
    """Metadata of the session that was set or, by its keys, ``unset``."""

    traits = Traits("reversible")

    metadata: Json = NOTHING
    unset: Annotated[tuple[Text, ...] | None, Use("repeats")] = ()


class MessageAppended(EventData, frozen=True):
    """A message of the conversation, known by the position of this event.

    ``parts`` lists everything besides ``content`` and ``reasoning`` (ledger.sessions.rules.message); ``content_of`` is the
    index of the part whose text is ``content``, or -1. The text of a captured turn lies with the ``interaction``, in its
    ``field``.
    ``speaker`` names the person where several share a role. ``tokens`` were counted by ``counter`` before the append.
    ``extra`` holds further fields of a provider's message, for that provider alone. ``metadata`` is for no model. ``raw`` is
    JSON that is returned as it was given, to the program that gave it; "" for none.
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
    raw: Annotated[Body | None, Use("exact")] = ""


class MessageRepaired(EventData, frozen=True):
    """Fields that the message at ``message`` was recorded without, or a wrong ``model``; a missing field stays as it is.

    ``extra`` is that of the message and of all its parts, and ``metadata`` is the whole metadata.
    """

    traits = Traits("reversible")

    message: int
    reasoning: Text | UnsetType | None = msgspec.UNSET
    model: Text | UnsetType | None = msgspec.UNSET
    occurred_at: Time | UnsetType = msgspec.UNSET
    extra: Json = NOTHING
    metadata: Json = NOTHING


class MessagesHidden(EventData, frozen=True):
    """The session's messages at these positions (inclusive ranges) are no longer part of it; they stay in the log.

    ``why`` is "truncate", "replace", "clear" or "remove"; ``messages`` and ``tokens`` count the hidden messages and their tokens.
    """

    traits = Traits("reversible")

    why: Code
    ranges: Ranges
    messages: int
    tokens: int


class AbstractSet(EventData, frozen=True):
    """A person's summary of the session as a whole; "" for none."""

    traits = Traits("reversible", quarantined_as="summary")

    content: Annotated[Body | None, Use("material")]


class SummaryCreated(EventData, frozen=True):
    """A summary of ``ranges`` of the session's messages, written from the messages or from other ``summaries``, in their order.

    ``kind`` is "leaf" or "condensed". ``level`` is the way it was made: "normal", "aggressive", or "fallback" (the beginning of
    the text, cut). ``messages`` and ``source_tokens`` count the messages it stands for, ``descendants`` and
    ``descendant_tokens`` the summaries it was written from. ``first`` is its place: the position of the oldest message.
    ``replaces`` is the summary that was rewritten.
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


class ContextReplaced(EventData, frozen=True):
    """From here the summary stands in the window for its messages, and for these ``summaries``, which leave the window."""

    traits = Traits("reversible")

    summary: Annotated[Id, Ref("part")]
    summaries: Annotated[tuple[Id, ...], Ref("part")] = ()


class SummaryInvalidated(EventData, frozen=True):
    """These summaries no longer stand for anything; the ``returned`` summaries they were written from are in the window again.

    ``why`` is "asked", "hidden" (some of their messages are) or "rewritten".
    """

    traits = Traits("reversible")

    summaries: Annotated[tuple[Id, ...], Ref("part")]
    why: Code
    returned: Annotated[tuple[Id, ...], Ref("part")] = ()
    reason: Text | None = ""


class SummaryRestored(EventData, frozen=True):
    """An invalidated summary is in the window again with ``summaries``; the summaries it was written from leave the window."""

    traits = Traits("reversible")

    summary: Annotated[Id, Ref("part")]
    summaries: Annotated[tuple[Id, ...], Ref("part")] = ()
    reason: Text | None = ""


class ExtractionCursorMoved(EventData, frozen=True):
    """The session's messages after ``since`` up to ``to`` (positions) were searched for memories.

    ``why`` is "extracted", "empty", "not_salient", "skipped" (the messages belong to another session too) or "asked". ``kept``
    and ``dropped`` are the results, if no model was asked.
    """

    traits = Traits("reversible")

    since: int
    to: int
    why: Code
    extractor: Code = ""
    kept: Annotated[tuple[Id, ...], Ref("about")] = ()
    dropped: tuple[Dropped, ...] = ()
    parent: Annotated[Id | None, Ref("about")] = None


class CompactionSkipped(EventData, frozen=True):
    """A compaction that began and had no result: the reason, and the kind of error if there was one."""

    traits = Traits("inert")

    why: Code
    kind: Code
    messages: int = 0
    tokens: int = 0
    error: Code = ""


class LeftOut(Struct, frozen=True):
    """An item of a window that was considered and left out: the position with its text, and why."""

    position: int
    why: Code


class Shortened(Struct, frozen=True):
    """A message of a window whose tool results were cut to ``chars`` characters each.

    ``position`` is that of the message, and ``tokens`` its size after the cut.
    """

    position: int
    chars: int
    tokens: int


class WindowAssembled(EventData, frozen=True):
    """The window that a session gave to a model at the log position ``seen``.

    It has the messages (ranges of positions), the summaries, and the recall (the id of its RecallDelivered) that was woven in.
    ``settings`` are the request's, and count the items left out. ``tokens`` is the size of the whole window. Of the
    ``shortened`` messages it gave a part, by the rule that the settings name.
    """

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
