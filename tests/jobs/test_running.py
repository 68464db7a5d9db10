"""The policies at work: one after the other, only some of them, or shared by workers that may be killed at any time."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import needs
import probe
import pytest
from conftest import Clock

from ledger import Ledger, RejectedError
from ledger.answers import JobReport
from ledger.jobs.running import JOBS, SPAN
from ledger.log.lease import Lease

ROAST = "The user prefers dark roast coffee."
DECIDED = "Decision: keep the kettle on the shelf number {}."


def fill(ledger: Ledger, turns: int) -> None:
    """So many turns whose policies have not run yet."""
    with ledger.batch():
        for number in range(turns):
            ledger.capture(f"Where does it go, question {number}?", DECIDED.format(number))


def decided(ledger: Ledger) -> list[str]:
    return sorted(each.memory.content or "" for each in ledger.review(limit=500))


def recorded(ledger: Ledger, type_: str) -> int:
    return sum(each.type == type_ for each in ledger.history.audit(limit=500))


def test_only_the_jobs_that_are_named_run(ledger: Ledger) -> None:
    fill(ledger, 2)
    report = ledger.jobs.run(jobs=("reinforcement",))
    assert (report.reinforced_interactions, report.extracted_interactions) == (2, 0)
    assert ledger.jobs.run(jobs=("extraction",)).extracted_interactions == 2


@pytest.mark.parametrize("only", [("gardening",), ("extraction", "gardening"), [""]])
def test_an_unknown_job_is_refused_and_the_error_lists_the_jobs(ledger: Ledger, only: Any) -> None:
    with pytest.raises(RejectedError, match=f"there are: {', '.join(JOBS)}"):
        ledger.jobs.run(jobs=only)
    with pytest.raises(RejectedError, match="there are"):
        ledger.jobs.work(jobs=only)


def test_what_is_asked_for_follows_each_capture(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "memory.db", jobs_after_capture=("extraction",)) as ledger:
        waiting = ledger.capture("Where to?")
        assert decided(ledger) == []
        ledger.interactions.add_response(waiting.id, DECIDED.format(1))
        ledger.capture("Where to?", DECIDED.format(2))
        assert [each[-1] for each in decided(ledger)] == ["1", "2"]
        with ledger.batch():
            ledger.capture("Where to?", DECIDED.format(3))
        assert len(decided(ledger)) == 2
    with pytest.raises(RejectedError, match="no job is called 'gardening'"):
        Ledger.open(tmp_path / "memory.db", jobs_after_capture=("gardening",))


def test_what_fails_after_a_capture_is_recorded_and_the_capture_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Ledger.open(tmp_path / "memory.db", jobs_after_capture="extraction") as ledger:
        monkeypatch.setattr("ledger.extraction.rule_findings.by_rules", lambda lines: 1 / 0)
        turn = ledger.capture("Where to?", DECIDED.format(1))
        assert turn.response == DECIDED.format(1) and recorded(ledger, "ExtractionFailed") == 1


def test_one_pass_of_a_worker_does_what_run_policies_does(ledger: Ledger, clock: Clock) -> None:
    ledger.policy.set(decay="all", expire=True)
    ledger.remember(ROAST, kind="preference", confidence=0.31)
    fill(ledger, 3)
    clock.advance(days=400)
    (report,) = ledger.jobs.work()
    assert (report.reinforced_interactions, report.extracted_interactions, report.candidates) == (3, 3, 3)
    assert (report.expired, report.failures) == (1, 0)
    position = ledger.position
    (again,) = ledger.jobs.work()
    assert again == type(again)() and ledger.position == position


def test_a_piece_that_another_worker_holds_is_left_to_it(ledger: Ledger) -> None:
    fill(ledger, 1)
    (turn,) = ledger.interactions.list()
    other = Lease(probe.store(ledger), f"extraction:{turn.position // SPAN}", 60)
    assert other.take()
    (report,) = ledger.jobs.work()
    assert (report.reinforced_interactions, report.extracted_interactions) == (1, 0)
    other.give_back()
    (report,) = ledger.jobs.work()
    assert report.extracted_interactions == 1


def test_the_lease_of_a_worker_that_is_gone_holds_nobody_up(ledger: Ledger) -> None:
    fill(ledger, 1)
    with probe.store(ledger).transact() as transaction:
        gone = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True)
        held = ("extraction:0", f"{gone.stdout.strip()}-dead", time.time() + 600)
        transaction.connection.execute("INSERT INTO leases VALUES (?, ?, ?)", held)
    (report,) = ledger.jobs.work()
    assert report.extracted_interactions == 1


def test_a_worker_does_not_work_inside_a_batch(ledger: Ledger) -> None:
    with ledger.batch(), pytest.raises(RejectedError, match="leave the batch first"):
        ledger.jobs.work()


def test_a_worker_that_was_told_to_stop_stops_between_two_turns(ledger: Ledger) -> None:
    fill(ledger, 5)
    stop = threading.Event()
    list(
        ledger.jobs.work(cancel=stop, jobs=("extraction",), progress=lambda done, of: stop.set() if done == 2 else None)
    )
    assert recorded(ledger, "CandidatesExtracted") == 2
    assert [each.to_dict() | {"stopped": ""} for each in ledger.jobs.work(cancel=stop)] == [JobReport().to_dict()]


def test_several_workers_at_once_record_every_piece_once(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    with Ledger.open(path) as first, Ledger.open(path) as second, Ledger.open(path) as third:
        fill(first, 40)
        reports: list[Any] = []
        failed: list[BaseException] = []

        def one(ledger: Ledger) -> None:
            try:
                reports.extend(ledger.jobs.work())
            except BaseException as error:
                failed.append(error)

        threads = [threading.Thread(target=one, args=(each,)) for each in (first, second, third)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failed
        reports += first.jobs.work()  # what one had when another looked at it is done by now
        assert recorded(first, "CandidatesExtracted") == recorded(first, "ReinforcementEvaluated") == 40
        assert decided(first) == sorted(f"keep the kettle on the shelf number {number}" for number in range(40))
        assert sum(each.failures for each in reports) == 0


@pytest.mark.slow
def test_a_worker_that_follows_takes_what_comes_until_it_is_stopped(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    stop, seen = threading.Event(), list[int]()
    with Ledger.open(path) as ledger:

        def follow() -> None:
            with Ledger.open(path) as worker:
                for report in worker.jobs.work(follow=True, cancel=stop):
                    seen.append(report.candidates)

        thread = threading.Thread(target=follow)
        thread.start()
        for number in range(2):
            ledger.capture("Where to?", DECIDED.format(number), reinforce=False)
            wait_for(lambda number=number: len(ledger.review()) > number)
        stop.set()
        thread.join()
        assert len(ledger.review()) == 2 == sum(seen)


FOLLOW = [sys.executable, "-m", "ledger", "jobs", "work", "--follow", "--json", "--db"]


def started(path: Path) -> subprocess.Popen[str]:
    return subprocess.Popen([*FOLLOW, str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for(condition: Any) -> None:
    while not condition():
        time.sleep(0.05)


@pytest.mark.slow
def test_a_killed_worker_leaves_its_work_to_the_next_and_nothing_is_there_twice(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    with Ledger.open(path) as ledger:
        fill(ledger, 150)
        for _ in range(3):
            process = started(path)
            before = ledger.position
            wait_for(lambda before=before: ledger.position > before)
            process.kill()
            process.communicate()
        list(ledger.jobs.work())
        counts = [each for each in ledger.interactions.list(limit=500) if each.extraction != "done"]
        assert counts == []
        assert len(decided(ledger)) == 150 == len(set(decided(ledger)))
        assert ledger.proof.verify().ok


@pytest.mark.slow
@needs.signals
def test_the_command_finishes_what_is_under_way_when_it_is_asked_to_end(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    with Ledger.open(path) as ledger:
        fill(ledger, 3)
        process = started(path)
        wait_for(lambda: len(ledger.review()) == 3)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate()
    assert process.returncode == 0
    (done,) = [json.loads(each) for each in out.splitlines()]
    assert (done["candidates"], done["extracted_interactions"]) == (3, 3)
    assert "stopping after what is under way" in err and "stopped; " in err
