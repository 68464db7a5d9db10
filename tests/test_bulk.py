"""Acts in several appends: what others of the same user ask for between two parts waits until the act is finished.

Every test cuts an act into parts of a few events and does something in the gap, through another open ledger, another
thread or another process.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from conftest import folded_from_zero

from ledger import Conflict, Ledger, LedgerError, NotFound, Rejected
from ledger.erasure import erasing
from ledger.log_reading import read_event
from ledger.way_back import bulk
from ledger.way_back.in_force import Reader, is_subject
from projections import control
from projections.projector import FAMILIES

RARE = "The heron keeps the brass key of the harbour office."
ROOT = Path(__file__).resolve().parents[1]
Do = Callable[[], object]


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(bulk, "BULK_EVENTS", 3)
    monkeypatch.setattr(erasing, "PART_EVENTS", 3)
    return tmp_path / "memory.db"


@pytest.fixture
def ledger(path: Path) -> Iterator[Ledger]:
    with Ledger.open(path, actor="ann") as opened:
        yield opened
        agrees(opened)


@pytest.fixture
def other(ledger: Ledger, path: Path) -> Iterator[Ledger]:
    with Ledger.open(path, actor="ben") as opened:
        yield opened


def agrees(ledger: Ledger, *, but_put_back: bool = False) -> None:
    """Nothing is half done, the rows are what the log says, nothing is in force on nothing, and no key is there twice.

    ``but_put_back`` leaves out what a redo or a trust put back one after the other with what happened to its sources and
    its key: that is for those acts to refuse, whatever their size.
    """
    assert under_way(ledger) == []
    assert ledger.digest() == folded_from_zero(ledger)
    with ledger._store.snapshot() as connection:
        reader, keys = Reader(connection), Counter[str]()
        streams = [stream for (stream,) in connection.execute("SELECT DISTINCT stream FROM events")]
        sql = "SELECT position FROM was_out_of_force"
        back = {position for (position,) in connection.execute(sql)} if but_put_back else set()
        for stream in filter(is_subject, streams):
            family, state = FAMILIES[stream[0]], None
            for event in reader.counting(stream):
                if not family.admits(state, event.data):  # what others did to a memory of a distrusted source stays
                    assert state is None, f"{event.type} at {event.position} does not fit what is there"
                state = family.evolve(state, event)
                keys[event.envelope.key or ""] += event.position not in back
                sources = getattr(event.data, "sources", ())
                gone = bool(sources) and all(map(reader.is_gone, sources))
                assert not gone or event.position in back, (
                    f"{event.type} at {event.position} rests on nothing that is in force"
                )
        del keys[""]
    assert not [key for key, count in keys.items() if count > 1]


def under_way(ledger: Ledger) -> list[str]:
    with ledger._store.snapshot() as connection:
        return [read_event(connection, position).data.act for _, position in control.bulks(connection)]  # type: ignore[union-attr]


def act_under_way(ledger: Ledger) -> str:
    with ledger._store.snapshot() as connection:
        ((act, _),) = control.bulks(connection)
    return act


def in_gap(monkeypatch: pytest.MonkeyPatch, do: Do, *, after: int = 1) -> list[Any]:
    """Does something once, after so many parts of the next act, by whoever carries it out; what came of it."""
    came: list[Any] = []
    began, left = list[bool](), [after]

    def watch(real: Callable[..., Any]) -> Callable[..., Any]:
        def part(*given: Any) -> Any:
            if not began and not left[0]:
                began.append(True)
                try:
                    came.append(do())
                except LedgerError as error:
                    came.append(error)
            left[0] -= 1
            return real(*given)

        return part

    monkeypatch.setattr(bulk, "_step", watch(bulk._step))
    monkeypatch.setattr(erasing.Erasing, "_erase_part", watch(erasing.Erasing._erase_part))
    return came


def cut(act: Do, parts: int = 1) -> None:
    """An act that ends after some of its parts, as when its process is killed; the ledger stays open."""
    with pytest.MonkeyPatch.context() as patch:
        step, erase, left = bulk._step, erasing.Erasing._erase_part, [parts]

        def few(real: Callable[..., Any]) -> Callable[..., Any]:
            def part(*given: Any) -> Any:
                if not left[0]:
                    raise KeyboardInterrupt
                left[0] -= 1
                return real(*given)

            return part

        patch.setattr(bulk, "_step", few(step))
        patch.setattr(erasing.Erasing, "_erase_part", few(erase))
        with pytest.raises(KeyboardInterrupt):
            act()


def facts(ledger: Ledger, count: int = 8, **by: Any) -> list[Any]:
    return [ledger.remember(f"Fact number {number}.", key=f"key {number}", **by) for number in range(count)]


def turns(ledger: Ledger, count: int = 8, **by: Any) -> list[Any]:
    return [ledger.capture(f"question {each}", f"answer {each}", reinforce=False, **by) for each in range(count)]


# --- undo and distrust -----------------------------------------------------------------------------------------------


def test_nothing_is_built_on_what_an_undo_is_about_to_take(
    ledger: Ledger, other: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = turns(ledger, correlation_id="run")[-1]
    came = in_gap(monkeypatch, lambda: other.remember("It follows.", source=last.id))
    report = ledger.undo("run")
    assert isinstance(came[0], NotFound) and other.memories() == []
    assert report.events == 8 and ledger.interactions() == []
    finished = next(each for each in ledger.audit() if each.type == "BulkFinished")
    assert report.position == finished.position, "the report is of the moment at which all of it was done"


def test_an_event_is_not_added_to_what_goes(ledger: Ledger, other: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    last = facts(ledger)[-1]
    came = in_gap(monkeypatch, lambda: other.reinforce(last.id))
    ledger.undo(command="remember")
    assert isinstance(came[0], NotFound) and ledger.memories() == []


def test_a_key_that_an_undo_frees_is_free_at_once(
    ledger: Ledger, other: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = facts(ledger)[-1]
    came = in_gap(monkeypatch, lambda: other.remember("Fact number 7.", key="key 7"))
    ledger.undo(command="remember")
    assert not came[0].replayed and came[0].id != last.id
    assert [each.id for each in ledger.memories()] == [came[0].id]


def test_what_a_distrusted_source_said_supports_nothing_from_the_announcement_on(
    ledger: Ledger, other: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = turns(ledger, actor="eve")[-1]
    came = in_gap(monkeypatch, lambda: other.remember("It follows.", source=last.id))
    ledger.distrust("eve", kind="actor")
    assert isinstance(came[0], NotFound) and ledger.memories() == [] == ledger.interactions()


def test_a_turn_captured_in_the_gap_reinforces_only_what_stays(
    ledger: Ledger, other: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = "The cabin by the lake has a red wooden door."
    facts(ledger, 7, actor="eve")
    ledger.remember(said, "identity", confidence=0.5, actor="eve")
    came = in_gap(monkeypatch, lambda: other.capture("Which?", said))
    ledger.distrust("eve", kind="actor")
    assert came[0].reinforcement == "done" and ledger.memories() == []


# --- redo and trust --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("act", ["redo", "trust"])
def test_a_key_that_comes_back_is_not_used_again_in_the_gap(
    ledger: Ledger, other: Ledger, monkeypatch: pytest.MonkeyPatch, act: str
) -> None:
    known = facts(ledger, actor="eve")
    if act == "redo":
        undone = ledger.undo(command="remember").command_id or ""
    else:
        ledger.distrust("eve", kind="actor")
    came = in_gap(monkeypatch, lambda: other.remember("Fact number 7.", key="key 7"))
    if act == "redo":
        ledger.redo(undone)
    else:
        ledger.trust("eve", kind="actor")
    assert came[0].replayed and came[0].id == known[-1].id
    assert sorted(each.id for each in ledger.memories()) == sorted(each.id for each in known)


def test_the_same_thing_said_in_the_gap_of_a_redo_is_one_memory(
    ledger: Ledger, other: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = facts(ledger)
    undone = ledger.undo(command="remember").command_id or ""
    came = in_gap(monkeypatch, lambda: other.remember("Fact number 7."))
    ledger.redo(undone)
    assert came[0].absorbed and came[0].id == known[-1].id and len(ledger.memories()) == 8


def test_an_act_in_the_gap_of_another_is_planned_on_the_whole_of_it(
    ledger: Ledger, other: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts(ledger)
    undone = ledger.undo(command="remember").command_id or ""
    came = in_gap(monkeypatch, lambda: other.undo(command="remember"))
    ledger.redo(undone)
    assert came[0].events == 8 and ledger.memories() == []


def test_a_refusal_found_on_half_of_an_act_is_looked_at_again(
    ledger: Ledger, other: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other plans its redo outside the lock, amid the undo of what had taken the key, and is refused; in vain."""
    fact = ledger.remember("The lamp is green.", key="k")
    undone = ledger.undo(fact.position)
    taken = ledger.remember("The lamp is blue.", key="k", correlation_id="run")
    for number in range(7):
        ledger.remember(f"Fact {number}.", correlation_id="run")
    planned, half = other._planned, list[object]()

    def plan(make: Any) -> Any:
        if not half:
            cut(lambda: ledger.undo("run"), parts=0)
        half.append(found := planned(make))
        return found

    monkeypatch.setattr(other, "_planned", plan)
    other.redo(undone.command_id or "")
    assert "used again" in str(half[0].error) and len(half) > 1  # type: ignore[attr-defined]
    assert [each.id for each in ledger.memories()] == [fact.id] != [taken.id]


