"""The application of the facts that a model proposes: new memories, successors, retractions and relations.

On a snapshot, outside the writer's lock, the memories that each proposal may concern are looked up (``look``). Under the
lock each proposal is checked again and recorded (``TurnsBatch``). A proposal that is refused is dropped with its reason,
and no memory is retracted for it.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from ledger.core.work import Work
from ledger.domain import confidence as confidence_rules
from ledger.domain.errors import RejectedError
from ledger.domain.kinds import KINDS, SYNONYMS
from ledger.domain.policy import REVIEW, PolicyState
from ledger.domain.text import normalise
from ledger.english import near
from ledger.english.matching import DEFAULT_MATCHER, Response, match
from ledger.english.question import quoted
from ledger.english.words import folded, words
from ledger.events import MODEL_EXTRACTOR, Denied, Envelope, MemoryCaptured, Origin, Recorded, ReinforcementEvaluated
from ledger.extraction import policy as extraction
from ledger.extraction.lines import ConversationLine
from ledger.graph import policy as graph_rules
from ledger.interactions import policy as reinforcement
from ledger.interactions import rules as interaction_rules
from ledger.memories import admission
from ledger.memories import admission_rules as admitting
from ledger.memories import rules as memory_rules
from ledger.memories.changes import is_decided
from ledger.memories.state import MemoryState, evolve, since
from projections.search import memory_hits as search
from projections.views import projects

KEPT, CONFIRMED = "kept", "confirmed"
ENDED = "ended"  # the kind of denial by which an agent proposes the end of a memory that a person decided about
STATED, CLAIMED = "stated", "claimed"  # the rules of a model's findings: stated by the user, or by the assistant alone
ACTIONS = 50  # the most actions of one call that are applied, as in ATOCore's batch cap; further ones are counted
LEAST_QUOTED, QUOTE_WORDS = 2, 200  # the fewest words of a quote, and the most that are compared
FACT_CHARS = 2_000  # a longer text is not a fact (our own choice)
FACT_SHOWN_CHARS = 400  # the most characters of a fact in a prompt (our own choice)
SHOWN = 60  # the most facts in a prompt, the newest, as in rubino
PHRASE_WORDS = 20  # the most words of a text by which a memory with this text is looked up (our own choice)
LOOKED_AT = 2_000  # the most memories that one search for near duplicates reads, the newest first (our own choice)
# The confidence, in millionths, of a fact for which the model gave none in [0, 1]; equal to a sentence rule's (our own choice).
MODEL_CONFIDENCE = 600_000
UNTRUSTED = ("web", "tool", "file")  # channels whose texts always need a review

ADD, SUPERSEDE, RETRACT, RELATIONS = "add", "supersede", "retract", "relations"
# The most messages that are listed for a memory; a memory with more rests on the whole piece (our own choice)
CITED = 20
_JOINED = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")


class Proposal(Struct, frozen=True, kw_only=True):
    """A change that a model proposes: a new fact, the successor of a known fact, or the retraction of a known fact.

    Attributes:
        what: "add", "supersede" or "retract".
        content: The new fact; "" for a retraction.
        by_user: True if the model says that the user stated the fact.
        cited: The lines that state the fact.
        confidence: In millionths; None if the model gave none in [0, 1].
        fact: The number in the prompt of the known fact that is replaced or retracted, or None.
        old: The text of that known fact, for a model that gave no number; or of a fact that the same answer states.
        wrong: True if the retracted fact was wrong from the beginning, and not only ended.
        quote: The words of the user that say so, as the model gives them; "" for none.
    """

    what: str
    content: str
    kind: str = "knowledge"
    by_user: bool = True
    cited: tuple[ConversationLine, ...] = ()
    confidence: int | None = None
    entities: tuple[str, ...] = ()
    fact: int | None = None
    old: str = ""
    reason: str = ""
    wrong: bool = False
    quote: str = ""

    @property
    def claimed(self) -> bool:
        """Return True if only the assistant stated the fact: the model says so, or cites no line of the user."""
        return not self.by_user or not any(line.role == "user" for line in self.cited)

    @property
    def quoted(self) -> tuple[ConversationLine, int, int] | None:
        """Return the cited line of the user with the quote, and the quote's first and last character there; None without one.

        A quote has at least two words. Letter case and white space may differ.
        """
        parts = self.quote.split()[:QUOTE_WORDS]
        if len(words(self.quote)) < LEAST_QUOTED:
            return None
        pattern = re.compile(r"\s+".join(map(re.escape, parts)), re.IGNORECASE)
        for line in self.cited:
            if line.role == "user" and (match := pattern.search(line.text)) is not None:
                return line, match.start(), match.end()
        return None

    @property
    def trusted(self) -> bool:
        return not self.claimed and all(line.channel not in UNTRUSTED for line in self.cited)


class ActionOutcome(Struct, frozen=True):
    """The result of an action: "kept", or the reason why it was dropped.

    ``subject`` is the resulting memory, ``target`` the memory that the action was about. ``text`` is the action's text, if it
    lies nowhere else and may be kept.
    """

    what: str
    outcome: str = KEPT
    subject: str | None = None
    target: str | None = None
    text: str = ""


class ProposedRelation(Struct, frozen=True):
    """A relation between two names that a model found."""

    subject: str
    relation: str
    object: str

    @property
    def content(self) -> str:
        return f"{self.subject} {self.relation} {self.object}"


# --- on a snapshot ---------------------------------------------------------------------------------------------


class SeenProposal(Struct, frozen=True):
    """A proposal with memories found on a snapshot: the memory to replace or retract, and memories that say nearly the same.

    ``unknown`` is True if the proposal names a fact that the model was not shown. ``own`` is True if it changes a fact that the
    same answer states, which becomes the ``target`` when that fact is applied.
    """

    proposal: Proposal
    target: MemoryState | None = None
    like: tuple[MemoryState, ...] = ()
    unknown: bool = False
    own: bool = False


def look(
    connection: sqlite3.Connection,
    proposal: Proposal,
    shown: Sequence[MemoryState],
    user: str,
    project: str | None,
    stated: Collection[str] = (),
) -> SeenProposal:
    """Return the proposal with the memories that it may concern; these are checked again under the lock.

    ``stated`` holds the normal forms of the facts that the same answer states.
    """
    like = tuple(near_to(connection, proposal.content, user, project)) if proposal.what != RETRACT else ()
    if proposal.what not in (SUPERSEDE, RETRACT):
        return SeenProposal(proposal, None, like)
    if proposal.fact is not None:
        known = 1 <= proposal.fact <= len(shown)
        return SeenProposal(proposal, shown[proposal.fact - 1] if known else None, like, unknown=not known)
    if normalise(proposal.old) in stated and normalise(proposal.old) != normalise(proposal.content):
        return SeenProposal(proposal, None, like, own=True)
    return SeenProposal(proposal, _memory_stating(connection, proposal.old, shown, user, project), like)


def _memory_stating(
    connection: sqlite3.Connection, old: str, shown: Sequence[MemoryState], user: str, project: str | None
) -> MemoryState | None:
    """Return the active memory that a text means.

    A memory with exactly this text comes first, then the only memory that contains it, both of the shown memories before all
    others; then the nearest memory.
    """
    normal_form = normalise(old)
    if not normal_form:
        return None
    for memories in (shown, _containing(connection, old, user, project)):
        containing = [memory for memory in memories if normal_form in normalise(memory.content or "")]
        same = [memory for memory in containing if normalise(memory.content or "") == normal_form]
        if same or len(containing) == 1:
            return (same or containing)[0]
    return next((memory for memory in near_to(connection, old, user, project) if memory.status == "active"), None)


def _containing(connection: sqlite3.Connection, text: str, user: str, project: str | None) -> Iterator[MemoryState]:
    """Yield the active memories of a project and without a project that have the words of a text in a row."""
    joined = _JOINED.findall(folded(text))[:PHRASE_WORDS]
    if joined:
        phrase = quoted(re.sub("['’]", " ", " ".join(joined)))
        scope = {*projects.together(connection, project), None}
        matches = search.having(connection, phrase, user, tuple(scope), limit=LOOKED_AT)
        yield from (memory for memory in matches if memory.status == "active")


def near_to(connection: sqlite3.Connection, content: str, user: str, project: str | None) -> list[MemoryState]:
    """Return the memories that say nearly the same as a text, the nearest first.

    Memories of any status count, in the project and without a project. Only memories with at least one of a few words of the
    text are compared (the prefix filter). A text of n words and a memory that is similar enough share at least 85 % of these
    words, so the memory has at least one of any n - ⌈0.85 n⌉ + 1 of them. The longest words are looked up, because they are the
    rarest.
    """
    own = near.word_set(content)
    if not own:
        return []
    forms = {"".join(words(joined[0])): joined[0] for joined in _JOINED.finditer(folded(content))}
    ranked = sorted(own, key=lambda word: (forms.get(word, word) != word, -len(word), word))
    prefix = ranked[: len(own) - -(-near.THRESHOLD * len(own) // confidence_rules.ONE) + 1]
    expression = " OR ".join(quoted(" ".join(re.split("['’]", forms.get(word, word)))) for word in prefix)
    scope = {*projects.together(connection, project), None}
    matches = search.having(connection, expression, user, tuple(scope), limit=LOOKED_AT)
    judged = [(how, memory) for memory in matches if (how := same_fact(own, memory.content))]
    return [item for _, item in sorted(judged, key=lambda scored: (-scored[0], -scored[1].row))]


def same_fact(own: near.WordSet, content: str | None) -> int:
    """Return the similarity of a text, in millionths; 0 if it states another fact.

    Two texts state different facts if their similarity is below the threshold, if one denies the other, or if one has a number
    that the other has not.
    """
    word_set = near.word_set(content or "")
    similarity = near.similarity(own, word_set)
    return similarity if similarity >= near.THRESHOLD and not near.opposed(own, word_set) else 0


# --- under the lock --------------------------------------------------------------------------------------------------


class TurnsBatch:
    """The application of the proposals for one piece of conversation, in one command.

    The batch holds the memories that were made and retracted so far, and counts the characters that they add to the budget. With
    ``handed_in`` an agent hands in the proposals; no configured model made them.
    """

    def __init__(
        self,
        work: Work,
        sources: Callable[[ConversationLine], tuple[str, ...]],
        injected: Iterable[str] = (),
        *,
        handed_in: bool = False,
    ) -> None:
        self.handed_in = handed_in
        self.work = work
        self.sources = sources
        self.policy: PolicyState = work.policy()
        self.injected: list[MemoryState] = [
            memory for id in injected if (memory := extraction.injected(work, id)) is not None
        ]
        self.results: list[ActionOutcome] = []
        self.made: list[tuple[str, MemoryCaptured]] = []
        self.of_line: list[tuple[str, ConversationLine]] = []  # (memory, the line that it came from)
        self.cited: list[tuple[str, tuple[ConversationLine, ...]]] = []  # (memory, the lines that it cites)
        self._stated: dict[str, str] = {}  # the normal form of a fact of this answer -> the memory that states it
        self._retired: set[str] = set()
        self.superseded: list[str] = []
        self.retracted: list[str] = []
        self._lines: Sequence[ConversationLine] = ()
        self._chars = dict.fromkeys(admission.GROUPS, 0)

    @property
    def kept(self) -> list[str]:
        return [id for id, _ in self.made]

    def apply(
        self, seen: Sequence[SeenProposal], relations: Sequence[ProposedRelation], lines: Sequence[ConversationLine]
    ) -> list[ActionOutcome]:
        """Apply all proposals and return their outcomes: successors first, then retractions, new facts and relations.

        What changes a fact of the same answer comes after the new facts.
        """
        self._lines = lines
        for action in (SUPERSEDE, RETRACT, ADD):
            for proposal_seen in seen:
                if proposal_seen.proposal.what == action and not proposal_seen.own:
                    self.results.append(self._applied(proposal_seen, lines))
        own = [proposal_seen for proposal_seen in seen if proposal_seen.own]
        while own:  # the first whose fact is stated by now
            at = next((at for at, each in enumerate(own) if normalise(each.proposal.old) in self._stated), 0)
            proposal_seen = own.pop(at)
            self.results.append(self._applied(replace(proposal_seen, target=self._of_answer(proposal_seen)), lines))
        for relation in relations:
            self.results.append(self._related(relation))
        return self.results

    def _applied(self, seen: SeenProposal, lines: Sequence[ConversationLine]) -> ActionOutcome:
        proposal, project = seen.proposal, self.work.project
        target = seen.target.id if seen.target is not None else None
        if seen.target is not None:
            self.work.project = seen.target.project  # a successor belongs to the project of the fact that it replaces
        try:
            result = self._take(seen, lines)
        except RejectedError as refusal:
            result = ActionOutcome(proposal.what, refusal.rule.split(":")[0], refusal.subject, target)
        finally:
            self.work.project = project
        if proposal.what != RETRACT and result.subject is not None:
            self._stated.setdefault(normalise(proposal.content), result.subject)
        text = "" if result.outcome in (KEPT, "threat", "secret") else proposal.content[:FACT_CHARS]
        return replace(result, text=text, target=result.target or target)

    def _of_answer(self, seen: SeenProposal) -> MemoryState | None:
        """Return the active memory that states the fact of this answer that a proposal changes, or None."""
        id = self._stated.get(normalise(seen.proposal.old), "")
        made = dict(self.made).get(id)
        memory = self._begun(id, made) if made is not None else self.work.find(id, "m")
        return memory if memory is not None and memory.status == "active" else None

    def _begun(self, id: str, data: MemoryCaptured) -> MemoryState | None:
        """Return the state of a memory that this append begins; its row is 0, as the log gives it one later."""
        work = self.work
        envelope: Envelope[MemoryCaptured] = Envelope(
            event_id="",
            recorded_at=work.recorded_at,
            command=work.command,
            user=work.who.user,
            project=next(project for stream, _, _, project, _ in work.emitted if stream == id),
            data=data,
        )
        return evolve(None, Recorded(0, 0, id, 1, type(data).__name__, envelope))

    def _current(self, seen: SeenProposal) -> MemoryState | None:
        """Return the present state of the memory that a proposal changes; None if there is none."""
        if seen.target is None or not seen.target.row:
            return seen.target
        state: MemoryState | None = self.work.at_row(seen.target.row, "m")
        return state

    def _secret(self, *texts: str | None) -> str:
        """Return "secret" if a text has a secret and the policy refuses secrets instead of redacting them."""
        return "secret" if self.policy.secrets == "refuse" and self.work.secret_in(*texts) else ""

    def _take(self, seen: SeenProposal, lines: Sequence[ConversationLine]) -> ActionOutcome:
        """Apply a proposal; every check comes before the first event, so that nothing is retracted for a refused proposal."""
        proposal, target = seen.proposal, None
        if proposal.what == RETRACT:
            return self._take_back(seen)
        if why := _malformed(proposal):
            return ActionOutcome(proposal.what, why)
        if proposal.what == SUPERSEDE:
            target = self._current(seen)
            if seen.unknown or (seen.target is not None and target is None):
                return ActionOutcome(proposal.what, "unknown")
            if why := self._why_not_replaceable(target, proposal):
                return ActionOutcome(proposal.what, why, target.id if target is not None else None)
        elif proposal.claimed and (echoed := self._echoed(proposal.content)) is not None:
            return ActionOutcome(proposal.what, "echo", echoed.id)
        quoted = proposal.quoted
        line = next(
            (cited_line for cited_line in proposal.cited if cited_line.role == "user" or proposal.claimed),
            _without_source(lines[0]),
        )
        line = quoted[0] if quoted is not None and not proposal.claimed else line
        attempt = self.work.cleaned(self._attempt(proposal, target, line))
        if why := extraction.unfit(self.work, attempt) or self._secret(attempt.content, *(attempt.entities or ())):
            return ActionOutcome(proposal.what, why)
        reason, known = self._known(attempt, seen.like, target, proposal)
        if known is None:
            return self._capture(proposal, attempt, target, line)
        if target is not None and reason in ("known", "near_duplicate") and attempt.status == "active":
            self._retire(target, known, attempt, proposal.reason)  # the known memory is the successor, as in rubino
            return ActionOutcome(proposal.what, KEPT, known, target.id)
        return ActionOutcome(proposal.what, reason, known)

    def _take_back(self, seen: SeenProposal) -> ActionOutcome:
        """Retract the memory that a model names, if the user says in his own words that it is over or was wrong."""
        proposal = seen.proposal
        target = self._current(seen)
        if target is None:
            return ActionOutcome(RETRACT, "unknown")
        if target.id in self._retired:
            return ActionOutcome(RETRACT, "repeated", target.id)
        if target.status != "active":
            return ActionOutcome(RETRACT, "not_active", target.id)
        row = self._row(proposal, target)
        if row in (admitting.DECIDED, admitting.UNQUOTED):
            return ActionOutcome(RETRACT, self._ask_person(proposal, target), target.id)
        if row is None or row.status != admitting.ACTIVE:
            return ActionOutcome(RETRACT, "not_admitted", target.id)
        if (target.valid_from or "") > max(line.time for line in proposal.cited):
            return ActionOutcome(RETRACT, "newer", target.id)
        reason = "" if self._secret(proposal.reason) else proposal.reason
        self._end(target, memory_rules.Invalidate(reason) if proposal.wrong else memory_rules.Retract(reason))
        self._retired.add(target.id)
        self.retracted.append(target.id)
        return ActionOutcome(RETRACT, KEPT, target.id, target.id)

    def _ask_person(self, proposal: Proposal, target: MemoryState) -> str:
        """Offer the memory for review, because a turn of the user may end it, and return the outcome of the proposal."""
        ids = (line.interaction for line in proposal.cited if line.role == "user" and line.interaction is not None)
        turns = (self.work.find(id, "i") for id in ids)
        turn = next((turn for turn in turns if turn is not None and turn.extraction != interaction_rules.ERASED), None)
        if turn is None:
            return "not_admitted"
        if all(denial.memory != target.id for denial in turn.denials):
            denied = ReinforcementEvaluated(interaction_rules.HANDED_IN, 0, denied=(Denied(target.id, ENDED),))
            for event in interaction_rules.decide(interaction_rules.RecordReinforcement(denied), turn):
                self.work.emit(turn.id, event, first=turn.row)
        return "waits"

    def _end(self, target: MemoryState, command: memory_rules.Command) -> None:
        for event in memory_rules.decide(command, target):
            self.work.emit(target.id, event, first=target.row)
        self._chars[admission.group_of(target.kind)] -= len(target.content or "")

    def _row(self, proposal: Proposal, target: MemoryState | None) -> admitting.AdmissionRow | None:
        """Return the row of the table of admission that decides the status; None if every memory waits for a person."""
        if self.policy.admit == REVIEW:
            return None
        content = proposal.content or (target.content or "" if target is not None else "")
        corrects = target is not None
        if self.handed_in and self.work.who.channel not in ("agent", "user"):
            return admitting.OUTSIDE
        if self.handed_in:
            return admitting.of_handed_in(
                content,
                proposal.cited,
                self._lines,
                quoted=proposal.quoted,
                claimed=proposal.claimed,
                changes_decided=target is not None and is_decided(self.work, target),
            )
        return admitting.of_proposal(content, proposal.cited, self._lines, claimed=proposal.claimed, corrects=corrects)

    def _why_not_replaceable(self, target: MemoryState | None, proposal: Proposal) -> str:
        """Return the reason why a memory cannot be replaced; "" if it can, or if there is no memory to replace."""
        if target is None:
            return ""
        if target.id in self._retired:
            return "repeated"
        if target.status != "active":
            return "not_active"
        # A repetition is not a successor, as in rubino.
        return "same" if normalise(target.content or "") == normalise(proposal.content) else ""

    def _echoed(self, content: str) -> MemoryState | None:
        """Return a memory that the assistant had just been shown and that the text restates, or None."""
        response = Response(content)
        readable = (memory for memory in self.injected if memory.content)
        return next(
            (memory for memory in readable if match(DEFAULT_MATCHER, response, memory.content or "") is not None), None
        )

    def _attempt(self, proposal: Proposal, target: MemoryState | None, line: ConversationLine) -> MemoryCaptured:
        row = self._row(proposal, target)
        confidence = MODEL_CONFIDENCE if proposal.confidence is None else proposal.confidence
        if proposal.claimed:
            confidence = min(confidence, confidence_rules.millionths("claim_confidence", self.policy.claim_confidence))
        if row is not None and row.most is not None:
            confidence = min(confidence, row.most)
        quoted = proposal.quoted
        start, end = (quoted[1], quoted[2]) if quoted is not None and quoted[0] == line else (0, 0)
        rule = CLAIMED if proposal.claimed else STATED
        kind = SYNONYMS.get(proposal.kind or "", proposal.kind)
        return MemoryCaptured(
            content=proposal.content.strip(),
            kind=kind if kind in KINDS else target.kind if target else "knowledge",
            status=row.status if row is not None else "candidate",
            confidence=confidence,
            entities=proposal.entities,
            sources=self.sources(line),
            valid_from=min(line.time, self.work.recorded_at),
            supersedes=target.id if target is not None else None,
            origin=Origin(rule, MODEL_EXTRACTOR, line.field, start, end, line.position),
            admission=row.recorded if row is not None else "",
        )

    def _known(
        self, attempt: MemoryCaptured, like: Sequence[MemoryState], target: MemoryState | None, proposal: Proposal
    ) -> tuple[str, str | None]:
        """Return the reason why a fact is not new, and the memory that states the fact; ("", None) for a new fact.

        The memory to be replaced does not count.
        """
        besides = target.id if target is not None else ""
        if (made := self._made_near(attempt, besides)) is not None:
            return "repeated", made
        reason, known = extraction.known(self.work, attempt, ())
        matches = [(reason, known)] if known is not None else []
        matches += [(self._reason(still), still) for seen in like if (still := self._still(seen, attempt)) is not None]
        for why, candidate in matches:
            if candidate.id == besides or candidate.id in self._retired or why is None:
                continue
            if why == "duplicate":
                if attempt.status == "active" or candidate.supersedes != attempt.supersedes:
                    continue  # an active memory may stand beside a candidate, and the review shows both
                if candidate is known:
                    admission.absorb(self.work, candidate, attempt)
                    self.cited.append((candidate.id, proposal.cited))
            own = proposal.trusted and attempt.admission != admitting.PASTED.recorded
            if why == "known" and target is None and own and confirm(self.work, candidate, attempt):
                self.cited.append((candidate.id, proposal.cited))
                why = CONFIRMED
            return why, candidate.id
        return "", None

    def _reason(self, memory: MemoryState) -> str | None:
        """Return the reason that a memory with nearly the same text is against a new fact; None if it is no reason.

        A memory that ended without a rejection by a person is no reason, because the fact may have become true again.
        """
        reasons = {
            "active": "near_duplicate",
            "candidate": "duplicate",
            "invalid": "rejected",
            "retracted": "retracted",
        }
        reason = reasons.get(memory.status)
        is_no = reason in ("rejected", "retracted") and admission.is_nobodys_no(self.work, memory)
        return None if is_no else reason

    def _still(self, seen: MemoryState, attempt: MemoryCaptured) -> MemoryState | None:
        """Return the present state of a memory from the snapshot if it still states the same fact, else None."""
        memory: MemoryState | None = self.work.at_row(seen.row, "m")
        own = near.word_set(attempt.content or "")
        says = memory is not None and (memory.content == seen.content or same_fact(own, memory.content) > 0)
        return memory if says else None

    def _made_near(self, attempt: MemoryCaptured, besides: str) -> str | None:
        own = near.word_set(attempt.content or "")
        same = normalise(attempt.content or "")
        for id, data in self.made:
            if id != besides and (normalise(data.content or "") == same or same_fact(own, data.content)):
                return id
        return None

    def _capture(
        self, proposal: Proposal, attempt: MemoryCaptured, target: MemoryState | None, line: ConversationLine
    ) -> ActionOutcome:
        if attempt.status == "active":
            admission.check_budget(self.work, attempt.kind, attempt.content, frees=target, pending=self._chars)
        stream = self.work.new_id("m")
        self.work.emit(stream, attempt)
        self.made.append((stream, attempt))
        self.of_line.append((stream, line))
        self.cited.append((stream, proposal.cited))
        if attempt.status == "active":
            self._chars[admission.group_of(attempt.kind)] += len(attempt.content or "")
            if target is not None:
                self._retire(target, stream, attempt, proposal.reason)
        return ActionOutcome(proposal.what, KEPT, stream, attempt.supersedes)

    def _retire(self, target: MemoryState, by: str, attempt: MemoryCaptured, reason: str) -> None:
        shown_reason = "" if self._secret(reason) else reason
        self._end(target, memory_rules.Supersede(by, attempt.valid_from or self.work.recorded_at, shown_reason))
        self._retired.add(target.id)
        self.superseded.append(target.id)

    def _related(self, relation: ProposedRelation) -> ActionOutcome:
        """Add a relation to the first fact that was stored and stays; without such a fact the relation is dropped."""
        stored = next(((id, data) for id, data in self.made if id not in self._retired), None)
        if stored is None:
            return ActionOutcome(RELATIONS, "no_fact", text=relation.content[:FACT_CHARS])
        names = (relation.subject, relation.relation, relation.object)
        if self.work.secret_in(*names):  # a name is looked up by its text, so nothing in it can be redacted
            return ActionOutcome(RELATIONS, "secret")
        if self.policy.threats == "refuse" and self.work.threat(*names) is not None:
            return ActionOutcome(RELATIONS, "threat")
        anchor, attempt = stored
        mark = len(self.work.emitted)
        try:
            command = memory_rules.Relate(*names)
            graph_rules.say(self.work, anchor, attempt, (command,))
        except RejectedError as refusal:
            del self.work.emitted[mark:]
            return ActionOutcome(RELATIONS, refusal.rule, text=relation.content[:FACT_CHARS])
        return ActionOutcome(RELATIONS, KEPT, anchor)


def _without_source(line: ConversationLine) -> ConversationLine:
    """Return the line without its place, for a proposal that cites no line and needs only a time."""
    return replace(line, position=0, interaction=None)


def _malformed(proposal: Proposal) -> str:
    """Return the reason why a proposal's text cannot be a memory; "" if it can."""
    content = proposal.content.strip()
    if not content or not words(content):
        return "blank"
    return "too_long" if len(content) > FACT_CHARS else ""


def confirm(work: Work, believed: MemoryState, attempt: MemoryCaptured) -> bool:
    """Record that the user stated a known fact again, and return True.

    Nothing is recorded, and the answer is False, if the statement is not newer than the memory, or if a turn denies the memory. A
    memory that a turn denies waits for a person.
    """
    is_newer = (attempt.valid_from or "") > since(believed)[0]
    if not is_newer or reinforcement.is_contradicted(work, believed):
        return False
    admission.absorb(work, believed, attempt)
    return True
