"""The database of Rubino: facts with their successors, the graph, and the turns of sessions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from moved_stores import assert_comes_again, assert_recalled, database, memory, states, twice

from ledger import Ledger

DDL = """
CREATE TABLE sessions (id varchar(255) PRIMARY KEY, parent_session_id varchar(255), source varchar(255) NOT NULL,
    title varchar(255), summary text, status varchar(255) DEFAULT 'active' NOT NULL, created_at varchar(255) NOT NULL,
    updated_at varchar(255) NOT NULL, memory_extracted_msg_id varchar(255), cwd varchar(255));
CREATE TABLE messages (id varchar(255) PRIMARY KEY, session_id varchar(255) NOT NULL REFERENCES sessions(id),
    role varchar(255) NOT NULL, content text, tool_name varchar(255), tool_call_id varchar(255), token_count integer DEFAULT 0,
    metadata_json text, created_at varchar(255) NOT NULL);
CREATE TABLE memories (id varchar(255) PRIMARY KEY, kind varchar(255) NOT NULL, content text NOT NULL,
    source_session_id varchar(255), confidence double precision DEFAULT 1.0, metadata_json text,
    created_at varchar(255) NOT NULL, updated_at varchar(255) NOT NULL);
CREATE TABLE session_summaries (id varchar(255) PRIMARY KEY, session_id varchar(255), content text, created_at varchar(255));
CREATE TABLE skins (id varchar(255) PRIMARY KEY);
CREATE TABLE memory_facts (id varchar(255) PRIMARY KEY, text text NOT NULL, kind varchar(255) NOT NULL, entities_json text,
    source_session_id varchar(255), confidence double precision DEFAULT 1.0, valid_from varchar(255), valid_to varchar(255),
    superseded_by varchar(255), embedding blob, created_at varchar(255) NOT NULL, updated_at varchar(255) NOT NULL);
CREATE VIRTUAL TABLE memory_facts_fts USING fts5(text, entities, content='memory_facts', content_rowid='rowid',
    tokenize='porter unicode61 remove_diacritics 2');
CREATE TRIGGER memory_facts_fts_ai AFTER INSERT ON memory_facts BEGIN
    INSERT INTO memory_facts_fts(rowid, text, entities) VALUES (new.rowid, new.text, new.entities_json); END;
CREATE TABLE memory_entities (id varchar(255) PRIMARY KEY, name varchar(255) NOT NULL, name_norm varchar(255) NOT NULL,
    kind varchar(255), created_at varchar(255), updated_at varchar(255));
CREATE TABLE memory_edges (id varchar(255) PRIMARY KEY, src_entity_id varchar(255) NOT NULL, dst_entity_id varchar(255) NOT NULL,
    relation varchar(255) NOT NULL, source_fact_id varchar(255), valid_from varchar(255), valid_to varchar(255),
    superseded_by varchar(255), created_at varchar(255), updated_at varchar(255));
