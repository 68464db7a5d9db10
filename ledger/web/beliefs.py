"""The front page, a list of what is believed, and the page of one belief with everything behind it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import cast, get_args

import msgspec

from ledger import Ledger, Memory, NotFoundError, Page, Why
from ledger.history.pictures import confidence_svg, content_of, graph_mermaid, graph_svg, why_svg
from ledger.types import Channel, MemoryStatus
from ledger.web.asking import ROWS, Listing, WebQuestion, WebView, paged, several
from ledger.web.rendering import markdown, when

STATUSES, CHANNELS = get_args(MemoryStatus), get_args(Channel)
AGES = {"1": "a day", "7": "a week", "30": "a month", "365": "a year"}  # days, in words
SEARCHED = 1_000  # the newest recorded prompts in which uses are counted
READ = 1_000  # the most captures that are read for a page of one actor, channel or session
FILTERS = ("q", "kind", "project", "session", "actor", "channel", "status", "days")


def beliefs(asked: WebQuestion) -> WebView:
    """List what is believed, by the filters of the address."""
    listing = _found(asked) if asked.word("q") else _listed(asked)
    origins = _origins(asked, [memory.id for memory in listing.rows])
    data = {
        "origins": origins,
        "kinds": sorted({*_kinds(asked.desk.ledger), *(memory.kind for memory in listing.rows)}),
        "projects": [project.name for project in asked.ledger.projects.list(limit=ROWS) if project.name],
        "filtered": any(asked.word(name) for name in FILTERS),
    }
    scope = _status(asked) + (f", about “{asked.word('q')}”, best first" if asked.word("q") else ", newest first")
    return WebView("beliefs.html", "Beliefs", scope, data, cast("Listing[object]", listing))


def _kinds(ledger: Ledger) -> list[str]:
    """Return the kinds of the newest beliefs of now, which are quickly read, as suggestions for a filter."""
    newest = f"SELECT kind FROM beliefs ORDER BY first_position DESC LIMIT {READ}"
    return [str(row["kind"]) for row in ledger.query(f"SELECT DISTINCT kind FROM ({newest}) WHERE kind <> ''")]


def _status(asked: WebQuestion) -> str:
    return asked.word("status", "active")


def _listed(asked: WebQuestion) -> Listing[Memory]:
    if any(asked.word(name) for name in ("session", "actor", "channel")):
        return _captured(asked)

    def listed(limit: int, after: str | None = None) -> Page[Memory]:
        return asked.ledger.memories.list(
            kinds=asked.words("kind"),
            statuses=_statuses(asked),
            project=asked.word("project") or None,
            since=_since(asked),
            order="occurred" if asked.word("days") else "recorded",  # by which a time is looked up in an index
            limit=limit,
            after=after,
        )

    after = asked.word("after") or None
    return paged(listed(ROWS, after), listed, memory_line, is_first=after is None, noun="belief")


def _statuses(asked: WebQuestion) -> tuple[MemoryStatus, ...]:
    status = _status(asked)
    return () if status == "all" else (cast("MemoryStatus", status),)


def _since(asked: WebQuestion) -> str | None:
    return asked.older_than(asked.number("days", 1, 100_000)) if asked.word("days") else None


def _found(asked: WebQuestion) -> Listing[Memory]:
    """Search by words, the best first; the other filters choose among the matches."""
    pack = asked.ledger.recall(
        asked.word("q"),
        kinds=asked.words("kind"),
        statuses=_statuses(asked),
        project=asked.word("project") or None,
        among=("memories",),
        limit=ROWS,
        observations=0,
    )
    matches = [item.memory for item in pack.items if item.memory is not None and _is_kept(asked, item.memory)]
    matches = _of_origin(asked, matches)
    more = " (the best 100)" if len(pack.items) == ROWS else ""
    return Listing(matches, several(len(matches), "belief") + more, None, lambda: iter(matches), memory_line)


def _captured(asked: WebQuestion) -> Listing[Memory]:
    """List the beliefs that an actor, a channel or a session brought in, from the audit trail."""

    def captures(limit: int, after: str | None = None) -> Page[object]:
        return cast(
            "Page[object]",
            asked.ledger.history.audit(
                type="MemoryCaptured",
                actor=asked.word("actor") or None,
                channel=cast("Channel | None", asked.word("channel") or None),
                session=asked.word("session") or None,
                limit=limit,
                after=after,
            ),
        )

    def memories(entries: Iterable[object]) -> Iterator[Memory]:
        statuses, kinds, since = _statuses(asked), asked.words("kind"), _since(asked)
        for entry in entries:
            try:
                memory = asked.ledger.memories.get(entry.subject)  # type: ignore[attr-defined]
            except NotFoundError:  # its capture was undone
                continue
            is_of_project = asked.word("project") in ("", memory.project)
            is_of_kind = (not statuses or memory.status in statuses) and (not kinds or memory.kind in kinds)
            if is_of_project and is_of_kind and (since is None or memory.valid_from >= since):
                yield memory

    page = captures(ROWS, asked.word("after") or None)
    shown = list(memories(page))
    count = f"{several(len(shown), 'belief')} of {len(page):,} that came so on this page"
    return Listing(shown, count, page.next, lambda: memories(captures(READ).all()), memory_line)


def _is_kept(asked: WebQuestion, memory: Memory) -> bool:
    since = _since(asked)
    return since is None or memory.valid_from >= since


def _of_origin(asked: WebQuestion, memories: Sequence[Memory]) -> list[Memory]:
    wanted = {name: asked.word(name) for name in ("session", "actor", "channel") if asked.word(name)}
    if not wanted:
        return list(memories)
    origins = _origins(asked, [memory.id for memory in memories])
    return [each for each in memories if wanted.items() <= origins.get(each.id, {}).items()]


def _origins(asked: WebQuestion, ids: Iterable[str]) -> dict[str, dict[str, object]]:
    """Return who brought each belief in: actor, channel, client and session of its capture."""
    captures = {id: asked.ledger.history.audit(subject=id, type="MemoryCaptured", limit=1) for id in ids}
    return {
        id: {name: getattr(found[0], name) for name in ("actor", "channel", "client", "session")}
        for id, found in captures.items()
        if found and found[0].in_effect
    }


def memory_line(memory: Memory) -> str:
    """Return a belief as a line of Markdown."""
    project = f", {markdown(memory.project)}" if memory.project else ""
    return (
        f"- {markdown(memory.content)} ({markdown(memory.kind)}{project}, {memory.status}, confidence {memory.confidence:g},"
        f" since {memory.valid_from[:10]}) `{memory.id}`"
    )


# --- one belief ------------------------------------------------------------------------------------------------------


def belief(asked: WebQuestion) -> WebView:
    """Show one belief: why it is believed, how that changed, where it is from, and where it was used."""
    ledger = asked.ledger
    why = ledger.why(asked.subject)
    points = () if why.memory is None else ledger.memories.confidence(why.id)
    data: dict[str, object] = {
        "why": why,
        "now": why.memory or why.observation or why.value,
        "content": content_of(why),
        "points": points[-ROWS:],
        "sum": why_svg(why),
        "curve": confidence_svg(points),
        "graph": graph_svg(why),
        "mermaid": graph_mermaid(why),
        "conflicts": [ledger.conflicts.get(id) for id in why.conflicts[:20]],
        "wordings": wordings(why),
        "uses": uses(asked, why.id),
        "origin": _origins(asked, [why.id]).get(why.id, {}),
        "first": why.steps[0].position if why.steps else 1,
        "last": asked.desk.ledger.position,
        "seen": ledger.position,
        "undoable": next((step.position for step in reversed(why.steps[1:]) if step.in_effect), None),
    }
    data["plain"] = why
    return WebView("belief.html", "Belief", why.id, data, markdown=belief_markdown(why, asked))


def wordings(why: Why) -> list[dict[str, object]]:
    """Return the wordings of a belief, oldest first, each with the wording before it, its author and its time."""
    steps = [
        (step.position, step.recorded_at, step.actor, step.because, step.data.get("content"))
        for step in why.steps
        if step.in_effect and isinstance(step.data, dict) and "content" in step.data
    ]
    given = [(each.position, each.recorded_at, each.actor, each.reason, each.content) for each in why.wordings]
    told, before = list[dict[str, object]](), why.supersedes[-1].content if why.supersedes else None
    for position, at, actor, reason, content in given or steps:
        told.append(
            {"position": position, "at": at, "actor": actor, "reason": reason, "content": content, "before": before}
        )
        before = content
    return told[-ROWS:]


def uses(asked: WebQuestion, id: str) -> dict[str, object]:
    """Count the recorded prompts that held a belief: the packs and windows with a receipt, and the newest 1,000 turns."""
    query = asked.ledger.query
    (turns,) = query(
        "SELECT count(*) AS n, sum(held) AS held, max(CASE WHEN held THEN at END) AS last,"
        " json_group_array(DISTINCT session) FILTER (WHERE held AND session IS NOT NULL) AS sessions"
        " FROM (SELECT instr(coalesce(memories_used, ''), ?) > 0 AS held, occurred_at AS at, session"
        f" FROM interactions_text ORDER BY first_position DESC LIMIT {SEARCHED})",
        f'"{id}"',
    )
    (packs,) = query(
        "SELECT count(*) AS n, min(position) AS first"
        f" FROM (SELECT DISTINCT position FROM deliveries ORDER BY position DESC LIMIT {SEARCHED})"
    )
    (shown,) = query(
        "SELECT count(DISTINCT position) AS held, max(recorded_at) AS last,"
        " json_group_array(DISTINCT session) FILTER (WHERE session IS NOT NULL) AS sessions"
        " FROM deliveries WHERE subject = ? AND position >= ?",
        id,
        packs["first"] or 0,
    )
    lasts = [str(each["last"]) for each in (turns, shown) if each["last"]]
    return {
        "held": int(turns["held"] or 0) + int(shown["held"] or 0),
        "prompts": int(turns["n"] or 0) + int(packs["n"] or 0),
        "last": max(lasts, default=""),
        "sessions": sorted({str(name) for each in (turns, shown) for name in _names(each["sessions"])})[:20],
        "bounded": SEARCHED in (turns["n"], packs["n"]),
    }


def _names(text: object) -> list[object]:
    return msgspec.json.decode(str(text)) if text else []


def belief_markdown(why: Why, asked: WebQuestion) -> str:
    """Return a belief as Markdown for a ticket: its text, its status, the steps of its confidence and its sources."""
    now = why.memory or why.observation or why.value
    status = getattr(now, "status", "")
    lines = [f"# Belief `{why.id}`", "", markdown(content_of(why), 1_000_000), ""]
    lines += [
        f"- status: {status}",
        f"- confidence: {why.confidence:g}",
        f"- as of position {asked.ledger.position} (UTC)",
    ]
    if why.admission:
        lines.append(f"- admission: {markdown(why.admission)}")
    lines += ["", "| position | time | command | by | change | confidence | reason |", "|---|---|---|---|---|---|---|"]
    for step in why.steps:
        cells = (step.position, when(step.recorded_at), step.command, markdown(step.actor or ""), f"{step.delta:+g}")
        void = "" if step.in_effect else " (void)"
        told = " | ".join(map(str, (*cells, f"{step.confidence:g}{void}", markdown(step.because))))
        lines.append(f"| {told} |")
    if why.provenance is not None and why.provenance.quote is not None:
        lines += ["", f"Found in: “{markdown(why.provenance.quote)}”"]
    lines += [f"- cited: {markdown(source.prompt)} `{source.id}`" for source in why.sources]
    lines += [f"- evidence: {markdown(source.content)} `{source.id}`" for source in why.evidence]
    return "\n".join(lines) + "\n"
