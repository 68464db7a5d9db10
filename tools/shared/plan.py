"""A plan on paper of many machines over one memory: ``python -m tools.shared.plan`` prints its tables.

The plan takes the figures that ``tools.shared.measure`` printed, and the assumptions below, which are choices and no
measurements. The tenants are used by Zipf's law: the tenant of rank r is used 1 / r as often as the first. The requests are
independent of each other, which is the worst case: a person comes in sessions, and then the ledger is open already.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, exp, expm1
from typing import NamedTuple


class Load(NamedTuple):
    """The processor seconds of a call, in the processes of the application and in those of the server."""

    app: float
    server: float


class Opening(NamedTuple):
    """The cost to open a small tenant."""

    seconds: float
    load: Load


class Measured(NamedTuple):
    """The figures of one run, in seconds and bytes."""

    command_seconds: float  # median of a command over the shared log
    command_p99_seconds: float
    recall_seconds: float
    group_rate: float  # commands a second of 32 tasks on one tenant
    command: Load
    poll: Load  # of the question that an open ledger asks each second
    cold: Opening  # the file is not there
    warm: Opening  # the file is there
    new_rate: float  # events a second that a new machine folds
    cold_bytes: int  # of the file of a small tenant
    file_bytes: int  # of an event in a file
    log_bytes: int  # of an event in PostgreSQL, with its indexes
    wal_bytes: int  # of a command in PostgreSQL


MEASURED = Measured(
    command_seconds=0.000986,
    command_p99_seconds=0.00675,
    recall_seconds=0.00132,
    group_rate=1760.0,
    command=Load(app=0.00129, server=0.000687),
    poll=Load(app=0.000108, server=0.000005),
    cold=Opening(0.116, Load(app=0.0522, server=0.00225)),
    warm=Opening(0.0193, Load(app=0.0118, server=0.001)),
    new_rate=6_879.0,
    cold_bytes=872_448,
    file_bytes=1_437,
    log_bytes=626,
    wal_bytes=898,
)


class Assumed(NamedTuple):
    """The choices of the plan."""

    servers: int = 50
    tenants: int = 1_000_000
    recalls: float = 5.0  # for each command
    peak: float = 4.0  # times the mean of a day
    events: int = 500  # of a mean tenant's log
    idle_seconds: float = 10.0  # after which a ledger is closed
    cluster_cores: int = 32
    busy: float = 0.5  # the part of the cores that a plan may use
    cluster_bytes: float = 1e12
    network_seconds: float = 0.001  # there and back, for the message of a command
    standby_seconds: float = 0.002  # until the synchronous standby has a commit
    failover_seconds: float = 30.0


ASSUMED = Assumed()
LOADS = (4.0, 40.0, 200.0)  # commands of a mean tenant a day
KEPT = (1.0, 0.5)  # the part of its tenants whose files a server keeps
DAY = 86_400


class Use:
    """The requests of all tenants at the peak, by Zipf's law."""

    def __init__(self, load: float, assumed: Assumed) -> None:
        self.commands = load * assumed.tenants / DAY * assumed.peak
        self.requests = self.commands * (1 + assumed.recalls)
        groups = ranks(assumed.tenants)
        self.first = 1 / sum(number / rank for rank, number in groups)
        self._parts = [(self.first / rank, number) for rank, number in groups]

    def seen_within(self, seconds: float) -> float:
        """Return the number of tenants that are used at least once in some seconds."""
        return sum(number * -expm1(-self.requests * part * seconds) for part, number in self._parts)

    def missed(self, seconds: float) -> float:
        """Return the requests a second whose tenant was not used in the seconds before."""
        return self.requests * sum(number * part * exp(-self.requests * part * seconds) for part, number in self._parts)

    def age_of(self, tenants: float) -> float:
        """Return the seconds after which that many tenants were used, the age at which a cache drops its oldest (Che)."""
        low, high = 0.0, 1.0
        while self.seen_within(high) < tenants:
            high *= 2
        for _ in range(50):
            middle = (low + high) / 2
            low, high = (middle, high) if self.seen_within(middle) < tenants else (low, middle)
        return high


def ranks(tenants: int) -> list[tuple[float, int]]:
    """Return (middle rank, number) of groups of tenants that are used about as often."""
    groups, start = list[tuple[float, int]](), 1
    while start <= tenants:
        end = min(tenants, int(start * 1.02))
        groups.append(((start + end) / 2, end - start + 1))
        start = end + 1
    return groups


class Need(NamedTuple):
    """The needs of a load at its peak."""

    commands: float  # a second
    busiest: float  # commands a second of the busiest tenant
    opened: float  # ledgers that are open on one server
    colds: float  # files that one server folds a second
    app_cores: float  # in use on one server
    p50: float
    p99: float
    disk: float  # bytes of one server
    cluster_cores: float  # in use for all tenants
    clusters: int


