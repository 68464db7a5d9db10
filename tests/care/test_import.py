"""What goes in and out as a file: JSONL, conversations, the log row by row, and texts too large for an event."""

from __future__ import annotations

import gzip
import json
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any

import probe
import pytest

from ledger import ConflictError, Ledger, LedgerError, NotFoundError, RejectedError, StorageError

LINE: dict[str, Any] = {
    "prompt": "Which coffee?",
    "response": "Dark roast.",
    "response_summary": "roast",
    "project": "assistant",
    "session_id": "s1",
    "client": "cli",
    "occurred_at": "2025-05-05 10:00:00+02:00",
    "chunks_used": ["c1"],
    "context_pack": {"budget": 800},
    "line_id": "7",
}


def jsonl(path: Path, *lines: Any) -> Path:
    path.write_text(
        "".join((each if isinstance(each, str) else json.dumps(each)) + "\n" for each in lines), encoding="utf-8"
    )
    return path


def prompts(ledger: Ledger) -> list[str | None]:
    return [each.prompt for each in reversed(ledger.interactions.list(limit=500))]


def test_every_field_of_a_line_comes_in(ledger: Ledger, tmp_path: Path) -> None:
    report = ledger.interactions.import_file(jsonl(tmp_path / "turns.jsonl", LINE))
    assert (report.lines, report.captured, report.known, report.errors) == (1, 1, 0, ())
    (turn,) = ledger.interactions.list()
    assert (turn.prompt, turn.response, turn.summary, turn.project, turn.session, turn.client) == (
        "Which coffee?", "Dark roast.", "roast", "assistant", "s1", "cli",
    )  # fmt: skip
    assert (turn.occurred_at, turn.chunks_used) == ("2025-05-05T10:00:00.000000+02:00", ("c1",))
    assert turn.context == {"budget": 800, "line_id": "7"}
    entry = ledger.history.audit(type="InteractionCaptured")[0]
    assert (entry.actor, entry.channel, entry.correlation_id) == ("import", "file", report.correlation_id)


def test_a_bad_line_is_numbered_and_skipped(ledger: Ledger, tmp_path: Path) -> None:
    path = jsonl(
        tmp_path / "turns.jsonl",
        {"prompt": "one"},
        "",
        '{"prompt": "cut',
        "[1, 2]",
        "7",
        {"prompt": " "},
        {"response": "no prompt"},
        {"prompt": "x", "surprise": 1},
        {"prompt": 5},
        {"prompt": "x", "occurred_at": "yesterday"},
        '{"prompt": "x", "context_pack": {"n": NaN}}',
        '{"prompt": "\\ud800"}',
        '{"prompt": "x", "context_pack": {"n": ' + "9" * 30 + "}}",
        '{"prompt": ' + "[" * 100_000,
        {"prompt": "x", "memories_used": "m_1"},
        {"prompt": "x", "occurred_at": "2026-01-01T10:00:00"},
        {"prompt": "two"},
    )
    report = ledger.interactions.import_file(path)
    assert prompts(ledger) == ["one", "two"]
    assert (report.lines, report.captured) == (16, 2)
    assert [number for number, _ in report.errors] == list(range(3, 17))
    assert report.errors[-1][1].startswith("occurred_at says no offset")
    assert all(reason for _, reason in report.errors)


def test_a_line_that_is_no_utf8_is_a_bad_line(ledger: Ledger, tmp_path: Path) -> None:
    path = tmp_path / "turns.jsonl"
    path.write_bytes(b'{"prompt": "one"}\n{"prompt": "\xff\xfe"}\n{"prompt": "three"}\n')
    assert [number for number, _ in ledger.interactions.import_file(path).errors] == [2]
    assert prompts(ledger) == ["one", "three"]


def test_strict_is_all_or_nothing(ledger: Ledger, tmp_path: Path) -> None:
    path = jsonl(tmp_path / "turns.jsonl", *({"prompt": f"turn {number}"} for number in range(600)), {"prompt": ""})
    with pytest.raises(RejectedError, match="line 601"):
        ledger.interactions.import_file(path, strict=True)
    assert (prompts(ledger), ledger.position) == ([], 1)
    jsonl(path, *({"prompt": f"turn {number}"} for number in range(600)))
    assert ledger.interactions.import_file(path, strict=True).captured == 600


