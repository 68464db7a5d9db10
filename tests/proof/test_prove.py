"""Proofs: what a stranger with a checkpoint and a script of a hundred lines can check, and that nothing else holds."""

from __future__ import annotations

import ast
import base64
import json
import subprocess
import sys

import probe
import pytest
from command_line import run
from hypothesis import given
from hypothesis import strategies as st
from places import ROOT
from tampering import erase, recompute, tamper

from ledger import Ledger, RejectedError, StorageError
from ledger.proof.merkle import inclusion_ranges

SCRIPT = ROOT / "tools" / "check_proof.py"


@pytest.fixture
def filled(tmp_path):
    """A ledger of 21 events whose checkpoints cover 7, 14 and 20 of them."""
    with Ledger.open(tmp_path / "memory.db") as ledger:
        notes = []
        for number in range(17):
            ledger.remember(f"fact number {number}")
            if ledger.position in (7, 14, 20):
                notes.append(ledger.proof.checkpoint())
        assert [note.size for note in notes] == [7, 14, 20] and ledger.position == 21
        ledger.notes = notes
        yield ledger


def by_script(proof, note, tmp_path, isolated=True):
    """Exit code and output of the script, in a Python that has nothing but its standard library."""
    files = tmp_path / "proof.json", tmp_path / "kept.txt"
    for file, text in zip(files, (proof, note), strict=True):
        file.write_text(text, encoding="utf-8")
    flags = ("-I", "-S") if isolated else ()
    done = subprocess.run([sys.executable, *flags, str(SCRIPT), *map(str, files)], capture_output=True, text=True)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def checker():
    """The script's own functions, for where a process each would take too long."""
    space = {"__name__": "check_proof"}
    exec(compile(SCRIPT.read_text(encoding="utf-8"), str(SCRIPT), "exec"), space)
    return lambda proof, note: space["check"](proof, note.ledger_id, note.size, bytes.fromhex(note.root))


def as_file(proof, **changed):
    return json.loads(proof.as_text()) | changed


# --- the script ------------------------------------------------------------------------------------------------------


def test_the_script_has_a_hundred_lines_and_the_standard_library_only():
    text = SCRIPT.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 100
    tree = ast.parse(text, feature_version=(3, 8))
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert imported <= set(sys.stdlib_module_names)


def test_every_event_is_proven_against_every_checkpoint_that_covers_it(filled, checker):
    for note in filled.notes:
        for position in range(1, 21):
            proof = filled.proof.prove(position, against=note)
            assert checker(as_file(proof), note) == ""
            assert (proof.size == note.size) is (position <= note.size) is (proof.since is None)


def test_the_script_says_ok_and_what_the_event_is(filled, tmp_path):
    first, _, last = filled.notes
    code, told = by_script(filled.proof.prove(9, include_state=True).as_text(), last.text, tmp_path)
    assert code == 0 and "position 9 is 'MemoryCaptured'" in told and "fact number" in told
    assert "that is what the checkpoint covers" in told
    code, told = by_script(filled.proof.prove(9, against=first).as_text(), first.text, tmp_path)
    assert code == 0 and "that continues what the checkpoint covers" in told and "fact number" not in told
    code, told = by_script(filled.proof.prove(9).as_text(), last.text.replace("\n", "\r\n") + "\r\n— a b\r\n", tmp_path)
    assert code == 0


@pytest.mark.slow
def test_the_script_says_what_does_not_hold(filled, tmp_path):
    first, second, last = filled.notes
    proof = filled.proof.prove(9)
    assert by_script(proof.as_text(), first.text, tmp_path)[0] == 1
    assert "prove it --against" in by_script(proof.as_text(), second.text, tmp_path)[1]
    assert by_script(json.dumps(as_file(proof, type="MemoryRetracted")), last.text, tmp_path)[0] == 1
    for text, note in (("{}", last.text), ("[]", last.text), ("no", last.text), (proof.as_text(), "no"), ("", "")):
        assert by_script(text, note, tmp_path)[0] == 2
    assert subprocess.run([sys.executable, str(SCRIPT)], capture_output=True).returncode == 2


