"""An evaluation of recall on PrecisionMemBench: answers found, and nothing besides them. It uses the public library only.

    git clone https://github.com/tenurehq/precisionMemBench
    python tools/evaluate/evaluate_precision.py precisionMemBench [--vectors wordllama] [--min-match 0.3] [--failures] [--json]

Its 77 cases on 35 beliefs (MIT licence) are scored as its ``retrieval.external.eval.test.ts`` scores a provider, twice.
"text alone" gives the ledger the input that the benchmark gives a provider: the user, the first scope as the project, and one
text of the names, the content and why it matters. Recall then asks for every memory of that project, open questions too. "all
fields" adds the knowledge of an application: a belief is a memory in the project of its first scope, its names are entities, a
superseded belief is superseded here, a settled belief is no longer valid, and an open question has a kind that recall does not
ask for. Both take pinned beliefs, open questions and the persona from the beliefs, as the benchmark does.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ledger import Ledger
from ledger.answers import Memory

USER, MOST = "test-user", 20
ALL = ("domain:code", "domain:writing", "user:universal")
QUESTION = "open_question"
KINDS = {"preference": "preference", QUESTION: "episodic"}
ASKED = ("preference", "knowledge")

Belief = dict[str, Any]


class Outcome(NamedTuple):
    """The outcome of one case: the beliefs found besides the pinned ones, and the errors among them.

    Precision or recall is None where the case does not count for it.
    """

    case: str
    category: str
    found: list[str]
    wrong: list[str]
    precision: float | None
    recall: float | None


class Store:
    """The beliefs of the benchmark as memories of a ledger: as texts alone, or with all fields of the benchmark."""

    def __init__(self, ledger: Ledger, beliefs: Sequence[Belief], *, text_alone: bool) -> None:
        self._ledger, self._beliefs = ledger, {belief["_id"]: belief for belief in beliefs}
        self._ids: dict[str, str] = {}
        self._text_alone = text_alone
        if text_alone:
            self._remember_texts(beliefs)
        else:
            self._remember_all(beliefs)

    def _remember_texts(self, beliefs: Sequence[Belief]) -> None:
        for belief in beliefs:
            parts = (belief["canonical_name"], *belief["aliases"], belief["content"], belief["why_it_matters"])
            text = " ".join(part for part in parts if part)
            of_user = self._ledger.bind(user=belief["user_id"])
            self._ids[of_user.remember(text, project=belief["scope"][0]).id] = belief["_id"]

    def _remember_all(self, beliefs: Sequence[Belief]) -> None:
        before = {belief["superseded_by"]: belief["_id"] for belief in beliefs if belief["superseded_by"]}
        memories: dict[str, Memory] = {}
        for belief in sorted(beliefs, key=lambda belief: belief["created_at"]):
            names = [belief["canonical_name"].replace("_", " "), *belief["aliases"]]
            options: dict[str, Any] = {
                "kind": KINDS.get(belief["type"], "knowledge"),
                "confidence": belief["confidence"],
                "entities": names,
                "valid_from": belief["created_at"],
                "valid_to": belief["resolved_at"],
            }
            of_user = self._ledger.bind(user=belief["user_id"])
            if (old := memories.get(before.get(belief["_id"], ""))) is not None:
                memory = of_user.supersede(old.id, belief["content"], **options)
            else:
                memory = of_user.remember(belief["content"], project=belief["scope"][0], **options)
            memories[belief["_id"]], self._ids[memory.id] = memory, belief["_id"]

    def pinned(self, user: str, scope: Sequence[str]) -> list[str]:
        return [
            id
            for id, belief in self._beliefs.items()
            if belief["pinned"] and belief["user_id"] == user and belief["type"] != QUESTION
            if not belief["superseded_by"] and not belief["resolved_at"] and not set(scope).isdisjoint(belief["scope"])
        ]

    def search(self, user: str, scope: Sequence[str], query: str, most: int, floor: dict[str, Any]) -> list[str]:
        """Return the beliefs that recall gives, then the beliefs that relations among them connect."""
        if not query.strip() or not most:
            return []
        bound, best = self._ledger.bind(user=user), dict[str, float]()
        options = floor if self._text_alone else {"kinds": ASKED, **floor}
        for project in scope[:1] if self._text_alone else scope:
            pack = bound.recall(query, project=project, among=["memories"], limit=most, **options)
            best |= {self._ids[item.id]: item.score for item in pack.items}
        ranked = sorted(best, key=lambda id: -best[id])
        joined = [id for relation in ranked for id in self._beliefs[relation].get("participants", ())]
        return list(dict.fromkeys((*ranked, *(id for id in joined if self._is_in(id, user, scope)))))

    def _is_in(self, id: str, user: str, scope: Sequence[str]) -> bool:
        belief = self._beliefs[id]
        is_asked_for = self._text_alone or belief["type"] != QUESTION
        return belief["user_id"] == user and is_asked_for and not set(scope).isdisjoint(belief["scope"])


def judged(case: dict[str, Any], pinned: Sequence[str], found: Sequence[str], always: set[str]) -> Outcome:
    """Judge a case as the benchmark does: every expectation has to hold, and no figure is rounded up."""
    beliefs = case["expect"].get("relevantBeliefs", {})
    shown, in_prompt = set(found), {*found, *pinned}
    wrong = [
        f"missing {id}"
        for key in ("mustInclude", "shouldInclude")
        for id in beliefs.get(key, ())
        if id not in in_prompt
    ]
    wrong += [f"forbidden {id}" for id in beliefs.get("mustExclude", ()) if id in in_prompt]
    only = beliefs.get("shouldOnlyInclude")
    if only is not None:
        wrong += [f"unexpected {id}" for id in found if id not in only] + [
            f"missing {id}" for id in only if id not in shown
        ]
    facts = case["expect"].get("pinnedFacts", {})
    wrong += [f"not pinned {id}" for id in facts.get("mustInclude", ()) if id not in pinned]
    wrong += [f"pinned {id}" for id in facts.get("mustExclude", ()) if id in pinned]
    expected = set(only) if only is not None else set(beliefs.get("mustInclude", ())) - always
    hits = len(expected & shown)
    precision = None if not shown and not expected else hits / len(shown) if shown else 0.0
    recall = hits / len(expected) if expected else None
    return Outcome(case["caseId"], case["category"], list(found), wrong, precision, recall)


def evaluate(path: Path, vectors: str | None, floor: dict[str, Any], *, text_alone: bool) -> list[Outcome]:
    beliefs, cases = (
        json.loads((path / "fixtures" / name).read_text(encoding="utf-8"))
        for name in ("beliefs.seed.json", "retrieval.cases.json")
    )
    options: dict[str, Any] = {"embedder": vectors} if vectors else {}
    with (
        tempfile.TemporaryDirectory(prefix="evaluate-") as home,
        Ledger.open(Path(home) / "memory.db", **options) as ledger,
    ):
        store = Store(ledger, beliefs, text_alone=text_alone)
        if vectors:
            for user in {belief["user_id"] for belief in beliefs}:
                ledger.bind(user=user).vectors.update()
        return [_outcome(store, case, floor) for case in cases]


def _outcome(store: Store, case: dict[str, Any], floor: dict[str, Any]) -> Outcome:
    user, scope, most = case.get("userId", USER), case["scope"], case.get("budget", {}).get("maxBeliefs", MOST)
    pinned = store.pinned(user, scope)[:most]
    found = [id for id in store.search(user, scope, case["query"], most, floor) if id not in pinned]
    return judged(case, pinned, found[: max(0, most - len(pinned))], set(store.pinned(USER, ALL)))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("data", type=Path, help="a clone of the benchmark")
    parser.add_argument("--vectors", metavar="MODEL", help="an embedder: wordllama, onnx:DIR")
    parser.add_argument("--min-match", type=float, help="the least match, as recall takes it; the default is recall's")
    parser.add_argument("--failures", action="store_true", help="list the cases that fail, with the reasons")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    floor = {} if options.min_match is None else {"min_match": options.min_match}
    reports = dict[str, Any]()
    for name, text_alone in {"all fields": False, "text alone": True}.items():
        outcomes = evaluate(options.data, options.vectors, floor, text_alone=text_alone)
        figures = reports[name] = {
            "precision": statistics.fmean(outcome.precision for outcome in outcomes if outcome.precision is not None),
            "recall": statistics.fmean(outcome.recall for outcome in outcomes if outcome.recall is not None),
            "passed": sum(not outcome.wrong for outcome in outcomes),
            "cases": len(outcomes),
            "failed": {outcome.case: outcome.wrong for outcome in outcomes if outcome.wrong},
        }
        if options.json:
            continue
        line = "precision {precision:.3f}  recall {recall:.3f}  {passed} of {cases} cases passed".format(**figures)
        print(f"{name:<11} {line}")
        for case, wrong in figures["failed"].items() if options.failures else ():
            print(f"  {case}: {', '.join(wrong)}")
    if options.json:
        print(json.dumps(reports, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
