"""The reading of a question: its telling words with their irregular forms, the dates it names, whether it asks when.

The word lists are English. In a question of another language no word is a stop word, and all words are searched.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from datetime import date, timedelta
from itertools import islice, pairwise

from msgspec import Struct

from ledger.domain.late import late
from ledger.domain.passages import MONTHS
from ledger.domain.text import ascii_words

READ_CHARS = 4_000
"""The most characters of a question that are read."""

MAX_CONCEPTS = 24
"""A search asks for at most this many different words, the first ones."""

_STOP_WORDS = """
    a about am an and any are as at be been being but by can could d did do does doing for from had has have he her him
    his how i if in into is it its itself ll m me my no not of on or our ours re s she so some such t than that the their
    them then there these they this those to too us ve very was we were what when where which while who whom whose why
    will with would you your yours
"""
STOP_WORDS = frozenset(_STOP_WORDS.split())

_FAMILIES = """
    be am is are was were been | go goes went gone going | buy bought | bring brought | think thought | catch caught
    teach taught | fight fought | seek sought | take took taken | make made | give gave given | get got gotten
    see saw seen | say said | tell told | come came | become became | run ran | begin began begun | sing sang sung
    swim swam swum | drink drank drunk | write wrote written | ride rode ridden | drive drove driven | rise rose risen
    choose chose chosen | speak spoke spoken | break broke broken | steal stole stolen | wake woke woken
    wear wore worn | win won | meet met | feel felt | leave left | lose lost | keep kept | sleep slept | spend spent
    send sent | build built | lend lent | find found | hold held | hear heard | stand stood | understand understood
    sit sat | eat ate eaten | fall fell fallen | fly flew flown | grow grew grown | know knew known
    throw threw thrown | draw drew drawn | hide hid hidden | feed fed | lead led | pay paid | sell sold | shoot shot
    stick stuck | hang hung | dig dug | forget forgot forgotten | forgive forgave forgiven | freeze froze frozen
    bite bit bitten | shake shook shaken | tear tore torn | swear swore sworn | lie lay lain | deal dealt
    dream dreamt | learn learnt | mean meant
    child children kid kids | man men | woman women | person people | foot feet | tooth teeth | mouse mice
    life lives | wife wives | mom mother mum mommy mama | dad father daddy papa | photo picture pic photograph
    tv television | bike bicycle | movie film | name called | color colour
    favorite favourite
