"""A long rebuild is folded by a second process, some batches ahead: the same rows come out, whatever becomes of that process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from soundness import assert_sound
from test_rebuild import life

from ledger import Ledger, folding_ahead, sqlite_files
from ledger.folding_ahead import FoldingAhead, can_help
from projections import rebuild, search, sqlite
from projections.ahead import HandedRows, RowsAhead, Scattered, unpacked
from projections.graph import Graph
from projections.rebuild import Faltered
from projections.rows import Table, TextIndex
from projections.sqlite import SQLiteRows

needs_two = pytest.mark.skipif(not can_help(), reason="a second process helps where there is a second processor")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "memory.db"


@pytest.fixture(autouse=True)
def short_is_long(monkeypatch):
    monkeypatch.setattr(rebuild, "LONG", 1)
    monkeypatch.setattr(rebuild, "BATCH", 7)
    monkeypatch.setattr(rebuild, "TAIL", 3)


@pytest.fixture
def batches(monkeypatch):
    """How many batches the second process folded."""
    received, receive = [], FoldingAhead.receive

    def counted(self):
        folded = receive(self)
        received.append(folded)
        return folded

    monkeypatch.setattr(FoldingAhead, "receive", counted)
    return received


@pytest.fixture
def hashed(monkeypatch):
    """Of which projections the second process hashed the rows."""
    told, receive = [], FoldingAhead.receive_digests

    def counted(self):
        digests = receive(self)
        told.append(set(digests))
        return digests

    monkeypatch.setattr(FoldingAhead, "receive_digests", counted)
    return told


def longer_life(ledger):
    life(ledger)
    session = ledger.session("Long talk")
    for number in range(12):
        session.append("user", f"Message {number} about the half marathon and the tea.")
        ledger.remember(f"Fact {number} is about running.", tags=["running", str(number)])
        ledger.remember(f"Fact {number % 5} is about running.", actor=f"somebody {number}")
    ledger.ingest("# Tea\n\nGreen tea is brewed cool.\n\n# Coffee\n\nCoffee is brewed hot.", title="notes")
    ledger.undo(ledger.position)
    ledger.run_policies()


def found(ledger):
    return [hit.memory.id for hit in ledger.recall("coffee tea marathon running").items]


# --- the same rows ---------------------------------------------------------------------------------------------------


@needs_two
@pytest.mark.parametrize("batch", [1, 3, 10, 70])
def test_what_another_process_folded_are_the_rows_that_the_commands_gave(path, monkeypatch, batches, hashed, batch):
    monkeypatch.setattr(rebuild, "BATCH", batch)
    with Ledger.open(path) as ledger:
        longer_life(ledger)
        digest, known = ledger.digest(), found(ledger)
        assert ledger.rebuild().digest == digest
        assert len(batches) + 1 >= (ledger.position - rebuild.TAIL) // batch > 0
        assert found(ledger) == known
        assert hashed == [set(rebuild.FAR)]
        assert_sound(ledger)


@pytest.fixture
def waits(monkeypatch):
    """Makes the first process always wait for the second, or never."""

    def set_to(always):
        is_ready = FoldingAhead._is_ready
        monkeypatch.setattr(
            FoldingAhead, "_is_ready", lambda self, seconds: is_ready(self, seconds) if seconds else not always
        )

    return set_to


@needs_two
@pytest.mark.parametrize("slower", ["first", "second"])
def test_so_many_texts_that_the_index_takes_them_at_once(path, monkeypatch, batches, waits, slower):
    """Taken apart by whichever process has the time."""
    monkeypatch.setattr(rebuild, "BATCH", 150)
    monkeypatch.setattr(rebuild, "AHEAD", 1)
    waits(slower == "second")
    with Ledger.open(path) as ledger:
        with ledger.batch():
            made = [ledger.remember(f"Fact number{number} of running.") for number in range(400)]
            for memory in made[100:200]:
                ledger.supersede(memory.id, f"Newer than {memory.content}")
        digest = ledger.digest()
        assert ledger.rebuild().digest == digest
        assert any(folded.expanded.get("search") for folded in batches[1:]) == (slower == "first")
        assert [hit.memory.id for hit in ledger.recall("number317").items] == [made[317].id]
        assert_sound(ledger)


@needs_two
def test_commands_meanwhile_are_in_the_result(path, monkeypatch, batches):
    with Ledger.open(path) as ledger:
        longer_life(ledger)
        written, write = [], rebuild.Rebuild._write

        def and_a_command(self, rows, first):
            write(self, rows, first)
            if len(written) < 5:
                written.append(ledger.remember(f"Said during batch {len(written)}.").id)

        monkeypatch.setattr(rebuild.Rebuild, "_write", and_a_command)
        ledger.rebuild()
        assert len(written) == 5 and batches
        assert {ledger.memory(id).status for id in written} == {"active"}
        assert_sound(ledger)


@needs_two
def test_a_rebuild_on_opening_is_helped_too(path, batches):
    with Ledger.open(path) as ledger:
        longer_life(ledger)
        digest = ledger.digest()
    with sqlite.sqlite3.connect(path) as connection:
        connection.execute("DROP TABLE memories")
    connection.close()
    with Ledger.open(path) as ledger:
        assert ledger.digest() == digest and batches


# --- whatever becomes of it ------------------------------------------------------------------------------------------


@needs_two
@pytest.mark.parametrize("after", [0, 1, 4])
def test_where_the_second_process_dies_the_first_goes_on_alone(path, monkeypatch, after):
    with Ledger.open(path) as ledger:
        longer_life(ledger)
        digest, receive, received = ledger.digest(), FoldingAhead.receive, []

        def killed(self):
            if len(received) == after:
                self._process.kill()
                self._process.wait()
                while self._from.read(65_536):  # what it had said already
                    pass
            received.append(1)
            return receive(self)

        monkeypatch.setattr(FoldingAhead, "receive", killed)
        assert ledger.rebuild().digest == digest
        assert len(received) == after + 1
        assert_sound(ledger)


@pytest.mark.parametrize("executable", ["", "/nowhere/python", "/bin/true", sys.executable + "-not", "/usr/bin/uwsgi"])
def test_where_there_is_no_python_to_start_the_first_folds_alone(path, monkeypatch, executable, batches):
    with Ledger.open(path) as ledger:
        life(ledger)
        digest = ledger.digest()
        monkeypatch.setattr(sys, "executable", executable)
        assert ledger.rebuild().digest == digest
        assert not batches


def test_a_short_log_is_folded_by_one_process(path, monkeypatch, batches):
    monkeypatch.setattr(rebuild, "LONG", 20_000)
    with Ledger.open(path) as ledger:
        life(ledger)
        ledger.rebuild()
        assert not batches


@needs_two
def test_one_that_cannot_be_told_what_to_do_is_not_left_behind(path, monkeypatch, batches):
    started, write = [], folding_ahead._write

    def failing(pipe, data):
        if b"sys_path" in data:
            raise BrokenPipeError
        write(pipe, data)

    def kept(*command, popen=subprocess.Popen, **how):
        started.append(popen(*command, **how))
        return started[-1]

    with Ledger.open(path) as ledger:
        life(ledger)
        digest = ledger.digest()
        monkeypatch.setattr(folding_ahead, "_write", failing)
        monkeypatch.setattr(subprocess, "Popen", kept)
        assert ledger.rebuild().digest == digest
    (process,) = started
    assert not batches and process.returncode is not None and process.stdin.closed and process.stdout.closed


@needs_two
def test_one_that_takes_too_long_is_not_waited_for(path, monkeypatch, batches):
    monkeypatch.setattr(folding_ahead, "PATIENCE_SECONDS", 0.0)
    with Ledger.open(path) as ledger:
        life(ledger)
        digest = ledger.digest()
        assert ledger.rebuild().digest == digest
        assert not batches


@needs_two
def test_one_of_another_version_of_the_product_does_not_fold(path, monkeypatch, batches):
    with Ledger.open(path) as ledger:
        life(ledger)
        digest = ledger.digest()
        monkeypatch.setattr(folding_ahead, "_versions", lambda: {"memories": 1})
        assert ledger.rebuild().digest == digest
        assert not batches


POISON = """
from projections.graph import Graph

