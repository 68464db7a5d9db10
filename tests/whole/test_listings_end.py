"""Every listing reaches its last row, however small its pages are and however many rows share a time."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest
from reads import PUBLIC, methods, named, opened, plain, prepared

from ledger import Ledger, Page

LISTINGS = sorted(
    name for name, method in methods() if str(inspect.signature(method.function).return_annotation).startswith("Page[")
)
MANY = 100_000


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Ledger, dict[str, object]]]:
    path = tmp_path_factory.mktemp("listings") / "memory.db"
    data, names = prepared()
    path.write_bytes(data)
    with opened(path) as ledger:
        yield ledger, names


def test_every_listing_is_among_them() -> None:
    assert len(LISTINGS) > 20 and {"interactions.list", "history.log", "session.messages"} <= set(LISTINGS)


@pytest.mark.parametrize("name", LISTINGS)
def test_pages_of_one_and_of_three_are_the_same_list_as_pages_of_many(
    filled: tuple[Ledger, dict[str, object]], name: str
) -> None:
    ledger, names = filled
    for asked in PUBLIC[name]:
        options = {each: named([value], names)[0] for each, value in asked.options.items()}
        place: object = ledger
        for part in name.split(".")[:-1]:
            place = ledger.session(str(names["session"])) if part == "session" else getattr(place, part)
        listing = getattr(place, name.split(".")[-1])
        lists = []
        for limit in (1, 3, 1_000):
            page = listing(*named(asked.words, names), **options | {"limit": limit})
            assert isinstance(page, Page) and len(page) <= limit
            lists.append(sorted(map(str, map(plain, page.all()))))  # a page of messages is read backwards
        assert lists[0] == lists[1] == lists[2]
        assert lists[0] or name in ("vectors.list", "projections.list")


@pytest.mark.slow
def test_many_turns_of_one_time_are_read_to_the_end(tmp_path: Path) -> None:
    with opened(tmp_path / "memory.db") as ledger:
        with ledger.batch():
            turns = [ledger.capture(f"Is fact {number} salty?", "").id for number in range(MANY)]
        assert {each.recorded_at for each in ledger.interactions.list()} == {"2026-06-01T12:00:00.000000Z"}
        assert [each.id for each in ledger.interactions.list(limit=1_000).all()] == turns[::-1]
