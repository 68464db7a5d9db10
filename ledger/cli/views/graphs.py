"""The entity graph: as a tree for the terminal, and as a flowchart for Mermaid, whose labels are made harmless."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text
from rich.tree import Tree

from ledger import answers
from ledger.cli.terminal_text import shortened
from ledger.domain.harmless import mermaid_label
from ledger.domain.memory import CO_OCCURS

LABEL_CHARS, ID_CHARS, IDS = 60, 9, 3

Line = tuple[str, str, str, int]  # source, relation, target, weight


def tree(graph: answers.Graph) -> RenderableType:
    """Each seed with its neighbors."""
    if not graph.seeds:
        return Text("no believed memory names any of this", style="dim")
    parts: list[RenderableType] = [_branches(graph, seed) for seed in graph.seeds]
    left = graph.total - len(graph.neighbors)
    notes = (
        f"{left:,} more: --limit" if left else "",
        "" if graph.complete else "only the newest 2,000 memories of a name",
    )
    return Group(*parts, *(Text(each, style="dim") for each in notes if each))


def _branches(graph: answers.Graph, seed: answers.Seed) -> Tree:
    root = Tree(Text.assemble((shortened(seed.name, LABEL_CHARS), "bold"), (f"  {_memories(seed.memories)}", "dim")))
    for each in graph.neighbors:
        if each.seed == seed.name:
            root.add(_branch(each))
    return root


def _branch(each: answers.Neighbor) -> Text:
    relation = shortened(each.relation, LABEL_CHARS)
    how = {"out": f"{relation} → ", "in": f"← {relation} ", "both": "with "}[each.direction]
    ids = " ".join(id[:ID_CHARS] for id in each.memories[:IDS])
    more = f" +{each.weight - IDS}" if each.weight > IDS else ""
    style = "" if each.relation == CO_OCCURS else "cyan"
    until = f"  until {each.valid_to[:10]}" if each.valid_to is not None else ""
    text = f"  {_memories(each.weight)}: {ids}{more}{until}"
    return Text.assemble((how, style), shortened(each.name, LABEL_CHARS), (text, "dim"))


def _memories(count: int) -> str:
    return f"{count:,} memory" if count == 1 else f"{count:,} memories"


# --- for other programs ----------------------------------------------------------------------------------------------


def mermaid(graph: answers.Graph) -> str:
    """A flowchart for Mermaid: what is said with arrows, what only stands together with lines."""
    numbers = _numbers(graph)
    lines = [f'  n{number}["{mermaid_label(name)}"]' for name, number in numbers.items()]
    for source, relation, target, weight in _lines(graph):
        label = mermaid_label(f"{relation} ({weight})" if weight > 1 else relation)
        arrow = "-.-" if relation == CO_OCCURS else "-->"
        lines.append(f'  n{numbers[source]} {arrow}|"{label}"| n{numbers[target]}')
    return "\n".join(["flowchart LR", *lines]) + "\n"


def _numbers(graph: answers.Graph) -> dict[str, int]:
    """Every name with the number of its node, the seeds first."""
    names = dict.fromkeys([*(each.name for each in graph.seeds), *(each.name for each in graph.neighbors)])
    return {name: number for number, name in enumerate(names)}


def _lines(graph: answers.Graph) -> Iterator[Line]:
    """Each edge once, though both its ends were asked about."""
    seen = set[tuple[str, ...]]()
    for each in graph.neighbors:
        ends = (each.seed, each.name) if each.direction != "in" else (each.name, each.seed)
        key = (each.relation, *(sorted(ends) if each.direction == "both" else ends))
        if key not in seen:
            seen.add(key)
            yield ends[0], each.relation, ends[1], each.weight
