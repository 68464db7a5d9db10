"""The port to whoever writes summaries, and how it is asked: with a prompt, a target, a temperature, and patience."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from string import Template
from typing import Any

from msgspec import Struct

from ledger.domain.errors import ModelFailed, Rejected
from ledger.domain.harmless import fenced
from ledger.domain.window import AGGRESSIVE, CONDENSED, LEAF

TIMEOUT_SECONDS = 120.0
PROMPTS = {LEAF: "leaf/1", CONDENSED: "condensed/1"}
_STYLE = {AGGRESSIVE: "It must be very short: only what the assistant cannot go on without, in a few sentences."}
_NAME = re.compile(r"[^\s\x00-\x1f\ud800-\udfff][^\x00-\x1f\ud800-\udfff]{0,199}")


class SummaryRequest(Struct, frozen=True, kw_only=True):
    """What a summariser is asked for: ``texts`` (messages or summaries, oldest first) as one text of at most
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
        told = "What was summed up before, for context only:"
        before = (told, fenced([_harmless(text) for text in self.previous], "summaries")) if self.previous else ()
        return _prompt(self.prompt_version).substitute(
            target=self.target_tokens,
            style=_STYLE.get(self.level, ""),
            previous="\n".join(before),
            text=_harmless("\n\n".join(self.texts)),
        )


class Summariser(Struct, frozen=True):
    """A named function from a request to a text. The name is stored with each summary."""

    name: str
    write: Callable[[SummaryRequest], str]


def as_summariser(given: Any) -> Summariser | None:
    """What a caller named: a function, or an object with ``name`` (or ``model``) and ``summarise``."""
    if given is None or isinstance(given, Summariser):
        return given
    write = getattr(given, "summarise", given)
    if not callable(write):
        raise Rejected(
            f"a summariser is a function of a request, or has one called summarise; not {type(given).__name__}"
        )
    name = getattr(given, "name", None) or getattr(given, "model", None) or getattr(given, "__name__", None)
    name = str(name or type(given).__name__)
    if not _NAME.fullmatch(name):
        raise Rejected(f"a summariser needs a name of one line, and {name!r:.60} is none")
    return Summariser(name, write)


def ask(summariser: Summariser, asked: SummaryRequest, timeout: float = TIMEOUT_SECONDS) -> str:
    """The answer, stripped; "" for none. ``ModelFailed`` where it raises, gives no text, or takes longer than ``timeout``
    seconds: what it still does then is nobody's concern."""
    answer: list[Any] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            answer.append(summariser.write(asked))
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run, name="summariser", daemon=True)
    thread.start()
    thread.join(timeout)
    if failed:
        raise ModelFailed(f"the summariser {summariser.name!r:.60} failed ({type(failed[0]).__name__})") from failed[0]
    if not answer:
        raise ModelFailed(
            f"the summariser {summariser.name!r:.60} did not answer within {timeout:g} s"
        ) from TimeoutError()
    if answer[0] is not None and not isinstance(answer[0], str):
        raise ModelFailed(f"the summariser {summariser.name!r:.60} gave no text") from TypeError()
    text = (answer[0] or "").strip()
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ModelFailed(f"the summariser {summariser.name!r:.60} gave half of a character") from error
    return text


def _harmless(text: str) -> str:
    """A text that cannot end the block it stands in."""
    return re.sub(r"<(/?)(conversation|summaries)", r"‹\1\2", text)


@cache
def _prompt(version: str) -> Template:
    name = version.replace("/", "_") + ".txt"
    return Template((files("ledger") / "prompts" / name).read_text(encoding="utf-8"))
