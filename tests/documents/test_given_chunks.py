"""Documents that were cut elsewhere: their chunks come back as they were given, with their metadata."""

from __future__ import annotations

from typing import Any

import pytest

from ledger import Ledger, RejectedError

PAGES: list[Any] = [
    {
        "content": "Dark roasts are roasted longest.",
        "heading_path": ["Coffee", "Roasts"],
        "metadata": {"page": 3, "box": [1, 2.5, None]},
    },
    {"content": "Soft water, at 93 degrees.", "metadata": {"page": 4, "tags": {"hot": True, "ü": "é"}}},
    "A chunk of words alone.\nIn two lines.\n",
]


def test_chunks_come_back_as_they_were_given(ledger: Ledger) -> None:
    made = ledger.documents.add(PAGES, path="coffee.pdf", title="Coffee", metadata={"shelf": 7})
    shown = ledger.documents.get(made.id, text=True)
    assert [chunk.metadata for chunk in made.chunks] == [PAGES[0]["metadata"], PAGES[1]["metadata"], {}]
    assert [chunk.content for chunk in shown.chunks] == [PAGES[0]["content"], PAGES[1]["content"], PAGES[2]]
    assert [chunk.heading_path for chunk in shown.chunks] == [("Coffee", "Roasts"), (), ()]
    assert (made.title, made.size, made.metadata) == (
        "Coffee",
        sum(chunk.size or 0 for chunk in shown.chunks),
        {"shelf": 7},
    )
    assert ledger.documents.get_chunk(made.chunks[0].id).metadata == PAGES[0]["metadata"]
    ledger.maintenance.rebuild()
    assert ledger.documents.get(made.id, text=True) == shown


def test_the_metadata_of_a_chunk_is_shown_where_the_chunk_is(ledger: Ledger) -> None:
    made = ledger.documents.add(PAGES, path="coffee.pdf")
    pack = ledger.recall("How hot is the water?", among=["chunks"], receipt=True)
    assert pack.items[0].passage is not None and pack.items[0].passage.metadata == PAGES[1]["metadata"]
    again = ledger.reopen(pack.receipt or "")
    assert again.items[0].passage == pack.items[0].passage
    fact = ledger.remember("Ada brews with soft water.", sources=[made.chunks[1].id])
    assert ledger.why(fact.id).chunks[0].metadata == PAGES[1]["metadata"]


def test_the_same_chunks_again_change_nothing_and_other_metadata_is_another_chunk(ledger: Ledger) -> None:
    made = ledger.documents.add(PAGES, path="coffee.pdf")
    assert ledger.documents.add(PAGES, path="coffee.pdf").absorbed
    newer = ledger.documents.add([PAGES[0] | {"metadata": {"page": 5}}, *PAGES[1:]], path="coffee.pdf")
    assert (newer.id, newer.added, newer.dropped) == (made.id, 1, 1)
    assert [chunk.id for chunk in newer.chunks[1:]] == [chunk.id for chunk in made.chunks[1:]]
    assert newer.chunks[0].metadata == {"page": 5}
    ledger.undo(newer.position, cascade=True)
    assert [chunk.metadata for chunk in ledger.documents.get(made.id).chunks] == [
        chunk.metadata for chunk in made.chunks
    ]
    ledger.maintenance.rebuild()
    assert [chunk.id for chunk in ledger.documents.get(made.id).chunks] == [chunk.id for chunk in made.chunks]


def test_a_text_takes_the_place_of_chunks_and_chunks_of_a_text(ledger: Ledger) -> None:
    made = ledger.documents.add("# Coffee\n\nDark.\n", path="coffee.md")
    assert ledger.documents.add(PAGES, path="coffee.md").id == made.id
    back = ledger.documents.add("# Coffee\n\nDark.\n", path="coffee.md")
    assert (back.id, len(back.chunks), back.chunks[0].metadata) == (made.id, 1, {})


def test_other_metadata_of_the_document_keeps_the_chunks(ledger: Ledger) -> None:
    made = ledger.documents.add(PAGES, path="coffee.pdf")
    again = ledger.documents.add(PAGES, path="coffee.pdf", metadata={"shelf": 8})
    assert (again.added, again.dropped, again.chunks[0].metadata) == (0, 0, made.chunks[0].metadata)


def test_an_erasure_takes_the_metadata_of_the_chunks(ledger: Ledger) -> None:
    made = ledger.documents.add([{"content": "Ada's pass.", "metadata": {"holder": "Ada Lovelace"}}], path="pass.pdf")
    ledger.erase(made.id)
    assert ledger.documents.get(made.id).chunks[0].metadata is None
    assert b"Lovelace" not in b"".join(path.read_bytes() for path in ledger_files(ledger))


def ledger_files(ledger: Ledger) -> list[Any]:
    from pathlib import Path

    ledger.maintenance.rebuild()
    return [path for path in Path(ledger.path).parent.iterdir() if path.name.startswith(Path(ledger.path).name)]


def test_secrets_are_taken_out_of_chunks_and_their_metadata(ledger: Ledger) -> None:
    key = "AKIAIOSFODNN7EXAMPLE"
    made = ledger.documents.add([{"content": f"The key is {key}.", "metadata": {"note": f"{key} too"}}], path="k.pdf")
    shown = ledger.documents.get(made.id, text=True)
    assert key not in str(shown.to_dict()) and made.warnings


def test_a_document_with_its_own_time_is_recalled_with_it(ledger: Ledger) -> None:
    ledger.documents.add(PAGES, path="coffee.pdf", occurred_at="2020-01-01")
    pack = ledger.recall("How hot is the water?", among=["chunks"], receipt=True)
    assert pack.items[0].passage is not None and pack.items[0].passage.occurred_at == "2020-01-01T00:00:00.000000Z"
    assert ledger.reopen(pack.receipt or "").items[0].passage == pack.items[0].passage


WRONG: dict[str, Any] = {
    "no chunk": [],
    "a blank chunk": ["Words.", " "],
    "no content": [{"metadata": {"page": 1}}],
    "an unknown field": [{"content": "Words.", "page": 1}],
    "a number": [7],
    "metadata that is no object": [{"content": "Words.", "metadata": [1]}],
    "metadata that is no JSON": [{"content": "Words.", "metadata": {"when": object()}}],
    "metadata that is too large": [{"content": "Words.", "metadata": {"a": "b" * 70_000}}],
    "one object": {"content": "Words."},
    "bytes": b"Words.",
    "a chunk that is too large": ["a" * (256 * 1024 + 1)],
    "too many": ["Words."] * 9_001,
}


@pytest.mark.parametrize("name", WRONG)
def test_chunks_of_another_form_are_refused(ledger: Ledger, name: str) -> None:
    with pytest.raises(RejectedError, match=r"chunk|document"):
        ledger.documents.add(WRONG[name])
    assert list(ledger.documents.list()) == []
