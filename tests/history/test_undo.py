"""The way back: a command's events go out of force, with what was built on them, and can be put back."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from absence import absent, perhaps
from conftest import folded_from_zero

from ledger import ConflictError, Ledger, LedgerError, NotFoundError, RejectedError


def agrees(ledger: Ledger) -> None:
    """The projections say what the log says."""
    assert ledger.proof.digest() == folded_from_zero(ledger)


def adds_up(ledger: Ledger, id: str) -> None:
    why = ledger.why(id)
    assert sum(round(step.delta * 1_000_000) for step in why.steps) == round(why.confidence * 1_000_000)
    now = perhaps(ledger.memories.get, id)
    assert why.confidence == (now.confidence if now is not None else 0)


def test_undoing_a_capture_takes_the_memory_away(ledger: Ledger) -> None:
    fact = ledger.remember("Tea is in the tin.")
    report = ledger.undo(fact.position, reason="wrong tin")
    assert (len(report.commands), report.events, report.subjects, report.dry_run) == (1, 1, (fact.id,), False)
    assert absent(ledger.memories.get, fact.id) and ledger.memories.list(statuses=()) == []
    assert ledger.recall("tea tin").items == ()
    with pytest.raises(NotFoundError):
        ledger.reinforce(fact.id)
    why = ledger.why(fact.id)
    assert why.memory is None
    assert [(step.type, step.in_effect, step.because) for step in why.steps] == [
        ("MemoryCaptured", False, ""),
        ("CommandUndone", True, "wrong tin"),
    ]
    adds_up(ledger, fact.id)
    agrees(ledger)


@pytest.mark.parametrize("name", ["position", "command", "event"])
def test_a_command_is_named_by_a_position_its_id_or_an_event(ledger: Ledger, name: str) -> None:
    fact = ledger.remember("Tea is in the tin.", project="kitchen")
    entry = ledger.history.audit(limit=1)[0]
    target = {"position": fact.position, "command": entry.command_id, "event": entry.event_id}[name]
    ledger.undo(target)
    assert absent(ledger.memories.get, fact.id)


def test_an_undo_keeps_the_projects_that_the_command_registered(ledger: Ledger) -> None:
    fact = ledger.remember("Tea is in the tin.", project="kitchen", session="s1")
    ledger.undo(fact.position)
    assert [each.name for each in ledger.projects.list()] == ["kitchen"]


@pytest.mark.parametrize(
    "verb",
    [
        "promote",
        "reject",
        "revise",
        "correct",
        "retag",
        "set_validity",
        "adjust",
        "retract",
        "quarantine",
        "reinforce",
        "invalidate",
    ],
)
def test_undoing_one_change_gives_back_what_was_before_it(ledger: Ledger, verb: str) -> None:
    fact = ledger.remember("Tea is in the tin.", tags=["kitchen"], valid_to="2030-01-01")
    idea = ledger.propose("Tea is in the box.", tags=["kitchen"])
    before = idea if verb in ("promote", "reject") else fact
    change = {
        "promote": lambda: ledger.promote(idea.id),
        "reject": lambda: ledger.reject(idea.id),
        "revise": lambda: ledger.revise(fact.id, "Tea is in the jar."),
        "correct": lambda: ledger.memories.correct(fact.id, kind="fact", project="home", entities=["tin"]),
        "retag": lambda: ledger.memories.tag(fact.id, add=["new"], remove=["kitchen"]),
        "set_validity": lambda: ledger.memories.set_validity(fact.id, valid_from="2020-01-01", valid_to="2021-01-01"),
        "adjust": lambda: ledger.memories.set_confidence(fact.id, 0.1),
        "retract": lambda: ledger.retract(fact.id),
        "quarantine": lambda: ledger.guards.quarantine(fact.id),
        "reinforce": lambda: ledger.reinforce(fact.id, amount=0.1),
        "invalidate": lambda: ledger.invalidate(fact.id),
    }[verb]
    changed = change()
    report = ledger.undo(ledger.position)
    now = ledger.memories.get(before.id)
    same = [name for name in now.__struct_fields__ if name not in ("position", "replayed", "absorbed")]
    assert [getattr(now, name) for name in same] == [getattr(before, name) for name in same]
    adds_up(ledger, before.id)
    ledger.redo(report.command_id or "")
    again = ledger.memories.get(before.id)
    assert [getattr(again, name) for name in same] == [getattr(changed, name) for name in same]
    adds_up(ledger, before.id)
    agrees(ledger)


def test_undoing_a_supersession_brings_the_old_one_back(ledger: Ledger) -> None:
    coffee = ledger.remember("The user drinks coffee.", valid_to="2030-01-01")
    tea = ledger.supersede(coffee.id, "The user drinks tea.")
    ledger.undo(tea.position)
    back = ledger.memories.get(coffee.id)
    assert (back.status, back.superseded_by, back.valid_to) == ("active", None, coffee.valid_to)
    assert absent(ledger.memories.get, tea.id)
    agrees(ledger)
    ledger.redo(tea.position)
    gone, new = ledger.memories.get(coffee.id), ledger.memories.get(tea.id)
    assert gone is not None and new is not None
    assert (gone.status, gone.superseded_by, new.supersedes) == ("superseded", tea.id, coffee.id)
    agrees(ledger)


def test_undoing_an_undo_is_a_redo(ledger: Ledger) -> None:
    fact = ledger.remember("Tea is in the tin.")
    undone = ledger.undo(fact.position)
    planned = ledger.undo(undone.command_id or "", dry_run=True)
    assert planned.subjects == (fact.id,) and absent(ledger.memories.get, fact.id)
    ledger.undo(undone.command_id or "")
    assert ledger.memories.get(fact.id)
    ledger.undo(fact.position)
    assert absent(ledger.memories.get, fact.id)
    agrees(ledger)


def test_undone_already_is_nothing_to_do(ledger: Ledger) -> None:
    fact = ledger.remember("Tea is in the tin.")
    ledger.undo(fact.position)
    position = ledger.position
    assert ledger.undo(fact.position).events == 0
    ledger.redo(fact.position)
    assert ledger.redo(fact.position).events == 0
    assert ledger.position == position + 1


def test_what_later_commands_built_on_it_is_listed_and_goes_only_along(ledger: Ledger) -> None:
    idea = ledger.propose("Tea is in the tin.")
    ledger.promote(idea.id)
    ledger.reinforce(idea.id)
    untouched = ledger.memories.tag(idea.id, add=["kitchen"])
    position = ledger.position
    with pytest.raises(ConflictError, match="3 later commands"):
        ledger.undo(idea.position)
    planned = ledger.undo(idea.position, dry_run=True)
    assert (len(planned.commands), planned.events, planned.dry_run) == (4, 4, True)
    assert ledger.position == position and ledger.memories.get(idea.id)
    done = ledger.undo(idea.position, cascade=True)
    assert (done.commands, done.events) == (planned.commands, 4)
    assert absent(ledger.memories.get, idea.id)
    agrees(ledger)
    ledger.redo(done.command_id or "")
    back = ledger.memories.get(idea.id)
    assert (back.status, back.reference_count, back.tags) == ("active", 1, untouched.tags)
    agrees(ledger)


def test_a_conflict_names_what_was_built_on_it_where_and_why(ledger: Ledger) -> None:
    turn = ledger.capture("Which tin?", "The red one.", reinforce=False)
    fact = ledger.remember("Tea is in the tin.", sources=(turn.id,))
    ledger.reinforce(fact.id)
    other = ledger.remember("Milk is in the jug.")
    merged = ledger.merges.combine([fact.id, other.id])
    with pytest.raises(ConflictError) as conflict:
        ledger.undo(turn.position)
    listed = ledger.undo(turn.position, dry_run=True)
    told = [(each.position, each.command, each.subject, each.why) for each in listed.dependents]
    merge = ledger.history.audit(type="MemoriesMerged")[0]
    assert told == [
        (3, "remember", fact.id, f"rests on {turn.id[:8]}…"),
        (4, "reinforce", fact.id, "would not be there"),
        (6, "merges.combine", merged.id, f"rests on {turn.id[:8]}…"),
    ]
    assert merge.position == 9
    words = "; ".join(f"{command} at {at}: {subject[:8]}… {why}" for at, command, subject, why in told)
    assert str(conflict.value) == (
        f"3 later commands built on this one: {words} (undo them first, or use cascade to undo them together)"
    )
    assert ledger.undo(turn.position, cascade=True).dependents == listed.dependents
    assert [each.id for each in ledger.memories.list()] == [other.id]
    agrees(ledger)


def test_a_long_list_of_what_was_built_on_it_names_the_first_five(ledger: Ledger) -> None:
    fact = ledger.remember("Tea is in the tin.")
    for number in range(8):
        ledger.memories.tag(fact.id, add=[f"tag {number}"])
    with pytest.raises(
        ConflictError, match=r"8 later commands .* at 7: m_\w{6}… would not be there; and 3 more \(undo them"
    ):
        ledger.undo(fact.position)


def test_what_a_merge_copied_of_a_relation_goes_and_comes_back_with_it(ledger: Ledger) -> None:
    tea, mug = ledger.remember("The user has tea.", kind="fact"), ledger.remember("The user has a mug.", kind="fact")
    ledger.graph.relate(tea.id, "user", "drinks", "tea")
    related = ledger.position
    ledger.graph.relate(mug.id, "user", "owns", "mug")
    merged = ledger.merges.combine([tea.id, mug.id])

    def said() -> set[str]:
        now = ledger.memories.get(merged.id)
        return {each.object for each in now.relations} if now is not None else set()

    undone = ledger.undo(related)
    assert said() == {"mug"} and undone.dependents == (), "a copy is nobody's act"
    assert set(undone.subjects) == {tea.id, merged.id} and len(undone.commands) == 1
    agrees(ledger)
    ledger.redo(undone.command_id or "")
    assert said() == {"mug", "tea"}
    agrees(ledger)


def test_a_relation_and_the_merge_that_copied_it_are_undone_and_redone_in_any_order(ledger: Ledger) -> None:
    tea, mug = ledger.remember("The user has tea.", kind="fact"), ledger.remember("The user has a mug.", kind="fact")
    ledger.graph.relate(tea.id, "user", "drinks", "tea")
    related = ledger.history.audit()[0]
    merged = ledger.merges.combine([tea.id, mug.id])
    for first, last in ((related.position, merged.position), (merged.position, related.position)):
        for back, then in ((first, last), (last, first)):
            ledger.undo(first)
            ledger.undo(last)
            assert ledger.undo(first).events == ledger.undo(last).events == 0
            ledger.redo(back)
            redone = ledger.redo(then)
            assert len(redone.commands) == 1, "what takes it back is one undo"
            now = ledger.memories.get(merged.id)
            assert [each.object for each in now.relations] == ["tea"]
            agrees(ledger)
    ledger.undo(related.position)
    with suppress(LedgerError):
        ledger.redo(merged.position)
    assert ledger.memories.get(merged.id).relations == ()


def test_a_trust_of_one_who_had_undone_a_relation_leaves_the_merge(ledger: Ledger) -> None:
    tea, mug = ledger.remember("The user has tea.", kind="fact"), ledger.remember("The user has a mug.", kind="fact")
    ledger.graph.relate(tea.id, "user", "drinks", "tea")
    related = ledger.position
    merged = ledger.merges.combine([tea.id, mug.id])
    ledger.bind(actor="eve").undo(related)
    ledger.history.distrust("eve", kind="actor")
    assert ledger.memories.get(merged.id).relations != ()
    ledger.history.trust("eve", kind="actor")
    assert ledger.memories.get(merged.id).relations == ()
    agrees(ledger)


def test_an_undo_takes_along_only_events_that_need_the_undone_event(ledger: Ledger) -> None:
    idea = ledger.propose("Tea is in the tin.")
    promoted = ledger.promote(idea.id)
    ledger.memories.tag(idea.id, add=["kitchen"])
    ledger.reinforce(idea.id)
    planned = ledger.undo(promoted.position, dry_run=True)
    assert planned.events == 2  # the promotion, and the reinforcement that only an active memory can have
    ledger.undo(promoted.position, cascade=True)
    now = ledger.memories.get(idea.id)
    assert (now.status, now.reference_count, now.tags) == ("candidate", 0, ("kitchen",))
    adds_up(ledger, idea.id)
    agrees(ledger)


def test_an_absorbed_duplicate_stands_in(ledger: Ledger) -> None:
    first = ledger.bind(actor="ada").remember("Tea is in the tin.", confidence=0.9)
    second = ledger.bind(actor="bob").remember("tea is in the  TIN.", confidence=0.4, tags=["b"])
    assert second.id == first.id and second.absorbed
    ledger.undo(first.position)
    now = ledger.memories.get(first.id)
    assert (now.content, now.confidence, now.tags) == ("tea is in the  TIN.", 0.4, ("b",))
    adds_up(ledger, first.id)
    agrees(ledger)
    ledger.undo(second.position)
    assert absent(ledger.memories.get, first.id)
    ledger.redo(first.position)
    back = ledger.memories.get(first.id)
    assert (back.content, back.confidence) == ("Tea is in the tin.", 0.9)
    adds_up(ledger, first.id)
    agrees(ledger)


def test_undoing_a_reinforcement_takes_the_number_back(ledger: Ledger) -> None:
    fact = ledger.remember("The user prefers dark roast coffee.", kind="preference", confidence=0.5)
    turn = ledger.capture("What do I drink?", "You prefer dark roast coffee.")
    reinforced = ledger.memories.get(fact.id)
    assert (reinforced.confidence, reinforced.reference_count) == (0.52, 1)
    ledger.undo(turn.position)
    back = ledger.memories.get(fact.id)
    assert (back.confidence, back.reference_count, back.last_referenced_at) == (0.5, 0, None)
    adds_up(ledger, fact.id)
    agrees(ledger)
    report = ledger.interactions.reinforce(turn.id)
    assert report.reinforced == ((fact.id, 0.5, 0.52),)  # type: ignore[union-attr]
    adds_up(ledger, fact.id)
    agrees(ledger)


def test_the_reinforcements_after_an_undone_one_stay_and_the_sum_is_exact(ledger: Ledger) -> None:
    fact = ledger.remember("Tea is in the tin.", confidence=0.5)
    first = ledger.reinforce(fact.id, amount=0.3)
    ledger.reinforce(fact.id, amount=0.3)  # stops at 1: + 0.2
    ledger.undo(first.position)
    now = ledger.memories.get(fact.id)
    assert now.confidence == 0.8  # the second one now counts in full
    adds_up(ledger, fact.id)
    points = ledger.memories.confidence(fact.id)
    assert [(round(point.delta, 6), point.in_effect) for point in points] == [
        (0.5, True),
        (0.3, False),
        (0.2, True),
        (-0.2, True),
    ]


def test_undoing_a_turn_undoes_what_it_reinforced_and_proposed(ledger: Ledger) -> None:
    fact = ledger.remember("The user prefers dark roast coffee.", kind="preference", confidence=0.5)
    turn = ledger.capture(
        "What now?", "You prefer dark roast coffee.\nDecision: buy a grinder on Friday.", correlation_id="turn"
    )
    ledger.jobs.run()
    (candidate,) = ledger.review()
    capture = ledger.history.audit(type="InteractionCaptured")[0]
    with pytest.raises(ConflictError, match="2 later commands"):
        ledger.undo(capture.command_id)
    ledger.undo(capture.command_id, cascade=True)
    assert absent(ledger.interactions.get, turn.id) and ledger.review() == []
    back = ledger.memories.get(fact.id)
    assert (back.confidence, back.reference_count) == (0.5, 0)
    assert absent(ledger.memories.get, candidate.memory.id)
    adds_up(ledger, fact.id)
    agrees(ledger)
    ledger.redo(capture.command_id)
    assert [each.memory.id for each in ledger.review()] == [candidate.memory.id]
    agrees(ledger)


def test_a_memory_with_another_source_survives_the_loss_of_one(ledger: Ledger) -> None:
    one, two = ledger.capture("one"), ledger.capture("two")
    both = ledger.remember("Tea is in the tin.", sources=[one.id, two.id])
    alone = ledger.remember("Milk is in the jug.", sources=(one.id,))
    planned = ledger.undo(one.position, dry_run=True)
    assert set(planned.subjects) == {one.id, alone.id}
    ledger.undo(one.position, cascade=True)
    assert ledger.memories.get(both.id) and absent(ledger.memories.get, alone.id)
    agrees(ledger)


def test_an_import_is_undone_by_its_correlation_and_can_come_again(ledger: Ledger, tmp_path: Path) -> None:
    fact = ledger.remember("The user prefers dark roast coffee.", kind="preference", confidence=0.5)
    file = tmp_path / "turns.jsonl"
    file.write_text(
        '{"prompt": "a", "response": "You prefer dark roast coffee.", "project": "p", "session_id": "s"}\n'
        '{"prompt": "b", "response": "Decision: grind the beans on Friday.", "project": "p"}\n',
        encoding="utf-8",
    )

    def beliefs() -> list[object]:
        ledger.jobs.run()
        return sorted(
            (each.content, each.status, each.confidence, each.reference_count)
            for each in ledger.memories.list(statuses=())
        )

    def turns() -> list[object]:
        return [(each.prompt, each.response, each.project, each.session) for each in ledger.interactions.list()]

    first = ledger.interactions.import_file(file)
    told, said = beliefs(), turns()
    assert len(said) == 2 and len(told) == 2
    ledger.undo(first.correlation_id or "", cascade=True)
    assert turns() == [] and [each.id for each in ledger.memories.list(statuses=())] == [fact.id]
    agrees(ledger)
    second = ledger.interactions.import_file(file)
    assert (second.captured, second.known) == (2, 0)
    assert (beliefs(), turns()) == (told, said)
    agrees(ledger)
    third = ledger.interactions.import_file(file)
    assert (third.captured, third.known, third.correlation_id) == (0, 2, None)


def test_undoing_one_of_many_statements_leaves_the_project_alone(ledger: Ledger) -> None:
    ledger.projects.add("kitchen")
    ledger.projects.set_state("kitchen", "status", "phase", "one")
    ledger.remember("Tea is in the tin.", project="kitchen")
    second = ledger.projects.set_state("kitchen", "status", "phase", "two")
    ledger.undo(second.position)
    assert [entry.value for entry in ledger.projects.state("kitchen")] == ["one"]
    assert len(ledger.memories.list(project="kitchen")) == 1
    agrees(ledger)
    ledger.redo(second.position)
    assert [entry.value for entry in ledger.projects.state("kitchen")] == ["two"]
    agrees(ledger)


@pytest.mark.parametrize("use", ["remember", "set_state", "add_alias", "observe", "cite"])
def test_a_project_stands_while_others_use_it(ledger: Ledger, use: str) -> None:
    project = ledger.projects.add("kitchen")
    source = ledger.remember("The tin is red.")
    used = {
        "remember": lambda: ledger.remember("Tea is in the tin.", project="kitchen"),
        "set_state": lambda: ledger.projects.set_state("kitchen", "status", "phase", "one"),
        "add_alias": lambda: ledger.projects.add_alias("kitchen", "galley"),
        "observe": lambda: ledger.observations.add("The tin is here.", (source.id,), project="kitchen"),
        "cite": lambda: ledger.remember("Tea is in the tin.", sources=(project.id,)),
    }[use]()
    assert ledger.history.what_if(without=project.position).events == 0
    for options in ({}, {"cascade": True}, {"dry_run": True}):
        with pytest.raises(ConflictError, match=rf"'kitchen' stands while others use it.* at {used.position}:"):
            ledger.undo(project.position, **options)  # type: ignore[arg-type]
    undone = ledger.undo(used.position)
    ledger.undo(project.position)
    assert ledger.projects.list() == []
    with pytest.raises(ConflictError, match=r"put .* first"):
        ledger.redo(undone.command_id or "")
    ledger.redo(project.position)
    ledger.redo(undone.command_id or "")
    assert [each.name for each in ledger.projects.list()] == ["kitchen"]
    agrees(ledger)


def test_a_project_that_was_undone_can_be_begun_again(ledger: Ledger) -> None:
    project = ledger.projects.add("kitchen")
    ledger.undo(project.position)
    again = ledger.remember("Tea is in the tin.", project="kitchen")
    assert again.project == "kitchen" and ledger.projects.list()[0].id != project.id
    with pytest.raises(ConflictError, match="stands for another project"):
        ledger.redo(project.position)


def test_undoing_all_of_a_run_takes_the_project_that_it_registered(ledger: Ledger) -> None:
    ledger.projects.add("kitchen", correlation_id="run")
    fact = ledger.remember("Tea is in the tin.", project="kitchen", correlation_id="run")
    other = ledger.remember("The tin is red.", project="garage", correlation_id="run")
    ledger.remember("Oars are in the boat.", project="garage")
    ledger.undo("run")
    assert [each.name for each in ledger.projects.list()] == ["garage"]
    assert absent(ledger.memories.get, fact.id) and absent(ledger.memories.get, other.id)
    ledger.redo("run")
    assert ledger.memories.get(fact.id) and len(ledger.projects.list()) == 2


def test_a_run_undone_leaves_the_project_that_others_use(ledger: Ledger) -> None:
    ledger.projects.add("kitchen", correlation_id="run")
    fact = ledger.remember("Tea is in the tin.", project="kitchen", correlation_id="run")
    kept = ledger.remember("The tin is red.", project="kitchen")
    assert len(ledger.undo("run").commands) == 1
    assert [each.name for each in ledger.projects.list()] == ["kitchen"]
    assert absent(ledger.memories.get, fact.id) and ledger.memories.get(kept.id)


def test_an_alias_that_was_undone_is_nobodys_name(ledger: Ledger) -> None:
    ledger.projects.add("kitchen")
    aliased = ledger.projects.add_alias("kitchen", "galley")
    ledger.remember("Tea is in the tin.", project="galley")
    ledger.undo(aliased.position)
    assert absent(ledger.projects.get, "galley")
    ledger.remember("Oars are in the boat.", project="galley")
    assert [each.name for each in ledger.projects.list()] == ["galley", "kitchen"]
    with pytest.raises(ConflictError):
        ledger.projects.add_alias("kitchen", "galley")


def test_a_policy_that_was_undone_is_not_in_force(ledger: Ledger) -> None:
    ledger.policy.set(gain=0.05)
    ledger.policy.set(gain=0.5)
    ledger.undo(ledger.position)
    assert ledger.policy.get().gain == 0.05
    ledger.undo(ledger.history.audit(type="PolicyAdopted")[1].position)
    assert ledger.policy.get().gain == 0.02
    agrees(ledger)


def test_a_redo_that_no_longer_fits_is_a_conflict(ledger: Ledger) -> None:
    idea = ledger.propose("Tea is in the tin.")
    promoted = ledger.promote(idea.id)
    ledger.undo(promoted.position)
    ledger.reject(idea.id)
    position = ledger.position
    with pytest.raises(ConflictError, match="does not fit"):
        ledger.redo(promoted.position)
    assert ledger.position == position


def test_a_redo_with_several_conflicts_always_names_the_same_memory(ledger: Ledger) -> None:
    ideas = sorted(ledger.propose(f"Tea is in tin {number}.").id for number in range(7))
    for each in ideas:
        ledger.promote(each)
    undone = ledger.history.undo_all(command="promote")
    for each in ideas:
        ledger.reject(each)
    with pytest.raises(ConflictError, match=f"{ideas[0][:8]}.* does not fit"):
        ledger.redo(undone.position)


def test_events_that_no_undo_can_take_back_are_refused(ledger: Ledger) -> None:
    with pytest.raises(RejectedError, match="LedgerCreated cannot be undone"):
        ledger.undo(1)


@pytest.mark.parametrize("target", [0, -1, 999, 2**70, -(2**70), "", " ", "%", "nothing", "m_0000000000000000"])
def test_a_target_that_names_no_command_is_not_found(ledger: Ledger, target: object) -> None:
    ledger.remember("Tea is in the tin.")
    for verb in (ledger.undo, ledger.redo):
        with pytest.raises(NotFoundError):
            verb(target)  # type: ignore[operator]


@pytest.mark.parametrize("target", [None, True, 1.5, [], "\ud800"])
def test_a_target_of_the_wrong_kind_is_refused(ledger: Ledger, target: object) -> None:
    for verb in (ledger.undo, ledger.redo):
        with pytest.raises(RejectedError):
            verb(target)  # type: ignore[operator]


def test_an_undo_of_another_users_command_is_refused(ledger: Ledger) -> None:
    mine = ledger.bind(user="ada").remember("Tea is in the tin.", correlation_id="run")
    with pytest.raises(NotFoundError):
        ledger.bind(user="bob").undo(mine.position)
    with pytest.raises(NotFoundError):
        ledger.bind(user="bob").undo("run")
    ledger.bind(user="ada").undo(mine.position)
    with pytest.raises(NotFoundError):
        ledger.bind(user="bob").redo(mine.position)


def test_a_long_undo_is_told_by_several_events_of_one_append(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ledger.undo.undoing.LIST_ITEMS", 2)
    for number in range(5):
        ledger.remember(f"fact number {number}", correlation_id="run-1")
        ledger.remember(f"another fact {number}")
    report = ledger.undo("run-1", idempotency_key="back")
    told = [entry for entry in ledger.history.audit(type="CommandUndone") if entry.in_effect]
    assert (len(report.commands), report.events, len(told)) == (5, 5, 3)
    assert len(ledger.memories.list()) == 5
    again = ledger.undo("run-1", idempotency_key="back")
    assert again.replayed and (set(again.commands), again.events) == (set(report.commands), 5)
    agrees(ledger)
    back = ledger.undo(report.command_id or "")
    assert back.events == 5 and len(ledger.memories.list()) == 10
    agrees(ledger)


# --- groups ----------------------------------------------------------------------------------------------------------


def test_all_that_was_extracted_in_a_session_is_undone_at_once(ledger: Ledger) -> None:
    for number, session in ((1, "s1"), (2, "s1"), (3, "s2")):
        ledger.capture("What now?", f"## Decision: the shed number {number} gets a new tin roof.", session=session)
    ledger.jobs.run()
    assert len(ledger.review()) == 3
    listed = ledger.history.undo_all(session="s1", command="extract", dry_run=True)
    assert len(listed.commands) == 2 and len(ledger.review()) == 3
    report = ledger.history.undo_all(session="s1", command="extract", reason="a bad rule")
    assert len(ledger.review()) == 1 and len(ledger.interactions.list()) == 3
    agrees(ledger)
    ledger.redo(report.command_id or "")
    assert len(ledger.review()) == 3
    agrees(ledger)


def test_a_group_takes_what_others_built_on_it_only_when_told(ledger: Ledger) -> None:
    idea = ledger.propose("The user runs.", session="s1")
    ledger.promote(idea.id)
    with pytest.raises(ConflictError, match="1 later command built on this one"):
        ledger.history.undo_all(session="s1")
    assert len(ledger.history.undo_all(session="s1", cascade=True).commands) == 2
    assert ledger.memories.list(statuses=()) == []


@pytest.mark.parametrize("group", [{"session": "nowhere"}, {"command": "dance"}, {"session": "s1", "command": "dance"}])
def test_undo_all_with_an_unknown_group_is_not_found(ledger: Ledger, group: dict[str, str]) -> None:
    ledger.propose("The user runs.", session="s1")
    with pytest.raises(NotFoundError):
        ledger.history.undo_all(**group)  # type: ignore[arg-type]


def test_an_undo_names_something(ledger: Ledger) -> None:
    ledger.remember("Tea is in the tin.", session="s1")
    with pytest.raises(RejectedError):
        ledger.history.undo_all()


def test_a_memory_whose_sources_go_one_after_the_other_goes_with_the_last(ledger: Ledger) -> None:
    first, second = ledger.capture("One?", "Yes.", reinforce=False), ledger.capture("Two?", "Yes.", reinforce=False)
    ledger.remember("It is so.", sources=[first.id, second.id])
    ledger.undo(first.position)
    assert len(ledger.memories.list()) == 1
    with pytest.raises(ConflictError):
        ledger.undo(second.position)
    ledger.undo(second.position, cascade=True)
    assert ledger.memories.list() == []
    agrees(ledger)


def test_the_digest_of_beliefs_is_the_same_after_undo_and_redo(ledger: Ledger) -> None:
    coffee = ledger.remember("The user drinks coffee.", confidence=0.5, project="kitchen")
    ledger.reinforce(coffee.id)
    alone = ledger.proof.digest(beliefs=True)
    tea = ledger.supersede(coffee.id, "The user drinks tea.")
    both = ledger.proof.digest(beliefs=True)
    report = ledger.undo(tea.position)
    assert ledger.proof.digest(beliefs=True) == alone
    ledger.redo(report.command_id or "")
    assert ledger.proof.digest(beliefs=True) == both != alone
    assert ledger.at(tea.position - 1).proof.digest(beliefs=True) == alone
    assert (
        ledger.bind(user="ben").proof.digest(beliefs=True) == ledger.bind(user="cem").proof.digest(beliefs=True) != both
    )


def replaced_by_what_was_there(ledger: Ledger) -> tuple[int, int, str]:
    """A memory that gave way to an older one, which its command only found; nothing but that says so of the older one."""
    tea = ledger.remember("The user prefers tea.")
    office = ledger.remember("The office is in Porto.")
    again = ledger.remember("The user prefers tea.", confidence=0.0)
    ledger.supersede(office.id, "the user  PREFERS tea.")
    ledger.undo(again.position)
    return tea.position, ledger.position - 1, office.id


def test_what_gave_way_to_a_memory_that_was_there_comes_back_with_the_undo_of_it(ledger: Ledger) -> None:
    tea, superseding, office = replaced_by_what_was_there(ledger)
    assert ledger.memories.get(office).status == "superseded"
    with pytest.raises(ConflictError, match=str(superseding)):
        ledger.undo(tea)
    assert [each.position for each in ledger.undo(tea, dry_run=True).dependents] == [superseding]
    ledger.undo(tea, cascade=True)
    assert [each.id for each in ledger.memories.list()] == [office]
    agrees(ledger)


def test_what_gave_way_to_a_memory_of_a_distrusted_actor_comes_back(ledger: Ledger) -> None:
    bob = ledger.bind(actor="bob").remember("The user prefers tea.")
    office = ledger.remember("The office is in Porto.")
    again = ledger.remember("The user prefers tea.")
    ledger.supersede(office.id, "the user prefers TEA.")
    ledger.undo(again.position)
    ledger.history.distrust("bob", kind="actor")
    assert absent(ledger.memories.get, bob.id)
    assert [each.id for each in ledger.memories.list()] == [office.id]
    agrees(ledger)


def test_a_redo_brings_no_supersession_back_by_a_memory_that_is_gone(ledger: Ledger) -> None:
    tea, superseding, office = replaced_by_what_was_there(ledger)
    undone = ledger.undo(superseding)
    ledger.undo(tea)
    with pytest.raises(ConflictError):
        ledger.redo(undone.command_id)
    assert [each.id for each in ledger.memories.list()] == [office]
    agrees(ledger)
