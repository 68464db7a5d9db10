"""Checkpoints: a small text that says the same however it comes back, sealed once for what is new, signed if wanted."""

from __future__ import annotations

import base64
import subprocess
import sys
import threading

import probe
import pytest
from command_line import run
from hypothesis import given
from hypothesis import strategies as st
from places import ROOT
from tampering import erase, recompute, tamper

from ledger import ConflictError, Ledger, NotFoundError, RejectedError, StorageError
from ledger.log.envelope import leaf
from ledger.proof.checkpoints import Stated, is_signed, parse, private_key, sign
from ledger.proof.merkle import Tree

PARTS = ("ab" * 16, 7, bytes(range(32)), bytes(32), "2026-03-01T12:00:00.000000Z")
TEXT = f"""memory-ledger/{"ab" * 16}
7
AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=
head {"00" * 32}
time 2026-03-01T12:00:00.000000Z
"""


def types(ledger):
    return [entry.type for entry in reversed(ledger.history.audit(limit=500))]


# --- the text --------------------------------------------------------------------------------------------------------


def test_the_text_is_frozen():
    assert Stated(*PARTS).text == TEXT
    assert parse(TEXT) == Stated(*PARTS)


@given(st.binary(min_size=16, max_size=16), st.integers(1, 2**62), st.binary(min_size=32, max_size=32), st.booleans())
def test_what_is_written_is_read(ledger_id, size, root, windows):
    stated = Stated(ledger_id.hex(), size, root, root[::-1], PARTS[4])
    text = stated.text.replace("\n", "\r\n") if windows else stated.text
    assert parse(text) == parse(f"\n{text.rstrip()}\n\n") == stated


@pytest.mark.parametrize(
    "text",
    [
        *["", "\n", "x", TEXT[14:], TEXT.replace("\n7\n", "\n07\n"), TEXT.replace("\n7\n", "\n0\n"), TEXT + "more\n"],
        *[TEXT.replace("\n7\n", "\n-7\n"), TEXT.replace("\n7\n", "\n٧\n"), TEXT.replace("\n7\n", f"\n{'9' * 40}\n")],
        *[
            TEXT.replace("h8=", "h9="),
            TEXT.replace("h8=", "h8"),
            TEXT.replace("head 00", "head 0"),
            TEXT.replace("head", ""),
        ],
        *[TEXT.replace("Z", ""), TEXT.replace("\n7", "\n\n7"), TEXT.replace("ab", "AB"), "\ufeff" + TEXT, TEXT * 2000],
        *[
            TEXT + "\nno signature\n",
            TEXT + "\n— name notbase64!\n",
            TEXT + "\n— name AA==\n",
            TEXT + "\n—  AAAAAAAA\n",
        ],
    ],
)
def test_what_is_no_checkpoint_is_refused(text):
    with pytest.raises(RejectedError, match="this is no checkpoint"):
        parse(text)


def test_the_signatures_of_others_are_theirs():
    witness = "— witness.example/w " + base64.b64encode(bytes(76)).decode() + "\n"
    assert parse(TEXT + "\n" + witness) == Stated(*PARTS)


# --- sealing ---------------------------------------------------------------------------------------------------------


def test_a_checkpoint_covers_all_events_before_it(ledger):
    ledger.remember("one")
    note = ledger.bind(actor="ann").proof.checkpoint()

    assert (note.size, note.position, note.ledger_id, note.signed) == (2, 3, ledger.id, False)
    tree, previous = Tree(), bytes(32)
    for row in probe.store(ledger).rows(1, 2):
        tree.add(leaf(previous, row.position, row.stream, row.version, row.type, row.digest))
        previous = row.head
    assert (note.root, note.head) == (tree.root().hex(), previous.hex())
    stated = parse(note.text)
    assert (stated.size, stated.root.hex(), stated.head.hex(), stated.time) == (2, note.root, note.head, note.time)
    assert ledger.history.audit(limit=1)[0].actor == "ann"


def test_asking_again_appends_nothing_and_gives_the_same(ledger):
    ledger.remember("one")
    note = ledger.proof.checkpoint()
    assert ledger.proof.checkpoint() == note and ledger.position == 3
    ledger.remember("two")
    later = ledger.proof.checkpoint()
    assert (later.size, later.position) == (4, 5)
    assert ledger.proof.checkpoint() == later
    assert types(ledger).count("CheckpointSealed") == 2


def test_the_next_checkpoint_goes_on_from_the_last(ledger, monkeypatch):
    notes = []
    for number in range(40):
        ledger.remember(f"fact {number}")
        if number % 3 == 0:
            notes.append(ledger.proof.checkpoint())
    walked = []
    monkeypatch.setattr(
        "ledger.proof.proving.counted", lambda rows, of, _: (walked.append(row[0]) or row for row in rows)
    )
    last = ledger.proof.checkpoint()
    assert last.position == notes[-1].position and walked == []
    ledger.remember("one more")
    ledger.proof.checkpoint()
    assert walked == list(range(notes[-1].size + 1, ledger.position))
    assert ledger.proof.verify(
        full=True
    ).ok  # which compares every sealed root with one that is computed from the start


