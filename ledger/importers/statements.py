"""The statements in a text that a person or an assistant wrote: a line or a list item each, with headings and dates."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_ITEM = re.compile(r"(\s*)(?:[-*•–—+]|\d{1,3}[.)])\s+(.*)")
_HEADING = re.compile(r"#{1,6}\s+([^\s#].*)|\*\*([^*]{1,80})\*\*:?|([A-Z][^.!?]{0,60}):")
_DATED = re.compile(r"\[(\d{4}-\d\d(?:-\d\d)?|unknown|no date)\]\s*(?:[-–—:]\s*)?(.*)", re.I)
_FENCE = re.compile(r"\s*(```|~~~)")
_KINDS = {  # the kinds of statements under headings with such a word
    "preference": "preference", "instruction": "rule", "rule": "rule", "goal": "goal",
}  # fmt: skip


class StatedLine(NamedTuple):
    """A statement of a text.

    Attributes:
        text: The statement on one line.
        heading: The heading above, or "".
        date: The date before the statement, or "".
        kind: The kind that the heading tells.
    """

    text: str
    heading: str = ""
    date: str = ""
    kind: str = "knowledge"


def statements(text: str) -> Iterator[StatedLine]:
    """Yield the statements of a text: of a text with list items or dated lines only these, else every line."""
    lines = [line.rstrip() for line in text.splitlines() if not _FENCE.match(line)]
    is_list = any(_ITEM.fullmatch(line) or _DATED.match(line.strip()) for line in lines)
    heading, words = "", list[str]()
    date = ""

    def stated() -> Iterator[StatedLine]:
        whole = " ".join(" ".join(words).split())
        if whole:
            kind = next((kind for word, kind in _KINDS.items() if word in heading.casefold()), "knowledge")
            yield StatedLine(whole, heading, date, kind)
        words.clear()

    for line in lines:
        item = _ITEM.fullmatch(line)
        body = item[2] if item else line.strip()
        dated = _DATED.match(body)
        if not item and not dated and (title := _HEADING.fullmatch(line.strip())) is not None:
            yield from stated()
            heading = next(filter(None, title.groups())).rstrip("# \t").rstrip(":")
        elif item or dated or (body and not is_list):
            yield from stated()
            date = dated[1] if dated and dated[1][0].isdigit() else ""
            words.append(dated[2] if dated else body)
        elif not body:
            yield from stated()
        elif words:  # the rest of an item
            words.append(body)
    yield from stated()