def test_twice_adds_nothing_and_what_is_new_comes_in(ledger: Ledger, tmp_path: Path) -> None:
    path = jsonl(tmp_path / "turns.jsonl", {"prompt": "one"}, {"prompt": "two"})
    ledger.interactions.import_file(path)
    position = ledger.position
    again = ledger.interactions.import_file(path)
    assert (again.captured, again.known, again.correlation_id, ledger.position) == (0, 2, None, position)
    jsonl(path, {"prompt": "zero"}, {"prompt": "one"}, {"prompt": "two"})
    third = ledger.interactions.import_file(path)
    assert (third.captured, third.known, prompts(ledger)) == (1, 2, ["one", "two", "zero"])


def test_identical_lines_of_one_file_are_two_turns(ledger: Ledger, tmp_path: Path) -> None:
    path = jsonl(tmp_path / "turns.jsonl", {"prompt": "yes"}, {"prompt": "yes"})
    assert ledger.interactions.import_file(path).captured == 2
    assert ledger.interactions.import_file(path).known == 2


def test_a_file_belongs_to_the_user_it_came_in_for(ledger: Ledger, tmp_path: Path) -> None:
    path = jsonl(tmp_path / "turns.jsonl", {"prompt": "one"})
    assert ledger.bind(user="ada").interactions.import_file(path).captured == 1
    assert ledger.bind(user="bob").interactions.import_file(path).captured == 1
    assert prompts(ledger) == []
    theirs = ledger.bind(user="bob").remember("Mine.")
    report = ledger.bind(user="ada").interactions.import_file(
        jsonl(path, {"prompt": "x", "memories_used": [theirs.id]})
    )
    assert (report.captured, report.errors, len(report.warnings)) == (1, (), 1)  # as an id that is nobody's


def test_ids_of_another_system_come_in_with_a_warning(ledger: Ledger, tmp_path: Path) -> None:
    path = jsonl(tmp_path / "turns.jsonl", {"prompt": "one"}, {"prompt": "two", "memories_used": ["mem-17"]})
    first, again = ledger.interactions.import_file(path), ledger.interactions.import_file(path)
    assert (first.ok, first.captured, [number for number, _ in first.warnings]) == (True, 2, [2])
    assert "mem-17" in first.warnings[0][1] and (again.known, again.warnings) == (2, first.warnings)


def test_a_project_is_for_the_lines_that_name_none(ledger: Ledger, tmp_path: Path) -> None:
    path = jsonl(tmp_path / "turns.jsonl", {"prompt": "one"}, {"prompt": "two", "project": "own"})
    ledger.interactions.import_file(path, project="given", occurred_at="2020-01-01")
    assert [(each.project, each.occurred_at[:10]) for each in ledger.interactions.list()] == [
        ("own", "2020-01-01"),
        ("given", "2020-01-01"),
    ]


def test_a_compressed_file_and_an_empty_one(ledger: Ledger, tmp_path: Path) -> None:
    path = tmp_path / "turns.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"prompt": "one"}\n'))
    assert ledger.interactions.import_file(path).captured == 1
    empty = jsonl(tmp_path / "empty.jsonl")
    assert ledger.interactions.import_file(empty).lines == 0
    whole = path.read_bytes()
    for broken in (whole[:-9], b"not gzip", whole[:12] + b"\xff\xff\xff" + whole[15:]):
        path.write_bytes(broken)
        with pytest.raises(StorageError):
            ledger.interactions.import_file(path)
    with pytest.raises(NotFoundError):
        ledger.interactions.import_file(tmp_path / "none.jsonl")


def test_progress_is_told(ledger: Ledger, tmp_path: Path) -> None:
    path = jsonl(tmp_path / "turns.jsonl", *({"prompt": f"turn {number}"} for number in range(1_001)))
    told: list[tuple[int, int]] = []
    ledger.interactions.import_file(path, progress=lambda done, total: told.append((done, total)))
    assert told == [(1_000, 1_001), (1_001, 1_001)]


