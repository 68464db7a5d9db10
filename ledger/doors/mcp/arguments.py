"""The wrong arguments of a tool call in plain words: the argument, the value that came, and the values that are allowed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from mcp.server.mcpserver.tools import Tool
from pydantic import ConfigDict, ValidationError

from ledger.models.port import short

SHOWN_CHARS = 60  # of a text that a message repeats; of a longer text it says the length
NAMED = 3  # arguments that a message names
Schema = Mapping[str, Any]


def strict(tool: Tool) -> Tool:
    """Return the tool, which now refuses an argument that it does not have; its schema says so."""
    model = tool.fn_metadata.arg_model
    closed: Any = type(model.__name__, (model,), {"model_config": ConfigDict(extra="forbid"), "__module__": __name__})
    tool.fn_metadata.arg_model, tool.parameters = closed, short(closed.model_json_schema(by_alias=True))
    return tool


def problems(error: ValidationError, schema: Schema) -> str:
    """Return what is wrong with the arguments of a call, and what is allowed.

    Args:
        error: The problems, as pydantic finds them.
        schema: The JSON schema of the arguments, which the model knows.
    """
    texts = dict[str, str]()  # by place, for every member of a union has a problem of its own
    for problem in error.errors(include_url=False, include_context=False):
        steps = problem["loc"]
        place, part = _at(schema, steps)
        if problem["type"] == "extra_forbidden":
            name, within = json.dumps(str(steps[-1])[:SHOWN_CHARS]), f" in {place}" if place else ""
            texts[f"{place}.{name}"] = f"there is no {name}{within}: {_listed(part['properties'], 'and')} are allowed"
        elif problem["type"] == "missing":
            texts[place] = f"{place} is missing: it has to be {_allowed(schema, part)}"
        elif problem["type"] == "too_long":
            texts[place] = f"{place} is a list of {len(problem['input']):,}: it has to be {_allowed(schema, part)}"
        else:
            texts[place] = f"{place} is {_shown(problem['input'])}: it has to be {_allowed(schema, part)}"
    more = [f"and {len(texts) - NAMED} more"] if len(texts) > NAMED else []
    return "; ".join([*[*texts.values()][:NAMED], *more])


def _at(schema: Schema, steps: Iterable[str | int]) -> tuple[str, Schema]:
    """Return the place of a problem as a path, and its schema; a step that the schema lacks ends the path."""
    place, part = "", schema
    for step in steps:
        if isinstance(step, int) and "items" in part:
            place, part = f"{place}[{step}]", part["items"]
        elif step in part.get("properties", {}):
            place, part = f"{place}.{step}" if place else str(step), part["properties"][step]
        else:
            break  # the name of a union's member, or a name that nobody knows
        part = _resolved(schema, part)
    return place, part


def _resolved(schema: Schema, part: Schema) -> Schema:
    found: Schema = schema["$defs"][part["$ref"].rpartition("/")[2]] if "$ref" in part else part
    return found


def _allowed(schema: Schema, part: Schema) -> str:
    return _listed(_choices(schema, part), "or")


def _choices(schema: Schema, part: Schema) -> list[str]:
    """Return the kinds of values that a schema allows."""
    part = _resolved(schema, part)
    if "anyOf" in part:
        return [choice for member in part["anyOf"] for choice in _choices(schema, member)]
    return [json.dumps(value) for value in part["enum"]] if "enum" in part else [_kind(schema, part)]


def _kind(schema: Schema, part: Schema) -> str:
    kind = part.get("type")
    if kind == "array":
        items = _resolved(schema, part["items"])
        plain = "whole numbers" if items.get("type") == "integer" else "texts"
        of = f"objects with {_listed(items['properties'], 'and')}" if "properties" in items else plain
        most = f", of at most {part['maxItems']:,}" if "maxItems" in part else ""
        return f"a list of {of}{most}" + (", and not empty" if part.get("minItems") else "")
    if kind in ("integer", "number"):
        number = "a whole number" if kind == "integer" else "a number"
        return f"{number} from {part['minimum']:,} to {part['maximum']:,}" if "minimum" in part else number
    if kind == "string":
        most = f" of at most {part['maxLength']:,} characters" if "maxLength" in part else ""
        return f"a text{most}" + (", and not empty" if part.get("minLength") else "")
    if kind == "object":
        return f"an object with {_listed(part['properties'], 'and')}"
    return "true or false" if kind == "boolean" else "null"


def _listed(words: Iterable[str], conjunction: str) -> str:
    *before, last = words
    return f"{', '.join(before)} {conjunction} {last}" if before else last


def _shown(value: object) -> str:
    """Return a value in a few words; a long text could hold anything, so only its length is shown."""
    if isinstance(value, str) and len(value) > SHOWN_CHARS:
        return f"a text of {len(value):,} characters"
    if isinstance(value, list | tuple):
        return "a list" if value else "an empty list"
    if isinstance(value, dict):
        return "an object"
    return f"{json.dumps(value):.{2 + 6 * SHOWN_CHARS}}"
