"""The views of answers as lists and cards: the columns of each type, and the form of the values of each field.

A type that is not named here is shown with all its fields. Every stored text becomes a ``Text`` of rich without escape
sequences.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import fields
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from ledger import answers
from ledger.cli.pieces import card_of, detailed, listing, moment, namespace_path, short, titled, whole
from ledger.cli.terminal_text import shortened, visible
from ledger.domain.text import counted, one_line
from ledger.sessions.diagram import NO_SUMMARY
from ledger.sessions.rules.window import FALLBACK

COLUMNS = {  # the columns of a type, and after the bar the fields in small print under the last column
    "AuditEntry": "position recorded_at subject type | content command actor client project session reason in_effect",
    "Chunk": "id line size heading_path | content",
    "Conflict": "id attribute memories | status newest project winner action reason",
    "ConfidencePoint": "position recorded_at confidence delta type | echo matcher interaction in_effect",
    "Distrusted": "kind since until origin | reason command_id",
    "Document": "id chunk_count title | path project type status tags metadata size added dropped absorbed",
    "ErasureReport": "position recorded_at state kind subject | command_id reason why",
    "Hold": "id recorded_at subject | reason",
    "Interaction": "id occurred_at prompt | project session client metadata quarantined warnings",
    "LogEntry": "position recorded_at subject type | command actor client in_effect",
    "Memory": "id confidence content | kind project status reference_count quarantined tags metadata relations",
    "Merge": "id similarity memories | status project why memory content reason",
    "Message": "position role content | speaker tokens occurred_at metadata model reasoning hidden quarantined",
    "ModelCall": "position recorded_at purpose model | error status kept dropped input_tokens output_tokens prompt",
    "Observation": "id confidence proof_count trend freshness content | project status retracted quarantined tags",
    "ObservationSource": "id at live | withdrawn",
    "Evidence": "id at live content | withdrawn status",
    "OwnProjection": "name version position behind tables | is_open suspended_at error",
    "ProjectInfo": "id name description | roots off aliases state",
    "Quarantined": "position kind id finding | scanner recorded_at quarantined",
    "Refusal": "position recorded_at command rule | finding subject actor limit current requested",
    "SessionInfo": "id messages turns name | aliases project metadata tokens hidden window_items window_tokens updated_at",
    "Setting": "name value origin",
    "StateEntry": "category name value | recorded_at actor source to_position",
    "Step": "position recorded_at confidence delta type | command actor in_effect because",
    "Summary": "id status content | kind depth level messages source_tokens tokens model",
    "Value": "id namespace key value | status expires_at absorbed",
    "WindowItem": "position tokens kind | role summary_kind id time messages",
    "Wording": "position recorded_at content | why consolidator actor reason in_effect",
}
NAMES = {  # headings that are shorter than the names of the fields
    "position": "pos", "recorded_at": "when", "occurred_at": "when", "confidence": "conf", "chunk_count": "chunks",
    "proof_count": "proof", "similarity": "alike", "heading_path": "under", "delta": "change", "size": "chars",
}  # fmt: skip
RIGHT = (
    "position",
    "line",
    "size",
    "chunk_count",
    "proof_count",
    "similarity",
    "delta",
    "messages",
    "tokens",
    "events",
)
STYLES = {
    "active": "green", "open": "red", "proposed": "yellow", "candidate": "yellow", "superseded": "dim",
    "invalid": "red", "retracted": "dim", "fresh": "green", "stale": "yellow", "unsupported": "yellow",
}  # fmt: skip
USUAL = {"active", "markdown", "knowledge", "window", "normal"}  # values that small print leaves out
QUOTED_CHARS = 110


# --- values ----------------------------------------------------------------------------------------------------------


def decimal(value: float, sign: str = "") -> str:
    """Return a number with at least two and at most six digits after the point."""
    text = f"{value:{sign}.6f}".rstrip("0")
    return text if len(text.partition(".")[2]) > 2 else f"{value:{sign}.2f}"


def _is_time(name: str) -> bool:
    return name.endswith("_at") or name in (
        "at",
        "valid_from",
        "valid_to",
        "start",
        "end",
        "time",
        "earliest",
        "latest",
    )


def plain_value(name: str, value: object) -> str:
    """Return the value of a field as text, without the field's name."""
    if value is None or value == "":
        return ""
    if name == "value" and isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False)
    if name == "namespace" and isinstance(value, tuple):
        return namespace_path(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}" if name != "position" else str(value)
    if isinstance(value, float):
        return decimal(value)
    if isinstance(value, Mapping) and name == "metadata":
        return " ".join(f"{key}={json.dumps(item, ensure_ascii=False)}" for key, item in value.items())
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {plain_value('', item)}" for key, item in value.items())
    if isinstance(value, answers.Relation):
        return f"{value.subject} {value.relation} {value.object}"
    if isinstance(value, Struct):
        return str(
            getattr(value, "id", None)
            or ", ".join(plain_value(field.name, getattr(value, field.name)) for field in fields(value))
        )
    if isinstance(value, list | tuple | frozenset):
        return ", ".join(plain_value("", item) for item in value)
    if _is_time(name) and isinstance(value, str) and len(value) > 15:
        return moment(value)
    return str(value)


