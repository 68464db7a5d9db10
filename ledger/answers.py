"""The answers of the ledger: frozen objects with the same names in Python and in ``--json``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

from msgspec import field

from ledger.core.answer import Answer, answer_of
from ledger.documents.answers import Chunk, Document
from ledger.domain import confidence as rules
from ledger.domain import metadata as pairs_of
from ledger.domain.ids import shortened
from ledger.domain.late import names_of
from ledger.domain.times import moment
from ledger.observations.answers import Evidence, Observation, Wording
from ledger.policy import rules as policy

if TYPE_CHECKING:
    from ledger.events import AnyEvent, EventData, Unknown
    from ledger.extraction.answers import Added as Added
    from ledger.extraction.answers import Noted as Noted
    from ledger.guards.answers import Quarantined as Quarantined
    from ledger.guards.answers import ScanReport as ScanReport
    from ledger.interactions.rules import InteractionState as InteractionState
    from ledger.memories.rules import Edge
    from ledger.memories.rules import MemoryState as MemoryState
    from ledger.models.models import ModelCall as ModelCall
    from ledger.observations.answers import ConsolidationReport as ConsolidationReport
    from ledger.observations.answers import WithdrawalReport as WithdrawalReport
    from ledger.projections.answers import OwnProjection as OwnProjection
    from ledger.recall.packs import Item as Item
    from ledger.recall.packs import Pack as Pack
    from ledger.review.answers import Conflict as Conflict
    from ledger.review.answers import ConflictReport as ConflictReport
    from ledger.review.answers import Merge as Merge
    from ledger.review.answers import MergeReport as MergeReport
    from ledger.sessions.answers import CompactionReport as CompactionReport
    from ledger.sessions.answers import HistoryChange as HistoryChange
    from ledger.sessions.answers import Message as Message
    from ledger.sessions.answers import SessionInfo as SessionInfo
    from ledger.sessions.answers import Summary as Summary
    from ledger.sessions.assembled import Window as Window
    from ledger.sessions.diagram import SummaryGraph as SummaryGraph
    from ledger.sessions.rules.window import WindowItem as WindowItem
    from ledger.sessions.search_answers import Expansion as Expansion
    from ledger.sessions.search_answers import Hit as Hit
    from ledger.sessions.search_answers import Hits as Hits

    EventData = EventData | Unknown
else:
    EventData = Any  # msgspec must not decode this field by its type


class Relation(Answer, frozen=True, kw_only=True):
    """A memory's statement about two names since ``position``. Without times it holds while the memory holds."""

    subject: str
    relation: str
    object: str
    valid_from: str | None
    valid_to: str | None
    position: int


class Memory(Answer, frozen=True):  # not kw_only, because long lists of memories are made faster by position
    """A memory as it stands.

    ``confidence`` is from 0 to 1; times are UTC text; ``sources`` are ids. ``stated_at`` is the time when the memory was last
    stated again. ``warnings`` of a write name an unknown kind.
    """

    id: str
    content: str | None
    kind: str
    user: str | None
    agent: str | None
    project: str | None
    status: str
    confidence: float
    reference_count: int
    last_referenced_at: str | None
    entities: tuple[str, ...]
    tags: tuple[str, ...]
    sources: tuple[str, ...]
    valid_from: str
    valid_to: str | None
    supersedes: str | None
    superseded_by: str | None
    quarantined: bool
    position: int
    recorded_at: str
    active_at: str
    relations: tuple[Relation, ...] = ()
    replayed: bool = False
    absorbed: bool = False
    warnings: tuple[str, ...] = ()
    metadata: Mapping[str, pairs_of.Value] = field(default_factory=dict)
    stated_at: str | None = None
    decays: bool = False

    def __hash__(self) -> int:
        return hash((self.id, self.position))

    def effective_confidence(self, as_of: str | datetime | date) -> float:
        """Return the confidence at a moment: the confidence itself, unless the user's policy lets memories of this kind decay.

        A memory that decays loses 3 % a day after 30 idle days without a reference (the rule of ATOCore).
        """
        millionths = round(self.confidence * rules.ONE)
        return rules.shown(
            rules.effective(
                millionths,
                decays=self.decays and self.status == "active",
                reference_count=self.reference_count,
                active_at=self.active_at,
                as_of=moment("as_of", as_of),
            )
        )


