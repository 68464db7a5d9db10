"""The guards: what every command says is looked through for secrets and threats, after it is decided and before it is written.

No verb can forget them, for they stand in the writer's one road to the log and walk the declared text fields of every event.
A secret gives way to a mark, and the envelope says where; a threat refuses or quarantines a memory, and quarantines what was
captured, said or ingested, which is never refused. What decides by texts (duplicates, transcripts, documents) cleans them first.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from ledger.domain import events as e
from ledger.domain.erasure import given_ids
from ledger.domain.errors import RejectedError
from ledger.domain.events.base import NOTHING
from ledger.domain.ids import LENGTH, is_prefix
from ledger.domain.memory import KINDS
from ledger.domain.secrecy import MARK_BEGINS
from ledger.guards import secrets, threats
from ledger.guards.letters import words

if TYPE_CHECKING:
    from ledger.engine.who import Who
    from ledger.engine.work import Work

KEPT, KEPT_CHARS = 4_096, 16 * 1024 * 1024  # verdicts kept, so that a text is scanned once, and before the lock
SEVERAL_CHARS = 1_000  # above this a text is scanned before the lock
LABEL_CHARS, NAMES_CHARS = 64, 300
_WHO = ("user", "actor", "client", "agent", "causation_id", "correlation_id")  # whom a command names
_BETWEEN = "\ue000\ue001\ue000"  # stands before a mark while it is looked for in encoded JSON

NAMES = e.used_as("name")  # whoever looks them up would not find them behind a mark, so a secret in them is refused
REPEATED = e.used_as("repeats")  # must name what is in the log already as it is
# what threats are looked for in; material is always kept
BELIEFS, MATERIAL = e.used_as("belief"), e.used_as("material")


class Taken(Struct, frozen=True):
    """A mark at characters ``start`` to ``end`` stands for ``length`` characters of this ``kind``."""

    kind: str
    start: int
    end: int
    length: int


class Found(Struct, frozen=True):
    """What a scanner found in a text: its label, and the scanner by name and version."""

    label: str
    scanner: str


class Verdict(Struct, frozen=True):
    """A text without its secrets, where marks stand in it now, and what else was found; ``plain`` where there is nothing to do:
    no finding, no secret, and no mark of one taken out before."""

    text: str
    taken: tuple[Taken, ...] = ()
    found: Found | None = None
    plain: bool = False


class Scanner(Protocol):
    """A scanner of yours. ``name`` is best with a version, as in "mine/2"; each finding is a label, or has a ``label``."""

    @property
    def name(self) -> str: ...

    def scan(self, text: str, /) -> Iterable[Any]: ...


class ScannerFailed(RuntimeWarning):
    """A scanner of yours raised: it counts as having found nothing, and what was written stays."""


def as_scanners(given: object) -> tuple[Scanner, ...]:
    """Checks the scanners that a caller plugs in."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise RejectedError(f"scanners are several objects with a name and scan(text), not a {type(given).__name__}")
    found = tuple(given)
    for each in found:
        name = getattr(each, "name", None)
        if not isinstance(name, str) or not 0 < len(name) <= LABEL_CHARS or not callable(getattr(each, "scan", None)):
            raise RejectedError(
                f"a scanner has a name (up to {LABEL_CHARS} characters) and scan(text); {type(each).__name__} has not"
            )
    return found


