"""The life of a memory as tables: what each command comes to in each status, and what each event assigns."""

from __future__ import annotations

from typing import Any

import pytest
from examples import EARLIER, EVENTS, INTERACTION, LATER, MEMORY, NOW, OTHER_MEMORY, PROJECT, memory, recorded
from msgspec import Raw
from msgspec.structs import asdict, replace

from ledger import RejectedError
from ledger import events as e
from ledger.memories.rules import (
    Adjust,
    Correct,
    DescribeMemory,
    Invalidate,
    Promote,
    QuarantineMemory,
    Reinforce,
    RejectMemory,
    Relate,
    Release,
    RestoreMemory,
    Retag,
    Retract,
    ReviseMemory,
    SetValidity,
    Supersede,
    Unrelate,
    absorbed,
    admits,
    decide,
)
from ledger.memories.state import HIDDEN, STATUSES, Edge, MemoryState, evolve
from projections.views import memories

REINFORCED = e.MemoryReinforced("linear/1", 20_000, INTERACTION, "stems/3", 750_000, True)
COMMANDS: dict[str, tuple[Any, list[e.EventData]]] = {
    "promote": (Promote("yes"), [e.MemoryPromoted("yes")]),
    "reject": (RejectMemory("no"), [e.MemoryRejected("no")]),
    "reinforce": (Reinforce(20_000, INTERACTION, "stems/3", 750_000, True), [REINFORCED]),
    "set_confidence": (Adjust(250_000, "hearsay"), [e.ConfidenceAdjusted("set/1", 250_000, "hearsay")]),
    "revise": (ReviseMemory("The user prefers tea.", "typo"), [e.MemoryRevised("The user prefers tea.", "typo")]),
    "tag": (Retag(("roast", "drinks"), ("morning", "unknown")), [e.MemoryRetagged(("roast",), ("morning",))]),
    "set_metadata": (
        DescribeMemory({"ticket": 4711, "vip": True}, ("source", "unknown")),
        [e.MemoryRetagged(metadata=Raw(b'{"vip":true}'), unset=("source",))],
    ),
    "correct": (
        Correct("knowledge", moved=True, entities=("coffee", "roast"), reason="a slip"),
        [e.MemoryCorrected("knowledge", True, ("coffee", "roast"), "a slip")],
    ),
    "set_validity": (SetValidity(NOW, None, "since June"), [e.ValidityChanged(NOW, None, "since June")]),
    "supersede": (Supersede(OTHER_MEMORY, NOW, "tea now"), [e.MemorySuperseded(OTHER_MEMORY, NOW, "tea now")]),
    "invalidate": (Invalidate("wrong"), [e.MemoryInvalidated("wrong")]),
    "retract": (Retract("private"), [e.MemoryRetracted("private")]),
    "restore": (RestoreMemory("right"), [e.MemoryRestored("right")]),
    "quarantine": (QuarantineMemory("odd"), [e.MemoryQuarantined("odd")]),
    "release": (Release("fine"), []),
    "relate": (Relate("Ana", "Likes", "tea"), [e.RelationAdded("Ana", "likes", "tea")]),
    "unrelate": (
        Unrelate("ana", "works_at", "ACME", "left"),
        [e.RelationRemoved("Ana", "works_at", "Acme", None, "left", 8)],
    ),
}
# "do": the events above · "so": it is so already, nothing · "no": RejectedError
TABLE = {
    #               candidate active superseded invalid retracted erased
    "promote":      ("do", "so", "no", "no", "no", "no"),
    "reject":       ("do", "no", "no", "so", "no", "no"),
    "reinforce":    ("no", "do", "no", "no", "no", "no"),
    "set_confidence": ("do", "do", "no", "no", "no", "no"),
    "set_metadata": ("do", "do", "no", "no", "no", "no"),
    "revise":       ("do", "do", "no", "no", "no", "no"),
    "correct":      ("do", "do", "no", "no", "no", "no"),
    "tag":         ("do", "do", "no", "no", "no", "no"),
    "set_validity": ("do", "do", "no", "no", "no", "no"),
    "supersede":    ("do", "do", "no", "no", "no", "no"),
    "invalidate":   ("no", "do", "no", "so", "no", "no"),
    "retract":      ("do", "do", "no", "no", "so", "no"),
    "restore":      ("so", "so", "do", "do", "do", "no"),
    "quarantine":   ("do", "do", "no", "no", "no", "no"),
    "release":      ("so", "so", "no", "no", "no", "no"),
    "relate":       ("do", "do", "no", "no", "no", "no"),
    "unrelate":     ("do", "do", "no", "no", "no", "no"),
}  # fmt: skip
PAIRS = [(name, status, TABLE[name][column]) for name in TABLE for column, status in enumerate(STATUSES)]


