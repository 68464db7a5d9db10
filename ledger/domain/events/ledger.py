"""The events of the ledger itself: its format, what was undone, distrusted, erased and sealed, calls of models, recalls."""

from typing import Annotated

from msgspec import Struct, field

from ledger.domain.events.base import Body, Code, Digest, Event, Id, Ranges, Ref, Secret, Text, Traits, Use

FORMAT = 1
LEDGER_STREAM = "ledger"


class LedgerCreated(Event, frozen=True):
    """The first event: the id of the ledger, its format, and the least format that reads and writes it. ``secret`` is the key of
    all keyed digests; no read shows it."""

    traits = Traits("lasting", begins="ledger")

    ledger_id: Annotated[Id, Ref("about")]
    format: int
    least_reader: int
    least_writer: int
    secret: Secret


class LedgerUpgraded(Event, frozen=True):
    """From here the log may hold what readers and writers before these formats do not know."""

    traits = Traits("lasting")

    format: int
    least_reader: int
    least_writer: int


class PolicyAdopted(Event, frozen=True):
    """These parameters hold from here for one user; the others stay as they are."""

    traits = Traits("reversible", governs="policy")

    parameters: dict[Code, int | bool | Code]
    reason: Text | None = ""


class CommandAnswered(Event, frozen=True):
    """A keyed command that had nothing to append; the answer was ``subject`` as of position ``seen``."""

    traits = Traits("inert")

    subject: Annotated[Id, Ref("about")]
    seen: int


class CommandUndone(Event, frozen=True):
    """The events at these positions (inclusive ranges) are void from here."""

    traits = Traits("act")

    commands: Annotated[tuple[Id, ...], Ref("about")]
    ranges: Ranges
    reason: Text | None = ""


class CommandRedone(Event, frozen=True):
    """Those events count again; ``undone`` is the command that made them void."""

    traits = Traits("act")

    undone: Annotated[Id, Ref("ends")]
    ranges: Ranges
    reason: Text | None = ""


class OriginDistrusted(Event, frozen=True):
    """What an origin recorded from the position ``since`` on, and all it caused, is void from here.

    With ``until`` only what it recorded before that position is meant, and what it writes later counts. ``kind`` says what
    ``origin`` is: "actor", "client" or "agent" (a name), or "session", "interaction", "document" (an id).
    """

    traits = Traits("act")

    kind: Code
    origin: Annotated[Text | None, Use("repeats")]
    ranges: Ranges
    since: int = 1
    until: int | None = None
    reason: Text | None = ""


class OriginTrusted(Event, frozen=True):
    """Those events count again; ``distrusted`` is the command that made them void."""

    traits = Traits("act")

    distrusted: Annotated[Id, Ref("ends")]
    ranges: Ranges
    reason: Text | None = ""


VOIDING, PUT_BACK = (CommandUndone, OriginDistrusted), (CommandRedone, OriginTrusted)
WAYS_BACK = VOIDING + PUT_BACK  # each has ``ranges``; what is folded again is all that lies in them


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

    traits = Traits("lasting")

    kind: Code
    subject: Annotated[Id | None, Ref("about")]
    targets: tuple[Redaction, ...]
    blobs: Annotated[tuple[Id, ...], Ref("about")] = ()
    kept: tuple[int, ...] = ()
    reason: Text | None = ""


class ErasureCompleted(Event, frozen=True):
    """Projections, indexes and files no longer hold what the command ``erasure`` erased: what was searched, and how.

    ``replica`` names the copy of the projections that was searched, where there are several; "" is the one in the file.
    """

    traits = Traits("lasting")

    erasure: Annotated[Id, Ref("about")]
    searched: tuple[Code, ...]
    bytes_searched: int
    hits: int = 0
    replica: Code = ""


class LegalHoldPlaced(Event, frozen=True):
    """Nothing of the subject may be erased; without one, nothing of the user."""

    traits = Traits("lasting")

    subject: Annotated[Id | None, Ref("about")]
    reason: Text | None = ""


class LegalHoldReleased(Event, frozen=True):
    """``hold`` is the command that placed it."""

    traits = Traits("lasting")

    hold: Annotated[Id, Ref("ends")]
    reason: Text | None = ""


class CheckpointSealed(Event, frozen=True):
    """The log up to ``size`` events, as one Merkle root (RFC 6962) and the head of the chain; ``peaks`` are the roots of the
    full subtrees that the tree consists of, so that the next checkpoint begins where this one ended."""

    traits = Traits("lasting")

    size: int
    root: Digest
    head: Digest
    peaks: tuple[Digest, ...]


class WriteRefused(Event, frozen=True):
    """A write that a rule refused: labels and numbers, never the text. A scanner's ``finding`` is a label too."""

    traits = Traits("lasting")

    rule: Code
    subject: Annotated[Id | None, Ref("about")] = None
    limit: int | None = None
    current: int | None = None
    requested: int | None = None
    finding: Code = ""
    scanner: Code = ""


