"""What comes back: frozen objects with the same names in Python and in ``--json``."""

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
    EventData = Any  # what nobody decodes by its type


class Relation(Answer, frozen=True, kw_only=True):
    """What a memory says of two names since ``position``; without times it holds while the memory does."""

    subject: str
    relation: str
    object: str
    valid_from: str | None
    valid_to: str | None
    position: int


class Memory(Answer, frozen=True):  # fields by place: it is the answer that lists are long of
    """A memory as it stands. ``confidence`` is from 0 to 1; times are UTC text; ``sources`` are ids. ``warnings``, of a write
    that gave a kind, name one that is unknown; ``stated_at`` is when it was last said again."""

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
    """Where a memory comes from: the rule, the span it was found in, and that text; of what a model found the beginning of the
    whole message. ``session`` and ``position`` name that message, ``role`` who said it."""

    rule: str
    extractor: str
    interaction: str | None
    session: str | None = None
    role: str | None = None
    field: str
    start: int
    end: int
    position: int = 0  # of the message, where the source is a session
    quote: str | None


class Candidate(Answer, frozen=True, kw_only=True):
    """One entry of the review queue: a candidate, or an active memory that the turns ``contradicted_by`` deny. ``admission`` is
    the line of the table of admission that gave the status, and ``undo`` the call that takes an admitted memory back."""

    memory: Memory
    provenance: Provenance | None
    same_as_active: str | None
    contradicted_by: tuple[str, ...] = ()
    admission: str = ""
    undo: str = ""

    @property
    def id(self) -> str:
        """The memory's, for ``promote(candidate.id)``."""
        return self.memory.id

    @property
    def content(self) -> str | None:
        return self.memory.content


class Interaction(Answer, frozen=True, kw_only=True):
    """An interaction with its texts. ``reinforcement`` and ``extraction``: waiting, pending, done, undone (nothing looks again
    by itself), failed or off. ``skipped`` says why it did not become messages of its session, where it was to: "ignored" or
    "stateless". ``warnings``, of a capture and an added response, name what is no memory among those used."""

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
    quarantined: bool = False  # something of it is kept out of recall
    warnings: tuple[str, ...] = ()
    metadata: Mapping[str, pairs_of.Value] = field(default_factory=dict)


def interaction(
    state: InteractionState,
    names: Mapping[str, str],
    prompt: str | None,
    answer: Mapping[str, str | None],
    pack: object,
) -> Interaction:
    """``answer`` has the response and its summary; ``pack`` is the context as it was given."""
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
    """One value of trusted state that a project has or had; ``to_position`` ends it."""

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
    warnings: tuple[str, ...] = ()  # of a write: the secrets that were redacted, by field and kind


class Step(Answer, frozen=True, kw_only=True):
    """One event behind a memory and what it did to the confidence; ``delta`` of the steps add up to it exactly."""

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
    """Why the ledger believes a memory, or no longer does; ``sources``, ``chunks`` and ``documents`` are what it cites, and
    ``provenance`` has the words that it was extracted from, ``conflicts`` the ids of the open ones that it stands in,
    ``admission`` the line of the table of admission that gave its status where no person did.

    Of an observation ``evidence`` is what supports it, and ``wordings`` are all that it had, oldest first.
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
    """One event of the trail; ``data`` is what it recorded, with ids for texts that lie elsewhere."""

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
        """The text that it recorded of its subject, of a turn the prompt, where it lies in the event itself."""
        return self._text("content") or self._text("prompt")

    @property
    def reason(self) -> str:
        """Why somebody did it, where a reason was given."""
        return self._text("reason")

    def _text(self, name: str) -> str:
        found = self.data.get(name) if isinstance(self.data, dict) else None
        return found if isinstance(found, str) else ""


class Explanation(Answer, frozen=True, kw_only=True):
    """What the command that recorded an event did, in sentences (``text``), and the entries that they are made of: its
    ``events``, the one that it reacted to (``cause``), what reacted to them (``led_to``), and the acts that made them void."""

    position: int
    command_id: str
    text: str
    events: tuple[AuditEntry, ...]
    cause: AuditEntry | None = None
    led_to: tuple[AuditEntry, ...] = ()
    voided_by: tuple[AuditEntry, ...] = ()


class Bisection(Answer, frozen=True, kw_only=True):
    """The command after which a condition ``holds``, or no longer does; ``explanation`` says what it did.

    It ends at ``position``, and at ``before`` the condition was still the other way. So many of the ``commands`` between the
    two moments were looked at: ``reads``.
    """

    position: int
    before: int
    holds: bool
    reads: int
    commands: int
    explanation: Explanation

    @property
    def text(self) -> str:
        """The answer in sentences."""
        so = "It holds" if self.holds else "It no longer holds"
        return f"{so} since position {self.position}, found in {self.reads} reads. {self.explanation.text}"


class BlamedWords(Answer, frozen=True, kw_only=True):
    """Characters ``start`` to ``end`` of a belief's content, and the event that they are from."""

    start: int
    end: int
    text: str
    event: AuditEntry