"""
FORMS: dict[str, tuple[str, ...]] = {
    word: tuple(form for form in family.split() if form != word)
    for family in re.split(r"[|\n]", _FAMILIES)
    for word in family.split()
}
"""The other forms of an irregular word, and a few everyday synonyms; the stemmer does the regular forms."""

_WORD = late(r"[^\W_]+")
_BETWEEN = late(r"[\W_]+")
_FIRST_PERSON = frozenset(["i", "me", "my", "mine", "myself", "we", "us", "our", "ours"])
_WHEN = late(r"(when|how long|what (date|day|month|year|time))\b|.*\b(when did|which (month|year|day))\b", re.I)
_UNSPACED = (  # scripts written without spaces: each of their characters is a word for the index
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u2fdf\u3005-\u3007\u3040-\u30ff\u3100-\u318f\u31a0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
_UNSPACED_CHARACTER = late(f"([{_UNSPACED}])")
_VOICED = "\u3099\u309a"  # these marks make another kana, so they are not dropped like accents
_UNSPACED_RUN = late(f"[{_UNSPACED}]+|[^{_UNSPACED}]+")

Days = tuple[int | None, int, int | None]  # year, month, day


class Question(Struct, frozen=True):
    """A question: ``words`` are all its words, ``concepts`` its telling words in order, each with its other forms."""

    words: tuple[str, ...]
    concepts: tuple[tuple[str, ...], ...]
    first_person: bool = False
    when: bool = False
    days: tuple[Days, ...] = ()

    @property
    def expression(self) -> str:
        """Return an FTS5 MATCH expression for any of the forms, "" if there are none. No word of the question acts as syntax."""
        return any_of(self.concepts)


def any_of(concepts: Iterable[Iterable[str]]) -> str:
    return " OR ".join(map(quoted, dict.fromkeys(form for forms in concepts for form in forms)))


def read(text: str, *, numeric: bool = False) -> Question:
    """Return a question, read.

    With ``numeric``, numeric dates are dates too, their numbers have the names of their days and months as other forms, and a
    number of one digit is a word like another.
    """
    head = text[:READ_CHARS]
    words = tuple(split(head))
    named, called = numeric_days(head) if numeric else ([], {})
    significant = (word for word in words if word in called or not _says_little(word) or (numeric and word.isdigit()))
    chosen = tuple(islice(dict.fromkeys(part for word in significant for part in _parts(word)), MAX_CONCEPTS))
    concepts = chosen or tuple(islice(dict.fromkeys(words), MAX_CONCEPTS))
    return Question(
        words,
        tuple((word, *FORMS.get(word, ()), *called.get(word, ())) for word in concepts),
        first_person=not _FIRST_PERSON.isdisjoint(words),
        when=_WHEN.match(head) is not None,
        days=tuple(dict.fromkeys((*days(head), *named))),
    )


def _parts(word: str) -> list[str]:
    """Return the searched parts of a word: of a run in a script without spaces, perhaps a sentence, each two characters."""
    return [word] if len(word) < 3 or not unspaced(word) else [a + b for a, b in pairwise(word)]


def _says_little(word: str) -> bool:
    return word in STOP_WORDS or (len(word) == 1 and word.isascii())


def folded(text: str) -> str:
    """Return a text in lower case without accents and compatibility forms, as questions and searched texts are compared."""
    if text.isascii():
        return text.lower()
    apart = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    return unicodedata.normalize("NFC", apart.translate(_UNACCENTED))


class _Unaccented(dict[int, int | None]):
    """A table of characters by number, accents as None, made at first use."""

    def __missing__(self, number: int) -> int | None:
        accent = unicodedata.combining(chr(number)) != 0 and chr(number) not in _VOICED
        self[number] = kept = None if accent else number
        return kept


_UNACCENTED = _Unaccented()


def split(text: str) -> list[str]:
    """Return the words of a text, folded. A run of characters of a script without spaces is one word."""
    return (
        ascii_words(text)
        if text.isascii()
        else [part for word in _WORD.findall(folded(text)) for part in _UNSPACED_RUN.findall(word)]
    )


def indexed_words(text: str) -> list[str]:
    """Return the words of a text as the index takes them: each character of a script without spaces is one."""
    return ascii_words(text) if text.isascii() else _WORD.findall(spaced(folded(text)))


def spaced(text: str, sign: str = " ") -> str:
    """Return a folded text with a sign on both sides of each character of a script without spaces."""
    return text if text.isascii() else _UNSPACED_CHARACTER.sub(rf"{sign}\1{sign}", text)


def indexed(text: str) -> str:
    """Return a text as the index takes it: our words and no others.

    FTS5 leaves accents on all but Latin letters, and takes characters newer than its Unicode version, most emoji, for letters.
    """
    return text if text.isascii() else spaced(_BETWEEN.sub(" ", folded(text)))


def unspaced(word: str) -> bool:
    """Return True if a word of ``split`` is of a script without spaces."""
    return _UNSPACED_CHARACTER.match(word) is not None


def quoted(form: str) -> str:
    """Return a word in double quotes. A run of characters of a script without spaces becomes a phrase."""
    return f'"{spaced(form).strip()}"'


# --- dates -----------------------------------------------------------------------------------------------------------

_MONTHS = tuple(month[:3] for month in MONTHS)
_MONTH = "|".join(f"{month[:3]}(?:{month[3:]})?" for month in MONTHS).replace("(?:tember)", "t?(?:ember)")
_NAMED = late(
    rf"\b(?:(\d{{1,2}})(?:st|nd|rd|th)?(?:\s+of)?[\s-]+)?({_MONTH})\b\.?"
    r"(?:[\s-]+(\d{1,2})(?:st|nd|rd|th)?\b(?!\d))?(?:,?[\s-]+(?:of\s+)?(\d{4}))?",
    re.IGNORECASE,
)
_ISO = late(r"\b(\d{4})-(\d{2})-(\d{2})\b", re.ASCII)
_MAY = late(r"\b(?:in|of|during|since|by|until|last|this|early|late|mid) May\b")


def days(text: str) -> list[Days]:
    """Return the days and months that a text names: 8 May 2023, May 8th, in June 2023, 2023-05-08.

    The bare words "may" and "mar" are months only after a preposition.
    """
    named_days: list[Days] = []
    for before, month, after, year in _NAMED.findall(text):
        bare = not (before or after or year)
        if bare and (month.lower() == "mar" or (month.lower() == "may" and not _MAY.search(text))):
            continue
        day = int(before or after) if before or after else None
        named_days.append((int(year) if year else None, _MONTHS.index(month.lower()[:3]) + 1, day))
    named_days += [
        (int(year), int(month), int(day)) for year, month, day in _ISO.findall(text) if 1 <= int(month) <= 12
    ]
    return named_days


_NUMERIC = late(
    r"(?<![\d./-])(?:(\d{1,2})([./])(\d{1,2})\2(\d{4})|(\d{4})[/-](\d{1,2})[/-](\d{1,2}))(?!\d|[./-]\d)", re.ASCII
)


def numeric_days(text: str) -> tuple[list[Days], dict[str, tuple[str, ...]]]:
    """Return the days that a text names by numbers (08.05.2023, 05/08/2023, 2023/05/08), and other names of their numbers.

    With points the day comes first, with slashes the month; if that cannot be a date, the other way round.
    """
    named_days: list[Days] = []
    called: dict[str, tuple[str, ...]] = {}
    for first, sign, second, late_year, early_year, month, day in _NUMERIC.findall(text):
        if sign:
            day, month = (first, second) if sign == "." else (second, first)
            if int(month) > 12:
                day, month = month, day
        try:
            named = date(int(late_year or early_year), int(month), int(day))
        except ValueError:
            continue
        named_days.append((named.year, named.month, named.day))
        for number, name in ((day, str(named.day)), (month, MONTHS[named.month - 1])):
            called[number] = tuple(dict.fromkeys((*called.get(number, ()), *({name} - {number}))))
    return named_days, called


def nearness(named: Days, day: date, *, before: int, after: int) -> float:
    """Return 1 on the named days, falling to 0 ``before`` days ahead of them and ``after`` days behind.

    People mostly talk about things shortly after they happened.
    """
    year, month, number = named
    best = 0.0
    for candidate_year in (year,) if year is not None else (day.year - 1, day.year, day.year + 1):
        try:
            first = date(candidate_year, month, number or 1)
            last = first if number else date(candidate_year + (month == 12), month % 12 + 1, 1) - timedelta(1)
        except (ValueError, OverflowError):
            continue
        if first <= day <= last:
            return 1.0
        gap = (day - last).days / after if day > last else (first - day).days / before
        best = max(best, 1.0 - gap)
    return best
