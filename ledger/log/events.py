"""The base of every event with the types of its fields, and the events of the ledger itself.

An event declares with its fields what an undo, an erasure and the guards ask of it. The ledger's own events are its format, undo,
distrust, erasure and seals, calls of models, and recalls.
"""

from typing import Annotated, ClassVar, Literal

from msgspec import Meta, Raw, Struct, field

Text = Annotated[str, Meta(extra={"string": "text"})]
Code = Annotated[str, Meta(extra={"string": "code"})]
Id = Annotated[str, Meta(extra={"string": "id"})]
Time = Annotated[str, Meta(extra={"string": "time"})]
KeyedDigest = Annotated[str, Meta(extra={"string": "keyed digest"})]
Digest = Annotated[str, Meta(extra={"string": "digest"})]
Secret = Annotated[str, Meta(extra={"string": "secret"})]
Json = Annotated[Raw, Meta(extra={"string": "text"})]

NO_PARTS, NOTHING = Raw(b"[]"), Raw(b"{}")  # msgspec omits a default of type Raw only if it is this same object

ESTIMATE = "estimate/1"  # the default counter of tokens, which is not stored


Effect = Literal["reversible", "lasting", "inert", "act", "name"]
Role = Literal["cites", "rests_on", "replaces", "about", "part", "shown", "ends"]


class Traits(Struct, frozen=True):
    """The role of an event in the log.

    Values of ``effect``:

    - "reversible": an undo can make the event void; "lasting": nothing can
    - "inert": the event reports something and changes no subject
    - "act": the event makes other events void, or puts them back
    - "name": the event names a project or a session, which others may use by the time of an undo
    """

    effect: Effect
    begins: str = ""  # the kind of subject that begins with this event
    whole: bool = False  # the event is about several subjects, and falls only with its whole command
    governs: Literal["", "policy", "project", "session"] = ""  # later commands depend on this state of the event
    falls_with_cause: bool = True  # otherwise the event rests on its sources, and not on its cause
    # The format of the log that introduced the event or its schema; LedgerUpgraded announces it before its first use.
    since: int = 1
    quarantined_as: str = ""  # the name of its text in a quarantine by position; a memory is quarantined by its id


class Ref(Struct, frozen=True):
    """The role of an id, or of each of several ids, for the event that has it.

    Values of ``role``:

    - "cites": the event's words come from the subject; "rests_on": the ground of an act, without which the act falls
    - "replaces": the event takes the subject's place; "ends": the act that the event ends
    - "part": a part of the event's own subject; "about": another subject that the event reports on
    - "shown": the subject was shown to a model or a person
    """

    role: Role
    needs: Literal["any", "all"] = "all"  # the event stands while any of the ids does, or only with all of them
    among: Literal["ids", "anything"] = "ids"  # "anything": stored as the caller gave them, perhaps not ids at all


class Use(Struct, frozen=True):
    """A use of a text in an event; a text may have several uses, and most texts have none.

    - "name": something is looked up by the text, so that nothing in it can be redacted; "repeats": the text repeats such a name
    - "label": a name that a prompt shows and a person types: a threat or an invisible character in it is refused
    - "belief": recall gives the text as true, and a threat in it may refuse it; "material": recall quotes it; it is always kept
    - "quotes": an event of the ledger's own stream quotes a text from a session or project, and is erased with that
    - "coined": a user's own word may stand where the product has a vocabulary
    - "exact": the text is kept exactly as it was given, so that a secret in it is refused and never redacted
    - "json": the text is JSON in the form of another program, so that a secret is redacted within the JSON's own texts
    """

    use: Literal["name", "label", "repeats", "belief", "material", "quotes", "coined", "exact", "json"]


class EventData(Struct, frozen=True, omit_defaults=True, gc=False):
    """The base of every event's data; ``schema`` is the version of its fields, counted per type from 1."""

    schema: ClassVar[int] = 1
    traits: ClassVar[Traits]


class Blob(Struct, frozen=True):
    """A text above 256 KiB that lies in the blobs table: its id, its size in bytes, and SHA-256 of salt + bytes in hex."""

    blob: Annotated[Id, Ref("part")]
    size_bytes: int
    digest: KeyedDigest


Body = Text | Blob

Ranges = tuple[tuple[int, int], ...]


