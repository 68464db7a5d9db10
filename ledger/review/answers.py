"""The answers about merges and conflicts."""

from __future__ import annotations

from ledger.core.call import Answer
from ledger.memories.answers import Memory


class Merge(Answer, frozen=True, kw_only=True):
    """Memories that say nearly the same, as they are now.

    ``status`` is proposed, obsolete (a proposal whose memories changed; ``why`` explains the change), merged or rejected.
    ``similarity`` is the least similarity of two memories at the time of the proposal, from 0 to 1. ``content`` is the wording of
    the one memory, and ``memory`` the id of the memory that they became.
    """

    id: str
    status: str
    memories: tuple[Memory, ...]
    content: str | None
    similarity: float
    rule: str
    memory: str | None
    reason: str | None
    user: str | None
    project: str | None
    recorded_at: str
    position: int
    why: str = ""
    replayed: bool = False
    absorbed: bool = False


class Conflict(Answer, frozen=True, kw_only=True):
    """Memories that give an attribute values that cannot all be true.

    ``status`` is open, resolved (a person decided) or lapsed (the memories no longer clash, without a decision). ``values`` maps
    each memory's id to its value at the time of the conflict's discovery. ``action`` is "keep" (the ``winner``), "accept" or "".
    ``newest`` is the memory of an open conflict that began to hold last: ``resolve`` with ``newest`` lets the newer memory
    supersede the older ones.
    """

    id: str
    status: str
    attribute: str | None
    memories: tuple[Memory, ...]
    values: dict[str, str]
    action: str
    winner: str | None
    reason: str | None
    rule: str
    user: str | None
    project: str | None
    recorded_at: str
    position: int
    newest: str | None = None
    replayed: bool = False
    absorbed: bool = False


class MergeReport(Answer, frozen=True, kw_only=True):
    """The proposals of a search for near duplicates; ``cut_short`` counts memories with too many similar memories to compare."""

    proposed: tuple[Merge, ...] = ()
    looked_at: int = 0
    cut_short: int = 0


class ConflictReport(Answer, frozen=True, kw_only=True):
    """The conflicts that a search found and recorded."""

    found: tuple[Conflict, ...] = ()
