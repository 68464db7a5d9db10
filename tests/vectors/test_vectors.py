"""Vectors beside the ledger: made outside of every lock, never of an old wording, gone with what was erased, never in the way."""

from __future__ import annotations

import hashlib
import math
import random
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import probe
import pytest
from command_line import answer, run
from embedder import WIDTH, Words
from places import TESTS

from ledger import ConflictError, Ledger, ModelError, NotFoundError, RejectedError
from ledger.erasure.scanning import Scan
from ledger.types import EVERYTHING, Event
from ledger.vectors.embedding import QueryVector, VectorSearch
from projections.search import nearest

SEARCH = pytest.mark.usefixtures("can_search")
NUMPY = pytest.mark.usefixtures("numpy_is_there")


@pytest.fixture
def can_search() -> None:
    if nearest.matrix() is None:
        pytest.skip("NumPy is not there")


@pytest.fixture
def numpy_is_there() -> None:
    """For what is kept in memory, beyond what lies in the file."""
    pytest.importorskip("numpy")


@pytest.fixture
def words() -> Words:
    return Words()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "vectors.db"


@pytest.fixture
def told(path: Path, words: Words) -> Iterator[Ledger]:
    """A ledger with a model; whatever happened to its vectors, its file is sound at the end."""
    with Ledger.open(path, embedder=words) as opened:
        yield opened
    with Ledger.open(path, readonly=True) as opened:
        assert opened.proof.verify(full=True).problems == ()


def search(ledger: Ledger) -> VectorSearch:
    assert probe.vectors(ledger) is not None
    return probe.vectors(ledger)


def found(ledger: Ledger, query: str, *, user: str = "", limit: int = 50, fill: int = 256, **named: Any) -> list[str]:
    """The texts nearest to a query, best first."""
    asked = search(ledger).ask(query, user, fill=fill)
    with probe.read(ledger) as connection:
        answer = search(ledger).hits(connection, asked, user, limit=limit, **named)
        rows = [row for _, row, _ in answer.hits]
        return [connection.execute("SELECT content FROM memories WHERE row = ?", (row,)).fetchone()[0] for row in rows]


def warnings(ledger: Ledger, query: str = "tea", *, fill: int = 256) -> tuple[str, ...]:
    asked = search(ledger).ask(query, "", fill=fill)
    with probe.read(ledger) as connection:
        return search(ledger).hits(connection, asked, "").warnings


@contextmanager
def raw(path: Path) -> Iterator[sqlite3.Connection]:
    """Somebody else in the file."""
    with closing(sqlite3.connect(path, isolation_level=None, timeout=30)) as connection:
        yield connection


def stored(path: Path, model: str = "words") -> dict[int, bytes]:
    with raw(path) as connection:
        sql = "SELECT row, vector FROM vectors WHERE model = ?"
        return dict(connection.execute(sql, (model,)).fetchall())


TEXTS = ("The user drinks green tea.", "The user drinks black coffee.", "The train leaves at noon.")


def remember(ledger: Ledger, *texts: str, **named: Any) -> list[Any]:
    return [ledger.remember(text, **named) for text in texts]


# --- what is found ---------------------------------------------------------------------------------------------------


@SEARCH
def test_the_nearest_come_first_and_exactly_those(told: Ledger, words: Words) -> None:
    remember(told, *TEXTS)
    told.vectors.update()
    assert found(told, "the user drinks tea") == [TEXTS[0], TEXTS[1], TEXTS[2]]
    assert found(told, "when leaves the train", limit=1) == [TEXTS[2]]
    assert found(told, "tea", limit=0) == []


@SEARCH
def test_the_order_is_that_of_the_cosines_by_hand(told: Ledger, words: Words) -> None:
    draw = random.Random(3)
    some = ["tea", "coffee", "train", "noon", "user", "green", "black", "leaves"]
    texts = list(dict.fromkeys(" ".join(draw.choices(some, k=5)) for _ in range(80)))
    remember(told, *texts)
    told.vectors.update(batch_size=7)
    query = words.vector("green tea at noon")
    asked = search(told).ask("green tea at noon", "")
    with probe.read(told) as connection:
        hits = search(told).hits(connection, asked, "", limit=25).hits
        rows = dict(connection.execute("SELECT content, row FROM memories").fetchall())
    expected = sorted((-round(cosine(query, words.vector(text)), 4), rows[text]) for text in texts)[:25]
    assert [round(score, 4) for _, _, score in hits] == pytest.approx([-score for score, _ in expected], abs=2e-4)
    assert {row for _, row, _ in hits[:20]} <= {row for _, row in expected}


