"""Folders of notes: the forms in which agents and people keep them, and what breaks importers of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ledger import Ledger, Memory
from ledger.importers import import_from


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(tmp_path / "memory.db", user="ada") as opened:
        yield opened


def folder(place: Path, **files: str) -> Path:
    place.mkdir()
    for name, text in files.items():
        path = place / f"{name.replace('__', '/')}.md"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        os.utime(path, (1_740_823_200, 1_740_823_200))
    return place


def brought(ledger: Ledger, path: Path, **options: Any) -> dict[str, Memory]:
    """Import a folder as what the user wrote; a second run adds nothing, and recall finds each statement by its words."""
    report = import_from(ledger, path, channel="user", **options)
    position = ledger.position
    assert (dict(import_from(ledger, path, channel="user", **options).taken), ledger.position) == ({}, position)
    found = {str(memory.content): memory for memory in ledger.memories.list()}
    assert len(found) == report.taken["statements"]
    for content in found:
        assert ledger.recall(content, limit=1).items[0].content == content
    return found


BASIC = """---
title: Coffee Brewing
type: note
permalink: drinks/coffee
tags: [coffee, "slow"]
created: 2025-03-02T10:00:00Z
---
# Coffee Brewing

A pour over brings out the fruit.

## Observations
- [method] Water at 92 degrees works best #brewing #hot (measured)
- [preference] Filter, no sugar
- [ ] Buy a [[Scale]]
- [link](https://example.com) to the roaster

## Relations
- pairs_well_with [[Chocolate Desserts]]
- [[Grinder]]
- 'is made with' [[Kettle]] (always)
- a cup near the [[Window]] is best
"""


def test_a_note_of_basic_memory_gives_observations_and_relations(ledger: Ledger, tmp_path: Path) -> None:
    found = brought(ledger, folder(tmp_path / "notes", drinks__coffee=BASIC))
    assert set(found) == {
        "A pour over brings out the fruit.", "Water at 92 degrees works best #brewing #hot (measured)",
        "Filter, no sugar", "Buy a Scale", "[link](https://example.com) to the roaster",
        "Coffee Brewing pairs well with Chocolate Desserts", "Coffee Brewing relates to Grinder",
        "Coffee Brewing is made with Kettle (always)", "a cup near the Window is best",
    }  # fmt: skip
    water = found["Water at 92 degrees works best #brewing #hot (measured)"]
    assert set(water.tags) == {"brewing", "hot", "coffee", "slow"}
    assert (water.valid_from, water.entities) == ("2025-03-02T10:00:00.000000Z", ("Coffee Brewing",))
    assert (water.metadata["category"], water.metadata["heading"], water.metadata["file"]) == (
        "method", "Observations", "drinks/coffee.md")  # fmt: skip
    assert found["Filter, no sugar"].kind == "preference" and found["Buy a Scale"].metadata["category"] == "to do"
    (pairs,) = found["Coffee Brewing pairs well with Chocolate Desserts"].relations
    assert (pairs.subject, pairs.relation, pairs.object) == ("Coffee Brewing", "pairs_well_with", "Chocolate Desserts")


CLAUDE = """---
name: deploy-window
description: When the team deploys
type: feedback
---

Deploy only on Tuesdays,
never on Fridays.

**Why:** the release of May broke a weekend.

```sh
make deploy

make check
```
"""


def test_the_memory_of_claude_code_comes_without_its_index(ledger: Ledger, tmp_path: Path) -> None:
    index = "# Memory\r\n\r\n- [Deploy](deploy.md) — when to deploy\r\n- The staging host is blue\r\n  and slow\r\n"
    found = brought(ledger, folder(tmp_path / "memory", MEMORY=index, deploy=CLAUDE))
    assert set(found) == {
        "Deploy only on Tuesdays, never on Fridays.", "**Why:** the release of May broke a weekend.",
        "```sh\nmake deploy\n\nmake check\n```", "The staging host is blue and slow",
    }  # fmt: skip
    deploy = found["Deploy only on Tuesdays, never on Fridays."]
    assert deploy.metadata["description"] == "When the team deploys"
    assert (deploy.metadata["type"], deploy.valid_from) == ("feedback", "2025-03-01T10:00:00.000000Z")


def test_notes_wait_for_review_if_nobody_says_who_wrote_them(ledger: Ledger, tmp_path: Path) -> None:
    report = import_from(ledger, folder(tmp_path / "memories", human="Ada plays the oboe.\n"))
    assert (report.kind, dict(report.taken)) == ("markdown", {"statements": 1})
    assert [item.memory.content for item in ledger.review()] == ["Ada plays the oboe."]


def test_odd_files_in_a_folder_of_notes_are_counted(ledger: Ledger, tmp_path: Path) -> None:
    place = folder(
        tmp_path / "odd", open="---\ntitle: never closed\n", twice="- Ada plays the oboe\n- Ada plays the oboe\n",
        empty="", front="---\ntitle: x\n---\n", mark="\ufeff---\ntags:\n  - loud\n---\n1. Ada sings\n***\n<!-- not this -->\n",
    )  # fmt: skip
    (place / "picture.png").write_bytes(b"\x89PNG")
    (place / "latin.md").write_bytes("Ada läuft".encode("latin-1"))
    report = import_from(ledger, place, dry_run=True)
    assert dict(report.skipped) == {"a file that is no text": 1, "a file that is no note": 1}
    found = brought(ledger, place)
    assert set(found) == {"Ada plays the oboe", "Ada sings", "title: never closed"}
    assert found["Ada sings"].tags == ("loud",)
    assert import_from(ledger, place).known == 4
