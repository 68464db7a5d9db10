"""``memory-ledger install`` and ``uninstall``, in a home directory of their own."""

from __future__ import annotations

import json
import shlex
import tomllib
from pathlib import Path
from typing import get_args

import needs
import pytest
from command_line import run
from places import move_home

from ledger.doors import installing
from ledger.types import CodingAgent

AGENTS = get_args(CodingAgent)
CODEX = ".codex/plugins/cache/memory-ledger/memory-ledger/0.1.0"
FOREIGN = {  # the settings of somebody who uses all of them already
    ".claude/settings.json": '{"model": "opus"}\n',
    ".claude/skills/mine/SKILL.md": "---\nname: mine\n---\n",
    ".codex/config.toml": '# mine\nmodel = "gpt-5"\n\n[mcp_servers.other]\ncommand = "other"\n',
    ".codex/hooks.json": '{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "say done"}]}]}}',
    ".cursor/mcp.json": '{\n  "mcpServers": {\n    "other": {"command": "other"}\n  }\n}\n',
    ".config/Code/User/mcp.json": '{\n\t// the servers of my editor\n\t"servers": {},\n\t"inputs": [],\n}\n',
    ".config/opencode/opencode.jsonc": '{"theme": "dark", /* none */ "mcp": {}}',
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_CONFIG_HOME", "LEDGER_PATH", "LEDGER_USER", "LEDGER_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    move_home(monkeypatch, tmp_path)
    monkeypatch.setattr("sys.platform", "linux")
    return tmp_path


def filled(home: Path) -> Path:
    for name, text in FOREIGN.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text, encoding="utf-8")
    return home


def state(home: Path) -> dict[str, tuple[bytes, int]]:
    """The bytes and the mode of every file."""
    files = [path for path in home.rglob("*") if path.is_file()]
    return {path.relative_to(home).as_posix(): (path.read_bytes(), path.stat().st_mode) for path in files}


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("start", [filled, lambda home: home], ids=["settings of others", "clean"])
def test_installed_twice_is_once_and_uninstalled_is_as_before(agent: str, start: object, home: Path) -> None:
    assert callable(start)
    before = state(start(home))
    assert run("install", agent, "--yes").exit_code == 0
    once = state(home)
    assert once.keys() >= before.keys() and once != before
    assert run("install", agent, "--yes").exit_code == 0 and state(home) == once
    assert run("install", agent, "--yes", "--user", "ada", "--db", str(home / "other.db")).exit_code == 0
    assert state(home) != once
    assert run("uninstall", agent, "--yes").exit_code == 0
    assert state(home) == before


def test_a_clean_home_has_no_folder_left_after_uninstall(home: Path) -> None:
    for agent in AGENTS:
        assert run("install", agent, "--yes").exit_code == run("uninstall", agent, "--yes").exit_code == 0
    assert sorted(path.name for path in home.rglob("*")) == [".config"]


@pytest.mark.parametrize("agent", AGENTS)
def test_a_dry_run_names_the_files_and_writes_nothing(agent: str, home: Path) -> None:
    before = state(filled(home))
    shown = run("install", agent, "--dry-run")
    assert (shown.exit_code, state(home)) == (0, before)
    report = json.loads(run("install", agent, "--dry-run", "--json").stdout)
    assert not report["written"] and report["ledger"] == str(home / ".memory-ledger/memory.db")
    assert {change["action"] for change in report["changes"]} <= {"create", "change"}
    for change in report["changes"]:
        assert change["path"] in shown.stdout and change["path"].startswith(str(home))


def test_without_a_terminal_nothing_is_written_unless_yes_is_given(home: Path) -> None:
    refused = run("install", "cursor")
    assert refused.exit_code == 4 and "this needs --yes" in refused.stderr
    assert state(home) == {}


