"""Reconciling a session with an outside transcript: what is the same, what is mended, what is hidden and appended."""

from __future__ import annotations

from typing import Any

import pytest
from counting import steps
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ledger.domain.errors import RejectedError
from ledger.sessions.rules.aligning import KnownMessage, Repair, TranscriptMessage, TranscriptPlan, reconcile, same

NOON = "2026-01-01T12:00:00.000000Z"


def line(content: str = "hi", role: str = "user", **told: Any) -> TranscriptMessage:
    return TranscriptMessage(role, content, **told)


def known(*lines: TranscriptMessage) -> list[KnownMessage]:
    return [KnownMessage(10 + 3 * number, each) for number, each in enumerate(lines)]


A, B, C = line("a"), line("b", "assistant"), line("c")

LINES = st.builds(
    TranscriptMessage,
    st.sampled_from(["user", "assistant"]),
    st.sampled_from(["a", "b"]),
    parts=st.sampled_from([(), ("x",)]),
    reasoning=st.sampled_from([None, "", "r", "s"]),
    model=st.sampled_from([None, "m", "n"]),
    created_at=st.sampled_from([None, NOON, "2026-01-01T13:00:00+01:00", "2026-01-02"]),
    tokens=st.none() | st.integers(0, 9),
)


# --- the plan --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ours", "theirs", "plan"),
    [
        ([], [], TranscriptPlan("unchanged", 0)),
        ([A, B], [A, B], TranscriptPlan("unchanged", 2)),
        ([], [A, B], TranscriptPlan("append", 0, 2)),
        ([A], [A, B, C], TranscriptPlan("append", 1, 2)),
        ([A, B, C], [A, C, C], TranscriptPlan("replace", 1, 2, (13, 16))),
        ([A, B], [C, B], TranscriptPlan("replace", 0, 2, (10, 13))),
        ([A, B, C], [A, B], TranscriptPlan("replace", 2, 0, (16,))),
        ([A, B], [], TranscriptPlan("replace", 0, 0, (10, 13))),
        ([A, A, A], [A, A], TranscriptPlan("replace", 2, 0, (16,))),
        ([A, A], [A, A, A], TranscriptPlan("append", 2, 1)),
        ([A, B, A, C], [A, C, A, C], TranscriptPlan("replace", 1, 3, (13, 16, 19))),
    ],
)
def test_messages_equal_by_position_stay_and_the_others_become_the_transcript(
    ours: list[TranscriptMessage], theirs: list[TranscriptMessage], plan: TranscriptPlan
) -> None:
    assert reconcile(known(*ours), theirs) == plan


def test_another_count_of_tokens_rebuilds_nothing() -> None:
    assert reconcile(known(line(tokens=3)), [line(tokens=9)]) == TranscriptPlan("unchanged", 1)


@pytest.mark.parametrize("change", [{"role": "tool"}, {"content": "Hi"}, {"content": "hi "}, {"parts": ("x",)}])
def test_another_role_content_or_part_is_another_message(change: dict[str, Any]) -> None:
    assert not same(line(), replace(line(), **change))


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        (NOON, NOON, True), (NOON, None, True), (NOON, "", True), (None, None, True),
        (NOON, "2026-01-01T13:00:00+01:00", True), (NOON, "2026-01-01 12:00Z", True),
        (NOON, "2026-01-01T12:00:00.000001Z", False), (NOON, "2026-01-01T12:00:00+01:00", False), (NOON, "2026-01-01", False),
    ],
)  # fmt: skip
def test_times_are_compared_as_instants_and_a_missing_one_fits_any(
    one: str | None, other: str | None, is_same: bool
) -> None:
    assert same(line(created_at=one), line(created_at=other)) is is_same
    assert same(line(created_at=other), line(created_at=one)) is is_same


