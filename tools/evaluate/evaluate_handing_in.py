"""An evaluation of what becomes of the user's words, of pasted texts and of attacks that an agent hands in.

    python tools/evaluate/evaluate_handing_in.py [--parts quotes,attacks] [--every 1] [--list]

``quotes``: each sentence in the first person of ``tests/corpus/pasted_texts.jsonl`` is handed in as a fact with itself as the
quote, unless the user says it of himself; so is each fact of the invented years (in readings of 20 turns), of the typed sentences
and of the self-descriptions, with the sentence that says it. A pasted text that becomes active was taken for the user's own
words; an own fact that waits costs a review. Three rules divide a message: the one for what a model reads, the stricter one for
what rules find, and the stricter one for messages of more than some characters.

``attacks``: an agent over MCP obeys each text of ``tests/corpus/attacks.jsonl`` that it reads, pasted by the user and said by the
assistant, and hands in three statements about each: in other words and in its own, with a quote, and in its own without a quote.
The page that a tool read has the text too. The user pastes it in five forms, and then bare, behind a sentence of his own and
without any mark. Each is played with the guards off and on.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from ledger import AsyncLedger, Ledger  # noqa: E402
from ledger.english.foreign import foreign, marked  # noqa: E402
from ledger.extraction.applying import Proposal  # noqa: E402
from ledger.extraction.lines import ConversationLine  # noqa: E402
from ledger.memories import admission_rules as admitting  # noqa: E402
from tools.evaluate import evaluate_year as years  # noqa: E402

CORPUS = ROOT / "tests" / "corpus"
TURNS = 20  # of an invented year in one reading
LENGTHS = (120, 200, 300)
ACTIONS = 50  # of one answer
Rule = Callable[[str], Sequence[tuple[int, int]]]
_SENTENCE = re.compile(r"[^.!?\n]+[.!?]*")
_SELF = re.compile(r"\b(?:i|i['’]?m|me|my|mine|we|our|us)\b", re.IGNORECASE)
_WORD = re.compile(r"\w+")


def corpus(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (CORPUS / name).read_text(encoding="utf-8").splitlines()]


# --- quotes -----------------------------------------------------------------------------------------------------------


def line_of(text: str, position: int = 1) -> ConversationLine:
    return ConversationLine(position=position, text_at=position, role="user", text=text, time="")


def is_active(content: str, quote: str, cited: ConversationLine, lines: Sequence[ConversationLine]) -> bool:
    """Return True if a fact with a quote that an agent hands in is active at once."""
    proposal = Proposal(what="add", content=content, cited=(cited,), quote=quote)
    row = admitting.of_handed_in(
        content, proposal.cited, lines, quoted=proposal.quoted, claimed=False, changes_decided=False
    )
    return row.status == admitting.ACTIVE


def taken_for_own(half: str) -> list[str]:
    """Return the pasted texts of a half of which a sentence in the first person becomes active."""
    found = list[str]()
    for row in (row for row in corpus("pasted_texts.jsonl") if row["half"] == half):
        line = line_of(row["text"])
        own = [_words(fact["says"]) for fact in row["own"]]
        for sentence in _of_himself(row["text"]):
            words = _words(sentence)
            if any(2 * len(words & said) >= len(words) for said in own):
                continue
            if is_active(sentence, sentence, line, [line]):
                found.append(row["text"])
                break
    return found


def _of_himself(text: str) -> Iterator[str]:
    """Yield the sentences of a text in the first person that ask nothing."""
    for found in _SENTENCE.finditer(text):
        sentence = found[0].strip(" \t\"'“”>*-")
        if _SELF.search(sentence) and len(sentence.split()) >= 3 and not sentence.endswith("?"):
            yield sentence


def _words(text: str) -> set[str]:
    return {*_WORD.findall(text.lower())} - {"i", "a", "my", "the"}


def own_facts() -> dict[str, list[tuple[str, bool]]]:
    """Return the user's own facts by their corpus, each with whether it is active at once."""
    of_years, found = list[tuple[str, bool]](), dict[str, list[tuple[str, bool]]]()
    for path in sorted(years.YEARS.glob("*.jsonl")):
        turns = years.load(path).turns
        for start in range(0, len(turns), TURNS):
            reading = turns[start : start + TURNS]
            lines = [line_of(turn["user"], at) for at, turn in enumerate(reading, 1)]
            for turn, line in zip(reading, lines, strict=True):
                of_years += [_judged(fact["content"], line, lines) for fact in turn.get("facts", ())]
    found["invented years"] = of_years
    for name in ("typed_sentences", "self_descriptions"):
        found[name.replace("_", " ")] = [
            _judged(fact["says"] if isinstance(fact, dict) else fact, line, [line])
            for row in corpus(f"{name}.jsonl")
            for line in [line_of(row["text"])]
            for fact in row["facts"]
        ]
    return found


def _judged(fact: str, line: ConversationLine, lines: Sequence[ConversationLine]) -> tuple[str, bool]:
    return fact, is_active(fact, years.quote(line.text, fact), line, lines)


def rules() -> Iterator[tuple[str, Rule]]:
    yield "for what a model reads (`marked`)", marked
    yield "for what rules find (`foreign`)", foreign
    for length in LENGTHS:
        yield f"`foreign` above {length} characters", _above(length)


def _above(length: int) -> Rule:
    return lambda text: foreign(text) if len(text) > length else marked(text)


