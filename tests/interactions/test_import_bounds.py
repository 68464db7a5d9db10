"""An import is bounded: by the kind of file, the length of a line, the size after decompression, the depth, and the time."""

from __future__ import annotations

import gzip
import json
import os
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from ledger import Ledger, RejectedError, StorageError
from ledger.engine import given_files
from ledger.interactions import importing


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(tmp_path / "memory.db", actor="ada") as ledger:
        yield ledger


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bounds as they are, only smaller, so that a test file may pass them."""
    monkeypatch.setattr(importing, "LINE_BYTES", 2_000)
    monkeypatch.setattr(importing, "LIST_BYTES", 5_000)
    monkeypatch.setattr(given_files, "TOTAL_BYTES", 1_000_000)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("packed", [False, True])
def test_a_line_that_is_too_long_is_a_bad_one_and_is_never_held(ledger: Ledger, tmp_path: Path, packed: bool) -> None:
    long = json.dumps({"prompt": "x" * 500_000})
    text = "\n".join(['{"prompt": "one"}', long, "", '{"prompt": "two"}', long]).encode()
    file = tmp_path / ("turns.jsonl.gz" if packed else "turns.jsonl")
    file.write_bytes(gzip.compress(text) if packed else text)
    with pytest.raises(RejectedError, match="more than 1,000,000 bytes"):
        ledger.interactions.import_file(file)
    assert not ledger.interactions.list()
    file.write_bytes(gzip.compress(text[:-1000]) if packed else text[:-500_000])
    report = ledger.interactions.import_file(file)
    assert report.captured == 2
    assert [(number, why) for number, why in report.errors if number == 2] == [(2, "it has more than 2,000 bytes")]


@pytest.mark.usefixtures("small")
def test_a_list_that_is_too_long_or_too_deep_is_refused_before_anything_is_written(
    ledger: Ledger, tmp_path: Path
) -> None:
    bomb, deep = tmp_path / "bomb.json.gz", tmp_path / "deep.json"
    bomb.write_bytes(gzip.compress(b"[" + b" " * 900_000 + b"]"))
    deep.write_text("[" * 4_000)
    with pytest.raises(RejectedError, match="more than 5,000 bytes after decompression"):
        ledger.interactions.import_file(bomb)
    with pytest.raises(RejectedError, match="no JSON list of conversations"):
        ledger.interactions.import_file(deep)
    nested = tmp_path / "nested.jsonl"
    nested.write_text('{"prompt": "one", "context_pack": ' + '{"a":' * 200 + "1" + "}" * 201 + "\n")
    assert [number for number, _ in ledger.interactions.import_file(nested).errors] == [1]
    assert not ledger.interactions.list()


@pytest.mark.parametrize("given", ["/dev/zero", "a pipe", "a directory"])
def test_only_a_regular_file_is_read(ledger: Ledger, tmp_path: Path, given: str) -> None:
    path = given if given.startswith("/") else str(tmp_path / given)
    if given == "a pipe":
        os.mkfifo(path)
    elif given == "a directory":
        os.mkdir(path)
    kind = {"/dev/zero": "a device"}.get(given, given)
    with pytest.raises(RejectedError, match=f"regular file, and .* is {kind}"):
        ledger.interactions.import_file(path)
    with pytest.raises(RejectedError, match=f"regular file, and .* is {kind}"):
        Ledger.import_log(path, tmp_path / "other.db")


def test_a_damaged_archive_is_a_typed_error(ledger: Ledger, tmp_path: Path) -> None:
    file = tmp_path / "turns.jsonl.gz"
    data = bytearray(gzip.compress(json.dumps({"prompt": "hello there"}).encode() * 50))
    data[len(data) // 2] ^= 0xFF
    for bad in (bytes(data), bytes(data[:-9]), b"no archive"):
        file.write_bytes(bad)
        with pytest.raises(StorageError):
            ledger.interactions.import_file(file)


def test_an_import_stops_when_it_is_told_to_and_the_same_call_goes_on(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "CHUNK", 10)
    file, seen = tmp_path / "turns.jsonl", list[int]()
    file.write_text("".join(json.dumps({"prompt": f"question {number}"}) + "\n" for number in range(35)))
    first = ledger.interactions.import_file(
        file, progress=lambda done, of: seen.append(done), cancel=lambda: len(seen) > 1
    )
    assert (first.captured, first.stopped, first.ok, seen) == (20, "cancelled", False, [10, 20])
    out_of_time = ledger.interactions.import_file(file, timeout=1e-9)
    assert (out_of_time.captured, out_of_time.stopped) == (0, "timeout")
    second = ledger.interactions.import_file(file)
    assert (second.captured, second.known, second.stopped, second.ok) == (15, 20, "", True)
    assert len(ledger.interactions.list()) == 35


def test_a_file_of_many_long_lines_is_never_held_as_a_whole(ledger: Ledger, tmp_path: Path) -> None:
    def most(count: int) -> int:
        file = tmp_path / f"{count}.jsonl"
        file.write_text(("1" + " " * 1_000_000 + "\n") * count)
        tracemalloc.start()
        try:
            assert len(ledger.interactions.import_file(file).errors) == count
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    few = most(4)
    assert most(40) < 2 * few
