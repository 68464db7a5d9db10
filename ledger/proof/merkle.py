"""The Merkle tree of RFC 6962 over the log: its root, proofs of inclusion, and proofs that one log continues another.

A tree of n leaves consists of full subtrees, the largest first; their roots are the tree's ``peaks``. With the peaks
alone one can add leaves and compute the root. Sizes count leaves, indexes begin at 0, and every hash is 32 bytes. RFC
9162 (section 2.1) describes the same tree and the two verifications more exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256

EMPTY_ROOT = sha256(b"").digest()

Range = tuple[int, int]  # the leaves from one index up to, not including, another


def node_hash(left: bytes, right: bytes) -> bytes:
    """Return the hash of an inner node from the hashes of its two children."""
    return sha256(b"\x01" + left + right).digest()


class Tree:
    """A tree that grows at its right end and keeps only its peaks.

    Raises:
        ValueError: The number of peaks does not fit the size.
    """

    __slots__ = ("_peaks", "size")

    def __init__(self, size: int = 0, peaks: Sequence[bytes] = ()) -> None:
        if size < 0 or len(peaks) != size.bit_count():
            raise ValueError(f"a tree of {size} leaves does not have {len(peaks)} peaks")
        self.size: int = size
        self._peaks = list(peaks)

    def add(self, leaf: bytes) -> None:
        """Add a leaf by its hash; every full pair on the way up becomes one node."""
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


# --- proofs: their nodes ---------------------------------------------------------------------------------------------


def _split(size: int) -> int:
    """Return the largest power of two below a size, the number of leaves left of the root."""
    return 1 << (size - 1).bit_length() - 1


def inclusion_ranges(index: int, size: int) -> list[Range]:
    """Return the subtrees next to the path from a leaf to the root, lowest first: the nodes of the proof."""
    start, ranges = 0, list[Range]()
    while size > 1:
        middle = _split(size)
        if index < start + middle:
            ranges.append((start + middle, start + size))
            size = middle
        else:
            ranges.append((start, start + middle))
            start, size = start + middle, size - middle
    return ranges[::-1]


def consistency_ranges(old: int, size: int) -> list[Range]:
    """Return the nodes of the proof that a tree of ``size`` leaves begins with the tree of ``old`` leaves.

    The proof has no nodes if the sizes are equal.
    """
    start, ranges, whole = 0, list[Range](), True
    while old - start < size:
        middle = _split(size)
        if old <= start + middle:
            ranges.append((start + middle, start + size))
            size = middle
        else:
            ranges.append((start, start + middle))
            start, size, whole = start + middle, size - middle, False
    return [*([] if whole else [(start, start + size)]), *ranges[::-1]]


def roots_of(ranges: Sequence[Range], leaves: Iterable[bytes]) -> list[bytes]:
    """Return the roots of these subtrees, which do not overlap, from one pass over the leaves."""
    trees = {span: Tree() for span in ranges}
    waiting = sorted(ranges, reverse=True)
    for index, leaf in enumerate(leaves):
        if not waiting:
            break
        first, last = waiting[-1]
        if index >= first:
            trees[first, last].add(leaf)
            if index + 1 == last:
                waiting.pop()
    if waiting:
        raise ValueError(f"the leaves end before {waiting[0][1]}")
    return [trees[span].root() for span in ranges]


# --- proofs: checking ------------------------------------------------------------------------------------------------


def root_above(index: int, size: int, leaf: bytes, path: Sequence[bytes]) -> bytes | None:
    """Return the root that a leaf and its inclusion proof give (RFC 9162, 2.1.3.2).

    None means that the path is no proof for that index and size.
    """
    if not 0 <= index < size:
        return None
    place, last, node = index, size - 1, leaf
    for sibling in path:
        if not last or len(sibling) != 32:
            return None
        if place & 1 or place == last:
            node = node_hash(sibling, node)
            while not place & 1 and place:
                place, last = place >> 1, last >> 1
        else:
            node = node_hash(node, sibling)
        place, last = place >> 1, last >> 1
    return node if not last else None


def is_continued(old: int, size: int, old_root: bytes, path: Sequence[bytes], root: bytes) -> bool:
    """Return True if the tree of ``root`` begins with the leaves of the tree of ``old_root`` (RFC 9162, 2.1.4.2)."""
    if not 0 < old < size:
        return not path and (old_root == root if old == size else old == 0 and old_root == EMPTY_ROOT)
    nodes = list(path) if old & (old - 1) else [old_root, *path]
    if not nodes or any(len(node) != 32 for node in nodes):
        return False
    place, last = old - 1, size - 1
    while place & 1:
        place, last = place >> 1, last >> 1
    before = after = nodes[0]
    for sibling in nodes[1:]:
        if not last:
            return False
        if place & 1 or place == last:
            before, after = node_hash(sibling, before), node_hash(sibling, after)
            while not place & 1 and place:
                place, last = place >> 1, last >> 1
        else:
            after = node_hash(after, sibling)
        place, last = place >> 1, last >> 1
    return not last and before == old_root and after == root
