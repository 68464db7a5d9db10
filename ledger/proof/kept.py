"""What a caller brings from elsewhere to a proof: a checkpoint and a key, each as a file or as it is."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any

from msgspec import Struct

from ledger import answers
from ledger.domain.errors import NotFoundError, RejectedError, StorageError
from ledger.proof import checkpoints
from ledger.store.paths import StrPath, path_name

OWN_FILES = ("", "-wal", "-shm")  # of a ledger: nothing but SQLite may open them
FILE_BYTES = 64 * 1024

Given = StrPath | answers.Checkpoint  # a checkpoint: the path of its file, its text, or itself


class Kept(Struct, frozen=True):
    """A checkpoint from elsewhere, and whether it is signed (None: nobody asked)."""

    stated: checkpoints.Stated
    signed: bool | None = None


def checkpoint(given: Given | None, public_key: object, ledger_path: str) -> Kept | None:
    """A checkpoint and what its signature is worth; ``RejectedError`` where it is none."""
    if given is None:
        if public_key is not None:
            raise RejectedError("a public key is for the signature of a checkpoint: name that too (against=)")
        return None
    stated = checkpoints.parse(_text(given, ledger_path))
    if public_key is None:
        return Kept(stated)
    return Kept(stated, checkpoints.is_signed(stated, key(public_key, ledger_path)))


def stated(given: Given) -> checkpoints.Stated:
    """What a checkpoint states, where there is no ledger at hand."""
    return checkpoints.parse(_text(given, ""))


def _text(given: Given, ledger_path: str) -> str:
    if isinstance(given, answers.Checkpoint):
        return given.text
    if isinstance(given, str) and "\n" in given:
        return given
    if not isinstance(given, str | os.PathLike):
        raise RejectedError(
            f"a checkpoint is given as its path, its text or itself, and this is a {type(given).__name__}"
        )
    return _read("the checkpoint", given, ledger_path).decode("utf-8", "replace")


def key(given: object, ledger_path: str) -> Any:
    """A key of the package cryptography as it is; of a path the bytes of the file."""
    return _read("the key", given, ledger_path) if isinstance(given, str | os.PathLike) else given


def _read(what: str, given: StrPath, ledger_path: str) -> bytes:
    """A small file. Reading one of the ledger's own would take SQLite's locks away from this process."""
    name = path_name(given)
    if not name or "\x00" in name:
        raise RejectedError(f"{what} lies in a file, and {name[:40]!r} names none")
    for each in OWN_FILES if ledger_path else ():
        with suppress(OSError):
            if os.path.samefile(name, ledger_path + each):
                raise RejectedError(f"{name} is a file of the ledger itself, and {what} lies in a file of its own")
    try:
        with open(name, "rb") as file:
            data = file.read(FILE_BYTES + 1)
    except FileNotFoundError:
        raise NotFoundError(f"there is no file {name}, in which {what} was to be") from None
    except OSError as error:
        raise StorageError(f"{name} cannot be read: {error.strerror}") from None
    if len(data) > FILE_BYTES:
        raise RejectedError(f"{name} has more than {FILE_BYTES:,} bytes, and {what} has not")
    return data
