"""The answers about the history: reasons for a belief, the audit trail, the log, and comparisons of two states."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ledger.core.call import Answer
from ledger.documents.answers import Chunk, Document
from ledger.interactions.answers import Interaction
from ledger.memories.answers import Belief, Memory, Provenance
from ledger.observations.answers import Evidence, Observation, Wording
from ledger.undo.answers import DECISIONS_STAND
from ledger.values.answers import Value

if TYPE_CHECKING:
    from ledger.events import EventData, Unknown

    LogData = EventData | Unknown
else:
    LogData = Any  # msgspec must not decode this field by its type


class Step(Answer, frozen=True, kw_only=True):
    """An event of a subject with its effect.

    Of a memory, ``delta`` is the effect of the event on the confidence; the deltas of all steps add up to ``confidence`` exactly.
    ``because`` is the reason that the event records.
    """

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
    """The reasons why the ledger believes a memory or an observation, or no longer believes it, or has a value.

    Of a memory, ``sources``, ``chunks`` and ``documents`` are its cited sources. ``provenance`` holds the words from which it was
    extracted, and ``conflicts`` the ids of its open conflicts. ``admission`` is the line of the table of admission that decided
    the status, or "" if a person did. Of an observation, ``evidence`` are the sources, and ``wordings`` all wordings, oldest
    first. Of a value, ``steps`` are its versions, and ``confidence`` is 1.0, because a value is what somebody put.
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
    value: Value | None = None

    def __repr__(self) -> str:
        return f"<Why of {self.id}: {len(self.steps)} steps, confidence {self.confidence:g}>"

    def _repr_html_(self) -> str:
        """Return the steps as a table for a notebook; their changes add up to the confidence."""
        from ledger.domain.html import table

        rows = (
            (step.position, step.command, step.actor or "", f"{step.delta:+g}", f"{step.confidence:g}", step.because)
            for step in self.steps
            if step.in_effect
        )
        head = ("position", "command", "by", "change", "confidence", "reason")
        return table(f"{self.id}: confidence {self.confidence:g}", head, rows)


class AuditEntry(Answer, frozen=True, kw_only=True):
    """An event of the audit trail; ``data`` is its recorded data, with ids in place of texts that are stored elsewhere."""

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
        """Return the text that the event itself holds (of a turn the prompt), or ""."""
        return self._text("content") or self._text("prompt")

    @property
    def reason(self) -> str:
        """Return the reason that the event records, or ""."""
        return self._text("reason")

    def _text(self, name: str) -> str:
        value = self.data.get(name) if isinstance(self.data, dict) else None
        return value if isinstance(value, str) else ""


class Explanation(Answer, frozen=True, kw_only=True):
    """An explanation of a command in sentences (``text``), with the entries of the audit trail behind the sentences.

    ``events`` are the events of the command. ``cause`` is the event to which the command reacted. ``led_to`` are the events of
    commands that reacted to this command, and ``voided_by`` the undos and distrusts that made its events void.
    """

    position: int
    command_id: str
    text: str
    events: tuple[AuditEntry, ...]
    cause: AuditEntry | None = None
    led_to: tuple[AuditEntry, ...] = ()
    voided_by: tuple[AuditEntry, ...] = ()


class Bisection(Answer, frozen=True, kw_only=True):
    """The command that changed a condition; ``holds`` is the condition after the command.

    The command ends at ``position``; at the position ``before``, the condition was still the opposite. ``commands`` is the
    number of the user's commands between the two moments, and ``reads`` the number of moments at which the condition was
    evaluated. ``explanation`` describes the command.
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
    """The characters ``start`` to ``end`` of a belief's content, and the event from which they come."""

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

    ``words`` are the content from beginning to end, each part with its event. A word comes from the first wording that had it,
    traced through revisions, superseded memories and merged memories. ``confidence`` are the steps of ``memories.confidence``.
    ``erased`` are the positions of erased wordings; a word of an erased wording counts as a word of the next wording that has it.
    """

    id: str
    content: str | None
    words: tuple[BlamedWords, ...]
    confidence: tuple[BlamedStep, ...]
    erased: tuple[int, ...] = ()


class LogEntry(Answer, frozen=True, gc=False):  # not kw_only, because a scan of the log makes many of them
    """An event of the log with its place, its origin and its data.

    ``data`` is a struct of ``ledger.events`` with all texts (``Unknown`` for a type that this version does not know).
    ``project`` and ``session`` are ids. ``version`` counts the events of the subject. ``in_effect`` is False for an undone
    event, and an erased text is None.
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
    """An observation in its present state (``now``) and in the other state (``would_be``).

    None means that the observation does not exist, or would not exist. Without a live source its status is "unsupported".
    """

    id: str
    now: Observation | None
    would_be: Observation | None


class WhatIf(Answer, frozen=True, kw_only=True):
    """The beliefs under other assumptions, compared with the beliefs at ``position``.

    ``lost``, ``gained`` and ``changed`` are the memories that would differ, and ``observations`` the observations that would
    differ. ``events`` is the number of events that would be void. ``unchanged`` is the number of believed memories that would
    stay the same.
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
    """A memory at two moments; None if the memory did not exist at that moment."""

    id: str
    before: Memory | None
    after: Memory | None


class Diff(Answer, frozen=True, kw_only=True):
    """The changes of memories between two moments, in the order in which the memories were made.

    ``added``: the memory did not exist at the start. ``promoted``: a candidate became active. ``superseded``: another fact took
    its place. ``hidden``: no longer believed for another reason (invalid, rejected, retracted, quarantined, or its promotion or
    its creation was undone). ``restored``: believed, or a candidate, again. A memory that exists at both moments may also be in
    ``moved`` (another confidence) and in ``revised`` (another text, kind, project, validity, or other tags, entities, relations
    or metadata; the end of the validity by a supersession does not count). ``start`` and ``end`` are the times of the last
    events up to the two moments.
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
