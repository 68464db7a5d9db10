"""The stem of a word is what the text index makes of it, in every thread."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ledger.english.porter import stem
from ledger.english.words import folded, split
from projections.core.sqlite import TOKENIZER

WORDS = st.from_regex(r"\A[a-z]{1,12}(ing|ed|s|ies|ational|ness|y|e|)\Z") | st.text(max_size=20).map(folded)


@pytest.fixture(scope="module")
def index() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.execute(f"CREATE VIRTUAL TABLE f USING fts5(t, content='', tokenize='{TOKENIZER}')")
        connection.execute("CREATE VIRTUAL TABLE v USING fts5vocab(f, row)")
        yield connection


def terms(index: sqlite3.Connection, word: str) -> list[str]:
    index.execute("INSERT INTO f (f) VALUES ('delete-all')")
    index.execute("INSERT INTO f (rowid, t) VALUES (1, ?)", (word,))
    return [term for (term,) in index.execute("SELECT term FROM v")]


@given(WORDS)
@example("running")
@example("eyed")
@example("茶")
@example("чай")
def test_a_stem_is_the_term_that_the_index_keeps(index: sqlite3.Connection, text: str) -> None:
    for word in split(text):
        if word.isascii() or len(word) == 1:
            assert [stem(word)] == (terms(index, word) or [word])


def test_regular_forms_have_one_stem() -> None:
    assert {stem(word) for word in ("run", "runs", "running")} == {"run"}
    assert {stem(word) for word in ("prefer", "prefers", "preferred", "preferring")} == {"prefer"}


@pytest.mark.parametrize("word", ["", " ", "two words", "a-b", "\0", '"', "🙂", "\ud800"])
def test_what_is_no_word_is_its_own_stem(word: str) -> None:
    assert stem(word) == word


def test_threads_stem_side_by_side() -> None:
    words = [f"{letter}{number}walking" for letter in "abcdefgh" for number in range(40)]
    found: dict[int, list[str]] = {}
    stem.cache_clear()

    def run(number: int) -> None:
        found[number] = [stem(word) for word in words[number * 20 :] + words[: number * 20]]

    threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(found) == 8
    assert {word for each in found.values() for word in each} == {word.removesuffix("ing") for word in words}


def test_the_way_a_stem_begins_is_how_its_word_does() -> None:
    """What ranking leaves unread relies on it; a stem of two letters may have turned its y into an i."""
    for word in ("eyed", "relational", "flies", "dying", "used", "aged", "ponies", "buying", "caresses", "sky"):
        stemmed = stem(word)
        assert word[:1] == stemmed[:1] and (len(stemmed) < 3 or word[:2] == stemmed[:2])
