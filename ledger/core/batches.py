"""Many commands in one commit: a batch of one caller, and a group of the commands of many callers.

A batch is split at fixed bounds of time and size. For a group, one thread decides the commands of many threads and
tasks one after another and commits them together.
"""

from __future__ import annotations

import copy
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType
from typing import Self, TypeVar, cast

from ledger.domain.errors import LedgerError, RejectedError, StorageError, UnknownOutcomeError
from ledger.log.event_store import Transaction
from ledger.log.writing import Token

T = TypeVar("T")
GROUP = 64  # commands in one commit
IDLE_SECONDS = (
    5.0  # after which the thread ends, so that a ledger that nobody closes can go; the next command begins it anew
)

BATCH_SECONDS, BATCH_EVENTS = 5.0, 10_000
SHARED_BATCH_SECONDS = 1.0  # other machines wait for the lock of the shared log meanwhile


class CommandBatch:
    """An open batch. A command inside ``with`` runs in the batch's transaction. A whole batch is never split."""

    def __init__(
        self,
        transaction: Transaction,
        write_out: Callable[[Transaction], None],
        *,
        is_shared: bool = False,
        whole: bool = False,
    ) -> None:
        self.transaction = transaction
        self._write_out = write_out
        self._seconds = SHARED_BATCH_SECONDS if is_shared else BATCH_SECONDS
        self._is_whole = whole
        self._token = transaction.token = Token()
        transaction.deferred = True
        self.began: float = 0.0
        self._after = 0
        self.committed: int = 0  # the position up to which others see the batch
        self._start()

    def _start(self) -> None:
        self.began, self._after = time.monotonic(), self.transaction.position
        self.committed = self._after

    @property
    def is_here(self) -> bool:
        """Return True if the caller owns this batch."""
        return self._token.is_here

    def __enter__(self) -> Transaction:
        grown = self.transaction.position - self._after >= BATCH_EVENTS
        if not self._is_whole and (grown or time.monotonic() - self.began >= self._seconds):
            self._write_out(self.transaction)
            self.transaction.renew()
            self._start()
        return self.transaction

    def __exit__(self, kind: object, error: BaseException | None, trace: TracebackType | None) -> None:
        """Leave the batch open."""

    @contextmanager
    def inside(self, *, whole: bool) -> Iterator[None]:
        """Run a part that can be undone alone. The bounds start anew in here, so a short part is committed whole."""
        self._write_out(self.transaction)
        bounds, committed = (self.began, self._after), self.committed
        self.began, self._after = time.monotonic(), self.transaction.position
        around, self._is_whole = self._is_whole, self._is_whole or whole
        try:
            with self.transaction.savepoint():
                yield
        finally:
            self._is_whole = around
            if self.committed == committed:
                self.began, self._after = bounds

    def end(self) -> None:
        self._token.end()
        self.transaction.token, self.transaction.deferred = None, False


class QueuedCommand:
    """A call that waits for the writer thread, with its answer or its error after the commit.

    ``alone`` is True for a call that makes commits of its own, outside of any group.
    """

    __slots__ = ("_answer", "_call", "alone", "error")

    def __init__(self, call: Callable[[], object], *, alone: bool = False) -> None:
        self._call = call
        self.alone: bool = alone
        self._answer: object = None
        self.error: BaseException | None = None

    def decide(self) -> None:
        """Call the function and keep its answer or its error."""
        try:
            self._answer = self._call()
        except BaseException as error:
            self.error = error

    def answer(self) -> object:
        """Return the answer, or raise the error."""
        if self.error is not None:
            raise self.error
        return self._answer

    @classmethod
    def deliver(cls, settled: Sequence[Self]) -> None:
        """Tell the callers of commands of this class that their group is committed, or failed."""
        raise NotImplementedError


