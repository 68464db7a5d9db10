"""An evaluation of a year in a person's life, played through ``add``, by questions on 31 December; public library only.

    python tools/evaluate/evaluate_year.py [years/shop.jsonl …] [--modes rules,model,weekly,baselines] [--vectors wordllama]
        [--budget 400] [--list] [--json]

A file holds the turns of one invented person and the questions at the end of the year. Each question has the right strings
(``right``), of which one has to be in the prompt, and the strings of values that are outdated by then. The ``facts`` of a turn
are the facts that a perfect extractor would write. Each mode is a ledger of its own, with a clock that follows the turns:

- ``rules``: the defaults without a model; ``weekly-rules`` runs the jobs every seventh day.
- ``model``: a perfect extractor as the model; it can replace or retract only the facts in its prompt. ``weekly`` runs
  the jobs every seventh day.
- ``baselines``: the last 40 turns, the last 80 turns and the whole year as the prompt.

An answer is right if a line of the prompt has one of the right strings as whole words; an outdated line has an outdated string
and no right one. ``first`` counts, among the questions with an outdated value, those with a right line before every outdated
line. The figures do not show that a model understands the lines.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from ledger import Ledger
from ledger.types import ModelRequest

YEARS = Path(__file__).parent / "years"
MODES = ("rules", "weekly-rules", "model", "weekly", "baselines")
END = datetime(2026, 12, 31, 20, tzinfo=UTC)
_SHOWN = re.compile(r"^\[(\d+)\] (.*)$", re.MULTILINE)
_SAID = re.compile(r"^user(?: [^(]*)? \([^)]*\): (.*)$")
_DATE = re.compile(r"\b\d{1,2} [A-Z][a-z]{2} 2026\b")


class Year(NamedTuple):
    """The turns of a person, in order, and the questions at the end."""

    name: str
    turns: list[dict[str, Any]]
    questions: list[dict[str, Any]]


class Outcome(NamedTuple):
    """The figures of one mode on the questions of one year; ``misses`` are the questions without a right line."""

    mode: str
    questions: int
    right: int
    outdated: int
    changed: int
    first: int
    tokens: int
    undated: int
    calls: Mapping[str, int]
    misses: list[str]


def load(path: Path) -> Year:
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    turns = [row for row in rows if row["type"] == "turn"]
    return Year(path.stem, turns, [row for row in rows if row["type"] == "question"])


# --- a perfect extractor -----------------------------------------------------------------------------------------------


class PerfectExtractor:
    """A model that knows the facts of every turn, and replaces or retracts an older fact if the fact is in its prompt."""

    name = "perfect-extractor"

    def __init__(self, year: Year) -> None:
        self._facts = {fact["id"]: fact["content"] for turn in year.turns for fact in turn.get("facts", ())}
        self._turns = {_key(turn["user"]): turn for turn in year.turns}
        self.counts = Counter[str]()

    def __call__(self, request: ModelRequest) -> str:
        self.counts[request.purpose] += 1
        if request.purpose != "extraction":
            return "{}"
        facts_shown, _, conversation = request.content.partition("<conversation>")
        numbers = {content.strip(): int(number) for number, content in _SHOWN.findall(facts_shown)}
        answer: dict[str, list[dict[str, Any]]] = {"add": [], "supersede": [], "retract": []}
        for number, line in _SHOWN.findall(conversation):
            words = _SAID.match(line)
            turn = self._turns.get(_key(words[1])) if words else None
            for fact in turn.get("facts", ()) if turn is not None else ():
                action = {name: fact[name] for name in ("content", "kind")}
                action |= {"said_by": "user", "messages": [int(number)], "confidence": 0.95}
                known = [numbers[self._facts[id]] for id in fact.get("replaces", ()) if self._facts[id] in numbers]
                self._count(fact.get("replaces", ()), known)
                answer["supersede" if known else "add"].append(action | ({"fact": known[0]} if known else {}))
                answer["retract"] += [
                    {"fact": fact_number, "messages": [int(number)], "said_by": "user"} for fact_number in known[1:]
                ]
            for id in turn.get("ends", ()) if turn is not None else ():
                known = [numbers[self._facts[id]]] if self._facts[id] in numbers else []
                self._count([id], known)
                answer["retract"] += [{"fact": fact, "messages": [int(number)], "said_by": "user"} for fact in known]
        return json.dumps(answer)

    def _count(self, changed: Sequence[str], known: Sequence[int]) -> None:
        self.counts["changes"] += len(changed)
        self.counts["changes whose fact was shown"] += len(known)


def _key(text: str) -> str:
    """Return the beginning of a text, as it stands on the first line of a model's prompt."""
    return " ".join(text.splitlines()[0].split())[:80].lower()


# --- playing and asking -----------------------------------------------------------------------------------------------


def play(
    year: Year, folder: Path, *, model: PerfectExtractor | None, weekly: bool, vectors: str | None
) -> Iterator[Ledger]:
    """Yield the ledger after the whole year, at the evening of 31 December."""
    now = datetime.fromisoformat(year.turns[0]["at"])
    options: dict[str, Any] = {"model": model} if model is not None else {}
    if vectors is not None:
        options["embedder"] = vectors
    next_run = now + timedelta(days=7)
    with Ledger.open(folder / "memory.db", user="someone", clock=lambda: now, **options) as ledger:
        for turn in year.turns:
            at = datetime.fromisoformat(turn["at"])
            while weekly and next_run < at:
                now = next_run
                ledger.jobs.run()
                next_run += timedelta(days=7)
            now = at
            messages = [{"role": "user", "content": turn["user"]}, {"role": "assistant", "content": turn["assistant"]}]
            ledger.add(messages, session=turn["session"])
            if vectors is not None:
                ledger.vectors.update()
        now = END
        if weekly:
            ledger.jobs.run()
            if vectors is not None:
                ledger.vectors.update()
        yield ledger


