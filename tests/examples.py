"""One canonical example of everything: each event, the envelope around it, and the states that fold out of them."""

from __future__ import annotations

from typing import Any

from msgspec import Raw

from ledger import events as e
from ledger.documents.rules import DocumentState
from ledger.interactions.rules import Denial, InteractionState
from ledger.memories.state import Edge, MemoryState
from ledger.projects.rules import JoinedProject, ProjectRoot, ProjectState, TrustedEntry
from ledger.sessions.rules.session import SessionState
from ledger.values.rules import ValueState

MEMORY, OTHER_MEMORY = "m_0123456789abcdef", "m_fedcba9876543210"
DOCUMENT, CHUNK, VALUE = "d_0123456789abcdef", "c_0123456789abcdef", "v_0123456789abcdef"
INTERACTION, PROJECT, SESSION = "i_0123456789abcdef", "p_0123456789abcdef", "s_0123456789abcdef"
OTHER_SESSION = "s_fedcba9876543210"
OBSERVATION, OTHER_OBSERVATION = "o_0123456789abcdef", "o_fedcba9876543210"
SUMMARY, SUMMARY_BENEATH, SUMMARY_BEFORE = "y_0123456789abcdef", "y_fedcba9876543210", "y_00000000000000bb"
COMMAND = "019a9f00-0000-7000-8000-000000000001"
EVENT = "019a9f00-0000-7000-8000-000000000002"
EARLIER, NOW, LATER = "2026-01-01T00:00:00.000000Z", "2026-06-01T00:00:00.000000Z", "2026-12-01T00:00:00.000000Z"

EDGE = Edge("Ana", "works_at", "Acme", None, None, 8)
METADATA = Raw(b'{"source":"slack","ticket":4711}')
ORIGIN = e.Origin(rule="decision_heading", extractor="rules/1", field="response", start=3, end=40, position=12)
BLOB = e.Blob(blob="b_00112233445566778899aabbccddeeff", size_bytes=300_000, digest="ab" * 32)

_attempt: dict[str, Any] = {
    "content": "The user prefers dark roast coffee.",
    "kind": "preference",
    "status": "active",
    "confidence": 1_000_000,
    "entities": ("coffee",),
    "tags": ("drinks",),
    "metadata": METADATA,
    "sources": (INTERACTION,),
    "valid_from": EARLIER,
    "valid_to": LATER,
    "supersedes": OTHER_MEMORY,
    "origin": ORIGIN,
    "reference_count": 4,
    "last_referenced_at": EARLIER,
    "admission": "by_source/1 own_words",
}

