"""Expressions that are compiled when they are first used, and what a process has compiled when its ledger is open."""

from __future__ import annotations

import re
import subprocess
import sys

from hypothesis import given
from hypothesis import strategies as st

from ledger.domain.late import late

SEEN_AT_START = """
import re, sys, tempfile
compiled, compile = [], re.compile
def noted(pattern, flags=0):
    compiled.append((sys._getframe(1).f_globals["__name__"], pattern))
    return compile(pattern, flags)
re.compile = noted
from ledger import Ledger
from ledger.log import registry
with tempfile.TemporaryDirectory() as place, Ledger.open(place + "/memory.db") as ledger:
    ours = [each for each in compiled if each[0].startswith(("ledger", "projections"))]
    print(len(ours), len(registry._DECODERS))
"""


@given(
    st.text("ab1 ", max_size=12), st.sampled_from(["a+b", r"(\w)\1", "(?P<one>A)|1", "$"]), st.sampled_from([0, re.I])
)
def test_a_late_expression_is_the_expression(text: str, expression: str, flags: int) -> None:
    ours, plain = late(expression, flags), re.compile(expression, flags)
    for _ in range(2):
        assert [hit.span() for hit in ours.finditer(text)] == [hit.span() for hit in plain.finditer(text)]
        assert ours.sub("-", text) == plain.sub("-", text)
        assert ours.split(text) == plain.split(text)
        assert (ours.pattern, ours.flags, ours.groupindex) == (plain.pattern, plain.flags, plain.groupindex)


def test_what_no_text_asked_yet_is_not_compiled() -> None:
    """Expressions and decoders of events took a third of the time in which a process opens its first ledger."""
    shown = subprocess.run([sys.executable, "-c", SEEN_AT_START], capture_output=True, text=True, check=True).stdout
    expressions, decoders = map(int, shown.split())
    assert expressions <= 55
    assert decoders <= 1
