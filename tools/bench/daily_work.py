"""The daily operations, done in a child process of ``benchmark_against.py`` on the product that PYTHONPATH leads to."""

from __future__ import annotations

import gc
import json
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any

from ledger import Ledger
from tools.bench.measuring import Texts, import_first, reading

Work = Callable[[], object]

decode_range = import_first(
    "ledger.core.reads", "ledger.core.log_reading", "ledger.engine.log_reading", "ledger.log_reading"
).decode_range

OLD = not hasattr(Ledger, "bind")  # a commit from before the methods were gathered in namespaces
OLD_NAMES = {
    "memories.list": "memories",
    "memories.get": "memory",
    "history.audit": "audit",
    "maintenance.rebuild": "rebuild",
    "proof.verify": "verify",
    "interactions.import_file": "import_file",
    "window": "assemble",
}
OLD_KEYWORDS = {"recall": {"limit": "k"}, "capture": {"session": "session_id"}}


class Daily:
    """The daily operations on one ledger; each method prepares an operation and returns the work, which alone is timed."""

    def __init__(self, folder: Path, size: int) -> None:
        self.texts, self.folder = Texts(size), folder
        self.memories, self.made = list[Any](), 0
        self.ledger = Ledger.open(folder / f"{size}.db")
        with self.ledger.batch():
            for number in range(size):
                self.memories.append(self.remember(confidence=0.3)())
                if number % 10 == 0:
                    self.reinforce()()
                if number % 50 == 0:
                    self.capture(1, 0)()
        self.position = self.ledger.position // 2
        self.conversation = self.ledger.session("conversation")
        with self.ledger.batch():
            for _ in range(500):
                self.append()()
        self.still = folder / f"{size}-still.db"
        Ledger.open(self.still).close()
        self.ledger.close()
        shutil.copyfile(folder / f"{size}.db", self.still)
        self.ledger = Ledger.open(folder / f"{size}.db")
        self.conversation = self.ledger.session("conversation")

    def call(self, name: str, *arguments: Any, on: Any = None, **keywords: Any) -> Any:
        """Call a method by its name of today; the other commit may have another name for it."""
        if OLD:
            keywords = {OLD_KEYWORDS.get(name, {}).get(word, word): value for word, value in keywords.items()}
            name = OLD_NAMES.get(name, name)
        return attrgetter(name)(self.ledger if on is None else on)(*arguments, **keywords)

    def any(self) -> Any:
        return self.texts.random.choice(self.memories)

    def remember(self, **keywords: Any) -> Work:
        content, kind, project = self.texts.memory()
        return lambda: self.ledger.remember(content, kind=kind, project=project, **keywords)

    def remember_in_batch(self) -> Work:
        works = [self.remember() for _ in range(100)]

        def work() -> None:
            with self.ledger.batch():
                for remember in works:
                    remember()

        return work

    def capture(self, answers: int = 1, restated: int = 1) -> Work:
        known = [self.any() for _ in range(restated)]
        project = known[0].project if known else self.texts.project()
        prompt, _ = self.texts.turn()
        response = ". ".join([*(self.texts.turn()[1] for _ in range(answers)), *(memory.content for memory in known)])
        about = {"project": project, "session": "turns"}
        return lambda: self.call("capture", prompt, response, reinforce=bool(restated), **about)

    def capture_long(self) -> Work:
        return self.capture(20, 3)

    def recall(self) -> Work:
        query = self.texts.words(6)
        return lambda: self.call("recall", query, limit=5)

    def list_50(self, limit: int = 50) -> Work:
        return lambda: self.call("memories.list", limit=limit)

    def list_1000(self) -> Work:
        return self.list_50(1_000)

    def get(self) -> Work:
        id = self.any().id
        return lambda: self.call("memories.get", id)

    def why(self) -> Work:
        id = self.any().id
        return lambda: self.call("why", id)

    def at(self) -> Work:
        return lambda: self.call("memories.list", limit=1_000, on=self.ledger.at(self.position))

    def audit(self) -> Work:
        id = self.any().id
        return lambda: self.call("history.audit", subject=id)

    def propose_and_promote(self) -> Work:
        content, kind, project = self.texts.memory()
        return lambda: self.ledger.promote(self.ledger.propose(content, kind=kind, project=project).id)

    def reinforce(self) -> Work:
        id = self.any().id
        return lambda: self.ledger.reinforce(id)

    def undo(self) -> Work:
        self.remember()()
        position = self.ledger.position
        return lambda: self.ledger.undo(position)

    def rebuild(self) -> Work:
        return lambda: self.call("maintenance.rebuild")

    def verify(self) -> Work:
        return lambda: self.call("proof.verify")

    def open(self) -> Work:
        return lambda: Ledger.open(self.still).close()

    def start(self) -> Work:
        return lambda: subprocess.run([sys.executable, "-c", "from ledger import Ledger"], check=True)

    def read(self) -> Work:
        def work() -> None:
            with reading(self.still) as connection:
                for _ in decode_range(connection, 1, 2**62):
                    pass

        return work

    def import_file(self) -> Work:
        self.made += 1
        source = self.folder / f"{self.made}.jsonl"
        with source.open("w", encoding="utf-8") as file:
            for number in range(1_000):
                prompt, response = self.texts.turn()
                line = {"prompt": prompt, "response": response, "project": self.texts.project(), "client": "chat"}
                file.write(json.dumps(line | {"session_id": f"session {number // 50}"}) + "\n")

        def work() -> None:
            with Ledger.open(source.with_suffix(".db")) as ledger:
                self.call("interactions.import_file", source, on=ledger)

        return work

    def append(self) -> Work:
        text = self.texts.words(30)
        return lambda: self.conversation.append("user", text)

    def window(self) -> Work:
        return lambda: self.call("window", 8_000, on=self.conversation)


