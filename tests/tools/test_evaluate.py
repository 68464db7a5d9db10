"""The evaluation tool: its scores are those of another computation of the same, and it is a store for other scorers."""

from __future__ import annotations

import gzip
import importlib.util
import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from places import ROOT

from ledger import RejectedError

SAID = (
    ("D1:1", "Ann", "s1", "I adopted a puppy called Biscuit last week."),
    ("D1:2", "Bob", "s1", "How lovely! What breed is the puppy?"),
    ("D1:3", "Ann", "s1", "A beagle. He chews everything."),
    ("D2:1", "Bob", "s2", "I started to learn the cello."),
    ("D2:2", "Ann", "s2", "Is the cello hard?"),
    ("D2:3", "Bob", "s2", "My fingers hurt, but the teacher is patient."),
    ("D2:4", "Ann", "s2", "Biscuit howls when he hears music."),
)
ASKED = (
    ("What is the name of Ann's puppy?", "one", ["D1:1"]),
    ("Which breed is Biscuit?", "one", ["D1:3", "D1:2"]),
    ("What does Bob learn?", "two", ["D2:1"]),
    ("Who flew to Mars?", "two", ["D2:3"]),
    ("What did nobody say?", "adversarial", ["D1:1"]),
    ("What has no evidence?", "two", []),
)
DATES = {"s1": "1:56 pm on 8 May, 2023", "s2": "4:04 pm on 20 January, 2024"}


def conversation(name: str) -> dict[str, Any]:
    turns = [
        {"dia_id": id, "speaker": who, "session": session, "date_time": DATES[session], "text": text}
        for id, who, session, text in SAID
    ]
    questions = [
        {"qid": f"{name}-{number}", "question": asked, "category": category, "evidence": evidence}
        for number, (asked, category, evidence) in enumerate(ASKED)
    ]
    return {"sample_id": name, "turns": turns, "qa": questions}


