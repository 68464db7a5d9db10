"""A generator of ledger/domain/scan/patterns.json from tools/pages/patterns, so that the guards derive nothing at a start.

    python tools/pages/guard_patterns.py            writes it
    python tools/pages/guard_patterns.py --check    exit code 1 if the file is not current

A file is made of blocks with an empty line between them. A line of a block is ``name: value``; the indented lines after it
belong to its value. A line that begins with ``#`` is a comment. A block is a pattern or a part of patterns:

``label``       the name of a match
``begins``      beginnings of words, of which the first five letters count: a word of the text must begin with one of them …
``signs``       … or one of these texts is in the text. A pattern with neither ``begins`` nor ``signs`` has no such condition
``has``         one of these texts is in the text too; several ``has`` must all hold. ``␣`` is a blank
``counts``      ``beliefs``: a match in a turn, message or document is no finding. Of a label such patterns stand last
``expression``  a regular expression; its lines are joined without anything between them, so none begins or ends with a blank
``part``        the name of a part: ``{name}`` in an expression stands for it, or for a value of that name in the same block

``has`` only saves time: it follows from the expression. ``begins`` and ``signs`` are a condition of their own. Letters beyond
ASCII are folded as the texts are. A part that no expression names is kept, and the guards look it up by its name.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path

import msgspec

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from ledger.domain.scan.folding import fold  # noqa: E402
from ledger.domain.scan.letters import HEAD  # noqa: E402
from ledger.domain.scan.patterns import PATH, ScannerPattern, ScannerPatterns  # noqa: E402

_NAME = re.compile(r"\{([a-z_]+)\}")
_BREAK = re.compile(r"\s*\n\s*")
_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]+")


def derived() -> bytes:
    """Return the bytes that patterns.json should hold."""
    threats = _read("threats", int(re.DOTALL), fold)
    patterns = {"threats": threats} | {name: _read(name, 0, str) for name in ("secrets", "claims")}
    return msgspec.json.format(msgspec.json.encode(patterns), indent=1) + b"\n"


def _read(name: str, flags: int, fold: Callable[[str], str]) -> ScannerPatterns:
    text = (ROOT / "tools" / "pages" / "patterns" / f"{name}.txt").read_text(encoding="utf-8")
    named = set(_NAME.findall(text))
    parts, patterns = dict[str, str](), list[ScannerPattern]()
    for block in _blocks(text):
        values = {key: _BREAK.sub("", value) for key, value in block}
        expression, known = values["expression"], parts | values
        while (whole := _NAME.sub(lambda match: known.get(match[1], match[0]), expression)) != expression:  # noqa: B023
            expression = whole
        expression = _BEYOND_ASCII.sub(lambda match: fold(match[0]), expression)
        if "part" in values:
            parts[values["part"]] = expression
            continue
        texts: dict[str, list[tuple[str, ...]]] = {"begins": [], "signs": [], "has": []}
        for key, value in block:
            if key in texts:
                texts[key].append(tuple(fold(word).replace("␣", " ") for word in value.split()))
        heads = sorted({f"{beginning}{end}"[:HEAD] for beginning in chain(*texts["begins"]) for end in ("", "s")})
        signs = tuple(chain(*texts["signs"]))
        only = values.get("counts") == "beliefs"
        patterns.append(
            ScannerPattern(
                values["label"], expression, flags, tuple(heads), signs, tuple(texts["has"]), beliefs_only=only
            )
        )
    return ScannerPatterns(tuple(patterns), {name: part for name, part in parts.items() if name not in named})


def _blocks(text: str) -> Iterator[list[tuple[str, str]]]:
    """Yield the names and values of each block."""
    lines = re.sub(r"(?m)^#.*\n", "", text).strip()
    for block in lines.split("\n\n"):
        pairs = (entry.partition(":") for entry in re.split(r"\n(?! )", block))
        yield [(key, value.strip()) for key, _, value in pairs]


def main() -> int:
    if "--check" in sys.argv[1:]:
        return int(Path(PATH).read_bytes() != derived())
    Path(PATH).write_bytes(derived())
    return 0


if __name__ == "__main__":
    sys.exit(main())
