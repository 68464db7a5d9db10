"""The entity graph: who is named where, what is said of two names, and that it is believed no longer than its memories."""

from __future__ import annotations

import re
import tempfile
from contextlib import suppress
from pathlib import Path

import probe
import pytest
from command_line import run
from conftest import LONG, Clock, folded_from_zero
from full import full
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from places import QUICK

from ledger import ConflictError, Ledger, LedgerError, NotFoundError, RejectedError, answers
from ledger.cli.views import graphs
from ledger.graph import policy as rules
from ledger.memories.rules import EDGES, NAME_CHARS
from ledger.types import Event
from projections.views import graph as projection


def around(ledger: Ledger, name: str, **asked: object) -> dict[tuple[str, str, str], int]:
    """(relation, direction, neighbour) -> weight."""
    found = ledger.graph.neighbors(name, **asked)  # type: ignore[arg-type]
    return {(each.relation, each.direction, each.name): each.weight for each in found.neighbors}


def said(ledger: Ledger, name: str, **asked: object) -> set[tuple[str, str, str]]:
    return {each for each in around(ledger, name, **asked) if each[0] != "co_occurs"}


# --- names -----------------------------------------------------------------------------------------------------------


def test_a_name_is_one_node_however_it_is_written_and_is_shown_as_first_written(ledger: Ledger) -> None:
    ledger.remember("First.", entities=["Ana  de Souza", "Porto"])
    ledger.remember("Second.", entities=["ANA DE SOUZA,", "porto."])
    found = ledger.graph.neighbors("ana de souza")
    assert found.seeds == (answers.Seed(name="Ana  de Souza", memories=2),)
    assert [(each.name, each.weight) for each in found.neighbors] == [("Porto", 2)]


def test_names_in_one_memory_stand_together_and_once_for_each_memory(ledger: Ledger) -> None:
    first = ledger.remember("We met Ana, Ana and ANA at Acme, in Acme.", entities=["Ana", "Acme"])
    ledger.bind(actor="again").remember("We met Ana, Ana and ANA at Acme, in Acme.")  # absorbed
    second = ledger.remember("Acme pays Ana.")
    (neighbour,) = ledger.graph.neighbors("Ana").neighbors
    assert (neighbour.relation, neighbour.direction, neighbour.name) == ("co_occurs", "both", "Acme")
    assert (neighbour.weight, neighbour.memories) == (2, (second.id, first.id))
    assert around(ledger, "Acme") == {("co_occurs", "both", "Ana"): 2}


def test_names_found_by_their_looks_can_be_left_out(ledger: Ledger) -> None:
    ledger.remember("We met Ana at Acme in Porto.", entities=["Ana", "Porto"])
    assert set(around(ledger, "Ana")) == {("co_occurs", "both", "Acme"), ("co_occurs", "both", "Porto")}
    assert set(around(ledger, "Ana", extracted=False)) == {("co_occurs", "both", "Porto")}
    assert ledger.graph.neighbors("Acme", extracted=False).seeds == ()


def test_a_revised_wording_names_what_it_names(ledger: Ledger) -> None:
    fact = ledger.remember("We met Ana at Acme.")
    ledger.revise(fact.id, "We met Ana at Initech.")
    assert around(ledger, "Ana") == {("co_occurs", "both", "Initech"): 1}
    assert ledger.graph.neighbors("Acme").seeds == ()
    assert around(ledger.at(fact.position), "Ana") == {("co_occurs", "both", "Acme"): 1}  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("query", "seeds"),
    [
        ("New York", ["New York"]),
        ("where in NEW  york, does Ana de Souza's boss live?", ["Ana de Souza", "New York"]),
        ("(ana de souza)", ["Ana de Souza"]),
        ("York New", []),
        ("C++ or AC/DC?", ["AC/DC", "C++"]),
        ("New York/Boston", ["New York"]),
        ("", []),
        ("?!", []),
        ("%", []),
        ("new_york", []),
    ],
)
def test_names_of_several_words_are_seeds(ledger: Ledger, query: str, seeds: list[str]) -> None:
    ledger.remember("One.", entities=["New York", "Ana de Souza", "C++", "AC/DC"])
    assert sorted(each.name for each in ledger.graph.neighbors(query).seeds) == sorted(seeds)


def test_longer_names_come_first_and_at_most_eight(ledger: Ledger) -> None:
    names = ["Bank of England", "England", "Bank", *(f"n{number}" for number in range(9))]
    ledger.remember("One.", entities=names)
    found = [each.name for each in ledger.graph.neighbors("the Bank of England " + " ".join(names[3:])).seeds]
    assert found[0] == "Bank of England" and len(found) == 8
    assert len(projection.windows("word " * 300_000)) < 10


