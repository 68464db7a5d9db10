"""The queries on the graph: the neighbors of a name, one step away."""

from __future__ import annotations

from ledger.core.engine import Snapshot
from ledger.core.reads import believed_statuses, scope_of
from ledger.domain.text import check_text
from ledger.graph import answers
from ledger.memories.rules import relation_form
from projections.views import graph

QUERY_BYTES = 1024 * 1024


def neighbors(
    snapshot: Snapshot,
    user: str,
    name_or_text: str,
    *,
    project: str | None,
    relation: str | None,
    limit: int,
    supplied_only: bool,
) -> answers.Graph:
    """Return the names in a text (at most 8, longest first) that believed memories name, with their neighbors.

    A step is a relation that a memory states between two names (``relate``), or "co_occurs": both stand in one memory. Names are
    given with memories as ``entities`` or in edges, or look like a name in their text; ``supplied_only`` leaves the latter out.
    ``relation`` selects one relation, and ``project`` memories of the project and of no project. At most ``limit`` neighbors are
    returned, stated relations first, each by the number of memories behind it, then the newest. For a name in more than 2,000
    memories only its newest 2,000 are read.
    """
    check_text("name_or_text", name_or_text, max_bytes=QUERY_BYTES, blank_allowed=True)
    relation_asked = None if relation is None else relation_form(check_text("relation", relation))
    connection = snapshot.connection
    projects_meant = scope_of(connection, user, project)
    scope = [None, *projects_meant] if projects_meant is not None else None
    statuses = believed_statuses(snapshot.valid, ("active",))
    request = graph.GraphScope(user, snapshot.valid or snapshot.now(), statuses, scope, supplied_only)
    seeds, complete = graph.named(connection, name_or_text, request)
    joined = [
        joint
        for joint in graph.around(connection, seeds, request)
        if relation_asked is None or joint.relation == relation_asked
    ]
    names = {seed.form: seed.name for seed in seeds}
    for joint in joined[:limit]:
        if joint.form not in names:
            names[joint.form] = graph.first_written(connection, joint.form, request) or joint.name
    return answers.Graph(
        seeds=tuple(answers.Seed(name=seed.name, memories=len(seed.memories)) for seed in seeds),
        neighbors=tuple(_neighbor(seeds[joint.seed].name, names[joint.form], joint) for joint in joined[:limit]),
        total=len(joined),
        complete=complete,
    )


def _neighbor(seed: str, name: str, joined: graph.GraphNeighbor) -> answers.Neighbor:
    ends = [memory.valid_to for memory in joined.memories]
    return answers.Neighbor(
        seed=seed,
        name=name,
        relation=joined.relation,
        direction=joined.direction,
        weight=len(joined.memories),
        memories=tuple(memory.id for memory in joined.memories),
        valid_from=min(memory.valid_from for memory in joined.memories),
        valid_to=None if None in ends else max(end for end in ends if end is not None),
    )
