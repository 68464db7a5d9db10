"""The packing of ranked items within a budget, with the reasons why other items are cut."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from ledger.domain.harmless import FENCE, fence_width, fenced
from ledger.domain.text import normalise
from ledger.projects import answers
from ledger.recall import fitting
from ledger.recall.asked import UNITS, RecallRequest
from ledger.recall.packs import MEMORY, OBSERVATIONS, Item, Pack, line

IDENTITY = ("identity", "preference", "user_profile")


def of_state(project: str, entry: answers.StateEntry) -> Item:
    """Return an entry of a project's trusted state as an item; a person set the entry, so no ranking moves the item."""
    text = f"{entry.category}: {entry.name} = {entry.value}"
    return Item(rank=0, score=0.0, source="state", id=project, content=text, signals={"trusted": 1.0}, state=entry)


def band(item: Item, *, in_project: bool) -> str:
    """Return the name of ATOCore's share that an item belongs to."""
    if item.source == "state":
        return "state"
    if item.memory is not None and item.memory.kind in IDENTITY:
        return "identity"
    return "project" if in_project and item.memory is not None and item.memory.project is not None else fitting.REST


def packed(request: RecallRequest, items: Sequence[Item], searched: int, warnings: tuple[str, ...]) -> Pack:
    """Return the pack of ranked items: up to ``limit`` within the budget; with ``explain`` all others are listed as cut."""
    within, beyond = items[: request.limit], items[request.limit :] if request.explain else ()
    fit = fitting.prefix if request.packing == "prefix" else fitting.greedy
    lengths = sizes(within, request.unit) if request.budget is not None else [0] * len(within)
    reasons = [*fit(lengths, inside(request.budget, request.unit)), *["rank"] * len(beyond)]
    return finished([*within, *beyond], reasons, searched, request.budget, request.unit, warnings)


def shared(
    request: RecallRequest, trusted: Sequence[Item], items: Sequence[Item], unasked: Sequence[Item], searched: int,
    warnings: tuple[str, ...],
) -> Pack:  # fmt: skip
    """Return the pack by shares: trusted state, then the answers, then memories of general interest."""
    together = [_short(item) for item in (*trusted, *items[: request.limit], *unasked)]
    bands = [band(item, in_project=request.project is not None) for item in together]
    order = fitting.in_order(bands)
    shown = [replace(together[at], rank=rank) for rank, at in enumerate(order, 1)]
    room = inside(request.budget, request.unit) or 0
    reasons = fitting.by_shares([bands[at] for at in order], sizes(shown, request.unit), room)
    if request.explain:
        beyond = [replace(_short(item), rank=rank) for rank, item in enumerate(items[request.limit :], len(shown) + 1)]
        shown, reasons = [*shown, *beyond], [*reasons, *["rank"] * len(beyond)]
    return finished(shown, reasons, searched, request.budget, request.unit, warnings)


def with_long(items: Sequence[Item], budget: int | None, unit: str, warnings: tuple[str, ...]) -> Pack:
    """Return the pack of the items that fit, in their order.

    An item that alone exceeds the budget is shortened to the room that the items before it leave, and ends with "…".
    """
    room, kept, reasons = inside(budget, unit), list[Item](), list[str]()
    left = room
    for item, size in zip(items, sizes(items, unit), strict=True):
        if room is not None and left is not None and size > room:
            item, size = _shortened_to(left, item, unit)
        reasons.append("budget" if left is not None and size > left else "")
        kept.append(item)
        left = left - size if left is not None and not reasons[-1] else left
    return finished(kept, reasons, len(items), budget, unit, warnings)


def _shortened_to(room: int, item: Item, unit: str) -> tuple[Item, int]:
    """Return an item with the longest beginning of its text that fits, and its size; the item itself if nothing fits."""
    fitting_item, fitting_size, shortest, longest = item, room + 1, 2, len(item.content or "") - 1
    while shortest <= longest:
        chars = (shortest + longest) // 2
        shorter = replace(item, content=fitting.shortened(item.content or "", chars))
        (size,) = sizes([shorter], unit)
        if size <= room:
            fitting_item, fitting_size, shortest = shorter, size, chars + 1
        else:
            longest = chars - 1
    return fitting_item, fitting_size


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


def with_observations(request: RecallRequest, pack: Pack, candidates: Sequence[Item]) -> Pack:
    """Return the pack with the best observations that fit beside its items.

    Observations never displace an item. An observation that repeats a text of the pack is left out.
    """
    room = fitting.room_for_observations(
        request.budget, pack.used + UNITS[request.unit](fenced([], f"\n{OBSERVATIONS}"))
    )
    marked, already, used, considered = list[Item](), contents_of(pack), 0, 0
    for item, size in zip(candidates, sizes(candidates, request.unit), strict=True):
        words = normalise(item.content or "")
        if words in already:
            why = "repeated"
        elif considered == request.most_observations:
            why = "rank"
        else:
            considered += 1
            why = "budget" if room is not None and used + size > room else ""
        if why == "rank" and not request.explain:
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
