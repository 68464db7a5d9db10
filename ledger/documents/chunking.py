"""The cutting of a document into chunks: at Markdown headings, and long sections at paragraphs, sentences, lines and words.

No character is lost, added or changed: the contents of the chunks in order are the text. Headings follow CommonMark, with a few
differences:

- ATX headings (``# Title``, at most three blanks before the marks) and setext headings of one line (``Title`` over ``===`` or
  ``---``). A rule under several lines of text is no heading, and neither is a rule in a list, a quote or a table.
- Nothing inside a fence (``` or ~~~) is a heading, whatever the indent of the fence, because list items contain fences too. A
  fence that is never closed ends with the text; inside a list item (four blanks or more), at the next heading further left.
- Front matter (``---`` in the first line, up to the next ``---`` within 64 Ki characters) is ordinary text without headings.
- A heading without text before the next deeper heading is in one chunk with that heading, and so is front matter with the first.
- After 250,000 lines that could be a heading or a fence, the rest of the text counts as text without headings.

The ``heading_path`` of a chunk are the headings above it, outermost first, without empty headings.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator

from msgspec import Raw, Struct

from ledger.domain.late import late
from ledger.log.events import NOTHING

TARGET_CHARS = 1_200
"""The most characters of a chunk, in a text that fits into ``MAX_CHUNKS`` chunks of this size. Our choice: about 250 words, so
that a dozen chunks fit into a prompt; ATOCore's number is not known."""

MAX_CHUNKS = 9_000
"""The most chunks of a text, so that adding a document is one append. In a longer text the chunks are larger, and small
neighbors are joined under the headings that they share."""

HEADING_CHARS = 200  # the most characters of a heading in ``heading_path``; the chunk has the whole heading
LINES_LOOKED_AT = 250_000
FRONT_MATTER_CHARS = 64 * 1024
KINDS = ("markdown", "text")  # "text" has no headings


class ChunkPiece(Struct, frozen=True):
    """A chunk without an id: its text, the headings above it, the number of lines that end in it, and a caller's metadata."""

    content: str
    heading_path: tuple[str, ...] = ()
    lines: int = 0
    own: Raw = NOTHING


class _Section(Struct, frozen=True):
    """The text from ``start`` up to the next section; ``path`` are its headings, and its own heading ends at ``body``."""

    start: int
    path: tuple[str, ...] = ()
    body: int = 0


def chunks(text: str, kind: str = "markdown") -> list[ChunkPiece]:
    """Return the chunks of a text, none for an empty text; the time is proportional to the length of the text."""
    plain = _with_plain_lines(text)
    sections = list(_sections(plain)) if kind == "markdown" else [_Section(0)]
    too_many = len(sections) > MAX_CHUNKS or len(text) > TARGET_CHARS * MAX_CHUNKS
    spans = _cut(plain, sections, TARGET_CHARS) if not too_many else []
    if not spans or len(spans) > MAX_CHUNKS:
        least = 2 * len(text) // (MAX_CHUNKS - 1) + 1  # two neighbors that together are smaller are joined
        spans = _joined(_cut(plain, sections, max(TARGET_CHARS, least)), least)
    return [ChunkPiece(text[first:last], path, plain.count("\n", first, last)) for first, last, path in spans]


def _with_plain_lines(text: str) -> str:
    """Return the text with a newline as the end of every line, and with every other character at the same index."""
    return text.replace("\r\n", " \n").replace("\r", "\n") if "\r" in text else text


# --- headings --------------------------------------------------------------------------------------------------------

_LINE = late(
    r"^(?=[ \t>#=\-`~*+0-9])(?:(?P<atx> {0,3}#{1,6})(?=[ \t\n]|\Z)"
    r"|(?P<setext> {0,3}(?:=++|-++))[ \t]*+(?=\n|\Z)"
    r"|(?P<before>[ \t>]*+(?:(?:[-*+]|\d{1,9}[.)])[ \t]++){0,4})(?P<fence>`{3,}+|~{3,}+))",
    re.MULTILINE,
)
_FRONT_MATTER = late(r"---[ \t]*+\n(?:(?!(?:---|\.\.\.)[ \t]*+(?:\n|\Z)).*+\n)*+(?:---|\.\.\.)[ \t]*+(?:\n|\Z)")
_NO_PARAGRAPH = late(r" {0,3}(?:[-*+>|]|\d{1,9}[.)][ \t]|#{1,6}[ \t]|`{3}|~{3}|=+[ \t]*$)| {4}|\t")
_TAB = 4


