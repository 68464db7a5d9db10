"""How a language model is asked: which failures are tried again, how long is waited, what cancels, what is never said."""

from __future__ import annotations

import threading
import time
import urllib.error
from datetime import UTC, datetime, timedelta
from email.message import Message
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import probe
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger import Ledger, ModelError, RejectedError, Settings
from ledger.models import extracting
from ledger.models.asking import ModelReply, ask, check_outside, failure_of, seconds_of
from ledger.models.naming import as_model
from ledger.models.port import ModelAnswer, ModelRequest

REQUEST = ModelRequest(
    purpose="extraction", prompt="extract/1", instructions="Find facts.", content="I like tea.", timeout=5
)
NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)


class Waits:
    """A clock that moves only by sleeping, and the longest random number there is."""

    def __init__(self) -> None:
        self.time, self.asleep = 0.0, list[float]()

    def clock(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += seconds
        self.asleep.append(seconds)

    @property
    def told(self) -> dict[str, Any]:
        return {"sleep": self.sleep, "clock": self.clock, "uniform": lambda least, most: most}


class Model:
    """Raises or answers what it was given, in order; the last again and again."""

    name = "small"

    def __init__(self, *given: Any) -> None:
        self.given, self.calls = list(given), 0

    def answer(self, request: ModelRequest, /) -> ModelAnswer:
        self.calls += 1
        found = self.given.pop(0) if len(self.given) > 1 else self.given[0]
        if isinstance(found, BaseException):
            raise found
        return found


def http(status: int, **headers: str) -> urllib.error.HTTPError:
    told = Message()
    for name, value in headers.items():
        told[name.replace("_", "-")] = value
    return urllib.error.HTTPError("http://127.0.0.1/", status, "sk-secret", told, None)


PASSING = (
    http(429), http(408), http(500), http(503), http(599), TimeoutError(), ConnectionResetError(), ConnectionRefusedError(),
    urllib.error.URLError("no route"), ModelError("x", status=502), ModelError("x", kind="TimeoutError"),
)  # fmt: skip
LASTING = (http(400), http(401), http(403), http(404), http(413), http(422), ValueError("sk-secret"), ModelError("x"),
           ModelError("x", status=400), KeyError("x"), AssertionError())  # fmt: skip


@pytest.mark.parametrize("error", PASSING, ids=repr)
def test_what_may_pass_is_asked_four_times_in_all(error: Exception) -> None:
    model, waits = Model(error), Waits()
    with pytest.raises(ModelError) as told:
        ask(model, REQUEST, **waits.told)
    assert model.calls == told.value.attempts == 4
    assert waits.time == pytest.approx(0.5 + 1 + 2)


@pytest.mark.parametrize("error", LASTING, ids=repr)
def test_what_cannot_pass_is_asked_once(error: Exception) -> None:
    model, waits = Model(error), Waits()
    with pytest.raises(ModelError) as told:
        ask(model, REQUEST, **waits.told)
    assert (model.calls, told.value.attempts, waits.time) == (1, 1, 0)


def test_an_answer_after_failures_says_how_many_calls_it_took() -> None:
    model, waits = Model(http(503), TimeoutError(), ModelAnswer(text="[]", input_tokens=7)), Waits()
    asked = ask(model, REQUEST, **waits.told)
    assert asked == ModelReply(
        answer=ModelAnswer(text="[]", input_tokens=7), model="small", attempts=3, milliseconds=1_500
    )


def test_a_failure_says_its_kind_and_status_and_never_what_the_provider_said() -> None:
    with pytest.raises(ModelError) as told:
        ask(Model(http(401)), REQUEST)
    assert (told.value.kind, told.value.status) == ("HTTPError", 401)
    assert "sk-secret" not in str(told.value)
    odd = type("sk-secret! \n", (Exception,), {})
    assert failure_of(odd()).kind == "Exception"


def test_the_waits_double_up_to_thirty_seconds_and_are_a_random_part_of_that() -> None:
    model, waits = Model(TimeoutError()), Waits()
    most: list[float] = []
    with pytest.raises(ModelError):
        ask(model, REQUEST, retries=9, **{**waits.told, "uniform": lambda least, upper: most.append(upper) or least})
    assert most == [0.5, 1, 2, 4, 8, 16, 30, 30, 30, 30] and waits.time == 0


def test_retry_after_is_waited_for_where_a_rate_is_limited_and_only_there() -> None:
    for status, waited in ((429, 7), (503, 7), (500, 0.5), (408, 0.5)):
        waits = Waits()
        ask(Model(http(status, Retry_After="7"), ModelAnswer(text="")), REQUEST, **waits.told)
        assert waits.time == pytest.approx(waited), status


def test_the_time_for_all_attempts_is_bounded() -> None:
    model, waits = Model(http(429, Retry_After="3600")), Waits()
    with pytest.raises(ModelError) as told:
        ask(model, REQUEST, deadline=60, **waits.told)
    assert (model.calls, waits.time, told.value.retry_after) == (1, 0, 3600)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("0", 0), (" 12 ", 12), ("1.5", 1.5), (format_datetime(NOW + timedelta(seconds=90), usegmt=True), 90),
        (format_datetime(NOW - timedelta(days=1), usegmt=True), 0), ("", None), ("-3", None), ("soon", None), (None, None),
        ("9" * 30, None), ("nan", None), ("inf", None), ("x" * 10_000, None), (7, None), ("٣", None),
    ],
)  # fmt: skip
def test_retry_after_is_seconds_or_a_date(header: object, seconds: float | None) -> None:
    assert seconds_of(header, NOW) == seconds