def memory(
    state: MemoryState,
    names: Mapping[str, str],
    *,
    decays: bool = False,
    replayed: bool = False,
    absorbed: bool = False,
) -> Memory:
    return answer_of(
        Memory,
        state,
        project=names.get(state.project or "", state.project),
        confidence=rules.shown(state.confidence),
        relations=tuple(map(_relation, state.edges)) if state.edges else (),
        metadata=pairs_of.of_row(state.metadata) if state.metadata else {},
        decays=decays,
        replayed=replayed,
        absorbed=absorbed,
    )


def _relation(edge: Edge) -> Relation:
    return answer_of(Relation, edge, subject=edge.source, object=edge.target)


class Provenance(Answer, frozen=True, kw_only=True):
    """The origin of a memory: the rule, the span that it was found in, and the text of that span.

    For a memory that a model found, ``quote`` is the beginning of the whole message. ``session`` and ``position`` name that
    message, ``role`` its speaker.
    """

    rule: str
    extractor: str
    interaction: str | None
    session: str | None = None
    role: str | None = None
    field: str
    start: int
    end: int
    position: int = 0  # of the message, if the source is a session
    quote: str | None


class Candidate(Answer, frozen=True, kw_only=True):
    """An entry of the review queue: a candidate, or an active memory that the turns ``contradicted_by`` deny.

    ``admission`` is the line of the table of admission that gave the status, and ``undo`` the call that takes an admitted memory
    back.
    """

    memory: Memory
    provenance: Provenance | None
    same_as_active: str | None
    contradicted_by: tuple[str, ...] = ()
    admission: str = ""
    undo: str = ""

    @property
    def id(self) -> str:
        """Return the memory's id, for ``promote(candidate.id)``."""
        return self.memory.id

    @property
    def content(self) -> str | None:
        return self.memory.content


class Interaction(Answer, frozen=True, kw_only=True):
    """An interaction with its texts.

    ``reinforcement`` and ``extraction`` are "waiting", "pending", "done", "undone" (only a call looks again), "failed" or "off".
    ``skipped`` says why the interaction did not become messages of its session: "ignored" or "stateless". ``warnings`` of a
    capture and of an added response name the used ids that are not memories.
    """

    id: str
    prompt: str | None
    response: str | None
    summary: str | None
    user: str | None
    agent: str | None
    project: str | None
    client: str | None
    session: str | None
    memories_used: tuple[str, ...]
    chunks_used: tuple[str, ...]
    context: Any
    occurred_at: str
    recorded_at: str
    reinforcement: str
    extraction: str
    position: int
    replayed: bool = False
    absorbed: bool = False
    skipped: str = ""
    quarantined: bool = False  # a part of it is kept out of recall
    warnings: tuple[str, ...] = ()
    metadata: Mapping[str, pairs_of.Value] = field(default_factory=dict)


def interaction(
    state: InteractionState,
    names: Mapping[str, str],
    prompt: str | None,
    answer: Mapping[str, str | None],
    pack: object,
) -> Interaction:
    """Return an interaction's answer. ``answer`` has the response and its summary; ``pack`` is the recorded context."""
    return answer_of(
        Interaction,
        state,
        prompt=prompt,
        response=answer["response"],
        summary=answer["summary"],
        project=names.get(state.project or "", state.project),
        session=names.get(state.session or "", state.session),
        context=pack,
        occurred_at=state.occurred_at or state.recorded_at,
        metadata=pairs_of.of_row(state.metadata) if state.metadata else {},
    )


class StateEntry(Answer, frozen=True, kw_only=True):
    """A value of a project's trusted state, present or past; ``to_position`` ends it."""

    category: str
    name: str | None
    value: str | None
    source: str | None
    actor: str | None
    recorded_at: str
    from_position: int
    to_position: int | None = None


