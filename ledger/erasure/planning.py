"""What an erasure would take: the subject's own events, what came from it, what it came from, and who else says the same.

A plan is made on one snapshot and changes nothing.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

from msgspec import Struct
from msgspec.structs import replace

from ledger.domain import erasure, ids
from ledger.domain.errors import NotFoundError, RejectedError
from ledger.domain.events import (
    LEDGER_STREAM,
    TEXT_FIELDS,
    AnyEvent,
    ChunkAdded,
    CommandAnswered,
    DocumentAdded,
    DocumentReplaced,
    InteractionCaptured,
    MemoriesMerged,
    MemoryCaptured,
    MessageAppended,
    ModelCalled,
    ObservationFormed,
    Origin,
    RecallDelivered,
    Redaction,
    WindowAssembled,
    WriteRefused,
    ids_in,
    of,
    type_names,
    used_as,
)
from ledger.domain.quotes import Needles, merged
from ledger.engine.log_reading import find_row, first_position, read_event, read_stream
from ledger.erasure import acts, conversations
from ledger.erasure.conversations import FROM_MESSAGES, MESSAGE, REPAIR, SUMMARY
from ledger.history.citations import Citations, attempts
from projections.core.projector import FAMILIES
from projections.core.rows import Connection
from projections.views import audit, calls, documents, merges, observations

LISTS = ("derived", "sources", "quotes")
CHOICES = ("erase", "cut", "keep")
EXCERPT_CHARS = 80
_ID = re.compile(rf"[{''.join(ids.KINDS)}]_[{ids.ALPHABET}]{{{ids.LENGTH - 2}}}")
_SHARED = ("p", "s")  # a project and a session are named by commands on others, and are no part of these
_WITH_TEXT = type_names(used_as("quotes"))  # what of the ledger's own events repeats texts
_WHOLES = {"chunk": "document", "summary": "session"}  # what such a part is of
_NAMING = type_names(
    (*of(begins="session"), *of(governs="session"))
)  # the names of a session are no part of its project


class Asked(Struct, frozen=True):
    """What is to be erased: a ``kind`` ("memory", …, "user", "event") and its id, or the position of an event; of a user what
    lies between two positions."""

    kind: str
    subject: str | None = None
    position: int = 0
    fields: tuple[str, ...] = ()
    spans: tuple[tuple[str, int, int], ...] = ()
    first: int = 0
    last: int = 2**62


class NothingLeft(RejectedError):
    """What is to be erased holds no text."""

    def __init__(self) -> None:
        super().__init__("nothing is left to erase of it: it was erased already, or never held a text")


class Row(Struct, frozen=True):
    """A row of the log as an erasure sees it."""

    position: int
    stream: str
    type: str
    state: str
    parts: tuple[erasure.Part, ...] = ()


class Target(Struct, frozen=True):
    """What goes of one row; ``texts`` are what the files must not hold any more, and are never written down."""

    position: int
    stream: str
    type: str
    fields: tuple[str, ...] = ()
    spans: tuple[tuple[str, int, int], ...] = ()
    blobs: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    before: str = ""
    after: str = ""
    wholly: bool = False  # everything of it goes

    @property
    def redaction(self) -> Redaction:
        return Redaction(self.position, self.before, self.after, self.fields, self.spans)


class Listed(Struct, frozen=True):
    """One event of a list: what of it is concerned, an excerpt, and what becomes of it ("" while nobody said)."""

    row: Row
    fields: tuple[str, ...]
    excerpt: str
    choice: str = ""


class Plan(Struct, frozen=True):
    """What was found when the log ended at ``head``, and what the choices make of it."""

    head: int
    asked: Asked
    lists: Mapping[str, tuple[Listed, ...]]
    targets: tuple[Target, ...]
    kept: tuple[int, ...]
    needles: Needles
    streams: frozenset[str]  # whoever names one of these later may change the plan
    sessions: frozenset[str]  # and whoever writes in one of these from its messages

    @property
    def undecided(self) -> dict[str, int]:
        """How many events of each list nobody has decided about."""
        found = {name: sum(not each.choice for each in self.lists[name]) for name in LISTS}
        return {name: count for name, count in found.items() if count}

    @property
    def blobs(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(blob for target in self.targets for blob in target.blobs))

    def concerns(self, row: Row, user: str | None, owner: str) -> bool:
        """Whether an event that came after the plan was made could change it."""
        if row.type == "ContentErased":
            return True
        if user != owner:
            return False
        if self.asked.kind == "user":
            return row.position <= self.asked.last
        return (
            (row.stream in self.sessions and row.type in FROM_MESSAGES)
            or row.type == ModelCalled.__name__
            or row.type in acts.NAMES
            or not self.streams.isdisjoint(_ID.findall(row.stream + " " + row.state))
            or any(self.needles.found(text) for part in row.parts for text in part.texts)
        )


class Planner:
    """Makes the plan; ``choices`` says of each list "erase", "cut" or "keep", ``keep`` names what stays whatever they say."""

    def __init__(
        self, connection: Connection, owner: str, choices: Mapping[str, str | None], keep: Collection[str | int]
    ) -> None:
        self.connection, self.owner, self.choices, self.keep = connection, owner, choices, keep
        self.citations = Citations(connection)

    def plan(self, asked: Asked) -> Plan:
        own, streams = self._own(asked)
        wholly = [self._whole(row, people=asked.kind == "user") for row in own]
        if asked.kind == "event":
            wholly = [self._of_event(own[0], asked), *(self._parts_of(row) for row in own[1:])]
        targets = {each.position: each for each in wholly if each is not None}
        if not any(each.fields or each.spans for each in targets.values()):
            raise NothingLeft
        cited = set[str]()
        lists: dict[str, tuple[Listed, ...]] = {"erased": tuple(self._listed(own, targets))} | dict.fromkeys(LISTS, ())
        needles = Needles(self._significant(own, targets, named=bool(asked.fields)))
        if asked.kind != "user":
            turns = {row.stream for row in own[1:] if row.stream[0] == "i"} if asked.kind == "event" else streams
            derived = self._streams(self._derived(turns), besides=turns) | self._written(own, streams)
            derived |= self._called({row.position for row in own}, streams)
            derived |= self._streams(self._found_in(own), besides=streams)
            sources = self._streams(self._cited(streams), besides=streams | derived.keys())
            sources |= self._message_rows(
                streams, {row.position for rows in (own, *derived.values(), *sources.values()) for row in rows}
            )
            cited = set(sources)
            if self.choices["derived"] in (None, "erase"):
                needles = Needles(needles.forms | set(self._significant(_rows(derived))))
            if self.choices["sources"] == "erase":
                needles = Needles(needles.forms | set(self._significant(_rows(sources))))
            lists |= {"derived": self._choose("derived", derived), "sources": self._choose("sources", sources)}
        listed = [each.row for name in ("derived", "sources") for each in lists[name]]
        sessions = {row.stream for row in (*own, *listed) if row.stream[0] == "s"} - streams
        seen = streams | {row.stream for row in listed} - sessions
        if asked.kind != "user":
            single = (row.stream for row in listed if row.type == ChunkAdded.__name__ or row.stream[0] == "i")
            parts = {stream for stream in single if stream not in cited}
            whole = streams | seen - parts
            positions = {row.position for row in (*own, *listed)}
            quotes, confirming = self._search(needles, whole - {LEDGER_STREAM}, positions)
            lists["quotes"] = tuple(replace(each, choice=self._choice("quotes", each.row)) for each in quotes)
            targets |= {each.position: each for each in confirming if each.stream == LEDGER_STREAM}
        chosen = {each.position: each for each in self._chosen(lists, needles, self._origins(streams))}
        _check_cut("derived", lists["derived"], chosen)
        _check_cut("sources", (each for each in lists["sources"] if each.row.type == MESSAGE), chosen)
        kept = tuple(sorted(each.row.position for name in LISTS for each in lists[name] if each.choice == "keep"))
        taken = chosen | targets
        if asked.kind != "user":
            taken |= {each.position: each for each in self._besides_text(asked, own, streams, taken, kept)}
        taken |= {each.position: each for each in self._linked(taken)}
        everything = sorted(taken.values(), key=lambda each: each.position)
        head = self.connection.execute("SELECT max(position) FROM events").fetchone()[0]
        concerned = (seen - {LEDGER_STREAM}).union(*(self._parts(stream) for stream in seen))
        return Plan(head, asked, lists, tuple(everything), kept, needles, frozenset(concerned), frozenset(sessions))

    # --- the subject itself --------------------------------------------------------------------------------------

    def _own(self, asked: Asked) -> tuple[list[Row], set[str]]:
        """The rows of the subject, and the streams that are wholly its own."""
        if asked.kind == "event":
            row = self.row(asked.position)
            return [row, *(() if asked.fields or asked.spans else self._with_message(row))], set()
        if asked.kind == "user":
            sql = "SELECT position FROM audit WHERE user = ? AND position BETWEEN ? AND ? ORDER BY position"
            span = (self.owner, asked.first, asked.last)
            found = [self.row(position) for (position,) in self.connection.execute(sql, span)]
            return found, {row.stream for row in found} - {LEDGER_STREAM}
        assert asked.subject is not None
        streams, single = {asked.subject}, list[int]()
        if asked.kind in ("session", "project"):
            sql = f"SELECT position, subject, type FROM audit WHERE {asked.kind} = ? AND user = ? ORDER BY position"
            for position, stream, type_ in self.connection.execute(sql, (asked.subject, self.owner)).fetchall():
                if type_ in _NAMING or stream[0] == "p" or (stream == LEDGER_STREAM and type_ not in _WITH_TEXT):
                    continue
                if stream[0] not in _SHARED and first_position(self.connection, stream) == position:
                    streams.add(stream)
                single.append(position)
        rows = {row.position: row for stream in sorted(streams) for row in self.stream(stream)}
        rows |= {position: self.row(position) for position in single if position not in rows}
        messages = conversations.tied_to(self.connection, {stream for stream in streams if stream[0] == "i"})
        rows |= {each.position: self.row(each.position) for each in messages if each.position not in rows}
        rows |= {row.position: row for row in self._repairs(rows.values())}
        rows |= {row.position: row for row in self._recalled_for(rows.values()) if row.position not in rows}
        return [rows[position] for position in sorted(rows)], streams

    def _recalled_for(self, rows: Iterable[Row]) -> list[Row]:
        """What was asked for windows that sessions gave; earlier versions did not record of which session that was."""
        found = list[Row]()
        for row in rows:
            event = read_event(self.connection, row.position) if row.type == WindowAssembled.__name__ else None
            receipt = event.data.recall if event is not None and isinstance(event.data, WindowAssembled) else None
            entry = audit.by_event(self.connection, receipt) if receipt is not None else None
            if entry is not None and entry.type == RecallDelivered.__name__ and entry.user == self.owner:
                found.append(self.row(entry.position))
        return found

    def _of_event(self, row: Row, asked: Asked) -> Target | None:
        """What of one event was named: fields, spans of fields, or all of its text."""
        held = {part.field: part for part in (*row.parts, *erasure.people(row.state))}
        if not asked.fields and not asked.spans:
            return self._whole(row)
        for field in (*asked.fields, *(field for field, _, _ in asked.spans)):
            if field not in held:
                there = ", ".join(held) or "none any more"
                raise RejectedError(
                    f"the event at position {row.position} has no text in {field!r:.60}; it has: {there}"
                )
        for field, first, last in asked.spans:
            size = len(held[field].texts[0]) if held[field].plain and "." in field else 0
            if not 0 <= first < last <= size:
                raise RejectedError(
                    f"a span of {field} is from 0 to {size}, and {first} to {last} is not: "
                    + (
                        "what is no single text of the data goes as a whole, by fields"
                        if not size
                        else "it is empty or beyond"
                    )
                )
        texts = [text for field in asked.fields for text in held[field].texts]
        texts += [held[field].texts[0][first:last] for field, first, last in asked.spans]
        spans = tuple(each for each in asked.spans if each[0] not in asked.fields)
        blobs = tuple(blob for field in asked.fields if (blob := held[field].blob) is not None)
        return self._target(row, tuple(dict.fromkeys(asked.fields)), spans, texts, blobs)

    # --- of sessions ---------------------------------------------------------------------------------------------

    def _with_message(self, row: Row) -> Iterator[Row]:
        """Where else a message lies that goes whole: in what was added to it, and where the text of a turn is."""
        if row.type != MESSAGE:
            return
        yield from self._repairs([row])
        summed = conversations.summed_of(row.state)
        for each in self.stream(summed.interaction) if summed.interaction is not None else ():
            if parts := conversations.of_field(each.parts, summed.field):
                yield replace(each, parts=parts)

    def _repairs(self, rows: Iterable[Row]) -> list[Row]:
        messages: dict[str, set[int]] = {}
        for row in rows:
            if row.type == MESSAGE:
                messages.setdefault(row.stream, set()).add(row.position)
        return [self._read(*each) for each in conversations.repairs(self.connection, messages)]

    def _parts_of(self, row: Row) -> Target | None:
        return self._fields(Listed(row, tuple(part.field for part in row.parts), "")) if row.parts else None

    def _written(self, own: Iterable[Row], streams: Collection[str]) -> dict[str, list[Row]]:
        """The summaries that were written from what goes, each by itself."""
        messages, made, turns = dict[str, set[int]](), dict[str, set[str]](), set[str]()
        for row in own:
            if row.type in (MESSAGE, REPAIR):
                position = row.position if row.type == MESSAGE else conversations.summed_of(row.state).message
                messages.setdefault(row.stream, set()).add(position)
            elif row.type == SUMMARY:
                made.setdefault(row.stream, set()).add(conversations.summed_of(row.state).summary)
            elif row.stream[0] == "i":
                turns.add(row.stream)
        for each in conversations.tied_to(self.connection, turns):
            messages.setdefault(each.session, set()).add(each.position)
        taken, found = {row.position for row in own}, dict[str, list[Row]]()
        for session in sorted({*messages, *made} - set(streams)):
            concerned = (messages.get(session, ()), made.get(session, ()))
            for written in conversations.written_from(self.connection, session, *concerned):
                if written[0] not in taken:
                    found[f"{session} {written[0]}"] = [self._read(*written)]
        return found

    def _called(self, positions: AbstractSet[int], streams: Collection[str]) -> dict[str, list[Row]]:
        """The calls of a model that read any of this, or were to change it, with what they said and nobody kept."""
        found, inorder = dict[str, list[Row]](), sorted(positions)
        for position in calls.answered(self.connection, self.owner):
            event = read_event(self.connection, position) if position not in positions else None
            if event is None or not isinstance(event.data, ModelCalled) or not event.data.texts:
                continue
            about = {each for acted in event.data.actions for each in (acted.subject, acted.target)}
            read = any(
                first <= each <= last
                for first, last in event.data.ranges
                for each in inorder[bisect_left(inorder, first) :][:1]
            )
            if read or not about.isdisjoint(streams):
                row = self.row(position)
                texts = tuple(
                    part for part in row.parts if part.is_significant
                )  # the name of the model says nothing of it
                found[f"call {position}"] = [replace(row, parts=texts)]
        return found

    # --- what belongs to it --------------------------------------------------------------------------------------

    def _derived(self, streams: Collection[str]) -> list[str]:
        """The memories that cite these subjects and the observations that rest on them, or ever did, and so on from those; and
        what memories were merged into."""
        found, waiting = dict[str, None](), list(streams)
        while waiting:
            source = waiting.pop()
            waiting += self._parts(source)
            for stream in self._merged_from(source) if source[0] == "m" else ():
                if stream not in found and stream not in streams:
                    found[stream] = None
                    waiting.append(stream)
            for row in (*self._citing(source), *observations.ever_supported_by(self.connection, source)):
                stream = self.row(row).stream
                if stream not in found and stream not in streams:
                    found[stream] = None
                    waiting.append(stream)
        return list(found)

    def _found_in(self, own: Iterable[Row]) -> list[str]:
        """The memories that rest on these messages, in effect or not, and those that cite such memories."""
        by_stream: dict[str, set[int]] = {}
        for row in own:
            if row.type == MESSAGE:
                by_stream.setdefault(row.stream, set()).add(row.position)
        found = dict[str, None]()
        for session, positions in by_stream.items():
            for place in self._citing(session):
                stream = self.row(place).stream
                if not self.citations.ever_behind(stream).isdisjoint(positions):
                    found[stream] = None
        return [*found, *self._derived(found)]

    def _merged_from(self, memory: str) -> Iterator[str]:
        for row in merges.ever_about(self.connection, memory):
            for event in read_stream(self.connection, self.row(row).stream, 2**62):
                if isinstance(event.data, MemoriesMerged) and memory in event.data.memories:
                    yield event.data.memory

    def _citing(self, source: str) -> list[int]:
        sql = "SELECT memory FROM dependents WHERE source = ? UNION ALL SELECT memory FROM were_dependents WHERE source = ?"
        return [row for (row,) in self.connection.execute(sql, (source, source))]

    def _parts(self, stream: str) -> list[str]:
        """The chunks of a document, by which it is cited too."""
        return documents.chunk_ids(self.connection, stream) if stream.startswith("d_") else []

    def _captures(self, streams: Iterable[str]) -> Iterator[AnyEvent]:
        for stream in streams:
            if stream[0] == "m":
                yield from attempts(self.connection, stream)

    def _cited(self, streams: Iterable[str]) -> list[str]:
        """The turns, memories, documents and chunks that these memories came from, or that these observations rest on."""
        cited = dict.fromkeys(source for event in self._captures(sorted(streams)) for source in event.data.sources)
        cited |= dict.fromkeys(self._evidence(sorted(streams)))
        return [each for each in cited if (each[0] in FAMILIES and each[0] not in _SHARED) or each[0] == "c"]

    def _evidence(self, streams: Iterable[str]) -> Iterator[str]:
        for stream in streams:
            for event in read_stream(self.connection, stream, 2**62) if stream[0] == "o" else ():
                yield from ids_in(event.data, "cites", needs="any")

    def _message_rows(self, streams: Iterable[str], besides: Collection[int]) -> dict[str, list[Row]]:
        """The messages of sessions that these memories came from, each by itself, with what else it lies in."""
        found, seen = dict[str, list[Row]](), set(besides)
        for event in self._captures(sorted(streams)):
            for position in sorted(self.citations.named(event) - seen):
                row_there = self.row(position)
                rows = [row for row in (row_there, *self._with_message(row_there)) if row.position not in seen]
                found[f"{row_there.stream} {position}"] = rows
                seen |= {position, *(row.position for row in rows)}
        return found

    def _origins(self, streams: Iterable[str]) -> dict[str | int, list[tuple[str, int, int]]]:
        """Source, of a session the position of the message -> the spans of its fields in which these memories were found."""
        found: dict[str | int, list[tuple[str, int, int]]] = {}
        for event in self._captures(streams):
            origin, sources = event.data.origin, event.data.sources
            if origin is None or not sources or origin.end <= origin.start:
                continue
            if sources[0][0] != "s":
                found.setdefault(sources[0], []).append((f"data.{origin.field}", origin.start, origin.end))
            elif origin.position:
                found.setdefault(origin.position, []).extend(self._spans_in(origin))
        return found

    def _spans_in(self, origin: Origin) -> Iterator[tuple[str, int, int]]:
        """Where a span of what a message says lies: in its text, or among its other parts, which go as a whole."""
        event = read_event(self.connection, origin.position)
        if event is None or not isinstance(event.data, MessageAppended):
            return
        data, at = event.data, 0
        content = data.content if isinstance(data.content, str) else "".join(self._contents_of(origin.position))
        if bytes(data.parts) == b"null":  # erased, so that nobody knows any more where in the whole it stood
            yield ("data.content", 0, len(content))
            return
        for number, text in conversations.texts_in(content, data.parts, data.content_of):
            first, last = max(origin.start - at, 0), min(origin.end - at, len(text))
            if first < last:
                yield ("data.content" if number == data.content_of else "data.parts", first, last)
            at += len(text) + 1

    def _contents_of(self, position: int) -> tuple[str, ...]:
        found = (part for part in self.row(position).parts if part.field == "data.content")
        return tuple(text for part in found for text in self._texts(part))

    def _streams(self, streams: Iterable[str], *, besides: Collection[str]) -> dict[str, list[Row]]:
        found = {each: self._rows_of(each) for each in streams if each not in besides}
        wanted = {*besides, *(each for each in found if not each.startswith("c_"))}
        return {each: rows for each, rows in found.items() if rows and (each in wanted or rows[0].stream not in wanted)}

    def _rows_of(self, subject: str) -> list[Row]:
        """The events of a subject, or the one that has the words of a chunk."""
        if not subject.startswith("c_"):
            return self.stream(subject)
        place = documents.place_of(self.connection, subject)
        return [self.row(place[0])] if place is not None else []

    def _choose(self, name: str, streams: Mapping[str, list[Row]]) -> tuple[Listed, ...]:
        rows = [row for row in _rows(streams) if row.parts]
        return tuple(
            Listed(row, tuple(part.field for part in row.parts), _excerpt(row.parts), self._choice(name, row))
            for row in rows
        )

    def _choice(self, name: str, row: Row) -> str:
        kept = row.position in self.keep or row.stream in self.keep
        return "keep" if kept else self.choices[name] or ""

    # --- who else says it ----------------------------------------------------------------------------------------

    def _search(
        self, needles: Needles, streams: AbstractSet[str], positions: Collection[int]
    ) -> tuple[list[Listed], list[Target]]:
        """Every other event of this user that says the same, and the keyed digests that could confirm a guess at it."""
        quotes: list[Listed] = []
        confirming: list[Target] = []
        columns = "position, stream, type, state"
        for row in self.connection.execute(f"SELECT {columns} FROM events ORDER BY position"):
            position, stream, type_, state = row
            if stream in streams or position in positions or type_ in _WITHOUT_TEXT:
                continue
            if type_ in (CommandAnswered.__name__, WriteRefused.__name__):
                if not streams.isdisjoint(_ID.findall(state)) and erasure.has_digests(type_, state):
                    confirming.append(self._target(Row(*row), (), (), (), ()))
                continue
            read = self._read(*row)
            matching = [part for part in read.parts if any(needles.found(text) for text in self._texts(part))]
            if matching and self._is_owners(read):
                quotes.append(Listed(read, tuple(part.field for part in matching), _excerpt(matching)))
        return quotes, confirming

    def _linked(self, taken: Mapping[int, Target]) -> Iterator[Target]:
        """Events whose keyed digests could confirm a guess at what goes: those of other subjects that the same command
        recorded, by the digest of its arguments; and the headers of a document of which a chunk goes, by that of its text."""
        significant = (position for position, target in taken.items() if target.fields or target.spans)
        commands = dict.fromkeys(erasure.keyed_command(self.row(position).state) for position in significant)
        for command in commands:
            for entry in audit.of_command(self.connection, command) if command is not None else ():
                row = self.row(entry.position)
                if entry.position not in taken and erasure.keyed_command(row.state) is not None:
                    yield self._target(row, (), (), (), ())
        pieces = (self.row(at) for at, target in taken.items() if target.fields or target.spans)
        for stream in sorted({row.stream for row in pieces if row.type == ChunkAdded.__name__}):
            for event in read_stream(self.connection, stream, 2**62):
                if event.position not in taken and isinstance(event.data, DocumentAdded | DocumentReplaced):
                    yield self._target(self.row(event.position), (), (), (), ())

    def _besides_text(
        self,
        asked: Asked,
        own: Sequence[Row],
        streams: Collection[str],
        taken: Mapping[int, Target],
        kept: Collection[int],
    ) -> Iterator[Target]:
        """What acts on others say of what goes whole; what a memory's merges and conflicts say goes with its words."""
        wholly = {position for position, target in taken.items() if target.wholly and target.fields}
        positions = wholly | {row.position for row in (own if asked.kind != "event" else ())}
        gone = {*streams, *(taken[each].stream for each in wholly if taken[each].type in _BEGINNING)}
        memories = {target.stream for target in taken.values() if _loses_words(target)}
        tags = {each: self._tags(each) for each in sorted(memories) if each in gone}
        fields_of = dict[int, dict[str, None]]()
        for position, fields in (
            *acts.about(self.connection, self.owner, gone, positions),
            *(each for memory in sorted(memories) for each in acts.joining(self.connection, memory, memory in gone)),
            *acts.scopes(self.connection, self.owner, tags, gone),
        ):
            fields_of.setdefault(position, {}).update(dict.fromkeys(fields))
        for position, found in fields_of.items():
            if (
                position not in kept
                and (more := self._with(taken.get(position), self.row(position), found)) is not None
            ):
                yield more

    def _with(self, target: Target | None, row: Row, fields: Collection[str]) -> Target | None:
        """A target with these fields too; None where there is nothing more to take."""
        had = target.fields if target is not None else ()
        more = [part for part in row.parts if part.field in fields and part.field not in had]
        if not more:
            return None
        names = (*had, *(part.field for part in more))
        spans = tuple(each for each in _spans(target) if each[0] not in names)
        texts = [text for part in more for text in self._texts(part)]
        blobs = target.blobs if target is not None else ()
        return self._target(row, names, spans, (*(target.texts if target is not None else ()), *texts), blobs)

    def _tags(self, memory: str) -> frozenset[str]:
        """The tags that a memory ever had."""
        parts = (part for row in self.stream(memory) for part in row.parts if part.field in ("data.tags", "data.added"))
        return frozenset(text for part in parts for text in part.texts)

    def _is_owners(self, row: Row) -> bool:
        event = read_event(self.connection, row.position)
        return event is not None and event.envelope.user == self.owner

    def _texts(self, part: erasure.Part) -> tuple[str, ...]:
        """The texts of a field, those of a blob too."""
        if part.blob is None:
            return part.texts
        found = self.connection.execute("SELECT data FROM blobs WHERE id = ?", (part.blob,)).fetchone()
        return (str(found[0][16:], "utf-8"),) if found is not None and found[0] is not None else ()

    def _significant(
        self, rows: Iterable[Row], targets: Mapping[int, Target] = {}, *, named: bool = False
    ) -> Iterator[str]:
        """What others could quote of it: a text that says something of its own, or what was named, or the spans that go."""
        for row in rows:
            target = targets.get(row.position)
            for part in row.parts:
                spans = [part.texts[0][first:last] for field, first, last in _spans(target) if field == part.field]
                if spans:
                    yield from spans
                elif (part.is_significant or named) and (target is None or part.field in target.fields):
                    yield from part.quotable if part.quotable is not None else self._texts(part)

    # --- what goes -----------------------------------------------------------------------------------------------

    def _chosen(
        self,
        lists: Mapping[str, tuple[Listed, ...]],
        needles: Needles,
        origins: Mapping[str | int, list[tuple[str, int, int]]],
    ) -> Iterator[Target]:
        for name in LISTS:
            for each in lists[name]:
                target = None
                if each.choice == "erase":
                    target = self._fields(each) if name == "quotes" else self._whole(each.row)
                elif each.choice == "cut":
                    here = (*origins.get(each.row.stream, ()), *origins.get(each.row.position, ()))
                    target = self._cut(each.row, needles, here if name == "sources" else ())
                if target is not None:
                    yield target

    def _whole(self, row: Row, *, people: bool = False) -> Target | None:
        """Everything that somebody wrote; None where there is nothing."""
        parts = (*row.parts, *(erasure.people(row.state) if people else ()))
        if not parts and not erasure.has_digests(row.type, row.state):
            return None
        blobs = tuple(part.blob for part in parts if part.blob is not None)
        texts = [text for part in parts for text in self._texts(part)]
        return replace(self._target(row, tuple(part.field for part in parts), (), texts, blobs), wholly=True)

    def texts_gone(self, redactions: Iterable[Redaction]) -> Iterator[str]:
        """What the texts are that these took, or are to take."""
        for each in redactions:
            row = self.row(each.position)
            parts = {part.field: part for part in (*row.parts, *erasure.people(row.state))}
            yield from (text for field in each.fields if field in parts for text in self._texts(parts[field]))
            spans = (span for span in each.spans if span[0] in parts and parts[span[0]].plain)
            yield from (parts[field].texts[0][first:last] for field, first, last in spans)
            if (salt := erasure.salt(row.state)) is not None:
                yield salt

    def _fields(self, listed: Listed) -> Target:
        """The fields that say it."""
        parts = [part for part in listed.row.parts if part.field in listed.fields]
        texts = [text for part in parts for text in self._texts(part)]
        blobs = tuple(part.blob for part in parts if part.blob is not None)
        return self._target(listed.row, listed.fields, (), texts, blobs)

    def _cut(self, row: Row, needles: Needles, origins: Iterable[tuple[str, int, int]]) -> Target | None:
        """The spans that say it; a list, free JSON or a blob can only go as a whole."""
        fields, spans, texts, blobs = [], list[tuple[str, int, int]](), list[str](), []
        for part in row.parts:
            inside = [each for each in origins if each[0] == part.field]
            if not inside and not any(needles.found(text) for text in self._texts(part)):
                continue
            found = needles.spans(part.texts[0]) if part.plain else None
            if found is None:
                fields.append(part.field)
                texts += self._texts(part)
                blobs += [part.blob] if part.blob is not None else []
                continue
            size = len(part.texts[0])
            here = [(first, min(last, size)) for first, last in found] + [
                (first, min(last, size)) for _, first, last in inside
            ]
            spans += [(part.field, first, last) for first, last in merged(here)]
            texts += [part.texts[0][first:last] for first, last in merged(here)]
        return self._target(row, tuple(fields), tuple(spans), texts, tuple(blobs)) if fields or spans else None

    @staticmethod
    def _target(
        row: Row,
        fields: tuple[str, ...],
        spans: tuple[tuple[str, int, int], ...],
        texts: Iterable[str],
        blobs: tuple[str, ...],
    ) -> Target:
        salt = erasure.salt(row.state)
        before = erasure.digest(row.state)
        after = erasure.digest(erasure.redacted(row.type, row.state, fields, spans))
        salted = (*texts, *((salt,) if salt is not None else ()))
        return Target(row.position, row.stream, row.type, fields, spans, blobs, salted, before, after)

    @staticmethod
    def _listed(rows: Iterable[Row], targets: Mapping[int, Target]) -> Iterator[Listed]:
        for row in rows:
            if (target := targets.get(row.position)) is not None and (target.fields or target.spans):
                fields = target.fields or tuple(dict.fromkeys(field for field, _, _ in target.spans))
                yield Listed(row, fields, _excerpt(row.parts), "erase")

    # --- rows ----------------------------------------------------------------------------------------------------

    def row(self, position: int) -> Row:
        sql = "SELECT position, stream, type, state FROM events WHERE position = ?"
        found = self.connection.execute(sql, (position,)).fetchone()
        if found is None:
            raise NotFoundError(f"no event of this user is at position {position}")
        return self._read(*found)

    def stream(self, stream: str) -> list[Row]:
        sql = "SELECT position, stream, type, state FROM events WHERE stream = ? ORDER BY version"
        return [self._read(*row) for row in self.connection.execute(sql, (stream,)).fetchall()]

    def since(self, position: int) -> Iterator[tuple[Row, str | None]]:
        """The rows after a position, each with its user."""
        sql = (
            "SELECT e.position, e.stream, e.type, e.state, a.user FROM events e"
            " CROSS JOIN audit a ON a.position = e.position WHERE e.position > ? ORDER BY e.position"
        )
        for *row, user in self.connection.execute(sql, (position,)).fetchall():
            yield self._read(*row), user

    @staticmethod
    def _read(position: int, stream: str, type_: str, state: str) -> Row:
        return Row(position, stream, type_, state, tuple(erasure.parts(type_, state)))


