"""The parts of the crash harness: what a disk loses, what the shim records, and that a program that lies is found out."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from places import ROOT

from tools.crash import __main__ as entrance
from tools.crash.checking import Found, lost
from tools.crash.kills import nth
from tools.crash.power_loss import MODELS, SECTOR, Disk, Operation, parse
from tools.crash.result import Result
from tools.crash.shim import Unavailable, build, together
from tools.crash.workload import acknowledged


def disk_after(*operations: Operation, **options) -> Disk:
    disk = Disk("/d", options.pop("image", {}), **options)
    for operation in operations:
        disk.apply(operation)
    return disk


def images(disk: Disk, model: str, draws: int = 200) -> list[dict[str, bytes]]:
    return [disk.image(model, random.Random(number)) for number in range(draws)]


CREATE = Operation("c", 1, 0, "/d/a")
SYNC_NAMES = Operation("s", 9, 0, "/d")
SYNC = Operation("s", 1, 0, "/d/a")


def write(offset: int, data: bytes) -> Operation:
    return Operation("w", 1, offset, "/d/a", data=data)


# --- what a disk loses -----------------------------------------------------------------------------------------------


def test_what_is_synced_survives_every_model():
    disk = disk_after(CREATE, write(0, b"one"), SYNC, SYNC_NAMES)
    for model in MODELS:
        assert all(image == {"a": b"one"} for image in images(disk, model, 20)), model


def test_what_is_not_synced_is_there_after_a_kill_and_gone_when_dropped():
    disk = disk_after(CREATE, write(0, b"one"), SYNC, SYNC_NAMES, write(3, b"two"))
    assert disk.image("killed", random.Random()) == {"a": b"onetwo"}
    assert disk.image("dropped", random.Random()) == {"a": b"one"}


def test_a_file_whose_folder_was_not_synced_may_be_gone_with_its_synced_bytes():
    disk = disk_after(CREATE, write(0, b"one"), SYNC)
    assert disk.image("dropped", random.Random()) == {}
    assert {tuple(image.values()) for image in images(disk, "subset")} == {(), (b"one",)}


def test_a_program_that_never_syncs_its_folder_loses_the_file():
    operations = (CREATE, write(0, b"one"), SYNC, SYNC_NAMES)
    assert disk_after(*operations, sync_names=False).image("dropped", random.Random()) == {}


def test_a_rename_and_an_unlink_that_were_not_synced_are_lost_or_kept():
    image = {"a": b"one", "b": b"two"}
    renamed = disk_after(Operation("r", 0, 0, "/d/a", "/d/b"), image=image)
    assert renamed.image("killed", random.Random()) == {"b": b"one"}
    assert renamed.image("dropped", random.Random()) == image
    unlinked = disk_after(Operation("u", 0, 0, "/d/a"), image=image)
    assert {tuple(sorted(each)) for each in images(unlinked, "prefix")} == {("a", "b"), ("b",)}


def test_a_second_name_that_was_not_synced_is_lost_or_kept_and_the_first_stays():
    linked = disk_after(Operation("l", 0, 0, "/d/a", "/d/b"), image={"a": b"one"})
    assert linked.image("killed", random.Random()) == {"a": b"one", "b": b"one"}
    assert linked.image("dropped", random.Random()) == {"a": b"one"}


def test_a_prefix_keeps_the_order_and_a_subset_does_not():
    disk = disk_after(CREATE, SYNC_NAMES, write(0, b"1"), write(1, b"2"), write(2, b"3"))
    assert {image["a"] for image in images(disk, "prefix")} == {b"", b"1", b"12", b"123"}
    subsets = {image["a"] for image in images(disk, "subset")}
    assert {b"", b"\0\0003", b"1\0003", b"\00023", b"123"} <= subsets


def test_a_truncation_is_lost_or_kept_like_a_write():
    disk = disk_after(Operation("o", 1, 0, "/d/a"), Operation("t", 1, 1, "/d/a"), image={"a": b"one"})
    assert {image["a"] for image in images(disk, "subset")} == {b"one", b"o"}


def test_a_torn_write_breaks_between_sectors_and_nowhere_else():
    before, after = b"a" * 3 * SECTOR, b"b" * 3 * SECTOR
    disk = disk_after(Operation("o", 1, 0, "/d/a"), write(0, after), image={"a": before})
    found = {image["a"] for image in images(disk, "torn")}
    cuts = [SECTOR, 2 * SECTOR]
    assert found == {each for cut in cuts for each in (after[:cut] + before[cut:], before[:cut] + after[cut:])}


def test_garbage_stays_within_the_sectors_and_the_bytes_that_were_written():
    disk = disk_after(Operation("o", 1, 0, "/d/a"), write(100, b"b" * 1_000), image={"a": b"a" * 2_000})
    found = [image["a"] for image in images(disk, "garbage")]
    assert all(each[:100] == b"a" * 100 and each[1_100:] == b"a" * 900 for each in found)
    middle = [each[SECTOR : 2 * SECTOR] for each in found]
    assert any(set(each) - set(b"ab") for each in middle) and b"b" * SECTOR in middle


def test_the_shared_memory_file_and_the_acknowledgements_are_on_no_disk():
    shared = Operation("c", 2, 0, "/d/x-shm"), Operation("w", 2, 0, "/d/x-shm", data=b"x")
    disk = disk_after(*shared, Operation("a", 3, 0, "/d/ACK", data=b'[2, "m_a", "active", "tea"]\n[3'))
    assert disk.image("killed", random.Random()) == {}
    assert acknowledged(disk.promised) == [(2, "m_a", "active", "tea")]


# --- what is promised ------------------------------------------------------------------------------------------------


def test_an_acknowledged_event_must_be_exactly_where_it_was_said_to_be():
    found = Found((), ("ledger", "m_a", "m_b"))
    assert lost([(2, "m_a", "active", "tea"), (3, "m_b", "", "")], found) == []
    for wrong in ((2, "m_b"), (4, "m_b"), (0, "m_b")):
        assert lost([(*wrong, "", "")], found) != []


@pytest.mark.parametrize(
    ("status", "text", "fine"),
    [("active", "tea", True), ("", "", True), ("candidate", "tea", False), ("active", "coffee", False)],
)
def test_an_acknowledged_status_and_text_must_read_as_they_were_given(status: str, text: str, fine: bool):
    found = Found((), ("ledger", "m_a"), None, {(2, "m_a"): ("active", "tea")})
    assert (lost([(2, "m_a", status, text)], found) == []) == fine


def test_an_erased_text_is_gone_and_an_acknowledged_backup_is_not():
    erased = Found((), ("ledger", "m_a"), None, {(2, "m_a"): ("erased", None)}, {"backup 1.db": 2})
    assert lost([(2, "m_a", "active", "tea"), (2, "backup 1.db", "", "")], erased) == []
    assert lost([(3, "backup 1.db", "", "")], erased) and lost([(2, "backup 2.db", "", "")], erased)


def test_the_kills_come_before_every_operation_once_in_as_many_turns():
    for operations in (1, 2, 7, 100, 333, 1_087):
        assert {nth(turn, operations) for turn in range(operations)} == set(range(1, operations + 1))


# --- the shim --------------------------------------------------------------------------------------------------------

PROGRAM = """
import errno, os, sys
from pathlib import Path
from tools.crash.shim import *
folder = Path(sys.argv[1])
shim = Shim(folder)
shim.arm(TRACE, to=os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT | os.O_APPEND))
file = os.open(folder / "a", os.O_RDWR | os.O_CREAT)
os.write(file, b"one")
os.pwrite(file, b"two", 7)
os.fsync(file)
os.ftruncate(file, 4)
os.write(os.open(folder / "ACK", os.O_WRONLY | os.O_CREAT), b"done")
os.rename(folder / "a", folder / "b")
os.link(folder / "b", folder / "c")
os.fsync(os.open(folder, os.O_RDONLY))
os.unlink(folder / "b")
shim.arm(FAIL, 2, 2, error=errno.ENOSPC)
told = [os.write(file, b"x")]
try:
    os.write(file, b"x")
