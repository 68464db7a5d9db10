"""The language model that a caller passes: an object, a plain function, or the name of a model behind HTTP."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from msgspec import Struct

from ledger.domain.errors import ModelError, RejectedError
from ledger.domain.text import check_plain
from ledger.models.port import NAME, Model, ModelAnswer, ModelRequest

if TYPE_CHECKING:
    from ledger.core.settings import Settings


class Called(Struct, frozen=True):
    """A plain function as a model; the function may return a text, a ``ModelAnswer``, or a value for JSON."""

    name: str
    function: Callable[[ModelRequest], object]

    def answer(self, request: ModelRequest, /) -> ModelAnswer:
        result = self.function(request)
        if isinstance(result, ModelAnswer):
            return result
        if result is None or isinstance(result, str):
            return ModelAnswer(text=result or "")
        return ModelAnswer(text=as_json(result))


def as_json(result: object) -> str:
    """Return the JSON of a function's answer that is no text: a pydantic model, or lists and mappings."""
    if (dump := getattr(result, "model_dump_json", None)) is not None:
        return str(dump())
    try:
        return json.dumps(result, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ModelError(f"the model returned a value that JSON cannot express ({type(error).__name__})") from None


def as_model(source: object, settings: Settings | None = None) -> Model | None:
    """Return the model that a caller passed, or None.

    Args:
        source: None, an object with ``name`` and ``answer``, a function of a ``ModelRequest``, or the name of a model
            behind HTTP (see ``adapters.model_named``).
        settings: The server and the key for a model behind HTTP.

    Raises:
        RejectedError: ``source`` is none of these, or its name is not one line.
    """
    if source is None:
        return None
    if isinstance(source, str):
        from ledger.models.adapters import model_named  # the import of asyncio is slow

        names = ("base_url", "api_key", "api_key_env")
        return model_named(source, **{name: getattr(settings, f"model_{name}", None) for name in names})
    if hasattr(source, "answer") and hasattr(source, "name"):
        model = cast("Model", source)
    elif callable(source):
        model = Called(str(getattr(source, "name", None) or getattr(source, "__name__", None) or "function"), source)
    else:
        raise RejectedError(
            f"a model is a function of a request, or an object with name and answer, not a {type(source).__name__}"
        )
    check_plain("a model", getattr(source, "answer", source))
    if not isinstance(model.name, str) or not NAME.fullmatch(model.name):
        raise RejectedError(f"a model needs a name of one line, not {model.name!r:.60}")
    return model