EVENTS: dict[str, e.EventData] = {
    type(each).__name__: each
    for each in (
        e.LedgerCreated(
            ledger_id="00112233445566778899aabbccddeeff", format=1, least_reader=1, least_writer=1, secret="5e" * 32
        ),
        e.LedgerUpgraded(format=2, least_reader=1, least_writer=2),
        e.PolicyAdopted({"matcher": "stems/3", "gain": 20_000, "extract": True, "off": (PROJECT,)}, "as tried in May"),
        e.CommandAnswered(subject=MEMORY, seen=7),
        e.CommandUndone(commands=(COMMAND,), ranges=((7, 9), (12, 12)), reason="wrong file"),
        e.CommandRedone(undone=COMMAND, ranges=((7, 9),), reason="right after all"),
        e.OriginDistrusted(kind="actor", origin="eve", ranges=((7, 9), (12, 12)), since=7, until=13, reason="forged"),
        e.OriginTrusted(distrusted=COMMAND, ranges=((7, 9),), reason="was misjudged"),
        e.ContentErased(
            kind="memory",
            subject=MEMORY,
            targets=(
                e.Redaction(position=7, before="ab" * 32, after="cd" * 32, fields=("data.content", "actor")),
                e.Redaction(position=9, before="ef" * 32, after="01" * 32, spans=(("data.prompt", 3, 9),)),
            ),
            blobs=(BLOB.blob,),
            kept=(12,),
            reason="asked for",
        ),
        e.ErasureCompleted(erasure=COMMAND, searched=("utf-8", "utf-16"), bytes_searched=4096, hits=1, replica="eu-1"),
        e.LegalHoldPlaced(subject=MEMORY, reason="case 12"),
        e.LegalHoldReleased(hold=COMMAND, reason="case closed"),
        e.CheckpointSealed(size=9, root="23" * 32, head="45" * 32, peaks=("67" * 32, "89" * 32)),
        e.WriteRefused(
            rule="size",
            subject=MEMORY,
            limit=10,
            current=9,
            requested=2,
            finding="prompt_injection",
            scanner="threats/1",
        ),
        e.TextQuarantined(position=7, finding="prompt_injection", scanner="threats/1", reason="looks like an order"),
        e.TextReleased(position=7, scanner="threats/2", reason="a quotation"),
        e.ModelCalled(
            purpose="extraction",
            model="small",
            prompt="extract/1",
            ranges=((7, 9), (12, 12)),
            shown=(MEMORY, OTHER_MEMORY),
            input_tokens=900,
            output_tokens=80,
            attempts=2,
            milliseconds=1_250,
            actions=(
                e.Acted(what="supersede", outcome="kept", subject=MEMORY, target=OTHER_MEMORY),
                e.Acted(what="add", outcome="known", target=MEMORY),
            ),
            texts=("", "The user likes coffee."),
            left_over=3,
        ),
        e.ModelCallFailed(
            purpose="extraction",
            model="small",
            prompt="extract/1",
            error="TimeoutError",
            ranges=((7, 9),),
            attempts=4,
            milliseconds=60_000,
            status=503,
            input_tokens=900,
        ),
        e.ConsolidationCompleted(
            consolidator="grouping/1",
            over="memories",
            to=40,
            sources=12,
            formed=2,
            revised=1,
            retracted=1,
            refreshed=1,
            skipped={"duplicate": 3},
            tags=("drinks",),
        ),
        e.ConsolidationFailed(
            consolidator="consolidate/1", over="memories", to=40, error="ModelFailed", tags=("drinks",)
        ),
        e.RecallDelivered(
            query="what does the user drink?",
            seen=40,
            settings={"limit": 20, "budget": None, "ranking": "score/1", "kinds": ("preference",)},
            items=(
                e.Delivered(
                    subject=INTERACTION,
                    position=7,
                    score=930_000,
                    signals={"text": 910_000, "confidence": 20_000},
                    field="response",
                    start=3,
                    end=40,
                    cut="budget",
                ),
            ),
            searched=31,
            used=35,
            warnings=("vectors-missing",),
        ),
        e.ProjectionSuspended(projection="audit", position=7, error="ValueError"),
        e.ProjectionResumed(projection="audit"),
        e.ProjectionsRebuilt(to=40, projections=("audit",)),
        e.LedgerBranched(
            ledger_id="ffeeddccbbaa99887766554433221100",
            parent="00112233445566778899aabbccddeeff",
            position=40,
            head="45" * 32,
            reason="to try something",
        ),
        e.ProjectJoined(project="p_fedcba9876543210", reason="one project under two names"),
        e.ValuePut(
            content=BLOB,
            type="text",
            namespace=("ada", "notes"),
            name="todo.md",
            expires_at=LATER,
            indexed=False,
            fields=("title", "at.city"),
        ),
        e.ValueMoved(namespace=("ada", "archive"), name="todo.md", reason="done"),
        e.ValueRemoved(reason="out of date", rule="expiry/1"),
        e.ValueRestored(reason="right after all", expires_at=LATER),
        e.ProjectRegistered(name="Übersee", description="the overseas project"),
        e.ProjectArchived(reason="it is over"),
        e.ProjectRestored(reason="it goes on"),
        e.ProjectDescribed(description="the overseas project"),
        e.ProjectAliasAdded(alias="overseas"),
        e.ProjectRenamed(name="Outre-mer"),
        e.ProjectLinked(path="/srv/overseas", machine="laptop"),
        e.ProjectStateSet(category="status", name="phase", value="two", source="the board"),
        e.ProjectStateInvalidated(category="status", name="phase", reason="over"),
        e.SessionOpened(name="monday"),
        e.SessionAliasAdded(alias="moon day", to=OTHER_SESSION),
        e.MessageAppended(
            role="assistant",
            tokens=12,
            counter="o200k",
            content="Dark roast.",
            reasoning="They said so.",
            parts=Raw(b'[{"type":"tool_result","id":"call-1"}]'),
            content_of=0,
            model="small",
            interaction=INTERACTION,
            field="response",
            speaker="Ann",
            extra=Raw(b'{"parts":{"0":{"anthropic":{"is_error":true}}}}'),
            metadata=METADATA,
            raw='{"type":"assistant","uuid":"u-1"}',
        ),
        e.MessageRepaired(
            message=9,
            reasoning="They said so on Monday.",
            model="large",
            occurred_at=EARLIER,
            extra=Raw(b'{"message":{"openai":{"annotations":[{"type":"url_citation"}]}}}'),
            metadata=METADATA,
        ),
        e.MessagesHidden(why="truncate", ranges=((7, 9), (12, 12)), messages=3, tokens=36),
        e.AbstractSet(content="They chose a coffee."),
        e.SessionDescribed(metadata=METADATA, unset=("ticket",)),
        e.SummaryCreated(
            summary=SUMMARY,
            kind="condensed",
            level="aggressive",
            depth=1,
            content="They chose a coffee.",
            tokens=5,
            counter="estimate/1",
            ranges=((7, 9), (12, 12)),
            messages=4,
            source_tokens=48,
            first=7,
            earliest=EARLIER,
            latest=NOW,
            summaries=(SUMMARY_BENEATH,),
            descendants=1,
            descendant_tokens=20,
            model="small",
            prompt="condensed/1",
            replaces=SUMMARY_BEFORE,
        ),
        e.ContextReplaced(summary=SUMMARY, summaries=(SUMMARY_BENEATH,)),
        e.SummaryInvalidated(
            summaries=(SUMMARY,), why="asked", returned=(SUMMARY_BENEATH,), reason="left out the price"
        ),
        e.SummaryRestored(summary=SUMMARY, summaries=(SUMMARY_BENEATH,), reason="right after all"),
        e.ExtractionCursorMoved(
            since=7,
            to=12,
            why="extracted",
            extractor="rules/1",
            kept=(MEMORY,),
            dropped=(e.Dropped("fact_heading", "content", 0, 9, "known", OTHER_MEMORY, position=11),),
            parent=OTHER_SESSION,
        ),
        e.CompactionSkipped(why="model", kind="leaf", messages=8, tokens=96, error="ModelFailed"),
        e.WindowAssembled(
            seen=40,
            budget=800,
            tokens=600,
            messages=((7, 9), (12, 12)),
            summaries=(SUMMARY,),
            left_out=(e.LeftOut(position=11, why="budget"),),
            recall=EVENT,
            settings={"tail": 32, "share": None, "ranking": "score/1"},
            shortened=(e.Shortened(position=12, chars=300, tokens=90),),
        ),
        e.DocumentAdded(
            path="notes/coffee.md",
            title="Coffee",
            digest="ab" * 16,
            size=2_400,
            chunks=3,
            tags=("drinks",),
            type="text",
            metadata=METADATA,
        ),
        e.ChunkAdded(
            chunk=CHUNK,
            index=2,
            content="Dark roasts are roasted longest.",
            heading_path=("Coffee", "Roasts"),
            metadata=Raw(b'{"lines":12}'),
            own=Raw(b'{"page":3}'),
        ),
        e.DocumentReplaced(
            previous=7,
            digest="cd" * 16,
            size=2_500,
            chunks=4,
            kept=((0, 1, 0),),
            removed=((2, 2),),
            title="All about coffee",
            tags=("beans",),
            metadata=METADATA,
        ),
        e.DocumentRemoved(reason="out of date"),
        e.DocumentRestored(reason="right after all"),
        e.InteractionCaptured(
            prompt="Which coffee?",
            response=BLOB,
            summary="dark roast",
            memories_used=(MEMORY,),
            chunks_used=("c_0123456789abcdef",),
            context=Raw(b'{"budget":800}'),
            reinforce=False,
            metadata=METADATA,
            extract=False,
        ),
        e.ResponseAttached(
            response="Dark roast.",
            summary="roast",
            memories_used=(MEMORY,),
            chunks_used=("c_0123456789abcdef",),
            metadata=METADATA,
        ),
        e.ReinforcementEvaluated(
            matcher="stems/3",
            pool_size=3,
            matches=(e.Matched(memory=MEMORY, overlap=3, total=4, fraction=750_000, echo=True),),
            left_over=2,
            denied=(e.Denied(memory=OTHER_MEMORY, how="negation"),),
        ),
        e.ReinforcementFailed(error="ValueError"),
        e.CandidatesExtracted(
            extractor="rules/1",
            kept=(MEMORY,),
            dropped=(e.Dropped("fact_heading", "response", 0, 9, "known", OTHER_MEMORY, position=11),),
        ),
        e.ExtractionFailed(extractor="rules/1", error="ValueError"),
        e.MemoryCaptured(**_attempt),
        e.DuplicateAbsorbed(**_attempt, rule="verbatim/2", finding="prompt_injection", scanner="threats/2"),
        e.MemoryPromoted(reason="confirmed"),
        e.MemoryRejected(reason="not so", rule="idle/1"),
        e.MemoryReinforced(
            rule="linear/1",
            delta=20_000,
            interaction=INTERACTION,
            matcher="stems/3",
            fraction=750_000,
            echo=True,
        ),
        e.ConfidenceAdjusted(rule="set/1", confidence=250_000, reason="hearsay"),
        e.MemoryRevised(content="The user prefers light roast coffee.", reason="misheard"),
        e.MemoryRetagged(
            added=("roast",), removed=("drinks",), metadata=Raw(b'{"ticket":4712,"vip":true}'), unset=("source",)
        ),
        e.MemoryCorrected(kind="knowledge", moved=True, entities=("Ada", "Acme"), reason="a slip"),
        e.ValidityChanged(valid_from=EARLIER, valid_to=NOW, reason="until June"),
        e.MemorySuperseded(by=OTHER_MEMORY, valid_to=NOW, reason="tea now", rule="decay/1", unreviewed=True),
        e.MemoryInvalidated(reason="was wrong"),
        e.MemoryRetracted(reason="private"),
        e.MemoryRestored(reason="was right"),
        e.MemoryQuarantined(reason="odd", finding="prompt_injection", scanner="threats/1"),
        e.RelationAdded(subject="Ana", relation="works_at", object="Acme", valid_from=EARLIER, valid_to=LATER),
        e.RelationRemoved(
            subject="Ana", relation="works_at", object="Acme", by=OTHER_MEMORY, reason="she left", added=8
        ),
        e.MemoryReleased(reason="fine", scanner="threats/2"),
        e.MergeProposed(
            memories=(MEMORY, OTHER_MEMORY), similarity=870_000, rule="words/1", content="Dark roast.", model="small"
        ),
        e.MemoriesMerged(memory=MEMORY, memories=(OTHER_MEMORY,), rule="merge/1", reason="one fact"),
        e.MergeRejected(reason="two facts"),
        e.ConflictFound(
            attribute="user city", memories=(MEMORY, OTHER_MEMORY), values=("Rome", "Oslo"), rule="slots/1"
        ),
        e.ConflictResolved(action="keep", winner=MEMORY, reason="she moved"),
        e.ObservationFormed(
            content="The user drinks dark roast coffee.",
            confidence=700_000,
            rule="proof/1",
            consolidator="grouping/1",
            evidence=(e.EvidenceSource(MEMORY, EARLIER), e.EvidenceSource(INTERACTION, NOW)),
            written_from=(MEMORY,),
            tags=("drinks",),
            reason="said twice",
        ),
        e.ObservationRevised(
            content="The user used to drink tea, and now coffee.",
            why="state_change",
            confidence=800_000,
            rule="given/1",
            consolidator="consolidate/1",
            written_from=(MEMORY,),
            reason="the user changed over",
        ),
        e.EvidenceAdded(evidence=(e.EvidenceSource(OTHER_MEMORY, NOW),), consolidator="grouping/1"),
        e.EvidenceWithdrawn(sources=(OTHER_MEMORY,), why="asked", reason="misheard"),
        e.ObservationMarkedStale(why="withdrawn", reason="a source is gone"),
        e.ObservationRefreshed(why="confirmed", consolidator="grouping/1"),
        e.ObservationRetracted(why="merged", by=OTHER_OBSERVATION, reason="said there too"),
        e.ObservationRestored(reason="right after all"),
    )
}