def test_a_ledger_opened_for_reading_computes_without_sealing(tmp_path, clock):
    path = tmp_path / "memory.db"
    with Ledger.open(path, clock=clock) as ledger:
        ledger.remember("one")
    clock.advance(hours=1)
    with Ledger.open(path, readonly=True, clock=clock) as ledger:
        note = ledger.proof.checkpoint()
        assert (note.size, note.position, note.time) == (2, None, "2026-01-01T13:00:00.000000Z")
        assert ledger.position == 2
    with Ledger.open(path, clock=clock) as ledger:
        sealed = ledger.proof.checkpoint()
        assert (sealed.root, sealed.head, sealed.position) == (note.root, note.head, 3)
    with Ledger.open(path, readonly=True) as ledger:
        assert ledger.proof.checkpoint() == sealed


def test_two_at_the_same_time_seal_once(tmp_path):
    path = tmp_path / "memory.db"
    with Ledger.open(path) as ledger, Ledger.open(path) as other:
        ledger.remember("one")
        barrier, notes = threading.Barrier(2), []

        def seal(each):
            barrier.wait()
            notes.append(each.proof.checkpoint())

        threads = [threading.Thread(target=seal, args=(each,)) for each in (ledger, other)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert notes[0] == notes[1]
        assert types(ledger).count("CheckpointSealed") == 1


def test_what_comes_between_the_look_and_the_seal_is_not_covered(ledger, monkeypatch):
    from ledger.proof import proving

    computed = proving._computed

    def late(*given):
        found = computed(*given)
        threading.Thread(target=ledger.remember, args=("meanwhile",)).run()
        return found

    ledger.remember("one")
    monkeypatch.setattr(proving, "_computed", late)
    note = ledger.proof.checkpoint()
    monkeypatch.undo()
    assert (note.size, note.position) == (2, 4)
    assert ledger.proof.verify().ok and ledger.proof.verify().since == 2
    assert ledger.proof.checkpoint().size == 4


def test_a_batch_is_left_first(ledger):
    with ledger.batch(), pytest.raises(ConflictError, match="batch"):
        ledger.proof.checkpoint()


def test_a_damaged_log_is_not_sealed(tmp_path):
    path = tmp_path / "memory.db"
    with Ledger.open(path) as ledger:
        ledger.remember("one")
        ledger.proof.checkpoint()
        ledger.remember("two")
    tamper(path, "UPDATE events SET state = replace(state, 'two', 'lie')")
    with Ledger.open(path) as ledger, pytest.raises(StorageError, match=r"cannot be sealed: position 4:.*verify\(\)"):
        ledger.proof.checkpoint()
    recompute(path)
    tamper(path, "UPDATE events SET state = replace(state, 'one', 'lie')")
    recompute_without_seals(path)
    with Ledger.open(path) as ledger, pytest.raises(StorageError, match="the checkpoint sealed at position 3"):
        ledger.proof.checkpoint()


def recompute_without_seals(path):
    tamper(path, "UPDATE events SET type = 'Sealed' WHERE type = 'CheckpointSealed'")
    recompute(path)
    tamper(path, "UPDATE events SET type = 'CheckpointSealed' WHERE type = 'Sealed'")


def test_an_erased_row_leaves_every_checkpoint_as_it_was(tmp_path):
    path = tmp_path / "memory.db"
    with Ledger.open(path) as ledger:
        ledger.remember("one")
        note = ledger.proof.checkpoint()
        erase(ledger, 2)
        assert ledger.proof.verify(against=note, projections=False).problems == ()
        assert ledger.proof.checkpoint().size == 4


# --- signatures ------------------------------------------------------------------------------------------------------


@pytest.fixture
def keys(tmp_path):
    """The paths of a private key and its public one, in PEM and as OpenSSH writes them."""
    ed25519 = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ed25519")
    from cryptography.hazmat.primitives.serialization import (
        BestAvailableEncryption,
        Encoding,
        NoEncryption,
        PrivateFormat,
        PublicFormat,
    )

    key, paths = ed25519.Ed25519PrivateKey.generate(), {}
    public = key.public_key()
    made = {
        "key.pem": key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
        "key.ssh": key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()),
        "locked.pem": key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"x")),
        "public.pem": public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        "public.ssh": public.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH),
        "other.pem": ed25519.Ed25519PrivateKey.generate()
        .public_key()
        .public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        "rubbish.pem": b"no key at all",
    }
    for name, data in made.items():
        paths[name] = tmp_path / name
        paths[name].write_bytes(data)
    return paths | {"private": key, "public": public}


