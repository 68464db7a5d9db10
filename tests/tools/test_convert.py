"""A ledger of before the renaming becomes one of today that says the same."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from eventsourcing.persistence import StoredEvent
from places import GOLDEN
from soundness import assert_sound

from ledger import KeyReusedError, Ledger, RejectedError
from ledger.maintenance import copying
from ledger.maintenance.transfer import import_log
from ledger.store.event_store import EventStore
from tools import convert as converter

# Written by commit ee43cfd, as ``small`` in tools/compare_conversion.py shows; what is expected is what that code answered.
LOG, EXPECTED = GOLDEN / "before_renaming.jsonl", GOLDEN / "before_renaming.expected.json"
EVENTS = GOLDEN / "before_renaming_events.json"  # of that commit: one event of each type


def beliefs(ledger: Any) -> dict[str, Any]:
    """What a ledger believes and shows, in no names that a version may change."""
    found: dict[str, Any] = {"memories": {}, "confidence": {}, "sessions": {}, "audit": []}
    for user in ("", "bert"):
        for each in ledger.bind(user=user).memories.list(statuses=(), limit=1_000):
            dates = [each.valid_from, each.valid_to, each.supersedes, each.superseded_by]
            shown = [each.content, each.kind, each.status, each.confidence, each.reference_count, *dates]
            found["memories"][each.id] = [*shown, sorted(each.tags), sorted(each.sources)]
            steps = ledger.bind(user=user).memories.confidence(each.id)
            found["confidence"][each.id] = [[step.position, step.delta, step.confidence] for step in steps]
        for info in ledger.bind(user=user).sessions.list():
            chat = ledger.bind(user=user).session(info.name)
            said = [[each.position, each.role, each.content] for each in chat.messages(include_hidden=True)]
            found["sessions"][info.id] = [said, len(chat.items()), chat.abstract]
        found["audit"] += [[each.position, each.subject] for each in ledger.bind(user=user).history.audit(limit=500)]
    found["observations"] = [
        [each.id, each.confidence, each.proof_count] for each in ledger.observations.list(statuses=())
    ]
    found["interactions"] = [[each.id, each.prompt, each.response] for each in ledger.interactions.list(limit=50)]
    found["recall"] = [
        [hit.id, round(hit.score, 9)] for hit in ledger.recall("green tea", among=("memories", "chunks", "turns")).items
    ]
    return json.loads(json.dumps(found))


# What decides about these lies in other rows; the log above has them.
OF_OTHER_ROWS = ("BulkStarted", "BulkFinished", "ContentErased", "CheckpointSealed")
NEW_FIELDS = {"replica", "until", "shortened", "denied", "extra", "metadata", "unset", "admission"}


@pytest.fixture
def old(tmp_path: Path) -> Path:
    path = tmp_path / "old.db"
    import_log(LOG, path)  # rows as they are
    return path


@pytest.fixture
def new(old: Path, tmp_path: Path) -> Path:
    converter.convert(str(old), str(tmp_path / "new.db"))
    return tmp_path / "new.db"


def rows(path: Path, what: str, where: str = "1") -> list[Any]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(f"SELECT {what} FROM events WHERE {where} ORDER BY position").fetchall()


def test_a_converted_ledger_verifies_and_believes_what_the_old_one_did(new: Path) -> None:
    with Ledger.open(new) as ledger:
        report = ledger.proof.verify(full=True)
        assert (report.ok, report.problems) == (True, ())
        assert beliefs(ledger) == json.loads(EXPECTED.read_text(encoding="utf-8"))
        assert ledger.maintenance.doctor().ok
        assert_sound(ledger)
        ledger.remember("and it goes on")


def test_every_type_of_event_gets_the_fields_and_words_of_today(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copying, "_blob_problem", lambda *_: None)  # the blobs of the examples lie nowhere
    was = json.loads(EVENTS.read_text(encoding="utf-8"))
    now = json.loads((GOLDEN / "events.json").read_text(encoding="utf-8"))
    given = [(name, state.encode()) for name, state in was.items() if name not in OF_OTHER_ROWS]
    write(tmp_path / "old.db", given)
    with closing(converter.opened(str(tmp_path / "old.db"))) as connection:
        converted = list(converter.Conversion(connection).rows())
    assert len(converted) == len(given) == len(was) - len(OF_OTHER_ROWS)
    for row in converted:
        expected, found = json.loads(now[row.type]), json.loads(row.state)
        del expected["arguments"]
        if row.type == "MessageAppended":
            del expected["data"]["counter"]  # another one, and the usual one is left out
        if row.type == "MemoryRejected":
            del expected["data"]["rule"]
        if row.type == "PolicyAdopted":
            del expected["data"]["reason"]
        expected["data"] = {
            name: each for name, each in expected["data"].items() if name not in NEW_FIELDS or name in found["data"]
        }
        assert found == expected, row.type


def test_places_ids_times_salts_and_keys_stay(old: Path, new: Path) -> None:
    kept = "position, stream, version, key, erased_by, " + ", ".join(
        f"json_extract(state, '$.{name}')" for name in ("event_id", "recorded_at", "occurred_at", "user", "salt", "key")
    )
    assert rows(old, kept) == rows(new, kept)
    with closing(sqlite3.connect(old)) as one, closing(sqlite3.connect(new)) as other:
        assert one.execute("SELECT * FROM blobs").fetchall() == other.execute("SELECT * FROM blobs").fetchall()


def test_an_erased_row_keeps_the_digest_of_what_was_there_and_every_other_row_has_a_new_one(
    old: Path, new: Path
) -> None:
    erased = "erased_by IS NOT NULL"
    assert rows(old, "digest", erased) == rows(new, "digest", erased) != []
    assert not {*rows(old, "head")} & {*rows(new, "head")}


def test_an_erasure_after_the_conversion_goes_on_from_the_one_before(new: Path) -> None:
    with Ledger.open(new) as ledger:
        ledger.erase(
            ledger.memories.list(kinds=("preference",))[0].id,
            reason="asked for",
            quotes="keep",
            derived="keep",
            sources="keep",
        )
        assert ledger.proof.verify(full=True).ok


def test_a_key_used_before_is_answered_and_adds_nothing(new: Path) -> None:
    with Ledger.open(new, actor="ann") as ledger:
        position = ledger.position
        again = ledger.remember(
            "The user prefers green tea.", kind="preference", confidence=0.5, tags=["tea"], idempotency_key="tea"
        )
        assert again.replayed and again.content == "The user prefers green tea."
        assert ledger.remember("Its arguments cannot be compared any more.", idempotency_key="tea").id == again.id
        with pytest.raises(KeyReusedError):
            ledger.retract(again.id, idempotency_key="tea")
        assert ledger.position == position


def test_a_file_that_was_imported_before_adds_nothing_and_brings_no_erased_text_back(new: Path, tmp_path: Path) -> None:
    (tmp_path / "lines").write_text(
        '{"prompt": "What is in the pot?", "response": "Peppermint leaves."}\n', encoding="utf-8"
    )
    with Ledger.open(new) as ledger:
        position = ledger.position
        assert ledger.interactions.import_file(tmp_path / "lines").known == 1
        assert ledger.position == position


def test_an_act_in_parts_is_one_act_that_can_be_taken_back(new: Path) -> None:
    with Ledger.open(new) as ledger:
        said = {each.content for each in ledger.memories.list()}
        ledger.history.trust("trudy", kind="actor")
        assert {each.content for each in ledger.memories.list()} - said == {
            f"Trudy says {number}." for number in range(3)
        }
        assert_sound(ledger)


def test_nothing_is_overwritten_and_the_old_file_is_not_touched(old: Path, tmp_path: Path) -> None:
    before = old.read_bytes()
    beside = tmp_path / "there.db"
    beside.write_text("mine")
    with pytest.raises(RejectedError, match="is there already"):
        converter.convert(str(old), str(beside))
    assert beside.read_text() == "mine"
    converter.convert(str(old), str(tmp_path / "new.db"))
    assert old.read_bytes() == before


def changed(path: Path, sql: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        connection.execute(sql)
        connection.commit()
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


@pytest.mark.parametrize(
    ("sql", "shown"),
    [
        ("UPDATE events SET state = replace(state, 'Number 2', 'Number 3')", "does not hash to its digest"),
        ("UPDATE blobs SET data = x'00' WHERE data IS NOT NULL", "missing or another"),
        ("PRAGMA application_id = 7", "is no ledger"),
    ],
)
def test_what_is_damaged_is_not_converted(old: Path, tmp_path: Path, sql: str, shown: str) -> None:
    changed(old, sql)
    with pytest.raises(Exception, match=shown):
        converter.convert(str(old), str(tmp_path / "new.db"))
    assert not (tmp_path / "new.db").exists()


def write(path: Path, events: list[tuple[str, bytes]]) -> None:
    with closing(EventStore.open(path)) as store, store.transact() as transaction:
        transaction.append([StoredEvent("ledger", at, *each) for at, each in enumerate(events, 1)])


def test_an_act_that_was_not_finished_is_not_converted(tmp_path: Path) -> None:
    write(
        tmp_path / "old.db", [("BulkStarted", json.loads(EVENTS.read_text(encoding="utf-8"))["BulkStarted"].encode())]
    )
    with pytest.raises(RejectedError, match="was begun and not finished"):
        converter.convert(str(tmp_path / "old.db"), str(tmp_path / "new.db"))


def test_what_is_not_closed_or_no_ledger_of_before_is_refused(old: Path, new: Path, tmp_path: Path) -> None:
    shutil.copy(old, tmp_path / "open.db")
    (tmp_path / "open.db-wal").write_bytes(b"commits")
    with pytest.raises(RejectedError, match="holds commits"):
        converter.convert(str(tmp_path / "open.db"), str(tmp_path / "other.db"))
    with pytest.raises(RejectedError, match="no event of commit ee43cfd"):
        converter.convert(str(new), str(tmp_path / "again.db"))
    with pytest.raises(RejectedError, match="there is no file"):
        converter.convert(str(tmp_path / "none.db"), str(tmp_path / "again.db"))


def test_the_command_says_what_it_changed_and_checks_the_result(
    old: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["convert.py", str(old), str(tmp_path / "new.db")])
    assert converter.main() == 0
    shown = capsys.readouterr().out
    assert "BulkStarted → CommandAnswered" in shown and "verified: 63 events" in shown
    assert converter.main() == 2, "the new one is there by now"
