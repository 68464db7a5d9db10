"""What meets damaged projections is done again after their mending: a read always, a command where it recorded nothing yet.

``mends`` sees to that for a whole door, so that a new read cannot be forgotten: for everything public, and for each method
that takes a snapshot of its own, so that in a command of many steps only the step that met the damage is done again.
"""

from __future__ import annotations

import functools
import sqlite3
import traceback
from collections.abc import Iterator
from contextlib import suppress
from inspect import isfunction, isgeneratorfunction, unwrap
from types import SimpleNamespace
from typing import Any, TypeVar

from ledger.care import Care
from ledger.domain.errors import DamagedRows, StorageError
from ledger.event_store import UNFORESEEN
from projections.damage import ill_typed

OWN_WAY = ("verify", "close")  # tells of damage and mends none; asks nothing
GO_ON = ("_purge_what_a_crash_left", "finish_erasures")  # done again these go on where they were
LOOKS = {
    "_read",
    "_reading",
    "_committed",
    "snapshot",
    "travelling",
    "leased",
}  # what names one of them reads by itself


class Unmended(StorageError):
    """Damage was met, and the call cannot be done again; the message says what can be done instead."""


def sqlite_code(error: BaseException | None) -> int:
    """What SQLite said in the first place; 0 when it was not SQLite."""
    while error is not None:
        if isinstance(error, sqlite3.Error):
            return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF
        error = error.__cause__
    return 0


def damages(error: BaseException) -> bool:
    """Whether an error may come from damaged tables: pages that cannot be read, a table or column that is missing, or rows
    that no fold wrote."""
    return is_beyond_doubt(error) or sqlite_code(error) == sqlite3.SQLITE_ERROR


def is_beyond_doubt(error: BaseException) -> bool:
    return isinstance(error, DamagedRows) or sqlite_code(error) == sqlite3.SQLITE_CORRUPT


Door = TypeVar("Door", bound=type)


def mends(door: Door) -> Door:
    """Makes a door, that of the ledger, of a session or of a moment, mend what its methods meet."""
    homes = {name: part for part in reversed(door.__mro__) for name in vars(part) if not name.startswith("__")}
    for name, home in homes.items():
        found = vars(home)[name]
        act = found.fget if isinstance(found, property) else found
        if isfunction(act) and _may_meet_damage(name, act, cared_for=issubclass(home, Care) and home is not door):
            part = home if home is not door and isfunction(found) else SimpleNamespace(**{name: act})
            again = _done_again(part, name, act)
            setattr(door, name, property(again, doc=act.__doc__) if isinstance(found, property) else again)
    return door


def is_done_again(found: object) -> bool:
    """Whether a method or property of a door mends what it meets."""
    act = found.fget if isinstance(found, property) else found
    return hasattr(act, "mends")


def _may_meet_damage(name: str, act: Any, *, cared_for: bool) -> bool:
    """``cared_for`` is what belongs to the care of a ledger, which sees to damage in its own way."""
    if cared_for or name in OWN_WAY or is_done_again(act) or isgeneratorfunction(inmost := unwrap(act)):
        return False
    return not name.startswith("_") or not LOOKS.isdisjoint(inmost.__code__.co_names)


def _done_again(part: Any, name: str, act: Any) -> Any:
    """``act`` as ``part`` has it at the time of the call, so that who replaces it there replaces it for every door."""
    goes_on = name in GO_ON

    @functools.wraps(act)
    def again(self: Any, *args: Any, **named: Any) -> Any:
        keeper = _keeper(self)
        mended, recorded = keeper._mended, keeper._writer.recorded
        try:
            return getattr(part, name)(self, *args, **named)
        except Unmended:
            raise
        except (StorageError, *UNFORESEEN) as error:
            damage = error if isinstance(error, StorageError) else _behind(keeper, error)
            if damage is None or not damages(damage) or not _mended(keeper, damage, mended):
                raise
            used_up = any(isinstance(each, Iterator) for each in (*args, *named.values()))
            if not goes_on and (used_up or keeper._writer.recorded != recorded):
                raise Unmended(
                    f"{name} met damaged projections half-way; they are folded again from the log by now, and what it had "
                    "recorded until then stands: look at that, and call it again for the rest"
                ) from error
        return _for_the_last_time(getattr(part, name), self, args, named)

    again.mends = True  # type: ignore[attr-defined]
    return again


def _keeper(door: Any) -> Any:
    """The ledger of a session or of a moment; a ledger is its own."""
    while (behind := vars(door).get("_ledger")) is not None:
        door = behind
    return door


def _behind(keeper: Any, error: BaseException) -> StorageError | None:
    """The damage behind an error that nobody foresaw, met while the file was read: a row may hold a number for a text."""
    if not getattr(error, "reading", False) or keeper._store.folded_privately:
        return None
    with suppress(StorageError), keeper._store.snapshot() as connection:
        if table := ill_typed(connection):
            damage = DamagedRows(f"a row of {table} is damaged ({type(error).__name__}): rebuild() folds it again")
            damage.__cause__ = error
            return damage
    return None


def _mended(keeper: Any, error: StorageError, seen: int) -> bool:
    _let_go(error)
    if keeper._mend(error, seen=seen):
        return True
    if is_beyond_doubt(error) and (keeper._store.readonly or keeper._writer.batching):
        where = "inside of a batch" if keeper._writer.batching else "in a ledger opened for reading"
        raise Unmended(
            f"{error}; {where} nothing can be mended: where it is the projections, any call of a ledger opened for writing "
            "that meets it, outside of a batch, has them folded again; doctor() tells what is damaged"
        ) from error
    return False


def _let_go(error: BaseException | None) -> None:
    """Ends the queries that the frames of an error keep half read: no table can be replaced under them."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__


def _for_the_last_time(act: Any, door: Any, args: Any, named: Any) -> Any:
    try:
        return act(door, *args, **named)
    except Unmended:
        raise
    except StorageError as error:
        if not is_beyond_doubt(error):
            raise
        raise Unmended(
            f"{error}; the projections were folded again from the log just now, and cannot be read again: "
            "the disk may be failing; take the file to another one, and look at it with doctor()"
        ) from error
