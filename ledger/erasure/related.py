"""The events related to an erased subject: events made from the subject, its sources, and other copies of a message."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator
from collections.abc import Set as AbstractSet

from msgspec.structs import replace

from ledger.core.reads import read_event, read_stream
from ledger.domain.ids import message_id, message_place
from ledger.erasure import conversations
from ledger.erasure.conversations import MESSAGE, REPAIR, SUMMARY
from ledger.erasure.rows import ErasureRow, ErasureRows, Span
from ledger.events import AnyEvent, MemoriesMerged, MessageAppended, ModelCalled, Origin, ids_in
from ledger.history.citations import Citations, attempts
from projections.core.projector import FAMILIES
from projections.core.rows import Connection
from projections.views import calls, control, documents, merges, observations

SHARED = ("p", "s")  # projects and sessions are only named by commands about other subjects


class Related:
    """The search for the events that are related to the subjects of a user, on one snapshot."""

    def __init__(self, rows: ErasureRows, owner: str) -> None:
        self.rows = rows
        self.connection: Connection = rows.connection
        self.owner = owner
        self.citations: Citations = Citations(rows.connection)

    def written(self, own: Iterable[ErasureRow], streams: Collection[str]) -> dict[str, list[ErasureRow]]:
        """Return the summaries that were written from these rows; the key names the session and the position of a summary."""
        messages, made, turns = dict[str, set[int]](), dict[str, set[str]](), set[str]()
        for row in own:
            if row.type in (MESSAGE, REPAIR):
                position = row.position if row.type == MESSAGE else conversations.summed_of(row.state).message
                messages.setdefault(row.stream, set()).add(position)
            elif row.type == SUMMARY:
                made.setdefault(row.stream, set()).add(conversations.summed_of(row.state).summary)
            elif row.stream[0] == "i":
                turns.add(row.stream)
        for message in conversations.messages_of(self.connection, turns):
            messages.setdefault(message.session, set()).add(message.position)
        taken, written = {row.position for row in own}, dict[str, list[ErasureRow]]()
        for session in sorted({*messages, *made} - set(streams)):
            concerned = (messages.get(session, ()), made.get(session, ()))
            for columns in conversations.written_from(self.connection, session, *concerned):
                if columns[0] not in taken:
                    written[f"{session} {columns[0]}"] = [self.rows.read(*columns)]
        return written

    def called(self, positions: AbstractSet[int], streams: Collection[str]) -> dict[str, list[ErasureRow]]:
        """Return the model calls that read these events or proposed changes to these subjects.

        The record of a call holds the whole answer of the model, even if nothing of the answer was kept.
        """
        calls_found, ordered = dict[str, list[ErasureRow]](), sorted(positions)
        for position in calls.answered(self.connection, self.owner):
            event = read_event(self.connection, position) if position not in positions else None
            if event is None or not isinstance(event.data, ModelCalled) or not event.data.texts:
                continue
            about = {subject for action in event.data.actions for subject in (action.subject, action.target)}
            read = any(
                first <= position_read <= last
                for first, last in event.data.ranges
                for position_read in ordered[bisect_left(ordered, first) :][:1]
            )
            if read or not about.isdisjoint(streams):
                row = self.rows.row(position)
                # The name of the model is a part too, but holds nothing of the subject.
                texts = tuple(part for part in row.parts if part.is_significant)
                calls_found[f"call {position}"] = [replace(row, parts=texts)]
        return calls_found

    def derived(self, streams: Collection[str]) -> list[str]:
        """Return the memories and observations that were made from these subjects, directly or through others.

        A memory is made from the subjects that it cites and from the memories merged into it; an observation from the
        subjects that support it now or ever did.
        """
        derived, waiting = dict[str, None](), list(streams)
        while waiting:
            source = waiting.pop()
            waiting += self.parts(source)
            for stream in self._merged_from(source) if source[0] == "m" else ():
                if stream not in derived and stream not in streams:
                    derived[stream] = None
                    waiting.append(stream)
            for row in (
                *control.dependents(self.connection, source),
                *observations.ever_supported_by(self.connection, source),
            ):
                stream = self.rows.row(row).stream
                if stream not in derived and stream not in streams:
                    derived[stream] = None
                    waiting.append(stream)
        return list(derived)

    def found_in(self, own: Iterable[ErasureRow]) -> list[str]:
        """Return the memories and observations that rest on these messages, void ones included, directly or not."""
        by_stream: dict[str, set[int]] = {}
        for row in own:
            if row.type == MESSAGE:
                by_stream.setdefault(row.stream, set()).add(row.position)
        resting = dict[str, None]()
        for session, positions in by_stream.items():
            for place in control.dependents(self.connection, session):
                stream = self.rows.row(place).stream
                if not self.citations.ever_behind(stream).isdisjoint(positions):
                    resting[stream] = None
            for position in sorted(positions):
                rows = observations.ever_supported_by(self.connection, message_id(session, position))
                resting |= dict.fromkeys(self.rows.row(row).stream for row in rows)
        return [*resting, *self.derived(resting)]

    def _merged_from(self, memory: str) -> Iterator[str]:
        for row in merges.ever_about(self.connection, memory):
            for event in read_stream(self.connection, self.rows.row(row).stream, 2**62):
                if isinstance(event.data, MemoriesMerged) and memory in event.data.memories:
                    yield event.data.memory

    def parts(self, stream: str) -> list[str]:
        """Return the ids by which others cite parts of a subject: chunks of a document, messages of a session."""
        return observations.parts(self.connection, stream)

    def _captures(self, streams: Iterable[str]) -> Iterator[AnyEvent]:
        for stream in streams:
            if stream[0] == "m":
                yield from attempts(self.connection, stream)

    def cited(self, streams: Iterable[str]) -> list[str]:
        """Return the turns, memories, documents and chunks that are sources of these memories and observations."""
        cited = dict.fromkeys(source for event in self._captures(sorted(streams)) for source in event.data.sources)
        cited |= dict.fromkeys(self._evidence(sorted(streams)))
        return [source for source in cited if (source[0] in FAMILIES and source[0] not in SHARED) or source[0] == "c"]

    def _evidence(self, streams: Iterable[str]) -> Iterator[str]:
        for stream in streams:
            for event in read_stream(self.connection, stream, 2**62) if stream[0] == "o" else ():
                yield from ids_in(event.data, "cites", needs="any")

    def messages(self, streams: Iterable[str], besides: Collection[int]) -> dict[str, list[ErasureRow]]:
        """Return the session messages that are sources of these memories and observations.

        Each message has a key of its own, with the other rows that hold its text.
        """
        rows_of, seen = dict[str, list[ErasureRow]](), set(besides)
        named = [self.citations.named(event) for event in self._captures(sorted(streams))]
        named.append(
            frozenset(place[1] for source in self._evidence(sorted(streams)) if (place := message_place(source)))
        )
        for positions in named:
            for position in sorted(positions - seen):
                row_there = self.rows.row(position)
                rows = [row for row in (row_there, *self.with_message(row_there)) if row.position not in seen]
                rows_of[f"{row_there.stream} {position}"] = rows
                seen |= {position, *(row.position for row in rows)}
        return rows_of

    def with_message(self, row: ErasureRow) -> Iterator[ErasureRow]:
        """Yield the other rows that hold the text of a message: its repairs, and the turn that it belongs to."""
        if row.type != MESSAGE:
            return
        yield from self.repairs([row])
        summed = conversations.summed_of(row.state)
        for turn in self.rows.stream(summed.interaction) if summed.interaction is not None else ():
            if parts := conversations.of_field(turn.parts, summed.field):
                yield replace(turn, parts=parts)

    def repairs(self, rows: Iterable[ErasureRow]) -> list[ErasureRow]:
        messages: dict[str, set[int]] = {}
        for row in rows:
            if row.type == MESSAGE:
                messages.setdefault(row.stream, set()).add(row.position)
        return [self.rows.read(*columns) for columns in conversations.repairs(self.connection, messages)]

    def origins(self, streams: Iterable[str]) -> dict[str | int, list[Span]]:
        """Return the spans in which these memories were found: source -> spans of its fields.

        The key of a source is its id, or the position of a message in a session.
        """
        spans_by_source: dict[str | int, list[Span]] = {}
        for event in self._captures(streams):
            origin, sources = event.data.origin, event.data.sources
            if origin is None or not sources or origin.end <= origin.start:
                continue
            if sources[0][0] != "s":
                spans_by_source.setdefault(sources[0], []).append((f"data.{origin.field}", origin.start, origin.end))
            elif origin.position:
                spans_by_source.setdefault(origin.position, []).extend(self._spans_in(origin))
        return spans_by_source

    def _spans_in(self, origin: Origin) -> Iterator[Span]:
        """Yield the spans of the message's fields that an origin covers.

        The origin counts characters over all texts of the message. A part other than the content goes as a whole.
        """
        event = read_event(self.connection, origin.position)
        if event is None or not isinstance(event.data, MessageAppended):
            return
        data, at = event.data, 0
        content = data.content if isinstance(data.content, str) else "".join(self._contents_of(origin.position))
        if bytes(data.parts) == b"null":  # the parts were erased, so the place of the content among them is unknown
            yield ("data.content", 0, len(content))
            return
        for number, text in conversations.texts_in(content, data.parts, data.content_of):
            first, last = max(origin.start - at, 0), min(origin.end - at, len(text))
            if first < last:
                yield ("data.content" if number == data.content_of else "data.parts", first, last)
            at += len(text) + 1

    def _contents_of(self, position: int) -> tuple[str, ...]:
        contents = (part for part in self.rows.row(position).parts if part.field == "data.content")
        return tuple(text for part in contents for text in self.rows.texts(part))

    def by_stream(self, streams: Iterable[str], *, besides: Collection[str]) -> dict[str, list[ErasureRow]]:
        """Return the rows of each subject that is not in ``besides``.

        A chunk has only the row with its words, and is left out if its whole document is among the subjects.
        """
        rows_of = {stream: self._rows_of(stream) for stream in streams if stream not in besides}
        named = {*besides, *(stream for stream in rows_of if not stream.startswith("c_"))}
        return {
            stream: rows
            for stream, rows in rows_of.items()
            if rows and (stream in named or rows[0].stream not in named)
        }

    def _rows_of(self, subject: str) -> list[ErasureRow]:
        """Return the events of a subject, or the event that holds the words of a chunk."""
        if not subject.startswith("c_"):
            return self.rows.stream(subject)
        place = documents.place_of(self.connection, subject)
        return [self.rows.row(place[0])] if place is not None else []
