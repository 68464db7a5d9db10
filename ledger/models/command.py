"""A command of this machine as a language model: it reads a request on standard input, and writes the answer.

``claude -p``, ``ollama run``, ``llm`` and every other program of this kind can answer, so this process needs no library and no
key of a provider. There is no shell. The command gets the environment of this process without the ledger's own settings, and
runs in a folder of its own, so that an agent reads no settings of the project in which this process happens to run.

A call ends after the timeout of the request, after an answer of more than 1 MiB, when nobody waits for it any more, and when
this process exits. Then the whole process group of the command is killed; so is what a command leaves behind in its group. What
the command writes to standard error is stored nowhere, and the message of a failure quotes at most the last line of it.
"""

from __future__ import annotations

import atexit
import os
import selectors
import subprocess
import threading
import time
from collections.abc import Sequence
from contextlib import suppress

from ledger.core.settings import CALLS_A_DAY, CONFIG, FIELDS, INSIDE_MODEL, OWN_FOLDER, PREFIX, TOKENS_A_DAY
from ledger.domain.errors import RejectedError
from ledger.domain.text import one_line, problem_of_command
from ledger.domain.tokens import estimate
from ledger.log import platform
from ledger.models.port import COMMAND, CommandFailed, ModelAnswer, ModelRequest, is_abandoned

OUTPUT_BYTES = 1024 * 1024  # the longest answer
SAID_CHARS = 160  # the longest line of standard error in a message
LOOK_SECONDS = 0.05  # between two checks whether the command has ended or nobody waits for it
_SAID_BYTES = 4096  # the end of standard error that is kept until the message is made
_PIECE = 64 * 1024
# Set by Claude Code for its children, and then it refuses to start. ``INSIDE_MODEL`` ends the recursion that it guards against.
_NESTING = ("CLAUDECODE",)
_running = set[subprocess.Popen[bytes]]()
_starting = threading.Lock()  # held until a command that starts is among those that run; at the exit it stays held


class CommandModel:
    """A command of this machine that answers requests, such as ``CommandModel(["ollama", "run", "qwen3"])``.

    Attributes:
        name: "command:" and the name of the program. The arguments are no part of it, because they may be private.
        command: The program and its arguments.
        calls: The most calls a day (UTC) of all commands on one ledger, counted in its log.
        tokens: The most tokens a day of these calls, estimated from the requests and the answers.
    """

    asks_once = True  # a second call after a timeout would cost as much as the first

    def __init__(self, command: Sequence[str], *, calls: int = CALLS_A_DAY, tokens: int = TOKENS_A_DAY) -> None:
        """Check the command, without a look at whether the program exists.

        Args:
            command: The program, by its whole path or by a name on the PATH, and its arguments.
            calls: The most calls a day, from 1.
            tokens: The most tokens a day, from 1.

        Raises:
            RejectedError: The command is not a list of texts, its program is a relative path, or a bound is no number from 1.
        """
        if problem := problem_of_command(command):
            raise RejectedError(f"a command as a model: {problem}", rule="model")
        for bound in (calls, tokens):
            if not isinstance(bound, int) or isinstance(bound, bool) or bound < 1:
                raise RejectedError(
                    f"a bound of a day is a whole number from 1, and {bound!r:.40} is none", rule="model"
                )
        self.command: tuple[str, ...] = tuple(command)
        self.calls = calls
        self.tokens = tokens
        self.name: str = COMMAND + one_line(os.path.basename(command[0]))[:100]

    def __repr__(self) -> str:
        return f"<model {self.name}>"

    def answer(self, request: ModelRequest, /) -> ModelAnswer:
        """Return what the command writes to standard output within ``request.timeout`` seconds.

        Raises:
            ModelError: The command cannot be started, took too long, wrote too much, or did not end with the exit code 0.
        """
        if os.environ.get(INSIDE_MODEL):
            raise CommandFailed("this process was itself started by a ledger's model command", kind="InsideModel")
        text = request.as_text()
        output = _output(self.command, text.encode("utf-8", "replace"), request.timeout)
        answer = output.decode("utf-8", "replace")
        return ModelAnswer(text=answer, input_tokens=estimate(text), output_tokens=estimate(answer))


