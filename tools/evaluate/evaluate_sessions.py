"""Whether long conversations lose anything when they are compacted: every piece of evidence is looked for and reached.

    python tools/evaluate/evaluate_sessions.py DATA… [--budgets 32000,8000] [--json]

DATA is as for ``evaluate.py``. Each conversation is one session; without a model it is compacted until its window takes no
more than each of the budgets. Then each turn that a question has as evidence must be found by ``grep`` (the longest sentence
of it, as a quoted text) and be reached from the window: it is in it itself, or beneath one of its summaries by ``expand``,
called again with what the last call left out until nothing is. Exit code 1 where one is not, or a window is over its budget.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from ledger import Ledger, Session
from ledger.interactions.conversations import _time
from ledger.sessions.answers import Summary
from tools.evaluate.evaluate import load

ASSISTANTS = ("assistant", "ai", "bot")
STEP_TOKENS = 4_000


class Came(Struct, frozen=True):
    """What one conversation came to at one budget."""

    conversation: str
    budget: int
    messages: int
    tokens_before: int
    tokens_after: int
    summaries: int
    calls: int  # of compact
    evidence: int
    found: int
    reached: int
    assembled: int  # tokens of an assembly with this budget
    seconds: float

    @property
    def ok(self) -> bool:
        return self.tokens_after <= self.budget and self.found == self.reached == self.evidence


def messages(conversation: dict[str, Any]) -> Iterable[dict[str, Any]]:
    """The turns as messages; of two people the one who does not begin takes the assistant's place."""
    turns = conversation["turns"]
    first = turns[0]["speaker"]
    for turn in turns:
        speaker = turn["speaker"]
        role = "assistant" if speaker.lower() in ASSISTANTS or speaker != first else "user"
        told = {"role": role, "content": turn["text"]}
        at = _time(turn.get("date_time"))
        yield told | ({"created_at": f"{at}Z"} if at is not None else {})


def evaluate(conversation: dict[str, Any], budgets: Sequence[int]) -> list[Came]:
    came = []
    with tempfile.TemporaryDirectory(prefix="evaluate-") as home, Ledger.open(Path(home) / "memory.db") as ledger:
        session = ledger.session(conversation["sample_id"])
        session.reconcile(messages(conversation))
        said = sorted(session.messages(limit=1_000).all(), key=lambda each: each.position)
        positions = dict(zip((turn["dia_id"] for turn in conversation["turns"]), said, strict=True))
        evidence = sorted({id for one in conversation["qa"] for id in one["evidence"] if id in positions})
        wanted = [positions[id] for id in evidence]
        for budget in budgets:
            started, before, calls = time.perf_counter(), session.info(), 0
            while True:
                report, calls = session.compact(budget, until_under=True), calls + 1
                if report.under or not report.created:
                    break
            reached = reachable(session)
            came.append(
                Came(
                    conversation=conversation["sample_id"],
                    budget=budget,
                    messages=len(said),
                    tokens_before=before.window_tokens,
                    tokens_after=report.tokens_after,
                    summaries=len(in_window(session)),
                    calls=calls,
                    evidence=len(wanted),
                    found=sum(found(session, each) for each in wanted),
                    reached=sum(each.position in reached for each in wanted),
                    assembled=session.window(budget).used,
                    seconds=time.perf_counter() - started,
                )
            )
        problems = ledger.proof.verify().problems
        if problems:
            raise RuntimeError(problems[0])
    return came


def found(session: Session, message: Any) -> bool:
    """Whether grep has the message among its hits, for the longest sentence of it."""
    longest = max((each.strip() for each in re.split(r"(?<=[.!?])\s+|\n+", message.content)), key=len, default="")
    longest = longest if len(longest) <= 300 else longest[:300].rsplit(" ", 1)[0]
    quoted = longest.replace('"', '""')
    hits = session.grep(f'"{quoted}"', scope="message", limit=100)
    return any(hit.position == message.position for hit in hits)


def in_window(session: Session) -> list[Summary]:
    return list(session.summaries.list(statuses=["window"]).all())


def reachable(session: Session) -> set[int]:
    """The positions of every message that the window has, or that is beneath one of its summaries."""
    there = {item.position for item in session.items() if not item.is_summary}
    for summary in in_window(session):
        left: Any = [summary.id]
        while left:
            expansion = session.expand(left, budget=STEP_TOKENS)
            there |= {message.position for message in expansion.messages}
            left = expansion.rest
    return there


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("data", nargs="+")
    parser.add_argument("--budgets", default="32000,8000")
    parser.add_argument("--json", action="store_true")
    told = parser.parse_args(arguments)
    budgets = sorted(map(int, told.budgets.split(",")), reverse=True)
    came = [each for path in told.data for one in load(path) for each in evaluate(one, budgets)]
    if told.json:
        print(json.dumps(msgspec.to_builtins(came), indent=1))
    else:
        heads = f"{'conversation':16} {'budget':>7} {'messages':>8} {'before':>8} {'after':>7} {'summaries':>9}"
        print(heads, "evidence found reached  seconds")
        for each in came:
            print(
                f"{each.conversation:16} {each.budget:>7,} {each.messages:>8,} {each.tokens_before:>8,} {each.tokens_after:>7,}"
                f" {each.summaries:>9} {each.evidence:>8} {each.found:>5} {each.reached:>7} {each.seconds:>8.2f}"
                + ("" if each.ok else "  NOT OK")
            )
        whole = sum(each.evidence for each in came)
        print(f"{len(came)} compactions; of {whole:,} pieces of evidence {sum(each.found for each in came):,} found,"
              f" {sum(each.reached for each in came):,} reached")  # fmt: skip
    return int(not all(each.ok for each in came))


if __name__ == "__main__":
    raise SystemExit(main())
