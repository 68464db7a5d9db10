"""Asks a language model: each attempt within its time, again where the failure may pass, and never past a cancellation.

Up to three retries, and only of what can be otherwise a moment later: a rate limit, an overloaded or broken server, a lost
connection, a timeout. The waits double from half a second up to 30 s, each a random part of that, so that many who failed
together do not come back together. What a server asks for with Retry-After is waited for, where it limits a rate.
"""

from __future__ import annotations

import contextvars
import re
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from random import SystemRandom
from typing import TypeVar

from msgspec import Struct

from ledger.domain.errors import ModelError, RejectedError
from ledger.engine.engine import Engine
from ledger.engine.pipeline import Writer
from ledger.engine.stopping import is_called_off
from ledger.engine.who import Who
from ledger.language.port import NAME, Model, ModelAnswer, ModelRequest
from ledger.types import Cancel
from projections.views import control

T = TypeVar("T")

RETRIES = 3
FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS = 0.5, 30.0
DEADLINE_SECONDS = 300.0  # for all attempts of one request, and the waits between them
LOOK_SECONDS = 0.1  # how often a cancellation is looked for
RATE_LIMITS = (429, 503)  # where Retry-After says when there is room again
ANSWER_CHARS = 16 * 1024 * 1024
_PASSING = (408, 429)
_PASSING_KINDS = {  # by name, since those of the HTTP clients are not imported for this
    *("TimeoutError", "ConnectionError", "gaierror", "IncompleteRead", "URLError"),  # of Python's own modules
    *("TimeoutException", "TransportError", "APIConnectionError"),  # httpx; openai and anthropic
    *("Timeout", "ChunkedEncodingError"),  # requests
    *("ModelConnectionError", "ModelUnavailableError", "ModelServerError"),  # pydantic-ai
}
_LASTING_KINDS = {"ModelQuotaExceededError"}  # a 429 that no waiting mends
HINTS = {
    "NoKey": ": set the provider's variable (OPENAI_API_KEY, ANTHROPIC_API_KEY), or name another with model_api_key_env",
}
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_random = SystemRandom()


class Asked(Struct, frozen=True, kw_only=True):
    """An answer, the name of the ``model`` that gave it, after how many ``attempts`` and ``milliseconds`` in all."""

    answer: ModelAnswer
    model: str
    attempts: int = 1
    milliseconds: int = 0


class Failure(Struct, frozen=True):
    """What is known of an exception that a model raised: nothing that it says in words."""

    kind: str
    status: int | None = None
    retry_after: float | None = None
    passing: bool = False  # it may be otherwise a moment later


def ask(
    model: Model,
    request: ModelRequest,
    *,
    cancelled: Cancel | None = None,
    retries: int = RETRIES,
    deadline: float = DEADLINE_SECONDS,
    sleep: Callable[[float], object] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
    uniform: Callable[[float, float], float] = _random.uniform,
) -> Asked:
    """The answer to a request, after up to 1 + ``retries`` calls of at most ``request.timeout`` seconds each, and within
    ``deadline`` seconds for everything.

    ``ModelError`` where it cannot be had; its ``kind`` is "Cancelled" when ``cancelled`` (an event, or a function) said so
    before a call, during one, or while waiting for the next. A call that takes too long is left alone: what it still does is
    nobody's concern. ``sleep``, ``clock`` (seconds) and ``uniform`` are for tests.
    """
    started, attempts = clock(), 0

    def taken() -> int:
        return max(0, round((clock() - started) * 1000))

    while True:
        if is_called_off(cancelled):
            raise _failed(model, Failure("Cancelled"), attempts, taken())
        attempts += 1
        remaining = deadline - (clock() - started)
        try:
            answer = checked(within(min(request.timeout, remaining), lambda: model.answer(request), cancelled))
            return Asked(answer=answer, model=answer.model or model.name, attempts=attempts, milliseconds=taken())
        except Exception as error:
            failure, cause = failure_of(error), error
        wait = _wait(failure, attempts, uniform)
        last = not failure.passing or attempts > retries or clock() - started + wait >= deadline
        if last or not _slept(wait, cancelled, sleep):
            failure = failure if last else Failure("Cancelled")
            raise _failed(model, failure, attempts, taken()) from cause


def check_outside(writer: Writer) -> None:
    """``RejectedError`` inside a batch or a transaction of this thread: nobody waits for a model while holding the
    writer's lock.
    """
    if writer.batching or writer.store.is_own:
        raise RejectedError("a model is asked and takes its time, so this cannot be part of a batch", rule="batch")


def failure_of(error: BaseException) -> Failure:
    """What kind of failure an exception is, by itself and by what it was raised from."""
    if isinstance(error, ModelError):
        status = _status(error)  # a model may have made the error, and of anything
        kind = error.kind if isinstance(error.kind, str) and _PLAIN.fullmatch(error.kind) else "Exception"
        passing = kind in _PASSING_KINDS or (_is_passing(status) and kind not in _LASTING_KINDS)
        known = Failure(kind, status, _retry_after(error), passing)
        return known if known.passing or error.__cause__ is None or known.status else _of_chain(error, known)
    return _of_chain(error, Failure(_name(error)))


def _of_chain(error: BaseException, known: Failure) -> Failure:
    each: BaseException | None = error
    for _ in range(5):
        if each is None:
            break
        status = _status(each)
        if status is not None:
            return Failure(known.kind, status, _retry_after(each), _is_passing(status))
        if any(kind.__name__ in _PASSING_KINDS for kind in type(each).__mro__):
            return Failure(known.kind, None, None, True)
        each = each.__cause__
    return known


