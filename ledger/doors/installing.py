"""The entries of memory-ledger in the settings of coding agents: planned, shown, written, and taken away again.

Claude Code takes a folder of its own. The settings of the other agents belong to the user, so an entry is merged into each
file, and a file that cannot be read is named and left alone, with all the others of the plan.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from msgspec import Struct

from ledger import RejectedError
from ledger.doors.hooks import DEFAULT_LEDGER
from ledger.doors.merging import NO_FILE, Unreadable, with_block, with_entry, without_block, without_entry
from ledger.types import CodingAgent

NAME = "memory-ledger"
HOOK = "memory-ledger-hook"
PLUGIN = Path(__file__).resolve().parent / "plugin" / "claude"
SECONDS = {"SessionStart": 5, "UserPromptSubmit": 5, "Stop": 40, "PreCompact": 40, "SessionEnd": 80}
"""The events with a hook, and the seconds after which the agent ends it (our choice).

A hook that records waits 30 seconds for the lock of another writer, and then has to log that it recorded nothing.
"""

HINTS = {
    "claude": "start a new session; /hooks and /mcp show what runs",
    "codex": "start a new session, and trust the hooks when Codex asks, or by /hooks",
    "cursor": "restart Cursor, and switch the server on in its settings",
    "vscode": "start the server in the list of MCP servers",
    "opencode": "start a new session; `opencode mcp list` shows the server",
}


Action = Literal["create", "change", "remove", "keep"]


class FileChange(Struct, frozen=True, kw_only=True):
    """A file that an installation changes; ``text`` is what is put in, or the whole of a new file."""

    path: str
    action: Action
    text: str = ""


class InstallReport(Struct, frozen=True, kw_only=True):
    """The files of an installation or of its removal, and whether they were written."""

    agent: str
    ledger: str
    user: str
    changes: tuple[FileChange, ...]
    written: bool
    hint: str = ""


class Programs(NamedTuple):
    """The words that start the server and a hook, for a ledger and a user; without ``learns`` no hook asks to learn."""

    ledger: str
    user: str
    learns: bool = True

    def server(self, *more: str) -> list[str]:
        return [program(NAME), "mcp", *self._options(), *more]

    def claude_hook(self) -> dict[str, object]:
        """Return the command of a hook of Claude Code, which on Windows starts the program itself, without a shell."""
        if sys.platform != "win32":
            return {"command": shlex.join(self._hook([program(HOOK)]))}
        command, *words = self._hook(_without_window())
        return {"command": command, "args": words}

    def codex_hook(self) -> dict[str, object]:
        """Return the command of a hook of Codex, which on Windows gives it to PowerShell."""
        words = self._hook([program(HOOK)], "--client", "codex")
        return {"command": _for_powershell(words) if sys.platform == "win32" else shlex.join(words)}

    def _hook(self, program: Sequence[str], *more: str) -> list[str]:
        never = () if self.learns else ("--learn-turns", "0")
        return [*program, *self._options(), *never, *more]

    def _options(self) -> list[str]:
        return ["--db", self.ledger, *(("--user", self.user) if self.user else ())]


class _Edit(NamedTuple):
    """A file, its text with our part, and its text without; None stands for no file, before and after."""

    path: Path
    put: Callable[[str | None], str]
    take: Callable[[str], str | None]
    shown: str


class InstallPlan(NamedTuple):
    """The bytes of each file before and after, and the folders that are removed if they are empty."""

    report: InstallReport
    files: tuple[tuple[Path, bytes | None, bytes | None], ...]
    folders: tuple[Path, ...]


def program(name: str) -> str:
    """Return the full path of a command of this installation, since an agent may have another PATH; or else its name."""
    path = Path(sys.executable).with_name(name + (".exe" if sys.platform == "win32" else ""))
    return str(path) if path.exists() else name


def _without_window() -> list[str]:
    """Return the words that start a hook on Windows, through the Python that opens no window."""
    windowless = Path(sys.executable).with_name("pythonw.exe")
    return [str(windowless), "-P", "-m", "ledger.doors.hooks"] if windowless.exists() else [program(HOOK)]


def _for_powershell(words: Sequence[str]) -> str:
    """Return a command line for PowerShell, which starts a program whose name is quoted only after ``&``."""
    # PowerShell takes the typographic quotes for quotes too, and a doubled one for the quote itself.
    quoted = [
        word if re.fullmatch(r"[\w:.\\/+-]+", word) else "'" + re.sub("(['\u2018-\u201b])", r"\1\1", word) + "'"
        for word in words
    ]
    return " ".join(quoted if quoted[0] == words[0] else ["&", *quoted])


def plan(agent: CodingAgent, ledger: str | None, user: str, *, remove: bool, learns: bool = True) -> InstallPlan:
    """Return what an installation, or with ``remove`` its removal, would change. Nothing is written.

    Args:
        agent: The coding agent.
        ledger: The path of the ledger; None for the one in the home directory.
        user: The user whose memory it is.
        remove: Take the installation away.
        learns: Let the start of a session ask the agent to learn from what was said.

    Raises:
        RejectedError: A file of the agent cannot be read; the message names the file.
    """
    programs = Programs(os.path.abspath(os.path.expanduser(ledger or DEFAULT_LEDGER)), user, learns)
    changes, files = list[FileChange](), list[tuple[Path, bytes | None, bytes | None]]()
    edits, folders = _AGENTS[agent](programs)
    for edit in edits:
        try:
            before = _read(edit.path)
            text = None if before is None else before.decode("utf-8")
            after = (None if text is None else edit.take(text)) if remove else edit.put(text)
        except (OSError, UnicodeDecodeError, Unreadable) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            raise RejectedError(
                f"{edit.path} cannot be changed, and nothing was written: {why}", rule="install"
            ) from None
        if after != text:
            action: Action = "remove" if after is None else "create" if text is None else "change"
            files.append((edit.path, before, None if after is None else after.encode("utf-8")))
        else:
            action = "keep"
        if text is not None or after is not None:
            changes.append(FileChange(path=str(edit.path), action=action, text=edit.shown))
    hint = "the ledger itself stays" if remove else HINTS[agent]
    report = InstallReport(
        agent=agent, ledger=programs.ledger, user=user, changes=tuple(changes), written=False, hint=hint
    )
    return InstallPlan(report, tuple(files), tuple(folders) if remove else ())


def apply(planned: InstallPlan) -> None:
    """Write the files of a plan, each whole or not at all.

    Raises:
        RejectedError: A file changed since the plan was made, or cannot be written.
    """
    for path, before, after in planned.files:
        try:
            if _read(path) != before:
                raise RejectedError(f"{path} changed meanwhile; run the command again", rule="install")
            if after is None:
                path.unlink()
            else:
                _write(path, after)
        except OSError as error:
            raise RejectedError(f"{path} cannot be written: {error.strerror}", rule="install") from None
    for folder in planned.folders:
        if folder.is_dir() and not folder.is_symlink() and not any(folder.iterdir()):
            folder.rmdir()


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _write(path: Path, content: bytes) -> None:
    """Replace a file by way of a new file next to it, with the same mode; a symbolic link stays, and its target changes."""
    real = Path(os.path.realpath(path))
    real.parent.mkdir(parents=True, exist_ok=True)
    mode = stat.S_IMODE(real.stat().st_mode) if real.exists() else 0o600
    part = real.with_name(f"{real.name}.{os.getpid()}.part")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), mode)
    try:
        with open(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            if sys.platform != "win32":
                os.fchmod(descriptor, mode)
            os.fsync(descriptor)
        os.replace(part, real)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


# --- the agents ------------------------------------------------------------------------------------------------------

Edits = tuple[list[_Edit], list[Path]]


def _home(variable: str, otherwise: str) -> Path:
    """Return the folder of an agent's settings, which a variable may name."""
    return Path(os.environ.get(variable) or os.path.expanduser(otherwise))


