"""The import format "conversation": a JSON list of conversations, of which every two successive turns become an interaction."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

import msgspec
from msgspec import Raw, Struct

from ledger.core.given_files import BLOCK_BYTES, elements_of
from ledger.domain.errors import RejectedError
from ledger.interactions.lines import value_of

CONVERSATION_BYTES = 64 * 1024 * 1024  # the most bytes of the JSON of one conversation
TURN_BYTES = 32 * 1024 * 1024  # the most bytes of the JSON of one turn
CLIENT = "conversation"  # the client of turns without a client, if no client is bound
_ROLES = ("user", "assistant", "human", "ai")  # these speakers are roles and not names


class _Conversation(Struct):
    sample_id: Raw = Raw()
    turns: Raw = Raw()


class _Turn(Struct):
    """The fields of a turn that are read; other fields are ignored."""

    session: Raw = Raw()
    dia_id: Raw = Raw()
    speaker: Raw = Raw()
    date_time: Raw = Raw()
    client: Raw = Raw()
    text: Raw = Raw()


_conversation, _turn = msgspec.json.Decoder(_Conversation).decode, msgspec.json.Decoder(_Turn).decode
_FORM = "a conversation is an object with a sample_id and a list of turns, each an object"


def turns_of(conversations: Iterable[bytes | bytearray | None]) -> Iterator[dict[str, object] | str]:
    """Yield the fields of a line for every two successive turns of a session: the prompt and the response.

    A text that is not a conversation yields a sentence with the reason. A conversation is a project of its own, named after
    ``sample_id``; a session is named ``sample_id/session``. ``occurred_at`` is the first ``date_time`` of the two turns, unread.

    Args:
        conversations: The JSON text of each conversation; None for a text that is too long.

    Raises:
        ValueError: A text is not JSON.
        msgspec.DecodeError: A text is not JSON.
    """
    for text in conversations:
        try:
            if text is None:
                raise RejectedError(f"a conversation has at most {CONVERSATION_BYTES:,} bytes, and this one has more")
            conversation = _conversation(text)
            _check_turns(conversation.turns)
            fields = _fields(conversation, ("sample_id",))
            turns = (_turn_of(turn) for turn in elements_of(_blocks(conversation.turns), TURN_BYTES))
            yield from _pairs(str(fields.get("sample_id", "conversation")), turns)
        except msgspec.ValidationError:
            yield _FORM
        except msgspec.DecodeError:
            json.loads(text or b"")  # raises ValueError if the text is not JSON at all
            yield "a conversation contains half a character, or another code that is not allowed in a text"
        except RejectedError as error:
            yield str(error)


def _check_turns(turns: Raw) -> None:
    view = memoryview(turns)
    if not len(view) or view[0] != ord("["):
        raise RejectedError(_FORM)
    for turn in elements_of(_blocks(turns), TURN_BYTES):
        if turn is None:
            raise RejectedError(f"a turn has at most {TURN_BYTES:,} bytes, and one of this conversation has more")
        if turn[0] != ord("{"):
            raise RejectedError(_FORM)


def _blocks(text: Raw) -> Iterator[bytes]:
    view = memoryview(text)
    return (bytes(view[at : at + BLOCK_BYTES]) for at in range(0, len(view), BLOCK_BYTES))


def _turn_of(text: bytes | bytearray | None) -> dict[str, object] | str:
    """Return the fields of a turn, or a sentence with the reason why the text is not a turn."""
    assert text is not None
    try:
        turn = _turn(text)
        return _fields(turn, _Turn.__struct_fields__)
    except RejectedError as error:
        return str(error)
    except (ValueError, RecursionError, msgspec.DecodeError) as error:
        return f"a turn is not valid JSON ({type(error).__name__})"


def _fields(struct: Struct, names: Iterable[str]) -> dict[str, object]:
    raws = ((name, getattr(struct, name)) for name in names)
    return {name: value_of(name, raw) for name, raw in raws if len(memoryview(raw))}


def _pairs(name: str, turns: Iterable[dict[str, object] | str]) -> Iterator[dict[str, object] | str]:
    prompt: dict[str, object] | None = None
    for turn in turns:
        if isinstance(turn, str):
            yield turn
        elif prompt is not None and turn.get("session") == prompt.get("session"):
            yield _interaction(name, prompt, turn)
            prompt = None
        else:
            if prompt is not None:
                yield _interaction(name, prompt, None)
            prompt = turn
    if prompt is not None:
        yield _interaction(name, prompt, None)


def _interaction(name: str, prompt: dict[str, object], response: dict[str, object] | None) -> dict[str, object]:
    line: dict[str, object] = {
        "prompt": _text(prompt),
        "project": name,
        "session_id": f"{name}/{prompt.get('session', '')}",
        "client": str(prompt.get("client", "")),
        "line_id": f"{name}/{prompt.get('dia_id', '')}",
        "context_pack": {"turns": [prompt.get("dia_id"), response.get("dia_id") if response else None]},
    }
    if response is not None:
        line["response"] = _text(response)
    dates = (turn.get("date_time") for turn in (prompt, response or {}))
    return line | {"occurred_at": next((date for date in dates if date is not None and str(date).strip()), None)}


def _text(turn: dict[str, object]) -> object:
    """Return the text of a turn, preceded by the speaker's name.

    A role is left out: it is not a name, and the guards take a line that begins with a role for a threat. A value that is not a
    text is returned unchanged, so that the check of the line refuses the value.
    """
    speaker, text = str(turn.get("speaker") or ""), turn.get("text", "")
    return f"{speaker}: {text}" if isinstance(text, str) and speaker.strip().lower() not in ("", *_ROLES) else text
