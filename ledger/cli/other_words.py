"""The words that people type for a command of another name, each with a hint at the command that they mean."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from difflib import get_close_matches

from ledger.cli.methods import AREAS, PANELS, cli_name, of_area

_CHANGE = "memory-ledger supersede records a new fact, memory-ledger revise another wording"
_REMOVE = "memory-ledger retract takes a memory out of use, memory-ledger erase removes its text for good"
MEANT = {  # words that people try, with a hint at the command that they mean
    "at": "--as-of behind a command that reads answers as of then: memory-ledger recall QUESTION --as-of 2026-05-03",
    "search": "memory-ledger recall QUESTION searches",
    "find": "memory-ledger recall QUESTION searches",
    "list": "memory-ledger memories list lists memories, memory-ledger review candidates",
    "get": "memory-ledger memories get ID shows a memory",
    "show": "memory-ledger memories get ID shows a memory, memory-ledger why ID why it is believed",
    "update": _CHANGE,
    "delete": _REMOVE,
    "forget": _REMOVE,
    "remove": _REMOVE,
    "log": "memory-ledger history audit lists events, newest first, memory-ledger history log reads them in order",
    "summaries": "memory-ledger session summaries list NAME lists the summaries of a conversation",
    "memories add": "memory-ledger remember CONTENT records a memory",
    "session search": "memory-ledger session grep NAME PATTERN searches a conversation",
    "sessions search": "memory-ledger sessions grep PATTERN searches all conversations",
}


def hint_at_command(words: Sequence[str], besides: Collection[str]) -> str | None:
    """Return the error for words that name no command, with a hint at the command that they mean; None without such a command.

    Args:
        words: The words of the command line.
        besides: The names of the commands without a method of the library.
    """
    is_of_area = words[0] in AREAS and words[0] != "summaries" and len(words) > 1
    name = " ".join(words[: 2 if is_of_area else 1])
    meant = _meant_in(*words[:2]) if is_of_area else _meant(name, besides)
    return f"there is no command {name!r}: {meant}" if meant is not None else None


def _meant_in(area: str, word: str) -> str | None:
    """Return a hint at the command that a person looks for in a namespace that does not have the command."""
    if (hint := MEANT.get(f"{area} {word}")) is not None:
        return hint
    if any(word in names for names in PANELS.values()):
        return f"the command is memory-ledger {word}"
    if word in ("show", "read", "view") and any(method.name == "get" for method in of_area(area)):
        return f"the command is memory-ledger {area} get"
    if area == "session" and not get_close_matches(word, [cli_name(method.name) for method in of_area(area)], 1):
        return f"the command stands before the name, as in memory-ledger session messages {word}"
    return None


def _meant(word: str, besides: Collection[str]) -> str | None:
    verbs = [verb for verbs in PANELS.values() for verb in verbs]
    near = get_close_matches(word, [*MEANT, *AREAS, *besides, *verbs], 1, 0.75)
    if near and near[0] in MEANT:
        return MEANT[near[0]]
    areas = [area for area in AREAS if any(cli_name(method.name) == word for method in of_area(area))]
    commands = [f"memory-ledger {area} {word}" for area in areas if area != "summaries"]
    return f"the command is {' or '.join(commands)}" if commands else None