def cosine(one: list[float], other: list[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True)) / math.hypot(*one) / math.hypot(*other)


@SEARCH
def test_of_equal_cosines_the_newer_comes_first(told: Ledger) -> None:
    made = [told.remember("green tea", project=f"project {each}") for each in range(40)]
    asked = search(told).ask("green tea", "")
    with probe.read(told) as connection:
        hits = search(told).hits(connection, asked, "", limit=7).hits
    assert [row for _, row, _ in hits] == [each.position for each in made[:-8:-1]]


@SEARCH
def test_a_text_without_meaning_is_near_nothing(told: Ledger) -> None:
    remember(told, "...", "tea")
    told.vectors.update()
    assert found(told, "tea") == ["tea"]
    assert found(told, "...") == []
    assert warnings(told) == ()


@SEARCH
def test_a_blank_question_is_near_nothing_and_asks_no_model(told: Ledger, words: Words) -> None:
    remember(told, "green tea")
    told.vectors.update()
    before = words.calls
    for blank in ("", "  ", "\n\t", "\0"):
        assert told.recall(blank, among=("memories", "chunks", "turns")).items == ()
    assert words.calls == before


@SEARCH
def test_nobody_finds_what_is_another_users(told: Ledger) -> None:
    for user in ("", "ada", "grace"):
        remember(told.bind(user=user), f"The tea of {user or 'nobody'}.")
    told.vectors.update()
    for user in ("", "ada", "grace"):
        assert found(told, "the tea", user=user) == [f"The tea of {user or 'nobody'}."]
    assert found(told, "the tea", user="eve") == []
    asked = search(told).ask("the tea", "ada")
    with probe.read(told) as connection:
        rows = [row for (row,) in connection.execute("SELECT row FROM memories")]
        assert len(search(told).cosines(connection, asked, "ada", "m", rows)) == 1


@SEARCH
def test_a_search_makes_vectors_only_of_the_users_own_texts(told: Ledger, words: Words) -> None:
    remember(told.bind(user="ada"), "The tea of ada.")
    remember(told.bind(user="grace"), "The tea of grace.")
    assert found(told, "tea", user="ada") == ["The tea of ada."]
    assert words.calls == [["tea"], ["The tea of ada."]]


@SEARCH
def test_keep_narrows_and_still_as_many_are_found_as_there_are(told: Ledger) -> None:
    made = remember(told, *(f"green tea number {each}" for each in range(60)))
    told.vectors.update()
    wanted = {each.position for each in made[::6]}
    asked = search(told).ask("green tea", "")
    with probe.read(told) as connection:
        hits = search(told).hits(connection, asked, "", limit=9, keep=lambda _, rows: wanted.intersection(rows)).hits
        everything = search(told).hits(connection, asked, "", limit=60).hits
    assert list(hits) == [each for each in everything if each[1] in wanted][:9]
    assert len(hits) == 9


@SEARCH
def test_the_cosines_of_given_texts_are_those_of_the_ranking(told: Ledger) -> None:
    remember(told, *TEXTS)
    asked = search(told).ask("green tea", "")
    with probe.read(told) as connection:
        hits = search(told).hits(connection, asked, "").hits
        rows = [*(row for _, row, _ in hits), 10**6]
        assert search(told).cosines(connection, asked, "", "m", rows) == {row: score for _, row, score in hits}
        assert search(told).cosines(connection, QueryVector(), "", "m", rows) == {}


# --- which texts ------------------------------------------------------------------------------------------------------


@SEARCH
def test_a_new_text_is_found_by_the_next_search(told: Ledger, words: Words) -> None:
    remember(told, *TEXTS)
    told.vectors.update()
    remember(told, "A samovar makes the best tea.")
    assert found(told, "samovar")[0] == "A samovar makes the best tea."
    assert len(stored(Path(told.path))) == 4, "and its vector is kept"
    words.calls.clear()
    found(told, "samovar")
    assert words.calls == [["samovar"]]


