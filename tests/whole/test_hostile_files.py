"""Hostile files and texts of every decoder of the public API: each is taken, or refused by an error of ours."""

from __future__ import annotations

import base64
import gzip
import inspect
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from command_line import run
from hostile import BYTES, CELLS, HALF, RAW, TEXTS, VALUES, spoilt
from reads import PUBLIC, READERS, methods, named, opened, prepared, put

from ledger import Ledger, LedgerError, RejectedError
from ledger.core.settings import FIELDS, Settings
from ledger.erasure import certificates
from ledger.proof.api import Proofs

EVERY = os.environ.get("HYPOTHESIS_PROFILE") == "long"
LISTINGS = sorted(
    name for name, method in methods() if str(inspect.signature(method.function).return_annotation).startswith("Page[")
)

LINE = {
    "prompt": "Is the tide in?",
    "response": "It is.",
    "response_summary": "yes",
    "project": "boat",
    "session_id": "quay",
    "client": "phone",
    "occurred_at": "2026-01-01T10:00:00+01:00",
    "memories_used": ["m_0000000000000000"],
    "chunks_used": ["c"],
    "context_pack": {"a": 1},
    "line_id": "7",
    "metadata": {"deck": "upper"},
}
TALK = {
    "sample_id": "boat",
    "turns": [
        {"speaker": "Ada", "text": "Is the tide in?", "session": 1, "dia_id": "a", "date_time": "2026-01-01", "client": "c"},
        {"speaker": "Ben", "text": "It is.", "session": 1, "dia_id": "b", "date_time": "1 May, 2026"},
    ],
}  # fmt: skip


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ledger]:
    with Ledger.open(tmp_path_factory.mktemp("files") / "memory.db") as opened:
        yield opened


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a ledger gave away: the lines of its log, a certificate, a checkpoint, a proof, and a backup."""
    folder = tmp_path_factory.mktemp("exported")
    with Ledger.open(folder / "memory.db") as opened:
        for number in range(3):
            opened.remember(f"The tide turned {number} times.")
        opened.capture("Long?", "word " * 60_000)
        opened.maintenance.backup(folder / "backup.db")
        opened.erase(opened.remember("The cellar floods.").id)
        opened.maintenance.export_log(folder / "log.jsonl")
        checkpoint = opened.proof.checkpoint()
        return {
            "ledger": folder / "memory.db",
            "backup": folder / "backup.db",
            "log": [json.loads(each) for each in (folder / "log.jsonl").read_text(encoding="utf-8").splitlines()],
            "certificate": opened.erasures.certificates()[0],
            "checkpoint": checkpoint,
            "proof": opened.proof.prove(3),
        }


def written(place: Path, data: bytes) -> Path:
    place.unlink(missing_ok=True)
    descriptor = os.open(place, os.O_CREAT | os.O_WRONLY, 0o600)
    with open(descriptor, "wb") as file:
        file.write(data)
    return place


def dumped(value: object) -> bytes:
    return json.dumps(value).encode()


def tried(call: Callable[[], object]) -> str:
    """Return "" where a call answers or is refused, and else the error that is none of ours."""
    try:
        call()
    except LedgerError as error:
        return "" if str(error).strip() else f"{error!r} says nothing"
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:100]}"
    return ""


def wrong(cases: Iterator[tuple[object, Callable[[], object]]]) -> dict[str, str]:
    return {repr(case)[:100]: problem for case, call in cases if (problem := tried(call))}


# --- imports of turns ------------------------------------------------------------------------------------------------


def test_a_file_of_turns_of_whatever_bytes_is_read_or_refused(ledger: Ledger, tmp_path: Path) -> None:
    def cases() -> Iterator[tuple[object, Callable[[], object]]]:
        for number, data in enumerate(BYTES):
            for name in (f"{number}.jsonl", f"{number}.json", f"{number}.jsonl.gz"):
                raw = gzip.compress(data) if name.endswith(".gz") and number % 2 else data
                path = written(tmp_path / name, raw)
                yield (name, data), lambda path=path: ledger.interactions.import_file(path)  # type: ignore[misc]
                yield (name, data), lambda path=path: ledger.interactions.import_file(path, strict=True)  # type: ignore[misc]

    assert wrong(cases()) == {}


@pytest.mark.parametrize("form", ["lines", "list"])
def test_a_spoilt_turn_of_a_file_is_named_and_the_good_ones_come_in(ledger: Ledger, tmp_path: Path, form: str) -> None:
    items_of_form = spoilt(LINE if form == "lines" else TALK)
    spoilt_lines = [item for place, item in items_of_form if "date_time" not in place]  # such a date refuses the file
    good = (
        LINE | {"prompt": f"Good {form}?"}
        if form == "lines"
        else {"sample_id": "g", "turns": [{"text": f"Good {form}?"}]}
    )
    items = [*spoilt_lines, good]
    data = b"\n".join(map(dumped, items)) if form == "lines" else dumped(items)
    path = written(tmp_path / f"{form}.json", data)
    report = ledger.interactions.import_file(path)
    assert report.errors and all(reason.strip() for _, reason in report.errors)
    assert ledger.interactions.import_file(path, dry_run=True).errors == report.errors
    assert f"Good {form}?" in [each.prompt for each in ledger.interactions.list(limit=1_000)]
    assert ledger.proof.verify().ok


# --- logs, certificates, proofs --------------------------------------------------------------------------------------


def test_a_log_of_whatever_bytes_is_refused_and_leaves_nothing(exported: dict[str, Any], tmp_path: Path) -> None:
    header = dumped(exported["log"][0])
    for data in BYTES:
        for raw in (data, header + b"\n" + data + b"\n"):
            path = written(tmp_path / "log.jsonl", raw)
            with pytest.raises(RejectedError):
                Ledger.import_log(path, tmp_path / "made.db")
            assert os.listdir(tmp_path) == ["log.jsonl"], data[:40]


def test_a_spoilt_line_of_a_log_is_refused_and_leaves_nothing(exported: dict[str, Any], tmp_path: Path) -> None:
    lines = exported["log"]
    blob = next(number for number, each in enumerate(lines) if "blob" in each)
    for place in (0, 2, blob):
        for where, line in spoilt(lines[place], VALUES[:: 1 if EVERY else 4]):
            unread = ("ledger", "key", "erased_by") if place == blob else ("ledger", "key")
            if where == "one too many" or where.startswith(unread) or line == lines[place]:
                continue  # what an import does not read, or no chain covers
            path = written(tmp_path / "log.jsonl", b"\n".join(map(dumped, [*lines[:place], line, *lines[place + 1 :]])))
            with pytest.raises(LedgerError):
                Ledger.import_log(path, tmp_path / "made.db")
            assert os.listdir(tmp_path) == ["log.jsonl"], where


def test_a_spoilt_certificate_erases_nothing(exported: dict[str, Any], tmp_path: Path) -> None:
    whole = json.loads(exported["certificate"])
    half = json.dumps(whole | {"erasure": HALF}, ensure_ascii=False)
    for text in (*TEXTS, half, *(json.dumps(each) for where, each in spoilt(whole) if where != "one too many")):
        with pytest.raises(RejectedError):
            certificates.read(text, whole["ledger"], lambda *_: b"another mac")
    with pytest.raises(RejectedError):
        Ledger.recover(exported["backup"], tmp_path / "made.db", certificates=[half])
    assert not (tmp_path / "made.db").exists()


def test_a_spoilt_proof_is_refused_or_does_not_hold(exported: dict[str, Any]) -> None:
    proof, checkpoint = exported["proof"], exported["checkpoint"]
    whole = json.loads(proof.as_text())
    assert Proofs.check(proof.as_text(), checkpoint)
    for text in (*TEXTS, *(json.dumps(each, ensure_ascii=where[-1] in "13579") for where, each in spoilt(whole))):
        try:
            found = Proofs.check(text, checkpoint)
        except RejectedError:
            continue
        assert not found or all(json.loads(text).get(name) == whole[name] for name in BOUND), text


BOUND = ("ledger_id", "position", "size", "root", "path", "stream", "version", "type", "digest", "previous")


def test_a_spoilt_checkpoint_is_refused_or_covers_another_log(
    exported: dict[str, Any], ledger: Ledger, tmp_path: Path
) -> None:
    lines = exported["checkpoint"].text.splitlines()
    texts = [each for each in TEXTS if "\n" in each]
    for number in range(len(lines)):
        texts += [
            "\n".join([*lines[:number], each, *lines[number + 1 :]]) + "\n" for each in (*TEXTS, "head 0", "time never")
        ]
    for text in texts:
        with suppress(RejectedError):
            assert not Proofs.check(exported["proof"], text), text
    path = tmp_path / "checkpoint"
    for data in (*BYTES, *(each.encode(errors="surrogatepass") for each in texts[::5])):
        written(path, data)
        with pytest.raises(LedgerError):
            ledger.proof.verify(against=path)
        with pytest.raises(LedgerError):
            ledger.proof.verify(against=exported["checkpoint"], public_key=path)
        with pytest.raises(LedgerError):
            ledger.proof.checkpoint(signing_key=path)


def test_a_file_of_whatever_bytes_is_no_backup(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "memory.db"):
        pass
    head = (tmp_path / "memory.db").read_bytes()
    shutil.rmtree(tmp_path, ignore_errors=True)
    for data in (*BYTES, *(head[:size] for size in (16, 100, 512, 4_096, 5_000)), head[:4_096] + BYTES[2] * 4_096):
        tmp_path.mkdir(mode=0o700, exist_ok=True)
        path = written(tmp_path / "backup.db", data)
        for call in (
            lambda: Ledger.recover(path, tmp_path / "made.db"),  # noqa: B023
            lambda: Ledger.open(path, readonly=True),  # noqa: B023
        ):
            with pytest.raises(LedgerError):
                call()
        assert isinstance(Ledger.doctor(path).ok, bool)
        assert not (tmp_path / "made.db").exists()
        shutil.rmtree(tmp_path)


# --- documents, settings ---------------------------------------------------------------------------------------------


def test_a_document_of_whatever_bytes_is_stored_or_refused(ledger: Ledger, tmp_path: Path) -> None:
    def cases() -> Iterator[tuple[object, Callable[[], object]]]:
        for number, data in enumerate(BYTES):
            for suffix in ("md", "txt", "json"):
                path = written(tmp_path / f"{number}.{suffix}", data[:5_000])
                yield data, lambda path=path: ledger.documents.add(path)  # type: ignore[misc]

    assert wrong(cases()) == {}


TOML = (
    *("nan", "inf", "1e999", "9" * 400, "-1", "''", "'x'", '"\\ud800"', '"\\u0000"', "[]", "[[]]", "{}", "{a = 1}", "2026-01-01"),
    "true",
)  # fmt: skip


def test_settings_of_whatever_bytes_or_values_are_taken_or_refused(tmp_path: Path) -> None:
    def cases() -> Iterator[tuple[object, Callable[[], object]]]:
        lines = [f"{name} = {value}".encode() for name in (*FIELDS, "nothing") for value in TOML]
        for data in (*BYTES, *lines, b"[" * 10_000, b"a = " + b"[" * 10_000):
            path = written(tmp_path / "ledger.toml", data)
            yield data, lambda: Settings.load(tmp_path / "memory.db")
        path.unlink()
        for name in FIELDS:
            for value in (*VALUES, *CELLS):
                yield (name, value), lambda name=name, value=value: Settings.load(**{name: value})  # type: ignore[misc]

    assert wrong(cases()) == {}


# --- cursors, and the command line -----------------------------------------------------------------------------------


def cursors() -> Iterator[object]:
    for each in (*TEXTS, *map(json.dumps, VALUES)):
        yield each
        data = each.encode(errors="surrogatepass")
        yield base64.urlsafe_b64encode(data).decode()
        yield base64.urlsafe_b64encode(b'["mark", ' + data + b"]").decode()
    yield from VALUES


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, dict[str, Any]]]:
    with opened(put(tmp_path_factory.mktemp("filled") / "memory.db"), readonly=True) as prepared_ledger:
        yield prepared_ledger, prepared()[1]


def paged(filled: tuple[Any, dict[str, Any]], name: str, after: object) -> Any:
    """The first page of a listing behind a cursor."""
    place, names = filled
    for part in name.split(".")[:-1]:
        place = place.session(names["session"]) if part == "session" else getattr(place, part)
    asked = PUBLIC[name][0]
    options = dict(zip(asked.options, named(asked.options.values(), names), strict=True))
    return getattr(place, name.split(".")[-1])(*named(asked.words, names), **options | {"limit": 1, "after": after})


@pytest.mark.parametrize("name", LISTINGS)
def test_every_listing_refuses_an_invalid_cursor(filled: tuple[Any, dict[str, Any]], name: str) -> None:
    for cursor in cursors():
        if name == "history.log" and (cursor is None or isinstance(cursor, str | int)):
            assert tried(lambda cursor=cursor: paged(filled, name, cursor)) == ""  # type: ignore[misc]
        elif cursor is not None:
            with pytest.raises(RejectedError):
                paged(filled, name, cursor)


@pytest.mark.parametrize("name", LISTINGS)
def test_a_cursor_with_another_key_is_refused_or_gives_a_page(filled: tuple[Any, dict[str, Any]], name: str) -> None:
    cursor = paged(filled, name, None).next
    if cursor is None or name == "history.log":
        return  # a listing of one, and one whose cursors are positions
    mark, _ = json.loads(base64.urlsafe_b64decode(cursor + "=="))
    texts = (json.dumps([mark, each]) for each in (*VALUES, *CELLS))
    spoilt_cursors = [base64.urlsafe_b64encode(text.encode()).decode() for text in texts]
    assert wrong((each, lambda each=each: paged(filled, name, each)) for each in spoilt_cursors) == {}  # type: ignore[misc]


WORDS = (
    *("\udcff", HALF, "", " ", "-1", "9" * 400, "NaN", "m_", "m_0000", "[" * 9_000, "{", "2026-06-q1", "\u202e\x1b[31m", "a=b"),
)  # fmt: skip


def commands() -> list[tuple[str, int, str]]:
    """(command, which of its words, what stands there instead) of every read on the command line."""
    return [(name, at, word) for name, words in READERS.items() for at in range(len(words)) for word in WORDS]


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return put(tmp_path_factory.mktemp("shell") / "memory.db")


@pytest.mark.parametrize(
    "part", [pytest.param(slice(0, None, 40)), pytest.param(slice(20, None, 8), marks=pytest.mark.slow)], ids=str
)
def test_whatever_stands_on_the_command_line_is_no_error_of_python(db: Path, part: slice) -> None:
    names = prepared()[1]
    for name, at, word in commands()[part]:
        words = [str(names.get(each, each)) for each in READERS[name]]
        found = run(*name.split(), *words[:at], word, *words[at + 1 :], db=db)
        assert found.exit_code in (0, 1, 2, 3, 4, 5), (name, at, word, found)
        assert not RAW.search(found.stderr), (name, word)


SLOW = [
    pytest.param(each, marks=pytest.mark.slow)
    for each in ("remember -", "documents add - --title t", "session reconcile quay -")
]


@pytest.mark.parametrize("command", ["add -", "import -", *SLOW])
def test_whatever_comes_on_standard_input_is_no_error_of_python(tmp_path: Path, command: str) -> None:
    for data in BYTES:
        found = run(*command.split(), db=tmp_path / "memory.db", stdin=data)
        assert found.exit_code in (0, 1, 2, 3, 4, 5), (command, data, found)


# --- that these tests can fail ---------------------------------------------------------------------------------------


def test_the_corpus_finds_what_a_decoder_lets_through() -> None:
    def careless(text: str) -> object:
        return json.loads(text)["a"].encode()

    found = wrong((text, lambda text=text: careless(text)) for text in (*TEXTS, *map(json.dumps, VALUES)))  # type: ignore[misc]
    kinds = {each.partition(":")[0] for each in found.values()}
    assert {
        "JSONDecodeError",
        "TypeError",
        "KeyError",
        "AttributeError",
        "RecursionError",
        "UnicodeEncodeError",
    } <= kinds
