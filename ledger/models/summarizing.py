"""The requests to a summarizer, a function or a language model, and the record of its calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from ledger.core.work import Work
from ledger.domain.errors import ModelError, RejectedError
from ledger.domain.text import check_plain
from ledger.models.asking import ModelReply, failure_of, within
from ledger.models.asking import ask as ask_model
from ledger.models.calls import KEPT, ActionOutcome, emit_call, emit_failure
from ledger.models.naming import as_model
from ledger.models.port import NAME, Model, ModelRequest, NamedSummarizer, SummaryRequest
from ledger.sessions.rules.window import CONDENSED, LEAF, Ranges

TIMEOUT_SECONDS = 120.0
PROMPTS = {LEAF: "leaf/1", CONDENSED: "condensed/1"}
PURPOSE = "summary"
# The answer of a model may have twice the target tokens. So a summary that is too long comes whole, and is rejected.
_TOKENS = 2


class ModelAttempt(Struct, frozen=True):
    """A call of a language model for a summary: the request, and the outcome of the answer or the failure."""

    request: ModelRequest
    asked: ModelReply | None = None
    outcome: str = KEPT
    error: ModelError | None = None


def by_model(model: Model, as_set: Callable[[ModelRequest], ModelRequest]) -> NamedSummarizer:
    """Return a language model as a summarizer; ``as_set`` adds the values of the settings to a request."""

    def request(summary_request: SummaryRequest) -> ModelRequest:
        return as_set(
            ModelRequest(
                purpose=PURPOSE,
                prompt=summary_request.prompt_version,
                instructions=summary_request.instructions,
                content=summary_request.content,
                max_tokens=max(256, _TOKENS * summary_request.target_tokens),
                temperature=summary_request.temperature,
                timeout=TIMEOUT_SECONDS,
            )
        )

    return NamedSummarizer(
        model.name, lambda summary_request: model.answer(request(summary_request)).text, model, request
    )


def as_summarizer(source: object) -> NamedSummarizer | None:
    """Return the summarizer that a caller passed, or None.

    ``source`` is a function, an object with ``summarize`` and a ``name`` or ``model``, or a language model.

    Raises:
        RejectedError: ``source`` is none of these, or its name is not one line.
    """
    if source is None or isinstance(source, NamedSummarizer):
        return source
    if hasattr(source, "answer") and hasattr(source, "name") and not hasattr(source, "summarize"):
        model = as_model(source)
        return by_model(model, lambda request: request) if model is not None else None
    write = getattr(source, "summarize", source)
    if not callable(write):
        raise RejectedError(
            f"a summarizer is a function of a request, or an object with a method summarize, not a {type(source).__name__}"
        )
    check_plain("a summarizer", write)
    name = getattr(source, "name", None) or getattr(source, "model", None) or getattr(source, "__name__", None)
    name = str(name or type(source).__name__)
    if not NAME.fullmatch(name):
        raise RejectedError(f"a summarizer needs a name of one line, not {name!r:.60}")
    return NamedSummarizer(name, write)


def ask(summarizer: NamedSummarizer, summary_request: SummaryRequest, timeout: float) -> str:
    """Return the answer of a summarizer, stripped; "" for no answer.

    A call that takes too long is abandoned; its thread may go on.

    Raises:
        ModelError: The summarizer raised an error, returned no text, or took longer than ``timeout`` seconds.
    """
    try:
        answer = within(timeout, lambda: summarizer.write(summary_request))
    except Exception as error:
        kind = failure_of(error).kind
        raise ModelError(f"the summarizer {summarizer.name!r:.60} failed ({kind})", kind=kind) from error
    if answer is not None and not isinstance(answer, str):
        raise ModelError(f"the summarizer {summarizer.name!r:.60} returned no text", kind="TypeError")
    return _storable(summarizer, answer or "")


def _storable(summarizer: NamedSummarizer, answer: str, attempts: int = 1, milliseconds: int = 0) -> str:
    """Return the answer, stripped; raise ModelError for a lone surrogate, which no file can store."""
    try:
        answer.encode()
    except UnicodeEncodeError as error:
        raise ModelError(
            f"the summarizer {summarizer.name!r:.60} returned half of a character",
            kind="UnicodeEncodeError",
            attempts=attempts,
            milliseconds=milliseconds,
        ) from error
    return answer.strip()


def answer_of(
    summarizer: NamedSummarizer, summary_request: SummaryRequest, timeout: float, model_attempts: list[ModelAttempt]
) -> str:
    """Return the answer of a summarizer within ``timeout`` seconds.

    A language model is asked again after a passing failure. Each of its calls is added to ``model_attempts``.
    """
    if summarizer.model is None or summarizer.request is None:
        return ask(summarizer, summary_request, timeout)
    request = summarizer.request(summary_request)
    try:
        answer = ask_model(summarizer.model, request, deadline=timeout)
        text = _storable(summarizer, answer.answer.text, answer.attempts, answer.milliseconds)
    except ModelError as error:
        model_attempts.append(ModelAttempt(request, error=error))
        raise
    model_attempts.append(ModelAttempt(request, answer))
    return text


def emit_attempts(
    work: Work,
    summarizer: NamedSummarizer | None,
    model_attempts: Sequence[ModelAttempt],
    ranges: Ranges,
    made: str = "",
    why: str = "",
) -> None:
    """Record the model calls for a summary inside the command that uses their answers.

    ``made`` is the id of the summary, or "" if no summary was made, for the reason ``why``.
    """
    for attempt in model_attempts:
        if attempt.asked is not None:
            outcome = why if attempt.outcome == KEPT and not made else attempt.outcome
            taken = ActionOutcome("summarise", outcome, subject=made if outcome == KEPT else None)
            emit_call(work, attempt.asked, attempt.request, ranges=ranges, actions=[taken])
        elif attempt.error is not None and summarizer is not None:
            emit_failure(work, attempt.request, attempt.error, model=summarizer.name, ranges=ranges)
