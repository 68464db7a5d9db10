"""The check of the lines of imported files.

A few bytes of JSON can become many bytes of Python objects, so each field is decoded by itself, and only if it is short enough.
"""

from __future__ import annotations

import re
import reprlib
from typing import Any

import msgspec
from msgspec import Raw

from ledger.domain import metadata, times
from ledger.domain.errors import LedgerError, RejectedError
from ledger.domain.text import check_json, check_text
from ledger.interactions import dates
from ledger.interactions.dates import DateReader
from ledger.interactions.rules import TEXT_BYTES


class ImportedLine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A line of an import, which becomes an interaction; unknown fields are refused, so that none is ignored silently."""

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

    def checked(self) -> ImportedLine:
        """Check the line, and return it with its time and metadata in stored form.

        Raises:
            RejectedError: A capture would refuse a value of the line.
        """
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
            for id in getattr(self, name):
                check_text(name, id)
        if self.context_pack:
            check_json("context_pack", self.context_pack)
        if self.metadata:
            changed["metadata"] = metadata.checked(self.metadata)
        return msgspec.structs.replace(self, **changed) if changed else self


_TEXTS = ("prompt", "response", "response_summary")
_NAMES = ("project", "session_id", "client", "line_id")
_LISTS = ("memories_used", "chunks_used")
_FORMS = dict.fromkeys(_LISTS, "a list of texts") | {"context_pack": "a JSON object", "metadata": "a JSON object"}


_Fields = msgspec.defstruct(
    "_Fields", [(name, Raw, Raw()) for name in ImportedLine.__struct_fields__], forbid_unknown_fields=True
)
_fields_of = msgspec.json.Decoder(_Fields).decode
_UNKNOWN = re.compile("Object contains unknown field `(.{0,80})", re.DOTALL)
FIELD_BYTES = 2 * 1024 * 1024  # the most bytes of the JSON of a field that is not a text; an event holds 1 MiB


def check_line(
    line: bytes | bytearray | dict[str, object], project: str | None = None, dates_of: DateReader | None = None
) -> ImportedLine | str:
    """Return the checked line from its JSON or its fields, or a sentence with the reason why the line is bad.

    Args:
        line: The JSON text of the line, or its fields.
        project: The project of a line without a project.
        dates_of: The reading of ``occurred_at``; None for ISO 8601 with an offset.
    """
    value: dict[str, object] = {}
    try:
        value = line if isinstance(line, dict) else _decoded(line)
        if dates_of is not None and dates_of.is_named and isinstance(written := value.get("occurred_at"), str):
            if (moment := dates_of.read(written)) is None:
                return dates.unreadable("occurred_at", written, dates_of.dates)
            value["occurred_at"] = moment
        return msgspec.convert(value if project is None else {"project": project} | value, ImportedLine).checked()
    except msgspec.ValidationError as error:  # the message of msgspec ends in `$.prompt` or `$.memories_used[0]`
        if not (name := str(error).partition("`$.")[2].partition("[")[0].rstrip("`")):
            return "the line has no prompt"
        return f"{name} is {_FORMS.get(name, 'a text')}, and {reprlib.repr(value[name])} is not"
    except LedgerError as error:
        return str(error)
    except (ValueError, RecursionError, msgspec.DecodeError) as error:
        return f"the line is not valid JSON ({type(error).__name__})"


def _decoded(line: bytes | bytearray) -> dict[str, object]:
    try:
        fields = _fields_of(line)
    except msgspec.ValidationError as error:
        if (unknown := _UNKNOWN.match(str(error))) is None:
            raise RejectedError("the line is not a JSON object") from None
        known = ", ".join(ImportedLine.__struct_fields__)
        name = unknown[1].removesuffix("`")
        raise RejectedError(f"the line has an unknown field {name!r}; the known fields are: {known}") from None
    raws = ((name, getattr(fields, name)) for name in ImportedLine.__struct_fields__)
    return {name: value_of(name, raw) for name, raw in raws if len(memoryview(raw))}


def value_of(name: str, raw: Raw) -> object:
    """Return a decoded field.

    Raises:
        RejectedError: The field is too long. The length is checked before the field is decoded.
    """
    if (size := len(memoryview(raw))) > FIELD_BYTES:
        is_text = name in (*_TEXTS, "text") and memoryview(raw)[0] == ord('"')
        most = TEXT_BYTES if is_text else FIELD_BYTES
        least = _least_bytes(bytes(raw)) if is_text and size > TEXT_BYTES else size
        if least > most:
            raise RejectedError(f"{name} takes at least {least:,} bytes; at most {most:,} are allowed", rule="size")
    return msgspec.json.decode(raw)


def _least_bytes(text: bytes) -> int:
    """Return the least number of bytes that a JSON text can have after it is decoded."""
    return len(text) - 2 - text.count(b"\\") - 4 * text.count(b"\\u")
