"""Archived projects: left out of lists and packs unless they are named, and found under their name as before."""

from __future__ import annotations

import pytest

from ledger import Ledger, NotFoundError, RejectedError


@pytest.fixture
def sails(ledger: Ledger) -> Ledger:
    ledger.remember("The sails of the Aurora are red.", kind="preference", project="boat", entities=["Aurora"])
    ledger.remember("The sails in the attic are white.", kind="preference", project="house")
    ledger.remember("The user likes sails.", kind="preference")
    return ledger


def names(ledger: Ledger, **asked: object) -> list[str | None]:
    return [project.name for project in ledger.projects.list(**asked)]


def test_an_archived_project_is_listed_only_by_its_status(sails: Ledger) -> None:
    archived = sails.projects.archive("boat", reason="sold")
    assert (archived.status, sails.projects.get("boat").status, sails.projects.get("house").status) == (
        "archived", "archived", "active",
    )  # fmt: skip
    assert names(sails) == ["house"] and names(sails, statuses=["archived"]) == ["boat"]
    assert names(sails, statuses=[]) == ["house", "boat"]
    with pytest.raises(RejectedError, match="active, archived"):
        sails.projects.list(statuses=["gone"])
    sails.maintenance.rebuild()
    assert names(sails) == ["house"]


@pytest.mark.parametrize("call", ["recall", "shares", "context", "profile"])
def test_a_pack_has_nothing_of_an_archived_project_unless_it_is_named(sails: Ledger, call: str) -> None:
    sails.capture("Sails?", "The sails of the Aurora were mended.", project="boat", reinforce=False)
    sails.documents.add("The sails of the Aurora weigh nine kilos.", title="Sails", project="boat")

    def texts(**asked: str) -> str:
        packs = {
            "recall": lambda: sails.recall("sails", **asked),
            "shares": lambda: sails.recall("sails", packing="shares", budget=2_000, **asked),
            "context": lambda: sails.context("sails", **asked),
            "profile": lambda: sails.projects.context(asked["project"]) if asked else sails.profile(),
        }
        return packs[call]().as_text()

    assert "Aurora" in texts()
    sails.projects.archive("boat")
    left = texts()
    assert "Aurora" not in left and "user likes sails" in left and "attic" in left
    if call != "profile":
        assert "Aurora" in texts(project="boat")
    sails.projects.restore("boat")
    assert "Aurora" in texts()


def test_memories_of_an_archived_project_stay_listed_and_can_be_added(sails: Ledger) -> None:
    sails.projects.archive("boat")
    assert sails.remember("The mast is down.", project="boat").project == "boat"
    assert len(sails.memories.list(project="boat")) == 2 and len(sails.memories.list()) == 4
    assert sails.projects.get("boat").status == "archived"


def test_archiving_an_archived_project_appends_nothing(sails: Ledger) -> None:
    assert sails.projects.restore("boat").absorbed
    assert not sails.projects.archive("boat").absorbed
    before = sails.position
    assert sails.projects.archive("boat").absorbed and sails.position == before
    with pytest.raises(NotFoundError):
        sails.projects.archive("nowhere")
    with pytest.raises(NotFoundError):
        sails.bind(user="bob").projects.archive("boat")


def test_undo_the_past_and_the_audit_trail_know_of_it(sails: Ledger) -> None:
    before = sails.position
    archived = sails.projects.archive("boat", reason="sold")
    assert sails.at(before).projects.get("boat").status == "active"
    assert "Aurora" in sails.at(before).recall("sails").as_text()
    assert "Aurora" not in sails.at(sails.position).recall("sails").as_text()
    (entry,) = sails.history.audit(command="projects.archive")
    assert (entry.type, entry.reason, entry.project) == ("ProjectArchived", "sold", "boat")
    undone = sails.undo(archived.position)
    assert sails.projects.get("boat").status == "active"
    sails.redo(undone.position)
    assert names(sails) == ["house"]


def test_a_project_joined_into_an_archived_project_is_archived(sails: Ledger) -> None:
    sails.projects.archive("boat")
    joined = sails.projects.join("boat", "house")
    assert joined.status == "archived" and names(sails) == []
    assert (
        "attic" not in sails.recall("sails").as_text() and "attic" in sails.recall("sails", project="house").as_text()
    )
    sails.undo(joined.position)
    sails.projects.join("house", "boat")
    assert names(sails) == ["house"] and "Aurora" in sails.recall("sails").as_text()


def test_the_graph_of_an_archived_project_is_still_read(sails: Ledger) -> None:
    sails.projects.archive("boat")
    assert sails.graph.neighbors("Aurora").seeds
    assert "Aurora" not in sails.recall("Aurora", ranking="rubino/1").as_text()
