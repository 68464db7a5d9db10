"""What ``tools/convert.py`` renames: the types of commit ee43cfd and, of each, the fields and stored words of today."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from msgspec import Struct


class Change(Struct, frozen=True):
    """One type of event: its name today, fields with other names, fields that are gone, and values with other words (by the
    field's old name)."""

    type: str = ""
    fields: Mapping[str, str] = {}
    gone: tuple[str, ...] = ()
    values: Mapping[str, Callable[[Any], Any]] = {}

    def path(self, name: str) -> str | None:
        """The name by which an erasure names a field of the event ("data.content"); None where there is none any more."""
        base = name.removeprefix("data.")
        if base == name:
            return name
        if base in self.gone or self.type == "CommandAnswered":
            return None
        return f"data.{self.fields.get(base, base)}"

    def inside(self, name: str) -> str:
        """The same for a text inside the data ("tags[2]")."""
        base, bracket, rest = name.partition("[")
        return self.fields.get(base, base) + bracket + rest


def words(**names: str) -> Callable[[Any], Any]:
    """Each word by its new one: a word alone, those of a list, or the names in an object."""

    def change(value: Any) -> Any:
        if isinstance(value, list):
            return [change(each) for each in value]
        if isinstance(value, dict):
            return {names.get(name, name): each for name, each in value.items()}
        return names.get(value, value)

    return change


def each(fields: Mapping[str, str] | None = None, **values: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The fields of one object, or of each in a list, by their new names, and ``values`` of some with other words."""

    def change(value: Any) -> Any:
        if isinstance(value, list):
            return [change(one) for one in value]
        mapped = {name: values[name](one) if name in values else one for name, one in value.items()}
        return {(fields or {}).get(name, name): one for name, one in mapped.items()}

    return change


SAME = Change()

TEXTS = words(response_summary="summary")  # the field of a turn that a text lies in
_DROPPED = each({"reason": "why"}, field=TEXTS)
_ATTEMPT = Change(values={"origin": each(field=TEXTS)})
_RELATION = {"source": "subject", "target": "object"}
_COUNTS = {"upto": "to", "updated": "revised", "retired": "retracted"}
_TURN = {"response_summary": "summary", "context_pack": "context"}
_OBSERVED = {"text": "content", "why": "reason"}
_POLICY = words(matches_a_turn="max_matches")
_ASKED = words(k="limit", status="statuses")

TYPES: dict[str, Change] = {
    "BulkFinished": Change("CommandAnswered"),
    "BulkStarted": Change("CommandAnswered"),
    "CandidatesExtracted": Change(values={"dropped": _DROPPED}),
    "ConflictFound": Change(fields={"slot": "attribute", "members": "memories"}),
    "ConflictResolved": Change(values={"action": words(both="accept")}),
    "ConsolidationCompleted": Change(fields=_COUNTS),
    "ConsolidationFailed": Change(fields=_COUNTS, gone=("attempt",)),
    "ContextAssembled": Change("WindowAssembled"),
    "DocumentIngested": Change("DocumentAdded", fields={"doc_type": "type"}),
    "DuplicateAbsorbed": _ATTEMPT,
    "EdgeAsserted": Change("RelationAdded", fields=_RELATION),
    "EdgeRetired": Change("RelationRemoved", fields=_RELATION | {"asserted": "added"}),
    "ExtractionCursorMoved": Change(values={"why": words(seeded="skipped"), "dropped": _DROPPED}),
    "ExtractionFailed": Change(gone=("attempt",)),
    "InteractionCaptured": Change(fields=_TURN),
    "MemoryCaptured": _ATTEMPT,
    "MemoryPromoted": Change(fields={"note": "reason"}),
    "MemoryReinforced": Change(gone=("confidence", "reference_count")),
    "MemoryRestored": Change(gone=("status",)),
    "MessageAppended": Change(values={"field": TEXTS}),
    "MessageRepaired": Change(fields={"created_at": "occurred_at"}),
    "ModelCalled": Change(values={"actions": each(outcome=words(updated="revised", retired="retracted"))}),
    "ObservationFormed": Change(fields=_OBSERVED),
    "ObservationRetired": Change("ObservationRetracted"),
    "ObservationRevised": Change(fields=_OBSERVED | {"reason": "why"}),
    "PolicyAdopted": Change(values={"parameters": _POLICY}),
    "ProjectStateInvalidated": Change(fields={"key": "name"}),
    "ProjectStateSet": Change(fields={"key": "name"}, gone=("previous",)),
    "ProjectionParked": Change("ProjectionSuspended", fields={"at": "position"}),
    "RecallServed": Change("RecallDelivered", values={"settings": _ASKED, "items": each(field=TEXTS)}),
    "ReinforcementEvaluated": Change(gone=("echoes",)),
    "ReinforcementFailed": Change(gone=("attempt",)),
    "ResponseAttached": Change(fields=_TURN),
    "SourceDistrusted": Change("OriginDistrusted", fields={"source": "origin"}),
    "SourceTrusted": Change("OriginTrusted"),
    "SummaryInvalidated": Change(values={"why": words(rebuilt="rewritten")}),
    "SummarySet": Change("AbstractSet", fields={"summary": "content"}),
    "TextQuarantined": Change(fields={"at": "position"}),
    "TextReleased": Change(fields={"at": "position"}),
    "WriteRefused": Change(gone=("digest",), values={"rule": words(edge="relation", moot="obsolete")}),
}

COMMANDS = {
    "add_alias": "projects.add_alias",
    "add_session_alias": "session.add_alias",
    "adjust": "memories.set_confidence",
    "adopt_policy": "policy.set",
    "append": "session.append",
    "assemble": "session.window",
    "attach_response": "interactions.add_response",
    "checkpoint": "proof.checkpoint",
    "clear": "session.clear",
    "compact": "session.compact",
    "create": "open",
    "distrust": "history.distrust",
    "expire": "jobs.run",
    "extraction": "extract",
    "find_conflicts": "conflicts.find",
    "find_merges": "merges.find",
    "hold": "holds.add",
    "ingest": "documents.add",
    "invalidate_state": "projects.remove_state",
    "invalidate_summary": "session.summaries.invalidate",
    "lift_hold": "holds.remove",
    "observe": "observations.add",
    "park": "suspend",
    "quarantine": "guards.quarantine",
    "rebuild": "maintenance.rebuild",
    "rebuild_summary": "session.summaries.rewrite",
    "reconcile": "session.reconcile",
    "register_project": "projects.add",
    "reinforcement": "interactions.reinforce",
    "reject_merge": "merges.reject",
    "relate": "graph.relate",
    "release": "guards.release",
    "remove_document": "documents.remove",
    "replace": "session.replace",
    "rescan": "guards.scan",
    "restore_document": "documents.restore",
    "restore_summary": "session.summaries.restore",
    "retag": "memories.tag",
    "seed_extraction": "session.skip_extraction",
    "set_state": "projects.set_state",
    "set_summary": "session.set_abstract",
    "set_validity": "memories.set_validity",
    "truncate": "session.truncate",
    "trust": "history.trust",
    "unrelate": "graph.unrelate",
    "upgrade": "open",
    "withdraw_source": "observations.withdraw",
}
SEVERAL = {  # one word of before that is several today: what a command of each has among its ``marks``; "" for the others
    "extract": {"on i_": "extract", "": "session.extract"},
    "merge": {"MemoriesMerged first": "merges.combine", "": "merges.apply"},
    "reinforce": {"on i_": "interactions.reinforce", "": "reinforce"},
    "resolve": {"ConflictResolved both": "conflicts.accept", "": "conflicts.resolve"},
}


def marks(stream: str, version: int, type_: str, data: Mapping[str, Any]) -> Iterator[str]:
    """What one of its events shows about which command of today it was."""
    yield f"on {stream[:2]}"
    if version == 1:
        yield f"{type_} first"
    if type_ == "ConflictResolved":
        yield f"{type_} {data['action']}"


def command(word: str, marked: Collection[str]) -> str:
    """A command's name today, by its old one and the ``marks`` of its events."""
    if (several := SEVERAL.get(word)) is not None:
        return next(name for mark, name in several.items() if not mark or mark in marked)
    return COMMANDS.get(word, word)


COMMAND_IDS = {  # the field that names a command, for parts of a bulk act
    "CommandUndone": "commands",
    "CommandRedone": "undone",
    "SourceTrusted": "distrusted",
    "ErasureCompleted": "erasure",
    "LegalHoldReleased": "hold",
}

_OLD = """
BulkFinished BulkStarted CandidatesExtracted CheckpointSealed ChunkAdded CommandAnswered CommandRedone CommandUndone
CompactionSkipped ConfidenceAdjusted ConflictFound ConflictResolved ConsolidationCompleted ConsolidationFailed ContentErased
ContextAssembled ContextReplaced DocumentIngested DocumentRemoved DocumentReplaced DocumentRestored DuplicateAbsorbed
EdgeAsserted EdgeRetired ErasureCompleted EvidenceAdded EvidenceWithdrawn ExtractionCursorMoved ExtractionFailed
InteractionCaptured LedgerCreated LedgerUpgraded LegalHoldPlaced LegalHoldReleased MemoriesMerged MemoryCaptured
MemoryInvalidated MemoryPromoted MemoryQuarantined MemoryReinforced MemoryRejected MemoryReleased MemoryRestored
MemoryRetagged MemoryRetracted MemoryRevised MemorySuperseded MergeProposed MergeRejected MessageAppended MessageRepaired
MessagesHidden ModelCallFailed ModelCalled ObservationFormed ObservationMarkedStale ObservationRefreshed ObservationRestored
ObservationRetired ObservationRevised PolicyAdopted ProjectAliasAdded ProjectRegistered ProjectStateInvalidated
ProjectStateSet ProjectionParked ProjectionResumed RecallServed ReinforcementEvaluated ReinforcementFailed ResponseAttached
SessionAliasAdded SessionOpened SourceDistrusted SourceTrusted SummaryCreated SummaryInvalidated SummaryRestored SummarySet
TextQuarantined TextReleased ValidityChanged WriteRefused
"""
OLD_TYPES = frozenset(_OLD.split())