def envelope(data: Any, **changed: Any) -> e.Envelope[Any]:
    """Return an envelope around an event's data, with every field filled in."""
    fields: dict[str, Any] = {
        "event_id": EVENT,
        "schema": getattr(data, "schema", 1),
        "recorded_at": NOW,
        "occurred_at": "2026-05-31T20:00:00.000000-04:00",
        "begun": COMMAND,
        "command": "remember",
        "arguments": "ef" * 16,
        "key": "ab" * 16,
        "causation_id": EVENT,
        "correlation_id": "run-1",
        "actor": "ada",
        "client": "cli",
        "channel": "agent",
        "user": "ada",
        "agent": "helper",
        "project": PROJECT,
        "session": SESSION,
        "salt": "0011223344556677",
        "redactions": (e.Redacted("content", "aws_access_key", 3, 26, 20, "secrets/1"),),
        "data": data,
    }
    return e.Envelope(**(fields | changed))


def recorded(
    data: Any, *, stream: str = MEMORY, version: int = 2, position: int = 9, **changed: Any
) -> e.Recorded[Any]:
    """Return an event as a fold receives it, with its position and stream."""
    return e.Recorded(position, 7, stream, version, type(data).__name__, envelope(data, **changed))


def memory(**changed: Any) -> MemoryState:
    """Return the state of an active memory, with every field filled in that this status allows."""
    fields: dict[str, Any] = {
        "row": 7,
        "id": MEMORY,
        "user": "ada",
        "agent": "helper",
        "project": PROJECT,
        "kind": "preference",
        "status": "active",
        "content": "The user prefers dark roast coffee.",
        "confidence": 700_000,
        "reference_count": 1,
        "last_referenced_at": EARLIER,
        "entities": ("coffee",),
        "tags": ("drinks", "morning"),
        "metadata": '{\t"source":"slack"\t,\t"ticket":4711\t}',
        "sources": (INTERACTION,),
        "edges": (EDGE,),
        "valid_from": EARLIER,
        "valid_to": LATER,
        "supersedes": OTHER_MEMORY,
        "superseded_by": None,
        "quarantined": False,
        "before": None,
        "until_before": None,
        "underlying": None,
        "origin": ORIGIN,
        "admission": "by_source/1 own_words",
        "recorded_at": EARLIER,
        "active_at": EARLIER,
        "stated_at": None,
        "decided_at": 3,
        "version": 1,
        "position": 7,
    }
    return MemoryState(**(fields | changed))


