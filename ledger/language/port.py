"""The ports to a language model and to whoever writes summaries: a request in, an answer out."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Protocol

from msgspec import Struct

from ledger.domain.harmless import fenced
from ledger.domain.window import AGGRESSIVE
from ledger.language.prompts import prompt, prompt_parts

NAME = re.compile(r"[^\s\x00-\x1f\ud800-\udfff][^\x00-\x1f\ud800-\udfff]{0,199}")
_STYLE = {AGGRESSIVE: "It must be very short: only what the assistant cannot go on without, in a few sentences."}


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


# --- summaries --------------------------------------------------------------------------------------------------------


class SummaryRequest(Struct, frozen=True, kw_only=True):
    """What a summarizer is asked for: ``texts`` (messages or summaries, oldest first) as one text of at most
    ``target_tokens``. ``previous`` are the summaries before."""

    kind: str  # "leaf" or "condensed"
    level: str  # "normal" or "aggressive"
    texts: tuple[str, ...]
    previous: tuple[str, ...]
    target_tokens: int
    temperature: float
    prompt_version: str

    @property
    def prompt(self) -> str:
        """The whole request in words, for a model."""
        return prompt(self.prompt_version).substitute(self._values)

    @property
    def instructions(self) -> str:
        """What of the prompt are our own words; ``content`` is the rest, which others wrote."""
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
    """Anything that writes summaries by ``summarize``. Its ``name`` or ``model``, if it has one, is stored with each summary."""

    def summarize(self, request: SummaryRequest, /) -> str: ...


SummarizerLike = Summarizer | Model | Callable[[SummaryRequest], str]
"""What a caller may give to write summaries: an object, a language model, or a function."""


class NamedSummarizer(Struct, frozen=True):
    """A named function from a request to a text. The name is stored with each summary. Of a language ``model`` each call is
    recorded as well, and ``request`` says how it is asked."""

    name: str
    write: Callable[[SummaryRequest], object]
    model: Model | None = None
    request: Callable[[SummaryRequest], ModelRequest] | None = None


def _harmless(text: str) -> str:
    """A text that cannot end the block it stands in."""
    return re.sub(r"<(/?)(conversation|summaries)", r"‹\1\2", text)