_BEGINNING = tuple(kind.__name__ for kind in (MemoryCaptured, InteractionCaptured, DocumentAdded, ObservationFormed))
_WITHOUT_TEXT = tuple(
    name for name, fields in TEXT_FIELDS.items() if not fields and name not in ("CommandAnswered", "WriteRefused")
)


def _check_cut(name: str, found: Iterable[Listed], chosen: Mapping[int, Target]) -> None:
    """``RejectedError`` where a memory is to be cut and nothing in it repeats the text: it would stay whole, and seem cut."""
    listed = [*found]
    cut = {_one(each.row) for each in listed if each.choice == "cut"}
    done = {_one(each.row) for each in listed if each.row.position in chosen}
    if whole := sorted(cut - done):
        raise RejectedError(
            f"{name}: nothing in {whole[0]} repeats the whole text, so nothing can be cut: erase it or keep it"
        )


def _one(row: Row) -> str:
    """What is one thing in a list: a subject, but each message and each summary of a session by itself."""
    if row.stream == LEDGER_STREAM:
        return f"the event at position {row.position}"
    what = "message" if row.type == MESSAGE else "summary"
    return f"the {what} at position {row.position}" if row.stream[0] == "s" else row.stream


def _loses_words(target: Target) -> bool:
    return target.stream[0] == "m" and "data.content" in (*target.fields, *(field for field, _, _ in target.spans))


