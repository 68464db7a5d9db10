"""The pattern of a grep: what it means, what has it, where, and that the index never misses what it finds."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise

import pytest
from counting import steps
from hypothesis import example, given
from hypothesis import strategies as st

from ledger.domain.errors import RejectedError
from ledger.domain.grep import _Folded, _is_cut, expression, is_exact, matches, spans
from ledger.domain.grep_pattern import (
    MAX_DEPTH,
    MAX_PATTERN_CHARS,
    MAX_TERMS,
    All,
    Either,
    Literal,
    Not,
    Tree,
    Word,
    parse,
    plain,
)
from ledger.domain.question import indexed, split
from ledger.domain.snippet import snippet
from projections.core.sqlite import TOKENIZER
from projections.search.stems import stem

ANY_TEXT = st.text(alphabet=st.characters(exclude_categories=()))
WHOLE_TEXT = st.text(alphabet=st.characters(exclude_categories=("Cs",)))
_PIECES = """
    run running runs ran happy happily happiness sensible sensibility a b AND OR NOT and - -> :: " "" ( ) ’ “ _ % * . , 1 12 3.11
    café CAFE\u0301 Straße ﬁle İ 茶 喝茶 咖啡 私は がん か\u3099 あ\u3099 한국 한국어 \u1112\u1161 हिन्दी กำ مَرحبا ёлка 🙂
    𞤀 ꙮ ߊ ᬅ ø ı ﷺ \u09c7\u09be
"""
PIECES = st.lists(st.sampled_from([*_PIECES.split(), " ", "  ", "\n", "\t", "\u0301"]), max_size=8)
LIKELY = st.one_of(PIECES.map("".join), PIECES.map(" ".join))


def has(pattern: str, text: str) -> bool:
    return matches(parse(pattern), text, stem)


def shown(pattern: str, text: str) -> list[str]:
    return [text[start:end] for start, end in spans(parse(pattern), text, stem)]


def tree_of(pattern: str) -> Tree | None:
    try:
        return parse(pattern)
    except RejectedError:
        return None


@pytest.fixture(scope="module")
def index() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.execute(f"CREATE VIRTUAL TABLE f USING fts5(t, tokenize='{TOKENIZER}')")
        yield connection


def finds(index: sqlite3.Connection, text: str, asked: str) -> bool:
    index.execute("DELETE FROM f")
    index.execute("INSERT INTO f VALUES (?)", (indexed(text),))
    return bool(index.execute("SELECT 1 FROM f WHERE f MATCH ?", (asked,)).fetchall())


# --- reading ---------------------------------------------------------------------------------------------------------

A, B, C = Word("a"), Word("b"), Word("c")


@pytest.mark.parametrize(
    ("pattern", "tree"),
    [
        ("a", A), ("A", A), ("a b", All((A, B))), ("a AND b", All((A, B))), ("a OR b", Either((A, B))),
        ("a b OR c", Either((All((A, B)), C))), ("a OR b c", Either((A, All((B, C))))),
        ("a OR b AND c", Either((A, All((B, C))))), ("(a OR b) c", All((Either((A, B)), C))),
        ("(a OR b)c", All((Either((A, B)), C))), ("a OR(b c)", Either((A, All((B, C))))),
        ("a NOT b", All((A, Not(B)))), ("a -b", All((A, Not(B)))), ("a AND NOT b OR c", Either((All((A, Not(B))), C))),
        ("a NOT(b c)", All((A, Not(All((B, C)))))), ('a -"b c"', All((A, Not(Literal("b c"))))),
        ("NOT NOT a", A), ("NOT -a", A), ("a and b", All((A, Word("and"), B))), ("a Or b", All((A, Word("or"), B))),
        ('"a"', Literal("a")), ('"A  b\n"', Literal("a b")), ('"AND"', Literal("and")), ('a"b"c', All((A, Literal("b"), C))),
        ('"say ""hi"""', Literal('say "hi"')), ("“a b”", Literal("a b")), ("„a b“", Literal("a b")),
        ("don't", Literal("don't")), ("don’t", Literal("don't")), ("v3.11", Literal("v3.11")), ("a_b", Literal("a_b")),
        ("C++", Literal("c++")), ("a, b?", All((A, B))), ("'a b'", All((A, B))), ("`a`", A), ("?!", Literal("?!")),
        ("->", Literal("->")), ("::", Literal("::")), ("--a", Literal("--a")), ("-", Literal("-")), ("100%", Literal("100%")),
        ("f(x)", Literal("f(x)")), ("print()", Literal("print()")), ("(print())", Literal("print()")), (":(", Literal(":(")),
        ("a*", Literal("a*")), ("NOTa", Word("nota")), ("ANDROID", Word("android")),
        ("茶", Literal("茶")), ("喝茶。", Literal("喝茶")), ("École", Word("ecole")), ("🙂", Literal("🙂")),
        ("NOT (a NOT b)", Not(All((A, Not(B))))),
    ],
)  # fmt: skip
def test_a_pattern_means_what_it_says(pattern: str, tree: Tree) -> None:
    assert parse(pattern) == tree


