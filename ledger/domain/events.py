"""Every fact that can be recorded, its text fields, and the envelope around it: the storage format.

A released event only ever gains fields with defaults, or gets an upcaster in ``ledger.mapper``. The name of a class is the
name in the log, so renaming a class is changing the format. Every string field says what it is: ``Text`` is something a
person or a model wrote and erasure may remove, so that it is null; ``Code`` is a word from our own vocabulary; ``Id`` names
a subject, an event or a command; ``Time`` is fixed-width UTC; ``Digest`` is a hash of bytes of the log. Confidences and
deltas are integers of one millionth.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Generic, TypeVar, get_args, get_type_hints

from msgspec import UNSET, Meta, Raw, Struct, UnsetType, field

Text = Annotated[str, Meta(extra={"string": "text"})]
Code = Annotated[str, Meta(extra={"string": "code"})]
Id = Annotated[str, Meta(extra={"string": "id"})]
Time = Annotated[str, Meta(extra={"string": "time"})]
KeyedDigest = Annotated[str, Meta(extra={"string": "keyed digest"})]
Digest = Annotated[str, Meta(extra={"string": "digest"})]
Secret = Annotated[str, Meta(extra={"string": "secret"})]
Json = Annotated[Raw, Meta(extra={"string": "text"})]

NO_PARTS, NOTHING = Raw(b"[]"), Raw(b"{}")  # msgspec leaves a default of JSON out only where it is this very object

ESTIMATE = "estimate/1"  # the counter of tokens that is not named where it counted

FORMAT = 1
LEDGER_STREAM = "ledger"


class Event(Struct, frozen=True, omit_defaults=True, gc=False):
    """The base of every event's data; ``schema`` is the version of its fields, counted per type from 1."""

    schema: ClassVar[int] = 1


class Blob(Struct, frozen=True):
    """A text above 256 KiB that lies in the blobs table: its id, its size in bytes, SHA-256 of salt + bytes in hex."""

    blob: Id
    size_bytes: int
    digest: KeyedDigest


Body = Text | Blob


# --- ledger ----------------------------------------------------------------------------------------------------------


class LedgerCreated(Event, frozen=True):
    """The first event: the id of the ledger, its format, and the least format that reads and writes it. ``secret`` is the key of
    all keyed digests; no read shows it."""

    ledger_id: Id
    format: int
    least_reader: int
    least_writer: int
    secret: Secret


class LedgerUpgraded(Event, frozen=True):
    """From here the log may hold what readers and writers before these formats do not know."""

    format: int
    least_reader: int
    least_writer: int


Ranges = tuple[tuple[int, int], ...]
LIST_ITEMS = 2_000  # of one list in one event; a longer one is spread over several events of the same append


class PolicyAdopted(Event, frozen=True):
    """These parameters hold from here for one user; the others stay as they are."""

    parameters: dict[Code, int | bool | Code]


class CommandAnswered(Event, frozen=True):
    """A keyed command that had nothing to append; the answer was ``subject`` as of position ``seen``."""

    subject: Id
    seen: int


class CommandUndone(Event, frozen=True):
    """The events at these positions (inclusive ranges) are void from here."""

    commands: tuple[Id, ...]
    ranges: Ranges
    reason: Text | None = ""


class CommandRedone(Event, frozen=True):
    """Those events count again; ``undone`` is the command that made them void."""

    undone: Id
    ranges: Ranges
    reason: Text | None = ""


class OriginDistrusted(Event, frozen=True):
    """What an origin recorded from the position ``since`` on, and all it caused, is void from here.

    With ``until`` only what it recorded before that position is meant, and what it writes later counts. ``kind`` says what
    ``origin`` is: "actor", "client" or "agent" (a name), or "session", "interaction", "document" (an id).
    """

    kind: Code
    origin: Text | None
    ranges: Ranges
    since: int = 1
    until: int | None = None
    reason: Text | None = ""


class OriginTrusted(Event, frozen=True):
    """Those events count again; ``distrusted`` is the command that made them void."""

    distrusted: Id
    ranges: Ranges
    reason: Text | None = ""


TAKEN_OUT, PUT_BACK = (CommandUndone, OriginDistrusted), (CommandRedone, OriginTrusted)
WAYS_BACK = TAKEN_OUT + PUT_BACK  # each has ``ranges``; what is folded again is all that lies in them