def test_conversations_become_pairs_of_turns(ledger: Ledger, tmp_path: Path) -> None:
    def turn(number: int, session: str, speaker: str, **more: str) -> dict[str, str]:
        return {"session": session, "dia_id": f"D{number}", "speaker": speaker, "text": f"text {number}", **more}

    conversations = [
        {
            "sample_id": "garden",
            "turns": [
                turn(1, "1", "Ann", date_time="1:56 pm on 8 May, 2023"),
                turn(2, "1", "Ben"),
                turn(3, "1", "Ann"),
                turn(4, "2", "Ben"),
                turn(5, "2", "Ann"),
            ],
        },
        {"sample_id": "broken", "turns": "none"},
        {"sample_id": "shed", "turns": [turn(1, "1", "Cat")]},
    ]
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps(conversations), encoding="utf-8")
    report = ledger.interactions.import_file(path)
    assert (report.captured, [number for number, _ in report.errors]) == (4, [4])
    told = [(each.prompt, each.response, each.project, each.session) for each in reversed(ledger.interactions.list())]
    assert told == [
        ("Ann: text 1", "Ben: text 2", "garden", "garden/1"),
        ("Ann: text 3", "", "garden", "garden/1"),
        ("Ben: text 4", "Ann: text 5", "garden", "garden/2"),
        ("Cat: text 1", "", "shed", "shed/1"),
    ]
    first = ledger.interactions.list()[-1]
    assert first.occurred_at == "2023-05-08T13:56:00.000000Z"
    assert first.context == {"turns": ["D1", "D2"], "line_id": "garden/D1"}
    assert ledger.interactions.import_file(path).known == 4
    assert {each.client for each in ledger.interactions.list()} == {"conversation"}
    for broken in ("[", "[{]", "[" * 100_000):
        path.write_text(broken, encoding="utf-8")
        with pytest.raises(LedgerError):
            ledger.interactions.import_file(path)


@pytest.mark.parametrize(
    ("told", "taken"),
    [
        ("2023-05-08T13:56:00+02:00", "2023-05-08T13:56:00.000000+02:00"),
        ("2023-05-08T13:56Z", "2023-05-08T13:56:00.000000Z"),
        ("2023-05-08T13:56:00", "2023-05-08T13:56:00.000000Z"),
        ("2023-05-08 13:56", "2023-05-08T13:56:00.000000Z"),
        ("2023-05-08", "2023-05-08T00:00:00.000000Z"),
        ("May-08-2023", "2023-05-08T00:00:00.000000Z"),
    ],
)
def test_the_time_of_a_conversation_is_taken_as_it_is_written(
    ledger: Ledger, tmp_path: Path, told: str, taken: str
) -> None:
    path = tmp_path / "conversations.json"
    path.write_text(
        json.dumps([{"sample_id": "garden", "turns": [{"text": "Hello.", "date_time": told}]}]), encoding="utf-8"
    )
    ledger.interactions.import_file(path)
    assert [each.occurred_at for each in ledger.interactions.list()] == [taken]


def test_a_role_is_no_name_so_that_no_answer_of_an_assistant_is_told_as_a_threat(
    ledger: Ledger, tmp_path: Path
) -> None:
    path = tmp_path / "conversations.json"
    turns = [{"speaker": "user", "text": "Where is the tea?"}, {"speaker": "Assistant", "text": "In the tin."}]
    path.write_text(
        json.dumps([{"sample_id": "garden", "turns": turns}, {"turns": [{"text": "One."}, {"text": "Two."}]}]),
        encoding="utf-8",
    )
    ledger.interactions.import_file(path)
    found = [(each.prompt, each.response, each.quarantined) for each in ledger.interactions.list()]
    assert found == [("One.", "Two.", False), ("Where is the tea?", "In the tin.", False)]


def test_a_bound_client_is_that_of_the_turns_that_name_none(ledger: Ledger, tmp_path: Path) -> None:
    path = tmp_path / "conversations.json"
    turns = [{"session": "1", "text": "One."}, {"session": "2", "text": "Two.", "client": "phone"}]
    path.write_text(json.dumps([{"sample_id": "garden", "turns": turns}]), encoding="utf-8")
    assert ledger.bind(client="desk").interactions.import_file(path).captured == 2
    assert [each.client for each in ledger.interactions.list()] == ["phone", "desk"]
    assert ledger.interactions.import_file(path).known == 2


# --- the log itself --------------------------------------------------------------------------------------------------