def _output(command: Sequence[str], text: bytes, seconds: float) -> bytes:
    until = time.monotonic() + seconds
    with _starting:
        process = _started(command)
        _running.add(process)
    try:
        output, said = _talk(process, text, until)
        code = process.returncode
    finally:
        _end(process)
        _running.discard(process)
    if code:
        how = f"exit code {code}" if code > 0 else f"signal {-code}"
        line = one_line(said.decode("utf-8", "replace").strip().rpartition("\n")[2])[:SAID_CHARS]
        raise CommandFailed(
            f"the command ended with {how}" + (f" and said “{line}”" if line else ""),
            kind=f"Exit{code}" if code > 0 else f"Signal{-code}",
        )
    return output


def _started(command: Sequence[str]) -> subprocess.Popen[bytes]:
    folder = os.path.join(os.path.expanduser(OWN_FOLDER), "model")
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
    except OSError as error:
        raise CommandFailed(f"its folder {folder} cannot be made ({error.strerror})", kind="NoFolder") from None
    ours = {CONFIG, *_NESTING, *(PREFIX + name.upper() for name in FIELDS)}
    environment = {name: value for name, value in os.environ.items() if name not in ours}
    try:
        return platform.start(command, folder, environment | {INSIDE_MODEL: "1", "PWD": folder})
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else type(error).__name__
        raise CommandFailed(f"the program {command[0]!r:.100} cannot be started ({why})", kind="NotStarted") from None


def _talk(process: subprocess.Popen[bytes], text: bytes, until: float) -> tuple[bytes, bytes]:
    """Write the text while reading both outputs; return them when the command has ended.

    A child of the command may hold the pipes open after the end of the command; what it writes then is not waited for.
    """
    output, said, rest = bytearray(), bytearray(), memoryview(text)
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None
    with selectors.DefaultSelector() as selector:
        for pipe, event in (
            (process.stdin, selectors.EVENT_WRITE),
            (process.stdout, selectors.EVENT_READ),
            (process.stderr, selectors.EVENT_READ),
        ):
            platform.never_wait(pipe.fileno())
            selector.register(pipe, event)
        while True:
            if is_abandoned():
                raise CommandFailed("nobody waits for the answer any more", kind="Cancelled")
            if time.monotonic() >= until:
                raise CommandFailed("the command took longer than it may", kind="TimeoutError")
            has_ended = process.poll() is not None
            reads = False
            for key, _ in selector.select(0 if has_ended else LOOK_SECONDS):
                if key.fileobj is process.stdin:
                    rest = _written(key.fd, rest)
                    if not rest:
                        selector.unregister(process.stdin)
                        process.stdin.close()
                    continue
                piece = _read(key.fd)
                if piece is None:
                    continue
                if not piece:
                    selector.unregister(key.fileobj)
                elif key.fileobj is process.stdout:
                    output += piece
                    reads = True
                else:
                    said = (said + piece)[-_SAID_BYTES:]
            if len(output) > OUTPUT_BYTES:
                raise CommandFailed(f"the answer has more than {OUTPUT_BYTES:,} bytes", kind="TooLong")
            if has_ended and not reads:
                return bytes(output), bytes(said)
            if not has_ended and not selector.get_map():
                with suppress(subprocess.TimeoutExpired):
                    process.wait(LOOK_SECONDS)


def _written(descriptor: int, rest: memoryview) -> memoryview:
    """Write what the pipe takes and return the rest; nothing is left for a command that closed its standard input."""
    try:
        return rest[os.write(descriptor, rest[:_PIECE]) :]
    except BlockingIOError:
        return rest
    except BrokenPipeError:
        return rest[:0]


def _read(descriptor: int) -> bytes | None:
    try:
        return os.read(descriptor, _PIECE)
    except BlockingIOError:
        return None


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the process group of a command, even of one that ended, and close the pipes."""
    platform.end(process)
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
    with suppress(subprocess.TimeoutExpired):
        process.wait(5)


@atexit.register
def _end_all() -> None:
    """Kill what still runs when this process exits, for the threads that wait for it do not live on."""
    _starting.acquire()
    for process in [*_running]:
        platform.end(process)
