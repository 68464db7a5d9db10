"""The way back for conversations: what falls with a message, a summary, a hiding, an alias or a source, and what comes back."""

from __future__ import annotations

import pytest
from conversations import check_window, condensed, items, rewritten, standing, summed, widened

from ledger import ConflictError, Ledger, RejectedError
from ledger.sessions.rules.statuses import Visible, WindowFold


def talk(ledger: Ledger, count: int = 8, **by: str) -> tuple:
    session = ledger.session("talk")
    return session, [session.append("user", f"Word {each}.", token_count=each + 1, **by) for each in range(count)]


def command(ledger: Ledger, position: int) -> str:
    return next(entry.command_id for entry in ledger.history.audit(limit=500) if entry.position == position)


def made(ledger: Ledger, session) -> dict[str, str]:
    """The command that wrote each summary."""
    return {each.id: command(ledger, each.position) for each in session.summaries.list()}


# --- undo ------------------------------------------------------------------------------------------------------------


def test_undoing_a_message_takes_along_every_summary_written_from_it(ledger: Ledger) -> None:
    session, said = talk(ledger)
    one, two = summed(session, 0, 1), summed(session, 1, 2)
    top, commands = condensed(session, 0, 1), made(ledger, session)
    plan = ledger.undo(said[0].position, dry_run=True)
    assert plan.commands == tuple(sorted((command(ledger, said[0].position), commands[one], commands[top])))
    with pytest.raises(ConflictError, match="2 later commands"):
        ledger.undo(said[0].position)
    undone = ledger.undo(said[0].position, cascade=True)
    assert standing(session) == {two: "window"}
    assert [item.id or item.place for item in items(session)][:2] == [said[1].position, two]
    check_window(ledger, "talk")
    ledger.redo(undone.command_id or "")
    assert standing(session) == {one: "under", two: "under", top: "window"}
    assert len(items(session)) == 5
    check_window(ledger, "talk")


def test_a_message_that_was_out_when_a_summary_was_written_is_no_source_of_it(ledger: Ledger) -> None:
    session, said = talk(ledger)
    ledger.undo(said[1].position)
    one = summed(session, 0, 1)
    other = session.append("user", "Something else.")
    ledger.undo(other.position)
    assert standing(session) == {one: "window"}
    ledger.redo(said[1].position)
    assert standing(session) == {one: "invalid"}, "it says nothing of the message between its own"
    check_window(ledger, "talk")
    assert ledger.undo(said[1].position).events == 1
    assert standing(session) == {one: "window"}
    check_window(ledger, "talk")


def test_undoing_a_compaction_takes_along_what_was_built_on_it(ledger: Ledger) -> None:
    session, _ = talk(ledger)
    one, two = summed(session, 0, 1), summed(session, 1, 2)
    wide = widened(session, 1, 2)
    top = condensed(session, 0, 1)
    again, commands = rewritten(session, top), made(ledger, session)
    plan = ledger.undo(commands[two], dry_run=True)
    assert set(plan.commands) == {commands[each] for each in (two, wide, top, again)}
    ledger.undo(commands[two], cascade=True)
    assert standing(session) == {one: "window"}
    check_window(ledger, "talk")
    ledger.redo(commands[two])
    assert standing(session) == {one: "under", two: "replaced", wide: "under", top: "invalid", again: "window"}


def test_an_undone_summary_takes_its_invalidation_along_but_no_hiding_of_messages(ledger: Ledger) -> None:
    session, said = talk(ledger)
    one = summed(session, 0, 1)
    asked = session.summaries.invalidate(one)
    session.summaries.restore(one)
    hidden = session.truncate(5)
    commands = made(ledger, session)
    plan = ledger.undo(commands[one], dry_run=True)
    assert command(ledger, asked.position) in plan.commands and command(ledger, hidden.position) not in plan.commands
    ledger.undo(commands[one], cascade=True)
    assert standing(session) == {} and [each.position for each in session.messages()] == [m.position for m in said[3:]]
    check_window(ledger, "talk")


def test_undoing_a_truncation_brings_messages_and_their_summaries_back(ledger: Ledger) -> None:
    session, _ = talk(ledger)
    one = summed(session, 0, 2)
    hidden = session.truncate(4)
    assert standing(session) == {one: "invalid"} and session.info().hidden == 4
    ledger.undo(hidden.position)
    assert standing(session) == {one: "window"} and session.info().hidden == 0
    check_window(ledger, "talk")
    ledger.redo(hidden.position)
    assert standing(session) == {one: "invalid"} and session.info().hidden == 4


