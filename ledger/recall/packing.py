"""From ranked items to a pack: bands and shares, what is cut and why, and how much is used."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from ledger import answers
from ledger.domain.text import normalise
from ledger.recall import fitting
from ledger.recall.asked import UNITS, Asked
from ledger.recall.packs import Item, Pack

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
    sizes = [UNITS[asked.unit](item.content or "") for item in within]
    reasons = [*fitting.prefix(sizes, asked.budget), *["rank"] * len(beyond)]
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
    sizes = [UNITS[asked.unit](item.content or "") for item in shown]
    reasons = fitting.by_shares([bands[at] for at in order], sizes, asked.budget or 0)
    if asked.explain:
        beyond = [replace(_short(item), rank=rank) for rank, item in enumerate(items[asked.k :], len(shown) + 1)]
        shown, reasons = [*shown, *beyond], [*reasons, *["rank"] * len(beyond)]
    return finished(shown, reasons, searched, asked.budget, asked.unit, warnings)


def contents_of(pack: Pack) -> set[str]:
    """What the items of a pack say, in the form in which the same words are the same."""
    return {normalise(item.whole) for item in pack.items if item.whole is not None}


def with_observations(asked: Asked, pack: Pack, found: Sequence[Item]) -> Pack:
    """The pack with the best observations in what its items leave of the budget, so that it holds no item fewer for them.

    One that only repeats what is in the pack already is left out; of the best others those are in it that fit.
    """
    measure, room = UNITS[asked.unit], fitting.room_for_observations(asked.budget, pack.used)
    marked, already, used, looked_at = list[Item](), contents_of(pack), 0, 0
    for item in found:
        size, words = measure(item.content or ""), normalise(item.content or "")
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
    return replace(pack, observations=shown, cut=(*pack.cut, *cut), used=pack.used + used)


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
    marked = [replace(item, cut=why) for item, why in zip(items, reasons, strict=True)]
    kept = tuple(item for item in marked if not item.cut)
    return Pack(
        items=kept,
        cut=tuple(item for item in marked if item.cut),
        searched=searched,
        budget=budget,
        used=sum(UNITS[unit](item.content or "") for item in kept),
        unit=unit,
        warnings=warnings,
    )
