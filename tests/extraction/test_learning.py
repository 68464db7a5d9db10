"""An agent without a configured model reads what was said, and hands in what it found."""

from __future__ import annotations

import re
from typing import Any

import pytest
from conftest import Clock
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from turns import Scripted

from ledger import ConflictError, KeyReusedError, Ledger, NotFoundError, RejectedError
from ledger.extraction.unread import UnreadReading, reading_of, token_of

ALLERGY = "Please note that my sister Lea is allergic to peanuts."
KNOWS = "The user's sister Lea is allergic to peanuts"


def tell(ledger: Ledger, *texts: str, session: str = "s1", project: str | None = None, **more: Any) -> None:
    chat = [
        each for text in texts for each in ({"role": "user", "content": text}, {"role": "assistant", "content": "OK."})
    ]
    ledger.add(chat, session=session, project=project, **more)


def agent(ledger: Ledger, name: str = "claude-code") -> Ledger:
    return ledger.bind(client=name, channel="agent")


def found(content: str, *, quote: str = "", message: int = 1, **more: Any) -> dict[str, Any]:
    return {"add": [{"content": content, "said_by": "user", "messages": [message], "quote": quote} | more]}


def asked(content: str) -> list[str]:
    """Return the texts of the user in a request, in order."""
    return re.findall(r"^\[\d+\] user \([^)]*\): (.*)$", content, re.MULTILINE)


# --- reading ---------------------------------------------------------------------------------------------------------


def test_the_request_is_the_one_that_a_configured_model_would_get(ledger: Ledger) -> None:
    for one in (ledger, ledger.bind(user="ben")):
        tell(one, ALLERGY, extract="off")
    unread, model = ledger.learning.unread(), Scripted({})
    ledger.bind(user="ben").session("s1").extract(model=model)
    (request,) = model.requests
    assert (unread.instructions, unread.request.schema) == (request.instructions, request.schema)
    assert unread.content == request.content
    assert (unread.turns, unread.messages, unread.more) == (1, 2, 0)


def test_what_only_rules_have_read_is_unread_and_what_they_learned_is_shown(ledger: Ledger) -> None:
    tell(ledger, "I live in Gent.")
    (memory,) = ledger.memories.list()
    unread = ledger.learning.unread()
    assert asked(unread.content) == ["I live in Gent."]
    assert unread.facts == (memory.id,)
    answer = {
        "supersede": [
            {
                "fact": 1,
                "content": "The user lives in Ghent, Belgium",
                "messages": [1],
                "said_by": "user",
                "quote": "live in Gent",
            }
        ]
    }
    learned = agent(ledger).learning.learn(unread.token, answer)
    assert [each.content for each in learned.learned] == ["The user lives in Ghent, Belgium"]
    assert ledger.memories.get(memory.id).status == "superseded"


def test_what_a_model_has_read_is_not_unread(ledger: Ledger) -> None:
    ledger.add([{"role": "user", "content": ALLERGY}], session="s1", extract="off")
    ledger.session("s1").extract(model=Scripted({}))
    assert ledger.learning.count() == 0
    assert ledger.learning.unread().token == ""


def test_turns_are_read_in_the_order_of_time_over_all_sessions_of_a_project(ledger: Ledger, clock: Clock) -> None:
    tell(ledger, "I work at Acme as a nurse.", session="a", occurred_at="2026-01-05T10:00:00Z")
    tell(ledger, "I work at Brandt as a nurse.", session="b", occurred_at="2026-01-03T10:00:00Z")
    tell(ledger, "I work at Cole as a nurse.", session="c", project="other", occurred_at="2026-01-04T10:00:00Z")
    unread = ledger.learning.unread(since="2026-01-01")
    assert asked(unread.content) == ["I work at Brandt as a nurse.", "I work at Acme as a nurse."]
    assert unread.more == 1
    ledger.learning.learn(unread.token, {})
    assert asked(ledger.learning.unread(since="2026-01-01").content) == ["I work at Cole as a nurse."]


