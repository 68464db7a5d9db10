"""The answer of an assembly: a window's entries with their texts, and their form for a provider."""

from __future__ import annotations

from msgspec import Struct, field
from msgspec.structs import replace

from ledger.core.call import Answer
from ledger.domain.text import one_of
from ledger.recall.packs import Pack, shown
from ledger.sessions.rules import excerpts, rendering
from ledger.sessions.rules.anthropic_rendering import anthropic
from ledger.sessions.rules.message import Part, read_besides, readable
from ledger.sessions.rules.openai_rendering import openai
from ledger.sessions.rules.provider_forms import TOOL_RESULT, Fields
from ledger.sessions.rules.rendering import Content, Rendered
from ledger.sessions.rules.shortening import excerpted, shortened
from ledger.sessions.rules.window import WindowItem


def texts_of(pack: Pack | None) -> tuple[str, ...]:
    """Return the texts of a pack with their days: first the items, then the observations with their proof and trend."""
    if pack is None:
        return ()
    return tuple(shown(item) for item in (*pack.items, *pack.observations) if item.content is not None)


PROVIDERS = {"openai": openai, "anthropic": anthropic}


class Entry(Answer, frozen=True, kw_only=True):
    """A message or summary with its texts; a text is None if it was erased.

    ``item`` identifies the message or summary, and names the tool calls and results that can be shown. If the tool results were
    cut, ``shortened`` is the number of characters that each result keeps, followed by a mark; so is that of a message that does
    not fit whole, and of an excerpt without its lightest lines. None if nothing is cut.
    """

    item: WindowItem
    content: str | None
    reasoning: str = ""
    parts: tuple[Part, ...] = ()
    sources: tuple[str, ...] = ()
    descendants: int = 0
    earliest: str = ""
    latest: str = ""
    speaker: str = ""
    extra: Fields = field(default_factory=dict)  # the fields of the message for its provider; parts have their own
    quarantined: bool = False  # True if recall does not return the text; the session still shows the text
    shortened: int | None = None

    def shortened_to(self, chars: int, tokens: int) -> Entry:
        """Return the entry cut to ``chars`` characters, and with the size ``tokens``.

        Of a message with tool results each result is cut, of another message the text, of an excerpt the lightest lines.
        """
        position, parts = self.item.position, list[Part]()
        content = self.content
        if self.item.is_summary:
            item = replace(self.item, tokens=tokens)
            return replace(self, item=item, content=excerpts.shorter(content or "", chars), shortened=chars)
        for part in self.parts:
            text = part.get("text")
            if part["type"] == TOOL_RESULT and isinstance(text, str):
                cut = shortened(text, chars, position)
                content = cut if content == text else content
                part = part | {"text": cut}
            elif isinstance(text, str) and text == self.content and not self.item.results:
                part = part | {"text": excerpted(text, chars, position)}
            parts.append(part)
        if not self.item.results:
            content = excerpted(content or "", chars, position)
        item = replace(self.item, tokens=tokens)
        return replace(self, item=item, content=content, parts=tuple(parts), shortened=chars)

    @property
    def chars(self) -> int:
        """Return the number of characters of the entry's texts."""
        besides, _ = read_besides(self.parts, self.extra)
        return sum(map(len, (readable(self.content, self.parts), self.reasoning, *besides)))

    @property
    def as_content(self) -> Content:
        """Return the entry in the form for rendering; a content that a part repeats is left out."""
        content = self.content if self.content is not None else "(erased)"
        content = "" if any(part.get("text") == content for part in self.parts) else content
        return Content(
            item=self.item,
            content=content,
            reasoning=self.reasoning,
            parts=self.parts,
            sources=self.sources,
            descendants=self.descendants,
            earliest=self.earliest,
            latest=self.latest,
            speaker=self.speaker,
            extra=self.extra,
        )


class Evicted(Struct, frozen=True):
    """The part of the window that was left out: the items, the messages that the items stand for, and their tokens.

    ``tokens`` counts the cut parts of shortened entries too. The object is false if nothing was left out.
    """

    items: int = 0
    messages: int = 0
    tokens: int = 0

    def __bool__(self) -> bool:
        return self.items > 0 or self.tokens > 0


class Window(Answer, frozen=True, kw_only=True):
    """The entries of a session for a model, oldest first, within a ``budget`` of tokens or characters (``unit``).

    ``used`` is the size of the entries, of the text around summaries and memories (``overhead``), and of the recalled memories
    (``pack``). ``left_out`` holds (position, reason) of entries that fit but cannot be shown. ``reasons`` are codes of
    ``ledger.sessions.rules.assembly.REASONS``. ``evicted`` is the part of the window that does not fit, always in tokens;
    ``summaries_evicted`` is the number of summaries among it. ``receipt`` is the id by which ``reopen`` returns the same window.
    """

    session: str
    budget: int
    entries: tuple[Entry, ...] = ()
    used: int = 0
    unit: str = "tokens"
    over_budget: bool = False
    reasons: tuple[str, ...] = ()
    evicted: Evicted = Evicted()
    summaries_evicted: int = 0
    left_out: tuple[tuple[int, str], ...] = ()
    overhead: int = 0
    pack: Pack | None = None
    seen: int | None = None
    receipt: str | None = None
    skipped: str = ""

    @property
    def items(self) -> tuple[WindowItem, ...]:
        return tuple(entry.item for entry in self.entries)

    @property
    def summary(self) -> str:
        """Return the summaries as one block of XML with a note that explains it; "" without summaries."""
        return rendering.summary_block([entry.as_content for entry in self.entries if entry.item.is_summary])

    @property
    def memories(self) -> tuple[str, ...]:
        """Return the recalled texts."""
        return texts_of(self.pack)

    @property
    def memory_ids(self) -> tuple[str, ...]:
        """Return the ids of the recalled memories, for ``capture(memories_used=…)``."""
        return self.pack.memory_ids if self.pack is not None else ()

    def __repr__(self) -> str:
        return f"<Window of {len(self.entries)}, {self.used:,} of {self.budget:,} {self.unit}>"

    def render(self, provider: str = "openai", *, system: str = "") -> Rendered:
        """Return the window as messages for a provider.

        Summaries and recalled memories come first, as data in a user's message and never among instructions. The ``extra`` of a
        message is rendered only for its provider. Only the last four ``cache_control`` marks are rendered, the most that the
        provider accepts.

        Args:
            provider: "openai" for chat completions, "anthropic" for messages.
            system: The caller's own instructions.
        """
        one_of("provider", provider, tuple(PROVIDERS))
        return PROVIDERS[provider]([entry.as_content for entry in self.entries], memories=self.memories, system=system)