@pytest.fixture(scope="module")
def evaluate() -> Iterator[ModuleType]:
    spec = importlib.util.spec_from_file_location("evaluate_tool", ROOT / "tools" / "evaluate" / "evaluate.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["evaluate_tool"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["evaluate_tool"]


# --- scores ----------------------------------------------------------------------------------------------------------


def expected(ranked: list[str], gold: set[str]) -> dict[str, float]:
    """From the definitions, one place at a time."""
    seen: list[str] = []
    for id in ranked:
        if id not in seen:
            seen.append(id)
    gains = [1.0 if id in gold else 0.0 for id in seen]
    best = [1.0] * min(len(gold), 10)
    told = {f"recall@{k}": len(set(seen[:k]) & gold) / len(gold) for k in (1, 5, 10, 20)}
    told["MRR"] = next((1 / (at + 1) for at, gain in enumerate(gains[:20]) if gain), 0.0)
    told["nDCG@10"] = _dcg(gains[:10]) / _dcg(best)
    return told


def _dcg(gains: list[float]) -> float:
    return math.fsum(gain / math.log2(at + 2) for at, gain in enumerate(gains))


IDS = st.sampled_from([f"D{n}" for n in range(30)])


@given(ranked=st.lists(IDS, max_size=40), gold=st.sets(IDS, min_size=1, max_size=14))
def test_a_score_is_what_its_definition_says(evaluate: ModuleType, ranked: list[str], gold: set[str]) -> None:
    assert evaluate.score(ranked, gold) == pytest.approx(expected(ranked, gold))


def test_the_best_order_scores_one_and_the_wrong_one_nothing(evaluate: ModuleType) -> None:
    assert set(evaluate.score(["a", "x", "y"], {"a"}).values()) == {1.0}
    assert set(evaluate.score(["x", "y"], {"a"}).values()) == set(evaluate.score([], {"a"}).values()) == {0.0}


# --- the store -------------------------------------------------------------------------------------------------------


def test_the_factory_makes_a_store_that_gives_the_turns_by_their_own_ids(evaluate: ModuleType) -> None:
    store = evaluate.factory()
    try:
        store.ingest(conversation("c")["turns"])
        found = store.search("Who learns the cello?", 5)
        assert found[0] == "D2:1" and set(found) <= {id for id, *_ in SAID} and len(set(found)) == len(found) <= 5
        assert store.search("Who learns the cello?", 1) == found[:1]
        assert store.search("?!", 5) == []
        home = Path(store._home.name)
    finally:
        store.close()
    assert not home.exists()


def test_a_date_of_numbers_alone_is_read_in_the_format_that_is_named(evaluate: ModuleType) -> None:
    turn = {
        "dia_id": "D1:1",
        "speaker": "Ann",
        "session": "s1",
        "date_time": "03.04.2024, 21:05:06",
        "text": "A puppy!",
    }
    for dates in (None, "%d.%m.%Y, %H:%M:%S"):
        store = evaluate.Store(dates=dates)
        try:
            if dates is None:
                with pytest.raises(RejectedError, match="cannot be read without guessing"):
                    store.ingest([turn])
            else:
                store.ingest([turn])
                assert store.search("puppy", 1) == ["D1:1"]
        finally:
            store.close()


def test_every_question_with_an_answer_is_scored_by_its_category(evaluate: ModuleType) -> None:
    rows, took = evaluate.evaluate([conversation("a"), conversation("b")], evaluate.factory)
    assert {name: len(each) for name, each in rows.items()} == {"one": 4, "two": 4}
    assert len(took) == 8 and all(each > 0 for each in took)
    store = evaluate.factory()
    store.ingest(conversation("a")["turns"])
    wanted = [expected(store.search(asked, 20), set(gold)) for asked, category, gold in ASKED if category == "one"]
    store.close()
    assert rows["one"][:2] == [pytest.approx(each) for each in wanted]
    assert rows["two"][0]["recall@5"] == 1.0


def test_merged_is_all_in_one_ledger_with_ids_that_tell_them_apart(evaluate: ModuleType) -> None:
    (merged,) = evaluate.merged([conversation("a"), conversation("b")])
    assert len({turn["dia_id"] for turn in merged["turns"]}) == 2 * len(SAID)
    rows, _ = evaluate.evaluate([merged], evaluate.factory)
    assert sum(map(len, rows.values())) == 8


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gz"])
def test_the_tool_tells_its_means_as_json(
    evaluate: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str], packed: bool
) -> None:
    path = tmp_path / ("talk.json.gz" if packed else "talk.json")
    data = json.dumps([conversation("a")]).encode()
    path.write_bytes(gzip.compress(data) if packed else data)
    assert evaluate.main([str(path), "--json", "--ranking", "rubino/1"]) == 0
    told = json.loads(capsys.readouterr().out)[path.name]
    assert {name: each["n"] for name, each in told["scores"].items()} == {"all": 4, "one": 2, "two": 2}
    both = [told["scores"][name]["recall@10"] for name in ("one", "two")]
    assert told["scores"]["all"]["recall@10"] == pytest.approx(sum(both) / 2)
    assert 0 < told["ms"]["p50"] <= told["ms"]["p95"]


@pytest.mark.parametrize("questions", [0, 1])
def test_one_question_is_a_set_too_and_none_is_told(evaluate: ModuleType, tmp_path: Path, questions: int) -> None:
    path = tmp_path / "talk.json"
    path.write_text(json.dumps([conversation("a") | {"qa": conversation("a")["qa"][:questions]}]), encoding="utf-8")
    assert evaluate.main([str(path)]) == (0 if questions else 1)


# --- observations ----------------------------------------------------------------------------------------------------


def again() -> dict[str, Any]:
    """A conversation in which one thing is said three times, in sessions of their own."""
    found = conversation("again")
    said = "The cello teacher lives beside the old harbour in Porto."
    for number, text in enumerate((said, said.replace("old ", "")), 3):
        turn = {"speaker": "Bob", "session": f"s{number}", "date_time": DATES["s2"]}
        found["turns"].append(turn | {"dia_id": f"D{number}:1", "text": text + " It rains!" * 60})
        found["turns"].append(turn | {"dia_id": f"D{number}:2", "speaker": "Ann", "text": "Rain, " * number})
    asked = "Where in Porto does the cello teacher live?"
    found["qa"] = [{"qid": "q", "question": asked, "category": "one", "evidence": ["D3:1", "D4:1"]}]
    return found


