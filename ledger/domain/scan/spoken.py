"""The search for secrets in plain sentences, such as the words after "the password is".

A pattern finds the noun ("password", "PIN", "door code", "API key"), and three rules find the secret:

1. The secret is the rest of the clause after the noun and a verb, a sign or "to", or the next clause ("It's …", "mine is …"), or
   the words before the noun ("… is my password"). Of a PIN or a code only the figures count, of a key only one word.
2. A word that stands out in the sentence of a noun, or in the sentence after it, is a secret: figures beside a PIN or code,
   mixed words, words with hyphens and quotations beside a password.
3. A clause that begins with a little word or an adjective ("is easy to guess") is talk about a secret and not the secret, unless
   a whole sentence follows, which is a passphrase.

The words of the patterns are in ``tools/pages/patterns/secrets.txt``. For each noun a bounded stretch of text is read, and nouns
that stand closer than in any text that people write are passed over, so that the time grows only with the length of the text
and no text takes many times as long as another.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Sequence
from functools import cache, partial

from ledger.domain.scan.patterns import MARK_BEGINS, part, read

AHEAD, BEHIND, CLAUSE = 160, 90, 200  # characters that are read after a noun, before it, and of a clause
STRETCH, NOUNS = 1_000, 12  # the most nouns without a secret that are read in so many characters, one after another
WORDS, FIGURES = ("word", "phrase"), ("pin", "code", "lock", "opener")
_KINDS = {"compound": "word", "number": "code", "word_key": "key"}  # kinds of nouns at the end of a compound
_LABELS = {"key": "secret"} | dict.fromkeys(FIGURES, "pin")
_QUOTES = {'"': '"', "'": "'", "`": "`", "“": "”", "„": "“", "«": "»", "‘": "’", "”": "”"}
_MARKS = "\"'`.,;:()*“”«»"

_SPACE, _WORD, _LONG_WORD = re.compile(r"\s"), re.compile(r"\S+"), re.compile(r"\S{6,200}")
# Texts of which the words before a noun must have one; most have none, and a search for them is quick.
_WIRELESS = ("wi-fi", "wifi", "wlan", "router", "hotspot", "netw", "netzw", "réseau", "wireless", "nätverk")
_USERS = ("user", "login", "id", "mail", "benutzer", "usuario", "utilisateur")
_UNLIKE_WORDS = re.compile(r"[^A-Za-z\s]|[a-z][A-Z]")  # words that stand out have a digit, a sign or a capital inside
_part = partial(part, "secrets")
Place = tuple[int, int]


@cache
def _words_of_part(name: str) -> frozenset[str]:
    """Return the words of a named list."""
    return frozenset(read()["secrets"].parts[name].split("|"))


def found(text: str, lowered: str, nouns: re.Pattern[str]) -> Iterator[tuple[str, int, int]]:
    """Yield (kind, start, end) of the secrets in the sentences of a text; ``lowered`` is the text in lower case."""
    within, seen = (0, 0), dict.fromkeys(("word", *FIGURES, "key", "login"), 0)
    vain = deque([-STRETCH] * NOUNS, NOUNS)  # where the last nouns without a secret stand
    for noun in nouns.finditer(lowered):
        if noun.start() < STRETCH + vain[0]:
            continue
        is_within = within[0] <= noun.start() < within[1]  # a noun within a secret is part of the secret
        kind = "" if is_within else _kind(text, noun)
        if not kind:
            vain.append(noun.start())
            continue
        stated = [place for place in _stated(text, noun, kind) if place is not None]
        within = max(stated, default=within)
        of_kind = kind if kind not in ("word", "phrase") else "word"
        shown = []
        if noun.end() > seen[of_kind]:
            start, seen[of_kind] = _sentence(text, noun)
            shown = list(_shown(text, noun, kind, stated, start, seen[of_kind]))
        if stated or shown:
            vain.extend([-STRETCH] * NOUNS)
        elif kind != "opener":
            vain.append(noun.start())
        for start, end in (*stated, *shown):
            yield _LABELS.get(kind, "password"), start, end


def _kind(text: str, noun: re.Match[str]) -> str:
    """Return the kind of a noun, or "" if the noun is part of another name ("password manager", "postal code")."""
    kind, start, end = str(noun.lastgroup), max(0, noun.start() - 20), noun.end()
    kind = _KINDS.get(kind, kind)
    if _part("apart").match(text, end):
        return ""
    if kind == "code" and (
        _part("other_code").search(text, start, noun.start()) or _part("other_code_behind").match(text, end)
    ):
        return ""
    if kind == "key" and _part("public_key").search(text, start, end):
        return ""
    begin = max(0, noun.start() - BEHIND)
    if kind in ("key", "code") and _has_one(_WIRELESS, text, begin, end + 20):
        return "word" if _part("wireless").search(text, begin, end + 20) else kind
    return kind


def _has_one(needles: Sequence[str], text: str, start: int, end: int) -> bool:
    stretch = text[start:end].lower()
    return any(needle in stretch for needle in needles)


# --- statements about a noun ----------------------------------------------------------------------------------------------


def _stated(text: str, noun: re.Match[str], kind: str) -> Iterator[Place | None]:
    """Yield the places of the secrets that a text states for a noun."""
    at, limit = noun.end(), noun.end() + AHEAD
    if kind == "opener":
        return
    if kind == "login":
        if (pair := _part("pair").match(text, at, limit)) is not None and not is_example(pair["value"]):
            yield pair.span("value")
        if noun[0] != "pass":
            return
    if text[at : at + 1] in " =" and (adjacent := _adjacent(text, noun, kind)):
        yield adjacent
        return
    place, signed = None, False
    if (stated := _part("said").match(text, at, limit)) is not None:
        signed = stated["link"].strip(" \t*")[:1] in (":", "=", "：")
        if signed and text[at] in "\"'":  # secrets.py reads objects
            return
        place = _value(text, stated.end(), kind, signed)
    elif kind not in ("key", "login") and _part("changed").search(text, max(0, noun.start() - BEHIND), noun.start()):
        to = _part("to").match(text, at, limit)
        place = (
            _value(text, to.end(), kind)
            if to and text[to.end() :].split(None, 1)[0] not in _words_of_part("purpose")
            else None
        )
    if place is not None:
        yield place
    elif signed and not _part("question").search(noun[0]):
        return
    elif kind in WORDS:
        yield _before(text, noun) or _typed(text, at, limit, kind)
    yield _later(text, place[1] if place else at, limit, kind)


def _adjacent(text: str, noun: re.Match[str], kind: str) -> Place | None:
    """Return the place of the value directly after a noun: figures, a quotation, or a word after a user's name."""
    at = noun.end() + 1
    if kind in FIGURES or _has_figures(noun):
        figures = _part("figures").match(text, at)
        capitals = text[noun.start()].isupper() and text[at - 2].isupper()
        if (
            figures
            and (kind != "lock" or len(figures[0]) > 3)
            and (capitals or _part("follows").match(text, figures.end()))
        ):
            return figures.span()
    if kind in WORDS and text[at : at + 1] in _QUOTES:
        return _value(text, at, kind)
    if kind in WORDS and _part("as").search(text, max(0, noun.start() - 20), noun.start()):
        place = _value(text, at, kind)
        return place if place and len(text[slice(*place)].split()) > 2 else None
    begin = max(0, noun.start() - BEHIND)
    if text.startswith("--", noun.start() - 2) or (
        _has_one(_USERS, text, begin, noun.start()) and _part("user").search(text, begin, noun.start())
    ):
        place = _value(text, at, "word") if kind in WORDS or noun[0] == "pass" else None
        return place and (place[0], place[0] + len(text[slice(*place)].split()[0]))
    return None


