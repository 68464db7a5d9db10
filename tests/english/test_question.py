"""What a question asks for: telling words, their forms, dates, and that nothing typed is syntax for the index."""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from datetime import date

import pytest
from counting import steps
from hypothesis import example, given
from hypothesis import strategies as st

from ledger.english.dates import days, nearness
from ledger.english.question import FORMS, MAX_CONCEPTS, READ_CHARS, quoted, read
from ledger.english.words import STOP_WORDS, folded, indexed, indexed_words, spaced, split
from projections.core.sqlite import TOKENIZER

ANY_TEXT = st.text(alphabet=st.characters(exclude_categories=()))
MIXED = st.text(
    alphabet=st.one_of(
        st.sampled_from("aeinst yABC9'-_.éÉßıİſﬁ²½йЁёάΣς\u0301\u0308\u0327\u3099"),
        st.sampled_from("かがハﾊﾞ茶咖啡你한국어กำไทยمَحहिन्दी ﷺ"),
        st.characters(exclude_categories=("Cs", "Co", "Cn")),
    )
)


def telling(text: str) -> list[str]:
    return [forms[0] for forms in read(text).concepts]


@pytest.fixture(scope="module")
def index() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.execute(f"CREATE VIRTUAL TABLE f USING fts5(t, tokenize='{TOKENIZER}')")
        yield connection


def finds(index: sqlite3.Connection, text: str, expression: str) -> bool:
    index.execute("DELETE FROM f")
    index.execute("INSERT INTO f VALUES (?)", (indexed(text),))
    return bool(index.execute("SELECT 1 FROM f WHERE f MATCH ?", (expression,)).fetchall())


# --- words -----------------------------------------------------------------------------------------------------------


def test_a_question_asks_for_its_telling_words_once_in_order() -> None:
    assert telling("What does the user's IDE prefer? The IDE, École, École!") == ["user", "ide", "prefer", "ecole"]
    assert read("What does the user drink?").words == ("what", "does", "the", "user", "drink")


@pytest.mark.parametrize(
    ("text", "is_open"),
    [
        ("Where does Ana live?", True),
        ("¿Dónde vive Ana?", True),
        ("Welke kamer is van Ana?", True),
        ("locker Gus", True),
        ("Does Ana live in Rome?", False),
        ("Ana est à Rome ?", False),
        ("アナはローマに住んでいますか？", False),
    ],
)
def test_a_question_is_open_that_asks_for_more_than_a_yes(text: str, is_open: bool) -> None:
    assert read(text).is_open is is_open


def test_single_letters_say_little_unless_there_is_nothing_else() -> None:
    assert telling("plan b") == ["plan"]
    assert telling("B") == ["b"]
    assert telling("what is a 我") == ["我"]


def test_a_question_of_stop_words_asks_for_them() -> None:
    assert telling("Who was I?") == ["who", "was", "i"]
    assert read("?!").concepts == () and read("").expression == ""


def test_a_question_asks_for_at_most_so_many_words() -> None:
    assert telling(" ".join(f"the w{n}" for n in range(60))) == [f"w{n}" for n in range(MAX_CONCEPTS)]


def test_an_irregular_word_brings_its_other_forms() -> None:
    (went,) = (forms for forms in read("Where had she gone?").concepts if forms[0] == "gone")
    assert set(went) == {"gone", "go", "goes", "went", "going"}
    assert read("gone").expression == '"gone" OR "go" OR "goes" OR "went" OR "going"'


def test_every_irregular_word_is_of_one_family_and_says_something() -> None:
    assert all(word in FORMS[other] for word, others in FORMS.items() for other in others)
    assert all(split(word) == [word] for word in FORMS)
    assert not [word for word, others in FORMS.items() if word in others]


def test_a_question_of_many_forms_asks_for_each_once() -> None:
    expression = read("go went gone going goes").expression
    assert max(Counter(expression.split(" OR ")).values()) == 1


def test_stop_words_are_in_the_form_words_have() -> None:
    assert all(split(word) == [word] for word in STOP_WORDS)


@pytest.mark.parametrize("text", ["What did I buy?", "where is MY bike", "our plan", "We won", "It's mine"])
def test_the_first_person_is_heard(text: str) -> None:
    assert read(text).first_person


@pytest.mark.parametrize("text", ["What did Ann buy?", "the museum", "mining in the US", ""])
def test_and_not_where_nobody_says_it(text: str) -> None:
    assert read(text.replace("US", "states")).first_person is False


@pytest.mark.parametrize(
    "text", ["When did it rain?", "how long was it", "What year was it?", "so in which month was it"]
)
def test_a_question_for_a_time_is_recognised(text: str) -> None:
    assert read(text).when


@pytest.mark.parametrize("text", ["Whenever it rains", "What is it?", "I know when", "whatever month"])
def test_a_word_like_when_is_no_question_for_a_time(text: str) -> None:
    assert not read(text).when


