"""The commands of the machine on projects: names for them, values, one found under another, and an erasure of all in one."""

from __future__ import annotations

from absence import absent
from commands import TEXTS, USERS
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule
from oracle import CommandPart, Refused
from oracle_projects import Places

from ledger.types import Project

NAMES = ("Home", "Work", "Boat")
ALIASES = ("casa", "HOME", "boat", "hut")
WAYS = {"derived": "keep", "sources": "keep", "quotes": "keep"}
users, actors = st.sampled_from(USERS), st.sampled_from(("", "bob", "eve"))
keys = st.sampled_from((None, None, None, "k1", "k2"))
names, numbers = st.sampled_from((*NAMES, *ALIASES)), st.integers(0, 10_000)


class ProjectRules:
    """The part of the machine about projects; the machine has the ledger, the oracle and ``command``."""

    def begin_projects(self):
        for user in USERS:
            for name in NAMES:
                self.begin_project(user, name)

    def begin_project(self, user, name):
        before = self.ledger.position
        found = self.ledger.bind(user=user).projects.add(name)
        assert self.ledger.position == before + 1
        self.oracle.done(before + 1, user, "", found.id, [CommandPart("project", None, {"name": name})], None)

    def place(self, user, name):
        """Return the project that a name stands for, and the name; None for both if no project has the name."""
        found = self.oracle.places(user).named(name)
        return found, name if found is not None else None

    def about(self, verb, user, actor, key, asked, call, decide):
        """Give a command on a project; ``decide`` gets the user's projects and returns the expected changes."""
        self.command(user, actor, key, (verb, *asked), call, lambda _: decide(self.oracle.places(user)))

    @rule(user=users, name=names, text=st.sampled_from(TEXTS), actor=actors, key=keys)
    def describe(self, user, name, text, actor, key):
        def decide(places):
            main = places.named(name)
            return [CommandPart("describe", main, {"description": text})] if not places.description(main) else []

        if self.place(user, name)[1]:
            call = lambda ledger, **key: ledger.projects.add(name, description=text, **key)  # noqa: E731
            self.about("describe", user, actor, key, (name, text), call, decide)

    @rule(user=users, name=names, alias=names, actor=actors, key=keys)
    def add_alias(self, user, name, alias, actor, key):
        """Add an alias; an alias that the project has changes nothing, and a name of another project is refused."""

        def decide(places):
            main, known = places.named(name), places.named(alias)
            if main is None:
                raise Refused("NotFoundError")
            if known not in (None, main):
                raise Refused("ConflictError")
            return [CommandPart("alias", main, {"alias": alias})] if known is None else []

        call = lambda ledger, **key: ledger.projects.add_alias(name, alias, **key)  # noqa: E731
        self.about("alias", user, actor, key, (name, alias), call, decide)

    @rule(user=users, name=names, new=names, actor=actors, key=keys)
    def rename(self, user, name, new, actor, key):
        """Rename a project.

        The former name still leads to the project. A name of another project is refused, even if the two are joined.
        """

        def decide(places):
            main = places.named(name)
            if main is None:
                raise Refused("NotFoundError")
            if places.owner(new) not in (None, main):
                raise Refused("ConflictError")
            return [CommandPart("rename", main, {"name": new})] if places.names[main] != new else []

        call = lambda ledger, **key: ledger.projects.rename(name, new, **key)  # noqa: E731
        self.about("rename", user, actor, key, (name, new), call, decide)

    @rule(user=users, first=names, name=names, actor=actors, key=keys)
    def join(self, user, first, name, actor, key):
        def decide(places):
            main, other = places.named(first), places.named(name)
            if main is None or other is None:
                raise Refused("NotFoundError")
            return [CommandPart("join", main, {"project": other})] if main != other else []

        call = lambda ledger, **key: ledger.projects.join(first, name, **key)  # noqa: E731
        self.about("join", user, actor, key, (first, name), call, decide)

    @rule(user=users, first=names, name=names, text=st.sampled_from(TEXTS), number=numbers, actor=actors)
    def join_and_part(self, user, first, name, text, number, actor):
        """Join two projects, write a memory in one of them, and usually undo the join."""
        before = self.ledger.position
        self.join(user, first, name, actor, None)
        if any(part.verb == "join" and part.number > before for part in self.oracle.parts):
            candidate = number % 3 == 0
            self.remember(
                user, text, (first, name)[number % 2], None, 500_000, "", None, "project", candidate, number, False
            )
            self.look_into_projects(user, self.oracle.memories(user))
            if number % 5:
                self.undo_command(before + 1)

    @rule(
        user=users, name=names, entry=st.sampled_from(("x", "y")), value=st.sampled_from(("one", "two")), actor=actors
    )
    def set_value(self, user, name, entry, value, actor):
        def decide(places):
            main = places.named(name)
            told = {"entry": entry, "value": value}
            return [] if places.together(main).get(entry, (0, None))[1] == value else [CommandPart("set", main, told)]

        if self.place(user, name)[1]:
            call = lambda ledger, **key: ledger.projects.set_state(name, "fact", entry, value, **key)  # noqa: E731
            self.about("set", user, actor, None, (name, entry, value), call, decide)

    @rule(user=users, name=names, entry=st.sampled_from(("x", "y")), actor=actors)
    def remove_value(self, user, name, entry, actor):
        """Remove a value from all projects that are joined, or the value of another of them would count."""

        def decide(places):
            group = places.groups[places.named(name)]
            there = [id for id in group if id not in places.erased]
            return [CommandPart("unset", id, {"entry": entry}) for id in there if entry in places.values[id]]

        if self.place(user, name)[1]:
            call = lambda ledger, **key: ledger.projects.remove_state(name, "fact", entry, **key)  # noqa: E731
            self.about("unset", user, actor, None, (name, entry), call, decide)

    @precondition(lambda self: self.batch is None and not any(id[0] == "p" for id in self.oracle.erased))
    @rule(user=users, name=names, number=numbers)
    def erase_project(self, user, name, number):
        """Erase a project with all that is found under any of its names, then add a new project of the same name."""
        places = self.oracle.places(user)
        if number % 8 or places.named(name) is None:
            return
        group = places.groups[places.named(name)]
        within = {}
        for part in self.oracle.parts:
            if part.verb in ("say", "turn"):
                within.setdefault(part.subject, set()).add(part.data["project"] in group)
        if any(len(each) > 1 for each in within.values()):
            return  # said again while it was found elsewhere: its texts are of both
        assert self.ledger.bind(user=user).erase(Project(name), **WAYS).state == "completed"
        for id in (*group, *(id for id, inside in within.items() if True in inside)):
            self.oracle.erase(id)
        self.begin_project(user, name)

    # --- what must hold ------------------------------------------------------------------------------------------

    def compare_projects(self, ledger_of, left):
        """Compare the projects of each user with the oracle's; an erasure applies to all earlier moments too."""
        for user, parts in left.items():
            expected = Places(parts, self.oracle.erased).shown()
            found = {each.id: each for each in ledger_of(user).projects.list() if each.name is not None}
            assert list(found)[::-1] == sorted(expected, key=self.oracle.rows.__getitem__)
            for id, (name, aliases, description, values) in expected.items():
                each = found[id]
                assert (each.name, sorted(each.aliases), each.description) == (name, aliases, description)
                assert {entry.name: entry.value for entry in each.state} == values

    def look_into_projects(self, user, expected):
        """Check that each name of a project finds all that is in the project.

        The context for a prompt holds memories of the project and memories of no project.
        """
        places, now = self.oracle.places(user), self.oracle.now
        turns, asker = self.oracle.turns(user), self.ledger.bind(user=user)
        for name in (*NAMES, *ALIASES):
            main = places.named(name)
            inside = {id for id, state in expected.items() if main is not None and state["project"] == main}
            found = asker.memories.list(project=name, statuses=(), limit=1_000)
            assert {each.id for each in found} == inside
            heard = asker.interactions.list(project=name, limit=500)
            assert {each.id for each in heard} == {id for id, turn in turns.items() if main and turn["project"] == main}
            if main is None:
                assert absent(asker.projects.get, name)
                continue
            listed = {each.id: each for each in asker.projects.list()}
            assert asker.projects.get(name) == listed[main]
            known = [id for id, state in expected.items() if self.is_context(state, main, now)]
            known.sort(key=self.oracle.rows.__getitem__, reverse=True)
            pack = asker.projects.context(name)
            assert [item.id for item in pack.items if item.source == "memory"] == known[:10]
            values = [value for _, value in sorted(places.together(main).values())]
            assert [entry.value for entry in asker.projects.state(name)] == values
            first = [item.content for item in pack.items[: len(values)]]
            assert all(value in content for value, content in zip(values, first, strict=True))

    def is_context(self, state, main, now):
        holds = state["valid_from"] <= now and (state["valid_to"] is None or now < state["valid_to"])
        usable = state["status"] == "active" and not state["quarantined"] and holds
        return usable and state["kind"] in ("project", "env") and state["project"] in (None, main)
