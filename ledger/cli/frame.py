"""What the commands of the command line share: options, opening the ledger, showing the answer, saying what failed."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from msgspec.structs import replace

from ledger.cli.terminal_text import as_json
from ledger.domain.errors import LedgerError, NotFoundError, RejectedError
from ledger.domain.harmless import one_line
from ledger.engine.paging import CAP, Behind

if TYPE_CHECKING:
    from ledger.api import Ledger
    from ledger.types import Page, WriteOptions

OK, FAILED, USAGE, NOT_FOUND, REFUSED, BUG, INTERRUPTED, PIPE_CLOSED = 0, 1, 2, 3, 4, 70, 130, 141
STDIN_BYTES = 10 * 1024 * 1024 + 2  # the longest text there is, its newline, and one more to tell that it is too long

# The options are declared here once; ``command`` below puts those of its family into a command's signature.
_OF_EVERY_COMMAND: dict[str, tuple[Any, Any]] = {
    "db": (
        Annotated[
            str | None, typer.Option("--db", metavar="PATH", help="The ledger's file (LEDGER_PATH, or memory.db).")
        ],
        None,
    ),
    "json": (Annotated[bool, typer.Option("--json", help="The answer as JSON, named as in Python.")], False),
    "quiet": (Annotated[bool, typer.Option("--quiet", "-q", help="Ids only where there are ids; no messages.")], False),
    "user": (Annotated[str | None, typer.Option("--user", help="Whose memory (LEDGER_USER).")], None),
}
_OF_WRITES: dict[str, tuple[Any, Any]] = {
    "actor": (Annotated[str | None, typer.Option("--actor", help="Who does it (LEDGER_ACTOR).")], None),
    "key": (Annotated[str | None, typer.Option("--key", help="Makes the command idempotent for this user.")], None),
    "occurred_at": (
        Annotated[str | None, typer.Option("--occurred-at", metavar="TIME", help="When it happened, in ISO 8601.")],
        None,
    ),
    "client": (Annotated[str | None, typer.Option("--client", help="Through which program (cli).")], None),
    "channel": (Annotated[str, typer.Option("--channel", help="user, tool, web, agent or file.")], "user"),
    "agent": (Annotated[str | None, typer.Option("--agent", help="The agent concerned (LEDGER_AGENT).")], None),
    "correlation_id": (
        Annotated[str | None, typer.Option("--correlation-id", help="The run that it belongs to.")],
        None,
    ),
}
WRITES = tuple(_OF_WRITES)
_OF_THE_PAST: dict[str, tuple[Any, Any]] = {
    "as_of": (
        Annotated[
            str | None,
            typer.Option(
                "--as-of", metavar="MOMENT", help="As known then: a position, a time with offset, a date, an event id."
            ),
        ],
        None,
    ),
    "valid": (
        Annotated[
            str | None,
            typer.Option(
                "--valid", metavar="TIME", help="What was true in the world at this time, as known then or now."
            ),
        ],
        None,
    ),
}
Exclusive = Annotated[
    bool, typer.Option("--exclusive", help="More than 50,000 events too; nobody else can write meanwhile.")
]
PAST, BELIEFS = ("as_of",), tuple(_OF_THE_PAST)  # what a read can be asked of: then, or then of a time of the world
_SHARED = "shared_"  # stands before their names inside, for a command may have a ``key`` of its own
_GIVEN_BY_US = ("ledger", "by", "context", "progress")
_SET = ("path", "user", "actor", "client", "agent")  # options that settings stand in for; the path is that of --db
_IN_A_PROJECT = ("capture", "remember", "propose", "ingest", "import_")  # which settings can name
_EMBEDDING = ("recall", "embed")  # what asks a model for vectors


def command(
    app: typer.Typer,
    panel: str,
    *,
    view: str = "line",
    options: tuple[str, ...] = (),
    past: tuple[str, ...] = (),
    writes: bool = False,
    writes_with: str = "",
    creates: bool = False,
    name: str | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Makes a command of a function that asks a ledger and returns the answer.

    A parameter called ``ledger`` is given the open ledger, ``by`` what the caller said about itself, ``context`` the
    shared options as they are (for a command that opens a ledger itself), ``progress`` a function that moves a bar;
    ``embedder`` is a model that the ledger is opened with; all others are the command's own. ``view`` names the function
    for the answer, of ``ledger.cli.showing`` or, after its name and a point, of another module there. ``options`` are of
    ``WRITES``; without any, and without ``writes``, the ledger is opened for reading, and so it is without the argument that
    ``writes_with`` names. ``creates`` begins a ledger where there is none. ``past`` is ``PAST`` or ``BELIEFS`` where the
    ledger may be that of a moment.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        own = _signature(function)
        shared = _OF_EVERY_COMMAND | {each: _OF_WRITES[each] for each in options}
        shared |= {each: _OF_THE_PAST[each] for each in past}

        def run(**given: Any) -> None:
            context = {each: given.pop(_SHARED + each) for each in shared}
            with failing_plainly():
                context = with_settings(context)
                own_options = _with_stdin(given)
                if function.__name__ in _IN_A_PROJECT and own_options["project"] is None and not own_options.get("log"):
                    own_options["project"] = context["settings"].project
                changes = own_options[writes_with] not in (None, False) if writes_with else writes or bool(options)
                answer = _ask(function, own, context, own_options, readonly=not changes, creates=creates)
                show(answer, view, json=context["json"], quiet=context["quiet"])
                if getattr(answer, "ok", True) is False:
                    raise typer.Exit(FAILED)

        run.__doc__, run.__name__ = function.__doc__, function.__name__
        _give_signature(run, own, shared)
        app.command(name or function.__name__.rstrip("_").replace("_", "-"), rich_help_panel=panel)(run)
        return function

    return decorate


_TEXTS = ("content", "prompt", "response", "value", "query")  # one argument of these names may be "-" for stdin


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    """With its annotations resolved, but for those that only a type checker needs."""
    return inspect.signature(function, eval_str=True, locals={"Ledger": Any, "WriteOptions": Any, "Progress": Any})


def _give_signature(run: Any, own: inspect.Signature, shared: dict[str, tuple[Any, Any]]) -> None:
    parameters = [each for each in own.parameters.values() if each.name not in _GIVEN_BY_US]
    for name, (annotation, default) in shared.items():
        kind = inspect.Parameter.KEYWORD_ONLY
        parameters.append(inspect.Parameter(_SHARED + name, kind, default=default, annotation=annotation))
    run.__signature__ = inspect.Signature(parameters)
    run.__annotations__ = {each.name: each.annotation for each in parameters}


# --- the ledger ------------------------------------------------------------------------------------------------------


def _ask(
    function: Callable[..., Any],
    own: inspect.Signature,
    context: dict[str, Any],
    given: dict[str, Any],
    *,
    readonly: bool,
    creates: bool,
) -> Any:
    unseen = context["quiet"] or "progress" not in own.parameters
    with progress_bar(function.__name__.strip("_"), quiet=unseen) as progress:
        if "ledger" not in own.parameters:
            return function(**given, context=context, progress=progress)
        embedder = given.get("embedder")
        if embedder is None and function.__name__ in _EMBEDDING and given.get("model") is None:
            embedder = context["settings"].embedder
        with opened(context, readonly=readonly, creates=creates, embedder=embedder) as ledger:
            ours = {"ledger": _at(ledger, context), "by": by(context), "context": context, "progress": progress}
            return function(**{name: value for name, value in ours.items() if name in own.parameters}, **given)


def _at(ledger: Ledger, context: dict[str, Any]) -> Any:
    """The ledger, or what it was at the moment asked for."""
    moment, valid = context.get("as_of"), context.get("valid")
    if moment is None and valid is None:
        return ledger
    return ledger.at(ledger.position if moment is None else moment, valid_at=valid)


def with_settings(context: dict[str, Any]) -> dict[str, Any]:
    """The shared options, with what settings say where nobody said anything, and these settings next to them."""
    from ledger.engine.settings import Settings

    given = {name: context.get("db" if name == "path" else name) for name in _SET}
    settings = Settings.load(**given)
    filled = {name: getattr(settings, name) for name in _SET if name in context}
    if "client" in filled:
        filled["client"] = filled["client"] or ("cli" if given["client"] is None else "")
    return context | filled | {"db": settings.path, "settings": settings}


@contextmanager
def opened(context: dict[str, Any], *, readonly: bool, creates: bool, embedder: str | None = None) -> Iterator[Ledger]:
    """The ledger, with what the caller said about itself as what its commands fall back on."""
    from ledger.api import Ledger

    path = context["db"]
    if "\0" in path:
        raise RejectedError("a path holds no NUL character")
    if not creates and not os.path.lexists(path):
        raise NotFoundError(f"there is no ledger at {path}; name one with --db or LEDGER_PATH")
    words = {name: context[name] for name in ("user", "actor", "client", "channel", "agent") if name in context}
    unused = {"embedder": None} | ({"model": None} if readonly else {})  # what only asks about memories asks no model
    settings = replace(context["settings"], **unused)
    if words.get("actor") is None:  # a command that says who does it by itself
        settings = replace(settings, actor="")
    with Ledger.open(path, readonly=readonly, create=creates, embedder=embedder, settings=settings, **words) as ledger:
        yield ledger
        if taken := ledger.guards.redactions:
            kinds = ", ".join(f"{count} × {kind}" for kind, count in sorted(taken.items()))
            say(f"taken out before anything was recorded: {kinds}", quiet=bool(context.get("quiet")))


def by(context: dict[str, Any]) -> WriteOptions:
    """What is said of a single command; the rest was said when the ledger was opened."""
    options = {"idempotency_key": "key", "occurred_at": "occurred_at", "correlation_id": "correlation_id"}
    return cast(
        "WriteOptions", {name: context[each] for name, each in options.items() if context.get(each) is not None}
    )


def listed(
    listing: Callable[..., Page[Any]], limit: int | None = None, *, behind: int | str | None = None, **asked: Any
) -> list[Any]:
    """So many of a listing from its beginning, or ``behind`` an item, of as many pages as that takes; all without a limit."""
    after = None if behind is None else Behind(behind)
    page = listing(limit=CAP if limit is None else min(limit, CAP), after=after, **asked)
    return list(islice(page.all(), limit))


def choices(given: Sequence[str]) -> Sequence[str]:
    """What a filter of the library is given for an option whose word for every value is "all"."""
    return () if "all" in given else given


def _with_stdin(given: dict[str, Any]) -> dict[str, Any]:
    """The arguments, and standard input in the place of the one that is "-"."""
    places = [name for name in _TEXTS if given.get(name) == "-"]
    if len(places) > 1:
        raise typer.BadParameter(f"only one text can come from standard input, and {' and '.join(places)} are both -")
    return given | {name: stdin_text().removesuffix("\n").removesuffix("\r") for name in places}


def stdin_text(most: int = STDIN_BYTES) -> str:
    """The text of standard input, at most so many bytes of it."""
    data = sys.stdin.buffer.read(most)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.start < len(data) - 3 or len(data) < most:
            at = f"the byte at {error.start} is 0x{data[error.start]:02x}"
            raise RejectedError(f"standard input is no UTF-8 text: {at}") from None
        text = data[: error.start].decode("utf-8")
    return text


# --- what comes out --------------------------------------------------------------------------------------------------


def show(answer: Any, view: str, *, json: bool, quiet: bool) -> None:
    """Data to stdout; messages about it to stderr."""
    from msgspec import to_builtins

    if json:
        print(as_json(to_builtins(answer), ascii_only=not _is_utf8(sys.stdout)))
    else:
        _show_to_people(answer, view, quiet=quiet)
    sys.stdout.flush()


def _show_to_people(answer: Any, view: str, *, quiet: bool) -> None:
    module, _, name = view.rpartition(".")
    showing = import_module(f"ledger.cli.{module or 'showing'}")
    ids = showing.ids(answer) if quiet else None
    if ids is not None:
        print("".join(each + "\n" for each in ids), end="")
        return
    if answer == [] or answer == ():
        say("nothing found", quiet=quiet)
        return
    shown = getattr(showing, name)(answer)
    if isinstance(shown, str):  # a text for a file of its own, neither wrapped nor cut
        print(shown, end="")
    else:
        console().print(shown)
    if getattr(answer, "replayed", False):
        say("this key had been used for the same command: its first answer, nothing recorded", quiet=quiet)
    elif getattr(answer, "absorbed", False):
        say("known already: nothing new was made of it", quiet=quiet)


def console() -> Any:
    """Standard output for rich: no markup, no emoji codes, no guesses at what is a number."""
    from rich.console import Console

    return Console(file=sys.stdout, markup=False, emoji=False, highlight=False)


def say(message: str, *, quiet: bool = False) -> None:
    if not quiet:
        print(f"memory-ledger: {one_line(message)}", file=sys.stderr)


@contextmanager
def progress_bar(title: str, *, quiet: bool) -> Iterator[Callable[[int, int], None] | None]:
    """A function for (done, of) that moves a bar on stderr; None where nobody would see it. Drawn on the first call."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title.replace("_", " "), total=None, visible=False)
        yield lambda done, of: bar.update(task, completed=done, total=of, visible=True)


