"""The guards: a scan of every command's texts for secrets and threats, after the decision and before the write.

The guards stand in the writer's only path to the log and walk the declared text fields of every event, so no command can
bypass them. A secret is replaced by a mark, and the event's envelope says where. A memory with a threat is refused or
quarantined; a captured turn, a message or a document with a threat is quarantined and never refused. Commands that compare
texts (duplicates, transcripts, documents) clean them first.
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

from ledger import events as e
from ledger.domain.errors import RejectedError
from ledger.domain.ids import LENGTH, is_prefix
from ledger.domain.secrecy import MARK_BEGINS
from ledger.erasure.rules import given_ids
from ledger.guards import secrets, threats
from ledger.guards.letters import words
from ledger.log.event_base import NOTHING
from ledger.memories.rules import KINDS

if TYPE_CHECKING:
    from ledger.core.who import Who
    from ledger.core.work import Work

KEPT, KEPT_CHARS = 4_096, 16 * 1024 * 1024  # cached verdicts: a text is scanned once, before the lock is taken
SEVERAL_CHARS = 1_000  # a longer text is scanned before the lock is taken
LABEL_CHARS, NAMES_CHARS = 64, 300
_WHO = ("user", "actor", "client", "agent", "causation_id", "correlation_id")  # the names in a command's ``Who``
_BETWEEN = "\ue000\ue001\ue000"  # marks the place of a mark while it is searched for in encoded JSON

NAMES = e.used_as("name")  # a look-up by name would not find a redacted name, so a secret in a name is refused
REPEATED = e.used_as("repeats")  # must repeat a text of the log unchanged
# The fields that are searched for threats. Material is never refused.
BELIEFS, MATERIAL = e.used_as("belief"), e.used_as("material")


class TakenSecret(Struct, frozen=True):
    """A secret that was taken out, of a ``kind`` and ``length``. A mark stands at ``start`` to ``end`` instead."""

    kind: str
    start: int
    end: int
    length: int


class ScannerHit(Struct, frozen=True):
    """A threat in a text: the label, and name and version of the scanner."""

    label: str
    scanner: str


class GuardedText(Struct, frozen=True):
    """The result of a text's scan: the text with marks for its secrets, the places of the marks, and the first threat.

    ``plain`` is True if nothing has to be done: no threat, no secret, and no mark of an earlier redaction.
    """

    text: str
    taken: tuple[TakenSecret, ...] = ()
    found: ScannerHit | None = None
    plain: bool = False


class Scanner(Protocol):
    """A caller's own scanner. Its ``name`` has a version, as in "mine/2". A finding is a label or has a ``label``."""

    @property
    def name(self) -> str: ...

    def scan(self, text: str, /) -> Iterable[Any]: ...


class ScannerFailed(RuntimeWarning):
    """A caller's own scanner raised an exception. The scanner counts as having found nothing, and the command is written."""


def as_scanners(objects: object) -> tuple[Scanner, ...]:
    """Return the scanners that a caller plugs in, checked.

    Raises:
        RejectedError: The argument is not several objects with a name and ``scan(text)``.
    """
    if isinstance(objects, str) or not isinstance(objects, Iterable):
        raise RejectedError(
            f"scanners must be a list of objects with a name and scan(text); a {type(objects).__name__} was given"
        )
    scanners = tuple(objects)
    for scanner in scanners:
        name = getattr(scanner, "name", None)
        if (
            not isinstance(name, str)
            or not 0 < len(name) <= LABEL_CHARS
            or not callable(getattr(scanner, "scan", None))
        ):
            raise RejectedError(
                f"a scanner must have a name of 1 to {LABEL_CHARS} characters and a method scan(text); "
                f"{type(scanner).__name__} lacks one of them"
            )
    return scanners


