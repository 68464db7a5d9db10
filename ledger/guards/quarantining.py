"""Quarantine: what is in it, who puts it there and lets it out, and the scan of everything stored."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from ledger import answers
from ledger.domain import events as e
from ledger.domain import memory as memory_domain
from ledger.domain.errors import NotFoundError, RejectedError
from ledger.domain.memory import Memory
from ledger.domain.text import check_reason
from ledger.engine.engine import Engine
from ledger.engine.log_reading import decode_range, read_event, read_stream
from ledger.engine.paging import CAP
from ledger.engine.snapshot import LIST_LIMIT, listed, load, text_of
from ledger.engine.stopping import Stopping
from ledger.engine.who import Who
from ledger.engine.work import Work
from ledger.guards import secrets, threats
from ledger.guards.answers import Quarantined, ScanReport, StoredSecret
from ledger.guards.guarding import BELIEFS, MATERIAL, PLANS, Found, Guard
from ledger.memories import commands as of_memories
from ledger.store.reading import read_tip
from projections.core.rows import Connection
from projections.views import control, documents, memories, quarantine

ACTOR = "policy:guards"
TOGETHER = 500  # events looked at, and written about, in one go
SHOWN = 1_000  # secrets of a report
Progress = Callable[[int, int], None]
TEXTS = {kind: kind.traits.quarantined_as for kind in e.TYPES.values() if kind.traits.quarantined_as}


def redactions(engine: Engine) -> dict[str, int]:
    """How many secrets of each kind were taken out of texts through this open ledger."""
    return dict(engine.writer.guard.counts)


def quarantined(
    engine: Engine, user: str, *, limit: int = LIST_LIMIT, after: tuple[int, int] | None = None
) -> list[Quarantined]:
    """What is in quarantine, the newest first, with the label and the scanner, behind ``after`` (since, position).

    Never a text.
    """
    with engine.reading() as connection:
        found = quarantine.listing(connection, user, listed(limit, CAP + 1), after)
        return [_shown(connection, each) for each in found]


def quarantine_text(engine: Engine, asker: Who, id: str | int, reason: str = "") -> answers.Memory | Quarantined:
    """Keeps a memory, whatever its status, or a text out of recall, reinforcement and extraction until ``release``.

    A text is given by the id of its interaction, chunk, summary or observation (which is its wording), or by the
    position of its event (of a message, say); then a ``Quarantined`` comes back.
    """
    return _hold(engine, id, reason, asker, hold=True)


def release_text(engine: Engine, asker: Who, id: str | int, reason: str = "") -> answers.Memory | Quarantined:
    """Ends the quarantine of a memory or text, whoever began it; a later scan does not begin it again."""
    return _hold(engine, id, reason, asker, hold=False)


def _hold(engine: Engine, id: str | int, reason: str, asker: Who, *, hold: bool) -> answers.Memory | Quarantined:
    verb = "guards.quarantine" if hold else "guards.release"
    with engine.reading() as connection:
        given: str | int = int(id) if isinstance(id, str) and id.isdecimal() and len(id) < 19 else id
        positions = _positions_of(connection, given, asker.user)
    if positions is None:
        memory = _memory_at(given, asker.user)
        act = of_memories.quarantine if hold else of_memories.release
        return act(engine.writer, asker, memory, reason)
    reason = check_reason("reason", reason)

    def body(work: Work) -> str:
        for at in positions:
            if quarantine.held(work.rows, at) != hold:
                work.emit(
                    e.LEDGER_STREAM,
                    e.TextQuarantined(at, reason=reason) if hold else e.TextReleased(at, reason=reason),
                )
        return e.LEDGER_STREAM

    outcome = engine.writer.run(verb, asker, body, (str(id), reason))
    engine.writer.write_waiting()
    with engine.reading() as connection:
        found = quarantine.among(connection, positions[:1]).get(positions[0])
        now = outcome.events[-1] if outcome.events else None
        since, time = (
            (now.position, now.envelope.recorded_at) if now is not None else (outcome.position, engine.writer.now())
        )
        at = found or quarantine.Held(positions[0], since, asker.user, "", "", "", time)
        answer = _shown(connection, at)
    return msgspec.structs.replace(answer, quarantined=found is not None, replayed=outcome.replayed)


def _memory_at(given: str | int, user: str) -> str:
    if isinstance(given, str):
        return given
    raise NotFoundError(f"no memory or text of this user is at position {given}")


def _positions_of(connection: Connection, given: object, user: str) -> list[int] | None:
    """The positions of the events whose text is meant; None where a memory is."""
    if isinstance(given, bool) or not isinstance(given, str | int):
        raise RejectedError(f"what is quarantined is named by an id or a position, and {given!r:.40} is neither")
    if isinstance(given, int):
        return _text_at(connection, given, user)
    if given[:2] == "i_":
        state = load(connection, given, "i", user)
        if state is None:
            raise NotFoundError(f"no interaction of this user has the id {given!r:.40}")
        return sorted({at for at in (state.prompt_at, state.response_at) if at is not None})
    if given[:2] == "o_":
        state = load(connection, given, "o", user)
        if state is None:
            raise NotFoundError(f"no observation of this user has the id {given!r:.40}")
        worded = read_stream(connection, state.id, state.position)
        found = [each.position for each in worded if getattr(each.data, "content", None) == state.text is not None]
        if not found:
            raise RejectedError(
                f"{state.id} was erased: it has no words that could be kept out of recall", rule="erased"
            )
        return found
    if given[:2] in ("c_", "y_"):
        at = _chunk_at(connection, given, user) if given[0] == "c" else _summary_at(connection, given, user)
        if at is None:
            raise NotFoundError(f"no {'chunk' if given[0] == 'c' else 'summary'} of this user has the id {given!r:.40}")
        return [at]
    return None


def _text_at(connection: Connection, position: int, user: str) -> list[int]:
    event = read_event(connection, position) if 0 < position < 2**62 else None
    if event is None or event.envelope.user != user or type(event.data) not in TEXTS:
        raise NotFoundError(f"no text of this user is at position {position}: a memory is named by its id")
    data = event.data
    if isinstance(data, e.MessageAppended) and data.interaction is not None:  # its text lies with the turn
        state = load(connection, data.interaction, "i", user)
        at = (state.prompt_at if data.field == "prompt" else state.response_at) if state is not None else None
        return [at or position]
    return [position]


def _chunk_at(connection: Connection, given: str, user: str) -> int | None:
    found = documents.find_chunk(connection, given, user)
    return found.row if found is not None else None


def _summary_at(connection: Connection, given: str, user: str) -> int | None:
    sql = (
        "SELECT s.row FROM summaries s CROSS JOIN sessions t ON t.row = s.session"
        " WHERE s.id >= ? AND s.id < ? AND t.user = ? LIMIT 2"
    )
    found = connection.execute(sql, (given, given + "~", user)).fetchall()
    return int(found[0][0]) if len(found) == 1 and len(given) > 2 else None


# --- everything again ----------------------------------------------------------------------------------------


def rescan(
    engine: Engine,
    *,
    since: int | None = None,
    dry_run: bool = False,
    stopping: Stopping,
    progress: Progress | None = None,
) -> ScanReport:
    """Runs the scanners of today over everything stored, of every user, or over what came after the position ``since``.

    What is newly found goes into quarantine; what a scanner had put there, and its version of today finds nothing in any
    more, comes out. Nobody's own quarantine or release is overruled. Secrets are reported, for only ``erase`` removes
    them. It works in pieces of 500, between which it may be stopped; a second run finds nothing to do. A ``dry_run``
    decides the same and writes nothing.
    """
    if since is not None and (isinstance(since, bool) or not isinstance(since, int) or since < 0):
        raise RejectedError(f"since is a position, and {since!r:.40} is none")
    engine.writer.write_waiting()
    scan = _Rescan(engine, since or 0, stopping, progress, dry_run)
    scan.run()
    return scan.report()


def _shown(connection: Connection, held: quarantine.Held) -> Quarantined:
    event = read_event(connection, held.at) if not held.subject else None
    data = event.data if event is not None else None
    stream = event.stream if event is not None else held.subject
    return Quarantined(
        position=held.at,
        id=str(getattr(data, "chunk", None) or _summary(data) or stream),
        kind=TEXTS[type(event.data)] if event is not None else "memory",
        finding=held.finding,
        scanner=held.scanner,
        since=held.from_position,
        recorded_at=held.recorded_at,
    )


class _Rescan:
    """One scan of everything stored: reads outside of the lock, and takes it for what has to change."""

    def __init__(
        self, engine: Engine, since: int, stopping: Stopping, progress: Progress | None, dry_run: bool
    ) -> None:
        self._engine, self._since, self._progress, self._dry_run = engine, since, progress, dry_run
        self._stopping, self._stopped, self._reached = stopping, "", since
        self._guard: Guard = engine.writer.guard
        self._counts = dict.fromkeys(("memories", "texts", "quarantined", "released", "secrets"), 0)
        self._seen: set[int] = set()
        self._secrets: list[StoredSecret] = []
        self._families = {_family(name): name for name in self._guard.names}

    def report(self) -> ScanReport:
        counts = self._counts
        return ScanReport(
            scanners=(*self._guard.names, secrets.NAME),
            memories=counts["memories"],
            texts=counts["texts"],
            quarantined=counts["quarantined"],
            released=counts["released"],
            secrets=tuple(self._secrets),
            secrets_found=counts["secrets"],
            dry_run=self._dry_run,
            reached=self._reached,
            stopped=self._stopped,
        )

    def run(self) -> None:
        with self._engine.reading() as connection:
            head, _ = read_tip(connection.cursor())
        for first in range(self._since + 1, head + 1, TOGETHER):
            if stopped := self._stopping.why:
                self._stopped = stopped
                return
            last = min(first + TOGETHER - 1, head)
            with self._engine.reading() as connection:
                wanted = list(self._looked_at(connection, first, last))
            for user in dict.fromkeys(owner for owner, *_ in wanted):
                self._apply(user, [each[1:] for each in wanted if each[0] == user])
            self._reached = last
            if self._progress is not None:
                self._progress(last, head)

    # --- outside of the lock -------------------------------------------------------------------------------------

    def _looked_at(self, connection: Connection, first: int, last: int) -> Iterator[tuple[str, int, str, Found | None]]:
        """(user, position, memory or "", finding) of what stands otherwise than it should."""
        out = control.voided(connection, first, last)
        held = quarantine.among(connection, range(first, last + 1))
        for event in decode_range(connection, first, last):
            user = event.envelope.user
            if user is None or isinstance(event.data, e.Unknown) or event.position in out:
                continue
            self._look_for_secrets(event, user)
            found, memory = None, ""
            position = event.position
            if event.stream[:2] == "m_":
                state = memories.get(connection, event.first) if type(event.data) in BELIEFS else None
                if state is None or state.status not in ("candidate", "active") or state.row in self._seen:
                    continue
                self._seen.add(state.row)
                self._counts["memories"] += 1
                memory, user, position = state.id, state.user or "", state.row
                found = self._found(_texts_of(state))
                held |= quarantine.among(connection, [position])
            elif type(event.data) in TEXTS:
                self._counts["texts"] += 1
                found = self._found(self._texts(connection, event.data))
            else:
                continue
            if self._differs(held.get(position), found):
                yield user, position, memory, found

    def _texts(self, connection: Connection, data: Any) -> Iterator[str | None]:
        for field in (*MATERIAL.get(type(data), ()), *BELIEFS.get(type(data), ())):
            value = getattr(data, field)
            if isinstance(value, msgspec.Raw):
                value = msgspec.json.decode(value)
            value = text_of(connection, value) if isinstance(value, e.Blob) else value
            yield from _flat(threats.judged(data, field, value) if isinstance(value, str) else value)

    def _found(self, texts: Iterable[str | None]) -> Found | None:
        found = (self._guard.verdict(text).found for text in texts if text)
        return next((each for each in found if each is not None), None)

    def _differs(self, held: quarantine.Held | None, found: Found | None) -> bool:
        if held is None:
            return found is not None
        return bool(held.scanner) and found is None and _family(held.scanner) in self._families

    def _look_for_secrets(self, event: e.AnyEvent, user: str) -> None:
        for field in PLANS.get(type(event.data), ()):
            value = getattr(event.data, field)
            if isinstance(value, e.Blob):
                with self._engine.reading() as connection:
                    value = text_of(connection, value)
            text = bytes(value).decode() if isinstance(value, msgspec.Raw) else value
            for each in _flat(text):
                for secret in secrets.scan(each) if each else ():
                    self._counts["secrets"] += 1
                    if len(self._secrets) < SHOWN:
                        self._secrets.append(
                            StoredSecret(position=event.position, field=field, kind=secret.kind, user=user)
                        )

    # --- under the lock ------------------------------------------------------------------------------------------

    def _apply(self, user: str, wanted: list[tuple[int, str, Found | None]]) -> None:
        done = {"quarantined": 0, "released": 0}

        def body(work: Work) -> str:
            done.update(quarantined=0, released=0)
            if work.policy().threats != "off":
                for at, memory, found in wanted:
                    emitted = self._on_memory(work, at, found) if memory else self._on_text(work, at, found)
                    done["released" if found is None else "quarantined"] += emitted
            if self._dry_run:
                work.emitted.clear()
            return e.LEDGER_STREAM

        self._engine.writer.run("guards.scan", Who(user=user, actor=ACTOR), body)
        self._counts["quarantined"] += done["quarantined"]
        self._counts["released"] += done["released"]

    def _on_text(self, work: Work, at: int, found: Found | None) -> bool:
        work.rows.flush()
        connection = work.connection()
        held = quarantine.among(connection, [at]).get(at)
        if not self._differs(held, found) or control.voided(connection, at, at):
            return False
        if found is None:
            assert held is not None
            work.emit(e.LEDGER_STREAM, e.TextReleased(at, self._families[_family(held.scanner)]))
            return True
        if quarantine.was_released(work.rows, at):
            return False
        work.emit(e.LEDGER_STREAM, e.TextQuarantined(at, found.label, found.scanner))
        return True

    def _on_memory(self, work: Work, at: int, found: Found | None) -> bool:
        state: Memory | None = work.at_row(at, "m")
        work.rows.flush()
        connection = work.connection()
        held = quarantine.among(connection, [at]).get(at)
        if state is None or not self._differs(held, found):
            return False
        work.project = state.project
        command: memory_domain.Command
        if found is None:
            assert held is not None
            command = memory_domain.Release("", self._families[_family(held.scanner)])
        elif _let_out(connection, state):
            return False
        else:
            command = memory_domain.Quarantine("", found.label, found.scanner)
        if state.status not in ("candidate", "active"):
            return False
        for event in memory_domain.decide(command, state):
            work.emit(state.id, event, first=state.row)
        return True


def _texts_of(memory: Memory) -> Iterator[str | None]:
    yield from (memory.content, *memory.entities, *memory.tags)
    for each in memory.edges:
        yield from (each.source, each.relation, each.target)


def _let_out(connection: Connection, memory: Memory) -> bool:
    """Whether somebody let this memory out of quarantine as it reads now: nobody's word is overruled."""
    for event in reversed(read_stream(connection, memory.id, memory.position)):
        if isinstance(event.data, e.MemoryRevised):
            return False
        if isinstance(event.data, e.MemoryReleased):
            return not event.data.scanner
    return False


def _flat(value: object) -> Iterator[str | None]:
    if isinstance(value, dict):
        value = (*value.keys(), *value.values())
    if isinstance(value, list | tuple):
        for each in value:
            yield from _flat(each)
    elif isinstance(value, str):
        yield value


def _summary(data: object) -> str:
    return data.summary if isinstance(data, e.SummaryCreated) else ""


def _family(scanner: str) -> str:
    return scanner.partition("/")[0]
