"""The log, forward: every event of every user as it was recorded, and waiting for those that others commit."""

from __future__ import annotations

import subprocess
import sys
import threading
from itertools import islice
from pathlib import Path

import pytest
from command_line import answer, run

from ledger import Ledger, NotFoundError, RejectedError
from ledger.events import InteractionCaptured, LedgerCreated, MemoryCaptured, MemoryPromoted
from ledger.history import log
from ledger.types import EVERYTHING

pytestmark = pytest.mark.ledger(user="ada", actor="ada")


def test_every_event_of_every_user_comes_in_order_with_its_data(ledger: Ledger) -> None:
    idea = ledger.propose("The tea is green.", kind="fact")
    ledger.bind(user="ben", actor="ben").remember("The sea is salty.")
    ledger.promote(idea.id)
    entries = ledger.history.log()
    assert [each.position for each in entries] == [1, 2, 3, 4] and entries.next is None
    assert [type(each.data) for each in entries] == [LedgerCreated, MemoryCaptured, MemoryCaptured, MemoryPromoted]
    assert [each.user for each in entries][1:] == ["ada", "ben", "ada"]
    assert (entries[1].subject, entries[1].version, entries[3].version) == (idea.id, 1, 2)
    assert entries[1].data.content == "The tea is green." and entries[1].to_dict()["data"]["kind"] == "fact"


def test_the_secret_of_the_file_is_not_told(ledger: Ledger) -> None:
    (first,) = ledger.history.log(limit=1)
    assert first.data.secret == "" and first.data.ledger_id


def test_pages_go_on_behind_a_position_and_end(ledger: Ledger) -> None:
    with ledger.batch():
        for number in range(120):
            ledger.remember(f"Fact number {number} about the sea.")
    page = ledger.history.log(limit=50)
    assert (len(page), page.next) == (50, "50")
    assert [each.position for each in page.all()] == list(range(1, 122))
    assert [each.position for each in ledger.history.log(after=page.next, limit=2)] == [51, 52]
    assert [each.position for each in ledger.history.log(after=119)] == [120, 121]
    assert ledger.history.log(after=121) == () == ledger.history.log(limit=0)
    assert [each.position for each in ledger.history.log(after=10, until=13)] == [11, 12]


def test_filters_of_type_and_subject_hold_on_every_page(ledger: Ledger) -> None:
    ideas = [ledger.propose(f"Idea {number} of the harbour.") for number in range(5)]
    for each in ideas:
        ledger.promote(each.id)
    found = ledger.history.log(types=["MemoryPromoted"], limit=2)
    assert [each.subject for each in found.all()] == [each.id for each in ideas]
    assert [each.type for each in ledger.history.log(subject=ideas[0].id[:9])] == ["MemoryCaptured", "MemoryPromoted"]
    assert [each.type for each in ledger.history.log(subject="ledger")] == ["LedgerCreated"]


def test_what_was_undone_stays_and_is_marked_and_what_was_erased_has_no_text(ledger: Ledger) -> None:
    kept, gone = ledger.remember("The tea is green."), ledger.remember("Ruth has a rash.")
    ledger.undo(kept.position)
    ledger.erase(gone.id)
    by_position = {each.position: each for each in ledger.history.log()}
    assert not by_position[kept.position].in_effect and by_position[kept.position].data.content == "The tea is green."
    assert by_position[gone.position].data.content is None
    ledger.erase(EVERYTHING)
    assert {each.user for each in ledger.history.log()} == {"ada", None} or all(
        getattr(each.data, "content", None) is None for each in ledger.history.log()
    )


