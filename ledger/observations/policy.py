"""Consolidation by rules: sources that say nearly the same form observations, or support existing ones.

The steps of a page of new sources are planned on a snapshot, outside of the writer's lock. Under the lock each step is recorded
only if the sources and the observation that it concerns are unchanged.

The rules of evidence follow: the sources that can support an observation, duplicates, and the withdrawal and return of a source,
which concerns every observation that the source supports, in one append.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from ledger.core.steps import check_size
from ledger.core.work import Work
from ledger.domain import confidence as confidence_rules
from ledger.domain.errors import NotFoundError, RejectedError
from ledger.domain.text import normalise
from ledger.english.near import rarest_first
from ledger.events import EvidenceSource, ObservationFormed
from ledger.observations import rules
from ledger.observations.grouping import GROUPING, Compared, Groups, central, likeness, read, wording
from ledger.observations.rules import ObservationState, Support
from projections.core.rows import Connection
from projections.views import consolidations, observations
from projections.views.consolidations import Scope, Sourced

ACTOR = "policy:consolidation"
RULE = "proof/1"
# The reasons why a step was not taken:
CHANGED = "changed"  # its subject changed since it was planned
THREAT, SECRET = "threat", "secret"  # a scanner found something in the wording
DUPLICATE = "duplicate"  # another observation of the scope has exactly these words

COUNTED = ("formed", "revised", "retracted", "refreshed")
USER = "user"  # the speaker of a prompt without a name


class SourcePiece(Struct, frozen=True, eq=False):
    """A text of a source: the whole content of a memory, or one sentence of an interaction or message.

    ``position`` is the position of the event with the text. ``at`` is the time at which the text was true in the world. ``part``
    is the number of the sentence, and ``order`` sorts all pieces of a scope.
    """

    id: str
    row: int
    position: int
    at: str
    text: str
    names: tuple[str, ...] = ()
    speaker: str = ""
    part: int = 0

    @property
    def order(self) -> int:
        return (self.row << 8) + self.part

    @property
    def words(self) -> str:
        """Return the text as the wording of an observation, with the speaker's name if a transcript has one."""
        return wording(self.text if self.speaker in ("", USER) else f"{self.speaker}: {self.text}")


class ConsolidationStep(Struct):
    """A planned step: an observation to form (``seen`` is None), or commands on an existing observation.

    ``seen`` is the observation as the snapshot had it. ``pieces`` are the sources that the step rests on, and ``evidence`` those
    of them that the step adds. ``counts`` is the name under which a report counts the step.
    """

    counts: str
    seen: ObservationState | None = None
    pieces: tuple[SourcePiece, ...] = ()
    evidence: tuple[SourcePiece, ...] = ()
    commands: tuple[rules.Command, ...] = ()
    group: Group | None = None
    after: ConsolidationStep | None = None  # the step without which this step is not taken


class Group:
    """A group that further sources can join: an observation (``seen``), or a source without a like so far (``alone``).

    ``known`` are the ids of all sources of the group. ``joined`` are the sources that joined on the present page.
    """

    __slots__ = ("alone", "joined", "known", "order", "seen")

    def __init__(
        self, order: int, seen: ObservationState | None, alone: SourcePiece | None, known: Iterable[str]
    ) -> None:
        self.order: int = order
        self.seen: ObservationState | None = seen
        self.alone: SourcePiece | None = alone
        self.known: set[str] = set(known)
        self.joined: list[SourcePiece] = []

    def join(self, piece: SourcePiece) -> bool:
        """Add a piece; return False if the group already has its source."""
        if piece.id in self.known:
            return False
        self.known.add(piece.id)
        self.joined.append(piece)
        return True


class ScopeMaterial(Struct):
    """The texts of a scope with which new sources are compared.

    ``pieces`` are the texts by the id of their source. ``aside`` are the sources that may not form an observation.
    """

    observations: list[Sourced]
    pieces: dict[str, list[SourcePiece]]
    aside: set[str]


