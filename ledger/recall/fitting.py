"""What fits: which of the ranked entries go into a pack of a given size, and why the others do not. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

SHARES = {"state": 20, "identity": 10, "project": 25}
"""ATOCore's shares of the budget in percent (SEEDS 1d): trusted state, identity and preference, memories of the project.
What they leave is for the rest: chunks, turns, and memories that are none of these."""

ENTRY_CHARS = 250
"""By shares an entry shows at most so many characters (SEEDS 1d)."""

REST = "rest"

OBSERVATIONS_PERCENT = 20
"""Observations take at most so many percent of the budget, of what the items of a pack leave."""


def greedy(sizes: Sequence[int], budget: int | None) -> list[str]:
    """For each entry "" or why it is cut: what does not fit is passed over, so that one long entry keeps nothing else out."""
    used, reasons = 0, list[str]()
    for size in sizes:
        full = budget is not None and used + size > budget
        used += 0 if full else size
        reasons.append("budget" if full else "")
    return reasons


def prefix(sizes: Sequence[int], budget: int | None) -> list[str]:
    """The same, but for what stands behind the first that does not fit: nothing worse takes the place of something better
    (rubino and picoclaw)."""
    reasons = greedy(sizes, budget)
    cut = next((at for at, why in enumerate(reasons) if why), len(sizes))
    return reasons[:cut] + ["budget"] * (len(sizes) - cut)


def by_shares(bands: Sequence[str], sizes: Sequence[int], budget: int) -> list[str]:
    """The same by ATOCore's shares: each band takes its best within its share, and the rest what they left.

    An entry that does not fit is passed over, so that a long one does not keep its whole band out.
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
    """What of a budget observations may take besides items that use so much of it; None where there is no bound."""
    return None if budget is None else max(0, min(budget * OBSERVATIONS_PERCENT // 100, budget - used))


def shortened(text: str, chars: int = ENTRY_CHARS) -> str:
    """An entry as it is shown by shares: where it is longer, … stands for the rest."""
    return text if len(text) <= chars else text[: chars - 1].rstrip() + "…"


def in_order(bands: Sequence[str]) -> list[int]:
    """The entries' places in the order of the bands, ranks kept within each."""
    order: Mapping[str, int] = {band: at for at, band in enumerate((*SHARES, REST))}
    return sorted(range(len(bands)), key=lambda at: (order[bands[at]], at))
