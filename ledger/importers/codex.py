"""The importer of the kind "codex": the rollouts of Codex, ``sessions/YYYY/MM/DD/rollout-*.jsonl``.

A rollout says a text several times: as an item of a turn, which has an id and which the hooks read, as an event, and as an item
for the model. The item with an id counts, so that a turn of the hooks is known, and an event with the same text is the same
turn. Where a rollout has no such item, as before Codex 0.17x, the event counts, with the number of the turn in its key. The
items for the model count in rollouts that have neither.
"""

from __future__ import annotations

from collections.abc import Iterator

from ledger.doors.agent_transcripts import Entry
from ledger.importers.agent_transcript import AgentTranscript, heads
from ledger.importers.records import MovedTurn
from ledger.importers.source import Object, Part, Source

CLIENT = "codex"
TYPES = ("session_meta", "response_item", "event_msg", "turn_context", "compacted", "ghost_snapshot")
EVENTS = (  # the beginnings of the names of events that hold no words of a conversation
    *(
        "token_count",
        "task_",
        "turn_",
        "agent_reasoning",
        "exec_",
        "mcp_",
        "patch_",
        "web_search",
        "item_",
        "plan_",
        "error",
    ),
    *(
        "warning",
        "context_compacted",
        "entered_review",
        "exited_review",
        "thread_",
        "undo_",
        "image_",
        "view_image",
        "collab_",
    ),
    *(
        "session_",
        "raw_",
        "stream_",
        "background_",
        "hook_",
        "model_",
        "elicitation_",
        "request_",
        "dynamic_",
        "apply_patch",
    ),
)
EXEC = (
    "thread.started",
    "turn.started",
    "item.started",
    "item.updated",
    "item.completed",
    "turn.completed",
    "turn.failed",
)
CONTEXT = (
    "<environment_context>",
    "<user_instructions>",
    "# AGENTS.md instructions",
    "<turn_aborted>",
    "<INSTRUCTIONS>",
)
NO_PROMPT = "a line of codex exec --json, which has no prompts; the rollout of the same session has"


def recognizes(source: Source) -> bool:
    """Return True if one of the first files is a rollout of Codex, or the output of ``codex exec --json``."""
    return any(_is_rollout(head) or _is_exec(head) for head in heads(source))


def records(source: Source) -> Iterator[MovedTurn]:
    """Yield the turns of all rollouts in the order of their names, which begin with the time."""
    for part in sorted(source.files(".jsonl"), key=lambda part: part.name.rpartition("/")[2]):
        head = source.head_objects(part)
        if _is_exec(head):
            source.skip(NO_PROMPT, sum(1 for _ in source.lines(part)))
        elif not _is_rollout(head):
            source.skip("a file that is no rollout")
        elif _is_of_subagent(head):
            source.skip("a rollout of a subagent")
        else:
            yield from _Rollout(source, part).turns()


def _is_rollout(head: list[Object]) -> bool:
    return any(
        entry.get("type") in TYPES or (entry.get("type") == "message" and "role" in entry and "content" in entry)
        for entry in head
        if "uuid" not in entry and "sessionId" not in entry
    )


def _is_exec(head: list[Object]) -> bool:
    return bool(head) and all(entry.get("type") in EXEC for entry in head)


def _is_of_subagent(head: list[Object]) -> bool:
    payload = next((entry.get("payload") for entry in head if entry.get("type") == "session_meta"), None)
    made_by = payload.get("source") if isinstance(payload, dict) else None
    return isinstance(made_by, dict) and "subagent" in made_by


