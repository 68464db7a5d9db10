"""What is erased of a conversation lives on in no summary, table, index or file."""

from __future__ import annotations

import json
from pathlib import Path

import probe
import pytest
from command_line import run
from conftest import Clock
from conversations import check_window, condensed, items, rewritten, standing, summed
from leftovers import RARE, remains, states
from soundness import agrees
from turns import Scripted, adds

from ledger import Ledger, NotFoundError, RejectedError
from ledger.erasure import erasing
from ledger.extraction import asking as asker
from ledger.types import EVERYTHING, Event, Project, SessionName

CALL = {
    "type": "tool_use",
    "id": "call-zanzibarquux",
    "name": "lookup",
    "arguments": {"who": "Zanzibarquux of Harbour Row"},
}


def talked(ledger: Ledger, count: int = 8, name: str = "talk") -> tuple:
    """A conversation in which the third message says it, summed up by twos, and the first four once more."""
    session = ledger.session(name)
    said = [session.append("user", f"Word number {each}." if each != 2 else RARE) for each in range(count)]
    leaves = [summed(session, 0, 1, "They greet."), summed(session, 1, 2, "One lives at Zanzibarquux's place.")]
    top = condensed(session, 0, 1, "They greet, and somebody lives at Harbour Row.")
    return session, said, leaves, top


def test_a_dry_run_lists_the_summaries_written_from_a_message(ledger: Ledger) -> None:
    session, said, leaves, top = talked(ledger)
    position = ledger.position
    dry = ledger.erase(Event(said[2].position), dry_run=True)
    made = {each.id: each.position for each in session.summaries.list()}
    assert [each.position for each in dry.derived] == [made[leaves[1]], made[top]]
    assert {each.type for each in dry.derived} == {"SummaryCreated"} and ledger.position == position
    with pytest.raises(RejectedError, match=r"derived \(2 events\)"):
        ledger.erase(Event(said[2].position))
    assert [each.position for each in ledger.erase(Event(said[0].position), dry_run=True).derived] == [
        made[leaves[0]],
        made[top],
    ]
    assert ledger.erase(Event(said[7].position), dry_run=True).derived == ()


@pytest.mark.slow
def test_an_erased_message_leaves_its_summaries_and_its_sources_are_in_the_window(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "memory.db") as ledger:
        session, said, leaves, top = talked(ledger)
        call = session.append("assistant", "Let me look.", parts=[CALL])
        session.append("user", f"Again: {RARE}")
        before = ledger.position
        assert remains(tmp_path)
        report = ledger.erase(Event(said[2].position), derived="erase", quotes="erase")
        assert (report.state, report.hits) == ("completed", 0)
        ledger.erase(Event(call.position))
        assert standing(session) == {leaves[0]: "window", leaves[1]: "erased", top: "erased"}
        assert [item.position for item in items(session)[1:4]] == [each.position for each in said[2:5]]
        then = ledger.at(before).session("talk")
        assert {each.id: each.status for each in then.summaries.list()} == standing(session)
        assert then.messages()[2].content is None and session.messages()[2].content is None
        check_window(ledger, "talk")
        agrees(ledger)
        assert probe.rebuild(ledger).digest == ledger.proof.digest()
    assert remains(tmp_path) == []


def test_a_condensed_summary_that_is_kept_stands_over_an_erased_one(ledger: Ledger) -> None:
    session, said, leaves, top = talked(ledger)
    ledger.erase(Event(said[2].position), derived="erase", keep=[top])
    assert standing(session) == {leaves[0]: "under", leaves[1]: "erased", top: "window"}
    agrees(ledger)
    session.summaries.invalidate(top)
    assert standing(session) == {leaves[0]: "window", leaves[1]: "erased", top: "invalid"}
    assert [item.is_summary for item in items(session)] == [True] + [False] * 6
    session.summaries.restore(top)
    assert standing(session)[top] == "window" and standing(session)[leaves[0]] == "under"
    check_window(ledger, "talk")
    agrees(ledger)


def test_what_a_summary_repeats_can_be_cut(ledger: Ledger) -> None:
    session = ledger.session("talk")
    said = [session.append("user", text) for text in ("Hello there.", RARE, "Good bye then.")]
    one = summed(session, 0, 1, f"They greet. {RARE} So it is.")
    other = rewritten(session, one, "They say where one lives.")
    with pytest.raises(RejectedError, match="summary at position"):
        ledger.erase(Event(said[1].position), derived="cut")
    ledger.erase(Event(said[1].position), derived="cut", keep=[other])
    texts = {each.id: each.content for each in session.summaries.list()}
    assert texts == {one: f"They greet. {'█' * len(RARE)} So it is.", other: "They say where one lives."}
    assert standing(session)[other] == "window"
    agrees(ledger)


