"""The importer of the kind "picoclaw": the SQLite database of seahorse, with conversations, messages and summaries.

The window of a conversation is as it is there: summaries stand for their messages, and condensed summaries for summaries. A
message gets a new id there when the history is read again, so the key of a message is made of what it says. A summary that only
cuts its messages off is left out, and its messages stay in the window.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import cast

from ledger.importers.records import MovedMessage, MovedSummary, Record
from ledger.importers.source import (
    DATABASES,
    NOTHING,
    Object,
    Part,
    Source,
    clean,
    decoded,
    json_list,
    json_object,
    number_of,
    pairs,
    text_of,
    utc,
)
from ledger.types import Role

CLIENT = "picoclaw"
_ROLES = ("user", "assistant", "system", "developer", "tool")
_TABLES = frozenset(
    ("conversations", "messages", "message_parts", "summaries", "summary_parents", "summary_messages", "context_items")
)
_CUT = re.compile(r"\[Truncated from \d+ messages?\]\s*\Z")
_FIELDS = ("type", "text", "name", "arguments", "tool_call_id", "media_uri", "mime_type")
_MESSAGES = f"""
SELECT m.*, (
    SELECT json_group_array(json_object({", ".join(f"'{name}', p.{name}" for name in _FIELDS)})) FROM (
        SELECT * FROM message_parts WHERE message_id = m.message_id ORDER BY ordinal, part_id
    ) AS p
) AS parts FROM messages AS m WHERE m.conversation_id = ? ORDER BY m.message_id
"""
_SUMMARIES = """
SELECT s.*, (
    SELECT json_group_array(message_id) FROM (
        SELECT message_id FROM summary_messages WHERE summary_id = s.summary_id ORDER BY ordinal
    )
) AS messages, (
    SELECT json_group_array(parent_summary_id) FROM summary_parents WHERE summary_id = s.summary_id
) AS parents FROM summaries AS s WHERE s.conversation_id = ? ORDER BY s.depth, s.created_at, s.rowid
"""


def recognizes(source: Source) -> bool:
    """Return True for a database of seahorse."""
    return any(_is_seahorse(source, part) for part in source.files(*DATABASES))


def records(source: Source) -> Iterator[Record]:
    """Yield the messages of each conversation, and then its summaries, those of messages before those of summaries."""
    for part in source.files(*DATABASES):
        if not _is_seahorse(source, part):
            source.skip("a file that is no database of picoclaw")
            continue
        for conversation in source.select(part, "SELECT * FROM conversations ORDER BY conversation_id"):
            yield from _PicoclawSession(source, part, conversation).records()
        source.meet_tables(part, _TABLES)
        source.read_bytes += part.size


def _is_seahorse(source: Source, part: Part) -> bool:
    has_summaries = {"summary_id", "conversation_id", "kind", "depth"} <= source.columns(part, "summaries")
    return has_summaries and "session_key" in source.columns(part, "conversations")


class _PicoclawSession:
    """A conversation that is being read, with the keys of its messages."""

    def __init__(self, source: Source, part: Part, row: Object) -> None:
        self._source, self._part, self._row = source, part, row
        self._name = clean(text_of(row.get("session_key")))
        self._times = Counter[str]()
        self._keys = dict[object, str]()

    def records(self) -> Iterator[Record]:
        if not self._name:
            self._source.skip("a conversation without a name")
            return
        id = self._row.get("conversation_id")
        for row in self._source.select(self._part, _MESSAGES, id):
            yield from self._message(row)
        for row in self._source.select(self._part, _SUMMARIES, id):
            yield from self._summary(row)

    def _message(self, row: Object) -> Iterator[MovedMessage]:
        role, content = row.get("role"), str(row.get("content") or "")
        parts = tuple(part for each in json_list(row.get("parts")) if (part := self._part_of(each)) is not None)
        if role not in _ROLES:
            self._source.meet(f"role {role}")
            return
        if not content.strip() and not parts:
            self._source.skip("a message that says nothing")
            return
        said = json.dumps([role, content, parts], sort_keys=True, default=str)
        place = f"{self._name}:{self._row.get('created_at')}:{_digest(said)}"
        self._times[place] += 1
        key = f"picoclaw:{place}:{self._times[place]}"
        self._keys[row.get("message_id")] = key
        reasoning, tokens = str(row.get("reasoning_content") or ""), number_of(row.get("token_count"))
        thought = ({"type": "reasoning", "text": clean(reasoning)},) if reasoning.strip() else ()
        yield MovedMessage(
            key=key,
            session=self._name,
            role=cast("Role", role),
            content="" if parts else content,  # which is made of the parts there
            parts=(*thought, *parts),
            token_count=int(tokens) if tokens is not None and tokens > 0 else None,
            model=clean(text_of(row.get("model_name"))),
            at=utc(row.get("created_at")),
            metadata=pairs(json_object(row.get("metadata"))),
        )

    def _part_of(self, part: object) -> dict[str, object] | None:
        """Return a part as messages have it; None for one that says nothing."""
        fields = {name: clean(str(value)) for name, value in json_object(part).items() if value not in (None, "")}
        kind, text = fields.get("type"), fields.get("text", "")
        if kind == "text":
            return {"type": "text", "text": text} if text.strip() else None
        if kind == "tool_use":
            arguments = decoded(fields.get("arguments", "{}").encode())
            given = fields.get("arguments", "") if arguments is NOTHING else arguments
            return {
                "type": "tool_use",
                "id": fields.get("tool_call_id", ""),
                "name": fields.get("name", ""),
                "arguments": given,
            }
        if kind == "tool_result":
            return {"type": "tool_result", "id": fields.get("tool_call_id", ""), "text": text}
        if kind == "media":
            return {"type": "media", "uri": fields.get("media_uri", ""), "mime": fields.get("mime_type", "")}
        self._source.meet(f"part {kind}")
        return None

    def _summary(self, row: Object) -> Iterator[MovedSummary]:
        content, tokens = row.get("content"), number_of(row.get("token_count"))
        if not isinstance(content, str) or not content.strip():
            self._source.skip("a summary without words")
            return
        if _CUT.search(content):
            self._source.skip("a summary that only cuts its messages off")
            return
        messages = [self._keys.get(id, "") for id in json_list(row.get("messages"))]
        yield MovedSummary(
            key=_key(row.get("summary_id")),
            session=self._name,
            content=content,
            sources=tuple(messages or map(_key, json_list(row.get("parents")))),
            token_count=int(tokens) if tokens is not None and tokens > 0 else None,
            model=clean(text_of(row.get("model"))),
            at=utc(row.get("created_at")),
        )


def _key(summary_id: object) -> str:
    return f"picoclaw:{summary_id}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]
