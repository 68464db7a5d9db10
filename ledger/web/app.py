"""The application: one table of pages, and the four forms that each page has."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import msgspec
from jinja2 import Environment
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from ledger import ConflictError, Ledger, LedgerError, NotFoundError, Page, RejectedError
from ledger.core.shell import with_options
from ledger.web.acts import do, form_of, needs_preview, preview, told_of
from ledger.web.asking import Desk, Listing, WebQuestion, WebView, pairs_of
from ledger.web.beliefs import belief, beliefs
from ledger.web.gate import FRONT, PageGate, WebSession
from ledger.web.looking import agent, held, review, session, sessions
from ledger.web.rendering import POLICY, environment, markdown
from ledger.web.told import timeline, trust

FORMS = {  # of a page: the end of its address, and the type of the answer
    "json": "application/json",
    "jsonl": "application/jsonl; charset=utf-8",
    "md": "text/markdown; charset=utf-8",
}
_logger = logging.getLogger("ledger")


@dataclass(frozen=True)
class WebPage:
    """A page: its function, its name in the list of pages, and the filters that it shares with other pages.

    The name is "" for a page about one subject, whose id ends the address.
    """

    view: Callable[[WebQuestion], WebView]
    label: str = ""
    shared: tuple[str, ...] = ()


PAGES = {
    "beliefs": WebPage(beliefs, "Beliefs", ("project", "session", "actor", "channel")),
    "belief": WebPage(belief),
    "agent": WebPage(agent, "What the agent would see", ("project",)),
    "review": WebPage(review, "Review", ("project",)),
    "held": WebPage(held, "Held"),
    "timeline": WebPage(timeline, "Timeline", ("project", "session", "actor", "channel")),
    "trust": WebPage(trust, "Trust"),
    "sessions": WebPage(sessions, "Sessions"),
    "session": WebPage(session),
}
DO = "/do"  # takes every form


class PageApp:
    """The pages as an ASGI application over an open ledger, without the gate.

    Args:
        desk: What the page is about.
    """

    def __init__(self, desk: Desk) -> None:
        self._desk, self._templates = desk, environment()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        body = await request.body()
        answer = await run_in_threadpool(self._answer, request, body)
        await answer(scope, receive, send)

    def _answer(self, request: Request, body: bytes) -> Response:
        try:
            if request.method == "POST" and request.url.path == DO:
                return self._done(body)
            return self._page(request)
        except LedgerError as error:
            kinds = ((NotFoundError, 404), (ConflictError, 409), (RejectedError, 400))
            status = next((status for kind, status in kinds if isinstance(error, kind)), 500)
            return self._failed(request, status, with_options(str(error), self._desk.options))
        except Exception:
            _logger.exception("a page failed")
            return self._failed(request, 500, "this is a mistake in memory-ledger; the terminal shows it")

    def _page(self, request: Request) -> Response:
        path = request.url.path
        if path == "/":
            return RedirectResponse(FRONT, 303)
        if path == "/favicon.ico":
            return Response(status_code=204)
        name, _, subject = path.strip("/").partition("/")
        place, dot, form = (subject or name).rpartition(".")
        if not dot or form not in FORMS:
            place, form = subject or name, ""
        name, subject = (name, place) if subject else (place, "")
        page = PAGES.get(name)
        if page is None or bool(subject) == bool(page.label) or request.method == "POST":
            raise NotFoundError(f"there is no page {path!r:.60}")
        asked = WebQuestion(
            self._desk, f"/{name}/{subject}" if subject else f"/{name}", pairs_of(request.url.query), subject
        )
        view = page.view(asked)
        if not form:
            return self._html(view, asked)
        headers = {"Content-Disposition": f'attachment; filename="{name}.{form}"'} if form == "jsonl" else None
        body = _exported(view, form)
        if isinstance(body, bytes):
            return Response(body, headers=headers, media_type=FORMS[form])
        return StreamingResponse(body, headers=headers, media_type=FORMS[form])

    def _done(self, body: bytes) -> Response:
        """Do what a form asks for, or show what it would do."""
        form = form_of(self._desk, body)
        if needs_preview(form):
            asked = WebQuestion(self._desk, DO, ())
            return self._html(preview(asked, form), asked)
        return RedirectResponse(do(self._desk, form), 303)

    def _html(self, view: WebView, asked: WebQuestion) -> Response:
        text = html_of(self._templates, view, asked)
        return Response(text.encode("utf-8", "replace"), view.status, media_type="text/html; charset=utf-8")

    def _failed(self, request: Request, status: int, message: str) -> Response:
        if request.url.path.rpartition(".")[2] in FORMS:
            return PlainTextResponse(message + "\n", status)
        asked = WebQuestion(self._desk, request.url.path, ())
        return self._html(WebView("failed.html", "This did not work", "", {"message": message}, status=status), asked)


def html_of(templates: Environment, view: WebView, asked: WebQuestion) -> str:
    """Return a page as HTML."""
    labels = [
        (f"/{name}", asked.to(f"/{name}", *page.shared), page.label) for name, page in PAGES.items() if page.label
    ]
    done = told_of(asked.desk, asked.done) if asked.done else None
    template = templates.get_template(view.template)
    return template.render(view=view, asked=asked, desk=asked.desk, pages=labels, done=done, **view.data)


def _exported(view: WebView, form: str) -> bytes | Iterator[bytes]:
    """Return a page in another form; "jsonl" and "md" of a listing have every row that the filters select."""
    listing: Listing[object] | None = view.listing
    if form == "json" or (form == "jsonl" and listing is None):
        return _encoder.encode(view.data.get("plain", view.plain)) + b"\n"
    if listing is None:
        return view.markdown.encode("utf-8", "replace")
    head = f"# {view.title}\n\n{markdown(view.scope)}\n\n" if form == "md" else ""
    return _rows(listing, form, head)


def _rows(listing: Listing[object], form: str, head: str) -> Iterator[bytes]:
    yield head.encode("utf-8", "replace")
    for row in listing.every():
        if form == "jsonl":
            yield _encoder.encode(listing.plain(row)) + b"\n"
        else:
            yield (listing.line(row) + "\n").encode("utf-8", "replace")


def _of_page(value: object) -> object:
    """Return what JSON has for a page of answers and a set: a list."""
    if isinstance(value, Page | set | frozenset):
        return list(value)
    raise NotImplementedError(f"{type(value).__name__} is no data of a page")


_encoder = msgspec.json.Encoder(enc_hook=_of_page)


def make_app(
    ledger: Ledger,
    *,
    host: str,
    user: str,
    session: WebSession,
    writes: bool = False,
    as_of: str | None = None,
    options: Mapping[str, str] | None = None,
) -> ASGIApp:
    """Return the page behind its gate, over an open ledger that the caller closes.

    Args:
        ledger: The open ledger, bound to the user.
        host: The value of Host of every request, as in "127.0.0.1:8767".
        user: The user whose memory is shown.
        session: The secrets of this run; its token opens the page once.
        writes: Offer buttons that change the ledger.
        as_of: The moment that every page shows; None for now, and for the moment that an address names.
        options: The options that the page's commands to run next need to reach the same ledger and user.
    """
    others = any(name != user and _has_memory(ledger, name) for name in ledger.maintenance.users(limit=3))
    desk = Desk(ledger, session, user, writes and as_of is None, as_of, others, options or {})
    if as_of is not None:
        WebQuestion(desk, "/", ())  # a moment that does not exist is refused before anybody listens
    return PageGate(PageApp(desk), host=host, session=session, policy=POLICY)


def _has_memory(ledger: Ledger, user: str) -> bool:
    """Return False for the user without a name to whom only events of the file itself belong, such as its beginning."""
    return bool(user) or any(entry.subject != "ledger" for entry in ledger.bind(user=user).history.audit(limit=10))
