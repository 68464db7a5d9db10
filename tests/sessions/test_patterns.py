"""Session patterns: two kinds of stars, the rest literal, the whole name, and no pattern that takes long."""

from __future__ import annotations

import re

import pytest
from counting import steps
from hypothesis import example, given
from hypothesis import strategies as st

from ledger.domain.errors import RejectedError
from ledger.domain.name_patterns import MAX_PATTERNS, NamePatterns, fits

NAMES = st.text(alphabet="ab:*.\n", max_size=12)


@pytest.mark.parametrize(
    ("pattern", "name", "holds"),
    [
        ("agent:main", "agent:main", True), ("agent:main", "agent:main2", False), ("agent:main", "xagent:main", False),
        ("agent:*", "agent:main", True), ("agent:*", "agent:", True), ("agent:*", "agent:main:cron", False),
        ("agent:**", "agent:main:cron", True), ("agent:**", "agent", False),
        ("agent:*:cron", "agent:main:cron", True), ("agent:*:cron", "agent:a:b:cron", False),
        ("agent:**:cron", "agent:a:b:cron", True), ("agent:**:cron", "agent:cron", False),
        ("*", "main", True), ("*", "", True), ("*", "a:b", False), ("**", "a:b", True), ("***", "a:b", True),
        ("*a*b", "xaxb", True), ("**a*b", "a:ab", True), ("**a*b", "a:b", False), ("*:*:*", "a:b:c", True),
        ("a.c", "abc", False), ("a?c", "abc", False), ("[ab]", "a", False), ("a|b", "a", False), ("a\\*", "a\\b", True),
        ("Main", "main", False), ("a*", "a\nb", True), ("a", "a\n", False), ("é*", "épée", True), ("a/b", "a/b", True),
    ],
)  # fmt: skip
def test_stars_are_any_text_and_all_else_is_itself(pattern: str, name: str, holds: bool) -> None:
    assert fits(pattern, name) is holds


@given(NAMES, NAMES)
@example("**a*b**", "a:ab:")
@example("*a*a*", "aaa:aaa")
def test_a_pattern_holds_where_the_regular_expression_for_it_does(pattern: str, name: str) -> None:
    parts = (
        ".*" if len(run) > 1 else "[^:]*" if run == "*" else re.escape(run) for run in re.findall(r"\*+|[^*]", pattern)
    )
    assert fits(pattern, name) is bool(re.fullmatch("".join(parts), name, re.DOTALL))


@given(st.text())
def test_every_name_without_a_star_is_a_pattern_for_itself(name: str) -> None:
    assert fits(name, name)


@pytest.mark.parametrize("pattern", ["*" * 5_000, "*a" * 5_000, "**a" * 3_000, "a*" * 5_000 + "b", "*a:**" * 2_000])
@pytest.mark.parametrize("name", ["a" * 10_000, "a:" * 5_000, "ab" * 5_000])
def test_a_pattern_is_gone_through_once_however_long_the_name(pattern: str, name: str) -> None:
    assert steps(lambda: fits(pattern, name)) < 10 * len(pattern)


def test_ignored_is_stronger_than_stateless() -> None:
    patterns = NamePatterns(ignored=("cron:*",), stateless=("cron:**", "sub:*"))
    assert [patterns.kind(name) for name in ("cron:a", "cron:a:b", "sub:x", "main")] == [
        *("ignored", "stateless", "stateless", "")
    ]


def test_the_heartbeat_is_always_ignored() -> None:
    assert NamePatterns().kind("heartbeat") == NamePatterns(stateless=("**",)).kind("heartbeat") == "ignored"
    assert NamePatterns().kind("heartbeat:a") == NamePatterns().kind("Heartbeat") == ""


def test_a_list_of_patterns_is_kept_as_it_was() -> None:
    given = ["a*"]
    patterns = NamePatterns(given)  # type: ignore[arg-type]
    given.append("b*")
    assert patterns == NamePatterns(("a*",)) and hash(patterns) == hash(NamePatterns(("a*",)))


@pytest.mark.parametrize("wrong", ["a*", None, ("",), (" \n",), (1,), (None,), {"a": 1}, (b"a",)])
def test_an_invalid_list_of_patterns_is_refused(wrong: object) -> None:
    for kind in ("ignored", "stateless"):
        with pytest.raises(RejectedError):
            NamePatterns(**{kind: wrong})  # type: ignore[arg-type]


def test_there_are_at_most_so_many_patterns() -> None:
    half = tuple(f"s{n}:*" for n in range(MAX_PATTERNS // 2))
    assert NamePatterns(half, half).kind("s9:x") == "ignored"
    with pytest.raises(RejectedError) as caught:
        NamePatterns(half, (*half, "one"))
    assert caught.value.rule == "size" and caught.value.limit == MAX_PATTERNS
