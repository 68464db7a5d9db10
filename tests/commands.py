"""Commands as tests draw any sequence of them: of whom, about what, when, and one of them done."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta

from ledger import LedgerError

USERS = ("", "ann")
TEXTS = ("The user prefers dark roast coffee.", "the user  PREFERS dark roast coffee.", "The office moved to Porto in May.",
         "Ann drinks green tea.")  # fmt: skip
RESPONSES = ("", "You prefer dark roast coffee, so the user prefers dark roast coffee.",
             "You no longer prefer dark roast coffee.",
             "Decision: The office moved to Porto in May.\n\nConstraint: tea must be green.")  # fmt: skip
START = datetime(2026, 3, 1, 12, tzinfo=UTC)
KEYS = (("home",), ("home", "notes"))
PROJECTS = (None, "Home", "casa", "Work")
PAPERS = tuple("".join(f"# {each}\n\nAbout {each}.\n\n" for each in told) for told in ("ABC", "BCA", "AXBC", "A"))


def act(ledger, clock, action, text, number, user):
    """One command; a refusal is an answer too."""
    asked, by = ledger.bind(user=user), ledger.bind(user=user, actor=("", "ann", "bot")[number % 3])
    found = asked.memories.list(statuses=(), limit=1_000)
    id = found[number % len(found)].id if found else "m_0000000000000000"
    turns = asked.interactions.list()
    turn = turns[number % len(turns)].id if turns else "i_0000000000000000"
    papers = asked.documents.list(statuses=())
    paper = papers[number % len(papers)].id if papers else "d_0000000000000000"
    project, day = PROJECTS[number % 4], f"2026-0{1 + number % 6}-15"

    def batch():
        with ledger.batch():
            by.remember(text, project=project)
            by.revise(id, text + " Truly.")

    calls = {
        "remember": lambda: by.remember(text, project=project, tags=("x",), session="s"),
        "propose": lambda: by.propose(text, sources=(turn,) if turns else ()),
        "adjust": lambda: by.memories.set_confidence(id, number / 10_000),
        "reinforce": lambda: by.reinforce(id, source=turn if turns else None),
        "supersede": lambda: by.supersede(id, text),
        "revise": lambda: by.revise(id, f"{text} And more of {number % 3}."),
        "describe": lambda: by.memories.set_metadata(id, {"ticket": number}, unset=("x",)),
        "retag": lambda: by.memories.tag(id, add=("a", "b")[number % 2 :], remove=("x",)),
        "correct": lambda: by.memories.correct(
            id,
            kind=("fact", "preference", None)[number % 3],
            project=project if number % 2 else None,
            entities=("Ann",) if number % 5 else None,
        ),
        "valid": lambda: by.memories.set_validity(id, valid_from=day, valid_to=None if number % 2 else "2026-09-01"),
        "relate": lambda: by.graph.relate(
            id, "Ann", ("drinks", "grows")[number % 2], ("tea", "coffee")[number // 2 % 2]
        ),
        "unrelate": lambda: by.graph.unrelate(id, "Ann", "drinks", "tea"),
        "quarantine": lambda: by.guards.quarantine(id),
        "release": lambda: by.guards.release(id),
        "state": lambda: by.projects.set_state("Home", "fact", "xy"[number % 2], text),
        "no_state": lambda: by.projects.remove_state("Home", "fact", "xy"[number % 2]),
        "archive": lambda: by.projects.archive("Home") if number % 3 else by.projects.restore("Home"),
        "alias": lambda: by.projects.add_alias("Home", ("casa", "hut")[number % 2]),
        "rename": lambda: by.projects.rename("Home", ("casa", "house", "Home")[number % 3]),
        "link": lambda: by.projects.link("Home", ("/usr", "/usr/lib")[number % 2]),
        "enter": lambda: by.projects.enter(("/usr", "/srv/home", "/srv/sea")[number % 3]),
        "capture": lambda: by.capture("What?", RESPONSES[number % 4], project=project, session="s"),
        "attach": lambda: by.interactions.add_response(turn, RESPONSES[1 + number % 3]),
        "extract": lambda: asked.extract(turn),
        "undo": lambda: asked.undo(1 + number % ledger.position, cascade=True),
        "redo": lambda: asked.redo(1 + number % ledger.position),
        "policy": lambda: asked.policy.set(gain=(number % 10) / 100),
        "distrust": lambda: asked.history.distrust("ann", kind="actor", since=1 + number % ledger.position),
        "trust": lambda: asked.history.trust("ann", kind="actor"),
        "put": lambda: by.values.put(KEYS[number % 2], "ab"[number // 2 % 2], text if number % 3 else {"n": number}),
        "put_index": lambda: by.values.put(KEYS[0], "a", text, index=False, expires_at=clock() + timedelta(hours=30)),
        "move": lambda: by.values.move(KEYS[0], "a", KEYS[number % 2], "abc"[number % 3]),
        "remove_value": lambda: by.values.remove(KEYS[number % 2], "ab"[number // 2 % 2]),
        "restore_value": lambda: by.values.restore(KEYS[number % 2], "ab"[number // 2 % 2]),
        "ingest": lambda: by.documents.add(PAPERS[number % 4], path=("a.md", "b.md", None)[number % 3], tags=("x",)),
        "remove_document": lambda: by.documents.remove(paper),
        "restore_document": lambda: by.documents.restore(paper),
        "cite": lambda: by.remember(text, sources=(asked.documents.get(paper).chunks[-1].id,)),
        "distrust_document": lambda: (asked.history.trust if number % 2 else asked.history.distrust)(
            paper, kind="document"
        ),
        "refused": lambda: ledger.bind(user=user, actor=f"a{number % 4}").promote(id),
        "recall": lambda: asked.recall("tea"),  # which takes what waits into the text index
        "clock": lambda: clock.advance(hours=(-30, -1, 0, 1, 24, 700)[number % 6]),
        "batch": batch,
    }
    with suppress(LedgerError):
        calls.get(action, lambda: getattr(by, action)(id))()
    clock.advance(seconds=number % 3)
