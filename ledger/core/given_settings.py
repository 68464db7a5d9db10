"""The check of settings from the environment and from files, by pydantic, before any other code sees them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any

import msgspec
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, create_model

from ledger.domain.errors import RejectedError
from ledger.domain.text import problem_of_command

_URL = re.compile(r"https?://[^\s/?#@]+(/[^\s?#]*)?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")


def _is_url(value: str | None) -> str | None:
    if value is not None and not _URL.fullmatch(value):
        raise ValueError("it has to be the http or https address of a server, without a user, a key or a query")
    return value


def _is_variable(value: str | None) -> str | None:
    if value is not None and not _VARIABLE.fullmatch(value):
        raise ValueError("it has to be the name of an environment variable that holds the key")
    return value


def _is_command(value: list[str] | None) -> list[str] | None:
    if value is not None and (problem := problem_of_command(value)):
        raise ValueError(problem)
    return value


_BOUNDED: dict[str, Any] = {
    "model_base_url": Annotated[str | None, AfterValidator(_is_url)],
    "model_api_key_env": Annotated[str | None, AfterValidator(_is_variable)],
    "model_max_tokens": Annotated[int | None, Field(ge=1, le=1_000_000)],
    "model_temperature": Annotated[float | None, Field(ge=0, le=2, allow_inf_nan=False)],
    "model_command": Annotated[list[str] | None, AfterValidator(_is_command)],
    "model_command_calls": Annotated[int, Field(ge=1, le=1_000_000)],
    "model_command_tokens": Annotated[int, Field(ge=1, le=10**12)],
    "wal_mib": Annotated[int, Field(ge=4, le=65_536)],
    "learn_turns": Annotated[int, Field(ge=0, le=100_000)],
    "learn_tokens_a_day": Annotated[int, Field(ge=0, le=100_000_000)],
    "log_timeout": Annotated[float | None, Field(gt=0, le=86_400, allow_inf_nan=False)],
    "model_timeout": Annotated[float | None, Field(gt=0, le=86_400, allow_inf_nan=False)],
}


@cache
def _settings(kind: type[msgspec.Struct]) -> type[BaseModel]:
    """Return the pydantic model of the settings; ``ledger.core.settings`` explains each."""
    fields = {field.name: field for field in msgspec.structs.fields(kind) if field.name != "origins"}
    types: dict[str, Any] = {name: (_BOUNDED.get(name, field.type), field.default) for name, field in fields.items()}
    return create_model("Settings", __config__=ConfigDict(protected_namespaces=()), **types)


def check_settings(
    kind: type[msgspec.Struct], values: Mapping[str, object], origins: Mapping[str, str]
) -> dict[str, Any]:
    """Return the values with their types; raise ``RejectedError`` with the origin of the first value that does not fit."""
    try:
        return _settings(kind)(**values).model_dump(include=set(values))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    name = str(first["loc"][0])
    origin, shown = origins[name], f", and {values[name]!r:.60} is not"
    if name in ("model_api_key", "model_api_key_env", "model_base_url"):
        shown = ""  # the value may be a key, put here by mistake
    where = origin if origin.startswith(("LEDGER_", "MEMORY_LEDGER_")) else f"{origin}: {name}"
    message = first["msg"].removeprefix("Value error, ").replace("Input should be", "it has to be")
    raise RejectedError(f"{where}: {message}{shown}", rule="settings")
