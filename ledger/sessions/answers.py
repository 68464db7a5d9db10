"""The answers of sessions: frozen objects with the same names in Python and in ``--json``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import field

from ledger.core.call import Answer, answer_of
from ledger.domain.metadata import Value
from ledger.sessions.rules import chat_form
from ledger.sessions.rules.message import Part, readable
from ledger.sessions.rules.provider_forms import Fields
from ledger.types import Json
from projections.views.summaries import SummaryRow as SummaryRow


class Message(Answer, frozen=True, kw_only=True):
    """A message of a session.

    Commands on the session name the message by its ``position``; ``erase`` and sources name it by its ``id``. ``content`` is the
    text of the message, or the longest text of its ``parts``; None if the text was erased. ``extra`` has, by provider, the fields
    of a provider's message for which this class has no field; parts have their own ``extra``. ``raw`` is the JSON that was
    given with the message, or None. ``occurred_at`` and
    ``recorded_at`` are UTC text. If a pattern keeps the session's messages out, or there is nothing to store, ``skipped`` has the
    reason and the position is 0.
    """

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
    raw: Json = None
    hidden: str = ""  # "truncate", "replace", "clear" or "remove"
    quarantined: bool = False  # True if recall does not return the text; the session still shows the text
    replayed: bool = False
    skipped: str = ""
    warnings: tuple[str, ...] = ()  # of an append: the secrets that were redacted, and whether it is in quarantine

    @property
    def text(self) -> str:
        """Return the whole message as one text for people."""
        return readable(self.content, self.parts)

    def as_chat(self) -> Fields:
        """Return the message as an entry of a chat, which ``reconcile``, ``replace`` and ``ledger.add`` read.

        The entry has role and content, and those of tool_calls, tool_call_id, media, reasoning, model, created_at, name, extra
        and metadata that the message has; other parts are in ``parts``. The entry has no id, no position and no raw. An erased
        text is "(erased)".
        """
        content = self.content if self.content is not None else chat_form.ERASED
        by = "speaker" if self.role == "tool" else "name"  # the name in a tool's message is the function's
        more = {
            by: self.speaker,
            "reasoning": self.reasoning,
            "model": self.model,
            "created_at": self.occurred_at,
            "extra": self.extra,
            "metadata": self.metadata,
        }
        entry = {"role": self.role, "content": content} | chat_form.of_parts(self.role, content, self.parts)
        return entry | {name: value for name, value in more.items() if value}


class Summary(Answer, frozen=True, kw_only=True):
    """A summary of messages or of other summaries of a session.

    ``status`` is "window", "under" (another summary was written from this summary), "replaced" (by a summary of the same
    messages), "invalid" or "erased". ``level`` is "normal", "aggressive", "excerpt" or "fallback". ``messages`` is
    the number of messages that the summary stands for, ``ranges`` their positions. ``summaries`` are the ids of the summaries
    from which it was written; empty for a summary of messages. ``replayed`` is True if the command had been given before with
    its idempotency key.
    """

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
    replayed: bool = False


class SessionInfo(Answer, frozen=True, kw_only=True):
    """The state of a session: names, counts and the size of its window.

    ``messages`` and ``tokens`` count the messages that are not hidden. The window consists of the messages and summaries that
    stand for the conversation.
    """

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
    cursor: int = 0  # the position up to which extraction has read the session
    turns: int = 0  # interactions that were captured in the session
    metadata: Mapping[str, Value] = field(default_factory=dict)


class HistoryChange(Answer, frozen=True, kw_only=True):
    """The effect of a command on a session's history.

    ``kept``, ``appended``, ``repaired`` and ``hidden`` count messages. ``invalidated`` are the summaries that the command took
    out of use. ``change`` is "none", "appended", "repaired", "replaced", "truncated", "cleared", "removed" or "invalidated".
    ``skipped`` is the reason why nothing was done at all: "ignored", "stateless" or "empty". If an idempotency key was used
    again, only the position is known.
    """

    session: str | None
    change: str
    kept: int = 0
    appended: int = 0
    repaired: int = 0
    hidden: int = 0
    left_out: int = 0  # messages without any content, which are not stored
    invalidated: tuple[str, ...] = ()
    position: int = 0
    dry_run: bool = False
    replayed: bool = False
    skipped: str = ""
    warnings: tuple[str, ...] = ()  # the secrets that were redacted, and the texts in quarantine


class CompactionSkip(Answer, frozen=True, kw_only=True):
    """Items that were not compacted, with the reason.

    ``why`` is a code of ``ledger.sessions.rules.compaction.SKIPS``; for "over_budget" and "out_of_steps", ``tokens`` is the size
    that the window would need. Or ``why`` is "ignored", "stateless", "under_way" (another compaction of the session runs),
    "failed" (the summarizer failed; ``error`` is the kind of the failure), "moved" (the window changed while the summary was
    written) or "unread" (the model failed to extract memories; the messages wait for the next extraction).
    """

    why: str
    kind: str
    messages: int = 0
    tokens: int = 0
    error: str = ""


class CompactionReport(Answer, frozen=True, kw_only=True):
    """The effect of a compaction: the new summaries, the items that were not compacted, and the window before and after.

    ``under`` is True if ``window(budget)`` holds everything. ``calls`` counts the calls of the summarizer. ``remembered`` are the
    ids of the memories that ``extract=True`` found in the messages before a summary took their place.
    """

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
    remembered: tuple[str, ...] = ()


def summary(row: SummaryRow, session: str | None, content: str | None, recorded_at: str) -> Summary:
    return answer_of(Summary, row, session=session, content=content, position=row.row, recorded_at=recorded_at)


def skipped(role: str, session: str, why: str, texts: Mapping[str, Any]) -> Message:
    """Return the answer for a message that was not stored."""
    return Message(
        position=0,
        session=session,
        role=role,
        content=texts.get("content", ""),
        reasoning=texts.get("reasoning", ""),
        parts=tuple(texts.get("parts", ())),
        extra=texts.get("extra", {}),
        metadata=texts.get("metadata", {}),
        raw=texts.get("raw"),
        tokens=0,
        counter="",
        model="",
        interaction=None,
        occurred_at="",
        recorded_at="",
        skipped=why,
    )
