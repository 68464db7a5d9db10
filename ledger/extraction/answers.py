"""The answers of ``add``, of ``learning`` and of an extraction: the results for messages, and for memories found in them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import field

from ledger.core.call import Answer
from ledger.memories.answers import Memory

if TYPE_CHECKING:
    from ledger.models.port import ModelRequest


class Noted(Answer, frozen=True, kw_only=True):
    """A memory that was made or concerned, and ``why``. A memory that a dry run would make has no ``id``."""

    id: str
    content: str | None
    kind: str = ""
    confidence: float = 0.0
    why: str


class Added(Answer, frozen=True, kw_only=True):
    """The results of ``add``.

    - ``session``: the session with the messages; ``new_session``: it began with them
    - ``messages`` were appended, ``known`` were already there, ``left_out`` have no words or are instructions to the model
    - ``turns``: the interactions captured or answered
    - ``learned``: memories that are active now; ``proposed``: candidates that wait for review
    - ``reinforced``: memories that an answer restates
    - ``contradicted``: memories that an answer denies, that ended, or that stand in a conflict
    - ``changed``: those of them that the messages ended or replaced, as "I no longer …" does; ``history.undo_all`` of the
      ``correlation_id`` brings them back
    - ``reasons``: why findings did not become memories
    - ``observations`` were formed or revised; ``calls`` were made to a model
    - ``warnings``: the secrets that were redacted, by field and kind
    - ``stopped``: "timeout" or "cancelled" if a repetition of the call continues the work
    - ``correlation_id``: the id shared by all commands of the call, for ``history.undo_all``; None if nothing was written
    """

    session: str
    messages: int = 0
    learned: tuple[Noted, ...] = ()
    proposed: tuple[Noted, ...] = ()
    reinforced: tuple[Noted, ...] = ()
    contradicted: tuple[Noted, ...] = ()
    changed: tuple[Noted, ...] = ()
    reasons: tuple[str, ...] = ()
    turns: tuple[str, ...] = ()
    correlation_id: str | None = None
    stopped: str = ""
    known: int = 0
    left_out: int = 0
    observations: int = 0
    calls: int = 0
    new_session: bool = False
    dry_run: bool = False
    replayed: bool = False
    warnings: tuple[str, ...] = ()

    @property
    def memories(self) -> tuple[str, ...]:
        """Return the ids of learned and proposed memories, for ``memories.get`` and ``promote``."""
        return tuple(memory.id for memory in (*self.learned, *self.proposed) if memory.id)


class Unread(Answer, frozen=True, kw_only=True):
    """Turns that no model has read, as a request to a model, and the token with which its answer is handed in.

    - ``instructions`` are the product's own words for the model, and ``content`` the known facts and the messages, as data,
      numbered from 1; ``answer_schema`` is the JSON Schema of the answer
    - ``turns`` and ``messages`` count what is shown, ``more`` the turns that are left
    - ``facts`` are the ids of the known facts, in the order of their numbers
    - ``tokens`` are about those of the request
    - ``token`` goes to ``learning.learn``, within ten minutes; "" if there is nothing to read
    - ``held_until``: the time until which another reader has the unread turns; None if they are free
    """

    token: str = ""
    turns: int = 0
    messages: int = 0
    more: int = 0
    facts: tuple[str, ...] = ()
    tokens: int = 0
    held_until: str | None = None
    instructions: str = ""
    content: str = ""
    answer_schema: Mapping[str, object] = field(default_factory=dict)

    @property
    def request(self) -> ModelRequest:
        """Return the request that a configured model would get."""
        from ledger.models import extracting

        return extracting.of_texts(self.instructions, self.content)


class ReadToday(Answer, frozen=True, kw_only=True):
    """The ``tokens`` of the requests that were read since midnight in UTC, and the midnight that ends the day, ``until``."""

    tokens: int = 0
    until: str = ""


class Learned(Answer, frozen=True, kw_only=True):
    """The results of an answer that was handed in.

    - ``learned``: memories that are active now; ``proposed``: candidates that wait for review
    - ``contradicted``: memories that the answer replaces or ends, or that wait for a person who decides if they ended
    - ``dropped``: the proposals that were not recorded, each with its ``reason``
    - ``relations``: the number of stated relations
    - ``turns``: the number of turns that count as read now; ``more``: the turns that are left to read
    - ``reader``: whose answer it was
    - ``replayed``: the same answer was handed in before, and nothing was recorded
    """

    learned: tuple[Noted, ...] = ()
    proposed: tuple[Noted, ...] = ()
    contradicted: tuple[Noted, ...] = ()
    dropped: tuple[dict[str, object], ...] = ()
    relations: int = 0
    turns: int = 0
    more: int = 0
    reader: str = ""
    dry_run: bool = False
    replayed: bool = False
    warnings: tuple[str, ...] = ()

    @property
    def memories(self) -> tuple[str, ...]:
        """Return the ids of learned and proposed memories."""
        return tuple(memory.id for memory in (*self.learned, *self.proposed))


class ExtractionReport(Answer, frozen=True, kw_only=True):
    """The result of an extraction from an ``interaction`` or a ``session``.

    ``kept`` are the new memories, ``superseded`` the ids of memories that a new memory replaced, ``retracted`` the ids of
    memories that the user took back, ``relations`` the number of stated relations, ``dropped`` the proposals that were dropped,
    each with its ``reason``. For a session, ``messages`` counts the messages that were searched, ``skipped`` the messages that
    were not shown to a model because they held nothing to remember, and ``cursor`` is the position after which the next
    extraction begins. ``failure`` is the reason why a model's call failed. ``stopped`` is the reason why messages were left
    ("under_way", "moved", "cancelled", "enough") or not read ("ignored", "stateless").
    """

    interaction: str = ""
    session: str = ""
    extractor: str
    kept: tuple[Memory, ...] = ()
    dropped: tuple[dict[str, Any], ...] = ()
    superseded: tuple[str, ...] = ()
    retracted: tuple[str, ...] = ()
    relations: int = 0
    messages: int = 0
    skipped: int = 0
    calls: int = 0
    failure: str = ""
    stopped: str = ""
    cursor: int = 0
    dry_run: bool = False
    replayed: bool = False
