"""Spans of characters and ranges of positions: two whole numbers, in order, those that touch as one."""

from __future__ import annotations

from collections.abc import Iterable

Span = tuple[int, int]


def merged(spans: Iterable[Span]) -> tuple[Span, ...]:
    """The same characters as half-open spans in order that do not touch."""
    found: list[Span] = []
    for first, last in sorted(spans):
        if found and first <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    return tuple(found)


def joined(ranges: Iterable[Span]) -> tuple[Span, ...]:
    """The same positions as inclusive ranges in order that do not touch."""
    return tuple((first, end - 1) for first, end in merged((first, last + 1) for first, last in ranges))
