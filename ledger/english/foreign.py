"""The part of a user's message that is surely his own words, by a few rules of form; the rest may be pasted (foreign/1).

An own text that counts as pasted costs a review; a pasted text that counts as own makes a stranger's words a belief about
the user. So every rule takes too much: a quote, a line of another form, or a request about a text puts its text in doubt.
"""

from __future__ import annotations

import re

from ledger.domain.late import late

LONG_CHARS, LONG_LINES = 1_000, 8
"""No part of a longer message counts as the user's own words (our choice)."""

NAME_CHARS = 40
"""A shorter quote without a first person is a name or a title, not foreign text (our choice)."""

Span = tuple[int, int]

_FENCE = late(r"(```|~~~)(?:(?!\1)[\s\S])*+(?:\1|\Z)")
_QUOTES = late(
    r"“[^“”]*+(?:”|\Z)|„[^“”„]*+(?:[“”]|\Z)|«[^«»]*+(?:»|\Z)|`[^`\n]*+`"
    r"|(?<![\w\"])\"[^\"]*+(?:\"|\Z)|(?<!\w)['‘](?=\w)[^\n'’]*+(?:(?<=\w)['’]\w[^\n'’]*+)*+['’](?!\w)"
)
_SELF = late(r"\b(?:i|i['’]?m|me|my|mine|we|our|us)\b", re.I)
_GREETING = late(
    r"\W*(?:hi|hello|hey|yo|good (?:morning|evening|afternoon|day)|thanks|thank you|please|ok(?:ay)?|sure|yes|no|great)"
    r"(?: there| all| again| a lot| so much| in advance| very much| for (?:that|the help|your help))?\W*",
    re.I,
)
# A line in the form of a mail, a log, a list, a table, code, markup or a speaker.
_FORM = late(
    r"\s*(?:[>|#<{\[@/]|--|[-*•–+]\s|\(?(?:\d{1,3}|[a-z])[.)]\s|\(?\d{1,4}[-:./]\d\d|[-=_*]{3,}|dear\b"
    r"|(?:from|to|cc|subject|sent|date|re|fwd?|von|an|betreff|de|para|objet|asunto|oggetto):)|[^\n]*?(?:\t|\w=[\"'\w])",
    re.I,
)
# Words before a colon that introduce the user's own words.
_ANNOUNCES = late(
    r"(?:[^.!?]*+[.!?])*+\W*+(?:fyi|ps|btw|by the way|update|quick update|news|good news|bad news|fun fact|about me|reminder"
    r"|just so you know|so you know|remember|please remember|note|also)\W*+",
    re.I,
)
_COLON = late(r":(?=\s|\Z)")
_SENTENCE = late(r"[^.!?…\n]++[.!?…]*+")
_POLITE = (
    r"\W*(?:(?:hi|hello|hey|ok(?:ay)?|so|and|now|then|also|please|pls|kindly|can (?:you|u)|could (?:you|u)|would you|will you"
    r"|just|help(?: me)?(?: to)?|i(?:['’]d like| want| need) you to|i (?:need|want|have) to|let['’]?s|quickly)\W+)*+"
)
_TAKES = late(  # a request that takes a text
    rf"{_POLITE}(?:translat\w*|summar\w+|tl;?dr|proof-?read|re-?(?:phrase|write|word)|paraphrase|fact[- ]?check|transcribe|grade"
    r"|rate|correct|analy[sz]e|extract|convert|fix|edit|polish|shorten|classify|continue|spell[- ]?check|improve|simplify"
    r"|(?:reply|respond|answer|write back)\s+(?:to|her|him|them|that|it|for|politely|kindly|[\"“]))\b",
    re.I,
)
_ASKS = late(
    rf"{_POLITE}(?:what|who|whose|which|why|how|where|when|is|are|was|does|do|did|should|would|can|could|may|any|thoughts"
    r"|read|look|see|explain|tell|give|write|draft|make|check|compare|find|list|sort|turn|put|describe|guess|say|show|create"
    r"|suggest|identify|review|interpret|decode|reply|answer|respond|judge|evaluate|count|spot)\b",
    re.I,
)
_THIS = late(
    r"\b(?:th(?:is|ese)(?! (?:week|weekend|month|year|morning|afternoon|evening|time|summer|winter|spring|autumn|fall|season"
    r"|quarter|\w+day|days)\b)|the (?:following|attached|above)|below)\b",
    re.I,
)
_BACK = late(r"\b(?:that|those|it|the above)\b", re.I)
_POINTS = late(r"\b(?:this|that|these|those|its?|he|she|they|him|hers?|them|his|theirs?|someone|somebody|you)\b", re.I)
_TEXTS = late(
    r"\b(?:e?-?mails?|messages?|texts?|posts?|letters?|notes?|reviews?|bios?|profiles?|cvs?|résumés?|resumes?|applications?"
    r"|articles?|stor(?:y|ies)|poems?|songs?|lyrics|transcripts?|logs?|ads?|forums?|comments?|statements?|paragraphs?|passages?"
    r"|sentences?|drafts?|speech(?:es)?|repl(?:y|ies)|answers?|summar(?:y|ies)|key points|translations?|tone|typos?|grammar"
    r"|spelling|wording|essays?|captions?|subtitles?|tweets?|threads?|tickets?|complaints?|quotes?|diary|chats?|dialogues?"
    r"|characters?|authors?|narrators?|speakers?|writers?|postcards?|voice ?mails?|monologues?|testimon\w+|cover letters?)\b",
    re.I,
)
_REPORTS = late(  # another person's words follow
    r"\b(?:sa(?:ys|id|ying)|writ(?:es|ing)|wrote|reads|states|claim(?:s|ed)|(?:told|tells|texted|emailed|messaged|wrote)\s+(?:me|us)"
    r"|posted|pasted|tweeted|commented|replied|quot(?:e|es|ed|ing)|goes|sings?|sang"
    r"|imagine|pretend|suppose|role-?play|act as|let['’]?s (?:say|play|practi[cs]e)|exercise|example"
    r"|(?:sent|got|found|saw|received|overheard|read)\s+(?:(?:me|us)\s+)?(?:this|these|the following)"
    r"|here(?:['’]s| is| are)|below is|forwarded|according to|(?:from|by) (?:my|an?|the|our|some) \w+['’]?s? ?(?=[-–—,.]\s|$))\b"
    r"|\s[-–—]\s",
    re.I,
)
_WROTE = late(  # "quoted" is mostly a price, and an exam mostly the user's own
    r"\b(?:writes|wrote|posted|tweeted|commented|replied|quot(?:e|es|ing)|pretend|imagine|exam (?:case|question)|exercise)\b",
    re.I,
)
_OF_USER = late(r"\bi(?:['’]ve| have)?(?: (?:just|already|also|once|never))? $", re.I)


