"""The answer of a recall: ranked items with the signals of each, the cut items with reasons, and the number searched.

Items are packed within a budget. Each item that is left out has the reason in ``cut``.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import field
from msgspec.structs import replace

from ledger.core.call import Answer
from ledger.domain.text import FENCE, fence_width, fenced, normalise, one_line
from ledger.english.dates import MONTHS
from ledger.memories.answers import Memory
from ledger.observations.answers import Observation
from ledger.projects.answers import StateEntry
from ledger.recall.request import UNITS, RecallRequest

MEMORY, OBSERVATIONS = "memory", "observations"  # labels of the blocks


class Passage(Answer, frozen=True, kw_only=True):
    """A piece of a captured, said or ingested text, or of a value, in its own words: characters ``start`` to ``end``.

    ``id`` is the id of the interaction, chunk, value or, for a message, of the session; then ``position`` names the message, and
    ``message`` is its id, which ``erase`` and ``session.message`` take.
    ``field`` is "prompt" or "response" of an interaction, "content" or "parts" of a message. ``content`` is None if the text was
    erased; the content of a JSON value has a line for each field. ``speaker`` is the role of the speaker, for example "user" or
    "assistant", with the name of the speaker if the message has a name; "" for a chunk or a value. ``heading_path`` has the
    headings above a chunk, or the labels and the key of a value. ``metadata`` is the JSON that came with a chunk.
    """

    id: str
    field: str
    start: int
    end: int
    content: str | None
    user: str | None
    project: str | None
    session: str | None
    occurred_at: str
    position: int
    document: str | None = None
    heading_path: tuple[str, ...] = ()
    speaker: str = ""
    message: str | None = None
    metadata: dict[str, object] = msgspec.field(default_factory=dict)


class Item(Answer, frozen=True, kw_only=True):
    """An entry of a pack: a memory, turn, message, chunk of a document, value, trusted state or observation.

    ``score`` ranks the items of one pack; it is 0 or more, and ``signals`` are its parts. ``match`` is absolute, from 0 to 1, so
    that a weak match shows: the share of the question's words that the item has, weighted by rarity, or with an embedder the
    cosine if that is more. ``content`` is the text in the pack. ``cut`` is the reason why the item is not in the pack, "" in the
    pack. ``conflicts`` are the ids of the open conflicts of a memory. ``section`` is the section of a context
    that the item is in: "pinned", "session", "profile", "answer", "turn" or "latest".
    """

    rank: int
    score: float
    match: float = 0.0
    source: str
    id: str
    content: str | None
    signals: dict[str, float] = field(default_factory=dict)
    cut: str = ""
    memory: Memory | None = None
    passage: Passage | None = None
    state: StateEntry | None = None
    conflicts: tuple[str, ...] = ()
    observation: Observation | None = None
    section: str = ""

    @property
    def whole(self) -> str | None:
        """Return the whole text of the memory, passage or value. Packing by shares shortens only ``content``."""
        if self.memory is not None:
            return self.memory.content
        return self.passage.content if self.passage is not None else self.content


class Pack(Answer, frozen=True, kw_only=True):
    """The answer of a recall, best first: the ``items`` that fit the budget, and the items that were ``cut``, with reasons.

    ``observations`` have their own list and ranks; each says what several sources have in common. ``searched`` is the number of
    memories, turns, messages and chunks that were searched. ``used`` is the size of ``as_text()`` in the ``unit`` of the
    ``budget``. ``seen`` is the log position of the snapshot. ``receipt`` is the id for ``reopen()``, if a receipt was asked for.
    ``changed`` of a reopened pack lists the changes since.
    """

    items: tuple[Item, ...]
    cut: tuple[Item, ...] = ()
    searched: int = 0
    budget: int | None = None
    used: int = 0
    unit: str = "chars"
    warnings: tuple[str, ...] = ()
    receipt: str | None = None
    seen: int | None = None
    changed: tuple[str, ...] = ()
    observations: tuple[Item, ...] = ()

    @property
    def memory_ids(self) -> tuple[str, ...]:
        """Return the ids of the memories in the pack, best first, for ``capture(memories_used=…)``."""
        return tuple(item.id for item in self.items if item.memory is not None)

    @property
    def nothing(self) -> str:
        """Return a sentence for people about a pack without items: nothing was found, or nothing fits."""
        unfit = sum(item.cut not in ("rank", "match") for item in self.cut)
        why = f"nothing fits, {unfit:,} found" if unfit else "nothing found"
        return f"{why}, {self.searched:,} searched"

    def __repr__(self) -> str:
        bound = f" of {self.budget:,}" if self.budget is not None else ""
        return f"<Pack of {len(self.items)}, {self.used:,}{bound} {self.unit}>"

    def __str__(self) -> str:
        """Return ``as_text()``, so that ``print(pack)`` shows the text for the prompt."""
        return self.as_text()

    def _repr_html_(self) -> str:
        """Return ``as_text()`` for a notebook, with the number of items and the size."""
        from ledger.domain.html import escaped, preformatted

        return f"<p>{escaped(repr(self))}</p>{preformatted(self.as_text() or self.nothing)}"

    def as_text(self, *, ids: bool = False) -> str:
        """Return the items as a fenced list with a line for each, then the observations as a second list.

        Every character is escaped that could act on the program that shows the text. A line begins with the day since which a
        memory holds, or the day and speaker of a turn. An observation's line has the number of its sources and their trend. The
        text is data: put it where a user's words go, never among instructions. An empty pack is an empty text.

        Args:
            ids: Begin each line with the id of its item. The budget does not count the ids.
        """
        blocks = ((MEMORY, self.items), (OBSERVATIONS, self.observations))
        return "\n".join(fenced([line(item, id=ids) for item in items], label) for label, items in blocks if items)

    def with_text(self) -> dict[str, object]:
        """Return ``to_dict()`` with one more key, ``text``: ``as_text()`` for a program that has the pack as JSON alone."""
        return {**self.to_dict(), "text": self.as_text()}


def line(item: Item, *, id: bool = False) -> str:
    """Return an item as a line of ``as_text()``."""
    return f"- {f'[{item.id}] ' if id else ''}{one_line(shown(item))}"


def shown(item: Item) -> str:
    """Return the text of an item after its day and, for a turn, its speaker.

    The text of an observation ends with the number of its sources and their trend.
    """
    text, before = "(erased)" if item.content is None else item.content, dated(item)
    if item.observation is not None:
        sources = item.observation.proof_count
        text = f"{text} ({sources} source{'s' * (sources != 1)}, {item.observation.trend})"
    return f"{before}: {text}" if before else text


def dated(item: Item) -> str:
    """Return the day and the speaker that stand before an item's text."""
    if item.memory is not None:
        return day(item.memory.valid_from)
    if item.passage is not None:
        named = "/".join(item.passage.heading_path) if item.source == "value" else item.passage.speaker
        return f"{day(item.passage.occurred_at)} {named or 'document'}".strip()
    if item.state is not None:
        return day(item.state.recorded_at)
    if item.observation is not None:
        return day(max((source.at for source in item.observation.sources), default=item.observation.revised_at))
    return ""


