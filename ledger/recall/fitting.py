"""The choice of the ranked entries that fit into a pack of a given size, with the reasons why the others are cut."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

SHARES = {"state": 20, "identity": 10, "project": 25}
"""ATOCore's shares of the budget in percent: trusted state, identity and preference, memories of the project.
The remainder is for the rest: chunks, turns, and memories of other kinds."""

ENTRY_CHARS = 250
"""The most characters of an entry in a pack by shares, as in ATOCore."""

REST = "rest"

OBSERVATIONS_PERCENT = 20
"""The largest part of the budget, in percent, that observations take of the room that the items leave."""


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


def by_shares(bands: Sequence[str], sizes: Sequence[int], budget: int) -> list[str]:
    """Return the reasons by ATOCore's shares: each band has its share of the budget, and the last band the remainder.

    An entry that does not fit is passed over, so that it does not keep the other entries of its band out.
    """
    reasons, left = [""] * len(bands), budget
    for band in (*SHARES, REST):
        room = left if band == REST else min(left, budget * SHARES[band] // 100)
        for at, size in enumerate(sizes):
            if bands[at] == band:
                if size > room:
                    reasons[at] = f"share of {band}"
                else:
                    room, left = room - size, left - size
    return reasons


def room_for_observations(budget: int | None, used: int) -> int | None:
    """Return the room for observations beside items that use a part of the budget; None without a budget."""
    return None if budget is None else max(0, min(budget * OBSERVATIONS_PERCENT // 100, budget - used))


def shortened(text: str, chars: int = ENTRY_CHARS) -> str:
    """Return a text cut to a number of characters, with … for the cut part."""
    return text if len(text) <= chars else text[: chars - 1].rstrip() + "…"


def in_order(bands: Sequence[str]) -> list[int]:
    """Return the places of the entries in the order of the bands; ranks stay in order within each band."""
    order: Mapping[str, int] = {band: at for at, band in enumerate((*SHARES, REST))}
    return sorted(range(len(bands)), key=lambda at: (order[bands[at]], at))
