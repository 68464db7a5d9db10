"""The places of projects by plain rules on the parts of commands that are in effect. Imports nothing of the product.

Joins are taken one after another in the order of the log: what is under the second project is under the first from then on,
and between two that are together already a join says nothing. So what was written never moves, and whatever is undone, every
project is found under one. Nothing is found under a project that was erased, for that has no name.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any


def form(name: str) -> str:
    """Names are the same but for case and white space."""
    return " ".join(name.split()).casefold()


class Places:
    """The projects of a user: ``groups`` has for each the ones that it is together with, the one they are found under first."""

    def __init__(self, parts: Sequence[Any], erased: Collection[str]) -> None:
        self.erased = erased
        own = [part for part in parts if part.subject is not None and part.subject[0] == "p"]
        self.names = {part.subject: part.data["name"] for part in own if part.verb == "project"}
        self.groups: dict[str, list[str]] = {id: [id] for id in self.names}
        self.aliases: dict[str, list[str]] = {id: [] for id in self.names}
        self.described = dict.fromkeys(self.names, "")
        self.values: dict[str, dict[str, tuple[int, str]]] = {id: {} for id in self.names}
        for part in own:
            self.take(part)

    def take(self, part: Any) -> None:
        id, data = part.subject, part.data
        if part.verb == "join" and id not in self.erased and self.groups[id] is not self.groups[data["project"]]:
            group = self.groups[id]
            group += self.groups[data["project"]]
            self.groups |= dict.fromkeys(group, group)
        elif part.verb == "alias":
            self.aliases[id].append(data["alias"])
        elif part.verb == "rename":
            others = [self.names[id], *self.aliases[id]]
            self.names[id] = data["name"]
            self.aliases[id] = [other for other in others if form(other) != form(data["name"])]
        elif part.verb == "describe":
            self.described[id] = data["description"]
        elif part.verb == "set":
            self.values[id][data["entry"]] = (part.number, data["value"])
        elif part.verb == "unset":
            self.values[id].pop(data["entry"], None)

    def main(self, id: str | None) -> str | None:
        """Return the project that a project is found under: the first of its group."""
        return self.groups[id][0] if id is not None else None

    def of(self, state: dict[str, Any]) -> dict[str, Any]:
        """Return a memory's or turn's state with its projects.

        ``place`` is the project it was written to, ``project`` the one it is found under, ``called`` that one's name.
        """
        place = state.get("place", state["project"])
        main = self.main(place)
        return state | {"place": place, "project": main, "called": None if main is None else self.names[main]}

    def named(self, name: str | None) -> str | None:
        """Return the project that a name leads to, or None if no project that is not erased has the name."""
        return self.main(self.owner(name)) if name is not None else None

    def owner(self, name: str) -> str | None:
        """Return the project that was given a name, even if it is found under another project by now."""
        for id in self.names:
            if id not in self.erased and form(name) in map(form, (self.names[id], *self.aliases[id])):
                return id
        return None

    def shown(self) -> dict[str, tuple[str, list[str], str, dict[str, str]]]:
        """Project -> name, other names, description and trusted values, of all that are found by themselves, the first first."""
        found = {}
        for id, group in self.groups.items():
            if group[0] == id and id not in self.erased:
                others = [each for each in group[1:] if each not in self.erased]
                names = [
                    *self.aliases[id],
                    *(each for other in others for each in (self.names[other], *self.aliases[other])),
                ]
                values = {entry: value for entry, (_, value) in sorted(self.together(id).items())}
                found[id] = (self.names[id], sorted(names), self.description(id), values)
        return found

    def description(self, id: str) -> str:
        """Return a project's own description, or else the first description in its group."""
        return next(
            (self.described[each] for each in self.groups[id] if each not in self.erased and self.described[each]), ""
        )

    def together(self, id: str) -> dict[str, tuple[int, str]]:
        """Of the values of all that are together, each name's last one, with when it was set."""
        there = [each for each in self.groups[id] if each not in self.erased]
        found = sorted((value, entry) for each in there for entry, value in self.values[each].items())
        return {entry: value for value, entry in found}

    def takes(self, part: Any) -> bool:
        """Return True if what was taken back fits what there is now."""
        if part.verb in ("alias", "rename"):
            return self.owner(part.data["alias" if part.verb == "alias" else "name"]) in (None, part.subject)
        if part.verb == "join":
            other = part.data["project"]
            return self.main(other) == other and part.subject not in self.groups[other]
        return True