class Guard:
    """The scanners of an open ledger. ``counts`` are the secrets taken out since it was opened, by kind."""

    def __init__(self, scanners: Sequence[Scanner] = ()) -> None:
        self.scanners = tuple(scanners)
        self.counts: Counter[str] = Counter()
        self._verdicts: dict[str, GuardedText] = {}
        self._chars = 0
        self._people: object = None  # the last ``Who`` that was checked for secrets

    @property
    def names(self) -> tuple[str, ...]:
        """Return the scanners of threats, each with its version."""
        return (threats.NAME, *(scanner.name for scanner in self.scanners))

    # --- one text ------------------------------------------------------------------------------------------------

    def verdict(self, text: str) -> GuardedText:
        if (kept := self._verdicts.get(text)) is not None:
            return kept
        known = words(text.encode()) if text.isascii() else None
        hits = secrets.scan(text, known)
        clean = secrets.redacted(text, hits) if hits else text
        threat = self._threat(clean, known if clean is text else None)
        plain = threat is None and not hits and MARK_BEGINS not in text
        verdict = GuardedText(clean, _taken(hits) if hits else (), threat, plain)
        if self._chars + len(text) > KEPT_CHARS or len(self._verdicts) >= KEPT:
            self._verdicts, self._chars = {}, 0
        self._verdicts[text], self._chars = verdict, self._chars + len(text)
        return verdict

    def _threat(self, text: str, known: set[bytes] | None) -> ScannerHit | None:
        for finding in threats.scan(text, known):
            return ScannerHit(finding.label, threats.NAME)
        for scanner in self.scanners:
            try:
                for finding in scanner.scan(text):
                    return ScannerHit(_label(finding), scanner.name)
            except Exception as error:
                what = f"the scanner {scanner.name!r} failed: {type(error).__name__}"
                warnings.warn(what, ScannerFailed, stacklevel=2)
        return None

    def ahead(self, arguments: object) -> None:
        """Scan the arguments of a command before the lock is taken, if the scan takes time."""
        for text in _strings(arguments):
            if len(text) > SEVERAL_CHARS or (self.scanners and len(text) > 2):
                self.verdict(text)

    # --- texts of commands that compare them, before the decision ---------------------------------------------------

    def without_secrets(self, text: str, taken: dict[str, tuple[TakenSecret, ...]]) -> str:
        """Return a text with marks for its secrets. The places of the marks are added to ``taken``."""
        # The verdict on a long text is not cached here: only a short text is scanned again soon.
        known = self.verdict(text) if len(text) <= SEVERAL_CHARS else self._verdicts.get(text)
        if known is None:
            hits = secrets.scan(text)
            known = GuardedText(secrets.redacted(text, hits), _taken(hits))
        if known.taken:
            taken[known.text] = known.taken
        return known.text

    def cleaned(self, value: object, taken: dict[str, tuple[TakenSecret, ...]], within: str = "") -> Any:
        """Return a text, or all texts of a JSON value or struct, without secrets.

        ``within`` is the path of names above the value.
        """
        if isinstance(value, str):
            return self._named(value, taken, within)
        if isinstance(value, dict):
            outer = f"{within}{{" if within else ""
            names = ((key, f'{outer}"{key}": '[-NAMES_CHARS:]) for key in value)
            return {self.cleaned(key, taken): self.cleaned(value[key], taken, name) for key, name in names}
        if isinstance(value, list | tuple):
            return type(value)(self.cleaned(item, taken, within and f"{within}[") for item in value)
        if isinstance(value, Struct):
            kind: Any = type(value)
            changed = {}
            for name in PLANS.get(kind, value.__struct_fields__):
                if (content := getattr(value, name)) and content is not NOTHING:
                    clean = self.cleaned(content, taken)
                    if clean is not content and clean != content:
                        changed[name] = clean
            return replace(value, **changed) if changed else value
        return value

    def _named(self, value: str, taken: dict[str, tuple[TakenSecret, ...]], within: str) -> str:
        """Return a value of an object without secrets. Its name may mark it as a secret, as in {"password": …}."""
        begin = len(within) + 1
        if not within or not 3 < len(value) <= 200 or secrets.MARK.fullmatch(value):
            return self.without_secrets(value, taken)
        hits = [hit for hit in secrets.scan(f'{within}"{value}"') if hit.start >= begin]
        if not hits:
            return self.without_secrets(value, taken)
        shifted = [secrets.Secret(hit.kind, hit.start - begin, min(hit.end - begin, len(value))) for hit in hits]
        clean = secrets.redacted(value, shifted)
        taken[clean] = _taken(shifted)
        return clean

    def harmless(self, encoded: bytes, arguments: object) -> bytes:
        """Return encoded arguments without secrets, for a digest.

        A secret could be guessed from its digest, because the digest's key is in the same file.
        """
        if not self._may_have_secrets(arguments):
            return encoded
        decoded = msgspec.json.decode(encoded)
        clean = self.cleaned(decoded, {})
        return encoded if clean == decoded else msgspec.json.encode(clean, order="deterministic")

    def _may_have_secrets(self, arguments: object) -> bool:
        """Return True if arguments may contain secrets.

        The verdict on a plain text is cached. Objects and free JSON are judged by their encoded form, because a name in them
        may tell that a value is a secret.
        """
        if isinstance(arguments, str):
            return bool(self.verdict(arguments).taken)
        if isinstance(arguments, list | tuple):
            return any(self._may_have_secrets(item) for item in arguments)
        if arguments is None or arguments is NOTHING or isinstance(arguments, int | float):
            return False
        return secrets.may_have(msgspec.json.encode(arguments, enc_hook=str).decode("utf-8", "replace"))

    def of_large(self, work: Work, text: str) -> GuardedText:
        """Return the verdict on a text for the blobs table. Its ``text`` is the text to store."""
        verdict = self.verdict(text)
        if not verdict.taken:
            return GuardedText(text, tuple(_marks_of(text, work.taken)), verdict.found)
        return verdict if work.policy().secrets == "redact" else GuardedText(text, verdict.taken, verdict.found)

    # --- a command, when it is decided -------------------------------------------------------------------------------

    def check_people(self, who: Who) -> None:
        """Raise ``RejectedError`` if a name in ``who`` contains a secret. Names are looked up, so they cannot be redacted."""
        if who is self._people:
            return
        for text in (getattr(who, name) for name in _WHO):
            if text and (taken := self.verdict(text).taken):
                raise _secret_in_a_name(taken[0].kind)
        self._people = who

    def nameless(self, who: Who) -> Who | None:
        """Return the ``Who`` of a refusal without names that contain a secret, or None if the user's name contains one."""
        names = {name: getattr(who, name) for name in _WHO}
        bad = {name for name, text in names.items() if text and self.verdict(text).taken}
        if not bad:
            return who
        return None if "user" in bad else replace(who, **{name: None if name.endswith("_id") else "" for name in bad})

    def watch(self, work: Work) -> int:
        """Clean the emitted events of a command, refuse by policy, quarantine, and return the number of events added."""
        before, flagged = len(work.emitted), list[tuple[int, ScannerHit]]()
        for at, (stream, first, data, project, occurred_at) in enumerate(work.emitted):
            if self._is_plain(data):
                continue
            look = _EventScan(self, work, data)
            if look.data is not data:
                work.emitted[at] = (stream, first, look.data, project, occurred_at)
            if look.redactions:
                work.redactions[at] = tuple(look.redactions)
                self.counts.update(redaction.kind for redaction in look.redactions)
            if look.found is not None:
                flagged.append((at, look.found))
        if flagged:
            self._quarantine(work, flagged)
        return len(work.emitted) - before

    def _is_plain(self, data: Any) -> bool:
        """Return True if no text of an event needs an action."""
        kind: Any = type(data)
        for field in _looked_through(kind):
            value = getattr(data, field)
            if value and value is not NOTHING and not (type(value) is str and self.verdict(value).plain):
                return False
        return all(getattr(data, field) in KINDS for field in CODED.get(kind, ()))

    @staticmethod
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
            if stream[0] == "m" and stream[1] == "_":
                if stream not in held and not _is_held(work, stream, first):
                    work.emit(stream, e.MemoryQuarantined("", threat.label, threat.scanner), first=first)
                held.add(stream)
            else:
                work.emit(e.LEDGER_STREAM, e.TextQuarantined(base + at, threat.label, threat.scanner))
        work.project, work.occurred_at = project, time