@SEARCH
def test_what_a_search_makes_by_the_way_is_bounded_and_the_newest_first(told: Ledger) -> None:
    remember(told, *(f"tea number {each}" for each in range(30)))
    assert found(told, "tea number", fill=10, limit=30) != []
    assert sorted(stored(Path(told.path))) == sorted(each.position for each in told.memories.list(limit=10))
    assert "20 texts have no vector of 'words' yet" in warnings(told, fill=0)[0]
    assert warnings(told) == ()


@SEARCH
def test_a_revised_text_is_never_found_by_its_old_vector(told: Ledger) -> None:
    tea, _, _ = remember(told, *TEXTS)
    told.vectors.update()
    told.revise(tea.id, "The user drinks nothing but water.", reason="said so")
    assert "The user drinks nothing but water." not in found(told, "green tea", fill=0)
    assert "1 texts have no vector" in warnings(told, fill=0)[0]
    assert found(told, "nothing but water")[0] == "The user drinks nothing but water."
    assert warnings(told) == ()


@SEARCH
def test_a_revision_that_is_undone_has_its_old_vector_back(told: Ledger, words: Words) -> None:
    tea, *_ = remember(told, *TEXTS)
    told.vectors.update()
    revised = told.revise(tea.id, "The user drinks water.", reason="said so")
    found(told, "tea", fill=0)
    told.undo(revised.position, reason="a mistake")
    words.calls.clear()
    assert found(told, "green tea")[0] == TEXTS[0]
    assert words.made == 1
    assert warnings(told, fill=0) == ()


@SEARCH
def test_what_is_undone_retracted_or_a_mere_candidate_is_not_found(told: Ledger) -> None:
    undone = told.remember("Tea that is undone.")
    retracted = told.remember("Tea that is retracted.")
    idea = told.propose("Tea that is proposed.")
    kept = told.remember("Tea that is kept.")
    told.vectors.update()
    act = told.undo(undone.position, reason="a mistake")
    told.retract(retracted.id, reason="wrong")
    assert found(told, "tea that is") == [kept.content]
    told.undo(act.position, reason="right after all")
    told.restore(retracted.id, reason="right after all")
    told.promote(idea.id)
    assert {each.content for each in (undone, retracted, idea, kept)} == set(found(told, "tea that is"))


@SEARCH
def test_a_moment_of_the_past_finds_what_was_believed_then(told: Ledger) -> None:
    tea, *_ = remember(told, *TEXTS)
    told.vectors.update()
    then = told.position
    told.retract(tea.id, reason="wrong")
    asked = search(told).ask("green tea", "")
    with probe.read(told.at(then)) as connection:
        hits = search(told).hits(connection, asked, "").hits
    assert hits[0][1] == tea.position
    assert TEXTS[0] not in found(told, "green tea")


# --- making them -------------------------------------------------------------------------------------------------------


def test_embed_makes_what_is_lacking_and_says_how_far_it_is(told: Ledger, words: Words) -> None:
    remember(told, *(f"tea number {each}" for each in range(10)))
    steps: list[tuple[int, int]] = []
    report = told.vectors.update(batch_size=4, progress=lambda done, of: steps.append((done, of)))
    assert (report.model, report.embedded, report.kept, report.dropped, report.left) == ("words", 10, 0, 0, 0)
    assert report.dimension == WIDTH
    assert steps == [(0, 10), (4, 10), (8, 10), (10, 10)]
    assert [len(call) for call in words.calls] == [1, 4, 4, 2], "one to try the model, then the texts"
    again = told.vectors.update()
    assert (again.embedded, again.kept) == (0, 10)
    assert told.maintenance.stats().vectors == {"words": 10}


def test_it_records_nothing_and_no_digest_knows_of_it(told: Ledger) -> None:
    remember(told, *TEXTS)
    before = told.position, told.proof.digest()
    told.vectors.update()
    assert (told.position, told.proof.digest()) == before
    assert told.proof.verify(full=True).ok
    assert told.maintenance.doctor().ok


def test_a_limit_takes_the_newest_first(told: Ledger) -> None:
    made = remember(told, *TEXTS)
    report = told.vectors.update(limit=2)
    assert (report.embedded, report.left) == (2, 1)
    assert set(stored(Path(told.path))) == {each.position for each in made[1:]}
    assert told.vectors.update().embedded == 1