class ProjectInfo(Answer, frozen=True, kw_only=True):
    id: str
    name: str | None
    description: str | None
    aliases: tuple[str | None, ...]
    user: str | None
    state: tuple[StateEntry, ...]
    position: int
    recorded_at: str
    replayed: bool = False
    absorbed: bool = False
    warnings: tuple[str, ...] = ()  # of a write: the redacted secrets, by field and kind


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
    data: EventData


class ConfidencePoint(Answer, frozen=True, kw_only=True):
    position: int
    recorded_at: str
    type: str
    delta: float
    confidence: float
    interaction: str | None
    matcher: str | None
    echo: bool
    in_effect: bool


class Refusal(Answer, frozen=True, kw_only=True):
    position: int
    rule: str
    command: str
    subject: str | None
    actor: str | None
    recorded_at: str
    limit: int | None
    current: int | None
    requested: int | None
    finding: str
    scanner: str


class Seed(Answer, frozen=True, kw_only=True):
    """A name in the question, in its first spelling, and the number of believed memories that name it."""

    name: str
    memories: int


class Neighbor(Answer, frozen=True, kw_only=True):
    """A name that is joined to a seed. ``relation`` is the memories' relation, or "co_occurs" if they only name both.

    ``direction`` is "out" from the seed, "in" to it, or "both" for co_occurs. ``weight`` is the number of believed memories,
    whose ids are in ``memories``, newest first. The relation holds from the earliest to the latest time of any of them.
    """

    seed: str
    name: str
    relation: str
    direction: str
    weight: int
    memories: tuple[str, ...]
    valid_from: str
    valid_to: str | None


class Graph(Answer, frozen=True, kw_only=True):
    """The names that were found in the question, longest first, and their neighbors.

    Stated relations come first, then names in the same memories, each by weight. ``total`` counts the neighbors beyond the limit
    too. ``complete`` is False if a name stands in so many memories that only the newest were looked at.
    """

    seeds: tuple[Seed, ...]
    neighbors: tuple[Neighbor, ...]
    total: int
    complete: bool = True


class Reinforcement(Answer, frozen=True, kw_only=True):
    """The effect of one interaction on memories.

    ``reinforced`` has (memory id, confidence before, confidence after); ``denied`` the ids of the memories that it denies.
    ``replayed`` means that nothing new was found, and that the answer is the recorded one.
    """

    interaction: str
    matcher: str
    pool_size: int
    reinforced: tuple[tuple[str, float, float], ...]
    echoes: int
    left_over: int
    denied: tuple[str, ...] = ()
    replayed: bool = False