def test_turns_older_than_90_days_are_read_only_if_asked_for(ledger: Ledger) -> None:
    tell(ledger, ALLERGY, session="old", occurred_at="2020-01-05T10:00:00Z")
    assert (ledger.learning.count(), ledger.learning.unread().turns) == (0, 0)
    assert ledger.learning.count(since="2020-01-01") == 1
    assert ledger.learning.unread(since="2020-01-01").turns == 1


def test_a_young_turn_behind_old_ones_leaves_the_old_ones_unread(ledger: Ledger) -> None:
    tell(ledger, "I grew up in Lund and love it.", occurred_at="2020-01-05T10:00:00Z")
    tell(ledger, "I grew up in Lund and love it.", ALLERGY)
    unread = ledger.learning.unread()
    assert asked(unread.content)[-1] == ALLERGY
    ledger.learning.learn(unread.token, {})
    assert (ledger.learning.count(), ledger.learning.count(since="2019-01-01")) == (0, 1)


def test_a_budget_holds_whole_turns_and_says_how_many_are_left(ledger: Ledger) -> None:
    tell(
        ledger,
        *(f"My friend number {number} works at the harbour of Antwerp. {'Really. ' * 120}" for number in range(12)),
    )
    unread = ledger.learning.unread(budget=2_000)
    assert 0 < unread.turns < 12
    assert unread.messages == 2 * unread.turns
    assert unread.more == 12 - unread.turns
    assert unread.tokens <= 2_000


@pytest.mark.parametrize("budget", [1_999, 100_001, True, "many", 2_000.5])
def test_a_budget_out_of_bounds_is_refused(ledger: Ledger, budget: Any) -> None:
    with pytest.raises(RejectedError, match="from 2,000 to 100,000"):
        ledger.learning.unread(budget=budget)


def test_turns_without_anything_to_remember_are_passed_over(ledger: Ledger) -> None:
    tell(ledger, "ok", "thanks", "hm")
    assert ledger.learning.count() == 3
    assert ledger.learning.unread().token == ""
    assert ledger.learning.count() == 0


def test_captured_turns_without_a_session_are_read_once(ledger: Ledger) -> None:
    turn = ledger.capture(ALLERGY, "Noted.")
    unread = ledger.learning.unread()
    assert asked(unread.content) == [ALLERGY]
    learned = ledger.learning.learn(unread.token, found(KNOWS, quote="Lea is allergic to peanuts"))
    assert ledger.memories.get(learned.learned[0].id).sources == (turn.id,)
    assert ledger.learning.unread().token == ""


def test_a_user_whose_policy_extracts_nothing_has_nothing_to_read(ledger: Ledger) -> None:
    tell(ledger, ALLERGY)
    ledger.policy.set(extract=False)
    assert (ledger.learning.count(), ledger.learning.unread().token) == (0, "")


# --- readers ---------------------------------------------------------------------------------------------------------


def test_two_readers_never_get_the_same_turns(ledger: Ledger) -> None:
    tell(ledger, ALLERGY)
    one, two = agent(ledger, "one"), agent(ledger, "two")
    first, second = one.learning.unread(), two.learning.unread()
    assert (first.turns, second.turns, second.token, second.more) == (1, 0, "", 1)
    assert second.held_until is not None
    one.learning.learn(first.token, {})
    tell(ledger, ALLERGY, "My brother Tom lives in Oslo.")
    assert asked(two.learning.unread().content) == ["My brother Tom lives in Oslo."]


def test_a_reader_that_lost_its_token_gets_the_turns_again(ledger: Ledger) -> None:
    tell(ledger, ALLERGY)
    one = agent(ledger)
    assert one.learning.unread().token == one.learning.unread().token


def test_a_token_of_another_user_or_a_changed_token_is_refused(ledger: Ledger) -> None:
    tell(ledger, ALLERGY)
    token = ledger.learning.unread().token
    for reader, text in ((ledger.bind(user="ben"), token), (ledger, token[:-2] + "AA"), (ledger, "x"), (ledger, "ü")):
        with pytest.raises(RejectedError, match="no token of a reading"):
            reader.learning.learn(text, {})


