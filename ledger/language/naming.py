"""Which language model a caller means: an object, a plain function, or the name of one behind HTTP."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from msgspec import Struct

from ledger.domain.errors import ModelError, RejectedError
from ledger.domain.text import check_plain
from ledger.language.port import NAME, Model, ModelAnswer, ModelRequest

if TYPE_CHECKING:
    from ledger.engine.settings import Settings


class Called(Struct, frozen=True):
    """A plain function as a model; it may return a text, an ``ModelAnswer``, or what JSON can say."""

    name: str
    function: Callable[[ModelRequest], object]

    def answer(self, request: ModelRequest, /) -> ModelAnswer:
        given = self.function(request)
        if isinstance(given, ModelAnswer):
            return given
        if given is None or isinstance(given, str):
            return ModelAnswer(text=given or "")
        return ModelAnswer(text=as_json(given))


def as_json(given: object) -> str:
    """What a function returned instead of a text: a pydantic model, or lists and mappings."""
    if (dump := getattr(given, "model_dump_json", None)) is not None:
        return str(dump())
    try:
        return json.dumps(given, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ModelError(f"the model gave nothing that JSON can say ({type(error).__name__})") from None


def as_model(given: object, settings: Settings | None = None) -> Model | None:
    """What a caller named: None, an object with ``name`` and ``answer``, a function of a ``ModelRequest``, or the name of a model
    behind HTTP (as ``adapters.model_named`` knows it), with the server and the key of the settings."""
    if given is None:
        return None
    if isinstance(given, str):
        from ledger.language.adapters import model_named  # asyncio takes a while to load

        names = ("base_url", "api_key", "api_key_env")
        return model_named(given, **{name: getattr(settings, f"model_{name}", None) for name in names})
    if hasattr(given, "answer") and hasattr(given, "name"):
        found = cast("Model", given)
    elif callable(given):
        found = Called(str(getattr(given, "name", None) or getattr(given, "__name__", None) or "function"), given)
    else:
        raise RejectedError(f"a model is a function of a request, or has name and answer; not {type(given).__name__}")
    check_plain("a model", getattr(given, "answer", given))
    if not isinstance(found.name, str) or not NAME.fullmatch(found.name):
        raise RejectedError(f"a model needs a name of one line, and {found.name!r:.60} is none")
    return found