@pytest.mark.slow
@given(st.text())
def test_no_header_is_a_failure_of_its_own(header: str) -> None:
    found = seconds_of(header, NOW)
    assert found is None or found >= 0


def test_a_status_is_found_wherever_a_client_keeps_it() -> None:
    class Response:
        status_code, headers = 429, {"retry-after": "3"}

    class Theirs(Exception):
        response = Response()

    found = failure_of(Theirs())
    assert (found.kind, found.status, found.retry_after, found.passing) == ("Theirs", 429, 3, True)
    try:
        raise RuntimeError from Theirs()
    except RuntimeError as wrapped:
        found = failure_of(wrapped)
    assert (found.kind, found.status, found.passing) == ("RuntimeError", 429, True)


# --- cancelling ------------------------------------------------------------------------------------------------------


def test_what_is_cancelled_before_is_not_asked_at_all() -> None:
    model, event = Model(ModelAnswer(text="")), threading.Event()
    event.set()
    for cancelled in (event, lambda: True):
        with pytest.raises(ModelError) as told:
            ask(model, REQUEST, cancelled=cancelled)
        assert (told.value.kind, told.value.attempts, model.calls) == ("Cancelled", 0, 0)


def test_a_cancellation_is_looked_for_every_100_milliseconds_of_a_wait() -> None:
    model, waits, event = Model(http(503, Retry_After="60")), Waits(), threading.Event()

    def sleep(seconds: float) -> None:
        waits.sleep(seconds)
        if len(waits.asleep) == 3:
            event.set()

    with pytest.raises(ModelError) as told:
        ask(model, REQUEST, cancelled=event, **{**waits.told, "sleep": sleep})
    assert (told.value.kind, told.value.attempts, model.calls) == ("Cancelled", 1, 1)
    assert max(waits.asleep) <= 0.1 and len(waits.asleep) == 3


def test_a_call_under_way_is_left_when_it_is_cancelled() -> None:
    held, event = threading.Event(), threading.Event()

    def slow(request: ModelRequest) -> str:
        event.set()
        held.wait()
        return ""

    try:
        with pytest.raises(ModelError) as told:
            ask(as_model(slow), REQUEST, cancelled=event)
        assert told.value.kind == "Cancelled"
    finally:
        held.set()


# --- what answers ----------------------------------------------------------------------------------------------------


