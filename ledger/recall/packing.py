"""From ranked items to a pack: bands and shares, what is cut and why, and how much is used."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from ledger import answers
from ledger.domain.harmless import FENCE, fence_width, fenced
from ledger.domain.text import normalise
from ledger.recall import fitting
from ledger.recall.asked import UNITS, Asked
from ledger.recall.packs import MEMORY, OBSERVATIONS, Item, Pack, line

IDENTITY = ("identity", "preference", "user_profile")


def of_state(project: str, entry: answers.StateEntry) -> Item:
    """Trusted state as an item: a person's word, which no ranking moves."""
    text = f"{entry.category}: {entry.name} = {entry.value}"
    return Item(rank=0, score=0.0, source="state", id=project, content=text, signals={"trusted": 1.0}, state=entry)


def band(item: Item, *, in_project: bool) -> str:
    """Which of ATOCore's shares an item belongs to."""
    if item.source == "state":
        return "state"
    if item.memory is not None and item.memory.kind in IDENTITY:
        return "identity"
    return "project" if in_project and item.memory is not None and item.memory.project is not None else fitting.REST


def packed(asked: Asked, items: Sequence[Item], searched: int, warnings: tuple[str, ...]) -> Pack:
    """The pack of ranked items: up to k within the budget; with ``explain`` all others are listed as cut."""
    within, beyond = items[: asked.k], items[asked.k :] if asked.explain else ()
    fit = fitting.prefix if asked.packing == "prefix" else fitting.greedy
    lengths = sizes(within, asked.unit) if asked.budget is not None else [0] * len(within)
    reasons = [*fit(lengths, inside(asked.budget, asked.unit)), *["rank"] * len(beyond)]
    return finished([*within, *beyond], reasons, searched, asked.budget, asked.unit, warnings)


def shared(
    asked: Asked, trusted: Sequence[Item], items: Sequence[Item], unasked: Sequence[Item], searched: int,
    warnings: tuple[str, ...],
) -> Pack:  # fmt: skip
    """The same by shares: trusted state, then what answers, then what is worth knowing whether or not it does."""
    together = [_short(item) for item in (*trusted, *items[: asked.k], *unasked)]
    bands = [band(item, in_project=asked.project is not None) for item in together]
    order = fitting.in_order(bands)
    shown = [replace(together[at], rank=rank) for rank, at in enumerate(order, 1)]
    room = inside(asked.budget, asked.unit) or 0
    reasons = fitting.by_shares([bands[at] for at in order], sizes(shown, asked.unit), room)
    if asked.explain:
        beyond = [replace(_short(item), rank=rank) for rank, item in enumerate(items[asked.k :], len(shown) + 1)]
        shown, reasons = [*shown, *beyond], [*reasons, *["rank"] * len(beyond)]
    return finished(shown, reasons, searched, asked.budget, asked.unit, warnings)


def with_weak(pack: Pack, weak: Sequence[Item]) -> Pack:
    """The pack with what matches too little listed behind what is cut."""
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
    """What the items of a pack say, in the form in which the same words are the same."""
    return {normalise(item.whole) for item in pack.items if item.whole is not None}


def with_observations(asked: Asked, pack: Pack, found: Sequence[Item]) -> Pack:
    """The pack with the best observations in what its items leave of the budget, so that it holds no item fewer for them.

    One that only repeats what is in the pack already is left out; of the best others those are in it that fit.
    """
    room = fitting.room_for_observations(asked.budget, pack.used + UNITS[asked.unit](fenced([], f"\n{OBSERVATIONS}")))
    marked, already, used, looked_at = list[Item](), contents_of(pack), 0, 0
    for item, size in zip(found, sizes(found, asked.unit), strict=True):
        words = normalise(item.content or "")
        if words in already:
            why = "repeated"
        elif looked_at == asked.observations:
            why = "rank"
        else:
            looked_at += 1
            why = "budget" if room is not None and used + size > room else ""
        if why == "rank" and not asked.explain:
            break
        marked.append(replace(item, cut=why))
        if not why:
            already.add(words)
            used += size
    shown, cut = tuple(item for item in marked if not item.cut), tuple(item for item in marked if item.cut)
    return measured(replace(pack, observations=shown, cut=(*pack.cut, *cut)))


def _short(item: Item) -> Item:
    return replace(item, content=fitting.shortened(item.content or ""))


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


# --- what a pack takes as a text -------------------------------------------------------------------------------------


def sizes(items: Sequence[Item], unit: str) -> list[int]:
    """What the line of each item adds to a pack's ``as_text()``, with what its backticks make the fence longer."""
    measure = UNITS[unit]
    lines = [line(item) for item in items]
    return [measure(f"{each}\n") + 2 * measure("`" * (fence_width([each]) - FENCE)) for each in lines]


def inside(budget: int | None, unit: str) -> int | None:
    """What the fence and label around the items leave of a budget."""
    return None if budget is None else max(0, budget - UNITS[unit](fenced([], MEMORY)))


def measured(pack: Pack) -> Pack:
    return replace(pack, used=UNITS[pack.unit](pack.as_text()))