@pytest.fixture
def lived(ledger: Ledger) -> Ledger:
    """A ledger that something of everything happened to."""
    fact = ledger.bind(user="ada").remember("Tea is in the tin.", project="kitchen", idempotency_key="k")
    ledger.bind(user="ada").supersede(fact.id, "Tea is in the jar.")
    ledger.bind(user="ada").undo(ledger.position)
    turn = ledger.capture("Where? " + "ä" * 200_000, "x" * 300_000, session="s\0\u202e")
    ledger.remember("Milk is in the jug.", sources=(turn.id,))
    ledger.projects.set_state("kitchen", "status", "phase", "one")
    with pytest.raises(RejectedError):
        ledger.promote(ledger.retract(ledger.remember("Gone.").id).id)
    return ledger


@pytest.mark.slow
def test_an_exported_log_comes_back_as_the_same_ledger(lived: Ledger, tmp_path: Path) -> None:
    report = lived.maintenance.export_log(tmp_path / "export.jsonl")
    assert (report.events, report.blobs, report.bytes_) == (
        lived.position,
        2,
        (tmp_path / "export.jsonl").stat().st_size,
    )
    assert stat.S_IMODE(os.stat(report.path).st_mode) == 0o600
    Ledger.import_log(report.path, tmp_path / "copy.db")
    with Ledger.open(tmp_path / "copy.db") as copy:
        assert (copy.id, copy.position, copy.proof.digest()) == (lived.id, lived.position, lived.proof.digest())
        assert (copy.maintenance.stats().head, list(probe.store(copy).rows())) == (
            lived.maintenance.stats().head,
            list(probe.store(lived).rows()),
        )
        assert copy.interactions.list() == lived.interactions.list()
        assert copy.bind(user="ada").remember("Tea is in the tin.", project="kitchen", idempotency_key="k").replayed
        assert copy.position == lived.position
    assert stat.S_IMODE(os.stat(tmp_path / "copy.db").st_mode) == 0o600


@pytest.mark.slow
def test_an_export_never_overwrites_and_an_import_takes_no_taken_place(lived: Ledger, tmp_path: Path) -> None:
    export = tmp_path / "export.jsonl"
    lived.maintenance.export_log(export)
    content = export.read_bytes()
    with pytest.raises(RejectedError, match="never overwrites"):
        lived.maintenance.export_log(export)
    with pytest.raises(RejectedError):
        Ledger.import_log(export, lived.path)
    with pytest.raises(RejectedError):
        Ledger.import_log(export, export)
    assert export.read_bytes() == content
    with pytest.raises(NotFoundError):
        lived.maintenance.export_log(tmp_path / "nowhere" / "export.jsonl")
    with pytest.raises(NotFoundError):
        Ledger.import_log(tmp_path / "none.jsonl", tmp_path / "copy.db")


def changed(lines: list[str], number: int, **fields: Any) -> list[str]:
    return [*lines[:number], json.dumps(json.loads(lines[number]) | fields), *lines[number + 1 :]]


EDITS = {
    "empty": lambda lines: [],
    "no header": lambda lines: lines[1:],
    "header alone": lambda lines: lines[:1],
    "header of nothing": lambda lines: changed(lines[:1], 0, events=0),
    "header without a number": lambda lines: changed(lines, 0, events="many"),
    "cut in a line": lambda lines: [*lines[:-1], lines[-1][:50]],
    "cut after a line": lambda lines: lines[:6],
    "without a blob": lambda lines: lines[:-1],
    "without an event": lambda lines: [*lines[:3], *lines[4:]],
    "events out of order": lambda lines: [*lines[:3], lines[4], lines[3], *lines[5:]],
    "an edited text": lambda lines: [line.replace("Tea is in the jar.", "Tea is in the can.") for line in lines],
    "an edited digest": lambda lines: changed(lines, 3, digest="00" * 32),
    "an edited head": lambda lines: changed(lines, 3, head="00" * 32),
    "a head that is none": lambda lines: changed(lines, 3, head="zz"),
    "a null": lambda lines: changed(lines, 3, stream=None),
    "a text for a position": lambda lines: changed(lines, 3, position="three"),
    "an edited blob": lambda lines: changed(lines, len(lines) - 1, data="AAAA"),
    "a blob that is no base64": lambda lines: changed(lines, len(lines) - 1, data="!"),
    "a blob without data": lambda lines: [*lines[:-1], '{"blob": "b_1"}'],
    "no JSON": lambda lines: [*lines, "nonsense"],
    "no object": lambda lines: [*lines, "[1]"],
}