class Redaction(Struct, frozen=True, omit_defaults=True):
    """What was erased of one event: whole fields by name, or spans (field, start, end) of characters, become null or U+2588.

    ``before`` and ``after`` are SHA-256 (hex) of the state's bytes. Fields of the data are named "data.content" and so on,
    those of the envelope by their name. The salt, and the keyed digests of what went, become null with them.
    """

    position: int
    before: Digest
    after: Digest
    fields: tuple[Code, ...] = ()
    spans: tuple[tuple[Code, int, int], ...] = ()


class ContentErased(Event, frozen=True):
    """Texts that are gone: from these rows of the log, and these blobs whole. ``kind`` and ``subject`` say what was asked."""

    kind: Code
    subject: Id | None
    targets: tuple[Redaction, ...]
    blobs: tuple[Id, ...] = ()
    kept: tuple[int, ...] = ()
    reason: Text | None = ""


class ErasureCompleted(Event, frozen=True):
    """Projections, indexes and files no longer hold what the command ``erasure`` erased: what was searched, and how.

    ``replica`` names the copy of the projections that was searched, where there are several; "" is the one in the file.
    """

    erasure: Id
    searched: tuple[Code, ...]
    bytes_searched: int
    hits: int = 0
    replica: Code = ""


class LegalHoldPlaced(Event, frozen=True):
    """Nothing of the subject may be erased; without one, nothing of the user."""

    subject: Id | None
    reason: Text | None = ""


class LegalHoldReleased(Event, frozen=True):
    """``hold`` is the command that placed it."""

    hold: Id
    reason: Text | None = ""


class CheckpointSealed(Event, frozen=True):
    """The log up to ``size`` events, as one Merkle root (RFC 6962) and the head of the chain; ``peaks`` are the roots of the
    full subtrees that the tree consists of, so that the next checkpoint begins where this one ended."""

    size: int
    root: Digest
    head: Digest
    peaks: tuple[Digest, ...]


class WriteRefused(Event, frozen=True):
    """A write that a rule refused: labels and numbers, never the text. A scanner's ``finding`` is a label too."""

    rule: Code
    subject: Id | None = None
    limit: int | None = None
    current: int | None = None
    requested: int | None = None
    finding: Code = ""
    scanner: Code = ""


class TextQuarantined(Event, frozen=True):
    """A scanner found something in the text of the event at ``position``: nothing of it is recalled until it is released.

    Memories have a quarantine of their own (MemoryQuarantined); this is for what was captured, added or summarized.
    """

    position: int
    finding: Code = ""
    scanner: Code = ""
    reason: Text | None = ""


class TextReleased(Event, frozen=True):
    """It may be recalled again: somebody says so, or a later ``scanner`` finds nothing in it."""

    position: int
    scanner: Code = ""
    reason: Text | None = ""


class Acted(Struct, frozen=True, omit_defaults=True):
    """One action that a model asked for: ``what``; "kept", or why it was dropped; what it came to (``subject``); and which
    of the items that it was shown it was about (``target``). "cites" says for what came about in ``subject`` the message
    that the model named for it (the id of its event), or None where it named none that it was shown."""

    what: Code
    outcome: Code
    subject: Id | None = None
    target: Id | None = None


class ModelCalled(Event, frozen=True):
    """A model answered. ``ranges`` are the positions of what it was given to read, ``shown`` what the numbers in its prompt
    stood for, in their order.

    ``texts`` has what the actions said that were dropped, in the order of ``actions`` ("" for what was kept, which lies with
    its subject, and for what must not be kept); ``left_over`` counts the actions beyond those listed.
    """

    purpose: Code
    model: Text | None
    prompt: Code
    ranges: Ranges = ()
    shown: tuple[Id, ...] = ()
    input_tokens: int = 0
    output_tokens: int = 0
    attempts: int = 1
    milliseconds: int = 0
    actions: tuple[Acted, ...] = ()
    texts: tuple[Text, ...] | None = ()
    left_over: int = 0


class ModelCallFailed(Event, frozen=True):
    """A model did not answer, or not so that it could be understood; ``error`` is the kind of failure, ``status`` HTTP's."""

    purpose: Code
    model: Text | None
    prompt: Code
    error: Code
    ranges: Ranges = ()
    attempts: int = 1
    milliseconds: int = 0
    status: int | None = None


