"""The Merkle tree: the published vectors of Certificate Transparency, and everything else against RFC 6962 word for word."""

from __future__ import annotations

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.proof.merkle import (
    EMPTY_ROOT,
    Tree,
    consistency_ranges,
    inclusion_ranges,
    is_continued,
    node_hash,
    root_above,
    roots_of,
)

# The entries, roots and proofs that the tests of Certificate Transparency have used since RFC 6962 (google's
# certificate-transparency, today transparency-dev/merkle): indexes of inclusion proofs count from 0 here.
ENTRIES = [
    bytes.fromhex(each)
    for each in ("", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f")
]
ROOTS = [
    bytes.fromhex(each)
    for each in (
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
        "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
        "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
        "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
        "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
        "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
        "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
    )
]
INCLUSION = {
    (0, 1): (),
    (0, 8): (
        "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
        "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
        "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
    ),
    (5, 8): (
        "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
        "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    ),
    (2, 3): ("fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",),
    (1, 5): (
        "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
        "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
        "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
    ),
}
CONSISTENCY = {
    (1, 1): (),
    (1, 8): INCLUSION[0, 8],
    (6, 8): (
        "0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a",
        "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    ),
    (2, 5): (
        "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
        "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
    ),
    (6, 7): (
        "0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a",
        "b08693ec2e721597130641e8211e7eedccb4c26413963eee6c1e2ed16ffb1a5f",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    ),
}


def leaf_hash(data: bytes) -> bytes:
    return sha256(b"\x00" + data).digest()


def root_of(leaves):
    tree = Tree()
    for each in leaves:
        tree.add(each)
    return tree.root()


LEAVES = [leaf_hash(each) for each in ENTRIES]
OTHER = sha256(b"something else").digest()


# --- RFC 6962, section 2.1, as it is written -------------------------------------------------------------------------


def split(n: int) -> int:
    k = 1
    while k * 2 < n:
        k *= 2
    return k


def mth(leaves: list[bytes]) -> bytes:
    if len(leaves) < 2:
        return leaves[0] if leaves else sha256().digest()
    k = split(len(leaves))
    return sha256(b"\x01" + mth(leaves[:k]) + mth(leaves[k:])).digest()


def path(m: int, leaves: list[bytes]) -> list[bytes]:
    if len(leaves) == 1:
        return []
    k = split(len(leaves))
    return [*path(m, leaves[:k]), mth(leaves[k:])] if m < k else [*path(m - k, leaves[k:]), mth(leaves[:k])]


def subproof(m: int, leaves: list[bytes], whole: bool = True) -> list[bytes]:
    n = len(leaves)
    if m == n:
        return [] if whole else [mth(leaves)]
    k = split(n)
    if m <= k:
        return [*subproof(m, leaves[:k], whole), mth(leaves[k:])]
    return [*subproof(m - k, leaves[k:], False), mth(leaves[:k])]


def some_leaves(count: int) -> list[bytes]:
    return [leaf_hash(b"%d" % each) for each in range(count)]


# --- the published vectors -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", range(9))
def test_the_published_roots(size):
    assert root_of(LEAVES[:size]) == ROOTS[size]


@pytest.mark.parametrize(("place", "nodes"), INCLUSION.items())
def test_the_published_inclusion_proofs(place, nodes):
    (index, size), nodes = place, [bytes.fromhex(each) for each in nodes]

    assert roots_of(inclusion_ranges(index, size), LEAVES) == nodes
    assert root_above(index, size, LEAVES[index], nodes) == ROOTS[size]


@pytest.mark.parametrize(("sizes", "nodes"), CONSISTENCY.items())
def test_the_published_consistency_proofs(sizes, nodes):
    (old, size), nodes = sizes, [bytes.fromhex(each) for each in nodes]

    assert roots_of(consistency_ranges(old, size), LEAVES) == nodes
    assert is_continued(old, size, ROOTS[old], nodes, ROOTS[size])


def test_a_leaf_and_a_node_of_the_same_bytes_differ():
    assert leaf_hash(LEAVES[0] + LEAVES[1]) != node_hash(LEAVES[0], LEAVES[1])
    assert root_of([]) == EMPTY_ROOT


# --- against the definition ------------------------------------------------------------------------------------------


@given(st.integers(1, 200), st.data())
def test_roots_and_proofs_are_those_of_the_definition(size, data):
    leaves = some_leaves(size)
    index, old = data.draw(st.integers(0, size - 1)), data.draw(st.integers(1, size))

    assert root_of(leaves) == mth(leaves)
    assert roots_of(inclusion_ranges(index, size), leaves) == path(index, leaves)
    assert roots_of(consistency_ranges(old, size), leaves) == subproof(old, leaves)


def test_every_proof_of_every_small_tree_holds_and_for_nothing_else():
    for size in range(1, 18):
        leaves, root = some_leaves(size), mth(some_leaves(size))
        for index in range(size):
            proof, leaf = path(index, leaves), leaves[index]
            assert [at for at in range(-1, size + 2) if root_above(at, size, leaf, proof) == root] == [index]
        for old in range(1, size + 1):
            proof, start = subproof(old, leaves), mth(leaves[:old])
            assert is_continued(old, size, start, proof, root)
            others = [each for each in range(1, size) if is_continued(each, size, start, proof, root)]
            assert set(others) <= {old}


@given(st.integers(2, 100), st.data())
def test_a_changed_proof_does_not_hold(size, data):
    leaves = some_leaves(size)
    index, old, root = data.draw(st.integers(0, size - 1)), data.draw(st.integers(1, size - 1)), mth(leaves)
    inclusion, consistency = path(index, leaves), subproof(old, leaves)

    assert root_above(index, size, OTHER, inclusion) != root
    assert root_above(index, size, leaves[index], inclusion) != OTHER
    assert not is_continued(old, size, OTHER, consistency, root)
    assert not is_continued(old, size, mth(leaves[:old]), consistency, OTHER)
    for changed in changes(inclusion, data):
        assert root_above(index, size, leaves[index], changed) != root
    for changed in changes(consistency, data):
        assert not is_continued(old, size, mth(leaves[:old]), changed, root)


def changes(proof: list[bytes], data: st.DataObject) -> list[list[bytes]]:
    at = data.draw(st.integers(0, len(proof) - 1))
    bit = bytes(each ^ (place == 0) for place, each in enumerate(proof[at]))
    others = [[*proof[:at], bit, *proof[at + 1 :]], [*proof[:at], *proof[at + 1 :]], [*proof, OTHER], [OTHER, *proof]]
    return [*others, [*proof, b""], [*proof[:at], proof[at][:31], *proof[at + 1 :]]]


def test_consistency_of_what_cannot_be():
    root = ROOTS[5]
    assert is_continued(0, 5, EMPTY_ROOT, [], root) and is_continued(5, 5, root, [], root)
    assert not is_continued(0, 5, OTHER, [], root)
    assert not is_continued(0, 5, EMPTY_ROOT, [OTHER], root)
    assert not is_continued(6, 5, ROOTS[6], [], root)
    assert not is_continued(-1, 5, EMPTY_ROOT, [], root)
    assert not is_continued(3, 5, ROOTS[3], [], root)


@given(st.integers(0, 120), st.integers(0, 120))
def test_a_tree_goes_on_from_its_peaks(before, more):
    leaves = some_leaves(before + more)
    tree = Tree()
    for each in leaves[:before]:
        tree.add(each)
    again = Tree(tree.size, tree.peaks)
    for each in leaves[before:]:
        again.add(each)

    assert (again.size, again.root()) == (before + more, mth(leaves))


@pytest.mark.parametrize(("size", "count"), [(0, 1), (1, 0), (3, 1), (8, 2), (-1, 0), (-1, 1)])
def test_peaks_that_cannot_be_of_a_size_are_refused(size, count):
    with pytest.raises(ValueError, match="peaks"):
        Tree(size, [OTHER] * count)


def test_leaves_that_end_too_early_are_an_error():
    with pytest.raises(ValueError, match="end before"):
        roots_of([(0, 4), (4, 8)], LEAVES[:7])
