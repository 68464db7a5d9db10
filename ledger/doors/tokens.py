"""Bearer tokens that name a user, for every door that listens on a network: made, listed, revoked and checked here.

The tokens lie beside the ledger in a file of their own, ``memory.db.tokens``, which only its owner may read. The file holds a
line of JSON for each token that was made or revoked, and of a token only its SHA-256: a token is 256 random bits, so no
password hash is needed. Lines are only appended, under a lock. A reader takes no torn last line, and refuses every token if
another line cannot be read.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, get_args

from ledger import NotFoundError, RejectedError, StorageError
from ledger.log import platform

SUFFIX = ".tokens"
PREFIX = "mlt_"  # shows people and scanners for secrets that a text is a token
RANDOM_BYTES = 32
NAME_CHARS = 60
TokenChannel = Literal["agent", "user"]


@dataclass(frozen=True)
class TokenInfo:
    """A token without its text: the name that ``token revoke`` takes, the user, and the time when the token was made.

    ``channel`` is "user" if the holder of the token passes on what the user typed, and else "agent".
    """

    name: str
    user: str
    made_at: str
    id: str
    channel: TokenChannel = "agent"


@dataclass(frozen=True)
class NewToken:
    """A token that was just made. Nobody can show its text again."""

    name: str
    user: str
    token: str


class TokenFile:
    """The tokens of one ledger.

    Attributes:
        path: The path of the file, beside the ledger itself and not beside a link to it. The first token begins the file.
    """

    def __init__(self, ledger_path: str | os.PathLike[str]) -> None:
        self.path: str = os.path.realpath(ledger_path) + SUFFIX

    def make(self, name: str, user: str, *, channel: TokenChannel = "agent") -> NewToken:
        """Make a token for a user.

        Args:
            name: The name of the token, such as the program that will send it; 1 to 60 printable characters.
            user: The user whose memory the token opens.
            channel: "user" for a program that passes on what the user typed, whose messages of the role "user" then count as the
                user's own words; "agent" for every other program.

        Raises:
            RejectedError: The name is taken or has no allowed form, or there is no such channel.
        """
        if channel not in get_args(TokenChannel):
            raise RejectedError(f"a token is of the channel 'agent' or 'user', and {channel!r:.40} is neither")
        if not (0 < len(name) <= NAME_CHARS and name.isprintable() and name.strip() == name):
            raise RejectedError(
                f"the name of a token has 1 to {NAME_CHARS} printable characters without blanks at its ends, and "
                f"{name!r:.80} has not"
            )
        text = PREFIX + secrets.token_urlsafe(RANDOM_BYTES)
        with self._locked() as descriptor:
            if any(token.name == name for token, _ in _live(_lines(self.path, descriptor))):
                raise RejectedError(f"a token is called {name!r} already; revoke it, or choose another name")
            made_at = datetime.now(UTC).isoformat(timespec="seconds")
            line = {"made": _new_id(), "name": name, "user": user, "sha256": _digest(text), "at": made_at}
            line |= {"channel": channel} if channel != "agent" else {}
            _append(descriptor, line)
        return NewToken(name, user, text)

    def revoke(self, name: str) -> TokenInfo:
        """Take back a token. The next request with the token is refused.

        Raises:
            NotFoundError: No token has this name.
        """
        if os.path.exists(self.path):
            with self._locked() as descriptor:
                for token, _ in _live(_lines(self.path, descriptor)):
                    if token.name == name:
                        _append(
                            descriptor, {"revoked": token.id, "at": datetime.now(UTC).isoformat(timespec="seconds")}
                        )
                        return token
        raise NotFoundError(f"no token is called {name!r:.80}; `memory-ledger token list` shows the tokens")

    def list(self) -> tuple[TokenInfo, ...]:
        """Return the tokens that are not revoked, oldest first."""
        return tuple(token for token, _ in self._read())

    def check(self, text: str) -> TokenInfo | None:
        """Return the token with this text, or None if there is none or the token was revoked.

        The text is compared with every token in constant time. The file is read anew, so that a revoked token ends at once.
        """
        digest, match = _digest(text), None
        for token, known in self._read():
            if hmac.compare_digest(digest, known):
                match = token
        return match

    def _read(self) -> Sequence[tuple[TokenInfo, str]]:
        try:
            descriptor = os.open(self.path, platform.READ_FLAGS)
        except FileNotFoundError:
            return []
        try:
            _check_private(self.path, descriptor)
            return _live(_lines(self.path, descriptor))
        finally:
            os.close(descriptor)

    @contextmanager
    def _locked(self) -> Iterator[int]:
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | platform.OWN_FLAGS, 0o600)
        try:
            _check_private(self.path, descriptor)
            platform.lock(descriptor, wait=True)  # closing the file releases the lock
            yield descriptor
        finally:
            os.close(descriptor)


def _new_id() -> str:
    return "t_" + secrets.token_hex(8)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _check_private(path: str, descriptor: int) -> None:
    if platform.HAS_MODES and stat.S_IMODE(os.fstat(descriptor).st_mode) & 0o077:
        raise RejectedError(f"others may read or write {path}; run chmod 600 on it, then make new tokens")


def _lines(path: str, descriptor: int) -> list[dict[str, str]]:
    """Return the whole lines of the file. A last line without its end was never reported as written."""
    data = _all(descriptor)
    lines = []
    for number, line in enumerate(data.split(b"\n")[:-1], 1):
        try:
            fields = json.loads(line)
            if not (
                isinstance(fields, dict)
                and ("revoked" in fields or {"made", "name", "user", "sha256"} <= fields.keys())
            ):
                raise ValueError
        except ValueError:
            raise StorageError(
                f"line {number} of {path} cannot be read, so no token is accepted; move the file away and make new tokens"
            ) from None
        lines.append(fields)
    return lines


def _all(descriptor: int) -> bytes:
    os.lseek(descriptor, 0, os.SEEK_SET)
    return os.read(descriptor, os.fstat(descriptor).st_size)


def _live(lines: list[dict[str, str]]) -> list[tuple[TokenInfo, str]]:
    """Return the tokens that are not revoked, each with its digest."""
    revoked = {line["revoked"] for line in lines if "revoked" in line}
    return [
        (
            TokenInfo(
                line["name"],
                line["user"],
                line.get("at", ""),
                line["made"],
                "user" if line.get("channel") == "user" else "agent",
            ),
            line["sha256"],
        )
        for line in lines
        if "made" in line and line["made"] not in revoked
    ]


def _append(descriptor: int, line: dict[str, str]) -> None:
    """Write a line after the last whole line, and wait for the disk."""
    whole = _all(descriptor).rfind(b"\n") + 1
    os.ftruncate(descriptor, whole)
    os.lseek(descriptor, whole, os.SEEK_SET)
    os.write(descriptor, json.dumps(line).encode() + b"\n")
    os.fsync(descriptor)
