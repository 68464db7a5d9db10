"""The least set of events that an undo or a distrust may take out of effect, found by trying every set: slow, and on its own.

It shares no code with the product: it reads the rows of the log, and knows memories, turns, merges and relations.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from itertools import combinations
from typing import Any, NamedTuple

import probe

HIDDEN = ("superseded", "retracted", "invalid")
STATUSES = {  # what an event needs its memory to be
    "MemoryPromoted": ("candidate", "active"),
    "MemoryRejected": ("candidate", "invalid"),
    "MemoryReinforced": ("active",),
    "MemorySuperseded": ("active",),
    "MemoryRetracted": ("candidate", "active", "retracted"),
    "MemoryRestored": ("candidate", "active", *HIDDEN),
    "MemoryRevised": ("candidate", "active"),
    "RelationAdded": ("candidate", "active"),
}
HIDING = {"MemorySuperseded": "superseded", "MemoryRetracted": "retracted", "MemoryRejected": "invalid"}
CAPTURES = ("MemoryCaptured", "DuplicateAbsorbed")
BEGINNINGS = (*CAPTURES, "InteractionCaptured", "MemoriesMerged")
Out = frozenset[int]


class Row(NamedTuple):
    position: int
    stream: str
    type: str
    id: str
    command: str
    verb: str
    actor: str
    cause: str | None
    data: dict[str, Any]


def rows_of(ledger: Any) -> list[Row]:
    with probe.store(ledger).snapshot() as connection:
        found = connection.execute("SELECT position, stream, type, state FROM events ORDER BY position").fetchall()
    return [_row(*each) for each in found]


def _row(position: int, stream: str, type: str, text: str) -> Row:
    state = json.loads(text)
    told = (state["event_id"], state.get("command_id", state["event_id"]), state["command"], state.get("actor", ""))
    return Row(position, stream, type, *told, state.get("causation_id"), state.get("data", {}))


class Log:
    """Some rows, and what each set of them that is out of effect leaves without a reason to stay."""

    def __init__(self, rows: Iterable[Row], *, whole: bool) -> None:
        self.rows = [row for row in rows if row.stream[1:2] == "_"]
        self.whole = whole
        self.streams: dict[str, list[Row]] = {}
        self.commands: dict[str, list[Row]] = {}
        for row in self.rows:
            self.streams.setdefault(row.stream, []).append(row)
            self.commands.setdefault(row.command, []).append(row)
        self.by_id = {row.id: row for row in self.rows}
        self.members = {row.data["memory"]: row.data["memories"] for row in self.rows if row.type == "MemoriesMerged"}

    def least(self, seeds: Out) -> Iterator[Out]:
        """Yield the smallest sets of events to take out that include the seeds.

        In each, every event is out for a reason, and no event outside has a reason to be out.
        """
        others = [row.position for row in self.rows if row.position not in seeds]
        for size in range(len(others) + 1):
            found = [out for some in combinations(others, size) if self.follows(out := seeds.union(some), seeds) == out]
            if found:
                yield from found
                return

    def follows(self, out: Out, seeds: Out) -> Out:
        left = {stream: [row for row in rows if row.position not in out] for stream, rows in self.streams.items()}
        standing = self._standing(left)
        fell = {row.position for row in self.rows if row.position in seeds or self._falls(row, out, left, standing)}
        for rows in self.commands.values():
            joins = any(row.type == "MemoriesMerged" and row.position in fell for row in rows)
            if joins or (self.whole and any(row.position in fell and not self._is_copy(row) for row in rows)):
                fell |= {row.position for row in rows}
        return frozenset(fell)

    def _is_copy(self, row: Row) -> bool:
        return row.type == "RelationAdded" and row.verb == "merge"

    def _standing(self, left: dict[str, list[Row]]) -> set[str]:
        """Return the subjects that have support: they cite nothing, or they cite a subject that has support."""
        standing, before = set[str](), None
        while before != standing:
            before = set(standing)
            for stream, rows in left.items():
                cited = [row.data.get("sources", []) for row in rows if row.type in BEGINNINGS]
                if any(not each or standing.intersection(each) for each in cited):
                    standing.add(stream)
        return standing

    def _falls(self, row: Row, out: Out, left: dict[str, list[Row]], standing: set[str]) -> bool:
        data, cause = row.data, self.by_id.get(row.cause or "")
        there = {stream for stream, rows in left.items() if any(each.type in BEGINNINGS for each in rows)}
        if cause is not None and cause.position in out:
            return True
        if row.type in CAPTURES and data.get("sources") and not standing.intersection(data["sources"]):
            return True
        if row.type == "MemorySuperseded" and data["by"] not in there:
            return True
        if row.type == "MemoriesMerged" and not there.issuperset([data["memory"], *data["memories"]]):
            return True
        if row.type == "MemoryReinforced" and data.get("interaction") and data["interaction"] not in there:
            return True
        if self._is_copy(row) and not any(self._says(each, row, left) for each in self.members[row.stream]):
            return True
        return not fits(row, [each for each in left[row.stream] if each.position < row.position])

    @staticmethod
    def _says(memory: str, copy: Row, left: dict[str, list[Row]]) -> bool:
        said = [each.data for each in left[memory] if each.position < copy.position and each.type == "RelationAdded"]
        names = ("source", "relation", "target")
        return any(all(each[name] == copy.data[name] for name in names) for each in said)


def fits(row: Row, before: list[Row]) -> bool:
    if row.stream[0] != "m":
        return row.type in BEGINNINGS or any(each.type in BEGINNINGS for each in before)
    status, earlier = "", ""
    for each in before:
        if each.type in CAPTURES:
            status = status or each.data["status"]
        elif each.type == "MemoryPromoted":
            status = "active"
        elif each.type in HIDING:
            earlier = earlier if status in HIDDEN else status
            status = HIDING[each.type]
        elif each.type == "MemoryRestored":
            status, earlier = earlier or status, ""
    return row.type in CAPTURES or (status != "" and status in STATUSES.get(row.type, (status,)))


# --- logs to try it on -----------------------------------------------------------------------------------------------

VERBS = (
    *("remember", "remember", "cite", "cite", "capture", "propose", "promote", "retract", "restore", "restore"),
    *("propose", "reject", "reject"),
    *("reinforce", "supersede", "relate", "relate", "revise", "merge", "merge"),
)
ACTORS = ("ann", "bob", "eve")
Step = tuple[str, str, int, int]


class Hand:
    """Does steps on a ledger, each with what is there by then."""

    def __init__(self, ledger: Any) -> None:
        self.ledger = ledger
        self.memories: list[str] = []
        self.turns: list[str] = []

    def do(self, step: Step) -> None:
        actor, verb, one, other = step
        known, turns = self.memories or [""], self.turns or [""]
        memory, second = known[one % len(known)], known[other % len(known)]
        sources = [*self.turns, *self.memories] or [""]
        text, ledger = f"Fact {one % 4}.", self.ledger.bind(actor=actor)
        acts: dict[str, Callable[[], Any]] = {
            "remember": lambda: ledger.remember(text, kind="fact"),
            "cite": lambda: ledger.remember(text, kind="fact", sources=[sources[other % len(sources)]]),
            "capture": lambda: ledger.capture(f"Question {one}?", "Yes.", reinforce=False),
            "propose": lambda: ledger.propose(text, kind="fact"),
            "promote": lambda: ledger.promote(memory),
            "retract": lambda: ledger.retract(memory),
            "reject": lambda: ledger.reject(memory),
            "restore": lambda: ledger.restore(memory),
            "reinforce": lambda: ledger.reinforce(memory, source=turns[other % len(turns)]),
            "supersede": lambda: ledger.supersede(memory, f"Fact {other % 4} then."),
            "relate": lambda: ledger.graph.relate(memory, "user", "owns", f"thing {other % 2}"),
            "revise": lambda: ledger.revise(memory, f"Fact {other % 4} again."),
            "merge": lambda: ledger.merges.combine([memory, second]),
        }
        made = acts[verb]()
        known = self.turns if verb == "capture" else self.memories
        if made is not None and getattr(made, "id", "")[:1] in ("m", "i") and made.id not in known:
            known.append(made.id)
