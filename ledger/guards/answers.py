"""The answers of ``ledger.guards``: an item in quarantine, and the report of a scan of everything stored."""

from __future__ import annotations

from ledger.core.call import Answer


class Quarantined(Answer, frozen=True, kw_only=True):
    """A memory or text in quarantine.

    ``position`` is the position of the event with the text, or of a memory's first event. ``kind`` is "memory", "interaction",
    "response", "message", "chunk", "summary", "state" or "observation". ``id`` is the id of the memory, interaction, session,
    chunk, summary, project or observation. ``finding`` is the label that ``scanner`` gave; both are empty if a person began the
    quarantine. ``since`` is the position of the event that began the quarantine.
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
    """A secret of a ``kind`` in a ``field`` of the event at ``position``. Only an erasure removes it."""

    position: int
    field: str
    kind: str
    user: str


class ScanReport(Answer, frozen=True, kw_only=True):
    """The numbers of memories and texts that a scan read, put into quarantine and released.

    ``scanners`` are the scanners that ran. ``secrets`` lists at most 1,000 of the ``secrets_found``. ``reached`` is the last
    position that was scanned. ``stopped`` is "timeout" or "cancelled" if events are left; a scan ``since=reached + 1``
    continues.
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


class Refusal(Answer, frozen=True, kw_only=True):
    position: int
    rule: str
    command: str
    subject: str | None
    actor: str | None
    recorded_at: str
    limit: int | None
    current: int | None
    requested: int | None
    finding: str
    scanner: str
