"""What the policies without a model make of real conversations, and how the time of consolidating grows.

    python tools/evaluate/evaluate_policies.py DATA… [--json]
    python tools/evaluate/evaluate_policies.py --matchers DATA… [--read 50] [--json]
    python tools/evaluate/evaluate_policies.py --conflicts DATA… [--read 50] [--json]
    python tools/evaluate/evaluate_policies.py --scaling [--sizes 1000,10000,100000] [--json]

DATA is as for ``evaluate.py``. Each conversation is imported into a ledger of its own; extraction runs over every turn, its
candidates are promoted, and the memories are consolidated; then, apart from that, the turns themselves, and in another ledger
every sentence of them as a memory of its own. ``--scaling`` makes memories up, a fifth of them near another one, and again
memories that share nearly all of their words, where no filter helps. ``--matchers`` takes each sentence that a person said for
a memory and each other turn for a response, and counts what stems/5 finds; ``--read`` shows so many of the matches and of the
denials, to be judged by a reader. ``--conflicts`` remembers each sentence of
each speaker, in a project of the speaker's own, and counts the conflicts that are found by their rule.
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
END = re.compile(r"(?<=[.!?;])\s+|\s*\n+\s*")  # of a sentence, however short
LIMIT = 14.0  # ten times the memories take at most so many times as long


def evaluate(conversation: dict[str, Any]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="evaluate-") as home, Ledger.open(Path(home) / "memory.db") as ledger:
        path = Path(home) / "transcript.json"
        path.write_text(json.dumps([conversation]), encoding="utf-8")
        ledger.interactions.import_file(path)
        ledger.policy.set(consolidate=False)
        started = time.process_time()
        ledger.jobs.run()
        extracting = time.process_time() - started
        found = _extracted(Path(ledger.path))
        for memory in list(ledger.memories.list(statuses=["candidate"]).all()):
            ledger.promote(memory.id)
        memories, of_memories = _consolidated(ledger, "memories")
        turns, of_turns = _consolidated(ledger, "interactions")
        sayings, of_sayings = _remembered(conversation)
        return found | {
            "conversation": conversation["sample_id"],
            "turns": len(conversation["turns"]),
            "memories": sum(1 for _ in ledger.memories.list().all()),
            "over memories": memories,
            "over turns": turns,
            "over sayings": sayings,
            "seconds": {"extract": extracting, "memories": of_memories, "turns": of_turns, "sayings": of_sayings},
        }


def _remembered(conversation: dict[str, Any]) -> tuple[dict[str, int], float]:
    """Observations of every sentence as a memory of its own, as an agent would have it that remembers all that is said."""
    with tempfile.TemporaryDirectory(prefix="evaluate-") as home, Ledger.open(Path(home) / "memory.db") as ledger:
        with ledger.batch():
            for turn in conversation["turns"]:
                for sentence in sentences(turn["text"]):
                    ledger.remember(f"{turn['speaker']}: {sentence}")
        return _consolidated(ledger, "memories")


def _extracted(path: Path) -> dict[str, Any]:
    """Candidates by rule, and what was dropped by its reason; "duplicate", "known" and "repeated" say the same twice."""
    candidates: Counter[str] = Counter()
    dropped: Counter[str] = Counter()
    with reading(path) as connection:
        sql = "SELECT json_extract(state, '$.data.origin.rule') FROM events WHERE type = 'MemoryCaptured'"
        candidates.update(rule for (rule,) in connection.execute(sql) if rule is not None)
        for (state,) in connection.execute("SELECT state FROM events WHERE type = ?", (CandidatesExtracted.__name__,)):
            dropped.update(each["reason"] for each in json.loads(state)["data"].get("dropped", ()))
    return {"candidates": dict(candidates), "dropped": dict(dropped)}


def _consolidated(ledger: Ledger, over: Literal["memories", "interactions"]) -> tuple[dict[str, int], float]:
    """Observations by their number of proofs, and the seconds."""
    before = {each.id for each in ledger.observations.list().all()}
    started = time.process_time()
    for project in [None, *(each.name for each in ledger.projects.list().all())]:
        ledger.consolidate(over, project=project)
    took = time.process_time() - started
    found = [each for each in ledger.observations.list().all() if each.id not in before]
    counts = Counter(min(each.proof_count, 5) for each in found)
    return {f"{count}{'+' if count == 5 else ''}": counts[count] for count in sorted(counts)}, took


# --- matchers --------------------------------------------------------------------------------------------------------


def matched(conversation: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield ("restated" or "denied", memory, response) for each pair that stems/5 decides."""
    turns = conversation["turns"]
    said = [turn for turn in turns if turn["speaker"] != "assistant"]
    memories = [(turn["dia_id"], sentence) for turn in said for sentence in sentences(turn["text"])]
    index: dict[str, set[int]] = defaultdict(set)
    for number, (_, memory) in enumerate(memories):
        for stem in found_by(memory)[1]:
            index[stem].add(number)
    for turn in turns:
        response = Response(turn["text"])
        for number in sorted(set[int]().union(*(index.get(stem, ()) for stem in sought(response)))):
            where, memory = memories[number]
            if where == turn["dia_id"]:
                continue
            verdict = judge(DEFAULT_MATCHER, response, memory)
            if verdict.match or verdict.denial:
                yield ("restated" if verdict.match else "denied"), memory, turn["text"]


