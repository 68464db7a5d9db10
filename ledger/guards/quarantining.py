"""Quarantine: listing, holding and releasing memories and texts, and the scan of everything stored."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from ledger import events as e
from ledger.core.area import CAP
from ledger.core.call import Who
from ledger.core.engine import Engine, ReadingEngine
from ledger.core.guarding import BELIEFS, MATERIAL, PLANS, Guard, ScannerHit
from ledger.core.reads import LIST_LIMIT, bounded_limit, decode_range, load, read_event, read_stream, text_of
from ledger.core.steps import Stopping
from ledger.core.work import Work
from ledger.domain.errors import NotFoundError, RejectedError
from ledger.domain.scan import secrets
from ledger.domain.scan.keyed import texts_in
from ledger.domain.text import check_reason
from ledger.guards.answers import Quarantined, ScanReport, StoredSecret
from ledger.log.reading import read_tip
from ledger.memories import answers
from ledger.memories import commands as of_memories
from ledger.memories import rules as memory_rules
from ledger.memories.state import MemoryState
from projections.core.rows import Connection
from projections.views import control, documents, memories, quarantine

ACTOR = "policy:guards"
TOGETHER = 500  # events that are scanned in one piece, with one command for each user
SHOWN = 1_000  # the most secrets that a report lists
Progress = Callable[[int, int], None]
TEXTS = {kind: kind.traits.quarantined_as for kind in e.TYPES.values() if kind.traits.quarantined_as}


def redactions(engine: Engine) -> dict[str, int]:
    """Return the number of secrets of each kind that this open ledger took out of texts."""
    return dict(engine.writer.guard.counts)


def quarantined(
    engine: ReadingEngine,
    user: str,
    *,
    limit: int = LIST_LIMIT,
    after: tuple[int, int] | None = None,
    oldest_first: bool = False,
) -> list[Quarantined]:
    """Return the items in quarantine, newest or oldest first: labels and scanners, never a text.

    ``after`` is the (since, position) behind which they begin.
    """
    with engine.reading() as connection:
        held = quarantine.listing(connection, user, bounded_limit(limit, CAP + 1), after, oldest_first=oldest_first)
        return [_shown(connection, item) for item in held]


def quarantine_text(engine: Engine, asker: Who, id: str | int, reason: str = "") -> answers.Memory | Quarantined:
    """Keep a memory of any status, or a text, out of recall, reinforcement and extraction until ``release``.

    A text is given by the id of its interaction, chunk, summary or observation, or by the position of its event, as for a
    message. For a text the answer is a ``Quarantined``.
    """
    return _hold(engine, id, reason, asker, hold=True)


def release_text(engine: Engine, asker: Who, id: str | int, reason: str = "") -> answers.Memory | Quarantined:
    """End the quarantine of a memory or text, whoever began it. A later scan does not begin it again."""
    return _hold(engine, id, reason, asker, hold=False)


def _hold(engine: Engine, id: str | int, reason: str, asker: Who, *, hold: bool) -> answers.Memory | Quarantined:
    verb = "guards.quarantine" if hold else "guards.release"
    with engine.reading() as connection:
        subject: str | int = int(id) if isinstance(id, str) and id.isdecimal() and len(id) < 19 else id
        positions = _positions_of(connection, subject, asker.user)
    if positions is None:
        memory = _memory_at(subject, asker.user)
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
    engine.write_waiting()
    with engine.reading() as connection:
        held = quarantine.among(connection, positions[:1]).get(positions[0])
        now = outcome.events[-1] if outcome.events else None
        since, time = (now.position, now.envelope.recorded_at) if now is not None else (outcome.position, engine.now())
        item = held or quarantine.QuarantinedSubject(positions[0], since, asker.user, "", "", "", time)
        answer = _shown(connection, item)
    return msgspec.structs.replace(answer, quarantined=held is not None, replayed=outcome.replayed)


def _memory_at(subject: str | int, user: str) -> str:
    if isinstance(subject, str):
        return subject
    raise NotFoundError(
        f"no memory or text of this user is at position {subject}; pass a memory's id or a text's position"
    )


def _positions_of(connection: Connection, subject: object, user: str) -> list[int] | None:
    """Return the positions of the events with the text that a subject names, or None if it names a memory."""
    if isinstance(subject, bool) or not isinstance(subject, str | int):
        raise RejectedError(f"pass the id of a memory or text, or a position; {subject!r:.40} is neither")
    if isinstance(subject, int):
        return _text_at(connection, subject, user)
    if subject[:2] == "i_":
        state = load(connection, subject, "i", user)
        if state is None:
            raise NotFoundError(f"no interaction of this user has the id {subject!r:.40}")
        return sorted({at for at in (state.prompt_at, state.response_at) if at is not None})
    if subject[:2] == "o_":
        state = load(connection, subject, "o", user)
        if state is None:
            raise NotFoundError(f"no observation of this user has the id {subject!r:.40}")
        worded = read_stream(connection, state.id, state.position)
        positions = [
            event.position for event in worded if getattr(event.data, "content", None) == state.text is not None
        ]
        if not positions:
            raise RejectedError(
                f"the observation {state.id} was erased, so it has no text to keep out of recall", rule="erased"
            )
        return positions
    if subject[:2] in ("c_", "y_"):
        at = _chunk_at(connection, subject, user) if subject[0] == "c" else _summary_at(connection, subject, user)
        if at is None:
            raise NotFoundError(
                f"no {'chunk' if subject[0] == 'c' else 'summary'} of this user has the id {subject!r:.40}"
            )
        return [at]
    return None


def _text_at(connection: Connection, position: int, user: str) -> list[int]:
    event = read_event(connection, position) if 0 < position < 2**62 else None
    if event is None or event.envelope.user != user or type(event.data) not in TEXTS:
        raise NotFoundError(f"no text of this user is at position {position}; pass the id of a memory, not a position")
    data = event.data
    if isinstance(data, e.MessageAppended) and data.interaction is not None:  # its text is stored with the interaction
        state = load(connection, data.interaction, "i", user)
        at = (state.prompt_at if data.field == "prompt" else state.response_at) if state is not None else None
        return [at or position]
    return [position]


def _chunk_at(connection: Connection, chunk_id: str, user: str) -> int | None:
    chunk = documents.find_chunk(connection, chunk_id, user)
    return chunk.row if chunk is not None else None


def _summary_at(connection: Connection, summary_id: str, user: str) -> int | None:
    sql = (
        "SELECT s.row FROM summaries s CROSS JOIN sessions t ON t.row = s.session"
        " WHERE s.id >= ? AND s.id < ? AND t.user = ? LIMIT 2"
    )
    rows = connection.execute(sql, (summary_id, summary_id + "~", user)).fetchall()
    return int(rows[0][0]) if len(rows) == 1 and len(summary_id) > 2 else None


# --- the scan of everything stored ---------------------------------------------------------------------------


def rescan(
    engine: Engine,
    *,
    since: int | None = None,
    dry_run: bool = False,
    stopping: Stopping,
    progress: Progress | None = None,
) -> ScanReport:
    """Run today's scanners over everything stored, of every user, or over the events after the position ``since``.

    A new finding goes into quarantine. A text that a scanner put into quarantine comes out if today's version of that scanner
    finds nothing in it. A person's own quarantine or release is never overruled. Secrets are only reported, because only
    ``erase`` removes them. The scan works in pieces of 500 events, between which it may be stopped. A second scan finds nothing
    to change. A ``dry_run`` decides the same and writes nothing.
    """
    if since is not None and (isinstance(since, bool) or not isinstance(since, int) or since < 0):
        raise RejectedError(f"since must be a position, a whole number from 0, but {since!r:.40} was given")
    engine.write_waiting()
    scan = _Rescan(engine, since or 0, stopping, progress, dry_run)
    scan.run()
    return scan.report()


def _shown(connection: Connection, held: quarantine.QuarantinedSubject) -> Quarantined:
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
    """A scan of everything stored, which reads outside the writer's lock and takes the lock only for the changes."""

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
                changes = list(self._changes(connection, first, last))
            for user in dict.fromkeys(owner for owner, *_ in changes):
                self._apply(user, [change[1:] for change in changes if change[0] == user])
            self._reached = last
            if self._progress is not None:
                self._progress(last, head)

    # --- outside of the lock -------------------------------------------------------------------------------------

    def _changes(
        self, connection: Connection, first: int, last: int
    ) -> Iterator[tuple[str, int, str, ScannerHit | None]]:
        """Yield (user, position, memory or "", threat or None) for each text or memory whose quarantine has to change."""
        void = control.voided(connection, first, last)
        held = quarantine.among(connection, range(first, last + 1))
        for event in decode_range(connection, first, last):
            user = event.envelope.user
            if user is None or isinstance(event.data, e.Unknown) or event.position in void:
                continue
            self._look_for_secrets(event, user)
            threat, memory = None, ""
            position = event.position
            if event.stream[:2] == "m_":
                state = memories.get(connection, event.first) if type(event.data) in BELIEFS else None
                if state is None or state.status not in ("candidate", "active") or state.row in self._seen:
                    continue
                self._seen.add(state.row)
                self._counts["memories"] += 1
                memory, user, position = state.id, state.user or "", state.row
                threat = self._found(_texts_of(state), is_belief=True)
                held |= quarantine.among(connection, [position])
            elif type(event.data) in TEXTS:
                self._counts["texts"] += 1
                kind = type(event.data)
                threat = self._found(self._texts(connection, event.data), is_belief=kind in BELIEFS)
            else:
                continue
            if self._differs(held.get(position), threat):
                yield user, position, memory, threat

    def _texts(self, connection: Connection, data: Any) -> Iterator[str | None]:
        for field in (*MATERIAL.get(type(data), ()), *BELIEFS.get(type(data), ())):
            value = getattr(data, field)
            if isinstance(value, msgspec.Raw):
                value = msgspec.json.decode(value)
            value = text_of(connection, value) if isinstance(value, e.Blob) else value
            if isinstance(data, e.ValuePut) and isinstance(value, str):
                value = tuple(texts_in(value, data.type))
            yield from _flat(value)

    def _found(self, texts: Iterable[str | None], *, is_belief: bool) -> ScannerHit | None:
        verdicts = (self._guard.verdict(text) for text in texts if text)
        threats_found = (verdict.found if is_belief else verdict.in_material for verdict in verdicts)
        return next((threat for threat in threats_found if threat is not None), None)

    def _differs(self, held: quarantine.QuarantinedSubject | None, threat: ScannerHit | None) -> bool:
        if held is None:
            return threat is not None
        return bool(held.scanner) and threat is None and _family(held.scanner) in self._families

    def _look_for_secrets(self, event: e.AnyEvent, user: str) -> None:
        for field in PLANS.get(type(event.data), ()):
            value = getattr(event.data, field)
            if isinstance(value, e.Blob):
                with self._engine.reading() as connection:
                    value = text_of(connection, value)
            text = bytes(value).decode() if isinstance(value, msgspec.Raw) else value
            for piece in _flat(text):
                for secret in secrets.scan(piece) if piece else ():
                    self._counts["secrets"] += 1
                    if len(self._secrets) < SHOWN:
                        self._secrets.append(
                            StoredSecret(position=event.position, field=field, kind=secret.kind, user=user)
                        )

    # --- under the lock ------------------------------------------------------------------------------------------

    def _apply(self, user: str, changes: list[tuple[int, str, ScannerHit | None]]) -> None:
        done = {"quarantined": 0, "released": 0}

        def body(work: Work) -> str:
            done.update(quarantined=0, released=0)
            if work.policy().threats != "off":
                for at, memory, threat in changes:
                    emitted = self._on_memory(work, at, threat) if memory else self._on_text(work, at, threat)
                    done["released" if threat is None else "quarantined"] += emitted
            if self._dry_run:
                work.emitted.clear()
            return e.LEDGER_STREAM

        self._engine.writer.run("guards.scan", Who(user=user, actor=ACTOR), body)
        self._counts["quarantined"] += done["quarantined"]
        self._counts["released"] += done["released"]

    def _on_text(self, work: Work, at: int, threat: ScannerHit | None) -> bool:
        work.rows.flush()
        connection = work.connection()
        held = quarantine.among(connection, [at]).get(at)
        if not self._differs(held, threat) or control.voided(connection, at, at):
            return False
        if threat is None:
            assert held is not None
            work.emit(e.LEDGER_STREAM, e.TextReleased(at, self._families[_family(held.scanner)]))
            return True
        if quarantine.was_released(work.rows, at):
            return False
        work.emit(e.LEDGER_STREAM, e.TextQuarantined(at, threat.label, threat.scanner))
        return True

    def _on_memory(self, work: Work, at: int, threat: ScannerHit | None) -> bool:
        state: MemoryState | None = work.at_row(at, "m")
        work.rows.flush()
        connection = work.connection()
        held = quarantine.among(connection, [at]).get(at)
        if state is None or not self._differs(held, threat):
            return False
        work.project = state.project
        command: memory_rules.Command
        if threat is None:
            assert held is not None
            command = memory_rules.Release("", self._families[_family(held.scanner)])
        elif _is_released_by_person(connection, state):
            return False
        else:
            command = memory_rules.QuarantineMemory("", threat.label, threat.scanner)
        if state.status not in ("candidate", "active"):
            return False
        for event in memory_rules.decide(command, state):
            work.emit(state.id, event, first=state.row)
        return True


def _texts_of(memory: MemoryState) -> Iterator[str | None]:
    yield from (memory.content, *memory.entities, *memory.tags)
    for edge in memory.edges:
        yield from (edge.source, edge.relation, edge.target)


def _is_released_by_person(connection: Connection, memory: MemoryState) -> bool:
    """Return True if a person released this memory from quarantine and its text has not changed since."""
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
        for item in value:
            yield from _flat(item)
    elif isinstance(value, str):
        yield value


def _summary(data: object) -> str:
    return data.summary if isinstance(data, e.SummaryCreated) else ""


def _family(scanner: str) -> str:
    return scanner.partition("/")[0]
