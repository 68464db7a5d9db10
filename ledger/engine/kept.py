"""What commands look up once and keep while nobody else writes: names, policies, and who is distrusted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ledger.domain import ids
from ledger.domain.events import WAYS_BACK, AnyEvent, of
from ledger.domain.policy import Policy
from ledger.domain.project import name_form
from projections.views import control, projects

if TYPE_CHECKING:
    from ledger.engine.tables import Tables

# after these events some of it may be otherwise
CHANGING: tuple[type[object], ...] = (*WAYS_BACK, *of(governs=("policy", "session")))


class Kept:
    """Of one open ledger, under its lock. Whatever may change one of these ends with ``forget``."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._names: dict[tuple[str, str, str], str] = {}
        self._labels: dict[str, str] = {}
        self._policies: dict[str, Policy] = {}
        self._distrusted: set[tuple[str | None, str, str | None]] | None = None

    def forget(self) -> None:
        """An act may have taken names or trust away, or given them back."""
        self._names.clear()
        self._labels.clear()
        self._policies.clear()
        self._distrusted = None

    def learn(self, events: Iterable[AnyEvent]) -> None:
        """What was recorded, under the lock: whoever comes next must not decide by what was so before."""
        for event in events:
            if isinstance(event.data, CHANGING):
                self.forget()

    def policy(self, user: str) -> Policy:
        """The policy in effect for a user."""
        if user not in self._policies:
            self._tables.rows.flush()  # in a batch one may have been adopted just now
            self._policies[user] = control.policy(self._tables.connection(), user)
        return self._policies[user]

    def distrusted(self) -> set[tuple[str | None, str, str | None]]:
        """(user, kind, source) of all from whom nothing is taken."""
        known = self._distrusted  # another thread may forget it meanwhile
        if known is None:
            found = control.refused(self._tables.connection())
            known = self._distrusted = {(each.user, each.kind, each.source) for each in found}
        return known

    def named(self, user: str, kind: str, name: str) -> str | None:
        """The id of a project or session of a user by name, alias or id."""
        key = (user, kind, name)
        if key not in self._names:
            form = name_form(name) if kind == "p" else name
            row = self._tables.rows.get(projects.NAMES, (user, kind, form))
            if row is None:
                return self._by_id(user, kind, name)
            self._names[key] = row[3]
        return self._names[key]

    def _by_id(self, user: str, kind: str, given: str) -> str | None:
        is_id = len(given) == ids.LENGTH and ids.is_prefix(given, kind)
        return given if is_id and self._tables.find(given, kind, user) is not None else None

    def names_of(self, state: object) -> dict[str, str]:
        """What people call the project and session of a subject."""
        places = (getattr(state, "project", None), getattr(state, "session", None))
        given = [each for each in places if each is not None]
        if not given or "projects" in self._tables.projector.suspended:
            return {}
        for each in given:
            if each not in self._labels:
                place = self._tables.subject(each)
                if place is not None and place.name is not None:
                    self._labels[each] = place.name
        return {each: self._labels[each] for each in given if each in self._labels}
