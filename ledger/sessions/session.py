"""A session as the library hands it out, and how one is asked for: all that the rooms beside this file can do with it."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from ledger.reads import LIST_LIMIT, MEMORY_CAP, NOWHERE, Reads, listed, named
from ledger.sessions import answers
from ledger.sessions.counting import Counter
from ledger.sessions.reading import NEEDS, info, session_name
from ledger.sessions.searching import SessionSearch
from ledger.sessions.writing import SessionWrites
from projections import sessions


class PastSession(SessionSearch):
    """A session as it was known at a moment."""


class Session(SessionWrites, PastSession):
    """One conversation: append to it, read it, shorten it."""


class SessionsRead(Reads):
    """The sessions of a user, as they can be listed and read."""

    _counter: Counter

    def sessions(
        self, *, user: str | None = None, project: str | None = None, limit: int | None = LIST_LIMIT
    ) -> list[answers.SessionInfo]:
        """The sessions of a user, the one opened last first; ``project`` is that which they were opened in."""
        owner = self._user(user)
        with self._read(*NEEDS) as connection:
            wanted = named(connection, owner, "p", project)
            if wanted is NOWHERE:
                return []
            found = sessions.listing(connection, user=owner, project=wanted, limit=listed(limit, MEMORY_CAP))
            return [info(connection, state) for state in found]

    def _session_of(self, kind: Any, id: str, project: str | None, user: str | None) -> Any:
        whose = replace(self._default, user=self._user(user))
        return kind(self, session_name(id), whose, project, self._counter, "")


class Sessions(SessionsRead):
    """The part of the library door that opens sessions."""

    def session(self, id: str, *, project: str | None = None, user: str | None = None) -> Session:
        """The session that goes by this name, or an alias or id of it; it begins with its first message, in ``project``."""
        found: Session = self._session_of(Session, id, project, user)
        return found