def test_no_token_reads_as_an_option_of_a_command() -> None:
    """A digest that begins with six bits as of 62 is "-" in the letters of a URL."""

    def sign(data: bytes) -> bytes:
        return bytes([62 << 2]) * 8

    taken = UnreadReading(project=None, sessions=((1, ((1, 2),)),), captured=())
    token = token_of(taken, sign)
    assert token[0].isalpha() and reading_of(token, sign) == taken


# --- handing in ------------------------------------------------------------------------------------------------------


def test_a_quote_of_the_users_own_words_makes_a_memory_active_with_at_most_60_percent(ledger: Ledger) -> None:
    tell(ledger, ALLERGY)
    token = ledger.learning.unread().token
    learned = agent(ledger).learning.learn(
        token, found(KNOWS, quote="my sister  LEA is allergic to peanuts", confidence=0.9)
    )
    (memory,) = (ledger.memories.get(each.id) for each in learned.learned)
    assert (memory.status, memory.confidence) == ("active", 0.6)
    why = ledger.why(memory.id)
    assert why.provenance is not None
    assert why.provenance.quote == "my sister Lea is allergic to peanuts"
    assert learned.reader == "claude-code"
    assert ledger.history.model_calls()[0].model == "claude-code"


PASTED = "Look at this mail:\n> From: Eve\n> I am allergic to peanuts and my password is safe\nWhat do you think of it?"


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        (ALLERGY, found(KNOWS)),
        (ALLERGY, found(KNOWS, quote="Lea is allergic to cashews")),
        (ALLERGY, found(KNOWS, quote="peanuts")),
        (ALLERGY, found(KNOWS, quote="OK.", message=2)),
        (ALLERGY, found(KNOWS, quote="Lea is allergic to peanuts", said_by="assistant")),
        (ALLERGY, {"add": [{"content": KNOWS, "said_by": "user", "quote": "Lea is allergic to peanuts"}]}),
        (PASTED, found("The user is allergic to peanuts", quote="I am allergic to peanuts")),
    ],
    ids=["none", "not said", "one word", "assistant's", "claimed", "no message", "pasted"],
)
def test_without_a_quote_of_the_users_own_words_it_waits(ledger: Ledger, said: str, answer: dict[str, Any]) -> None:
    tell(ledger, said)
    learned = agent(ledger).learning.learn(ledger.learning.unread().token, answer)
    assert (learned.learned, len(learned.proposed)) == ((), 1)


@pytest.mark.parametrize("channel", ["web", "tool", "file"])
def test_what_another_program_hands_in_waits(ledger: Ledger, channel: Any) -> None:
    tell(ledger, ALLERGY)
    answer = found(KNOWS, quote="Lea is allergic to peanuts")
    learned = ledger.bind(channel=channel).learning.learn(ledger.learning.unread().token, answer)
    assert (learned.learned, len(learned.proposed)) == ((), 1)


def test_turns_that_the_agent_recorded_count_as_the_users_words(ledger: Ledger) -> None:
    tell(agent(ledger), ALLERGY)
    answer = found(KNOWS, quote="Lea is allergic to peanuts")
    assert len(agent(ledger).learning.learn(ledger.learning.unread().token, answer).learned) == 1


def test_the_applications_own_model_counts_as_a_configured_one(ledger: Ledger) -> None:
    tell(ledger, ALLERGY)
    learned = ledger.learning.learn(ledger.learning.unread().token, found(KNOWS, confidence=0.9))
    assert [each.confidence for each in learned.learned] == [0.9]


