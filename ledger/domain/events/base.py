"""What a field of an event can hold, what an event and an id in it are to others, and the base of every event."""

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

NO_PARTS, NOTHING = Raw(b"[]"), Raw(b"{}")  # msgspec leaves a default of JSON out only where it is this very object

ESTIMATE = "estimate/1"  # the counter of tokens that is not named where it counted


Effect = Literal["reversible", "lasting", "inert", "act", "name"]
Role = Literal["cites", "rests_on", "replaces", "about", "part", "shown", "ends"]


class Traits(Struct, frozen=True):
    """What an event is to the rest of the log. Of ``effect``:

    - "reversible": an undo can make it void; "lasting": nothing can
    - "inert": it says something, and changes no subject
    - "act": it makes other events void, or gives them back
    - "name": it names a project or a session, which others may use by the time that it is undone
    """

    effect: Effect
    begins: str = ""  # the kind of subject that is there from it on
    whole: bool = False  # it is about several subjects, and falls only with its whole command
    governs: Literal["", "policy", "project", "session"] = ""  # by what of it later commands are decided, or found
    falls_with_cause: bool = True  # otherwise it rests on its sources, and not on what caused it
    since: int = (
        1  # the format of the log in which it came, or its schema: announced by LedgerUpgraded before its first use
    )
    quarantined_as: str = ""  # what its text is called, which is quarantined by its position; a memory is so itself


class Ref(Struct, frozen=True):
    """What an id, or each of several, is to the event that has it. Of ``role``:

    - "cites": its words come from it; "rests_on": the ground of an act, without which it falls
    - "replaces": it takes the place of it; "ends": the act that it ends
    - "part": what of its own subject it brings or is about; "about": what else it says something of
    - "shown": what a model or a person was given
    """

    role: Role
    needs: Literal["any", "all"] = "all"  # it stands while any of the ids does, or only with all of them
    among: Literal["ids", "anything"] = "ids"  # "anything": kept as they were given, they may be none of ours


class Use(Struct, frozen=True):
    """What a text in an event is used for; one may have several uses, and most have none.

    - "name": something is looked up by it, so that nothing in it can be redacted; "repeats": it repeats such a name
    - "belief": recall gives it as what is so, and a threat in it may refuse it; "material": as what was said, always kept
    - "quotes": an event of the ledger itself has what was said elsewhere, and goes with the session or project of that
    - "coined": a word of people's own may stand where a word of ours does
    """

    use: Literal["name", "repeats", "belief", "material", "quotes", "coined"]


class Event(Struct, frozen=True, omit_defaults=True, gc=False):
    """The base of every event's data; ``schema`` is the version of its fields, counted per type from 1."""

    schema: ClassVar[int] = 1
    traits: ClassVar[Traits]


class Blob(Struct, frozen=True):
    """A text above 256 KiB that lies in the blobs table: its id, its size in bytes, SHA-256 of salt + bytes in hex."""

    blob: Annotated[Id, Ref("part")]
    size_bytes: int
    digest: KeyedDigest


Body = Text | Blob

Ranges = tuple[tuple[int, int], ...]


class Dropped(Struct, frozen=True, omit_defaults=True):
    """A value the extractor found and did not keep: the rule, the span in ``field`` (of the message at ``position``), and
    why."""

    rule: Code
    field: Code
    start: int
    end: int
    why: Code
    memory: Annotated[Id | None, Ref("about")] = None
    position: int = 0