CHANGES = {
    "position": (8, 10, 0, -9, 29),
    "version": (2,),
    "stream": ("m_other",),
    "type": ("X",),
    "digest": ("00" * 32,),
    "previous": ("00" * 32,),
    "root": ("00" * 32,),
    "size": (19, 21, 7, 14),
    "path": ("", "AAAA", base64.b64encode(bytes(32)).decode(), base64.b64encode(bytes(32 * 5)).decode()),
    "ledger_id": ("00" * 16,),
    "state": ("{}",),
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in CHANGES.items() for value in values])
def test_nothing_of_a_proof_can_be_changed(filled, checker, name, value):
    proof = filled.proof.prove(9, include_state=True)
    assert checker(as_file(proof), filled.notes[2]) == ""
    assert checker(as_file(proof, **{name: value}), filled.notes[2])


@pytest.mark.parametrize(
    "consistency", ["", base64.b64encode(bytes(32)).decode(), base64.b64encode(bytes(160)).decode()]
)
def test_a_log_that_does_not_continue_the_checkpoint_is_told(filled, checker, consistency):
    first = filled.notes[0]
    proof = filled.proof.prove(9, against=first)
    assert checker(as_file(proof), first) == ""
    assert checker(as_file(proof, consistency=consistency), first)
    assert checker(as_file(proof, since=6), first)


