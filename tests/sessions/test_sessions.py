"""``ledger.session(name)`` and ``ledger.sessions``, as somebody who embeds the library calls them."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest

from ledger import ConflictError, ModelError, NotFoundError, RejectedError, Session
from ledger.api import Ledger
from ledger.sessions.api import SessionRead, SummariesRead
from ledger.types import ModelRequest

CHAT = ("Which tea is there?", "Green tea and black tea.", "And coffee?", "No coffee today.")


@pytest.fixture
def ledger(tmp_path: Path):
    with Ledger.open(tmp_path / "memory.db", user="ada", actor="planner") as opened:
        yield opened


def talk(session: Session, texts: tuple[str, ...] = CHAT) -> list[int]:
    return [session.append("assistant" if at % 2 else "user", text).position for at, text in enumerate(texts)]


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


def test_the_names_of_a_session_are_those_that_were_decided() -> None:
    writes = "append reopen compact set_abstract set_metadata extract skip_extraction reconcile replace truncate clear"
    writes += " add_alias bind extend remove_last"
    reads = "messages message items window info summaries abstract grep expand id name user"
    assert public(SessionRead) == set(reads.split())
    assert public(Session) == {*reads.split(), *writes.split()}
    assert public(SummariesRead) == {"list", "graph"}


def test_messages_are_paged_backwards_and_each_page_is_in_the_order_of_time(ledger: Ledger) -> None:
    session = ledger.session("chat")
    assert session.messages() == [] and session.id is None
    at = talk(session)
    page = session.messages(limit=3)
    assert [each.position for each in page] == at[1:] and page.next is not None
    session.append("user", "Newer than the page.")
    assert [each.position for each in session.messages(limit=3, after=page.next)] == at[:1]
    assert [each.position for each in page.all()] == at
    session.truncate(1)
    assert [each.content for each in session.messages()] == ["Newer than the page."]
    assert [each.hidden for each in session.messages(include_hidden=True)] == ["truncate"] * 4 + [""]
    with pytest.raises(RejectedError, match="other filters"):
        session.messages(after=page.next, include_hidden=True)
    assert session.message(at[0]).content == CHAT[0] and session.message(at[0]).occurred_at
    with pytest.raises(NotFoundError):
        session.message(1)
    with pytest.raises(NotFoundError):
        session.message("x")  # type: ignore[arg-type]


def test_a_message_says_when_it_happened_and_takes_calls_of_the_chat_format(ledger: Ledger) -> None:
    session = ledger.session("chat")
    late = session.append("user", "Late.", occurred_at="2026-03-01T10:00:00+02:00", idempotency_key="k")
    assert late.occurred_at == "2026-03-01T08:00:00.000000Z"
    again = session.append("user", "Late.", occurred_at="2026-03-01T10:00:00+02:00", idempotency_key="k")
    assert again.replayed and again.position == late.position
    function = {"name": "weather", "arguments": '{"city": "Porto"}'}
    call = session.append("assistant", tool_calls=[{"id": "c1", "type": "function", "function": function}])
    assert [part["type"] for part in call.parts] == ["tool_use"] and call.parts[0]["arguments"] == {"city": "Porto"}
    result = session.append("tool", "Sunny.", tool_call_id="c1")
    assert [part["type"] for part in result.parts] == ["tool_result"] and result.parts[0]["id"] == "c1"
    for wrong in ({"role": "nobody", "content": "x"}, {"role": "user", "content": "x", "parts": "text"}):
        with pytest.raises(RejectedError):
            session.append(**wrong)  # type: ignore[arg-type]


def test_a_session_that_is_not_there_raises(ledger: Ledger) -> None:
    session = ledger.session("nowhere")
    for ask in (
        session.info,
        session.summaries.graph,
        lambda: ledger.sessions.get("nowhere"),
    ):
        with pytest.raises(NotFoundError):
            ask()
    assert session.items() == () and session.abstract == "" and session.summaries.list() == []
    with pytest.raises(NotFoundError):
        session.reopen("nothing")
    with pytest.raises(RejectedError):
        ledger.session("")


def test_a_window_fits_its_budget_in_tokens_or_characters_and_is_reopened(ledger: Ledger) -> None:
    session = ledger.session("chat")
    talk(session)
    fact = ledger.remember("The user drinks green tea.")
    window = session.window(1_000, question="tea", receipt=True)
    assert [each.content for each in window.entries] == [*CHAT] and window.unit == "tokens"
    assert window.memory_ids == (fact.id,) and 0 < window.used <= window.budget
    assert repr(window) == f"<Window of 4, {window.used} of 1,000 tokens>"
    ledger.revise(fact.id, "The user drinks black tea.")
    again = session.reopen(window.receipt)
    assert (again.entries, again.used, again.memory_ids) == (window.entries, window.used, window.memory_ids)
    few = session.window(45, unit="chars")
    assert (
        [each.content for each in few.entries] == [*CHAT[2:]]
        and few.used == sum(map(len, CHAT[2:]))
        and few.unit == "chars"
    )
    assert few.entries[0].item.tokens == window.entries[2].item.tokens
    for wrong in (
        {"budget": 0},
        {"budget": 10**400},
        {"budget": "9"},
        {"budget": 9, "unit": "words"},
        {"budget": 9, "among": "memories"},
    ):
        with pytest.raises(RejectedError):
            session.window(**wrong)  # type: ignore[arg-type]


def test_commands_of_a_session_have_the_actor_of_its_bind(ledger: Ledger) -> None:
    session = ledger.session("chat").bind(actor="scribe", channel="tool")
    session.append("user", CHAT[0])
    session.window(100, receipt=True)
    ledger.bind(actor="reader").recall("tea", receipt=True)
    trail = ledger.history.audit()
    assert {(each.command, each.actor) for each in trail} >= {
        ("session.append", "scribe"),
        ("session.window", "scribe"),
        ("recall", "reader"),
    }
    assert ledger.session("chat").append("user", "x").position
    assert ledger.history.audit()[0].actor == "planner"
    with pytest.raises(RejectedError):
        session.bind(channel="telepathy")  # type: ignore[arg-type]


def test_grep_is_paged_newest_first_within_one_session_or_all(ledger: Ledger) -> None:
    one, other = ledger.session("one"), ledger.session("other")
    at = [one.append("user", f"tea number {number}").position for number in range(5)][::-1]
    beyond = other.append("user", "tea elsewhere").position
    page = one.grep("tea", limit=2)
    assert [each.position for each in page] == at[:2] and (page.total, page.is_exact) == (5, True)
    assert [each.position for each in page.all()] == at
    assert [each.position for each in ledger.sessions.grep("tea", limit=4).all()] == [beyond, *at]
    assert pickle.loads(pickle.dumps(page)).total == 5
    nothing = one.grep("elsewhere")
    assert nothing == [] and nothing.hint == "other sessions have it: ask sessions.grep"
    one.truncate(1)
    assert "include_hidden=True" in one.grep("number 0").hint
    assert [each.position for each in one.grep("number 0", include_hidden=True)] == at[-1:]
    assert one.grep("tea", since="7d") == one.grep("tea", since="2026-01-01", limit=20)
    assert one.grep("tea", until="1d") == [] and ledger.sessions.grep("tea", until="1d") == []
    for wrong in (
        {"scope": "all"},
        {"role": "nobody"},
        {"since": "2026-01-01T10:00:00"},
        {"since": "7 moons"},
        {"pattern": ""},
    ):
        with pytest.raises(RejectedError):
            one.grep(**{"pattern": "tea"} | wrong)  # type: ignore[arg-type]
    with pytest.raises(RejectedError, match="other filters"):
        one.grep("coffee", after=page.next)


def test_a_captured_turn_is_found_once_however_small_the_pages_are(ledger: Ledger) -> None:
    for number in range(3):
        ledger.capture(f"Is there tea {number}?", f"There is tea {number}.", session="chat", append=True)
    found = [each.position for each in ledger.session("chat").grep("tea", limit=1).all()]
    assert len(found) == len(set(found)) == 6 and found == sorted(found, reverse=True)


def test_summaries_are_listed_taken_out_brought_back_written_again_and_expanded(ledger: Ledger) -> None:
    session = ledger.session("chat")
    at = [session.append("assistant" if n % 2 else "user", f"word {n} " * 20).position for n in range(60)]
    report = session.compact(100, until_under=True, summarizer=lambda asked: "They counted words.")
    assert report.created and report.under is not None
    listed = session.summaries.list(limit=1)
    known = [each.id for each in listed.all()]
    assert set(known) >= {each.id for each in report.created} and len(known) == len(set(known))
    assert session.summaries.list(statuses=["window"])[0].status == "window"
    top = session.summaries.list(statuses=["window"])[-1]
    again = session.summaries.rewrite(top.id, summarizer=lambda asked: "Words were counted.")
    assert again.content == "Words were counted." and again.replaces == top.id
    assert session.summaries.invalidate(again.id, reason="wrong").invalidated == (again.id,)
    assert session.summaries.restore(again.id).status == "window"
    graph = session.summaries.graph(include_replaced=True)
    assert any(node.id == again.id for node in graph.window) and graph.as_mermaid().startswith("flowchart")
    part = session.expand(again.id, budget=300, unit="chars")
    assert part.messages[0].position == at[0] and part.used <= 300 and part.unit == "chars" and part.rest
    assert session.expand(part.rest, budget=10**6).messages[0].position == at[len(part.messages)]
    with pytest.raises(RejectedError):
        session.summaries.list(statuses=["gone"])  # type: ignore[list-item]
    with pytest.raises(NotFoundError):
        session.summaries.restore("y_0000000000000000")
    with pytest.raises(RejectedError):
        session.compact(until_under=True)


def test_a_dry_run_shows_what_a_transcript_would_change(ledger: Ledger) -> None:
    session = ledger.session("chat")
    talk(session)
    told = [{"role": "user", "content": CHAT[0]}, {"role": "assistant", "content": "Only water."}]
    position = ledger.position
    would = session.reconcile(told, dry_run=True)
    assert ledger.position == position and would.dry_run
    done = session.reconcile(told)
    assert (would.change, would.kept, would.appended, would.hidden) == (
        done.change,
        done.kept,
        done.appended,
        done.hidden,
    )
    assert (done.change, done.kept, done.appended, done.hidden) == ("replaced", 1, 1, 3)
    assert session.reconcile(told, dry_run=True).change == "none"
    assert session.replace([{"role": "user", "content": "Anew."}]).change == "replaced"
    assert session.clear().change == "cleared" and session.messages() == []


def test_extraction_shows_before_it_records_and_can_pass_over_a_beginning(ledger: Ledger) -> None:
    session = ledger.session("chat")
    at = session.append("user", "Decision: use one file for everything.\nPreference: dark roast coffee.").position
    position = ledger.position
    would = session.extract(dry_run=True)
    assert would.dry_run and {each["position"] for each in would.dropped} == {at} and ledger.position == position
    report = session.extract(method="rules")
    assert {each.content for each in report.kept} == {each["content"] for each in would.dropped}
    assert session.extract(dry_run=True).dropped == ()
    branch = ledger.session("branch")
    branch.append("user", "Decision: use one file for everything.")
    assert branch.skip_extraction(until=branch.messages()[0].position).cursor == branch.messages()[0].position
    for wrong in ({"method": "model"}, {"since": 0}, {"timeout": -1}):  # there is no model to ask
        with pytest.raises(RejectedError):
            session.extract(dry_run=True, **wrong)  # type: ignore[arg-type]


def test_a_dry_run_with_a_model_shows_what_it_proposes_and_leaves_no_trace(ledger: Ledger) -> None:
    """Of a session and of a turn, with the same fields as an extraction."""
    session = ledger.session("chat")
    session.append("user", "I prefer green tea over everything else, and my sister lives in Porto.")
    turn = ledger.capture("I prefer green tea over everything else.", "Noted.")
    fact = {"content": "The user prefers green tea.", "kind": "preference", "said_by": "user", "messages": [1]}
    relation = {"subject": "Ana", "relation": "lives_in", "object": "Porto"}

    def model(request: ModelRequest) -> str:
        return json.dumps({"add": [fact, {"kind": "no content"}], "supersede": [], "relations": [relation]})

    position = ledger.position
    for would in (session.extract(dry_run=True, model=model), ledger.extract(turn.id, dry_run=True, model=model)):
        assert (would.dry_run, would.calls, would.kept, would.extractor) == (True, 1, (), "extract/3")
        proposed = [(each["what"], each["content"]) for each in would.dropped if each["reason"] == ""]
        assert proposed == [("add", fact["content"]), ("relations", "Ana lives_in Porto")] and len(would.dropped) == 3
    assert ledger.position == position and ledger.history.model_calls() == [] and ledger.memories.list() == []

    def broken(request: ModelRequest) -> str:
        raise ValueError("out of order")

    assert session.extract(dry_run=True, model=broken).failure == "ValueError"
    with pytest.raises(ModelError):
        ledger.extract(turn.id, dry_run=True, model=broken)
    assert ledger.position == position
    report = session.extract(model=model)  # which finds all of it as before
    assert [each.content for each in report.kept] == [fact["content"]] and report.relations == 1


def test_a_session_says_how_many_turns_were_captured_in_it_also_as_of_then(ledger: Ledger) -> None:
    for count in range(3):
        last = ledger.capture(f"question {count}", "answer", session="chat")
    ledger.session("other").append("user", "hello")
    assert {each.name: (each.messages, each.turns) for each in ledger.sessions.list()} == {
        "chat": (0, 3),
        "other": (1, 0),
    }
    assert ledger.at(last.position).sessions.get("chat").turns == 3
    ledger.undo(ledger.history.audit(subject=last.id, type="InteractionCaptured")[0].command_id, cascade=True)
    assert ledger.sessions.get("chat").turns == 2
    assert ledger.at(last.position).sessions.get("chat").turns == 3


def test_sessions_are_listed_by_page_and_found_by_every_name(ledger: Ledger) -> None:
    ids = []
    for number in range(5):
        session = ledger.session(f"chat {number}", project="atlas" if number else None)
        session.append("user", "Hello.")
        ids.insert(0, session.id)
    page = ledger.sessions.list(limit=2)
    assert [each.id for each in page] == ids[:2] and [each.id for each in page.all()] == ids
    assert [each.id for each in ledger.sessions.list(project="atlas")] == ids[:4]
    assert ledger.sessions.list(project="nowhere") == []
    info = ledger.session("chat 1").add_alias("tea time")
    assert ledger.sessions.get("tea time") == info == ledger.sessions.get(info.id)
    with pytest.raises(ConflictError):
        ledger.session("chat 1").add_alias("chat 2")
    ledger.session("chat 1").set_abstract("About tea.")
    assert ledger.session("tea time").abstract == "About tea." and ledger.sessions.get("chat 1").has_abstract
    bob = ledger.bind(user="bob")
    assert bob.sessions.list() == [] and bob.sessions.grep("Hello") == [] and bob.session("chat 1").messages() == []
    with pytest.raises(NotFoundError):
        bob.sessions.get(info.id)


def test_a_session_of_the_past_is_read_only(ledger: Ledger) -> None:
    session = ledger.session("chat")
    talk(session, CHAT[:2])
    then = ledger.at(ledger.position)
    session.append("user", CHAT[2])
    past = then.session("chat")
    assert [each.content for each in past.messages()] == [*CHAT[:2]] and not isinstance(past, Session)
    assert (
        len(past.window(1_000).entries) == 2 and len(past.grep("tea")) == 2 and then.sessions.get("chat").messages == 2
    )
    assert [each.messages for each in then.sessions.list()] == [2] and len(then.sessions.grep("tea")) == 2
    assert not hasattr(past, "append") and not hasattr(past.summaries, "rewrite")
    with pytest.raises(RejectedError):
        past.window(100, receipt=True)
    with pytest.raises(TypeError):
        pickle.dumps(session)


def test_patterns_of_another_type_are_refused_when_a_ledger_is_opened(tmp_path: Path) -> None:
    with pytest.raises(RejectedError, match="SessionPatterns"):
        Ledger.open(tmp_path / "other.db", sessions={"ignore": ["a"]})  # type: ignore[arg-type]