class Dropped(Struct, frozen=True, omit_defaults=True):
    """A value that the extractor found and did not keep: the rule, the span, and the reason.

    The span lies in ``field``, of the message at ``position`` if that is not 0.
    """

    rule: Code
    field: Code
    start: int
    end: int
    why: Code
    memory: Annotated[Id | None, Ref("about")] = None
    position: int = 0


# --- the events of the ledger itself -----------------------------------------------------------------------------------

FORMAT = 1
LEDGER_STREAM = "ledger"
BY_MODEL = "extract/"  # how the names of the extractors begin that are models
MODEL_EXTRACTOR = f"{BY_MODEL}3"  # the extractor in the origin of a memory that a model found
CITES = "cites"  # the action in a recorded call that gives the message a model named for a memory


class LedgerCreated(EventData, frozen=True):
    """The first event: the id of the ledger, its format, and the least formats that read and write it.

    ``secret`` is the key of all keyed digests; no read shows it.
    """

    traits: ClassVar[Traits] = Traits("lasting", begins="ledger")

    ledger_id: Annotated[Id, Ref("about")]
    format: int
    least_reader: int
    least_writer: int
    secret: Secret


class LedgerUpgraded(EventData, frozen=True):
    """From here the log may hold events that readers and writers of older formats do not know."""

    traits: ClassVar[Traits] = Traits("lasting")

    format: int
    least_reader: int
    least_writer: int


class PolicyAdopted(EventData, frozen=True):
    """These parameters hold from here for one user; other parameters stay as they are. Projects are given by their ids."""

    traits: ClassVar[Traits] = Traits("reversible", governs="policy")

    parameters: dict[Code, int | bool | Code | tuple[Code, ...]]
    reason: Text | None = ""


class CommandAnswered(EventData, frozen=True):
    """A keyed command that had nothing to append; the answer was ``subject`` as of position ``seen``."""

    traits: ClassVar[Traits] = Traits("inert")

    subject: Annotated[Id, Ref("about")]
    seen: int


class CommandUndone(EventData, frozen=True):
    """The events at these positions (inclusive ranges) are void from here."""

    traits: ClassVar[Traits] = Traits("act")

    commands: Annotated[tuple[Id, ...], Ref("about")]
    ranges: Ranges
    reason: Text | None = ""


class CommandRedone(EventData, frozen=True):
    """The events at these positions count again; ``undone`` is the command that made them void."""

    traits: ClassVar[Traits] = Traits("act")

    undone: Annotated[Id, Ref("ends")]
    ranges: Ranges
    reason: Text | None = ""


class OriginDistrusted(EventData, frozen=True):
    """Everything that an origin recorded from the position ``since`` on, with its effects, is void from here.

    With ``until``, only what the origin recorded before that position is void, and what it writes later counts. ``kind`` is the
    kind of ``origin``: "actor", "client" or "agent" (a name), or "session", "interaction", "document" (an id).
    """

    traits: ClassVar[Traits] = Traits("act")

    kind: Code
    origin: Annotated[Text | None, Use("repeats")]
    ranges: Ranges
    since: int = 1
    until: int | None = None
    reason: Text | None = ""


class OriginTrusted(EventData, frozen=True):
    """The events at these positions count again; ``distrusted`` is the command that made them void."""

    traits: ClassVar[Traits] = Traits("act")

    distrusted: Annotated[Id, Ref("ends")]
    ranges: Ranges
    reason: Text | None = ""


VOIDING, PUT_BACK = (CommandUndone, OriginDistrusted), (CommandRedone, OriginTrusted)
WAYS_BACK = VOIDING + PUT_BACK  # each has ``ranges``; the events in them are folded again


class Redaction(Struct, frozen=True, omit_defaults=True):
    """The erasure of one event's texts: whole fields by name become null, spans (field, start, end) of characters U+2588.

    ``before`` and ``after`` are SHA-256 (hex) of the state's bytes. Fields of the data are named "data.content" and so on,
    those of the envelope by their name. The salt, and the keyed digests of the erased texts, become null too.
    """

    position: int
    before: Digest
    after: Digest
    fields: tuple[Code, ...] = ()
    spans: tuple[tuple[Code, int, int], ...] = ()


