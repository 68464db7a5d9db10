"""The estimate of tokens: what counts how much, never far too little, and no text that takes long."""

from __future__ import annotations

import base64
import hashlib

import pytest
from counting import steps
from hypothesis import example, given
from hypothesis import strategies as st

from ledger.domain.tokens import MEDIA_TOKENS, MESSAGE_TOKENS, estimate
from ledger.sessions.counting import ESTIMATE
from ledger.sessions.rules.message import draft

ANY_TEXT = st.text(alphabet=st.characters(exclude_categories=()))
LIKELY = st.text(alphabet=st.sampled_from("abzABZ0123 \n\t'’.,-_{}ößéйжαאعक茶カ한🙂\u200d\u3099\u00a0"), max_size=60)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0), (" \n\t\u3000", 0), ("coffee", 1), ("coffees", 2), ("a" * 12, 2), ("a" * 13, 4), ("Coffee", 1),
        ("HTTP", 2), ("API", 1), ("getUserById", 4), ("HTTPResponse", 4), ("don't", 2), ("don’t", 2), ("'a'", 3),
        ("a\nb\n", 4), ("a \nb.\n\n", 3), ("a\r\n\nb", 3), ("7", 1), ("123", 1), ("1234", 2),
        ("12345", 5), ("3.11", 4), ("2026-11-21", 10), ("v12", 3), ("a-b", 3), ("...", 2),
        ("茶", 1), ("喝茶", 3), ("カ", 1), ("чай", 2), ("नमस", 4), ("é", 1), ("ß", 2), ("ა", 2), ("🙂", 2),
        ("🇩🇪", 4), ("\ud800", 2), ("\0", 1),
    ],
)  # fmt: skip
def test_a_text_is_counted_by_its_letters_digits_signs_and_scripts(text: str, tokens: int) -> None:
    assert estimate(text) == tokens


@given(ANY_TEXT | LIKELY, ANY_TEXT | LIKELY, st.sampled_from(" \t\u3000"))
@example("12", "3", " ")
@example("a", "'a", " ")
@example("a", "\nb", " ")
def test_what_white_space_parts_counts_by_itself(first: str, second: str, space: str) -> None:
    assert estimate(f"{first}{space}{second}") == estimate(first) + estimate(second)


@given(ANY_TEXT | LIKELY)
def test_a_text_with_anything_in_it_takes_at_least_one_and_at_most_two_a_character(text: str) -> None:
    assert bool(text.strip()) <= estimate(text) <= 2 * len(text)


# Counted with cl100k, o200k, Llama 3, DeepSeek 3, Qwen and Tekken; the largest of them.
BLOB = base64.b64encode(b"".join(hashlib.sha256(bytes([n])).digest() for n in range(8))).decode()
REAL = (
    (
        "Could you check whether the night train to Vienna still runs on Sundays? I'd rather not drive, and Ann's coming too.",
        26,
    ),
    ('{"id": "a3f9", "line": 1204, "path": "src/app/main.py", "ok": true, "took_ms": 83.25}', 43),
    ("def test_a(tmp_path):\n    assert run(['-v', str(tmp_path)]).returncode == 0, 'it failed'\n", 28),
    ("2026-03-01 12:01:07,123 INFO [worker-3] app.http: GET /api/v1/users/48213?page=2 HTTP/1.1 200 371ms", 62),
    ("2026112109300012345678901234567890", 34),
    ("ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb", 51),
    ("Вчера вечером мы наконец решили переехать в квартиру побольше, поближе к школе.", 42),
    ("昨天晚上我们终于决定搬到离孩子学校和地铁站更近的一套大一点的公寓。", 44),
    ("금요일 전까지 경비 보고서를 보내라고 다시 한 번 알려 주실 수 있나요?", 34),
    ("क्या आप मुझे शुक्रवार से पहले खर्चों की रिपोर्ट भेजने की याद दिला सकते हैं?", 70),
    (BLOB, 250),
)


@pytest.mark.parametrize(("text", "real"), REAL)
def test_the_estimate_is_not_below_the_real_count(text: str, real: int) -> None:
    assert real <= estimate(text) <= 2 * real


@pytest.mark.parametrize("some", ["a", "A", "aA0", "0", "'a", "é", "茶", ".", " ", "a\n", "0 "])
def test_a_long_text_takes_no_more_steps_than_a_short_one(some: str) -> None:
    short, long = some * (10_000 // len(some)), some * (1_000_000 // len(some))
    assert steps(lambda: estimate(long)) <= steps(lambda: estimate(short)) + 10


def test_a_message_is_its_texts_its_frame_and_its_media() -> None:
    call = {"type": "tool_use", "id": "c1", "name": "search", "arguments": {"q": 1}}
    media = {"type": "media", "uri": "file:a.png", "mime": "image/png"}
    said = draft("assistant", "hello there", [{"type": "reasoning", "text": "hm"}, call, media, media])
    texts = ("hello there", "hm", "search", "c1", '{"q":1}', "file:a.png", "file:a.png")
    assert ESTIMATE.of_message(*said.read) == MESSAGE_TOKENS + sum(map(estimate, texts)) + 2 * MEDIA_TOKENS
