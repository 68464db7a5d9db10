"""The answers about the history: reasons, the audit trail, the log, and comparisons of two moments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ledger.core.answer import Answer
from ledger.documents.answers import Chunk, Document
from ledger.interactions.answers import Interaction
from ledger.memories.answers import Belief, Memory, Provenance
from ledger.observations.answers import Evidence, Observation, Wording
from ledger.undo.answers import DECISIONS_STAND

if TYPE_CHECKING:
    from ledger.events import EventData, Unknown

    LogData = EventData | Unknown
else:
    LogData = Any  # msgspec must not decode this field by its type


class Step(Answer, frozen=True, kw_only=True):
    """An event behind a memory with its effect on the confidence. The ``delta`` of all steps add up to the confidence exactly."""

    position: int
    type: str
    recorded_at: str
    actor: str | None
    command: str
    delta: float
    confidence: float
    status: str | None
    in_effect: bool
    because: str
    data: Any


class Why(Answer, frozen=True, kw_only=True):
    """The reasons why the ledger believes a memory or an observation, or no longer does.

    ``sources``, ``chunks`` and ``documents`` are those that the memory cites. ``provenance`` has the words that it was extracted
    from, ``conflicts`` the ids of its open conflicts, ``admission`` the line of the table of admission that gave its status if no
    person did. Of an observation ``evidence`` are the sources that support it, and ``wordings`` all its wordings, oldest first.
    """

    memory: Memory | None
    id: str
    confidence: float
    steps: tuple[Step, ...]
    sources: tuple[Interaction, ...]
    supersedes: tuple[Memory, ...]
    superseded_by: tuple[Memory, ...]
    chunks: tuple[Chunk, ...] = ()
    documents: tuple[Document, ...] = ()
    provenance: Provenance | None = None
    conflicts: tuple[str, ...] = ()
    observation: Observation | None = None
    evidence: tuple[Evidence, ...] = ()
    wordings: tuple[Wording, ...] = ()
    admission: str = ""

    def __repr__(self) -> str:
        return f"<Why of {self.id}: {len(self.steps)} steps, confidence {self.confidence:g}>"


class AuditEntry(Answer, frozen=True, kw_only=True):
    """An event of the audit trail. ``data`` is its recorded data, with ids for texts that are stored elsewhere."""

    position: int
    subject: str
    type: str
    recorded_at: str
    command: str
    command_id: str
    user: str | None
    actor: str | None
    client: str | None
    channel: str
    agent: str | None
    project: str | None
    session: str | None
    event_id: str
    causation_id: str | None
    correlation_id: str | None
    in_effect: bool
    data: Any = None

    @property
    def content(self) -> str:
        """Return the recorded text, of a turn the prompt, if the event itself holds it."""
        return self._text("content") or self._text("prompt")

    @property
    def reason(self) -> str:
        """Return the reason that was given, or ""."""
        return self._text("reason")

    def _text(self, name: str) -> str:
        value = self.data.get(name) if isinstance(self.data, dict) else None
        return value if isinstance(value, str) else ""


class Explanation(Answer, frozen=True, kw_only=True):
    """The effect of the command that recorded an event, in sentences (``text``), with the entries behind them.

    ``events`` are those of the command. ``cause`` is the event that the command reacted to, ``led_to`` are the events that
    reacted to it, and ``voided_by`` the acts that made its events void.
    """

    position: int
    command_id: str
    text: str
    events: tuple[AuditEntry, ...]
    cause: AuditEntry | None = None
    led_to: tuple[AuditEntry, ...] = ()
    voided_by: tuple[AuditEntry, ...] = ()


class Bisection(Answer, frozen=True, kw_only=True):
    """The command after which a condition ``holds``, or no longer does; ``explanation`` describes that command.

    The command ends at ``position``; at ``before`` the condition was still the opposite. ``reads`` is the number of the
    ``commands`` between the two moments that were looked at.
    """

    position: int
    before: int
    holds: bool
    reads: int
    commands: int
    explanation: Explanation

    @property
    def text(self) -> str:
        """Return the answer in sentences."""
        so = "It holds" if self.holds else "It no longer holds"
        return f"{so} since position {self.position}, found in {self.reads} reads. {self.explanation.text}"


class BlamedWords(Answer, frozen=True, kw_only=True):
    """Characters ``start`` to ``end`` of a belief's content, and the event that they come from."""

    start: int
    end: int
    text: str
    event: AuditEntry


