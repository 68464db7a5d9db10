"""The call of a method of the library by a shell: settings, the open ledger, texts from files, and the call itself."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from ledger.cli.methods import OF_A_SESSION, Method, options_type
from ledger.cli.output import Usage, progress_bar, say
from ledger.cli.shell_words import next_command
from ledger.cli.transcripts import messages_of
from ledger.domain.errors import NotFoundError, RejectedError

if TYPE_CHECKING:
    from ledger.answers import Stats
    from ledger.api import Ledger, PastLedger
    from ledger.core.settings import Settings

STDIN_BYTES = (
    10 * 1024 * 1024 + 2
)  # the longest text allowed, its newline, and one byte that shows that a text is longer
MARK = "\0"  # is set before a word that the parser would take for an option
STDIN = MARK + "-"
FILE_BYTES = 256 * 1024 * 1024
BOUND = ("user", "actor", "client", "channel", "agent")  # are set when the ledger is opened
TEXTS = (
    "content",
    "prompt",
    "response",
    "summary",
    "text",
    "value",
    "question",
    "sql",
    "answer",
)  # "-" means standard input
TRANSCRIPTS = ("transcript", "messages")  # parameters that take a file of messages
_IN_A_PROJECT = {  # commands whose project is that of the settings or the folder, unless --project names one
    ("", "add"),
    ("", "capture"),
    ("", "remember"),
    ("", "propose"),
    ("documents", "add"),
    ("interactions", "import_file"),
}
# The namespaces that list things of the file and not of a user.
_OF_EVERYBODY = ("erasures", "maintenance", "vectors", "jobs", "proof", "projections")
OTHERS = 20  # the most users that a hint names
Progress = Callable[[int, int], None]


@dataclass
class ShellCall:
    """A call that a command line describes: a method, its ``parameters``, and the ``options`` that many commands share.

    Shared options are ``--db``, ``--json``, ``--as-of`` and others.
    """

    method: Method
    parameters: dict[str, Any]
    options: dict[str, Any]

    @property
    def settings(self) -> Settings:
        from ledger.core.settings import Settings

        path = self.options.get("db")
        names = {name: self.options.get(name) for name in ("user", "actor", "client", "agent")}
        return Settings.load(path=None if path is None else os.path.expanduser(path), **names)

    @property
    def arguments(self) -> dict[str, Any]:
        """Return the arguments of the method, the options of a write included."""
        from ledger.types import WriteOptions

        names = WriteOptions.__annotations__.keys() - set(BOUND)
        write_options = {name: value for name, value in self.options.items() if name in names and value is not None}
        own = {name: value for name, value in self.parameters.items() if name not in ("session_name", "new_in")}
        if self.method.options == "PolicyChanges":
            own = {name: value for name, value in own.items() if value is not None}
            if not own.keys() - {"reason"}:
                raise Usage("name at least one parameter of the policy")
        return {name: _value(name, value) for name, value in read_texts(own).items()} | write_options


def _value(name: str, value: Any) -> Any:
    """Return the value that the method takes for a value of the command line."""
    if isinstance(value, Path):
        if name in TRANSCRIPTS:
            return transcript(value)
        return value.expanduser()
    if name == "statuses" and "all" in value:
        return ()
    if name == "over" and value in (["memories"], ["interactions"], ["messages"]):
        return value[0]
    return value


def invoke(call: ShellCall, ledger: Ledger, arguments: Mapping[str, Any], progress: Progress | None = None) -> object:
    method: Any = getattr(_object(call, ledger), call.method.name)
    if "cancel" in call.method.names:
        with stopped_by_signals() as stop:
            return method(**arguments, cancel=stop, **progress_of(call, progress))
    answer: Any = method(**arguments, **progress_of(call, progress)) if callable(method) else method
    if call.options.get("all_pages"):
        return list(answer.all())
    return answer


@contextmanager
def stopped_by_signals() -> Iterator[threading.Event]:
    """Yield an event that SIGINT and SIGTERM set, so that the call can end after its current part; a second signal interrupts."""
    stop = threading.Event()

    def handle(number: int, frame: object) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()
        print("memory-ledger: stopping after what is under way", file=sys.stderr, flush=True)

    if threading.current_thread() is not threading.main_thread():
        yield stop  # Python lets only the main thread set signal handlers
        return
    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def call_by_hand(function: Callable[..., object], call: ShellCall, values: Mapping[str, object]) -> object:
    """Call a command written by hand with the values of its parameters, as its options object where it takes one."""
    kind = options_type(function)
    if kind is None:
        return function(call, **values)
    options = {name: value for name, value in values.items() if name in kind.__struct_fields__}
    others = {name: value for name, value in values.items() if name not in options}
    return function(call, options=kind(**options), **others)


def progress_of(call: ShellCall, progress: Progress | None) -> dict[str, Progress | None]:
    return {"progress": progress} if call.method.progresses else {}


def ledger_as_of(call: ShellCall, ledger: Ledger) -> Ledger | PastLedger:
    """Return the ledger as of the moment that --as-of and --valid-at name, or the present ledger."""
    moment, valid = call.options.get("as_of"), call.options.get("valid_at")
    return ledger if moment is None and valid is None else ledger.at(moment or ledger.position, valid_at=valid)


def _object(call: ShellCall, ledger: Ledger) -> object:
    """Return the object that has the method: the ledger, a namespace or a session, now or as of a moment."""
    view: Any = ledger_as_of(call, ledger)
    area = call.method.area
    if area not in OF_A_SESSION:
        return getattr(view, area) if area else view
    session = view.session(call.parameters["session_name"], project=call.parameters["new_in"])
    if session.id is None and not call.method.creates:
        name = call.parameters["session_name"]
        raise NotFoundError(
            f"no session of this user is called {name!r:.60}; `memory-ledger sessions list` shows the sessions"
        )
    return session.summaries if area == "summaries" else session


@contextmanager
def opened(call: ShellCall, *, readonly: bool | None = None) -> Iterator[Ledger]:
    """Yield the ledger, opened with the user, actor, client and agent of the call."""
    from ledger.api import Ledger

    settings, method = call.settings, call.method
    if "\0" in settings.path:
        raise RejectedError("a path must not contain a NUL character, and the path of this ledger does")
    if not method.creates and not os.path.lexists(settings.path):
        raise NotFoundError(f"there is no ledger at {settings.path}; name one with --db or LEDGER_PATH")
    bound = {name: getattr(settings, name) for name in ("agent", "actor")}
    bound["client"] = "cli" if not settings.client else settings.client
    if channel := call.options.get("channel"):
        bound["channel"] = channel
    if readonly is None:
        readonly = not (method.writes or call.parameters.get("receipt"))
    jobs = call.parameters.get("jobs")
    embeds = method.area == "vectors" or (method.area == "jobs" and (not jobs or "vectors" in jobs))
    unused = {} if embeds or method.key in (("", "recall"), ("", "context")) else {"embedder": None}
    unused |= {"model": None, "model_command": None} if readonly else {}  # a command that only reads calls no model
    with progress_bar("fold", quiet=bool(call.options.get("quiet"))) as bar:
        opened = Ledger.open(
            settings.path,
            readonly=readonly,
            create="if_used" if method.creates else False,
            settings=replace(settings, **unused),
            progress=bar,
            **bound,
        )
    with opened as ledger:
        if method.key in _IN_A_PROJECT and call.parameters.get("project") is None:
            call.parameters["project"] = settings.project or _linked_project(call, ledger)
        yield ledger
        if not readonly and not method.warns and (redactions := ledger.guards.redactions):
            kinds = ", ".join(f"{count} × {kind}" for kind, count in sorted(redactions.items()))
            say(f"taken out before anything was recorded: {kinds}", quiet=bool(call.options.get("quiet")))


def _linked_project(call: ShellCall, ledger: Ledger) -> str | None:
    """Return the project that the working directory is linked with; None for a folder that no agent and no person linked.

    Raises:
        RejectedError: The memory is off in the folder.
    """
    here = ledger.projects.of()
    for ignored in here.ignored:
        say(ignored, quiet=bool(call.options.get("quiet")))
    if here.off:
        raise RejectedError(
            f"the memory is off in {here.root} ({'.memory-ledger.toml' if here.off == 'file' else 'policy'}): name a project"
            ' by --project, or "" for none',
            rule="off",
        )
    return here.project if here.linked else None


def hint_at_others(call: ShellCall, ledger: Ledger, answer: object) -> None:
    """Name other users of this file on stderr, if a read found nothing and this user has nothing; at most 20 users."""
    from ledger.answers import Stats
    from ledger.recall.packs import Pack
    from ledger.types import Page

    if isinstance(answer, Stats):
        contents, is_empty = "memories or turns", not _has_contents(answer)
    else:
        is_read = isinstance(answer, Pack | Page | list | tuple) and not call.method.writes
        items: object = answer.items if isinstance(answer, Pack) else answer
        contents, is_empty = "memories", is_read and call.method.area not in _OF_EVERYBODY and not items
    if not is_empty:
        return
    user, users = call.settings.user, ledger.maintenance.users(limit=OTHERS)
    stats = {name: ledger.bind(user=name).maintenance.stats() for name in (user, *users)}
    with_contents = [
        name for name in stats if (_has_contents(stats[name]) if contents != "memories" else stats[name].memories)
    ]
    if with_contents and user not in with_contents:
        names = ", ".join(map(repr, with_contents))
        say(f"nothing for user {user!r}; this file has {contents} of: {names} (--user)", quiet=call.options["quiet"])


def _has_contents(stats: Stats) -> bool:
    return bool(stats.memories or stats.interactions or stats.documents or stats.messages or stats.values)


# --- texts from standard input and files ------------------------------------------------------------------------------


def read_texts(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments, with the text of standard input in place of a "-"."""
    names = [name for name in TEXTS if arguments.get(name) == STDIN]
    if len(names) > 1:
        raise Usage(f"only one text can be - (standard input), and {' and '.join(names)} are")
    return arguments | {name: stdin_text().removesuffix("\n").removesuffix("\r") for name in names}


