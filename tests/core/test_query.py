"""Questions in SQL: the views say what the library answers, at every moment; nothing but reading is allowed."""

from __future__ import annotations

import json
import random
import sqlite3
import tempfile
from contextlib import closing, suppress

import probe
import pytest
from commands import START, TEXTS, USERS, act
from conftest import LONG, Clock
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from own import Counts
from places import QUICK

from ledger import ConflictError, DamagedError, Ledger, LedgerError, RejectedError, SuspendedError
from ledger.types import SessionName
from projections.core.sql_views import VIEWS
from projections.views import memories

# --- the views say what the library answers -----------------------------------------------------------------------------

KEEP = {"sources": "keep", "derived": "keep", "quotes": "keep"}
ACTIONS = (
    *(
        "remember",
        "remember",
        "propose",
        "promote",
        "reject",
        "adjust",
        "reinforce",
        "supersede",
        "revise",
        "correct",
        "archive",
        "retag",
        "valid",
    ),
    *("invalidate", "retract", "restore", "quarantine", "release", "capture", "capture", "attach", "extract", "relate"),
    *(
        "undo",
        "undo",
        "redo",
        "distrust",
        "trust",
        "clock",
        "ingest",
        "ingest",
        "remove_document",
        "restore_document",
        "cite",
    ),
    *(
        "observe",
        "observe",
        "withdraw",
        "join",
        "say",
        "hide",
        "large",
        "meta",
        "erase",
        "hold_text",
        "revise_observation",
    ),
)
actions = st.lists(
    st.tuples(st.sampled_from(ACTIONS), st.sampled_from(TEXTS), st.integers(0, 10_000), st.sampled_from(USERS)),
    min_size=6,
    max_size=50,
)


def do(ledger, clock, action, text, number, user):
    asked = ledger.bind(user=user)
    some = [each.id for each in (*asked.memories.list(statuses=()), *asked.interactions.list())]
    seen = [each.id for each in asked.observations.list(statuses=())]
    chat = asked.session("talk", project="Home")

    def hide():
        kept = [{"role": each.role, "content": each.content} for each in chat.messages()][:1]
        chat.replace(kept)

    calls = {
        "observe": lambda: asked.observations.add(f"{text} Often.", sources=some[:: 1 + number % 3], project="Home"),
        "withdraw": lambda: asked.observations.withdraw([some[number % len(some)]]),
        "revise_observation": lambda: asked.revise(seen[number % len(seen)], f"{text} Always."),
        "join": lambda: asked.projects.join("Work", "Home"),
        "meta": lambda: asked.remember(f"{text} Meta.", metadata={"n": number, "a": text}),
        "say": lambda: chat.append("user", text),
        "hide": hide,
        "large": lambda: asked.capture(text + "é" * 150_000, "Yes.", session="talk"),
        "erase": lambda: asked.erase((some + seen)[number % len(some + seen)], **KEEP),
        "hold_text": lambda: asked.guards.quarantine((some + seen)[number % len(some + seen)]),
    }
    if action not in calls:
        act(ledger, clock, action, text, number, user)
        return
    with suppress(LedgerError, ZeroDivisionError):
        calls[action]()


def asked_of(ledger, view):
    """The rows of a view, each without what is compared by name."""
    return {row["id"]: row for row in ledger.query(f"SELECT * FROM {view}", every_user=True)}


def same(row, answer, *names, **given):
    """Whether a row says what an answer says; a project or session without a name is its id."""
    for name in names:
        wanted, found = getattr(answer, name), row[name]
        if isinstance(wanted, tuple):
            wanted, found = list(wanted), json.loads(found)
        if name in ("project", "session") and found is None:
            found = row[f"{name}_id"]
        assert found == wanted, (name, found, wanted)
    for name, wanted in given.items():
        assert row[name] == wanted, (name, row[name], wanted)


