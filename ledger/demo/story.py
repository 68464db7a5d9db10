"""The story of the demo on one page: an agent without and with memory, a changed fact, its reasons, one undo."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ledger.cli.pieces import heading
from ledger.cli.terminal_text import shortened
from ledger.recall.packs import Pack

if TYPE_CHECKING:
    from ledger.api import Ledger, LedgerRead

QUESTION = "Write the flour order: which mill, which day, and in what units?"
BUDGET_TOKENS = 160
CHANGING = " mill "  # the lines of a prompt that say who delivers
EARLIER = "2026-03-20"  # a day before the change
REASON = "the Dunmere mill is closed for repairs"
WORDS_CHARS, LABEL_CHARS = 150, 19


def _prompt(ledger: LedgerRead, question: str) -> Pack:
    """Return the text that the ledger puts into the prompt for a question."""
    return ledger.context(question, budget=BUDGET_TOKENS)


def story(ledger: Ledger, turns: int, span: tuple[str, str], fact: str) -> list[RenderableType]:
    """Return the page.

    Args:
        ledger: The ledger into which the conversation was played; the story undoes a command and puts it back.
        turns: The number of turns of the conversation.
        span: The times of the first and the last turn.
        fact: The id of the memory that superseded an earlier one.
    """
    first, last = (time[:10] for time in span)
    return [
        heading("An agent, without and with memory"),
        Text(f"Ines bakes and runs. {turns} turns with her assistant, {first} to {last}, lie in one file."),
        Text(f"On the next day she says: {QUESTION}"),
        Text("No model is asked here; this is what one would be given.\n", style="dim"),
        _both_prompts(ledger),
        heading("A fact changed"),
        _rows([(f"asked on {EARLIER}", _believed(ledger.at(EARLIER))), (f"asked on {last}", _believed(ledger))]),
        Text("Nothing was overwritten: at(day) answers as it was known at the beginning of that day.", style="dim"),
        heading("Why it is believed: every event, with the confidence after it"),
        _rows(_reasons(ledger, fact)),
        heading("One undo"),
        _rows(_undone(ledger, fact)),
        Text("An undo takes back a whole command, here the one at that position. It is an event too.", style="dim"),
    ]


def _both_prompts(ledger: Ledger) -> Table:
    pack = _prompt(ledger, QUESTION)
    table = Table(box=None, padding=(0, 3, 0, 0), expand=True, header_style="bold")
    table.add_column("the prompt without memory", ratio=2)
    table.add_column(f"the prompt with memory, {pack.used} tokens more", ratio=3)
    table.add_row(Text(QUESTION), Text(f"{pack}\n{QUESTION}"))
    return table


def _rows(rows: Iterable[tuple[str, str]]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(style="dim", no_wrap=True, min_width=LABEL_CHARS)
    for label, text in rows:
        table.add_row(label, Text(text))
    return table


def _believed(ledger: LedgerRead) -> str:
    """Return the first line of a prompt that is about the changing fact."""
    lines = (line for line in _prompt(ledger, QUESTION).as_text().splitlines() if CHANGING in line)
    return next(lines, "(nothing)").removeprefix("- ")


def _reasons(ledger: Ledger, fact: str) -> Iterator[tuple[str, str]]:
    """Yield the events behind a fact and its predecessor, and the words that it goes back to."""
    why, now = ledger.why(fact), ledger.memories.get(fact)
    for memory in (*why.supersedes, now):
        for step in ledger.why(memory.id).steps:
            label = f"{step.recorded_at[:10]}  {step.confidence:.2f}"
            if step.type == "MemoryCaptured":
                reason = f": {step.because}" if step.because else ""
                yield label, f"{memory.content} ({step.actor}{reason})"
            elif step.type == "MemoryReinforced":
                yield label, "a turn restates it"
    for source in why.sources:
        if source.id in now.sources:
            yield "in her own words", shortened(source.prompt or "", WORDS_CHARS)


def _undone(ledger: Ledger, fact: str) -> Iterator[tuple[str, str]]:
    """Yield the answers after an undo of the command that changed the fact, and after the redo."""
    owner = ledger.bind(actor="ines")
    position = ledger.why(fact).steps[0].position
    owner.undo(position, reason=REASON)
    yield f"undo({position})", _believed(ledger)
    owner.redo(position)
    yield f"redo({position})", _believed(ledger)
