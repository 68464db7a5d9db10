"""The administration of logs that several machines share in PostgreSQL: ``from ledger import shared``.

Each function reaches the server itself; none needs a ledger that is open.
"""

from __future__ import annotations

from contextlib import closing

from ledger.care.answers import LostEvent as LostEvent
from ledger.care.answers import RejoinReport as RejoinReport
from ledger.care.answers import SharedCheck as SharedCheck
from ledger.domain.errors import NotFoundError, RejectedError
from ledger.log.paths import StrPath
from ledger.log.shared.opening import check_driver, open_shared
from ledger.log.shared.port import Replica as Replica

TIMEOUT_SECONDS = 30.0


def prepare(url: str, *, role: str = "", only_tenant: str = "", version: int | None = None) -> int:
    """Make the tables of shared logs in a database, or move those that are there to a format; return the format.

    Machines go on reading meanwhile. Commands wait for a moment; those of a product that does not know the format are refused
    from then on, and those of newer products go on.

    Args:
        url: A URL of a role that may make a schema in the database. The tables belong to this role.
        role: Another role that applications connect as, which gets the rights that they need. A superuser would see the
            rows of all tenants, so applications need a role that is none. The owner of the tables then sees all rows too, and
            can dump them.
        only_tenant: The tenant whose rows alone the role sees and writes, whatever its statements name. A role that was bound
            stays so; another call binds it to another tenant.
        version: The format of the tables; None is the newest that this product knows. An earlier one is the way back, until
            the first command in the newer format.

    Raises:
        ConflictError: An earlier format was asked for, and events were written in the newer one.
        RejectedError: This product does not know the format, or the role that is to see one tenant only is, or may become, a
            role that sees all.
        NewerFormatError: A newer version of the product made the tables.
        StorageError: The server is older than PostgreSQL 15, or the database is not in UTF-8.
        UnreachableError: The server cannot be reached.
    """
    check_driver(url)
    from ledger.log.shared.preparing import prepare_schema
    from ledger.log.shared.schema import FORMAT

    if version is not None and (type(version) is not int or not 1 <= version <= FORMAT):
        raise RejectedError(
            f"the format {version!r:.40} was asked for; this product knows 1 to {FORMAT}", rule="format"
        )
    if only_tenant and not role:
        raise RejectedError("only_tenant binds a role, and none was named: give role=… too", rule="role")
    return prepare_schema(url, role, only_tenant, version, TIMEOUT_SECONDS)


def replicas(url: str, tenant: str) -> list[Replica]:
    """Return the files that follow a log, by their machines' names, with their lag and their erasures that are pending.

    Raises:
        UnreachableError: The server cannot be reached.
    """
    return open_shared(url, tenant, "", timeout_seconds=TIMEOUT_SECONDS).replicas()


def check(path: StrPath, url: str | None = None, *, max_behind: float = 60.0) -> SharedCheck:
    """Ask the shared log whether a machine's file follows it, for a probe; nothing is changed, and an error is an answer.

    Args:
        path: The machine's file, which processes may have open.
        url: The URL of the database; None takes the settings of the file.
        max_behind: The most seconds since the machine's last report if its file lacks events or erasures wait for it.

    Raises:
        NotFoundError: There is no file.
        RejectedError: The file follows no shared log, or no URL is known.
    """
    from ledger.core.steps import check_seconds
    from ledger.log.event_store import EventStore
    from ledger.shared import files, health

    check_seconds(max_behind, "max_behind")
    url, row = _url_of(path, url), files.replica_row(path)
    log = open_shared(url, row.tenant, row.machine, timeout_seconds=health.ASK_SECONDS)
    with closing(EventStore.open(path, readonly=True)) as store, store.snapshot() as connection:
        return health.check(connection, log, max_behind)[0]


def _url_of(path: StrPath, url: str | None) -> str:
    """Return the URL of the log of a file, or else that of the file's settings."""
    from ledger.core.settings import Settings

    if url is None and (url := Settings.load(path).log_url) is None:
        raise RejectedError(
            "the address of the shared log is not known: give url=…, or set url in [log]", rule="shared"
        )
    return url


def forget(url: str, tenant: str, machine: str, *, reason: str) -> None:
    """Count the files of a machine no longer among those that follow a log, so that erasures do not wait for them.

    The files may still hold erased texts: see to it that they are gone. A file that reports again is counted again.

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
        raise NotFoundError(
            f"no machine {machine!r:.60} follows the log of {tenant!r:.60}; replicas(url, tenant) lists them"
        )


def share(path: StrPath, url: str, tenant: str, *, machine: str | None = None) -> int:
    """Make the log of a ledger's file the shared log of a tenant, and the file the first machine's copy; return the log's end.

    Nobody may have the file open meanwhile: a process that has it open takes no command afterwards, until it opens the file
    with ``log=``. Other machines open the log after the call has returned. A call that was ended early goes on with the next.

    Args:
        path: The ledger's file.
        url: The URL of the database, which ``prepare`` has prepared.
        tenant: The name of the log, which has no events yet.
        machine: The name of this machine; None is the name of the host.

    Raises:
        RejectedError: The file follows a shared log already, or the tenant has a log with other events.
        UnreachableError: The server cannot be reached.
    """
    from ledger.shared import files, sharing

    with closing(sharing.connect(url, tenant, machine)) as log:
        return files.share_file(path, log)


def rejoin(path: StrPath, url: str | None = None) -> RejoinReport:
    """Bring a machine back whose file has events that the shared log does not have, after the log lost its end.

    The file is kept under its name with ``.lost`` at the end, its lost events are named, and the shared log is folded into a new
    file. Give the lost commands again if they are needed; nobody else has them.

    Args:
        path: The machine's file, which no process has open.
        url: The URL of the database; None takes the settings of the file.

    Raises:
        RejectedError: The file follows no shared log, or has no event that the shared log lacks; or no URL is known.
        UnreachableError: The server cannot be reached.
    """
    from ledger.shared import files, sharing

    url, row = _url_of(path, url), files.replica_row(path)
    with closing(sharing.connect(url, row.tenant, row.machine)) as log:
        return files.rejoin_file(path, log)
