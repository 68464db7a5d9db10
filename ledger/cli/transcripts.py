"""The reading of files of messages: JSON, JSON lines, or a chat as plain text with a role before each message."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from ledger.domain.errors import RejectedError
from ledger.sessions.rules.other_forms import ITEMS

ROLES = {
    "user": "user", "human": "user", "assistant": "assistant", "ai": "assistant", "bot": "assistant", "system": "system",
    "developer": "developer",
}  # fmt: skip
_BEGINS = re.compile(rf"(\s*)({'|'.join(ROLES)})\s*:[ \t]*", re.IGNORECASE)
_END_OF_LINE = re.compile(r"\r\n?|\n")  # str.splitlines would also split at U+2028


def messages_of(text: str, name: str) -> list[object]:
    """Return the messages of a file.

    Raises:
        RejectedError: The file is blank, or its text is neither messages in JSON nor a chat.
    """
    if not text.strip():
        raise RejectedError(f"{name} is blank; an empty conversation is []")
    start = text.lstrip()[0]
    if start == "[":
        return _listed(_parsed(text, name), name)
    if start != "{":
        return list(_chat(text, name))
    try:  # an object over several lines, or an object in each line
        whole: object = json.loads(text)
    except (ValueError, RecursionError):
        return [_message(value, place) for value, place in _lines(text, name)]
    messages = whole.get("messages", whole.get("contents", [whole])) if isinstance(whole, dict) else whole
    return _listed(messages, name)


def _listed(messages: object, name: str) -> list[object]:
    if not isinstance(messages, list):
        raise RejectedError(f"the messages of {name} are a list, not {type(messages).__name__}")
    return [_message(message, f"message {number:,} of {name}") for number, message in enumerate(messages, 1)]


def _lines(text: str, name: str) -> Iterator[tuple[object, str]]:
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            place = f"line {number:,} of {name}"
            yield _parsed(line, place), place


def _message(value: object, place: str) -> object:
    """Return the value if it has the form of a message, whose fields are checked later.

    Raises:
        RejectedError: The value is not a message; the error names its place.
    """
    if isinstance(value, Mapping) and ("role" in value or value.get("type") in ITEMS):
        return value
    if isinstance(value, Mapping) and ("prompt" in value or "turns" in value):
        raise RejectedError(
            f"{place} is not a message: memory-ledger interactions import-file takes prompts with responses, and conversations"
        )
    raise RejectedError(f'{place} is not a message, such as {{"role": "user", "content": "…"}}')


def _parsed(text: str, place: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        why = (
            f"{error.msg} at line {error.lineno}"
            if isinstance(error, json.JSONDecodeError)
            else "it is nested too deep"
        )
        raise RejectedError(
            f"{place} is not JSON: {why}; give a list of messages, one message a line, or a chat (user: …)"
        ) from None


def _chat(text: str, name: str) -> Iterator[dict[str, str]]:
    """Yield the messages of a chat.

    The role is left out of the content, because the guards take a line that begins with a role for a threat. A role that is
    indented further than the first role belongs to the content, for example to code (``user: str``).
    """
    role, texts, indent = "", list[str](), 0
    for number, line in enumerate(_END_OF_LINE.split(text), 1):
        begins = _BEGINS.match(line)
        if begins is not None and role and len(begins[1]) > indent:
            begins = None
        if begins is None and not role and line.strip():
            raise RejectedError(
                f"line {number:,} of {name} is neither JSON nor begins with a role; a chat has lines like 'user: …' and"
                " 'assistant: …'"
            )
        if begins is not None:
            if role:
                yield {"role": role, "content": "\n".join(texts).lstrip("\n").rstrip()}
            else:
                indent = len(begins[1])
            role, texts = ROLES[begins[2].lower()], [line[begins.end() :]]
        else:
            texts.append(line)
    if role:
        yield {"role": role, "content": "\n".join(texts).lstrip("\n").rstrip()}