# --- relations -------------------------------------------------------------------------------------------------------


def test_a_memory_says_relations_in_the_same_append(ledger: Ledger) -> None:
    fact = ledger.remember("Ana took a job.", relations=[("Ana", "Works_At", "Acme"), ("Ana", "knows", "Bob")])
    assert ledger.position == fact.position + 0 and [
        each.type for each in ledger.history.audit(command="remember")
    ] == [
        "RelationAdded",
        "RelationAdded",
        "MemoryCaptured",
    ]
    assert [(each.subject, each.relation, each.object) for each in fact.relations] == [
        ("Ana", "works_at", "Acme"),
        ("Ana", "knows", "Bob"),
    ]
    assert said(ledger, "Ana") == {("works_at", "out", "Acme"), ("knows", "out", "Bob")}
    assert said(ledger, "acme") == {("works_at", "in", "Ana")}
    assert said(ledger, "Ana", relation="KNOWS") == {("knows", "out", "Bob")}
    assert set(around(ledger, "Ana", relation="co_occurs")) == {
        ("co_occurs", "both", "Acme"),
        ("co_occurs", "both", "Bob"),
    }


def test_saying_it_again_appends_nothing(ledger: Ledger) -> None:
    fact = ledger.remember("Ana took a job.", relations=[("Ana", "works_at", "Acme")])
    position = ledger.position
    again = ledger.graph.relate(fact.id, " ANA ", "WORKS_AT", "acme.")
    ledger.remember("Ana took a job.", relations=[("ana", "works_at", "acme")])
    ledger.graph.unrelate(fact.id, "Ana", "left", "Acme")
    assert again.relations == fact.relations
    assert [each.type for each in ledger.history.audit(limit=500) if each.position > position] == ["DuplicateAbsorbed"]


def test_an_absorbed_attempt_still_says_its_new_relations(ledger: Ledger) -> None:
    fact = ledger.remember("Ana took a job.")
    again = ledger.remember("Ana took a job.", relations=[("Ana", "works_at", "Acme")])
    assert again.id == fact.id and again.absorbed and said(ledger, "Ana") == {("works_at", "out", "Acme")}


def test_what_is_no_longer_said_goes(ledger: Ledger) -> None:
    fact = ledger.remember("Ana took a job.", relations=[("Ana", "works_at", "Acme")])
    after = ledger.graph.unrelate(fact.id, "ana", "Works_at", "ACME", reason="a mistake")
    assert after.relations == () and ledger.graph.neighbors("Acme").seeds == ()
    why = ledger.why(fact.id)
    assert why.steps[-1].because == "a mistake"


@pytest.mark.parametrize(
    ("edge", "rule"),
    [
        (("", "is", "b"), "validation"),
        (("a", "  ", "b"), "validation"),
        (("!!!", "is", "b"), "relation"),
        (("a", "is", "\u202e."), "relation"),
        (("Ana", "is", " ana,"), "relation"),
        (("a", "co_occurs", "b"), "relation"),
        (("a" * (NAME_CHARS + 1), "is", "b"), "size"),
        (("a", "r" * (NAME_CHARS + 1), "b"), "size"),
        (("a", "\ud800", "b"), "validation"),
        (("a", None, "b"), "validation"),
    ],
)
def test_what_joins_nothing_is_refused(ledger: Ledger, edge: tuple[str, str, str], rule: str) -> None:
    fact = ledger.remember("Something.")
    for call in (
        lambda: ledger.graph.relate(fact.id, *edge),
        lambda: ledger.remember("Another.", relations=[edge]),
        lambda: ledger.supersede(fact.id, "Another.", relations=[edge]),
        lambda: ledger.graph.unrelate(fact.id, *edge),
    ):
        with pytest.raises(RejectedError) as refusal:
            call()
        assert refusal.value.rule == rule
    assert [each.content for each in ledger.memories.list(statuses=())] == ["Something."]


@pytest.mark.parametrize("edges", ["ana", [("a", "b")], ["abc"], [("a", "b", "c", "d")], [None], 7])
def test_remember_refuses_invalid_relations(ledger: Ledger, edges: object) -> None:
    with pytest.raises(RejectedError, match="relation"):
        ledger.remember("Something.", relations=edges)  # type: ignore[arg-type]


