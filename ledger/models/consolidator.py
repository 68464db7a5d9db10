"""The request to a model for the consolidation of sources into observations, and the actions in its answer.

The model sees numbers and never an id, so it can name only sources and observations that it was shown. Each action is
checked by itself, and again under the lock. An action that cannot be carried out is recorded with its reason, and does
not affect the other actions.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from ledger.core.work import Work
from ledger.domain import confidence as confidence_rules
from ledger.domain.scan.patterns import is_tool_limitation
from ledger.domain.text import normalise, one_line
from ledger.events import ObservationFormed
from ledger.models.calls import KEPT, ActionOutcome
from ledger.models.port import ModelRequest
from ledger.models.prompts import prompt
from ledger.models.reading import Action, Parsed
from ledger.observations import rules as observation_rules
from ledger.observations.policy import CHANGED, SECRET, SourcePiece, applied, duplicate, evidence_of, unfit
from ledger.observations.rules import WORDS, ObservationState
from projections.views import observations, sessions
from projections.views.consolidations import Scope, Sourced

PURPOSE = "consolidation"
CONSOLIDATOR = "consolidate/1"  # the name of the consolidator and of its prompt
RULE = "given/1"
MOST_ACTIONS = 5  # the most actions of one answer, as in astrocyte
ANSWER_TOKENS = 1_024  # astrocyte's 512 were too few for five actions with their reasons
# The most observations in a prompt (as in astrocyte), the most stale ones among them, the most sources of each of these.
SHOWN, STALE_SHOWN, OF_EACH = (10, 5, 4)
SOURCE_CHARS = 1_000  # the most of one source in a prompt
CLAMPED = "clamped"  # the action was carried out with its confidence brought into bounds
ERASED = "source_erased"
CHANGES = ("redundant", "state_change", "resolve")
_MARKERS = re.compile(r"<(/?)(observations|notes)", re.IGNORECASE)
_DIGITS = re.compile(r"\D{0,12}(\d{1,6})\D{0,3}", re.ASCII)


class ConsolidationBatch(Struct):
    """The subject of one call: the sources and observations behind the numbers of its prompt.

    The first ``new`` sources are new. The sources after them belong to the ``stale`` observations, which come first
    among the observations.
    """

    sources: list[SourcePiece]
    new: int
    observations: list[Sourced]
    stale: int = 0
    of_stale: dict[int, list[int]] = field(default_factory=dict)  # number of the observation -> numbers of its sources


class ConsolidationOutcome(Struct):
    """The outcome of an answer: the actions with their outcomes, and the counts for the report."""

    taken: list[ActionOutcome] = field(default_factory=list)
    counts: list[str] = field(default_factory=list)
    acted: list[tuple[str, str, str, tuple[str, ...]]] = field(default_factory=list)  # (what, id, text, sources)
    wordings: set[str] = field(default_factory=set)  # the wordings of this answer
    clamped: int = 0


# --- the question ----------------------------------------------------------------------------------------------------


def request(batch: ConsolidationBatch) -> ModelRequest:
    return ModelRequest(
        purpose=PURPOSE,
        prompt=CONSOLIDATOR,
        instructions=prompt(CONSOLIDATOR).template,
        content=_content(batch),
        schema=_models()[1],
        max_tokens=ANSWER_TOKENS,
        temperature=0.0,
    )


def _content(batch: ConsolidationBatch) -> str:
    shown = [_shown(number, observation, batch) for number, observation in enumerate(batch.observations, 1)]
    notes = [f"{number}. [{source.at[:10]}] {_harmless(source.text)}" for number, source in enumerate(batch.sources, 1)]
    return "\n".join(["<observations>", *(shown or ["none"]), "</observations>", "<notes>", *notes, "</notes>"])


def _shown(number: int, observation: Sourced, batch: ConsolidationBatch) -> str:
    if number <= batch.stale:  # the text of a stale observation may repeat a source that is gone
        note_numbers = ", ".join(map(str, batch.of_stale.get(number, ())))
        return f"{number}. stale: word it anew from the notes {note_numbers}"
    proof = len(observation.live)
    believed = confidence_rules.shown(
        confidence_rules.proven(observation.state.rule, observation.state.confidence, proof)
    )
    return f"{number}. [{proof} sources, confidence {believed:.2f}] {_harmless(observation.state.text or '')}"


def _harmless(text: str) -> str:
    """Return the text as one line that cannot end its block in the prompt."""
    return _MARKERS.sub(r"‹\1\2", one_line(text[:SOURCE_CHARS]))


# --- the answer ------------------------------------------------------------------------------------------------------


def kinds() -> dict[str, type[Any]]:
    """Return the pydantic model of each kind of action."""
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


def _numbers(value: object) -> list[int]:
    """Return the numbers in a model's value for a list of numbers; parts that are no number are left out."""
    listed = value if isinstance(value, list) else re.split(r"[,;\s]+", value) if isinstance(value, str) else [value]
    numbers = (_number(item) for item in listed[:1_000])
    return list(dict.fromkeys(number for number in numbers if number))


