"""A user's memory is nobody else's: three users, each with words of their own that must turn up nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from absence import absent

from ledger import ConflictError, Ledger, LedgerError, NotFoundError, RejectedError

USERS = {
    "": "xylographer",
    "ada": "quokkasong",
    "bob": "zebrawood",
}  # the first is the default user, one like any other


@pytest.fixture
def shared(ledger: Ledger) -> Iterator[Ledger]:
    """Everybody does the same, in a project and a session of the same name, with words of their own."""
    for user, word in USERS.items():
        me = ledger.bind(user=user, actor=f"{word}-actor", client=f"{word}-client", agent=f"{word}-agent")
        me.remember("The user prefers dark roast coffee.", kind="preference", project="assistant", confidence=0.5)
        mine = me.remember(f"The user prefers {word} coffee.", kind="preference", entities=[word], tags=[word])
        me.propose(f"The user dreams of {word}.")
        turn = me.capture(
            f"What about {word}?",
            f"You prefer {word} coffee, dark roast.\nDecision: always order the {word}.",
            project="assistant",
            session="monday",
            correlation_id="run",
        )
        for day in ("Friday", "Monday"):
            me.remember(f"The {word} deadline is {day}.")
        for often in ("", " often"):
            me.remember(f"In the evening the user{often} talks with a friend about the old {word} house.")
        owned = me.remember(f"The user owns a {word}.", sources=(turn.id,), session="monday")
        me.observations.add("The user is fond of coffee.", [mine.id, turn.id])
        me.observations.add(f"The user is fond of {word}.", [owned.id, turn.id], tags=[word], reason=f"of {word}")
        me.projects.add_alias("assistant", f"{word}-alias")
        me.projects.add(f"{word}-project", description=f"about {word}")
        me.projects.set_state("assistant", "status", word, word, source=word)
        me.undo(me.memories.tag(mine.id, add=[f"{word}-tag"]).position, reason=f"because of {word}")
        with pytest.raises(RejectedError):
            me.promote(me.propose(f"The user prefers {word} coffee.", kind="preference").id)
    ledger.jobs.run()
    yield ledger


def everything_told(ledger: Ledger, user: str) -> dict[str, Any]:
    """Whatever a user can ask, without naming an id."""
    asked = ledger.bind(user=user)
    mine = {
        "interactions": asked.interactions.list(),
        "memories": asked.memories.list(statuses=()),
        "in project": asked.memories.list(project="assistant", statuses=()),
        "review": asked.review(),
        "graph": asked.graph.neighbors(" ".join(USERS.values())),
        "audit": asked.history.audit(limit=500),
        "audit of a run": asked.history.audit(correlation_id="run"),
        "audit of the ledger": asked.history.audit(subject="ledger"),
        "refusals": asked.guards.refusals(),
        "model calls": asked.history.model_calls(),
        "projects": asked.projects.list(),
        "state": asked.projects.state("assistant", history=True),
        "policy": asked.policy.get().to_dict(),
        "stats": asked.maintenance.stats(),
        "merges": asked.merges.list(statuses=()),
        "conflicts": asked.conflicts.list(statuses=()),
        "observations": asked.observations.list(statuses=()),
    }
    words = " ".join(("user coffee dark roast owns dreams prefers", *USERS.values()))
    mine["recall"] = asked.recall(words)
    mine["recall in project"] = asked.recall(words, project="assistant")
    mine["why"] = [asked.why(each.id) for each in mine["memories"]]
    mine["why observed"] = [asked.why(each.id) for each in mine["observations"]]
    mine["history of what was observed"] = [asked.history.events(each.id) for each in mine["observations"]]
    mine["history"] = [asked.history.events(each.id) for each in (*mine["memories"], *mine["interactions"])]
    return mine


@pytest.mark.parametrize("user", USERS)
def test_no_answer_holds_a_word_of_another_user(shared: Ledger, user: str) -> None:
    for name, answer in everything_told(shared, user).items():
        told = msgspec.json.encode(answer, enc_hook=list).decode()
        for other, word in USERS.items():
            assert other == user or word not in told, f"{name} of {user!r} tells {word}"
    assert USERS[user] in msgspec.json.encode(everything_told(shared, user)["memories"], enc_hook=list).decode()


@pytest.mark.parametrize("user", USERS)
def test_pools_duplicates_and_numbers_are_ones_own(shared: Ledger, user: str) -> None:
    asked = shared.bind(user=user)
    same = [each for each in asked.memories.list(project="assistant") if each.kind == "preference"]
    assert [(each.content, each.reference_count) for each in same] == [("The user prefers dark roast coffee.", 1)]
    evaluated = asked.history.audit(type="ReinforcementEvaluated")[0].data
    mine = {each.id for each in asked.memories.list(statuses=())}
    assert evaluated["pool_size"] == 2 and {each["memory"] for each in evaluated["matches"]} <= mine
    candidates = {each.memory.id: each.same_as_active for each in asked.review()}
    assert set(candidates) <= mine and {each for each in candidates.values() if each} <= mine
    assert asked.maintenance.stats().interactions == 1 and len(asked.projects.list()) == 2


def test_one_name_is_another_project_for_each_user(shared: Ledger) -> None:
    ids = {shared.bind(user=user).projects.get("assistant").id for user in USERS}
    assert len(ids) == 3
    for user, word in USERS.items():
        others = [each for each in USERS.values() if each != word]
        for other in others:
            assert absent(shared.bind(user=user).projects.get, f"{other}-alias")
            assert shared.bind(user=user).interactions.list(project=f"{other}-alias") == []
            assert shared.bind(user=user).memories.list(project=f"{other}-project") == []
            assert shared.bind(user=user).memories.list(tags=(other,)) == []
            assert shared.bind(user=user).recall(other).items == ()
            assert absent(shared.bind(user=user).projects.state, f"{other}-project")


def ids_of(ledger: Ledger, user: str) -> dict[str, str]:
    asked = ledger.bind(user=user)
    turn = asked.interactions.list()[0]
    fact = next(each for each in asked.memories.list() if "owns" in (each.content or ""))
    idea = asked.review()[0].memory
    project = asked.projects.get("assistant")
    session = asked.history.audit(type="SessionOpened")[0].subject
    (merge,), (conflict,) = asked.merges.list(), asked.conflicts.list()
    seen = asked.observations.list()[0]
    return {
        "turn": turn.id,
        "fact": fact.id,
        "idea": idea.id,
        "project": project.id,
        "session": session,
        "seen": seen.id,
        "merge": merge.id,
        "conflict": conflict.id,
    }


def test_nobody_reads_by_anothers_id(shared: Ledger) -> None:
    theirs = ids_of(shared, "bob")
    for id in theirs.values():
        for name in (id, id[:10]):
            assert absent(shared.bind(user="ada").interactions.get, name)
            assert absent(shared.bind(user="ada").memories.get, name)
            assert absent(shared.bind(user="ada").conflicts.get, name)
            assert absent(shared.bind(user="ada").observations.get, name)
            assert shared.bind(user="ada").observations.list(project=name) == []
            assert absent(shared.bind(user="ada").why, name)
            assert absent(shared.bind(user="ada").history.events, name)
            assert absent(shared.bind(user="ada").memories.confidence, name)
            assert shared.bind(user="ada").history.audit(subject=name) == []
            assert absent(shared.bind(user="ada").projects.get, name)
            assert (
                shared.bind(user="ada").interactions.list(project=name)
                == []
                == shared.bind(user="ada").interactions.list(session=name)
            )
            assert shared.bind(user="ada").memories.list(project=name) == []


def test_nobody_commands_what_is_anothers_and_is_told_nothing_of_it(shared: Ledger) -> None:
    theirs, mine = ids_of(shared, "bob"), ids_of(shared, "ada")
    me = shared.bind(user="ada")
    missing = [
        lambda: me.promote(theirs["idea"]),
        lambda: me.reject(theirs["idea"]),
        lambda: me.reinforce(theirs["fact"]),
        lambda: me.interactions.reinforce(theirs["turn"]),
        lambda: me.revise(theirs["fact"], "Mine now."),
        lambda: me.supersede(theirs["fact"], "Mine now."),
        lambda: me.retract(theirs["fact"]),
        lambda: me.restore(theirs["fact"]),
        lambda: me.restore(theirs["turn"]),
        lambda: me.revise(theirs["seen"], "Mine now."),
        lambda: me.retract(theirs["seen"]),
        lambda: me.restore(theirs["seen"]),
        lambda: me.observations.withdraw((theirs["fact"],)),
        lambda: me.observations.withdraw([mine["fact"], theirs["turn"]]),
        lambda: me.memories.set_confidence(theirs["fact"], 0.1),
        lambda: me.memories.tag(theirs["fact"], add=["mine"]),
        lambda: me.interactions.add_response(theirs["turn"], "Mine now."),
        lambda: me.extract(theirs["turn"]),
        lambda: me.projects.add_alias(theirs["project"], "mine"),
        lambda: me.merges.apply(theirs["merge"]),
        lambda: me.merges.reject(theirs["merge"]),
        lambda: me.conflicts.accept(theirs["conflict"]),
        lambda: me.undo(shared.bind(user="bob").memories.get(theirs["fact"]).position),
    ]
    two_users = [
        lambda: me.observations.add("Mine.", (mine["fact"],), project=theirs["project"]),
        lambda: me.capture("Mine?", project=theirs["project"]),
        lambda: me.remember("Mine.", project=theirs["project"]),
        lambda: me.remember("Mine.", session=theirs["session"]),
    ]
    before = [len(shared.bind(user=user).memories.list(statuses=())) for user in USERS]
    digest = [msgspec.json.encode(shared.bind(user="bob").why(theirs["fact"]))]
    seen = [shared.bind(user=user).observations.list() for user in USERS]
    for wanted, commands in ((NotFoundError, missing), (RejectedError, two_users)):
        for command in commands:
            with pytest.raises(LedgerError) as refusal:
                command()
            assert isinstance(refusal.value, wanted), refusal.value
            assert not any(word in str(refusal.value) for word in (*USERS.values(), "bob"))
    assert [len(shared.bind(user=user).memories.list(statuses=())) for user in USERS] == before
    assert [msgspec.json.encode(shared.bind(user="bob").why(theirs["fact"]))] == digest
    assert [shared.bind(user=user).observations.list() for user in USERS] == seen


CITING: dict[str, Callable[[Ledger, str, dict[str, str]], object]] = {
    "combine": lambda ledger, id, mine: ledger.bind(user="ada").merges.combine([mine["fact"], id]),
    "resolve": lambda ledger, id, mine: ledger.bind(user="ada").conflicts.resolve(mine["conflict"], keep=id),
    "remember": lambda ledger, id, mine: ledger.bind(user="ada").remember("Mine.", sources=[mine["turn"], id]),
    "propose": lambda ledger, id, mine: ledger.bind(user="ada").propose("Mine.", sources=(id,)),
    "observe": lambda ledger, id, mine: ledger.bind(user="ada").observations.add("Mine.", [mine["fact"], id]),
    "supersede": lambda ledger, id, mine: ledger.bind(user="ada").supersede(mine["fact"], "Mine.", sources=(id,)),
    "reinforce": lambda ledger, id, mine: ledger.bind(user="ada").reinforce(mine["fact"], source=id),
}


@pytest.mark.parametrize("command", CITING)
@pytest.mark.parametrize("kind", ["fact", "idea", "turn", "seen", "session"])
def test_anothers_id_is_refused_in_the_words_for_an_id_that_is_nobodys(shared: Ledger, command: str, kind: str) -> None:
    told = []
    theirs, mine = ids_of(shared, "bob")[kind], ids_of(shared, "ada")
    for id in (theirs, f"{theirs[:2]}0123456789abcdef"):
        with pytest.raises(LedgerError) as refusal:
            CITING[command](shared, id, mine)
        told.append((type(refusal.value), str(refusal.value).replace(id, "ID")))
    assert told[0] == told[1]


def test_what_a_turn_names_of_anothers_is_kept_as_what_is_nobodys(shared: Ledger) -> None:
    theirs = ids_of(shared, "bob")
    (warning,) = shared.bind(user="ada").capture("Mine?", memories_used=[theirs["fact"]]).warnings
    assert "not a memory of this user" in warning
    before = shared.bind(user="bob").why(theirs["fact"])
    shared.bind(user="ada").capture(
        "And?", "The user owns a zebrawood.", memories_used=[theirs["fact"]], chunks_used=["c_1"]
    )
    assert shared.bind(user="bob").why(theirs["fact"]) == before


def test_an_alias_that_another_user_has_is_free(shared: Ledger) -> None:
    shared.bind(user="ada").projects.add_alias("assistant", "zebrawood-alias")
    with pytest.raises(ConflictError) as refusal:
        shared.bind(user="ada").projects.add_alias("quokkasong-project", "assistant")
    assert "zebrawood" not in str(refusal.value)


def test_a_policy_is_one_users(shared: Ledger) -> None:
    shared.bind(user="ada").policy.set(gain=0.5)
    assert [shared.bind(user=user).policy.get().gain for user in USERS] == [0.02, 0.5, 0.02]


def test_what_the_ledger_does_for_itself_everybody_may_know(ledger: Ledger) -> None:
    assert [each.type for each in ledger.bind(user="").history.audit()] == ["LedgerCreated"]
    assert ledger.bind(user="ada").history.audit() == []


def test_the_same_words_of_two_users_are_two_observations(shared: Ledger) -> None:
    found = [shared.bind(user=user).observations.list() for user in USERS]
    assert [len(each) for each in found] == [3, 3, 3] and len({each.id for one in found for each in one}) == 9
    assert {each.content for one in found for each in one if not each.tags and each.rule == "given/1"} == {
        "The user is fond of coffee."
    }
    assert shared.bind(user="ada").maintenance.stats().observations == {"active": 3}
    turn = ids_of(shared, "bob")["turn"]
    assert len(shared.bind(user="bob").observations.withdraw((turn,)).stale) == 2
    assert all(each.freshness == "fresh" for each in shared.bind(user="ada").observations.list())
