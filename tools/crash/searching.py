"""A search of the raw bytes of files for a word in every likely encoding, without any code of the product."""

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
    """Return the end of a word in every encoding in which it might lie in a file."""
    plain = word[-TAIL:].encode()
    encoded = {
        "UTF-8": plain,
        "UTF-16 LE": plain.decode().encode("utf-16-le"),
        "UTF-16 BE": plain.decode().encode("utf-16-be"),
    }
    encoded |= {"hex": plain.hex().encode(), "HEX": plain.hex().upper().encode(), "upper case": plain.upper()}
    for shift in range(3):  # only the characters that depend on nothing but the word
        whole = base64.b64encode(bytes(shift) + plain)
        encoded[f"base64 +{shift}"] = whole[-(-shift * 8 // 6) : (shift + len(plain)) * 8 // 6]
    return encoded


def hits(folder: Path, word: str) -> list[str]:
    """Return the files that hold the word, with the form of it.

    No ledger of the folder may be open in this process: closing a file here would drop SQLite's locks on it.
    """
    matches = []
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            data = path.read_bytes()
            matches += [f"{path.name}: {form}" for form, needle in forms(word).items() if needle in data]
    return matches


def hits_elsewhere(folders: Sequence[Path], words: Sequence[str]) -> list[list[str]]:
    """Return the hits of each word in its folder from a process of its own, while this process has the ledger open."""
    code = (
        "import json, sys; from pathlib import Path; from tools.crash.searching import hits;"
        " print(json.dumps([hits(Path(folder), word) for folder, word in json.load(sys.stdin)]))"
    )
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    request = json.dumps([(str(folder), word) for folder, word in zip(folders, words, strict=True)])
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, env=environment, input=request, capture_output=True, text=True, check=True)
    answer: list[list[str]] = json.loads(done.stdout)
    return answer
