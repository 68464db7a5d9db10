"""A confidence over time as a step line of box-drawing characters, as wide as the terminal allows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from ledger.cli.pieces import read_time

ROWS = 9
STEPS = (1, 2, 5, 10, 20)  # hundredths from one line to the next
LABEL_CELLS = 7  # "0.86 ┤ "
UNICODE, ASCII = ("─", "│", "┌", "┐", "└", "┘", "┤"), ("-", "|", ".", ",", "`", "'", "|")
_LINE = Style(color="cyan")


class StepChart:
    """``points`` are (stored time, value from 0 to 1), oldest first; the last value is drawn on to the right edge."""

    def __init__(self, points: Iterable[tuple[str, float]], *, rows: int = ROWS, max_width: int = 100) -> None:
        self._points = [(read_time(time), value) for time, value in points]
        self._rows, self._max_width = rows, max_width

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if not self._points:
            return
        width = max(12, min(options.max_width, self._max_width) - LABEL_CELLS)
        marks = ASCII if options.ascii_only else UNICODE
        low, step, rows = scale([value for _, value in self._points], self._rows)
        levels = [round((value - low) / step) for value in self._columns(width)]
        for row in reversed(range(rows)):
            yield Segment(f"{low + step * row:.2f} {marks[6]} ")
            yield Segment(_drawn(levels, row, marks).rstrip(), _LINE)
            yield Segment.line()
        yield Text(" " * LABEL_CELLS + self._dates(width), style="dim")

    def _columns(self, width: int) -> list[float]:
        """The value in effect at each column; the last point has a column of its own."""
        start, end = self._span()
        columns, at = [], 0
        for column in range(width):
            moment = start + (end - start) * column / (width - 1)
            while at + 1 < len(self._points) and self._points[at + 1][0] <= moment:
                at += 1
            columns.append(self._points[at][1])
        return columns

    def _span(self) -> tuple[datetime, datetime]:
        """First to last point and a little more, so that the last step can be seen."""
        start = self._points[0][0]
        end = max(time for time, _ in self._points)
        return start, end + max((end - start) / 16, timedelta(seconds=1))

    def _dates(self, width: int) -> str:
        """The dates (times, within two days) of the first point, the middle and the last point, in UTC."""
        start, end = self._points[0][0], max(time for time, _ in self._points)
        form = "%Y-%m-%d" if end - start > timedelta(days=2) else "%m-%d %H:%M"
        first, middle, last = (each.strftime(form) for each in (start, start + (end - start) / 2, end))
        if width < 3 * len(first) + 4:
            return first + last.rjust(width - len(first)) if width > 2 * len(first) else first
        left = middle.center(width - len(first) - len(last))
        return first + left + last


def scale(values: Sequence[float], rows: int) -> tuple[float, float, int]:
    """The lowest line of the picture, the distance between two, and how many there are: round numbers that fit."""
    lowest, highest = (round(each(values) * 100) for each in (min, max))
    low, high, step = 0, 0, STEPS[0]
    for step in STEPS:
        low, high = lowest // step * step, -(-highest // step) * step
        if (high - low) // step < rows:
            break
    while (high - low) // step < 2:
        low, high = (low - step, high) if high + step > 100 else (low, high + step)
    return low / 100, step / 100, (high - low) // step + 1


def _drawn(levels: Sequence[int], row: int, marks: Sequence[str]) -> str:
    before = [levels[0], *levels]
    return "".join(_mark(left, right, row, marks) for left, right in zip(before, levels, strict=False))


def _mark(left: int, right: int, row: int, marks: Sequence[str]) -> str:
    """What stands in one cell when the line goes from one level to another there."""
    flat, upright, rises_to, falls_from, falls_to, rises_from = marks[:6]
    if left == right:
        return flat if row == right else " "
    if row == right:
        return rises_to if right > left else falls_to
    if row == left:
        return rises_from if right > left else falls_from
    return upright if min(left, right) < row < max(left, right) else " "
