"""The request to capture a turn. The command checks the request."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from ledger.domain.metadata import NO_PAIRS
from ledger.types import Metadata


class CaptureRequest(Struct, frozen=True, kw_only=True):
    """A turn to capture.

    Attributes:
        prompt: The user's text.
        response: The agent's text; "" if there is none yet.
        summary: A summary of the response.
        project: The turn's project, if any.
        session: The turn's session, if any.
        memories_used: Ids of the memories that the model had been shown, so that repeating them counts as an echo.
        chunks_used: Ids of the chunks that the model had been shown, stored as given.
        context: The model's context, as JSON; None for no context.
        reinforce: False if the response is not evidence.
        extract: False if the turn counts as extracted, as after an import with the memories that were found in it.
        append: True to append prompt and response to the session as messages too.
        metadata: Keys of the caller.
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
