"""A ledger where nothing can be written, and somebody who may not write."""

from __future__ import annotations

import os
import traceback

import needs

from ledger import Ledger

NOBODY = 65534


def filled(path):
    with Ledger.open(path) as ledger:
        ledger.projects.add_alias(ledger.projects.add("Kitchen").name, "galley")
        coffee = ledger.remember("The user prefers dark roast coffee.", kind="preference", confidence=0.5)
        turn = ledger.capture("Coffee?", "The user prefers dark roast coffee.", project="galley", session="s")
        ledger.propose("The user trains for a marathon.", sources=(turn.id,))
        tea = ledger.supersede(coffee.id, "The user prefers tea.")
        ledger.memories.set_confidence(tea.id, 0.25)
        ledger.undo(ledger.position)
        return coffee.id, tea.id, turn.id, ledger.proof.digest()


def as_nobody(work):
    """Run work in a child process without the rights of root; fail with the child's trace if it fails."""
    needs.fork()
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        code = 1
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            work()
            code = 0
        except BaseException:
            os.write(writer, traceback.format_exc()[-8_000:].encode())
        finally:
            os._exit(code)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        told = pipe.read().decode()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, told


def sealed(media):
    """Fill a ledger and make it unwritable: the file has mode 0444, its directory 0555.

    Returns the path with the ids and the digest that ``filled`` gave.
    """
    path = media / "memory.db"
    facts = filled(path)
    for each in media.iterdir():
        each.chmod(0o444) if each.name == "memory.db" else each.unlink()
    media.chmod(0o555)
    return path, facts
