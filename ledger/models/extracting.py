"""The request to a model for memories from a piece of conversation, and the proposals in its answer."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Annotated, Any

from ledger.domain import confidence as confidence_rules
from ledger.domain.kinds import KINDS
from ledger.domain.text import UNSAFE, escape, one_line
from ledger.events import MODEL_EXTRACTOR
from ledger.extraction.applying import (
    ACTIONS,
    ADD,
    FACT_SHOWN_CHARS,
    RELATIONS,
    RETRACT,
    SUPERSEDE,
    Proposal,
    ProposedRelation,
)
from ledger.extraction.lines import ConversationLine
from ledger.memories.state import MemoryState
from ledger.models.port import ModelRequest
from ledger.models.prompts import prompt
from ledger.models.reading import Parsed

PURPOSE = "extraction"
LINE_CHARS = 8_000  # the most characters of one message in a prompt; a third of them from the end of the message
ANSWER_TOKENS = 4_096
READ = 10 * ACTIONS  # the most actions of an answer that are read; ACTIONS of them are applied
_MARKS = re.compile(r"<(/?)(facts|conversation)", re.IGNORECASE)


def request(lines: Sequence[ConversationLine], facts: Sequence[MemoryState], timeout: float) -> ModelRequest:
    """Return the request to a model: the product's instructions, and the facts and messages as data, numbered from 1."""
    known = [f"[{number}] {one_line(fact.content or '')[:FACT_SHOWN_CHARS]}" for number, fact in enumerate(facts, 1)]
    numbered = [
        f"[{number}] {_who(line)} ({line.time[:16]}): {_shown(line.text)}" for number, line in enumerate(lines, 1)
    ]
    content = [*_block("facts", known or ["none"]), *_block("conversation", numbered)]
    return of_texts(instructions(), "\n".join(content), timeout)


def instructions() -> str:
    return prompt(MODEL_EXTRACTOR).substitute(kinds=", ".join(KINDS), most=ACTIONS)


def of_texts(own: str, content: str, timeout: float = 60.0) -> ModelRequest:
    """Return the request with the product's own words and the texts that a model reads."""
    return ModelRequest(
        purpose=PURPOSE,
        prompt=MODEL_EXTRACTOR,
        instructions=own,
        content=content,
        schema=schema(),
        max_tokens=ANSWER_TOKENS,
        timeout=timeout,
    )


def _block(name: str, items: Iterable[str]) -> list[str]:
    return [f"<{name}>", *(_MARKS.sub(r"‹\1\2", item) for item in items), f"</{name}>"]


def _who(line: ConversationLine) -> str:
    role = "user" if line.role == "user" else "assistant"
    return f"{role} {one_line(line.speaker)[:100]}" if line.speaker else role


def _shown(text: str) -> str:
    if len(text) > LINE_CHARS:
        end = LINE_CHARS // 3
        text = f"{text[: LINE_CHARS - end]} […] {text[-end:]}"
    return UNSAFE.sub(escape, "\n    ".join(text.splitlines()))  # an indented text cannot pose as a message


# --- the parts of an answer ------------------------------------------------------------------------------------------


def _confidence(value: object) -> float | None:
    """Return a number from 0 to 1, or None for anything else that a model gives."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if number and 0 <= value <= 1 else None  # type: ignore[arg-type,operator]


def _numbers(value: object) -> list[int]:
    listed = value if isinstance(value, list) else [value]
    return [number for item in listed[:100] if (number := _number(item)) is not None]


def _number(value: object) -> int | None:
    """Return the number in 3, "3" or "[3]", None for no value, and -1, which no fact has as its number, for other values."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int):
        return value
    match = re.fullmatch(r"\W{0,3}(\d{1,6})\W{0,3}", value, re.ASCII) if isinstance(value, str) else None
    return int(match[1]) if match else -1


def _is_true(value: object) -> bool:
    return value is True or (isinstance(value, str) and value.strip().lower() == "true")


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _names(value: object) -> list[str]:
    listed = value if isinstance(value, list) else []
    return [item.strip()[:200] for item in listed[:20] if isinstance(item, str) and _is_name(item)]


