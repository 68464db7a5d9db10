"""A checkpoint as a small text to keep elsewhere: a log's size, Merkle root, chain head and time, signed if wanted.

The form is that of a transparency log (c2sp.org/tlog-checkpoint, a c2sp.org/signed-note):

    memory-ledger/6f1c…            the origin: whose log, by the ledger's id (32 hex digits)
    1024                           how many events it covers: positions 1 to 1024
    CsUYapGGPo4dkMgIAUqom/Xajj…    their root (RFC 6962) in base64
    head 9b2e…                     the head of the chain after the last of them, in hex
    time 2026-03-01T12:00:00.000000Z

    — memory-ledger/6f1c… Az3gr…   each signature, after a blank line: base64 of a 4-byte key id and 64 bytes of Ed25519

Every line ends with a newline; what is signed are the five lines. Without a signature the text ends there. The key id is
the beginning of SHA-256 over origin, newline, the byte 0x01 and the public key. Signing needs the extra ``sign``.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from hashlib import sha256
from types import ModuleType
from typing import TYPE_CHECKING, cast

from msgspec import Struct

from ledger.domain.errors import RejectedError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

TEXT_BYTES = 64 * 1024  # the longest text that is looked at: room for hundreds of signatures
ORIGIN = "memory-ledger/"
EXTRA = "memory-ledger[sign]"
_FIRST = "a checkpoint of a ledger begins with a line like memory-ledger/6f1c…, its size and its root"
_DASH = "\N{EM DASH} "


class Stated(Struct, frozen=True):
    """What a checkpoint states; ``signatures`` are pairs of key id and signature in the ledger's name."""

    ledger_id: str
    size: int
    root: bytes
    head: bytes
    time: str
    signatures: tuple[tuple[bytes, bytes], ...] = ()

    @property
    def note(self) -> str:
        """The five lines that a signature is over."""
        root = base64.b64encode(self.root).decode()
        return f"{ORIGIN}{self.ledger_id}\n{self.size}\n{root}\nhead {self.head.hex()}\ntime {self.time}\n"

    @property
    def text(self) -> str:
        """The note, and its signatures after a blank line."""
        if not self.signatures:
            return self.note
        texts = (base64.b64encode(b"".join(each)).decode() for each in self.signatures)
        return self.note + "\n" + "".join(f"{_DASH}{ORIGIN}{self.ledger_id} {text}\n" for text in texts)


def parse(text: str) -> Stated:
    """A checkpoint from its text; ``RejectedError`` with the line that is none. The ends of the lines may be those of Windows."""
    if len(text) > TEXT_BYTES:
        raise RejectedError(
            f"this is no checkpoint: one takes at most {TEXT_BYTES} characters, and this has {len(text):,}"
        )
    note, _, rest = text.replace("\r\n", "\n").strip("\n").partition("\n\n")
    lines = note.split("\n")
    if len(lines) != 5:
        raise RejectedError(
            f"this is no checkpoint: {_FIRST}, and has five lines before its signatures, not {len(lines)}"
        )
    patterns = (
        rf"{ORIGIN}([0-9a-f]{{32}})",
        r"([1-9][0-9]{0,18})",
        r"([A-Za-z0-9+/]{43}=)",
        r"head ([0-9a-f]{64})",
        r"time (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z)",
    )
    found = [re.fullmatch(pattern, line, re.ASCII) for pattern, line in zip(patterns, lines, strict=True)]
    for number, each in enumerate(found, 1):
        if each is None:
            raise RejectedError(f"this is no checkpoint: line {number} is not as it is written; {_FIRST}")
    ledger_id, size, root, head, time = (each[1] for each in found if each is not None)
    signatures = tuple(_signatures(rest, ledger_id))
    stated = Stated(ledger_id, int(size), base64.b64decode(root), bytes.fromhex(head), time, signatures)
    if stated.note != note + "\n":
        raise RejectedError("this is no checkpoint: line 3 is another base64 of the root than the one that is written")
    return stated