class BlamedStep(Answer, frozen=True, kw_only=True):
    """What an event did to the confidence of a belief."""

    delta: float
    confidence: float
    event: AuditEntry


class Blame(Answer, frozen=True, kw_only=True):
    """Where a belief comes from. The ``words`` are its content from beginning to end, each with the event that it is from,
    also through revisions, what it superseded and what it was merged of; a word that stood there before is from there.

    ``confidence`` are the steps that ``memories.confidence`` has. ``erased`` are the positions of wordings whose text is gone:
    what a later one took over from it counts as that one's.
    """

    id: str
    content: str | None
    words: tuple[BlamedWords, ...]
    confidence: tuple[BlamedStep, ...]
    erased: tuple[int, ...] = ()


class LogEntry(Answer, frozen=True, gc=False):  # fields by place: whoever scans a log makes many
    """One event as the log has it: its place, who recorded it and how, and its ``data``, a struct of
    ``ledger.events`` with its texts in full (``Unknown`` for an event of a newer version).

    ``project`` and ``session`` are ids. ``version`` counts the events of the subject. What was undone is there too, with
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
    """A name that was asked about, as it was first written, and how many believed memories name it."""

    name: str
    memories: int


class Neighbor(Answer, frozen=True, kw_only=True):
    """What a seed is joined to. ``relation`` is what memories say of the two, or "co_occurs" where they only name both.

    ``direction``: "out" from the seed, "in" to it, "both" for co_occurs. ``weight`` is the number of believed memories, whose
    ids are in ``memories``, newest first; it holds from the earliest to the latest time that any of them says.
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
    """The names that were found in what was asked, longest first, and what one step leads to: said relations first, then
    names in the same memories, each by weight. ``total`` counts those that were not asked for too; not ``complete`` when a
    name stands in so many memories that only the newest were looked at."""

    seeds: tuple[Seed, ...]
    neighbors: tuple[Neighbor, ...]
    total: int
    complete: bool = True


class Reinforcement(Answer, frozen=True, kw_only=True):
    """What one interaction reinforced: memory id, confidence before and after; and the ids of the memories that it denies.

    ``replayed`` says that nothing new was found, and that this is what was recorded the last time."""

    interaction: str
    matcher: str
    pool_size: int
    reinforced: tuple[tuple[str, float, float], ...]
    echoes: int
    left_over: int
    denied: tuple[str, ...] = ()
    replayed: bool = False