def _number(value: object) -> int:
    """Return the number in 3, 3.0, "3", "[3]" or "note 3", counted from 1; 0 for anything else."""
    if isinstance(value, bool):
        return 0
    if isinstance(value, int | float):
        return int(value) if value == value and value in range(1, 10**6) else 0
    match = _DIGITS.fullmatch(value.strip()) if isinstance(value, str) else None
    return int(match[1]) if match else 0


# --- under the lock --------------------------------------------------------------------------------------------------


def erased_meanwhile(work: Work, batch: ConsolidationBatch) -> bool:
    """Return True if a text that the model has read was erased while it answered.

    Nothing of the answer may be kept then, because the answer may repeat the text.
    """
    for source in batch.sources:
        kind, connection = source.id[0], work.connection()
        state = sessions.at_position(connection, source.row) if kind == "s" else work.at_row(source.row, kind)
        if state is None:
            continue  # the source was undone
        if getattr(state, "content", "") is None if kind == "m" else not observations.live(connection, [source.id]):
            return True
    return any(
        (state := work.at_row(observation.state.row, "o")) is not None and state.text is None
        for observation in batch.observations
    )


def take(work: Work, scope: Scope, batch: ConsolidationBatch, parsed: Parsed) -> ConsolidationOutcome:
    """Carry out the first ``MOST_ACTIONS`` actions as far as possible, and return the outcome of all actions."""
    answered = ConsolidationOutcome()
    live = observations.live(work.connection(), _sources_of(batch))
    touched: set[int] = set()
    for number, action in enumerate(parsed.actions):
        if number >= MOST_ACTIONS:
            answered.taken.append(ActionOutcome(action.what, "too_many", text=getattr(action.value, "text", "")))
            continue
        _Taking(work, scope, batch, live, touched, answered).take(action)
    return answered


def without_findings(work: Work, taken: Sequence[ActionOutcome]) -> list[ActionOutcome]:
    """Return the actions without the texts in which a scanner found a threat or a secret."""
    return [
        replace(action, text="")
        if action.text and (work.threat(action.text) or work.secret_in(action.text))
        else action
        for action in taken
    ]


def _sources_of(batch: ConsolidationBatch) -> set[str]:
    written = {source for observation in batch.observations for source in observation.state.written_from}
    return written | {source.id for source in batch.sources}