@pytest.mark.parametrize(("name", "status", "outcome"), PAIRS)
def test_each_command_in_each_status(name: str, status: str, outcome: str) -> None:
    command, events = COMMANDS[name]
    if (name, status) == ("supersede", "candidate"):
        events = [replace(event, unreviewed=True) for event in events]
    given = memory(status=status, before="active" if status in HIDDEN else None)
    if outcome == "no":
        with pytest.raises(RejectedError) as refusal:
            decide(command, given)
        assert f"cannot {name} {MEMORY}: it is {status}, which allows: " in str(refusal.value)
        assert refusal.value.rule == "transition"
    else:
        assert decide(command, given) == (events if outcome == "do" else [])


def test_what_a_refusal_says_is_allowed_is_allowed() -> None:
    for column, status in enumerate(STATUSES):
        refused = next(name for name in TABLE if TABLE[name][column] == "no")
        with pytest.raises(RejectedError) as refusal:
            decide(COMMANDS[refused][0], memory(status=status, before="active"))
        told = str(refusal.value).split("which allows: ")[1]
        named = told.split(", ") if told != "nothing any more" else []
        # promote an active one, or restore it: already so, and nothing worth advising
        worth = {name for name in TABLE if TABLE[name][column] == "do"} | ({"release"} if column < 2 else set())
        assert set(named) == worth


@pytest.mark.parametrize("status", ["candidate", "active"])
def test_a_command_without_a_change_makes_no_event(status: str) -> None:
    given = memory(status=status, quarantined=True)
    for command in (
        Adjust(given.confidence),
        ReviseMemory("The user prefers dark roast coffee."),
        Retag(("drinks",), ("unknown",)),
        Retag(),
        Correct(),
        Correct("preference", entities=("coffee",)),
        SetValidity(None, LATER),
        SetValidity(EARLIER, LATER),
        QuarantineMemory(),
        Relate(" Ana ", "Works_At", "Acme"),
        Unrelate("Ana", "likes", "tea"),
    ):
        assert decide(command, given) == []
    assert decide(Release("fine"), given) == [e.MemoryReleased("fine")]


def test_a_tag_both_added_and_removed_stays() -> None:
    assert decide(Retag(("new", "drinks"), ("new", "drinks")), memory()) == [e.MemoryRetagged(("new",), ())]


def test_a_reinforcement_never_takes_away() -> None:
    with pytest.raises(RejectedError, match="would lower the confidence"):
        decide(Reinforce(-1), memory())
    (event,) = decide(Reinforce(0), memory())
    after = evolve(memory(), recorded(event))
    assert after is not None and (after.confidence, after.reference_count) == (700_000, 2)


def test_a_reinforcement_stops_at_one() -> None:
    for before, delta, after in [
        (990_000, 20_000, 1_000_000),
        (1_000_000, 20_000, 1_000_000),
        (0, 1_000_000, 1_000_000),
    ]:
        (event,) = decide(Reinforce(delta), memory(confidence=before))
        reinforced = evolve(memory(confidence=before), recorded(event))
        assert reinforced is not None and reinforced.confidence == after


def test_a_rule_nobody_knows_is_refused() -> None:
    with pytest.raises(RejectedError, match="linear/1"):
        decide(Reinforce(rule="cubic/1"), memory())


def test_a_validity_must_end_after_it_begins() -> None:
    for start, end in [(NOW, NOW), (NOW, EARLIER), (None, EARLIER)]:
        with pytest.raises(RejectedError, match="must end after it begins"):
            decide(SetValidity(start, end), memory())


