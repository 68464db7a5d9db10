"""A fact that is in no other text, and where it is found after it was erased."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import probe

RARE = "Zanzibarquux lives at 12 Harbour Row."
TOKENS = (b"zanzibarquux", b"zanzibarq", b"anzibar", b"harbour row")


def remains(directory: Path) -> list[tuple[str, bytes]]:
    """Which of the rare tokens the files of a closed ledger hold, in any case and in some encodings."""
    found = []
    for path in sorted(directory.iterdir()):
        data = path.read_bytes().lower()
        for token in TOKENS:
            forms = (token, token.hex().encode(), token.decode().encode("utf-16-le"))
            found += [(path.name, form) for form in forms if form in data]
    return found


def states(ledger: Any) -> list[str]:
    return [row.state for row in probe.store(ledger).rows(limit=10_000)]
