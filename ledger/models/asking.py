"""The calls of a language model: each has a time limit, and a call that failed for a passing reason is repeated.

There are up to three retries, and only after a failure that may pass in a moment: a rate limit, an overloaded or broken
server, a lost connection, a timeout. The longest waits double from half a second up to 30 s; each wait is a random part
of the longest, so that many callers that failed together do not return together. A Retry-After of the server is
respected where it limits a rate.
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

from ledger.core.call import Who
from ledger.core.command import Writer
from ledger.core.engine import Engine
from ledger.core.steps import is_called_off
from ledger.domain.errors import ModelError, RejectedError
from ledger.models.port import DAY_EXHAUSTED, NAME, OVER, CommandFailed, Model, ModelAnswer, ModelRequest
from ledger.types import Cancel
from projections.views import control

T = TypeVar("T")

RETRIES = 3
FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS = 0.5, 30.0
DEADLINE_SECONDS = 300.0  # for all calls of one request and the waits between them
LOOK_SECONDS = 0.1  # the time between two checks for a cancellation
RATE_LIMITS = (429, 503)  # the statuses whose Retry-After is respected
ANSWER_CHARS = 16 * 1024 * 1024
_PASSING = (408, 429)
_PASSING_KINDS = {  # names of exceptions, because the HTTP clients are not imported here
    *("TimeoutError", "ConnectionError", "gaierror", "IncompleteRead", "URLError"),  # of Python's own modules
    *("TimeoutException", "TransportError", "APIConnectionError"),  # httpx; openai and anthropic
    *("Timeout", "ChunkedEncodingError"),  # requests
    *("ModelConnectionError", "ModelUnavailableError", "ModelServerError"),  # pydantic-ai
}
_LASTING_KINDS = {"ModelQuotaExceededError"}  # a 429 that no wait ends
HINTS = {
    "NoKey": ": set the provider's variable (OPENAI_API_KEY, ANTHROPIC_API_KEY), or name another with model_api_key_env",
    DAY_EXHAUSTED: ": its calls or tokens of today (UTC) are used up",
}
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_ENDED = re.compile(r"(?:Exit|Signal)\d+")
_random = SystemRandom()


class ModelReply(Struct, frozen=True, kw_only=True):
    """An answer, the name of the ``model`` that gave it, and the ``attempts`` and ``milliseconds`` in all."""

    answer: ModelAnswer
    model: str
    attempts: int = 1
    milliseconds: int = 0


class Failure(Struct, frozen=True):
    """The kind of an exception that a model raised, without the message, which may hold texts or secrets."""

    kind: str
    status: int | None = None
    retry_after: float | None = None
    passing: bool = False  # True if the failure may pass in a moment
    hint: str = ""  # this product's own words


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
) -> ModelReply:
    """Return the answer to a request.

    A call that takes too long is abandoned; its thread may go on.

    Args:
        model: The model to ask.
        request: The request; each call may take ``request.timeout`` seconds.
        cancelled: An event or a function that says when to stop.
        retries: The most calls after the first.
        deadline: Seconds for all calls and the waits between them.
        sleep: Replaced in tests.
        clock: Replaced in tests; in seconds.
        uniform: Replaced in tests.

    Raises:
        ModelError: There is no answer. Its ``kind`` is "Cancelled" if ``cancelled`` said so before a call, during a
            call or during a wait.
    """
    started, attempts = clock(), 0
    if getattr(model, "asks_once", False) is True:
        retries = 0

    def milliseconds() -> int:
        return max(0, round((clock() - started) * 1000))

    while True:
        if is_called_off(cancelled):
            raise _failed(model, Failure("Cancelled"), attempts, milliseconds())
        attempts += 1
        remaining = deadline - (clock() - started)
        try:
            answer = checked(within(min(request.timeout, remaining), lambda: model.answer(request), cancelled))
            return ModelReply(
                answer=answer, model=answer.model or model.name, attempts=attempts, milliseconds=milliseconds()
            )
        except Exception as error:
            failure, cause = failure_of(error), error
        wait = _wait(failure, attempts, uniform)
        last = not failure.passing or attempts > retries or clock() - started + wait >= deadline
        if last or not _slept(wait, cancelled, sleep):
            failure = failure if last else Failure("Cancelled")
            raise _failed(model, failure, attempts, milliseconds()) from cause


def check_outside(writer: Writer) -> None:
    """Raise RejectedError inside a batch or a transaction of this thread.

    No other writer may wait for a model behind the writer's lock.
    """
    if writer.batching or writer.store.is_own:
        raise RejectedError(
            "a call of a model takes long, so a command with such a call cannot be part of a batch", rule="batch"
        )


def failure_of(error: BaseException) -> Failure:
    """Return the failure that an exception and its causes mean."""
    if isinstance(error, ModelError):
        status = _status(error)  # a model may have raised the error with any values
        kind = error.kind if isinstance(error.kind, str) and _PLAIN.fullmatch(error.kind) else "Exception"
        passing = kind in _PASSING_KINDS or (_is_passing(status) and kind not in _LASTING_KINDS)
        hint = str(error) if isinstance(error, CommandFailed) else ""
        known = Failure(kind, status, _retry_after(error), passing, hint)
        return known if known.passing or error.__cause__ is None or known.status else _of_chain(error, known)
    return _of_chain(error, Failure(_name(error)))


def _of_chain(error: BaseException, known: Failure) -> Failure:
    current: BaseException | None = error
    for _ in range(5):
        if current is None:
            break
        status = _status(current)
        if status is not None:
            return Failure(known.kind, status, _retry_after(current), _is_passing(status))
        if any(kind.__name__ in _PASSING_KINDS for kind in type(current).__mro__):
            return Failure(known.kind, None, None, True)
        current = current.__cause__
    return known


def _name(error: BaseException) -> str:
    name = type(error).__name__
    return name if _PLAIN.fullmatch(name) else "Exception"


def _is_passing(status: int | None) -> bool:
    return status is not None and (status in _PASSING or 500 <= status <= 599)


def _status(error: BaseException) -> int | None:
    """Return the HTTP status of an error, from any of the attributes in which clients keep it."""
    response = getattr(error, "response", None)
    for holder in (error, response):
        for name in ("status", "status_code", "code"):
            value = getattr(holder, name, None)
            if isinstance(value, int) and not isinstance(value, bool) and 100 <= value <= 599:
                return value
    return None


def _retry_after(error: BaseException) -> float | None:
    for holder in (error, getattr(error, "response", None)):
        headers = getattr(holder, "headers", None)
        if headers is not None and hasattr(headers, "get"):
            return seconds_of(headers.get("retry-after") or headers.get("Retry-After"), datetime.now(UTC))
    seconds = getattr(error, "retry_after", None)
    return float(seconds) if isinstance(seconds, int | float) and 0 <= seconds < 1e9 else None


def seconds_of(retry_after: object, now: datetime) -> float | None:
    """Return the seconds that a Retry-After header asks for, as a number or an HTTP date, or None for other values."""
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
    requested = failure.retry_after if failure.status in RATE_LIMITS else None
    return max(wait, requested or 0.0)


def _slept(seconds: float, cancelled: Cancel | None, sleep: Callable[[float], object]) -> bool:
    """Wait, and return True if no cancellation came."""
    while seconds > 0:
        if is_called_off(cancelled):
            return False
        sleep(min(seconds, LOOK_SECONDS))
        seconds -= LOOK_SECONDS
    return not is_called_off(cancelled)


def within(seconds: float, call: Callable[[], T], cancelled: Cancel | None = None) -> T:
    """Return the result of a call that is made in a thread of its own, because a plain function cannot be stopped.

    The thread of a call that takes too long may go on.

    Raises:
        ModelError: The call took longer than ``seconds``, or was cancelled.
    """
    results: list[T] = []
    failed: list[BaseException] = []
    context, over = contextvars.copy_context(), threading.Event()
    context.run(OVER.set, over)

    def run() -> None:
        try:
            results.append(context.run(call))
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run, name="language-model", daemon=True)
    until = time.monotonic() + max(0.0, seconds)
    thread.start()
    try:
        while thread.is_alive() and (left := until - time.monotonic()) > 0:
            thread.join(min(left, LOOK_SECONDS) if cancelled is not None else left)
            if thread.is_alive() and is_called_off(cancelled):
                raise ModelError("cancelled", kind="Cancelled")
    finally:
        over.set()
    if failed:
        error = failed[0]
        raise error if isinstance(error, Exception) else ModelError("the model ended its thread", kind=_name(error))
    if not results:
        raise ModelError("the model did not answer in time", kind="TimeoutError")
    return results[0]


def checked(answer: object) -> ModelAnswer:
    """Return an answer with valid fields; raise ModelError for a value that is no answer."""
    if not isinstance(answer, ModelAnswer) or not isinstance(answer.text, str):
        raise ModelError("the model returned no answer with a text", kind="TypeError")
    if len(answer.text) > ANSWER_CHARS:
        raise ModelError("the answer of the model is too long", kind="TooLong")
    model = answer.model if isinstance(answer.model, str) and NAME.fullmatch(answer.model) else ""
    return ModelAnswer(
        text=answer.text,
        input_tokens=_count(answer.input_tokens),
        output_tokens=_count(answer.output_tokens),
        model=model,
        cut=answer.cut is True,
    )


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53 else 0


def _failed(model: Model, failure: Failure, attempts: int, milliseconds: int) -> ModelError:
    status = f" with status {failure.status}" if failure.status is not None else ""
    calls = f"after {attempts} {'call' if attempts == 1 else 'calls'}"
    hint = f": {failure.hint}" if failure.hint else hint_of(failure.kind)
    ended = "was cancelled" if failure.kind == "Cancelled" else f"failed{status} ({failure.kind})"
    return ModelError(
        f"the model {model.name!r:.60} {ended} {calls}{hint}",
        kind=failure.kind,
        status=failure.status,
        retry_after=failure.retry_after,
        attempts=attempts,
        milliseconds=milliseconds,
    )


def hint_of(kind: str) -> str:
    """Return what to do about a kind of failure, as the end of a sentence; "" if there is nothing to say."""
    if _ENDED.fullmatch(kind):
        return ": so its command ended; try that in a shell"
    return HINTS.get(kind, "")


def check_trusted(engine: Engine, asker: Who, session: str | None) -> None:
    """Raise RejectedError if the answer of a model could not be recorded, so that no model is asked in vain.

    That is so if the asker is distrusted or the ledger is open for reading.
    """
    if engine.store.readonly:
        engine.store.refuse_writing()
    with engine.reading() as connection:
        distrusted = {(refusal.user, refusal.kind, refusal.source) for refusal in control.refused(connection)}
    sources = {"actor": asker.actor, "client": asker.client, "agent": asker.agent, "session": session}
    for kind, source in sources.items():
        if (asker.user, kind, source) in distrusted:
            raise RejectedError(
                f"the {kind} {source!r:.60} is distrusted, so no model is asked in its name", rule="trust"
            )