"""
A, B, C = "2025-03-01T10:00:00Z", "2025-04-01T10:00:00Z", "2025-05-01T10:00:00Z"


def fact(id: str, text: str, **more: Any) -> dict[str, Any]:
    times = {"valid_from": A, "created_at": A, "updated_at": A}
    return {"id": id, "text": text, "kind": "fact", "source_session_id": "s1", **times, **more}


def said(id: str, session: str, role: str, content: str | None, at: str = A) -> dict[str, Any]:
    return {"id": id, "session_id": session, "role": role, "content": content, "created_at": at}


ROWS: dict[str, list[dict[str, Any]]] = {
    "sessions": [
        {"id": "s1", "source": "cli", "title": "Moving", "created_at": A, "updated_at": A, "cwd": "/srv/shop"},
        {"id": "s2", "parent_session_id": "s1", "source": "cli", "created_at": B, "updated_at": B},
    ],
    "messages": [
        said("u1", "s1", "user", "I moved from Porto to Lisbon."),
        said("t1", "s1", "tool", "exit 0"),
        said("a1", "s1", "assistant", "How is the flat?"),
        said("a2", "s1", "assistant", "And the river?"),
        said("u2", "s1", "user", "  "),
        said("a3", "s1", "assistant", None),
        said("c1", "s2", "user", "I moved from Porto to Lisbon.", B),
        said("c2", "s2", "assistant", "How is the flat?", B),
        said("u3", "s2", "user", "Where is the ketch?", "2025-04-01 10:00:00"),
        said("a4", "s2", "assistant", "In the harbour.", B),
        said("j1", "s2", "jester", "Ha.", B),
    ],
    "memory_facts": [
        fact("f1", "Ada lives in Porto", valid_to=B, superseded_by="f2", entities_json='["Ada", "Porto"]'),
        fact("f2", "Ada lives in Faro", valid_from=B, valid_to=C, superseded_by="f3"),
        fact("f3", "Ada lives in Lisbon", valid_from=C, kind="user_profile", entities_json="{cut sho"),
        fact("f4", "Ada owns a sloop", valid_to=B, superseded_by="gone"),
        fact("f5", "Ada owns a ketch", kind="technical_decision", embedding=b"\0\0\x80?", confidence=0.4),
        fact("f6", "Ada has a ketch", valid_to=C, superseded_by="f5"),
        fact("f7", "Ada keeps bees", valid_to=C, kind=""),
        fact("f8", "Ada sings bass", valid_from=None, confidence=None, source_session_id=None),
        fact("f9", ""),
    ],
    "memory_entities": [
        {"id": "e1", "name": "Ada", "name_norm": "ada"}, {"id": "e2", "name": "Lisbon", "name_norm": "lisbon"},
    ],
    "memory_edges": [
        {"id": "g1", "src_entity_id": "e1", "dst_entity_id": "e2", "relation": "lives_in", "source_fact_id": "f3"},
        {"id": "g2", "src_entity_id": "e1", "dst_entity_id": "e2", "relation": "co_occurs", "source_fact_id": "f3"},
        {"id": "g3", "src_entity_id": "e1", "dst_entity_id": "e2", "relation": "left", "source_fact_id": "f3", "valid_to": C},
    ],
    "memories": [
        {"id": "o1", "kind": "preference", "content": "The user prefers tea", "confidence": 0.8, "created_at": A,
         "updated_at": A},
    ],
    "session_summaries": [{"id": "y1", "session_id": "s1", "content": "They talk.", "created_at": B}],
    "skins": [{"id": "dark"}],
}  # fmt: skip


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(tmp_path / "memory.db", user="ada") as opened:
        yield opened


def test_the_facts_of_rubino_come_with_their_chains_ends_relations_and_times(ledger: Ledger, tmp_path: Path) -> None:
    report = twice(ledger, database(tmp_path / "rubino.db", DDL, ROWS))
    assert (report.kind, dict(report.taken)) == ("rubino", {"turns": 2, "statements": 9, "changes": 1})
    assert dict(report.unknown) == {"role jester": 1, "table skins": 1}
    assert dict(report.skipped) == {
        "a message of the role tool": 1, "a message without words": 2, "a message that a child session has from its parent": 2,
        "a relation that is over": 1, "a summary of a session, whose messages come along": 1,
        "a vector, which does not say of which model it is": 1, "a statement without words": 1,
    }  # fmt: skip
    assert states(ledger) == {
        "Ada lives in Porto": "superseded", "Ada lives in Faro": "superseded", "Ada lives in Lisbon": "active",
        "Ada owns a sloop": "superseded", "Ada owns a ketch": "active", "Ada has a ketch": "superseded",
        "Ada keeps bees": "superseded", "Ada sings bass": "active", "The user prefers tea": "active",
    }  # fmt: skip
    porto, faro, lisbon, ketch = (memory(ledger, text) for text in (
        "Ada lives in Porto", "Ada lives in Faro", "Ada lives in Lisbon", "Ada owns a ketch"))  # fmt: skip
    assert (porto.superseded_by, faro.superseded_by, faro.supersedes) == (faro.id, lisbon.id, porto.id)
    assert (porto.valid_from[:10], porto.valid_to, lisbon.valid_from) == ("2025-03-01", faro.valid_from, faro.valid_to)
    assert [(each.subject, each.relation, each.object) for each in lisbon.relations] == [("Ada", "lives_in", "Lisbon")]
    assert (porto.entities, ketch.kind, ketch.confidence, lisbon.kind) == (
        ("Ada", "Porto"),
        "fact",
        0.4,
        "user_profile",
    )
    then = ledger.at(ledger.position, valid_at="2025-03-15")
    assert "Ada lives in Porto" in {each.content for each in then.memories.list(statuses=())}
    moved, boat = ledger.interactions.list(oldest_first=True)
    assert (moved.response, moved.project, moved.session) == ("How is the flat?\n\nAnd the river?", "shop", "s1")
    assert (boat.prompt, boat.occurred_at, moved.extraction) == (
        "Where is the ketch?",
        "2025-04-01T10:00:00.000000Z",
        "off",
    )
    assert_recalled(ledger)
    ledger.jobs.run()
    assert len(ledger.memories.list(statuses=())) == 9


def test_a_database_of_rubino_without_a_graph_or_sessions_has_facts(ledger: Ledger, tmp_path: Path) -> None:
    ddl = DDL[DDL.index("CREATE TABLE memory_facts") : DDL.index("CREATE VIRTUAL")]
    assert dict(twice(ledger, database(tmp_path / "r.db", ddl, {"memory_facts": ROWS["memory_facts"][:3]})).taken) == {
        "statements": 3}  # fmt: skip
    assert states(ledger)["Ada lives in Faro"] == "superseded"


def test_what_came_from_rubino_can_be_taken_back_and_come_again(ledger: Ledger, tmp_path: Path) -> None:
    assert_comes_again(ledger, database(tmp_path / "rubino.db", DDL, ROWS))


def test_what_is_over_waits_for_nobody_where_everything_else_waits(ledger: Ledger, tmp_path: Path) -> None:
    twice(ledger, database(tmp_path / "rubino.db", DDL, ROWS), channel="file")
    status = states(ledger)
    over = {
        f"Ada {words}" for words in ("lives in Porto", "lives in Faro", "owns a sloop", "has a ketch", "keeps bees")
    }
    assert {text for text, each in status.items() if each == "retracted"} == over
    assert {each for text, each in status.items() if text not in over} == {"candidate"}
    assert {waiting.memory.content for waiting in ledger.review()} == status.keys() - over
    assert not ledger.at(ledger.position, valid_at="2025-03-15").recall("Ada lives in Porto", among=["memories"]).items
