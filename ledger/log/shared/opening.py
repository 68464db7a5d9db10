"""The way from the URL of a shared log to the log; only here is the driver of PostgreSQL imported, on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ledger.domain.errors import RejectedError
from ledger.log.shared.port import TIMEOUT_SECONDS

if TYPE_CHECKING:
    from ledger.log.shared.postgres import PostgresLog

SCHEMES = ("postgresql://", "postgres://")


def open_shared(
    url: str, tenant: str, machine: str, *, timeout_seconds: float = TIMEOUT_SECONDS, listen_url: str = ""
) -> PostgresLog:
    """Return the shared log of a tenant; the server is reached with the first call.

    Raises:
        RejectedError: A URL is not one of PostgreSQL, the tenant's name cannot be one, or the extra is not installed.
    """
    check_driver(url)
    if listen_url:
        check_driver(listen_url)
    from ledger.log.shared.postgres import PostgresLog

    return PostgresLog(url, tenant, machine, timeout_seconds=timeout_seconds, listen_url=listen_url)


def check_driver(url: str) -> None:
    """Raise ``RejectedError`` if the URL is not one of PostgreSQL, or its driver is not installed."""
    if not url.startswith(SCHEMES):
        scheme = url.partition("://")[0][:20]
        raise RejectedError(
            f"the shared log {scheme!r}… was asked for; a shared log is a database of PostgreSQL: postgresql://…",
            rule="log",
        )
    try:
        from psycopg import Error
        from psycopg.conninfo import conninfo_to_dict
    except ImportError as error:
        raise RejectedError(
            'a shared log needs the package psycopg: pip install "belief-ledger[postgres]"', rule="extra"
        ) from error
    try:
        _check_password(url)
        conninfo_to_dict(url)
    except (Error, UnicodeError, ValueError):
        # The driver's own words repeat the URL with its password.
        raise RejectedError(
            "the address of the shared log cannot be read; it looks like postgresql://ROLE:PASSWORD@HOST/DATABASE, where"
            " signs such as / and @ of a password are written as %2F and %40",
            rule="log",
        ) from None


def _check_password(url: str) -> None:
    """Raise ``ValueError`` for a password with a sign that ends it, whose rest would be a host and so part of an error."""
    before = url.partition("://")[2].rpartition("@")[0]
    if any(sign in before for sign in "@/?"):
        raise ValueError