# --- erase -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["memory", "session", "user"])
def test_a_hold_on_what_is_being_erased_is_refused_and_never_placed(ledger: Ledger, other: Ledger, what: str) -> None:
    for number in range(8):
        last = ledger.remember(f"{RARE} {number}", session_id="monday", project="harbour")
    elsewhere = ledger.remember("The jar is blue.")
    session = next(each.subject for each in ledger.audit() if each.type == "SessionOpened")
    cut(lambda: ledger.erase(session="monday"))
    assert other.hold(elsewhere.id).subject == elsewhere.id and under_way(other) == ["erase"]
    subject = {"memory": last.id, "session": session, "user": None}[what]
    with pytest.raises(Conflict, match="an erasure of it"):
        other.hold(subject)
    assert [each.subject for each in other.holds()] == [elsewhere.id]
    assert under_way(other) == [], "so that the next try is not refused for good"
    assert {each.content for each in ledger.memories(status="all")} == {None, "The jar is blue."}
    assert other.hold(subject).subject == subject
    ledger.finish_erasures()
    assert not remains(ledger)


def test_whoever_erases_carries_on_where_a_hold_came_too_late(
    ledger: Ledger, other: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(8):
        last = ledger.remember(f"{RARE} {number}", session_id="monday")
    came = in_gap(monkeypatch, lambda: other.hold(last.id))
    report = ledger.erase(session="monday")
    assert isinstance(came[0], Conflict) and ledger.holds() == []
    assert report.state == "completed" and len(report.erased) == 9 and not remains(ledger)


def test_a_hold_that_came_first_stops_all_of_an_erasure(ledger: Ledger) -> None:
    for number in range(8):
        last = ledger.remember(f"{RARE} {number}", session_id="monday")
    ledger.hold(last.id)
    with pytest.raises(Rejected, match="nothing was erased"):
        ledger.erase(session="monday")
    assert under_way(ledger) == [] and len(ledger.memories()) == 8


@pytest.mark.parametrize("how", ["revise", "cite", "quote"])
def test_what_is_written_about_a_target_in_the_gap_comes_after_its_erasure(
    ledger: Ledger, other: Ledger, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    for number in range(8):
        last = ledger.remember(f"{RARE} {number}", session_id="monday")
    ways: dict[str, Do] = {
        "revise": lambda: other.revise(last.id, f"{RARE} Really."),
        "cite": lambda: other.remember("The key is brass.", source=last.id),
        "quote": lambda: other.capture("What?", other.memory(last.id).content or "nothing"),  # type: ignore[union-attr]
    }
    came = in_gap(monkeypatch, ways[how])
    ledger.erase(session="monday")
    if how == "revise":
        assert isinstance(came[0], Rejected)
    if how != "quote":  # who has read it may say it again; that is a new text
        assert not remains(ledger)
    erased = {each.position for report in ledger.erasures() for each in report.erased}
    finished = next(each.position for each in ledger.audit(limit=500) if each.type == "BulkFinished")
    said = [each for each in ledger.audit(limit=500) if each.actor == "ben"]
    assert not erased & {each.position for each in said}
    assert all(each.position > finished for each in said)


def test_the_erasure_of_a_whole_user_is_found_without_the_name(ledger: Ledger, other: Ledger) -> None:
    facts(ledger, user="ada")
    ledger.remember("Theirs.", user="ben")
    cut(lambda: ledger.erase(user="ada"))
    other.remember("Mine.", user="ben")
    assert under_way(other) == ["erase"], "it is none of ben's"
    with pytest.raises(Conflict, match="an erasure of it"):
        other.hold(user="ada")
    assert under_way(other) == [] and ledger.memories(user="ada", status="all") == []
    assert other.hold(user="ada").user == "ada"


def test_who_goes_on_with_an_erasure_leaves_its_files_to_who_began_it(
    ledger: Ledger, other: Ledger, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(8):
        ledger.remember(f"{RARE} {number}", session_id="monday")
    cut(lambda: ledger.erase(session="monday"))
    with ledger._store.transact() as transaction:
        transaction.connection.execute("UPDATE leases SET holder = 'somebody' WHERE work = 'erase'")
    other.remember("The jar is blue.")
    with ledger._store.transact() as transaction:
        assert transaction.connection.execute("SELECT holder FROM leases").fetchall() == [("somebody",)]
    assert [each.state for each in other.erasures()] == ["pending"]
    with Ledger.open(path) as opened:
        assert [each.state for each in opened.erasures()] == ["completed"]
    assert not remains(ledger)


def remains(ledger: Ledger) -> bool:
    """Whether the text is still in the files. They are read by another process: POSIX locks end with any descriptor."""
    code = "import sys; print(any(sys.argv[1].encode() in open(name, 'rb').read() for name in sys.argv[2:]))"
    files = [str(each) for each in Path(ledger.path).parent.glob("memory.db*")]
    told = subprocess.run([sys.executable, "-c", code, RARE[:30], *files], capture_output=True, text=True, check=True)
    return told.stdout.strip() == "True"


# --- who waits, and who does not -------------------------------------------------------------------------------------


@pytest.mark.parametrize("act", ["undo", "distrust"])
def test_other_users_are_not_held_up(ledger: Ledger, other: Ledger, monkeypatch: pytest.MonkeyPatch, act: str) -> None:
    facts(ledger, actor="eve")
    came = in_gap(monkeypatch, lambda: (other.remember("Mine.", user="ben"), under_way(other)))
    _ = ledger.undo(command="remember") if act == "undo" else ledger.distrust("eve", kind="actor")
    assert came[0][1] == [act] and len(other.memories(user="ben")) == 1


def test_reads_show_what_is_there(ledger: Ledger, path: Path) -> None:
    facts(ledger)
    with Ledger.open(path, readonly=True) as reader:
        cut(lambda: ledger.undo(command="remember"))
        assert len(reader.memories()) == 5 and len(ledger.memories()) == 5
        ledger.remember("The jar is blue.")
        assert len(reader.memories()) == 1


def test_nobody_says_that_he_is_a_part_of_anothers_act(ledger: Ledger, other: Ledger) -> None:
    facts(ledger)
    cut(lambda: ledger.undo(command="remember"))
    act = act_under_way(ledger)
    theirs = other.remember("Mine.", user="ben")
    with pytest.raises(Conflict, match="another"):
        other.undo(theirs.position, user="ben", correlation_id=act)
    other.remember("The jar is blue.", correlation_id=act)  # of this user: it comes after the act
    assert len(other.memories(user="ben")) == 1 and len(other.memories()) == 1


def test_what_names_a_finished_act_as_its_correlation_is_none_of_it(ledger: Ledger, other: Ledger) -> None:
    facts(ledger)
    act = ledger.undo(command="remember").command_id or ""
    theirs = other.remember("Mine.", user="ben")
    undone = other.undo(theirs.position, user="ben", correlation_id=act)
    other.redo(undone.command_id or "", user="ben")
    assert len(other.memories(user="ben")) == 1 and other.memories() == []


def test_a_distrusted_source_cannot_slip_in_as_a_part(ledger: Ledger, other: Ledger) -> None:
    facts(ledger, actor="eve")
    cut(lambda: ledger.distrust("eve", kind="actor"))
    act = act_under_way(ledger)
    with pytest.raises(Rejected, match="distrusted"):
        other.remember("A lie told meanwhile.", actor="eve", correlation_id=act)
    assert ledger.memories() == []


def test_what_is_parked_says_why_nothing_goes_on(ledger: Ledger) -> None:
    facts(ledger)
    cut(lambda: ledger.undo(command="remember"))
    with ledger._store.transact() as transaction:
        transaction.connection.execute("UPDATE projections SET parked_at = 3, error = 'X' WHERE name = 'audit'")
    ledger._writer.forget()
    with pytest.raises(Rejected, match="rebuild"):
        ledger.remember("The jar is blue.")
    ledger.rebuild()
    ledger.remember("The jar is blue.")
    assert len(ledger.memories()) == 1


def test_an_act_that_does_not_end_keeps_nobody_for_ever(ledger: Ledger) -> None:
    facts(ledger)
    cut(lambda: ledger.undo(command="remember"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bulk, "_step", lambda *_: None)
        with pytest.raises(Conflict, match="does not come to its end"):
            ledger.remember("The jar is blue.")
    assert ledger.remember("The jar is blue.").position == ledger.position


# --- batches ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("act", ["undo", "erase"])
def test_a_batch_that_holds_nothing_yet_finishes_it(ledger: Ledger, other: Ledger, act: str) -> None:
    facts(ledger)
    cut(lambda: ledger.undo(command="remember") if act == "undo" else ledger.erase(user=""))
    with pytest.raises(ZeroDivisionError), other.batch():
        other.remember("The jar is blue.")
        assert under_way(other) == []
        _ = 1 / 0
    assert under_way(ledger) == [], "the parts are commits of their own, and stay"
    assert {each.content for each in ledger.memories(status="all")} <= {None}
    with other.batch():
        other.remember("The jar is blue.")
    assert len(ledger.memories()) == 1


def test_a_batch_that_holds_something_is_not_committed_by_half(ledger: Ledger, other: Ledger) -> None:
    facts(ledger)
    cut(lambda: ledger.undo(command="remember"))
    with pytest.raises(Conflict, match="leave the batch first"), other.batch():
        other.remember("Mine.", user="ben")
        other.remember("The jar is blue.")
    assert other.memories(user="ben") == [] and under_way(other) == ["undo"]
    other.remember("The jar is blue.")


def test_an_import_finishes_it_first(ledger: Ledger, other: Ledger, tmp_path: Path) -> None:
    file = tmp_path / "lines.jsonl"
    file.write_text("".join(json.dumps({"prompt": f"q{each}", "response": "r"}) + "\n" for each in range(8)))
    first = ledger.import_file(file)
    assert first.captured == 8
    cut(lambda: ledger.undo(first.correlation_id))
    again = other.import_file(file)
    assert (again.captured, again.known, again.errors) == (8, 0, ())
    assert len(ledger.interactions()) == 8


def test_a_policy_finishes_it_first(ledger: Ledger, other: Ledger) -> None:
    turns(ledger)
    cut(lambda: ledger.undo(command="capture"))
    other.run_policies()
    assert under_way(other) == [] and ledger.interactions() == []


# --- threads and processes -------------------------------------------------------------------------------------------


WRITER = """
import sys
from ledger import Ledger
from ledger.way_back import bulk
bulk.BULK_EVENTS = 3
with Ledger.open(sys.argv[1], actor=sys.argv[2]) as ledger:
    print("ready", flush=True)
    for line in sys.stdin:
        if line.strip() == "undo":
            ledger.undo(command="remember")
        else:
            ledger.capture(line, "noted", key=sys.argv[2], reinforce=False)
        print("done", flush=True)
"""
KILLED = """
import os, sys
from ledger import Ledger
from ledger.erasure import erasing
from ledger.way_back import bulk
bulk.BULK_EVENTS = erasing.PART_EVENTS = 3
ledger, act, left = Ledger.open(sys.argv[1], actor="ann"), sys.argv[2], [int(sys.argv[3])]
def few(real):
    def part(*given):
        if not left[0]:
            os._exit(9)
        left[0] -= 1
        return real(*given)
    return part
bulk._step, erasing.Erasing._erase_part = few(bulk._step), few(erasing.Erasing._erase_part)
if act == "undo":
    ledger.undo(command="remember")
elif act == "redo":
    ledger.redo(sys.argv[4])
elif act == "erase":
    ledger.erase(user="")
else:
    getattr(ledger, act)("eve", kind="actor")
os._exit(0)
"""


@pytest.mark.parametrize("act", ["undo", "redo", "distrust", "trust", "erase"])
@pytest.mark.parametrize("parts", [0, 2])
def test_after_a_kill_the_next_command_of_who_has_it_open_finishes_it(path: Path, act: str, parts: int) -> None:
    with Ledger.open(path, actor="ann") as ledger:
        known, undone = facts(ledger, actor="eve"), ""
        if act == "redo":
            undone = ledger.undo(command="remember").command_id or ""
        elif act == "trust":
            ledger.distrust("eve", kind="actor")
        told = [sys.executable, "-c", KILLED, str(path), act, str(parts), undone]
        assert subprocess.run(told, cwd=ROOT).returncode == 9
        assert under_way(ledger) == [act]
        said = ledger.remember("Fact number 7.", key="key 7" if act in ("redo", "trust") else None)
        agrees(ledger)
        expected = 8 if act in ("redo", "trust") else 1
        assert len(ledger.memories()) == expected and (said.id == known[-1].id) == (expected == 8)


def test_writers_in_other_processes_wait_for_one_undo(path: Path) -> None:
    with Ledger.open(path) as ledger:
        facts(ledger, 60)
    command = [sys.executable, "-c", WRITER, str(path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "cwd": ROOT}
    writers: list[Any] = [subprocess.Popen([*command, name], **pipes) for name in ("ann", "ben", "eve")]  # type: ignore[call-overload]
    try:
        for each in writers:
            assert each.stdout.readline() == "ready\n"
        writers[0].stdin.write("undo\n")
        writers[0].stdin.flush()
        with Ledger.open(path) as ledger:
            until = time.monotonic() + 20
            while not under_way(ledger) and ledger.memories() and time.monotonic() < until:
                pass
            for each in writers[1:]:
                each.stdin.write("and then?\n")
                each.stdin.flush()
            for each in writers:
                assert each.stdout.readline() == "done\n"
                each.stdin.close()
                assert each.wait(20) == 0
            agrees(ledger)
            trail = list(reversed(ledger.audit(limit=500)))
            first, last = (
                next(e.position for e in trail if e.type == kind) for kind in ("BulkStarted", "BulkFinished")
            )
            assert not [each for each in trail if first < each.position < last and each.command != "undo"]
            assert ledger.memories() == [] and len(ledger.interactions()) == 2
    finally:
        for each in writers:
            each.kill()
            each.wait()
            each.stdout.close()


def test_threads_and_ledgers_go_on_with_the_same_act_at_once(ledger: Ledger, other: Ledger) -> None:
    facts(ledger, 40)
    cut(lambda: ledger.undo(command="remember"))
    start, failed = threading.Barrier(4), list[BaseException]()

    def write(through: Ledger, number: int) -> None:
        try:
            start.wait(10)
            through.capture(f"question {number}", "noted", reinforce=False)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=write, args=((ledger, other)[each % 2], each)) for each in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(30)
    types = Counter(entry.type for entry in ledger.audit(limit=500))
    assert not failed and types["BulkFinished"] == 1 and len(ledger.interactions()) == 4 and ledger.memories() == []


# --- found by trying -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_whatever_is_tried_between_any_two_parts(path: Path, seed: int) -> None:
    rng, texts = random.Random(seed), [f"Fact number {each} of the heron." for each in range(6)]
    with Ledger.open(path, actor="ann") as ledger, Ledger.open(path, actor="ben") as other:

        def some() -> str:
            found = [*ledger.memories(status="all"), *ledger.interactions()]
            return rng.choice(found).id if found else "m_0000000000000000"

        def write() -> object:
            through, actor = rng.choice([ledger, other]), rng.choice(["ann", "eve"])
            key = rng.choice([None, f"key {rng.randrange(9)}"])
            ways: list[Do] = [
                lambda: through.remember(rng.choice(texts), key=key, actor=actor),
                lambda: through.remember(rng.choice(texts), source=some(), actor=actor),
                lambda: through.capture("What?", rng.choice(texts), actor=actor, session_id="monday"),
                lambda: through.reinforce(some(), actor=actor),
                lambda: through.supersede(some(), rng.choice(texts), actor=actor),
                lambda: through.hold(some()),
                lambda: through.lift_hold(rng.choice(through.holds()).id),
                act,
            ]
            return rng.choice(ways)()

        def act() -> object:
            through = rng.choice([ledger, other])
            acts = [
                each.command_id for each in ledger.audit(limit=500) if each.type in ("BulkStarted", "CommandUndone")
            ]
            ways: list[Do] = [
                lambda: through.undo(command=rng.choice(["remember", "capture"]), cascade=True),
                lambda: through.redo(rng.choice(acts or ["nothing"])),
                lambda: through.distrust("eve", kind="actor"),
                lambda: through.trust("eve", kind="actor"),
                lambda: through.erase(session="monday", derived="erase", sources="erase", quotes="erase"),
            ]
            return rng.choice(ways)()

        for _ in range(12):
            for _ in range(5):
                tried(write)
            with pytest.MonkeyPatch.context() as patch:
                in_gap(patch, lambda: [tried(write) for _ in range(3)], after=rng.randrange(3))
                if rng.random() < 0.3:
                    tried(lambda: cut_if_long(act, rng.randrange(3)))
                else:
                    tried(act)
            tried(write)
        other.remember("The end.", actor="carl")
        agrees(ledger, but_put_back=True)
        assert ledger.verify().ok


def tried(do: Do) -> None:
    with suppress(LedgerError, IndexError):
        do()


def cut_if_long(act: Do, parts: int) -> None:
    with suppress(pytest.fail.Exception):
        cut(act, parts)