def compare(everybody, ledger, users=USERS):
    """Every view with every answer, of a ledger or a moment, and the views of one user with those of all."""
    told = {view: asked_of(everybody, view) for view in VIEWS if view == "beliefs" or view.endswith(("_now", "_text"))}
    trail = {row["position"]: row for row in everybody.query("SELECT * FROM audit_trail", every_user=True)}
    steps, versions = (
        everybody.query(f"SELECT * FROM {view}", every_user=True) for view in ("confidence_timeline", "memory_history")
    )
    for view in VIEWS:
        rows = everybody.query(f"SELECT * FROM {view}", every_user=True)
        for user in users:
            of_user = sorted(repr(row) for row in rows if row["user"] == user)
            assert sorted(map(repr, ledger(user).query(f"SELECT * FROM {view}"))) == of_user, (view, user)
    counted = dict.fromkeys(told, 0)
    for user in users:
        asked = ledger(user)
        for each in asked.memories.list(statuses=(), limit=1_000):
            counted["beliefs"] += 1
            row = told["beliefs"][each.id]
            same(row, each, "content", "kind", "status", "confidence", "user", "agent", "project", "reference_count", "tags",
                 "last_referenced_at", "entities", "sources", "valid_from", "valid_to", "supersedes", "superseded_by",
                 "quarantined", "recorded_at", "active_at", "position")  # fmt: skip
            assert json.loads(row["metadata"]) == each.metadata
            points = asked.memories.confidence(each.id)
            mine = sorted((step for step in steps if step["memory"] == each.id), key=lambda step: step["position"])
            assert len(mine) == len(points)
            for step, point in zip(mine, points, strict=True):
                same(step, point, "position", "recorded_at", "delta", "confidence", "interaction", "matcher",
                     "echo", "in_effect", event=point.type, user=user)  # fmt: skip
            (now,) = (row for row in versions if row["id"] == each.id and row["to_position"] is None)
            assert {name: now[name] for name in row} == row
        for each in asked.interactions.list(limit=1_000):
            counted["interactions_text"] += 1
            assert json.loads(told["interactions_text"][each.id]["metadata"]) == each.metadata
            same(told["interactions_text"][each.id], each, "prompt", "response", "summary", "user", "agent", "client", "project",
                 "session", "memories_used", "chunks_used", "reinforcement", "extraction", "quarantined", "occurred_at",
                 "recorded_at", "position")  # fmt: skip
        for each in asked.observations.list(statuses=("active", "unsupported", "retracted", "erased"), limit=1_000):
            counted["observations_now"] += 1
            row = told["observations_now"][each.id]
            same(row, each, "content", "status", "confidence", "proof_count", "freshness", "stale", "user", "agent", "project",
                 "tags", "written_from", "rule", "consolidator", "retracted", "merged_into", "quarantined", "recorded_at",
                 "revised_at", "position")  # fmt: skip
            assert json.loads(row["sources"]) == [source.id for source in each.sources]
        for each in asked.sessions.list(limit=1_000):
            counted["sessions_now"] += 1
            same(told["sessions_now"][each.id], each, "name", "user", "project", "messages", "tokens", "hidden", "turns",
                 "cursor", "recorded_at", "updated_at", "position")  # fmt: skip
        for each in asked.documents.list(statuses=(), limit=1_000):
            counted["documents_now"] += 1
            row = told["documents_now"][each.id]
            assert json.loads(row["metadata"]) == each.metadata
            same(row, each, "title", "path", "tags", "type", "user", "agent", "project", "status", "size", "chunk_count",
                 "recorded_at", "updated_at", "position")  # fmt: skip
            chunks = asked.documents.get(each.id, text=True).chunks
            assert (row["content"] or "") == "".join(chunk.content or "" for chunk in chunks)
        for each in asked.history.audit(limit=1_000).all():
            row = trail[each.position]
            same(row, each, "recorded_at", "subject", "command", "command_id", "user", "actor", "client", "channel", "agent",
                 "project", "session", "event_id", "causation_id", "correlation_id", "in_effect", event=each.type)  # fmt: skip
            assert json.loads(row["data"]).items() <= each.data.items()
            assert row["content"] == (each.content or row["content"]), "texts in blobs are in full"
    assert counted == {view: len(rows) for view, rows in told.items()}
    assert sorted(trail) == list(range(1, ledger(users[0]).position + 1))


@pytest.mark.slow
@settings(max_examples=60 if LONG else 5, deadline=None, suppress_health_check=list(HealthCheck))
@given(actions=actions, seed=st.integers(0, 2**30))
def test_the_views_say_what_the_library_answers_now_and_at_every_position(actions, seed):
    clock = Clock()
    clock.time = START
    with tempfile.TemporaryDirectory(dir=QUICK) as folder, Ledger.open(f"{folder}/memory.db", clock=clock) as ledger:
        for action in actions:
            do(ledger, clock, *action)
        compare(ledger, lambda user: ledger.bind(user=user))
        everywhere = range(1, ledger.position + 1)
        for position in random.Random(seed).sample(everywhere, min(60 if LONG else 3, len(everywhere))):
            compare(ledger.at(position), lambda user, at=position: ledger.bind(user=user).at(at))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "memory.db"


