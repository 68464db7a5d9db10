"""The command ``memory-ledger web``: what it prints, and the sentence and exit code of each failure."""

from __future__ import annotations

import html
import os
import re
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import needs
import pytest
from command_line import run

from ledger import Ledger, RejectedError
from ledger.web.serving import Handover, place


@pytest.fixture
def db(tmp_path: Path) -> Path:
    with Ledger.open(tmp_path / "memory.db") as ledger:
        ledger.remember("The user drinks tea.")
    return tmp_path / "memory.db"


@pytest.fixture
def served(db: Path) -> Iterator[subprocess.Popen[str]]:
    words = [sys.executable, "-m", "ledger", "web", "--db", str(db), "--user", ""]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def test_the_command_prints_one_address_that_works_once(served):
    link = served.stdout.readline().strip()
    home = "http://" + urlsplit(link).netloc
    with httpx2.Client(follow_redirects=True) as browser:
        page = browser.get(link)
        assert page.status_code == 200 and "The user drinks tea." in page.text and page.url == f"{home}/beliefs"
        copied = re.search(r"memory-ledger erase ID --db \S+memory\.db --user (''|\"\")", html.unescape(page.text))
        assert copied, "a copied command is for this memory"
    assert httpx2.get(link).status_code == 403


@needs.signals
def test_an_interrupt_ends_the_command_without_another_word(served):
    served.stdout.readline()
    served.send_signal(signal.SIGINT)
    assert served.wait(30) == 0
    assert served.stdout.read() == "" and "Traceback" not in served.stderr.read()


def test_each_failure_is_one_sentence_with_its_exit_code(db, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        told = run("web", str(port), "--db", str(db))
        assert told.exit_code == 1 and f"nothing can listen on 127.0.0.1:{port}" in told.stderr
    told = run("web", "--db", str(tmp_path / "none.db"))
    assert told.exit_code == 3 and "there is no ledger at" in told.stderr
    (tmp_path / "bad.db").write_bytes(b"SQLite format 3\0" + b"x" * 4096)
    told = run("web", "--db", str(tmp_path / "bad.db"))
    assert told.exit_code == 4
    told = run("web", "192.0.2.1:80", "--db", str(db))
    assert told.exit_code == 4 and "the page is for this machine alone" in told.stderr
    told = run("web", "--db", str(db), "--as-of", "4000")
    assert told.exit_code == 4 and "4000" in told.stderr
    assert "Traceback" not in told.stderr


def test_an_extra_that_is_missing_is_named(db, monkeypatch):
    for name in [name for name in sys.modules if name == "jinja2" or name.startswith("ledger.web.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "jinja2", None)
    told = run("web", "--db", str(db))
    assert told.exit_code == 4 and 'pip install "belief-ledger[web]"' in told.stderr


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ("127.0.0.1", 0)),
        ("8080", ("127.0.0.1", 8080)),
        ("localhost:80", ("localhost", 80)),
        ("[::1]:81", ("::1", 81)),
        ("localhost", ("localhost", 0)),
        ("[::1]", ("::1", 0)),
    ],
)
def test_an_address_is_of_this_machine(text, expected):
    assert place(text) == expected


@pytest.mark.parametrize("text", ["0.0.0.0:80", "192.168.1.5", "example.org:80", "127.0.0.1:99999", "x:y:z"])
def test_an_address_that_others_reach_is_refused(text):
    with pytest.raises(RejectedError):
        place(text)


@needs.modes
def test_open_hands_the_address_over_in_a_file_that_only_its_owner_can_read(monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    door = Handover("http://127.0.0.1:1/enter?token=secret")
    door.open()
    assert opened == [door.file.as_uri()] and "secret" not in opened[0]
    assert "url=http://127.0.0.1:1/enter?token=secret" in door.file.read_text(encoding="utf-8")
    assert (
        stat.S_IMODE(os.stat(door.file).st_mode) == 0o600 and stat.S_IMODE(os.stat(door.file.parent).st_mode) == 0o700
    )
    door.remove()
    assert not door.file.parent.exists()
