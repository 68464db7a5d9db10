"""A ledger with a bit of everything, and every read that there is, for tests that ask them all."""

from __future__ import annotations

import functools
import tempfile
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from places import log_of

from ledger import Ledger, LedgerError, Page
from ledger.answers import Stats
from ledger.cli.methods import AREAS, of_area, of_ledger
from ledger.types import Event

BERTH = ("berths",)
NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)


def opened(path, **given):
    return Ledger.open(path, clock=lambda: NOON, **given)


@functools.cache
def prepared():
    """Return the bytes of a ledger with a bit of everything, and the values that stand for names in the reads."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "memory.db")
        Ledger.import_log(log_of("1_conversations"), path)
        with opened(path) as ledger:
            names = _fill(ledger)
        return path.read_bytes(), names


def _fill(ledger):
    _fill_rarer(ledger)
    ledger.projects.add("Boat")
    ledger.projects.set_state("boat", "status", "mast", "up")
    for often in ("", " often"):
        ledger.remember(f"Before noon the user{often} varnishes the long oars of the old boat.", project="boat")
    ledger.merges.find()
    homes = [ledger.remember(f"Ben lives in {city}.", confidence=0.9) for city in ("Oslo", "Bergen")]
    ledger.conflicts.find()
    ledger.holds.add(homes[0].id, reason="case 12")
    ledger.history.distrust("mallory", kind="actor")
    ledger.erase(ledger.remember("The cellar floods.").id)
    ledger.propose("The user owns a boat.", sources=(ledger.interactions.list()[0].id,))
    chat = ledger.session("quay")
    for number in range(60):
        chat.append("user", f"The tide turned {number} times, and I prefer to wait for it.")
    made = chat.compact(summarizer=lambda request: "They waited for the tide.").created
    chat.set_abstract("They sail.")
    chat.append(
        "user", "The lantern hangs astern.", metadata={"deck": "upper"}, occurred_at="2026-05-02T10:00:00+02:00"
    )
    assert made and ledger.merges.list() and ledger.conflicts.list() and ledger.review() and ledger.interactions.list()
    return {
        "project": "boat",
        "session": "quay",
        "name": "ketch",
        "question": "tide masts sea oars",
        "earlier": ledger.position - 60,
        "memory": homes[0].id,
        "free": homes[1].id,
        "given": homes[0].position,
        "place": homes[0].position,
        "turn": ledger.interactions.list()[0].id,
        "document": ledger.documents.list()[0].id,
        "chunk": ledger.documents.get(ledger.documents.list()[0].id).chunks[0].id,
        "observation": ledger.observations.list()[0].id,
        "conflict": ledger.conflicts.list()[0].id,
        "merge": ledger.merges.list()[0].id,
        "summary": made[0].id,
        "message": chat.messages(limit=1_000)[0].position,
        "last": chat.messages(limit=1_000)[-1].position,
        "recall": ledger.recall("tide", receipt=True).receipt,
        "window": chat.window(2_000, receipt=True).receipt,
        "position": ledger.position,
    }


def _fill_rarer(ledger):
    """Fill the columns and tables that an everyday ledger leaves empty."""
    pairs = {"metadata": {"berth": 7}, "tags": ["harbour"]}
    pier = ledger.remember(
        "The ketch is moored at the north pier.", entities=["ketch", "pier"], idempotency_key="pier", **pairs
    )
    dory = ledger.remember("The dory is painted green.", valid_from="2026-01-01", valid_to="2027-01-01", **pairs)
    ledger.documents.add("# Knots\n\nA bowline holds.\n", title="Knots", **pairs)
    ledger.values.put(BERTH, "north", {"boat": "ketch", "metres": 12}, expires_at="2027-01-01")
    ledger.values.put(BERTH, "south", "The ketch went to the south pier.")
    ledger.values.move(BERTH, "south", ("berths", "old"), "south")
    ledger.values.put((), "flag", "red", index=False)
    ledger.values.remove((), "flag")
    when = {"occurred_at": "2026-05-01T10:00:00+02:00", "metadata": {"ticket": 4711}, "idempotency_key": "asked"}
    ledger.capture(
        "Where is it?", "The ketch is moored at the north pier.", memories_used=[pier.id], project="sea", **when
    )
    ledger.supersede(dory.id, "The dory is painted red.", entities=["dory"])
    ledger.revise(pier.id, "The ketch is moored at the south pier.")
    undone = ledger.remember("The gull nests on the mast.", project="sea")
    ledger.undo(undone.position)
    ledger.redo(undone.position)
    ledger.undo(ledger.remember("The heron left the harbour.").position)
    ledger.history.distrust("stranger", kind="client")
    ledger.history.trust("stranger", kind="client")
    for wrong in (lambda: ledger.reject(pier.id), lambda: ledger.remember("x" * 300_000)):
        with suppress(LedgerError):
            wrong()


def put(path):
    for suffix, said in (("", prepared()[0]), (".lock", b"")):
        each = Path(f"{path}{suffix}")
        each.touch(mode=0o600)
        each.write_bytes(said)
    return path


OTHERS = {  # what is no read of the public surface, as it asks by name: of a file, of bytes, or of what is given
    *("doctor", "import_log", "recover", "proof.verify", "proof.check", "proof.prove"),
    *("maintenance.backup", "maintenance.export_log", "replay", "history.bisect", "projections.get"),
}


class Asked(NamedTuple):
    """The arguments of a read: positional ones, by the names that ``prepared`` gave or as they are, and its options.

    On the command line, ``shell`` stands for the options; None where a command asks otherwise, and has tests of its own.
    """

    words: tuple[Any, ...] = ()
    options: dict[str, Any] = {}  # noqa: RUF012 (never changed)
    shell: tuple[str, ...] | None = ()


def asked(*words: Any, shell: tuple[str, ...] | None = (), **options: Any) -> Asked:
    return Asked(words, options, shell)


PUBLIC: dict[str, tuple[Asked, ...]] = {
    "recall": (asked("question", among=("memories", "chunks")),),
    "context": (asked("question", session="session"),),
    "profile": (asked(),),
    "why": (asked("memory"), asked("observation")),
    "review": (asked(),),
    "reopen": (asked("recall"),),
    "query": (asked("SELECT id, content, project FROM beliefs ORDER BY first_position"),),
    "memories.list": (asked(statuses=()), asked(statuses=(), order="occurred")),
    "memories.get": (asked("memory"),),
    "memories.confidence": (asked("memory"),),
    "learning.count": (asked(since="2020-01-01"),),
    "learning.read_today": (asked(), asked("mcp/")),
    "interactions.list": (asked(), asked(order="occurred")),
    "interactions.get": (asked("turn"),),
    "values.list": (asked(statuses=()),),
    "values.get": (asked(BERTH, "north", shell=None),),
    "values.namespaces": (asked(),),
    "documents.list": (asked(statuses=()),),
    "documents.get": (asked("document", text=True),),
    "documents.get_chunk": (asked("chunk"),),
    "observations.list": (asked(),),
    "observations.get": (asked("observation"),),
    "sessions.list": (asked(),),
    "sessions.get": (asked("session"),),
    "sessions.grep": (asked("waited"),),
    "session.info": (asked(),),
    "session.messages": (asked(include_hidden=True, limit=500),),
    "session.message": (asked("message"),),
    "session.items": (asked(),),
    "session.abstract": (asked(),),
    "session.window": (asked(2_000, question="tide oars sea"),),
    "session.grep": (asked("tide turned"),),
    "session.expand": (asked("summary"),),
    "session.reopen": (asked("window"),),
    "session.summaries.list": (asked(),),
    "session.summaries.graph": (asked(include_replaced=True),),
    "projects.list": (asked(),),
    "projects.get": (asked("project"),),
    "projects.of": (asked("/srv/boat"), asked("/srv/pier", project="boat")),
    "projects.context": (asked("project"),),
    "projects.state": (asked("project", history=True),),
    "conflicts.list": (asked(statuses=()),),
    "conflicts.get": (asked("conflict"),),
    "merges.list": (asked(statuses=()),),
    "merges.get": (asked("merge"),),
    "graph.neighbors": (asked("name"),),
    "history.audit": (asked(limit=500),),
    "history.events": (asked("memory"), asked("summary"), asked("observation")),
    "history.distrusted": (asked(),),
    "history.model_calls": (asked(),),
    "history.behind": (asked(),),
    "history.explain": (asked("place"),),
    "history.blame": (asked("memory"), asked("observation")),
    "history.log": (asked(),),
    "history.diff": (asked("earlier"),),
    "history.what_if": (asked(without="given", shell=("--without", "given")),),
    "policy.get": (asked(),),
    "guards.quarantined": (asked(),),
    "guards.refusals": (asked(),),
    "vectors.list": (asked(),),
    "erasures.list": (asked(),),
    "erasures.certificates": (asked(shell=None),),
    "holds.list": (asked(),),
    "proof.digest": (asked(beliefs=True),),
    "maintenance.stats": (asked(),),
    "maintenance.users": (asked(),),
    "projections.list": (asked(),),
}


WAITING = {("history", "follow"), ("history", "wait")}  # for what is recorded later


def methods():
    """Yield each read of the public surface with its name in ``PUBLIC``, as the command line lists the methods."""
    for area in ("", *AREAS):
        for method in of_area(area) if area else of_ledger():
            if not method.writes and method.key not in WAITING:
                where = "session.summaries" if area == "summaries" else area
                yield (f"{where}.{method.name}" if where else method.name), method


def ask(name, ledger, the):
    """Return the answers of a read of the public surface to its calls in ``PUBLIC``, as plain data."""
    return [plain(each) for each in given(name, ledger, the)]


def given(name, ledger, the):
    """Return the answers of a read to its calls in ``PUBLIC``, as the objects that the ledger gave."""
    area, _, verb = name.rpartition(".")
    parts = area.split(".") if area else []
    place = ledger
    if parts[:1] == ["session"]:
        place = ledger.session(the["session"])
        parts = parts[1:]
    for part in parts:
        place = getattr(place, part)
    read = getattr(place, verb)
    return [
        read(*named(each.words, the), **dict(zip(each.options, named(each.options.values(), the), strict=True)))
        if callable(read)
        else read
        for each in PUBLIC[name]
    ]


def named(words, the):
    return [the.get(word, word) if isinstance(word, str) else word for word in words]


def plain(found):
    if isinstance(found, Page):
        return [plain(each) for each in found]
    if isinstance(found, Stats):
        found = msgspec.structs.replace(found, size_bytes=0, wal_bytes=0)
    return msgspec.to_builtins(found, enc_hook=repr)


PAST = {name for name, method in methods() if method.of_the_past}
READS = {
    **{name: partial(ask, name) for name in PUBLIC if name not in PAST},
    **{f"{name} now": partial(ask, name) for name in PUBLIC if name in PAST},
    **{
        f"{name} then": lambda g, the, name=name: ask(name, g.at(the["position"]), the)
        for name in PUBLIC
        if name in PAST
    },
    "digest": lambda g, the: g.proof.digest(),
    "at": lambda g, the: g.at(the["position"]).as_of,
    "erase, dry": lambda g, the: [
        plain(g.erase(subject, dry_run=True)) for subject in (the["memory"], Event(the["message"]), the["document"])
    ],
}
READERS = {  # on the command line: words, and arguments
    name.replace(".", " ").replace("_", "-"): [*["session"] * name.startswith("session."), *each.words, *each.shell]
    for name, (each, *_) in PUBLIC.items()
    if each.shell is not None
}


@functools.cache
def answers():
    """Return the answer of each read, by name, from a ledger in which nothing is damaged."""
    with tempfile.TemporaryDirectory() as folder, opened(put(Path(folder, "memory.db"))) as ledger:
        return {name: repr(ask(ledger, prepared()[1])) for name, ask in READS.items()}