def test_a_summary_is_erased_by_its_id_with_those_above(ledger: Ledger) -> None:
    session, _, leaves, top = talked(ledger)
    with pytest.raises(RejectedError, match=r"derived \(1 event\)"):
        ledger.erase(leaves[1])
    ledger.erase(leaves[1], derived="erase")
    assert standing(session) == {leaves[0]: "window", leaves[1]: "erased", top: "erased"}
    assert session.messages()[2].content == RARE
    for wrong in ("y_0000000000000000", "y_"):
        with pytest.raises(NotFoundError):
            ledger.erase(wrong)
    with pytest.raises(NotFoundError):
        ledger.bind(user="bob").erase(leaves[0])
    agrees(ledger)


def test_the_summary_that_was_set_may_say_it_too(ledger: Ledger) -> None:
    session = ledger.session("talk")
    session.set_abstract("Nothing yet.")
    said = session.append("user", RARE)
    session.set_abstract("One of them told where he lives.")
    dry = ledger.erase(Event(said.position), dry_run=True)
    assert [each.type for each in dry.derived] == ["AbstractSet"]
    ledger.erase(Event(said.position), derived="erase")
    assert session.abstract == ""
    agrees(ledger)


def test_a_message_goes_with_what_was_added_to_it(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "memory.db") as ledger:
        session = ledger.session("talk")
        given = [{"role": "user", "content": RARE}, {"role": "assistant", "content": "I see."}]
        session.reconcile(given)
        session.reconcile([given[0], {**given[1], "reasoning": f"So {RARE}", "model": "small"}])
        first, second = session.messages()
        assert second.reasoning == f"So {RARE}"
        report = ledger.erase(Event(second.position), quotes="keep")
        assert {each.type for each in report.erased} == {"MessageAppended", "MessageRepaired"}
        assert (session.messages()[1].reasoning, session.messages()[1].content) == (None, None)
        ledger.erase(Event(first.position))
        agrees(ledger)
    assert remains(tmp_path) == []


def turn(ledger: Ledger) -> tuple:
    session = ledger.session("talk")
    session.append("system", "Be brief.")
    turn = ledger.capture("Where does he live?", "Decision: " + RARE, session="talk", append=True, reinforce=False)
    return session, turn, summed(session, 0, 2, "They speak of Zanzibarquux.")


def test_an_erased_interaction_takes_the_messages_that_read_through_it(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "memory.db") as ledger:
        session, said, summary = turn(ledger)
        dry = ledger.erase(said.id, dry_run=True)
        assert [each.type for each in dry.derived] == ["SummaryCreated"]
        assert ledger.erase(said.id, derived="erase").state == "completed"
        assert [each.content for each in session.messages()] == ["Be brief.", None, None]
        assert standing(session) == {summary: "erased"}
        check_window(ledger, "talk")
        agrees(ledger)
    assert remains(tmp_path) == []


def test_an_erased_message_of_a_turn_takes_its_text_in_the_interaction(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "memory.db") as ledger:
        session, said, _ = turn(ledger)
        (idea,) = ledger.extract(said.id).kept
        dry = ledger.erase(Event(session.messages()[2].position), dry_run=True)
        assert {each.type for each in dry.derived} == {"SummaryCreated", "MemoryCaptured"}
        ledger.erase(Event(session.messages()[2].position), derived="erase", quotes="erase")
        now = ledger.interactions.get(said.id)
        assert (now.prompt, now.response) == ("Where does he live?", None)
        assert [each.content for each in session.messages()][1:] == ["Where does he live?", None]
        gone = ledger.memories.get(idea.id)
        assert gone.status == "erased"
        agrees(ledger)
    assert remains(tmp_path) == []


