"""What an assembly gives: the entries of a window with their texts, and how a provider takes them."""

from __future__ import annotations

from msgspec import Struct, field
from msgspec.structs import replace

from ledger.domain import rendering
from ledger.domain.message import Part, read_besides, readable
from ledger.domain.provider_forms import TOOL_RESULT, Fields
from ledger.domain.rendering import Content, Rendered
from ledger.domain.shortening import shortened
from ledger.domain.text import one_of
from ledger.domain.window import WindowItem
from ledger.engine.answer import Answer
from ledger.recall.packs import Pack, shown


def texts_of(pack: Pack | None) -> tuple[str, ...]:
    """What was recalled, one text each with its day: the items, then the observations with their proof and trend."""
    if pack is None:
        return ()
    return tuple(shown(item) for item in (*pack.items, *pack.observations) if item.content is not None)


PROVIDERS = {"openai": rendering.openai, "anthropic": rendering.anthropic}


class Entry(Answer, frozen=True, kw_only=True):
    """A message or summary with its texts; None where they were erased. ``item`` says which one it is, and which of its
    tool calls and results can be shown. Of ``shortened`` tool results so many characters each are there, and a mark of the
    rest, which the log has; None where they are whole."""

    item: WindowItem
    content: str | None
    reasoning: str = ""
    parts: tuple[Part, ...] = ()
    sources: tuple[str, ...] = ()
    descendants: int = 0
    earliest: str = ""
    latest: str = ""
    speaker: str = ""
    extra: Fields = field(default_factory=dict)  # of the message; its parts have their own
    quarantined: bool = False  # kept out of recall; a conversation is given as it was
    shortened: int | None = None

    def shortened_to(self, chars: int, tokens: int) -> Entry:
        """The entry with so many characters of each tool result, taking so many tokens."""
        position, parts = self.item.position, list[Part]()
        content = self.content
        for part in self.parts:
            text = part.get("text")
            if part["type"] == TOOL_RESULT and isinstance(text, str):
                cut = shortened(text, chars, position)
                content = cut if content == text else content
                part = part | {"text": cut}
            parts.append(part)
        item = replace(self.item, tokens=tokens)
        return replace(self, item=item, content=content, parts=tuple(parts), shortened=chars)

    @property
    def chars(self) -> int:
        """How many characters of text it has."""
        besides, _ = read_besides(self.parts, self.extra)
        return sum(map(len, (readable(self.content, self.parts), self.reasoning, *besides)))

    @property
    def as_content(self) -> Content:
        """As it is rendered: a text that lies in one of the parts is not said twice."""
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
    """What of the window is not in it: items, the messages that these stand for, and their tokens."""

    items: int = 0
    messages: int = 0
    tokens: int = 0


class Window(Answer, frozen=True, kw_only=True):
    """What a model is given of a session within a ``budget`` of tokens or characters (``unit``), oldest first.

    ``used`` is what all of it takes: the entries, the ``overhead`` of the note around summaries, and what was recalled
    (``pack``). ``left_out`` are entries that were considered and not taken, as (position, why); ``reasons`` are codes of
    ``ledger.domain.assembly.REASONS``. ``evicted`` counts in tokens; ``summaries_evicted`` are how many of them are summaries.
    ``receipt`` reopens it.
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
        return tuple(each.item for each in self.entries)

    @property
    def summary(self) -> str:
        """The summaries as one block of XML, with a note of what they are; "" without any."""
        return rendering.summary_block([each.as_content for each in self.entries if each.item.is_summary])

    @property
    def memories(self) -> tuple[str, ...]:
        """What was recalled, one text each."""
        return texts_of(self.pack)

    @property
    def memory_ids(self) -> tuple[str, ...]:
        """The ids of the memories among what was recalled, for ``capture(memories_used=…)``."""
        return self.pack.memory_ids if self.pack is not None else ()

    def __repr__(self) -> str:
        return f"<Window of {len(self.entries)}, {self.used:,} of {self.budget:,} {self.unit}>"

    def render(self, provider: str = "openai", *, system: str = "") -> Rendered:
        """Messages as a provider takes them ("openai" for chat completions, "anthropic" for messages). Summaries and what
        was recalled come first, as data in a user's message and never among instructions; ``system`` is the caller's own.
        ``extra`` goes to the provider that it is of; of ``cache_control`` the last four are given, which is all it takes.
        """
        one_of("provider", provider, tuple(PROVIDERS))
        return PROVIDERS[provider]([each.as_content for each in self.entries], memories=self.memories, system=system)