def _show_matchers(conversations: Sequence[dict[str, Any]], read: int, as_json: bool) -> None:
    found: dict[str, list[tuple[str, str]]] = {"restated": [], "denied": []}
    for conversation in conversations:
        for what, memory, response in matched(conversation):
            found[what].append((memory, response))
    counts = {what: len(pairs) for what, pairs in found.items()}
    print(json.dumps(counts) if as_json else _counts(counts))
    for what, pairs in found.items():
        for memory, response in random.Random(SEED).sample(pairs, min(read, len(pairs))):
            print(f"\n{what}\n  memory    {memory}\n  response  {response}")


# --- conflicts -------------------------------------------------------------------------------------------------------


def find_conflicts(conversation: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """The conflicts among all sentences: (speaker and rule, attribute, sentences)."""
    with tempfile.TemporaryDirectory(prefix="evaluate-") as home, Ledger.open(Path(home) / "memory.db") as ledger:
        ledger.policy.set(threats="off")
        with ledger.batch():
            for turn in conversation["turns"]:
                for sentence in filter(None, map(_bare, END.split(turn["text"]))):
                    ledger.remember(sentence, project=turn["speaker"])
        ledger.conflicts.find()
        for each in ledger.conflicts.list().all():
            speaker = "assistants" if each.project == "assistant" else "people"
            yield (
                f"{speaker}, {each.rule}",
                each.attribute or "",
                " | ".join(one.content or "" for one in each.memories),
            )


def _bare(sentence: str) -> str:
    """A sentence without the marks of a list or heading."""
    return re.sub(r"^[-•\s]+|[*#]", "", sentence).strip()


def _show_conflicts(conversations: Sequence[dict[str, Any]], read: int, as_json: bool) -> None:
    found: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for conversation in conversations:
        for what, attribute, texts in find_conflicts(conversation):
            found[what].append((attribute, texts))
    counts = {what: len(some) for what, some in found.items()}
    print(json.dumps(counts) if as_json else _counts(counts))
    for what, some in found.items():
        for attribute, texts in random.Random(SEED).sample(some, min(read, len(some))):
            print(f"\n{what}: {attribute}\n  {texts}")


# --- scaling ---------------------------------------------------------------------------------------------------------


def ordinary(count: int) -> Iterator[str]:
    """Facts of few words from a vocabulary that is used as language is; each fifth says again what another one said."""
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
    """Notes that share all words but one: the worst there can be."""
    for number in range(count):
        yield f"The server in the cellar of the house reports every morning a temperature of {number} degrees in its log."


def scale(make: Any, sizes: Sequence[int], repeats: int = 3) -> list[dict[str, float]]:
    """Processor seconds of a first consolidation, the least of several runs: whoever else uses the machine makes it longer.
    Above 10,000 memories there is one run."""
    return [
        min((_once(make, size) for _ in range(repeats if size <= 10_000 else 1)), key=lambda each: each["seconds"])
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


def ratios(told: Sequence[dict[str, float]]) -> list[float]:
    """How many times as long ten times the memories took."""
    return [
        (later["seconds"] / former["seconds"]) ** (1 / _tens(later["memories"] / former["memories"]))
        for former, later in pairwise(told)
    ]


def _tens(times: float) -> float:
    import math

    return math.log10(times)


# --- the command -----------------------------------------------------------------------------------------------------


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("data", nargs="*")
    parser.add_argument("--scaling", action="store_true", help="measure how the time grows with the memories")
    parser.add_argument("--matchers", action="store_true", help="count what stems/5 finds")
    parser.add_argument("--conflicts", action="store_true", help="find conflicts among all sentences")
    parser.add_argument("--read", type=int, default=0, help="how many pairs of each sort to show")
    parser.add_argument("--sizes", default="1000,10000,100000")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args(arguments)
    if not asked.data and not asked.scaling:
        parser.error("name data, or ask for --scaling")
    conversations = [each for path in asked.data for each in load(path)]
    if asked.matchers or asked.conflicts:
        show = _show_matchers if asked.matchers else _show_conflicts
        show(conversations, asked.read, asked.json)
        return 0
    told: dict[str, Any] = {}
    if asked.scaling:
        sizes = [int(each) for each in asked.sizes.split(",")]
        for name, make in (("ordinary", ordinary), ("alike", alike)):
            told[name] = scale(make, sizes)
    told |= {each["conversation"]: each for each in map(evaluate, conversations)}
    if asked.json:
        print(json.dumps(told, indent=2))
    else:
        _show(told)
    slow = [name for name in ("ordinary", "alike") if name in told and max(ratios(told[name]), default=0.0) > LIMIT]
    return 1 if slow else 0


def _show(told: dict[str, Any]) -> None:
    names: list[str] = [each for each in ("ordinary", "alike") if each in told]
    for name in names:
        print(f"{name} memories")
        times = ["", *(f"{ratio:.1f} x" for ratio in ratios(told[name]))]
        for row, ratio in zip(told.pop(name), times, strict=True):
            print(f"  {row['memories']:>8,}  {row['seconds']:>8.2f} s  {row['formed']:>7,} formed  {ratio}")
    for name, each in told.items():
        print(f"{name}: {each['turns']} turns, {each['memories']} memories")
        print(f"  candidates   {_counts(each['candidates'])}")
        print(f"  dropped      {_counts(each['dropped'])}")
        print(f"  observations over memories by proofs: {_counts(each['over memories'])}")
        print(f"  observations over turns by proofs:    {_counts(each['over turns'])}")
        print(f"  observations over every sentence:     {_counts(each['over sayings'])}")
        print("  seconds      " + ", ".join(f"{what} {took:.2f}" for what, took in each["seconds"].items()))


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items())) or "none"


if __name__ == "__main__":
    sys.exit(main())