def _claude(programs: Programs) -> Edits:
    """Return the edits for Claude Code, which loads a plugin from each folder in ``skills``."""
    skills = _home("CLAUDE_CONFIG_DIR", "~/.claude") / "skills"
    return _plugin(skills / NAME, programs, (".codex-plugin/plugin.json", "hooks/codex.json"))


def _plugin(place: Path, programs: Programs, left_out: tuple[str, ...]) -> Edits:
    """Return the edits that make a folder with the plugin, and the folders that are removed if they are empty."""
    edits = [
        _whole_file(place / source.relative_to(PLUGIN), _of_plugin(source, programs))
        for source in sorted(PLUGIN.rglob("*"))
        if source.is_file() and source.suffix != ".png" and source.relative_to(PLUGIN).as_posix() not in left_out
    ]
    folders = sorted({folder for edit in edits for folder in edit.path.parents if folder.is_relative_to(place)})
    return edits, [*reversed(folders), *list(place.parents)[:2]]


def _of_plugin(source: Path, programs: Programs) -> str:
    """Return the text of a file of the plugin with the commands of this installation in it."""
    text = source.read_text(encoding="utf-8")
    if source.parent.name == "hooks":
        command = programs.codex_hook() if source.name == "codex.json" else programs.claude_hook()
        content = json.loads(text)
        content["hooks"] = {event: [_handler(command, event)] for event in SECONDS}
    elif source.name == ".mcp.json":
        content = {"mcpServers": {NAME: _command(programs)}}
    else:
        return text
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def _whole_file(path: Path, text: str) -> _Edit:
    return _Edit(path, lambda before: text, lambda before: None, text)


