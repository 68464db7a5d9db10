"""A machine of the kill loop: it remembers, erases and undoes until it is killed, and notes what was acknowledged.

Each line of the notes is a number that was acknowledged. After a kill the machine repeats its last command with the same key.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from ledger import Ledger
from ledger.domain.errors import ConflictError, NotFoundError, UnknownOutcomeError, UnreachableError

Answer = TypeVar("Answer")
UNDO_EACH, ERASE_EACH = 7, 11


def text_of(machine: str, number: int) -> str:
    return f"Ada owns the book {machine}{number}"


def is_kept(number: int) -> bool:
    """Return True if the memory of this number is neither undone nor erased by its machine."""
    return bool(number % UNDO_EACH and number % ERASE_EACH)


def main(path: str, url: str, tenant: str, machine: str, notes: str) -> None:
    """Live until somebody kills this process."""
    done = 0
    if os.path.exists(notes):
        with open(notes, encoding="ascii") as file:
            done = len(file.read().splitlines())
    descriptor = os.open(notes, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    ledger = reached(lambda: Ledger.open(path, log=url, tenant=tenant, machine=machine, user="ada", actor="ada"))
    while True:
        done += 1
        reached(partial(command, ledger, machine, done))
        os.write(descriptor, b"%d\n" % done)


def command(ledger: Ledger, machine: str, number: int) -> None:
    """Give the command of a number, or repeat it after a kill.

    A kill may have come after the undo or the erasure and before the note of it. After an undo the key is free, so that the
    memory is made anew and undone again; after an erasure the key is refused.
    """
    try:
        memory = ledger.remember(text_of(machine, number), idempotency_key=f"{machine}{number}")
    except ConflictError as error:
        if not number % ERASE_EACH and "erased since" in str(error):
            return
        raise
    if not number % UNDO_EACH:
        ledger.undo(memory.position, idempotency_key=f"undo {machine}{number} at {memory.position}")
    elif not number % ERASE_EACH:
        ledger.erase(memory.id, reason="she asked", idempotency_key=f"erase {machine}{number}")


def reached(work: Callable[[], Answer]) -> Answer:
    """Return what some work returns, as soon as the log can be reached and no other machine is in the way."""
    while True:
        try:
            return work()
        except (UnreachableError, UnknownOutcomeError, ConflictError, NotFoundError) as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
            time.sleep(0.05)


if __name__ == "__main__":
    main(*sys.argv[1:])
