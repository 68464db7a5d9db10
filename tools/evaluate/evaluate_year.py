"""An evaluation of a year in a person's life, played through ``add``, by questions on 31 December; public library only.

    python tools/evaluate/evaluate_year.py [years/shop.jsonl …] [--modes rules,model,command,agent,baselines]
        [--vectors wordllama] [--budget 400] [--every 20] [--questions FILE] [--list] [--json]

A file holds the turns of one invented person and the questions at the end of the year. Each question has the right strings
(``right``), of which one has to be in the prompt, and the strings of values that are outdated by then. The ``facts`` of a turn
are the facts that a perfect extractor would write. Each mode is a ledger of its own, with a clock that follows the turns:

- ``rules``: the defaults without a model; ``weekly-rules`` runs the jobs every seventh day.
- ``model``: a perfect extractor as the model; it can replace or retract only the facts in its prompt. ``weekly`` runs
  the jobs every seventh day.
- ``command``: the perfect extractor as a program of its own (``model_command``), asked at the end of each session, as by a hook.
- ``agent``: no model; after every twentieth turn a scripted agent reads the unread turns over MCP, as a coding agent does, and
  hands in what the perfect extractor answers, with quotes of the user's words.
- ``baselines``: the last 40 turns, the last 80 turns and the whole year as the prompt.

``--questions`` names a file of more questions, each with the ``year`` (the name of a file) whose facts answer it; without that
field every year is asked. They have a table of their own.

The second table is what learning costs: requests to a model, or calls of tools by an agent, and the tokens of both directions by
our estimate. A request to a model has the schema of the answer in it. What a program adds to its prompt comes on top.

An answer is right if a line of the prompt has one of the right strings as whole words; an outdated line has an outdated string
and no right one. ``first`` counts, among the questions with an outdated value, those with a right line before every outdated
line. ``line`` is the number of the first right line, on average over the right answers. The figures do not show that a model
understands the lines.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ledger import AsyncLedger, Ledger
from ledger.domain.tokens import estimate
from ledger.types import CommandModel, ModelRequest

if TYPE_CHECKING:
    from mcp import Client

YEARS = Path(__file__).parent / "years"
MODES = ("rules", "weekly-rules", "model", "weekly", "command", "agent", "baselines")
USER = "someone"
READING = 8_000  # tokens of one reading of the agent
END = datetime(2026, 12, 31, 20, tzinfo=UTC)
_SHOWN = re.compile(r"^\[(\d+)\] (.*)$", re.MULTILINE)
_SAID = re.compile(r"^user(?: [^(]*)? \([^)]*\): (.*)$")
_WORD = re.compile(r"\w+")
_DATE = re.compile(r"\b\d{1,2} [A-Z][a-z]{2} 2026\b")


class Year(NamedTuple):
    """The turns of a person, in order, and the questions at the end."""

    path: Path
    turns: list[dict[str, Any]]
    questions: list[dict[str, Any]]
    others: str = ""  # the file of the questions, if it is another

    @property
    def name(self) -> str:
        return self.path.stem + self.others


class Outcome(NamedTuple):
    """The figures of one mode on the questions of one year; ``misses`` are the questions without a right line.

    ``clean`` counts the right answers without an outdated line, and ``lines`` sums the numbers of the first right lines.
    """

    mode: str
    questions: int
    right: int
    clean: int
    outdated: int
    changed: int
    first: int
    lines: int
    tokens: int
    undated: int
    calls: Mapping[str, int]
    misses: list[str]


def load(path: Path) -> Year:
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    turns = [row for row in rows if row["type"] == "turn"]
    return Year(path, turns, [row for row in rows if row["type"] == "question"])


def asked_more(path: Path, year: Year) -> Year:
    """Return the year with the questions of a file in place of its own."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    questions = [row for row in rows if row["type"] == "question" and row.get("year", year.name) == year.name]
    return Year(year.path, year.turns, questions, f", {path.name}")


# --- a perfect extractor -----------------------------------------------------------------------------------------------


