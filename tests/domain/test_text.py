"""Normal forms, fingerprints, and the checks on given text and JSON."""

from __future__ import annotations

import hmac
import sqlite3
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ledger.domain.errors import RejectedError
from ledger.domain.text import MAX_JSON_VALUES, check_json, check_text, counted, fingerprint, keyed_digest, normalise

ANY_TEXT = st.text(alphabet=st.characters(exclude_categories=()))
SECRET = b"s" * 32


# --- normal form ---


def test_texts_that_differ_in_case_space_or_composition_are_the_same() -> None:
    assert normalise("  The\tUser \n PREFERS  tabs ") == "the user prefers tabs"
    assert normalise("Cafe\u0301") == normalise("CAF\u00c9") == "caf\u00e9"
    assert normalise("Straße") == normalise("STRASSE")
    assert normalise("\u0390") == normalise("\u0390".upper()) == normalise("\u03aa\u0301")


def test_punctuation_and_diacritics_make_a_difference() -> None:
    assert normalise("C++") != normalise("C")
    assert normalise("resume") != normalise("résumé")


@given(ANY_TEXT)
@example("ᾳ\u0323\u0301")
@example("İI\u0307")
def test_normalising_twice_changes_nothing(text: str) -> None:
    assert normalise(normalise(text)) == normalise(text)


@pytest.mark.slow
def test_normalising_any_single_character_twice_changes_nothing() -> None:
    once = [normalise(chr(code)) for code in range(sys.maxunicode + 1)]
    assert [normalise(text) for text in once] == once


@given(st.text(alphabet=st.characters(max_codepoint=127)))
def test_the_fast_path_for_ascii_gives_what_the_general_path_gives(text: str) -> None:
    assert normalise(text + " é") == f"{normalise(text)} é".strip()


# --- fingerprints ---


def test_a_fingerprint_is_a_signed_64_bit_number_that_sqlite_keeps() -> None:
    numbers = [fingerprint(SECRET, str(n)) for n in range(100)]
    connection = sqlite3.connect(":memory:")
    assert [connection.execute("SELECT ?", (n,)).fetchone()[0] for n in numbers] == numbers
    connection.close()
    assert min(numbers) < 0 < max(numbers)


@given(st.lists(st.none() | ANY_TEXT), st.lists(st.none() | ANY_TEXT))
@example(["ab", "c"], ["a", "bc"])
@example([None], [""])
@example(["a", None], ["a-"])
@example([], [None])
@example(["1:a"], ["a", "1:"])
def test_different_parts_have_different_fingerprints(a: list[str | None], b: list[str | None]) -> None:
    assert (fingerprint(SECRET, *a) == fingerprint(SECRET, *b)) == (a == b)


def test_digests_depend_on_the_secret() -> None:
    assert fingerprint(SECRET, "a") != fingerprint(b"other", "a")
    assert keyed_digest(SECRET, b"a") != keyed_digest(b"other", b"a")
    assert len(keyed_digest(SECRET, b"a")) == 16


@given(st.binary(max_size=200), st.binary(min_size=1, max_size=100))
def test_a_keyed_digest_is_hmac_sha256(data: bytes, secret: bytes) -> None:
    assert keyed_digest(secret, data) == hmac.digest(secret, data, "sha256")[:16]


def test_digests_are_frozen_because_they_are_stored() -> None:
    assert fingerprint(SECRET, "user", None, "é") == -6169779364341909136
    assert keyed_digest(SECRET, b"abc").hex() == "b0f19dfebace1e78fbc25c136d025ab5"


# --- given text ---


@pytest.mark.parametrize("text", ["plain", " untrimmed \r\n", "nul \0", "\u202ebidi\u2066", "🙂é e\u0301", "\ufeff"])
def test_text_is_taken_exactly_as_given(text: str) -> None:
    assert check_text("content", text, max_bytes=100) == text


@pytest.mark.parametrize("text", [None, b"bytes", 7, ["a"]])
def test_what_is_not_text_is_refused(text: object) -> None:
    with pytest.raises(RejectedError, match=f"^content must be text .*{type(text).__name__}"):
        check_text("content", text, max_bytes=100)


@pytest.mark.parametrize("text", ["", " ", "\t\n\r", "\u3000\xa0"])
def test_blank_text_is_refused_unless_allowed(text: str) -> None:
    with pytest.raises(RejectedError, match=r"^content is blank"):
        check_text("content", text, max_bytes=100)
    assert check_text("content", text, max_bytes=100, blank_allowed=True) == text


