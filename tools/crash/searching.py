"""Searches the raw bytes of files for a word, in every encoding in which it might lie about. Needs nothing of the product."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TAIL = 10  # the text index shares the beginnings of neighbouring words, so the end of a word is searched for


def forms(word: str) -> dict[str, bytes]:
    """The end of a word in the encodings in which it might lie about."""
    plain = word[-TAIL:].encode()
    found = {
        "UTF-8": plain,
        "UTF-16 LE": plain.decode().encode("utf-16-le"),
        "UTF-16 BE": plain.decode().encode("utf-16-be"),
    }
    found |= {"hex": plain.hex().encode(), "HEX": plain.hex().upper().encode(), "upper case": plain.upper()}
    for shift in range(3):  # of the characters those that depend on the word alone
        whole = base64.b64encode(bytes(shift) + plain)
        found[f"base64 +{shift}"] = whole[-(-shift * 8 // 6) : (shift + len(plain)) * 8 // 6]
    return found


def hits(folder: Path, word: str) -> list[str]:
    """Which files hold the word, and in which form. Run where no ledger of the folder is open (see RELIABILITY R2)."""
    found = []
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            data = path.read_bytes()
            found += [f"{path.name}: {form}" for form, needle in forms(word).items() if needle in data]
    return found


def hits_elsewhere(folders: Sequence[Path], words: Sequence[str]) -> list[list[str]]:
    """The hits of each word in the folder beside it, from a process of its own, while this one has the ledger open."""
    code = (
        "import json, sys; from pathlib import Path; from tools.crash.searching import hits;"
        " print(json.dumps([hits(Path(folder), word) for folder, word in json.load(sys.stdin)]))"
    )
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    asked = json.dumps([(str(folder), word) for folder, word in zip(folders, words, strict=True)])
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, env=environment, input=asked, capture_output=True, text=True, check=True)
    found: list[list[str]] = json.loads(done.stdout)
    return found