except OSError as error:
    told.append(error.errno == errno.ENOSPC)
shim.arm(FAIL, 1, error=errno.EIO, half=True)
told.append(os.write(file, b"1234"))
print(told, shim.count, flush=True)
shim.arm(KILL, 3)
while True:
    os.write(file, b"x")
"""


@pytest.fixture(scope="module")
def shim(tmp_path_factory) -> Path:
    try:
        return build(tmp_path_factory.mktemp("shim"))
    except Unavailable as error:
        pytest.skip(str(error))


@pytest.mark.slow
def test_the_shim_records_fails_and_kills(shim, tmp_path):
    folder, trace = tmp_path / "watched", tmp_path / "trace"
    folder.mkdir()
    environment = os.environ | {"LD_PRELOAD": str(shim), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", PROGRAM, str(folder), str(trace)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (-9, "[1, True, 2] 1\n", "")
    operations = parse(trace.read_bytes())
    assert [each.kind for each in operations] == list("cwwst" + "ca" + "rlosu")
    assert [each.data for each in operations if each.data] == [b"one", b"two", b"done"]
    assert [each.offset for each in operations[1:5]] == [0, 7, 0, 4]
    assert operations[7][3:5] == (str(folder / "a"), str(folder / "b"))


@pytest.mark.slow
def test_a_disk_that_forgets_the_names_of_files_is_found_out(shim):
    losses = {"seed": "test", "images": 0, "controls": ["folders_never_synced"]}
    (found,) = together("tools.crash.power_loss:work", [losses])
    assert found["controls"]["folders_never_synced"][1] > 0 and found["failures"] == []


# --- the entrance ----------------------------------------------------------------------------------------------------


def test_the_entrance_runs_what_is_named_and_fails_when_a_test_does(monkeypatch, capsys):
    results = {"kills": Result("kills", 3, (), 0.1), "faults": Result("faults", 3, ("it is lost",), 0.1)}
    monkeypatch.setattr(entrance, "run", lambda name, module, short, seed, part: results[name])
    assert entrance.main(["--short", "kills"]) == 0
    assert entrance.main(["--long", "faults", "kills"]) == 1
    assert "it is lost" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        entrance.main(["--short", "kilns"])
