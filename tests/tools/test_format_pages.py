"""The pages of the stored format are those of the catalogue and of a fresh file."""

from __future__ import annotations

from ledger.events import TYPES
from tools.pages import format_pages


def test_the_page_of_the_events_is_current() -> None:
    assert (format_pages.DOCS / "events.md").read_text(encoding="utf-8") == format_pages.events_page()


def test_the_page_of_the_tables_is_current() -> None:
    assert (format_pages.DOCS / "schema.md").read_text(encoding="utf-8") == format_pages.schema_page()


def test_every_type_is_on_the_page_and_says_what_it_means() -> None:
    assert [name for _, names in format_pages.sections() for name in names] == list(TYPES)
    assert [name for name, kind in TYPES.items() if not kind.__doc__ or kind.__doc__.startswith(f"{name}(")] == []


def test_a_field_says_what_it_holds() -> None:
    assert format_pages.spoken("tuple[Text, ...] | UnsetType | None") == "list of text"
    assert format_pages.spoken("Body | None") == "text or blob"
    assert format_pages.spoken("tuple[tuple[Code, int, int], ...]") == "list of (word, integer, integer)"