def failing(self, event, changes, rows, fold=Graph.fold):
    if event.position == {at}:
        raise ValueError("poison")
    fold(self, event, changes, rows)

Graph.fold = failing
"""


@needs_two
def test_what_does_not_fold_there_parks_here_at_the_same_event(path, monkeypatch, batches):
    with Ledger.open(path) as ledger:
        longer_life(ledger)
        fact = ledger.remember("The User Committee met in Lisbon.")
        at = fact.position
        for number in range(20):
            ledger.remember(f"Afterwards {number}.")
        told, fold = folding_ahead._PROGRAM.rsplit("; ", 1)
        monkeypatch.setattr(folding_ahead, "_PROGRAM", f"{told}; exec({POISON.format(at=at)!r}); {fold}")
        with monkeypatch.context() as patch:
            patch.setattr(Graph, "fold", Graph.fold)
            exec(POISON.format(at=at), {})
            assert ledger.rebuild().parked == ("graph",)
        assert {each.name: each.parked_at for each in ledger.stats().projections if each.parked_at} == {"graph": at}
        assert len(batches) + 1 == (at - 1) // rebuild.BATCH
        monkeypatch.undo()
        assert ledger.rebuild().parked == ()
        assert_sound(ledger)


@needs_two
def test_rows_that_the_database_does_not_take_park_their_projection_alone(path, monkeypatch, batches):
    with Ledger.open(path) as ledger:
        longer_life(ledger)
        flush = HandedRows._flush_table

        def refusing(self, table):
            if table.name == "audit" and len(batches) == 3:
                self._refuse(table, sqlite.sqlite3.IntegrityError("no"))
            else:
                flush(self, table)

        monkeypatch.setattr(HandedRows, "_flush_table", refusing)
        assert ledger.rebuild().parked == ("audit",)
        (parked_at,) = [each.parked_at for each in ledger.stats().projections if each.name == "audit"]
        assert parked_at == 3 * rebuild.BATCH + 1 and len(batches) == 3
        monkeypatch.undo()
        assert ledger.rebuild().parked == ()
        assert_sound(ledger)


@needs_two
def test_a_text_that_cannot_be_taken_apart_parks_the_index_alone(path, monkeypatch, batches, waits):
    monkeypatch.setattr(rebuild, "BATCH", 150)
    waits(True)
    with Ledger.open(path) as ledger:
        with ledger.batch():
            for number in range(1_200):
                ledger.remember(f"Fact number{number} of running.")
        prefix_stems = search.prefix_stems

        def failing(content):
            if "number1150" in content:
                raise ValueError("no")
            return prefix_stems(content)

        with monkeypatch.context() as patch:
            patch.setattr(search, "prefix_stems", failing)
            assert ledger.rebuild().parked == ("search",)
        assert len(batches) >= 7
        assert ledger.rebuild().parked == ()
        assert ledger.recall("number1150").items
        assert_sound(ledger)


@needs_two
def test_it_is_asked_for_some_batches_before_it_answers_and_for_no_more(path, monkeypatch, batches):
    asked, ask = [], FoldingAhead.ask

    def counted(self, first, last, written):
        ask(self, first, last, written)
        asked.append(len(asked) + 1 - len(batches))
        assert written == (first - 1) - rebuild.BATCH * (asked[-1] - 1)

    monkeypatch.setattr(FoldingAhead, "ask", counted)
    with Ledger.open(path) as ledger:
        longer_life(ledger)
        digest = ledger.digest()
        assert ledger.rebuild().digest == digest
    assert max(asked) == rebuild.AHEAD and asked[: rebuild.AHEAD] == list(range(1, rebuild.AHEAD + 1))


@needs_two
def test_how_long_the_wal_may_stay_is_as_ever_afterwards(path):
    """Between batches it may grow to more, and is written over from its start."""
    with Ledger.open(path) as ledger:
        longer_life(ledger)
        ledger.rebuild()
        with ledger._store.transact(durable=False) as transaction:
            asked = "PRAGMA journal_size_limit"
            assert transaction.connection.execute(asked).fetchone() == (sqlite_files.LATE_CHECKPOINT_BYTES,)
        ledger.remember("Said afterwards.")
        with ledger._store.transact() as transaction:
            assert transaction.connection.execute(asked).fetchone() == (sqlite_files.CHECKPOINT_BYTES,)


@needs_two
def test_one_that_dies_after_the_last_batch_is_not_missed(path, monkeypatch, batches):
    with Ledger.open(path) as ledger:
        longer_life(ledger)
        digest, ask = ledger.digest(), FoldingAhead.ask_digests

        def killed(self, position, names):
            ask(self, position, names)
            self._process.kill()

        monkeypatch.setattr(FoldingAhead, "ask_digests", killed)
        assert ledger.rebuild().digest == digest and batches


@needs_two
def test_a_command_between_the_two_halves_of_the_digest(path, monkeypatch, hashed):
    """The second process sees another moment, and says so."""
    with Ledger.open(path) as ledger, Ledger.open(path) as other:
        longer_life(ledger)
        digest, ask = ledger.digest(), FoldingAhead.ask_digests

        def after_a_command(self, position, names):
            other.remember("Said in between.")
            ask(self, position, names)

        monkeypatch.setattr(FoldingAhead, "ask_digests", after_a_command)
        assert ledger.rebuild().digest == digest
        assert hashed == [set()]
        assert ledger.digest() != digest


@needs_two
def test_it_ends_with_the_process_that_asked(path, tmp_path):
    with Ledger.open(path) as ledger:
        life(ledger)
    told = tmp_path / "helper"
    code = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from ledger import Ledger\n"
        "from ledger.folding_ahead import FoldingAhead\n"
        "ledger = Ledger.open(sys.argv[1])\n"
        "helper = FoldingAhead(ledger._store.path, ledger._writer.secret)\n"
        "helper.ask(1, 1, 0)\n"
        "helper.receive()\n"
        "Path(sys.argv[2]).write_text(str(helper._process.pid))\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path), str(told)], check=False)
    assert done.returncode == -signal.SIGKILL
    helper, until = int(told.read_text()), time.monotonic() + 30
    while is_running(helper):
        assert time.monotonic() < until, "it outlives who asked it"
        time.sleep(0.02)


def is_running(process):
    try:
        os.kill(process, 0)
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except (ProcessLookupError, FileNotFoundError):
        return False
    return state != "Z"


@needs_two
def test_no_process_and_no_pipe_is_left(path):
    with Ledger.open(path) as ledger:
        life(ledger)
        with folding_ahead.folding_ahead(ledger._store.path, ledger._writer.secret) as helper:
            process = helper._process
            helper.ask(1, 1, 0)
            assert set(helper.receive().appended) == {"audit"}
            helper.ask(2, 1, 1)
            assert not any(helper.receive())
        assert process.returncode is not None and process.stdin.closed and process.stdout.closed


@needs_two
def test_the_secret_is_on_no_command_line(path):
    with Ledger.open(path) as ledger:
        secret = ledger._writer.secret
        with folding_ahead.folding_ahead(ledger._store.path, secret) as helper:
            assert secret.hex() not in " ".join(helper._process.args)


def test_no_ledger_where_it_is_asked_to_read(tmp_path):
    with pytest.raises(Faltered), folding_ahead.folding_ahead(str(tmp_path / "none.db"), bytes(32)) as helper:
        helper.ask(1, 1, 0)
        helper.receive()
    assert not (tmp_path / "none.db").exists()


# --- what waits for more rows ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("long", [1, 10**9], ids=["two", "one"])
@pytest.mark.parametrize("least", [1, 4, 10**9])
def test_rows_with_keys_in_no_order_wait_for_more_of_them(path, monkeypatch, least, long):
    monkeypatch.setattr(rebuild, "SCATTERED", least)
    monkeypatch.setattr(rebuild, "LONG", long)
    with Ledger.open(path) as ledger:
        longer_life(ledger)
        digest = ledger.digest()
        assert ledger.rebuild().digest == digest
        assert ledger.remember("Fact 3 is about running.").absorbed
        assert_sound(ledger)


def test_no_fold_reads_them(path, monkeypatch):
    monkeypatch.setattr(rebuild, "LONG", 10**9)
    with Ledger.open(path) as ledger:
        longer_life(ledger)
        read = set()
        for name in ("get", "find", "within"):
            original = getattr(SQLiteRows, name)

            def seen(self, table, *wanted, original=original):
                read.add(table)
                return original(self, table, *wanted)

            monkeypatch.setattr(SQLiteRows, name, seen)
        ledger.rebuild()
        assert len(read) > 5 and not [table.name for table in read if table.unread]


def test_where_the_database_does_not_take_them_their_projection_stops_before_the_first(path, monkeypatch):
    flush = Scattered._flush_table

    def refusing(self, table):
        self._refuse(table, sqlite.sqlite3.IntegrityError("no")) if self._put.get(table) else flush(self, table)

    with Ledger.open(path) as ledger:
        longer_life(ledger)
        first = next(row.position for row in ledger._store.rows(limit=1_000) if row.type == "MemoryCaptured")
        with monkeypatch.context() as patch:
            patch.setattr(Scattered, "_flush_table", refusing)
            assert ledger.rebuild().parked == ("duplicates",)
        (parked_at,) = [each.parked_at for each in ledger.stats().projections if each.parked_at]
        assert first - rebuild.BATCH < parked_at <= first
        assert ledger.rebuild().parked == ()
        assert_sound(ledger)


# --- what is read a batch ahead --------------------------------------------------------------------------------------

PLAIN = Table("plain", ("a INTEGER NOT NULL", "b INTEGER NOT NULL", "c INTEGER"), ("a", "b"), rowid=False)
GROUPED = Table("grouped", PLAIN.columns, ("a", "b"), rowid=False, grouped=1)
LATE = Table("late", ("row INTEGER PRIMARY KEY", "text TEXT"), ("row",))
WORDS = TextIndex("texts", ("text",), LATE, lambda text: text, together=3)
_keys = st.tuples(st.integers(0, 2), st.integers(0, 2))
_acts = st.one_of(
    st.tuples(st.just("put"), st.sampled_from([PLAIN, GROUPED]), _keys, st.integers(0, 3)),
    st.tuples(st.just("remove"), st.sampled_from([PLAIN, GROUPED]), _keys, st.just(0)),
    st.tuples(st.just("index"), st.just(PLAIN), _keys, st.integers(0, 3)),
)


@given(st.lists(st.lists(_acts, max_size=8), max_size=5), st.lists(st.booleans(), min_size=5, max_size=5))
def test_reads_a_batch_ahead_are_reads_of_what_was_written(batches, late):
    """Whether the batches handed over last are in the file already or not."""
    plain, file = database(), database()
    direct, ahead = SQLiteRows(plain), RowsAhead(file, "")
    texts: dict[int, str] = {}
    unwritten: list[bytes] = []
    for number, (batch, is_late) in enumerate(zip(batches, late, strict=False), 1):
        for act, table, key, value in batch:
            apply(direct, texts.copy(), act, table, key, value)
            apply(ahead, texts, act, table, key, value)
        assert said(direct) == said(ahead)
        direct.flush()
        unwritten.append(ahead.hand_over(number, expand=number % 2 == 0))
        while len(unwritten) > (2 if is_late else 0):
            write(file, unwritten.pop(0))
            if len(unwritten) != 1:  # it may be in the file before the one that folds is told
                ahead.written(number - len(unwritten))
        assert said(direct) == said(ahead)
    for folded in unwritten:
        write(file, folded)
    for connection in (plain, file):
        sqlite.take_in(connection, WORDS)
    assert dump(plain) == dump(file)


def database():
    connection = sqlite.sqlite3.connect(":memory:", isolation_level=None)
    for table in (PLAIN, GROUPED, LATE, WORDS):
        sqlite.create(connection, table)
    return connection


def apply(rows, texts, act, table, key, value):
    if act == "index":
        row, old = key[0] * 3 + key[1], texts.get(key[0] * 3 + key[1])
        new = None if value == 0 else f"word{value}"
        if old != new:
            rows.index(WORDS, row, None if old is None else (old,), None if new is None else (new,))
            texts.pop(row, None)
            if new is not None:
                texts[row] = new
    elif act == "put":
        rows.put(table, key, (*key, value))
    else:
        rows.remove(table, key)


def write(connection, folded):
    tables = {each.name: each for each in (PLAIN, GROUPED, LATE)}
    HandedRows(connection, "", unpacked(folded), tables, {"texts": WORDS}).flush()


def said(rows):
    keys = [(a, b) for a in range(3) for b in range(3)]
    return (
        [rows.get(table, key) for table in (PLAIN, GROUPED) for key in keys],
        [rows.find(GROUPED, ("a",), (a,)) for a in range(3)],
    )


def dump(connection):
    rows = [
        connection.execute(f"SELECT * FROM {name} ORDER BY 1, 2").fetchall() for name in ("plain", "grouped", "late")
    ]
    words = [
        connection.execute("SELECT rowid FROM texts WHERE texts MATCH ?", (f"word{n}",)).fetchall() for n in (1, 2, 3)
    ]
    return rows, words