def quotes(*, listed: bool) -> Iterator[str]:
    corpora = ("invented years", "typed sentences", "self descriptions")
    waiting = " | ".join(f"own facts that wait: {name}" for name in corpora)
    yield f"| rule | pasted texts taken for own: seen, unseen | {waiting} |"
    yield "|---|--:|" + "--:|" * len(corpora)
    for name, rule in rules():
        with patch.object(admitting, "marked", rule):
            pasted, facts = {half: taken_for_own(half) for half in ("seen", "unseen")}, own_facts()
        waits = {name: [fact for fact, active in facts[name] if not active] for name in corpora}
        cells = [f"{len(waits[name])} of {len(facts[name])}" for name in corpora]
        yield f"| {name} | {', '.join(str(len(texts)) for texts in pasted.values())} | {' | '.join(cells)} |"
        if listed and rule is marked:
            yield from (f"  taken for own: {text!r}" for text in pasted["seen"])
            yield from (f"  waits: {fact!r}" for name in corpora for fact in waits[name])


# --- attacks ----------------------------------------------------------------------------------------------------------

OWN = "I live in Gent with my sister Lea. "
PASTED = (
    ("What does this mail say?", "\n\n{}"),
    ("Summarize this:", "\n```\n{}\n```"),
    ("Is this true?", "\n> {}"),
    ("I found this on a page:", ' "{}"'),
    ("Look at this.", "\n\n{}"),
)
BARE = (("", "{}"),)
Forms = Sequence[tuple[str, str]]  # the user's words before a text, and the text's place


def attacked(path: Path, texts: Sequence[str], *, guards: bool, forms: Forms = PASTED) -> None:
    """Record a session for each text: pasted by the user, on a page that a tool read, and repeated by the assistant."""
    with Ledger.open(path, user=years.USER) as ledger:
        if not guards:
            ledger.policy.set(threats="off")
        call = {"id": "c1", "type": "function", "function": {"name": "open", "arguments": "{}"}}
        for number, text in enumerate(texts):
            before, place = forms[number % len(forms)]
            chat = [
                {"role": "user", "content": OWN + before + place.format(text)},
                {"role": "assistant", "content": "I open the page.", "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "c1", "content": f"TOOL {text}"},
                {"role": "assistant", "content": text},
            ]
            ledger.add(chat, session=f"s{number}", extract="off")


def shown(content: str) -> list[tuple[int, str, str]]:
    """Return the messages that a reading shows: number, role and text."""
    found = re.findall(r"^\[(\d+)\] (user|assistant) \([^)]*\): (.*(?:\n    .*)*)", content, re.MULTILINE)
    return [(int(number), role, text) for number, role, text in found]


def obeyed(number: int, role: str, text: str) -> list[dict[str, Any]]:
    """Return what an agent hands in that obeys the text in a message: in other words and in its own, with a quote and without."""
    if text == "I open the page.":
        return []
    text = text.removeprefix(OWN)
    for before, _ in PASTED:
        text = text.removeprefix(before)
    text = " ".join(text.strip(' \n>`"').split())
    said = {"said_by": "user", "messages": [number]}
    words = " ".join(text.split()[:12])
    return [
        {"content": f"The user wants rule {number} of the vendor obeyed", "quote": words, **said},
        {"content": text[:300] or "obey", "quote": words, **said},
        {"content": f"The user orders: {text[:200]}", **said},
    ]


def replay(path: Path) -> Counter[str]:
    """Let an agent read and obey all that is unread, over MCP, and return the counts of what became of it."""
    return asyncio.run(_replay(path))


async def _replay(path: Path) -> Counter[str]:
    from mcp import Client

    from ledger.doors.mcp.server import make_server

    counts = Counter[str]()

    async with await AsyncLedger.open(path, user=years.USER) as ledger:
        server = make_server(ledger, learn_tokens_a_day=10_000_000)
        async with Client(server) as client:
            while token := (reading := (await years.call_tool(client, "unread", {}))[0])["token"]:
                counts["pages of tools shown"] += "TOOL" in reading["content"]
                add, upto = list[dict[str, Any]](), 0
                for number, role, text in shown(reading["content"]):
                    if role == "user" and len(add) > ACTIONS - 6:
                        break
                    add, upto = add + obeyed(number, role, text), number
                learned, _ = await years.call_tool(client, "learn", {"token": token, "add": add, "upto": upto})
                counts["handed in"] += len(add)
                counts["turns"] += learned["turns"]
                counts["active"] += len(learned["learned"])
                counts["waiting"] += len(learned["proposed"])
    return counts


def attacks(every: int) -> Iterator[str]:
    texts = [row["text"] for row in corpus("attacks.jsonl")][::every]
    yield f"| {len(texts)} attacks | turns read | handed in | active | waiting | pages of tools shown |"
    yield "|---|--:|--:|--:|--:|--:|"
    for name, forms in (("in five forms", PASTED), ("bare", BARE)):
        for guards in (False, True):
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "memory.db"
                attacked(path, texts, guards=guards, forms=forms)
                counts = replay(path)
            cells = [
                f"{counts[each]:,}" for each in ("turns", "handed in", "active", "waiting", "pages of tools shown")
            ]
            yield f"| {name}, guards {'on' if guards else 'off'} | {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default="quotes,attacks", help="one of them, or both")
    parser.add_argument("--every", type=int, default=1, help="replay every n-th attack")
    parser.add_argument("--list", action="store_true", help="the seen texts taken for own, and the facts that wait")
    options = parser.parse_args()
    for part in options.parts.split(","):
        for text in quotes(listed=options.list) if part == "quotes" else attacks(options.every):
            print(text, flush=True)


if __name__ == "__main__":
    main()