def _is_name(text: str) -> bool:
    return bool(text.strip()) and not any(0xD800 <= ord(character) < 0xE000 for character in text)


@cache
def kinds() -> dict[str, type[Any]]:
    """Return the pydantic model of each kind of action.

    A wrong value in an optional field becomes the default, so that the action is still read.
    """
    from pydantic import AliasChoices, BaseModel, BeforeValidator, Field, create_model

    confidence: Any = (Annotated[float | None, BeforeValidator(_confidence)], Field(None, description="from 0 to 1"))
    numbers: Any = (Annotated[list[int], BeforeValidator(_numbers)], Field(default_factory=list))
    text: Any = (Annotated[str, BeforeValidator(_text)], "")
    names: Any = (Annotated[list[str], BeforeValidator(_names)], Field(default_factory=list))
    number: Any = (
        Annotated[int | None, BeforeValidator(_number)],
        Field(None, description="the number of a known fact"),
    )
    quote: Any = (text[0], Field("", description="the user's words that say so, exactly as they stand in a message"))
    source: dict[str, Any] = {"said_by": text, "messages": numbers, "quote": quote}
    fields: dict[str, Any] = {
        "content": (str, ...),
        "kind": text,
        **source,
        "confidence": confidence,
        "entities": names,
    }
    wrong: Any = (Annotated[bool, BeforeValidator(_is_true)], False)
    old: Any = (text[0], Field("", validation_alias=AliasChoices("old", "match")))  # rubino's models say "match"
    changed: dict[str, Any] = {"fact": number, "old": old, "reason": text}
    relation: dict[str, Any] = {"subject": (str, ...), "relation": (str, ...), "object": (str, ...)}
    return {
        SUPERSEDE: create_model("Supersede", __base__=BaseModel, **fields, **changed),
        RETRACT: create_model("Retract", __base__=BaseModel, **source, **changed, wrong=wrong),
        ADD: create_model("Add", __base__=BaseModel, **fields),
        RELATIONS: create_model("Relation", __base__=BaseModel, **relation),
    }


@cache
def schema() -> type[Any]:
    """Return the pydantic model of the whole answer, for servers that accept a schema."""
    from pydantic import Field, create_model

    lists: dict[str, Any] = {name: (list[kind], Field(default_factory=list)) for name, kind in kinds().items()}  # type: ignore[valid-type]
    model: type[Any] = create_model("Extraction", **lists)
    return model


def proposals(parsed: Parsed, lines: Sequence[ConversationLine]) -> tuple[list[Proposal], list[ProposedRelation], int]:
    """Return the facts and relations that an answer proposes, and the number of actions that are not read.

    Replacements and retractions come first.
    """
    ordered = sorted(parsed.actions, key=lambda action: (SUPERSEDE, RETRACT, ADD, RELATIONS).index(action.what))
    facts = [_proposal(action.what, action.value, lines) for action in ordered[:ACTIONS] if action.what != RELATIONS]
    relations = [
        ProposedRelation(action.value.subject, action.value.relation, action.value.object)
        for action in ordered[:ACTIONS]
        if action.what == RELATIONS
    ]
    return facts, relations, parsed.left_over + max(0, len(ordered) - ACTIONS)


def _proposal(what: str, value: Any, lines: Sequence[ConversationLine]) -> Proposal:
    number = getattr(value, "confidence", None)
    confidence = None if number is None else confidence_rules.millionths("confidence", number)
    return Proposal(
        what=what,
        content=getattr(value, "content", ""),
        kind=getattr(value, "kind", "").strip().lower(),
        by_user=value.said_by.strip().lower() == "user",
        cited=tuple(lines[number - 1] for number in dict.fromkeys(value.messages) if 1 <= number <= len(lines)),
        confidence=confidence,
        entities=tuple(dict.fromkeys(getattr(value, "entities", ()))),
        fact=getattr(value, "fact", None),
        old=getattr(value, "old", ""),
        reason=getattr(value, "reason", "")[:1_000],
        wrong=getattr(value, "wrong", False),
        quote=value.quote[:2_000],
    )
