"""The buttons of the page: each is one verb of the library, some of them after a preview, and all of them with one undo."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast
from urllib.parse import parse_qsl, urlencode, urlsplit

from ledger import Ledger, NotFoundError, RejectedError
from ledger.types import OriginKind
from ledger.web.asking import ROWS, Desk, WebQuestion, WebView, pairs_of
from ledger.web.gate import FRONT
from ledger.web.rendering import edited

RUN = "web:"  # the beginning of a correlation id, which joins the commands of one button


@dataclass(frozen=True)
class WebForm:
    """The fields of a form, after their check: the subjects, and where the page goes on."""

    verb: str
    ids: tuple[str, ...]
    fields: Mapping[str, str]
    to: str
    run: str = field(default_factory=lambda: RUN + secrets.token_hex(8))

    @property
    def reason(self) -> str:
        return self.fields.get("reason", "").strip()

    def content(self, ledger: Ledger, id: str) -> str | None:
        """Return the wording that a person wrote; None if it is that of the belief."""
        if (text := self.fields.get("content")) is None:
            return None
        stored = ledger.memories.get(id).content or ""
        wanted = edited(stored, text)
        return None if wanted == stored else wanted

    @property
    def seen(self) -> int | None:
        """Return the position that the person saw: what was changed after it is not changed again."""
        text = self.fields.get("seen", "")
        return int(text) if text.isdecimal() and len(text) < 16 else None


@dataclass(frozen=True)
class WebVerb:
    """A button: what it is called, what it does to each subject, and whether it is previewed first."""

    label: str
    run: Callable[[Ledger, str, WebForm], object]
    previews: bool = False
    several: bool = False


def _subject(target: str) -> str | int:
    return int(target) if target.isdecimal() and len(target) < 16 else target


def _revise(ledger: Ledger, id: str, form: WebForm) -> object:
    if (content := form.content(ledger, id)) is None:
        return None  # the wording that it has
    return ledger.revise(id, content, reason=form.reason, correlation_id=form.run, expected=form.seen)


VERBS = {
    "retract": WebVerb(
        "Retract",
        lambda ledger, id, form: ledger.retract(id, reason=form.reason, correlation_id=form.run, expected=form.seen),
        previews=True,
        several=True,
    ),
    "end": WebVerb(
        "End",
        lambda ledger, id, form: ledger.memories.end(
            id, reason=form.reason, correlation_id=form.run, expected=form.seen
        ),
        previews=True,
        several=True,
    ),
    "restore": WebVerb(
        "Restore", lambda ledger, id, form: ledger.restore(id, reason=form.reason, correlation_id=form.run)
    ),
    "revise": WebVerb("Correct the wording", _revise),
    "promote": WebVerb(
        "Promote",
        lambda ledger, id, form: ledger.promote(
            id, content=form.content(ledger, id), reason=form.reason, correlation_id=form.run, expected=form.seen
        ),
    ),
    "reject": WebVerb(
        "Reject",
        lambda ledger, id, form: ledger.reject(id, reason=form.reason, correlation_id=form.run, expected=form.seen),
    ),
    "release": WebVerb(
        "Release",
        lambda ledger, id, form: ledger.guards.release(_subject(id), reason=form.reason, correlation_id=form.run),
    ),
    "undo": WebVerb(
        "Undo",
        lambda ledger, id, form: ledger.undo(
            _subject(id), cascade="cascade" in form.fields, reason=form.reason, correlation_id=form.run
        ),
        previews=True,
    ),
    "undo_all": WebVerb(
        "Undo",
        lambda ledger, id, form: ledger.history.undo_all(correlation_id=id, reason=form.reason),
    ),
    "distrust": WebVerb(
        "Distrust",
        lambda ledger, id, form: ledger.history.distrust(
            id, kind=cast("OriginKind", form.fields.get("kind", "actor")), reason=form.reason, correlation_id=form.run
        ),
        previews=True,
    ),
    "trust": WebVerb(
        "Trust again", lambda ledger, id, form: ledger.history.trust(id, reason=form.reason, correlation_id=form.run)
    ),
}


def form_of(desk: Desk, body: bytes) -> WebForm:
    """Return the form of a request.

    Raises:
        RejectedError: The page only reads, the form is not of this run, or it names no subject or too many.
    """
    if not desk.writes:
        raise RejectedError("this page only reads: `memory-ledger web --write` offers buttons")
    try:
        pairs = pairs_of(body.decode("utf-8"))
    except UnicodeDecodeError:
        raise RejectedError("the form is not UTF-8 text") from None
    fields = dict(pairs)
    if not desk.session.is_own_form(fields.get("mark", "")):
        raise RejectedError(
            "the form was made by another run of this page: go back, reload, and send it again", rule="mark"
        )
    ids = tuple(dict.fromkeys(value.strip() for name, value in pairs if name == "id" and value.strip()))
    if (verb := VERBS.get(fields.get("verb", ""))) is None:
        raise RejectedError(f"the page has no button {fields.get('verb', '')!r:.40}")
    if not ids:
        raise RejectedError("nothing was selected")
    if len(ids) > (ROWS if verb.several else 1):
        raise RejectedError(f"{len(ids)} were selected, and at most {ROWS if verb.several else 1} are allowed")
    return WebForm(fields["verb"], ids, fields, _own_address(fields.get("to", "")))


def _own_address(text: str) -> str:
    """Return an address of this page; the front page for any other."""
    place = urlsplit(text.replace("\\", "/"))
    if place.scheme or place.netloc or not place.path.startswith("/") or place.path.startswith("//"):
        return FRONT
    return place.path + (f"?{place.query}" if place.query else "")


def do(desk: Desk, form: WebForm) -> str:
    """Do what a form asks for, all of it or nothing, and return the address that shows it."""
    verb, ledger = VERBS[form.verb], desk.ledger
    if len(form.ids) == 1:
        answers = [verb.run(ledger, form.ids[0], form)]
    else:
        with ledger.batch(whole=True):
            answers = [verb.run(ledger, id, form) for id in form.ids]
    place = urlsplit(form.to)
    kept = [(name, value) for name, value in parse_qsl(place.query) if name not in ("done", "undone")]
    undoes = form.verb in ("undo", "undo_all")
    done = str(getattr(answers[-1], "command_id", "")) if undoes else form.run
    return f"{place.path}?{urlencode([*kept, ('undone' if undoes else 'done', done)])}"


def needs_preview(form: WebForm) -> bool:
    """Return True if a form has to show what it would do first."""
    return VERBS[form.verb].previews and form.fields.get("step") != "do"


def preview(asked: WebQuestion, form: WebForm) -> WebView:
    """Show what a form would do, without doing it."""
    ledger, verb = asked.desk.ledger, VERBS[form.verb]
    data: dict[str, object] = {"form": form, "label": verb.label, "memories": (), "fall": (), "report": None}
    data |= {"what_if": None, "seen": ledger.position, "observations": (), "conflicts": ()}
    if form.verb in ("retract", "end"):
        data["memories"] = [ledger.memories.get(id) for id in form.ids]
        data["observations"] = _resting_on(ledger, form.ids)
        about = dict.fromkeys(id for belief in form.ids for id in ledger.why(belief).conflicts)
        found = [ledger.conflicts.get(id) for id in list(about)[:ROWS]]
        data["conflicts"] = [conflict for conflict in found if conflict.status == "open"]
    elif form.verb == "undo":
        report = ledger.undo(_subject(form.ids[0]), cascade=True, dry_run=True)
        data |= {"report": report, "fall": report.dependents[:ROWS]}
    else:
        data["what_if"] = ledger.history.what_if(without={form.fields.get("kind", "actor"): form.ids[0]})
    first, *others = form.ids
    named = f"{len(form.ids)} beliefs" if others else first
    return WebView("do.html", f"{verb.label} {named}?", "a preview: nothing was changed yet", data)


def _resting_on(ledger: Ledger, ids: Sequence[str]) -> list[dict[str, object]]:
    """Return the observations that count one of the beliefs as a source, and what would become of them."""
    report = ledger.observations.withdraw(ids, dry_run=True)
    fallen = list[dict[str, object]]()
    for id in report.observations[:ROWS]:
        try:
            observation = ledger.observations.get(id)
        except NotFoundError:
            continue
        fate = "would have no source left" if id in report.retracted else "would have one source less"
        fallen.append({"id": id, "content": observation.content, "fate": fate})
    return fallen


def told_of(desk: Desk, run: str) -> dict[str, object] | None:
    """Return what the commands of one button did, for the line with the undo; None if there are none."""
    if not run.startswith(RUN) or len(run) > 40:
        return None
    entries = desk.ledger.history.audit(correlation_id=run, limit=ROWS * 3)
    if not entries:
        return None
    commands = {entry.command_id: entry.command for entry in entries}
    subjects = {entry.subject for entry in entries}
    verbs = sorted(set(commands.values()))
    return {"run": run, "commands": verbs, "count": len(commands), "subjects": len(subjects)}