def need(load: float, kept: float, assumed: Assumed = ASSUMED, measured: Measured = MEASURED) -> Need:
    use = Use(load, assumed)
    colds = use.missed(use.age_of(kept * assumed.tenants)) if kept < 1 else 0.0
    warms = max(use.missed(assumed.idle_seconds) - colds, 0.0)
    opened = use.seen_within(assumed.idle_seconds)
    more = max(assumed.events / measured.new_rate - 0.002, 0.0)  # to fold a mean tenant and not a small tenant
    cold = Load(measured.cold.load.app + more, measured.cold.load.server)
    calls = ((use.commands, measured.command), (opened, measured.poll), (warms, measured.warm.load), (colds, cold))
    app_cores = sum(rate * cost.app for rate, cost in calls) + use.commands * assumed.recalls * measured.recall_seconds
    cluster_cores = sum(rate * cost.server for rate, cost in calls)
    p50 = measured.command_seconds + assumed.network_seconds + assumed.standby_seconds
    p99 = p50 + measured.command_p99_seconds - measured.command_seconds
    if colds >= 0.01 * use.requests:
        p99 = p50 + measured.cold.seconds + more
    elif colds + warms >= 0.01 * use.requests:
        p99 = max(p99, p50 + measured.warm.seconds)
    file_bytes = measured.cold_bytes + assumed.events * measured.file_bytes
    return Need(
        commands=use.commands,
        busiest=use.commands * use.first,
        opened=opened / assumed.servers,
        colds=colds / assumed.servers,
        app_cores=app_cores / assumed.servers,
        p50=p50,
        p99=p99,
        disk=kept * assumed.tenants / assumed.servers * file_bytes,
        cluster_cores=cluster_cores,
        clusters=max(
            ceil(cluster_cores / assumed.cluster_cores / assumed.busy),
            ceil(assumed.tenants * assumed.events * measured.log_bytes / assumed.cluster_bytes),
        ),
    )


def loads_table(assumed: Assumed = ASSUMED, measured: Measured = MEASURED) -> str:
    head = (
        "commands of a tenant a day", "files kept", "commands a second", "of the busiest tenant", "open on a server",
        "folds a second there", "cores in use there", "p50 · p99", "disk of a server", "PostgreSQL: cores in use", "clusters",
    )  # fmt: skip
    rows = []
    for load in LOADS:
        for kept in KEPT:
            needs = need(load, kept, assumed, measured)
            rows.append((
                f"{load:g}", f"{kept:.0%}", f"{needs.commands:,.0f}", f"{needs.busiest:,.0f}", f"{needs.opened:,.0f}",
                f"{needs.colds:,.1f}", f"{needs.app_cores:,.1f}", f"{needs.p50 * 1e3:.0f} · {needs.p99 * 1e3:.0f} ms",
                f"{needs.disk / 1e9:.0f} GB", f"{needs.cluster_cores:,.0f}", f"{needs.clusters}",
            ))  # fmt: skip
    return table(head, rows)


def failures_table(assumed: Assumed = ASSUMED, measured: Measured = MEASURED) -> str:
    """Return the table of what fails, for each load with all files kept."""
    rows = []
    for load in LOADS:
        use, needs = Use(load, assumed), need(load, 1.0, assumed, measured)
        moved = use.seen_within(60) / assumed.servers
        fold = measured.cold.load.app + assumed.events / measured.new_rate
        in_server = use.commands * needs.p50 + use.seen_within(assumed.idle_seconds) * assumed.network_seconds
        rows.append((
            f"{load:g}", f"{moved:,.0f}", f"{moved * fold / 60 / (assumed.servers - 1):,.1f}",
            f"{use.commands * assumed.failover_seconds / needs.clusters:,.0f}", f"{in_server / needs.clusters:,.0f}",
            f"{use.commands * measured.wal_bytes / needs.clusters / 1e6:,.1f} MB",
        ))  # fmt: skip
    head = (
        "commands of a tenant a day", "a server is lost: folds elsewhere in a minute", "cores for them on each other",
        f"a cluster fails over in {assumed.failover_seconds:g} s: commands refused", "connections in use at a cluster",
        "WAL of a cluster a second",
    )  # fmt: skip
    return table(head, rows)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(line)} |" for line in (head, *rows)]
    return "\n".join([lines[0], "|" + "--:|" * len(head), *lines[1:]])


def main() -> None:
    print(f"{MEASURED}\n{ASSUMED}\n\n{loads_table()}\n\n{failures_table()}")


if __name__ == "__main__":
    main()