class _EventScan:
    """An event that was looked through: its data without secrets, the redactions, and the first threat."""

    def __init__(self, guard: Guard, work: Work, data: Any) -> None:
        self.data, self.redactions = data, list[e.Redacted]()
        self.found: ScannerHit | None = None
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
            texts = ((f"{field}[{at}]", text) for at, text in enumerate(value))
            clean = tuple(text if _is_id(text) else self._text(field, name, text) for name, text in texts)
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
        """Return free JSON without secrets. The places of its marks are those in the encoded text."""
        decoded = msgspec.json.decode(value)
        taken: dict[str, tuple[TakenSecret, ...]] = {}
        clean = self._guard.cleaned(decoded, taken) if secrets.may_have(bytes(value).decode()) else decoded
        if field in self._watched:
            for text in _strings(clean):
                self._flag(field, self._guard.verdict(text).found)
        known = self._work.taken | taken
        if clean != decoded and self._redacts(next(iter(taken.values()))[0].kind):
            value, decoded = Raw(msgspec.json.encode(clean)), clean
        if known and secrets.MARK.search(bytes(value).decode()):
            self._note(field, _marks_of_json(decoded, known))
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

    def _flag(self, field: str, threat: ScannerHit | None) -> None:
        if threat is not None and self.found is None and field in self._watched:
            self.found = threat


