"""The lines of standard input: one that is no message gets an error for its answer, where the SDK leaves it unanswered."""

from __future__ import annotations

import json
from contextlib import suppress
from contextvars import Context
from types import TracebackType
from typing import Protocol, Self

import anyio
from mcp.shared.message import SessionMessage
from mcp.types import PARSE_ERROR, ErrorData, JSONRPCError
from pydantic import ValidationError


class Lines(Protocol):
    """The SDK's stream of what a client sends: messages, and an exception for each line that is none."""

    async def receive(self) -> SessionMessage | Exception: ...

    async def aclose(self) -> None: ...


class Answers(Protocol):
    """The SDK's stream of what a client gets."""

    async def send(self, item: SessionMessage, /) -> None: ...


class AnsweredLines:
    """The messages that a client sends over standard input.

    Args:
        lines: The messages, and an exception for each line that is none.
        answers: The stream that answers go to.
    """

    def __init__(self, lines: Lines, answers: Answers) -> None:
        self._lines, self._answers = lines, answers

    @property
    def last_context(self) -> Context | None:
        """Return the context in which the last message was received."""
        context: Context | None = getattr(self._lines, "last_context", None)
        return context

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message."""
        while isinstance(item := await self._lines.receive(), Exception):
            await self._answers.send(SessionMessage(_refusal(item)))
        return item

    async def aclose(self) -> None:
        """Close the stream."""
        await self._lines.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        await self.aclose()


def _refusal(problem: Exception) -> JSONRPCError:
    """Return the answer to a line; with the id of the request if the line has one, as a call with a lone surrogate has."""
    found = problem.errors()[0] if isinstance(problem, ValidationError) else None
    id: str | int | None = None
    with suppress(ValueError, TypeError, KeyError, RecursionError):
        given = json.loads(found["input"])["id"] if found is not None else None
        if isinstance(given, int) or (isinstance(given, str) and given.encode()):
            id = given
    why = found["msg"] if found is not None else type(problem).__name__
    error = ErrorData(code=PARSE_ERROR, message=f"this line is no message: {why}")
    return JSONRPCError(jsonrpc="2.0", id=id, error=error)
