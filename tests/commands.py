"""Commands as tests draw any sequence of them: of whom, about what, when, and one of them done."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime

from ledger import LedgerError

USERS = ("", "ann")
TEXTS = ("The user prefers dark roast coffee.", "the user  PREFERS dark roast coffee.", "The office moved to Porto in May.",
         "Ann drinks green tea.")  # fmt: skip
RESPONSES = ("", "You prefer dark roast coffee, so the user prefers dark roast coffee.",
             "You no longer prefer dark roast coffee.",
             "Decision: The office moved to Porto in May.\n\nConstraint: tea must be green.")  # fmt: skip
START = datetime(2026, 3, 1, 12, tzinfo=UTC)
PROJECTS = (None, "Home", "casa", "Work")
PAPERS = tuple("".join(f"# {each}\n\nAbout {each}.\n\n" for each in told) for told in ("ABC", "BCA", "AXBC", "A"))


def act(ledger, clock, action, text, number, user):
    """One command; a refusal is an answer too."""
    found = ledger.memories(user=user, status="all")
    id = found[number % len(found)].id if found else "m_0000000000000000"
    turns = ledger.interactions(user=user)
    turn = turns[number % len(turns)].id if turns else "i_0000000000000000"
    papers = ledger.documents(user=user, status="all")
    paper = papers[number % len(papers)].id if papers else "d_0000000000000000"
    project, by = PROJECTS[number % 4], {"user": user, "actor": ("", "ann", "bot")[number % 3]}
    day = f"2026-0{1 + number % 6}-15"

    def batch():
        with ledger.batch():
            ledger.remember(text, project=project, **by)
            ledger.revise(id, text + " Truly.", **by)

    calls = {
        "remember": lambda: ledger.remember(text, project=project, tags=("x",), session_id="s", **by),
        "propose": lambda: ledger.propose(text, source=turn if turns else None, **by),
        "adjust": lambda: ledger.adjust(id, number / 10_000, **by),
        "reinforce": lambda: ledger.reinforce(id, source=turn if turns else None, **by),
        "supersede": lambda: ledger.supersede(id, text, **by),
        "revise": lambda: ledger.revise(id, f"{text} And more of {number % 3}.", **by),
        "describe": lambda: ledger.describe(id, {"ticket": number}, ("x",), **by),
        "retag": lambda: ledger.retag(id, ("a", "b")[number % 2 :], ("x",), **by),
        "valid": lambda: ledger.set_validity(id, day, None if number % 2 else "2026-09-01", **by),
        "relate": lambda: ledger.relate(
            id, "Ann", ("drinks", "grows")[number % 2], ("tea", "coffee")[number // 2 % 2], **by
        ),
        "unrelate": lambda: ledger.unrelate(id, "Ann", "drinks", "tea", **by),
        "state": lambda: ledger.set_state("Home", "fact", "xy"[number % 2], text, **by),
        "no_state": lambda: ledger.invalidate_state("Home", "fact", "xy"[number % 2], **by),
        "alias": lambda: ledger.add_alias("Home", ("casa", "hut")[number % 2], **by),
        "capture": lambda: ledger.capture("What?", RESPONSES[number % 4], project=project, session_id="s", **by),
        "attach": lambda: ledger.attach_response(turn, RESPONSES[1 + number % 3], **by),
        "extract": lambda: ledger.extract(turn, user=user),
        "undo": lambda: ledger.undo(1 + number % ledger.position, user=user, cascade=True),
        "redo": lambda: ledger.redo(1 + number % ledger.position, user=user),
        "policy": lambda: ledger.adopt_policy(by={"user": user}, gain=(number % 10) / 100),
        "distrust": lambda: ledger.distrust("ann", kind="actor", since=1 + number % ledger.position, user=user),
        "trust": lambda: ledger.trust("ann", kind="actor", user=user),
        "ingest": lambda: ledger.ingest(PAPERS[number % 4], path=("a.md", "b.md", None)[number % 3], tags=("x",), **by),
        "remove_document": lambda: ledger.remove_document(paper, **by),
        "restore_document": lambda: ledger.restore_document(paper, **by),
        "cite": lambda: ledger.remember(text, source=ledger.document(paper, user=user).chunks[-1].id, **by),
        "distrust_document": lambda: (ledger.trust if number % 2 else ledger.distrust)(
            paper, kind="document", user=user
        ),
        "refused": lambda: ledger.promote(id, actor=f"a{number % 4}", user=user),
        "recall": lambda: ledger.recall("tea", user=user),  # which takes what waits into the text index
        "clock": lambda: clock.advance(hours=(-30, -1, 0, 1, 24, 700)[number % 6]),
        "batch": batch,
    }
    with suppress(LedgerError, AttributeError if action == "cite" else LedgerError):
        calls.get(action, lambda: getattr(ledger, action)(id, **by))()
    clock.advance(seconds=number % 3)
