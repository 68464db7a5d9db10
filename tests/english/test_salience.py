"""The gate before a model: what a user said is worth asking about, or not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.english.salience import GATE, LOOKED_CHARS, is_salient


@pytest.mark.parametrize(
    "line",
    [
        "my name is Ana", "I'm Ana", "I’m ill", "I am here", "i prefer it", "I never do", "I always do",
        "we use it", "We decided", "call me Al", "always use it", "never do it", "remember that", "Remember: it",
        "remember this", "the project uses it", "The repo is it", "our team prefers it", "the team now requires it",
        "ok.   my\n name\tis X", "Ich heiße Ana", "je m'appelle Ana", "me llamo Ana", "mi chiamo Ana", "меня зовут Аня",
        "我叫小明", "私はアナ",
    ],
)  # fmt: skip
def test_a_durable_signal_opens_the_gate(line: str) -> None:
    assert is_salient([line])


@pytest.mark.parametrize(
    "line",
    [
        "",
        "   ",
        "ok",
        "Thanks!",
        "yes please, go ahead",
        "ok do it again",
        "great, thank you very much",
        "hmm",
        "👍",
        "好的",
        "no thanks",
        "no",
        "nein danke",
        "That makes sense, thank you!",
        "Sounds good, see you later",
        "No problem, never mind.",
        "I don't know",
        "好的，谢谢",
        "没问题，谢谢你",
        "はい、わかりました",
        "ありがとうございます",
        "네, 감사합니다",
        "哈哈哈哈哈",
    ],
)
def test_small_talk_does_not(line: str) -> None:
    assert not is_salient([line])


def test_two_informative_words_do_and_one_does_not() -> None:
    assert not is_salient(["the parser"])
    assert is_salient(["the parser crashes"])
    assert is_salient(["the parser", "and it crashes"]), "they may stand in several lines"
    assert not is_salient(["parser parser parser parser"]), "the same word again says no more"


@pytest.mark.parametrize(
    "line",
    [
        "No nuts please",
        "no milk",
        "Not spicy, thanks",
        "Я веган",
        "Vegan, lactose intolerant",
        "Ana is pregnant",
        "keine Nüsse bitte",
        "我住在北京",
        "对花生过敏",
        "ナッツ禁止",
        "땅콩 안돼요",
        "我用Python",
        "好的，我不吃肉",
        "not yet married",
    ],
)
def test_a_short_fact_opens_the_gate(line: str) -> None:
    assert is_salient([line])


def test_only_what_a_user_said_counts_and_nothing_is_nothing() -> None:
    assert not is_salient([])


def test_a_signal_is_a_word_and_no_part_of_one() -> None:
    assert not is_salient(["recall me"]) and not is_salient(["hi amber"])


def test_scripts_without_spaces_are_counted_by_their_characters() -> None:
    assert is_salient(["我们的项目使用数据库"]) and is_salient(["プロジェクトの締め切りは金曜日です"])
    assert is_salient(["住在北京"]) and not is_salient(["在北京"]), "four of them are enough, and three are not"


def test_of_a_very_long_line_only_its_beginning_is_looked_at() -> None:
    assert not is_salient(["ok " * LOOKED_CHARS + "my name is Ana"])


def test_it_has_a_version() -> None:
    assert GATE == "salience/3"


@given(st.lists(st.text(max_size=60), max_size=5))
def test_any_lines_have_an_answer_and_more_of_them_never_close_the_gate(lines: list[str]) -> None:
    first = is_salient(lines)
    assert is_salient([*lines, "my name is Ana"])
    assert not first or is_salient([*lines, "ok"])


@pytest.mark.parametrize(
    "line",
    [
        "What's the difference between a crow and a rook?",
        "how do i stop a whippet eating socks",
        "What can I do with half a panettone that's gone like a doorstop",
        "best way to cut acrylic sheet without a laser?",
        "Wie lange muss ein Hefeteig gehen?",
    ],
)
def test_a_question_by_itself_says_nothing_to_remember(line: str) -> None:
    assert not is_salient([line])


@pytest.mark.parametrize(
    "line",
    [
        "The vet for the dog is Ms Lindqvist in Crookes. What's kennel cough",
        "My laptop sticker says Framework 13 but the bios says something else, ignore?",
        "can you stop with the emojis in drafts, Geraldine thinks the account was hacked",
        "can you help\ndentist moved to Friday 14:00",
        "Can you remember that I prefer tea?",
    ],
)
def test_what_stands_beside_a_question_counts(line: str) -> None:
    assert is_salient([line])
