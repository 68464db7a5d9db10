"""The administration of logs that several machines share in PostgreSQL: ``from ledger import shared``.

Each function reaches the server itself; none needs a ledger that is open.
"""

from __future__ import annotations

from ledger.domain.errors import NotFoundError, RejectedError
from ledger.log.shared.opening import check_driver, open_shared
from ledger.log.shared.port import Replica as Replica

TIMEOUT_SECONDS = 30.0


def prepare(url: str, *, role: str = "") -> int:
    """Make the tables of shared logs in a database, or check those that are there; return their version.

    Args:
        url: A URL of a role that may make a schema in the database. The tables belong to this role.
        role: Another role that applications connect as, which gets the rights that they need. A superuser would see the
            rows of all tenants, so applications need a role that is none.

    Raises:
        NewerFormatError: A newer version of the product made the tables.
        StorageError: The server is older than PostgreSQL 15, or the database is not in UTF-8.
        UnreachableError: The server cannot be reached.
    """
    check_driver(url)
    from ledger.log.shared.preparing import prepare_schema

    return prepare_schema(url, role, TIMEOUT_SECONDS)


def replicas(url: str, tenant: str) -> list[Replica]:
    """Return the machines that follow a log, by name, with their lag and their erasures that are pending.

    Raises:
        UnreachableError: The server cannot be reached.
    """
    return open_shared(url, tenant, "", timeout_seconds=TIMEOUT_SECONDS).replicas()


def forget(url: str, tenant: str, machine: str, *, reason: str) -> None:
    """Count a machine no longer among those that follow a log, so that erasures do not wait for it.

    Its file may still hold erased texts: see to it that the file is gone. A machine that reports again is counted again.

    Args:
        url: The URL of the database.
        tenant: The name of the log.
        machine: The name of the machine, as ``replicas`` has it.
        reason: The reason, which is kept.

    Raises:
        RejectedError: There is no reason.
        NotFoundError: No machine of this name follows the log.
        UnreachableError: The server cannot be reached.
    """
    if not reason.strip():
        raise RejectedError("a machine is forgotten with a reason, and none was given", rule="reason")
    if not open_shared(url, tenant, "", timeout_seconds=TIMEOUT_SECONDS).forget(machine, reason):
        raise NotFoundError(f"no machine {machine!r:.60} follows the log of {tenant!r:.60}; replicas(url, tenant) lists them")
