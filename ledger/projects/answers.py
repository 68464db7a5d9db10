"""The answers about projects and their trusted state."""

from __future__ import annotations

from typing import Literal

from ledger.core.call import Answer


class StateEntry(Answer, frozen=True, kw_only=True):
    """A value of a project's trusted state, present or past.

    The value counts from ``from_position`` on. ``to_position`` is the position at which it was replaced or removed, or None.
    """

    category: str
    name: str | None
    value: str | None
    source: str | None
    actor: str | None
    recorded_at: str
    from_position: int
    to_position: int | None = None


class ProjectInfo(Answer, frozen=True, kw_only=True):
    """A project with its trusted state; ``status`` is "active" or "archived".

    ``roots`` are the folders that are linked with the project, in a shared log with the machine, as in "laptop:/srv/shop".
    ``off`` is True if the user's policy says that nothing is recorded there.
    """

    id: str
    name: str | None
    description: str | None
    status: str
    aliases: tuple[str | None, ...]
    user: str | None
    state: tuple[StateEntry, ...]
    roots: tuple[str, ...] = ()
    off: bool = False
    position: int
    recorded_at: str
    replayed: bool = False
    absorbed: bool = False
    warnings: tuple[str, ...] = ()  # of a write: the redacted secrets, by field and kind


class FolderProject(Answer, frozen=True, kw_only=True):
    """The project of a folder.

    ``project`` is what calls take: the id, or the name of a project that is not on record yet; None for no project, as in a
    home directory. ``root`` is the root that the folder belongs to, and ``linked`` is True if the log has the link. ``off``
    says what switched the memory off: "policy", or "file" for ``.memory-ledger.toml``. ``ignored`` names what that file says
    and does not count.
    """

    project: str | None = None
    name: str | None = None
    root: str | None = None
    linked: bool = False
    off: Literal["", "policy", "file"] = ""
    ignored: tuple[str, ...] = ()
