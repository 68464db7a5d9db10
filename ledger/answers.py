"""The answers of the ledger: frozen objects with the same names in Python and in ``--json``, each loaded on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ledger.domain.late import names_of

if TYPE_CHECKING:
    from ledger.care.answers import BackupReport as BackupReport
    from ledger.care.answers import DoctorReport as DoctorReport
    from ledger.care.answers import ExportReport as ExportReport
    from ledger.care.answers import Finding as Finding
    from ledger.care.answers import ProjectionStatus as ProjectionStatus
    from ledger.care.answers import RebuildReport as RebuildReport
    from ledger.care.answers import RecoverReport as RecoverReport
    from ledger.care.answers import ReplayReport as ReplayReport
    from ledger.care.answers import Stats as Stats
    from ledger.documents.answers import Chunk as Chunk
    from ledger.documents.answers import Document as Document
    from ledger.erasure.answers import Erased as Erased
    from ledger.erasure.answers import ErasureReport as ErasureReport
    from ledger.erasure.answers import Hold as Hold
    from ledger.erasure.answers import Remaining as Remaining
    from ledger.extraction.answers import Added as Added
    from ledger.extraction.answers import ExtractionReport as ExtractionReport
    from ledger.extraction.answers import Learned as Learned
    from ledger.extraction.answers import Noted as Noted
    from ledger.extraction.answers import ReadToday as ReadToday
    from ledger.extraction.answers import Unread as Unread
    from ledger.graph.answers import Graph as Graph
    from ledger.graph.answers import Neighbor as Neighbor
    from ledger.graph.answers import Seed as Seed
    from ledger.guards.answers import Quarantined as Quarantined
    from ledger.guards.answers import Refusal as Refusal
    from ledger.guards.answers import ScanReport as ScanReport
    from ledger.history.answers import AuditEntry as AuditEntry
    from ledger.history.answers import Bisection as Bisection
    from ledger.history.answers import Blame as Blame
    from ledger.history.answers import BlamedStep as BlamedStep
    from ledger.history.answers import BlamedWords as BlamedWords
    from ledger.history.answers import Changed as Changed
    from ledger.history.answers import Diff as Diff
    from ledger.history.answers import Explanation as Explanation
    from ledger.history.answers import LogEntry as LogEntry
    from ledger.history.answers import ObservedBelief as ObservedBelief
    from ledger.history.answers import Step as Step
    from ledger.history.answers import WhatIf as WhatIf
    from ledger.history.answers import Why as Why
    from ledger.interactions.answers import ImportReport as ImportReport
    from ledger.interactions.answers import Interaction as Interaction
    from ledger.interactions.answers import Reinforcement as Reinforcement
    from ledger.jobs.answers import JobReport as JobReport
    from ledger.memories.answers import Belief as Belief
    from ledger.memories.answers import Candidate as Candidate
    from ledger.memories.answers import ConfidencePoint as ConfidencePoint
    from ledger.memories.answers import Memory as Memory
    from ledger.memories.answers import Provenance as Provenance
    from ledger.memories.answers import Relation as Relation
    from ledger.models.models import ModelCall as ModelCall
    from ledger.observations.answers import ConsolidationReport as ConsolidationReport
    from ledger.observations.answers import Evidence as Evidence
    from ledger.observations.answers import Observation as Observation
    from ledger.observations.answers import WithdrawalReport as WithdrawalReport
    from ledger.observations.answers import Wording as Wording
    from ledger.policy.answers import Policy as Policy
    from ledger.projections.answers import OwnProjection as OwnProjection
    from ledger.projects.answers import FolderProject as FolderProject
    from ledger.projects.answers import ProjectInfo as ProjectInfo
    from ledger.projects.answers import StateEntry as StateEntry
    from ledger.proof.answers import Checkpoint as Checkpoint
    from ledger.proof.answers import Proof as Proof
    from ledger.proof.answers import ProofCheck as ProofCheck
    from ledger.proof.answers import VerifyReport as VerifyReport
    from ledger.recall.packs import Item as Item
    from ledger.recall.packs import Pack as Pack
    from ledger.review.answers import Conflict as Conflict
    from ledger.review.answers import ConflictReport as ConflictReport
    from ledger.review.answers import Merge as Merge
    from ledger.review.answers import MergeReport as MergeReport
    from ledger.sessions.answers import CompactionReport as CompactionReport
    from ledger.sessions.answers import HistoryChange as HistoryChange
    from ledger.sessions.answers import Message as Message
    from ledger.sessions.answers import SessionInfo as SessionInfo
    from ledger.sessions.answers import Summary as Summary
    from ledger.sessions.assembled import Window as Window
    from ledger.sessions.diagram import SummaryGraph as SummaryGraph
    from ledger.sessions.rules.window import WindowItem as WindowItem
    from ledger.sessions.search_answers import Expansion as Expansion
    from ledger.sessions.search_answers import Hit as Hit
    from ledger.sessions.search_answers import Hits as Hits
    from ledger.undo.answers import Dependent as Dependent
    from ledger.undo.answers import Distrusted as Distrusted
    from ledger.undo.answers import DistrustReport as DistrustReport
    from ledger.undo.answers import UndoReport as UndoReport
    from ledger.values.answers import Value as Value
    from ledger.vectors.answers import VectorModel as VectorModel
    from ledger.vectors.answers import VectorReport as VectorReport

_HOMES = {
    "Added": "ledger.extraction.answers",
    "AuditEntry": "ledger.history.answers",
    "BackupReport": "ledger.care.answers",
    "Belief": "ledger.memories.answers",
    "Bisection": "ledger.history.answers",
    "Blame": "ledger.history.answers",
    "BlamedStep": "ledger.history.answers",
    "BlamedWords": "ledger.history.answers",
    "Candidate": "ledger.memories.answers",
    "Changed": "ledger.history.answers",
    "Checkpoint": "ledger.proof.answers",
    "Chunk": "ledger.documents.answers",
    "CompactionReport": "ledger.sessions.answers",
    "ConfidencePoint": "ledger.memories.answers",
    "Conflict": "ledger.review.answers",
    "ConflictReport": "ledger.review.answers",
    "ConsolidationReport": "ledger.observations.answers",
    "Dependent": "ledger.undo.answers",
    "Diff": "ledger.history.answers",
    "DistrustReport": "ledger.undo.answers",
    "Distrusted": "ledger.undo.answers",
    "DoctorReport": "ledger.care.answers",
    "Document": "ledger.documents.answers",
    "Erased": "ledger.erasure.answers",
    "ErasureReport": "ledger.erasure.answers",
    "Evidence": "ledger.observations.answers",
    "Expansion": "ledger.sessions.search_answers",
    "Explanation": "ledger.history.answers",
    "ExportReport": "ledger.care.answers",
    "ExtractionReport": "ledger.extraction.answers",
    "Finding": "ledger.care.answers",
    "Graph": "ledger.graph.answers",
    "HistoryChange": "ledger.sessions.answers",
    "Hit": "ledger.sessions.search_answers",
    "Hits": "ledger.sessions.search_answers",
    "Hold": "ledger.erasure.answers",
    "ImportReport": "ledger.interactions.answers",
    "Interaction": "ledger.interactions.answers",
    "Item": "ledger.recall.packs",
    "JobReport": "ledger.jobs.answers",
    "Learned": "ledger.extraction.answers",
    "LogEntry": "ledger.history.answers",
    "Memory": "ledger.memories.answers",
    "Merge": "ledger.review.answers",
    "MergeReport": "ledger.review.answers",
    "Message": "ledger.sessions.answers",
    "ModelCall": "ledger.models.models",
    "Neighbor": "ledger.graph.answers",
    "Noted": "ledger.extraction.answers",
    "Observation": "ledger.observations.answers",
    "ObservedBelief": "ledger.history.answers",
    "OwnProjection": "ledger.projections.answers",
    "Pack": "ledger.recall.packs",
    "Policy": "ledger.policy.answers",
    "FolderProject": "ledger.projects.answers",
    "ProjectInfo": "ledger.projects.answers",
    "ProjectionStatus": "ledger.care.answers",
    "Proof": "ledger.proof.answers",
    "ProofCheck": "ledger.proof.answers",
    "Provenance": "ledger.memories.answers",
    "Quarantined": "ledger.guards.answers",
    "ReadToday": "ledger.extraction.answers",
    "RebuildReport": "ledger.care.answers",
    "RecoverReport": "ledger.care.answers",
    "Refusal": "ledger.guards.answers",
    "Reinforcement": "ledger.interactions.answers",
    "Relation": "ledger.memories.answers",
    "Remaining": "ledger.erasure.answers",
    "ReplayReport": "ledger.care.answers",
    "ScanReport": "ledger.guards.answers",
    "Seed": "ledger.graph.answers",
    "SessionInfo": "ledger.sessions.answers",
    "StateEntry": "ledger.projects.answers",
    "Stats": "ledger.care.answers",
    "Step": "ledger.history.answers",
    "Summary": "ledger.sessions.answers",
    "SummaryGraph": "ledger.sessions.diagram",
    "UndoReport": "ledger.undo.answers",
    "Unread": "ledger.extraction.answers",
    "Value": "ledger.values.answers",
    "VectorModel": "ledger.vectors.answers",
    "VectorReport": "ledger.vectors.answers",
    "VerifyReport": "ledger.proof.answers",
    "WhatIf": "ledger.history.answers",
    "Why": "ledger.history.answers",
    "Window": "ledger.sessions.assembled",
    "WindowItem": "ledger.sessions.rules.window",
    "WithdrawalReport": "ledger.observations.answers",
    "Wording": "ledger.observations.answers",
}


if not TYPE_CHECKING:  # hidden from type checkers, so that they report unknown names
    __getattr__ = names_of(__name__, _HOMES)
