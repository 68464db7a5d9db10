"""The turns in the transcripts of coding agents: what the person typed, what was pasted, and what the agent answered.

Claude Code writes an entry a line, each with a ``uuid``; Codex 0.171 writes a line for each event, and the items of a turn have
an ``id``. Both files only grow. Tool results, hidden instructions, summaries and the talk of agents that the agent starts are
no turns.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

Entry = dict[str, object]

TAIL_BYTES = 64 * 1024 * 1024
"""The end of a transcript that is read (our choice); older turns were recorded by earlier hooks."""

PASTED = "[pasted text]"
CODE = "[code]"
_TAG = re.compile(
    r'<(pasted_content(?: id="\w{1,64}")?|system-reminder|task-notification|ide_\w{1,40}'
    r"|(?:local-)?command-\w{1,40}|bash-\w{1,40}|user-prompt-submit-hook|session-start-hook)>"
)
_INTERRUPTED = re.compile(r"\[Request interrupted by user[^\]]{0,40}\]")
_HIDDEN = ("isMeta", "isSidechain", "isCompactSummary", "isVisibleInTranscriptOnly", "isVirtual", "isApiErrorMessage")
_TYPED = (None, "typed", "queued")  # how a prompt came; "sdk" is a program, "suggestion_accepted" the agent's own words


class Turn(NamedTuple):
    """A prompt with the texts that answer it; ``typed`` is False for the words of a program."""

    key: str
    prompt: str
    typed: bool
    at: str
    responses: list[str]

    @property
    def response(self) -> str:
        return "\n\n".join(self.responses)


def new_turns(path: str, known: str | None) -> list[Turn]:
    """Return the turns of a transcript from the turn with the key ``known`` on, or all turns if there is none.

    Raises:
        OSError: The transcript cannot be read.
    """
    lines = _tail(path)
    start = 0
    if known:
        mark = known.encode()
        for number in range(len(lines) - 1, -1, -1):
            if mark in lines[number] and _key(_entry(lines[number])) == known:
                start = number
                break
    return list(turns(_entry(line) for line in lines[start:]))


def _tail(path: str) -> list[bytes]:
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - TAIL_BYTES))
        lines = file.read(TAIL_BYTES).split(b"\n")
    return lines[1:] if size > TAIL_BYTES else lines


def _entry(line: bytes) -> Entry:
    """Return the entry of a line; a line that is being written, or is no object, is an empty entry."""
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return entry if isinstance(entry, dict) else {}


def _key(entry: Entry) -> str:
    payload = entry.get("payload")
    item = payload.get("item") if isinstance(payload, dict) else None
    key = item.get("id") if isinstance(item, dict) else entry.get("uuid")
    return key if isinstance(key, str) else ""


def turns(entries: Iterable[Entry]) -> Iterator[Turn]:
    """Yield the turns of a transcript's entries, each when its answer is complete."""
    current: Turn | None = None
    by_program = False  # of Codex: ``codex exec`` began the turn
    for entry in entries:
        kind, payload = entry.get("type"), entry.get("payload")
        if kind == "event_msg" and isinstance(payload, dict):  # of Codex
            if payload.get("type") == "task_started":
                started = payload.get("turn_attribution")
                by_program = isinstance(started, dict) and started.get("turn_trigger") == "exec"
            role, texts = _of_codex(payload)
        elif kind in ("user", "assistant", "attachment") and not any(entry.get(mark) for mark in _HIDDEN):
            role, texts = _of_claude(entry)
        else:
            continue
        if role == "assistant":
            if current is not None:
                current.responses.extend(texts)
        elif role == "user":
            if current is not None:
                yield current
            prompt = typed_words("\n\n".join(texts))
            at = entry.get("timestamp")
            current = None  # what answers a command of the client belongs to no turn
            if prompt and _key(entry):
                current = Turn(
                    _key(entry), prompt, _is_typed(entry) and not by_program, at if isinstance(at, str) else "", []
                )
    if current is not None:
        yield current


