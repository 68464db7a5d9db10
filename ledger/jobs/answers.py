"""The report of a run of jobs."""

from __future__ import annotations

from ledger.core.call import Answer
from ledger.memories.answers import Memory


class JobReport(Answer, frozen=True, kw_only=True):
    """The results of a run of jobs.

    ``sessions`` counts the sessions whose messages were searched for memories, ``messages`` their messages, and ``skipped`` the
    messages that held nothing to remember. ``waiting`` counts the sessions and turns that are left for the next run.
    ``given_up`` counts the sessions whose extraction failed three times in a row: these wait for new messages, or for
    ``session.extract()``. ``conflicts`` counts the recorded conflicts, ``merges`` the proposed merges. ``expiring`` are the
    memories that a dry run would end. ``values`` counts the removed keyed values that had expired. ``stopped`` is "timeout" or
    "cancelled" if the run ended early; the work that is left stays pending. ``waiting_until`` is the time when a command as a
    model may be called again, if its calls or tokens of the day are used up: the jobs that need it wait, which is no failure.
    ``vectors`` counts the texts that got a vector; ``vectors_failure`` says why the embedder failed, if it did.
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
    vectors: int = 0
    stopped: str = ""
    waiting_until: str = ""
    vectors_failure: str = ""
    expiring: tuple[Memory, ...] = ()
    dry_run: bool = False
