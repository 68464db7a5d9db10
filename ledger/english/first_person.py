"""Rules for a user's statements about himself, also as people type: "I live in Lisbon.", "btw im a nurse" (rules/6).

The rules are a few forms that begin a clause, and a few general conditions. A sentence that is one short clause becomes a
statement in the third person. Every other sentence is kept word for word without its questions, because a part of it may say the
opposite of the whole: "I love hiking but hate camping." ``context`` still finds other statements in the turns.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ledger.domain.late import late
from ledger.english.extractor import SENTENCE_CONFIDENCE, Extracted

EXTRACTOR, OF_RULES = "rules/6", "_statement"
"""The name and version of the forms: another set of forms is another version."""
ORDER = "asks" + OF_RULES
"""The rule of standing orders, such as "always answer in French"."""

MOST_CHARS = 240
"""A longer sentence is a story (our choice)."""

# A sentence ends at . ! ? or a line's end, but not behind a title or an initial, and not inside a number or a name.
_SIGN = r"(?:(?<!\b(?i:dr|mr|ms|st|no))(?<!\b(?i:mrs))(?<!\b(?i:prof))(?<![\s.][A-Z])[.](?!\w)|[!?…](?!\w))"
_SENTENCE = late(rf"(?>(?:(?!{_SIGN})[^\n])++)(?:(?:{_SIGN})++[\"”')]*+)?")
_CLAUSE = late(r"[^,;]+")
_BEGIN = late(
    r"\s*(?:(?:hi|hello|hey|btw|by the way|fyi|also|and|but|cause|well|yes|yeah|no|so|ok(?:ay)?|oh|now|for the record|lol|right"
    r"|honestly|actually|quick context|context)\b[,!]?\s+){0,3}",
    re.I,
)
_VERY = r"(?:\s+(?:really|absolutely|also|still|currently|now|actually|only|mostly|usually|always|both|mainly))?"
_AM = rf"I(?:['’]?m|\s+am){_VERY}"
_SINCE = r"(?:I|we)(?:['’]?ve|\s+have)?(?:\s+just|\s+recently)?"
_KIN = (
    "wife|husband|partner|fianc[ée]e?|son|daughter|mother|father|mom|mum|dad|sister|brother|dog|cat|boss|manager|girlfriend"
    "|boyfriend|dentist|doctor|gp|therapist|landlord|landlady|teacher|coach|lad|kid|baby|grandson|granddaughter|flatmate|horse"
)
_FAMILY = rf"(?:\w+\s+)?(?:{_KIN}|kids?|child|children|twins|sisters|brothers|sons|daughters|dogs|cats)"
_STATES = (
    "vegetarian|vegan|pescatarian|diabetic|coeliac|celiac|lactose[- ]intolerant|left-handed|colou?r-?blind|retired|pregnant"
    "|single|married|divorced|widowed|deaf|dyslexic|autistic|sober"
)
_ILLS = "asthma|diabetes|epilepsy|adhd|dyslexia|arthritis|migraines|tinnitus|stammer|stutter|nut allergy"
_OWNED = (
    rf"(?:(?:older|younger|elder|eldest|oldest|youngest|twin|new|step)[- ]?)?(?:{_KIN})"
    r"|birthday|surname|budget|anniversary|hometown|time ?zone|diet|address|nickname|favou?rite(?:\s+\w+){1,2}"
    r"|(?:blood|shoe|shirt)\s+(?:type|group|size)|phone\s+number|rent|salary"
)
_THINGS = "car|bike|phone|laptop|computer|camera|flat|house|instrument|job"
_CALLED = r"(?:['’]?s\s+name)?(?:\s+is|['’]s)\s+(?!\w+ing\b)(?:called\s+)?"
_YEARS = r"(?=.*\b(?:years|yrs|since\s+(?:\d{4}|uni|school|birth)))"
_DOES = "wear|play|speak|teach|study|sing|smoke|own|rent|coach|commute|cook|drink|eat|take|use|sleep|keep|grow|share"
_MOOD = (
    "bit|little|lot|mess|wreck|zombie|king|queen|genius|idiot|failure|fool|ghost|customer|huge|big|fan|sucker|total|complete"
    "|step|few|pain|bad|terrible|horrible|dead|prisoner|slave|knight|god|goddess|minute|day|couple|tad|person|one"
)
_IS = (
    rf"an?\s+(?!(?:{_MOOD})\b)|the\s+(?!(?:{_MOOD})\b)\w+\s+(?:\w+\s+)?(?:of|in|at|for|on)\s|\d\d(?=\s+and\b|$)|head\s+of\s"
    r"|on\s+the\s+board\s|(?:studying|learning|training\s+for|saving\s+for)\s+|\w+\s+(?:weeks|months)\s+pregnant"
)
_JOKES = r"(?!(?:mondays|mornings|work|effort|meetings|people|nonsense|exercise|drama)\b)"
_NOT = r"do(?:n['’]?t|\s+not)"
_CANT = r"can(?:['’]?t|not)"
_WE = rf"(?:I|we){_VERY}"
_FORMS = (  # (rule, kind, how the clause begins, what the memory says of a short value; "" for the user's own words)
    ("lives", "identity", rf"(?:{_WE}\s+live|{_AM}\s+(?:living|based))\s+in\s+", "The user lives in {}"),
    ("moved", "identity", rf"{_SINCE}\s+moved\s+(?:back\s+)?to\s+", "The user moved to {}"),
    ("from", "identity", rf"(?:{_AM}\s+(?:originally\s+)?from|I\s+(?:grew\s+up|was\s+born)\s+in)\s+", "The user comes from {}"),
    ("works", "identity", rf"I{_VERY}\s+work\s+(?=(?:at|for|as|in|nights|days|from|part|full)\s)", "The user works {}"),
    ("allergic", "identity", rf"{_AM}\s+(?:\w+ly\s+)?allergic\s+to\s+{_JOKES}", "The user is allergic to {}"),
    ("is", "identity", rf"{_AM}\s+(?=(?:an?\s+)?(?:{_STATES})\b)", "The user is {}"),
    ("is", "identity", rf"{_AM}\s+(?:{_IS})", ""),
    ("has", "identity", rf"I\s+have\s+(?=(?:an?|two|three|four|five|\d)\s+{_FAMILY}\b)", "The user has {}"),
    ("has", "identity", rf"I(?:\s+have|(?:['’]?ve|\s+have)\s+got)\s+(?:an?\s+)?(?:\w+\s+)?(?={_ILLS})", ""),
    ("has", "identity", rf"{_SINCE}\s+(?:lived|worked|been\s+(?=an?\s|the\s|\w+ing\s|in\s|(?:{_STATES})\b)){_YEARS}", ""),
    ("drives", "identity", rf"I{_VERY}\s+drive\s+(?=an?\s)", "The user drives {}"),
    ("name", "identity", r"my\s+name(?:['’]?s|\s+is)\s+(?-i:(?=[A-Z]))", "The user is called {}"),
    ("owns", "identity", rf"my\s+(?P<what>{_OWNED}){_CALLED}", "The user's {what} is {}"),
    ("owns", "identity", rf"my\s+(?:{_THINGS})(?:\s+is|['’]?s)\s+(?=an?\s)", ""),
    ("owns", "identity", rf"(?:my|our)\s+(?:\w+\s+)?(?:{_KIN})\s+(?-i:[A-Z]\w+)\s+(?=(?:is|has|turns|lives|works|plays)\s)", ""),
    ("prefers", "preference", rf"I{_VERY}\s+prefer\s+", "The user prefers {}"),
    ("likes", "preference", rf"I{_VERY}\s+(?:like|love|enjoy)\s+", "The user likes {}"),
    ("dislikes", "preference", rf"{_WE}\s+(?:hate|dislike|{_NOT}\s+like|{_CANT}\s+stand)\s+", "The user dislikes {}"),
    ("does", "preference", rf"{_WE}\s+(?:{_DOES})(?:\s+|[.!]*$)", ""),
    ("does", "preference", rf"{_WE}\s+go\s+(?=\w+ing\s|for\s|to\s)(?=.*\b(?:every|each|\w+days?)\b)", ""),
    ("doesnt", "preference", rf"{_WE}\s+(?:never|{_NOT}|{_CANT})\s+(?:{_DOES}|have|do|drive)\s+", ""),
    ("did", "identity", rf"{_SINCE}\s+(?:quit|gave\s+up|sold|adopted|switched\s+(?:from|to))\s+", ""),
    ("decided", "adaptation", rf"{_SINCE}\s+decided\s+to\s+", ""),
    ("asks", "rule", r"(?:please,?\s+)?(?=(?:always|never)\s+(?!forget|mind|remember)\w+\s+\w)", "The user asks: {}"),
)  # fmt: skip
_SAYS = tuple((rule + OF_RULES, kind, late(form, re.I), says) for rule, kind, form, says in _FORMS)
# A sentence that states no fact: a condition, a wish, a comparison, a report, or a state of the moment.
_UNREAL = late(
    r"(?:^|\W)(?:if|unless|would|could|might|wish|imagine|suppose|pretend|as if|used to|character|maybe|hypothetically"
    r"|in (?:my|the) (?:story|novel|game|dream)|my words|lol$|haha|jk|/s|just LOVE)(?:\W|$)|\w['’]d\s",
    re.I,
)
_OWN = late(r"\b(?:i|i['’]?m|i['’]?ve|we|my|our|me)\b", re.I)
# What stands before a statement that is not the user's own: an order, a quotation, a report, a role.
_BEFORE = late(
    r"[:\"“„«>`=(]|^\s*(?:in|as|you|he|she|they|let|say)\b|\b(?:said|says|told|tells|goes|claims|thinks|sings)\b", re.I
)
_TASK = late(
    r"\b(?:translate|rewrite|paraphrase|proofread|spelling|grammar|tense|dummy|role ?play|pretend|imagine|lyrics)\b",
    re.I,
)
_ASKS = late(
    r"\s*(?:(?:and|so|but|any)\s+)?(?:what|who|whom|where|when|which|why|how|can|could|would|should|do|does|is|are|will|any|ideas?"
    r"|tips|help|need|(?:please|pls)(?!,?\s+(?:always|never))|who['’]?d|what['’]?s|how['’]?s)\b",
    re.I,
)
# A value that refers to the conversation, or is not about the user.
_POINTS = late(
    r"(?:it|that|this|these|those|the|them|him|her|his|their|its|how|what|when|where|why|your?|yours|one|both|all|everything"
    r"|here|there|so|too|very|not|when|to|being|waiting|getting|having|in|another|up|out|anything|with|into"
    r"|a (?:lot|bit|while|lie|mess|world|dream|bubble))\b",
    re.I,
)
_PREFERS = "prefers" + OF_RULES
_POINTED = frozenset(
    name + OF_RULES
    for name in ("lives", "likes", "dislikes", "prefers", "moved", "from", "does", "doesnt", "did", "owns")
)
_SHORT = late(r"[^,;:()\[\]{}<>\"“”„«»`=/]{2,80}")
_JOINED = late(
    r"(?:^|\s)(?:and|but|or|because|since|so|although|though|except|when|while|which|who|that|than|until|as long|not|[-–—]+)\s"
    r"|\s(?:I|my|me|we|our)(?:\W|$)"
)


def statements(text: str, field: str = "") -> Iterator[Extracted]:
    """Yield the statements in a user's text about the user, in the order of the text.

    Questions, and sentences without a clause that begins with a form, yield nothing. Neither does a text with a task, such as
    "translate".
    """
    if _TASK.search(text) is not None:
        return
    for sentence in _SENTENCE.finditer(text):
        if (statement := _statement(text, *sentence.span(), field)) is not None:
            yield statement


def clauses_of(text: str) -> Iterator[str]:
    """Yield the clauses of a user's text that state something: no question, task, report or condition."""
    if _TASK.search(text) is not None:
        return
    for sentence in _SENTENCE.finditer(text):
        start, end = sentence.span()
        asks = sentence[0].rstrip("\"”') ").endswith("?")
        if end - start > MOST_CHARS or asks or _UNREAL.search(text, start, end) or _BEFORE.search(sentence[0]):
            continue
        yield from (clause[0] for clause in _CLAUSE.finditer(text, start, end) if not _ASKS.match(clause[0]))