class ConsolidationCompleted(Event, frozen=True):
    """New sources were searched for what they have in common, up to the log position ``to``.

    ``over`` says of what kind ("memories", "interactions" or "asked", where the sources were named); ``tags`` are those that the
    sources had to have. Counts are of observations, and of what was not taken, by reason.
    """

    consolidator: Code
    over: Code
    to: int
    sources: int
    formed: int = 0
    revised: int = 0
    retracted: int = 0
    refreshed: int = 0
    skipped: dict[Code, int] = {}
    tags: tuple[Text, ...] | None = ()


class ConsolidationFailed(Event, frozen=True):
    """A consolidation that failed on the sources up to the log position ``to``; ``error`` is the kind of failure."""

    consolidator: Code
    over: Code
    to: int
    error: Code
    tags: tuple[Text, ...] | None = ()


class Delivered(Struct, frozen=True, omit_defaults=True):
    """One entry of a pack, by its id: a memory and the position that it stood at, or the position of the event that has the
    words of a chunk, an interaction (and the ``field`` in it) or a project's state; characters ``start`` to ``end`` of them.
    Scores are in millionths; ``cut`` says why it was left out of the pack."""

    subject: Id
    position: int
    score: int
    signals: dict[Code, int] = {}
    field: Code = ""
    start: int = 0
    end: int = 0
    cut: Code = ""


class RecallDelivered(Event, frozen=True):
    """What a recall gave at the log position ``seen``: asked how, and every entry in rank order, without their texts.

    ``warnings`` are words of the product and of the model it was asked with, which may repeat what it was given.
    """

    query: Body | None
    seen: int
    settings: dict[Code, int | Code | tuple[Code, ...] | None]
    items: tuple[Delivered, ...] = ()
    searched: int = 0
    used: int = 0
    warnings: tuple[Text, ...] | None = ()


class ProjectionSuspended(Event, frozen=True):
    """A projection could not fold the event at ``position``; the others went on. ``error`` is the kind of failure."""

    projection: Code
    position: int
    error: Code


class ProjectionResumed(Event, frozen=True):
    """A suspended projection was computed again and stands where the others do."""

    projection: Code


class ProjectionsRebuilt(Event, frozen=True):
    """Somebody had these projections computed again from the log up to the position ``to``; none named are all of them.

    No digest of them: one over rows with a text in them would confirm a guess of the text after its erasure.
    """

    to: int
    projections: tuple[Code, ...] = ()


class LedgerBranched(Event, frozen=True):
    """From here this is a ledger of its own: what is before is a copy of the ledger ``parent`` up to ``position`` and ``head``.

    Registered for branches (``replay(…, branch=True)``); no command appends it yet, and no projection follows it.
    """

    ledger_id: Id
    parent: Id
    position: int
    head: Digest
    reason: Text | None = ""


# --- project and session ---------------------------------------------------------------------------------------------


class ProjectRegistered(Event, frozen=True):
    """A project begins, under its name."""

    name: Text | None
    description: Text | None = ""


class ProjectAliasAdded(Event, frozen=True):
    """Another name of the project."""

    alias: Text | None


class ProjectStateSet(Event, frozen=True):
    """A person's statement about a project; it replaces the one of the same category and name."""

    category: Code
    name: Text | None
    value: Text | None
    source: Text | None = ""


class ProjectJoined(Event, frozen=True):
    """What belongs to ``project`` is found under this project from here, and its names are names of this one.

    Registered for ``projects.join``; no command appends it yet, and no projection follows it.
    """

    project: Id
    reason: Text | None = ""


class ProjectStateInvalidated(Event, frozen=True):
    """The statement under this category and name no longer counts."""

    category: Code
    name: Text | None
    reason: Text | None = ""


class SessionOpened(Event, frozen=True):
    """A session begins, under its name."""

    name: Text | None


class SessionAliasAdded(Event, frozen=True):
    """Another name of the session; with ``to``, one that it gives up to that session, which has the history from here."""

    alias: Text | None
    to: Id | None = None


