"""The page at work: the ledger is opened, the page listens on a loopback address, and its address is printed once."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import webbrowser
from collections.abc import Callable
from html import escape
from pathlib import Path

from ledger import Ledger, RejectedError, Settings
from ledger.core.settings import ARGUMENT
from ledger.core.shell import shell_options
from ledger.doors.listening import address, closing_all, is_loopback, listen, url
from ledger.doors.web_server import WebServer
from ledger.web.app import make_app
from ledger.web.gate import ENTER, WebSession


def place(text: str) -> tuple[str, int]:
    """Return the host and the port of an address; the port is 0, any free one, if the address names none.

    Raises:
        RejectedError: The text is no address, or not a loopback address.
    """
    port = 8767
    host, number = address(text, port)
    if not is_loopback(host):
        raise RejectedError(f"the page is for this machine alone, and {host} is no loopback address; 127.0.0.1 is one")
    is_named = text.isdigit() or (":" in text and not text.endswith("]"))
    return host, number if is_named else 0


def serve(
    settings: Settings,
    *,
    host: str,
    port: int,
    writes: bool = False,
    as_of: str | None = None,
    opens: bool = False,
    ready: Callable[[str], None],
) -> None:
    """Open the ledger and show it until SIGINT or SIGTERM.

    Args:
        settings: The path, the user, and all else that a ledger is opened with.
        host: The loopback host to listen on.
        port: The port, or 0 for any free one.
        writes: Offer buttons that change the ledger.
        as_of: The moment to show; None for now.
        opens: Open the browser.
        ready: Called with the address, which works once, when the page listens.

    Raises:
        RejectedError: Nothing can listen there (rule ``listen``).
        NotFoundError: There is no ledger.
    """
    sockets = listen(host, port)[:1]
    with closing_all(sockets):
        port = sockets[0].getsockname()[1]
        home = url(host, port)
        session = WebSession()
        link = f"{home}{ENTER}?token={session.token}"
        opened = Ledger.open(
            settings.path,
            settings=settings,
            readonly=not writes,
            create=False,
            actor=settings.actor or "web",
            client=settings.client or "web",
        )
        with opened as ledger:
            app = make_app(
                ledger,
                host=home.removeprefix("http://"),
                user=settings.user,
                session=session,
                writes=writes,
                as_of=as_of,
                options=options_given(settings),
            )
            door = Handover(link) if opens else None

            def listening() -> None:
                ready(link)
                if door is not None:
                    door.open()

            try:
                asyncio.run(WebServer(app, ready=listening).serve(sockets))
            finally:
                if door is not None:
                    door.remove()


def options_given(settings: Settings) -> dict[str, str]:
    """Return the options of the command that started the page: the ledger and the user, if they were named."""
    db, user = (
        str(getattr(settings, name)) if settings.origins.get(name) == ARGUMENT else None for name in ("path", "user")
    )
    return shell_options(db, user)


class Handover:
    """A private file that leads the browser to the address, since others can list the arguments of a program.

    Args:
        link: The address with its token.
    """

    def __init__(self, link: str) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="memory-ledger-web-"))  # which only its owner may enter
        self.file: Path = self._folder / "open.html"
        descriptor = os.open(self.file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(
                f'<!doctype html><meta http-equiv="refresh" content="0;url={escape(link)}"><title>memory-ledger</title>'
            )

    def open(self) -> None:
        """Open the file in the browser of the person."""
        webbrowser.open(self.file.as_uri())

    def remove(self) -> None:
        """Remove the file."""
        shutil.rmtree(self._folder, ignore_errors=True)
