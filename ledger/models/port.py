"""The interfaces of a language model and of a summarizer: a request in, an answer out."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Protocol

from msgspec import Struct

from ledger.domain.harmless import fenced
from ledger.models.prompts import prompt, prompt_parts
from ledger.sessions.rules.window import AGGRESSIVE

NAME = re.compile(r"[^\s\x00-\x1f\ud800-\udfff][^\x00-\x1f\ud800-\udfff]{0,199}")
_STYLE = {AGGRESSIVE: "It must be very short: only what the assistant cannot go on without, in a few sentences."}


class ModelRequest(Struct, frozen=True, kw_only=True):
    """A request to a model.

    ``instructions`` are words of this product and trusted; ``content`` holds texts by others, as data. ``schema`` is the
    pydantic model of the answer, or None for plain text. ``max_tokens`` bounds the answer. ``timeout`` is in seconds for one
    attempt. ``prompt`` is the version of the prompt ("extract/1").
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
    """An answer of a model: its unchanged text, and the tokens used, if known.

    ``cut`` is True if ``max_tokens`` ended the answer early.
    """

    text: str
    input_tokens: int = 0
    output_tokens: int = 0
    model: str = ""  # the provider's name for the model; "" for the configured name
    cut: bool = False


class Model(Protocol):
    """Any object with a name and ``answer``, which any thread may call.

    ``answer`` may raise any error. ``asking`` retries after failures that may pass: ``ModelError`` with ``status`` 429
    or 5xx, and timeouts.
    """

    @property
    def name(self) -> str: ...

    def answer(self, request: ModelRequest, /) -> ModelAnswer: ...


ModelLike = Model | Callable[[ModelRequest], object] | str
"""A model, a function that answers requests (a text, a ``ModelAnswer`` or a value for JSON), or the name of a model."""


# --- summaries --------------------------------------------------------------------------------------------------------


class SummaryRequest(Struct, frozen=True, kw_only=True):
    """A request for a summary of ``texts`` in one text of at most ``target_tokens``.

    ``texts`` are messages or summaries, oldest first. ``previous`` are the summaries before them.
    """

    kind: str  # "leaf" or "condensed"
    level: str  # "normal" or "aggressive"
    texts: tuple[str, ...]
    previous: tuple[str, ...]
    target_tokens: int
    temperature: float
    prompt_version: str

    @property
    def prompt(self) -> str:
        """Return the whole request in words, for a model."""
        return prompt(self.prompt_version).substitute(self._values)

    @property
    def instructions(self) -> str:
        """Return the product's own words in the prompt; ``content`` is the rest, with texts by others."""
        return prompt_parts(self.prompt_version)[0].substitute(self._values)

    @property
    def content(self) -> str:
        return prompt_parts(self.prompt_version)[1].substitute(self._values)

    @property
    def _values(self) -> dict[str, object]:
        heading = "What was summed up before, for context only:"
        before = (heading, fenced([_harmless(text) for text in self.previous], "summaries")) if self.previous else ()
        return {
            "target": self.target_tokens,
            "style": _STYLE.get(self.level, ""),
            "previous": "\n".join(before),
            "text": _harmless("\n\n".join(self.texts)),
        }


class Summarizer(Protocol):
    """Any object that writes summaries by ``summarize``.

    Its ``name`` or ``model``, if there is one, is stored with each summary.
    """

    def summarize(self, request: SummaryRequest, /) -> str: ...


SummarizerLike = Summarizer | Model | Callable[[SummaryRequest], str]
"""A writer of summaries: an object, a language model, or a function."""


class NamedSummarizer(Struct, frozen=True):
    """A named function from a request to a text.

    The name is stored with each summary. If a language ``model`` writes the summaries, each of its calls is recorded
    too, and ``request`` makes the request to it.
    """

    name: str
    write: Callable[[SummaryRequest], object]
    model: Model | None = None
    request: Callable[[SummaryRequest], ModelRequest] | None = None


def _harmless(text: str) -> str:
    """Return the text with the marks defused that could end its block in the prompt."""
    return re.sub(r"<(/?)(conversation|summaries)", r"‹\1\2", text)