class MessageAppended(Event, frozen=True):
    """A message of the conversation, known by the position of this event.

    ``parts`` is a list of what else it holds than ``content`` and ``reasoning`` (ledger.domain.message); ``content_of`` is
    the part whose text ``content`` is, or -1. The text of a captured turn lies with the ``interaction``, in its ``field``.
    ``speaker`` is who said it, where several share a role. ``tokens`` were counted by ``counter`` before the append.
    """

    role: Code
    tokens: int
    counter: Code = ESTIMATE
    content: Body | None = ""
    reasoning: Body | None = ""
    parts: Json = NO_PARTS
    content_of: int = -1
    model: Text | None = ""
    interaction: Id | None = None
    field: Code = ""
    speaker: Text | None = ""


class MessageRepaired(Event, frozen=True):
    """What the message at ``message`` was recorded without: each field that is not there stays as it is."""

    message: int
    reasoning: Text | UnsetType | None = UNSET
    model: Text | UnsetType | None = UNSET
    occurred_at: Time | UnsetType = UNSET


class MessagesHidden(Event, frozen=True):
    """The session's messages at these positions (inclusive ranges) are no longer part of it; they stay in the log.

    ``why`` is "truncate", "replace" or "clear"; ``messages`` and ``tokens`` are how many they are.
    """

    why: Code
    ranges: Ranges
    messages: int
    tokens: int


class AbstractSet(Event, frozen=True):
    """What somebody wrote as the summary of the session as a whole; "" for none."""

    content: Body | None


class SummaryCreated(Event, frozen=True):
    """A summary of ``ranges`` of the session's messages, written from these or from other ``summaries``, in their order.

    ``kind`` is "leaf" or "condensed", ``level`` how it came about: "normal", "aggressive", or "fallback" (the beginning of
    the text, cut). ``messages`` and ``source_tokens`` count what it stands for, ``descendants`` and ``descendant_tokens``
    the summaries it was written from. ``first`` is its place: the position of the oldest message. ``replaces`` was rewritten.
    """

    summary: Id
    kind: Code
    level: Code
    depth: int
    content: Body | None
    tokens: int
    counter: Code
    ranges: Ranges
    messages: int
    source_tokens: int
    first: int
    earliest: Time
    latest: Time
    summaries: tuple[Id, ...] = ()
    descendants: int = 0
    descendant_tokens: int = 0
    model: Text | None = ""
    prompt: Code = ""
    replaces: Id | None = None


class ContextReplaced(Event, frozen=True):
    """In the window the summary stands for its messages from here, and for these ``summaries``, which leave it."""

    summary: Id
    summaries: tuple[Id, ...] = ()


class SummaryInvalidated(Event, frozen=True):
    """These summaries no longer stand for anything; the ``returned`` ones that they were written from are in the window again.

    ``why`` is "asked", "hidden" (messages of theirs are) or "rewritten".
    """

    summaries: tuple[Id, ...]
    why: Code
    returned: tuple[Id, ...] = ()
    reason: Text | None = ""


class SummaryRestored(Event, frozen=True):
    """An invalidated summary is in the window again, and those it was written from leave it; ``summaries`` come with it."""

    summary: Id
    summaries: tuple[Id, ...] = ()
    reason: Text | None = ""


class Dropped(Struct, frozen=True, omit_defaults=True):
    """A value the extractor found and did not keep: the rule, the span in ``field`` (of the message at ``position``), and
    why."""

    rule: Code
    field: Code
    start: int
    end: int
    why: Code
    memory: Id | None = None
    position: int = 0


class ExtractionCursorMoved(Event, frozen=True):
    """The session's messages after ``since`` up to ``to`` (positions) were looked at for what to remember.

    ``why`` is "extracted", "empty", "not_salient", "skipped" (they are another session's too) or "asked". ``kept`` and
    ``dropped`` are what it came to, where no model was asked.
    """

    since: int
    to: int
    why: Code
    extractor: Code = ""
    kept: tuple[Id, ...] = ()
    dropped: tuple[Dropped, ...] = ()
    parent: Id | None = None


class CompactionSkipped(Event, frozen=True):
    """A compaction that was begun and came to nothing: why, and the kind of error if there was one."""

    why: Code
    kind: Code
    messages: int = 0
    tokens: int = 0
    error: Code = ""


class LeftOut(Struct, frozen=True):
    """An item of a window, by the position that has its text, that was considered and not given, and why."""

    position: int
    why: Code