class ConsolidationPlanner:
    """The planner of one scope: it finds a group for each new source, and returns the steps page by page.

    ``stale`` are the steps for the observations whose wording needs a check.
    """

    def __init__(self, material: ScopeMaterial, new: Sequence[SourcePiece]) -> None:
        self._material, self._fresh = material, {id(piece) for piece in new}
        self._statements: dict[int, Compared] = {}
        pieces = [piece for of_source in material.pieces.values() for piece in of_source]
        self._groups: Groups[Group] = Groups(rarest_first([self._read(piece).words for piece in pieces]))
        self._cited: dict[str, list[Sourced]] = {}
        for sourced in material.observations:
            for proof in sourced.proofs:
                if not proof.withdrawn:
                    self._cited.setdefault(proof.source, []).append(sourced)
        self._touched: list[Group] = []
        self.stale: list[ConsolidationStep] = self._add_observations()
        for piece in sorted(pieces, key=lambda piece: piece.order):
            if id(piece) not in self._fresh and self._is_free(piece):
                self._add_alone(piece)

    def _read(self, piece: SourcePiece) -> Compared:
        key = id(piece)
        if key not in self._statements:
            self._statements[key] = read(piece.text, piece.names, piece.speaker)
        return self._statements[key]

    def _is_free(self, piece: SourcePiece) -> bool:
        """Return True if a piece may join a group: no observation has its text yet, and its source is not put aside.

        A memory is a single text. Of a turn, another sentence may already support an observation.
        """
        if piece.id in self._material.aside:
            return False
        known = self._cited.get(piece.id, ())
        if piece.id.startswith("m_"):
            return not known
        return not any(likeness(self._read(piece), self._words_of(sourced)) for sourced in known)

    def _add_alone(self, piece: SourcePiece) -> None:
        group = Group(piece.order, None, piece, [piece.id])
        self._groups.add(group, self._read(piece), piece.order)

    # --- existing observations ---------------------------------------------------------------------------------------

    def _add_observations(self) -> list[ConsolidationStep]:
        """Add the observations as groups, and return the steps for those whose wording needs a check."""
        steps: list[ConsolidationStep] = []
        waiting: list[Sourced] = []
        for sourced in self._material.observations:
            if sourced.stale or self._is_reworded(sourced):
                waiting.append(sourced)
            else:
                self._add_observation(sourced.state, self._words_of(sourced), sourced)
        for sourced in waiting:
            steps += self._steps_for_stale(sourced)
        return steps

    def _is_reworded(self, sourced: Sourced) -> bool:
        """Return True if the rules took the wording from a source that was revised since, so that no source has it now."""
        state = sourced.state
        if state.consolidator != GROUPING:
            return False
        pieces = [piece for source in state.written_from for piece in self._material.pieces.get(source, ())]
        return bool(pieces) and all(piece.words != state.text for piece in pieces)

    def _words_of(self, sourced: Sourced) -> Compared:
        """Return the whole text from which the rules took a wording, or the wording itself if that text is not known."""
        state = sourced.state
        for source in state.written_from if state.consolidator == GROUPING else ():
            for piece in self._material.pieces.get(source, ()):
                if piece.words == state.text:
                    return self._read(piece)
        return read(state.text or "")

    def _add_observation(self, state: ObservationState, compared: Compared, sourced: Sourced) -> None:
        first = min((piece.order for piece in self._pieces_of(sourced)), default=state.row << 8)
        group = Group(first, state, None, (proof.source for proof in sourced.proofs if not proof.withdrawn))
        self._groups.add(group, compared, first)

    def _pieces_of(self, sourced: Sourced) -> list[SourcePiece]:
        """Return the texts of the observation's live sources that are like its wording, one for each source."""
        matches: list[SourcePiece] = []
        compared = read(sourced.state.text or "")
        for proof in sourced.live:
            pieces = self._material.pieces.get(proof.source, ())
            if len(pieces) > 1:  # of a turn, only the sentence most like the wording counts
                pieces = sorted(pieces, key=lambda piece: -likeness(self._read(piece), compared))[:1]
                pieces = [candidate for candidate in pieces if likeness(self._read(candidate), compared)]
            matches += pieces
        return matches

    def _steps_for_stale(self, sourced: Sourced) -> list[ConsolidationStep]:
        """Return the steps for an observation whose wording needs a check; none for the wording of a person."""
        state = sourced.state
        if state.consolidator == BY_HAND:
            return []
        if not [proof for proof in sourced.proofs if not proof.withdrawn]:
            return [ConsolidationStep("retracted", state, commands=(rules.Retire("no_evidence"),))]
        if not sourced.lost_a_wording_source and not self._is_reworded(sourced):
            self._add_observation(state, self._words_of(sourced), sourced)
            return [ConsolidationStep("refreshed", state, commands=(rules.Refresh("resolve", GROUPING),))]
        pieces = self._pieces_of(sourced)
        old = read(state.text or "")
        contradicting = [piece for piece in pieces if id(piece) in self._fresh and not likeness(self._read(piece), old)]
        for piece in contradicting:  # the source was revised and says something else now
            self._forget(piece, sourced)
        supporting = [piece for piece in pieces if piece not in contradicting]
        if not supporting:
            return self._without_wording(sourced, contradicting)
        chosen = supporting[central([self._read(piece) for piece in supporting])]
        nearest = self._groups.nearest(self._read(chosen))
        if nearest is not None and nearest.seen is not None:
            return self._merged(sourced, contradicting, nearest, nearest.seen)
        self._add_observation(state, self._read(chosen), sourced)
        commands = (*_withdrawn(contradicting), _revision(chosen))
        return [ConsolidationStep("revised", state, pieces=(chosen,), commands=commands)]

    @staticmethod
    def _without_wording(sourced: Sourced, contradicting: Sequence[SourcePiece]) -> list[ConsolidationStep]:
        """Return the steps for an observation for which no source has a wording any more."""
        if not contradicting:
            return []  # the observation stays stale until a source comes back
        others = {proof.source for proof in sourced.live} - {piece.id for piece in contradicting}
        retire = () if others else (rules.Retire("no_evidence"),)
        commands = (*_withdrawn(contradicting), *retire)
        return [ConsolidationStep("revised" if others else "retracted", sourced.state, commands=commands)]

    def _merged(
        self, sourced: Sourced, contradicting: Sequence[SourcePiece], target: Group, into: ObservationState
    ) -> list[ConsolidationStep]:
        """Return the steps for a stale observation whose new wording another observation already has.

        The live sources of the stale observation are added to the other observation, and the stale one is retracted into it.
        """
        known = target.known | {piece.id for piece in contradicting}
        added = tuple(EvidenceSource(proof.source, proof.at) for proof in sourced.live if proof.source not in known)
        target.known.update(evidence.source for evidence in added)
        moved = ConsolidationStep("revised", into, commands=(rules.Add(added, GROUPING),)) if added else None
        retracted = ConsolidationStep(
            "retracted", sourced.state, commands=(rules.Retire("merged", by=into.id),), after=moved
        )
        return [moved, retracted] if moved is not None else [retracted]

    def _forget(self, piece: SourcePiece, sourced: Sourced) -> None:
        """Remove a piece from the evidence of an observation."""
        others = [citing for citing in self._cited[piece.id] if citing is not sourced]
        if others:
            self._cited[piece.id] = others
        else:
            del self._cited[piece.id]

    # --- new sources -------------------------------------------------------------------------------------------------

    def page(self, new: Sequence[SourcePiece]) -> list[ConsolidationStep]:
        """Return the steps for a page of new sources."""
        steps: list[ConsolidationStep] = []
        for piece in new:
            if piece.id in self._cited:
                steps += self._steps_for_cited(piece)
            if self._is_free(piece):
                self._place(piece)
        touched, self._touched = self._touched, []
        return steps + [self._step(group) for group in touched]

    def _place(self, piece: SourcePiece) -> None:
        group = self._groups.nearest(self._read(piece))
        if group is None:
            self._add_alone(piece)
        elif piece.id not in group.known:
            self._join(group, piece)

    def _join(self, group: Group, piece: SourcePiece) -> None:
        if group.join(piece) and group not in self._touched:
            self._touched.append(group)

    def _step(self, group: Group) -> ConsolidationStep:
        joined, group.joined = tuple(group.joined), []
        if group.seen is not None:
            return ConsolidationStep("revised", group.seen, joined, joined, (_addition(joined),), group)
        assert group.alone is not None
        sources = (group.alone, *joined)
        return ConsolidationStep("formed", None, sources, sources, (), group)

    def _steps_for_cited(self, piece: SourcePiece) -> list[ConsolidationStep]:
        """Return the steps that withdraw a revised memory from the observations that it no longer supports."""
        steps: list[ConsolidationStep] = []
        if not piece.id.startswith("m_"):
            return steps  # the text of a turn or message does not change
        for sourced in list(self._cited[piece.id]):
            if piece.id in sourced.state.written_from or likeness(self._read(piece), self._words_of(sourced)):
                continue
            others = [proof for proof in sourced.live if proof.source != piece.id]
            commands: tuple[rules.Command, ...] = _withdrawn([piece])
            if not others:
                commands += (rules.Retire("no_evidence"),)
            self._forget(piece, sourced)
            steps.append(ConsolidationStep("revised" if others else "retracted", sourced.state, commands=commands))
        return steps


