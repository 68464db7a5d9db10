"""The guards: the scan of a text for secrets and threats, and of the events of every command.

Commands that compare texts (duplicates, transcripts, documents) clean them first. The writer calls ``watch`` for every command,
after the decision and before the write, on the only path to the log, and ``watch`` reads all text fields of every event. So no
command can bypass the scan. A secret is replaced by a mark, and the envelope of the event records the place. A memory with a
threat is refused or quarantined. A captured turn, a message or a document with a threat is quarantined and never refused. A keyed
value is kept exactly as it was given, so a secret in it is refused.
"""

from __future__ import annotations

import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cache
from operator import attrgetter
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal
from unicodedata import category

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import astuple, replace

from ledger import events as e
from ledger.domain.errors import RejectedError
from ledger.domain.ids import LENGTH, is_event_id, is_id, is_prefix
from ledger.domain.kinds import KINDS
from ledger.domain.policy import PolicyState
from ledger.domain.scan import secrets, threats
from ledger.domain.scan.keyed import NAMES as FIELDS_OF_NAMES
from ledger.domain.scan.keyed import named_in, texts_in
from ledger.domain.scan.letters import words
from ledger.domain.scan.patterns import MARK_BEGINS
from ledger.domain.scan.scanner import LABEL_CHARS, Scanner
from ledger.domain.text import UNSAFE, counted
from ledger.log.events import NOTHING
from ledger.log.registry import given_ids

if TYPE_CHECKING:
    from ledger.core.call import Who

KEPT, KEPT_CHARS = 4_096, 16 * 1024 * 1024  # the most cached verdicts, and the most characters of their texts
SEVERAL_CHARS = 1_000  # the verdict on a longer text is not kept where only its secrets are looked for
HELD_CHARS = 4_000  # the most characters that a command scans while it holds the writers' lock
NAMES_CHARS = 300
_OF_JSON = "\0"  # stands before JSON in the cache of verdicts, because the same text may be judged as words too
_BETWEEN = "\ue000\ue001\ue000"  # stands before each mark of a secret while its place in encoded JSON is looked for
_WHO = (
    "user",
    "actor",
    "client",
    "agent",
    "causation_id",
    "correlation_id",
)  # the fields of a ``Who`` that are searched
_people_of = attrgetter(*_WHO)

_WITHOUT_TEXT = frozenset({type(None), bool, int, float})

PLANS = {kind: e.TEXT_FIELDS[name] for name, kind in e.TYPES.items()}  # the text fields of each type of event


class TakenSecret(Struct, frozen=True):
    """A secret that was removed from a text: its kind and length, and the place of the mark that stands for the secret."""

    kind: str
    start: int
    end: int
    length: int


class ScannerHit(Struct, frozen=True):
    """A threat in a text: the label, name and version of the scanner, and the code point of an invisible character."""

    label: str
    scanner: str
    character: str = ""


class GuardedText(Struct, frozen=True):
    """The result of scanning a text.

    Attributes:
        text: The text with marks for its secrets.
        taken: The secrets that were removed, each with the place of its mark.
        found: The first threat of the text as a belief, or None.
        in_material: The first threat of the text as material: of a turn, message or document; or None.
        plain: True if the text has no threat, no secret and no mark of an earlier redaction.
    """

    text: str
    taken: tuple[TakenSecret, ...] = ()
    found: ScannerHit | None = None
    in_material: ScannerHit | None = None
    plain: bool = False


Scan = tuple[Literal["verdict", "json", "secrets", "may_have"], str]
"""The purpose of a scan, and the text."""

Scans = dict[Scan, Any]
"""Scans with their results."""


class Unscanned(Exception):
    """A command needs ``scans`` that would take too long under the writers' lock. Nothing was written."""

    def __init__(self, scans: Iterable[Scan]) -> None:
        super().__init__("texts must be scanned before the command takes the writers' lock")
        self.scans: tuple[Scan, ...] = tuple(scans)


