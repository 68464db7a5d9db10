"""The answers about interactions: an interaction, its effect on memories, and the report of an import."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import field

from ledger.core.call import Answer, answer_of
from ledger.domain import metadata as pairs_of

if TYPE_CHECKING:
    from ledger.interactions.rules import InteractionState as InteractionState


class Interaction(Answer, frozen=True, kw_only=True):
    """An interaction with its texts; a text is None if it was erased, or if the call does not read it.

    ``reinforcement`` and ``extraction`` are "waiting" (for a response), "pending", "done", "undone" (only a call repeats the
    work), "failed", "off" or "erased". ``skipped`` is the reason why the interaction did not become messages of its session:
    "ignored" or "stateless". After a capture or an added response, ``warnings`` names the ids in ``memories_used`` that are not
    memories, the secrets that were redacted, and the texts in quarantine.
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
    quarantined: bool = False  # True if the prompt or the response is in quarantine
    warnings: tuple[str, ...] = ()
    metadata: Mapping[str, pairs_of.Value] = field(default_factory=dict)


def interaction(
    state: InteractionState,
    names: Mapping[str, str],
    prompt: str | None,
    answer: Mapping[str, str | None],
    pack: object,
) -> Interaction:
    """Return the answer for an interaction.

    Args:
        state: The state of the interaction.
        names: The names of projects and sessions by their ids.
        prompt: The prompt.
        answer: The response, unless it was not read, and its summary.
        pack: The recorded context.
    """
    return answer_of(
        Interaction,
        state,
        prompt=prompt,
        response=answer.get("response"),
        summary=answer["summary"],
        project=names.get(state.project or "", state.project),
        session=names.get(state.session or "", state.session),
        context=pack,
        occurred_at=state.occurred_at or state.recorded_at,
        metadata=pairs_of.of_row(state.metadata) if state.metadata else {},
    )


class Reinforcement(Answer, frozen=True, kw_only=True):
    """The effect of an interaction on memories.

    ``reinforced`` holds (memory id, confidence before, confidence after), and ``denied`` the ids of the memories that the
    response denies. ``pool_size`` is the number of memories with which the response was compared. ``echoes`` counts the
    reinforced memories that the model had been shown, and ``left_over`` the matches beyond the policy's limit. ``replayed`` is
    True if the response restates nothing new: the answer then is the recorded evaluation.
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
    """The result of an import, or the expected result (``dry_run``).

    ``errors`` holds (line number, reason), and ``warnings`` (line number, text). Each lists at most the first 1,000;
    ``error_count`` and ``warning_count`` count all. ``known`` is the number of lines that the ledger already had. ``stopped`` is
    "timeout" or "cancelled" if the import ended before the end of the file; the same call then continues.
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
        """Return True if all lines were read and none was bad."""
        return not self.error_count and not self.stopped
