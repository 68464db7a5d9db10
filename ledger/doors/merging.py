"""Entries of ours in the settings of other programs: put in, and taken out again, by the byte.

A file belongs to the program and to the user, so its comments, order and spacing stay. An entry goes directly behind an
opening bracket, on a line of its own. What was made with the entry around it stands on the entry's line. So a removal sees
what to take away, and leaves the bytes that were there before. Every change is read back by a parser.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

Place = tuple[str, ...]
Ours = Callable[[object], bool]

NO_FILE = "{ }\n"
"""The text that a new file grows from; a file that shrinks to this text was made by us, and is removed."""

_SPACE = re.compile(r"(?:[ \t\r\n]|//[^\n]*|/\*[\s\S]*?\*/)*")
_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_SCALAR = re.compile(r"[-+.\w]+")
DEPTH = 100


class Unreadable(ValueError):
    """A file that has another form than the program gives it; the message says where."""


@dataclass
class JsonNode:
    """A value of JSON with comments: where it stands, and of an object or array also what is in it."""

    start: int
    end: int
    value: Any = None
    members: list[tuple[int, str, JsonNode]] = field(default_factory=list)  # of an array without names

    def member(self, name: str) -> tuple[int, str, JsonNode] | None:
        return next((member for member in reversed(self.members) if member[1] == name), None)


def parse(text: str) -> JsonNode:
    """Return the value of a text of JSON, in which comments and commas before a closing bracket are allowed.

    Raises:
        Unreadable: The text is something else.
    """
    start = _spaced(text, 1 if text.startswith("\ufeff") else 0)
    node = _value(text, start, 0)
    if _spaced(text, node.end) != len(text):
        raise _wrong(text, _spaced(text, node.end), "something follows the value")
    return node


def _spaced(text: str, place: int) -> int:
    matched = _SPACE.match(text, place)
    return matched.end() if matched else place


def _wrong(text: str, place: int, why: str) -> Unreadable:
    line = text.count("\n", 0, place) + 1
    return Unreadable(f"line {line}, column {place - text.rfind(chr(10), 0, place)}: {why}")


def _value(text: str, place: int, depth: int) -> JsonNode:
    if depth > DEPTH:
        raise _wrong(text, place, f"more than {DEPTH} brackets are open")
    opening = text[place : place + 1]
    if opening in ("{", "["):
        return _bracket(text, place, depth)
    matched = (_STRING if opening == '"' else _SCALAR).match(text, place)
    if matched is None:
        raise _wrong(text, place, "a value is expected")
    try:
        return JsonNode(place, matched.end(), json.loads(matched[0], strict=False))
    except ValueError:
        raise _wrong(text, place, f"{matched[0]:.20} is no value") from None


def _bracket(text: str, start: int, depth: int) -> JsonNode:
    is_object = text[start] == "{"
    node = JsonNode(start, start, {} if is_object else [])
    place = _spaced(text, start + 1)
    while text[place : place + 1] != ("}" if is_object else "]"):
        begin, name = place, ""
        if is_object:
            key = _STRING.match(text, place)
            colon = _spaced(text, key.end()) if key else place
            if key is None or text[colon : colon + 1] != ":":
                raise _wrong(text, colon, "a name in double quotes and a colon are expected")
            name, place = _value(text, place, depth).value, _spaced(text, colon + 1)
        child = _value(text, place, depth + 1)
        node.members.append((begin, name, child))
        if is_object:
            node.value[name] = child.value
        else:
            node.value.append(child.value)
        place = _spaced(text, child.end)
        if text[place : place + 1] == ",":
            place = _spaced(text, place + 1)
        elif text[place : place + 1] not in ("}", "]"):
            raise _wrong(text, place, "a comma or a closing bracket is expected")
    node.end = place + 1
    return node


# --- JSON ------------------------------------------------------------------------------------------------------------


def with_entry(text: str, place: Place, value: object, ours: Ours | None = None) -> str:
    """Return the text with our entry at a place: the names of objects that lead to a member, or with ``ours`` to an array.

    An entry that is there is replaced. In an array ours is the item for which ``ours`` is true.

    Raises:
        Unreadable: The text is no JSON, or there is no object, or no array, on the way.
    """
    trail, missing = _trail(text, place, ours)
    node = trail[-1][1]
    if not missing:
        if node.value == value:
            return text
        return _read_back(text, text[: node.start] + _line(value) + text[node.end :], place, value, ours)
    at_array = ours is not None and len(missing) == 1
    if not isinstance(node.value, list if at_array else dict):
        where = ".".join(place[: len(place) - len(missing)]) or "the whole file"
        raise Unreadable(f"{where} is no {'array' if at_array else 'object'}")
    entry = _line(value)
    if ours is not None and not at_array:
        entry = f"[{entry}]"
    names = [name for name in missing if name]
    for name in reversed(names[1:]):
        entry = f"{{{json.dumps(name)}: {entry}}}"
    if not at_array:
        entry = f"{json.dumps(names[0])}: {entry}"
    comma = "," if node.members else ""
    start = node.start + 1
    changed = f"{text[:start]}{_own_line(len(trail))}{entry}{comma}{text[start:]}"
    return _read_back(text, changed, place, value, ours)


def without_entry(text: str, place: Place, ours: Ours | None = None) -> str:
    """Return the text without our entry, and without what was made around it; the text itself if the entry is not there.

    Raises:
        Unreadable: The text is no JSON.
    """
    trail, missing = _trail(text, place, ours)
    if missing:
        return text
    depth = len(trail) - 1
    while depth > 1 and _is_alone(trail, depth):
        depth -= 1
    (start, node), around = trail[depth], trail[depth - 1][1]
    if text[around.start + 1 : start] == _own_line(depth):
        end = node.end + (text[node.end : node.end + 1] == ",")
        changed = text[: around.start + 1] + text[end:]
    else:
        changed = _cut(text, around, start, node.end)
    return _read_back(text, changed, place, None, ours)


def _is_alone(trail: Sequence[tuple[int, JsonNode]], depth: int) -> bool:
    """Return True if nothing else stands in the object or array around a node of the trail."""
    (start, node), around = trail[depth], trail[depth - 1][1]
    return start == around.start + 1 and node.end == around.end - 1


def _cut(text: str, around: JsonNode, start: int, end: int) -> str:
    """Return the text without a member that somebody moved, and without the comma that parted it from its neighbor."""
    after = _spaced(text, end)
    if text[after] == ",":
        return text[:start] + text[_spaced(text, after + 1) :]
    before = [child.end for begin, _, child in around.members if begin < start]
    if before:
        return text[: before[-1]] + text[end:]
    return text[:start] + text[end:]


def _trail(text: str, place: Place, ours: Ours | None) -> tuple[list[tuple[int, JsonNode]], Place]:
    """Return the values on the way to a place, each with the start of its member, and the names that are missing."""
    names = (*place, "") if ours is not None else place
    trail = [(0, parse(text))]
    for number, name in enumerate(names):
        node = trail[-1][1]
        if ours is not None and number == len(place):
            items = node.members if isinstance(node.value, list) else []
            member = next((item for item in items if ours(item[2].value)), None)
        else:
            member = node.member(name) if isinstance(node.value, dict) else None
        if member is None:
            return trail, names[number:]
        trail.append((member[0], member[2]))
    return trail, ()


def _line(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _own_line(depth: int) -> str:
    return "\n" + "  " * depth


def _read_back(before: str, changed: str, place: Place, value: object, ours: Ours | None) -> str:
    """Return the changed text after the parser found that our entry is the value, None for no entry, and the rest is equal."""
    trail, missing = _trail(changed, place, ours)
    entry = None if missing else trail[-1][1].value
    if entry != value or _rest(parse(changed).value, place, ours) != _rest(parse(before).value, place, ours):
        raise Unreadable(f"the entry {'.'.join(place)} cannot be changed without changing something else")
    return changed


def _rest(value: object, place: Place, ours: Ours | None) -> object:
    """Return a value without our entry, and without the objects and arrays that are empty then."""
    if not place:
        return [item for item in value if not ours(item)] if ours and isinstance(value, list) else value
    if not isinstance(value, dict) or place[0] not in value:
        return value
    kept = {name: part for name, part in value.items() if name != place[0]}
    if len(place) == 1 and ours is None:
        return kept
    inner = _rest(value[place[0]], place[1:], ours)
    return kept if inner in ({}, []) else kept | {place[0]: inner}


# --- TOML ------------------------------------------------------------------------------------------------------------

OPENS, CLOSES = "# >>> memory-ledger >>>", "# <<< memory-ledger <<<"


def with_block(text: str | None, table: Place, values: dict[str, str | list[str] | bool]) -> str:
    """Return a text of TOML with a table of ours at its end, between two comments; a block that is there is replaced.

    None stands for no file. A file that is there, also an empty file, is parted from the block by a newline.

    Raises:
        Unreadable: The text is no TOML, or somebody else made the table.
    """
    before = _toml(without_block(text) or "" if text else "")
    lines = [f"{name} = {_toml_value(value)}" for name, value in values.items()]
    head = ".".join(name if re.fullmatch(r"[\w-]+", name) else json.dumps(name) for name in table)
    block = "\n".join([OPENS, f"[{head}]", *lines, CLOSES]) + "\n"
    if text is None:
        changed = block
    elif OPENS in text:
        start, end = _span(text)
        changed = text[:start] + block + text[end:]
    else:
        changed = f"{text}\n{block}"
    wanted = before
    for name in table[:-1]:
        wanted = wanted.setdefault(name, {})
        if not isinstance(wanted, dict):
            raise Unreadable(f"{name} is no table")
    if table[-1] in wanted:
        raise Unreadable(f"there is a table [{head}] that this command did not make; remove the table first")
    wanted[table[-1]] = values
    try:
        after = _toml(changed)
    except Unreadable:
        raise Unreadable(f"a table [{head}] cannot stand at its end") from None
    if after != before:
        raise Unreadable(f"a table [{head}] at its end would mean something else")
    return changed


def without_block(text: str) -> str | None:
    """Return a text of TOML without our block; None if the block is the whole file, which we made then.

    Raises:
        Unreadable: The block has no end.
    """
    if OPENS not in text:
        return text
    start, end = _span(text)
    if start == 0 and end == len(text):
        return None
    return text[: start - (text[start - 1 : start] == "\n")] + text[end:]


def _span(text: str) -> tuple[int, int]:
    start = text.index(OPENS)
    end = text.find(CLOSES, start)
    if end < 0:
        raise Unreadable(f"the comment {CLOSES!r} is missing, which ends the part of memory-ledger")
    end += len(CLOSES)
    return start, end + (text[end : end + 1] == "\n")


def _toml(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text.removeprefix("\ufeff"))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise Unreadable(str(error)) from None


def _toml_value(value: str | list[str] | bool) -> str:
    """Return a text, a list of texts or a truth as TOML: its basic strings have the escapes of JSON."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value).replace("\x7f", "\\u007f")
    return "[" + ", ".join(map(_toml_value, value)) + "]"
