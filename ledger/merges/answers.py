"""What merges and conflicts come back as."""

from __future__ import annotations

from ledger.answers import Memory
from ledger.engine.answer import Answer


class Merge(Answer, frozen=True, kw_only=True):
    """Memories that say nearly the same, as they are now. ``status``: proposed, obsolete (a proposal whose members are others
    by now; ``why`` says how), merged or rejected.

    ``similarity`` is the least of two members when it was proposed, from 0 to 1; ``content`` how the one memory would read,
    or reads; ``memory`` the id of what they became.
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
    """Memories that give one attribute values that cannot both be true. ``status``: open, resolved (somebody decided), or
    lapsed (its members no longer clash, by themselves).

    ``values`` are what each member said when it was found, by its id; ``action`` is "keep" (the ``winner``), "accept", or "".
    ``newest`` is the member of an open conflict that holds since last: ``resolve`` with it lets the newer supersede the older.
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
    """What a search for near duplicates proposed; ``cut_short`` counts memories with too many similar memories to compare."""

    proposed: tuple[Merge, ...] = ()
    looked_at: int = 0
    cut_short: int = 0


class ConflictReport(Answer, frozen=True, kw_only=True):
    """The conflicts that a search found and recorded."""

    found: tuple[Conflict, ...] = ()
