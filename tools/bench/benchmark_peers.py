"""A benchmark of one-line facts written and asked for, in this product and in others: ``tools/dev.py bench --peers``.

    python tools/bench/benchmark_peers.py            1,000 and 10,000 facts
    python tools/bench/benchmark_peers.py --quick    1,000

The others are installed, in the versions below, into an environment that is thrown away. The systems take turns in one run.
Each runs in a process of its own on a file of its own and is asked through its own public calls; only the calls are timed. All
get the same texts in the same order, and every write is durable before it returns (WAL, ``synchronous=FULL``, the default of
SQLite). Two more kinds of facts are asked for, cold, when each question is new to the process, and warm, when it is asked again:
facts of few distinct words, where each question has a word of every fact, and facts of many distinct words, few of them frequent
and most of them rare, as in what people write. ``found`` is the share of questions whose fact is among the five answers.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
if "--worker" in sys.argv and not sys.flags.safe_path:
    sys.path.pop(0)  # a system under test must not import modules of this repository
if "--worker" not in sys.argv or "ours" in sys.argv:
    sys.path.insert(0, str(ROOT))
if "--worker" not in sys.argv:
    from tools.bench.measuring import Figure, compared, environment, say, table
SIZES, QUICK_SIZES = (1_000, 10_000), (1_000,)
ROUNDS, GROUP = 15, 20  # a round has so many facts and questions in a row
REACH = {1_000: 1 / 0.7, 10_000: 1 / 0.4}  # the goal of a recall, as a ratio to engram's
listed = str.split
NAMES = listed("Ada Ben Cleo Dana Emil Fay Gus Hana Ivo June Kai Lena Milo Nora Otto Pia Quinn Rosa Sami Tess")
FAMILIES = listed("Adler Brandt Costa Duarte Eriksen Fontaine Greco Hansen Ibarra Jensen Kovac Lindqvist")
VALUES = listed("amber basalt cedar delta ember fjord garnet harbour indigo jasper kestrel larch maple nickel opal")
THINGS = listed(
    "favourite tea,bicycle,editor,backup drive,piano teacher,first language,desk,train line,dentist,sourdough recipe,"
    "password manager,camera,allergy,garden tool,gym,holiday house,chess opening,bank,spare key,running route,"
    "lunch place,mechanic,notebook,winter coat,reading group,hosting provider,paint colour,insurance,radio station,"
    "tent,violin,kettle,router,phone plan,tax adviser,weekly meeting,test server,release branch,font,monitor,"
    "blender,wallet,printer,sofa",
    ",",
)
VERBS = listed("carried painted repaired ordered moved cleaned sold tested packed returned")
FEW_THINGS = listed(
    "lamp chair table kettle router printer monitor camera bicycle tent violin wallet sofa desk notebook coat blender bank"
    " key font"
)
PLACES = listed("Lisbon Porto Oslo Kyoto Turin Ghent Malmo Graz Basel Leeds Nantes Vigo Split Brno Cork")
ASKED, KIND_GROUP = 50, 5  # questions about a kind of facts, each asked cold, and warm after its group
DISTINCT, FACT_WORDS, QUESTION_WORDS = 5_000, 12, 6  # words of all facts of many distinct words, of one, of a question
ONSETS = listed("b br c ch d dr f fl g gr h j k l m n p pl r s st t tr v w")
RHYMES = listed("ab ack ald amp and ard ask ell ent erb est ick ild imp irt obb ock old omp orn uck unt urb")

# --- the systems: in their own processes, with nothing but themselves and the standard library -----------------------------


class Ours:
    """A match of words and their stems, weighed with kind, confidence and age: ``recall(question, limit=5)``."""

    package = "memory-ledger, this checkout"

    def __init__(self, path: str) -> None:
        from ledger import Ledger

        self._ledger = Ledger.open(path)

    def write(self, fact: str) -> None:
        self._ledger.remember(fact)

    def ask(self, question: str) -> list[str]:
        return [str(item.content) for item in self._ledger.recall(question, limit=5).items]


class Engram:
    """A match of any of the first ten words by FTS5's rank: ``search(question, limit=5)``."""

    package = "engram-core==0.3.0"

    def __init__(self, path: str) -> None:
        from engram.client import Memory  # type: ignore[import-not-found]

        self._memory = Memory(db_path=path)

    def write(self, fact: str) -> None:
        self._memory.store(fact)

    def ask(self, question: str) -> list[str]:
        return [match.memory.content for match in self._memory.search(question, limit=5)]


