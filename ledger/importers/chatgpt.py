"""The importer of the kind "chatgpt": ``conversations.json``, or ``conversations-NNN.json``, of the export of ChatGPT.

A conversation is a tree of messages. What counts is the branch that ChatGPT shows, from ``current_node`` to the root. What a
person wrote about himself (``user_editable_context``) comes as statements.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping

from ledger.importers.records import MovedStatement, MovedTurn, Record
from ledger.importers.source import Object, Source
from ledger.importers.statements import statements

CLIENT = "chatgpt"
_CONVERSATIONS = re.compile(r"(.*/)?conversations([-_]?\d+)?\.json", re.I)
_FENCED = re.compile(r"```\n?(.*?)```", re.S)
_ASIDE = {  # the kinds of content that are no words of the conversation
    *(
        "code",
        "execution_output",
        "thoughts",
        "reasoning_recap",
        "tether_browsing_display",
        "tether_quote",
        "system_error",
    ),
    *("model_editable_context", "sonic_webpage", "app_pairing_content", "super_widget", "computer_output"),
}


def recognizes(source: Source) -> bool:
    """Return True if a file of conversations has trees of messages."""
    files = source.files(".json")
    return any(
        b'"mapping"' in source.head(part)
        for part in files
        if not source.is_folder or _CONVERSATIONS.fullmatch(part.name)
    )


def records(source: Source) -> Iterator[Record]:
    """Yield the turns of all conversations, and once each what the person wrote about himself."""
    for part in source.files(".json"):
        if source.is_folder and not _CONVERSATIONS.fullmatch(part.name):
            source.skip("a file of the export without conversations")
        elif _CONVERSATIONS.fullmatch(part.name) or len(source.parts) == 1:
            for conversation in source.elements(part):
                yield from _ConversationTree(source, conversation).records()
        else:
            source.skip("a file of the export without conversations")


class _ConversationTree:
    """A conversation that is being read."""

    def __init__(self, source: Source, conversation: Object) -> None:
        self._source, self._conversation = source, conversation
        mapping = conversation.get("mapping")
        self._nodes: Mapping[str, object] = mapping if isinstance(mapping, dict) else {}
        self._session = str(conversation.get("conversation_id") or conversation.get("id") or "") or None

    def records(self) -> Iterator[Record]:
        asked: Object | None = None
        answers, at, asked_at = list[str](), self._conversation.get("create_time"), object()
        for message in self._branch():
            at = message.get("create_time") or at  # a message without a time has that of the message before it
            role, content = _role(message), message.get("content")
            content = content if isinstance(content, dict) else {}
            if content.get("content_type") == "user_editable_context":
                yield from self._written(content, at)
            elif (text := self._words(message, content)) and role == "user":
                if asked is not None:
                    yield self._turn(asked, answers, asked_at)
                asked, answers, asked_at = {**message, "words": text}, [], at
            elif text and asked is None:
                self._source.skip("an answer without a question")
            elif text:
                answers.append(text)
        if asked is not None:
            yield self._turn(asked, answers, asked_at)

    def _turn(self, asked: Object, answers: list[str], at: object) -> MovedTurn:
        title = self._conversation.get("title")
        return MovedTurn(
            key=str(asked.get("id") or f"chatgpt:{self._session}:{at}"),
            prompt=str(asked["words"]),
            response="\n\n".join(answers),
            session=self._session,
            at=at,
            metadata={"title": title} if isinstance(title, str) and title.strip() else {},
        )

    def _branch(self) -> list[Object]:
        """Return the messages from the root to the current node; a circle of parents is cut where it closes."""
        place, seen, messages = self._leaf(), set[str](), list[Object]()
        while place is not None and place not in seen:
            seen.add(place)
            node = self._nodes.get(place)
            message = node.get("message") if isinstance(node, dict) else None
            if isinstance(message, dict):
                messages.append(message)
            parent = node.get("parent") if isinstance(node, dict) else None
            place = parent if isinstance(parent, str) else None
        left = sum(1 for node in self._nodes.values() if isinstance(node, dict) and node.get("message")) - len(messages)
        if left > 0:
            self._source.skip("a message of a branch that was left", left)
        return messages[::-1]

    def _leaf(self) -> str | None:
        """Return the current node, or without one the last message of the conversation."""
        if isinstance(current := self._conversation.get("current_node"), str) and current in self._nodes:
            return current
        return max(self._nodes, key=self._time_of, default=None)

    def _time_of(self, id: str) -> float:
        node = self._nodes[id]
        message = node.get("message") if isinstance(node, dict) else None
        time = message.get("create_time") if isinstance(message, dict) else None
        return float(time) if isinstance(time, int | float) else 0.0

    def _words(self, message: Object, content: Object) -> str:
        """Return the words that a person or ChatGPT said to the other; "" for what was hidden, or said to a tool."""
        metadata, kind, role = message.get("metadata"), content.get("content_type"), _role(message)
        if isinstance(metadata, dict) and metadata.get("is_visually_hidden_from_conversation"):
            self._source.skip("a hidden message")
        elif role in ("system", "tool") or message.get("recipient", "all") != "all" or kind in _ASIDE:
            self._source.skip("what a tool or the system said, or was told")
        elif role not in ("user", "assistant"):
            self._source.meet(f"role {role}")
        elif kind not in ("text", "multimodal_text"):
            self._source.meet(f"content {kind}")
        else:
            parts = content.get("parts")
            texts = [_text(part) for part in parts] if isinstance(parts, list) else []
            return "\n\n".join(filter(str.strip, texts))
        return ""

    def _written(self, content: Object, at: object) -> Iterator[MovedStatement]:
        """Yield what the person wrote about himself, which every conversation repeats."""
        for field, kind in (("user_profile", "user_profile"), ("user_instructions", "rule")):
            text = content.get(field)
            if not isinstance(text, str) or not text.strip():
                continue
            fenced = _FENCED.search(text)
            for stated in statements(fenced[1] if fenced else text):
                digest = hashlib.sha256(f"{field}: {stated.text}".encode("utf-8", "replace")).hexdigest()
                yield MovedStatement(key=f"chatgpt:{digest[:32]}", content=stated.text, kind=kind, at=at)


def _role(message: Object) -> object:
    author = message.get("author")
    return author.get("role") if isinstance(author, dict) else None


def _text(part: object) -> str:
    """Return the text of a part of a message; of speech its transcription."""
    if isinstance(part, dict):
        part = part.get("text") if part.get("content_type") in ("audio_transcription", "text") else ""
    return part if isinstance(part, str) else ""
