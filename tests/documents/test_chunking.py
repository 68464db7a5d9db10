"""Chunking: a text comes back whole from its chunks, headings are headings, and no text takes long."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ledger.documents import chunking
from ledger.documents.chunking import MAX_CHUNKS, TARGET_CHARS, ChunkPiece, chunks, first_words, title

MARKDOWN = st.lists(
    st.sampled_from(
        ("# ", "## ", "###### ", "Title", "\n", "\n\n", "\r\n", "\r", "===", "---", "```", "~~~", "````", "    ", "\t", "- ",
         "1. ", "> ", "#", " ", "a. ", "word ", "\u0301", "\u200d", "😀", "。", "x" * 700, "...", "\x0b", "\u2028", "title: T")
    )
    | st.text(max_size=4),
    max_size=60,
).map("".join)  # fmt: skip


def paths(text: str) -> list[tuple[tuple[str, ...], str]]:
    return [(each.heading_path, each.content) for each in chunks(text)]


@settings(max_examples=100, deadline=None)
@given(text=MARKDOWN, kind=st.sampled_from(chunking.KINDS))
@example(text="---\n---\n---", kind="markdown")
@example(text="\r\n=\r\n", kind="markdown")
def test_the_chunks_one_after_the_other_are_the_text(text: str, kind: str) -> None:
    found = chunks(text, kind)
    assert "".join(each.content for each in found) == text
    assert all(0 < len(each.content) <= TARGET_CHARS for each in found)
    assert sum(each.lines for each in found) == chunking._with_plain_lines(text).count("\n")
    assert all(name and "\n" not in name for each in found for name in each.heading_path)
    title(text, kind), first_words(text)


@settings(max_examples=60, deadline=None)
@given(text=MARKDOWN)
def test_however_many_headings_there_are_the_chunks_are_not_too_many(text: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunking, "MAX_CHUNKS", 7)
        found = chunks(text)
    assert len(found) <= 7 and "".join(each.content for each in found) == text


def test_headings_are_told_outermost_first() -> None:
    text = "before\n# A\none\n## B\ntwo\n#### C\nthree\n## D ##\nfour\n# E\nfive\n"
    assert [each.heading_path for each in chunks(text)] == [
        (), ("A",), ("A", "B"), ("A", "B", "C"), ("A", "D"), ("E",)
    ]  # fmt: skip
    assert chunks(text)[3] == ChunkPiece("#### C\nthree\n", ("A", "B", "C"), 2)


def test_underlined_headings_are_headings_and_rules_are_not() -> None:
    assert [each.heading_path for each in chunks("One\n===\ntext\n\nTwo\n---\ntext\n")] == [("One",), ("One", "Two")]
    for rule in ("two\nlines\n---\n", "- item\n---\n", "> quote\n---\n", "| a |\n---\n", "\n---\n", "    code\n---\n"):
        assert paths(rule) == [((), rule)]


@pytest.mark.parametrize(
    "block",
    ["```\n# no\n```\n", "~~~ sh\n# no\n```\n~~~\n", "````\n```\n# no\n````\n", "- x\n\n      ```\n      # no\n      ```\n",
     "1. ```\n   # no\n   ```\n", "> ```\n> # no\n> ```\n", "    # no\n", "#no\n", "\\# no\n", "```\r\n# no\r\n```\r\n"],
)  # fmt: skip
def test_nothing_in_a_fence_or_in_code_is_a_heading(block: str) -> None:
    assert paths(f"# A\n{block}# B\n") == [(("A",), f"# A\n{block}"), (("B",), "# B\n")]


def test_a_fence_that_is_never_closed_runs_to_the_end_unless_it_stood_in_a_list() -> None:
    assert len(chunks("# A\n```\n# no\n# no\n")) == 1
    assert [each.heading_path for each in chunks("# A\n- x\n      ```\n      # no\n# B\n")] == [("A",), ("B",)]
    assert [each.heading_path for each in chunks("# A\n```a`b\n# B\n")] == [("A",), ("B",)], "inline code"


def test_front_matter_lies_in_the_first_chunk_and_names_the_text() -> None:
    text = "---\ntitle: 'Tea'\n# none\n---\n\n# Heading\ntext\n"
    assert paths(text) == [(("Heading",), text)] and title(text) == "Tea"
    assert title("text\n## Two\n# One #\n") == "One" and title("# One\n", "text") == "" and title("text") == ""
    assert first_words(" \n a  b\n" + "c" * 100, 10) == "a b ccccc…"


def test_a_heading_alone_goes_with_what_is_under_it() -> None:
    assert paths("# A\n\n## B\nx\n## C\n## D\ny\n") == [
        (("A", "B"), "# A\n\n## B\nx\n"), (("A", "C"), "## C\n"), (("A", "D"), "## D\ny\n")
    ]  # fmt: skip


def test_long_sections_end_at_paragraphs_then_sentences_then_lines_then_words_then_letters() -> None:
    ends = {
        ("word " * 30 + "end.\n\n"): "\n\n", ("Some words here. " * 3): ". ", ("no end\n" * 3): "\n", ("word " * 3): " "
    }  # fmt: skip
    for part, end in ends.items():
        found = chunks(part * (3 * TARGET_CHARS // len(part)))
        assert len(found) > 2 and all(each.content.endswith(end) for each in found[:-1])
        assert all(len(each.content) > TARGET_CHARS // 2 for each in found[:-1])
    assert {len(each.content) for each in chunks("x" * 3 * TARGET_CHARS)} == {TARGET_CHARS}
    accented = chunks(("e\u0301") * TARGET_CHARS)
    assert all(each.content.startswith("e") for each in accented)


SIZE = 1024 * 1024  # with an eighth of the chunks of a text of 8 MiB


@pytest.mark.parametrize(
    ("begin", "unit"),
    [("", "x"), ("", "#"), ("", "#\n"), ("a", "\n"), ("a", " "), ("", "\0"), ("", "\r"), ("", "a\r\n"), ("", "a\n-\n"),
     ("", "```\n"), ("", "~"), ("", "- "), ("", ">"), ("", "1. "), ("---\n", "a: b\n"), ("", "\u0301"), ("", ". "),
     ("", "=\n"), ("".join(f"{'#' * (each % 6 + 1)} h{each}\n" for each in range(SIZE // 10)), "x")],
    ids=lambda text: repr(text[:8]),
)  # fmt: skip
def test_hostile_texts_take_few_chunks(monkeypatch: pytest.MonkeyPatch, begin: str, unit: str) -> None:
    monkeypatch.setattr(chunking, "MAX_CHUNKS", MAX_CHUNKS // 8)
    text = begin + unit * ((SIZE - len(begin)) // len(unit))
    found = chunks(text)
    assert len(found) <= MAX_CHUNKS // 8 and sum(len(each.content) for each in found) == len(text)
    assert max(len(each.content) for each in found) < 20_000


def test_after_very_many_lines_no_more_headings_are_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunking, "LINES_LOOKED_AT", 2)
    assert [each.heading_path for each in chunks("# A\na\n# B\nb\n# C\nc\n")] == [("A",), ("B",)]