class ExtractionReport(Answer, frozen=True, kw_only=True):
    """The result of an extraction from an ``interaction`` or a ``session``.

    ``kept`` are the new memories, ``superseded`` the ids of those that they replaced, ``retracted`` the ids of those that the
    user took back, ``relations`` the number of stated relations, ``dropped`` the proposals that were dropped, each with its
    ``reason``. Of a session ``messages`` counts those looked at, ``skipped`` those that held nothing worth a model's time, and
    ``cursor`` is the position behind which the next extraction begins. ``failure`` is the reason why a model's call failed.
    ``stopped`` is the reason why messages were left ("under_way", "moved", "cancelled", "enough") or not read ("ignored",
    "stateless").
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


class Policy(policy.PolicyState, Answer, frozen=True, kw_only=True):
    """The parameters of a user's memory, as ``PolicyChanges`` describes them; shares and confidences are from 0 to 1.

    ``explicit`` names the parameters that somebody set: they keep their values when a default changes.
    """

    explicit: tuple[str, ...] = ()


class JobReport(Answer, frozen=True, kw_only=True):
    """The results of a run of jobs.

    ``sessions`` counts those with messages that were read for memories; ``skipped`` of these ``messages`` held nothing.
    ``waiting`` sessions and turns are left for the next run. ``given_up`` are sessions whose extraction failed three times in a
    row: they wait for new messages, or for ``session.extract()``. ``conflicts`` were recorded, ``merges`` proposed. ``expiring``
    are the memories that a dry run would end. ``stopped`` is "timeout" or "cancelled" if work is left: it stays pending.
    """

    reinforced_interactions: int = 0
    reinforced_memories: int = 0
    extracted_interactions: int = 0
    sessions: int = 0
    messages: int = 0
    skipped: int = 0
    waiting: int = 0
    given_up: int = 0
    candidates: int = 0
    calls: int = 0
    expired: int = 0
    conflicts: int = 0
    merges: int = 0
    failures: int = 0
    consolidated: int = 0
    observations_formed: int = 0
    observations_revised: int = 0
    observations_retracted: int = 0
    stopped: str = ""
    expiring: tuple[Memory, ...] = ()
    dry_run: bool = False


class Dependent(Answer, frozen=True, kw_only=True):
    """A command that depends on a command which an act makes void: its position and subject, and why it cannot stay."""

    position: int
    command: str
    subject: str
    why: str

    def __str__(self) -> str:
        return f"{self.command} at {self.position}: {shortened(self.subject)} {self.why}"


def dependent(event: AnyEvent, why: str) -> Dependent:
    return Dependent(position=event.position, command=event.envelope.command, subject=event.stream, why=why)


class Belief(Answer, frozen=True, kw_only=True):
    """A memory as it is (``now``) and as it would be (``would_be``); ``None`` if it does not, or would not, exist."""

    id: str
    now: Memory | None
    would_be: Memory | None


class UndoReport(Answer, frozen=True, kw_only=True):
    """The effect of an undo or redo, or of a ``dry_run``.

    ``commands`` are the undone commands, ``verbs`` their calls with their positions, ``actors`` those who gave them, ``events``
    the number of their events, ``subjects`` the ids concerned. ``dependents`` are the commands that were not named and depend on
    the named ones. ``turned_down`` are people's rejections, retractions and invalidations of memories that then no longer
    exist: they stay in effect. ``memories`` are those concerned, as they are and would be, in a dry run only. ``reversed_by`` is
    the verb that reverses the act: "redo" with this ``command_id`` after an undo; "undo" with each of the ``commands`` after a
    redo; "distrust" with the source if the act trusted somebody. In that case ``cascaded`` are the commands that depended on
    what the source had undone, and became void too.
    """

    commands: tuple[str, ...]
    events: int
    subjects: tuple[str, ...]
    position: int
    verbs: tuple[str, ...] = ()
    actors: tuple[str, ...] = ()
    dependents: tuple[Dependent, ...] = ()
    cascaded: tuple[str, ...] = ()
    turned_down: tuple[Dependent, ...] = ()
    memories: tuple[Belief, ...] = ()
    reversed_by: str = "redo"
    dry_run: bool = False
    command_id: str | None = None
    replayed: bool = False
    absorbed: bool = False


DECISIONS_STAND = "decisions of others stand as they were made: none is made again"


class DistrustReport(Answer, frozen=True, kw_only=True):
    """The records and effects of an origin that became void, or with ``trust`` are in effect again.

    ``memories`` and ``observations`` are those that changed, also by the loss of a source. ``unsupported`` are the observations
    without any source left, ``gone`` the subjects that no longer exist. ``receipts`` are the interactions, recalls and windows
    with a receipt that showed one of those memories or words of the origin. ``cascaded`` are the commands that a ``trust`` made
    void, because they depended on what the origin had undone: ``dependents`` says how. ``beliefs`` are the memories as they are
    and would be, in a dry run only.
    """

    kind: str
    origin: str
    since: int
    until: int | None
    events: int
    memories: tuple[str, ...]
    observations: tuple[str, ...]
    unsupported: tuple[str, ...]
    gone: tuple[str, ...]
    receipts: tuple[str, ...]
    position: int
    dependents: tuple[Dependent, ...] = ()
    cascaded: tuple[str, ...] = ()
    beliefs: tuple[Belief, ...] = ()
    note: str = DECISIONS_STAND
    trusted: bool = False
    dry_run: bool = False
    command_id: str | None = None
    replayed: bool = False
    absorbed: bool = False


class Distrusted(Answer, frozen=True, kw_only=True):
    """A distrusted origin: its kind, its name or id, and the reason.

    Everything that it wrote from the position ``since`` on is void, and its writes are refused. With ``until`` only its writes
    before that position are void, and new writes are accepted.
    """

    kind: str
    origin: str | None
    since: int
    until: int | None
    reason: str | None
    command_id: str
    position: int
    recorded_at: str


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


class Erased(Answer, frozen=True, kw_only=True):
    """An event in a list of an erasure: its fields concerned, and the choice "erase", "cut", "keep", or "" if none was made.

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
    """An event or session name that stays and holds erased text: the text's place, between [[ and ]], and why it stays.

    Of another user's event only the position is given.
    """

    position: int
    subject: str | None = None
    type: str | None = None
    excerpt: str | None = None
    why: str