@pytest.mark.parametrize("wrong", ["yesterday", "2026-01-01T12:00:00"])
def test_a_transcript_time_that_is_invalid_or_has_no_offset_is_refused(wrong: str) -> None:
    with pytest.raises(RejectedError):
        reconcile(known(line(created_at=NOON)), [line(created_at=wrong)], by_time=True)


def test_different_reasoning_makes_another_message_and_missing_reasoning_fits_any() -> None:
    assert not same(line(reasoning="r"), line(reasoning="s"))
    assert same(line(reasoning="r"), line()) and same(line(reasoning=""), line(reasoning="s"))


def test_a_different_model_name_is_corrected_in_the_same_message() -> None:
    assert reconcile(known(line(model="m")), [line(model="m-2026")]) == TranscriptPlan(
        "unchanged", 1, repairs=(Repair(10, model="m-2026"),)
    )


# --- repairs ---------------------------------------------------------------------------------------------------------


def test_fields_that_were_unknown_are_repaired_in_place() -> None:
    theirs = line(reasoning="r", model="m", created_at=NOON)
    assert reconcile(known(line()), [theirs]) == TranscriptPlan("unchanged", 1, repairs=(Repair(10, "r", "m", NOON),))
    some = reconcile(known(line(model="m", reasoning="")), [theirs, C])
    assert some == TranscriptPlan("append", 1, 1, repairs=(Repair(10, "r", None, NOON),))


def test_a_transcript_without_a_field_keeps_the_recorded_value() -> None:
    ours = line(reasoning="r", model="m", created_at=NOON)
    assert reconcile(known(ours), [line(model="m")]) == TranscriptPlan("unchanged", 1)


def test_messages_that_leave_are_not_mended() -> None:
    plan = reconcile(known(A, B), [replace(A, model="m"), replace(C, model="m")])
    assert plan == TranscriptPlan("replace", 1, 1, (13,), (Repair(10, model="m"),))


# --- for all transcripts ---------------------------------------------------------------------------------------------


def carried_out(plan: TranscriptPlan, ours: list[KnownMessage], theirs: list[TranscriptMessage]) -> list[KnownMessage]:
    mended = {
        each.position: {
            name: value
            for name, value in (("reasoning", each.reasoning), ("model", each.model), ("created_at", each.created_at))
            if value is not None
        }
        for each in plan.repairs
    }
    stay = [
        KnownMessage(each.position, replace(each.line, **mended.get(each.position, {})))
        for each in ours
        if each.position not in plan.hidden
    ]
    return stay + [KnownMessage(1000 + number, each) for number, each in enumerate(theirs[plan.kept :])]


@given(st.lists(LINES, max_size=6), st.lists(LINES, max_size=6), st.integers(0, 6))
def test_a_session_equals_the_transcript_after_its_reconciliation(
    first: list[TranscriptMessage], theirs: list[TranscriptMessage], common: int
) -> None:
    ours = known(*theirs[:common], *first)
    plan = reconcile(ours, theirs)
    after = carried_out(plan, ours, theirs)
    assert len(after) == len(theirs) and all(same(each.line, other) for each, other in zip(after, theirs, strict=True))
    assert plan.kept + plan.appended == len(theirs) and plan.kept + len(plan.hidden) == len(ours)
    assert reconcile(after, theirs) == TranscriptPlan("unchanged", len(theirs))


@pytest.mark.slow
def test_a_long_transcript_takes_as_many_steps_as_it_has_messages() -> None:
    def took(count: int) -> int:
        many = [line(f"message {number}", created_at=f"2026-01-01T12:00:00.{number:06d}Z") for number in range(count)]
        theirs = [replace(each, created_at=f"{each.created_at}"[:-1] + "+00:00", model="m") for each in many]
        ours = known(*many)
        plan = reconcile(ours, theirs)
        assert plan.kept == len(plan.repairs) == count
        return steps(lambda: reconcile(ours, theirs))

    assert took(20_000) <= 11 * took(2_000)
