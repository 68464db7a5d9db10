"""What belongs to what is erased: whatever was made from it, what it was made from, and where a message lies besides."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator
from collections.abc import Set as AbstractSet

from msgspec.structs import replace

from ledger.domain.events import AnyEvent, MemoriesMerged, MessageAppended, ModelCalled, Origin, ids_in
from ledger.domain.ids import message_id, message_place
from ledger.engine.log_reading import read_event, read_stream
from ledger.erasure import conversations
from ledger.erasure.conversations import MESSAGE, REPAIR, SUMMARY
from ledger.erasure.rows import Row, Rows, Span
from ledger.history.citations import Citations, attempts
from projections.core.projector import FAMILIES
from projections.views import calls, control, documents, merges, observations

SHARED = ("p", "s")  # a project and a session are named by commands on others, and are no part of these


class Related:
    """What is related to subjects of one user, on one snapshot."""

    def __init__(self, rows: Rows, owner: str) -> None:
        self.rows, self.connection, self.owner = rows, rows.connection, owner
        self.citations = Citations(rows.connection)

    def written(self, own: Iterable[Row], streams: Collection[str]) -> dict[str, list[Row]]:
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
                    found[f"{session} {written[0]}"] = [self.rows.read(*written)]
        return found

    def called(self, positions: AbstractSet[int], streams: Collection[str]) -> dict[str, list[Row]]:
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
                row = self.rows.row(position)
                texts = tuple(
                    part for part in row.parts if part.is_significant
                )  # the name of the model says nothing of it
                found[f"call {position}"] = [replace(row, parts=texts)]
        return found

    def derived(self, streams: Collection[str]) -> list[str]:
        """The memories that cite these subjects and the observations that rest on them, or ever did, and so on from those; and
        what memories were merged into."""
        found, waiting = dict[str, None](), list(streams)
        while waiting:
            source = waiting.pop()
            waiting += self.parts(source)
            for stream in self._merged_from(source) if source[0] == "m" else ():
                if stream not in found and stream not in streams:
                    found[stream] = None
                    waiting.append(stream)
            for row in (
                *control.dependents(self.connection, source),
                *observations.ever_supported_by(self.connection, source),
            ):
                stream = self.rows.row(row).stream
                if stream not in found and stream not in streams:
                    found[stream] = None
                    waiting.append(stream)
        return list(found)

    def found_in(self, own: Iterable[Row]) -> list[str]:
        """The memories and observations that rest on these messages, in effect or not, and what rests on such."""
        by_stream: dict[str, set[int]] = {}
        for row in own:
            if row.type == MESSAGE:
                by_stream.setdefault(row.stream, set()).add(row.position)
        found = dict[str, None]()
        for session, positions in by_stream.items():
            for place in control.dependents(self.connection, session):
                stream = self.rows.row(place).stream
                if not self.citations.ever_behind(stream).isdisjoint(positions):
                    found[stream] = None
            for position in sorted(positions):
                rows = observations.ever_supported_by(self.connection, message_id(session, position))
                found |= dict.fromkeys(self.rows.row(row).stream for row in rows)
        return [*found, *self.derived(found)]

    def _merged_from(self, memory: str) -> Iterator[str]:
        for row in merges.ever_about(self.connection, memory):
            for event in read_stream(self.connection, self.rows.row(row).stream, 2**62):
                if isinstance(event.data, MemoriesMerged) and memory in event.data.memories:
                    yield event.data.memory

    def parts(self, stream: str) -> list[str]:
        """What a subject is cited by too: the chunks of a document, the messages of a session that observations rest on."""
        return observations.parts(self.connection, stream)

    def _captures(self, streams: Iterable[str]) -> Iterator[AnyEvent]:
        for stream in streams:
            if stream[0] == "m":
                yield from attempts(self.connection, stream)

    def cited(self, streams: Iterable[str]) -> list[str]:
        """The turns, memories, documents and chunks that these memories came from, or that these observations rest on."""
        cited = dict.fromkeys(source for event in self._captures(sorted(streams)) for source in event.data.sources)
        cited |= dict.fromkeys(self._evidence(sorted(streams)))
        return [each for each in cited if (each[0] in FAMILIES and each[0] not in SHARED) or each[0] == "c"]

    def _evidence(self, streams: Iterable[str]) -> Iterator[str]:
        for stream in streams:
            for event in read_stream(self.connection, stream, 2**62) if stream[0] == "o" else ():
                yield from ids_in(event.data, "cites", needs="any")

    def messages(self, streams: Iterable[str], besides: Collection[int]) -> dict[str, list[Row]]:
        """The messages of sessions that these memories came from and these observations rest on, each by itself, with what
        else it lies in."""
        found, seen = dict[str, list[Row]](), set(besides)
        named = [self.citations.named(event) for event in self._captures(sorted(streams))]
        named.append(frozenset(place[1] for each in self._evidence(sorted(streams)) if (place := message_place(each))))
        for positions in named:
            for position in sorted(positions - seen):
                row_there = self.rows.row(position)
                rows = [row for row in (row_there, *self.with_message(row_there)) if row.position not in seen]
                found[f"{row_there.stream} {position}"] = rows
                seen |= {position, *(row.position for row in rows)}
        return found

    def with_message(self, row: Row) -> Iterator[Row]:
        """Where else a message lies that goes whole: in what was added to it, and where the text of a turn is."""
        if row.type != MESSAGE:
            return
        yield from self.repairs([row])
        summed = conversations.summed_of(row.state)
        for each in self.rows.stream(summed.interaction) if summed.interaction is not None else ():
            if parts := conversations.of_field(each.parts, summed.field):
                yield replace(each, parts=parts)

    def repairs(self, rows: Iterable[Row]) -> list[Row]:
        messages: dict[str, set[int]] = {}
        for row in rows:
            if row.type == MESSAGE:
                messages.setdefault(row.stream, set()).add(row.position)
        return [self.rows.read(*each) for each in conversations.repairs(self.connection, messages)]

    def origins(self, streams: Iterable[str]) -> dict[str | int, list[Span]]:
        """Source, of a session the position of the message -> the spans of its fields in which these memories were found."""
        found: dict[str | int, list[Span]] = {}
        for event in self._captures(streams):
            origin, sources = event.data.origin, event.data.sources
            if origin is None or not sources or origin.end <= origin.start:
                continue
            if sources[0][0] != "s":
                found.setdefault(sources[0], []).append((f"data.{origin.field}", origin.start, origin.end))
            elif origin.position:
                found.setdefault(origin.position, []).extend(self._spans_in(origin))
        return found

    def _spans_in(self, origin: Origin) -> Iterator[Span]:
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
        found = (part for part in self.rows.row(position).parts if part.field == "data.content")
        return tuple(text for part in found for text in self.rows.texts(part))

    def by_stream(self, streams: Iterable[str], *, besides: Collection[str]) -> dict[str, list[Row]]:
        found = {each: self._rows_of(each) for each in streams if each not in besides}
        wanted = {*besides, *(each for each in found if not each.startswith("c_"))}
        return {each: rows for each, rows in found.items() if rows and (each in wanted or rows[0].stream not in wanted)}

    def _rows_of(self, subject: str) -> list[Row]:
        """The events of a subject, or the one that has the words of a chunk."""
        if not subject.startswith("c_"):
            return self.rows.stream(subject)
        place = documents.place_of(self.connection, subject)
        return [self.rows.row(place[0])] if place is not None else []
