"""The answers of ``add``: the results for messages, and for memories found in them."""

from __future__ import annotations

from typing import Any

from ledger.core.answer import Answer
from ledger.memories.answers import Memory


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
    - ``contradicted``: memories that an answer denies, that something new supersedes, or that stand in a conflict
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