def _withdrawn(pieces: Sequence[SourcePiece]) -> tuple[rules.Command, ...]:
    return (rules.Withdraw(tuple(piece.id for piece in pieces), "contradicted"),) if pieces else ()


def _revision(piece: SourcePiece) -> rules.ReviseObservation:
    return rules.ReviseObservation(
        piece.words, "resolve", confidence_rules.OBSERVATION_CONFIDENCE, RULE, GROUPING, (piece.id,)
    )


def _addition(pieces: Sequence[SourcePiece]) -> rules.Add:
    # A memory that was withdrawn because it was revised may have been revised back.
    return rules.Add(evidence_of(pieces), GROUPING, restores=True)


def evidence_of(pieces: Iterable[SourcePiece]) -> tuple[EvidenceSource, ...]:
    return tuple(EvidenceSource(source, at) for source, at in {piece.id: piece.at for piece in pieces}.items())


# --- under the lock --------------------------------------------------------------------------------------------------


def record(work: Work, scope: Scope, steps: Sequence[ConsolidationStep]) -> list[tuple[str, str]]:
    """Record the steps whose sources and observation are unchanged since they were planned.

    Return for each step its outcome and the id of the observation. The outcome is the step's ``counts``, or the reason why the
    step was not taken.
    """
    results: list[tuple[str, str]] = []
    outcomes: dict[int, str] = {}
    alive = _unchanged(work, [piece for step in steps for piece in step.pieces])
    cited = _cited_by_rules(work, scope, steps)
    for step in steps:
        if step.after is not None and outcomes[id(step.after)] not in COUNTED:
            result = (CHANGED, "")
        elif step.seen is None:
            result = _form(work, scope, step, alive, cited)
        else:
            result = (_change(work, step, step.seen, alive), step.seen.id)
        outcomes[id(step)] = result[0]
        results.append(result)
    return results


