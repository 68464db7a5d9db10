"""What strangers hand us in files, checked by pydantic before anything else sees it."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import msgspec
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from ledger.domain import times
from ledger.domain.errors import LedgerError
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

    @field_validator("prompt", "response", "response_summary")
    @classmethod
    def _text(cls, value: str, info: Any) -> str:
        return check_text(info.field_name, value, max_bytes=TEXT_BYTES, blank_allowed=info.field_name != "prompt")

    @field_validator("project", "session_id", "client", "line_id")
    @classmethod
    def _name(cls, value: str | None, info: Any) -> str | None:
        return None if value is None else check_text(info.field_name, value, max_bytes=1024, blank_allowed=True)

    @field_validator("memories_used", "chunks_used")
    @classmethod
    def _ids(cls, value: list[str], info: Any) -> list[str]:
        return [check_text(info.field_name, each, max_bytes=1024) for each in value]

    @field_validator("occurred_at")
    @classmethod
    def _time(cls, value: str | None) -> str | None:
        return None if value is None else times.with_offset("occurred_at", value)

    @field_validator("context_pack")
    @classmethod
    def _pack(cls, value: dict[str, Any]) -> dict[str, Any]:
        return check_json("context_pack", value)

    def digest(self) -> str:
        """SHA-256 (hex) of everything the line says."""
        return hashlib.sha256(msgspec.json.encode(self.__dict__, order="deterministic")).hexdigest()


def check_line(given: Any, project: str | None = None) -> Line | str:
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
