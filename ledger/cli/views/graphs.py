"""The views of the entity graph: a tree for the terminal, and a flowchart for Mermaid with harmless labels."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text
from rich.tree import Tree

from ledger import answers
from ledger.cli.terminal_text import shortened
from ledger.domain.text import counted, mermaid_label
from ledger.memories.state import CO_OCCURS

LABEL_CHARS, ID_CHARS, IDS = 60, 9, 3

Edge = tuple[str, str, str, int]  # (name, relation, name, number of memories)


def tree(graph: answers.Graph) -> RenderableType:
    """Return each name that the caller asked for (a seed) with its neighbors."""
    if not graph.seeds:
        return Text("no believed memory names any of this", style="dim")
    parts: list[RenderableType] = [_branches(graph, seed) for seed in graph.seeds]
    unlisted = graph.total - len(graph.neighbors)
    notes = (
        f"{unlisted:,} more: --limit" if unlisted else "",
        "" if graph.complete else "only the newest 2,000 memories of a name",
    )
    return Group(*parts, *(Text(note, style="dim") for note in notes if note))


def _branches(graph: answers.Graph, seed: answers.Seed) -> Tree:
    root = Tree(
        Text.assemble((shortened(seed.name, LABEL_CHARS), "bold"), (f"  {counted(seed.memories, 'memory')}", "dim"))
    )
    for neighbor in graph.neighbors:
        if neighbor.seed == seed.name:
            root.add(_branch(neighbor))
    return root


def _branch(neighbor: answers.Neighbor) -> Text:
    relation = shortened(neighbor.relation, LABEL_CHARS)
    arrow = {"out": f"{relation} → ", "in": f"← {relation} ", "both": "with "}[neighbor.direction]
    ids = " ".join(id[:ID_CHARS] for id in neighbor.memories[:IDS])
    more = f" +{neighbor.weight - IDS}" if neighbor.weight > IDS else ""
    style = "" if neighbor.relation == CO_OCCURS else "cyan"
    until = f"  until {neighbor.valid_to[:10]}" if neighbor.valid_to is not None else ""
    text = f"  {counted(neighbor.weight, 'memory')}: {ids}{more}{until}"
    return Text.assemble((arrow, style), shortened(neighbor.name, LABEL_CHARS), (text, "dim"))


# --- for other programs ----------------------------------------------------------------------------------------------


def mermaid(graph: answers.Graph) -> str:
    """Return a flowchart for Mermaid: arrows for relations, lines for names that only occur together."""
    numbers = _numbers(graph)
    lines = [f'  n{number}["{mermaid_label(name)}"]' for name, number in numbers.items()]
    for source, relation, target, weight in _edges(graph):
        label = mermaid_label(f"{relation} ({weight})" if weight > 1 else relation)
        arrow = "-.-" if relation == CO_OCCURS else "-->"
        lines.append(f'  n{numbers[source]} {arrow}|"{label}"| n{numbers[target]}')
    return "\n".join(["flowchart LR", *lines]) + "\n"


def _numbers(graph: answers.Graph) -> dict[str, int]:
    """Return the number of the node of each name; seeds come first."""
    names = dict.fromkeys([*(seed.name for seed in graph.seeds), *(neighbor.name for neighbor in graph.neighbors)])
    return {name: number for number, name in enumerate(names)}


def _edges(graph: answers.Graph) -> Iterator[Edge]:
    """Yield each edge once, also if both of its ends are seeds."""
    seen = set[tuple[str, ...]]()
    for neighbor in graph.neighbors:
        ends = (neighbor.seed, neighbor.name) if neighbor.direction != "in" else (neighbor.name, neighbor.seed)
        key = (neighbor.relation, *(sorted(ends) if neighbor.direction == "both" else ends))
        if key not in seen:
            seen.add(key)
            yield ends[0], neighbor.relation, ends[1], neighbor.weight