def test_two_models_stand_side_by_side_and_one_is_dropped_alone(told: Ledger, path: Path) -> None:
    remember(told, *TEXTS)
    other = Words("other", 8)
    told.vectors.update()
    assert told.vectors.update(model=other).dimension == 8
    assert told.maintenance.stats().vectors == {"other": 3, "words": 3}
    assert told.vectors.remove("words").dropped == 3, "a stored name is enough"
    assert told.maintenance.stats().vectors == {"other": 3}
    with pytest.raises(NotFoundError, match="there are vectors of 'other'"):
        told.vectors.remove("words")
    assert told.vectors.remove("other").dropped == 3
    with pytest.raises(NotFoundError, match="the file has no vectors"):
        told.vectors.remove("other")


def test_vectors_are_kept_across_a_rebuild(told: Ledger, words: Words, path: Path) -> None:
    remember(told, *TEXTS)
    told.vectors.update()
    before = stored(path)
    probe.rebuild(told)
    words.calls.clear()
    assert told.vectors.update().kept == 3
    assert stored(path) == before
    assert words.made == 1


@SEARCH
def test_a_search_after_a_rebuild_needs_no_model_but_for_the_query(told: Ledger, words: Words) -> None:
    remember(told, *TEXTS)
    told.vectors.update()
    first = found(told, "green tea")
    probe.rebuild(told)
    words.calls.clear()
    assert found(told, "green tea") == first
    assert words.made == 1


def test_the_model_is_called_outside_of_every_lock(told: Ledger, words: Words, path: Path) -> None:
    remember(told, *TEXTS)
    others: list[str] = []

    def write_meanwhile() -> None:
        with Ledger.open(path) as other:
            others.append(other.remember(f"Written meanwhile {len(others)}.").id)

    words.before = write_meanwhile
    assert told.vectors.update(batch_size=2).embedded == 4, "the first was written before the texts were looked through"
    assert len(others) == 3


def test_a_text_that_changed_meanwhile_gets_no_vector(told: Ledger, words: Words, path: Path) -> None:
    tea, *_ = remember(told, *TEXTS)

    def revise_meanwhile() -> None:
        if words.calls[-1] != ["dimension"]:
            with Ledger.open(path) as other:
                other.revise(tea.id, "The user drinks water.", reason="said so")

    words.before = revise_meanwhile
    assert told.vectors.update().embedded == 2
    words.before = lambda: None
    assert tea.position not in stored(path)
    assert told.vectors.update().embedded == 1


def test_what_a_failure_cut_short_goes_on_with_the_next_call(told: Ledger, words: Words) -> None:
    remember(told, *(f"tea number {each}" for each in range(10)))

    def fail() -> None:
        if len(words.calls) == 4:
            raise OSError("the machine fell over")

    words.before = fail
    with pytest.raises(ModelError, match="OSError"):
        told.vectors.update(batch_size=3)
    words.before = lambda: None
    report = told.vectors.update()
    assert (report.kept, report.embedded) == (6, 4)


def test_what_is_of_no_use_any_more_is_deleted(told: Ledger) -> None:
    tea, coffee, _ = remember(told, *TEXTS)
    told.vectors.update()
    told.revise(tea.id, "The user drinks water.", reason="said so")
    told.retract(coffee.id, reason="wrong")
    report = told.vectors.update()
    assert (report.embedded, report.kept, report.dropped) == (1, 1, 2)


def test_inside_a_batch_no_model_is_called(told: Ledger, words: Words) -> None:
    with told.batch():
        remember(told, *TEXTS)
        with pytest.raises(ConflictError, match="inside a batch"):
            told.vectors.update()
        assert "inside a batch" in search(told).ask("tea", "").warnings[0]
    assert words.calls == []


def test_a_ledger_opened_for_reading_gets_no_vectors(told: Ledger, path: Path, words: Words) -> None:
    remember(told, *TEXTS)
    with Ledger.open(path, readonly=True, embedder=words) as reader, pytest.raises(RejectedError, match="readonly"):
        reader.vectors.update()
    assert told.maintenance.stats().vectors == {}


@NUMPY
def test_a_reader_makes_what_is_lacking_for_itself_alone(told: Ledger, path: Path, words: Words) -> None:
    remember(told, *TEXTS)
    with Ledger.open(path, readonly=True, embedder=words) as reader:
        assert found(reader, "green tea")[0] == TEXTS[0]
        assert warnings(reader, fill=0) == ()
        calls = len(words.calls)
        found(reader, "green tea")
        assert len(words.calls) == calls + 1
    assert told.maintenance.stats().vectors == {}