@pytest.mark.parametrize(
    "pattern",
    [
        "", " \n", 'a "b', '"', '""', '" "', "(a", "a)", "()", "((a)", "f(x y)", ":)", "AND", "a AND", "AND a", "OR a",
        "a OR", "a OR OR b", "a AND OR b", "a AND AND b", "NOT", "a NOT", "NOT AND a", "-a", "NOT a", "-a -b", "-(a b)", "\u0301",
        "NOT a OR NOT b", 'a -""', "a" * (MAX_PATTERN_CHARS + 1), "a " * (MAX_TERMS + 1), "(" * 99 + "a" + ")" * 99,
        None, 7, b"a", ["a"],
    ],
)  # fmt: skip
def test_a_pattern_that_is_not_whole_is_refused(pattern: object) -> None:
    with pytest.raises(RejectedError):
        parse(pattern)


def test_what_is_refused_says_what_would_be_allowed() -> None:
    with pytest.raises(RejectedError, match=r"ends with OR; .*double quotes"):
        parse("a OR")
    with pytest.raises(RejectedError, match=r"has \) after \("):
        parse("a ()")


def test_parentheses_nest_up_to_a_point(index: sqlite3.Connection) -> None:
    pattern = "a"
    for number in range(MAX_DEPTH):
        pattern = f"(a OR {pattern})" if number % 2 else f"(a {pattern})"
    assert finds(index, "a", str(expression(parse(pattern))))
    with pytest.raises(RejectedError):
        parse(f"({pattern})")


