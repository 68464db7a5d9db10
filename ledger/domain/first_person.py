"""Rules for what a user says of himself in plain sentences: "I live in Lisbon", "my dog is Rex", "never use tabs, please"."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ledger.domain.extraction import SENTENCE_CONFIDENCE, Extracted
from ledger.domain.late import late

EXTRACTOR, OF_RULES = "rules/4", "_statement"
ORDER = "asks" + OF_RULES  # the rule of standing orders
"""Name and version: another set of forms is another version."""

MOST_CHARS = 160  # a longer value is a story (ours)
_GREETS = r"(?:(?:well|hi|hello|hey|yes|btw|also|and|but|now),?\s+)?"
_BEGIN = rf"(?:^|(?<=[.!?;:,—\n])[^\S\n]{{0,3}}|(?<=\s)(?:and|but|also|so)\s+){_GREETS}"
_FIRST = rf"(?:(?<![:,]\n)(?<![:,]\n\n)^|(?<=[.!?])[^\S\n]{{1,3}}){_GREETS}"  # of a sentence, not of a clause
_VERY = r"(?:\s+(?:really|absolutely|just|also|still|currently|now|truly))?"
_AM = r"I(?:['’]m|\s+am)" + _VERY
_INSIDE = r"(?>(?!\.\.)[.!?;](?=[^\w\s]{0,9}\w)|(?<=\b[DMSP][rst])\.(?= )|(?<=\b[A-Z]\.[A-Z])\.(?! (?:I|my|we|it)\b))"
_VALUE = rf"(?P<value>(?:[^.!?;\n]|{_INSIDE}){{2,240}}?)"
_STOP = rf"(?=\s*(?:[,—]?\s+(?:and|but|so|because)\s+(?:I|my|please)\b|,\s+(?:I|my|so)\b|(?!{_INSIDE})[.!;]|$))"
_WHOLE = r"(?=\s*(?:$|[.,;:!)—-](?![\w\"”])|\s(?:and|but|so|because|since|now|to(?! \d)|every)\b))"
_KIN = "wife|husband|partner|son|daughter|mother|father|mom|mum|dad|sister|brother|dog|cat|boss|girlfriend|boyfriend"
_NAMED = rf"(?:{_KIN}|birthday|hometown|time ?zone|email|job|hobby|diet|address|nickname|favou?rite (?:\w+ ?){{1,2}})"
_NOW = "(?:vegetarian|vegan|pescatarian|diabetic|lactose intolerant|married|divorced)"
_LIVING = f"{_NOW}|left-handed|color-?blind|retired|pregnant"
_COUNTED = r"(?:\w+\s+)?(?:rent|salary|wage|pay|income|mortgage|budget|height|weight|age|size|phone\s+number)"
_UNIT = r"(?:[%€$£]|(?:[a-z]|[ckm][gm]|(?-i:[A-Z]{3})|eur(?:os?)?|dollars|pounds|kilos|feet|ft|inches|years)\b)"
_EACH = r"(?:(?:an?|per|each|every)\s+\w+|/\w+|\w+ly|net|gross)"
_SUM = rf"(?:(?:now|about)\s+)?[+$€£(]?(?:(?:to\s|[–-])?\d++(?:[.,:'’–-]\d++)*+[\")]?\s?{_UNIT}?\s?){{1,4}}{_EACH}?"
_MAKE = r"an?\s+(?:(?:[\w-]+\s+)?(?-i:[a-z]?[A-Z][\w-]*(?:\s+[A-Z\d][\w-]*)*)|(?:\w+ ){0,2}(?:car|van|truck|hybrid)\b)"
_PERSON = "landlord|doctor|dentist|therapist|manager|teacher|coach|employer"
_NAME = r"(?-i:(?:(?:Dr|Mr|Ms|Mrs|Prof)\.?\s+)?[A-Z][\w'’-]*[a-z][\w'’-]*(?:\s+[A-Z][\w'’-]*){0,3})"
_ASKED = (
    r"(?:please,?\s+(?=(?:always|never)\s)|(?=(?:always|never)\s[^.!?\n]{3,200}?,?\s+please\b)|\A(?=always\s+"
    r"(?:answer|reply|respond|write|use|speak|explain|include|provide|format|translate|cite|quote|show|list|suggest|recommend"
    r"|mention|confirm|highlight|verify|report|prioriti[sz]e|convert|check|test|add|(?:ask|call|tell|give)\s+me|run)\s+(?!it\b)))"
)
_SINCE = r"I(?:['’]ve|\s+have)?(?:\s+(?:just|recently))?\s+"
_HIRED = rf"{_SINCE}(?:(?:started|got|took)\s+(?:(?:a|my)\s+new|a)\s+job(?!\s+for)|started\s+working)\s+"
_AT = r"(?=(?:at|for|as)\s+(?!\d))(?!as\s+(?:well|\w+\s+as)\b)"  # no hours, and not "as soon as"
_WHEN = r"(?: (?:yesterday|today|\w+ \w+ ago|(?:last|this|on) (?:week|month|year|\w+day)|in (?:\w+ )?\d{4}))?"
_PLACE = rf"{_VALUE}{_WHEN}{_STOP}"
_LEFT = (
    rf"{_SINCE}(?:quit|left|resigned|changed|switched|graduated|retired|lost|worked|used)\b"
    r"(?:(?!\b(?:who|that|they|we)\b)[^.!?;:\n]){0,120}?\s(?:and|but)\s+now\s+work\s+"
)
_GREW = (
    r"(?:went|has\s+gone|rose|(?:has\s+)?(?:increased|dropped|fallen)|(?:was|has\s+been)\s+(?:raised|increased|lowered|cut)|fell)"
    r"(?:\s+(?:up|down))?(?:\s+(?:by|from)\s[^.!?;\n]{1,30}?)?\s+to\s+"
)
_TURNED = rf"{_SINCE}(?:became|become|turned|went|gone|got)\s+(?:an?\s+)?"
_HAD = rf"(?:an?|two|three|four)\s+(?:\w+\s+)?(?:{_KIN}|kid|child|children|twin)s?\b"
_HATE = r"(?:hate|dislike|do(?:n['’]t| not)\s+like|can['’]t\s+stand)"
_FORMS = (  # (rule, kind, words of which it has one, how it begins, what the memory says)
    ("lives", "identity", "liv based", rf"(?:I{_VERY}\s+live|{_AM}\s+living|{_AM}\s+based)\s+in\s+", "lives in {}"),
    ("moved", "identity", "moved", rf"{_SINCE}moved\s+to\s+", "moved to {}"),
    ("from", "identity", "from grew born", rf"(?:{_AM}\s+from|I\s+(?:grew\s+up|was\s+born)\s+in)\s+", "comes from {}"),
    ("works", "identity", "work", rf"I{_VERY}\s+work\s+{_AT}", "works {}"),
    ("allergic", "identity", "allergic", rf"{_AM}\s+(?:\w+ly\s+)?allergic\s+to\s+", "is allergic to {}"),
    ("is", "identity", "i'm i’m am", rf"{_AM}\s+(?=(?:an?\s+)?(?:{_LIVING})\b)", "is {}"),
    ("likes", "preference", "like love enjoy", rf"I{_VERY}\s+(?:like|love|enjoy)\s+", "likes {}"),
    ("dislikes", "preference", "hate like stand", rf"I{_VERY}\s+{_HATE}\s+", "dislikes {}"),
    ("name", "identity", "name", r"my\s+name(?:['’]s|\s+is)\s+", "is called {}"),
    ("name", "preference", "call", r"(?:please\s+)?call\s+me\s+", "wants to be called {}"),
    ("has", "identity", "have", rf"I\s+have\s+(?={_HAD})", "has {}"),
    ("owns", "identity", "my", rf"my\s+(?P<what>{_NAMED})(?:['’]s\s+name)?\s+is\s+(?:called\s+)?", "'s {what} is {}"),
    ("asks", "preference", "always never", _ASKED, "asks: {}"),
)
_SENTENCES = (  # the same of what is said at the beginning of a sentence, with the value
    ("owns", "identity", "my", rf"my\s+(?P<what>{_COUNTED})\s+is\s+(?P<value>{_SUM})", "'s {what} is {}"),
    ("owns", "identity", "my", rf"my\s+(?P<what>{_COUNTED})\s+{_GREW}(?P<value>{_SUM}){_WHEN}", "'s {what} is {}"),
    ("is", "identity", "bec turn went gone got", rf"{_TURNED}(?P<value>{_NOW}){_WHEN}(?!,?\s+but\b)", "is {}"),
    ("owns", "identity", "my", rf"my\s+(?P<what>car|bike|phone|laptop)\s+is\s+(?P<value>{_MAKE})", "'s {what} is {}"),
    ("owns", "identity", "my", rf"my\s+(?P<what>{_PERSON})\s+is\s+(?P<value>{_NAME})", "'s {what} is {}"),
    ("drives", "identity", "drive", rf"I{_VERY}\s+drive\s+(?P<value>{_MAKE})", "drives {}"),
    ("job", "identity", "job working", rf"{_HIRED}{_AT}{_PLACE}", "works {}"),
    ("job", "identity", "work", rf"{_LEFT}{_AT}{_PLACE}", "works {}"),
    ("job", "identity", "job", rf"{_HIRED}(?<=job )with\s+(?=the\s|(?-i:[A-Z])){_PLACE}", "works at {}"),
)
_SAYS = [
    (rule + OF_RULES, kind, near.split(), late(f"{begin}(?P<statement>{form}){end}", re.I | re.M), says)
    for begin, end, forms in ((_BEGIN, _VALUE + _STOP, _FORMS), (_FIRST, _WHOLE, _SENTENCES))
    for rule, kind, near, form, says in forms
]
_ASIDE = late(r"\s*(?:,| -|—|- )\s*(?:it|they|that|['’]?cause|but|and (?:it|they|this)|which|he|she|we|this)\b.*", re.I)
_VAGUE = late(
    r"(?i:it|that|this|these|those|them|him|her|his|their|its|how|what|when|where|why|your?|yours|one|both|all|everything|here"
    r"|there|so|too|very|not|a (?:lot|bit|while)|being able|to$|to (?:just|know|see|hear|ask|be|think|come)|the .*\b(?:it|this)"
    r"|the (?:idea|sound|way|fact|lesson|feeling|\S+ theme|\S+ vibe))\b"
)


def statements(text: str, field: str = "") -> Iterator[Extracted]:
    """What the sentences of a user's text say of him, in the order of the rules; a question says nothing of anybody, and
    neither does what points elsewhere ("I love it")."""
    lowered = text.lower()
    for rule, kind, near, pattern, says in _SAYS:
        for found in pattern.finditer(text) if any(each in lowered for each in near) else ():
            value = _ASIDE.sub("", " ".join(found["value"].split())).rstrip(" ,:-—'’")
            value = value if "“" in value or '"' in value[:-1] else value.rstrip('"”')
            if not 2 - value.isdigit() <= len(value) <= MOST_CHARS or _VAGUE.match(value):
                continue
            what = " ".join(found.groupdict().get("what", "").split())
            content = f"The user{' ' * (not what)}{says.format(value, what=what)}"
            place = found.start("statement"), found.end("value")
            yield Extracted(kind, content, rule, *place, SENTENCE_CONFIDENCE, field)
