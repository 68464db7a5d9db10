"""What recall is asked with: a value that cannot be meant is refused, in Python and on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from command_line import run

from ledger import Ledger, RejectedError

REFUSED: list[tuple[str, Any, str]] = [
    *(("limit", wrong, "limit must be a whole number from 0 to 500") for wrong in (-1, 501, True, 2.0, "5", None)),
    *(
        ("observations", wrong, "observations must be a whole number from 0 to 50")
        for wrong in (-1, 51, True, 2.5, None)
    ),
    *(("budget", wrong, "budget must be a whole number from 0") for wrong in (-1, True, 2.5)),
    *(
        ("min_match", wrong, "min_match must be a number from 0 to 1")
        for wrong in (-0.1, 1.1, True, "much", float("nan"))
    ),
    *((name, wrong, f"{name} must be true or false") for name in ("explain", "receipt") for wrong in ("yes", 1, None)),
    ("statuses", ["candidate"], "not recalled before it is promoted"),
    ("statuses", "active", "statuses takes several"),
    ("among", (), "among must name at least one of memories, chunks, turns"),
    ("among", ["memory"], "among cannot be 'memory'"),
    ("unit", "words", "unit cannot be 'words'"),
    ("packing", "best", "packing cannot be 'best'"),
    ("ranking", "score", "ranking cannot be 'score'"),
    ("question", 7, "question"),
]


@pytest.fixture
def ledger(tmp_path: Path) -> Any:
    with Ledger.open(tmp_path / "memory.db") as ledger:
        ledger.remember("Ana drinks green tea.")
        yield ledger


@pytest.mark.parametrize(("name", "wrong", "why"), REFUSED)
def test_what_cannot_be_meant_is_refused(ledger: Ledger, name: str, wrong: Any, why: str) -> None:
    for then in (ledger, ledger.at(ledger.position)):
        with pytest.raises(RejectedError, match=why):
            then.recall(**{"question": "tea", name: wrong})


@pytest.mark.parametrize(
    ("option", "why"),
    [
        (f"--{name}={wrong}", why)
        for name, wrong, why in REFUSED
        if type(wrong) is int and name in ("limit", "observations")
    ],
)
def test_the_command_line_refuses_the_same(tmp_path: Path, option: str, why: str) -> None:
    db = str(tmp_path / "memory.db")
    run("remember", "Ana drinks green tea.", db=db)
    refused = run("recall", "tea", option, db=db)
    assert refused.exit_code == 4 and why in refused.stderr


@pytest.mark.parametrize(
    "most", [{"limit": 1}, {"limit": 500}, {"observations": 0}, {"observations": 50}, {"min_match": 1}]
)
def test_the_bounds_themselves_are_not(ledger: Ledger, most: dict[str, Any]) -> None:
    assert [item.content for item in ledger.recall("Ana green tea", **most).items] == ["Ana drinks green tea."]
