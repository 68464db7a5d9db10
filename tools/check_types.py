"""Whether type checkers see the library as its users do: ``python tools/check_types.py``, a part of ``dev.py check``.

mypy (strict) and pyright look at ``tests/typing/mistakes.py`` next to the package as it is here (an editable installation)
and as a wheel brings it, and must find every line marked ``wrong`` and no other. pyright fetches itself from the npm registry
when it first runs.
"""

from __future__ import annotations

import json
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


def main() -> int:
    wanted = {number for number, line in enumerate(FILE.read_text().splitlines(), 1) if line.endswith("# wrong")}
    problems = 0
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        shutil.copy(FILE, place)
        for package, python in (("editable", Path(sys.executable)), ("wheel", installed(place / "environment"))):
            for name, found in (("mypy", by_mypy(python, place)), ("pyright", by_pyright(python, place))):
                missed, besides = sorted(wanted - found), sorted(found - wanted)
                verdict = f"missed lines {missed}, and found {besides} besides" if missed or besides else "ok"
                print(
                    f"{name} with the package as {package}: {len(found & wanted)} of {len(wanted)} mistakes, {verdict}"
                )
                problems += bool(missed or besides)
    return int(problems > 0)


def installed(folder: Path) -> Path:
    """The Python of an environment with the wheel in it, and everything else where it is here."""
    venv.create(folder, with_pip=False)
    packages = next((folder / "lib").glob("python*/site-packages"), folder / "Lib" / "site-packages")
    wheel = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(ROOT)]
    subprocess.run(wheel, check=True)
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as archive:
        archive.extractall(packages)
    (packages / "besides.pth").write_text("".join(f"{each}\n" for each in sys.path if each.endswith("-packages")))
    return folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")


def by_mypy(python: Path, place: Path) -> set[int]:
    command = [sys.executable, "-m", "mypy", "--strict", "--python-executable", str(python), FILE.name]
    told = subprocess.run(command, cwd=place, capture_output=True, text=True).stdout
    return {int(each) for each in re.findall(rf"^{FILE.name}:(\d+): error", told, re.MULTILINE)}


def by_pyright(python: Path, place: Path) -> set[int]:
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", str(python), FILE.name]
    told = subprocess.run(command, cwd=place, capture_output=True, text=True).stdout
    found = json.loads(told[told.index("{") :])["generalDiagnostics"]
    return {each["range"]["start"]["line"] + 1 for each in found if each["severity"] == "error"}


if __name__ == "__main__":
    raise SystemExit(main())
