"""Answers in a notebook, and a page as one file."""

from __future__ import annotations

import re

import needs
import pytest
from command_line import run

from ledger import Ledger, RejectedError
from ledger.web import export_html

SCRIPT = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'><b> & end"


@pytest.fixture
def belief(ledger: Ledger) -> str:
    turn = ledger.capture(SCRIPT, "Noted.", session=SCRIPT)
    first = ledger.bind(actor=SCRIPT).remember(SCRIPT, sources=[turn.id], confidence=0.5)
    ledger.memories.set_confidence(first.id, 0.7, reason=SCRIPT)
    return ledger.supersede(first.id, SCRIPT + "2", reason=SCRIPT).id


def test_answers_are_escaped_html_in_a_notebook(ledger, belief):
    for answer in (ledger.memories.get(belief), ledger.why(belief), ledger.recall("alert")):
        html = answer._repr_html_()
        assert "&lt;script&gt;" in html or "Why" in repr(answer)
        assert not re.search(r"<(?!/?(table|caption|thead|tbody|tr|th|td|p|pre)>)", html)


def test_a_page_is_exported_as_one_file_that_needs_nothing_else(ledger, belief):
    for page, subject in (
        ("belief", belief),
        ("beliefs", ""),
        ("agent", "alert"),
        ("timeline", ""),
        ("session", SCRIPT),
        ("trust", ""),
    ):
        html = export_html(ledger, page, subject)
        assert "<h1>" in html and not re.search(r"<(script|form|img|link|footer)\b", html) and ' href="/' not in html
        assert "default-src 'none'; style-src 'sha256-" in html
    assert SCRIPT.replace("<", "&lt;").replace(">", "&gt;")[:30] in export_html(ledger, "belief", belief)
    for wrong in (("nothing", ""), ("belief", "")):
        with pytest.raises(RejectedError):
            export_html(ledger, *wrong)


def test_the_audit_of_a_subject_or_of_an_actor_is_exported(ledger):
    tea = ledger.bind(actor="ada").remember("The user drinks tea.")
    ledger.bind(actor="ben").remember("The mast is up.")
    ledger.bind(actor="ben").revise(tea.id, "The user drinks coffee.")
    about = export_html(ledger, "timeline", tea.id)
    assert "<del>The user drinks tea.</del>" in about and "The mast is up." not in about
    of_ada = export_html(ledger, "timeline", "ada")
    assert "The user drinks" in of_ada and "ben" not in of_ada and "The mast is up." not in of_ada


@needs.modes
def test_nobody_else_may_read_what_the_command_writes(tmp_path):
    Ledger.open(tmp_path / "memory.db").close()
    assert run("export-html", str(tmp_path / "beliefs.html"), db=tmp_path / "memory.db").exit_code == 0
    assert (tmp_path / "beliefs.html").stat().st_mode & 0o777 == 0o600


def test_the_command_writes_a_file_and_overwrites_none(tmp_path):
    with Ledger.open(tmp_path / "memory.db") as ledger:
        memory = ledger.remember("The user drinks tea.")
    file = tmp_path / "belief.html"
    done = run("export-html", str(file), "belief", memory.id, db=tmp_path / "memory.db")
    assert done.exit_code == 0 and "The user drinks tea." in file.read_text(encoding="utf-8")
    assert run("export-html", str(file), db=tmp_path / "memory.db").exit_code == 4
    assert run("export-html", str(tmp_path / "x.html"), "belief", "m_none", db=tmp_path / "memory.db").exit_code == 3
