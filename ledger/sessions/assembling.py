"""Assembly: what of a session goes into a model's window, within a budget of tokens; recorded where that is asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from ledger.domain import assembly, rendering
from ledger.domain.assembly import FRESH_TAIL
from ledger.domain.errors import ReadOnlyError, RejectedError
from ledger.domain.events import LeftOut, Ranges, WindowAssembled
from ledger.domain.text import one_of
from ledger.domain.tokens import MESSAGE_TOKENS
from ledger.domain.window import WindowItem
from ledger.engine.log_reading import read_known
from ledger.engine.past import at
from ledger.engine.work import Work
from ledger.recall import recalling, reopening
from ledger.recall.asked import UNITS, checked
from ledger.recall.packs import Pack
from ledger.recall.recalling import OBSERVATIONS
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
RECALLED = 20
REFITS = 3


def assemble(
    conversation: Conversation,
    budget_tokens: int,
    *,
    query: str | None = None,
    share: float = SHARE,
    among: Iterable[str] = ("memories", "chunks"),
    tail: int = FRESH_TAIL,
    record: bool = False,
    unit: str = "tokens",
) -> Window:
    """The newest of the window that fits: the last ``tail`` items first, then older ones up to the first that does not
    fit; summaries in their place in time. It begins where a provider takes it, never with a tool's result without its
    call. The last user turn is kept whole even where it alone is over the budget (``over_budget`` says so).

    ``used`` counts the texts, the frames of messages and of the block of summaries and memories. Rendered it may be up to
    20 tokens more, where a provider has to be told that the beginning is missing, and 6 for each call.

    With ``query`` what is remembered about it is woven in, within ``share`` of the budget; what that does not use is the
    conversation's. ``record`` leaves an event, by whose ``receipt`` ``reopen()`` gives the same again. An ignored
    session has an empty window. ``RejectedError`` for a budget below 1.
    """
    budget = _whole("budget", budget_tokens)
    one_of("unit", unit, tuple(UNITS))
    _whole("tail", tail)
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share < 1:
        raise RejectedError(f"share is a part of the budget, from 0 and below 1, and {share!r:.40} is not")
    if record and conversation.kept_out:
        raise RejectedError(
            f"the session {conversation.name!r:.60} is {conversation.kept_out}: nothing of it is recorded",
            rule="pattern",
        )
    pack = _recalled(conversation, query, budget, share, among, record, unit)
    if conversation.kept_out == "ignored":
        return _of_nothing(conversation, budget, pack, unit, skipped="ignored")
    with conversation.reading() as (connection, state):
        seen, _ = read_tip(connection.cursor())
        if state is None:
            found = replace(_of_nothing(conversation, budget, pack, unit), seen=seen)
        else:
            found = _assembled(conversation, connection, OpenWindow(connection, state), budget, tail, pack, seen, unit)
    return _recorded(conversation, found, tail) if record else found


def _of_nothing(conversation: Conversation, budget: int, pack: Pack | None, unit: str, skipped: str = "") -> Window:
    """A window without entries: what was recalled is all there is."""
    overhead = _frame(conversation, (), pack, unit)
    total = _used(pack) + overhead
    return Window(
        session=conversation.name,
        budget=budget,
        used=total,
        unit=unit,
        over_budget=total > budget,
        overhead=overhead,
        pack=pack,
        skipped=skipped,
    )


def _recalled(
    conversation: Conversation,
    query: str | None,
    budget: int,
    share: float,
    among: Iterable[str],
    record: bool,
    unit: str,
) -> Pack | None:
    if query is None or not query.strip():
        return None
    with conversation.reading() as (_, state):
        project, session = (state.project, state.id) if state is not None else (conversation.project, None)
    asked = checked(
        query=query,
        user=conversation.user,
        project=project,
        among=among,
        k=RECALLED,
        budget=max(1, int(budget * share)),
        unit=unit,
        now=conversation.writer.now(),
        observations=OBSERVATIONS,
    )
    return recalling.answered(conversation.engine, asked, receipt=conversation.who if record else None, session=session)


def _assembled(
    conversation: Conversation,
    connection: Connection,
    window: OpenWindow,
    budget: int,
    tail: int,
    pack: Pack | None,
    seen: int,
    unit: str,
) -> Window:
    tokens = dict[int, int]()  # of each item that was measured in characters
    woven = _used(pack)
    overhead, fitted, entries = 0, None, list[Entry]()
    for _ in range(REFITS):  # what frames the summaries is known once they are chosen
        room = max(1, budget - woven - overhead)
        items = window.backwards()
        if unit == "chars":
            items = _in_chars(conversation, connection, items, tokens)
        fitted = assembly.fit(items, room, tail=tail)
        given = [replace(item, tokens=tokens.get(item.position, item.tokens)) for item in fitted.items]
        entries = [_entry(conversation, connection, item) for item in given]
        frame = _frame(conversation, entries, pack, unit)
        if frame <= overhead or fitted.tokens + woven + frame <= budget:
            overhead = frame
            break
        overhead = frame
    assert fitted is not None
    total = fitted.tokens + woven + overhead
    return Window(
        session=conversation.name,
        budget=budget,
        entries=tuple(entries),
        used=total,
        unit=unit,
        over_budget=total > budget,
        reasons=fitted.reasons,
        evicted=_evicted(window, [each.item for each in entries]),
        left_out=tuple((each.item.position, each.why) for each in fitted.dropped),
        overhead=overhead,
        pack=pack,
        seen=seen,
    )


def _in_chars(
    conversation: Conversation, connection: Connection, items: Iterable[WindowItem], tokens: dict[int, int]
) -> Iterator[WindowItem]:
    """The items with their characters where their tokens were; ``tokens`` keeps those."""
    for item in items:
        tokens[item.position] = item.tokens
        yield replace(item, tokens=_entry(conversation, connection, item).chars)


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


# --- receipts --------------------------------------------------------------------------------------------------


def _recorded(conversation: Conversation, found: Window, tail: int) -> Window:
    if conversation.engine.is_past:
        raise ReadOnlyError(
            "a receipt is written, and this is a session of the past; ask the ledger itself", rule="readonly"
        )
    with conversation.reading() as (connection, state):
        messages = [each.item.position for each in found.entries if not each.item.is_summary]
        ranges = joined(connection, state.row, [(each, each) for each in messages]) if state is not None else ()
    settings: dict[str, int | str | tuple[str, ...] | None] = {
        "tail": tail,
        "over_budget": int(found.over_budget),
        "overhead": found.overhead,
        "evicted_items": found.evicted.items,
        "evicted_messages": found.evicted.messages,
        "evicted_tokens": found.evicted.tokens,
        "reasons": found.reasons,
        "unit": found.unit,
    }
    event = WindowAssembled(
        seen=found.seen or 0,
        budget=found.budget,
        tokens=found.used,
        messages=ranges[:LISTED],
        summaries=tuple(each.item.id for each in found.entries if each.item.is_summary),
        left_out=tuple(LeftOut(*each) for each in found.left_out),
        recall=found.pack.receipt if found.pack is not None else None,
        settings=settings,
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
        return tuple(_entry(conversation, connection, item) for item in assembly.paired(found)[0])


def reopen(conversation: Conversation, receipt: str) -> Window | None:
    """The window that an ``assemble(…, record=True)`` of this session gave, as it was given; None without such a
    receipt. What was erased since has no text."""
    with conversation.reading() as (connection, state):
        entry = audit.by_event(connection, receipt) if isinstance(receipt, str) and state is not None else None
        if entry is None or state is None or entry.subject != state.id or entry.type != WindowAssembled.__name__:
            return None
        data: WindowAssembled = read_known(connection, entry.position, state.row).data
        ranges = [*data.messages]
        for other in audit.of_command(connection, entry.command_id):
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
        left_out=tuple((each.position, each.why) for each in data.left_out),
        overhead=_number(settings, "overhead"),
        pack=reopening.reopen(engine, conversation.user, data.recall) if data.recall is not None else None,
        seen=data.seen,
        receipt=receipt,
    )


def _of(item: WindowItem, texts: MessageTexts) -> Entry:
    reasoning, speaker = texts.reasoning or "", texts.event.data.speaker or ""
    return Entry(item=item, content=texts.content, reasoning=reasoning, parts=texts.parts, speaker=speaker)


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
