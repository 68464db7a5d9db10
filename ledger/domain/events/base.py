"""What a field of an event can hold, and the base of every event."""

from __future__ import annotations

from typing import Annotated, ClassVar

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


class Event(Struct, frozen=True, omit_defaults=True, gc=False):
    """The base of every event's data; ``schema`` is the version of its fields, counted per type from 1."""

    schema: ClassVar[int] = 1


class Blob(Struct, frozen=True):
    """A text above 256 KiB that lies in the blobs table: its id, its size in bytes, SHA-256 of salt + bytes in hex."""

    blob: Id
    size_bytes: int
    digest: KeyedDigest


Body = Text | Blob

Ranges = tuple[tuple[int, int], ...]
LIST_ITEMS = 2_000  # of one list in one event; a longer one is spread over several events of the same append


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
