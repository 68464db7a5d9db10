"""An event-sourced memory for LLM agents: ``from ledger import Ledger``.

The public names load on first use, so that importing the package costs next to nothing.
"""

from __future__ import annotations

import logging as _logging
from typing import TYPE_CHECKING, Any

from ledger.domain import secrecy as _secrecy

if TYPE_CHECKING:
    from ledger.answers import Interaction as Interaction
    from ledger.answers import Memory as Memory
    from ledger.core import Core as Ledger
    from ledger.domain.errors import AmbiguousIdError as AmbiguousIdError
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
    from ledger.language.door import ModelCall as ModelCall
    from ledger.language.port import Answer as ModelAnswer
    from ledger.language.port import LanguageModel as Model
    from ledger.language.port import Request as ModelRequest
    from ledger.sessions.api import Session as Session
    from ledger.sessions.summarising import SummaryRequest as SummaryRequest
    from ledger.settings import Settings as Settings

__version__ = "0.1.0"

_HOMES = {
    "Ledger": "ledger.core:Core",
    "Interaction": "ledger.answers",
    "Memory": "ledger.answers",
    "Session": "ledger.sessions.api",
    "SummaryRequest": "ledger.sessions.summarising",
    "Settings": "ledger.settings",
    "ModelCall": "ledger.language.door",
    "Model": "ledger.language.port:LanguageModel",
    "ModelRequest": "ledger.language.port:Request",
    "ModelAnswer": "ledger.language.port:Answer",
    **dict.fromkeys(
        (
            "AmbiguousIdError",
            "ConflictError",
            "DamagedError",
            "DependentsError",
            "KeyReusedError",
            "LedgerError",
            "ModelError",
            "NewerFormatError",
            "NotFoundError",
            "RejectedError",
            "StorageError",
            "SuspendedError",
            "UnknownEventError",
        ),
        "ledger.domain.errors",
    ),
}

__all__ = [
    "AmbiguousIdError",
    "ConflictError",
    "DamagedError",
    "DependentsError",
    "Interaction",
    "KeyReusedError",
    "Ledger",
    "LedgerError",
    "Memory",
    "Model",
    "ModelAnswer",
    "ModelCall",
    "ModelError",
    "ModelRequest",
    "NewerFormatError",
    "NotFoundError",
    "RejectedError",
    "Session",
    "Settings",
    "StorageError",
    "SummaryRequest",
    "SuspendedError",
    "UnknownEventError",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'ledger' has no attribute {name!r}")
    from importlib import import_module

    home, _, there = _HOMES[name].partition(":")
    return getattr(import_module(home), there or name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])


def _redacted(text: str) -> str:
    from ledger.guards import secrets

    return secrets.redacted(text, secrets.scan(text))


_secrecy.redacted = _redacted
_logging.getLogger(__name__).addHandler(_logging.NullHandler())  # what is said is for whoever configures logging