class _LockTurn(threading.local):
    """The scans of a thread that holds the writers' lock.

    Attributes:
        known: The scans that were made before the lock was taken.
        room: The characters that may still be scanned under the lock; None if the number is not bounded.
        missing: The scans that found no room.
    """

    def __init__(self) -> None:
        self.known: Mapping[Scan, Any] = {}
        self.room: int | None = None
        self.missing: dict[Scan, None] = {}


class _Held:
    """The context of ``Guard.held``, which every command enters."""

    __slots__ = ("_before", "_known", "_missing", "_room", "_turn")

    def __init__(self, turn: _LockTurn, known: Scans, room: int | None) -> None:
        self._turn, self._known, self._room = turn, known, room
        self._missing: dict[Scan, None] = {}

    def __enter__(self) -> None:
        turn = self._turn
        self._before = turn.known, turn.room, turn.missing
        turn.known, turn.room, turn.missing = self._known or turn.known, self._room, self._missing

    def __exit__(self, kind: object, error: BaseException | None, trace: TracebackType | None) -> None:
        turn = self._turn
        turn.known, turn.room, turn.missing = self._before
        if self._missing and isinstance(error, Exception):
            raise Unscanned(self._missing) from error


class ScannerFailed(RuntimeWarning):
    """A caller's own scanner raised an exception. The scanner counts as having found nothing, and the command is written."""