def _form(work: Work, scope: Scope, step: ConsolidationStep, alive: set[int], cited: set[str]) -> tuple[str, str]:
    pieces = [piece for piece in step.pieces if id(piece) in alive and piece.id not in cited]
    if len({piece.id for piece in pieces}) < 2 or pieces[0] is not step.pieces[0]:
        return CHANGED, ""
    if why := unfit(work, pieces[0].words):
        return why, ""
    if duplicate(work, scope.project, scope.tags, pieces[0].words) is not None:
        return DUPLICATE, ""
    stream = work.new_id("o")
    work.emit(
        stream,
        ObservationFormed(
            content=pieces[0].words,
            confidence=confidence_rules.OBSERVATION_CONFIDENCE,
            rule=RULE,
            consolidator=GROUPING,
            evidence=evidence_of(pieces)[: rules.EVIDENCE],
            written_from=(pieces[0].id,),
            tags=scope.tags,
        ),
    )
    return step.counts, stream


def unfit(work: Work, text: str) -> str:
    """Return the reason why the policy refuses a wording ("threat" or "secret"), or "" if the wording is accepted."""
    policy = work.policy()
    if policy.threats == "refuse" and work.threat(text) is not None:
        return THREAT
    return SECRET if policy.secrets == "refuse" and work.secret_in(text) else ""


