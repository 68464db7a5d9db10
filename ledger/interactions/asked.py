"""The request to capture a turn, which the command checks."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from ledger.domain.metadata import NO_PAIRS
from ledger.types import Metadata


class CaptureRequest(Struct, frozen=True, kw_only=True):
    """A turn to capture.

    Attributes:
        prompt: The user's text.
        response: The agent's text; "" if there is no response yet.
        summary: A summary of the response.
        project: The name of the turn's project; None for no project.
        session: The name of the turn's session; None for no session.
        memories_used: Ids of the memories that the model had been shown; restating such a memory counts as an echo.
        chunks_used: Ids of the chunks that the model had been shown, stored without a check.
        context: The model's context, as JSON; None for no context.
        reinforce: False if the response must not reinforce memories.
        extract: False if the turn counts as extracted, as after an import with the memories that were found in it.
        append: True to append the prompt and the response to the session as messages too.
        metadata: Keys and values of the caller.
    """

    prompt: str
    response: str = ""
    summary: str = ""
    project: str | None = None
    session: str | None = None
    memories_used: Iterable[str] = ()
    chunks_used: Iterable[str] = ()
    context: object = None
    reinforce: bool = True
    extract: bool = True
    append: bool = False
    metadata: Metadata = NO_PAIRS
