"""The timeline, which tells every command in a sentence, and the page about trust."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import groupby
from typing import cast, get_args

from ledger import AuditEntry, Ledger, NotFoundError, RejectedError
from ledger.types import Channel, OriginKind
from ledger.web.asking import ROWS, Listing, WebQuestion, WebView
from ledger.web.rendering import markdown, visible, when

EVENTS = 150  # of a page of the timeline
FACETED = 2_000  # the newest events whose commands, actors and channels are counted
QUOTED = 120  # characters of a text in a sentence
QUIET = {  # commands that a person seldom reads: their words in the count of what is folded
    "interactions.reinforce": "reinforcements",
    "reinforce": "reinforcements",
    "extract": "extractions",
    "recall": "recalls",
    "context": "prompts",
    "session.window": "windows",
    "session.append": "messages",
    "session.extend": "messages",
    "documents.add": "documents",
}
KEPT = ("open", "undo", "redo", "history.undo_all", "erase", "proof.checkpoint")  # commands that nobody undoes
KINDS = get_args(OriginKind)
PAST = {
    "remember": "remembered",
    "propose": "proposed",
    "promote": "promoted",
    "reject": "rejected",
    "revise": "revised",
    "supersede": "replaced",
    "invalidate": "invalidated",
    "retract": "retracted",
    "restore": "restored",
    "reinforce": "reinforced",
    "capture": "captured",
    "undo": "undid a command",
    "redo": "redid a command",
    "erase": "erased",
    "memories.end": "ended",
    "memories.correct": "corrected",
    "memories.set_confidence": "set the confidence of",
    "guards.release": "released",
    "guards.quarantine": "held",
    "history.distrust": "distrusted",
    "history.trust": "trusted again",
    "history.undo_all": "undid commands",
    "extract": "extracted",
    "observations.add": "noted",
    "session.compact": "compacted a session",
    "holds.add": "put a hold on",
    "proof.checkpoint": "sealed a checkpoint",
    "policy.set": "set the policy",
    "open": "opened the ledger",
}


@dataclass
class ToldCommand:
    """A command as a sentence: who, which verb, about what, from which text to which; with its events and their number."""

    position: int
    command_id: str
    command: str
    recorded_at: str
    actor: str | None
    channel: str
    about: list[dict[str, object]] = field(default_factory=list)
    events: int = 0
    subjects: int = 0
    in_effect: bool = True
    reason: str = ""
    origin: str = ""  # that the command distrusts

    @property
    def can_be_undone(self) -> bool:
        """Return True if a button may offer the undo of the command."""
        return self.in_effect and self.command not in KEPT

    @property
    def verb(self) -> str:
        """Return the command in the past tense, or its name."""
        return PAST.get(self.command, f"called {self.command}")

    @property
    def sentence(self) -> str:
        """Return the command in one line of text."""
        words = [self.actor or "somebody", self.verb, *[visible(self.origin)] * bool(self.origin)]
        words += [_quoted(each) for each in self.about]
        more = f" and {self.subjects - len(self.about)} more" if self.subjects > len(self.about) else ""
        void = "" if self.in_effect else " (void)"
        return " ".join(words) + more + (f": {visible(self.reason[:QUOTED])}" if self.reason else "") + void


def _quoted(about: dict[str, object]) -> str:
    texts = [f"“{visible(str(about[name]))}”" for name in ("before", "after") if about[name]]
    return " → ".join(texts) or visible(about["id"])


def timeline(asked: WebQuestion) -> WebView:
    """Tell the commands, newest first; what a person seldom reads is folded."""
    after = asked.word("after")
    since = after if after.isdecimal() else ""
    page = asked.ledger.history.audit(
        subject=asked.word("subject") or None,
        actor=asked.word("actor") or None,
        channel=cast("Channel | None", asked.word("channel") or None),
        command=asked.word("command") or None,
        project=asked.word("project") or None,
        session=asked.word("session") or None,
        text=asked.word("q") or None,
        since=int(since) + 1 if since else None,
        limit=EVENTS,
        after=None if since else after or None,
    )
    told = commands(asked, page)
    redacted = sum(each["after"] == "(erased)" for command in told for each in command.about)
    data = {"groups": list(folded(told)), "facets": facets(asked), "last": asked.ledger.position}
    count = f"{len(told):,} commands" + (" on this page" if page.next else "")
    filters = [
        f"{name} {asked.word(name)}"
        for name in ("actor", "channel", "command", "project", "session")
        if asked.word(name)
    ]
    scope = ", ".join([*filters, *[f"{redacted} redacted"] * bool(redacted), "newest first"])
    listing = Listing(told, count, page.next, lambda: _every(asked, page.all()), _told_line, _plain)
    return WebView("timeline.html", "Timeline", scope, data, cast("Listing[object]", listing))


def _plain(command: ToldCommand) -> object:
    return {
        "position": command.position,
        "command_id": command.command_id,
        "recorded_at": command.recorded_at,
        "actor": command.actor,
        "channel": command.channel,
        "command": command.command,
        "about": command.about,
        "reason": command.reason,
        "events": command.events,
        "in_effect": command.in_effect,
        "sentence": command.sentence,
    }


def _told_line(command: ToldCommand) -> str:
    return f"- {when(command.recorded_at)} {markdown(command.sentence)} (position {command.position})"


def _every(asked: WebQuestion, entries: Iterator[AuditEntry]) -> Iterator[ToldCommand]:
    """Yield every command that the filters select, from pages of events."""
    waiting = list[AuditEntry]()
    for entry in entries:
        if len(waiting) >= EVENTS and entry.command_id != waiting[-1].command_id:
            yield from commands(asked, waiting)
            waiting = []
        waiting.append(entry)
    yield from commands(asked, waiting)


def commands(asked: WebQuestion, entries: Sequence[AuditEntry]) -> list[ToldCommand]:
    """Return the commands of events, each told once, with the words that it found and left."""
    texts = _texts(asked, entries)
    told = list[ToldCommand]()
    for command_id, group in groupby(entries, key=lambda entry: entry.command_id):
        events = list(group)[::-1]
        first = events[0]
        subjects = list(dict.fromkeys(entry.subject for entry in events if entry.subject != "ledger"))
        command = ToldCommand(first.position, command_id, first.command, first.recorded_at, first.actor, first.channel)
        command.events, command.subjects = len(events), len(subjects)
        command.in_effect = any(entry.in_effect for entry in events)
        command.reason = next((entry.reason for entry in events if entry.reason), "")
        command.origin = next((_origin(entry) for entry in events if entry.command == "history.distrust"), "")
        memories = [entry for entry in events if entry.subject[:2] in ("m_", "o_")] or [
            entry for entry in events if entry.subject[:2] == "i_"
        ]
        for entry in list({entry.subject: entry for entry in memories}.values())[:3]:
            before, after = texts.get((entry.subject, entry.position), ""), entry.content
            after = after or ("" if before else texts.get((entry.subject, 0), ""))
            before = "" if before == after else before
            about = {"id": entry.subject, "before": _cut(before), "after": _cut(after)}
            command.about.append(cast("dict[str, object]", about))
        told.append(command)
    return told


def _origin(entry: AuditEntry) -> str:
    data = cast("Mapping[str, object]", entry.data)
    return f"{data.get('kind', 'origin')} {data.get('origin') or '(erased)'}"


def _cut(text: str) -> str:
    return text if len(text) <= QUOTED else text[: QUOTED - 1].rstrip() + "…"


def _texts(asked: WebQuestion, entries: Sequence[AuditEntry]) -> dict[tuple[str, int], str]:
    """Return the text of each belief as it is, under position 0, and the text that a revision at a position replaced."""
    texts = dict[tuple[str, int], str]()
    for id in dict.fromkeys(entry.subject for entry in entries if entry.subject.startswith("m_")):
        with suppress(NotFoundError):  # its capture was undone
            texts[id, 0] = _beginning(asked.ledger.memories.get(id).content)
    revised = {(entry.subject, entry.position) for entry in entries if entry.type == "MemoryRevised"}
    if revised:
        firsts = [asked.ledger.history.events(id, limit=1)[0].position for id in dict(revised)]
        rows = asked.ledger.query(
            f"SELECT id, to_position, substr(content, 1, {QUOTED + 1}) AS content FROM memory_history"
            f" WHERE first_position IN ({', '.join('?' * len(firsts))}) AND to_position IS NOT NULL",
            *firsts,
        )
        replaced = {(str(row["id"]), int(cast("int", row["to_position"]))): row["content"] for row in rows}
        texts |= {place: _beginning(replaced[place]) for place in revised & replaced.keys()}
    return texts


def _beginning(text: object) -> str:
    return "(erased)" if text is None else str(text)[: QUOTED + 1]


def folded(told: Iterable[ToldCommand]) -> Iterator[dict[str, object]]:
    """Yield groups of commands: one that a person reads alone, and many quiet ones together with their counts."""
    for is_quiet, group in groupby(told, key=lambda command: command.command in QUIET and not _finds(command)):
        several = list(group)
        if not is_quiet:
            yield from ({"quiet": False, "commands": [command], "label": ""} for command in several)
            continue
        counts = dict[str, int]()
        for command in several:
            word = QUIET[command.command]
            counts[word] = counts.get(word, 0) + 1
        label = ", ".join(f"+{count} {word if count > 1 else word.removesuffix('s')}" for word, count in counts.items())
        yield {"quiet": True, "commands": several, "label": label}


def _finds(command: ToldCommand) -> bool:
    return command.command == "extract" and any(str(each["id"]).startswith("m_") for each in command.about)


def facets(asked: WebQuestion) -> dict[str, list[tuple[str, int]]]:
    """Count commands, actors and channels among the newest 2,000 events."""
    found = dict[str, list[tuple[str, int]]]()
    for name in ("command", "actor", "channel"):
        rows = asked.ledger.query(
            f"SELECT {name} AS name, count(DISTINCT command_id) AS n FROM (SELECT {name}, command_id FROM audit_trail"
            f" ORDER BY position DESC LIMIT {FACETED}) WHERE {name} <> '' GROUP BY 1 ORDER BY 2 DESC LIMIT 12"
        )
        found[name] = [(str(row["name"]), int(cast("int", row["n"]))) for row in rows]
    return found


# --- trust -----------------------------------------------------------------------------------------------------------


def trust(asked: WebQuestion) -> WebView:
    """Show what the ledger can vouch for: its chain, its projections, erasures, holds and distrusted origins."""
    ledger = asked.ledger
    stats = ledger.maintenance.stats()
    here = ledger if isinstance(ledger, Ledger) else asked.desk.ledger
    sealed = here.history.audit(subject="ledger", type="CheckpointSealed", limit=1)
    erasures = [each for each in here.erasures.list(limit=ROWS) if each.state != "completed"]
    holds, distrusted = here.holds.list(limit=ROWS), ledger.history.distrusted(limit=ROWS)
    data: dict[str, object] = {
        "stats": stats,
        "suspended": [each for each in stats.projections if each.suspended_at is not None],
        "sealed": sealed[0] if sealed else None,
        "erasures": erasures,
        "holds": holds,
        "distrusted": distrusted,
        "behind": here.history.behind(),
        "kinds": [(kind, kind) for kind in KINDS],
        "kind": asked.word("kind", "actor"),
        "origin": asked.word("origin"),
        "what_if": _without(asked),
        "report": here.proof.verify(projections=False) if asked.word("verify") else None,
        "cut": max(len(erasures), len(holds), len(distrusted)) >= ROWS,
    }
    scope = f"{stats.position:,} events, {stats.size_bytes / 1e6:.1f} MB, ledger {stats.ledger_id}"
    return WebView("trust.html", "Trust", scope, data, markdown=_trust_markdown(data, scope))


def _without(asked: WebQuestion) -> object:
    """Return what would be believed without an origin, if the address names one."""
    origin, kind = asked.word("origin"), asked.word("kind", "actor")
    if not origin:
        return None
    if kind not in KINDS:
        raise RejectedError(f"an origin is of a kind {', '.join(KINDS)}, and {kind!r:.40} is none of them")
    if not isinstance(asked.ledger, Ledger):
        raise RejectedError("what would be believed without an origin is computed for now: leave out the moment")
    return asked.ledger.history.what_if(without={kind: origin})


def _trust_markdown(data: dict[str, object], scope: str) -> str:
    lines = ["# Trust", "", markdown(scope), ""]
    for name in ("suspended", "erasures", "holds", "distrusted"):
        lines.append(f"- {name}: {len(cast('Sequence[object]', data[name]))}")
    return "\n".join(lines) + "\n"
