"""The port to a language model: a request in, an answer out, and whatever can answer requests is a model."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Protocol

from msgspec import Struct

NAME = re.compile(r"[^\s\x00-\x1f\ud800-\udfff][^\x00-\x1f\ud800-\udfff]{0,199}")


class ModelRequest(Struct, frozen=True, kw_only=True):
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


class ModelAnswer(Struct, frozen=True, kw_only=True):
    """What a model said: its text as it came, and the tokens that it took, where they are known. ``cut`` says that it was not
    at its end when ``max_tokens`` were used up."""

    text: str
    input_tokens: int = 0
    output_tokens: int = 0
    model: str = ""  # as the provider names it; "" for the name that it was configured by
    cut: bool = False


class Model(Protocol):
    """Anything with a name and ``answer``, which may be called from any thread. It raises what it likes: ``asking`` retries
    what can be retried (``ModelError`` with ``status`` 429 or 5xx, and timeouts)."""

    @property
    def name(self) -> str: ...

    def answer(self, request: ModelRequest, /) -> ModelAnswer: ...


ModelLike = Model | Callable[[ModelRequest], object] | str
"""A model, a function that answers requests (with a text, a ``ModelAnswer``, or what JSON can say), or the name of a model."""