def _later(text: str, at: int, limit: int, kind: str) -> Place | None:
    """Return the place of the value in the clause after a noun: "I know the PIN. It's 4711", "My passphrase? Easy: …"."""
    later = _part("later").match(text, at, limit)
    if later is None or _part("program").search(text, max(0, at - BEHIND), later.end()):
        return None
    named = later["named"] or later["answer"] or ""
    place = _value(text, later.end(), kind, named.endswith(":"))
    if place is None or kind not in WORDS or text[place[0] - 1] in _QUOTES:
        return place
    words = text[slice(*place)].split()
    if later["reply"]:
        return place if kind == "phrase" or stands_out(words[0]) else None
    if later["bare"]:
        return place if stands_out(words[0]) else None
    if named.endswith(":") and not later["answer"]:
        return place if kind == "phrase" or "?" in later[0] or stands_out(words[0]) else None
    plain = len(words) == 1 and words[0].isalpha()
    return place if named or stands_out(words[0]) or "?" in later[0] or not (plain or len(words) == 2) else None


def _typed(text: str, at: int, limit: int, kind: str) -> Place | None:
    """Return the place of the words that somebody says to type: "it wants the passphrase and I type …"."""
    typed = _part("typed").match(text, at, limit)
    place = _value(text, typed.end(), kind) if typed else None
    return place if place and len(text[slice(*place)].split()) > 2 else None


