"""The command ``work``: one of any number of workers that do what the policies ask for, until nothing is left or forever."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ledger.cli.care import CARE
from ledger.cli.frame import OK, command, say
from ledger.cli.terminal_text import as_json

if TYPE_CHECKING:
    from ledger import answers
    from ledger.api import Ledger
    from ledger.maintenance.transfer import Progress


def add_to(app: typer.Typer) -> None:
    command(app, CARE, view="report", writes=True)(work)


def work(
    ledger: Ledger,
    progress: Progress | None,
    context: dict[str, Any],
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for more, until interrupted.")] = False,
    only: Annotated[list[str] | None, typer.Option("--only", metavar="JOB", help="This job, and no others.")] = None,
) -> Any:
    """Do what is pending, sharing it with other workers; with --follow one line for each pass that did something."""
    total: dict[str, int] = {}
    jobs: Any = only or ()
    with stopped_by_signals() as stop:
        for report in ledger.jobs.work(follow=follow, jobs=jobs, stop=stop, progress=None if follow else progress):
            done = {name: number for name, number in _numbers(report).items() if number}
            total |= {name: total.get(name, 0) + number for name, number in done.items()}
            if follow and done:
                _tell(done, json=context["json"], quiet=context["quiet"])
    if not follow:
        return _report(total)
    say(f"stopped; {_line(total) or 'there was nothing to do'}", quiet=context["quiet"])
    raise typer.Exit(OK)


def _line(done: dict[str, int]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {number:,}" for name, number in done.items())


def _tell(done: dict[str, int], *, json: bool, quiet: bool) -> None:
    if json:
        print(as_json(done, indent=None), flush=True)
    else:
        say(_line(done), quiet=quiet)


def _numbers(report: answers.JobReport) -> dict[str, int]:
    return report.to_dict()


def _report(total: dict[str, int]) -> answers.JobReport:
    from ledger.answers import JobReport

    return JobReport(**total)


@contextmanager
def stopped_by_signals() -> Iterator[threading.Event]:
    """An event that SIGINT and SIGTERM set, so that the piece under way is finished; a second one interrupts."""
    stop = threading.Event()

    def ask(number: int, frame: Any) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()
        print("memory-ledger: stopping after what is under way", file=sys.stderr, flush=True)

    if threading.current_thread() is not threading.main_thread():
        yield stop  # only the main thread may say what a signal does
        return
    before = {each: signal.signal(each, ask) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