class Guard:
    """The scanners of one open ledger. ``counts`` are the secrets taken out since it was opened, by kind."""

    def __init__(self, scanners: Sequence[Scanner] = ()) -> None:
        self.scanners = tuple(scanners)
        self.counts: Counter[str] = Counter()
        self._verdicts: dict[str, Verdict] = {}
        self._chars = 0
        self._people: object = None  # whom the last command named, found to hold no secret

    @property
    def names(self) -> tuple[str, ...]:
        """The scanners of threats, each with its version."""
        return (threats.NAME, *(each.name for each in self.scanners))

    # --- one text ------------------------------------------------------------------------------------------------

    def verdict(self, text: str) -> Verdict:
        if (kept := self._verdicts.get(text)) is not None:
            return kept
        known = words(text.encode()) if text.isascii() else None
        found = secrets.scan(text, known)
        clean = secrets.redacted(text, found) if found else text
        threat = self._threat(clean, known if clean is text else None)
        plain = threat is None and not found and MARK_BEGINS not in text
        verdict = Verdict(clean, _taken(found) if found else (), threat, plain)
        if self._chars + len(text) > KEPT_CHARS or len(self._verdicts) >= KEPT:
            self._verdicts, self._chars = {}, 0
        self._verdicts[text], self._chars = verdict, self._chars + len(text)
        return verdict

    def _threat(self, text: str, known: set[bytes] | None) -> Found | None:
        for each in threats.scan(text, known):
            return Found(each.label, threats.NAME)
        for scanner in self.scanners:
            try:
                for given in scanner.scan(text):
                    return Found(_label(given), scanner.name)
            except Exception as error:
                what = f"the scanner {scanner.name!r} failed: {type(error).__name__}"
                warnings.warn(what, ScannerFailed, stacklevel=2)
        return None

    def ahead(self, given: object) -> None:
        """Scans what a command was given before the lock is taken, where that takes its time."""
        for text in _strings(given):
            if len(text) > SEVERAL_CHARS or (self.scanners and len(text) > 2):
                self.verdict(text)

    # --- what decides by texts, before it does ---------------------------------------------------------------------

    def without_secrets(self, text: str, taken: dict[str, tuple[Taken, ...]]) -> str:
        """A text with marks for its secrets; ``taken`` learns where they stand."""
        known = self.verdict(text) if len(text) <= SEVERAL_CHARS else self._verdicts.get(text)  # it is asked for again
        if known is None:
            found = secrets.scan(text)
            known = Verdict(secrets.redacted(text, found), _taken(found))
        if known.taken:
            taken[known.text] = known.taken
        return known.text

    def cleaned(self, given: object, taken: dict[str, tuple[Taken, ...]], within: str = "") -> Any:
        """A text, or all texts of a JSON value or struct, without secrets; ``within`` are the names that a value stands under."""
        if isinstance(given, str):
            return self._named(given, taken, within)
        if isinstance(given, dict):
            outer = f"{within}{{" if within else ""
            names = ((key, f'{outer}"{key}": '[-NAMES_CHARS:]) for key in given)
            return {self.cleaned(key, taken): self.cleaned(given[key], taken, name) for key, name in names}
        if isinstance(given, list | tuple):
            return type(given)(self.cleaned(each, taken, within and f"{within}[") for each in given)
        if isinstance(given, Struct):
            kind: Any = type(given)
            changed = {}
            for name in PLANS.get(kind, given.__struct_fields__):
                if (value := getattr(given, name)) and value is not NOTHING:
                    clean = self.cleaned(value, taken)
                    if clean is not value and clean != value:
                        changed[name] = clean
            return replace(given, **changed) if changed else given
        return given

    def _named(self, value: str, taken: dict[str, tuple[Taken, ...]], within: str) -> str:
        """A text of an object: a name that it stands under may tell that it is a secret ({"password": …})."""
        begin = len(within) + 1
        if not within or not 3 < len(value) <= 200 or secrets.MARK.fullmatch(value):
            return self.without_secrets(value, taken)
        found = [each for each in secrets.scan(f'{within}"{value}"') if each.start >= begin]
        if not found:
            return self.without_secrets(value, taken)
        shifted = [secrets.Secret(each.kind, each.start - begin, min(each.end - begin, len(value))) for each in found]
        clean = secrets.redacted(value, shifted)
        taken[clean] = _taken(shifted)
        return clean

    def harmless(self, encoded: bytes, arguments: object) -> bytes:
        """Encoded arguments as they are digested: no digest of a secret is kept, for the key to it lies in the same file."""
        if not self._may_have_secrets(arguments):
            return encoded
        given = msgspec.json.decode(encoded)
        clean = self.cleaned(given, {})
        return encoded if clean == given else msgspec.json.encode(clean, order="deterministic")

    def _may_have_secrets(self, given: object) -> bool:
        """Whether arguments may have secrets: texts by their verdict, which is kept; objects and free JSON, where a name may tell
        of a text, by a look at them as they are encoded."""
        if isinstance(given, str):
            return bool(self.verdict(given).taken)
        if isinstance(given, list | tuple):
            return any(self._may_have_secrets(each) for each in given)
        if given is None or given is NOTHING or isinstance(given, int | float):
            return False
        return secrets.may_have(msgspec.json.encode(given, enc_hook=str).decode("utf-8", "replace"))

    def of_large(self, work: Work, text: str) -> Verdict:
        """The verdict on a text for the blobs table; its ``text`` is what goes there."""
        verdict = self.verdict(text)
        if not verdict.taken:
            return Verdict(text, tuple(_marks_of(text, work.taken)), verdict.found)
        return verdict if work.policy().secrets == "redact" else Verdict(text, verdict.taken, verdict.found)

    # --- a command, when it is decided -------------------------------------------------------------------------------

    def check_people(self, who: Who) -> None:
        """``RejectedError`` for a secret in whom a command names, which is looked up by its text."""
        if who is self._people:
            return
        for text in (getattr(who, name) for name in _WHO):
            if text and (taken := self.verdict(text).taken):
                raise _secret_in_a_name(taken[0].kind)
        self._people = who

    def nameless(self, who: Who) -> Who | None:
        """Whom a refusal names, without those that have a secret in them; None where nobody would know whose it is."""
        names = {name: getattr(who, name) for name in _WHO}
        bad = {name for name, text in names.items() if text and self.verdict(text).taken}
        if not bad:
            return who
        return None if "user" in bad else replace(who, **{name: None if name.endswith("_id") else "" for name in bad})

    def watch(self, work: Work) -> int:
        """Cleans what a command has emitted, refuses what the policy refuses, and quarantines; how many events it added."""
        before, flagged = len(work.emitted), list[tuple[int, Found]]()
        for at, (stream, first, data, project, occurred_at) in enumerate(work.emitted):
            if self._is_plain(data):
                continue
            seen = _Look(self, work, data)
            if seen.data is not data:
                work.emitted[at] = (stream, first, seen.data, project, occurred_at)
            if seen.redactions:
                work.redactions[at] = tuple(seen.redactions)
                self.counts.update(each.kind for each in seen.redactions)
            if seen.found is not None:
                flagged.append((at, seen.found))
        if flagged:
            self._quarantine(work, flagged)
        return len(work.emitted) - before

    def _is_plain(self, data: Any) -> bool:
        """Whether there is nothing to do about any text of an event."""
        kind: Any = type(data)
        for field in _looked_through(kind):
            value = getattr(data, field)
            if value and value is not NOTHING and not (type(value) is str and self.verdict(value).plain):
                return False
        return all(getattr(data, field) in KINDS for field in CODED.get(kind, ()))

    @staticmethod
    def _quarantine(work: Work, flagged: Sequence[tuple[int, Found]]) -> None:
        policy = work.policy().threats
        if policy == "off":
            return
        if policy == "refuse":
            for at, found in flagged:
                stream, _, data, *_ = work.emitted[at]
                if type(data) in BELIEFS:
                    raise refused(found, stream if work.emitted[at][1] else None)
        held: set[str] = set()
        base = work.transaction.position + 1 + (work.unannounced() > 0)
        project, time = work.project, work.occurred_at
        for at, found in flagged:
            stream, first, data, work.project, _ = work.emitted[at]
            work.occurred_at = None
            if stream[0] == "m" and stream[1] == "_":
                if stream not in held and not _is_held(work, stream, first):
                    work.emit(stream, e.MemoryQuarantined("", found.label, found.scanner), first=first)
                held.add(stream)
            else:
                work.emit(e.LEDGER_STREAM, e.TextQuarantined(base + at, found.label, found.scanner))
        work.project, work.occurred_at = project, time