def test_a_memory_has_so_many_edges_and_no_more(ledger: Ledger) -> None:
    fact = ledger.remember("Much.", relations=[("Ana", "knows", f"N{number}") for number in range(EDGES)])
    with pytest.raises(RejectedError, match="at most 64") as refusal:
        ledger.graph.relate(fact.id, "Ana", "knows", "one more")
    assert (refusal.value.rule, refusal.value.limit) == ("size", EDGES)
    with pytest.raises(RejectedError, match="at most 64"):
        ledger.remember("More.", relations=[("Ana", "knows", f"N{number}") for number in range(EDGES + 1)])


def test_only_what_is_a_candidate_or_active_says_something_new(ledger: Ledger) -> None:
    idea = ledger.propose("Ana may come.")
    ledger.graph.relate(idea.id, "Ana", "visits", "Porto")
    ledger.reject(idea.id)
    for call in (ledger.graph.relate, ledger.graph.unrelate):
        with pytest.raises(RejectedError, match="it is invalid"):
            call(idea.id, "Ana", "visits", "Porto")
        with pytest.raises(NotFoundError):
            call("m_0000000000000000", "Ana", "visits", "Porto")


def test_a_key_makes_it_idempotent_and_a_call_without_edges_is_the_call_it_was(ledger: Ledger) -> None:
    fact = ledger.remember("Ana took a job.", relations=[("Ana", "works_at", "Acme")], idempotency_key="k")
    assert ledger.remember("Ana took a job.", relations=[("Ana", "works_at", "Acme")], idempotency_key="k").replayed
    with pytest.raises(ConflictError):
        ledger.remember("Ana took a job.", idempotency_key="k")
    ledger.graph.relate(fact.id, "Ana", "knows", "Bob", idempotency_key="r")
    assert ledger.graph.relate(fact.id, "Ana", "knows", "Bob", idempotency_key="r").replayed


# --- one relation at a time ------------------------------------------------------------------------------------------


def test_another_relation_of_the_same_two_takes_the_place_of_the_first(ledger: Ledger) -> None:
    job = ledger.remember("Ana took a job.", relations=[("Ana", "works_at", "Acme")])
    same = ledger.remember("Ana is paid.", relations=[("ana", "works_at", "ACME")])
    other = ledger.remember("Bob too.", relations=[("Bob", "works_at", "Acme"), ("Acme", "pays", "Ana")])
    assert around(ledger, "Ana")[("works_at", "out", "Acme")] == 2
    left = ledger.remember("Ana left.", relations=[("Ana", "left", "Acme")])
    assert said(ledger, "Ana") == {("left", "out", "Acme"), ("pays", "in", "Acme")}
    assert said(ledger, "Bob") == {("works_at", "out", "Acme")}
    told = [(each.subject, each.data["by"]) for each in ledger.history.audit(type="RelationRemoved")]
    assert told == [(same.id, left.id), (job.id, left.id)]
    ids = {each.command_id for each in ledger.history.audit(subject=left.id)} | {
        each.command_id for each in ledger.history.audit(type="RelationRemoved")
    }
    assert len(ids) == 1, "one append"
    assert ledger.memories.get(other.id).relations == other.relations
    ledger.undo(left.position)
    assert around(ledger, "Ana")[("works_at", "out", "Acme")] == 2


@pytest.mark.slow
def test_a_retirement_that_lost_its_words_takes_nothing_else_with_it(ledger: Ledger) -> None:
    fact = ledger.remember("Ana's life.", relations=[("Ana", "works_at", "Acme"), ("Ana", "lives_in", "Porto")])
    left = ledger.graph.unrelate(fact.id, "Ana", "works_at", "Acme", reason="she left")
    ledger.remember("Ana moved.", relations=[("Ana", "left", "Porto")])
    ledger.graph.relate(fact.id, "Ana", "knows", "Bob")
    for position in (left.position, ledger.history.audit(type="RelationRemoved")[0].position):
        ledger.erase(Event(position), quotes="keep")
    edges = ledger.memories.get(fact.id).relations
    assert [each.relation for each in edges] == ["knows"]
    ledger.erase(Event(ledger.graph.unrelate(fact.id, "Ana", "knows", "Bob").position), quotes="keep")
    assert ledger.memories.get(fact.id).relations == ()


def test_relations_at_times_that_never_met_stand_beside_each_other(ledger: Ledger) -> None:
    old = ledger.remember("Then.", valid_from="2020-01-01")
    ledger.graph.relate(old.id, "Ana", "works_at", "Acme", valid_to="2022-12-31")
    ledger.remember("Now.", valid_from="2023-01-01", relations=[("Ana", "advises", "Acme")])
    assert said(ledger, "Ana") == {("advises", "out", "Acme")}
    assert said(ledger.at(ledger.position, valid_at="2021-05-05"), "Ana") == {("works_at", "out", "Acme")}  # type: ignore[arg-type]


