"""The errors of the file, the disk and other writers: a client over a network gets a fixed text, and the log gets the reason."""

from __future__ import annotations

import logging

from ledger import (
    BusyError,
    ConflictError,
    DivergedError,
    LedgerError,
    ModelError,
    NewerFormatError,
    NotFoundError,
    RejectedError,
    SuspendedError,
)

LOCKED = "other writers kept the ledger locked, and nothing was recorded: send the request again"
OUT_OF_ORDER = "the server cannot use its ledger now; its log says why to its operator"
OF_THE_CALL = (NotFoundError, RejectedError, ConflictError, ModelError)
OF_THE_SERVER = (BusyError, SuspendedError, NewerFormatError, DivergedError)  # conflicts that no client can end
_logger = logging.getLogger("ledger")


def is_outage(error: LedgerError) -> bool:
    """Return True if the error is no fault of the call; its message may name files or hosts of the server."""
    if isinstance(error, RejectedError):
        return error.rule == "closed"
    return isinstance(error, OF_THE_SERVER) or not isinstance(error, OF_THE_CALL)


def public_text(error: LedgerError, request: str) -> str:
    """Return the text of an error for a client over a network, and log the reason of an outage.

    Args:
        error: The error.
        request: The request without its arguments, for the log.
    """
    if not is_outage(error):
        return str(error)
    _logger.error("%s: %s: %s", request, type(error).__name__, error)
    return LOCKED if isinstance(error, BusyError) else OUT_OF_ORDER


def log_to_stderr() -> None:
    """Print the reasons of outages on standard error, for the operator of a server."""
    _logger.addHandler(logging.StreamHandler())
    _logger.propagate = False  # a library of a door may have a handler of its own, which would print them again
