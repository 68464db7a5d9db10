"""A plan on paper of many machines over one memory: ``python -m tools.shared.plan`` computes its table.

The plan takes the figures that ``tools.shared.measure`` printed, and the assumptions below, which are choices and no
measurements. Every tenant's use follows Zipf's law: the tenant of rank r is used 1 / r as often as the first.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from math import ceil, exp, log
from typing import NamedTuple


class Measured(NamedTuple):
    """The figures of one run, seconds and bytes."""

    command_seconds: float  # median of a command over the shared log
    command_p99_seconds: float
    group_rate: float  # commands a second of 32 tasks on one tenant
    app_processor: float  # of a command
    server_processor: float  # of a command
    poll_processor: float  # of the server, for the question of an open ledger
    cold_seconds: float  # to open a small tenant whose file is not there
    open_seconds: float  # to open a tenant whose file is there
    cold_bytes: int  # of the file of a small tenant
    file_bytes: int  # of an event in a file
    log_bytes: int  # of an event in PostgreSQL, with its indexes
    wal_bytes: int  # of a command in PostgreSQL


MEASURED = Measured(
    command_seconds=0.0027,
    command_p99_seconds=0.0138,
    group_rate=2155,
    app_processor=0.00148,
    server_processor=0.00069,
    poll_processor=0.000105,
    cold_seconds=0.098,
    open_seconds=0.0183,
    cold_bytes=851_968,
    file_bytes=1446,
    log_bytes=618,
    wal_bytes=921,
)


class Assumed(NamedTuple):
    """The choices of the plan."""

    servers: int = 50
    tenants: int = 1_000_000
    recalls: float = 5.0  # for each command
    recall_processor: float = 0.001
    peak: float = 4.0  # times the mean of a day
    events: int = 500  # of a mean tenant's log
    kept: float = 0.25  # part of a server's tenants whose files it keeps
    idle_seconds: float = 5.0  # after which a ledger is closed
    server_cores: int = 16
    cluster_cores: int = 32
    busy: float = 0.5  # the part of the cores that a plan may use
    cluster_bytes: float = 2e12
    network_seconds: float = 0.001  # there and back, for each of the two messages
    standby_seconds: float = 0.002  # until the synchronous standby has a commit
    failover_seconds: float = 30.0


ASSUMED = Assumed()
LOADS = (4, 40, 200)  # commands of a mean tenant a day
DAY = 86_400


class Need(NamedTuple):
    """The needs of one load, at its peak."""

    commands: float  # a second
    busiest: float  # commands a second of the busiest tenant
    open_ledgers: float  # of one server
    opens: float  # of tenants whose file is there, a second on one server
    colds: float  # of tenants whose file is not there, a second on one server
    server_cores: float  # in use on one server
    p50: float
    p99: float
    disk: float  # bytes of one server
    cluster_cores: float  # in use for all tenants
    clusters: int
    clusters_for: str
    wal: float  # bytes a second of all clusters


def ranks(tenants: int) -> Iterator[tuple[float, int]]:
    """Yield (rank, number of tenants) of groups of tenants that are used about as often."""
    start = 1
    while start <= tenants:
        end = min(tenants, max(start, int(start * 1.02)))
        yield (start + end) / 2, end - start + 1
        start = end + 1


def need(load: float, assumed: Assumed = ASSUMED, measured: Measured = MEASURED) -> Need:
    """Return the needs of a load, in commands of a mean tenant a day."""
    commands = load * assumed.tenants / DAY * assumed.peak
    requests = commands * (1 + assumed.recalls)
    groups = list(ranks(assumed.tenants))
    share = 1 / sum(number / rank for rank, number in groups)  # of the first tenant

    def seen_within(seconds: float) -> float:
        """Return the number of tenants that are used at least once in some seconds."""
        return sum(number * -_expm1(requests * share / rank * seconds) for rank, number in groups)

    def missed(seconds: float) -> float:
        """Return the part of the requests whose tenant was not used in the seconds before (Che's approximation of LRU)."""
        return sum(share / rank * number * exp(-requests * share / rank * seconds) for rank, number in groups)

    kept_seconds = _solved(seen_within, assumed.kept * assumed.tenants)
    cold_part = missed(kept_seconds)
    open_part = missed(assumed.idle_seconds) - cold_part
    open_ledgers = seen_within(assumed.idle_seconds)
    server_cores = (
        commands * measured.app_processor
        + requests * (open_part * measured.open_seconds + cold_part * measured.cold_seconds)
        + commands * assumed.recalls * assumed.recall_processor
    ) / assumed.servers
    warm = 2 * assumed.network_seconds + assumed.standby_seconds
    p50 = measured.command_seconds + warm
    p99 = measured.command_p99_seconds + warm
    if cold_part >= 0.01:
        p99 = p50 + measured.cold_seconds
    elif cold_part + open_part >= 0.01:
        p99 = p50 + measured.open_seconds
    openings = 3 * measured.poll_processor * requests * (open_part + cold_part)
    cluster_cores = commands * measured.server_processor + open_ledgers * measured.poll_processor + openings
    log_bytes = assumed.tenants * assumed.events * measured.log_bytes
    for_cores = ceil(cluster_cores / assumed.cluster_cores / assumed.busy)
    for_bytes = ceil(log_bytes / assumed.cluster_bytes)
    return Need(
        commands=commands,
        busiest=commands * share,
        open_ledgers=open_ledgers / assumed.servers,
        opens=requests * open_part / assumed.servers,
        colds=requests * cold_part / assumed.servers,
        server_cores=server_cores,
        p50=p50,
        p99=p99,
        disk=assumed.kept * assumed.tenants / assumed.servers * (measured.cold_bytes + assumed.events * measured.file_bytes),
        cluster_cores=cluster_cores,
        clusters=max(for_cores, for_bytes),
        clusters_for="cores" if for_cores > for_bytes else "disk",
        wal=commands * measured.wal_bytes,
    )


def _expm1(value: float) -> float:
    """Return exp(-value) - 1."""
    return exp(-value) - 1


def _solved(function: object, value: float) -> float:
    raise NotImplementedError
