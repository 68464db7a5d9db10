"""Filters of keyed values by the fields of objects, such as {"score": {"$gte": 5}}."""

from __future__ import annotations

from collections.abc import Mapping

from ledger.domain.errors import RejectedError
from ledger.domain.text import check_json
from ledger.types import Json

OPERATORS = ("$eq", "$ne", "$gt", "$gte", "$lt", "$lte")


def checked_filter(where: object) -> Mapping[str, Json]:
    """Return a filter of fields.

    Raises:
        RejectedError: The filter is no object, or has an unknown operator or a bound that cannot be compared.
    """
    if where is None:
        return {}
    if not isinstance(where, Mapping):
        raise RejectedError(
            f"where is a dictionary of fields, as in {{'score': {{'$gte': 5}}}}, and {where!r:.40} is not"
        )
    if operators := [name for name in where if isinstance(name, str) and name.startswith("$")]:
        raise RejectedError(f"where begins with the names of fields, and {operators[0]!r:.40} is an operator")
    checked = check_json("where", dict(where))
    pending: list[object] = [checked]
    while pending:
        part = pending.pop()
        if isinstance(part, dict):
            _check_operators(part)
            pending += part.values()
        elif isinstance(part, list):
            pending += part
    return checked


def _check_operators(part: Mapping[str, object]) -> None:
    operators = [name for name in part if name.startswith("$")]
    if unknown := [name for name in (part if operators else ()) if name not in OPERATORS]:
        raise RejectedError(
            f"where compares with {', '.join(OPERATORS)} alone or with fields alone, and {unknown[0]!r:.40} is neither"
        )
    for name in operators:
        if name not in ("$eq", "$ne") and (
            isinstance(part[name], bool) or not isinstance(part[name], str | int | float)
        ):
            raise RejectedError(f"{name} compares with a number or a text, not with {part[name]!r:.40}")


def matches(value: object, where: Mapping[str, Json]) -> bool:
    """Return True if the value is an object whose fields are as the filter wants them; a missing field is None."""
    return isinstance(value, dict) and all(_matches(value.get(name), wanted) for name, wanted in where.items())


def _matches(value: object, wanted: object) -> bool:
    if isinstance(wanted, dict):
        if any(name in OPERATORS for name in wanted):
            return all(_compares(value, operator, bound) for operator, bound in wanted.items())
        return isinstance(value, dict) and all(_matches(value.get(name), part) for name, part in wanted.items())
    if isinstance(wanted, list):
        return isinstance(value, list) and len(value) == len(wanted) and all(map(_matches, value, wanted))
    return is_equal(value, wanted)


def _compares(value: Json, operator: str, bound: Json) -> bool:
    if operator == "$eq":
        return is_equal(value, bound)
    if operator == "$ne":
        return not is_equal(value, bound)
    if not _have_order(value, bound):
        return False
    match operator:
        case "$gt":
            return bool(value > bound)
        case "$gte":
            return bool(value >= bound)
        case "$lt":
            return bool(value < bound)
        case _:
            return bool(value <= bound)


def _have_order(left: object, right: object) -> bool:
    """Return True for two numbers or two texts; True and False are no numbers."""
    if isinstance(left, bool) or isinstance(right, bool):
        return False
    numbers = isinstance(left, int | float) and isinstance(right, int | float)
    return numbers or (isinstance(left, str) and isinstance(right, str))


def is_equal(left: object, right: object) -> bool:
    """Return True for equal JSON: 1 equals 1.0, and True equals only True."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(is_equal(left[name], right[name]) for name in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(is_equal, left, right))
    return isinstance(left, bool) == isinstance(right, bool) and left == right