class PerfectExtractor:
    """A model that knows the facts of every turn, and replaces or retracts an older fact if the fact is in its prompt."""

    name = "perfect-extractor"

    def __init__(self, year: Year) -> None:
        self._facts = {fact["id"]: fact["content"] for turn in year.turns for fact in turn.get("facts", ())}
        self._turns = {_key(turn["user"]): turn for turn in year.turns}
        self.counts = Counter[str]()

    def __call__(self, request: ModelRequest) -> str:
        self.counts[request.purpose] += 1
        answer = json.dumps(self.found(request.content) if request.purpose == "extraction" else {})
        count_cost(self.counts, request.as_text(), answer)
        return answer

    def found(self, text: str) -> dict[str, list[dict[str, Any]]]:
        """Return the answer to a request for facts, as an object."""
        facts_shown, _, conversation = text.partition("<conversation>")
        numbers = {content.strip(): int(number) for number, content in _SHOWN.findall(facts_shown)}
        answer: dict[str, list[dict[str, Any]]] = {"add": [], "supersede": [], "retract": []}
        stated = set[str]()  # the facts of this request
        for number, line in _SHOWN.findall(conversation):
            words = _SAID.match(line)
            turn = self._turns.get(_key(words[1])) if words else None
            if turn is None:
                continue
            source = {"said_by": "user", "messages": [int(number)]}
            for fact in turn.get("facts", ()):
                said = source | {"quote": quote(turn["user"], fact["content"])}
                action = said | {"content": fact["content"], "kind": fact["kind"], "confidence": 0.95}
                replaced = self._known(fact.get("replaces", ()), numbers, stated)
                answer["supersede" if replaced else "add"].append(action | (replaced[0] if replaced else {}))
                answer["retract"] += [said | known for known in replaced[1:]]
                stated.add(fact["content"])
            for id in turn.get("ends", ()):
                said = source | {"quote": quote(turn["user"], self._facts[id])}
                answer["retract"] += [said | known for known in self._known([id], numbers, stated)]
        return answer

    def _known(
        self, ids: Sequence[str], numbers: Mapping[str, int], stated: Collection[str]
    ) -> list[dict[str, int | str]]:
        """Return the facts that a turn changes: the number of a shown fact, and the text of a fact of the same request."""
        known = list[dict[str, int | str]]()
        for content in (self._facts[id] for id in ids):
            if content in stated:
                known.append({"old": content})
                continue
            self.counts["changes"] += 1
            if content in numbers:
                self.counts["changes whose fact was shown"] += 1
                known.append({"fact": numbers[content]})
        return known


def count_cost(counts: Counter[str], read: str, answered: str) -> None:
    counts["calls"] += 1
    counts["tokens read"] += estimate(read)
    counts["tokens answered"] += estimate(answered)


def quote(said: str, fact: str) -> str:
    """Return the sentence of the user that shares most words with a fact."""
    about = {*_WORD.findall(fact.lower())}
    sentences = [part.strip() for part in re.split(r"(?<=[.!?;\n])\s+", said) if len(_WORD.findall(part)) > 1]
    return max(sentences, key=lambda part: len(about.intersection(_WORD.findall(part.lower()))), default=said)


def _key(text: str) -> str:
    """Return the beginning of a text, as it stands on the first line of a model's prompt."""
    return " ".join(text.splitlines()[0].split())[:80].lower()


