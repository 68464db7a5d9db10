"""The body of a request, decoded off the event loop and only up to the first name or value that is not allowed."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec
from fastapi import HTTPException, Request
from starlette.concurrency import run_in_threadpool

from ledger.doors.http.questions import Body
from ledger.doors.http.refusing import NOT_AS_SAID

B = TypeVar("B", bound=Body)
SHOWN_CHARS = 300  # of a message, in which a name that nobody knows is repeated
NO_JSON = "the body is not JSON; it has to be a JSON object, as /openapi.json says"
WORD = re.compile(r"Invalid enum value '.*'( - at .*)?$", re.DOTALL)  # repeats the value, which may be any text


def body_of(kind: type[B]) -> Callable[[Request], Awaitable[B]]:
    """Return the dependency that reads a body of this kind."""
    decoder = msgspec.json.Decoder(kind)

    async def read(request: Request) -> B:
        media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if not (media == "application/json" or (media.startswith("application/") and media.endswith("+json"))):
            sent = f"came as {media[:60]}" if media else "came without a Content-Type"
            advice = "send a JSON object with the header Content-Type: application/json"
            raise HTTPException(422, f"the body {sent}; {advice}")
        data = await request.body()
        try:
            return await run_in_threadpool(decoder.decode, data)
        except msgspec.ValidationError as error:
            problem = WORD.sub(r"no word that is allowed\1", str(error))
            raise HTTPException(422, f"{NOT_AS_SAID}{problem[:SHOWN_CHARS]}") from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise HTTPException(422, NO_JSON) from None

    return read
