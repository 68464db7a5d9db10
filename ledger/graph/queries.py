"""What can be asked of the graph: what is one step from a name."""

from __future__ import annotations

from ledger import answers
from ledger.domain.memory import relation_form
from ledger.domain.text import check_text
from ledger.engine.snapshot import Snapshot, believed, scope_of
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
    """The names in a text (at most 8, longest first) that believed memories name, and what is one step from them.

    A step is what a memory says of two names (``relate``), or "co_occurs": both stand in one memory. Names are what
    memories were given as ``entities`` or in edges, and what looks like a name in their text (``supplied_only`` leaves
    that out). ``relation`` asks for one relation; ``project`` for what its memories and the global ones say. At most
    ``limit`` neighbors, said relations first, each by the number of memories behind it, then the newest. A name in more
    than 2,000 memories is judged by its newest 2,000.
    """
    check_text("name_or_text", name_or_text, max_bytes=QUERY_BYTES, blank_allowed=True)
    wanted = None if relation is None else relation_form(check_text("relation", relation))
    connection = snapshot.connection
    meant = scope_of(connection, user, project)
    scope = [None, *meant] if meant is not None else None
    statuses = believed(snapshot.valid, ("active",))
    asked = graph.Asked(user, snapshot.valid or snapshot.now(), statuses, scope, supplied_only)
    seeds, complete = graph.named(connection, name_or_text, asked)
    found = [each for each in graph.around(connection, seeds, asked) if wanted is None or each.relation == wanted]
    names = {each.form: each.name for each in seeds}
    for each in found[:limit]:
        if each.form not in names:
            names[each.form] = graph.first_written(connection, each.form, asked) or each.name
    return answers.Graph(
        seeds=tuple(answers.Seed(name=each.name, memories=len(each.memories)) for each in seeds),
        neighbors=tuple(_neighbor(seeds[each.seed].name, names[each.form], each) for each in found[:limit]),
        total=len(found),
        complete=complete,
    )


def _neighbor(seed: str, name: str, joined: graph.Joined) -> answers.Neighbor:
    ends = [each.valid_to for each in joined.memories]
    return answers.Neighbor(
        seed=seed,
        name=name,
        relation=joined.relation,
        direction=joined.direction,
        weight=len(joined.memories),
        memories=tuple(each.id for each in joined.memories),
        valid_from=min(each.valid_from for each in joined.memories),
        valid_to=None if None in ends else max(end for end in ends if end is not None),
    )
