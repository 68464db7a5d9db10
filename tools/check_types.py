"""A check that type checkers see the library as its users do: ``python tools/check_types.py``, a part of ``dev.py check``.

mypy (strict) and pyright look at ``tests/typing/mistakes.py`` with an editable installation of the package and with a wheel of
it. They must find every line marked ``wrong`` and no other line. Then pyright counts the public names whose types are stated
completely, so that no checker has to guess them. pyright fetches itself from the npm registry when it first
runs.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FILE = ROOT / "tests" / "typing" / "mistakes.py"
LEAST_COMPLETE = 0.98  # of the public names


def main() -> int:
    marked = {
        number
        for number, line in enumerate(FILE.read_text(encoding="utf-8").splitlines(), 1)
        if line.endswith("# wrong")
    }
    problems = 0
    with tempfile.TemporaryDirectory() as folder:
        workplace = Path(folder)
        shutil.copy(FILE, workplace)
        for package, python in (("editable", Path(sys.executable)), ("wheel", installed(workplace / "environment"))):
            for name, reported in (("mypy", by_mypy(python, workplace)), ("pyright", by_pyright(python, workplace))):
                missed, besides = sorted(marked - reported), sorted(reported - marked)
                verdict = f"missed lines {missed}, and found {besides} besides" if missed or besides else "ok"
                print(
                    f"{name} with the package as {package}: {len(reported & marked)} of {len(marked)} mistakes, {verdict}"
                )
                problems += bool(missed or besides)
    share = complete_share(Path(sys.executable).parent)
    print(f"types are complete for {share:.1%} of the public names; at least {LEAST_COMPLETE:.0%} are asked for")
    return int(problems > 0 or share < LEAST_COMPLETE)


def installed(folder: Path) -> Path:
    """Return the Python of a new environment with the wheel in it; other packages come from the running environment."""
    venv.create(folder, with_pip=False)
    packages = next((folder / "lib").glob("python*/site-packages"), folder / "Lib" / "site-packages")
    wheel = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(ROOT)]
    subprocess.run(wheel, check=True)
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as archive:
        archive.extractall(packages)
    (packages / "besides.pth").write_text(
        "".join(f"{folder}\n" for folder in sys.path if folder.endswith("-packages")), encoding="utf-8"
    )
    return folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")


def by_mypy(python: Path, place: Path) -> set[int]:
    command = [sys.executable, "-m", "mypy", "--strict", "--python-executable", str(python), FILE.name]
    output = subprocess.run(command, cwd=place, capture_output=True, text=True).stdout
    return {int(number) for number in re.findall(rf"^{FILE.name}:(\d+): error", output, re.MULTILINE)}


def by_pyright(python: Path, place: Path) -> set[int]:
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", str(python), FILE.name]
    output = subprocess.run(command, cwd=place, capture_output=True, text=True).stdout
    diagnostics = json.loads(output[output.index("{") :])["generalDiagnostics"]
    return {diagnostic["range"]["start"]["line"] + 1 for diagnostic in diagnostics if diagnostic["severity"] == "error"}


def complete_share(programs: Path) -> float:
    """Return the share of the public names whose types are complete.

    Args:
        programs: The folder of the Python that has the package. ``--verifytypes`` takes the first Python of the PATH.
    """
    command = [sys.executable, "-m", "pyright", "--verifytypes", "ledger", "--ignoreexternal", "--outputjson"]
    path = os.pathsep.join((str(programs), os.environ["PATH"]))
    done = subprocess.run(command, cwd=programs, env=os.environ | {"PATH": path}, capture_output=True, text=True)
    return float(json.loads(done.stdout[done.stdout.index("{") :])["typeCompleteness"]["completenessScore"])


if __name__ == "__main__":
    raise SystemExit(main())
