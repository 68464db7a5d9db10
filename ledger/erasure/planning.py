"""The making of an erasure's plan: the subject's own events, the derived events, the sources and the quotes.

A plan is made on one snapshot and changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

from msgspec.structs import replace

from ledger.core.reads import first_position, read_event, read_stream
from ledger.domain.errors import RejectedError
from ledger.domain.quotes import Needles
from ledger.domain.spans import merged
from ledger.erasure import acts, conversations
from ledger.erasure import rules as erasure
from ledger.erasure.asked import ErasureRequest
from ledger.erasure.conversations import MESSAGE
from ledger.erasure.plan import ID, LISTS, ErasurePlan, Listed, NothingLeft, check_cut
from ledger.erasure.related import SHARED, Related
from ledger.erasure.rows import ErasureRow, ErasureRows, Span, Target
from ledger.events import (
    LEDGER_STREAM,
    TEXT_FIELDS,
    ChunkAdded,
    CommandAnswered,
    DocumentAdded,
    DocumentReplaced,
    InteractionCaptured,
    MemoryCaptured,
    MemoryCorrected,
    ObservationFormed,
    WriteRefused,
    of,
    type_names,
    used_as,
)
from projections.core.rows import Connection
from projections.views import audit, memories, projects

_WITH_TEXT = type_names(used_as("quotes"))  # types of the ledger's own events that repeat texts
# Types of events that name or govern a session. They are erased with a project only if no other project has the session.
_NAMING = type_names((*of(begins="session"), *of(governs="session")))


class ErasurePlanner:
    """The maker of an erasure's plan.

    Attributes:
        choices: The choice for each list: "erase", "cut", "keep" or None.
        keep: The subjects and positions that stay, whatever the choice for their list.
    """

    def __init__(
        self, connection: Connection, owner: str, choices: Mapping[str, str | None], keep: Collection[str | int]
    ) -> None:
        self.connection = connection
        self.owner = owner
        self.choices = choices
        self.keep = keep
        self.rows: ErasureRows = ErasureRows(connection)
        self.related: Related = Related(self.rows, owner)

    def plan(self, request: ErasureRequest) -> ErasurePlan:
        """Return the plan of an erasure.

        First come the subject's own events. Then the events made from the subject (derived) and its sources are looked
        up by the ids that events name. Last, every event of the user is searched for the texts that are erased so far
        (quotes). A whole user needs no other lists, because all of the user's events are own events.

        Raises:
            NothingLeft: The subject's own events hold no text.
        """
        own, streams, names = self._own(request)
        wholly = [self.rows.whole(row, people=request.kind == "user") for row in own]
        if request.kind == "event":
            wholly = [self._of_event(own[0], request), *(self._parts_of(row) for row in own[1:])]
        targets = {target.position: target for target in wholly if target is not None}
        if request.kind == "user" and self.owner:
            targets |= {target.position: target for target in self._as_maker()}
        if not any(target.fields or target.spans for target in targets.values()):
            raise NothingLeft
        source_keys = set[str]()
        lists: dict[str, tuple[Listed, ...]] = {"erased": tuple(self._listed(own, targets))} | dict.fromkeys(LISTS, ())
        material = [row for row in own if request.kind != "project" or row.type not in _NAMING]
        needles = Needles(self._significant(material, targets, named=bool(request.fields)))
        if request.kind != "user":
            derived, sources = self._relatives(request, own, streams)
            source_keys = set(sources)
            # The words of derived events and sources may be repeated too, as far as they are erased.
            if self.choices["derived"] in (None, "erase"):
                needles = Needles(needles.forms | set(self._significant(_rows(derived))))
            if self.choices["sources"] == "erase":
                needles = Needles(needles.forms | set(self._significant(_rows(sources))))
            lists |= {"derived": self._choose("derived", derived), "sources": self._choose("sources", sources)}
        listed = [item.row for name in ("derived", "sources") for item in lists[name]]
        sessions = {row.stream for row in (*own, *listed) if row.stream[0] == "s"} - streams
        seen = streams | {row.stream for row in listed} - sessions
        if request.kind != "user":
            # Of these subjects only a part is listed, so their other events are searched for quotes.
            single = (row.stream for row in listed if row.type == ChunkAdded.__name__ or row.stream[0] == "i")
            parts = {stream for stream in single if stream not in source_keys}
            whole = streams | seen - parts
            positions = {row.position for row in (*own, *listed)}
            quotes, confirming = self._search(needles, whole - {LEDGER_STREAM}, positions)
            lists["quotes"] = tuple(replace(quote, choice=self._choice("quotes", quote.row)) for quote in quotes)
            targets |= {target.position: target for target in confirming if target.stream == LEDGER_STREAM}
        origins = self.related.origins(streams)
        chosen = {target.position: target for target in self._chosen(lists, needles, origins)}
        check_cut("derived", lists["derived"], chosen)
        check_cut("sources", (item for item in lists["sources"] if item.row.type == MESSAGE), chosen)
        kept = tuple(sorted(item.row.position for name in LISTS for item in lists[name] if item.choice == "keep"))
        taken = chosen | targets
        if request.kind != "user":
            besides = self._besides_text(request, own, streams, taken, kept)
            taken |= {target.position: target for target in besides}
        taken |= {target.position: target for target in self._linked(taken)}
        everything = sorted(taken.values(), key=lambda target: target.position)
        head = self.connection.execute("SELECT max(position) FROM events").fetchone()[0]
        concerned = (seen - {LEDGER_STREAM}).union(*(self.related.parts(stream) for stream in seen))
        return ErasurePlan(
            head,
            request,
            lists,
            tuple(everything),
            kept,
            needles,
            frozenset(concerned),
            frozenset(sessions),
            tuple(names),
        )

    def _relatives(
        self, request: ErasureRequest, own: Sequence[ErasureRow], streams: AbstractSet[str]
    ) -> tuple[dict[str, list[ErasureRow]], dict[str, list[ErasureRow]]]:
        """Return the events made from a subject and those of the subject's sources, both by stream."""
        related = self.related
        # A single message that repeats a captured turn is erased with the text of the turn.
        turns = {row.stream for row in own[1:] if row.stream[0] == "i"} if request.kind == "event" else streams
        derived = related.by_stream(related.derived(turns), besides=turns) | related.written(own, streams)
        derived |= related.called({row.position for row in own}, streams)
        derived |= related.by_stream(related.found_in(own), besides=streams)
        sources = related.by_stream(related.cited(streams), besides=streams | derived.keys())
        seen_rows = (own, *derived.values(), *sources.values())
        sources |= related.messages(streams, {row.position for rows in seen_rows for row in rows})
        return derived, sources

    # --- the subject itself --------------------------------------------------------------------------------------

    def _own(self, request: ErasureRequest) -> tuple[list[ErasureRow], set[str], list[ErasureRow]]:
        """Return the rows of the subject, the streams that are erased as a whole, and the names of shared sessions."""
        if request.kind == "event":
            row = self.rows.row(request.position)
            is_partial = bool(request.fields or request.spans or request.phrases)
            copies = () if is_partial else self.related.with_message(row)
            return [row, *copies], set(), []
        if request.kind == "user":
            sql = "SELECT position FROM audit WHERE user = ? AND position BETWEEN ? AND ? ORDER BY position"
            span = (self.owner, request.first, request.last)
            own_rows = [self.rows.row(position) for (position,) in self.connection.execute(sql, span)]
            return own_rows, {row.stream for row in own_rows} - {LEDGER_STREAM}, []
        assert request.subject is not None
        places = (
            projects.together(self.connection, request.subject) if request.kind == "project" else (request.subject,)
        )
        streams, single, names = {place for place in places if place is not None}, list[int](), list[ErasureRow]()
        moved = self._moved() if request.kind == "project" else {}
        streams |= {memory for memory, place in moved.items() if place in places}
        if request.kind in ("session", "project"):
            marks = ", ".join("?" * len(places))
            sql = f"SELECT position, subject, type FROM audit WHERE {request.kind} IN ({marks}) AND user = ? ORDER BY position"
            for position, stream, type_ in self.connection.execute(sql, (*places, self.owner)).fetchall():
                if type_ in _NAMING or stream[0] == "p" or (stream == LEDGER_STREAM and type_ not in _WITH_TEXT):
                    continue
                if stream in moved:
                    continue
                if stream[0] not in SHARED and first_position(self.connection, stream) == position:
                    streams.add(stream)
                single.append(position)
        if request.kind == "project":
            sessions = conversations.of_projects(self.connection, self.owner, places, _WITHOUT_TEXT)
            streams |= {session for session, alone in sessions.items() if alone}
            shared = (session for session, alone in sessions.items() if not alone)
            naming_events = (
                event for session in shared for event in conversations.events(self.connection, session, _NAMING)
            )
            names = [row for columns in naming_events if (row := self.rows.read(*columns)).parts]
        rows = {row.position: row for stream in sorted(streams) for row in self.rows.stream(stream)}
        rows |= {position: self.rows.row(position) for position in single if position not in rows}
        messages = conversations.messages_of(self.connection, {stream for stream in streams if stream[0] == "i"})
        rows |= {
            message.position: self.rows.row(message.position) for message in messages if message.position not in rows
        }
        rows |= {row.position: row for row in self.related.repairs(rows.values())}
        return [rows[position] for position in sorted(rows)], streams, names

    def _moved(self) -> dict[str, str | None]:
        """Return the present project of each memory that was corrected, for it may have begun in another project."""
        sql = "SELECT DISTINCT subject FROM audit WHERE user = ? AND type = ?"
        corrected = self.connection.execute(sql, (self.owner, MemoryCorrected.__name__)).fetchall()
        states = (memories.get(self.connection, first_position(self.connection, id) or 0) for (id,) in corrected)
        return {state.id: state.project for state in states if state is not None}

    def _as_maker(self) -> Iterator[Target]:
        """Yield a target for the first event if it names this user as the maker of the ledger.

        The first event belongs to no user, so it is not among the user's own events.
        """
        row = self.rows.row(1)
        names = [
            part.field for part in erasure.people(row.state) if part.texts == (self.owner,) and part.field != "user"
        ]
        if names:
            yield self.rows.target(row, tuple(names), (), (self.owner,), ())

    def _of_event(self, row: ErasureRow, request: ErasureRequest) -> Target | None:
        """Return a target for the named part of an event: fields, spans of fields, phrases, or all of its text."""
        held = {part.field: part for part in (*row.parts, *erasure.people(row.state))}
        request = self._with_phrases(row, request)
        if not request.fields and not request.spans:
            return self.rows.whole(row)
        for field in (*request.fields, *(field for field, _, _ in request.spans)):
            if field not in held:
                there = ", ".join(held) or "none any more"
                raise RejectedError(
                    f"the event at position {row.position} has no text in {field!r:.60}; it has: {there}"
                )
        for field, first, last in request.spans:
            size = len(held[field].texts[0]) if held[field].plain and "." in field else 0
            if not 0 <= first < last <= size:
                raise RejectedError(
                    f"a span of {field} must lie between 0 and {size} and hold a character, but {first} to {last} was given"
                    + (
                        ""
                        if size
                        else "; only a single text of the data has spans, other fields go as a whole by fields="
                    )
                )
        texts = [text for field in request.fields for text in held[field].texts]
        texts += [held[field].texts[0][first:last] for field, first, last in request.spans]
        spans = tuple(span for span in request.spans if span[0] not in request.fields)
        blobs = tuple(blob for field in request.fields if (blob := held[field].blob) is not None)
        return self.rows.target(row, tuple(dict.fromkeys(request.fields)), spans, texts, blobs)

    def _with_phrases(self, row: ErasureRow, request: ErasureRequest) -> ErasureRequest:
        """Return the request with its phrases turned into spans.

        A list, free JSON or a blob that holds a phrase goes as a whole field.
        """
        fields, spans = list(request.fields), list(request.spans)
        for phrase in request.phrases:
            pattern = re.compile(r"\s+".join(map(re.escape, phrase.split())), re.IGNORECASE)
            holding = [part for part in row.parts if any(map(pattern.search, self.rows.texts(part)))]
            if not holding:
                raise RejectedError(f"the event at position {row.position} does not say one of the phrases")
            fields += [part.field for part in holding if not part.plain]
            texts = [(part.field, part.texts[0]) for part in holding if part.plain]
            matches = [(field, m.start(), m.end()) for field, text in texts for m in pattern.finditer(text)]
            spans += [span for span in matches if span not in spans]
        return replace(request, fields=tuple(dict.fromkeys(fields)), spans=tuple(spans), phrases=())

    def _parts_of(self, row: ErasureRow) -> Target | None:
        return self.rows.fields(row, tuple(part.field for part in row.parts)) if row.parts else None

    # --- the choices ---------------------------------------------------------------------------------------------

    def _choose(self, name: str, streams: Mapping[str, list[ErasureRow]]) -> tuple[Listed, ...]:
        rows = [row for row in _rows(streams) if row.parts]
        return tuple(Listed(row, tuple(part.field for part in row.parts), self._choice(name, row)) for row in rows)

    def _choice(self, name: str, row: ErasureRow) -> str:
        kept = row.position in self.keep or row.stream in self.keep
        return "keep" if kept else self.choices[name] or ""

    # --- the quotes and the digests ------------------------------------------------------------------------------

    def _search(
        self, needles: Needles, streams: AbstractSet[str], positions: Collection[int]
    ) -> tuple[list[Listed], list[Target]]:
        """Return the events of this user that repeat the text, and targets for digests that could confirm a guess.

        The search leaves out ``streams`` and ``positions``, which other lists hold already.
        """
        quotes: list[Listed] = []
        confirming: list[Target] = []
        columns = "position, stream, type, state"
        for row in self.connection.execute(f"SELECT {columns} FROM events ORDER BY position"):
            position, stream, type_, state = row
            if stream in streams or position in positions or type_ in _WITHOUT_TEXT:
                continue
            if type_ in (CommandAnswered.__name__, WriteRefused.__name__):
                if not streams.isdisjoint(ID.findall(state)) and erasure.has_digests(type_, state):
                    confirming.append(self.rows.target(ErasureRow(*row), (), (), (), ()))
                continue
            read = self.rows.read(*row)
            matching = [part for part in read.parts if any(needles.found(text) for text in self.rows.texts(part))]
            if matching and self._is_owners(read):
                quotes.append(Listed(read, tuple(part.field for part in matching)))
        return quotes, confirming

    def _linked(self, taken: Mapping[int, Target]) -> Iterator[Target]:
        """Yield targets for events whose keyed digests could confirm a guess at an erased text.

        These are the events of other subjects that the same command recorded, with the digest of the command's
        arguments, and the headers of a document that loses a chunk, with the digest of the document's text.
        """
        significant = (position for position, target in taken.items() if target.fields or target.spans)
        commands = dict.fromkeys(erasure.keyed_command(self.rows.row(position).state) for position in significant)
        for command in commands:
            for entry in audit.of_command(self.connection, command) if command is not None else ():
                row = self.rows.row(entry.position)
                if entry.position not in taken and erasure.keyed_command(row.state) is not None:
                    yield self.rows.target(row, (), (), (), ())
        pieces = (self.rows.row(at) for at, target in taken.items() if target.fields or target.spans)
        for stream in sorted({row.stream for row in pieces if row.type == ChunkAdded.__name__}):
            for event in read_stream(self.connection, stream, 2**62):
                if event.position not in taken and isinstance(event.data, DocumentAdded | DocumentReplaced):
                    yield self.rows.target(self.rows.row(event.position), (), (), (), ())

    def _besides_text(
        self,
        request: ErasureRequest,
        own: Sequence[ErasureRow],
        streams: Collection[str],
        taken: Mapping[int, Target],
        kept: Collection[int],
    ) -> Iterator[Target]:
        """Yield targets for the reasons of decisions about subjects that are erased as a whole.

        The values in the merges and conflicts of a memory are erased with the words of the memory.
        """
        wholly = {position for position, target in taken.items() if target.wholly and target.fields}
        positions = wholly | {row.position for row in (own if request.kind != "event" else ())}
        gone = {*streams, *(taken[position].stream for position in wholly if taken[position].type in _BEGINNING)}
        memories = {target.stream for target in taken.values() if _loses_words(target)}
        tags = {memory: self._tags(memory) for memory in sorted(memories) if memory in gone}
        fields_of = dict[int, dict[str, None]]()
        for position, fields in (
            *acts.about(self.connection, self.owner, gone, positions),
            *(act for memory in sorted(memories) for act in acts.joining(self.connection, memory, memory in gone)),
            *acts.scopes(self.connection, self.owner, tags, gone),
            *(reason for memory in sorted(memories) for reason in self._reasons(memory, taken)),
        ):
            fields_of.setdefault(position, {}).update(dict.fromkeys(fields))
        for position, lost_fields in fields_of.items():
            if (
                position not in kept
                and (more := self._with(taken.get(position), self.rows.row(position), lost_fields)) is not None
            ):
                yield more

    def _reasons(self, memory: str, taken: Mapping[int, Target]) -> Iterator[acts.Position]:
        """Yield the reasons for which a memory was rejected or changed, if no words of the memory are left."""
        rows = self.rows.stream(memory)
        worded = ((row, part) for row in rows for part in row.parts if part.field == "data.content")
        if all(_goes(part, taken.get(row.position)) for row, part in worded):
            yield from ((row.position, acts.REASON) for row in rows)

    def _with(self, target: Target | None, row: ErasureRow, fields: Collection[str]) -> Target | None:
        """Return the target with these fields added, or None if they add nothing."""
        had = target.fields if target is not None else ()
        more = [part for part in row.parts if part.field in fields and part.field not in had]
        if not more:
            return None
        names = (*had, *(part.field for part in more))
        spans = tuple(span for span in _spans(target) if span[0] not in names)
        texts = [text for part in more for text in self.rows.texts(part)]
        blobs = target.blobs if target is not None else ()
        return self.rows.target(row, names, spans, (*(target.texts if target is not None else ()), *texts), blobs)

    def _tags(self, memory: str) -> frozenset[str]:
        """Return all tags that a memory ever had."""
        parts = (
            part for row in self.rows.stream(memory) for part in row.parts if part.field in ("data.tags", "data.added")
        )
        return frozenset(text for part in parts for text in part.texts)

    def _is_owners(self, row: ErasureRow) -> bool:
        event = read_event(self.connection, row.position)
        return event is not None and event.envelope.user == self.owner

    def _significant(
        self, rows: Iterable[ErasureRow], targets: Mapping[int, Target] = {}, *, named: bool = False
    ) -> Iterator[str]:
        """Yield the texts that another event could quote: the erased spans, or the significant texts.

        With ``named``, every text counts as significant, because the caller named the field to erase.
        """
        for row in rows:
            target = targets.get(row.position)
            for part in row.parts:
                spans = [part.texts[0][first:last] for field, first, last in _spans(target) if field == part.field]
                if spans:
                    yield from spans
                elif (part.is_significant or named) and (target is None or part.field in target.fields):
                    yield from part.quotable if part.quotable is not None else self.rows.texts(part)

    # --- the targets of the choices ------------------------------------------------------------------------------

    def _chosen(
        self,
        lists: Mapping[str, tuple[Listed, ...]],
        needles: Needles,
        origins: Mapping[str | int, list[Span]],
    ) -> Iterator[Target]:
        for name in LISTS:
            for item in lists[name]:
                target = None
                if item.choice == "erase":
                    target = self.rows.fields(item.row, item.fields) if name == "quotes" else self.rows.whole(item.row)
                elif item.choice == "cut":
                    spans_there = (*origins.get(item.row.stream, ()), *origins.get(item.row.position, ()))
                    target = self.rows.cut(item.row, needles, spans_there if name == "sources" else ())
                if target is not None:
                    yield target

    @staticmethod
    def _listed(rows: Iterable[ErasureRow], targets: Mapping[int, Target]) -> Iterator[Listed]:
        for row in rows:
            if (target := targets.get(row.position)) is not None and (target.fields or target.spans):
                fields = target.fields or tuple(dict.fromkeys(field for field, _, _ in target.spans))
                yield Listed(row, fields, "erase")


_BEGINNING = tuple(kind.__name__ for kind in (MemoryCaptured, InteractionCaptured, DocumentAdded, ObservationFormed))
_WITHOUT_TEXT = tuple(
    name for name, fields in TEXT_FIELDS.items() if not fields and name not in ("CommandAnswered", "WriteRefused")
)


def _loses_words(target: Target) -> bool:
    return target.stream[0] == "m" and "data.content" in (*target.fields, *(field for field, _, _ in target.spans))


def _goes(part: erasure.ErasablePart, target: Target | None) -> bool:
    """Return True if the target takes the whole field."""
    spans = [(first, last) for field, first, last in _spans(target) if field == part.field]
    return target is not None and (part.field in target.fields or [*merged(spans)] == [(0, len("".join(part.texts)))])


def _spans(target: Target | None) -> tuple[Span, ...]:
    return target.spans if target is not None else ()


def _rows(streams: Mapping[str, list[ErasureRow]]) -> list[ErasureRow]:
    return [row for rows in streams.values() for row in rows]