class _Look:
    """One event looked through: ``data`` without secrets, what was taken out of it, and the first threat found in it."""

    def __init__(self, guard: Guard, work: Work, data: Any) -> None:
        self.data, self.redactions = data, list[e.Redacted]()
        self.found: Found | None = None
        self._guard, self._work, self._changes = guard, work, dict[str, object]()
        kind: Any = type(data)
        self._watched = BELIEFS.get(kind) or MATERIAL.get(kind) or ()
        for field in _looked_through(kind):
            value = getattr(data, field)
            if not value or value is NOTHING:
                continue
            clean = self._clean(field, value)
            if clean is not value:
                if field in NAMES.get(kind, ()) and self.redactions and self.redactions[-1].field == field:
                    raise _secret_in_a_name(self.redactions[-1].kind)
                self._changes[field] = clean
        for field in CODED.get(kind, ()):
            word = getattr(data, field)
            if isinstance(word, str) and word not in KINDS and (secret := secrets.scan(word)):
                raise _secret_in_a_name(secret[0].kind)
        if self._changes:
            self.data = replace(data, **self._changes)

    def _clean(self, field: str, value: Any) -> Any:
        if isinstance(value, str):
            return self._text(field, field, value)
        if isinstance(value, tuple):
            texts = ((f"{field}[{at}]", each) for at, each in enumerate(value))
            clean = tuple(each if _is_id(each) else self._text(field, name, each) for name, each in texts)
            return value if clean == value else clean
        if isinstance(value, e.Blob):
            verdict = self._work.large.get(value.blob)
            if verdict is not None:
                self._flag(field, verdict.found)
                if verdict.taken and self._redacts(verdict.taken[0].kind):
                    self._note(field, verdict.taken)
            return value
        return self._json(field, value) if isinstance(value, Raw) else value

    def _text(self, field: str, name: str, text: str) -> str:
        if not text or (verdict := self._guard.verdict(text)).plain:
            return text
        if verdict.found is not None:
            self._flag(field, self._guard.verdict(threats.judged(self.data, field, verdict.text)).found)
        if verdict.taken and self._redacts(verdict.taken[0].kind):
            self._note(name, verdict.taken)
            return verdict.text
        if self._work.taken:
            self._note(name, _marks_of(text, self._work.taken))
        return text

    def _json(self, field: str, value: Raw) -> Raw:
        """Free JSON: marks are told by their places in the encoded text."""
        given = msgspec.json.decode(value)
        taken: dict[str, tuple[Taken, ...]] = {}
        clean = self._guard.cleaned(given, taken) if secrets.may_have(bytes(value).decode()) else given
        if field in self._watched:
            for text in _strings(clean):
                self._flag(field, self._guard.verdict(text).found)
        known = self._work.taken | taken
        if clean != given and self._redacts(next(iter(taken.values()))[0].kind):
            value, given = Raw(msgspec.json.encode(clean)), clean
        if known and secrets.MARK.search(bytes(value).decode()):
            self._note(field, _marks_of_json(given, known))
        return value

    def _redacts(self, kind: str) -> bool:
        """Whether the policy takes a secret out; ``RejectedError`` where it refuses it."""
        policy = self._work.policy().secrets
        if policy == "refuse":
            raise RejectedError(
                f"the text has a secret in it ({kind}, by {secrets.NAME}), and the policy refuses those: leave it out, or "
                'policy.set(secrets="redact") to have it removed',
                rule="secret",
                finding=kind,
                scanner=secrets.NAME,
            )
        return policy == "redact"

    def _note(self, field: str, taken: Iterable[Taken]) -> None:
        redacted = (e.Redacted(field, each.kind, each.start, each.end, each.length, secrets.NAME) for each in taken)
        self.redactions.extend(redacted)

    def _flag(self, field: str, found: Found | None) -> None:
        if found is not None and self.found is None and field in self._watched:
            self.found = found


