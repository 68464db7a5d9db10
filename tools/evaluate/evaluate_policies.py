"""An evaluation of the policies without a model on real conversations, and of the growth of consolidation's time.

    python tools/evaluate/evaluate_policies.py DATA… [--json]
    python tools/evaluate/evaluate_policies.py --matchers DATA… [--read 50] [--json]
    python tools/evaluate/evaluate_policies.py --conflicts DATA… [--read 50] [--json]
    python tools/evaluate/evaluate_policies.py --scaling [--sizes 1000,10000,100000] [--json]

DATA is as for ``evaluate.py``. Each conversation is imported into a ledger of its own. Extraction runs over every turn, its
candidates are promoted, and the memories are consolidated. Then the turns themselves are consolidated, and in another ledger
every sentence of them as a memory of its own. ``--scaling`` makes memories up: first a set of which a fifth are near another
memory, then a set that shares nearly all of its words, where no filter helps. ``--matchers`` takes each sentence that a
person said for a memory and each other turn for a response, and counts the matches and denials of stems/6. ``--read`` shows
so many of both, to be judged by a reader. ``--conflicts`` remembers each sentence of each speaker, in a project of the
speaker's own, and counts the conflicts by the rule that finds them.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, Literal

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from ledger import Ledger
from ledger.english.matching import DEFAULT_MATCHER, Response, found_by, judge, sought
from ledger.events import CandidatesExtracted
from ledger.observations.grouping import sentences
from tools.bench.measuring import reading
from tools.evaluate.evaluate import load

SEED = 7
END = re.compile(r"(?<=[.!?;])\s+|\s*\n+\s*")  # the end of a sentence of any length
LIMIT = 14.0  # consolidating ten times the memories takes at most so many times as long


def evaluate(conversation: dict[str, Any]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="evaluate-") as home, Ledger.open(Path(home) / "memory.db") as ledger:
        path = Path(home) / "transcript.json"
        path.write_text(json.dumps([conversation]), encoding="utf-8")
        ledger.interactions.import_file(path)
        ledger.policy.set(consolidate=False)
        started = time.process_time()
        ledger.jobs.run()
        extracting = time.process_time() - started
        extracted = _extracted(Path(ledger.path))
        for memory in list(ledger.memories.list(statuses=["candidate"]).all()):
            ledger.promote(memory.id)
        memories, of_memories = _consolidated(ledger, "memories")
        turns, of_turns = _consolidated(ledger, "interactions")
        sayings, of_sayings = _remembered(conversation)
        return extracted | {
            "conversation": conversation["sample_id"],
            "turns": len(conversation["turns"]),
            "memories": sum(1 for _ in ledger.memories.list().all()),
            "over memories": memories,
            "over turns": turns,
            "over sayings": sayings,
            "seconds": {"extract": extracting, "memories": of_memories, "turns": of_turns, "sayings": of_sayings},
        }


def _remembered(conversation: dict[str, Any]) -> tuple[dict[str, int], float]:
    """Consolidate every sentence as a memory of its own, as an agent would have it that remembers everything that is said."""
    with tempfile.TemporaryDirectory(prefix="evaluate-") as home, Ledger.open(Path(home) / "memory.db") as ledger:
        with ledger.batch():
            for turn in conversation["turns"]:
                for sentence in sentences(turn["text"]):
                    ledger.remember(f"{turn['speaker']}: {sentence}")
        return _consolidated(ledger, "memories")


def _extracted(path: Path) -> dict[str, Any]:
    """Return the candidates by rule, and the dropped candidates by reason.

    The reasons "duplicate", "known" and "repeated" count statements that say the same twice.
    """
    candidates: Counter[str] = Counter()
    dropped: Counter[str] = Counter()
    with reading(path) as connection:
        sql = "SELECT json_extract(state, '$.data.origin.rule') FROM events WHERE type = 'MemoryCaptured'"
        candidates.update(rule for (rule,) in connection.execute(sql) if rule is not None)
        for (state,) in connection.execute("SELECT state FROM events WHERE type = ?", (CandidatesExtracted.__name__,)):
            dropped.update(drop["reason"] for drop in json.loads(state)["data"].get("dropped", ()))
    return {"candidates": dict(candidates), "dropped": dict(dropped)}


def _consolidated(ledger: Ledger, over: Literal["memories", "interactions"]) -> tuple[dict[str, int], float]:
    """Consolidate and return the new observations by their number of proofs, and the processor seconds."""
    before = {observation.id for observation in ledger.observations.list().all()}
    started = time.process_time()
    for name in [None, *(project.name for project in ledger.projects.list().all())]:
        ledger.consolidate(over, project=name)
    took = time.process_time() - started
    formed = [observation for observation in ledger.observations.list().all() if observation.id not in before]
    counts = Counter(min(observation.proof_count, 5) for observation in formed)
    return {f"{count}{'+' if count == 5 else ''}": counts[count] for count in sorted(counts)}, took


# --- matchers --------------------------------------------------------------------------------------------------------


def matched(conversation: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield ("restated" or "denied", memory, response) for each pair that stems/6 decides."""
    turns = conversation["turns"]
    from_people = [turn for turn in turns if turn["speaker"] != "assistant"]
    memories = [(turn["dia_id"], sentence) for turn in from_people for sentence in sentences(turn["text"])]
    index: dict[str, set[int]] = defaultdict(set)
    for number, (_, memory) in enumerate(memories):
        for stem in found_by(memory)[1]:
            index[stem].add(number)
    for turn in turns:
        response = Response(turn["text"])
        for number in sorted(set[int]().union(*(index.get(stem, ()) for stem in sought(response)))):
            turn_id, memory = memories[number]
            if turn_id == turn["dia_id"]:
                continue
            verdict = judge(DEFAULT_MATCHER, response, memory)
            if verdict.match or verdict.denial:
                yield ("restated" if verdict.match else "denied"), memory, turn["text"]


