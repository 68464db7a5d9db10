"""``projects.join``: what was written under one name is found under another, until somebody takes that back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ledger import ConflictError, NotFoundError, RejectedError
from ledger.api import Ledger
from ledger.types import Project

TEA, OARS = "The tea is in the blue tin.", "The oars are in the boat shed."
Read = Callable[[Ledger, str], object]


pytestmark = pytest.mark.ledger(user="ada", actor="planner")


def _write(ledger: Ledger, project: str, text: str) -> None:
    """Something of every subject that is in a project."""
    fact = ledger.remember(text, kind="fact", project=project, entities=[f"{project} man"])
    ledger.remember(f"{project}: {text}", kind="project", project=project)
    ledger.propose(f"Perhaps {text}", project=project)
    ledger.capture(f"Where in {project}?", f"In {project}: somewhere.", project=project)
    ledger.documents.add(f"# {project}\n\n{text}", path=f"{project}.md", project=project)
    ledger.session(f"{project} talk", project=project).append("user", f"I am in {project}.")
    ledger.observations.add(f"Seen: {text}", [fact.id], project=project)
    ledger.projects.set_state(project, "fact", project, text)


READS: dict[str, Read] = {
    "memories": lambda g, p: sorted(each.content or "" for each in g.memories.list(project=p)),
    "review": lambda g, p: sorted(each.content or "" for each in g.review(project=p)),
    "interactions": lambda g, p: sorted(each.prompt or "" for each in g.interactions.list(project=p)),
    "documents": lambda g, p: sorted(each.title or "" for each in g.documents.list(project=p)),
    "sessions": lambda g, p: sorted(each.name or "" for each in g.sessions.list(project=p)),
    "observations": lambda g, p: sorted(each.content or "" for each in g.observations.list(project=p)),
    "state": lambda g, p: sorted(each.value or "" for each in g.projects.state(p)),
    "context": lambda g, p: sorted(each.content or "" for each in g.projects.context(p).items),
    "recall": lambda g, p: sorted(each.content or "" for each in g.recall("Where are oars and tea?", project=p).items),
    "shares": lambda g, p: sorted(
        each.content or "" for each in g.recall("oars and tea", project=p, packing="shares", budget=4000).items
    ),
    "graph": lambda g, p: [g.graph.neighbors(f"{name} man", project=p).seeds != () for name in ("larder", "harbour")],
    "audit": lambda g, p: sorted(each.position for each in g.history.audit(project=p, limit=500)),
    "project": lambda g, p: g.projects.get(p).id,
}


def _all(ledger: Ledger, project: str) -> dict[str, object]:
    return {name: read(ledger, project) for name, read in READS.items() if name != "audit" or hasattr(ledger, "undo")}


def test_the_rows_of_both_are_found_under_either_name_at_once_after_a_rebuild_and_then(ledger: Ledger) -> None:
    _write(ledger, "larder", TEA)
    _write(ledger, "harbour", OARS)
    apart = {name: _all(ledger, name) for name in ("larder", "harbour")}
    before, old = ledger.position, ledger.projects.get("harbour").id
    joined = ledger.projects.join("larder", "harbour", reason="one place")
    assert [each.type for each in ledger.history.audit(limit=1)] == ["ProjectJoined"] and ledger.position == before + 1
    assert (joined.name, joined.aliases) == ("larder", ("harbour",))
    together = _all(ledger, "larder")
    assert _all(ledger, "HARBOUR") == _all(ledger, old) == _all(ledger, joined.id) == together
    for name in set(READS) - {"project", "graph"}:
        both = [*apart["larder"][name], *apart["harbour"][name]]  # type: ignore[misc]
        wanted = sorted({*both, ledger.position} if name == "audit" else set(both))
        assert together[name] == wanted, name
    assert together["graph"] == [True, True]
    assert [each.name for each in ledger.projects.list()] == ["larder"] and ledger.maintenance.stats().projects == 1
    assert {each.project for each in ledger.memories.list()} == {"larder"}
    ledger.maintenance.rebuild()
    assert ledger.proof.verify().ok and _all(ledger, "harbour") == together
    past, since = ledger.at(before), ledger.at(ledger.position)
    assert [each.name for each in past.projects.list()] == ["harbour", "larder"]
    for name in ("larder", "harbour"):
        then = READS | {"audit": lambda g, p: apart[p]["audit"]}
        assert {each: read(past, name) for each, read in then.items()} == apart[name]  # type: ignore[arg-type]
    assert since.projects.get("harbour").id == joined.id and len(since.memories.list(project="harbour")) == 4


def test_a_join_is_undone_and_redone(ledger: Ledger) -> None:
    _write(ledger, "larder", TEA)
    _write(ledger, "harbour", OARS)
    apart = {name: _all(ledger, name) for name in ("larder", "harbour")}
    ledger.projects.join("larder", "harbour")
    together, at = _all(ledger, "harbour"), ledger.position
    undone = ledger.undo(at)
    for name, was in apart.items():
        now = _all(ledger, name)
        now.pop("audit"), was.pop("audit")
        assert now == was
    ledger.redo(undone.position)
    again = _all(ledger, "larder")
    again.pop("audit"), together.pop("audit")
    assert again == together
    ledger.maintenance.rebuild()
    assert ledger.proof.verify().ok
    assert ledger.history.what_if(without=at).changed == ()


def test_after_a_join_a_write_under_either_name_belongs_to_the_target(ledger: Ledger) -> None:
    first = ledger.remember(OARS, project="harbour")
    ledger.projects.add("larder")
    old = ledger.projects.get("harbour").id
    target = ledger.projects.join("larder", "harbour")
    for name in ("harbour", "larder", old, target.id):
        assert ledger.remember(f"New by {name}.", project=name).project == "larder"
        assert ledger.remember(OARS, project=name).id == first.id, "the duplicate rule is of the whole"
    assert ledger.remember(OARS).id != first.id
    assert len(ledger.memories.list(project="harbour")) == 5
    again = ledger.projects.join("larder", "harbour")
    assert again.absorbed and again.id == target.id
    assert ledger.projects.add("harbour").id == target.id
    assert ledger.projects.add_alias("harbour", "quay").aliases == ("quay", "harbour")
    with pytest.raises(NotFoundError):
        ledger.projects.join("larder", "nobody")
    with pytest.raises(NotFoundError):
        ledger.projects.join("nobody", "larder")
    ledger.projects.add("other")
    with pytest.raises(ConflictError):
        ledger.projects.add_alias("other", "harbour")
    with pytest.raises(NotFoundError):
        ledger.bind(user="bob").projects.join("larder", "harbour")


def test_projects_are_joined_one_after_another_and_never_in_a_ring(ledger: Ledger) -> None:
    for name in ("one", "two", "three"):
        ledger.remember(f"Said of {name}.", project=name)
    first = ledger.projects.join("two", "one") and ledger.undo(ledger.position)
    ledger.projects.join("one", "two")
    with pytest.raises(ConflictError):
        ledger.redo(first.position)
    assert ledger.projects.join("two", "one").absorbed
    whole = ledger.projects.join("three", "two")
    assert (whole.name, sorted(each or "" for each in whole.aliases)) == ("three", ["one", "two"])
    assert [len(ledger.memories.list(project=name)) for name in ("one", "two", "three")] == [3, 3, 3]


def test_the_state_of_both_is_one_and_what_was_set_last_counts(ledger: Ledger) -> None:
    ledger.projects.set_state("larder", "status", "phase", "one")
    ledger.projects.set_state("harbour", "status", "phase", "two")
    ledger.projects.set_state("harbour", "fact", "boats", "nine")
    joined = ledger.projects.join("larder", "harbour")
    assert [(each.name, each.value) for each in joined.state] == [("phase", "two"), ("boats", "nine")]
    assert [each.value for each in ledger.projects.state("larder")] == ["two", "nine"]
    history = ledger.projects.state("larder", name="phase", history=True)
    assert [(each.value, each.to_position) for each in history] == [("one", joined.position), ("two", None)]
    before = ledger.position
    ledger.projects.set_state("larder", "fact", "boats", "nine")
    assert ledger.position == before, "it is so already"
    ledger.projects.remove_state("larder", "status", "phase")
    assert [each.value for each in ledger.projects.state("harbour")] == ["nine"]
    ledger.projects.set_state("harbour", "fact", "boats", "ten")
    assert [each.value for each in ledger.projects.state("larder")] == ["ten"]
    assert [each.value for each in ledger.projects.get("larder").state] == ["ten"]


def test_a_joined_project_is_shown_with_each_name_and_value_once(ledger: Ledger) -> None:
    ledger.projects.set_state("harbour", "fact", "boats", "nine")
    ledger.projects.add("larder")
    joined = ledger.projects.join("larder", "harbour")
    for name in ("larder", "harbour", joined.id):
        assert ledger.projects.get(name) == joined
    assert ledger.projects.list()[0] == joined == ledger.at(ledger.position).projects.get("harbour")
    assert (joined.aliases, [each.value for each in joined.state]) == (("harbour",), ["nine"])


def test_a_project_without_a_description_has_that_of_one_joined_to_it(ledger: Ledger) -> None:
    ledger.projects.add("harbour", description="boats and ropes")
    ledger.projects.add("larder")
    joined = ledger.projects.join("larder", "harbour")
    assert joined.description == ledger.projects.get("larder").description == "boats and ropes"
    assert ledger.projects.list()[0].description == "boats and ropes"
    known = ledger.projects.add("larder", description="something else")
    assert known.absorbed and known.description == "boats and ropes"
    ledger.undo(joined.position)
    assert [ledger.projects.get(name).description for name in ("harbour", "larder")] == ["boats and ropes", ""]


def test_a_value_that_comes_back_counts_from_when_it_was_set(ledger: Ledger) -> None:
    """By every read alike; in the order in which they were set."""
    ledger.projects.set_state("larder", "status", "phase", "one")
    first = ledger.position
    ledger.projects.set_state("larder", "fact", "boats", "nine")
    ledger.projects.set_state("harbour", "status", "phase", "two")
    ledger.projects.join("larder", "harbour")
    wanted = ["nine", "two"]
    for _ in range(2):
        assert [each.value for each in ledger.projects.get("larder").state] == wanted
        assert [each.value for each in ledger.projects.state("larder")] == wanted
        history = [each.value for each in ledger.projects.state("larder", history=True)]
        assert list(dict.fromkeys(history)) == ["one", *wanted]
        contents = [item.content or "" for item in ledger.projects.context("larder").items]
        assert [value in content for value, content in zip(wanted, contents, strict=True)] == [True, True]
        undone = ledger.undo(first)
        ledger.redo(undone.position)


def test_merges_conflicts_reinforcement_and_observations_see_one_project(ledger: Ledger) -> None:
    for project in ("larder", "harbour"):
        ledger.remember("The big green kettle stands on the left shelf of the kitchen.", project=project)
    one = ledger.remember("The ferry leaves from the northern pier at noon.", project="larder")
    ledger.remember("Bert lives in Ghent.", project="larder", relations=[("Bert", "lives_in", "Ghent")])
    ledger.remember("Bert lives in Lyon.", project="harbour", relations=[("Bert", "lives_in", "Lyon")])
    assert not ledger.merges.find().proposed and not ledger.conflicts.find().found
    ledger.projects.join("harbour", "larder")
    assert len(ledger.merges.find(project="larder").proposed) == 1 and len(ledger.merges.list(project="harbour")) == 1
    assert (
        len(ledger.conflicts.find(project="harbour").found) == 1 and len(ledger.conflicts.list(project="larder")) == 1
    )
    proposal = ledger.merges.list(project="larder")[0]
    assert ledger.merges.apply(proposal.id).project == "harbour"
    ledger.capture("When?", "The ferry leaves from the northern pier at noon.", project="harbour")
    assert ledger.memories.get(one.id).reference_count == 1
    assert ledger.observations.add("Ferries leave at noon.", [one.id], project="harbour").project == "harbour"


def test_an_erasure_of_the_project_is_of_both_and_a_hold_keeps_both(ledger: Ledger) -> None:
    _write(ledger, "larder", TEA)
    _write(ledger, "harbour", OARS)
    kept = ledger.remember("Nobody's.")
    ledger.projects.join("larder", "harbour")
    held = ledger.holds.add(Project("larder"))
    with pytest.raises(RejectedError):
        ledger.erase(ledger.memories.list(project="harbour")[-1].id)
    ledger.holds.remove(held.id)
    ledger.erase(Project("harbour"))
    assert [each.id for each in ledger.memories.list()] == [kept.id]
    assert ledger.proof.verify().ok
    with pytest.raises(NotFoundError):
        ledger.projects.get("larder")
    text = Path(ledger.path).read_bytes() + Path(f"{ledger.path}-wal").read_bytes()
    assert b"blue tin" not in text and b"boat shed" not in text


def test_a_project_joined_into_an_erased_project_is_separate_again(ledger: Ledger) -> None:
    """Else a join that comes back after the erasure would leave it found under nothing that has a name."""
    for name, text in (("larder", TEA), ("harbour", OARS)):
        ledger.remember(text, project=name)
        ledger.projects.set_state(name, "fact", "what", text)
    ledger.projects.join("larder", "harbour")
    undone = ledger.undo(ledger.position)
    ledger.erase(Project("larder"), quotes="keep", derived="keep", sources="keep")
    ledger.redo(undone.position)
    assert [each.name for each in ledger.projects.list()] == ["harbour", None], (
        "the second is what is left of the larder"
    )
    found = ledger.projects.get("harbour")
    assert (found.name, found.aliases) == ("harbour", ()) and [each.value for each in found.state] == [OARS]
    assert [each.content for each in ledger.memories.list(project="harbour")] == [OARS]
    assert ledger.remember("New.", project="harbour").project == "harbour"
    ledger.maintenance.rebuild()
    assert ledger.projects.get("harbour").id == found.id and ledger.proof.verify().ok


def test_a_value_is_removed_though_an_erased_project_was_joined(ledger: Ledger) -> None:
    for name in ("larder", "harbour"):
        ledger.projects.set_state(name, "fact", "what", name)
    ledger.projects.join("larder", "harbour")
    undone = ledger.undo(ledger.position)
    ledger.erase(Project("harbour"))
    ledger.redo(undone.position)
    assert [each.value for each in ledger.projects.get("larder").state] == ["larder"]
    assert ledger.projects.remove_state("larder", "fact", "what").state == ()


def test_a_project_first_named_by_a_write_gets_its_description_later(ledger: Ledger) -> None:
    ledger.remember(OARS, project="harbour")
    described = ledger.projects.add("harbour", description="boats and ropes")
    assert described.description == "boats and ropes" and not described.absorbed
    assert ledger.projects.get("harbour").description == "boats and ropes"
    again = ledger.projects.add("harbour", description="something else")
    assert again.absorbed and again.description == "boats and ropes"
    ledger.maintenance.rebuild()
    assert ledger.projects.get("harbour").description == "boats and ropes"
    undone = ledger.undo(described.position)
    assert ledger.projects.get("harbour").description == "" and ledger.memories.list(project="harbour")
    ledger.redo(undone.position)
    assert ledger.projects.get("harbour").description == "boats and ropes"


def test_a_name_taken_by_a_join_is_kept_for_its_undo(
    ledger: Ledger,
) -> None:
    ledger.remember(OARS, project="harbour")
    ledger.projects.add_alias("harbour", "quay")
    ledger.projects.add("larder")
    joined = ledger.projects.join("larder", "harbour")
    for name in ("Harbour", "quay"):
        ledger.projects.add_alias("larder", name)
        assert ledger.position == joined.position, "it is so already"
    assert ledger.projects.get("larder").aliases == ("harbour", "quay")
    ledger.undo(joined.position)
    for name in ("harbour", "quay"):
        assert [each.content for each in ledger.memories.list(project=name)] == [OARS]
