"""Documents, decided and folded: what a text that came again leads to, and which chunks go on."""

from __future__ import annotations

import pytest
from examples import DOCUMENT, EVENTS, NOW, PROJECT, document, recorded
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from ledger import RejectedError
from ledger import events as e
from ledger.documents import rules as document_rules
from ledger.documents.chunking import ChunkPiece
from ledger.documents.rules import (
    DocumentState,
    Remove,
    RestoreDocument,
    TextAdded,
    admits,
    decide,
    evolve,
    matched,
    moved,
)
from projections.views import documents


def ingest(*said: str, **changed: object) -> TextAdded:
    """A text of these pieces, each known by the hash of what it says."""
    pieces = tuple(ChunkPiece(each, ("H",), 1) for each in said)
    told: dict[str, object] = {"digest": "new", "size": 9, "pieces": pieces, "fresh": [f"c_{each}" for each in said]}
    return TextAdded(**(told | {"prints": [hash(each) for each in said], "called": "Called"} | changed))  # type: ignore[arg-type]


def added(index: int, said: str) -> e.ChunkAdded:
    return e.ChunkAdded(f"c_{said}", index, said, ("H",), e.Raw(b'{"lines":1}'))


def test_a_new_text_is_ingested_with_all_its_chunks() -> None:
    assert decide(ingest("a", "b", path="x.md", tags=("t",)), None) == [
        e.DocumentAdded("x.md", "Called", "new", 9, 2, ("t",), "markdown"),
        added(0, "a"),
        added(1, "b"),
    ]
    assert decide(ingest("a", title="Given"), None)[0].title == "Given"  # type: ignore[attr-defined]


def test_the_same_text_again_is_nothing() -> None:
    given = document()
    assert decide(ingest(digest=given.digest), given) == []
    assert decide(ingest(digest=given.digest, title=given.title, tags=given.tags, project=PROJECT), given) == []


def test_another_title_of_the_same_text_keeps_every_chunk() -> None:
    given = document()
    assert decide(ingest(digest=given.digest, title="Tea"), given) == [
        e.DocumentReplaced(given.text_at, given.digest, 9, 3, kept=((0, 2, 0),), title="Tea")
    ]
    assert decide(ingest(digest=given.digest, tags=()), given)[0].tags == ()  # type: ignore[attr-defined]


def test_a_changed_text_adds_what_is_new_and_removes_what_is_gone() -> None:
    given = document(chunks=3)
    known = [hash(each) for each in "abc"]
    assert decide(ingest("x", "b", "c", "y", known=known), given) == [
        e.DocumentReplaced(given.text_at, "new", 9, 4, kept=((1, 2, 1),), removed=((0, 0),)),
        added(0, "x"),
        added(3, "y"),
    ]


def test_a_removed_document_comes_back_and_is_replaced_where_it_changed() -> None:
    given = document(status="removed")
    assert decide(ingest(digest=given.digest), given) == [e.DocumentRestored()]
    kinds = [type(each).__name__ for each in decide(ingest("a", known=[1, 2, 3]), given)]
    assert kinds == ["DocumentRestored", "DocumentReplaced", "ChunkAdded"]


def test_removing_and_restoring_and_what_is_already_so() -> None:
    active, removed = document(), document(status="removed")
    assert decide(Remove("old"), active) == [e.DocumentRemoved("old")]
    assert decide(RestoreDocument("no"), removed) == [e.DocumentRestored("no")]
    assert decide(Remove(), removed) == decide(RestoreDocument(), active) == []


@pytest.mark.parametrize("command", [ingest("a"), Remove(), RestoreDocument()])
def test_commands_on_an_erased_document_are_refused(command: document_rules.Command) -> None:
    with pytest.raises(RejectedError, match="erased"):
        decide(command, document(status="erased", title=None, underlying="active"))