def test_there_may_be_many_terms(index: sqlite3.Connection) -> None:
    pattern = " OR ".join(f'"x w{n} y" z{n}' for n in range(MAX_TERMS // 2))
    assert has(pattern, "z7 x w7 y") and finds(index, "z7 x w7 y", str(expression(parse(pattern))))
    assert len(str(expression(parse('"' + "茶" * 3_000 + '"')))) < 100


# --- the truth -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "text", "yes"),
    [
        ("run", "He was running.", True), ("running", "a run", True), ("run", "overrun", False), ("run", "ran", False),
        ("happy", "happiness, happily", True), ("sensible", "sensibility", True), ("run", "run_time", True),
        ("a", "A", True), ("a", "an", False), ("é", "e", True), ("ecole", "ÉCOLE", True), ("12", "123", False),
        ("tea cup", "a cup of tea", True), ("tea cup", "tea", False), ("tea OR cup", "cup", True),
        ("tea -cup", "tea", True), ("tea -cup", "tea cups", False), ("tea OR -cup", "milk", True),
        ('"ea cu"', "tea cup", False), ('"tea cup"', "tea, cup", False), ('"tea cup"', "TEA \n cup", True),
        ('"run"', "overrun, running", False), ('"run"', "(run)", True), ('"running"', "run", False),
        ("don't", "I don’t", True), ("don't", "I dont", False), ("v3.11", "v3.110", False), ("v3.11", "v3 11", False),
        ("a_case", "in a_case.", True), ("100%", "100% sure", True), ("100%", "1000", False), ("a_c", "abc", False),
        ("->", "x->y", True), ("::", "std::map", True), ("print()", "print()", True), ("print()", "print(1)", False),
        ("茶", "我喝茶吗", True), ("喝茶", "我喝茶吗", True), ("喝吗", "我喝茶吗", False), ("喝茶", "喝,茶", False),
        ("がん", "がんばる", True), ("か", "がんばる", False), ("한국", "한국어를", True), ("สวัส", "สวัสดี", True),
        ("हिन्दी", "हिन्दी भाषा", True), ("run", "私runする", True), ("чай", "Чай", True), ("🙂", "ok🙂", True),
        ("straße", "STRASSE", True), ("file", "ﬁles", True), ("مرحبا", "مَرحبا", True),
    ],
)  # fmt: skip
def test_a_text_has_what_the_pattern_says_or_not(pattern: str, text: str, yes: bool) -> None:
    assert has(pattern, text) is yes


@given(LIKELY, LIKELY)
@example("run", "runs 私run")
@example('"が"', "か\u3099")
@example("\u09c7\u09be", "x \u09c7\u09be")
def test_the_index_finds_every_text_that_matches(index: sqlite3.Connection, pattern: str, text: str) -> None:
    for asked in (pattern, f'"{pattern}"'):
        tree = tree_of(asked)
        said = None if tree is None else expression(tree)
        if tree is None or said is None:
            continue
        found = finds(index, text, said)
        if matches(tree, text, stem):
            assert found, said
        elif is_exact(tree) and all(ord(each) < 0x7C0 for each in text):
            assert not found, said


@given(WHOLE_TEXT, st.data())
@example("¨a", None)
@example("ᄒ\u1161x", None)
def test_every_text_has_every_part_of_it_in_quotes_that_is_cut_between_words(
    index: sqlite3.Connection, text: str, data: st.DataObject | None
) -> None:
    start, end = (0, len(text)) if data is None else sorted(data.draw(st.integers(0, len(text))) for _ in range(2))
    folded = plain(text)
    part = folded[start:end].replace('"', '""')
    tree = tree_of(f'"{part}"')
    if tree is None or plain(folded[start:end]) != folded[start:end]:
        return  # nothing to look for, or cut in the middle of a letter
    space = len(part) - len(part.lstrip()), len(part.rstrip()) - len(part)
    if _is_cut(folded, start + space[0]) or _is_cut(folded, end + space[1]):
        return
    assert matches(tree, text, stem) and spans(tree, text, stem)
    said = expression(tree)
    assert said is None or finds(index, text, said)


@given(LIKELY)
def test_every_text_has_each_word_of_it(text: str) -> None:
    for word in split(text):
        assert has(word, text)


@given(ANY_TEXT | LIKELY, ANY_TEXT)
@example('a:b NEAR(x y) -z * ^q "open AND OR NOT" {c d}: + \0 \ud800', "")
@example('\'; DROP TABLE f; -- x"" ""', "x")
def test_no_pattern_breaks_a_search(index: sqlite3.Connection, pattern: str, text: str) -> None:
    tree = tree_of(pattern)
    if tree is not None:
        said = expression(tree)
        if said is not None:
            index.execute("SELECT rowid FROM f WHERE f MATCH ?", (said,)).fetchall()
        found = spans(tree, text, stem)
        assert len(snippet(text, found, 20)) <= 20


@pytest.mark.parametrize(
    ("pattern", "asked"),
    [
        ("run", '"run"'), ("run tea", '("run" AND "tea")'), ("a OR b", '("a" OR "b")'), ("a -b", '"a"'), ("a OR -b", None),
        ("::", None), ("a ::", '"a"'), ("a OR ::", None), ('"ea cu"', '"ea cu"'), ('"tea, cup"', '"tea cup"'),
        ('"run"', '"run"'),
        ("喝茶", '"喝 茶"'), ('"私はcoffee"', '"私 は coffee"'), ('"(tea)"', '"tea"'), ("𞤀", None), ("ߊ", None), ("a a", '"a"'),
    ],
)  # fmt: skip
def test_the_index_is_asked_for_what_is_sure_to_stand_whole(pattern: str, asked: str | None) -> None:
    assert expression(parse(pattern)) == asked


def test_the_index_alone_can_tell_of_bare_words() -> None:
    assert is_exact(parse("run OR (tea cup)"))
    assert not any(is_exact(parse(each)) for each in ("a -b", '"a"', "茶", "чай", "a ::"))


@given(
    st.from_regex(
        r"[a-z]{1,6}(ational|ization|ibility|ably|ency|ies|ing|ed|ness|fulness|ly|y|er|ative)?", fullmatch=True
    )
)
def test_a_stem_is_the_beginning_of_its_word_but_for_its_last_letter(word: str) -> None:
    assert word.startswith(stem(word)[:-1])


# --- places ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("run", "Running, overrun; RUNS", ["Running", "RUNS"]), ("tea -cup", "tea cup", ["tea"]),
        ("cafe", "un café, un cafe\u0301!", ["café", "cafe\u0301"]), ("file", "the ﬁle", ["ﬁle"]),
        ("茶", "茶と茶", ["茶", "茶"]), ("喝茶", "我喝茶吗", ["喝茶"]), ('"a b"', "xa \n b, a \n b", ["a \n b"]),
        ("run", "私runする", ["run"]), ("한", "\u1112\u1161\u11ab국", ["\u1112\u1161\u11ab"]), ("if", "ﬁf if", ["if"]),
        ("->", "é -> ü", ["->"]), ('"fi"', "ﬁ", ["ﬁ"]), ("NOT (a NOT b)", "a b", ["b"]), ("a OR b", "b a", ["b", "a"]),
        ('"a a"', "aa a a", ["a a"]), ('"strasse"', "Straße", ["Straße"]),
    ],
)  # fmt: skip
def test_places_are_those_of_the_text_as_it_is(pattern: str, text: str, found: list[str]) -> None:
    assert shown(pattern, text) == found


