"""The events of a keyed value: registered, so that a log with them can be read; no command appends them yet."""

from ledger.log.event_base import Body, Code, EventData, Text, Time, Traits


class ValuePut(EventData, frozen=True):
    """A value under a name, from here and whole.

    The first event of a value has its ``namespace`` and ``name``; later events may leave them out. ``type`` is "json" or "text".
    From ``expires_at`` on the value is no longer returned.
    """

    traits = Traits("reversible", begins="value")

    content: Body | None
    type: Code = "json"
    namespace: tuple[Text, ...] | None = ()
    name: Text | None = ""
    expires_at: Time | None = None


class ValueMoved(EventData, frozen=True):
    """The value has another name from here."""

    traits = Traits("reversible")

    namespace: tuple[Text, ...] | None
    name: Text | None
    reason: Text | None = ""


class ValueRemoved(EventData, frozen=True):
    """The value is no longer returned."""

    traits = Traits("reversible")

    reason: Text | None = ""


class ValueRestored(EventData, frozen=True):
    """A removed value is returned again, under the name that it had."""

    traits = Traits("reversible")

    reason: Text | None = ""