class BlamedStep(Answer, frozen=True, kw_only=True):
    """The effect of an event on the confidence of a belief."""

    delta: float
    confidence: float
    event: AuditEntry


class Blame(Answer, frozen=True, kw_only=True):
    """The origin of a belief's words and confidence.

    ``words`` are the content from beginning to end, each with its event, traced through revisions, superseded memories and
    merged ones: a word comes from the first wording that had it. ``confidence`` are the steps of ``memories.confidence``.
    ``erased`` are the positions of erased wordings: words that a later wording took over from them count as that one's.
    """

    id: str
    content: str | None
    words: tuple[BlamedWords, ...]
    confidence: tuple[BlamedStep, ...]
    erased: tuple[int, ...] = ()


class LogEntry(Answer, frozen=True, gc=False):  # not kw_only, because a scan of the log makes many of them
    """An event of the log: its place, who recorded it and how, and its data.

    ``data`` is a struct of ``ledger.events`` with its texts in full (``Unknown`` for an event of a newer version).
    ``project`` and ``session`` are ids. ``version`` counts the events of the subject. An undone event is listed with
    ``in_effect`` false, and an erased text is None.
    """

    position: int
    subject: str
    version: int
    type: str
    event_id: str
    recorded_at: str
    occurred_at: str | None
    command: str
    command_id: str
    causation_id: str | None
    correlation_id: str | None
    user: str | None
    actor: str | None
    client: str | None
    channel: str
    agent: str | None
    project: str | None
    session: str | None
    in_effect: bool
    data: LogData


class ObservedBelief(Answer, frozen=True, kw_only=True):
    """An observation as it is and as it would be: its wording, live sources or status.

    ``None`` means that it does not, or would not, exist. Without a live source its status is "unsupported".
    """

    id: str
    now: Observation | None
    would_be: Observation | None


class WhatIf(Answer, frozen=True, kw_only=True):
    """Beliefs under other assumptions, compared with those at ``position``.

    ``lost``, ``gained`` and ``changed`` are memories, ``observations`` those that would differ. ``unchanged`` is the number of
    the user's memories that would stay exactly the same.
    """

    position: int
    events: int
    unchanged: int
    lost: tuple[Belief, ...]
    gained: tuple[Belief, ...]
    changed: tuple[Belief, ...]
    observations: tuple[ObservedBelief, ...]
    note: str = DECISIONS_STAND


class Changed(Answer, frozen=True, kw_only=True):
    """A memory as it stood at two moments; ``None`` if it did not exist."""

    id: str
    before: Memory | None
    after: Memory | None


class Diff(Answer, frozen=True, kw_only=True):
    """The changes between two moments. Each memory is compared at both, in the order in which the memories were made.

    ``added``: it did not exist before, whatever its status now. ``promoted``: from candidate to active. ``superseded``: another
    fact took its place. ``hidden``: no longer believed for any other reason (invalid, rejected, retracted, quarantined, its
    promotion undone, or its creation undone). ``restored``: believed, or a candidate, again. A memory that stayed may also have
    ``moved`` in confidence, and been ``revised`` in its text, tags, entities, metadata or validity, unless a supersession did
    that. ``start`` and ``end`` are the latest times recorded by then.
    """

    from_position: int
    to_position: int
    start: str
    end: str
    added: tuple[Changed, ...] = ()
    promoted: tuple[Changed, ...] = ()
    superseded: tuple[Changed, ...] = ()
    moved: tuple[Changed, ...] = ()
    hidden: tuple[Changed, ...] = ()
    restored: tuple[Changed, ...] = ()
    revised: tuple[Changed, ...] = ()
