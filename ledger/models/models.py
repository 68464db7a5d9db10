"""The language model of a ledger, and the listing of its calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from ledger.core.call import Answer, answer_of
from ledger.core.engine import Engine, ReadingEngine
from ledger.models.naming import as_model
from ledger.models.port import MODEL, Model, ModelRequest, NamedSummarizer
from ledger.models.summarizing import as_summarizer, by_model
from projections.core.rows import Start
from projections.views import calls, projects

if TYPE_CHECKING:
    from ledger.core.settings import Settings


class ModelCall(Answer, frozen=True, kw_only=True):
    """A call of a language model, answered (``ok``) or failed with a one-word ``error``.

    The kept and dropped actions of the call are in the audit trail at its position.
    """

    position: int
    purpose: str
    model: str | None
    prompt: str
    ok: bool
    error: str | None
    status: int | None
    input_tokens: int
    output_tokens: int
    attempts: int
    milliseconds: int
    kept: int
    dropped: int
    left_over: int
    user: str | None
    project: str | None
    session: str | None
    recorded_at: str
    in_effect: bool


def model_calls(engine: ReadingEngine, user: str, *, purpose: str | None, limit: int, start: Start) -> list[ModelCall]:
    """Return the model calls of a user from ``start`` on, with failed calls and calls of commands that were undone.

    ``purpose`` is one word, such as "extraction" or "summary", or None for all.
    """
    with engine.reading() as connection:
        rows = calls.listing(connection, user, purpose, limit, start)
        names = projects.names(connection, (subject for call in rows for subject in (call.project, call.session)))
        return [_shown(row, names) for row in rows]


def meant_model(engine: Engine, model: object) -> Model | None:
    """Return the model of a call: the given model, or else the ledger's."""
    return engine.parts.get(MODEL) if model is None else as_model(model, engine.settings)


def with_settings(engine: Engine, request: ModelRequest) -> ModelRequest:
    return as_set(request, engine.settings)


def as_set(request: ModelRequest, settings: Settings | None) -> ModelRequest:
    """Return the request with the values that the settings give to all requests."""
    return replace(request, **settings.of_requests()) if settings is not None else request


def chosen(model: object, summarizer: object, settings: Settings | None) -> tuple[Model | None, NamedSummarizer | None]:
    """Return the given model, or else that of the settings, and the summarizer.

    The model writes the summaries too, unless another summarizer is given or the settings turn summaries off.
    """
    meant = as_model(model if model is not None or settings is None else _of_settings(settings), settings)
    if summarizer is not None or meant is None or (settings is not None and not settings.summaries):
        return meant, as_summarizer(summarizer)
    return meant, by_model(meant, lambda request: as_set(request, settings))


def _of_settings(settings: Settings) -> Model | str | None:
    if settings.model_command is None:
        return settings.model
    from ledger.models.command import CommandModel

    bounds = {"calls": settings.model_command_calls, "tokens": settings.model_command_tokens}
    return CommandModel(settings.model_command, **bounds)


def _shown(call: calls.ModelCallRow, names: dict[str, str]) -> ModelCall:
    project, session = (names.get(subject or "", subject) for subject in (call.project, call.session))
    done, counts = call.error is None, call.undone_at is None
    return answer_of(ModelCall, call, project=project, session=session, ok=done, in_effect=counts)