ROWS: dict[str, tuple[str, int]] = {  # label, and operations in a group; 64 because texts are indexed 64 at a time
    "remember": ("`remember()`, durable", 64),
    "remember_in_batch": ("`batch()` of 100 `remember()`", 3),
    "capture": ("`capture()`, short answer that restates one memory", 16),
    "capture_long": ("`capture()`, answer of 1,200 words that restates three", 8),
    "recall": ("`recall()`, six words, the 5 best", 16),
    "list_50": ("`memories.list()` of 50", 20),
    "list_1000": ("`memories.list()` of 1,000", 3),
    "get": ("`memories.get(id)`", 100),
    "why": ("`why(id)`", 50),
    "at": ("`at(position).memories.list()` of 1,000", 2),
    "audit": ("`history.audit(subject=id)`", 50),
    "propose_and_promote": ("`propose()` and `promote()`", 32),
    "reinforce": ("`reinforce()`", 32),
    "undo": ("`undo()` of one command", 16),
    "append": ("`session.append()`, durable", 64),
    "window": ("`session.window(8_000)`, 500 messages and more", 4),
    "read": ("read and decode the log", 1),
    "rebuild": ("`maintenance.rebuild()`", 1),
    "verify": ("`proof.verify()`", 1),
    "open": ("`Ledger.open()` of an existing file, and close", 8),
    "start": ("`python -c 'from ledger import Ledger'`", 3),
    "import_file": ("`interactions.import_file()`, 1,000 lines into a new ledger", 1),
}
ONCE = ("start", "import_file")  # rows that do not depend on the size of the ledger


def child(folder: Path, sizes: Sequence[int]) -> None:
    """Answer each line [size, row, count] with the seconds of one operation: elapsed and of the processor."""
    sites = {size: Daily(folder, size) for size in sizes}
    print(json.dumps(str(Path(sys.modules["ledger"].__file__ or "").resolve())), flush=True)
    for line in sys.stdin:
        size, row, count = json.loads(line)
        works = [getattr(sites[size], row)() for _ in range(count)]
        gc.collect()
        busy, started = busy_seconds(), time.perf_counter()
        for work in works:
            work()
        elapsed = time.perf_counter() - started
        print(json.dumps([elapsed / count, (busy_seconds() - busy) / count]), flush=True)


def busy_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


if __name__ == "__main__":
    child(Path(sys.argv[1]), [int(size) for size in sys.argv[2:]])
