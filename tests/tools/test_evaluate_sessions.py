"""The evaluation of sessions reads a conversation with the times that it names."""

from __future__ import annotations

import pytest

from ledger import Ledger
from tools.evaluate.evaluate_sessions import evaluate, messages


@pytest.mark.parametrize(
    ("said", "stored"),
    [
        ("2026-03-01T10:00:00+02:00", "2026-03-01T08:00:00.000000Z"),
        ("2026-03-01T10:00:00Z", "2026-03-01T10:00:00.000000Z"),
        ("2026-03-01T10:00:00", "2026-03-01T10:00:00.000000Z"),
        ("1:56 pm on 8 May, 2023", "2023-05-08T13:56:00.000000Z"),
    ],
)
def test_a_turn_keeps_its_time_with_an_offset_or_without(ledger: Ledger, said: str, stored: str) -> None:
    turns = [{"speaker": "Ann", "text": "Hello", "date_time": said}, {"speaker": "Bob", "text": "Hi"}]
    ledger.session("talk").reconcile(messages({"turns": turns}))
    assert ledger.session("talk").messages()[0].occurred_at == stored


def test_a_conversation_with_offsets_is_evaluated() -> None:
    turns = [
        {"dia_id": f"D1:{n}", "speaker": "AB"[n % 2], "text": f"Sentence number {n} is about ships.",
         "date_time": f"2026-03-01T10:{n:02}:00+01:00"}
        for n in range(40)
    ]  # fmt: skip
    talk = {"sample_id": "talk", "turns": turns, "qa": [{"evidence": ["D1:3"]}]}
    (came,) = evaluate(talk, [1_000])
    assert came.ok and came.evidence == 1