@pytest.mark.parametrize(
    "named", [{"batch_size": 0}, {"batch_size": True}, {"batch_size": "many"}, {"limit": -1}, {"limit": 1.5}], ids=str
)
def test_vectors_update_rejects_invalid_numbers(told: Ledger, named: dict[str, Any]) -> None:
    with pytest.raises(RejectedError):
        told.vectors.update(**named)


def test_without_a_model_embed_asks_for_one(ledger: Ledger) -> None:
    with pytest.raises(RejectedError, match="embedder="):
        ledger.vectors.update()
    assert probe.vectors(ledger) is None


def test_opening_with_what_is_no_model_is_rejected_and_makes_no_file(tmp_path: Path) -> None:
    for given in ("gpt", 3, lambda texts: []):
        with pytest.raises(RejectedError):
            Ledger.open(tmp_path / "new.db", embedder=given)  # type: ignore[arg-type]
    assert not (tmp_path / "new.db").exists()


# --- bad models --------------------------------------------------------------------------------------------------------


class Bad(Words):
    """Works until it is told otherwise."""

    given: Any = None

    def embed(self, texts: list[str]) -> Any:
        made = super().embed(texts)
        return made if self.given is None else self.given(made)


def _raise(_: object) -> None:
    raise ZeroDivisionError


WAYS: dict[str, Callable[[list[list[float]]], Any]] = {
    "raises": _raise,
    "NaN": lambda made: [[math.nan] * WIDTH for _ in made],
    "another count": lambda made: [*made, made[0]],
    "another dimension": lambda made: [row[:-1] for row in made],
    "no vectors": lambda made: None,
    "words": lambda made: [["tea"] * WIDTH for _ in made],
}


@SEARCH
@pytest.mark.parametrize("way", WAYS)
def test_a_model_that_breaks_is_a_typed_error_to_embed_and_a_warning_to_a_search(path: Path, way: str) -> None:
    model = Bad()
    with Ledger.open(path, embedder=model) as ledger:
        remember(ledger, *TEXTS)
        ledger.vectors.update()
        remember(ledger, "One more tea.")
        before = ledger.position, ledger.proof.digest(), stored(path)
        model.given = WAYS[way]
        with pytest.raises(ModelError, match="'words'"):
            ledger.vectors.update()
        asked = search(ledger).ask("tea", "")
        with probe.read(ledger) as connection:
            answer = search(ledger).hits(connection, asked, "")
        assert answer.hits == ()
        assert answer.warnings
        assert all("'words'" in each and each.startswith("vectors not used: ") for each in answer.warnings)
        assert (ledger.position, ledger.proof.digest(), stored(path)) == before
        model.given = None
        assert found(ledger, "one more tea")[0] == "One more tea."
        assert warnings(ledger) == ()


@SEARCH
def test_a_model_that_only_fails_on_new_texts_still_finds_the_old(path: Path) -> None:
    model = Bad()
    with Ledger.open(path, embedder=model) as ledger:
        remember(ledger, *TEXTS)
        ledger.vectors.update()
        remember(ledger, "One more tea.")
        model.given = lambda made: made if model.calls[-1] == ["green tea"] else 1 / 0
        assert found(ledger, "green tea")[0] == TEXTS[0]
        failed, missing = warnings(ledger, "green tea")
        assert failed == "no new vectors made: the model 'words' failed (ZeroDivisionError)"
        assert "1 texts have no vector" in missing


# --- a broken or missing table ------------------------------------------------------------------------------------------


BREAKING = {
    "deleted": "DROP TABLE vectors",
    "emptied": "DELETE FROM vectors",
    "of another shape": "DROP TABLE vectors; CREATE TABLE vectors (id INTEGER PRIMARY KEY, what TEXT)",
    "a view": "DROP TABLE vectors; CREATE VIEW vectors AS SELECT 1 AS id",
    "cut short": "UPDATE vectors SET vector = substr(vector, 1, 10)",
    "made long": "UPDATE vectors SET vector = zeroblob(4000)",
    "other digests": "UPDATE vectors SET text = x'00'",
    "no numbers": "UPDATE vectors SET vector = CAST(replace(hex(zeroblob(128)), '00', 'ÿÿ') AS BLOB)",
}


