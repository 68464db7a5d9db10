"""The base of everything that asks: each read is one consistent snapshot, waits for no writer, and appends nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from ledger.domain import confidence as rules
from ledger.domain.errors import RejectedError, SuspendedError
from ledger.domain.events import LedgerCreated
from ledger.domain.patterns import Patterns
from ledger.domain.policy import MILLIONTHS
from ledger.domain.text import check_text
from ledger.engine.log_reading import check_tables
from ledger.engine.pipeline import Writer
from ledger.engine.snapshot import LiveSnapshot, Snapshot
from ledger.engine.work import Who
from ledger.sessions.counting import ESTIMATE, Counter
from ledger.store.event_store import EventStore
from projections.core import digests
from projections.views import control, memories, projects

PAGED = 1_001  # of a listing that is read page by page: a page, and whether there is another


class Reads:
    """Everything that asks. ``user`` is always the ledger's own unless another is named."""

    store: EventStore
    writer: Writer
    default: Who
    created: LedgerCreated
    patterns: Patterns = Patterns()  # which sessions are kept out
    counter: Counter = ESTIMATE
    valid: str | None = None  # a time of the world: what is believed of then, and not of any time

    @contextmanager
    def snapshot(self, *needs: str) -> Iterator[Snapshot]:
        """What queries take, after a look at the tables: what is suspended answers nothing."""
        with self._read(*needs) as connection:
            yield self._seen(connection)

    def _seen(self, connection: Any) -> Snapshot:
        return LiveSnapshot(connection, self.writer.secret, self.valid, self.writer.now)

    @contextmanager
    def _read(self, *needs: str) -> Iterator[Any]:
        """The connection alone."""
        self.writer.settle()
        with self.store.snapshot() as connection:
            _, suspended = check_tables(connection, self.writer.secret)
            for name in needs:
                if name in suspended:
                    raise SuspendedError(
                        f"the projection {name!r} is suspended, so this cannot be answered; maintenance.rebuild() makes it again",
                        projection=name,
                    )
            try:
                yield connection
            except (UnicodeEncodeError, OverflowError) as error:
                raise RejectedError(
                    f"something asked for is nothing that can be stored ({type(error).__name__})"
                ) from None

    def _schema(self) -> str:
        """Where the text indexes lie: in the file, or where this process folded its own."""
        return "temp" if self.store.folded_privately else "main"

    def _keeps_out(self, *names: str) -> str:
        """Whether a pattern keeps the messages of a session of these names out: "ignored", "stateless" or ""."""
        kinds = {self.patterns.kind(name) for name in names}
        return next((kind for kind in ("ignored", "stateless") if kind in kinds), "")

    def _user(self, user: str | None) -> str:
        return self.default.user if user is None else check_text("user", user, max_bytes=1024, blank_allowed=True)

    def policy(self, *, user: str | None = None) -> dict[str, Any]:
        """The parameters of the policy in force for a user; gains as decimals."""
        with self._read("in_effect") as connection:
            told = msgspec.structs.asdict(control.policy(connection, self._user(user)))
        return told | {name: rules.shown(told[name]) for name in MILLIONTHS}

    # --- the ledger itself ---------------------------------------------------------------------------------------

    @property
    def position(self) -> int:
        """The position of the last event."""
        self.writer.settle()
        return self.store.head()[0]

    def digest(self, *, beliefs: bool = False, user: str | None = None) -> str:
        """A hash (SHA-256, hex) over all rows of all projections, equal after any rebuild; the text index is outside it.

        With ``beliefs`` a hash over what one user's memories say (project, kind, content, status, confidence, references),
        without ids, positions and times: equal wherever the same is believed, on whatever way it came about.
        """
        owner = self._user(user)
        with self._read(*(("memories", "projects") if beliefs else ())) as connection:
            if not beliefs:
                return digests.digest(connection, self.writer.secret)
            found = memories.listing(connection, user=owner, limit=-1)
            names = projects.names(connection, {each.project for each in found})
        said = [(names.get(each.project or ""), each.kind, each.content, each.status) for each in found]
        counted = [(each.confidence, each.reference_count) for each in found]
        lines = sorted(
            msgspec.json.encode((owner, *words, *numbers)) for words, numbers in zip(said, counted, strict=True)
        )
        return hashlib.sha256(b"\n".join(lines)).hexdigest()
