"""The pictures of a belief: what has no confidence to sum, such as a value, has a picture too."""

from __future__ import annotations

from ledger import Ledger
from ledger.history.pictures import graph_mermaid, graph_svg


def test_the_picture_of_a_value_names_its_key() -> None:
    with Ledger.temporary() as ledger:
        why = ledger.why(ledger.values.put(("tea",), "favourite", {"kind": "green"}).id)
    assert "favourite" in graph_svg(why)
    assert graph_mermaid(why) == 'flowchart LR\n  this["favourite"]\n'