def test_a_supersession_before_the_memory_began_ends_it_where_it_began() -> None:
    given = memory(valid_from=NOW)
    (superseded,) = decide(Supersede(OTHER_MEMORY, EARLIER), given)
    after = evolve(given, recorded(superseded))
    assert after is not None and (after.valid_from, after.valid_to) == (NOW, NOW)


def test_a_rejected_candidate_is_restored_as_a_candidate() -> None:
    given = memory(status="invalid", before="candidate")
    assert decide(RestoreMemory(), given) == [e.MemoryRestored()]


# --- evolve assigns --------------------------------------------------------------------------------------------------


CHANGES: dict[str, dict[str, Any]] = {
    "MemoryPromoted": {"status": "active", "active_at": NOW, "admission": ""},
    "MemoryRejected": {"status": "invalid", "before": "active"},
    "MemoryReinforced": {"confidence": 720_000, "reference_count": 2, "last_referenced_at": NOW},
    "ConfidenceAdjusted": {"confidence": 250_000, "active_at": NOW},
    "MemoryRevised": {"content": "The user prefers light roast coffee.", "active_at": NOW},
    "MemoryRetagged": {"tags": ("morning", "roast"), "metadata": '{\t"ticket":4712\t,\t"vip":true\t}'},
    "MemoryCorrected": {"kind": "knowledge", "project": PROJECT, "entities": ("Ada", "Acme"), "active_at": NOW},
    "ValidityChanged": {"valid_from": EARLIER, "valid_to": NOW},
    "MemorySuperseded": {
        "status": "superseded",
        "before": "active",
        "superseded_by": OTHER_MEMORY,
        "valid_to": NOW,
        "until_before": LATER,
    },
    "MemoryInvalidated": {"status": "invalid", "before": "active"},
    "MemoryRetracted": {"status": "retracted", "before": "active"},
    "MemoryQuarantined": {"quarantined": True},
    "MemoryReleased": {},
    "RelationAdded": {"edges": (Edge("Ana", "works_at", "Acme", EARLIER, LATER, 9),)},
    "RelationRemoved": {"edges": ()},
    "DuplicateAbsorbed": {"stated_at": EARLIER},
    "MemoryCaptured": {},
}


@pytest.mark.parametrize("name", CHANGES)
def test_each_event_assigns_what_it_says_and_no_more(name: str) -> None:
    given = memory()
    decided_at = given.decided_at if name == "MemoryReinforced" else 9  # what a response restates nobody decided
    changed = {"version": 2, "position": 9, "decided_at": decided_at, **CHANGES[name]}
    assert evolve(given, recorded(EVENTS[name])) == replace(given, **changed)


def test_release_ends_the_quarantine() -> None:
    after = evolve(memory(quarantined=True), recorded(e.MemoryReleased()))
    assert after is not None and not after.quarantined


@pytest.mark.parametrize("data", [EVENTS["MemoryCaptured"], EVENTS["DuplicateAbsorbed"]])
def test_a_capture_begins_a_memory_and_so_does_an_absorbed_attempt_that_stands_in(data: e.EventData) -> None:
    assert evolve(None, recorded(data, position=9, version=1)) == memory(
        quarantined=isinstance(data, e.DuplicateAbsorbed),  # the attempt of the example has a finding
        confidence=1_000_000,
        reference_count=4,
        last_referenced_at=EARLIER,
        tags=("drinks",),
        edges=(),
        recorded_at=NOW,
        active_at=EARLIER,
        decided_at=9,
        position=9,
    )


def test_a_memory_without_a_beginning_is_valid_from_when_it_was_recorded() -> None:
    begun = evolve(None, recorded(e.MemoryCaptured("Tea.", "fact", "active", 1)))
    assert begun is not None and (begun.valid_from, begun.valid_to) == (NOW, None)


def test_without_a_capture_there_is_nothing_to_change() -> None:
    for name in set(CHANGES) - {"MemoryCaptured", "DuplicateAbsorbed"}:
        assert evolve(None, recorded(EVENTS[name])) is None


