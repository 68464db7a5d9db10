"""The memory tool of Anthropic's API over a ledger: each file is a keyed value, and each edit a version that can be undone.

Needs the extra ``anthropic``. A path is taken apart into the labels of a namespace and a key, and no file system is touched.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

from ledger import ConflictError, NotFoundError, RejectedError
from ledger.doors.given import bound, to_the_end

try:
    from anthropic.lib.tools import BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool, ToolError
    from anthropic.types.beta import (
        BetaCacheControlEphemeralParam,
        BetaMemoryTool20250818CreateCommand,
        BetaMemoryTool20250818DeleteCommand,
        BetaMemoryTool20250818InsertCommand,
        BetaMemoryTool20250818RenameCommand,
        BetaMemoryTool20250818StrReplaceCommand,
        BetaMemoryTool20250818ViewCommand,
    )
    from anyio.to_thread import run_sync
except ImportError as error:
    raise ImportError(
        'ledger.doors.anthropic needs the SDK of Anthropic: pip install "belief-ledger[anthropic]"'
    ) from error

if TYPE_CHECKING:
    from ledger import Ledger, Value

ROOT = "/memories"
MAX_LINES = 999_999  # of a file that view shows
NUMBER_WIDTH = len(str(MAX_LINES))
NAMED_LINES = 100  # in the error about a text that occurs often
DEPTH = 2  # levels of a directory that view shows
PAGE = 1_000

C = TypeVar("C")
Parts = tuple[str, ...]  # of a path below /memories


class LedgerMemoryTool(BetaAbstractMemoryTool):
    """The memory tool over the values of a ledger's user, for ``client.beta.messages.run_tools`` and ``tool_runner``.

    The ledger stays the caller's: nothing here closes it. A refusal, also that of a secret or a threat, is a ``ToolError``, which
    the model reads; another failure of the ledger is raised as it is.

    Args:
        ledger: An open ledger; ``ledger.bind(user=…)`` names the user.
        namespace: The labels under which the files lie; /memories/trips/rome.md is ("memories", "trips"), "rome.md".
        cache_control: As in Anthropic's own class.
    """

    def __init__(
        self,
        ledger: Ledger,
        *,
        namespace: Iterable[str] = ("memories",),
        cache_control: BetaCacheControlEphemeralParam | None = None,
    ) -> None:
        super().__init__(cache_control=cache_control)
        self._files = MemoryFiles(bound(ledger, self, client="anthropic", channel="agent"), namespace)

    def view(self, command: BetaMemoryTool20250818ViewCommand) -> str:
        return _for_the_model(self._files.view, command)

    def create(self, command: BetaMemoryTool20250818CreateCommand) -> str:
        return _for_the_model(self._files.create, command)

    def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> str:
        return _for_the_model(self._files.str_replace, command)

    def insert(self, command: BetaMemoryTool20250818InsertCommand) -> str:
        return _for_the_model(self._files.insert, command)

    def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> str:
        return _for_the_model(self._files.delete, command)

    def rename(self, command: BetaMemoryTool20250818RenameCommand) -> str:
        return _for_the_model(self._files.rename, command)

    def clear_all_memory(self) -> str:
        """Delete all files in one commit, which an undo brings back."""
        return self._files.clear()


class AsyncLedgerMemoryTool(BetaAsyncAbstractMemoryTool):
    """The same tool for the awaited client; each command runs on a thread of its own.

    A task that is cancelled ends when its command has ended.

    The arguments are those of ``LedgerMemoryTool``.
    """

    def __init__(
        self,
        ledger: Ledger,
        *,
        namespace: Iterable[str] = ("memories",),
        cache_control: BetaCacheControlEphemeralParam | None = None,
    ) -> None:
        super().__init__(cache_control=cache_control)
        self._files = MemoryFiles(bound(ledger, self, client="anthropic", channel="agent"), namespace)

    async def view(self, command: BetaMemoryTool20250818ViewCommand) -> str:
        return await _on_a_thread(_for_the_model, self._files.view, command)

    async def create(self, command: BetaMemoryTool20250818CreateCommand) -> str:
        return await _on_a_thread(_for_the_model, self._files.create, command)

    async def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> str:
        return await _on_a_thread(_for_the_model, self._files.str_replace, command)

    async def insert(self, command: BetaMemoryTool20250818InsertCommand) -> str:
        return await _on_a_thread(_for_the_model, self._files.insert, command)

    async def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> str:
        return await _on_a_thread(_for_the_model, self._files.delete, command)

    async def rename(self, command: BetaMemoryTool20250818RenameCommand) -> str:
        return await _on_a_thread(_for_the_model, self._files.rename, command)

    async def clear_all_memory(self) -> str:
        """Delete all files in one commit, which an undo brings back."""
        return await _on_a_thread(self._files.clear)


class MemoryFiles:
    """The six commands of the memory tool on texts under namespaces and keys.

    Each edit reads, checks and writes under the writer's lock. A directory is a namespace: it exists while it has files.
    """

    def __init__(self, ledger: Ledger, namespace: Iterable[str]) -> None:
        if isinstance(namespace, str):
            raise RejectedError(f"namespace is a list of labels, such as ({namespace!r:.60},), and no text")
        self._ledger, self._root = ledger, tuple(namespace)

    def view(self, command: BetaMemoryTool20250818ViewCommand) -> str:
        path, parts = command.path, _parts(command.path)
        if (file := self._file(parts)) is None:
            return self._directory(path, parts)
        lines = _content(path, file).split("\n")
        if len(lines) > MAX_LINES:
            raise ToolError(f"File {path} exceeds maximum line limit of {MAX_LINES:,} lines.")
        first, last = 1, len(lines)
        if command.view_range and len(command.view_range) == 2:
            first = max(1, command.view_range[0])
            last = last if command.view_range[1] == -1 else min(last, command.view_range[1])
        return f"Here's the content of {path} with line numbers:\n{_numbered(lines, first, last)}"

    def create(self, command: BetaMemoryTool20250818CreateCommand) -> str:
        parts = _parts(command.path)
        with self._ledger.batch(whole=True):
            if not parts or self._exists(parts):
                raise ToolError(f"File {command.path} already exists")
            self._check_above(parts)
            self._put(parts, command.file_text)
        return f"File created successfully at: {command.path}"

    def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> str:
        path, old = command.path, command.old_str
        with self._ledger.batch(whole=True):
            parts, content = self._to_edit(path)
            count, at = content.count(old), content.find(old)
            if not count:
                raise ToolError(f"No replacement was performed, old_str `{old}` did not appear verbatim in {path}.")
            if count > 1:
                raise ToolError(
                    f"No replacement was performed. Multiple occurrences of old_str `{old}` in lines:"
                    f" {_line_numbers(content, old)}."
                    " Please ensure it is unique"
                )
            changed = content[:at] + command.new_str + content[at + len(old) :]
            self._put(parts, changed)
        line, lines = content.count("\n", 0, at) + 1, changed.split("\n")
        return (
            "The memory file has been edited. Here is the snippet showing the change (with line numbers):\n"
            + _numbered(lines, max(1, line - 2), min(len(lines), line + 2))
        )

    def insert(self, command: BetaMemoryTool20250818InsertCommand) -> str:
        with self._ledger.batch(whole=True):
            parts, content = self._to_edit(command.path)
            lines = content.removesuffix("\n").split("\n") if content else []
            if not 0 <= command.insert_line <= len(lines):
                raise ToolError(
                    f"Invalid `insert_line` parameter: {command.insert_line}. It should be within the range"
                    f" [0, {len(lines)}]."
                )
            lines.insert(command.insert_line, command.insert_text.rstrip("\n"))
            self._put(parts, "\n".join(lines).removesuffix("\n") + "\n")
        return f"The file {command.path} has been edited."

    def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> str:
        parts = _parts(command.path)
        if not parts:
            raise ToolError(f"Cannot delete the {ROOT} directory itself")
        with self._ledger.batch(whole=True):
            files = self._files_at(parts)
            if not files:
                raise ToolError(f"The path {command.path} does not exist")
            self._remove(files)
        return f"Successfully deleted {command.path}"

    def rename(self, command: BetaMemoryTool20250818RenameCommand) -> str:
        old, new = _parts(command.old_path), _parts(command.new_path)
        if not old:
            raise ToolError(f"Cannot rename the {ROOT} directory itself")
        with self._ledger.batch(whole=True):
            if not new or self._exists(new):
                raise ToolError(f"The destination {command.new_path} already exists")
            files = self._files_at(old)
            if not files:
                raise ToolError(f"The path {command.old_path} does not exist")
            if new[: len(old)] == old:
                raise ToolError(f"{command.new_path} lies within {command.old_path}, which cannot be moved into itself")
            self._check_above(new)
            for file in files:
                self._ledger.values.move(*self._place_of(file), *self._place((*new, *self._path_of(file)[len(old) :])))
        return f"Successfully renamed {command.old_path} to {command.new_path}"

    def clear(self) -> str:
        with self._ledger.batch(whole=True):
            self._remove(self._below(()))
        return "All memory cleared"

    # --- files and directories -----------------------------------------------------------------------------------

    def _place(self, parts: Parts) -> tuple[Parts, str]:
        return (*self._root, *parts[:-1]), parts[-1]

    def _place_of(self, file: Value) -> tuple[Parts, str]:
        return file.namespace or (), file.key or ""

    def _path_of(self, file: Value) -> Parts:
        namespace, key = self._place_of(file)
        return (*namespace[len(self._root) :], key)

    def _file(self, parts: Parts) -> Value | None:
        if not parts:
            return None
        try:
            return self._ledger.values.get(*self._place(parts))
        except NotFoundError:
            return None

    def _below(self, parts: Parts) -> list[Value]:
        return list(self._ledger.values.list((*self._root, *parts), limit=PAGE).all())

    def _files_at(self, parts: Parts) -> list[Value]:
        """Return the file at a path, or else all files below it."""
        file = self._file(parts)
        return [file] if file is not None else self._below(parts)

    def _exists(self, parts: Parts) -> bool:
        return self._file(parts) is not None or bool(self._ledger.values.list((*self._root, *parts), limit=1))

    def _check_above(self, parts: Parts) -> None:
        """Refuse a path that leads through a file."""
        for depth in range(1, len(parts)):
            if self._file(parts[:depth]) is not None:
                raise ToolError(f"The path {ROOT}/{'/'.join(parts[:depth])} is a file, and no directory.")

    def _to_edit(self, path: str) -> tuple[Parts, str]:
        parts = _parts(path)
        file = self._file(parts)
        if file is None:
            if parts and not self._exists(parts):
                raise ToolError(f"The path {path} does not exist. Please provide a valid path.")
            raise ToolError(f"The path {path} is not a file.")
        return parts, _content(path, file)

    def _put(self, parts: Parts, content: str) -> None:
        self._ledger.values.put(*self._place(parts), content)

    def _remove(self, files: Iterable[Value]) -> None:
        for file in files:
            self._ledger.values.remove(*self._place_of(file))

    def _directory(self, path: str, parts: Parts) -> str:
        """Return the listing of a directory, two levels deep, with sizes; names that begin with a dot are left out."""
        sizes: dict[Parts, int] = {}
        files, whole = set[Parts](), 0
        for file in self._below(parts):
            names, size = self._path_of(file)[len(parts) :], file.size or 0
            whole += size
            shown = names[:DEPTH]
            if any(name.startswith(".") for name in shown):
                continue
            for depth in range(1, len(shown) + 1):
                sizes[shown[:depth]] = sizes.get(shown[:depth], 0) + size
            if len(names) <= DEPTH:
                files.add(names)
        if parts and not whole and not self._exists(parts):
            raise ToolError(f"The path {path} does not exist. Please provide a valid path.")
        above = path.rstrip("/")
        lines = [f"{_size(whole)}\t{path}"]
        lines += [
            f"{_size(sizes[names])}\t{above}/{'/'.join(names)}{'' if names in files else '/'}"
            for names in sorted(sizes)
        ]
        header = f"Here're the files and directories up to {DEPTH} levels deep in {path}, excluding hidden items:"
        return "\n".join([header, *lines])


async def _on_a_thread(act: Callable[..., str], *arguments: object) -> str:
    try:
        asyncio.get_running_loop()
    except RuntimeError:  # the loop of trio, in which a cancelled task waits for the thread by itself
        return await run_sync(act, *arguments)
    return await to_the_end(lambda: act(*arguments))


def _for_the_model(act: Callable[[C], str], command: C) -> str:
    """Carry out a command; what the ledger refuses is an error that the model reads."""
    _check_arguments(command)
    try:
        return act(command)
    except (ConflictError, NotFoundError, RejectedError) as error:
        raise ToolError(str(error)) from error


def _check_arguments(command: object) -> None:
    """Check the types of what a model gave, which the SDK passes on as it is.

    Raises:
        ToolError: An argument is missing or of another type.
    """
    for name in type(command).__annotations__:
        value, verb = getattr(command, name, None), getattr(command, "command", "")
        if name == "view_range":
            fits = value is None or (isinstance(value, list) and all(type(line) is int for line in value))
            wanted = "a list of two line numbers"
        elif name == "insert_line":
            fits, wanted = type(value) is int, "a line number"
        else:
            fits, wanted = isinstance(value, str), "a text"
        if not fits:
            raise ToolError(f"`{name}` of {verb} must be {wanted}, and {value!r:.40} is not.")


def _parts(path: str) -> Parts:
    """Return the names of a path below /memories, () for that directory.

    Raises:
        ToolError: The path begins elsewhere, leads above /memories, or has a line break, which would be a line of a listing.
    """
    if path != ROOT and not path.startswith(f"{ROOT}/"):
        raise ToolError(f"Path must start with {ROOT}, got: {path}")
    if path.splitlines() != [path]:
        raise ToolError(f"A path is one line without a break, and {path!r:.80} is not.")
    parts = list[str]()
    for name in path[len(ROOT) :].split("/"):
        if name == "..":
            if not parts:
                raise ToolError(f"Path {path} would escape {ROOT} directory")
            parts.pop()
        elif name not in ("", "."):
            parts.append(name)
    return tuple(parts)


def _content(path: str, file: Value) -> str:
    """Return the text of a file.

    Raises:
        ToolError: The file is in quarantine, or holds no text.
    """
    if file.quarantined:
        raise ToolError(f"The file {path} is in quarantine: a person has to look at it. It can be deleted or renamed.")
    if not isinstance(file.value, str):
        raise ToolError(f"Unsupported file type for {path}")
    return file.value


def _line_numbers(content: str, part: str) -> str:
    """Return the number of the line of each occurrence of a part, of at most ``NAMED_LINES`` of them."""
    numbers, line, counted = list[str](), 1, 0
    start = content.find(part)
    while start >= 0:
        if len(numbers) == NAMED_LINES:
            return ", ".join([*numbers, "…"])
        line, counted = line + content.count("\n", counted, start), start
        numbers.append(str(line))
        start = content.find(part, start + 1)
    return ", ".join(numbers)


def _numbered(lines: list[str], first: int, last: int) -> str:
    """Return the lines from the first to the last, counted from 1, each after its number."""
    return "\n".join(f"{number:>{NUMBER_WIDTH}}\t{lines[number - 1]}" for number in range(first, last + 1))


def _size(size_bytes: int) -> str:
    size, unit = float(size_bytes), "B"
    for larger in "KMG":
        if size < 1024:
            break
        size, unit = size / 1024, larger
    return f"{size:.0f}{unit}" if size == int(size) else f"{size:.1f}{unit}"
