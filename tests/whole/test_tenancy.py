"""A user's memory is nobody else's: three users, each with words of their own that must turn up nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from old_names import Ledger

from ledger import ConflictError, LedgerError, NotFoundError, RejectedError

USERS = {
    "": "xylographer",
    "ada": "quokkasong",
    "bob": "zebrawood",
}  # the first is the default user, one like any other


@pytest.fixture
def shared(ledger: Ledger) -> Iterator[Ledger]:
    """Everybody does the same, in a project and a session of the same name, with words of their own."""
    for user, word in USERS.items():
        me: Any = {"user": user, "actor": f"{word}-actor", "client": f"{word}-client", "agent": f"{word}-agent"}
        ledger.remember("The user prefers dark roast coffee.", "preference", project="assistant", confidence=0.5, **me)
        mine = ledger.remember(f"The user prefers {word} coffee.", "preference", entities=[word], tags=[word], **me)
        ledger.propose(f"The user dreams of {word}.", **me)
        turn = ledger.capture(
            f"What about {word}?",
            f"You prefer {word} coffee, dark roast.\nDecision: always order the {word}.",
            project="assistant",
            session_id="monday",
            correlation_id="run",
            **me,
        )
        for day in ("Friday", "Monday"):
            ledger.remember(f"The {word} deadline is {day}.", **me)
        for often in ("", " often"):
            ledger.remember(f"In the evening the user{often} talks with a friend about the old {word} house.", **me)
        owned = ledger.remember(f"The user owns a {word}.", source=turn.id, session_id="monday", **me)
        ledger.observe("The user is fond of coffee.", [mine.id, turn.id], **me)
        ledger.observe(f"The user is fond of {word}.", [owned.id, turn.id], tags=[word], why=f"of {word}", **me)
        ledger.add_alias("assistant", f"{word}-alias", **me)
        ledger.register_project(f"{word}-project", f"about {word}", **me)
        ledger.set_state("assistant", "status", word, word, source=word, **me)
        ledger.undo(ledger.retag(mine.id, [f"{word}-tag"], **me).position, f"because of {word}", **me)
        with pytest.raises(RejectedError):
            ledger.promote(ledger.propose(f"The user prefers {word} coffee.", "preference", **me).id, **me)
    ledger.run_policies()
    yield ledger


def everything_told(ledger: Ledger, user: str) -> dict[str, Any]:
    """Whatever a user can ask, without naming an id."""
    mine = {
        "interactions": ledger.interactions(user=user),
        "memories": ledger.memories(user=user, status="all"),
        "in project": ledger.memories(user=user, project="assistant", status="all"),
        "review": ledger.review(user=user),
        "graph": ledger.graph(" ".join(USERS.values()), user=user),
        "audit": ledger.audit(user=user, limit=500),
        "audit of a run": ledger.audit(user=user, correlation_id="run"),
        "audit of the ledger": ledger.audit(user=user, subject="ledger"),
        "refusals": ledger.refusals(user=user),
        "model calls": ledger.model_calls(user=user),
        "projects": ledger.projects(user=user),
        "state": ledger.state("assistant", user=user, history=True),
        "policy": ledger.policy(user=user),
        "stats": ledger.stats(user=user),
        "merges": ledger.merges("all", user=user),
        "conflicts": ledger.conflicts("all", user=user),
        "observations": ledger.observations(user=user, status="all"),
    }
    words = " ".join(("user coffee dark roast owns dreams prefers", *USERS.values()))
    mine["recall"] = ledger.recall(words, user=user)
    mine["recall in project"] = ledger.recall(words, user=user, project="assistant")
    mine["why"] = [ledger.why(each.id, user=user) for each in mine["memories"]]
    mine["why observed"] = [ledger.why(each.id, user=user) for each in mine["observations"]]
    mine["history of what was observed"] = [ledger.history(each.id, user=user) for each in mine["observations"]]
    mine["history"] = [ledger.history(each.id, user=user) for each in (*mine["memories"], *mine["interactions"])]
    return mine


@pytest.mark.parametrize("user", USERS)
def test_no_answer_holds_a_word_of_another_user(shared: Ledger, user: str) -> None:
    for name, answer in everything_told(shared, user).items():
        told = msgspec.json.encode(answer).decode()
        for other, word in USERS.items():
            assert other == user or word not in told, f"{name} of {user!r} tells {word}"
    assert USERS[user] in msgspec.json.encode(everything_told(shared, user)["memories"]).decode()


@pytest.mark.parametrize("user", USERS)
def test_pools_duplicates_and_numbers_are_ones_own(shared: Ledger, user: str) -> None:
    same = [each for each in shared.memories(user=user, project="assistant") if each.kind == "preference"]
    assert [(each.content, each.reference_count) for each in same] == [("The user prefers dark roast coffee.", 1)]
    evaluated = shared.audit(user=user, type="ReinforcementEvaluated")[0].data
    mine = {each.id for each in shared.memories(user=user, status="all")}
    assert evaluated["pool_size"] == 2 and {each["memory"] for each in evaluated["matches"]} <= mine
    candidates = {each.memory.id: each.same_as_active for each in shared.review(user=user)}
    assert set(candidates) <= mine and {each for each in candidates.values() if each} <= mine
    assert shared.stats(user=user).interactions == 1 and len(shared.projects(user=user)) == 2


def test_one_name_is_another_project_for_each_user(shared: Ledger) -> None:
    ids = {shared.project("assistant", user=user).id for user in USERS}  # type: ignore[union-attr]
    assert len(ids) == 3
    for user, word in USERS.items():
        others = [each for each in USERS.values() if each != word]
        for other in others:
            assert shared.project(f"{other}-alias", user=user) is None
            assert shared.interactions(user=user, project=f"{other}-alias") == []
            assert shared.memories(user=user, project=f"{other}-project") == []
            assert shared.memories(user=user, tag=other) == []
            assert shared.recall(other, user=user).items == ()
            assert shared.state(f"{other}-project", user=user) == []


def ids_of(ledger: Ledger, user: str) -> dict[str, str]:
    turn = ledger.interactions(user=user)[0]
    fact = next(each for each in ledger.memories(user=user) if "owns" in (each.content or ""))
    idea = ledger.review(user=user)[0].memory
    project = ledger.project("assistant", user=user)
    session = ledger.audit(user=user, type="SessionOpened")[0].subject
    assert project is not None
    (merge,), (conflict,) = ledger.merges(user=user), ledger.conflicts(user=user)
    seen = ledger.observations(user=user)[0]
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
            assert shared.interaction(name, user="ada") is None
            assert shared.memory(name, user="ada") is None
            assert shared.conflict(name, user="ada") is None
            assert shared.observation(name, user="ada") is None
            assert shared.observations(project=name, user="ada") == []
            assert shared.why(name, user="ada") is None
            assert shared.history(name, user="ada") is None
            assert shared.confidence(name, user="ada") == []
            assert shared.audit(subject=name, user="ada") == []
            assert shared.project(name, user="ada") is None
            assert (
                shared.interactions(project=name, user="ada") == [] == shared.interactions(session_id=name, user="ada")
            )
            assert shared.memories(project=name, user="ada") == []


def test_nobody_commands_what_is_anothers_and_is_told_nothing_of_it(shared: Ledger) -> None:
    theirs, mine = ids_of(shared, "bob"), ids_of(shared, "ada")
    me: Any = {"user": "ada"}
    missing = [
        lambda: shared.promote(theirs["idea"], **me),
        lambda: shared.reject(theirs["idea"], **me),
        lambda: shared.reinforce(theirs["fact"], **me),
        lambda: shared.reinforce(theirs["turn"], **me),
        lambda: shared.revise(theirs["fact"], "Mine now.", **me),
        lambda: shared.supersede(theirs["fact"], "Mine now.", **me),
        lambda: shared.retract(theirs["fact"], **me),
        lambda: shared.restore(theirs["fact"], **me),
        lambda: shared.restore(theirs["turn"], **me),
        lambda: shared.revise(theirs["seen"], "Mine now.", **me),
        lambda: shared.retract(theirs["seen"], **me),
        lambda: shared.restore(theirs["seen"], **me),
        lambda: shared.withdraw_source(theirs["fact"], **me),
        lambda: shared.withdraw_source([mine["fact"], theirs["turn"]], **me),
        lambda: shared.adjust(theirs["fact"], 0.1, **me),
        lambda: shared.retag(theirs["fact"], ["mine"], **me),
        lambda: shared.attach_response(theirs["turn"], "Mine now.", **me),
        lambda: shared.extract(theirs["turn"], **me),
        lambda: shared.add_alias(theirs["project"], "mine", **me),
        lambda: shared.merge(theirs["merge"], **me),
        lambda: shared.reject_merge(theirs["merge"], **me),
        lambda: shared.resolve(theirs["conflict"], both=True, **me),
        lambda: shared.undo(shared.memory(theirs["fact"], user="bob").position, **me),  # type: ignore[union-attr]
    ]
    two_users = [
        lambda: shared.observe("Mine.", mine["fact"], project=theirs["project"], **me),
        lambda: shared.capture("Mine?", project=theirs["project"], **me),
        lambda: shared.remember("Mine.", project=theirs["project"], **me),
        lambda: shared.remember("Mine.", session_id=theirs["session"], **me),
    ]
    before = [len(shared.memories(user=user, status="all")) for user in USERS]
    digest = [msgspec.json.encode(shared.why(theirs["fact"], user="bob"))]
    seen = [shared.observations(user=user) for user in USERS]
    for wanted, commands in ((NotFoundError, missing), (RejectedError, two_users)):
        for command in commands:
            with pytest.raises(LedgerError) as refusal:
                command()
            assert isinstance(refusal.value, wanted), refusal.value
            assert not any(word in str(refusal.value) for word in (*USERS.values(), "bob"))
    assert [len(shared.memories(user=user, status="all")) for user in USERS] == before
    assert [msgspec.json.encode(shared.why(theirs["fact"], user="bob"))] == digest
    assert [shared.observations(user=user) for user in USERS] == seen


CITING: dict[str, Callable[[Ledger, str, dict[str, str]], object]] = {
    "combine": lambda ledger, id, mine: ledger.merge([mine["fact"], id], user="ada"),
    "resolve": lambda ledger, id, mine: ledger.resolve(mine["conflict"], id, user="ada"),
    "remember": lambda ledger, id, mine: ledger.remember("Mine.", source=[mine["turn"], id], user="ada"),
    "propose": lambda ledger, id, mine: ledger.propose("Mine.", source=id, user="ada"),
    "observe": lambda ledger, id, mine: ledger.observe("Mine.", [mine["fact"], id], user="ada"),
    "supersede": lambda ledger, id, mine: ledger.supersede(mine["fact"], "Mine.", source=id, user="ada"),
    "reinforce": lambda ledger, id, mine: ledger.reinforce(mine["fact"], source=id, user="ada"),
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
    (warning,) = shared.capture("Mine?", memories_used=[theirs["fact"]], user="ada").warnings
    assert "not a memory of this user" in warning
    before = shared.why(theirs["fact"], user="bob")
    shared.capture(
        "And?", "The user owns a zebrawood.", memories_used=[theirs["fact"]], chunks_used=["c_1"], user="ada"
    )
    assert shared.why(theirs["fact"], user="bob") == before


def test_an_alias_that_another_user_has_is_free(shared: Ledger) -> None:
    shared.add_alias("assistant", "zebrawood-alias", user="ada")
    with pytest.raises(ConflictError) as refusal:
        shared.add_alias("quokkasong-project", "assistant", user="ada")
    assert "zebrawood" not in str(refusal.value)


def test_a_policy_is_one_users(shared: Ledger) -> None:
    shared.adopt_policy(gain=0.5, by={"user": "ada"})
    assert [shared.policy(user=user)["gain"] for user in USERS] == [0.02, 0.5, 0.02]


def test_what_the_ledger_does_for_itself_everybody_may_know(ledger: Ledger) -> None:
    assert [each.type for each in ledger.audit(user="")] == ["LedgerCreated"]
    assert ledger.audit(user="ada") == []


def test_the_same_words_of_two_users_are_two_observations(shared: Ledger) -> None:
    found = [shared.observations(user=user) for user in USERS]
    assert [len(each) for each in found] == [3, 3, 3] and len({each.id for one in found for each in one}) == 9
    assert {each.content for one in found for each in one if not each.tags and each.rule == "given/1"} == {
        "The user is fond of coffee."
    }
    assert shared.stats(user="ada").observations == {"active": 3}
    turn = ids_of(shared, "bob")["turn"]
    assert len(shared.withdraw_source(turn, user="bob").stale) == 2
    assert all(each.freshness == "fresh" for each in shared.observations(user="ada"))