class WindowAssembled(Event, frozen=True):
    """What a session gave for a model's window at the log position ``seen``: which of its messages (ranges of positions)
    and summaries, and the recall (the id of its RecallDelivered) that was woven in. ``settings`` say how it was asked, and what
    was left out in numbers; ``tokens`` is all that it takes."""

    seen: int
    budget: int
    tokens: int
    messages: Ranges = ()
    summaries: tuple[Id, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    recall: Id | None = None
    settings: dict[Code, int | Code | tuple[Code, ...] | None] = {}


# --- document --------------------------------------------------------------------------------------------------------


class DocumentAdded(Event, frozen=True):
    """A document begins; its chunks are the ChunkAdded next to it. ``size`` is in characters.

    ``path`` is what it is known by within its user ("" for a text without one), ``digest`` that of the whole text.
    """

    path: Text | None
    title: Text | None
    digest: KeyedDigest | None
    size: int
    chunks: int
    tags: tuple[Text, ...] | None = ()
    type: Code = "markdown"


class ChunkAdded(Event, frozen=True):
    """One piece of a document: ``index`` counts from 0, ``heading_path`` names the headings above it, outermost first."""

    chunk: Id
    index: int
    content: Text | None
    heading_path: tuple[Text, ...] | None = ()
    metadata: Json = NOTHING


Moved = tuple[int, int, int]


class DocumentReplaced(Event, frozen=True):
    """The document has another text from here; what is new in it are the ChunkAdded next to this.

    ``previous`` is the position of the DocumentAdded or DocumentReplaced whose chunks these are counted in: ``kept`` has
    (first, last, to): the chunks from index first to last go on, from index ``to`` upwards. ``removed`` has inclusive
    ranges of the indexes before. A title or tags that are not there stay as they are, and null is what was erased; the
    project is that of the envelope.
    """

    previous: int
    digest: KeyedDigest | None
    size: int
    chunks: int
    kept: tuple[Moved, ...] = ()
    removed: Ranges = ()
    title: Text | UnsetType | None = UNSET
    tags: tuple[Text, ...] | UnsetType | None = UNSET


class DocumentRemoved(Event, frozen=True):
    """The document and its chunks are no longer found."""

    reason: Text | None = ""


class DocumentRestored(Event, frozen=True):
    """A removed document is found again, as it was."""

    reason: Text | None = ""


# --- interaction -----------------------------------------------------------------------------------------------------


class InteractionCaptured(Event, frozen=True):
    """One prompt and, where there was one already, its response. ``memories_used`` and ``chunks_used`` are what the model had
    been shown, ``context`` all that it was given; ``reinforce`` is false where the response is no evidence."""

    prompt: Body | None
    response: Body | None = ""
    summary: Body | None = ""
    memories_used: tuple[Id, ...] = ()
    chunks_used: tuple[Id, ...] = ()
    context: Json = NOTHING
    reinforce: bool = True


class ResponseAttached(Event, frozen=True):
    """The response of a turn that was captured without one."""

    response: Body | None = ""
    summary: Body | None = ""
    memories_used: tuple[Id, ...] = ()
    chunks_used: tuple[Id, ...] = ()


class Matched(Struct, frozen=True, omit_defaults=True):
    """One memory that the response restates: stems in common, stems in all, their share in millionths."""

    memory: Id
    overlap: int
    total: int
    fraction: int
    echo: bool = False


class ReinforcementEvaluated(Event, frozen=True):
    """Which memories a response restates, by a ``matcher``, among ``pool_size`` active ones; ``left_over`` counts
    the matches beyond those that a policy allows."""

    matcher: Code
    pool_size: int
    matches: tuple[Matched, ...] = ()
    left_over: int = 0


class ReinforcementFailed(Event, frozen=True):
    """The kind of failure; how many there were one after the other is folded."""

    error: Code


class CandidatesExtracted(Event, frozen=True):
    """What an extractor found in a turn: the memories it ``kept``, and what was ``dropped`` and why."""

    extractor: Code
    kept: tuple[Id, ...] = ()
    dropped: tuple[Dropped, ...] = ()


class ExtractionFailed(Event, frozen=True):
    """An extraction that failed; ``error`` is the kind of failure, and how many there were one after the other is counted."""

    extractor: Code
    error: Code


# --- memory ----------------------------------------------------------------------------------------------------------


class Origin(Struct, frozen=True, omit_defaults=True):
    """Which rule found a candidate, and where: characters ``start`` to ``end`` of ``field`` of its first source, which of a
    session is the message at ``position``. A model names no span: both are 0."""

    rule: Code
    extractor: Code
    field: Code
    start: int
    end: int
    position: int = 0


class MemoryCaptured(Event, frozen=True):
    """A memory begins, as a candidate or active. ``supersedes`` names the one that it replaces; ``origin`` says which rule
    found it, and where. ``reference_count`` and ``last_referenced_at`` are what a merged memory takes over."""

    content: Text | None
    kind: Code
    status: Code
    confidence: int
    entities: tuple[Text, ...] | None = ()
    tags: tuple[Text, ...] | None = ()
    sources: tuple[Id, ...] = ()
    valid_from: Time | None = None
    valid_to: Time | None = None
    supersedes: Id | None = None
    origin: Origin | None = None
    reference_count: int = 0
    last_referenced_at: Time | None = None


class DuplicateAbsorbed(Event, frozen=True):
    """The full attempt to capture what was there already; should its first capture become void, this one takes over."""

    content: Text | None
    kind: Code
    status: Code
    confidence: int
    entities: tuple[Text, ...] | None = ()
    tags: tuple[Text, ...] | None = ()
    sources: tuple[Id, ...] = ()
    valid_from: Time | None = None
    valid_to: Time | None = None
    supersedes: Id | None = None
    origin: Origin | None = None
    reference_count: int = 0
    last_referenced_at: Time | None = None
    rule: Code = "verbatim/1"


class MemoryPromoted(Event, frozen=True):
    """A candidate is active from here."""

    reason: Text | None = ""


class MemoryRejected(Event, frozen=True):
    """A candidate was turned down."""

    reason: Text | None = ""


class MemoryReinforced(Event, frozen=True):
    """Evidence (interaction, matcher) and rule with its delta. What came of it is folded, never stored: an undo of an earlier
    reinforcement would make it untrue; the confidence timeline has it for every moment."""

    rule: Code
    delta: int
    interaction: Id | None = None
    matcher: Code | None = None
    fraction: int | None = None
    echo: bool = False


class ConfidenceAdjusted(Event, frozen=True):
    """Somebody set the confidence."""

    rule: Code
    confidence: int
    reason: Text | None = ""


class MemoryRevised(Event, frozen=True):
    """Another wording of the same memory."""

    content: Text | None
    reason: Text | None = ""


class MemoryRetagged(Event, frozen=True):
    """Tags that were added and removed."""

    added: tuple[Text, ...] | None = ()
    removed: tuple[Text, ...] | None = ()


class ValidityChanged(Event, frozen=True):
    """From when to when it holds; without ``valid_from`` it begins as it did."""

    valid_from: Time | None
    valid_to: Time | None
    reason: Text | None = ""


class MemorySuperseded(Event, frozen=True):
    """``by`` is missing only where a policy let the memory expire; ``rule`` then says which. It held up to ``valid_to``, or not
    at all where it began later."""

    by: Id | None
    valid_to: Time
    reason: Text | None = ""
    rule: Code | None = None


class MemoryInvalidated(Event, frozen=True):
    """The memory was wrong."""

    reason: Text | None = ""


class MemoryRetracted(Event, frozen=True):
    """The memory is no longer used; nothing is said of whether it was right."""

    reason: Text | None = ""


class MemoryRestored(Event, frozen=True):
    """Back to the status before, which is folded: what made it so may be void by then."""

    reason: Text | None = ""


class MemoryQuarantined(Event, frozen=True):
    """Kept out of recall: by somebody, or because of what a ``scanner`` found in it."""

    reason: Text | None = ""
    finding: Code = ""
    scanner: Code = ""


class MemoryReleased(Event, frozen=True):
    """The quarantine of a memory ends: somebody says so, or a later ``scanner`` finds nothing."""

    reason: Text | None = ""
    scanner: Code = ""


class RelationAdded(Event, frozen=True):
    """The memory says that ``subject`` stands in ``relation`` to ``object``, while it holds or as long as is said here."""

    subject: Text | None
    relation: Text | None
    object: Text | None
    valid_from: Time | None = None
    valid_to: Time | None = None


class RelationRemoved(Event, frozen=True):
    """It no longer does; ``by`` is the memory whose relation replaced it.

    ``added`` is the position of the RelationAdded that said it last: which relation was meant, once its words are erased.
    """

    subject: Text | None
    relation: Text | None
    object: Text | None
    by: Id | None = None
    reason: Text | None = ""
    added: int = 0


# --- merge and conflict ----------------------------------------------------------------------------------------------


class MergeProposed(Event, frozen=True):
    """These memories are near duplicates: the least ``similarity`` of two of them, in millionths, by a ``rule``.

    ``content`` is how one memory would say it.
    """

    memories: tuple[Id, ...]
    similarity: int
    rule: Code
    content: Text | None = ""
    model: Text | None = ""


class MemoriesMerged(Event, frozen=True):
    """``memory`` supersedes ``memories``, in the same append."""

    memory: Id
    memories: tuple[Id, ...]
    rule: Code
    reason: Text | None = ""


class MergeRejected(Event, frozen=True):
    """They are not the same, and are not proposed again."""

    reason: Text | None = ""


class ConflictFound(Event, frozen=True):
    """Two or more active memories give one ``attribute`` ``values`` that cannot both be true at one time."""

    attribute: Text | None
    memories: tuple[Id, ...]
    values: tuple[Text, ...] | None
    rule: Code


class ConflictResolved(Event, frozen=True):
    """What somebody decided: "keep" (the ``winner``, which supersedes the others) or "accept" (all can be true)."""

    action: Code
    winner: Id | None = None
    reason: Text | None = ""


# --- observation -----------------------------------------------------------------------------------------------------


class Evidence(Struct, frozen=True):
    """A source that supports an observation, and when it was true in the world."""

    source: Id
    at: Time


class ObservationFormed(Event, frozen=True):
    """What several sources have in common, in one text.

    ``written_from`` are the sources that the wording was made from: without each of them it is stale. ``rule`` says how
    confidence follows ("proof/1" from the number of live sources, "given/1" as it was given); ``consolidator`` who formed
    it. ``tags`` bound it: its sources have them all.
    """

    content: Text | None
    confidence: int
    rule: Code
    consolidator: Code
    evidence: tuple[Evidence, ...]
    written_from: tuple[Id, ...] = ()
    tags: tuple[Text, ...] | None = ()
    reason: Text | None = ""


class ObservationRevised(Event, frozen=True):
    """Another wording; ``why`` is "redundant" (said better), "state_change", "resolve" or "curated".

    Without ``confidence`` and ``rule`` they stay as they are: a revision by hand says nothing of them.
    """

    content: Text | None
    why: Code
    consolidator: Code
    confidence: int | None = None
    rule: Code | None = None
    written_from: tuple[Id, ...] = ()
    reason: Text | None = ""


class EvidenceAdded(Event, frozen=True):
    """More sources of an observation."""

    evidence: tuple[Evidence, ...]
    consolidator: Code


class EvidenceWithdrawn(Event, frozen=True):
    """These sources support it no longer: ``why`` is "asked" or "contradicted"."""

    sources: tuple[Id, ...]
    why: Code
    reason: Text | None = ""


class ObservationMarkedStale(Event, frozen=True):
    """Its wording no longer matches its sources; until it is looked at again it is not recalled."""

    why: Code
    reason: Text | None = ""


class ObservationRefreshed(Event, frozen=True):
    """The wording holds, as the sources are now."""

    why: Code
    consolidator: Code


class ObservationRetracted(Event, frozen=True):
    """``why`` is "contradiction", "curated", "no_evidence" or "merged" (into ``by``)."""

    why: Code
    by: Id | None = None
    reason: Text | None = ""


class ObservationRestored(Event, frozen=True):
    """A retracted observation is active again."""

    reason: Text | None = ""


# --- keyed values: registered, so that a log with them can be read; no command appends them yet, no projection follows --


class ValuePut(Event, frozen=True):
    """What stands under a name from here, whole: a value's first event has its ``namespace`` and ``name``, a later one of
    the same value may leave them out. ``type`` is "json" or "text"; at ``expires_at`` it is no longer given."""

    content: Body | None
    type: Code = "json"
    namespace: tuple[Text, ...] | None = ()
    name: Text | None = ""
    expires_at: Time | None = None


class ValueMoved(Event, frozen=True):
    """The value has another name from here."""

    namespace: tuple[Text, ...] | None
    name: Text | None
    reason: Text | None = ""


class ValueRemoved(Event, frozen=True):
    """The value is no longer given."""

    reason: Text | None = ""


class ValueRestored(Event, frozen=True):
    """A removed value stands again under the name that it had."""

    reason: Text | None = ""


# --- the closed registry and the envelope ----------------------------------------------------------------------------


def _leaves(base: type[Event]) -> list[type[Event]]:
    return [each for kind in base.__subclasses__() for each in (kind, *_leaves(kind))]


TYPES: dict[str, type[Event]] = {kind.__name__: kind for kind in _leaves(Event)}

T = TypeVar("T")


class Redacted(Struct, frozen=True, omit_defaults=True):
    """A secret that was taken out of a text before it was recorded: a mark stands at characters ``start`` to ``end`` of the
    ``field`` ("content", "parts", "tags[2]"), for ``length`` characters of this ``kind``. No digest of a secret is kept: the
    key to it would lie in the same file."""

    field: Code
    kind: Code
    start: int
    end: int
    length: int
    scanner: Code


class Envelope(Struct, Generic[T], omit_defaults=True, kw_only=True, gc=False):
    """What is stored of an event: the JSON text of a row. ``position``, ``stream`` and ``version`` are columns next to it.

    ``user`` bounds everything; a user that was erased is null and belongs to nobody, never to ``""``. ``occurred_at``
    keeps the offset it was given with. ``redactions`` are the secrets taken out of ``data``. ``arguments`` is a keyed digest
    of the command's arguments, only with a key; ``key`` is that of the row, which the chain covers by it.

    A command goes by the id of its first event, in which ``command_id`` is left out, as is ``schema`` where it is 1.
    """

    event_id: Id
    schema: int = 1
    recorded_at: Time
    occurred_at: Time | None = None
    begun: Id | None = field(default=None, name="command_id")
    command: Code
    arguments: KeyedDigest | None = None
    key: KeyedDigest | None = None
    causation_id: Id | None = None
    correlation_id: Id | None = None
    actor: Text | None = ""
    client: Text | None = ""
    channel: Code = "user"
    user: Text | None = ""
    agent: Text | None = ""
    project: Id | None = None
    session: Id | None = None
    salt: Annotated[str, Meta(extra={"string": "salt"})] | None = None
    redactions: tuple[Redacted, ...] = ()
    data: T

    @property
    def command_id(self) -> str:
        return self.begun or self.event_id


class Recorded(Struct, Generic[T], frozen=True, gc=False):
    """An event with its place in the log: what folds and readers receive.

    ``first`` is the position of the first event of its stream: the integer that stands for the subject in every table.
    """

    position: int
    first: int
    stream: str
    version: int
    type: str
    envelope: Envelope[T]
    key: bytes | None = None

    @property
    def data(self) -> T:
        return self.envelope.data


class Unknown(Struct, frozen=True):
    """Data of a type or schema newer than this product: kept as it is, never interpreted."""

    raw: Raw


AnyEvent = Recorded[Any]


def string_fields(kind: type[Any]) -> dict[str, str]:
    """Each string-bearing field of a struct and what it was declared to be; undeclared strings are ``"?"``."""
    found: dict[str, str] = {}
    for name, hint in get_type_hints(kind, include_extras=True).items():
        if (what := _string_kind(hint)) is not None and not name.startswith("_"):
            found[name] = what
    return found


def _string_kind(hint: Any) -> str | None:
    if hint is str:
        return "?"
    for meta in getattr(hint, "__metadata__", ()):
        if isinstance(meta, Meta) and meta.extra:
            return str(meta.extra.get("string", "?"))
    kinds = {what for part in get_args(hint) if (what := _string_kind(part)) is not None}
    return "text" if "text" in kinds else min(kinds, default=None)


TEXT_FIELDS: dict[str, tuple[str, ...]] = {
    name: tuple(field for field, what in string_fields(kind).items() if what == "text") for name, kind in TYPES.items()
}