def test_a_candidate_contradicts_nobody_before_it_is_promoted(ledger: Ledger) -> None:
    ledger.remember("Ana took a job.", relations=[("Ana", "works_at", "Acme")])
    idea = ledger.propose("Ana left.", relations=[("Ana", "left", "Acme")])
    ledger.graph.relate(idea.id, "Ana", "sued", "Acme")
    assert said(ledger, "Ana") == {("works_at", "out", "Acme")}
    promoted = ledger.promote(idea.id)
    assert said(ledger, "Ana") == {("left", "out", "Acme"), ("sued", "out", "Acme")}, "one memory may say two things"
    assert len(ledger.history.audit(type="RelationRemoved")) == 1
    ledger.undo(promoted.position)
    assert said(ledger, "Ana") == {("works_at", "out", "Acme")}


def test_too_many_to_retire_at_once_is_refused(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "RETIRED", 2)
    for number in range(3):
        ledger.remember(f"Ana took job {number}.", relations=[("Ana", "works_at", "Acme")])
    with pytest.raises(RejectedError, match="more than 2 edges") as refusal:
        ledger.remember("Ana left.", relations=[("Ana", "left", "Acme")])
    assert refusal.value.rule == "size" and len(ledger.memories.list()) == 3


def test_in_a_batch_the_rule_sees_what_came_before(ledger: Ledger) -> None:
    with ledger.batch():
        ledger.remember("Ana took a job.", relations=[("Ana", "works_at", "Acme")])
        ledger.remember("Ana left.", relations=[("Ana", "left", "Acme")])
    assert said(ledger, "Ana") == {("left", "out", "Acme")}


# --- as long as the memory is believed -------------------------------------------------------------------------------


def test_edges_go_with_the_superseded_fact_and_come_back_with_undo(ledger: Ledger, clock: Clock) -> None:
    job = ledger.remember("Ana works there.", relations=[("Ana", "works_at", "Acme")])
    clock.advance(days=10)
    gone = ledger.supersede(job.id, "Ana works elsewhere.", relations=[("Ana", "works_at", "Initech")])
    assert said(ledger, "Ana") == {("works_at", "out", "Initech")} and ledger.graph.neighbors("Acme").seeds == ()
    assert said(ledger.at(ledger.position, valid_at="2026-01-05"), "Ana") == {("works_at", "out", "Acme")}  # type: ignore[arg-type]
    ledger.undo(gone.position)
    assert said(ledger, "Ana") == {("works_at", "out", "Acme")}


@pytest.mark.parametrize("verb", ["retract", "invalidate", "quarantine"])
def test_what_is_not_believed_is_not_in_the_graph(ledger: Ledger, verb: str) -> None:
    fact = ledger.remember("We met Ana at Acme.", relations=[("Ana", "works_at", "Acme")])
    hidden = getattr(ledger.guards if verb == "quarantine" else ledger, verb)(fact.id)
    assert ledger.graph.neighbors("Ana").seeds == ()
    assert said(ledger.at(hidden.position - 1), "Ana") == {("works_at", "out", "Acme")}  # type: ignore[arg-type]
    (ledger.guards.release if verb == "quarantine" else ledger.restore)(fact.id)
    assert said(ledger, "Ana") == {("works_at", "out", "Acme")}


def test_validity_is_half_open_of_the_edge_and_of_its_memory(ledger: Ledger) -> None:
    fact = ledger.remember("Ana works there.", valid_from="2020-01-01T00:00:00Z", valid_to="2024-01-01T00:00:00Z")
    ledger.graph.relate(
        fact.id, "Ana", "leads", "Acme", valid_from="2021-01-01T00:00:00Z", valid_to="2022-01-01T00:00:00Z"
    )
    for valid, relations, names in (
        ("2019-12-31T23:59:59Z", 0, 0),
        ("2020-01-01T00:00:00Z", 0, 1),
        ("2020-12-31T23:59:59Z", 0, 1),
        ("2021-01-01T00:00:00Z", 1, 1),
        ("2021-12-31T23:59:59Z", 1, 1),
        ("2022-01-01T00:00:00Z", 0, 1),
        ("2023-12-31T23:59:59Z", 0, 1),
        ("2024-01-01T00:00:00Z", 0, 0),
    ):
        then = ledger.at(ledger.position, valid_at=valid)
        found = (len(said(then, "Ana")), len(then.graph.neighbors("Ana").seeds))  # type: ignore[arg-type]
        assert found == (relations, names), valid
    (edge,) = (
        e
        for e in ledger.at(ledger.position, valid_at="2021-05-05").graph.neighbors("Ana").neighbors
        if e.relation == "leads"
    )
    assert (edge.valid_from[:10], (edge.valid_to or "")[:10]) == ("2021-01-01", "2022-01-01")


