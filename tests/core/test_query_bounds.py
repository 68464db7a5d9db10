"""What a question in SQL may take: time, memory, and the sizes of its parts. Everything above is a ``RejectedError``."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import probe
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger import Ledger, RejectedError
from ledger.log import questions
from ledger.log.questions import replace_functions
from projections.core.questions import prepare_live, prepare_live_of_user, prepare_past, prepare_past_of_user

MIB = 1024 * 1024
LARGE = "x" * (MIB - 100)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(tmp_path / "memory.db") as opened:
        opened.remember("The mast is up.")
        yield opened


def refused(ledger: Ledger, sql: str, *parameters: object, **options: float) -> RejectedError:
    for every_user in (True, False):
        with pytest.raises(RejectedError) as caught:
            ledger.query(sql, *parameters, every_user=every_user, **options)  # type: ignore[arg-type]
    assert ledger.query("SELECT content FROM beliefs") == ({"content": "The mast is up."},)
    return caught.value


NUMBERS = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c LIMIT {}) "
TOO_LARGE = {
    "depth": "SELECT 1" + " + 1" * 600,
    "compound": " UNION ALL ".join(["SELECT 1"] * 101),
    "columns": f"SELECT {', '.join(f'1 AS a{n}' for n in range(101))}",
    "arguments": f"SELECT coalesce({', '.join(['1'] * 101)})",
    "variables": "SELECT ?32767",
    "pattern": f"SELECT 'a' LIKE '{'a' * 101}'",
    "glob": f"SELECT 'a' GLOB '{'a' * 101}'",
    "steps": f"VALUES {', '.join(['(1,1,1)'] * 90_000)}",
    "value": "SELECT hex(hex(hex(hex(hex(hex(?))))))",
}


@pytest.mark.parametrize("what", TOO_LARGE)
def test_a_part_of_a_question_that_is_too_large_is_refused(ledger: Ledger, what: str) -> None:
    refused(ledger, TOO_LARGE[what], *((LARGE,) if what == "value" else ()))


@pytest.mark.parametrize(
    "call", ["zeroblob(9)", "randomblob(9)", "printf('%9s', 1)", "format('%9s', 1)", "json_patch(1, 1)"]
)
def test_functions_that_make_large_values_of_nothing_are_refused(ledger: Ledger, call: str) -> None:
    error = refused(ledger, f"SELECT {call}")
    assert error.rule == "function" or "no such function" in str(error)  # format came with SQLite 3.38


def test_memory_that_grows_while_a_question_runs_ends_it(ledger: Ledger) -> None:
    if questions._counter_of_memory()() == 0:
        pytest.skip("this build of SQLite hides the memory that it holds")
    sql = NUMBERS.format(100_000) + "SELECT count(DISTINCT ? || n) FROM c"
    error = refused(ledger, sql, LARGE, timeout=600)
    assert (error.rule, error.limit) == ("memory", questions.HEAP_BYTES)


def test_an_answer_of_too_many_bytes_is_refused_and_not_cut(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(questions, "ANSWER_BYTES", 10 * MIB)
    sql = NUMBERS.format("{}") + "SELECT ? || n AS text FROM c"
    assert len(ledger.query(sql.format(9), LARGE)) == 9
    error = refused(ledger, sql.format(11), LARGE)
    assert (error.rule, error.limit) == ("bytes", 10 * MIB)


def test_the_longest_text_of_a_turn_is_read_whole(ledger: Ledger) -> None:
    text = "y" * (10 * MIB)
    ledger.capture(text, "Yes.")
    for asked in (ledger, ledger.at(ledger.position)):
        for every_user in (False, True):
            rows = asked.query("SELECT prompt FROM interactions_text", every_user=every_user)
            assert rows == ({"prompt": text},)


def test_a_row_of_many_large_values_is_refused_before_it_is_made(ledger: Ledger) -> None:
    if questions._counter_of_memory()() == 0:
        pytest.skip("this build of SQLite hides the memory that it holds")
    sql = f"SELECT {', '.join(f'? || {n} AS a{n}' for n in range(40))}"
    error = refused(ledger, sql, *["x" * (15 * MIB)] * 40, timeout=600)
    assert error.rule == "memory"


def test_what_bounds_a_question_is_gone_after_it(ledger: Ledger) -> None:
    limits = (*questions.LIMITS, sqlite3.SQLITE_LIMIT_LENGTH, sqlite3.SQLITE_LIMIT_COLUMN)
    with closing(sqlite3.connect(":memory:")) as fresh:
        usual = [fresh.getlimit(limit) for limit in limits]
    for sql in ("SELECT 1 AS one", "SELECT nothing", "SELECT zeroblob(1)"):
        for asked in (ledger, ledger.at(ledger.position)):
            for every_user in (False, True):
                with suppress(RejectedError):
                    asked.query(sql, every_user=every_user)
    for prepare in (prepare_live, prepare_past, prepare_live_of_user, prepare_past_of_user):
        with probe.store(ledger).past_view(prepare) as connection:
            assert [connection.getlimit(limit) for limit in limits] == usual
    with probe.read(ledger) as connection:
        assert [connection.getlimit(limit) for limit in limits] == usual


# --- the functions that stand for SQLite's own -------------------------------------------------------------------------

values = st.one_of(
    st.none(),
    st.text("ab é", max_size=6),
    st.sampled_from(["", "a", "ab", "aab", "  a ", "1.0", "1"]),
    st.binary(max_size=3).filter(lambda value: value.isascii()),
    st.integers(-12, 120),
    st.sampled_from(
        [0.5, 1.0, -2.25, 1e20, 1.5e-9, 0.1 + 0.2, 1e15, 123456789012345680.0, float("inf"), float("-inf")]
    ),
)
CALLS = ("instr(:a, :b)", "replace(:a, :b, :c)", "trim(:a, :b)", "ltrim(:a, :b)", "rtrim(:a, :b)")


@settings(max_examples=200, deadline=None)
@given(a=values, b=values, c=values)
def test_the_functions_answer_as_those_of_sqlite(a: object, b: object, c: object) -> None:
    with closing(sqlite3.connect(":memory:")) as theirs, closing(sqlite3.connect(":memory:")) as ours:
        replace_functions(ours)
        for call in CALLS:
            if call.startswith("replace") and b in ("", b""):  # SQLite before 3.45 leaves a number as it is
                call = f"CAST({call} AS TEXT)"
            sql, given_values = f"SELECT {call}, typeof({call})", {"a": a, "b": b, "c": c}
            assert ours.execute(sql, given_values).fetchone() == theirs.execute(sql, given_values).fetchone(), call


@pytest.mark.parametrize("name", ["instr", "replace", "trim", "trim_left", "trim_right"])
def test_a_question_is_answered_by_these_functions(ledger: Ledger, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"ledger.log.questions._{name}", lambda *_: "ours")
    call = {"replace": "replace('a', 'b', 'c')", "trim_left": "ltrim('a', 'b')", "trim_right": "rtrim('a', 'b')"}
    sql = "SELECT " + call.get(name, f"{name}('a', 'b')") + " AS found"
    for every_user in (False, True):
        assert ledger.query(sql, every_user=every_user) == ({"found": "ours"},)