class ExtractionReport(Answer, frozen=True, kw_only=True):
    """What came of looking at an ``interaction`` or a ``session``: what was kept, what took the place of what
    (``superseded``), what the user took back (``retracted``), how many ``relations`` were stated, and what was dropped, each
    with its ``reason``.

    Of a session ``messages`` are those looked at, ``skipped`` those that held nothing worth a model's time, ``cursor`` the
    position behind which it goes on. ``failure`` is why a model's call came to nothing; ``stopped`` why more was left for
    another time ("under_way", "moved", "cancelled", "enough"), or why nothing is read ("ignored", "stateless").
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
    """The parameters of a user's memory, each as ``PolicyChanges`` says; shares and confidences are from 0 to 1.

    ``explicit`` names the parameters that somebody set: they keep their values when a default changes.
    """

    explicit: tuple[str, ...] = ()


class JobReport(Answer, frozen=True, kw_only=True):
    """What the jobs did. ``sessions`` are those in which messages were looked at for what to remember, ``skipped`` of
    these messages held nothing; ``waiting`` sessions and turns were left for the next run, ``given_up`` are sessions whose
    extraction failed three times in a row: they wait for something new, or for ``session.extract()``. ``conflicts`` it
    recorded, ``merges`` it proposed. ``expiring`` are the memories that a dry run
    would end. ``stopped`` is "timeout" or "cancelled" where it ended before all was done: the rest is pending."""

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
    """A command that was built on what an act makes void: at which position it did what to which subject, and why it
    cannot stay."""

    position: int
    command: str
    subject: str
    why: str

    def __str__(self) -> str:
        return f"{self.command} at {self.position}: {shortened(self.subject)} {self.why}"


def dependent(event: AnyEvent, why: str) -> Dependent:
    return Dependent(position=event.position, command=event.envelope.command, subject=event.stream, why=why)


class Belief(Answer, frozen=True, kw_only=True):
    """One memory as it is and as it would be; ``None`` where it is not, or would not be."""

    id: str
    now: Memory | None
    would_be: Memory | None


class UndoReport(Answer, frozen=True, kw_only=True):
    """What an undo or redo did, or would do (``dry_run``): the commands, of each what was called and where it begins
    (``verbs``), whose they were (``actors``), their events, and the subjects concerned.

    ``dependents`` are those of the commands that were not named: they were built on what was. ``turned_down`` are what
    people rejected, retracted or invalidated of memories that are gone then: that holds on without them. ``memories`` are
    those concerned, as they are and as they would be, in a dry run only.
    ``reversed_by`` is the verb that takes it back: "redo" with this ``command_id`` after an undo; after a redo "undo" with each
    of the ``commands``; "distrust" with the source, where it trusted somebody. Then ``cascaded`` are the commands that were built
    since on what the source had undone, and went with it.
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
    """What an origin had recorded and caused, void or (``trust``) in effect again.

    ``memories`` and ``observations`` are those that changed, also by a source that counts no more, ``unsupported`` the
    observations among them that are left without any, ``gone`` the subjects that are no more, ``receipts`` the
    interactions, recalls and windows with a receipt that showed one of those memories or words of the origin.
    ``cascaded`` are the commands that a ``trust`` made void, for they were built on what the origin had undone:
    ``dependents`` says how. ``beliefs`` are the memories as they are and as they would be, in a dry run only.
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
    """An origin that is distrusted: its kind, its name or id, and what it is distrusted for.

    What it wrote from the position ``since`` on is void, and its writes are refused; with ``until`` only what it wrote before
    that position is void, and its writes are accepted.
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
    """One observation as it is and as it would be, by its wording, its live sources or its status; ``None`` where it is not,
    or would not be. Without a live source its status is "unsupported"."""

    id: str
    now: Observation | None
    would_be: Observation | None


class WhatIf(Answer, frozen=True, kw_only=True):
    """Beliefs under other assumptions, against those at ``position``: no longer held, held again, and changed.

    ``lost``, ``gained`` and ``changed`` are memories, ``observations`` those that would differ; ``unchanged`` is how many
    memories of the user are held now and would be just the same.
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
    """One event of an erasure's lists: what of it is concerned, and "erase", "cut", "keep", or "" while nobody said.

    ``spans`` are the characters that become black where a field does not go as a whole: (field, start, end). ``excerpt`` is
    of a dry run only: the first words of each text, or the words around what becomes black or is quoted, between [[ and ]].
    """

    position: int
    subject: str
    type: str
    fields: tuple[str, ...]
    choice: str
    spans: tuple[tuple[str, int, int], ...] = ()
    excerpt: str | None = None


class Remaining(Answer, frozen=True, kw_only=True):
    """An event that stays and holds what goes, or the name of a session: where the text stands in it, between [[ and ]], and
    why it stays. Of another user's only the position is given."""

    position: int
    subject: str | None = None
    type: str | None = None
    excerpt: str | None = None
    why: str