class ErasureReport(Answer, frozen=True, kw_only=True):
    """The report of an erasure in the state "dry run", "pending" (with ``why``), "stopped" or "completed".

    ``erased`` are the subject's own events, ``derived`` those of memories derived from it, ``sources`` those that it was derived
    from, ``quotes`` all others with the same text. ``searched`` are the forms of the erased text for which the ``files`` were
    searched. ``hits`` counts places that hold the text rightly, because it was kept or another event has it too: ``remaining``
    lists the first 20 of the ``remaining_total`` events, without those that nobody decided about. ``earlier`` are the earlier
    erasures of the same call, if a whole user takes several: each has its own certificate. ``stopped`` is "timeout" or
    "cancelled" if the call ended early: the listed events are erased for good, ``left`` events of the user are not, and the
    same call continues. ``projections`` are your own projections whose tables were emptied, to be folded again by a process that
    has their classes. ``own_tables`` are tables made by hand in this file (``my_``) that hold an erased text: they are searched
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


class RebuildReport(Answer, frozen=True, kw_only=True):
    """The result of a rebuild: the number of events read, and the ``projections`` made again; ``suspended`` ones failed.

    ``stopped`` is "timeout" or "cancelled" if the rebuild ended early: the tables are unchanged, and there is no ``digest``, as
    without a request for one. ``left_behind`` are your own tables and views (``my_``) that could not be read when a damaged file
    was made again as a whole.
    """

    events: int
    seconds: float
    digest: str
    suspended: tuple[str, ...] = ()
    projections: tuple[str, ...] = ()
    stopped: str = ""
    left_behind: tuple[str, ...] = ()


class ProjectionStatus(Answer, frozen=True, kw_only=True):
    name: str
    version: int
    position: int
    suspended_at: int | None
    error: str | None


class Stats(Answer, frozen=True, kw_only=True):
    ledger_id: str
    position: int
    head: str
    format: int
    memories: dict[str, int]
    interactions: int
    projects: int
    documents: dict[str, int]
    pending: dict[str, int]
    projections: tuple[ProjectionStatus, ...]
    size_bytes: int
    wal_bytes: int
    sqlite_version: str
    vectors: dict[str, int] = field(default_factory=dict)  # by model
    observations: dict[str, int] = field(default_factory=dict)
    sessions: int = 0
    messages: int = 0
    summaries: int = 0  # those in a window


class VectorModel(Answer, frozen=True, kw_only=True):
    """A model that has vectors in the file: the number of vectors, and of numbers in each."""

    model: str
    vectors: int
    dimension: int


class VectorReport(Answer, frozen=True, kw_only=True):
    """The vectors of a model that were made, kept and deleted, the texts left without one, and the numbers in each vector.

    ``dimension`` is None if no vector was made. ``stopped`` is "timeout" or "cancelled" if the call ended early: the same call
    makes the rest.
    """

    model: str
    embedded: int = 0
    kept: int = 0
    dropped: int = 0
    left: int = 0
    seconds: float
    dimension: int | None = None
    stopped: str = ""


class ImportReport(Answer, frozen=True, kw_only=True):
    """The result of an import, or of a ``dry_run``; ``errors`` are (line number, reason), ``warnings`` (line number, text).

    The first 1,000 of each are listed, and ``error_count`` and ``warning_count`` count all. ``stopped`` is "timeout" or
    "cancelled" if the import ended before the file: the same call continues.
    """

    path: str
    lines: int
    captured: int
    known: int
    errors: tuple[tuple[int, str], ...] = ()
    warnings: tuple[tuple[int, str], ...] = ()
    error_count: int = 0
    warning_count: int = 0
    correlation_id: str | None = None
    dry_run: bool = False
    stopped: str = ""
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Return True if no line was bad, and all lines were read."""
        return not self.error_count and not self.stopped


