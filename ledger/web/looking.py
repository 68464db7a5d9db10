"""The pages beside the beliefs: the prompt of an agent, the review queue, the texts in quarantine, and the sessions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import cast

from ledger import Candidate, LedgerError, Memory, Message, NotFoundError, PastLedger
from ledger.answers import Quarantined, SessionInfo, WindowItem
from ledger.domain.scan import threats
from ledger.recall.packs import line as prompt_line
from ledger.web.asking import ROWS, Listing, WebQuestion, WebView, fields_of, paged
from ledger.web.beliefs import memory_line
from ledger.web.rendering import markdown, when

BUDGET, MOST_BUDGET = 400, 100_000  # tokens
REVIEWED = 20  # rows of a page of the queue, since each asks for its nearest beliefs
NEAREST = 3
COUNTED_CANDIDATES = 200  # counted in the heading, since a candidate is dearer to list than a belief
SECTIONS = {
    "pinned": "trusted state of the project",
    "profile": "about the user",
    "answer": "answers the question",
    "turn": "a turn about the question",
    "latest": "among the latest",
    "": "observation",
}
WHY_NOT = {
    "tail_trimmed": "the newest messages alone are over the budget",
    "budget": "it does not fit",
}  # into a window
CUTS = {
    "share of profile": "more about the user than its share of the budget",
    "share of latest": "more of the latest than their share of the budget",
    "share of pinned": "more trusted state than its share of the budget",
    "budget": "did not fit into the budget",
    "rank": "ranked after the last that was taken",
    "match": "matches the question too little",
    "repeated": "says what another line says",
}


def agent(asked: WebQuestion) -> WebView:
    """Show the prompt that an agent would get for a question, or at the start of a session."""
    pack = asked.ledger.context(
        asked.word("q"),
        budget=asked.number("budget", BUDGET, MOST_BUDGET),
        project=asked.word("project") or None,
        session=asked.word("session") or None,
        explain=True,
    )
    shown = [_pack_row(item, SECTIONS.get(item.section, item.section)) for item in (*pack.items, *pack.observations)]
    cut = [_pack_row(item, CUTS.get(item.cut, item.cut)) for item in pack.cut[:ROWS]]
    data = {
        "pack": pack,
        "text": pack.as_text(),
        "shown": shown,
        "cut": cut,
        "plain": pack.with_text(),
        "budget": BUDGET,
    }
    question = f"for “{asked.word('q')}”" if asked.word("q") else "at the start of a session, without a question"
    scope = f"{pack.used} of {pack.budget} {pack.unit}, {pack.searched:,} texts searched, {question}"
    return WebView("agent.html", "What the agent would see", scope, data, markdown=pack.as_text() + "\n")


def _pack_row(item: object, reason: str) -> dict[str, object]:
    fields = fields_of(item)
    signals = cast("dict[str, float]", fields["signals"])
    told = ", ".join(f"{name} {value:.3g}" for name, value in sorted(signals.items()))
    return {**fields, "line": prompt_line(item), "reason": reason, "told": told}  # type: ignore[arg-type]


# --- review ----------------------------------------------------------------------------------------------------------


def review(asked: WebQuestion) -> WebView:
    """Show what waits for a decision, or what was admitted without a person, each beside the words that it is from."""
    admitted = asked.word("list") == "admitted"

    def listed(limit: int, after: str | None = None) -> object:
        return asked.ledger.review(admitted=admitted, project=asked.word("project") or None, limit=limit, after=after)

    after = asked.word("after") or None
    first = listed(REVIEWED, after)
    listing = paged(first, listed, _candidate_line, is_first=after is None, noun="belief", counted=COUNTED_CANDIDATES)  # type: ignore[arg-type]
    data = {
        "admitted": admitted,
        "beside": {each.id: _beside(asked, each) for each in cast("Iterable[Candidate]", listing.rows)},
    }
    scope = "admitted without a person, newest first" if admitted else "waiting for a decision, oldest first"
    return WebView("review.html", "Review", scope, data, cast("Listing[object]", listing))


def _candidate_line(candidate: Candidate) -> str:
    quote = candidate.provenance.quote if candidate.provenance is not None else None
    return memory_line(candidate.memory) + (f", from “{markdown(quote)}”" if quote else "")


def _beside(asked: WebQuestion, candidate: Candidate) -> dict[str, object]:
    """Return what stands beside a candidate: what it would replace, the turns that deny it, and its nearest beliefs."""
    ledger, memory = asked.ledger, candidate.memory
    replaced = [_memory(asked, id) for id in (memory.supersedes, candidate.same_as_active) if id]
    deny = []
    for id in candidate.contradicted_by[:3]:
        try:
            deny.append({"id": id, "content": ledger.interactions.get(id).prompt})
        except NotFoundError:
            continue
    near = (
        ledger.recall(memory.content or "", among=("memories",), limit=NEAREST + 1, observations=0)
        if memory.content
        else ()
    )
    items = [item.memory for item in getattr(near, "items", ()) if item.memory is not None and item.id != memory.id]
    return {"replaced": [each for each in replaced if each], "deny": deny, "nearest": items[:NEAREST]}


def _memory(asked: WebQuestion, id: str) -> Memory | None:
    try:
        return asked.ledger.memories.get(id)
    except NotFoundError:
        return None


# --- quarantine ------------------------------------------------------------------------------------------------------


def held(asked: WebQuestion) -> WebView:
    """Show the texts in quarantine, with the lines in which a scanner finds something marked."""

    def listed(limit: int, after: str | None = None) -> object:
        return asked.ledger.guards.quarantined(limit=limit, after=after)

    after = asked.word("after") or None
    listing = paged(listed(ROWS, after), listed, _held_line, is_first=after is None, noun="text")  # type: ignore[arg-type]
    texts = {each.position: _held_text(asked, each) for each in cast("Iterable[Quarantined]", listing.rows)}
    places = ", ".join("?" * len(texts))
    origins = asked.ledger.query(
        f"SELECT position, actor, channel, client, session FROM audit_trail WHERE position IN ({places})", *texts
    )
    data: dict[str, object] = {
        "texts": {position: marked_lines(text) for position, text in texts.items()},
        "origins": {row["position"]: row for row in origins},
    }
    return WebView("held.html", "Held", "in quarantine, newest first", data, cast("Listing[object]", listing))


def _held_line(item: Quarantined) -> str:
    return f"- {item.kind} `{item.id}` at {item.position}: {markdown(item.finding or 'held by a person')}"


def _held_text(asked: WebQuestion, item: Quarantined) -> str | None:
    """Return the text of a subject in quarantine; None if it was erased."""
    ledger = asked.ledger
    try:
        if item.kind == "memory":
            return ledger.memories.get(item.id).content
        if item.kind in ("interaction", "response"):
            turn = ledger.interactions.get(item.id)
            return turn.response if item.kind == "response" else turn.prompt
        if item.kind == "message":
            return ledger.session(item.id).message(item.position).content
        if item.kind == "chunk":
            return ledger.documents.get_chunk(item.id).content
        if item.kind == "observation":
            return ledger.observations.get(item.id).content
    except LedgerError:
        return None
    rows = ledger.query("SELECT content FROM audit_trail WHERE position = ?", item.position)
    return str(rows[0]["content"]) if rows and rows[0]["content"] else None


def marked_lines(text: str | None) -> list[tuple[bool, str]]:
    """Return the sentences of a text, each with True if the product's scanner of threats finds something in it."""
    parts = re.findall(r"[^.!?\n]*[.!?\n]*\s*", (text or "(erased)")[:2_000])
    return [(bool(threats.scan(part)), part) for part in parts if part]