class ErasureReport(Answer, frozen=True, kw_only=True):
    """What an erasure takes or took, and whether it is "dry run", "pending" (and why), "stopped" or "completed".

    ``erased`` are the subject's own events, ``derived`` those of memories that came from it, ``sources`` those that it came
    from, ``quotes`` all others that say the same. ``searched`` are the forms in which the ``files`` were searched for what
    went; ``hits`` are places that hold it rightly, because it was kept or another event says it too: ``remaining`` are the
    first 20 of the ``remaining_total`` events, not of those that nobody decided about. ``earlier`` are the erasures before this
    one that the same call made, where a whole user takes several: each has its own certificate. ``stopped`` is
    "timeout" or "cancelled" where it ended before all was erased: what is listed is erased for good, ``left`` events of the
    user are not, and the same call goes on with them. ``projections`` are those of one's own whose tables were emptied for
    it, to be folded again by who has their classes. ``own_tables`` are those made by hand in this file (``my_``) that hold one
    of the texts: they are searched and not changed.
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
    """A legal hold: nothing of the subject, or without one of the user, can be erased until it is lifted by its id."""

    id: str
    subject: str | None
    user: str | None
    reason: str | None
    position: int
    recorded_at: str
    absorbed: bool = False
    replayed: bool = False


class RebuildReport(Answer, frozen=True, kw_only=True):
    """How many events were read, and which ``projections`` were made again; ``suspended`` are those that could not be.

    ``stopped`` is "timeout" or "cancelled" where it ended before: the tables are as they were, and there is no ``digest``, as
    where none was asked for. ``left_behind`` are tables and views of people's own (``my_``) that could not be read where a
    damaged file was made again as a whole.
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
    vectors: dict[str, int] = field(default_factory=dict)  # of each model
    observations: dict[str, int] = field(default_factory=dict)
    sessions: int = 0
    messages: int = 0
    summaries: int = 0  # that stand in a window


class VectorModel(Answer, frozen=True, kw_only=True):
    """A model that has vectors here: how many, and numbers in each."""

    model: str
    vectors: int
    dimension: int


class VectorReport(Answer, frozen=True, kw_only=True):
    """Vectors of a model: made now, right already, deleted; texts left without one; numbers in each (None: none made).

    ``stopped`` is "timeout" or "cancelled" where it ended before all were made: the same call makes those that are left.
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
    """An import, or what it would do (``dry_run``); ``errors`` are (line number, reason), ``warnings`` (line number, text).

    Of each the first 1,000 are listed, and ``error_count`` and ``warning_count`` count all. ``stopped`` is "timeout" or
    "cancelled" where it ended before the file did, which the same call goes on with.
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
        """Whether no line was bad, and all were looked at."""
        return not self.error_count and not self.stopped


class ExportReport(Answer, frozen=True, kw_only=True):
    path: str
    events: int
    blobs: int
    bytes_: int = field(name="bytes")
    warning: str = "it holds every text and the ledger's secret: keep it like the ledger itself"


class BackupReport(Answer, frozen=True, kw_only=True):
    """A backup that was made and checked: the events it holds, and the head after the last (hex)."""

    path: str
    events: int
    head: str
    size_bytes: int
    seconds: float
    warning: str = "it holds every text and the ledger's secret: keep it like the ledger itself"