@pytest.mark.parametrize("decide", ["remember", "promote", "revise"])
def test_an_agents_change_of_what_a_person_decided_waits_for_a_person(ledger: Ledger, decide: str) -> None:
    tell(ledger, "I live in Gent.")
    (memory,) = ledger.memories.list()
    if decide == "remember":
        memory = ledger.remember("The user rides a red bicycle.")
    elif decide == "promote":
        memory = ledger.promote(ledger.propose("The user rides a red bicycle.").id)
    else:
        memory = ledger.revise(memory.id, content="The user lives in Gent, in the north")
    tell(ledger, "I live in Gent.", "I no longer ride a red bicycle, and I moved to Oslo from Gent.")
    unread = ledger.learning.unread()
    fact, message = unread.facts.index(memory.id) + 1, unread.messages - 1
    quote = "I no longer ride a red bicycle, and I moved to Oslo"
    of_both = {"fact": fact, "messages": [message], "said_by": "user", "quote": quote}
    learned = agent(ledger).learning.learn(
        unread.token, {"supersede": [of_both | {"content": "The user rides no bicycle in Oslo"}], "retract": [of_both]}
    )
    assert ledger.memories.get(memory.id).status == "active"
    assert [each.content for each in learned.proposed] == ["The user rides no bicycle in Oslo"]
    assert [each.id for each in learned.contradicted] == [memory.id]
    entries = {entry.memory.id: entry.contradicted_by for entry in ledger.review()}
    assert entries[memory.id] != ()


def test_the_same_answer_again_is_replayed_and_another_one_is_refused(ledger: Ledger) -> None:
    tell(ledger, ALLERGY)
    token, answer = ledger.learning.unread().token, found(KNOWS, quote="allergic to peanuts")
    first = ledger.learning.learn(token, answer)
    again = ledger.learning.learn(token, answer)
    assert (again.replayed, again.memories, again.turns) == (True, first.memories, 0)
    with pytest.raises(KeyReusedError, match="with this token already; call unread"):
        ledger.learning.learn(token, {})


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ("I found nothing.", "no JSON object"),
        ('{"add": [{"content": "The user', "cut off|cannot be read|no JSON"),
        ({"add": [{"kind": "knowledge"}]}, r"add \(missing\)"),
        ({"add": ["The user likes tea"]}, r"add \(wrong_type\)"),
        ({"forget": [{"fact": 1}]}, "no JSON object|unknown_action"),
        (found(KNOWS, message=3), "messages are 1 to 2"),
        ({"retract": [{"fact": 7, "messages": [1], "said_by": "user"}]}, "no facts were shown"),
        ({"add": [{"content": f"Fact {number}"} for number in range(51)]}, "at most 50 actions"),
        (b"{}", "a text or an object"),
        ({"add": {1, 2}}, "as JSON"),
    ],
)
def test_a_broken_answer_records_nothing_and_says_what_is_wrong(ledger: Ledger, answer: Any, says: str) -> None:
    tell(ledger, ALLERGY)
    token, before = ledger.learning.unread().token, ledger.memories.list()
    with pytest.raises(RejectedError, match=says):
        ledger.learning.learn(token, answer)
    assert (ledger.learning.count(), ledger.memories.list()) == (1, before)
    ledger.learning.learn(token, {})


def test_an_answer_to_a_part_counts_that_part_as_read(ledger: Ledger) -> None:
    tell(ledger, ALLERGY, "My brother Tom lives in Oslo.")
    token = ledger.learning.unread().token
    for wrong in (0, 1, 5, True, "2"):
        with pytest.raises(RejectedError, match="upto"):
            ledger.learning.learn(token, {}, upto=wrong)  # type: ignore[arg-type]
    learned = ledger.learning.learn(token, {}, upto=2)
    assert (learned.turns, learned.more) == (1, 1)
    assert asked(ledger.learning.unread().content) == ["My brother Tom lives in Oslo."]


def test_a_dry_run_records_nothing(ledger: Ledger) -> None:
    tell(ledger, ALLERGY)
    token, position = ledger.learning.unread().token, ledger.position
    answer = found(KNOWS, quote="allergic to peanuts")
    would = agent(ledger).learning.learn(token, answer, dry_run=True)
    assert (would.dry_run, [each.content for each in would.learned], ledger.position) == (True, [KNOWS], position)
    assert [each.content for each in agent(ledger).learning.learn(token, answer).learned] == [KNOWS]


@pytest.mark.parametrize("change", ["hidden", "erased", "read", "held", "fact erased"])
def test_a_token_of_turns_that_changed_meanwhile_is_a_conflict(ledger: Ledger, change: str) -> None:
    fact = ledger.remember("The user has a sister called Lea.")
    tell(ledger, ALLERGY)
    unread = ledger.learning.unread()
    session = ledger.session("s1")
    if change == "hidden":
        session.clear()
    elif change == "erased":
        ledger.erase(ledger.interactions.list()[0].id)
    elif change == "read":
        session.extract(model=Scripted({}), since=0)
    elif change == "held":
        ledger.guards.quarantine(ledger.interactions.list()[0].id, reason="to look at")
    else:
        ledger.erase(fact.id)
    with pytest.raises(ConflictError, match="call unread"):
        ledger.learning.learn(unread.token, {})