class Guard:
    """The scanners of an open ledger; ``counts`` are the secrets removed since the ledger was opened, by kind."""

    def __init__(self, scanners: Sequence[Scanner] = ()) -> None:
        self.scanners: tuple[Scanner, ...] = tuple(scanners)
        self.counts: Counter[str] = Counter()
        self._verdicts: dict[str, GuardedText] = {}
        self._chars = 0
        self._people: object = None  # the last ``Who`` that was checked for secrets
        self._turn = _LockTurn()

    @property
    def names(self) -> tuple[str, ...]:
        """Return the scanners of threats, each with its version."""
        return (threats.NAME, *(scanner.name for scanner in self.scanners))

    # --- one text ------------------------------------------------------------------------------------------------

    def verdict(self, text: str) -> GuardedText:
        """Return the result of scanning a text for secrets and threats, from the cache if the text was scanned before."""
        if (kept := self._verdicts.get(text)) is not None:
            return kept
        verdict: GuardedText = self._result(("verdict", text))
        return verdict

    def secrets(self, text: str) -> list[secrets.Secret]:
        """Return the secrets of a text, without its threats."""
        hits: list[secrets.Secret] = self._result(("secrets", text))
        return hits

    def may_have_secrets(self, text: str) -> bool:
        """Return True if a text contains the words or signs that some pattern of secrets needs."""
        return bool(self._result(("may_have", text)))

    def kind_under(self, name: str, encoded: str) -> str:
        """Return the kind of a secret in a value, given as JSON, that its name tells of; "" if it has none."""
        text, begin = secrets.under(name, encoded)
        return next((secret.kind for secret in self.secrets(text) if secret.start >= begin), "")

    def _result(self, scan: Scan) -> Any:
        """Return the result of a scan, from those made before the lock was taken if it was made there.

        A scan that finds no room under the lock is noted as missing. Its result is then that of a text without findings, and the
        command is not written.
        """
        turn = self._turn
        if (known := turn.known.get(scan)) is not None:
            return known
        kind, text = scan
        if turn.room is not None:
            size = len(text) if not self.scanners else HELD_CHARS + 1
            if size > turn.room:
                turn.missing[scan] = None
                return GuardedText(text, plain=True) if kind in ("verdict", "json") else []
            turn.room -= size
        if kind in ("verdict", "json"):
            return self._scanned(text) if kind == "verdict" else self._scanned_json(text)
        return secrets.scan(text) if kind == "secrets" else secrets.may_have(text)

    def _scanned(self, text: str) -> GuardedText:
        known = words(text.encode()) if text.isascii() else None
        hits = secrets.scan(text, known)
        clean = secrets.redacted(text, hits) if hits else text
        threat, in_material = self._threats(clean, known if clean is text else None)
        plain = threat is None and not hits and MARK_BEGINS not in text
        return self._keep(text, GuardedText(clean, _taken(hits) if hits else (), threat, in_material, plain))

    def verdict_of_json(self, encoded: str) -> GuardedText:
        """Return the result of scanning encoded JSON for secrets, which are replaced within its texts; "" is no JSON.

        Threats are not looked for, because nothing but the program that gave the JSON reads it.
        """
        if (kept := self._verdicts.get(_OF_JSON + encoded)) is not None:
            return kept
        verdict: GuardedText = self._result(("json", encoded))
        return verdict

    def _scanned_json(self, encoded: str) -> GuardedText:
        key = _OF_JSON + encoded
        if not encoded or not secrets.may_have(encoded):
            return self._keep(key, GuardedText(encoded, plain=True))
        taken: dict[str, tuple[TakenSecret, ...]] = {}
        clean = self.cleaned(msgspec.json.decode(encoded), taken)
        if not taken:
            return self._keep(key, GuardedText(encoded, plain=True))
        return self._keep(key, GuardedText(msgspec.json.encode(clean).decode(), tuple(marks_of_json(clean, taken))))

    def _keep(self, key: str, verdict: GuardedText) -> GuardedText:
        if self._chars + len(key) > KEPT_CHARS or len(self._verdicts) >= KEPT:
            self._verdicts, self._chars = {}, 0
        self._verdicts[key], self._chars = verdict, self._chars + len(key)
        return verdict

    def _threats(self, text: str, known: set[bytes] | None) -> tuple[ScannerHit | None, ScannerHit | None]:
        """Return the first threat of a text as a belief, and as material."""
        first: ScannerHit | None = None
        for finding in threats.scan(text, known):
            hit = ScannerHit(finding.label, threats.NAME, finding.character)
            first = first or hit
            if not finding.beliefs_only:
                return first, hit
        own = self._of_own_scanners(text) if self.scanners else None
        return first or own, own

    def _of_own_scanners(self, text: str) -> ScannerHit | None:
        for scanner in self.scanners:
            try:
                for finding in scanner.scan(text):
                    return ScannerHit(_label(finding), scanner.name)
            except Exception as error:
                message = f"the scanner {scanner.name!r} failed: {type(error).__name__}"
                warnings.warn(message, ScannerFailed, stacklevel=2)
        return None

    # --- before the lock is taken, and under it ------------------------------------------------------------------

    def ahead(self, texts: object) -> Scans:
        """Scan the texts of a command, in any structure, before the lock is taken; return the results."""
        scans: Scans = {}
        for text in strings(texts):
            if len(text) > 2 and (text[1] != "_" or not is_id(text)):
                scans["verdict", text] = verdict = self.verdict(text)
                if verdict.taken and verdict.text not in self._verdicts:
                    scans["verdict", verdict.text] = self.verdict(verdict.text)
        return scans

    def made(self, scans: Iterable[Scan]) -> Scans:
        """Make the scans that a command missed; return their results."""
        return {scan: self.verdict(scan[1]) if scan[0] == "verdict" else self._result(scan) for scan in scans}

    def held(self, known: Scans, *, room: int | None = HELD_CHARS) -> AbstractContextManager[None]:
        """Answer by scans that are known, and scan at most ``room`` further characters; None for any number.

        The exit of the context raises ``Unscanned`` if more would have been scanned. It replaces any exception of the block.
        """
        return _Held(self._turn, known, room)

    def check_all_scanned(self) -> None:
        """Raise ``Unscanned`` if a scan found no room under the lock."""
        if self._turn.missing:
            raise Unscanned(self._turn.missing)

    # --- commands that compare texts, before their decision ---------------------------------------------------

    def without_secrets(self, text: str, taken: dict[str, tuple[TakenSecret, ...]]) -> str:
        """Return a text with marks for its secrets. The places of the marks are added to ``taken``."""
        # Outside of a command the verdict on a long text is not cached: only a short text is scanned again soon.
        is_kept = len(text) <= SEVERAL_CHARS or self._turn.room is not None
        known = self.verdict(text) if is_kept else self._verdicts.get(text)
        if known is None:
            hits = self.secrets(text)
            known = GuardedText(secrets.redacted(text, hits), _taken(hits))
        if known.taken:
            taken[known.text] = known.taken
        return known.text

    def cleaned(self, value: object, taken: dict[str, tuple[TakenSecret, ...]], within: str = "") -> Any:
        """Return a text, or a JSON value or struct, with marks for its secrets.

        ``taken`` collects the removed secrets. ``within`` is the encoded text before the value, such as `{"password": `,
        because a name may tell that its value is a secret.
        """
        if isinstance(value, str):
            return self._named(value, taken, within)
        if isinstance(value, dict):
            # Without the brace a text would read as prose, in which the id of a session is a secret.
            names = ((key, f'{within}{{"{_called(value, key)}": '[-NAMES_CHARS:]) for key in value)
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
        """Return a value of an object without secrets; the name of the value may mark it as a secret, as in {"password": …}."""
        begin = len(within) + 1
        if not within or not 3 < len(value) <= 200 or secrets.MARK.fullmatch(value):
            return self.without_secrets(value, taken)
        hits = [hit for hit in self.secrets(f'{within}"{value}"') if hit.start >= begin]
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
        return self.may_have_secrets(msgspec.json.encode(arguments, enc_hook=str).decode("utf-8", "replace"))

    def of_large(
        self, text: str, taken: dict[str, tuple[TakenSecret, ...]], secrets_policy: str, *, is_json: bool = False
    ) -> GuardedText:
        """Return the verdict on a text for the blobs table; the ``text`` of the verdict is the text to store.

        ``taken`` are the marks in texts that were cleaned before. Unless ``secrets_policy`` is "redact", the text keeps its
        secrets.
        """
        verdict = self.verdict_of_json(text) if is_json else self.verdict(text)
        if not verdict.taken:
            return replace(verdict, text=text, taken=tuple(marks_of(text, taken)), plain=False)
        return verdict if secrets_policy == "redact" else replace(verdict, text=text)

    # --- a command, when it is decided -------------------------------------------------------------------------------

    def check_people(self, who: Who) -> None:
        """Raise ``RejectedError`` if a name in ``who`` contains a secret. Names are looked up, so they cannot be redacted."""
        if who is self._people:
            return
        for text in _people_of(who):
            if text and (taken := self._taken_from_name(text)):
                raise secret_in_a_name(taken[0].kind)
        self._people = who

    def _taken_from_name(self, text: str) -> tuple[TakenSecret, ...]:
        if (kept := self._verdicts.get(text)) is not None:
            return kept.taken
        return () if is_event_id(text) else self.verdict(text).taken  # which no pattern matches

    def without_secret_names(self, who: Who) -> Who | None:
        """Return the ``Who`` of a refusal without names that contain a secret, or None if the user's name contains one."""
        names = {name: getattr(who, name) for name in _WHO}
        bad = {name for name, text in names.items() if text and self._taken_from_name(text)}
        if not bad:
            return who
        return None if "user" in bad else replace(who, **{name: None if name.endswith("_id") else "" for name in bad})


