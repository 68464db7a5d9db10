"""What strangers hand us in files, checked by pydantic before anything else sees it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any

import msgspec
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, create_model, field_validator

from ledger.domain import metadata, times
from ledger.domain.errors import LedgerError, RejectedError
from ledger.domain.interaction import TEXT_BYTES
from ledger.domain.text import check_json, check_text


class Line(BaseModel):
    """One interaction of an import; unknown fields are refused, so that nothing is dropped in silence."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    prompt: str
    response: str = ""
    response_summary: str = ""
    project: str | None = None
    session_id: str | None = None
    client: str = ""
    occurred_at: str | None = None
    memories_used: list[str] = Field(default_factory=list)
    chunks_used: list[str] = Field(default_factory=list)
    context_pack: dict[str, Any] = Field(default_factory=dict)
    line_id: str | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)

    @field_validator("prompt", "response", "response_summary")
    @classmethod
    def _text(cls, value: str, info: Any) -> str:
        return check_text(info.field_name, value, max_bytes=TEXT_BYTES, blank_allowed=info.field_name != "prompt")

    @field_validator("project", "session_id", "client", "line_id")
    @classmethod
    def _name(cls, value: str | None, info: Any) -> str | None:
        return None if value is None else check_text(info.field_name, value, blank_allowed=True)

    @field_validator("memories_used", "chunks_used")
    @classmethod
    def _ids(cls, value: list[str], info: Any) -> list[str]:
        return [check_text(info.field_name, each) for each in value]

    @field_validator("occurred_at")
    @classmethod
    def _time(cls, value: str | None) -> str | None:
        return None if value is None else times.with_offset("occurred_at", value)

    @field_validator("context_pack")
    @classmethod
    def _pack(cls, value: dict[str, object]) -> dict[str, Any]:
        return check_json("context_pack", value)

    @field_validator("metadata")
    @classmethod
    def _metadata(cls, value: dict[str, object]) -> dict[str, Any]:
        return dict(metadata.checked(value))

    def digest(self) -> str:
        """SHA-256 (hex) of everything the line says; without metadata that of lines from before there was any."""
        fields = {name: value for name, value in self.__dict__.items() if value or name != "metadata"}
        return hashlib.sha256(msgspec.json.encode(fields, order="deterministic")).hexdigest()


def check_line(given: object, project: str | None = None) -> Line | str:
    """The line, or in one sentence why it is none; ``project`` is for lines that name none."""
    try:
        value = json.loads(given) if isinstance(given, str) else given
        if not isinstance(value, dict):
            return "it is no JSON object"
        return Line.model_validate(value if project is None else {"project": project} | value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        return f"{'.'.join(map(str, first['loc'])) or 'line'}: {first['msg']}"
    except LedgerError as refusal:
        return str(refusal)
    except (ValueError, RecursionError) as error:
        return f"it is no JSON ({type(error).__name__})"


# --- settings --------------------------------------------------------------------------------------------------------

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
