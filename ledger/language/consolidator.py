"""What a model is asked when sources are consolidated, and what its answer comes to: a few actions, each on what it was shown.

The model sees numbers and never an id, so it can name nothing but what it was shown. What it asks for is checked action by
action, and again under the lock: an action that cannot be taken is recorded with its reason, and takes nothing with it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from ledger.domain import confidence as rules
from ledger.domain import observation as domain
from ledger.domain.events import ObservationFormed
from ledger.domain.harmless import one_line
from ledger.domain.observation import WORDS, Observation
from ledger.domain.text import normalise
from ledger.engine.work import Work
from ledger.guards import claims
from ledger.language.calls import KEPT, Taken
from ledger.language.port import ModelRequest
from ledger.language.prompts import prompt
from ledger.language.reading import Action, Parsed
from ledger.policies.consolidation import CHANGED, SECRET, Piece, applied, evidence_of, unfit
from ledger.policies.evidence import duplicate
from projections.views import observations, sessions
from projections.views.consolidations import Scope, Sourced

PURPOSE = "consolidation"
CONSOLIDATOR = "consolidate/1"  # its name, and that of its prompt
RULE = "given/1"
MOST_ACTIONS = 5  # of one answer (astrocyte)
ANSWER_TOKENS = 1_024  # ours; astrocyte's 512 cut five actions with their reasons off
# observations (astrocyte), of them stale ones, and sources shown of each of these
SHOWN, STALE_SHOWN, OF_EACH = (10, 5, 4)
SOURCE_CHARS = 1_000  # of one source in a prompt
CLAMPED = "clamped"  # of an action that was taken: its confidence was brought into bounds
ERASED = "source_erased"
CHANGES = ("redundant", "state_change", "resolve")
_MARKERS = re.compile(r"<(/?)(observations|notes)", re.IGNORECASE)
_DIGITS = re.compile(r"\D{0,12}(\d{1,6})\D{0,3}", re.ASCII)


class Batch(Struct):
    """What one call is about: the sources and observations behind the numbers of its prompt. ``new`` are how many of the
    sources are new; those after them belong to the ``stale`` observations, which come first."""

    sources: list[Piece]
    new: int
    observations: list[Sourced]
    stale: int = 0
    of_stale: dict[int, list[int]] = field(default_factory=dict)  # number of the observation -> numbers of its sources


class Answered(Struct):
    """What became of the actions, and what it counts as."""

    taken: list[Taken] = field(default_factory=list)
    counts: list[str] = field(default_factory=list)
    acted: list[tuple[str, str, str, tuple[str, ...]]] = field(default_factory=list)  # what, id, text, sources
    wordings: set[str] = field(default_factory=set)  # the wordings of this answer
    clamped: int = 0


# --- the question ----------------------------------------------------------------------------------------------------


def request(batch: Batch) -> ModelRequest:
    return ModelRequest(
        purpose=PURPOSE,
        prompt=CONSOLIDATOR,
        instructions=prompt(CONSOLIDATOR).template,
        content=_content(batch),
        schema=_models()[1],
        max_tokens=ANSWER_TOKENS,
        temperature=0.0,
    )


def _content(batch: Batch) -> str:
    shown = [_shown(number, each, batch) for number, each in enumerate(batch.observations, 1)]
    notes = [f"{number}. [{each.at[:10]}] {_harmless(each.text)}" for number, each in enumerate(batch.sources, 1)]
    return "\n".join(["<observations>", *(shown or ["none"]), "</observations>", "<notes>", *notes, "</notes>"])


def _shown(number: int, each: Sourced, batch: Batch) -> str:
    if number <= batch.stale:  # its wording may tell of what is gone, so it is not shown
        named = ", ".join(map(str, batch.of_stale.get(number, ())))
        return f"{number}. stale: word it anew from the notes {named}"
    proof = len(each.live)
    believed = rules.shown(rules.proven(each.state.rule, each.state.confidence, proof))
    return f"{number}. [{proof} sources, confidence {believed:.2f}] {_harmless(each.state.text or '')}"


def _harmless(text: str) -> str:
    """One line that cannot end the block it stands in."""
    return _MARKERS.sub(r"‹\1\2", one_line(text[:SOURCE_CHARS]))


# --- the answer ------------------------------------------------------------------------------------------------------


def kinds() -> dict[str, type[Any]]:
    """The pydantic model of each kind of action."""
    return _models()[0]


@cache
def _models() -> tuple[dict[str, type[Any]], type[Any]]:
    from typing import Annotated, Literal

    from pydantic import BaseModel, BeforeValidator

    class Create(BaseModel):
        action: Literal["create"] = "create"
        text: str
        sources: Annotated[list[int], BeforeValidator(_numbers)]
        confidence: float | None = None
        reason: str = ""

    class Update(BaseModel):
        action: Literal["update"] = "update"
        observation: Annotated[int, BeforeValidator(_number)]
        text: str
        sources: Annotated[list[int], BeforeValidator(_numbers)]
        confidence: float | None = None
        change: str = "redundant"
        reason: str = ""

    class Delete(BaseModel):
        action: Literal["delete"] = "delete"
        observation: Annotated[int, BeforeValidator(_number)]
        sources: Annotated[list[int], BeforeValidator(_numbers)] = []
        reason: str = ""

    class Actions(BaseModel):
        actions: list[Create | Update | Delete]

    return {"create": Create, "update": Update, "delete": Delete}, Actions


def _numbers(given: object) -> list[int]:
    """The numbers in what a model gave for them; what is none is left out."""
    listed = given if isinstance(given, list) else re.split(r"[,;\s]+", given) if isinstance(given, str) else [given]
    found = (_number(each) for each in listed[:1_000])
    return list(dict.fromkeys(each for each in found if each))


def _number(given: object) -> int:
    """A number from 1, as 3, 3.0, "3", "[3]" or "note 3"; 0 for anything else."""
    if isinstance(given, bool):
        return 0
    if isinstance(given, int | float):
        return int(given) if given == given and given in range(1, 10**6) else 0
    found = _DIGITS.fullmatch(given.strip()) if isinstance(given, str) else None
    return int(found[1]) if found else 0


# --- under the lock --------------------------------------------------------------------------------------------------


def erased_meanwhile(work: Work, batch: Batch) -> bool:
    """Whether a text that the model has read was erased while it answered: nothing that it says may be kept then."""
    for each in batch.sources:
        kind, connection = each.id[0], work.connection()
        state = sessions.at_position(connection, each.row) if kind == "s" else work.at_row(each.row, kind)
        if state is None:
            continue  # undone
        if getattr(state, "content", "") is None if kind == "m" else not observations.live(connection, [each.id]):
            return True
    return any(
        (state := work.at_row(each.state.row, "o")) is not None and state.text is None for each in batch.observations
    )


def take(work: Work, scope: Scope, batch: Batch, parsed: Parsed) -> Answered:
    """Takes the first five actions, each that can be taken; what became of all of them."""
    answered = Answered()
    live = observations.live(work.connection(), _sources_of(batch))
    touched: set[int] = set()
    for number, action in enumerate(parsed.actions):
        if number >= MOST_ACTIONS:
            answered.taken.append(Taken(action.what, "too_many", text=getattr(action.value, "text", "")))
            continue
        _Taking(work, scope, batch, live, touched, answered).take(action)
    return answered


def without_findings(work: Work, taken: Sequence[Taken]) -> list[Taken]:
    """The same, and nothing is repeated of a text in which a scanner found something."""
    return [
        replace(each, text="") if each.text and (work.threat(each.text) or work.secret_in(each.text)) else each
        for each in taken
    ]


def _sources_of(batch: Batch) -> set[str]:
    written = {source for each in batch.observations for source in each.state.written_from}
    return written | {each.id for each in batch.sources}


class _Taking:
    """One action on its way."""

    def __init__(
        self, work: Work, scope: Scope, batch: Batch, live: set[str], touched: set[int], answered: Answered
    ) -> None:
        self._work, self._scope, self._batch = work, scope, batch
        self._live, self._touched, self._answered = live, touched, answered

    def take(self, action: Action) -> None:
        value, text = action.value, " ".join(getattr(action.value, "text", "").split())
        text = self._work.cleaned(text)
        number = getattr(value, "observation", None)
        why = self._why_not(action.what, value, text, number)
        if why:
            self._drop(action.what, why, text, number)
            return
        if number is not None:
            self._touched.add(number)
        named = [self._batch.sources[each - 1] for each in value.sources if each <= len(self._batch.sources)]
        {"create": self._create, "update": self._update, "delete": self._delete}[action.what](value, text, named)

    def _why_not(self, what: str, value: Any, text: str, number: int | None) -> str:
        """Why an action is not even looked at."""
        if number is not None and not 1 <= number <= len(self._batch.observations):
            return "unknown_observation"
        if number in self._touched:
            return "repeated"
        if not value.reason.strip():
            return "no_reason"
        if self._work.policy().secrets == "refuse" and self._work.secret_in(value.reason):
            return SECRET
        if what == "delete":
            return ""
        if not text:
            return "blank"
        if len(text.split()) > WORDS or len(text.encode()) > domain.TEXT_BYTES:
            return "too_long"
        if why := "tool_limitation" if claims.is_tool_limitation(text) else unfit(self._work, text):
            return why
        return "" if any(each <= len(self._batch.sources) for each in value.sources) else "no_sources"

    def _drop(self, what: str, why: str, text: str, number: int | None = None) -> None:
        shown = self._batch.observations
        target = shown[number - 1].state.id if number is not None and 1 <= number <= len(shown) else None
        self._answered.taken.append(Taken(what, why, target=target, text=text))

    def _keep(self, what: str, counts: str, id: str, text: str, named: Sequence[Piece]) -> None:
        target = id if what != "create" else None
        self._answered.taken.append(Taken(what, KEPT, subject=id, target=target))
        self._answered.counts.append(counts)
        self._answered.wordings.add(normalise(text))
        self._answered.acted.append((counts, id, text, tuple(each.id for each in named)))

    # --- each kind ---------------------------------------------------------------------------------------------------

    def _create(self, value: Any, text: str, named: Sequence[Piece]) -> None:
        if value.confidence is not None and value.confidence < rules.shown(rules.LEAST_OBSERVATION):
            self._drop("create", "low_confidence", text)
            return
        alive = [each for each in named if each.id in self._live]
        if not alive or normalise(text) in self._answered.wordings:
            self._drop("create", "repeated" if alive else "source_gone", text)
            return
        known = duplicate(self._work, self._scope.project, self._scope.tags, text)
        if known is not None:
            self._add_to_same(known, text, alive)
            return
        believed = self._believed(value.confidence, rules.OBSERVATION_CONFIDENCE)
        id = self._work.new_id("o")
        self._work.emit(
            id,
            ObservationFormed(
                content=text,
                confidence=believed,
                rule=RULE,
                consolidator=CONSOLIDATOR,
                evidence=evidence_of(alive),
                written_from=tuple(dict.fromkeys(each.id for each in named)),
                tags=self._scope.tags,
                reason=_reason(value),
            ),
        )
        self._keep("create", "formed", id, text, alive)

    def _add_to_same(self, known: Observation, text: str, alive: Sequence[Piece]) -> None:
        """What was to be created is there in these very words: its sources support that one."""
        if applied(self._work, known, [domain.Add(evidence_of(alive), CONSOLIDATOR)]):
            self._keep("create", "revised", known.id, "", alive)
        else:
            self._drop("create", "duplicate", text)

    def _update(self, value: Any, text: str, named: Sequence[Piece]) -> None:
        each = self._batch.observations[value.observation - 1]
        alive = [piece for piece in named if piece.id in self._live]
        current = self._as_seen(each)
        if not alive or current is None:
            self._drop("update", "source_gone" if not alive else CHANGED, text, value.observation)
            return
        stale = value.observation <= self._batch.stale
        before = () if stale else current.written_from  # what it said goes into what it says
        if not self._live.issuperset(before):
            self._drop("update", CHANGED, text, value.observation)
            return
        known = duplicate(self._work, current.project, current.tags, text, besides=current.row)
        if known is not None or normalise(text) in self._answered.wordings:
            self._drop("update", "duplicate", text, value.observation)
            return
        believed = self._believed(value.confidence, rules.within_bounds(current.confidence))
        change = "resolve" if stale else value.change if value.change in CHANGES else "redundant"
        written = tuple(dict.fromkeys([*before, *(piece.id for piece in named)]))
        revise = domain.Revise(text, change, believed, RULE, CONSOLIDATOR, written, _reason(value))
        if applied(self._work, current, [domain.Add(evidence_of(alive), CONSOLIDATOR), revise]):
            self._keep("update", "revised", current.id, text, alive)
        else:
            self._drop("update", "no_change", text, value.observation)

    def _delete(self, value: Any, text: str, named: Sequence[Piece]) -> None:
        current = self._as_seen(self._batch.observations[value.observation - 1])
        if named and not any(each.id in self._live for each in named):
            self._drop("delete", "source_gone", "", value.observation)
            return
        if current is None or not applied(self._work, current, [domain.Retire("contradiction", reason=_reason(value))]):
            self._drop("delete", CHANGED, "", value.observation)
            return
        self._keep("delete", "retracted", current.id, "", named)
        return

    def _believed(self, given: float | None, default: int) -> int:
        """A confidence as millionths within [0.5, 1]; that it had to be brought there is counted."""
        if given is None or given != given:
            return default
        within = min(max(given, rules.shown(rules.LEAST_OBSERVATION)), 1.0)
        self._answered.clamped += within != given
        return rules.millionths("confidence", within)

    def _as_seen(self, each: Sourced) -> Observation | None:
        """The observation, if nothing has happened to it since the model was asked."""
        current: Observation | None = self._work.at_row(each.state.row, "o")
        if current is None or current.position != each.state.position:
            return None
        return current


def _reason(value: Any) -> str:
    return " ".join(str(value.reason).split())[:1_000]
