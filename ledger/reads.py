"""The reads of the library door: each is one consistent snapshot, waits for no writer, and appends nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from ledger import answers
from ledger.domain import confidence as rules
from ledger.domain import memory as memory_domain
from ledger.domain import message as messages
from ledger.domain import times, turns
from ledger.domain.errors import AmbiguousIdError, RejectedError, SuspendedError, UnknownEventError
from ledger.domain.events import AnyEvent, Blob, LedgerCreated, Unknown
from ledger.domain.interaction import Interaction
from ledger.domain.memory import Memory
from ledger.domain.patterns import Patterns
from ledger.domain.policy import MILLIONTHS
from ledger.domain.project import Project, check_category
from ledger.domain.text import check_text
from ledger.event_store import EventStore
from ledger.log_reading import check_tables, find_row, first_position, read_event, read_stream
from ledger.memory_writes import Time, text_list
from ledger.sessions.counting import ESTIMATE, Counter
from ledger.work import Who
from ledger.writing import Writer
from projections import control, digests, interactions, memories, projects, quarantine, sessions
from projections.duplicates import content_fingerprint
from projections.projector import FAMILIES

LIST_LIMIT, LIST_CAP = 50, 500
PAGED = 1_001  # of a listing that is read page by page: a page, and whether there is another
MEMORY_CAP = 1_000_000
PAGE_CAP = 1_001  # the longest page, and one more, which shows whether there is another page
QUOTED_CHARS = 500  # of a message that a model found something in


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
    def _read(self, *needs: str) -> Iterator[Any]:
        """A snapshot, after a look at the tables: what is suspended answers nothing."""
        self.writer.settle()
        with self.store.snapshot() as connection:
            _, parked = check_tables(connection, self.writer.secret)
            for name in needs:
                if name in parked:
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

    @staticmethod
    def _load(connection: Any, given: str, kind: str, user: str) -> Any:
        """The state of one subject of this user, by id or unambiguous prefix."""
        row = find_row(connection, given, kind, user)
        if row is None:
            return None
        family = FAMILIES[kind]
        found = connection.execute(f"SELECT * FROM {family.live.name} WHERE row = ?", (row,)).fetchone()
        return family.from_row(found)

    @staticmethod
    def _stream(connection: Any, stream: str) -> list[AnyEvent]:
        return read_stream(connection, stream, 2**62)

    # --- interactions --------------------------------------------------------------------------------------------

    def interaction(self, id: str, *, user: str | None = None) -> answers.Interaction | None:
        """One interaction with its texts, or None."""
        return self._interaction(id, self._user(user))

    def _interaction(self, id: str, user: str, *, replayed: bool = False) -> answers.Interaction | None:
        with self._read("interactions", "projects") as connection:
            state = self._load(connection, id, "i", user)
            found = self._interactions(connection, [state]) if state is not None else []
        answer: answers.Interaction | None = msgspec.structs.replace(found[0], replayed=replayed) if found else None
        return answer

    def interactions(
        self,
        *,
        user: str | None = None,
        project: str | None = None,
        session_id: str | None = None,
        client: str | None = None,
        since: Time | None = None,
        until: Time | None = None,
        limit: int = LIST_LIMIT,
        after: str | None = None,
    ) -> list[answers.Interaction]:
        """Newest first; ``project=""`` for those of none; ``since`` is inclusive, ``until`` is not."""
        owner = self._user(user)
        bounds = {name: times.moment(name, value) for name, value in (("since", since), ("until", until)) if value}
        with self._read("interactions", "projects") as connection:
            scope = None if project is None else [named(connection, owner, "p", project)]
            session = named(connection, owner, "s", session_id)
            count = listed(limit, PAGE_CAP)
            if count == 0 or scope == [NOWHERE] or session == NOWHERE:
                return []
            found = interactions.listing(
                connection,
                user=owner,
                projects=scope,
                session=session,
                client=client or None,
                before=first_position(connection, after) if after is not None else None,
                limit=count,
                **bounds,
            )
            return self._interactions(connection, found)

    def _interactions(self, connection: Any, states: Sequence[Interaction]) -> list[answers.Interaction]:
        names = projects.names(connection, (each for state in states for each in (state.project, state.session)))
        return [self._with_texts(connection, state, names) for state in states]

    def _with_texts(self, connection: Any, state: Interaction, names: dict[str, str]) -> answers.Interaction:
        captured = self._data(connection, state.prompt_at)
        prompt, pack = self._text(connection, captured.prompt), msgspec.json.decode(captured.context)
        told = answers.interaction(state, names, prompt, self._answer_texts(connection, state), pack)
        positions = [at for at in (state.prompt_at, state.response_at) if at is not None]
        return msgspec.structs.replace(told, quarantined=bool(quarantine.among(connection, positions)))

    def _answer_texts(self, connection: Any, state: Interaction) -> dict[str, str | None]:
        """Response and summary of an interaction; blank until there are any."""
        data = self._data(connection, state.response_at) if state.response_at is not None else None
        names = ("response", "summary")
        return {name: self._text(connection, getattr(data, name)) if data is not None else "" for name in names}

    @staticmethod
    def _data(connection: Any, position: int) -> Any:
        event = read_event(connection, position)
        if event is None or isinstance(event.data, Unknown):
            raise UnknownEventError(f"the event at position {position} is of a newer version than this product")
        return event.data

    def _text(self, connection: Any, body: str | Blob | None) -> str | None:
        if not isinstance(body, Blob):
            return body
        row = connection.execute("SELECT data FROM blobs WHERE id = ?", (body.blob,)).fetchone()
        if row is None or row[0] is None:
            return None
        if hashlib.sha256(row[0]).hexdigest() != body.digest:
            raise UnknownEventError(f"the text {body.blob} does not have the digest that the log names")
        return str(row[0][16:], "utf-8")

    # --- memories ------------------------------------------------------------------------------------------------

    def memory(self, id: str, *, user: str | None = None) -> answers.Memory | None:
        """One memory, whatever its status, or None."""
        with self._read("memories", "projects") as connection:
            state = self._load(connection, id, "m", self._user(user))
            if state is not None and self.valid is not None and not memories.believed(state, self.valid):
                return None
            return self._memories(connection, [state])[0] if state is not None else None

    def memories(
        self,
        *,
        user: str | None = None,
        status: str | Iterable[str] = "active",
        kind: str | Iterable[str] = (),
        project: str | None = None,
        tag: str | None = None,
        tags: Iterable[str] = (),
        min_confidence: float = 0.0,
        limit: int | None = None,
        after: str | None = None,
    ) -> list[answers.Memory]:
        """Memories of one user, newest first; ``status="all"`` for every status, ``project=""`` for global ones only."""
        owner, least = self._user(user), rules.millionths("min_confidence", min_confidence)
        statuses = self._believed(_statuses(status))
        kinds = text_list("kind", kind)
        with self._read("memories", "projects") as connection:
            scope: list[str | None] | None = None
            if project is not None:
                wanted = named(connection, owner, "p", project)
                if wanted is NOWHERE:
                    return []
                scope = [wanted]
            found = memories.listing(
                connection,
                user=owner,
                statuses=statuses,
                kinds=kinds,
                projects=scope,
                tags=[each.strip().lower() for each in (*tags, *((tag,) if tag is not None else ()))],
                min_confidence=least,
                limit=listed(limit, MEMORY_CAP),
                before=first_position(connection, after) if after is not None else None,
                valid=self.valid,
            )
            return self._memories(connection, found)

    def _believed(self, statuses: tuple[str, ...]) -> tuple[str, ...]:
        """The statuses meant; of a time of the world what was true then, whether or not something else is by now."""
        if self.valid is None:
            return statuses
        if statuses in ((), ("active",)):
            return memories.BELIEVED
        if never := set(statuses) - set(memories.BELIEVED):
            raise RejectedError(
                f"under valid= a memory was true at a time, and what is {min(never)} was not; "
                f"there are: {', '.join(memories.BELIEVED)}, and all"
            )
        return statuses

    @staticmethod
    def _memories(connection: Any, states: Sequence[Memory]) -> list[answers.Memory]:
        names = projects.names(connection, {state.project for state in states})
        return [answers.memory(state, names) for state in states]

    def review(
        self,
        *,
        user: str | None = None,
        project: str | None = None,
        limit: int = LIST_CAP,
        after: str | None = None,
    ) -> list[answers.Candidate]:
        """The candidates that wait for a decision, oldest first, with where they come from."""
        owner = self._user(user)
        with self._read("memories", "projects", "interactions", "duplicates", "sessions") as connection:
            scope = None if project is None else [named(connection, owner, "p", project)]
            if scope == [NOWHERE]:
                return []
            behind = first_position(connection, after) or 0 if after is not None else 0
            wanted = {"statuses": ("candidate",), "projects": scope, "limit": listed(limit, MEMORY_CAP)}
            found = memories.listing(connection, user=owner, behind=behind, **wanted)  # type: ignore[arg-type]
            twins = self._active_twins(connection, found)
            return [self._candidate(connection, state, twins.get(state.id)) for state in found]

    def _candidate(self, connection: Any, state: Memory, twin: str | None) -> answers.Candidate:
        return answers.Candidate(
            memory=self._memories(connection, [state])[0],
            provenance=self._provenance(connection, state),
            same_as_active=twin,
        )

    def _provenance(self, connection: Any, state: Memory) -> answers.Provenance | None:
        """Where a memory was found, with the words it was found in; None for one that somebody gave."""
        origin = state.origin
        if origin is None:
            return None
        source = next((each for each in state.sources if each.startswith("i_")), None)
        session = next((each for each in state.sources if each.startswith("s_")), None)
        subject = self._load(connection, source, "i", state.user or "") if source is not None else None
        text = self._said_in(connection, subject, origin.field) if subject is not None else None
        row = self._message_row(connection, origin.position, session, state.user) if session is not None else None
        if row is not None and source is None:
            text = self._said_at(connection, row)
        spanned = origin.end > origin.start
        quote = text[origin.start : origin.end] if text and spanned else text[:QUOTED_CHARS] if text else None
        told = msgspec.structs.asdict(origin)
        role = row.role if row is not None else None
        return answers.Provenance(interaction=source, session=session, role=role, quote=quote, **told)

    def _said_in(self, connection: Any, subject: Interaction, field: str) -> str | None:
        if field == "prompt":
            return self._text(connection, self._data(connection, subject.prompt_at).prompt)
        return self._answer_texts(connection, subject).get(field)

    def _message_row(self, connection: Any, position: int, session: str, user: str | None) -> sessions.Message | None:
        """The message at a position, if it is one of this session of a user; hidden or not."""
        state = self._load(connection, session, "s", user or "")
        row = sessions.at_position(connection, position) if state is not None and position else None
        return row if row is not None and state is not None and row.session == state.row else None

    def _said_at(self, connection: Any, row: sessions.Message) -> str | None:
        data = self._data(connection, row.row)
        content = self._text(connection, data.content)
        return turns.said(content, messages.whole_parts(data.parts, content, data.content_of), data.content_of) or None

    def _active_twins(self, connection: Any, states: Sequence[Memory]) -> dict[str, str]:
        """Of each memory that an active one says already: that one's id."""
        found = {}
        for state in states:
            number = content_fingerprint(self.writer.secret, state.user, state.kind, state.project, state.content)
            sql = (
                "SELECT m.id FROM duplicates d CROSS JOIN memories m ON m.row = d.memory"
                " WHERE d.fingerprint = ? AND d.status = 'active' ORDER BY d.memory LIMIT 1"
            )
            if (row := connection.execute(sql, (number,)).fetchone()) is not None:
                found[state.id] = row[0]
        return found

    # --- projects ------------------------------------------------------------------------------------------------

    def projects(
        self, *, user: str | None = None, limit: int | None = None, after: str | None = None
    ) -> list[answers.Project]:
        """Projects of one user, newest first."""
        with self._read("projects") as connection:
            before = first_position(connection, after) if after is not None else None
            found = projects.listing(connection, self._user(user), before=before, limit=listed(limit, MEMORY_CAP))
            return [_project(state) for state in found]

    def project(self, name: str, *, user: str | None = None) -> answers.Project | None:
        """A project by name, alias or id, with its trusted state."""
        with self._read("projects") as connection:
            owner = self._user(user)
            state = self._project_state(connection, owner, name) or self._load(connection, name, "p", owner)
            return _project(state) if state is not None else None

    def _project_state(self, connection: Any, owner: str, name: str) -> Project | None:
        id = named(connection, owner, "p", name)
        state: Project | None = self._load(connection, id, "p", owner) if id not in (None, NOWHERE) else None
        return state

    def state(
        self,
        project: str,
        category: str | None = None,
        name: str | None = None,
        *,
        history: bool = False,
        user: str | None = None,
    ) -> list[answers.StateEntry]:
        """The trusted state of a project; with ``history`` every value it had, oldest first."""
        if category is not None:
            check_category(category)
        with self._read("projects") as connection:
            state = self._project_state(connection, self._user(user), project)
            rows = projects.state_history(connection, state.row, category, name) if state is not None else []
        names = answers.StateEntry.__struct_fields__
        entries = [answers.StateEntry(**dict(zip(names, row, strict=True))) for row in rows]
        return entries if history else [entry for entry in entries if entry.to_position is None]

    def policy(self, *, user: str | None = None) -> dict[str, Any]:
        """The parameters of the policy in force for a user; gains as decimals."""
        with self._read("force") as connection:
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


