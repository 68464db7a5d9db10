"""Ids: a letter for the kind, 80 random bits, no look-alikes, and prefixes that find exactly one."""

from __future__ import annotations

import uuid

import pytest

from ledger import AmbiguousIdError, Ledger, NotFoundError
from ledger.domain.ids import ALPHABET, KINDS, LENGTH, is_event_id, is_prefix, kind_of, subject_id, uuid7


def test_an_id_is_a_letter_and_sixteen_characters_of_an_alphabet() -> None:
    assert subject_id("m", bytes(10)) == "m_" + "0" * 16
    assert subject_id("m", b"\xff" * 10) == "m_" + "z" * 16
    assert subject_id("i", bytes(9) + b"\x21") == "i_" + "0" * 14 + "11"
    assert len(ALPHABET) == 32 and not set("ilou") & set(ALPHABET)
    assert KINDS.keys() == set("miosdcpygkv")
    assert len({subject_id("m", bytes([each]) * 10) for each in range(256)}) == 256


def test_a_uuid_version_seven_with_its_time() -> None:
    made = uuid.UUID(uuid7(0x0123456789AB * 1_000_000, b"\xff" * 8))
    assert (made.version, made.variant, made.int >> 80) == (7, uuid.RFC_4122, 0x0123456789AB)
    moments = [1, 500_000, 999_999, 1_000_000, 1_000_500, 2_000_000_000_000_000_000]
    made_then = [uuid7(moment, b"\xff" * 8 if at % 2 else bytes(8)) for at, moment in enumerate(moments)]
    assert made_then == sorted(made_then) and {len(each) for each in made_then} == {36}
    bits = {uuid7(1, (1 << bit).to_bytes(8, "big")) for bit in range(64)} - {uuid7(1, bytes(8))}
    assert len(bits) == 62  # all that the variant leaves


def test_the_form_of_an_event_s_id() -> None:
    made = uuid7(1_764_000_000_000_000_000, bytes(range(8)))
    assert is_event_id(made)
    for other in (
        "",
        made[:-1],
        made + "0",
        made.upper(),
        made.replace("-", "0"),
        made[:14] + "4" + made[15:],
        "x" * 36,
    ):
        assert not is_event_id(other), other


def test_the_kind_of_a_stream() -> None:
    assert (kind_of("m_0"), kind_of("ledger"), kind_of("")) == ("m", "", "")


@pytest.mark.parametrize(
    ("text", "ok"),
    [
        *[(text, True) for text in ("m_", "m_0z", "m_" + "0" * 16)],
        *[(text, False) for text in ("", "m", "i_0", "m_%", "m__", "M_0", "m_A", "m_l", "m_٣", "m_" + "0" * 17)],
    ],
)
def test_what_may_begin_an_id(text: str, ok: bool) -> None:
    assert is_prefix(text, "m") is ok


def test_a_prefix_finds_one_and_an_ambiguous_one_names_the_candidates(ledger: Ledger) -> None:
    made = [ledger.remember(f"Fact number {number}.").id for number in range(40)]
    first = min(made)
    shared = next(n for n in range(3, LENGTH) if sum(each.startswith(first[:n]) for each in made) == 1)
    found = ledger.memories.get(first[:shared])
    assert found.id == first
    twins = next(each[:3] for each in made if sum(other.startswith(each[:3]) for other in made) > 1)
    with pytest.raises(AmbiguousIdError, match="give more characters") as asked:
        ledger.memories.get(twins)
    assert 2 <= len(asked.value.candidates) <= 5
    assert all(each in made and f"{each} (Fact number " in str(asked.value) for each in asked.value.candidates)
    with pytest.raises(NotFoundError):
        ledger.retract(twins)
    assert ledger.retract(first[:shared]).id == first
    with ledger.batch():
        new = ledger.remember("New in this batch.")
        assert ledger.retract(new.id[:12]).id == new.id
