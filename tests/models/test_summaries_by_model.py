"""A language model as the summariser of sessions: each call in the log, beside what it led to, or for itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import probe
import pytest
from conftest import Clock, folded_from_zero
from full import full

from ledger import Ledger, ModelError, RejectedError
from ledger.models.prompts import prompt, prompt_parts
from ledger.models.summarizing import PROMPTS
from ledger.types import ModelAnswer, ModelRequest, SessionName


class Model:
    """Answers what it is told to, in order; then the last again."""

    name = "small"

    def __init__(self, *given: Any) -> None:
        self.given, self.asked = list(given), list[ModelRequest]()

    def answer(self, request: ModelRequest, /) -> ModelAnswer:
        self.asked.append(request)
        found = self.given.pop(0) if len(self.given) > 1 else self.given[0]
        if isinstance(found, Exception):
            raise found
        return ModelAnswer(text=found, input_tokens=900, output_tokens=12)


@pytest.fixture
def model() -> Model:
    return Model("They spoke of the weather.")


@pytest.fixture
def ledger(tmp_path: Path, clock: Clock, model: Model) -> Iterator[Ledger]:
    with Ledger.open(tmp_path / "memory.db", clock=clock, model=model) as opened:
        yield opened
        assert opened.proof.digest() == folded_from_zero(opened)


def talk(ledger: Ledger, count: int = 44, start: int = 0) -> Any:
    chat = ledger.session("chat", project="home")
    for number in range(start, start + count):
        chat.append("user", f"The weather of day {number} was fine, and this is said at some length. " * 9)
    return chat


def types(ledger: Ledger) -> list[str]:
    return [entry.type for entry in reversed(ledger.history.audit(limit=500))]


def test_a_summary_and_its_call_are_one_append(ledger: Ledger, model: Model) -> None:
    chat = talk(ledger)
    (summary,) = chat.compact().created
    assert (summary.content, summary.model, summary.level) == ("They spoke of the weather.", "small", "normal")
    (call,) = ledger.history.model_calls()
    assert (call.ok, call.purpose, call.prompt, call.model, call.kept) == (True, "summary", "leaf/1", "small", 1)
    assert (call.input_tokens, call.output_tokens, call.project, call.session) == (900, 12, "home", "chat")
    (entry,) = ledger.history.audit(type="ModelCalled")
    data: Any = entry.data
    assert data["ranges"] == [list(each) for each in summary.ranges] and data["actions"][0]["subject"] == summary.id
    (created,) = ledger.history.audit(type="SummaryCreated")
    assert created.command_id == entry.command_id
    (request,) = model.asked
    assert (request.schema, request.purpose, request.temperature) == (None, "summary", 0.3)


def test_our_words_and_what_was_said_are_apart_and_together_the_prompt(ledger: Ledger, model: Model) -> None:
    talk(ledger).compact()
    (request,) = model.asked
    assert "You shorten the older part" in request.instructions and "weather of day" not in request.instructions
    assert "weather of day 3" in request.content and "You shorten" not in request.content
    for version in PROMPTS.values():
        ours, theirs = prompt_parts(version)
        assert "$text" in theirs.template and "$text" not in ours.template
        assert "".join(f"{ours.template}\n{theirs.template}".split()) == "".join(prompt(version).template.split())


def test_an_answer_that_was_not_taken_is_in_the_log_too(ledger: Ledger, model: Model) -> None:
    model.given = ["far too long " * 900, "", "Short."]
    (summary,) = talk(ledger).compact().created
    assert (summary.content, summary.level) == ("Short.", "aggressive")
    outcomes = [entry.data["actions"][0]["outcome"] for entry in reversed(ledger.history.audit(type="ModelCalled"))]  # type: ignore[index]
    assert outcomes == ["too_long", "empty", "kept"]
    assert len({entry.command_id for entry in ledger.history.audit(type="ModelCalled")}) == 1


def test_where_no_answer_is_short_enough_the_excerpt_has_its_calls_beside_it(ledger: Ledger, model: Model) -> None:
    model.given = ["far too long " * 900]
    (summary,) = talk(ledger).compact().created
    assert (summary.level, summary.model) == ("excerpt", "")
    assert [(each.ok, each.kept, each.dropped) for each in ledger.history.model_calls()] == [(True, 0, 1)] * 2


def test_a_call_that_fails_leaves_its_failure_and_no_summary(ledger: Ledger, model: Model) -> None:
    model.given = [PermissionError("sk-secret")]
    chat = talk(ledger)
    report = chat.compact()
    assert report.created == () and [(each.why, each.error) for each in report.skipped] == [
        ("failed", "PermissionError")
    ]
    (call,) = ledger.history.model_calls()
    assert (call.ok, call.error, call.attempts, call.model) == (False, "PermissionError", 1, "small")
    assert types(ledger)[-2:] == ["CompactionSkipped", "ModelCallFailed"]
    assert "sk-secret" not in full(ledger.history.audit(limit=500))
    model.given = ["They spoke."]
    assert chat.compact().created, "and the next one works"


def test_what_passes_is_tried_again_within_the_one_call(ledger: Ledger, model: Model) -> None:
    model.given = [ConnectionResetError(), "They spoke."]
    assert talk(ledger).compact().created
    (call,) = ledger.history.model_calls()
    assert (call.ok, call.attempts, len(model.asked)) == (True, 2, 2)


def test_a_summary_rebuilt_by_the_model_has_its_call(ledger: Ledger, model: Model) -> None:
    chat = talk(ledger)
    (summary,) = chat.compact().created
    model.given = ["They spoke of fine weather."]
    again = chat.summaries.rewrite(summary.id)
    assert again.content == "They spoke of fine weather." and len(ledger.history.model_calls()) == 2
    model.given = ["far too long " * 900]
    with pytest.raises(RejectedError):
        chat.summaries.rewrite(again.id)
    model.given = [KeyError("x")]
    with pytest.raises(ModelError):
        chat.summaries.rewrite(again.id)
    assert [each.ok for each in ledger.history.model_calls()] == [False, True, True, True, True]
    assert [each.content for each in chat.summaries.list(statuses=("window",))] == ["They spoke of fine weather."]


def test_a_plain_summariser_stands_before_the_model_and_leaves_no_calls(tmp_path: Path, model: Model) -> None:
    with Ledger.open(tmp_path / "other.db", model=model, summarizer=lambda asked: "By hand.") as ledger:
        assert talk(ledger).compact().created[0].content == "By hand."
        assert ledger.history.model_calls() == [] and model.asked == []


def test_a_model_may_be_named_for_one_compaction(tmp_path: Path, model: Model) -> None:
    with Ledger.open(tmp_path / "other.db") as ledger:
        assert talk(ledger).compact(summarizer=model).created[0].model == "small"
        assert len(ledger.history.model_calls()) == 1


def test_a_function_is_a_model(tmp_path: Path) -> None:
    def small(request: ModelRequest) -> str:
        return "They spoke."

    with Ledger.open(tmp_path / "other.db", model=small) as ledger:
        assert talk(ledger).compact().created[0].model == "small"


@pytest.mark.parametrize("given", [7, object(), "nobody:x", type("Nameless", (), {"name": "", "answer": print})()])
def test_what_is_no_model_is_refused_and_no_ledger_begun(tmp_path: Path, given: Any) -> None:
    with pytest.raises(RejectedError):
        Ledger.open(tmp_path / "other.db", model=given)
    assert not (tmp_path / "other.db").exists()


def test_replay_asks_no_model(ledger: Ledger, model: Model) -> None:
    talk(ledger).compact()
    model.given = [AssertionError("asked")]
    before = ledger.proof.digest()
    assert probe.rebuild(ledger).digest == before and len(model.asked) == 1


@pytest.mark.slow
def test_with_messages_the_call_for_their_summary_stays_and_says_nothing_of_them(ledger: Ledger) -> None:
    chat = talk(ledger)
    chat.compact()
    ledger.erase(SessionName("chat"), derived="erase", sources="erase", quotes="erase")
    (call,) = ledger.history.model_calls()
    assert call.ok and ledger.proof.verify().ok
