"""What a provider's message has besides is a part of the session: compared, counted, guarded, erased and moved with it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from leftovers import RARE, remains
from providers import check_anthropic

from ledger import Ledger, RejectedError
from ledger.domain.tokens import MEDIA_TOKENS
from ledger.doors.picoclaw import SessionStore
from ledger.sessions.rules.message import PARTS_BYTES, draft
from ledger.sessions.transcripts import outside
from ledger.types import Event

SIGNATURE = "ErUBCkYIBxgCIkDq" * 30 + "=="
CACHED = {"type": "ephemeral"}
THOUGHT = {"type": "thinking", "thinking": "The user wants tea.", "signature": SIGNATURE}
PNG = "data:image/png;base64,iVBORw0KGgo="
TOKEN = "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(tmp_path / "memory.db") as ledger:
        yield ledger


def text(content: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": content, **more}


def asks(content: str, **more: Any) -> dict[str, Any]:
    return {"role": "user", "content": [text(content, **more)]}


def answers(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


# --- what is compared ------------------------------------------------------------------------------------------------


def test_what_to_cache_moves_from_turn_to_turn_and_nothing_is_written_again(memory: Ledger) -> None:
    session = memory.session("chat")
    first = [asks("Tea?"), answers(text("Yes.")), asks("Or coffee?")]
    session.reconcile([*first[:2], asks("Or coffee?", cache_control=CACHED)])
    before = memory.position
    assert session.reconcile(first).change == "none"
    assert session.reconcile([asks("Tea?", cache_control=CACHED), *first[1:]]).change == "none"
    assert memory.position == before


def test_only_the_last_four_marks_of_what_to_cache_are_given_for_a_provider_takes_no_more(memory: Ledger) -> None:
    session = memory.session("chat")
    for number in range(6):
        session.append("user", parts=[text(f"Word {number}", cache_control=CACHED)])
    (found,) = session.window(10_000).render("anthropic").messages
    assert ["cache_control" in each for each in found["content"]] == [False] * 2 + [True] * 4


def test_what_was_recorded_without_it_gets_it_from_the_transcript_in_place(memory: Ledger) -> None:
    session = memory.session("chat")
    call = {"type": "tool_use", "id": "c", "name": "look", "arguments": {}}
    session.append("user", "Look!")
    session.append("assistant", parts=[call])
    session.append("tool", "a cup", tool_call_id="c")
    more = {"function": {"name": "look", "arguments": "{}", "thought_signature": SIGNATURE}}
    told: list[dict[str, Any]] = [
        {"role": "user", "content": "Look!"},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "type": "function", **more}]},
        {"role": "tool", "name": "look", "tool_call_id": "c", "content": "a cup"},
    ]
    assert session.reconcile(told, dry_run=True).repaired == 2
    done = session.reconcile(told)
    assert (done.change, done.repaired, done.hidden) == ("repaired", 2, 0)
    assert session.reconcile(told).change == "none"
    window = session.window(10_000)
    assert window.render().messages[1]["tool_calls"][0]["function"]["thought_signature"] == SIGNATURE
    assert window.render().messages[2]["name"] == "look"
    memory.undo(done.position)
    assert "thought_signature" not in str(session.window(10_000).render().messages)


def test_another_signature_is_another_message(memory: Ledger) -> None:
    session = memory.session("chat")
    session.reconcile([asks("Tea?"), answers(THOUGHT, text("Yes."))])
    assert session.reconcile([asks("Tea?"), answers(THOUGHT | {"signature": "x"}, text("Yes."))]).change == "replaced"


def test_an_answer_and_what_is_sent_back_of_it_are_the_same_message(memory: Ledger) -> None:
    session = memory.session("chat")
    answer = answers(THOUGHT, text("Yes."))
    whole = answer | {"id": "msg_1", "type": "message", "model": "m-1", "usage": {"output_tokens": 3}}
    session.reconcile([asks("Tea?"), whole])
    assert session.reconcile([asks("Tea?"), answer]).change == "none"
    assert session.messages()[1].extra["anthropic"]["usage"] == {"output_tokens": 3}
    assert session.window(10_000).render("anthropic").messages[1] == answer


def test_a_keyed_command_without_any_is_known_as_it_was_before_there_was_any() -> None:
    """Its arguments are known by a digest of these bytes."""
    given = draft("user", "Tea?")
    assert msgspec.json.encode(given) == (
        b'{"role":"user","content":"Tea?","reasoning":"","parts":[],"content_of":-1,"speaker":""}'
    )
    line = outside([{"role": "user", "content": "Tea?"}])[0][0].line
    assert b"extra" not in msgspec.json.encode(line)


# --- images, and arguments that are no JSON --------------------------------------------------------------------------


def test_an_image_is_one_for_both_providers_however_it_was_given(memory: Ledger) -> None:
    session = memory.session("chat")
    session.reconcile(
        [
            {
                "role": "user",
                "content": "One",
                "media": [PNG, "https://a.example/x.JPG?s=1", "https://a.example/x.mp3"],
            },
            {"role": "assistant", "content": "Yes."},
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": PNG, "detail": "high"}}]},
            {"role": "assistant", "content": "Two."},
            {"role": "user", "content": [{"type": "image", "source": {"type": "url", "url": "https://a.example/x"}}]},
        ]
    )
    window = session.window(10_000)
    kinds = [[each["type"] for each in one["content"]] for one in window.render().messages[::2]]
    assert kinds == [["text", "image_url", "image_url", "text"], ["image_url"], ["image_url"]]
    check_anthropic(found := window.render("anthropic").messages)
    kinds = [[each["type"] for each in one["content"]] for one in found[::2]]
    assert kinds == [["text", "image", "image", "text"], ["image"], ["image"]]
    assert found[2]["content"][0]["source"] == {"type": "base64", "media_type": "image/png", "data": PNG[22:]}


@pytest.mark.parametrize(
    "written", ['{"a": 1, "a": 2}', '{"a": 1e999}', "[1]", '"x"', "{half", '{"": "x"}', '{"a": NaN}']
)
def test_arguments_that_are_no_plain_json_keep_their_text(memory: Ledger, written: str) -> None:
    session = memory.session("chat")
    call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": written}}
    told = [{"role": "user", "content": "Look!"}, {"role": "assistant", "content": None, "tool_calls": [call]}]
    session.reconcile(told)
    window = session.window(10_000)
    assert window.render().messages[1]["tool_calls"] == [call]
    assert isinstance(window.render("anthropic").messages[1]["content"][0]["input"], dict)
    assert session.reconcile(told).change == "none"


def test_an_image_of_some_size_is_kept_and_counted_as_one(memory: Ledger) -> None:
    session, image = memory.session("chat"), PNG[:-4] + "A" * 300_000
    small = session.append("user", parts=[text("One."), {"type": "image_url", "image_url": {"url": PNG}}])
    large = session.append("user", parts=[text("Two."), {"type": "image_url", "image_url": {"url": image}}])
    assert large.tokens == small.tokens and len(large.text) == len(small.text)
    assert session.window(2_000).render().messages[1]["content"][1]["image_url"]["url"] == image


# --- tokens and bounds -----------------------------------------------------------------------------------------------


def test_what_a_model_reads_of_it_is_counted_and_data_as_a_medium(memory: Ledger) -> None:
    session = memory.session("chat")
    plain = session.append("assistant", parts=[text("Yes."), text("No.")])
    thought = session.append("assistant", parts=[text("Yes."), text("No."), THOUGHT])
    longer = session.append("assistant", parts=[text("Yes."), text("No."), THOUGHT | {"thinking": "tea " * 400}])
    assert MEDIA_TOKENS < thought.tokens - plain.tokens < MEDIA_TOKENS + 30
    assert longer.tokens - thought.tokens > 300
    small, whole = session.window(10_000, unit="chars"), sum(map(len, ("Yes.", "No.", "tea " * 400)))
    assert whole <= small.entries[-1].chars < whole + 60


@pytest.mark.parametrize(
    ("field", "match"),
    [
        ({1, 2}, "citations is of type set"),
        (b"bytes", "of type bytes"),
        (float("nan"), "is nan"),
        (2**70, "beyond 64 bits"),
        ("half \ud800", "surrogate"),
        ({5: "x"}, "keys are text"),
        ("x" * PARTS_BYTES, "bytes besides its longest text"),
    ],
)
def test_a_field_that_is_no_json_or_too_large_is_refused_by_its_name(memory: Ledger, field: Any, match: str) -> None:
    session = memory.session("chat")
    told = [asks("Tea?", citations=field)]
    for act in (lambda: session.reconcile(told), lambda: session.append("user", parts=told[0]["content"])):
        with pytest.raises(RejectedError, match=match):
            act()
    deep: Any = []
    for _ in range(70):
        deep = [deep]
    with pytest.raises(RejectedError, match="nests too deep"):
        session.append("user", "Tea?", extra={"openai": {"x": deep}})
    assert session.id is None


def test_parts_and_extra_as_a_session_gives_them_are_taken_back(memory: Ledger) -> None:
    session, copy = memory.session("chat"), memory.session("copy")
    session.reconcile([asks("Tea?"), answers(THOUGHT, text("Yes.")) | {"type": "message", "id": "msg_1"}])
    for each in session.messages():
        copy.append(each.role, each.content, parts=each.parts, extra=each.extra)
    given = [(each.content, each.parts, each.extra, each.tokens) for each in session.messages()]
    assert [(each.content, each.parts, each.extra, each.tokens) for each in copy.messages()] == given


def test_an_agent_of_picoclaw_gets_back_what_it_gave(memory: Ledger) -> None:
    call = {
        "id": "c",
        "type": "function",
        "function": {"name": "look", "arguments": "{}", "thought_signature": SIGNATURE},
        "extra_content": {"google": {"thought_signature": SIGNATURE}},
    }
    store = SessionStore(memory)
    store.add_full_message("chat", {"role": "assistant", "content": "", "tool_calls": [call], "phase": 2})
    (found,) = store.get_history("chat")
    assert found["tool_calls"] == [call] and found["phase"] == 2
    before = memory.position
    store.set_history("chat", store.get_history("chat"))
    assert memory.position == before and not store.failures


# --- shortened -------------------------------------------------------------------------------------------------------


def test_a_shortened_result_is_shortened_in_its_list_of_contents_too(memory: Ledger) -> None:
    session = memory.session("chat")
    session.append("user", "Look!")
    for number in range(3):
        session.append("assistant", parts=[{"type": "tool_use", "id": f"t{number}", "name": "look", "input": {}}])
        inner = [text("tea " * 400), text("coffee " * 300)]
        session.append(
            "user", parts=[{"type": "tool_result", "tool_use_id": f"t{number}", "content": inner, "is_error": True}]
        )
    window = session.window(1_500)
    assert any(each.shortened is not None for each in window.entries) and window.used <= 1_500
    check_anthropic_results = [
        each for one in window.render("anthropic").messages for each in one["content"] if each["type"] == "tool_result"
    ]
    assert all(each["is_error"] for each in check_anthropic_results)
    cut = [each["content"] for each in check_anthropic_results if "shortened" in str(each)]
    assert cut and all(len(each) == 1 and len(each[0]["text"]) < 3_600 for each in cut)


# --- guarded, erased, moved ------------------------------------------------------------------------------------------


def test_a_secret_in_it_reaches_neither_the_file_nor_the_window(tmp_path: Path) -> None:
    told = [
        asks("Tea?", citations=[{"cited_text": f"the token is {TOKEN}"}]),
        answers(THOUGHT | {"thinking": f"I use {TOKEN}"}, {"type": "server_tool_use", "input": {TOKEN: {"a": TOKEN}}}),
        {"role": "user", "content": "Well?", "phase": {"note": TOKEN}},
    ]
    with Ledger.open(tmp_path / "memory.db") as memory:
        session = memory.session("chat")
        session.reconcile(told)
        for each in told:
            session.append(each["role"], parts=each["content"] if isinstance(each["content"], list) else [text("x")])
        session.append("user", "Well?", extra={"openai": {"phase": TOKEN}})
        assert session.reconcile(told[:1]).change == "replaced" and session.reconcile(told[:1]).change == "none"
        assert session.messages()[0].parts[0]["extra"]["anthropic"]["citations"] == [
            {"cited_text": "the token is [redacted:github_token]"}
        ]
    assert [path for path in tmp_path.iterdir() if TOKEN.encode() in path.read_bytes()] == []


def test_a_redacted_thought_is_not_rendered_since_its_signature_no_longer_fits(
    memory: Ledger,
) -> None:
    session = memory.session("chat")
    session.reconcile([asks("Tea?"), answers(THOUGHT | {"thinking": f"I use {TOKEN}"}, text("Yes."))])
    assert session.window(10_000).render("anthropic").messages[1] == answers(text("Yes."))


TOLD = [
    answers(THOUGHT | {"thinking": RARE}, text("One.")),
    {"role": "user", "content": "Two.", "note": {"deep": [RARE]}},
    answers(text("Three.", citations=[{"cited_text": RARE}])),
    answers({"type": "server_tool_use", "id": "s", "name": "search", "input": {RARE: 1}}, text("Four.")),
    {"role": "user", "content": [{"type": "document", "source": {"data": RARE}}, text("Five.")]},
]


@pytest.mark.parametrize("told", TOLD, ids=[str(number) for number in range(len(TOLD))])
def test_what_is_erased_with_a_message_is_in_no_file(tmp_path: Path, told: dict[str, Any]) -> None:
    with Ledger.open(tmp_path / "memory.db") as memory:
        session = memory.session("chat")
        session.reconcile([asks("Hello."), told, asks("And so on.")])
        receipt = session.window(10_000, receipt=True).receipt
        position = session.messages()[1].position
        assert len(remains_of(session)) == 1
        memory.erase(Event(position))
        assert remains_of(session) == []
        assert session.reopen(receipt).entries[1].extra == {}
        assert session.reconcile([asks("Hello."), told, asks("And so on.")]).change == "none"
    assert remains(tmp_path) == []


def test_the_words_of_a_provider_are_nobodys_and_do_not_stay_behind_an_erasure(memory: Ledger) -> None:
    session = memory.session("chat")
    for words, signature in ((RARE, "EqoBa" * 20), ("Tea is a drink.", "ErUBc" * 20)):
        cited = [{"type": "char_location", "cited_text": words, "document_title": None}]
        answer = answers(THOUGHT | {"thinking": words, "signature": signature}, text(f"So: {words}", citations=cited))
        session.reconcile(
            [
                *(message.as_chat() for message in session.messages()),
                answer | {"type": "message", "stop_reason": "end_turn"},
            ]
        )
    report = memory.erase(Event(session.messages()[0].position))
    assert report.remaining == ()


def test_what_was_added_later_is_erased_with_its_message(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "memory.db") as memory:
        session = memory.session("chat")
        session.append("user", "Hello."), session.append("assistant", "Yes.")
        told = [asks("Hello."), answers(text("Yes.", citations=[{"cited_text": RARE}]))]
        assert session.reconcile(told).repaired == 1 and len(remains_of(session)) == 1
        memory.erase(Event(session.messages()[1].position))
        assert remains_of(session) == [] and session.reconcile(told).change == "none"
    assert remains(tmp_path) == []


def remains_of(session: Any) -> list[Any]:
    return [each for each in session.messages() if RARE in f"{each.parts} {each.extra}"]


def test_what_a_memory_says_is_found_in_what_a_message_has_besides(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "memory.db") as memory:
        session = memory.session("chat")
        fact = memory.remember(RARE)
        session.reconcile([asks("Hello."), *TOLD])
        plan = memory.erase(fact.id, dry_run=True)
        assert [each.fields for each in plan.quotes] == [("data.extra",)] * len(TOLD)
        memory.erase(fact.id, quotes="cut")
        assert [each.content for each in session.messages()][1:] == ["One.", "Two.", "Three.", "Four.", "Five."]
    assert remains(tmp_path) == []


def test_a_moved_ledger_and_an_earlier_moment_have_it(tmp_path: Path) -> None:
    told = [asks("Tea?"), answers(THOUGHT, text("Yes."))]
    with Ledger.open(tmp_path / "memory.db") as memory:
        session = memory.session("chat")
        session.reconcile(told)
        then = memory.position
        session.truncate(1)
        assert memory.at(then).session("chat").window(10_000).render("anthropic").messages == told
        memory.maintenance.export_log(tmp_path / "log.jsonl")
    Ledger.import_log(tmp_path / "log.jsonl", tmp_path / "moved.db")
    with Ledger.open(tmp_path / "moved.db") as moved:
        assert moved.at(then).session("chat").window(10_000).render("anthropic").messages == told
        assert moved.proof.verify(full=True).ok


def test_a_text_with_more_to_it_is_looked_at_once_for_what_to_remember(memory: Ledger) -> None:
    session = memory.session("chat")
    session.append("user", parts=[text("I prefer strong black coffee in the morning.", cache_control=CACHED)])
    assert len(session.extract(method="rules").kept) == 1
