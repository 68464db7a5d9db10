"""What ``add`` answers: what became of messages, and of what was in them."""

from __future__ import annotations

from ledger.engine.answer import Answer


class Noted(Answer, frozen=True, kw_only=True):
    """A memory that was made or concerned, and ``why``. In a dry run what does not exist yet has no ``id``."""

    id: str
    content: str | None
    kind: str = ""
    confidence: float = 0.0
    why: str


class Added(Answer, frozen=True, kw_only=True):
    """What became of messages. ``session`` has them (``new_session``: it began with them); ``messages`` were appended, ``known``
    were there, ``left_out`` say nothing or are instructions to the model; ``turns`` are the interactions captured or answered.

    ``learned`` are memories that are active now, ``proposed`` candidates that wait for review, ``reinforced`` those that an
    answer restates, ``contradicted`` those that it denies, that something new supersedes, or that stand in a conflict;
    ``reasons`` say what did not become a memory, and why. ``observations`` were formed or revised, ``calls`` made to a model.
    ``warnings`` name the secrets that were redacted, by field and kind. ``stopped`` is "timeout" or "cancelled" where the same
    call goes on. ``correlation_id`` is that of all its commands, for ``history.undo_all``; None where nothing was written.
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
        """The ids of what was learned and proposed, for ``memories.get`` and ``promote``."""
        return tuple(each.id for each in (*self.learned, *self.proposed) if each.id)