# --- scripts ---------------------------------------------------------------------------------------------------------


def test_characters_of_a_script_without_spaces_are_a_phrase() -> None:
    assert split("我喝茶 and 茶x") == ["我喝茶", "and", "茶", "x"]
    assert quoted("喝茶") == '"喝  茶"'
    assert spaced("喝茶") == " 喝  茶 "


def test_a_sentence_without_spaces_is_looked_for_by_each_two_of_its_characters() -> None:
    assert telling("我喝茶吗") == ["我喝", "喝茶", "茶吗"]
    assert telling("茶") == ["茶"]


def test_a_kana_with_a_voicing_mark_is_another() -> None:
    assert folded("が") == folded("か\u3099") == folded("ｶﾞ").translate({0x30AC: "が"}) == "が"
    assert folded("か") != folded("が")


@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("Чай и ёлка", "чай"), ("Чай и ёлка", "ЕЛКА"), ("Ελλάδα", "ελλαδα"), ("ΟΔΟΣ", "οδός"), ("がんばる", "がん"),
        ("ﬁle names", "file"), ("file names", "ﬁle"), ("x² + 1", "x²"), ("مَرحبا", "مرحبا"), ("ＡＢＣ", "abc"),
        ("हिन्दी भाषा", "हिन्दी"), ("我喜欢喝茶", "茶"), ("私はcoffeeが好き", "coffee"), ("커피를 마신다", "커피"),
        ("สวัสดี", "สวัสดี"),
        ("E\u0301tude", "étude"), ("ÉTUDE", "etude"), ("Straße", "STRASSE"), ("İstanbul", "istanbul"),
        ("tiếng Việt", "tieng viet"),
        ("don't", "don't"), ("v3.11", "v3.11"), ("a_case", "case"), ("用户喜欢黑咖啡", "用户喜欢什么咖啡?"), ("Das Öl", "ol"),
        ("coffee🥰", "coffee"), ("tea\ue000", "tea"),
    ],
)  # fmt: skip
def test_a_text_is_found_by_its_words_in_any_script_with_or_without_accents(
    index: sqlite3.Connection, text: str, question: str
) -> None:
    assert finds(index, text, read(question).expression)


@given(MIXED)
@example("茶ﬁ")
@example("\u0345")
@example("ﾊﾞ")
def test_every_text_is_found_by_every_word_of_it(index: sqlite3.Connection, text: str) -> None:
    for word in split(text):
        if finds(index, word, quoted(word)):  # of a script that FTS5 does not know it has no words
            assert finds(index, text, quoted(word)), word


@given(ANY_TEXT)
@example("℡ ㎭ ŉ ᾳ İ")
def test_folding_twice_changes_nothing(text: str) -> None:
    assert folded(folded(text)) == folded(text)


@given(st.text(alphabet=st.characters(max_codepoint=127)))
def test_the_words_of_a_text_of_ascii_are_those_of_any_text(text: str) -> None:
    """The fast way and the general one."""
    assert split(text) == indexed_words(text) == split(text + "\u2014") == re.findall(r"[^\W_]+", text.lower())


@given(ANY_TEXT)
def test_the_words_of_a_text_are_the_words_of_its_words(text: str) -> None:
    assert split(" ".join(split(text))) == split(text)


# --- nothing typed is syntax -----------------------------------------------------------------------------------------


@given(ANY_TEXT)
@example('a:b NEAR(x y) -z * ^q "open AND OR NOT {c d}: + \0 \ud800')
@example('"" """ " OR "" \'; DROP TABLE f; --')
@example("🙂 記憶 한국어 हिन्दी ﷺ ß İ Ǆ ͅ")
def test_no_question_breaks_a_search(index: sqlite3.Connection, text: str) -> None:
    expression = read(text).expression
    assert not set(expression.replace('"', "").replace(" OR ", "")) & set('*:^(){}+-"\0')
    if expression:
        index.execute("SELECT rowid FROM f WHERE f MATCH ?", (expression,)).fetchall()


def test_a_question_is_read_up_to_a_point() -> None:
    late = "x " * (READ_CHARS // 2) + "coffee on 8 May"
    assert telling(late) == ["x"] and read(late).days == ()


@pytest.mark.parametrize(
    "unit", ["a", "word ", '"', "1 ", "may ", "when did ", "茶", "é\u0301", "jan 1 ", "1                ", "2023-05-08"]
)
def test_a_mebibyte_costs_what_is_read_of_it(unit: str) -> None:
    text = (unit * (1 << 20))[: 1 << 20]
    start = text[:READ_CHARS]
    assert read(text) == read(start) and steps(lambda: read(text)) == steps(lambda: read(start))


# --- dates -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("on 8 May 2023", (2023, 5, 8)), ("May 8, 2023", (2023, 5, 8)), ("May 8th", (None, 5, 8)),
        ("the 8th of May", (None, 5, 8)),
        ("in June 2023", (2023, 6, None)), ("June of 2023", (2023, 6, None)), ("2023-05-08", (2023, 5, 8)),
        ("in May", (None, 5, None)),
        ("Sept. 3", (None, 9, 3)), ("DECEMBER", (None, 12, None)), ("3 mar", (None, 3, 3)), ("by May", (None, 5, None)),
        ("8-May-2023", (2023, 5, 8)),
    ],
)  # fmt: skip
def test_a_date_in_words_is_read_as_a_date(text: str, expected: object) -> None:
    assert days(f"What was {text}?") == [expected]