@pytest.mark.parametrize("valid_to", [None, LATER, "2026-02-01T00:00:00.000000Z"])
def test_superseding_keeps_the_end_of_validity_and_restoring_gives_it_back(valid_to: str | None) -> None:
    given = memory(valid_to=valid_to)
    superseded = evolve(given, recorded(e.MemorySuperseded(OTHER_MEMORY, NOW)))
    assert superseded is not None
    assert superseded.valid_to == min(NOW, valid_to or NOW) and superseded.until_before == valid_to
    restored = evolve(superseded, recorded(e.MemoryRestored(), version=3, position=12))
    assert restored == replace(given, active_at=NOW, decided_at=12, version=3, position=12)


@pytest.mark.parametrize("name", ["MemoryRejected", "MemoryInvalidated", "MemoryRetracted"])
@pytest.mark.parametrize("status", ["candidate", "active"])
def test_restoring_goes_back_to_the_status_before(name: str, status: str) -> None:
    given = memory(status=status)
    hidden = evolve(given, recorded(EVENTS[name]))
    assert hidden is not None and hidden.before == status and hidden.valid_to == LATER
    (event,) = decide(RestoreMemory(), hidden)
    restored = evolve(hidden, recorded(event))
    assert restored == replace(given, active_at=NOW, decided_at=9, version=2, position=9)


def test_what_decide_says_evolve_can_fold() -> None:
    for name, status, outcome in PAIRS:
        if outcome == "do":
            state: MemoryState | None = memory(status=status, before="active" if status in HIDDEN else None)
            assert state is not None
            for event in decide(COMMANDS[name][0], state):
                assert admits(state, event)
                state = evolve(state, recorded(event))
            assert state is not None


def test_an_absorbed_attempt_is_the_whole_attempt() -> None:
    attempt = EVENTS["MemoryCaptured"]
    assert isinstance(attempt, e.MemoryCaptured)
    assert asdict(absorbed(attempt)) == asdict(attempt) | {"rule": "verbatim/1", "finding": "", "scanner": ""}


def test_only_a_capture_makes_sense_on_nothing() -> None:
    fits = {name for name in (*CHANGES, "MemoryRestored") if admits(None, EVENTS[name])}
    assert fits == {"MemoryCaptured", "DuplicateAbsorbed"}


def test_each_status_rejects_the_events_that_cannot_follow_after_an_undo() -> None:
    wrong = {
        "candidate": {"MemoryReinforced", "MemoryInvalidated"},
        "active": {"MemoryRejected"},
    }
    for status, names in wrong.items():
        assert {
            name for name in (*CHANGES, "MemoryRestored") if not admits(memory(status=status), EVENTS[name])
        } == names


def test_only_what_ended_as_a_candidate_ends_without_its_promotion() -> None:
    [event] = decide(Supersede(OTHER_MEMORY, LATER, "", None), memory(status="candidate"))
    assert event.unreviewed and admits(memory(status="candidate"), event) and admits(memory(status="active"), event)
    [event] = decide(Supersede(OTHER_MEMORY, LATER, "", None), memory(status="active"))
    assert not event.unreviewed and not admits(memory(status="candidate"), event)
    with pytest.raises(RejectedError, match="is candidate"):
        decide(Supersede(OTHER_MEMORY, LATER, "", "merge/1"), memory(status="candidate"))


# --- rows ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "state",
    [
        memory(),
        memory(user=None, agent=None, project=None, content=None, entities=(), tags=(), sources=(), origin=None),
        memory(status="superseded", superseded_by=OTHER_MEMORY, before="active", until_before=LATER, quarantined=True),
        memory(
            content="NUL \0, bidi \u202e, emoji \U0001f600", tags=('quote " and \\',), valid_to=None, supersedes=None
        ),
        *(memory(status=status) for status in STATUSES),
    ],
)
def test_a_state_equals_the_state_read_from_its_row(state: MemoryState) -> None:
    row = memories.FAMILY.to_row(state)
    assert memories.from_row(row) == state
    assert memories.from_row((*row, "what stands beside it")) == state
    assert all(value is None or type(value) in (int, str, bool) for value in row)
