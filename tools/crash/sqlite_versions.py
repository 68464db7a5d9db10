"""A run of the tests of store, recall, erasure and projections on several versions of SQLite, which prints a table.

``python3 tools/crash/sqlite_versions.py`` takes the oldest supported version, 3.40, 3.45 and the newest available version.
``--only 3.45`` takes one version, and paths behind the options name the tests to run instead. The source of each version comes
from an npm package that ships it (``npm pack``). It is compiled with ``gcc`` and put first in the path of the loader. This
works for a Python that loads SQLite as a library; a Python with SQLite built in ends with exit code 2.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from tools.dev import set_up  # noqa: E402

PACKAGE = "better-sqlite3"  # ships the source of one version of SQLite
VERSIONS = {"3.37": "7.4.6", "3.40": "8.0.1", "3.45": "10.0.0", "newest": "latest"}  # SQLite -> version of the package
TESTS = ("tests/store", "tests/recall", "tests/erasure", "tests/projections")
OPTIONS = (  # as distributions build SQLite, as far as the product needs the options
    *("THREADSAFE=1", "ENABLE_FTS5", "ENABLE_FTS3", "ENABLE_RTREE", "ENABLE_COLUMN_METADATA", "ENABLE_DBSTAT_VTAB"),
    *("ENABLE_MATH_FUNCTIONS", "ENABLE_DESERIALIZE", "ENABLE_LOAD_EXTENSION", "SECURE_DELETE", "USE_URI"),
    *("ENABLE_JSON1", "MAX_VARIABLE_NUMBER=250000"),
)
_SHOWN = "import sqlite3; print(sqlite3.sqlite_version)"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=tuple(VERSIONS), help="one version instead of all")
    parser.add_argument("tests", nargs="*", default=list(TESTS), help="paths of tests")
    options = parser.parse_args()
    python, failed = set_up("test"), 0
    print("| SQLite | tests | result | seconds |", "|---|---|---|--:|", sep="\n")
    with tempfile.TemporaryDirectory() as directory:
        for name in [options.only] if options.only else VERSIONS:
            library, version = built(Path(directory) / name, VERSIONS[name])
            environment = os.environ | {"LD_LIBRARY_PATH": str(library.parent)}
            shown = subprocess.run([python, "-c", _SHOWN], env=environment, check=True, capture_output=True, text=True)
            if (loaded := shown.stdout.strip()) != version:
                print(
                    f"this Python loads SQLite {loaded} instead of {version}, because SQLite is built into it",
                    file=sys.stderr,
                )
                return 2
            for tests in options.tests:
                failed |= run(python, environment, version, tests)
    return failed


def run(python: Path, environment: dict[str, str], version: str, tests: str) -> int:
    began, command = time.monotonic(), [str(python), "-m", "pytest", "-q", "-rN", "--tb=short", tests]
    done = subprocess.run(command, cwd=ROOT, env=environment, check=False, capture_output=True, text=True)
    result = "passes" if done.returncode == 0 else "FAILS"
    print(f"| {version} | {tests} | {result} | {time.monotonic() - began:,.0f} |", flush=True)
    if done.returncode:
        print(done.stdout[-20_000:], file=sys.stderr)
    return int(done.returncode != 0)


def built(directory: Path, package: str) -> tuple[Path, str]:
    """Return the compiled library and its version."""
    directory.mkdir()
    subprocess.run(["npm", "pack", "--silent", f"{PACKAGE}@{package}"], cwd=directory, check=True, capture_output=True)
    (packed,) = directory.glob("*.tgz")
    unpack(packed, directory)
    for inner in directory.glob("package/deps/*.tar.gz"):  # older packages hold a second archive
        unpack(inner, directory)
    source = next(directory.rglob("sqlite3.c"))
    version = re.search(r'#define SQLITE_VERSION\s+"([\d.]+)"', source.with_suffix(".h").read_text(encoding="utf-8"))
    assert version is not None
    library = directory / "library" / "libsqlite3.so.0"
    library.parent.mkdir()
    options = [f"-DSQLITE_{option}" for option in OPTIONS]
    names = ["-o", str(library), f"-Wl,-soname,{library.name}", str(source)]
    command = ["gcc", "-O1", "-fPIC", "-shared", *options, *names]
    subprocess.run([*command, "-lm", "-lpthread", "-ldl"], check=True)
    return library, version[1]


def unpack(packed: Path, directory: Path) -> None:
    with tarfile.open(packed) as archive:
        archive.extractall(directory, filter="data")


if __name__ == "__main__":
    raise SystemExit(main())
