"""The life cycle of a memory.

none ──► candidate ──promote──► active ──supersede──► superseded
             │  │                 │ └───invalidate──► invalid
             │  └─reject─► invalid└─────retract─────► retracted       restore: back to the status before

A candidate can be superseded and retracted too, without ever being active here. Whoever supersedes or ends the candidate says
that it was true until then; the promotion of its successor does not. A memory is *hidden* if it is superseded, invalid or
retracted. ``decide`` turns a command into events, or refuses it.
``state.py`` has the states, and the change by each event.
"""

from __future__ import annotations

from msgspec import UNSET, Struct
from msgspec.structs import asdict

from ledger.domain import confidence as confidence_rules
from ledger.domain import metadata as pairs_of
from ledger.domain import secrecy
from ledger.domain.errors import RejectedError
from ledger.domain.text import normalise
from ledger.english.entities import name_form
from ledger.events import (
    ConfidenceAdjusted,
    DuplicateAbsorbed,
    EventData,
    MemoryCaptured,
    MemoryCorrected,
    MemoryInvalidated,
    MemoryPromoted,
    MemoryQuarantined,
    MemoryReinforced,
    MemoryRejected,
    MemoryReleased,
    MemoryRestored,
    MemoryRetagged,
    MemoryRetracted,
    MemoryRevised,
    MemorySuperseded,
    RelationAdded,
    RelationRemoved,
    ValidityChanged,
)
from ledger.memories.state import CO_OCCURS, ERASED, HIDDEN, STATUSES, Edge, MemoryState

EDGES = 64  # the most edges of a memory
NAME_CHARS = 256  # the most characters of a name in an edge, and of its relation

# --- commands --------------------------------------------------------------------------------------------------------


class Promote(Struct, frozen=True):
    note: str = ""


class RejectMemory(Struct, frozen=True):
    reason: str = ""
    rule: str = ""


class Reinforce(Struct, frozen=True):
    delta: int = confidence_rules.REINFORCEMENT_DELTA
    interaction: str | None = None
    matcher: str | None = None
    fraction: int | None = None
    echo: bool = False
    rule: str = "linear/1"


class Adjust(Struct, frozen=True):
    confidence: int
    reason: str = ""


class ReviseMemory(Struct, frozen=True):
    content: str
    reason: str = ""


class Retag(Struct, frozen=True):
    add: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()


class DescribeMemory(Struct, frozen=True):
    metadata: pairs_of.Pairs
    unset: tuple[str, ...] = ()


class Correct(Struct, frozen=True):
    """A command that corrects a memory; None keeps a value, and ``moved`` is True if the command's project is the new one."""

    kind: str | None = None
    moved: bool = False
    entities: tuple[str, ...] | None = None
    reason: str = ""


class SetValidity(Struct, frozen=True):
    valid_from: str | None
    valid_to: str | None
    reason: str = ""


class Supersede(Struct, frozen=True):
    by: str | None
    valid_to: str | None
    reason: str = ""
    rule: str | None = None


class Invalidate(Struct, frozen=True):
    reason: str = ""


class Retract(Struct, frozen=True):
    reason: str = ""


class RestoreMemory(Struct, frozen=True):
    reason: str = ""


class QuarantineMemory(Struct, frozen=True):
    reason: str = ""
    finding: str = ""
    scanner: str = ""


class Release(Struct, frozen=True):
    reason: str = ""
    scanner: str = ""


class Relate(Struct, frozen=True):
    source: str
    relation: str
    target: str
    valid_from: str | None = None
    valid_to: str | None = None


class Unrelate(Struct, frozen=True):
    source: str
    relation: str
    target: str
    reason: str = ""
    by: str | None = None


Command = (
    Promote | RejectMemory | Reinforce | Adjust | ReviseMemory | Retag | DescribeMemory | Correct | SetValidity
    | Supersede | Invalidate | Retract | RestoreMemory | QuarantineMemory | Release | Relate | Unrelate
)  # fmt: skip

# --- decide: every rule ----------------------------------------------------------------------------------------------

ALLOWED: dict[str, tuple[str, ...]] = {
    "candidate": (
        *("promote", "reject", "revise", "correct", "set_confidence", "tag", "set_metadata", "set_validity"),
        *("supersede", "retract", "quarantine", "release", "relate", "unrelate"),
    ),
    "active": (
        *("reinforce", "revise", "correct", "set_confidence", "tag", "set_metadata", "set_validity"),
        *("supersede", "invalidate", "retract", "quarantine", "release", "relate", "unrelate"),
    ),
    "superseded": ("restore",),
    "invalid": ("restore",),
    "retracted": ("restore",),
    ERASED: (),
}


