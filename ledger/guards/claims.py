"""The rule "claims/1": a model's claim that a tool is unable to do something, which must not become a memory.

"The edit tool fails on large files" is true of one moment and one machine; as a memory it keeps an agent from trying again.
rubino refuses such claims where facts are inserted; its pattern is not known, so the pattern is our own. The rule is applied
to extracted texts, never to texts that a person writes.
"""

from __future__ import annotations

from ledger.domain.scan.patterns import read


def is_tool_limitation(text: str) -> bool:
    """Return True if a text claims that a tool, or the agent itself, cannot do something."""
    (claim,) = read()["claims"].patterns
    return claim.compiled.search(text) is not None
