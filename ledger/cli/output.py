"""The output of a command: data on stdout for people or programs, messages and a progress bar on stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ledger.cli.shell_words import with_given_options
from ledger.cli.terminal_text import as_json
from ledger.domain.text import one_line

if TYPE_CHECKING:
    from rich.console import Console


ENDED = {"timeout": "out of time", "cancelled": "stopped"}  # the reasons why a command ended before it was done


class Stopped(Exception):
    """The error for a command that ended early without a mistake, such as a refused confirmation: exit code 1."""


class Usage(Exception):
    """The error for a wrong command line, such as an unknown command or options that exclude each other: exit code 2."""


def show(answer: object, *, json: bool, quiet: bool, brief: bool) -> None:
    """Print an answer; ``brief`` shows a subject on one line, as after a write."""
    if answer is None:
        return
    if json:
        print(as_json(_builtins(answer), ascii_only=not _is_utf8()))
    else:
        _show_to_people(answer, quiet=quiet, brief=brief)
    sys.stdout.flush()


def show_once(answer: object, *, json: bool = False) -> None:
    show(answer, json=json, quiet=False, brief=False)


def _builtins(answer: object) -> object:
    from msgspec import to_builtins

    from ledger.types import Page

    return answer.to_dict() if isinstance(answer, Page) else to_builtins(answer)


def _show_to_people(answer: object, *, quiet: bool, brief: bool) -> None:
    from ledger.cli import views
    from ledger.types import Page

    ids = views.ids(answer) if quiet else None
    if ids is not None:
        print("".join(id + "\n" for id in ids), end="")
        return
    if isinstance(answer, Page | list | tuple) and not answer and type(answer).__name__ not in views.ONE:
        say("nothing found", quiet=quiet)
        return
    if why := getattr(answer, "vectors_failure", ""):
        say(f"vectors: {why}", quiet=quiet)
    if getattr(answer, "failures", 0) > bool(why) and type(answer).__name__ == "JobReport":
        say("`memory-ledger history model-calls` and `memory-ledger history audit` show the failures", quiet=quiet)
    if given_up := getattr(answer, "given_up", 0):
        again = "`memory-ledger session extract NAME` reads them again"
        say(f"{given_up:,} failed three times in a row and wait: {again}", quiet=quiet)
    if why := ENDED.get(getattr(answer, "stopped", "")):
        say(f"{why}: {_continuation(answer)}", quiet=quiet)
    if answer == "":
        say("there is none", quiet=quiet)
        return
    if brief and type(answer).__name__ == "Memory":  # the line of a memory has no room for them
        for warning in getattr(answer, "warnings", ()):
            say(warning, quiet=quiet)
    shown = views.render(answer, brief=brief)
    if isinstance(shown, str):  # rich would wrap the text, which may go to a file
        print(shown, end="")
    else:
        console().print(shown, crop=False)  # a command that is longer than the line is copied as a whole
    if isinstance(answer, Page) and answer.next is not None:
        say(f"there are more: --after {answer.next}, or --all", quiet=quiet)
    if getattr(answer, "replayed", False):
        say("this key had been used for the same command: its first answer, nothing recorded", quiet=quiet)
    elif getattr(answer, "absorbed", False):
        say("known already: nothing new was made of it", quiet=quiet)


def _continuation(answer: object) -> str:
    """Return the way to continue a long command that was stopped."""
    if type(answer).__name__ == "RebuildReport":
        return "the tables are as they were, and the same command begins again"
    if type(answer).__name__ == "ScanReport":
        return f"--since {getattr(answer, 'reached', 0) + 1} goes on from here"
    return "the same command goes on from here"


def console() -> Console:
    """Return a console of rich on standard output, without markup, emoji codes or highlighted numbers."""
    from rich.console import Console

    return Console(file=sys.stdout, markup=False, emoji=False, highlight=False)


def say(message: str, *, quiet: bool = False) -> None:
    if not quiet:
        print(f"memory-ledger: {one_line(with_given_options(message))}", file=sys.stderr)


@contextmanager
def progress_bar(title: str, *, quiet: bool) -> Iterator[Callable[[int, int], None] | None]:
    """Yield a function of (done, total) that moves a bar on stderr, or None if stderr is no terminal."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    bar = Progress(console=Console(stderr=True), transient=True)
    task = bar.add_task(title.replace("_", " "), total=None)

    def step(done: int, total: int) -> None:
        bar.start()  # only at the first call, because the command may ask a question before
        bar.update(task, completed=done, total=total)

    try:
        yield step
    finally:
        bar.stop()


def _is_utf8() -> bool:
    return (getattr(sys.stdout, "encoding", None) or "").lower().replace("-", "") == "utf8"
