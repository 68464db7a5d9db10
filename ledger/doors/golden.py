"""Beliefs for comparison in tests: without ids, one per line in a file for review, with a short report of differences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from difflib import SequenceMatcher
from typing import NamedTuple

from msgspec import DecodeError, Struct, json

from ledger.answers import Memory, Observation
from ledger.api import Ledger, LedgerRead, PastLedger
from ledger.types import Page

Paint = Callable[[str, str], str]  # (text, color) -> the text in that color

SHOWN = 10  # beliefs of each group in a short report
CHARS = 160  # of a belief's text
AROUND = 6  # unchanged words shown on either side of a change
ALIKE = 0.5  # the share of common words from which on a belief counts as another wording of a belief
PAIRS = 10_000  # the most pairs that are compared word by word


class GoldenBelief(Struct, frozen=True, order=True, omit_defaults=True, forbid_unknown_fields=True):
    """A statement that a ledger believes, without ids and without the time of recording.

    ``confidence`` and ``faded`` are from 0 to 1; ``faded`` is the effective confidence if decay made it smaller.
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
    """The beliefs that are gone, new, or still there with another text, status or number."""

    gone: list[GoldenBelief]
    new: list[GoldenBelief]
    changed: list[tuple[GoldenBelief, GoldenBelief]]


def beliefs(ledger: LedgerRead, *, as_of: str | datetime | None = None) -> list[GoldenBelief]:
    """Return the beliefs of a ledger for a comparison: memories and observations of every status with a text, oldest first.

    A ledger gives the beliefs of all its users, a past ledger those of its one user.

    Args:
        ledger: A ledger, or the result of ``ledger.at(moment)``.
        as_of: The time for which decay is computed; None for the time of the last event.
    """
    readers: list[LedgerRead] = [ledger]
    if isinstance(ledger, Ledger):
        readers = [ledger.bind(user=user) for user in ledger.maintenance.users().all()]
        as_of = as_of or ledger.at(ledger.position).as_of
    elif isinstance(ledger, PastLedger):
        as_of = as_of or ledger.as_of
    all_beliefs: list[GoldenBelief] = []
    for reader in readers:
        by_place = [(memory.position, of_memory(memory, as_of)) for memory in reader.memories.list(statuses=()).all()]
        by_place += (
            (observation.position, _of_observation(observation))
            for observation in reader.observations.list(statuses=()).all()
        )
        all_beliefs += (belief for _, belief in sorted(by_place) if belief.content)
    return all_beliefs


