"""Sessions: what is appended is there, in order and as it was said; what is hidden stays in the log; nothing crosses."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import probe
import pytest
from absence import absent
from conftest import Clock, folded_from_zero
from conversations import PICTURE, RAIN, WEATHER, said, totals_agree
from full import full
from soundness import assert_sound, events_of
from threads import together

from ledger import ConflictError, Ledger, LedgerError, ModelError, RejectedError
from ledger.domain.errors import ReadOnlyError
from ledger.sessions.rules.message import TEXT_BYTES, readable
from ledger.types import Event, SessionPatterns
from projections.views import sessions
from projections.views.sessions import besides


def raw_log(ledger: Ledger) -> bytes:
    with probe.store(ledger).snapshot() as connection:
        states = [state.encode() for (state,) in connection.execute("SELECT state FROM events ORDER BY position")]
        return b"\n".join([*states, *(bytes(each) for (each,) in connection.execute("SELECT data FROM blobs"))])


# --- beginning -------------------------------------------------------------------------------------------------------


def test_asking_for_a_session_writes_nothing_and_its_first_message_opens_it(ledger: Ledger) -> None:
    before, session = ledger.position, ledger.session("chat")
    assert session.messages() == session.summaries.list() == ledger.sessions.list() == []
    assert session.id is None and absent(session.info) and session.abstract == ""
    assert ledger.position == before
    session.append("user", "Hello")
    assert session.id is not None and session.id.startswith("s_") and said(session) == ["Hello"]
    assert [each.name for each in ledger.sessions.list()] == ["chat"]


def test_a_session_keeps_the_project_that_it_began_in(ledger: Ledger) -> None:
    ledger.session("chat", project="Kitchen").append("user", "Hello")
    ledger.session("chat", project="garden").append("user", "Again")
    (info,) = ledger.sessions.list(project="kitchen")
    assert (info.name, info.project, info.messages) == ("chat", "Kitchen", 2)
    assert ledger.sessions.list(project="garden") == []


@pytest.mark.parametrize("id", ["", "  ", "\n", None, 7, b"chat", "x" * 1025, "half \ud800"])
def test_an_id_is_a_text_that_is_not_blank(ledger: Ledger, id) -> None:
    before = ledger.position
    with pytest.raises(RejectedError):
        ledger.session(id).append("user", "Hello")
    with pytest.raises(RejectedError):
        ledger.session(id).messages()
    assert ledger.position == before


IDS = [
    "a:b/c",
    "a_b_c",
    "a/b:c",
    "A:b/c",
    "a:b/c ",
    "a\\b\\c",
    "../a",
    "a:b",
    "a",
    "é",
    "e\u0301",
    "s_",
    "m_0",
    "a%",
    "a*",
    "a\0b",
]


def test_two_ids_never_collide_whatever_signs_they_hold(ledger: Ledger) -> None:
    for id in IDS:
        ledger.session(id).append("user", f"said in {id!r}")
    for id in IDS:
        assert said(ledger.session(id)) == [f"said in {id!r}"]
    assert sorted(each.name or "" for each in ledger.sessions.list()) == sorted(IDS)


def test_a_name_like_the_beginning_of_an_id_is_not_taken_for_it(ledger: Ledger) -> None:
    first = ledger.session("chat")
    first.append("user", "secret of the first")
    assert first.id is not None
    for name in (first.id[:3], first.id[:8], first.id[:-1], first.id.upper()):
        other = ledger.session(name)
        assert other.id is None and other.messages() == [] and absent(other.info), name
        other.append("user", f"of {name}")
        assert said(other) == [f"of {name}"]
    assert said(ledger.session(first.id)) == said(first) == ["secret of the first"]
    assert said(ledger.session(first.id)) == ["secret of the first"]


# --- messages --------------------------------------------------------------------------------------------------------


def test_a_message_is_read_as_it_was_given(ledger: Ledger) -> None:
    session = ledger.session("chat")
    given = session.append(
        "assistant", "Let me look.", parts=[WEATHER, {"type": "reasoning", "text": "hm"}], model="m-1"
    )
    assert (given.content, given.reasoning, given.parts, given.model) == ("Let me look.", "hm", (WEATHER,), "m-1")
    (read,) = session.messages()
    assert read == given == session.message(given.position)
    assert read.occurred_at == read.recorded_at == "2026-01-01T12:00:00.000000Z"
    assert (read.hidden, read.replayed, read.skipped, read.interaction, read.session) == ("", False, "", None, "chat")


def test_all_kinds_of_parts_come_back_each_with_its_text(ledger: Ledger) -> None:
    session = ledger.session("chat")
    text = {"type": "text", "text": "a longer text than the others, so that it is the content"}
    parts = [{"type": "text", "text": "Look:"}, PICTURE, text, WEATHER]
    session.append("assistant", parts=parts)
    session.append("tool", parts=[RAIN | {"text": "rain " * 100}])
    session.append("tool", "said besides", parts=[RAIN])
    session.append("user", parts=[{"type": "text", "text": "alone"}])
    read = session.messages()
    assert [list(each.parts) for each in read] == [parts, [RAIN | {"text": "rain " * 100}], [RAIN], []]
    assert [each.content for each in read] == [text["text"], "rain " * 100, "said besides", "alone"]
    assert "[tool_use: weather" in read[0].text and "[media: https://a.example/cat.png]" in read[0].text
    assert readable(read[1].content, read[1].parts).startswith("[tool_result for call_1: rain")


def test_the_long_names_of_fields_are_read_too(ledger: Ledger) -> None:
    session = ledger.session("chat")
    session.append("assistant", parts=[{"type": "tool_use", "id": "c", "name": "look", "input": {"a": 1}}])
    session.append("tool", parts=[{"type": "tool_result", "tool_use_id": "c", "content": "done"}])
    assert session.messages()[0].parts == ({"type": "tool_use", "id": "c", "name": "look", "arguments": {"a": 1}},)
    assert session.messages()[1].parts == ({"type": "tool_result", "id": "c", "text": "done"},)


@pytest.mark.parametrize(
    ("role", "content", "parts", "match"),
    [
        ("robot", "Hi", (), "the unknown role 'robot'; there are: system"),
        ("User", "Hi", (), "role"),
        (None, "Hi", (), "role"),
        (["user"], "Hi", (), "role"),
        ("user", "", (), "blank"),
        ("user", " \n", (), "blank"),
        ("user", None, [{"type": "text", "text": " "}], "blank"),
        ("user", None, [{"type": "media", "uri": ""}], "blank"),
        ("user", 5, (), "text"),
        ("user", "half \ud800", (), "surrogate"),
        ("tool", "It rains.", (), "names no call: give its tool_call_id, or the part"),
        ("tool", "", [{"type": "text", "text": "It rains."}], "names no call"),
        ("tool", "", [{"type": "tool_result", "text": "It rains."}], "id"),
        ("user", "", [{"type": " ", "text": "la"}], "type ' '"),
        ("user", "", [{"text": "la"}], "type None"),
        ("user", "", ["la"], "part 1 of the message is an object"),
        ("user", "", "la", "a list of objects"),
        ("user", "", {"type": "text", "text": "la"}, "a list of objects"),
        ("user", "", 5, "a list of objects"),
        ("user", "", [{"type": "text", "text": "la", "colour": {1, 2}}], "what else part 1 of the message has.colour is of"),
        ("user", "", [{"type": "text", "text": "la", 5: "red"}], "keys are text"),
        ("user", "", [{"type": "text", "text": "la", "extra": "red"}], "the extra of part 1 of the message is an object"),
        ("user", "", [{"type": "text", "text": "la", "extra": {"openai": 5}}], "the fields of each provider"),
        ("assistant", "", [{"type": "tool_use", "id": "c", "name": "n", "arguments": {"a": float("nan")}}], "arguments"),
        ("assistant", "", [{"type": "tool_use", "id": "c", "name": "n", "arguments": {"a": 2**70}}], "arguments"),
        ("assistant", "", [{"type": "tool_use", "id": " ", "name": "n"}], "id"),
        ("user", "x", [{"type": "text", "text": str(n)} for n in range(1_001)], "1,001 parts"),
        ("user", "x", [{"type": "text", "text": "y" * 300_000}, {"type": "text", "text": "z" * 300_000}], "bytes"),
    ],
)  # fmt: skip
def test_an_invalid_message_is_refused_with_the_field_and_stores_nothing(
    ledger: Ledger, role, content, parts, match
) -> None:
    before = ledger.position
    with pytest.raises(RejectedError, match=match):
        ledger.session("chat").append(role, content, parts=parts)
    assert ledger.position == before and ledger.session("chat").id is None


@pytest.mark.slow
def test_deep_arguments_are_refused(ledger: Ledger) -> None:
    deep: list = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(RejectedError, match="deep"):
        ledger.session("chat").append("assistant", parts=[WEATHER | {"arguments": deep}])
    while deep:
        deep = deep.pop()  # level by level: an end of it all at once would recurse


def test_an_answer_of_reasoning_alone_is_not_stored_and_says_so(ledger: Ledger) -> None:
    session, before = ledger.session("chat"), ledger.position
    found = session.append("assistant", parts=[{"type": "reasoning", "text": "I think"}])
    assert (found.skipped, found.position, found.reasoning) == ("transient", 0, "I think")
    assert ledger.position == before and session.messages() == []
    session.append("user", parts=[{"type": "reasoning", "text": "kept: no assistant's"}])
    assert len(session.messages()) == 1


def test_characters_of_all_kinds_come_back_unchanged(ledger: Ledger) -> None:
    session = ledger.session("chat")
    texts = ["a\0b", "\u202eright to left", "👩‍👩‍👧 e\u0301", "日本語", "\ufeff", "\r\n tail \t", "<summary>&amp;"]
    for text in texts:
        session.append("user", text)
    assert said(session) == texts


@pytest.mark.slow
def test_ten_megabytes_go_in_and_come_back_and_a_byte_more_is_refused(tmp_path: Path) -> None:
    text = "é" + "word " * (TEXT_BYTES // 5 - 1) + "xyz"
    assert len(text.encode()) == TEXT_BYTES
    with Ledger.open(tmp_path / "memory.db") as ledger:
        session = ledger.session("chat")
        assert session.append("tool", parts=[RAIN | {"text": text}]).tokens > 0
        (event,) = events_of(ledger, "MessageAppended")
        assert len(json.dumps(event)) < 5_000, "a large text lies in the blobs"
        assert said(session) == [text] and session.messages()[0].parts == (RAIN | {"text": text},)
        with pytest.raises(RejectedError, match="bytes"):
            session.append("user", text + "x")


def test_a_time_of_its_own_is_kept_and_the_order_is_that_of_appending(ledger: Ledger, clock: Clock) -> None:
    session = ledger.session("chat")
    session.append("user", "late", occurred_at="2026-03-01T10:00:00+02:00")
    session.append("user", "early", occurred_at="2020-01-01")
    clock.advance(hours=-1)
    session.append("user", "now")
    read = session.messages()
    assert [(each.content, each.occurred_at) for each in read] == [
        ("late", "2026-03-01T08:00:00.000000Z"),
        ("early", "2020-01-01T00:00:00.000000Z"),
        ("now", "2026-01-01T11:00:00.000000Z"),
    ]
    for bad in ("yesterday", 5, "2026-13-01", float("nan")):
        with pytest.raises(RejectedError, match="occurred_at"):
            session.append("user", "x", occurred_at=bad)


def test_tokens_are_the_callers_or_the_counters_and_say_whose(ledger: Ledger) -> None:
    session = ledger.session("chat")
    given, counted = session.append("user", "Hello there", token_count=77), session.append("user", "Hello there")
    assert (given.tokens, given.counter) == (77, "given") and counted.counter == "estimate/1"
    assert session.append("user", "none", token_count=0).tokens == 0
    picture = session.append("user", "Hello there", parts=[PICTURE])
    assert picture.tokens > counted.tokens + 255
    for bad in (-1, 1.5, True, "7", float("nan"), 2**50):
        with pytest.raises(RejectedError, match="token"):
            session.append("user", "x", token_count=bad)
    totals_agree(session)


def test_a_counter_that_fails_stores_nothing(tmp_path: Path) -> None:
    answers = iter([RuntimeError("no"), -1, 1.5, None, True, 2**60])

    def counter(text: str) -> int:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[return-value]

    with Ledger.open(tmp_path / "memory.db", token_counter=counter) as ledger:
        for _ in range(6):
            with pytest.raises(ModelError, match="counter"):
                ledger.session("chat").append("user", "Hello")
        assert ledger.sessions.list() == []


def test_messages_are_paged_from_the_end(ledger: Ledger) -> None:
    session = ledger.session("chat")
    for number in range(10):
        session.append("user", str(number))
    page = session.messages(limit=3)
    assert [each.content for each in page] == ["7", "8", "9"]
    assert said(session, limit=3, after=page.next) == ["4", "5", "6"]
    assert session.messages(limit=10).next is None and said(session, limit=0) == []
    for bad in (True, 1.0, "3", -1):
        with pytest.raises(RejectedError, match="limit"):
            session.messages(limit=bad)
    assert absent(session.message, 10**9) and absent(session.message, "1") and absent(session.message, True)  # type: ignore[arg-type]


# --- keys ------------------------------------------------------------------------------------------------------------


def test_the_same_key_appends_once_and_other_arguments_conflict(ledger: Ledger) -> None:
    session = ledger.session("chat")
    first = session.append("user", "Hello", occurred_at="2026-01-01", idempotency_key="k")
    position = ledger.position
    again = session.append("user", "Hello", occurred_at="2026-01-01", idempotency_key="k")
    assert (again.position, again.content, again.replayed) == (first.position, "Hello", True)
    for other in (
        lambda: session.append("user", "Hello!", occurred_at="2026-01-01", idempotency_key="k"),
        lambda: session.append("assistant", "Hello", occurred_at="2026-01-01", idempotency_key="k"),
        lambda: session.append("user", "Hello", idempotency_key="k"),
        lambda: session.append("user", "Hello", occurred_at="2026-01-01", model="m", idempotency_key="k"),
        lambda: session.append("user", "Hello", occurred_at="2026-01-01", token_count=3, idempotency_key="k"),
        lambda: ledger.session("other").append("user", "Hello", occurred_at="2026-01-01", idempotency_key="k"),
        lambda: session.truncate(0, idempotency_key="k"),
    ):
        with pytest.raises(ConflictError):
            other()
    assert ledger.position == position and said(session) == ["Hello"]


def test_a_key_belongs_to_its_user(ledger: Ledger) -> None:
    ledger.session("chat").append("user", "mine", idempotency_key="k")
    other = ledger.bind(user="ben").session("chat").append("user", "his", idempotency_key="k")
    assert not other.replayed and said(ledger.bind(user="ben").session("chat")) == ["his"]


def test_every_command_takes_a_key(ledger: Ledger) -> None:
    session = ledger.session("chat")
    for number in range(5):
        session.append("user", str(number))
    for act in (
        lambda: session.truncate(3, idempotency_key="t"),
        lambda: session.reconcile([{"role": "user", "content": "2"}], idempotency_key="r"),
        lambda: session.replace([{"role": "user", "content": "new"}], idempotency_key="p"),
        lambda: session.clear(idempotency_key="c"),
    ):
        first = act()
        position = ledger.position
        again = act()
        assert (first.replayed, again.replayed) == (False, True) and ledger.position == position
    session.set_abstract("so far", idempotency_key="s")
    session.set_abstract("other")
    assert session.set_abstract("so far", idempotency_key="s") == "so far" and session.abstract == "other"


# --- users -----------------------------------------------------------------------------------------------------------

USERS = ("ann", "ben", "cid")


@pytest.mark.slow
def test_sessions_of_different_users_share_nothing(ledger: Ledger) -> None:
    ids = {}
    for user in USERS:
        session = ledger.bind(user=user).session("chat")
        for number in range(50):
            session.append("user", f"CANARY-{user} {number} " + "word " * 60, idempotency_key=f"k{number}")
        session.set_abstract(f"CANARY-{user} summary")
        session.add_alias(f"alias of CANARY-{user}")
        session.compact()
        ids[user] = (session.id, session.summaries.list()[0].id, session.messages(limit=1)[0].position)
    for user in USERS:
        others = [each for each in USERS if each != user]
        session, told = ledger.bind(user=user).session("chat"), []
        told += [session.messages(include_hidden=True), session.summaries.list(), session.abstract, session.info()]
        told += [ledger.bind(user=user).sessions.list(), session.window(10_000), session.window(10_000).render()]
        for other in others:
            theirs, summary, position = ids[other]
            assert absent(session.message, position)
            for ask, given in (
                (lambda id, user: ledger.bind(user=user).session(id).append("user", "in theirs?"), (theirs, user)),
                (session.summaries.invalidate, (summary,)),
                (session.summaries.restore, (summary,)),
                (lambda id, session: session.summaries.rewrite(id, summarizer=lambda _: "x"), (summary, session)),
                (session.add_alias, (theirs,)),
            ):
                with pytest.raises(LedgerError) as refused:
                    ask(*given)
                told.append(str(refused.value))
            assert ledger.bind(user=user).session(theirs).messages() == []
            assert ledger.bind(user=user).session(f"alias of CANARY-{other}").messages() == []
        assert not any(f"CANARY-{other}" in full(told) for other in others)


# --- aliases ---------------------------------------------------------------------------------------------------------


def test_an_alias_is_another_name(ledger: Ledger) -> None:
    session = ledger.session("chat")
    session.append("user", "one")
    info = session.add_alias("telegram:7")
    assert info.aliases == ("telegram:7",)
    ledger.session("telegram:7").append("user", "two")
    assert said(session) == ["one", "two"] and len(ledger.sessions.list()) == 1
    position = ledger.position
    assert session.add_alias("telegram:7").aliases == session.add_alias("chat").aliases == ("telegram:7",)
    assert ledger.position == position, "as it was"
    for blank in ("", " ", 5):
        with pytest.raises(RejectedError):
            session.add_alias(blank)  # type: ignore[arg-type]


def test_a_history_goes_over_to_an_empty_session(ledger: Ledger) -> None:
    ledger.session("old").append("user", "said before")
    info = ledger.session("canonical").add_alias("old")
    assert said(ledger.session("canonical")) == said(ledger.session("old")) == ["said before"]
    assert info.messages == 1 and len(ledger.sessions.list()) == 1
    ledger.session("canonical").append("user", "and now")
    assert said(ledger.session("old")) == ["said before", "and now"]


def test_an_empty_session_gives_its_name_up(ledger: Ledger) -> None:
    ledger.session("empty").set_abstract("nothing was said")
    session = ledger.session("chat")
    session.append("user", "one")
    session.add_alias("empty")
    assert said(ledger.session("empty")) == ["one"] and [each.name for each in ledger.sessions.list()] == ["chat"]


def test_two_histories_are_not_mixed(ledger: Ledger) -> None:
    one, two = ledger.session("one"), ledger.session("two")
    one.append("user", "1"), two.append("user", "2")
    with pytest.raises(ConflictError, match="another session with a history"):
        one.add_alias("two")
    assert (said(one), said(two)) == (["1"], ["2"])
    one.clear()  # as the refusal says
    one.add_alias("two")
    assert said(one) == said(two) == ["2"]


def test_a_shared_name_brings_no_history_along(ledger: Ledger) -> None:
    for shared in ("main", "agent:7:main"):
        ledger.session(shared).append("user", "of many")
        with pytest.raises(RejectedError, match="shared"):
            ledger.session("mine").add_alias(shared)
        assert ledger.session("mine").messages() == [] and said(ledger.session(shared)) == ["of many"]


# --- the summary -----------------------------------------------------------------------------------------------------


def test_a_summary_is_set_changed_and_cleared(ledger: Ledger) -> None:
    session = ledger.session("chat")
    assert session.set_abstract("") == "" and session.abstract == ""
    assert session.set_abstract("So far") == session.abstract == "So far"
    first = ledger.position
    session.set_abstract("So far")
    assert ledger.position == first, "as it was"
    assert session.info().has_abstract
    session.set_abstract("More")
    session.set_abstract("")
    assert session.abstract == "" and not session.info().has_abstract
    assert ledger.at(first).session("chat").abstract == "So far"
    large = "x" * 1024 * 1024
    assert session.set_abstract(large) == session.abstract == large
    for bad in (large + "x", None, 5, "\ud800"):
        with pytest.raises(RejectedError):
            session.set_abstract(bad)  # type: ignore[arg-type]
    session.append("user", "Hello")
    session.clear()
    assert session.abstract == "" and not session.info().has_abstract


# --- hiding ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def ten(ledger: Ledger):
    session = ledger.session("chat")
    for number in range(10):
        session.append("user", str(number))
    return session


def test_truncate_keeps_the_last_and_hides_the_rest(ledger: Ledger, ten) -> None:
    before = ledger.position
    found = ten.truncate(3)
    assert (found.change, found.hidden) == ("truncated", 7)
    assert said(ten) == ["7", "8", "9"]
    shown = ten.messages(include_hidden=True)
    assert [(each.content, each.hidden) for each in shown] == [(str(n), "truncate" if n < 7 else "") for n in range(10)]
    assert said(ledger.at(before).session("chat")) == [str(n) for n in range(10)]
    assert ten.message(shown[0].position).hidden == "truncate"
    for keep in (3, 100, 2**70):
        assert ten.truncate(keep).change == "none"
    totals_agree(ten)
    ten.append("user", "10")
    assert ten.truncate(2).hidden == 2 and said(ten) == ["9", "10"]
    assert ten.truncate(0).hidden == 2 and ten.messages() == [] and ten.info().hidden == 11
    totals_agree(ten)
    for bad in (True, 1.5, "3", None):
        with pytest.raises(RejectedError, match="keep is a whole number"):
            ten.truncate(bad)


def test_clear_begins_anew(ledger: Ledger, ten) -> None:
    ten.set_abstract("So far")
    before = ledger.position
    assert (ten.clear().hidden, ten.messages(), ten.abstract) == (10, [], "")
    past = ledger.at(before).session("chat")
    assert len(past.messages()) == 10 and past.abstract == "So far"
    ten.append("user", "anew")
    assert said(ten) == ["anew"] and len(said(ten, include_hidden=True)) == 11
    assert ten.clear().hidden == 1 and ten.clear().change == "none"


def test_replace_keeps_what_is_common_and_hides_the_rest(ledger: Ledger, ten) -> None:
    before = ledger.position
    found = ten.replace([{"role": "user", "content": text} for text in ("0", "1", "two")])
    assert (found.change, found.kept, found.hidden, found.appended) == ("replaced", 2, 8, 1)
    assert said(ten) == ["0", "1", "two"]
    assert len(said(ledger.at(before).session("chat"))) == 10
    assert {each.hidden for each in ten.messages(include_hidden=True)} == {"", "replace"}
    totals_agree(ten)
    assert ten.replace([]).hidden == 3 and ten.messages() == []


def test_a_session_of_the_past_is_for_reading(ledger: Ledger, ten) -> None:
    past = ledger.at(ledger.position).session("chat")
    ten.clear()
    assert len(past.messages()) == 10 and past.info().messages == 10 and past.id == ten.id
    assert past.window(1_000).evicted.items == 0
    with pytest.raises(ReadOnlyError):
        past.window(1_000, receipt=True)
    assert ledger.at(1).session("chat").messages() == [] and ledger.at(1).session("chat").id is None


# --- patterns --------------------------------------------------------------------------------------------------------


@pytest.fixture
def filtered(tmp_path: Path):
    path = tmp_path / "memory.db"
    with Ledger.open(path) as ledger:
        for name in ("cron:1", "probe:1", "chat"):
            for number in range(20):
                ledger.session(name).append("user", f"{name} {number}")
    with Ledger.open(path, sessions=SessionPatterns(ignore=("cron:*",), read_only=("probe:**",))) as ledger:
        yield ledger
        assert ledger.proof.digest() == folded_from_zero(ledger)


@pytest.mark.parametrize(("name", "why"), [("heartbeat", "ignored"), ("cron:1", "ignored"), ("probe:1", "stateless")])
def test_a_session_that_matches_an_ignore_pattern_stores_nothing(filtered: Ledger, name: str, why: str) -> None:
    session, before = filtered.session(name), filtered.position
    found = session.append("user", "Hello")
    assert (found.skipped, found.position, found.content) == (why, 0, "Hello")
    assert session.reconcile([{"role": "user", "content": "Hello"}]).skipped == why
    assert session.replace([]).skipped == session.truncate(0).skipped == session.clear().skipped == why
    assert session.compact().skipped[0].why == session.compact(10, until_under=True).skipped[0].why == why
    assert session.set_abstract("S") == ""
    for act in (
        lambda: session.add_alias("other"),
        lambda: session.summaries.restore("y_0000000000000000"),
        lambda: session.summaries.rewrite("y_0000000000000000", summarizer=lambda _: "x"),
    ):
        with pytest.raises(RejectedError, match=why):
            act()
    assert filtered.position == before
    with pytest.raises(RejectedError, match="role"):
        session.append("robot", "a mistake is one in any session")


def test_an_ignored_session_has_nothing_to_read_and_a_stateless_one_what_was_there(filtered: Ledger) -> None:
    ignored, stateless = filtered.session("cron:1"), filtered.session("probe:1")
    assert ignored.messages() == ignored.summaries.list() == [] and ignored.id is None and absent(ignored.info)
    assert absent(ignored.message, 3) and ignored.abstract == ""
    empty = ignored.window(1_000)
    assert (empty.entries, empty.skipped, empty.used) == ((), "ignored", 0)
    assert len(stateless.messages()) == 20 and len(stateless.window(1_000).entries) == 20
    assert (
        len(filtered.session("cron:1:2").messages()) == 0 and filtered.session("cron:1:2").append("user", "x").position
    )


@pytest.mark.parametrize("name", ["heartbeat", "cron:9", "probe:9"])
def test_a_turn_captured_in_a_filtered_session_appends_no_message(filtered: Ledger, name: str) -> None:
    turn = filtered.capture("What?", "That.", session=name, append=True)
    later = filtered.capture("And?", session=name, append=True)
    filtered.interactions.add_response(later.id, "Nothing.")
    assert turn.prompt == "What?" and events_of(filtered, "MessageAppended")[60:] == []
    assert filtered.session(name).messages() == []


# --- turns -----------------------------------------------------------------------------------------------------------


def test_a_captured_turn_is_two_messages_and_its_text_is_stored_once(ledger: Ledger) -> None:
    turn = ledger.capture("CANARY-prompt?", "CANARY-response.", session="chat", append=True)
    session = ledger.session("chat")
    read = session.messages()
    assert [(each.role, each.content, each.interaction) for each in read] == [
        ("user", "CANARY-prompt?", turn.id),
        ("assistant", "CANARY-response.", turn.id),
    ]
    log = raw_log(ledger)
    assert log.count(b"CANARY-prompt") == log.count(b"CANARY-response") == 1
    both = [*events_of(ledger, "MessageAppended"), *events_of(ledger, "InteractionCaptured")]
    commands = {each["command_id"] for each in both}
    assert len(commands) == 1, "one append"
    totals_agree(session)
    assert session.window(1_000).render().messages[-1] == {"role": "assistant", "content": "CANARY-response."}


def test_a_response_attached_later_is_the_answer_in_its_place(ledger: Ledger) -> None:
    turn = ledger.capture("Question?", session="chat", append=True)
    session = ledger.session("chat")
    session.append("user", "Are you there?")
    ledger.interactions.add_response(turn.id, "CANARY yes " + "y" * 300_000)
    assert [each.role for each in session.messages()] == ["user", "user", "assistant"]
    assert session.messages(limit=1)[0].content == "CANARY yes " + "y" * 300_000
    assert raw_log(ledger).count(b"CANARY yes") == 1
    plain = ledger.capture("Not tied", session="chat")
    ledger.interactions.add_response(plain.id, "Nor is this.")
    assert len(session.messages()) == 3


def test_a_turn_captured_under_an_alias_goes_to_the_session_and_counts_as_its_messages(
    ledger: Ledger,
) -> None:
    session = ledger.session("chat")
    session.append("user", "one")
    session.add_alias("telegram:7")
    with ledger.batch():
        ledger.capture("two", "three", session="telegram:7", append=True)
    assert said(session) == ["one", "two", "three"]
    told = [{"role": each.role, "content": each.content} for each in session.messages()]
    assert session.reconcile(told).change == "none"
    assert session.reconcile(told[:2]).hidden == 1 and said(session) == ["one", "two"]
    totals_agree(session)


def test_a_turn_needs_a_session_and_blank_answers_are_no_message(ledger: Ledger) -> None:
    for blank in (None, "", "  "):
        with pytest.raises(RejectedError, match="needs a session"):
            ledger.capture("What?", session=blank, append=True)
    ledger.capture("What?", "  ", session="chat", append=True)
    assert said(ledger.session("chat")) == ["What?"]
    same = [ledger.capture("Once", "only", session="chat", append=True, idempotency_key="k").id for _ in range(2)]
    assert same[0] == same[1] and len(said(ledger.session("chat"))) == 3


# --- batches, threads, processes -------------------------------------------------------------------------------------


def test_a_batch_is_read_inside_and_taken_back_whole(ledger: Ledger) -> None:
    session = ledger.session("chat")
    with ledger.batch():
        for number in range(20):
            session.append("user", str(number))
        session.truncate(5)
        session.replace([*({"role": "user", "content": str(n)} for n in (15, 16)), {"role": "user", "content": "new"}])
        assert said(session) == ["15", "16", "new"]
        totals_agree(session)
    assert said(session) == ["15", "16", "new"]
    with pytest.raises(RuntimeError), ledger.batch():
        session.append("user", "gone")
        ledger.session("other").append("user", "gone")
        raise RuntimeError
    assert said(session) == ["15", "16", "new"] and ledger.session("other").id is None
    totals_agree(session)


def test_eight_threads_append_to_one_session(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "memory.db") as ledger:
        session = ledger.session("chat")

        def work(name: int) -> None:
            for number in range(25):
                found = session.append("user", f"{name} {number}")
                assert found.content == f"{name} {number}"

        assert together(*(lambda name=name: work(name) for name in range(8))) == []
        read = session.messages(limit=1_000)
        for name in range(8):
            assert [each.content for each in read if each.content.startswith(f"{name} ")] == [
                f"{name} {n}" for n in range(25)
            ]
        assert len(read) == 200 and len(ledger.sessions.list()) == 1
        totals_agree(session)
        assert_sound(ledger)


APPENDER = """
import sys
from ledger import Ledger
with Ledger.open(sys.argv[1]) as ledger:
    for number in range(40):
        ledger.session("chat").append("user", f"{sys.argv[2]} {number}")
