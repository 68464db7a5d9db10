"""The reading of a language model's answer: find the JSON in it, and return every valid action.

The JSON may stand between other words, in a fenced block, or be cut off. No answer may do harm, whatever a model writes.
An invalid action does not affect the others, and is returned with the reason. The work is in proportion to the length of
the answer. An answer that cannot be understood gives None, which differs from an answer without actions.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from ledger.domain.errors import ModelError
from ledger.models.asking import ModelReply

READ_CHARS = 300_000  # the most of an answer that is read; the rest counts as cut off
ACTIONS = 100  # the most actions of one answer by default
TEXT_CHARS = 2_000  # the most text kept of a dropped action
BEGINNINGS = 32  # the most places that are tried as the beginning of JSON
DEPTH = 64  # the deepest nesting of an answer
_TAGS = ("action", "type", "op")
_LISTS = ("actions", "items", "results")
_TEXTS = ("content", "text", "name")
_FENCED = re.compile(r"```[^\n`]*\n(.*?)(?:```|\Z)", re.DOTALL)
# Possessive, so that no text makes the search slow. A string without an end reaches to the end of the text.
_STRING = r'"(?:[^"\\]|\\.)*+(?:"|\Z)'
_TOKEN = re.compile(rf"{_STRING}|[\[\]{{}}]", re.DOTALL)
_TRAILING = re.compile(rf"({_STRING})|,(?=\s*+[\]}}])", re.DOTALL)
_BEGINNING = re.compile(r"[\[{]")
_REASONS = {  # the kind of error of pydantic -> the reason in the log
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
    """An action of an answer: its kind, and its checked ``value``, an instance of the kind's pydantic model."""

    what: str
    value: Any


class DroppedAction(Struct, frozen=True):
    """A part of an answer that was no valid action: its kind ("" if unknown), the reason, and its text."""

    what: str
    reason: str
    text: str = ""


class Parsed(Struct, frozen=True):
    """An answer that was read: its actions in order, the dropped actions, and the number of actions that were not read.

    ``truncated`` is True if the answer was cut off.
    """

    actions: tuple[Action, ...] = ()
    dropped: tuple[DroppedAction, ...] = ()
    left_over: int = 0
    truncated: bool = False


def answered(answer: ModelReply, kinds: Mapping[str, type[object]], *, limit: int = ACTIONS) -> Parsed:
    """Return the actions of an answer.

    Raises:
        ModelError: The answer cannot be understood; its kind is "NotUnderstood".
    """
    parsed = read_actions(answer.answer.text, kinds, limit=limit)
    if parsed is None:
        raise ModelError(
            f"the answer of the model {answer.model!r:.60} cannot be understood",
            kind="NotUnderstood",
            attempts=answer.attempts,
            milliseconds=answer.milliseconds,
        )
    return parsed


def read_actions(text: str, kinds: Mapping[str, type[object]], *, limit: int = ACTIONS) -> Parsed | None:
    """Return the actions in an answer, or None if the answer cannot be understood.

    An answer may be an object with a list for each kind (``{"add": [...], "supersede": [...]}``), or a list of objects
    that name their kind (``[{"action": "add", ...}]``), by itself or as "actions" in an object.

    Args:
        text: The answer.
        kinds: The name of each kind of action -> its pydantic model.
        limit: The most items that are read; ``left_over`` counts the others.
    """
    json_found = read_json(text, lambda value: _items(value, kinds) is not None)
    if json_found is None:
        return None
    value, truncated = json_found
    actions, dropped, left_over = list[Action](), list[DroppedAction](), 0
    for what, item in _items(value, kinds) or ():
        if len(actions) + len(dropped) >= limit:
            left_over += 1
            continue
        outcome = _read(what, item, kinds)
        if isinstance(outcome, Action):
            actions.append(outcome)
        else:
            dropped.append(outcome)
    return Parsed(tuple(actions), tuple(dropped), left_over, truncated)


# --- JSON ------------------------------------------------------------------------------------------------------------


def read_json(text: str, fits: Callable[[object], bool]) -> tuple[object, bool] | None:
    """Return the first JSON in a text for which ``fits`` returns True, with True if it was cut off, or None.

    JSON with content is preferred to empty JSON.
    """
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
    """Yield the fenced parts of a text, then the whole text."""
    for fenced in _FENCED.finditer(text):
        yield fenced[1]
    yield text


def _beginnings(part: str) -> Iterator[int]:
    for number, beginning in enumerate(_BEGINNING.finditer(part)):
        if number == BEGINNINGS:
            return
        yield beginning.start()


def _constant(_: str) -> None:
    """Return None for NaN and the infinities, which no number of a ledger can be."""


def _integer(digits: str) -> int | None:
    return int(digits) if len(digits) <= 18 else None


