"""The export of memories: one user, without the secret, and equal when the importer of this product reads it again."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import answer, run
from moved_stores import twice

from ledger import Ledger, Memory, RejectedError
from ledger.importers import export_to, import_from


@pytest.fixture
def old(tmp_path: Path) -> Iterator[Ledger]:
    """A ledger with a memory in each state, of two projects and two users."""
    with Ledger.open(tmp_path / "old.db", user="ada") as ledger:
        turn = ledger.capture("Where do I live?", "In Porto.", occurred_at="2024-01-01T10:00:00Z")
        porto = ledger.remember(
            "Ada lives in Porto", kind="fact", confidence=0.7, tags=["home", "two words"], sources=[turn.id],
            entities=["Ada"], relations=[("Ada", "lives in", "Porto")], metadata={"ticket": 4711, "vip": True},
            occurred_at="2024-01-01", reference_count=3,
        )  # fmt: skip
        ledger.supersede(porto.id, "Ada lives\nin Faro", occurred_at="2024-06-01")
        ledger.retract(ledger.remember("Ada owns a van", occurred_at="2024-01-02").id)
        ledger.invalidate(ledger.remember("Ada owns a bus", occurred_at="2024-01-03").id)
        ledger.memories.end(ledger.remember("Ada owns a sloop", occurred_at="2024-01-04").id, occurred_at="2024-02-01")
        ledger.propose("Ada owns a (red) tram #one", occurred_at="2024-01-05")
        ledger.reject(ledger.propose("Ada owns a dam", occurred_at="2024-01-06").id)
        ledger.remember("The till is blue", project="shop", valid_to="2030-01-01", occurred_at="2024-01-07")
        ledger.bind(user="ben").remember("Ben likes figs")
        yield ledger


def export(ledger: Ledger, path: Path, *options: str) -> Path:
    assert run("export", str(path), *options, "--user", "ada", db=str(ledger.path)).exit_code == 0
    return path


def state(memory: Memory, by_id: dict[str, Memory]) -> dict[str, Any]:
    """Return what an export carries of a memory, with texts in place of ids."""
    names = (
        "content",
        "kind",
        "status",
        "confidence",
        "project",
        "valid_from",
        "valid_to",
        "reference_count",
        "entities",
    )
    before = None if memory.supersedes is None else by_id[memory.supersedes].content
    relations = [(each.subject, each.relation, each.object) for each in memory.relations]
    metadata = {key: value for key, value in memory.metadata.items() if key != "import"}
    found = {name: getattr(memory, name) for name in names}
    return found | {"before": before, "relations": relations, "tags": set(memory.tags), "metadata": metadata}


def states(ledger: Ledger) -> list[dict[str, Any]]:
    by_id = {memory.id: memory for memory in ledger.memories.list(statuses=())}
    return sorted((state(memory, by_id) for memory in by_id.values()), key=lambda each: str(each["content"]))


def test_a_round_trip_through_jsonl_is_equal(old: Ledger, tmp_path: Path) -> None:
    path = export(old, tmp_path / "memories.jsonl", "--format", "jsonl")
    with Ledger.open(tmp_path / "new.db", user="ada") as new:
        report = import_from(new, path)
        assert (report.kind, dict(report.skipped), report.notes) == ("memory-ledger", {}, ())
        assert states(new) == states(old)
        position = new.position
        assert (dict(import_from(new, path).taken), new.position) == ({}, position)
        again = export(new, tmp_path / "again.jsonl", "--format", "jsonl")
        with Ledger.open(tmp_path / "third.db", user="ada") as third:
            import_from(third, again)
            assert states(third) == states(old)


def test_a_round_trip_through_a_note_keeps_texts_status_and_validity(old: Ledger, tmp_path: Path) -> None:
    path = export(old, tmp_path / "memories.md", "--format", "markdown")
    with Ledger.open(tmp_path / "new.db", user="ada") as new:
        report = import_from(new, path)
        assert (report.kind, dict(report.skipped), report.notes) == ("memory-ledger", {}, ())
        names = ("kind", "status", "confidence", "project", "valid_from", "valid_to")
        kept = [
            {"content": " ".join(str(each["content"]).split())} | {name: each[name] for name in names}
            for each in states(old)
        ]
        assert [{name: each[name] for name in ("content", *names)} for each in states(new)] == kept


def test_the_ledger_that_wrote_an_export_knows_all_of_it(old: Ledger, tmp_path: Path) -> None:
    for format in ("jsonl", "markdown"):
        path, position = export(old, tmp_path / format, "--format", format), old.position
        assert (dict(import_from(old, path).taken), old.position) == ({}, position)


@pytest.mark.parametrize("format", ["jsonl", "markdown"])
def test_an_export_is_of_one_user_and_has_no_secret(old: Ledger, tmp_path: Path, format: str) -> None:
    log = tmp_path / "log.jsonl"
    assert "secret" in answer("export-log", str(log), db=str(old.path))["warning"]
    (secret,) = set(re.findall(r"secret\W+([0-9a-f]{32,})", log.read_text(encoding="utf-8")))
    text = export(old, tmp_path / "out", "--format", format).read_text(encoding="utf-8")
    assert secret not in text
    assert "Ada lives in Porto" in text and "figs" not in text


def test_an_export_of_a_project_has_only_its_memories(old: Ledger, tmp_path: Path) -> None:
    lines = (
        export(old, tmp_path / "shop.jsonl", "--format", "jsonl", "--project", "shop")
        .read_text(encoding="utf-8")
        .splitlines()
    )
    header, till = map(json.loads, lines)
    assert (header["project"], till["content"], till["valid_to"]) == (
        "shop",
        "The till is blue",
        "2030-01-02T00:00:00.000000Z",
    )


def test_a_note_is_an_observation_for_each_memory(old: Ledger) -> None:
    shown = run("export", "--format", "markdown", "--user", "ada", db=str(old.path)).stdout
    van = next(line for line in shown.splitlines() if "van" in line)
    assert (
        van.startswith("- [retracted] Ada owns a van (m_")
        and "; retracted; kind knowledge; confidence 1; from 2024-01-02T" in van
    )
    porto = next(line for line in shown.splitlines() if "in Porto" in line)
    assert porto.startswith("- [superseded] Ada lives in Porto #home #two-words (m_") and "sources i_" in porto


def test_an_export_without_a_form_names_the_command_for_the_log(old: Ledger, tmp_path: Path) -> None:
    result = run("export", str(tmp_path / "log.jsonl"), db=str(old.path))
    assert result.exit_code != 0 and "export-log" in result.stderr
    assert not (tmp_path / "log.jsonl").exists()


def test_an_export_never_overwrites_a_file(old: Ledger, tmp_path: Path) -> None:
    path = export(old, tmp_path / "out.jsonl", "--format", "jsonl")
    assert run("export", str(path), "--format", "jsonl", db=str(old.path)).exit_code != 0


def test_an_export_that_was_changed_by_hand_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    path = tmp_path / "memories.jsonl"
    header = {"format": "memory-ledger/memories/1"}
    lost = {
        "id": "m_aaaaaaaaaaaaaaaa",
        "content": "Lost",
        "status": "superseded",
        "superseded_by": "m_bbbbbbbbbbbbbbbb",
    }
    lines = [header, lost, {"id": "m_1"}, {"id": "m_cccccccccccccccc", "content": "Odd", "status": "melted"},
             {"id": "m_dddddddddddddddd", "content": "Doubtful", "status": "active", "quarantined": True}]  # fmt: skip
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"id": "m_ee', encoding="utf-8")
    with Ledger.open(tmp_path / "new.db", user="ada") as ledger:
        report = import_from(ledger, path)
        assert dict(report.unknown) == {"status melted": 1}
        assert set(report.skipped) == {"a memory without an id or a content", "a line that is no JSON object"}
        found = {memory.content: memory.status for memory in ledger.memories.list(statuses=())}
        assert found == {"Lost": "superseded", "Doubtful": "candidate"}


@pytest.mark.parametrize("format", ["jsonl", "markdown"])
def test_python_writes_the_export_that_a_shell_writes(old: Ledger, tmp_path: Path, format: Any) -> None:
    report = export_to(old, tmp_path / "by-python", format=format)
    by_shell = export(old, tmp_path / "by-shell", "--format", format)
    assert (tmp_path / "by-python").read_bytes() == by_shell.read_bytes()
    assert (report.path, report.format, report.memories) == (str(tmp_path / "by-python"), format, 8)
    with pytest.raises(RejectedError, match="by-python"):
        export_to(old, tmp_path / "by-python", format=format)
    with pytest.raises(RejectedError, match="format is jsonl or markdown"):
        export_to(old, tmp_path / "by-hand", format="xml")  # type: ignore[arg-type]
    assert not (tmp_path / "by-hand").exists()


def test_a_chain_of_facts_that_are_all_over_is_equal_after_a_round_trip(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "old.db", user="ada") as first:
        place = first.remember("Ada lives in Porto", occurred_at="2022-01-01")
        for year, town in ((2023, "Faro"), (2024, "Braga"), (2025, "Lisbon")):
            place = first.supersede(place.id, f"Ada lives in {town}", occurred_at=f"{year}-01-01")
        first.memories.end(place.id, occurred_at="2026-01-01")
        export_to(first, tmp_path / "memories.jsonl")
        with Ledger.open(tmp_path / "new.db", user="ada") as second:
            twice(second, tmp_path / "memories.jsonl")
            assert states(second) == states(first)
            assert [each.status for each in second.memories.list(statuses=())] == ["superseded"] * 4
