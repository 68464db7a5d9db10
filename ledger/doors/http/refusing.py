"""The answers to what is refused: an error of the ledger, and a wrong request. ``ledger.doors.gate`` refuses by the head alone.

Every body is ``{"error": …, "message": …}``. A body may repeat a word that was sent, such as an id
or a time, and never a token, the text of a memory, a question or a message, or the name of a file of the server.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from fastapi import HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response

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
from ledger.doors.gate import KINDS, refusal
from ledger.doors.outages import is_outage, public_text

UNAVAILABLE = 503  # of errors of the file and the disk, which are no fault of the client
STATUS: Mapping[type[LedgerError], int] = {
    NotFoundError: 404,
    RejectedError: 422,
    ConflictError: 409,
    KeyReusedError: 422,
    ModelError: 502,
}
NOT_AS_SAID = "the request is not as /openapi.json says: "
DETAILS = ("rule", "subject", "limit", "current", "requested", "finding")  # of a ``RejectedError``


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
    """Return the answer for parameters that are not as the schema says: the places and what is wrong, without the values."""
    problems = cast("RequestValidationError", error).errors()
    shown = "; ".join(f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}" for problem in problems[:3])
    return refusal(422, "InvalidRequest", f"{NOT_AS_SAID}{shown}".encode("utf-8", "replace").decode())


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