def test_with_observations_no_item_goes_and_their_sources_count_beside(evaluate: ModuleType) -> None:
    proofs, rows = evaluate.compare([again()], (1, 750, 1200, None))
    assert proofs == {2: 1}
    told = {budget: each[0] for budget, each in rows.items()}
    assert all(each["items"] == each["without"] for each in told.values())
    assert {budget: each["shown"] for budget, each in told.items()} == {1: 0, 750: 0, 1200: 1, None: 1}
    assert [told[budget]["items"] for budget in (1, 750, 1200, None)] == [0.0, 0.5, 0.5, 1.0]
    assert [told[budget]["or sources"] for budget in (1, 750, 1200, None)] == [0.0, 0.5, 1.0, 1.0]


def test_the_tool_tells_both_beside_each_other(
    evaluate: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "talk.json"
    path.write_text(json.dumps([again()]), encoding="utf-8")
    assert evaluate.main([str(path), "--observations", "--budget", "400", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["talk.json"]
    assert found["observations"] == {"2": 1} and list(found["budgets"]) == ["400", "none"]
    assert evaluate.main([str(path), "--observations", "--budget", "400"]) == 0
    assert "1 observations (by sources: 1 with 2)" in capsys.readouterr().out


# --- the newer first, and nothing besides ----------------------------------------------------------------------------


def tool(name: str) -> ModuleType:
    with mock.patch.object(sys, "path", [str(ROOT / "tools" / "evaluate"), *sys.path]):
        return importlib.import_module(name)


def test_pairs_are_read_and_their_order_is_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        {"kind": "update", "old": "Rent is 40 euros.", "new": "Rent is 45 euros.", "question": "Is the rent 40 euros?"},
        {"kind": "both", "old": "Ana plays chess.", "new": "Ben has a red bike.", "question": "Does Ana play chess?"},
    ]
    path = tmp_path / "pairs.jsonl"
    path.write_text(
        "\n".join(json.dumps(row | {"half": half}) for half in ("seen", "unseen") for row in rows), encoding="utf-8"
    )
    assert tool("evaluate_updates").main([str(path), "--json"]) == 0
    counted = {"updates": 1, "first": 1, "by score": 0, "alone": 0, "both true": 1, "moved": 0}
    assert json.loads(capsys.readouterr().out) == {"seen": counted, "unseen": counted}
    assert tool("evaluate_updates").main([str(path), "--half", "seen"]) == 0
    told = (
        "seen: of 1 updates the newer first in 1 (100%), by score 0, the older alone 0; of 1 both true 0 moved (0%)\n"
    )
    assert capsys.readouterr().out == told
    with pytest.raises(SystemExit):  # the texts of the unseen half are not shown by the way
        tool("evaluate_updates").main([str(path), "--list"])


def test_look_ups_count_the_statement_of_today_first_and_among_five() -> None:
    forms, updates = tool("forms"), tool("evaluate_updates")
    lockers = next(form for form in forms.FORMS if "locker" in form.statement)
    told, lookups = forms.told_and_asked([lockers])
    assert (len(told), len(lookups), lookups[0].telling_words.split()[0]) == (72, 30, "locker")
    assert told.index(lookups[0].statement) >= 60 and lookups[0].is_updated  # the newest of two statements
    counted = {"look-ups": 30, "first": 30, "among five": 30, "updated": 6, "updated first": 6}
    by_words = {"words alone first": 30, "words alone among five": 30}
    assert updates.looked_up([lockers], None) == counted | by_words


def test_a_case_of_the_benchmark_asks_for_what_answers_and_nothing_besides() -> None:
    case = {"caseId": "c", "category": "", "expect": {"relevantBeliefs": {"shouldOnlyInclude": ["a", "b"]}}}
    judged = tool("evaluate_precision").judged
    assert judged(case, [], ["a", "x"], set())[3:] == (["unexpected x", "missing b"], 0.5, 0.5)
    assert judged(case, [], ["b", "a"], set())[3:] == ([], 1.0, 1.0)
    assert judged(case, [], [], set())[3:] == (["missing a", "missing b"], 0.0, 0.0)
    nothing = case | {"expect": {"relevantBeliefs": {"shouldOnlyInclude": []}, "pinnedFacts": {"mustInclude": ["p"]}}}
    assert judged(nothing, ["p"], [], {"p"})[3:] == ([], None, None)
    assert judged(nothing, [], ["a"], {"p"})[3:] == (["unexpected a", "not pinned p"], 0.0, None)


def test_the_benchmark_runs_on_its_own_form(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def belief(id: str, content: str, **more: Any) -> dict[str, Any]:
        return {
            "_id": id,
            "user_id": "test-user",
            "type": "entity",
            "canonical_name": id,
            "aliases": [],
            "pinned": False,
            "content": content,
            "why_it_matters": "It decides the driver.",
            "scope": ["domain:code"],
            "confidence": 0.9,
            "superseded_by": None,
            "resolved_at": None,
            "created_at": "2026-01-01T00:00:00Z",
            **more,
        }

    beliefs = [
        belief("old", "Postgres was our database.", superseded_by="db", created_at="2025-01-01T00:00:00Z"),
        belief("db", "Our database is MongoDB."),
        belief("settled", "Is the database hosted?", resolved_at="2026-02-01T00:00:00Z"),
    ]
    case = {"caseId": "c", "category": "", "scope": ["domain:code"], "query": "Which database is ours, Postgres?"}
    (tmp_path / "fixtures").mkdir()
    (tmp_path / "fixtures" / "beliefs.seed.json").write_text(json.dumps(beliefs), encoding="utf-8")
    expected = {"relevantBeliefs": {"shouldOnlyInclude": ["db"]}}
    (tmp_path / "fixtures" / "retrieval.cases.json").write_text(
        json.dumps([case | {"expect": expected}]), encoding="utf-8"
    )
    assert tool("evaluate_precision").main([str(tmp_path), "--failures"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "all fields  precision 1.000  recall 1.000  1 of 1 cases passed",
        "text alone  precision 0.333  recall 1.000  0 of 1 cases passed",
        "  c: unexpected old, unexpected settled",
    ]


def test_a_response_that_confirms_wrongly_or_is_missed_is_counted_by_class(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        ("The user plays chess.", "You play chess.", "affirm", True),
        ("The user plays chess.", "Chess is what we talked of.", "affirm", True),
        ("The user plays chess.", "You don't play chess.", "deny", False),
        ("The user plays chess.", "You play chess.", "quoted", False),
    ]
    names = ("memory", "response", "class", "confirms")
    lines = [json.dumps(dict(zip(names, row, strict=True)) | {"half": "seen"}) for row in rows]
    (tmp_path / "pairs.jsonl").write_text("\n".join(lines), encoding="utf-8")
    assert tool("evaluate_responses").main([str(tmp_path / "pairs.jsonl"), "--half", "seen"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "seen: 4 pairs, wrong 1 of 2 (50.0%), missed 1 of 2 (50.0%)",
        "  affirm           wrong  0 of  0  missed  1 of  2  denied  0",
        "  deny             wrong  0 of  1  missed  0 of  0  denied  1",
        "  quoted           wrong  1 of  1  missed  0 of  0  denied  0",
    ]


@pytest.mark.parametrize("name", ["response_pairs", "affirmations"])
def test_no_response_of_the_corpora_confirms_wrongly(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert tool("evaluate_responses").main([str(ROOT / f"tests/corpus/{name}.jsonl")]) == 0
    totals = [line for line in capsys.readouterr().out.splitlines() if "pairs" in line]
    assert [line.split("wrong ")[1].split()[0] for line in totals] == ["0", "0"]