def interaction(**changed: Any) -> InteractionState:
    fields: dict[str, Any] = {
        "row": 7,
        "id": INTERACTION,
        "user": "ada",
        "agent": "helper",
        "project": PROJECT,
        "session": SESSION,
        "client": "cli",
        "occurred_at": "2026-05-31T20:00:00.000000-04:00",
        "time": NOW,
        "recorded_at": NOW,
        "memories_used": (MEMORY,),
        "chunks_used": ("c_0123456789abcdef",),
        "prompt_at": 7,
        "response_at": 7,
        "reinforcement": "pending",
        "extraction": "pending",
        "extractor": "",
        "reinforcement_attempts": 0,
        "extraction_attempts": 0,
        "denials": (Denial(OTHER_MEMORY, 8),),
        "metadata": '{\t"source":"slack"\t,\t"ticket":4711\t}',
        "version": 1,
        "position": 7,
    }
    return InteractionState(**(fields | changed))


ENTRY = TrustedEntry("status", "phase", "two", "the board", "ada", NOW, 8)


def project(**changed: Any) -> ProjectState:
    fields: dict[str, Any] = {
        "row": 7,
        "id": PROJECT,
        "user": "ada",
        "name": "Übersee",
        "description": "the overseas project",
        "status": "active",
        "aliases": ("overseas",),
        "state": (ENTRY,),
        "joined": (JoinedProject("p_fedcba9876543210", 9),),
        "roots": (ProjectRoot("laptop", "/srv/overseas", 8),),
        "recorded_at": NOW,
        "version": 3,
        "position": 9,
    }
    return ProjectState(**(fields | changed))


