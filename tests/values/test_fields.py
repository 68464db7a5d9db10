"""The fields by which an object is searched."""

from __future__ import annotations

import pytest

from ledger import Ledger, RejectedError

CARD = {
    "title": "Harbour",
    "secret_place": "lighthouse",
    "at": {"city": "Porto", "street": "Rua"},
    "notes": [{"text": "tile"}],
}


def keys(ledger: Ledger, query: str) -> list[str | None]:
    return [value.key for value in ledger.values.list(question=query)]


def test_an_object_is_found_only_by_the_fields_that_its_put_names(ledger: Ledger) -> None:
    ledger.values.put(("cards",), "one", CARD, fields=["title", "at.city", "notes.text"])
    assert [keys(ledger, word) for word in ("harbour", "porto", "tile")] == [["one"]] * 3
    assert [keys(ledger, word) for word in ("lighthouse", "rua")] == [[], []]
    assert ledger.values.get(("cards",), "one").fields == ("title", "at.city", "notes.text")
    (item,) = ledger.recall("harbour", among=["values"]).items
    assert item.content == "title: Harbour\nat.city: Porto\nnotes.text: tile"


def test_a_named_object_is_searched_with_all_below_it(ledger: Ledger) -> None:
    ledger.values.put(("cards",), "one", CARD, fields=["at"])
    assert keys(ledger, "rua") == ["one"] and keys(ledger, "harbour") == []


def test_a_put_with_other_fields_is_a_change_and_with_the_same_none(ledger: Ledger) -> None:
    first = ledger.values.put(("cards",), "one", CARD, fields=["title"])
    assert ledger.values.put(("cards",), "one", CARD, fields=["title"]).absorbed
    assert ledger.values.put(("cards",), "one", CARD).position > first.position
    assert keys(ledger, "lighthouse") == ["one"]
    ledger.undo(ledger.position)
    assert keys(ledger, "lighthouse") == []


def test_an_erasure_removes_the_names_of_the_fields(ledger: Ledger) -> None:
    value = ledger.values.put(("cards",), "one", {"xylophone": "plays"}, fields=["xylophone"])
    ledger.erase(value.id)
    assert "xylophone" not in str([step.data for step in ledger.history.events(value.id)])


@pytest.mark.parametrize("fields", ["title", [""], ["x"] * 65, [3]])
def test_fields_that_name_nothing_are_refused(ledger: Ledger, fields: object) -> None:
    with pytest.raises(RejectedError):
        ledger.values.put(("cards",), "one", CARD, fields=fields)