# --- sessions --------------------------------------------------------------------------------------------------------


def sessions(asked: WebQuestion) -> WebView:
    """List the sessions, newest first."""

    def listed(limit: int, after: str | None = None) -> object:
        return asked.ledger.sessions.list(project=asked.word("project") or None, limit=limit, after=after)

    after = asked.word("after") or None
    listing = paged(listed(ROWS, after), listed, _session_line, is_first=after is None, noun="session")  # type: ignore[arg-type]
    return WebView("sessions.html", "Sessions", "newest first", {}, cast("Listing[object]", listing))


def _session_line(session: SessionInfo) -> str:
    return f"- {markdown(session.name)} ({session.messages} messages, {session.turns} turns) `{session.id}`"


def session(asked: WebQuestion) -> WebView:
    """Show the messages of a session beside what its window holds, leaves out and stands for."""
    name = asked.word("name") or asked.subject
    chat = asked.ledger.session(name)
    info = asked.ledger.sessions.get(name)
    budget = asked.number("budget", 4_000, MOST_BUDGET)
    after = asked.word("after") or None
    messages = chat.messages(limit=ROWS, after=after, include_hidden=True) if info.messages or info.hidden else ()
    window = chat.window(budget) if info.messages else None
    shown, summaries, left = _of_window(window)
    items = [item for item in chat.items() if item.is_summary] if info.summaries else []
    rows = [{**fields_of(each), "place": _place(each, shown, items, left)} for each in messages]
    turns = asked.ledger.interactions.list(session=name, limit=ROWS, text=False) if not rows else ()
    data: dict[str, object] = {
        "info": info,
        "window": window,
        "summaries": _told_summaries(items, summaries),
        "budget": budget,
        "turns": turns,
    }
    listing = Listing(
        rows, f"{info.messages:,} messages", getattr(messages, "next", None), lambda: _every(chat), _message_line
    )
    scope = f"{info.name or info.id}, {info.hidden:,} hidden, {info.turns:,} turns"
    return WebView("session.html", "Session", scope, data, cast("Listing[object]", listing))


