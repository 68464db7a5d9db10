"""Documents in a ledger: taken in once, replaced chunk by chunk, cited, taken back, distrusted and erased."""

from __future__ import annotations

import json
import os
import tempfile
from contextlib import suppress
from pathlib import Path

import needs
import probe
import pytest
from absence import absent
from command_line import run
from conftest import Clock, folded_from_zero
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ledger import ConflictError, Ledger, LedgerError, NotFoundError, RejectedError
from ledger.documents.rules import TEXT_BYTES
from ledger.types import EVERYTHING, DocumentPath, Event, Project

NOTES = "# Coffee\n\nDark roasts are roasted longest.\n\n## Water\n\nSoft, at 93 degrees.\n\n# Tea\n\nGreen.\n"
RARE = "Zanzibarquux lives at 12 Harbour Row."


def text_of(ledger: Ledger, id: str) -> str:
    found = ledger.documents.get(id, text=True)
    return "".join(chunk.content or "" for chunk in found.chunks)


def agrees(ledger: Ledger) -> None:
    assert ledger.proof.digest() == folded_from_zero(ledger)
    assert ledger.proof.verify().ok


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    path = tmp_path / "notes.md"
    path.write_text(NOTES, encoding="utf-8", newline="\n")
    return path


# --- taking in -------------------------------------------------------------------------------------------------------


def test_a_file_becomes_chunks_with_their_headings_and_lines(ledger: Ledger, notes: Path) -> None:
    found = ledger.bind(actor="ann").documents.add(notes, tags=["Drinks"], project="kitchen", agent="helper")
    assert (found.title, found.path, found.tags, found.project) == ("Coffee", str(notes), ("drinks",), "kitchen")
    assert (found.size, found.chunk_count, found.added, found.absorbed) == (len(NOTES), 3, 3, False)
    assert [(each.index, each.line, each.heading_path, each.content) for each in found.chunks] == [
        (0, 1, ("Coffee",), None), (1, 5, ("Coffee", "Water"), None), (2, 9, ("Tea",), None)
    ]  # fmt: skip
    assert text_of(ledger, found.id[:8]) == NOTES
    water = ledger.documents.get_chunk(found.chunks[1].id[:8])
    assert (water.content, water.line, water.status) == (
        "## Water\n\nSoft, at 93 degrees.\n\n", 5, "active"
    )  # fmt: skip
    assert [each.id for each in ledger.documents.list(project="kitchen", tags=("drinks",))] == [found.id]
    assert (
        ledger.documents.list(tags=("other",))
        == ledger.documents.list(project="other")
        == ledger.documents.list(statuses=("removed",))
        == []
    )
    assert (
        absent(ledger.documents.get, "d_0000000000000000")
        and absent(ledger.documents.get_chunk, "c_0000000000000000")
        and absent(ledger.documents.get_chunk, "")
    )


def test_a_text_is_no_path_and_a_path_is_no_text(ledger: Ledger, notes: Path) -> None:
    found = ledger.documents.add(str(notes))
    assert (found.path, text_of(ledger, found.id), found.title[:79]) == (None, str(notes), str(notes)[:79])
    with pytest.raises(RejectedError, match=r"pathlib\.Path"):
        ledger.documents.add(NOTES.encode())  # type: ignore[arg-type]


def test_the_same_again_is_absorbed_and_appends_nothing(ledger: Ledger, notes: Path) -> None:
    first, text = ledger.documents.add(notes), ledger.documents.add("A text.")
    position = ledger.position
    assert ledger.documents.add(notes).absorbed and ledger.documents.add("A text.").id == text.id
    assert ledger.documents.add(notes, tags=first.tags, title="Coffee").absorbed
    assert ledger.position == position
    assert ledger.documents.add("A text.", path="a.txt").id != text.id, "a path is what a document is known by"
    assert ledger.bind(user="bob").documents.add(notes).id != first.id


