"""The projections' tables as a command has them under the lock: caught up with the log, read, and folded into.

Names, policies and who is distrusted are looked up once and kept while nobody else writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from ledger.domain import ids
from ledger.domain.errors import SuspendedError
from ledger.domain.events import WAYS_BACK, AnyEvent, of
from ledger.domain.policy import Policy
from ledger.domain.project import name_form
from ledger.engine.log_reading import Reading, check_log_since, check_tables, decode_known, find_row, first_position
from ledger.engine.own import Own
from ledger.store import closed
from ledger.store.event_store import Transaction
from projections.core.projector import (
    ESSENTIAL,
    FAMILIES,
    OWNERS,
    Projector,
    check_end,
    checkpoint,
    tables_of,
    text_indexes,
)
from projections.core.rows import Connection
from projections.core.sqlite import SQLiteRows, fill_index
from projections.views import control, memories, projects

_OPEN = nullcontext()  # nothing is suspended
# after these events a policy, a name or who is distrusted may be another one
CHANGING = frozenset[type[Any]]((*WAYS_BACK, *of(governs=("policy", "project", "session"))))


class Tables:
    """What every step of a command reads and writes, but for the log itself. In a batch the rows are kept back."""

    def __init__(self, secret: bytes) -> None:
        self.rows: SQLiteRows
        self.projector = Projector(secret, Reading(self.connection))
        self.own: Own | None = None  # projections of a user's
        self.looked_at = 0  # the log was searched for what this product cannot go on from up to here
        self._secret = secret
        self._transaction: Transaction | None = None
        self._rows_of: object = None
        self._changes = -1  # of the transaction in which this was last looked at
        self._folded = -1  # the last position that is known to be folded
        self._names: dict[tuple[str, str, str], str] = {}
        self._together: dict[str, tuple[str | None, ...]] = {}
        self._labels: dict[str, str] = {}
        self._policies: dict[str, Policy] = {}
        self._distrusted: set[tuple[str | None, str, str | None]] | None = None

    # --- one transaction after another ---------------------------------------------------------------------------

    def begin(self, transaction: Transaction) -> None:
        """Stands where the log ends, so that commands can be decided; ``SuspendedError`` where none can be."""
        self.attend(transaction)
        if transaction.position != self._folded:
            self._catch_up(transaction)
        if self.projector.suspended and (blocked := self.projector.suspended.intersection(ESSENTIAL)):
            name = min(blocked)
            raise SuspendedError(
                f"the projection {name!r} is suspended, so nothing can be decided; maintenance.rebuild() makes it again",
                projection=name,
            )

    def attend(self, transaction: Transaction) -> None:
        """Works in this transaction from here, whatever is suspended."""
        if self._rows_of is not transaction.connection:
            self.rows, self._rows_of = SQLiteRows(transaction.connection), transaction.connection
            self.rows.refused = self.projector.refused
        self._transaction = transaction
        if not transaction.deferred:
            self.projector.states.clear()
        if self._changes != transaction.changes:
            self._look_again(transaction)
            self._changes = transaction.changes

    def _look_again(self, transaction: Transaction) -> None:
        """Somebody else committed: what was kept of names and tables may be old, and the log beyond this product."""
        check_end(transaction.connection)
        check_log_since(transaction.connection, self.looked_at)
        self.looked_at = transaction.position
        self.forget()
        self.projector.poisoned.clear()
        _, suspended = check_tables(transaction.connection, self._secret)
        self.projector.leave_out(suspended)

    def _catch_up(self, transaction: Transaction) -> None:
        """Folds what somebody wrote to the log alone: nothing is decided without it."""
        folded = transaction.connection.execute("SELECT position FROM checkpoint WHERE id = 1").fetchone()
        if not transaction.deferred and folded is not None and 0 < folded[0] < transaction.position:
            self.forget()
            for event in decode_known(transaction.connection, folded[0] + 1, transaction.position):
                self.projector.fold(event, self.rows)
            self.projector.flush(self.rows)
            checkpoint(transaction.connection, transaction.position, transaction.head)
        self._folded = transaction.position

    def forget(self) -> None:
        """Drops all that was kept back or kept in mind: it is not what the file says, or may not be."""
        self._folded = -1
        self.forget_names()
        self.projector.forget()
        if self._rows_of is not None:
            self.rows.discard()
        if self.own is not None:
            self.own.forget()

    def connection(self) -> Connection:
        """The connection of the transaction under way, with every event of it written."""
        assert self._transaction is not None
        self._transaction.flush()
        return self._transaction.connection

    def closed(self) -> AbstractContextManager[None]:
        """Inside, nothing of what is suspended can be read."""
        if not self.projector.suspended:
            return _OPEN
        assert self._transaction is not None
        return closed.reading(self._transaction.connection, tables_of(self.projector.suspended))

    # --- folding -------------------------------------------------------------------------------------------------

    def fold(self, transaction: Transaction, events: Sequence[AnyEvent]) -> None:
        """Folds events just appended. What then is poisoned is left to be suspended, by an append of its own."""
        projector, rows, own = self.projector, self.rows, self.own
        if own is not None:
            own.begin(transaction, events[0].position - 1)
        for event in events:
            changes = projector.fold(event, rows)
            if own is not None:
                own.fold(transaction, event, changes)
        if not transaction.deferred:
            projector.flush(rows)
            if own is not None:
                own.flush(transaction)
            if not projector.poisoned:
                checkpoint(transaction.connection, transaction.position, transaction.head)
        self._folded = transaction.position

    def flush(self) -> None:
        """Writes the rows that a batch has kept back."""
        self.projector.flush(self.rows)

    def checkpoint(self, transaction: Transaction) -> None:
        """Writes the events that a batch has kept back, whose rows are written."""
        transaction.flush()
        if self.own is not None:
            self.own.flush(transaction)
        checkpoint(transaction.connection, transaction.position, transaction.head)

    def index_waiting(self, transaction: Transaction) -> None:
        """The texts that wait go into the text indexes, which keep nothing back from whoever reads in the same transaction."""
        self.begin(transaction)
        self.rows.flush()
        for owner, index in text_indexes():
            if owner not in self.projector.suspended:
                fill_index(transaction.connection, index)
        self.rows.discard()
        for verb in ("SAVEPOINT", "RELEASE"):  # only then does FTS5 write how many texts and words it has
            transaction.connection.execute(f"{verb} indexed")

    # --- subjects ------------------------------------------------------------------------------------------------

    def need(self, *names: str) -> None:
        """A suspended projection answers nothing."""
        for name in names:
            if name in self.projector.suspended:
                raise SuspendedError(
                    f"the projection {name!r} is suspended; maintenance.rebuild() makes it again", projection=name
                )

    def state_of(self, row: int, kind: str) -> Any:
        family = FAMILIES[kind]
        self.need(OWNERS[kind])
        found = self.rows.get(family.live, (row,))
        if found is None:
            return None
        state = family.from_row(found)
        self.projector.states[state.id] = state
        return state

    def find(self, given: str, kind: str, user: str) -> Any:
        """The state of a subject of this user by its id or an unambiguous prefix of it, or None."""
        known = self.projector.states.get(given) if isinstance(given, str) else None
        if known is None:
            if not isinstance(given, str) or len(given) < ids.LENGTH:
                self.rows.flush()
            row = find_row(self.connection(), given, kind, user)
            known = self.state_of(row, kind) if row is not None else None
        return known if known is not None and known.user == user else None

    def subject(self, id: str) -> Any:
        """The state of a subject by its full id, whoever's it is; None for what is none."""
        kind = ids.kind_of(id)
        if not kind or id in self.projector.states:
            return self.projector.states.get(id)
        first = first_position(self.connection(), id)
        return self.state_of(first, kind) if first is not None else None

    def subject_at(self, id: str, position: int) -> Any:
        """A subject as it stood at a position: what a repeated command answered the first time."""
        state = self.subject(id)
        if ids.kind_of(id) != "m" or (state is not None and state.position <= position):
            return state
        self.rows.flush()
        first = first_position(self.connection(), id)
        known = memories.get_at(self.connection(), first, position) if first is not None else None
        return known or state

    # --- what is kept in mind ------------------------------------------------------------------------------------

    def forget_names(self) -> None:
        """An act may have taken names or trust away, or given them back."""
        self._names.clear()
        self._together.clear()
        self._labels.clear()
        self._policies.clear()
        self._distrusted = None

    def learn(self, events: Iterable[AnyEvent]) -> None:
        """What was recorded, under the lock: whoever comes next must not decide by what was so before."""
        for event in events:
            if type(event.envelope.data) in CHANGING:
                self.forget_names()

    def policy(self, user: str) -> Policy:
        """The policy in effect for a user."""
        if user not in self._policies:
            self.rows.flush()  # in a batch one may have been adopted just now
            self._policies[user] = control.policy(self.connection(), user)
        return self._policies[user]

    def distrusted(self) -> set[tuple[str | None, str, str | None]]:
        """(user, kind, source) of all from whom nothing is taken."""
        known = self._distrusted  # another thread may forget it meanwhile
        if known is None:
            found = control.refused(self.connection())
            known = self._distrusted = {(each.user, each.kind, each.source) for each in found}
        return known

    def named(self, user: str, kind: str, name: str) -> str | None:
        """The id of a project or session of a user by name, alias or id."""
        key = (user, kind, name)
        if key not in self._names:
            form = name_form(name) if kind == "p" else name
            row = self.rows.get(projects.NAMES, (user, kind, form))
            if row is None:
                is_id = len(name) == ids.LENGTH and ids.is_prefix(name, kind)
                known = is_id and self.find(name, kind, user) is not None
                return (self.together(name)[0] if kind == "p" else name) if known else None
            self._names[key] = self.together(row[3])[0] or "" if kind == "p" else row[3]
        return self._names[key]

    def together(self, project: str | None) -> tuple[str | None, ...]:
        """A project with those that are joined to it, the one that they are found under first; (None,) for none."""
        if project is None:
            return (None,)
        if project not in self._together:
            self.rows.flush()  # in a batch one may have been joined just now
            self._together[project] = projects.together(self.connection(), project)
        return self._together[project]

    def names_of(self, state: Any) -> dict[str, str]:
        """What people call the project and session of a subject."""
        places = (getattr(state, "project", None), getattr(state, "session", None))
        given = [each for each in places if each is not None]
        if not given or "projects" in self.projector.suspended:
            return {}
        for each in given:
            if each not in self._labels:
                place = self.subject((self.together(each)[0] or "") if each[0] == "p" else each)
                if place is not None and place.name is not None:
                    self._labels[each] = place.name
        return {each: self._labels[each] for each in given if each in self._labels}
