"""The events of a session: its messages, its summaries, and the windows that were assembled for models."""

from typing import Annotated, ClassVar

import msgspec
from msgspec import Struct, UnsetType, field

from ledger.log.events import (
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
    """The beginning of a session under its name."""

    traits: ClassVar[Traits] = Traits("name", begins="session")

    name: Annotated[Text | None, Use("name")]


class SessionAliasAdded(EventData, frozen=True):
    """Another name of the session.

    With ``to``, the name belongs from here on to the session ``to``, and no longer to this session.
    """

    traits: ClassVar[Traits] = Traits("reversible", governs="session")

    alias: Annotated[Text | None, Use("name")]
    to: Annotated[Id | None, Ref("about")] = None


class SessionDescribed(EventData, frozen=True):
    """A change of the session's metadata: keys that were set, and keys that were removed (``unset``)."""

    traits: ClassVar[Traits] = Traits("reversible")

    metadata: Json = NOTHING
    unset: Annotated[tuple[Text, ...] | None, Use("repeats")] = ()


class MessageAppended(EventData, frozen=True):
    """A message of the conversation, which is named by the position of this event.

    ``parts`` holds everything besides ``content`` and ``reasoning`` (ledger.sessions.rules.message); ``content_of`` is the
    index of the part whose text is ``content``, or -1. The text of a captured turn is stored in the ``field`` of the
    ``interaction``. ``speaker`` is the name of the person, if several persons share a role. ``tokens`` was counted by
    ``counter`` before the append. ``extra`` holds further fields of a provider's message, which only this provider gets.
    ``metadata`` is shown to no model. ``raw`` is JSON in the form of the program that gave it, which gets it back; "" for none.
    """

    traits: ClassVar[Traits] = Traits("reversible", quarantined_as="message")

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
    raw: Annotated[Body | None, Use("json")] = ""


class MessageRepaired(EventData, frozen=True):
    """A repair of the message at the position ``message``: fields that were recorded later, or a corrected ``model``.

    A missing field stays as it was. ``extra`` is the whole extra of the message and its parts, and ``metadata`` the whole
    metadata.
    """

    traits: ClassVar[Traits] = Traits("reversible")

    message: int
    reasoning: Text | UnsetType | None = msgspec.UNSET
    model: Text | UnsetType | None = msgspec.UNSET
    occurred_at: Time | UnsetType = msgspec.UNSET
    extra: Json = NOTHING
    metadata: Json = NOTHING


class MessagesHidden(EventData, frozen=True):
    """The removal of messages from the session, by inclusive ranges of positions; the messages stay in the log.

    ``why`` is "truncate", "replace", "clear" or "remove"; ``messages`` and ``tokens`` count the hidden messages and their tokens.
    """

    traits: ClassVar[Traits] = Traits("reversible")

    why: Code
    ranges: Ranges
    messages: int
    tokens: int


class AbstractSet(EventData, frozen=True):
    """A person's summary of the whole session; "" removes it."""

    traits: ClassVar[Traits] = Traits("reversible", quarantined_as="summary")

    content: Annotated[Body | None, Use("material")]


class SummaryCreated(EventData, frozen=True):
    """A summary of ``ranges`` of the session's messages, written from the messages or from other ``summaries`` in order.

    ``kind`` is "leaf" (from messages) or "condensed" (from summaries). ``level`` is how it was written: "normal", "aggressive",
    "excerpt" (the weightiest sentences of the messages) or "fallback" (the cut beginning of the text).
    ``messages`` and ``source_tokens`` count the messages that the summary stands
    for, ``descendants`` and ``descendant_tokens`` the summaries from which it was written. ``first`` is the position of the
    oldest message. ``replaces`` is the summary that was rewritten.
    """

    traits: ClassVar[Traits] = Traits("reversible", quarantined_as="summary")

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
    """The entry of a summary into the window, in place of its messages and of ``summaries``, which leave the window."""

    traits: ClassVar[Traits] = Traits("reversible")

    summary: Annotated[Id, Ref("part")]
    summaries: Annotated[tuple[Id, ...], Ref("part")] = ()


class SummaryInvalidated(EventData, frozen=True):
    """The end of summaries, which leave the window; the ``returned`` summaries from which they were written are in it again.

    ``why`` is "asked" (by a person), "hidden" (some of the summarized messages were hidden) or "rewritten".
    """

    traits: ClassVar[Traits] = Traits("reversible")

    summaries: Annotated[tuple[Id, ...], Ref("part")]
    why: Code
    returned: Annotated[tuple[Id, ...], Ref("part")] = ()
    reason: Text | None = ""


class SummaryRestored(EventData, frozen=True):
    """The return of an invalidated summary into the window, in place of ``summaries``, from which it was written."""

    traits: ClassVar[Traits] = Traits("reversible")

    summary: Annotated[Id, Ref("part")]
    summaries: Annotated[tuple[Id, ...], Ref("part")] = ()
    reason: Text | None = ""


class ExtractionCursorMoved(EventData, frozen=True):
    """The progress of extraction: the session's messages after the position ``since`` up to ``to`` were searched for memories.

    ``why`` is "extracted", "empty", "not_salient", "skipped" (the messages belong to another session too) or "asked" (by a
    caller). ``kept`` and ``dropped`` are the results of a search by rules.
    """

    traits: ClassVar[Traits] = Traits("reversible")

    since: int
    to: int
    why: Code
    extractor: Code = ""
    kept: Annotated[tuple[Id, ...], Ref("about")] = ()
    dropped: tuple[Dropped, ...] = ()
    parent: Annotated[Id | None, Ref("about")] = None


class CompactionSkipped(EventData, frozen=True):
    """A compaction that began and had no result, with the reason, and with the kind of the error if there was an error."""

    traits: ClassVar[Traits] = Traits("inert")

    why: Code
    kind: Code
    messages: int = 0
    tokens: int = 0
    error: Code = ""


class LeftOut(Struct, frozen=True):
    """A message that a window left out although it fits: its position, and the reason."""

    position: int
    why: Code


class Shortened(Struct, frozen=True):
    """A message of a window whose tool results were cut to ``chars`` characters each.

    ``position`` is the position of the message, and ``tokens`` its size after the cut.
    """

    position: int
    chars: int
    tokens: int


class WindowAssembled(EventData, frozen=True):
    """The window that was assembled from a session for a model, from the state at the log position ``seen``.

    The window contains ``messages`` (ranges of positions), ``summaries``, and the results of ``recall`` (the id of a
    RecallDelivered event). ``settings`` are the settings of the request, with the counts of the items that were left out.
    ``tokens`` is the size of the whole window. The ``shortened`` messages were cut by the rule that the settings name.
    """

    traits: ClassVar[Traits] = Traits("inert")

    seen: int
    budget: int
    tokens: int
    messages: Ranges = ()
    summaries: Annotated[tuple[Id, ...], Ref("shown")] = ()
    left_out: tuple[LeftOut, ...] = ()
    recall: Annotated[Id | None, Ref("shown")] = None
    settings: dict[Code, int | Code | tuple[Code, ...] | None] = field(default_factory=dict)
    shortened: tuple[Shortened, ...] = ()