class ContentErased(EventData, frozen=True):
    """Texts that are gone: from these rows of the log, and whole blobs. ``kind`` and ``subject`` are the request."""

    traits: ClassVar[Traits] = Traits("lasting")

    kind: Code
    subject: Annotated[Id | None, Ref("about")]
    targets: tuple[Redaction, ...]
    blobs: Annotated[tuple[Id, ...], Ref("about")] = ()
    kept: tuple[int, ...] = ()
    reason: Text | None = ""


class ErasureCompleted(EventData, frozen=True):
    """Projections, indexes and files no longer hold what the command ``erasure`` erased, with the search that showed it.

    ``replica`` names the copy of the projections that was searched, where there are several; "" is the copy in the ledger's file.
    """

    traits: ClassVar[Traits] = Traits("lasting")

    erasure: Annotated[Id, Ref("about")]
    searched: tuple[Code, ...]
    bytes_searched: int
    hits: int = 0
    replica: Code = ""


class LegalHoldPlaced(EventData, frozen=True):
    """Nothing of the subject may be erased; without a subject, nothing of the user."""

    traits: ClassVar[Traits] = Traits("lasting")

    subject: Annotated[Id | None, Ref("about")]
    reason: Text | None = ""


class LegalHoldReleased(EventData, frozen=True):
    """The end of a legal hold; ``hold`` is the command that placed it."""

    traits: ClassVar[Traits] = Traits("lasting")

    hold: Annotated[Id, Ref("ends")]
    reason: Text | None = ""


class CheckpointSealed(EventData, frozen=True):
    """The log up to ``size`` events, as one Merkle root (RFC 6962) and the head of the chain.

    ``peaks`` are the roots of the full subtrees of the tree, so that the next checkpoint begins where this one ended.
    """

    traits: ClassVar[Traits] = Traits("lasting")

    size: int
    root: Digest
    head: Digest
    peaks: tuple[Digest, ...]


class WriteRefused(EventData, frozen=True):
    """A write that a rule refused, in labels and numbers, never with the text. A scanner's ``finding`` is a label too."""

    traits: ClassVar[Traits] = Traits("lasting")

    rule: Code
    subject: Annotated[Id | None, Ref("about")] = None
    limit: int | None = None
    current: int | None = None
    requested: int | None = None
    finding: Code = ""
    scanner: Code = ""


class TextQuarantined(EventData, frozen=True):
    """A finding of a scanner in the text of the event at ``position``: recall gives nothing of the text until it is released.

    Memories have a quarantine of their own (MemoryQuarantined); this event is for captured, added and summarized texts.
    """

    traits: ClassVar[Traits] = Traits("reversible")

    position: int
    finding: Code = ""
    scanner: Code = ""
    reason: Text | None = ""


class TextReleased(EventData, frozen=True):
    """The end of a text's quarantine: by a person, or because a later ``scanner`` finds nothing."""

    traits: ClassVar[Traits] = Traits("reversible")

    position: int
    scanner: Code = ""
    reason: Text | None = ""


class Acted(Struct, frozen=True, omit_defaults=True):
    """An action that a model asked for.

    ``outcome`` is "kept" or why the action was dropped. ``subject`` is the result, and ``target`` the shown item that the action
    was about. The action "cites" gives for a result in ``subject`` the message that the model named for it (the id of the
    message's event), or None if the model named none of the messages it was shown.
    """

    what: Code
    outcome: Code
    subject: Annotated[Id | None, Ref("about")] = None
    target: Annotated[Id | None, Ref("about")] = None


class ModelCalled(EventData, frozen=True):
    """An answer of a model.

    ``ranges`` are the positions of the texts that the model was given. ``shown`` are the subjects that the numbers in its prompt
    stood for, in their order. ``texts`` holds the texts of dropped actions, in the order of ``actions``; a text is "" for a kept
    action, whose text lies with its subject, and for a text that must not be kept. ``left_over`` counts the actions beyond those
    listed.
    """

    traits: ClassVar[Traits] = Traits("inert", falls_with_cause=False)

    purpose: Code
    model: Text | None
    prompt: Code
    ranges: Ranges = ()
    shown: Annotated[tuple[Id, ...], Ref("shown")] = ()
    input_tokens: int = 0
    output_tokens: int = 0
    attempts: int = 1
    milliseconds: int = 0
    actions: tuple[Acted, ...] = ()
    texts: Annotated[tuple[Text, ...] | None, Use("quotes")] = ()
    left_over: int = 0


