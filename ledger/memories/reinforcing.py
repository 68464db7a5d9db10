"""The command that gives an active memory one more reason to be believed."""

from __future__ import annotations

from ledger.core.pipeline import Writer
from ledger.core.who import Who
from ledger.core.work import Work
from ledger.domain import confidence as confidence_rules
from ledger.memories import answers
from ledger.memories import rules as memory_rules
from ledger.memories.admission import most_by
from ledger.memories.commands import change, emit
from ledger.memories.rules import MemoryState
from ledger.memories.sources import own, source_list
from projections.views import confidence as timeline


def reinforce(
    writer: Writer,
    asker: Who,
    id: str,
    amount: float | None = None,
    *,
    source: str | None = None,
) -> answers.Memory:
    delta = None if amount is None else confidence_rules.millionths("amount", amount)

    def body(work: Work, memory: MemoryState) -> None:
        interaction = work.load(own(work, source_list(source)[0]), "i") if source is not None else None
        if interaction is not None and timeline.counted(work.rows, memory.row, interaction.id):
            return
        policy = work.policy()
        echo = interaction is not None and memory.id in interaction.memories_used
        by_policy = confidence_rules.millionths("gain", policy.echo_gain if echo else policy.gain)
        name = interaction.id if interaction is not None else None
        gain = delta if delta is not None else by_policy
        if (most := most_by(work, memory)) is not None:
            gain = min(gain, most - memory.confidence)
        emit(work, memory, memory_rules.Reinforce(delta=gain, interaction=name, echo=echo))

    return change(writer, asker, "reinforce", id, body, (id, delta, source))
