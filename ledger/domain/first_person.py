"""Rules for what a user says of himself in plain sentences: "I live in Lisbon", "my dog is Rex", "never use tabs, please"."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ledger.domain.extraction import SENTENCE_CONFIDENCE, Extracted
from ledger.domain.late import late

EXTRACTOR, OF_RULES = "rules/3", "_statement"
"""Name and version: another set of forms is another version."""

MOST_CHARS = 160  # a longer value is a story (ours)
_BEGIN = r"(?:^|(?<=[.!?;:,—\n])[^\S\n]{0,3}|(?<=\s)(?:and|but|also|so)\s+)(?:(?:well|hi|hello|hey|yes|btw|also|and|but),?\s+)?"
_VERY = r"(?:\s+(?:really|absolutely|just|also|still|currently|now|truly))?"
_AM = r"I(?:['’]m|\s+am)" + _VERY
_END = (
    r"(?P<value>(?:[^.!?;\n]|\.(?=[^\W_])|(?<=\b[DMSP][rst])\.(?= )){2,240}?)"
    r"(?=\s*(?:[,—]?\s+(?:and|but|so|because)\s+(?:I\b|my\b|please\b)|,\s+(?:I|my|so)\b|(?<!\b[DMSP][rst])\.(?:\W|$)|[!?;\n]|$))"
)
_KIN = "wife|husband|partner|son|daughter|mother|father|mom|mum|dad|sister|brother|dog|cat|boss|girlfriend|boyfriend"
_NAMED = rf"(?:{_KIN}|birthday|hometown|time ?zone|email|job|hobby|diet|address|nickname|favou?rite (?:\w+ ?){{1,2}})"
_LIVING = "vegetarian|vegan|pescatarian|diabetic|left-handed|color-?blind|lactose intolerant|married|divorced|retired|pregnant"
_COUNTED = (
    r"(?:(?:new|current|monthly|weekly|annual|yearly|hourly)\s+)?"
    r"(?:rent|salary|wage|pay|income|mortgage|budget|height|weight|age|(?:shoe|ring)\s+size|(?:phone|room|flat|house)\s+number)"
)
_WITH_NAMES = "(?:landlord|doctor|dentist|therapist|manager|teacher|coach|employer|car|bike|phone|laptop|major)"
_OWNED = (
    rf"(?:{_NAMED}|{_COUNTED}(?=\s+is\s+(?:(?:now|about|around)\s+)?[$€£]?\d)"
    rf"|{_WITH_NAMES}(?=\s+is\s+(?:(?:an?|called|the|now)\s+)?(?-i:[A-Z])))"
)
_ORDERS = (
    r"answer|reply|respond|write|use|speak|explain|include|provide|format|translate|cite|quote|show|list|suggest|recommend|mention"
    r"|confirm|highlight|verify|report|prioriti[sz]e|convert|check|test|add|(?:ask|call|tell|give|send)\s+me|commit|push|deploy|run"
)
_ASKED = (
    r"(?:please,?\s+(?=(?:always|never)\s)|(?=(?:always|never)\s[^.!?\n]{3,200}?,?\s+please\b)"
    rf"|(?:^|(?<=[.!?])|(?<=[.!?] ))(?=(?:always|never)\s+(?:{_ORDERS})\b))"
)
_DRIVEN = r"an?\s+(?:\w+\s+){0,2}?(?:(?-i:[A-Z])|(?:car|van|truck|hybrid)\b)"
_SINCE = r"(?:['’]ve|\s+have)?(?:\s+(?:just|recently))?\s+"
_HIRED = r"(?:(?:started|got|took|accepted)\s+(?:an?|my)\s+(?:new\s+)?job|started\s+working)\s+(?:at|with|for|as)\s"
_HAD = rf"(?:an?|two|three|four)\s+(?:\w+\s+)?(?:{_KIN}|kid|child|twin)\w*\b"
_HATE = r"(?:hate|dislike|do(?:n['’]t| not)\s+like|can['’]t\s+stand)"
_FORMS = (  # (rule, kind, words of which it has one, how it begins, what the memory says)
    ("lives", "knowledge", "liv based", rf"(?:I{_VERY}\s+live|{_AM}\s+living|{_AM}\s+based)\s+in\s+", "lives in {}"),
    ("moved", "knowledge", "moved", rf"I{_SINCE}moved\s+to\s+", "moved to {}"),
    ("from", "knowledge", "from grew born", rf"(?:{_AM}\s+from|I\s+(?:grew\s+up|was\s+born)\s+in)\s+", "comes from {}"),
    ("works", "knowledge", "work", rf"I{_VERY}\s+work\s+(?=(?:at|for|as)\s)", "works {}"),
    ("allergic", "knowledge", "allergic", rf"{_AM}\s+(?:\w+ly\s+)?allergic\s+to\s+", "is allergic to {}"),
    ("is", "knowledge", "i'm i’m am", rf"{_AM}\s+(?=(?:an?\s+)?(?:{_LIVING})\b)", "is {}"),
    ("likes", "preference", "like love enjoy", rf"I{_VERY}\s+(?:like|love|enjoy)\s+", "likes {}"),
    ("dislikes", "preference", "hate like stand", rf"I{_VERY}\s+{_HATE}\s+", "dislikes {}"),
    ("name", "knowledge", "name", r"my\s+name(?:['’]s|\s+is)\s+", "is called {}"),
    ("name", "preference", "call", r"(?:please\s+)?call\s+me\s+", "wants to be called {}"),
    ("has", "knowledge", "have", rf"I\s+have\s+(?={_HAD})", "has {}"),
    ("owns", "knowledge", "my", rf"my\s+(?P<what>{_OWNED})(?:['’]s\s+name)?\s+is\s+(?:called\s+)?", "'s {what} is {}"),
    ("drives", "knowledge", "drive", rf"I{_VERY}\s+drive\s+(?={_DRIVEN})", "drives {}"),
    ("job", "knowledge", "job working", rf"I{_SINCE}(?={_HIRED})", "{}"),
    ("asks", "preference", "always never", _ASKED, "asks: {}"),
)
_SAYS = [
    (rule + OF_RULES, kind, near.split(), late(f"{_BEGIN}(?P<statement>{form}){_END}", re.I | re.M), says)
    for rule, kind, near, form, says in _FORMS
]
_ASIDE = late(r"\s*(?:,| -|—|- )\s*(?:it|they|that|['’]?cause|but|and (?:it|they|this)|which|he|she|we|this)\b.*", re.I)
_VAGUE = late(
    r"(?:it|that|this|these|those|them|him|her|his|their|its|how|what|when|where|why|your?|yours|one|both|all|everything|here"
    r"|there|so|too|very|not|a (?:lot|bit|while)|being able|to$|to (?:just|know|see|hear|ask|be|think|come)|the .*\b(?:it|this)"
    r"|the (?:idea|sound|way|fact|lesson|feeling|\S+ theme|\S+ vibe))\b",
    re.IGNORECASE,
)


def statements(text: str, field: str = "") -> Iterator[Extracted]:
    """What the sentences of a user's text say of him, in the order of the rules; a question says nothing of anybody, and
    neither does what points elsewhere ("I love it")."""
    lowered = text.lower()
    for rule, kind, near, pattern, says in _SAYS:
        for found in pattern.finditer(text) if any(each in lowered for each in near) else ():
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