PLANS = {kind: e.TEXT_FIELDS[name] for name, kind in e.TYPES.items()}  # of each type of event the fields that are text
CODED = e.used_as("coined")


@cache
def _looked_through(kind: type[Any]) -> tuple[str, ...]:
    """The fields of a type of event that a text may be in which is not in the log already."""
    if not PLANS[kind] and kind not in CODED:
        return ()
    return tuple(each for each in (*PLANS[kind], *given_ids(kind.__name__)) if each not in REPEATED.get(kind, ()))


def as_warnings(redactions: Iterable[e.Redacted]) -> tuple[str, ...]:
    """Return what an answer says of the secrets that were taken out: a line for each kind in each field, without a text."""
    counts = Counter((each.field, each.kind) for each in redactions)
    return tuple(
        f"{field}: {count} × {kind} was redacted before it was recorded" for (field, kind), count in counts.items()
    )


def refused(found: Found, subject: str | None = None) -> RejectedError:
    """What a command raises whose text is a threat; it never repeats the text."""
    return RejectedError(
        f"the text looks like what must not become a memory ({found.label}, by {found.scanner}); say it in other words, or "
        'policy.set(threats="quarantine") to keep such texts out of recall instead',
        rule="threat",
        subject=subject,
        finding=found.label,
        scanner=found.scanner,
    )


