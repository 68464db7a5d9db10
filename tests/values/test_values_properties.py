"""What holds of keyed values whatever is put: any JSON is read back equal, and any commands equal a plain dictionary."""

from __future__ import annotations

from typing import Any

import pytest
from conftest import LONG
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from value_machine import Values

from ledger import Ledger
from ledger.domain.scan import keyed
from ledger.values import rules

characters = st.characters(exclude_categories=["Cs"])
texts = st.text(characters, max_size=30)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
)
jsons = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4), max_leaves=20
)


@settings(max_examples=300 if LONG else 60)
@given(value=jsons)
def test_any_json_is_read_back_equal(value: Any) -> None:
    content, type_ = rules.encoded(value)
    assert repr(keyed.decoded(content, type_)) == repr(value)
    assert isinstance(rules.readable(content, type_), str)


@settings(max_examples=200 if LONG else 15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=jsons, labels=st.lists(texts.filter(str.strip), max_size=3), key=texts.filter(str.strip))
def test_any_json_under_any_key_is_read_back_equal_from_the_file(
    unguarded: Ledger, value: Any, labels: list[str], key: str
) -> None:
    put = unguarded.values.put(labels, key, value)
    got = unguarded.values.get(labels, key)
    assert repr(got.value) == repr(put.value) == repr(value) and (got.namespace, got.key) == (tuple(labels), key)
    assert got.id in [item.id for item in unguarded.values.list(labels, limit=1_000)]
    assert tuple(labels) in unguarded.values.namespaces(limit=1_000)


@settings(max_examples=300 if LONG else 60)
@given(names=st.lists(st.lists(texts, max_size=3).map(tuple), min_size=2, max_size=6))
def test_places_are_ordered_so_that_all_below_one_follow_it(names: list[tuple[str, ...]]) -> None:
    for name in names:
        place = rules.place_of(name)
        assert rules.labels_of(place) == name
        for target in names:
            assert (place <= rules.place_of(target) < rules.after_all_below(place)) is (target[: len(name)] == name)


class TestValues(Values.TestCase):  # type: ignore[name-defined,misc]
    settings = settings(
        max_examples=100 if LONG else 12, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck)
    )


@pytest.fixture
def unguarded(ledger: Ledger) -> Ledger:
    """A ledger that refuses no secret and no threat, which a drawn text may look like."""
    ledger.policy.set(secrets="off", threats="off")
    return ledger
