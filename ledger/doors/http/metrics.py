"""The figures of a server for a monitor, in the text format of Prometheus: its requests, the work that waits, and its file."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator
from typing import ClassVar

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ledger import AsyncLedger, LedgerError, shared
from ledger.answers import Stats

FRESH_SECONDS = 1.0  # of the figures of the file, which are then given to all who ask
OTHER = "other"  # the path of what no path of the server answered, so that a client cannot make labels
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)  # bounds of the histogram


class Metrics:
    """The metrics of one server.

    Args:
        ledger: The open ledger.
        log_url: The URL of the log that the ledger's file shares with other machines; None if it shares none.
    """

    content_type: ClassVar[str] = "text/plain; version=0.0.4; charset=utf-8"

    def __init__(self, ledger: AsyncLedger, log_url: str | None = None) -> None:
        self._ledger, self._log_url = ledger, log_url
        self._lock, self._read_at, self._families = asyncio.Lock(), float("-inf"), list[Metric]()
        self._registry = CollectorRegistry()
        name = "memory_ledger_request"
        self._requests = Counter(
            f"{name}s", "Requests that were answered.", ("path", "status"), registry=self._registry
        )
        self._seconds = Histogram(
            f"{name}_seconds", "Seconds until the answer ended.", ("path",), buckets=SECONDS, registry=self._registry
        )

    def count(self, path: str, status: int, seconds: float | None) -> None:
        """Count an answered request; ``seconds`` is None for an answer whose length says nothing."""
        self._requests.labels(path, str(status)).inc()
        if seconds is not None:
            self._seconds.labels(path).observe(seconds)

    async def as_text(self, streams: int) -> bytes:
        """Return all figures; those of the file are a second old at most.

        Args:
            streams: The number of open streams of events.

        Raises:
            LedgerError: The ledger cannot be read.
        """
        async with self._lock:
            if time.monotonic() - self._read_at > FRESH_SECONDS:
                stats = await self._ledger.maintenance.stats()
                self._families = [*_of_file(stats), *(await self._of_shared_log())]
                self._read_at = time.monotonic()
            families = [*self._families, _gauge("open_streams", "Open streams of events.", streams)]
        shown = CollectorRegistry(auto_describe=False)
        shown.register(_Collected([*self._registry.collect(), *families]))
        return bytes(generate_latest(shown))

    async def _of_shared_log(self) -> Iterable[Metric]:
        if self._log_url is None:
            return ()
        try:
            report = await asyncio.to_thread(shared.check, self._ledger.path, self._log_url)
        except (LedgerError, OSError):
            report = None
        return _of_shared_log(report)


class _Collected:
    """A collector of metrics that were collected already."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        yield from self._metrics


def _of_file(stats: Stats) -> Iterator[Metric]:
    yield _gauge("log_position", "Events in the log, whoever wrote them.", stats.position)
    waiting = GaugeMetricFamily(
        "memory_ledger_waiting", "Work that waits, of all users; at most 10,000 of a model's.", labels=["work"]
    )
    for work, number in stats.pending.items():
        waiting.add_metric([work], number)
    yield waiting
    sizes = GaugeMetricFamily("memory_ledger_file_bytes", "Size of the ledger and of its -wal.", labels=["file"])
    sizes.add_metric(["ledger"], stats.size_bytes)
    sizes.add_metric(["wal"], stats.wal_bytes)
    yield sizes
    suspended = sum(projection.suspended_at is not None for projection in stats.projections)
    yield _gauge("suspended_projections", "Projections that stopped at an event.", suspended)


def _of_shared_log(report: shared.SharedCheck | None) -> Iterator[Metric]:
    is_up = report is not None and not report.error
    yield _gauge("shared_log_up", "1 if the shared log answered and this file follows it.", int(is_up))
    if report is None or not is_up:
        return
    lag = (report.end or 0) - report.position
    yield _gauge("shared_log_lag_events", "Events of the shared log that this file lacks.", lag)
    if report.behind_seconds is not None:
        words = "Seconds since this machine's last report, while it lacks something; else 0."
        yield _gauge("shared_log_behind_seconds", words, report.behind_seconds)
    words = "Erasures that wait for this machine."
    yield _gauge("shared_log_waiting_erasures", words, report.erasures_pending)


def _gauge(name: str, words: str, value: float) -> Metric:
    return GaugeMetricFamily(f"memory_ledger_{name}", words, value=value)


class MeasuredLedger:
    """The outermost layer of an application, which counts and times every answer.

    Args:
        app: The application.
        metrics: The metrics that count.
        untimed: The paths whose answers last as long as the client stays.
    """

    def __init__(self, app: ASGIApp, *, metrics: Metrics, untimed: Iterable[str]) -> None:
        self._app, self._metrics, self._untimed = app, metrics, frozenset(untimed)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun, status = time.monotonic(), 500

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, noted)
        finally:
            path = getattr(scope.get("route"), "path", OTHER)
            seconds = None if path in self._untimed else time.monotonic() - begun
            self._metrics.count(path, status, seconds)
