"""The notes on the results of an ``add`` call, read from its events, and the reasons why findings did not become memories."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from ledger.core.reads import load
from ledger.domain import confidence as confidence_rules
from ledger.domain.text import counted
from ledger.english.wishes import WISHES
from ledger.events import (
    AnyEvent,
    ConflictFound,
    MemoryCaptured,
    MemoryInvalidated,
    MemoryReinforced,
    MemoryRetracted,
    MemorySuperseded,
    ReinforcementEvaluated,
    TextQuarantined,
)
from ledger.extraction.answers import Noted
from ledger.extraction.asking import ExtractionRun
from ledger.extraction.wishing import WISH
from ledger.interactions.rules import HANDED_IN
from ledger.memories import admission_rules as admitting
from ledger.memories.queries import provenance
from ledger.memories.state import MemoryState
from ledger.models.asking import hint_of
from ledger.sessions.continuing import Continued
from projections.core.rows import Connection
from projections.views import confidence

LISTED = 20  # the most reasons of dropped findings that are listed; further ones are counted
QUOTED = 80  # the most characters of a text in a reason
_DROPPED = {  # the reasons why a finding is not a new memory
    "known": "is believed already",
    "confirmed": "is believed already: the user confirms it",
    "near_duplicate": "nearly the same is believed already",
    "duplicate": "waits for review already",
    "repeated": "was found twice",
    "echo": "repeats what the model had just been shown",
    "rejected": "was rejected before",
    "retracted": "was retracted before",
    "expired": "expired before",
    "ended": "ended in a later message",
    "too_short": "is too short to say something",
    "too_long": "is too long for one memory",
    "speaker": "is the assistant's own 'I'",
    "threat": "was refused by a guard",
    "secret": "has a secret in it",
    "tool_limitation": "only claims that a tool cannot do something",
    "budget": "has no room in the policy's budget",
    "batch_cap": "is one too many for a single pass",
    "not_admitted": "is not taken back: no words of the user's own say so beyond doubt",
    "newer": "is not taken back: it is newer than what was said",
    "not_active": "is not believed any more",
}


class Notes:
    """The memories that events made or concerned, each with the reason."""

    def __init__(self, connection: Connection, user: str) -> None:
        self._connection, self._user = connection, user
        self.learned: list[Noted] = []
        self.proposed: list[Noted] = []
        self.reinforced: list[Noted] = []
        self.contradicted: dict[str, Noted] = {}
        self.changed: dict[str, None] = {}
        self.wishes: list[int] = []
        self.admitted: int = 0

    def take(self, event: AnyEvent) -> None:
        match event.data:
            case MemoryCaptured() as data:
                self._captured(event.stream, data)
            case MemoryReinforced(interaction=turn, echo=echo):
                self._reinforced(event, turn or "", echo=echo)
            case ReinforcementEvaluated(matcher=matcher, denied=denied):
                for denial in denied:
                    how = f"the answer of {event.stream} denies it ({denial.how})"
                    if denial.how == WISH:
                        how = f"the user wishes in {event.stream} that it is forgotten; a person decides"
                    elif matcher == HANDED_IN:
                        how = f"it ended as {event.stream} is read; a person wrote it, so a person decides"
                    self._contradict(denial.memory, how)
            case TextQuarantined(scanner=scanner) if scanner == WISHES:
                self.wishes.append(event.data.position)
            case MemorySuperseded(by=by) if by is not None:
                self._change(event.stream, f"{by} supersedes it")
            case MemoryRetracted() | MemoryInvalidated():
                self._change(event.stream, f"the user takes it back; restore({event.stream!r}) undoes that")
            case ConflictFound(attribute=attribute, memories=memories):
                for id in memories:
                    self._contradict(id, f"it stands in the conflict {event.stream} ({attribute})")

    def _state(self, id: str) -> MemoryState | None:
        state: MemoryState | None = load(self._connection, id, "m", self._user)
        return state

    def content(self, id: str) -> str | None:
        state = self._state(id)
        return state.content if state is not None else None

    def _captured(self, id: str, data: MemoryCaptured) -> None:
        if (state := self._state(id)) is None:
            return
        place = provenance(self._connection, state)
        why = "found in the messages"
        if place is not None:
            by = f"{place.rule}, {place.role or 'said'} at position {place.position}" if place.position else place.rule
            why = f"{by}: {_quoted(place.quote)}" if place.quote and place.end > place.start else by
        if data.supersedes is not None:
            why += f"; supersedes {data.supersedes}"
        if data.status == "active":
            self.learned.append(noted(state, why))
            self.admitted += bool(data.admission)
            return
        waits = f"; {admitting.about(data.admission)}" if data.admission else ""
        self.proposed.append(noted(state, why + waits))

    def _reinforced(self, event: AnyEvent, turn: str, *, echo: bool) -> None:
        state, step = self._state(event.stream), confidence.step(self._connection, event.first, event.position)
        if state is None or step is None:
            return
        before, after = confidence_rules.shown(step.confidence - step.delta), confidence_rules.shown(step.confidence)
        how = "repeats it, having just been shown it" if echo else "restates it"
        self.reinforced.append(noted(state, f"the answer of {turn} {how}: {before:.2f} to {after:.2f}"))

    def _change(self, id: str, why: str) -> None:
        self._contradict(id, why)
        if id in self.contradicted:
            self.changed[id] = None
            self.learned = [memory for memory in self.learned if memory.id != id]  # begun and ended by one answer

    def _contradict(self, id: str, why: str) -> None:
        if (state := self._state(id)) is not None:
            self.contradicted.setdefault(id, noted(state, why))


def noted(state: MemoryState, why: str) -> Noted:
    return Noted(
        id=state.id,
        content=state.content,
        kind=state.kind,
        confidence=confidence_rules.shown(state.confidence),
        why=why,
    )


def _quoted(text: str) -> str:
    line = " ".join(text.split())
    return repr(line if len(line) <= QUOTED else line[: QUOTED - 1] + "…")


def of_admission(notes: Notes) -> Iterator[str]:
    """Yield a line about the memories that no person admitted, which says how to take them back."""
    if notes.admitted:
        yield (
            f"{notes.admitted:,} admitted without review: retract(id) takes one back; review(admitted=True) lists them"
        )


def of_wishes(notes: Notes) -> Iterator[str]:
    """Yield a line about what the user wishes to be forgotten, which names the calls that do it."""
    if notes.wishes:
        yield (
            "the user wishes that something is forgotten, and no rule can tell what: the turn and the one before are out of use"
            " until a person decides: retract(id) or erase(id) forgets, and guards.release(id) brings back"
        )


# --- the reasons for fewer results ------------------------------------------------------------------------------------------


def of_messages(done: Continued, messages: int) -> Iterator[str]:
    """Yield the reasons why messages were not appended."""
    if done.replayed and not done.appended:
        yield "this idempotency_key was already used for the same messages: these are the results of that call"
    elif done.known.count == messages:
        yield f"the session has {counted(messages, 'message')} already: nothing is new"
    if done.known.by_text:
        yield (
            f"{counted(done.known.count, 'message')} of the list {'is' if done.known.count == 1 else 'are'} known by text,"
            " though the ids differ: give created_at where somebody says the same again"
        )
    if (unseen := done.known.unseen) == 1:
        yield "the first message of the list stands for older ones, as a summary does: it was not appended"
    elif unseen:
        yield f"the first {unseen} messages of the list stand for older ones, as a summary does: they were not appended"
    if again := done.known.again:
        yield (
            f"the last {counted(again, 'message')} of the session came again behind others, and all of the list was appended;"
            " session.reconcile() makes the session the same as a transcript"
        )
    if done.known.differs:
        yield (
            f"the messages differ from the session from number {done.known.differs} on: new messages were appended, and"
            " none hidden; session.reconcile() makes the session the same as a transcript"
        )


def of_extraction(run: ExtractionRun, notes: Notes, *, model: bool) -> Iterator[str]:
    """Yield the findings that are no new memories, and the reasons why nothing was found."""
    yield from _dropped(run.dropped, notes)
    if run.skipped and model:
        yield f"{counted(run.skipped, 'message')} held nothing worth a model's time"
    if run.failure and run.failure != "Cancelled":
        failed = f"the model failed ({run.failure}){hint_of(run.failure)}"
        yield f"{failed}; the next call, or jobs.run(), extracts from those messages again"
    if run.stopped == "under_way":
        yield "another call extracts from this session just now"
    elif run.stopped in ("enough", "moved"):
        yield "others write in this session: jobs.run() extracts from the rest"
    if run.kept or run.dropped or run.failure or not run.messages - (run.skipped if model else 0):
        return
    if model:
        yield f"the model found nothing to remember in {counted(run.messages - run.skipped, 'message')}"
    else:
        yield (
            f"the rules found nothing in {counted(run.messages, 'message')}: they know phrases like 'I prefer …' and"
            " 'Decision: …'; a model finds more"
        )


def _dropped(dropped: Sequence[Mapping[str, object]], notes: Notes) -> Iterator[str]:
    reasons = Counter(_why_dropped(entry, notes) for entry in dropped if entry.get("reason") != "left_over")
    for why, times in list(reasons.items())[:LISTED]:
        yield f"{why} (× {times})" if times > 1 else why
    if len(reasons) > LISTED:
        yield f"and {len(reasons) - LISTED} more of this kind"


def _why_dropped(entry: Mapping[str, object], notes: Notes) -> str:
    reason, memory = str(entry.get("reason") or ""), str(entry.get("memory") or "")
    text = str(entry.get("content") or "") or (notes.content(memory) if memory else None)
    finding = _quoted(text) if text else f"what {entry.get('rule') or 'the model'} found"
    why = _DROPPED.get(reason, f"was dropped: {reason}")
    return f"{finding} {why} ({memory})" if memory else f"{finding} {why}"
