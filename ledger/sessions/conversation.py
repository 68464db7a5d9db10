"""One conversation as commands and queries are given it: whose it is, what it was called, and how its state is found."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ledger.domain import ids
from ledger.domain.errors import NotFoundError
from ledger.domain.patterns import Patterns
from ledger.domain.session import Session as State
from ledger.domain.text import check_text
from ledger.engine.engine import Engine
from ledger.engine.pipeline import Writer
from ledger.engine.snapshot import load
from ledger.engine.who import Who
from projections.core.rows import Connection
from projections.views import projects

NO_PATTERNS = Patterns()


class Conversation:
    """Nothing is written by asking for one: it begins with its first message, in ``project``.

    ``name`` is its name, an alias or its id; ``who`` acts, and its user is whose conversation it is. ``kept_out`` says whether a
    pattern keeps its messages out: "", "ignored" or "stateless".
    """

    def __init__(self, engine: Engine, who: Who, name: str, project: str | None = None) -> None:
        self.engine, self.who, self.name, self.project = engine, who, session_name(name), project
        self.counter = engine.counter
        self.kept_out = engine.keeps_out(*self._names())

    @property
    def user(self) -> str:
        return self.who.user

    @property
    def id(self) -> str | None:
        """Its own id (``s_…``); None while the session has no messages."""
        with self.reading() as (_, state):
            return state.id if state is not None else None

    @property
    def writer(self) -> Writer:
        return self.engine.writer

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"

    def _names(self) -> list[str]:
        """Every name of the session, by whichever it was asked for; looked up only where a pattern could mean one."""
        if self.engine.patterns == NO_PATTERNS and len(self.name) != ids.LENGTH:
            return [self.name]
        with self.engine.reading() as connection:
            state = self.found(connection)
            known = (state.name, *state.aliases) if state is not None else ()
            return [self.name, *(each for each in known if each is not None)]

    @contextmanager
    def reading(self) -> Iterator[tuple[Connection, State | None]]:
        """A snapshot, and the session's state in it."""
        with self.engine.reading() as connection:
            yield connection, self.state(connection)

    def state(self, connection: Connection) -> State | None:
        """The session of this name or whole id; a name is never taken for the beginning of an id. Of one that is ignored
        nothing is read."""
        return None if self.kept_out == "ignored" else self.found(connection)

    def found(self, connection: Connection) -> State | None:
        found = projects.find(connection, self.user, "s", self.name)
        id = found[0] if found is not None else self.name if len(self.name) == ids.LENGTH else None
        state: State | None = load(connection, id, "s", self.user) if id is not None else None
        return state

    def needed(self, state: State | None) -> State:
        if state is None:
            raise NotFoundError(f"no session of this user is called {self.name!r:.60}")
        return state


class EveryConversation(Conversation):
    """All sessions of a user, to be searched."""

    def __init__(self, engine: Engine, who: Who) -> None:
        super().__init__(engine, who, "every")
        self.kept_out = ""

    def _names(self) -> list[str]:
        return []

    def found(self, connection: Connection) -> State | None:
        return None


def session_name(given: object) -> str:
    """A session's name as somebody gave it; ``RejectedError`` where it is blank."""
    return check_text("a session's id", given)
