"""How a model is asked what to remember of a piece of conversation, and what its answer proposes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Annotated, Any

from ledger.domain import confidence as rules
from ledger.domain.harmless import UNSAFE, escape, one_line
from ledger.domain.memory import KINDS, Memory
from ledger.domain.turns import Line
from ledger.language.port import ModelRequest
from ledger.language.prompts import prompt
from ledger.language.reading import Parsed
from ledger.policies.turns import ACTIONS, ADD, MODEL_EXTRACTOR, RELATIONS, RETRACT, SUPERSEDE, Proposal, Relation

PURPOSE = "extraction"
LINE_CHARS = 8_000  # shown of one message: its beginning, and a third of that of its end
FACT_SHOWN_CHARS = 400
ANSWER_TOKENS = 4_096
READ = 10 * ACTIONS  # actions of an answer that are looked at; of these ACTIONS are applied
_MARKS = re.compile(r"<(/?)(facts|conversation)", re.IGNORECASE)


def request(lines: Sequence[Line], facts: Sequence[Memory], timeout: float) -> ModelRequest:
    """What a model is asked: our instructions, and the facts and messages as data, each with its number from 1."""
    known = [f"[{number}] {one_line(each.content or '')[:FACT_SHOWN_CHARS]}" for number, each in enumerate(facts, 1)]
    numbered = [
        f"[{number}] {_who(line)} ({line.time[:16]}): {_shown(line.text)}" for number, line in enumerate(lines, 1)
    ]
    content = [*_block("facts", known or ["none"]), *_block("conversation", numbered)]
    return ModelRequest(
        purpose=PURPOSE,
        prompt=MODEL_EXTRACTOR,
        instructions=prompt(MODEL_EXTRACTOR).substitute(kinds=", ".join(KINDS), most=ACTIONS),
        content="\n".join(content),
        schema=schema(),
        max_tokens=ANSWER_TOKENS,
        timeout=timeout,
    )


def _block(name: str, items: Iterable[str]) -> list[str]:
    return [f"<{name}>", *(_MARKS.sub(r"‹\1\2", each) for each in items), f"</{name}>"]


def _who(line: Line) -> str:
    role = "user" if line.role == "user" else "assistant"
    return f"{role} {one_line(line.speaker)[:100]}" if line.speaker else role


def _shown(text: str) -> str:
    if len(text) > LINE_CHARS:
        end = LINE_CHARS // 3
        text = f"{text[: LINE_CHARS - end]} […] {text[-end:]}"
    return UNSAFE.sub(escape, "\n    ".join(text.splitlines()))  # no text begins a line, so none can pose as a message


# --- what an answer is made of ---------------------------------------------------------------------------------------


def _confidence(given: object) -> float | None:
    """A number from 0 to 1; whatever else a model gives says nothing."""
    number = isinstance(given, int | float) and not isinstance(given, bool)
    return float(given) if number and 0 <= given <= 1 else None  # type: ignore[arg-type,operator]


def _numbers(given: object) -> list[int]:
    listed = given if isinstance(given, list) else [given]
    return [number for each in listed[:100] if (number := _number(each)) is not None]


def _number(given: object) -> int | None:
    """3, "3" and "[3]" are one; what is no number is no fact's and no message's."""
    if isinstance(given, bool) or given is None:
        return None
    if isinstance(given, int):
        return given
    found = re.fullmatch(r"\W{0,3}(\d{1,6})\W{0,3}", given, re.ASCII) if isinstance(given, str) else None
    return int(found[1]) if found else -1


def _is_true(given: object) -> bool:
    return given is True or (isinstance(given, str) and given.strip().lower() == "true")


def _text(given: object) -> str:
    return given if isinstance(given, str) else ""


def _names(given: object) -> list[str]:
    listed = given if isinstance(given, list) else []
    return [each.strip()[:200] for each in listed[:20] if isinstance(each, str) and _is_name(each)]


def _is_name(text: str) -> bool:
    return bool(text.strip()) and not any(0xD800 <= ord(each) < 0xE000 for each in text)


@cache
def kinds() -> dict[str, type[Any]]:
    """The pydantic model of each kind of action. What comes with the fact is taken as far as it can be understood."""
    from pydantic import BaseModel, BeforeValidator, Field, create_model

    confidence: Any = (Annotated[float | None, BeforeValidator(_confidence)], Field(None, description="from 0 to 1"))
    numbers: Any = (Annotated[list[int], BeforeValidator(_numbers)], Field(default_factory=list))
    text: Any = (Annotated[str, BeforeValidator(_text)], "")
    names: Any = (Annotated[list[str], BeforeValidator(_names)], Field(default_factory=list))
    number: Any = (
        Annotated[int | None, BeforeValidator(_number)],
        Field(None, description="the number of a known fact"),
    )
    source: dict[str, Any] = {"said_by": text, "messages": numbers}
    fields: dict[str, Any] = {
        "content": (str, ...),
        "kind": text,
        **source,
        "confidence": confidence,
        "entities": names,
    }
    wrong: Any = (Annotated[bool, BeforeValidator(_is_true)], False)
    changed: dict[str, Any] = {"fact": number, "old": text, "reason": text}
    relation: dict[str, Any] = {"subject": (str, ...), "relation": (str, ...), "object": (str, ...)}
    return {
        SUPERSEDE: create_model("Supersede", __base__=BaseModel, **fields, **changed),
        RETRACT: create_model("Retract", __base__=BaseModel, **source, **changed, wrong=wrong),
        ADD: create_model("Add", __base__=BaseModel, **fields),
        RELATIONS: create_model("Relation", __base__=BaseModel, **relation),
    }


@cache
def schema() -> type[Any]:
    """The whole answer, for servers that can be told what to answer with."""
    from pydantic import Field, create_model

    lists: dict[str, Any] = {name: (list[kind], Field(default_factory=list)) for name, kind in kinds().items()}  # type: ignore[valid-type]
    found: type[Any] = create_model("Extraction", **lists)
    return found


def proposals(parsed: Parsed, lines: Sequence[Line]) -> tuple[list[Proposal], list[Relation], int]:
    """What an answer proposes, what it replaces and ends first, and how many actions more there were than are applied."""
    ordered = sorted(parsed.actions, key=lambda each: (SUPERSEDE, RETRACT, ADD, RELATIONS).index(each.what))
    facts = [_proposal(each.what, each.value, lines) for each in ordered[:ACTIONS] if each.what != RELATIONS]
    relations = [
        Relation(each.value.subject, each.value.relation, each.value.object)
        for each in ordered[:ACTIONS]
        if each.what == RELATIONS
    ]
    return facts, relations, parsed.left_over + max(0, len(ordered) - ACTIONS)


def _proposal(what: str, given: Any, lines: Sequence[Line]) -> Proposal:
    number = getattr(given, "confidence", None)
    confidence = None if number is None else rules.millionths("confidence", number)
    return Proposal(
        what=what,
        content=getattr(given, "content", ""),
        kind=getattr(given, "kind", "").strip().lower(),
        by_user=given.said_by.strip().lower() == "user",
        cited=tuple(lines[number - 1] for number in dict.fromkeys(given.messages) if 1 <= number <= len(lines)),
        confidence=confidence,
        entities=tuple(dict.fromkeys(getattr(given, "entities", ()))),
        fact=getattr(given, "fact", None),
        old=getattr(given, "old", ""),
        reason=getattr(given, "reason", "")[:1_000],
        wrong=getattr(given, "wrong", False),
    )