def _statement(text: str, start: int, end: int, field: str) -> Extracted | None:
    """Return the statement of a sentence: from the first clause that has a form up to the next clause that asks."""
    if end - start > MOST_CHARS:
        return None
    asks = text[start:end].rstrip("\"”') ").endswith("?")
    clauses = [clause.span() for clause in _CLAUSE.finditer(text, start, end)]
    asking = [_ASKS.match(text, *clause) is not None for clause in clauses] + [True]
    for at, (first, last) in enumerate(clauses):
        if asking[at]:
            continue
        is_own = not at or any(asking[:at]) or any(_OWN.search(text, *clause) for clause in clauses[:at])
        if not is_own or _BEFORE.search(text[start:first]) is not None or _UNREAL.search(text, first, last) is not None:
            return None
        until = asking.index(True, at)
        if asks and until == len(clauses):
            return None
        if (found := _form(text, first, clauses[until - 1][1], field)) is not None:
            return found
    return None


def _form(text: str, start: int, end: int, field: str) -> Extracted | None:
    begin = _BEGIN.match(text, start, end)
    start = begin.end() if begin is not None else start
    if _UNREAL.search(text, start, end):
        return None
    for rule, kind, form, says in _SAYS:
        if (hit := form.match(text, start, end)) is None:
            continue
        value = " ".join(text[hit.end() : end].split()).rstrip(" .!…")
        if rule in _POINTED and _POINTS.match(value.removeprefix("to ") if rule == _PREFERS else value):
            return None
        simple = bool(says) and _SHORT.fullmatch(value) is not None and _JOINED.search(value) is None
        if says and not value:
            return None
        thing = " ".join((hit.groupdict().get("what") or "").split()).lower()
        whole = " ".join(text[start:end].split())
        content = says.format(value, what=thing) if simple else f"The user says: {whole}"
        last = start + len(text[start:end].rstrip(" .!…"))
        return Extracted(kind if says else "knowledge", content, rule, start, last, SENTENCE_CONFIDENCE, field)
    return None
