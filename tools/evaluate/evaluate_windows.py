"""An evaluation of session windows: the share of the history that an agent is shown, turn after turn.

    python tools/evaluate/evaluate_windows.py DATA… [--budgets 4000,8000,32000] [--turns 400] [--json]
    python tools/evaluate/evaluate_windows.py --survival FILE… [--part 0.3] [--ablate] [--lost] [--extract [--share 0.2]]

With ``--survival`` a FILE is like tests/corpus/compacted_conversations.jsonl: conversations with planted items, each with the
texts that must all stand in the rendered window for the item to have survived. Of each conversation a third (or a fifth) is
appended, then ``compact(budget, until_under=True)`` follows, and so on; the budget is 30 % of the tokens so far. It is printed
after one, three and five rounds, by the kinds of items: without a model, and with a perfect summarizer, which writes the items'
texts and nothing else. ``--ablate`` leaves out each sign of a weighty sentence, ``--lost`` prints the items that were lost.
``--extract`` measures ``compact(budget, until_under=True, extract=True)`` and ``window(budget, share=0.2)``, with the rules and
with a perfect extractor, which finds each item with its texts and nothing else; beside them ``window(budget)`` of the same
sessions.

DATA is as for ``evaluate.py``. Each conversation is one session, and after each of its first 400 turns come ``compact(budget)``
and ``window(budget)``, with summaries of the first words of each text. A window represents the messages in it and the
messages that its summaries cover. The same is measured for an agent that makes 60 tool calls of 2,000 tokens in one turn,
after 40 messages of talk. The exit code is 1 if a window lacks the newest user message, or if it is over its budget although
that message fits.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from ledger import Ledger, Session, Settings
from ledger.answers import Window
from ledger.domain.tokens import estimate
from ledger.english import weighing
from ledger.types import ModelRequest, SummaryRequest
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


# --- what survives ---------------------------------------------------------------------------------------------------

ROUNDS = (1, 3, 5)
KINDS = ("rule", "limit", "fact", "goal", "preference", "decision")
MEMORY_KINDS = {"limit": "rule", "fact": "knowledge", "decision": "project"} | {
    kind: kind for kind in ("rule", "goal", "preference")
}
_READ = re.compile(r"^\[(\d+)\] (\w+)[^(\n]*\([^)\n]*\): (.*(?:\n(?!\[\d+\] ).*)*)", re.MULTILINE)


class Item(Struct):
    """A planted item: its kind, the index of its message, and the texts that must survive."""

    kind: str
    message: int
    needs: list[str]

    def stands_in(self, text: str) -> bool:
        return all(need.casefold() in text for need in self.needs)


class Planted(Struct):
    """A conversation with planted items."""

    name: str
    language: str
    messages: list[dict[str, str]]
    items: list[Item]


def told(session: Session, messages: Sequence[Mapping[str, str]], start: int, end: int) -> None:
    """Append messages; a tool's message answers a call of the message before it."""
    for at in range(start, end):
        role, content = messages[at]["role"], messages[at]["content"]
        calls, later = list[dict[str, Any]](), at + 1
        while role != "tool" and later < len(messages) and messages[later]["role"] == "tool":
            calls.append({"id": f"c{later}", "type": "function", "function": {"name": "run", "arguments": "{}"}})
            later += 1
        if role == "tool":
            session.append("tool", content, tool_call_id=f"c{at}")
        elif role == "user":
            session.append("user", content)
            if calls:
                session.append("assistant", "", tool_calls=calls)
        else:
            session.append(role, content, tool_calls=calls)  # type: ignore[arg-type]


def finder_of(talk: Planted) -> Callable[[ModelRequest], str]:
    """Return a perfect extractor: a model that finds the planted items in the messages that it reads."""

    def answer(request: ModelRequest) -> str:
        _, _, read = request.content.partition("<conversation>")
        found = list[dict[str, Any]]()
        for number, role, text in _READ.findall(read):
            found += [
                {
                    "content": f"{item.kind}: {', '.join(item.needs)}",
                    "kind": MEMORY_KINDS[item.kind],
                    "confidence": 0.95,
                    "said_by": role,
                    "messages": [int(number)],
                    "quote": text.strip().splitlines()[0],
                }
                for item in talk.items
                if item.stands_in(text.casefold())
            ]
        return json.dumps({"add": found} if request.purpose == "extraction" else {})

    return answer


