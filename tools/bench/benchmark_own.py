"""A benchmark of a user's own projection: its cost to a write beside a built-in one, and to a rebuild (``--rows own``)."""

from __future__ import annotations

import statistics
import time

from ledger import Ledger, Projection, Row
from ledger.events import AnyEvent
from ledger.types import Change, Rows
from tools.bench.measuring import Figure, Options, Texts, say

COMMANDS = 100  # commands of each ledger in a round
FOLDED = 20_000  # memories
OURS = ("audit", "confidence", "search")  # built-in projections that write with each memory and can be left out


class Copy(Row, key=("id",)):
    """A row with as much of a memory as a built-in projection keeps."""

    id: str
    kind: str
    content: str | None
    confidence: int


class Copies(Projection):
    """A projection with a row for each memory."""

    name, follows, tables = "copies", ("memory",), (Copy,)

    def fold(self, event: AnyEvent, change: Change | None, rows: Rows) -> None:
        """Put the row of the memory as it is now."""
        if change is not None and change.new is not None:
            rows.put(Copy(change.id, change.new.kind, change.new.content, change.new.confidence))


def measure(options: Options) -> list[Figure]:
    """Measure the processor time of a write in a ledger, with an own projection, and without each of the built-in ones."""
    say("projections of one's own: a write with one")
    own_by_name = {"": (), "copies": (Copies,)} | dict.fromkeys(OURS, ())
    ledgers = {
        name: Ledger.open(options.directory / f"own {name}.db", projections=own) for name, own in own_by_name.items()
    }
    for name in OURS:
        projector = ledgers[name]._engine.writer.projector
        projector.all = tuple(projection for projection in projector.all if projection.name != name)
    texts, spent = Texts(7), {name: list[float]() for name in ledgers}
    for number in range(options.rounds * 8):
        made = [texts.memory() for _ in range(COMMANDS)]
        # The order alternates, so that none is always the first.
        for name, ledger in [*ledgers.items()][:: 1 if number % 2 else -1]:
            started = time.process_time()
            for content, kind, project in made:
                ledger.remember(content, kind=kind, project=project)
            spent[name].append((time.process_time() - started) / COMMANDS)

    def more(name: str) -> float:
        return statistics.median(full - bare for full, bare in zip(spent[name], spent[""], strict=True))

    own, dearest = more("copies"), max(OURS, key=lambda name: -more(name))
    limit = -more(dearest)
    figures = [
        Figure(what=f"a remember() more with a projection of one's own; with ours, {dearest}", size=len(spent[""]) * COMMANDS,
               ours=own, limit=limit, ratio=own / limit, reach="≤ 1 ×", met=own <= limit)
    ]  # fmt: skip
    say("projections of one's own: folded again")
    ledger = ledgers["copies"]
    with ledger.batch():
        for _ in range(FOLDED):
            content, kind, project = texts.memory()
            ledger.remember(content, kind=kind, project=project)
    started = time.process_time()
    events = ledger.maintenance.rebuild("copies").events
    seconds = (time.process_time() - started) / events
    figures.append(
        Figure(what="a projection of one's own folded again, each event, in processor time", size=events, ours=seconds)
    )
    for ledger in ledgers.values():
        ledger.close()
    return figures
