"""stems/6 as it is worded: each clause of a memory is asked against each of the response, and nothing is left out before."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

from ledger.english import agreement, matching
from ledger.english.clauses import NONE, Clause
from ledger.english.matching import Response

Best = tuple[frozenset[str], frozenset[str], str]


@contextmanager
def plainly() -> Iterator[None]:
    with ExitStack() as stack:
        for name, plain in (
            ("_can_have", lambda *_: True),
            ("_can_deny", lambda *_: True),
            ("_bounds", lambda *_: {0: 1_000}),
            ("_best", lambda part, response, *_: best(part, response)),
        ):
            stack.enter_context(patch.object(matching, name, plain))
        yield


def best(part: Clause, response: Response) -> Best:
    most, against, why = NONE, NONE, ""
    for clause in response.clauses:
        if not agreement.is_statement(part, clause):
            continue
        differs, shared = agreement.differing(part, clause) if clause.supposed <= part.supposed else ("", NONE)
        if not differs:
            most = max(most, agreement.confirmed(part, clause), key=len)
        elif not part.supposed and agreement.is_of_same(part, clause):
            against, why = (shared, differs) if len(shared) > len(against) else (against, why)
    return most, against, why
