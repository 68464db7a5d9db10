"""What the guards answer: what is in quarantine, and what a scan of everything stored came to."""

from __future__ import annotations

from ledger.engine.answer import Answer


class Quarantined(Answer, frozen=True, kw_only=True):
    """A memory, or a text by the ``position`` of the event that has it (of a memory its first).

    ``kind`` is "memory", "interaction", "response", "message", "chunk", "summary", "state" or "observation"; ``id`` that of
    the memory, interaction, session, chunk, summary, project or observation. ``finding`` is what a ``scanner`` found; without
    one somebody put it there. ``since`` is the position that did.
    """

    position: int
    id: str
    kind: str
    finding: str
    scanner: str
    since: int
    recorded_at: str
    quarantined: bool = True
    replayed: bool = False


class StoredSecret(Answer, frozen=True, kw_only=True):
    """A secret of this ``kind`` in a ``field`` of the event at a ``position``: only an erasure takes it out."""

    position: int
    field: str
    kind: str
    user: str


class ScanReport(Answer, frozen=True, kw_only=True):
    """What a scan of everything stored came to: how many memories and texts it read, put into quarantine and let out of it.

    ``scanners`` looked; ``secrets`` are those found, at most 1,000, and ``secrets_found`` how many there are. ``reached`` is
    the last position that was scanned; ``stopped`` is "timeout" or "cancelled" where more are left, which a scan
    ``since=reached + 1`` goes on with.
    """

    scanners: tuple[str, ...]
    memories: int
    texts: int
    quarantined: int
    released: int
    secrets: tuple[StoredSecret, ...]
    secrets_found: int
    dry_run: bool = False
    reached: int = 0
    stopped: str = ""