def _before(text: str, noun: re.Match[str]) -> Place | None:
    """Return the place of plain words before a noun: "I use three old owls as my password"."""
    before = _part("before").search(text, max(0, noun.start() - BEHIND), noun.start())
    if before is None or not _part("follows").match(text, noun.end()):
        return None
    start, end = before.span(str(next(name for name in ("value", "last", "used") if before[name])))
    words = text[start:end].strip(_MARKS).split()
    if (
        not words
        or len(words) > 8
        or _is_talk(words, "word", False)
        or (before["used"] and words[0].isalpha() and len(words) < 2)
    ):
        return None
    return start, end


def _value(text: str, start: int, kind: str, signed: bool = False) -> Place | None:
    """Return the place of the secret that begins at ``start``, or None."""
    if signed and _part("name_behind").match(text, start):  # "password: user: …"
        return None
    if kind in FIGURES:
        figures = _part("figures_said").match(text, start, start + CLAUSE)
        if figures is None and kind == "pin" and (odd := _part("token").match(text, start)) and stands_out(odd[0]):
            return odd.span()
        return (
            figures.span("code") if figures and not _part("dated").search(text, start, figures.start("code")) else None
        )
    if (words_before := _part("before_value").match(text, start)) is not None:
        start = words_before.end()
    close = _QUOTES.get(text[start : start + 1], "")
    end = text.find(close, start + 1, start + CLAUSE) if close else -1
    if end > start + 2 and "\n" not in text[start:end]:
        start, end, signed = start + 1, start + 1 + len(text[start + 1 : end].rstrip()), False
    else:
        end = _clause_end(text, start)
    for _ in range(3):  # "is easy: …", "is all lowercase, no spaces, …"
        on = None if signed else _part("goes_on").match(text, end)
        spelt = text.startswith(", ", end) and _part("spelt").search(text, start, end)
        if not (on or spelt) or not _is_talk(text[start:end].split(), kind, signed):
            break
        start, signed = on.end() if on else end + 2, False
        end = _clause_end(text, start)
        if (first := _part("token").match(text, start, end)) and _part("state").fullmatch(first[0]):
            return None
    words = text[start:end].split()
    if not words or text[start] in "\\[{(}" or _is_talk(words, kind, signed):
        return None
    return start, start + len(words[0]) if kind in ("key", "login") else end


def _clause_end(text: str, start: int) -> int:
    """Return the end of a clause: a sign, a new line, words that begin another clause, or a little word after a mixed word."""
    limit = min(len(text), start + CLAUSE)
    hit = _part("clause_end").search(text, start + 1, limit)
    end = hit.start() if hit else limit
    if (listed := _part("listed").match(text, end)) is not None:
        return listed.end()
    if text[end : end + 1] == ",":
        last = _part("sentence_end").search(text, end, limit)
        last_at = last.start() if last else limit
        if _part("steps").search(text, end, last_at):
            return last_at
    odd = False
    for word in _WORD.finditer(text, start, end) if _UNLIKE_WORDS.search(text, start, end) is not None else ():
        if odd and word[0].lower() in _words_of_part("little"):
            return start + len(text[start : word.start()].rstrip())
        odd = stands_out(word[0]) or (word[0].isdigit() and len(word[0]) > 3)
    return start + len(text[start:end].rstrip())


