"""The meanings of words: irregular forms and everyday synonyms count as one word, and some words as opposites."""

from __future__ import annotations

import re
from functools import lru_cache

from ledger.domain.late import late
from ledger.english.question import FORMS
from ledger.english.words import STOP_WORDS, stem

_NUMBERS = "zero one two three four five six seven eight nine ten eleven twelve"
_SAME = """
    like love enjoy prefer favor favour | live lives reside | big large huge | begin start | buy purchase
    job work | kid child | doctor physician | phone telephone | colour color | favourite favorite
"""
_FILLERS = "now current currently really very also still actually quite pretty definitely totally absolutely much well"
_OPPOSED = """
    like hate | like dislike | like avoid | allow forbid | enable disable | start stop | more fewer
    increase decrease | true false | open close | buy sell | left right | accept reject
    agree disagree | include exclude | add remove | rise fall | married divorced | married single | hot cold
    early late | public private | light dark | black white | new old | win lose | success failure
    always sometimes | always rarely | often rarely | best worst | able unable | happy unhappy | vegan meat | sync async
"""
OPPOSITES = frozenset(_OPPOSED.replace("|", " ").split())
SENTENCE = late(r"(?<=[.!?…])[\"'”’)\]*_]*\s+|(?<=[。！？])|[\r\n]+")


LITTLE = frozenset(_FILLERS.split())


def _families() -> dict[str, str]:
    roots = {word: min(word, *others) for word, others in FORMS.items()}
    for family in re.split(r"[|\n]", _SAME):
        names = [roots.get(member, member) for member in family.split()]
        roots |= {member: names[0] for member in (*family.split(), *names)}  # noqa: C420 - of a blank line there is none
    figures = {word: str(number) for number, word in enumerate(_NUMBERS.split())}
    return {word: stem(root) for word, root in roots.items()} | figures


FAMILY = _families()
"""The meaning of each word that has irregular forms, everyday synonyms or a figure."""

_OF_STEM = {stem(word): meaning for word, meaning in FAMILY.items()}
AGAINST: dict[str, set[str]] = {}
"""The opposites of words, by their meanings (``significant``)."""


@lru_cache(maxsize=16_384)
def significant(word: str) -> str:
    """Return the meaning under which a word counts, or "" for a word that says nothing."""
    if word in STOP_WORDS or word in LITTLE:
        return ""
    return FAMILY.get(word) or _root(stem(word))


def _root(own: str) -> str:
    return _OF_STEM.get(own, own)  # "loves" means what "love" does


_LISTED: dict[str, set[str]] = {}
for _word in FAMILY:
    _LISTED.setdefault(stem(_word), set()).add(significant(_word))

for _pair in re.split(r"[|\n]", _OPPOSED):
    for _one, _other in [_pair.split()] if _pair.strip() else []:
        AGAINST.setdefault(significant(_one) or _one, set()).add(significant(_other) or _other)
        AGAINST.setdefault(significant(_other) or _other, set()).add(significant(_one) or _one)


@lru_cache(maxsize=16_384)
def kindred(own: str) -> frozenset[str]:
    """Return a stem, the meanings of its words, and their opposites. No other word says or denies the stem."""
    meant = {_root(own), *_LISTED.get(own, ())}
    return frozenset(meant.union([own], *(AGAINST[meaning] for meaning in meant if meaning in AGAINST)))