def test_chunks_that_stay_keep_their_ids_and_those_that_go_can_still_be_read(ledger: Ledger, notes: Path) -> None:
    first = ledger.documents.add(notes, tags=["drinks"])
    tea, coffee, water = "# Tea\n\nGreen.\n", *NOTES.split("# Tea")[0].split("## Water")
    newer = tea + "# Coffee\n\nLight.\n\n## Water" + water
    notes.write_text(newer, encoding="utf-8", newline="\n")
    again = ledger.documents.add(notes)
    assert (again.id, again.added, again.dropped, again.chunk_count, again.tags) == (first.id, 1, 1, 3, ("drinks",))
    assert [each.id for each in again.chunks][::2] == [first.chunks[2].id, first.chunks[1].id]
    assert [each.line for each in again.chunks] == [1, 4, 8] and text_of(ledger, first.id) == newer
    gone = ledger.documents.get_chunk(first.chunks[0].id)
    assert (gone.status, gone.content, gone.line) == ("replaced", coffee, None)
    assert [each.line for each in ledger.at(first.position).documents.get(first.id).chunks] == [1, 5, 9]
    assert ledger.at(first.position).documents.get_chunk(gone.id).status == "active"  # type: ignore[union-attr]


def test_arguments_that_are_not_given_keep_the_recorded_values(ledger: Ledger) -> None:
    first = ledger.documents.add("One.", path="a.md", title="A", tags=["x"], project="home")
    position = ledger.position
    changed = ledger.documents.add("One.", path="a.md", title="B")
    assert (changed.title, changed.tags, changed.project, changed.added, changed.dropped) == ("B", ("x",), "home", 0, 0)
    assert changed.chunks[0].id == first.chunks[0].id and ledger.position == position + 1
    moved = ledger.documents.add("Two.", path="a.md", tags=(), project="work")
    assert (moved.title, moved.tags, moved.project) == ("B", (), "work")


def test_a_removed_document_is_restored_by_taking_it_in_again(ledger: Ledger) -> None:
    first = ledger.documents.add(NOTES, path="a.md")
    assert ledger.documents.remove(first.id[:9], reason="old").status == "removed"
    assert ledger.documents.list() == [] and ledger.documents.get_chunk(first.chunks[0].id).status == "removed"  # type: ignore[union-attr]
    position = ledger.position
    ledger.documents.remove(first.id)
    assert ledger.position == position, "as it was"
    back = ledger.documents.add(NOTES, path="a.md")
    assert (back.id, back.status, back.absorbed, back.added) == (first.id, "active", False, 0)
    ledger.documents.remove(first.id)
    assert ledger.documents.add("# Tea\n\nGreen.\n", path="a.md").chunks[0].id == first.chunks[2].id
    ledger.documents.remove(first.id)
    assert (
        ledger.documents.restore(first.id, reason="right").status
        == ledger.documents.restore(first.id).status
        == "active"
    )


def test_documents_add_with_a_repeated_key_is_answered_as_before(ledger: Ledger) -> None:
    first = ledger.documents.add(NOTES, idempotency_key="k")
    again = ledger.documents.add(NOTES, idempotency_key="k")
    assert (again.id, again.replayed) == (first.id, True)
    with pytest.raises(ConflictError):
        ledger.documents.add("Other.", idempotency_key="k")
    assert (
        ledger.documents.add(NOTES, idempotency_key="l").absorbed
        and ledger.documents.add(NOTES, idempotency_key="l").replayed
    )


def test_text_files_have_no_headings(ledger: Ledger, tmp_path: Path) -> None:
    path = tmp_path / "log.TXT"
    path.write_text("# no heading\nline\n", encoding="utf-8", newline="\n")
    found = ledger.documents.add(path)
    assert (found.type, found.title, found.chunks[0].heading_path) == ("text", "log.TXT", ())
    path.write_text("# none\n# either\n", encoding="utf-8", newline="\n")
    assert ledger.documents.add(path).chunk_count == 1
    with pytest.raises(RejectedError, match="cannot change to"):
        ledger.documents.add(path, type="markdown")
    with pytest.raises(RejectedError, match="markdown, text"):
        ledger.documents.add("x", type="pdf")


def test_documents_work_in_a_batch_and_stay_hidden_from_other_users(ledger: Ledger) -> None:
    with ledger.batch():
        first = ledger.bind(user="ann").documents.add(NOTES)
        assert ledger.bind(user="ann").documents.add(NOTES).absorbed
    assert absent(ledger.documents.get, first.id) and absent(ledger.documents.get_chunk, first.chunks[0].id)
    for command in (
        lambda: ledger.remember("x", sources=(first.chunks[0].id,)),
        lambda: ledger.propose("x", sources=(first.id,)),
    ):
        with pytest.raises(NotFoundError, match="of this user"):
            command()
    with pytest.raises(NotFoundError):
        ledger.documents.remove(first.id)
    named = (first.chunks[0].id, "c_0000000000000000", "elsewhere#3")
    assert ledger.capture("x", chunks_used=named).chunks_used == named, "capture asks nothing of what is nobody's"


