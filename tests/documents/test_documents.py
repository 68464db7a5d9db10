"""``ledger.documents``: files and texts, and the chunks that they are cut into."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledger import AmbiguousIdError, NotFoundError, RejectedError
from ledger.api import Ledger

NOTES = "# Coffee\n\nWater of 93 degrees.\n\n## Beans\n\nDark roast.\n"


@pytest.fixture
def ledger(tmp_path: Path):
    with Ledger.open(tmp_path / "memory.db", user="ada", actor="planner") as opened:
        yield opened


def test_a_file_or_a_text_is_added_and_read_back_whole(ledger: Ledger, tmp_path: Path) -> None:
    file = tmp_path / "coffee.md"
    file.write_text(NOTES, encoding="utf-8", newline="\n")
    done = ledger.documents.add(file, tags=["drinks"], project="kitchen")
    assert (done.title, done.type, done.path, done.added) == ("Coffee", "markdown", str(file), 2)
    found = ledger.documents.get(done.id, text=True)
    assert "".join(chunk.content or "" for chunk in found.chunks) == NOTES
    assert [chunk.content for chunk in ledger.documents.get(done.id).chunks] == [None, None]
    assert ledger.documents.add(file).absorbed
    plain = ledger.documents.add("Tea is hot.", title="Tea", type="text")
    assert (plain.title, plain.type, plain.path) == ("Tea", "text", None)
    with pytest.raises(RejectedError, match="one of markdown, text"):
        ledger.documents.add("x", type="pdf")  # type: ignore[arg-type]
    with pytest.raises(RejectedError, match="takes several"):
        ledger.documents.add("x", tags="drinks")
    with pytest.raises(NotFoundError):
        ledger.documents.add(tmp_path / "none.md")


def test_a_chunk_stays_readable_when_its_document_has_another_text(ledger: Ledger) -> None:
    first = ledger.documents.add(NOTES, path="coffee.md")
    beans = first.chunks[1].id
    ledger.documents.add("# Coffee\n\nWater of 93 degrees.\n\n", path="coffee.md")
    chunk = ledger.documents.get_chunk(beans)
    assert (chunk.status, "Dark roast" in (chunk.content or "")) == ("replaced", True)
    with pytest.raises(NotFoundError):
        ledger.documents.get_chunk("c_0000000000000000")
    with pytest.raises(NotFoundError):
        ledger.bind(user="bob").documents.get_chunk(beans)


def test_a_listing_is_read_page_by_page_newest_first(ledger: Ledger) -> None:
    ids = [ledger.documents.add(f"Note number {number}.").id for number in range(5)][::-1]
    page = ledger.documents.list(limit=2)
    ledger.documents.add("Newer than the first page.")
    assert [each.id for each in page.all()] == ids
    assert ledger.bind(user="bob").documents.list() == []


def test_documents_are_filtered_by_tags_project_and_status(ledger: Ledger) -> None:
    one = ledger.documents.add("One.", tags=["a", "b"], project="kitchen")
    two = ledger.documents.add("Two.", tags=["a"])
    shown = lambda **filters: [each.id for each in ledger.documents.list(**filters)]  # noqa: E731
    assert shown(tags=["a"]) == [two.id, one.id] and shown(tags=["a", "B"]) == [one.id]
    assert shown(project="kitchen") == [one.id] and shown(project="") == [two.id]
    assert shown(project="nowhere") == shown(tags=["c"]) == shown(statuses=["removed"]) == []
    ledger.documents.remove(one.id)
    assert shown(statuses=[]) == [two.id, one.id] and shown(statuses=["removed"]) == [one.id]
    with pytest.raises(RejectedError, match="there are: active, removed, erased"):
        shown(statuses=["replaced"])
    with pytest.raises(RejectedError, match="takes several"):
        shown(statuses="active")


def test_removed_and_restored(ledger: Ledger) -> None:
    note = ledger.documents.add(NOTES)
    removed = ledger.documents.remove(note.id, reason="outdated")
    assert (removed.status, ledger.recall("degrees").items) == ("removed", ())
    assert ledger.documents.restore(note.id[:10]).status == "active"
    for call in (ledger.documents.remove, ledger.documents.restore, ledger.documents.get):
        with pytest.raises(NotFoundError):
            call("d_0000000000000000")
    for number in range(40):
        ledger.documents.add(f"Note number {number}.")
    beginnings = [each.id[:3] for each in ledger.documents.list()]
    with pytest.raises(AmbiguousIdError):
        ledger.documents.get(max(beginnings, key=beginnings.count))


def test_a_past_ledger_can_only_be_read(ledger: Ledger) -> None:
    note = ledger.documents.add(NOTES, path="coffee.md")
    then = ledger.at(ledger.position)
    ledger.documents.add("# Tea\n\nGreen.\n", path="coffee.md")
    assert [each.id for each in then.documents.list()] == [note.id]
    assert [each.id for each in then.documents.get(note.id).chunks] == [each.id for each in note.chunks]
    assert then.documents.get_chunk(note.chunks[0].id).status == "active"
    assert not hasattr(then.documents, "add")
