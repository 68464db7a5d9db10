"""The importer of the kind "claude-code": the transcripts of Claude Code, which it deletes after 30 days.

A transcript is cut into turns by the function that the hooks use, with the same keys. The lines of a transcript are a tree: what
a person said on a branch that he left was said, and comes along. The talk of subagents has no person in it, and does not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from ledger.doors.agent_transcripts import HIDDEN, Entry
from ledger.importers.agent_transcript import AgentTranscript, heads
from ledger.importers.records import MovedTurn
from ledger.importers.source import NO_JSON, Object, Part, Source, decoded

CLIENT = "claude-code"
SAID = ("user", "assistant", "attachment")
OTHERS = {  # the entries that hold no words of a conversation
    *(
        "system",
        "summary",
        "progress",
        "file-history-snapshot",
        "attribution-snapshot",
        "queue-operation",
        "last-prompt",
    ),
    *(
        "custom-title",
        "ai-title",
        "task-summary",
        "tag",
        "agent-name",
        "agent-color",
        "agent-setting",
        "pr-link",
        "mode",
    ),
    *("permission-mode", "worktree-state", "content-replacement", "speculation-accept"),
}
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class _Line(msgspec.Struct):
    """The fields of a line that tell whether it has to be read as a whole."""

    type: object = None
    cwd: object = None
    isSidechain: object = None
    toolUseResult: msgspec.Raw = msgspec.Raw()


_line = msgspec.json.Decoder(_Line).decode


def recognizes(source: Source) -> bool:
    """Return True if one of the first files is a transcript of Claude Code."""
    return any(map(_is_transcript, heads(source)))


def records(source: Source) -> Iterator[MovedTurn]:
    """Yield the turns of all transcripts, those of the session that began first before the others."""
    begun = list[tuple[str, Part, str]]()
    for part in source.files(".jsonl"):
        head = source.head_objects(part)
        if "subagents" in part.name.split("/") or part.stem.startswith("agent-"):
            source.skip("a transcript of a subagent")
        elif not head or _is_transcript(head):
            times = (entry.get("timestamp") for entry in head)
            first = next((time for time in times if isinstance(time, str)), "")
            begun.append((first, part, _session(part, head)))
        else:
            source.skip("a file that is no transcript")
    for _, part, session in sorted(begun):
        yield from _ClaudeTranscript(source, part, session).turns()


def _is_transcript(head: list[Object]) -> bool:
    return any(
        entry.get("type") in (*SAID, *OTHERS) and ("sessionId" in entry or "uuid" in entry or "leafUuid" in entry)
        for entry in head
    )


def _session(part: Part, head: list[Object]) -> str:
    """Return the name of the session: that of the file, as in the hooks, unless somebody has renamed the file."""
    named = [entry["sessionId"] for entry in head if isinstance(entry.get("sessionId"), str)]
    return part.stem if not named or part.stem in named or _UUID.fullmatch(part.stem) else str(named[0])


class _ClaudeTranscript(AgentTranscript):
    def _entries(self) -> Iterator[Entry]:
        """Yield the lines that may hold words; the others are counted without being read as a whole."""
        skip = self._source.skip
        for _, text in self._source.lines(self._part):
            try:
                line = _line(text)
            except (msgspec.DecodeError, UnicodeDecodeError):
                if not isinstance(entry := decoded(text), dict):
                    skip(NO_JSON)
                    continue
                line = _Line(entry.get("type"), entry.get("cwd"), entry.get("isSidechain"))
            if isinstance(line.cwd, str) and not self._folder:
                self._folder = line.cwd
            if line.isSidechain:
                skip("a line of a subagent")
            elif len(memoryview(line.toolUseResult)):
                self._is_working = True
                skip("a tool's result")
            elif line.type in SAID:
                entry = decoded(text)
                if isinstance(entry, dict):
                    yield from self._said(entry)
            elif line.type in OTHERS:
                skip("a note of the client")
            else:
                self._source.meet(line.type)

    def _said(self, entry: Entry) -> Iterator[Entry]:
        if any(entry.get(mark) for mark in HIDDEN):
            self._source.skip("a text that the client wrote or hid")
            return
        message = entry.get("message")
        content = message.get("content") if isinstance(message, dict) else None
        blocks = content if isinstance(content, list) else []
        self._is_working = any(isinstance(block, dict) and block.get("type") == "tool_use" for block in blocks)
        yield entry