@SEARCH
@pytest.mark.parametrize("again", [False, True], ids=["open", "opened again"])
@pytest.mark.parametrize("way", BREAKING)
def test_a_broken_table_is_a_warning_and_embed_makes_it_again(path: Path, way: str, again: bool) -> None:
    if way == "other digests":
        pytest.importorskip("numpy")
    words = Words()
    ledger = Ledger.open(path, embedder=words)
    remember(ledger, *TEXTS)
    ledger.vectors.update()
    first = found(ledger, "green tea")
    if again:
        ledger.close()
    with raw(path) as connection:
        connection.executescript(BREAKING[way])
    if again:
        ledger = Ledger.open(path, embedder=words)
    asked = search(ledger).ask("green tea", "", fill=0)
    with probe.read(ledger) as connection:
        answer = search(ledger).hits(connection, asked, "")
    assert answer.warnings or {row for _, row, _ in answer.hits} == {each.position for each in ledger.memories.list()}
    assert ledger.memories.list() and ledger.proof.verify().events  # all else goes on
    with_view = way == "a view"
    if with_view:
        with raw(path) as connection:
            connection.execute("DROP VIEW vectors")
    try:
        ledger.vectors.update()
    except ModelError as error:
        assert "vectors.remove" in str(error)
        ledger.vectors.remove("words")
        ledger.vectors.update()
    assert found(ledger, "green tea") == first
    assert warnings(ledger) == ()
    assert ledger.proof.verify(full=True).ok
    ledger.close()


@SEARCH
def test_a_model_that_gives_another_dimension_than_its_vectors_have_is_told_so(told: Ledger, path: Path) -> None:
    remember(told, *TEXTS)
    told.vectors.update()
    with Ledger.open(path, embedder=Words(width=WIDTH + 8)) as other:
        with pytest.raises(ModelError, match=f"gives {WIDTH + 8} numbers a text, and its stored vectors have {WIDTH}"):
            other.vectors.update()
        assert "not the model it was" in warnings(other)[0]
    assert found(told, "green tea")[0] == TEXTS[0]


# --- others ------------------------------------------------------------------------------------------------------------


def in_another_process(code: str, path: Path) -> None:
    told = f"import sys\nfrom ledger import Ledger\nfrom embedder import Words\npath = sys.argv[1]\n{code}"
    subprocess.run([sys.executable, "-c", told, str(path)], check=True, cwd=TESTS)


@pytest.mark.slow
@SEARCH
def test_what_another_process_writes_is_found(told: Ledger, words: Words, path: Path) -> None:
    remember(told, *TEXTS)
    found(told, "tea")
    words.calls.clear()
    code = "ledger = Ledger.open(path, embedder=Words())\nledger.remember('A samovar of tea.')\nledger.vectors.update()"
    in_another_process(code, path)
    assert found(told, "samovar")[0] == "A samovar of tea."
    assert words.calls == [["samovar"]], "with the vector that the other process made"
    in_another_process("Ledger.open(path).vectors.remove(Words().name)", path)
    assert "4 texts have no vector" in warnings(told, fill=0)[0]
    assert found(told, "samovar", fill=0) == []


@SEARCH
def test_a_table_that_somebody_made_anew_is_another_one(told: Ledger, path: Path) -> None:
    remember(told, *TEXTS)
    first = found(told, "green tea")
    with raw(path) as connection:
        connection.execute("DROP TABLE vectors")
    with Ledger.open(path) as other:
        other.vectors.update(model=Words())
    assert found(told, "green tea", fill=0) == first
    assert warnings(told, fill=0) == ()


@pytest.mark.slow
@NUMPY
def test_many_threads_write_and_search_at_once(told: Ledger) -> None:
    remember(told, *TEXTS)
    told.vectors.update()
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for turn in range(12):
                made = told.remember(f"thread {number} turn {turn} tea")
                assert made.content in found(told, f"thread {number} turn {turn}", limit=5)
                if turn % 4 == 3:
                    told.revise(made.id, f"revised {number} turn {turn} tea", reason="said so")
                    assert made.content not in found(told, f"thread {number} turn {turn}")
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert failures == []
    report = told.vectors.update()
    assert report.kept + report.embedded == 3 + 6 * 12