def test_a_function_that_hangs_is_given_up_after_its_timeout() -> None:
    held, calls = threading.Event(), list[int]()

    def hanging(request: ModelRequest) -> str:
        calls.append(1)
        held.wait()
        return ""

    try:
        with pytest.raises(ModelError) as told:
            ask(as_model(hanging), ModelRequest(**{**_fields(REQUEST), "timeout": 0.05}), sleep=lambda seconds: None)
        assert (told.value.kind, told.value.attempts, len(calls)) == ("TimeoutError", 4, 4)
    finally:
        held.set()


def test_a_function_may_give_text_an_answer_or_what_json_can_say() -> None:
    for given_, text in (("hi", "hi"), (None, ""), ({"add": []}, '{"add": []}'), (ModelAnswer(text="x"), "x")):
        assert ask(as_model(lambda request, given_=given_: given_), REQUEST).answer.text == text


@pytest.mark.parametrize("given_", [object(), float("nan"), {1: object()}, ModelAnswer(text=7)])
def test_what_is_no_answer_is_a_failure(given_: Any) -> None:
    with pytest.raises(ModelError) as told:
        ask(as_model(lambda request: given_), REQUEST)
    assert told.value.attempts == 1


def test_numbers_and_names_that_are_none_are_not_recorded() -> None:
    odd = ModelAnswer(text="", input_tokens=-1, output_tokens=True, model="two\nlines")  # type: ignore[arg-type]
    asked = ask(Model(odd), REQUEST)
    assert (asked.answer, asked.model) == (ModelAnswer(text=""), "small")
    assert ask(Model(ModelAnswer(text="", model="small-2026")), REQUEST).model == "small-2026"


def test_a_model_that_leaves_the_program_does_not_take_it_along() -> None:
    with pytest.raises(ModelError) as told:
        ask(Model(SystemExit()), REQUEST)
    assert told.value.kind == "SystemExit"


def test_a_model_is_never_asked_under_the_writers_lock(ledger: Ledger) -> None:
    check_outside(probe.writer(ledger))
    with ledger.batch(), pytest.raises(RejectedError) as told:
        check_outside(probe.writer(ledger))
    assert told.value.rule == "batch"
    with probe.store(ledger).transact(), pytest.raises(RejectedError):
        check_outside(probe.writer(ledger))
    with probe.store(ledger).transact():  # another thread's transaction is no reason
        told_elsewhere: list[BaseException | None] = []

        def elsewhere() -> None:
            try:
                check_outside(probe.writer(ledger))
                told_elsewhere.append(None)
            except BaseException as error:
                told_elsewhere.append(error)

        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
    assert told_elsewhere == [None]


def test_a_ledger_asks_its_model_as_its_settings_say_and_never_in_a_batch(tmp_path: Path) -> None:
    asked: list[ModelRequest] = []

    def small(request: ModelRequest) -> str:
        asked.append(request)
        return "[]"

    settings = Settings.load(model_max_tokens=9, model_temperature=0.5, model_timeout=3)
    with Ledger.open(tmp_path / "memory.db", model=small, settings=settings) as ledger:
        ledger.remember("Ana likes tea.")
        assert ledger.consolidate().calls == 1
        assert [(each.max_tokens, each.temperature, each.timeout) for each in asked] == [(9, 0.5, 3)]
        with ledger.batch(), pytest.raises(RejectedError) as told:
            ledger.remember("Ben likes tea.")
            ledger.consolidate()
        assert told.value.rule == "batch" and len(asked) == 1
    with Ledger.open(tmp_path / "memory.db") as ledger, pytest.raises(RejectedError) as told:
        ledger.consolidate(method="model")
    assert told.value.rule == "model"


def test_an_answer_costs_no_waiting() -> None:
    slept: list[float] = []
    ask(Model(ModelAnswer(text="")), REQUEST, sleep=slept.append, cancelled=lambda: False, clock=time.monotonic)
    assert slept == []


def _fields(request: ModelRequest) -> dict[str, Any]:
    return {name: getattr(request, name) for name in request.__struct_fields__}


def test_the_schema_in_words_has_no_titles_and_no_empty_defaults() -> None:
    text = extracting.request([], [], 1.0).as_text()
    assert '"description": "the number of a known fact"' in text and '"required": ["content"]' in text
    assert '"title"' not in text and '"default"' not in text
