"""An event-sourced memory for LLM agents: ``from ledger import Ledger``.

The public names load on first use, so that importing the package costs next to nothing.
"""

from __future__ import annotations

import logging as _logging
from typing import TYPE_CHECKING

from ledger.domain import late as _late

if TYPE_CHECKING:
    from ledger.aio.ledger import AsyncLedger as AsyncLedger
    from ledger.answers import Added as Added
    from ledger.answers import AuditEntry as AuditEntry
    from ledger.answers import Candidate as Candidate
    from ledger.answers import Diff as Diff
    from ledger.answers import ErasureReport as ErasureReport
    from ledger.answers import Interaction as Interaction
    from ledger.answers import Item as Item
    from ledger.answers import JobReport as JobReport
    from ledger.answers import Memory as Memory
    from ledger.answers import Message as Message
    from ledger.answers import Pack as Pack
    from ledger.answers import Step as Step
    from ledger.answers import Summary as Summary
    from ledger.answers import UndoReport as UndoReport
    from ledger.answers import Value as Value
    from ledger.answers import WhatIf as WhatIf
    from ledger.answers import Why as Why
    from ledger.answers import Window as Window
    from ledger.api import Ledger as Ledger
    from ledger.api import PastLedger as PastLedger
    from ledger.core.settings import Settings as Settings
    from ledger.documents.answers import Chunk as Chunk
    from ledger.documents.answers import Document as Document
    from ledger.domain.errors import AmbiguousIdError as AmbiguousIdError
    from ledger.domain.errors import BusyError as BusyError
    from ledger.domain.errors import ConflictError as ConflictError
    from ledger.domain.errors import DamagedError as DamagedError
    from ledger.domain.errors import DependentsError as DependentsError
    from ledger.domain.errors import DivergedError as DivergedError
    from ledger.domain.errors import KeyReusedError as KeyReusedError
    from ledger.domain.errors import LedgerError as LedgerError
    from ledger.domain.errors import ModelError as ModelError
    from ledger.domain.errors import NewerFormatError as NewerFormatError
    from ledger.domain.errors import NotFoundError as NotFoundError
    from ledger.domain.errors import RejectedError as RejectedError
    from ledger.domain.errors import StorageError as StorageError
    from ledger.domain.errors import SuspendedError as SuspendedError
    from ledger.domain.errors import UnknownEventError as UnknownEventError
    from ledger.domain.errors import UnknownOutcomeError as UnknownOutcomeError
    from ledger.domain.errors import UnreachableError as UnreachableError
    from ledger.observations.answers import Observation as Observation
    from ledger.sessions.api import Session as Session
    from ledger.types import Page as Page
    from projections.core.own import Projection as Projection
    from projections.core.own import Row as Row

__version__ = "0.1.0"

_ANSWERS = (  # the answers of everyday calls; ledger.answers has all others too
    "Added",
    "AuditEntry",
    "Candidate",
    "Chunk",
    "Diff",
    "Document",
    "ErasureReport",
    "Interaction",
    "Item",
    "JobReport",
    "Memory",
    "Message",
    "Observation",
    "Pack",
    "Step",
    "Summary",
    "UndoReport",
    "Value",
    "WhatIf",
    "Why",
    "Window",
)
_HOMES = dict.fromkeys(_ANSWERS, "ledger.answers") | {
    "AsyncLedger": "ledger.aio.ledger",
    "Ledger": "ledger.api",
    "Page": "ledger.types",
    "PastLedger": "ledger.api",
    "Projection": "projections.core.own",
    "Row": "projections.core.own",
    "Session": "ledger.sessions.api",
    "Settings": "ledger.core.settings",
}

__all__ = [
    "Added",
    "AmbiguousIdError",
    "AsyncLedger",
    "AuditEntry",
    "BusyError",
    "Candidate",
    "Chunk",
    "ConflictError",
    "DamagedError",
    "DependentsError",
    "Diff",
    "DivergedError",
    "Document",
    "ErasureReport",
    "Interaction",
    "Item",
    "JobReport",
    "KeyReusedError",
    "Ledger",
    "LedgerError",
    "Memory",
    "Message",
    "ModelError",
    "NewerFormatError",
    "NotFoundError",
    "Observation",
    "Pack",
    "Page",
    "PastLedger",
    "Projection",
    "RejectedError",
    "Row",
    "Session",
    "Settings",
    "Step",
    "StorageError",
    "Summary",
    "SuspendedError",
    "UndoReport",
    "UnknownEventError",
    "UnknownOutcomeError",
    "UnreachableError",
    "Value",
    "WhatIf",
    "Why",
    "Window",
]


if not TYPE_CHECKING:  # hidden from type checkers, so that they report unknown names
    __getattr__ = _late.names_of(__name__, dict.fromkeys(__all__, "ledger.domain.errors") | _HOMES)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])


_logging.getLogger(__name__).addHandler(_logging.NullHandler())  # silent unless the program configures logging
