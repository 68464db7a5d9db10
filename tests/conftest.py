"""Fixtures that all tests share: the ledger and the clock of our pytest plugin, held against the log at the end."""

from __future__ import annotations

import gc
import os
import shutil
import sqlite3
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import needs
import probe
import pytest
from hypothesis import settings
from places import QUICK, ROOT, TESTS
from servers import mortal_server as mortal_server
from servers import no_idle_connections as no_idle_connections
from servers import server as server
from servers import shared_url as shared_url
from servers import tenant as tenant
from shared_log import machines as machines

from ledger import Ledger
from ledger.core.reads import FoldReading
from ledger.doors import pytest_plugin
from ledger.doors.pytest_plugin import Clock as Clock
from ledger.doors.pytest_plugin import fixed as fixed
from ledger.log.sqlite_files import SCHEMA
from projections.core.digests import digest
from projections.core.projector import Projector, create_tables
from projections.core.sqlite import SQLiteRows

# The same examples in every default run, so that it tells about the change and not about luck; HYPOTHESIS_PROFILE=long tries
# a hundred and more, new ones each time, and ``--fast`` a few. A deadline would measure what else the machine does.
settings.register_profile("short", max_examples=20, deadline=None, derandomize=True)
settings.register_profile("fast", max_examples=5, deadline=None, derandomize=True)
LONG = os.environ.get("HYPOTHESIS_PROFILE") == "long"
if not LONG:
    settings.load_profile("short")

if QUICK and "TMPDIR" not in os.environ and shutil.disk_usage(QUICK).free > 4 << 30:
    os.environ["TMPDIR"] = QUICK  # no test asks a disk to keep what is written; tools/crash does
    tempfile.tempdir = None  # pytest asked for the place of temporary files before, and the answer is kept

# No test speaks TLS, and a client of HTTP would read all certificates of the system, which takes longer than most tests.
os.environ.pop("SSL_CERT_FILE", None)
os.environ["SSL_CERT_DIR"] = str(TESTS)  # a folder without any

if str(ROOT) not in sys.path:  # where the product is installed without its tools
    sys.path.insert(0, str(ROOT))

CASES = 1  # of one test with parameters that --fast runs


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    if not pluginmanager.is_registered(pytest_plugin):  # which an installed product is, by its entry point
        pluginmanager.register(pytest_plugin, "memory-ledger")
    parser.addoption(
        "--fast", action="store_true", help="no slow tests, one case and few examples of each of the others"
    )
    parser.addoption(
        "--shared",
        nargs="?",
        const="memory",
        choices=("memory", "postgres"),
        help="over shared logs, one for each ledger",
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--fast"):
        settings.load_profile("fast")
    if kind := config.getoption("--shared"):
        from shared_everywhere import SharedEverywhere

        config.pluginmanager.register(SharedEverywhere(kind), "shared everywhere")


def pytest_unconfigure() -> None:
    for connection in _free:
        connection.close()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--fast"):
        cases: Counter[str] = Counter()
        for item in list(items):
            test = item.nodeid.partition("[")[0]
            cases[test] += 1
            if cases[test] > CASES or item.get_closest_marker("slow"):
                items.remove(item)
                config.hook.pytest_deselected(items=[item])


gc.disable()  # until the tests are collected: garbage is rare before, and collections of it took most of the time


def pytest_collection_finish() -> None:
    gc.enable()
    gc.freeze()  # what was imported and collected stays to the end, and no collection of garbage need look at it again


# Whoever runs the tests may have settings of their own.
for _name in [each for each in os.environ if each.startswith(("LEDGER_", "MEMORY_LEDGER_"))]:
    del os.environ[_name]


def folded_from_zero(ledger: Ledger) -> str:
    """Return the digest of the projections that a ledger's log gives when folded from its first event.

    The tables are in memory; ``rebuild()`` has its own tests.
    """
    with folded(ledger) as copy:
        return digest(copy)


_free: list[sqlite3.Connection] = []


@contextmanager
def empty_tables() -> Iterator[sqlite3.Connection]:
    """Yield a ledger's empty tables in memory.

    They are kept for the next test, since making them takes longer than most folds.
    """
    if _free:
        copy = _free.pop()
    else:
        copy = sqlite3.connect(":memory:", isolation_level=None, cached_statements=512)
        copy.executescript(SCHEMA)
        create_tables(copy)
    copy.execute("BEGIN")
    try:
        yield copy
    finally:
        copy.execute("ROLLBACK")
        _free.append(copy)


@contextmanager
def folded(ledger: Ledger, up_to: int = 2**62) -> Iterator[sqlite3.Connection]:
    """Yield tables in memory, filled by folding a ledger's log up to a position."""
    with empty_tables() as copy:
        with probe.store(ledger).snapshot() as connection:
            rows = connection.execute("SELECT * FROM events WHERE position <= ? ORDER BY position", (up_to,)).fetchall()
            copy.executemany("INSERT INTO blobs VALUES (?, ?, ?)", connection.execute("SELECT * FROM blobs").fetchall())
        copy.executemany(f"INSERT INTO events VALUES ({', '.join('?' * len(rows[0]))})", rows)
        secret = probe.writer(ledger).secret
        log = FoldReading(lambda: copy)
        projector = Projector(secret, log)
        tables = SQLiteRows(copy)
        for event in log.events(1, len(rows)):
            projector.fold(event, tables)
        tables.flush()
        yield copy


@pytest.fixture
def clock(ledger_clock: Clock) -> Clock:
    return ledger_clock


@pytest.fixture
def ledger(ledger: Ledger) -> Iterator[Ledger]:
    """Yield the plugin's ledger.

    After the test, folding the ledger's log from zero must give the same projections.
    """
    yield ledger
    assert ledger.proof.digest() == folded_from_zero(ledger), "the projections are not what the log says"


@pytest.fixture
def media():
    """Yield a directory that every user may enter, for checks that run as a user who may not write."""
    needs.media()
    place = Path(tempfile.mkdtemp(prefix="ledger-media-"))
    place.chmod(0o755)
    yield place
    place.chmod(0o755)
    shutil.rmtree(place)