def _codex(programs: Programs) -> Edits:
    """Return the edits for Codex, which loads a plugin from its cache if the user's configuration enables the plugin."""
    home = _home("CODEX_HOME", "~/.codex")
    version = json.loads((PLUGIN / ".codex-plugin" / "plugin.json").read_text(encoding="utf-8"))["version"]
    place = home / "plugins" / "cache" / NAME / NAME / version
    edits, folders = _plugin(place, programs, (".claude-plugin/plugin.json", "hooks/hooks.json", "README.md"))
    table = ("plugins", f"{NAME}@{NAME}")
    config = _Edit(
        home / "config.toml",
        lambda text: with_block(text, table, {"enabled": True}),
        without_block,
        f'[plugins."{NAME}@{NAME}"] with enabled = true',
    )
    return [*edits, config], [*folders, home / "plugins" / "cache", home / "plugins", home]


def _handler(command: dict[str, object], event: str) -> dict[str, object]:
    return {"hooks": [{"type": "command", **command, "timeout": SECONDS[event]}]}


def _entry(path: Path, place: tuple[str, ...], value: object) -> _Edit:
    def take(text: str) -> str | None:
        text = without_entry(text, place)
        return None if text == NO_FILE else text

    def put(text: str | None) -> str:
        return with_entry(NO_FILE if text is None else text, place, value)

    return _Edit(path, put, take, f"{'.'.join(place)}: {json.dumps(value, ensure_ascii=False)}")


def _command(programs: Programs, *more: str) -> dict[str, object]:
    command, *words = programs.server(*more)
    return {"command": command, "args": words}


def _cursor(programs: Programs) -> Edits:
    folder = Path(os.path.expanduser("~/.cursor"))
    # Cursor starts a server in the home directory, and puts the open folder in the place of this variable.
    command = _command(programs, "--folder", "${workspaceFolder}")
    return [_entry(folder / "mcp.json", ("mcpServers", NAME), command)], [folder]


def _vscode(programs: Programs) -> Edits:
    variable, otherwise = {
        "darwin": ("", "~/Library/Application Support"),
        "win32": ("APPDATA", "~/AppData/Roaming"),
    }.get(sys.platform, ("XDG_CONFIG_HOME", "~/.config"))
    folder = _home(variable, otherwise) / "Code" / "User"
    value = {"type": "stdio", **_command(programs)}
    return [_entry(folder / "mcp.json", ("servers", NAME), value)], [folder, folder.parent]


def _opencode(programs: Programs) -> Edits:
    folder = _home("XDG_CONFIG_HOME", "~/.config") / "opencode"
    names = [name for name in ("opencode.jsonc", "opencode.json") if (folder / name).exists()]
    value = {"type": "local", "command": programs.server(), "enabled": True}
    return [_entry(folder / (names or ["opencode.json"])[0], ("mcp", NAME), value)], [folder]


_AGENTS: dict[str, Callable[[Programs], Edits]] = {
    "claude": _claude, "codex": _codex, "cursor": _cursor, "vscode": _vscode, "opencode": _opencode,
}  # fmt: skip


def lines(report: InstallReport) -> Iterator[str]:
    """Yield the lines that tell a person what changes, where."""
    tense = {"create": "create", "change": "change", "remove": "remove", "keep": "leave as it is"}
    for change in report.changes:
        yield f"{tense[change.action]}: {change.path}"
        if change.action in ("create", "change") and change.text.count("\n") < 2:
            yield f"  {change.text}"
    if not report.changes:
        yield f"nothing of memory-ledger is installed for {report.agent}"
