"""An event-sourced memory for LLM agents: ``from ledger import Ledger``.

The public names load on first use, so that importing the package costs next to nothing.
"""

from __future__ import annotations

import logging as _logging
from typing import TYPE_CHECKING

from ledger.domain import late as _late
from ledger.domain import secrecy as _secrecy

if TYPE_CHECKING:
    from ledger.api import Ledger as Ledger
    from ledger.api import PastLedger as PastLedger
    from ledger.domain.errors import AmbiguousIdError as AmbiguousIdError
    from ledger.domain.errors import BusyError as BusyError
    from ledger.domain.errors import ConflictError as ConflictError
    from ledger.domain.errors import DamagedError as DamagedError
    from ledger.domain.errors import DependentsError as DependentsError
    from ledger.domain.errors import KeyReusedError as KeyReusedError
    from ledger.domain.errors import LedgerError as LedgerError
    from ledger.domain.errors import ModelError as ModelError
    from ledger.domain.errors import NewerFormatError as NewerFormatError
    from ledger.domain.errors import NotFoundError as NotFoundError
    from ledger.domain.errors import RejectedError as RejectedError
    from ledger.domain.errors import StorageError as StorageError
    from ledger.domain.errors import SuspendedError as SuspendedError
    from ledger.domain.errors import UnknownEventError as UnknownEventError
    from ledger.engine.settings import Settings as Settings
    from ledger.sessions.api import Session as Session
    from ledger.types import Page as Page
    from projections.core.own import Projection as Projection
    from projections.core.own import Row as Row

__version__ = "0.1.0"

_HOMES = {
    "Ledger": "ledger.api",
    "Page": "ledger.types",
    "PastLedger": "ledger.api",
    "Projection": "projections.core.own",
    "Row": "projections.core.own",
    "Session": "ledger.sessions.api",
    "Settings": "ledger.engine.settings",
}

__all__ = [
    "AmbiguousIdError",
    "BusyError",
    "ConflictError",
    "DamagedError",
    "DependentsError",
    "KeyReusedError",
    "Ledger",
    "LedgerError",
    "ModelError",
    "NewerFormatError",
    "NotFoundError",
    "Page",
    "PastLedger",
    "Projection",
    "RejectedError",
    "Row",
    "Session",
    "Settings",
    "StorageError",
    "SuspendedError",
    "UnknownEventError",
]


if not TYPE_CHECKING:  # to a type checker, a name that is not there is a mistake
    __getattr__ = _late.names_of(__name__, dict.fromkeys(__all__, "ledger.domain.errors") | _HOMES)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])


def _redacted(text: str) -> str:
    from ledger.guards import secrets

    return secrets.redacted(text, secrets.scan(text))


_secrecy.redacted = _redacted
_logging.getLogger(__name__).addHandler(_logging.NullHandler())  # what is said is for whoever configures logging