def test_a_long_text_is_in_its_event(ledger: Ledger) -> None:
    turn = ledger.capture("Read this. " * 20_000, "Done.")
    (entry,) = ledger.history.log(types=["InteractionCaptured"])
    assert isinstance(entry.data, InteractionCaptured) and entry.data.prompt == turn.prompt


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"types": ["Foo"]}, RejectedError, "MemoryPromoted"),
        ({"types": "MemoryPromoted"}, RejectedError, "several"),
        ({"subject": "m_zzzz"}, NotFoundError, "m_zzzz"),
        ({"subject": 7}, RejectedError, "text"),
        ({"after": -1}, RejectedError, "at least 0"),
        ({"after": "x"}, RejectedError, "at least 0"),
        ({"after": True}, RejectedError, "at least 0"),
        ({"until": "soon"}, RejectedError, "until"),
        ({"limit": 5_000}, RejectedError, "limit"),
    ],
)
def test_arguments_of_log_that_contradict_each_other_or_name_nothing_are_refused(
    ledger: Ledger, given: dict[str, object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        ledger.history.log(**given)  # type: ignore[arg-type]


# --- waiting ---------------------------------------------------------------------------------------------------------


def test_a_follower_gets_what_was_there_and_what_another_process_commits(ledger: Ledger) -> None:
    ledger.remember("The tea is green.")
    followed = ledger.history.follow(0, types=["MemoryCaptured"], timeout=60)
    assert next(followed).data.content == "The tea is green."
    code = "import sys; from ledger import Ledger\nwith Ledger.open(sys.argv[1]) as l: l.remember('The sea is salty.')"
    subprocess.run([sys.executable, "-c", code, ledger.path], check=True)
    assert next(followed).data.content == "The sea is salty."


def test_a_follower_from_now_misses_nothing_that_came_after_the_call(ledger: Ledger) -> None:
    ledger.remember("The tea is green.")
    followed = ledger.history.follow(timeout=60)
    for number in range(3):
        ledger.remember(f"Fact {number} of the sea.")
    assert [each.data.content for each in islice(followed, 3)] == [f"Fact {number} of the sea." for number in range(3)]


def test_follow_ends_when_cancelled_and_at_the_timeout(ledger: Ledger) -> None:
    stop = threading.Event()
    followed = ledger.history.follow(0, cancel=stop)
    assert next(followed).position == 1
    stop.set()
    assert list(followed) == []
    assert list(ledger.history.follow(timeout=0.01)) == []


def test_follow_ends_when_the_ledger_is_closed(tmp_path: Path) -> None:
    opened = Ledger.open(tmp_path / "memory.db")
    followed = opened.history.follow()
    waiting = threading.Thread(target=lambda: ended.append(list(followed)))
    ended: list[list[object]] = []
    waiting.start()
    opened.close()
    waiting.join(60)
    assert ended == [[]]


def test_follow_ends_when_the_ledger_is_closed_between_a_poll_and_the_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Ledger.open(tmp_path / "memory.db") as opened:
        read = log.entries
        monkeypatch.setattr(log, "entries", lambda *asked: (opened.close(), read(*asked))[1])
        assert list(opened.history.follow(0)) == []


def test_follow_ends_when_its_own_consumer_closes_the_ledger(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "memory.db") as opened:
        assert [opened.close() for _ in opened.history.follow(0)] == [None]


def test_waiting_for_a_position_tells_whether_it_came(ledger: Ledger) -> None:
    assert ledger.history.wait(1) is True
    assert ledger.history.wait(2, timeout=0.01) is False
    writing = threading.Timer(0.05, lambda: ledger.bind(actor="other").remember("The sea is salty."))
    writing.start()
    assert ledger.history.wait(2, timeout=60) is True
    writing.join()


def test_follow_and_wait_are_refused_inside_a_batch(ledger: Ledger) -> None:
    with ledger.batch():
        for wait in (ledger.history.follow, lambda: ledger.history.wait(9)):
            with pytest.raises(RejectedError, match="batch"):
                wait()


# --- on the command line ---------------------------------------------------------------------------------------------


def test_the_shell_lists_follows_and_waits(tmp_path: Path) -> None:
    db = tmp_path / "memory.db"
    run("remember", "The sea is salty.", "--actor", "ann", db=db)
    assert [each["type"] for each in answer("history", "log", db=db)] == ["LedgerCreated", "MemoryCaptured"]
    followed = run("history", "follow", "1", "--timeout", "0.1", "--json", db=db)
    assert '"content": "The sea is salty."' in followed.stdout and len(followed.stdout.splitlines()) == 1
    assert "MemoryCaptured" in run("history", "follow", "1", "--timeout", "0.1", db=db).stdout
    assert run("history", "wait", "2", db=db).exit_code == 0
    late = run("history", "wait", "9", "--timeout", "0.1", db=db)
    assert late.exit_code == 1 and "its last is 2" in late.stderr


def test_free_json_is_in_its_event_and_every_entry_is_plain_data(tmp_path: Path) -> None:
    db = tmp_path / "memory.db"
    with Ledger.open(db, user="ada") as ledger:
        ledger.session("chat").append(
            "assistant", parts=[{"type": "tool_use", "id": "c1", "name": "look", "arguments": {"where": "harbour"}}]
        )
        ledger.documents.add("# Boats\n\nA ketch has two masts.", title="Boats")
        (message,) = ledger.history.log(types=["MessageAppended"])
        assert message.data.parts[0]["arguments"] == {"where": "harbour"}
        assert all(each.to_dict()["data"] is not None for each in ledger.history.log())
    assert answer("history", "log", db=db)[-1]["data"]