@pytest.mark.parametrize(
    "text",
    ["You may go.", "May I?", "a mar in it", "decade", "marching", "2023-13-08", "12023-05-08", "sunday", "June's"[1:]],
)
def test_may_is_no_month_nor_is_what_only_looks_like_one(text: str) -> None:
    assert days(text) == []


def test_several_dates_are_several() -> None:
    assert days("between 1 April and 3 June 2024, or 2025-01-02") == [(None, 4, 1), (2024, 6, 3), (2025, 1, 2)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("08.05.2023", (2023, 5, 8)), ("8.5.2023", (2023, 5, 8)), ("05/08/2023", (2023, 5, 8)), ("5/8/2023", (2023, 5, 8)),
        ("2023/05/08", (2023, 5, 8)), ("2023-05-08", (2023, 5, 8)), ("13/05/2023", (2023, 5, 13)), ("05.13.2023", (2023, 5, 13)),
    ],
)  # fmt: skip
def test_a_date_in_numbers_is_one_and_is_searched_by_what_the_day_is_called(text: str, expected: object) -> None:
    question = read(f"What happened on {text}?", numeric=True)
    assert question.days == (expected,)
    forms = {form for forms in question.concepts for form in forms}
    assert {"happened", "2023", "may", str(expected[2]), *re.findall(r"\d+", text)} == forms  # type: ignore[index]


@given(
    st.dates(date(1000, 1, 1)),
    st.sampled_from(("{0.day}.{0.month}.{0.year}", "{0.month}/{0.day}/{0.year}", "{0:%Y/%m/%d}", "{0:%d.%m.%Y}")),
)
def test_every_day_in_numbers_is_that_day(day: date, form: str) -> None:
    assert read(form.format(day), numeric=True).days == ((day.year, day.month, day.day),)


@pytest.mark.parametrize(
    "text", ["31.02.2023", "13/13/2023", "1.2.3.2023", "1/2/20234", "10.0.0.2023", "05/08.2023", "1.2.2023.4", "5/8", "0.5.2023"]
)  # fmt: skip
def test_other_numbers_are_no_date(text: str) -> None:
    assert read(text, numeric=True).days == ()


def test_a_released_ranking_reads_numbers_as_numbers() -> None:
    assert read("on 08.05.2023").days == () and read("on 5/8/2023").concepts == (("2023",),)


@given(ANY_TEXT, st.dates())
def test_no_text_breaks_the_dates_in_it(text: str, day: date) -> None:
    for named in days(text):
        assert 0 <= nearness(named, day, before=3, after=7) <= 1


def test_a_day_is_near_before_and_longer_after() -> None:
    named = (2023, 5, 8)
    near = [nearness(named, date(2023, 5, day), before=3, after=7) for day in (4, 5, 7, 8, 9, 15, 16)]
    assert near == pytest.approx([0, 0, 2 / 3, 1, 6 / 7, 0, 0])


def test_a_month_is_near_in_all_of_its_days_and_a_day_without_a_year_every_year() -> None:
    assert [nearness((2024, 2, None), date(2024, 2, day), before=3, after=7) for day in (1, 29)] == [1, 1]
    assert nearness((None, 5, 8), date(1999, 5, 8), before=3, after=7) == 1
    assert nearness((None, 12, 31), date(2024, 1, 1), before=3, after=7) == pytest.approx(6 / 7)


@given(
    st.tuples(st.none() | st.integers(0, 9999), st.integers(1, 12), st.none() | st.integers(0, 99)),
    st.dates() | st.sampled_from([date.min, date.max]),
)
@example((9999, 12, None), date.max)
@example((0, 1, 1), date.min)
def test_nearness_is_a_share_whatever_was_named(named: tuple[int | None, int, int | None], day: date) -> None:
    assert 0 <= nearness(named, day, before=3, after=7) <= 1


def test_a_number_of_one_digit_is_asked_for() -> None:
    assert read("Is it locker 3, or plan b?", numeric=True).concepts == (("locker",), ("3",), ("plan",))
    assert read("Is it locker 3?").concepts == (("locker",),)  # an earlier ranking keeps its numbers
