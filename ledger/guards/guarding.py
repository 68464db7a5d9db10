"""The guards: the scan of a text for secrets and threats, with the scanners of an open ledger.

Commands that compare texts (duplicates, transcripts, documents) clean them first. ``watching`` scans the events of every
command.
"""

from __future__ import annotations

import threading
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from operator import attrgetter
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import astuple, replace

from ledger import events as e
from ledger.domain.errors import RejectedError
from ledger.domain.ids import is_event_id, is_id
from ledger.domain.text import MARK_BEGINS, counted
from ledger.guards import secrets, threats
from ledger.guards.letters import words
from ledger.guards.scanner import Scanner
from ledger.log.event_base import NOTHING
from ledger.values.rules import NAMES

if TYPE_CHECKING:
    from ledger.core.call import Who

KEPT, KEPT_CHARS = 4_096, 16 * 1024 * 1024  # the most cached verdicts, and the most characters of their texts
SEVERAL_CHARS = 1_000  # the verdict on a longer text is not kept where only its secrets are looked for
HELD_CHARS = 4_000  # the most characters that a command scans while it holds the writers' lock
LABEL_CHARS, NAMES_CHARS = 64, 300
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
"""What is looked for in a text, and the text."""

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
        return next((name for field in NAMES if isinstance(name := fields.get(field), str)), key)
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
