"""A browser for tests of the page, without a network: it sends requests to the application as a server would, with cookies."""

from __future__ import annotations

import asyncio
import json
import re
from html import unescape
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

from ledger import Ledger
from ledger.web.app import make_app
from ledger.web.gate import WebSession

HOST = "127.0.0.1:8767"


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def words(self) -> str:
        """Return the text that a person reads: without tags, styles and scripts, and with single blanks."""
        shown = re.sub(r"<(style|script)>.*?</\1>|<[^>]*>", " ", self.text, flags=re.S)
        return " ".join(unescape(shown).split())

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Browser:
    """A browser over an open ledger; ``enter`` shows the token, and every later request has the cookie."""

    def __init__(self, ledger: Ledger, *, user: str = "", writes: bool = False, as_of: str | None = None) -> None:
        self.session = WebSession()
        self.app = make_app(ledger, host=HOST, user=user, session=self.session, writes=writes, as_of=as_of)
        self.cookie = ""

    def enter(self) -> Browser:
        answer = self.get(f"/enter?token={self.session.token}")
        assert answer.status == 303, answer
        self.cookie = answer.headers["set-cookie"].partition(";")[0]
        return self

    def get(self, address: str, **headers: str) -> Answer:
        return self.send("GET", address, b"", headers)

    def post(self, address: str, fields: Any, **headers: str) -> Answer:
        """Send a form as a browser does from the page itself."""
        own = {"origin": f"http://{HOST}", "sec_fetch_site": "same-origin"}
        pairs = list(fields.items()) if isinstance(fields, dict) else list(fields)
        if not any(name == "mark" for name, _ in pairs):
            pairs.append(("mark", self.session.form_mark))
        return self.send("POST", address, urlencode(pairs).encode(), own | headers)

    def send(self, method: str, address: str, body: bytes, headers: dict[str, str]) -> Answer:
        place = urlsplit(address)
        given = {"host": HOST, "cookie": self.cookie}
        if method == "POST":
            given |= {"content_type": "application/x-www-form-urlencoded", "content_length": str(len(body))}
        given |= headers
        scope = {
            "type": "http",
            "method": method,
            "scheme": "http",
            "path": place.path,
            "raw_path": place.path.encode(),
            "query_string": place.query.encode(),
            "headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in given.items() if value],
            "server": ("127.0.0.1", 8767),
        }
        sent: list[Any] = []

        waiting = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> dict[str, Any]:
            if not waiting:
                await asyncio.Event().wait()  # the browser stays
            return waiting.pop()

        async def send(message: Any) -> None:
            sent.append(message)

        asyncio.run(self.app(scope, receive, send))
        told = {name.decode().lower(): value.decode() for name, value in sent[0]["headers"]}
        return Answer(sent[0]["status"], told, b"".join(message.get("body", b"") for message in sent[1:]))
