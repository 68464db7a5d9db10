"""The envelope around the data of an event, and an event as it is read."""

from typing import Annotated, Any, Generic, TypeVar

from msgspec import Meta, Raw, Struct, field

from ledger.log.event_base import Code, Id, KeyedDigest, Text, Time

T = TypeVar("T")


class Redacted(Struct, frozen=True, omit_defaults=True):
    """A secret that was taken out of a text before the text was recorded.

    A mark stands at characters ``start`` to ``end`` of the ``field`` ("content", "parts", "tags[2]"), in place of ``length``
    characters of this ``kind``. No digest of the secret is kept, for the key to the digest would lie in the same file.
    """

    field: Code
    kind: Code
    start: int
    end: int
    length: int
    scanner: Code


class Envelope(Struct, Generic[T], omit_defaults=True, kw_only=True, gc=False):
    """The stored form of an event: the JSON text of a row. ``position``, ``stream`` and ``version`` are columns next to it.

    ``user`` bounds everything; an erased user is null and belongs to nobody, never to ``""``. ``occurred_at`` keeps the offset
    it was given with. ``redactions`` are the secrets taken out of ``data``. ``arguments`` is a keyed digest of the command's
    arguments, present only with an idempotency key. ``key`` repeats the key of the row, so that the chain covers it.

    A command is named by the id of its first event, in which ``command_id`` is left out. A ``schema`` of 1 is left out too.
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
    """An event with its place in the log, as folds and readers receive it.

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