class ModelCallFailed(EventData, frozen=True):
    """A model did not answer, or its answer was not valid. ``error`` is the kind of failure, ``status`` that of HTTP.

    ``input_tokens`` are estimated for a command, which has read them, and else 0.
    """

    traits: ClassVar[Traits] = Traits("inert")

    purpose: Code
    model: Text | None
    prompt: Code
    error: Code
    ranges: Ranges = ()
    attempts: int = 1
    milliseconds: int = 0
    status: int | None = None
    input_tokens: int = 0


class ConsolidationCompleted(EventData, frozen=True):
    """A search of new sources, up to the log position ``to``, for what they have in common.

    ``over`` is their kind: "memories", "interactions", "messages", or "asked" if the caller named the sources. ``tags`` are
    those that the sources had to have. Counts are of observations, and of sources that were not used, by reason.
    """

    traits: ClassVar[Traits] = Traits("reversible", falls_with_cause=False)

    consolidator: Code
    over: Code
    to: int
    sources: int
    formed: int = 0
    revised: int = 0
    retracted: int = 0
    refreshed: int = 0
    skipped: dict[Code, int] = field(default_factory=dict)
    tags: Annotated[tuple[Text, ...] | None, Use("quotes")] = ()


class ConsolidationFailed(EventData, frozen=True):
    """A consolidation that failed on the sources up to the log position ``to``; ``error`` is the kind of failure."""

    traits: ClassVar[Traits] = Traits("reversible", falls_with_cause=False)

    consolidator: Code
    over: Code
    to: int
    error: Code
    tags: Annotated[tuple[Text, ...] | None, Use("quotes")] = ()


class Delivered(Struct, frozen=True, omit_defaults=True):
    """An entry of a pack, by its id.

    ``position`` is that of a memory's state, or that of the event with the words of a chunk, an interaction (in its ``field``) or
    a project's state; the entry has the characters ``start`` to ``end``. Scores are in millionths. ``cut`` says why the entry was
    left out of the pack, and ``section`` names the section of a context.
    """

    subject: Annotated[Id, Ref("shown")]
    position: int
    score: int
    signals: dict[Code, int] = field(default_factory=dict)
    field: Code = ""
    start: int = 0
    end: int = 0
    cut: Code = ""
    section: Code = ""


class RecallDelivered(EventData, frozen=True):
    """The result of a recall at the log position ``seen``: its settings and every entry in rank order, without their texts.

    ``warnings`` are words of the product and of the model that the recall used, which may repeat the texts it was given.
    """

    traits: ClassVar[Traits] = Traits("inert")

    query: Annotated[Body | None, Use("quotes")]
    seen: int
    settings: dict[Code, int | Code | tuple[Code, ...] | None]
    items: tuple[Delivered, ...] = ()
    searched: int = 0
    used: int = 0
    warnings: Annotated[tuple[Text, ...] | None, Use("quotes")] = ()


class ProjectionSuspended(EventData, frozen=True):
    """A projection could not fold the event at ``position``; the others went on. ``error`` is the kind of failure."""

    traits: ClassVar[Traits] = Traits("lasting")

    projection: Code
    position: int
    error: Code


class ProjectionResumed(EventData, frozen=True):
    """A suspended projection was computed again and is level with the others."""

    traits: ClassVar[Traits] = Traits("lasting")

    projection: Code


class ProjectionsRebuilt(EventData, frozen=True):
    """These projections were computed again on request, from the log up to the position ``to``; no names mean all of them.

    There is no digest of the projections: after an erasure, a digest over rows with a text would confirm a guess of the text.
    """

    traits: ClassVar[Traits] = Traits("lasting")

    to: int
    projections: tuple[Code, ...] = ()


class LedgerBranched(EventData, frozen=True):
    """From here this is a ledger of its own, with this id.

    The events before are a copy of the ledger ``parent`` up to ``position`` and ``head``.
    """

    traits: ClassVar[Traits] = Traits("lasting")

    ledger_id: Annotated[Id, Ref("about")]
    parent: Annotated[Id, Ref("about")]
    position: int
    head: Digest
    reason: Text | None = ""
