"""A session as the library hands it out, and how one is asked for: all that the rooms beside this file can do with it."""

from __future__ import annotations

from itertools import islice
from typing import Any

from ledger.domain.errors import ReadOnlyError
from ledger.domain.session import Session as State
from ledger.engine.engine import Engine
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
from ledger.sessions.reading import NEEDS, info
from ledger.sessions.searching import SessionSearch
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


def list_sessions(
    engine: Engine,
    user: str,
    *,
    project: str | None = None,
    limit: int | None = LIST_LIMIT,
    after: str | None = None,
) -> list[answers.SessionInfo]:
    """The sessions of a user, the one opened last first; ``project`` is that which they were opened in."""
    with engine.reading(*NEEDS) as connection:
        wanted = named(connection, user, "p", project)
        if wanted is NOWHERE:
            return []
        before = first_position(connection, after) if after is not None else None
        found = sessions.listing(connection, user=user, project=wanted, before=before)
        shown = (state for state in found if engine.keeps_out(*state.names) != "ignored")
        return [info(connection, state) for state in islice(shown, listed(limit, MEMORY_CAP))]
