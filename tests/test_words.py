"""The vocabulary: what a user reads uses the field's words, one for each thing, and names what exists."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PRODUCT = sorted(each for room in ("ledger", "projections") for each in (ROOT / room).rglob("*.py"))
BANNED = {  # what to say instead
    r"told|tells of": "given, shows, reports",
    r"otherwise since|believed otherwise": "what changed, differs",
    r"(out of|in) force": "void, in effect",
    r"bears? (it |nothing )?out|borne out|witness(es)?": "supports, source, evidence",
    r"beneath": "underlying",
    r"moot": "obsolete",
    r"(is|was|are) parked": "suspended",
    r"receipts? of (an |all )?erasures?": "certificate",
    r"undetermined": "uncertain",
    r"(goes|takes|taken|brings) along": "with it, cascaded",
    r"anew": "again",
    r"(is|was|are|were) taken in|takes in|ingest(s|ed|ion)?": "add, import",
    r"surest": "most confident",
    r"for want of": "without",
    r"the way back|the road": "undo, write path",
    r"travellers?": "past views",
    r"twins?": "duplicate",
    r"sayings?": "statements",
    r"summaris\w+": "summarizer, summarize",
    r"neighbour\w*": "neighbor",
    r"(adopt_policy|attach_response|run_policies|seed_extraction)": "the public name",
    r"(set_summary|response_summary|context_pack|session_id)": "the public name",
}
WORDS = re.compile("|".join(rf"\b(?:{each})\b" for each in BANNED), re.IGNORECASE)


def raised(path: Path) -> Iterator[tuple[int, str]]:
    """The texts in what a file raises, or hands to somebody who does."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Raise) and node.exc is not None:
            for each in ast.walk(node.exc):
                if isinstance(each, ast.Constant) and isinstance(each.value, str):
                    yield each.lineno, each.value


@pytest.mark.parametrize("path", PRODUCT, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_is_raised_has_the_words_of_the_field(path: Path) -> None:
    assert [(line, text) for line, text in raised(path) if WORDS.search(text)] == []