@settings(max_examples=100)
@given(known=st.lists(st.sampled_from((1, 2, 3, None)), max_size=12), wanted=st.lists(st.integers(1, 4), max_size=12))
def test_a_chunk_that_continues_has_the_same_text_and_continues_once(
    known: list[int | None], wanted: list[int]
) -> None:
    kept, new = matched(known, wanted)
    goes_on = moved(kept)
    assert len(set(goes_on.values())) == len(goes_on) == sum(last - first + 1 for first, last, _ in kept)
    assert all(known[before] == wanted[after] for before, after in goes_on.items())
    assert sorted((*goes_on.values(), *new)) == list(range(len(wanted)))
    for number in set(wanted):
        assert sum(known[each] == number for each in goes_on) == min(known.count(number), wanted.count(number))
    gone = {at for first, last in document_rules._removed(kept, len(known)) for at in range(first, last + 1)}
    assert gone == set(range(len(known))) - goes_on.keys()


def test_what_moves_as_a_whole_is_one_range_and_an_unchanged_text_too() -> None:
    assert matched([1, 2, 3, 4], [3, 4, 1, 2]) == ([(2, 3, 0), (0, 1, 2)], [])
    assert matched([1, 1, 1], [1, 1, 1]) == ([(0, 2, 0)], [])
    assert matched([], [1]) == ([], [0]) and matched([1], []) == ([], [])


@pytest.mark.slow
def test_lists_of_an_event_stay_below_two_thousand() -> None:
    kept, new = matched(list(range(9_000)), list(reversed(range(9_000))))
    assert len(kept) == document_rules.KEPT_RANGES and len(new) == 9_000 - document_rules.KEPT_RANGES
    assert len(document_rules._removed(kept, 9_000)) <= 2_000


def test_each_event_assigns_what_it_says() -> None:
    given = document(awaited=1)
    now = replace(given, version=4, position=12)
    fold = lambda data: evolve(given, recorded(data, stream=DOCUMENT, version=4, position=12))  # noqa: E731
    assert fold(EVENTS["ChunkAdded"]) == replace(now, awaited=0)
    assert fold(EVENTS["DocumentRemoved"]) == replace(now, status="removed")
    assert fold(EVENTS["DocumentRestored"]) == now
    assert fold(EVENTS["DocumentAdded"]) == now
    newer = {"digest": "cd" * 16, "size": 2_500, "chunks": 4, "title": "All about coffee", "tags": ("beans",)}
    assert fold(EVENTS["DocumentReplaced"]) == replace(now, **newer, text_at=12, awaited=2, updated_at=NOW)
    plain = fold(e.DocumentReplaced(7, "x", 1, 1))
    assert plain is not None and (plain.title, plain.tags) == (given.title, given.tags)


def test_a_document_begins_with_its_ingestion_and_without_a_title_it_is_erased() -> None:
    begun = evolve(None, recorded(EVENTS["DocumentAdded"], stream=DOCUMENT, version=1, position=7))
    assert begun == document(version=1, position=7, awaited=3)
    assert evolve(None, recorded(EVENTS["ChunkAdded"])) is None
    erased = e.DocumentAdded(None, None, None, 2_400, 3, None)
    gone = evolve(None, recorded(erased, stream=DOCUMENT, version=1, position=7))
    assert gone is not None and (gone.status, gone.underlying, gone.tags) == ("erased", "active", ())
    after = evolve(gone, recorded(e.DocumentRemoved(), stream=DOCUMENT))
    assert after is not None and (after.status, after.underlying) == ("erased", "removed")


def test_what_still_makes_sense_without_what_came_before() -> None:
    given = document()
    assert admits(None, EVENTS["DocumentAdded"]) and not admits(None, EVENTS["DocumentReplaced"])
    assert admits(given, EVENTS["DocumentReplaced"]) and not admits(
        replace(given, text_at=9), EVENTS["DocumentReplaced"]
    )
    assert not admits(given, EVENTS["ChunkAdded"]) and admits(replace(given, awaited=1), EVENTS["ChunkAdded"])
    for status in ("active", "removed"):
        assert all(admits(replace(given, status=status), EVENTS[f"Document{end}"]) for end in ("Removed", "Restored"))


@pytest.mark.parametrize("state", [document(), document(user=None, path=None, title=None, tags=(), digest=None)])
def test_a_state_equals_the_state_read_from_its_row(state: DocumentState) -> None:
    assert documents.FAMILY.from_row(documents.FAMILY.to_row(state)) == state
