"""Reads what a language model answered: JSON amid prose, in a fence, or cut off, and of it every action that is one.

A model promises nothing, so nothing it writes can do harm: one action that is none loses no other, each that is left out is
named with its reason, and the work is in proportion to the answer. What cannot be understood at all is None, not nothing.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from ledger.domain.errors import ModelError
from ledger.language.asking import Asked

READ_CHARS = 300_000  # of an answer; what lies beyond counts as cut off
ACTIONS = 100  # read of one answer, unless told otherwise
TEXT_CHARS = 2_000  # kept of what was dropped
BEGINNINGS = 32  # places at which JSON may begin that are tried
DEPTH = 64  # as deep as an answer may nest
_TAGS = ("action", "type", "op")
_LISTS = ("actions", "items", "results")
_TEXTS = ("content", "text", "name")
_FENCED = re.compile(r"```[^\n`]*\n(.*?)(?:```|\Z)", re.DOTALL)
_STRING = (
    r'"(?:[^"\\]|\\.)*+(?:"|\Z)'  # possessive, so that no text makes it slow; one that is not ended goes to the end
)
_TOKEN = re.compile(rf"{_STRING}|[\[\]{{}}]", re.DOTALL)
_TRAILING = re.compile(rf"({_STRING})|,(?=\s*+[\]}}])", re.DOTALL)
_BEGINNING = re.compile(r"[\[{]")
_REASONS = {  # of pydantic's kinds of error, by what they begin or end with
    "missing": "missing",
    "extra_forbidden": "unknown_field",
    "literal_error": "unknown_value",
    "enum": "unknown_value",
    "string_too_short": "blank",
    "too_short": "too_few",
    "string_too_long": "too_long",
    "too_long": "too_long",
    "finite_number": "out_of_range",
    "string_unicode": "no_text",
    "string_pattern_mismatch": "invalid",
}


class Action(Struct, frozen=True):
    """One action of an answer: of which kind, and its checked ``value``, of the pydantic model for that kind."""

    what: str
    value: Any


class Dropped(Struct, frozen=True):
    """What was no action: of which kind it was to be ("" where that is not known), why not, and the text that it held."""

    what: str
    reason: str
    text: str = ""


class Parsed(Struct, frozen=True):
    """The actions of an answer in its order, what was dropped, how many more there were, and whether the answer was cut off."""

    actions: tuple[Action, ...] = ()
    dropped: tuple[Dropped, ...] = ()
    left_over: int = 0
    truncated: bool = False


def answered(asked: Asked, kinds: Mapping[str, type[object]], *, limit: int = ACTIONS) -> Parsed:
    """The actions of an answer; ``ModelError`` with the kind "NotUnderstood" where there is nothing to be understood."""
    parsed = read_actions(asked.answer.text, kinds, limit=limit)
    if parsed is None:
        raise ModelError(
            f"what the model {asked.model!r:.60} answered cannot be understood",
            kind="NotUnderstood",
            attempts=asked.attempts,
            milliseconds=asked.milliseconds,
        )
    return parsed


def read_actions(text: str, kinds: Mapping[str, type[object]], *, limit: int = ACTIONS) -> Parsed | None:
    """The actions in an answer; None where nothing can be understood, which is not the same as an answer without any.

    ``kinds`` maps the name of each kind of action to its pydantic model. An answer may be an object with a list for each
    kind (``{"add": [...], "supersede": [...]}``), or a list of objects that name their kind (``[{"action": "add", ...}]``),
    by itself or as "actions" in an object. At most ``limit`` items are looked at; ``left_over`` counts the others.
    """
    found = read_json(text, lambda value: _items(value, kinds) is not None)
    if found is None:
        return None
    value, truncated = found
    actions, dropped, left_over = list[Action](), list[Dropped](), 0
    for what, item in _items(value, kinds) or ():
        if len(actions) + len(dropped) >= limit:
            left_over += 1
            continue
        read = _read(what, item, kinds)
        if isinstance(read, Action):
            actions.append(read)
        else:
            dropped.append(read)
    return Parsed(tuple(actions), tuple(dropped), left_over, truncated)


# --- JSON ------------------------------------------------------------------------------------------------------------


def read_json(text: str, fits: Callable[[object], bool]) -> tuple[object, bool] | None:
    """The first JSON in a text that ``fits``, one that says something before one that is empty, and whether it was cut off;
    None where there is none."""
    empty: tuple[object, bool] | None = None
    for part in _parts(text[:READ_CHARS]):
        after = 0
        for place in _beginnings(part):
            if place < after:
                continue
            value, after = _decode(part, place)
            if value is None or not fits(value):
                continue
            if value:
                return value, not after
            empty = empty or (value, False)
    return empty


def _parts(text: str) -> Iterator[str]:
    """What is fenced, then the whole text."""
    for found in _FENCED.finditer(text):
        yield found[1]
    yield text


def _beginnings(part: str) -> Iterator[int]:
    for number, found in enumerate(_BEGINNING.finditer(part)):
        if number == BEGINNINGS:
            return
        yield found.start()


def _constant(_: str) -> None:
    """NaN and the infinities, which no number of ours can be."""


def _integer(digits: str) -> int | None:
    return int(digits) if len(digits) <= 18 else None


def _decimal(digits: str) -> float | None:
    found = float(digits)
    return found if math.isfinite(found) else None


_DECODER = json.JSONDecoder(parse_constant=_constant, parse_int=_integer, parse_float=_decimal, strict=False)


def _decode(part: str, place: int) -> tuple[object, int]:
    """The JSON that begins at a place, and where it ends; 0 where it does not, and then what of it is whole."""
    try:
        return _DECODER.raw_decode(part, place)
    except json.JSONDecodeError as error:
        if error.pos - place < 3:
            return None, 0  # a bracket of prose
    except (ValueError, RecursionError):
        return None, 0
    repaired = _TRAILING.sub(lambda found: found[1] or "", part[place:])
    try:
        return _DECODER.raw_decode(repaired)[0], len(part)
    except json.JSONDecodeError as error:
        return _salvaged(repaired, error.pos), 0
    except (ValueError, RecursionError):
        return None, 0


def _salvaged(part: str, wrong: int) -> object:
    """What stands before the place where JSON ends too early, up to the last object or list that is whole."""
    opened, whole = list[str](), ("", 0)
    for found in _TOKEN.finditer(part, 0, wrong):
        token = found[0]
        if token in "[{":
            opened.append("]" if token == "[" else "}")
        elif token in "]}":
            if not opened or opened.pop() != token:
                break
            whole = ("".join(reversed(opened)), found.end()) if len(opened) < DEPTH else whole
    closing, end = whole
    if not closing:
        return None
    try:
        return _DECODER.decode(part[:end] + closing)
    except (ValueError, RecursionError):
        return None


# --- actions ---------------------------------------------------------------------------------------------------------


def _items(value: object, kinds: Mapping[str, type[object]]) -> list[tuple[str, object]] | None:
    """(kind, item) of each action that a value has; None where it is of no shape that has any."""
    if isinstance(value, list):
        objects = [item for item in value if isinstance(item, dict)]
        return [(_tag(item), item) for item in value] if objects or not value else None
    if not isinstance(value, dict):
        return None
    if not value:
        return []
    if _tag(value):
        return [(_tag(value), value)]
    if not any(name in kinds or name in _LISTS for name in value):
        return _wrapped(value, kinds)
    return [each for name, items in value.items() for each in _of_field(name, items, kinds)]


def _wrapped(value: dict[str, object], kinds: Mapping[str, type[object]]) -> list[tuple[str, object]] | None:
    """The actions in the one field of an object that has any."""
    inside = [each for each in value.values() if isinstance(each, list | dict) and len(value) <= 10]
    found = [_items(each, kinds) for each in inside if isinstance(each, list) or not _is_wrapper(each, kinds)]
    fitting = [each for each in found if each and any(what in kinds for what, _ in each)]
    return fitting[0] if len(fitting) == 1 else None


def _is_wrapper(value: dict[str, object], kinds: Mapping[str, type[object]]) -> bool:
    return not _tag(value) and not any(name in kinds or name in _LISTS for name in value)


def _of_field(name: str, items: object, kinds: Mapping[str, type[object]]) -> list[tuple[str, object]]:
    if items is None or items == "":
        return []
    listed = items if isinstance(items, list) else [items]
    if name in _LISTS and name not in kinds:
        return [(_tag(item), item) for item in listed]
    if name not in kinds and not isinstance(items, list):
        return []  # what a model says besides its actions ("reasoning")
    return [(name, item) for item in listed]


def _tag(item: object) -> str:
    if not isinstance(item, dict):
        return ""
    return next((item[name].strip().lower() for name in _TAGS if isinstance(item.get(name), str)), "")


def _is_tag(name: str, value: object, what: str) -> bool:
    return name in _TAGS and isinstance(value, str) and value.strip().lower() == what


def _read(what: str, item: Any, kinds: Mapping[str, type[Any]]) -> Action | Dropped:
    model = kinds.get(what)
    if model is None:
        return Dropped("", "unknown_action", text_of(item))
    if not isinstance(item, dict):
        return Dropped(what, "wrong_type", text_of(item))
    from pydantic import ValidationError

    fields = getattr(model, "model_fields", {})
    values = {name: value for name, value in item.items() if name in fields or not _is_tag(name, value, what)}
    try:
        value = model.model_validate(values)
        json.dumps(value.model_dump(), ensure_ascii=False, default=str).encode()  # half a character nothing can store
        return Action(what, value)
    except ValidationError as error:
        return Dropped(what, _reason(error), text_of(item))
    except UnicodeEncodeError:
        return Dropped(what, "no_text", text_of(item))
    except (ValueError, TypeError, RecursionError, OverflowError):
        return Dropped(what, "invalid", text_of(item))


def _reason(error: Any) -> str:
    """A word of ours for what a pydantic model did not take."""
    kind = error.errors(include_url=False, include_context=False, include_input=False)[0]["type"]
    if kind in _REASONS:
        return _REASONS[kind]
    if kind.startswith(("greater_than", "less_than")):
        return "out_of_range"
    return "wrong_type" if kind.endswith(("_type", "_parsing", "_from_float")) else "invalid"


def text_of(item: object) -> str:
    """What an item says, for whoever looks at it later: its content, or all its texts."""
    if isinstance(item, dict):
        texts = [item[name] for name in _TEXTS if isinstance(item.get(name), str)][:1]
        texts = texts or [each for each in item.values() if isinstance(each, str)][:20]
        item = " ".join(each[:TEXT_CHARS] for each in texts)
    text = item[:TEXT_CHARS] if isinstance(item, str) else ""
    return text.encode("utf-8", "replace").decode()[:TEXT_CHARS]
