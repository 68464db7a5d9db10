"""The command line ``memory-ledger``: every method of the library is a command of the same name.

``derive`` makes the commands from signatures, ``calling`` makes the call, ``views`` shows the answers, and ``by_hand`` holds the
commands for which the signature is not enough. Data goes to stdout, messages to stderr. Exit codes: 0 done, 1 a check failed,
2 wrong usage, 3 not found, 4 conflict or rejected; also 70 a mistake in memory-ledger, 130 interrupted, 141 a closed pipe.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from contextvars import copy_context

from ledger.cli import rows
from ledger.cli.by_hand import CHANGED, HAND
from ledger.cli.calling import Progress, ShellCall, call_by_hand, hint_at_others, invoke, opened, progress_of
from ledger.cli.methods import OF_THE_FILE, Method
from ledger.cli.output import ENDED, Stopped, Usage, progress_bar, say, show
from ledger.cli.shell_words import given_options, in_shell
from ledger.core.shell import shell_options
from ledger.domain.errors import LedgerError, NotFoundError

OK, FAILED, USAGE, NOT_FOUND, REFUSED, BUG, INTERRUPTED, PIPE_CLOSED = 0, 1, 2, 3, 4, 70, 130, 141


def main() -> None:
    """Run the command line and exit with its code; no failure ends in a traceback."""
    _prepare_streams()
    sys.exit(run(sys.argv[1:]))


def run(words: Sequence[str]) -> int:
    """Run the command that the words name, and return the exit code; every failure is one line on stderr.

    MEMORY_LEDGER_DEBUG=1 shows the traceback of a mistake in memory-ledger itself.
    """
    return copy_context().run(_ended, words)  # a second command in this process has options of its own


def _ended(words: Sequence[str]) -> int:
    """Run the command that the words name, and return the exit code."""
    try:
        return _run(words)
    except LedgerError as error:
        return _failed(in_shell(str(error)), NOT_FOUND if isinstance(error, NotFoundError) else REFUSED)
    except Stopped as error:
        return _failed(str(error), FAILED)
    except Usage as error:
        return _failed(f"{error}; see --help", USAGE)
    except KeyboardInterrupt:
        return _failed("interrupted", INTERRUPTED)
    except BrokenPipeError:
        return _end_with_closed_pipe()
    except OSError as error:
        place = f": {error.filename}" if error.filename else ""
        return _failed(f"{error.strerror or type(error).__name__}{place}", REFUSED)
    except Exception as error:
        if os.environ.get("MEMORY_LEDGER_DEBUG"):
            raise
        text = f"{type(error).__name__}: {error}"
        return _failed(f"this is a mistake in memory-ledger ({text}); MEMORY_LEDGER_DEBUG=1 shows where", BUG)


def _run(words: Sequence[str]) -> int:
    from ledger.cli.derive import parsed_call

    call = parsed_call(words or ["--help"])
    if call is None:
        return OK if {"--help", "-h", "--version", "__complete"} & set(words) else USAGE
    options = call.options
    given_options.set(shell_options(options.get("db"), options.get("user")))
    if sum(bool(options.get(form)) for form in ("json", "csv", "jsonl")) > 1:
        raise Usage("--json, --csv and --jsonl are three forms of an answer: give at most one of them")
    with progress_bar(call.method.name, quiet=options["quiet"]) as progress:
        answer = _answer(call, progress)
    if options.get("csv") or options.get("jsonl"):
        rows.show(answer, csv=options["csv"], quiet=options["quiet"], columns=call.method.columns)
    else:
        show(answer, json=options["json"], quiet=options["quiet"], brief=call.method.writes)
    return FAILED if getattr(answer, "ok", True) is False or getattr(answer, "stopped", "") in ENDED else OK


def _answer(call: ShellCall, progress: Progress | None) -> object:
    """Make the call and return the answer."""
    if call.method.area == HAND:
        return call_by_hand(call.method.function, call, {**call.parameters, **progress_of(call, progress)})
    if (change := CHANGED.get(call.method.key)) is not None:
        parameters = Method(HAND, call.method.name, change.run, of_the_past=False).names
        added = {
            name: call.parameters.pop(name)
            for name in parameters
            if name in call.parameters and name not in call.method.names - set(change.drop)
        }
        return call_by_hand(change.run, call, {**added, **({"progress": progress} if "progress" in parameters else {})})
    if call.method.key in OF_THE_FILE:
        arguments = {**call.arguments, "path": call.settings.path}
        if "settings" in call.method.names:
            arguments["settings"] = call.settings
        return call.method.function(**arguments, **progress_of(call, progress))
    with opened(call) as ledger:
        answer = invoke(call, ledger, call.arguments, progress)
        hint_at_others(call, ledger, answer)
        return answer


def _failed(message: str, code: int) -> int:
    say(message)
    return code


def _end_with_closed_pipe() -> int:
    """Return the exit code for a closed pipe; send the last flush of Python to the null device."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return PIPE_CLOSED


def _prepare_streams() -> None:
    """Make sure that no output raises: characters that the encoding lacks become escapes, and a closed stream drops output."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 (stays open until the process ends)
        else:
            stream = getattr(sys, name)
            stream.reconfigure(errors="backslashreplace")
            if "PYTHONIOENCODING" not in os.environ and not stream.isatty():
                # Into a pipe or a file Windows would write a code page of the country, and \r\n after each line.
                stream.reconfigure(encoding="utf-8", newline="\n")
