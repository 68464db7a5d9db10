"""A ledger with one subject of each kind, and one call of every method that writes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ledger.api import Ledger
from ledger.types import Project


def opened(path: Path) -> Ledger:
    return Ledger.open(path, user="ada", actor="planner")


def fill(ledger: Ledger) -> dict[str, Any]:
    """Fill a ledger with one subject of each kind that a command can name, and return the ids by name."""
    the: dict[str, Any] = {"fact": ledger.remember("The user prefers dark roast coffee.", tags=["drinks"]).id}
    the["other"] = ledger.remember("The user has a red bicycle.").id
    the["idea"] = ledger.propose("The user is training for a marathon.").id
    the["gone"] = ledger.remember("The user lives in Oslo.").id
    ledger.retract(the["gone"])
    the["odd"] = ledger.remember("The user is a lighthouse.").id
    ledger.guards.quarantine(the["odd"])
    ledger.projects.add("atlas")
    ledger.projects.add("charts")
    ledger.projects.archive(ledger.projects.add("over").id)
    ledger.projects.set_state("atlas", "status", "phase", "one")
    the["turn"] = ledger.capture("What do I drink?", session="talk").id
    the["said"] = ledger.capture("And?", "Decision: the user prefers dark roast coffee.", reinforce=False).id
    undone = ledger.remember("The user owns a boat.")
    ledger.undo(undone.position)
    the["undone"], the["to undo"] = undone.position, ledger.remember("The user owns a kite.").position
    ledger.values.put(("notes",), "todo", "Buy milk.")
    ledger.values.put(("notes",), "old", "Buy tea.")
    ledger.values.remove(("notes",), "old")
    the["paper"] = ledger.documents.add("# Porto\n\nThe bridge is high.\n", title="Porto").id
    the["removed"] = ledger.documents.add("# Oslo\n\nThe fjord is deep.\n", title="Oslo").id
    ledger.documents.remove(the["removed"])
    for origin in ("eve", "mallory"):
        ledger.bind(actor=origin).remember(f"The moon is of cheese, says {origin}.")
    ledger.history.distrust("mallory", kind="actor")
    ledger.remember("The user sold a car.", correlation_id="run-1")
    the["hold"] = ledger.holds.add(Project("atlas")).id
    ledger.policy.set(gain=0.03)
    ledger.erase(ledger.remember("Something of yesterday.").id)
    chat = ledger.session("chat")
    for half in range(2):
        with ledger.batch():
            for number in range(half * 80, half * 80 + 80):
                said = chat.append("user" if number % 2 == 0 else "assistant", f"Message {number} about the sea. " * 20)
        chat.compact(force=True, summarizer=short)
    the["lisbon"], the["porto"] = (ledger.remember(f"Ana lives in {city}.").id for city in ("Lisbon", "Porto"))
    (conflict,) = ledger.conflicts.find().found
    alike = "The big red barn stands behind the old mill near the small river"
    the["barn"] = ledger.remember(f"{alike} bank.").id
    ledger.remember(f"{alike} bend.")
    (merge,) = ledger.merges.find(threshold=0.5).proposed
    the["conflict"], the["merge"], the["pair"] = conflict.id, merge.id, [each.id for each in merge.memories]
    ledger.graph.relate(the["fact"], "Ada", "drinks", "coffee")
    ledger.observations.add("The user likes things.", [the["fact"]])
    the["said last"] = said.position
    last, first = [each.id for each in chat.summaries.list()][:2]
    the["summary"], the["invalid"] = first, last
    chat.summaries.invalidate(last)
    for city in ("Oslo", "Bergen"):  # what conflicts.find, and merges.find, have not seen yet
        ledger.remember(f"Ben lives in {city}.", confidence=0.9)
    for often in ("", " often"):
        ledger.remember(f"Before noon the user{often} varnishes the long oars of the old ketch.")
    the["token"] = ledger.learning.unread(since="2000-01-01").token
    return the


def short(request: Any) -> str:
    """Answer in place of a model, with the same short sentence to every request."""
    return "They talked about the sea."


def again(text: str) -> list[dict[str, str]]:
    return [
        {"role": "user", "content": "Message 0 about the sea. " * 20},
        {"role": "user", "content": text},
    ]


CALLS: dict[str, Callable[[Ledger, dict[str, Any], Any], Any]] = {
    "add": lambda g, the, w: g.add("Message 160 about the sea.", session="chat", **w),
    "capture": lambda g, the, by: g.capture("Hello?", "Good day.", session="talk", append=True, **by),
    "remember": lambda g, the, by: g.remember("Tea is in the tin.", project="new", **by),
    "propose": lambda g, the, by: g.propose("Tea is in the tin.", **by),
    "promote": lambda g, the, by: g.promote(the["idea"], **by),
    "reject": lambda g, the, by: g.reject(the["idea"], **by),
    "revise": lambda g, the, by: g.revise(the["fact"], "The user prefers a dark roast.", **by),
    "supersede": lambda g, the, by: g.supersede(the["fact"], "The user prefers tea.", **by),
    "invalidate": lambda g, the, by: g.invalidate(the["fact"], **by),
    "retract": lambda g, the, by: g.retract(the["fact"], **by),
    "restore": lambda g, the, by: g.restore(the["gone"], **by),
    "reinforce": lambda g, the, by: g.reinforce(the["fact"], amount=0.01, **by),
    "undo": lambda g, the, by: g.undo(the["to undo"], **by),
    "redo": lambda g, the, by: g.redo(the["undone"], **by),
    "erase": lambda g, the, by: g.erase(the["other"], **by),
    "extract": lambda g, the, by: g.extract(the["said"], method="rules", **by),
    "learning.learn": lambda g, the, by: g.learning.learn(the["token"], {}, **by),
    "learning.correct": lambda g, the, by: g.learning.correct(the["fact"], "The user prefers tea.", **by),
    "conflicts.resolve": lambda g, the, by: g.conflicts.resolve(the["conflict"], keep=the["porto"], **by),
    "conflicts.accept": lambda g, the, by: g.conflicts.accept(the["conflict"], **by),
    "merges.apply": lambda g, the, by: g.merges.apply(the["merge"], **by),
    "merges.combine": lambda g, the, by: g.merges.combine(the["pair"], **by),
    "merges.reject": lambda g, the, by: g.merges.reject(the["merge"], **by),
    "graph.relate": lambda g, the, by: g.graph.relate(the["fact"], "Ada", "likes", "tea", **by),
    "graph.unrelate": lambda g, the, by: g.graph.unrelate(the["fact"], "Ada", "drinks", "coffee", **by),
    "observations.add": lambda g, the, by: g.observations.add("The user drinks.", [the["fact"]], **by),
    "values.put": lambda g, the, by: g.values.put(("notes",), "todo", {"milk": 2}, **by),
    "values.move": lambda g, the, by: g.values.move(("notes",), "todo", ("archive",), "todo", **by),
    "values.remove": lambda g, the, by: g.values.remove(("notes",), "todo", **by),
    "values.restore": lambda g, the, by: g.values.restore(("notes",), "old", **by),
    "documents.add": lambda g, the, by: g.documents.add("# Rome\n\nThe hills are seven.\n", title="Rome", **by),
    "documents.remove": lambda g, the, by: g.documents.remove(the["paper"], **by),
    "documents.restore": lambda g, the, by: g.documents.restore(the["removed"], **by),
    "guards.quarantine": lambda g, the, by: g.guards.quarantine(the["fact"], **by),
    "guards.release": lambda g, the, by: g.guards.release(the["odd"], **by),
    "history.distrust": lambda g, the, by: g.history.distrust("eve", kind="actor", **by),
    "history.trust": lambda g, the, by: g.history.trust("mallory", kind="actor", **by),
    "history.undo_all": lambda g, the, by: g.history.undo_all(correlation_id="run-1", **by),
    "holds.add": lambda g, the, by: g.holds.add(the["fact"], **by),
    "holds.remove": lambda g, the, by: g.holds.remove(the["hold"], **by),
    "interactions.add_response": lambda g, the, by: g.interactions.add_response(the["turn"], "Dark roast.", **by),
    "interactions.reinforce": lambda g, the, by: g.interactions.reinforce(the["said"], **by),
    "memories.set_confidence": lambda g, the, by: g.memories.set_confidence(the["fact"], 0.3, **by),
    "memories.set_validity": lambda g, the, by: g.memories.set_validity(the["fact"], valid_to="2030-01-01", **by),
    "memories.end": lambda g, the, by: g.memories.end(the["fact"], **by),
    "memories.correct": lambda g, the, by: g.memories.correct(the["fact"], kind="fact", **by),
    "memories.tag": lambda g, the, by: g.memories.tag(the["fact"], add=["roast"], **by),
    "memories.set_metadata": lambda g, the, by: g.memories.set_metadata(the["fact"], {"ticket": 4711}, **by),
    "observations.withdraw": lambda g, the, by: g.observations.withdraw([the["fact"]], **by),
    "conflicts.find": lambda g, the, by: g.conflicts.find(**by),
    "consolidate": lambda g, the, by: g.consolidate(method="grouping", **by),
    "merges.find": lambda g, the, by: g.merges.find(**by),
    "policy.set": lambda g, the, by: g.policy.set(gain=0.05, **by),
    "projects.add": lambda g, the, by: g.projects.add("boats", **by),
    "projects.add_alias": lambda g, the, by: g.projects.add_alias("atlas", "helper", **by),
    "projects.archive": lambda g, the, by: g.projects.archive("atlas", **by),
    "projects.restore": lambda g, the, by: g.projects.restore("over", **by),
    "projects.rename": lambda g, the, by: g.projects.rename("atlas", "maps", **by),
    "projects.link": lambda g, the, by: g.projects.link("atlas", "/tmp", **by),
    "projects.enter": lambda g, the, by: g.projects.enter("/srv/atlas/sea", **by),
    "projects.join": lambda g, the, by: g.projects.join("atlas", "charts", **by),
    "projects.remove_state": lambda g, the, by: g.projects.remove_state("atlas", "status", "phase", **by),
    "projects.set_state": lambda g, the, by: g.projects.set_state("atlas", "status", "phase", "two", **by),
    "session.append": lambda g, the, by: g.session("chat").append("user", "One more.", **by),
    "session.set_abstract": lambda g, the, by: g.session("chat").set_abstract("About the sea.", **by),
    "session.set_metadata": lambda g, the, by: g.session("chat").set_metadata({"ticket": 4711}, **by),
    "session.compact": lambda g, the, by: g.session("chat").compact(1_000, until_under=True, summarizer=short, **by),
    "session.extract": lambda g, the, by: g.session("chat").extract(method="rules", **by),
    "session.skip_extraction": lambda g, the, by: g.session("chat").skip_extraction(until=the["said last"], **by),
    "session.reconcile": lambda g, the, by: g.session("chat").reconcile(again("Something else."), **by),
    "session.replace": lambda g, the, by: g.session("chat").replace(again("Something new."), **by),
    "session.truncate": lambda g, the, by: g.session("chat").truncate(3, **by),
    "session.extend": lambda g, the, by: g.session("chat").extend(
        [{"role": "user", "content": "Two more."}, {"role": "assistant", "content": "Yes."}], **by
    ),
    "session.remove_last": lambda g, the, by: g.session("chat").remove_last(2, **by),
    "session.clear": lambda g, the, by: g.session("chat").clear(**by),
    "session.add_alias": lambda g, the, by: g.session("chat").add_alias("talk of the sea", **by),
    "session.summaries.add": lambda g, the, by: g.session("chat").summaries.add("Enough.", [the["said last"]], **by),
    "session.summaries.invalidate": lambda g, the, by: g.session("chat").summaries.invalidate(the["summary"], **by),
    "session.summaries.restore": lambda g, the, by: g.session("chat").summaries.restore(the["invalid"], **by),
    "session.summaries.rewrite": lambda g, the, by: g.session("chat").summaries.rewrite(
        the["summary"], summarizer=short, **by
    ),
}
