"""The report of a run of jobs."""

from __future__ import annotations

from ledger.core.answer import Answer
from ledger.memories.answers import Memory


class JobReport(Answer, frozen=True, kw_only=True):
    """The results of a run of jobs.

    ``sessions`` counts those with messages that were read for memories; ``skipped`` of these ``messages`` held nothing.
    ``waiting`` sessions and turns are left for the next run. ``given_up`` are sessions whose extraction failed three times in a
    row: they wait for new messages, or for ``session.extract()``. ``conflicts`` were recorded, ``merges`` proposed. ``expiring``
    are the memories that a dry run would end. ``values`` counts the keyed values that had expired and were removed. ``stopped``
    is "timeout" or "cancelled" if work is left: it stays pending.
    """

    reinforced_interactions: int = 0
    reinforced_memories: int = 0
    extracted_interactions: int = 0
    sessions: int = 0
    messages: int = 0
    skipped: int = 0
    waiting: int = 0
    given_up: int = 0
    candidates: int = 0
    calls: int = 0
    expired: int = 0
    values: int = 0
    conflicts: int = 0
    merges: int = 0
    failures: int = 0
    consolidated: int = 0
    observations_formed: int = 0
    observations_revised: int = 0
    observations_retracted: int = 0
    stopped: str = ""
    expiring: tuple[Memory, ...] = ()
    dry_run: bool = False