def _name(error: BaseException) -> str:
    name = type(error).__name__
    return name if _PLAIN.fullmatch(name) else "Exception"


def _is_passing(status: int | None) -> bool:
    return status is not None and (status in _PASSING or 500 <= status <= 599)


def _status(error: BaseException) -> int | None:
    """HTTP's status, wherever a client keeps it."""
    response = getattr(error, "response", None)
    for holder in (error, response):
        for name in ("status", "status_code", "code"):
            found = getattr(holder, name, None)
            if isinstance(found, int) and not isinstance(found, bool) and 100 <= found <= 599:
                return found
    return None


def _retry_after(error: BaseException) -> float | None:
    for holder in (error, getattr(error, "response", None)):
        headers = getattr(holder, "headers", None)
        if headers is not None and hasattr(headers, "get"):
            return seconds_of(headers.get("retry-after") or headers.get("Retry-After"), datetime.now(UTC))
    found = getattr(error, "retry_after", None)
    return float(found) if isinstance(found, int | float) and 0 <= found < 1e9 else None


def seconds_of(retry_after: object, now: datetime) -> float | None:
    """What a Retry-After header asks for: a number of seconds, or a date of HTTP; None for what is neither."""
    if not isinstance(retry_after, str) or len(retry_after) > 100:
        return None
    if re.fullmatch(r"\s*\d{1,9}(\.\d{1,9})?\s*", retry_after, re.ASCII):
        return float(retry_after)
    from email.utils import parsedate_to_datetime

    try:
        then = parsedate_to_datetime(retry_after)
    except (TypeError, ValueError, OverflowError):
        return None
    then = then if then.tzinfo is not None else then.replace(tzinfo=UTC)
    return max(0.0, (then - now).total_seconds())


def _wait(failure: Failure, attempts: int, uniform: Callable[[float, float], float]) -> float:
    wait = uniform(0, min(LONGEST_WAIT_SECONDS, FIRST_WAIT_SECONDS * 2.0 ** (attempts - 1)))
    asked = failure.retry_after if failure.status in RATE_LIMITS else None
    return max(wait, asked or 0.0)


def _slept(seconds: float, cancelled: Cancel | None, sleep: Callable[[float], object]) -> bool:
    """Waits, and says whether nobody cancelled meanwhile."""
    while seconds > 0:
        if is_called_off(cancelled):
            return False
        sleep(min(seconds, LOOK_SECONDS))
        seconds -= LOOK_SECONDS
    return not is_called_off(cancelled)


def within(seconds: float, call: Callable[[], T], cancelled: Cancel | None = None) -> T:
    """What a call returns, made in a thread of its own, since a plain function cannot be made to stop; ``ModelError`` where
    it takes longer, or is cancelled. What it still does then is nobody's concern."""
    given: list[T] = []
    failed: list[BaseException] = []
    context = contextvars.copy_context()

    def run() -> None:
        try:
            given.append(context.run(call))
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run, name="language-model", daemon=True)
    until = time.monotonic() + max(0.0, seconds)
    thread.start()
    while thread.is_alive() and (left := until - time.monotonic()) > 0:
        thread.join(min(left, LOOK_SECONDS) if cancelled is not None else left)
        if thread.is_alive() and is_called_off(cancelled):
            raise ModelError("cancelled", kind="Cancelled")
    if failed:
        error = failed[0]
        raise error if isinstance(error, Exception) else ModelError("it ended its thread", kind=_name(error))
    if not given:
        raise ModelError("no answer in time", kind="TimeoutError")
    return given[0]


def checked(given: object) -> ModelAnswer:
    """An answer with what an answer has to have; ``ModelError`` for what is none."""
    if not isinstance(given, ModelAnswer) or not isinstance(given.text, str):
        raise ModelError("no answer", kind="TypeError")
    if len(given.text) > ANSWER_CHARS:
        raise ModelError("an answer too long to be one", kind="TooLong")
    model = given.model if isinstance(given.model, str) and NAME.fullmatch(given.model) else ""
    return ModelAnswer(
        text=given.text,
        input_tokens=_count(given.input_tokens),
        output_tokens=_count(given.output_tokens),
        model=model,
        cut=given.cut is True,
    )


def _count(given: object) -> int:
    return given if isinstance(given, int) and not isinstance(given, bool) and 0 <= given < 2**53 else 0


def _failed(model: Model, failure: Failure, attempts: int, milliseconds: int) -> ModelError:
    status = f" with status {failure.status}" if failure.status is not None else ""
    calls = f"after {attempts} {'call' if attempts == 1 else 'calls'}"
    ended = "was cancelled" if failure.kind == "Cancelled" else f"failed{status} ({failure.kind})"
    return ModelError(
        f"the model {model.name!r:.60} {ended} {calls}{HINTS.get(failure.kind, '')}",
        kind=failure.kind,
        status=failure.status,
        retry_after=failure.retry_after,
        attempts=attempts,
        milliseconds=milliseconds,
    )


def check_trusted(engine: Engine, asker: Who, session: str | None) -> None:
    """``RejectedError`` where the answer could not be recorded, for whoever asks is distrusted, or nobody writes: so no model
    is asked."""
    if engine.store.readonly:
        engine.store.refuse_writing()
    with engine.reading() as connection:
        found = {(each.user, each.kind, each.source) for each in control.refused(connection)}
    sources = {"actor": asker.actor, "client": asker.client, "agent": asker.agent, "session": session}
    for kind, source in sources.items():
        if (asker.user, kind, source) in found:
            raise RejectedError(f"the {kind} {source!r:.60} is distrusted, so no model is asked for it", rule="trust")
