"""Every door takes the project of the folder it works in, and leaves it alone where the memory is off."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import mcp_client as agents
import pytest
from command_line import answer as answered
from command_line import run as run_command
from places import ROOT, move_home

from ledger import Ledger
from ledger.doors import hooks

FILE = ".memory-ledger.toml"
Hook = Callable[..., str]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith(("LEDGER_", "CLAUDE_"))]:
        monkeypatch.delenv(name)
    move_home(monkeypatch, tmp_path / "home")
    for shop in ("one/shop", "two/shop"):
        (tmp_path / "home" / shop / ".git").mkdir(parents=True)
        (tmp_path / "home" / shop / ".git" / "HEAD").touch()
        (tmp_path / "home" / shop / "src").mkdir()
    return tmp_path / "home"


@pytest.fixture
def path(home: Path) -> Path:
    return home / "memory" / "memory.db"


@pytest.fixture
def hook(path: Path, home: Path) -> Hook:
    """Play a whole turn in a folder, and return what the model was given before it."""
    count = iter(range(100))

    def play(folder: str, prompt: str, **settings: str) -> str:
        number = next(count)
        transcript = home / f"{number}.jsonl"
        entry = {"type": "user", "uuid": f"u{number}", "promptSource": "typed", "message": {"content": prompt}}
        reply = {"type": "assistant", "uuid": f"a{number}", "message": {"content": [{"type": "text", "text": "Done."}]}}
        options = hooks.HookOptions(str(path), "", "claude-code", **settings)
        event = {"session_id": f"s{number}", "cwd": str(home / folder), "transcript_path": str(transcript)}
        given = "".join(
            hooks.answer({**event, "hook_event_name": name, "prompt": prompt}, options)
            for name in ("SessionStart", "UserPromptSubmit")
        )
        transcript.write_text(f"{json.dumps(entry)}\n{json.dumps(reply)}\n", encoding="utf-8")
        hooks.answer({**event, "hook_event_name": "Stop"}, options)
        return given

    return play


def projects(path: Path) -> dict[str | None, tuple[str, ...]]:
    with Ledger.open(path, readonly=True) as ledger:
        return {project.name: project.roots for project in ledger.projects.list(oldest_first=True)}


def test_hooks_give_each_repository_a_memory_of_its_own_in_whichever_of_its_folders(hook: Hook, path: Path) -> None:
    hook("one/shop/src", "Our deploys go out on Tuesdays at noon.")
    assert "Tuesdays" in hook("one/shop", "When do our deploys go out?")
    assert "Tuesdays" not in hook("two/shop", "When do our deploys go out?")
    assert projects(path) == {"shop": ("~/one/shop",), "shop (two)": ("~/two/shop",)}


def test_the_first_hook_links_the_project_that_an_earlier_version_named_after_the_folder(
    hook: Hook, path: Path
) -> None:
    path.parent.mkdir()
    with Ledger.open(path) as ledger:
        ledger.remember("Deploys go out on Tuesdays.", project="shop")
    assert "Tuesdays" in hook("one/shop/src", "When do our deploys go out?")
    assert projects(path) == {"shop": ("~/one/shop",)}


def test_a_hook_obeys_claude_project_dir_and_before_it_a_named_project(
    hook: Hook, path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDE_PROJECT_DIR", str(home / "two" / "shop"))
    hook("one/shop", "Our deploys go out on Tuesdays at noon.")
    hook("one/shop", "We test at night.", project="bank")
    assert projects(path) == {"shop": ("~/two/shop",), "bank": ()}
    monkeypatch.setenv("LEDGER_PROJECT", "bank")
    assert hooks.options_of(["--db", str(path)]).project == "bank"


def test_where_the_memory_is_off_a_hook_records_nothing_and_adds_nothing(hook: Hook, path: Path, home: Path) -> None:
    hook("one/shop", "Our deploys go out on Tuesdays at noon.")
    with Ledger.open(path) as ledger:
        ledger.policy.set(off=["shop"])
        before = ledger.position
    assert hook("one/shop/src", "When do our deploys go out?") == ""
    (home / "two" / "shop" / FILE).write_text("off = true\n", encoding="utf-8")
    assert hook("two/shop", "We test at night.") == ""
    with Ledger.open(path, readonly=True) as ledger:
        assert ledger.position == before
        assert len(ledger.interactions.list(project="shop")) == 1, "by hand it is found"
    assert not Path(f"{path}.hooks.log").exists()


def test_what_a_file_says_in_vain_is_logged_once_a_session(hook: Hook, path: Path, home: Path) -> None:
    hook("one/shop", "Our deploys go out on Tuesdays at noon.")
    (home / "two" / "shop" / FILE).write_text('project = "by ear"\nuser = "\\u001b[31mada"\n', encoding="utf-8")
    hook("two/shop", "We test at night.")
    (line,) = Path(f"{path}.hooks.log").read_text(encoding="utf-8").splitlines()
    assert "SessionStart RejectedError" in line and "user is ignored" in line and line.isprintable()


def test_a_foreign_clone_does_not_get_a_memory_into_its_prompts_by_naming_it(
    hook: Hook, path: Path, home: Path
) -> None:
    hook("one/shop", "The code of our vault is nine nine four.")
    (home / "two" / "shop" / FILE).write_text('project = "shop"\n', encoding="utf-8")
    (home / "evil" / ".git").mkdir(parents=True)
    (home / "evil" / ".git" / "HEAD").touch()
    (home / "evil" / FILE).write_text('project = "shop"\n', encoding="utf-8")
    for folder in ("two/shop", "evil"):
        assert "vault" not in hook(folder, "What is the code of our vault?")
    assert projects(path)["shop"] == ("~/one/shop",)
    assert "projects link shop" in Path(f"{path}.hooks.log").read_text(encoding="utf-8")


def test_the_server_takes_the_project_of_its_folder_and_links_it_with_the_first_write(path: Path, home: Path) -> None:
    async def story(agent: agents.McpCaller) -> None:
        await agent.call("recall", question="deploys")
        assert (await agent.call("remember", content="Deploys go out on Tuesdays."))["project"] == "shop"
        assert "Tuesdays" in await agent.text("context", question="When do deploys go out?")

    path.parent.mkdir()
    agents.played(story, path, user="", project=None, folder=str(home / "one" / "shop" / "src"))
    assert projects(path) == {"shop": ("~/one/shop",)}


def test_where_the_memory_is_off_the_server_refuses_to_read_and_to_write(path: Path, home: Path) -> None:
    async def story(agent: agents.McpCaller) -> None:
        calls = {
            "context": {"question": "Tea?"},
            "recall": {"question": "tea", "scope": "everywhere"},
            "remember": {"content": "The user drinks tea.", "scope": "everywhere"},
            "propose": {"content": "The user drinks tea."},
            "add": {"messages": [{"role": "user", "content": "I like tea."}]},
            "sessions": {},
        }
        for tool, arguments in calls.items():
            assert "the memory is off for the project 'shop'" in await agent.error(tool, **arguments), tool

    path.parent.mkdir()
    with Ledger.open(path) as ledger:
        ledger.projects.enter(home / "one" / "shop")
        ledger.policy.set(off=["shop"])
    for options in ({"project": None, "folder": str(home / "one" / "shop")}, {"project": "shop"}):
        agents.played(story, path, user="", **options)
    with Ledger.open(path, readonly=True) as ledger:
        assert ledger.memories.list(statuses=()) == []


def test_the_command_line_takes_a_project_that_the_folder_is_linked_with(
    path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.parent.mkdir()
    monkeypatch.chdir(home / "one" / "shop" / "src")
    assert answered("remember", "Tea is hot.", db=path)["project"] is None, "nobody linked the folder"
    assert answered("projects", "add", "shop", db=path)["roots"] == []
    assert answered("projects", "link", "shop", db=path)["roots"] == ["~/one/shop"]
    assert answered("remember", "Deploys go out on Tuesdays.", db=path)["project"] == "shop"
    assert answered("remember", "Elsewhere.", "--project", "", db=path)["project"] is None
    (home / "one" / "shop" / "notes.md").write_text("# Deploys\n\nOn Tuesdays.\n", encoding="utf-8")
    added = answered("documents", "add", str(home / "one" / "shop" / "notes.md"), db=path)
    assert added["documents"][0]["project"] == "shop"
    found = answered("projects", "of", db=path)
    assert (found["name"], found["linked"], found["off"]) == ("shop", True, "")


def test_a_command_and_the_server_say_what_a_file_says_in_vain(
    path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.parent.mkdir()
    shop = home / "one" / "shop"
    (shop / FILE).write_text("model = 'evil'\n", encoding="utf-8")
    monkeypatch.chdir(shop)
    assert "model is ignored" in run_command("remember", "Tea is hot.", db=path).stderr
    command = [sys.executable, "-m", "ledger", "mcp", "--db", str(path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, input="", capture_output=True, text=True, check=True)
    assert done.stderr.count("model is ignored") == 1 and done.stdout == ""


def test_off_and_on_switch_the_memory_of_the_folder_or_of_a_named_project(
    path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.parent.mkdir()
    monkeypatch.chdir(home / "one" / "shop")
    answered("projects", "add", "bank", db=path)
    assert answered("off", db=path)["off"] is True
    assert answered("off", "--project", "bank", db=path)["off"] is True
    assert answered("policy", "get", db=path)["off"] == ["shop", "bank"]
    refused = run_command("remember", "Tea is hot.", db=path)
    assert refused.exit_code == 4 and "the memory is off in ~/one/shop (policy)" in refused.stderr
    assert answered("on", db=path)["off"] is False
    assert answered("policy", "get", db=path)["off"] == ["bank"]
    with Ledger.open(path) as ledger:
        ledger.undo(ledger.position)
        assert ledger.policy.get().off == ("shop", "bank")
    monkeypatch.chdir(home)
    nowhere = run_command("off", db=path)
    assert nowhere.exit_code == 2 and "this folder is no project" in nowhere.stderr
    assert run_command("off", "--project", "bnak", db=path).exit_code == 3
    (home / "two" / "shop" / FILE).write_text("off = true\n", encoding="utf-8")
    monkeypatch.chdir(home / "two" / "shop")
    assert "says off = true" in run_command("on", db=path).stderr
    assert run_command("remember", "Tea is hot.", db=path).exit_code == 4


def test_the_server_command_takes_a_folder_and_leaves_a_variable_that_nobody_replaced(
    path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served: list[tuple[str | None, str]] = []
    monkeypatch.setattr(
        "ledger.doors.mcp.serving.serve", lambda _, project, folder, **__: served.append((project, folder))
    )
    monkeypatch.chdir(home / "two")
    for words in (
        ["--folder", "/srv/shop"],
        ["--folder", "${workspaceFolder}"],
        ["--project", ""],
        ["--project", "bank"],
        ["--http"],
    ):
        assert run_command("mcp", *words, db=path).exit_code == 0
    here = str(home / "two")
    assert served == [(None, "/srv/shop"), (None, here), (None, ""), ("bank", here), (None, "")]


def test_a_server_of_the_library_has_no_folder_unless_one_is_given(
    path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(agent: agents.McpCaller) -> None:
        assert (await agent.call("remember", content="Tea is hot."))["project"] is None

    path.parent.mkdir()
    monkeypatch.chdir(home / "one" / "shop")
    agents.played(story, path, project=None)