def _show_matchers(conversations: Sequence[dict[str, Any]], read: int, as_json: bool) -> None:
    verdicts: dict[str, list[tuple[str, str]]] = {"restated": [], "denied": []}
    for conversation in conversations:
        for verdict, memory, response in matched(conversation):
            verdicts[verdict].append((memory, response))
    counts = {verdict: len(pairs) for verdict, pairs in verdicts.items()}
    print(json.dumps(counts) if as_json else _counts(counts))
    for verdict, pairs in verdicts.items():
        for memory, response in random.Random(SEED).sample(pairs, min(read, len(pairs))):
            print(f"\n{verdict}\n  memory    {memory}\n  response  {response}")


# --- conflicts -------------------------------------------------------------------------------------------------------


def find_conflicts(conversation: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield (speaker and rule, attribute, sentences) for each conflict among all sentences."""
    with tempfile.TemporaryDirectory(prefix="evaluate-") as home, Ledger.open(Path(home) / "memory.db") as ledger:
        ledger.policy.set(threats="off")
        with ledger.batch():
            for turn in conversation["turns"]:
                for sentence in filter(None, map(_bare, END.split(turn["text"]))):
                    ledger.remember(sentence, project=turn["speaker"])
        ledger.conflicts.find()
        for conflict in ledger.conflicts.list().all():
            speaker = "assistants" if conflict.project == "assistant" else "people"
            yield (
                f"{speaker}, {conflict.rule}",
                conflict.attribute or "",
                " | ".join(memory.content or "" for memory in conflict.memories),
            )


def _bare(sentence: str) -> str:
    """Return a sentence without the marks of a list or heading."""
    return re.sub(r"^[-•\s]+|[*#]", "", sentence).strip()


def _show_conflicts(conversations: Sequence[dict[str, Any]], read: int, as_json: bool) -> None:
    conflicts: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for conversation in conversations:
        for rule, attribute, texts in find_conflicts(conversation):
            conflicts[rule].append((attribute, texts))
    counts = {rule: len(examples) for rule, examples in conflicts.items()}
    print(json.dumps(counts) if as_json else _counts(counts))
    for rule, examples in conflicts.items():
        for attribute, texts in random.Random(SEED).sample(examples, min(read, len(examples))):
            print(f"\n{rule}: {attribute}\n  {texts}")


# --- scaling ---------------------------------------------------------------------------------------------------------


def ordinary(count: int) -> Iterator[str]:
    """Yield short facts with the word frequencies of language; a fifth of them say again what an earlier fact said."""
    chance = random.Random(SEED)
    vocabulary = ["".join(chance.choices("abcdefghijklmnoprstuvwz", k=chance.randint(3, 9))) for _ in range(20_000)]
    weights = list(accumulate(1 / (rank + 2.7) for rank in range(len(vocabulary))))
    said: list[list[str]] = []
    for _ in range(count):
        if said and chance.random() < 0.2:
            words = list(chance.choice(said))
            words.insert(chance.randrange(len(words)), chance.choice(("really", "surely", "there")))
        else:
            words = chance.choices(vocabulary, cum_weights=weights, k=chance.randint(5, 14))
            said.append(words)
        yield f"The user {' '.join(words)}."


def alike(count: int) -> Iterator[str]:
    """Yield notes that share all words but one: the worst case for consolidation."""
    for number in range(count):
        yield f"The server in the cellar of the house reports every morning a temperature of {number} degrees in its log."


def scale(make: Any, sizes: Sequence[int], repeats: int = 3) -> list[dict[str, float]]:
    """Return the processor seconds of a first consolidation at each size, the least of several runs.

    Other programs on the machine make a run longer, never shorter. Above 10,000 memories there is one run.
    """
    return [
        min((_once(make, size) for _ in range(repeats if size <= 10_000 else 1)), key=lambda run: run["seconds"])
        for size in sizes
    ]


def _once(make: Any, size: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="scale-") as home, Ledger.open(Path(home) / "memory.db") as ledger:
        with ledger.batch():
            for text in make(size):
                ledger.remember(text)
        started = time.process_time()
        report = ledger.consolidate()
        return {"memories": size, "seconds": time.process_time() - started, "formed": report.formed}


def ratios(rows: Sequence[dict[str, float]]) -> list[float]:
    """Return the factors by which the time grew for ten times the memories."""
    return [
        (later["seconds"] / former["seconds"]) ** (1 / _tens(later["memories"] / former["memories"]))
        for former, later in pairwise(rows)
    ]


def _tens(times: float) -> float:
    import math

    return math.log10(times)


# --- the command -----------------------------------------------------------------------------------------------------


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("data", nargs="*")
    parser.add_argument("--scaling", action="store_true", help="measure how the time grows with the memories")
    parser.add_argument("--matchers", action="store_true", help="count what stems/6 finds")
    parser.add_argument("--conflicts", action="store_true", help="find conflicts among all sentences")
    parser.add_argument("--read", type=int, default=0, help="how many pairs of each sort to show")
    parser.add_argument("--sizes", default="1000,10000,100000")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    if not options.data and not options.scaling:
        parser.error("there is nothing to measure: give DATA files or --scaling")
    conversations = [conversation for path in options.data for conversation in load(path)]
    if options.matchers or options.conflicts:
        show = _show_matchers if options.matchers else _show_conflicts
        show(conversations, options.read, options.json)
        return 0
    report: dict[str, Any] = {}
    if options.scaling:
        sizes = [int(size) for size in options.sizes.split(",")]
        for name, make in (("ordinary", ordinary), ("alike", alike)):
            report[name] = scale(make, sizes)
    report |= {result["conversation"]: result for result in map(evaluate, conversations)}
    if options.json:
        print(json.dumps(report, indent=2))
    else:
        _show(report)
    slow = [name for name in ("ordinary", "alike") if name in report and max(ratios(report[name]), default=0.0) > LIMIT]
    return 1 if slow else 0


def _show(report: dict[str, Any]) -> None:
    names: list[str] = [result for result in ("ordinary", "alike") if result in report]
    for name in names:
        print(f"{name} memories")
        times = ["", *(f"{ratio:.1f} x" for ratio in ratios(report[name]))]
        for row, ratio in zip(report.pop(name), times, strict=True):
            print(f"  {row['memories']:>8,}  {row['seconds']:>8.2f} s  {row['formed']:>7,} formed  {ratio}")
    for name, result in report.items():
        print(f"{name}: {result['turns']} turns, {result['memories']} memories")
        print(f"  candidates   {_counts(result['candidates'])}")
        print(f"  dropped      {_counts(result['dropped'])}")
        print(f"  observations over memories by proofs: {_counts(result['over memories'])}")
        print(f"  observations over turns by proofs:    {_counts(result['over turns'])}")
        print(f"  observations over every sentence:     {_counts(result['over sayings'])}")
        print("  seconds      " + ", ".join(f"{step} {took:.2f}" for step, took in result["seconds"].items()))


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items())) or "none"


if __name__ == "__main__":
    sys.exit(main())
