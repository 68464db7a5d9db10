"""A build of the documentation as a site with a search: ``python3 tools/pages/site.py FOLDER``, or a trial without FOLDER.

The builder writes beside its configuration only, so both are copied to a temporary folder first. A link to a page or a heading
that is not there fails the build.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
DOCS = HERE.parent.parent / "ledger" / "docs"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", help="where the site is put; it must not be there yet")
    options = parser.parse_args()
    if options.folder is not None and options.folder.exists():
        print(f"{options.folder} exists: remove it, or name another folder", file=sys.stderr)
        return 2
    builder = Path(sys.executable).with_name("zensical")
    if not builder.exists():
        print("zensical is not installed: pip install '.[check]'", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        shutil.copytree(DOCS, place / "docs")
        shutil.copy(HERE / "zensical.toml", place)
        built = subprocess.run([builder, "build", "--strict"], cwd=place, capture_output=True, text=True)
        if built.returncode:
            print((built.stdout + built.stderr).partition("Traceback")[0], file=sys.stderr)
            return 1
        site = place / "site"
        print(f"{sum(1 for _ in site.rglob('*.html')):,} pages, {size(site) / 1e6:,.1f} MB, and no warning")
        if options.folder is not None:
            shutil.copytree(site, options.folder)
    return 0


def size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


if __name__ == "__main__":
    raise SystemExit(main())
