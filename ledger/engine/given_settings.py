"""Settings as the environment and files say them, checked by pydantic before anything else sees them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any

import msgspec
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, create_model

from ledger.domain.errors import RejectedError

_URL = re.compile(r"https?://[^\s/?#@]+(/[^\s?#]*)?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")


def _is_url(value: str | None) -> str | None:
    if value is not None and not _URL.fullmatch(value):
        raise ValueError("it has to be the http or https address of a server, without a user, a key or a query in it")
    return value


def _is_variable(value: str | None) -> str | None:
    if value is not None and not _VARIABLE.fullmatch(value):
        raise ValueError("it has to be the name of a variable of the environment, which holds the key")
    return value


_BOUNDED: dict[str, Any] = {
    "model_base_url": Annotated[str | None, AfterValidator(_is_url)],
    "model_api_key_env": Annotated[str | None, AfterValidator(_is_variable)],
    "model_max_tokens": Annotated[int | None, Field(ge=1, le=1_000_000)],
    "model_temperature": Annotated[float | None, Field(ge=0, le=2, allow_inf_nan=False)],
    "wal_mib": Annotated[int, Field(ge=4, le=65_536)],
    "model_timeout": Annotated[float | None, Field(gt=0, le=86_400, allow_inf_nan=False)],
}


@cache
def _settings(kind: type[msgspec.Struct]) -> type[BaseModel]:
    """The settings as the environment and a file may say them; ``ledger.engine.settings`` says what they mean."""
    fields = {each.name: each for each in msgspec.structs.fields(kind) if each.name != "origins"}
    types: dict[str, Any] = {name: (_BOUNDED.get(name, each.type), each.default) for name, each in fields.items()}
    return create_model("Settings", __config__=ConfigDict(protected_namespaces=()), **types)


def check_settings(
    kind: type[msgspec.Struct], given: Mapping[str, object], origins: Mapping[str, str]
) -> dict[str, Any]:
    """The values with their types; ``RejectedError`` with the origin of the first that is none."""
    try:
        return _settings(kind)(**given).model_dump(include=set(given))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    name = str(first["loc"][0])
    origin, shown = origins[name], f", and {given[name]!r:.60} is not"
    if name in ("model_api_key", "model_api_key_env", "model_base_url"):
        shown = ""  # where a key may have been put by mistake
    where = origin if origin.startswith(("LEDGER_", "MEMORY_LEDGER_")) else f"{origin}: {name}"
    message = first["msg"].removeprefix("Value error, ").replace("Input should be", "it has to be")
    raise RejectedError(f"{where}: {message}{shown}", rule="settings")