# --- what is no document ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "blank"), (b" \r\n\t", "blank"), (b"\xef\xbb\xbf\n", "blank"), (b"a\0b", "binary"), (b"\xff\xfea\0", "UTF-16"),
        (b"caf\xe9", "0xe9"), (b"\xed\xa0\x80", "not UTF-8"), (b"x" * (TEXT_BYTES + 1), "50 MiB"),
    ],
    ids=lambda given: repr(given[:6]),
)  # fmt: skip
def test_a_file_that_is_no_text_is_refused_and_leaves_no_trace(
    ledger: Ledger, tmp_path: Path, data: bytes, why: str
) -> None:
    path = tmp_path / "bad.md"
    path.write_bytes(data)
    with pytest.raises(RejectedError, match=why):
        ledger.documents.add(path)
    assert ledger.position == 1


@pytest.mark.parametrize(
    "text", ["", " \n", "a\0b", "\ud800", "x" * (TEXT_BYTES + 1)], ids=lambda given: repr(given[:6])
)
def test_documents_add_refuses_an_invalid_text(ledger: Ledger, text: str) -> None:
    with pytest.raises(RejectedError):
        ledger.documents.add(text)
    assert ledger.position == 1


@needs.named_pipes
def test_only_regular_files_are_accepted(ledger: Ledger, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.md")
    outside = tmp_path / "outside.md"
    outside.write_text(NOTES, encoding="utf-8", newline="\n")
    below = tmp_path / "below"
    below.mkdir()
    (below / "out.md").symlink_to(outside)
    (below / "loop.md").symlink_to(below / "loop.md")
    (below / "zero.md").symlink_to("/dev/zero")
    for path, why in (
        (tmp_path, "directory"), (tmp_path / "pipe.md", "a pipe"), (Path("/dev/null"), "a device"), (Path("a\0b"), "NUL"),
        (below / "out.md", "leads out"), (below / "zero.md", "leads out"), (below / "loop.md", "cannot be read"),
        (Path(os.fsdecode(b"\xff.md")), "not UTF-8"), (outside / "x.md", "cannot be read"),
    ):  # fmt: skip
        with pytest.raises(LedgerError, match=why):
            ledger.documents.add(path)
    with pytest.raises(NotFoundError):
        ledger.documents.add(tmp_path / "none.md")
    assert ledger.position == 1


@needs.links
def test_a_link_within_its_directory_is_followed_and_a_mark_left_out(ledger: Ledger, tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "real.md").write_bytes(b"\xef\xbb\xbf# A\r\n\r\ntext\r\n")
    (tmp_path / "link.md").symlink_to(tmp_path / "deep" / "real.md")
    found = ledger.documents.add(tmp_path / "link.md")
    assert (found.title, found.path, text_of(ledger, found.id)) == (
        "A",
        str(tmp_path / "link.md"),
        "# A\r\n\r\ntext\r\n",
    )


@pytest.mark.slow
def test_a_huge_text_is_one_append_of_at_most_9000_chunks(ledger: Ledger) -> None:
    text = "".join(f"# H{each}\n\nSay {each}.\n\n" for each in range(12_000))
    found = ledger.documents.add(text, path="huge")
    assert 4_000 < found.chunk_count <= 9_000 and ledger.position == found.chunk_count + 2
    again = ledger.documents.add("# New\n\nx\n\n" + text, path="huge")
    assert again.added + again.dropped < 20 and text_of(ledger, found.id).endswith(text)
    ledger.undo(again.position)
    assert text_of(ledger, found.id) == text


# --- what cites it ---------------------------------------------------------------------------------------------------


def test_a_memory_says_which_chunk_it_came_from_even_when_it_is_gone(ledger: Ledger) -> None:
    first = ledger.documents.add(NOTES, path="a.md")
    fact = ledger.propose("Use soft water.", sources=[first.chunks[1].id[:9], first.id[:9]])
    assert fact.sources == (first.chunks[1].id, first.id)
    ledger.documents.add("# Tea\n\nGreen.\n", path="a.md")
    late = ledger.remember("Soft water.", sources=(first.chunks[1].id,))
    for id in (fact.id, late.id):
        why = ledger.why(id)
        (cited,) = why.chunks
        assert (cited.heading_path, cited.status, "93 degrees" in (cited.content or "")) == (
            ("Coffee", "Water"),
            "replaced",
            True,
        )
    assert [each.id for each in ledger.why(fact.id).documents] == [first.id]
    with pytest.raises(NotFoundError, match="no chunk"):
        ledger.remember("x", sources=("c_0000000000000000",))


# --- the way back ----------------------------------------------------------------------------------------------------


def test_undo_of_a_newer_text_brings_the_old_one_back_and_takes_what_was_read_in_it(ledger: Ledger) -> None:
    first = ledger.documents.add(NOTES, path="a.md")
    kept = ledger.remember("Soft.", sources=(first.chunks[1].id,))
    newer = ledger.documents.add(NOTES + "\n# Milk\n\nNone.\n", path="a.md")
    read = ledger.remember("No milk.", sources=(newer.chunks[3].id,))
    with pytest.raises(ConflictError, match="1 later command"):
        ledger.undo(newer.position)
    undone = ledger.undo(newer.position, cascade=True)
    assert text_of(ledger, first.id) == NOTES and absent(ledger.memories.get, read.id) and ledger.memories.get(kept.id)
    assert ledger.documents.get_chunk(newer.chunks[3].id).status == "replaced"  # type: ignore[union-attr]
    ledger.redo(undone.command_id or "")
    assert text_of(ledger, first.id).endswith("None.\n") and ledger.memories.get(read.id)
    ledger.undo(first.position, cascade=True)
    assert (
        absent(ledger.documents.get, first.id)
        and ledger.memories.list() == []
        and ledger.documents.list(statuses=()) == []
    )
    other = ledger.documents.add("Another.", path="a.md")
    with pytest.raises(ConflictError, match="added again since"):
        ledger.redo(first.position)
    ledger.undo(other.position)
    ledger.redo(first.position)
    assert ledger.documents.get(first.id)
    agrees(ledger)


def test_a_text_that_replaced_one_that_is_undone_goes_with_it(ledger: Ledger) -> None:
    ledger.documents.add("One.", path="a.md")
    second = ledger.documents.add("Two.", path="a.md")
    ledger.documents.add("Three.", path="a.md")
    assert len(ledger.undo(second.position, cascade=True).commands) == 2
    assert text_of(ledger, second.id) == "One."
    between = ledger.documents.add("Four.", path="a.md")
    with pytest.raises(ConflictError, match="does not fit"):
        ledger.redo(second.position)
    assert text_of(ledger, between.id) == "Four."


def test_a_distrusted_document_takes_what_was_read_in_it_and_is_not_taken_in_again(ledger: Ledger) -> None:
    paper = ledger.bind(actor="eve").documents.add(NOTES, path="a.md")
    whole = ledger.remember("All of it.", sources=(paper.id,))
    part = ledger.remember("Soft.", sources=(paper.chunks[1].id,))
    turn = ledger.capture("Water?", "Soft.")
    both = ledger.remember("Both say so.", sources=[paper.chunks[0].id, turn.id])
    assert {each.id for each in ledger.history.what_if(without=paper.id).lost} == {whole.id, part.id}
    report = ledger.history.distrust(paper.id[:9], reason="forged")
    assert (report.kind, set(report.gone)) == ("document", {paper.id, whole.id, part.id})
    assert [each.id for each in ledger.memories.list()] == [both.id] and ledger.documents.list() == []
    for text, path in ((NOTES, None), ("Other.", "a.md")):
        with pytest.raises(RejectedError, match="distrusted") as refusal:
            ledger.documents.add(text, path=path)
        assert refusal.value.rule == "trust"
    ledger.history.trust(paper.id)
    assert len(ledger.memories.list()) == 3 and text_of(ledger, paper.id) == NOTES
    agrees(ledger)


def test_what_another_took_in_over_a_distrusted_text_goes_with_it(ledger: Ledger) -> None:
    paper = ledger.bind(actor="eve").documents.add(NOTES, path="a.md")
    newer = ledger.bind(actor="ann").documents.add(NOTES + "More.\n", path="a.md")
    ledger.history.distrust("eve", kind="actor")
    assert absent(ledger.documents.get, paper.id)
    ledger.history.trust("eve", kind="actor")
    report = ledger.history.distrust("ann", kind="actor")
    assert (report.gone, text_of(ledger, paper.id)) == ((), NOTES)
    assert ledger.documents.get_chunk(newer.chunks[2].id).status == "replaced"  # type: ignore[union-attr]
    agrees(ledger)


def test_what_a_crawler_took_in_from_the_middle_of_an_ingestion_on_leaves_a_sound_ledger(ledger: Ledger) -> None:
    ledger.bind(actor="eve").documents.add(NOTES, path="a.md")
    ledger.history.distrust("eve", kind="actor", since=4)
    found = ledger.documents.list()[0]
    assert (found.chunk_count, len(ledger.documents.get(found.id).chunks)) == (3, 1)
    assert ledger.documents.add(NOTES + "x", path="a.md").added == 2
    assert text_of(ledger, found.id) == NOTES + "x"
    agrees(ledger)


# --- erasure ---------------------------------------------------------------------------------------------------------


def test_an_erased_document_says_nothing_any_more(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "memory.db") as ledger:
        paper = ledger.documents.add(f"# Zanzibarquux\n\n{RARE}\n", path="zanzibarquux.md", tags=["zanzibarquux"])
        ledger.documents.add(f"# Zanzibarquux\n\nAnother. {RARE}\n", path="zanzibarquux.md")
        fact = ledger.remember("He has a house.", sources=(paper.chunks[0].id,))
        plan = ledger.erase(paper.id, dry_run=True)
        assert [each.subject for each in plan.derived] == [fact.id] and plan.quotes == ()
        held = ledger.holds.add(paper.id, reason="case 12")
        with pytest.raises(RejectedError, match="on hold"):
            ledger.erase(DocumentPath("zanzibarquux.md"), derived="keep")
        ledger.holds.remove(held.id)
        with pytest.raises(RejectedError, match="derived"):
            ledger.erase(DocumentPath("zanzibarquux.md"))
        report = ledger.erase(DocumentPath("zanzibarquux.md"), derived="keep")
        assert (report.state, report.kind, report.subject) == ("completed", "document", paper.id)
        gone = ledger.documents.get(paper.id, text=True)
        assert (gone.status, gone.title, gone.path, gone.tags) == ("erased", None, None, ())
        assert [(each.content, each.heading_path, each.status) for each in gone.chunks] == [(None, None, "erased")]
        assert [each.id for each in ledger.documents.list(statuses=("erased",))] == [paper.id]
        assert ledger.why(fact.id).chunks[0].content is None
        assert ledger.at(paper.position).documents.get_chunk(paper.chunks[0].id).content is None  # type: ignore[union-attr]
        for command in (ledger.documents.remove, ledger.documents.restore, ledger.erase):
            with pytest.raises(RejectedError, match="erased"):
                command(paper.id)
        assert len(ledger.erasures.certificates()) == 1
        agrees(ledger)
        assert ledger.documents.add("A new one.", path="zanzibarquux-2.md").id != paper.id
    for path in tmp_path.iterdir():
        assert b"harbour row" not in path.read_bytes().lower()


def test_an_erased_title_or_tag_of_a_newer_text_brings_none_before_it_back(ledger: Ledger) -> None:
    first = ledger.documents.add("# A\n\none", path="a.md", title="Old", tags=["old"])
    newer = ledger.documents.add("# A\n\ntwo", path="a.md", title="New", tags=["new"])
    ledger.erase(Event(newer.position - 1, fields=["data.tags"]), quotes="keep")
    found = ledger.documents.get(first.id)
    assert (found.title, found.tags) == ("New", ())
    ledger.erase(Event(newer.position - 1, fields=["data.title"]), quotes="keep")
    found = ledger.documents.get(first.id)
    assert (found.title, found.status) == (None, "erased")
    agrees(ledger)


def test_a_chunk_that_a_memory_came_from_is_cut_and_the_rest_stays(ledger: Ledger) -> None:
    paper = ledger.documents.add(f"# Who\n\n{RARE} And more.\n\n# Else\n\nNothing. {RARE}\n")
    fact = ledger.remember(RARE, sources=(paper.chunks[0].id,))
    plan = ledger.erase(fact.id, dry_run=True)
    assert [each.position for each in plan.sources] == [paper.chunks[0].position]
    assert [each.position for each in plan.quotes] == [paper.chunks[1].position], "another chunk says it too"
    ledger.erase(fact.id, sources="cut", quotes="cut")
    assert text_of(ledger, paper.id).count("█" * len(RARE)) == 2 and "And more." in text_of(ledger, paper.id)
    assert ledger.documents.list()[0].status == "active"
    agrees(ledger)


def test_the_erasure_of_a_project_and_of_a_user_reaches_documents(ledger: Ledger) -> None:
    home = ledger.documents.add(f"# Home\n\n{RARE}\n", project="home")
    ada = ledger.bind(user="ada").documents.add(f"# Ada\n\n{RARE}\n")
    ledger.erase(Project("home"))
    assert ledger.documents.get(home.id).status == "erased"
    ledger.bind(user="ada").erase(EVERYTHING)
    assert absent(ledger.bind(user="ada").documents.get, ada.id)
    assert not any("Harbour" in row.state for row in probe.store(ledger).rows(limit=1_000))
    agrees(ledger)


# --- any sequence ----------------------------------------------------------------------------------------------------

parts = st.lists(st.sampled_from("ABCDE"), min_size=1, max_size=6)
steps = st.lists(
    st.tuples(st.sampled_from(("ingest", "ingest", "ingest", "remove", "restore", "undo", "redo", "cite", "distrust", "trust",
                               "erase")), parts, st.integers(0, 9_999)),
    min_size=2, max_size=14,
)  # fmt: skip


@pytest.mark.slow
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=steps)
def test_the_tables_of_documents_equal_the_log_after_any_commands(
    steps: list[tuple[str, list[str], int]],
) -> None:
    where = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(dir=where) as folder, Ledger.open(f"{folder}/m.db", clock=Clock()) as ledger:
        for action, said, number in steps:
            found = ledger.documents.list(statuses=())
            id = found[number % len(found)].id if found else "d_0000000000000000"
            text, path = "".join(f"# {each}\n\nAbout {each}.\n" for each in said), "ab"[number % 2]
            calls = {
                "ingest": lambda text=text, path=path: ledger.documents.add(text, path=path),
                "remove": lambda id=id: ledger.documents.remove(id),
                "restore": lambda id=id: ledger.documents.restore(id),
                "undo": lambda number=number: ledger.undo(1 + number % ledger.position, cascade=True),
                "redo": lambda number=number: ledger.redo(1 + number % ledger.position),
                "cite": lambda id=id, number=number: ledger.remember(
                    f"{number}", sources=(ledger.documents.get(id).chunks[-1].id,)
                ),  # type: ignore[union-attr]
                "distrust": lambda id=id: ledger.history.distrust(id, kind="document"),
                "trust": lambda number=number: (
                    ledger.history.trust(ledger.history.distrusted()[-1].command_id)
                    if ledger.history.distrusted()
                    else 0
                ),
                "erase": lambda id=id: ledger.erase(id, derived="keep", quotes="keep") if number % 3 == 0 else 0,  # noqa: B023
            }
            with suppress(LedgerError, IndexError):
                answer = calls[action]()
                if action == "ingest":
                    assert text_of(ledger, answer.id) == text  # type: ignore[union-attr]
                    position = ledger.position
                    assert ledger.documents.add(text, path=path).absorbed and ledger.position == position
            for each in ledger.documents.list(statuses=()):
                whole = ledger.documents.get(each.id)
                assert [chunk.index for chunk in whole.chunks] == list(range(each.chunk_count))
        assert ledger.proof.digest() == folded_from_zero(ledger) == probe.rebuild(ledger).digest


