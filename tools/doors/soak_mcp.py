"""Many MCP clients over stdio on one file: ``python tools/doors/soak_mcp.py [--clients 20] [--seconds 60]``.

Each client has a server process of its own and writes and reads without a pause. At the end every answered write has to be in
the ledger, and the ledger has to verify.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
HERE = str(Path(__file__).resolve().parent)
if HERE in sys.path:
    sys.path.remove(HERE)
sys.path.insert(0, str(ROOT))

from mcp import Client, StdioServerParameters  # noqa: E402

from ledger import Ledger  # noqa: E402

PROTOCOLS = ("2026-07-28", "legacy")
SHOWN = 5  # errors that are printed


@dataclass
class SoakTally:
    """The calls of all clients by tool, the errors, and the ids and sessions that an answer promised."""

    calls: Counter[str] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)
    remembered: dict[str, str] = field(default_factory=dict)
    forgotten: set[str] = field(default_factory=set)
    messages: Counter[str] = field(default_factory=Counter)


async def soak(path: Path, clients: int, seconds: float, seed: int = 1) -> SoakTally:
    """Run the clients for some seconds after the last of them is connected."""
    tally, connected = SoakTally(), asyncio.Barrier(clients)
    await asyncio.gather(*(_client(path, number, seconds, seed, tally, connected) for number in range(clients)))
    return tally


async def _client(
    path: Path, number: int, seconds: float, seed: int, tally: SoakTally, barrier: asyncio.Barrier
) -> None:
    command = ["-m", "ledger", "mcp", "--db", str(path), "--user", f"user{number % 3}", "--project", "soak"]
    server = StdioServerParameters(command=sys.executable, args=command, cwd=ROOT, env=dict(os.environ))
    chance, own, session = random.Random(seed * 1_000 + number), list[str](), f"session {number}"
    async with Client(server, mode=PROTOCOLS[number % 2]) as client:
        await barrier.wait()
        end, round = time.monotonic() + seconds, 0
        while time.monotonic() < end:
            round += 1
            tool, arguments = _next_call(chance, number, round, own, session)
            tally.calls[tool] += 1
            try:
                result = await client.call_tool(tool, arguments)
            except Exception as error:
                tally.errors.append(f"{tool}: {type(error).__name__}: {error}")
                continue
            if result.is_error:
                tally.errors.append(f"{tool}: {getattr(result.content[0], 'text', '')}")
            else:
                _note(tally, own, tool, arguments, result.structured_content or {})


def _next_call(
    chance: random.Random, number: int, round: int, own: list[str], session: str
) -> tuple[str, dict[str, Any]]:
    tool = chance.choice(("remember", "remember", "context", "recall", "recall", "add", "why", "forget", "sessions"))
    if tool in ("why", "forget") and not own:
        tool = "remember"
    match tool:
        case "remember":
            return tool, {"content": f"Client {number} saw the heron number {round} at the river."}
        case "add":
            return tool, {
                "messages": [{"role": "user", "content": f"Message {round} of {session}."}],
                "session": session,
            }
        case "why":
            return tool, {"id": chance.choice(own)}
        case "forget":
            return tool, {"id": own.pop(chance.randrange(len(own))), "reason": "the soak takes it back"}
        case "sessions":
            return tool, {}
        case _:
            return tool, {"question": f"heron number {chance.randrange(round + 1)}"}


def _note(tally: SoakTally, own: list[str], tool: str, arguments: dict[str, Any], answer: dict[str, Any]) -> None:
    if tool == "remember":
        tally.remembered[answer["id"]] = arguments["content"]
        own.append(answer["id"])
    elif tool == "forget":
        tally.forgotten.add(answer["id"])
    elif tool == "add":
        tally.messages[answer["session"]] += answer["messages"]


def lost(path: Path, tally: SoakTally) -> list[str]:
    """Return what an answer promised and the ledger has not."""
    problems = list[str]()
    with Ledger.open(path) as ledger:
        users = [ledger.bind(user=f"user{number}") for number in range(3)]
        memories = {memory.id: memory for user in users for memory in user.memories.list(limit=1_000).all()}
        memories |= {m.id: m for u in users for m in u.memories.list(statuses=("retracted",), limit=1_000).all()}
        for id, content in tally.remembered.items():
            status = "retracted" if id in tally.forgotten else "active"
            if id not in memories or (memories[id].content, memories[id].status) != (content, status):
                problems.append(f"{id} is not {status} with {content!r}")
        kept = {info.name or info.id: info.messages for user in users for info in user.sessions.list(limit=1_000)}
        problems += [
            f"{name} has {kept.get(name)} of {n} messages" for name, n in tally.messages.items() if kept.get(name) != n
        ]
        if not ledger.proof.verify().ok:
            problems.append("the ledger does not verify")
    return problems


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="tools/doors/soak_mcp.py", description=__doc__)
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "memory.db"
        tally = asyncio.run(soak(path, options.clients, options.seconds))
        problems = lost(path, tally)
    calls = ", ".join(f"{tool} {count:,}" for tool, count in sorted(tally.calls.items()))
    print(f"{options.clients} clients, {options.seconds:g} s: {tally.calls.total():,} calls ({calls})")
    print(f"{len(tally.errors)} errors, {len(problems)} of {len(tally.remembered):,} memories or sessions lost")
    for problem in [*tally.errors[:SHOWN], *problems[:SHOWN]]:
        print(f"  {problem}")
    return int(bool(tally.errors or problems))


if __name__ == "__main__":
    raise SystemExit(main())