def test_another_validity_takes_the_place_of_the_first(ledger: Ledger) -> None:
    fact = ledger.remember("Ana works there.", relations=[("Ana", "works_at", "Acme")])
    after = ledger.graph.relate(fact.id, "ana", "works_at", "acme", valid_to="2030-01-01")
    assert [(each.subject, (each.valid_to or "")[:10]) for each in after.relations] == [("Ana", "2030-01-02")]
    with pytest.raises(RejectedError, match="must end after"):
        ledger.graph.relate(fact.id, "Ana", "works_at", "Acme", valid_from="2030-01-01", valid_to="2029-01-01")


def test_a_distrusted_source_takes_its_edges_and_gives_back_what_they_retired(ledger: Ledger) -> None:
    fact = ledger.bind(actor="ann").remember("Ana works there.", relations=[("Ana", "works_at", "Acme")])
    ledger.bind(actor="eve").graph.relate(fact.id, "Ana", "hates", "Bob")
    ledger.bind(actor="eve").remember("Ana stole.", relations=[("Ana", "robbed", "Acme")])
    ledger.history.distrust("eve", kind="actor")
    assert said(ledger, "Ana") == {("works_at", "out", "Acme")}
    ledger.history.trust("eve", kind="actor")
    assert said(ledger, "Ana") == {("robbed", "out", "Acme"), ("hates", "out", "Bob")}


def test_what_somebody_else_promoted_retires_nothing_once_its_source_is_distrusted(ledger: Ledger) -> None:
    ledger.bind(actor="ann").remember("Ana works there.", relations=[("Ana", "works_at", "Acme")])
    idea = ledger.bind(actor="eve").propose("Ana stole.", relations=[("Ana", "robbed", "Acme")])
    ledger.bind(actor="ann").promote(idea.id)
    assert said(ledger, "Ana") == {("robbed", "out", "Acme")}
    ledger.history.distrust("eve", kind="actor")
    assert said(ledger, "Ana") == {("works_at", "out", "Acme")}


# --- bounds ----------------------------------------------------------------------------------------------------------


CANARIES = {"": "Xylographer", "ada": "Quokkasong", "bob": "Zebrawood"}


def test_nobody_sees_another_users_names(ledger: Ledger) -> None:
    for user, word in CANARIES.items():
        ledger.bind(user=user).remember(
            f"We met Ana at {word}.", entities=[word], relations=[("Ana", f"{word}s", word)]
        )
        ledger.bind(user=user).remember("We met Ana at Acme.")
    for user in CANARIES:
        everything = full(ledger.bind(user=user).graph.neighbors("Ana Acme " + " ".join(CANARIES.values()))).casefold()
        assert [word for word in CANARIES.values() if word.casefold() in everything] == [CANARIES[user]]
        with probe.read(ledger) as connection:
            for other, word in CANARIES.items():
                assert projection.seeds(connection, user, word) == ([word.lower()] if other == user else [])
    assert ledger.bind(user="nobody").graph.neighbors("Ana").seeds == ()


def test_one_users_relation_retires_nothing_of_anothers(ledger: Ledger) -> None:
    ledger.bind(user="ada").remember("Ana works there.", relations=[("Ana", "works_at", "Acme")])
    ledger.bind(user="bob").remember("Ana left.", relations=[("Ana", "left", "Acme")])
    assert said(ledger.bind(user="ada"), "Ana") == {("works_at", "out", "Acme")}
    with pytest.raises(NotFoundError):
        ledger.bind(user="bob").graph.relate(ledger.bind(user="ada").memories.list()[0].id, "a", "b", "c")


def test_a_project_sees_its_own_and_the_global_memories(ledger: Ledger) -> None:
    ledger.remember("We met Ana at Acme.", project="one")
    ledger.remember("We met Ana at Initech.", project="two")
    ledger.remember("We met Ana at Globex.")
    assert {name for _, _, name in around(ledger, "Ana", project="one")} == {"Acme", "Globex"}
    assert {name for _, _, name in around(ledger, "Ana", project="none")} == {"Globex"}