def of_memory(memory: Memory, as_of: str | datetime | None = None) -> GoldenBelief:
    now = memory.confidence if as_of is None else memory.effective_confidence(as_of)
    return GoldenBelief(
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


def _of_observation(observation: Observation) -> GoldenBelief:
    return GoldenBelief(
        content=observation.content or "",
        kind="observation",
        status=observation.status
        if observation.freshness == "fresh"
        else f"{observation.status}, {observation.freshness}",
        confidence=observation.confidence,
        user=observation.user or "",
        project=observation.project or "",
        tags=observation.tags,
        quarantined=observation.quarantined,
    )


def frozen(believed: Iterable[GoldenBelief]) -> str:
    """Return the text of a file: a JSON array with one belief per line, without the fields that have their defaults."""
    lines = ",\n".join(json.format(json.encode(belief), indent=0).decode() for belief in believed)
    return f"[\n{lines}\n]\n" if lines else "[]\n"


def thawed(text: str) -> list[GoldenBelief]:
    """Return the beliefs of a frozen file; raise ``ValueError`` for a text of another form."""
    try:
        return json.decode(text, type=list[GoldenBelief])
    except DecodeError as error:
        raise ValueError(str(error)) from None


# --- differences -----------------------------------------------------------------------------------------------------


def differences(before: Iterable[GoldenBelief], after: Iterable[GoldenBelief]) -> Differences:
    """Compare beliefs in any order: by equal texts first, and the remaining ones by the words that they share."""
    was, now = Counter(before), Counter(after)
    gone, new, changed = [*(was - now).elements()], [*(now - was).elements()], list[tuple[GoldenBelief, GoldenBelief]]()
    for likeness in (_same_text, _same_words):
        if likeness is _same_words and len(gone) * len(new) > PAIRS:
            break
        for old in [*gone]:
            score, best = max(((likeness(old, candidate), candidate) for candidate in new), default=(0.0, old))
            if score >= ALIKE:
                changed.append((old, best))
                gone.remove(old)
                new.remove(best)
    return Differences(gone, new, changed)


def _same_text(old: GoldenBelief, new: GoldenBelief) -> float:
    """Return 1 for the same text of the same user, 2 if kind and project are the same too, else 0."""
    if (old.user, old.content) != (new.user, new.content):
        return 0.0
    return 1.0 + ((old.kind, old.project) == (new.kind, new.project))


def _same_words(old: GoldenBelief, new: GoldenBelief) -> float:
    if (old.user, old.kind == "observation") != (new.user, new.kind == "observation"):
        return 0.0
    return SequenceMatcher(None, old.content.split(), new.content.split(), autojunk=False).ratio()


def report(differing: Differences, paint: Paint, *, all_of_it: bool = False) -> list[str]:
    """Return a report of the differences: a line with their counts, then a line or two for each."""
    counts = {"gone": len(differing.gone), "new": len(differing.new), "changed": len(differing.changed)}
    lines = [", ".join(f"{count} {name}" for name, count in counts.items() if count)]
    shown = 2**31 if all_of_it else SHOWN
    lines += (paint(f"- {_line(belief)}", "red") for belief in differing.gone[:shown])
    lines += (paint(f"+ {_line(belief)}", "green") for belief in differing.new[:shown])
    for old, new in differing.changed[:shown]:
        lines += _changed(old, new, paint)
    if left := sum(max(0, count - shown) for count in counts.values()):
        lines.append(f"… and {left} more, with -vv")
    return lines


def _line(belief: GoldenBelief) -> str:
    names = [f"project {belief.project}"] if belief.project else []
    names += [f"user {belief.user}"] if belief.user else []
    return f"{_short(belief.content)} ({', '.join([belief.kind, belief.status, str(belief.confidence), *names])})"


def _short(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= CHARS else words[: CHARS - 1] + "…"


def _changed(old: GoldenBelief, new: GoldenBelief, paint: Paint) -> Iterator[str]:
    yield f"~ {_short(old.content) if old.content == new.content else _words(old.content, new.content, paint)}"
    for name in GoldenBelief.__struct_fields__[1:]:
        before, after = getattr(old, name), getattr(new, name)
        if before != after:
            yield f"    {name}: {paint(_value(before), 'red')} → {paint(_value(after), 'green')}"


def _value(value: object) -> str:
    return ", ".join(value) if isinstance(value, tuple) and value else str(value or "none")


def _words(before: str, after: str, paint: Paint) -> str:
    """Return the new text with removed words as [-…-], added words as {+…+}, and the words around each change."""
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
    """Return pytest's explanation for two lists of memories or beliefs that are not equal; None for other values."""
    left_beliefs, right_beliefs = _listed(left), _listed(right)
    if left_beliefs is None or right_beliefs is None or not (left_beliefs or right_beliefs):
        return None
    differing = differences(right_beliefs, left_beliefs)
    if any(differing):
        head, *lines = report(differing, paint, all_of_it=all_of_it)
        return [f"beliefs differ: {head} (- only on the right, + only on the left)", *lines]
    if sorted(left_beliefs) != sorted(right_beliefs) or left_beliefs == right_beliefs:
        return ["both sides hold the same beliefs; ids, times, sources or other fields differ"]
    return ["both sides hold the same beliefs, in another order"]


def _listed(value: object) -> list[GoldenBelief] | None:
    if not isinstance(value, list | tuple | Page):
        return None
    items: Sequence[object] = value
    listed = [
        of_memory(item) if isinstance(item, Memory) else item
        for item in items
        if isinstance(item, Memory | GoldenBelief)
    ]
    return listed if len(listed) == len(items) else None
