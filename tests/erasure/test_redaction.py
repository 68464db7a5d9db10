"""What an erasure does to the bytes of one event, and how a text is found in others."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

import msgspec
import pytest
from examples import BLOB, EVENTS, MEMORY, envelope

from ledger import events
from ledger.domain.quotes import Needles, excerpt
from ledger.domain.spans import merged
from ledger.erasure import rules as erasure
from ledger.events import TEXT_FIELDS, Unknown
from ledger.log import registry
from ledger.log.envelope import to_stored


def state_of(name: str) -> str:
    return to_stored(MEMORY, 1, envelope(EVENTS[name])).state.decode()


@pytest.mark.parametrize("name", sorted(EVENTS))
def test_without_its_texts_every_event_still_decodes_and_says_everything_else(name: str) -> None:
    state = state_of(name)
    parts = erasure.parts(name, state)
    assert {part.field.removeprefix("data.") for part in parts} == set(TEXT_FIELDS[name])
    after = erasure.redacted(name, state, [part.field for part in parts], ())
    data = registry.decode(9, 7, MEMORY, 2, name, after).data
    assert not isinstance(data, Unknown)
    gone = {
        *TEXT_FIELDS[name],
        *(("digest",) if name in ("WriteRefused", "DocumentAdded", "DocumentReplaced") else ()),
    }
    for field in type(data).__struct_fields__:
        now, then = getattr(data, field), getattr(EVENTS[name], field)
        assert (now in (None, msgspec.Raw(b"null"))) if field in gone else (now == then)
    told, was = json.loads(after), json.loads(state)
    assert told["salt"] is None and told.get("arguments") is None
    assert list(told) == list(was) and list(told["data"]) == list(was["data"]), "the fields keep their order"
    assert erasure.parts(name, after) == [] and erasure.salt(after) is None and not erasure.has_digests(name, after)


def test_nothing_else_of_the_bytes_changes() -> None:
    odd = '{"event_id":"1","schema":1,"recorded_at":"t","command_id":"1","command":"x","salt":"00","new":1.50,'
    odd += '"data":{"content":"secret","kind":"k","status":"active","confidence":1,"later":[1.0,  2e3]}}'
    after = erasure.redacted("MemoryCaptured", odd, ("data.content",), ())
    assert after == odd.replace('"00"', "null").replace('"secret"', "null")
    assert erasure.digest(after) == sha256(after.encode()).hexdigest()


def test_a_span_becomes_black_character_by_character() -> None:
    state = state_of("MemoryRevised").replace("The user", "Zoë")
    text = json.loads(state)["data"]["content"]
    after = json.loads(erasure.redacted("MemoryRevised", state, (), [("data.content", 0, 3), ("data.content", 2, 5)]))
    assert after["data"]["content"] == "█████" + text[5:]
    assert after["data"]["reason"] == json.loads(state)["data"]["reason"]


@pytest.mark.parametrize(
    ("type_", "data"), [("MemoryDreamt", '{"dream":"of Vienna"}'), ("MemoryRevised", '{"content":7}')]
)
def test_of_what_cannot_be_read_all_data_goes(type_: str, data: str) -> None:
    state = state_of("MemoryPromoted")
    state = state[: state.index('"data":')] + f'"data":{data}}}'
    (part,) = erasure.parts(type_, state)
    assert (part.field, part.plain) == (erasure.WHOLE, False)
    after = erasure.redacted(type_, state, (part.field,), ())
    assert json.loads(after)["data"] is None and erasure.parts(type_, after) == []
    assert isinstance(registry.decode(9, 7, MEMORY, 2, type_, after).data, Unknown)


def test_people_are_named_but_not_our_own_policies() -> None:
    told = envelope(events.MemoryPromoted(), user="ada", actor="policy:reinforcement", client="cli", agent="")
    state = to_stored(MEMORY, 1, told).state.decode()
    assert [(part.field, part.texts) for part in erasure.people(state)] == [("client", ("cli",)), ("user", ("ada",))]
    after = json.loads(erasure.redacted("MemoryPromoted", state, ("user", "client"), ()))
    assert after["user"] is None and after["client"] is None and after["actor"] == "policy:reinforcement"


def test_a_text_in_a_blob_is_named_by_the_blob() -> None:
    parts = {part.field: part for part in erasure.parts("InteractionCaptured", state_of("InteractionCaptured"))}
    assert parts["data.response"].blob == BLOB.blob and not parts["data.response"].plain
    assert parts["data.prompt"].plain and parts["data.context"].texts


# --- quotes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("needle", "text", "found"),
    [
        ("kelp", "a cup of Kelp.", ["Kelp"]),
        ("kelp", "the kelpie", []),
        ("tea", "a cup of tea", []),
        ("ok", "ok", []),  # under four characters: only where it is all there is
        ("The user drinks tea", "so, THE  user\ndrinks TEA!", ["THE  user\ndrinks TEA"]),
        ("Straße in Zürich", "die STRASSE in zu\u0308rich 7", ["STRASSE in zu\u0308rich"]),
        ("her old harbour", "her old harbour, her old harbour", ["her old harbour", "her old harbour"]),
        ("the secret word", "all the secret words", ["the secret word"]),
        ("日本語のテキスト文章です", "これは日本語のテキスト文章ですよ", ["日本語のテキスト文章です"]),
    ],
)
def test_a_quote_is_found_where_it_stands(needle: str, text: str, found: list[str]) -> None:
    needles = Needles([needle])
    spans = needles.spans(text)
    assert spans is not None
    if needle == text:
        assert spans == ((0, len(text)),)
        return
    assert [text[first:last] for first, last in spans] == found
    assert bool(needles.found(text)) == bool(found)


@pytest.mark.parametrize(
    ("text", "spans", "shown"),
    [
        ("short", (), "short"),
        ("a" * 81, (), "a" * 80 + "…"),
        ("call Ruth now", [(5, 9)], "call [[Ruth]] now"),
        ("a" * 31 + "Ruth" + "b" * 31, [(31, 35)], "…" + "a" * 30 + "[[Ruth]]" + "b" * 30 + "…"),
        ("Ruth" + "-" * 61 + "Jonas", [(65, 70), (0, 4)], "[[Ruth]]" + "-" * 30 + "…" + "-" * 30 + "[[Jonas]]"),
        ("x" * 300, [(0, 300)], "[[" + "x" * 100 + "…" + "x" * 100 + "]]"),
    ],
)
def test_an_excerpt_marks_what_is_meant_and_leaves_out_what_is_far_from_it(text: str, spans: Any, shown: str) -> None:
    assert excerpt(text, spans) == shown


def test_spans_that_touch_are_one() -> None:
    assert merged([(3, 5), (0, 2), (5, 9), (1, 2)]) == ((0, 2), (3, 9))
