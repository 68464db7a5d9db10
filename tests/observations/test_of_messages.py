"""Messages of sessions as sources of observations: cited, read, withdrawn, hidden, undone and erased like any other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ledger import Ledger, NotFoundError, RejectedError
from ledger.models.port import ModelRequest
from ledger.types import Event

COFFEE = ("I really enjoy dark roast coffee.", "I enjoy dark roast coffee every morning.")


@pytest.fixture
def opened(tmp_path: Path):
    with Ledger.open(tmp_path / "m.db", user="ana") as found:
        yield found


def said(opened: Ledger, *texts: str, session: str = "s1", **more: Any) -> list[Any]:
    chat = opened.session(session, **more)
    found = []
    for text in texts:
        found.append(chat.append("user", text))
        chat.append("assistant", "Noted.")
    return found


def fresh(opened: Ledger, id: str) -> tuple[str, str, int]:
    seen = opened.observations.get(id)
    return seen.status, seen.freshness, seen.proof_count


def is_sound(opened: Ledger) -> bool:
    """Whether the log verifies, and the tables are what it comes to."""
    return opened.proof.verify().ok


# --- by hand ---------------------------------------------------------------------------------------------------------


def test_a_message_has_an_id_and_supports_an_observation(opened: Ledger) -> None:
    one, two = said(opened, *COFFEE)
    assert one.id == f"{opened.session('s1').id}:{one.position}"
    seen = opened.observations.add("Ana likes dark roast.", [one.id, two.id])
    assert {each.id for each in seen.sources} == {one.id, two.id}
    assert fresh(opened, seen.id) == ("active", "fresh", 2)
    assert is_sound(opened)


def test_why_of_an_observation_shows_the_messages(opened: Ledger) -> None:
    (one,) = said(opened, COFFEE[0])
    seen = opened.observations.add("Ana likes dark roast.", [one.id])
    (piece,) = opened.why(seen.id).evidence
    assert (piece.id, piece.content, piece.status, piece.live) == (one.id, COFFEE[0], "there", True)
    assert piece.at == one.occurred_at


def test_a_message_that_is_the_text_of_a_turn_is_cited_as_the_turn(opened: Ledger) -> None:
    turn = opened.capture(COFFEE[0], "Noted.", session="s1", append=True)
    message = opened.session("s1").messages()[0]
    seen = opened.observations.add("Ana likes dark roast.", [message.id, turn.id])
    assert [each.id for each in seen.sources] == [turn.id], "so it is no second proof"


def test_what_is_no_message_of_this_user_is_refused(opened: Ledger) -> None:
    (one,) = said(opened, COFFEE[0])
    other = said(opened.bind(user="bob"), COFFEE[0])[0]
    session = opened.session("s1").id
    for bad in (other.id, f"{session}:1", f"{session}:999999", f"s_0000000000000000:{one.position}"):
        with pytest.raises(NotFoundError):
            opened.observations.add("Ana likes dark roast.", [bad])
        with pytest.raises(NotFoundError):
            opened.observations.withdraw([bad])
    for bad in (
        f"{session}:",
        f"{session}:0",
        f"{session}:-1",
        f"{session}:x",
        f"{session}:1:2",
        session,
        "s_1:2",
        "s_:4",
    ):
        with pytest.raises(RejectedError):
            opened.observations.add("Ana likes dark roast.", [bad])
    with pytest.raises(RejectedError):
        opened.remember("Ana likes dark roast.", sources=[one.id])


def test_a_message_of_another_project_is_refused(opened: Ledger) -> None:
    (one,) = said(opened, COFFEE[0], project="home")
    with pytest.raises(RejectedError, match="another project"):
        opened.observations.add("Ana likes dark roast.", [one.id], project="work")
    assert opened.observations.add("Ana likes dark roast.", [one.id], project="home").project == "home"


# --- what becomes of it ----------------------------------------------------------------------------------------------


def test_a_hidden_message_supports_nothing_until_it_is_back(opened: Ledger) -> None:
    one, two = said(opened, *COFFEE)
    seen = opened.observations.add("Ana likes dark roast.", [one.id, two.id])
    opened.session("s1").clear()
    cleared = opened.position
    assert fresh(opened, seen.id)[0] == "unsupported"
    assert {each.status for each in opened.why(seen.id).evidence} == {"hidden"}
    with pytest.raises(RejectedError, match="not in use"):
        opened.observations.add("Ana drinks it daily.", [one.id])
    opened.undo(cleared)
    assert fresh(opened, seen.id) == ("active", "fresh", 2)
    assert is_sound(opened)


def test_an_undone_message_supports_nothing_until_it_is_redone(opened: Ledger) -> None:
    one, two = said(opened, *COFFEE)
    seen = opened.observations.add("Ana likes dark roast.", [one.id, two.id])
    resting = opened.remember("Buy dark roast.", sources=[seen.id])
    opened.undo(two.position)
    assert fresh(opened, seen.id) == ("active", "stale", 1)
    opened.redo(two.position)
    assert fresh(opened, seen.id) == ("active", "fresh", 2)
    preview = opened.history.undo_all(session="s1", dry_run=True, cascade=True)
    assert resting.id in str(msgspec.to_builtins(preview)), "what rests on it alone would go with it"
    assert is_sound(opened)


def test_an_observation_of_messages_is_readable_at_an_earlier_moment(opened: Ledger) -> None:
    one, two = said(opened, *COFFEE)
    seen = opened.observations.add("Ana likes dark roast.", [one.id, two.id])
    then = opened.position
    opened.undo(two.position)
    opened.session("s1").clear()
    past = opened.at(then)
    assert past.observations.get(seen.id).proof_count == 2
    assert [each.content for each in past.why(seen.id).evidence] == list(COFFEE)


def test_what_if_a_message_had_not_been_said(opened: Ledger) -> None:
    one, two = said(opened, *COFFEE)
    seen = opened.observations.add("Ana likes dark roast.", [one.id, two.id])
    found = opened.history.what_if(without=two.position)
    (change,) = found.observations
    assert (change.id, change.now.proof_count, change.would_be.proof_count) == (seen.id, 2, 1)


def test_a_distrusted_session_takes_its_proof_with_it(opened: Ledger) -> None:
    (one,), (two,) = said(opened, COFFEE[0]), said(opened, COFFEE[1], session="s2")
    seen = opened.observations.add("Ana likes dark roast.", [one.id, two.id])
    opened.history.distrust("s2", kind="session")
    assert fresh(opened, seen.id)[2] == 1
    opened.history.trust("s2", kind="session")
    assert fresh(opened, seen.id) == ("active", "fresh", 2)


def test_a_message_in_quarantine_supports_nothing(opened: Ledger) -> None:
    one, two = said(opened, *COFFEE)
    seen = opened.observations.add("Ana likes dark roast.", [one.id, two.id])
    opened.guards.quarantine(two.position)
    assert fresh(opened, seen.id) == ("active", "stale", 1)
    assert [each.status for each in opened.why(seen.id).evidence if each.id == two.id] == ["quarantined"]
    opened.guards.release(two.position)
    assert fresh(opened, seen.id) == ("active", "fresh", 2)


def test_a_message_is_withdrawn_and_put_back(opened: Ledger) -> None:
    one, two = said(opened, *COFFEE)
    seen = opened.observations.add("Ana likes dark roast.", [one.id, two.id])
    assert opened.observations.withdraw([one.id], dry_run=True).stale == (seen.id,)
    opened.observations.withdraw([one.id, two.id], reason="a joke")
    assert fresh(opened, seen.id)[0] == "retracted"
    back = opened.restore(one.id)
    assert (back.position, back.content) == (one.position, COFFEE[0])
    assert fresh(opened, seen.id) == ("active", "stale", 1)
    opened.restore(two.id)
    assert fresh(opened, seen.id) == ("active", "fresh", 2)
    assert is_sound(opened)


def test_an_erased_message_lists_the_observation_and_leaves_it_stale(opened: Ledger) -> None:
    one, two = said(opened, *COFFEE)
    seen = opened.observations.add("Ana likes dark roast.", [one.id, two.id])
    listed = opened.erase(Event(two.position), dry_run=True).derived
    assert seen.id in {each.subject for each in listed}
    opened.erase(Event(two.position), derived="keep", quotes="keep")
    assert fresh(opened, seen.id) == ("active", "stale", 1)
    assert [(each.content, each.status) for each in opened.why(seen.id).evidence if each.id == two.id] == [
        (None, "erased")
    ]
    assert is_sound(opened)


def test_an_erased_session_takes_the_observation_along_where_somebody_says_so(opened: Ledger) -> None:
    one, two = said(opened, *COFFEE)
    seen = opened.observations.add("Ana likes dark roast.", [one.id, two.id])
    session = opened.session("s1").id
    assert seen.id in {each.subject for each in opened.erase(session, dry_run=True).derived}
    opened.erase(session, derived="erase", quotes="erase")
    assert opened.observations.get(seen.id).status == "erased"
    assert is_sound(opened)


def test_erasing_an_observation_offers_the_messages_that_it_rests_on(opened: Ledger) -> None:
    one, two = said(opened, *COFFEE)
    seen = opened.observations.add("Ana likes dark roast.", [one.id, two.id])
    listed = opened.erase(seen.id, dry_run=True).sources
    assert {each.position for each in listed} == {one.position, two.position}
    opened.erase(seen.id, sources="erase", derived="keep", quotes="keep")
    assert opened.session("s1").message(one.position).content is None


# --- consolidated ----------------------------------------------------------------------------------------------------


def test_messages_are_consolidated_where_somebody_asks(opened: Ledger) -> None:
    said(opened, *COFFEE)
    report = opened.consolidate("messages")
    assert (report.over, report.sources, report.formed) == ("messages", 2, 1)
    (seen,) = opened.observations.list()
    assert seen.proof_count == 2 and all(each.id.startswith("s_") for each in seen.sources)
    position = opened.position
    assert opened.consolidate("messages").sources == 0 and opened.position == position
    said(opened, "I enjoy dark roast coffee with milk.", session="s2")
    assert opened.consolidate("messages").revised == 1
    assert opened.observations.get(seen.id).proof_count == 3
    assert is_sound(opened)


def test_an_assistants_words_bear_nothing_out(opened: Ledger) -> None:
    chat = opened.session("s1")
    for text in COFFEE:
        chat.append("assistant", text)
    assert opened.consolidate("messages").sources == 0


def test_hidden_messages_and_those_of_turns_are_passed_over(opened: Ledger) -> None:
    said(opened, COFFEE[0])
    opened.session("s1").clear()
    said(opened, COFFEE[1], session="s2")
    opened.capture(COFFEE[0], "Noted.", session="s3", append=True)
    assert opened.consolidate("messages").sources == 1, "a turn is consolidated as an interaction"


def test_single_messages_are_consolidated_by_their_ids(opened: Ledger) -> None:
    one, two = said(opened, *COFFEE)
    said(opened, "The train leaves at nine.", session="s2")
    assert opened.consolidate([one.id, two.id]).sources == 2
    assert {each.id for each in opened.observations.list()[0].sources} == {one.id, two.id}
    turn = opened.capture(COFFEE[1], "Noted.", session="s3", append=True)
    report = opened.consolidate([opened.session("s3").messages()[0].id])
    assert report.revised == 1 and turn.id in {each.id for each in opened.observations.list()[0].sources}


def test_messages_of_different_projects_are_consolidated_apart(opened: Ledger) -> None:
    said(opened, COFFEE[0], project="a")
    said(opened, COFFEE[1], session="s2", project="b")
    assert opened.consolidate("messages", project="a").sources == 1
    assert opened.consolidate("messages").sources == 0
    with pytest.raises(RejectedError, match="tags"):
        opened.consolidate("messages", tags=["x"])


def test_a_model_reads_messages_and_cites_them(tmp_path: Path) -> None:
    asked: list[ModelRequest] = []

    def model(request: ModelRequest) -> str:
        asked.append(request)
        text = {"text": "Ana drinks dark roast.", "sources": [1, 2], "confidence": 0.8, "reason": "said twice"}
        return json.dumps([{"action": "create", **text}])

    with Ledger.open(tmp_path / "m.db", user="ana", model=model) as opened:
        messages = said(opened, *COFFEE)
        report = opened.consolidate("messages")
        assert (report.consolidator, report.calls, report.formed) == ("consolidate/1", 1, 1)
        assert all(text in asked[0].content for text in COFFEE)
        (seen,) = opened.observations.list()
        assert {each.id for each in seen.sources} == {each.id for each in messages}
        (call,) = opened.history.audit(type="ModelCalled")
        read = {at for first, last in call.data["ranges"] for at in range(first, last + 1)}
        assert {each.position for each in messages} <= read
        assert opened.consolidate("messages").calls == 0


def test_a_message_erased_during_the_model_call_leaves_no_trace(tmp_path: Path) -> None:
    def model(request: ModelRequest) -> str:
        with Ledger.open(tmp_path / "m.db", user="ana") as other:
            if other.session("s1").message(position).content is not None:
                other.erase(Event(position), derived="keep", sources="keep", quotes="keep")
        text = {"text": "Ana drinks dark roast.", "sources": [1], "confidence": 0.8, "reason": "said twice"}
        return json.dumps([{"action": "create", **text}])

    with Ledger.open(tmp_path / "m.db", user="ana", model=model) as opened:
        position = said(opened, *COFFEE)[1].position
        report = opened.consolidate([each.id for each in opened.session("s1").messages() if each.role == "user"])
        assert report.skipped["interrupted"] == 1
        assert [len(each.sources) for each in opened.observations.list()] == [1], "asked again, of what is left"


def test_the_policy_of_turns_is_for_messages_too(opened: Ledger) -> None:
    opened.policy.set(consolidate="turns", admit="review")  # so that no memory is learned of them besides
    said(opened, *COFFEE)
    assert opened.jobs.run().observations_formed == 1
    position = opened.position
    assert opened.jobs.run().consolidated == 0 and opened.position == position


def test_a_stale_observation_of_messages_is_worded_again(opened: Ledger) -> None:
    said(opened, *COFFEE, "I enjoy dark roast coffee at home.")
    opened.consolidate("messages")
    (seen,) = opened.observations.list()
    opened.observations.withdraw(seen.written_from)
    report = opened.consolidate("messages")
    assert report.revised == 1 and fresh(opened, seen.id)[1:] == ("fresh", 2)


def test_the_command_line_takes_and_shows_them(opened: Ledger, tmp_path: Path) -> None:
    from command_line import answer, run

    one, two = said(opened, *COFFEE)
    opened.close()
    db = tmp_path / "m.db"
    found = answer("observations", "add", "Ana likes it.", one.id, two.id, "--user", "ana", db=db)
    assert found["proof_count"] == 2
    assert one.id in run("why", found["id"], "--user", "ana", db=db).stdout.replace("\n", "")
    assert answer("consolidate", "messages", "--user", "ana", db=db)["formed"] == 1