def said(entry: Mapping[str, object]) -> tuple[str, str]:
    """Return the role and the words of an entry of Claude Code; ("", "") for what neither the person nor the agent said.

    Of a prompt it is what the person typed.
    """
    if entry.get("type") not in ("user", "assistant", "attachment") or any(entry.get(mark) for mark in _HIDDEN):
        return "", ""
    role, texts = _of_claude({**entry})
    text = "\n\n".join(texts)
    return (role, text) if role != "user" else (role, typed_words(text))


def _of_codex(payload: Entry) -> tuple[str, list[str]]:
    item = payload.get("item")
    if payload.get("type") != "item_completed" or not isinstance(item, dict):
        return "", []
    role = {"UserMessage": "user", "AgentMessage": "assistant"}.get(str(item.get("type")), "")
    return role, _texts(item.get("content"))


def _of_claude(entry: Entry) -> tuple[str, list[str]]:
    if entry["type"] == "attachment":
        return _queued(entry.get("attachment"))
    message = entry.get("message")
    if not isinstance(message, dict) or entry.get("sourceToolAssistantUUID") or "toolUseResult" in entry:
        return "", []
    if message.get("model") == "<synthetic>":
        return "", []
    texts = _texts(message.get("content"))
    return (str(entry["type"]), texts) if texts else ("", [])


def _queued(attachment: object) -> tuple[str, list[str]]:
    """Return the prompt that was sent while the agent worked."""
    if not isinstance(attachment, dict) or attachment.get("type") != "queued_command":
        return "", []
    texts = _texts(attachment.get("prompt")) if attachment.get("commandMode", "prompt") == "prompt" else []
    return ("user", texts) if texts else ("", [])


def _texts(content: object) -> list[str]:
    """Return the texts of a message; a message with a tool's result has none."""
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    if not isinstance(blocks, list):
        return []
    blocks = [block for block in blocks if isinstance(block, dict)]
    if any(block.get("type") == "tool_result" for block in blocks):
        return []
    texts = [block.get("text") for block in blocks if block.get("type") in ("text", "Text")]
    return [text for text in texts if isinstance(text, str) and text.strip() and not _INTERRUPTED.fullmatch(text)]


def _is_typed(entry: Entry) -> bool:
    """Return True if a person typed the prompt, as far as the client says so."""
    attachment = entry.get("attachment")
    said = attachment if isinstance(attachment, dict) else entry
    if said.get("textNotTyped") or said.get("handedOff"):
        return False
    origin = said.get("origin")
    if isinstance(origin, dict):
        return origin.get("kind") == "human"
    started_by = entry.get("entrypoint")
    if isinstance(started_by, str) and started_by.startswith("sdk"):
        return False
    return entry.get("promptSource") in _TYPED


def typed_words(text: str) -> str:
    """Return a prompt without what the person did not type: marked pastes, code blocks, and notes of the client.

    The time is in proportion to the text.
    """
    parts, place, missing = list[str](), 0, set[str]()
    while (tag := _TAG.search(text, place)) is not None:
        pasted = tag[1].startswith("pasted_content")
        closing = f"</{tag[1]}>"
        # A paste without an id may hold its closing tag, so the last one ends it.
        find = text.rfind if tag[1] == "pasted_content" else text.find
        end = -1 if closing in missing else find(closing, tag.end())
        parts.append(text[place : tag.start()])
        if end >= 0:
            parts.append(PASTED if pasted else "")
            place = end + len(closing)
        elif pasted:  # all that follows may be the paste
            parts.append(PASTED)
            place = len(text)
        else:
            missing.add(closing)
            parts.append(tag[0])
            place = tag.end()
    parts.append(text[place:])
    return _without_code("".join(parts)).strip()


def _without_code(text: str) -> str:
    """Return the text with a mark in the place of each fenced block; a fence that nothing ends goes to the end."""
    pieces = text.split("```")
    return CODE.join(pieces[::2]) if len(pieces) % 2 else CODE.join([*pieces[:-1:2], ""])
