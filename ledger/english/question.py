"""The reading of a question: its telling words with their irregular forms, the dates it names, whether it asks when.

The word lists are English. In a question of another language no word is a stop word, and all words are searched.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice, pairwise

from msgspec import Struct

from ledger.domain.late import late
from ledger.english.dates import Days, days, numeric_days
from ledger.english.words import STOP_WORDS, spaced, split, unspaced

READ_CHARS = 4_000
"""The most characters of a question that are read."""

MAX_CONCEPTS = 24
"""A search asks for at most this many different words, the first ones."""

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
    dream dreamt | learn learnt | mean meant | add adds added adding
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

_ASKED = """
    above after again all also because before below between both down during each else few further get gets got having here
    hers just let mine more most off once only other out over own per same shall should theirs though through under until
    up upon whether within
"""
ASKED = frozenset(_ASKED.split())
"""Stop words that a question looks for all the same, for they tell turns apart: without them recall@10 of LoCoMo dev is .807
instead of .812 (of BEAM-100K dev .593 instead of .581). For the rules they stay stop words: if they counted, the matcher would
miss 8 instead of 7 of the unseen 17 restatements, and "After Ana left" would name "After Ana"."""

LITTLE = (STOP_WORDS - ASKED).union(("no", "not", "ll", "re", "ve"))
"""Words that a question does not look for. Denials are among them, because the answer may affirm, and the rest of "you'll"."""

_FIRST_PERSON = frozenset(["i", "me", "my", "mine", "myself", "we", "us", "our", "ours"])
_ASKS = """
    what which who whom whose where when why how
    wer wem wen wessen wo wohin woher wann wie warum wieso weshalb wieviel welche welcher welches welchen welchem
    qui quel quelle quels quelles quand combien pourquoi quoi | chi dove quando quale quali quanto quanta quanti quante perche
    quien quienes donde cuando cual cuales cuanto cuanta cuantos cuantas | wat waar wanneer welk welke hoe hoeveel waarom
"""
_OPEN = frozenset(_ASKS.replace("|", " ").split())
"""Words that ask, in six languages, without words that often mean something else, such as "was" and "que"."""
_MARKS = "?？؟"
_WHEN = late(r"(when|how long|what (date|day|month|year|time))\b|.*\b(when did|which (month|year|day))\b", re.I)


class Question(Struct, frozen=True):
    """A question: ``words`` are all its words, ``concepts`` its telling words in order, each with its other forms.

    ``is_open`` is true for what, who, where …, and for words without a question mark: their names say whom the question is about,
    and none is the answer. ``kin`` are the forms that are words of the same family only, which count less.
    """

    words: tuple[str, ...]
    concepts: tuple[tuple[str, ...], ...]
    first_person: bool = False
    when: bool = False
    days: tuple[Days, ...] = ()
    is_open: bool = False
    kin: frozenset[str] = frozenset()

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
        is_open=not _OPEN.isdisjoint(words) or not any(mark in head for mark in _MARKS),
    )


def _parts(word: str) -> list[str]:
    """Return the searched parts of a word: of a run in a script without spaces, perhaps a sentence, each two characters."""
    return [word] if len(word) < 3 or not unspaced(word) else [a + b for a, b in pairwise(word)]


def _says_little(word: str) -> bool:
    return word in LITTLE or (len(word) == 1 and word.isascii())


def quoted(form: str) -> str:
    """Return a word in double quotes. A run of characters of a script without spaces becomes a phrase."""
    return f'"{spaced(form).strip()}"'