@pytest.mark.slow
def test_a_session_a_project_and_a_user_go_whole(tmp_path: Path) -> None:
    for number, subject in enumerate((SessionName("talk"), Project("home"), EVERYTHING)):
        folder = tmp_path / str(number)
        folder.mkdir()
        with Ledger.open(folder / "memory.db") as ledger:
            user = "zanzibarquux" if subject == EVERYTHING else ""
            session = ledger.bind(user=user).session("talk", project="home")
            other = ledger.bind(user="bob").session("other", project="work")
            other.append("user", "Something else.")
            for each in range(4):
                session.append("user", f"{each}: {RARE}", model=f"zanzibarquux-{each}", parts=[CALL])
            ledger.bind(user=user).capture("Where?", RARE, session="talk", project="home", append=True, reinforce=False)
            summary = summed(session, 0, 2, "He lives at Harbour Row.", client="cli")
            session.set_abstract(RARE)
            session.truncate(2)
            known = ledger.session(session.id or "")
            assert remains(folder)
            report = ledger.bind(user=user).erase(subject, derived="erase", sources="erase", quotes="erase")
            assert report.state == "completed", report.why
            assert [each.content for each in other.messages()] == ["Something else."]
            if not user:
                assert {each.content for each in known.messages(include_hidden=True)} == {None}
                assert standing(known) == {summary: "erased"}
                assert known.info().name == ("talk" if isinstance(subject, Project) else None)
            agrees(ledger)
        assert remains(folder) == []


def test_messages_of_another_project_in_the_same_session_stay(ledger: Ledger) -> None:
    session = ledger.session("talk", project="work")
    session.append("user", "Work first.")
    ledger.capture(RARE, "Yes.", session="talk", project="home", append=True, reinforce=False)
    summed(session, 0, 2, "Work, and where he lives.")
    dry = ledger.erase(Project("home"), dry_run=True)
    assert [each.type for each in dry.derived] == ["SummaryCreated"]
    ledger.erase(Project("home"), derived="erase")
    assert [each.content for each in session.messages()] == ["Work first.", None, None]
    agrees(ledger)


def test_a_held_session_keeps_its_messages(ledger: Ledger) -> None:
    session, said, leaves, _ = turn(ledger)[0], *talked(ledger, name="held")[1:]
    hold = ledger.holds.add(SessionName("held"), reason="a case")
    for what in (Event(said[2].position), leaves[0]):
        with pytest.raises(RejectedError, match="on hold"):
            ledger.erase(what, derived="erase", quotes="keep")
    with pytest.raises(RejectedError, match="on hold"):
        ledger.erase(SessionName("held"), derived="erase", quotes="keep")
    with pytest.raises(NotFoundError, match="summary"):
        ledger.holds.add(leaves[0])
    ledger.holds.remove(hold.id)
    assert ledger.erase(Event(said[2].position), derived="erase", quotes="keep").state == "completed"
    assert session.info()


