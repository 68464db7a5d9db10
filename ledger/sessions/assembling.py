"""Assembly: what of a session goes into a model's window, within a budget of tokens; recorded where that is asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from ledger.domain import assembly, rendering, shortening
from ledger.domain import message as messages
from ledger.domain.assembly import FRESH_TAIL, Fitted
from ledger.domain.errors import ReadOnlyError, RejectedError
from ledger.domain.events import LeftOut, Ranges, Shortened, WindowAssembled
from ledger.domain.rendering import Content
from ledger.domain.session import Session as State
from ledger.domain.text import one_of
from ledger.domain.tokens import MEDIA_TOKENS, MESSAGE_TOKENS
from ledger.domain.window import WindowItem
from ledger.engine.log_reading import read_known
from ledger.engine.past import at
from ledger.engine.work import Work
from ledger.recall import context, reopening
from ledger.recall.asked import UNITS
from ledger.recall.packs import Pack
from ledger.sessions import reading
from ledger.sessions.assembled import Entry, Evicted, Window, texts_of
from ledger.sessions.conversation import Conversation
from ledger.sessions.reading import MessageTexts, is_held
from ledger.sessions.summary_writes import joined
from ledger.sessions.window import OpenWindow, of_message, of_summary
from ledger.sessions.writing import LISTED, opened
from ledger.store.reading import read_tip
from projections.core.rows import Connection
from projections.views import audit, quarantine, sessions, summaries

MOST = 2**62  # tokens, or items
SHARE = 0.25  # of the budget, for what is recalled
SUMMARY_SHARE = 0.2  # of the budget, for summaries
LATEST = 400  # tokens up to which the latest statements fill what is recalled: the conversation needs the rest
REFITS = 3
CHARS = 4  # about as many as a token has


class Wanted(Struct, frozen=True):
    """A window as it was asked for, checked."""

    budget: int
    unit: str
    share: float
    summary_share: float
    tail: int

    @property
    def shortest(self) -> int:
        return assembly.SHORTEST * (CHARS if self.unit == "chars" else 1)


def assemble(
    conversation: Conversation,
    budget_tokens: int,
    *,
    query: str | None = None,
    share: float = SHARE,
    summary_share: float = SUMMARY_SHARE,
    among: Iterable[str] = context.AMONG,
    tail: int = FRESH_TAIL,
    record: bool = False,
    unit: str = "tokens",
) -> Window:
    """What ``assembly.fit`` takes of the window for this budget: the newest user message with what follows it, summaries in
    their place in time, and the newest of the other messages. It begins where a provider takes it, never with a tool's
    result without its call.

    ``used`` counts the texts, the frames of messages and of the block of summaries and memories. Rendered it may be up to
    20 tokens more, where a provider has to be told that the beginning is missing, and 6 for each call.

    With ``query`` what is remembered about it is woven in, within ``share`` of the budget and in what the last user turn
    leaves; what that does not use is the conversation's. ``record`` leaves an event, by whose ``receipt`` ``reopen()`` gives
    the same again. An ignored session has an empty window. ``RejectedError`` for a budget below 1.
    """
    wanted = Wanted(_whole("budget", budget_tokens), unit, share, summary_share, tail)
    one_of("unit", unit, tuple(UNITS))
    _whole("tail", tail)
    for name, part in (("share", share), ("summary_share", summary_share)):
        if isinstance(part, bool) or not isinstance(part, int | float) or not 0 <= part < 1:
            raise RejectedError(f"{name} is a part of the budget, from 0 and below 1, and {part!r:.40} is not")
    if record and conversation.kept_out:
        raise RejectedError(
            f"the session {conversation.name!r:.60} is {conversation.kept_out}: nothing of it is recorded",
            rule="pattern",
        )
    pack = _recalled(conversation, query, wanted, among, record)
    if conversation.kept_out == "ignored":
        return _of_nothing(conversation, wanted, pack, skipped="ignored")
    with conversation.reading() as (connection, state):
        seen, _ = read_tip(connection.cursor())
        if state is None:
            found = replace(_of_nothing(conversation, wanted, pack), seen=seen)
        else:
            found = _assembled(Measured(conversation, connection, state, wanted), pack, seen)
    return _recorded(conversation, found, tail) if record else found


def _of_nothing(conversation: Conversation, wanted: Wanted, pack: Pack | None, skipped: str = "") -> Window:
    """A window without entries: what was recalled is all there is."""
    overhead = _frame(conversation, (), pack, wanted.unit)
    total = _used(pack) + overhead
    return Window(
        session=conversation.name,
        budget=wanted.budget,
        used=total,
        unit=wanted.unit,
        over_budget=total > wanted.budget,
        overhead=overhead,
        pack=pack,
        skipped=skipped,
    )


def _recalled(
    conversation: Conversation, query: str | None, wanted: Wanted, among: Iterable[str], record: bool
) -> Pack | None:
    """What is remembered, with its fence in what the conversation leaves of the budget."""
    if query is None or not query.strip():
        return None
    leaves, shown = wanted.budget, frozenset[int]()
    with conversation.reading() as (connection, state):
        project, session = (state.project, state.id) if state is not None else (conversation.project, None)
        if state is not None:
            measured = Measured(conversation, connection, state, wanted)
            leaves -= measured.needed
            shown = frozenset(item.position for item in measured.fitted(wanted.budget).items if not item.is_summary)
    engine = conversation.engine
    request = context.request_of(
        engine,
        conversation.user,
        query,
        budget=max(0, min(int(wanted.budget * wanted.share), leaves)),
        unit=wanted.unit,
        project=project,
        session=session,
        among=among,
        shown=shown,
        latest=LATEST * (CHARS if wanted.unit == "chars" else 1),
    )
    asked = request.asked
    while True:
        pack, about = context.packed(engine, request)
        over = pack.used + _frame(conversation, (), pack, wanted.unit) - leaves
        if over <= 0 or not asked.budget:
            break
        asked = replace(asked, budget=max(0, min(asked.budget - over, asked.budget * 3 // 4)))
        request = replace(request, asked=asked)
    if not record:
        return pack
    return replace(pack, receipt=reopening.recorded(engine, asked, about, pack, conversation.who, session))


class Measured:
    """A session's window on one snapshot, with its items measured in the unit of the budget."""

    def __init__(self, conversation: Conversation, connection: Connection, state: State, wanted: Wanted) -> None:
        self.conversation, self.connection, self.wanted = conversation, connection, wanted
        self.window = OpenWindow(connection, state)
        request = self.window.request()
        self._tokens = dict[int, int]()  # of each item that was measured in characters, or with its frame
        self.request = self._measured(request) if request is not None else None
        self.summaries = [self._framed(of_summary(row)) for row in self.window.summaries]

    @property
    def needed(self) -> int:
        """What the last user turn takes of the budget: whole where it fits, else with its older tool results shortened."""
        wanted, newest = self.wanted, (item for item in self.items() if not item.is_summary)
        room = wanted.budget - int(wanted.budget * wanted.share)
        turn = assembly.turn_of(newest, self.request, room, tail=wanted.tail, shortest=wanted.shortest)
        whole = turn.complete and not turn.left_out and turn.whole <= wanted.budget
        return turn.whole if whole else turn.least

    def items(self) -> Iterator[WindowItem]:
        """The items from the newest to the oldest."""
        return map(self._measured, self.window.backwards())

    def fitted(self, room: int, *, without_summaries: bool = False) -> Fitted:
        wanted = self.wanted
        return assembly.fit(
            self.items(),
            room,
            request=self.request,
            summaries=[replace(item, tokens=MOST) for item in self.summaries] if without_summaries else self.summaries,
            kept=0 if without_summaries else int(wanted.budget * wanted.summary_share),
            tail=wanted.tail,
            shortest=wanted.shortest,
        )

    def entry(self, item: WindowItem, most: int | None) -> Entry:
        """The item with its texts, its tool results cut where it may take only so much."""
        found = _entry(self.conversation, self.connection, item)
        if item.position in self._tokens:
            found = replace(found, item=replace(item, tokens=self._tokens[item.position]))
        if most is None:
            return found
        whole = max(1, self._size(found))
        chars = max(len(str(part.get("text") or "")) for part in found.parts) * most // whole
        while True:
            tokens = min(self._taken(found.shortened_to(chars, 0)), found.item.tokens)
            cut = found.shortened_to(chars, tokens)
            if not chars or self._size(cut) <= most:
                return cut
            chars = max(0, chars * 4 // 5 - 16)

    def _measured(self, item: WindowItem) -> WindowItem:
        if self.wanted.unit != "chars":
            return item
        self._tokens[item.position] = item.tokens
        return replace(item, tokens=_entry(self.conversation, self.connection, item).chars)

    def _framed(self, item: WindowItem) -> WindowItem:
        """A summary with what its element around it takes."""
        self._tokens[item.position] = item.tokens
        shown = rendering.summary_element(_entry(self.conversation, self.connection, item).as_content)
        if self.wanted.unit == "chars":
            return replace(item, tokens=len(shown))
        return replace(item, tokens=max(item.tokens, self.conversation.counter.of_text(shown)))

    def size_of(self, entries: Sequence[Entry], pack: Pack | None) -> tuple[int, int]:
        """What a window of these entries takes, and how much of it is around summaries and memories."""
        frame = _frame(self.conversation, entries, pack, self.wanted.unit)
        own = sum(each.chars if self.wanted.unit == "chars" else each.item.tokens for each in entries)
        return own + _used(pack) + frame, frame

    def _size(self, entry: Entry) -> int:
        return entry.chars if self.wanted.unit == "chars" else self._taken(entry)

    def _taken(self, entry: Entry) -> int:
        """Tokens of a message, by the ledger's counter."""
        texts, media = messages.read_of(entry.parts, entry.extra)
        own = [] if entry.content in texts else [entry.content or ""]
        counted = map(self.conversation.counter.of_text, [*own, entry.reasoning, entry.speaker, *texts])
        return sum(counted, MESSAGE_TOKENS + MEDIA_TOKENS * media)


def _assembled(measured: Measured, pack: Pack | None, seen: int) -> Window:
    conversation, wanted = measured.conversation, measured.wanted
    around = _frame(conversation, (), pack, wanted.unit) + _used(pack)
    note = _note(conversation, measured.summaries, wanted.unit)
    over, without, fits = 0, False, 0
    while True:  # what all takes is known once it is chosen
        room = wanted.budget - around - (0 if without else note) - over
        fitted = measured.fitted(max(1, room), without_summaries=without)
        entries = [measured.entry(item, fitted.shortened.get(item.position)) for item in fitted.items]
        used, overhead = measured.size_of(entries, pack)
        fits += 1
        if fits == REFITS:
            break
        if not without and measured.summaries and fitted.summaries_evicted == len(measured.summaries):
            without = True
        elif used > wanted.budget and not fitted.over_budget:
            over += used - wanted.budget
        else:
            break
    return Window(
        session=conversation.name,
        budget=wanted.budget,
        entries=tuple(entries),
        used=used,
        unit=wanted.unit,
        over_budget=used > wanted.budget,
        reasons=fitted.reasons,
        evicted=_evicted(measured.window, [each.item for each in entries]),
        summaries_evicted=fitted.summaries_evicted,
        left_out=tuple((each.item.position, each.why) for each in fitted.dropped),
        overhead=overhead,
        pack=pack,
        seen=seen,
    )


def _entry(conversation: Conversation, connection: Connection, item: WindowItem) -> Entry:
    if item.is_summary:
        row = summaries.at_position(connection, item.position)
        assert row is not None
        summary = reading.summary_shown(conversation, connection, row)
        return Entry(
            item=item,
            content=summary.content,
            sources=summary.summaries,
            descendants=summary.descendants,
            earliest=summary.earliest,
            latest=summary.latest,
            quarantined=bool(quarantine.among(connection, [item.position])),
        )
    message = sessions.at_position(connection, item.position)
    assert message is not None
    texts = reading.texts(conversation, connection, message)
    return replace(_of(item, texts), quarantined=is_held(connection, message))


def _frame(conversation: Conversation, entries: Sequence[Entry], pack: Pack | None, unit: str) -> int:
    """What the message before the conversation takes besides the summaries and memories in it: notes, tags and a fence."""
    found = [each for each in entries if each.item.is_summary]
    known = rendering.context_text([each.as_content for each in found], texts_of(pack))
    if not known:
        return 0
    if unit == "chars":
        return max(0, len(known) - sum(each.chars for each in found) - _used(pack))
    inside = sum(each.item.tokens for each in found) + _used(pack)
    return max(0, conversation.counter.of_text(known) + MESSAGE_TOKENS - inside)


def _note(conversation: Conversation, found: Sequence[WindowItem], unit: str) -> int:
    """What the note of these summaries takes, and the message that it stands in."""
    if not found:
        return 0
    note = rendering.summary_block([Content(item=item) for item in found])
    elements = [rendering.summary_element(Content(item=item)) for item in found]
    if unit == "chars":
        return len(note) - sum(map(len, elements)) + CHARS
    count = conversation.counter.of_text
    return max(0, count(note) - sum(map(count, elements))) + MESSAGE_TOKENS


# --- receipts --------------------------------------------------------------------------------------------------


def _recorded(conversation: Conversation, found: Window, tail: int) -> Window:
    if conversation.engine.is_past:
        raise ReadOnlyError(
            "a receipt is written, and this is a session of the past; ask the ledger itself", rule="readonly"
        )
    with conversation.reading() as (connection, state):
        given = [each.item.position for each in found.entries if not each.item.is_summary]
        ranges = joined(connection, state.row, [(each, each) for each in given]) if state is not None else ()
    settings: dict[str, int | str | tuple[str, ...] | None] = {
        "tail": tail,
        "over_budget": int(found.over_budget),
        "overhead": found.overhead,
        "evicted_items": found.evicted.items,
        "evicted_messages": found.evicted.messages,
        "evicted_tokens": found.evicted.tokens,
        "summaries_evicted": found.summaries_evicted,
        "reasons": found.reasons,
        "unit": found.unit,
    }
    cut = [each for each in found.entries if each.shortened is not None]
    if cut:
        settings["shortening"] = shortening.RULE
    event = WindowAssembled(
        seen=found.seen or 0,
        budget=found.budget,
        tokens=found.used,
        messages=ranges[:LISTED],
        summaries=tuple(each.item.id for each in found.entries if each.item.is_summary),
        left_out=tuple(LeftOut(*each) for each in found.left_out),
        recall=found.pack.receipt if found.pack is not None else None,
        settings=settings,
        shortened=tuple(Shortened(each.item.position, each.shortened or 0, each.item.tokens) for each in cut),
    )

    def body(work: Work) -> str:
        stream, first = opened(conversation, work)
        work.emit(stream, event, first=first)
        for start in range(LISTED, len(ranges), LISTED):
            more = WindowAssembled(found.seen or 0, 0, 0, ranges[start : start + LISTED])
            work.emit(stream, more, first=first)
        return stream

    outcome = conversation.engine.writer.run("session.window", conversation.who, body)
    recorded = next(each for each in outcome.events if isinstance(each.data, WindowAssembled))
    return replace(found, receipt=str(recorded.envelope.event_id))


def _entries_of(conversation: Conversation, data: WindowAssembled, ranges: Ranges) -> tuple[Entry, ...]:
    """What was given, as it is at this session's moment."""
    out = {each.position for each in data.left_out}
    with conversation.reading() as (connection, state):
        if state is None:
            return ()
        rows = sessions.within(connection, state.row, ranges)
        found = [of_message(row) for row in rows if row.row not in out]
        given = (summaries.find(connection, state.row, id) for id in data.summaries)
        found += [of_summary(row) for row in given if row is not None]
        found.sort(key=lambda item: (item.place, item.position))
        entries = [_entry(conversation, connection, item) for item in assembly.paired(found)[0]]
        cut = {each.position: each for each in data.shortened}
        return tuple(_cut_again(each, cut.get(each.item.position)) for each in entries)


def _cut_again(entry: Entry, cut: Shortened | None) -> Entry:
    return entry if cut is None else entry.shortened_to(cut.chars, cut.tokens)


def reopen(conversation: Conversation, receipt: str) -> Window | None:
    """The window that an ``assemble(…, record=True)`` of this session gave, as it was given; None without such a
    receipt. What was erased since has no text."""
    with conversation.reading() as (connection, state):
        entry = audit.by_event(connection, receipt) if isinstance(receipt, str) and state is not None else None
        if entry is None or state is None or entry.subject != state.id or entry.type != WindowAssembled.__name__:
            return None
        data: WindowAssembled = read_known(connection, entry.position, state.row).data
        ranges = [*data.messages]
        for other in audit.command_at(connection, entry.position):
            if other.type == entry.type and other.position != entry.position:
                ranges += read_known(connection, other.position, state.row).data.messages
    engine = conversation.engine
    then = Conversation(at(engine, data.seen), conversation.who, state.id)
    settings, reasons = data.settings, data.settings.get("reasons")
    return Window(
        session=conversation.name,
        budget=data.budget,
        entries=_entries_of(then, data, tuple(ranges)),
        used=data.tokens,
        unit=str(settings.get("unit", "tokens")),
        over_budget=bool(settings.get("over_budget")),
        reasons=reasons if isinstance(reasons, tuple) else (),
        evicted=Evicted(*(_number(settings, f"evicted_{name}") for name in ("items", "messages", "tokens"))),
        summaries_evicted=_number(settings, "summaries_evicted"),
        left_out=tuple((each.position, each.why) for each in data.left_out),
        overhead=_number(settings, "overhead"),
        pack=reopening.reopen(engine, conversation.user, data.recall) if data.recall is not None else None,
        seen=data.seen,
        receipt=receipt,
    )


def _of(item: WindowItem, texts: MessageTexts) -> Entry:
    reasoning, speaker = texts.reasoning or "", texts.event.data.speaker or ""
    extra = (texts.extra or {}).get("message", {})
    return Entry(item=item, content=texts.content, reasoning=reasoning, parts=texts.parts, speaker=speaker, extra=extra)


def _evicted(window: OpenWindow, chosen: Sequence[WindowItem]) -> Evicted:
    """Everything of the window that was not chosen."""
    messages = window.messages - sum(item.messages for item in chosen)
    return Evicted(window.count - len(chosen), messages, window.tokens - sum(item.tokens for item in chosen))


def _used(pack: Pack | None) -> int:
    return pack.used if pack is not None else 0


def _number(settings: Mapping[str, object], name: str) -> int:
    value = settings.get(name)
    return value if isinstance(value, int) else 0


def _whole(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST:
        shown = f"{value!r:.40}" if not isinstance(value, int) or abs(value) <= 2**64 else "this one"
        raise RejectedError(f"{name} is a whole number above 0 and up to {MOST:,}, and {shown} is not", rule="budget")
    return value
