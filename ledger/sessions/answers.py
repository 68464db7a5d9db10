"""What sessions answer: frozen objects with the same names in Python and in ``--json``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import field

from ledger.domain.message import Part, readable
from ledger.domain.metadata import Value
from ledger.domain.provider_forms import Fields
from ledger.engine.answer import Answer, answer_of
from projections.views.summaries import Summary as SummaryRow


class Message(Answer, frozen=True, kw_only=True):
    """A message, known by its ``position``, and as a source by its ``id``. ``content`` is its text, or the longest one of its
    ``parts``; None where it was erased. What a provider's message has besides is ``extra`` of it and of its parts, by
    provider. ``occurred_at`` and ``recorded_at`` are UTC text. Where a pattern keeps a session's messages out, or there was
    nothing to store, ``skipped`` says so and the position is 0."""

    id: str = ""
    position: int
    session: str | None
    role: str
    content: str | None
    reasoning: str | None
    parts: tuple[Part, ...]
    tokens: int
    counter: str
    model: str | None
    interaction: str | None
    occurred_at: str
    recorded_at: str
    speaker: str | None = ""
    extra: Fields = field(default_factory=dict)
    metadata: Mapping[str, Value] = field(default_factory=dict)
    hidden: str = ""  # "truncate", "replace" or "clear"
    quarantined: bool = False  # its text is kept out of recall; a conversation shows it as it was
    replayed: bool = False
    skipped: str = ""
    warnings: tuple[str, ...] = ()  # of an append: the secrets that were redacted, by field and kind

    @property
    def text(self) -> str:
        """All of it as one text for people."""
        return readable(self.content, self.parts)


class Summary(Answer, frozen=True, kw_only=True):
    """A summary in the graph over a session. ``status`` is "window", "under" (another was written from it), "replaced" (by
    one of the same messages), "invalid" or "erased"; ``level`` "normal", "aggressive" or "fallback". ``messages`` are how
    many it stands for, ``ranges`` their positions, ``summaries`` what it was written from (none: the messages)."""

    id: str
    session: str | None
    status: str
    kind: str
    level: str
    depth: int
    content: str | None
    tokens: int
    messages: int
    source_tokens: int
    ranges: tuple[tuple[int, int], ...]
    summaries: tuple[str, ...]
    descendants: int
    descendant_tokens: int
    earliest: str
    latest: str
    model: str | None
    prompt: str
    replaces: str | None
    position: int
    recorded_at: str


class SessionInfo(Answer, frozen=True, kw_only=True):
    """A session as it stands: ``messages`` are those not hidden, with their ``tokens``; the window is what of them, and
    which summaries instead, stands for the conversation."""

    id: str
    name: str | None
    aliases: tuple[str, ...]
    user: str | None
    project: str | None
    messages: int
    tokens: int
    hidden: int
    summaries: int
    window_items: int
    window_tokens: int
    has_abstract: bool
    recorded_at: str
    updated_at: str
    position: int
    cursor: int = 0  # the position up to which it was looked at for what to remember
    turns: int = 0  # captured in it as interactions


class HistoryChange(Answer, frozen=True, kw_only=True):
    """What became of a session's history: how many messages were kept, appended, repaired in place and hidden, and which
    summaries stand for nothing since; of a key used again the position alone. ``change`` is "none", "appended", "replaced",
    "truncated" or "cleared"; ``skipped`` says why nothing was done at all: "ignored", "stateless" or "empty"."""

    session: str | None
    change: str
    kept: int = 0
    appended: int = 0
    repaired: int = 0
    hidden: int = 0
    left_out: int = 0  # messages that say nothing, and are not stored
    invalidated: tuple[str, ...] = ()
    position: int = 0
    dry_run: bool = False
    replayed: bool = False
    skipped: str = ""
    warnings: tuple[str, ...] = ()  # the secrets that were redacted, by field and kind


class CompactionSkip(Answer, frozen=True, kw_only=True):
    """Something that was not compacted, and why: a code of ``ledger.domain.compaction.SKIPS``, or "ignored", "stateless",
    "under_way" (another compaction of the session is), "failed" (the summarizer; ``error`` says how) or "moved" (the window
    was no longer what was summarized)."""

    why: str
    kind: str
    messages: int = 0
    tokens: int = 0
    error: str = ""


class CompactionReport(Answer, frozen=True, kw_only=True):
    """What a compaction did: the summaries it made, what it passed over, and the window before and after. ``under`` says
    whether the window fits the ``budget``; ``calls`` is how often the summarizer was asked."""

    session: str
    created: tuple[Summary, ...] = ()
    skipped: tuple[CompactionSkip, ...] = ()
    tokens_before: int = 0
    tokens_after: int = 0
    items_before: int = 0
    items_after: int = 0
    budget: int | None = None
    under: bool | None = None
    calls: int = 0
    position: int = 0


def summary(row: SummaryRow, session: str | None, content: str | None, recorded_at: str) -> Summary:
    return answer_of(Summary, row, session=session, content=content, position=row.row, recorded_at=recorded_at)


def skipped(role: str, session: str, why: str, texts: Mapping[str, Any]) -> Message:
    """A message that was not stored."""
    return Message(
        position=0,
        session=session,
        role=role,
        content=texts.get("content", ""),
        reasoning=texts.get("reasoning", ""),
        parts=tuple(texts.get("parts", ())),
        extra=texts.get("extra", {}),
        metadata=texts.get("metadata", {}),
        tokens=0,
        counter="",
        model="",
        interaction=None,
        occurred_at="",
        recorded_at="",
        skipped=why,
    )
