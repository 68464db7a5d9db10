"""Among how many texts a recall searched: the number follows what is written, and is always the one that a count gives."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path

import probe
import pytest
from conftest import Clock

from ledger import Ledger, LedgerError
from projections.search import counting, memory_hits

pytestmark = pytest.mark.ledger

AMONG = ("memories", "chunks", "turns")
ASKED = (
    {},
    {"project": "p"},
    {"kinds": ("preference",)},
    {"statuses": ("active", "superseded")},
    {"metadata": {"k": "v"}},
)


def numbers(ledger: Ledger) -> list[int]:
    return [
        ledger.bind(user=user).recall("tea", among=AMONG, **more).searched for user in ("", "eve") for more in ASKED
    ]


def counted(path: str, clock: Clock) -> list[int]:
    with Ledger.open(path, clock=clock, readonly=True) as fresh:
        return numbers(fresh)


@pytest.mark.parametrize("seed", range(2))
def test_what_is_searched_is_what_a_count_gives_whatever_was_done(tmp_path: Path, clock: Clock, seed: int) -> None:
    draw, path = random.Random(seed), tmp_path / "memory.db"
    with Ledger.open(path, clock=clock) as ledger, Ledger.open(path, clock=clock) as other:
        for number in range(45):
            with suppress(LedgerError):
                act(draw.choice((ledger, ledger, other)).bind(user=draw.choice(("", "", "eve"))), draw, number)
            if draw.random() < 0.4:
                assert numbers(ledger) == counted(ledger.path, clock)
        assert numbers(ledger) == numbers(other) == counted(ledger.path, clock)


def act(ledger: Ledger, draw: random.Random, number: int) -> None:
    known = [each.id for each in ledger.memories.list(statuses=(), limit=500)] or ["m_0000000000000000"]
    session = ledger.session("s")
    match draw.randrange(18):
        case 0 | 1 | 2 | 3:
            kind, more = draw.choice(("knowledge", "preference")), draw.choice(({}, {"metadata": {"k": "v"}}))
            ledger.remember(f"Tea {number}.", kind=kind, project=draw.choice((None, "p", "q")), **more)
        case 4:
            ledger.propose(f"Maybe tea {number}.", project="p")
        case 5 | 6:
            ledger.capture(f"What of tea {number}?", f"It is tea {number}.", session=draw.choice((None, "s")))
        case 7:
            session.append("user", f"Tea again, {number}.")
        case 8:
            session.clear()
        case 9:
            text = f"# Tea {number}\n\nOf tea.\n\n## More\n\nTea {draw.randrange(3)}."
            ledger.documents.add(text, path=draw.choice(("tea.md", "more.md")))
        case 10:
            ledger.undo(draw.randint(2, ledger.position), cascade=True)
        case 11:
            ledger.supersede(draw.choice(known), f"Tea is now {number}.")
        case 12:
            draw.choice((ledger.retract, ledger.promote, ledger.restore, ledger.reject))(draw.choice(known))
        case 13:
            ledger.guards.quarantine(draw.choice(known))
        case 14:
            ledger.projects.join("p", "q")
        case 15:
            ledger.erase(draw.choice(known))
        case 16:
            with ledger.batch():
                for each in range(3):
                    ledger.remember(f"Tea {number} of batch {each}.")
                numbers(ledger)
                if draw.random() < 0.5:
                    raise LedgerError("undone")
        case _:
            ledger.maintenance.rebuild()


def test_a_recall_right_after_a_write_counts_what_was_written_and_no_more(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ledger.batch():
        for number in range(50):
            ledger.remember(f"Tea {number}.")
    assert ledger.recall("tea").searched == 50
    monkeypatch.setattr(memory_hits, "count", None)
    for number in range(3):
        made = ledger.remember(f"Coffee {number}.")
        assert ledger.recall("tea").searched == 51
        ledger.retract(made.id)
        assert ledger.recall("tea").searched == 50


def test_after_many_events_everything_is_counted_again(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "FOLLOWED", 2)
    for number in range(1, 9):
        ledger.remember(f"Tea {number}.")
        if number % 4 == 0:
            assert ledger.recall("tea").searched == number


def test_where_no_text_waits_for_its_index_a_recall_is_one_snapshot(ledger: Ledger) -> None:
    ledger.remember("Tea is green.")
    ledger.recall("tea")
    with probe.read(ledger) as connection:
        asked: list[str] = []
    connection.set_trace_callback(asked.append)
    assert [item.content for item in ledger.recall("tea").items] == ["Tea is green."]
    connection.set_trace_callback(None)
    assert asked.count("BEGIN") == 1


def test_the_new_words_of_a_question_are_counted_in_one_statement(ledger: Ledger) -> None:
    words = ("amber", "basalt", "cedar", "delta", "ember", "fjord")
    for word in words:
        ledger.remember(f"{word.capitalize()} is here.")
    ledger.recall("here")
    with probe.read(ledger) as connection:
        asked: list[str] = []
    connection.set_trace_callback(asked.append)
    items = ledger.recall(" ".join(words), limit=6).items  # so that no family is asked
    connection.set_trace_callback(None)
    assert len(items) == 6
    assert sum("search_terms_of_main" in statement for statement in asked) == 1