def _sections(text: str) -> Iterator[_Section]:
    """Yield the sections of a text, each under one heading, from the first character on."""
    after = _front_matter(text)
    section, stack = _Section(0, (), after), list[tuple[int, str]]()
    for start, level, title, body in _headings(text, after):
        depth = len(stack)
        while stack and stack[-1][0] >= level:
            stack.pop()
        is_deeper = len(stack) == depth  # the heading is under the heading before it
        stack.append((level, title))
        if not (is_deeper and _is_blank(text, section.body, start)):
            yield section
            section = _Section(start)
        section = _Section(section.start, tuple(name for _, name in stack if name), body)
    if text:
        yield section


def _is_blank(text: str, first: int, last: int) -> bool:
    """Return True if a section has no text besides its heading, so that it is joined with the section under it."""
    return last - first < TARGET_CHARS and not text[first:last].strip()


def _front_matter(text: str) -> int:
    match = _FRONT_MATTER.match(text, 0, FRONT_MATTER_CHARS) if text.startswith("---") else None
    return match.end() if match is not None else 0


def _headings(text: str, after: int) -> Iterator[tuple[int, int, str, int]]:
    """Yield (start, level, title, end) of every heading, in order."""
    fence: tuple[str, int] | None = None  # of an open fence, the marks that opened it, and its indent
    behind = after  # the end of the last heading or fence; a setext heading cannot begin before it
    for number, match in enumerate(_LINE.finditer(text, after)):
        if number >= LINES_LOOKED_AT:
            return
        marks = match["fence"]
        if fence is not None and not (match["atx"] and fence[1] >= _TAB and _indent(match["atx"]) < fence[1]):
            if marks and _closes(text, match, fence[0]):
                fence, behind = None, _line_end(text, match.end())
        elif marks:
            if marks[0] == "~" or "`" not in text[match.end() : _line_end(text, match.end())]:
                fence = (marks, _indent(match["before"]))
        elif match["atx"]:
            fence, behind = None, _line_end(text, match.end())
            yield match.start(), match["atx"].count("#"), _title(text[match.end() : behind]), behind
        else:
            start = _paragraph_line(text, behind, match.start())
            behind = _line_end(text, match.end())
            if start is not None:
                level = 1 if "=" in match["setext"] else 2
                yield start, level, _title(text[start : match.start()], closed=False), behind


def _line_end(text: str, start: int) -> int:
    """Return the index after the newline of the line that contains ``start``."""
    return text.find("\n", start) + 1 or len(text)


def _indent(before: str) -> int:
    return len(before.expandtabs(_TAB)) - len(before.expandtabs(_TAB).lstrip(" "))


def _closes(text: str, match: re.Match[str], opened: str) -> bool:
    """Return True if the marks of a line close the open fence: as many, of the same kind, and alone on the line."""
    marks, before = match["fence"], match["before"]
    is_alone = not before.strip(" \t>") and not text[match.end() : _line_end(text, match.end())].strip()
    return is_alone and marks[0] == opened[0] and len(marks) >= len(opened)


def _paragraph_line(text: str, behind: int, rule: int) -> int | None:
    """Return the start of the paragraph before a rule if the paragraph is a single line; else None."""
    start = text.rfind("\n", behind, max(behind, rule - 1)) + 1 or behind
    if rule <= behind or not text[start:rule].strip() or _NO_PARAGRAPH.match(text, start):
        return None
    before = text.rfind("\n", behind, max(behind, start - 1)) + 1 or behind
    return start if start <= behind or not text[before:start].strip() else None


