"""The port to a language model: a request in, an answer out, and whatever can answer requests is a model."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Protocol

from msgspec import Struct

from ledger.domain.errors import ModelFailed, Rejected

NAME = re.compile(r"[^\s\x00-\x1f\ud800-\udfff][^\x00-\x1f\ud800-\udfff]{0,199}")


class Request(Struct, frozen=True, kw_only=True):
    """What a model is asked. ``instructions`` are ours and trusted; ``content`` holds what others wrote, as data.

    ``schema`` is the pydantic model that the answer has to fit, or None for plain text. ``max_tokens`` bounds the answer,
    ``timeout`` is in seconds for one attempt. ``prompt`` is the version of the prompt ("extract/1").
    """

    purpose: str
    prompt: str
    instructions: str
    content: str
    schema: type[Any] | None = None
    max_tokens: int = 1024
    temperature: float = 0.0
    timeout: float = 60.0


class Answer(Struct, frozen=True, kw_only=True):
    """What a model said: its text as it came, and the tokens that it took, where it tells them. ``cut`` says that it was not
    at its end when ``max_tokens`` were used up."""

    text: str
    input_tokens: int = 0
    output_tokens: int = 0
    model: str = ""  # as the provider names it; "" for the name that it was configured by
    cut: bool = False


class LanguageModel(Protocol):
    """Anything with a name and ``answer``, which may be called from any thread. It raises what it likes: ``asking`` retries
    what can be retried (``ModelFailed`` with ``status`` 429 or 5xx, and timeouts)."""

    @property
    def name(self) -> str: ...

    def answer(self, request: Request, /) -> Answer: ...


class Called(Struct, frozen=True):
    """A plain function as a model; it may return a text, an ``Answer``, or what JSON can say."""

    name: str
    function: Callable[[Request], Any]

    def answer(self, request: Request, /) -> Answer:
        given = self.function(request)
        if isinstance(given, Answer):
            return given
        if given is None or isinstance(given, str):
            return Answer(text=given or "")
        return Answer(text=as_json(given))


def as_json(given: Any) -> str:
    """What a function returned instead of a text: a pydantic model, or lists and mappings."""
    import json

    if hasattr(given, "model_dump_json"):
        return str(given.model_dump_json())
    try:
        return json.dumps(given, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ModelFailed(f"the model gave nothing that JSON can say ({type(error).__name__})") from None


def as_model(given: Any) -> LanguageModel | None:
    """What a caller named: None, an object with ``name`` and ``answer``, a function of a ``Request``, or the name of a model
    behind HTTP (as ``adapters.model_named`` knows it)."""
    if given is None:
        return None
    if isinstance(given, str):
        from ledger.language.adapters import model_named

        return model_named(given)
    if hasattr(given, "answer") and hasattr(given, "name"):
        found: LanguageModel = given
    elif callable(given):
        found = Called(str(getattr(given, "name", None) or getattr(given, "__name__", None) or "function"), given)
    else:
        raise Rejected(f"a model is a function of a request, or has name and answer; not {type(given).__name__}")
    if not isinstance(found.name, str) or not NAME.fullmatch(found.name):
        raise Rejected(f"a model needs a name of one line, and {found.name!r:.60} is none")
    return found
