"""Interactions: the decider as a table, and captures as they come back from a ledger (SEEDS §1c, list A)."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pytest
from absence import absent
from conftest import Clock
from examples import BLOB, EVENTS, MEMORY, NOW, OTHER_MEMORY, interaction, recorded
from msgspec.structs import replace

from ledger import Ledger, NotFoundError, RejectedError
from ledger import events as e
from ledger.interactions.rules import (
    HANDED_IN,
    Attach,
    Denial,
    InteractionState,
    RecordExtraction,
    RecordFailure,
    RecordReinforcement,
    admits,
    decide,
    evolve,
)
from projections.views import interactions

ATTACHED = EVENTS["ResponseAttached"]
EVALUATED = EVENTS["ReinforcementEvaluated"]
EXTRACTED = EVENTS["CandidatesExtracted"]


def waiting() -> InteractionState:
    return interaction(
        response_at=None, reinforcement="waiting", extraction="waiting", memories_used=(), chunks_used=(), denials=()
    )


def test_each_command_becomes_its_event() -> None:
    given = interaction(reinforcement_attempts=1, extraction_attempts=2)
    assert decide(Attach(ATTACHED), waiting()) == [ATTACHED]  # type: ignore[arg-type]
    assert decide(RecordReinforcement(EVALUATED), given) == [EVALUATED]  # type: ignore[arg-type]
    assert decide(RecordExtraction(EXTRACTED), given) == [EXTRACTED]  # type: ignore[arg-type]
    assert decide(RecordFailure("reinforcement", "OSError"), given) == [e.ReinforcementFailed("OSError")]
    assert decide(RecordFailure("extraction", "OSError", "rules/1"), given) == [
        e.ExtractionFailed("rules/1", "OSError")
    ]


def test_a_response_stays() -> None:
    with pytest.raises(RejectedError, match="already has a response") as refusal:
        decide(Attach(ATTACHED), interaction())  # type: ignore[arg-type]
    assert refusal.value.rule == "transition"


@pytest.mark.parametrize(
    ("before", "data", "changed"),
    [
        (
            waiting(),
            ATTACHED,
            {
                "response_at": 9,
                "memories_used": (MEMORY,),
                "chunks_used": ("c_0123456789abcdef",),
                "reinforcement": "pending",
                "extraction": "pending",
            },
        ),
        (
            replace(waiting(), reinforcement="off", memories_used=(OTHER_MEMORY, MEMORY)),
            e.ResponseAttached("Yes.", memories_used=(MEMORY,)),
            {"response_at": 9, "extraction": "pending"},
        ),
        (
            interaction(reinforcement_attempts=2),
            EVALUATED,
            {
                "reinforcement": "done",
                "reinforcement_attempts": 0,
                "denials": (Denial(OTHER_MEMORY, 8), Denial(OTHER_MEMORY, 9)),
            },
        ),
        (
            interaction(extraction_attempts=2),
            EXTRACTED,
            {"extraction": "done", "extractor": EXTRACTED.extractor, "extraction_attempts": 0},
        ),
        (
            interaction(reinforcement="pending"),
            e.ReinforcementEvaluated(HANDED_IN, 0, denied=(e.Denied(OTHER_MEMORY, "ended"),)),
            {"denials": (Denial(OTHER_MEMORY, 8), Denial(OTHER_MEMORY, 9))},
        ),
        (interaction(), e.ReinforcementFailed("OSError"), {"reinforcement_attempts": 1}),
        (
            interaction(reinforcement_attempts=2),
            e.ReinforcementFailed("OSError"),
            {"reinforcement": "failed", "reinforcement_attempts": 3},
        ),
        (interaction(), e.ExtractionFailed("rules/1", "OSError"), {"extraction_attempts": 1}),
        (
            interaction(extraction_attempts=2),
            e.ExtractionFailed("rules/1", "OSError"),
            {"extraction": "failed", "extraction_attempts": 3},
        ),
        (interaction(), EVENTS["InteractionCaptured"], {}),
    ],
)
def test_each_event_assigns_what_it_says_and_no_more(
    before: InteractionState, data: Any, changed: dict[str, Any]
) -> None:
    assert evolve(before, recorded(data)) == replace(before, version=2, position=9, **changed)


@pytest.mark.parametrize(
    ("data", "response_at", "reinforcement", "extraction"),
    [
        (e.InteractionCaptured("Why?"), None, "waiting", "waiting"),
        (e.InteractionCaptured("Why?", "Because."), 7, "pending", "pending"),
        (e.InteractionCaptured("Why?", summary="because"), 7, "pending", "pending"),
        (e.InteractionCaptured("Why?", BLOB), 7, "pending", "pending"),
        (e.InteractionCaptured("Why?", "Because.", reinforce=False), 7, "off", "pending"),
    ],
)
def test_a_capture_begins_an_interaction(
    data: Any, response_at: int | None, reinforcement: str, extraction: str
) -> None:
    begun = evolve(None, recorded(data, version=1, position=7, stream=interaction().id))
    assert begun == interaction(
        response_at=response_at,
        reinforcement=reinforcement,
        extraction=extraction,
        memories_used=(),
        chunks_used=(),
        denials=(),
        metadata=None,
    )


def test_without_a_capture_there_is_nothing_to_change() -> None:
    for data in (ATTACHED, EVALUATED, EXTRACTED, e.ReinforcementFailed("OSError")):
        assert evolve(None, recorded(data)) is None
        assert not admits(None, data)
    assert admits(None, EVENTS["InteractionCaptured"])


def test_an_interaction_without_a_time_of_its_own_happened_when_it_was_recorded() -> None:
    begun = evolve(None, recorded(e.InteractionCaptured("Why?"), occurred_at=None))
    assert begun is not None and (begun.occurred_at, begun.time) == (None, NOW)


@pytest.mark.parametrize(
    "state",
    [
        interaction(),
        waiting(),
        interaction(user=None, agent=None, project=None, session=None, client=None, occurred_at=None),
        interaction(reinforcement="failed", extraction="off", reinforcement_attempts=3, extraction_attempts=1),
    ],
)
def test_a_state_equals_the_state_read_from_its_row(state: InteractionState) -> None:
    assert interactions.from_row(interactions.FAMILY.to_row(state)) == state


# --- captures --------------------------------------------------------------------------------------------------------


def test_every_field_comes_back(ledger: Ledger) -> None:
    fact = ledger.remember("The user prefers dark roast coffee.")
    told = ledger.bind(actor="ada").capture(
        "Which coffee should I buy?",
        "The French roast.",
        summary="French roast",
        project="assistant",
        session="s1",
        memories_used=[fact.id, fact.id],
        chunks_used=["c_0123456789abcdef", "any name"],
        context={"budget": 800, "items": [1, 2.5, None, "ä"], "deep": {"x": True}},
        client="cli",
        agent="helper",
        occurred_at="2025-12-31T23:30:00-05:00",
    )
    found = ledger.interactions.get(told.id)
    assert found == told
    assert {name: getattr(found, name) for name in found.__struct_fields__ if name not in ("id", "position")} == {
        "prompt": "Which coffee should I buy?",
        "response": "The French roast.",
        "summary": "French roast",
        "user": "",
        "agent": "helper",
        "project": "assistant",
        "client": "cli",
        "session": "s1",
        "memories_used": (fact.id,),
        "chunks_used": ("c_0123456789abcdef", "any name"),
        "context": {"budget": 800, "items": [1, 2.5, None, "ä"], "deep": {"x": True}},
        "occurred_at": "2025-12-31T23:30:00.000000-05:00",
        "recorded_at": "2026-01-01T12:00:00.000000Z",
        "reinforcement": "done",
        "extraction": "pending",
        "replayed": False,
        "absorbed": False,
        "quarantined": False,
        "skipped": "",
        "warnings": (),
        "metadata": {},
    }


def test_a_prompt_alone_is_enough(ledger: Ledger) -> None:
    turn = ledger.capture("Which coffee should I buy?")
    assert (turn.prompt, turn.response, turn.summary, turn.project, turn.session) == (
        "Which coffee should I buy?", "", "", None, None,
    )  # fmt: skip
    assert (turn.context, turn.reinforcement, turn.extraction) == ({}, "waiting", "waiting")
    assert [each.type for each in ledger.history.audit(limit=1)] == ["InteractionCaptured"]


@pytest.mark.parametrize("prompt", ["", " ", "\n\t\u2003"])
def test_a_blank_prompt_is_refused(ledger: Ledger, prompt: str) -> None:
    with pytest.raises(RejectedError, match="prompt is blank"):
        ledger.capture(prompt)
    assert ledger.interactions.list() == []


def test_an_id_that_is_missing_finds_nothing(ledger: Ledger) -> None:
    ledger.capture("Hello?")
    for id in ("", " ", "i", "i_", "i_0000000000000000", "%", "i_%", "i__", "m_", "nothing"):
        assert absent(ledger.interactions.get, id)
        with pytest.raises(NotFoundError):
            ledger.interactions.add_response(id, "Yes.")


def test_an_unambiguous_prefix_finds_it(ledger: Ledger) -> None:
    turn = ledger.capture("Hello?")
    found = ledger.interactions.get(turn.id[:8])
    assert found.id == turn.id
    assert absent(ledger.interactions.get, turn.id[:-1] + "!")


def test_an_answer_may_come_later(ledger: Ledger) -> None:
    turn = ledger.capture("Which coffee?", project="assistant", session="s1", memories_used=[])
    fact = ledger.remember("The user prefers dark roast coffee.", project="assistant")
    answered = ledger.interactions.add_response(
        turn.id, "You prefer dark roast coffee.", summary="dark", memories_used=[fact.id], chunks_used=["c1"]
    )
    assert answered.id == turn.id
    assert (answered.prompt, answered.response, answered.summary) == (
        "Which coffee?", "You prefer dark roast coffee.", "dark",
    )  # fmt: skip
    assert (answered.memories_used, answered.chunks_used, answered.reinforcement) == ((fact.id,), ("c1",), "done")
    with pytest.raises(RejectedError, match="already has a response"):
        ledger.interactions.add_response(turn.id, "Another.")
    with pytest.raises(RejectedError, match="both the response and its summary are blank"):
        ledger.interactions.add_response(turn.id, "")


def test_a_capture_is_one_append_with_the_names_it_needs(ledger: Ledger) -> None:
    ledger.capture("Hello?", project="assistant", session="s1")
    trail = list(reversed(ledger.history.audit(limit=3)))
    assert [each.type for each in trail] == ["ProjectRegistered", "SessionOpened", "InteractionCaptured"]
    assert len({each.command_id for each in trail}) == 1
    ledger.capture("Hello again?", project="  ASSISTANT ", session="s1")
    assert [each.type for each in ledger.history.audit(limit=2)] == ["InteractionCaptured", "InteractionCaptured"]


# --- listing ---------------------------------------------------------------------------------------------------------


def prompts(found: list[Any]) -> list[str]:
    return [each.prompt for each in found]


def test_interactions_are_filtered_by_project_session_and_client(ledger: Ledger) -> None:
    ledger.capture("one", project="a", session="s1", client="cli")
    ledger.capture("two", project="a", session="s2", client="web")
    ledger.capture("three", project="b", session="s1", client="cli")
    ledger.capture("four")
    ledger.bind(user="bob").capture("five", project="a")
    assert prompts(ledger.interactions.list()) == ["four", "three", "two", "one"]
    assert prompts(ledger.interactions.list(project="a")) == ["two", "one"]
    assert prompts(ledger.interactions.list(project=" A ")) == ["two", "one"]
    assert prompts(ledger.interactions.list(session="s1")) == ["three", "one"]
    assert prompts(ledger.interactions.list(client="cli")) == ["three", "one"]
    assert prompts(ledger.interactions.list(project="a", session="s1", client="cli")) == ["one"]
    assert prompts(ledger.bind(user="bob").interactions.list()) == ["five"]
    assert prompts(ledger.interactions.list(session="", client="")) == ["four", "three", "two", "one"]
    assert prompts(ledger.interactions.list(project="")) == ["four"]
    for unknown in ({"project": "c"}, {"session": "S1"}, {"client": "CLI"}, {"session": "%"}):
        assert ledger.interactions.list(**unknown) == []
    assert ledger.bind(user="eve").interactions.list() == []


def test_an_alias_added_later_finds_the_old_rows(ledger: Ledger) -> None:
    ledger.capture("one", project="assistant")
    fact = ledger.remember("Tea is in the tin.", project="assistant")
    assert ledger.interactions.list(project="helper") == []
    ledger.projects.add_alias("assistant", "helper")
    assert prompts(ledger.interactions.list(project="helper")) == ["one"]
    assert [each.id for each in ledger.memories.list(project="Helper")] == [fact.id]
    assert [each.subject for each in ledger.history.audit(project="helper", type="MemoryCaptured")] == [fact.id]
    ledger.capture("two", project="helper")
    assert prompts(ledger.interactions.list(project="assistant")) == ["two", "one"]


def test_interactions_are_listed_newest_first_even_if_the_clock_goes_back(ledger: Ledger, clock: Clock) -> None:
    for number in range(5):
        ledger.capture(f"turn {number}")
        clock.advance(seconds=-10 * (number % 2))
    assert prompts(ledger.interactions.list()) == [f"turn {number}" for number in (4, 3, 2, 1, 0)]
    assert prompts(ledger.interactions.list(limit=2)) == ["turn 4", "turn 3"]


def test_a_page_has_fifty_entries_by_default(many: Ledger) -> None:
    assert len(many.interactions.list()) == 50
    assert many.interactions.list()[0].prompt == "turn 504"


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with Ledger.open(tmp_path_factory.mktemp("many") / "memory.db") as opened:
        with opened.batch():
            for number in range(505):
                opened.capture(f"turn {number}")
        yield opened


SINCE: list[Any] = [
    "2026-03-01T10:00:00Z",
    "2026-03-01T10:00:00+00:00",
    "2026-03-01 10:00:00Z",
    "2026-03-01 10:00Z",
    "2026-03-01T11:00:00+01:00",
    "2026-03-01T05:00:00-0500",
    "20260301T100000Z",
    " 2026-03-01T10:00:00.000000Z ",
    datetime(2026, 3, 1, 10, tzinfo=UTC),
]


@pytest.mark.parametrize("since", SINCE)
def test_since_is_inclusive_and_until_is_not_in_every_form_of_a_time(ledger: Ledger, clock: Clock, since: Any) -> None:
    clock.time = datetime(2026, 3, 1, 9, 59, 59, 999_999, tzinfo=UTC)
    ledger.capture("before")
    clock.time = datetime(2026, 3, 1, 10, tzinfo=UTC)
    ledger.capture("at")
    clock.advance(microseconds=1)
    ledger.capture("after")
    assert prompts(ledger.interactions.list(since=since)) == ["after", "at"]
    assert prompts(ledger.interactions.list(until=since)) == ["before"]
    assert [each.command for each in ledger.history.audit(since=since)] == ["capture", "capture"]


@pytest.mark.parametrize("day", ["2026-03-01", date(2026, 3, 1)])
def test_a_date_begins_at_midnight_utc(ledger: Ledger, clock: Clock, day: Any) -> None:
    clock.time = datetime(2026, 2, 28, 23, 59, 59, 999_999, tzinfo=UTC)
    ledger.capture("before")
    clock.time = datetime(2026, 3, 1, tzinfo=UTC)
    ledger.capture("at")
    assert prompts(ledger.interactions.list(since=day)) == ["at"]
    assert prompts(ledger.interactions.list(until=day)) == ["before"]


def test_times_are_those_of_the_world_where_they_were_told(ledger: Ledger) -> None:
    ledger.capture("old", occurred_at="2020-05-05 10:00:00+02:00")
    ledger.capture("new")
    assert prompts(ledger.interactions.list(until="2020-05-05T08:00:01Z")) == ["old"]
    assert prompts(ledger.interactions.list(since="2020-05-05T08:00:00Z", until="2021-01-01")) == ["old"]
