"""An evaluation of session windows: the share of the history that an agent is shown, turn after turn.

    python tools/evaluate/evaluate_windows.py DATA… [--budgets 4000,8000,32000] [--turns 400] [--json]

DATA is as for ``evaluate.py``. Each conversation is one session, and after each of its first 400 turns come ``compact(budget)``
and ``window(budget)``, with summaries of the first words of each text. A window represents the messages in it and the
messages that its summaries cover. The same is measured for an agent that makes 60 tool calls of 2,000 tokens in one turn,
after 40 messages of talk. The exit code is 1 if a window lacks the newest user message, or if it is over its budget although
that message fits.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from ledger import Ledger, Session
from ledger.answers import Window
from ledger.domain.tokens import estimate
from ledger.types import SummaryRequest
from tools.evaluate.evaluate import load
from tools.evaluate.evaluate_sessions import messages

CALLS, CALL_TOKENS, TALK = 60, 2_000, 40
TEXT = "the build read every file of the module and found no error in it but one warning about a name"


class Seen(Struct, frozen=True):
    """The figures of the windows of one conversation at one budget; shares are of messages, from 0 to 1."""

    conversation: str
    budget: int
    windows: int
    messages: int
    tokens: int
    mean: float  # the mean share that a window represents
    least: float
    last: float
    direct: float  # the share that is in the last window word for word
    compacted: int  # windows of sessions with a summary
    without_summary: int  # of the compacted windows: without any summary
    evicted: int  # windows that left a summary out
    shortened: int  # windows with shortened tool results
    over_budget: int
    unavoidable: int  # of those over budget: the newest user message and the last message alone take more
    lost_requests: int  # windows without the newest user message
    calls: int  # the calls of the summarizer

    @property
    def ok(self) -> bool:
        return not self.lost_requests and self.over_budget == self.unavoidable


def first_words(request: SummaryRequest) -> str:
    """Return the first words of each text, as many as the target has room for."""
    texts = [text.partition(": ")[2] or text for text in request.texts]
    count = max(1, request.target_tokens * 2 // (3 * len(texts)))
    while True:
        summary = " / ".join(" ".join(text.split()[:count]) for text in texts)
        if estimate(summary) <= request.target_tokens or count == 1:
            return summary[: request.target_tokens * 4] if estimate(summary) > request.target_tokens else summary
        count = count * 3 // 4 or 1


def play(name: str, talk: Iterable[Mapping[str, Any]], budget: int) -> Seen:
    """Play a conversation into a session and return the figures of its windows."""
    calls = 0

    def summarize(request: SummaryRequest) -> str:
        nonlocal calls
        calls += 1
        return first_words(request)

    with (
        tempfile.TemporaryDirectory(prefix="windows-") as home,
        Ledger.open(Path(home) / "memory.db", summarizer=summarize) as ledger,
    ):
        session = ledger.session(name)
        shares, tally, sizes = list[float](), Tally(), dict[int, int]()
        for message in talk:
            stored = session.append(**message)
            sizes[stored.position] = stored.tokens
            tally.request = stored if stored.role == "user" else tally.request
            session.compact(budget)
            window = session.window(budget)
            shares.append(len(represented(window, sizes)) / len(sizes))
            tally.count(session, window, stored)
        direct = sum(not item.is_summary for item in window.items)
    return Seen(
        conversation=name,
        budget=budget,
        windows=len(shares),
        messages=len(sizes),
        tokens=sum(sizes.values()),
        mean=sum(shares) / len(shares),
        least=min(shares),
        last=shares[-1],
        direct=direct / len(sizes),
        compacted=tally.compacted,
        without_summary=tally.without,
        evicted=tally.evicted,
        shortened=tally.shortened,
        over_budget=tally.over,
        unavoidable=tally.unavoidable,
        lost_requests=tally.lost,
        calls=calls,
    )


class Tally:
    """The counts of windows with a property, such as a shortened tool result."""

    def __init__(self) -> None:
        self.compacted = self.without = self.evicted = self.shortened = self.over = self.unavoidable = self.lost = 0
        self.request: Any = None

    def count(self, session: Session, window: Window, newest: Any) -> None:
        summaries, known = sum(item.is_summary for item in window.items), session.info().summaries
        self.compacted += known > 0
        self.without += known > 0 and not summaries
        self.evicted += window.summaries_evicted > 0
        self.shortened += any(entry.shortened is not None for entry in window.entries)
        self.over += window.over_budget
        request = self.request
        if request is None:
            return
        shown = {entry.item.position: entry for entry in window.entries}.get(request.position)
        self.lost += shown is None or shown.content != request.content
        needed = request.tokens + (newest.tokens if newest is not request else 0)
        self.unavoidable += window.over_budget and needed > window.budget


def represented(window: Window, positions: Iterable[int]) -> set[int]:
    """Return the positions of the messages that are in a window or covered by one of its summaries."""
    direct = {item.position for item in window.items if not item.is_summary}
    spans = [span for item in window.items for span in item.ranges]
    return {
        position
        for position in positions
        if position in direct or any(first <= position <= last for first, last in spans)
    }


def conversation(turns: dict[str, Any], most: int) -> Iterator[dict[str, Any]]:
    for number, message in enumerate(messages(turns)):
        if number < most:
            yield {"role": message["role"], "content": message["content"]}


def coding(calls: int = CALLS, tokens: int = CALL_TOKENS, talk: int = TALK) -> Iterator[dict[str, Any]]:
    """Yield some talk, then a request that takes many tool calls."""
    for number in range(talk):
        yield {
            "role": ("user", "assistant")[number % 2],
            "content": f"Message {number} of the talk: {words(60, number)}",
        }
    yield {"role": "user", "content": "Find out why the build fails, and mend it without touching the tests."}
    for number in range(calls):
        call = {
            "id": f"call_{number}",
            "type": "function",
            "function": {"name": "read", "arguments": f'{{"file": {number}}}'},
        }
        yield {"role": "assistant", "content": f"Step {number}.", "tool_calls": [call]}
        yield {"role": "tool", "content": words(tokens, number), "tool_call_id": f"call_{number}"}


def words(count: int, seed: int) -> str:
    vocabulary = TEXT.split()
    return " ".join(vocabulary[(seed + at) % len(vocabulary)] for at in range(count))


def main(arguments: Sequence[str] | None = None, show: Callable[[str], object] = print) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("data", nargs="*")
    parser.add_argument("--budgets", default="4000,8000,32000")
    parser.add_argument("--turns", type=int, default=400)
    parser.add_argument("--calls", type=int, default=CALLS)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    budgets = list(map(int, options.budgets.split(",")))
    talks = {
        turns["sample_id"]: list(conversation(turns, options.turns)) for path in options.data for turns in load(path)
    }
    talks["60 tool calls" if options.calls == CALLS else f"{options.calls} tool calls"] = list(coding(options.calls))
    results = [play(name, talk, budget) for name, talk in talks.items() for budget in budgets]
    if options.json:
        show(json.dumps(msgspec.to_builtins(results), indent=1))
        return int(not all(result.ok for result in results))
    show(
        f"{'conversation':16} {'budget':>7} {'windows':>7}  mean least  last direct  no summary evicted short over lost calls"
    )
    for result in results:
        shares = " ".join(f"{share:5.0%}" for share in (result.mean, result.least, result.last, result.direct))
        show(
            f"{result.conversation:16} {result.budget:>7,} {result.windows:>7} {shares}"
            f"  {result.without_summary:>4}/{result.compacted:<5} {result.evicted:>7} {result.shortened:>5}"
            f" {result.over_budget:>4} {result.lost_requests:>4} {result.calls:>5}" + ("" if result.ok else "  NOT OK")
        )
    return int(not all(result.ok for result in results))


if __name__ == "__main__":
    raise SystemExit(main())