def session() -> SessionState:
    """As the example of a SessionOpened leaves it."""
    return SessionState(
        row=7,
        id=SESSION,
        user="ada",
        name="monday",
        project=PROJECT,
        aliases=(),
        metadata=None,
        moved_to=None,
        messages=0,
        tokens=0,
        summary_at=None,
        extractable_at=0,
        cursor=0,
        failures=0,
        recorded_at=NOW,
        updated_at=NOW,
        version=1,
        position=7,
    )


def document(**changed: Any) -> DocumentState:
    """As the example of a DocumentAdded leaves it, all its chunks added."""
    fields: dict[str, Any] = {
        "row": 7,
        "id": DOCUMENT,
        "user": "ada",
        "agent": "helper",
        "project": PROJECT,
        "path": "notes/coffee.md",
        "title": "Coffee",
        "tags": ("drinks",),
        "metadata": '{\t"source":"slack"\t,\t"ticket":4711\t}',
        "doc_type": "text",
        "digest": "ab" * 16,
        "size": 2_400,
        "chunks": 3,
        "status": "active",
        "underlying": None,
        "text_at": 7,
        "awaited": 0,
        "recorded_at": NOW,
        "updated_at": NOW,
        "version": 4,
        "position": 10,
    }
    return DocumentState(**(fields | changed))


def value(**changed: Any) -> ValueState:
    """As the example of a ValuePut leaves it."""
    fields: dict[str, Any] = {
        "row": 7,
        "id": VALUE,
        "user": "ada",
        "agent": "helper",
        "place": '"ada","notes",',
        "name": "todo.md",
        "type": "text",
        "content_at": 7,
        "size": 300_000,
        "indexed": False,
        "fields": ("title", "at.city"),
        "expires_at": LATER,
        "status": "active",
        "underlying": None,
        "recorded_at": NOW,
        "updated_at": NOW,
        "version": 1,
        "position": 7,
    }
    return ValueState(**(fields | changed))
