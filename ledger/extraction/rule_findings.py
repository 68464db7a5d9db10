"""The findings of the extraction rules in a piece of conversation, and their record in the log.

The table of admission (``memories/admission_rules.py``) gives each finding its status: active, or candidate for a review.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain

from ledger.core.work import Work
from ledger.domain import confidence as confidence_rules
from ledger.domain.errors import RejectedError
from ledger.domain.policy import REVIEW
from ledger.english import endings, first_person
from ledger.english.extractor import BATCH_CAP, EXTRACTOR, Extracted, Extraction, extract_all
from ledger.english.extractor import DroppedFinding as Passed
from ledger.english.foreign import foreign
from ledger.english.question import quoted
from ledger.events import Dropped, MemoryCaptured, Origin
from ledger.extraction import policy as extraction
from ledger.extraction.applying import CONFIRMED, UNTRUSTED, confirm
from ledger.extraction.lines import ConversationLine
from ledger.memories import admission
from ledger.memories import admission_rules as admitting
from ledger.memories import rules as memory_rules
from ledger.memories.changes import is_of_rules
from ledger.memories.state import MemoryState
from projections.search import memory_hits

ENDED_AMONG = 200  # the most memories, the newest, of which a message may end some (our own choice)
_HALVES = ("preference_sentence", "decided_sentence")


def by_rules(lines: Sequence[ConversationLine]) -> Extraction:
    """Return the findings of the rules in some lines; the ``field`` of a finding is the number of its line.

    Two extractors search. rules/1 searches all lines; the rules of the first person search the lines of the user. If the
    beginning of a finding of the second lies inside a finding of the first, only the first counts. Preferences and decisions of
    the user are taken from the first person alone, because rules/1 takes half a sentence for the whole.
    """
    extracted = extract_all({str(number): line.text for number, line in enumerate(lines)})
    of_others = [
        finding for finding in extracted.kept if finding.rule not in _HALVES or lines[int(finding.field)].role != "user"
    ]
    own = [
        statement
        for number, line in enumerate(lines)
        if line.role == "user"
        for statement in first_person.statements(line.text, str(number))
        if not any(
            enclosing.field == statement.field and enclosing.start <= statement.start < enclosing.end
            for enclosing in of_others
        )
    ]
    ordered = sorted((*of_others, *own), key=lambda finding: (int(finding.field), finding.start))
    return Extraction(tuple(ordered[:BATCH_CAP]), extracted.dropped, extracted.further_dropped)


def record_rules(
    work: Work,
    lines: Sequence[ConversationLine],
    findings: Extraction,
    sources: Callable[[ConversationLine], tuple[str, ...]],
    injected: Iterable[str] = (),
    *,
    quarantined: bool = False,
) -> tuple[list[tuple[str, ConversationLine]], list[tuple[Dropped, ConversationLine]]]:
    """Record the new findings, active or as candidates by the table of admission.

    Return the memories, and the dropped findings with their reasons, each with its line. No finding in a line in quarantine is
    kept.
    """
    policy = work.policy()
    echoes = [memory for id in injected if (memory := extraction.injected(work, id)) is not None]
    kept: list[tuple[str, ConversationLine]] = []
    captured: list[tuple[str, MemoryCaptured]] = []
    dropped = [(_dropped(passed, passed.reason, lines), lines[int(passed.field)]) for passed in findings.dropped]
    earlier, added = set[tuple[str, str]](), dict.fromkeys(admission.GROUPS, 0)
    said = [_endings(line) for line in lines] if policy.admit != REVIEW and not quarantined else []
    for extracted in findings.kept:
        line = lines[int(extracted.field)]
        claimed = line.role != "user"
        attempt = work.cleaned(_of_rule(work, extracted, line, sources(line)))
        reason, known = extraction.judged(work, attempt, earlier, echoes if claimed else ())
        if reason == "duplicate" and attempt.status == admitting.ACTIVE:
            # An active memory may have the text of a candidate, as after a person's remember.
            reason, known = None, None
        reason = reason or extraction.unfit(work, attempt)
        if reason is None and policy.secrets == "refuse" and work.secret_in(attempt.content):
            reason = "secret"
        if (
            claimed
            and extracted.rule == "preference_sentence"
            and line.text[extracted.start : extracted.start + 1] == "I"
        ):
            reason, known = "speaker", None  # an assistant's "I" states no person's preference
        later = chain.from_iterable(said[int(extracted.field) + 1 :]) if _is_statement(attempt) else ()
        if reason is None and any(endings.ends(ending, extracted.content) for ending in later):
            reason = "ended"
        reason = "quarantined" if quarantined else reason
        if reason is None and attempt.status == admitting.ACTIVE:
            reason = _over_budget(work, attempt, added)
        if reason is None:
            kept.append((work.new_id("m"), line))
            captured.append((kept[-1][0], attempt))
            work.emit(*captured[-1])
            continue
        if reason == "duplicate" and known is not None:
            admission.absorb(work, known, attempt)
        elif reason == "known" and known is not None and _is_by_user(attempt, line):
            reason = CONFIRMED if confirm(work, known, attempt) else reason
        dropped.append((_dropped(extracted, reason, lines, known.id if known else None), line))
    for line, ended in zip(lines, said, strict=False):
        _end(work, line, ended, [new for new, (_, source) in zip(captured, kept, strict=True) if source is line])
    return kept, dropped


def _endings(line: ConversationLine) -> Sequence[endings.Ending]:
    """Return what the user says is over in a line, in his own words."""
    own = line.role == "user" and line.channel == "user" and not foreign(line.text)
    return tuple(endings.endings(line.text)) if own else ()


def _is_statement(attempt: MemoryCaptured) -> bool:
    return attempt.admission == admitting.OWN_WORDS.recorded


def _end(
    work: Work, line: ConversationLine, said: Sequence[endings.Ending], captured: Sequence[tuple[str, MemoryCaptured]]
) -> None:
    """End the memories of the rules that a line says are over: retract them, or supersede them by a move."""
    moves = [
        (id, data) for id, data in captured if _is_statement(data) and endings.moves(_rule(data), data.content or "")
    ]
    searched = {stem for ending in said for stem in ending.stems} | ({"live", "move", "address"} if moves else set())
    for memory in _of_rules(work, line, searched) if searched else ():
        content = memory.content or ""
        command: memory_rules.Command | None = None
        if moves and endings.is_left(moves[0][1].content or "", _rule(memory), content):
            command = memory_rules.Supersede(moves[0][0], line.time, rule=endings.ENDS)
        elif any(endings.ends(ending, content) for ending in said):
            command = memory_rules.Retract()
        if command is not None and is_of_rules(work, memory):
            for event in memory_rules.decide(command, memory):
                work.emit(memory.id, event, first=memory.row)


def _rule(memory: MemoryCaptured | MemoryState) -> str:
    return memory.origin.rule if memory.origin is not None else ""


def _of_rules(work: Work, line: ConversationLine, stems: Iterable[str]) -> Iterator[MemoryState]:
    """Yield the older active memories that rules found in the user's messages and that have words with some of the stems."""
    work.rows.flush()
    expression = " OR ".join(f"{quoted(stem)} *" for stem in sorted(stems))
    scope = tuple({*work.together(work.project), None})
    for found in memory_hits.having(work.connection(), expression, work.who.user, scope, limit=ENDED_AMONG):
        memory: MemoryState | None = work.at_row(found.row, "m") if found.origin is not None else None
        if memory is not None and memory.status == "active" and memory.valid_from < line.time:
            yield memory