def test_a_limit_cuts_and_says_so_in_an_order_that_never_changes(ledger: Ledger) -> None:
    ledger.remember("One.", entities=["Ana", *"bcdefg"])
    ledger.remember("Two.", entities=["Ana", "e"], relations=[("Ana", "likes", "z")])
    found = ledger.graph.neighbors("Ana", limit=3)
    assert [(each.name, each.weight) for each in found.neighbors] == [
        ("z", 1),
        ("e", 2),
        ("z", 1),
    ] and found.total == 8
    assert ledger.graph.neighbors("Ana", limit=3) == found and ledger.graph.neighbors("Ana", limit=0).neighbors == ()
    with pytest.raises(RejectedError):
        ledger.graph.neighbors("Ana", limit="3")  # type: ignore[arg-type]
    with pytest.raises(RejectedError):
        ledger.graph.neighbors(None)  # type: ignore[arg-type]


def test_of_a_name_in_very_many_memories_only_the_newest_are_looked_at(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(projection, "NEWEST", 3)
    for number in range(5):
        ledger.remember(f"{number}.", entities=["Ana", f"b{number}"])
    found = ledger.graph.neighbors("Ana")
    assert not found.complete and [each.name for each in found.neighbors] == ["b4", "b3", "b2"]
    assert ledger.graph.neighbors("b1").complete


# --- the neighbourhood, for recall -----------------------------------------------------------------------------------


def test_the_neighbourhood_is_what_names_a_seed_and_then_what_names_a_neighbour(ledger: Ledger) -> None:
    texts = ("Ana likes Porto.", "The cat sleeps.", "We saw Porto and Lisbon.", "We saw Lisbon.", "Ana likes tea.")
    facts = [ledger.remember(text) for text in texts]
    hidden = ledger.remember("Ana likes Faro.")
    ledger.retract(hidden.id)
    at = probe.writer(ledger).now()
    with probe.read(ledger) as connection:

        def near(text: str, limit: int = 20) -> list[tuple[int, int]]:
            found = projection.neighborhood(connection, text, "", at=at, limit=limit)
            rows = {each.position: number for number, each in enumerate(facts)}
            return [(rows[row], hops) for row, hops in found]

        assert near("what does Ana like?") == [(4, 0), (0, 0), (2, 1)]
        assert near("Ana", limit=2) == [(4, 0), (0, 0)] and near("Ana", limit=0) == [] == near("nobody")
        assert near("Faro") == []


def test_the_neighbourhood_looks_at_few_rows_only(ledger: Ledger) -> None:
    for number in range(60):
        ledger.remember(f"{number}.", entities=["Ana", f"b{number}"])
    with probe.read(ledger) as connection:
        seen: list[str] = []
        connection.set_trace_callback(seen.append)
        found = projection.neighborhood(connection, "Ana", "", at=probe.writer(ledger).now(), limit=4)
        connection.set_trace_callback(None)
    assert len(found) == 4 and [row for row, _ in found] == sorted((row for row, _ in found), reverse=True)
    assert sum(int(limit) for sql in seen for limit in re.findall(r"DESC LIMIT (\d+)", sql)) <= 6 * 4


# --- gone for good ---------------------------------------------------------------------------------------------------


def test_an_erased_memory_leaves_none_of_its_names(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "memory.db") as ledger:
        fact = ledger.remember(
            "We met Zanzibarquux at Harbourrow.",
            entities=["Wollongongo"],
            relations=[("Quetzalia", "likes", "Ouagadou")],
        )
        ledger.revise(fact.id, "We met Zanzibarquux at Timbuktoo.")
        ledger.graph.unrelate(fact.id, "Quetzalia", "likes", "Ouagadou", reason="no Ouagadou")
        ledger.remember("We met Ana at Acme.")
        report = ledger.erase(fact.id, reason="asked for")
        assert (report.state, report.quotes) == ("completed", ())
        assert ledger.proof.digest() == folded_from_zero(ledger) and ledger.proof.verify().ok
        for name in ("Zanzibarquux", "Quetzalia", "Wollongongo", "Timbuktoo"):
            assert ledger.graph.neighbors(name).seeds == () == ledger.at(fact.position).graph.neighbors(name).seeds
    left = b"".join(path.read_bytes().lower() for path in tmp_path.iterdir())
    for word in (b"zanzibar", b"harbourrow", b"wollongongo", b"quetzalia", b"ouagadou", b"timbuktoo"):
        assert word not in left and word.decode().encode("utf-16-le") not in left


def test_a_retired_edge_does_not_come_back_when_its_retirement_loses_its_names(ledger: Ledger) -> None:
    fact = ledger.remember("Ana took a job.", relations=[("Ana", "works_at", "Acme"), ("Ana", "knows", "Bob")])
    retracted = ledger.graph.unrelate(fact.id, "Ana", "works_at", "Acme")
    ledger.erase(Event(retracted.position, fields=["data.subject", "data.object"]), quotes="keep")
    assert said(ledger, "Ana") == {("knows", "out", "Bob")}
    assert ledger.proof.digest() == folded_from_zero(ledger)


def test_a_relation_with_an_erased_name_is_left_out_of_the_graph(ledger: Ledger) -> None:
    fact = ledger.remember("Ana took a job.")
    edge = ledger.graph.relate(fact.id, "Ana", "works_at", "Acme")
    ledger.erase(Event(edge.position, fields=["data.object"]), quotes="keep")
    assert said(ledger, "Ana") == set() and ledger.graph.neighbors("Acme").seeds == ()
    other = ledger.graph.relate(fact.id, "Ana", "works_at", "Initech")
    ledger.erase(Event(other.position, spans=[("data.object", 0, 7)]), quotes="keep")
    assert said(ledger, "Ana") == set()
    assert ledger.proof.digest() == folded_from_zero(ledger)


# --- any history -----------------------------------------------------------------------------------------------------

NAMES = ("Ana", "ANA", "Bob", "New York", "Acme")
VERBS = ("remember", "remember", "propose", "promote", "relate", "relate", "unrelate", "supersede", "revise", "retract",
         "restore", "valid", "undo", "redo", "distrust", "trust", "erase")  # fmt: skip
actions = st.lists(
    st.tuples(st.sampled_from(VERBS), st.integers(0, 10_000), st.sampled_from(("", "ann"))), min_size=3, max_size=25
)


def act(ledger: Ledger, verb: str, number: int, user: str) -> None:
    """One command; a refusal is an answer too."""
    asked = ledger.bind(user=user)
    one, two = NAMES[number % 5], NAMES[number // 5 % 5]
    relation = ("knows", "likes")[number % 2]
    found = asked.memories.list(statuses=())
    id = found[number % len(found)].id if found else "m_0000000000000000"
    by = ledger.bind(user=user, actor=("", "eve")[number % 2])
    text = f"We saw {one} with {two} at {number % 4}."
    edges = [(one, relation, two)] if number % 3 == 0 else []
    calls = {
        "remember": lambda: by.remember(text, relations=edges, entities=[two] if number % 2 else []),
        "propose": lambda: by.propose(text, relations=edges),
        "promote": lambda: by.promote(id),
        "relate": lambda: by.graph.relate(id, one, relation, two, valid_to=("2026-02-01", None)[number % 2]),
        "unrelate": lambda: by.graph.unrelate(id, one, relation, two),
        "supersede": lambda: by.supersede(id, text, relations=edges),
        "revise": lambda: by.revise(id, text + " Truly."),
        "retract": lambda: by.retract(id),
        "restore": lambda: by.restore(id),
        "valid": lambda: by.memories.set_validity(id, valid_from="2025-06-01", valid_to="2026-03-01"),
        "undo": lambda: asked.undo(1 + number % ledger.position, cascade=True),
        "redo": lambda: asked.redo(1 + number % ledger.position),
        "distrust": lambda: asked.history.distrust("eve", kind="actor", since=1 + number % ledger.position),
        "trust": lambda: asked.history.trust("eve", kind="actor"),
        "erase": lambda: asked.erase(id, derived="keep", sources="keep", quotes="keep"),
    }
    with suppress(LedgerError):
        calls[verb]()


def told(ledger: Ledger, position: int) -> list[answers.Graph]:
    """What each user is shown as of a position."""
    asked = [ledger.bind(user=user).at(position) for user in ("", "ann")]
    return [each.graph.neighbors(name) for name in ("Ana", "bob new york", "acme") for each in asked]


def told_now(ledger: Ledger) -> list[answers.Graph]:
    asked = [ledger.bind(user=user) for user in ("", "ann")]
    return [each.graph.neighbors(name) for name in ("Ana", "bob new york", "acme") for each in asked]


@pytest.mark.slow
@settings(max_examples=200 if LONG else 25, deadline=None, suppress_health_check=list(HealthCheck))
@given(actions=actions)
def test_rebuild_equals_catch_up_and_as_of_equals_the_answer_then(actions: list[tuple[str, int, str]]) -> None:
    clock = Clock()
    with tempfile.TemporaryDirectory(dir=QUICK) as folder, Ledger.open(f"{folder}/memory.db", clock=clock) as ledger:
        then: dict[int, list[answers.Graph]] = {}
        for verb, number, user in actions:
            act(ledger, verb, number, user)
            if verb == "erase":
                then.clear()  # what was erased since is erased at every moment
            then[ledger.position] = told_now(ledger)
            clock.advance(days=number % 3)
            then[ledger.position] = then[ledger.position] if number % 3 == 0 else told(ledger, ledger.position)
        for position, answer in then.items():
            assert told(ledger, position) == answer
        digest = ledger.proof.digest()
        assert folded_from_zero(ledger) == digest == probe.rebuild(ledger).digest
        assert ledger.proof.verify().ok


# --- drawn -----------------------------------------------------------------------------------------------------------

HOSTILE = (
    'a"b', "a\nb", "a[b]{c}(d)", "]]>", "<script>alert(1)</script>", "a|b", "%% c", "\u202eevil\u2066", "\\", '\\"', "end",
    "#quot;", "&amp;", "1. one", "- two", "`x`", "```\nmore", "a;b", "\x1b[31mred", "graph", "--> n1", "https://a.b/c", "*b*",
)  # fmt: skip


@pytest.fixture
def hostile(ledger: Ledger) -> answers.Graph:
    ledger.policy.set(threats="off")
    for number, name in enumerate(HOSTILE):
        edges = [("Hub", f"is {name}", name)] if any(map(str.isalnum, name)) else []
        ledger.remember(f"{number}.", entities=["Hub", name], relations=edges)
    return ledger.graph.neighbors("hub", limit=500)


def test_mermaid_takes_no_name_for_syntax(hostile: answers.Graph) -> None:
    first, *lines = graphs.mermaid(hostile).splitlines()
    assert first == "flowchart LR" and len(hostile.neighbors) > 30
    label = r'"(?:[^\W_]|[ ]|(?<=[^\W_])[-_.](?=[^\W_])|#\d+;)*"'
    for line in lines:
        assert re.fullmatch(rf"  (n\d+\[{label}\]|n\d+ (-->|-\.-)\|{label}\| n\d+)", line), line
    decoded = re.sub(r"#(\d+);", lambda found: chr(int(found[1])), "\n".join(lines))
    assert "<script>alert(1)</script>" in decoded and "]]>" in decoded and "\\u202eevil\\u2066" in decoded
    assert "\u202e" not in decoded and "\x1b" not in decoded


def test_the_same_edge_is_drawn_once_though_both_ends_were_asked_about(ledger: Ledger) -> None:
    ledger.remember("We saw it.", relations=[("Ana", "works_at", "Acme")])
    found = ledger.graph.neighbors("Ana Acme")
    assert len(found.neighbors) == 4 and len(graphs.mermaid(found).splitlines()) == 5
    assert graphs.mermaid(found).count("-->") == graphs.mermaid(found).count("-.-") == 1


def drawn(db: Path, *arguments: str) -> str:
    done = run(*arguments, db=db, environment={"COLUMNS": "100"})
    assert done.exit_code == 0, done.output
    return done.output


def test_the_command_line_relates_and_draws(tmp_path: Path) -> None:
    db = tmp_path / "memory.db"
    id = drawn(db, "remember", "Ana took a job.", "-q").strip()
    edge = (id, "Ana de Souza", "works_at", "Acme \x1b[31m")
    drawn(db, "graph", "relate", *edge, "--valid-to", "2099-01-01")
    tree = drawn(db, "graph", "neighbors", "Ana de Souza")
    assert (
        "Ana de Souza  1 memory" in tree and f"works_at → Acme \\x1b[31m  1 memory: {id[:9]}  until 2099-01-02" in tree
    )
    assert "Relations\nsubject" in drawn(db, "memories", "get", id)
    assert drawn(db, "graph", "neighbors", "ana de souza", "--mermaid").startswith("flowchart LR\n")
    assert '"works_at"' in drawn(db, "graph", "neighbors", "Ana de Souza", "--json", "--limit", "1")
    assert "no believed memory" in drawn(db, "graph", "neighbors", "Ana de Souza", "--as-of", "2")
    drawn(db, "graph", "unrelate", *edge, "--reason", "a mistake")
    assert "no believed memory" in drawn(db, "graph", "neighbors", "Ana de Souza")
    assert run("graph", "neighbors", "Ana", "--format", "dot", db=db).exit_code == 2