# --- the command line ------------------------------------------------------------------------------------------------


def test_several_files_go_on_past_a_bad_one(tmp_path: Path, notes: Path) -> None:
    db, bad = str(tmp_path / "memory.db"), tmp_path / "bad.md"
    bad.write_bytes(b"a\0b")
    done = run("documents", "add", str(notes), str(bad), str(tmp_path), "--tags", "Drinks", db=db)
    shown = " ".join(done.stdout.split())  # a long path wraps
    assert done.exit_code == 1 and "added 3" in shown and "2 not added" in shown
    assert "binary" in done.stderr and "--recursive" in done.stderr
    again = run("documents", "add", str(notes), db=db)
    assert again.exit_code == 0 and "known already" in " ".join(again.stdout.split())
    with Ledger.open(db) as ledger:
        (found,) = ledger.documents.list()
    assert run("documents", "list", "-q", db=db).stdout == found.id + "\n"
    shown = run("documents", "get", found.id[:9], "--text", db=db).stdout
    assert "Coffee › Water" in shown and "93 degrees" in shown
    assert (
        run("documents", "get", "nope", db=db).exit_code == run("documents", "get-chunk", "c_00", db=db).exit_code == 3
    )
    assert "removed" in run("documents", "remove", found.id, "--reason", "old", db=db).stdout
    assert (
        run("documents", "list", db=db).stdout == ""
        and "notes.md" in run("documents", "list", "--as-of", "5", db=db).stdout
    )
    assert run("documents", "restore", found.id, db=db).exit_code == 0
    assert run("documents", "add", str(notes), str(bad), "--title", "x", db=db).exit_code == 2


