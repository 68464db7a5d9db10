"""Settings and calls of a language model, as people read them in a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from ledger.cli.pieces import detailed, listing, moment
from ledger.domain.harmless import one_line
from ledger.engine.settings import Setting
from ledger.language.models import ModelCall


def ids(answer: Any) -> list[str] | None:
    """The positions of calls, for ``--quiet``."""
    found = [str(each.position) for each in answer if isinstance(each, ModelCall)]
    return found if len(found) == len(answer) else None


def config(found: Sequence[Setting]) -> RenderableType:
    rows = [[Text(each.name), Text(_value(each.value)), Text(one_line(each.origin))] for each in found]
    return listing("setting", "value", "from", rows=rows)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return "–" if value is None or value == "" else one_line(str(value))


def calls(found: Sequence[ModelCall]) -> RenderableType:
    rows = [_row(each) for each in found]
    return listing("pos", "when", "purpose", "tokens", "call", rows=rows, right=["pos", "tokens"])


def _row(call: ModelCall) -> list[RenderableType]:
    model = one_line(call.model) if call.model is not None else "(erased)"
    status = f" {call.status}" if call.status is not None else ""
    came = f"{call.kept} kept, {call.dropped + call.left_over} not" if call.ok else f"failed: {call.error}{status}"
    attempts = f"{call.attempts} calls" if call.attempts != 1 else ""
    details = (f"{call.milliseconds / 1000:.1f} s", attempts, call.prompt, call.project, call.session)
    what = detailed(Text(f"{model}: {came}"), *details, "" if call.in_effect else "not in force")
    tokens = f"{call.input_tokens:,} + {call.output_tokens:,}" if call.ok else ""
    return [Text(str(call.position)), Text(moment(call.recorded_at)), Text(call.purpose), Text(tokens), what]
