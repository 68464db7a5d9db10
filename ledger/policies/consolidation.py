"""Whenever sources are new, those that say nearly the same form observations, or support the ones that there are: by rules.

Planned on a snapshot, outside of the lock, page after page; under the lock a page looks again at nothing but what it found.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from ledger.domain import confidence as rules
from ledger.domain import observation as domain
from ledger.domain.events import Evidence, ObservationFormed
from ledger.domain.grouping import GROUPING, Compared, Groups, central, likeness, read, wording
from ledger.domain.near import rarest_first
from ledger.domain.observation import Observation
from ledger.engine.work import Work
from ledger.policies.evidence import BY_HAND, duplicate
from projections.views import consolidations, observations
from projections.views.consolidations import Scope, Sourced

ACTOR = "policy:consolidation"
RULE = "proof/1"
CHANGED = "changed"  # why a step was not taken: what it was about is no longer as it was seen
THREAT, SECRET = "threat", "secret"  # ... or a scanner found something in the wording
DUPLICATE = "duplicate"  # ... or another observation of the scope has these very words
COUNTED = ("formed", "revised", "retracted", "refreshed")
USER = "user"  # who speaks in a prompt that names nobody


class Piece(Struct, frozen=True, eq=False):
    """A text of a source: a memory's, or one sentence of an interaction. ``position`` is since when it stands there, ``at``
    from when it holds in the world; ``order`` is its place among all pieces."""

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
        """As an observation says it: of a transcript with who says so."""
        return wording(self.text if self.speaker in ("", USER) else f"{self.speaker}: {self.text}")


class Step(Struct):
    """One thing to do: an observation to form (``seen`` is None), or commands on one that is there, with what is told of it.

    ``pieces`` are the sources that it rests on, ``evidence`` those of them that it adds. ``counts`` is how it is counted.
    """

    counts: str
    seen: Observation | None = None
    pieces: tuple[Piece, ...] = ()
    evidence: tuple[Piece, ...] = ()
    commands: tuple[domain.Command, ...] = ()
    group: Group | None = None
    after: Step | None = None  # which has to be taken for this one to be


class Group:
    """What further texts can belong to: an observation, or a source that stands alone as yet."""

    __slots__ = ("alone", "joined", "known", "order", "seen")

    def __init__(self, order: int, seen: Observation | None, alone: Piece | None, known: Iterable[str]) -> None:
        self.order, self.seen, self.alone = order, seen, alone
        self.known = set(known)
        self.joined: list[Piece] = []

    def take(self, piece: Piece) -> bool:
        """Whether its source was not one of them already."""
        if piece.id in self.known:
            return False
        self.known.add(piece.id)
        self.joined.append(piece)
        return True


class Material(Struct):
    """What planning reads of a scope: its observations, every piece by its source, and which sources form nothing."""

    observations: list[Sourced]
    pieces: dict[str, list[Piece]]
    aside: set[str]


class Planner:
    """The groups of one scope while its new sources are gone through."""

    def __init__(self, material: Material, new: Sequence[Piece]) -> None:
        self._material, self._fresh = material, {id(each) for each in new}
        self._statements: dict[int, Compared] = {}
        pieces = [each for some in material.pieces.values() for each in some]
        self._groups: Groups[Group] = Groups(rarest_first([self._read(each).words for each in pieces]))
        self._cited: dict[str, list[Sourced]] = {}
        for sourced in material.observations:
            for proof in sourced.proofs:
                if not proof.withdrawn:
                    self._cited.setdefault(proof.source, []).append(sourced)
        self._touched: list[Group] = []
        self.stale = self._look_at_observations()
        for each in sorted(pieces, key=lambda piece: piece.order):
            if id(each) not in self._fresh and self._is_free(each):
                self._add_alone(each)

    def _read(self, piece: Piece) -> Compared:
        key = id(piece)
        if key not in self._statements:
            self._statements[key] = read(piece.text, piece.names, piece.speaker)
        return self._statements[key]

    def _is_free(self, piece: Piece) -> bool:
        """Whether it is in no observation yet and may come into one. A turn says many things: only what is said here counts."""
        if piece.id in self._material.aside:
            return False
        known = self._cited.get(piece.id, ())
        if piece.id.startswith("m_"):
            return not known
        return not any(likeness(self._read(piece), self._words_of(each)) for each in known)

    def _add_alone(self, piece: Piece) -> None:
        group = Group(piece.order, None, piece, [piece.id])
        self._groups.add(group, self._read(piece), piece.order)

    # --- observations that are there ---------------------------------------------------------------------------------

    def _look_at_observations(self) -> list[Step]:
        """Takes in those whose words stand; what is to be done about the others."""
        steps: list[Step] = []
        waiting: list[Sourced] = []
        for each in self._material.observations:
            if each.stale or self._is_reworded(each):
                waiting.append(each)
            else:
                self._add_observation(each.state, self._words_of(each), each)
        for each in waiting:
            steps += self._again(each)
        return steps

    def _is_reworded(self, sourced: Sourced) -> bool:
        """Whether a source that rules took its words from says them no longer: it was revised."""
        state = sourced.state
        if state.consolidator != GROUPING:
            return False
        pieces = [piece for source in state.written_from for piece in self._material.pieces.get(source, ())]
        return bool(pieces) and all(piece.words != state.text for piece in pieces)

    def _words_of(self, sourced: Sourced) -> Compared:
        """The whole text that a wording was taken from; where that cannot be told, the wording."""
        state = sourced.state
        for source in state.written_from if state.consolidator == GROUPING else ():
            for piece in self._material.pieces.get(source, ()):
                if piece.words == state.text:
                    return self._read(piece)
        return read(state.text or "")

    def _add_observation(self, state: Observation, compared: Compared, sourced: Sourced) -> None:
        first = min((piece.order for piece in self._pieces_of(sourced)), default=state.row << 8)
        group = Group(first, state, None, (each.source for each in sourced.proofs if not each.withdrawn))
        self._groups.add(group, compared, first)

    def _pieces_of(self, sourced: Sourced) -> list[Piece]:
        """What its live sources say that is like it, each source once."""
        found: list[Piece] = []
        compared = read(sourced.state.text or "")
        for proof in sourced.live:
            pieces = self._material.pieces.get(proof.source, ())
            if len(pieces) > 1:  # of a turn, the sentence that is most like the wording
                pieces = sorted(pieces, key=lambda piece: -likeness(self._read(piece), compared))[:1]
                pieces = [each for each in pieces if likeness(self._read(each), compared)]
            found += pieces
        return found

    def _again(self, sourced: Sourced) -> list[Step]:
        """What to do about an observation that has to be looked at again; nothing where rules can do nothing."""
        state = sourced.state
        if state.consolidator == BY_HAND:
            return []
        if not [each for each in sourced.proofs if not each.withdrawn]:
            return [Step("retracted", state, commands=(domain.Retire("no_evidence"),))]
        if not sourced.worded_of_the_dead and not self._is_reworded(sourced):
            self._add_observation(state, self._words_of(sourced), sourced)
            return [Step("refreshed", state, commands=(domain.Refresh("resolve", GROUPING),))]
        pieces = self._pieces_of(sourced)
        old = read(state.text or "")
        gone = [each for each in pieces if id(each) in self._fresh and not likeness(self._read(each), old)]
        for piece in gone:  # it was revised, and says something else now
            self._forget(piece, sourced)
        kept = [each for each in pieces if each not in gone]
        if not kept:
            return self._without(sourced, gone)
        chosen = kept[central([self._read(each) for each in kept])]
        other = self._groups.nearest(self._read(chosen))
        if other is not None and other.seen is not None:
            return self._merged(sourced, gone, other, other.seen)
        self._add_observation(state, self._read(chosen), sourced)
        return [Step("revised", state, pieces=(chosen,), commands=(*_withdrawn(gone), _revision(chosen)))]

    @staticmethod
    def _without(sourced: Sourced, gone: Sequence[Piece]) -> list[Step]:
        """None of its sources has words for it any more."""
        if not gone:
            return []  # unsupported: it comes back with its sources
        left = {each.source for each in sourced.live} - {each.id for each in gone}
        retire = () if left else (domain.Retire("no_evidence"),)
        return [Step("revised" if left else "retracted", sourced.state, commands=(*_withdrawn(gone), *retire))]

    def _merged(self, sourced: Sourced, gone: Sequence[Piece], other: Group, into: Observation) -> list[Step]:
        """Two observations that came to say the same are one: the sources go to the other, and this one points to it."""
        known = other.known | {each.id for each in gone}
        added = tuple(Evidence(each.source, each.at) for each in sourced.live if each.source not in known)
        other.known.update(each.source for each in added)
        moved = Step("revised", into, commands=(domain.Add(added, GROUPING),)) if added else None
        retracted = Step("retracted", sourced.state, commands=(domain.Retire("merged", by=into.id),), after=moved)
        return [moved, retracted] if moved is not None else [retracted]

    def _forget(self, piece: Piece, sourced: Sourced) -> None:
        """It is evidence of this observation no longer, and of none, perhaps."""
        left = [each for each in self._cited[piece.id] if each is not sourced]
        if left:
            self._cited[piece.id] = left
        else:
            del self._cited[piece.id]

    # --- new sources -------------------------------------------------------------------------------------------------

    def page(self, new: Sequence[Piece]) -> list[Step]:
        """What the next of the new sources lead to."""
        steps: list[Step] = []
        for piece in new:
            if piece.id in self._cited:
                steps += self._look_at_cited(piece)
            if self._is_free(piece):
                self._place(piece)
        touched, self._touched = self._touched, []
        return steps + [self._step(group) for group in touched]

    def _place(self, piece: Piece) -> None:
        group = self._groups.nearest(self._read(piece))
        if group is None:
            self._add_alone(piece)
        elif piece.id not in group.known:
            self._join(group, piece)

    def _join(self, group: Group, piece: Piece) -> None:
        if group.take(piece) and group not in self._touched:
            self._touched.append(group)

    def _step(self, group: Group) -> Step:
        joined, group.joined = tuple(group.joined), []
        if group.seen is not None:
            return Step("revised", group.seen, joined, joined, (_addition(joined),), group)
        assert group.alone is not None
        sources = (group.alone, *joined)
        return Step("formed", None, sources, sources, (), group)

    def _look_at_cited(self, piece: Piece) -> list[Step]:
        """A source that was revised: where it no longer says what an observation says, it is no evidence of it."""
        steps: list[Step] = []
        if not piece.id.startswith("m_"):
            return steps  # what was said in a turn stays said
        for sourced in list(self._cited[piece.id]):
            if piece.id in sourced.state.written_from or likeness(self._read(piece), self._words_of(sourced)):
                continue
            others = [each for each in sourced.live if each.source != piece.id]
            commands: tuple[domain.Command, ...] = _withdrawn([piece])
            if not others:
                commands += (domain.Retire("no_evidence"),)
            self._forget(piece, sourced)
            steps.append(Step("revised" if others else "retracted", sourced.state, commands=commands))
        return steps


def _withdrawn(pieces: Sequence[Piece]) -> tuple[domain.Command, ...]:
    return (domain.Withdraw(tuple(each.id for each in pieces), "contradicted"),) if pieces else ()


def _revision(piece: Piece) -> domain.Revise:
    return domain.Revise(piece.words, "resolve", rules.OBSERVATION_CONFIDENCE, RULE, GROUPING, (piece.id,))


def _addition(pieces: Sequence[Piece]) -> domain.Add:
    return domain.Add(evidence_of(pieces), GROUPING, restores=True)  # withdrawn were only those that said otherwise


def evidence_of(pieces: Iterable[Piece]) -> tuple[Evidence, ...]:
    return tuple(Evidence(source, at) for source, at in {each.id: each.at for each in pieces}.items())


# --- under the lock --------------------------------------------------------------------------------------------------


def record(work: Work, scope: Scope, steps: Sequence[Step]) -> list[tuple[str, str]]:
    """Takes every step that is still as it was planned; of each how it came out, and the observation that it is about."""
    came: list[tuple[str, str]] = []
    outcomes: dict[int, str] = {}
    alive = _unchanged(work, [piece for step in steps for piece in step.pieces])
    cited = _cited_by_rules(work, scope, steps)
    for step in steps:
        if step.after is not None and outcomes[id(step.after)] not in COUNTED:
            outcome = (CHANGED, "")
        elif step.seen is None:
            outcome = _form(work, scope, step, alive, cited)
        else:
            outcome = (_change(work, step, step.seen, alive), step.seen.id)
        outcomes[id(step)] = outcome[0]
        came.append(outcome)
    return came


def _form(work: Work, scope: Scope, step: Step, alive: set[int], cited: set[str]) -> tuple[str, str]:
    pieces = [each for each in step.pieces if id(each) in alive and each.id not in cited]
    if len({each.id for each in pieces}) < 2 or pieces[0] is not step.pieces[0]:
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
            confidence=rules.OBSERVATION_CONFIDENCE,
            rule=RULE,
            consolidator=GROUPING,
            evidence=evidence_of(pieces)[: domain.EVIDENCE],
            written_from=(pieces[0].id,),
            tags=scope.tags,
        ),
    )
    return step.counts, stream


def unfit(work: Work, text: str) -> str:
    """Why a wording is not taken, "" where it is: the policy refuses what a scanner found in it. So it takes nothing with it."""
    policy = work.policy()
    if policy.threats == "refuse" and work.threat(text) is not None:
        return THREAT
    return SECRET if policy.secrets == "refuse" and work.secret_in(text) else ""


def _change(work: Work, step: Step, seen: Observation, alive: set[int]) -> str:
    current: Observation | None = work.at_row(seen.row, "o")
    if current is None or _as_it_reads(current) != _as_it_reads(seen):
        return CHANGED
    commands = step.commands
    if step.evidence:
        kept = [each for each in step.evidence if id(each) in alive]
        commands = (_addition(kept),) if kept else ()
    elif any(id(piece) not in alive for piece in step.pieces):
        return CHANGED
    for each in commands:
        if not isinstance(each, domain.Revise):
            continue
        if why := unfit(work, each.text):
            return why
        if duplicate(work, seen.project, seen.tags, each.text, besides=seen.row):
            return DUPLICATE
    return step.counts if applied(work, current, commands) else CHANGED


def applied(work: Work, current: Observation, commands: Iterable[domain.Command]) -> bool:
    """Emits what these commands decide on an observation; whether that is anything."""
    supports = observations.support_of(work.rows, current.row)
    events = [event for command in commands for event in domain.decide(command, current, supports)]
    for event in events:
        work.emit(current.id, event, first=current.row)
    return bool(events)


def _as_it_reads(state: Observation) -> tuple[object, ...]:
    return (state.text, state.status, state.written_from, state.stale, state.confidence, state.tags)


def _unchanged(work: Work, pieces: Sequence[Piece]) -> set[int]:
    """Which of these pieces are live, and say what they said when they were read."""
    live = observations.live(work.connection(), {each.id for each in pieces})
    found: set[int] = set()
    for each in pieces:
        state = work.at_row(each.row, "m") if each.id.startswith("m_") else None
        if each.id in live and (state is None or state.content == each.text):
            found.add(id(each))
    return found


def _cited_by_rules(work: Work, scope: Scope, steps: Sequence[Step]) -> set[str]:
    """Sources of observations to be formed of which another one of the scope was formed meanwhile."""
    wanted = {piece.id for step in steps if step.seen is None for piece in step.pieces if piece.id.startswith("m_")}
    return consolidations.cited(work.connection(), scope, sorted(wanted), GROUPING)
