"""The commands of the doors: the MCP server, the HTTP server, the page, and the tokens of doors that listen on a network."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Literal

from ledger.cli.calling import ShellCall, opened
from ledger.cli.output import Stopped, Usage, say
from ledger.domain.errors import NotFoundError, RejectedError
from ledger.projects.folders import working_folder


def mcp(
    call: ShellCall,
    *,
    project: str | None = None,
    folder: str | None = None,
    read_only: bool = False,
    reviewer: bool = False,
    http: list[str] | None = None,
    name: Sequence[str] = (),
    without_token: bool = False,
) -> object:
    """Serve the memory to agents over the Model Context Protocol, on standard input and output or over HTTP.

    Args:
        project: Where new memories belong (LEDGER_PROJECT); over stdio the project of the folder if left out, "" for none.
        folder: Over stdio the folder that the agent works in; the working directory, or CLAUDE_PROJECT_DIR, if left out.
        read_only: Offer no tool that writes.
        reviewer: Also offer promote, reject, undo, erase and distrust, each after a question to the person.
        http: Listen on HOST:PORT (127.0.0.1:8765 if left out) for requests with a token, instead of standard input.
        name: With --http: a NAME or NAME:PORT that requests may name as their host, as behind a proxy; may be given again.
        without_token: Serve everybody on this machine as --user; only with --http on a loopback address.
    """
    try:
        from ledger.doors.mcp.serving import serve
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in ("mcp", "mcp_types", "uvicorn", "starlette"):
            raise
        raise RejectedError(
            f'the MCP server needs the package {error.name}: pip install "belief-ledger[mcp]"', rule="extra"
        ) from None
    settings = call.settings
    given = "" if folder is None or folder.startswith("$") else folder  # a client left a variable as it is
    place = "" if http is not None or project == "" else given or working_folder()
    project = settings.project if project is None else project
    with _stopped_if_taken():
        serve(
            settings,
            project=project or None,
            folder=place,
            read_only=read_only,
            reviewer=reviewer,
            http=None if http is None else "".join(http),
            names=name,
            without_token=without_token,
            ready=_listening(call, "/mcp"),
        )
    return None


def serve(call: ShellCall, address: str = "", *, name: Sequence[str] = (), read_only: bool = False) -> object:
    """Serve the memory to programs over HTTP with JSON: each request needs a token (`token make`), which names the user.

    Args:
        address: Listen on HOST:PORT; 127.0.0.1:8766 if left out.
        name: A NAME or NAME:PORT that requests may name as their host, as behind a proxy; may be given again.
        read_only: Offer nothing that writes.
    """
    try:
        from ledger.doors import listening
        from ledger.doors.http.serving import PORT
        from ledger.doors.http.serving import serve as serve_http
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in ("fastapi", "uvicorn", "starlette"):
            raise
        raise RejectedError(str(error), rule="extra") from None
    host, port = listening.address(address, PORT, is_named=bool(name))
    ready = functools.partial(_listening(call, ", with the API at /openapi.json"), host, port)
    with _stopped_if_taken():
        serve_http(call.settings, host=host, port=port, names=name, read_only=read_only, ready=ready)
    return None


def web(
    call: ShellCall, address: str = "", *, write: bool = False, open: bool = False, as_of: str | None = None
) -> object:
    """Show one user's memory in a browser on this machine: what is believed, why, and what an agent would see.

    Args:
        address: Listen on HOST:PORT of this machine; a free port of 127.0.0.1 if left out.
        write: Offer buttons that correct, end, release and undo; without it the page only reads.
        open: Open the browser, which gets the address from a private file.
        as_of: Show the memory as known then: a position, or a time with its offset.
    """
    with _named_if_missing():
        from ledger.web.serving import place
        from ledger.web.serving import serve as serve_page
    host, port = place(address)
    if not os.path.lexists(call.settings.path):
        raise NotFoundError(f"there is no ledger at {call.settings.path}; name one with --db or LEDGER_PATH")

    def ready(link: str) -> None:
        print(link, flush=True)
        say("the address works once; Ctrl-C stops the page", quiet=call.options["quiet"])

    with _stopped_if_taken():
        serve_page(call.settings, host=host, port=port, writes=write, as_of=as_of, opens=open, ready=ready)
    return None


def export_html(
    call: ShellCall,
    path: str,
    page: Literal["beliefs", "belief", "session", "agent", "timeline", "review", "held", "trust"] = "beliefs",
    subject: str = "",
    *,
    as_of: str | None = None,
) -> object:
    """Write a page of `memory-ledger web` as one file of HTML that needs nothing else.

    Args:
        path: A path where nothing exists; the file holds texts of the ledger.
        page: The page; "agent" is the prompt of an agent.
        subject: The id of the belief, the session, the question of the agent, the words of beliefs, or the actor of the timeline.
        as_of: Show the memory as known then: a position, or a time with its offset.
    """
    with _named_if_missing():
        from ledger.web import export_html as exported
    if os.path.lexists(path):
        raise RejectedError(f"the path {path} is taken; name one where nothing exists")
    with opened(call, readonly=True) as ledger:
        text = exported(ledger, page, subject, as_of=as_of)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    return {"path": os.path.abspath(path), "bytes": os.path.getsize(path)}


@contextmanager
def _named_if_missing() -> Iterator[None]:
    """Name the extra of the page if one of its packages is missing."""
    try:
        yield
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in ("starlette", "jinja2", "markupsafe", "uvicorn", "h11"):
            raise
        raise RejectedError(
            f'the page needs the package {error.name}: pip install "belief-ledger[web]"', rule="extra"
        ) from None


@contextmanager
def _stopped_if_taken() -> Iterator[None]:
    """End with exit code 1 if nothing can listen on the address, as if another program does."""
    try:
        yield
    except RejectedError as error:
        if error.rule != "listen":
            raise
        raise Stopped(str(error)) from None


def _listening(call: ShellCall, more: str) -> Callable[[str, int], None]:
    """Return the function that says where a server listens, and first that it made a ledger."""
    path, quiet = call.settings.path, call.options["quiet"]
    is_new = not os.path.lexists(path)

    def say_so(host: str, port: int) -> None:
        from ledger.doors.listening import url

        if is_new:
            say(f"there was no ledger at {path}: a new one was made", quiet=quiet)
        say(f"listening on {url(host, port)}{more}", quiet=quiet)

    return say_so


def token(
    call: ShellCall,
    action: Literal["make", "list", "revoke"],
    name: str | None = None,
    *,
    channel: Literal["agent", "user"] = "agent",
) -> object:
    """Make, list or revoke tokens, which open one user's memory to a program over HTTP.

    Args:
        action: make prints a token for --user once; list shows names and users; revoke ends a token at once.
        name: The name of the token, such as the program that sends it.
        channel: For make: user if the program passes on what the user typed to `memory-ledger serve`; else agent.
    """
    from ledger.doors.tokens import TokenFile

    file = TokenFile(call.settings.path)
    if action == "list":
        if name is not None:
            raise Usage("list takes no name")
        return [
            {"name": info.name, "user": info.user, "channel": info.channel, "made_at": info.made_at}
            for info in file.list()
        ]
    if name is None:
        raise Usage(f"{action} needs the name of a token")
    if action == "revoke":
        revoked = file.revoke(name)
        return {"revoked": revoked.name, "user": revoked.user}
    if not call.settings.names_user:
        raise Usage("make needs the user whose memory the token opens: --user (or LEDGER_USER)")
    made = file.make(name, call.settings.user, channel=channel)
    if not os.path.lexists(path := call.settings.path):
        say(
            f"there is no ledger at {path} yet: a server that is started with this --db makes it",
            quiet=call.options["quiet"],
        )
    return {"name": made.name, "user": made.user, "token": made.token}


DOORS: dict[str, Callable[..., object]] = {
    "mcp": mcp,
    "serve": serve,
    "token": token,
    "web": web,
    "export-html": export_html,
}