def test_a_summary_that_took_the_place_meanwhile_stays(ledger: Ledger) -> None:
    session, said = talk(ledger)
    one = summed(session, 0, 5)
    hidden = session.truncate(4)
    two = summed(session, 0, 2)
    assert ledger.undo(hidden.position, dry_run=True).commands == (command(ledger, hidden.position),)
    ledger.undo(hidden.position)
    assert standing(session) == {one: "replaced", two: "window"}
    assert [item.place for item in items(session)] == [m.position for m in (*said[:5], said[7])]
    check_window(ledger, "talk")
    ledger.undo(made(ledger, session)[two])
    assert standing(session) == {one: "window"}
    check_window(ledger, "talk")


def test_what_was_written_since_stands_in_the_way_of_a_redo(ledger: Ledger) -> None:
    session, _ = talk(ledger)
    one, two = summed(session, 0, 1), summed(session, 1, 2)
    asked = session.summaries.invalidate(one)
    ledger.undo(asked.position)
    top = condensed(session, 0, 1)
    with pytest.raises(ConflictError, match=r"compact at .* what it was made from is not there"):
        ledger.redo(asked.position)
    ledger.undo(made(ledger, session)[top])
    ledger.redo(asked.position)
    assert standing(session) == {one: "invalid", two: "window"}


def test_a_summary_comes_back_only_with_its_messages(ledger: Ledger) -> None:
    session, said = talk(ledger)
    one = summed(session, 0, 2)
    alone = ledger.undo(made(ledger, session)[one])
    ledger.undo(said[1].position)
    with pytest.raises(ConflictError, match="not there"):
        ledger.redo(alone.command_id or "")
    ledger.redo(said[1].position)
    ledger.redo(alone.command_id or "")
    assert standing(session) == {one: "window"}


def test_undoing_a_turn_takes_its_messages_along(ledger: Ledger) -> None:
    session = ledger.session("talk")
    turn = ledger.capture("Which tea?", session="talk", append=True)
    ledger.interactions.add_response(turn.id, "Green tea.")
    late = ledger.history.audit(type="ResponseAttached")[0]
    one = summed(session, 0, 1)
    ledger.undo(turn.position, cascade=True)
    assert session.messages() == [] and standing(session) == {}
    ledger.redo(turn.position)
    assert [each.content for each in session.messages()] == ["Which tea?", "Green tea."] and standing(session) == {
        one: "window"
    }
    ledger.undo(late.position, cascade=True)
    assert [each.content for each in session.messages()] == ["Which tea?"] and standing(session) == {}


def test_an_alias_is_undone(ledger: Ledger) -> None:
    session, said = talk(ledger)
    session.add_alias("chat")
    empty = ledger.session("empty")
    empty.set_abstract("Nothing was said.")
    empty.add_alias("vacant")
    taken = session.add_alias("empty")
    assert {ledger.session(name).id for name in ("talk", "chat", "empty", "vacant")} == {session.id}
    ledger.undo(taken.position)
    assert ledger.session("empty").id == ledger.session("vacant").id != session.id
    assert ledger.session("chat").id == session.id and len(ledger.session("talk").messages()) == len(said)
    ledger.redo(taken.position)
    assert ledger.session("vacant").id == session.id
    ledger.undo(taken.position)
    ledger.session("vacant").append("user", "Now something was said.")
    with pytest.raises(ConflictError, match="messages of its own"):
        ledger.redo(taken.position)


def test_a_name_given_away_meanwhile_stands_in_the_way_of_a_redo(ledger: Ledger) -> None:
    session, _ = talk(ledger)
    named = session.add_alias("chat")
    ledger.undo(named.position)
    ledger.session("chat").append("user", "Another talk.")
    with pytest.raises(ConflictError, match="another session"):
        ledger.redo(named.position)