@pytest.mark.parametrize(("reply", "written"), [("y\n", True), ("\n", False), ("n\n", False)])
def test_at_a_terminal_it_shows_the_plan_and_asks(
    reply: str, written: bool, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ledger.cli.asking.is_at_a_terminal", lambda: True)
    shown = run("install", "cursor", stdin=reply)
    assert shown.exit_code == (0 if written else 1)
    assert f"create: {home / '.cursor/mcp.json'}" in shown.stdout and "Write this? [y/N]" in shown.stderr
    assert (home / ".cursor/mcp.json").exists() is written


@pytest.mark.parametrize(
    ("agent", "name"),
    [
        ("codex", ".codex/config.toml"),
        ("cursor", ".cursor/mcp.json"),
        ("vscode", ".config/Code/User/mcp.json"),
        ("opencode", ".config/opencode/opencode.jsonc"),
    ],
)
@pytest.mark.parametrize("content", [b"{ nonsense", b"", b"\xff\xfe{}"])
def test_a_file_that_cannot_be_read_is_named_and_nothing_at_all_is_written(
    agent: str, name: str, content: bytes, home: Path
) -> None:
    (filled(home) / name).write_bytes(content)
    before = state(home)
    refused = run("install", agent, "--yes")
    if content == b"" and name.endswith(".toml"):  # which is a file of TOML
        assert refused.exit_code == 0 and run("uninstall", agent, "--yes").exit_code == 0
    else:
        assert refused.exit_code == 4
        assert f"{home / name} cannot be changed, and nothing was written" in refused.stderr
    assert state(home) == before


@needs.links
def test_a_symbolic_link_stays_one_and_its_target_keeps_its_mode(home: Path) -> None:
    target = home / "dotfiles" / "mcp.json"
    target.parent.mkdir()
    target.write_text("{}", encoding="utf-8")
    target.chmod(0o640)
    (home / ".cursor").mkdir()
    (home / ".cursor/mcp.json").symlink_to(target)
    assert run("install", "cursor", "--yes").exit_code == 0
    assert (home / ".cursor/mcp.json").is_symlink() and "memory-ledger" in target.read_text(encoding="utf-8")
    assert target.stat().st_mode & 0o777 == 0o640
    assert [path.name for path in target.parent.iterdir()] == ["mcp.json"]


def test_a_file_that_changes_between_the_plan_and_the_writing_is_left_alone(home: Path) -> None:
    from ledger.domain.errors import RejectedError

    filled(home)
    planned = installing.plan("cursor", None, "", remove=False)
    (home / ".cursor/mcp.json").write_text("{}", encoding="utf-8")
    with pytest.raises(RejectedError, match="changed meanwhile"):
        installing.apply(planned)
    assert (home / ".cursor/mcp.json").read_text(encoding="utf-8") == "{}"


def test_what_somebody_put_into_our_folder_stays(home: Path) -> None:
    assert run("install", "claude", "--yes").exit_code == 0
    own = home / ".claude/skills/memory-ledger/skills/mine/SKILL.md"
    own.parent.mkdir()
    own.write_text("mine", encoding="utf-8")
    assert run("uninstall", "claude", "--yes").exit_code == 0
    assert list(state(home)) == [".claude/skills/memory-ledger/skills/mine/SKILL.md"]


def test_uninstall_where_nothing_is_installed_says_so(home: Path) -> None:
    done = run("uninstall", "opencode", "--yes")
    assert done.exit_code == 0 and "nothing of memory-ledger is installed for opencode" in done.stdout
    assert state(home) == {}


def test_every_agent_starts_the_server_of_this_installation_on_the_named_ledger_and_user(home: Path) -> None:
    path = home / "my ledger.db"
    for agent in AGENTS:
        assert run("install", agent, "--yes", "--db", str(path), "--user", "ada").exit_code == 0
    words = [installing.program("memory-ledger"), "mcp", "--db", str(path), "--user", "ada"]

    def read(name: str) -> dict[str, dict[str, dict[str, object]]]:
        found: dict[str, dict[str, dict[str, object]]] = json.loads((home / name).read_text(encoding="utf-8"))
        return found

    servers = {
        "codex": read(f"{CODEX}/.mcp.json")["mcpServers"]["memory-ledger"],
        "claude": read(".claude/skills/memory-ledger/.mcp.json")["mcpServers"]["memory-ledger"],
        "cursor": read(".cursor/mcp.json")["mcpServers"]["memory-ledger"],
        "vscode": read(".config/Code/User/mcp.json")["servers"]["memory-ledger"],
    }
    plugins = tomllib.loads((home / ".codex/config.toml").read_text(encoding="utf-8"))["plugins"]
    assert plugins == {"memory-ledger@memory-ledger": {"enabled": True}}
    folder = {"cursor": ["--folder", "${workspaceFolder}"]}  # it starts a server in the home directory
    for agent, server in servers.items():
        assert [server["command"], *server["args"]] == words + folder.get(agent, [])
    opencode = read(".config/opencode/opencode.json")["mcp"]["memory-ledger"]
    assert opencode == {"type": "local", "command": words, "enabled": True}
    for name, client in (
        (".claude/skills/memory-ledger/hooks/hooks.json", []),
        (f"{CODEX}/hooks/codex.json", ["--client", "codex"]),
    ):
        hooks = read(name)["hooks"]
        assert hooks.keys() == installing.SECONDS.keys()
        for event, (group,) in hooks.items():
            (handler,) = group["hooks"]
            assert handler["timeout"] == installing.SECONDS[event] and handler["type"] == "command"
            expected = [installing.program("memory-ledger-hook"), "--db", str(path), "--user", "ada", *client]
            assert shlex.split(handler["command"]) == expected


def test_the_folder_in_the_package_has_the_same_events_as_an_installation() -> None:
    hooks = json.loads((installing.PLUGIN / "hooks/hooks.json").read_text(encoding="utf-8"))["hooks"]
    seconds = {event: group["hooks"][0]["timeout"] for event, (group,) in hooks.items()}
    assert seconds == installing.SECONDS
    assert (
        min(seconds[event] for event in ("Stop", "PreCompact", "SessionEnd")) > 30 + 5
    )  # to log what was locked for 30 s
    commands = {group["hooks"][0]["command"] for (group,) in hooks.values()}
    assert commands == {"memory-ledger-hook --db ~/.memory-ledger/memory.db"}
    server = json.loads((installing.PLUGIN / ".mcp.json").read_text(encoding="utf-8"))["mcpServers"]["memory-ledger"]
    assert server == {"command": "memory-ledger", "args": ["mcp", "--db", "~/.memory-ledger/memory.db"]}


def test_the_plugin_has_the_version_of_the_package() -> None:
    import ledger

    manifest = json.loads((installing.PLUGIN / ".claude-plugin/plugin.json").read_text(encoding="utf-8"))
    assert (manifest["name"], manifest["version"]) == ("memory-ledger", ledger.__version__)


def test_variables_of_the_agents_name_their_folders(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(home / "c"))
    monkeypatch.setenv("CODEX_HOME", str(home / "x"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "g"))
    for agent in AGENTS:
        assert run("install", agent, "--yes").exit_code == 0
    assert {name.split("/")[0] for name in state(home)} == {"c", "x", "g", ".cursor"}


@pytest.mark.parametrize(("reply", "learns"), [("y\ny\n", True), ("n\ny\n", False)])
def test_install_asks_if_the_agent_may_be_asked_to_learn(
    reply: str, learns: bool, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ledger.cli.asking.is_at_a_terminal", lambda: True)
    shown = run("install", "claude", stdin=reply)
    assert shown.exit_code == 0 and "ask the agent to learn" in shown.stderr
    hooks = (home / ".claude/skills/memory-ledger/hooks/hooks.json").read_text(encoding="utf-8")
    assert ("--learn-turns 0" in hooks) is not learns


def test_install_without_learning_asks_no_agent_to_learn(home: Path) -> None:
    assert run("install", "codex", "--yes", "--no-learn").exit_code == 0
    assert "--learn-turns 0 --client codex" in (home / CODEX / "hooks/codex.json").read_text(encoding="utf-8")


def test_the_marketplace_of_codex_names_the_folder_of_the_plugin_and_its_parts_exist() -> None:
    catalog = json.loads((installing.PLUGIN.parent / ".agents/plugins/marketplace.json").read_text(encoding="utf-8"))
    (entry,) = catalog["plugins"]
    assert (installing.PLUGIN.parent / entry["source"]["path"]).resolve() == installing.PLUGIN
    manifest = json.loads((installing.PLUGIN / ".codex-plugin/plugin.json").read_text(encoding="utf-8"))
    own = json.loads((installing.PLUGIN / ".claude-plugin/plugin.json").read_text(encoding="utf-8"))
    assert {name: manifest[name] for name in ("name", "version", "license")} == {
        name: own[name] for name in ("name", "version", "license")
    }
    assert all((installing.PLUGIN / manifest[name]).exists() for name in ("skills", "mcpServers", "hooks"))


def test_the_skill_learn_runs_in_a_fork_with_a_small_model_and_two_tools() -> None:
    text = (installing.PLUGIN / "skills/learn/SKILL.md").read_text(encoding="utf-8")
    head = dict(line.split(": ", 1) for line in text.split("---")[1].strip().splitlines())
    assert (head["context"], head["model"]) == ("fork", "haiku")
    assert {name.rpartition("__")[2] for name in head["allowed-tools"].split()} == {"unread", "learn"}


@pytest.fixture
def windows(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a Python on Windows whose path has a blank and a quote."""
    scripts = home / "Ana's Python" / "Scripts"
    scripts.mkdir(parents=True)
    for name in ("python.exe", "pythonw.exe", "memory-ledger.exe", "memory-ledger-hook.exe"):
        (scripts / name).touch()
    monkeypatch.setattr("sys.executable", str(scripts / "python.exe"))
    monkeypatch.setattr("sys.platform", "win32")
    return scripts


def stop_hook(file: Path) -> dict[str, object]:
    (entry,) = json.loads(file.read_text(encoding="utf-8"))["hooks"]["Stop"]
    (handler,) = entry["hooks"]
    assert isinstance(handler, dict)
    return handler


def test_claude_code_on_windows_starts_a_hook_without_a_shell_and_without_a_window(windows: Path, home: Path) -> None:
    path = home / "Ana B" / "memory.db"
    assert run("install", "claude", "--yes", "--db", str(path), "--user", "ana").exit_code == 0
    assert stop_hook(home / ".claude/skills/memory-ledger/hooks/hooks.json") == {
        "type": "command",
        "command": str(windows / "pythonw.exe"),
        "args": ["-P", "-m", "ledger.doors.hooks", "--db", str(path), "--user", "ana"],
        "timeout": installing.SECONDS["Stop"],
    }
    server = json.loads((home / ".claude/skills/memory-ledger/.mcp.json").read_text(encoding="utf-8"))
    assert server["mcpServers"]["memory-ledger"]["command"] == str(windows / "memory-ledger.exe")


def test_codex_on_windows_gives_powershell_a_line_that_it_splits_into_the_same_words(windows: Path, home: Path) -> None:
    path = home / "Ana’s files" / "memory.db"
    assert run("install", "codex", "--yes", "--db", str(path), "--user", "ana").exit_code == 0
    hook, ledger = (
        str(place).replace("'", "''").replace("’", "’’") for place in (windows / "memory-ledger-hook.exe", path)
    )
    assert stop_hook(home / CODEX / "hooks/codex.json")["command"] == (
        f"& '{hook}' --db '{ledger}' --user ana --client codex"
    )


def test_a_line_for_powershell_quotes_no_word_without_need(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "win32")
    monkeypatch.setattr(installing, "program", lambda name: f"C:\\Python\\{name}.exe")
    line = installing.Programs("C:\\Ana\\$memory.db", "").codex_hook()["command"]
    assert line == "C:\\Python\\memory-ledger-hook.exe --db 'C:\\Ana\\$memory.db' --client codex"
