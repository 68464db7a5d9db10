"""What a recall gives: ranked items with the reason for each, what was cut and why, and how many were searched."""

from __future__ import annotations

from msgspec import field

from ledger.answers import Memory, StateEntry
from ledger.domain.harmless import fenced, one_line
from ledger.domain.passages import ASSISTANTS, PEOPLE, speaker
from ledger.domain.question import folded
from ledger.engine.answer import Answer
from ledger.observations.answers import Observation

MEMORY, OBSERVATIONS = "memory", "observations"  # labels of the blocks


class Passage(Answer, frozen=True, kw_only=True):
    """A piece of something that was captured, said or ingested, in its own words: characters ``start`` to ``end`` of it.

    ``id`` is the interaction's or chunk's, of a message its session's, which has it at ``position``; ``field`` is "prompt" or
    "response" of an interaction, "content" or "parts" of a message. The content is None where it was erased since. ``speaker``
    is the role of who said it, "user" or "assistant" for example, and the name where a message was given one; "" of a chunk.
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


class Item(Answer, frozen=True, kw_only=True):
    """One entry of a pack: a memory, a turn of an interaction, a message of a session, a chunk of a
    document, trusted state, or an observation.

    ``score`` ranks the items of one pack: it is from 0, and ``signals`` are the parts that it was made of. ``match`` is from 0
    to 1 and absolute, so that a weak one shows: the share of the question's words that the item says, each by how rare
    it is; with an embedder the cosine, where that is more. ``content`` is what the pack shows of it; ``cut`` says why
    it is not in the pack, and is "" in it. ``conflicts`` are the ids of the open ones in which a memory stands. ``section``
    is that of a context: "pinned", "profile", "answer", "turn" or "latest".
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
        """The whole text of the memory, passage or value; packing by shares shortens ``content``."""
        if self.memory is not None:
            return self.memory.content
        return self.passage.content if self.passage is not None else self.content


class Pack(Answer, frozen=True, kw_only=True):
    """What a recall found, best first: the ``items`` that fit the budget, and those ``cut``, each with its reason.

    ``observations`` are a list of their own, with ranks of their own: what several sources have in common, next to them.
    ``searched`` is among how many memories, turns, messages and chunks; ``used`` is what ``as_text()`` takes of the ``budget`` in
    its ``unit``. ``seen`` is the log position that it is of; ``receipt`` the id to ``reopen()`` it by, where one was
    asked for; ``changed`` what changed since, in a reopened one.
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
        """The ids of the memories in the pack, best first, for ``capture(memories_used=…)``."""
        return tuple(item.id for item in self.items if item.memory is not None)

    @property
    def nothing(self) -> str:
        """What to say where there are no items: that nothing was found, or that nothing of it fits; for people."""
        unfit = sum(item.cut not in ("rank", "match") for item in self.cut)
        why = f"nothing fits, {unfit:,} found" if unfit else "nothing found"
        return f"{why}, {self.searched:,} searched"

    def __repr__(self) -> str:
        bound = f" of {self.budget:,}" if self.budget is not None else ""
        return f"<Pack of {len(self.items)}, {self.used:,}{bound} {self.unit}>"

    def __str__(self) -> str:
        """Return ``as_text()``, so that ``print(pack)`` shows the text for the prompt."""
        return self.as_text()

    def as_text(self, *, ids: bool = False) -> str:
        """The items as a fenced list, one line each, with every character escaped that could act on whoever shows it; then
        the observations as another, with how many sources bear each out and how they come in. A line begins with the day
        since which a memory holds, or on which a turn was said, and by whom.

        What is recalled is data: put it where a user's words go, never among instructions. An empty pack is an empty text.

        Args:
            ids: Begin each line with the id of what it shows. The budget does not count the ids.
        """
        blocks = ((MEMORY, self.items), (OBSERVATIONS, self.observations))
        return "\n".join(fenced([line(each, id=ids) for each in items], label) for label, items in blocks if items)


SPEAKERS = {"prompt": "user", "response": "assistant"}  # of the texts of an interaction


def spoken_by(corpus: str, field: str, role: str, name: str, text: str) -> str:
    """Return the ``speaker`` of a passage; the folded name is left out where the text begins with it."""
    if corpus == "chunk":
        return ""
    role = role or SPEAKERS.get(field, "")
    known = (*PEOPLE, *ASSISTANTS, "", folded(speaker(text)[0]))
    return role if name in known else f"{role} ({name})"


def line(item: Item, *, id: bool = False) -> str:
    """An item as a line of ``as_text()``."""
    return f"- {f'[{item.id}] ' if id else ''}{one_line(shown(item))}"


def shown(item: Item) -> str:
    """An item as it is shown: the day since which it holds or on which it was said, of a turn the speaker, then the text; of
    an observation also how many sources support it, and how they come in."""
    text, before = "(erased)" if item.content is None else item.content, dated(item)
    if item.observation is not None:
        sources = item.observation.proof_count
        text = f"{text} ({sources} source{'s' * (sources != 1)}, {item.observation.trend})"
    return f"{before}: {text}" if before else text


def dated(item: Item) -> str:
    """The day and the speaker that stand before an item's text."""
    if item.memory is not None:
        return day(item.memory.valid_from)
    if item.passage is not None:
        return f"{day(item.passage.occurred_at)} {item.passage.speaker or 'document'}".strip()
    if item.state is not None:
        return day(item.state.recorded_at)
    if item.observation is not None:
        return day(max((each.at for each in item.observation.sources), default=item.observation.revised_at))
    return ""


MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]


def day(moment: str) -> str:
    """Return the day of a moment as a model reads it for few tokens: "6 Nov 2026"."""
    return f"{int(moment[8:10])} {MONTHS[int(moment[5:7]) - 1]} {moment[:4]}"
