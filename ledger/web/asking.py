"""A request for a page: the filters of its address, and the ledger that it looks at."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Generic, TypeVar
from urllib.parse import parse_qsl, urlencode

from msgspec.structs import asdict

from ledger import Ledger, Page, PastLedger, RejectedError
from ledger.core.shell import command
from ledger.web.gate import WebSession

T = TypeVar("T")
ROWS = 100  # the most rows of a page
COUNTED = 1_000  # the most rows that a heading counts
MOST_BACK = 20  # the most pages that "previous" goes back
Row = Mapping[str, object]


@dataclass(frozen=True)
class Desk:
    """The ledger, the user and the rights of one run of the page.

    ``as_of`` is the moment that the page was started for, or None. ``others`` is True if other users are on file too. ``options``
    are those of the command that started the page, which a command to run next needs too.
    """

    ledger: Ledger
    session: WebSession
    user: str
    writes: bool = False
    as_of: str | None = None
    others: bool = False
    options: Mapping[str, str] = field(default_factory=dict)

    def command(self, words: str) -> str:
        """Return a command to run next in a shell, on the ledger and for the user of the page."""
        return command(words, self.options)


@dataclass
class WebQuestion:
    """A request for a page: its address, and the ledger now or as of the moment that the address names."""

    desk: Desk
    path: str
    pairs: Sequence[tuple[str, str]]
    subject: str = ""
    ledger: Ledger | PastLedger = field(init=False)
    moment: str = field(init=False)
    done: str = field(init=False)
    undone: str = field(init=False)

    def __post_init__(self) -> None:
        self.done, self.undone = self.word("done"), self.word("undone")  # said once, and in no link
        self.pairs = [pair for pair in self.pairs if pair[0] not in ("done", "undone")]
        self.moment = self.desk.as_of or self.word("at")
        if not self.moment:
            self.ledger = self.desk.ledger
        else:
            self.ledger = self.desk.ledger.at(int(self.moment) if self.moment.isdecimal() else self.moment)

    @property
    def writes(self) -> bool:
        """Return True if the page offers buttons."""
        return self.desk.writes and not self.moment

    def word(self, name: str, default: str = "") -> str:
        """Return a value of the address without blanks around it, or the default."""
        return next((value.strip() for key, value in reversed(self.pairs) if key == name and value.strip()), default)

    def words(self, name: str) -> tuple[str, ...]:
        """Return all values of a name, each once."""
        return tuple(dict.fromkeys(value.strip() for key, value in self.pairs if key == name and value.strip()))

    def number(self, name: str, default: int, most: int) -> int:
        """Return a whole number of the address, from 1.

        Raises:
            RejectedError: The value is no such number.
        """
        text = self.word(name, str(default))
        if not (text.isascii() and text.isdecimal() and 0 < int(text[:9]) <= most and len(text) < 10):
            raise RejectedError(f"{name} is a number from 1 to {most:,}, and {text!r:.40} is not")
        return int(text)

    def link(self, path: str = "", /, **changes: object) -> str:
        """Return this address, or another page with this page's filters, with the changed values; None removes a value."""
        kept = [(key, value) for key, value in self.pairs if key not in changes and value]
        for key, value in changes.items():
            several = value if isinstance(value, list | tuple) else [value]
            kept += [(key, str(each)) for each in several if each is not None]
        query = urlencode(kept, errors="replace")
        return (path or self.path) + (f"?{query}" if query else "")

    def as_then(self) -> dict[str, str]:
        """Return the moment of the address, for the links to other pages."""
        return {"at": self.moment} if self.moment and self.desk.as_of is None else {}

    def to(self, path: str, *shared: str) -> str:
        """Return the address of another page, as of the same moment and with the filters that it shares with this page."""
        kept = {name: self.word(name) for name in shared if self.word(name)}
        query = urlencode(self.as_then() | kept, errors="replace")
        return path + (f"?{query}" if query else "")

    def older_than(self, days: int) -> str:
        """Return the time some days before the moment of the page."""
        now = self.ledger.as_of if isinstance(self.ledger, PastLedger) else datetime.now(UTC)
        return (_time(now) - timedelta(days=days)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _time(moment: object) -> datetime:
    return moment if isinstance(moment, datetime) else datetime.fromisoformat(str(moment))


def pairs_of(text: str) -> list[tuple[str, str]]:
    """Return the names and values of an address or of a form.

    Raises:
        RejectedError: There are more than 2,000.
    """
    try:
        return parse_qsl(text, keep_blank_values=True, max_num_fields=2_000)
    except ValueError:
        raise RejectedError("at most 2,000 fields are allowed in one request") from None


@dataclass
class Listing(Generic[T]):
    """The rows of a page, how many there are, and how an export goes through all of them.

    ``count`` is a text, because a count ends at 1,000. ``every`` yields what the filters select; ``line`` is a row in Markdown.
    """

    rows: Sequence[T]
    count: str
    next: str | None
    every: Callable[[], Iterable[T]]
    line: Callable[[T], str]
    plain: Callable[[T], object] = lambda row: row


@dataclass
class WebView:
    """The content of a page: its heading, the scope in words, the data of its template, and its listing if it has one."""

    template: str
    title: str
    scope: str
    data: dict[str, object]
    listing: Listing[object] | None = None
    markdown: str = ""
    status: int = 200

    @property
    def plain(self) -> dict[str, object]:
        """Return the page as data."""
        rows = {}
        if self.listing is not None:
            items = [self.listing.plain(row) for row in self.listing.rows]
            rows = {"items": items, "count": self.listing.count, "next": self.listing.next}
        return {"title": self.title, "scope": self.scope, **rows, **self.data}


def paged(
    page: Page[T],
    list_of: Callable[[int], Page[T]],
    line: Callable[[T], str],
    *,
    is_first: bool,
    noun: str,
    counted: int = COUNTED,
) -> Listing[T]:
    """Return the listing of a page.

    ``list_of(limit)`` lists from the beginning, for the export and for the count, which ends at ``counted``. ``noun`` is a row.
    """
    if is_first and page.next is None:
        count = several(len(page), noun)
    else:
        first = list_of(counted)
        count = several(len(first), noun) if first.next is None else f"more than {several(counted, noun)}"
    return Listing(page, count, page.next, lambda: list_of(COUNTED).all(), line)


def several(number: int, noun: str) -> str:
    """Return a number with its noun, as in "1 belief" and "2 beliefs"."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def fields_of(row: object) -> Row:
    """Return an answer as a dictionary that may take more fields."""
    return asdict(row)  # type: ignore[arg-type]