def test_undo_takes_back_all_that_was_learned_and_nobody_reads_the_turns_again(ledger: Ledger) -> None:
    tell(ledger, "I live in Gent.")
    (memory,) = ledger.memories.list()
    unread = ledger.learning.unread()
    change = {"fact": 1, "content": "The user lives in Oslo", "messages": [1], "said_by": "user"}
    ledger.learning.learn(unread.token, {"supersede": [change]})
    ledger.undo(ledger.history.audit(command="learning.learn")[0].command_id)
    assert [each.id for each in ledger.memories.list()] == [memory.id]
    assert ledger.learning.count() == 0


def test_an_agent_ends_what_only_rules_learned(ledger: Ledger) -> None:
    tell(ledger, "I live in Gent.", "The lease in Gent ran out and the keys are back, I sleep on a friend's sofa.")
    unread = ledger.learning.unread()
    end = {"fact": len(unread.facts), "messages": [3], "said_by": "user", "quote": "The lease in Gent ran out"}
    learned = agent(ledger).learning.learn(unread.token, {"retract": [end]})
    assert [each.content for each in learned.contradicted] == ["The user lives in Gent"]
    assert "The user lives in Gent" not in [each.content for each in ledger.memories.list()]


# --- corrections ------------------------------------------------------------------------------------------------------


def test_an_agent_corrects_by_the_users_own_words_what_rules_learned(ledger: Ledger) -> None:
    tell(ledger, "I live in Gent.")
    tell(ledger, "I live in Gent.", "Our boxes moved to Oslo last week, by the way.")
    (memory,) = ledger.memories.list()
    done = agent(ledger).learning.correct(
        memory.id, "The user lives in Oslo", quote="moved to Oslo", session="s1", reason="the user moved"
    )
    (new,) = (ledger.memories.get(each.id) for each in done.learned)
    assert (new.content, new.confidence, new.supersedes) == ("The user lives in Oslo", 0.6, memory.id)
    assert ledger.memories.get(memory.id).status == "superseded"
    ended = agent(ledger).learning.correct(new.id, ended=True, quote="by the way", session="s1")
    assert [each.id for each in ended.contradicted] == [new.id]
    assert ledger.memories.get(new.id).status == "retracted"


@pytest.mark.parametrize(
    "of",
    [
        {},
        {"session": "s1"},
        {"session": "s1", "quote": "moved to Bergen"},
        {"session": "nobody", "quote": "moved to Oslo"},
    ],
)
def test_a_correction_without_the_users_words_waits(ledger: Ledger, of: dict[str, str]) -> None:
    tell(ledger, "I live in Gent.", "Our boxes moved to Oslo last week, by the way.")
    (memory,) = ledger.memories.list()
    done = agent(ledger).learning.correct(memory.id, "The user lives in Oslo", **of)
    assert (done.learned, [each.content for each in done.proposed]) == ((), ["The user lives in Oslo"])
    assert ledger.memories.get(memory.id).status == "active"
    if of.get("session") == "s1":
        agent(ledger).learning.correct(memory.id, ended=True, **of)
        assert [entry.memory.id for entry in ledger.review() if entry.contradicted_by] == [memory.id]
    else:
        with pytest.raises(RejectedError, match="name the session"):
            agent(ledger).learning.correct(memory.id, ended=True, **of)
    assert ledger.memories.get(memory.id).status == "active"


def test_what_a_person_wrote_is_corrected_by_the_person(ledger: Ledger) -> None:
    memory = ledger.remember("The user lives in Gent")
    tell(ledger, "Our boxes moved to Oslo last week, by the way.")
    done = agent(ledger).learning.correct(memory.id, "The user lives in Oslo", quote="moved to Oslo", session="s1")
    assert (len(done.proposed), ledger.memories.get(memory.id).status) == (1, "active")
    ledger.promote(done.proposed[0].id)
    assert ledger.memories.get(memory.id).status == "superseded"


