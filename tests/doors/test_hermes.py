"""Hermes: its own loader and memory manager with a ledger behind them. ``python3 tools/dev.py doors hermes`` runs this file."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import needs
import pytest

pytest.importorskip("agent.memory_provider", reason="needs Hermes: `dev.py doors hermes` installs it")

from agent.memory_manager import MemoryManager
from door_story import told_changed_asked_and_undone
from places import ROOT
from plugins.memory import discover_memory_providers, load_memory_provider
from threads import together

from ledger import Ledger
from ledger.doors.hermes import LedgerMemoryProvider
from ledger.doors.pytest_plugin import Clock

PAGE = ROOT / "ledger" / "docs" / "doors.md"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "hermes"))
    for name in [name for name in os.environ if name.startswith("LEDGER_")]:
        monkeypatch.delenv(name)
    folder = tmp_path / "hermes" / "plugins" / "memory-ledger"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(
        "from ledger.doors.hermes import register  # register_memory_provider\n", encoding="utf-8"
    )
    return tmp_path / "hermes"


@pytest.fixture
def path(home: Path) -> Path:
    return home / "memory-ledger" / "memory.db"


@contextlib.contextmanager
def managed(session: str = "s1", *, clock: Clock | None = None, **words: Any) -> Iterator[MemoryManager]:
    """Yield Hermes's manager with the provider, as its agent sets it up for a session."""
    provider = load_memory_provider("memory-ledger") if clock is None else LedgerMemoryProvider(clock=clock)
    assert provider is not None and provider.is_available()
    manager = MemoryManager()
    manager.add_provider(provider)
    manager.initialize_all(session_id=session, **{"platform": "cli", "agent_context": "primary"} | words)
    try:
        yield manager
    finally:
        manager.shutdown_all()


def said(manager: MemoryManager, prompt: str, response: str = "I see.", **words: Any) -> None:
    manager.sync_all(prompt, response, **words)
    assert manager.flush_pending(30)


def test_the_loader_of_hermes_finds_the_provider_and_all_its_tools() -> None:
    assert ("memory-ledger", "", True) in discover_memory_providers()
    with managed() as manager:
        names = {"ledger_recall", "ledger_why", "ledger_remember", "ledger_forget"}
        assert {schema["name"] for schema in manager.get_all_tool_schemas()} == names == manager.get_all_tool_names()
        assert "Memory ledger" in manager.build_system_prompt()
        assert manager.prefetch_all("Where do I live?") == ""


def test_the_entry_point_that_newer_versions_of_hermes_read_names_the_provider() -> None:
    (point,) = entry_points(group="hermes_agent.memory_providers", name="memory-ledger")
    given: list[object] = []
    point.load().register(SimpleNamespace(register_memory_provider=given.append))
    assert [type(provider) for provider in given] == [LedgerMemoryProvider]


def test_the_provider_loads_the_library_of_no_other_door() -> None:
    others = {"mcp", "fastapi", "uvicorn", "langgraph", "anthropic", "agents"}
    program = f"import sys, ledger.doors.hermes; print(*sorted(sys.modules.keys() & {others!r}))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr


def test_what_the_person_says_is_learned_and_stands_in_a_later_prompt(path: Path) -> None:
    with managed("monday") as manager:
        said(manager, "I live in Lisbon.", "A fine city.")
    with managed("tuesday") as manager:
        assert "The user lives in Lisbon" in manager.prefetch_all("Where do I live?")
        assert "The user lives in Lisbon" in manager.on_pre_compress([{"role": "user", "content": "Where do I live?"}])
    with Ledger.open(path, readonly=True) as ledger:
        assert [message.content for message in ledger.session("monday").messages()] == [
            "I live in Lisbon.",
            "A fine city.",
        ]
        (entry,) = ledger.history.audit(type="InteractionCaptured")
        assert (entry.client, entry.channel, entry.user) == ("hermes", "user", "")