def as_warnings(redactions: Iterable[e.Redacted], events: Iterable[e.AnyEvent]) -> tuple[str, ...]:
    """Return the warnings of an answer about redacted secrets, and about the texts that scanners put into quarantine.

    There is a line for each kind of secret in each field and for each finding, none with a text.
    """
    counts = Counter((redaction.field, redaction.kind) for redaction in redactions)
    flags = (event.data for event in events if isinstance(event.data, e.MemoryQuarantined | e.TextQuarantined))
    held = Counter((flag.finding, flag.scanner) for flag in flags if flag.scanner)
    return (
        *(f"{field}: {count} × {kind} was redacted before it was recorded" for (field, kind), count in counts.items()),
        *(
            f"{counted(count, 'text')} in quarantine ({finding}, by {scanner}), kept but left out of recall: "
            "see guards.quarantined()"
            for (finding, scanner), count in held.items()
        ),
    )


def secret_in_a_name(kind: str) -> RejectedError:
    return RejectedError(
        f"a name has a secret in it ({kind}, by {secrets.NAME}), and what is looked up by its name cannot be redacted: "
        "give another name",
        rule="secret",
        finding=kind,
        scanner=secrets.NAME,
    )


def secret_in_value(kind: str, name: str = "") -> RejectedError:
    under = f" under the name {name!r:.60}" if name else ""
    return RejectedError(
        f"the value has a secret in it{under} ({kind}, by {secrets.NAME}), and is never rewritten. Leave the secret out, or "
        'call policy.set(secrets="off") to have texts stored as they are',
        rule="secret",
        finding=kind,
        scanner=secrets.NAME,
    )


