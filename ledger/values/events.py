"""The events of a keyed value: put, moved, removed and restored."""

from typing import Annotated, ClassVar

from ledger.log.events import Body, Code, EventData, Text, Time, Traits, Use


class ValuePut(EventData, frozen=True):
    """The value under a name from here on; nothing of an earlier value under the name is left.

    The first event of a value has its ``namespace`` and ``name``; later events may leave them out. The API calls the name a
    key; in the log a key is the idempotency key of a command. ``type`` is "json" or "text". From ``expires_at`` on the value is
    no longer returned. A search finds the value only if ``indexed`` is true, and an object only by its ``fields`` if some are
    named.
    """

    traits: ClassVar[Traits] = Traits("reversible", begins="value", quarantined_as="value")

    content: Annotated[Body | None, Use("belief"), Use("exact")]
    type: Code = "json"
    namespace: Annotated[tuple[Text, ...] | None, Use("name"), Use("label")] = ()
    name: Annotated[Text | None, Use("name"), Use("label")] = ""
    expires_at: Time | None = None
    indexed: bool = True
    fields: Annotated[tuple[Text, ...] | None, Use("name")] = ()


class ValueMoved(EventData, frozen=True):
    """The value has another name from here."""

    traits: ClassVar[Traits] = Traits("reversible")

    namespace: Annotated[tuple[Text, ...] | None, Use("name"), Use("label")]
    name: Annotated[Text | None, Use("name"), Use("label")]
    reason: Text | None = ""


class ValueRemoved(EventData, frozen=True):
    """The value is no longer returned. ``rule`` is "expiry/1" if a job removed an expired value, "" if somebody removed it."""

    traits: ClassVar[Traits] = Traits("reversible")

    reason: Text | None = ""
    rule: Code = ""


class ValueRestored(EventData, frozen=True):
    """A removed or expired value is returned again, under the name that it had, until ``expires_at``."""

    traits: ClassVar[Traits] = Traits("reversible")

    reason: Text | None = ""
    expires_at: Time | None = None