def _decimal(digits: str) -> float | None:
    number = float(digits)
    return number if math.isfinite(number) else None


_DECODER = json.JSONDecoder(parse_constant=_constant, parse_int=_integer, parse_float=_decimal, strict=False)


def _decode(part: str, place: int) -> tuple[object, int]:
    """Return the JSON that begins at a place, and its end.

    The end is 0 if the JSON was cut off; the value is then the part that is whole.
    """
    try:
        return _DECODER.raw_decode(part, place)
    except json.JSONDecodeError as error:
        if error.pos - place < 3:
            return None, 0  # a bracket in a sentence, and no JSON
    except (ValueError, RecursionError):
        return None, 0
    repaired = _TRAILING.sub(lambda match: match[1] or "", part[place:])
    try:
        return _DECODER.raw_decode(repaired)[0], len(part)
    except json.JSONDecodeError as error:
        return _salvaged(repaired, error.pos), 0
    except (ValueError, RecursionError):
        return None, 0


def _salvaged(part: str, wrong: int) -> object:
    """Return the JSON before the place where it breaks off, up to the last whole object or list."""
    opened, whole = list[str](), ("", 0)
    for match in _TOKEN.finditer(part, 0, wrong):
        token = match[0]
        if token in "[{":
            opened.append("]" if token == "[" else "}")
        elif token in "]}":
            if not opened or opened.pop() != token:
                break
            whole = ("".join(reversed(opened)), match.end()) if len(opened) < DEPTH else whole
    closing, end = whole
    if not closing:
        return None
    try:
        return _DECODER.decode(part[:end] + closing)
    except (ValueError, RecursionError):
        return None


# --- actions ---------------------------------------------------------------------------------------------------------


def _items(value: object, kinds: Mapping[str, type[object]]) -> list[tuple[str, object]] | None:
    """Return (kind, item) of each action in a value, or None if the value has no shape with actions."""
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
    return [entry for name, items in value.items() for entry in _of_field(name, items, kinds)]


def _wrapped(value: dict[str, object], kinds: Mapping[str, type[object]]) -> list[tuple[str, object]] | None:
    """Return the actions in a field of an object, if exactly one field has actions."""
    fields = [part for part in value.values() if isinstance(part, list | dict) and len(value) <= 10]
    candidates = [_items(part, kinds) for part in fields if isinstance(part, list) or not _is_wrapper(part, kinds)]
    fitting = [items for items in candidates if items and any(what in kinds for what, _ in items)]
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
        return []  # text besides the actions, such as "reasoning"
    return [(name, item) for item in listed]


def _tag(item: object) -> str:
    if not isinstance(item, dict):
        return ""
    return next((item[name].strip().lower() for name in _TAGS if isinstance(item.get(name), str)), "")


def _is_tag(name: str, value: object, what: str) -> bool:
    return name in _TAGS and isinstance(value, str) and value.strip().lower() == what


def _read(what: str, item: Any, kinds: Mapping[str, type[Any]]) -> Action | DroppedAction:
    model = kinds.get(what)
    if model is None:
        return DroppedAction("", "unknown_action", text_of(item))
    if not isinstance(item, dict):
        return DroppedAction(what, "wrong_type", text_of(item))
    from pydantic import ValidationError

    fields = getattr(model, "model_fields", {})
    values = {name: value for name, value in item.items() if name in fields or not _is_tag(name, value, what)}
    try:
        value = model.model_validate(values)
        # The encoding raises an error for a lone surrogate, which no file can store.
        json.dumps(value.model_dump(), ensure_ascii=False, default=str).encode()
        return Action(what, value)
    except ValidationError as error:
        return DroppedAction(what, _reason(error), text_of(item))
    except UnicodeEncodeError:
        return DroppedAction(what, "no_text", text_of(item))
    except (ValueError, TypeError, RecursionError, OverflowError):
        return DroppedAction(what, "invalid", text_of(item))


def _reason(error: Any) -> str:
    """Return the one-word reason why a pydantic model refused a value."""
    kind = error.errors(include_url=False, include_context=False, include_input=False)[0]["type"]
    if kind in _REASONS:
        return _REASONS[kind]
    if kind.startswith(("greater_than", "less_than")):
        return "out_of_range"
    return "wrong_type" if kind.endswith(("_type", "_parsing", "_from_float")) else "invalid"


def text_of(item: object) -> str:
    """Return the text of an item, for a later reader: its content, or all its texts."""
    if isinstance(item, dict):
        texts = [item[name] for name in _TEXTS if isinstance(item.get(name), str)][:1]
        texts = texts or [value for value in item.values() if isinstance(value, str)][:20]
        item = " ".join(text[:TEXT_CHARS] for text in texts)
    text = item[:TEXT_CHARS] if isinstance(item, str) else ""
    return text.encode("utf-8", "replace").decode()[:TEXT_CHARS]
