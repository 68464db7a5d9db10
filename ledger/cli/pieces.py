"""The pieces from which views are built: harmless texts, lists, cards and headings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Literal

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ledger.cli.shell_words import next_command
from ledger.cli.terminal_text import shortened, visible
from ledger.domain.errors import StorageError
from ledger.domain.text import one_line

LISTED_CHARS = 150  # the most characters of a text in a list
LEFT: Literal["left"] = "left"
RIGHT: Literal["right"] = "right"


def namespace_path(labels: Sequence[str]) -> str:
    """Return a namespace as the commands take it, as one harmless line."""
    from ledger.values.rules import path_of

    return one_line(path_of(labels))


def moment(time: str | None) -> str:
    """Return a stored time in UTC, with minutes and without seconds."""
    return read_time(time).astimezone(UTC).strftime("%Y-%m-%d %H:%M") if time else ""


def read_time(stored: str) -> datetime:
    try:
        return datetime.fromisoformat(stored)
    except ValueError as error:  # the reads of a ledger do not check times
        raise StorageError(
            "a time in the tables is damaged: rebuild makes the tables again from the log, without any loss"
        ) from error


def short(text: str | None, chars: int = LISTED_CHARS) -> Text:
    return Text(shortened(text, chars)) if text is not None else Text("(erased)", style="dim italic")


def whole(text: str | None) -> Text:
    return Text(visible(text)) if text is not None else Text("(erased)", style="dim italic")


def detailed(main: Text, *details: object) -> Text:
    """Return a text with details in small print below it."""
    text = " · ".join(one_line(str(detail)) for detail in details if detail)
    if not main.plain:
        return Text(text, style="dim")
    return Text.assemble(main, ("\n" + text, "dim")) if text else main


def listing(*columns: str, rows: Iterable[Sequence[RenderableType]], right: Sequence[str] = ()) -> Table:
    """Return a table; the last column takes the remaining width, and the other columns are never cut."""
    table = Table(box=None, padding=(0, 1), pad_edge=False, show_edge=False, header_style="bold", collapse_padding=True)
    for column in columns:
        last, side = column == columns[-1], RIGHT if column in right else LEFT
        table.add_column(column, no_wrap=not last, justify=side, overflow="fold", ratio=1 if last else None)
    for row in rows:
        table.add_row(*row)
    return table


def card_of(fields: Mapping[str, object]) -> Table:
    """Return a table of names and values; None and blank values are left out, and the number 0 is shown."""
    table = Table(box=None, padding=(0, 1), pad_edge=False, show_header=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in fields.items():
        if value not in (None, "", ()):
            table.add_row(Text(name), value if isinstance(value, Text) else Text(one_line(str(value))))
    return table


def unbroken(line: str) -> Text:
    """Return a line in small print that is never broken, because a person copies a command out of it."""
    return Text(line, style="dim", no_wrap=True, overflow="ignore")


def way_back(words: str) -> Text:
    """Return the line with the command that takes an act back."""
    return unbroken(f"take it back: {next_command(words)}")


def heading(title: str) -> Text:
    return Text("\n" + title, style="bold cyan")


def titled(title: str, body: RenderableType | None) -> list[RenderableType]:
    return [] if body is None else [heading(title), body]
