"""The Merkle tree of RFC 6962 over the log: its root, and proofs that an event is in it and that one log continues another.

A tree of n leaves consists of full subtrees, the largest first; their roots are its ``peaks``. Whoever keeps the peaks
can add leaves and tell the root without the leaves that went before. Sizes count leaves, indexes begin at 0, and every
hash is 32 bytes. RFC 9162 (section 2.1) words the same tree, and the two verifications, more exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256

EMPTY_ROOT = sha256(b"").digest()

Range = tuple[int, int]  # the leaves from one index up to, not including, another


def node_hash(left: bytes, right: bytes) -> bytes:
    """An inner node of two others."""
    return sha256(b"\x01" + left + right).digest()


class Tree:
    """A tree that grows at its right end and keeps nothing but its peaks. Peaks that cannot be of a size are a ``ValueError``."""

    __slots__ = ("_peaks", "size")

    def __init__(self, size: int = 0, peaks: Sequence[bytes] = ()) -> None:
        if size < 0 or len(peaks) != size.bit_count():
            raise ValueError(f"a tree of {size} leaves does not have {len(peaks)} peaks")
        self.size, self._peaks = size, list(peaks)

    def add(self, leaf: bytes) -> None:
        """One more leaf, by its hash. Every full pair on the way up becomes one node."""
        size, peaks = self.size, self._peaks
        while size & 1:
            leaf = sha256(b"\x01" + peaks.pop() + leaf).digest()
            size >>= 1
        peaks.append(leaf)
        self.size += 1

    @property
    def peaks(self) -> tuple[bytes, ...]:
        return tuple(self._peaks)

    def root(self) -> bytes:
        if not self._peaks:
            return EMPTY_ROOT
        *others, root = self._peaks
        for left in reversed(others):
            root = node_hash(left, root)
        return root


# --- proofs: which nodes they consist of -----------------------------------------------------------------------------


def _split(size: int) -> int:
    """The largest power of two below a size: so many leaves lie left of the root."""
    return 1 << (size - 1).bit_length() - 1


def inclusion_ranges(index: int, size: int) -> list[Range]:
    """The subtrees next to the way from a leaf to the root, from below: the nodes of an inclusion proof."""
    start, found = 0, list[Range]()
    while size > 1:
        middle = _split(size)
        if index < start + middle:
            found.append((start + middle, start + size))
            size = middle
        else:
            found.append((start, start + middle))
            start, size = start + middle, size - middle
    return found[::-1]


def consistency_ranges(old: int, size: int) -> list[Range]:
    """The nodes of the proof that a tree of ``size`` leaves begins with the tree of ``old`` ones; none where they are one."""
    start, found, whole = 0, list[Range](), True
    while old - start < size:
        middle = _split(size)
        if old <= start + middle:
            found.append((start + middle, start + size))
            size = middle
        else:
            found.append((start, start + middle))
            start, size, whole = start + middle, size - middle, False
    return [*([] if whole else [(start, start + size)]), *found[::-1]]


def roots_of(ranges: Sequence[Range], leaves: Iterable[bytes]) -> list[bytes]:
    """The roots of these subtrees, which do not overlap, from one pass over the leaves."""
    trees = {each: Tree() for each in ranges}
    waiting = sorted(ranges, reverse=True)
    for index, each in enumerate(leaves):
        if not waiting:
            break
        first, last = waiting[-1]
        if index >= first:
            trees[first, last].add(each)
            if index + 1 == last:
                waiting.pop()
    if waiting:
        raise ValueError(f"the leaves end before {waiting[0][1]}")
    return [trees[each].root() for each in ranges]


# --- proofs: checking ------------------------------------------------------------------------------------------------


def root_above(index: int, size: int, leaf: bytes, path: Sequence[bytes]) -> bytes | None:
    """The root that a leaf and its inclusion proof come to (RFC 9162, 2.1.3.2); None where it is no proof of that place."""
    if not 0 <= index < size:
        return None
    place, last, node = index, size - 1, leaf
    for each in path:
        if not last or len(each) != 32:
            return None
        if place & 1 or place == last:
            node = node_hash(each, node)
            while not place & 1 and place:
                place, last = place >> 1, last >> 1
        else:
            node = node_hash(node, each)
        place, last = place >> 1, last >> 1
    return node if not last else None


def is_continued(old: int, size: int, old_root: bytes, path: Sequence[bytes], root: bytes) -> bool:
    """Whether the tree with one root begins with the leaves of the other (RFC 9162, 2.1.4.2)."""
    if not 0 < old < size:
        return not path and (old_root == root if old == size else old == 0 and old_root == EMPTY_ROOT)
    nodes = list(path) if old & (old - 1) else [old_root, *path]
    if not nodes or any(len(each) != 32 for each in nodes):
        return False
    place, last = old - 1, size - 1
    while place & 1:
        place, last = place >> 1, last >> 1
    before = after = nodes[0]
    for each in nodes[1:]:
        if not last:
            return False
        if place & 1 or place == last:
            before, after = node_hash(each, before), node_hash(each, after)
            while not place & 1 and place:
                place, last = place >> 1, last >> 1
        else:
            after = node_hash(after, each)
        place, last = place >> 1, last >> 1
    return not last and before == old_root and after == root
