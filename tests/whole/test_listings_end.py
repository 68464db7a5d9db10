"""Every listing has one order and reaches its last row, however small its pages are and however many rows share a time."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest
from reads import PUBLIC, methods, named, opened, plain, prepared

from ledger import Ledger, Page, RejectedError

LISTINGS = sorted(
    name
    for name, method in methods()
    if str(inspect.signature(method.function).return_annotation).startswith(("Page[", "Hits"))
)
# listings whose order is no order of time
BY_NAME = {"vectors.list", "maintenance.users", "projections.list", "values.list", "values.namespaces"}
OLDEST_FIRST = {"history.events", "history.log"}  # listings that are always read from the beginning
ORDERED = [name for name in LISTINGS if name not in BY_NAME | OLDEST_FIRST]
MANY = 2_500


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Ledger, dict[str, object]]]:
    path = tmp_path_factory.mktemp("listings") / "memory.db"
    data, names = prepared()
    path.write_bytes(data)
    with opened(path) as ledger:
        yield ledger, names


def test_every_listing_is_among_them() -> None:
    assert len(LISTINGS) > 20 and {"interactions.list", "history.log", "session.messages"} <= set(LISTINGS)


def walks(filled: tuple[Ledger, dict[str, object]], name: str, **more: object) -> list[list[list[str]]]:
    """For each way to ask, the whole listing by pages of one, of three and of a thousand."""
    ledger, names = filled
    walked = []
    for asked in PUBLIC[name]:
        options = {each: named([value], names)[0] for each, value in asked.options.items()}
        place: object = ledger
        for part in name.split(".")[:-1]:
            place = ledger.session(str(names["session"])) if part == "session" else getattr(place, part)
        listing = getattr(place, name.split(".")[-1])
        lists = []
        for limit in (1, 3, 1_000):
            page = listing(*named(asked.words, names), **options | more | {"limit": limit})
            assert isinstance(page, Page) and len(page) <= limit
            lists.append([str(plain(each)) for each in page.all()])
        walked.append(lists)
    return walked


@pytest.mark.parametrize("name", LISTINGS)
def test_pages_of_one_and_of_three_are_the_same_list_as_pages_of_many(
    filled: tuple[Ledger, dict[str, object]], name: str
) -> None:
    for by_one, by_three, whole in walks(filled, name):
        assert by_one == by_three == whole
        assert whole or name in ("vectors.list", "projections.list")


@pytest.mark.parametrize("name", ORDERED)
def test_every_listing_can_be_read_oldest_first(filled: tuple[Ledger, dict[str, object]], name: str) -> None:
    more: dict[str, object] = {"admitted": True} if name == "review" else {}
    both = zip(walks(filled, name, **more), walks(filled, name, **more, oldest_first=True), strict=True)
    for (_, _, newest_first), (by_one, by_three, whole) in both:
        assert by_one == by_three == whole
        in_time = newest_first if name == "session.messages" else newest_first[::-1]
        assert whole == in_time


def test_a_cursor_belongs_to_one_order(filled: tuple[Ledger, dict[str, object]]) -> None:
    cursor = filled[0].interactions.list(limit=1).next
    with pytest.raises(RejectedError, match="other filters"):
        filled[0].interactions.list(limit=1, after=cursor, oldest_first=True)


def test_all_of_a_page_of_messages_begins_with_the_oldest(ledger: Ledger) -> None:
    session = ledger.session("chat")
    texts = [f"m{number}" for number in range(120)]
    session.replace({"role": "user", "content": text} for text in texts)
    page = session.messages()
    assert [message.content for message in page] == texts[70:]
    assert [message.content for message in page.all()] == texts
    second = session.messages(after=page.next)
    assert [message.content for message in second.all()] == texts[:70]
    assert [message.content for message in session.messages(oldest_first=True)] == texts[:50]
    session.append("user", "later")
    assert [message.content for message in page.all()] == texts, "what came later is behind the page"


@pytest.mark.slow
def test_many_turns_of_one_time_are_read_to_the_end(tmp_path: Path) -> None:
    with opened(tmp_path / "memory.db") as ledger:
        with ledger.batch():
            turns = [ledger.capture(f"Is fact {number} salty?", "").id for number in range(MANY)]
        assert {each.recorded_at for each in ledger.interactions.list()} == {"2026-06-01T12:00:00.000000Z"}
        for limit in (40, 1_000):  # many pages, and the largest ones
            assert [each.id for each in ledger.interactions.list(limit=limit).all()] == turns[::-1]
