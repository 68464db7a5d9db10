"""Tables and views that people make themselves under ``my_``: no damage to anything, and never lost by what the ledger does."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from ledger import Ledger, RejectedError
from projections.core import rebuild
from projections.core.sql_views import VIEWS, definitions
from projections.views import memories

DOCS = Path(rebuild.__file__).parents[2] / "ledger" / "docs"
OWN = """
    CREATE TABLE my_notes (id INTEGER PRIMARY KEY, text TEXT, memory TEXT);
    CREATE INDEX my_notes_by_memory ON my_notes (memory);
    CREATE TABLE MY_Pairs (a TEXT, b BLOB, PRIMARY KEY (a)) WITHOUT ROWID;
    CREATE VIRTUAL TABLE my_words USING fts5(text);
    CREATE VIEW my_tables_view AS SELECT id, content FROM memories WHERE status = 'active';
    CREATE VIEW my_beliefs AS SELECT b.content, n.text FROM beliefs b LEFT JOIN my_notes n ON n.memory = b.id;
    CREATE VIEW my_broken AS SELECT gone FROM nowhere;
    CREATE TABLE my_log (at TEXT, note INTEGER REFERENCES my_notes (id) ON UPDATE CASCADE ON DELETE SET NULL);
    CREATE TRIGGER my_changed AFTER UPDATE OF text ON my_notes BEGIN UPDATE my_log SET at = 'x'; DELETE FROM my_log; END;
    CREATE TRIGGER my_noted AFTER INSERT ON my_notes BEGIN INSERT INTO my_log (at) VALUES (NEW.text); END;
    INSERT INTO my_notes (text, memory) VALUES ('ask again', 'm_1');
    INSERT INTO my_pairs VALUES ('x', x'00ff');
    INSERT INTO my_words VALUES ('ask again');
