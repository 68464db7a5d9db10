"""The rule-based extractor: which sentences of a response propose a memory, under which rule, from which characters."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from heapq import merge

from ledger.domain.text import normalise

# What a proposal looks like. A heading's value is a statement as its writer put it, so it is the content word for word.
# A sentence's value ("tabs over spaces") says nothing alone, so the content repeats what the sentence said about it:
# "The user prefers tabs over spaces", "Decided to use one file", "The requirement is that nothing leaves the machine".
# Length and repetition are always judged on the value (SEEDS 1b), never on the words put before it.

EXTRACTOR = "rules/1"
"""Name and version: another set of rules, patterns or numbers is another version."""

MIN_VALUE_CHARS = 8
"""A shorter value is dropped as too_short (SEEDS 1b)."""

MAX_VALUE_CHARS = 280
"""A longer value is dropped as too_long (SEEDS 1b)."""

BATCH_CAP = 50
"""One pass proposes at most this many; what comes after is dropped as batch_cap (SEEDS 1b)."""

MAX_DROPPED = 2_000
"""One pass lists at most this many dropped values and counts the rest: the limit of a list in one event (DESIGN 3)."""

HEADING_CONFIDENCE = 700_000
"""Prior of a heading rule in millionths. Ours (ATOCore's is not known): someone labelled the line on purpose."""

SENTENCE_CONFIDENCE = 600_000
"""Prior of a sentence rule in millionths. Ours: a turn of phrase may be quoted, hypothetical or somebody else's."""


@dataclass(frozen=True, slots=True)
class Extracted:
    """A proposal. ``start`` and ``end`` (characters, half open) cover the heading or turn of phrase and its value in
    the text of ``field``; ``confidence`` is the rule's prior in millionths."""

    kind: str
    content: str
    rule: str
    start: int
    end: int
    confidence: int
    field: str = ""


@dataclass(frozen=True, slots=True)
class Dropped:
    """What a rule found and the pass did not propose: ``reason`` is too_short, too_long, repeated or batch_cap.

    Of a value that is too long ``content`` holds the first 280 characters; the span covers all of it.
    """

    kind: str
    content: str
    rule: str
    start: int
    end: int
    reason: str
    field: str = ""


@dataclass(frozen=True, slots=True)
class Extraction:
    """One pass, in the order of the text; ``further_dropped`` counts those beyond the 2,000 that ``dropped`` lists."""

    kept: tuple[Extracted, ...]
    dropped: tuple[Dropped, ...]
    further_dropped: int = 0


@dataclass(frozen=True, slots=True)
class _Rule:
    name: str
    kind: str
    confidence: int
    before: str = ""

    @property
    def of_heading(self) -> bool:
        return not self.before


_HEADINGS = {
    "decision": _Rule("decision_heading", "adaptation", HEADING_CONFIDENCE),
    "constraint": _Rule("constraint_heading", "project", HEADING_CONFIDENCE),
    "requirement": _Rule("requirement_heading", "project", HEADING_CONFIDENCE),
    "fact": _Rule("fact_heading", "knowledge", HEADING_CONFIDENCE),
}

# Patterns take linear time: repeats are possessive or cannot match what follows them, and no match overlaps the next.
# At a line's start: up to 4 Markdown markers, emphasis, the word, ":" or a dash, the rest of the line. A hyphen needs a
# space after it ("Decision-making is hard" is no heading), and "::" is no colon ("Constraint::new").
_HEADING = re.compile(
    r"(?<![^\r\n])[^\S\r\n]*+(?:(?:#{1,6}|[-*+>•]|\d{1,3}[.)]|\[[ xX]\])[^\S\r\n]++){0,4}+"
    r"[*_]{0,3}+(?P<word>decision|constraint|requirement|fact)(?![^\W_])"
    r"[^\S\r\n]*+[*_]{0,3}+[^\S\r\n]*+(?:[:：](?!:)|[—–]|-(?=\s))(?:[*_]{1,3}(?=\s))?[^\S\r\n]*+(?P<value>[^\r\n]*+)",
    re.IGNORECASE,
)

# A sentence ends at . ! ? … before a space or the end (closing marks may stand between), so that
# "v3.11" and "e.g. this" go on; and at the end of its line, unless the next line goes on in lower case.
_GAP = r"(?=\s)[^\S\n]*+\n?+[^\S\n]*+"
_VALUE = (
    r"(?P<value>(?:[^.!?…。！？\r\n]++|(?<=\be\.g)\.|(?<=\bi\.e)\.|[.!?…]++(?![\"'”’»)\]*_]*+(?:\s|\Z))"
    r"|\r?\n[^\S\r\n]*+(?=[a-zß-öø-ÿ]))++)"
)


def _sentence(phrase: str, unless: str = "") -> re.Pattern[str]:
    return re.compile(rf"(?i:{unless}\b{phrase.replace(' ', _GAP)}){_GAP}{_VALUE}")


_PREFERS = _Rule("preference_sentence", "preference", SENTENCE_CONFIDENCE, "The user prefers ")
_DECIDED = _Rule("decided_sentence", "adaptation", SENTENCE_CONFIDENCE, "Decided to ")
_REQUIRED = _Rule("requirement_sentence", "project", SENTENCE_CONFIDENCE, "The requirement is ")
_SENTENCES = (
    ("prefer", _PREFERS, _sentence(r"(?:I|the user) prefers?")),
    ("decided", _DECIDED, _sentence(r"decided to", unless="(?<!not )(?<!n't )(?<!n’t )(?<!never )(?<!yet )")),
    ("requirement", _REQUIRED, _sentence(r"the requirement is:?")),
)

_TRAILING = " \t\r\n\f\v.,;:!?…。！？；：，、"
_PAIRS = ("()", "[]", "“”", "«»", "****", "____", "**", '""', "``")  # an opening half and a closing half each
_MAX_DANGLING = 4


@dataclass(frozen=True, slots=True)
class _Found:
    rule: _Rule
    start: int
    end: int
    value: str


def extract_all(fields: Mapping[str, str]) -> Extraction:
    """What the rules propose from several texts, as one pass in their order: one batch cap, one set of values seen.

    Each item carries the name of its field. A value that a heading proposed does not come again from a sentence inside
    that heading's line. Takes time in proportion to the text.
    """
    batch = _Batch()
    for name, text in fields.items():
        covered = 0
        for found in _scan(text):
            heading = found.rule.of_heading
            if heading or found.start >= covered:
                proposed = batch.add(name, found)
                covered = found.end if heading and proposed else covered
    return Extraction(tuple(batch.kept), tuple(batch.dropped), batch.further_dropped)


@dataclass(slots=True)
class _Batch:
    kept: list[Extracted] = field(default_factory=list)
    dropped: list[Dropped] = field(default_factory=list)
    further_dropped: int = 0
    seen: set[tuple[str, str, str]] = field(default_factory=set)

    def add(self, name: str, found: _Found) -> bool:
        """Keep it or drop it; whether its value is of a length to propose."""
        rule, reason = found.rule, self._reason(found)
        if not reason:
            content = rule.before + found.value
            self.kept.append(Extracted(rule.kind, content, rule.name, found.start, found.end, rule.confidence, name))
        elif len(self.dropped) < MAX_DROPPED:
            content = rule.before + found.value[:MAX_VALUE_CHARS]
            self.dropped.append(Dropped(rule.kind, content, rule.name, found.start, found.end, reason, name))
        else:
            self.further_dropped += 1
        return reason not in ("too_short", "too_long")

    def _reason(self, found: _Found) -> str:
        if len(found.value) < MIN_VALUE_CHARS:
            return "too_short"
        if len(found.value) > MAX_VALUE_CHARS:
            return "too_long"
        key = (found.rule.kind, normalise(found.value), found.rule.name)
        if key in self.seen:
            return "repeated"
        if len(self.kept) >= BATCH_CAP:
            return "batch_cap"
        self.seen.add(key)
        return ""


def _scan(text: str) -> Iterator[_Found]:
    lowered = text.lower()  # only to skip the patterns whose word is nowhere in the text
    scans = [_headings(text)] if any(word in lowered for word in _HEADINGS) else []
    scans += [_sentences(text, rule, pattern) for word, rule, pattern in _SENTENCES if word in lowered]
    return merge(*scans, key=lambda found: found.start)


def _headings(text: str) -> Iterator[_Found]:
    for hit in _HEADING.finditer(text):
        yield _found(_HEADINGS[hit["word"].lower()], hit.start("word"), hit)


def _sentences(text: str, rule: _Rule, pattern: re.Pattern[str]) -> Iterator[_Found]:
    for hit in pattern.finditer(text):
        if not text.startswith(("?", "？"), hit.end("value")):  # who asks whether states nothing
            yield _found(rule, hit.start(), hit)


def _found(rule: _Rule, start: int, hit: re.Match[str]) -> _Found:
    value = _trimmed(hit["value"])
    return _Found(rule, start, hit.start("value") + len(value), " ".join(value.split()))


def _trimmed(value: str) -> str:
    """Without trailing punctuation, and without closing marks whose opening mark stands before the value."""
    value = value.rstrip(_TRAILING)
    for _ in range(_MAX_DANGLING):
        closer = next((pair[len(pair) // 2 :] for pair in _PAIRS if _dangles(value, pair)), "")
        if not closer:
            break
        value = value.removesuffix(closer).rstrip(_TRAILING)
    return value


def _dangles(value: str, pair: str) -> bool:
    opening, closing = pair[: len(pair) // 2], pair[len(pair) // 2 :]
    if not value.endswith(closing):
        return False
    return value.count(closing) % 2 == 1 if opening == closing else value.count(closing) > value.count(opening)