def _signatures(text: str, ledger_id: str) -> list[tuple[bytes, bytes]]:
    """Those of a key in the ledger's name; the lines of others, like witnesses, are theirs to check."""
    found = []
    for line in text.split("\n") if text else ():
        name, _, encoded = line.removeprefix(_DASH).partition(" ")
        try:
            value = base64.b64decode(encoded, validate=True)
        except (binascii.Error, ValueError):
            value = b""
        if not line.startswith(_DASH) or not name or len(value) < 5:
            raise RejectedError("this is no checkpoint: after the blank line every line is a signature, and one is not")
        if name == ORIGIN + ledger_id:
            found.append((value[:4], value[4:]))
    return found


# --- signatures ------------------------------------------------------------------------------------------------------


def sign(stated: Stated, private: Ed25519PrivateKey) -> Stated:
    """The checkpoint with one more signature, of a key that ``private_key`` gave."""
    signature = (_key_id(stated, private.public_key()), private.sign(stated.note.encode()))
    return Stated(stated.ledger_id, stated.size, stated.root, stated.head, stated.time, (*stated.signatures, signature))


def is_signed(stated: Stated, key: object) -> bool:
    """Whether a signature of this key is there, and no wrong one in its name; ``key`` may be the bytes of its file."""
    public = _public_key(key)
    own = [signature for key_id, signature in stated.signatures if key_id == _key_id(stated, public)]
    return bool(own) and all(_holds(public, each, stated.note.encode()) for each in own)


def _holds(public: Ed25519PublicKey, signature: bytes, note: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature

    try:
        public.verify(signature, note)
    except InvalidSignature:
        return False
    return True


def _key_id(stated: Stated, public: Ed25519PublicKey) -> bytes:
    name = f"{ORIGIN}{stated.ledger_id}\n".encode()
    return sha256(name + b"\x01" + public.public_bytes_raw()).digest()[:4]


def private_key(given: object) -> Ed25519PrivateKey:
    """An Ed25519 private key that is one already, or from the bytes of its file; ``RejectedError`` for any other."""
    ed25519, loaders = _library()
    if isinstance(given, bytes):
        load = loaders.load_ssh_private_key if b"BEGIN OPENSSH PRIVATE KEY" in given else loaders.load_pem_private_key
        given = _loaded(load, given, "an Ed25519 private key", password=None)
    if not isinstance(given, ed25519.Ed25519PrivateKey):
        raise RejectedError(f"a checkpoint is signed with an Ed25519 private key, and this is {_kind(given)}")
    return cast("Ed25519PrivateKey", given)


def _public_key(given: object) -> Ed25519PublicKey:
    ed25519, loaders = _library()
    if isinstance(given, bytes):
        load = loaders.load_ssh_public_key if given.startswith(b"ssh-") else loaders.load_pem_public_key
        given = _loaded(load, given, "an Ed25519 public key")
    if not isinstance(given, ed25519.Ed25519PublicKey):
        raise RejectedError(f"a signature is checked with an Ed25519 public key, and this is {_kind(given)}")
    return cast("Ed25519PublicKey", given)


def _loaded(load: Callable[..., object], data: bytes, wanted: str, **more: None) -> object:
    from cryptography.exceptions import UnsupportedAlgorithm

    try:
        return load(data, **more)
    except TypeError:
        raise RejectedError(
            "the private key is behind a passphrase, which is not asked for; give the key itself"
        ) from None
    except (ValueError, UnsupportedAlgorithm):
        raise RejectedError(f"this file holds no key that can be read: {wanted} is wanted, as PEM or OpenSSH") from None


def _kind(key: object) -> str:
    return f"a {type(key).__name__.removeprefix('_')}"


def _library() -> tuple[ModuleType, ModuleType]:
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise RejectedError(
            f"signatures need the package cryptography, which is not there: pip install '{EXTRA}'", rule="extra"
        ) from None
    return ed25519, serialization
