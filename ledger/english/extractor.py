"""The rule-based extractor: the sentences of a response that propose a memory, with rule and characters."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from heapq import merge

from ledger.domain.text import normalise

# A heading's value is a statement as its writer put it, so the content is the value word for word. A sentence's value ("tabs
# over spaces") says nothing alone, so the content repeats the sentence: "The user prefers tabs over spaces", "Decided to use
# one file", "The requirement is that nothing leaves the machine". Length and repetition are always judged on the value, as in
# ATOCore, never on the words put before it.

EXTRACTOR = "rules/1"
"""The name and version: another set of rules, patterns or numbers is another version."""

MIN_VALUE_CHARS = 8
"""A shorter value is dropped as too_short (as in ATOCore)."""

MAX_VALUE_CHARS = 280
"""A longer value is dropped as too_long (as in ATOCore)."""

BATCH_CAP = 50
"""The most proposals of one pass; later values are dropped as batch_cap (as in ATOCore)."""

MAX_DROPPED = 2_000
"""The most dropped values that one pass lists, which is the limit of a list in one event; further ones are counted."""

HEADING_CONFIDENCE = 700_000
"""The confidence of a heading rule's proposals in millionths (our choice; ATOCore's is not known): a person set the label."""

SENTENCE_CONFIDENCE = 600_000
"""The confidence of a sentence rule's proposals in millionths (our choice): a phrase may be quoted or hypothetical."""


@dataclass(frozen=True, slots=True)
class Extracted:
    """A proposal of a memory.

    ``start`` and ``end`` (characters, half open) cover the heading or turn of phrase and its value in the text of ``field``;
    ``confidence`` is the rule's prior in millionths.
    """

    kind: str
    content: str
    rule: str
    start: int
    end: int
    confidence: int
    field: str = ""


@dataclass(frozen=True, slots=True)
class DroppedFinding:
    """A value that a rule found and the pass did not propose. ``reason`` is too_short, too_long, repeated or batch_cap.

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
    """The result of one pass, in the order of the text; ``further_dropped`` counts those beyond the 2,000 of ``dropped``."""

    kept: tuple[Extracted, ...]
    dropped: tuple[DroppedFinding, ...]
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

# Patterns take linear time: repeats are possessive or cannot match the text that follows them, and matches never overlap.
# At a line's start: up to 4 Markdown markers, emphasis, the word, ":" or a dash, the rest of the line. A hyphen needs a
# space after it ("Decision-making is hard" is not a heading), and "::" is not a colon ("Constraint::new").
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
    """Return the proposals of the rules from several texts, as one pass: one batch cap, one set of known values.

    Each item carries the name of its field. A value that a heading proposed is not proposed again by a sentence inside that
    heading's line. The time is in proportion to the text.
    """
    batch = _Batch()
    for name, text in fields.items():
        covered = 0
        for hit in _scan(text):
            heading = hit.rule.of_heading
            if heading or hit.start >= covered:
                proposed = batch.add(name, hit)
                covered = hit.end if heading and proposed else covered
    return Extraction(tuple(batch.kept), tuple(batch.dropped), batch.further_dropped)


@dataclass(slots=True)
class _Batch:
    kept: list[Extracted] = field(default_factory=list)
    dropped: list[DroppedFinding] = field(default_factory=list)
    further_dropped: int = 0
    seen: set[tuple[str, str, str]] = field(default_factory=set)

    def add(self, name: str, hit: _Found) -> bool:
        """Keep or drop a value, and return True if its length is right for a proposal."""
        rule, reason = hit.rule, self._reason(hit)
        if not reason:
            content = rule.before + hit.value
            self.kept.append(Extracted(rule.kind, content, rule.name, hit.start, hit.end, rule.confidence, name))
        elif len(self.dropped) < MAX_DROPPED:
            content = rule.before + hit.value[:MAX_VALUE_CHARS]
            self.dropped.append(DroppedFinding(rule.kind, content, rule.name, hit.start, hit.end, reason, name))
        else:
            self.further_dropped += 1
        return reason not in ("too_short", "too_long")

    def _reason(self, hit: _Found) -> str:
        if len(hit.value) < MIN_VALUE_CHARS:
            return "too_short"
        if len(hit.value) > MAX_VALUE_CHARS:
            return "too_long"
        key = (hit.rule.kind, normalise(hit.value), hit.rule.name)
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
    return merge(*scans, key=lambda hit: hit.start)


def _headings(text: str) -> Iterator[_Found]:
    for hit in _HEADING.finditer(text):
        yield _found(_HEADINGS[hit["word"].lower()], hit.start("word"), hit)


def _sentences(text: str, rule: _Rule, pattern: re.Pattern[str]) -> Iterator[_Found]:
    for hit in pattern.finditer(text):
        if not text.startswith(("?", "？"), hit.end("value")):  # a question states nothing
            yield _found(rule, hit.start(), hit)


def _found(rule: _Rule, start: int, hit: re.Match[str]) -> _Found:
    value = _trimmed(hit["value"])
    return _Found(rule, start, hit.start("value") + len(value), " ".join(value.split()))


def _trimmed(value: str) -> str:
    """Return a value without trailing punctuation, and without closing marks whose opening mark stands before the value."""
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