PLANS = {kind: e.TEXT_FIELDS[name] for name, kind in e.TYPES.items()}  # the text fields of each type of event
CODED = e.used_as("coined")


@cache
def _looked_through(kind: type[Any]) -> tuple[str, ...]:
    """Return the fields of a type of event that can bring a new text into the log."""
    if not PLANS[kind] and kind not in CODED:
        return ()
    return tuple(field for field in (*PLANS[kind], *given_ids(kind.__name__)) if field not in REPEATED.get(kind, ()))


def as_warnings(redactions: Iterable[e.Redacted]) -> tuple[str, ...]:
    """Return the warnings of an answer about redacted secrets: a line for each kind in each field, without a text."""
    counts = Counter((redaction.field, redaction.kind) for redaction in redactions)
    return tuple(
        f"{field}: {count} × {kind} was redacted before it was recorded" for (field, kind), count in counts.items()
    )


def refused(threat: ScannerHit, subject: str | None = None) -> RejectedError:
    """Return the error for a text that is a threat. Its message never repeats the text."""
    return RejectedError(
        f"the text looks like what must not become a memory ({threat.label}, by {threat.scanner}); say it in other words, or "
        'policy.set(threats="quarantine") to keep such texts out of recall instead',
        rule="threat",
        subject=subject,
        finding=threat.label,
        scanner=threat.scanner,
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


def _label(finding: object) -> str:
    label = finding if isinstance(finding, str) else getattr(finding, "label", None)
    name = label if isinstance(label, str) and label else "found"
    return "".join(character if character.isalnum() or character in "_-./" else "_" for character in name[:LABEL_CHARS])


def _taken(hits: Sequence[secrets.Secret]) -> tuple[TakenSecret, ...]:
    taken, moved = [], 0
    for hit in hits:
        length, size = hit.end - hit.start, len(secrets.mark(hit.kind))
        taken.append(TakenSecret(hit.kind, hit.start + moved, hit.start + moved + size, length))
        moved += size - length
    return tuple(taken)


def _marks_of(text: str, taken: dict[str, tuple[TakenSecret, ...]]) -> Iterable[TakenSecret]:
    """Return the marks in a text that was cleaned before, as a whole or as a part of a longer text."""
    if text in taken:
        return taken[text]
    if secrets.MARK.search(text) is None:
        return ()
    for whole, marks in taken.items():
        if (at := whole.find(text)) >= 0:
            return [
                TakenSecret(mark.kind, mark.start - at, mark.end - at, mark.length)
                for mark in marks
                if mark.start >= at and mark.end <= at + len(text)
            ]
    return ()


def _marks_of_json(document: object, taken: dict[str, tuple[TakenSecret, ...]]) -> list[TakenSecret]:
    """Return the marks in free JSON with their places in the encoded text."""
    lengths: list[int] = []

    def pointed(value: object) -> Any:
        if isinstance(value, str):
            for mark in sorted(_marks_of(value, taken), key=lambda mark: -mark.start):
                value = value[: mark.start] + _BETWEEN + value[mark.start :]
            marks = _marks_of(value.replace(_BETWEEN, ""), taken)
            lengths.extend(mark.length for mark in sorted(marks, key=lambda mark: mark.start))
            return value
        if isinstance(value, dict):
            return {pointed(key): pointed(item) for key, item in value.items()}
        return [pointed(item) for item in value] if isinstance(value, list) else value

    encoded = msgspec.json.encode(pointed(document)).decode()
    placed, at, moved = list[TakenSecret](), 0, 0
    for length in lengths:
        at = encoded.index(_BETWEEN, at)
        mark = secrets.MARK.match(encoded, at + len(_BETWEEN))
        assert mark is not None
        placed.append(TakenSecret(mark[1], at - moved, at - moved + len(mark[0]), length))
        at, moved = at + len(_BETWEEN), moved + len(_BETWEEN)
    return placed


def _strings(arguments: object) -> Iterator[str]:
    """Yield every text in arguments: in structs, lists, objects and free JSON."""
    waiting: list[object] = [arguments]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            waiting += [*value.keys(), *value.values()]
        elif isinstance(value, list | tuple):
            waiting += value
        elif isinstance(value, Raw) and value is not NOTHING:
            waiting.append(msgspec.json.decode(value))
        elif isinstance(value, Struct):
            waiting += [getattr(value, name) for name in value.__struct_fields__]