# --- talk -----------------------------------------------------------------------------------------------------------------


def _is_talk(words: list[str], kind: str, signed: bool) -> bool:
    """Return True if a clause plainly talks about a secret without saying it."""
    if not words or not words[0].strip(_MARKS):
        return True
    looked_at = words if signed else words[:8]  # no rule of an unsigned clause looks further
    lower = [word.strip("\"'`.,;:!?*“”").replace("’", "'") for word in looked_at]
    first, rest, little = lower[0] or words[0], lower[1:], _words_of_part("little")
    if _part("placeholder").fullmatch(words[0]) or MARK_BEGINS in words[0] or "://" in words[0] or "@" in words[0][1:]:
        return True
    if signed and (_is_name_of_code(words[0]) or (len(words[0]) > 3 and is_example(words[0]))):
        return True
    if kind in ("key", "login"):
        if signed and not any(map(str.isdigit, words[0])):
            return True
        return len(words[0]) < 8 or not (stands_out(words[0]) or _part("grouped").fullmatch(words[0]))
    if stands_out(words[0]):
        return False
    if kind in WORDS and _part("year").fullmatch(lower[0]) and not signed:
        return True
    if len(" ".join(words)) < 3:
        return True
    if _part("counted").match(" ".join(lower[:4])) or "than" in rest[:3]:
        return True
    low = [word.lower() for word in rest]
    if signed:
        tells = not _words_of_part("telling").isdisjoint((first.lower(), *low))
        return tells or (
            len(words) > 1
            and kind == "word"
            and (first.lower() in little or (words[0].istitle() and words[1].islower() and words[1] in little))
        )
    is_sentence = len(rest) > 2 + (kind == "word") and _words_of_part("binding").isdisjoint(low[:3])
    is_sentence = is_sentence and not _part("state").fullmatch(rest[0])
    if first[0].isupper() and not first.isupper():
        return first.lower() in little and not is_sentence
    if first in little or first.startswith(("l'", "d'")) or first in _words_of_part("opening"):
        return not (is_sentence and first in _words_of_part("opening"))
    if _part("state").fullmatch(first):
        return not rest or rest[0] in little or _part("state").fullmatch(rest[0]) is not None
    return False


def _is_name_of_code(word: str) -> bool:
    return _part("reference").fullmatch(word) is not None and not word[0].isdigit()


def is_example(value: str) -> bool:
    """Return True if a value stands for a secret in an example: "<your password>", "changeme"."""
    bare = value.strip("\"'`.,;:").lower()
    return part("secrets", "example").match(bare) is not None or len(set(bare)) < 3


# --- words that stand out -------------------------------------------------------------------------------------------------


def stands_out(word: str) -> bool:
    """Return True if a word mixes letters with digits, or has signs in the middle."""
    bare = word.strip(_MARKS)
    if len(bare) < 5 or (bare.isalpha() and bare[1:].islower()):
        return False
    if _part("usual_word").fullmatch(bare) or _part("placeholder").fullmatch(bare):
        return False
    odd, digits = _part("odd").search(bare) is not None, any(map(str.isdigit, bare))
    return (odd or any(map(str.isalpha, bare))) if digits else odd and _part("odd").search(bare.swapcase()) is not None


def _has_figures(noun: re.Match[str]) -> bool:
    """Return True for a noun whose secret can be figures: "passcode", and in other languages "key"."""
    return noun[0].endswith(
        ("passcode", "passcodes", "clave", "llave", "clé", "clef", "chiave", "schlüssel", "zugangscode")
    )


def _sentence(text: str, noun: re.Match[str]) -> Place:
    """Return the start and end of the stretch of a noun's sentence that is read."""
    start = max(0, noun.start() - BEHIND)
    if start and not text[start - 1].isspace():  # do not begin in the middle of a word
        space = _SPACE.search(text, start, noun.start())
        start = space.end() if space else noun.start()
    for hit in _part("sentence_end").finditer(text, start, noun.start()):
        start = hit.end()
    limit = min(len(text), noun.end() + AHEAD)
    end = _part("sentence_end").search(text, noun.end(), limit)
    return start, end.start() if end is not None else limit