class ThreadCommand(QueuedCommand):
    """A call of a thread that waits for the answer."""

    __slots__ = ("done",)

    def __init__(self, call: Callable[[], object]) -> None:
        super().__init__(call)
        self.done: threading.Lock = threading.Lock()
        self.done.acquire()

    def wait(self) -> None:
        self.done.acquire()

    @classmethod
    def deliver(cls, settled: Sequence[Self]) -> None:
        for queued in settled:
            queued.done.release()


class CommitQueue:
    """The commands that wait for the writer thread of one open ledger.

    The thread takes up to ``GROUP`` commands at a time. A command is answered after the commit of its group, and a commit that
    fails fails every command of its group.

    Args:
        committing: Returns the context of a group, which ends with the commit.
        check_open: Raises an error if the ledger is closed or belongs to another process.
    """

    def __init__(self, committing: Callable[[], AbstractContextManager[None]], check_open: Callable[[], None]) -> None:
        self._committing, self._check_open = committing, check_open
        self._waiting: deque[QueuedCommand] = deque()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False

    def call(self, function: Callable[[], T]) -> T:
        """Hand a function to the writer thread and return its answer, after the commit."""
        queued = ThreadCommand(function)
        self.submit(queued)
        queued.wait()
        return cast("T", queued.answer())

    def submit(self, queued: QueuedCommand) -> None:
        """Add a command to the queue.

        Raises:
            RejectedError: The ledger is closed, or this is the writer thread, which would wait for itself.
            ConflictError: This process was forked from the process that opened the ledger.
        """
        self._check_open()
        if threading.current_thread() is self._thread:
            raise waits_for_itself()
        with self._changed:
            if self._closed:
                raise RejectedError("this ledger is closed; open it again", rule="closed")
            self._waiting.append(queued)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="ledger-writer", daemon=True)
                self._thread.start()
            elif len(self._waiting) == 1:
                self._changed.notify()

    def close(self) -> None:
        """Take no more commands, and return after the commit of those that wait."""
        with self._changed:
            self._closed = True
            self._changed.notify()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _work(self) -> None:
        while self._settle(self._next_group()):
            pass

    def _next_group(self) -> list[QueuedCommand]:
        """Wait for commands and return the next ones for one commit; return none when the thread has to end."""
        with self._changed:
            while not self._waiting:
                if self._closed or not (self._changed.wait(IDLE_SECONDS) or self._waiting):
                    self._thread = None
                    return []
            group = [self._waiting.popleft()]
            while self._waiting and len(group) < GROUP and not (group[0].alone or self._waiting[0].alone):
                group.append(self._waiting.popleft())
            return group

    def _settle(self, group: list[QueuedCommand]) -> bool:
        """Decide and commit a group and tell the callers; return False if the group is empty."""
        if group and group[0].alone:
            group[0].decide()
        elif group:
            self._decide(group)
        kinds = {type(queued) for queued in group}
        for kind in kinds:
            kind.deliver([queued for queued in group if type(queued) is kind])
        return bool(group)

    def _decide(self, group: Sequence[QueuedCommand]) -> None:
        decided = 0
        try:
            with self._committing():
                for queued in group:
                    queued.decide()
                    decided += 1
        except BaseException as error:
            for queued in group:
                if queued.error is None:
                    queued.error = _failed(error, decided - 1)


def waits_for_itself() -> RejectedError:
    """Return the error of a call from inside a batch that would wait for the end of the batch."""
    return RejectedError(
        "this call comes from inside in_batch and would wait for its end; inside, call `plain`, the ledger that the function "
        "receives: lambda plain: plain.remember(…)",
        rule="batch",
    )


def _failed(error: BaseException, others: int) -> BaseException:
    """Return an error of one command's own for the failure of its group; threads must not share a traceback."""
    own = copy.copy(error) if isinstance(error, LedgerError) else StorageError(f"{type(error).__name__}: {error}")
    if others > 0:
        is_unknown = isinstance(error, UnknownOutcomeError)
        outcome = "all of them have the same outcome" if is_unknown else "nothing of it was written"
        own.args = (f"{error}; {others} other commands were in the same commit, and {outcome}",)
    own.__cause__ = error
    return own
