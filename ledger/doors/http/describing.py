"""The OpenAPI description: FastAPI describes the parameters; bodies and answers are described here, as msgspec has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar, cast

import msgspec
from fastapi import FastAPI

from ledger import answers
from ledger.doors.http.questions import Body

REFS = "#/components/schemas/{name}"
ERROR: dict[str, object] = {
    "type": "object",
    "required": ["error", "message"],
    "properties": {
        "error": {"type": "string", "description": "The kind, such as NotFoundError."},
        "message": {"type": "string", "description": "What was asked, what was true, and what is allowed."},
        "rule": {"type": "string", "description": "Of a RejectedError: the rule in one word."},
    },
}
_structs: set[type[msgspec.Struct]] = set()

T = TypeVar("T")
Responses = dict[int | str, dict[str, object]]


def answer_of(kind: type[msgspec.Struct], *, status: int = 200, listed: bool = False) -> Responses:
    """Return the schema of an answer, or of a page of such answers."""
    schema = _reference(kind)
    if listed:
        following = {"type": ["string", "null"], "description": "The cursor of the next page: `after`."}
        properties = {"items": {"type": "array", "items": schema}, "next": following}
        schema = {"type": "object", "required": ["items", "next"], "properties": properties}
    return {status: {"description": "The answer.", "content": {"application/json": {"schema": schema}}}}


def text_of_pack() -> Responses:
    """Return the schema of a pack with its text for the prompt."""
    text = {"type": "string", "description": "The items as fenced lines, for the prompt: data, no instructions."}
    own = {"type": "object", "required": ["text"], "properties": {"text": text}}
    schema = {"allOf": [_reference(answers.Pack), own]}
    return {200: {"description": "The answer.", "content": {"application/json": {"schema": schema}}}}


def takes(kind: type[Body]) -> dict[str, object]:
    """Return the description of a body, for the ``openapi_extra`` of a path."""
    content = {"application/json": {"schema": _reference(kind)}}
    return {"requestBody": {"required": True, "content": content}}


def _reference(kind: type[msgspec.Struct]) -> dict[str, object]:
    _structs.add(kind)
    return {"$ref": REFS.format(name=kind.__name__)}


REFUSED = {
    400: "The request is no HTTP, or says two lengths of its body.",
    401: "There is no token, or it was revoked.",
    403: "The request comes from a web page of another origin, or is not this token's to make.",
    404: "There is no such subject of this user.",
    408: "The request came too slowly.",
    409: "Something changed meanwhile.",
    413: "The body is too large.",
    421: "The request means another host.",
    422: "A rule refused the request, or it is not as this schema says.",
    502: "A model failed.",
    503: "The file is locked, damaged or closed.",
}
FOLLOWED: Responses = {
    200: {"description": "Events as they come.", "content": {"text/event-stream": {"schema": {"type": "string"}}}}
}
MEASURED: Responses = {200: {"description": "The figures.", "content": {"text/plain": {"schema": {"type": "string"}}}}}


def describe(app: FastAPI) -> None:
    """Add the schemas of the answers, and the refusals that every path has, to the OpenAPI description."""
    made = app.openapi

    def described() -> dict[str, object]:
        if app.openapi_schema is None:
            _complete(made())  # FastAPI keeps what it made
        return app.openapi_schema or {}

    app.openapi = described  # type: ignore[method-assign] # as FastAPI's own guide does


def _any_json(kind: type) -> dict[str, object]:
    """Return the schema of a value that may be any JSON, as a message's ``raw`` is."""
    if kind is not object:
        raise NotImplementedError
    return {"description": "Any JSON."}


def _plain(schema: T) -> T:
    """Return a schema without ``prefixItems``, which programs that read OpenAPI take for a mistake: any item is allowed there."""
    if isinstance(schema, dict):
        kept = {name: _plain(part) for name, part in schema.items() if name != "prefixItems"}
        return cast("T", kept | ({"items": {}} if "prefixItems" in schema else {}))
    return cast("T", [_plain(part) for part in schema]) if isinstance(schema, list) else schema


def _complete(schema: Mapping[str, dict[str, dict[str, dict[str, dict[str, object]]]]]) -> None:
    schemas = schema["components"]["schemas"]
    for unused in ("HTTPValidationError", "ValidationError"):  # FastAPI's own form of a refusal
        schemas.pop(unused, None)
    kinds = sorted(_structs, key=lambda kind: kind.__name__)
    schemas |= _plain(msgspec.json.schema_components(kinds, ref_template=REFS, schema_hook=_any_json)[1])
    schemas["Error"] = ERROR  # type: ignore[assignment]
    refused = {"application/json": {"schema": {"$ref": REFS.format(name="Error")}}}
    for operations in schema["paths"].values():
        for operation in operations.values():
            for status, words in REFUSED.items():
                operation["responses"][str(status)] = {"description": words, "content": refused}