def judge(mode: str, year: Year, prompt: Callable[[str], tuple[str, int]], calls: Mapping[str, int]) -> Outcome:
    """Count the right and the outdated answers in the prompts of a year's questions."""
    right = outdated = changed = first = tokens = undated = 0
    misses = list[str]()
    for question in year.questions:
        text, size = prompt(question["question"])
        lines = [line for line in text.splitlines() if line.strip() and not line.startswith("```")]
        rights = [at for at, line in enumerate(lines) if says(line, question["right"])]
        olds = [at for at, line in enumerate(lines) if at not in rights and says(line, question["outdated"])]
        right, outdated, tokens = right + bool(rights), outdated + bool(olds), tokens + size
        changed += bool(question["outdated"])
        first += bool(question["outdated"] and rights and (not olds or rights[0] < olds[0]))
        undated += sum(not _DATE.search(line) for line in lines)
        if not rights:
            misses.append(f"{question['id']} {question['question']} {question['right']}")
    return Outcome(mode, len(year.questions), right, outdated, changed, first, tokens, undated, calls, misses)


def says(line: str, strings: Sequence[str]) -> bool:
    return any(re.search(rf"(?<!\w){re.escape(string.lower())}(?!\w)", line.lower()) for string in strings)


def ask(ledger: Ledger, question: str, budget: int) -> tuple[str, int]:
    pack = ledger.context(question, budget=budget)
    return pack.as_text(), pack.used


def run(year: Year, mode: str, *, budget: int, vectors: str | None) -> Iterator[Outcome]:
    if mode == "baselines":
        for count in (40, 80, len(year.turns)):
            text = "\n".join(
                f"{turn['at'][:10]} {role}: {' '.join(turn[role].split())}"
                for turn in year.turns[-count:]
                for role in ("user", "assistant")
            )
            name = "the whole year" if count == len(year.turns) else f"the last {count} turns"
            yield judge(name, year, lambda _, text=text: (text, len(text) // 4), {})  # type: ignore[misc]
        return
    model = PerfectExtractor(year) if mode in ("model", "weekly") else None
    with tempfile.TemporaryDirectory() as folder:
        weekly = mode.startswith("weekly")
        for ledger in play(year, Path(folder), model=model, weekly=weekly, vectors=vectors):
            calls = model.counts if model is not None else {}
            prompt = partial(ask, ledger, budget=budget)
            yield judge(mode + (f", {vectors}" if vectors else ""), year, prompt, calls)


def table(year: Year, outcomes: Sequence[Outcome]) -> Iterator[str]:
    yield f"{year.name}: {len(year.turns)} turns, {len(year.questions)} questions"
    yield "| mode | right in the prompt | outdated beside it | right first, of those that changed | tokens | undated lines |"
    yield "|---|--:|--:|--:|--:|--:|"
    for outcome in outcomes:
        right, outdated = outcome.right / outcome.questions, outcome.outdated / outcome.questions
        yield (
            f"| {outcome.mode} | {outcome.right} ({right:.0%}) | {outcome.outdated} ({outdated:.0%})"
            f" | {outcome.first} of {outcome.changed} ({outcome.first / max(1, outcome.changed):.0%})"
            f" | {outcome.tokens / outcome.questions:,.0f} | {outcome.undated} |"
        )
    for outcome in outcomes:
        if outcome.calls:
            calls = ", ".join(f"{name} {number}" for name, number in sorted(outcome.calls.items()))
            yield f"{outcome.mode}: {calls}; {100 * _calls(outcome) / len(year.turns):.0f} calls a hundred turns"


def _calls(outcome: Outcome) -> int:
    return sum(number for name, number in outcome.calls.items() if not name.startswith("changes"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "files", nargs="*", type=Path, help="files of years; the default is all of tools/evaluate/years"
    )
    parser.add_argument("--modes", default="rules,model,weekly,baselines", help=f"some of {', '.join(MODES)}")
    parser.add_argument("--vectors", help='an embedder, such as "wordllama"')
    parser.add_argument("--budget", type=int, default=400, help="tokens of the prompt")
    parser.add_argument("--list", action="store_true", help="the questions without a right line")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    modes = options.modes.split(",")
    if unknown := set(modes) - set(MODES):
        parser.error(f"no mode {min(unknown)!r}; the modes are {', '.join(MODES)}")
    for path in options.files or sorted(YEARS.glob("*.jsonl")):
        year = load(path)
        outcomes = [
            outcome for mode in modes for outcome in run(year, mode, budget=options.budget, vectors=options.vectors)
        ]
        if options.json:
            print(json.dumps({"year": year.name, "outcomes": [outcome._asdict() for outcome in outcomes]}))
            continue
        print("\n".join(table(year, outcomes)))
        for outcome in outcomes if options.list else ():
            print(f"{outcome.mode}, without a right line:", *outcome.misses, sep="\n  ")
    return 0


if __name__ == "__main__":
    sys.exit(main())
