"""Who asks: said once, by ``open`` or ``bind``, and part of every call that follows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from ledger.domain import times
from ledger.domain.errors import RejectedError
from ledger.domain.text import check_text
from ledger.engine.who import NAME_BYTES, check_channel, who
from ledger.engine.work import Who
from ledger.types import Since, WriteOptions

if TYPE_CHECKING:
    from ledger.engine.engine import Engine


class Scope(Struct, frozen=True):
    """Whose memory (``user``), who acts, through which program and kind of input, for which agent."""

    user: str = ""
    actor: str = ""
    client: str = ""
    channel: str = "user"
    agent: str = ""

    def bound(self, given: Mapping[str, str | None]) -> Scope:
        """The same with what is given in its place; None leaves a word as it is."""
        changed = {name: value for name, value in given.items() if value is not None}
        for name, value in changed.items():
            check_text(name, value, max_bytes=NAME_BYTES, blank_allowed=True)
        check_channel(changed.get("channel", self.channel))
        return replace(self, **changed)

    def asker(self, options: WriteOptions) -> Who:
        """Who asks for one command, with the options of its call."""
        bound = Who(user=self.user, actor=self.actor, client=self.client, channel=self.channel, agent=self.agent)
        return who(bound, options) if options else bound

    def searcher(self, options: WriteOptions) -> Who:
        """The same for a search, which is in several appends and records nothing twice: a key would mean nothing."""
        if options.get("idempotency_key") is not None:
            raise RejectedError("a search takes no idempotency_key: looking again records nothing twice")
        return self.asker(options)


def callback(progress: Callable[[int, int], None] | None) -> Callable[[int, int], None] | None:
    """What is called with (done, of how many), which has to be something that can be called."""
    if progress is not None and not callable(progress):
        raise RejectedError(f"progress is a function of two numbers, and {progress!r:.40} is none")
    return progress


class Area:
    """One namespace, or a ledger: what it works on, and for whom. It holds no ledger, so nothing refers back to one."""

    __slots__ = ("_engine", "_scope")

    _engine: Engine

    def __init__(self, engine: Engine, scope: Scope) -> None:
        self._engine, self._scope = engine, scope

    def _bounds(self, since: Since | None, until: Since | None) -> dict[str, str]:
        """The bounds that are given, as stored times; a duration counts back from now, or from the moment asked about."""
        given = {name: value for name, value in (("since", since), ("until", until)) if value is not None}
        return {name: times.since(name, value, self._engine.writer.now()) for name, value in given.items()}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._engine.path!r} user={self._scope.user!r}>"

    def __reduce__(self) -> Any:
        raise TypeError(f"{type(self).__name__} cannot be pickled: open the ledger there by its path")