def test_a_summary_written_while_the_plan_was_made_is_found(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    session = ledger.session("talk")
    said = [session.append("user", text) for text in ("Hello there.", RARE, "Good bye then.")]
    plan, made = erasing._plan, []

    def slow(self, *given):
        found = plan(self, *given)
        if not made:
            made.append(summed(session, 0, 1, "One of them lives somewhere."))
        return found

    monkeypatch.setattr(erasing, "_plan", slow)
    with pytest.raises(RejectedError, match=r"derived \(1 event\)"):
        ledger.erase(Event(said[1].position))


@pytest.mark.slow
def test_a_summary_under_way_is_dropped_when_something_is_erased_meanwhile(ledger: Ledger) -> None:
    session = ledger.session("talk")
    said = [session.append("user", f"Word number {each}. " + RARE * (each == 1)) for each in range(60)]

    def summarizer(request) -> str:
        if ledger.erasures.list() == []:
            ledger.erase(Event(said[1].position), quotes="keep")
        return "Somebody lives at 12 Harbour Row."

    report = session.compact(summarizer=summarizer)
    assert report.created == () and {each.why for each in report.skipped} == {"moved"}
    assert not any("Harbour" in state for state in states(ledger))
    made = session.compact(summarizer=lambda request: "Nothing is left of it.").created[0]

    def again(request) -> str:
        if len(ledger.erasures.list()) == 1:
            ledger.erase(Event(said[2].position), derived="keep", quotes="keep")
        return "Somebody lives at 12 Harbour Row."

    with pytest.raises(Exception, match="erased"):
        session.summaries.rewrite(made.id, summarizer=again)
    agrees(ledger)


def test_a_text_that_other_parts_share_is_no_quote(ledger: Ledger) -> None:
    session = ledger.session("talk")
    call = session.append("assistant", "Let me look.", parts=[CALL])
    session.append("tool", parts=[{"type": "tool_result", "id": "call-zanzibarquux", "text": "Found nothing at all."}])
    session.append("assistant", "I will use lookup.", parts=[{**CALL, "id": "other", "arguments": {}}])
    dry = ledger.erase(Event(call.position), dry_run=True)
    assert dry.quotes == ()
    ledger.erase(Event(call.position))
    with probe.store(ledger).snapshot() as connection:
        assert connection.execute("SELECT tools FROM messages WHERE row = ?", (call.position,)).fetchone() == (None,)
    assert json.loads(states(ledger)[call.position - 1])["data"]["parts"] is None
    agrees(ledger)


# --- what was remembered of messages ---------------------------------------------------------------------------------

HOME = "The home of the user is Zanzibarquux."
TEA, MOVED = "I prefer tea in the morning, please remember.", "I moved to 12 Harbour Row last week, I prefer it."


def told_of_home(ledger: Ledger, messages: tuple[int, ...], **of_second: str) -> tuple:
    """Two messages, and the one memory that a model wrote of them, citing these."""
    session = ledger.session("chat")
    said = [session.append("user", TEA), session.append("user", MOVED, **of_second)]
    (kept,) = session.extract(model=Scripted(adds(HOME, messages=messages))).kept
    return session, said, kept


@pytest.mark.parametrize("cited", [(1, 2), (2,), (), (99,)])
def test_a_memory_is_derived_from_the_messages_that_a_model_cited_or_from_all_it_read(
    tmp_path: Path, cited: tuple[int, ...]
) -> None:
    with Ledger.open(tmp_path / "memory.db") as ledger:
        _, said, kept = told_of_home(ledger, cited)
        assert [each.subject for each in ledger.erase(Event(said[1].position), dry_run=True).derived] == [kept.id]
        of_first = [each.subject for each in ledger.erase(Event(said[0].position), dry_run=True).derived]
        assert of_first == ([] if cited == (2,) else [kept.id])
        with pytest.raises(RejectedError, match=r"derived \(1 event\)"):
            ledger.erase(Event(said[1].position))
        assert ledger.erase(Event(said[1].position), derived="erase").state == "completed"
        assert ledger.review() == []
        agrees(ledger)
    assert remains(tmp_path) == []


@pytest.mark.parametrize("admit", ["by_source", "review"])
def test_what_was_cited_for_a_memory_that_was_there_already_counts_too(
    ledger: Ledger, clock: Clock, admit: str
) -> None:
    ledger.policy.set(admit=admit)
    session, _, kept = told_of_home(ledger, (1,))
    clock.advance(days=1)  # what is said later bears out what is believed; a memory that waits absorbs it at any time
    again = session.append("user", "I prefer to say it again: I live there.")
    session.extract(model=Scripted(adds(HOME)))
    assert ledger.history.audit(limit=9, type="DuplicateAbsorbed")
    assert kept.id in {each.subject for each in ledger.erase(Event(again.position), dry_run=True).derived}


@pytest.mark.slow
def test_a_memory_of_a_call_that_does_not_say_what_was_cited_is_derived_from_all_that_it_read(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asker, "_citations", lambda work, cited: ())
    _, said, kept = told_of_home(ledger, (1,))
    assert [each.subject for each in ledger.erase(Event(said[1].position), dry_run=True).derived] == [kept.id]
    assert [each.position for each in ledger.erase(kept.id, dry_run=True).sources] == [said[0].position]


def test_a_memory_that_cites_no_message_quotes_none(ledger: Ledger) -> None:
    told_of_home(ledger, ())
    (candidate,) = ledger.review()
    assert candidate.provenance is not None and candidate.provenance.quote is None
    (call,) = ledger.history.model_calls()
    assert (call.kept, call.dropped) == (1, 0)


def test_the_messages_that_a_memory_came_from_are_its_sources(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "memory.db") as ledger:
        session, said, kept = told_of_home(ledger, (2,))
        dry = ledger.erase(kept.id, dry_run=True)
        assert [(each.position, each.type) for each in dry.sources] == [(said[1].position, "MessageAppended")]
        with pytest.raises(RejectedError, match=r"sources \(1 event\)"):
            ledger.erase(kept.id)
        with pytest.raises(RejectedError, match=r"sources: nothing in the message at position"):
            ledger.erase(kept.id, sources="cut")
        assert ledger.erase(kept.id, sources="erase").state == "completed"
        assert [each.content for each in session.messages()] == [TEA, None]
        agrees(ledger)
    assert remains(tmp_path) == []


def test_a_span_of_a_message_that_is_the_source_of_a_memory_can_be_erased(ledger: Ledger) -> None:
    session = ledger.session("chat")
    session.append("user", "Good morning. I prefer green tea. What is new?")
    (kept,) = session.extract(method="rules").kept
    assert kept.content == "The user prefers green tea"
    assert ledger.erase(kept.id, sources="cut").state == "completed"
    (left,) = session.messages()
    assert "green" not in (left.content or "") and "Good morning" in (left.content or "") and "new?" in left.content
    agrees(ledger)


def test_a_part_of_a_message_that_a_memory_was_found_in_goes_whole_with_a_cut(ledger: Ledger) -> None:
    session = ledger.session("chat")
    texts = ("Good morning.", "Well, I prefer green tea.", "I prefer black coffee in the morning.")
    session.append("user", parts=[{"type": "text", "text": text} for text in texts])
    coffee, tea = sorted(session.extract(method="rules").kept, key=lambda each: "green" in each.content)
    ledger.erase(tea.id, sources="cut")
    assert not any("green" in state for state in states(ledger))
    ledger.erase(coffee.id, sources="cut")
    assert not any("black" in state for state in states(ledger))
    agrees(ledger)


def test_a_message_of_a_turn_that_was_cited_second_is_a_source_with_its_text_in_the_turn(ledger: Ledger) -> None:
    session = ledger.session("chat")
    session.append("user", TEA)
    turn = ledger.capture(MOVED, "I see.", session="chat", append=True, reinforce=False)
    (kept,) = session.extract(model=Scripted(adds(HOME, messages=(1, 2)))).kept
    dry = ledger.erase(kept.id, dry_run=True)
    assert {(each.type, each.fields) for each in dry.sources} == {
        ("MessageAppended", ("data.content",)),
        ("InteractionCaptured", ("data.prompt",)),
    }
    assert [each.subject for each in ledger.erase(turn.id, dry_run=True).derived] == [kept.id]
    ledger.erase(kept.id, sources="erase")
    assert [each.content for each in session.messages()] == [None, None, "I see."]
    agrees(ledger)


# --- what was asked in a session -------------------------------------------------------------------------------------


def test_with_a_session_goes_what_was_asked_for_its_windows(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "memory.db") as ledger:
        session = ledger.session("therapy")
        session.append("user", "I am anxious about flying on Friday.")
        session.window(2_000, question="who lives in Harbour Row, Zanzibarquux?", receipt=True)
        ledger.recall("something else of Harbour Row", receipt=True)
        (asked, other) = reversed(ledger.history.audit(type="RecallDelivered"))
        report = ledger.erase(SessionName("therapy"))
        assert report.state == "completed" and asked.position in {each.position for each in report.erased}
        assert other.position not in {each.position for each in report.erased}
        assert not any("Zanzibarquux" in state for state in states(ledger))
        agrees(ledger)


# --- a message by its id ---------------------------------------------------------------------------------------------


def test_the_id_of_a_message_erases_this_message_alone(ledger: Ledger) -> None:
    session, said, _, _ = talked(ledger, 3)
    by_id = ledger.erase(said[2].id, derived="erase", dry_run=True)
    by_position = ledger.erase(Event(said[2].position), derived="erase", dry_run=True)
    assert by_id == by_position and by_id.erased
    report = ledger.erase(said[2].id, derived="erase")
    assert [event.position for event in report.erased] == [said[2].position]
    assert [message.content for message in session.messages()] == ["Word number 0.", "Word number 1.", None]


def test_an_exception_of_an_erasure_may_be_the_id_of_a_message(ledger: Ledger) -> None:
    session = ledger.session("talk")
    first, again = (session.append("user", RARE) for _ in range(2))
    report = ledger.erase(first.id, quotes="erase", keep=[again.id])
    assert [(event.position, event.choice) for event in report.quotes] == [(again.position, "keep")]
    assert [message.content for message in session.messages()] == [None, RARE]


def test_a_message_of_another_session_or_user_is_not_erased_by_its_id(ledger: Ledger) -> None:
    mine, other = ledger.session("mine"), ledger.session("other")
    said, elsewhere = mine.append("user", "Mine."), other.append("user", "Elsewhere.")
    strange = f"{mine.id}:{elsewhere.position}"
    for books, id in ((ledger, strange), (ledger.bind(user="eva"), said.id), (ledger, f"{mine.id}:2")):
        with pytest.raises(NotFoundError, match=f"no session of this user has the message '{id}'"):
            books.erase(id)
    with pytest.raises(NotFoundError, match="keep names"):
        ledger.erase(said.id, keep=[strange])
    assert [message.content for message in (*mine.messages(), *other.messages())] == ["Mine.", "Elsewhere."]


def test_the_command_line_erases_a_message_by_its_id(tmp_path: Path) -> None:
    db = tmp_path / "memory.db"
    with Ledger.open(db) as ledger:
        said = ledger.session("talk").append("user", RARE)
    assert run("erase", said.id, "--yes", db=db).exit_code == 0
    with Ledger.open(db) as ledger:
        assert ledger.session("talk").messages()[0].content is None