class _Rollout(AgentTranscript):
    """A rollout that is being read."""

    def __init__(self, source: Source, part: Part) -> None:
        super().__init__(source, part, part.stem[-36:])  # the name ends with the id of the session
        self._number = 0  # of the prompts so far
        self._waiting: Entry | None = None  # an event of a prompt whose item may follow
        self._prompt = self._answer = ""  # the last texts, which may come again in another form

    def _entries(self) -> Iterator[Entry]:
        """Yield the entries of turns in the form that the hooks read, each text once."""
        has_events = self._source.contains(self._part, (b'"user_message"', b'"UserMessage"'))
        for _, line in self._source.objects(self._part):
            kind, payload = line.get("type"), line.get("payload")
            if kind == "message" or (kind is None and "instructions" in line):  # of a rollout without events
                kind, payload = ("response_item", line) if kind == "message" else ("session_meta", line)
            if not isinstance(payload, dict):
                self._source.meet(kind)
            elif kind == "session_meta":
                yield from self._begun(payload)
            elif kind == "event_msg":
                yield from self._event(line, payload)
            elif kind == "response_item" and payload.get("type") == "message":
                if not has_events:
                    yield from self._message(line, payload)
            elif kind not in TYPES:
                self._source.meet(kind)
        yield from self._late()

    def _begun(self, payload: Entry) -> Iterator[Entry]:
        if isinstance(id := payload.get("id"), str):
            self._session = id
        if isinstance(cwd := payload.get("cwd"), str) and not self._folder:
            self._folder = cwd
        if payload.get("source") == "exec" or payload.get("originator") == "codex_exec":
            started = {"type": "task_started", "turn_attribution": {"turn_trigger": "exec"}}
            yield {"type": "event_msg", "payload": started}

    def _event(self, line: Entry, payload: Entry) -> Iterator[Entry]:
        kind, item = str(payload.get("type")), payload.get("item")
        if kind == "item_completed" and isinstance(item, dict):
            role = str(item.get("type"))
            if role == "UserMessage":
                self._forget(text := _words(item.get("content")))
                yield from self._late()
                yield from self._asked(line, text)
            elif role == "AgentMessage":
                yield from self._answered(line, _words(item.get("content")))
        elif kind == "user_message" and payload.get("kind", "plain") == "plain":
            text = str(payload.get("message") or "")
            if text.strip() != self._prompt or self._answer:
                yield from self._late()
                self._waiting = _entry(line, "UserMessage", text)
        elif kind == "agent_message":
            yield from self._answered(line, str(payload.get("message") or ""))
        elif kind in ("task_started", "turn_started"):
            self._is_working = True
            if "turn_attribution" in payload:
                yield {**line, "payload": {**payload, "type": "task_started"}}
        elif kind in ("task_complete", "turn_complete", "turn_aborted"):
            self._is_working = False
        elif kind != "user_message" and not kind.startswith(EVENTS):
            self._source.meet(kind)

    def _message(self, line: Entry, payload: Entry) -> Iterator[Entry]:
        text = _words(payload.get("content"))
        if payload.get("role") == "user" and not text.lstrip().startswith(CONTEXT):
            yield from self._asked(_entry(line, "UserMessage", text), text)
        elif payload.get("role") == "assistant":
            yield from self._answered(line, text)

    def _forget(self, text: str) -> None:
        """Drop the event that waits, if it has this text."""
        if self._waiting is not None and _words_of(self._waiting).strip() == text.strip():
            self._waiting = None

    def _late(self) -> Iterator[Entry]:
        """Yield the event that waits: no item with its text has come."""
        if (waiting := self._waiting) is not None:
            self._waiting = None
            yield from self._asked(waiting, _words_of(waiting))

    def _asked(self, entry: Entry, text: str) -> Iterator[Entry]:
        self._number += 1
        self._prompt, self._answer = text.strip(), ""
        payload = entry["payload"]
        assert isinstance(payload, dict) and isinstance(payload["item"], dict)
        key = payload["item"].get("id") or f"codex:{self._session}:{self._number}"
        yield {**entry, "type": "event_msg", "payload": {**payload, "item": {**payload["item"], "id": key}}}

    def _answered(self, line: Entry, text: str) -> Iterator[Entry]:
        yield from self._late()
        if text.strip() and text.strip() != self._answer:
            self._answer = text.strip()
            yield _entry(line, "AgentMessage", text)


def _entry(line: Entry, role: str, text: str) -> Entry:
    """Return a text as the item that the hooks read."""
    item = {"type": role, "content": [{"type": "text", "text": text}]}
    return {
        "type": "event_msg",
        "timestamp": line.get("timestamp"),
        "payload": {"type": "item_completed", "item": item},
    }


def _words_of(entry: Entry) -> str:
    payload = entry["payload"]
    assert isinstance(payload, dict)
    return _words(payload["item"]["content"])


def _words(content: object) -> str:
    blocks = content if isinstance(content, list) else []
    texts = [block.get("text") for block in blocks if isinstance(block, dict)]
    return "\n\n".join(text for text in texts if isinstance(text, str))
