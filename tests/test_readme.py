"""The README says what is true: its example runs, and every verb of the two doors stands in it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ledger import Ledger, Session

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


SAID = (
    ("The user prefers green tea.", "MemoryCaptured", "True\n"),
    ("['PostgreSQL for the archive']\n0 0\n",),
    (
        "1 1.05 The user prefers green tea. {",
        "turn Which tea",
        "```memory\n- The user prefers green tea.\n```",
        "nothing found, 1 searched",
        "superseded by m_",
        "',)\n",
    ),
    ("1 0.95 Dark roast is", "'proof': 0.05} 3 new\n", "(3 sources, new)\n```\n() ('m_", ": stale, sources 3 → 2')\n"),
    ("True 1 1 True\n('Coffee', 'Water')\ngone True\n",),
    ("letters 1 26\n1 {'letters': 1}\n",),
    ("works_at out Acme 1\n", "co_occurs both New York 1\n", "['left', 'co_occurs'", "\nAna de Souza\n"),
    ("1 1\n", "2 The user drinks dark roast coffee", "ana: lives_in ['lisbon', 'rome'] True\n", "resolved True\n"),
    (
        "18 normal summarise 33\n",
        "True summary ('The user drinks green tea.',)\n<conversation_summaries>\n",
        "On day 9 comes ship number 9; it carries 9 tons of green tea.\n2 50\n",
        "True 1\n",
    ),
    ("2 1 ['The user lives in Lisbon.'] active\nuser said: I moved to Lisbon last week.\n", "superseded 0\n"),
    ("The ships bring tea (asked for at most ", "prompt leaf/1).\n", "small leaf/1 True 1 1 0\n"),
    (
        "2 0.9 fresh strengthening stale\n1 stale\nfresh\nTrue []\n",
        "2026-01-10 True The user drinks coffee each morning.\n2026-02-20 False The user bought a coffee grinder.\n",
    ),
    ("grouping/1 3 1 The user prefers dark roast coffee.\nTrue\n",),
    ("The vault is in Geneva.\n[True]\nTrue\ncompleted True\n",),
)


@pytest.mark.parametrize("number", range(len(SAID)))
def test_the_examples_run_as_they_stand(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    examples = re.findall(r"```python\n(.*?)```", README, re.S)
    assert len(examples) == len(SAID)
    exec(compile(examples[number], "README.md", "exec"), {})
    said = capsys.readouterr().out
    assert all(each in said for each in SAID[number])
    assert said.endswith(SAID[number][-1])


def test_every_public_verb_of_the_library_is_documented() -> None:
    words = set(re.findall(r"[a-z_]+", README))
    verbs = {name for door in (Ledger, Session) for name in dir(door) if not name.startswith("_")}
    assert verbs - words == set()


@pytest.mark.parametrize(
    "table",
    [
        "events",
        "blobs",
        "memories",
        "confidence_steps",
        "audit",
        "checkpoint",
        "leases",
        "vectors",
        "messages",
        "summaries",
        "observations",
        "evidence",
    ],
)
def test_every_table_that_others_may_read_is_documented(table: str) -> None:
    assert f"`{table}`" in README