@pytest.fixture
def ledger(path):
    with Ledger.open(path) as opened:
        yield opened


def one(ledger, sql, *parameters, **options):
    ((value,),) = (row.values() for row in ledger.query(sql, *parameters, **options))
    return value


def test_every_version_of_a_memory_has_the_event_that_made_it_and_where_it_ended(ledger):
    fact = ledger.remember("The mast is up.", project="boat")
    ledger.bind(actor="ann").revise(fact.id, "The mast is down.")
    ledger.undo(ledger.position)
    rows = ledger.query(
        "SELECT content, event, actor, position, to_position, project FROM memory_history WHERE id = ? ORDER BY position",
        fact.id,
    )
    assert [tuple(row.values()) for row in rows] == [
        ("The mast is up.", "MemoryCaptured", "", 3, 4, "boat"),
        ("The mast is down.", "MemoryRevised", "ann", 4, 5, "boat"),
        ("The mast is up.", "CommandUndone", "", 5, None, "boat"),
    ]
    assert one(ledger.at(4), "SELECT count(*) AS n FROM memory_history") == 2
    assert one(ledger.at(4), "SELECT to_position FROM memory_history WHERE content LIKE '%down%'") is None


def test_each_prompt_that_was_delivered_says_what_it_showed(ledger):
    tea, sea = ledger.remember("The user drinks tea."), ledger.remember("The sea is calm.")
    ledger.recall("tea", receipt=True)
    chat = ledger.session("quay")
    said = chat.append("user", "The tide turned.")
    chat.window(1_000, receipt=True)
    ledger.recall("sea")
    ada = ledger.bind(user="ada")
    ada.recall("tea", receipt=True)
    found = ledger.query("SELECT * FROM deliveries ORDER BY position")
    assert [(row["subject"], row["event"]) for row in found] == [
        (tea.id, "RecallDelivered"),
        (chat.id, "WindowAssembled"),
    ]
    assert [(row["first_shown"], row["last_shown"]) for row in found] == [(None, None), (said.position, said.position)]
    assert found[1]["session"] == "quay" and found[0]["recorded_at"] < found[1]["recorded_at"]
    assert ledger.at(sea.position).query("SELECT * FROM deliveries") == () == ada.query("SELECT * FROM deliveries")


def test_what_was_joined_into_a_project_is_found_under_its_name(ledger):
    for name in ("a", "b", "c"):
        ledger.remember(f"The boat {name} sails.", project=name)
    ledger.projects.join("b", "a")
    ledger.projects.join("c", "b")
    sql = "SELECT project, count(*) AS n FROM beliefs GROUP BY project"
    assert ledger.query(sql) == ({"project": "c", "n": 3},)
    assert {row["project"] for row in ledger.at(7).query(sql)} == {"a", "b", "c"}
    assert {each.project for each in ledger.memories.list()} == {"c"}


def test_what_was_erased_is_null_at_every_moment_also_in_a_blob(ledger):
    long, short = "secret " + "y" * 300_000, "The secret is short."
    turn = ledger.capture(long, short)
    fact = ledger.remember(short)
    assert one(ledger, "SELECT prompt FROM interactions_text") == long
    assert one(ledger, "SELECT content FROM audit_trail WHERE event = 'InteractionCaptured'") == long
    before = ledger.position
    for id in (fact.id, turn.id):
        ledger.erase(id, sources="erase", derived="erase", quotes="erase")
    for asked in (ledger, ledger.at(before)):
        assert asked.query("SELECT prompt, response FROM interactions_text") == ({"prompt": None, "response": None},)
        assert one(asked, "SELECT content FROM beliefs") is None
        assert one(asked, "SELECT content FROM audit_trail WHERE event = 'InteractionCaptured'") is None
        for table, column in (("events", "state"), ("audit_trail", "data"), ("memory_history", "content")):
            sql = f"SELECT count(*) FROM {table} WHERE instr({column}, 'secret is')"
            assert one(asked, sql, every_user=True) == 0
        sql = "SELECT count(json_extract(state, '$.data.content')) FROM events WHERE stream = ?"
        assert one(asked, sql, fact.id, every_user=True) == 0
    assert {row["data"] for row in ledger.query("SELECT data FROM blobs", every_user=True)} == {None}


