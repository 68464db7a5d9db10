"""What strangers hand us in files, checked before anything else sees it."""

from __future__ import annotations

import hashlib
import json
import reprlib
from typing import Any

import msgspec

from ledger.domain import metadata, times
from ledger.domain.errors import LedgerError
from ledger.domain.interaction import TEXT_BYTES
from ledger.domain.text import check_json, check_text


class Line(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One interaction of an import; unknown fields are refused, so that nothing is dropped in silence."""

    prompt: str
    response: str = ""
    response_summary: str = ""
    project: str | None = None
    session_id: str | None = None
    client: str = ""
    occurred_at: str | None = None
    memories_used: list[str] = []
    chunks_used: list[str] = []
    context_pack: dict[str, Any] = {}
    line_id: str | None = None
    metadata: dict[str, Any] = {}

    def checked(self) -> Line:
        """The same with its time and metadata in the form that is kept; ``RejectedError`` for what no capture takes."""
        for name in _TEXTS:
            if (text := getattr(self, name)) or name == "prompt":
                check_text(name, text, max_bytes=TEXT_BYTES, blank_allowed=name != "prompt")
        for name in _NAMES:
            if text := getattr(self, name):
                check_text(name, text)
        changed: dict[str, Any] = {}
        if self.occurred_at is not None:
            changed["occurred_at"] = times.with_offset("occurred_at", self.occurred_at)
        for name in _LISTS:
            for each in getattr(self, name):
                check_text(name, each)
        if self.context_pack:
            check_json("context_pack", self.context_pack)
        if self.metadata:
            changed["metadata"] = metadata.checked(self.metadata)
        return msgspec.structs.replace(self, **changed) if changed else self

    def digest(self) -> bytes:
        """SHA-256 of everything the line says; without metadata that of lines from before there was any."""
        fields = msgspec.structs.asdict(self)
        if not self.metadata:
            del fields["metadata"]
        return hashlib.sha256(msgspec.json.encode(fields, order="deterministic")).digest()


_TEXTS = ("prompt", "response", "response_summary")
_NAMES = ("project", "session_id", "client", "line_id")
_LISTS = ("memories_used", "chunks_used")
_FORMS = dict.fromkeys(_LISTS, "a list of texts") | {"context_pack": "a JSON object", "metadata": "a JSON object"}


def check_line(given: object, project: str | None = None) -> Line | str:
    """The line, or in one sentence why it is none; ``project`` is for lines that name none."""
    try:
        value: Any = json.loads(given) if isinstance(given, str) else given
        if not isinstance(value, dict):
            return "it is no JSON object"
        for name in value:
            if name not in Line.__struct_fields__:
                return (
                    f"it has a field {name[:80]!r}, which there is not; there are: {', '.join(Line.__struct_fields__)}"
                )
        return msgspec.convert(value if project is None else {"project": project} | value, Line).checked()
    except msgspec.ValidationError as error:  # its words end in `$.prompt` or `$.memories_used[0]`
        if not (name := str(error).partition("`$.")[2].partition("[")[0].rstrip("`")):
            return "it has no prompt"
        return f"{name} is {_FORMS.get(name, 'a text')}, and {reprlib.repr(value[name])} is not"
    except LedgerError as error:
        return str(error)
    except (ValueError, RecursionError) as error:
        return f"it is no JSON ({type(error).__name__})"
