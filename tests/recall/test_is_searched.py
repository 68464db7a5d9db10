"""A search for a first match agrees with the search for the best one: over users, projects, times and waiting texts."""

from __future__ import annotations

import random
from pathlib import Path

import probe
import pytest
from conftest import Clock

from ledger import Ledger
from ledger.english.question import any_of
from ledger.recall.finding import is_any_memory, is_any_passage, memories_matching, passages_matching
from projections.search.memory_hits import MemoryScope
from projections.search.passages import PassageScope

WORDS = (
    "amber",
    "basalt",
    "cedar",
    "delta",
    "ember",
    "fjord",
    "garnet",
    "harbour",
    "indigo",
    "jasper",
    "kestrel",
    "larch",
)
USERS, PROJECTS, KINDS = ("ana", "bob"), ("Atlas", "Borealis", None), ("note", "env", "preference")


@pytest.mark.parametrize("seed", range(4))
def test_a_first_match_is_there_exactly_if_a_best_match_is(tmp_path: Path, clock: Clock, seed: int) -> None:
    draw = random.Random(seed)
    with Ledger.open(tmp_path / "memory.db", clock=clock) as ledger:
        for number in range(30):
            user, text = ledger.bind(user=draw.choice(USERS)), " ".join([*draw.choices(WORDS, k=3), f"n{number}"])
            memory = user.remember(text, kind=draw.choice(KINDS), project=draw.choice(PROJECTS))
            if draw.random() < 0.3:
                user.retract(memory.id)
            if draw.random() < 0.3:
                user.documents.add(" ".join(draw.choices(WORDS, k=3)), title=f"document {number}")
        with probe.read(ledger) as connection:
            places = [id for (id,) in connection.execute("SELECT id FROM projects")]
        ledger.recall("amber")  # moves all texts into the indexes; later texts wait
        ledger.bind(user="ana").remember("A marble opal.")
        ledger.bind(user="bob").remember("A marble nickel.")
        found = set[bool]()
        for view in (ledger, ledger.at(ledger.position // 2)):
            for _ in range(40):
                expression = any_of([draw.sample((*WORDS, "marble", "opal", "nickel"), draw.choice((1, 2)))])
                scope = draw.choice((None, [None], [None, *places[:1]]))
                user, at = draw.choice((*USERS, "carla")), draw.choice((None, "2020-01-01", "2100-01-01"))
                wanted = MemoryScope(user, at, scope, draw.choice(((), KINDS[:1])))
                pieces = PassageScope(user, ("chunk",), scope)
                with probe.inside(view).snapshot() as snapshot:
                    first = is_any_memory(snapshot, expression, wanted)
                    assert first is any(True for _ in memories_matching(snapshot, expression, wanted, limit=500))
                    assert is_any_passage(snapshot, expression, pieces) is any(
                        True for _ in passages_matching(snapshot, expression, pieces, limit=500)
                    )
                found.add(first)
        assert found == {True, False}
