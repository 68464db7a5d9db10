"""Erasure: what goes, what stays, what is asked first, and that nothing is left in the files."""

from __future__ import annotations

import base64
import json
import os
import random
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import probe
import pytest
from absence import absent
from conftest import folded_from_zero
from leftovers import RARE, remains, states
from soundness import agrees

from ledger import ConflictError, Ledger, LedgerError, NotFoundError, RejectedError
from ledger.erasure import erasing, purging
from ledger.erasure.asked import ErasureRequest
from ledger.erasure.plan import ErasurePlan
from ledger.erasure.planning import ErasurePlanner
from ledger.erasure.scanning import CHUNK_BYTES, Scan
from ledger.types import EVERYTHING, DocumentPath, Event, Project, SessionName, Subject

# --- one memory ------------------------------------------------------------------------------------------------------


def test_an_erased_memory_says_nothing_any_more(ledger: Ledger) -> None:
    fact = ledger.remember(RARE, entities=["Zanzibarquux"], tags=["address"])
    ledger.revise(fact.id, RARE + " Now.", reason="he moved")
    ledger.reinforce(fact.id)
    report = ledger.erase(fact.id, reason="he asked for it")
    assert (report.state, report.why, report.kind, report.subject) == ("completed", "", "memory", fact.id)
    assert [(each.position, each.fields) for each in report.erased] == [
        (fact.position, ("data.content", "data.entities", "data.tags")),
        (fact.position + 1, ("data.content", "data.reason")),
    ]
    now = ledger.memories.get(fact.id)
    assert (now.status, now.content, now.entities, now.tags, now.reference_count) == ("erased", None, (), (), 1)
    assert ledger.memories.list() == [] and ledger.recall("zanzibarquux harbour").items == ()
    assert [each.id for each in ledger.memories.list(statuses=("erased",))] == [fact.id]
    assert [each.id for each in ledger.memories.list(statuses=())] == [fact.id]
    assert not any("Harbour" in state for state in states(ledger))
    assert [entry.type for entry in ledger.history.audit(limit=2)] == ["ErasureCompleted", "ContentErased"]
    agrees(ledger)


