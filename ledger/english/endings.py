"""The end of a statement that the rules of ``first_person`` found: "I smoke." and later "I don't smoke any more." (ends/1).

A clause ends a statement if each telling word of the clause is a word of the statement, and the clause is in the first person,
has a denying phrase, and no word of doubt or of the moment. A move ends the older place. In doubt nothing ends.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from ledger.domain.late import late
from ledger.english.first_person import OF_RULES, clauses_of
from ledger.english.words import NEGATIONS, STOP_WORDS, stem, words

ENDS = "ends/1"
_NOT = late(r"\b(?:no longer|not|never|(?:do|ca|am|wo)n['’]?t|dont|cant|wont|cannot)\b", re.I)
_QUIT = late(
    r"\b(?:quit|cancelled|stopped(?=\s+\w+ing\b)|(?:gave|given) up|(?:dropped|pulled) out of|done with|got rid of|sold)\b",
    re.I,
)
_AGAIN = late(r"\b(?:again|started)\b", re.I)
# Somebody else, or a state that passes.
_OTHER = late(
    r"\b(?:he|she|they|it|you|your|his|her|their|who|people|nobody|today|tonight|tomorrow|this (?:week|time|month)|until|till"
    r"|for now|yet|always|only|just|much|enough|know|think|want|mean|if|when)\b",
    re.I,
)
_WHEN = late(r"\b(?:since|as of|last|yesterday|after|because|so)\b.*", re.I | re.S)
_SAYS_NOTHING = frozenset(
    map(stem, ("anymore", "longer", "really", "finally", "start", "started", "actually", "says", "user", "now"))
)
_MOVED = late(r"\bmoved (?:back )?to (?=[^\W\d_a-z])(?!.*(?:\d{4}|\bago\b|\bfrom\b|\bin (?:the|my)\b))")
_HOME = late(r"\b(?:lives? in|moved (?:back )?to)\b")
_ADDRESS = late(r"\bmy (?:home |postal )?address is\b", re.I)
_PLACES = frozenset(name + OF_RULES for name in ("moved", "lives"))


class Ending(Struct, frozen=True):
    """A clause that may end a statement: its stems, and whether it denies, brings back, or names a thing that is over."""

    stems: frozenset[str]
    how: str


def endings(text: str) -> Iterator[Ending]:
    """Yield the clauses of a user's text that may end a statement about the user."""
    for clause in clauses_of(text):
        how = next(
            (how for how, sign in (("not", _NOT), ("quit", _QUIT), ("again", _AGAIN)) if sign.search(clause)), ""
        )
        if how and _OTHER.search(clause) is None:
            told = _stems(_QUIT.sub("", _WHEN.sub("", clause)))
            if told:
                yield Ending(told, how)


def ends(ending: Ending, content: str) -> bool:
    """Return True if a clause ends the statement with a content."""
    own = _stems(content)
    if not own or not ending.stems <= own:
        return False
    if ending.how == "quit":
        return _QUIT.search(content) is None and _NOT.search(content) is None
    enough = len(ending.stems) >= min(2, len(own))
    return enough and (_NOT.search(content) is None) == (ending.how == "not")


def moves(rule: str, content: str) -> bool:
    """Return True if a statement by a rule says that the user moved to a place with a name, lately."""
    return rule == "moved" + OF_RULES and _MOVED.search(content) is not None


def is_left(move: str, rule: str, content: str) -> bool:
    """Return True if a statement by a rule names a home that is not the one of a move."""
    names_home = rule in _PLACES or _ADDRESS.search(content) is not None
    return names_home and not _stems(_HOME.sub("", move)) & _stems(_HOME.sub("", content))


def _stems(text: str) -> frozenset[str]:
    return frozenset(stem(word) for word in words(text) if word not in STOP_WORDS | NEGATIONS) - _SAYS_NOTHING