def _shown(text: str, noun: re.Match[str], kind: str, stated: list[Place], start: int, end: int) -> Iterator[Place]:
    """Yield the places of values that stand out in the sentence of a noun, from ``start`` to ``end``."""
    following = _part("sentence_end").search(text, end + 2, noun.end() + AHEAD)
    behind = following.start() if following else min(len(text), noun.end() + AHEAD)
    if _part("program").search(text, start, behind):
        return
    if kind in FIGURES or _has_figures(noun):
        yield from _figures_shown(text, noun, kind, stated, start, end)
    if kind in ("code", "lock") or (kind == "key" and _part("kind_of_key").search(text, start, noun.end())):
        return
    end = behind if kind != "opener" else end
    for hit in _LONG_WORD.finditer(text, start, end):
        bare = hit[0].strip(_MARKS)
        place = hit.start() + hit[0].index(bare), hit.start() + hit[0].index(bare) + len(bare)
        if (
            len(bare) < 6 + 2 * (kind not in (*WORDS, "pin"))
            or not (any(map(str.isdigit, bare)) or (kind in WORDS and _part("signs").search(bare)))
            or (noun.start() < place[1] and noun.end() > place[0])
        ):
            continue
        if (kind == "opener" and not _is_entered(text, noun, start, place)) or _part("user_before").search(
            text, start, place[0]
        ):
            continue
        folder, _, name = bare.rpartition("/")
        if "/" in folder or (folder and "." in name):  # a path or an address
            continue
        if stands_out(bare) and not is_example(bare) and not _part("reference").fullmatch(bare):
            yield place
    if kind not in WORDS:
        return
    for hit in _part("hyphened").finditer(text, start, end):
        if _words_of_part("little").isdisjoint(hit[0].split("-")):
            yield hit.span()
    for hit in _part("quoted").finditer(text, start, end):
        apart = hit.end() <= noun.start() or noun.end() + 1 < hit.start()
        if apart and not _is_talk(hit["value"].split(), "word", False):
            yield hit.span("value")


def _figures_shown(
    text: str, noun: re.Match[str], kind: str, stated: list[Place], start: int, end: int
) -> Iterator[Place]:
    """Yield the places of figures beside a noun. If figures are stated for the noun, only figures of the same length count."""
    if kind == "code":  # figures before the noun count only if no sign separates them
        start = max(start, 1 + max(text.rfind(sign, start, noun.start()) for sign in ",;:"))
    lengths = {_digits(text[slice(*place)]) for place in stated}
    sure, unsure = set[int](), list[Place]()
    for hit in _part("figures").finditer(text, start, end):
        at, digits = hit.start(), _digits(hit[0])
        if (noun.start() < hit.end() and at < noun.end()) or len(hit[0]) < 4 - (kind == "lock"):
            continue
        dated = _part("dated").search(text, max(start, at - 16), at) or not _part("follows").match(text, hit.end())
        is_sure = kind in ("pin", "code") or _is_entered(text, noun, start, hit.span())
        if not dated and (is_sure or (kind == "lock" and _part("combination").fullmatch(hit[0]))):
            sure.add(digits)
        if not dated or not _part("year").fullmatch(hit[0]):
            unsure.append(hit.span())
    lengths = lengths or sure
    yield from (place for place in unsure if _digits(text[slice(*place)]) in lengths)


def _is_entered(text: str, noun: re.Match[str], start: int, place: Place) -> bool:
    """Return True if a sentence says that the word at a place is to be typed.

    The signs are the words beside it, a colon after the noun, or the purpose that the sentence names.
    """
    at = place[0]
    if (noun.end() < at and text.endswith(": ", start, at)) or _part("entered_behind").match(text, place[1]):
        return True
    return (
        _part("entered").search(text, max(start, at - 60), at) is not None
        or _part("to_open").search(text, start, noun.end()) is not None
    )


def _digits(text: str) -> int:
    return sum(map(str.isdigit, text))
