"""Loading: a door loads no library of another door, and without its own library the error names the line to install."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from places import ROOT

LIBRARIES = {"http": "fastapi", "hermes": "agent.memory_provider"}
OTHERS = {"mcp", "fastapi", "agent", "agents", "langgraph", "anthropic", "claude_agent_sdk"}


def printed(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("door", LIBRARIES)
def test_without_its_library_the_import_of_a_door_names_the_line_to_install(door: str) -> None:
    program = f"import sys; sys.modules[{LIBRARIES[door]!r}] = None\nimport ledger.doors.{door}"
    said = printed(f"try:\n    exec({program!r})\nexcept ImportError as error:\n    print(error)")
    assert f'pip install "belief-ledger[{door}]"' in said


def test_every_message_about_a_missing_extra_names_the_line_to_install_in_one_form() -> None:
    sources = "\n".join(file.read_text(encoding="utf-8") for file in (ROOT / "ledger").rglob("*.py"))
    lines = re.findall(r"pip install .*", sources)
    assert len(lines) > 10
    assert [line for line in lines if not re.match(r'pip install "belief-ledger\[[\w{}]+\]"', line)] == []


def test_the_http_server_loads_the_library_of_no_other_door() -> None:
    pytest.importorskip("fastapi", reason="needs the extra http")
    loaded = printed(f"import sys, ledger.doors.http.serving; print(*sorted(sys.modules.keys() & {OTHERS!r}))")
    assert loaded == "fastapi"


def test_the_product_loads_no_door() -> None:
    assert (
        printed("import sys, ledger.cli.app; print([name for name in sys.modules if name.startswith('fastapi')])")
        == "[]"
    )


def test_the_doors_use_the_public_api_alone() -> None:
    public = re.compile(r"ledger(\.(types|answers|core\.shell|aio(\.ledger)?|doors(\.\w+)*))?")
    inside: dict[str, set[str]] = {}
    for file in (ROOT / "ledger/doors").rglob("*.py"):
        modules = re.findall(
            r"^\s*(?:from|import) ((?:ledger|projections)[\w.]*)", file.read_text(encoding="utf-8"), re.M
        )
        for module in modules:
            if not public.fullmatch(module):
                inside.setdefault(file.relative_to(ROOT / "ledger/doors").as_posix(), set()).add(module)
    del inside["eventsourcing.py"]  # shows the log itself to those who use its library
    assert inside == {
        # the length from which nobody can tell which part of a message was typed
        "hermes.py": {"ledger.english.foreign"},
        # the same, and what differs between systems (platform), as in the three others with ledger.log
        "agent_transcripts.py": {"ledger.english.foreign", "ledger.log"},
        "tokens.py": {"ledger.log"},
        "web_server.py": {"ledger.log"},
        # the place of the hooks' log beside the ledger, and one line of any text for it
        # and the variable that tells a hook that its agent answers for a ledger
        # and which words of a prompt are no stop words
        "hooks.py": {
            *("ledger.core.settings", "ledger.log", "ledger.log.paths", "ledger.domain.text"),
            *("ledger.english.question", "ledger.english.words"),
        },
        "http/questions.py": {"ledger.domain.metadata"},  # the type of a value of metadata
        "mcp/arguments.py": {"ledger.models.port"},  # a schema without what says nothing to a model
        "mcp/serving.py": {"ledger.core.settings"},  # the same
        "picoclaw.py": {"ledger.sessions.transcripts"},
        # what tests of programs on a ledger are made of: the class of every ledger, also of a past one, and times
        "golden.py": {"ledger.api"},
        "pytest_plugin.py": {"ledger.api", "ledger.domain"},
    }