# --- as people ask ---------------------------------------------------------------------------------------------------


def test_parameters_are_by_place_or_by_name(ledger):
    ledger.remember("The mast is up.", confidence=0.7)
    assert one(ledger, "SELECT content FROM beliefs WHERE confidence > ? AND kind <> ?", 0.5, "x") == "The mast is up."
    assert one(ledger, "SELECT :a || :b AS x", {"a": "1", "b": "2"}) == "12"
    assert [*ledger.query("SELECT ? AS a, ? AS b, ? AS c, ? AS d", None, b"\0", 2**62, 0.5)[0].values()] == [
        *(None, b"\0", 2**62, 0.5)
    ]
    assert ledger.query("-- why\n /* and\n how */ WITH x AS (VALUES (1)) SELECT * FROM x")[0]


@pytest.mark.parametrize(
    ("sql", "parameters", "why"),
    [
        ("SELECT confidance FROM beliefs", (), "no such column: confidance; there is confidence"),
        ("SELECT * FROM belief", (), "no such table: belief; there is beliefs"),
        ("SELECT nothing_like_it FROM beliefs", (), "no such column"),
        ("SELECT nosuch(1)", (), "no such function"),
        ("SELECT 1 AS a, 2 AS a", (), "2 columns of the answer have the name 'a'"),
        ("SELECT * FROM beliefs b JOIN beliefs c", (), "columns of the answer have the name 'id'"),
        ("SELECT 1; SELECT 2", (), "one statement"),
        ("SELECT", (), "incomplete input"),
        ("SELECT ?", (), "bindings"),
        ("SELECT 1", (1,), "bindings"),
        ("SELECT ?", ([],), "parameter 1 is a list: give each value by itself"),
        ("SELECT ?", (START,), "give a time as its ISO text"),
        ("SELECT ?", (2**63,), "cannot be given to SQLite"),
        ("SELECT ?", ("\ud800",), "cannot be given to SQLite"),
        ("SELECT '\ud800'", (), "cannot be given to SQLite"),
        ("SELECT '\0'", (), "null character|cannot be given|unrecognized"),
        ("SELECT json_extract('x', '$')", (), "malformed JSON"),
        ("SELECT zeroblob(1000000000)", (), "the function zeroblob is not allowed"),
        ("SELECT ?", (b"0" * (17 << 20),), "a value takes more than 16 MiB"),
        ("", (), "one SELECT"),
        (7, (), "one SELECT"),
    ],
)
def test_what_is_wrong_is_said_with_what_sqlite_says_of_it(ledger, sql, parameters, why):
    with pytest.raises(RejectedError, match=why):
        ledger.query(sql, *parameters)
    assert one(ledger, "SELECT 1 AS one") == 1


HOSTILE = (
    "INSERT INTO memories VALUES (1)",
    "WITH x AS (SELECT 1) DELETE FROM memories",
    "WITH x AS (SELECT 1) INSERT INTO leases SELECT 1, 1, 1",
    "WITH x AS (SELECT 1) UPDATE events SET key = NULL",
    "PRAGMA journal_mode = DELETE",
    "PRAGMA user_version",
    "SELECT * FROM pragma_journal_mode('delete')",
    "SELECT * FROM pragma_writable_schema",
    "SELECT * FROM pragma_wal_checkpoint",
    "SELECT * FROM pragma_table_list",
    "ATTACH DATABASE ':memory:' AS x",
    "DETACH main",
    "VACUUM INTO '/tmp/stolen.db'",
    "BEGIN",
    "CREATE TEMP TABLE x (a)",
    "CREATE TEMP VIEW beliefs AS SELECT 1",
    "DROP VIEW beliefs",
    "SELECT load_extension('x')",
    "SELECT fts3_tokenizer('simple')",
    "SELECT * FROM sqlite_temp_master",
    "SELECT * FROM temp.sqlite_schema",
    "SELECT * FROM sqlite_dbpage",
    "SELECT * FROM dbstat",
    "EXPLAIN SELECT * FROM events",
    "EXPLAIN QUERY PLAN SELECT * FROM events",
    "SELECT state FROM main.events",
    "SELECT count(*) FROM main.events WHERE instr(state, 'secret')",
    "WITH events AS (SELECT state FROM main.events) SELECT * FROM events",
    "WITH audit_trail AS (SELECT state FROM main.events) SELECT * FROM audit_trail",
    "SELECT * FROM main.audit_trail",
    "SELECT (SELECT group_concat(state) FROM main.events)",
    "REINDEX",
    "ANALYZE",
    ";",
)