@given(ANY_TEXT | LIKELY)
@example("a\u0301\u0345é")
def test_a_text_folds_piece_by_piece_as_it_does_whole(text: str) -> None:
    assert _Folded(text).text == plain(text)


@given(LIKELY, LIKELY)
def test_places_are_in_order_apart_and_there_where_the_text_matches(pattern: str, text: str) -> None:
    tree = tree_of(pattern)
    if tree is None:
        return
    found = spans(tree, text, stem)
    assert all(0 <= start < end <= len(text) for start, end in found)
    assert all(one[1] < other[0] for one, other in pairwise(found))
    if isinstance(tree, Word | Literal):
        assert bool(found) is matches(tree, text, stem)


@pytest.mark.slow
@pytest.mark.parametrize(("unit", "pattern"), [("喝茶", "茶"), ("a ", "a"), ("é", "x"), ("a\n", '"a a b"')])
def test_ten_times_the_text_takes_ten_times_the_steps(unit: str, pattern: str) -> None:
    def took(units: int) -> int:
        tree, text = parse(pattern), unit * units
        return steps(lambda: (spans(tree, text, stem), matches(tree, text, stem)))

    assert took(20_000) <= 11 * took(2_000) + 1_000


# --- snippets --------------------------------------------------------------------------------------------------------


def test_a_short_text_is_its_snippet_on_one_line() -> None:
    assert snippet("a\n b", [(0, 1)]) == "a b"


def test_a_snippet_is_cut_at_white_space_around_what_was_found() -> None:
    text = "one two three four five six seven eight nine ten"
    (place,) = spans(parse("five"), text, stem)
    assert snippet(text, [place], 20) == "…four five six…"
    assert snippet(text, [], 20) == "one two three four…"
    assert snippet(text, [(45, 48)], 20) == "…seven eight nine ten"[:20] or snippet(text, [(45, 48)], 20).endswith(
        "nine ten"
    )


def test_a_snippet_shows_where_most_lies_together() -> None:
    text = "tea " + "x " * 200 + "tea and more tea " + "y " * 200
    assert "tea and more tea" in snippet(text, spans(parse("tea"), text, stem), 60)


@given(LIKELY.map(lambda text: text * 5), LIKELY, st.integers(0, 80))
def test_a_snippet_is_never_longer_than_asked(text: str, pattern: str, chars: int) -> None:
    tree = tree_of(pattern)
    found = [] if tree is None else spans(tree, text, stem)
    short = snippet(text, found, chars)
    assert len(short) <= chars and "\n" not in short
