"""The namespace ``ledger.projects``: list, read and add projects, and set their trusted state."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Unpack, get_args

from ledger.core.area import LIMIT, Area, page
from ledger.domain.errors import NotFoundError, RejectedError
from ledger.domain.text import check_text, plural, texts
from ledger.log.paths import StrPath, path_name
from ledger.projects import choosing, commands, queries
from ledger.projects.answers import FolderProject, ProjectInfo, StateEntry
from ledger.projects.folders import place_of, working_folder
from ledger.projects.rules import check_category
from ledger.recall import unasked
from ledger.recall.packs import Pack
from ledger.types import Page, ProjectStatus, StateCategory, Unit, WriteOptions

if TYPE_CHECKING:
    from ledger.core.engine import Engine


def _folder(folder: StrPath | None) -> str:
    """Return a folder as text: that of an agent or a person for None, and "" for what can be no path."""
    if folder is None:
        return working_folder()
    try:
        return os.path.expanduser(path_name(folder))
    except RejectedError:
        return ""


class ProjectsRead(Area):
    """The projects of a user, now or as they were known at a moment."""

    def list(
        self,
        *,
        statuses: Iterable[ProjectStatus] = ("active",),
        limit: int = LIMIT,
        after: str | None = None,
        oldest_first: bool = False,
    ) -> Page[ProjectInfo]:
        """List projects with their trusted state, newest first.

        Args:
            statuses: Only projects of these statuses: "active", "archived"; empty for both.

        Raises:
            RejectedError: A limit, cursor or status is not valid.
        """
        accepted_statuses = plural("statuses", statuses, get_args(ProjectStatus))

        def fetch(count: int, start: str | None) -> list[ProjectInfo]:
            with self._engine.snapshot() as snapshot:
                return queries.listing(
                    snapshot,
                    self._scope.user,
                    accepted_statuses,
                    limit=count,
                    after=start,
                    oldest_first=oldest_first,
                )

        filters: dict[str, object] = {"user": self._scope.user, "statuses": accepted_statuses}
        return page("projects", filters, limit, after, fetch, lambda project: project.id, oldest_first=oldest_first)

    def get(self, name: str) -> ProjectInfo:
        """Return a project with its trusted state.

        Args:
            name: The name, an alias, or the id of the project.

        Raises:
            NotFoundError: This user has no such project.
            AmbiguousIdError: Several ids have this beginning.
        """
        with self._engine.snapshot() as snapshot:
            project = queries.get(snapshot, self._scope.user, name)
        if project is None:
            raise NotFoundError(f"no project of this user is called {name!r:.60}")
        return project

    def of(self, folder: StrPath | None = None, *, project: str | None = None) -> FolderProject:
        """Return the project of a folder, and whether the memory is off there; nothing is recorded.

        The project belongs to the root of the folder's repository, so that worktrees and subfolders share it; a folder that
        is no repository is its own root. The first that there is counts: the argument ``project``, the project that the
        repository's ``.memory-ledger.toml`` names, the project that the root is linked with, and the name of the root.

        Args:
            folder: The folder; None for ``CLAUDE_PROJECT_DIR``, or else the working directory; "" for no folder.
            project: The project that somebody named, which wins; None if nobody did.
        """
        texts(project=project)
        with self._engine.snapshot() as snapshot:
            return choosing.of(snapshot, self._scope.user, _folder(folder), project or None)

    def context(self, project: str | None = None, *, budget: int | None = None, unit: Unit = "chars") -> Pack:
        """Return the context of a project for a prompt: its trusted state and its ten newest memories.

        The memories are those of the kinds project and env that belong to the project or to no project.

        Args:
            project: A name, an alias or an id; None for the memories that belong to no project.
            budget: The most that the pack may hold, counted in ``unit``; None for no bound.
            unit: "tokens" or "chars".

        Raises:
            NotFoundError: This user has no such project.
        """
        project_id = None if project is None else self.get(check_text("project", project)).id
        return unasked.project_context(self._engine, self._scope.user, project_id, budget=budget, unit=unit)

    def state(
        self,
        project: str,
        *,
        category: StateCategory | None = None,
        name: str | None = None,
        history: bool = False,
    ) -> tuple[StateEntry, ...]:
        """Return the trusted state of a project, in the order in which it was set.

        Args:
            project: A name, an alias or an id.
            category: Only entries of this category.
            name: Only entries of this name.
            history: True to return also every value that was replaced or removed.

        Raises:
            NotFoundError: This user has no such project.
        """
        texts(category=category, name=name)
        project_id = self.get(project).id
        if category is not None:
            check_category(category)
        with self._engine.snapshot() as snapshot:
            return tuple(queries.state(snapshot, self._scope.user, project_id, category, name, history=history))


class Projects(ProjectsRead):
    """The projects of a user."""

    _engine: Engine

    def add(self, name: str, *, description: str = "", **options: Unpack[WriteOptions]) -> ProjectInfo:
        """Add a project.

        If a project already has this name or alias, that project is returned (``absorbed``), and takes the description if it
        has none. Commands that name a new project add the project by themselves.

        Args:
            name: The name of the project, at most 1,024 bytes.
            description: The subject of the project.
        """
        return commands.add(self._engine, self._scope.asker(options), name, description)

    def add_alias(self, project: str, alias: str, **options: Unpack[WriteOptions]) -> ProjectInfo:
        """Give a project another name, which from now on finds everything that is recorded for the project.

        A name that already finds the project, such as the name of a project joined into it, changes nothing.

        Args:
            project: A name, an alias or an id.
            alias: The other name.

        Raises:
            ConflictError: Another project has this name.
        """
        return commands.add_alias(self._engine, self._scope.asker(options), project, alias)

    def rename(self, project: str, name: str, **options: Unpack[WriteOptions]) -> ProjectInfo:
        """Give a project another name; the former name stays an alias, and ``undo`` takes the new name back.

        Args:
            project: A name, an alias or an id.
            name: The new name.

        Raises:
            NotFoundError: This user has no such project.
            ConflictError: Another project has this name.
        """
        return commands.rename(self._engine, self._scope.asker(options), project, name)

    def link(self, project: str, folder: StrPath = ".", **options: Unpack[WriteOptions]) -> ProjectInfo:
        """Make a folder's root a root of a project: after the folder moved, or if two repositories share a memory.

        Of several links of one root the last counts, and ``undo`` takes a link back.

        Args:
            project: A name, an alias or an id.
            folder: A folder in the repository, or a folder that is no repository.

        Raises:
            NotFoundError: This user has no such project, or there is no such folder.
            RejectedError: The folder is a home directory, or lies above one.
        """
        path = _folder(folder)
        if not os.path.isdir(path):
            raise NotFoundError(f"there is no folder {path!r:.200}")
        if (place := place_of(path)) is None:
            raise RejectedError(f"{path!r:.200} is a home directory or lies above one: link a folder in it")
        return commands.link(self._engine, self._scope.asker(options), project, place)

    def enter(
        self, folder: StrPath | None = None, *, project: str | None = None, **options: Unpack[WriteOptions]
    ) -> FolderProject:
        """Return the project of a folder as ``of`` does, and at the first use of its root link the root with the project.

        A project whose name the folder has, and that has no root, is linked without a question. If the project has another
        root, a project with a part of the path in its name is added. Where the memory is off, nothing is recorded.

        Args:
            folder: The folder; None for ``CLAUDE_PROJECT_DIR``, or else the working directory; "" for no folder.
            project: The project that somebody named, which wins; None if nobody did.
        """
        texts(project=project)
        return commands.enter(self._engine, self._scope.asker(options), _folder(folder), project or None)

    def join(self, target: str, name: str, *, reason: str = "", **options: Unpack[WriteOptions]) -> ProjectInfo:
        """Join a project into another, so that the names of both find the records of both; ``undo`` separates them again.

        The names of the joined project become aliases of the target, and its id finds the target. The trusted state is
        that of both; of two values under one name the value set last counts. No record is changed: ``at`` still reads an
        earlier moment as it was, and after an undo each project has its own records again. An erased target finds nothing;
        if an undo brings back a join into an erased target, the other project stands by itself.

        Args:
            target: The project that keeps its name: a name, an alias or an id.
            name: The project that is joined into the target: a name, an alias or an id.
            reason: Why the projects are joined.

        Raises:
            NotFoundError: This user has no such project; ``add_alias`` gives a project a new name.
        """
        return commands.join(self._engine, self._scope.asker(options), target, name, reason)

    def archive(self, project: str, *, reason: str = "", **options: Unpack[WriteOptions]) -> ProjectInfo:
        """Leave a project out of ``list``, and of every recall, context and profile that names no project.

        Calls that name the project find everything as before, and can record more. ``restore`` makes the project active again.

        Args:
            project: A name, an alias or an id.

        Raises:
            NotFoundError: This user has no such project.
        """
        return commands.archive(self._engine, self._scope.asker(options), project, reason)

    def restore(self, project: str, *, reason: str = "", **options: Unpack[WriteOptions]) -> ProjectInfo:
        """Make an archived project active again.

        Args:
            project: A name, an alias or an id.

        Raises:
            NotFoundError: This user has no such project.
        """
        return commands.restore(self._engine, self._scope.asker(options), project, reason)

    def set_state(
        self,
        project: str,
        category: StateCategory,
        name: str,
        value: str,
        *,
        source: str = "",
        **options: Unpack[WriteOptions],
    ) -> ProjectInfo:
        """Set a value of trusted state, which only a person may set; earlier values stay readable.

        Args:
            project: A name, an alias or an id; a new name is added as a project.
            category: "status", "decision", "requirement", "contact", "milestone", "fact" or "config".
            name: The name of the value within its category.
            value: The statement, at most 64 KiB of UTF-8.
            source: The source of the statement, in your words.

        Raises:
            RejectedError: The channel is not "user".
        """
        return commands.set_state(
            self._engine, self._scope.asker(options), project, category, name, value, source=source
        )

    def remove_state(
        self, project: str, category: StateCategory, name: str, *, reason: str = "", **options: Unpack[WriteOptions]
    ) -> ProjectInfo:
        """Take a value of trusted state out of use; the value stays readable with ``state(history=True)``.

        Args:
            project: A name, an alias or an id.
            category: The category of the value.
            name: The name of the value.
            reason: Why the value is removed.

        Raises:
            NotFoundError: This user has no such project.
            RejectedError: The channel is not "user".
        """
        return commands.remove_state(self._engine, self._scope.asker(options), project, category, name, reason)
