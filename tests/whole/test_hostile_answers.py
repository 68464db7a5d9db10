"""Hostile answers of a model: the valid actions beside a bad one are kept, and every call leaves its record."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import pytest
from conftest import LONG, Clock, folded_from_zero
from hostile import HALF, TEXTS, VALUES, spoilt

from ledger import Ledger, ModelError
from ledger.types import ModelAnswer

CREATE = {"action": "create", "text": "The bad one.", "sources": [1], "confidence": 0.8, "reason": "the notes say so"}
UPDATE = CREATE | {"action": "update", "observation": 1, "change": "redundant"}
DELETE = {"action": "delete", "observation": 1, "sources": [1], "reason": "it is not so"}
FACT = {
    "content": "The user has a bad one.",
    "kind": "preference",
    "said_by": "user",
    "messages": [1],
    "confidence": 0.9,
    "entities": ["Ada"],
}
SUPERSEDE = FACT | {"fact": 1, "old": "The user has another.", "reason": "it changed"}
RELATION = {"subject": "Ada", "relation": "knows", "object": "Ben"}
TALES = (  # what comes of each kind of answer: the field of its list, and an action that is spoilt field by field
    *(("actions", each) for each in (CREATE, UPDATE, DELETE)),
    *(("add", FACT), ("supersede", SUPERSEDE), ("relations", RELATION)),
)
WHERE_HALF = (HALF, f"caf{HALF}", [HALF], {"a": HALF}, {HALF: 1})


class Told:
    """A model that answers what it is told to next."""

    name = "told"

    def __init__(self) -> None:
        self.next: Any = "[]"

    def answer(self, _: object, /) -> ModelAnswer:
        if isinstance(self.next, Exception):
            raise self.next
        return ModelAnswer(text=self.next if isinstance(self.next, str) else json.dumps(self.next))


class Scene:
    """A ledger with something new to ask a model about, whenever it is asked for."""

    def __init__(self, ledger: Ledger, model: Told) -> None:
        self.ledger, self.model, self._numbers = ledger, model, itertools.count()

    def sentence(self) -> str:
        """A sentence that is like no other."""
        draw = Random(next(self._numbers))
        return " ".join("".join(draw.choices("bcdfglmnprstv", k=1) + draw.choices("aeiou", k=1)) * 3 for _ in range(6))

    def consolidate(self, answer: Any) -> Any:
        self.model.next = answer
        self.ledger.remember(f"The {self.sentence()}.")
        return self.ledger.consolidate()

    def extract(self, answer: Any) -> Any:
        self.model.next = answer
        session = self.ledger.session("quay")
        session.append("user", f"I prefer {self.sentence()}.")
        return session.extract(model=self.model)

    def extract_turn(self, answer: Any) -> Any:
        self.model.next = answer
        turn = self.ledger.capture(f"I prefer {self.sentence()}.", "Noted.")
        return self.ledger.extract(turn.id, model=self.model)

    def summarise(self, answer: Any) -> Any:
        self.model.next = answer
        session = self.ledger.session("sea")
        for _ in range(50):
            session.append("user", f"I saw {self.sentence()}. " * 9)
        return session.compact()

    @property
    def calls(self) -> int:
        return len(self.ledger.history.model_calls(limit=1_000))

    def last(self) -> Any:
        return self.ledger.history.model_calls(limit=1)[0]


@pytest.fixture
def scene(tmp_path: Path, clock: Clock) -> Iterator[Scene]:
    model = Told()
    with Ledger.open(tmp_path / "memory.db", clock=clock, model=model) as ledger:
        yield Scene(ledger, model)
        assert ledger.proof.digest() == folded_from_zero(ledger) and ledger.proof.verify().ok


def good(scene: Scene, name: str) -> dict[str, Any]:
    text = f"The user met {scene.sentence()}."
    return CREATE | {"text": text} if name == "actions" else FACT | {"content": text}


def beside(scene: Scene, name: str, bad: dict[str, Any]) -> dict[str, Any]:
    """An answer with a bad action before and after a good one."""
    if name == "actions":
        return {name: [bad, good(scene, name), bad]}
    if name == "add":
        return {name: [bad, good(scene, name), bad]}
    return {name: [bad], "add": [good(scene, name)]}


def ask(scene: Scene, name: str, answer: Any) -> Any:
    return scene.consolidate(answer) if name == "actions" else scene.extract(answer)


def kept(scene: Scene, name: str, answer: dict[str, Any]) -> bool:
    """Whether the good action of an answer is what is believed or proposed now."""
    if name == "actions":
        text = answer["actions"][1]["text"]
        return text in [each.content for each in scene.ledger.observations.list(limit=5)]
    text = answer["add"][len(answer["add"]) // 2]["content"]
    return text in [each.content for each in scene.ledger.memories.list(statuses=(), limit=5)]


@pytest.mark.parametrize(
    ("name", "action"), TALES, ids=lambda each: each if isinstance(each, str) else "-".join(each)[:30]
)
def test_half_a_character_in_an_action_drops_that_action_alone(scene: Scene, name: str, action: dict[str, Any]) -> None:
    for where, bad in spoilt(action, WHERE_HALF):
        before, answer = scene.calls, beside(scene, name, bad)
        ask(scene, name, answer)
        assert kept(scene, name, answer), where
        assert scene.calls == before + 1 and scene.last().ok, where


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "action"), TALES, ids=lambda each: each if isinstance(each, str) else "-".join(each)[:30]
)
def test_whatever_stands_in_an_action_loses_no_other(scene: Scene, name: str, action: dict[str, Any]) -> None:
    for where, bad in islice(spoilt(action, VALUES), None, None, 1 if LONG else 6):
        before, answer = scene.calls, beside(scene, name, bad)
        ask(scene, name, answer)
        assert kept(scene, name, answer), where
        assert scene.calls == before + 1 and scene.last().ok, where


@pytest.mark.parametrize("raw", [True, False], ids=["as it is", "escaped"])
@pytest.mark.parametrize("field", ["text", "reason"])
def test_an_action_with_half_a_character_is_dropped_as_no_text(scene: Scene, field: str, raw: bool) -> None:
    answer = {"actions": [CREATE | {field: f"caf{HALF}"}, good(scene, "actions")]}
    found = scene.consolidate(json.dumps(answer, ensure_ascii=not raw))
    assert (found.formed, found.skipped) == (1, {"no_text": 1})
    (entry,) = scene.ledger.history.audit(type="ModelCalled")
    data: Any = entry.data
    assert [each["outcome"] for each in data["actions"]] == ["kept", "no_text"]
    assert HALF not in str(data["texts"])


@pytest.mark.parametrize("way", ["consolidate", "extract", "extract_turn", "summarise"])
def test_every_hostile_answer_leaves_the_record_of_its_call(scene: Scene, way: str) -> None:
    texts = (*TEXTS, *(f"```json\n{each}\n```" for each in TEXTS), *(f'{{"add": [{each[:9_000]}' for each in TEXTS))
    texts = TEXTS[:2] if way == "summarise" else texts  # each of these is about many messages
    errors = (ModelError("no", kind=each, status=each, retry_after=each) for each in (HALF, 7, -1, None, [], 10**40))  # type: ignore[arg-type]
    for answer in (*texts, HALF, f"They saw the caf{HALF}.", *errors):
        before = scene.calls
        with suppress(ModelError):
            getattr(scene, way)(answer)
        assert scene.calls > before, repr(answer)[:80]
