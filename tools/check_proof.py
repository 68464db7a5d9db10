"""A check of a proof from ``memory-ledger proof prove`` against a checkpoint kept elsewhere, for Python 3.8 or newer alone.

``python check_proof.py PROOF CHECKPOINT`` says that the event is among the events that the checkpoint covers or, if the event
is younger, in a log that continues them. The exit code is 0 if that holds, 1 if it does not, and 2 if a file is not a proof
or not a checkpoint. Signatures are not checked.
"""

from __future__ import annotations

import base64
import json
import re
import sys
from hashlib import sha256
from typing import Any

CHECKPOINT = (
    r"memory-ledger/([0-9a-f]{32})\n([1-9][0-9]{0,18})\n([A-Za-z0-9+/]{43}=)\nhead [0-9a-f]{64}\ntime \S+\s*(\n\n|$)"
)
DIGITS = {"ledger_id": 32, "root": 64, "digest": 64, "previous": 64}  # the lengths of the fields in hex


def nodes(text: str) -> list[bytes]:
    data = base64.b64decode(text, validate=True)
    return [data[at : at + 32] for at in range(0, len(data), 32)]


def climb(place: int, last: int, start: bytes, path: list[bytes]) -> tuple[bytes, bytes]:
    """Return the hashes that a path (RFC 9162, 2.1.3.2 and 2.1.4.2) leads to: without the nodes to its right, and with all."""
    old = new = start
    for node in path:
        if not last:
            return b"", b""
        if place & 1 or place == last:
            old, new = (sha256(b"\x01" + node + before).digest() for before in (old, new))
            while not place & 1 and place:
                place, last = place >> 1, last >> 1
        else:
            new = sha256(b"\x01" + new + node).digest()
        place, last = place >> 1, last >> 1
    return (old, new) if not last else (b"", b"")


def continued(old: int, size: int, root: bytes, path: list[bytes]) -> tuple[bytes, bytes]:
    """Return the roots of the older and of the younger log that a consistency proof leads to."""
    place, last = old - 1, size - 1
    while place & 1:
        place, last = place >> 1, last >> 1
    path = path if old & (old - 1) else [root, *path]
    return climb(place, last, path[0], path[1:]) if path else (b"", b"")


def check(proof: dict[str, Any], kept_id: str, kept_size: int, kept_root: bytes) -> str:
    """Return an empty text if the proof holds, or else the reason why it does not."""
    position, size, root = proof["position"], proof["size"], bytes.fromhex(proof["root"])
    row = [position, proof["stream"], proof["version"], proof["type"], proof["digest"]]
    record = json.dumps(["ledger/1", proof["previous"], *row], separators=(",", ":")).encode()
    leaf = sha256(b"\x00" + record).digest()
    if proof["ledger_id"] != kept_id:
        return f"the proof is of the ledger {proof['ledger_id']}, and the checkpoint is of the ledger {kept_id}"
    if not 1 <= position <= size or climb(position - 1, size - 1, leaf, nodes(proof["path"]))[1] != root:
        return "the event is not at the position that the proof names"
    state, erased = proof.get("state"), proof.get("erased_by") is not None
    if state is not None and not erased and sha256(state.encode()).hexdigest() != proof["digest"]:
        return "the state differs from the recorded state"
    if size == kept_size:
        return "" if root == kept_root else "the checkpoint covers other events than the proof"
    if proof.get("since") != kept_size or not kept_size < size:
        return f"the proof is about {size} events and the checkpoint covers {kept_size}: prove it --against that"
    ends = continued(kept_size, size, kept_root, nodes(proof["consistency"]))
    return "" if ends == (kept_root, root) else "the log of the proof does not continue what the checkpoint covers"


def main(arguments: list[str]) -> int:
    try:
        proof_path, checkpoint_path = arguments
        with open(proof_path, encoding="utf-8") as source, open(checkpoint_path, encoding="utf-8") as kept:
            proof, checkpoint = json.loads(source.read()), re.match(CHECKPOINT, kept.read())
        hexadecimal = all(re.fullmatch(f"[0-9a-f]{{{count}}}", proof[name]) for name, count in DIGITS.items())
        whole = all(type(proof[name]) is int for name in ("position", "version", "size"))
        if checkpoint is None or not hexadecimal or not whole:
            raise ValueError("CHECKPOINT is not a checkpoint" if checkpoint is None else "PROOF is not a proof")
        wrong = check(proof, checkpoint[1], int(checkpoint[2]), base64.b64decode(checkpoint[3]))
    except (KeyError, OSError, RecursionError, TypeError, ValueError) as error:
        print(f"usage: check_proof.py PROOF CHECKPOINT; the two files cannot be read: {error!r}", file=sys.stderr)
        return 2
    if wrong:
        print(f"NOT PROVEN: {wrong!a}")
        return 1
    size, relation = proof["size"], "continues" if proof["size"] != int(checkpoint[2]) else "is"
    print(f"ok: position {proof['position']} is {proof['type']!a}, version {proof['version']} of {proof['stream']!a},")
    print(f"in a log of {size} events that {relation} what the checkpoint covers; its digest is {proof['digest']}")
    if proof.get("state") is not None:
        erased = proof.get("erased_by") is not None
        print(f"{'not proven, for text of it was erased since:' if erased else 'it says'} {proof['state']!a}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
