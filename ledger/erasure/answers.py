"""The answers about erasures and legal holds."""

from __future__ import annotations

from ledger.core.call import Answer


class Erased(Answer, frozen=True, kw_only=True):
    """An event in a list of an erasure: the fields concerned, and the choice "erase", "cut", "keep", or "" without a choice.

    ``spans`` are (field, start, end) of the characters that become black, if a field does not go as a whole. ``excerpt`` belongs
    to a dry run only: the first words of each text, or the words around the black or quoted ones, between [[ and ]].
    """

    position: int
    subject: str
    type: str
    fields: tuple[str, ...]
    choice: str
    spans: tuple[tuple[str, int, int], ...] = ()
    excerpt: str | None = None


class Remaining(Answer, frozen=True, kw_only=True):
    """An event or a session name that still holds erased text: the text between [[ and ]], and the reason why it stays.

    For an event of another user only the position is given.
    """

    position: int
    subject: str | None = None
    type: str | None = None
    excerpt: str | None = None
    why: str


class ErasureReport(Answer, frozen=True, kw_only=True):
    """The report of an erasure in the state "dry run", "pending" (with ``why``), "stopped" or "completed".

    ``erased`` are the subject's own events. ``derived`` are the events of memories, summaries and observations made from the
    subject, ``sources`` the events from which the subject was made, ``quotes`` all other events with the same text.
    ``searched`` are the forms of the erased text for which the ``files`` were searched. ``hits`` counts the places whose text
    may stay, because it was kept or another event has the same text. ``remaining`` lists the first 20 of the
    ``remaining_total`` events that hold such a text; events without a choice are left out. ``earlier`` are the earlier erasures
    of the same call, if the erasure of a whole user takes several; each has a certificate of its own. ``stopped`` is "timeout"
    or "cancelled" if the call ended early: the listed events are erased for good, ``left`` events of the user are not, and the
    same call continues. ``projections`` are your own projections whose tables were emptied; a process that has their classes
    folds them again. ``own_tables`` are tables made by hand in this file (``my_``) that hold an erased text: they are searched
    and not changed.
    """

    state: str
    kind: str
    subject: str | None
    erased: tuple[Erased, ...]
    derived: tuple[Erased, ...] = ()
    sources: tuple[Erased, ...] = ()
    quotes: tuple[Erased, ...] = ()
    certificate: str | None = None
    why: str = ""
    reason: str | None = ""
    command_id: str | None = None
    position: int = 0
    recorded_at: str | None = None
    searched: tuple[str, ...] = ()
    bytes_searched: int = 0
    files: tuple[str, ...] = ()
    hits: int = 0
    remaining: tuple[Remaining, ...] = ()
    remaining_total: int = 0
    warnings: tuple[str, ...] = ()
    replayed: bool = False
    absorbed: bool = False
    earlier: tuple[ErasureReport, ...] = ()
    stopped: str = ""
    left: int = 0
    projections: tuple[str, ...] = ()
    own_tables: tuple[str, ...] = ()


class Hold(Answer, frozen=True, kw_only=True):
    """A legal hold: nothing of the subject, or without a subject nothing of the user, can be erased until the hold is lifted."""

    id: str
    subject: str | None
    user: str | None
    reason: str | None
    position: int
    recorded_at: str
    absorbed: bool = False
    replayed: bool = False
