"""A checkpoint as a small text to keep elsewhere: a log's size, Merkle root, chain head and time, with any signatures.

The form is that of a transparency log (c2sp.org/tlog-checkpoint, a c2sp.org/signed-note):

    memory-ledger/6f1c…            the origin: the ledger's id (32 hex digits)
    1024                           the number of events that the checkpoint covers: positions 1 to 1024
    CsUYapGGPo4dkMgIAUqom/Xajj…    their root (RFC 6962) in base64
    head 9b2e…                     the head of the chain after the last event, in hex
    time 2026-03-01T12:00:00.000000Z

    — memory-ledger/6f1c… Az3gr…   each signature, after a blank line: base64 of a 4-byte key id and 64 bytes of Ed25519

Every line ends with a newline. A signature is over the five lines. Without a signature the text ends after them. The
key id is the beginning of SHA-256 over origin, newline, the byte 0x01 and the public key. Signing needs the extra
``sign``.
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

TEXT_BYTES = 64 * 1024  # the longest text that is read: room for hundreds of signatures
ORIGIN = "memory-ledger/"
_FIRST = "a checkpoint of a ledger begins with a line like memory-ledger/6f1c…, its size and its root"
_DASH = "\N{EM DASH} "


class Stated(Struct, frozen=True):
    """The content of a checkpoint; ``signatures`` are pairs of a key id and a signature in the ledger's name."""

    ledger_id: str
    size: int
    root: bytes
    head: bytes
    time: str
    signatures: tuple[tuple[bytes, bytes], ...] = ()

    @property
    def note(self) -> str:
        """Return the five lines that a signature covers."""
        root = base64.b64encode(self.root).decode()
        return f"{ORIGIN}{self.ledger_id}\n{self.size}\n{root}\nhead {self.head.hex()}\ntime {self.time}\n"

    @property
    def text(self) -> str:
        """Return the note, with its signatures after a blank line."""
        if not self.signatures:
            return self.note
        texts = (base64.b64encode(b"".join(signature)).decode() for signature in self.signatures)
        return self.note + "\n" + "".join(f"{_DASH}{ORIGIN}{self.ledger_id} {text}\n" for text in texts)


def parse(text: str) -> Stated:
    """Return the content of a checkpoint from its text; lines may end as on Windows.

    Raises:
        RejectedError: The text is no checkpoint; the message names the line.
    """
    if len(text) > TEXT_BYTES:
        raise RejectedError(
            f"this is no checkpoint: a checkpoint has at most {TEXT_BYTES:,} characters, and this text has {len(text):,}"
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
    matches = [re.fullmatch(pattern, line, re.ASCII) for pattern, line in zip(patterns, lines, strict=True)]
    for number, match in enumerate(matches, 1):
        if match is None:
            raise RejectedError(
                f"this is no checkpoint: line {number} has not the form that a checkpoint has there; {_FIRST}"
            )
    ledger_id, size, root, head, time = (match[1] for match in matches if match is not None)
    signatures = tuple(_signatures(rest, ledger_id))
    stated = Stated(ledger_id, int(size), base64.b64decode(root), bytes.fromhex(head), time, signatures)
    if stated.note != note + "\n":
        raise RejectedError("this is no checkpoint: line 3 is not the canonical base64 of the root")
    return stated


def _signatures(text: str, ledger_id: str) -> list[tuple[bytes, bytes]]:
    """Return the signatures in the ledger's name.

    Lines of other signers, such as witnesses, are not checked.
    """
    signatures = []
    for line in text.split("\n") if text else ():
        name, _, encoded = line.removeprefix(_DASH).partition(" ")
        try:
            value = base64.b64decode(encoded, validate=True)
        except (binascii.Error, ValueError):
            value = b""
        if not line.startswith(_DASH) or not name or len(value) < 5:
            raise RejectedError(
                "this is no checkpoint: after the blank line every line must be a signature, and at least one is not"
            )
        if name == ORIGIN + ledger_id:
            signatures.append((value[:4], value[4:]))
    return signatures


# --- signatures ------------------------------------------------------------------------------------------------------


def sign(stated: Stated, private: Ed25519PrivateKey) -> Stated:
    """Return the checkpoint with one more signature, by a key from ``private_key``."""
    signature = (_key_id(stated, private.public_key()), private.sign(stated.note.encode()))
    return Stated(stated.ledger_id, stated.size, stated.root, stated.head, stated.time, (*stated.signatures, signature))


def is_signed(stated: Stated, key: object) -> bool:
    """Return True if the checkpoint has a signature of this key and no wrong signature in the key's name.

    ``key`` may be the bytes of the key's file.
    """
    public = _public_key(key)
    own = [signature for key_id, signature in stated.signatures if key_id == _key_id(stated, public)]
    return bool(own) and all(_holds(public, signature, stated.note.encode()) for signature in own)


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


def private_key(key: object) -> Ed25519PrivateKey:
    """Return an Ed25519 private key from the key or the bytes of its file; raise RejectedError for anything else."""
    ed25519, loaders = _library()
    if isinstance(key, bytes):
        load = loaders.load_ssh_private_key if b"BEGIN OPENSSH PRIVATE KEY" in key else loaders.load_pem_private_key
        key = _loaded(load, key, "an Ed25519 private key", password=None)
    if not isinstance(key, ed25519.Ed25519PrivateKey):
        raise RejectedError(f"a checkpoint is signed with an Ed25519 private key, not {_kind(key)}")
    return cast("Ed25519PrivateKey", key)


def _public_key(key: object) -> Ed25519PublicKey:
    ed25519, loaders = _library()
    if isinstance(key, bytes):
        load = loaders.load_ssh_public_key if key.startswith(b"ssh-") else loaders.load_pem_public_key
        key = _loaded(load, key, "an Ed25519 public key")
    if not isinstance(key, ed25519.Ed25519PublicKey):
        raise RejectedError(f"a signature is checked with an Ed25519 public key, not {_kind(key)}")
    return cast("Ed25519PublicKey", key)


def _loaded(load: Callable[..., object], data: bytes, expected: str, **options: None) -> object:
    from cryptography.exceptions import UnsupportedAlgorithm

    try:
        return load(data, **options)
    except TypeError:
        raise RejectedError(
            "the private key is protected by a passphrase, which is never asked for; pass the key object instead"
        ) from None
    except (ValueError, UnsupportedAlgorithm):
        raise RejectedError(
            f"{expected} is needed, as PEM or OpenSSH, but the file holds no key of that form"
        ) from None


def _kind(key: object) -> str:
    return f"a {type(key).__name__.removeprefix('_')}"


def _library() -> tuple[ModuleType, ModuleType]:
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise RejectedError(
            'signatures need the package cryptography: pip install "belief-ledger[sign]"', rule="extra"
        ) from None
    return ed25519, serialization