def _of_rule(work: Work, finding: Extracted, line: ConversationLine, sources: tuple[str, ...]) -> MemoryCaptured:
    """Return the memory of a finding, with the status that the table of admission gives."""
    policy = work.policy()
    row = rule_row(finding, line) if policy.admit != REVIEW else None
    most = confidence_rules.millionths("claim_confidence", policy.claim_confidence)
    extractor = first_person.EXTRACTOR if finding.rule.endswith(first_person.OF_RULES) else EXTRACTOR
    return MemoryCaptured(
        content=finding.content,
        kind=finding.kind,
        status=row.status if row is not None else "candidate",
        confidence=min(finding.confidence, most) if line.role != "user" else finding.confidence,
        sources=sources,
        valid_from=min(line.time, work.recorded_at),
        origin=Origin(finding.rule, extractor, line.field, finding.start, finding.end, line.position),
        admission=row.recorded if row is not None else "",
    )


def rule_row(finding: Extracted, line: ConversationLine) -> admitting.AdmissionRow:
    """Return the row of the table of admission for a rule's finding in a line."""
    of_himself = finding.rule.endswith(first_person.OF_RULES)
    is_order = finding.rule == first_person.ORDER
    return admitting.of_finding(line, finding.start, finding.end, of_himself=of_himself, is_order=is_order)


def _is_by_user(attempt: MemoryCaptured, line: ConversationLine) -> bool:
    """Return True if the form of a line tells that the user states the attempt in his own words."""
    return line.role == "user" and line.channel not in UNTRUSTED and attempt.admission != admitting.PASTED.recorded


def _over_budget(work: Work, attempt: MemoryCaptured, added: dict[str, int]) -> str | None:
    """Return "budget" if an active memory does not fit, or None after counting the memory in ``added``."""
    try:
        admission.check_budget(work, attempt.kind, attempt.content, pending=added)
    except RejectedError:
        return "budget"
    added[admission.group_of(attempt.kind)] += len(attempt.content or "")
    return None


def _dropped(
    finding: Extracted | Passed, reason: str, lines: Sequence[ConversationLine], memory: str | None = None
) -> Dropped:
    line = lines[int(finding.field)]
    return Dropped(finding.rule, line.field, finding.start, finding.end, reason, memory, line.position)
