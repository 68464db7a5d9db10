"""The plan of an erasure: its lists, the texts that go from each row, and the checks before it is carried out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from msgspec import Struct

from ledger.domain import ids
from ledger.domain.errors import RejectedError
from ledger.domain.quotes import Needles
from ledger.erasure import acts
from ledger.erasure.asked import CHOICES, ErasureRequest
from ledger.erasure.conversations import FROM_MESSAGES, MESSAGE
from ledger.erasure.rows import ErasureRow, Target
from ledger.events import LEDGER_STREAM, ModelCalled

LISTS = ("derived", "sources", "quotes")
ID = re.compile(rf"[{''.join(ids.KINDS)}]_[{ids.ALPHABET}]{{{ids.LENGTH - 2}}}")


class NothingLeft(RejectedError):
    """The refusal of an erasure whose subject holds no text."""

    def __init__(self) -> None:
        super().__init__("nothing is left to erase: the texts were erased already, or there never was a text")


class Listed(Struct, frozen=True):
    """An event in a list of the plan, with the fields concerned and the choice for them ("" while undecided)."""

    row: ErasureRow
    fields: tuple[str, ...]
    choice: str = ""


class ErasurePlan(Struct, frozen=True):
    """The lists and targets of an erasure, planned when the log ended at ``head``.

    Attributes:
        lists: "erased" (the subject's own events), "derived", "sources" and "quotes", each with its events.
        targets: The parts of rows that are erased.
        kept: The positions of the listed events that the caller chose to keep.
        needles: The texts that other events may repeat.
        streams: The subjects of the plan. A later event that names one of these may change the plan.
        sessions: The sessions of the plan. A later summary or repair in one of these may change the plan.
        names: The rows with names of sessions that other projects use too; the names stay.
    """

    head: int
    asked: ErasureRequest
    lists: Mapping[str, tuple[Listed, ...]]
    targets: tuple[Target, ...]
    kept: tuple[int, ...]
    needles: Needles
    streams: frozenset[str]
    sessions: frozenset[str]
    names: tuple[ErasureRow, ...] = ()

    @property
    def undecided(self) -> dict[str, int]:
        """Return how many events of each list have no choice yet."""
        counts = {name: sum(not item.choice for item in self.lists[name]) for name in LISTS}
        return {name: count for name, count in counts.items() if count}

    @property
    def blobs(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(blob for target in self.targets for blob in target.blobs))

    def concerns(self, row: ErasureRow, user: str | None, owner: str) -> bool:
        """Return True if an event that was recorded after the plan was made could change the plan."""
        if row.type == "ContentErased":
            return True
        if user != owner:
            return False
        if self.asked.kind == "user":
            return row.position <= self.asked.last
        return (
            (row.stream in self.sessions and row.type in FROM_MESSAGES)
            or row.type == ModelCalled.__name__
            or row.type in acts.NAMES
            or not self.streams.isdisjoint(ID.findall(row.stream + " " + row.state))
            or any(self.needles.found(text) for part in row.parts for text in part.texts)
        )


# --- the checks before a plan is carried out --------------------------------------------------------------------------


def check_kept(plan: ErasurePlan, kept: frozenset[str | int]) -> None:
    listed = {place for name in LISTS for item in plan.lists[name] for place in (item.row.position, item.row.stream)}
    if unlisted := sorted(map(str, kept - listed)):
        raise RejectedError(f"keep names {unlisted[0]:.60}, which is in none of the lists; a dry run shows them")


def check_decided(plan: ErasurePlan) -> None:
    if undecided := plan.undecided:
        listed = ", ".join(f"{name} ({count} event{'s' * (count != 1)})" for name, count in undecided.items())
        choices = ", ".join(f"{name}=" for name in undecided)
        raise RejectedError(
            f"nothing was erased: other events hold the texts, and need a choice: {listed}; "
            f"look at them with dry_run=True, then pass {choices} with one of {', '.join(CHOICES)}, and keep= for exceptions"
        )


def check_reason_given(plan: ErasurePlan, reason: str) -> None:
    if plan.needles.found(reason):
        raise RejectedError("nothing was erased: the reason repeats a text to erase, and the reason stays in the log")


def check_cut(name: str, items: Iterable[Listed], chosen: Mapping[int, Target]) -> None:
    """Raise RejectedError if a subject is to be cut, but none of its rows has a part that repeats the text.

    The subject would stay whole, although the report says that it was cut.
    """
    listed = [*items]
    to_cut = {_subject_name(item.row) for item in listed if item.choice == "cut"}
    with_target = {_subject_name(item.row) for item in listed if item.row.position in chosen}
    if whole := sorted(to_cut - with_target):
        raise RejectedError(
            f"{name}: nothing in {whole[0]} repeats the whole text, so nothing can be cut: choose erase or keep"
        )


def _subject_name(row: ErasureRow) -> str:
    """Return the name of a row's subject; each message and each summary of a session has a name of its own."""
    if row.stream == LEDGER_STREAM:
        return f"the event at position {row.position}"
    what = "message" if row.type == MESSAGE else "summary"
    return f"the {what} at position {row.position}" if row.stream[0] == "s" else row.stream