def _is_utf8(stream: Any) -> bool:
    return (getattr(stream, "encoding", None) or "").lower().replace("-", "") == "utf8"


# --- what goes wrong -------------------------------------------------------------------------------------------------


@contextmanager
def failing_plainly() -> Iterator[None]:
    """Every failure is one line on stderr and an exit code, never a traceback (but with MEMORY_LEDGER_DEBUG set)."""
    try:
        yield
    except (typer.Exit, typer.Abort, typer.BadParameter):
        raise
    except NotFoundError as error:
        _fail(str(error), NOT_FOUND)
    except LedgerError as error:
        _fail(str(error), REFUSED)
    except KeyboardInterrupt:
        _fail("interrupted", INTERRUPTED)
    except BrokenPipeError:
        _leave_the_pipe()
    except OSError as error:
        _fail(f"{error.strerror or type(error).__name__}{f': {error.filename}' if error.filename else ''}", REFUSED)
    except Exception as error:
        if os.environ.get("MEMORY_LEDGER_DEBUG"):
            raise
        text = f"{type(error).__name__}: {error}"
        _fail(f"this is a mistake in memory-ledger ({text}); MEMORY_LEDGER_DEBUG=1 shows where", BUG)


def _fail(message: str, code: int) -> None:
    say(message)
    raise typer.Exit(code)


def _leave_the_pipe() -> None:
    """Whoever read our output has gone: nothing is left to say, also not when Python flushes at its end."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    raise typer.Exit(PIPE_CLOSED)
