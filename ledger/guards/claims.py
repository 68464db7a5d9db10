"""The rule "claims/1": what a model says its tools cannot do, which outlives the failure that it was said after.

"The edit tool fails on large files" is true of one moment and one machine; as a memory it keeps an agent from trying again.
rubino refuses such claims where facts are inserted; its pattern is not known, so this one is ours. It is applied to what is
extracted, never to what a person writes.
"""

from __future__ import annotations

from ledger.guards.patterns import read


def is_tool_limitation(text: str) -> bool:
    """Whether a text claims that a tool, or the agent itself, cannot do something."""
    (claim,) = read()["claims"].patterns
    return claim.compiled.search(text) is not None
