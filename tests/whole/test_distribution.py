"""What is built and installed under the name of the distribution: belief-ledger, with the command memory-ledger."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest
from places import ROOT

pytest.importorskip("hatchling")
venv = pytest.importorskip("venv")  # which an embedded Python lacks
pytestmark = pytest.mark.slow
DATA = {
    "ledger/py.typed",
    "projections/py.typed",
    "ledger/docs/tutorial.md",
    "ledger/docs/llms.txt",
    "ledger/vectors/minilm/tokenizer.json",
    "ledger/vectors/minilm/LICENSE",
}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a wheel and an sdist of this checkout."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-d", str(folder)], cwd=ROOT, check=True)
    return folder


def files_of_the_checkout(*folders: str) -> set[str]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *folders],
        cwd=ROOT,
        capture_output=True,
        text=True,
    ).stdout.splitlines()
    if not listed:  # an sdist is no checkout
        pytest.skip("git lists no files here")
    return {name for name in listed if (ROOT / name).exists()}


def test_the_wheel_has_every_file_of_both_packages(built: Path) -> None:
    with zipfile.ZipFile(next(built.glob("belief_ledger-*.whl"))) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert names == files_of_the_checkout("ledger", "projections")
    assert names >= {name for name in DATA if (ROOT / name).exists()} and "ledger/py.typed" in names


def test_the_sdist_has_the_packages_the_tests_and_the_tools(built: Path) -> None:
    with tarfile.open(next(built.glob("belief_ledger-*.tar.gz"))) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = files_of_the_checkout("ledger", "projections", "tests", "tools", "README.md", "LICENSE", "pyproject.toml")
    assert wanted - names == set()


def test_the_sdist_is_built_into_the_same_wheel(built: Path, tmp_path: Path) -> None:
    with tarfile.open(next(built.glob("belief_ledger-*.tar.gz"))) as archive:
        archive.extractall(tmp_path, filter="data")
    (unpacked,) = tmp_path.iterdir()
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=unpacked, check=True, capture_output=True)
    contents = [
        {name: archive.read(name) for name in archive.namelist()}
        for archive in (zipfile.ZipFile(next(folder.glob("*.whl"))) for folder in (built, tmp_path))
    ]
    assert contents[0] == contents[1]


def test_an_installed_wheel_is_called_belief_ledger_and_its_commands_run(built: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "environment", with_pip=False)
    python = tmp_path / "environment" / "bin" / "python"
    packages = next((tmp_path / "environment" / "lib").glob("python*/site-packages"))
    install = ["install", "--quiet", "--no-deps", "--no-index", str(next(built.glob("*.whl")))]
    subprocess.run([sys.executable, "-m", "pip", "--python", str(python), *install], check=True)
    others = [folder for folder in sys.path if folder.endswith("-packages")]  # the dependencies come from here
    (packages / "dependencies.pth").write_text("".join(f"{folder}\n" for folder in others), encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "LEDGER_"))}

    def run(program: str, *words: str) -> str:
        command = [str(python.parent / program), *words]
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
        ).stdout.strip()

    where = "import ledger, sys; print(ledger.__file__.startswith(sys.prefix), ledger.__version__)"
    assert run("python", "-c", where) == "True 0.1.0"
    version = "from importlib.metadata import version; print(version('belief-ledger'))"
    assert run("python", "-c", version) == "0.1.0"
    assert run("memory-ledger", "--version") == "memory-ledger 0.1.0"
    assert run("memory-ledger", "remember", "Ada prefers tea.", "--quiet").startswith("m_")
    assert run("memory-ledger", "docs", "tutorial").startswith("# A first ledger")


def test_the_metadata_names_the_distribution_and_what_it_needs(built: Path) -> None:
    with zipfile.ZipFile(next(built.glob("*.whl"))) as archive:
        folder = next(name.partition("/")[0] for name in archive.namelist() if ".dist-info/" in name)
        metadata = Parser().parsestr(archive.read(f"{folder}/METADATA").decode())
        points = archive.read(f"{folder}/entry_points.txt").decode()
    assert metadata["Name"] == "belief-ledger"
    needed = {re.split(r"\W", line)[0] for line in metadata.get_all("Requires-Dist", []) if "extra ==" not in line}
    assert needed == {"eventsourcing", "msgspec", "pydantic", "rich", "cyclopts"}
    assert {"vectors", "minilm", "wordllama", "onnx", "models", "sign", "pytest"} <= set(
        metadata.get_all("Provides-Extra", [])
    )
    assert "memory-ledger = ledger.cli.app:main" in points and "[pytest11]" in points