@pytest.mark.parametrize("then", [False, True])
def test_nothing_but_reading_is_allowed(ledger, then):
    ledger.remember("The mast is up.")
    asked, answered = ledger.at(2) if then else ledger, []
    for sql in HOSTILE:
        for every_user in (False, True):
            with suppress(RejectedError):
                answered.append((sql, asked.query(sql, every_user=every_user)))
        assert one(asked, "SELECT count(*) FROM beliefs") == 1, sql
    assert answered == [] and ledger.proof.verify().ok


def test_no_question_shows_the_secret_of_the_ledger(ledger):
    secret = probe.secret(ledger)
    ledger.remember("The mast is up.")
    listed = "SELECT name FROM sqlite_master WHERE type IN ('table', 'view')"
    names = [row["name"] for row in ledger.query(listed, every_user=True)]
    for asked in (ledger, ledger.at(2)):
        for name in (*names, *VIEWS):
            with suppress(RejectedError):
                assert secret not in repr(asked.query(f"SELECT * FROM {name}", every_user=True)), name
    with closing(sqlite3.connect(f"file:{ledger.path}?mode=ro", uri=True)) as other:
        assert all(secret not in repr(other.execute(f"SELECT * FROM {view}").fetchall()) for view in VIEWS)


def test_a_question_ends_in_time_and_the_next_one_is_answered(ledger):
    endless = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c"
    with pytest.raises(RejectedError, match=r"longer than 0\.05 seconds") as caught:
        ledger.query(endless, timeout=0.05)
    assert caught.value.rule == "timeout"
    assert one(ledger, "SELECT 1 AS one") == 1
    for wrong in (0, -1, float("nan"), float("inf"), float("-inf"), "1", True, None, 3_601, 10**400, -(10**400)):
        with pytest.raises(RejectedError, match="timeout"):
            ledger.query("SELECT 1", timeout=wrong)


def test_the_versions_of_a_memory_are_found_by_its_id_without_reading_the_others(ledger):
    old = ledger.remember("The dinghy leaks.")
    new = ledger.revise(old.id, "The dinghy leaks a little.")
    asked = "SELECT content FROM memory_history WHERE id = ?"
    assert ledger.query(f"{asked} AND to_position IS NULL", new.id) == ({"content": "The dinghy leaks a little."},)
    assert len(ledger.query(asked, new.id)) == 2
    with closing(sqlite3.connect(ledger.path)) as connection:
        plan = [line for *_, line in connection.execute(f"EXPLAIN QUERY PLAN {asked}", (new.id,))]
    searched = [line for line in plan if line.startswith(("SEARCH m ", "SCAN m ", "SEARCH f ", "SCAN f "))]
    assert len(searched) == 4 and all(line.startswith("SEARCH") for line in searched), plan


def test_an_answer_with_too_many_rows_is_refused_and_not_cut(ledger):
    numbers = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT {}) SELECT x FROM c"
    assert len(ledger.query(numbers.format(10), limit=10)) == 10
    with pytest.raises(RejectedError, match="more than 10 rows") as caught:
        ledger.query(numbers.format(11), limit=10)
    assert (caught.value.rule, caught.value.limit) == ("limit", 10)
    for wrong in (0, -1, 1.5, "1", True, None, float("nan"), 10**400):
        with pytest.raises(RejectedError, match="limit"):
            ledger.query("SELECT 1", limit=wrong)


def test_inside_a_batch_nothing_is_asked_and_beside_it_what_is_committed(ledger):
    ledger.remember("The mast is up.")
    with ledger.batch():
        ledger.remember("The mast is down.")
        with pytest.raises(ConflictError, match="batch"):
            ledger.query("SELECT 1")
    assert one(ledger, "SELECT count(*) FROM beliefs") == 2


# --- then ------------------------------------------------------------------------------------------------------------


