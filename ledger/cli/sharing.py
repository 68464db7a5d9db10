"""The command ``shared``: the tables of logs that machines share in PostgreSQL, and the machines that follow a log."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from ledger.cli.calling import ShellCall
from ledger.cli.output import Usage


class SharedOptions(Struct, frozen=True, kw_only=True):
    """The options of the command ``shared``."""

    log: str | None = None
    tenant: str | None = None
    role: str | None = None
    only_tenant: str | None = None
    reason: str | None = None
    max_behind: float = 60.0
    version: int | None = None


def shared(
    call: ShellCall,
    action: Literal["prepare", "share", "rejoin", "replicas", "check", "forget"],
    machine: str | None = None,
    *,
    options: SharedOptions,
) -> object:
    """Prepare a database for logs that machines share, share the log of --db, or look after the machines that follow a log.

    Args:
        action: prepare makes the tables, or moves them to a format; share makes the log of --db the shared log; rejoin brings
            --db back after the shared log lost its end; replicas lists the machines with their lag; check asks whether --db
            follows the log, with exit code 1 if not; forget lets erasures wait for a machine no longer.
        machine: The name of a machine, as replicas has it; for share that of this machine, by default the host's.
        log: The URL of the database, postgresql://…; the setting log_url if left out.
        tenant: The name of the log; the setting log_tenant if left out.
        role: Another role that applications connect as, which prepare gives the rights that they need.
        only_tenant: For prepare: the one tenant that the role sees, whatever its statements name.
        reason: Why the machine is forgotten, for instance that its disk was destroyed; the reason is kept.
        max_behind: For check: the most seconds without a report while --db lacks events or erasures wait for it.
        version: For prepare: the format of the tables, by default the newest; an earlier one is the way back, until the first
            command in the newer.
    """
    from ledger import shared as administration
    from ledger.log.shared.opening import check_driver

    url = options.log or call.settings.log_url
    if not url:
        raise Usage("the URL of the database is missing: --log postgresql://… (or LEDGER_LOG_URL)")
    check_driver(url)
    if action == "prepare":
        role, only_tenant = options.role or "", options.only_tenant or ""
        return {"version": administration.prepare(url, role=role, only_tenant=only_tenant, version=options.version)}
    if action == "rejoin":
        return administration.rejoin(call.settings.path, url)
    if action == "check":
        return administration.check(call.settings.path, url, max_behind=options.max_behind)
    tenant = options.tenant or call.settings.log_tenant
    if not tenant:
        raise Usage(f"{action} needs the name of the log: --tenant (or LEDGER_LOG_TENANT)")
    if action == "share":
        return {"position": administration.share(call.settings.path, url, tenant, machine=machine)}
    if action == "replicas":
        return [
            {
                "machine": replica.machine,
                "file": replica.file,
                "position": replica.position,
                "lag": replica.lag,
                "erasures_pending": replica.erasures_pending,
                "seen": replica.seen.isoformat(timespec="seconds"),
            }
            for replica in administration.replicas(url, tenant)
        ]
    if machine is None or options.reason is None:
        raise Usage("forget needs the name of a machine, and --reason")
    administration.forget(url, tenant, machine, reason=options.reason)
    return {"forgotten": machine}