@pytest.mark.slow
def test_an_export_that_was_cut_or_edited_leaves_nothing_behind(lived: Ledger, tmp_path: Path) -> None:
    lived.maintenance.export_log(tmp_path / "export.jsonl")
    lines = (tmp_path / "export.jsonl").read_text(encoding="utf-8").splitlines()
    taken = []
    for name, edit in EDITS.items():
        (tmp_path / "edited.jsonl").write_text("\n".join(edit(lines)) + "\n", encoding="utf-8")
        with suppress(LedgerError):
            Ledger.import_log(tmp_path / "edited.jsonl", tmp_path / "copy.db")
            taken.append(name)
        assert not list(tmp_path.glob("copy.db*")), name
    assert taken == []


# --- large texts -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    ["x" * 262_144, "x" * 262_145, "ä" * 153_600, "x" * (1024 * 1024 + 1), "\0" * 300_000, "x" * (10 * 1024 * 1024)],
    ids=["256 KiB", "256 KiB + 1 byte", "300 KiB", "1 MiB + 1 byte", "NUL", "10 MiB"],
)
def test_a_large_text_comes_back_exactly(ledger: Ledger, text: str) -> None:
    turn = ledger.capture(text, reinforce=False)
    assert turn.prompt == text
    answered = ledger.interactions.add_response(ledger.capture("?").id, text[:1_500_000])
    assert answered.response == text[:1_500_000]
    with probe.store(ledger).snapshot() as connection:
        (size,) = connection.execute("SELECT max(length(state)) FROM events").fetchone()
    assert size < 1024 * 1024


def test_a_message_is_ten_mebibytes_at_the_most(ledger: Ledger) -> None:
    for name in ("prompt", "response", "summary"):
        given = {"prompt": "?"} | {name: "ä" * (5 * 1024 * 1024) + "x"}
        with pytest.raises(RejectedError, match="10,485,760") as refusal:
            ledger.capture(**given)  # type: ignore[arg-type]
        assert (refusal.value.rule, refusal.value.limit, refusal.value.requested) == ("size", 10_485_760, 10_485_761)


def test_a_large_text_is_searched_like_a_small_one(ledger: Ledger) -> None:
    fact = ledger.remember("The user prefers dark roast coffee.", kind="preference")
    turn = ledger.capture("?", "filler. " * 50_000 + "\nDecision: the user prefers dark roast coffee.")
    assert [each.reference_count for each in ledger.memories.list()] == [1]
    report = ledger.extract(turn.id)
    assert [each.content for each in report.kept] == ["the user prefers dark roast coffee"]
    assert ledger.review()[0].provenance.quote == "Decision: the user prefers dark roast coffee"  # type: ignore[union-attr]
    assert fact.id not in {each.memory.id for each in ledger.review()}


def test_a_key_of_another_product_is_a_conflict_no_error(ledger: Ledger, tmp_path: Path) -> None:
    path = jsonl(tmp_path / "turns.jsonl", {"prompt": "one"})
    ledger.interactions.import_file(path)
    with pytest.raises(ConflictError):
        key = probe.store(ledger).rows()[-1].key
        assert key is not None
        ledger.capture("two", idempotency_key="k")
        ledger.capture("three", idempotency_key="k")


# --- dates -----------------------------------------------------------------------------------------------------------


def chat(path: Path, *dates: object) -> Path:
    turns = [
        {"session": str(at), "dia_id": f"D{at}", "text": f"text {at}", "date_time": date}
        for at, date in enumerate(dates)
    ]
    path.write_text(json.dumps([{"sample_id": "garden", "turns": turns}]), encoding="utf-8")
    return path


GERMAN = "29.12.2023, 22:42:04"


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("date", [GERMAN, "12/29/2023", "03.04.2023", "nobody knows", 7, {"day": 1}])
def test_a_date_that_cannot_be_read_refuses_the_file_with_its_line(
    ledger: Ledger, tmp_path: Path, date: object, strict: bool
) -> None:
    path = chat(tmp_path / "talk.json", "2023-12-29", date, "2023-12-30")
    with pytest.raises(
        RejectedError, match=r"line 2 of talk\.json: .*dates=.*%d\.%m\.%Y, %H:%M:%S.*nothing was written"
    ):
        ledger.interactions.import_file(path, strict=strict, occurred_at="2020-01-01")
    assert ledger.position == 0 or not ledger.interactions.list()