def test_what_keeps_no_past_says_so(ledger):
    ledger.remember("The mast is up.")
    with closing(sqlite3.connect(ledger.path)) as other:
        other.execute("CREATE TABLE my_notes (text)")
    past = ledger.at(2)
    for table in ("duplicates", "keys", "search", "my_notes", "blobs", "leases"):
        for sql in (f"SELECT * FROM {table}", f"SELECT count(*) FROM {table}"):
            with pytest.raises(RejectedError, match="keeps no past"):
                past.query(sql, every_user=True)
    for sql in ("SELECT count(*) FROM main.memories", 'SELECT * FROM "main".beliefs', "SELECT * FROM main . memories"):
        with pytest.raises(RejectedError, match=r"main\. names the tables of now"):
            past.query(sql, every_user=True)
    assert one(past, "SELECT 'main.py' AS text") == "main.py"
    with pytest.raises(RejectedError, match="valid_from"):
        ledger.at(2, valid_at="2026-01-01").query("SELECT 1")


def test_a_view_of_ones_own_answers_as_of_the_same_moment(ledger):
    fact = ledger.remember("The mast is up.")
    ledger.revise(fact.id, "The mast is down.")
    with closing(sqlite3.connect(ledger.path)) as other:
        other.execute("CREATE VIEW my_texts AS SELECT upper(content) AS text FROM beliefs")
    sql = "SELECT text FROM my_texts"
    assert (one(ledger, sql, every_user=True), one(ledger.at(2), sql, every_user=True)) == (
        *("THE MAST IS DOWN.", "THE MAST IS UP."),
    )
    with closing(sqlite3.connect(ledger.path)) as other:
        other.execute("DROP VIEW my_texts")
        other.execute("CREATE VIEW my_texts AS SELECT lower(content) AS text FROM beliefs")
    assert one(ledger.at(2), sql, every_user=True) == "the mast is up."
    with closing(sqlite3.connect(ledger.path)) as other:
        other.execute("DROP VIEW my_texts")
    with pytest.raises(RejectedError, match="no such table: my_texts"):
        ledger.query("SELECT text FROM my_texts", every_user=True)


def test_a_view_of_ones_own_that_names_the_tables_of_now_is_refused_as_of_then(ledger):
    ledger.remember("The mast is up.")
    ledger.remember("The sails are red.")
    with closing(sqlite3.connect(ledger.path)) as other:
        other.execute("CREATE VIEW my_number AS SELECT count(*) AS n FROM main.memories")
        other.execute("CREATE VIEW my_other AS SELECT n, 'main.py' AS name FROM my_number")
        other.execute("CREATE VIEW my_beliefs AS SELECT id FROM main.beliefs")
        other.execute("CREATE VIEW my_quoted AS SELECT 'main.py' AS text FROM beliefs")
    assert one(ledger, "SELECT n FROM my_other", every_user=True) == 2
    for sql in ("SELECT * FROM my_number", "SELECT count(*) FROM my_number", "SELECT n FROM my_other"):
        with pytest.raises(RejectedError, match=r"my_number is defined on main\., the tables of now"):
            ledger.at(2).query(sql, every_user=True)
    assert ledger.at(2).query("SELECT * FROM my_quoted", every_user=True) == ({"text": "main.py"},)
    for sql in ("SELECT * FROM my_beliefs", "SELECT * FROM main.beliefs"):
        with pytest.raises(RejectedError, match=r"main\..* for other programs"):
            ledger.query(sql, every_user=True)


def test_a_file_of_another_version_that_is_only_read_answers_too(path, monkeypatch):
    with Ledger.open(path) as ledger:
        fact = ledger.remember("The mast is up.", project="boat")
        ledger.revise(fact.id, "The mast is down.")
    with closing(sqlite3.connect(path)) as other:
        other.execute("DROP VIEW beliefs")
    monkeypatch.setattr(memories.MemoriesProjection, "version", 99)
    with Ledger.open(path, readonly=True) as ledger:
        sql = "SELECT content, project FROM beliefs"
        assert ledger.query(sql, every_user=True) == ledger.query(sql)
        assert ledger.query(sql) == ({"content": "The mast is down.", "project": "boat"},)
        assert ledger.at(3).query(sql) == ({"content": "The mast is up.", "project": "boat"},)
        assert ledger.query(sql) == ({"content": "The mast is down.", "project": "boat"},)
        assert one(ledger, "SELECT count(*) FROM audit_trail") == 4


