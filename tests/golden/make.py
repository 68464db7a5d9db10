"""A program that adds to ``events.json``, the stored form of an example of every event, what a change of the format added.

    python3 tests/golden/make.py

It refuses a change that takes away or alters a part of a form: stored events are never written again.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from ledger.log.envelope import to_stored

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden" / "events.json"


def encoded() -> dict[str, str]:
    """Return the stored form of each example of ``tests/examples.py``, by the name of its event."""
    from examples import EVENTS, MEMORY, envelope

    return {name: to_stored(MEMORY, 1, envelope(data)).state.decode() for name, data in sorted(EVENTS.items())}


def is_addition(before: object, after: object) -> bool:
    """Return True if everything that stood in a form still stands there, and only fields were added."""
    if isinstance(before, dict) and isinstance(after, dict):
        return all(name in after and is_addition(part, after[name]) for name, part in before.items())
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        return all(map(is_addition, before, after))
    return before == after


def altered(golden: dict[str, str], forms: dict[str, str]) -> list[str]:
    """Return the events whose form lost or changed a part."""
    return [
        name
        for name, form in golden.items()
        if name not in forms or not is_addition(json.loads(form), json.loads(forms[name]))
    ]


def main() -> int:
    golden, forms = json.loads(GOLDEN.read_text(encoding="utf-8")), encoded()
    if wrong := altered(golden, forms):
        print(f"nothing written: a stored form may only gain fields, and these lost or changed one: {', '.join(wrong)}")
        return 1
    changed = [name for name, form in forms.items() if golden.get(name) != form]
    GOLDEN.write_text(json.dumps(forms, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"{len(changed)} of {len(forms)} forms are new or have more fields: {', '.join(changed) or 'none'}")
    return 0


if __name__ == "__main__":
    sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
    sys.exit(main())
