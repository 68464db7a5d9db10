"""The contracts that the Claude Agent SDK checks of a ``SessionStore``, and its own readers of such a store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from claude_agent_sdk import fork_session_via_store, get_session_messages_from_store, list_sessions_from_store
from claude_agent_sdk.testing import run_session_store_conformance

from ledger import Ledger
from ledger.doors.claude import LedgerSessionStore

WORDS = {"message": {"role": "user", "content": "Who sails on Monday?"}, "timestamp": "2026-03-02T09:00:00Z"}


@pytest.fixture
def made() -> Iterator[Callable[[], LedgerSessionStore]]:
    with ExitStack() as ledgers:
        yield lambda: LedgerSessionStore(ledgers.enter_context(Ledger.temporary()))


async def test_the_contracts_of_a_session_store(made: Callable[[], LedgerSessionStore]) -> None:
    stores: list[LedgerSessionStore] = []

    def fresh() -> LedgerSessionStore:
        stores.append(made())
        return stores[-1]

    await run_session_store_conformance(fresh)
    assert len(stores) == 15  # one to look at the methods, and one for each contract: none was left out


async def test_the_readers_of_the_sdk_find_what_was_appended(made: Callable[[], LedgerSessionStore]) -> None:
    from claude_agent_sdk import project_key_for_directory

    store, id = made(), "0b6f7a34-5a1c-4c64-9d3c-8f5b2b6d0a11"
    directory = "/harbour"
    key: Any = {"project_key": project_key_for_directory(directory), "session_id": id}
    uuid = "4ad0f8a2-0c5f-4b57-8d2c-31a0f4f2a5b3"
    entry: Any = {"type": "user", "uuid": uuid, "parentUuid": None, "sessionId": id, "cwd": directory, **WORDS}
    await store.append(key, [entry])
    (info,) = await list_sessions_from_store(store, directory=directory)
    assert (info.session_id, info.first_prompt) == (id, "Who sails on Monday?")
    (message,) = await get_session_messages_from_store(store, id, directory=directory)
    assert message.message == WORDS["message"]
    forked = await fork_session_via_store(store, id, directory=directory)
    assert {item.session_id for item in await list_sessions_from_store(store, directory=directory)} == {
        id,
        forked.session_id,
    }


async def test_a_transcript_whose_first_turn_has_a_key_in_it_is_resumed_with_that_turn(
    made: Callable[[], LedgerSessionStore],
) -> None:
    from claude_agent_sdk import project_key_for_directory

    store, id, secret = made(), "0b6f7a34-5a1c-4c64-9d3c-8f5b2b6d0a11", "sk-ant-api03-" + "aB3" * 31 + "AA"
    directory = "/harbour"
    key: Any = {"project_key": project_key_for_directory(directory), "session_id": id}
    words = {"role": "user", "content": f"My key is {secret}."}
    entry: Any = {"type": "user", "uuid": "4ad0f8a2-0c5f-4b57-8d2c-31a0f4f2a5b3", "parentUuid": None, "sessionId": id}
    await store.append(key, [{**entry, "cwd": directory, "message": words, "timestamp": "2026-03-02T09:00:00Z"}])
    (info,) = await list_sessions_from_store(store, directory=directory)
    assert (info.session_id, info.first_prompt) == (id, "My key is [redacted:anthropic_key].")
    (message,) = await get_session_messages_from_store(store, id, directory=directory)
    assert message.message == {"role": "user", "content": "My key is [redacted:anthropic_key]."}
