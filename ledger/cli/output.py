"""What a command prints: data to stdout, as people or programs read it, messages to stderr, and a bar for long work."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ledger.cli.terminal_text import as_json
from ledger.domain.harmless import one_line

if TYPE_CHECKING:
    from rich.console import Console


ENDED = {"timeout": "out of time", "cancelled": "stopped"}  # why a long command ended before it was done


class Stopped(Exception):
    """A command that ended before it was done, and not by a mistake: exit code 1."""


class Usage(Exception):
    """Words that are no command, or options that do not go together: exit code 2."""


def show(answer: object, *, json: bool, quiet: bool, brief: bool) -> None:
    """An answer; ``brief`` is a subject on one line, as after a write."""
    if answer is None:
        return
    if json:
        print(as_json(_plain(answer), ascii_only=not _is_utf8()))
    else:
        _show_to_people(answer, quiet=quiet, brief=brief)
    sys.stdout.flush()


def show_once(answer: object, *, json: bool = False) -> None:
    show(answer, json=json, quiet=False, brief=False)


def _plain(answer: object) -> object:
    from msgspec import to_builtins

    from ledger.types import Page

    if isinstance(answer, Page):
        more = {name: getattr(answer, name) for name in type(answer).__slots__ if not name.startswith("_")}
        return {"items": to_builtins(list(answer)), "next": answer.next, **more}
    return to_builtins(answer)


def _show_to_people(answer: object, *, quiet: bool, brief: bool) -> None:
    from ledger.cli import views
    from ledger.types import Page

    ids = views.ids(answer) if quiet else None
    if ids is not None:
        print("".join(each + "\n" for each in ids), end="")
        return
    if isinstance(answer, Page | list | tuple) and not answer and type(answer).__name__ not in views.ONE:
        say("nothing found", quiet=quiet)
        return
    if getattr(answer, "failures", 0) and type(answer).__name__ == "JobReport":
        say("`history model-calls` and `history audit` say what failed", quiet=quiet)
    if given_up := getattr(answer, "given_up", 0):
        say(f"{given_up:,} failed three times in a row and wait: `session extract NAME` reads them again", quiet=quiet)
    if why := ENDED.get(getattr(answer, "stopped", "")):
        say(f"{why}: {_how_it_goes_on(answer)}", quiet=quiet)
    if answer == "":
        say("there is none", quiet=quiet)
        return
    shown = views.render(answer, brief=brief)
    if isinstance(shown, str):  # a text for a file of its own, neither wrapped nor cut
        print(shown, end="")
    else:
        console().print(shown)
    if isinstance(answer, Page) and answer.next is not None:
        say(f"there are more: --after {answer.next}, or --all", quiet=quiet)
    if getattr(answer, "replayed", False):
        say("this key had been used for the same command: its first answer, nothing recorded", quiet=quiet)
    elif getattr(answer, "absorbed", False):
        say("known already: nothing new was made of it", quiet=quiet)


def _how_it_goes_on(answer: object) -> str:
    """What to do about what a long command left."""
    if type(answer).__name__ == "RebuildReport":
        return "the tables are as they were, and the same command begins again"
    if type(answer).__name__ == "ScanReport":
        return f"--since {getattr(answer, 'reached', 0) + 1} goes on from here"
    return "the same command goes on from here"


def console() -> Console:
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

    bar = Progress(console=Console(stderr=True), transient=True)
    task = bar.add_task(title.replace("_", " "), total=None)

    def step(done: int, of: int) -> None:
        bar.start()  # on the first call: before it, somebody may be asked something
        bar.update(task, completed=done, total=of)

    try:
        yield step
    finally:
        bar.stop()


def _is_utf8() -> bool:
    return (getattr(sys.stdout, "encoding", None) or "").lower().replace("-", "") == "utf8"