def _called(fields: Mapping[str, object], key: str) -> str:
    """Return the name of a field, or of the thing whose value it has, as in {"name": "api_key", "value": "…"}."""
    if key == "value":
        return next((name for field in FIELDS_OF_NAMES if isinstance(name := fields.get(field), str)), key)
    return key


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


def marks_of(text: str, taken: dict[str, tuple[TakenSecret, ...]]) -> Iterable[TakenSecret]:
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


def marks_of_json(document: object, taken: dict[str, tuple[TakenSecret, ...]]) -> list[TakenSecret]:
    """Return the marks in free JSON with their places in the encoded text."""
    lengths: list[int] = []

    def pointed(value: object) -> Any:
        if isinstance(value, str):
            for mark in sorted(marks_of(value, taken), key=lambda mark: -mark.start):
                value = value[: mark.start] + _BETWEEN + value[mark.start :]
            marks = marks_of(value.replace(_BETWEEN, ""), taken)
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


def strings(arguments: object) -> Iterator[str]:
    """Yield every text in arguments: in structs, lists, objects and free JSON."""
    waiting: list[object] = [arguments]
    while waiting:  # every argument of every command passes here, so the type of a value is looked at once
        value = waiting.pop()
        if (kind := type(value)) is str:
            yield value  # type: ignore[misc]
        elif kind in _WITHOUT_TEXT or value is NOTHING:
            continue
        elif isinstance(value, list | tuple):
            waiting += value
        elif isinstance(value, Struct):
            waiting += [part for part in astuple(value) if type(part) not in _WITHOUT_TEXT]
        elif isinstance(value, dict):
            waiting += [*value.keys(), *value.values()]
        elif isinstance(value, Raw):
            waiting.append(msgspec.json.decode(value))
        elif isinstance(value, str):
            yield value


# --- the events of a command -----------------------------------------------------------------------------------------


_HIDDEN = ("Cf", "Lo", "Mn")  # the categories of unsafe characters that have no form, unlike a line break
_POLICY = 'policy.set(threats="quarantine") to keep such texts out of recall instead'

EmittedEvent = tuple[
    str, int, e.EventData, str | None, str | None
]  # stream, first position, data, project, occurred_at
NAMES = e.used_as("name")  # a look-up by name would not find a redacted name, so a secret in a name is refused
REPEATED = e.used_as("repeats")  # such a field repeats a text of the log, which was scanned before
# The fields that are searched for threats. Material is never refused.
BELIEFS, MATERIAL = e.used_as("belief"), e.used_as("material")
CODED = e.used_as("coined")
LABELS = e.used_as("label")  # a name cannot be quarantined, so a threat in such a name is refused
EXACT = e.used_as("exact")  # nothing in these fields is redacted
ENCODED = e.used_as("json")  # a secret in these fields is redacted within the texts of their JSON