def test_a_user_who_goes_on_writing_is_erased(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger.remember(RARE)
    plan = ErasurePlanner.plan

    def plan_while_others_write(planner: ErasurePlanner, request: ErasureRequest) -> ErasurePlan:
        made = plan(planner, request)
        if len(plans) < 4:  # the next plan is made under the lock
            ledger.remember(f"The jar {len(plans)} stands beside the tin.")
        plans.append(made)
        return made

    plans: list[ErasurePlan] = []
    monkeypatch.setattr(ErasurePlanner, "plan", plan_while_others_write)
    report = ledger.erase(EVERYTHING, reason="he left")
    assert (report.state, len(report.erased), len(plans)) == ("completed", 5, 5)
    assert ledger.memories.list() == []
    agrees(ledger)


@pytest.mark.slow
def test_nothing_of_it_is_left_in_the_files(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "memory.db") as ledger:
        for number in range(200):  # so that its words lie in the text index, and pages were divided
            ledger.remember(f"The jar {number} stands beside the tin {number * 7}.")
        fact = ledger.remember(RARE, sources=(ledger.capture("Where?", "It is " + RARE).id,))
        ledger.recall("harbour")
        for number in range(200):
            ledger.remember(f"The cup {number} stands beside the pot {number * 7}.")
        assert remains(tmp_path)
        report = ledger.erase(fact.id, sources="cut")
        assert (report.state, report.hits) == ("completed", 0)
        assert set(report.files) >= {"memory.db"} and report.bytes_searched > 100_000
        assert report.searched == ("utf-8", "json", "utf-16le", "utf-16be", "hex", "base64")
        assert ledger.interactions.list()[0].response == "It is " + "█" * len(RARE)
        agrees(ledger)
    assert remains(tmp_path) == []


def test_erased_is_terminal(ledger: Ledger) -> None:
    fact = ledger.remember(RARE)
    undone = ledger.undo(fact.position)
    ledger.redo(undone.command_id or "")
    retracted = ledger.retract(fact.id)
    erased = ledger.erase(fact.id)
    for command in (
        lambda: ledger.restore(fact.id),
        lambda: ledger.revise(fact.id, "Anything."),
        lambda: ledger.reinforce(fact.id),
        lambda: ledger.supersede(fact.id, "Anything."),
        lambda: ledger.retract(fact.id),
        lambda: ledger.memories.tag(fact.id, add=["new"]),
        lambda: ledger.undo(erased.position),
        lambda: ledger.undo(erased.command_id or ""),
    ):
        with pytest.raises(RejectedError):
            command()
    ledger.undo(retracted.position)
    ledger.redo(retracted.position)
    ledger.undo(fact.position, cascade=True)
    assert absent(ledger.memories.get, fact.id)
    ledger.redo(fact.position)
    back = ledger.memories.get(fact.id)
    assert (back.status, back.content) == ("erased", None)
    agrees(ledger)


def test_erasing_twice_is_refused_and_writes_nothing(ledger: Ledger) -> None:
    fact = ledger.remember(RARE)
    ledger.erase(fact.id)
    position = ledger.position
    with pytest.raises(RejectedError, match="erased already"):
        ledger.erase(fact.id)
    with pytest.raises(RejectedError, match="erased already"):
        ledger.erase(Event(fact.position))
    assert ledger.position == position


@pytest.mark.slow
def test_a_span_first_and_then_the_rest(ledger: Ledger) -> None:
    fact = ledger.remember(RARE)
    ledger.erase(Event(fact.position, spans=[("data.content", 0, 12)]))
    now = ledger.memories.get(fact.id)
    assert (now.content, now.status) == ("█" * 12 + RARE[12:], "active")
    agrees(ledger)
    ledger.erase(fact.id)
    first, second = (json.loads(s)["data"]["targets"][0] for s in states(ledger) if '"targets"' in s)
    assert first["after"] == second["before"]
    row = probe.store(ledger).row(fact.position)
    assert row is not None and row.erased_by is not None and '"content":null' in row.state
    agrees(ledger)


def test_a_forged_erasure_is_found(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    with Ledger.open(path) as ledger:
        fact, other = ledger.remember(RARE), ledger.remember("The kettle is blue.")
        at = ledger.erase(fact.id).position
    with closing(sqlite3.connect(path)) as db:
        (state,) = db.execute("SELECT state FROM events WHERE position = ?", (other.position,)).fetchone()
        forged = state.replace("blue", "red")
        db.execute("UPDATE events SET state = ?, erased_by = ? WHERE position = ?", (forged, at, other.position))
        db.commit()
    with Ledger.open(path) as ledger:
        report = ledger.proof.verify()
        assert not report.ok and f"position {other.position}" in " ".join(report.problems)


def test_a_later_wording_that_was_kept_is_believed(ledger: Ledger) -> None:
    fact = ledger.propose("Zanzibarquux drinks tea.")
    ledger.promote(fact.id)
    ledger.revise(fact.id, "He drinks tea.")
    ledger.erase(Event(fact.position, fields=["data.content"]))
    now = ledger.memories.get(fact.id)
    assert (now.status, now.content) == ("active", "He drinks tea.")
    assert [item.id for item in ledger.recall("tea").items] == [fact.id]
    agrees(ledger)


# --- what is asked first ---------------------------------------------------------------------------------------------


def test_a_dry_run_lists_and_writes_nothing(ledger: Ledger) -> None:
    turn = ledger.capture("Where is it?", "Decision: the spare key hangs behind the clock.", reinforce=False)
    (idea,) = ledger.extract(turn.id).kept
    ledger.remember(f"Note: {idea.content}!")
    ledger.reject(idea.id, reason=f"no: {str(idea.content).upper()}")
    position, digest = ledger.position, ledger.proof.digest()
    dry = ledger.erase(turn.id, dry_run=True)
    assert (dry.state, dry.certificate, ledger.position, ledger.proof.digest()) == ("dry run", None, position, digest)
    assert [each.fields for each in dry.erased] == [("data.prompt", "data.response")]
    assert [each.subject for each in dry.derived] == [idea.id, idea.id]
    assert [(each.type, each.excerpt) for each in dry.quotes] == [("MemoryCaptured", f"Note: [[{idea.content}]]!")]
    of_memory = ledger.erase(idea.id, dry_run=True)
    assert [each.subject for each in of_memory.sources] == [turn.id]
    assert len(of_memory.quotes) == 1 and not of_memory.derived


def test_every_list_that_is_not_empty_needs_a_choice(ledger: Ledger) -> None:
    turn = ledger.capture("Where is it?", "Decision: the spare key hangs behind the clock.", reinforce=False)
    (idea,) = ledger.extract(turn.id).kept
    ledger.remember(f"Note: {idea.content}!")
    position = ledger.position
    with pytest.raises(RejectedError, match=r"derived \(1 event\), quotes \(1 event\)"):
        ledger.erase(turn.id)
    with pytest.raises(RejectedError, match=r"quotes \(1 event\)"):
        ledger.erase(turn.id, derived="erase")
    with pytest.raises(RejectedError, match="erase, cut, keep"):
        ledger.erase(turn.id, derived="burn")
    assert ledger.position == position
    assert ledger.erase(turn.id, derived="erase", quotes="keep").state == "completed"
    agrees(ledger)


def test_what_is_kept_may_be_found_and_is_counted(ledger: Ledger) -> None:
    fact = ledger.remember(RARE)
    copy = ledger.remember("He says: " + RARE)
    report = ledger.erase(fact.id, quotes="keep")
    assert report.state == "completed" and report.hits > 0
    assert json.loads(json.loads(report.certificate or "")["events"][0]["state"])["data"]["kept"] == [copy.position]
    kept = ledger.memories.get(copy.id)
    assert RARE in (kept.content or "")


@pytest.mark.parametrize("choice", ["erase", "cut", "keep"])
def test_quotes_are_found_in_every_type_of_event(ledger: Ledger, choice: str) -> None:
    fact = ledger.remember(RARE, project="row", session="s1")
    old = ledger.remember("At first: " + RARE.lower())
    ledger.revise(old.id, "Something else.", reason=f"because {RARE}")
    ledger.propose(RARE.upper())
    ledger.remember(RARE, project="row", session="s2")  # absorbed
    ledger.capture(f"Is it so that {RARE}", "Yes.", context={"shown": [f"- {RARE}"]}, reinforce=False)
    ledger.capture("And?", f"I say: {RARE}", summary=RARE, reinforce=False)
    ledger.projects.set_state("row", "fact", "who", RARE, source=RARE)
    ledger.undo(ledger.remember("A slip.").position, reason=f"not {RARE}")
    dry = ledger.erase(fact.id, dry_run=True)
    assert sorted(each.type for each in dry.quotes) == sorted(
        [
            *("MemoryCaptured", "MemoryRevised", "MemoryCaptured", "InteractionCaptured", "InteractionCaptured"),
            *("ProjectStateSet", "CommandUndone"),
        ]
    )
    assert [each.type for each in dry.erased] == ["MemoryCaptured", "DuplicateAbsorbed"]
    report = ledger.erase(fact.id, quotes=choice)
    assert report.state == "completed"
    left = sum(RARE.lower() in state.lower() for state in states(ledger))
    assert left == (7 if choice == "keep" else 0)
    now = ledger.memories.get(old.id)
    assert (now.content, now.status) == ("Something else.", "active")
    agrees(ledger)


def test_exceptions_are_named_by_id_or_position(ledger: Ledger) -> None:
    fact = ledger.remember(RARE)
    one, two = ledger.remember("One: " + RARE), ledger.remember("Two: " + RARE)
    report = ledger.erase(fact.id, quotes="erase", keep=[one.id])
    assert {each.position: each.choice for each in report.quotes} == {one.position: "keep", two.position: "erase"}
    kept, gone = ledger.memories.get(one.id), ledger.memories.get(two.id)
    assert kept is not None and gone is not None and (kept.status, gone.status) == ("active", "erased")


def test_another_users_words_are_neither_listed_nor_touched(ledger: Ledger) -> None:
    fact, theirs = ledger.remember(RARE), ledger.bind(user="bob").remember(RARE)
    assert ledger.erase(fact.id, dry_run=True).quotes == ()
    report = ledger.erase(fact.id)
    assert (report.state, report.quotes) == ("completed", ())
    kept = ledger.bind(user="bob").memories.get(theirs.id)
    assert kept.content == RARE
    with pytest.raises(NotFoundError):
        ledger.erase(theirs.id)
    with pytest.raises(NotFoundError):
        ledger.erase(Event(theirs.position))


def test_the_reason_must_not_repeat_the_text(ledger: Ledger) -> None:
    fact = ledger.remember(RARE)
    with pytest.raises(RejectedError, match="reason"):
        ledger.erase(fact.id, reason=f"since {RARE.upper()}")


@pytest.mark.parametrize(
    ("subject", "error"),
    [
        (None, RejectedError),
        ("", NotFoundError),
        ("m_0000000000000000", NotFoundError),
        ("d_0000000000000000", NotFoundError),
        ("nonsense", NotFoundError),
        ("\0", NotFoundError),
        (Event(0), NotFoundError),
        (Event(-1), NotFoundError),
        (Event(1), NotFoundError),
        (Event(2**70), NotFoundError),
        (True, RejectedError),
        (2.5, RejectedError),
        (SessionName("none"), NotFoundError),
        (Project(""), NotFoundError),
        (Event(2, fields=["data.nothing"]), RejectedError),
        (Event(2, spans=[("data.content", 3, 2)]), RejectedError),
        (Event(2, spans=[("data.content", 0, 10_000)]), RejectedError),
        (Event(2, spans=[("data.tags", 0, 1)]), RejectedError),
        (Event(2, spans=["data.content"]), RejectedError),  # type: ignore[list-item]
        (Event("m_0000000000000000", fields=["data.content"]), RejectedError),  # type: ignore[arg-type]
        (EVERYTHING, RejectedError),
    ],
)
def test_wrong_calls_are_refused_with_nothing_written(ledger: Ledger, subject: Any, error: type[Exception]) -> None:
    ledger.remember(RARE, tags=["address"])
    position, asked = ledger.position, ledger.bind(user="nobody") if subject == EVERYTHING else ledger
    with pytest.raises(error):
        asked.erase(subject)
    assert ledger.position == position


@pytest.mark.parametrize("nothing", [Project(None), SessionName(None), DocumentPath(None)])  # type: ignore[arg-type]
def test_a_subject_without_its_name_is_not_the_whole_user(tmp_path: Path, nothing: Subject) -> None:
    with Ledger.open(tmp_path / "memory.db") as ledger:
        ledger.remember(RARE)
        with pytest.raises(LedgerError):
            ledger.erase(nothing)
        with pytest.raises(LedgerError):
            ledger.holds.add(nothing)
        assert [each.content for each in ledger.memories.list()] == [RARE]


def test_no_erasure_inside_a_batch(ledger: Ledger) -> None:
    fact = ledger.remember(RARE)
    with ledger.batch(), pytest.raises(ConflictError):
        ledger.erase(fact.id)


# --- the other subjects ----------------------------------------------------------------------------------------------


def test_an_erased_turn_is_neither_matched_nor_extracted(ledger: Ledger) -> None:
    waiting = ledger.capture("Where does Zanzibarquux live?")
    turn = ledger.capture("Where is it?", "Decision: " + RARE, reinforce=False)
    for each in (waiting, turn):
        assert ledger.erase(each.id, quotes="erase").state == "completed"
    for each in (waiting, turn):
        now = ledger.interactions.get(each.id)
        assert (now.prompt, now.response) == (None, None if each is turn else "")
        assert now.extraction == "erased"
        with pytest.raises(RejectedError):
            ledger.interactions.reinforce(each.id)
        with pytest.raises(RejectedError):
            ledger.extract(each.id)
        with pytest.raises(RejectedError):
            ledger.interactions.add_response(each.id, "It is here.")
    report = ledger.jobs.run()
    assert (report.reinforced_interactions, report.extracted_interactions, report.failures) == (0, 0, 0)
    agrees(ledger)


@pytest.mark.slow
def test_a_large_text_in_a_blob_goes_too(tmp_path: Path) -> None:
    text = " ".join(f"Zanzibarquux {number} in Harbour Row." for number in range(12_000))
    with Ledger.open(tmp_path / "memory.db") as ledger:
        turn = ledger.capture("Tell me all.", text, reinforce=False)
        report = ledger.erase(turn.id)
        assert (report.state, report.hits) == ("completed", 0)
        now = ledger.interactions.get(turn.id)
        assert now.response is None
        agrees(ledger)
        ledger.maintenance.export_log(tmp_path / "export.jsonl")
    assert remains(tmp_path) == []
    Ledger.import_log(tmp_path / "export.jsonl", tmp_path / "copy.db")
    with Ledger.open(tmp_path / "copy.db") as copy:
        agrees(copy)


def test_a_session_goes_with_all_that_began_in_it(ledger: Ledger) -> None:
    said = ledger.capture("Where?", RARE, session="monday", project="row", reinforce=False)
    fact = ledger.remember("The tin is red.", session="monday")
    other = ledger.remember("The jar is blue.", session="tuesday")
    ledger.remember("The jar is blue.", session="monday")  # absorbed into another session's
    report = ledger.erase(SessionName("monday"), quotes="keep")
    assert report.kind == "session" and {each.subject for each in report.erased} >= {said.id, fact.id, other.id}
    gone, kept = ledger.memories.get(fact.id), ledger.memories.get(other.id)
    assert gone is not None and kept is not None and (gone.status, kept.content) == ("erased", "The jar is blue.")
    assert [each.name for each in ledger.projects.list()] == ["row"]
    assert not any("monday" in state for state in states(ledger))
    with pytest.raises(NotFoundError):
        ledger.erase(SessionName("monday"))
    agrees(ledger)


def test_a_project_goes_with_its_names_and_state(ledger: Ledger) -> None:
    ledger.projects.add("Harbour", description="the harbour project")
    ledger.projects.add_alias("harbour", "quay")
    for key in ("phase", "lead"):
        ledger.projects.set_state("harbour", "status", key, "two")
        ledger.projects.set_state("harbour", "status", key, "three")
    fact = ledger.remember("The crane is yellow.", project="quay", session="monday")
    report = ledger.erase(Project("quay"))
    assert report.state == "completed"
    assert absent(ledger.projects.get, "harbour") and absent(ledger.projects.get, "quay")
    (left,) = ledger.projects.list()
    assert (left.name, left.description, set(left.aliases)) == (None, None, {None})
    assert ledger.projects.state(left.id, history=True) and not ledger.projects.state(left.id, name="phase")
    with pytest.raises(RejectedError):
        ledger.projects.add_alias(left.id, "new")
    now = ledger.memories.get(fact.id)
    assert now.status == "erased" and now.project == left.id
    again = ledger.remember("The crane is yellow.", project="quay")
    assert again.status == "active" and again.project == "quay"
    agrees(ledger)


def test_a_whole_user_becomes_nobody(ledger: Ledger) -> None:
    fact = ledger.bind(user="zanzibarquux", actor="zanzibarquux").remember(RARE, project="row", session="s1")
    ledger.bind(user="zanzibarquux").capture("Where?", RARE, agent="helper", client="phone")
    ledger.bind(user="zanzibarquux").policy.set(gain=0.05)
    ledger.bind(user="zanzibarquux").undo(ledger.bind(user="zanzibarquux").remember("A slip.").position, reason="gone")
    mine = ledger.remember("The kettle is blue.")
    report = ledger.bind(user="zanzibarquux", actor="zanzibarquux").erase(EVERYTHING)
    assert (report.state, report.kind, report.subject, report.hits) == ("completed", "user", None, 0)
    assert not any("zanzibarquux" in state.lower() or "phone" in state for state in states(ledger))
    assert ledger.bind(user="zanzibarquux").memories.list(statuses=()) == [] and absent(
        ledger.bind(user="zanzibarquux").memories.get, fact.id
    )
    assert (
        ledger.bind(user="zanzibarquux").interactions.list() == []
        and ledger.bind(user="zanzibarquux").history.audit() == []
    )
    assert [each.id for each in ledger.memories.list()] == [mine.id]
    assert ledger.bind(user="zanzibarquux").policy.get().gain == 0.02
    with pytest.raises(RejectedError):
        ledger.bind(user="zanzibarquux").erase(EVERYTHING)
    agrees(ledger)


def test_the_default_user_keeps_the_ledger_itself(ledger: Ledger) -> None:
    ledger.remember(RARE)
    assert ledger.bind(user="").erase(EVERYTHING).state == "completed"
    (left,) = ledger.memories.list(statuses=())
    assert left.status == "erased" and ledger.remember(RARE).status == "active"


def test_one_event_by_its_position(ledger: Ledger) -> None:
    fact = ledger.remember("The tin is red.")
    ledger.retract(fact.id, reason="for Zanzibarquux said so")
    at = ledger.position
    report = ledger.erase(Event(at, fields=["data.reason"]))
    assert (report.kind, report.subject, report.state) == ("event", fact.id, "completed")
    history = ledger.history.events(fact.id)
    assert (history[-1].data, history[-1].because) == ({"reason": None}, "")
    assert ledger.restore(fact.id).content == "The tin is red."
    agrees(ledger)


def test_a_secret_that_slipped_through_is_cut_everywhere(ledger: Ledger) -> None:
    turn = ledger.capture("We call kestrel-51Hq8Zz at home.", "I wrote kestrel-51Hq8Zz as you said.", reinforce=False)
    fact = ledger.remember("It began with KESTREL-51hq8zz today.", sources=(turn.id,))
    report = ledger.erase(Event(turn.position, spans=[("data.prompt", 8, 23)]), quotes="cut")
    assert report.state == "completed"
    assert not any("51hq8zz" in state.lower() and '"response"' not in state for state in states(ledger))
    now = ledger.memories.get(fact.id)
    assert now.content == "It began with " + "█" * 15 + " today."
    agrees(ledger)


# --- keys ------------------------------------------------------------------------------------------------------------


def test_the_key_of_what_was_erased_stays_taken(ledger: Ledger) -> None:
    fact = ledger.remember(RARE, idempotency_key="k1")
    ledger.erase(fact.id)
    again = ledger.remember(RARE, idempotency_key="k1")
    assert (again.id, again.replayed, again.content) == (fact.id, True, None)
    assert len(ledger.memories.list(statuses=())) == 1
    assert '"arguments":null' in states(ledger)[fact.position - 1]
    anew = ledger.remember(RARE)
    assert anew.id != fact.id and anew.status == "active"
    agrees(ledger)


def test_nothing_that_the_same_command_recorded_can_confirm_a_guess(ledger: Ledger) -> None:
    old = ledger.remember("Somewhere by the sea.", project="home", session="s", idempotency_key="k1")
    new = ledger.supersede(old.id, RARE, idempotency_key="k2")
    ledger.erase(new.id, sources="keep", derived="keep", quotes="keep")
    told = [(each.type, json.loads(state).get("arguments")) for each, state in
            zip(reversed(ledger.history.audit()), states(ledger), strict=True)]  # fmt: skip
    assert [type_ for type_, arguments in told if arguments is not None] == [
        "ProjectRegistered",
        "SessionOpened",
        "MemoryCaptured",
    ]
    assert ledger.supersede(old.id, RARE, idempotency_key="k2").replayed
    ledger.erase(old.id, sources="keep", derived="keep", quotes="keep")
    assert all(json.loads(state).get("arguments") is None for state in states(ledger))
    assert ledger.projects.get("home")
    agrees(ledger)


@pytest.mark.slow
def test_importing_the_same_file_again_brings_nothing_back(ledger: Ledger, tmp_path: Path) -> None:
    file = tmp_path / "turns.jsonl"
    file.write_text(
        "".join(json.dumps({"prompt": f"Turn {n}", "response": f"{RARE} {n}"}) + "\n" for n in range(3)),
        encoding="utf-8",
    )
    ledger.interactions.import_file(file)
    for turn in ledger.interactions.list():
        ledger.erase(turn.id, quotes="erase") if turn.prompt is not None else None
    report = ledger.interactions.import_file(file)
    assert (report.captured, report.known, report.errors) == (0, 3, ())
    assert not any("Harbour" in state for state in states(ledger))
    ledger.bind(user="zoe").interactions.import_file(file)
    ledger.bind(user="zoe").erase(EVERYTHING)
    again = ledger.bind(user="zoe").interactions.import_file(file)
    assert (again.captured, again.known, len(again.warnings)) == (0, 3, 3)


def test_an_erasure_with_a_key_happens_once(ledger: Ledger) -> None:
    fact = ledger.remember(RARE)
    first = ledger.erase(fact.id, idempotency_key="gdpr-1")
    position = ledger.position
    again = ledger.erase(fact.id, idempotency_key="gdpr-1")
    assert (again.replayed, again.command_id, again.certificate) == (True, first.command_id, first.certificate)
    assert ledger.position == position
    with pytest.raises(RejectedError, match="no idempotency_key"):
        ledger.bind(user="").erase(EVERYTHING, idempotency_key="x")


# --- completion ------------------------------------------------------------------------------------------------------


def test_an_open_reader_keeps_an_erasure_pending(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(purging, "PATIENCE_SECONDS", 0.05)
    fact = ledger.remember(RARE)
    with closing(sqlite3.connect(ledger.path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        assert reader.execute("SELECT count(*) FROM events WHERE state LIKE '%Harbour%'").fetchone() == (1,)
        report = ledger.erase(fact.id)
        assert report.state == "pending" and "-wal" in report.why
        assert ledger.memories.get(fact.id).content is None
        assert [each.state for each in ledger.erasures.finish()] == ["pending"]
        reader.execute("ROLLBACK")
    (done,) = ledger.erasures.finish()
    assert (done.state, done.hits) == ("completed", 0) and done.files
    assert ledger.erasures.finish() == () and [each.state for each in ledger.erasures.list()] == ["completed"]


def test_what_the_search_finds_is_written_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Ledger.open(tmp_path / "memory.db") as ledger:
        fact = ledger.remember(RARE)
        with probe.store(ledger).transact() as transaction:  # as if a copy had stayed in the free part of a page
            transaction.connection.execute("PRAGMA secure_delete = 0")
            transaction.connection.execute("CREATE TABLE aside (text)")
            transaction.connection.execute("INSERT INTO aside VALUES (?)", (RARE * 20,))
            transaction.connection.execute("DROP TABLE aside")
            transaction.connection.execute("PRAGMA secure_delete = 1")
        report = ledger.erase(fact.id)
        assert (report.state, report.hits) == ("completed", 0)
    assert remains(tmp_path) == []


def test_what_cannot_be_removed_stays_pending(ledger: Ledger) -> None:
    fact = ledger.remember(RARE)
    beside = Path(ledger.path + ".part")
    beside.write_bytes(base64.b64encode(b"x" + RARE.encode()))
    report = ledger.erase(fact.id)
    assert report.state == "pending" and "memory.db.part" in report.why
    beside.unlink()
    assert [each.state for each in ledger.erasures.finish()] == ["completed"]


def test_a_rebuild_under_way_ends_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from projections.core import rebuild

    monkeypatch.setattr(rebuild, "TAIL", 1)
    with Ledger.open(tmp_path / "memory.db") as ledger, Ledger.open(tmp_path / "memory.db") as other:
        fact = ledger.remember(RARE)
        for number in range(5):
            ledger.remember(f"The jar {number} is blue.")

        def erase(done: int, of: int) -> None:
            if fact.content is not None and not ledger.erasures.list():
                assert other.erase(fact.id).state == "completed"

        with pytest.raises(ConflictError, match="an erasure ended this rebuild"):
            probe.rebuild(ledger, progress=erase)
        agrees(ledger)
    assert remains(tmp_path) == []


def test_a_parked_projection_keeps_no_text(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    from projections.search.memory_hits import MemorySearchProjection

    ledger.remember("The kettle is blue.")
    with monkeypatch.context() as broken:
        broken.setattr(MemorySearchProjection, "fold", lambda *_: 1 / 0)
        fact = ledger.remember(RARE)
    assert ledger.erase(fact.id).state == "completed"
    with probe.store(ledger).snapshot() as connection:
        assert connection.execute("SELECT count(*) FROM search_waiting").fetchone() == (0,)
    probe.rebuild(ledger)
    assert [item.content for item in ledger.recall("kettle").items] == ["The kettle is blue."]


KILLED = """
import os, sys
from ledger import Ledger
from ledger.erasure import completing, purging
from projections.core import refolding
path, point, subject = sys.argv[1:]
ledger = Ledger.open(path)
if point == "in the transaction":
    refolding.replace = lambda *_: os._exit(9)
elif point == "before the purge":
    purging.Purging.run = lambda *_, **__: os._exit(9)
elif point == "before the -wal is emptied":
    purging.Purging._truncate = lambda *_: os._exit(9)
elif point == "before the search":
    purging.Purging._search = lambda *_: os._exit(9)
elif point == "before it is said":
    completing._complete = lambda *_: os._exit(9)
ledger.erase(subject)
os._exit(0)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "point",
    ["in the transaction", "before the purge", "before the -wal is emptied", "before the search", "before it is said"],
)
def test_a_kill_at_any_point_is_made_good(tmp_path: Path, point: str) -> None:
    path = tmp_path / "memory.db"
    with Ledger.open(path) as ledger:
        fact = ledger.remember(RARE)
        ledger.recall("harbour")
    assert subprocess.run([sys.executable, "-c", KILLED, path, point, fact.id]).returncode == 9
    with Ledger.open(path) as ledger:
        now = ledger.memories.get(fact.id)
        if point == "in the transaction":
            assert now.content == RARE and ledger.erasures.list() == []
        else:
            (told,) = ledger.erasures.list()
            assert (now.content, told.state, told.searched) == (None, "completed", ())
        agrees(ledger)
    assert bool(remains(tmp_path)) == (point == "in the transaction")


# --- certificates --------------------------------------------------------------------------------------------------------


def older_and_live(tmp_path: Path, erase: Callable[[Ledger], Any]) -> tuple[Path, list[str]]:
    """A backup from before an erasure, and the certificates of the ledger that went on."""
    with Ledger.open(tmp_path / "memory.db") as ledger:
        turn = ledger.capture("Where?", "It is " + RARE, reinforce=False)
        ledger.remember(RARE, sources=(turn.id,))
        ledger.remember("The kettle is blue.")
        ledger.maintenance.backup(tmp_path / "older.db")
        erase(ledger)
        later = ledger.remember("Zanzibarquux came back.")
        ledger.erase(later.id)
        return tmp_path / "older.db", ledger.erasures.certificates()


@pytest.mark.slow
def test_a_certificate_erases_the_same_in_an_older_backup(tmp_path: Path) -> None:
    backup, certificates = older_and_live(
        tmp_path, lambda ledger: ledger.erase(ledger.memories.list()[1].id, sources="cut")
    )
    (tmp_path / "aside").mkdir()
    recovered = tmp_path / "aside" / "memory.db"
    os.rename(backup, recovered)
    with Ledger.open(recovered) as ledger:
        assert any("Harbour" in state for state in states(ledger))
        assert erasing.apply_certificates(probe.inside(ledger), certificates) == 1
        assert [each.state for each in ledger.erasures.list()] == ["completed"]
        assert [each.status for each in ledger.memories.list(statuses=())] == ["active", "erased"]
        position = ledger.position
        assert erasing.apply_certificates(probe.inside(ledger), certificates) == 0 and ledger.position == position
        agrees(ledger)
    assert remains(tmp_path / "aside") == []


@pytest.mark.slow
def test_certificates_of_one_row_erased_twice_apply_in_their_order(tmp_path: Path) -> None:
    def erase(ledger: Ledger) -> None:
        fact = ledger.memories.list()[1]
        ledger.erase(Event(fact.position, spans=[("data.content", 0, 12)]), quotes="keep")
        ledger.erase(fact.id, sources="keep")

    backup, certificates = older_and_live(tmp_path, erase)
    with Ledger.open(backup) as ledger:
        assert erasing.apply_certificates(probe.inside(ledger), reversed(certificates)) == 2
        agrees(ledger)


@pytest.mark.slow
def test_a_certificate_that_is_not_ours_or_was_changed_erases_nothing(tmp_path: Path) -> None:
    backup, certificates = older_and_live(
        tmp_path, lambda ledger: ledger.erase(ledger.memories.list()[1].id, sources="cut")
    )
    with Ledger.open(tmp_path / "foreign.db") as foreign:
        foreign.erase(foreign.remember("Elsewhere it rains.").id)
        (strange,) = foreign.erasures.certificates()
    told = json.loads(certificates[0])
    told["events"][0]["state"] = told["events"][0]["state"].replace('"position":', '"position":1')
    bad = [json.dumps(told), strange, certificates[0][:-20], "", "[]", "{}", '{"format": 1}', "[" * 5000]
    with Ledger.open(backup) as ledger:
        position = ledger.position
        for each in bad:
            with pytest.raises(RejectedError):
                erasing.apply_certificates(probe.inside(ledger), [certificates[0], each])
        assert ledger.position == position


# --- the search ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_search_finds_every_form_wherever_it_lies(tmp_path: Path) -> None:
    text = 'Zoë\'s "vault" code\nis 8812-7731'
    data = text.encode()
    forms = [data, json.dumps(text).encode(), json.dumps(text, ensure_ascii=False).encode(), data.hex().encode()]
    forms += [text.encode("utf-16-le"), text.encode("utf-16-be"), data.hex().upper().encode()]
    forms += [base64.b64encode(b"x" * shift + data) for shift in range(3)]
    for number, form in enumerate(forms):
        for place in (0, 3, CHUNK_BYTES - 7, CHUNK_BYTES + 1):
            path = tmp_path / f"{number}"
            path.write_bytes(bytes(place) + form + bytes(50))
            assert Scan([text]).file(str(path))[1], f"form {number} at {place}"
            assert Scan([text, *(f"other text number {each}" for each in range(40))]).file(str(path))[1]
            assert not Scan(["Zoë's vault door is 8812"]).file(str(path))[1]


def test_each_place_is_counted_once(tmp_path: Path) -> None:
    rng = random.Random(7)
    blob = bytearray(rng.randbytes(2 * CHUNK_BYTES + 999))
    places = sorted(rng.sample(range(0, len(blob) - 64, 64), 50))
    for place in places:
        blob[place : place + 11] = b"kelp-jetty7"
    (tmp_path / "file").write_bytes(blob)
    for others in ([], [f"some other text {each}" for each in range(40)]):
        scan = Scan(["kelp-jetty7", *others])
        size, counts = scan.file(str(tmp_path / "file"))
        assert size == len(blob) and {scan.patterns[number][2]: n for number, n in counts.items()} == {
            b"kelp-jetty7": 50
        }


# --- whatever happened before ----------------------------------------------------------------------------------------

WORDS = (
    "amber",
    "birch",
    "cedar",
    "delta",
    "ember",
    "fjord",
    "grove",
    "heron",
    "inlet",
    "jetty",
    "kelp",
    "lemur",
    "otter",
)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_whatever_happened_before_the_tables_are_what_the_log_says(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    with Ledger.open(tmp_path / "memory.db") as ledger:
        subjects: list[str] = []

        def text() -> str:
            return " ".join(rng.choice(WORDS) for _ in range(rng.randint(2, 5)))

        def some() -> str:
            return rng.choice(subjects) if subjects else "m_0000000000000000"

        steps: list[Callable[[], Any]] = [
            lambda: subjects.append(ledger.remember(text(), tags=[text()], project=rng.choice([None, "pine"])).id),
            lambda: subjects.append(
                ledger.bind(actor="eve").capture(text(), f"Decision: {text()} stays.", session="s1").id
            ),
            lambda: subjects.extend(each.id for each in ledger.extract(some()).kept),
            lambda: ledger.promote(some(), reason=text()),
            lambda: ledger.reject(some(), reason=text()),
            lambda: ledger.bind(actor="eve").revise(some(), text(), reason=text()),
            lambda: subjects.append(ledger.supersede(some(), text(), reason=text()).id),
            lambda: ledger.retract(some(), reason=text()),
            lambda: ledger.restore(some(), reason=text()),
            lambda: ledger.projects.set_state("pine", "fact", rng.choice(WORDS), text()),
            lambda: ledger.projects.add_alias("pine", rng.choice(WORDS)),
            lambda: ledger.undo(rng.randint(1, ledger.position), reason=text(), cascade=True),
            lambda: ledger.redo(rng.randint(1, ledger.position), reason=text()),
            lambda: ledger.history.distrust("eve", kind="actor", reason=text()),
            lambda: ledger.history.trust("eve", kind="actor"),
        ]
        for _ in range(90):
            try:
                if rng.random() < 0.15:
                    choices = {name: rng.choice(["erase", "cut", "keep"]) for name in ("derived", "sources", "quotes")}
                    subject = rng.choice([some(), Event(rng.randint(2, max(2, ledger.position)))])
                    assert ledger.erase(subject, **choices).state == "completed"  # type: ignore[arg-type]
                    assert ledger.proof.digest() == folded_from_zero(ledger)
                else:
                    rng.choice(steps)()
            except LedgerError:
                continue
        agrees(ledger)


def test_the_modules_own_bounds_are_sane() -> None:
    assert erasing.USER_EVENTS == 20_000 and purging.PATIENCE_SECONDS > 0


def test_keep_takes_prefixes_and_refuses_what_it_cannot_find(ledger: Ledger) -> None:
    fact = ledger.remember("Her passport number is X1234567.", kind="fact")
    quote = ledger.remember("She said: Her passport number is X1234567.", kind="fact")
    for strange, error in (
        ("m_zzzz", NotFoundError),
        ("nonsense", NotFoundError),
        (10**9, RejectedError),
        (-5, RejectedError),
    ):
        with pytest.raises(error):
            ledger.erase(fact.id, quotes="erase", keep=[strange])
    ledger.erase(fact.id, quotes="erase", keep=[quote.id[:9]])
    kept = ledger.memories.get(quote.id)
    assert kept.status == "active"


def test_what_cannot_be_cut_is_not_said_to_be_cut(ledger: Ledger) -> None:
    turn = ledger.capture("What pets?", "Noted for later. The user prefers wombats over dogs. Anything else?")
    ledger.extract(turn.id)
    assert len(ledger.review()) == 1
    with pytest.raises(RejectedError, match="nothing can be cut"):
        ledger.erase(turn.id, derived="cut")
    ledger.erase(turn.id, derived="erase")
    assert ledger.review() == []


def test_a_dry_run_names_the_hold_in_the_way(ledger: Ledger) -> None:
    fact = ledger.remember("The lamp is green.")
    ledger.holds.add(fact.id, reason="case 12")
    report = ledger.erase(fact.id, dry_run=True)
    assert report.state == "dry run" and "hold" in report.why


def test_the_same_erasure_within_a_run_answers_the_same(ledger: Ledger) -> None:
    fact = ledger.remember("The lamp is green.")
    first = ledger.erase(fact.id, idempotency_key="k", correlation_id="run-1")
    again = ledger.erase(fact.id, idempotency_key="k", correlation_id="run-1")
    assert again.replayed and again.subject == first.subject


# --- what acts say of it ---------------------------------------------------------------------------------------------

ALL = {"derived": "erase", "sources": "erase", "quotes": "erase"}
WHY = "because of the Vermilion affair"


def says_why(ledger: Ledger) -> list[str]:
    """The types of the events that say why still."""
    return [row.type for row in probe.store(ledger).rows(limit=10_000) if WHY in row.state]


def _quarantined(ledger: Ledger) -> Any:
    turn = ledger.capture("Where?", RARE, reinforce=False)
    ledger.guards.quarantine(turn.id, reason=WHY)
    ledger.guards.release(turn.id, reason=WHY)
    return turn.id


def _quarantined_message(ledger: Ledger) -> Any:
    said = ledger.session("talk").append("user", RARE)
    ledger.guards.quarantine(said.position, reason=WHY)
    return Event(said.position)


def _distrusted(ledger: Ledger) -> Any:
    turn = ledger.capture("Where?", RARE, reinforce=False)
    ledger.history.distrust(turn.id, reason=WHY)
    ledger.history.trust(turn.id, reason=WHY)
    return turn.id


def _undone(ledger: Ledger) -> Any:
    fact = ledger.remember(RARE)
    ledger.redo(ledger.undo(fact.position, reason=WHY).command_id or "", reason=WHY)
    return fact.id


def _merged(ledger: Ledger) -> Any:
    pair = [ledger.remember(RARE).id, ledger.remember("He has a house by the sea, at the harbour.").id]
    ledger.merges.combine(pair, content="Somebody has a house.", reason=WHY)
    return pair[0]


def _held(ledger: Ledger) -> Any:
    fact = ledger.remember(RARE)
    ledger.holds.remove(ledger.holds.add(fact.id, reason=WHY).id, reason=WHY)
    return fact.id


@pytest.mark.parametrize("act", [_quarantined, _quarantined_message, _distrusted, _undone, _merged, _held])
def test_why_somebody_acted_on_it_goes_with_it(ledger: Ledger, act: Callable[[Ledger], Any]) -> None:
    other = ledger.remember("Tea is served at four.")
    ledger.undo(other.position, reason=f"not {WHY}")
    subject = act(ledger)
    before = says_why(ledger)
    assert len(before) > 1
    assert ledger.erase(subject, **ALL).state == "completed"  # type: ignore[arg-type]
    assert says_why(ledger) == ["CommandUndone"]  # what is about something else stays
    agrees(ledger)


@pytest.mark.parametrize("again", [False, True])
def test_why_goes_from_every_part_of_a_long_act_that_touches_it(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, again: bool
) -> None:
    """A long act is several events, each with its reason, and only some of them name what is erased."""
    for module in ("undo.undoing", "core.steps"):
        monkeypatch.setattr(f"ledger.{module}.LIST_ITEMS", 1)
    found = []
    for text in ("Tea is served at four.", RARE, "The lamp is green."):
        found.append(ledger.remember(text, correlation_id="run").id)
        ledger.remember(f"Another after: {text[:3]}")
    undone = ledger.undo("run", reason=WHY)
    if again:
        ledger.redo(undone.command_id or "", reason=WHY)
    assert says_why(ledger) == ["CommandUndone"] * 3 + ["CommandRedone"] * 3 * again
    assert ledger.erase(found[1], **ALL).state == "completed"  # type: ignore[arg-type]
    assert says_why(ledger) == []
    agrees(ledger)


def test_with_one_side_of_a_conflict_goes_why_it_was_resolved(ledger: Ledger) -> None:
    pair = [ledger.remember(text).id for text in ("Ana lives in Lisbon.", "Ana lives in Porto.")]
    ledger.conflicts.find()
    (found,) = ledger.conflicts.list()
    ledger.conflicts.resolve(found.id, keep=pair[0], reason=WHY)
    assert sorted(says_why(ledger)) == ["ConflictResolved", "MemorySuperseded"]
    ledger.erase(pair[0], **ALL)  # type: ignore[arg-type]
    assert says_why(ledger) == []
    agrees(ledger)


@pytest.mark.parametrize("whole", [SessionName("talk"), Project("row")])
def test_why_commands_were_undone_goes_with_the_session_or_the_project_that_they_were_of(
    ledger: Ledger, whole: Subject
) -> None:
    fact = ledger.remember(RARE, project="row", session="talk")
    ledger.undo(fact.position, reason=WHY)
    ledger.erase(whole, **ALL)  # type: ignore[arg-type]
    assert says_why(ledger) == []
    agrees(ledger)


def test_a_reason_in_an_act_that_is_kept_stays(ledger: Ledger) -> None:
    fact = ledger.remember(RARE)
    undone = ledger.undo(fact.position, reason=f"{WHY}: {RARE}")
    ledger.redo(undone.command_id or "")
    ledger.erase(fact.id, quotes="erase", keep=[undone.position])
    assert says_why(ledger) == ["CommandUndone"]


def _consolidated(ledger: Ledger) -> list[str]:
    texts = ("The user prefers dark roast coffee.", "The user really enjoys dark roast coffee.")
    found = [ledger.remember(text, tags=["vermilion-clinic"], project="medical").id for text in texts]
    ledger.consolidate(project="medical", tags=["vermilion-clinic"])
    assert [row.type for row in probe.store(ledger).rows(limit=99) if "vermilion" in row.state][
        -1
    ] == "ConsolidationCompleted"
    return found


def test_the_tags_of_a_consolidation_go_with_its_project(ledger: Ledger) -> None:
    _consolidated(ledger)
    assert ledger.erase(Project("medical"), **ALL).state == "completed"  # type: ignore[arg-type]
    assert not any("vermilion" in state for state in states(ledger))
    agrees(ledger)


@pytest.mark.slow
def test_the_tags_of_a_consolidation_go_with_the_last_memory_that_has_them(ledger: Ledger) -> None:
    one, two = _consolidated(ledger)
    ledger.erase(one, derived="erase", quotes="keep")
    assert [row.type for row in probe.store(ledger).rows(limit=99) if "vermilion" in row.state][
        -1
    ] == "ConsolidationCompleted"
    ledger.erase(two, derived="erase", quotes="keep")
    assert not any("vermilion" in state for state in states(ledger))
    agrees(ledger)


@pytest.mark.slow
@pytest.mark.parametrize("field", ["memories_used", "chunks_used"])
def test_what_is_no_id_among_the_ids_of_what_was_used_is_text(tmp_path: Path, field: str) -> None:
    with Ledger.open(tmp_path / "memory.db") as ledger:
        fact, kept = ledger.remember(RARE), ledger.remember("Tea is served at four.")
        used = [kept.id, RARE]
        turn = ledger.capture("Hello.", "There.", reinforce=False, **{field: used})
        later = ledger.capture("And?", reinforce=False)
        ledger.interactions.add_response(later.id, "So.", **{field: used})
        listed = [(each.type, each.fields) for each in ledger.erase(fact.id, dry_run=True).quotes]
        assert listed == [("InteractionCaptured", (f"data.{field}",)), ("ResponseAttached", (f"data.{field}",))]
        ledger.erase(Event(turn.position, fields=[f"data.{field}"]), quotes="keep")
        ledger.erase(fact.id, quotes="erase")
        for id in (turn.id, later.id):
            now = ledger.interactions.get(id)
            assert getattr(now, field) == (kept.id,)
        assert ledger.interactions.get(turn.id).prompt == "Hello."
        agrees(ledger)
        assert probe.rebuild(ledger).digest == ledger.proof.digest()
    assert remains(tmp_path) == []


def test_with_a_user_goes_what_is_no_id_among_the_ids_of_what_was_used(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "memory.db") as ledger:
        ledger.bind(user="ada").capture("hello", "there", memories_used=[RARE])
        assert ledger.bind(user="ada").erase(EVERYTHING).state == "completed"
        agrees(ledger)
    assert remains(tmp_path) == []