def _change(work: Work, step: ConsolidationStep, seen: ObservationState, alive: set[int]) -> str:
    current: ObservationState | None = work.at_row(seen.row, "o")
    if current is None or _planned_fields(current) != _planned_fields(seen):
        return CHANGED
    commands = step.commands
    if step.evidence:
        unchanged = [piece for piece in step.evidence if id(piece) in alive]
        commands = (_addition(unchanged),) if unchanged else ()
    elif any(id(piece) not in alive for piece in step.pieces):
        return CHANGED
    for command in commands:
        if not isinstance(command, rules.ReviseObservation):
            continue
        if why := unfit(work, command.text):
            return why
        if duplicate(work, seen.project, seen.tags, command.text, besides=seen.row):
            return DUPLICATE
    return step.counts if applied(work, current, commands) else CHANGED


def applied(work: Work, current: ObservationState, commands: Iterable[rules.Command]) -> bool:
    """Emit the events of these commands on an observation; return False if the commands led to no event."""
    supports = observations.support_of(work.rows, current.row)
    events = [event for command in commands for event in rules.decide(command, current, supports)]
    for event in events:
        work.emit(current.id, event, first=current.row)
    return bool(events)


def _planned_fields(state: ObservationState) -> tuple[object, ...]:
    """Return the fields on which a plan depends."""
    return (state.text, state.status, state.written_from, state.stale, state.confidence, state.tags)


def _unchanged(work: Work, pieces: Sequence[SourcePiece]) -> set[int]:
    """Return the Python ids of the pieces whose source is live and has the same text as in the snapshot."""
    live = observations.live(work.connection(), {piece.id for piece in pieces})
    unchanged: set[int] = set()
    for piece in pieces:
        state = work.at_row(piece.row, "m") if piece.id.startswith("m_") else None
        if piece.id in live and (state is None or state.content == piece.text):
            unchanged.add(id(piece))
    return unchanged


def _cited_by_rules(work: Work, scope: Scope, steps: Sequence[ConsolidationStep]) -> set[str]:
    """Return the memories of planned observations that another run put into an observation of the scope meanwhile."""
    source_ids = {piece.id for step in steps if step.seen is None for piece in step.pieces if piece.id.startswith("m_")}
    return consolidations.cited(work.connection(), scope, sorted(source_ids), GROUPING)


BY_HAND = "by_hand"  # the consolidator of an observation that a person writes
KINDS = ("m", "i", "c")  # the ids of memories, interactions and chunks begin so; messages can be evidence too
_UNDO = (
    "undo the withdrawal of the source with exclusive=True"  # the advice, because restore has no parameter exclusive
)


# --- sources --------------------------------------------------------------------------------------------------------


def live(work: Work, sources: Iterable[str]) -> set[str]:
    """Return the sources that count as proof; called under the writer's lock."""
    work.rows.flush()
    return observations.live(work.connection(), sources)


def dated(work: Work, sources: Sequence[str]) -> tuple[EvidenceSource, ...]:
    """Return live sources as evidence, with the time at which each source was true in the world.

    Raises:
        RejectedError: A source is not live.
    """
    alive = live(work, sources)
    if dead := [source for source in sources if source not in alive]:
        raise RejectedError(
            f"{dead[0]} is not in use (hidden, quarantined, undone or erased), so it cannot be evidence; restore it first",
            rule="evidence",
            subject=dead[0],
        )
    times = observations.times_of(work.connection(), sources)
    return tuple(EvidenceSource(source, times[source]) for source in sources)


# --- duplicates ------------------------------------------------------------------------------------------------------


def duplicate(
    work: Work, project: str | None, tags: Sequence[str], text: str, *, besides: int = 0
) -> ObservationState | None:
    """Return the oldest active observation of this user and scope with the same text, without the one in the row ``besides``."""
    statements = ((work.secret, work.who.user, place, tags, text) for place in work.together(project))
    numbers = [number for statement in statements if (number := observations.statement(*statement)) is not None]
    for row in sorted(row for number in numbers for row in observations.with_statement(work.rows, number)):
        known: ObservationState | None = work.at_row(row, "o") if row != besides else None
        if known is not None and normalise(known.text or "") == normalise(text):
            return known
    return None


