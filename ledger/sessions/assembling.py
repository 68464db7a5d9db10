"""The assembly of a window: the part of a session that fits a model's budget, recorded on request."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from ledger.core.engine import Engine, at
from ledger.core.reads import read_known
from ledger.core.work import Work
from ledger.domain.errors import ReadOnlyError, RejectedError
from ledger.domain.text import one_of
from ledger.domain.tokens import MEDIA_TOKENS, MESSAGE_TOKENS
from ledger.events import LeftOut, Ranges, Shortened, WindowAssembled
from ledger.log.reading import read_tip
from ledger.recall import context, reopening
from ledger.recall.context import ContextRequest
from ledger.recall.packs import Pack
from ledger.recall.request import UNITS, RecallRequest
from ledger.sessions import reading
from ledger.sessions.assembled import Entry, Evicted, Window, texts_of
from ledger.sessions.conversation import Conversation
from ledger.sessions.reading import MessageTexts, is_held
from ledger.sessions.rules import assembly, rendering, shortening
from ledger.sessions.rules import message as messages
from ledger.sessions.rules.assembly import FRESH_TAIL, Fitted
from ledger.sessions.rules.rendering import Content
from ledger.sessions.rules.session import SessionState as State
from ledger.sessions.rules.window import WindowItem
from ledger.sessions.summary_writes import joined
from ledger.sessions.window import OpenWindow, of_message, of_summary
from ledger.sessions.writing import LISTED, opened
from projections.core.rows import Connection
from projections.views import audit, quarantine, sessions, summaries

MOST = 2**62  # the greatest number of tokens or items that a caller may name
SHARE = 0.25  # the part of the budget for recalled memories
SUMMARY_SHARE = 0.2  # the part of the budget for summaries
LATEST = 400  # the most tokens of the latest statements among the recalled memories
REFITS = 3  # the most attempts to choose items whose whole size fits the budget
CHARS = 4  # about the number of characters of a token


class WindowRequest(Struct, frozen=True):
    """A checked request for a window."""

    budget: int
    unit: str
    share: float | None
    summary_share: float
    tail: int

    @property
    def shortest(self) -> int:
        return assembly.SHORTEST * (CHARS if self.unit == "chars" else 1)


def assemble(
    conversation: Conversation,
    budget_tokens: int,
    *,
    question: str | None = None,
    share: float | None = None,
    summary_share: float = SUMMARY_SHARE,
    among: Iterable[str] = context.AMONG,
    tail: int = FRESH_TAIL,
    receipt: bool = False,
    unit: str = "tokens",
) -> Window:
    """Return the part of the session that fits a budget; ``assembly.fit`` describes the order in which items are chosen.

    The window begins with a message that a provider accepts, and never with a tool's result without its call. An ignored session
    has an empty window.

    ``used`` counts the texts, the frames of messages, and the frame of the block of summaries and memories. The rendered window
    may take up to 20 tokens more, if a provider needs a note that the beginning is missing, and 6 more for each tool call.

    Args:
        conversation: The session.
        budget_tokens: The most that the window may take, counted in ``unit``.
        question: A text about which memories are recalled into the window, within ``share`` of the budget and within the room
            that the last user turn leaves. The conversation takes the unused part of the share.
        share: The part of the budget for memories, from 0 and below 1. None is a quarter with a question, and nothing without.
            A share without a question is for the session's own memories and the latest.
        summary_share: The part of the budget that is kept for summaries, from 0 and below 1.
        among: The corpora of the memories.
        tail: A last user turn of at most so many items is never shortened by leaving out items.
        receipt: True to record an event, by whose id ``reopen()`` returns the same window.
        unit: "tokens" or "chars".

    Raises:
        RejectedError: The budget is below 1, a share is out of range, or a receipt is requested of a session that is kept out.
    """
    request = WindowRequest(_whole("budget", budget_tokens), unit, share, summary_share, tail)
    one_of("unit", unit, tuple(UNITS))
    _whole("tail", tail)
    for name, part in (("share", share or 0), ("summary_share", summary_share)):
        if isinstance(part, bool) or not isinstance(part, int | float) or not 0 <= part < 1:
            raise RejectedError(f"{name} is a part of the budget, a number from 0 and below 1, and {part!r:.40} is not")
    if receipt and conversation.kept_out:
        raise RejectedError(
            f"the session {conversation.name!r:.60} is {conversation.kept_out} by a pattern, so no receipt of it can be recorded",
            rule="pattern",
        )
    pack = _recalled(conversation, question, request, among, receipt)
    if conversation.kept_out == "ignored":
        return _without_entries(conversation, request, pack, skipped="ignored")
    with conversation.reading() as (connection, state):
        seen, _ = read_tip(connection.cursor())
        if state is None:
            window = replace(_without_entries(conversation, request, pack), seen=seen)
        else:
            window = _assembled(Measured(conversation, connection, state, request), pack, seen)
    return _recorded(conversation, window, tail) if receipt else window


def _without_entries(
    conversation: Conversation, request: WindowRequest, pack: Pack | None, skipped: str = ""
) -> Window:
    """Return a window without entries, which at most has recalled memories."""
    overhead = _frame(conversation, (), pack, request.unit)
    total = _used(pack) + overhead
    return Window(
        session=conversation.name,
        budget=request.budget,
        used=total,
        unit=request.unit,
        over_budget=total > request.budget,
        overhead=overhead,
        pack=pack,
        skipped=skipped,
    )


def _recalled(
    conversation: Conversation, question: str | None, window_request: WindowRequest, among: Iterable[str], receipt: bool
) -> Pack | None:
    """Return the recalled memories, which together with the text around them fit the room that the conversation leaves.

    Left out are the messages that the window shows whatever the memories take.
    """
    asks, share = bool(question and question.strip()), window_request.share
    share = SHARE if share is None and asks else share
    if not share and not asks:
        return None
    room, shown, said = window_request.budget, frozenset[int](), tuple[str, ...]()
    most = int(window_request.budget * (share or 0))
    with conversation.reading() as (connection, state):
        project, session = (state.project, state.id) if state is not None else (conversation.project, None)
        if state is not None:
            measured = Measured(conversation, connection, state, window_request)
            room -= measured.needed
            block = rendering.memory_block(["memories"])  # as large as the text around memories, or larger
            around = len(block) if window_request.unit == "chars" else conversation.counter.of_text(block)
            fitted = measured.fitted(max(1, window_request.budget - most - around - MESSAGE_TOKENS))
            shown = frozenset(item.position for item in fitted.items if not item.is_summary) - fitted.shortened.keys()
            summed = [item for item in fitted.items if item.is_summary]
            said = tuple(measured.entry(item, fitted.shortened.get(item.position)).content or "" for item in summed)
    engine = conversation.engine
    search = RecallRequest(
        question=question or "",
        user=conversation.user,
        now=engine.now(),
        project=project,
        among=tuple(among),
        budget=max(0, min(most, room)),
        unit=window_request.unit,
    )
    filled = LATEST * (CHARS if window_request.unit == "chars" else 1) if asks else None
    request = context.checked(
        ContextRequest(search=search, session=session, shown=shown, filled=filled, summaries=said)
    )
    while True:
        pack, about = context.packed(engine, request)
        over, budget = pack.used + _frame(conversation, (), pack, window_request.unit) - room, request.search.budget
        if over <= 0 or not budget:
            break
        smaller = replace(request.search, budget=max(0, min(budget - over, budget * 3 // 4)))
        request = replace(request, search=smaller)
    if not receipt:
        return pack
    return replace(pack, receipt=reopening.recorded(engine, request.search, about, pack, conversation.who, session))


class Measured:
    """A session's window on a snapshot, with its items measured in the unit of the budget."""

    def __init__(
        self, conversation: Conversation, connection: Connection, state: State, window_request: WindowRequest
    ) -> None:
        self.conversation = conversation
        self.connection = connection
        self.window_request = window_request
        self.window: OpenWindow = OpenWindow(connection, state)
        request = self.window.request()
        self._tokens = dict[int, int]()  # the tokens by position, of items measured in characters or with their frame
        self.request: WindowItem | None = self._measured(request) if request is not None else None
        self.summaries: list[WindowItem] = [self._framed(of_summary(row)) for row in self.window.summaries]

    @property
    def needed(self) -> int:
        """Return the part of the budget that the last user turn takes.

        The turn is measured whole if it fits, else with its older tool results shortened.
        """
        request, newest = self.window_request, (item for item in self.items() if not item.is_summary)
        room = request.budget - int(request.budget * (SHARE if request.share is None else request.share))
        turn = assembly.turn_of(newest, self.request, room, tail=request.tail, shortest=request.shortest)
        whole = turn.complete and not turn.left_out and turn.whole <= request.budget
        return turn.whole if whole else turn.least

    def items(self) -> Iterator[WindowItem]:
        """Yield the items from the newest to the oldest."""
        return map(self._measured, self.window.backwards())

    def fitted(self, room: int, *, without_summaries: bool = False) -> Fitted:
        request = self.window_request
        return assembly.fit(
            self.items(),
            room,
            request=self.request,
            summaries=[replace(item, tokens=MOST) for item in self.summaries] if without_summaries else self.summaries,
            kept=0 if without_summaries else int(request.budget * request.summary_share),
            tail=request.tail,
            shortest=request.shortest,
        )

    def entry(self, item: WindowItem, most: int | None) -> Entry:
        """Return the item with its texts; with ``most``, these are cut so that the entry is at most so large."""
        entry = _entry(self.conversation, self.connection, item)
        if item.position in self._tokens:
            entry = replace(entry, item=replace(item, tokens=self._tokens[item.position]))
        if most is None:
            return entry
        whole = max(1, self._size(entry))
        longest = max((len(str(part.get("text") or "")) for part in entry.parts), default=0)
        chars = max(longest, len(entry.content or "")) * most // whole
        while True:
            cut = entry.shortened_to(chars, 0)
            tokens = min(self._taken(cut), entry.item.tokens)
            cut = replace(cut, item=replace(cut.item, tokens=tokens))
            size = self._size(cut)
            if not chars or size <= most:
                return cut
            chars = max(0, min(chars - 8, chars * most // size - 8))

    def _measured(self, item: WindowItem) -> WindowItem:
        if self.window_request.unit != "chars":
            return item
        self._tokens[item.position] = item.tokens
        return replace(item, tokens=_entry(self.conversation, self.connection, item).chars)

    def _framed(self, item: WindowItem) -> WindowItem:
        """Return a summary with the size of its XML element."""
        self._tokens[item.position] = item.tokens
        shown = rendering.summary_element(_entry(self.conversation, self.connection, item).as_content)
        if self.window_request.unit == "chars":
            return replace(item, tokens=len(shown))
        return replace(item, tokens=max(item.tokens, self.conversation.counter.of_text(shown)))

    def size_of(self, entries: Sequence[Entry], pack: Pack | None) -> tuple[int, int]:
        """Return the size of a window with these entries, and the size of the text around summaries and memories."""
        frame = _frame(self.conversation, entries, pack, self.window_request.unit)
        entries_size = sum(
            entry.chars if self.window_request.unit == "chars" else entry.item.tokens for entry in entries
        )
        return entries_size + _used(pack) + frame, frame

    def _size(self, entry: Entry) -> int:
        in_chars = self.window_request.unit == "chars"
        if entry.item.is_summary:
            shown = rendering.summary_element(entry.as_content)
            return len(shown) if in_chars else max(entry.item.tokens, self.conversation.counter.of_text(shown))
        return entry.chars if in_chars else self._taken(entry)

    def _taken(self, entry: Entry) -> int:
        """Return the number of tokens of a message or a summary by the ledger's counter."""
        if entry.item.is_summary:
            return self.conversation.counter.of_text(entry.content or "")
        texts, media = messages.read_of(entry.parts, entry.extra)
        content = [] if entry.content in texts else [entry.content or ""]
        counted = map(self.conversation.counter.of_text, [*content, entry.reasoning, entry.speaker, *texts])
        return sum(counted, MESSAGE_TOKENS + MEDIA_TOKENS * media)


def _assembled(measured: Measured, pack: Pack | None, seen: int) -> Window:
    conversation, request = measured.conversation, measured.window_request
    around = _frame(conversation, (), pack, request.unit) + _used(pack)
    note = note_size(conversation, measured.summaries, request.unit)
    over, without_summaries, fits = 0, False, 0
    while True:  # the whole size is known only after the items are chosen
        room = request.budget - around - (0 if without_summaries else note) - over
        fitted = measured.fitted(max(1, room), without_summaries=without_summaries)
        entries = [measured.entry(item, fitted.shortened.get(item.position)) for item in fitted.items]
        used, overhead = measured.size_of(entries, pack)
        fits += 1
        if fits == REFITS:
            break
        if not without_summaries and measured.summaries and fitted.summaries_evicted == len(measured.summaries):
            without_summaries = True
        elif used > request.budget and not fitted.over_budget:
            over += used - request.budget
        else:
            break
    return Window(
        session=conversation.name,
        budget=request.budget,
        entries=tuple(entries),
        used=used,
        unit=request.unit,
        over_budget=used > request.budget,
        reasons=fitted.reasons,
        evicted=_evicted(measured.window, [entry.item for entry in entries]),
        summaries_evicted=fitted.summaries_evicted,
        left_out=tuple((dropped.item.position, dropped.why) for dropped in fitted.dropped),
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
    """Return the size of the text around summaries and memories in the first message: notes, tags and the fence."""
    summary_entries = [entry for entry in entries if entry.item.is_summary]
    context = rendering.context_text([entry.as_content for entry in summary_entries], texts_of(pack))
    if not context:
        return 0
    if unit == "chars":
        return max(0, len(context) - sum(entry.chars for entry in summary_entries) - _used(pack))
    inside = sum(entry.item.tokens for entry in summary_entries) + _used(pack)
    return max(0, conversation.counter.of_text(context) + MESSAGE_TOKENS - inside)


def note_size(conversation: Conversation, items: Sequence[WindowItem], unit: str) -> int:
    """Return the size of the note that explains these summaries, with the message around it."""
    if not items:
        return 0
    note = rendering.summary_block([Content(item=item) for item in items])
    elements = [rendering.summary_element(Content(item=item)) for item in items]
    if unit == "chars":
        return len(note) - sum(map(len, elements)) + CHARS
    count = conversation.counter.of_text
    return max(0, count(note) - sum(map(count, elements))) + MESSAGE_TOKENS


# --- receipts --------------------------------------------------------------------------------------------------


def _recorded(conversation: Conversation, window: Window, tail: int) -> Window:
    if not isinstance(conversation.engine, Engine):
        raise ReadOnlyError(
            "a receipt is written to the log, and a session of the past is read-only; call window() on the ledger itself",
            rule="readonly",
        )
    with conversation.reading() as (connection, state):
        positions = [entry.item.position for entry in window.entries if not entry.item.is_summary]
        ranges = (
            joined(connection, state.row, [(position, position) for position in positions]) if state is not None else ()
        )
    settings: dict[str, int | str | tuple[str, ...] | None] = {
        "tail": tail,
        "over_budget": int(window.over_budget),
        "overhead": window.overhead,
        "evicted_items": window.evicted.items,
        "evicted_messages": window.evicted.messages,
        "evicted_tokens": window.evicted.tokens,
        "summaries_evicted": window.summaries_evicted,
        "reasons": window.reasons,
        "unit": window.unit,
    }
    cut = [entry for entry in window.entries if entry.shortened is not None]
    if cut:
        settings["shortening"] = shortening.RULE
    event = WindowAssembled(
        seen=window.seen or 0,
        budget=window.budget,
        tokens=window.used,
        messages=ranges[:LISTED],
        summaries=tuple(entry.item.id for entry in window.entries if entry.item.is_summary),
        left_out=tuple(LeftOut(position, why) for position, why in window.left_out),
        recall=window.pack.receipt if window.pack is not None else None,
        settings=settings,
        shortened=tuple(Shortened(entry.item.position, entry.shortened or 0, entry.item.tokens) for entry in cut),
    )

    def body(work: Work) -> str:
        stream, first = opened(conversation, work)
        work.emit(stream, event, first=first)
        for start in range(LISTED, len(ranges), LISTED):
            more = WindowAssembled(window.seen or 0, 0, 0, ranges[start : start + LISTED])
            work.emit(stream, more, first=first)
        return stream

    outcome = conversation.writer.run("session.window", conversation.who, body)
    recorded = next(event for event in outcome.events if isinstance(event.data, WindowAssembled))
    return replace(window, receipt=str(recorded.envelope.event_id))


def _entries_of(conversation: Conversation, data: WindowAssembled, ranges: Ranges) -> tuple[Entry, ...]:
    """Return the delivered entries with their texts at the moment of this conversation."""
    left_out = {item.position for item in data.left_out}
    with conversation.reading() as (connection, state):
        if state is None:
            return ()
        rows = sessions.within(connection, state.row, ranges)
        items = [of_message(row) for row in rows if row.row not in left_out]
        summary_rows = (summaries.find(connection, state.row, id) for id in data.summaries)
        items += [of_summary(row) for row in summary_rows if row is not None]
        items.sort(key=lambda item: (item.place, item.position))
        entries = [_entry(conversation, connection, item) for item in assembly.paired(items)[0]]
        cut = {shortened.position: shortened for shortened in data.shortened}
        return tuple(_cut_again(entry, cut.get(entry.item.position)) for entry in entries)


def _cut_again(entry: Entry, cut: Shortened | None) -> Entry:
    return entry if cut is None else entry.shortened_to(cut.chars, cut.tokens)


def reopen(conversation: Conversation, receipt: str) -> Window | None:
    """Return the window that ``assemble(…, receipt=True)`` of this session delivered; None without such a receipt.

    Texts that were erased since are None.
    """
    with conversation.reading() as (connection, state):
        entry = audit.by_event(connection, receipt) if isinstance(receipt, str) and state is not None else None
        if entry is None or state is None or entry.subject != state.id or entry.type != WindowAssembled.__name__:
            return None
        data: WindowAssembled = read_known(connection, entry.position, state.row).data
        ranges = [*data.messages]
        for further in audit.command_at(connection, entry.position):
            if further.type == entry.type and further.position != entry.position:
                ranges += read_known(connection, further.position, state.row).data.messages
    engine = conversation.present
    past = Conversation(at(engine, data.seen), conversation.who, state.id)
    settings, reasons = data.settings, data.settings.get("reasons")
    return Window(
        session=conversation.name,
        budget=data.budget,
        entries=_entries_of(past, data, tuple(ranges)),
        used=data.tokens,
        unit=str(settings.get("unit", "tokens")),
        over_budget=bool(settings.get("over_budget")),
        reasons=reasons if isinstance(reasons, tuple) else (),
        evicted=Evicted(*(_number(settings, f"evicted_{name}") for name in ("items", "messages", "tokens"))),
        summaries_evicted=_number(settings, "summaries_evicted"),
        left_out=tuple((item.position, item.why) for item in data.left_out),
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
    """Return the size of the part of the window that was not chosen."""
    messages = window.messages - sum(item.messages for item in chosen)
    return Evicted(window.count - len(chosen), messages, window.tokens - sum(item.tokens for item in chosen))


def _used(pack: Pack | None) -> int:
    return pack.used if pack is not None else 0


def _number(settings: Mapping[str, object], name: str) -> int:
    value = settings.get(name)
    return value if isinstance(value, int) else 0


def _whole(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST:
        large = isinstance(value, int) and value > MOST
        bound, shown = (f" and up to {MOST:,}", "a larger one") if large else ("", f"{value!r:.40}")
        raise RejectedError(f"{name} is a whole number above 0{bound}, and {shown} is not", rule="budget")
    return value
