"""Messages as the openai and anthropic packages have them go in and come out equal; the other provider gets a valid message."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from anthropic import types as anthropic
from hypothesis import given
from hypothesis import strategies as st
from openai.types import chat as openai
from providers import check_anthropic, check_openai
from windows import message

from ledger import Ledger, Session
from ledger.sessions.assembled import Entry
from ledger.sessions.rules import anthropic_rendering, openai_rendering
from ledger.sessions.rules import message as messages
from ledger.sessions.rules.rendering import Rendered
from ledger.sessions.transcripts import Outside, outside

PNG = "iVBORw0KGgo="
SIGNATURE = "ErUBCkYIBxgCIkDq" * 30 + "=="
CACHED: Any = {"type": "ephemeral", "ttl": "5m"}
BREAK: Any = {"mode": "explicit", "ttl": "30m"}
QUESTION: Any = {"role": "user", "content": "What does it say?"}
BROKEN = '{"city": "Bern", "city": 1e400'


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(tmp_path / "memory.db") as ledger:
        yield ledger


# --- the same message, as both could write it ------------------------------------------------------------------------


def _given(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def of_openai(message: Mapping[str, Any]) -> dict[str, Any]:
    """Without fields of None and empty lists; one text is a content, arguments are what they are the JSON of."""
    found = {name: value for name, value in _given(message).items() if value not in ("", [])}
    if isinstance(found.get("content"), list):
        blocks = [_given(block) for block in found["content"]]
        alone = len(blocks) == 1 and blocks[0].keys() == {"type", "text"}
        found["content"] = blocks[0]["text"] if alone else blocks
    for at, call in enumerate(found.get("tool_calls", [])):
        call = json.loads(json.dumps(_given(call)))
        if "function" in call:
            call["type"] = "function"
            with contextlib.suppress(ValueError):
                call["function"]["arguments"] = json.loads(call["function"]["arguments"] or "{}")
        found["tool_calls"] = [*found["tool_calls"][:at], call, *found["tool_calls"][at + 1 :]]
    return found


def of_anthropic(message: Mapping[str, Any]) -> dict[str, Any]:
    """Only what the provider takes back: an answer's other fields are of the answer. A text is a list of one."""
    content = message["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else [_given(block) for block in content]
    for at, block in enumerate(blocks):
        inner = block.get("content")
        if block["type"] == "tool_result" and isinstance(inner, str):
            blocks[at] = block | {"content": [{"type": "text", "text": inner}]}
    return {"role": message["role"], "content": blocks}


NORMAL = {"openai": of_openai, "anthropic": of_anthropic}


def rendered(lines: Sequence[Outside], provider: str) -> Rendered:
    entries = list[Entry]()
    for at, one in enumerate(lines, 1):
        calls, results = messages.calls(one.draft.parts), messages.results(one.draft.parts)
        item = message(one.draft.role, calls=calls, results=results, place=at)
        extra = one.draft.extra.get("message", {})
        entries.append(
            Entry(
                item=item,
                content=one.draft.content,
                parts=one.draft.whole_parts,
                speaker=one.draft.speaker,
                extra=extra,
            )
        )
    contents = [each.as_content for each in entries]
    return (openai_rendering.openai if provider == "openai" else anthropic_rendering.anthropic)(contents)


def come_back(session: Session, transcript: Sequence[Any], provider: str) -> list[dict[str, Any]]:
    """What a session shows of a transcript that it was made to say, twice without a change."""
    assert session.reconcile(transcript).appended == len(transcript)
    assert session.reconcile(transcript).change == "none"
    assert session.reconcile([each.as_chat() for each in session.messages(limit=1_000)]).change == "none"
    return session.window(2**40).render(provider).messages


# --- what the types have ---------------------------------------------------------------------------------------------

OPENAI: dict[str, list[Any]] = {
    "an answer": [
        QUESTION,
        openai.ChatCompletionMessage(role="assistant", content="Tea.", annotations=[]).model_dump(),
    ],
    "an answer with a source": [
        QUESTION,
        openai.ChatCompletionMessage.model_validate(
            {
                "role": "assistant",
                "content": "Tea.",
                "annotations": [
                    {
                        "type": "url_citation",
                        "url_citation": {"start_index": 0, "end_index": 3, "title": "Tea", "url": "https://a.example"},
                    }
                ],
            }
        ).model_dump(),
    ],
    "a refusal": [
        QUESTION,
        openai.ChatCompletionMessage(role="assistant", refusal="I cannot read that.").model_dump(),
    ],
    "a refusal besides a content": [
        QUESTION,
        openai.ChatCompletionAssistantMessageParam(role="assistant", content="No.", refusal="I cannot read that."),
    ],
    "a refusal as a part": [
        QUESTION,
        openai.ChatCompletionAssistantMessageParam(
            role="assistant",
            content=[
                openai.ChatCompletionContentPartRefusalParam(type="refusal", refusal="I cannot."),
                openai.ChatCompletionContentPartTextParam(type="text", text="Sorry."),
            ],
        ),
    ],
    "a spoken answer": [
        QUESTION,
        openai.ChatCompletionMessage(
            role="assistant",
            audio=openai.ChatCompletionAudio(id="audio_1", data=PNG * 60, expires_at=1_800_000_000, transcript="Tea."),
        ).model_dump(),
    ],
    "a spoken answer given back": [
        QUESTION,
        openai.ChatCompletionAssistantMessageParam(role="assistant", audio={"id": "audio_1"}),
    ],
    "a call of old": [
        QUESTION,
        openai.ChatCompletionAssistantMessageParam(
            role="assistant", content=None, function_call={"name": "look", "arguments": "{}"}
        ),
    ],
    "calls of each kind": [
        QUESTION,
        openai.ChatCompletionMessage(
            role="assistant",
            tool_calls=[
                openai.ChatCompletionMessageFunctionToolCall(
                    id="call_1", type="function", function={"name": "look", "arguments": '{"at": "the cup"}'}
                ),
                openai.ChatCompletionMessageCustomToolCall(
                    id="call_2", type="custom", custom={"name": "run", "input": "print('{\\'a\\': 1}')\n"}
                ),
                openai.ChatCompletionMessageFunctionToolCall(
                    id="call_3", type="function", function={"name": "look", "arguments": BROKEN}
                ),
            ],
        ).model_dump(),
        openai.ChatCompletionToolMessageParam(role="tool", tool_call_id="call_1", content="a cup"),
        openai.ChatCompletionToolMessageParam(
            role="tool",
            tool_call_id="call_2",
            content=[{"type": "text", "text": "{'a': 1}"}, {"type": "text", "text": "done"}],
        ),
        openai.ChatCompletionToolMessageParam(
            role="tool",
            tool_call_id="call_3",
            content=[{"type": "text", "text": "no", "prompt_cache_breakpoint": BREAK}],
        ),
    ],
    "thoughts of Gemini and the name of a tool": [
        QUESTION,
        {
            "role": "assistant",
            "content": "I look.",
            "tool_calls": [
                {
                    "id": "call_1",
                    "type": "function",
                    "function": {"name": "look", "arguments": "{}", "thought_signature": SIGNATURE},
                    "extra_content": {"google": {"thought_signature": SIGNATURE}},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "name": "look", "content": "a cup"},
    ],
    "whatever a user gives": [
        openai.ChatCompletionUserMessageParam(
            role="user",
            name="Ann",
            content=[
                openai.ChatCompletionContentPartTextParam(type="text", text="See:", prompt_cache_breakpoint=BREAK),
                openai.ChatCompletionContentPartImageParam(
                    type="image_url", image_url={"url": f"data:image/png;base64,{PNG}", "detail": "high"}
                ),
                openai.ChatCompletionContentPartImageParam(
                    type="image_url", image_url={"url": "https://a.example/cat"}
                ),
                openai.ChatCompletionContentPartInputAudioParam(
                    type="input_audio", input_audio={"data": PNG * 60, "format": "wav"}
                ),
                {"type": "file", "file": {"file_id": "file_1"}},
            ],
        )
    ],
    "several texts": [
        openai.ChatCompletionDeveloperMessageParam(role="developer", content="Be kind."),
        openai.ChatCompletionSystemMessageParam(
            role="system", content=[{"type": "text", "text": "Be"}, {"type": "text", "text": "kind."}]
        ),
        openai.ChatCompletionUserMessageParam(
            role="user", content=[{"type": "text", "text": "Tea"}, {"type": "text", "text": "or coffee?"}]
        ),
    ],
}
USAGE = anthropic.Usage(input_tokens=3, output_tokens=4)
SEARCH = {"type": "web_search_result", "title": "Tea", "url": "https://a.example", "encrypted_content": SIGNATURE}
ANTHROPIC: dict[str, list[Any]] = {
    "an answer": [
        QUESTION,
        anthropic.Message(
            id="msg_1",
            type="message",
            role="assistant",
            model="claude",
            stop_reason="end_turn",
            usage=USAGE,
            content=[
                anthropic.ThinkingBlock(type="thinking", thinking="The user wants tea.", signature=SIGNATURE),
                anthropic.RedactedThinkingBlock(type="redacted_thinking", data=SIGNATURE),
                anthropic.TextBlock(
                    type="text",
                    text="Tea.",
                    citations=[
                        anthropic.CitationCharLocation(
                            type="char_location",
                            cited_text="tea",
                            document_index=0,
                            start_char_index=0,
                            end_char_index=3,
                        )
                    ],
                ),
                anthropic.TextBlock(type="text", text="Or coffee."),
            ],
        ).model_dump(),
    ],
    "calls and results": [
        {"role": "user", "content": [anthropic.TextBlockParam(type="text", text="Look!", cache_control=CACHED)]},
        anthropic.Message(
            id="msg_1",
            type="message",
            role="assistant",
            model="claude",
            usage=USAGE,
            content=[
                anthropic.ThinkingBlock(type="thinking", thinking="I look.", signature=SIGNATURE),
                anthropic.ToolUseBlock(type="tool_use", id="toolu_1", name="look", input={"at": None, "of": [1.5]}),
                anthropic.TextBlock(type="text", text="Twice."),
                anthropic.ToolUseBlock(
                    type="tool_use", id="toolu_2", name="look", input={}, caller=anthropic.DirectCaller(type="direct")
                ),
                anthropic.ToolUseBlock(type="tool_use", id="toolu_3", name="look", input={}),
            ],
        ).model_dump(),
        {
            "role": "user",
            "content": [
                anthropic.ToolResultBlockParam(
                    type="tool_result",
                    tool_use_id="toolu_1",
                    is_error=True,
                    cache_control=CACHED,
                    content=[
                        {"type": "text", "text": "a cup"},
                        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
                        {"type": "text", "text": "of tea", "cache_control": CACHED},
                    ],
                ),
                anthropic.ToolResultBlockParam(type="tool_result", tool_use_id="toolu_2", content="two cups"),
                anthropic.ToolResultBlockParam(
                    type="tool_result",
                    tool_use_id="toolu_3",
                    content=[{"type": "image", "source": {"type": "url", "url": "https://a.example/cup.png"}}],
                ),
                {"type": "text", "text": "And now?"},
            ],
        },
    ],
    "what the provider runs itself": [
        QUESTION,
        {
            "role": "assistant",
            "content": [
                anthropic.ServerToolUseBlock(
                    type="server_tool_use", id="srvtoolu_1", name="web_search", input={"query": "tea", "page": None}
                ).model_dump(),
                anthropic.WebSearchToolResultBlock.model_validate(
                    {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [SEARCH]}
                ).model_dump(),
                {"type": "of_tomorrow", "id": "x", "more": [{"deep": True}]},
                {"type": "text", "text": "Tea."},
            ],
        },
    ],
    "whatever a user gives": [
        {
            "role": "user",
            "content": [
                anthropic.ImageBlockParam(
                    type="image",
                    source={"type": "base64", "media_type": "image/png", "data": PNG},
                    cache_control=CACHED,
                ),
                anthropic.ImageBlockParam(type="image", source={"type": "url", "url": "https://a.example/cat"}),
                anthropic.ImageBlockParam(type="image", source={"type": "file", "file_id": "file_1"}),
                anthropic.DocumentBlockParam(
                    type="document",
                    source={"type": "text", "media_type": "text/plain", "data": "Tea is a drink."},
                    title="Drinks",
                    citations={"enabled": True},
                ),
                anthropic.SearchResultBlockParam(
                    type="search_result", source="a", title="Tea", content=[{"type": "text", "text": "Tea."}]
                ),
                anthropic.ContainerUploadBlockParam(type="container_upload", file_id="file_2"),
                {"type": "text", "text": "Which?"},
            ],
        }
    ],
}
EVERY = [("openai", name) for name in OPENAI] + [("anthropic", name) for name in ANTHROPIC]


@pytest.mark.parametrize(("provider", "name"), EVERY)
def test_a_message_of_a_provider_is_rendered_unchanged_for_that_provider(
    memory: Ledger, provider: str, name: str
) -> None:
    transcript = (OPENAI if provider == "openai" else ANTHROPIC)[name]
    found, normal = come_back(memory.session("chat"), transcript, provider), NORMAL[provider]
    assert list(map(normal, found)) == [
        normal(each) | ({"role": "system"} if each["role"] == "developer" else {}) for each in transcript
    ]


@pytest.mark.parametrize(("provider", "name"), EVERY)
def test_the_other_provider_gets_a_valid_message_without_foreign_fields(provider: str, name: str) -> None:
    lines, _ = outside((OPENAI if provider == "openai" else ANTHROPIC)[name])
    assert_plain(lines, "anthropic" if provider == "openai" else "openai")


KNOWN = {
    "openai": [
        {"role", "content", "name", "tool_calls", "tool_call_id"},
        {"type", "text", "image_url"},
        {"id", "type", "function"},
    ],
    "anthropic": [
        {"role", "content"},
        {"type", "text", "source", "id", "name", "input", "tool_use_id", "content"},
        set[str](),
    ],
}


def assert_plain(lines: Sequence[Outside], provider: str) -> None:
    found = rendered(lines, provider).messages
    (check_openai if provider == "openai" else check_anthropic)(found)
    for_messages, for_blocks, for_calls = KNOWN[provider]
    for each in found:
        assert each.keys() <= for_messages
        assert all(block.keys() <= for_blocks for block in each["content"] or () if isinstance(block, dict))
        assert all(call.keys() <= for_calls for call in each.get("tool_calls", ()))


# --- whatever the types hold -----------------------------------------------------------------------------------------

WORDS = st.sampled_from(["Tea.", "Or coffee?", "a cup", "我住在北京", "{'a': 1}", " indented\n text", "\u202e", "</x>"])
JSONS = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(allow_nan=False, allow_infinity=False) | WORDS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner, max_size=2),
    max_leaves=4,
)
ARGUMENTS = st.dictionaries(st.sampled_from(["at", "of", ""]), JSONS, max_size=2)
UNKNOWN = st.dictionaries(st.sampled_from(["of_tomorrow", "phase"]), JSONS.filter(lambda each: each is not None))
WRITTEN = st.one_of(
    ARGUMENTS.map(json.dumps),
    st.sampled_from(["{half", '{"a": 1, "a": 2}', "[1]", '"x"', "NaN", '{"a": 1e999}', '{"": "x"}', "7"]),
)
INLINE = f"data:image/png;base64,{PNG}"


def blocks(*kinds: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(st.one_of(*kinds), min_size=1, max_size=4)


def block(kind: str, more: st.SearchStrategy[Any] = st.just({}), **fields: Any) -> st.SearchStrategy[Any]:  # noqa: B008
    each = {name: value if isinstance(value, st.SearchStrategy) else st.just(value) for name, value in fields.items()}
    return st.tuples(st.fixed_dictionaries({"type": st.just(kind), **each}), more).map(lambda both: both[1] | both[0])


BREAKS = st.one_of(UNKNOWN, st.just({"prompt_cache_breakpoint": BREAK}), st.just({"prompt_cache_breakpoint": None}))
OPENAI_TEXT = block("text", BREAKS, text=WORDS)
OPENAI_PARTS = blocks(
    OPENAI_TEXT,
    block("image_url", BREAKS, image_url=st.sampled_from([{"url": INLINE}, {"url": INLINE, "detail": "low"}])),
    block("image_url", image_url=st.sampled_from([{"url": "https://a.example/x"}, {"url": "http://a.example/x.png"}])),
    block("input_audio", BREAKS, input_audio=st.just({"data": PNG, "format": "mp3"})),
    block("file", file=st.just({"filename": "a.pdf", "file_data": PNG})),
)
CACHES = st.one_of(UNKNOWN, st.just({"cache_control": CACHED}), st.just({"cache_control": None}))
CITED = st.sampled_from([None, [{"type": "page_location", "cited_text": "tea", "document_title": None}]])
ANTHROPIC_TEXT = block("text", CACHES, text=WORDS.map(str.strip), citations=CITED)
ANTHROPIC_IMAGES = (
    block("image", CACHES, source={"type": "base64", "media_type": "image/png", "data": PNG}),
    block("image", source={"type": "url", "url": "https://a.example/x"}),
    block("image", source={"type": "file", "file_id": "file_1"}),
)
DOCUMENT = block("document", CACHES, title=WORDS, source=st.just({"type": "text", "data": "Tea is a drink."}))
ANTHROPIC_PARTS = blocks(ANTHROPIC_TEXT, *ANTHROPIC_IMAGES, DOCUMENT)
THOUGHTS = st.lists(
    block("thinking", thinking=WORDS, signature=SIGNATURE) | block("redacted_thinking", data=SIGNATURE), max_size=2
)
SERVED = block("server_tool_use", id="srvtoolu_1", name="web_search", input=ARGUMENTS)


@st.composite
def openai_conversation(draw: st.DrawFn) -> list[dict[str, Any]]:
    found, count = list[dict[str, Any]](), 0
    for _ in range(draw(st.integers(1, 3))):
        name = draw(st.sampled_from([{}, {"name": "Ann"}, {"name": None}]))
        found.append({"role": "user", "content": draw(WORDS | OPENAI_PARTS), **name})
        content = draw(st.none() | WORDS | blocks(OPENAI_TEXT, block("refusal", refusal=WORDS)))
        answer = openai.ChatCompletionMessage(role="assistant").model_dump() | {"content": content} | draw(UNKNOWN)
        calls = list[dict[str, Any]]()
        for _ in range(draw(st.integers(0, 2))):
            count += 1
            inner = {"name": "look", "arguments": draw(WRITTEN)} | draw(UNKNOWN)
            function = {"type": "function", "function": inner} | draw(UNKNOWN)
            custom = {"type": "custom", "custom": {"name": "run", "input": draw(WORDS)} | draw(UNKNOWN)}
            calls.append({"id": f"call_{count}", **draw(st.sampled_from([function, custom]))})
        if content is None and not calls:
            answer["refusal"] = "I cannot."
        found.append(answer | {"tool_calls": calls or None})
        for call in calls:
            found.append({"role": "tool", "tool_call_id": call["id"], "content": draw(WORDS | blocks(OPENAI_TEXT))})
    return found


@st.composite
def anthropic_conversation(draw: st.DrawFn) -> list[dict[str, Any]]:
    results, found, count = list[dict[str, Any]](), list[dict[str, Any]](), 0
    for _ in range(draw(st.integers(1, 3))):
        found.append({"role": "user", "content": [*results, *draw(ANTHROPIC_PARTS)]})
        content, results = [*draw(THOUGHTS), draw(ANTHROPIC_TEXT)], []
        for _ in range(draw(st.integers(0, 2))):
            count += 1
            use = {"type": "tool_use", "id": f"toolu_{count}", "name": "look", "input": draw(ARGUMENTS)}
            content += [draw(CACHES) | use, *draw(st.lists(ANTHROPIC_TEXT | SERVED, max_size=1))]
            inner = draw(WORDS.map(str.strip) | ANTHROPIC_PARTS)
            result = {"type": "tool_result", "tool_use_id": use["id"], "content": inner}
            results.append(draw(CACHES) | draw(st.sampled_from([{}, {"is_error": True}])) | result)
        found.append({"role": "assistant", "content": content})
    found.append({"role": "user", "content": [*results, {"type": "text", "text": "Thanks."}]})
    kept = [block for each in found for block in each["content"] if block.get("cache_control")]
    for block in kept[:-4]:
        del block["cache_control"]
    return found


def assert_comes_back(transcript: list[dict[str, Any]], provider: str) -> None:
    lines, left_out = outside(transcript)
    assert not left_out
    normal = NORMAL[provider]
    assert list(map(normal, rendered(lines, provider).messages)) == list(map(normal, transcript))
    assert_plain(lines, "anthropic" if provider == "openai" else "openai")


@given(openai_conversation())
def test_any_conversation_of_openai_comes_back_and_is_plain_for_anthropic(transcript: list[dict[str, Any]]) -> None:
    assert_comes_back(transcript, "openai")


@given(anthropic_conversation())
def test_any_conversation_of_anthropic_comes_back_and_is_plain_for_openai(transcript: list[dict[str, Any]]) -> None:
    assert_comes_back(transcript, "anthropic")
