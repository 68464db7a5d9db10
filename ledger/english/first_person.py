"""Rules for a user's statements about himself in a plain sentence: "I live in Lisbon.", "My sister is called Ana." (rules/5).

The rules are a few forms that begin a sentence, and a few general conditions. A sentence that is one short clause becomes a
statement in the third person. Every other sentence is kept word for word, because a part of it may say the opposite of the
whole: "I love hiking but hate camping." ``context`` still finds other statements in the turns.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ledger.domain.late import late
from ledger.english.extractor import SENTENCE_CONFIDENCE, Extracted

EXTRACTOR, OF_RULES = "rules/5", "_statement"
"""The name and version of the forms: another set of forms is another version."""
ORDER = "asks" + OF_RULES
"""The rule of standing orders, such as "always answer in French"."""

MOST_CHARS = 240
"""A longer sentence is a story (our choice)."""

# A sentence ends at . ! ? or a line's end, but not behind a title or an initial, and not inside a number or a name.
_SIGN = r"(?:(?<!\b(?i:dr|mr|ms|st|no))(?<!\b(?i:mrs))(?<!\b(?i:prof))(?<![\s.][A-Z])[.](?!\w)|[!?…](?!\w))"
_SENTENCE = late(rf"(?>(?:(?!{_SIGN})[^\n])++)(?:(?:{_SIGN})++[\"”')]*+)?")
_BEGIN = late(r"\s*(?:(?:hi|hello|hey|btw|by the way|fyi|also|and|well|yes|no|so|ok(?:ay)?|oh)\b[,!]?\s+){0,2}", re.I)
_VERY = r"(?:\s+(?:really|absolutely|also|still|currently|now|actually))?"
_AM = rf"I(?:['’]?m|\s+am){_VERY}"
_SINCE = r"(?:I|we)(?:['’]ve|\s+have)?(?:\s+just|\s+recently)?"
_KIN = (
    "wife|husband|partner|fianc[ée]e?|son|daughter|mother|father|mom|mum|dad|sister|brother|dog|cat|boss|manager|girlfriend"
    "|boyfriend|dentist|doctor|gp|therapist|landlord|landlady|teacher|coach"
)
_FAMILY = rf"(?:\w+\s+)?(?:{_KIN}|kids?|child|children|twins|sisters|brothers|sons|daughters|dogs|cats)"
_STATES = "vegetarian|vegan|pescatarian|diabetic|coeliac|celiac|lactose[- ]intolerant|left-handed|colou?r-?blind|retired|pregnant"
_OWNED = (
    rf"(?:(?:older|younger|elder|eldest|oldest|youngest|twin|new|step)[- ]?)?(?:{_KIN})"
    r"|birthday|anniversary|hometown|time ?zone|diet|address|nickname|favou?rite(?:\s+\w+){1,2}"
    r"|(?:blood|shoe|shirt)\s+(?:type|size)|phone\s+number|rent|salary"
)
_NOT = r"do(?:n['’]?t|\s+not)\s+like|can['’]?t\s+stand"
_FORMS = (  # (rule, kind, how the sentence begins, what the memory says of a short value)
    ("lives", "identity", rf"(?:I{_VERY}\s+live|{_AM}\s+(?:living|based))\s+in\s+", "The user lives in {}"),
    ("moved", "identity", rf"{_SINCE}\s+moved\s+(?:back\s+)?to\s+", "The user moved to {}"),
    ("from", "identity", rf"(?:{_AM}\s+(?:originally\s+)?from|I\s+(?:grew\s+up|was\s+born)\s+in)\s+", "The user comes from {}"),
    ("works", "identity", rf"I{_VERY}\s+work\s+(?=(?:at|for|as)\s)", "The user works {}"),
    ("allergic", "identity", rf"{_AM}\s+(?:\w+ly\s+)?allergic\s+to\s+", "The user is allergic to {}"),
    ("is", "identity", rf"{_AM}\s+(?=(?:an?\s+)?(?:{_STATES})\b)", "The user is {}"),
    ("has", "identity", rf"I\s+have\s+(?=(?:an?|two|three|four|five|\d)\s+{_FAMILY}\b)", "The user has {}"),
    ("drives", "identity", rf"I{_VERY}\s+drive\s+(?=an?\s)", "The user drives {}"),
    ("name", "identity", r"my\s+name(?:['’]?s|\s+is)\s+(?-i:(?=[A-Z]))", "The user is called {}"),
    ("owns", "identity", rf"my\s+(?P<what>{_OWNED})(?:['’]s\s+name)?\s+is\s+(?:called\s+)?", "The user's {what} is {}"),
    ("prefers", "preference", rf"I{_VERY}\s+prefer\s+", "The user prefers {}"),
    ("likes", "preference", rf"I{_VERY}\s+(?:like|love|enjoy)\s+", "The user likes {}"),
    ("dislikes", "preference", rf"I{_VERY}\s+(?:hate|dislike|{_NOT})\s+", "The user dislikes {}"),
    ("asks", "preference", r"(?:please,?\s+)?(?=(?:always|never)\s+\w)", "The user asks: {}"),
)  # fmt: skip
_SAYS = tuple((rule + OF_RULES, kind, late(form, re.I), says) for rule, kind, form, says in _FORMS)
# A sentence that states no fact: a condition, a wish, a comparison, or a state of the moment.
_UNREAL = late(
    r"(?:^|\W)(?:if|unless|would|could|might|wish|imagine|suppose|pretend|as if|used to|character"
    r"|in (?:my|the) (?:story|novel|game|dream)|my words|lol|/s)(?:\W|$)|\w['’]d\s",
    re.I,
)
# A value that refers to the conversation, or is not about the user.
_POINTS = late(
    r"(?:it|that|this|these|those|the|them|him|her|his|their|its|how|what|when|where|why|your?|yours|one|both|all|everything"
    r"|here|there|so|too|very|not|when|to|being|waiting|getting|having|in|a (?:lot|bit|while|lie|mess|world|dream|bubble))\b",
    re.I,
)
_PREFERS = "prefers" + OF_RULES
_POINTED = frozenset(name + OF_RULES for name in ("lives", "likes", "dislikes", "prefers", "moved", "from"))
_SHORT = late(r"[^,;:()\[\]{}<>\"“”„«»`=/]{2,80}")
_JOINED = late(
    r"(?:^|\s)(?:and|but|or|because|since|so|although|though|except|when|while|which|who|that|than|until|as long|not|[-–—]+)\s"
    r"|\s(?:I|my|me|we|our)(?:\W|$)"
)


def statements(text: str, field: str = "") -> Iterator[Extracted]:
    """Yield the statements in a user's text about the user, in the order of the text.

    Questions, and sentences in which no form stands at the beginning, yield nothing.
    """
    for sentence in _SENTENCE.finditer(text):
        if (
            not sentence[0].rstrip("\"”') ").endswith("?")
            and (statement := _statement(text, *sentence.span(), field)) is not None
        ):
            yield statement


def _statement(text: str, start: int, end: int, field: str) -> Extracted | None:
    begin = _BEGIN.match(text, start, end)
    start = begin.end() if begin is not None else start
    if end - start > MOST_CHARS or _UNREAL.search(text, start, end):
        return None
    for rule, kind, form, says in _SAYS:
        if (hit := form.match(text, start, end)) is None:
            continue
        value = " ".join(text[hit.end() : end].split()).rstrip(" .!…")
        if not value or (rule in _POINTED and _POINTS.match(value.removeprefix("to ") if rule == _PREFERS else value)):
            return None
        simple = _SHORT.fullmatch(value) is not None and _JOINED.search(value) is None
        thing = " ".join((hit.groupdict().get("what") or "").split()).lower()
        whole = " ".join(text[start:end].split())
        content = says.format(value, what=thing) if simple else f"The user says: {whole}"
        last = start + len(text[start:end].rstrip(" .!…"))
        return Extracted(kind, content, rule, start, last, SENTENCE_CONFIDENCE, field)
    return None