@SEARCH
def test_a_snapshot_of_before_takes_nothing_away_from_what_is_known(told: Ledger) -> None:
    remember(told, *TEXTS)
    told.vectors.update()
    first = found(told, "tea")
    asked = search(told).ask("tea", "")
    with probe.read(told) as old:
        done = threading.Thread(target=lambda: (remember(told, "New tea."), found(told, "new tea")))
        done.start()
        done.join()
        hits = search(told).hits(old, asked, "").hits
        assert len(hits) == 3, "the new one is not there yet"
    assert found(told, "tea", fill=0)[1:] or first
    assert found(told, "new tea", fill=0)[0] == "New tea."


# --- erasure -----------------------------------------------------------------------------------------------------------


def hits_in(path: Path, *gone: bytes) -> int:
    scan = Scan([], gone)
    assert scan.patterns
    names = [str(path) + end for end in ("", "-wal", "-shm")]
    return sum(sum(scan.file(name)[1].values()) for name in names)


def test_an_erasure_takes_the_vectors_of_every_model_along(told: Ledger, path: Path) -> None:
    tea, *_ = remember(told, *TEXTS)
    for model in (None, Words("other", 40)):
        told.vectors.update(model=model)
    gone = [stored(path, model)[tea.position] for model in ("words", "other")]
    assert probe.store(told).checkpoint()
    assert hits_in(path, *gone) > 0, "the scan finds them while they are there"
    report = told.erase(tea.id, reason="asked for")
    assert report.state == "completed"
    assert hits_in(path, *gone) == 0
    assert told.maintenance.stats().vectors == {"other": 2, "words": 2}
    assert told.vectors.update().kept == 2


@SEARCH
def test_what_was_erased_is_not_found_from_memory_either(told: Ledger, path: Path) -> None:
    tea, *_ = remember(told, *TEXTS)
    found(told, "tea")
    with Ledger.open(path, readonly=True, embedder=Words()) as reader:
        found(reader, "tea")
        told.erase(tea.id, reason="asked for")
        assert len(found(reader, "tea")) == len(found(told, "tea")) == 2
        index = search(reader)._index
        assert index is not None and ("m", tea.position) not in index._marks


def test_the_vector_of_an_old_wording_goes_with_the_erased_old_wording(told: Ledger, path: Path) -> None:
    tea, *_ = remember(told, *TEXTS)
    told.vectors.update()
    gone = stored(path)[tea.position]
    told.revise(tea.id, "The user drinks water.", reason="said so")
    told.erase(Event(tea.position), reason="asked for", quotes="keep", derived="keep", sources="keep")
    assert hits_in(path, gone) == 0


def test_the_vectors_of_a_whole_user_go_with_the_user(told: Ledger, path: Path) -> None:
    for user in ("ada", "grace"):
        remember(told.bind(user=user), f"The tea of {user}.", f"The coffee of {user}.")
    told.vectors.update()
    rows = {each.position for each in told.bind(user="ada").memories.list()}
    gone = [vector for row, vector in stored(path).items() if row in rows]
    told.bind(user="ada").erase(EVERYTHING, reason="asked for")
    assert hits_in(path, *gone) == 0
    assert told.maintenance.stats().vectors == {"words": 2}


def test_an_undone_memory_that_is_erased_loses_its_vector(told: Ledger, path: Path) -> None:
    tea = told.remember("The user drinks green tea.")
    told.vectors.update()
    gone = stored(path)[tea.position]
    told.undo(tea.position, reason="a mistake")
    told.erase(Event(tea.position), reason="asked for")
    assert hits_in(path, gone) == 0


def test_a_vector_that_another_text_has_too_may_stay(told: Ledger, path: Path) -> None:
    mine, theirs = (told.bind(user=user).remember("The user drinks tea.") for user in ("ada", "grace"))
    told.vectors.update()
    report = told.bind(user="ada").erase(mine.id, reason="asked for")
    assert report.state == "completed"
    assert set(stored(path)) == {theirs.position}


