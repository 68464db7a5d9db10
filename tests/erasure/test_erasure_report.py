"""What the report of an erasure says: what went, what stays and why, and where the same is still said."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from leftovers import states

from ledger import Ledger, NotFoundError, RejectedError
from ledger.types import EVERYTHING, Event, Project, SessionName

FACT = "Ruth Meier lives at Hafen 3 in Berlin."


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(tmp_path / "memory.db", actor="paula") as ledger:
        yield ledger
        verified = ledger.proof.verify()
        assert verified.ok and verified.projections, "the projections are what the log says"


def names(ledger: Ledger) -> set[str | None]:
    return {each.name for each in ledger.sessions.list()}


# --- the names of sessions -------------------------------------------------------------------------------------------


def test_with_a_project_go_the_names_of_the_sessions_that_are_of_it_alone(opened: Ledger) -> None:
    opened.projects.add("harbour")
    talk = opened.session("ruth-meier", project="harbour")
    talk.append("user", FACT)
    talk.add_alias("ruth-on-the-phone")
    opened.session("weather").append("user", "Ask ruth-meier about the rain.")
    report = opened.erase(Project("harbour"))
    assert report.quotes == (), "the name of a session is no text that others quote"
    assert names(opened) == {"weather"}
    assert not any("ruth-on" in state or '"ruth-meier"' in state for state in states(opened))
    with pytest.raises(NotFoundError):
        opened.erase(SessionName("ruth-meier"))


def test_the_name_of_a_session_that_others_use_too_stays_and_is_reported(opened: Ledger) -> None:
    opened.projects.add("harbour")
    opened.capture("Where does Ruth live?", FACT, session="chat", project="harbour")
    elsewhere = opened.capture("And the weather?", "It rains.", session="chat")
    for dry_run in (True, False):
        report = opened.erase(Project("harbour"), dry_run=dry_run)
        (stays,) = report.remaining
        assert (stays.type, stays.excerpt, report.remaining_total) == ("SessionOpened", "chat", 1)
        assert "other projects" in stays.why and f"`erase {stays.position}`" in stays.why
    assert names(opened) == {"chat"} and opened.interactions.get(elsewhere.id).response == "It rains."
    assert opened.erase(Event(stays.position)).state == "completed" and names(opened) == set()


# --- who says the same -----------------------------------------------------------------------------------------------


def test_what_still_says_the_same_is_listed_with_the_words_around_it(opened: Ledger) -> None:
    fact = opened.remember(FACT, kind="fact")
    note = opened.remember(f"Call her before noon on weekdays, since {FACT} Ring twice.", kind="fact")
    other = opened.bind(user="jonas").remember(FACT)
    for dry_run in (True, False):
        report = opened.erase(fact.id, quotes="keep", dry_run=dry_run)
        kept, anothers = report.remaining
        assert (kept.position, kept.subject, kept.type) == (note.position, note.id, "MemoryCaptured")
        assert (kept.excerpt, kept.why) == (f"…efore noon on weekdays, since [[{FACT}]] Ring twice.", "it was kept")
        assert (anothers.position, anothers.why) == (other.position, "it is another user's")
        assert (anothers.subject, anothers.excerpt) == (None, None), "another user's texts are not shown"
        assert report.remaining_total == 2
    assert report.hits > 0
    assert opened.erasures.list()[0].remaining == (), "nobody knows any more what to look for"


def test_what_nobody_has_decided_about_is_in_the_lists_and_not_among_what_stays(opened: Ledger) -> None:
    fact = opened.remember(FACT, kind="fact")
    opened.remember(f"Note: {FACT}")
    report = opened.erase(fact.id, dry_run=True)
    assert [each.excerpt for each in report.quotes] == [f"Note: [[{FACT}]]"] and report.remaining == ()


def test_a_text_that_lies_apart_from_its_event_is_listed_as_that_event(opened: Ledger) -> None:
    fact = opened.remember(FACT, kind="fact")
    turn = opened.capture("Where?", "It is a long story. " * 10_000 + FACT)
    report = opened.erase(fact.id, quotes="keep", derived="keep", sources="keep")
    assert [(each.type, each.subject) for each in report.remaining] == [("InteractionCaptured", turn.id)]
    assert (report.remaining[0].excerpt or "").endswith(f"[[{FACT}]]")


def test_of_many_that_stay_the_first_are_listed_and_all_are_counted(opened: Ledger) -> None:
    fact = opened.remember(FACT, kind="fact")
    with opened.batch():
        for number in range(25):
            opened.remember(f"{FACT} Note {number}.")
    for dry_run in (True, False):
        report = opened.erase(fact.id, quotes="keep", dry_run=dry_run)
        assert (len(report.remaining), report.remaining_total) == (20, 25)


# --- what becomes black, and who did it ------------------------------------------------------------------------------


def test_a_dry_run_marks_the_characters_that_would_become_black(opened: Ledger) -> None:
    fact = opened.remember("Jonas shares a flat with Ruth Meier, and a car with Ruth.", kind="fact")
    spans = [("data.content", 25, 35), ("data.content", 52, 56)]
    for dry_run in (True, False):
        (erased,) = opened.erase(Event(fact.position, spans=spans), dry_run=dry_run, quotes="keep").erased
        assert erased.spans == tuple(spans)
        shown = "Jonas shares a flat with [[Ruth Meier]], and a car with [[Ruth]]."
        assert erased.excerpt == (shown if dry_run else None)


def test_a_dry_run_shows_the_first_words_of_each_text(opened: Ledger) -> None:
    turn = opened.capture("Where does Ruth live?", "In Berlin. " * 40)
    (erased,) = opened.erase(turn.id, dry_run=True).erased
    assert erased.excerpt == "Where does Ruth live? | " + ("In Berlin. " * 40)[:80] + "…"


def test_the_length_of_a_row_is_not_taken_for_the_blank_between_two_sentences(opened: Ledger) -> None:
    opened.remember("Carlos reviews dentist rust.")  # 32 bytes with its header: SQLite writes a blank before it
    kept = opened.remember("Ada does not need the budget of the river!")
    turn = opened.capture("Which?", f"Yes: {kept.content} Ruth reviews the harbour of the old town.", reinforce=False)
    report = opened.erase(turn.id, derived="keep", sources="keep", quotes="keep")
    assert (report.state, report.why) == ("completed", "")


def test_an_erasure_by_nobody_is_warned_of(opened: Ledger) -> None:
    fact = opened.remember(FACT, kind="fact")
    nobody = opened.bind(actor="")
    assert opened.erase(fact.id, dry_run=True).warnings == ()
    for dry_run in (True, False):
        (warning,) = nobody.erase(fact.id, dry_run=dry_run).warnings
        assert "actor=" in warning


# --- people, and why somebody did something --------------------------------------------------------------------------


def test_with_a_user_goes_that_the_user_made_the_ledger(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "memory.db", user="ruth", actor="ruth") as ledger:
        ledger.remember("The kettle is blue.")
        report = ledger.erase(EVERYTHING)
        assert (report.state, report.remaining) == ("completed", ())
        assert not any("ruth" in state for state in states(ledger))
        assert ledger.proof.verify().ok


@pytest.mark.parametrize("actor", ["Bob", "Ruth Meier of Hafen 3"])
def test_who_made_the_ledger_and_who_erased_are_named_under_what_stays(tmp_path: Path, actor: str) -> None:
    with Ledger.open(tmp_path / "memory.db", user="u-17", actor=actor) as ledger:
        ledger.remember("The kettle is blue.")
        (before,) = ledger.erase(EVERYTHING, dry_run=True).remaining
        report = ledger.erase(EVERYTHING)
        made, erased = report.remaining
        assert before == made and (made.position, made.type, made.excerpt) == (1, "LedgerCreated", actor)
        assert (erased.position, erased.type, erased.excerpt) == (report.position, "ContentErased", actor)
        assert "who made" in made.why and "who erased" in erased.why and report.remaining_total == 2
        naming = [number for number, state in enumerate(states(ledger), 1) if actor in state]
        assert naming == [made.position, erased.position]


@pytest.mark.parametrize("choice", ["erase", "cut"])
def test_why_a_candidate_was_rejected_goes_when_its_words_are_erased_as_a_quote(opened: Ledger, choice: str) -> None:
    turn = opened.capture("Where does Ruth live?", FACT, reinforce=False)
    candidate = opened.propose(FACT)
    opened.reject(candidate.id, reason="she moved to Bremen in spring")
    other = opened.propose("Tea is served at four.")
    opened.reject(other.id, reason="nobody drinks tea")
    opened.erase(turn.id, quotes=choice)
    held = "".join(states(opened))
    assert "nobody drinks tea" in held and "Bremen" not in held


def test_phrases_go_wherever_the_event_says_them_and_only_there(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "memory.db") as opened:
        fact = opened.remember("Ruth Meier wrote: ruth meier and Ruth Meiers.", tags=["Ruth Meier", "letters"])
        opened.erase(Event(fact.position, phrases=["Ruth Meier", "Meiers"]), quotes="keep")
        (left,) = opened.memories.list()
        assert left.content == "██████████ wrote: ██████████ and ███████████."
        assert left.tags == ()  # a list goes as a whole
        with pytest.raises(RejectedError, match="does not say"):
            opened.erase(Event(fact.position, phrases=["Jonas"]))
        with pytest.raises(RejectedError, match="several"):
            opened.erase(Event(fact.position, phrases="wrote"))
        assert opened.proof.verify().ok
