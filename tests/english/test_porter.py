"""The stem of a word is the term under which FTS5 keeps the word."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ledger.english.words import LEAST_BYTES, MOST_BYTES, folded, indexed_words, stem
from tools.evaluate.evaluate_stems import differing, main

_ENDINGS = """
    ational tional enci anci izer logi bli alli entli eli ousli ization ation ator alism iveness fulness ousness aliti iviti
    biliti ical ness icate iciti ful ative alize al ance ence er ic able ible ant ement ment ent ion ou ism ate iti ous ive
    ize s es ies sses ss ed eed ing at bl iz y e ll edly ings ers
"""
ENDINGS = _ENDINGS.split()
LETTERS, COMMON, BEYOND = "abcdefghijklmnopqrstuvwxyz", "aeiouylstz", "łøđæчайжωλфתשمكतना٣৩ªǆ"
SYLLABLES = st.sampled_from(("st", "tr", "a", "e", "y", "oo", "ll", "ss", "ч", "त", "7", "x", "w", *ENDINGS))


def drawn(count: int) -> Iterator[str]:
    """Yield made-up words: letters with real endings, some with digits or letters beyond ASCII, some very long."""
    draw = random.Random(1980)
    for number in range(count):
        letters = COMMON if number % 3 == 0 else LETTERS + "0123456789" if number % 7 == 0 else LETTERS
        if number % 5 == 0:
            letters += BEYOND
        word = "".join(draw.choices(letters, k=draw.randint(0, 7))) + "".join(
            draw.choices(ENDINGS, k=draw.randint(0, 3))
        )
        yield from indexed_words(folded(word * draw.randint(4, 12) if number % 50 == 0 else word))


def test_100_000_made_up_words_have_the_stems_of_fts5() -> None:
    words = list(drawn(105_000))
    assert len(words) >= 100_000 and max(map(len, words)) > MOST_BYTES
    assert list(differing(words)) == []


@given(st.lists(SYLLABLES, min_size=1, max_size=12).map("".join))
@example("sses")
@example("ies")
@example("eyed")
@example("यतing")  # FTS5 takes a byte of a doubled letter away
@example("y" * MOST_BYTES + "ing")
def test_a_word_of_any_parts_has_the_stem_of_fts5(word: str) -> None:
    assert list(differing(indexed_words(word))) == []


def test_a_word_of_more_than_64_bytes_is_its_own_stem() -> None:
    assert stem("a" * (MOST_BYTES - 3) + "ing") != "a" * (MOST_BYTES - 3) + "ing"
    assert stem("a" * (MOST_BYTES - 2) + "ing") == "a" * (MOST_BYTES - 2) + "ing"
    assert stem("ч" * (MOST_BYTES // 2 - 1) + "ing") == "ч" * (MOST_BYTES // 2 - 1) + "ing"  # bytes, not characters
    assert stem("as") == "as" and LEAST_BYTES == 3


@pytest.mark.parametrize(
    ("forms", "expected"),
    [
        ("run runs running", "run"), ("prefer prefers preferred preferring", "prefer"), ("study studies studied", "studi"),
        ("move moves moved moving", "move"), ("relational", "relat"), ("hopefulness", "hope"), ("чай", "чай"),
    ],
)  # fmt: skip
def test_regular_forms_have_one_stem(forms: str, expected: str) -> None:
    assert {stem(form) for form in forms.split()} == {expected}


@pytest.mark.parametrize("text", ["", " ", "two words", "a-b", "\0", '"', "🙂", "\ud800"])
def test_a_text_that_is_not_one_word_is_its_own_stem(text: str) -> None:
    assert stem(text) == text


def test_a_stem_begins_as_its_word_does() -> None:
    """The ranking relies on it: it leaves words unread by their beginning. A stem of two letters may end in i for y."""
    for word in ("eyed", "relational", "flies", "dying", "used", "aged", "ponies", "buying", "caresses", "sky"):
        stemmed = stem(word)
        assert word[:1] == stemmed[:1] and (len(stemmed) < 3 or word[:2] == stemmed[:2])


def test_the_command_compares_the_words_of_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "text.txt").write_text("The dogs ran, the DOG runs.", encoding="utf-8")
    assert main([str(tmp_path / "text.txt")]) == 0
    assert capsys.readouterr().out == "5 different words, 0 with another stem than in the index\n"
