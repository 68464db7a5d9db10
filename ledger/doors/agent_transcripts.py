"""The turns in the transcripts of coding agents: what the person typed, what was pasted, and what the agent answered.

Claude Code writes an entry a line, each with a ``uuid``; Codex 0.171 writes a line for each event, and the items of a turn have
an ``id``. Both files only grow. Tool results, hidden instructions, summaries and the talk of agents that the agent starts are
no turns.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ledger.types import Channel

from ledger.log import platform

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
HIDDEN = ("isMeta", "isSidechain", "isCompactSummary", "isVisibleInTranscriptOnly", "isVirtual", "isApiErrorMessage")
_SAID = (b'"user"', b'"assistant"', b'"attachment"', b'"event_msg"')  # without such a text a line is no part of a turn
_COMPACTED = (b'"compact_boundary"', b'"isCompactSummary"', b'"compacted"')  # of Claude Code, and of Codex
_TYPED = (None, "typed", "queued")  # how a prompt came; "sdk" is a program, "suggestion_accepted" the agent's own words


class Turn(NamedTuple):
    """A prompt with the texts that answer it; ``typed`` is False for the words of a program."""

    key: str
    prompt: str
    typed: bool
    at: str
    responses: list[str]
    is_last: bool = False  # the agent may still add to the answer

    @property
    def response(self) -> str:
        return "\n\n".join(self.responses)


def new_turns(transcript: bytes, known: str) -> Iterator[Turn]:
    """Yield the turns of a transcript from the turn with the key ``known`` on, or all turns if there is none."""
    return turns(map(_entry, _lines(transcript, _place(transcript, known), _SAID)))


def read(path: str) -> bytes:
    """Return the end of a transcript, from the beginning of a line.

    Raises:
        OSError: The transcript cannot be read, or is no regular file, for to read a pipe may take forever.
    """
    with open(os.open(path, platform.READ_FLAGS), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError(f"the transcript {path} is no regular file")
        file.seek(max(0, status.st_size - TAIL_BYTES))
        tail = file.read(TAIL_BYTES)
    return tail[tail.find(b"\n") + 1 :] if status.st_size > TAIL_BYTES else tail


def hook_texts(transcript: bytes, beginning: str) -> Iterator[str]:
    """Yield the texts with a beginning that hooks gave to the model since the last compaction.

    The same text in a prompt, a paste or a tool's result is none of a hook's.
    """
    start = max(transcript.rfind(mark) for mark in _COMPACTED)
    for line in _lines(transcript, max(start, 0), (json.dumps(beginning)[1:-1].encode(),)):
        entry = _entry(line)
        attachment, payload = entry.get("attachment"), entry.get("payload")
        if (
            isinstance(attachment, dict)
            and str(attachment.get("type")).startswith("hook_")
            and not entry.get("isSidechain")
        ):
            yield from (text for text in _strings(attachment) if text.startswith(beginning))
        elif isinstance(payload, dict) and payload.get("role") == "developer":  # of Codex
            yield from (text for text in _strings(payload) if text.startswith(beginning))


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _strings(item)


def _place(transcript: bytes, known: str) -> int:
    """Return the place of the last line with a key, 0 if there is none."""
    end, mark = len(transcript), known.encode()
    while known and (hit := transcript.rfind(mark, 0, end)) >= 0:
        end = transcript.rfind(b"\n", 0, hit) + 1
        if _key(_entry(next(_lines(transcript, end, (mark,))))) == known:
            return end
    return 0


def _lines(transcript: bytes, start: int, marks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines that have one of the marks in them; other lines cost no more than a search for the marks."""
    ahead = {mark: transcript.find(mark, start) for mark in marks}
    while found := [place for place in ahead.values() if place >= 0]:
        begin = transcript.rfind(b"\n", start, min(found)) + 1 or start
        end = transcript.find(b"\n", min(found))
        start = end + 1 if end >= 0 else len(transcript)
        yield transcript[begin:start]
        for mark, place in ahead.items():
            if 0 <= place < start:
                ahead[mark] = transcript.find(mark, start)


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
        elif kind in ("user", "assistant", "attachment") and not any(entry.get(mark) for mark in HIDDEN):
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
        yield current._replace(is_last=True)


def channel_of(turn: Turn) -> Channel:
    """Return the channel through which a turn comes: "user" only for what a person typed as far as anybody can tell."""
    from ledger.english.foreign import LONG_CHARS, LONG_LINES

    # Of a longer message nobody can tell which part was typed (foreign/1).
    is_long = len(turn.prompt) > LONG_CHARS or turn.prompt.count("\n") >= LONG_LINES
    return "agent" if not turn.typed else "file" if is_long else "user"


def said(entry: Mapping[str, object]) -> tuple[str, str]:
    """Return the role and the words of an entry of Claude Code; ("", "") for what neither the person nor the agent said.

    Of a prompt it is what the person typed.
    """
    if entry.get("type") not in ("user", "assistant", "attachment") or any(entry.get(mark) for mark in HIDDEN):
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
