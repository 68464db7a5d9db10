"""A count of the bytes of events and of their envelopes in a log: ``python tools/bench/event_bytes.py LOG.jsonl…``.

``memory-ledger export-log`` writes such a log. The envelope is all of the state but its ``data``.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any


def states(paths: Iterable[str]) -> Iterator[tuple[str, str]]:
    for path in paths:
        for line in Path(path).read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            if "state" in row:
                yield row["type"], row["state"]


def size(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())


def main() -> int:
    events, envelopes, whole, fields = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    for type_, state in states(sys.argv[1:]):
        content = json.loads(state)
        events[type_] += 1
        whole[type_] += len(state.encode())
        envelopes[type_] += len(state.encode()) - size(content["data"])
        fields.update({name: size(name) + size(value) + 2 for name, value in content.items() if name != "data"})
    count = events.total() or 1
    for type_, number in events.most_common():
        print(f"{type_:28}{number:8,}{whole[type_] / number:10,.0f} bytes, envelope {envelopes[type_] / number:6,.0f}")
    print(f"{'all':28}{count:8,}{whole.total() / count:10,.0f} bytes, envelope {envelopes.total() / count:6,.0f}")
    print(", ".join(f"{name} {number / count:,.0f}" for name, number in fields.most_common()))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