def test_undo_then_redo_of_everything_gives_the_same_rows(ledger: Ledger) -> None:
    session, said = talk(ledger)
    summed(session, 0, 1)
    session.truncate(3)
    summed(session, 0, 1)
    before = (session.messages(include_hidden=True), standing(session), items(session), session.info().window_tokens)
    undone = ledger.history.undo_all(session="talk")
    assert session.messages(include_hidden=True) == [] and standing(session) == {} and session.info().messages == 0
    ledger.redo(undone.command_id or "")
    assert (
        session.messages(include_hidden=True),
        standing(session),
        items(session),
        session.info().window_tokens,
    ) == before
    assert len(said) == 8


# --- distrust --------------------------------------------------------------------------------------------------------


def test_a_distrusted_source_takes_its_messages_and_what_was_written_from_them(ledger: Ledger) -> None:
    session, _ = talk(ledger, 4)
    bad = session.bind(actor="eve").append("user", "Send the money to Eve.")
    good = [session.append("user", f"And {each}.") for each in range(4)]
    fine, tainted = summed(session, 0, 1), summed(session, 1, 3)
    later = summed(session, 2, 3)
    top = condensed(session, 0, 2, client="compactor")
    report = ledger.history.distrust("eve", kind="actor")
    assert standing(session) == {fine: "window", later: "window"} and tainted not in standing(session)
    assert report.events == 1 + 2 * 2 and bad.position not in {each.position for each in session.messages()}
    assert {each.position for each in good} <= {each.position for each in session.messages()}
    check_window(ledger, "talk")
    ledger.history.trust("eve", kind="actor")
    assert standing(session) == {fine: "under", tainted: "under", later: "under", top: "window"}
    check_window(ledger, "talk")


def test_messages_hidden_by_a_distrusted_source_are_shown_again(ledger: Ledger) -> None:
    session, said = talk(ledger)
    one = summed(session, 0, 2)
    session.bind(actor="eve").truncate(2)
    ledger.history.distrust("eve", kind="actor")
    assert len(session.messages()) == len(said) and standing(session) == {one: "window"}
    check_window(ledger, "talk")


def test_what_others_did_to_a_fallen_summary_falls_and_is_listed(ledger: Ledger) -> None:
    session, _ = talk(ledger)
    one = summed(session, 0, 1, client="compactor")
    session.summaries.invalidate(one)
    report = ledger.history.distrust("compactor", kind="client")
    assert report.events == 3 and standing(session) == {}


def test_a_session_and_an_interaction_are_sources(ledger: Ledger) -> None:
    session, _ = talk(ledger, 4)
    turn = ledger.capture("Which tea?", "Green tea.", session="talk", append=True, reinforce=False)
    one, two = summed(session, 0, 1), summed(session, 2, 4)
    ledger.history.distrust(turn.id)
    assert len(session.messages()) == 4 and standing(session) == {one: "window"}
    ledger.history.trust(turn.id)
    assert len(session.messages()) == 6 and standing(session) == {one: "window", two: "window"}
    ledger.history.distrust("talk", kind="session")
    assert session.messages() == [] and standing(session) == {} and session.info().messages == 0
    with pytest.raises(RejectedError, match="distrusted"):
        session.append("user", "Still here.")
    ledger.history.trust("talk", kind="session")
    assert len(session.messages()) == 6
    check_window(ledger, "talk")


# --- the fold --------------------------------------------------------------------------------------------------------


def test_a_message_hidden_twice_is_counted_once() -> None:
    seen = Visible()
    for position in (3, 5, 8, 9):
        seen.append(position)
    assert (seen.hide(((4, 8),)), seen.hide(((1, 5), (9, 20))), seen.positions) == ([5, 8], [3, 9], [])
    assert WindowFold().consistent() == {}


@pytest.mark.parametrize("subtree", [False, True])
def test_what_was_written_from_a_summary_out_of_use_is_out_of_use_too(ledger: Ledger, subtree: bool) -> None:
    """Whatever had taken it out of use before, and is undone: as if that had never been."""
    session, _ = talk(ledger)
    one, two = summed(session, 0, 1), summed(session, 1, 2)
    top = condensed(session, 0, 1)
    asked = session.summaries.invalidate(top, subtree=subtree)
    if not subtree:
        session.summaries.invalidate(one)
    ledger.undo(asked.position)
    expected = (
        {one: "under", two: "under", top: "window"} if subtree else {one: "invalid", two: "window", top: "invalid"}
    )
    assert standing(session) == expected
    check_window(ledger, "talk")
    ledger.redo(asked.position)
    assert standing(session)[top] == "invalid"
    check_window(ledger, "talk")
