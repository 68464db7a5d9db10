"""How whoever writes summaries is asked: with a prompt, a target, a temperature, and patience."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from ledger.domain.errors import ModelError, RejectedError
from ledger.domain.text import check_plain
from ledger.domain.window import CONDENSED, LEAF, Ranges
from ledger.engine.work import Work
from ledger.language.asking import Asked, failure_of, within
from ledger.language.asking import ask as ask_model
from ledger.language.calls import KEPT, Taken, emit_call, emit_failure
from ledger.language.naming import as_model
from ledger.language.port import NAME, Model, ModelRequest, NamedSummarizer, SummaryRequest

TIMEOUT_SECONDS = 120.0
PROMPTS = {LEAF: "leaf/1", CONDENSED: "condensed/1"}
PURPOSE = "summary"
_TOKENS = 2  # an answer may take so many times its target; what is longer than the target is not accepted anyway


class ModelAttempt(Struct, frozen=True):
    """One call of a language model for a summary: what it was asked, and what came of its answer, or how it failed."""

    request: ModelRequest
    asked: Asked | None = None
    outcome: str = KEPT
    error: ModelError | None = None


def by_model(model: Model, as_set: Callable[[ModelRequest], ModelRequest]) -> NamedSummarizer:
    """A language model as the summarizer; ``as_set`` puts into a request what settings say."""

    def request(asked: SummaryRequest) -> ModelRequest:
        return as_set(
            ModelRequest(
                purpose=PURPOSE,
                prompt=asked.prompt_version,
                instructions=asked.instructions,
                content=asked.content,
                max_tokens=max(256, _TOKENS * asked.target_tokens),
                temperature=asked.temperature,
                timeout=TIMEOUT_SECONDS,
            )
        )

    return NamedSummarizer(model.name, lambda asked: model.answer(request(asked)).text, model, request)


def as_summarizer(given: object) -> NamedSummarizer | None:
    """What a caller named: a function, an object with ``name`` (or ``model``) and ``summarize``, or a language model."""
    if given is None or isinstance(given, NamedSummarizer):
        return given
    if hasattr(given, "answer") and hasattr(given, "name") and not hasattr(given, "summarize"):
        model = as_model(given)
        return by_model(model, lambda request: request) if model is not None else None
    write = getattr(given, "summarize", given)
    if not callable(write):
        raise RejectedError(
            f"a summarizer is a function of a request, or has one called summarize; not {type(given).__name__}"
        )
    check_plain("a summarizer", write)
    name = getattr(given, "name", None) or getattr(given, "model", None) or getattr(given, "__name__", None)
    name = str(name or type(given).__name__)
    if not NAME.fullmatch(name):
        raise RejectedError(f"a summarizer needs a name of one line, and {name!r:.60} is none")
    return NamedSummarizer(name, write)


def ask(summarizer: NamedSummarizer, asked: SummaryRequest, timeout: float) -> str:
    """The answer, stripped; "" for none. ``ModelError`` where it raises, gives no text, or takes longer than ``timeout``
    seconds: what it still does then is nobody's concern."""
    try:
        answer = within(timeout, lambda: summarizer.write(asked))
    except Exception as error:
        kind = failure_of(error).kind
        raise ModelError(f"the summarizer {summarizer.name!r:.60} failed ({kind})", kind=kind) from error
    if answer is not None and not isinstance(answer, str):
        raise ModelError(f"the summarizer {summarizer.name!r:.60} gave no text", kind="TypeError")
    return _storable(summarizer, answer or "")


def _storable(summarizer: NamedSummarizer, answer: str, attempts: int = 1, milliseconds: int = 0) -> str:
    """Return the answer, stripped; ``ModelError`` for half of a character, which nothing can store."""
    try:
        answer.encode()
    except UnicodeEncodeError as error:
        raise ModelError(
            f"the summarizer {summarizer.name!r:.60} gave half of a character",
            kind="UnicodeEncodeError",
            attempts=attempts,
            milliseconds=milliseconds,
        ) from error
    return answer.strip()


def answer_of(
    summarizer: NamedSummarizer, asked: SummaryRequest, timeout: float, model_attempts: list[ModelAttempt]
) -> str:
    """What ``ask`` gives; of a language model with its retries, all within ``timeout`` seconds, and each call of one goes into
    ``model_attempts``."""
    if summarizer.model is None or summarizer.request is None:
        return ask(summarizer, asked, timeout)
    request = summarizer.request(asked)
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
    """Records the calls for a summary in the append of what they led to: ``made`` is the summary, ``why`` there is none."""
    for each in model_attempts:
        if each.asked is not None:
            outcome = why if each.outcome == KEPT and not made else each.outcome
            taken = Taken("summarise", outcome, subject=made if outcome == KEPT else None)
            emit_call(work, each.asked, each.request, ranges=ranges, actions=[taken])
        elif each.error is not None and summarizer is not None:
            emit_failure(work, each.request, each.error, model=summarizer.name, ranges=ranges)
