"""A client of the Model Context Protocol for tests: the SDK's own, in this process or over stdio."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters
from mcp.types import CallToolResult, ElicitResult, Implementation
from places import ROOT

from ledger import AsyncLedger, Ledger
from ledger.doors.mcp.server import make_server

STATELESS, HANDSHAKE = "2026-07-28", "legacy"
PROTOCOLS = (STATELESS, HANDSHAKE)  # the second speaks 2025-11-25


class McpCaller:
    """A connected client; ``questions`` are those that the server put to the person."""

    def __init__(self, client: Client, questions: list[str]) -> None:
        self.client, self.questions = client, questions

    async def call(self, tool: str, **arguments: object) -> Any:
        """Return the data of a tool's answer."""
        result = await self.result(tool, **arguments)
        assert not result.is_error, text(result)
        return result.structured_content

    async def text(self, tool: str, **arguments: object) -> str:
        result = await self.result(tool, **arguments)
        assert not result.is_error, text(result)
        return text(result)

    async def error(self, tool: str, **arguments: object) -> str:
        result = await self.result(tool, **arguments)
        assert result.is_error, text(result)
        return text(result)

    async def result(self, tool: str, **arguments: object) -> CallToolResult:
        return await self.client.call_tool(tool, arguments)

    async def tools(self) -> dict[str, Any]:
        return {tool.name: tool for tool in (await self.client.list_tools()).tools}


def project_of(folder: Path) -> str:
    """Return the name of the project that a new ledger takes for a folder."""
    with Ledger.temporary() as ledger:
        return ledger.projects.of(folder).name or ""


def text(result: CallToolResult) -> str:
    return "".join(getattr(block, "text", "") for block in result.content)


def person(answer: Any, questions: list[str]) -> Any:
    """Return a person behind the client who says "yes", "no" or nothing ("decline"); None for a client that cannot ask."""
    if answer is None or callable(answer):
        return answer

    async def ask(context: object, params: Any) -> ElicitResult:
        questions.append(params.message)
        if answer == "decline":
            return ElicitResult(action="decline")
        return ElicitResult(action="accept", content={"consent": answer == "yes"})

    return ask


@asynccontextmanager
async def connected(
    path: Path,
    protocol: str = STATELESS,
    *,
    answer: Any = None,
    name: str = "tester",
    user: str = "ada",
    clock: Callable[[], datetime] | None = None,
    **options: Any,
) -> AsyncIterator[McpCaller]:
    """Yield a client of a server in this process."""
    questions: list[str] = []
    opening = AsyncLedger.open(path, user=user, readonly=options.get("read_only", False), clock=clock)
    async with await opening as ledger:
        server = make_server(ledger, **{"project": "web", **options})
        info = Implementation(name=name, version="1")
        ask = person(answer, questions)
        async with Client(server, mode=protocol, client_info=info, elicitation_callback=ask) as client:
            yield McpCaller(client, questions)


@asynccontextmanager
async def over_stdio(path: Path, protocol: str = STATELESS, *options: str) -> AsyncIterator[McpCaller]:
    """Yield a client of ``memory-ledger mcp`` in a process of its own."""
    command = ["-m", "ledger", "mcp", "--db", str(path), *options]
    server = StdioServerParameters(command=sys.executable, args=command, cwd=ROOT)
    async with Client(server, mode=protocol) as client:
        yield McpCaller(client, [])


def played(
    story: Callable[[McpCaller], Awaitable[None]], path: Path, protocol: str = STATELESS, **options: Any
) -> None:
    """Play a story with a client of a server in this process."""

    async def play() -> None:
        async with connected(path, protocol, **options) as caller:
            await story(caller)

    asyncio.run(play())


def opened(path: Path, user: str = "ada", **options: Any) -> Ledger:
    return Ledger.open(path, user=user, **options)
