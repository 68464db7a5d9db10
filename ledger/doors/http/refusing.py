"""The answers to what is refused: an error of the ledger, a wrong request, and one that is not meant for this server.

Every body is ``{"error": …, "message": …}``. A body may repeat a word that was sent, such as an id
or a time, and never a token, the text of a memory, a question or a message, or the name of a file of the server.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import msgspec
from fastapi import HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ledger import (
    AmbiguousIdError,
    BusyError,
    ConflictError,
    KeyReusedError,
    LedgerError,
    ModelError,
    NotFoundError,
    RejectedError,
)
from ledger.doors.listening import OwnNames
from ledger.doors.outages import is_outage, public_text

BODY_BYTES = 4 * 1024 * 1024
# The bytes of a refused request that are read, so that the client has sent its body when the answer comes.
DRAINED_BYTES = 4 * BODY_BYTES
TOO_LARGE = f"a body has at most {BODY_BYTES:,} bytes"
UNAVAILABLE = 503  # of errors of the file and the disk, which are no fault of the client
STATUS: Mapping[type[LedgerError], int] = {
    NotFoundError: 404,
    RejectedError: 422,
    ConflictError: 409,
    KeyReusedError: 422,
    ModelError: 502,
}
KINDS = {
    400: "InvalidRequest",
    401: "NoToken",
    404: "NotFound",
    405: "WrongMethod",
    413: "TooLarge",
    503: "Unavailable",
}
DETAILS = ("rule", "subject", "limit", "current", "requested", "finding")  # of a ``RejectedError``


def refusal(
    status: int, error: str, message: str, *, headers: Mapping[str, str] | None = None, **more: object
) -> Response:
    """Return the answer to a request that is refused."""
    body = msgspec.json.encode({"error": error, "message": message, **more})
    return Response(body, status, headers, media_type="application/json")


async def of_ledger(request: Request, error: Exception) -> Response:
    """Return the answer for an error of the ledger: its message says what was asked, what was true, and what is allowed."""
    problem = cast("LedgerError", error)
    status, more = UNAVAILABLE, dict[str, object]()
    if not is_outage(problem):
        status = next(STATUS[kind] for kind in type(problem).__mro__ if kind in STATUS)
    if isinstance(problem, RejectedError):
        more = {name: value for name in DETAILS if (value := getattr(problem, name)) not in (None, "")}
    elif isinstance(problem, AmbiguousIdError):
        more = {"candidates": problem.candidates}
    headers = {"Retry-After": "1"} if isinstance(problem, BusyError) else None
    message = public_text(problem, f"{request.method} {request.url.path}")
    return refusal(status, type(problem).__name__, message, headers=headers, **more)


async def of_request(request: Request, error: Exception) -> Response:
    """Return the answer for a request that is not as the schema says: the places and what is wrong, without the values."""
    problems = cast("RequestValidationError", error).errors()
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if problems and problems[0]["type"] == "json_invalid":
        return refusal(422, "InvalidRequest", "the body is not JSON; it has to be a JSON object, as /openapi.json says")
    if any(problem["loc"] == ("body",) for problem in problems) and not _is_json(media):
        sent = f"came as {media[:60]}" if media else "came without a Content-Type"
        advice = "send a JSON object with the header Content-Type: application/json"
        return refusal(422, "InvalidRequest", f"the body {sent}; {advice}")
    shown = "; ".join(f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}" for problem in problems[:3])
    message = f"the request is not as /openapi.json says: {shown}".encode("utf-8", "replace").decode()
    return refusal(422, "InvalidRequest", message)


def _is_json(media: str) -> bool:
    return media == "application/json" or (media.startswith("application/") and media.endswith("+json"))


async def of_http(request: Request, error: Exception) -> Response:
    """Return the answer for an unknown path, a wrong method, a missing token or a body that is no JSON."""
    http = cast("HTTPException", error)
    kind = KINDS.get(http.status_code, "Refused")
    message = str(http.detail)
    if http.status_code == 404:
        message = "there is no such path; /openapi.json lists the paths"
    elif http.status_code == 405:
        message = f"this path takes {(http.headers or {}).get('Allow', 'another method')}"
    return refusal(http.status_code, kind, message, headers=http.headers)


class Gate:
    """The first look at a request: it means this server, comes from no page of another origin, and is not too large.

    Args:
        app: The application behind the gate.
        names: The allowed values of Host and Origin; None if a server before this one checks them.
    """

    def __init__(self, app: ASGIApp, names: OwnNames | None) -> None:
        self._app, self._names = app, names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refused = self._refused(scope)
        if refused is not None:
            if not any(name.lower() == b"expect" for name, _ in scope["headers"]):  # such a client waits for the answer
                await _drain(receive)
            await refused(scope, receive, send)
            return
        left = BODY_BYTES

        async def counted() -> Message:
            nonlocal left
            message = await receive()
            left -= len(message.get("body", b""))
            if left < 0:
                if message.get("more_body", False):
                    await _drain(receive)
                raise HTTPException(413, TOO_LARGE)
            return message

        await self._app(scope, counted, send)

    def _refused(self, scope: Scope) -> Response | None:
        headers = [(name.lower(), value.decode("latin-1")) for name, value in scope["headers"]]
        hosts, origins, lengths = (
            [value for name, value in headers if name == key] for key in (b"host", b"origin", b"content-length")
        )
        if self._names is not None:
            if len(hosts) != 1 or hosts[0].lower() not in self._names.hosts:
                return refusal(
                    421, "WrongHost", f"this server is {' or '.join(self._names.hosts)}, and Host names another"
                )
            if any(origin.lower() not in self._names.origins for origin in origins):
                return refusal(403, "WrongOrigin", "a page of another origin may not call this server")
        if any(not length.isdecimal() or len(length) > 15 or int(length) > BODY_BYTES for length in lengths):
            return refusal(413, KINDS[413], TOO_LARGE, headers={"Connection": "close"})
        return None


async def _drain(receive: Receive) -> None:
    """Read the rest of a body and keep none of it.

    A connection that is closed with bytes unread is reset, and a reset takes the answer from a client that has not read it yet.
    """
    left = DRAINED_BYTES
    while left > 0:
        message = await receive()
        left -= len(message.get("body", b""))
        if message["type"] != "http.request" or not message.get("more_body", False):
            return