def test_a_correction_that_makes_no_sense_is_refused(ledger: Ledger) -> None:
    memory = ledger.remember("The user lives in Gent")
    for wrong in ({}, {"content": "x y", "ended": True}):
        with pytest.raises(RejectedError, match="not both"):
            ledger.learning.correct(memory.id, **wrong)  # type: ignore[arg-type]
    with pytest.raises(RejectedError, match="says that already"):
        ledger.learning.correct(memory.id, "The user lives in Gent")
    ledger.retract(memory.id)
    with pytest.raises(RejectedError, match="it is retracted"):
        ledger.learning.correct(memory.id, "The user lives in Oslo")
    with pytest.raises(NotFoundError):
        ledger.learning.correct("m_0000000000000000", "The user lives in Oslo")


# --- whatever is said -------------------------------------------------------------------------------------------------


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=15)
@given(
    told=st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 20)), min_size=1, max_size=12),
    parts=st.lists(st.integers(1, 6), min_size=1, max_size=12),
)
def test_every_turn_is_read_once_in_the_order_of_time(told: list[tuple[str, int]], parts: list[int]) -> None:
    with Ledger.temporary() as ledger:
        said = {}
        for number, (session, day) in enumerate(told):
            text = f"My friend number {number} works at the harbour."
            said[text] = day
            at = f"2026-01-{day + 1:02}T10:00:00Z"
            chat = [{"role": "user", "content": text}, {"role": "assistant", "content": "OK."}]
            for message in chat:
                ledger.session(session).append(message["role"], message["content"], occurred_at=at)
        seen = list[str]()
        for part in [*parts, *[99] * 12]:
            unread = ledger.learning.unread(since="2025-01-01")
            if not unread.token:
                break
            texts = asked(unread.content)
            assert [said[text] for text in texts] == sorted(said[text] for text in texts)
            upto = min(2 * part, unread.messages)
            seen += texts[: ledger.learning.learn(unread.token, {}, upto=upto).turns]
        assert sorted(seen) == sorted(said)
        assert ledger.learning.count(since="2025-01-01") == 0


def test_a_token_is_short_for_many_sessions_and_is_taken(ledger: Ledger) -> None:
    for number in range(60):
        tell(ledger, f"My friend number {number} works at the harbour.", session=f"s{number}")
    unread = ledger.learning.unread(budget=8_000)
    assert unread.turns == 60
    assert len(unread.token) < 12 * unread.turns
    assert ledger.learning.learn(unread.token, {}).turns == 60


# --- a fact that changes within one reading ----------------------------------------------------------------------------

RENT = "My rent is 900 euros a month, for the flat in Gent."
RISE = "The landlord raised my rent to 950 euros a month."


def of_message(message: int, content: str, quote: str, **more: Any) -> dict[str, Any]:
    return {"content": content, "said_by": "user", "messages": [message], "quote": quote, **more}


FIRST = of_message(1, "The user's rent is 900 euros a month", "rent is 900 euros a month")
SECOND = of_message(3, "The user's rent is 950 euros a month", "raised my rent to 950 euros", old=FIRST["content"])


def test_an_answer_replaces_what_the_same_answer_added(ledger: Ledger) -> None:
    tell(ledger, RENT, RISE, extract="off")
    learned = agent(ledger).learning.learn(
        ledger.learning.unread().token, {"add": [FIRST], "supersede": [SECOND | {"reason": "raised"}]}
    )
    assert [each.content for each in learned.learned] == [SECOND["content"]]
    (old,) = learned.contradicted
    before, after = ledger.memories.get(old.id), ledger.memories.get(learned.learned[0].id)
    assert (before.content, before.status, before.superseded_by) == (FIRST["content"], "superseded", after.id)
    assert after.supersedes == before.id and before.valid_to == after.valid_from
    lines = ledger.context("What is my rent?").as_text().splitlines()
    assert any("950" in line for line in lines) and not any("900" in line for line in lines)
    ledger.undo(ledger.history.audit(subject=after.id)[0].event_id)
    assert ledger.memories.list() == []


