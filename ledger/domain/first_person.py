"""Rules for what a user says of himself in plain sentences: "I live in Lisbon", "my dog is Rex", "never use tabs, please"."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ledger.domain.extraction import SENTENCE_CONFIDENCE, Extracted

EXTRACTOR, OF_RULES = "rules/2", "_statement"
"""Name and version: another set of forms is another version."""

MOST_CHARS = 160  # a longer value is a story (ours)
_BEGIN = r"(?:^|(?<=[.!?;:,—\n])[^\S\n]{0,3}|(?<=\s)(?:and|but|also|so)\s+)(?:(?:well|hi|hello|hey|yes|btw|also|and|but),?\s+)?"
_VERY = r"(?:\s+(?:really|absolutely|just|also|still|currently|now|truly))?"
_AM = r"I(?:['’]m|\s+am)" + _VERY
_END = (
    r"(?P<value>[^.!?;\n]{2,240}?)(?=\s*(?:[,—]?\s+(?:and|but|so|because)\s+(?:I\b|my\b|please\b)|,\s+I\b|[.!?;\n]|$))"
)
_KIN = "wife|husband|partner|son|daughter|mother|father|mom|mum|dad|sister|brother|dog|cat|boss|girlfriend|boyfriend"
_NAMED = rf"(?:{_KIN}|birthday|hometown|time ?zone|email|job|hobby|diet|address|nickname|favou?rite (?:\w+ ?){{1,2}})"
_LIVING = "vegetarian|vegan|pescatarian|diabetic|left-handed|color-?blind|lactose intolerant|married|divorced|retired|pregnant"
_FORMS = (  # (rule, kind, how it begins, what the memory says)
    ("lives", "knowledge", rf"(?:I{_VERY}\s+live|{_AM}\s+living|{_AM}\s+based)\s+in\s+", "lives in {}"),
    ("moved", "knowledge", r"I(?:['’]ve|\s+have)?(?:\s+(?:just|recently))?\s+moved\s+to\s+", "moved to {}"),
    ("from", "knowledge", rf"(?:{_AM}\s+from|I\s+(?:grew\s+up|was\s+born)\s+in)\s+", "comes from {}"),
    ("works", "knowledge", rf"I{_VERY}\s+work\s+(?=(?:at|for|as)\s)", "works {}"),
    ("allergic", "knowledge", rf"{_AM}\s+(?:\w+ly\s+)?allergic\s+to\s+", "is allergic to {}"),
    ("is", "knowledge", rf"{_AM}\s+(?=(?:an?\s+)?(?:{_LIVING})\b)", "is {}"),
    ("likes", "preference", rf"I{_VERY}\s+(?:like|love|enjoy)\s+", "likes {}"),
    (
        "dislikes",
        "preference",
        rf"I{_VERY}\s+(?:hate|dislike|do(?:n['’]t| not)\s+like|can['’]t\s+stand)\s+",
        "dislikes {}",
    ),
    ("name", "knowledge", r"my\s+name(?:['’]s|\s+is)\s+", "is called {}"),
    ("name", "preference", r"(?:please\s+)?call\s+me\s+", "wants to be called {}"),
    (
        "has",
        "knowledge",
        rf"I\s+have\s+(?=(?:an?|two|three|four)\s+(?:\w+\s+)?(?:{_KIN}|kid|child|twin)\w*\b)",
        "has {}",
    ),
    ("owns", "knowledge", rf"my\s+(?P<what>{_NAMED})(?:['’]s\s+name)?\s+is\s+(?:called\s+)?", "'s {what} is {}"),
    ("asks", "preference", r"please,?\s+(?=(?:always|never)\s)", "asks: {}"),
    ("asks", "preference", r"(?=(?:always|never)\s[^.!?\n]{3,200}?,?\s+please\b)", "asks: {}"),
)
_SAYS = [
    (rule + OF_RULES, kind, re.compile(f"{_BEGIN}(?P<statement>{form}){_END}", re.IGNORECASE | re.MULTILINE), says)
    for rule, kind, form, says in _FORMS
]
_ASIDE = re.compile(
    r"\s*(?:,| -|—|- )\s*(?:it|they|that|['’]?cause|but|and (?:it|they|this)|which|he|she|we|this)\b.*", re.I
)
_VAGUE = re.compile(
    r"(?:it|that|this|these|those|them|him|her|his|their|its|how|what|when|where|why|your?|yours|one|both|all|everything|here"
    r"|there|so|too|very|not|a (?:lot|bit|while)|being able|to$|to (?:just|know|see|hear|ask|be|think|come)|the .*\b(?:it|this)"
    r"|the (?:idea|sound|way|fact|lesson|feeling|\S+ theme|\S+ vibe))\b",
    re.IGNORECASE,
)


def statements(text: str, field: str = "") -> Iterator[Extracted]:
    """What the sentences of a user's text say of him, in the order of the rules; a question says nothing of anybody, and
    neither does what points elsewhere ("I love it")."""
    for rule, kind, pattern, says in _SAYS:
        for found in pattern.finditer(text):
            value = _ASIDE.sub("", " ".join(found["value"].split())).rstrip(" ,:-—'\"”’")
            asks = text[found.end() :].lstrip().startswith("?")
            if asks or not 2 <= len(value) <= MOST_CHARS or _VAGUE.match(value):
                continue
            named = found.groupdict().get("what") or ""
            sentence = says.format(value, what=" ".join(named.split()))
            content = f"The user{'' if named else ' '}{sentence}"
            yield Extracted(
                kind, content, rule, found.start("statement"), found.end("value"), SENTENCE_CONFIDENCE, field
            )
