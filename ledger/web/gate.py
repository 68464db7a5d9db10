"""The gate of the page: it lets in one browser, which showed the token once, and no page of another origin.

A web page anywhere can make a browser send requests to a loopback address, and a host name of an attacker can resolve to one. So
the gate wants the exact Host, no foreign Origin, no foreign Sec-Fetch-Site, and a cookie that only the holder of the token has.
"""

from __future__ import annotations

import hmac
import secrets
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs

from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

ENTER = "/enter"  # the path that takes the token
FRONT = "/beliefs"
FORM = "application/x-www-form-urlencoded"
FORM_BYTES = 1024 * 1024
OWN_SITES = ("", "none", "same-origin")  # Sec-Fetch-Site of a typed address and of the page's own links
HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def _secret() -> str:
    return secrets.token_urlsafe(32)


@dataclass
class WebSession:
    """The secrets of one run of the page: the token of the printed address, the cookie that answers it, the mark of forms."""

    token: str | None = field(default_factory=_secret)
    cookie: str = field(default_factory=_secret)
    form_mark: str = field(default_factory=_secret)

    def enter(self, token: str) -> bool:
        """Return True for the token, once."""
        if self.token is None or not hmac.compare_digest(token.encode(), self.token.encode()):
            return False
        self.token = None
        return True

    def is_own_form(self, mark: str) -> bool:
        """Return True if a form was made by this run of the page."""
        return hmac.compare_digest(mark.encode(), self.form_mark.encode())


class PageGate:
    """The gate before the application.

    Args:
        app: The application behind the gate.
        host: The one allowed value of Host, as in "127.0.0.1:8767".
        session: The secrets of this run.
        policy: The Content-Security-Policy of every answer.
    """

    def __init__(self, app: ASGIApp, *, host: str, session: WebSession, policy: str) -> None:
        self._app, self._host, self._session = app, host, session
        self._cookie = f"memory_ledger_{host.rpartition(':')[2]}"  # cookies are shared by the ports of a host
        self._headers = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
        self._headers.append((b"content-security-policy", policy.encode()))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], *self._headers]}
            await send(message)

        answer = self._refused(scope) or self._entered(scope)
        await (answer or self._app)(scope, receive, guarded)

    def _refused(self, scope: Scope) -> Response | None:
        """Return the refusal of a request that is not the page's own, judged by its head."""
        hosts, origins, sites = (_values(scope, name) for name in (b"host", b"origin", b"sec-fetch-site"))
        if hosts != [self._host]:
            return _sentence(421, f"this page is http://{self._host}, and the request names another host")
        if sites == ["same-origin"]:  # said by the browser itself, which then hides the origin as the policy asks
            origins = [origin for origin in origins if origin != "null"]
        if any(origin != f"http://{self._host}" for origin in origins):
            return _sentence(403, "a page of another origin may not use this page")
        if any(site not in OWN_SITES for site in sites) and scope["path"] != ENTER:
            return _sentence(403, "this link stands on another page: copy the address into the address bar instead")
        if scope["method"] not in ("GET", "HEAD", "POST"):
            return _sentence(405, "the page answers GET and POST alone")
        if scope["method"] == "POST":
            return self._refused_form(scope, [*origins, *sites])
        return None

    def _refused_form(self, scope: Scope, senders: list[str]) -> Response | None:
        lengths = _values(scope, b"content-length")
        if not any(sender not in ("", "none") for sender in senders):
            return _sentence(403, "a form needs the header Origin or Sec-Fetch-Site, which every browser sends")
        if _values(scope, b"content-type") != [FORM]:
            return _sentence(415, "a form of this page is expected")
        if len(lengths) != 1 or not lengths[0].isdecimal() or len(lengths[0]) > 9 or int(lengths[0]) > FORM_BYTES:
            return _sentence(413, f"a form has at most {FORM_BYTES:,} bytes")
        return None

    def _entered(self, scope: Scope) -> Response | None:
        """Return the answer to the token, or the refusal of a request without the cookie; None for the browser that is in."""
        if scope["path"] == ENTER and scope["method"] == "GET" and not _values(scope, b"sec-purpose"):
            query = parse_qs(scope["query_string"].decode("latin-1"))
            if self._session.enter(query.get("token", [""])[0]):
                return self._welcome(foreign=not set(_values(scope, b"sec-fetch-site")) <= set(OWN_SITES))
        elif hmac.compare_digest(self._sent(scope).encode(), self._session.cookie.encode()):
            return None
        return _sentence(403, "the address works once, in one browser; the command that printed it prints a new one")

    def _welcome(self, *, foreign: bool) -> Response:
        """Return the redirect that drops the token.

        A browser that came from a file sends no strict cookie along a redirect, so the page itself then goes on.
        """
        headers = {"Refresh": f"0; url={FRONT}"} if foreign else {"Location": FRONT}
        answer = Response(status_code=200 if foreign else 303, headers=headers)
        answer.set_cookie(self._cookie, self._session.cookie, path="/", httponly=True, samesite="strict")
        return answer

    def _sent(self, scope: Scope) -> str:
        try:
            cookies = SimpleCookie("; ".join(_values(scope, b"cookie")))
        except CookieError:
            return ""
        return cookies[self._cookie].value if self._cookie in cookies else ""


def _values(scope: Scope, name: bytes) -> list[str]:
    return [value.decode("latin-1").strip() for key, value in scope["headers"] if key.lower() == name]


def _sentence(status: int, text: str) -> Response:
    return PlainTextResponse(text + "\n", status, {"Connection": "close"} if status == 413 else None)