def day(moment: str) -> str:
    """Return the day of a moment in the form that a model reads with few tokens: "6 Nov 2026"."""
    return f"{int(moment[8:10])} {MONTHS[int(moment[5:7]) - 1][:3].title()} {moment[:4]}"


# --- packing within a budget -----------------------------------------------------------------------------------------


def packed(request: RecallRequest, items: Sequence[Item], searched: int, warnings: tuple[str, ...]) -> Pack:
    """Return the pack of ranked items: up to ``limit`` within the budget; with ``explain`` all others are listed as cut."""
    within, beyond = items[: request.limit], items[request.limit :] if request.explain else ()
    fit = prefix if request.packing == "prefix" else greedy
    lengths = sizes(within, request.unit) if request.budget is not None else [0] * len(within)
    reasons = [*fit(lengths, inside(request.budget, request.unit)), *["rank"] * len(beyond)]
    return finished([*within, *beyond], reasons, searched, request.budget, request.unit, warnings)


def with_weak(pack: Pack, weak: Sequence[Item]) -> Pack:
    """Return the pack with the items that match too little listed after the other cut items."""
    known = {item.id for item in (*pack.items, *pack.cut)}
    fresh = [replace(item, cut="match") for item in weak if item.memory is None or item.id not in known]
    return replace(
        pack,
        cut=(
            *pack.cut,
            *(replace(item, rank=rank) for rank, item in enumerate(fresh, 1 + len(pack.items) + len(pack.cut))),
        ),
    )


def contents_of(pack: Pack) -> set[str]:
    """Return the normalised texts of a pack's items."""
    return {normalise(item.whole) for item in pack.items if item.whole is not None}


def finished(
    items: Sequence[Item],
    reasons: Sequence[str],
    searched: int,
    budget: int | None,
    unit: str,
    warnings: tuple[str, ...] = (),
) -> Pack:
    marked = [replace(item, cut=why) if why else item for item, why in zip(items, reasons, strict=True)]
    kept = tuple(item for item in marked if not item.cut)
    pack = Pack(
        items=kept,
        cut=tuple(item for item in marked if item.cut),
        searched=searched,
        budget=budget,
        unit=unit,
        warnings=warnings,
    )
    return measured(pack)


# --- sizes of lines --------------------------------------------------------------------------------------------------


def sizes(items: Sequence[Item], unit: str) -> list[int]:
    """Return the size of each item's line in ``as_text()``, with the fence that its backticks make longer."""
    measure = UNITS[unit]
    lines = [line(item) for item in items]
    return [measure(f"{text}\n") + 2 * measure("`" * (fence_width([text]) - FENCE)) for text in lines]


def inside(budget: int | None, unit: str) -> int | None:
    """Return the part of a budget that is left for items besides the fence and its label."""
    return None if budget is None else max(0, budget - UNITS[unit](fenced([], MEMORY)))


def measured(pack: Pack) -> Pack:
    return replace(pack, used=UNITS[pack.unit](pack.as_text()))


# --- the entries that fit --------------------------------------------------------------------------------------------


def greedy(sizes: Sequence[int], budget: int | None) -> list[str]:
    """Return for each entry "" if it fits, else the reason; an entry that does not fit is passed over."""
    used, reasons = 0, list[str]()
    for size in sizes:
        full = budget is not None and used + size > budget
        used += 0 if full else size
        reasons.append("budget" if full else "")
    return reasons


def prefix(sizes: Sequence[int], budget: int | None) -> list[str]:
    """Return the reasons as ``greedy`` does, but cut every entry after the first that does not fit.

    No entry takes the place of a better one, as in rubino and picoclaw.
    """
    reasons = greedy(sizes, budget)
    cut = next((at for at, why in enumerate(reasons) if why), len(sizes))
    return reasons[:cut] + ["budget"] * (len(sizes) - cut)
