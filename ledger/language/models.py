"""The language model that was given, and which calls of one there were."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from ledger.engine.answer import Answer, answer_of
from ledger.engine.engine import Engine
from ledger.language.naming import as_model
from ledger.language.port import Model, ModelRequest, NamedSummarizer
from ledger.language.summarizing import as_summarizer, by_model
from projections.views import calls, projects

if TYPE_CHECKING:
    from ledger.engine.settings import Settings


class ModelCall(Answer, frozen=True, kw_only=True):
    """One call of a language model, answered (``ok``) or failed with an ``error`` in one word. Its actions, kept and dropped,
    are in the audit trail at its position."""

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


def model_calls(engine: Engine, user: str, *, purpose: str | None, limit: int, before: int | None) -> list[ModelCall]:
    """The calls of language models for a user, newest first; ``purpose`` is one ("extraction", "summary", …).
    A call that failed is among them, and so is one whose command was undone."""
    with engine.reading() as connection:
        found = calls.listing(connection, user, purpose, limit, before)
        names = projects.names(connection, (each for call in found for each in (call.project, call.session)))
        return [_shown(each, names) for each in found]


def meant_model(engine: Engine, given: object) -> Model | None:
    return engine.model if given is None else as_model(given, engine.settings)


def with_settings(engine: Engine, request: ModelRequest) -> ModelRequest:
    return as_set(request, engine.settings)


def as_set(request: ModelRequest, settings: Settings | None) -> ModelRequest:
    """A request with what the settings say of all of them."""
    return replace(request, **settings.of_requests()) if settings is not None else request


def chosen(model: object, summarizer: object, settings: Settings | None) -> tuple[Model | None, NamedSummarizer | None]:
    """The model that was named, or else that of the settings; and what writes summaries, which is the model unless another
    was named or the settings say no."""
    given = settings.model if model is None and settings is not None else model
    meant = as_model(given, settings)
    if summarizer is not None or meant is None or (settings is not None and not settings.summaries):
        return meant, as_summarizer(summarizer)
    return meant, by_model(meant, lambda request: as_set(request, settings))


def _shown(call: calls.Call, names: dict[str, str]) -> ModelCall:
    project, session = (names.get(each or "", each) for each in (call.project, call.session))
    done, counts = call.error is None, call.undone_at is None
    return answer_of(ModelCall, call, project=project, session=session, ok=done, in_effect=counts)