@needs.links
def test_a_directory_is_walked_when_asked_and_not_left_by_a_link(tmp_path: Path, notes: Path) -> None:
    db, folder = str(tmp_path / "memory.db"), tmp_path / "docs"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "a.md").write_text("# A\n", encoding="utf-8", newline="\n")
    (folder / "b.txt").write_text("b", encoding="utf-8", newline="\n")
    (folder / ".hidden.md").write_text("no", encoding="utf-8", newline="\n")
    (folder / "deep" / "up.md").symlink_to(folder / "b.txt")
    done = run("documents", "add", str(folder), "--recursive", "--json", db=db)
    report = json.loads(done.stdout)
    assert done.exit_code == 0 and [os.path.basename(each["path"]) for each in report["documents"]] == [
        "b.txt", "a.md", "up.md"
    ]  # fmt: skip
    (folder / "out.md").symlink_to(notes)
    assert "leads out" in run("documents", "add", str(folder), "--recursive", db=db).stderr
    assert run("undo", report["correlation_id"], db=db).exit_code == 0
    assert run("documents", "list", db=db).stdout == ""


def test_standard_input_is_a_text_and_a_blank_path_is_no_directory(tmp_path: Path) -> None:
    db = str(tmp_path / "memory.db")
    done = run(
        "documents", "add", "-", "--title", "Piped", "--path", "pipe.md", "--json", db=db, stdin="\ufeff" + NOTES
    )
    with Ledger.open(db) as ledger:
        (found,) = ledger.documents.list()
        assert (found.title, found.path, text_of(ledger, found.id)) == ("Piped", "pipe.md", NOTES)
    assert done.exit_code == 0 and json.loads(done.stdout)["documents"][0]["id"] == found.id
    assert "known already" in run("documents", "add", "-", "--path", "pipe.md", db=db, stdin=NOTES).stdout
    assert "not UTF-8 text" in run("documents", "add", "-", db=db, stdin=b"\xff").stderr
    for how in ([""], ["", "--recursive"]):
        refused = run("documents", "add", *how, db=db)
        assert refused.exit_code == 1 and "blank" in refused.stderr
    missed = run("erase", "--document", "nope.md", "--yes", db=db)
    assert missed.exit_code == 3 and "absolute" in missed.stderr


def test_after_a_chunk_is_erased_nothing_left_of_its_document_could_confirm_a_guess_at_it(ledger: Ledger) -> None:
    notes = ledger.documents.add("# One\n\nNothing.\n\n# Two\n\nphone 555-0123\n", path="notes.md")
    report = ledger.erase(Event(notes.chunks[1].position), derived="erase", sources="erase", quotes="erase")
    assert report.state == "completed" and ledger.proof.verify(full=True).problems == ()
    with probe.store(ledger).snapshot() as connection:
        states = [state for (state,) in connection.execute("SELECT state FROM events WHERE stream = ?", (notes.id,))]
    assert [json.loads(state)["data"].get("digest") for state in states] == [None, None, None]
    kept = ledger.documents.get(notes.id, text=True)
    assert [each.content for each in kept.chunks] == ["# One\n\nNothing.\n\n", None]