@pytest.mark.slow
def test_a_copy_that_a_page_kept_is_written_over(told: Ledger, path: Path) -> None:
    """Whatever the pages hold after rows moved about, the search of the files finds no vector of what was erased."""
    made = remember(
        told, *(f"The tea number {each} is {hashlib.sha256(bytes([each])).hexdigest()}." for each in range(120))
    )
    told.vectors.update(model=Words("wide", 200))
    draw = random.Random(5)
    for each in draw.sample(made, 60):
        told.revise(each.id, f"Revised {each.id}.", reason="said so")
    told.vectors.update(model=Words("wide", 200))
    before = stored(path, "wide")
    for each in draw.sample(made, 5):
        assert told.erase(each.id, reason="asked for").state == "completed"
        assert hits_in(path, before[each.position]) == 0


def test_a_model_that_is_asked_while_a_text_is_erased_leaves_nothing(told: Ledger, words: Words, path: Path) -> None:
    tea, *_ = remember(told, *TEXTS)
    gone = vectors_of(words, TEXTS[0])

    def erase_meanwhile() -> None:
        if words.calls[-1] != ["dimension"]:
            with Ledger.open(path) as other:
                other.erase(tea.id, reason="asked for")

    words.before = erase_meanwhile
    assert told.vectors.update().embedded == 2
    assert hits_in(path, gone) == 0


def vectors_of(words: Words, text: str) -> bytes:
    from ledger.vectors.embedders import checked_vectors

    return checked_vectors(Words(words.name, words.width), [text]).data[0]


# --- where NumPy is not there ----------------------------------------------------------------------------------------------


def test_without_numpy_a_search_says_what_to_install(path: Path, words: Words, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numpy", None)
    with Ledger.open(path, embedder=words) as ledger:
        remember(ledger, *TEXTS)
        assert ledger.vectors.update().embedded == 3, "making them needs none"
        assert warnings(ledger) == ('vectors not used: NumPy is not installed: pip install "belief-ledger[vectors]"',)


# --- the table, from outside ------------------------------------------------------------------------------------------------


def test_the_table_names_no_user_and_holds_no_text(told: Ledger, path: Path) -> None:
    remember(told.bind(user="ada lovelace"), "The secret tea.")
    told.vectors.update()
    with raw(path) as connection:
        ((row,),) = [connection.execute("SELECT * FROM vectors").fetchall()]
    assert not any(isinstance(each, str) and ("ada" in each or "tea" in each) for each in row)
    assert hashlib.sha256(b"The secret tea.").digest()[:16] not in row


def test_any_other_object_in_its_place_is_told_by_verify(told: Ledger, path: Path) -> None:
    with raw(path) as connection:
        connection.execute("CREATE TABLE vectors (id INTEGER PRIMARY KEY)")
    assert any("vectors" in each for each in told.proof.verify(full=True).problems)
    told.remember("tea")
    told.vectors.update()


def test_a_backup_has_the_vectors_and_a_recovered_ledger_makes_them_again(told: Ledger, tmp_path: Path) -> None:
    remember(told, *TEXTS)
    told.vectors.update()
    told.maintenance.backup(tmp_path / "backup.db")
    with Ledger.open(tmp_path / "backup.db", readonly=True) as copy:
        assert copy.maintenance.stats().vectors == {"words": 3}
    Ledger.recover(tmp_path / "backup.db", tmp_path / "recovered.db")
    with Ledger.open(tmp_path / "recovered.db") as recovered:
        recovered.vectors.update(model=Words())
        assert recovered.maintenance.stats().vectors == {"words": 3}


# --- the command line ---------------------------------------------------------------------------------------------------------


def test_the_command_line_embeds_and_drops(path: Path) -> None:
    pytest.importorskip("wordllama")
    with Ledger.open(path) as ledger:
        remember(ledger, *TEXTS)
    made = answer("vectors", "update", "--model", "wordllama", db=path)
    assert isinstance(made, dict)
    assert (made["embedded"], made["dimension"]) == (3, 256)
    gone = answer("vectors", "remove", "wordllama", db=path)
    assert isinstance(gone, dict)
    assert gone["dropped"] == 3


def test_the_command_line_says_what_is_wrong(path: Path, tmp_path: Path) -> None:
    Ledger.open(path).close()
    for given, code, text in (
        (("update", "--model", "gpt"), 4, "wordllama, onnx:DIRECTORY"),
        (("update", "--model", f"onnx:{tmp_path}"), 3, "no model.onnx"),
        (("update",), 4, "needs a model"),
        (("remove",), 2, "MODEL"),
    ):
        told = run("vectors", *given, db=path)
        assert told.exit_code == code
        assert text in told.stderr