class LangGraph:
    """A listing without vectors, which ignores the question and returns the last five facts: ``search(namespace, query=…)``."""

    package = "langgraph-checkpoint-sqlite==3.1.2"

    def __init__(self, path: str) -> None:
        from langgraph.store.sqlite import SqliteStore  # type: ignore[import-untyped]

        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        self._store, self._count = SqliteStore(connection), 0
        self._store.setup()

    def write(self, fact: str) -> None:
        self._count += 1
        self._store.put(("facts",), str(self._count), {"text": fact})

    def ask(self, question: str) -> list[str]:
        return [item.value["text"] for item in self._store.search(("facts",), query=question, limit=5)]


SYSTEMS: dict[str, Any] = {"ours": Ours, "engram": Engram, "LangGraph's SqliteStore": LangGraph}


def work(name: str, path: str) -> None:
    """Do the calls of each line of JSON. Answer with the seconds, the processor seconds and the answer of each call."""
    system = SYSTEMS[name](path)
    for line in sys.stdin:
        method, texts = json.loads(line)
        seconds, processor, answers = list[float](), list[float](), list[object]()
        call: Callable[[str], object] = getattr(system, method)
        for text in texts:
            started, busy = time.perf_counter(), time.process_time()
            answer = call(text)
            processor.append(time.process_time() - busy)
            seconds.append(time.perf_counter() - started)
            answers.append(answer)
        print(json.dumps([seconds, processor, answers]), flush=True)


# --- the texts ---------------------------------------------------------------------------------------------------------


def facts(count: int) -> list[tuple[str, str]]:
    """Return (fact, question about it), each about another thing of a person."""
    draw = random.Random(5)
    pairs = [(f"{name} {family}", thing) for family in FAMILIES for name in NAMES for thing in THINGS]
    draw.shuffle(pairs)
    questions = []
    for person, thing in pairs[:count]:
        value = " ".join(draw.sample(VALUES, 2))
        questions.append((f"{person}'s {thing} is the {value} one.", f"What is {person}'s {thing}?"))
    return questions


def facts_of_few_words(count: int) -> list[tuple[str, str]]:
    """Return (fact, question about it) of few distinct words: every question has a word of nearly every fact."""
    draw, questions = random.Random(6), []
    for ticket in range(count):
        name, verb, thing, place = draw.choice(NAMES), draw.choice(VERBS), draw.choice(FEW_THINGS), draw.choice(PLACES)
        fact = f"{name} {verb} the {thing} in {place} for ticket {1_000 + ticket}."
        questions.append((fact, f"Which ticket is for the {thing} that {name} {verb} in {place}?"))
    return questions


def facts_of_many_words(count: int) -> list[tuple[str, str]]:
    """Return (fact, question about it) of 5,000 distinct words, the word of rank r with the weight 1 / (r + 10).

    A question has six of the twelve words of its fact in their order, and its frequent words are in many other facts.
    """
    draw, questions = random.Random(7), []
    words = draw.sample([f"{a}{b}{c}{d}" for a in ONSETS for b in RHYMES for c in ONSETS for d in RHYMES], DISTINCT)
    weights = [1 / (rank + 10) for rank in range(DISTINCT)]
    for _ in range(count):
        said = draw.choices(words, weights, k=FACT_WORDS)
        asked = [said[at] for at in sorted(draw.sample(range(FACT_WORDS), QUESTION_WORDS))]
        questions.append((f"{' '.join(said).capitalize()}.", f"What is {' '.join(asked)}?"))
    return questions


FEW, MANY = "few distinct words", "many distinct words"
KINDS = {FEW: facts_of_few_words, MANY: facts_of_many_words}
KIND_REACH = {(FEW, 10_000): 1 / 0.7}  # the goals of these; else as fast as engram


# --- the run -----------------------------------------------------------------------------------------------------------


