"""The metadata of a session: set by one verb, shown wherever the session is, undone, erased and exported like its texts."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledger import Ledger, RejectedError
from ledger.types import EVERYTHING, SessionPatterns

SLACK = {"app": "slack", "ticket": 4711}


def test_metadata_that_is_set_is_shown_by_the_session_and_in_the_list(ledger: Ledger) -> None:
    session = ledger.session("chat")
    session.append("user", "Hello")
    info = session.set_metadata(SLACK)
    assert info.metadata == ledger.sessions.get("chat").metadata == ledger.sessions.list()[0].metadata == SLACK
    assert session.set_metadata({"ticket": 4712, "vip": True}, unset=["app"]).metadata == {"ticket": 4712, "vip": True}


def test_a_session_may_begin_with_its_metadata(ledger: Ledger) -> None:
    info = ledger.session("chat", project="atlas").set_metadata(SLACK)
    assert (info.messages, info.project, info.metadata) == (0, "atlas", SLACK)


def test_sessions_are_listed_by_their_metadata(ledger: Ledger) -> None:
    for name, ticket in (("one", 1), ("two", 2), ("three", 1)):
        ledger.session(name).set_metadata({"ticket": ticket})
    listed = ledger.sessions.list(metadata={"ticket": 1}, limit=1)
    assert [info.name for info in listed.all()] == ["three", "one"]
    assert ledger.sessions.list(metadata={"ticket": "1"}) == []


def test_the_same_metadata_again_changes_nothing(ledger: Ledger) -> None:
    session = ledger.session("chat")
    session.set_metadata(SLACK)
    before = ledger.position
    session.set_metadata(SLACK, unset=["nothing"])
    assert ledger.position == before


def test_an_undo_takes_metadata_back_and_a_moment_of_the_past_has_its_own(ledger: Ledger) -> None:
    session = ledger.session("chat")
    session.set_metadata(SLACK)
    before = ledger.position
    changed = session.set_metadata({"ticket": 4712}).position
    assert ledger.at(before).sessions.get("chat").metadata == SLACK
    ledger.undo(changed)
    assert session.info().metadata == SLACK
    assert ledger.at(changed).sessions.list(metadata={"ticket": 4712})[0].name == "chat"


def test_an_erasure_takes_keys_and_values(ledger: Ledger, tmp_path: Path) -> None:
    bound = ledger.bind(user="ada")
    bound.session("chat").set_metadata({"canary-key": "canary-value"})
    bound.erase(EVERYTHING)
    ledger.maintenance.export_log(tmp_path / "log.jsonl")
    assert "canary" not in (tmp_path / "log.jsonl").read_text(encoding="utf-8")


def test_metadata_goes_with_an_exported_log(ledger: Ledger, tmp_path: Path) -> None:
    ledger.session("chat").set_metadata(SLACK)
    ledger.maintenance.export_log(tmp_path / "log.jsonl")
    Ledger.import_log(tmp_path / "log.jsonl", tmp_path / "other.db")
    with Ledger.open(tmp_path / "other.db") as other:
        assert other.sessions.get("chat").metadata == SLACK


def test_a_secret_in_metadata_is_redacted(ledger: Ledger) -> None:
    info = ledger.session("chat").set_metadata({"token": "ghp_" + "a1B2c3D4e5F6" * 3})
    assert "a1B2" not in str(info.metadata)


@pytest.mark.parametrize(
    "wrong", [{"a": [1]}, {"a": {"b": 1}}, {"a" * 200: 1}, {f"k{n}": n for n in range(33)}, "text"]
)
def test_metadata_is_flat_and_small(ledger: Ledger, wrong: object) -> None:
    with pytest.raises(RejectedError):
        ledger.session("chat").set_metadata(wrong)  # type: ignore[arg-type]
    assert ledger.session("chat").id is None


def test_a_session_that_is_kept_out_takes_no_metadata(tmp_path: Path) -> None:
    patterns = SessionPatterns(read_only=["cron"])
    with (
        Ledger.open(tmp_path / "memory.db", sessions=patterns) as ledger,
        pytest.raises(RejectedError, match="pattern"),
    ):
        ledger.session("cron").set_metadata(SLACK)


def test_reconcile_repairs_a_wrong_model_name_and_an_undo_takes_it_back(ledger: Ledger) -> None:
    session = ledger.session("chat")
    session.append("user", "Hello")
    session.append("assistant", "Hi", model="small")
    transcript = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi", "model_name": "large"}]
    assert session.reconcile(transcript, dry_run=True).repaired == 1
    change = session.reconcile(transcript)
    assert (change.change, change.repaired, change.hidden) == ("repaired", 1, 0)
    assert [message.model for message in session.messages()] == ["", "large"]
    assert session.reconcile(transcript).change == "none"
    assert (
        session.reconcile([{"role": line["role"], "content": line["content"]} for line in transcript]).change == "none"
    )
    ledger.undo(change.position)
    assert session.messages()[1].model == "small"