def test_a_chain_of_changes_in_one_answer_may_stand_in_any_order(ledger: Ledger) -> None:
    tell(ledger, RENT, RISE, "From May on my rent is 990 euros a month.")
    third = of_message(5, "The user's rent is 990 euros a month", "my rent is 990 euros", old=SECOND["content"])
    answer = {"add": [FIRST], "supersede": [third, SECOND]}
    learned = agent(ledger).learning.learn(ledger.learning.unread().token, answer)
    assert [each.content for each in learned.learned] == [third["content"]]
    assert [ledger.memories.get(each.id).status for each in learned.contradicted] == ["superseded"] * 2
    assert learned.dropped == ()


def test_an_answer_ends_what_the_same_answer_added(ledger: Ledger) -> None:
    tell(ledger, "I row in the eight on Sundays, at the club.", "I gave up rowing, my back is too bad.")
    added = of_message(1, "The user rows in the eight on Sundays", "I row in the eight on Sundays")
    ended = {"old": added["content"], "said_by": "user", "messages": [3], "quote": "I gave up rowing"}
    learned = agent(ledger).learning.learn(ledger.learning.unread().token, {"add": [added], "retract": [ended]})
    assert (learned.learned, learned.dropped) == ((), ())
    assert [ledger.memories.get(each.id).status for each in learned.contradicted] == ["retracted"]


def test_what_waits_for_review_is_replaced_by_nothing_of_the_same_answer(ledger: Ledger) -> None:
    tell(ledger, RENT, RISE, extract="off")
    answer = {"add": [FIRST | {"quote": ""}], "supersede": [SECOND]}
    learned = agent(ledger).learning.learn(ledger.learning.unread().token, answer)
    assert [each.content for each in learned.learned] == [SECOND["content"]]
    assert [each.content for each in learned.proposed] == [FIRST["content"]]


def test_a_successor_without_the_users_words_leaves_the_first_fact_active(ledger: Ledger) -> None:
    tell(ledger, RENT, RISE, extract="off")
    answer = {"add": [FIRST], "supersede": [SECOND | {"quote": ""}]}
    learned = agent(ledger).learning.learn(ledger.learning.unread().token, answer)
    assert [each.content for each in learned.learned] == [FIRST["content"]]
    assert [each.content for each in learned.proposed] == [SECOND["content"]]


def test_what_the_same_answer_states_and_is_known_already_is_replaced_too(ledger: Ledger) -> None:
    known = ledger.bind(channel="agent").remember(FIRST["content"])
    tell(ledger, RENT, RISE, extract="off")
    learned = agent(ledger).learning.learn(ledger.learning.unread().token, {"add": [FIRST], "supersede": [SECOND]})
    assert [each.content for each in learned.learned] == [SECOND["content"]]
    assert ledger.memories.get(known.id).superseded_by == learned.learned[0].id


def test_what_a_person_wrote_waits_for_the_person_also_where_the_same_answer_states_it(ledger: Ledger) -> None:
    known = ledger.remember(FIRST["content"])
    tell(ledger, RENT, RISE, extract="off")
    answer = {"add": [FIRST], "supersede": [SECOND], "retract": [FIRST | {"old": FIRST["content"]}]}
    learned = agent(ledger).learning.learn(ledger.learning.unread().token, answer)
    assert (learned.learned, [each.content for each in learned.proposed]) == ((), [SECOND["content"]])
    assert ledger.memories.get(known.id).status == "active"


def test_a_configured_model_replaces_what_its_own_answer_added(ledger: Ledger) -> None:
    model = Scripted(
        {"add": [FIRST], "supersede": [SECOND], "relations": [{"subject": "a", "relation": "b", "object": "c"}]}
    )
    for text in (RENT, RISE):
        tell(ledger, text, extract="off")
    report = ledger.session("s1").extract(model=model)
    assert [each.content for each in ledger.memories.list()] == [SECOND["content"]]
    assert len(report.superseded) == 1
    assert ledger.graph.neighbors("a") != []