def _every(chat: object) -> Iterable[dict[str, object]]:
    for message in chat.messages(limit=1_000, include_hidden=True, oldest_first=True).all():  # type: ignore[attr-defined]
        yield {**fields_of(message), "place": message.hidden}


def _of_window(window: object) -> tuple[set[int], list[object], dict[int, str]]:
    """Return the positions of the messages that a window shows, its summaries, and what it leaves out with the reasons."""
    if window is None:
        return set(), [], {}
    entries = window.entries  # type: ignore[attr-defined]
    shown = {entry.item.position for entry in entries if not entry.item.is_summary}
    return shown, [entry for entry in entries if entry.item.is_summary], dict(window.left_out)  # type: ignore[attr-defined]


def _place(message: Message, shown: set[int], summaries: Sequence[WindowItem], left: dict[int, str]) -> str:
    """Return where a message stands: in the window, in a summary, hidden, or left out."""
    if message.hidden:
        return f"hidden ({message.hidden})"
    if message.position in shown:
        return "in the window"
    for number, item in enumerate(summaries, 1):
        if any(first <= message.position <= last for first, last in item.ranges):
            return f"summary {number} stands for it"
    return f"left out: {_why_not(left[message.position])}" if message.position in left else "left out: it does not fit"


def _why_not(code: str) -> str:
    return WHY_NOT.get(code, code.replace("_", " "))


def _told_summaries(items: Sequence[WindowItem], entries: Sequence[object]) -> list[dict[str, object]]:
    """Return each summary of a session with its text, which is None if the summary does not fit into the window."""
    texts = {entry.item.id: entry.content for entry in entries}  # type: ignore[attr-defined]
    return [{"item": item, "content": texts.get(item.id), "fits": item.id in texts} for item in items]


def _message_line(row: object) -> str:
    fields = cast("dict[str, object]", row)
    place = f" ({fields['place']})" if fields["place"] else ""
    return f"- {when(str(fields['occurred_at']))} {markdown(fields['role'])}{place}: {markdown(fields['content'])}"


def is_now(asked: WebQuestion) -> bool:
    """Return True if the page shows the ledger now."""
    return not isinstance(asked.ledger, PastLedger)