class ReplayReport(Answer, frozen=True, kw_only=True):
    """A ledger that was made of the log up to ``position``, where ``head`` is the head of both.

    A copy for reading has the ``ledger_id`` of the ledger; of a branch that is its own, and ``parent`` the ledger's.
    ``events`` are those of the new file. Of ``erased_later`` events the texts were erased behind the position, and are not in
    it. What a branch goes without are ``voided`` events, ``dependents`` the commands among them that were built on what was
    named; decisions of others are not made again.
    ``stopped`` is "", or "timeout" or "cancelled": then nothing was made.
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
    """A ledger made from a backup. ``compared``: whether the backup held projections that could be compared with those
    folded again; ``differing`` are those that were not what the log says. ``certificates``: erasures done again. ``cut_before``
    is the position of the first event that was left out, with all behind it, because no version can have written it, or
    that the backup itself lacks: its end was cut off. ``left_behind`` are tables and views of people's own (``my_``) that the
    backup has."""

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
    """One thing the doctor looked at. ``level``: ok, note, warning or problem; ``hint``: what to do about it."""

    level: str
    what: str
    found: str
    hint: str = ""


class DoctorReport(Answer, frozen=True, kw_only=True):
    """What the doctor found; ``ok`` when nothing of it is a problem."""

    path: str
    ok: bool
    findings: tuple[Finding, ...]
    seconds: float


class VerifyReport(Answer, frozen=True, kw_only=True):
    """What a check of the whole ledger found; ``ok`` when there are no ``problems``, of which it lists at most 100.

    ``first_wrong`` is the first position of the log that a problem names. Of the ``events`` those up to ``since`` were
    skipped, because a checkpoint sealed in the log covers them (none when there is a problem). ``against`` is the size of
    the checkpoint kept elsewhere that the log was compared with, ``signed`` whether that has a good signature (None: no key
    was given), ``projections`` those that were compared with a fold of the log.
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

    ``position`` is where the log itself says so; None where it was opened for reading.
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
    """That an event is in the log whose first ``size`` events have this ``root``; the event's row, and the way up.

    ``path`` and ``consistency`` are hashes of 32 bytes, joined, in base64; the other hashes are hex. ``since`` is the size
    of an older checkpoint that the log of ``size`` events continues. An event's ``state`` is there when it was asked for.
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
        """One JSON object, for a file of its own."""
        return json.dumps(self.to_dict(), indent=1) + "\n"


class ProofCheck(Answer, frozen=True, kw_only=True):
    """Whether a proof holds against a checkpoint, which is also its truth value, or what is wrong with it."""

    ok: bool
    problem: str = ""

    def __bool__(self) -> bool:
        return self.ok


class Changed(Answer, frozen=True, kw_only=True):
    """One memory as it stood at the one moment and at the other; ``None`` where it was not there."""

    id: str
    before: Memory | None
    after: Memory | None


class Diff(Answer, frozen=True, kw_only=True):
    """What changed between two moments, each memory compared at its two ends, in the order in which they came to be.

    ``added``: not there before, whatever its status by now. ``promoted``: from candidate to active. ``superseded``:
    another fact took its place. ``hidden``: no longer believed for any other reason (invalid, rejected, retracted,
    quarantined, its promotion undone, or gone: what made it was undone). ``restored``: believed, or a candidate, again.
    Besides, a memory that stayed may have ``moved`` in confidence, and been ``revised``: in its text, tags, entities, metadata or
    validity, as far as no supersession did that. ``start`` and ``end`` are the latest times recorded by then.
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


def diff(found: Sequence[Changed], start: tuple[int, str], end: tuple[int, str]) -> Diff:
    """The pairs sorted into what happened to them."""
    parts: dict[str, list[Changed]] = {}
    for each in found:
        if (turned := _turned(each.before, each.after)) is not None:
            parts.setdefault(turned, []).append(each)
        if each.before is not None and each.after is not None:
            if each.before.confidence != each.after.confidence:
                parts.setdefault("moved", []).append(each)
            if _differs(each.before, each.after):
                parts.setdefault("revised", []).append(each)
    changes: dict[str, Any] = {name: tuple(pairs) for name, pairs in parts.items()}
    return Diff(from_position=start[0], start=start[1], to_position=end[0], end=end[1], **changes)


def _turned(before: Memory | None, after: Memory | None) -> str | None:
    """What became of a memory as a belief; None when it is as much of one as before."""
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
    return None  # out of sight before and after


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


if not TYPE_CHECKING:  # to a type checker, a name that is not there is a mistake
    __getattr__ = names_of(__name__, _HOMES)  # the answers of recall, sessions and the rest