class TextQuarantined(Event, frozen=True):
    """A scanner found something in the text of the event at ``position``: nothing of it is recalled until it is released.

    Memories have a quarantine of their own (MemoryQuarantined); this is for what was captured, added or summarized.
    """

    traits = Traits("reversible")

    position: int
    finding: Code = ""
    scanner: Code = ""
    reason: Text | None = ""


class TextReleased(Event, frozen=True):
    """It may be recalled again: somebody says so, or a later ``scanner`` finds nothing in it."""

    traits = Traits("reversible")

    position: int
    scanner: Code = ""
    reason: Text | None = ""


class Acted(Struct, frozen=True, omit_defaults=True):
    """One action that a model asked for: ``what``; "kept", or why it was dropped; what it came to (``subject``); and which
    of the items that it was shown it was about (``target``). "cites" says for what came about in ``subject`` the message
    that the model named for it (the id of its event), or None where it named none that it was shown."""

    what: Code
    outcome: Code
    subject: Annotated[Id | None, Ref("about")] = None
    target: Annotated[Id | None, Ref("about")] = None


class ModelCalled(Event, frozen=True):
    """A model answered. ``ranges`` are the positions of what it was given to read, ``shown`` what the numbers in its prompt
    stood for, in their order.

    ``texts`` has what the actions said that were dropped, in the order of ``actions`` ("" for what was kept, which lies with
    its subject, and for what must not be kept); ``left_over`` counts the actions beyond those listed.
    """

    traits = Traits("inert", falls_with_cause=False)

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


class ModelCallFailed(Event, frozen=True):
    """A model did not answer, or not so that it could be understood; ``error`` is the kind of failure, ``status`` HTTP's."""

    traits = Traits("inert")

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

    ``over`` says of what kind ("memories", "interactions", "messages" or "asked", where the sources were named); ``tags``
    are those that the sources had to have. Counts are of observations, and of what was not taken, by reason.
    """

    traits = Traits("reversible", falls_with_cause=False)

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


class ConsolidationFailed(Event, frozen=True):
    """A consolidation that failed on the sources up to the log position ``to``; ``error`` is the kind of failure."""

    traits = Traits("reversible", falls_with_cause=False)

    consolidator: Code
    over: Code
    to: int
    error: Code
    tags: Annotated[tuple[Text, ...] | None, Use("quotes")] = ()


class Delivered(Struct, frozen=True, omit_defaults=True):
    """One entry of a pack, by its id: a memory and the position that it stood at, or the position of the event that has the
    words of a chunk, an interaction (and the ``field`` in it) or a project's state; characters ``start`` to ``end`` of them.
    Scores are in millionths; ``cut`` says why it was left out of the pack, ``section`` is that of a context."""

    subject: Annotated[Id, Ref("shown")]
    position: int
    score: int
    signals: dict[Code, int] = field(default_factory=dict)
    field: Code = ""
    start: int = 0
    end: int = 0
    cut: Code = ""
    section: Code = ""


class RecallDelivered(Event, frozen=True):
    """What a recall gave at the log position ``seen``: asked how, and every entry in rank order, without their texts.

    ``warnings`` are words of the product and of the model it was asked with, which may repeat what it was given.
    """

    traits = Traits("inert")

    query: Annotated[Body | None, Use("quotes")]
    seen: int
    settings: dict[Code, int | Code | tuple[Code, ...] | None]
    items: tuple[Delivered, ...] = ()
    searched: int = 0
    used: int = 0
    warnings: Annotated[tuple[Text, ...] | None, Use("quotes")] = ()


class ProjectionSuspended(Event, frozen=True):
    """A projection could not fold the event at ``position``; the others went on. ``error`` is the kind of failure."""

    traits = Traits("lasting")

    projection: Code
    position: int
    error: Code


class ProjectionResumed(Event, frozen=True):
    """A suspended projection was computed again and stands where the others do."""

    traits = Traits("lasting")

    projection: Code


class ProjectionsRebuilt(Event, frozen=True):
    """Somebody had these projections computed again from the log up to the position ``to``; none named are all of them.

    No digest of them: one over rows with a text in them would confirm a guess of the text after its erasure.
    """

    traits = Traits("lasting")

    to: int
    projections: tuple[Code, ...] = ()


class LedgerBranched(Event, frozen=True):
    """From here this is a ledger of its own, with this id: what is before is a copy of the ledger ``parent`` up to ``position``
    and ``head``."""

    traits = Traits("lasting")

    ledger_id: Annotated[Id, Ref("about")]
    parent: Annotated[Id, Ref("about")]
    position: int
    head: Digest
    reason: Text | None = ""
