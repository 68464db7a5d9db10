"""An evaluation of compaction: every piece of evidence in a long conversation must still be found and reached.

    python tools/evaluate/evaluate_sessions.py DATA… [--budgets 32000,8000] [--dates FORMAT] [--json]

DATA is as for ``evaluate.py``. Each conversation is one session, which is compacted without a model until its window fits
into each of the budgets. Then ``grep`` must find each evidence turn of a question by its longest sentence, as a quoted text.
The turn must also be reached from the window: it is in the window, or ``expand`` reaches it beneath a summary, called again
with the rest of the last call until there is no rest. The exit code is 1 if a turn is missed or a window is over its budget.
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
from ledger.interactions import dates
from ledger.sessions.answers import Summary
from tools.evaluate.evaluate import load

ASSISTANTS = ("assistant", "ai", "bot")
STEP_TOKENS = 4_000


class Came(Struct, frozen=True):
    """The figures of one conversation compacted to one budget."""

    conversation: str
    budget: int
    messages: int
    tokens_before: int
    tokens_after: int
    summaries: int
    calls: int  # the calls of compact
    evidence: int
    found: int
    reached: int
    assembled: int  # tokens of an assembly with this budget
    seconds: float

    @property
    def ok(self) -> bool:
        return self.tokens_after <= self.budget and self.found == self.reached == self.evidence


def messages(conversation: dict[str, Any], date_format: str | None = None) -> Iterable[dict[str, Any]]:
    """Yield the turns as messages; of two people the one who does not begin takes the assistant's place."""
    turns = conversation["turns"]
    first = turns[0]["speaker"]
    for turn in turns:
        speaker = turn["speaker"]
        role = "assistant" if speaker.lower() in ASSISTANTS or speaker != first else "user"
        message = {"role": role, "content": turn["text"]}
        at = dates.read(turn.get("date_time"), date_format)
        yield message | ({"created_at": at} if at is not None else {})


def evaluate(conversation: dict[str, Any], budgets: Sequence[int], date_format: str | None = None) -> list[Came]:
    came = []
    with tempfile.TemporaryDirectory(prefix="evaluate-") as home, Ledger.open(Path(home) / "memory.db") as ledger:
        session = ledger.session(conversation["sample_id"])
        session.reconcile(messages(conversation, date_format))
        stored = sorted(session.messages(limit=1_000).all(), key=lambda message: message.position)
        positions = dict(zip((turn["dia_id"] for turn in conversation["turns"]), stored, strict=True))
        evidence = sorted({id for question in conversation["qa"] for id in question["evidence"] if id in positions})
        evidence_messages = [positions[id] for id in evidence]
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
                    messages=len(stored),
                    tokens_before=before.window_tokens,
                    tokens_after=report.tokens_after,
                    summaries=len(in_window(session)),
                    calls=calls,
                    evidence=len(evidence_messages),
                    found=sum(is_found(session, message) for message in evidence_messages),
                    reached=sum(message.position in reached for message in evidence_messages),
                    assembled=session.window(budget).used,
                    seconds=time.perf_counter() - started,
                )
            )
        problems = ledger.proof.verify().problems
        if problems:
            raise RuntimeError(problems[0])
    return came


def is_found(session: Session, message: Any) -> bool:
    """Return True if grep for the longest sentence of a message has the message among its hits."""
    longest = max(
        (sentence.strip() for sentence in re.split(r"(?<=[.!?])\s+|\n+", message.content)), key=len, default=""
    )
    longest = longest if len(longest) <= 300 else longest[:300].rsplit(" ", 1)[0]
    quoted = longest.replace('"', '""')
    hits = session.grep(f'"{quoted}"', scope="message", limit=100)
    return any(hit.position == message.position for hit in hits)


def in_window(session: Session) -> list[Summary]:
    return list(session.summaries.list(statuses=["window"]).all())


def reachable(session: Session) -> set[int]:
    """Return the positions of all messages that are in the window or beneath one of its summaries."""
    positions = {item.position for item in session.items() if not item.is_summary}
    for summary in in_window(session):
        left: Any = [summary.id]
        while left:
            expansion = session.expand(left, budget=STEP_TOKENS)
            positions |= {message.position for message in expansion.messages}
            left = expansion.rest
    return positions


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("data", nargs="+")
    parser.add_argument("--budgets", default="32000,8000")
    parser.add_argument("--dates", metavar="FORMAT", help="the format of the dates, as import --dates takes it")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    budgets = sorted(map(int, options.budgets.split(",")), reverse=True)
    came = [result for path in options.data for talk in load(path) for result in evaluate(talk, budgets, options.dates)]
    if options.json:
        print(json.dumps(msgspec.to_builtins(came), indent=1))
    else:
        heads = f"{'conversation':16} {'budget':>7} {'messages':>8} {'before':>8} {'after':>7} {'summaries':>9}"
        print(heads, "evidence found reached  seconds")
        for result in came:
            print(
                f"{result.conversation:16} {result.budget:>7,} {result.messages:>8,}"
                f" {result.tokens_before:>8,} {result.tokens_after:>7,} {result.summaries:>9}"
                f" {result.evidence:>8} {result.found:>5} {result.reached:>7} {result.seconds:>8.2f}"
                + ("" if result.ok else "  NOT OK")
            )
        whole = sum(result.evidence for result in came)
        print(f"{len(came)} compactions; of {whole:,} pieces of evidence {sum(result.found for result in came):,} found,"
              f" {sum(result.reached for result in came):,} reached")  # fmt: skip
    return int(not all(result.ok for result in came))


if __name__ == "__main__":
    raise SystemExit(main())