# --- what is suspended or damaged ------------------------------------------------------------------------------------


def test_what_is_suspended_cannot_be_asked_and_the_rest_can(ledger, monkeypatch):
    def fail(*_):
        raise RuntimeError

    monkeypatch.setattr("projections.views.confidence.Confidence.fold", fail)
    ledger.remember("The mast is up.")
    for sql in ("SELECT * FROM confidence_timeline", "SELECT count(*) FROM confidence_steps"):
        with pytest.raises(SuspendedError) as caught:
            ledger.query(sql, every_user=True)
        assert caught.value.projection == "confidence"
    assert one(ledger, "SELECT content FROM beliefs") == "The mast is up."


def test_damage_is_told_as_damage(ledger):
    fact = ledger.remember("The mast is up.")
    with closing(sqlite3.connect(ledger.path)) as other:
        other.execute("UPDATE memories SET content = CAST(x'ff41' AS TEXT)")
        other.commit()
    with pytest.raises(DamagedError) as caught:
        ledger.query("SELECT content FROM beliefs WHERE id = ?", fact.id)
    assert caught.value.table == "memories"
    ledger.maintenance.rebuild()
    assert one(ledger, "SELECT content FROM beliefs") == "The mast is up."


def test_a_query_names_the_column_whose_text_is_not_utf8(ledger):
    ledger.remember("The mast is up.")
    with pytest.raises(RejectedError, match="column 'name' of the answer is a text that is not UTF-8: ask for hex"):
        ledger.query("SELECT CAST(x'ff41' AS TEXT) AS name FROM beliefs")


def test_other_programs_read_the_same_beside_a_ledger_that_is_open(ledger):
    ledger.capture("Hi " + "y" * 300_000, "Yes.", session="s", project="boat")
    ledger.remember("The mast is up.", project="boat")
    with closing(sqlite3.connect(f"file:{ledger.path}?mode=ro", uri=True)) as other:
        other.row_factory = sqlite3.Row
        for view in VIEWS:
            rows = tuple(dict(row) for row in other.execute(f"SELECT * FROM {view}"))
            assert rows == ledger.query(f"SELECT * FROM {view}"), view


def test_erasing_a_session_leaves_no_name_of_it_in_a_view(ledger):
    ledger.capture("Hello there, captain.", "Yes.", session="quayside")
    before = ledger.position
    ledger.erase(SessionName("quayside"), sources="erase", derived="erase", quotes="erase")
    for asked in (ledger, ledger.at(before)):
        for view in VIEWS:
            assert "quayside" not in repr(asked.query(f"SELECT * FROM {view}")), view


def test_the_tables_of_a_projection_of_ones_own_are_asked_now_and_as_of_then(path):
    with Ledger.open(path, projections=[Counts]) as ledger:
        fact = ledger.remember("The mast is up.")
        ledger.revise(fact.id, "The mast is down.")
        sql = "SELECT content FROM my_counts_seen"
        assert ledger.query(sql, every_user=True) == ({"content": "The mast is down."},)
        assert ledger.at(2).query(sql, every_user=True) == ({"content": "The mast is up."},)
        with closing(sqlite3.connect(path)) as other:
            other.execute(f"CREATE VIEW my_view AS {sql}")
        assert ledger.at(2).query("SELECT * FROM my_view", every_user=True) == ({"content": "The mast is up."},)
        ledger.remember("The sails are red.")
        for table in ("my_counts_seen", "my_view", "MY_COUNTS_SEEN"):
            count = f"SELECT count(*) AS n FROM {table}"
            counts = [one(asked, count, every_user=True) for asked in (ledger, ledger.at(2))]
            assert counts == [2, 1], table
            assert one(ledger.at(1), f"SELECT EXISTS (SELECT 1 FROM {table})", every_user=True) == 0
        assert ledger.proof.verify().ok
        ledger.erase(fact.id)
        assert ledger.at(2).query(sql, every_user=True) == ({"content": None},)
        assert {row["content"] for row in ledger.query(sql, every_user=True)} == {None, "The sails are red."}
    with Ledger.open(path) as ledger:
        assert {row["content"] for row in ledger.query(sql, every_user=True)} == {None, "The sails are red."}
        with pytest.raises(RejectedError, match="keeps no past"):
            ledger.at(2).query(sql, every_user=True)
        assert ledger.erase(ledger.remember("The sails are red.").id).own_tables == ()
