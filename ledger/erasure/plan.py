"""The plan of an erasure: its lists, what goes of each row, and what has to be decided before it is carried out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from msgspec import Struct

from ledger.domain import ids
from ledger.domain.errors import RejectedError
from ledger.domain.events import LEDGER_STREAM, ModelCalled
from ledger.domain.quotes import Needles
from ledger.erasure import acts
from ledger.erasure.asked import CHOICES, Asked
from ledger.erasure.conversations import FROM_MESSAGES, MESSAGE
from ledger.erasure.rows import Row, Target

LISTS = ("derived", "sources", "quotes")
ID = re.compile(rf"[{''.join(ids.KINDS)}]_[{ids.ALPHABET}]{{{ids.LENGTH - 2}}}")


class NothingLeft(RejectedError):
    """What is to be erased holds no text."""

    def __init__(self) -> None:
        super().__init__("nothing is left to erase of it: it was erased already, or never held a text")


class Listed(Struct, frozen=True):
    """One event of a list: what of it is concerned, and what becomes of it ("" while nobody said)."""

    row: Row
    fields: tuple[str, ...]
    choice: str = ""


class Plan(Struct, frozen=True):
    """What was found when the log ended at ``head``, and what the choices make of it."""

    head: int
    asked: Asked
    lists: Mapping[str, tuple[Listed, ...]]
    targets: tuple[Target, ...]
    kept: tuple[int, ...]
    needles: Needles
    streams: frozenset[str]  # whoever names one of these later may change the plan
    sessions: frozenset[str]  # and whoever writes in one of these from its messages
    names: tuple[Row, ...] = ()  # what names sessions of the project that others use too, and stays

    @property
    def undecided(self) -> dict[str, int]:
        """How many events of each list nobody has decided about."""
        found = {name: sum(not each.choice for each in self.lists[name]) for name in LISTS}
        return {name: count for name, count in found.items() if count}

    @property
    def blobs(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(blob for target in self.targets for blob in target.blobs))

    def concerns(self, row: Row, user: str | None, owner: str) -> bool:
        """Whether an event that came after the plan was made could change it."""
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


# --- whether it may be carried out ------------------------------------------------------------------------------------


def check_kept(plan: Plan, kept: frozenset[str | int]) -> None:
    listed = {place for name in LISTS for each in plan.lists[name] for place in (each.row.position, each.row.stream)}
    if strange := sorted(map(str, kept - listed)):
        raise RejectedError(f"keep names {strange[0]:.60}, which is in none of the lists; a dry run shows them")


def check_decided(plan: Plan) -> None:
    if undecided := plan.undecided:
        listed = ", ".join(f"{name} ({count} event{'s' * (count != 1)})" for name, count in undecided.items())
        choices = ", ".join(f"{name}=" for name in undecided)
        raise RejectedError(
            f"nothing was erased: others hold what is to go, and nobody said what becomes of them: {listed}; "
            f"look at them with dry_run, then give {choices} as one of {', '.join(CHOICES)}, and keep= for exceptions"
        )


def check_reason_given(plan: Plan, reason: str) -> None:
    if plan.needles.found(reason):
        raise RejectedError("nothing was erased: the reason says what is to be erased, and it stays in the log")


def check_cut(name: str, found: Iterable[Listed], chosen: Mapping[int, Target]) -> None:
    """``RejectedError`` where a memory is to be cut and nothing in it repeats the text: it would stay whole, and seem cut."""
    listed = [*found]
    cut = {_one(each.row) for each in listed if each.choice == "cut"}
    done = {_one(each.row) for each in listed if each.row.position in chosen}
    if whole := sorted(cut - done):
        raise RejectedError(
            f"{name}: nothing in {whole[0]} repeats the whole text, so nothing can be cut: erase it or keep it"
        )


def _one(row: Row) -> str:
    """What is one thing in a list: a subject, but each message and each summary of a session by itself."""
    if row.stream == LEDGER_STREAM:
        return f"the event at position {row.position}"
    what = "message" if row.type == MESSAGE else "summary"
    return f"the {what} at position {row.position}" if row.stream[0] == "s" else row.stream
