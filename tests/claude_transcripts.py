"""Transcripts of Claude Code, as tests write them, and a ledger that no setting of the machine reaches."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ledger import Ledger

DAY_1, DAY_2 = "11111111-aaaa-4aaa-8aaa-111111111111", "22222222-bbbb-4bbb-8bbb-222222222222"
Write = Callable[..., Path]


def entry(kind: str, content: object, uuid: str, **more: object) -> dict[str, Any]:
    made = {
        "type": kind,
        "uuid": uuid,
        "parentUuid": None,
        "isSidechain": False,
        "cwd": "/srv/shop",
        "sessionId": DAY_1,
    }
    made |= {"timestamp": "2026-01-05T10:00:00.000Z", "message": {"role": kind, "content": content}}
    return made | more


def turn(text: str, uuid: str, reply: str, **more: object) -> list[dict[str, Any]]:
    blocks = [{"type": "text", "text": reply}]
    return [entry("user", text, uuid, **more), entry("assistant", blocks, f"{uuid}-reply", **more)]


def writer(place: Path) -> Write:
    """Return a function that writes a transcript below a folder."""

    def transcript(*entries: dict[str, Any], name: str = DAY_1, end: str = "") -> Path:
        path = place / "claude" / "projects" / "-srv-shop" / f"{name}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(each) + "\n" for each in entries) + end, encoding="utf-8-sig")
        return path

    return transcript


@contextmanager
def ledger_alone(place: Path, monkeypatch: Any) -> Iterator[Ledger]:
    """Yield a ledger of ada that no environment variable changes."""
    for name in [name for name in os.environ if name.startswith(("LEDGER_", "CLAUDE_"))]:
        monkeypatch.delenv(name)
    with Ledger.open(place / "memory.db", user="ada") as opened:
        yield opened
