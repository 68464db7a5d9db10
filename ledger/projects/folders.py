"""The place of a folder: the root of its repository, and what ``.memory-ledger.toml`` says there about the memory.

The root is found by reading ``.git``; no program is started. What is read may be of a stranger, who wants the memory of another
repository in his prompts: a worktree counts as part of a repository only if the repository names that worktree too.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from typing import NamedTuple

from ledger.domain.ids import is_prefix
from ledger.domain.text import one_line

FILE = ".memory-ledger.toml"
FILE_BYTES = 4 * 1024
POINTER_BYTES = 16 * 1024  # of a ``.git`` file and its like, which hold a path
NAME_CHARS = 100  # of a project in the file


class Place(NamedTuple):
    """The root of a folder, and what the files there say.

    Attributes:
        root: The path of the root; "~/…" in the home directory, which another machine may have elsewhere.
        off: True if a file says that the memory is off.
        project: The name of the project that a file gives, or None.
        ignored: What the files say that is not used, a sentence each.
    """

    root: str
    off: bool = False
    project: str | None = None
    ignored: tuple[str, ...] = ()

    @property
    def parts(self) -> list[str]:
        """Return the parts of the path of the root; a bare repository is named without ``.git``."""
        parts = [part for part in self.root.split("/") if part]
        return [*parts[:-1], parts[-1].removesuffix(".git") or parts[-1]]


class Repository(NamedTuple):
    """The top folder of a checkout, and the root that all checkouts of the repository share."""

    top: str
    root: str


def working_folder(given: str = "") -> str:
    """Return the folder that an agent or a person works in; "" if there is none.

    It is the variable ``CLAUDE_PROJECT_DIR``, or else ``given``, or else the working directory.
    """
    try:
        return os.environ.get("CLAUDE_PROJECT_DIR") or given or os.getcwd()
    except OSError:  # the working directory was deleted
        return ""


def place_of(folder: str) -> Place | None:
    """Return the place of a folder; None for a home directory, a folder above one, and no folder."""
    if not folder or "\0" in folder:
        return None
    folder = os.path.realpath(os.path.expanduser(folder))
    top, root = _repository(folder) or (folder, folder)
    if _is_above_home(root):
        return None
    off, project, ignored = False, None, list[str]()
    for place in dict.fromkeys((top, root)):  # a file that is not committed lies in the first checkout alone
        switched_off, name = _said(os.path.join(place, FILE), ignored)
        off, project = off or switched_off, project or name
    return Place(_recorded(root), off, project, tuple(ignored))


# --- the root of a repository ----------------------------------------------------------------------------------------


def _repository(folder: str) -> Repository | None:
    """Return the repository of a folder; None if no folder up to the home directory is one."""
    for place in _upwards(folder):
        git = os.path.join(place, ".git")
        if os.path.isfile(git):  # a worktree, a submodule, or a repository that lies elsewhere
            return Repository(place, _root_of_worktree(git) or _root_in_outer(place))
        if _has_head(git):
            return Repository(place, place)
        if _is_bare(place):
            return Repository(place, _root_of_bare(place))
    return None


def _upwards(folder: str) -> Iterator[str]:
    """Yield a folder and the folders above it, without home directories and what is above them."""
    while not _is_above_home(folder):
        yield folder
        folder = os.path.dirname(folder)


def _root_of_worktree(git: str) -> str | None:
    """Return the root of the repository that a linked worktree's ``.git`` file names, if the repository names the file too."""
    own = _pointed_at(git, os.path.dirname(git), "gitdir: ")
    common = _pointed_at(os.path.join(own, "commondir"), own) if own else None
    named = _pointed_at(os.path.join(own, "gitdir"), own) if own else None
    if own is None or common is None or named != git:
        return None
    is_ours = own == os.path.join(common, "worktrees", os.path.basename(own))
    return _root_of_bare(common) if is_ours else None


def _root_in_outer(place: str) -> str:
    """Return the root of a submodule, which is the same in each worktree of the repository around it."""
    outer = _repository(os.path.dirname(place))
    if outer is None or outer.top == outer.root:
        return place
    return os.path.join(outer.root, os.path.relpath(place, outer.top))


