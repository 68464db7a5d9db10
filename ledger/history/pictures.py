"""Pictures of a belief as SVG and as Mermaid: the sum of its reasons, its confidence over time, and its neighbors.

The functions are pure: an answer goes in, a text comes out. Every text of a person is escaped. The SVG has no style of its own
but the color of the text around it, so that it is readable on a light and a dark page.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import NamedTuple

from ledger.domain.text import mermaid_label, one_line
from ledger.history.answers import Step, Why
from ledger.memories.answers import ConfidencePoint

WIDTH, CHART, ROW = 640, 160, 26  # of a picture in pixels: its width, the height of a curve, the height of a line
LEFT, RIGHT, TOP = 40, 16, 14  # of a curve: the margins in pixels
LABEL_CHARS, NAME_CHARS = 56, 34
MOST = 60  # the most steps of a picture, and the most neighbors of each kind


class PicturedNeighbor(NamedTuple):
    """A belief or a source beside a belief; ``relation`` says what it is to the belief, read from left to right."""

    id: str
    label: str
    relation: str
    before: bool


def confidence_svg(points: Sequence[ConfidencePoint]) -> str:
    """Return the steps of a confidence as a curve; a point that is not in effect is hollow. At most the last 60 steps."""
    shown = points[-MOST:]
    if not shown:
        return ""
    wide = (WIDTH - LEFT - RIGHT) / max(1, len(shown))

    def high(value: float) -> float:
        return TOP + (1 - value) * (CHART - 2 * TOP)

    parts = [_grid(high)]
    line, marks = "", ""
    for number, point in enumerate(shown):
        x, y = LEFT + number * wide, high(point.confidence)
        line += f"{'V' if line else f'M{x:.1f},'}{y:.1f}" if point.in_effect else ""
        line += f"H{x + wide:.1f}" if line else ""
        title = f"{point.position}, {point.recorded_at[:16]}: {point.type} {point.delta:+g} = {point.confidence:g}"
        fill = "currentColor" if point.in_effect else "none"
        marks += (
            f'<circle cx="{x + wide / 2:.1f}" cy="{y:.1f}" r="4" fill="{fill}" stroke="currentColor">'
            f"<title>{_text(title)}</title></circle>"
        )
    parts += [f'<path d="{line}" fill="none" stroke="currentColor" stroke-width="2"/>' if line else "", marks]
    first, last = shown[0].recorded_at[:10], shown[-1].recorded_at[:10]
    parts.append(f'<text x="{LEFT}" y="{CHART - 1}">{_text(first)}</text>')
    parts.append(
        f'<text x="{WIDTH - RIGHT}" y="{CHART - 1}" text-anchor="end">{_text(last)}</text>' if last != first else ""
    )
    return _svg(CHART + 4, f"confidence in {len(shown)} steps, now {points[-1].confidence:g}", "".join(parts))


def why_svg(why: Why) -> str:
    """Return the sum of a belief: a bar for each step that moved its confidence, from where the bar before it ended."""
    steps = _moving(why)
    scale, left = 250, 300  # pixels of a whole confidence, and where it begins
    parts, total = list[str](), 0.0
    for number, step in enumerate(steps):
        y, start, end = number * ROW, min(total, total + step.delta), abs(step.delta)
        total += step.delta
        parts.append(
            f'<text x="0" y="{y + 17}">{_text(step_label(step))}</text>'
            f'<rect x="{left + start * scale:.1f}" y="{y + 5}" width="{max(2, end * scale):.1f}" height="{ROW - 10}"'
            f' fill="{"currentColor" if step.delta >= 0 else "none"}" stroke="currentColor"/>'
            f'<text x="{WIDTH}" y="{y + 17}" text-anchor="end">{step.delta:+.6g}</text>'
        )
    y = len(steps) * ROW
    parts.append(f'<path d="M0,{y + 2}H{WIDTH}" stroke="currentColor"/><text x="0" y="{y + 20}">confidence</text>')
    parts.append(f'<text x="{WIDTH}" y="{y + 20}" text-anchor="end">{why.confidence:.6g}</text>')
    return _svg(y + ROW + 4, f"the sum of the confidence, {why.confidence:g}", "".join(parts))


def graph_svg(why: Why) -> str:
    """Return a belief between what came before it (left) and what took its place (right)."""
    around = neighbors(why)
    columns = [each for each in around if each.before], [each for each in around if not each.before]
    rows = max(1, *map(len, columns))
    height, box, middle = rows * 56 + 8, 190, (rows * 56 + 8) / 2
    parts = [_box((WIDTH - box) / 2, middle - 20, box, f"{why.id}", _name(why), strong=True)]
    for column, x in zip(columns, (0, WIDTH - box), strict=True):
        for number, each in enumerate(column):
            y = (number + 0.5) * height / len(column)
            near, far = (x + box, (WIDTH - box) / 2) if each.before else ((WIDTH + box) / 2, x)
            ends = (near, y, far, middle) if each.before else (near, middle, far, y)
            parts.append('<path d="M{:.1f},{:.1f}L{:.1f},{:.1f}" stroke="currentColor" opacity="0.5"/>'.format(*ends))
            parts.append(_box(x, y - 20, box, each.relation, each.label))
    return _svg(height, f"{why.id} and {len(around)} neighbors", "".join(parts))


def confidence_mermaid(points: Sequence[ConfidencePoint]) -> str:
    """Return the steps of a confidence as a Mermaid chart, at most the last 60."""
    shown = points[-MOST:]
    places = ", ".join(f'"{point.position}"' for point in shown)
    values = ", ".join(f"{point.confidence:g}" for point in shown)
    return f'xychart-beta\n  x-axis "position" [{places}]\n  y-axis "confidence" 0 --> 1\n  line [{values}]\n'


def why_mermaid(why: Why) -> str:
    """Return the sum of a belief as a Mermaid flowchart: a node for each step that moved its confidence."""
    steps = _moving(why)
    lines = [f'  s{number}["{mermaid_label(step_label(step))} {step.delta:+g}"]' for number, step in enumerate(steps)]
    lines.append(f'  sum["confidence {why.confidence:g}"]')
    chain = [*(f"s{number}" for number in range(len(steps))), "sum"]
    return "\n".join(["flowchart TD", *lines, f"  {' --> '.join(chain)}"]) + "\n"


def graph_mermaid(why: Why) -> str:
    """Return a belief and its neighbors as a Mermaid flowchart."""
    lines = ["flowchart LR", f'  this["{mermaid_label(_name(why))}"]']
    for number, each in enumerate(neighbors(why)):
        ends = (f"n{number}", "this") if each.before else ("this", f"n{number}")
        lines.append(f'  n{number}["{mermaid_label(each.label)}"]')
        lines.append(f'  {ends[0]} -->|"{mermaid_label(each.relation)}"| {ends[1]}')
    return "\n".join(lines) + "\n"


def neighbors(why: Why) -> list[PicturedNeighbor]:
    """Return what a belief replaced, rests on, and was replaced by; at most 60 of each kind."""
    sources = [PicturedNeighbor(each.id, _short(each.prompt), "cited", True) for each in why.sources]
    sources += [PicturedNeighbor(each.id, _short(each.content), "cited", True) for each in why.chunks]
    sources += [PicturedNeighbor(each.id, _short(each.content), "cited", True) for each in why.evidence]
    before = [PicturedNeighbor(each.id, _short(each.content), "superseded", True) for each in why.supersedes]
    after = [PicturedNeighbor(each.id, _short(each.content), "superseded by", False) for each in why.superseded_by]
    return [*before[:MOST], *sources[:MOST], *after[:MOST]]


def content_of(why: Why) -> str | None:
    """Return the text of a belief, or of a value; None if it was erased."""
    if why.value is not None:
        return None if why.value.value is None else str(why.value.value)
    subject = why.memory or why.observation
    return subject.content if subject is not None else None


def step_label(step: Step) -> str:
    """Return a step in a few words: its position, who gave which command, and the reason."""
    who = f" by {step.actor}" if step.actor else ""
    return _short(f"{step.position} {step.command}{who}{f': {step.because}' if step.because else ''}", LABEL_CHARS - 12)


def _moving(why: Why) -> list[Step]:
    return [step for step in why.steps if step.in_effect and step.delta][-MOST:]


def _name(why: Why) -> str:
    belief = why.memory or why.observation
    return _short(belief.content if belief is not None else why.value.key if why.value is not None else None)


def _short(text: str | None, chars: int = NAME_CHARS) -> str:
    line = one_line(text[: chars * 4]) if text is not None else "(erased)"
    return line if len(line) <= chars else line[: chars - 1].rstrip() + "…"


def _text(text: str) -> str:
    return escape(one_line(text))


def _box(x: float, y: float, wide: float, above: str, text: str, *, strong: bool = False) -> str:
    return (
        f'<rect x="{x + 1:.1f}" y="{y:.1f}" width="{wide - 2:.1f}" height="40" rx="6" fill="none" stroke="currentColor"'
        f' stroke-width="{2 if strong else 1}"/><text x="{x + 8:.1f}" y="{y + 15:.1f}" opacity="0.8">{_text(above)}</text>'
        f'<text x="{x + 8:.1f}" y="{y + 32:.1f}">{_text(_short(text, 25))}</text>'
    )


def _grid(high: Callable[[float], float]) -> str:
    lines = [(value, high(value)) for value in (0.0, 0.5, 1.0)]
    return "".join(
        f'<path d="M{LEFT},{y:.1f}H{WIDTH - RIGHT}" stroke="currentColor" opacity="0.2"/>'
        f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value:g}</text>'
        for value, y in lines
    )


def _svg(height: float, label: str, inside: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" width="{WIDTH}" role="img"'
        f' aria-label="{_text(label)}" font-family="system-ui, sans-serif" font-size="12" fill="currentColor">'
        f"{inside}</svg>"
    )
