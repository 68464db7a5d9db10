"""Beliefs as a test compares them: without ids, one a line in a file that is reviewed, and their differences in few lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from difflib import SequenceMatcher
from typing import NamedTuple

from msgspec import DecodeError, Struct, json

from ledger.answers import Memory
from ledger.api import Ledger, LedgerRead, PastLedger
from ledger.observations.answers import Observation
from ledger.types import Page

Paint = Callable[[str, str], str]  # a text in a color

SHOWN = 10  # beliefs of each sort, where not all are asked for
CHARS = 160  # of a belief's text
AROUND = 6  # words that stay the same, on either side of a change
ALIKE = 0.5  # of the words, from which on a belief counts as another wording of another
PAIRS = 10_000  # that are compared word by word


class Belief(Struct, frozen=True, order=True, omit_defaults=True, forbid_unknown_fields=True):
    """What is believed of one thing, without ids and without the time of recording.

    ``confidence`` and ``faded`` are from 0 to 1; ``faded`` is the effective confidence where decay made it less.
    """

    content: str
    kind: str
    status: str
    confidence: float
    faded: float | None = None
    user: str = ""
    project: str = ""
    tags: tuple[str, ...] = ()
    metadata: tuple[str, ...] = ()  # key=value, the value as JSON
    valid_from: str = ""
    valid_to: str = ""
    quarantined: bool = False


class Differences(NamedTuple):
    """Beliefs that are gone, new, or still there with another text, status or number."""

    gone: list[Belief]
    new: list[Belief]
    changed: list[tuple[Belief, Belief]]


def beliefs(ledger: LedgerRead, *, as_of: str | datetime | None = None) -> list[Belief]:
    """Return what a ledger believes, to compare it: memories and observations of every status that have a text, oldest first,
    of all users of a ledger, or of the one user of a past ledger.

    Args:
        ledger: A ledger, or what ``ledger.at(moment)`` gave.
        as_of: The time for which decay is computed; None for that of the last event.
    """
    readers: list[LedgerRead] = [ledger]
    if isinstance(ledger, Ledger):
        readers = [ledger.bind(user=user) for user in ledger.maintenance.users().all()]
        as_of = as_of or ledger.at(ledger.position).as_of
    elif isinstance(ledger, PastLedger):
        as_of = as_of or ledger.as_of
    found: list[Belief] = []
    for reader in readers:
        by_place = [(each.position, of_memory(each, as_of)) for each in reader.memories.list(statuses=()).all()]
        by_place += ((each.position, _of_observation(each)) for each in reader.observations.list(statuses=()).all())
        found += (each for _, each in sorted(by_place) if each.content)
    return found


def of_memory(memory: Memory, as_of: str | datetime | None = None) -> Belief:
    now = memory.confidence if as_of is None else memory.effective_confidence(as_of)
    return Belief(
        content=memory.content or "",
        kind=memory.kind,
        status=memory.status,
        confidence=memory.confidence,
        faded=now if now != memory.confidence else None,
        user=memory.user or "",
        project=memory.project or "",
        tags=memory.tags,
        metadata=tuple(f"{key}={json.encode(value).decode()}" for key, value in memory.metadata.items()),
        valid_from=memory.valid_from if memory.valid_from != memory.recorded_at else "",
        valid_to=memory.valid_to or "",
        quarantined=memory.quarantined,
    )


def _of_observation(each: Observation) -> Belief:
    return Belief(
        content=each.content or "",
        kind="observation",
        status=each.status if each.freshness == "fresh" else f"{each.status}, {each.freshness}",
        confidence=each.confidence,
        user=each.user or "",
        project=each.project or "",
        tags=each.tags,
        quarantined=each.quarantined,
    )


def frozen(found: Iterable[Belief]) -> str:
    """The text of a file: an array in JSON with one belief a line, and nothing that is as by default."""
    lines = ",\n".join(json.format(json.encode(each), indent=0).decode() for each in found)
    return f"[\n{lines}\n]\n" if lines else "[]\n"


def thawed(text: str) -> list[Belief]:
    """The beliefs of a frozen file; ``ValueError`` for a text that is none."""
    try:
        return json.decode(text, type=list[Belief])
    except DecodeError as error:
        raise ValueError(str(error)) from None


# --- what differs ----------------------------------------------------------------------------------------------------


def differences(before: Iterable[Belief], after: Iterable[Belief]) -> Differences:
    """Compare beliefs in whatever order: by their texts, and those that are left by the words that they share."""
    was, now = Counter(before), Counter(after)
    gone, new, changed = [*(was - now).elements()], [*(now - was).elements()], list[tuple[Belief, Belief]]()
    for likeness in (_same_text, _same_words):
        if likeness is _same_words and len(gone) * len(new) > PAIRS:
            break
        for old in [*gone]:
            score, best = max(((likeness(old, each), each) for each in new), default=(0.0, old))
            if score >= ALIKE:
                changed.append((old, best))
                gone.remove(old)
                new.remove(best)
    return Differences(gone, new, changed)


def _same_text(old: Belief, new: Belief) -> float:
    """1 for the same text of the same user, 2 of the same kind and project too."""
    if (old.user, old.content) != (new.user, new.content):
        return 0.0
    return 1.0 + ((old.kind, old.project) == (new.kind, new.project))


def _same_words(old: Belief, new: Belief) -> float:
    if (old.user, old.kind == "observation") != (new.user, new.kind == "observation"):
        return 0.0
    return SequenceMatcher(None, old.content.split(), new.content.split(), autojunk=False).ratio()


def report(found: Differences, paint: Paint, *, all_of_it: bool = False) -> list[str]:
    """The differences, a line or two for each; the first line counts them, and nothing follows where nothing differs."""
    counts = {"gone": len(found.gone), "new": len(found.new), "changed": len(found.changed)}
    lines = [", ".join(f"{count} {name}" for name, count in counts.items() if count)]
    shown = 2**31 if all_of_it else SHOWN
    lines += (paint(f"- {_line(each)}", "red") for each in found.gone[:shown])
    lines += (paint(f"+ {_line(each)}", "green") for each in found.new[:shown])
    for old, new in found.changed[:shown]:
        lines += _changed(old, new, paint)
    if left := sum(max(0, count - shown) for count in counts.values()):
        lines.append(f"… and {left} more, with -vv")
    return lines


def _line(each: Belief) -> str:
    names = [f"project {each.project}"] if each.project else []
    names += [f"user {each.user}"] if each.user else []
    return f"{_short(each.content)} ({', '.join([each.kind, each.status, str(each.confidence), *names])})"


def _short(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= CHARS else words[: CHARS - 1] + "…"


def _changed(old: Belief, new: Belief, paint: Paint) -> Iterator[str]:
    yield f"~ {_short(old.content) if old.content == new.content else _words(old.content, new.content, paint)}"
    for name in Belief.__struct_fields__[1:]:
        before, after = getattr(old, name), getattr(new, name)
        if before != after:
            yield f"    {name}: {paint(_value(before), 'red')} → {paint(_value(after), 'green')}"


def _value(value: object) -> str:
    return ", ".join(value) if isinstance(value, tuple) and value else str(value or "none")


def _words(before: str, after: str, paint: Paint) -> str:
    """The new text with what was left out as [-…-] and what came as {+…+}; of what stayed, the words around."""
    old, new, parts = before.split(), after.split(), list[str]()
    for act, start, end, new_start, new_end in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        same = old[start:end]
        if act == "equal":
            cut = len(same) > 2 * AROUND + 1
            parts += [*same[:AROUND], "…", *same[-AROUND:]] if cut else same
            continue
        parts += [paint(f"[-{' '.join(same)}-]", "red")] if same else []
        parts += [paint(f"{{+{' '.join(new[new_start:new_end])}+}}", "green")] if new_end > new_start else []
    return " ".join(parts) if old != new else f"{_short(after)} (other blanks)"


def compared(left: object, right: object, paint: Paint, *, all_of_it: bool = False) -> list[str] | None:
    """What an assertion that two lists of memories, or of beliefs, are equal says; None for anything else."""
    one, other = _listed(left), _listed(right)
    if one is None or other is None or not (one or other):
        return None
    found = differences(other, one)
    if any(found):
        head, *lines = report(found, paint, all_of_it=all_of_it)
        return [f"beliefs differ: {head} (- on the right alone, + on the left)", *lines]
    if sorted(one) != sorted(other) or one == other:
        return ["the same is believed; ids, times, sources or other fields differ"]
    return ["the same is believed, in another order"]


def _listed(given: object) -> list[Belief] | None:
    if not isinstance(given, list | tuple | Page):
        return None
    items: Sequence[object] = given
    found = [
        of_memory(each) if isinstance(each, Memory) else each for each in items if isinstance(each, Memory | Belief)
    ]
    return found if len(found) == len(items) else None