def _secret_in_a_name(kind: str) -> RejectedError:
    return RejectedError(
        f"a name has a secret in it ({kind}, by {secrets.NAME}), and what is looked up by its name cannot be redacted: "
        "give another name",
        rule="secret",
        finding=kind,
        scanner=secrets.NAME,
    )


def _is_id(text: str) -> bool:
    return len(text) == LENGTH and is_prefix(text, text[0])


def _is_held(work: Work, stream: str, first: int) -> bool:
    state = work.find(stream, "m") if first else None
    return state is not None and state.quarantined


def _label(given: object) -> str:
    label = given if isinstance(given, str) else getattr(given, "label", None)
    name = label if isinstance(label, str) and label else "found"
    return "".join(each if each.isalnum() or each in "_-./" else "_" for each in name[:LABEL_CHARS])


def _taken(found: Sequence[secrets.Secret]) -> tuple[Taken, ...]:
    taken, moved = [], 0
    for each in found:
        length, size = each.end - each.start, len(secrets.mark(each.kind))
        taken.append(Taken(each.kind, each.start + moved, each.start + moved + size, length))
        moved += size - length
    return tuple(taken)


def _marks_of(text: str, taken: dict[str, tuple[Taken, ...]]) -> Iterable[Taken]:
    """The marks in a text that was cleaned before, whole or as a piece of what was."""
    if text in taken:
        return taken[text]
    if secrets.MARK.search(text) is None:
        return ()
    for whole, marks in taken.items():
        if (at := whole.find(text)) >= 0:
            return [
                Taken(each.kind, each.start - at, each.end - at, each.length)
                for each in marks
                if each.start >= at and each.end <= at + len(text)
            ]
    return ()


def _marks_of_json(given: object, taken: dict[str, tuple[Taken, ...]]) -> list[Taken]:
    """The marks in free JSON, by their places in the encoded text."""
    lengths: list[int] = []

    def pointed(value: object) -> Any:
        if isinstance(value, str):
            for each in sorted(_marks_of(value, taken), key=lambda each: -each.start):
                value = value[: each.start] + _BETWEEN + value[each.start :]
            marks = _marks_of(value.replace(_BETWEEN, ""), taken)
            lengths.extend(each.length for each in sorted(marks, key=lambda each: each.start))
            return value
        if isinstance(value, dict):
            return {pointed(key): pointed(each) for key, each in value.items()}
        return [pointed(each) for each in value] if isinstance(value, list) else value

    encoded = msgspec.json.encode(pointed(given)).decode()
    found, at, moved = list[Taken](), 0, 0
    for length in lengths:
        at = encoded.index(_BETWEEN, at)
        mark = secrets.MARK.match(encoded, at + len(_BETWEEN))
        assert mark is not None
        found.append(Taken(mark[1], at - moved, at - moved + len(mark[0]), length))
        at, moved = at + len(_BETWEEN), moved + len(_BETWEEN)
    return found


def _strings(given: object) -> Iterator[str]:
    """Every text in arguments: structs, lists, objects and free JSON."""
    waiting: list[object] = [given]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str):
            yield each
        elif isinstance(each, dict):
            waiting += [*each.keys(), *each.values()]
        elif isinstance(each, list | tuple):
            waiting += each
        elif isinstance(each, Raw) and each is not NOTHING:
            waiting.append(msgspec.json.decode(each))
        elif isinstance(each, Struct):
            waiting += [getattr(each, name) for name in each.__struct_fields__]
