"""A question in SQL shows the rows of its user: nothing that can be written in it leads to another user's."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from conftest import LONG
from own import Counts

from ledger import Ledger, LedgerError, Projection, RejectedError, Row, SuspendedError
from ledger.api import LedgerRead
from ledger.core.settings import Settings
from projections.core.sql_views import VIEWS
from projections.views import memories

USERS = ("", "ada", "ben")
CANARY = {"": "zebrafinch", "ada": "quokka", "ben": "narwhal"}
USER = "ben"
OTHERS = tuple(word for user, word in CANARY.items() if user != USER)


def fill(ledger: Ledger) -> None:
    for user in USERS:
        word, asked = CANARY[user], ledger.bind(user=user, actor=f"{CANARY[user]} actor", agent=f"{CANARY[user]} agent")
        fact = asked.remember(f"The {word} sings.", project=f"{word} project", tags=[word], metadata={"of": word})
        asked.revise(fact.id, f"The {word} sings at night.", reason=f"{word} reason")
        asked.propose(f"The {word} may fly.")
        asked.projects.join(f"{word} project", asked.projects.add(f"{word} joined").id)
        turn = asked.capture(f"Where is the {word}? " + "y" * 300_000, f"The {word} is here.", session=f"{word} talk")
        asked.observations.add(f"The {word} sings often.", sources=[fact.id, turn.id])
        asked.documents.add(f"All of the {word}.\n\nIts song.", title=f"{word} book", path=f"{word}.md")
        asked.session(f"{word} talk").append("user", f"A message on the {word}.")
        asked.values.put((f"{word} notes",), f"{word} song", f"The song of the {word}.")
        asked.recall(f"{word} song", receipt=True)
        asked.guards.quarantine(asked.remember(f"The {word} is held.").id)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("users") / "memory.db"
    with Ledger.open(path, projections=[Counts]) as ledger:
        fill(ledger)
        with ledger.bind(user=USER) as asked:
            asked.query("SELECT 1")
        with closing(sqlite3.connect(path)) as other:
            other.execute("CREATE TABLE my_notes (text)")
            other.executemany("INSERT INTO my_notes VALUES (?)", [(word,) for word in CANARY.values()])
            other.execute("CREATE TABLE my_diary (user TEXT COLLATE NOCASE, text TEXT)")
            diary = [(user, f"A {word} today.") for user, word in CANARY.items()]
            other.executemany(
                "INSERT INTO my_diary VALUES (?, ?)", [*diary, ("BEN", "A quokka today."), (None, "quokka")]
            )
            other.execute("CREATE VIEW my_beliefs AS SELECT content FROM main.memories")
            other.execute("CREATE VIEW my_words AS SELECT content FROM beliefs")
            other.commit()
    return path


@pytest.fixture(params=["now", "then", "folded"])
def asked(place: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[LedgerRead]:
    if request.param == "folded":
        monkeypatch.setattr(memories.MemoriesProjection, "version", 99)
    with Ledger.open(place, user=USER, projections=[Counts], readonly=request.param == "folded") as ledger:
        yield ledger.at(ledger.position) if request.param == "then" else ledger


def names(place: Path) -> list[str]:
    with closing(sqlite3.connect(place)) as other:
        return sorted(name for (name,) in other.execute("SELECT name FROM sqlite_master WHERE type <> 'index'"))


def outcome(asked: LedgerRead, sql: str, *parameters: object) -> str:
    """Return the answer, or the error with its type, as a text; an error that is not typed is raised."""
    try:
        return repr(asked.query(sql, *parameters))
    except LedgerError as error:
        return f"{type(error).__name__}: {error}"


# --- a table of the file -----------------------------------------------------------------------------------------------

OF_A_TABLE = (
    "SELECT * FROM {0}",
    "SELECT count(*) FROM {0}",
    "SELECT 1 FROM {0} LIMIT 1",
    "SELECT rowid FROM {0}",
    "SELECT EXISTS (SELECT 1 FROM {0})",
    "SELECT (SELECT 1 FROM {0}) FROM beliefs",
    "SELECT * FROM main.{0}",
    'SELECT * FROM "main"."{0}"',
    "SELECT * FROM [main].[{0}]",
    "SELECT * FROM `MAIN` . `{0}`",
    "SELECT * FROM 'main'.'{0}'",
    "SELECT count(*) FROM main/**/.{0}",
    "SELECT count(*) FROM main -- of now\n . {0}",
    "SELECT count(*) FROM main\ufeff.{0}",
    "SELECT count(*) FROM main \ufeff . {0}",
    "SELECT \"'\" AS x, count(*) FROM main.{0} WHERE '1' = '1'",
    "SELECT * FROM temp.{0}",
    "SELECT * FROM {0}('quokka')",
    "SELECT count(*) FROM {0}('quokka')",
    "SELECT * FROM beliefs, {0}",
    "SELECT b.id FROM beliefs b LEFT JOIN {0} ON 1",
    "SELECT b.id FROM {0} AS beliefs, beliefs AS b",
    "SELECT count(*) FROM beliefs b CROSS JOIN {0}",
    "SELECT id FROM beliefs UNION ALL SELECT * FROM {0}",
    "SELECT id FROM beliefs WHERE id IN {0}",
    "SELECT id FROM beliefs WHERE id IN (SELECT 1 FROM {0})",
    "SELECT id FROM beliefs ORDER BY (SELECT count(*) FROM {0})",
    "SELECT count(*) OVER (PARTITION BY (SELECT count(*) FROM {0})) FROM beliefs",
    "WITH beliefs AS (SELECT * FROM {0}) SELECT * FROM beliefs",
    "WITH events AS (SELECT * FROM {0}) SELECT * FROM events",
    "WITH up AS (SELECT * FROM {0}) SELECT * FROM up",
    "WITH {0} AS (SELECT * FROM main.{0}) SELECT * FROM {0}",
    "WITH RECURSIVE x AS (SELECT count(*) AS n FROM {0} UNION SELECT n FROM x) SELECT * FROM x",
    "SELECT value FROM json_each((SELECT json_group_array(rowid) FROM {0}))",
    "SELECT name FROM pragma_table_info('{0}')",
)


def test_no_question_about_a_table_shows_another_user(asked: LedgerRead, place: Path) -> None:
    inner = {"events", "beliefs", "moment", "blobs", "own_folded", "sqlite_master", "sqlite_temp_master"}
    tables = (name for name in names(place) if not name.endswith(("_data", "_idx", "_docsize", "_config", "_content")))
    own = {"search_content", "search_data", "sqlite_schema", "dbstat", "sqlite_stmt", "sqlite_dbpage"}
    for number, name in enumerate(sorted({*tables, *inner, *own})):
        for template in OF_A_TABLE if LONG else OF_A_TABLE[number % 16 :: 16]:
            sql = template.format(name)
            assert not any(word in outcome(asked, sql) for word in OTHERS), sql


def test_a_table_is_refused_with_the_names_of_the_views(asked: LedgerRead, place: Path) -> None:
    for name in set(names(place)) - VIEWS.keys() - {"my_diary"}:
        for template in ("SELECT * FROM {0}", "SELECT count(*) FROM {0}", "SELECT * FROM main.{0}"):
            with pytest.raises(RejectedError, match=r"beliefs, memory_history, .*documents_now") as caught:
                asked.query(template.format(name))
            assert caught.value.rule == "user"


# --- a view ------------------------------------------------------------------------------------------------------------

OF_A_VIEW = (
    "SELECT * FROM {0}",
    "SELECT * FROM {0} WHERE user <> 'ben'",
    "SELECT * FROM {0} WHERE user = 'ada' OR user = ''",
    "SELECT * FROM {0} WHERE 1 OR user = 'ben'",
    "SELECT x.* FROM {0} x LEFT JOIN {0} y ON y.user <> x.user",
    "SELECT x.* FROM {0} x JOIN {0} y USING (user)",
    "SELECT y.* FROM beliefs x NATURAL JOIN {0} y",
    "SELECT quote(group_concat(user)) FROM {0}",
    "WITH x AS (SELECT * FROM {0}) SELECT * FROM x ORDER BY user",
    "SELECT * FROM temp.{0}",
    "SELECT * FROM main.{0}",
    "SELECT * FROM (SELECT *, row_number() OVER (ORDER BY user) AS number FROM {0})",
    "SELECT * FROM {0} GROUP BY user HAVING user <> 'ben'",
    "SELECT * FROM {0} UNION SELECT * FROM {0}",
    "SELECT * FROM {0} EXCEPT SELECT * FROM {0} WHERE user = 'ben'",
)


def test_no_question_about_a_view_shows_another_user(asked: LedgerRead) -> None:
    for view in VIEWS:
        for template in OF_A_VIEW:
            sql = template.format(view)
            assert not any(word in outcome(asked, sql) for word in OTHERS), sql
        rows = asked.query(f"SELECT * FROM {view}")
        assert rows and {row["user"] for row in rows} == {USER}
        assert asked.query(f"SELECT count(*) AS n FROM {view}") == ({"n": len(rows)},)
        for column in rows[0]:
            assert len(asked.query(f"SELECT {column} FROM {view}")) == len(rows)


def test_every_view_has_the_words_of_its_user(asked: LedgerRead) -> None:
    for view in set(VIEWS) - {"confidence_timeline"}:
        assert CANARY[USER] in repr(asked.query(f"SELECT * FROM {view}")), view


# --- a guess -----------------------------------------------------------------------------------------------------------

GUESSES = (
    "SELECT count(*) FROM (SELECT ? AS {1}) JOIN {0} USING ({1})",
    "SELECT 1 FROM (SELECT ? AS {1}) NATURAL JOIN {0}",
    "SELECT 1 FROM {0} NATURAL JOIN (SELECT ? AS {1})",
    "SELECT count(*) FROM (SELECT ? AS {1}) LEFT JOIN {0} USING ({1}) WHERE {0}.{1} IS NOT NULL",
    "SELECT count(*) FROM main.{0} JOIN (SELECT ? AS {1}) USING ({1})",
    "SELECT count(*) FROM {0}(?) -- {1}",
    "SELECT 1 FROM {0} WHERE {1} = ?",
    "SELECT 1 FROM beliefs WHERE ? IN (SELECT {1} FROM {0})",
)


def test_no_question_confirms_a_guess_about_another_user(asked: LedgerRead, place: Path) -> None:
    with closing(sqlite3.connect(place)) as other:
        listed, tried = "SELECT name FROM pragma_table_xinfo(?)", 0
        tables = {name: [column for (column,) in other.execute(listed, (name,))] for name in names(place)}
        for name, of_table in tables.items():
            for column in of_table:
                if "vocab" in name or (name in VIEWS and column not in ("content", "id", "user", "name", "title")):
                    continue
                sql = f'SELECT "{column}" FROM "{name}" WHERE "{column}" IS NOT NULL AND instr("{column}", ?) LIMIT 1'
                true = other.execute(sql, (CANARY["ada"],)).fetchone()
                if true is None or (name in {*VIEWS, "my_diary"} and USER in str(true[0])):
                    continue
                tried += 1
                for template in GUESSES:
                    answers = {outcome(asked, template.format(name, column), guess) for guess in (true[0], "no guess")}
                    assert len(answers) == 1, (template, name, column)
    assert tried > 20


# --- who is bound ------------------------------------------------------------------------------------------------------


def content(asked: LedgerRead, **options: bool) -> set[object]:
    rows = asked.query("SELECT user FROM beliefs", **options)
    return {row["user"] for row in rows}


@pytest.mark.parametrize("user", USERS)
def test_open_and_bind_and_settings_bind_also_to_the_empty_name(place: Path, user: str) -> None:
    of_user = Settings(user=user, origins={"user": "LEDGER_USER"})
    with (
        Ledger.open(place) as ledger,
        Ledger.open(place, user=user) as opened,
        Ledger.open(place, settings=of_user) as of_settings,
    ):
        bound = (ledger.bind(user=user), opened, of_settings, opened.bind(actor="ann"))
        for asked in (*bound, bound[0].bind(channel="tool")):
            for then in (asked, asked.at(asked.position)):
                assert content(then) == {user}
                with pytest.raises(RejectedError, match="opened or bound for the user") as caught:
                    then.query("SELECT 1", every_user=True)
                assert caught.value.rule == "every_user"


def test_a_ledger_opened_without_user_asks_every_user_by_name_alone(place: Path) -> None:
    with Ledger.open(place) as ledger:
        for asked in (
            ledger,
            ledger.bind(actor="ann"),
            ledger.at(ledger.position),
            ledger.bind(agent="x").at(ledger.position),
        ):
            assert content(asked) == {""}
            assert content(asked, every_user=True) == set(USERS)
        with pytest.raises(RejectedError, match="every_user"):
            ledger.query("SELECT 1", every_user=1)  # type: ignore[arg-type]
        with Ledger.open(place, settings=Settings()) as of_settings:
            assert content(of_settings, every_user=True) == set(USERS)


def test_one_connection_serves_one_user_after_the_other(place: Path) -> None:
    with Ledger.open(place) as ledger:
        for user in (*USERS, *USERS[::-1], "nobody"):
            asked = ledger.bind(user=user)
            for _ in range(2):
                assert content(asked) == content(asked.at(asked.position)) == ({user} if user in USERS else set())
                outcome(asked, "SELECT nothing")


def test_json_each_is_asked_by_whoever_asks_first(place: Path) -> None:
    sql = "SELECT t.value AS tag FROM beliefs b, json_each(b.tags) t WHERE b.user = ?"
    for every_user in (False, True):
        with Ledger.open(place) as ledger:
            for asked in (ledger, ledger.at(ledger.position)):
                assert asked.query(sql, "", every_user=every_user) == ({"tag": "zebrafinch"},)


def test_the_text_index_is_asked_by_an_operator(place: Path) -> None:
    with Ledger.open(place) as ledger:
        assert ledger.query("SELECT count(*) AS n FROM search WHERE search MATCH 'quokka'", every_user=True)[0]["n"]


def test_a_table_of_ones_own_with_a_column_user_shows_the_rows_of_its_user(place: Path) -> None:
    for user in (*USERS, "nobody"):
        with Ledger.open(place, user=user) as ledger:
            rows = ledger.query("SELECT text FROM MY_diary d JOIN (SELECT 1)")
            assert rows == ledger.query("SELECT text FROM my_diary WHERE user = ?", user)
            assert rows == (({"text": f"A {CANARY[user]} today."},) if user in USERS else ())
            assert ledger.query("SELECT count(*) AS n FROM my_diary") == ({"n": len(rows)},)
            for template in OF_A_VIEW:
                told = outcome(ledger, template.format("my_diary"))
                assert not any(word in told for word in CANARY.values() if word != CANARY.get(user)), template
            for sql in ("SELECT * FROM my_notes", "SELECT * FROM my_beliefs", "SELECT * FROM my_words"):
                with pytest.raises(RejectedError, match=r"your own tables \(my_…\) that have a column user"):
                    ledger.query(sql)
            with pytest.raises(RejectedError, match="of the present"):
                ledger.at(ledger.position).query("SELECT * FROM my_diary")


def test_a_table_that_loses_its_column_user_shows_nothing(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "memory.db", user="user") as ledger, closing(sqlite3.connect(ledger.path)) as other:
        for made, rows in (("user, text", ({"text": "mine"},)), ("text", None), ("User, text", ({"text": "mine"},))):
            other.execute("DROP TABLE IF EXISTS my_diary")
            other.execute(f"CREATE TABLE my_diary ({made})")
            other.execute(
                "INSERT INTO my_diary VALUES ('user', 'mine')" if "," in made else "INSERT INTO my_diary VALUES ('x')"
            )
            other.commit()
            if rows is not None:
                assert ledger.query("SELECT text FROM my_diary") == rows
            else:
                with pytest.raises(RejectedError):
                    ledger.query("SELECT text FROM my_diary")


def test_a_projection_of_ones_own_is_folded_before_its_user_asks(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "memory.db", user=USER, projections=[Said]) as ledger:
        for user in USERS:
            ledger.bind(user=user).remember(f"The {CANARY[user]} sings.")
        assert ledger.query("SELECT content FROM my_said_fact") == ({"content": "The narwhal sings."},)
    with Ledger.open(tmp_path / "memory.db", user="ada", readonly=True) as ledger:
        assert ledger.query("SELECT content FROM my_said_fact") == ({"content": "The quokka sings."},)


class Fact(Row, key=("user", "position")):
    user: str
    position: int
    content: str | None


class Said(Projection):
    name = "said"
    follows = ("memory",)
    tables = (Fact,)

    def fold(self, event: Any, change: Any, rows: Any) -> None:
        rows.put(Fact(event.envelope.user or "", event.position, change.new.content))


def test_a_table_that_is_made_while_the_ledger_is_open_is_refused(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "memory.db", user=USER) as ledger:
        ledger.query("SELECT 1")
        with closing(sqlite3.connect(ledger.path)) as other:
            other.execute("CREATE TABLE my_late (content)")
        for sql in (
            "SELECT * FROM my_late",
            "SELECT count(*) FROM MY_LATE",
            "SELECT 1 FROM beliefs NATURAL JOIN my_late",
        ):
            with pytest.raises(RejectedError, match="every_user"):
                ledger.query(sql)


def test_a_suspended_projection_is_named_to_one_user_too(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError

    with Ledger.open(tmp_path / "memory.db", user=USER) as ledger:
        monkeypatch.setattr("projections.views.confidence.Confidence.fold", fail)
        ledger.remember("The mast is up.")
        for asked in (ledger, ledger.at(ledger.position)):
            for sql in ("SELECT * FROM confidence_timeline", "SELECT count(*) FROM confidence_timeline"):
                with pytest.raises(SuspendedError) as caught:
                    asked.query(sql)
                assert caught.value.projection == "confidence"
            assert asked.query("SELECT content FROM beliefs") == ({"content": "The mast is up."},)
