"""The choice of the project for a folder: one function for the hooks, the servers and the command line."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from itertools import count
from typing import NamedTuple

from msgspec.structs import replace

from ledger.core.engine import Snapshot
from ledger.domain.ids import is_prefix
from ledger.domain.text import name_form
from ledger.log.shared.port import read_replica_row
from ledger.projects import answers
from ledger.projects.folders import FILE, Place, place_of
from ledger.projects.queries import find, is_off
from projections.core.rows import Connection
from projections.views import control, projects


class Choice(NamedTuple):
    """The project for the root of a folder; ``id`` is None for a project that is not on record yet.

    Attributes:
        machine: The machine that the root is recorded for.
        linked: True if the log has the link of the root with this project.
        ignored: The reason why the project that the repository names is not taken, or "".
    """

    id: str | None
    name: str
    machine: str
    linked: bool = False
    ignored: str = ""


def of(snapshot: Snapshot, user: str, folder: str, project: str | None) -> answers.FolderProject:
    """Return the project of a folder, or the named project, in the folder."""
    place, connection = place_of(folder), snapshot.connection
    found = answers.FolderProject()
    if place is not None:
        found = answers.FolderProject(root=place.root, off="file" if place.off else "", ignored=place.ignored)
    id: str | None
    if project is not None:
        known = find(connection, user, project)
        id = known.id if known is not None else None
        found = replace(found, project=id or project, name=known.name if known is not None else project)
    elif place is None:
        return found
    else:
        choice = chosen(connection, user, place)
        id, ignored = choice.id, (*place.ignored, *filter(None, (choice.ignored,)))
        name = projects.names(connection, (id,)).get(id or "", choice.name)
        found = replace(found, project=id or name, name=name, linked=choice.linked, ignored=ignored)
    by_policy = id is not None and is_off(connection, control.policy(connection, user).off, id)
    return replace(found, off=found.off or ("policy" if by_policy else ""))


def chosen(connection: Connection, user: str, place: Place) -> Choice:
    """Return the project for the root of a folder: that which its file names, that of its link, or one by the folder's name.

    A project of that name is taken if it has no root; else the name of the new project has a part of the path in it.
    """
    machine = machine_of(connection, place)
    rooted, ignored = projects.rooted(connection, user, machine, place.root), ""
    if place.project is not None and name_form(place.project) != name_form(place.parts[-1]):
        known = _id_named(connection, user, place.project)
        if known is None or known == rooted:
            return Choice(known, place.project, machine, linked=known is not None)
        ignored = (
            f"{FILE} names the project {place.project!r}, which is on record: it is used here after "
            f"`memory-ledger projects link {shlex.quote(place.project)}` in {place.root}"
        )
    if rooted is not None:
        return Choice(rooted, place.parts[-1], machine, linked=True, ignored=ignored)
    for name in _names_for(place, machine):
        known = _id_named(connection, user, name)
        if known is None or not projects.roots(connection, known):
            return Choice(known, name, machine, ignored=ignored)
    raise AssertionError("the names never end")


def machine_of(connection: Connection, place: Place) -> str:
    """Return the machine that a root is recorded for; "" in the home directory, and in a file with a log of its own."""
    replica = None if place.root.startswith("~/") else read_replica_row(connection)
    return replica.machine if replica is not None else ""


def _names_for(place: Place, machine: str) -> Iterator[str]:
    """Yield names for a new project: that of the folder, then with more and more of its path, its machine, and a number."""
    *parents, name = place.parts
    if not is_prefix(name, "p"):  # a call would take such a name for the id of another project
        yield name
    yield from (f"{name} ({'/'.join(parents[-depth:])})" for depth in range(1, len(parents) + 1))
    whole = f"{machine}:{place.root}" if machine else place.root
    yield f"{name} ({whole})"
    yield from (f"{name} ({whole}, {number})" for number in count(2))


def _id_named(connection: Connection, user: str, name: str) -> str | None:
    known = projects.find(connection, user, "p", name)
    return projects.main(connection, known[0]) if known is not None else None