def cell(name: str, value: object) -> Text:
    """Return the value of a field for a column of its own."""
    if name == "heading_path":
        above = " › ".join(one_line(heading) for heading in value or ()) if isinstance(value, Sequence) else ""
        return Text(above or "(no heading)", style="cyan" if above else "dim")
    if name == "namespace" and isinstance(value, tuple):
        return Text(namespace_path(value))
    if name == "delta" and isinstance(value, float):
        return Text(decimal(value, "+") if value else "", style="green" if value > 0 else "red")
    if name == "live":
        return Text("live" if value else "not live", style="green" if value else "yellow")
    text = one_line(plain_value(name, value))
    style = "bold" if name == "confidence" else STYLES.get(text, "")
    return Text(shortened(text, 40) if name in ("attribute", "origin", "name") else text, style=style)


def small(name: str, value: object, *, shown: str) -> str:
    """Return the value of a field for small print, with the field's name if needed; "" for a usual value."""
    if value in (None, "", (), [], 0, False, {}) or value == shown or (isinstance(value, str) and value in USUAL):
        return "not in effect" if name == "in_effect" and value is False else ""
    if name == "in_effect":
        return ""
    if name == "absorbed":
        return "known already"
    if value is True:
        return name.replace("_", " ")
    if name == "tags" and isinstance(value, Sequence):
        return " ".join(f"#{tag}" for tag in value)
    if name in ("metadata", "relations"):
        return shortened(plain_value(name, value), QUOTED_CHARS)
    if name == "reference_count":
        return f"{value} × referenced"
    if name == "state" and isinstance(value, Sequence):
        return f"{len(value)} of trusted state"
    if name == "client":
        return f"via {shortened(str(value), QUOTED_CHARS)}"
    if name in ("command", "kind", "project", "session", "type", "status", "path", "why", "model", "subject"):
        return shortened(str(value), QUOTED_CHARS)
    if isinstance(value, str) and name in ("reason", "because", "content", "reasoning", "prompt", "description"):
        return (
            f"“{shortened(value, QUOTED_CHARS)}”"
            if name != "reasoning"
            else f"{counted(len(value), 'character')} of reasoning"
        )
    if name == "level" and value == FALLBACK:
        return NO_SUMMARY
    if name == "hidden" and isinstance(value, str):
        return f"hidden by {value}"
    label = "by" if name == "actor" else "last" if name == "updated_at" else name.removesuffix("_at").replace("_", " ")
    return f"{label} {shortened(plain_value(name, value), QUOTED_CHARS)}"


# --- lists -----------------------------------------------------------------------------------------------------------


def member(memory: answers.Memory) -> Text:
    """Return a memory as one of the memories of a conflict or a merge."""
    state = "quarantined" if memory.quarantined else "" if memory.status == "active" else memory.status
    return Text.assemble((memory.id[:9] + " ", "dim"), short(memory.content), (f"  {state}" if state else "", "dim"))


def turn(interaction: answers.Interaction) -> Text:
    """Return the prompt and the response, or the summary of a response that was not read."""
    text = Text("> ", style="dim").append_text(short(interaction.prompt, QUOTED_CHARS))
    if answer := interaction.response or interaction.summary:
        text.append("\n").append_text(short(answer, QUOTED_CHARS))
    return text


def _wide(answer: object, name: str) -> Text:
    """Return the value of a field for the last column, which takes the remaining width."""
    value = getattr(answer, name, None)
    if isinstance(answer, answers.Interaction):
        return turn(answer)
    if name == "memories" and isinstance(value, Sequence):
        return Text("\n").join(member(memory) for memory in value)
    if isinstance(answer, answers.Step | answers.ConfidencePoint) and name == "type" and _is_capped(answer):
        return Text(f"{value} at the cap, no change")
    if name == "subject" and value is None:
        return Text("everything of this user")
    if name == "about" and isinstance(value, str):
        return whole(value)
    if isinstance(answer, answers.Value) and not isinstance(value, str):
        return short(json.dumps(value, ensure_ascii=False))
    if isinstance(answer, answers.Value) and name == "value" and isinstance(value, str) and _looks_like_json(value):
        return short(f"(text) {value}")
    if name == "content":
        parts = getattr(answer, "text", None)
        return short(value if value is None or not parts else parts)
    return cell(name, value) if name in ("heading_path",) or not isinstance(value, str) else short(value)


