"""What an erasure would take: the subject's own events, what came from it, what it came from, and who else says the same.

A plan is made on one snapshot and changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

from msgspec.structs import replace

from ledger.domain import erasure
from ledger.domain.errors import RejectedError
from ledger.domain.events import (
    LEDGER_STREAM,
    TEXT_FIELDS,
    ChunkAdded,
    CommandAnswered,
    DocumentAdded,
    DocumentReplaced,
    InteractionCaptured,
    MemoryCaptured,
    ObservationFormed,
    WriteRefused,
    of,
    type_names,
    used_as,
)
from ledger.domain.quotes import Needles
from ledger.domain.spans import merged
from ledger.engine.log_reading import first_position, read_event, read_stream
from ledger.erasure import acts, conversations
from ledger.erasure.asked import Asked
from ledger.erasure.conversations import MESSAGE
from ledger.erasure.plan import ID, LISTS, Listed, NothingLeft, Plan, check_cut
from ledger.erasure.related import SHARED, Related
from ledger.erasure.rows import Row, Rows, Span, Target
from projections.core.rows import Connection
from projections.views import audit, projects

_WITH_TEXT = type_names(used_as("quotes"))  # what of the ledger's own events repeats texts
_NAMING = type_names((*of(begins="session"), *of(governs="session")))  # part of a project that has the session alone


class Planner:
    """Makes the plan; ``choices`` says of each list "erase", "cut" or "keep", ``keep`` names what stays whatever they say."""

    def __init__(
        self, connection: Connection, owner: str, choices: Mapping[str, str | None], keep: Collection[str | int]
    ) -> None:
        self.connection, self.owner, self.choices, self.keep = connection, owner, choices, keep
        self.rows = Rows(connection)
        self.related = Related(self.rows, owner)

    def plan(self, asked: Asked) -> Plan:
        own, streams, names = self._own(asked)
        wholly = [self.rows.whole(row, people=asked.kind == "user") for row in own]
        if asked.kind == "event":
            wholly = [self._of_event(own[0], asked), *(self._parts_of(row) for row in own[1:])]
        targets = {each.position: each for each in wholly if each is not None}
        if asked.kind == "user" and self.owner:
            targets |= {each.position: each for each in self._as_maker()}
        if not any(each.fields or each.spans for each in targets.values()):
            raise NothingLeft
        cited = set[str]()
        lists: dict[str, tuple[Listed, ...]] = {"erased": tuple(self._listed(own, targets))} | dict.fromkeys(LISTS, ())
        material = [row for row in own if asked.kind != "project" or row.type not in _NAMING]
        needles = Needles(self._significant(material, targets, named=bool(asked.fields)))
        if asked.kind != "user":
            turns = {row.stream for row in own[1:] if row.stream[0] == "i"} if asked.kind == "event" else streams
            related = self.related
            derived = related.by_stream(related.derived(turns), besides=turns) | related.written(own, streams)
            derived |= related.called({row.position for row in own}, streams)
            derived |= related.by_stream(related.found_in(own), besides=streams)
            sources = related.by_stream(related.cited(streams), besides=streams | derived.keys())
            seen_rows = (own, *derived.values(), *sources.values())
            sources |= related.messages(streams, {row.position for rows in seen_rows for row in rows})
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
        chosen = {each.position: each for each in self._chosen(lists, needles, self.related.origins(streams))}
        check_cut("derived", lists["derived"], chosen)
        check_cut("sources", (each for each in lists["sources"] if each.row.type == MESSAGE), chosen)
        kept = tuple(sorted(each.row.position for name in LISTS for each in lists[name] if each.choice == "keep"))
        taken = chosen | targets
        if asked.kind != "user":
            taken |= {each.position: each for each in self._besides_text(asked, own, streams, taken, kept)}
        taken |= {each.position: each for each in self._linked(taken)}
        everything = sorted(taken.values(), key=lambda each: each.position)
        head = self.connection.execute("SELECT max(position) FROM events").fetchone()[0]
        concerned = (seen - {LEDGER_STREAM}).union(*(self.related.parts(stream) for stream in seen))
        return Plan(
            head,
            asked,
            lists,
            tuple(everything),
            kept,
            needles,
            frozenset(concerned),
            frozenset(sessions),
            tuple(names),
        )

    # --- the subject itself --------------------------------------------------------------------------------------

    def _own(self, asked: Asked) -> tuple[list[Row], set[str], list[Row]]:
        """The rows of the subject, the streams that are wholly its own, and what names sessions that are not."""
        if asked.kind == "event":
            row = self.rows.row(asked.position)
            return (
                [row, *(() if asked.fields or asked.spans or asked.phrases else self.related.with_message(row))],
                set(),
                [],
            )
        if asked.kind == "user":
            sql = "SELECT position FROM audit WHERE user = ? AND position BETWEEN ? AND ? ORDER BY position"
            span = (self.owner, asked.first, asked.last)
            found = [self.rows.row(position) for (position,) in self.connection.execute(sql, span)]
            return found, {row.stream for row in found} - {LEDGER_STREAM}, []
        assert asked.subject is not None
        places = projects.together(self.connection, asked.subject) if asked.kind == "project" else (asked.subject,)
        streams, single, names = {each for each in places if each is not None}, list[int](), list[Row]()
        if asked.kind in ("session", "project"):
            marks = ", ".join("?" * len(places))
            sql = f"SELECT position, subject, type FROM audit WHERE {asked.kind} IN ({marks}) AND user = ? ORDER BY position"
            for position, stream, type_ in self.connection.execute(sql, (*places, self.owner)).fetchall():
                if type_ in _NAMING or stream[0] == "p" or (stream == LEDGER_STREAM and type_ not in _WITH_TEXT):
                    continue
                if stream[0] not in SHARED and first_position(self.connection, stream) == position:
                    streams.add(stream)
                single.append(position)
        if asked.kind == "project":
            sessions = conversations.of_projects(self.connection, self.owner, places, _WITHOUT_TEXT)
            streams |= {session for session, alone in sessions.items() if alone}
            shared = (session for session, alone in sessions.items() if not alone)
            given = (each for session in shared for each in conversations.events(self.connection, session, _NAMING))
            names = [row for each in given if (row := self.rows.read(*each)).parts]
        rows = {row.position: row for stream in sorted(streams) for row in self.rows.stream(stream)}
        rows |= {position: self.rows.row(position) for position in single if position not in rows}
        messages = conversations.tied_to(self.connection, {stream for stream in streams if stream[0] == "i"})
        rows |= {each.position: self.rows.row(each.position) for each in messages if each.position not in rows}
        rows |= {row.position: row for row in self.related.repairs(rows.values())}
        return [rows[position] for position in sorted(rows)], streams, names

    def _as_maker(self) -> Iterator[Target]:
        """The first event, where it says that this user made the ledger: it is nobody's own."""
        row = self.rows.row(1)
        names = [
            part.field for part in erasure.people(row.state) if part.texts == (self.owner,) and part.field != "user"
        ]
        if names:
            yield self.rows.target(row, tuple(names), (), (self.owner,), ())

    def _of_event(self, row: Row, asked: Asked) -> Target | None:
        """What of one event was named: fields, spans of fields, phrases, or all of its text."""
        held = {part.field: part for part in (*row.parts, *erasure.people(row.state))}
        asked = self._with_phrases(row, asked)
        if not asked.fields and not asked.spans:
            return self.rows.whole(row)
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
        return self.rows.target(row, tuple(dict.fromkeys(asked.fields)), spans, texts, blobs)

    def _with_phrases(self, row: Row, asked: Asked) -> Asked:
        """The phrases as the spans where the event says them; a list, free JSON or a blob that says one goes as a whole."""
        fields, spans = list(asked.fields), list(asked.spans)
        for phrase in asked.phrases:
            says = re.compile(r"\s+".join(map(re.escape, phrase.split())), re.IGNORECASE)
            having = [part for part in row.parts if any(map(says.search, self.rows.texts(part)))]
            if not having:
                raise RejectedError(f"the event at position {row.position} does not say one of the phrases")
            fields += [part.field for part in having if not part.plain]
            texts = [(part.field, part.texts[0]) for part in having if part.plain]
            found = [(field, m.start(), m.end()) for field, text in texts for m in says.finditer(text)]
            spans += [each for each in found if each not in spans]
        return replace(asked, fields=tuple(dict.fromkeys(fields)), spans=tuple(spans), phrases=())

    # --- of sessions ---------------------------------------------------------------------------------------------

    def _parts_of(self, row: Row) -> Target | None:
        return self.rows.fields(row, tuple(part.field for part in row.parts)) if row.parts else None

    # --- what belongs to it --------------------------------------------------------------------------------------

    def _choose(self, name: str, streams: Mapping[str, list[Row]]) -> tuple[Listed, ...]:
        rows = [row for row in _rows(streams) if row.parts]
        return tuple(Listed(row, tuple(part.field for part in row.parts), self._choice(name, row)) for row in rows)

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
                if not streams.isdisjoint(ID.findall(state)) and erasure.has_digests(type_, state):
                    confirming.append(self.rows.target(Row(*row), (), (), (), ()))
                continue
            read = self.rows.read(*row)
            matching = [part for part in read.parts if any(needles.found(text) for text in self.rows.texts(part))]
            if matching and self._is_owners(read):
                quotes.append(Listed(read, tuple(part.field for part in matching)))
        return quotes, confirming

    def _linked(self, taken: Mapping[int, Target]) -> Iterator[Target]:
        """Events whose keyed digests could confirm a guess at what goes: those of other subjects that the same command
        recorded, by the digest of its arguments; and the headers of a document of which a chunk goes, by that of its text."""
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
            *(each for memory in sorted(memories) for each in self._reasons(memory, taken)),
        ):
            fields_of.setdefault(position, {}).update(dict.fromkeys(fields))
        for position, found in fields_of.items():
            if (
                position not in kept
                and (more := self._with(taken.get(position), self.rows.row(position), found)) is not None
            ):
                yield more

    def _reasons(self, memory: str, taken: Mapping[int, Target]) -> Iterator[acts.Position]:
        """Why somebody rejected or changed a memory of which no words are left."""
        rows = self.rows.stream(memory)
        worded = ((row, part) for row in rows for part in row.parts if part.field == "data.content")
        if all(_goes(part, taken.get(row.position)) for row, part in worded):
            yield from ((row.position, acts.REASON) for row in rows)

    def _with(self, target: Target | None, row: Row, fields: Collection[str]) -> Target | None:
        """A target with these fields too; None where there is nothing more to take."""
        had = target.fields if target is not None else ()
        more = [part for part in row.parts if part.field in fields and part.field not in had]
        if not more:
            return None
        names = (*had, *(part.field for part in more))
        spans = tuple(each for each in _spans(target) if each[0] not in names)
        texts = [text for part in more for text in self.rows.texts(part)]
        blobs = target.blobs if target is not None else ()
        return self.rows.target(row, names, spans, (*(target.texts if target is not None else ()), *texts), blobs)

    def _tags(self, memory: str) -> frozenset[str]:
        """The tags that a memory ever had."""
        parts = (
            part for row in self.rows.stream(memory) for part in row.parts if part.field in ("data.tags", "data.added")
        )
        return frozenset(text for part in parts for text in part.texts)

    def _is_owners(self, row: Row) -> bool:
        event = read_event(self.connection, row.position)
        return event is not None and event.envelope.user == self.owner

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
                    yield from part.quotable if part.quotable is not None else self.rows.texts(part)

    # --- what goes -----------------------------------------------------------------------------------------------

    def _chosen(
        self,
        lists: Mapping[str, tuple[Listed, ...]],
        needles: Needles,
        origins: Mapping[str | int, list[Span]],
    ) -> Iterator[Target]:
        for name in LISTS:
            for each in lists[name]:
                target = None
                if each.choice == "erase":
                    target = self.rows.fields(each.row, each.fields) if name == "quotes" else self.rows.whole(each.row)
                elif each.choice == "cut":
                    here = (*origins.get(each.row.stream, ()), *origins.get(each.row.position, ()))
                    target = self.rows.cut(each.row, needles, here if name == "sources" else ())
                if target is not None:
                    yield target

    @staticmethod
    def _listed(rows: Iterable[Row], targets: Mapping[int, Target]) -> Iterator[Listed]:
        for row in rows:
            if (target := targets.get(row.position)) is not None and (target.fields or target.spans):
                fields = target.fields or tuple(dict.fromkeys(field for field, _, _ in target.spans))
                yield Listed(row, fields, "erase")

    # --- rows ----------------------------------------------------------------------------------------------------


_BEGINNING = tuple(kind.__name__ for kind in (MemoryCaptured, InteractionCaptured, DocumentAdded, ObservationFormed))
_WITHOUT_TEXT = tuple(
    name for name, fields in TEXT_FIELDS.items() if not fields and name not in ("CommandAnswered", "WriteRefused")
)


def _loses_words(target: Target) -> bool:
    return target.stream[0] == "m" and "data.content" in (*target.fields, *(field for field, _, _ in target.spans))


def _goes(part: erasure.Part, target: Target | None) -> bool:
    """Whether nothing of a field is left."""
    spans = [(first, last) for field, first, last in _spans(target) if field == part.field]
    return target is not None and (part.field in target.fields or [*merged(spans)] == [(0, len("".join(part.texts)))])


def _spans(target: Target | None) -> tuple[Span, ...]:
    return target.spans if target is not None else ()


def _rows(streams: Mapping[str, list[Row]]) -> list[Row]:
    return [row for rows in streams.values() for row in rows]


# --- who is meant ----------------------------------------------------------------------------------------------------
