"""The answers about interactions: an interaction, its effect on memories, and an import's report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import field

from ledger.core.answer import Answer, answer_of
from ledger.domain import metadata as pairs_of

if TYPE_CHECKING:
    from ledger.interactions.rules import InteractionState as InteractionState


class Interaction(Answer, frozen=True, kw_only=True):
    """An interaction with its texts, which are None if they were erased or not asked for.

    ``reinforcement`` and ``extraction`` are "waiting", "pending", "done", "undone" (only a call looks again), "failed" or "off".
    ``skipped`` says why the interaction did not become messages of its session: "ignored" or "stateless". ``warnings`` of a
    capture and of an added response name the used ids that are not memories.
    """

    id: str
    prompt: str | None
    response: str | None
    summary: str | None
    user: str | None
    agent: str | None
    project: str | None
    client: str | None
    session: str | None
    memories_used: tuple[str, ...]
    chunks_used: tuple[str, ...]
    context: Any
    occurred_at: str
    recorded_at: str
    reinforcement: str
    extraction: str
    position: int
    replayed: bool = False
    absorbed: bool = False
    skipped: str = ""
    quarantined: bool = False  # a part of it is kept out of recall
    warnings: tuple[str, ...] = ()
    metadata: Mapping[str, pairs_of.Value] = field(default_factory=dict)


def interaction(
    state: InteractionState,
    names: Mapping[str, str],
    prompt: str | None,
    answer: Mapping[str, str | None],
    pack: object,
) -> Interaction:
    """Return an interaction's answer. ``answer`` has the response and its summary; ``pack`` is the recorded context."""
    return answer_of(
        Interaction,
        state,
        prompt=prompt,
        response=answer["response"],
        summary=answer["summary"],
        project=names.get(state.project or "", state.project),
        session=names.get(state.session or "", state.session),
        context=pack,
        occurred_at=state.occurred_at or state.recorded_at,
        metadata=pairs_of.of_row(state.metadata) if state.metadata else {},
    )


class Reinforcement(Answer, frozen=True, kw_only=True):
    """The effect of one interaction on memories.

    ``reinforced`` has (memory id, confidence before, confidence after); ``denied`` the ids of the memories that it denies.
    ``replayed`` means that nothing new was found, and that the answer is the recorded one.
    """

    interaction: str
    matcher: str
    pool_size: int
    reinforced: tuple[tuple[str, float, float], ...]
    echoes: int
    left_over: int
    denied: tuple[str, ...] = ()
    replayed: bool = False


class ImportReport(Answer, frozen=True, kw_only=True):
    """The result of an import, or of a ``dry_run``; ``errors`` are (line number, reason), ``warnings`` (line number, text).

    The first 1,000 of each are listed, and ``error_count`` and ``warning_count`` count all. ``stopped`` is "timeout" or
    "cancelled" if the import ended before the file: the same call continues.
    """

    path: str
    lines: int
    captured: int
    known: int
    errors: tuple[tuple[int, str], ...] = ()
    warnings: tuple[tuple[int, str], ...] = ()
    error_count: int = 0
    warning_count: int = 0
    correlation_id: str | None = None
    dry_run: bool = False
    stopped: str = ""
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Return True if no line was bad, and all lines were read."""
        return not self.error_count and not self.stopped