def foreign(text: str) -> tuple[Span, ...]:
    """Return the parts of a user's message that may be somebody else's words, as spans of characters in order.

    The time is in proportion to the text.
    """
    if len(text) > LONG_CHARS:
        return ((0, len(text)),)
    quoted = [fence.span() for fence in _FENCE.finditer(text)]
    own = _masked(text, quoted)
    names = [quote.span() for quote in _QUOTES.finditer(own) if not _is_name(own[quote.start() : quote.end()])]
    own, quoted = _masked(own, names), sorted(quoted + names)
    if (cut := _doubtful_from(own)) is None:
        return tuple(quoted)
    start, end = cut
    outside = [(0, start)] if start else []
    rest = [(end, len(text))] if end < len(text) else []
    return (*outside, *(span for span in quoted if start <= span[0] and span[1] <= end), *rest)


def marked(text: str) -> tuple[Span, ...]:
    """Return the parts of a user's message that carry a mark of somebody else's words, as spans in order.

    This serves the statements that a model reads, because a model recognises a paste in one paragraph by its meaning. In a
    message of one line only these count: a quote, the text behind a sentence that asks about a text, and the text behind a colon
    whose words ask for something, report another's words or name a text. A message of several lines is divided as ``foreign``
    divides it.
    """
    if len(text) > LONG_CHARS or "\n" in text.strip():
        return foreign(text)
    quotes = [quote.span() for quote in _QUOTES.finditer(text) if not _is_name(text[quote.start() : quote.end()])]
    own = _masked(text, quotes)
    if (cut := _text_behind(own)) is None:
        return tuple(quotes)
    return (*(span for span in quotes if span[1] <= cut), (cut, len(text)))


