"""The pattern of a grep: how it is asked of FTS5, and where a text has it."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ledger.domain.errors import RejectedError
from ledger.english.words import stem
from ledger.sessions.rules.grep import MAX_PATTERN_CHARS, MAX_TERMS, Span, parse
from ledger.sessions.rules.snippet import snippet
from projections.search import one_text

ANY_TEXT = st.text(alphabet=st.characters(exclude_categories=("Cs",)))


def places(pattern: str, text: str) -> list[Span]:
    asked = parse(pattern, stem)
    return asked.places(text) if asked.inside else one_text.spans(asked.any_term, text)


def has(pattern: str, text: str) -> bool:
    asked = parse(pattern, stem)
    return bool(asked.places(text)) if asked.inside else one_text.matches(asked.expression, text)


# --- reading ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "asked"),
    [
        ("coffee", '"coffee"'), ("Coffee machine", '"coffee" AND "machine"'), ('"coffee machine"', '"coffee machine"'),
        ("“coffee machine”", '"coffee machine"'), ("a OR b c", '"a" OR "b" AND "c"'), ("a NOT b", '"a" NOT "b"'),
        ("a AND NOT b", '"a" NOT "b"'), ("(a OR b) c", '( "a" OR "b" ) AND "c"'), ("a (b)", '"a" AND ( "b" )'),
        ("and", '"and"'), ("don't", '"don t"'), ("v3.11", '"v3 11"'), ("100%", '"100"'), ("a_case*", '"a case"*'),
        ("喝茶", '"喝 茶"'), ("École", '"ecole"'), ("hop*", '("hop"*)'), ('"NEAR(a b)" x', '"near a b" AND "x"'),
        ("text:x ^y z + w*", None),
    ],
)  # fmt: skip
def test_every_term_is_quoted_and_two_side_by_side_are_both_asked_for(pattern: str, asked: str | None) -> None:
    if asked is None:
        with pytest.raises(RejectedError, match="no word in '\\+'"):
            parse(pattern, stem)
        return
    assert parse(pattern, stem).expression == asked and one_text.why_unreadable(asked) == ""


@pytest.mark.parametrize(
    "pattern",
    [
        "", " \n", 'a "b', '"', '""', "->", "a ::", "🙂", "*", "%", "%%", "a" * (MAX_PATTERN_CHARS + 1),
        "a " * (MAX_TERMS + 1), None, 7, b"a", ["a"],
    ],
)  # fmt: skip
def test_a_pattern_without_words_is_refused(pattern: object) -> None:
    with pytest.raises(RejectedError):
        parse(pattern, stem)


@pytest.mark.parametrize("pattern", ["(a", "a)", "()", "AND", "a AND", "OR a", "a OR OR b", "NOT a", "a OR NOT b"])
def test_fts5_says_of_operators_that_they_are_out_of_order(pattern: str) -> None:
    assert "syntax error" in one_text.why_unreadable(parse(pattern, stem).expression)


@given(ANY_TEXT)
@example('a:b NEAR(x y) -z * ^q "open AND OR NOT" {c d}: + \0')
@example('\'; DROP TABLE f; -- x"" ""')
def test_no_pattern_breaks_a_search(pattern: str) -> None:
    try:
        asked = parse(pattern, stem)
    except RejectedError:
        return
    if not asked.inside and not one_text.why_unreadable(asked.expression):
        one_text.matches(asked.expression, pattern)
        one_text.matches(asked.any_row, pattern)


# --- what a text has -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "text", "yes"),
    [
        ("run", "He was running.", True), ("running", "a run", True), ("run", "overrun", False), ("run", "ran", False),
        ("happy", "happiness, happily", True), ("a", "an", False), ("é", "e", True), ("ecole", "ÉCOLE", True),
        ("tea cup", "a cup of tea", True), ("tea cup", "tea", False), ("tea OR cup", "cup", True),
        ("tea NOT cup", "tea", True), ("tea NOT cup", "tea cups", False), ('"tea cup"', "cup, tea", False),
        ('"tea cup"', "TEA \n cup", True), ("v3.11", "v3.110", False), ("100%", "100% sure", True),
        ("runn*", "He was running.", True), ("runn*", "a runner", True), ("runn*", "runt", False), ("hop*", "hopping", True),
        ("organiz*", "an organization", True), ("happ*", "happiness", True), ("happy*", "happily", True),
        ("machin*", "machines", True), ("machin*", "a mach", False), ("喝*", "我喝茶吗", True),
        ("茶", "我喝茶吗", True), ("喝茶", "我喝茶吗", True), ("喝吗", "我喝茶吗", False), ("한국", "한국어를", True),
        ("हिन्दी", "हिन्दी भाषा", True), ("чай", "Чай", True), ("straße", "STRASSE", True), ("file", "ﬁles", True),
        ("%earb%", "the gearbox", True), ("%->%", "x->y", True), ("%EAR%", "gearbox", True), ("%a_c%", "abc", False),
        ("%100%%", "100% sure", True), ("%.*%", "abc", False),
    ],
)  # fmt: skip
def test_a_text_has_what_the_pattern_says_or_not(pattern: str, text: str, yes: bool) -> None:
    assert has(pattern, text) is yes


@given(st.from_regex(r"[a-z]{3,6}(ational|ies|ing|ed|ness|ly|y|er|s)?", fullmatch=True))
def test_a_word_is_found_by_all_of_it_as_a_beginning(word: str) -> None:
    assert has(f"{word}*", f"the {word} here")


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("run", "Running, overrun; RUNS", ["Running", "RUNS"]), ("tea NOT cup", "tea", ["tea"]),
        ("cafe", "un café!", ["café"]), ("茶", "茶と茶", ["茶", "茶"]), ("喝茶", "我喝茶吗", ["喝茶"]),
        ('"a b"', "xa \n b, a \n b", ["a \n b"]), ("a OR b", "b a", ["b", "a"]), ("tea OR cup", "a cup", ["cup"]),
        ("%ear%", "gEARbox", ["EAR"]),
    ],
)  # fmt: skip
def test_places_are_those_of_the_text_as_it_is(pattern: str, text: str, found: list[str]) -> None:
    assert [text[start:end] for start, end in places(pattern, text)] == found


@given(ANY_TEXT)
def test_places_are_in_order_and_within_the_text(text: str) -> None:
    found = places("a OR the OR 茶", text)
    assert all(0 <= start < end <= len(text) for start, end in found)
    assert all(one[1] <= other[0] for one, other in pairwise(found))


# --- snippets --------------------------------------------------------------------------------------------------------


def test_a_short_text_is_its_snippet_on_one_line() -> None:
    assert snippet("a\n b", [(0, 1)]) == "a b"


def test_a_snippet_is_cut_at_white_space_around_what_was_found() -> None:
    text = "one two three four five six seven eight nine ten"
    (place,) = places("five", text)
    assert snippet(text, [place], 20) == "…four five six…"
    assert snippet(text, [], 20) == "one two three four…"
    assert snippet(text, [(45, 48)], 20) == "…seven eight nine ten"[:20] or snippet(text, [(45, 48)], 20).endswith(
        "nine ten"
    )


def test_a_snippet_shows_where_most_lies_together() -> None:
    text = "tea " + "x " * 200 + "tea and more tea " + "y " * 200
    assert "tea and more tea" in snippet(text, places("tea", text), 60)


@given(ANY_TEXT.map(lambda text: text * 5), st.integers(0, 80))
def test_a_snippet_is_never_longer_than_asked(text: str, chars: int) -> None:
    short = snippet(text, places("a OR the", text), chars)
    assert len(short) <= chars and "\n" not in short
