"""The events of a project."""

from typing import Annotated

from ledger.log.event_base import Code, EventData, Id, Ref, Text, Traits, Use


class ProjectRegistered(EventData, frozen=True):
    """A project begins, under its name."""

    traits = Traits("name", begins="project")

    name: Annotated[Text | None, Use("name")]
    description: Text | None = ""


class ProjectDescribed(EventData, frozen=True):
    """A description of a project that began without one."""

    traits = Traits("reversible")

    description: Text | None


class ProjectAliasAdded(EventData, frozen=True):
    """Another name of the project."""

    traits = Traits("reversible", governs="project")

    alias: Annotated[Text | None, Use("name")]


class ProjectArchived(EventData, frozen=True):
    """The project is left out of lists and of packs for which no project is named."""

    traits = Traits("reversible")

    reason: Text | None = ""


class ProjectRestored(EventData, frozen=True):
    """An archived project is active again."""

    traits = Traits("reversible")

    reason: Text | None = ""


class ProjectStateSet(EventData, frozen=True):
    """A person's statement about a project; it replaces the statement of the same category and name."""

    traits = Traits("reversible", quarantined_as="state")

    category: Code
    name: Annotated[Text | None, Use("name"), Use("belief")]
    value: Annotated[Text | None, Use("belief")]
    source: Text | None = ""


class ProjectJoined(EventData, frozen=True):
    """From here everything of ``project`` is found under this project, and the names of ``project`` are names of this project.

    Earlier events keep the project they were written with, so that an undo has only this event to undo.
    """

    traits = Traits("reversible", governs="project")

    project: Annotated[Id, Ref("replaces")]
    reason: Text | None = ""


class ProjectStateInvalidated(EventData, frozen=True):
    """The statement under this category and name no longer counts."""

    traits = Traits("reversible")

    category: Code
    name: Annotated[Text | None, Use("repeats")]
    reason: Text | None = ""