def decide(command: Command, memory: MemoryState) -> list[EventData]:
    """Return the events of a command; an empty list if the memory already is as the command wants it.

    Raises:
        RejectedError: The status does not allow the command, or the command breaks a rule.
    """
    match command, memory.status:
        case Promote(note), "candidate":
            return [MemoryPromoted(note)]
        case RejectMemory(reason, rule), "candidate":
            return [MemoryRejected(reason, rule)]
        case Reinforce(), "active":
            return [_reinforcement(command, memory)]
        case Adjust(confidence, reason), "candidate" | "active":
            return [] if confidence == memory.confidence else [ConfidenceAdjusted("set/1", confidence, reason)]
        case ReviseMemory(content, reason), "candidate" | "active":
            return [] if content == memory.content else [MemoryRevised(content, reason)]
        case Retag(), "candidate" | "active":
            return _retagging(command, memory)
        case DescribeMemory(), "candidate" | "active":
            return _description(command, memory)
        case Correct() as correct, "candidate" | "active":
            return _correction(correct, memory)
        case SetValidity() as validity, "candidate" | "active":
            return _validity(validity, memory)
        case Supersede(by, valid_to, reason, rule), "active":
            return [MemorySuperseded(by, valid_to, reason, rule)]
        case Supersede(by, valid_to, reason, None), "candidate":  # a rule compares active memories alone
            return [MemorySuperseded(by, valid_to, reason, unreviewed=True)]
        case Invalidate(reason), "active":
            return [MemoryInvalidated(reason)]
        case Retract(reason), "candidate" | "active":
            return [MemoryRetracted(reason)]
        case RestoreMemory(reason), "superseded" | "invalid" | "retracted":
            return [MemoryRestored(reason)]
        case QuarantineMemory(reason, finding, scanner), "candidate" | "active":
            return [] if memory.quarantined else [MemoryQuarantined(reason, finding, scanner)]
        case Release(reason, scanner), "candidate" | "active":
            return [MemoryReleased(reason, scanner)] if memory.quarantined else []
        case Relate() as relate, "candidate" | "active":
            return relation_stated(relate, memory.edges)
        case Unrelate() as unrelate, "candidate" | "active":
            return _unrelation(unrelate, memory)
        case (Promote(), "active") | (RejectMemory() | Invalidate(), "invalid") | (Retract(), "retracted"):
            return []
        case RestoreMemory(), "candidate" | "active":
            return []
        case _:
            raise refusal(command, memory)


def refusal(command: Struct, memory: MemoryState) -> RejectedError:
    """Return the error for a command that the memory's status does not allow."""
    allowed = ", ".join(ALLOWED[memory.status]) or "nothing any more"
    message = f"cannot {_verb(command)} {memory.id}: it is {memory.status}, which allows: {allowed}"
    return RejectedError(message, rule="transition", subject=memory.id)


def _verb(command: Struct) -> str:
    """Return the name of the public method behind a command."""
    calls = {
        Adjust: "set_confidence",
        Retag: "tag",
        DescribeMemory: "set_metadata",
        SetValidity: "set_validity",
    }
    return calls.get(type(command), type(command).__name__.removesuffix("Memory").lower())


def _reinforcement(command: Reinforce, memory: MemoryState) -> EventData:
    if command.delta < 0:
        raise RejectedError(
            f"a reinforcement of {confidence_rules.shown(command.delta):g} would lower the confidence; amounts from 0 are"
            " allowed, and memories.set_confidence() lowers it"
        )
    confidence_rules.reinforced(command.rule, memory.confidence, command.delta)  # raises for an unknown rule
    return MemoryReinforced(
        rule=command.rule,
        delta=command.delta,
        interaction=command.interaction,
        matcher=command.matcher,
        fraction=command.fraction,
        echo=command.echo,
    )


def _retagging(command: Retag, memory: MemoryState) -> list[EventData]:
    added = tuple(tag for tag in command.add if tag not in memory.tags)
    removed = tuple(tag for tag in command.remove if tag in memory.tags and tag not in command.add)
    return [MemoryRetagged(added, removed)] if added or removed else []


def _description(command: DescribeMemory, memory: MemoryState) -> list[EventData]:
    """Return the change of metadata; a key that is both set and unset is unset."""
    new, unset = pairs_of.change(pairs_of.of_row(memory.metadata), command.metadata, command.unset)
    return [MemoryRetagged(metadata=pairs_of.event_form(new), unset=unset)] if new or unset else []


def _correction(command: Correct, memory: MemoryState) -> list[EventData]:
    kind = "" if command.kind in (None, memory.kind) else command.kind or ""
    entities = UNSET if command.entities in (None, memory.entities) else command.entities
    if not kind and entities is UNSET and not command.moved:
        return []
    return [MemoryCorrected(kind, command.moved, entities, command.reason)]


