"""The memory tools of Anthropic's tests, with the doors over a ledger inside.

The tests look at the files of the tool in a folder, and write some there. So the folder is read into the ledger before each
command, and the ledger's files are written into the folder after it.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from anyio import Path as AsyncPath

from ledger import Ledger
from ledger.doors.anthropic import AsyncLedgerMemoryTool, LedgerMemoryTool

COMMANDS = ("view", "create", "str_replace", "insert", "delete", "rename")


class MirroredFolder:
    """A folder with the same files as a ledger."""

    def __init__(self, ledger: Ledger, root: Path) -> None:
        self._ledger, self._root = ledger, root
        root.mkdir(parents=True, exist_ok=True)

    def read(self) -> None:
        for path in self._root.rglob("*"):
            if path.is_file():
                *labels, key = path.relative_to(self._root).parts
                self._ledger.values.put(("memories", *labels), key, path.read_bytes().decode())

    def write(self) -> None:
        shutil.rmtree(self._root)
        self._root.mkdir()
        for value in self._ledger.values.list(("memories",)).all():
            path = self._root.joinpath(*(value.namespace or ())[1:], value.key or "")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(str(value.value).encode())


class MemoryTool(LedgerMemoryTool):
    """A memory tool over a temporary ledger, made with the arguments of Anthropic's own tool on files."""

    def __init__(self, base_path: str) -> None:
        ledger = Ledger.temporary()
        super().__init__(ledger)
        self.base_path, self.memory_root = Path(base_path), Path(base_path, "memories")
        self._folder = MirroredFolder(ledger, self.memory_root)

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name not in COMMANDS:
            return found

        def mirrored(command: Any) -> Any:
            self._folder.read()
            try:
                return found(command)
            finally:
                self._folder.write()

        return mirrored


class AsyncMemoryTool(AsyncLedgerMemoryTool):
    """The same for the awaited tool."""

    def __init__(self, base_path: str) -> None:
        ledger = Ledger.temporary()
        super().__init__(ledger)
        self.base_path, self.memory_root = AsyncPath(base_path), AsyncPath(base_path, "memories")
        self._folder = MirroredFolder(ledger, Path(base_path, "memories"))

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name not in COMMANDS:
            return found

        async def mirrored(command: Any) -> Any:
            self._folder.read()
            try:
                return await found(command)
            finally:
                self._folder.write()

        return mirrored
