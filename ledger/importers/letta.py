"""The importer of the kind "letta": the agent files of Letta (``.af``), with the blocks of their memory and the messages.

A file has one agent with its blocks, or a list of agents and a list of blocks. The ids in a file are numbers of the file, so a
message is known by its time and its words, and a statement of a block by the label of the block and its words. A prompt may lie
in an object of JSON, and an answer in a call of ``send_message``; the text beside such a call is a thought.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from ledger.doors.agent_transcripts import typed_words
from ledger.importers.records import MovedStatement, MovedTurn, Record
from ledger.importers.source import Object, Part, Source, json_object, pairs, text_of
from ledger.importers.statements import statements

CLIENT = "letta"
SEND = "send_message"
_KEYS = frozenset(
    ("agents", "blocks", "groups", "files", "sources", "tools", "mcp_servers", "skills", "metadata", "created_at")
)
_BACKGROUND = ("sleeptime", "voice_sleeptime")  # the beginnings of the types of agents that no person talks to
_KINDS = {"preference": "preference", "rule": "rule", "goal": "goal", "instruction": "rule"}


def recognizes(source: Source) -> bool:
    """Return True if a file has agents as Letta writes them."""
    for part in source.files(".af", ".json"):
        head = source.head(part).replace(b'\\"', b'"')  # some files are a text of JSON that holds the JSON
        if b'"agents"' in head and (b'"block_ids"' in head or b'"agent_type"' in head):
            return True
        if b'"core_memory"' in head and b'"agent_type"' in head:
            return True
    return False


def records(source: Source) -> Iterator[Record]:
    """Yield the turns of all agents, and then the statements of their blocks as candidates."""
    for part in source.files(".af", ".json"):
        for found in map(json_object, source.json(part)):
            if "agents" not in found and "core_memory" not in found:
                source.skip("a file without an agent")
                continue
            is_list = "agents" in found
            agents = _objects(source, part, found["agents"]) if is_list else [found]
            for agent in agents:
                if text_of(agent.get("agent_type")).startswith(_BACKGROUND):
                    source.skip("the messages of an agent that works in the background")
                else:
                    yield from _AgentMessages(source, agent).turns()
            for block in _objects(source, part, found.get("blocks") if is_list else found.get("core_memory")):
                yield from _block(source, block, found.get("created_at"))
            for key in sorted(found.keys() - _KEYS) if is_list else ():
                source.meet(key)


def _objects(source: Source, part: Part, value: object) -> list[Object]:
    entries = value if isinstance(value, list) else []
    objects = [entry for entry in entries if isinstance(entry, dict)]
    if len(objects) < len(entries) or not isinstance(value, (list, type(None))):
        source.skip("an agent, a block or a message that is no JSON object", max(1, len(entries) - len(objects)))
        source.note(part.name, "it has entries that are no JSON objects")
    return objects


def _block(source: Source, block: Object, exported_at: object) -> Iterator[MovedStatement]:
    label, value = text_of(block.get("label")), block.get("value")
    if not label or not isinstance(value, str) or not value.strip():
        source.skip("a block without a label or words")
    elif label.rpartition("/")[2] == "persona":
        source.skip("the block persona, which the agent says of itself")
    elif block.get("read_only") or block.get("hidden"):
        source.skip("a block that only programs write")
    else:
        at = block.get("updated_at") or block.get("created_at") or exported_at
        kind = next((kind for word, kind in _KINDS.items() if word in label.casefold()), "")
        for stated in statements(value):
            yield MovedStatement(
                key=f"letta:block:{_digest(f'{label}: {stated.text}')}",
                content=stated.text,
                kind=kind or stated.kind,
                status="candidate",
                at=stated.date or at,
                channel="file",
                metadata=pairs({"letta": label, "heading": stated.heading}),
            )


class _AgentMessages:
    """The messages of an agent, which become turns: a prompt with the answers until the next one."""

    def __init__(self, source: Source, agent: Object) -> None:
        self._source, self._agent = source, agent
        messages = agent.get("messages")
        self._messages = [entry for entry in messages if isinstance(entry, dict)] if isinstance(messages, list) else []
        self._sends = any(name == SEND for message in self._messages for name, _ in _calls(message))

    def turns(self) -> Iterator[MovedTurn]:
        """Yield the turns, oldest first."""
        prompt: Object | None = None
        words, answers = "", list[str]()
        for message in self._messages:
            role = message.get("role")
            if role == "user":
                if not (said := self._asked(message)):
                    continue
                if prompt is not None:
                    yield self._turn(prompt, words, answers)
                prompt, words, answers = message, said, []
            elif role == "assistant":
                said = self._answered(message)
                if said and prompt is None:
                    self._source.skip("an answer without a prompt")
                elif said:
                    answers.append(said)
            elif role in ("system", "tool", "approval", "summary"):
                self._source.skip("what a tool or the system said, or was told")
            else:
                self._source.meet(f"role {role}")
        if prompt is not None:
            yield self._turn(prompt, words, answers)

    def _asked(self, message: Object) -> str:
        """Return the words of a person; "" for what a program said in his place."""
        text = _words(message)
        packed = json_object(text) if text.startswith("{") else {}
        if packed and packed.get("type") not in (None, "user_message"):
            self._source.skip("what a program said in the place of the user")
            return ""
        if not (said := typed_words(str(packed.get("message", text)) if packed else text)):
            self._source.skip("a turn without words of a person")
        return said

    def _answered(self, message: Object) -> str:
        """Return the words of the agent to the person, without its thoughts."""
        if not self._sends:
            return _words(message)
        sent = [text_of(json_object(arguments).get("message")) for name, arguments in _calls(message) if name == SEND]
        return "\n\n".join(filter(None, sent))

    def _turn(self, message: Object, words: str, answers: list[str]) -> MovedTurn:
        at, name = message.get("created_at"), text_of(self._agent.get("name"))
        return MovedTurn(
            key=f"letta:turn:{at}:{_digest(words)}",
            prompt=words,
            response="\n\n".join(answers),
            session=f"letta {name}".strip(),
            at=at,
            metadata=pairs({"agent": name}),
        )


def _words(message: Object) -> str:
    """Return the text of a message: a text, or the parts of it that are texts."""
    content = message.get("content")
    if isinstance(content, str):
        return content.strip()
    parts = content if isinstance(content, list) else []
    texts = [
        text_of(part.get("text")) for part in parts if isinstance(part, dict) and part.get("type", "text") == "text"
    ]
    return "\n\n".join(filter(None, texts))


def _calls(message: Object) -> Iterator[tuple[str, object]]:
    """Yield the name and the arguments of each call of a tool."""
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else []:
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):
            yield text_of(function.get("name")), function.get("arguments")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:32]
