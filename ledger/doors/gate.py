"""The first look at a request over HTTP, at its head alone: it means this server, it may be answered, and it is not too large.

Every refusal is JSON: ``{"error": …, "message": …}``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ledger import LedgerError
from ledger.doors.listening import OwnNames
from ledger.doors.tokens import TokenFile, TokenInfo

BODY_BYTES = 4 * 1024 * 1024
BODIES_BYTES = 16 * BODY_BYTES  # of all bodies that are under way at a time
TOO_LARGE = f"a body has at most {BODY_BYTES:,} bytes"
TWO_LENGTHS = "Content-Length and Transfer-Encoding together say two ends of one body: send one of them"
BEARER = "Bearer "
KINDS = {
    400: "InvalidRequest",
    401: "NoToken",
    404: "NotFound",
    405: "WrongMethod",
    403: "NotAllowed",
    413: "TooLarge",
    422: "InvalidRequest",
    503: "Unavailable",
}


def refusal(
    status: int, error: str, message: str, *, headers: Mapping[str, str] | None = None, **more: object
) -> Response:
    """Return the answer to a request that is refused."""
    body = msgspec.json.encode({"error": error, "message": message, **more})
    return Response(body, status, headers, media_type="application/json")


class Gate:
    """The gate before an application: who passes has a token, and ``scope["state"]`` then has it under "token".

    A refusal does not wait for the body, so the web server decides how much of the body it still takes.

    Args:
        app: The application behind the gate.
        names: The allowed values of Host and Origin; None if a server before or behind this one checks them.
        tokens: The tokens that are accepted; None if the application needs none.
        is_open: Returns True for a path that needs no token.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        names: OwnNames | None,
        tokens: TokenFile | None,
        is_open: Callable[[str], bool] = lambda path: False,
    ) -> None:
        self._app, self._names, self._tokens, self._is_open = app, names, tokens, is_open
        self._held = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refused = self._refused(scope)
        if refused is not None:
            if any(name.lower() in (b"content-length", b"transfer-encoding") for name, _ in scope["headers"]):
                refused.headers["Connection"] = "close"  # since the web server may not read the whole body
            await refused(scope, receive, send)
            return
        taken = 0

        async def counted() -> Message:
            nonlocal taken
            message = await receive()
            size = len(message.get("body", b""))
            taken, self._held = taken + size, self._held + size
            if taken > BODY_BYTES:
                raise HTTPException(413, TOO_LARGE, {"Connection": "close"})
            if self._held > BODIES_BYTES:
                raise HTTPException(
                    503, "too many bodies are under way; try again later", {"Retry-After": "1", "Connection": "close"}
                )
            return message

        try:
            await self._app(scope, counted, send)
        except ClientDisconnect:
            pass  # the client left in the middle of its body, and nobody waits for an answer
        except HTTPException as error:  # an application without answers to such errors
            kind = KINDS.get(error.status_code, "Refused")
            await refusal(error.status_code, kind, str(error.detail), headers=error.headers)(scope, receive, send)
        finally:
            self._held -= taken

    def _refused(self, scope: Scope) -> Response | None:
        """Return the refusal of a request, judged by its head; None if it passes."""
        headers = [(name.lower(), value.decode("latin-1")) for name, value in scope["headers"]]
        hosts, origins, lengths, encodings = (
            [value for name, value in headers if name == key]
            for key in (b"host", b"origin", b"content-length", b"transfer-encoding")
        )
        if lengths and encodings:  # a proxy may have seen another end, so what follows is nobody's request
            return refusal(400, KINDS[400], TWO_LENGTHS)
        if self._names is not None:
            if len(hosts) != 1 or hosts[0].lower() not in self._names.hosts:
                named = " or ".join(self._names.hosts)
                return refusal(421, "WrongHost", f"this server is {named}, and Host names another")
            if any(origin.lower() not in self._names.origins for origin in origins):
                return refusal(403, "WrongOrigin", "a page of another origin may not call this server")
        if self._tokens is not None and not self._is_open(scope["path"]):
            sent = next((value for name, value in headers if name == b"authorization"), "")
            try:
                token = token_of(self._tokens, sent)
            except (LedgerError, OSError):  # the message would name files of the server
                advice = "the server cannot read its tokens; `memory-ledger token list` says why to its operator"
                return refusal(503, KINDS[503], advice)
            if token is None:
                message = "this server needs a bearer token that is not revoked"
                return refusal(401, KINDS[401], message, headers={"WWW-Authenticate": "Bearer"})
            scope.setdefault("state", {})["token"] = token
        if any(not length.isdecimal() or len(length) > 15 or int(length) > BODY_BYTES for length in lengths):
            return refusal(413, KINDS[413], TOO_LARGE)
        return None


def token_of(tokens: TokenFile, authorization: str) -> TokenInfo | None:
    """Return the token that a header Authorization holds, or None.

    Raises:
        LedgerError: The tokens cannot be read.
        OSError: The tokens cannot be read.
    """
    held = authorization[: len(BEARER)].lower() == BEARER.lower()
    return tokens.check(authorization[len(BEARER) :].strip()) if held else None