@given(st.data())
def test_a_flipped_bit_in_a_proof_is_found(proven, data):
    checker, proof, note = proven
    for name in ("path", "consistency"):
        raw = bytearray(base64.b64decode(proof[name]))
        at = data.draw(st.integers(0, len(raw) * 8 - 1))
        raw[at // 8] ^= 1 << at % 8
        assert checker(proof | {name: base64.b64encode(raw).decode()}, note)


@pytest.fixture(scope="module")
def proven(tmp_path_factory, checker):
    with Ledger.open(tmp_path_factory.mktemp("proven") / "memory.db") as ledger:
        for number in range(10):
            ledger.remember(f"fact number {number}")
        note = ledger.proof.checkpoint()
        for number in range(10):
            ledger.remember(f"later {number}")
        ledger.proof.checkpoint()
        return checker, as_file(ledger.proof.prove(15, against=note)), note


# --- what is proven --------------------------------------------------------------------------------------------------


def test_without_anything_named_the_last_sealed_checkpoint_counts(filled):
    proof = filled.proof.prove(20)
    assert (proof.size, proof.root, proof.since, proof.state) == (20, filled.notes[2].root, None, None)
    row = probe.store(filled).row(20)
    assert (proof.stream, proof.version, proof.type, proof.digest) == (
        row.stream,
        row.version,
        row.type,
        row.digest.hex(),
    )
    assert filled.proof.prove(3, size=14).root == filled.notes[1].root
    assert filled.proof.prove(3, size=21).size == 21
    assert filled.proof.prove(3, size=21, against=filled.notes[0]).since == 7


@pytest.mark.parametrize("position", [0, -1, True, 1.0, "3", None, 2**63, 22, 10**9])
def test_what_is_no_position_of_the_log_is_refused(filled, position):
    with pytest.raises(RejectedError):
        filled.proof.prove(position)


def test_what_no_checkpoint_covers_is_refused_and_says_what_to_do(filled, tmp_path):
    with pytest.raises(RejectedError, match=r"the last one covers 20 events; proof.checkpoint\(\) makes one"):
        filled.proof.prove(21)
    with Ledger.open(tmp_path / "new.db") as ledger, pytest.raises(RejectedError, match="none was sealed yet"):
        ledger.proof.prove(1)


@pytest.mark.parametrize("size", [0, -1, True, 8, 22, "20"])
def test_a_size_is_that_of_a_log_with_the_event(filled, size):
    with pytest.raises(RejectedError):
        filled.proof.prove(9, size=size)


def test_a_checkpoint_of_another_ledger_or_another_past_is_refused(filled, tmp_path):
    with Ledger.open(tmp_path / "other.db") as other, pytest.raises(RejectedError, match=rf"{filled.id}.*{other.id}"):
        other.proof.prove(1, against=filled.notes[0])
    note = filled.notes[0]
    for size in (7, 14):
        text = note.text.replace("\n7\n", f"\n{size}\n").replace(
            note.text.split("\n")[2], filled.notes[2].text.split("\n")[2]
        )
        for position in (3, 20):
            with pytest.raises(StorageError, match="not the events that the checkpoint kept elsewhere covers"):
                filled.proof.prove(position, against=text)
    with pytest.raises(RejectedError, match="the log ends at 21"):
        filled.proof.prove(3, against=note.text.replace("\n7\n", "\n700\n"))


def test_a_log_that_was_changed_proves_nothing(filled, tmp_path):
    path, note = filled.path, filled.notes[1]
    filled.close()
    tamper(path, "UPDATE events SET digest = x'00' WHERE position = 3")
    with Ledger.open(path) as ledger, pytest.raises(StorageError, match="sealed at position 21"):
        ledger.proof.prove(9)
    tamper(path, "UPDATE events SET state = replace(state, 'number 1', 'lie') WHERE position = 3")
    recompute(path)
    with Ledger.open(path) as ledger:
        assert ledger.proof.prove(9).size == 20  # sound in itself
        with pytest.raises(StorageError, match="kept elsewhere"):
            ledger.proof.prove(9, against=note)


def test_a_log_with_a_gap_proves_nothing(filled):
    path = filled.path
    filled.close()
    tamper(path, "DELETE FROM events WHERE position = 5", "UPDATE events SET digest = 'text' WHERE position = 8")
    for position in (5, 8, 9):
        with Ledger.open(path, readonly=True) as ledger, pytest.raises(StorageError, match="damaged"):
            ledger.proof.prove(position)


# --- the state -------------------------------------------------------------------------------------------------------


def test_the_secret_of_the_ledger_is_never_shown(filled):
    assert filled.proof.prove(1).state is None
    with pytest.raises(RejectedError, match="secret"):
        filled.proof.prove(1, include_state=True)


def test_the_state_of_another_users_event_is_not_shown(tmp_path):
    with Ledger.open(tmp_path / "memory.db") as ledger:
        ledger.bind(user="ann").remember("what ann said")
        ledger.proof.checkpoint()
        assert ledger.proof.prove(2).state is None
        with pytest.raises(RejectedError, match="not this user's"):
            ledger.proof.prove(2, include_state=True)
        assert "what ann said" in ledger.bind(user="ann").proof.prove(2, include_state=True).state


def test_an_erased_event_is_still_proven_and_its_state_is_not(filled, tmp_path):
    erase(filled, 9)
    proof = filled.proof.prove(9, include_state=True)
    assert proof.erased_by == 22 and '"content":null' in proof.state
    code, told = by_script(proof.as_text(), filled.notes[2].text, tmp_path)
    assert code == 0 and "not proven, for text of it was erased" in told
    probe.rebuild(filled)


# --- size ------------------------------------------------------------------------------------------------------------


def test_an_inclusion_proof_of_a_million_events_is_at_most_a_kilobyte():
    for index in (0, 1, 524_287, 524_288, 999_998, 999_999):
        nodes = len(inclusion_ranges(index, 1_000_000))
        path = base64.b64encode(bytes(32 * nodes)).decode()
        told = json.dumps({"position": index + 1, "size": 1_000_000, "root": "0" * 64, "path": path})
        assert nodes <= 20 and len(told) <= 1_000


# --- the command -----------------------------------------------------------------------------------------------------


def test_the_command_prints_a_proof_for_the_script(filled, tmp_path):
    db, note = filled.path, tmp_path / "note.txt"
    note.write_text(filled.notes[0].text, encoding="utf-8")
    for arguments in (("9", "--against", str(note)), ("9", "--against", str(note), "--json")):
        result = run("proof", "prove", *arguments, db=db)
        assert result.exit_code == 0
        assert by_script(result.stdout, filled.notes[0].text, tmp_path)[0] == 0
    assert json.loads(run("proof", "prove", "3", "--size", "14", "--include-state", db=db).stdout)["state"].startswith(
        "{"
    )
    for arguments, code in (
        (("x",), 2),
        ((), 2),
        (("0",), 4),
        (("-1",), 4),
        (("21",), 4),
        (("3", "--size", "2"), 4),
    ):
        assert run("proof", "prove", *arguments, db=db).exit_code == code
    assert run("proof", "prove", "1", db=tmp_path / "nowhere.db").exit_code == 3
