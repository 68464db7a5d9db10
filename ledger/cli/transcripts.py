"""Files of messages: JSON, JSON lines, or a chat as plain text, in which a line that begins with a role begins a message."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from ledger.domain.errors import RejectedError
from ledger.domain.other_forms import ITEMS

ROLES = {
    "user": "user", "human": "user", "assistant": "assistant", "ai": "assistant", "bot": "assistant", "system": "system",
    "developer": "developer",
}  # fmt: skip
_BEGINS = re.compile(rf"(\s*)({'|'.join(ROLES)})\s*:[ \t]*", re.IGNORECASE)
_END_OF_LINE = re.compile(r"\r\n?|\n")  # and nothing else: a text keeps its U+2028


def messages_of(text: str, what: str) -> list[object]:
    """The messages of a file; a blank one is a mistake, and no conversation of nothing."""
    if not text.strip():
        raise RejectedError(f"{what} is blank; a conversation of nothing is []")
    start = text.lstrip()[0]
    if start == "[":
        return _listed(_parsed(text, what), what)
    if start != "{":
        return list(_chat(text, what))
    try:  # one object over several lines, or one a line
        whole: object = json.loads(text)
    except (ValueError, RecursionError):
        return [_message(each, line) for each, line in _lines(text, what)]
    found = whole.get("messages", whole.get("contents", [whole])) if isinstance(whole, dict) else whole
    return _listed(found, what)


def _listed(found: object, what: str) -> list[object]:
    if not isinstance(found, list):
        raise RejectedError(f"the messages of {what} are a list, not {type(found).__name__}")
    return [_message(each, f"message {number:,} of {what}") for number, each in enumerate(found, 1)]


def _lines(text: str, what: str) -> Iterator[tuple[object, str]]:
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            place = f"line {number:,} of {what}"
            yield _parsed(line, place), place


def _message(found: object, what: str) -> object:
    """Says where a message is none, by its line; what it holds is checked with all others."""
    if isinstance(found, Mapping) and ("role" in found or found.get("type") in ITEMS):
        return found
    if isinstance(found, Mapping) and ("prompt" in found or "turns" in found):
        raise RejectedError(
            f"{what} is no message: prompts with responses and conversations are for memory-ledger import"
        )
    raise RejectedError(f'{what} is no message; one is {{"role": "user", "content": "…"}}')


def _parsed(text: str, what: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        why = (
            f"{error.msg} at line {error.lineno}"
            if isinstance(error, json.JSONDecodeError)
            else "it is nested too deep"
        )
        raise RejectedError(
            f"{what} is no JSON: {why}; give a list of messages, one message a line, or a chat (user: …)"
        ) from None


def _chat(text: str, what: str) -> Iterator[dict[str, str]]:
    """The role is no part of what is said: a line that begins with one is a threat to the guards. A role that is indented
    further than the first one is of the message: of its code, mostly (``    user: str``)."""
    role, texts, indent = "", list[str](), 0
    for number, line in enumerate(_END_OF_LINE.split(text), 1):
        begins = _BEGINS.match(line)
        if begins is not None and role and len(begins[1]) > indent:
            begins = None
        if begins is None and not role and line.strip():
            raise RejectedError(
                f"line {number:,} of {what} is neither JSON nor begins with a role; a chat has lines like 'user: …' and"
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
