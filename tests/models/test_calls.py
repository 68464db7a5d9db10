"""What every call of a language model leaves in the log, and what is told of it."""

from __future__ import annotations

from typing import Any

import probe
import pytest
from conftest import Clock
from full import full

from ledger import Ledger, ModelError
from ledger.core.work import Work
from ledger.models.asking import ModelReply
from ledger.models.calls import ITEMS, LISTED, ActionOutcome, emit_call, emit_failure, joined
from ledger.models.port import ModelAnswer, ModelRequest
from ledger.models.reading import DroppedAction
from ledger.types import EVERYTHING

REQUEST = ModelRequest(purpose="extraction", prompt="extract/1", instructions="", content="")
ASKED = ModelReply(
    answer=ModelAnswer(text="[]", input_tokens=9, output_tokens=4), model="small", attempts=2, milliseconds=30
)


def called(ledger: Ledger, user: str = "", key: str | None = None, **told: Any) -> int:
    """Records a call beside nothing else; its position."""

    def body(work: Work) -> str:
        work.project = work.project_named("shop")
        emit_call(work, ASKED, told.pop("request", REQUEST), **told)
        return "ledger"

    return probe.writer(ledger).run("ask", probe.who(user=user, key=key, actor="ann"), body, "x").position


def failed(ledger: Ledger, error: ModelError, who: Any, **told: Any) -> None:
    """Records a call that failed beside nothing else."""

    def body(work: Work) -> str:
        emit_failure(work, REQUEST, error, model="small", **told)
        return "ledger"

    probe.writer(ledger).run("ask_model", who, body)


def test_a_call_says_what_it_was_shown_what_it_took_and_what_became_of_each_action(ledger: Ledger) -> None:
    fact = ledger.remember("The user likes tea.")
    actions = [
        ActionOutcome("add", subject=fact.id, text="lies with its subject"),
        ActionOutcome("add", "known", target=fact.id, text="The user likes tea!"),
        DroppedAction("supersede", "missing", "no target"),
        ActionOutcome("add", "foreign", target="m_not an id of ours"),
    ]
    position = called(ledger, ranges=[(5, 6), (2, 3), (4, 4)], shown=[fact.id], actions=actions, left_over=2)
    (call,) = ledger.history.model_calls()
    assert (call.position, call.purpose, call.model, call.prompt) == (position, "extraction", "small", "extract/1")
    assert (call.ok, call.error, call.status, call.attempts, call.milliseconds) == (True, None, None, 2, 30)
    assert (call.input_tokens, call.output_tokens, call.kept, call.dropped, call.left_over) == (9, 4, 1, 3, 2)
    assert (call.project, call.session, call.in_effect) == ("shop", None, True)
    (entry,) = ledger.history.audit(type="ModelCalled")
    data: Any = entry.data
    assert data["ranges"] == [[2, 6]] and data["shown"] == [fact.id]
    assert data["texts"] == ["", "The user likes tea!", "no target", ""]
    assert [each["outcome"] for each in data["actions"]] == ["kept", "known", "missing", "foreign"]
    assert "target" not in data["actions"][3]


def test_a_hundred_actions_are_listed_and_the_others_counted(ledger: Ledger) -> None:
    called(ledger, actions=[ActionOutcome("add", "known", text="x" * 10_000)] * (LISTED + 7), left_over=9_000)
    assert (ledger.history.model_calls()[0].dropped, ledger.history.model_calls()[0].left_over) == (LISTED, 9_007)


def test_ranges_are_joined_and_bounded() -> None:
    assert joined([]) == ()
    assert joined([(7, 9), (1, 2), (3, 3), (8, 12)]) == ((1, 3), (7, 12))
    many = joined((2 * n, 2 * n) for n in range(1, 3 * ITEMS))
    assert len(many) == ITEMS and many[-1] == (2 * ITEMS, 2 * (3 * ITEMS - 1))


def test_a_call_that_failed_says_what_of_it_is_no_secret(ledger: Ledger) -> None:
    called(ledger)
    error = ModelError("sk-secret", kind="TimeoutError", status=503, attempts=4, milliseconds=60_000)
    failed(ledger, error, probe.who(actor="ann"), ranges=[(2, 2)])
    newest, older = ledger.history.model_calls()
    assert older.ok and not newest.ok
    assert (newest.error, newest.status, newest.attempts, newest.milliseconds) == ("TimeoutError", 503, 4, 60_000)
    assert "sk-secret" not in full(ledger.history.audit(limit=500))