@pytest.mark.parametrize("private", ["key.pem", "key.ssh", "private"])
@pytest.mark.parametrize("public", ["public.pem", "public.ssh", "public"])
def test_a_signature_is_checked_with_the_public_key(ledger, keys, private, public):
    note = ledger.proof.checkpoint(signing_key=keys[private])
    assert note.signed and note.text.count("— ") == 1
    report = ledger.proof.verify(against=note, public_key=keys[public])
    assert (report.ok, report.signed) == (True, True)
    assert ledger.proof.verify(against=note).signed is None


def test_a_missing_a_foreign_and_a_changed_signature_are_problems(ledger, keys):
    note = ledger.proof.checkpoint(signing_key=keys["key.pem"])
    unsigned = ledger.proof.checkpoint()
    ledger.remember("more")
    later = ledger.proof.checkpoint()
    moved = later.text + "\n" + note.text.split("\n\n")[1]  # the signature of another checkpoint
    for text, key in ((unsigned.text, "public.pem"), (note.text, "other.pem"), (moved, "public.pem")):
        report = ledger.proof.verify(against=text, public_key=keys[key])
        assert (report.ok, report.signed) == (False, False)
        assert "no good signature" in report.problems[0]


def test_one_good_and_one_wrong_signature_in_its_name_are_not_good(keys):
    stated = sign(Stated(*PARTS), private_key(keys["private"]))
    assert is_signed(stated, keys["public"])
    ((key_id, signature),) = stated.signatures
    wrong = Stated(*PARTS, ((key_id, signature), (key_id, bytes(64))))
    assert not is_signed(wrong, keys["public"])
    assert parse(stated.text) == stated


def test_a_signed_note_is_as_others_read_it(keys):
    """The key id and the signed bytes as c2sp.org/signed-note says, computed here by hand."""
    from hashlib import sha256

    stated = sign(Stated(*PARTS), private_key(keys["private"]))
    name, value = stated.text.split("\n\n")[1].removeprefix("— ").split()
    data, raw = base64.b64decode(value), keys["public"].public_bytes_raw()
    assert name == TEXT.split("\n")[0]
    assert data[:4] == sha256(name.encode() + b"\n\x01" + raw).digest()[:4]
    keys["public"].verify(data[4:], TEXT.encode())


@pytest.mark.parametrize(
    ("which", "told"),
    [
        ("locked.pem", "passphrase"),
        ("rubbish.pem", "no key"),
        ("public.pem", "no key"),
        ("public", "Ed25519 private key"),
    ],
)
def test_what_is_no_private_key_is_refused(ledger, keys, which, told):
    before = ledger.position
    with pytest.raises(RejectedError, match=told):
        ledger.proof.checkpoint(signing_key=keys[which])
    assert ledger.position == before, "the key is looked at before anything is sealed"


def test_what_is_no_public_key_is_refused(ledger, keys):
    note = ledger.proof.checkpoint()
    for which, told in (("key.pem", "no key"), ("private", "Ed25519 public key"), ("rubbish.pem", "no key")):
        with pytest.raises(RejectedError, match=told):
            ledger.proof.verify(against=note, public_key=keys[which])
    with pytest.raises(NotFoundError):
        ledger.proof.checkpoint(signing_key="nowhere.pem")
    with pytest.raises(RejectedError, match="file of the ledger itself"):
        ledger.proof.checkpoint(signing_key=ledger.path)


def test_without_the_package_the_extra_is_named(ledger, keys, monkeypatch):
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.asymmetric", None)
    with pytest.raises(RejectedError, match=r'pip install "belief-ledger\[sign\]"'):
        ledger.proof.checkpoint(signing_key=keys["key.pem"])
    assert ledger.proof.checkpoint().size == 1


@pytest.mark.slow
def test_opening_and_verifying_load_no_cryptography(tmp_path):
    code = (
        "import sys; from ledger import Ledger\n"
        f"with Ledger.open({str(tmp_path / 'memory.db')!r}) as ledger:\n"
        "    assert ledger.proof.verify(against=ledger.proof.checkpoint()).ok\n"
        "print('cryptography' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_the_command_writes_the_text_as_it_is_and_signs_it(tmp_path, keys):
    db, note = tmp_path / "memory.db", tmp_path / "kept.txt"
    run("remember", "one", db=db)
    result = run("proof", "checkpoint", "--no-seal", db=db)
    assert result.exit_code == 0 and parse(result.stdout).size == 2
    note.write_text(run("proof", "checkpoint", "--signing-key", str(keys["key.pem"]), db=db).stdout, encoding="utf-8")
    assert parse(note.read_text(encoding="utf-8")).signatures
    public = ("--public-key", str(keys["public.pem"]))
    assert "signed by that key" in run("verify", "--against", str(note), *public, db=db).stdout
    assert run("verify", *public, db=db).exit_code == 4
    assert run("proof", "checkpoint", "--signing-key", str(keys["rubbish.pem"]), db=db).exit_code == 4
    assert run("proof", "checkpoint", "--signing-key", "nowhere", db=db).exit_code == 3
