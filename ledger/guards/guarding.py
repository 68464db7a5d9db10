"""The guards: the scan of a text for secrets and threats, with the scanners of an open ledger.

Commands that compare texts (duplicates, transcripts, documents) clean them first. ``watching`` scans the events of every
command.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from ledger import events as e
from ledger.domain.errors import RejectedError
from ledger.domain.harmless import MARK_BEGINS
from ledger.guards import secrets, threats
from ledger.guards.letters import words
from ledger.guards.scanner import Scanner
from ledger.log.event_base import NOTHING

if TYPE_CHECKING:
    from ledger.core.who import Who

KEPT, KEPT_CHARS = 4_096, 16 * 1024 * 1024  # the most cached verdicts, and the most characters of their texts
SEVERAL_CHARS = 1_000  # a longer text is scanned before the lock is taken
LABEL_CHARS, NAMES_CHARS = 64, 300
_WHO = (
    "user",
    "actor",
    "client",
    "agent",
    "causation_id",
    "correlation_id",
)  # the fields of a ``Who`` that are searched

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
        found: The first threat, or None.
        plain: True if the text has no threat, no secret and no mark of an earlier redaction.
    """

    text: str
    taken: tuple[TakenSecret, ...] = ()
    found: ScannerHit | None = None
    plain: bool = False


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
        """Return the result of scanning a text, from the cache if the text was scanned before."""
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
            return ScannerHit(finding.label, threats.NAME, finding.character)
        for scanner in self.scanners:
            try:
                for finding in scanner.scan(text):
                    return ScannerHit(_label(finding), scanner.name)
            except Exception as error:
                message = f"the scanner {scanner.name!r} failed: {type(error).__name__}"
                warnings.warn(message, ScannerFailed, stacklevel=2)
        return None

    def ahead(self, arguments: object) -> None:
        """Scan the arguments of a command before the lock is taken, if the scan takes time."""
        for text in strings(arguments):
            if len(text) > SEVERAL_CHARS or (self.scanners and len(text) > 2):
                self.verdict(text)

    # --- commands that compare texts, before their decision ---------------------------------------------------

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
        """Return a text, or a JSON value or struct, with marks for its secrets.

        ``taken`` collects the removed secrets. ``within`` is the encoded text before the value, such as `{"password": `,
        because a name may tell that its value is a secret.
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
        """Return a value of an object without secrets; the name of the value may mark it as a secret, as in {"password": …}."""
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

    def of_large(self, text: str, taken: dict[str, tuple[TakenSecret, ...]], secrets_policy: str) -> GuardedText:
        """Return the verdict on a text for the blobs table; the ``text`` of the verdict is the text to store.

        ``taken`` are the marks in texts that were cleaned before. Unless ``secrets_policy`` is "redact", the text keeps its
        secrets.
        """
        verdict = self.verdict(text)
        if not verdict.taken:
            return GuardedText(text, tuple(marks_of(text, taken)), verdict.found)
        return verdict if secrets_policy == "redact" else GuardedText(text, verdict.taken, verdict.found)

    # --- a command, when it is decided -------------------------------------------------------------------------------

    def check_people(self, who: Who) -> None:
        """Raise ``RejectedError`` if a name in ``who`` contains a secret. Names are looked up, so they cannot be redacted."""
        if who is self._people:
            return
        for text in (getattr(who, name) for name in _WHO):
            if text and (taken := self.verdict(text).taken):
                raise secret_in_a_name(taken[0].kind)
        self._people = who

    def without_secret_names(self, who: Who) -> Who | None:
        """Return the ``Who`` of a refusal without names that contain a secret, or None if the user's name contains one."""
        names = {name: getattr(who, name) for name in _WHO}
        bad = {name for name, text in names.items() if text and self.verdict(text).taken}
        if not bad:
            return who
        return None if "user" in bad else replace(who, **{name: None if name.endswith("_id") else "" for name in bad})


def as_warnings(redactions: Iterable[e.Redacted]) -> tuple[str, ...]:
    """Return the warnings of an answer about redacted secrets: a line for each kind in each field, without a text."""
    counts = Counter((redaction.field, redaction.kind) for redaction in redactions)
    return tuple(
        f"{field}: {count} × {kind} was redacted before it was recorded" for (field, kind), count in counts.items()
    )


def secret_in_a_name(kind: str) -> RejectedError:
    return RejectedError(
        f"a name has a secret in it ({kind}, by {secrets.NAME}), and what is looked up by its name cannot be redacted: "
        "give another name",
        rule="secret",
        finding=kind,
        scanner=secrets.NAME,
    )


def secret_in_exact(what: str, kind: str, name: str = "") -> RejectedError:
    under = f" under the name {name!r:.60}" if name else ""
    return RejectedError(
        f"{what} has a secret in it{under} ({kind}, by {secrets.NAME}), and is never rewritten. Leave the secret out, or "
        'call policy.set(secrets="off") to have texts stored as they are',
        rule="secret",
        finding=kind,
        scanner=secrets.NAME,
    )


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


def strings(arguments: object) -> Iterator[str]:
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
