"""The ``Session`` of the OpenAI Agents SDK over a session of a ledger.

Needs the extra ``openai``. An item is a message: its text is found, shown in windows and extracted from as that of any message,
and the item itself is the message's ``raw``, with marks in the place of secrets.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast, get_args

from ledger.doors.given import bound, to_the_end
from ledger.doors.transcribing import Item, check_objects, extend
from ledger.types import Role

try:
    from agents import SessionSettings, TResponseInputItem
    from agents.memory.session_settings import coerce_session_settings, resolve_session_limit
except ImportError as error:
    raise ImportError('ledger.doors.openai needs the OpenAI Agents SDK: pip install "belief-ledger[openai]"') from error

if TYPE_CHECKING:
    from ledger import Ledger, Message, Session

PAGE = 1_000
_ROLES = get_args(Role)


class LedgerSession:
    """A session of a ledger's user as a ``Session`` of the OpenAI Agents SDK: ``Runner.run(agent, …, session=…)``.

    The ledger names the user, and through which channel the texts come: ``ledger.bind(user=…, channel=…)``. The ledger stays the
    caller's: nothing here closes it.

    Args:
        ledger: An open ledger.
        session_id: The name of the session, as in ``ledger.session(session_id)``.
        project: The project of a session that begins here.
        session_settings: The SDK's settings: ``limit`` is the number of items that ``get_items`` returns without a limit.

    Raises:
        TypeError: The settings have an unknown field, or the ledger is an ``AsyncLedger`` or a path.
    """

    session_settings: SessionSettings | None

    def __init__(
        self,
        ledger: Ledger,
        session_id: str,
        *,
        project: str | None = None,
        session_settings: SessionSettings | dict[str, object] | None = None,
    ) -> None:
        self.session_id = session_id
        self.session_settings = coerce_session_settings(session_settings) if session_settings else SessionSettings()
        self._ledger, self._project = bound(ledger, self, client="openai-agents"), project

    # --- the contract --------------------------------------------------------------------------------------------

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Return the newest items in the order in which they were added; all of them without a limit or below 0."""
        most = resolve_session_limit(limit, self.session_settings)
        return await asyncio.to_thread(self._items, most)

    async def add_items(self, items: Sequence[TResponseInputItem]) -> None:
        """Add items in one commit.

        Raises:
            RejectedError: An item is no JSON object, or has a secret that the policy refuses; no item was added.
        """
        given = [cast("Item", item) for item in items]
        check_objects(given, "item")
        if given:
            await to_the_end(lambda: self._add(given))

    async def pop_item(self) -> TResponseInputItem | None:
        """Remove the newest item and return it; None if there is none. An undo brings the item back."""
        return await to_the_end(self._pop)

    async def clear_session(self) -> None:
        """Hide every item; they stay in the log, and an undo brings them back."""
        await to_the_end(lambda: self._session.clear())

    # --- on a thread ---------------------------------------------------------------------------------------------

    @property
    def _session(self) -> Session:
        return self._ledger.session(self.session_id, project=self._project)

    def _items(self, most: int | None) -> list[TResponseInputItem]:
        if most is None or most < 0:
            return [_item(message) for message in self._session.messages(limit=PAGE, oldest_first=True).all()]
        newest: list[Message] = []
        after = None
        while len(newest) < most:
            page = self._session.messages(limit=min(PAGE, most - len(newest)), after=after)
            newest[:0], after = page, page.next
            if after is None:
                break
        return [_item(message) for message in newest]

    def _add(self, items: Sequence[Item]) -> None:
        with self._ledger.batch(whole=True):
            extend(self._session, items, worded=_message, bare=_bare)

    def _pop(self) -> TResponseInputItem | None:
        with self._ledger.batch(whole=True):
            newest = self._session.messages(limit=1)
            if not newest:
                return None
            self._session.remove_last()
            return _item(newest[0])


def _bare(item: Item) -> dict[str, object]:
    return {"role": "assistant", "raw": item}


def _message(item: Item) -> dict[str, object]:
    """Return an item as a message with its words; an item without words is a message of ``raw`` alone."""
    kind, role = item.get("type"), item.get("role")
    call = {"id": item.get("call_id"), "type": "function"}
    if role in _ROLES and role != "tool":
        return {"role": role, "content": _text(item.get("content")), "raw": item}
    if kind == "function_call":
        function = {"name": item.get("name"), "arguments": item.get("arguments")}
        return {"role": "assistant", "tool_calls": [call | {"function": function}], "raw": item}
    if kind == "function_call_output":
        output = _text(item.get("output"))
        return {"role": "tool", "tool_call_id": item.get("call_id"), "content": output, "raw": item}
    return _bare(item)


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = [part.get("text") for part in parts if isinstance(part, Mapping)]
    return "\n".join(text for text in texts if isinstance(text, str))


def _item(message: Message) -> TResponseInputItem:
    """Return the item of a message; a message that came another way, or was erased, becomes an item of its role and text.

    The result of a tool without its item is given as the assistant's words, because it was not the user who said it.
    """
    if message.raw is not None:
        return cast("TResponseInputItem", message.raw)
    role = "assistant" if message.role == "tool" else message.role
    content = message.text if message.content is not None else message.as_chat()["content"]
    return cast("TResponseInputItem", {"role": role, "content": content})