def _root_of_bare(folder: str) -> str:
    """Return the folder that stands for a repository's own folder: that above ``.git`` or ``.bare``, or else the folder."""
    return os.path.dirname(folder) if os.path.basename(folder).startswith(".") else folder


def _is_bare(folder: str) -> bool:
    return _has_head(folder) and all(os.path.isdir(os.path.join(folder, name)) for name in ("objects", "refs"))


def _has_head(folder: str) -> bool:
    """Return True for a repository's own folder, also if the folder cannot be read."""
    try:
        os.lstat(os.path.join(folder, "HEAD"))
    except PermissionError:
        return True
    except OSError:
        return False
    return True


def _pointed_at(path: str, base: str, label: str = "") -> str | None:
    """Return the real path that the one line of a file names, relative to ``base``; None if there is no such line."""
    try:
        text = os.fsdecode(_content(path, POINTER_BYTES) or b"").rstrip("\r\n")
    except OSError:
        return None
    if not text.startswith(label) or "\0" in text or len(text) == len(label):
        return None
    return os.path.realpath(os.path.join(base, text.removeprefix(label)))


def _content(path: str, most: int, *, follow: bool = True) -> bytes | None:
    """Return the bytes of a regular file; None for anything else and for a larger file.

    Raises:
        OSError: The file cannot be opened.
    """
    from ledger.log import platform  # the help of a command does without the log

    descriptor = os.open(path, platform.READ_FLAGS | (0 if follow else platform.OWN_FLAGS))
    try:
        content = os.read(descriptor, most + 1) if stat.S_ISREG(os.fstat(descriptor).st_mode) else None
    finally:
        os.close(descriptor)
    return content if content is not None and len(content) <= most else None


# --- paths -----------------------------------------------------------------------------------------------------------


def _home() -> str:
    return os.path.realpath(os.path.expanduser("~"))


def _is_above_home(path: str) -> bool:
    """Return True for the home directory, for a folder that it lies in, and for the root of the file system."""
    return path == os.path.dirname(path) or f"{_home()}{os.sep}".startswith(f"{path}{os.sep}")


def _recorded(path: str) -> str:
    """Return a path as it is recorded: "~" for the home directory, "/" between names, no bytes that are no UTF-8."""
    if (home := _home()) != os.path.dirname(home) and path.startswith(f"{home}{os.sep}"):
        path = "~" + path.removeprefix(home)
    path = path.replace(os.sep, "/")  # a machine with another system may read it
    return os.fsencode(path).decode("utf-8", "backslashreplace")


# --- the file of the repository --------------------------------------------------------------------------------------


def _said(path: str, ignored: list[str]) -> tuple[bool, str | None]:
    """Return whether a file switches the memory off, and the project that it names; add what is not used to ``ignored``."""
    off, project = False, None
    for key, value in _values(path, ignored).items():
        if key == "off" and isinstance(value, bool):
            off = value
        elif key == "project" and isinstance(value, str) and _is_name(value):
            project = value
        else:
            allowed = f"off = true and project = a name of up to {NAME_CHARS} characters are allowed"
            ignored.append(f"{path}: {one_line(key):.40} is ignored: {allowed}")
    return off, project


def _is_name(text: str) -> bool:
    """Return True for a name that a call does not take for the beginning of an id."""
    return 0 < len(text) <= NAME_CHARS and text.isprintable() and text == text.strip() and not is_prefix(text, "p")


def _values(path: str, ignored: list[str]) -> dict[str, object]:
    """Return what a file holds; of a file that is not used nothing, and then the reason is added to ``ignored``."""
    if not os.path.lexists(path):
        return {}
    try:
        content = None if os.path.islink(path) else _content(path, FILE_BYTES, follow=False)
    except OSError as error:
        ignored.append(f"{path} is ignored: it cannot be read ({error.strerror})")
        return {}
    if content is None:
        ignored.append(f"{path} is ignored: it has to be a regular file of at most {FILE_BYTES:,} bytes, and no link")
        return {}
    import tomllib

    try:
        return tomllib.loads(content.decode("utf-8"))
    except (ValueError, RecursionError):  # no UTF-8, or no TOML
        ignored.append(f"{path} is ignored: it is not TOML")
        return {}