def stdin_text(most: int = STDIN_BYTES) -> str:
    """Return at most ``most`` bytes of standard input as text, without a byte order mark."""
    return exact_stdin(most).removeprefix("\ufeff")


def exact_stdin(most: int = STDIN_BYTES) -> str:
    """Return at most ``most`` bytes of standard input as text, with a byte order mark if there is one."""
    data = sys.stdin.buffer.read(most)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.start < len(data) - 3 or len(data) < most:
            at = f"the byte at {error.start} is 0x{data[error.start]:02x}"
            raise RejectedError(f"standard input is not UTF-8 text: {at}") from None
        text = data[: error.start].decode("utf-8")
    return text


def file_text(path: Path, most: int = FILE_BYTES + 1) -> str:
    """Return the text of a file, or of standard input for "-", without a byte order mark."""
    if str(path) == STDIN:
        return stdin_text(most)
    try:
        with path.expanduser().open(encoding="utf-8-sig") as file:
            return file.read(most)
    except FileNotFoundError:
        raise NotFoundError(f"there is no file {path}") from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise RejectedError(f"{path} cannot be read: {why}") from None


def transcript(path: Path) -> list[object]:
    """Return the messages of a file or of standard input."""
    try:
        name, text = "standard input" if str(path) == STDIN else str(path), file_text(path)
    except NotFoundError as error:
        raise NotFoundError(
            f"{error}; a text goes in on standard input: echo 'user: I prefer tea.' | {next_command('add -')}"
        ) from None
    if len(text) > FILE_BYTES:
        raise RejectedError(f"{name} is too long; at most {FILE_BYTES:,} characters are allowed", rule="size")
    return messages_of(text, name)


def marked(words: Iterable[str]) -> list[str]:
    """Return words with a mark before each text that begins like an option: a lone hyphen, or a word with a blank in it."""
    return [MARK + word if _is_text(word) else word for word in words]


def _is_text(word: str) -> bool:
    return word == "-" or (word.startswith("-") and any(map(str.isspace, word)) and "=" not in word.split()[0])


def unmarked(value: object) -> object:
    """Return a value without the marks; ``STDIN`` keeps its own."""
    if isinstance(value, list):
        return [unmarked(item) for item in value]
    return value[len(MARK) :] if isinstance(value, str) and value.startswith(MARK) and value != STDIN else value
