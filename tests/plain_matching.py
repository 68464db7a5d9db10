"""stems/4 as it is worded: each clause of a memory is asked against each of the response, and nothing is left out before."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from ledger.domain import matching
from ledger.domain.clauses import NONE, Clause
from ledger.domain.matching import Response

Best = tuple[frozenset[str], frozenset[str], str]


@contextmanager
def plainly() -> Iterator[None]:
    with patch.object(matching, "_can_have", lambda *_: True), patch.object(matching, "_best", best):
        yield


def best(part: Clause, response: Response) -> Best:
    most, against, why = NONE, NONE, ""
    for each in response.clauses:
        differs, shared = matching._differs(part, each)
        shared |= part.stems & each.stems
        if not differs and (turned := matching._opposites(part, each)):
            shared, differs = shared | turned, "opposite"
        if each.supposed and not part.supposed:
            continue
        if differs:
            counts = not part.supposed and (part.denied.isdisjoint(shared) or part.who in shared)
            against, why = (shared, differs) if counts and len(shared) > len(against) else (against, why)
        else:
            same_time = None in (part.was, each.was) or part.was == each.was
            counts = same_time and (part.over & shared) <= (each.over | each.denied)
            most = shared if counts and len(shared) > len(most) else most
    return most, against, why
