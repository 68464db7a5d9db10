"""A check of the plugin with the real Claude Code and Codex, without a key: ``python tools/doors/check_plugin.py``.

Claude Code validates the folder, loads it from a home directory of its own, and plays two sessions against a model that is
a script on this machine. What the first session was told has to stand in the second one's request. Without ``--claude`` the
binary comes from the wheel of ``claude-agent-sdk`` (180 MB). With ``--codex PATH`` Codex loads the plugin from its
marketplace, and as ``install`` writes it. Run it with the Python of an environment that has the product.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import zipfile
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from ledger import Ledger
from ledger.doors.installing import PLUGIN

WHEEL = "claude-agent-sdk==0.2.189"
TOLD = "I prefer uv over pip. Please set up the project."
ASKED = "Which package manager do I prefer?"
KNOWN = "The user prefers uv over pip"


class ScriptedModel(BaseHTTPRequestHandler):
    """A model that says "Noted." to everything, and keeps what it was sent."""

    requests: list[str] = []  # noqa: RUF012 - of the one server of this process

    def do_POST(self) -> None:
        self.requests.append(self.rfile.read(int(self.headers.get("content-length", 0))).decode())
        if "/messages" not in self.path or "count_tokens" in self.path:
            self.send_error(404)
            return
        message = {"id": "m", "type": "message", "role": "assistant", "model": "scripted", "content": []}
        events: dict[str, dict[str, Any]] = {
            "message_start": {"message": {**message, "usage": {"input_tokens": 1, "output_tokens": 1}}},
            "content_block_start": {"index": 0, "content_block": {"type": "text", "text": ""}},
            "content_block_delta": {"index": 0, "delta": {"type": "text_delta", "text": "Noted."}},
            "content_block_stop": {"index": 0},
            "message_delta": {"delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}},
            "message_stop": {},
        }
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        for name, data in events.items():
            self.wfile.write(f"event: {name}\ndata: {json.dumps({'type': name, **data})}\n\n".encode())

    def log_message(self, format: str, *arguments: object) -> None:
        """Print nothing."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--claude", type=Path, help="the binary; without it the wheel is downloaded")
    parser.add_argument("--codex", type=Path, help="the binary of Codex; without it Codex is left out")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        return check(options.claude or downloaded(place), place, options.codex)


def downloaded(place: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(place), WHEEL]
    subprocess.run(command, check=True)
    with zipfile.ZipFile(next(place.glob("*.whl"))) as wheel:
        name = next(name for name in wheel.namelist() if name.endswith("_bundled/claude"))
        binary = Path(wheel.extract(name, place))
    binary.chmod(0o700)
    return binary


def check(claude: Path, place: Path, codex: Path | None = None) -> int:
    home, project = place / "home", place / "shop"
    home.mkdir()
    project.mkdir()
    model = ThreadingHTTPServer(("127.0.0.1", 0), ScriptedModel)
    threading.Thread(target=model.serve_forever, daemon=True).start()
    environment = {
        **{name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ},
        "HOME": str(home),
        "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{model.server_port}",
        "ANTHROPIC_API_KEY": "none",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
    }

    def run(*command: str | Path, text: str = "") -> tuple[bool, str]:
        done = subprocess.run(
            list(map(str, command)),
            cwd=project,
            env=environment,
            input=text,
            capture_output=True,
            text=True,
            timeout=120,
        )
        return done.returncode == 0, done.stdout + done.stderr

    def say(words: str) -> tuple[bool, str]:
        said = {"type": "user", "message": {"role": "user", "content": words}, "origin": {"kind": "human"}}
        options = ("--input-format", "stream-json", "--output-format", "stream-json", "--verbose")
        return run(claude, "-p", *options, text=json.dumps(said) + "\n")

    def listed() -> tuple[bool, str]:
        ok, output = run(claude, "plugin", "list")
        return ok and "memory-ledger@skills-dir" in output and "loaded" in output, output

    def remembered() -> tuple[bool, str]:
        with Ledger.open(home / ".memory-ledger/memory.db", user="", readonly=True) as ledger:
            memories = [memory.content for memory in ledger.memories.list()]
        log = home / ".memory-ledger/memory.db.hooks.log"
        errors = log.read_text(encoding="utf-8") if log.exists() else ""
        given = any(KNOWN in request and ASKED in request for request in ScriptedModel.requests)
        return given and memories == [
            KNOWN
        ] and not errors, f"memories {memories}, given to the model: {given} {errors}"

    def asked_to_learn() -> tuple[bool, str]:
        with Ledger.open(home / ".memory-ledger/memory.db", user="") as ledger:
            for number in range(25):
                ledger.capture(f"My friend number {number} works at the harbour.", "Noted.", project=project.name)
        ok, output = say("Good morning.")
        learns = [
            request for request in ScriptedModel.requests if "run the skill `learn` of memory-ledger once" in request
        ]
        offered = any("memory-ledger:learn" in request for request in learns)
        return ok and offered, f"asked in {len(learns)} requests, the skill is offered: {offered}; {output}"

    def in_codex() -> tuple[bool, str]:
        ok, output = run(codex or "", "mcp", "list")
        return ok and "memory-ledger" in output and "enabled" in output, output

    command = (sys.executable, "-m", "ledger")
    steps: dict[str, Callable[[], tuple[bool, str]]] = {
        "plugin validate": lambda: run(claude, "plugin", "validate", PLUGIN),
        "plugin validate --profile directory": lambda: run(
            claude, "plugin", "validate", "--profile", "directory", PLUGIN
        ),
        "memory-ledger install claude": lambda: run(*command, "install", "claude", "--yes"),
        "the plugin is loaded": listed,
        "the first session": lambda: say(TOLD),
        "the second session": lambda: say(ASKED),
        "the second one knows what the first was told": remembered,
        "many unread turns, and the skill learn is asked for": asked_to_learn,
        "memory-ledger uninstall claude": lambda: run(*command, "uninstall", "claude", "--yes"),
    }
    if codex is not None:
        steps |= {
            "codex plugin marketplace add": lambda: run(codex, "plugin", "marketplace", "add", PLUGIN.parent),
            "codex plugin add": lambda: run(codex, "plugin", "add", "memory-ledger@memory-ledger"),
            "Codex has the server of its marketplace": in_codex,
            "codex plugin remove": lambda: run(codex, "plugin", "remove", "memory-ledger@memory-ledger"),
            "memory-ledger install codex": lambda: run(*command, "install", "codex", "--yes"),
            "Codex has the server that was installed": in_codex,
            "memory-ledger uninstall codex": lambda: run(*command, "uninstall", "codex", "--yes"),
        }
    failed = 0
    for name, step in steps.items():
        ok, output = step()
        failed += not ok
        print(f"{'ok    ' if ok else 'FAILED'}  {name}")
        if not ok:
            print(output[-2_000:])
    model.shutdown()
    return int(failed > 0)


if __name__ == "__main__":
    raise SystemExit(main())