class Agent:
    """A scripted agent behind an MCP client, which reads the unread turns and hands in what a perfect extractor finds."""

    def __init__(self, year: Year) -> None:
        self._extractor = PerfectExtractor(year)
        self.counts = self._extractor.counts

    def read(self, path: str, clock: Callable[[], datetime]) -> None:
        """Read all unread turns of a ledger over a server in this process, as a coding agent does in a session of its own."""
        asyncio.run(self._read(path, clock))

    async def _read(self, path: str, clock: Callable[[], datetime]) -> None:
        from mcp import Client

        from ledger.doors.mcp.server import make_server

        async with (
            await AsyncLedger.open(path, user=USER, clock=clock) as ledger,
            Client(make_server(ledger)) as client,
        ):
            while token := (reading := await self._call(client, "unread", {"budget": READING}))["token"]:
                answer = self._extractor.found(reading["content"])
                learned = await self._call(client, "learn", {"token": token, **answer})
                self.counts["readings"] += 1
                self.counts["waiting for review"] += len(learned["proposed"])
                self.counts["dropped"] += len(learned["dropped"])

    async def _call(self, client: Client, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the data of a tool's answer, and count the text that the agent reads and the arguments that it writes."""
        data, text = await call_tool(client, tool, arguments)
        count_cost(self.counts, text, json.dumps(arguments))
        return data


async def call_tool(client: Client, tool: str, arguments: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """Return the data of a tool's answer and its text."""
    result = await client.call_tool(tool, arguments)
    text = "".join(getattr(block, "text", "") for block in result.content)
    data: dict[str, Any] | None = result.structured_content
    if result.is_error or data is None:
        raise RuntimeError(f"{tool}: {text}")
    return data, text


# --- playing and asking -----------------------------------------------------------------------------------------------


def play(
    year: Year,
    folder: Path,
    *,
    model: PerfectExtractor | CommandModel | None = None,
    agent: Agent | None = None,
    every: int = 20,
    weekly: bool = False,
    by_session: bool = False,
    vectors: str | None = None,
) -> Iterator[Ledger]:
    """Yield the ledger after the whole year, at the evening of 31 December.

    An agent reads after ``every`` turns. With ``by_session`` the model reads each session at its end, and else each turn.
    """
    now = datetime.fromisoformat(year.turns[0]["at"])
    options: dict[str, Any] = {"model": model} if model is not None else {}
    if vectors is not None:
        options["embedder"] = vectors
    next_run = now + timedelta(days=7)
    with Ledger.open(folder / "memory.db", user=USER, clock=lambda: now, **options) as ledger:
        for number, turn in enumerate(year.turns, 1):
            at = datetime.fromisoformat(turn["at"])
            while weekly and next_run < at:
                now = next_run
                ledger.jobs.run()
                next_run += timedelta(days=7)
            now = at
            messages = [{"role": "user", "content": turn["user"]}, {"role": "assistant", "content": turn["assistant"]}]
            ledger.add(messages, session=turn["session"], extract="off" if by_session else "auto")
            if by_session and (number == len(year.turns) or year.turns[number]["session"] != turn["session"]):
                ledger.session(turn["session"]).extract()
            if agent is not None and (number % every == 0 or number == len(year.turns)):
                agent.read(ledger.path, lambda at=now: at)  # type: ignore[misc]
            if vectors is not None:
                ledger.vectors.update()
        now = END
        if weekly:
            ledger.jobs.run()
            if vectors is not None:
                ledger.vectors.update()
        yield ledger


def judge(mode: str, year: Year, prompt: Callable[[str], tuple[str, int]], calls: Mapping[str, int]) -> Outcome:
    """Count the right and the outdated answers in the prompts of a year's questions."""
    right = clean = outdated = changed = first = lines_before = tokens = undated = 0
    misses = list[str]()
    for question in year.questions:
        text, size = prompt(question["question"])
        lines = [line for line in text.splitlines() if line.strip() and not line.startswith("```")]
        rights = [at for at, line in enumerate(lines) if says(line, question["right"])]
        olds = [at for at, line in enumerate(lines) if at not in rights and says(line, question["outdated"])]
        right, outdated, tokens = right + bool(rights), outdated + bool(olds), tokens + size
        clean += bool(rights and not olds)
        lines_before += rights[0] + 1 if rights else 0
        changed += bool(question["outdated"])
        first += bool(question["outdated"] and rights and (not olds or rights[0] < olds[0]))
        undated += sum(not _DATE.search(line) for line in lines)
        if not rights:
            misses.append(f"{question['id']} {question['question']} {question['right']}")
    figures = (right, clean, outdated, changed, first, lines_before, tokens, undated)
    return Outcome(mode, len(year.questions), *figures, calls, misses)


def says(line: str, strings: Sequence[str]) -> bool:
    return any(re.search(rf"(?<!\w){re.escape(string.lower())}(?!\w)", line.lower()) for string in strings)


def ask(ledger: Ledger, question: str, budget: int) -> tuple[str, int]:
    pack = ledger.context(question, budget=budget)
    return pack.as_text(), pack.used


def run(years: Sequence[Year], mode: str, *, budget: int, every: int, vectors: str | None) -> Iterator[list[Outcome]]:
    """Yield the outcomes on the questions of each of the years, which have the same turns."""
    year = years[0]
    if mode == "baselines":
        for count in (40, 80, len(year.turns)):
            text = "\n".join(
                f"{turn['at'][:10]} {role}: {' '.join(turn[role].split())}"
                for turn in year.turns[-count:]
                for role in ("user", "assistant")
            )
            name = "the whole year" if count == len(year.turns) else f"the last {count} turns"
            yield [judge(name, each, lambda _, text=text: (text, len(text) // 4), {}) for each in years]  # type: ignore[misc]
        return
    model: PerfectExtractor | CommandModel | None = PerfectExtractor(year) if mode in ("model", "weekly") else None
    if mode == "command":
        model = CommandModel([sys.executable, __file__, str(year.path), "--answer"], calls=1_000, tokens=1_000_000)
    agent = Agent(year) if mode == "agent" else None
    with tempfile.TemporaryDirectory() as folder:
        weekly = mode.startswith("weekly")
        reading: dict[str, Any] = {"every": every, "weekly": weekly, "by_session": mode == "command"}
        for ledger in play(year, Path(folder), model=model, agent=agent, vectors=vectors, **reading):
            asked = model or agent
            calls = (
                cost_of_log(ledger) if isinstance(asked, CommandModel) else asked.counts if asked is not None else {}
            )
            prompt = partial(ask, ledger, budget=budget)
            yield [judge(mode + (f", {vectors}" if vectors else ""), each, prompt, calls) for each in years]


def cost_of_log(ledger: Ledger) -> Counter[str]:
    """Return what the calls in the log cost, of a command that counts nothing itself."""
    counts = Counter[str]()
    for call in ledger.history.model_calls(limit=1_000).all():
        counts.update({call.purpose: 1, "calls": 1, "failed": not call.ok})
        counts.update({"tokens read": call.input_tokens, "tokens answered": call.output_tokens})
    return counts


def table(year: Year, outcomes: Sequence[Outcome]) -> Iterator[str]:
    yield f"{year.name}: {len(year.turns)} turns, {len(year.questions)} questions"
    yield "| mode | right | right, none outdated | outdated | first, of those that changed | line | tokens | undated lines |"
    yield "|---|--:|--:|--:|--:|--:|--:|--:|"
    for outcome in outcomes:
        number = max(1, outcome.questions)
        yield (
            f"| {outcome.mode} | {outcome.right} ({outcome.right / number:.0%}) | {outcome.clean}"
            f" ({outcome.clean / number:.0%}) | {outcome.outdated} ({outcome.outdated / number:.0%})"
            f" | {outcome.first} of {outcome.changed} ({outcome.first / max(1, outcome.changed):.0%})"
            f" | {outcome.lines / max(1, outcome.right):.1f} | {outcome.tokens / number:,.0f} | {outcome.undated} |"
        )
    yield ""
    yield "| learning by | calls, a hundred turns | tokens read, a hundred turns | answered | a day with a session |"
    yield "|---|--:|--:|--:|--:|"
    days = len({turn["at"][:10] for turn in year.turns})
    for outcome in (outcome for outcome in outcomes if not outcome.mode.startswith("the ")):
        calls, read, answered = (outcome.calls.get(name, 0) for name in ("calls", "tokens read", "tokens answered"))
        hundred = len(year.turns) / 100
        yield (
            f"| {outcome.mode} | {calls / hundred:.0f} | {read / hundred:,.0f} | {answered / hundred:,.0f}"
            f" | {(read + answered) / days:,.0f} |"
        )
    for outcome in (outcome for outcome in outcomes if outcome.calls):
        yield f"{outcome.mode}: " + ", ".join(f"{name} {number}" for name, number in sorted(outcome.calls.items()))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "files", nargs="*", type=Path, help="files of years; the default is all of tools/evaluate/years"
    )
    parser.add_argument("--modes", default="rules,model,weekly,baselines", help=f"some of {', '.join(MODES)}")
    parser.add_argument("--vectors", help='an embedder, such as "wordllama"')
    parser.add_argument("--budget", type=int, default=400, help="tokens of the prompt")
    parser.add_argument("--every", type=int, default=20, help="turns after which the agent reads")
    parser.add_argument("--questions", type=Path, help="a file of more questions, with the year of each")
    parser.add_argument("--list", action="store_true", help="the questions without a right line")
    parser.add_argument("--json", action="store_true")
    parser.add_argument(
        "--answer", action="store_true", help="answer the request on standard input, as a model's command"
    )
    options = parser.parse_args()
    if options.answer:
        print(json.dumps(PerfectExtractor(load(options.files[0])).found(sys.stdin.read())))
        return 0
    modes = options.modes.split(",")
    if unknown := set(modes) - set(MODES):
        parser.error(f"no mode {min(unknown)!r}; the modes are {', '.join(MODES)}")
    for path in options.files or sorted(YEARS.glob("*.jsonl")):
        years = [load(path)]
        years += [asked_more(options.questions, years[0])] if options.questions else []
        settings = {"budget": options.budget, "every": options.every, "vectors": options.vectors}
        by_mode = [outcomes for mode in modes for outcomes in run(years, mode, **settings)]
        for year, outcomes in zip(years, zip(*by_mode, strict=True), strict=True):
            if options.json:
                print(json.dumps({"year": year.name, "outcomes": [outcome._asdict() for outcome in outcomes]}))
                continue
            print("\n".join(table(year, outcomes)))
            for outcome in outcomes if options.list else ():
                print(f"{outcome.mode}, without a right line:", *outcome.misses, sep="\n  ")
    return 0


if __name__ == "__main__":
    sys.exit(main())