class Peer:
    """A system under test in a process of its own."""

    def __init__(self, name: str, python: Path, path: Path) -> None:
        self._process = subprocess.Popen(
            [str(python), str(Path(__file__).resolve()), "--worker", name, str(path)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT,
        )  # fmt: skip

    def do(self, method: str, texts: Sequence[str]) -> tuple[list[float], list[float], list[Any]]:
        into, out = self._process.stdin, self._process.stdout
        assert into is not None and out is not None
        print(json.dumps([method, texts]), file=into, flush=True)
        line = out.readline()
        if not line:
            raise SystemExit("a system under test ended early; its output is above")
        seconds, processor, answers = json.loads(line)
        return seconds, processor, answers

    def end(self) -> None:
        self._process.communicate()


def installed(directory: Path) -> dict[str, Path]:
    """Return the Python of each system; a system that cannot be installed here is missing."""
    pythons = {"ours": Path(sys.executable)}
    for number, (name, system) in enumerate(SYSTEMS.items()):
        if name == "ours":
            continue
        place = directory / f"environment {number}"
        python = place / "bin" / "python"
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", system.package]
        print(f"installing {system.package} …", file=sys.stderr)
        made = ([sys.executable, "-m", "venv", str(place)], pip)
        if all(subprocess.run(command, capture_output=True).returncode == 0 for command in made):
            pythons[name] = python
    return pythons


def measure(size: int, systems: dict[str, Path], directory: Path) -> list[Figure]:
    """Return a figure for a write and a figure for a recall beside each other system."""
    known = facts(size + ROUNDS * GROUP)
    peers = {name: Peer(name, python, directory / f"{name} {size}.db") for name, python in systems.items()}
    for peer in peers.values():
        peer.do("write", [fact for fact, _ in known[:size]])
    spent, found = in_turns(peers, known, size)
    for peer in peers.values():
        peer.end()
    figures = list[Figure]()
    for method, row in (("write", "one fact written durably"), ("ask", "the five best for a question")):
        for name in list(SYSTEMS)[1:]:
            if name not in peers:
                figures.append(Figure(what=f"{row} · {name}: it cannot be installed here", size=size, ours=0))
                continue
            least = REACH.get(size) if (method, name) == ("ask", "engram") else None
            shown = f" (found {found['ours']:.0%} · {found[name]:.0%})" if method == "ask" else ""
            figures.append(compared(f"{row} · {name}{shown}", size, spent[method, "ours"], spent[method, name], least))
    return figures


def measure_kind(kind: str, size: int, systems: dict[str, Path], directory: Path) -> list[Figure]:
    """Return the figures of recall beside engram on facts of a kind: each question's first asking, and its second."""
    known = KINDS[kind](size)
    sample = random.Random(4).sample(known, ASKED)
    peers = {
        name: Peer(name, systems[name], directory / f"{name} {kind} {size}.db")
        for name in ("ours", "engram")
        if name in systems
    }
    spent: dict[tuple[str, str], list[float]] = {(when, name): [] for when in ("cold", "warm") for name in peers}
    found = dict.fromkeys(peers, 0)
    for peer in peers.values():
        peer.do("write", [fact for fact, _ in known])
        peer.do("ask", ["What is known of the weather?"])  # loads what a process loads at its first question
    for start in range(0, ASKED, KIND_GROUP):
        group = sample[start : start + KIND_GROUP]
        for when in ("cold", "warm"):
            for name in peers if start // KIND_GROUP % 2 else reversed(peers):  # A B B A
                _, processor, answers = peers[name].do("ask", [question for _, question in group])
                spent[when, name] += processor
                if when == "cold":
                    found[name] += sum(fact in answer for (fact, _), answer in zip(group, answers, strict=True))
    for peer in peers.values():
        peer.end()
    if "engram" not in peers:
        return []
    row, least = f"the five best of facts of {kind}, processor time", KIND_REACH.get((kind, size), 1.0)
    shown = f"engram (found {found['ours'] / ASKED:.0%} · {found['engram'] / ASKED:.0%})"
    return [
        compared(f"{row}, {when} · {shown}", size, spent[when, "ours"], spent[when, "engram"], least)
        for when in ("cold", "warm")
    ]


def in_turns(peers: dict[str, Peer], known: Sequence[tuple[str, str]], size: int) -> tuple[Any, dict[str, float]]:
    """Return the seconds of each call by (method, system), and the share of questions whose fact was found."""
    draw, found = random.Random(3), dict.fromkeys(peers, 0)
    spent: dict[tuple[str, str], list[float]] = {(method, name): [] for method in ("write", "ask") for name in peers}
    for turn in range(ROUNDS):
        new = [fact for fact, _ in known[size + turn * GROUP : size + (turn + 1) * GROUP]]
        sample = draw.sample(known[:size], GROUP)
        for name, peer in peers.items():
            spent["write", name] += peer.do("write", new)[0]
            seconds, _, answers = peer.do("ask", [question for _, question in sample])
            spent["ask", name] += seconds
            found[name] += sum(fact in answer for (fact, _), answer in zip(sample, answers, strict=True))
    return spent, {name: count / (ROUNDS * GROUP) for name, count in found.items()}


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Measure one-line facts written and asked for, in this product and in others."
    )
    parser.add_argument("--peers", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--quick", action="store_true", help="1,000 facts")
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="peers-"))
    figures = list[Figure]()
    try:
        systems = installed(directory)
        for size in QUICK_SIZES if options.quick else SIZES:
            say(f"{size:,} facts")
            figures += measure(size, systems, directory)
            for kind in KINDS:
                figures += measure_kind(kind, size, systems, directory)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    print(table(figures, markdown=options.markdown), "", sep="\n")
    for name, system in SYSTEMS.items():
        print(f"{name} ({system.package}): {system.__doc__}")
    print(environment())
    return int(any(figure.met is False for figure in figures))


if __name__ == "__main__":
    if "--worker" in sys.argv:
        work(*sys.argv[2:])
    else:
        sys.exit(main())
