"""A check of what stands between this checkout and a release: ``python3 tools/dev.py release --check``.

It builds the wheel and the sdist, installs the wheel into a clean environment of each Python that is here, runs the README's
example and both commands there, and looks at names, versions, metadata, types and licences. It changes nothing and publishes
nothing. The exit code is 1 while something stands in the way.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
from tools.check_types import LEAST_COMPLETE, complete_share  # noqa: E402
from tools.dev import interpreter  # noqa: E402

PYTHONS = ("3.11", "3.12", "3.13")
PLACEHOLDERS = {"pyproject.toml": "example.org", "README.md": "OWNER/", "ledger/doors/mcp/server.json": "OWNER/"}
MOST_BYTES = 4 * 1024 * 1024  # of the wheel
LICENCES = ("LICENSE", "ledger/vectors/minilm/LICENSE")


def main() -> int:
    parser = argparse.ArgumentParser(prog="tools/dev.py release", description=__doc__)
    parser.add_argument("--check", action="store_true", required=True, help="print what stands in the way")
    parser.add_argument(
        "--keep", type=Path, metavar="FOLDER", help="put the wheel, the sdist and a list of parts there"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        problems = [*repository(), *distribution(Path(folder), options.keep)]
    for problem in problems:
        print(f"in the way: {problem}")
    print(f"{len(problems)} things stand between this commit and a release" if problems else "ready for a release")
    return int(bool(problems))


def versions(root: Path = ROOT) -> dict[str, str]:
    """Return the version of the product by the place that states it."""
    server = json.loads((root / "ledger/doors/mcp/server.json").read_text(encoding="utf-8"))
    market = json.loads((root / ".claude-plugin/marketplace.json").read_text(encoding="utf-8"))
    init = re.search(r'__version__ = "(.+)"', (root / "ledger/__init__.py").read_text(encoding="utf-8"))
    plugin = root / "ledger/doors/plugin/claude"
    return {
        "pyproject.toml": tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"],
        "ledger/__init__.py": init[1] if init else "none",
        "server.json": server["version"],
        "the package of server.json": server["packages"][0]["version"],
        "the plugin of Claude Code": json.loads((plugin / ".claude-plugin/plugin.json").read_text(encoding="utf-8"))[
            "version"
        ],
        "the plugin of Codex": json.loads((plugin / ".codex-plugin/plugin.json").read_text(encoding="utf-8"))[
            "version"
        ],
        "marketplace.json": market["plugins"][0]["version"],
    }


def repository() -> Iterator[str]:
    """Yield what stands in the way in the files of the checkout."""
    stated = versions()
    version = stated["pyproject.toml"]
    yield from (
        f"{place} says version {each}, and pyproject.toml {version}"
        for place, each in stated.items()
        if each != version
    )
    heading = re.search(
        rf"^## {re.escape(version)} \((.+)\)$",
        (ROOT / "ledger/docs/changelog.md").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    if heading is None or not re.fullmatch(r"\d{4}-\d{2}-\d{2}", heading[1]):
        yield f"the changelog has no heading '## {version} (YYYY-MM-DD)'"
    for file, word in PLACEHOLDERS.items():
        lines = [
            number
            for number, line in enumerate((ROOT / file).read_text(encoding="utf-8").splitlines(), 1)
            if word in line
        ]
        if lines:
            yield f"{file} still has the placeholder {word} in line {', '.join(map(str, lines))}"
    changed = subprocess.run(["git", "status", "--porcelain"], cwd=ROOT, capture_output=True, text=True).stdout.split(
        "\n"
    )
    if any(changed):
        yield f"{len(changed) - 1} files are not committed"


def distribution(folder: Path, keep: Path | None) -> Iterator[str]:
    """Build, and yield what stands in the way in what was built."""
    built = folder / "dist"
    if failed := ended(sys.executable, "-m", "build", "--outdir", str(built), str(ROOT)):
        yield f"the build failed: {failed}"
        return
    wheel, sdist = next(built.glob("*.whl")), next(built.glob("*.tar.gz"))
    print(f"{wheel.name}: {wheel.stat().st_size / 1024:,.0f} KiB; {sdist.name}: {sdist.stat().st_size / 1024:,.0f} KiB")
    if wheel.stat().st_size > MOST_BYTES:
        yield f"the wheel has {wheel.stat().st_size:,} bytes, more than {MOST_BYTES:,}"
    if failed := ended(sys.executable, "-m", "twine", "check", "--strict", str(wheel), str(sdist)):
        yield f"the metadata is incomplete: {failed}"
    yield from contents(wheel, sdist)
    for version in PYTHONS:
        python = None
        with suppress(SystemExit):
            python = interpreter(version)
        if python is None:
            yield f"Python {version} is not here, so nothing was tried with it"
            continue
        yield from installed(Path(python), version, wheel, folder)
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        environment = folder / PYTHONS[0] / "bin" / "python"
        parts = keep / f"{wheel.name.removesuffix('-py3-none-any.whl')}.cdx.json"
        if failed := ended(
            sys.executable, "-m", "cyclonedx_py", "environment", "--of", "JSON", "-o", str(parts), str(environment)
        ):
            yield f"the list of parts failed: {failed}"
        for file in (wheel, sdist):
            shutil.copy(file, keep)


def contents(wheel: Path, sdist: Path) -> Iterator[str]:
    """Yield what does not belong into the archives, and what is missing there."""
    with zipfile.ZipFile(wheel) as archive:
        held = {name: archive.read(name) for name in archive.namelist()}
    with tarfile.open(sdist) as archive_of_all:
        held |= {
            f"sdist/{member.name}": file.read()
            for member in archive_of_all
            if member.isfile() and (file := archive_of_all.extractfile(member)) is not None
        }
    for licence in LICENCES:
        if not any(name.endswith(f".dist-info/licenses/{licence}") for name in held):
            yield f"the wheel has no {licence} among its licences"
    machine = [str(ROOT).encode(), str(Path.home()).encode() + b"/"]
    for name, data in held.items():
        if name.endswith((".pyc", ".db", ".log")):
            yield f"{name} does not belong into an archive"
        if ROOT.parts[1:2] != ("usr",) and any(place in data for place in machine if len(place) > 6):
            yield f"{name} holds a path of this machine"


def installed(base: Path, version: str, wheel: Path, folder: Path) -> Iterator[str]:
    """Install the wheel with one Python and nothing else, and yield what fails there."""
    home, environment = folder / f"home-{version}", folder / version
    home.mkdir()
    subprocess.run([str(base), "-m", "venv", str(environment)], check=True)
    python = environment / "bin" / "python"
    if failed := ended(str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(wheel)):
        yield f"Python {version}: the wheel cannot be installed: {failed}"
        return
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    example = re.search(r"```python\n(.+?)```", readme.partition("## Fifteen lines")[2], re.DOTALL)
    (home / "example.py").write_text(
        example[1] if example else "raise SystemExit('the README has no example')", encoding="utf-8"
    )
    steps: dict[str, tuple[str, ...]] = {
        "the README's example": (str(python), "example.py"),
        "memory-ledger --version": (str(environment / "bin" / "memory-ledger"), "--version"),
        "belief-ledger --version": (str(environment / "bin" / "belief-ledger"), "--version"),
        "memory-ledger verify": (
            str(environment / "bin" / "memory-ledger"),
            "verify",
            "--db",
            "memory.db",
            "--user",
            "ada",
        ),
    }
    yield from (
        f"Python {version}: {step}: {failed}" for step, words in steps.items() if (failed := ended(*words, cwd=home))
    )
    print(f"Python {version}: installed, and {len(steps)} steps were run")
    if version == PYTHONS[0]:
        yield from typed(environment)


def typed(environment: Path) -> Iterator[str]:
    """Yield a share of public names with complete types that is too low."""
    score = complete_share(environment / "bin")
    print(f"types are complete for {score:.1%} of the public names")
    if score < LEAST_COMPLETE:
        yield f"types are complete for {score:.1%} of the public names, less than {LEAST_COMPLETE:.0%}"


def ended(*words: str, cwd: Path = ROOT) -> str:
    """Run a command; return the last line of its output if it failed, or ""."""
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True)
    said = (done.stdout + done.stderr).strip().splitlines() or ["no output"]
    return "" if done.returncode == 0 else f"exit code {done.returncode}: {said[-1][:300]}"


if __name__ == "__main__":
    raise SystemExit(main())
