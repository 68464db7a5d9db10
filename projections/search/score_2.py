"""``score/2``: ``score/1`` and two factors more, of turns.

    rule        a user's turn that says how to answer from then on, "Always …" or "I prefer …", unless the question asks
                for what was
    company     a turn of a session in which somebody speaks whom the question names

Weights of all signals that were learned instead found no more in the conversations that they were not learned from.
"""

from __future__ import annotations

from collections.abc import Sequence

from ledger.domain.late import late
from ledger.domain.passages import speaker
from ledger.domain.question import Question
from projections.search.ranking import Candidate, who

RULE = 0.5
COMPANY = 0.4

_WHAT_WAS = frozenset(["did", "was", "were", "had", "have", "has", "been", "ve", "happened"])
_MARKS = ("always", "never", "from now on", "going forward", "prefer", "rather")  # the pattern asks for one of these
_RULE = late(
    r"^\W*(?:(?:please|and|also|in (?:the )?future)\W+)*(?:always|never)\b|\b(?:from now on|going forward)\b"
    r"|\b(?:always|never)\b[^.?!\n]{0,120}\bwhen(?:ever)? i\b"
    r"|\bi(?:['’]d| would)?(?: really| always| usually| generally| much| also)? prefer\b"
    r"|\bi(?:['’]d| would) rather\b|\bmy (?:preference|preferred)\b"
)


def is_rule(text: str) -> bool:
    """Whether a user says what holds from then on: a rule for the answers, or a preference."""
    plain = text.lower()
    return any(mark in plain for mark in _MARKS) and _RULE.search(speaker(plain)[1]) is not None


def weigh(turns: Sequence[Candidate], question: Question) -> None:
    """Multiplies the scores of turns by both factors; each is a signal."""
    named = {each.group for each in turns if each.group is not None and "named" in each.signals}
    asks_now = _WHAT_WAS.isdisjoint(question.words)
    for each in turns:
        if asks_now and who(each)[1] and is_rule(each.text):
            _multiply(each, "rule", 1 + RULE)
        if each.group in named:
            _multiply(each, "company", 1 + COMPANY)


def _multiply(each: Candidate, name: str, factor: float) -> None:
    each.signals[name] = factor
    each.score *= factor
