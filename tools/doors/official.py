"""The official tests of the contracts that the doors keep, each run with the door in the place of the library's own class.

The tests come from the source package of the library at a pinned version, downloaded into ``.venv-doors`` on first use, and
run there in an environment of the contract. No test is copied into the repository.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tools.doors.installing import PLACE, ROOT, environment, run, source

STAND_INS = "tools.doors.stand_ins"
ASYNC = ("pytest>=9", "pytest-asyncio>=1")


@dataclass(frozen=True)
class Contract:
    """A contract with its official tests.

    Attributes:
        door: The module of the door, which is also the name of its extra.
        what: The class or protocol.
        version: The version of the library, as in ``pip install NAME==VERSION``.
        tests: Files of tests in the source package; with ``in_wheel`` files of this repository.
        replaced: What the tests import, each with the class in ``stand_ins`` that takes its place.
        needs: Packages that the tests import besides the extra of the door.
        not_applicable: Tests that say nothing about a door, each with the reason; a name that ends with "*" is of all that
            begin so. A name that no test has is an error.
        in_wheel: True if the library has its tests in the wheel, as a function to call, or has none.
    """

    door: str
    what: str
    package: str
    version: str
    tests: tuple[str, ...]
    replaced: Mapping[str, str]
    needs: tuple[str, ...] = ()
    not_applicable: Mapping[str, str] = field(default_factory=dict)
    in_wheel: bool = False


LIBRARY = "about a function of the library itself"
EMBEDDER = "asks for the store's own settings of an embedder, which is the ledger's here"
POSIX = "about modes and symbolic links of a file system, and a ledger has none"
TABLES = "about the tables and SQL of SQLite's own store"
WITHOUT = "makes no session, or one of the test's own"

CONTRACTS: dict[str, Contract] = {
    "langgraph-store": Contract(
        door="langgraph",
        what="`BaseStore`",
        package="langgraph-checkpoint",
        version="4.3.2",
        tests=("tests/test_store.py",),
        replaced={"langgraph.store.memory.InMemoryStore": "langgraph.InMemoryStore"},
        needs=(*ASYNC, "pytest-mock", "numpy>=1.26"),
        not_applicable={"test_vector_store_initialization": EMBEDDER},
    ),
    "claude-session-store": Contract(
        door="claude",
        what="`SessionStore`: 14 contracts in one function, and the SDK's readers",
        package="claude-agent-sdk",
        version="0.2.189",
        tests=("tests/official_claude.py",),
        replaced={},
        needs=ASYNC,
        in_wheel=True,
    ),
    "openai-session": Contract(
        door="openai",
        what="`Session`",
        package="openai-agents",
        version="0.24.0",
        tests=(
            "tests/memory/test_session.py",
            "tests/memory/test_session_limit.py",
            "tests/memory/test_session_context_wrapper.py",
        ),
        replaced={"agents.SQLiteSession": "openai.SQLiteSession"},
        needs=ASYNC,
        not_applicable={
            "test_await_mutation_cancellation_hides_later_failure_without_loop_error": LIBRARY,
            "test_session_memory_disabled_parametrized": WITHOUT,
            "test_session_settings_resolve": WITHOUT,
            "test_sqlite_session_closed_rejects_empty_add_items": "about `close`, which the protocol has not",
            **dict.fromkeys(
                (
                    "test_sqlite_session_close_*",
                    "test_sqlite_session_reaps_*",
                    "test_sqlite_session_closes_retired_*",
                    "test_sqlite_session_keeps_*",
                    "test_sqlite_session_pop_item_skips_corrupt_*",
                    "test_sqlite_session_pop_item_returns_none_after_*",
                    "test_sqlite_session_get_items_limit_skips_*",
                    "test_sqlite_session_get_items_session_settings_limit_skips_*",
                    "test_sqlite_session_file_lock_*",
                    "test_sqlite_session_failed_*",
                    "test_sqlite_session_rollback_*",
                    "test_sqlite_session_post_commit_*",
                ),
                TABLES,
            ),
            **dict.fromkeys(
                (
                    "test_runner_passes_same_wrapper_*",
                    "test_runner_preserves_legacy_*",
                    "test_runner_does_not_*",
                    "test_retry_rewind_*",
                    "test_input_guardrail_*",
                    "test_resumed_run_*",
                    "test_compaction_session_*",
                    "test_session_wrapper_*",
                ),
                WITHOUT,
            ),
        },
    ),
    "langgraph-sqlite": Contract(
        door="langgraph",
        what="`BaseStore`, as a file and awaited",
        package="langgraph-checkpoint-sqlite",
        version="3.1.2",
        tests=("tests/test_store.py", "tests/test_async_store.py", "tests/test_ttl.py"),
        replaced={
            "langgraph.store.sqlite.SqliteStore": "langgraph.SqliteStore",
            "langgraph.store.sqlite.AsyncSqliteStore": "langgraph.AsyncSqliteStore",
            "langgraph.store.sqlite.aio.AsyncSqliteStore": "langgraph.AsyncSqliteStore",
        },
        needs=(*ASYNC, "numpy>=1.26"),
        not_applicable={
            "test_vector_store_initialization": EMBEDDER,
            "test_nonnull_migrations": TABLES,
            "test_sql_injection_vulnerability": TABLES,
            "test_list_namespaces_prefix_uses_indexable_condition": TABLES,
            "test_filter_keys_with_hyphens_and_digits": (
                "reads a dot in a filter as a way into an object, where `BaseStore` reads a part of the name"
            ),
            "test_ttl_override_default": "lets no read prolong `default_ttl`, where LangGraph's text says that reads do",
            "test_no_running_loop": "refuses blocking calls on the thread of an event loop; this store allows them",
        },
    ),
    "langgraph-agents": Contract(
        door="langgraph",
        what="`create_react_agent` and `StoreBackend`, by tests of ours",
        package="deepagents",
        version="0.7.32",
        tests=("tools/doors/stand_ins/langgraph_agents.py",),
        replaced={},
        needs=(*ASYNC, "langgraph==1.2.24"),
        in_wheel=True,
    ),
    "anthropic-memory": Contract(
        door="anthropic",
        what="`BetaAbstractMemoryTool`, also awaited",
        package="anthropic",
        version="2.14.0",
        tests=("tests/lib/tools/memory_tools/test_filesystem.py",),
        replaced={
            f"anthropic.lib.tools._beta_builtin_memory_tool.{name}": f"anthropic.{stand_in}"
            for name, stand_in in {
                "BetaLocalFilesystemMemoryTool": "MemoryTool",
                "BetaAsyncLocalFilesystemMemoryTool": "AsyncMemoryTool",
            }.items()
        },
        needs=ASYNC,
        not_applicable={
            "test_mkdir_parents_not_world_writable_under_permissive_umask": POSIX,
            "test_read_rejects_symlink_created_after_validation": POSIX,
            "test_read_rejects_file_replaced_with_symlink_before_open": POSIX,
            "test_view_rejects_directory_symlink_created_after_validation": POSIX,
            "test_symlink_validation*": POSIX,
            "test_view_lists_symlinks_only_when_they_stay_inside_memories": POSIX,
            "test_validate_path_returns_resolved_path_not_symlink_target": POSIX,
        },
    ),
}


@dataclass(frozen=True)
class OfficialResult:
    """The outcome of the official tests of a contract."""

    contract: Contract
    passed: int
    failed: tuple[str, ...]
    not_applicable: Mapping[str, int]
    problem: str = ""

    @property
    def run(self) -> int:
        return self.passed + len(self.failed)

    @property
    def ok(self) -> bool:
        return self.passed > 0 and not self.failed and not self.problem

    def line(self) -> str:
        """Return the line of the table: contract, version, passed of run, not applicable with the reason."""
        reasons = "; ".join(f"{count} {reason}" for reason, count in self.not_applicable.items()) or "none"
        contract = self.contract
        return f"| {contract.what} | {contract.package} {contract.version} | {self.passed} of {self.run} | {reasons} |"


HEADER = "| contract | version | passed of run | not applicable |\n|---|---|---|---|"


def run_official(name: str) -> OfficialResult:
    """Run the official tests of a contract and return what they said.

    Raises:
        NotTried: The library or its source cannot be installed here.
    """
    contract = CONTRACTS[name]
    package = f"{contract.package}=={contract.version}"
    python = environment(f"official-{name}", package, *contract.needs, extra=contract.door)
    folder = ROOT if contract.in_wheel else source(package)
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch, "report.json")
        variables = {
            "PYTHONPATH": str(ROOT),
            "OFFICIAL_CONTRACT": name,
            "OFFICIAL_REPORT": str(report),
            "TMPDIR": scratch,
        }
        settings = ("addopts=", "asyncio_mode=auto", "filterwarnings=default", "xfail_strict=false")
        options = [word for setting in settings for word in ("-o", setting)]
        plugins = ["--noconftest", "-p", "no:cacheprovider", "-p", f"{STAND_INS}.plugin"]
        files = [folder / file for file in contract.tests]
        words = ["-m", "pytest", "-q", "--tb=short", *options, *plugins, f"--rootdir={folder}"]
        done = run(python, *words, *files, cwd=folder, more=variables)
        (PLACE / f"{name}.log").write_text(done.stdout + done.stderr, encoding="utf-8")
        if not report.exists():
            return OfficialResult(
                contract, 0, (), {}, f"pytest ended with {done.returncode}: see {PLACE.name}/{name}.log"
            )
        seen = json.loads(report.read_text(encoding="utf-8"))
    unused = f"no test is called {', '.join(seen['unused'])}" if seen["unused"] else ""
    return OfficialResult(contract, len(seen["passed"]), tuple(seen["failed"]), seen["not_applicable"], unused)
