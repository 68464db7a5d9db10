"""What the rules find in a piece of conversation, recorded under the lock; the table of admission says of which status."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from ledger.domain import admitting, first_person
from ledger.domain import confidence as rules
from ledger.domain.errors import RejectedError
from ledger.domain.events import Dropped, MemoryCaptured, Origin
from ledger.domain.extraction import BATCH_CAP, EXTRACTOR, Extracted, Extraction, extract_all
from ledger.domain.extraction import Dropped as Passed
from ledger.domain.policy import REVIEW, Policy
from ledger.domain.turns import Line
from ledger.engine.work import Work
from ledger.policies import admission, extraction
from ledger.policies.turns import CONFIRMED, UNTRUSTED, confirm

_BY_HIMSELF = re.compile(r"\b(?:I|we)(?:['’]ve| have)?(?: (?:just|finally|also|already|now))? $", re.IGNORECASE)


def by_rules(lines: Sequence[Line]) -> Extraction:
    """Return what the rules find in some lines, as one pass; each finding's ``field`` is the number of its line.

    What a user says of himself is nothing that lies inside of what rules/1 finds; of his preferences the forms of a first
    person decide alone, for those of rules/1 take half a sentence for the whole.
    """
    found = extract_all({str(number): line.text for number, line in enumerate(lines)})
    of_others = [
        finding
        for finding in found.kept
        if finding.rule != "preference_sentence" or lines[int(finding.field)].role != "user"
    ]
    own = [
        statement
        for number, line in enumerate(lines)
        if line.role == "user"
        for statement in first_person.statements(line.text, str(number))
        if not any(other.field == statement.field and other.start <= statement.start < other.end for other in of_others)
    ]
    ordered = sorted((*of_others, *own), key=lambda finding: (int(finding.field), finding.start))
    return Extraction(tuple(ordered[:BATCH_CAP]), found.dropped, found.further_dropped)


def record_rules(
    work: Work,
    lines: Sequence[Line],
    found: Extraction,
    sources: Callable[[Line], tuple[str, ...]],
    injected: Iterable[str] = (),
    *,
    quarantined: bool = False,
) -> tuple[list[tuple[str, Line]], list[tuple[Dropped, Line]]]:
    """Under the lock: what is new becomes a memory, active or a candidate as the table of admission says; everything else is
    listed with its reason; each with its line. Of lines in quarantine nothing is kept."""
    policy = work.policy()
    echoes = [memory for id in injected if (memory := extraction.injected(work, id)) is not None]
    kept: list[tuple[str, Line]] = []
    dropped = [(_dropped(passed, passed.reason, lines), lines[int(passed.field)]) for passed in found.dropped]
    earlier, added = set[tuple[str, str]](), dict.fromkeys(admission.GROUPS, 0)
    for each in found.kept:
        line = lines[int(each.field)]
        claimed = line.role != "user"
        attempt = work.cleaned(_of_rule(each, line, sources(line), policy))
        reason, known = extraction.judged(work, attempt, earlier, echoes if claimed else ())
        if reason == "duplicate" and attempt.status == admitting.ACTIVE:
            reason, known = None, None  # what is believed stands beside what waits, as a person's remember does
        reason = reason or extraction.unfit(work, attempt)
        if reason is None and policy.secrets == "refuse" and work.secret_in(attempt.content):
            reason = "secret"
        if claimed and each.rule == "preference_sentence" and line.text[each.start : each.start + 1] == "I":
            reason, known = "speaker", None  # an assistant's "I" is nobody's preference
        reason = "quarantined" if quarantined else reason
        if reason is None and attempt.status == admitting.ACTIVE:
            reason = _over_budget(work, attempt, added)
        if reason is None:
            kept.append((work.new_id("m"), line))
            work.emit(kept[-1][0], attempt)
            continue
        if reason == "duplicate" and known is not None:
            admission.absorb(work, known, attempt)
        elif reason == "known" and known is not None and _is_by_user(attempt, line):
            reason = CONFIRMED if confirm(work, known, attempt) else reason
        dropped.append((_dropped(each, reason, lines, known.id if known else None), line))
    return kept, dropped


def _of_rule(found: Extracted, line: Line, sources: tuple[str, ...], policy: Policy) -> MemoryCaptured:
    """Return the memory of a finding, with the status that its line of the table of admission gives."""
    row = rule_row(found, line) if policy.admit != REVIEW else None
    most = rules.millionths("claim_confidence", policy.claim_confidence)
    extractor = first_person.EXTRACTOR if found.rule.endswith(first_person.OF_RULES) else EXTRACTOR
    return MemoryCaptured(
        content=found.content,
        kind=found.kind,
        status=row.status if row is not None else "candidate",
        confidence=min(found.confidence, most) if line.role != "user" else found.confidence,
        sources=sources,
        valid_from=line.time,
        origin=Origin(found.rule, extractor, line.field, found.start, found.end, line.position),
        admission=row.recorded if row is not None else "",
    )


def rule_row(found: Extracted, line: Line) -> admitting.Row:
    """The line of the table of what a rule found in a line."""
    stated = found.rule.endswith(first_person.OF_RULES)
    prefers = found.rule == "preference_sentence" and line.text[found.start : found.start + 1] == "I"
    before = line.text[max(0, found.start - 40) : found.start]
    decided = found.rule == "decided_sentence" and _BY_HIMSELF.search(before) is not None
    of_himself = stated or prefers or decided
    is_order = found.rule == first_person.ORDER
    return admitting.of_finding(line, found.start, found.end, of_himself=of_himself, is_order=is_order)


def _is_by_user(attempt: MemoryCaptured, line: Line) -> bool:
    """Return True if the user states the attempt in his own words, as far as a form can tell."""
    return line.role == "user" and line.channel not in UNTRUSTED and attempt.admission != admitting.PASTED.recorded


def _over_budget(work: Work, attempt: MemoryCaptured, added: dict[str, int]) -> str | None:
    """The reason why an active memory does not fit; one that does counts in ``added``."""
    try:
        admission.check_budget(work, attempt.kind, attempt.content, pending=added)
    except RejectedError:
        return "budget"
    added[admission.group_of(attempt.kind)] += len(attempt.content or "")
    return None


def _dropped(found: Extracted | Passed, reason: str, lines: Sequence[Line], memory: str | None = None) -> Dropped:
    line = lines[int(found.field)]
    return Dropped(found.rule, line.field, found.start, found.end, reason, memory, line.position)