"""


@pytest.fixture
def path(tmp_path):
    place = tmp_path / "memory.db"
    with Ledger.open(place) as ledger:
        first = ledger.remember("The mast is up.", project="boat")
        ledger.revise(first.id, "The mast is down.")
    by_hand(place, OWN)
    return place


def by_hand(path, script):
    with closing(sqlite3.connect(path)) as other:
        other.executescript(script)


def own(path):
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as other:
        made = other.execute(
            "SELECT name, sql FROM sqlite_master WHERE name LIKE 'my!_%' ESCAPE '!' ORDER BY name"
        ).fetchall()
        tables = ("my_notes", "my_pairs", "my_words", "my_log", "my_tables_view")
        return made, [other.execute(f"SELECT * FROM {name}").fetchall() for name in tables]


def sound(path):
    with Ledger.open(path) as ledger:
        assert ledger.proof.verify().problems == ()
        assert ledger.query("SELECT content FROM my_tables_view", every_user=True)[0]["content"]
        assert ledger.query("SELECT text FROM my_notes", every_user=True) == ({"text": "ask again"},)
    found = Ledger.doctor(path)
    assert found.ok, [each for each in found.findings if each.level == "problem"]


def test_they_are_no_damage(path):
    sound(path)


def test_they_survive_a_rebuild_however_it_switches(path, monkeypatch):
    before = own(path)
    for tail in (1_000, 1):
        monkeypatch.setattr(rebuild, "TAIL", tail)
        with Ledger.open(path) as ledger:
            ledger.maintenance.rebuild()
            ledger.maintenance.rebuild("memories")
        assert own(path) == before
        sound(path)


@pytest.mark.parametrize("tail", [1_000, 1])
def test_they_survive_a_change_of_version_and_what_is_nobodys_does_not(path, monkeypatch, tail):
    by_hand(path, "CREATE TABLE notes (text)")
    before = own(path)
    monkeypatch.setattr(rebuild, "TAIL", tail)
    monkeypatch.setattr(memories.MemoriesProjection, "version", 99)
    sound(path)
    assert own(path) == before
    with closing(sqlite3.connect(path)) as other:
        assert other.execute("SELECT count(*) FROM sqlite_master WHERE name = 'notes'").fetchone() == (0,)


def test_they_are_in_a_backup_and_a_recovery_names_what_it_leaves_behind(path, tmp_path):
    before = own(path)
    with Ledger.open(path) as ledger:
        ledger.maintenance.backup(tmp_path / "backup.db")
    assert own(tmp_path / "backup.db") == before
    sound(tmp_path / "backup.db")
    report = Ledger.recover(tmp_path / "backup.db", tmp_path / "new.db")
    names = {"my_notes", "MY_Pairs", "my_words", "my_tables_view", "my_beliefs", "my_broken", "my_log"}
    assert set(report.left_behind) == names and report.ok
    with Ledger.open(tmp_path / "new.db") as ledger:
        assert ledger.proof.verify().ok
        assert ledger.query("SELECT content FROM beliefs")


def test_they_survive_a_file_that_is_made_again_because_its_pages_are_damaged(path, tmp_path):
    before = own(path)
    with closing(sqlite3.connect(path)) as other:
        other.execute("PRAGMA writable_schema = 1")
        other.execute("DELETE FROM sqlite_master WHERE name LIKE 'memories_3%'")
        other.commit()
    with Ledger.open(path) as ledger:
        ledger.maintenance.rebuild()
    names, rows = own(path)
    assert rows == before[1] and [name for name, _ in names] == [name for name, _ in before[0]]
    sound(path)


def test_what_cannot_be_read_of_them_is_named_when_the_file_is_made_again(path):
    with closing(sqlite3.connect(path)) as other:
        (page,) = other.execute("SELECT rootpage FROM sqlite_master WHERE name = 'my_notes'").fetchone()
        (size,) = other.execute("PRAGMA page_size").fetchone()
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    with path.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xa5" * size)
    with Ledger.open(path) as ledger:
        report = ledger.maintenance.rebuild()
        assert report.left_behind[0] == "my_notes"
        assert ledger.proof.verify().ok and ledger.query("SELECT * FROM my_pairs", every_user=True)
        assert ledger.maintenance.rebuild().left_behind == ()


def test_an_erasure_names_those_that_hold_the_text_and_ends_all_the_same(path):
    with Ledger.open(path) as ledger:
        secret = ledger.remember("The captain is afraid of seagulls.")
        other = ledger.remember("The sails are red and white.")
        by_hand(
            path,
            "INSERT INTO my_notes (text) VALUES ('he said: The captain is afraid of seagulls. indeed');"
            "INSERT INTO my_pairs VALUES ('k', CAST('The captain is afraid of seagulls.' AS BLOB));",
        )
        dry = ledger.erase(secret.id, dry_run=True)
        assert dry.own_tables == ("MY_Pairs", "my_log", "my_notes")
        report = ledger.erase(secret.id)
        assert (report.state, report.own_tables) == ("completed", dry.own_tables)
        assert ledger.erase(other.id).own_tables == ()
        assert ledger.query("SELECT count(*) AS n FROM my_notes WHERE text LIKE '%seagulls%'", every_user=True) == (
            {"n": 1},
        )
        by_hand(
            path, "DELETE FROM my_notes WHERE text LIKE '%seagulls%'; DELETE FROM my_pairs; DELETE FROM my_log; VACUUM"
        )
        assert ledger.proof.verify().ok


@pytest.mark.parametrize(
    ("script", "why"),
    [
        (
            "CREATE TABLE my_links (memory INTEGER REFERENCES memories (row))",
            "table my_links reaches into the ledger's memories",
        ),
        (
            "CREATE TRIGGER my_stop AFTER INSERT ON my_notes BEGIN DELETE FROM memories; END",
            "trigger my_stop reaches into the ledger's memories",
        ),
        ("CREATE TRIGGER my_watch AFTER INSERT ON memories BEGIN SELECT 1; END", "trigger my_watch"),
        ("CREATE INDEX my_index ON memories (content)", "index of memories"),
        ("CREATE TABLE notes (text)", "table notes"),
        ("CREATE VIEW mine AS SELECT 1", "view mine"),
        ("DROP VIEW beliefs", "view beliefs"),
        ("DROP VIEW beliefs; CREATE VIEW beliefs AS SELECT 1 AS one", "view beliefs"),
    ],
)
def test_what_reaches_into_the_ledger_or_has_no_prefix_is_told(path, script, why):
    by_hand(path, script)
    with Ledger.open(path, readonly=True) as ledger:
        problems = ledger.proof.verify().problems
    assert problems and why in " ".join(problems)
    assert not Ledger.doctor(path).ok


def test_a_view_that_is_missing_or_was_changed_is_made_again_by_the_next_writable_open(path):
    by_hand(path, "DROP VIEW audit_trail; DROP VIEW beliefs; CREATE VIEW beliefs AS SELECT 1 AS one")
    with Ledger.open(path, readonly=True) as ledger:
        assert ledger.query("SELECT content FROM beliefs"), "a question has the views of the product"
    sound(path)
    with closing(sqlite3.connect(path)) as other:
        made = dict(other.execute("SELECT name, sql FROM sqlite_master WHERE type = 'view'"))
    assert definitions().items() <= made.items()


def test_a_table_of_somebodys_in_the_place_of_a_view_stays_and_is_told(path):
    by_hand(path, "DROP VIEW beliefs; CREATE TABLE beliefs (text); INSERT INTO beliefs VALUES ('kept')")
    with Ledger.open(path) as ledger:
        ledger.remember("The sails are red.")
        assert not ledger.proof.verify().ok
        ledger.maintenance.rebuild()
        assert len(ledger.query("SELECT content FROM beliefs")) == 2
    with closing(sqlite3.connect(path)) as other:
        assert other.execute("SELECT * FROM beliefs").fetchall() == [("kept",)]


def test_the_page_names_every_view_and_column_of_the_file(path):
    text = (DOCS / "sql.md").read_text(encoding="utf-8")
    told = {}
    for part in text.split("## The views")[1].split("## Tables of your own")[0].split("\n**`")[1:]:
        name, _, rest = part.partition("`**")
        told[name] = set(re.findall(r"`([a-z_]+)`", rest))
    with closing(sqlite3.connect(path)) as other:
        made = {view: {row[1] for row in other.execute(f"PRAGMA table_info({view})")} for view in VIEWS}
    assert set(told) == set(made)
    assert {view: columns - told[view] for view, columns in made.items() if columns - told[view]} == {}, (
        "not on the page"
    )
    named = {view: told[view] - columns - {"beliefs", "status"} for view, columns in made.items()}
    assert not any(named.values()), "not in the file"


def test_a_view_without_the_prefix_is_named_with_the_prefix(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    with Ledger.open(path) as ledger:
        ledger.remember("The user likes tea.")
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript("CREATE VIEW teas AS SELECT content FROM memories; CREATE TABLE notes (text)")
    found = [item for item in Ledger.doctor(path).findings if item.level == "problem"]
    assert len(found) == 2
    for item in found:
        assert "begins with my_" in item.found and "rebuild" not in item.hint
    with Ledger.open(path) as ledger:
        assert all("begins with my_" in problem for problem in ledger.proof.verify().problems)
        with pytest.raises(RejectedError, match="my_"):
            ledger.query("SELECT * FROM teas")
        assert list(ledger.query("SELECT * FROM teas", every_user=True)) == [{"content": "The user likes tea."}]
