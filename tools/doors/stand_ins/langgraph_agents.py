"""Agents of LangGraph and deepagents on a ledger, with a model that follows a script, for ``dev.py doors langgraph-agents``."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Annotated, Any

import pytest
from deepagents import create_deep_agent  # type: ignore[import-not-found]
from deepagents.backends import StoreBackend  # type: ignore[import-not-found]
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.prebuilt import InjectedStore, create_react_agent  # type: ignore[import-untyped]
from langgraph.store.base import BaseStore

from ledger import Ledger
from ledger.doors.langgraph import LedgerStore

FACTS, FILES = ("ada", "facts"), ("ada", "files")


class ScriptedModel(GenericFakeChatModel):
    """A model that says what its script says, whatever it is asked."""

    def bind_tools(self, tools: Any, **_: Any) -> ScriptedModel:
        return self


def script(*calls: dict[str, Any]) -> ScriptedModel:
    """Return a model that makes tool calls one after another, and then says "Done."."""
    messages = [
        AIMessage("", tool_calls=[{"name": call.pop("tool"), "args": call, "id": f"call_{number}"}])
        for number, call in enumerate(calls)
    ]
    return ScriptedModel(messages=iter([*messages, AIMessage("Done.")]))


def asked(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    with Ledger.temporary(user="ada") as ledger:
        yield ledger


@tool
def save(text: str, store: Annotated[BaseStore, InjectedStore()]) -> str:
    """Save what Ada drinks."""
    store.put(FACTS, "drink", {"text": text})
    return "saved"


@tool
async def look_up(question: str, store: Annotated[BaseStore, InjectedStore()]) -> str:
    """Look up what is known."""
    return "; ".join(item.value["text"] for item in await store.asearch(("ada",), query=question, limit=1))


def test_a_react_agent_saves_and_looks_up(ledger: Ledger) -> None:
    model = script({"tool": "save", "text": "Ada drinks coffee."}, {"tool": "save", "text": "Ada drinks tea."})
    create_react_agent(model, [save], store=LedgerStore(ledger)).invoke(asked("I drink tea now."))
    agent = create_react_agent(
        script({"tool": "look_up", "question": "What does Ada drink?"}), [look_up], store=LedgerStore(ledger)
    )
    answer = asyncio.run(agent.ainvoke(asked("What do I drink?")))
    assert "Ada drinks tea." in [message.content for message in answer["messages"]]
    assert len(ledger.history.events(ledger.values.get(FACTS, "drink").id)) == 2
    ledger.undo(ledger.position)
    assert ledger.values.get(FACTS, "drink").value == {"text": "Ada drinks coffee."}


def test_the_files_of_deepagents_are_values(ledger: Ledger) -> None:
    files = StoreBackend(store=LedgerStore(ledger), namespace=lambda _: FILES)
    assert files.write("/notes/AGENTS.md", "Ada drinks coffee.\nShe is in Porto.\n").error is None
    assert files.edit("/notes/AGENTS.md", "coffee", "tea").error is None
    assert files.read("/notes/AGENTS.md").file_data["content"].startswith("Ada drinks tea.\n")
    assert [entry["path"] for entry in files.ls("/").entries] == ["/notes/"]
    assert [match["line"] for match in files.grep("tea").matches] == [1]
    assert [entry["path"] for entry in files.glob("**/*.md").matches] == ["/notes/AGENTS.md"]
    assert asyncio.run(files.aread("/notes/AGENTS.md")).error is None
    ledger.undo(ledger.position)
    assert files.read("/notes/AGENTS.md").file_data["content"].startswith("Ada drinks coffee.\n")


def test_a_deep_agent_writes_its_files_into_the_ledger(ledger: Ledger) -> None:
    agent = create_deep_agent(
        model=script(
            {"tool": "write_file", "file_path": "/plan.md", "content": "1. Ask Ben\n"},
            {"tool": "edit_file", "file_path": "/plan.md", "old_string": "Ben", "new_string": "Eva"},
        ),
        backend=StoreBackend(namespace=lambda _: FILES),
        store=LedgerStore(ledger),
    )
    agent.invoke(asked("Plan the trip."))
    value = ledger.values.get(FILES, "/plan.md")
    assert value.value["content"] == "1. Ask Eva\n"
    assert len(ledger.history.events(value.id)) == 2
