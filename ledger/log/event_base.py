"""The base of every event, the types of its fields, and the declarations that undo, erasure and the guards read."""

from typing import Annotated, ClassVar, Literal

from msgspec import Meta, Raw, Struct

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