class ExportReport(Answer, frozen=True, kw_only=True):
    path: str
    events: int
    blobs: int
    bytes_: int = field(name="bytes")
    warning: str = "it holds every text and the ledger's secret: keep it like the ledger itself"


class BackupReport(Answer, frozen=True, kw_only=True):
    """A backup that was made and checked: the number of its events, and the head after the last event (hex)."""

    path: str
    events: int
    head: str
    size_bytes: int
    seconds: float
    warning: str = "it holds every text and the ledger's secret: keep it like the ledger itself"


class ReplayReport(Answer, frozen=True, kw_only=True):
    """A ledger made from the log up to ``position``; ``head`` is the head of both.

    A copy for reading has the ``ledger_id`` of the ledger; a branch has its own, and ``parent`` is the ledger's. ``events``
    counts those of the new file. ``erased_later`` events have no text, because it was erased behind the position. A branch lacks
    ``voided`` events; ``dependents`` are the commands among them that depended on the named ones. Decisions of others are not
    made again. ``stopped`` is "timeout" or "cancelled" if nothing was made, else "".
    """

    path: str
    ledger_id: str
    parent: str | None
    position: int
    head: str
    events: int
    erased_later: int
    voided: int = 0
    dependents: tuple[Dependent, ...] = ()
    seconds: float
    stopped: str = ""
    warning: str = "it holds the ledger's texts and secret, and what the ledger erases from now on stays in it"


class RecoverReport(Answer, frozen=True, kw_only=True):
    """A ledger made from a backup.

    ``compared`` is True if the backup held projections that could be compared with those folded again; ``differing`` are those
    that were not as the log says. ``certificates`` counts the erasures that were done again. ``cut_before`` is the position of
    the first event that was left out with all events behind it, because no version can have written it, or because the backup
    was cut off there. ``left_behind`` are your own tables and views (``my_``) in the backup.
    """

    path: str
    events: int
    head: str
    digest: str
    rebuilt: tuple[str, ...]
    suspended: tuple[str, ...]
    compared: bool
    differing: tuple[str, ...]
    certificates: int
    ok: bool
    seconds: float
    cut_before: int | None = None
    left_behind: tuple[str, ...] = ()


class Finding(Answer, frozen=True, kw_only=True):
    """A check of the doctor. ``level`` is "ok", "note", "warning" or "problem"; ``hint`` says what to do."""

    level: str
    what: str
    found: str
    hint: str = ""


class DoctorReport(Answer, frozen=True, kw_only=True):
    """The doctor's findings; ``ok`` is True if none is a problem."""

    path: str
    ok: bool
    findings: tuple[Finding, ...]
    seconds: float


class VerifyReport(Answer, frozen=True, kw_only=True):
    """The result of a check of the whole ledger. ``ok`` is True without ``problems``, of which at most 100 are listed.

    ``first_wrong`` is the first position of the log that a problem names. Of the ``events`` those up to ``since`` were skipped,
    because a checkpoint sealed in the log covers them (none if there is a problem). ``against`` is the size of the checkpoint
    from elsewhere that the log was compared with; ``signed`` says whether that has a good signature (None: no key was given).
    ``projections`` are those that were compared with a fold of the log.
    """

    ok: bool
    events: int
    problems: tuple[str, ...]
    first_wrong: int | None = None
    since: int = 0
    head: str | None = None
    against: int | None = None
    signed: bool | None = None
    projections: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    seconds: float = 0.0


class Checkpoint(Answer, frozen=True, kw_only=True):
    """The first ``size`` events as one Merkle root and the head of the chain (hex), and the ``text`` to keep elsewhere.

    ``position`` is the place of the log's own record of the checkpoint; None if the ledger was opened for reading.
    """

    ledger_id: str
    size: int
    root: str
    head: str
    time: str
    text: str
    signed: bool = False
    position: int | None = None


