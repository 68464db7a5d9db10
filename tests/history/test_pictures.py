"""Pictures of a belief: SVG and Mermaid in which every text of a person is escaped, and sums that add up."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from ledger import Ledger
from ledger.history import pictures

SCRIPT = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'><b> & end"


@pytest.fixture
def belief(ledger: Ledger) -> str:
    turn = ledger.capture(SCRIPT, "Noted.", session=SCRIPT)
    first = ledger.bind(actor=SCRIPT).remember(SCRIPT, sources=[turn.id], confidence=0.5)
    ledger.memories.set_confidence(first.id, 0.7, reason=SCRIPT)
    return ledger.supersede(first.id, SCRIPT + "2", reason=SCRIPT).id


def test_a_picture_is_xml_in_which_every_text_is_escaped(ledger, belief):
    why = ledger.why(belief)
    old = ledger.why(why.supersedes[0].id)
    for svg in (
        pictures.why_svg(old),
        pictures.graph_svg(old),
        pictures.confidence_svg(ledger.memories.confidence(old.id)),
    ):
        root = ElementTree.fromstring(svg)
        assert root.get("aria-label") and "<script" not in svg and "<img" not in svg
        assert {element.tag.rpartition("}")[2] for element in root.iter()} <= {
            "svg",
            "path",
            "text",
            "rect",
            "circle",
            "title",
        }
    assert pictures.confidence_svg(()) == ""


def test_a_sum_shows_each_step_and_what_they_add_up_to(ledger, belief):
    old = ledger.why(ledger.why(belief).supersedes[0].id)
    texts = [element.text for element in ElementTree.fromstring(pictures.why_svg(old)).iter() if element.text]
    assert "+0.5" in texts and "+0.2" in texts and texts[-1] == f"{old.confidence:g}"


def test_mermaid_holds_no_sign_that_ends_a_label(ledger, belief):
    old = ledger.why(ledger.why(belief).supersedes[0].id)
    for text in (
        pictures.graph_mermaid(old),
        pictures.why_mermaid(old),
        pictures.confidence_mermaid(ledger.memories.confidence(old.id)),
    ):
        assert "<" not in text and all(line.count('"') % 2 == 0 for line in text.splitlines())
    assert "superseded by" in pictures.graph_mermaid(old).replace("#32;", " ")


def test_the_picture_of_a_value_names_its_key() -> None:
    with Ledger.temporary() as ledger:
        why = ledger.why(ledger.values.put(("tea",), "favourite", {"kind": "green"}).id)
    assert "favourite" in pictures.graph_svg(why)
    assert pictures.graph_mermaid(why) == 'flowchart LR\n  this["favourite"]\n'