def survivors(
    talk: Planted,
    rounds: int,
    part: float,
    *,
    perfect: bool,
    model: object = None,
    shares: Sequence[float | None] = (None,),
) -> list[tuple[list[Item], float]]:
    """Return for each share of a window the items that survive so many rounds, and the part of the budget that is used.

    With other shares than None each compaction first reads what leaves for memories, with a model or by rules.
    """

    def summarize(request: SummaryRequest) -> str:
        """Return what was planted in the texts, as much as the target holds."""
        texts = "\n".join(request.texts).casefold()
        kept = [", ".join(item.needs) for item in talk.items if item.stands_in(texts)]
        while kept and estimate("\n".join(kept)) > request.target_tokens:
            kept.pop()
        return "\n".join(kept) or "Nothing."

    with (
        tempfile.TemporaryDirectory(prefix="windows-") as home,
        Ledger.open(
            Path(home) / "memory.db",
            summarizer=summarize if perfect else None,
            model=model,  # type: ignore[arg-type]
            settings=Settings(summaries=False),
        ) as ledger,
    ):
        session, done = ledger.session(talk.name), 0
        for number in range(1, rounds + 1):
            end = len(talk.messages) * number // rounds
            told(session, talk.messages, done, end)
            done, budget = end, max(1, int(part * session.info().tokens))
            session.compact(budget, until_under=True, extract=shares != (None,))
        windows = [session.window(budget, share=share) for share in shares]
    results = list[tuple[list[Item], float]]()
    for window in windows:
        text = "\n".join(str(message.get("content")) for message in window.render().messages).casefold()
        results.append(([item for item in talk.items if item.stands_in(text)], window.used / budget))
    return results


def extracted(talks: Sequence[Planted], part: float, share: float, show: Callable[[str], object]) -> None:
    """Print what survives if each compaction reads what leaves for memories."""
    show(HEADER.format("extractor", "share"))
    for name in ("rules", "perfect"):
        for rounds in ROUNDS:
            shares = (None, share)
            found = [
                survivors(
                    talk,
                    rounds,
                    part,
                    perfect=False,
                    model=finder_of(talk) if name == "perfect" else None,
                    shares=shares,
                )
                for talk in talks
            ]
            for at, of_memories in enumerate(shares):
                show(line(f"{name} {of_memories or 0}", rounds, talks, [results[at] for results in found]))


HEADER = "{:9} {:5} rounds   all  " + "  ".join(f"{kind:>10}" for kind in KINDS) + "   used"


def line(name: str, rounds: int, talks: Sequence[Planted], found: Sequence[tuple[list[Item], float]]) -> str:
    """Return the figures of a table for all conversations."""
    kept = [item.kind for items, _ in found for item in items]
    planted = [item.kind for talk in talks for item in talk.items]
    kinds = "  ".join(f"{kept.count(kind):>4} of {planted.count(kind):>2}" for kind in KINDS)
    used = min(used for _, used in found)
    return f"{name:15} {rounds:>6} {len(kept) / len(planted):5.0%}  {kinds}  {used:5.0%}"


def survival(talks: Sequence[Planted], part: float, show: Callable[[str], object], *, lost: bool = False) -> None:
    show(HEADER.format("summaries", ""))
    for perfect in (False, True):
        for rounds in ROUNDS:
            found = [survivors(talk, rounds, part, perfect=perfect)[0] for talk in talks]
            show(line("perfect" if perfect else "no model", rounds, talks, found))
            for talk, (items, _) in zip(talks, found, strict=True) if lost and not perfect and rounds == 1 else ():
                for item in talk.items:
                    if item not in items:
                        show(f"  {talk.name} {item.kind} {item.needs}: {talk.messages[item.message]['content']}")


def ablation(talks: Sequence[Planted], part: float, show: Callable[[str], object]) -> None:
    """Print what survives one round without each sign, in points against all signs."""
    weights, planted = weighing.WEIGHTS, sum(len(talk.items) for talk in talks)

    def kept(without: str) -> float:
        weighing.WEIGHTS = {sign: 0.0 if sign == without else weight for sign, weight in weights.items()}
        weighing._weight.cache_clear()
        return 100 * sum(len(survivors(talk, 1, part, perfect=False)[0][0]) for talk in talks) / planted

    whole = kept("")
    show(f"all signs {whole:.1f} %")
    for sign in weights:
        show(f"without {sign:11} {kept(sign) - whole:+.1f}")


def main(arguments: Sequence[str] | None = None, show: Callable[[str], object] = print) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("data", nargs="*")
    parser.add_argument("--budgets", default="4000,8000,32000")
    parser.add_argument("--turns", type=int, default=400)
    parser.add_argument("--calls", type=int, default=CALLS)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--survival", action="store_true")
    parser.add_argument("--part", type=float, default=0.3)
    parser.add_argument("--ablate", action="store_true")
    parser.add_argument("--extract", action="store_true")
    parser.add_argument("--share", type=float, default=0.2)
    parser.add_argument("--lost", action="store_true")
    options = parser.parse_args(arguments)
    if options.survival:
        lines = [line for path in options.data for line in Path(path).read_bytes().splitlines() if line.strip()]
        planted = [msgspec.json.decode(line, type=Planted) for line in lines]
        if options.ablate:
            ablation(planted, options.part, show)
        elif options.extract:
            extracted(planted, options.part, options.share, show)
        else:
            survival(planted, options.part, show, lost=options.lost)
        return 0
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
