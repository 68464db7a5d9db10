"""Whether recall gives what answers and nothing besides, on PrecisionMemBench: through the public library only.

    git clone https://github.com/tenurehq/precisionMemBench
    python tools/evaluate/evaluate_precision.py precisionMemBench [--vectors wordllama] [--min-match 0.3] [--failures] [--json]

Its 77 cases on 35 beliefs (MIT licence) are scored as its ``retrieval.external.eval.test.ts`` scores a provider, twice.
"text alone" gives the ledger what that file gives a provider: the user, the first scope as the project, and one text of the
names, the content and why it matters; every memory of that project is asked for, open questions too. "all fields" gives what an
application knows besides: a belief is a memory in the project of each scope, its names are entities, one that was superseded is
superseded here, one that was settled is no longer valid, and an open question has a kind that is not asked for. What the
benchmark itself reads from the beliefs and no provider gives (pinned beliefs, open questions, the persona) is taken from them
in both.
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
    """Of one case: what was found besides what is pinned, and what of it is as it should be; None where it does not count."""

    case: str
    category: str
    found: list[str]
    wrong: list[str]
    precision: float | None
    recall: float | None


class Store:
    """The beliefs of the benchmark as memories of a ledger: as texts alone, or with all that the benchmark says of them."""

    def __init__(self, ledger: Ledger, beliefs: Sequence[Belief], *, text_alone: bool) -> None:
        self._ledger, self._beliefs = ledger, {each["_id"]: each for each in beliefs}
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
        before = {each["superseded_by"]: each["_id"] for each in beliefs if each["superseded_by"]}
        memories: dict[str, Memory] = {}
        for each in sorted(beliefs, key=lambda each: each["created_at"]):
            names = [each["canonical_name"].replace("_", " "), *each["aliases"]]
            options: dict[str, Any] = {
                "kind": KINDS.get(each["type"], "knowledge"),
                "confidence": each["confidence"],
                "entities": names,
                "valid_from": each["created_at"],
                "valid_to": each["resolved_at"],
            }
            of_user = self._ledger.bind(user=each["user_id"])
            if (old := memories.get(before.get(each["_id"], ""))) is not None:
                memory = of_user.supersede(old.id, each["content"], **options)
            else:
                memory = of_user.remember(each["content"], project=each["scope"][0], **options)
            memories[each["_id"]], self._ids[memory.id] = memory, each["_id"]

    def pinned(self, user: str, scope: Sequence[str]) -> list[str]:
        return [
            id
            for id, each in self._beliefs.items()
            if each["pinned"] and each["user_id"] == user and each["type"] != QUESTION
            if not each["superseded_by"] and not each["resolved_at"] and not set(scope).isdisjoint(each["scope"])
        ]

    def search(self, user: str, scope: Sequence[str], query: str, most: int, floor: dict[str, Any]) -> list[str]:
        """The beliefs that recall gives, then what those that are relations connect."""
        if not query.strip() or not most:
            return []
        bound, best = self._ledger.bind(user=user), dict[str, float]()
        asked = floor if self._text_alone else {"kinds": ASKED, **floor}
        for project in scope[:1] if self._text_alone else scope:
            pack = bound.recall(query, project=project, among=["memories"], limit=most, **asked)
            best |= {self._ids[item.id]: item.score for item in pack.items}
        found = sorted(best, key=lambda id: -best[id])
        joined = [id for each in found for id in self._beliefs[each].get("participants", ())]
        return list(dict.fromkeys((*found, *(id for id in joined if self._is_in(id, user, scope)))))

    def _is_in(self, id: str, user: str, scope: Sequence[str]) -> bool:
        each = self._beliefs[id]
        wanted = self._text_alone or each["type"] != QUESTION
        return each["user_id"] == user and wanted and not set(scope).isdisjoint(each["scope"])


def judged(case: dict[str, Any], pinned: Sequence[str], found: Sequence[str], always: set[str]) -> Outcome:
    """One case as the benchmark judges it: everything that is asked of it has to be so; nothing is rounded up."""
    asked = case["expect"].get("relevantBeliefs", {})
    shown, given = set(found), {*found, *pinned}
    wrong = [
        f"missing {id}" for key in ("mustInclude", "shouldInclude") for id in asked.get(key, ()) if id not in given
    ]
    wrong += [f"forbidden {id}" for id in asked.get("mustExclude", ()) if id in given]
    only = asked.get("shouldOnlyInclude")
    if only is not None:
        wrong += [f"unexpected {id}" for id in found if id not in only] + [
            f"missing {id}" for id in only if id not in shown
        ]
    facts = case["expect"].get("pinnedFacts", {})
    wrong += [f"not pinned {id}" for id in facts.get("mustInclude", ()) if id not in pinned]
    wrong += [f"pinned {id}" for id in facts.get("mustExclude", ()) if id in pinned]
    expected = set(only) if only is not None else set(asked.get("mustInclude", ())) - always
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
            for user in {each["user_id"] for each in beliefs}:
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
    parser.add_argument(
        "--min-match", type=float, help="the floor, as recall takes it; its default where it is not given"
    )
    parser.add_argument("--failures", action="store_true", help="list the cases that fail, each with why")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args(arguments)
    floor = {} if asked.min_match is None else {"min_match": asked.min_match}
    reports = dict[str, Any]()
    for name, text_alone in {"all fields": False, "text alone": True}.items():
        outcomes = evaluate(asked.data, asked.vectors, floor, text_alone=text_alone)
        figures = reports[name] = {
            "precision": statistics.fmean(each.precision for each in outcomes if each.precision is not None),
            "recall": statistics.fmean(each.recall for each in outcomes if each.recall is not None),
            "passed": sum(not each.wrong for each in outcomes),
            "cases": len(outcomes),
            "failed": {each.case: each.wrong for each in outcomes if each.wrong},
        }
        if asked.json:
            continue
        line = "precision {precision:.3f}  recall {recall:.3f}  {passed} of {cases} cases passed".format(**figures)
        print(f"{name:<11} {line}")
        for case, wrong in figures["failed"].items() if asked.failures else ():
            print(f"  {case}: {', '.join(wrong)}")
    if asked.json:
        print(json.dumps(reports, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