def test_calls_are_those_of_one_user_of_a_purpose_and_of_a_moment(ledger: Ledger) -> None:
    first = called(ledger, user="ann")
    second = called(
        ledger, user="ann", request=ModelRequest(purpose="summary", prompt="leaf/1", instructions="", content="")
    )
    assert ledger.history.model_calls() == []
    assert [each.position for each in ledger.bind(user="ann").history.model_calls()] == [second, first]
    assert [each.position for each in ledger.bind(user="ann").history.model_calls(purpose="summary")] == [second]
    assert [each.position for each in ledger.bind(user="ann").history.model_calls(limit=1)] == [second]
    assert [each.position for each in ledger.bind(user="ann").at(first).history.model_calls()] == [first]
    assert ledger.bind(user="ann").history.model_calls(limit=0) == []


def test_a_call_that_was_undone_is_told_and_says_so(ledger: Ledger, clock: Clock) -> None:
    position = called(ledger)
    then = ledger.position
    ledger.undo(position)
    undone = ledger.position
    assert [each.in_effect for each in ledger.history.model_calls()] == [False]
    assert [each.in_effect for each in ledger.at(then).history.model_calls()] == [True]
    ledger.redo(position)
    assert [each.in_effect for each in ledger.history.model_calls()] == [True]
    assert [each.in_effect for each in ledger.at(undone).history.model_calls()] == [False]


# --- erasing ---------------------------------------------------------------------------------------------------------


def test_with_a_turn_goes_what_a_model_made_of_it_and_did_not_keep(ledger: Ledger) -> None:
    turn = ledger.capture("I take lithium for it.", "Noted.", reinforce=False)
    other = ledger.capture("And tea?", "With milk.", reinforce=False)
    mine = called(
        ledger, ranges=[(turn.position, turn.position)], actions=[ActionOutcome("add", "known", text="On medication.")]
    )
    hers = called(
        ledger, ranges=[(other.position, other.position)], actions=[ActionOutcome("add", "known", text="Likes milk.")]
    )
    plan = ledger.erase(turn.id, dry_run=True)
    assert [(each.position, each.excerpt) for each in plan.derived] == [(mine, "On medication.")]
    ledger.erase(turn.id, derived="erase")
    told = {each.position: each.data["texts"] for each in ledger.history.audit(type="ModelCalled")}  # type: ignore[index]
    assert told == {mine: None, hers: ["Likes milk."]}
    assert {each.model for each in ledger.history.model_calls()} == {"small"}
    assert ledger.proof.verify().ok


def test_with_a_user_goes_the_name_of_the_model_from_every_table(ledger: Ledger) -> None:
    called(ledger, user="ann", actions=[ActionOutcome("add", "known", text="Likes milk.")])
    failed(ledger, ModelError("x"), probe.who(user="ann"))
    assert len(ledger.bind(user="ann").history.model_calls()) == 2
    ledger.bind(user="ann").erase(EVERYTHING)
    assert ledger.bind(user="ann").history.model_calls() == []
    with probe.store(ledger).snapshot() as connection:
        rows = connection.execute("SELECT user, model FROM model_calls").fetchall()
    assert [tuple(row) for row in rows] == [(None, None)] * 2


@pytest.mark.parametrize("kind", ["session", "project"])
def test_with_a_session_or_project_go_the_calls_made_for_it(ledger: Ledger, kind: str) -> None:
    ledger.session("chat", project="shop").append("user", "I take lithium.")
    (session,) = ledger.sessions.list()

    def body(work: Work) -> str:
        work.session, work.project = session.id, work.project_named("shop")
        emit_call(work, ASKED, REQUEST, actions=[ActionOutcome("add", "known", text="On medication.")])
        return "ledger"

    probe.writer(ledger).run("ask", probe.who(), body)
    ledger.erase(
        session.id if kind == "session" else ledger.projects.list()[0].id,
        derived="erase",
        sources="keep",
        quotes="keep",
    )
    (call,) = ledger.history.audit(type="ModelCalled")
    assert call.data["texts"] is None  # type: ignore[index]
