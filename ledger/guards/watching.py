"""The scan of the texts of every command for secrets and threats, after the decision and before the write.

The writer calls ``watch`` for every command on the only path to the log, and ``watch`` reads all text fields of every event. So
no command can bypass the scan. A secret is replaced by a mark, and the envelope of the event records the place. A memory with a
threat is refused or quarantined. A captured turn, a message or a document with a threat is quarantined and never refused. A keyed
value is kept exactly as it was given, so a secret in it is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any
from unicodedata import category

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from ledger import events as e
from ledger.core.work import Work
from ledger.domain.errors import RejectedError
from ledger.domain.ids import LENGTH, is_prefix
from ledger.domain.text import UNSAFE
from ledger.erasure.rules import given_ids
from ledger.guards import secrets, threats
from ledger.guards.guarding import (
    PLANS,
    Guard,
    GuardedText,
    ScannerHit,
    TakenSecret,
    marks_of,
    marks_of_json,
    secret_in_a_name,
    secret_in_value,
    strings,
)
from ledger.log.event_base import NOTHING
from ledger.memories.state import KINDS
from ledger.values.rules import named_in, texts_in

_HIDDEN = ("Cf", "Lo", "Mn")  # the categories of unsafe characters that have no form, unlike a line break
_POLICY = 'policy.set(threats="quarantine") to keep such texts out of recall instead'

NAMES = e.used_as("name")  # a look-up by name would not find a redacted name, so a secret in a name is refused
REPEATED = e.used_as("repeats")  # such a field repeats a text of the log, which was scanned before
# The fields that are searched for threats. Material is never refused.
BELIEFS, MATERIAL = e.used_as("belief"), e.used_as("material")
CODED = e.used_as("coined")
LABELS = e.used_as("label")  # a name cannot be quarantined, so a threat in such a name is refused
EXACT = e.used_as("exact")  # nothing in these fields is redacted
ENCODED = e.used_as("json")  # a secret in these fields is redacted within the texts of their JSON


def watch(guard: Guard, work: Work) -> int:
    """Clean the emitted events of a command, refuse by policy, quarantine, and return the number of events added."""
    before, flagged = len(work.emitted), list[tuple[int, ScannerHit]]()
    for at, (stream, first, data, project, occurred_at) in enumerate(work.emitted):
        if _is_plain(guard, data):
            continue
        scan = _EventScan(guard, work, data)
        if scan.data is not data:
            work.emitted[at] = (stream, first, scan.data, project, occurred_at)
        if scan.redactions:
            work.redactions[at] = tuple(scan.redactions)
            guard.counts.update(redaction.kind for redaction in scan.redactions)
        if scan.found is not None:
            flagged.append((at, scan.found))
    if flagged:
        _quarantine(work, flagged)
    return len(work.emitted) - before


def _is_plain(guard: Guard, data: e.EventData) -> bool:
    """Return True if no text of an event needs an action."""
    kind = type(data)
    if any(kind in LABELS or getattr(data, field) for field in EXACT.get(kind, ())):
        return False
    for field in _scanned_fields(kind):
        value = getattr(data, field)
        if value and value is not NOTHING and not (type(value) is str and _verdict(guard, kind, field, value).plain):
            return False
    return all(getattr(data, field) in KINDS for field in CODED.get(kind, ()))


def _verdict(guard: Guard, kind: type[Any], field: str, text: str) -> GuardedText:
    return guard.verdict_of_json(text) if field in ENCODED.get(kind, ()) else guard.verdict(text)


def _quarantine(work: Work, flagged: Sequence[tuple[int, ScannerHit]]) -> None:
    policy = work.policy().threats
    if policy == "off":
        return
    if policy == "refuse":
        for at, threat in flagged:
            stream, _, data, *_ = work.emitted[at]
            if type(data) in BELIEFS:
                raise refused(threat, stream if work.emitted[at][1] else None)
    held: set[str] = set()
    base = work.transaction.position + 1 + (work.unannounced() > 0)
    project, time = work.project, work.occurred_at
    for at, threat in flagged:
        stream, first, data, work.project, _ = work.emitted[at]
        work.occurred_at = None
        if isinstance(data, e.DuplicateAbsorbed):  # the memory does not have the attempt's words, so the memory stays
            data = replace(data, finding=threat.label, scanner=threat.scanner)
            work.emitted[at] = (stream, first, data, work.project, work.emitted[at][4])
        elif stream[0] == "m" and stream[1] == "_":
            if stream not in held and not _is_held(work, stream, first):
                work.emit(stream, e.MemoryQuarantined("", threat.label, threat.scanner), first=first)
            held.add(stream)
        else:
            work.emit(e.LEDGER_STREAM, e.TextQuarantined(base + at, threat.label, threat.scanner))
    work.project, work.occurred_at = project, time


class _EventScan:
    """The scan of an event: its data without secrets, the redactions, and the first threat."""

    def __init__(self, guard: Guard, work: Work, data: Any) -> None:
        self.data, self.redactions = data, list[e.Redacted]()
        self.found: ScannerHit | None = None
        self._guard, self._work, self._changes = guard, work, dict[str, object]()
        kind: Any = type(data)
        self._watched = BELIEFS.get(kind) or MATERIAL.get(kind) or ()
        for field in _scanned_fields(kind):
            value = getattr(data, field)
            if not value or value is NOTHING:
                continue
            clean = self._clean(field, value)
            if clean is not value:
                redacted = self.redactions[-1].field.partition("[")[0] if self.redactions else ""
                if field in NAMES.get(kind, ()) and redacted == field:
                    raise secret_in_a_name(self.redactions[-1].kind)
                self._changes[field] = clean
        if kind in LABELS:
            self._judge_labels([text for field in LABELS[kind] for text in _texts(getattr(data, field))])
        for field in CODED.get(kind, ()):
            word = getattr(data, field)
            if isinstance(word, str) and word not in KINDS and (secret := guard.secrets(word)):
                raise secret_in_a_name(secret[0].kind)
        if self._changes:
            self.data = replace(data, **self._changes)

    def _clean(self, field: str, value: Any) -> Any:
        if field in EXACT.get(type(self.data), ()):
            large = self._work.large[value.blob] if isinstance(value, e.Blob) else self._guard.verdict(value)
            self._judge_exact(field, large.text if isinstance(value, e.Blob) else value, large.taken)
            return value
        if isinstance(value, str):
            return self._text(field, field, value)
        if isinstance(value, tuple):
            texts = ((f"{field}[{at}]", text) for at, text in enumerate(value))
            clean = tuple(text if _is_id(text) else self._text(field, name, text) for name, text in texts)
            return value if clean == value else clean
        if isinstance(value, e.Blob):
            verdict = self._work.large.get(value.blob)
            if verdict is not None:
                self._flag(field, verdict)
                if verdict.taken and self._redacts(verdict.taken[0].kind):
                    self._note(field, verdict.taken)
            return value
        return self._json(field, value) if isinstance(value, Raw) else value

    def _judge_exact(self, field: str, text: str, taken: Sequence[TakenSecret]) -> None:
        """Refuse a secret in a value: as a whole, in the texts of its JSON and under its key. The first threat is noted."""
        secrets_in_it = list(taken)
        key, type_ = self.data.name or "", self.data.type
        for verdict in map(self._guard.verdict, texts_in(text, type_)):
            self._flag(field, verdict)
            secrets_in_it += verdict.taken
        if self._work.policy().secrets == "off":
            return
        if secrets_in_it:
            raise secret_in_value(secrets_in_it[0].kind)
        for name, encoded in named_in(key, text, type_):
            if kind := self._guard.kind_under(name, encoded):
                raise secret_in_value(kind, name)

    def _judge_labels(self, texts: Sequence[str]) -> None:
        """Refuse a threat in the labels and the key of a value, each and together, and an invisible character in them."""
        if self._work.policy().threats == "off":
            return
        for text in texts:
            if hidden := next((hit[0] for hit in UNSAFE.finditer(text) if category(hit[0]) in _HIDDEN), ""):
                raise hidden_in_a_name(threats.code_point(hidden))
        for verdict in map(self._guard.verdict, (*texts, " ".join(texts))):
            if verdict.found is not None:
                raise threat_in_a_name(verdict.found)

    def _text(self, field: str, name: str, text: str) -> str:
        if not text or (verdict := _verdict(self._guard, type(self.data), field, text)).plain:
            return text
        self._flag(field, verdict)
        if verdict.taken and self._redacts(verdict.taken[0].kind):
            self._note(name, verdict.taken)
            return verdict.text
        if self._work.taken:
            self._note(name, marks_of(text, self._work.taken))
        return text

    def _json(self, field: str, value: Raw) -> Raw:
        """Return free JSON without secrets; the places of the marks count characters of the encoded JSON."""
        decoded = msgspec.json.decode(value)
        taken: dict[str, tuple[TakenSecret, ...]] = {}
        clean = self._guard.cleaned(decoded, taken) if self._guard.may_have_secrets(bytes(value).decode()) else decoded
        if field in self._watched:
            for text in strings(clean):
                self._flag(field, self._guard.verdict(text))
        known = self._work.taken | taken
        if clean != decoded and self._redacts(next(iter(taken.values()))[0].kind):
            value, decoded = Raw(msgspec.json.encode(clean)), clean
        if known and secrets.MARK.search(bytes(value).decode()):
            self._note(field, marks_of_json(decoded, known))
        return value

    def _redacts(self, kind: str) -> bool:
        """Return True if the policy redacts a secret of this kind.

        Raises:
            RejectedError: The policy refuses secrets.
        """
        policy = self._work.policy().secrets
        if policy == "refuse":
            raise RejectedError(
                f"the text contains a secret ({kind}, by {secrets.NAME}), and the policy refuses secrets: leave it out, or "
                'call policy.set(secrets="redact") to have secrets removed',
                rule="secret",
                finding=kind,
                scanner=secrets.NAME,
            )
        return policy == "redact"

    def _note(self, field: str, taken: Iterable[TakenSecret]) -> None:
        redacted = (e.Redacted(field, mark.kind, mark.start, mark.end, mark.length, secrets.NAME) for mark in taken)
        self.redactions.extend(redacted)

    def _flag(self, field: str, verdict: GuardedText) -> None:
        if self.found is None and field in self._watched:
            self.found = verdict.found if type(self.data) in BELIEFS else verdict.in_material


@cache
def _scanned_fields(kind: type[Any]) -> tuple[str, ...]:
    """Return the fields of a type of event that can bring a new text into the log."""
    if not PLANS[kind] and kind not in CODED:
        return ()
    return tuple(field for field in (*PLANS[kind], *given_ids(kind.__name__)) if field not in REPEATED.get(kind, ()))


def refused(threat: ScannerHit, subject: str | None = None) -> RejectedError:
    """Return the error for a text that is a threat. Its message never repeats the text."""
    return RejectedError(
        f"the text looks like a threat and is refused ({threat.label}{threat.character and f' {threat.character}'}, by "
        f"{threat.scanner}); say it in other words, or {_POLICY}",
        rule="threat",
        subject=subject,
        finding=threat.label,
        scanner=threat.scanner,
    )


def hidden_in_a_name(character: str) -> RejectedError:
    return RejectedError(
        f"a label or the key has the invisible character {character} in it, so that two names could look the same: leave it out",
        rule="threat",
        finding="invisible_unicode",
        scanner=threats.NAME,
    )


def threat_in_a_name(threat: ScannerHit) -> RejectedError:
    return RejectedError(
        f"a label or the key looks like a threat ({threat.label}, by {threat.scanner}), and a prompt shows it: give another name",
        rule="threat",
        finding=threat.label,
        scanner=threat.scanner,
    )


def _texts(value: str | tuple[str, ...] | None) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else value or ()


def _is_id(text: str) -> bool:
    return len(text) == LENGTH and is_prefix(text, text[0])


def _is_held(work: Work, stream: str, first: int) -> bool:
    state = work.find(stream, "m") if first else None
    return state is not None and state.quarantined
