"""The chain: two ways to write the record that give the same bytes, and a walk that finds what was changed."""

from __future__ import annotations

import hashlib
import json

import pytest

from ledger.log.envelope import GENESIS, digest, leaf, link
from ledger.log.integrity import check_chain


def chain(states: list[str]) -> list[tuple]:
    rows, head = [], GENESIS
    for position, state in enumerate(states, 1):
        mark = digest(state.encode())
        head = link(head, position, "m_1", position, "MemoryCaptured", mark)
        rows.append((position, "m_1", position, "MemoryCaptured", state, mark, head, None))
    return rows


def changed(rows: list[tuple], at: int, **columns: object) -> list[tuple]:
    names = ("position", "stream", "version", "type", "state", "digest", "head", "erased_by")
    new = tuple(columns.get(name, value) for name, value in zip(names, rows[at], strict=True))
    return [*rows[:at], new, *rows[at + 1 :]]


STATES = ['{"a":1}', '{"b":"grün \U0001f600"}', '{"c":"\\u0000"}', "{}"]


def test_a_digest_is_the_sha_256_of_the_state():
    assert digest(b"state") == hashlib.sha256(b"state").digest()


@pytest.mark.parametrize(
    "text",
    ["m_abc", "", "a b", 'a"b', "a\\b", "a\nb", "a\x00b", "a\x7fb", "gr\u00fcn", "\U0001f600", "\ud800", "a/b"],
)
def test_the_fast_record_and_json_give_the_same_bytes(text):
    for stream, type_ in ((text, "Type"), ("stream", text)):
        record = json.dumps(
            ["ledger/1", "00" * 32, 7, stream, 3, type_, "11" * 32], separators=(",", ":"), ensure_ascii=True
        ).encode()
        assert link(bytes(32), 7, stream, 3, type_, b"\x11" * 32) == hashlib.sha256(record).digest()
        assert leaf(bytes(32), 7, stream, 3, type_, b"\x11" * 32) == hashlib.sha256(b"\x00" + record).digest()


def test_every_printable_character_gives_the_same_bytes_both_ways():
    for number in range(256):
        record = json.dumps(["ledger/1", "", 1, chr(number), 1, "", ""], separators=(",", ":")).encode()
        assert link(b"", 1, chr(number), 1, "", b"") == hashlib.sha256(record).digest()


def test_the_first_links_are_frozen():
    head = link(GENESIS, 1, "ledger", 1, "LedgerCreated", digest(b"{}"))
    assert head.hex() == "880634a948948a56f48b81d64236cb5c829e3fede36e1047a511ffc7b3db7446"


def test_a_sound_chain_has_no_problems():
    assert list(check_chain(chain(STATES))) == []
    assert list(check_chain([])) == []


def test_a_chain_can_be_checked_from_a_known_head():
    rows = chain(STATES)
    assert list(check_chain(rows[2:], position=2, head=rows[1][6])) == []
    assert list(check_chain(rows[2:], position=2, head=rows[0][6])) != []


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("state", '{"b":"other"}'),
        ("digest", digest(b"other")),
        ("stream", "m_2"),
        ("version", 9),
        ("type", "MemoryRetracted"),
        ("head", bytes(32)),
        ("position", 9),
    ],
)
def test_a_changed_column_is_told_with_its_position(column, value):
    problems = list(check_chain(changed(chain(STATES), 1, **{column: value})))

    place = value if column == "position" else 2
    assert problems
    assert problems[0].startswith(f"position {place}:")


@pytest.mark.parametrize(
    ("column", "value"),
    [
        *[("state", b"{}"), ("state", None), ("digest", None), ("head", "text"), ("head", None), ("stream", None)],
        *[("position", None), ("position", "2"), ("version", "2"), ("type", 7), ("digest", "00")],
    ],
)
def test_a_value_of_the_wrong_type_is_a_problem_and_not_an_error(column, value):
    assert list(check_chain(changed(chain(STATES), 1, **{column: value})))


def test_a_removed_row_a_swap_and_a_repeated_row_are_told():
    rows = chain(STATES)
    for broken in ([rows[0], *rows[2:]], [rows[1], rows[0], *rows[2:]], [rows[0], *rows], rows[1:]):
        assert list(check_chain(broken))


def test_one_changed_state_is_one_problem():
    assert len(list(check_chain(changed(chain(STATES), 1, state="{}")))) == 1


def test_an_erased_row_may_hold_another_state_and_nothing_else():
    rows = chain(STATES)
    assert list(check_chain(changed(rows, 1, state='{"b":null}', erased_by=4))) == []
    assert list(check_chain(changed(rows, 1, state='{"b":null}')))
    assert list(check_chain(changed(rows, 1, digest=digest(b'{"b":null}'), state='{"b":null}', erased_by=4)))
    assert list(check_chain(changed(rows, 1, version=7, erased_by=4)))
