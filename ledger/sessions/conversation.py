"""The conversation that commands and queries take: a session by its user and the name that the caller used."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ledger.core.call import Who
from ledger.core.engine import Engine, ReadingEngine
from ledger.core.reads import load
from ledger.domain import ids
from ledger.domain.errors import NotFoundError, ReadOnlyError
from ledger.domain.name_patterns import NamePatterns
from ledger.domain.text import check_text
from ledger.sessions.rules.session import SessionState as State
from projections.core.rows import Connection
from projections.views import projects

if TYPE_CHECKING:
    from ledger.core.command import Writer
    from ledger.domain.tokens import Counter

NO_PATTERNS = NamePatterns()


class Conversation:
    """A session of a user, which may not exist yet.

    The constructor writes nothing; the session begins in ``project`` with its first message. ``name`` is a name, an alias or the
    id of the session. ``who`` is the identity of the caller, whose user owns the session. ``kept_out`` is the reason why a
    pattern keeps the session's messages out: "ignored", "stateless" or "".
    """

    def __init__(self, engine: ReadingEngine, who: Who, name: str, project: str | None = None) -> None:
        self.engine = engine
        self.who = who
        self.name: str = session_name(name)
        self.project = project
        self.counter: Counter = engine.counter
        self.kept_out: str = engine.keeps_out(*self._names())

    @property
    def user(self) -> str:
        return self.who.user

    @property
    def id(self) -> str | None:
        """Return the id of the session (``s_…``); None while the session has no messages."""
        with self.reading() as (_, state):
            return state.id if state is not None else None

    @property
    def present(self) -> Engine:
        """Return the engine for a write.

        Raises:
            ReadOnlyError: The conversation reads a moment of the past.
        """
        if not isinstance(self.engine, Engine):
            raise ReadOnlyError(
                "a session of the past is read-only, and this call writes: call it on a session of the ledger itself",
                rule="readonly",
            )
        return self.engine

    @property
    def writer(self) -> Writer:
        return self.present.writer

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"

    def _names(self) -> list[str]:
        """Return every name of the session; names are looked up only if a pattern could match another name."""
        if self.engine.patterns == NO_PATTERNS and len(self.name) != ids.LENGTH:
            return [self.name]
        with self.engine.reading() as connection:
            state = self.found(connection)
            names = (state.name, *state.aliases) if state is not None else ()
            return [self.name, *(name for name in names if name is not None)]

    @contextmanager
    def reading(self) -> Iterator[tuple[Connection, State | None]]:
        """Yield a snapshot, and the session's state in it."""
        with self.engine.reading() as connection:
            yield connection, self.state(connection)

    def state(self, connection: Connection) -> State | None:
        """Return the state of the session with this name or full id; None for an ignored session.

        A name is never taken for the beginning of an id.
        """
        return None if self.kept_out == "ignored" else self.found(connection)

    def found(self, connection: Connection) -> State | None:
        """Return the state of the session with this name or full id, also of an ignored session."""
        match = projects.find(connection, self.user, "s", self.name)
        id = match[0] if match is not None else self.name if len(self.name) == ids.LENGTH else None
        state: State | None = load(connection, id, "s", self.user) if id is not None else None
        return state

    def needed(self, state: State | None) -> State:
        if state is None:
            raise NotFoundError(f"no session of this user is called {self.name!r:.60}")
        return state


class EveryConversation(Conversation):
    """All sessions of a user, for a search."""

    def __init__(self, engine: ReadingEngine, who: Who) -> None:
        super().__init__(engine, who, "every")
        self.kept_out = ""

    def _names(self) -> list[str]:
        return []

    def found(self, connection: Connection) -> State | None:
        return None


def session_name(name: object) -> str:
    """Return a checked name of a session.

    Raises:
        RejectedError: The name is blank or not a text.
    """
    return check_text("a session's id", name)
