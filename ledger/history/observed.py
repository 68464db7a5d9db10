"""Observations that others formed partly of what the source said, and consolidations that looked at it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ledger.domain.events import AnyEvent, EvidenceAdded, ObservationFormed, ObservationRevised
from ledger.history.source_plan import SourcePlan
from projections.views import observations

Differs = Callable[[str, int], bool]  # whether what a memory said, and that it could be found, was otherwise then
Found = tuple[AnyEvent, str]


def formed(plan: SourcePlan, differs: Differs) -> Iterator[Found]:
    """What others worded from several sources, some of which would not have been there, or would have said something else.

    What rests on these alone has no proof without them, so that nothing is open there.
    """
    connection = plan.reader.connection
    sources = {each for each in plan.streams if each[0] in "mi"}
    sources |= {each for stream in plan.streams for each in observations.parts(connection, stream)}
    rows = {row for source in sorted(sources) for row in observations.ever_supported_by(connection, source)}

    def is_other(source: str, event: AnyEvent) -> bool:
        if source[0] == "m":
            return differs(source, event.position)
        return not plan.reader.stands(source, plan.out, plan.again, plan.gone)

    for stream in (plan.reader.event(row).stream for row in sorted(rows)):
        if not plan.reader.stands(stream, plan.out, plan.again, plan.gone):
            continue
        for event, counts in plan.reader.stream(stream):
            taken = counts and event.position not in plan.out
            if taken and any(is_other(each, event) for each in _sources(event) if each in sources):
                yield event, "it was formed partly of what would not have been so"


def _sources(event: AnyEvent) -> tuple[str, ...]:
    data = event.data
    if isinstance(data, ObservationFormed):
        return (*data.written_from, *(each.source for each in data.evidence))
    if isinstance(data, EvidenceAdded):
        return tuple(each.source for each in data.evidence)
    return data.written_from if isinstance(data, ObservationRevised) else ()


def looked_at(plan: SourcePlan, user: str, changed: list[int]) -> Iterator[Found]:
    """The consolidations that were the first of their kind to look at a position where a memory ``changed`` to what it would
    not have been."""
    sql = (
        "SELECT position, project, over, tags, upto FROM consolidations WHERE user = ? AND error = '' AND undone_at IS NULL"
        " ORDER BY position"
    )
    before: dict[tuple[str | None, ...], int] = {}
    for position, project, over, tags, upto in plan.reader.connection.execute(sql, (user,)).fetchall():
        since = before.get((project, over, tags), 0)
        before[project, over, tags] = max(since, upto)
        if position not in plan.out and any(since < at <= upto for at in changed):
            yield plan.reader.event(position), "it looked at what would not have been so, among others"