def _title(line: str, *, closed: bool = True) -> str:
    """Return the words of a heading on one line, without the ``#`` marks that may close it."""
    shown = line[: 4 * HEADING_CHARS].strip()
    if closed and shown.endswith("#") and len(line) < 4 * HEADING_CHARS:
        bare = shown.rstrip("#")
        shown = bare.rstrip() if not bare or bare[-1] in " \t" else shown
    return " ".join(shown.split())[:HEADING_CHARS]


# --- sizes -----------------------------------------------------------------------------------------------------------

_Span = tuple[int, int, tuple[str, ...]]

_BREAKS = tuple(  # the patterns after whose matches a long section is cut, the best first
    late(pattern)
    for pattern in (
        r"\n(?:[ \t]*+\n)++",  # after a paragraph
        r"[.!?…][\"'”’)\]]*+\s++|[。！？]+",  # after a sentence
        r"\n",
        r"\s",
    )
)
_MARKS_BACK = 16  # the most combining marks that are not cut from the letter before them


def _cut(text: str, sections: Iterable[_Section], target: int) -> list[_Span]:
    """Return the sections as spans of at most ``target`` characters."""
    spans: list[_Span] = []
    section: _Section | None = None
    for following in (*sections, _Section(len(text))):
        if section is not None:
            bounds = _split(text, section.start, following.start, target)
            spans += ((first, last, section.path) for first, last in bounds)
        section = following
    return spans


def _split(text: str, start: int, end: int, target: int) -> Iterator[tuple[int, int]]:
    while end - start > target:
        cut = _break(text, start + target // 2, start + target)
        yield start, cut
        start = cut
    if end > start:
        yield start, end


def _break(text: str, least: int, most: int) -> int:
    """Return the index of the best cut after ``least`` and not after ``most``: the last match of the first pattern."""
    window = text[least:most]
    for pattern in _BREAKS:
        places = [match.end() for match in pattern.finditer(window)]
        if places:
            return least + places[-1]
    return _whole_letter(text, most)


def _whole_letter(text: str, place: int) -> int:
    """Return the nearest index not after ``place`` at which a cut does not separate a letter from its marks."""
    for back in range(_MARKS_BACK):
        mark = text[place - back]
        if not unicodedata.combining(mark) and mark not in "\u200d\ufe0f" and text[place - back - 1] != "\u200d":
            return place - back
    return place


def _joined(spans: Iterable[_Span], target: int) -> list[_Span]:
    """Return the spans with neighbors joined that fit together, under the headings that they share."""
    joined: list[_Span] = []
    for first, last, path in spans:
        if joined and last - joined[-1][0] <= target:
            start, _, path_before = joined[-1]
            joined[-1] = (start, last, path_before if path_before == path else _common(path_before, path))
        else:
            joined.append((first, last, path))
    return joined


def _common(first: tuple[str, ...], second: tuple[str, ...]) -> tuple[str, ...]:
    count = 0
    while count < min(len(first), len(second)) and first[count] == second[count]:
        count += 1
    return first[:count]


# --- the title of a document -----------------------------------------------------------------------------------------

_TITLED = late(r"^title[ \t]*:[ \t]*(?P<title>[^\n]{1,400})", re.MULTILINE | re.IGNORECASE)


def title(text: str, kind: str = "markdown") -> str:
    """Return the title in the front matter of a text, else its first heading of the first level, else ""."""
    plain = _with_plain_lines(text[: 4 * FRONT_MATTER_CHARS])
    if kind != "markdown":
        return ""
    after = _front_matter(plain)
    if named := _TITLED.search(plain, 0, after):
        return _title(named["title"].strip().strip("\"'"), closed=False)
    return next((name for _, level, name, _ in _headings(plain, after) if level == 1 and name), "")


def first_words(text: str, chars: int = 80) -> str:
    """Return the beginning of a text as one line."""
    words = " ".join(text[: 64 * chars].split()) or " ".join(text.split())
    return words if len(words) <= chars else words[: chars - 1].rstrip() + "…"