"""


@pytest.mark.slow
def test_two_processes_append_to_one_session(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    others = [subprocess.Popen([sys.executable, "-c", APPENDER, str(path), name]) for name in "ab"]
    assert [other.wait() for other in others] == [0, 0]
    with Ledger.open(path) as ledger:
        texts = said(ledger.session("chat"))
        assert [each for each in texts if each[0] == "a"] == [f"a {n}" for n in range(40)]
        assert [each for each in texts if each[0] == "b"] == [f"b {n}" for n in range(40)]
        assert len(texts) == 80 and len(ledger.sessions.list()) == 1
        totals_agree(ledger.session("chat"))
        assert_sound(ledger)


# --- who speaks ------------------------------------------------------------------------------------------------------


def test_the_name_of_who_speaks_is_kept_and_comes_back_in_every_form(ledger: Ledger) -> None:
    session = ledger.session("party")
    session.append("user", "I moved to Porto.", speaker="Caroline")
    session.reconcile(
        [
            *(message.as_chat() for message in session.messages()),
            {"role": "user", "name": "Melanie", "content": "Since when?"},
        ]
    )
    assert [(each.speaker, each.content) for each in session.messages()] == [
        ("Caroline", "I moved to Porto."),
        ("Melanie", "Since when?"),
    ]
    assert session.reconcile([message.as_chat() for message in session.messages()]).change == "none"
    window = session.window(1_000)
    assert [(each["name"], each["content"]) for each in window.render().messages] == [
        ("Caroline", "I moved to Porto."),
        ("Melanie", "Since when?"),
    ]
    (both,) = window.render("anthropic").messages
    assert [each["text"] for each in both["content"]] == ["Caroline: I moved to Porto.", "Melanie: Since when?"]
    session.append("user", "Since May.", speaker="Ann Lee")
    assert session.window(1_000).render().messages[-1] == {"role": "user", "content": "Ann Lee: Since May."}


def test_recall_knows_who_spoke_where_that_is_asked(ledger: Ledger) -> None:
    for name in ("Ann", "Ben", "Caroline", "Dora"):
        ledger.session("party").append("user", "I moved to Porto last year.", speaker=name)
    best = ledger.recall("Where did Caroline move?", among=("turns",)).items[0]
    told = ledger.session("party").message(best.passage.position)
    assert told.speaker == "Caroline"


def test_the_same_words_of_another_speaker_are_another_message(ledger: Ledger) -> None:
    session = ledger.session("party")
    session.append("user", "Yes.", speaker="Ann")
    assert session.replace([{"role": "user", "content": "Yes.", "name": "Ben"}]).change == "replaced"


# --- patterns hold by whatever name ----------------------------------------------------------------------------------


def test_a_pattern_keeps_a_session_out_by_its_id_and_by_an_alias_too(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "memory.db") as ledger:
        session = ledger.session("cron:night")
        turn = ledger.capture("Asked before the pattern.", session="cron:night", append=True)
        session.add_alias("nightly")
        id = session.id
    with Ledger.open(tmp_path / "memory.db", sessions=SessionPatterns(ignore=("cron:*",))) as ledger:
        assert id is not None
        for name in ("cron:night", "nightly", id):
            assert ledger.session(name).messages() == []
            assert ledger.session(name).append("user", "x").skipped == "ignored"
        before = ledger.position
        ledger.interactions.add_response(turn.id, "An answer.")
        assert [each.type for each in ledger.history.audit(limit=50) if each.position > before][
            -1
        ] == "ResponseAttached"


def test_nothing_is_recorded_of_a_stateless_session(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "memory.db") as ledger:
        ledger.session("sub:1").append("user", "Before the pattern.")
    with Ledger.open(tmp_path / "memory.db", sessions=SessionPatterns(read_only=("sub:*",))) as ledger:
        assert ledger.session("sub:1").window(100).items
        with pytest.raises(RejectedError, match="stateless"):
            ledger.session("sub:1").window(100, receipt=True)


def test_an_ignored_session_is_not_visible_through_other_sessions(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "memory.db") as ledger:
        ledger.session("secret/1").append("user", "zanzibar")
        ledger.session("pub").append("user", "hello")
    with Ledger.open(tmp_path / "memory.db", sessions=SessionPatterns(ignore=("secret/*",))) as ledger:
        found = ledger.sessions.grep("zanzibar")
        assert (found.total, [each.name for each in ledger.sessions.list()]) == (0, ["pub"])
        assert "other sessions" not in ledger.session("pub").grep("zanzibar").hint
        assert ledger.capture("x", session="secret/1", append=True).skipped == "ignored"
        with pytest.raises(RejectedError, match="ignored"):
            ledger.session("pub").add_alias("secret/2")


def test_many_truncations_are_one_gap(ledger: Ledger) -> None:
    session = ledger.session("sliding")
    for number in range(30):
        session.append("user", f"question {number}")
        ledger.remember(f"Something between, number {number}.")
        session.append("assistant", f"answer {number}")
        session.truncate(2)
    with probe.session(session).reading() as (connection, state):
        gaps = besides([(each.first, each.last) for each in sessions.hidden(connection, state.row)])
    assert len(gaps) <= 2 and len(session.messages(include_hidden=True, limit=1_000)) == 60


def test_a_transcript_with_an_erased_message_is_the_same_transcript(ledger: Ledger) -> None:
    session = ledger.session("chat")
    positions = [session.append("user", f"message {number}").position for number in range(6)]
    ledger.erase(Event(positions[2]), reason="asked", derived="erase", sources="keep", quotes="keep")
    assert session.replace([each.as_chat() for each in session.messages()]).change == "none"


def test_a_developers_message_is_an_instruction_as_the_systems_is(ledger: Ledger) -> None:
    session = ledger.session("chat")
    session.append("developer", "Answer in French.")
    session.append("user", "Hello")
    rendered = session.window(1_000).render("anthropic")
    assert rendered.system == "Answer in French." and rendered.messages[0]["role"] == "user"


@pytest.mark.parametrize(
    "ask",
    [
        lambda session: session.summaries.invalidate("\ud800abc"),
        lambda session: session.window(100, tail=2**70),
        lambda session: session.window(10**400, question="x"),
        lambda session: session.append("user", parts=[{"type": []}]),
        lambda session: session.grep("x", scope=[]),
        lambda session: session.window(10).render([]),
        lambda session: session.expand(None),
        lambda session: session.expand(3.5),
    ],
)
def test_every_wrong_question_to_a_session_raises_a_ledger_error(ledger: Ledger, ask) -> None:
    session = ledger.session("chat")
    session.append("user", "Hello")
    with pytest.raises(LedgerError):
        ask(session)