def refuse_duplicate(work: Work, observation: ObservationState, text: str, verb: str) -> None:
    """Raise ``RejectedError`` if another active observation of the scope has the same text."""
    same = duplicate(work, observation.project, observation.tags, text, besides=observation.row)
    if same is not None:
        raise RejectedError(
            f"cannot {verb} {observation.id}: {same.id} is active and says the same; keep one of them",
            rule="duplicate",
            subject=observation.id,
        )


# --- withdrawing and putting back ------------------------------------------------------------------------------------


def _flushed(work: Work) -> Connection:
    work.rows.flush()
    return work.connection()


def _changeable(work: Work, row: int) -> ObservationState | None:
    """Return the observation in a row; None if the observation was erased."""
    state: ObservationState | None = work.at_row(row, "o")
    return None if state is None or state.status == rules.ERASED else state


def withdraw(work: Work, sources: Collection[str], reason: str, *, exclusive: bool = False) -> None:
    """Withdraw sources from all observations.

    An active observation without another live source is retracted; an active observation with one is marked stale.
    """
    rows = observations.supported_by(_flushed(work), sources)
    check_size(len(rows), exclusive=exclusive)
    touched: list[tuple[ObservationState, list[Support], list[str]]] = []
    for row in rows:
        if (state := _changeable(work, row)) is not None:
            supports = observations.support_of(work.rows, row)
            others = [support.source for support in supports if not support.withdrawn and support.source not in sources]
            touched.append((state, supports, others))
    alive = live(work, {source for _, _, others in touched for source in others})
    for state, supports, others in touched:
        emit(work, state, rules.Withdraw(tuple(sources), "asked", reason), supports)
        if state.status == "active" and alive.isdisjoint(others):
            emit(work, state, rules.Retire("no_evidence"))
        elif state.status == "active":
            emit(work, state, rules.MarkStale("withdrawn"))
    check_size(len(work.emitted), exclusive=exclusive)


def put_back(work: Work, sources: Collection[str], alive: Collection[str], reason: str = "") -> None:
    """Put withdrawn sources back; ``alive`` are those of the sources that are live.

    An observation that was retracted for want of evidence becomes active again if one of its sources is live. A wording that was
    stale only because of the withdrawal is fresh again once no other withdrawn source is missing.
    """
    rows = observations.waiting_for(_flushed(work), sources, alive)
    check_size(len(rows), exclusive=False, allowed=_UNDO)
    for row in rows:
        if (state := _changeable(work, row)) is None:
            continue
        supports = observations.support_of(work.rows, row)
        own = [support for support in supports if support.source in sources and support.withdrawn in ("", "asked")]
        evidence = tuple(EvidenceSource(support.source, support.at) for support in own if support.withdrawn)
        emit(work, state, rules.Add(evidence, BY_HAND, restores=True), supports)
        lives = any(support.source in alive for support in own)
        if lives and (state.status, state.retracted) == ("retracted", "no_evidence"):
            emit(work, state, rules.RestoreObservation(reason))
            state = replace(state, status="active")
        waits_for_others = any(support.withdrawn == "asked" for support in supports if support.source not in sources)
        if (state.status, state.stale, waits_for_others) == ("active", "withdrawn", False):
            emit(work, state, rules.Refresh("restored", BY_HAND))
    check_size(len(work.emitted), exclusive=False, allowed=_UNDO)


def emit(work: Work, state: ObservationState, command: rules.Command, supports: Sequence[Support] = ()) -> None:
    work.project = state.project
    for event in rules.decide(command, state, supports):
        work.emit(state.id, event, first=state.row)


def to_withdraw(work: Work, id: str) -> list[str]:
    """Return the full id of a memory, an interaction, a chunk or a message; of a document the ids of all its chunks.

    A source that was undone is found too.

    Raises:
        NotFoundError: This user has no such source.
    """
    connection = _flushed(work)
    ids = observations.sources_named(connection, id, work.who.user)
    if not ids:
        raise no_source(id)
    return ids


def no_source(id: str) -> NotFoundError:
    nobody = "no memory, interaction, chunk, document or message of this user has the id"
    return NotFoundError(f"{nobody} {id!r:.40}, so there is nothing to withdraw")
