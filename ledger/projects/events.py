"""The events of a project."""

from typing import Annotated, ClassVar

from ledger.log.events import Code, EventData, Id, Ref, Text, Traits, Use


class ProjectRegistered(EventData, frozen=True):
    """The beginning of a project under its name."""

    traits: ClassVar[Traits] = Traits("name", begins="project")

    name: Annotated[Text | None, Use("name")]
    description: Text | None = ""


class ProjectDescribed(EventData, frozen=True):
    """A description of a project that began without one."""

    traits: ClassVar[Traits] = Traits("reversible")

    description: Text | None


class ProjectAliasAdded(EventData, frozen=True):
    """Another name of the project."""

    traits: ClassVar[Traits] = Traits("reversible", governs="project")

    alias: Annotated[Text | None, Use("name")]


class ProjectRenamed(EventData, frozen=True):
    """Another name in the place of the project's name, which stays an alias."""

    traits: ClassVar[Traits] = Traits("reversible", governs="project")

    name: Annotated[Text | None, Use("name")]


class ProjectLinked(EventData, frozen=True):
    """A root of the project: its repository, or its folder, on a machine. Of several links of one root the last counts.

    ``machine`` is "" for a path that begins with "~/", and in a file with a log of its own.
    """

    traits: ClassVar[Traits] = Traits("reversible", governs="project")

    path: Annotated[Text | None, Use("name")]
    machine: Annotated[Text | None, Use("name")] = ""


class ProjectArchived(EventData, frozen=True):
    """The archiving of a project, which leaves it out of lists and of packs that name no project."""

    traits: ClassVar[Traits] = Traits("reversible")

    reason: Text | None = ""


class ProjectRestored(EventData, frozen=True):
    """The return of an archived project, which is active again."""

    traits: ClassVar[Traits] = Traits("reversible")

    reason: Text | None = ""


class ProjectStateSet(EventData, frozen=True):
    """A person's statement about a project; it replaces the statement of the same category and name."""

    traits: ClassVar[Traits] = Traits("reversible", quarantined_as="state")

    category: Code
    name: Annotated[Text | None, Use("name"), Use("belief")]
    value: Annotated[Text | None, Use("belief")]
    source: Text | None = ""


class ProjectJoined(EventData, frozen=True):
    """A join of ``project`` into this project: from here on the names of both find the records of both.

    Earlier events keep the project that they were recorded with, so that an undo has only this event to undo.
    """

    traits: ClassVar[Traits] = Traits("reversible", governs="project")

    project: Annotated[Id, Ref("replaces")]
    reason: Text | None = ""


class ProjectStateInvalidated(EventData, frozen=True):
    """The removal of a statement from the trusted state."""

    traits: ClassVar[Traits] = Traits("reversible")

    category: Code
    name: Annotated[Text | None, Use("repeats")]
    reason: Text | None = ""
