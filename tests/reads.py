"""A ledger with a bit of everything, and every read that there is, for tests that ask them all."""

from __future__ import annotations

import functools
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from old_names import Ledger
from places import log_of

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)


def opened(path, **given):
    return Ledger.open(path, clock=lambda: NOON, **given)


@functools.cache
def prepared():
    """The bytes of a ledger with a bit of everything, and the names that it is asked by."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "memory.db")
        Ledger.import_log(log_of("1_conversations"), path)
        with opened(path) as ledger:
            names = _fill(ledger)
        return path.read_bytes(), names


def _fill(ledger):
    ledger.register_project("Boat")
    ledger.set_state("boat", "status", "mast", "up")
    for often in ("", " often"):
        ledger.remember(f"Before noon the user{often} varnishes the long oars of the old boat.", project="boat")
    ledger.find_merges()
    homes = [ledger.remember(f"Ben lives in {city}.", confidence=0.9) for city in ("Oslo", "Bergen")]
    ledger.find_conflicts()
    ledger.hold(homes[0].id, reason="case 12")
    ledger.distrust("mallory", kind="actor")
    ledger.erase(ledger.remember("The cellar floods.").id)
    ledger.propose("The user owns a boat.", source=ledger.interactions()[0].id)
    chat = ledger.session("quay")
    for number in range(60):
        chat.append("user", f"The tide turned {number} times, and I prefer to wait for it.")
    made = chat.compact(summarizer=lambda request: "They waited for the tide.").created
    chat.set_summary("They sail.")
    assert made and ledger.merges() and ledger.conflicts() and ledger.review() and ledger.interactions()
    return {
        "memory": homes[0].id,
        "free": homes[1].id,
        "given": homes[0].position,
        "turn": ledger.interactions()[0].id,
        "document": ledger.documents()[0].id,
        "chunk": ledger.document(ledger.documents()[0].id).chunks[0].id,
        "observation": ledger.observations()[0].id,
        "conflict": ledger.conflicts()[0].id,
        "merge": ledger.merges()[0].id,
        "summary": made[0].id,
        "message": chat.messages()[0].position,
        "last": chat.messages()[-1].position,
        "recall": ledger.recall("tide", receipt=True).receipt,
        "assembly": chat.assemble(2_000, record=True).receipt,
        "position": ledger.position,
    }


def put(path):
    for suffix, said in (("", prepared()[0]), (".lock", b"")):
        each = Path(f"{path}{suffix}")
        each.touch(mode=0o600)
        each.write_bytes(said)
    return path


OF_A_LEDGER = {  # of a moment too
    "audit": lambda g, the: g.audit(limit=500),
    "chunk": lambda g, the: g.chunk(the["chunk"]),
    "confidence": lambda g, the: g.confidence(the["memory"]),
    "conflict": lambda g, the: g.conflict(the["conflict"]),
    "conflicts": lambda g, the: g.conflicts(status="all"),
    "digest": lambda g, the: g.digest(beliefs=True),
    "distrusted": lambda g, the: g.distrusted(),
    "document": lambda g, the: g.document(the["document"], text=True),
    "documents": lambda g, the: g.documents(status="all"),
    "graph": lambda g, the: g.graph("ketch"),
    "history": lambda g, the: (g.history(the["memory"]), g.history(the["summary"]), g.history(the["observation"])),
    "interaction": lambda g, the: g.interaction(the["turn"]),
    "interactions": lambda g, the: g.interactions(),
    "memories": lambda g, the: g.memories(status="all"),
    "memory": lambda g, the: g.memory(the["memory"]),
    "merge_of": lambda g, the: g.merge_of(the["merge"]),
    "merges": lambda g, the: g.merges(status="all"),
    "model_calls": lambda g, the: g.model_calls(),
    "observation": lambda g, the: g.observation(the["observation"]),
    "observations": lambda g, the: g.observations(),
    "policy": lambda g, the: g.policy(),
    "position": lambda g, the: g.position,
    "project": lambda g, the: g.project("boat"),
    "project_context": lambda g, the: g.project_context("boat"),
    "projects": lambda g, the: g.projects(),
    "quarantined": lambda g, the: g.quarantined(),
    "recall": lambda g, the: [each.id for each in g.recall("tide masts sea oars", among=("memories", "chunks")).items],
    "refusals": lambda g, the: g.refusals(),
    "review": lambda g, the: g.review(),
    "session": lambda g, the: g.session("quay").name,
    "sessions": lambda g, the: g.sessions(),
    "state": lambda g, the: g.state("boat", history=True),
    "stats": lambda g, the: msgspec.structs.replace(g.stats(), size_bytes=0, wal_bytes=0),
    "user_profile": lambda g, the: g.user_profile(),
    "valid": lambda g, the: getattr(g, "valid", None),
    "why": lambda g, the: (g.why(the["memory"]), g.why(the["observation"])),
}
OF_A_SESSION = {  # of one of the past too
    "assemble": lambda s, the: s.assemble(2_000, query="tide oars sea"),
    "dag": lambda s, the: s.dag(everything=True),
    "expand": lambda s, the: s.expand(the["summary"]),
    "grep": lambda s, the: (s.grep("tide turned"), s.grep("waited", everywhere=True)),
    "id": lambda s, the: s.id,
    "info": lambda s, the: s.info(),
    "message": lambda s, the: s.message(the["message"]),
    "messages": lambda s, the: s.messages(hidden=True),
    "name": lambda s, the: s.name,
    "summaries": lambda s, the: s.summaries(),
    "summary": lambda s, the: s.summary,
    "user": lambda s, the: s.user,
    "window": lambda s, the: s.window(),
}
OF_TODAY = {
    "at": lambda g, the: g.at(the["position"]).as_of,
    "diff": lambda g, the: g.diff(the["position"] - 60),
    "digest": lambda g, the: g.digest(),
    "erase": lambda g, the: [g.erase(each, dry_run=True) for each in (the["memory"], the["message"], the["document"])],
    "erasures": lambda g, the: g.erasures(),
    "holds": lambda g, the: g.holds(),
    "id": lambda g, the: g.id,
    "path": lambda g, the: Path(g.path).name,
    "certificates": lambda g, the: g.certificates(),
    "redactions": lambda g, the: g.redactions,
    "reopen": lambda g, the: g.reopen(the["recall"]),
    "session.reopen": lambda g, the: g.session("quay").reopen(the["assembly"]),
    "what_if": lambda g, the: g.what_if(without=the["given"]),
}
READS = {
    **OF_TODAY,
    **{f"{name} now": ask for name, ask in OF_A_LEDGER.items()},
    **{f"{name} then": lambda g, the, ask=ask: ask(g.at(the["position"]), the) for name, ask in OF_A_LEDGER.items()},
    **{
        f"session.{name} now": lambda g, the, ask=ask: ask(g.session("quay"), the) for name, ask in OF_A_SESSION.items()
    },
    **{
        f"session.{name} then": lambda g, the, ask=ask: ask(g.at(the["position"]).session("quay"), the)
        for name, ask in OF_A_SESSION.items()
    },
}


@functools.cache
def answers():
    """What each read answers where nothing is damaged."""
    with tempfile.TemporaryDirectory() as folder, opened(put(Path(folder, "memory.db"))) as ledger:
        return {name: repr(ask(ledger, prepared()[1])) for name, ask in READS.items()}
