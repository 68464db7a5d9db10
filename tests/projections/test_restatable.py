"""What leads from a response to memories leads to every one that a look at the whole pool finds, and leaves nothing behind."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from contextlib import closing, suppress
from pathlib import Path
from random import Random
from typing import Any

import plain_matching
import probe
import pytest
from hypothesis import given
from hypothesis import strategies as st
from soundness import assert_sound

from ledger import Ledger
from ledger.domain.errors import DamagedError, RejectedError
from ledger.english.matching import MATCHERS, Response, judge
from ledger.interactions import policy as reinforcement
from projections.core import packed
from projections.core.rows import packed as index_named
from projections.core.sqlite import SQLiteRows, create, fill_index
from projections.search.memory_hits import RESTATABLE
from projections.views import memories, projects

SMALL = 8  # so many subjects wait in these tests
NUMBERS = st.frozensets(st.integers(0, 12), max_size=6)
SUBJECTS = st.tuples(st.integers(1, 3), st.integers(100, 102), NUMBERS)
ROWS = st.sampled_from([1, 2, 3, 5, 8, 16_383, 16_384, 16_385, 40_000, 40_001])
STEPS = st.lists(st.tuples(ROWS, st.none() | SUBJECTS, st.booleans()), max_size=40)


Subject = tuple[int, int, frozenset[int]]


def kept(subject: Subject) -> tuple[Any, ...]:
    least, group, numbers = subject
    return packed.waiting(group, least, of_groups([group], numbers))


def of_groups(groups: Iterable[int], numbers: Iterable[int]) -> set[int]:
    """No two groups have a number together."""
    return {group * 16 + number for number in numbers for group in groups}


INDEX = index_named("restated", SMALL)


@given(STEPS, NUMBERS, st.frozensets(st.integers(100, 103)))
def test_what_is_packed_is_what_a_look_at_every_subject_finds(
    steps: list[tuple[int, Subject | None, bool]],
    wanted: frozenset[int],
    groups: frozenset[int],
) -> None:
    index, there = INDEX, dict[int, Subject]()
    with (
        closing(sqlite3.connect(":memory:", isolation_level=None)) as live,
        closing(sqlite3.connect(":memory:", isolation_level=None)) as fresh,
    ):
        for connection in (live, fresh):
            create(connection, index.waiting)
            create(connection, index)
        rows = SQLiteRows(live)
        for row, subject, flush in steps:
            old = kept(there[row]) if row in there else None
            rows.index(index, row, old, kept(subject) if subject is not None else None)
            there.pop(row, None)
            there |= {row: subject} if subject is not None else {}
            if flush:
                rows.flush()
        rows.flush()
        size, found = packed.look(live, index, groups, of_groups(groups, wanted))
        assert size == sum(group in groups for _, group, _ in there.values())
        assert sorted(found) == sorted(
            row for row, (least, group, own) in there.items() if group in groups and len(own & wanted) >= least
        )
        again = SQLiteRows(fresh)
        for row, subject in there.items():
            again.index(index, row, None, kept(subject))
        again.flush()
        assert packed.difference(live, fresh, index) is None


# --- of a ledger -----------------------------------------------------------------------------------------------------


def texts() -> list[str]:
    path = Path(__file__).resolve().parent.parent / "corpus" / "benign.jsonl"
    return [json.loads(line)["text"] for line in path.read_text(encoding="utf-8").splitlines()]


def filled(ledger: Ledger, draw: Random) -> list[str]:
    """Memories of two users and some projects, changed in every way there is; what they said."""
    said = texts()
    with ledger.batch():
        for number, text in enumerate(said):
            project, asked = draw.choice(["home", "work", None]), ledger.bind(user=draw.choice(["", "", "bob"]))
            make = asked.propose if number % 9 == 0 else asked.remember
            with suppress(RejectedError):
                make(text, kind=draw.choice(["preference", "identity", "knowledge"]), project=project)
    known = [each.id for each in ledger.memories.list(limit=1_000)]
    draw.shuffle(known)
    acts: list[Any] = [
        ledger.retract,
        ledger.guards.quarantine,
        lambda id: ledger.supersede(id, f"It is otherwise, {id}."),
        lambda id: ledger.revise(id, f"The user prefers tea to {id}."),
        lambda id: ledger.reinforce(id),
        ledger.erase,
        lambda id: ledger.undo(ledger.retract(id).position),
    ]
    for number, id in enumerate(known[:84]):
        acts[number % len(acts)](id)
    ledger.projects.join("home", "work")
    return said


def plainly(connection: Any, user: str, project: str | None, text: str, matcher: str) -> tuple[Any, ...]:
    """What a look at every memory of the pool comes to."""
    response, scope = Response(text), projects.together(connection, project)
    pool = list(memories.pool(connection, user, scope))
    with plain_matching.plainly():
        judged = [(each.row, judge(matcher, response, each.content or "")) for each in pool]
    matches = [(row, verdict.match) for row, verdict in judged if verdict.match is not None]
    matches.sort(key=lambda each: (-each[1].fraction, -each[1].overlap, each[0]))
    return len(pool), tuple(matches), tuple(row for row, verdict in judged if verdict.denial)


@pytest.mark.slow
def test_every_memory_is_found_that_a_look_at_the_whole_pool_finds(ledger: Ledger) -> None:
    draw = Random(7)
    said = filled(ledger, draw)
    secret, some, matched = probe.writer(ledger).secret, draw.sample(said, 40), 0
    for rebuilt in (False, True):
        with probe.read(ledger) as connection:
            project = connection.execute("SELECT id FROM projects WHERE user = '' LIMIT 1").fetchone()[0]
            for number in range(30):
                text = " ".join(draw.sample(some, 1 + number % 5)).replace("prefers", draw.choice(["prefers", "hates"]))
                for matcher in MATCHERS:
                    about = (draw.choice(["", "bob"]), draw.choice([project, None]), text, matcher)
                    found = reinforcement.evaluate(connection, secret, *about)
                    assert (found.pool_size, found.matches, found.denied) == plainly(connection, *about)
                    matched += len(found.matches) + len(found.denied)
        if not rebuilt:
            assert_sound(ledger)
            assert ledger.proof.verify(full=True).ok
    assert matched > 40


def test_nothing_is_left_of_a_memory_that_is_erased(ledger: Ledger) -> None:
    with ledger.batch():
        ledger.remember("The user prefers dark roast coffee.", kind="preference")
        made = [ledger.remember(f"The user collects stamps of number{n}.", kind="preference") for n in range(1_040)]

    with probe.store(ledger).snapshot() as connection:
        assert connection.execute("SELECT count(*) FROM restatable").fetchone() > (1_040,)
    for each in made[:3]:
        ledger.erase(each.id)
    ledger.revise(made[3].id, "The user prefers green tea.")
    with ledger.batch():
        for each in made[4:]:
            ledger.retract(each.id)
    with probe.store(ledger).snapshot() as connection:
        left = list(connection.execute("SELECT length(entries) FROM restatable WHERE number & 0xfffff < 0xfffff"))
        waiting = connection.execute("SELECT row FROM restatable_waiting").fetchall()
    assert [size for (size,) in left] == [4] * 4  # dark, roast, coffee and prefer
    assert waiting == [(made[3].position,)]
    assert_sound(ledger)


def test_a_number_says_nothing_of_a_word_to_whoever_lacks_the_secret(tmp_path: Path) -> None:
    found = list[int]()
    for name in ("one", "other"):
        with Ledger.open(tmp_path / f"{name}.db") as ledger:
            ledger.remember("Coffee", kind="preference")
            ledger.bind(user="bob").remember("Coffee", kind="preference")
            with probe.store(ledger).transact() as transaction:
                fill_index(transaction.connection, RESTATABLE)
                rows = transaction.connection.execute("SELECT number FROM restatable").fetchall()
            found += [number for (number,) in rows]
    assert len(set(found)) == len(found) == 8  # of each ledger and user the pool and the word


def test_what_was_never_packed_is_damage(ledger: Ledger) -> None:
    with ledger.batch():
        for number in range(1_100):
            ledger.remember(f"The user prefers coffee of number{number}.", kind="preference")
    with probe.store(ledger).transact() as transaction:
        transaction.connection.execute(f"UPDATE {RESTATABLE.name} SET entries = x'010203'")
    with probe.read(ledger) as connection, pytest.raises(DamagedError, match="restatable"):
        secret = probe.writer(ledger).secret
        reinforcement.evaluate(connection, secret, "", None, "You prefer coffee of number7.", "stems/6")
    assert any("restatable" in each for each in ledger.proof.verify(full=True).problems)
    probe.rebuild(ledger)
    assert_sound(ledger)