def test_a_lone_surrogate_is_refused_by_name_and_place() -> None:
    with pytest.raises(RejectedError, match=r"lone surrogate \(U\+DC80\) at character 2"):
        check_text("content", "ab\udc80", max_bytes=100)


@pytest.mark.parametrize(("text", "size_bytes"), [("abcd", 4), ("éé", 4), ("🙂", 4)])
def test_the_size_is_counted_in_bytes_of_utf_8(text: str, size_bytes: int) -> None:
    assert check_text("content", text, max_bytes=size_bytes) == text
    with pytest.raises(RejectedError) as refused:
        check_text("content", text, max_bytes=size_bytes - 1)
    assert (refused.value.rule, refused.value.limit, refused.value.requested) == ("size", size_bytes - 1, size_bytes)


def test_text_of_a_subclass_comes_back_as_plain_text() -> None:
    class Loud(str):
        def __str__(self) -> str:
            return "LOUD"

    checked = check_text("content", Loud("quiet"), max_bytes=100)
    assert type(checked) is str
    assert checked == "quiet"


# --- given JSON ---

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)  # fmt: skip


@given(JSON)
def test_json_is_taken_as_given(value: object) -> None:
    assert check_json("metadata", value) is value


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (float("nan"), r"^metadata is nan"),
        ({"a": [1, float("-inf")]}, r"^metadata\.a\[1\] is -inf"),
        ({"a": {"b": 2**63}}, r"^metadata\.a\.b is an int beyond 64 bits"),
        ([-(2**63) - 1], r"^metadata\[0\] is an int beyond 64 bits"),
        ([{"a": "\ud800"}], r"^metadata\[0\]\.a holds a lone surrogate"),
        ({"a": {"\ud800": 1}}, r"^metadata\.a has a key with a lone surrogate"),
        ({"a": {1: 2}}, r"^metadata\.a has a key of type int"),
        ({"a": (1, 2)}, r"^metadata\.a is of type tuple"),
        ({"a": {"b": b""}}, r"^metadata\.a\.b is of type bytes"),
        ({"a": object()}, r"^metadata\.a is of type object"),
        ({"x" * 500: object()}, r"^metadata\.x{40} is of type object"),
    ],
)
def test_what_is_not_json_is_refused_with_its_path(value: object, message: str) -> None:
    with pytest.raises(RejectedError, match=message):
        check_json("metadata", value)


def test_what_is_not_json_is_called_by_its_whole_name() -> None:
    with pytest.raises(RejectedError, match=r"^what else message 12 of the transcript has\.foo is nan"):
        check_json("what else message 12 of the transcript has", {"foo": float("nan")})


def test_numbers_and_text_of_a_subclass_are_refused_because_they_cannot_be_written() -> None:
    class Text(str):
        pass

    with pytest.raises(RejectedError, match="of type Text"):
        check_json("metadata", [Text("a")])


def _nested(levels: int) -> object:
    value: object = 1
    for level in range(levels):
        value = [value] if level % 2 else {"k": value}
    return value


def test_json_nests_at_most_64_levels() -> None:
    assert check_json("metadata", _nested(64)) is not None
    with pytest.raises(RejectedError, match="nests too deep") as refused:
        check_json("metadata", _nested(65))
    assert (refused.value.rule, refused.value.limit) == ("depth", 64)


@pytest.mark.slow
def test_a_hundred_thousand_levels_or_a_circle_are_refused_not_recursed_into() -> None:
    circle: list[object] = []
    circle.append(circle)
    for value in (_nested(100_000), circle):
        with pytest.raises(RejectedError, match="nests too deep"):
            check_json("metadata", value)


@pytest.mark.slow
def test_lists_that_share_members_cannot_stand_for_endless_values() -> None:
    value: object = 1
    for _ in range(30):
        value = [value] * 10
    with pytest.raises(RejectedError, match="too many values") as refused:
        check_json("metadata", value)
    assert (refused.value.rule, refused.value.limit) == ("size", MAX_JSON_VALUES)


def test_a_noun_is_in_the_plural_unless_the_number_is_one() -> None:
    nouns = {"message": "messages", "memory": "memories", "day": "days", "later command": "later commands"}
    for one, many in nouns.items():
        assert [counted(number, one) for number in (0, 1, 1_200)] == [f"0 {many}", f"1 {one}", f"1,200 {many}"]
