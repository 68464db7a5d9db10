"""Spans of characters and ranges of positions: two whole numbers each, in order, touching ones joined."""

from __future__ import annotations

from collections.abc import Iterable

Span = tuple[int, int]


def merged(spans: Iterable[Span]) -> tuple[Span, ...]:
    """Return the same characters as half-open spans in order that do not touch."""
    separate: list[Span] = []
    for first, last in sorted(spans):
        if separate and first <= separate[-1][1]:
            separate[-1] = (separate[-1][0], max(separate[-1][1], last))
        else:
            separate.append((first, last))
    return tuple(separate)


def joined(ranges: Iterable[Span]) -> tuple[Span, ...]:
    """Return the same positions as inclusive ranges in order that do not touch."""
    return tuple((first, end - 1) for first, end in merged((first, last + 1) for first, last in ranges))