def _validity(command: SetValidity, memory: MemoryState) -> list[EventData]:
    start, end = command.valid_from or memory.valid_from, command.valid_to
    if end is not None and end <= start:
        raise RejectedError(f"a memory's validity must end after it begins: {start} to {end} is empty", rule="validity")
    unchanged = (start, end) == (memory.valid_from, memory.valid_to)
    return [] if unchanged else [ValidityChanged(command.valid_from, end, command.reason)]


def relation_stated(command: Relate, edges: tuple[Edge, ...]) -> list[EventData]:
    """Return the events that add an edge to a memory's edges; an edge that the memory already has keeps its names."""
    edge = checked(command)
    known = next((old for old in edges if old.form == edge.form), None)
    if known is not None and (known.valid_from, known.valid_to) == (edge.valid_from, edge.valid_to):
        return []
    if known is None and len(edges) >= EDGES:
        raise RejectedError(
            f"a memory has at most {EDGES} relations, and this memory has {len(edges)}; state the rest on another memory",
            rule="size",
            limit=EDGES,
            current=len(edges),
            requested=1,
        )
    stated = known or edge
    return [RelationAdded(stated.source, stated.relation, stated.target, edge.valid_from, edge.valid_to)]


def checked(command: Relate | Unrelate) -> Edge:
    """Return the relation as an edge: names without surrounding white space, the relation in lower case.

    Raises:
        RejectedError: A name is empty or too long, both names are the same, or the validity is empty.
    """
    source, target = command.source.strip(), command.target.strip()
    relation = relation_form(command.relation)
    for part, name in (("source", source), ("relation", relation), ("target", target)):
        if not name_form(name):
            raise RejectedError(
                f"the {part} of a relation needs a letter or digit, and {name!r:.40} has none", rule="relation"
            )
        if len(name) > NAME_CHARS:
            raise RejectedError(
                f"the {part} of a relation has {len(name):,} characters; at most {NAME_CHARS} are allowed",
                rule="size",
                limit=NAME_CHARS,
                requested=len(name),
            )
    if name_form(source) == name_form(target):
        raise RejectedError(
            f"a relation joins two different names, and {source!r:.40} and {target!r:.40} are the same name",
            rule="relation",
        )
    if relation == CO_OCCURS:
        raise RejectedError(
            f"the relation {CO_OCCURS!r} is derived from the names in a memory and cannot be stated; give another relation",
            rule="relation",
        )
    start, end = (command.valid_from, command.valid_to) if isinstance(command, Relate) else (None, None)
    if start is not None and end is not None and end <= start:
        raise RejectedError(
            f"a relation's validity must end after it begins: {start} to {end} is empty", rule="validity"
        )
    return Edge(source, relation, target, start, end, 0)


def relation_form(relation: str) -> str:
    """Return a relation in lower case and without surrounding white space."""
    form = normalise(relation)
    # A relation that contains a secret keeps its case, because the guards recognise some secrets only by their case.
    return form if form == relation or secrecy.redacted(relation) == relation else relation


def _unrelation(command: Unrelate, memory: MemoryState) -> list[EventData]:
    form = checked(command).form
    matches = (edge for edge in memory.edges if edge.form == form)
    return [
        RelationRemoved(edge.source, edge.relation, edge.target, command.by, command.reason, edge.position)
        for edge in matches
    ]


def absorbed(attempt: MemoryCaptured) -> DuplicateAbsorbed:
    """Return an attempt as an event on the memory that already says the same."""
    return DuplicateAbsorbed(**asdict(attempt))


# --- events that are no longer possible after earlier events became void -----------------------------------------------

# A decision for what is already so fits too. Without the events between two equal decisions the later decision changes
# nothing, and it still holds if the earlier decision becomes void.
_NEEDS: dict[type[EventData], tuple[str, ...]] = {
    MemoryPromoted: ("candidate", "active"),
    MemoryRejected: ("candidate", "invalid"),
    MemoryReinforced: ("active",),
    MemorySuperseded: ("active",),
    MemoryInvalidated: ("active", "invalid"),
    MemoryRetracted: ("candidate", "active", "retracted"),
    MemoryRestored: ("candidate", "active", *HIDDEN),
    MemoryRevised: ("candidate", "active"),
    RelationAdded: ("candidate", "active"),
}


def admits(memory: MemoryState | None, data: EventData) -> bool:
    """Return True if a recorded event is possible in this state, which earlier events that became void may have changed."""
    if memory is None:
        return isinstance(data, MemoryCaptured | DuplicateAbsorbed)
    if isinstance(data, ValidityChanged) and data.valid_to is not None:
        return (data.valid_from or memory.valid_from) < data.valid_to
    needed = _NEEDS.get(type(data), STATUSES)
    if isinstance(data, MemorySuperseded) and data.unreviewed:
        needed = ("candidate", "active")
    return (memory.underlying or memory.status) in needed
