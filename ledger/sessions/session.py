"""A session as the library hands it out, and how one is asked for: all that the rooms beside this file can do with it."""

from __future__ import annotations

from itertools import islice
from typing import Any

from msgspec.structs import replace

from ledger.domain.errors import ReadOnlyError
from ledger.domain.session import Session as State
from ledger.engine.log_reading import first_position
from ledger.engine.reads import Reads
from ledger.engine.snapshot import LIST_LIMIT, MEMORY_CAP, NOWHERE, listed, named
from ledger.engine.work import Who
from ledger.sessions import answers
from ledger.sessions.assembled import Window
from ledger.sessions.assembling import SessionAssembly, SessionReceipts
from ledger.sessions.compacting import Compacting
from ledger.sessions.mining import SessionMining
from ledger.sessions.picture import SessionPicture
from ledger.sessions.reading import NEEDS, info, session_name
from ledger.sessions.searching import SessionSearch
from ledger.sessions.summarising import Summariser
from projections.views import sessions


class SessionQuestions(SessionSearch, SessionPicture, SessionAssembly):
    """All that can be asked of a session."""


class CoreSession(Compacting, SessionMining, SessionReceipts, SessionQuestions):
    """One conversation: append to it, read it, keep it within a window."""


class PastSession(SessionQuestions):
    """A session as it was known at a moment, for reading."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not hasattr(CoreSession, name):
            raise AttributeError(f"a session has no {name!r}")
        raise self._past(name)

    def _recorded(self, found: Window, tail: int) -> Window:
        raise self._past("record")

    @staticmethod
    def _past(name: str) -> ReadOnlyError:
        told = f"{name} writes, or is of today only, and this is a session of the past; ask the ledger itself"
        return ReadOnlyError(told, rule="readonly")


class AllSessions(SessionSearch):
    """All sessions of a user, to be searched."""

    def __init__(self, ledger: Reads, who: Who) -> None:
        super().__init__(ledger, "", who, None, ledger.counter)

    def _names(self) -> list[str]:
        return []

    def _found(self, connection: Any) -> State | None:
        return None


class SessionsRead(Reads):
    """The sessions of a user, as they can be listed and read."""

    def sessions(
        self,
        *,
        user: str | None = None,
        project: str | None = None,
        limit: int | None = LIST_LIMIT,
        after: str | None = None,
    ) -> list[answers.SessionInfo]:
        """The sessions of a user, the one opened last first; ``project`` is that which they were opened in."""
        owner = self._user(user)
        with self._read(*NEEDS) as connection:
            wanted = named(connection, owner, "p", project)
            if wanted is NOWHERE:
                return []
            before = first_position(connection, after) if after is not None else None
            found = sessions.listing(connection, user=owner, project=wanted, before=before)
            shown = (state for state in found if self._keeps_out(*state.names) != "ignored")
            return [info(connection, state) for state in islice(shown, listed(limit, MEMORY_CAP))]

    def _session_of(self, kind: Any, id: str, project: str | None, user: str | None, who: Who | None = None) -> Any:
        whose = who or replace(self.default, user=self._user(user))
        return kind(self, session_name(id), whose, project, self.counter)


class Sessions(SessionsRead):
    """The part of the library door that opens sessions."""

    summariser: Summariser | None = None

    def session(
        self, id: str, *, project: str | None = None, user: str | None = None, who: Who | None = None
    ) -> CoreSession:
        """The session that goes by this name, or an alias or id of it; it begins with its first message, in ``project``."""
        found: CoreSession = self._session_of(CoreSession, id, project, user, who)
        found.summariser = self.summariser
        return found