def test_a_secret_in_a_turn_or_in_the_name_of_its_session_loses_no_turn(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    key = "sk-ant-api03-" + "aB3" * 31 + "AA"
    with managed("monday") as manager:
        said(manager, f"Use {key}.", f"I use {key}.")
    with managed(key) as manager:
        said(manager, "I live in Lisbon.")
    with managed(" ") as manager:
        said(manager, "I like tea.")
    with Ledger.open(path, readonly=True) as ledger:
        turns = ledger.interactions.list(oldest_first=True)
        assert [(turn.prompt, turn.session) for turn in turns] == [
            ("Use [redacted:anthropic_key].", "monday"), ("I live in Lisbon.", None), ("I like tea.", None)]  # fmt: skip
        assert turns[0].response == "I use [redacted:anthropic_key]."
    assert "prompt: 1 × anthropic_key was redacted" in caplog.text and "without a field" in caplog.text
    assert key not in caplog.text


def test_a_long_message_and_a_group_count_as_nobodys_own_words(path: Path) -> None:
    with managed() as manager:
        said(manager, "I live in Lisbon.\n" + "line\n" * 30)
    with managed(platform="telegram", user_id="7", chat_id="c9", chat_type="group") as manager:
        said(manager, "I live in Porto.")
    with Ledger.open(path, readonly=True) as ledger:
        assert [entry.channel for entry in ledger.history.audit(type="InteractionCaptured")] == ["file"]
        group = ledger.bind(user="telegram:chat:c9")
        assert [entry.channel for entry in group.history.audit(type="InteractionCaptured")] == ["web"]
        for user in (ledger, group):
            assert not user.memories.list()


def test_each_person_of_a_message_service_has_a_memory_of_their_own() -> None:
    with managed(platform="telegram", user_id=7) as ada, managed(platform="telegram", user_id="8") as ben:
        said(ada, "I live in Lisbon.")
        id = json.loads(ada.handle_tool_call("ledger_remember", {"content": "Ada drinks tea."}))["id"]
        assert "Lisbon" in ada.prefetch_all("Where do I live?")
        assert "Lisbon" not in ben.prefetch_all("Where do I live?")
        assert json.loads(ben.handle_tool_call("ledger_recall", {"question": "tea"}))["ids"] == []
        assert "of this user has the id" in json.loads(ben.handle_tool_call("ledger_why", {"id": id}))["error"]


@pytest.mark.parametrize("platform", ["cli", "tui", "desktop", "acp"])
def test_on_the_owners_machine_the_user_is_the_one_of_the_settings(path: Path, platform: str) -> None:
    with managed(platform=platform) as manager:
        said(manager, "I live in Lisbon.")
    with Ledger.open(path, readonly=True) as ledger:
        assert [memory.content for memory in ledger.memories.list()] == ["The user lives in Lisbon"]


@pytest.mark.parametrize("user_id", [{}, {"user_id": None}, {"user_id": ""}])
@pytest.mark.parametrize("platform", ["telegram", "api_server", "webhook", "a_later_service"])
def test_a_person_whom_a_message_service_does_not_name_never_reads_the_owners_memory(
    path: Path, platform: str, user_id: dict[str, str | None]
) -> None:
    with managed("s1") as owner:
        said(owner, "I live in Lisbon.")
    with (
        managed("s2", platform=platform, gateway_session_key="k1", **user_id) as one,
        managed("s3", platform=platform, gateway_session_key="k2", **user_id) as other,
    ):
        assert one.prefetch_all("Where do I live?") == ""
        one.handle_tool_call("ledger_remember", {"content": "The parcel is at the gate."})
        said(one, "I live in Porto.")
        assert json.loads(other.handle_tool_call("ledger_recall", {"question": "parcel"}))["ids"] == []
    with managed("s4", platform=platform, gateway_session_key="k1", **user_id) as again:
        assert "parcel" in again.prefetch_all("Where is the parcel?")
    with Ledger.open(path, readonly=True) as ledger:
        assert [memory.content for memory in ledger.memories.list()] == ["The user lives in Lisbon"]
        stranger = ledger.bind(user=f"{platform}:chat:k1")
        assert [entry.channel for entry in stranger.history.audit(type="InteractionCaptured")] == ["web"]


@pytest.mark.parametrize("words", [{"agent_context": "subagent"}, {"platform": "cron"}])
def test_a_subagent_and_a_scheduled_task_read_and_write_nothing(path: Path, words: dict[str, str]) -> None:
    with managed() as manager:
        said(manager, "I live in Lisbon.")
    user = words.get("platform", "cli")
    with Ledger.open(path) as ledger:
        before = ledger.position
    with managed(**words) as manager:
        assert "Lisbon" in manager.prefetch_all("Where do I live?"), user
        said(manager, "I live in Porto.")
        manager.on_memory_write("add", "user", "The user lives in Porto.")
        assert "only reads" in manager.handle_tool_call("ledger_remember", {"content": "x"})
        manager.on_session_end([])
    with Ledger.open(path) as ledger:
        assert ledger.position == before


def test_an_agent_forgets_what_it_wrote_and_nothing_else(path: Path) -> None:
    with managed() as manager:
        said(manager, "I live in Lisbon.")
        made = json.loads(manager.handle_tool_call("ledger_remember", {"content": "The tests need Docker."}))
        assert (made["status"], made["confidence"]) == ("active", 0.6)
        gone = json.loads(manager.handle_tool_call("ledger_forget", {"id": made["id"], "reason": "no longer"}))
        assert gone["status"] == "retracted"
        found = json.loads(manager.handle_tool_call("ledger_recall", {"question": "Where does the user live?"}))
        id = next(id for id in found["ids"] if id.startswith("m_"))
        assert "somebody else wrote" in manager.handle_tool_call("ledger_forget", {"id": id, "reason": "I know better"})
        why = json.loads(manager.handle_tool_call("ledger_why", {"id": id}))
        assert why["said"] == ["I live in Lisbon."] and "own_words" in why["because"]


@pytest.mark.parametrize(
    "args", [{}, {"question": ""}, {"question": 7}, {"question": None}, {"question": ["tea"]}, None, ["tea"]]
)
def test_a_wrong_call_of_a_tool_gets_its_reason(args: Any) -> None:
    with managed() as manager:
        assert "needs a text in question" in json.loads(manager.handle_tool_call("ledger_recall", args))["error"]


def test_an_action_of_hermes_memory_tool_that_is_not_known_records_nothing(path: Path) -> None:
    with managed() as manager:
        manager.on_memory_write("pin", "user", "Ada drinks tea.")
    with Ledger.open(path) as ledger:
        assert not ledger.memories.list()


def test_what_the_persons_approval_made_is_not_replaced_by_the_tool_of_hermes(path: Path) -> None:
    with managed() as manager:
        manager.on_memory_write("add", "memory", "Ada drinks coffee.")
        with Ledger.open(path) as person:
            (memory,) = person.memories.list()
            person.revise(memory.id, "Ada drinks coffee with milk.")
        manager.on_memory_write("remove", "memory", "", metadata={"old_text": "drinks coffee"})
        with Ledger.open(path) as person:
            assert person.memories.get(memory.id).status == "active"


def test_an_entry_that_hermes_removed_comes_back_with_its_next_add_unless_a_person_took_it(path: Path) -> None:
    with managed() as manager:
        manager.on_memory_write("add", "user", "Ada drinks tea.")
        manager.on_memory_write("remove", "user", "", metadata={"old_text": "tea"})
        manager.on_memory_write("add", "user", "Ada drinks tea.")
        with Ledger.open(path) as person:
            (memory,) = person.memories.list()
            assert (memory.content, memory.status, memory.confidence) == ("Ada drinks tea.", "active", 0.6)
            person.retract(memory.id, reason="wrong")
        manager.on_memory_write("add", "user", "Ada drinks tea.")
    with Ledger.open(path) as person:
        assert not person.memories.list()


def test_the_answer_to_a_message_without_words_is_kept(path: Path) -> None:
    with managed() as manager:
        said(manager, " ", "The picture shows a red kettle.")  # Hermes itself leaves out an empty message
        said(manager, " ", "")
    with Ledger.open(path) as person:
        (message,) = person.session("s1").messages()
        assert (message.role, message.content) == ("assistant", "The picture shows a red kettle.")


def test_the_story_of_three_days(path: Path, ledger_clock: Clock) -> None:
    def wrote(**change: str) -> None:
        with managed(clock=ledger_clock) as manager:
            manager.notify_memory_tool_write({"success": True}, {"target": "user", **change})

    def ask() -> str:
        with managed(clock=ledger_clock) as manager:
            return manager.prefetch_all("What does Ada drink?")

    path.parent.mkdir(parents=True)
    with Ledger.open(path, clock=ledger_clock) as person:
        told_changed_asked_and_undone(
            person,
            ledger_clock,
            tell=lambda text: wrote(action="add", content=text),
            change=lambda old, new: wrote(action="replace", content=new, old_text=old),
            ask=ask,
            subjects=lambda: [entry.subject for entry in person.history.audit(type="MemoryCaptured")],
        )


def test_a_tool_tells_the_model_why_a_memory_is_believed(path: Path, ledger_clock: Clock) -> None:
    ledger_clock.set("2026-03-03T09:00Z")
    with managed(clock=ledger_clock) as manager:
        manager.on_memory_write("add", "user", "Ada drinks tea.")
        (id,) = re.findall(r"\[(m_\w+)\]", manager.prefetch_all("What does Ada drink?"))
        why = json.loads(manager.handle_tool_call("ledger_why", {"id": id}))
        assert why["confidence"] == 0.6 and why["steps"][-1].startswith("2026-03-03")


def test_twenty_racing_sessions_lose_no_turn(path: Path) -> None:
    with contextlib.ExitStack() as stack:
        managers = [stack.enter_context(managed(f"s{number}")) for number in range(20)]

        def talk(number: int) -> None:
            for turn in range(5):
                said(managers[number], f"This is turn {turn} of session {number}.", session_id=f"s{number}")
                made = managers[number].handle_tool_call("ledger_remember", {"content": f"Fact {turn} of {number}."})
                assert "error" not in json.loads(made), made

        assert together(*(lambda number=number: talk(number) for number in range(20))) == []
    with Ledger.open(path) as ledger:
        assert {info.messages for info in ledger.sessions.list(limit=100)} == {10}
        assert len(list(ledger.memories.list(limit=200))) == 100
        assert ledger.proof.verify().ok


@needs.signals
def test_a_process_that_is_killed_loses_no_turn_that_was_recorded(path: Path) -> None:
    program = """
from ledger.doors.hermes import LedgerMemoryProvider
import os
provider = LedgerMemoryProvider()
provider.initialize("s", hermes_home=os.environ["HERMES_HOME"], platform="cli")
for number in range(10_000):
    provider.sync_turn(f"Turn number {number}.", "Yes.")
    print(number, flush=True)
"""
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    seen = [process.stdout.readline() for _ in range(8)]
    process.send_signal(signal.SIGKILL)
    seen += process.communicate()[0].splitlines()
    recorded = [int(line) for line in seen if line.strip().isdigit()]
    with Ledger.open(path) as ledger:
        prompts = [turn.prompt for turn in ledger.interactions.list(limit=1_000, oldest_first=True).all()]
        assert prompts[: len(recorded)] == [f"Turn number {number}." for number in recorded]
        assert len(prompts) - len(recorded) in (0, 1)
        assert ledger.session("s").messages(limit=1_000)[0].content == "Turn number 0."
        assert ledger.proof.verify().ok


def test_a_file_outside_the_folder_of_hermes_is_named_for_its_backup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert LedgerMemoryProvider().backup_paths() == []
    monkeypatch.setenv("LEDGER_PATH", str(tmp_path / "own.db"))
    assert LedgerMemoryProvider().backup_paths() == [str(tmp_path / "own.db")]


def test_the_program_of_the_page_prints_what_stands_below_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (program,) = re.findall(r"^```python no-run[^\n]*\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(program, "doors.md", "exec"), {})
    assert printed.getvalue().splitlines() == [line.strip()[3:] for line in re.findall(r"^ *#>.*$", program, re.M)]