def _text_behind(text: str) -> int | None:
    """Return the start of the text that a sentence of a one-line message asks about or introduces."""
    for sentence in _SENTENCE.finditer(text):
        asks = _ASKS.match(sentence[0])
        about = _TAKES.match(sentence[0]) or (asks and _THIS.search(sentence[0]))
        colon = _COLON.search(text, sentence.start(), sentence.end())
        if colon is not None and text[colon.end() :].strip():
            before = text[sentence.start() : colon.start()]
            if about or asks or any(words.search(before) for words in (_TEXTS, _WROTE, _REPORTS)):
                return colon.end()
        if (about or _WROTE.search(sentence[0])) and text[sentence.end() :].strip():
            return sentence.start() if _WROTE.search(sentence[0]) else sentence.end()
    return None


def _masked(text: str, spans: list[Span]) -> str:
    """Return the same text with blanks in place of some spans, line breaks kept."""
    for start, end in spans:
        text = text[:start] + re.sub(r"[^\n]", " ", text[start:end]) + text[end:]
    return text


def _is_name(quote: str) -> bool:
    return len(quote) <= NAME_CHARS and not _SELF.search(quote)


def _doubtful_from(text: str) -> Span | None:
    """Return the only span that is the user's own in a message with doubtful parts; None without doubtful parts."""
    lines = [(line.start(), line.end()) for line in re.finditer(r"[^\n]+", text) if line[0].strip()]
    if len(lines) > LONG_LINES or any(_FORM.match(text, start) for start, _ in lines):
        return 0, 0
    for start, end in lines:
        if (place := _turn_to_another(text, start, end)) is not None:
            return (start, place) if place >= start else (0, 0)
    if len(lines) > 1 and not all(_is_same_voice(text[start:end], is_last=end == lines[-1][1]) for start, end in lines):
        return 0, 0
    return None


def _turn_to_another(text: str, start: int, end: int) -> int | None:
    """Return the place where a line turns to another person's words: a colon, a report, or a request about a text.

    The place is -1 for a request that refers back to the text before it.
    """
    places = [colon.start() for colon in _COLON.finditer(text, start, end) if not _announces(text, start, colon)]
    places += [
        report.start()
        for report in _REPORTS.finditer(text, start, end)
        if not _OF_USER.search(text, start, report.start())
    ]
    for sentence in _SENTENCE.finditer(text, start, end):
        asks = sentence[0].endswith("?") or _ASKS.match(sentence[0]) is not None
        if _TAKES.match(sentence[0]) or (asks and _THIS.search(sentence[0])):
            places.append(sentence.start() if text[sentence.end() :].strip() else -1)
        elif asks and _BACK.search(sentence[0]) and not _SELF.search(sentence[0]):
            places.append(-1)
    return min(places, default=None)


def _announces(text: str, start: int, colon: re.Match[str]) -> bool:
    """Return True if the words before a colon introduce the user's own words on the same line."""
    rest = text[colon.end() :].split("\n", 1)[0]
    return bool(rest.strip()) and _ANNOUNCES.fullmatch(text, start, colon.start()) is not None


def _is_same_voice(line: str, *, is_last: bool) -> bool:
    """Return True if a line of several speaks as the user.

    The line is in the first person, mentions no text, and asks at most about the user and as the last line.
    """
    if _GREETING.fullmatch(line):
        return True
    asks = any(sentence[0].endswith("?") or _ASKS.match(sentence[0]) for sentence in _SENTENCE.finditer(line))
    return bool(_SELF.search(line)) and not _TEXTS.search(line) and not (asks and (not is_last or _POINTS.search(line)))