class Proof(Answer, frozen=True, kw_only=True):
    """A proof that an event is in the log whose first ``size`` events have this ``root``: the event's row, and the path up.

    ``path`` and ``consistency`` are hashes of 32 bytes, joined, in base64; the other hashes are hex. ``since`` is the size of an
    older checkpoint that the log of ``size`` events continues. ``state`` is the event's state, if it was asked for.
    """

    ledger_id: str
    position: int
    size: int
    root: str
    path: str
    stream: str
    version: int
    type: str
    digest: str
    previous: str
    erased_by: int | None = None
    state: str | None = None
    since: int | None = None
    consistency: str | None = None
    format: str = "memory-ledger/proof/1"

    def as_text(self) -> str:
        """Return one JSON object, for a file of its own."""
        return json.dumps(self.to_dict(), indent=1) + "\n"


class ProofCheck(Answer, frozen=True, kw_only=True):
    """The result of a proof's check against a checkpoint, also as its truth value, with the ``problem``."""

    ok: bool
    problem: str = ""

    def __bool__(self) -> bool:
        return self.ok


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


def diff(changed: Sequence[Changed], start: tuple[int, str], end: tuple[int, str]) -> Diff:
    """Return the pairs sorted by the kind of change."""
    parts: dict[str, list[Changed]] = {}
    for pair in changed:
        if (change := _turned(pair.before, pair.after)) is not None:
            parts.setdefault(change, []).append(pair)
        if pair.before is not None and pair.after is not None:
            if pair.before.confidence != pair.after.confidence:
                parts.setdefault("moved", []).append(pair)
            if _differs(pair.before, pair.after):
                parts.setdefault("revised", []).append(pair)
    changes: dict[str, Any] = {name: tuple(pairs) for name, pairs in parts.items()}
    return Diff(from_position=start[0], start=start[1], to_position=end[0], end=end[1], **changes)


def _turned(before: Memory | None, after: Memory | None) -> str | None:
    """Return the change of a memory as a belief, or None if its standing is the same."""
    if before is None or after is None:
        return "added" if after is not None else "hidden" if before is not None else None
    if after.quarantined and not before.quarantined:
        return "hidden"
    match before.status, after.status:
        case was, now if was == now:
            return "restored" if before.quarantined and not after.quarantined else None
        case _, "superseded":
            return "superseded"
        case "candidate", "active":
            return "promoted"
        case "active", "candidate":
            return "hidden"
        case _, "active" | "candidate":
            return "restored"
        case "active" | "candidate" | "superseded", _:
            return "hidden"
    return None  # neither believed nor a candidate, before and after


def _differs(before: Memory, after: Memory) -> bool:
    names = ("content", "tags", "entities", "relations", "metadata", "valid_from")
    if any(getattr(before, name) != getattr(after, name) for name in names):
        return True
    by_supersession = "superseded" in (before.status, after.status) and before.status != after.status
    return before.valid_to != after.valid_to and not by_supersession


_HOMES = {
    "Added": "ledger.extraction.answers",
    "CompactionReport": "ledger.sessions.answers",
    "Conflict": "ledger.review.answers",
    "ConflictReport": "ledger.review.answers",
    "ConsolidationReport": "ledger.observations.answers",
    "Expansion": "ledger.sessions.search_answers",
    "HistoryChange": "ledger.sessions.answers",
    "Hit": "ledger.sessions.search_answers",
    "Hits": "ledger.sessions.search_answers",
    "Item": "ledger.recall.packs",
    "Merge": "ledger.review.answers",
    "MergeReport": "ledger.review.answers",
    "OwnProjection": "ledger.projections.answers",
    "Message": "ledger.sessions.answers",
    "ModelCall": "ledger.models.models",
    "Noted": "ledger.extraction.answers",
    "Pack": "ledger.recall.packs",
    "Quarantined": "ledger.guards.answers",
    "ScanReport": "ledger.guards.answers",
    "SessionInfo": "ledger.sessions.answers",
    "Summary": "ledger.sessions.answers",
    "SummaryGraph": "ledger.sessions.diagram",
    "Window": "ledger.sessions.assembled",
    "WindowItem": "ledger.sessions.rules.window",
    "WithdrawalReport": "ledger.observations.answers",
}


if not TYPE_CHECKING:  # hidden from type checkers, so that they report unknown names
    __getattr__ = names_of(__name__, _HOMES)
