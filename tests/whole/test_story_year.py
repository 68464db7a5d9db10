"""One ledger through a year: what a person would expect of it, month by month, in the library and by the command line.

Ana works with an agent. A crawler reads pages for her, and turns out to make things up; Rosa, her neighbour, asks to be
forgotten; in December the disk is lost, and the ledger comes back from a backup of the summer.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import probe
import pytest
from absence import absent
from command_line import run
from conftest import Clock, folded_from_zero
from full import full
from soundness import assert_sound

from ledger import ConflictError, Ledger, RejectedError
from ledger.types import EVERYTHING, SessionName

ANA, CRAWLER = {"actor": "ana"}, {"actor": "crawler", "client": "pages"}
NOTES = "# Office\n\nThe office is in Porto, near the river.\n\n# Hours\n\nIt opens at nine.\n"
LATER_NOTES = NOTES.replace("nine", "eight")
ROSA = "Rosa"  # she is in no file at the end


@dataclass
class Year:
    """What the story keeps from one month for another."""

    path: Path
    clock: Clock
    ids: dict[str, str] = field(default_factory=dict)
    moments: dict[str, int] = field(default_factory=dict)
    certificates: list[str] = field(default_factory=list)
    checkpoint: str = ""

    def month(self, number: int) -> None:
        self.clock.time = datetime(2020, number, 1, 9, tzinfo=UTC)  # the command line has the time of the day

    def open(self) -> Ledger:
        return Ledger.open(self.path, clock=self.clock)

    def call(self, *words: str, code: int = 0) -> str:
        done = run(*words, db=self.path)
        assert done.exit_code == code, (words, done.output)
        return done.stdout


def believed(ledger: Ledger, **filters: str) -> set[str | None]:
    return {memory.content for memory in ledger.memories.list(**filters)}


def recalled(ledger: Ledger, question: str) -> list[str | None]:
    return [item.memory.content for item in ledger.recall(question).items if item.memory is not None]


def january_she_tells_what_she_likes(year: Year) -> None:
    with year.open() as ledger:
        coffee = ledger.bind(**ANA).remember("The user prefers dark roast coffee.", kind="preference")
        again = ledger.bind(actor="phone").remember("the user  prefers DARK roast coffee.", kind="preference")
        assert (again.id, again.absorbed) == (coffee.id, True)
        sure = ledger.bind(**ANA).memories.set_confidence(coffee.id, 0.5, reason="only mornings")
        ledger.bind(**ANA).capture("What coffee do I like?", "You prefer dark roast coffee.", project="Home")
        known = ledger.memories.get(coffee.id)
        assert known.confidence > sure.confidence and known.reference_count == 1
        assert recalled(ledger, "coffee") == ["The user prefers dark roast coffee."]
        year.ids["coffee"], year.moments["january"] = coffee.id, ledger.position
    assert json.loads(year.call("recall", "coffee", "--json"))["items"][0]["memory"]["id"] == year.ids["coffee"]


def february_candidates_wait_for_her_review(year: Year) -> None:
    with year.open() as ledger:
        answer = "Decision: The office moves to Porto.\n\nConstraint: invoices are paid within ten days."
        turn = ledger.bind(**ANA).capture("What was decided?", answer, project="Work")
        ledger.bind(**ANA).extract(turn.id)
        waiting = {item.memory.content: item.memory.id for item in ledger.review()}
        assert set(waiting) == {"The office moves to Porto", "invoices are paid within ten days"}
        assert recalled(ledger, "invoices") == []
        year.ids["office"] = waiting["The office moves to Porto"]
        year.ids["invoices"] = waiting["invoices are paid within ten days"]
    year.call("promote", year.ids["office"], "--actor", "ana")
    year.call("reject", year.ids["invoices"], "--reason", "never said so")
    with year.open() as ledger:
        assert ledger.review() == []
        assert recalled(ledger, "office Porto") == ["The office moves to Porto"]
        why = ledger.why(year.ids["office"])
        assert [step.type for step in why.steps] == ["MemoryCaptured", "MemoryPromoted"]
        assert [source.id for source in why.sources] == [turn.id]


def march_a_long_conversation_is_summed_up(year: Year) -> None:
    with year.open() as ledger:
        session = ledger.session("trip", project="Travel")
        for number in range(60):
            session.append(("user", "assistant")[number % 2], f"Day {number}: we walk along the coast. " + "word " * 40)
        report = session.compact(3_000, summarizer=lambda asked: "They walk along the coast for weeks.")
        assert report.created and report.tokens_after < report.tokens_before
        window = session.window(3_000)
        assert any("They walk along the coast for weeks." in entry.content for entry in window.entries)
        assert len(session.messages(limit=1_000)) == 60, "nothing that was said is lost"
        gone = session.truncate(10)
        assert len(session.messages()) == 10
        ledger.bind(**ANA).undo(gone.position, reason="too early")
        assert len(session.messages(limit=1_000)) == 60
        year.moments["march"] = ledger.position


def april_she_reads_documents(year: Year) -> None:
    with year.open() as ledger:
        notes = ledger.bind(**ANA).documents.add(NOTES, path="office.md", project="Work")
        hours = ledger.bind(**ANA).remember("The office opens at nine.", sources=(notes.chunks[1].id,), project="Work")
        newer = ledger.bind(**ANA).documents.add(LATER_NOTES, path="office.md")
        assert (newer.id, newer.added, newer.dropped) == (notes.id, 1, 1)
        assert newer.chunks[0].id == notes.chunks[0].id, "what stays the same keeps its id"
        later = ledger.bind(**ANA).supersede(hours.id, "The office opens at eight.", reason="the new notes")
        assert recalled(ledger, "when does the office open")[0] == "The office opens at eight."
        year.ids |= {"hours": hours.id, "later": later.id, "notes": notes.id}
        year.moments["april"] = ledger.position


def may_what_is_alike_is_one(year: Year) -> None:
    with year.open() as ledger:
        texts = ("The user enjoys hiking in the Alps.", "The user really enjoys hiking in the Alps.")
        hikes = [ledger.bind(**ANA).remember(text, kind="preference") for text in texts]
        assert ledger.consolidate().formed >= 1
        (seen,) = [each for each in ledger.observations.list() if "Alps" in (each.content or "")]
        assert (seen.proof_count, {source.id for source in seen.sources}) == (2, {each.id for each in hikes})
        one = ledger.bind(**ANA).merges.combine([each.id for each in hikes])
        assert {each.status for id in hikes if (each := ledger.memories.get(id.id)) and id.id != one.id} == {
            "superseded"
        }
        assert len(recalled(ledger, "hiking Alps")) == 1
        year.ids |= {"hikes": one.id, "seen": seen.id}


def june_a_mistake_is_taken_back(year: Year) -> None:
    with year.open() as ledger:
        before = ledger.proof.digest(beliefs=True)
        wrong = ledger.bind(**ANA).remember("Ana lives in Oslo.", idempotency_key="import 7")
        ledger.bind(**ANA).revise(wrong.id, "Ana lives in Oslo, Norway.")
        with pytest.raises(ConflictError):
            ledger.undo(wrong.position)
        undone = ledger.bind(**ANA).undo(wrong.position, reason="somebody else's file", cascade=True)
        assert len(undone.commands) == 2 and ledger.proof.digest(beliefs=True) == before
        right = ledger.bind(**ANA).remember("Ana lives in Porto.", idempotency_key="import 7")
        assert not right.replayed and absent(ledger.memories.get, wrong.id)
        assert ledger.at(wrong.position).memories.get(wrong.id), "the past stays as it was"
        year.ids["home"] = right.id


def july_a_backup_is_kept_elsewhere(year: Year) -> None:
    with year.open() as ledger:
        rosa = ledger.bind(**ANA).remember(f"{ROSA} lives next door.", entities=[ROSA], tags=["neighbour"])
        ledger.bind(**ANA).capture(f"Who is {ROSA}?", f"{ROSA} lives next door.", session="doorstep")
        ledger.bind(user=ROSA, actor=ROSA).remember(f"{ROSA} has a key.")
        year.ids["rosa"] = rosa.id
        year.checkpoint = ledger.proof.checkpoint().text
    year.call("backup", str(year.path.parent / "summer" / "july.db"))
    assert year.call("verify").strip()


def august_the_crawler_makes_things_up(year: Year) -> None:
    with year.open() as ledger:
        page = ledger.bind(**CRAWLER).capture("Read the page.", "The office is closed for ever.", project="Work")
        closed = ledger.bind(**CRAWLER).supersede(year.ids["later"], "The office is closed for ever.")
        rumour = ledger.bind(**ANA).remember("The user should move.", sources=(page.id,))
        ledger.bind(**CRAWLER).retract(year.ids["home"], reason="she moved, it says")
        assert "The office opens at eight." not in believed(ledger)
        year.ids |= {"closed": closed.id, "rumour": rumour.id, "page": page.id}
        year.moments["august"] = ledger.position


def september_the_crawler_is_distrusted(year: Year) -> None:
    with year.open() as ledger:
        supposed = ledger.history.what_if(without={"actor": "crawler"})
        lost, gained = {each.id for each in supposed.lost}, {each.id for each in supposed.gained}
        assert lost == {year.ids["closed"], year.ids["rumour"]}
        assert gained == {year.ids["later"], year.ids["home"]}
        report = ledger.bind(**ANA).history.distrust("crawler", kind="actor", reason="makes things up")
        assert {year.ids["closed"], year.ids["rumour"], year.ids["page"]} <= set(report.gone)
        assert {"The office opens at eight.", "Ana lives in Porto."} <= believed(ledger)
        assert recalled(ledger, "is the office closed for ever")[0] != "The office is closed for ever."
        with pytest.raises(RejectedError):
            ledger.bind(**CRAWLER).remember("The office is closed.")
        assert "The office is closed for ever." in believed(ledger.at(year.moments["august"]))  # type: ignore[arg-type]
    assert "crawler" in year.call("history", "distrusted")


def october_rosa_asks_to_be_forgotten(year: Year) -> None:
    with year.open() as ledger:
        listed = ledger.erase(year.ids["rosa"], dry_run=True)
        assert listed.quotes, "she is in a conversation too"
        with pytest.raises(RejectedError):
            ledger.erase(year.ids["rosa"], reason="she asked")
        done = ledger.bind(**ANA).erase(
            year.ids["rosa"], reason="she asked", derived="erase", sources="erase", quotes="erase"
        )
        rest = [ledger.bind(**ANA).erase(SessionName("doorstep"), derived="erase", sources="erase", quotes="erase")]
        rest.append(ledger.bind(user=ROSA, **ANA).erase(EVERYTHING))
        assert {report.state for report in (done, *rest)} == {"completed"}
        year.certificates = ledger.erasures.certificates()
        forgotten = ledger.memories.get(year.ids["rosa"])
        assert (forgotten.status, forgotten.content) == ("erased", None)
        assert ledger.proof.verify(full=True, against=year.checkpoint).ok, "the chain of July still holds"
    assert files_with(year.path.parent, ROSA) == []


def november_everything_is_computed_again(year: Year) -> None:
    with year.open() as ledger:
        before = ledger.proof.digest()
        assert probe.rebuild(ledger).digest == before == folded_from_zero(ledger)
        then, now = ledger.at(year.moments["april"]), ledger
        assert "The office opens at eight." in believed(then)  # type: ignore[arg-type]
        assert "Ana lives in Porto." in believed(now) and "Ana lives in Porto." not in believed(then)  # type: ignore[arg-type]
        hours = ledger.at(year.moments["april"]).memories.get(year.ids["hours"])
        assert (hours.status, hours.superseded_by) == ("superseded", year.ids["later"])
        assert len(ledger.at(year.moments["march"]).session("trip").messages(limit=1_000)) == 60
        assert {each.content for each in ledger.at("2020-01-20T00:00:00Z").memories.list()} == {
            "The user prefers dark roast coffee."
        }
        moved = ledger.history.diff(year.moments["april"], ledger.position)
        assert year.ids["home"] in {each.id for each in moved.added}
    told = json.loads(year.call("verify", "--json"))
    assert told["ok"] and told["problems"] == []


def december_the_disk_is_lost(year: Year) -> None:
    """The backup of July knows Rosa; what comes back does not."""
    again = year.path.parent / "again" / "memory.db"
    again.parent.mkdir(mode=0o700)
    july = year.path.parent / "summer" / "july.db"
    certificate = year.path.parent / "certificates.jsonl"
    certificate.write_text("".join(f"{each}\n" for each in year.certificates), encoding="utf-8")
    done = run("recover", str(july), "--certificates", str(certificate), db=again)
    assert done.exit_code == 0, done.output
    with Ledger.open(again, clock=year.clock) as ledger:
        assert {"The office opens at eight.", "Ana lives in Porto."} <= believed(ledger)
        assert ledger.memories.get(year.ids["rosa"]) and ROSA not in full(ledger.memories.list(statuses=()))
        assert_sound(ledger)
        assert ledger.proof.verify(full=True).ok
    assert files_with(again.parent, ROSA) == []
    july.unlink()


def files_with(folder: Path, word: str) -> list[str]:
    files = (each for each in folder.iterdir() if each.is_file())
    return [each.name for each in files if word.encode() in each.read_bytes()]


@pytest.mark.slow
def test_a_year_with_one_ledger(tmp_path: Path, clock: Clock) -> None:
    year = Year(tmp_path / "memory.db", clock)
    (tmp_path / "summer").mkdir(mode=0o700)
    months = (
        january_she_tells_what_she_likes,
        february_candidates_wait_for_her_review,
        march_a_long_conversation_is_summed_up,
        april_she_reads_documents,
        may_what_is_alike_is_one,
        june_a_mistake_is_taken_back,
        july_a_backup_is_kept_elsewhere,
        august_the_crawler_makes_things_up,
        september_the_crawler_is_distrusted,
        october_rosa_asks_to_be_forgotten,
        november_everything_is_computed_again,
        december_the_disk_is_lost,
    )
    for number, live in enumerate(months, 1):
        year.month(number)
        live(year)
    with year.open() as ledger:
        assert_sound(ledger)
        assert ledger.proof.verify(full=True).ok
        for memory in ledger.memories.list(statuses=()):
            why = ledger.why(memory.id)
            assert why.memory.status == memory.status
            assert sum(step.delta for step in why.steps) == pytest.approx(memory.confidence)
    assert files_with(tmp_path, ROSA) == []