class _Taking:
    """The check and the execution of a single action of the answer."""

    def __init__(
        self,
        work: Work,
        scope: Scope,
        batch: ConsolidationBatch,
        live: set[str],
        touched: set[int],
        answered: ConsolidationOutcome,
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
        named = [self._batch.sources[number - 1] for number in value.sources if number <= len(self._batch.sources)]
        {"create": self._create, "update": self._update, "delete": self._delete}[action.what](value, text, named)

    def _why_not(self, what: str, value: Any, text: str, number: int | None) -> str:
        """Return the reason why an action is dropped at once, or ""."""
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
        if len(text.split()) > WORDS or len(text.encode()) > observation_rules.TEXT_BYTES:
            return "too_long"
        if why := "tool_limitation" if is_tool_limitation(text) else unfit(self._work, text):
            return why
        return "" if any(source <= len(self._batch.sources) for source in value.sources) else "no_sources"

    def _drop(self, what: str, why: str, text: str, number: int | None = None) -> None:
        shown = self._batch.observations
        target = shown[number - 1].state.id if number is not None and 1 <= number <= len(shown) else None
        self._answered.taken.append(ActionOutcome(what, why, target=target, text=text))

    def _keep(self, what: str, counts: str, id: str, text: str, named: Sequence[SourcePiece]) -> None:
        target = id if what != "create" else None
        self._answered.taken.append(ActionOutcome(what, KEPT, subject=id, target=target))
        self._answered.counts.append(counts)
        self._answered.wordings.add(normalise(text))
        self._answered.acted.append((counts, id, text, tuple(source.id for source in named)))

    # --- each kind ---------------------------------------------------------------------------------------------------

    def _create(self, value: Any, text: str, named: Sequence[SourcePiece]) -> None:
        if value.confidence is not None and value.confidence < confidence_rules.shown(
            confidence_rules.LEAST_OBSERVATION
        ):
            self._drop("create", "low_confidence", text)
            return
        alive = [source for source in named if source.id in self._live]
        if not alive or normalise(text) in self._answered.wordings:
            self._drop("create", "repeated" if alive else "source_gone", text)
            return
        known = duplicate(self._work, self._scope.project, self._scope.tags, text)
        if known is not None:
            self._add_to_same(known, text, alive)
            return
        believed = self._believed(value.confidence, confidence_rules.OBSERVATION_CONFIDENCE)
        id = self._work.new_id("o")
        self._work.emit(
            id,
            ObservationFormed(
                content=text,
                confidence=believed,
                rule=RULE,
                consolidator=CONSOLIDATOR,
                evidence=evidence_of(alive),
                written_from=tuple(dict.fromkeys(source.id for source in named)),
                tags=self._scope.tags,
                reason=_reason(value),
            ),
        )
        self._keep("create", "formed", id, text, alive)

    def _add_to_same(self, known: ObservationState, text: str, alive: Sequence[SourcePiece]) -> None:
        """Add the sources to an observation that exists with exactly this text."""
        if applied(self._work, known, [observation_rules.Add(evidence_of(alive), CONSOLIDATOR)]):
            self._keep("create", "revised", known.id, "", alive)
        else:
            self._drop("create", "duplicate", text)

    def _update(self, value: Any, text: str, named: Sequence[SourcePiece]) -> None:
        observation = self._batch.observations[value.observation - 1]
        alive = [piece for piece in named if piece.id in self._live]
        current = self._as_seen(observation)
        if not alive or current is None:
            self._drop("update", "source_gone" if not alive else CHANGED, text, value.observation)
            return
        stale = value.observation <= self._batch.stale
        before = () if stale else current.written_from  # the new text of a fresh observation continues the old text
        if not self._live.issuperset(before):
            self._drop("update", CHANGED, text, value.observation)
            return
        known = duplicate(self._work, current.project, current.tags, text, besides=current.row)
        if known is not None or normalise(text) in self._answered.wordings:
            self._drop("update", "duplicate", text, value.observation)
            return
        believed = self._believed(value.confidence, confidence_rules.within_bounds(current.confidence))
        change = "resolve" if stale else value.change if value.change in CHANGES else "redundant"
        written = tuple(dict.fromkeys([*before, *(piece.id for piece in named)]))
        revise = observation_rules.ReviseObservation(
            text, change, believed, RULE, CONSOLIDATOR, written, _reason(value)
        )
        if applied(self._work, current, [observation_rules.Add(evidence_of(alive), CONSOLIDATOR), revise]):
            self._keep("update", "revised", current.id, text, alive)
        else:
            self._drop("update", "no_change", text, value.observation)

    def _delete(self, value: Any, text: str, named: Sequence[SourcePiece]) -> None:
        current = self._as_seen(self._batch.observations[value.observation - 1])
        if named and not any(source.id in self._live for source in named):
            self._drop("delete", "source_gone", "", value.observation)
            return
        if current is None or not applied(
            self._work, current, [observation_rules.Retire("contradiction", reason=_reason(value))]
        ):
            self._drop("delete", CHANGED, "", value.observation)
            return
        self._keep("delete", "retracted", current.id, "", named)
        return

    def _believed(self, confidence: float | None, default: int) -> int:
        """Return a confidence in millionths within [0.5, 1]; a value outside is clamped, and counted."""
        if confidence is None or confidence != confidence:
            return default
        within = min(max(confidence, confidence_rules.shown(confidence_rules.LEAST_OBSERVATION)), 1.0)
        self._answered.clamped += within != confidence
        return confidence_rules.millionths("confidence", within)

    def _as_seen(self, seen: Sourced) -> ObservationState | None:
        """Return the observation if nothing has happened to it since the model was asked, else None."""
        current: ObservationState | None = self._work.at_row(seen.state.row, "o")
        if current is None or current.position != seen.state.position:
            return None
        return current


def _reason(value: Any) -> str:
    return " ".join(str(value.reason).split())[:1_000]
