"""The reading of checkpoints and keys that a caller passes, each as a file or as an object."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any

from msgspec import Struct

from ledger.domain.errors import NotFoundError, RejectedError, StorageError
from ledger.log.paths import StrPath, path_name
from ledger.proof import answers, checkpoints

OWN_FILES = ("", "-wal", "-shm")  # the files of a ledger, which only SQLite may open
FILE_BYTES = 64 * 1024

Given = StrPath | answers.Checkpoint  # a checkpoint: the path of its file, its text, or the object


class CheckedCheckpoint(Struct, frozen=True):
    """A checkpoint that the caller passed, and the result of its signature check; None if no check was asked for."""

    stated: checkpoints.Stated
    signed: bool | None = None


def checkpoint(source: Given | None, public_key: object, ledger_path: str) -> CheckedCheckpoint | None:
    """Return a checkpoint with the result of its signature check, or None if none was given.

    Raises:
        RejectedError: ``source`` is no checkpoint, or a public key was given without a checkpoint.
    """
    if source is None:
        if public_key is not None:
            raise RejectedError(
                "a public key checks the signature of a checkpoint, and no checkpoint was given: pass it as against="
            )
        return None
    stated = checkpoints.parse(_text(source, ledger_path))
    if public_key is None:
        return CheckedCheckpoint(stated)
    return CheckedCheckpoint(stated, checkpoints.is_signed(stated, key(public_key, ledger_path)))


def stated(source: Given) -> checkpoints.Stated:
    """Return the content of a checkpoint that is checked without a ledger."""
    return checkpoints.parse(_text(source, ""))


def _text(source: Given, ledger_path: str) -> str:
    if isinstance(source, answers.Checkpoint):
        return source.text
    if isinstance(source, str) and "\n" in source:
        return source
    if not isinstance(source, str | os.PathLike):
        raise RejectedError(f"a checkpoint is a path, a text or a Checkpoint, not a {type(source).__name__}")
    return _read("the checkpoint", source, ledger_path).decode("utf-8", "replace")


def key(source: object, ledger_path: str) -> Any:
    """Return the bytes of a key's file, or the key itself if it is not a path."""
    return _read("the key", source, ledger_path) if isinstance(source, str | os.PathLike) else source


def _read(role: str, file_path: StrPath, ledger_path: str) -> bytes:
    """Return the bytes of a small file.

    The ledger's own files are refused: opening and closing one would drop SQLite's locks of this process.
    """
    name = path_name(file_path)
    if not name or "\x00" in name:
        raise RejectedError(f"{role} must be in a file, and {name[:40]!r} names no file")
    for suffix in OWN_FILES if ledger_path else ():
        with suppress(OSError):
            if os.path.samefile(name, ledger_path + suffix):
                raise RejectedError(f"{name} is a file of the ledger itself; {role} must be in another file")
    try:
        with open(name, "rb") as opened:
            data = opened.read(FILE_BYTES + 1)
    except FileNotFoundError:
        raise NotFoundError(f"there is no file {name} to read {role} from") from None
    except OSError as error:
        raise StorageError(f"{name} cannot be read: {error.strerror}") from None
    if len(data) > FILE_BYTES:
        raise RejectedError(f"{name} has more than {FILE_BYTES:,} bytes, more than {role} can have")
    return data