NOWHERE = "nowhere"  # a name that stands for nothing


def named(connection: Any, owner: str, kind: str, name: str | None) -> str | None:
    """The id that a filter's project or session name stands for; "" and None are no filter."""
    if name is None or not check_text("a name", name, max_bytes=1024, blank_allowed=True).strip():
        return None
    found = projects.find(connection, owner, kind, name)
    try:
        row = find_row(connection, name, kind, owner) if found is None else None
    except AmbiguousIdError:
        return NOWHERE
    if row is not None:
        return str(connection.execute(f"SELECT id FROM {FAMILIES[kind].live.name} WHERE row = ?", (row,)).fetchone()[0])
    return found[0] if found is not None else NOWHERE


def listed(limit: int | None, cap: int = LIST_CAP) -> int:
    if limit is None:
        return cap
    if isinstance(limit, bool) or not isinstance(limit, int):
        raise RejectedError(f"limit is a whole number, and {limit!r:.40} is not")
    return max(0, min(limit, cap))


def _statuses(status: str | Iterable[str]) -> tuple[str, ...]:
    wanted = text_list("status", status)
    if wanted == ("all",):
        return ()
    for each in wanted:
        if each not in memory_domain.STATUSES:
            raise RejectedError(
                f"no status is called {each!r:.40}; there are: {', '.join(memory_domain.STATUSES)}, and all"
            )
    return wanted


def _project(state: Project, *, replayed: bool = False, absorbed: bool = False) -> answers.Project:
    entries = tuple(
        answers.StateEntry(
            category=entry.category,
            name=entry.key,
            value=entry.value,
            source=entry.source,
            actor=entry.actor,
            recorded_at=entry.recorded_at,
            from_position=entry.position,
        )
        for entry in state.state
    )
    return answers.Project(
        id=state.id,
        name=state.name,
        description=state.description,
        aliases=state.aliases,
        user=state.user,
        state=entries,
        position=state.position,
        recorded_at=state.recorded_at,
        replayed=replayed,
        absorbed=absorbed,
    )