def _looks_like_json(text: str) -> bool:
    """Return True for a text that is valid JSON, which a reader could take for a JSON value."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _is_capped(step: answers.Step | answers.ConfidencePoint) -> bool:
    return step.type == "MemoryReinforced" and not step.delta and step.confidence >= 1


def table(listed: Sequence[object]) -> RenderableType:
    """Return a list of answers of one type."""
    columns, _, details = _columns(listed[0]).partition("|")
    names = columns.split()
    rows = [
        [*(cell(name, getattr(answer, name, None)) for name in names[:-1]), _last(answer, names[-1], details)]
        for answer in listed
    ]
    heads = [NAMES.get(name, name.replace("_", " ")) for name in names]
    return listing(*heads, rows=rows, right=[NAMES.get(name, name) for name in RIGHT])


class SqlRows:
    """The view of the rows of an SQL query: a table, or if that would break words, one line for each field of a row."""

    def __init__(self, rows: Sequence[Mapping[str, object]]) -> None:
        self._rows = rows

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        shown = Table(
            box=None, padding=(0, 1), pad_edge=False, show_edge=False, header_style="bold", collapse_padding=True
        )
        for name, value in self._rows[0].items():
            side: Literal["left", "right"] = "right" if isinstance(value, int | float) else "left"
            shown.add_column(Text(one_line(name)), overflow="fold", justify=side)
        for row in self._rows:
            shown.add_row(*(_raw(value) for value in row.values()))
        if Measurement.get(console, options.update(max_width=sys.maxsize), shown).minimum <= options.max_width:
            yield shown
            return
        for number, row in enumerate(self._rows):
            yield from [Text()] if number else []
            yield card_of({one_line(name): _raw(value) for name, value in row.items()})


def _raw(value: object) -> Text:
    if value is None:
        return Text("NULL", style="dim")
    return Text(shortened(value, QUOTED_CHARS) if isinstance(value, str) else f"{value!r:.{QUOTED_CHARS}}")


def _last(answer: object, name: str, details: str) -> Text:
    text = _wide(answer, name)
    shown = text.plain
    return detailed(text, *(small(field, getattr(answer, field, None), shown=shown) for field in details.split()))


def _columns(answer: object) -> str:
    declared: str | None = COLUMNS.get(type(answer).__name__)
    if declared is not None:
        return declared
    names = list(getattr(answer, "__struct_fields__", ()) or getattr(answer, "_fields", ()))
    return " ".join(names[:4]) + " | " + " ".join(names[4:])


# --- cards -----------------------------------------------------------------------------------------------------------

_TEXTS = ("content", "prompt", "response", "summary", "text", "value")
_MARKS = ("replayed", "absorbed", "skipped")  # printed on stderr


def card(answer: object, *, without: Iterable[str] = (), negative: bool = False) -> RenderableType:
    """Return an answer with its fields that are not blank; lists of answers follow below under their names.

    ``negative`` also shows fields that are False, as no.
    """
    if not isinstance(answer, Struct):
        return Text(visible(str(answer)))
    names = (field.name for field in fields(answer) if field.name not in (*without, *_MARKS))
    values = {name: getattr(answer, name) for name in names}
    below = {name: values.pop(name) for name, value in list(values.items()) if _is_list_of_answers(value)}
    shown = {name.replace("_", " "): _field(name, value, negative=negative) for name, value in values.items()}
    parts: list[RenderableType] = [card_of({name: value for name, value in shown.items() if value is not None})]
    for name, value in below.items():
        parts += titled(name.replace("_", " ").capitalize(), table(value))
    return Group(*parts)


def _is_list_of_answers(value: object) -> bool:
    return isinstance(value, list | tuple) and bool(value) and all(isinstance(item, Struct) for item in value)


def _field(name: str, value: object, *, negative: bool) -> Text | str | None:
    if name in _TEXTS and (value is None or isinstance(value, str)):
        return whole(value) if value != "" else None
    if (
        value is None
        or value == ""
        or (value is False and not negative)
        or (value in ((), []) and not isinstance(value, int) and name != "namespace")
    ):
        return None
    text = plain_value(name, value)
    return Text(one_line(text), style=STYLES.get(text, "")) if text else None


def numbers(answer: object) -> RenderableType:
    """Return a report with its fields, also those that are 0 or False."""
    if isinstance(answer, Mapping):
        return card_of({str(name).replace("_", " "): plain_value(str(name), value) for name, value in answer.items()})
    return card(answer, negative=True)


def under(
    parts: Iterable[tuple[str, Sequence[object]]], make: Callable[[Sequence[object]], RenderableType] = table
) -> list[RenderableType]:
    """Return lists under their titles, without empty lists."""
    return [part for title, listed in parts if listed for part in titled(title, make(listed))]
