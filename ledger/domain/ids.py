"""The form of an id: a letter for the kind of subject, an underscore, and 80 random bits without look-alike letters."""

from __future__ import annotations

ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's base 32, lower case: no i, l, o, u
KINDS = {
    "m": "memory",
    "i": "interaction",
    "o": "observation",
    "s": "session",
    "d": "document",
    "c": "chunk",
    "p": "project",
    "y": "summary",
    "g": "merge",
    "k": "conflict",
    "v": "value",
}
RANDOM_BYTES = 10
LENGTH = 2 + 16
EVENT_LENGTH = 36  # of an event's id


_LETTERS, _HEX = frozenset(ALPHABET), frozenset("0123456789abcdef")
_PAIRS = tuple(first + second for first in ALPHABET for second in ALPHABET)


def subject_id(kind: str, random: bytes) -> str:
    """Return an id such as ``m_…`` from 10 random bytes, ten bits at a time."""
    n, pairs = int.from_bytes(random, "big"), _PAIRS
    high = pairs[n >> 70] + pairs[n >> 60 & 1023] + pairs[n >> 50 & 1023] + pairs[n >> 40 & 1023]
    return f"{kind}_{high}{pairs[n >> 30 & 1023]}{pairs[n >> 20 & 1023]}{pairs[n >> 10 & 1023]}{pairs[n & 1023]}"


def uuid7(nanoseconds: int, random: bytes) -> str:
    """Return a UUID version 7 (RFC 9562) from a Unix time in nanoseconds and 8 random bytes.

    The twelve bits behind the milliseconds are their fraction (method 3 of the RFC), so that later ids are greater.
    """
    milliseconds, rest = divmod(nanoseconds, 1_000_000)
    head = (milliseconds & 0xFFFF_FFFF_FFFF) << 16 | 7 << 12 | rest * 4096 // 1_000_000
    tail = 2 << 62 | int.from_bytes(random[:8], "big") & 0x3FFF_FFFF_FFFF_FFFF
    text = f"{head:016x}{tail:016x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def kind_of(stream: str) -> str:
    """Return the kind letter of a subject's id, or "" for the ledger's own stream."""
    return stream[0] if stream[1:2] == "_" else ""


def shortened(id: str) -> str:
    """Return the beginning of an id, for messages that name several ids."""
    return f"{id[:8]}…" if is_id(id) else id


LEAST = 3  # characters of the beginning of an id: its kind, "_" and one more


def absent(what: str, subject: object) -> str:
    """Return the message for an id that names nothing of this user, or for an answer that was given instead of its id."""
    if isinstance(id := getattr(subject, "id", None), str):
        return f"a {what} is named by its id, as {id!r:.40}, and not by a {type(subject).__name__}"
    short = isinstance(subject, str) and len(subject.strip()) < LEAST
    hint = f"; it is too short: the beginning of an id has at least {LEAST} characters, such as 'm_4'" if short else ""
    return f"no {what} of this user has the id {subject!r:.40}{hint or _of_another_kind(what, subject)}"


def _of_another_kind(what: str, subject: object) -> str:
    """Return the hint for an id of another kind than was asked for, or ""."""
    if not isinstance(subject, str) or what == "subject":
        return ""
    if (place := message_place(subject)) is not None:
        return f"; this is the id of a message: history.events({place[0]!r}) lists the events of its session"
    noun = KINDS.get(kind_of(subject), "")
    if not noun and "_" not in subject and "memory" in what:
        return "; the id of a memory begins with 'm_', and recall(query) finds memories by their words"
    if not noun or noun in what:
        return ""
    events = ": history.events(id) lists its events" if noun != "chunk" else ""
    return f"; '{subject[:2]}' begins the id of {'an' if noun[0] in 'io' else 'a'} {noun}{events}"


def is_id(text: str) -> bool:
    """Return True if a text has the form of a subject's id."""
    return len(text) == LENGTH and text[0] in KINDS and is_prefix(text, text[0])


def is_event_id(text: str) -> bool:
    """Return True if a text has the form of an event's id, as ``uuid7`` makes them."""
    return (
        len(text) == EVENT_LENGTH
        and text[8] == text[13] == text[18] == text[23] == "-"
        and text[14] == "7"
        and _HEX.issuperset(text.replace("-", ""))
    )


def message_id(session: str, position: int) -> str:
    """Return the id of a message: its session's, and the position of its event."""
    return f"{session}:{position}"


def message_place(id: str) -> tuple[str, int] | None:
    """Return the session and the position that a message's id names, or None if the text has another form."""
    session, _, number = id.partition(":")
    named = is_id(session) and session[0] == "s" and number.isascii() and number.isdecimal() and number[0] != "0"
    return (session, int(number)) if named and len(number) < LENGTH else None


def is_prefix(text: str, kind: str) -> bool:
    """Return True if a text can be the beginning of an id of a kind: no blank, no wildcard, no foreign character."""
    return text[:2] == kind + "_" and len(text) <= LENGTH and _LETTERS.issuperset(text[2:])