class Watched(Struct, frozen=True):
    """The findings in the emitted events of a command, by the index of the event.

    Attributes:
        data: The data of the events of which a secret was taken out.
        redactions: The secrets that were taken out, or are marked by an earlier redaction.
        flagged: The first threat of each event that has one.
    """

    data: dict[int, e.EventData]
    redactions: dict[int, tuple[e.Redacted, ...]]
    flagged: list[tuple[int, ScannerHit]]


class CommandTexts(Struct, frozen=True):
    """The texts of a command that were scanned before its events, and the policy of its user.

    Attributes:
        policy: Returns the policy in effect.
        large: The findings in the texts of the blobs table, by the id of the blob.
        taken: The marks in the texts that were cleaned before the decision, by the clean text.
    """

    policy: Callable[[], PolicyState]
    large: Mapping[str, GuardedText]
    taken: dict[str, tuple[TakenSecret, ...]]


def watch(guard: Guard, emitted: Sequence[EmittedEvent], texts: CommandTexts) -> Watched | None:
    """Return the findings in the emitted events of a command; None if no text of them needs an action.

    Raises:
        RejectedError: A secret stands in a name or an exact value, or the policy refuses secrets.
    """
    watched = Watched({}, {}, [])
    for at, event in enumerate(emitted):
        data = event[2]
        if _is_plain(guard, data):
            continue
        scan = _EventScan(guard, texts, data)
        if scan.data is not data:
            watched.data[at] = scan.data
        if scan.redactions:
            watched.redactions[at] = tuple(scan.redactions)
            guard.counts.update(redaction.kind for redaction in scan.redactions)
        if scan.found is not None:
            watched.flagged.append((at, scan.found))
    return watched if watched.data or watched.redactions or watched.flagged else None


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


class _EventScan:
    """The scan of an event: its data without secrets, the redactions, and the first threat."""

    def __init__(self, guard: Guard, texts: CommandTexts, data: Any) -> None:
        self.data, self.redactions = data, list[e.Redacted]()
        self.found: ScannerHit | None = None
        self._guard, self._given, self._changes = guard, texts, dict[str, object]()
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
            large = self._given.large[value.blob] if isinstance(value, e.Blob) else self._guard.verdict(value)
            self._judge_exact(field, large.text if isinstance(value, e.Blob) else value, large.taken)
            return value
        if isinstance(value, str):
            return self._text(field, field, value)
        if isinstance(value, tuple):
            texts = ((f"{field}[{at}]", text) for at, text in enumerate(value))
            clean = tuple(text if _is_id(text) else self._text(field, name, text) for name, text in texts)
            return value if clean == value else clean
        if isinstance(value, e.Blob):
            verdict = self._given.large.get(value.blob)
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
        if self._given.policy().secrets == "off":
            return
        if secrets_in_it:
            raise secret_in_value(secrets_in_it[0].kind)
        for name, encoded in named_in(key, text, type_):
            if kind := self._guard.kind_under(name, encoded):
                raise secret_in_value(kind, name)

    def _judge_labels(self, texts: Sequence[str]) -> None:
        """Refuse a threat in the labels and the key of a value, each and together, and an invisible character in them."""
        if self._given.policy().threats == "off":
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
        if self._given.taken:
            self._note(name, marks_of(text, self._given.taken))
        return text

    def _json(self, field: str, value: Raw) -> Raw:
        """Return free JSON without secrets; the places of the marks count characters of the encoded JSON."""
        decoded = msgspec.json.decode(value)
        taken: dict[str, tuple[TakenSecret, ...]] = {}
        clean = self._guard.cleaned(decoded, taken) if self._guard.may_have_secrets(bytes(value).decode()) else decoded
        if field in self._watched:
            for text in strings(clean):
                self._flag(field, self._guard.verdict(text))
        known = self._given.taken | taken
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
        policy = self._given.policy().secrets
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
