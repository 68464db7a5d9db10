"""A fuzzer of every input that a stranger can hand in: the result is a typed error or an answer, never anything else.

atheris (coverage guided) is used if it is installed. Otherwise a mutation fuzzer of our own takes the same corpus; it is
weaker, and the notes say so. Each target runs in a process of its own. The product is imported only there, so that atheris
can instrument it: a target that is not instrumented gives no coverage.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from tools.crash.result import Result

ROOT = Path(__file__).resolve().parents[2]
QUICK = "/dev/shm" if os.path.isdir("/dev/shm") else None  # durability is not tested here
SHORT_SECONDS, LONG_SECONDS = 2, 600
LONGEST_INPUT_BYTES, SLOWEST_INPUT_SECONDS = 4_096, 20
RENEWED_AFTER = 2_000  # inputs that are written into one ledger before the next begins
INSTRUMENTED = ("ledger", "projections")
TOLD_CHARS = 1_500

Target = Callable[[bytes], None]


def run(short: bool, seed: int) -> Result:
    started = time.monotonic()
    engine = "atheris" if importlib.util.find_spec("atheris") else "own"
    seconds = SHORT_SECONDS if short else LONG_SECONDS
    with (
        tempfile.TemporaryDirectory(prefix="ledger-fuzz-", dir=QUICK) as folder,
        ThreadPoolExecutor(os.cpu_count()) as pool,
    ):
        futures = {name: pool.submit(fuzzed, Path(folder), name, engine, seconds, seed) for name in (*TARGETS, BUG)}
        outcomes = {name: future.result() for name, future in futures.items()}
    failures = [f"{name}: {error}" for name, (_, error) in outcomes.items() if error and name != BUG]
    if not outcomes[BUG][1]:
        failures.append(f"control: the seeded bug was not found in {outcomes[BUG][0]:,} inputs")
    elif SEEDED not in outcomes[BUG][1]:
        failures.append(f"control: instead of the seeded bug the fuzzer found {outcomes[BUG][1]}")
    runs = {name: count for name, (count, _) in outcomes.items() if name != BUG}
    notes = (
        "by atheris, coverage guided"
        if engine == "atheris"
        else "atheris is not installed: by our own mutations, unguided",
        ", ".join(f"{name} {count:,}" for name, count in runs.items()),
        f"control: the seeded bug was found after {outcomes[BUG][0]:,} inputs"
        if outcomes[BUG][1]
        else "control failed",
    )
    return Result("fuzz", sum(runs.values()), tuple(failures), time.monotonic() - started, notes=notes)


def fuzzed(folder: Path, name: str, engine: str, seconds: int, seed: int) -> tuple[int, str]:
    """Return the number of inputs that a target took, and the error of an input (blank without any)."""
    own = folder / name
    own.mkdir(mode=0o700)
    code = "import sys; from tools.crash import fuzz; fuzz.take_part(*sys.argv[1:])"
    command = [sys.executable, "-c", code, str(own), name, engine, str(seconds), str(seed)]
    try:
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, errors="replace", timeout=seconds * 3 + 60
        )
    except subprocess.TimeoutExpired:
        return 0, f"the process did not end {seconds * 2 + 60} s after its time"
    output = done.stdout + done.stderr
    counted = re.findall(r"number_of_executed_units:? *(\d+)", output)
    runs = int(counted[-1]) if counted else 0
    if done.returncode == 0 and runs:
        return runs, ""
    return runs, error_in(output, own) or f"the process ended with {done.returncode}"


def error_in(output: str, folder: Path) -> str:
    """Return the traceback and the input of the error that ended a process, from its output."""
    kept = [line for line in output.splitlines() if not line.startswith(("INFO:", "#", "stat::", "WARNING:"))]
    inputs = [file.read_bytes()[:200] for file in sorted(folder.glob("bad-*"))]
    shown = f"input {inputs[0]!r}: " if inputs else ""
    return shown + "\n".join(kept)[:TOLD_CHARS]


# --- in a process of its own -----------------------------------------------------------------------------------------


def take_part(folder: str, name: str, engine: str, seconds: str, seed: str) -> None:
    place = Path(folder)
    if engine == "atheris":
        by_atheris(place, name, int(seconds), int(seed))
    else:
        by_mutation(place, name, int(seconds), int(seed))


def by_atheris(place: Path, name: str, seconds: int, seed: int) -> None:
    atheris: Any = importlib.import_module("atheris")
    with atheris.instrument_imports(include=list(INSTRUMENTED)):
        import ledger.api  # this imports everything below the public surface  # noqa: F401
        import ledger.care.opening  # noqa: F401
    target, corpus = prepared(place, name)
    if name == BUG:
        target = atheris.instrument_func(a_bug)
    (place / "corpus").mkdir()
    for number, data in enumerate(corpus):
        (place / "corpus" / str(number)).write_bytes(data)
    options = [f"-max_total_time={seconds}", f"-seed={seed}", f"-max_len={LONGEST_INPUT_BYTES}"]
    options += [f"-timeout={SLOWEST_INPUT_SECONDS}", f"-artifact_prefix={place}/bad-", "-print_final_stats=1"]
    atheris.Setup([sys.argv[0], *options, str(place / "corpus")], forgiving(target))
    atheris.Fuzz()


def by_mutation(place: Path, name: str, seconds: int, seed: int) -> None:
    """Try inputs made of the corpus by a few random edits each, from one seed and without any guidance."""
    target, corpus = prepared(place, name)
    choose, guarded, runs = random.Random(f"{seed} {name}"), forgiving(target), 0
    until, code = time.monotonic() + seconds, 0
    while time.monotonic() < until and not code:
        data = corpus[runs] if runs < len(corpus) else mutated(choose.choice(corpus), corpus, choose)
        runs += 1
        try:
            guarded(data)
        except Exception:
            (place / "bad-input").write_bytes(data)
            print(traceback.format_exc(limit=-5))
            code = 1
    print(f"stat::number_of_executed_units: {runs}", flush=True)
    os._exit(code)


def mutated(data: bytes, corpus: list[bytes], choose: random.Random) -> bytes:
    for _ in range(choose.randint(1, 6)):
        start, end = sorted((choose.randint(0, len(data)), choose.randint(0, len(data))))
        donor = choose.choice(corpus)
        middle = (
            choose.choice(TOKENS),
            bytes([choose.randrange(256)]),
            data[start:end] * choose.randint(0, 3),
            donor[choose.randint(0, len(donor)) :][:20],
            b"",
        )
        data = (
            data[:start] + choose.choice(middle) + data[choose.choice((start, start, min(start + 1, len(data)), end)) :]
        )
    return data[:LONGEST_INPUT_BYTES]


def forgiving(target: Target) -> Target:
    """Return the target with typed errors taken for answers."""
    from ledger import LedgerError

    def call(data: bytes) -> None:
        with suppress(LedgerError):
            target(data)

    return call


def prepared(place: Path, name: str) -> tuple[Target, list[bytes]]:
    return TARGETS[name](place) if name in TARGETS else (a_bug, list(HOSTILE))


# --- the corpus ------------------------------------------------------------------------------------------------------

HOSTILE = tuple(
    text.encode("utf-8", "surrogatepass")
    for text in (
        "", " ", "tea", "NUL \0 inside", "bidi \u202eabc\u202c", "\U0001f600\u200d", "cafe\u0301", "%_ ' \" \\ ;", "\ufeff",
        "\ud800", "\U000e0041", '"', "don't", "a:b", "-x", "*", "a*", "{t}:x", "NEAR(a b)", "a OR b", "^a", "(", "AND", "x" * 300,
        "ß ſ İ ı ǅ ﬃ", "m_", "m_0000000000000000", "m_%", "i_zzzz", "../../x", "file:x?mode=memory", "CON", "NaN", "1e999",
    )
)  # fmt: skip
TOKENS = (
    *HOSTILE,
    *(b'{"', b'"}', b"[", b"]", b":", b",", b"null", b"-", b"+", b"Z", b"T", b"\\ud800", b"18446744073709551616"),
)
LINES = (
    b'{"prompt": "What?", "response": "Tea.", "project": "home", "session_id": "s1", "client": "cli"}',
    b'{"prompt": "What?", "occurred_at": "2026-11-21T09:30:00+01:00", "memories_used": ["m_0000000000000000"]}',
    b'{"prompt": "\\ud800", "context_pack": {"a": [1, 2.5, null, {"b": true}]}, "line_id": "1"}\n{"prompt": 5}\n\n{"x": 1}',
    b'[{"sample_id": "a", "turns": [{"speaker": "Ann", "session": "1", "date_time": "2026-11-21", "text": "Hello"},'
    b' {"speaker": "Bob", "session": "1", "date_time": "2026-11-21", "text": "Hello, Ann"}]}]',
    b"[" * 200,
    b'{"prompt": "NaN", "context_pack": {"x": NaN, "y": 1e999, "z": 18446744073709551616}}',
    # inputs that once broke the product: a turn without a session, and half a character in a list
    b'[{"sample_id": "a", "turns": [{"speaker": "Ann", "text": "Hello"}, {"speaker": "Bob", "text": "Hello, Ann"}]}]',
    b'{"prompt": "What?", "memories_used": ["\\ud800"]}',
)
TIMES = (
    b"2026-11-21T09:30:00Z", b"2026-11-21 09:30:00.123456+0100", b"2026-02-30", b"2026-11-21", b"0001-01-01T00:00:00+23:59",
    b"9999-12-31T23:59:59-12:00", b"2026-W47-6", b"20261121T093000", b"2026-11-21T24:00", b"2026-11-21T09:30:60Z", b"now",
)  # fmt: skip


def text_of(data: bytes) -> str:
    """Return bytes as text; bytes that are not UTF-8 become lone surrogates."""
    return data.decode("utf-8", "surrogateescape")


# --- targets ---------------------------------------------------------------------------------------------------------


class Renewed:
    """A ledger with a few memories, begun again before its growth makes it slow."""

    def __init__(self, place: Path) -> None:
        self._place, self._count = place, 0
        self._ledger: Any = None

    def __call__(self) -> Any:
        from ledger import Ledger

        if self._ledger is None or not self._count % RENEWED_AFTER:
            if self._ledger is not None:
                self._ledger.close()
            for old in self._place.glob("memory.db*"):
                old.unlink()
            self._ledger = Ledger.open(self._place / "memory.db")
            for text in ("The user prefers green tea.", "The office moved to Porto."):
                self._ledger.remember(text, project="home")
            self._ledger.capture("Where is the office?", "In Porto.")
        self._count += 1
        return self._ledger


def import_file(place: Path) -> tuple[Target, list[bytes]]:
    ledger = Renewed(place)

    def target(data: bytes) -> None:
        path = place / ("lines.jsonl.gz" if data[:1] == b"\x1f" else "lines.jsonl")
        path.write_bytes(data)
        report = ledger().interactions.import_file(path)
        assert report.captured + report.known + len(report.errors) == report.lines

    return target, list(LINES)


def import_log(place: Path) -> tuple[Target, list[bytes]]:
    from ledger import Ledger

    Renewed(place)().maintenance.export_log(place / "export.jsonl")
    whole = (place / "export.jsonl").read_bytes()

    def target(data: bytes) -> None:
        for old in place.glob("copy.db*"):
            old.unlink()
        (place / "log.jsonl").write_bytes(data)
        Ledger.import_log(place / "log.jsonl", place / "copy.db")

    return target, [whole, *(whole[: len(whole) * part // 4] for part in range(1, 4))]


def question(place: Path) -> tuple[Target, list[bytes]]:
    import sqlite3
    from typing import get_args

    from ledger.english.question import read
    from ledger.english.words import indexed
    from ledger.types import Corpus
    from projections.core.sqlite import create
    from projections.search.memory_hits import SEARCH

    ledger = Renewed(place)
    index = sqlite3.connect(":memory:")
    create(index, SEARCH)
    plain = re.compile(r'"[^"\0]+"(?: OR "[^"\0]+")*').fullmatch

    def target(data: bytes) -> None:
        text = text_of(data)
        match = read(text).expression
        if match:
            assert plain(match), f"the query holds something other than quoted words: {match!r}"
            index.execute("SELECT rowid FROM search WHERE search MATCH ?", (match,)).fetchall()
        index.execute("INSERT INTO search (rowid, content) VALUES (NULL, ?)", (indexed(text.replace("\0", " ")),))
        ledger().recall(text, among=get_args(Corpus))

    return target, list(HOSTILE)


def json_state(place: Path) -> tuple[Target, list[bytes]]:
    """Return a target whose first byte chooses the event type under which the rest is read."""
    from ledger.events import TYPES
    from ledger.log import registry
    from tools import inside

    names = [*sorted(TYPES), "FromTheFuture"]
    with inside.store(Renewed(place)()).snapshot() as connection:
        rows = connection.execute("SELECT type, state FROM events").fetchall()

    def target(data: bytes) -> None:
        try:
            state = data[1:].decode()
        except UnicodeDecodeError:
            return  # SQLite never gives such a TEXT to Python
        registry.decode(1, 1, "m_0000000000000000", 1, names[(data[:1] or b"\0")[0] % len(names)], state)

    states = [bytes([names.index(type_)]) + state.encode() for type_, state in rows]
    before_the_first = [
        state_bytes.replace(b'"recorded_at"', b'"schema":0,"recorded_at"') for state_bytes in states[:1]
    ]
    return target, [*states, *before_the_first, *LINES]


def time_parsing(place: Path) -> tuple[Target, list[bytes]]:
    from ledger.domain import times

    def target(data: bytes) -> None:
        text = text_of(data)
        stored = times.moment("since", text)
        assert len(stored) == 27 and times.moment("since", stored) == stored, f"{stored} is not the stored form"
        times.parse("occurred_at", times.with_offset("occurred_at", text))
        assert times.until("valid_to", text) >= stored

    return target, list(TIMES)


def id_prefixes(place: Path) -> tuple[Target, list[bytes]]:
    from ledger import NotFoundError

    ledger = Renewed(place)
    known = [memory.id for memory in ledger().memories.list()]

    def target(data: bytes) -> None:
        text, opened = text_of(data), ledger()
        for read in (opened.memories.get, opened.why, opened.interactions.get, opened.projects.get):
            with suppress(NotFoundError):
                read(text)
                assert text.strip(), "a blank id found something"
        opened.revise(text, "something else")

    return target, [*HOSTILE, *(id[:length].encode() for id in known for length in (3, 10, 18))]


def free_json(place: Path) -> tuple[Target, list[bytes]]:
    import msgspec

    from ledger.domain.text import check_json

    def target(data: bytes) -> None:
        try:
            value = json.loads(data)
        except (ValueError, RecursionError):
            return  # check_json takes values, so an input that is not JSON has no meaning
        checked = check_json("context_pack", value)
        assert msgspec.json.decode(msgspec.json.encode(checked)) == checked

    return target, list(LINES)


SEEDED = "the seeded bug"
BUG = "control"


def a_bug(data: bytes) -> None:
    """Break on a quotation mark with a star soon after it, which no input of the corpus has: the control."""
    mark = data.find(b'"')
    if mark >= 0:
        near = data[mark + 1 : mark + 4]
        if b"*" in near:
            raise ZeroDivisionError(SEEDED)


TARGETS: dict[str, Callable[[Path], tuple[Target, list[bytes]]]] = {
    "import_file": import_file,
    "import_log": import_log,
    "question": question,
    "json_state": json_state,
    "time_parsing": time_parsing,
    "id_prefixes": id_prefixes,
    "free_json": free_json,
}