def test_a_format_says_how_dates_are_read(ledger: Ledger, tmp_path: Path) -> None:
    report = ledger.interactions.import_file(chat(tmp_path / "talk.json", GERMAN), dates="%d.%m.%Y, %H:%M:%S")
    assert (report.captured, report.error_count) == (1, 0)
    assert ledger.interactions.list()[0].occurred_at == "2023-12-29T22:42:04.000000Z"
    lines = jsonl(
        tmp_path / "turns.jsonl", {"prompt": "one", "occurred_at": "3.4.2023"}, {"prompt": "two", "occurred_at": "x"}
    )
    told = ledger.interactions.import_file(lines, dates="%d.%m.%Y")
    assert ledger.interactions.list()[0].occurred_at == "2023-04-03T00:00:00.000000Z"
    assert [number for number, _ in told.errors] == [2] and "%d.%m.%Y" in told.errors[0][1]


def test_with_a_format_no_date_is_read_in_another(ledger: Ledger, tmp_path: Path) -> None:
    with pytest.raises(RejectedError, match=r"line 1 of talk\.json"):
        ledger.interactions.import_file(chat(tmp_path / "talk.json", "2023-05-13"), dates="%Y-%d-%m")


@pytest.mark.parametrize("dates", ["", "dd.mm.yyyy", "%q", "%H:%M", "%d.%m.", 7])
def test_a_format_without_a_day_month_and_year_is_refused(ledger: Ledger, tmp_path: Path, dates: Any) -> None:
    with pytest.raises(RejectedError, match="dates must be a format"):
        ledger.interactions.import_file(chat(tmp_path / "talk.json", "2023-05-13"), dates=dates)


@pytest.mark.parametrize(
    ("date", "taken"),
    [
        (1703889724, "2023-12-29T22:42:04.000000Z"),
        (1703889724.5, "2023-12-29T22:42:04.500000Z"),
        (1703889724500, "2023-12-29T22:42:04.500000Z"),
        ("1703889724", "2023-12-29T22:42:04.000000Z"),
        ("1703889724500", "2023-12-29T22:42:04.500000Z"),
        ("2023/12/29 22:42", "2023-12-29T22:42:00.000000Z"),
        ("2023-12-29, 22:42:04", "2023-12-29T22:42:04.000000Z"),
        ("Fri, 29 Dec 2023 22:42:04 +0100", "2023-12-29T22:42:04.000000+01:00"),
        ("Dec 29, 2023, 10:42 PM", "2023-12-29T22:42:00.000000Z"),
        ("29 December 2023", "2023-12-29T00:00:00.000000Z"),
        ("Fri Dec 29 22:42:04 2023", "2023-12-29T22:42:04.000000Z"),
    ],
)
def test_dates_that_have_one_meaning_are_read(ledger: Ledger, tmp_path: Path, date: object, taken: str) -> None:
    ledger.interactions.import_file(chat(tmp_path / "talk.json", date))
    assert ledger.interactions.list()[0].occurred_at == taken


def test_a_turn_without_a_date_has_that_of_its_answer_or_the_time_of_the_call(ledger: Ledger, tmp_path: Path) -> None:
    turns = [{"text": "Tea?"}, {"text": "Yes.", "date_time": "2023-12-29"}, {"text": "Milk?", "date_time": " "}]
    (tmp_path / "talk.json").write_text(json.dumps([{"sample_id": "garden", "turns": turns}]), encoding="utf-8")
    ledger.interactions.import_file(tmp_path / "talk.json", occurred_at="2020-01-01")
    assert [turn.occurred_at[:10] for turn in ledger.interactions.list()] == ["2020-01-01", "2023-12-29"]


@pytest.mark.parametrize("key", [None, "00" * 16])
def test_an_export_with_another_key_of_an_event_is_refused(ledger: Ledger, tmp_path: Path, key: str | None) -> None:
    ledger.remember("The user likes tea.", idempotency_key="one")
    ledger.maintenance.export_log(tmp_path / "log.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    assert lines[2]["key"] is not None
    jsonl(tmp_path / "changed.jsonl", *lines[:2], lines[2] | {"key": key}, *lines[3:])
    with pytest.raises(RejectedError, match="position 2: the row has another key than its state names"):
        Ledger.import_log(tmp_path / "changed.jsonl", tmp_path / "new.db")
    assert not (tmp_path / "new.db").exists()