def _spans(target: Target | None) -> tuple[tuple[str, int, int], ...]:
    return target.spans if target is not None else ()


def _rows(streams: Mapping[str, list[Row]]) -> list[Row]:
    return [row for rows in streams.values() for row in rows]


def _excerpt(parts: Iterable[erasure.Part]) -> str:
    text = next((text for part in parts for text in part.texts), "")
    return text if len(text) <= EXCERPT_CHARS else text[: EXCERPT_CHARS - 1] + "…"


# --- who is meant ----------------------------------------------------------------------------------------------------


def asked_for(
    connection: Connection, given: str, owner: str, *, only: str = "", part: str = "goes by the position of its event"
) -> Asked:
    """The subject with this id, or an unambiguous beginning of it; ``NotFoundError`` when it is none of this user's.

    ``only`` is the letter of the kind that it has to be of, ``part`` says how a part of a whole is named instead.
    """
    kind = ids.KINDS.get(given[:1], "") if given[1:2] == "_" else ""
    if kind and given[0] in (only or FAMILIES):
        row = find_row(connection, given, given[0], owner)
        first = row if row is not None else first_position(connection, given)
        event = read_event(connection, first) if first is not None else None
        if event is not None and event.envelope.user == owner and event.stream.startswith(given):
            return Asked(kind, event.stream)
    hint = f"; a {kind} {part.format(whole=_WHOLES[kind])}" if kind in _WHOLES else ""
    if only == "d" and not kind:
        hint = ", or is known by this path; a file is known by its absolute one"
    raise NotFoundError(f"no {ids.KINDS.get(only) or kind or 'subject'} of this user has the id {given!r:.40}{hint}")
