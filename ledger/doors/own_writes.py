"""The bounds of an agent that writes through a door: its greatest confidence, and the memories that it may take back.

These are the memories that nobody but its own client wrote or decided about.
"""

from __future__ import annotations

from collections.abc import Iterable

from ledger.answers import AuditEntry

MOST_CONFIDENCE = 0.6  # that the table of admission leaves to an agent's own words
EVENTS = 1_000  # of a memory that are looked at; with more, somebody else may have decided
POLICY = "policy:"  # begins the actor of what the ledger did by itself, such as the reinforcement of a restated memory


def written_by_others(events: Iterable[AuditEntry], client: str) -> AuditEntry | None:
    """Return the first event in effect that another client wrote, or a person through this client; None if there is none.

    A memory that was found in a conversation belongs to whom the conversation came from.
    """
    for entry in events:
        by_itself = (entry.actor or "").startswith(POLICY) and entry.type != "MemoryCaptured"
        if entry.in_effect and not by_itself and (entry.client, entry.channel) != (client, "agent"):
            return entry
    return None
