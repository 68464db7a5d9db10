"""After an erasure nobody can find out from the file, which has the key of all keyed digests, whether a guess is right."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterator
from pathlib import Path

import probe
from leftovers import RARE, remains, states

from ledger import Ledger
from ledger.domain.text import normalise

QUESTION = "Where does he live?"


def confirmations(secret: bytes, texts: list[str]) -> Iterator[bytes]:
    """What a guess could be recognised by: each digest of it, plain and keyed, whole and shortened."""
    forms = {form.encode() for text in texts for form in (text, json.dumps(text), text.casefold(), normalise(text))}
    for form in forms:
        for name in ("sha256", "sha1", "md5", "blake2b", "blake2s"):
            for digest in (hashlib.new(name, form).digest(), hmac.new(secret, form, name).digest()):
                yield digest[:8]
                yield digest.hex()[:16].encode()
        for key in (secret, secret[:32]):
            for size in (8, 16, 32):
                yield hashlib.blake2b(form, key=key, digest_size=size).digest()


def test_nothing_in_the_file_confirms_a_guess_of_an_erased_text(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    with Ledger.open(path) as ledger:
        turn = ledger.capture(QUESTION, RARE, reinforce=False)
        fact = ledger.remember(RARE, sources=[turn.id], idempotency_key="k1")
        before = {number: json.loads(state) for number, state in enumerate(states(ledger), 1)}
        secret = bytes.fromhex(probe.secret(ledger))
        report = ledger.erase(fact.id, sources="erase", derived="erase", quotes="erase")
        assert report.state == "completed"
        erased = {each.position for each in (*report.erased, *report.sources, *report.quotes)}
        assert {turn.position, fact.position} <= erased
        assert ledger.proof.verify().ok
    found = b"".join(each.read_bytes() for each in sorted(tmp_path.iterdir()))
    salts = [before[position]["salt"] for position in erased]
    assert all(len(salt) >= 16 and salt.encode() not in found for salt in salts), "a row's digest covers its salt"
    arguments = [given for each in before.values() if (given := each.get("arguments")) is not None]
    assert arguments and not any(each.encode() in found for each in arguments)
    assert not any(each in found for each in confirmations(secret, [RARE, QUESTION, f"{QUESTION}\n{RARE}"]))
    assert remains(tmp_path) == []
