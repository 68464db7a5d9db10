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
from ledger.care import copying, transfer
from ledger.core import given_files
from ledger.interactions import conversations, importing


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(tmp_path / "memory.db", actor="ada") as ledger:
        yield ledger


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bounds as they are, only smaller, so that a test file may pass them."""
    monkeypatch.setattr(importing, "LINE_BYTES", 2_000)
    monkeypatch.setattr(conversations, "CONVERSATION_BYTES", 5_000)
    monkeypatch.setattr(conversations, "TURN_BYTES", 2_000)
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
    assert [(number, why) for number, why in report.errors if number == 2] == [
        (2, "the line has more than 2,000 bytes")
    ]


@pytest.mark.usefixtures("small")
def test_a_list_that_is_too_long_or_no_list_is_refused_before_anything_is_written(
    ledger: Ledger, tmp_path: Path
) -> None:
    good = '{"sample_id": "garden", "turns": [{"text": "Hello."}]}'
    bomb, file = tmp_path / "bomb.json.gz", tmp_path / "list.json"
    bomb.write_bytes(gzip.compress(f"[{good}, ".encode() + b"1, " * 400_000 + b"1]"))
    with pytest.raises(RejectedError, match="more than 1,000,000 bytes after decompression"):
        ledger.interactions.import_file(bomb)
    for bad in (
        "[" * 4_000,
        f"[{good}",
        f"[{good},]",
        f"[{good}]]",
        f"[{good} {good}]",
        f"[{good}, {{]}}]",
        f"[{good}, x]",
    ):
        file.write_text(bad, encoding="utf-8")
        with pytest.raises(RejectedError, match="not a valid JSON list of conversations"):
            ledger.interactions.import_file(file)
    nested = tmp_path / "nested.jsonl"
    nested.write_text('{"prompt": "one", "context_pack": ' + '{"a":' * 200 + "1" + "}" * 201 + "\n", encoding="utf-8")
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
    with pytest.raises(RejectedError, match=f"regular file is read, and .* is {kind}"):
        ledger.interactions.import_file(path)
    with pytest.raises(RejectedError, match=f"regular file is read, and .* is {kind}"):
        Ledger.import_log(path, tmp_path / "other.db")


@pytest.mark.usefixtures("small")
def test_a_conversation_that_is_too_long_is_a_bad_one(ledger: Ledger, tmp_path: Path) -> None:
    def conversation(name: str, *texts: str) -> dict[str, object]:
        return {"turns": [{"text": text} for text in texts], "sample_id": name}

    long = [conversation("long", *["x" * 1_000] * 6), conversation("turn", "x" * 3_000, "after it")]
    file = tmp_path / "list.json"
    file.write_text(
        json.dumps([conversation("one", "Hello."), *long, conversation("two", "Good-bye.")]), encoding="utf-8"
    )
    report = ledger.interactions.import_file(file)
    assert [each.project for each in reversed(ledger.interactions.list())] == ["one", "two"]
    assert report.errors == (
        (2, "a conversation has at most 5,000 bytes, and this one has more"),
        (3, "a turn has at most 2,000 bytes, and one of this conversation has more"),
    )


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
    file.write_text(
        "".join(json.dumps({"prompt": f"question {number}"}) + "\n" for number in range(35)), encoding="utf-8"
    )
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
        file.write_text(("1" + " " * 1_000_000 + "\n") * count, encoding="utf-8")
        tracemalloc.start()
        try:
            assert len(ledger.interactions.import_file(file).errors) == count
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    few = most(4)
    assert most(40) < 2 * few


BOMBS = {  # name of the file -> what it says, as (begin, repeated, times, end); each is some kilobytes once it is packed
    "list.json.gz": (b"[", b"{},", 20_000, b"{}]"),
    "turns.json.gz": (b'[{"sample_id": "x", "turns": [', b"{},", 20_000, b"{}]}]"),
    "lines.jsonl.gz": (b"", b"{}\n", 20_000, b""),
    "fields.jsonl.gz": (b'{"prompt": "x"', b', "prompt": "x"', 1_000_000, b"}"),
    "context.jsonl.gz": (b'{"prompt": "x", "context_pack": {"a": [', b"{},", 4_000_000, b"{}]}}"),
    "used.jsonl.gz": (b'{"prompt": "x", "memories_used": [', b'"a",', 4_000_000, b'"a"]}'),
    "unknown.jsonl.gz": (b'{"prompt": "x", "more": [', b"{},", 4_000_000, b"{}]}"),
    "prompt.jsonl.gz": (b'{"prompt": "', b"\\u00e4", 300_000, b'"}'),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_small_file_that_expands_takes_bounded_memory(ledger: Ledger, tmp_path: Path, name: str) -> None:
    begin, repeated, times, end = BOMBS[name]
    file = tmp_path / name
    with gzip.open(file, "wb", compresslevel=1) as packed:
        packed.write(begin)
        for start in range(0, times, 10_000):
            packed.write(repeated * min(10_000, times - start))
        packed.write(end)
    assert file.stat().st_size < 250_000
    tracemalloc.start()
    try:
        report = ledger.interactions.import_file(file)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < (4_000_000 if times <= 20_000 else 8_000_000 + 4 * len(repeated) * times)
    assert report.captured + report.error_count == report.lines
    assert len(report.errors) == min(report.error_count, 1_000)


def test_the_first_1000_errors_and_warnings_are_listed_and_all_are_counted(ledger: Ledger, tmp_path: Path) -> None:
    file = tmp_path / "turns.jsonl"
    warned = {"prompt": "x", "memories_used": ["mem-1"]}
    file.write_text(
        '{"prompt": ""}\n' * 1_500 + "".join(json.dumps(warned | {"line_id": str(n)}) + "\n" for n in range(1_200)),
        encoding="utf-8",
    )
    for report in (ledger.interactions.import_file(file, dry_run=True), ledger.interactions.import_file(file)):
        assert (report.lines, report.captured, report.error_count, report.warning_count) == (2_700, 1_200, 1_500, 1_200)
        assert [number for number, _ in report.errors] == list(range(1, 1_001))
        assert [number for number, _ in report.warnings] == list(range(1_501, 2_501))
        assert not report.ok


LOG_BOMBS = {
    "an array": (b'{"position": 1, "state": [', b"[],", 4_000_000, b"[]]}"),
    "a long name": (b'{"position": 1, "stream": "', b"a", 20_000_000, b'"}'),
    "many fields": (b'{"position": 1', b', "x": 1', 2_000_000, b"}"),
    "no line break": (b'{"position": "', b"a", 80_000_000, b'"}'),
}


@pytest.mark.parametrize("name", LOG_BOMBS)
def test_a_line_of_a_log_takes_no_more_memory_than_its_bytes(tmp_path: Path, name: str) -> None:
    begin, repeated, times, end = LOG_BOMBS[name]
    file = tmp_path / "log.jsonl.gz"
    with gzip.open(file, "wb", compresslevel=1) as packed:
        packed.write(b'{"format": "memory-ledger/export/1", "events": 1}\n' + begin)
        for start in range(0, times, 1_000_000):
            packed.write(repeated * min(1_000_000, times - start))
        packed.write(end + b"\n")
    tracemalloc.start()
    try:
        with pytest.raises(RejectedError):
            Ledger.import_log(file, tmp_path / "copy.db")
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 8_000_000 + 2 * min(len(repeated) * times, transfer.LINE_BYTES)
    assert not (tmp_path / "copy.db").exists()


def test_an_import_of_a_log_holds_a_limited_number_of_characters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer, "CHUNK_CHARS", 100_000)
    monkeypatch.setattr(copying, "CHUNK_CHARS", 100_000)

    def most(rows: int) -> int:
        log = tmp_path / f"{rows}.jsonl"
        with Ledger.open(tmp_path / f"{rows}.db") as ledger, ledger.batch():
            for number in range(rows):
                ledger.capture(f"{number} " + "x" * 50_000, "y" * 50_000)
        with Ledger.open(tmp_path / f"{rows}.db") as ledger:
            ledger.maintenance.export_log(log)
        tracemalloc.start()
        try:
            transfer.import_log(log, tmp_path / f"{rows} again.db")
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert most(80) < 2 * most(20)
